"""XlaComputation and HloModule of the old binding, around `builder.XlaComputation`."""

from __future__ import annotations

import hashlib
from typing import Any

import builder as xb
from builder.errors import OperandError, brief, error_of
from lowering.importer.hlo import from_hlo
from lowering.jaxlib_api.hlo_conversion import hlo_proto_text
from lowering.stablehlo.hlo_proto import proto_of_text, to_hlo_proto
from lowering.xla_client.errors import reporting
from lowering.xla_client.shapes import ProgramShape


class HloModule:
    """An HLO module as text."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    @property
    def name(self) -> str:
        """The name of the module."""
        return self._text.split(None, 2)[1].rstrip(",")

    @staticmethod
    def from_serialized_hlo_module_proto(proto: bytes) -> HloModule:
        """Return the module of a HloModuleProto."""
        return XlaComputation(proto).get_hlo_module()

    @reporting("to_string")
    def to_string(self, options: object = None) -> str:
        """Return HLO text, as XLA prints it with an HloPrintOptions."""
        if options is None:
            return self._text
        return hlo_proto_text(self.as_serialized_hlo_module_proto(), options)

    def as_serialized_hlo_module_proto(self) -> bytes:
        """Return a HloModuleProto."""
        return proto_of_text(self._text)


class XlaComputation:
    """A computation that an XlaBuilder has built; `new` is the `builder.XlaComputation`.

    Args:
        proto: a HloModuleProto.

    Example:
        >>> from lowering import xla_client as xc
        >>> b = xc.XlaBuilder("two")
        >>> x = xc.ops.Parameter(b, 0, xc.Shape("f32[2]"))
        >>> xc.ops.Add(x, x).opcode
        'add'
        >>> b.build().program_shape()
        (p0: f32[2]) -> f32[2]
    """

    __slots__ = ("_proto", "new")

    new: xb.XlaComputation
    _proto: bytes | None

    @reporting("XlaComputation")
    def __init__(self, proto: bytes) -> None:
        if not isinstance(proto, bytes):
            rule = "expected the bytes of a HloModuleProto"
            raise error_of(OperandError, "XlaComputation", rule, got=brief(proto))
        self.new = from_hlo(proto)
        self._proto = proto

    @classmethod
    def of(cls, new: xb.XlaComputation) -> XlaComputation:
        """Return the old form of a computation of `builder`."""
        computation = cls.__new__(cls)
        computation.new = new
        computation._proto = None
        return computation

    def name(self) -> str:
        """Return the name of the computation."""
        return self.new.name

    def program_shape(self) -> ProgramShape:
        """Return the shapes of the parameters and the result."""
        return ProgramShape.of(self.new.program_shape)

    def as_hlo_text(self, print_large_constants: bool = False) -> str:
        """Return HLO text; constants are complete in any case."""
        return self.new.to_hlo_text()

    def get_hlo_module(self) -> HloModule:
        """Return the computation as an HloModule; that of the proto, if it was read from one."""
        if self._proto is not None:
            return HloModule(hlo_proto_text(self._proto))
        return HloModule(self.new.to_hlo_text(metadata=True))

    as_hlo_module = get_hlo_module

    def as_serialized_hlo_module_proto(self) -> bytes:
        """Return a HloModuleProto."""
        return to_hlo_proto(self.new) if self._proto is None else self._proto

    def as_hlo_dot_graph(self) -> str:
        """Return the graph of the ops in the language of Graphviz."""
        lines = [f'  {op.id} [label="{op.opcode}\\n{op.shape}"];' for op in self.new.ops]
        lines += [f"  {operand.id} -> {op.id};" for op in self.new.ops for operand in op.operands]
        return "\n".join(["digraph G {", *lines, "}"])

    def hash(self) -> int:
        """Return a number of 64 bits that is equal for equal HLO text."""
        digest = hashlib.blake2b(self.as_hlo_text().encode(), digest_size=8)
        return int.from_bytes(digest.digest(), "little")

    def __repr__(self) -> str:
        return f"<XlaComputation {self.name()!r} {self.program_shape()!r}>"


def new_computation(op: str, value: Any) -> xb.XlaComputation:
    """Return the `builder.XlaComputation` of an old or new computation.

    Raises:
        OperandError: `value` is neither.
    """
    if isinstance(value, XlaComputation):
        return value.new
    if isinstance(value, xb.XlaComputation):
        return value
    rule = "expected an XlaComputation"
    raise error_of(
        OperandError, op, rule, "pass the result of XlaBuilder.build()", got=brief(value)
    )
