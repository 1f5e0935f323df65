"""Operations on windows that move over an array.

Operation Semantics: ReduceWindow, SelectAndScatter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from builder.attributes.window import Padding, PaddingLike, padding_argument
from builder.check import Check, integers, optional_integers
from builder.errors import brief
from builder.graph.computation import XlaComputation
from builder.graph.recording import append, record, resolve_builder, rollback_on_error
from builder.graph.registry import op_by_hand
from builder.graph.subcomputations import as_computation
from builder.graph.xla_op import XlaOp
from builder.ops import rules as shape_inference
from builder.ops.operands import Operand, is_number, need_op, number_constant
from builder.ops.reduction.reductions import Reduction, record_reduction
from builder.schema import SCHEMAS
from builder.support.signatures import per_signature
from builder.types.shape import Shape, intern_array

Window = tuple[
    tuple[int, ...],
    tuple[int, ...],
    Padding | tuple[tuple[int, int], ...],
    tuple[int, ...],
    tuple[int, ...],
]
"""A tuple of window dimensions, strides, padding, base dilations and window dilations."""


def _window(
    name: str,
    dimensions: Any,
    strides: Any,
    padding: Any,
    base_dilations: Any = None,
    window_dilations: Any = None,
) -> Window:
    """Check the arguments that describe a window; return them as a `Window`."""
    if type(padding) is XlaOp:  # iterating over an op of a tuple would record its elements
        Check(name).fail(
            f"padding must be compile-time integers, got {brief(padding)}",
            fix="write xb.Padding.SAME, xb.Padding.VALID or pairs of numbers",
        )
    return (
        integers(name, "window_dimensions", dimensions),
        optional_integers(name, "window_strides", strides),
        padding_argument(name, padding),
        optional_integers(name, "base_dilations", base_dilations),
        optional_integers(name, "window_dilations", window_dilations),
    )


def _window_attributes(base: Shape, window: Window) -> dict[str, Any]:
    """Return the attributes of a window, with explicit defaults and pairs for named padding."""
    check = Check("window", base=base)
    return shape_inference.reduction.window_over(check, "base", *window)._asdict()


# The key is the reducer's signature, so that callables that are recorded again share an entry.
_reduce_window_shape = per_signature(shape_inference.reduction.reduce_window.strict)


def _reduce_window_plan(
    name: str,
    operands: tuple[Shape, ...],
    init_values: tuple[Shape, ...],
    reducer: XlaComputation,
    window: Window,
) -> tuple[Shape, Mapping[str, Any]]:
    shape = _reduce_window_shape(operands, init_values, reducer.signature, *window, op=name)
    attributes = _window_attributes(operands[0], window)
    return shape, MappingProxyType({**attributes, "to_apply": reducer})


_REDUCE_WINDOW: Final = Reduction("reduce_window", "reduce_window", _reduce_window_plan)
_WITH_GENERAL_PADDING: Final = Reduction(
    "reduce_window", "reduce_window_with_general_padding", _reduce_window_plan
)


def _select_and_scatter_plan(
    name: str,
    operand: Shape,
    source: Shape,
    init_value: Shape,
    select: XlaComputation,
    scatter: XlaComputation,
    window: Window,
) -> tuple[Shape, Mapping[str, Any]]:
    infer = shape_inference.reduction.select_and_scatter.strict
    signatures = select.signature, scatter.signature
    shape = infer(operand, signatures[0], *window[:3], source, init_value, signatures[1], op=name)
    attributes = _window_attributes(operand, window)
    del attributes["base_dilations"], attributes["window_dilations"]
    return shape, MappingProxyType({**attributes, "select": select, "scatter": scatter})


@op_by_hand(SCHEMAS["reduce_window"])
def reduce_window(
    operands: XlaOp | Sequence[XlaOp],
    init_values: Operand | Sequence[Operand],
    computation: XlaComputation | Callable[..., Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None,
    padding: PaddingLike,
    *,
    base_dilations: Sequence[int] | None = None,
    window_dilations: Sequence[int] | None = None,
) -> XlaOp:
    """Reduce the elements in each position of a window that moves over one or more arrays.

    XLA reads padding and the holes of a base dilation as the init value, or ignores them. The order
    of the reduction is not defined.

    Args:
        operands: an array, or N arrays of the same sizes and of any element types.
        init_values: the initial scalar for each operand; a Python number is a constant of the
            operand's type.
        computation: a reducer ``(accumulated, value) -> new``, see `reduce`.
        window_dimensions: the sizes of the window, one for each dimension.
        window_strides: the stride of the window along each dimension; None for 1.
        padding: `Padding.SAME`, `Padding.VALID` or their names, or for each dimension a pair (low,
            high): the number of elements added before the first and after the last; a negative
            number removes elements.
        base_dilations: the distance between the operand's elements along each dimension; 2 leaves a
            hole between neighbours. None for 1.
        window_dilations: the distance between the window's elements; None for 1.

    Returns:
        An array with one element for each window position; for several operands a tuple of such
        arrays.

    Raises:
        ShapeInferenceError: sizes differ; a sequence does not have one entry for each dimension; a
            size, stride or dilation is not positive; the padding removes more elements than there
            are; an init value is not a scalar of its operand's type; the numbers of operands and
            init values differ.
        SignatureError: the computation is not a reducer for these operands.
        ConstantError: a number does not fit the type.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[4, 6])
        >>> xb.reduce_window(x, float("-inf"), xb.max, [2, 3], [2, 3], xb.Padding.VALID).shape
        f32[2,2]
        >>> xb.reduce_window(x, 0.0, xb.add, [3, 3], None, [(1, 1), (0, 2)]).shape
        f32[4,6]

    Operation Semantics: ReduceWindow.
    """
    reduction = _REDUCE_WINDOW
    arguments = window_dimensions, window_strides, padding, base_dilations, window_dilations
    window = _window(reduction.name, *arguments)
    return record_reduction(reduction, operands, init_values, computation, window)


@op_by_hand(
    SCHEMAS["reduce_window"],
    cpp_name="ReduceWindowWithGeneralPadding",
    section="ReduceWindow (XlaBuilder's ReduceWindowWithGeneralPadding)",
)
def reduce_window_with_general_padding(
    operands: XlaOp | Sequence[XlaOp],
    init_values: Operand | Sequence[Operand],
    computation: XlaComputation | Callable[..., Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None,
    base_dilations: Sequence[int] | None,
    window_dilations: Sequence[int] | None,
    padding: PaddingLike,
) -> XlaOp:
    """Reduce windows as `reduce_window` does, with the argument order of Operation Semantics.

    Args:
        operands, init_values, computation, window_dimensions, window_strides, base_dilations,
            window_dilations: see `reduce_window`.
        padding: see `reduce_window`; usually for each dimension a pair (low, high).

    Returns:
        An array with one element for each window position; for several operands a tuple of such
        arrays.

    Raises:
        ShapeInferenceError, SignatureError, ConstantError: see `reduce_window`.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[4, 6])
        >>> xb.reduce_window_with_general_padding(
        ...     x, 0.0, xb.add, [2, 2], [1, 1], [2, 1], [1, 3], [(0, 0), (1, -1)]
        ... ).shape
        f32[6,3]

    Operation Semantics: ReduceWindow.
    """
    reduction = _WITH_GENERAL_PADDING
    arguments = window_dimensions, window_strides, padding, base_dilations, window_dilations
    window = _window(reduction.name, *arguments)
    return record_reduction(reduction, operands, init_values, computation, window)


@op_by_hand(SCHEMAS["select_and_scatter"])
def select_and_scatter(
    operand: XlaOp,
    select: XlaComputation | Callable[..., Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None,
    padding: PaddingLike,
    source: XlaOp,
    init_value: Operand,
    scatter: XlaComputation | Callable[..., Any],
) -> XlaOp:
    """Select one element in each window position, and scatter the source to the selected elements.

    In each window position one element of the operand is selected. The source's element for that
    position is scattered to the index of the selected element. The result has the operand's sizes
    and is initialized with the init value. Where windows overlap, an element may be selected more
    than once; the order in which values are scattered is not defined.

    If `select` selects the maximum, this is the gradient of max pooling.

    Args:
        operand: an array; the window moves over it.
        select: ``(a, b) -> pred``, two scalars of the operand's type, where a precedes b in
            row-major order. It returns whether a is selected, for instance ``xb.ge``, and should be
            transitive.
        window_dimensions: the sizes of the window, one for each dimension.
        window_strides: the stride of the window along each dimension; None for 1.
        padding: `Padding.SAME`, `Padding.VALID` or their names, or for each dimension a pair (low,
            high). Padding is never selected.
        source: an array of the operand's element type, with one element for each window position
            (the sizes that `reduce_window` returns).
        init_value: a scalar of the operand's type, or a Python number.
        scatter: ``(accumulated, value) -> new``, scalars of the operand's type.

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError: a sequence does not have one entry for each dimension; a size or stride
            is not positive; the source or the init value has another type or other sizes.
        SignatureError: `select` or `scatter` does not have the signature above.
        ConstantError: the number does not fit the type.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, gradient = b.parameter(xb.f32[4, 6]), b.parameter(xb.f32[2, 2])
        >>> xb.select_and_scatter(
        ...     x, xb.ge, [2, 3], [2, 3], xb.Padding.VALID, gradient, 0.0, xb.add
        ... ).shape
        f32[4,6]

    Operation Semantics: SelectAndScatter.
    """
    name = "select_and_scatter"
    window = _window(name, window_dimensions, window_strides, padding)
    return _select_and_scatter(name, operand, select, scatter, window, source, init_value)


@op_by_hand(
    SCHEMAS["select_and_scatter"],
    cpp_name="SelectAndScatterWithGeneralPadding",
    section="SelectAndScatter (XlaBuilder's SelectAndScatterWithGeneralPadding)",
)
def select_and_scatter_with_general_padding(
    operand: XlaOp,
    select: XlaComputation | Callable[..., Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None,
    padding: PaddingLike,
    source: XlaOp,
    init_value: Operand,
    scatter: XlaComputation | Callable[..., Any],
) -> XlaOp:
    """Select and scatter as `select_and_scatter` does, with explicit padding.

    Args:
        operand, select, window_dimensions, window_strides, source, init_value, scatter: see
            `select_and_scatter`.
        padding: see `select_and_scatter`; usually for each dimension a pair (low, high).

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError, SignatureError, ConstantError: see `select_and_scatter`.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, gradient = b.parameter(xb.f32[4, 6]), b.parameter(xb.f32[3, 2])
        >>> xb.select_and_scatter_with_general_padding(
        ...     x, xb.ge, [2, 3], [2, 3], [(1, 1), (0, 0)], gradient, 0.0, xb.add
        ... ).shape
        f32[4,6]

    Operation Semantics: SelectAndScatter.
    """
    name = "select_and_scatter_with_general_padding"
    window = _window(name, window_dimensions, window_strides, padding)
    return _select_and_scatter(name, operand, select, scatter, window, source, init_value)


def _select_and_scatter(
    name: str, operand: Any, select: Any, scatter: Any, window: Window, source: Any, init_value: Any
) -> XlaOp:
    """Check the rules of a select_and_scatter and record the op."""
    base, values = need_op(name, "operand", operand), need_op(name, "source", source)
    element_type = Check(name, operand=base.shape).array("operand").element_type
    scalar = intern_array(element_type, ())
    init_ops = [init_value] if type(init_value) is XlaOp else []
    builder = resolve_builder(name, base, values, *init_ops)
    with rollback_on_error(builder):
        select = as_computation(name, "select", select, (scalar, scalar))
        scatter = as_computation(name, "scatter", scatter, (scalar, scalar))
        # The rules are checked before the constant for a number is recorded.
        constant = None
        if init_ops or not is_number(init_value):
            init_shape = need_op(name, "init_value", init_value).shape
        else:
            init_shape, constant = number_constant(name, init_value, element_type, base.shape)
        shapes = base.shape, values.shape, init_shape
        arguments = name, *shapes, select, scatter, window
        shape, attributes = select.planned(_select_and_scatter_plan, *arguments)
        if constant is not None:
            init_value = append(builder, "constant", init_shape, (), constant)
        return record("select_and_scatter", shape, (base, values, init_value), attributes)
