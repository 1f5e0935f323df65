"""Which unbounded sizes of a computation are equal.

Each op requires that some sizes of its operands are equal, and its result has some of them. Joined
over all ops, this determines the parameters' dimensions that must have equal sizes in a call. Sizes
that ops read at run time (`get_dimension_size`) are followed to the reshapes and broadcasts that
have them as operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from builder.attributes.padding import PaddingConfigDimension
from builder.graph.aliasing import leaf_indices
from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.types.shape import (
    UNBOUNDED,
    ArrayShape,
    Shape,
    has_unbounded_sizes,
    leaf_count,
    leaves,
)


@dataclass(frozen=True, slots=True)
class OpenSize:
    """Dimensions of unbounded size that have the same size in each call.

    Attributes:
        parameters: the dimensions of parameters, as pairs: the parameter's name, with the indices
            of a tuple's element, such as ``"batch[0]"``, and the number of the dimension.
        results: the dimensions of the result, as pairs: "result" with such indices, and the number.
        size: the size that the program requires; None for any.

    Example:
        >>> import builder as xb
        >>> @xb.computation(xb.f32["?", 3], xb.f32["?"])
        ... def model(x, weights):
        ...     return xb.reduce(x, 0.0, xb.add, [1]) * weights
        >>> model.open_sizes()
        (<OpenSize dimension 0 of x = dimension 0 of weights = dimension 0 of result>,)
    """

    parameters: tuple[tuple[str, int], ...]
    results: tuple[tuple[str, int], ...] = ()
    size: int | None = None

    def __str__(self) -> str:
        places = [f"dimension {d} of {name}" for name, d in (*self.parameters, *self.results)]
        return " = ".join([*places, *([] if self.size is None else [str(self.size)])])

    def __repr__(self) -> str:
        return f"<OpenSize {self}>"


class Open:
    """An unbounded size: equal sizes have the same `root`."""

    __slots__ = ("_parent", "size")

    def __init__(self) -> None:
        self._parent: Open | None = None
        self.size: int | None = None
        """The number that a root must be; None for any."""

    @property
    def root(self) -> Open:
        """The object that stands for all sizes that are equal to this one."""
        root = self
        while root._parent is not None:
            if root._parent._parent is not None:
                root._parent = root._parent._parent  # the next search is shorter
            root = root._parent
        return root


Size = int | Open
Sizes = tuple[Size, ...]
"""The size of each dimension of an array."""

Pairs = Iterable[tuple[Size, Size]]
"""Sizes that must be equal."""

Rule = Callable[[XlaOp, Sequence[Sizes], Sequence[Sizes]], Pairs]
"""A function of an op, of the sizes of the arrays in its operands, and of those in its result."""


def open_sizes_of(computation: XlaComputation) -> tuple[OpenSize, ...]:
    """Return the groups of equal unbounded sizes; see `XlaComputation.open_sizes`."""
    known = joined_sizes(computation)
    parameters: dict[Open, list[tuple[str, int]]] = {}
    for parameter in computation.parameters:
        for size, place in _places(known, parameter, parameter.name or ""):
            parameters.setdefault(size, []).append(place)
    results: dict[Open, list[tuple[str, int]]] = {}
    for size, place in _places(known, computation.root, "result"):
        results.setdefault(size, []).append(place)
    return tuple(
        OpenSize(tuple(places), tuple(results.get(size, ())), size.size)
        for size, places in parameters.items()
    )


def _places(
    known: Mapping[XlaOp, Sequence[Sizes]], op: XlaOp, name: str
) -> Iterator[tuple[Open, tuple[str, int]]]:
    """Yield the unbounded sizes of an op's value, with the place of each."""
    for index, sizes in zip(leaf_indices(op.shape), known.get(op, ()), strict=False):
        path = "".join(f"[{number}]" for number in index)
        for dimension, size in enumerate(sizes):
            if isinstance(size, Open):
                yield size.root, (f"{name}{path}", dimension)


def joined_sizes(computation: XlaComputation) -> dict[XlaOp, list[Sizes]]:
    """Return the sizes of the arrays in each op of a computation; equal ones are joined."""
    inner: dict[XlaComputation, _Inner] = {}
    for each in computation.called_computations():
        _Joining(inner).join(each)
    return _Joining(inner).join(computation)


