"""HLO text and HloModuleProtos: parse them, and convert them to StableHLO and back."""

from __future__ import annotations

import importlib
import re
from typing import Any, Final

from lowering.jaxlib_api.mlir import UnreadableModuleError
from lowering.jaxlib_api.native import jax_extension, xla_client

__all__ = [
    "hlo_program",
    "hlo_proto",
    "hlo_text_to_stablehlo",
    "is_hlo_proto",
    "parsed_hlo_text",
    "stablehlo_to_hlo_text",
]


def hlo_text_to_stablehlo(text: str) -> bytes:
    """MLIR bytecode of the StableHLO module that HLO text means.

    XLA's own parser reads the text. What StableHLO lacks comes out as operations of mhlo. Tuples
    among the entry's parameters and in its result are flattened.

    Raises:
        jax.errors.JaxRuntimeError: the text is not HLO.
    """
    code: bytes = jax_extension.mlir.hlo_to_stablehlo(hlo_proto(text))
    return code


def hlo_proto(text: str) -> bytes:
    """The HloModuleProto of HLO text.

    Raises:
        jax.errors.JaxRuntimeError: the text is not HLO.
    """
    proto: bytes = xla_client.hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    return proto


_HLO_POSITION: Final = re.compile(r"was parsing (\d+):(\d+): error: (.*)")


def hlo_program(source: bytes) -> bytes:
    """The program in HLO text, or in an HloModuleProto, as `hlo_text_to_stablehlo` gives it.

    Damaged HLO, and some that is right, ends the process.

    Returns:
        A line of JSON: "parameters", the shapes of the entry's parameters as XLA writes them, with
        layouts, and "result", that of its result. Behind it the bytecode.

    Raises:
        UnreadableModuleError: XLA refuses it, or it can't be said in MLIR.
    """
    json: Any = importlib.import_module("json")
    try:
        code = source if is_hlo_proto(source) else hlo_proto(source.decode())
        shape = xla_client.XlaComputation(code).program_shape()
        parameters = [str(one) for one in shape.parameter_shapes()]
        head = {"parameters": parameters, "result": str(shape.result_shape())}
        converted: bytes = jax_extension.mlir.hlo_to_stablehlo(code)
    except UnicodeDecodeError:
        raise UnreadableModuleError("its report is no text", None, None, "") from None
    except (RuntimeError, ValueError) as error:  # RuntimeError: jax.errors.JaxRuntimeError
        report = str(error)
        place = _HLO_POSITION.search(report)
        if place is not None:
            raise UnreadableModuleError(place[3], int(place[1]), int(place[2]), report) from None
        lines = report.strip().splitlines() or ["no reason"]
        raise UnreadableModuleError(
            re.sub(r"^(?:[A-Z_]+: )+", "", lines[0]), None, None, report
        ) from None
    return bytes(json.dumps(head).encode() + b"\n" + converted)


def is_hlo_proto(source: bytes) -> bool:
    """Whether bytes that hold HLO are a protocol buffer, and not text: each begins with a name."""
    return source.startswith(b"\n") and any(byte < 9 or 13 < byte < 32 for byte in source[:4096])


def parsed_hlo_text(text: str) -> str:
    """HLO text as XLA prints it after its own parser has read it.

    Raises:
        jax.errors.JaxRuntimeError: the text is not HLO.
    """
    parsed: str = xla_client.hlo.hlo_module_from_text(text).to_string()
    return parsed


def stablehlo_to_hlo_text(module_bytecode: bytes) -> str:
    """HLO text of a StableHLO module, as XLA translates it before it optimizes."""
    computation = jax_extension.mlir.mlir_module_to_xla_computation(module_bytecode, False, False)
    text: str = computation.as_hlo_text()
    return text
