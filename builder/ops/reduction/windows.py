"""What is done in windows that move over an array.

Operation Semantics: ReduceWindow, SelectAndScatter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from builder import shape_inference
from builder.attributes.window import Padding, PaddingLike, padding_argument
from builder.check import Check, integers
from builder.errors import brief
from builder.graph.computation import XlaComputation
from builder.graph.recording import append, record, resolve_builder, rollback_on_error
from builder.graph.registry import op
from builder.graph.subcomputations import as_computation, available_computation, is_library_function
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.ops.operands import Number, is_number, need_op, number_constant
from builder.ops.reduction.reductions import (
    folded_operands,
    inits_of,
    ready_reducer,
    recorded_init,
    recorded_inits,
    reducer,
    resolved,
    single_init,
)
from builder.schema import SCHEMAS
from builder.support.signatures import per_signature
from builder.types.shape import ArrayShape, Shape, intern_array

__all__ = [
    "reduce_window",
    "reduce_window_with_general_padding",
    "select_and_scatter",
    "select_and_scatter_with_general_padding",
]

Pairs = tuple[tuple[int, int], ...]
Window = tuple[tuple[int, ...], tuple[int, ...], Padding | Pairs, tuple[int, ...], tuple[int, ...]]
"""Window dimensions, strides, padding, base and window dilations, as they were given."""


def _window_attributes(base: Shape, window: Window) -> dict[str, Any]:
    """The window that inference has found right, all lists filled up."""
    check = Check("window", base=base)
    return shape_inference.reduction.window_over(check, "base", *window)._asdict()


# By signatures, which computations of equal shapes have in common, for callables recorded anew.
_reduce_window_shape = per_signature(shape_inference.reduction.reduce_window.strict)


def _reduce_window_plan(
    op: str,
    operands: tuple[Shape, ...],
    init_values: tuple[Shape, ...],
    computation: XlaComputation,
    window: Window,
) -> tuple[Shape, Mapping[str, Any]]:
    signature = computation.signature
    shape = _reduce_window_shape(operands, init_values, signature, *window, op=op)
    told = _window_attributes(operands[0], window)
    return shape, MappingProxyType({**told, "to_apply": computation})


@per_signature
def _own_reduce_window_plan(
    op: str,
    operands: tuple[Shape, ...],
    init_values: tuple[Shape, ...],
    computation: Callable[..., Any],
    window: Window,
) -> tuple[Shape, Mapping[str, Any]]:
    """The plan where one of the library's own functions is the reducer."""
    applied = reducer(op, operands, computation)
    return _reduce_window_plan(op, operands, init_values, applied, window)


def _select_and_scatter_plan(
    op: str,
    operand: Shape,
    source: Shape,
    init_value: Shape,
    select: XlaComputation,
    scatter: XlaComputation,
    window: Window,
) -> tuple[Shape, Mapping[str, Any]]:
    infer = shape_inference.reduction.select_and_scatter.strict
    signatures = select.signature, scatter.signature
    shape = infer(operand, signatures[0], *window[:3], source, init_value, signatures[1], op=op)
    attributes = _window_attributes(operand, window)
    del attributes["base_dilations"], attributes["window_dilations"]
    return shape, MappingProxyType({**attributes, "select": select, "scatter": scatter})


@per_signature
def _own_select_and_scatter_plan(
    op: str,
    operand: Shape,
    source: Shape,
    init_value: Shape,
    select: Callable[..., Any],
    scatter: Callable[..., Any],
    window: Window,
) -> tuple[Shape, Mapping[str, Any]]:
    """The plan where the library's own functions are applied."""
    scalar = _scalar_of(op, operand)
    selecting = as_computation(op, "select", select, (scalar, scalar))
    scattering = as_computation(op, "scatter", scatter, (scalar, scalar))
    return _select_and_scatter_plan(op, operand, source, init_value, selecting, scattering, window)


def _integers(op: str, name: str, values: Iterable[int] | None) -> tuple[int, ...]:
    return () if values is None else integers(op, name, values)