def joined_sizes_of_ops(ops: Sequence[XlaOp]) -> dict[XlaOp, list[Sizes]]:
    """Return the sizes of the arrays in each of the ops, which are in the order of recording."""
    inner: dict[XlaComputation, _Inner] = {}
    for op in ops:
        for applied in op.called_computations:
            for each in (*applied.called_computations(), applied):
                if each not in inner:
                    _Joining(inner).join(each)
    return _Joining(inner).join_ops(ops)


@dataclass(frozen=True, slots=True)
class _Inner:
    """The equal sizes of a computation that ops apply.

    Attributes:
        groups: equal sizes: for each dimension whether it is one of a parameter, the number of the
            array, and the dimension; `_VALUE` for a parameter that is a size itself.
        fixed: sizes that must be a number.
    """

    groups: list[list[tuple[bool, int, int]]]
    fixed: list[tuple[tuple[bool, int, int], int]]


_VALUE: Final = -1
"""In place of a dimension: the value of a parameter that is a size."""


def _join(one: Size, other: Size) -> None:
    """Note that two sizes are equal."""
    if isinstance(one, int):
        one, other = other, one
    if isinstance(one, int):
        return
    root = one.root
    if isinstance(other, int):
        root.size = other
        return
    other_root = other.root
    if root is not other_root:
        if root.size is None:
            root.size = other_root.size
        other_root._parent = root


