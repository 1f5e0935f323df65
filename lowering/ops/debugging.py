"""Prints and checks as jax's debug callbacks.

jax does not order the callbacks, so that functions with prints can be mapped and differentiated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxlib.mlir import ir

from builder.attributes.host import CHECK_TARGET, DEBUG_PRINT_TARGET
from builder.errors import error_of
from builder.graph.xla_op import XlaOp
from builder.ops.debugging import format_message
from lowering.errors import ExecutionError
from lowering.jaxlib_api import mlir
from lowering.jaxlib_api.lazy_jax import jax
from lowering.mlir.operations import attribute_text
from lowering.ops.host import is_recorded_again, omits_observers
from lowering.ops.registry import Context, Step, Value, custom_call_rule, place


@custom_call_rule(DEBUG_PRINT_TARGET)
def jax_debug_print(ctx: Context, op: XlaOp) -> Step:
    text = message_of(op)

    def show(*arrays: Value) -> None:
        print(format_message(text, arrays))

    return _step(op, show)


@custom_call_rule(CHECK_TARGET)
def jax_check(ctx: Context, op: XlaOp) -> Step:
    text, name, where = message_of(op), ctx.computation.name, place(op)

    def verify(condition: Value, *arrays: Value) -> None:
        if not condition.all():
            rule = f"check{where}{',' if where else ''} failed: {format_message(text, arrays)}"
            raise error_of(ExecutionError, "check", rule, context=(name,))

    return _step(op, verify)


def _step(op: XlaOp, run: Callable[..., None]) -> Step:
    target, text = op.attributes["call_target_name"], message_of(op)

    def step(*operands: Value) -> Value:
        if omits_observers():
            return ()
        # No value depends on the call, so it has no derivative.
        fixed = [jax.lax.stop_gradient(operand) for operand in operands]
        if is_recorded_again():
            call: Any = jax.ffi.ffi_call(target, (), has_side_effect=True, vmap_method="sequential")
            call(*fixed, message=text)
        else:
            jax.debug.callback(run, *fixed)
        return ()

    return step


def message_of(op: XlaOp) -> str:
    """Return the message of a print or a check; "" for a call without one, of another tool."""
    with mlir.new_context():
        config = ir.Attribute.parse(op.attributes["opaque"] or "{}")
        if not isinstance(config, ir.DictAttr) or "message" not in config:
            return ""
        return attribute_text(config["message"]) or ""
