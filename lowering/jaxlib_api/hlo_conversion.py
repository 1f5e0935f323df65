"""HLO text and HloModuleProtos: parse them, and convert them to StableHLO and back."""

from __future__ import annotations

import importlib
import re
from typing import Any, Final

from lowering.jaxlib_api.mlir import UnreadableModuleError
from lowering.jaxlib_api.native import jax_extension, xla_client


def hlo_text_to_stablehlo(text: str) -> bytes:
    """Convert HLO text to a StableHLO module in MLIR bytecode.

    Instructions that StableHLO does not have become operations of mhlo. Tuples in the entry's
    parameters and result are flattened.

    Raises:
        jax.errors.JaxRuntimeError: the text is not HLO.
    """
    code: bytes = jax_extension.mlir.hlo_to_stablehlo(hlo_proto(text))
    return code


def hlo_proto(text: str) -> bytes:
    """Convert HLO text to a HloModuleProto.

    Raises:
        jax.errors.JaxRuntimeError: the text is not HLO.
    """
    proto: bytes = xla_client.hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    return proto


def hlo_proto_text(proto: bytes, print_options: Any = None) -> str:
    """Return the HLO text of a HloModuleProto, which must be valid: XLA aborts on some damage.

    Args:
        proto: the bytes.
        print_options: jaxlib's HloPrintOptions, or None for the default ones.
    """
    module = xla_client.hlo.HloModule.from_serialized_hlo_module_proto(proto)
    text: str = module.to_string() if print_options is None else module.to_string(print_options)
    return text


_HLO_POSITION: Final = re.compile(r"was parsing (\d+):(\d+): error: (.*)")


def checked_hlo_proto(source: bytes) -> bytes:
    """Convert HLO text in UTF-8 to a HloModuleProto.

    Deeply nested brackets in the text crash the process.

    Raises:
        UnreadableModuleError: XLA refuses the text.
    """
    try:
        return hlo_proto(source.decode())
    except (UnicodeDecodeError, RuntimeError, ValueError) as error:
        raise _unreadable(error) from None


def hlo_program(source: bytes) -> bytes:
    """Convert HLO text or a HloModuleProto to a StableHLO module.

    Damaged HLO, and some valid HLO, crashes the process.

    Returns:
        A line of JSON, followed by MLIR bytecode. "parameters" and "result" in the JSON are the
        shapes of the entry computation, as XLA prints them with layouts.

    Raises:
        UnreadableModuleError: XLA refuses the HLO, or can't convert it to StableHLO.
    """
    json: Any = importlib.import_module("json")
    code = source if is_hlo_proto(source) else checked_hlo_proto(source)
    try:
        shape = xla_client.XlaComputation(code).program_shape()
        parameters = [str(parameter) for parameter in shape.parameter_shapes()]
        head = {"parameters": parameters, "result": str(shape.result_shape())}
        converted: bytes = jax_extension.mlir.hlo_to_stablehlo(code)
    except (UnicodeDecodeError, RuntimeError, ValueError) as error:
        raise _unreadable(error) from None
    return bytes(json.dumps(head).encode() + b"\n" + converted)


def _unreadable(error: Exception) -> UnreadableModuleError:
    """Convert an exception of XLA to an UnreadableModuleError with its reason and position."""
    if isinstance(error, UnicodeDecodeError):
        return UnreadableModuleError("XLA's report is not valid UTF-8")
    report = str(error)
    place = _HLO_POSITION.search(report)
    if place is not None:
        return UnreadableModuleError(place[3], int(place[1]), int(place[2]), report)
    lines = report.strip().splitlines() or ["no reason"]
    reason = re.sub(r"^(?:[A-Z_]+: )+", "", lines[0])
    return UnreadableModuleError(reason, detail=report)


def is_hlo_proto(source: bytes) -> bool:
    """Return whether `source` is a HloModuleProto, which begins with a name field, and not text."""
    return source.startswith(b"\n") and any(byte < 9 or 13 < byte < 32 for byte in source[:4096])


def parsed_hlo_text(text: str) -> str:
    """Parse HLO text with XLA and print it again.

    Raises:
        jax.errors.JaxRuntimeError: the text is not HLO.
    """
    parsed: str = xla_client.hlo.hlo_module_from_text(text).to_string()
    return parsed


def stablehlo_to_hlo_text(module_bytecode: bytes) -> str:
    """Translate a StableHLO module to HLO text, without optimizations."""
    computation = jax_extension.mlir.mlir_module_to_xla_computation(module_bytecode, False, False)
    text: str = computation.as_hlo_text()
    return text


def serialized_sharding_count(data: bytes) -> int | None:
    """Return the number of arrays that a serialized `OpSharding` is for; None for other bytes."""
    sharding = xla_client.OpSharding()
    sharding.ParseFromString(data)  # it reads nothing from other bytes, without an error
    if sharding.SerializeToString() != data:
        return None
    is_tuple = sharding.type == xla_client.OpSharding.Type.TUPLE
    return len(sharding.tuple_shardings) if is_tuple else 1
