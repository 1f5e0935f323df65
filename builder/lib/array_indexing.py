"""Indexing by arrays of integers: ``x[rows, columns]`` and ``x.at[rows].add(...)``.

The rules are NumPy's. Arrays, integers and scalar ops of a key are broadcast with each other. The
sizes of the broadcast shape take the place of the first of these entries, or come first in the
result if a slice, None or ``...`` is between the entries. The slices of a key are recorded first;
then one `gather` reads the elements, or one `scatter` writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from builder.attributes import GatherDimensionNumbers, ScatterDimensionNumbers
from builder.checking import CONVERT, Check
from builder.errors import brief
from builder.graph.recording import resolve_builder
from builder.graph.xla_op import XlaOp
from builder.lib.arguments import as_type, shape_of
from builder.ops import elementwise as ew
from builder.ops.indexing import gather, scatter
from builder.ops.operands import Operand, number_as
from builder.ops.reduction import reduce
from builder.ops.reshaping import broadcast_in_dim, concatenate, reshape
from builder.support.caches import per_signature
from builder.types.foreign_arrays import is_array
from builder.types.primitive_type import s32, s64
from builder.types.shape import ArrayShape, intern_array

if TYPE_CHECKING:
    from builder.graph.xla_op import Key

READ_MODES: Final = ("clip", "fill")
WRITE_MODES: Final = ("drop", "clip")


def is_index_array(entry: Any) -> bool:
    """Return whether an entry of a key is an array or a list, with one dimension or more."""
    if isinstance(entry, XlaOp):
        return isinstance(entry.shape, ArrayShape) and entry.shape.rank > 0
    if isinstance(entry, (list, range)):
        return True
    return is_array(entry) and np.ndim(entry) > 0


class ArrayKey(NamedTuple):
    """A key with arrays.

    Attributes:
        basic: the slices of the key, with ``:`` in place of arrays, integers and scalar ops. It
            selects the part that is indexed.
        dimensions: the dimensions of this part that are indexed by `indices`.
        indices: an index for each of these dimensions: an op, or an array of NumPy that has been
            checked and has no negative numbers.
        sizes: the sizes to which the indices are broadcast.
        place: the dimension of the result at which these sizes begin.
    """

    basic: tuple[Any, ...]
    dimensions: tuple[int, ...]
    indices: tuple[Any, ...]
    sizes: tuple[int, ...]
    place: int

    def is_whole(self) -> bool:
        """Return whether the part that is indexed is the whole array."""
        return all(entry == slice(None) for entry in self.basic)

    def ops(self) -> list[XlaOp]:
        """Return the indices that are ops."""
        return [index for index in self.indices if isinstance(index, XlaOp)]


def array_key(op: str, shape: ArrayShape, key: Key) -> ArrayKey:
    """Return a key with arrays for an array of a shape.

    Raises:
        ShapeInferenceError: see `XlaOp.__getitem__`.
    """
    check = Check(op, x=shape)
    entries = key if isinstance(key, tuple) else (key,)
    given = sum(1 for entry in entries if entry is not None and entry is not ...)
    if given > shape.rank:
        rule = f"a key must have at most one index for each dimension of x: {shape.rank}"
        check.fail(rule, got=given)
    if sum(1 for entry in entries if entry is ...) > 1:
        check.fail("a key must contain ... at most once", got=brief(key))
    rest = [slice(None)] * (shape.rank - given)
    if not any(entry is ... for entry in entries):
        entries = (*entries, ...)
    whole: list[Any] = []
    for entry in entries:
        whole += rest if entry is ... else [entry]
    basic = tuple(
        entry if entry is None or isinstance(entry, slice) else slice(None) for entry in whole
    )
    # Without arrays, `...` with no dimension also separates.
    at = [n for n, entry in enumerate(entries) if entry is not ... and not _is_basic(entry)]
    together = at == list(range(at[0], at[-1] + 1))
    dimensions, indices = [], []
    number = 0  # of the dimension of x
    for position, entry in enumerate(whole):
        if entry is None:
            continue
        if not isinstance(entry, slice):
            dimensions.append(position)
            indices.append(_index(check, shape, number, entry))
        number += 1
    sizes = _broadcast_sizes(check, indices)
    for position, entry in enumerate(whole):
        _check_selected(check, shape, position, entry, whole)
    place = dimensions[0] if together else 0
    return ArrayKey(basic, tuple(dimensions), tuple(indices), sizes, place)


def _is_basic(entry: Any) -> bool:
    return entry is None or isinstance(entry, slice)


def _check_selected(
    check: Check, shape: ArrayShape, position: int, entry: Any, whole: Sequence[Any]
) -> None:
    """Check that a dimension that a key with arrays selects entirely has a fixed size."""
    if not _is_basic(entry) or entry is None:
        return
    number = sum(1 for each in whole[:position] if each is not None)
    if shape.dynamic_dimensions[number]:
        rule = "beside index arrays, a dimension must have a fixed size"
        fix = "take parts along one dimension with lib.take(x, indices, axis), or use xb.gather"
        check.fail(rule, got=shape, fix=fix, dimension=number)


def _index(check: Check, shape: ArrayShape, dimension: int, entry: Any) -> Any:
    """Return an index as an op of integers, or as a checked array of NumPy."""
    size = shape.dimensions[dimension]
    if shape.dynamic_dimensions[dimension]:
        rule = "a dimension of dynamic size must be selected entirely, by `:`"
        fix = f"use lib.take(x, indices, axis={dimension}), or xb.gather"
        check.fail(rule, got=shape, fix=fix, dimension=dimension)
    if isinstance(entry, XlaOp):
        return _op_index(check, dimension, size, entry)
    if isinstance(entry, list) and any(isinstance(each, XlaOp) for each in entry):
        rule = "a list of indices must consist of integers"
        fix = "combine ops into an array: xb.concatenate([i[None], j[None]], 0)"
        check.fail_along(dimension, rule, brief(entry, 80), fix=fix)
    try:
        array = np.asarray(entry)
    except ValueError:  # nested lists of different lengths
        array = np.asarray(None)
    if array.dtype == bool:
        _refuse_mask(check, dimension, f"an array of bools, {brief(entry, 80)}")
    if array.size == 0 and isinstance(entry, list):
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        rule = "an index must be an array or a list of integers"
        check.fail_along(dimension, rule, brief(entry, 80))
    if array.size and not (array.min() >= -size and array.max() < size):
        numbers = f"from {-size} to {size - 1}" if size else "in a dimension that is not empty"
        wrong = array[(array < -size) | (array >= size)].reshape(-1)[0]
        check.fail_along(dimension, f"an index must be {numbers}", wrong)
    # A narrow type, such as s8, may not represent the size. All indices in range fit s64.
    array = array.astype(np.int64)
    return np.where(array < 0, array + size, array)


def _op_index(check: Check, dimension: int, size: int, entry: XlaOp) -> XlaOp:
    kind = entry.shape
    if not isinstance(kind, ArrayShape):
        check.fail_along(dimension, "an index must be an array of integers", kind)
    if kind.element_type.name == "pred":
        _refuse_mask(check, dimension, str(kind))
    if not kind.element_type.is_integral:
        rule = "an index must be an array of integers"
        check.fail_along(dimension, rule, kind, fix=CONVERT)
    if size == 0:
        check.fail_along(dimension, "an index requires a size of at least 1", size)
    return entry


def _refuse_mask(check: Check, dimension: int, got: str) -> None:
    rule = "an index must not be a mask, because the number of true elements is not known"
    fix = (
        "write xb.select(mask, x, other) for other elements where the mask is false, or "
        "xb.select(mask, new, x) in place of x.at[mask].set(new)"
    )
    check.fail_along(dimension, rule, got, fix=fix)


def _broadcast_sizes(check: Check, indices: Sequence[Any]) -> tuple[int, ...]:
    """Return the sizes to which NumPy broadcasts the indices."""
    shapes = [shape_of(i) if isinstance(i, XlaOp) else intern_array(s64, i.shape) for i in indices]
    arrays = [shape for shape in shapes if shape.rank]
    if any(not shape.is_static for shape in arrays):
        if len({(shape.dimensions, shape.dynamic_dimensions) for shape in arrays}) > 1:
            rule = "index arrays of dynamic sizes must have the same shape"
            got = " and ".join(map(str, arrays))
            check.fail(rule, got=got, fix="broadcast them first, with xb.broadcast_in_dim")
        if len(shapes) > 1:
            rule = "an index array of a dynamic size must be the only index"
            fix = "select with the other indices first, or use xb.gather"
            check.fail(rule, got=" and ".join(map(str, shapes)), fix=fix)
        return arrays[0].dimensions
    try:
        return np.broadcast_shapes(*[shape.dimensions for shape in shapes])
    except ValueError:
        rule = "index arrays must have sizes that NumPy broadcasts: equal ones, or 1"
        got = " and ".join(str(list(shape.dimensions)) for shape in shapes)
        check.fail(rule, got=got, fix="insert dimensions of size 1 with xb.reshape")


# Reading and writing


def read(part: XlaOp, key: ArrayKey, mode: str = "clip", fill_value: Operand = 0) -> XlaOp:
    """Return the elements at the indices of a part of an array.

    Args:
            part: the part of the array that the basic key selects.
    key: the key.
    mode: what an index out of range reads: "clip" the nearest element, "fill" `fill_value`.
        fill_value: a number or a scalar of the array's type.
    """
    positions = _positions(part, key)
    numbers, sizes = _gather_numbers(shape_of(part), key, shape_of(positions).rank)
    found = gather(part, positions, numbers, sizes)
    if mode == "clip" or not key.ops():
        return found
    inside = _inside(part, key, positions)
    shape = shape_of(found)
    dimensions = list(range(key.place, key.place + len(key.sizes)))
    mask = broadcast_in_dim(inside, shape.dimensions, dimensions)
    fill = number_as("at.get", fill_value, shape.element_type, part)
    return ew.select(mask, found, broadcast_in_dim(fill, shape.dimensions, []))


def write(
    part: XlaOp,
    key: ArrayKey,
    value: XlaOp,
    combine: Callable[[XlaOp, XlaOp], XlaOp] | None,
    mode: str = "drop",
) -> XlaOp:
    """Return the part of an array with other elements at the indices.

    Args:
        part: the part of the array that the basic key selects.
        key: the key.
        value: an array of the sizes that `read` returns, or a scalar.
        combine: the function of an element and a value; None for the value.
        mode: what happens to an index out of range: "drop" ignores it, "clip" takes the nearest.
    """
    positions = _positions(part, key)
    if mode == "clip":
        positions = _clipped(part, key, positions)
    shape = shape_of(part)
    numbers, _ = _gather_numbers(shape, key, shape_of(positions).rank)
    if not shape_of(value).rank:
        value = broadcast_in_dim(value, result_sizes(shape, key), [])
    scattered = ScatterDimensionNumbers(
        update_window_dims=numbers.offset_dims,
        inserted_window_dims=key.dimensions,
        scatter_dims_to_operand_dims=key.dimensions,
        index_vector_dim=numbers.index_vector_dim,
    )
    return scatter(part, positions, value, combine or _new, scattered)


def _new(_: XlaOp, new: XlaOp) -> XlaOp:
    return new


def result_sizes(shape: ArrayShape, key: ArrayKey) -> list[int]:
    """Return the sizes of the elements at a key; `shape` is that of the part."""
    rest = [size for n, size in enumerate(shape.dimensions) if n not in key.dimensions]
    return [*rest[: key.place], *key.sizes, *rest[key.place :]]


@per_signature
def _numbers(
    rank: int, dimensions: tuple[int, ...], place: int, count: int, vector: int
) -> GatherDimensionNumbers:
    others = rank - len(dimensions)
    return GatherDimensionNumbers(
        offset_dims=tuple(n if n < place else n + count for n in range(others)),
        collapsed_slice_dims=dimensions,
        start_index_map=dimensions,
        index_vector_dim=vector,
    )


def _gather_numbers(
    shape: ArrayShape, key: ArrayKey, rank: int
) -> tuple[GatherDimensionNumbers, list[int]]:
    """Return the dimension numbers and the slice sizes of a gather with indices of a rank."""
    count = len(key.sizes)
    vector = count if rank == count else rank - 1
    numbers = _numbers(shape.rank, key.dimensions, key.place, count, vector)
    sizes = [s and 1 if n in key.dimensions else s for n, s in enumerate(shape.dimensions)]
    return numbers, sizes


def _positions(part: XlaOp, key: ArrayKey) -> XlaOp:
    """Return the indices as one op: for several dimensions, with a last dimension for them."""
    builder = resolve_builder("getitem", part, *key.ops())
    sizes = shape_of(part).dimensions
    types = [shape_of(index).element_type for index in key.ops()]
    is_wide = any(kind.bits + (not kind.is_signed) > s32.bits for kind in types)
    kind = s64 if is_wide or any(sizes[n] > s32.max for n in key.dimensions) else s32
    rank = len(key.sizes)
    if not types:
        stacked = np.stack(np.broadcast_arrays(*key.indices), -1) if len(key.indices) > 1 else None
        values = key.indices[0] if stacked is None else stacked
        return builder.constant(np.asarray(values, kind.dtype, order="C"))
    found = []
    for number, index in zip(key.dimensions, key.indices, strict=True):
        if isinstance(index, XlaOp):
            wide = as_type(index, kind)
            if shape_of(index).element_type.is_signed:  # a negative index counts from the end
                wide = ew.select(wide < 0, wide + sizes[number], wide)
        else:
            wide = builder.constant(np.asarray(index, kind.dtype, order="C"))
        found.append(wide)
    if len(found) == 1:
        return found[0]
    vectors = []
    for each in found:
        own = shape_of(each)
        if own.dimensions != key.sizes:
            # Dimensions of size 1 are left out, to be broadcast.
            first = rank - own.rank
            kept = [n for n, size in enumerate(own.dimensions) if size == key.sizes[first + n]]
            each = reshape(each, [own.dimensions[n] for n in kept])
            each = broadcast_in_dim(each, key.sizes, [first + n for n in kept])
        vectors.append(reshape(each, [*key.sizes, 1]))
    return concatenate(vectors, rank)


def _limits(part: XlaOp, key: ArrayKey, positions: XlaOp) -> tuple[XlaOp, XlaOp]:
    """Return the least and the greatest valid indices, each as an array like `positions`."""
    shape = shape_of(positions)
    builder = resolve_builder("getitem", part)
    sizes = shape_of(part).dimensions
    dtype = shape.element_type.dtype
    zero = builder.constant(np.zeros((), dtype))
    last = np.asarray([sizes[n] - 1 for n in key.dimensions], dtype)
    has_vector = len(key.dimensions) > 1
    greatest = builder.constant(last if has_vector else last[0])
    dimensions = [shape.rank - 1] if has_vector else []
    return (
        broadcast_in_dim(zero, shape.dimensions, []),
        broadcast_in_dim(greatest, shape.dimensions, dimensions),
    )


def _clipped(part: XlaOp, key: ArrayKey, positions: XlaOp) -> XlaOp:
    least, greatest = _limits(part, key, positions)
    return ew.clamp(least, positions, greatest)


def _inside(part: XlaOp, key: ArrayKey, positions: XlaOp) -> XlaOp:
    """Return whether all indices are in range, at each place of the broadcast indices."""
    least, greatest = _limits(part, key, positions)
    inside = ew.and_(ew.ge(positions, least), ew.le(positions, greatest))
    if len(key.dimensions) == 1:
        return inside
    true = resolve_builder("getitem", part).constant(True)
    return reduce(inside, true, ew.and_, [shape_of(positions).rank - 1])
