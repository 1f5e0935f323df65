"""Indexing of arrays: ``x[key]``, and ``x.at[key]``, which returns x with other elements at a key.

A key is one of NumPy's basic indices (an integer, a slice, None, ``...``), or a tuple of them.
Integers may be negative, as in NumPy. A scalar op is an index at run time. `XlaOp` documents both
operators.
`builder.lib.array_indexing` is for keys with arrays.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import numpy as np

from builder.checking import CONVERT, Check
from builder.errors import OperandError, UnknownNameError, brief, error_of
from builder.graph.recording import resolve_builder, rollback_on_error
from builder.graph.xla_op import XlaOp
from builder.lib.arguments import array_argument, as_type, shape_of
from builder.lib.array_indexing import (
    READ_MODES,
    WRITE_MODES,
    ArrayKey,
    array_key,
    is_index_array,
    read,
    result_sizes,
    write,
)
from builder.lib.registry import errors_named
from builder.ops import elementwise as ew
from builder.ops.dynamic import get_dimension_size, set_dimension_size
from builder.ops.indexing import dynamic_slice, dynamic_update_slice
from builder.ops.operands import Operand, is_number, number_as, number_constant
from builder.ops.reshaping import broadcast, pad, reshape, rev, slice as slice_
from builder.support.arguments import is_function
from builder.support.caches import per_signature
from builder.types.primitive_type import s32, s64
from builder.types.shape import UNBOUNDED, ArrayShape

if TYPE_CHECKING:
    from builder.graph.xla_op import Key

_KINDS: Final = "an integer, a slice, None, ..., an array or an op of integers"
_BOUNDS: Final = "the bounds and the step of a slice must be integers or None"
_GIVE_SIZES: Final = "give each dimension a size, or a bound such as <=8"


class _Range(NamedTuple):
    """The part of one dimension that a key selects.

    Attributes:
        first: the least index; 0 for an index at run time.
        size: the number of indices; the size of a dimension that the key selects entirely.
        step: the distance between the indices, positive; 1 if there is only one index.
        is_reversed: whether the indices are selected in descending order.
        op: the index at run time, or None.
    """

    first: int
    size: int
    step: int = 1
    is_reversed: bool = False
    op: XlaOp | None = None

    @property
    def span(self) -> int:
        """The number of indices from the least to the greatest one."""
        return self.size if self.step == 1 else (self.size - 1) * self.step + 1


class _Selection(NamedTuple):
    """The elements of an array that a key selects.

    Attributes:
        ranges: the part of each dimension of the array.
        kept: the dimension of the array for each dimension of the result, or None for a new
            dimension.
    """

    ranges: tuple[_Range, ...]
    kept: tuple[int | None, ...]

    @property
    def sizes(self) -> list[int]:
        """The sizes of the result."""
        return [1 if n is None else self.ranges[n].size for n in self.kept]

    @property
    def indices(self) -> list[XlaOp]:
        """The indices that are ops."""
        return [part.op for part in self.ranges if part.op is not None]

    @property
    def has_steps(self) -> bool:
        return any(part.step > 1 for part in self.ranges)


@errors_named("getitem")
def item_of(x: XlaOp, key: Key) -> XlaOp:
    """Return ``x[key]`` of an array; see `XlaOp.__getitem__`."""
    shape = array_argument("getitem", "x", x)
    if has_arrays(key):
        keyed = array_key("getitem", shape, key)
        with rollback_on_error(resolve_builder("getitem", x, *keyed.ops())):
            return read(_part(x, keyed), keyed)
    selection = _selection("getitem", shape, key)
    with rollback_on_error(resolve_builder("getitem", x, *selection.indices)):
        return _selected_part(x, selection)


def _selected_part(x: XlaOp, selection: _Selection) -> XlaOp:
    """Return the elements of an array that a selection contains."""
    shape = shape_of(x)
    part = _read(x, selection, _starts(x, selection) if selection.indices else None)
    for n, is_dynamic in enumerate(shape.dynamic_dimensions):
        # Slices have a fixed size in a dimension of bound 1.
        if is_dynamic and not shape_of(part).dynamic_dimensions[n]:
            part = set_dimension_size(part, get_dimension_size(x, n), n)
    turned = [n for n, part_of in enumerate(selection.ranges) if part_of.is_reversed]
    if turned:
        part = rev(part, turned)
    if selection.kept != tuple(range(shape.rank)):
        part = reshape(part, selection.sizes)
    return part


def has_arrays(key: Any) -> bool:
    """Return whether a key has an array as an index."""
    return any(map(is_index_array, key)) if type(key) is tuple else is_index_array(key)


def _part(x: XlaOp, key: ArrayKey) -> XlaOp:
    """Return the part of an array that the slices of a key with arrays select."""
    return x if key.is_whole() else item_of(x, key.basic)


class Places:
    """The places of an array that can be updated; the value of ``x.at``.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[4, 3])
        >>> x.at[0, 1:].set(0.0).shape
        f32[4,3]
    """

    __slots__ = ("_x",)

    # Without this, iteration would call `__getitem__`.
    __iter__ = None

    def __init__(self, x: XlaOp) -> None:
        self._x = x

    def __getitem__(self, key: Key) -> Place:
        """Return the place of the elements ``x[key]``, see `XlaOp.__getitem__`."""
        shape = array_argument("at", "x", self._x)
        if not shape.is_bounded:
            rule = "x must not have an unbounded size"
            Check("at", x=shape).fail(rule, got=shape, fix=_GIVE_SIZES)
        if has_arrays(key):
            return Place(self._x, array_key("at", shape, key), key)
        return Place(self._x, _selection("at", shape, key), key)

    if not TYPE_CHECKING:  # type checkers report unknown names

        def __getattr__(self, name: str) -> NoReturn:
            fix = f"give a key first: x.at[key].{name}"
            raise _unknown_name("at", name, fix if hasattr(Place, name) else "write x.at[key]")

        def __setitem__(self, key: Any, value: Any) -> NoReturn:
            rule = "an op never changes, so x.at[key] can't be assigned to"
            raise error_of(OperandError, "at", rule, "record a new array: x.at[key].set(value)")


class Place:
    """A place of an array; the value of ``x.at[key]``.

    All methods except `get` return an array of the shape of x, with other elements at the place.
    The argument `value` is an array of the shape of ``x[key]`` and of x's element type, or one
    value for all elements: a scalar, or a number that the type can represent.

    If an index occurs several times in the arrays of a key, `add`, `mul`, `min` and `max` use all
    of the values; `set` and `apply` use one of them, in no defined order.

    The argument `mode` is for indices out of range at run time: "drop" ignores them, "clip" takes
    the nearest valid index. By default indices in arrays are dropped, and scalar indices are
    clamped, as in `dynamic_update_slice`. With a mode, a negative scalar counts from the end, like
    a negative index in an array.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, row, i = b.parameter(xb.f32[4, 3]), b.parameter(xb.f32[3]), b.parameter(xb.s32[()])
        >>> x.at[i].add(row).shape
        f32[4,3]
        >>> tokens, rows = b.parameter(xb.s32[5]), b.parameter(xb.f32[5, 3])
        >>> x.at[tokens].add(rows).shape, x.at[tokens].get(mode="fill").shape
        (f32[4,3], f32[5,3])
    """

    __slots__ = ("_given", "_key", "_x")

    def __init__(self, x: XlaOp, key: _Selection | ArrayKey, given: Key) -> None:
        self._x = x
        self._key = key
        self._given = given

    @errors_named("at.get")
    def get(self, *, mode: str | None = None, fill_value: Operand = 0) -> XlaOp:
        """Return the elements at the place, ``x[key]``.

        Args:
            mode: what an index out of range reads at run time: the nearest element with "clip", the
                default, or the number `fill_value` with "fill".
            fill_value: a number, or a scalar of x's type.
        """
        _check_mode("at.get", mode, READ_MODES)
        x, key = self._x, self._key_for("at.get", mode)
        if isinstance(key, ArrayKey):
            with rollback_on_error(resolve_builder("at.get", x, *key.ops())):
                return read(_part(x, key), key, mode or "clip", fill_value)
        with rollback_on_error(resolve_builder("at.get", x, *key.indices)):
            return _selected_part(x, key)

    @errors_named("at.set")
    def set(self, value: Operand, *, mode: str | None = None) -> XlaOp:
        """Return the array with `value` at the place."""
        return self._with("at.set", value, None, mode)

    @errors_named("at.apply")
    def apply(self, function: Callable[[XlaOp], XlaOp], *, mode: str | None = None) -> XlaOp:
        """Return the array with ``function(x[key])`` at the place.

        Args:
            function: takes the elements as an array, and returns one of the same shape.
            mode: see `Place`.
        """
        if not is_function(function):
            rule = "function must be a function of an op"
            raise error_of(OperandError, "at.apply", rule, got=brief(function))
        return self._with("at.apply", function(self.get()), None, mode)

    @errors_named("at.add")
    def add(self, value: Operand, *, mode: str | None = None) -> XlaOp:
        """Return the array with `value` added at the place."""
        return self._with("at.add", value, ew.add, mode)

    @errors_named("at.mul")
    def mul(self, value: Operand, *, mode: str | None = None) -> XlaOp:
        """Return the array multiplied by `value` at the place."""
        return self._with("at.mul", value, ew.mul, mode)

    @errors_named("at.max")
    def max(self, value: Operand, *, mode: str | None = None) -> XlaOp:
        """Return the array with the maximum of its elements and `value` at the place."""
        return self._with("at.max", value, ew.max, mode)

    @errors_named("at.min")
    def min(self, value: Operand, *, mode: str | None = None) -> XlaOp:
        """Return the array with the minimum of its elements and `value` at the place."""
        return self._with("at.min", value, ew.min, mode)

    def _with(
        self,
        op: str,
        value: Operand,
        combine: Callable[[XlaOp, XlaOp], XlaOp] | None,
        mode: str | None,
    ) -> XlaOp:
        _check_mode(op, mode, WRITE_MODES)
        key = self._key_for(op, mode)
        if isinstance(key, ArrayKey):
            return _scattered(op, self._x, key, value, combine, mode or "drop")
        return _updated(op, self._x, key, value, combine)

    def _key_for(self, op: str, mode: str | None) -> _Selection | ArrayKey:
        """Return the key; with a mode, its scalar ops become indices of a gather or scatter."""
        key = self._key
        if mode is None or isinstance(key, ArrayKey) or not key.indices:
            return key
        return array_key(op, shape_of(self._x), self._given)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            fix = _UPDATES_OF_JAX.get(name, "use get, set, add, mul, max, min or apply")
            raise _unknown_name("at[key]", name, fix)


def _check_mode(op: str, mode: Any, modes: Sequence[str]) -> None:
    if mode is not None and (not isinstance(mode, str) or mode not in modes):
        rule = f"mode must be {' or '.join(map(repr, modes))}"
        raise error_of(OperandError, op, rule, argument="mode", got=brief(mode))


def _scattered(
    op: str,
    x: XlaOp,
    key: ArrayKey,
    value: Any,
    combine: Callable[[XlaOp, XlaOp], XlaOp] | None,
    mode: str,
) -> XlaOp:
    """Return x with ``combine(element, value)`` or, without `combine`, `value` at the indices."""
    operands = [value] if isinstance(value, XlaOp) else []
    with rollback_on_error(resolve_builder(op, x, *key.ops(), *operands)):
        part = _part(x, key)
        shape = shape_of(part)
        sizes = result_sizes(shape, key)
        _check_value(op, shape, sizes, [False] * len(sizes), value)
        if not isinstance(value, XlaOp):
            value = number_as(op, value, shape.element_type, x)
        if UNBOUNDED in sizes and not shape_of(value).rank:
            rule = "value must be an array, because the number of indices is not known"
            Check(op, x=shape, value=value.shape).fail(rule, got=value.shape)
        new = write(part, key, value, combine, mode)
        return (
            new
            if key.is_whole()
            else Place(x, _selection(op, shape_of(x), key.basic), key.basic).set(new)
        )


_UPDATES_OF_JAX: Final = {
    "divide": "write x.at[key].set(x[key] / value)",
    "multiply": "write x.at[key].mul(value)",
    "power": "write x.at[key].set(x[key] ** value)",
    "subtract": "write x.at[key].set(x[key] - value)",
}


def _unknown_name(of: str, name: str, fix: str) -> UnknownNameError:
    error = error_of(UnknownNameError, f"{of}.{name}", f"x.{of} has no such attribute", fix)
    error.name = None  # Python would append the most similar name, which may contradict the fix
    return error


def _selection(op: str, shape: ArrayShape, key: Any) -> _Selection:
    """Return the elements of an array that `key` selects; nothing is recorded."""
    parts = tuple(map(_static_part, key if type(key) is tuple else (key,)))
    if _NOT_STATIC in parts:
        return _selected(op, shape, key)
    return _static_selection(op, shape, parts)


_NOT_STATIC: Final = ()


def _static_part(entry: Any) -> Any:
    """Return an entry of a key as a hashable value; `_NOT_STATIC` unless it has integers only."""
    kind = type(entry)
    if kind is int or entry is None or entry is ...:
        return entry
    if kind is slice:
        bounds = entry.start, entry.stop, entry.step
        if all(bound is None or type(bound) is int for bound in bounds):
            return bounds
    return _NOT_STATIC


@per_signature
def _static_selection(op: str, shape: ArrayShape, parts: tuple[Any, ...]) -> _Selection:
    key = tuple([slice(*part) if type(part) is tuple else part for part in parts])
    return _selected(op, shape, key)


def _selected(op: str, shape: ArrayShape, key: Any) -> _Selection:
    check = Check(op, x=shape)
    entries = key if isinstance(key, tuple) else (key,)
    given = sum(1 for entry in entries if entry is not None and entry is not ...)
    if given > shape.rank:
        rule = f"a key must have at most one index for each dimension of x: {shape.rank}"
        check.fail(rule, got=given)
    ellipses = sum(1 for entry in entries if entry is ...)
    if ellipses > 1:
        check.fail("a key must contain ... at most once", got=brief(key))
    if not ellipses:
        entries = (*entries, ...)
    ranges: list[_Range] = []
    kept: list[int | None] = []
    for entry in entries:
        if entry is None:
            kept.append(None)
        elif entry is ...:
            for size in shape.dimensions[len(ranges) : len(ranges) + shape.rank - given]:
                kept.append(len(ranges))
                ranges.append(_Range(0, size))
        else:
            if isinstance(entry, slice):
                kept.append(len(ranges))
            ranges.append(_range(check, shape, len(ranges), entry))
    selection = _Selection(tuple(ranges), tuple(kept))
    if not shape.is_bounded and selection.indices:
        rule = "an index that is an op requires bounded sizes"
        check.fail(rule, got=shape, fix=f"{_GIVE_SIZES}, or select with integers and slices only")
    _check_types(check, selection.indices)
    return selection


def _range(check: Check, shape: ArrayShape, dimension: int, entry: Any) -> _Range:
    """Return the part of a dimension that an integer, a slice or a scalar op selects."""
    size = shape.dimensions[dimension]
    if isinstance(entry, slice):
        start, stop, step = [
            None if bound is None else _bound(check, dimension, bound)
            for bound in (entry.start, entry.stop, entry.step)
        ]
        if step == 0:
            check.fail("the step of a slice must not be 0", dimension=dimension)
        if start in (None, 0) and stop is None and step in (None, 1):
            return _Range(0, size)
        _check_size(check, shape, dimension)
        indices = range(size)[slice(start, stop, step)]
        if len(indices) < 2:
            return _Range(indices[0] if indices else 0, len(indices))
        is_reversed = indices.step < 0
        return _Range(min(indices[0], indices[-1]), len(indices), abs(indices.step), is_reversed)
    if isinstance(entry, XlaOp):
        _check_index(check, dimension, entry)
        _check_size(check, shape, dimension)
        if size == 0:
            check.fail_along(dimension, "an index requires a size of at least 1", size)
        return _Range(0, 1, op=entry)
    number = _number(check, dimension, entry)
    _check_size(check, shape, dimension)
    if not -size <= number < size:
        numbers = f"from {-size} to {size - 1}" if size else "in a dimension that is not empty"
        check.fail_along(dimension, f"an index must be {numbers}", number)
    return _Range(number % size, 1)


def _number(check: Check, dimension: int, entry: Any) -> int:
    """Return the integer of a key."""
    number: int | None = None
    fix: str | None = None
    if isinstance(entry, tuple):
        fix = f"write a list: {brief(list(entry))}"
    elif isinstance(entry, (bool, np.bool_)):
        fix = "write None to add a dimension, or xb.select(pred, x, other) for a condition"
    else:
        try:
            number = operator.index(entry)
        except TypeError:
            if isinstance(entry, (float, np.floating)):
                fix = f"write int({brief(entry)})"
    if number is None:
        got = f"{type(entry).__name__}: {brief(entry, 80)}"
        check.fail_along(dimension, f"an index must be {_KINDS}", got, fix=fix)
    return number


def _bound(check: Check, dimension: int, bound: Any) -> int:
    """Return the start, the stop or the step of a slice."""
    if isinstance(bound, XlaOp):
        fix = "use xb.dynamic_slice(x, start_indices, size_indices) for a start at run time"
        check.fail_along(dimension, _BOUNDS, bound.shape, fix=fix)
    try:
        if isinstance(bound, (bool, np.bool_)):
            raise TypeError
        return operator.index(bound)
    except TypeError:
        check.fail_along(dimension, _BOUNDS, brief(bound))


def _check_size(check: Check, shape: ArrayShape, dimension: int) -> None:
    """Check that a dimension from which a key selects a part has a fixed size."""
    if shape.dynamic_dimensions[dimension]:
        rule = "a dimension of dynamic size must be selected entirely, by `:`"
        fix = "use xb.slice or xb.dynamic_slice, which count within the bound"
        if shape.dimensions[dimension] == UNBOUNDED:
            fix = (
                f"use xb.slice_in_dim(x, start, limit, dimno={dimension}) to count from the start, "
                f"xb.dynamic_slice at xb.get_dimension_size(x, {dimension}) - 1 for the last one"
            )
        check.fail(rule, got=shape, fix=fix, dimension=dimension)


def _check_index(check: Check, dimension: int, index: XlaOp) -> None:
    """Check that an index that is an op is a scalar of an integer type."""
    shape = index.shape
    if isinstance(shape, ArrayShape) and shape.element_type.is_integral:
        return
    fix = None
    if isinstance(shape, ArrayShape):
        fix = CONVERT
        if shape.element_type.name == "pred":
            fix = "use xb.select(pred, x, other); the number of true elements is not known"
    check.fail_along(dimension, f"an index must be {_KINDS}", shape, fix=fix)


def _check_types(check: Check, indices: list[XlaOp]) -> None:
    """Check that the indices that are ops have one type."""
    types = dict.fromkeys(str(index.shape.element_type) for index in indices)
    if len(types) > 1:
        rule = "the indices that are ops must have one type"
        check.fail(rule, got=" and ".join(types), fix=f"{CONVERT}; nothing is promoted silently")


def _starts(x: XlaOp, selection: _Selection) -> list[XlaOp]:
    """Return the least index of each dimension as an op; equal constants are one op."""
    indices = selection.indices
    firsts = [part.first for part in selection.ranges if part.op is None]
    greatest = max(firsts, default=0)
    kind = indices[0].shape.element_type if indices else s32
    # The type of an index at run time may be too narrow for the other indices.
    if greatest > kind.max:
        kind = s64
    builder = resolve_builder("getitem", x, *indices)
    constants = {first: builder.constant(first, kind) for first in dict.fromkeys(firsts)}
    return [
        constants[part.first] if part.op is None else as_type(part.op, kind)
        for part in selection.ranges
    ]


def _read(x: XlaOp, selection: _Selection, starts: list[XlaOp] | None = None) -> XlaOp:
    """Return the selected elements, with all dimensions of x and with ascending indices.

    Args:
        x: the array.
        selection: the elements.
        starts: the result of `_starts`, if an index is an op.
    """
    ranges = selection.ranges
    if starts is not None:
        x = dynamic_slice(x, starts, [part.span for part in ranges])
        ranges = tuple([part._replace(first=0) for part in ranges])
    sizes = shape_of(x).dimensions
    if all(part.span == size for part, size in zip(ranges, sizes, strict=True)) and not (
        selection.has_steps
    ):
        return x
    # An unbounded dimension is selected entirely, and its size is the limit.
    limits = [part.first + part.span if part.size != UNBOUNDED else UNBOUNDED for part in ranges]
    steps = [part.step for part in ranges]
    return slice_(x, [part.first for part in ranges], limits, steps)


def _updated(
    op: str,
    x: XlaOp,
    selection: _Selection,
    value: Any,
    combine: Callable[[XlaOp, XlaOp], XlaOp] | None,
) -> XlaOp:
    """Return x with ``combine(element, value)`` or, without `combine`, `value` at the selection.

    The update replaces a block: the elements from the least to the greatest selected index of each
    dimension. If a slice has a step, the elements between the selected ones do not change.
    """
    shape = shape_of(x)
    dynamic = [n is not None and shape.dynamic_dimensions[n] for n in selection.kept]
    _check_value(op, shape, selection.sizes, dynamic, value)
    operands = [value] if isinstance(value, XlaOp) else []
    builder = resolve_builder(op, x, *selection.indices, *operands)
    if 0 in selection.sizes:
        return x
    with rollback_on_error(builder):
        update = _update(op, x, selection, value)
        ranges = selection.ranges
        spans = tuple([part._replace(size=part.span, step=1) for part in ranges])
        block = selection._replace(ranges=spans)
        starts = _starts(x, block) if selection.indices else None
        new = update
        if combine is not None or selection.has_steps:
            old = _read(x, block, starts)
            new = update if combine is None else combine(old, update)
            if selection.has_steps:
                new = ew.select(_mask(x, selection), new, old)
        elif not shape_of(update).rank:
            new = broadcast(update, [part.span for part in ranges])
        if new.shape is shape.with_layout(None):
            return new
        return dynamic_update_slice(x, new, _starts(x, block) if starts is None else starts)


def _check_value(
    op: str, shape: ArrayShape, sizes: list[int], dynamic: Sequence[bool], value: Any
) -> None:
    """Check that `value` is a scalar or an array of the sizes and dynamic dimensions of a place."""
    if is_number(value):
        update = number_constant(op, value, shape.element_type, shape)[0]
    else:
        update = array_argument(op, "value", value)
    check = Check(op, x=shape, value=update)
    if update.element_type is not shape.element_type:
        rule = f"value must be of x's element type, {shape.element_type}"
        check.fail(rule, got=update, fix=f"{CONVERT}; nothing is promoted silently")
    if not update.rank:
        return
    if list(update.dimensions) != sizes or any(
        is_dynamic and not allowed
        for is_dynamic, allowed in zip(update.dynamic_dimensions, dynamic, strict=True)
    ):
        rule = f"value must be a scalar or have the sizes of the key's elements, {sizes}"
        fix = "repeat it with xb.broadcast_in_dim, or add dimensions of size 1 with xb.reshape"
        check.fail(rule, got=update, fix=fix)


def _update(op: str, x: XlaOp, selection: _Selection, value: Operand) -> XlaOp:
    """Return `value` as a scalar, or as an array of x's rank with the size of the block."""
    shape = shape_of(x)
    if not isinstance(value, XlaOp):
        return number_as(op, value, shape.element_type, x)
    if not shape_of(value).rank:
        return value
    ranges = selection.ranges
    if selection.kept != tuple(range(shape.rank)):
        value = reshape(value, [part.size for part in ranges])
    turned = [n for n, part in enumerate(ranges) if part.is_reversed]
    if turned:
        value = rev(value, turned)
    if selection.has_steps:
        zero = _scalar(x, np.zeros((), shape.element_type.dtype))
        value = pad(value, zero, _between(selection))
    return value


def _mask(x: XlaOp, selection: _Selection) -> XlaOp:
    """Return which elements of the block are selected."""
    selected = broadcast(_scalar(x, True), [part.size for part in selection.ranges])
    return pad(selected, _scalar(x, False), _between(selection))


def _between(selection: _Selection) -> list[tuple[int, int, int]]:
    """Return the padding between the selected elements of a block."""
    return [(0, 0, part.step - 1) for part in selection.ranges]


def _scalar(x: XlaOp, value: Any) -> XlaOp:
    return resolve_builder("at", x).constant(value)
