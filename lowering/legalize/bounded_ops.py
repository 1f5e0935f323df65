"""Operations that XLA does not follow bounded sizes through, or gets wrong.

Found on jaxlib 0.10 and 0.12. XLA takes arrays of bounded sizes in their largest, and sees to it
that the elements beyond the sizes do no harm. It has no rule for some operations, and for others
one that forgets padding, or that counts indices from the bound. They are done here as XLA does the
others: on arrays of the largest sizes, in which what is beyond the sizes was made harmless, and
whose results then get their sizes.

The rules are asked for operations with an operand of a bounded size, or that make one, in the
order of the program. One that has nothing to say leaves the operation as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from builder import primitive_type as pt
from builder.primitive_type import PrimitiveType
from builder.shape import ArrayShape, intern_array
from lowering.legalize.registry import Rewriter, Value
from lowering.legalize.words import Words, array_of
from lowering.types import mlir_type

__all__ = ["BOUNDED"]

Rule = Callable[["_Sizes", ir.Operation], None]

BOUNDED: Final[dict[str, Callable[[Rewriter, ir.Operation], None]]] = {}
"""By operation name."""

_SIZE: Final = intern_array(pt.s32, ())


def _bounded(*names: str) -> Callable[[Rule], Rule]:
    def enter(function: Rule) -> Rule:
        def rewrite(rewriter: Rewriter, operation: ir.Operation) -> None:
            function(_Sizes(rewriter, operation), operation)

        for name in names:
            BOUNDED[f"stablehlo.{name}"] = rewrite
        return function

    return enter


def _with_marks(shape: ArrayShape, marks: Iterable[bool]) -> ArrayShape:
    return intern_array(shape.element_type, shape.dimensions, tuple(marks))


def _dimensions(shape: ArrayShape) -> list[int]:
    """The bounded dimensions."""
    return [d for d, dynamic in enumerate(shape.dynamic_dimensions) if dynamic]


class _Sizes(Words):
    """Words for bounded sizes."""

    def dimension(self, number: int) -> dict[str, ir.Attribute]:
        kind = ir.IntegerType.get_signless(64, self.before.context)
        return {"dimension": ir.IntegerAttr.get(kind, number)}

    def integer(self, value: int) -> Value:
        return self.number(value, pt.s32)

    def of(self, value: Value) -> dict[int, Value]:
        """The sizes of the bounded dimensions."""
        return {
            d: self("get_dimension_size", _SIZE, [value], self.dimension(d))
            for d in _dimensions(array_of(value))
        }

    def resized(self, value: Value, sizes: Mapping[int, Value]) -> Value:
        """The value with these dimensions bounded, of these sizes."""
        shape = array_of(value)
        marks = list(shape.dynamic_dimensions)
        for dimension, size in sizes.items():
            marks[dimension] = True
            step = _with_marks(shape, marks)
            value = self("set_dimension_size", step, [value, size], self.dimension(dimension))
        return value

    def fixed(self, value: Value, dimensions: Iterable[int] | None = None) -> Value:
        """The value with the bounds of these dimensions (of all) as its sizes."""
        shape = array_of(value)
        marks = list(shape.dynamic_dimensions)
        for dimension in _dimensions(shape) if dimensions is None else dimensions:
            if marks[dimension]:
                marks[dimension] = False
                bound = self.integer(shape.dimensions[dimension])
                step = _with_marks(shape, marks)
                value = self("set_dimension_size", step, [value, bound], self.dimension(dimension))
        return value

    def below(self, shape: ArrayShape, sizes: Mapping[int, Value]) -> Value:
        """For each element of a fixed shape whether its indices are below these sizes."""
        return self.between(shape, {d: (self.integer(0), size) for d, size in sizes.items()})

    def between(self, shape: ArrayShape, ranges: Mapping[int, tuple[Value, Value]]) -> Value:
        """For each element of a fixed shape whether its indices are in these ranges."""
        counted = intern_array(pt.s32, shape.dimensions)
        answer = counted.with_element_type(pt.pred)
        found: Value = None
        for dimension, (start, end) in ranges.items():
            along = {"iota_dimension": self.dimension(dimension)["dimension"]}
            places = self("iota", counted, [], along)
            for inside in (
                self.compared("LE", self.spread(start, counted), places),
                self.compared("LT", places, self.spread(end, counted)),
            ):
                found = inside if found is None else self("and", answer, [found, inside])
        return found

    def filled(self, value: Value, sizes: Mapping[int, Value], filling: Value) -> Value:
        """A value of fixed sizes with a scalar in the places that are not below these sizes."""
        if not sizes:
            return value
        shape = array_of(value)
        return self("select", shape, [self.below(shape, sizes), value, self.spread(filling, shape)])

    def arithmetic(self, name: str, left: Value, right: Value) -> Value:
        return self(name, _SIZE, [left, right])

    def done(
        self,
        operation: ir.Operation,
        operands: list[Value],
        sizes: Sequence[Mapping[int, Value]],
    ) -> None:
        """Puts the same operation of other operands in its place.

        Args:
            operation: the operation.
            operands: all of its operands.
            sizes: for each result the sizes to set; those dimensions are fixed in the operation.
        """
        same = operation.clone(ir.InsertionPoint(operation)).operation
        for number, operand in enumerate(operands):
            same.operands[number] = operand
        found = []
        for result, own in zip(same.results, sizes, strict=True):
            shape = array_of(result)
            marks = [m and d not in own for d, m in enumerate(shape.dynamic_dimensions)]
            result.set_type(mlir_type(_with_marks(shape, marks), self.before.context))
            found.append(self.resized(result, own))
        self.rewriter.replace(operation, found)

    def room(self, size: Value, length: Value) -> Value:
        """The last index at which a part of a length begins, or 0."""
        return self.arithmetic(
            "maximum", self.arithmetic("subtract", size, length), self.integer(0)
        )

    def in_type(self, value: Value, element_type: PrimitiveType) -> Value:
        """A size in another integer type, or the largest that this holds."""
        if element_type.bits < 32:
            most = self.integer(int(element_type.max))
            value = self.arithmetic("minimum", value, most)
        return self.converted(value, element_type)

    def held(self, index: Value, limit: Value) -> Value:
        """A scalar index held between 0 and a limit."""
        shape = array_of(index)
        zero = self.number(0, shape.element_type)
        return self("clamp", shape, [zero, index, self.in_type(limit, shape.element_type)])

    def places(self, values: Iterable[int]) -> ir.Attribute:
        """A list of dimensions or indices as an attribute."""
        return ir.DenseI64ArrayAttr.get(list(values), self.before.context)

    def window_size(self, size: Value, window: _Window) -> Value:
        """How many windows there are along a dimension of a size known only at run time."""
        whole = self.arithmetic("subtract", size, self.integer(1))
        whole = self.arithmetic("multiply", whole, self.integer(window.base_dilation))
        whole = self.arithmetic("add", whole, self.integer(1))
        whole = self.arithmetic("maximum", whole, self.integer(0))
        reach = (window.size - 1) * window.dilation + 1
        # Rounded down, since it is not negative.
        more = self.integer(window.low + window.high - reach + window.stride)
        room = self.arithmetic("maximum", self.arithmetic("add", whole, more), self.integer(0))
        return self.arithmetic("divide", room, self.integer(window.stride))


class _Window:
    """The window along one dimension."""

    def __init__(self, operation: ir.Operation, index: int, size: int) -> None:
        attributes = operation.attributes

        def entry(name: str, default: int = 1) -> int:
            if name not in attributes:
                return default
            return int(ir.DenseI64ArrayAttr(attributes[name])[index])

        self.size = size
        self.stride = entry("window_strides")
        self.base_dilation = entry("base_dilations")
        self.dilation = entry("window_dilations")
        self.low = self.high = 0
        if "padding" in attributes:
            padding = np.asarray(ir.DenseIntElementsAttr(attributes["padding"]))
            self.low, self.high = (int(n) for n in padding.reshape(-1, 2)[index])

    @property
    def is_plain(self) -> bool:
        return (self.base_dilation, self.dilation, self.low, self.high) == (1, 1, 0, 0)


@_bounded("set_dimension_size")
def _set_dimension_size(words: _Sizes, operation: ir.Operation) -> None:
    """A size beyond the bound, or below 0, is held within them: XLA 0.10 may die of it."""
    operand, size = operation.operands
    if isinstance(size, ir.OpResult) and size.owner.name == "stablehlo.constant":
        return
    bound = array_of(operand).dimensions[
        int(ir.IntegerAttr(operation.attributes["dimension"]).value)
    ]
    if bound >= 0:
        operation.operands[1] = words.held(size, words.integer(bound))


@_bounded("bitcast_convert")
def _bitcast_convert(words: _Sizes, operation: ir.Operation) -> None:
    """XLA has no rule for another width. Only a last dimension comes or goes, and it is fixed."""
    operand = operation.operands[0]
    kept = _dimensions(array_of(operation.results[0]))
    sizes = words.of(operand)
    if len(kept) == len(sizes):
        words.done(operation, [words.fixed(operand)], [{d: sizes[d] for d in kept}])


@_bounded("optimization_barrier")
def _optimization_barrier(words: _Sizes, operation: ir.Operation) -> None:
    """XLA 0.10 has no rule; the sizes go through the barrier themselves."""
    values: list[Value] = []
    sizes: list[Value] = []
    places: list[tuple[int, int]] = []
    for number, operand in enumerate(operation.operands):
        if isinstance(operand.type, ir.RankedTensorType) and not operand.type.has_static_shape:
            own = words.of(operand)
            places += [(number, dimension) for dimension in own]
            sizes += own.values()
            operand = words.fixed(operand)
        values.append(operand)
    passed = words.rewriter.create(
        operation.name,
        [value.type for value in (*values, *sizes)],
        [*values, *sizes],
        before=operation,
    )
    results = list(passed.results)
    for (number, dimension), size in zip(places, results[len(values) :], strict=True):
        results[number] = words.resized(results[number], {dimension: size})
    words.rewriter.replace(operation, results[: len(values)])


@_bounded("reduce_window")
def _reduce_window(words: _Sizes, operation: ir.Operation) -> None:
    """XLA 0.10 leaves padding out of the sizes, and both versions leave dilation out."""
    operands = list(operation.operands)
    count = len(operands) // 2
    lengths = list(ir.DenseI64ArrayAttr(operation.attributes["window_dimensions"]))
    windows = [_Window(operation, d, length) for d, length in enumerate(lengths)]
    sizes = [words.of(operand) for operand in operands[:count]]
    bounded = {d: size for own in reversed(sizes) for d, size in own.items()}
    if all(windows[d].is_plain for d in bounded):
        return
    for number, own in enumerate(sizes):
        operands[number] = words.filled(
            words.fixed(operands[number]), own, operands[count + number]
        )
    behind = {d: words.window_size(size, windows[d]) for d, size in bounded.items()}
    # Of several operands some may have fixed sizes where others have bounded ones.
    shapes = map(array_of, operation.results)
    words.done(operation, operands, [{d: behind[d] for d in _dimensions(s)} for s in shapes])


@_bounded("slice")
def _slice(words: _Sizes, operation: ir.Operation) -> None:
    """XLA takes a part of a bounded size for bounded, whatever its type says, as the first values
    of a sort (`top_k`) have it. jaxlib 0.10 dies of such a result of a program."""
    (operand,) = operation.operands
    marks = array_of(operation.results[0]).dynamic_dimensions
    fixed = [d for d in _dimensions(array_of(operand)) if not marks[d]]
    if fixed:
        words.done(operation, [words.fixed(operand, fixed)], [{}])


@_bounded("dynamic_slice")
def _dynamic_slice(words: _Sizes, operation: ir.Operation) -> None:
    """XLA holds the start within the bound, not within the size."""
    operand, *starts = operation.operands
    lengths = list(ir.DenseI64ArrayAttr(operation.attributes["slice_sizes"]))
    for dimension, size in words.of(operand).items():
        starts[dimension] = words.held(
            starts[dimension], words.room(size, words.integer(lengths[dimension]))
        )
    words.done(operation, [operand, *starts], [{}])


@_bounded("dynamic_update_slice")
def _dynamic_update_slice(words: _Sizes, operation: ir.Operation) -> None:
    """As `_dynamic_slice`; and for an update of bounded size XLA has no rule."""
    operand, update, *starts = operation.operands
    sizes, lengths = words.of(operand), words.of(update)
    shape, part = array_of(operand), array_of(update)
    begins, ends = [], {}
    for dimension, start in enumerate(starts):
        size = sizes.get(dimension, words.integer(shape.dimensions[dimension]))
        length = lengths.get(dimension, words.integer(part.dimensions[dimension]))
        # Held within 0 and what a s32 holds, it fits one.
        begin = words.held(start, words.room(size, length))
        begins.append(words.converted(begin, pt.s32))
        ends[dimension] = begins[-1], words.arithmetic("add", begins[-1], length)
    if part.is_static:
        words.done(operation, [operand, update, *begins], [{}])
        return
    whole = words.fixed(operand)
    # With room for all of the update behind it, so that its start is not moved.
    roomy = intern_array(
        shape.element_type,
        tuple(m + n for m, n in zip(shape.dimensions, part.dimensions, strict=True)),
    )
    blank = words.spread(words.number(0, shape.element_type), roomy)
    moved = words("dynamic_update_slice", roomy, [blank, words.fixed(update), *begins])
    cut = words(
        "slice",
        array_of(whole),
        [moved],
        {
            name: words.places(values)
            for name, values in (
                ("start_indices", [0] * shape.rank),
                ("limit_indices", shape.dimensions),
                ("strides", [1] * shape.rank),
            )
        },
    )
    inside = words.between(array_of(whole), ends)
    mixed = words("select", array_of(whole), [inside, cut, whole])
    words.rewriter.replace(operation, [words.resized(mixed, sizes)])


@_bounded("gather")
def _gather(words: _Sizes, operation: ir.Operation) -> None:
    """XLA holds indices within the bound, not within the size, and has no rule for batches."""
    operand, indices = operation.operands
    sizes, counts = words.of(operand), words.of(indices)
    if not sizes:
        return
    numbers = stablehlo.GatherDimensionNumbers(operation.attributes["dimension_numbers"])
    lengths = list(ir.DenseI64ArrayAttr(operation.attributes["slice_sizes"]))
    vector = numbers.index_vector_dim
    indices = words.fixed(indices)
    shape = array_of(indices)
    most = intern_array(pt.s32, (1,))
    row = intern_array(shape.element_type, (len(numbers.start_index_map),))
    limits = []
    for dimension in numbers.start_index_map:
        length = words.integer(lengths[dimension])
        size = sizes.get(dimension, words.integer(array_of(operand).dimensions[dimension]))
        limit = words.in_type(words.room(size, length), shape.element_type)
        limits.append(words("reshape", most.with_element_type(shape.element_type), [limit]))
    if limits:
        limit = words("concatenate", row, limits, words.dimension(0))
        if vector == shape.rank:
            scalar = intern_array(shape.element_type, ())
            spread = words.spread(words("reshape", scalar, [limit]), shape)
        else:
            spread = words.spread(limit, shape, [vector])
        indices = words("minimum", shape, [indices, spread])
    result = array_of(operation.results[0])
    places = iter(d for d in range(shape.rank) if d != vector)
    inside = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    offsets = iter(d for d in range(array_of(operand).rank) if d not in inside)
    behind = {}
    for dimension in range(result.rank):
        if dimension in numbers.offset_dims:
            size = sizes.get(next(offsets))
        else:
            size = counts.get(next(places))
        if size is not None and result.dynamic_dimensions[dimension]:
            behind[dimension] = size
    words.done(operation, [words.fixed(operand), indices], [behind])


@_bounded("scatter")
def _scatter(words: _Sizes, operation: ir.Operation) -> None:
    """XLA does not see that windows are as large as the operand, where both are bounded.

    What is beyond the windows' sizes is written beyond those of the operand.
    """
    operands = list(operation.operands)
    count = len(operands) // 2
    numbers = stablehlo.ScatterDimensionNumbers(operation.attributes["scatter_dimension_numbers"])
    fixed = (*numbers.inserted_window_dims, *numbers.input_batching_dims)
    shape = array_of(operands[0])
    along = [d for d in range(shape.rank) if d not in fixed]
    pairs = [
        (before, after)
        for before, after in zip(along, numbers.update_window_dims, strict=True)
        if all(
            array_of(operands[i]).dynamic_dimensions[before]
            and array_of(operands[count + 1 + i]).dynamic_dimensions[after]
            and array_of(operands[i]).dimensions[before]
            == array_of(operands[count + 1 + i]).dimensions[after]
            for i in range(count)
        )
    ]
    if not pairs:
        return
    behind = []
    for number in range(count):
        sizes = words.of(operands[number])
        behind.append({before: sizes[before] for before, _ in pairs})
        operands[number] = words.fixed(operands[number], [before for before, _ in pairs])
        update = count + 1 + number
        operands[update] = words.fixed(operands[update], [after for _, after in pairs])
    words.done(operation, operands, behind)


@_bounded("sort")
def _sort(words: _Sizes, operation: ir.Operation) -> None:
    """XLA 0.10 has no rule where an operand is bounded and another is not."""
    operands = list(operation.operands)
    along = int(ir.IntegerAttr(operation.attributes["dimension"]).value)
    along += array_of(operands[0]).rank if along < 0 else 0
    sizes = {}
    for operand in reversed(operands):
        sizes.update(words.of(operand))
    missing = [
        [d for d in sizes if not array_of(operand).dynamic_dimensions[d]] for operand in operands
    ]
    if along not in sizes or not any(missing):
        return
    bounded = [
        words.resized(operand, {d: sizes[d] for d in dimensions})
        for operand, dimensions in zip(operands, missing, strict=True)
    ]
    same = operation.clone(ir.InsertionPoint(operation)).operation
    found = []
    for number, operand in enumerate(bounded):
        same.operands[number] = operand
        same.results[number].set_type(operand.type)
        found.append(words.fixed(same.results[number], missing[number]))
    words.rewriter.replace(operation, found)


@_bounded("while")
def _loop(words: _Sizes, operation: ir.Operation) -> None:
    """With a number beside the one array: XLA's compiler dies of a state that is no tuple.

    It would find that a number is of no use, but for a barrier in the body, and as the condition
    looks at it: as long as it is 0, which it stays, the loop goes on.
    """
    operands = list(operation.operands)
    if len(operands) > 1:
        return
    beside = words.integer(0)
    made = words.rewriter.create(
        operation.name,
        [operands[0].type, beside.type],
        [operands[0], beside],
        before=operation,
        regions=2,
    )
    ends: list[tuple[_Sizes, Value, Value]] = []
    for region, old in zip(made.regions, operation.regions, strict=True):
        old.blocks[0].append_to(region)
        block = region.blocks[0]
        last = list(block.operations)[-1].operation
        number = block.add_argument(beside.type, operation.location)
        ends.append((_Sizes(words.rewriter, last), last.operands[0], number))
    (there, goes_on, number), (body, value, same) = ends
    goes_on = there(
        "and",
        array_of(goes_on),
        [goes_on, there.compared("EQ", number, there.integer(0))],
    )
    for inside, values in (
        (there, [goes_on]),
        (body, [value, body("optimization_barrier", _SIZE, [same])]),
    ):
        last = inside.before
        ip = ir.InsertionPoint(last)
        ir.Operation.create(last.name, operands=values, loc=last.location, ip=ip)
        last.erase()
    words.rewriter.replace(operation, [made.results[0]])
