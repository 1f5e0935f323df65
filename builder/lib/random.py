"""Random numbers from explicit keys, equal to those of `jax.random`.

A key is an array of shape u32[2]. Equal keys give equal bits on all platforms, so each use needs
its own key: `split_key` and `fold_in` derive keys. The bits are those of jax's default generator
(``threefry2x32`` with ``jax_threefry_partitionable``); floating-point numbers are computed from the
bits as in jax, in their own type. Platforms round logarithms and error functions differently.

The shape of a result includes its element type: ``lib.normal(key, xb.f32[4, 3])``. Limits and
probabilities are numbers, scalars, or arrays of the result's sizes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from operator import index
from typing import Any, Final, NoReturn

import numpy as np

from builder.checking import flag, integer, integers
from builder.errors import OperandError, ShapeInferenceError, brief, error_of
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.lib.arguments import (
    MOST_RESULTS,
    array_argument,
    as_type,
    axis_argument,
    float_info,
    floating_argument,
    shape_of,
    static_argument,
    static_shape_argument,
    typed_argument,
    widened,
)
from builder.lib.math import next_number
from builder.lib.prng import (
    UNSIGNED,
    concat_scalars,
    from_mantissas,
    row_major_numbers,
    row_major_numbers_of,
    threefry2x32,
    u64_of,
)
from builder.lib.reductions import others
from builder.lib.registry import library_function, noting_calls
from builder.lib.shaping import take
from builder.lib.special.error_functions import erf_inv_of_logarithm
from builder.ops import elementwise as ew
from builder.ops.control_flow import optimization_barrier
from builder.ops.operands import Operand, is_number
from builder.ops.reduction import reduce, sort
from builder.ops.reshaping import concatenate, reshape
from builder.types.primitive_type import PrimitiveType, bf16, f16, f32, f64, pred, s32, u32, u64
from builder.types.shape import ArrayShape, ShapeLike, array_shape

_Key = tuple[XlaOp, XlaOp]
"""The two words of a key, scalars of type u32."""

_FLOATS: Final = (f16, bf16, f32, f64)
_MAKE_A_KEY: Final = "make a key with lib.random_key(builder, seed)"


@library_function()
def random_key(builder: XlaBuilder, seed: int | XlaOp) -> XlaOp:
    """Return the key of a seed, like `jax.random.key`.

    Args:
        builder: records the key.
        seed: a number from 0 to 2**64 - 1, or a scalar op of an integer type.

    Returns:
        A key: an array of shape u32[2].

    Raises:
        ShapeInferenceError: the number is out of range; the op is not an integer scalar.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.random_key(xb.XlaBuilder(), 42).attributes["value"]
        array([ 0, 42], dtype=uint32)
    """
    if isinstance(seed, XlaOp):
        high = builder.constant(0, u32)
        if _integer_scalar("random_key", "seed", seed).bits == 64:
            high = as_type(ew.shift_right_logical(seed, 32), u32)
        return concat_scalars([high, as_type(seed, u32)])
    number = _whole_number("random_key", "seed", seed, 0, 2**64 - 1)
    return builder.constant(np.array([number >> 32, number % 2**32], np.uint32))


@library_function()
def split_key(key: XlaOp, num: int = 2) -> tuple[XlaOp, ...]:
    """Return several keys derived from one, like `jax.random.split`.

    Args:
        key: a key, which should not be used again.
        num: the number of keys, at most 2**16. Each one is recorded as two ops; `key_array`
            records the same few ops for any number.

    Returns:
        Keys of shape u32[2]; `key_array` returns the same keys in an array.

    Raises:
        OperandError: `key` is not a key.
        ShapeInferenceError: `num` is not an integer from 1 to 2**16.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> first, second = lib.split_key(lib.random_key(xb.XlaBuilder(), 42))
        >>> first.shape
        u32[2]
    """
    words = key_argument("split_key", key)
    count = integer("split_key", "num", num)
    if not 1 <= count <= MOST_RESULTS:
        fix = f"use lib.key_array(key, [{count}])" if count > 0 else ""
        rule = f"num must be from 1 to {MOST_RESULTS}"
        raise error_of(ShapeInferenceError, "split_key", rule, fix, got=count)
    keys = _keys(words, [count])
    return tuple([keys[n] for n in range(count)])


@library_function()
def key_array(key: XlaOp, sizes: Sequence[int]) -> XlaOp:
    """Return an array of keys derived from one, like `jax.random.split` with sizes.

    Args:
        key: a key, which should not be used again.
        sizes: the sizes of the array of keys.

    Returns:
        An array of type u32, of the sizes and a last dimension of size 2.

    Raises:
        OperandError: `key` is not a key.
        ShapeInferenceError: a size is negative or not an integer.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.key_array(lib.random_key(xb.XlaBuilder(), 42), [5, 3]).shape
        u32[5,3,2]
    """
    words = key_argument("key_array", key)
    return _keys(words, integers("key_array", "sizes", sizes))


@library_function()
def fold_in(key: XlaOp, data: int | XlaOp) -> XlaOp:
    """Return a key derived from a key and a number, like `jax.random.fold_in`.

    Args:
        key: a key.
        data: a number from 0 to 2**32 - 1, or a scalar op of an integer type of at most 32 bits,
            such as the number of a step.

    Raises:
        OperandError: `key` is not a key.
        ShapeInferenceError: the number is out of range; the op is not such a scalar.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.fold_in(lib.random_key(xb.XlaBuilder(), 42), 7).shape
        u32[2]
    """
    words = key_argument("fold_in", key)
    if isinstance(data, XlaOp):
        if _integer_scalar("fold_in", "data", data).bits > 32:
            rule = "data must have at most 32 bits"
            fix = "convert it with xb.convert_element_type(data, xb.u32)"
            raise error_of(ShapeInferenceError, "fold_in", rule, fix, got=data.shape)
        low = as_type(data, u32)
    else:
        low = key.builder.constant(_whole_number("fold_in", "data", data, 0, 2**32 - 1), u32)
    return _computed_once(concat_scalars(threefry2x32(words, key.builder.constant(0, u32), low)))


@library_function()
def random_bits(key: XlaOp, shape: ShapeLike) -> XlaOp:
    """Return random bits as unsigned integers, like `jax.random.bits`.

    Args:
        key: a key.
        shape: an array shape of type u8, u16, u32 or u64, and of fixed sizes.

    Raises:
        OperandError: `key` is not a key; `shape` is not an array shape.
        ShapeInferenceError: the type is not supported; a size is dynamic.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.random_bits(lib.random_key(xb.XlaBuilder(), 42), xb.u8[4, 3]).shape
        u8[4,3]
    """
    words = key_argument("random_bits", key)
    kinds = tuple(UNSIGNED[bits] for bits in (8, 16, 32, 64))
    result = _result("random_bits", shape, kinds)
    return _bits(words, result.element_type, result.dimensions)


@library_function()
def uniform(key: XlaOp, shape: ShapeLike, minval: Operand = 0.0, maxval: Operand = 1.0) -> XlaOp:
    """Return numbers of the uniform distribution in [minval, maxval), like `jax.random.uniform`.

    Args:
        key: a key.
        shape: an array shape of type f16, bf16, f32 or f64, and of fixed sizes.
        minval: the smallest number.
        maxval: the upper limit. Where the interval is not [0, 1), rounding can give this number,
            too.

    Raises:
        OperandError: `key` is not a key; `shape` is not an array shape.
        ShapeInferenceError: the type is not supported; a size is dynamic; a limit has another type
            or other sizes; both limits are numbers, and `minval` exceeds `maxval` or their
            difference is out of range.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.uniform(lib.random_key(xb.XlaBuilder(), 42), xb.f32[4, 3], -1.0, 1.0).shape
        f32[4,3]
    """
    words = key_argument("uniform", key)
    result = _result("uniform", shape, _FLOATS)
    limits = [
        _limit("uniform", key, result.element_type, result.dimensions, name, value)
        for name, value in (("minval", minval), ("maxval", maxval))
    ]
    numbers = _numbers(minval, maxval)
    if numbers:
        low, high = (_rounded(number, result.element_type) for number in numbers)
        got = f"minval={minval} and maxval={maxval}"
        if low > high:
            rule = "minval must not be greater than maxval"
            fix = "exchange minval and maxval"
            raise error_of(ShapeInferenceError, "uniform", rule, fix, got=got)
        if not math.isfinite(_rounded(high - low, result.element_type)):
            rule = f"maxval - minval must be a finite number in {result.element_type}"
            raise error_of(ShapeInferenceError, "uniform", rule, got=got)
        if (low, high) == (0, 1):
            return _uniform(words, result)
    return _uniform(words, result, *limits)


@library_function()
def normal(key: XlaOp, shape: ShapeLike) -> XlaOp:
    """Return numbers of the standard normal distribution, like `jax.random.normal`.

    Args:
        key: a key.
        shape: an array shape of type f16, bf16, f32, f64, c64 or c128, and of fixed sizes. The
            parts of complex numbers have variance 1/2.

    Raises:
        OperandError: `key` is not a key; `shape` is not an array shape.
        ShapeInferenceError: the type is not supported; a size is dynamic.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.normal(lib.random_key(xb.XlaBuilder(), 42), xb.f32[4, 3]).shape
        f32[4,3]
    """
    words = key_argument("normal", key)
    complex_types = tuple(kind for real in _FLOATS if (kind := real.complex_type))
    result = _result("normal", shape, (*_FLOATS, *complex_types))
    if not result.element_type.is_complex:
        return _normal(words, result)
    part = array_shape(result.element_type.real_type, result.dimensions)
    real, imaginary = (_normal(each, part) for each in _split(words))
    return ew.complex(real, imaginary) / complex(math.sqrt(2))


@library_function()
def truncated_normal(key: XlaOp, lower: Operand, upper: Operand, shape: ShapeLike) -> XlaOp:
    """Return numbers of the standard normal distribution between limits.

    The numbers are those of `jax.random.truncated_normal`. No number is equal to a limit.

    Args:
        key: a key.
        lower: the lower limit.
        upper: the upper limit.
        shape: an array shape of type f16, bf16, f32 or f64, and of fixed sizes.

    Raises:
        OperandError: `key` is not a key; `shape` is not an array shape.
        ShapeInferenceError: the type is not supported; a size is dynamic; a limit has another type
            or other sizes; both limits are numbers, and `upper` is not greater than `lower` or the
            type can't represent the probability of the interval.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> key = lib.random_key(xb.XlaBuilder(), 42)
        >>> lib.truncated_normal(key, -2.0, 2.0, xb.f32[4, 3]).shape
        f32[4,3]
    """
    op = "truncated_normal"
    words = key_argument(op, key)
    result = _result(op, shape, _FLOATS)
    kind = result.element_type
    limits = [
        _limit(op, key, kind, result.dimensions, name, value)
        for name, value in (("lower", lower), ("upper", upper))
    ]
    root = _rounded(math.sqrt(2), kind)
    ends: list[Any] = []
    for limit, value in zip(limits, (lower, upper), strict=True):
        if is_number(value):
            # Rounded correctly; compilers that fold a constant erf differ in the last digit.
            rounded = _rounded(float(value), kind)  # type: ignore[arg-type]  # a number
            ends.append(_rounded(math.erf(rounded * math.sqrt(0.5)), kind))
        else:
            ends.append(ew.erf(limit / root))
    numbers = _numbers(lower, upper)
    if numbers:
        if not numbers[0] < numbers[1]:
            rule = "lower must be less than upper"
            fix = "exchange lower and upper" if numbers[0] > numbers[1] else ""
            raise error_of(ShapeInferenceError, op, rule, fix, got=f"{lower} and {upper}")
        if not ends[0] < ends[1]:
            rule = f"too few numbers of {kind} are between {lower} and {upper} for the algorithm"
            fix = "use a wider type or limits nearer to 0"
            raise error_of(ShapeInferenceError, op, rule, fix)
    start, end = (_limit(op, key, kind, result.dimensions, "end", value) for value in ends)
    u = _uniform(words, result, start, end)
    drawn = _erf_inv(u) * root
    infinity = key.builder.constant(math.inf, kind)
    inner = [next_number(limits[0], infinity), next_number(limits[1], -infinity)]
    return ew.min(ew.max(drawn, inner[0]), inner[1])


@library_function()
def exponential(key: XlaOp, shape: ShapeLike) -> XlaOp:
    """Return numbers of the exponential distribution of rate 1, like `jax.random.exponential`.

    Args:
        key: a key.
        shape: an array shape of type f16, bf16, f32 or f64, and of fixed sizes.

    Raises:
        OperandError: `key` is not a key; `shape` is not an array shape.
        ShapeInferenceError: the type is not supported; a size is dynamic.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.exponential(lib.random_key(xb.XlaBuilder(), 42), xb.f32[4, 3]).shape
        f32[4,3]
    """
    words = key_argument("exponential", key)
    result = _result("exponential", shape, _FLOATS)
    # The logarithm's argument is in (0, 1].
    return -ew.log1p(-_uniform(words, result))


@library_function()
def gumbel(key: XlaOp, shape: ShapeLike) -> XlaOp:
    """Return numbers of the standard Gumbel distribution, like `jax.random.gumbel`.

    Args:
        key: a key.
        shape: an array shape of type f16, bf16, f32 or f64, and of fixed sizes.

    Raises:
        OperandError: `key` is not a key; `shape` is not an array shape.
        ShapeInferenceError: the type is not supported; a size is dynamic.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.gumbel(lib.random_key(xb.XlaBuilder(), 42), xb.f32[4, 3]).shape
        f32[4,3]
    """
    words = key_argument("gumbel", key)
    return _gumbel(words, _result("gumbel", shape, _FLOATS))


@library_function()
def categorical(key: XlaOp, logits: XlaOp, axis: int = -1, shape: ShapeLike | None = None) -> XlaOp:
    """Return random indices along a dimension, like `jax.random.categorical`.

    The probabilities are the softmax of the logits.

    Args:
        key: a key.
        logits: logarithms of the probabilities plus any number; an array of type f16, bf16, f32 or
            f64 and of fixed sizes. -inf is the probability 0.
        axis: a dimension of at least one element; it may be negative. A NaN along it counts as
            the largest number.
        shape: an array shape of an integer type. Its last sizes are those of the logits without the
            dimension; further sizes in front of them are the number of samples. None for one sample
            of type s32.

    Raises:
        OperandError: `key` is not a key; `shape` is not an array shape.
        ShapeInferenceError: the type of the logits or of `shape` is not supported; a size is
            dynamic; the sizes don't match; the dimension is out of range or empty.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> key, logits = lib.random_key(b, 42), b.parameter(xb.f32[4, 10])
        >>> lib.categorical(key, logits).shape
        s32[4]
        >>> lib.categorical(key, logits, shape=xb.s32[100, 4]).shape
        s32[100,4]
    """
    op = "categorical"
    words = key_argument(op, key)
    source = floating_argument(op, "logits", logits)
    static_argument(op, "logits", source)
    if source.element_type not in _FLOATS:
        _refuse_type(op, "logits", source, _FLOATS)
    number = axis_argument(op, "axis", axis, source.rank)
    if not source.dimensions[number]:
        rule = f"dimension {number} of logits must not be empty"
        raise error_of(ShapeInferenceError, op, rule, got=source, dimension=number)
    batch = source.dimensions[:number] + source.dimensions[number + 1 :]
    result = array_shape(s32, batch)
    if shape is not None:
        result = static_shape_argument(op, "shape", shape)
        if not result.element_type.is_integral:
            rule = "shape must be of an integer type"
            raise error_of(ShapeInferenceError, op, rule, got=result)
        if source.dimensions[number] - 1 > int(result.element_type.max):
            rule = f"the type of shape must represent all indices of dimension {number}"
            fix = "use s32"
            raise error_of(ShapeInferenceError, op, f"{rule} of {source}", fix, got=result)
    extra = result.rank - len(batch)
    if extra < 0 or result.dimensions[extra:] != batch:
        rule = f"the last sizes of shape must be {list(batch)}"
        raise error_of(ShapeInferenceError, op, rule, got=result, shapes={"logits": source})
    sizes = result.dimensions[:extra] + source.dimensions
    noise = _gumbel(words, array_shape(source.element_type, sizes))
    scores = ew.add(noise, logits, range(extra, len(sizes))) if extra else noise + logits
    return as_type(_first_largest(scores, extra + number), result.element_type)


def _first_largest(x: XlaOp, axis: int) -> XlaOp:
    """Return the first index of the largest number along a dimension, as s32; NaN is the largest.

    On CPUs, two reductions of numbers are faster than one reduction of pairs of a number and an
    index, because XLA vectorizes only the former.
    """
    sizes = shape_of(x).dimensions
    # Devices differ in whether the maximum of a number and a NaN is the NaN.
    ordered = ew.select(ew.ne(x, x), math.inf, x)
    largest = reduce(ordered, -math.inf, ew.max, [axis])
    is_largest = ew.eq(ordered, largest, others(len(sizes), (axis,)))
    indices = x.builder.iota(array_shape(s32, sizes), axis)
    return reduce(ew.select(is_largest, indices, sizes[axis]), sizes[axis], ew.min, [axis])


@library_function()
def bernoulli(key: XlaOp, p: Operand = 0.5, shape: ShapeLike | None = None) -> XlaOp:
    """Return preds that are true with a probability, like `jax.random.bernoulli`.

    Args:
        key: a key.
        p: the probability: a number, or an op of type f16, bf16, f32 or f64. Numbers are compared
            in f32, others in their type.
        shape: an array shape of type pred and of fixed sizes; None for the sizes of `p`.

    Raises:
        OperandError: `key` is not a key; `shape` is not an array shape.
        ShapeInferenceError: a number is not in [0, 1]; the type of `p` is not supported; `shape` is
            not of type pred; a size is dynamic; `p` has other sizes than `shape`.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.bernoulli(lib.random_key(xb.XlaBuilder(), 42), 0.3, "pred[4,3]").shape
        pred[4,3]
    """
    op = "bernoulli"
    words = key_argument(op, key)
    kind = f32
    sizes: tuple[int, ...] = ()
    if not is_number(p):
        given = floating_argument(op, "p", p)
        static_argument(op, "p", given)
        kind, sizes = given.element_type, given.dimensions
        if kind not in _FLOATS:
            _refuse_type(op, "p", given, _FLOATS)
    if shape is not None:
        sizes = _result(op, shape, (pred,)).dimensions
    limit = _limit(op, key, kind, sizes, "p", p)
    if not all(0 <= number <= 1 for number in _numbers(p)):
        raise error_of(ShapeInferenceError, op, "p must be from 0 to 1", got=p)
    return ew.lt(_uniform(words, array_shape(kind, sizes)), limit)


def random_choice(words: tuple[XlaOp, XlaOp], p: float, x: XlaOp) -> XlaOp:
    """Return preds of the sizes of x, true with a probability; the sizes may be unbounded."""
    sizes = shape_of(x).dimensions if shape_of(x).is_static else x
    return ew.lt(_unit_interval(words, f32, sizes), p)


@library_function()
def randint(key: XlaOp, shape: ShapeLike, minval: Operand, maxval: Operand) -> XlaOp:
    """Return integers of the uniform distribution in [minval, maxval), like `jax.random.randint`.

    Each integer is a remainder of 64 random bits, or of 128 for a type of 64 bits. So the
    probabilities are exactly equal only if the number of integers is a power of 2.

    Args:
        key: a key.
        shape: an array shape of an integer type, and of fixed sizes.
        minval: the smallest integer.
        maxval: the integer after the largest one. A Python number may exceed the type's maximum by
            1. Where `maxval` is an op and not greater than `minval`, the result is `minval`.

    Raises:
        OperandError: `key` is not a key; `shape` is not an array shape.
        ShapeInferenceError: the type is not an integer type; a size is dynamic; a limit is out of
            the type's range, not an integer, or has another type or other sizes; both limits are
            numbers, and `maxval` is not greater than `minval`.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.randint(lib.random_key(xb.XlaBuilder(), 42), xb.s32[10], 1, 7).shape
        s32[10]
    """
    op = "randint"
    words = key_argument(op, key)
    result = static_shape_argument(op, "shape", shape)
    kind = result.element_type
    if not kind.is_integral:
        rule = "shape must be of an integer type"
        fix = "use lib.uniform for floating-point numbers, lib.bernoulli for preds"
        raise error_of(ShapeInferenceError, op, rule, fix, got=result)
    least, most = int(kind.min), int(kind.max)
    low: Any = minval
    high: Any = maxval
    if is_number(minval):
        low = _whole_number(op, "minval", minval, least, most)
    if is_number(maxval):
        high = _whole_number(op, "maxval", maxval, least + 1, most + 1)
    # Narrow integers are sampled in 32 bits, because remainders of few bits are not uniform.
    wide = s32 if kind.bits < 32 else kind
    if type(low) is int and type(high) is int:
        if low >= high:
            rule = "minval must be less than maxval"
            raise error_of(ShapeInferenceError, op, rule, got=f"{low} and {high}")
        offsets = _offsets(words, wide, result.dimensions, high - low)
        return as_type(offsets + low, kind)
    is_beyond = type(high) is int and high > int(wide.max)
    start, end = (
        as_type(
            _limit(op, key, wide if type(value) is int else kind, result.dimensions, name, value),
            wide,
        )
        for name, value in (("minval", low), ("maxval", high - 1 if is_beyond else high))
    )
    unsigned = UNSIGNED[wide.bits]
    span = ew.bitcast_convert_type(end - start, unsigned)
    # Of 1 integer in place of none or of a negative number.
    span = ew.select(end > start, span + 1 if is_beyond else span, 1)
    return as_type(_offsets(words, wide, result.dimensions, span) + start, kind)


@library_function()
def permutation(key: XlaOp, x: XlaOp | int, axis: int = 0, independent: bool = False) -> XlaOp:
    """Return the parts of an array in random order, like `jax.random.permutation`.

    Args:
        key: a key.
        x: an array of fixed sizes; or a number n for the integers from 0 to n - 1, of type s32.
        axis: the dimension along which parts are rearranged; it may be negative.
        independent: whether each row along the dimension has its own order.

    Raises:
        OperandError: `key` is not a key; `x` is neither an array nor a number.
        ShapeInferenceError: the number is negative or too large for s32; the dimension is out of
            range; a size is dynamic; `independent` is not a bool.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> lib.permutation(lib.random_key(b, 42), b.parameter(xb.f32[4, 3])).shape
        f32[4,3]
        >>> lib.permutation(lib.random_key(b, 43), 10).shape
        s32[10]
    """
    op = "permutation"
    words = key_argument(op, key)
    if not isinstance(x, XlaOp):
        count = _whole_number(op, "x", x, 0, int(s32.max))
        x = key.builder.iota(array_shape(s32, [count]), 0)
    shape = array_argument(op, "x", x)
    static_argument(op, "x", shape)
    number = axis_argument(op, "axis", axis, shape.rank)
    if flag(op, "independent", independent) or shape.rank == 1:
        return _shuffled(words, x, number)
    if not shape.dimensions[number]:
        return x
    indices = key.builder.iota(array_shape(s32, [shape.dimensions[number]]), 0)
    return take(x, _shuffled(words, indices, 0), number)


def _shuffled(words: _Key, x: XlaOp, number: int) -> XlaOp:
    """Return the elements along a dimension in the order of random bits.

    Equal bits leave elements in their order. Further rounds with other bits make it improbable that
    two elements have equal bits in all rounds; their number is jax's.
    """
    sizes = shape_of(x).dimensions
    rounds = math.ceil(3 * math.log(max(1, math.prod(sizes))) / math.log(2**32 - 1))
    for _ in range(rounds):
        words, own = _split(words)
        x = sort([_bits(own, u32, sizes), x], dimension=number, is_stable=True)[1]
    return x


def key_argument(op: str, key: Any) -> _Key:
    """Return the two halves of argument `key`."""
    if isinstance(key, XlaOp):
        shape = key.shape
        if shape == array_shape(u32, [2]):
            return key[0], key[1]
        got, fix = str(shape), _MAKE_A_KEY
        if isinstance(shape, ArrayShape) and shape.element_type is u32 and shape.rank > 1:
            fix = "take one key of the array: keys[n]"
    else:
        got, fix = f"{type(key).__name__}: {brief(key, 80)}", _MAKE_A_KEY
    raise error_of(OperandError, op, "key must be an op of shape u32[2]", fix, got=got)


def _result(op: str, shape: ShapeLike, kinds: tuple[PrimitiveType, ...]) -> ArrayShape:
    """Return argument `shape`, which must be an array shape of one of the types."""
    result = static_shape_argument(op, "shape", shape)
    if result.element_type not in kinds:
        _refuse_type(op, "shape", result, kinds)
    return result


def _refuse_type(
    op: str, name: str, shape: ArrayShape, kinds: tuple[PrimitiveType, ...]
) -> NoReturn:
    *most, last = map(str, kinds)
    names = f"{', '.join(most)} or {last}" if most else last
    kind = shape.element_type
    fix = f"use {f32 if f32 in kinds else last}, and convert with xb.convert_element_type"
    if f32 in kinds and kind is pred:
        fix = "use lib.bernoulli for preds"
    elif f32 in kinds and kind.is_integral:
        fix = "use lib.randint for integers"
    elif kind.is_floating and u32 in kinds:
        fix = "use lib.uniform for floating-point numbers"
    rule = f"the type of {name} must be {names}"
    raise error_of(ShapeInferenceError, op, rule, fix, got=shape)


def _integer_scalar(op: str, name: str, value: XlaOp) -> PrimitiveType:
    """Return the type of argument `name`, an op that must be a scalar of an integer type."""
    shape = array_argument(op, name, value)
    if shape.rank or not shape.element_type.is_integral:
        rule = f"{name} must be a scalar of an integer type"
        raise error_of(ShapeInferenceError, op, rule, got=shape)
    return shape.element_type


def _whole_number(op: str, name: str, value: Any, least: int, most: int) -> int:
    """Return argument `name`, an integer from `least` to `most`, as a Python int."""
    try:
        number = None if isinstance(value, bool) else index(value)
    except TypeError:
        number = None
    if number is None or not least <= number <= most:
        rule = f"{name} must be an integer from {least} to {most}"
        raise error_of(ShapeInferenceError, op, rule, got=brief(value, 80))
    return number


def _limit(
    op: str, key: XlaOp, kind: PrimitiveType, sizes: tuple[int, ...], name: str, value: Any
) -> XlaOp:
    """Return argument `name` as an op of type `kind`, a scalar or an array of the sizes."""
    limit = key.builder.constant(value, kind) if is_number(value) else value
    given = typed_argument(op, name, limit, kind)
    if given.rank and given.dimensions != sizes:
        rule = f"{name} must be a scalar or of sizes {list(sizes)}"
        fix = "broadcast it with xb.broadcast_in_dim"
        raise error_of(ShapeInferenceError, op, rule, fix, got=given)
    return limit


def _numbers(*limits: Any) -> list[float]:
    """Return limits as Python floats if all are numbers, and otherwise an empty list."""
    return [float(n) for n in limits] if all(map(is_number, limits)) else []


def _rounded(number: float, kind: PrimitiveType) -> float:
    with np.errstate(over="ignore"):
        return float(np.float64(number).astype(kind.dtype))


def _hashed(words: _Key, sizes: Sequence[int] | XlaOp) -> tuple[XlaOp, XlaOp]:
    """Return the hashes of the numbers of an array's elements, the high words first.

    Args:
        words: the key.
        sizes: the sizes, or an array that has them, of less than 2**32 elements.
    """
    builder = words[0].builder
    if isinstance(sizes, XlaOp):
        numbers = row_major_numbers_of(sizes, u32)
        return threefry2x32(words, builder.constant(0, u32), numbers)
    if math.prod(sizes) <= 2**32:
        numbers = row_major_numbers(builder, u32, sizes)
        return threefry2x32(words, builder.constant(0, u32), numbers)
    numbers = row_major_numbers(builder, u64, sizes)
    high = as_type(ew.shift_right_logical(numbers, 32), u32)
    return threefry2x32(words, high, as_type(numbers, u32))


def _keys(words: _Key, sizes: Sequence[int]) -> XlaOp:
    """Return an array of derived keys."""
    parts = [reshape(part, [*sizes, 1]) for part in _hashed(words, sizes)]
    return _computed_once(concatenate(parts, len(sizes)))


def _computed_once(keys: XlaOp) -> XlaOp:
    """Return keys that XLA computes before the numbers that are drawn with them.

    Otherwise XLA fuses the two, and computes the key again for each number.
    """
    return optimization_barrier(keys)


def _split(words: _Key) -> tuple[_Key, _Key]:
    """Return two derived keys."""
    high, low = map(_computed_once, _hashed(words, [2]))
    return (high[0], low[0]), (high[1], low[1])


def _bits(words: _Key, kind: PrimitiveType, sizes: Sequence[int] | XlaOp) -> XlaOp:
    """Return random bits as unsigned integers."""
    high, low = _hashed(words, sizes)
    if kind is u64:
        return u64_of(low, high)
    return as_type(ew.xor(high, low), kind)


def _uniform(
    words: _Key, shape: ArrayShape, low: XlaOp | None = None, high: XlaOp | None = None
) -> XlaOp:
    """Return uniformly distributed numbers; in [0, 1) if there are no limits."""
    numbers = _unit_interval(words, shape.element_type, shape.dimensions)
    if low is None or high is None:
        return numbers
    return ew.max(numbers * (high - low) + low, low)


def _unit_interval(words: _Key, kind: PrimitiveType, sizes: Sequence[int] | XlaOp) -> XlaOp:
    """Return uniformly distributed numbers in [0, 1)."""
    digits = float_info(kind).nmant
    # bf16 has fewer digits than a byte has bits.
    bits = _bits(words, UNSIGNED[8 if digits < 8 else kind.bits], sizes)
    width = shape_of(bits).element_type.bits
    mantissas = ew.shift_right_logical(as_type(bits, UNSIGNED[kind.bits]), width - digits)
    return from_mantissas(mantissas, kind)


def _normal(words: _Key, shape: ArrayShape) -> XlaOp:
    """Return normally distributed real numbers."""
    kind = shape.element_type
    above = float(np.nextafter(np.array(-1, kind.dtype), np.array(0, kind.dtype)))
    low, high = (words[0].builder.constant(number, kind) for number in (above, 1.0))
    return _erf_inv(_uniform(words, shape, low, high)) * _rounded(math.sqrt(2), kind)


@partial(noting_calls, "erf_inv")
def _erf_inv(x: XlaOp) -> XlaOp:
    """Return the inverse of the error function as jax computes it.

    Unlike `erf_inv` of the library, it is not accurate to the last digits near -1 and 1.
    """
    wide = widened(x)
    result = erf_inv_of_logarithm(wide, ew.log1p(-(wide * wide)))
    return as_type(result, shape_of(x).element_type)


def _gumbel(words: _Key, shape: ArrayShape) -> XlaOp:
    kind = shape.element_type
    smallest = float(float_info(kind).smallest_normal)
    low, high = (words[0].builder.constant(number, kind) for number in (smallest, 1.0))
    return -ew.log(-ew.log(_uniform(words, shape, low, high)))


def _offsets(words: _Key, kind: PrimitiveType, sizes: Sequence[int], span: int | XlaOp) -> XlaOp:
    """Return integers from 0 to `span` - 1, which have the bits of unsigned integers.

    They are the remainders of integers of twice the type's width, computed from the halves h and l
    of these integers as h * (2**width % span) + l. A `span` op that is 0 stands for all integers.
    """
    unsigned = UNSIGNED[kind.bits]
    half, count = 2 ** (kind.bits // 2), 2**kind.bits
    first, second = _split(words)
    low = _bits(second, unsigned, sizes)
    if isinstance(span, int):
        # The product wraps like that of a span op, with the same results as in jax.
        multiplier: Any = (half % span) ** 2 % count % span
        offsets = low if span == count else ew.rem(low, span)
        is_needed = multiplier != 0 and span != count
    else:
        rest = ew.rem(span.builder.constant(half, unsigned), span)
        multiplier = ew.rem(rest * rest, span)
        offsets, is_needed = ew.rem(low, span), True
    if is_needed:
        high = _bits(first, unsigned, sizes)
        offsets = ew.rem(ew.rem(high, span) * multiplier + offsets, span)
    return ew.bitcast_convert_type(offsets, kind)