class _Joining:
    """The sizes of the ops of one computation."""

    def __init__(self, inner: dict[XlaComputation, _Inner]) -> None:
        self._inner = inner
        self._sizes: dict[XlaOp, list[Sizes]] = {}
        self._values: dict[XlaOp, list[Size | None]] = {}
        """The elements of scalars and vectors of sizes; None for a number that is not a size."""

    def join(self, computation: XlaComputation) -> dict[XlaOp, list[Sizes]]:
        """Join the sizes of a computation, whose inner computations are known."""
        scalars = [p for p in computation.parameters if _may_be_size(p.shape)]
        self._values.update((parameter, [Open()]) for parameter in scalars)
        sizes = self.join_ops(computation.ops)
        found: dict[Open, list[tuple[bool, int, int]]] = {}
        parameters = [leaf for p in computation.parameters for leaf in self._leaves(p)]
        for is_parameter, arrays in ((True, parameters), (False, self._of(computation.root))):
            for number, array in enumerate(arrays):
                for dimension, size in enumerate(array, _VALUE if is_parameter else 0):
                    if isinstance(size, Open):
                        place = is_parameter, number, dimension
                        found.setdefault(size.root, []).append(place)
        fixed = [(places[0], root.size) for root, places in found.items() if root.size is not None]
        self._inner[computation] = _Inner(list(found.values()), fixed)
        return sizes

    def join_ops(self, ops: Iterable[XlaOp]) -> dict[XlaOp, list[Sizes]]:
        """Join the sizes of ops, which are in the order of recording."""
        for op in ops:
            is_open = has_unbounded_sizes(op.shape)
            if is_open or any(operand in self._sizes for operand in op.operands):
                self._op(op)
            elif any(operand in self._values for operand in op.operands):
                self._size_op(op)
        return self._sizes

    def _of(self, op: XlaOp) -> list[Sizes]:
        """Return the sizes of the arrays in an op's value."""
        known = self._sizes.get(op)
        return _sizes(op.shape) if known is None else known

    def _leaves(self, op: XlaOp) -> list[tuple[Size | None, ...]]:
        """Return the sizes of the arrays in an op's value, each after its value as a size."""
        value = self._elements(op)[0] if _may_be_size(op.shape) else None
        return [(value, *sizes) for sizes in self._of(op)]

    def _op(self, op: XlaOp) -> None:
        opcode = op.opcode
        if opcode == "get_dimension_size":
            self._values[op] = [self._of(op.operands[0])[0][op.attributes["dimension"]]]
            return
        operands = [leaf for operand in op.operands for leaf in self._of(operand)]
        if opcode in ("tuple", "optimization_barrier"):
            self._sizes[op] = operands
            return
        if opcode == "get_tuple_element":
            elements = op.operands[0].shape.elements  # type: ignore[union-attr]  # a tuple
            first = sum(map(leaf_count, elements[: op.attributes["index"]]))
            self._sizes[op] = operands[first : first + leaf_count(op.shape)]
            return
        results = _sizes(op.shape)
        if any(isinstance(size, Open) for array in results for size in array):
            self._sizes[op] = results
        structure = self._STRUCTURES.get(opcode)
        if structure is not None:
            structure(self, op, operands, results)
            return
        for one, other in _RULES.get(opcode, same)(op, operands, results):
            _join(one, other)

    def _size_op(self, op: XlaOp) -> None:
        """Follow an op that computes a size, or a vector of sizes, from sizes."""
        if op.opcode in ("convert", "reshape"):
            self._values[op] = self._values[op.operands[0]]
        elif op.opcode == "concatenate":
            self._values[op] = list(chain.from_iterable(map(self._elements, op.operands)))

    def _elements(self, op: XlaOp) -> list[Size | None]:
        """Return the elements of a scalar or vector as sizes."""
        known = self._values.get(op)
        if known is not None:
            return known
        if op.opcode == "constant":
            return [int(element) for element in op.attributes["value"].reshape(-1)]
        return [None] * (op.shape.element_count if isinstance(op.shape, ArrayShape) else 1)

    def _at_run_time(self, sizes: Sizes, values: Iterable[Size | None]) -> None:
        """Join the sizes of a result with those that are operands."""
        for size, value in zip(sizes, values, strict=True):
            if value is not None:
                _join(size, value)

    def _reshape(self, op: XlaOp, _: Sequence[Sizes], results: Sequence[Sizes]) -> None:
        values = [self._elements(size)[0] for size in op.operands[1:]]
        self._at_run_time(results[0], values)

    def _broadcast(self, op: XlaOp, _: Sequence[Sizes], results: Sequence[Sizes]) -> None:
        self._at_run_time(results[0], self._elements(op.operands[1]))

    def _iota(self, op: XlaOp, _: Sequence[Sizes], results: Sequence[Sizes]) -> None:
        self._at_run_time(results[0], self._elements(op.operands[0]))

    def _call(self, op: XlaOp, _: Sequence[Sizes], results: Sequence[Sizes]) -> None:
        given = [leaf for operand in op.operands for leaf in self._leaves(operand)]
        self._apply(op.attributes["to_apply"], given, results)

    def _while(self, op: XlaOp, operands: Sequence[Sizes], results: Sequence[Sizes]) -> None:
        # A loop carries arrays of one shape.
        for before, after in zip(operands, results, strict=True):
            for one, other in zip(before, after, strict=True):
                _join(one, other)
        given = [(None, *sizes) for sizes in operands]
        self._apply(op.attributes["body"], given, operands)
        self._apply(op.attributes["condition"], given, [()])

    def _conditional(self, op: XlaOp, _: Sequence[Sizes], results: Sequence[Sizes]) -> None:
        branches = op.attributes["branch_computations"]
        for branch, operand in zip(branches, op.operands[1:], strict=True):
            self._apply(branch, self._leaves(operand), results)

    def _apply(
        self,
        computation: XlaComputation,
        operands: Sequence[tuple[Size | None, ...]],
        results: Sequence[Sizes],
    ) -> None:
        """Join what a computation makes equal in its operands and results.

        Args:
            computation: the computation.
            operands: for each array of the operands its value as a size, if it is one, and sizes.
            results: the sizes of the arrays of the result.
        """
        inner = self._inner[computation]

        def at(place: tuple[bool, int, int]) -> Size | None:
            is_parameter, number, dimension = place
            if is_parameter:
                return operands[number][dimension - _VALUE]
            return results[number][dimension]

        for group in inner.groups:
            known = [size for place in group if (size := at(place)) is not None]
            for size in known[1:]:
                _join(known[0], size)
        for place, number in inner.fixed:
            size = at(place)
            if size is not None:
                _join(size, number)

    _STRUCTURES: Final[Mapping[str, Callable[..., None]]] = {
        "call": _call,
        "composite": _call,
        "conditional": _conditional,
        "dynamic_broadcast_in_dim": _broadcast,
        "dynamic_iota": _iota,
        "dynamic_reshape": _reshape,
        "while": _while,
    }


def _sizes(shape: Shape) -> list[Sizes]:
    """Return the sizes of the arrays in a shape, with a new `Open` for each unbounded one."""
    return [
        tuple([Open() if size == UNBOUNDED else size for size in leaf.dimensions])
        if isinstance(leaf, ArrayShape)
        else ()
        for leaf in leaves(shape)
    ]


def _may_be_size(shape: Shape) -> bool:
    """Return whether a value may be a size: an integer."""
    return isinstance(shape, ArrayShape) and not shape.rank and shape.element_type.is_integral


# Rules


