"""Random bits from a key and a state, and distributed numbers, as in XLA's client library.

A function returns its numbers and the next state. Equal keys and states give equal bits on all
platforms. `builder.lib.random` has the functions for keys without a state.

XLA: prng.h of the client library. Salmon et al., Parallel random numbers: as easy as 1, 2, 3
(2011), describes the algorithms Threefry and Philox.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from builder.errors import OperandError, ShapeInferenceError, brief, error_of
from builder.graph.decorators import computation
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.lib.arguments import (
    array_argument,
    as_type,
    float_info,
    shape_of,
    static_shape_argument,
)
from builder.lib.dynamic import indices_of
from builder.lib.math import floating_type
from builder.lib.registry import library_function
from builder.ops import elementwise as ew
from builder.ops.control_flow import call, tuple as tuple_of
from builder.ops.dynamic import get_dimension_size
from builder.ops.operands import need_op, need_ops
from builder.ops.reshaping import broadcast, concatenate, reshape, slice_in_dim
from builder.types.primitive_type import (
    PrimitiveType,
    f16,
    f32,
    f64,
    pred,
    s32,
    s64,
    u2,
    u4,
    u8,
    u16,
    u32,
    u64,
)
from builder.types.shape import UNBOUNDED, ArrayShape, Shape, ShapeLike, array_shape


class RngOutput(NamedTuple):
    """The result of a function of random numbers: the numbers, and the next state."""

    value: XlaOp
    state: XlaOp


BitGenerator = Callable[[XlaOp, XlaOp, Shape], RngOutput]
"""A function of a key, a state and a shape, such as `three_fry_bit_generator`."""

UNSIGNED: Final = {2: u2, 4: u4, 8: u8, 16: u16, 32: u32, 64: u64}
"""The type of unsigned integers of each width."""

_THREEFRY_ROTATIONS: Final = ((13, 15, 26, 6), (17, 29, 16, 24))
_THREEFRY_PARITY: Final = 0x1BD11BDA
_PHILOX_MULTIPLIERS: Final = (0xD2511F53, 0xCD9E8D57)
_PHILOX_WEYL: Final = (0x9E3779B9, 0xBB67AE85)
_PHILOX_ROUNDS: Final = 10
_SCRAMBLING_KEY: Final = (0x3EC8F720, 0x02461E29)


@computation
def _threefry(key0: XlaOp, key1: XlaOp, x0: XlaOp, x1: XlaOp) -> XlaOp:
    keys = (key0, key1, ew.xor(ew.xor(key0, key1), _THREEFRY_PARITY))
    x0, x1 = x0 + key0, x1 + key1
    for group in range(5):
        for distance in _THREEFRY_ROTATIONS[group % 2]:
            x0 = x0 + x1
            left = ew.shift_left(x1, distance)
            x1 = ew.xor(x0, ew.or_(left, ew.shift_right_logical(x1, 32 - distance)))
        x0 = x0 + keys[(group + 1) % 3]
        x1 = x1 + (keys[(group + 2) % 3] + (group + 1))
    return tuple_of(x0, x1)


def threefry2x32(key: tuple[XlaOp, XlaOp], x0: XlaOp, x1: XlaOp) -> tuple[XlaOp, XlaOp]:
    """Return the hash of two arrays of u32 by Threefry-2x32 of 20 rounds.

    The rounds are recorded once for all arrays of equal sizes. One of the two arrays may be a
    scalar.
    """
    hashed = call(_threefry, *key, x0, x1)
    return hashed[0], hashed[1]


@computation
def _philox(key0: XlaOp, key1: XlaOp, x0: XlaOp, x1: XlaOp, x2: XlaOp, x3: XlaOp) -> XlaOp:
    for number in range(_PHILOX_ROUNDS):
        if number:
            key0, key1 = key0 + _PHILOX_WEYL[0], key1 + _PHILOX_WEYL[1]
        low0, high0 = _halves(as_type(x0, u64) * _PHILOX_MULTIPLIERS[0])
        low1, high1 = _halves(as_type(x2, u64) * _PHILOX_MULTIPLIERS[1])
        x0, x1 = ew.xor(ew.xor(high1, x1), key0), low1
        x2, x3 = ew.xor(ew.xor(high0, x3), key1), low0
    return tuple_of(x0, x1, x2, x3)


@library_function("ThreeFryBitGenerator")
def three_fry_bit_generator(key: XlaOp, initial_state: XlaOp, shape: ShapeLike) -> RngOutput:
    """Return random bits of Threefry-2x32, and the next state.

    Args:
        key: a scalar of type u64.
        initial_state: the counter, of shape u64[1] or u64[].
        shape: an array shape of fixed sizes. Its type, real and of at most 64 bits, determines the
            number of bits.

    Returns:
        An array of unsigned integers, with the sizes of `shape` and the width of its type; and the
        next counter.

    Raises:
        OperandError: the key or the state has another shape; `shape` is not an array shape.
        ShapeInferenceError: the type is pred or complex; a size is dynamic.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> key, state = b.parameter(xb.u64[()]), b.parameter(xb.u64[1])
        >>> bits, state = lib.three_fry_bit_generator(key, state, xb.f32[2, 3])
        >>> bits.shape, state.shape
        (u32[2,3], u64[1])
    """
    op = "three_fry_bit_generator"
    _check_sizes(op, "key", key, [])
    _check_sizes(op, "initial_state", initial_state, [1], [])
    sizes, bits = _bits_argument(op, shape)
    counter = reshape(initial_state, [])
    if bits is u64:
        value = u64_of(*_threefry_blocks(key, counter, sizes))
        return RngOutput(value, initial_state + math.prod(sizes))
    halves = _Halves(sizes)
    value = halves.combined(_threefry_blocks(key, counter, halves.part))
    return RngOutput(as_type(value, bits), initial_state + math.prod(halves.part))


@library_function("PhiloxBitGenerator")
def philox_bit_generator(key: XlaOp, initial_state: XlaOp, shape: ShapeLike) -> RngOutput:
    """Return random bits of Philox-4x32, and the next state.

    Args:
        key: a scalar of type u64.
        initial_state: a counter of 128 bits, low half first, of shape u64[2].
        shape: see `three_fry_bit_generator`.

    Returns:
        The bits and the next counter, see `three_fry_bit_generator`.

    Raises:
        OperandError: the key or the state has another shape; `shape` is not an array shape.
        ShapeInferenceError: the type is pred or complex; a size is dynamic.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> key, state = b.parameter(xb.u64[()]), b.parameter(xb.u64[2])
        >>> lib.philox_bit_generator(key, state, xb.f64[2, 3]).value.shape
        u64[2,3]
    """
    op = "philox_bit_generator"
    _check_sizes(op, "key", key, [])
    _check_sizes(op, "initial_state", initial_state, [2])
    sizes, bits = _bits_argument(op, shape)
    count = math.prod(sizes)
    per_block = 2 if bits is u64 else 4
    blocks = -(-count // per_block)
    low, high = initial_state[0], initial_state[1]
    counters = key.builder.iota(array_shape(u64, [blocks]), 0)
    words = [word for half in _plus(low, high, counters) for word in _halves(half)]
    hashed = call(_philox, *_halves(key), *words)
    columns = [hashed[n] for n in range(4)]
    if bits is u64:
        columns = [u64_of(columns[0], columns[1]), u64_of(columns[2], columns[3])]
    rows = concatenate([reshape(column, [blocks, 1]) for column in columns], 1)
    numbers = slice_in_dim(reshape(rows, [blocks * per_block]), 0, count, 1, 0)
    state = concat_scalars(_plus(low, high, key.builder.constant(blocks, u64)))
    return RngOutput(as_type(reshape(numbers, sizes), bits), state)


@library_function("PhiloxIncreaseCounter")
def philox_increase_counter(counter: XlaOp, delta: XlaOp) -> XlaOp:
    """Return a counter of 128 bits advanced by a number of blocks of 128 random bits.

    Args:
        counter: the counter, low half first, of shape u64[2].
        delta: a scalar of type u64.

    Raises:
        OperandError: an argument has another shape.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> counter = b.parameter(xb.u64[2])
        >>> lib.philox_increase_counter(counter, b.constant(5, xb.u64)).shape
        u64[2]
    """
    _check_sizes("philox_increase_counter", "counter", counter, [2])
    _check_sizes("philox_increase_counter", "delta", delta, [])
    return concat_scalars(_plus(counter[0], counter[1], delta))


@library_function("ScramblePhiloxKey")
def scramble_philox_key(key: XlaOp) -> tuple[XlaOp, XlaOp]:
    """Return a state and a key for Philox that depend on all bits of a weak key.

    Args:
        key: a scalar of type u64.

    Returns:
        The state, of shape u64[2], and the key, a scalar of type u64.

    Raises:
        OperandError: the key has another shape.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> seed = xb.XlaBuilder().parameter(xb.u64[()])
        >>> state, key = lib.scramble_philox_key(seed)
        >>> state.shape, key.shape
        (u64[2], u64[])
    """
    _check_sizes("scramble_philox_key", "key", key, [])
    low, high = _halves(key)
    zero, *scrambling = (key.builder.constant(n, u32) for n in (0, *_SCRAMBLING_KEY))
    words = call(_philox, *scrambling, low, zero, high, zero)
    state = concat_scalars((u64_of(zero, zero), u64_of(words[2], words[3])))
    return state, u64_of(words[0], words[1])


@library_function("ConvertRandomBitsToUniformFloatingPoint")
def convert_random_bits_to_uniform_floating_point(
    bits: XlaOp, minval: XlaOp, maxval: XlaOp
) -> XlaOp:
    """Turn random bits into numbers distributed uniformly in [minval, maxval).

    Each number uses as many of the bits as its type has digits after the leading one. These are the
    highest bits, except for f16 from u16, which uses the lowest bits as in XLA. XLA ignores the
    limits for f16 from u16; this function does not.

    Args:
        bits: an array of integers.
        minval: the lower limit, a scalar of floating-point type or an array of the bits' sizes.
        maxval: the upper limit, of the same type. Rounding can give this number, too.

    Raises:
        OperandError: an argument is not an array, or a limit is not of floating-point type; the
            types of the limits differ.
        ShapeInferenceError: the bits are not integers or too few for the type; sizes differ.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> bits, low, high = b.parameter(xb.u32[4]), b.parameter("f32[]"), b.parameter("f32[]")
        >>> lib.convert_random_bits_to_uniform_floating_point(bits, low, high).shape
        f32[4]
    """
    op = "convert_random_bits_to_uniform_floating_point"
    kind = floating_type(op, minval=minval, maxval=maxval)
    shape = array_argument(op, "bits", bits)
    source = shape.element_type
    if not source.is_integral:
        raise error_of(ShapeInferenceError, op, "bits must be integers", got=shape)
    digits = float_info(kind).nmant
    if digits > source.bits:
        rule = f"bits must have at least {digits} bits for {kind}"
        raise error_of(
            ShapeInferenceError, op, rule, f"generate bits of shape {kind}[...]", got=shape
        )
    if kind is f16 and source is u16:
        values = from_mantissas(ew.and_(bits, (1 << digits) - 1), f16)
    else:
        kept = ew.shift_right_logical(bits, source.bits - digits)
        values = as_type(kept, kind) * 2.0**-digits
    return values * (maxval - minval) + minval


@library_function("UniformFloatingPointDistribution")
def uniform_floating_point_distribution(
    key: XlaOp,
    initial_state: XlaOp,
    bit_generator: BitGenerator,
    minval: XlaOp,
    maxval: XlaOp,
    shape: ShapeLike,
) -> RngOutput:
    """Return numbers distributed uniformly in [minval, maxval), and the next state.

    Args:
        key: the key of the generator.
        initial_state: the state of the generator.
        bit_generator: `three_fry_bit_generator` or `philox_bit_generator`, or a function with their
            parameters and result.
        minval: the lower limit, a scalar of the type of `shape`.
        maxval: the upper limit, the same; see `convert_random_bits_to_uniform_floating_point`.
        shape: an array shape of floating-point type and fixed sizes.

    Raises:
        OperandError: an argument has another shape, or the limits have another type than `shape`;
            `bit_generator` is not such a function.
        ShapeInferenceError: a size is dynamic.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> key, state = b.parameter(xb.u64[()]), b.parameter(xb.u64[1])
        >>> low, high = b.constant(0.0, xb.f32), b.constant(1.0, xb.f32)
        >>> numbers, state = lib.uniform_floating_point_distribution(
        ...     key, state, lib.three_fry_bit_generator, low, high, xb.f32[2, 3]
        ... )
        >>> numbers.shape
        f32[2,3]
    """
    op = "uniform_floating_point_distribution"
    result = static_shape_argument(op, "shape", shape)
    _limits(op, result, minval, maxval)
    bits, state = _generated(op, bit_generator, key, initial_state, result)
    return RngOutput(convert_random_bits_to_uniform_floating_point(bits, minval, maxval), state)


@library_function("UniformIntDistribution")
def uniform_int_distribution(
    key: XlaOp,
    initial_state: XlaOp,
    bit_generator: BitGenerator,
    minval: XlaOp,
    maxval: XlaOp,
    shape: ShapeLike,
) -> RngOutput:
    """Return integers distributed uniformly in [minval, maxval), and the next state.

    The integers are remainders, so small ones are slightly more probable unless the number of
    integers is a power of 2.

    Args:
        key: the key of the generator.
        initial_state: the state of the generator.
        bit_generator: see `uniform_floating_point_distribution`.
        minval: the smallest integer, a scalar of the type of `shape`.
        maxval: the integer after the largest, the same.
        shape: an array shape of type s32, u32, s64 or u64 and fixed sizes.

    Raises:
        OperandError: an argument has another shape, or the limits have another type than `shape`;
            `bit_generator` is not such a function.
        ShapeInferenceError: the type is not supported; a size is dynamic.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> key, state = b.parameter(xb.u64[()]), b.parameter(xb.u64[1])
        >>> low, high = b.constant(1, xb.s32), b.constant(7, xb.s32)
        >>> lib.uniform_int_distribution(
        ...     key, state, lib.three_fry_bit_generator, low, high, xb.s32[10]
        ... ).value.shape
        s32[10]
    """
    op = "uniform_int_distribution"
    result = static_shape_argument(op, "shape", shape)
    kind = _one_of_types(op, result, (s32, u32, s64, u64))
    _limits(op, result, minval, maxval)
    bits, state = _generated(op, bit_generator, key, initial_state, result)
    unsigned = UNSIGNED[kind.bits]
    low, high = (ew.bitcast_convert_type(limit, unsigned) for limit in (minval, maxval))
    offset = ew.rem(bits, high - low)
    return RngOutput(ew.bitcast_convert_type(low + offset, kind), state)


@library_function("BoxMullerTransform")
def box_muller_transform(x0: XlaOp, x1: XlaOp) -> tuple[XlaOp, XlaOp]:
    """Turn two arrays of uniform random numbers into two arrays of normal ones (Box-Muller).

    Args:
        x0: an array of numbers in [0, 1]; smaller numbers than 1e-7 count as 1e-7, as in XLA.
        x1: an array of such numbers, of the same type and sizes.

    Raises:
        OperandError: an argument is not an array of floating-point type, or the types differ.
        ShapeInferenceError: the sizes differ.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> x, y = lib.box_muller_transform(b.parameter(xb.f32[4]), b.parameter(xb.f32[4]))
        >>> x.shape, y.shape
        (f32[4], f32[4])
    """
    floating_type("box_muller_transform", x0=x0, x1=x1)
    angle = x1 * (2 * math.pi)
    # The smallest number is one of f32 for all types.
    smallest = float(f32.dtype.type(1e-7))
    radius = ew.sqrt(ew.log(ew.max(x0, smallest)) * -2.0)
    return ew.sin(angle) * radius, ew.cos(angle) * radius


@library_function("NormalFloatingPointDistribution")
def normal_floating_point_distribution(
    key: XlaOp, initial_state: XlaOp, bit_generator: BitGenerator, shape: ShapeLike
) -> RngOutput:
    """Return numbers of the standard normal distribution, and the next state.

    Args:
        key: the key of the generator.
        initial_state: the state of the generator.
        bit_generator: see `uniform_floating_point_distribution`.
        shape: an array shape of type f16, f32 or f64 and fixed sizes.

    Raises:
        OperandError: an argument has another shape; `bit_generator` is not such a function.
        ShapeInferenceError: the type is not supported; a size is dynamic.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> key, state = b.parameter(xb.u64[()]), b.parameter(xb.u64[2])
        >>> lib.normal_floating_point_distribution(
        ...     key, state, lib.philox_bit_generator, xb.f32[5]
        ... ).value.shape
        f32[5]
    """
    op = "normal_floating_point_distribution"
    result = static_shape_argument(op, "shape", shape)
    kind = _one_of_types(op, result, (f16, f32, f64))
    builder = need_op(op, "key", key).builder
    zero, one = builder.constant(0.0, kind), builder.constant(1.0, kind)
    halves = _Halves(result.dimensions)
    uniform, state = uniform_floating_point_distribution(
        key, initial_state, bit_generator, zero, one, array_shape(kind, halves.joined)
    )
    numbers = box_muller_transform(*halves.divided(uniform))
    return RngOutput(halves.combined(numbers), state)


@library_function("ConcatScalars")
def concat_scalars(scalars: Sequence[XlaOp]) -> XlaOp:
    """Return a vector of scalars. XLA's function has the builder as first argument.

    Args:
        scalars: one or more scalars of one type.

    Raises:
        ShapeInferenceError: there is no scalar; an op is not a scalar; the types differ.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> lib.concat_scalars([b.constant(n, xb.u32) for n in (1, 2, 3)]).shape
        u32[3]
    """
    ops = need_ops("concat_scalars", "scalar", scalars)
    for number, op in enumerate(ops):
        shape = array_argument("concat_scalars", f"scalar {number}", op)
        if shape.rank:
            rule = "each array must be a scalar"
            raise error_of(
                ShapeInferenceError, "concat_scalars", rule, got=f"{shape} (scalar {number})"
            )
    return concatenate([reshape(op, [1]) for op in ops], 0)


class _Halves:
    """The division of an array into two equal parts along a dimension.

    The dimension is the first one of even size. If all sizes are odd, it is the largest dimension,
    and the second part has one index more than needed. Behind this dimension, the parts have a
    dimension of size 1, along which they are joined. The parts of a scalar are vectors of size 1.
    """

    def __init__(self, sizes: tuple[int, ...]) -> None:
        self.sizes = sizes
        self.number = 0
        self.part: tuple[int, ...] = (1,)
        self.joined: tuple[int, ...] = (2,)
        if not sizes:
            return
        even = [n for n, size in enumerate(sizes) if size % 2 == 0]
        where = even[0] if even else sizes.index(max(sizes))
        before, size, after = sizes[:where], -(-sizes[where] // 2), sizes[where + 1 :]
        self.number = where + 1
        self.part = (*before, size, 1, *after)
        self.joined = (*before, size, 2, *after)

    def combined(self, parts: tuple[XlaOp, XlaOp]) -> XlaOp:
        """Return the array of two parts."""
        if not self.sizes:
            return reshape(parts[0], [])
        rows = concatenate(parts, self.number)
        where = self.number - 1
        padded = list(self.sizes)
        padded[where] = 2 * self.part[where]
        return slice_in_dim(reshape(rows, padded), 0, self.sizes[where], 1, where)

    def divided(self, joined: XlaOp) -> tuple[XlaOp, XlaOp]:
        """Return the two parts of an array of sizes `joined`."""
        first, second = (slice_in_dim(joined, n, n + 1, 1, self.number) for n in range(2))
        return first, second


def _generated(
    op: str, bit_generator: BitGenerator, key: XlaOp, initial_state: XlaOp, shape: ArrayShape
) -> RngOutput:
    """Return the result of a bit generator, which may be a function of the user."""
    generated: Any = None
    if callable(bit_generator):
        generated = bit_generator(key, initial_state, shape)
    is_pair = isinstance(generated, (tuple, list)) and len(generated) == 2
    if not (is_pair and all(isinstance(part, XlaOp) for part in generated)):
        rule = "bit_generator must be a function that returns two ops, the bits and the next state"
        fix = "pass lib.three_fry_bit_generator or lib.philox_bit_generator"
        got = brief(generated if callable(bit_generator) else bit_generator, 80)
        raise error_of(OperandError, op, rule, fix, got=got)
    bits = array_argument(op, "the bits", generated[0])
    expected = array_shape(UNSIGNED[shape.element_type.bits], shape.dimensions)
    if bits != expected:
        rule = f"bit_generator must return bits of shape {expected} for {shape}"
        raise error_of(ShapeInferenceError, op, rule, got=bits)
    return RngOutput(*generated)


def _threefry_blocks(key: XlaOp, counter: XlaOp, sizes: Sequence[int]) -> tuple[XlaOp, XlaOp]:
    """Return the hashes of counters in row-major order, starting with `counter`."""
    counters = broadcast(counter, sizes) + row_major_numbers(key.builder, u64, sizes)
    key_low, key_high = _halves(key)
    return threefry2x32((key_low, key_high), *_halves(counters))


def row_major_numbers(builder: XlaBuilder, kind: PrimitiveType, sizes: Sequence[int]) -> XlaOp:
    """Return an array whose elements are numbered in row-major order.

    It is a sum with one iota along each dimension. Unlike a reshaped iota, this sum can be
    partitioned along all dimensions.
    """
    total: Any = None
    stride = 1
    for number in reversed(range(len(sizes))):
        if sizes[number] != 1:
            along = builder.iota(array_shape(kind, sizes), number)
            scaled = along if stride == 1 else along * stride
            total = scaled if total is None else total + scaled
            stride *= sizes[number]
    return broadcast(builder.constant(0, kind), sizes) if total is None else total


def row_major_numbers_of(x: XlaOp, kind: PrimitiveType) -> XlaOp:
    """Return `row_major_numbers` of the sizes of x, which may be unbounded."""
    shape = shape_of(x)
    if shape.is_bounded:
        return row_major_numbers(x.builder, kind, shape.dimensions)
    last = shape.rank - 1
    total = indices_of(x, kind, last)
    stride: Any = 1
    for number in reversed(range(last)):
        size = shape.dimensions[number + 1]
        stride *= as_type(get_dimension_size(x, number + 1), kind) if size == UNBOUNDED else size
        total = total + indices_of(x, kind, number) * stride
    return total


def from_mantissas(mantissas: XlaOp, kind: PrimitiveType) -> XlaOp:
    """Return the floating-point numbers in [0, 1) with these binary digits after the point.

    The digits become those of a number in [1, 2), from which 1 is subtracted.
    """
    one = int(np.ones((), kind.dtype).view(f"uint{kind.bits}"))
    return ew.bitcast_convert_type(ew.or_(mantissas, one), kind) - 1.0


def _halves(x: XlaOp) -> tuple[XlaOp, XlaOp]:
    """Return the low and the high half of u64s, as u32s."""
    return as_type(x, u32), as_type(ew.shift_right_logical(x, 32), u32)


def u64_of(low: XlaOp, high: XlaOp) -> XlaOp:
    """Return the u64s whose low and high halves are u32s."""
    return ew.or_(as_type(low, u64), ew.shift_left(as_type(high, u64), 32))


def _plus(low: XlaOp, high: XlaOp, numbers: XlaOp) -> tuple[XlaOp, XlaOp]:
    """Return the halves of the sums of a number of 128 bits and an array of u64s."""
    sums = low + numbers
    return sums, as_type(ew.lt(sums, low), u64) + high


def _check_sizes(op: str, name: str, value: Any, *expected: list[int], kind: Any = u64) -> None:
    """Check that argument `name` is an array of type `kind` with one of the sizes."""
    shape = need_op(op, name, value).shape
    allowed = [array_shape(kind, sizes) for sizes in expected]
    if shape not in allowed:
        rule = f"{name} must have shape {' or '.join(map(str, allowed))}"
        # A key of `lib.random` is u32[2]; here keys are u64 scalars.
        is_other_key = name == "key" and shape == u32[2]
        fix = "make the key with builder.constant(seed, xb.u64)" if is_other_key else ""
        raise error_of(OperandError, op, rule, fix, got=shape)


def _bits_argument(op: str, shape: ShapeLike) -> tuple[tuple[int, ...], PrimitiveType]:
    """Return the sizes of a shape, and the unsigned integer type as wide as its element type."""
    result = static_shape_argument(op, "shape", shape)
    kind = result.element_type
    if kind is pred or kind.is_complex or kind.bits not in UNSIGNED:
        rule = "shape must have an integer or a real floating-point type"
        raise error_of(ShapeInferenceError, op, rule, got=result)
    return result.dimensions, UNSIGNED[kind.bits]


def _one_of_types(op: str, shape: ArrayShape, kinds: tuple[PrimitiveType, ...]) -> PrimitiveType:
    if shape.element_type not in kinds:
        names = ", ".join(map(str, kinds))
        rule = f"the type of shape must be one of {names}"
        raise error_of(ShapeInferenceError, op, rule, got=shape)
    return shape.element_type


def _limits(op: str, shape: ArrayShape, minval: Any, maxval: Any) -> None:
    """Check that the limits are scalars of the type of `shape`."""
    for name, value in (("minval", minval), ("maxval", maxval)):
        _check_sizes(op, name, value, [], kind=shape.element_type)
