"""Values and errors that StableHLO rules share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxlib.mlir import ir

from builder.errors import brief
from builder.graph.xla_op import XlaOp
from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape, Shape, intern_array, leaves
from lowering.errors import LoweringError
from lowering.mlir.attributes import dense_elements, i64_array
from lowering.mlir.modules import shared_context
from lowering.ops.registry import Value
from lowering.reading.text_limits import exceeded_limit

if TYPE_CHECKING:
    from lowering.stablehlo.emitter import Emitter


def constant(ctx: Emitter, shape: ArrayShape, elements: Any) -> Value:
    """Emit a constant of static shape."""
    array = np.array(elements).astype(shape.element_type.dtype)
    attributes = {"value": dense_elements(array, shape)}
    return ctx.value("stablehlo.constant", shape, [], attributes)


def filled(ctx: Emitter, shape: ArrayShape, number: int | float) -> Value:
    """Emit an array whose elements are all `number`."""
    scalar = constant(ctx, intern_array(shape.element_type, ()), number)
    dimensions = {"broadcast_dimensions": i64_array(())}
    return ctx.value("stablehlo.broadcast_in_dim", shape, [scalar], dimensions)


def compared(
    ctx: Emitter, shape: ArrayShape, direction: str, kind: str, lhs: Value, rhs: Value
) -> Value:
    """Emit the comparison of two values of array shape `shape`."""
    attributes = {
        "comparison_direction": f"#stablehlo<comparison_direction {direction}>",
        "compare_type": f"#stablehlo<comparison_type {kind}>",
    }
    return ctx.value("stablehlo.compare", shape.with_element_type(pt.pred), [lhs, rhs], attributes)


def error(op: XlaOp, reason: str, fix: str, got: object = None) -> LoweringError:
    """Return the error of an op that StableHLO can't express."""
    place = f", recorded at {op.source.file}:{op.source.line}" if op.source is not None else ""
    operands = {f"operand {i}": operand.shape for i, operand in enumerate(op.operands)}
    return LoweringError(
        f"{op.opcode}{place}: {reason}",
        context=("lower",),
        got=got,
        fix=fix,
        op=op.opcode,
        shapes={"result": op.shape, **operands},
    )


def dictionary_text(op: XlaOp, name: str, text: str, fix: str) -> str:
    """Parse an MLIR dictionary, and return its text as MLIR prints it.

    Args:
        op: the op that has the dictionary as an attribute.
        name: the name of the attribute, for messages.
        text: the dictionary.
        fix: the fix in the error.

    Raises:
        LoweringError: `text` is not a dictionary, or MLIR's parser can't process it.
    """
    problem = exceeded_limit(text)
    if problem is not None:
        raise error(op, f"{name}: {problem.reason}", "nest fewer brackets in the text")
    context: Any = shared_context()
    handler = context.attach_diagnostic_handler(lambda _: True)  # print nothing
    try:
        attribute: Any = ir.Attribute.parse(text, context)
    except (ir.MLIRError, ValueError):
        attribute = None
    finally:
        handler.detach()
    if not isinstance(attribute, ir.DictAttr):
        rule = f"{name} must be the text of an MLIR dictionary"
        raise error(op, rule, fix, brief(text))
    return str(attribute)


def need_orders(op: XlaOp, *shapes: Shape) -> None:
    """Check that the layouts in `shapes` are orders of dimensions, as those in StableHLO are.

    Tiles, memory spaces and element sizes are written to HLO text only.

    Raises:
        LoweringError: a layout has tiles, a memory space or an element size.
    """
    for shape in shapes:
        for leaf in leaves(shape):
            layout = leaf.layout if isinstance(leaf, ArrayShape) else None
            if layout is not None and not layout.is_order_only:
                order = ",".join(map(str, layout.minor_to_major))
                raise error(
                    op,
                    "a layout in StableHLO must be an order of dimensions",
                    f"pass the order alone, {{{order}}}; HLO text has the full layout",
                    f"layout {layout}, {leaf}",
                )
