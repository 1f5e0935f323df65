"""Windows that move over an array: their rules, their HLO text, and the operations on them.

Convolutions share the rules. Operation Semantics: ReduceWindow, SelectAndScatter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from builder.attributes.padding import (
    Padding,
    PaddingLike,
    dilated,
    explicit_padding,
    padding_argument,
)
from builder.checking import Check, integers, optional_integers, same_sizes
from builder.graph.computation import XlaComputation
from builder.graph.recording import append, record, resolve_builder, rollback_on_error
from builder.graph.registry import op_by_hand
from builder.graph.subcomputations import as_computation
from builder.graph.xla_op import XlaOp
from builder.ops.operands import Operand, is_number, need_op, number_constant
from builder.ops.reduction.reductions import (
    Planned,
    Reduction,
    equal_sizes,
    recorder,
    reducer,
    reduction_operands,
)
from builder.schema import Trait
from builder.schema.definition import ANY, Attribute, CostClass, Group, Tolerance, define
from builder.schema.equal_sizes import Pairs, SizedOp, equal_to_first, pairs
from builder.schema.kinds import COMPUTATION, INTEGERS, WINDOW_PADDING
from builder.types import primitive_type as pt
from builder.types.shape import (
    MAX_ELEMENTS,
    UNBOUNDED,
    ArrayShape,
    ProgramShape,
    Shape,
    TupleShape,
    intern_array,
    of_same_sizes,
)


def window_list(
    check: Check, values: Sequence[int] | None, count: int, *, of: str, name: str
) -> tuple[int, ...]:
    """Return argument `name`: a positive number for each of `count` dimensions.

    If the argument is None or empty, all numbers are 1.
    """
    # XLA shape_inference.cc: InferWindowFromDimensions
    if not values:
        return (1,) * count
    check.one_for_each(values, count, of=of, name=name, neutral=(1,) * count)
    check.positive(values, name=name)
    return tuple(values)


def window_padding(
    check: Check,
    padding: Padding | Sequence[tuple[int, int]],
    sizes: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    base_dilations: Sequence[int],
    window_dilations: Sequence[int],
    *,
    of: str,
) -> tuple[tuple[int, int], ...]:
    """Return `padding` as a pair (low, high) for each dimension; an empty list means no padding."""
    # XLA shape_inference.cc: InferWindowFromDimensions
    if isinstance(padding, Padding):
        counted = [
            size
            for size, stride, dilation in zip(sizes, strides, base_dilations, strict=True)
            if not stride == dilation == 1
        ]
        if padding is Padding.SAME and UNBOUNDED in (*counted, *window):
            rule = "Padding.SAME can't be computed for an unbounded size and a stride above 1"
            fix = "pass padding as pairs (low, high), or give the dimension a bound: f32[<=n]"
            check.fail(rule, fix=fix)
        return explicit_padding(padding, sizes, window, strides, base_dilations, window_dilations)
    if not padding:
        return ((0, 0),) * len(sizes)
    # StableHLO reduce_window (C12), convolution (C4)
    check.one_for_each(padding, len(sizes), of=of, name="padding", neutral=((0, 0),) * len(sizes))
    return tuple(padding)


def windows_along(
    check: Check,
    of: str,
    dimension: int,
    size: int,
    window: int,
    stride: int,
    padding: tuple[int, int],
    base_dilation: int,
    window_dilation: int,
) -> int:
    """Return the number of windows along a dimension, or UNBOUNDED if `size` is UNBOUNDED.

    Args:
        check: the op, for messages.
        of, dimension: the name of the operand and the number of its dimension, for messages.
        size: the size of the array that the window moves over.
        window: the size of the window; positive.
        stride: the distance between windows; positive.
        padding: the number of elements added on each side; a negative number removes elements.
        base_dilation: the distance between the elements of the array; positive.
        window_dilation: the distance between the elements of the window; positive.
    """
    if size == UNBOUNDED:
        return UNBOUNDED
    low, high = padding
    length = dilated(size, base_dilation)
    width = dilated(window, window_dilation)
    padded = low + length + high
    # StableHLO reduce_window (C15), convolution (C25): num_windows
    if max(length, width, padded) > MAX_ELEMENTS:
        check.fail(
            "array and window must have fewer than 2**63 elements along each dimension once "
            "dilated and padded",
            got=f"{max(length, width, padded)} along dimension {dimension} of {of}",
            dimension=dimension,
        )
    if padded < 0:
        check.fail(
            "padding must not remove more elements than the dimension has",
            got=f"({low}, {high}) for {length} elements along dimension {dimension} of {of}",
            dimension=dimension,
        )
    return 0 if padded < width else (padded - width) // stride + 1


_DEFAULTS: Final = {"stride": 1, "pad": "0_0", "lhs_dilate": 1, "rhs_dilate": 1, "rhs_reversal": 0}


def window_text(
    size: Sequence[int], padding: Iterable[tuple[int, int]], lists: Mapping[str, Iterable[Any]]
) -> str:
    """Return the HLO attribute of a window, defaults omitted; "" for a window without dimensions.

    Args:
        size: the size of each dimension.
        padding: the low and the high padding of each dimension.
        lists: the other lists by their HLO names: "stride", "lhs_dilate" and so on.

    Example:
        >>> window_text([2, 3], [(0, 1), (0, 0)], {"stride": [1, 1]})
        ', window={size=2x3 pad=0_1x0_0}'
    """
    if not size:
        return ""
    stride = {"stride": lists.get("stride", ())}
    parts = {"size": size, **stride, "pad": [f"{low}_{high}" for low, high in padding], **lists}
    text = " ".join(
        f"{name}={'x'.join(map(str, values))}"
        for name, values in parts.items()
        if any(value != _DEFAULTS.get(name) for value in values)
    )
    return f", window={{{text}}}"


class Window(NamedTuple):
    """A window and its movement over an array: each field has one entry for each dimension.

    Attributes:
        window_dimensions: the sizes of the window.
        window_strides: the distances between consecutive windows.
        padding: pairs (low, high): the numbers of elements added before and after the array;
            negative numbers remove elements.
        base_dilations: the distances between adjacent elements of the array.
        window_dilations: the distances between adjacent elements of the window.
    """

    window_dimensions: tuple[int, ...]
    window_strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    base_dilations: tuple[int, ...]
    window_dilations: tuple[int, ...]


def _window_over(
    check: Check,
    of: str,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None,
    padding: Padding | Sequence[tuple[int, int]],
    base_dilations: Sequence[int] | None = None,
    window_dilations: Sequence[int] | None = None,
) -> Window:
    """Return the window over operand `of`; empty lists, SAME and VALID are replaced by numbers.

    Raises:
        ShapeInferenceError: the length of a list is not the operand's rank, or a size, stride or
            dilation is not positive.
    """
    base = check.array(of)
    each = f"dimension of {of}"
    # StableHLO reduce_window (C4-C12), select_and_scatter (C4-C8)
    neutral = (1,) * base.rank
    check.one_for_each(
        window_dimensions, base.rank, of=each, name="window_dimensions", neutral=neutral
    )
    sizes, strides, dilations, gaps = (
        window_list(check, values, base.rank, of=each, name=name)
        for name, values in (
            ("window_dimensions", window_dimensions),
            ("window_strides", window_strides),
            ("base_dilations", base_dilations),
            ("window_dilations", window_dilations),
        )
    )
    pairs = window_padding(
        check, padding, base.dimensions, sizes, strides, dilations, gaps, of=each
    )
    return Window(sizes, strides, pairs, dilations, gaps)


def _windowed(check: Check, of: str, window: Window) -> ArrayShape:
    """Return the shape of an array with one element for each window over operand `of`."""
    base = check.array(of)
    dimensions = enumerate(zip(base.dimensions, *window, strict=True))
    sizes = [windows_along(check, of, number, *fields) for number, fields in dimensions]
    return check.result(base.element_type, sizes, base.dynamic_dimensions)


def _reduce_window_shape(
    operands: Sequence[Shape],
    init_values: Sequence[Shape],
    computation: ProgramShape,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None,
    padding: Padding | Sequence[tuple[int, int]],
    base_dilations: Sequence[int] | None = None,
    window_dilations: Sequence[int] | None = None,
    *,
    op: str,
) -> Shape:
    check, arrays = reduction_operands(op, operands, init_values)
    equal_sizes(check, arrays)
    lists = (window_dimensions, window_strides, padding, base_dilations, window_dilations)
    window = _window_over(check, "operand 0", *lists)
    reducer(check, computation, arrays, init_values)
    # Like XLA, take dynamic sizes from each operand, unlike in a reduction.
    results = [_windowed(check, f"operand {i}", window) for i in range(len(arrays))]
    return results[0] if computation.result.is_array else TupleShape(results)


def _window_size(op: Any) -> int:
    """Return the number of elements in a window."""
    return math.prod(op.attributes["window_dimensions"])


def _window_of(op: Any) -> str:
    attributes = op.attributes
    lists = {
        "stride": attributes["window_strides"],
        "lhs_dilate": attributes.get("base_dilations", ()),
        "rhs_dilate": attributes.get("window_dilations", ()),
    }
    return window_text(attributes["window_dimensions"], attributes["padding"], lists)


def _reduce_window_equal_sizes(op: SizedOp) -> Pairs:
    names = "window_dimensions", "window_strides", "base_dilations", "window_dilations", "padding"
    windows = zip(*[op.attributes[name] for name in names], strict=True)
    changed = [
        d
        for d, (size, stride, base, dilation, (low, high)) in enumerate(windows)
        if stride != 1 or base != 1 or low + high != (size - 1) * dilation
    ]
    arrays = op.operands[: len(op.results)]
    yield from pairs(arrays[1:], arrays[0])
    for result in op.results:
        yield from pairs(arrays[:1], result, changed)


REDUCE_WINDOW: Final = define(
    "reduce_window",
    "*operands *init_values",
    (
        Attribute("window_dimensions", INTEGERS, None),
        Attribute("window_strides", INTEGERS, None, absent=None),
        Attribute("base_dilations", INTEGERS, None),
        Attribute("window_dilations", INTEGERS, None),
        Attribute("padding", WINDOW_PADDING, None, absent=Padding.VALID),
        Group(_window_of),
        Attribute("to_apply", COMPUTATION, parameter="computation"),
    ),
    element_types={"operands": ANY, "init_values": ANY},
    cost=CostClass.RULE,
    tolerance=Tolerance(applications=_window_size),
    traits=Trait.ON_ELEMENTS,
    equal_sizes=_reduce_window_equal_sizes,
)


Arguments = tuple[
    tuple[int, ...],
    tuple[int, ...],
    Padding | tuple[tuple[int, int], ...],
    tuple[int, ...],
    tuple[int, ...],
]
"""A tuple of window dimensions, strides, padding, base dilations and window dilations."""


def _converted(
    name: str,
    dimensions: Any,
    strides: Any,
    padding: Any,
    base_dilations: Any = None,
    window_dilations: Any = None,
) -> Arguments:
    """Convert the arguments that describe a window."""
    return (
        integers(name, "window_dimensions", dimensions),
        optional_integers(name, "window_strides", strides),
        padding_argument(name, padding),
        optional_integers(name, "base_dilations", base_dilations),
        optional_integers(name, "window_dilations", window_dilations),
    )


def _rule(
    operands: tuple[Shape, ...],
    init_values: tuple[Shape, ...],
    reducer: ProgramShape,
    window: Arguments,
    *,
    op: str,
) -> Shape:
    return _reduce_window_shape(operands, init_values, reducer, *window, op=op)


def _attributes(
    name: str, operands: Sequence[Shape], reducer: XlaComputation, arguments: Arguments
) -> Mapping[str, Any]:
    window = _window_over(Check(name, operand=operands[0]), "operand", *arguments)
    return {**window._asdict(), "to_apply": reducer}


# The ops of this module have bodies because they apply computations, and record numbers.
_record_reduce_window = recorder(Reduction("reduce_window", "reduce_window", _rule, _attributes))
_record_with_general_padding = recorder(
    Reduction("reduce_window", "reduce_window_with_general_padding", _rule, _attributes)
)


@op_by_hand(REDUCE_WINDOW, _reduce_window_shape)
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
    name = "reduce_window"
    arguments = window_dimensions, window_strides, padding, base_dilations, window_dilations
    window = _converted(name, *arguments)
    return _record_reduce_window(name, operands, init_values, computation, window)


@op_by_hand(
    REDUCE_WINDOW,
    _reduce_window_shape,
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
    name = "reduce_window_with_general_padding"
    arguments = window_dimensions, window_strides, padding, base_dilations, window_dilations
    window = _converted(name, *arguments)
    return _record_with_general_padding(name, operands, init_values, computation, window)


def _select_and_scatter_shape(
    operand: Shape,
    select: ProgramShape,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None,
    padding: Padding | Sequence[tuple[int, int]],
    source: Shape,
    init_value: Shape,
    scatter: ProgramShape,
    *,
    op: str,
) -> ArrayShape:
    check = Check(op, operand=operand, source=source, init_value=init_value)
    # StableHLO select_and_scatter (C1)
    array, values = check.array("operand"), check.array("source")
    element_type = check.same_element_type("operand", "source")
    # StableHLO select_and_scatter (C3)
    scalar = intern_array(element_type, ())
    if init_value is not scalar:
        check.fail(
            f"init_value must be a scalar of the operand's element type, {scalar}", got=init_value
        )
    # StableHLO select_and_scatter (C9), (C10)
    pred = intern_array(pt.pred, ())
    returns = "whether to keep the selected element, for instance the result of xb.ge"
    check.applied("select", select, [scalar] * 2, [pred], "selected, candidate", returns)
    check.applied("scatter", scatter, [scalar] * 2, [scalar])
    window = _window_over(check, "operand", window_dimensions, window_strides, padding)
    windows = _windowed(check, "operand", window)
    # StableHLO select_and_scatter (C2). Like XLA, compare sizes and not which of them are bounds.
    if not same_sizes(values, windows):
        check.fail(
            f"source must have one element for each position of the window, {windows}", got=values
        )
    return of_same_sizes(array, element_type)


SELECT_AND_SCATTER: Final = define(
    "select_and_scatter",
    "operand source init_value",
    (
        Attribute("window_dimensions", INTEGERS, None, absent=()),  # of a scalar
        Attribute("window_strides", INTEGERS, None, absent=None),
        Attribute("padding", WINDOW_PADDING, None, absent=Padding.VALID),
        Group(_window_of),
        Attribute("select", COMPUTATION),
        Attribute("scatter", COMPUTATION),
    ),
    element_types={"operand": ANY, "source": ANY, "init_value": ANY},
    cost=CostClass.RULE,
    tolerance=Tolerance(applications=_window_size),
    traits=Trait.ON_ELEMENTS,
    equal_sizes=equal_to_first,
)


@op_by_hand(SELECT_AND_SCATTER, _select_and_scatter_shape)
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
    window = _converted(name, window_dimensions, window_strides, padding)
    return _select_and_scatter(name, operand, select, scatter, window, source, init_value)


@op_by_hand(
    SELECT_AND_SCATTER,
    _select_and_scatter_shape,
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
    window = _converted(name, window_dimensions, window_strides, padding)
    return _select_and_scatter(name, operand, select, scatter, window, source, init_value)


def _select_and_scatter(
    name: str,
    operand: Any,
    select: Any,
    scatter: Any,
    window: Arguments,
    source: Any,
    init_value: Any,
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
        shape, attributes = select._planned(_select_and_scatter_plan, *arguments)
        if constant is not None:
            init_value = append(builder, "constant", init_shape, (), constant)
        return record("select_and_scatter", shape, (base, values, init_value), attributes)


def _select_and_scatter_plan(
    name: str,
    operand: Shape,
    source: Shape,
    init_value: Shape,
    select: XlaComputation,
    scatter: XlaComputation,
    arguments: Arguments,
) -> Planned:
    lists = arguments[:3]
    applied = select.signature, scatter.signature
    shape = _select_and_scatter_shape(
        operand, applied[0], *lists, source, init_value, applied[1], op=name
    )
    attributes = _window_over(Check(name, operand=operand), "operand", *lists)._asdict()
    del attributes["base_dilations"], attributes["window_dilations"]
    return shape, MappingProxyType({**attributes, "select": select, "scatter": scatter})
