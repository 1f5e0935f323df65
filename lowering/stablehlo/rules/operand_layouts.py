"""Layouts in StableHLO, which are orders of dimensions.

Tiles, memory spaces and element sizes are written to HLO text only; lowering refuses them.
"""

from __future__ import annotations

from collections.abc import Iterable

from builder.graph.xla_op import XlaOp
from builder.types.shape import ArrayShape, Shape, leaves
from lowering.mlir.attributes import array
from lowering.stablehlo.rules.common import error

__all__ = ["layouts_text", "need_orders", "order_text"]


def need_orders(op: XlaOp, *shapes: Shape) -> None:
    """Check that the layouts in `shapes` are orders of dimensions.

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
                    f"a layout in StableHLO is an order of dimensions, got layout {layout}, {leaf}",
                    f"pass the order alone, {{{order}}}; HLO text has the full layout",
                )


def order_text(shape: ArrayShape) -> str:
    """Return the minor-to-major order of an array's dimensions.

    An empty array is always row-major, because XLA aborts on copying it to another order.
    """
    if shape.layout is not None and shape.element_count:
        return str(list(shape.layout.minor_to_major))
    return str(list(range(shape.rank - 1, -1, -1)))


def layouts_text(shapes: Iterable[Shape]) -> str:
    """Return the layouts of a custom call's operands or results, row-major by default."""
    texts = []
    for shape in shapes:
        for leaf in leaves(shape):
            rank = leaf.rank if isinstance(leaf, ArrayShape) else 0
            order = order_text(leaf) if isinstance(leaf, ArrayShape) and rank else ""
            texts.append(f"dense<{order}> : tensor<{rank}xindex>")
    return array(texts)
