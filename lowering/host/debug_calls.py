"""The custom calls of prints and checks in a module, and what they do with arrays."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from builder.attributes.host import CHECK_TARGET, DEBUG_TARGETS
from builder.ops.debugging import format_message
from builder.types.shape import ArrayShape
from lowering.errors import CompileError, ExecutionError, LoweringError, recorded_at
from lowering.mlir.operations import attribute_text, call_target, operations_where
from lowering.mlir.types import shape_of_type


def may_debug(strings: bytes) -> bool:
    """Whether a module may contain prints or checks; `strings` are those of its bytecode."""
    return any(target.encode() in strings for target in DEBUG_TARGETS)


def debug_calls(module: ir.Operation) -> list[ir.Operation]:
    """List the custom calls of prints and checks, in the order of the program."""
    return operations_where(module, lambda each: call_target(each) in DEBUG_TARGETS)


def public_name(call: ir.Operation) -> str:
    """The name of the function that recorded a call."""
    return "check" if call_target(call) == CHECK_TARGET else "debug_print"


def operand_shapes(call: ir.Operation) -> list[ArrayShape]:
    """The shapes of a call's operands, which are arrays.

    Raises:
        LoweringError: a call of another tool has another operand.
    """
    shapes = [shape_of_type(operand.type) for operand in call.operands]
    arrays = [shape for shape in shapes if isinstance(shape, ArrayShape)]
    if len(arrays) != len(shapes):
        rule = f"{public_name(call)}{recorded_at(call.location)} must have arrays as operands"
        raise LoweringError(rule, op=public_name(call))
    return arrays


def debug_function(call: ir.Operation, computation: str) -> Callable[[Sequence[Any], str], None]:
    """Return a function that prints or checks arrays.

    It takes the arrays, and a text that begins the message.

    Args:
        call: the custom call.
        computation: the name of the computation, for messages.

    Raises:
        CompileError: the call, from a file of another tool, has no message for its operands.
    """
    name, place = public_name(call), recorded_at(call.location)
    is_check = name == "check"
    config = call.attributes.get("backend_config")
    text = None
    if isinstance(config, ir.DictAttr) and "message" in config:
        text = attribute_text(config["message"])

    def message(arrays: Sequence[Any]) -> str:
        return format_message(text or "", arrays[1:] if is_check else arrays)

    try:
        shapes = operand_shapes(call)
        samples = [np.zeros(s.dimensions, s.element_type.dtype) for s in shapes]
        message(samples)
        is_valid = text is not None and (not is_check or samples[0].dtype == bool)
    except (ValueError, IndexError, LoweringError):
        is_valid = False
    if not is_valid:
        raise CompileError(
            f"{name}{place} must have a message with a field for each operand",
            got=str(config),
            context=("compile", computation),
            fix="record it with xb.debug_print or xb.check",
            op=name,
        )

    def run(arrays: Sequence[Any], prefix: str) -> None:
        if not is_check:
            sys.stdout.write(f"{prefix}{message(arrays)}\n")
            sys.stdout.flush()
        elif not np.all(arrays[0]):
            raise ExecutionError(
                f"check{place} failed: {prefix}{message(arrays)}",
                context=(computation,),
                op="check",
            )

    return run
