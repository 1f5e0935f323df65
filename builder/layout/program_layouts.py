"""Layouts in programs: of parameters, of results, and of what ops pass to others.

A layout is a fact of the entry, where arrays come in and go out; of the values inside a program
the compiler chooses it. So parameters and results carry layouts, and ops see the shapes without.

Shapes and Layout: Layout.
"""

from __future__ import annotations

from typing import Any

from builder.errors import ShapeInferenceError, XlaError
from builder.types.layout import Layout, PaddingValue
from builder.types.shape import ArrayShape, Shape, leaves, shape_argument, without_layout

__all__ = ["check_supported_layout", "result_shape"]


def check_supported_layout(op: str, name: str, shape: Shape) -> None:
    """Raises if a layout in `shape`, given for an argument of `op`, can't be said to XLA.

    XLA's layouts once had padded dimensions and have them no more; neither HLO text nor StableHLO
    has words for them.
    """
    for leaf in leaves(shape):
        layout = leaf.layout if isinstance(leaf, ArrayShape) else None
        if layout is not None and (
            layout.padded_dimensions is not None
            or layout.padding_value is not PaddingValue.INVALID_PAD
        ):
            plain = layout.replace(padded_dimensions=None, padding_value=PaddingValue.INVALID_PAD)
            raise ShapeInferenceError(
                f"{op}: {name}: XLA has layouts with padded dimensions or a padding value no more: "
                f"no program can have them, got {leaf}\n"
                f"fix: leave the padding out, {plain}; or give the array in its padded sizes",
                op=op,
                shapes={name: shape},
            )


def result_shape(op: str, root: Shape, given: Any) -> Shape:
    """The shape that the result is given in: the root's, with the layouts that are asked for.

    Raises:
        ShapeInferenceError: it is not the root's shape but for layouts, or a layout can't be said.
        OperandError, ShapeTextError: no shape.
    """
    try:
        wanted = shape_argument(op, "result", given)
    except XlaError as error:
        if _is_layout(given):
            error.args = (
                f"{error}\nfix: give the layout with the shape: root.shape.with_layout(layout)",
            )
        raise
    if without_layout(wanted) is not root:
        raise ShapeInferenceError(
            f"{op}: result must be the root's shape but for layouts, {root}, got {wanted}",
            op=op,
            shapes={"root": root, "result": wanted},
        )
    check_supported_layout(op, "result", wanted)
    return wanted


def _is_layout(given: Any) -> bool:
    """Whether what was given for a shape is a layout by itself, or an order."""
    if isinstance(given, str):
        return given.lstrip().startswith("{")
    if isinstance(given, (tuple, list)):
        return bool(given) and all(isinstance(one, int) for one in given)
    return isinstance(given, Layout)
