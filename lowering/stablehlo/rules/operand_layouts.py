"""Layouts in StableHLO, which are orders of dimensions.

Tiles, memory spaces and element sizes are written to HLO text only; lowering refuses them.
"""

from __future__ import annotations

from builder.graph.xla_op import XlaOp
from builder.types.shape import ArrayShape, Shape, leaves
from lowering.stablehlo.rules.common import error


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
                    f"a layout in StableHLO must be an order of dimensions, got layout {layout}, "
                    f"{leaf}",
                    f"pass the order alone, {{{order}}}; HLO text has the full layout",
                )
