"""Layouts of what operations take and give: StableHLO has words for the order of dimensions alone.

What HLO's layouts say besides (tiles, memory space, size of elements) is in the HLO text; here it
is refused, not dropped.
"""

from __future__ import annotations

from collections.abc import Iterable

from builder.graph.xla_op import XlaOp
from builder.types.shape import ArrayShape, Shape, leaves
from lowering.errors import LoweringError
from lowering.mlir.attributes import array

__all__ = ["layouts_text", "need_orders", "order_text"]


def need_orders(op: XlaOp, *shapes: Shape) -> None:
    """Raises if a layout in `shapes`, which `op` was given, says more than an order.

    Raises:
        LoweringError: it does.
    """
    for shape in shapes:
        for leaf in leaves(shape):
            layout = leaf.layout if isinstance(leaf, ArrayShape) else None
            if layout is None or layout.is_order_only:
                continue
            source = op.source
            place = "" if source is None else f", recorded at {source.file}:{source.line},"
            order = ",".join(map(str, layout.minor_to_major))
            raise LoweringError(
                f"lower: {op.opcode}{place} has an array in layout {layout}, {leaf}: StableHLO can "
                f"say the order of its dimensions alone\n"
                f"fix: ask for the order alone, {{{order}}}; the HLO text says the whole layout",
                op=op.opcode,
                shapes={"array": leaf},
            )


def order_text(shape: ArrayShape) -> str:
    """The minor-to-major order of an array's dimensions.

    Any order of nothing is the same, but XLA dies of copying it from one order to another.
    """
    if shape.layout is not None and shape.element_count:
        return str(list(shape.layout.minor_to_major))
    return str(list(range(shape.rank - 1, -1, -1)))


def layouts_text(shapes: Iterable[Shape]) -> str:
    """The layouts of a custom call's operands or results: row-major where a shape says none."""
    texts = []
    for shape in shapes:
        for leaf in leaves(shape):
            rank = leaf.rank if isinstance(leaf, ArrayShape) else 0
            order = order_text(leaf) if isinstance(leaf, ArrayShape) and rank else ""
            texts.append(f"dense<{order}> : tensor<{rank}xindex>")
    return array(texts)
