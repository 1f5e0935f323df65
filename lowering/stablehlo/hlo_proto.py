"""to_hlo_proto: a computation as XLA's protocol buffer."""

from __future__ import annotations

from typing import Final

from builder.errors import OperandError, brief, error_of
from builder.graph.computation import XlaComputation
from lowering.jaxlib_api import hlo_conversion
from lowering.reading.protocol_buffers import replaced

_MODULE_ID: Final = 5
"""The number of the field `id` in HloModuleProto."""


def to_hlo_proto(computation: XlaComputation) -> bytes:
    """Return a computation as the bytes of XLA's HloModuleProto, with names and source lines.

    Tools of XLA read this form, and so does `lowering.from_hlo`. Equal computations give equal
    bytes. For programs with other versions of XLA, save a portable artifact instead, with
    `StablehloModule.save`.

    Args:
        computation: an XlaComputation.

    Raises:
        OperandError: `computation` is not an XlaComputation.
        ShapeInferenceError: tuples nest deeper than XLA's parser reads.

    Example:
        >>> import builder as xb
        >>> import lowering
        >>> @xb.computation(xb.f32[2])
        ... def double(x):
        ...     return x + x
        >>> lowering.from_hlo(lowering.to_hlo_proto(double)).program_shape
        (x: f32[2]) -> f32[2]
    """
    if not isinstance(computation, XlaComputation):
        rule = "computation must be an XlaComputation"
        raise error_of(OperandError, "to_hlo_proto", rule, got=brief(computation))
    return proto_of_text(computation.to_hlo_text(metadata=True))


def proto_of_text(text: str) -> bytes:
    """Return the HloModuleProto of HLO text that this library or XLA has printed."""
    proto = hlo_conversion.hlo_proto(text)
    # XLA numbers the modules of a process; without the number, equal modules are equal bytes.
    return replaced(memoryview(proto), (_MODULE_ID,), lambda _: b"")