def same(
    _: XlaOp, operands: Sequence[Sizes], results: Sequence[Sizes], changed: Iterable[int] = ()
) -> Pairs:
    """Yield the sizes of the arrays that have the rank of the result; see `Rule`.

    Args:
        operands, results: the sizes of the arrays.
        changed: the dimensions whose sizes differ.
    """
    if not results:
        return
    kept = set(range(len(results[0]))).difference(changed)
    for array in (*operands, *results[1:]):
        if len(array) == len(results[0]):
            for dimension in kept:
                yield array[dimension], results[0][dimension]


def _none(*_: object) -> Pairs:
    """Yield nothing: no sizes must be equal."""
    return ()


def _but_one(attribute: str) -> Rule:
    """Return a rule for ops that keep all sizes but that of the dimension in an attribute."""
    return lambda op, operands, results: same(op, operands, results, [op.attributes[attribute]])


def _all_to_all(op: XlaOp, operands: Sequence[Sizes], results: Sequence[Sizes]) -> Pairs:
    changed = {op.attributes["split_dimension"], op.attributes["concat_dimension"]}
    return same(op, operands, results, changed if len(changed) > 1 else ())


def _pad(op: XlaOp, operands: Sequence[Sizes], results: Sequence[Sizes]) -> Pairs:
    amounts = op.attributes["padding_config"].dimensions
    changed = [d for d, amount in enumerate(amounts) if amount != _NO_PADDING]
    return same(op, operands[:1], results, changed)


_NO_PADDING: Final = PaddingConfigDimension(0, 0, 0)


def _slice(op: XlaOp, operands: Sequence[Sizes], results: Sequence[Sizes]) -> Pairs:
    names = "start_indices", "limit_indices", "strides"
    limits = zip(*[op.attributes[name] for name in names], strict=True)
    changed = [d for d, each in enumerate(limits) if each != (0, UNBOUNDED, 1)]
    return same(op, operands, results, changed)


def _dynamic_slice(op: XlaOp, operands: Sequence[Sizes], results: Sequence[Sizes]) -> Pairs:
    sizes = op.attributes["slice_sizes"]
    return same(op, operands[:1], results, [d for d, n in enumerate(sizes) if n != UNBOUNDED])


def _first(op: XlaOp, operands: Sequence[Sizes], results: Sequence[Sizes]) -> Pairs:
    """Yield the sizes of the first operand and the result."""
    return same(op, operands[:1], results)


def _transpose(op: XlaOp, operands: Sequence[Sizes], results: Sequence[Sizes]) -> Pairs:
    for size, place in zip(results[0], op.attributes["permutation"], strict=True):
        yield size, operands[0][place]


def _dot(op: XlaOp, operands: Sequence[Sizes], results: Sequence[Sizes]) -> Pairs:
    lhs, rhs = operands[:2]
    numbers = op.attributes["dimension_numbers"]
    numbers = getattr(numbers, "dot_dimension_numbers", numbers)
    batch = numbers.lhs_batch_dimensions, numbers.rhs_batch_dimensions
    contracting = numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions
    for left, right in (*zip(*batch, strict=True), *zip(*contracting, strict=True)):
        yield lhs[left], rhs[right]
    if op.opcode == "dot_general":
        free = [
            size
            for array, *dimensions in (
                (lhs, batch[0], contracting[0]),
                (rhs, batch[1], contracting[1]),
            )
            for d, size in enumerate(array)
            if d not in chain(*dimensions)
        ]
        yield from zip(results[0], [*(lhs[d] for d in batch[0]), *free], strict=True)


def _convolution(op: XlaOp, operands: Sequence[Sizes], results: Sequence[Sizes]) -> Pairs:
    numbers, (lhs, rhs), result = op.attributes["dimension_numbers"], operands, results[0]
    if op.attributes["batch_group_count"] == 1:
        yield result[numbers.output_batch_dimension], lhs[numbers.input_batch_dimension]
    if op.attributes["feature_group_count"] == 1:
        yield lhs[numbers.input_feature_dimension], rhs[numbers.kernel_input_feature_dimension]


def _reduce(op: XlaOp, operands: Sequence[Sizes], results: Sequence[Sizes]) -> Pairs:
    arrays = operands[: len(results)]
    kept = [d for d in range(len(arrays[0])) if d not in op.attributes["dimensions"]]
    yield from same(op, arrays[1:], arrays[:1])
    for result in results:
        yield from zip(result, [arrays[0][d] for d in kept], strict=True)


