"""Layouts of the parameters and results of programs.

The compiler chooses the layouts of values inside a program. So only parameters and results have
layouts, and ops have shapes without layouts.

Shapes and Layout: Layout.
"""

from __future__ import annotations

from typing import Any

from builder.errors import ShapeInferenceError, XlaError, error_of
from builder.types.layout import Layout, PaddingValue
from builder.types.shape import ArrayShape, Shape, leaves, shape_argument, without_layout


def check_supported_layout(op: str, name: str, shape: Shape) -> None:
    """Raise if argument `name` of `op` has a layout with padded dimensions or a padding value.

    XLA no longer supports padded dimensions and padding values in a layout, and neither HLO text
    nor StableHLO can express them.
    """
    for leaf in leaves(shape):
        layout = leaf.layout if isinstance(leaf, ArrayShape) else None
        if layout is not None and (
            layout.padded_dimensions is not None
            or layout.padding_value is not PaddingValue.INVALID_PAD
        ):
            unpadded = layout.replace(
                padded_dimensions=None, padding_value=PaddingValue.INVALID_PAD
            )
            raise ShapeInferenceError(
                "a layout in a program can't have padded dimensions or a padding value",
                got=str(leaf),
                fix=f"use the layout {unpadded}, or pass the array with its padded sizes",
                op=op,
                argument=name,
                context=(op, name),
                shapes={name: shape},
            )


def result_shape(op: str, root: Shape, value: Any) -> Shape:
    """Convert the `result` argument of `op` to the root's shape with the requested layouts.

    Raises:
        ShapeInferenceError: the shape without layouts is not the root's, or a layout has padding.
        OperandError, ShapeTextError: `value` is not a shape.
    """
    try:
        result = shape_argument(op, "result", value)
    except XlaError as error:
        if _is_layout(value):
            error.fix = "pass root.shape.with_layout(layout)"
        raise
    if without_layout(result) is not root:
        rule = f"result must have the root's shape {root}, apart from layouts"
        raise error_of(
            ShapeInferenceError, op, rule, got=result, shapes={"root": root, "result": result}
        )
    check_supported_layout(op, "result", result)
    return result


def _is_layout(value: Any) -> bool:
    """Return whether `value` is a layout, the text of a layout, or a `minor_to_major` sequence."""
    if isinstance(value, str):
        return value.lstrip().startswith("{")
    if isinstance(value, (tuple, list)):
        return bool(value) and all(isinstance(element, int) for element in value)
    return isinstance(value, Layout)
