"""Rules for transfers to and from the host, custom calls and Python calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from builder.attributes import CustomCallApiVersion, CustomCallSchedule
from builder.attributes.host import ffi_dictionary
from builder.graph.xla_op import XlaOp
from builder.hlo_text.printer import Instruction, Printer, rule
from builder.hlo_text.syntax import quoted, with_layout
from builder.schema.kinds import braces
from builder.types import primitive_type as pt
from builder.types.shape import TOKEN_SHAPE, TupleShape, intern_array


@rule("infeed")
def _infeed(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Instruction:
    return opcode, operands, _config("infeed_config", op.attributes)


@rule("outfeed")
def _outfeed(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Instruction:
    shape = with_layout(op.attributes["outfeed_shape"])
    return opcode, operands, f", outfeed_shape={shape}{_config('outfeed_config', op.attributes)}"


def _config(name: str, attributes: Mapping[str, Any]) -> str:
    return f", {name}={quoted(attributes[name])}" if attributes[name] else ""


@rule("send", "recv")
def _transfer(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Instruction:
    """Print two instructions: the start of the transfer, and the wait for its end."""
    channel = op.attributes["channel_handle"]
    rest = f", channel_id={channel.handle}"
    if op.attributes["is_host_transfer"]:
        rest += ", is_host_transfer=true"
    # The data, the transfer number and a token; the operand of the "done" instruction alone.
    context = TupleShape((op.attributes["data_shape"], intern_array(pt.u32, ()), TOKEN_SHAPE))
    started = printer.helper(op, "start", context, opcode, operands, rest)
    return f"{opcode}-done", started, rest


@rule("custom_call")
def _custom_call(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Instruction:
    attributes = op.attributes
    rest = f", custom_call_target={quoted(attributes['call_target_name'])}"
    layouts = attributes["operand_shapes_with_layout"]
    if layouts is not None:
        rest += f", operand_layout_constraints={{{', '.join(map(with_layout, layouts))}}}"
    if attributes["has_side_effect"]:
        rest += ", custom_call_has_side_effect=true"
    if attributes["output_operand_aliasing"]:
        aliases = ", ".join(
            f"{braces(a.output_index)}: ({a.operand_number}, {braces(a.operand_index)})"
            for a in attributes["output_operand_aliasing"]
        )
        rest += f", output_to_operand_aliasing={{{aliases}}}"
    if "to_apply" in attributes:
        rest += f", called_computations={{{printer.called(attributes['to_apply'])}}}"
    if attributes["schedule"] is not CustomCallSchedule.SCHEDULE_NONE:
        rest += f", schedule={attributes['schedule'].name}"
    version, opaque = attributes["api_version"], attributes["opaque"]
    if version is not CustomCallApiVersion.API_VERSION_ORIGINAL:
        rest += f", api_version={version.name}"
    if opaque:
        # An MLIR dictionary is not quoted.
        is_typed = version is CustomCallApiVersion.API_VERSION_TYPED_FFI and opaque.startswith("{")
        rest += f", backend_config={opaque if is_typed else quoted(opaque)}"
    return opcode, operands, rest


@rule("python_call")
def _python_call(printer: Printer, op: XlaOp, opcode: str, operands: str) -> Instruction:
    """Print a custom call with the name of the function, which HLO text can't contain."""
    rest = ', custom_call_target="xlabuilder.python_call"'
    if op.attributes["has_side_effect"]:
        rest += ", custom_call_has_side_effect=true"
    name = ffi_dictionary("python_call", {"name": op.attributes["name"]})
    rest += f", api_version=API_VERSION_TYPED_FFI, backend_config={name}"
    return opcode, operands, rest