def _reduce_window(op: XlaOp, operands: Sequence[Sizes], results: Sequence[Sizes]) -> Pairs:
    names = "window_dimensions", "window_strides", "base_dilations", "window_dilations", "padding"
    windows = zip(*[op.attributes[name] for name in names], strict=True)
    changed = [
        d
        for d, (size, stride, base, dilation, (low, high)) in enumerate(windows)
        if stride != 1 or base != 1 or low + high != (size - 1) * dilation
    ]
    arrays = operands[: len(results)]
    yield from same(op, arrays, arrays)
    yield from same(op, arrays, results, changed)


def _gather(op: XlaOp, operands: Sequence[Sizes], results: Sequence[Sizes]) -> Pairs:
    numbers, slices = op.attributes["dimension_numbers"], op.attributes["slice_sizes"]
    array, indices = operands
    omitted = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    window = [d for d in range(len(array)) if d not in omitted]
    for place, d in zip(numbers.offset_dims, window, strict=True):
        if slices[d] == UNBOUNDED:
            yield results[0][place], array[d]
    yield from _index_pairs(numbers, numbers.offset_dims, results[0], indices)
    batching = numbers.operand_batching_dims, numbers.start_indices_batching_dims
    for d, place in zip(*batching, strict=True):
        yield array[d], indices[place]


def _scatter(op: XlaOp, operands: Sequence[Sizes], results: Sequence[Sizes]) -> Pairs:
    numbers, count = op.attributes["dimension_numbers"], len(results)
    indices = operands[count]
    yield from same(op, operands[:count], results)
    for updates in operands[count + 1 :]:
        yield from _index_pairs(numbers, numbers.update_window_dims, updates, indices)
    batching = numbers.input_batching_dims, numbers.scatter_indices_batching_dims
    for d, place in zip(*batching, strict=True):
        yield results[0][d], indices[place]


def _index_pairs(numbers: Any, window: Sequence[int], array: Sizes, indices: Sizes) -> Pairs:
    """Yield the dimensions of an array outside of windows, and those of the index vectors."""
    outside = [size for d, size in enumerate(array) if d not in window]
    vectors = [size for d, size in enumerate(indices) if d != numbers.index_vector_dim]
    return zip(outside, vectors, strict=True)


def _cholesky(op: XlaOp, operands: Sequence[Sizes], results: Sequence[Sizes]) -> Pairs:
    yield operands[0][-2], operands[0][-1]
    yield from same(op, operands, results)


def _triangular_solve(op: XlaOp, operands: Sequence[Sizes], results: Sequence[Sizes]) -> Pairs:
    a, b = operands
    yield a[-2], a[-1]
    yield a[-1], b[-2 if op.attributes["left_side"] else -1]
    yield from zip(a[:-2], b[:-2], strict=True)
    yield from same(op, operands[1:], results)


def _fft(op: XlaOp, operands: Sequence[Sizes], results: Sequence[Sizes]) -> Pairs:
    rank = len(results[0])
    return same(op, operands, results, range(rank - len(op.attributes["fft_length"]), rank))


def _batch_norm(op: XlaOp, operands: Sequence[Sizes], results: Sequence[Sizes]) -> Pairs:
    features = operands[0][op.attributes["feature_index"]]
    for array in (*operands, *results):
        if len(array) == 1:
            yield array[0], features
    yield from same(op, operands[:1], results[:1])
    if op.opcode == "batch_norm_grad":
        yield from same(op, operands[4:], results[:1])


_RULES: Final[Mapping[str, Rule]] = {
    "all_gather": _but_one("all_gather_dim"),
    "all_to_all": _all_to_all,
    "batch_norm_grad": _batch_norm,
    "batch_norm_inference": _batch_norm,
    "batch_norm_training": _batch_norm,
    "cholesky": _cholesky,
    "concatenate": _but_one("dimension"),
    "convolution": _convolution,
    "custom_call": _none,
    "dot_general": _dot,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _first,
    "fft": _fft,
    "gather": _gather,
    "infeed": _none,
    "outfeed": _none,
    "pad": _pad,
    "python_call": _none,
    "ragged_dot": _dot,
    "recv": _none,
    "reduce": _reduce,
    "reduce_scatter": _but_one("scatter_dimension"),
    "reduce_window": _reduce_window,
    "reshape": _none,
    "rng_bit_generator": _none,
    "scatter": _scatter,
    "select_and_scatter": _first,
    "send": _none,
    "slice": _slice,
    "transpose": _transpose,
    "triangular_solve": _triangular_solve,
    "top_k": lambda op, operands, results: same(op, operands, results, [len(results[0]) - 1]),
}
"""The rules of ops whose arrays are not all of the same sizes."""
