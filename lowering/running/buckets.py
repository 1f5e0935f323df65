"""Buckets: the sizes to which the arguments of a program with unbounded sizes are padded."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, cast

import jax
import numpy as np

from builder.errors import OperandError, brief, error_of
from builder.types import primitive_type as pt
from builder.types.shape import UNBOUNDED, ArrayShape, ProgramShape, leaves

BucketList = Literal["powers of two"] | Sequence[int]
"""The sizes for one dimension: the powers of two, or a list."""

Buckets = BucketList | Mapping[str, BucketList | Mapping[int, BucketList]] | None
"""The sizes to which unbounded sizes are padded; see `lowering.compile`."""

_POWERS: Final = "powers of two"


def checked_buckets(buckets: Any, program: ProgramShape) -> Buckets:
    """Return the argument `buckets` of `lowering.compile`, with sorted lists.

    Args:
        buckets: the argument, or what was read from a file: there the numbers of dimensions are
            text.
        program: the signature of the program.

    Raises:
        OperandError: it has another form, or names no parameter or dimension of unbounded size.
    """
    if buckets is None:
        return None
    if not isinstance(buckets, Mapping):
        return _checked_list(buckets)
    parameters = dict(zip(program.parameter_names, program.parameters, strict=True))
    found: dict[str, Any] = {}
    for name, each in buckets.items():
        shapes = leaves(parameters[name]) if name in parameters else ()
        arrays = [shape for shape in shapes if isinstance(shape, ArrayShape)]
        places = {d for a in arrays for d, size in enumerate(a.dimensions) if size == UNBOUNDED}
        if not places:
            rule = "buckets must be for parameters with unbounded sizes"
            listed = ", ".join(f"{n}: {shape}" for n, shape in parameters.items())
            got = brief(name)
            raise error_of(OperandError, "compile", rule, listed, argument="buckets", got=got)
        if not isinstance(each, Mapping):
            found[name] = _checked_list(each)
            continue
        by_dimension = {_number(key): value for key, value in each.items()}
        if not by_dimension.keys() <= places:
            wrong = next(key for key in by_dimension if key not in places)
            rule = f"buckets for {name} must be for its unbounded dimensions, "
            rule += ", ".join(map(str, sorted(places)))
            raise error_of(OperandError, "compile", rule, argument="buckets", got=brief(wrong))
        found[name] = {key: _checked_list(value) for key, value in by_dimension.items()}
    return found


def _number(key: Any) -> Any:
    return int(key) if isinstance(key, str) and key.isdecimal() else key


def _checked_list(sizes: Any) -> BucketList:
    if isinstance(sizes, str) and sizes == _POWERS:
        return cast("BucketList", sizes)
    is_list = isinstance(sizes, Sequence) and not isinstance(sizes, str) and len(sizes)
    if not is_list or any(type(n) is not int or n < 1 for n in sizes):
        rule = "buckets must be 'powers of two' or a list of positive sizes, for all dimensions or "
        rule += "by parameter, as in {'x': [8, 16]}, or by dimension, as in {'x': {0: [8, 16]}}"
        raise error_of(OperandError, "compile", rule, argument="buckets", got=brief(sizes))
    return sorted(set(sizes))


def buckets_of(buckets: Buckets, name: str, dimension: int) -> BucketList | None:
    """Return the buckets of a dimension of a parameter; None if it is not padded."""
    if not isinstance(buckets, Mapping):
        return buckets
    of_parameter = buckets.get(name)
    if not isinstance(of_parameter, Mapping):
        return of_parameter
    return of_parameter.get(dimension)


def bucket_of(size: int, buckets: BucketList) -> int | None:
    """Return the smallest bucket for a size; None if the size is larger than all."""
    if isinstance(buckets, str):
        return 1 << max(size - 1, 0).bit_length()
    number = bisect_left(buckets, size)
    return buckets[number] if number < len(buckets) else None


def trials(flat: Sequence[Any]) -> list[list[Any]]:
    """Return other arguments of the same shapes, to show whether results depend on padding.

    Those of a call may hide it: padding with zeros changes neither a sum nor the maximum of
    positive numbers. The trials are random numbers, and positive and negative ones. Integers may be
    indices, so one trial has those of the call.

    Args:
        flat: the arguments of a call, with None for tokens.
    """
    random = np.random.default_rng(0)
    return [[_trial(value, sign, random) for value in flat] for sign in (0, 1, -1)]


def _trial(value: Any, sign: int, random: np.random.Generator) -> Any:
    if value is None:
        return None
    array = np.asarray(value)
    if array.dtype == bool:
        return random.random(array.shape) < 0.5 if sign else value
    element_type = pt.from_dtype(array.dtype)
    if element_type.is_integral:
        if not sign:
            return value
        numbers = 1 + np.arange(array.size).reshape(array.shape) % min(7, element_type.max)
        return (numbers * (sign if element_type.min < 0 else 1)).astype(array.dtype)
    numbers = random.normal(size=array.shape)
    if sign:
        numbers = sign * (np.abs(numbers) + 0.5)
    return numbers.astype(array.dtype)


def are_close(one: Any, other: Any) -> bool:
    """Return whether results are equal up to rounding errors."""
    one, other = np.asarray(one), np.asarray(other)
    if one.dtype.kind in "biu":
        return bool(np.array_equal(one, other))
    if one.dtype.kind != "c":
        one, other = one.astype(np.float64), other.astype(np.float64)
    return bool(np.allclose(one, other, rtol=1e-2, atol=1e-4, equal_nan=True))


def first_difference(results: Any, expected: Any) -> int | None:
    """Return the number of the first array that differs; None if all are close."""
    pairs = zip(jax.tree.leaves(results), jax.tree.leaves(expected), strict=True)
    return next((place for place, pair in enumerate(pairs) if not are_close(*pair)), None)