@op(SCHEMAS["reduce_window"])
def reduce_window(
    operands: XlaOp | Sequence[XlaOp],
    init_values: XlaOp | Number | Sequence[XlaOp | Number],
    computation: XlaComputation | Callable[..., Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None,
    padding: PaddingLike,
    *,
    base_dilations: Sequence[int] | None = None,
    window_dilations: Sequence[int] | None = None,
) -> XlaOp:
    """The elements of one or more arrays folded together in each place of a moving window.

    What is padded, and the holes that a base dilation makes, count as the init value or not at
    all. The order in which elements are folded is not defined.

    Args:
        operands: an array, or N arrays of the same sizes and of any element types.
        init_values: for each operand the scalar to begin with; a Python number stands for a
            constant of the operand's type.
        computation: a reducer ``(accumulated, value) -> new``, as `reduce` takes it.
        window_dimensions: the sizes of the window, one for each dimension.
        window_strides: how far the window moves along each dimension; None for 1.
        padding: `Padding.SAME`, `Padding.VALID` or their names, or for each dimension a pair
            (low, high): how many elements are added before the first and after the last, or
            taken away if negative.
        base_dilations: how far the elements of the operand are moved apart: 2 puts a hole between
            each two; None for 1.
        window_dilations: how far the elements of the window lie apart; None for 1.

    Returns:
        An array with one element for each place of the window, so many along each dimension as
        fit; for several operands a tuple of those.

    Raises:
        ShapeInferenceError: sizes differ; a list is not as long as the operand has dimensions; a
            size, stride or dilation is not positive; the padding takes away more than there is; an
            init value is no scalar of its operand's type; counts differ.
        SignatureError: the computation is no reducer for these operands.
        ConstantError: the type can't hold a number.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[4, 6])
        >>> xb.reduce_window(x, float("-inf"), xb.max, [2, 3], [2, 3], xb.Padding.VALID).shape
        f32[2,2]
        >>> xb.reduce_window(x, 0.0, xb.add, [3, 3], None, [(1, 1), (0, 2)]).shape
        f32[4,6]

    Operation Semantics: ReduceWindow.
    """
    return _reduce_window(
        "reduce_window",
        operands,
        init_values,
        computation,
        window_dimensions,
        window_strides,
        padding,
        base_dilations,
        window_dilations,
    )


@op(
    SCHEMAS["reduce_window"],
    cpp_name="ReduceWindowWithGeneralPadding",
    section="ReduceWindow (XlaBuilder's ReduceWindowWithGeneralPadding)",
)
def reduce_window_with_general_padding(
    operands: XlaOp | Sequence[XlaOp],
    init_values: XlaOp | Number | Sequence[XlaOp | Number],
    computation: XlaComputation | Callable[..., Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None,
    base_dilations: Sequence[int] | None,
    window_dilations: Sequence[int] | None,
    padding: PaddingLike,
) -> XlaOp:
    """`reduce_window` with all that can be said of the window, in the order of the document.

    Args:
        operands, init_values, computation: as in `reduce_window`.
        window_dimensions, window_strides, base_dilations, window_dilations: as in `reduce_window`.
        padding: as in `reduce_window`; mostly for each dimension a pair (low, high).

    Returns:
        An array with one element for each place of the window; for several operands a tuple.

    Raises:
        ShapeInferenceError, SignatureError, ConstantError: as in `reduce_window`.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[4, 6])
        >>> xb.reduce_window_with_general_padding(
        ...     x, 0.0, xb.add, [2, 2], [1, 1], [2, 1], [1, 3], [(0, 0), (1, -1)]
        ... ).shape
        f32[6,3]

    Operation Semantics: ReduceWindow.
    """
    op = "reduce_window_with_general_padding"
    return _reduce_window(
        op,
        operands,
        init_values,
        computation,
        window_dimensions,
        window_strides,
        padding,
        base_dilations,
        window_dilations,
    )


def _padding(op: str, padding: Any) -> Padding | Pairs:
    """The argument `padding`."""
    if type(padding) is XlaOp:  # whose elements, if it is a tuple, would be recorded
        Check(op).fail(
            f"padding must be numbers that are known now, got {brief(padding)}",
            fix="write xb.Padding.SAME, xb.Padding.VALID or pairs of numbers",
        )
    return padding_argument(op, padding)


def _reduce_window(
    op: str,
    operands: Any,
    init_values: Any,
    computation: Any,
    window_dimensions: Any,
    window_strides: Any,
    padding: Any,
    base_dilations: Any,
    window_dilations: Any,
) -> XlaOp:
    sizes = integers(op, "window_dimensions", window_dimensions)
    strides = _integers(op, "window_strides", window_strides)
    base = _integers(op, "base_dilations", base_dilations)
    spread = _integers(op, "window_dilations", window_dilations)
    window = sizes, strides, _padding(op, padding), base, spread
    if type(operands) is XlaOp and is_library_function(computation):
        # One array, and xb.max or the like: what is written nearly always, in two thirds of the
        # time.
        init = single_init(op, operands, init_values)
        if init is not None:
            shape, attributes = _own_reduce_window_plan(
                op, (operands.shape,), init[:1], computation, window
            )
            begun = recorded_init(op, operands, init_values, init)
            return record("reduce_window", shape, (operands, begun), attributes)
    arrays, given = folded_operands(op, operands, init_values)
    shapes = tuple([a.shape for a in arrays])
    if is_library_function(computation):
        inits = inits_of(op, arrays, shapes, given)
        shape, attributes = _own_reduce_window_plan(op, shapes, inits[0], computation, window)
        return record(
            "reduce_window",
            shape,
            (*arrays, *recorded_inits(op, arrays, given, inits)),
            attributes,
        )
    known = ready_reducer(op, shapes, computation)
    if known is not None:
        return _record_reduce_window(op, arrays, shapes, given, known, window)
    with rollback_on_error(resolved(op, arrays, given)):
        return _record_reduce_window(op, arrays, shapes, given, computation, window)


def _record_reduce_window(
    op: str,
    arrays: tuple[XlaOp, ...],
    shapes: tuple[Shape, ...],
    given: Sequence[Any],
    computation: Any,
    window: Window,
) -> XlaOp:
    applied = reducer(op, shapes, computation)
    inits = inits_of(op, arrays, shapes, given)
    key = op, shapes, inits[0], window
    shape, attributes = applied.planned(
        key, _reduce_window_plan, op, shapes, inits[0], applied, window
    )
    return record(
        "reduce_window", shape, (*arrays, *recorded_inits(op, arrays, given, inits)), attributes
    )


@op(SCHEMAS["select_and_scatter"])
def select_and_scatter(
    operand: XlaOp,
    select: XlaComputation | Callable[..., Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None,
    padding: PaddingLike,
    source: XlaOp,
    init_value: XlaOp | Number,
    scatter: XlaComputation | Callable[..., Any],
) -> XlaOp:
    """Selects an element of the operand in each place of a window, and adds to it.

    In each place of the window one element of the operand is selected. What the source has for
    that place is scattered to where the element stood, in an array of the operand's sizes that
    begins as the init value everywhere. Where windows overlap, an element may be selected more
    than once; in which order values are scattered is not defined.

    With `max` as what is looked for, this is the gradient of a pooling.

    Args:
        operand: an array; the window moves over it.
        select: ``(a, b) -> pred``, both scalars of the operand's type, a before b in row-major
            order: whether a is selected of the two, for instance ``xb.ge``. It should be
            transitive.
        window_dimensions: the sizes of the window, one for each dimension.
        window_strides: how far the window moves along each dimension; None for 1.
        padding: `Padding.SAME`, `Padding.VALID` or their names, or for each dimension a pair
            (low, high). What is padded is never selected.
        source: an array of the operand's type with an element for each place of the window: of
            the sizes that `reduce_window` would give.
        init_value: a scalar of the operand's type, or a Python number.
        scatter: ``(accumulated, value) -> new``, all scalars of the operand's type.

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError: a list is not as long as the operand has dimensions; a size or stride
            is not positive; source or init value are of another type or of other sizes.
        SignatureError: `select` or `scatter` is not of the signature above.
        ConstantError: the type can't hold the number.

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
    return _select_and_scatter(
        "select_and_scatter",
        operand,
        select,
        window_dimensions,
        window_strides,
        padding,
        source,
        init_value,
        scatter,
    )


@op(
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
    init_value: XlaOp | Number,
    scatter: XlaComputation | Callable[..., Any],
) -> XlaOp:
    """`select_and_scatter` under the name that XlaBuilder has for padding given as numbers.

    Args:
        operand, select, source, init_value, scatter: as in `select_and_scatter`.
        window_dimensions, window_strides: as in `select_and_scatter`.
        padding: as in `select_and_scatter`; mostly for each dimension a pair (low, high).

    Returns:
        An array of the operand's shape.

    Raises:
        ShapeInferenceError, SignatureError, ConstantError: as in `select_and_scatter`.

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
    op = "select_and_scatter_with_general_padding"
    return _select_and_scatter(
        op,
        operand,
        select,
        window_dimensions,
        window_strides,
        padding,
        source,
        init_value,
        scatter,
    )


def _select_and_scatter(
    op: str,
    operand: Any,
    select: Any,
    window_dimensions: Any,
    window_strides: Any,
    padding: Any,
    source: Any,
    init_value: Any,
    scatter: Any,
) -> XlaOp:
    base, values = need_op(op, "operand", operand), need_op(op, "source", source)
    sizes = integers(op, "window_dimensions", window_dimensions)
    strides = _integers(op, "window_strides", window_strides)
    places = _padding(op, padding)
    window: Window = sizes, strides, places, (), ()
    if type(init_value) is XlaOp and is_library_function(select) and is_library_function(scatter):
        # An op to begin with, and xb.ge and xb.add or the like: half of the time.
        shape, attributes = _own_select_and_scatter_plan(
            op, base.shape, values.shape, init_value.shape, select, scatter, window
        )
        return record("select_and_scatter", shape, (base, values, init_value), attributes)
    scalar = _scalar_of(op, base.shape)
    beside = [init_value] if type(init_value) is XlaOp else []
    builder = resolve_builder(op, base, values, *beside)
    scalars = scalar, scalar
    known = (
        available_computation(op, "select", select, scalars),
        available_computation(op, "scatter", scatter, scalars),
    )
    operands = base, values, init_value
    if known[0] is not None and known[1] is not None:
        select, scatter = known
        return _record_select_and_scatter(op, builder, select, scatter, operands, scalar, window)
    with rollback_on_error(builder):
        return _record_select_and_scatter(op, builder, select, scatter, operands, scalar, window)


def _record_select_and_scatter(
    op: str,
    builder: XlaBuilder,
    select: Any,
    scatter: Any,
    operands: tuple[XlaOp, XlaOp, Any],
    scalar: ArrayShape,
    window: Window,
) -> XlaOp:
    base, values, init_value = operands
    selecting = as_computation(op, "select", select, (scalar, scalar))
    scattering = as_computation(op, "scatter", scatter, (scalar, scalar))
    # The rules are checked before the constant for a number is recorded.
    constant = None
    if type(init_value) is XlaOp:
        init_shape = init_value.shape
    else:
        if not is_number(init_value):
            need_op(op, "init_value", init_value)
        init_shape, constant = number_constant(op, init_value, scalar.element_type, base.shape)
    shapes = base.shape, values.shape, init_shape
    shape, attributes = selecting.planned(
        (op, *shapes, scattering, window),
        _select_and_scatter_plan,
        op,
        *shapes,
        selecting,
        scattering,
        window,
    )
    if constant is not None:
        init_value = append(builder, "constant", init_shape, (), constant)
    return record("select_and_scatter", shape, (base, values, init_value), attributes)


@per_signature
def _scalar_of(op: str, operand: Shape) -> ArrayShape:
    return intern_array(Check(op, operand=operand).array("operand").element_type, ())
