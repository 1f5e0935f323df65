"""Shapes and refusals of random numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tables import each_row

import builder as xb
from builder.ops import shape_inference as infer
from builder.types.primitive_type import ALL

REAL = [t for t in ALL if not t.is_complex]
FLOATS = [t for t in ALL if t.is_floating]


def scalars(*types: str) -> list[xb.XlaOp]:
    b = xb.XlaBuilder()
    return [b.parameter(t if "[" in t else f"{t}[]") for t in types]


@each_row("element_type", REAL)
@each_row("dimensions", [(), (5,), (2, 0, 3)])
def test_uniform_of_every_type(element_type: xb.PrimitiveType, dimensions: Any) -> None:
    shape, scalar = (xb.array_shape(element_type, d) for d in (dimensions, ()))
    assert infer.rng_uniform(scalar, scalar, shape) is shape


@each_row("element_type", FLOATS)
def test_normal_of_every_type(element_type: xb.PrimitiveType) -> None:
    shape, scalar = xb.array_shape(element_type, (2, 3)), xb.array_shape(element_type, ())
    assert infer.rng_normal(scalar, scalar, shape) is shape


@each_row("element_type", [t for t in REAL if t is not xb.pred])
def test_bits_are_unsigned_and_as_wide(element_type: xb.PrimitiveType) -> None:
    state, shape = xb.u64[2], xb.array_shape(element_type, (3, 0))
    drawn = infer.rng_bit_generator(state, shape)
    assert str(drawn) == f"(u64[2], u{element_type.bits}[3,0])"


@each_row("state", ["u64[3]", "u32[4]", "u16[]", "u8[2]", "u64[1,2]", "u32[7,<=3]"])
def test_any_unsigned_state(state: str) -> None:
    (op,) = scalars(state)
    drawn = xb.rng_bit_generator(xb.RandomAlgorithm.RNG_DEFAULT, op, "s16[3]{0}")
    assert str(drawn.shape) == f"({state}, u16[3])"


def test_recorded_op() -> None:
    b = xb.XlaBuilder()
    mu, sigma = b.parameter(xb.f32[()]), b.parameter(xb.f32[()])
    normal = xb.rng_normal(mu, sigma, "f32[2,3]{0,1}")
    assert normal.shape is xb.f32[2, 3]
    assert (normal.opcode, normal.operands) == ("rng", (mu, sigma))
    assert dict(normal.attributes) == {"distribution": "rng_normal"}
    uniform = xb.rng_uniform(mu, sigma, xb.f32[4])
    assert dict(uniform.attributes) == {"distribution": "rng_uniform"}
    assert uniform.attributes is xb.rng_uniform(sigma, mu, xb.f32[()]).attributes
    state = b.parameter(xb.u64[2])
    bits = xb.rng_bit_generator("RNG_PHILOX", state, xb.u32[3])
    assert (bits.opcode, bits.operands) == ("rng_bit_generator", (state,))
    assert dict(bits.attributes) == {"algorithm": xb.RandomAlgorithm.RNG_PHILOX}
    after, drawn = bits
    assert (after.shape, drawn.shape) == (xb.u64[2], xb.u32[3])
    text = str(b.build(xb.tuple(normal, uniform, bits)))
    assert "rng(%p0, %p1), distribution=rng_normal\n" in text
    assert "rng(%p0, %p1), distribution=rng_uniform\n" in text
    assert "rng-bit-generator(%p2), algorithm=rng_philox\n" in text


@each_row("algorithm", xb.RandomAlgorithm)
def test_algorithm_by_name(algorithm: xb.RandomAlgorithm) -> None:
    (state,) = scalars("u64[2]")
    one, other = (xb.rng_bit_generator(a, state, xb.u8[3]) for a in (algorithm, algorithm.name))
    assert one.attributes is other.attributes
    assert repr(algorithm) == f"RandomAlgorithm.{algorithm.name}"


def test_a_number_and_an_op() -> None:
    (x,) = scalars("s8")
    op = xb.rng_uniform(-3, x, xb.s8[2])
    assert op.operands[0].attributes["value"] == np.int8(-3)
    assert op.operands[1] is x
    assert xb.rng_uniform(x, np.int8(100), xb.s8[2]).operands[1].shape is xb.s8[()]


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "rng_normal: type": (
        lambda: xb.rng_normal(*scalars("s32", "s32"), xb.s32[2]),
        (
            "rng_normal: shape must be of floating-point type, got s32[2]\n"
            "  mu    s32[]\n"
            "  sigma s32[]\n"
            "fix: draw floating-point numbers, and convert them with xb.convert_element_type"
        ),
    ),
    "rng_normal: complex": (
        lambda: xb.rng_normal(*scalars("c64", "c64"), xb.c64[2]),
        "rng_normal: shape must be of floating-point type, got c64[2]\n",
    ),
    "rng_normal: mu": (
        lambda: xb.rng_normal(*scalars("f32[3]", "f32"), xb.f32[3]),
        "rng_normal: mu must be a scalar, got f32[3]\n",
    ),
    "rng_normal: sigma": (
        lambda: xb.rng_normal(*scalars("f32", "f32[1]"), xb.f32[3]),
        "rng_normal: sigma must be a scalar, got f32[1]\n",
    ),
    "rng_normal: types": (
        lambda: xb.rng_normal(*scalars("f64", "f32"), xb.f64[3]),
        (
            "rng_normal: sigma must be of the element type of the result, f64, got f32\n"
            "  mu    f64[]\n"
            "  sigma f32[]\n"
            "fix: convert it with xb.convert_element_type; nothing is promoted silently"
        ),
    ),
    "rng_normal: a tuple's shape": (
        lambda: xb.rng_normal(*scalars("f32", "f32"), "(f32[2], s32[])"),
        "rng_normal: shape must be the shape of an array, got (f32[2], s32[])\n",
    ),
    "rng_normal: a tuple as mu": (
        lambda: xb.rng_normal(xb.tuple(*scalars("f32")), 1.0, xb.f32[2]),
        "rng_normal: mu must be an array, got a tuple",
    ),
    "rng_normal: numbers alone": (
        lambda: xb.rng_normal(0.0, 1.0, xb.f32[2]),
        (
            "rng_normal: mu must be an XlaOp, got float: 0.0\n"
            "fix: record it with b.constant(0.0, xb.f32), where b is the builder"
        ),
    ),
    "rng_normal: not a number": (
        lambda: xb.rng_normal(scalars("f32")[0], "1", xb.f32[2]),  # type: ignore[arg-type]
        "rng_normal: sigma must be an XlaOp, got str: '1'",
    ),
    "rng_normal: too large a number": (
        lambda: xb.rng_normal(scalars("f16")[0], 1e6, xb.f16[2]),
        "rng_normal: f16 can't represent the Python number 1000000.0",
    ),
    "rng_normal: bounded": (
        lambda: xb.rng_normal(*scalars("f32", "f32"), "f32[<=3]"),
        (
            "rng_normal: shape must have static sizes, got f32[<=3]\n"
            "  mu    f32[]\n"
            "  sigma f32[]\n"
            "fix: draw numbers for the largest size, and reduce that with xb.set_dimension_size"
        ),
    ),
    "rng_uniform: complex": (
        lambda: xb.rng_uniform(*scalars("c64", "c64"), xb.c64[2]),
        (
            "rng_uniform: shape must be of pred, integer or floating-point type, got c64[2]\n"
            "  a c64[]\n"
            "  b c64[]\n"
            "fix: draw the real and imaginary parts, and combine both with xb.complex"
        ),
    ),
    "rng_uniform: a": (
        lambda: xb.rng_uniform(*scalars("s32[1]", "s32"), xb.s32[2]),
        "rng_uniform: a must be a scalar, got s32[1]\n",
    ),
    "rng_uniform: b": (
        lambda: xb.rng_uniform(*scalars("s32", "s32[]", "u8")[::2], xb.s32[2]),
        "rng_uniform: b must be of the element type of the result, s32, got u8\n",
    ),
    "rng_uniform: result": (
        lambda: xb.rng_uniform(*scalars("f32", "f32"), xb.u16[5, 6]),
        "rng_uniform: a must be of the element type of the result, u16, got f32\n",
    ),
    "rng_uniform: token": (
        lambda: xb.rng_uniform(scalars("f32")[0], 1, xb.TOKEN_SHAPE),
        "rng_uniform: shape must be the shape of an array, got token[]\n",
    ),
    "rng_uniform: unbounded": (
        lambda: xb.rng_uniform(*scalars("pred", "pred"), "pred[2,?]"),
        "rng_uniform: shape must have static sizes, got pred[2,?]\n",
    ),
    "rng_bit_generator: algorithm": (
        lambda: xb.rng_bit_generator("PHILOX", *scalars("u64[2]"), xb.u32[2]),
        (
            "rng_bit_generator: algorithm must be one of RNG_DEFAULT, RNG_THREE_FRY, RNG_PHILOX, "
            "got 'PHILOX'\n"
            "fix: write for instance xb.RandomAlgorithm.RNG_DEFAULT or 'RNG_DEFAULT'"
        ),
    ),
    "rng_bit_generator: signed state": (
        lambda: xb.rng_bit_generator("RNG_PHILOX", *scalars("s64[2]"), xb.u32[2]),
        (
            "rng_bit_generator: initial_state must be of unsigned integer type, got s64\n"
            "  initial_state s64[2]\n"
            "fix: reinterpret initial_state as unsigned integers with xb.bitcast_convert_type"
        ),
    ),
    "rng_bit_generator: state": (
        lambda: xb.rng_bit_generator("RNG_PHILOX", *scalars("f32[2]"), xb.u32[2]),
        "rng_bit_generator: initial_state must be of unsigned integer type, got f32\n",
    ),
    "rng_bit_generator: not an op": (
        lambda: xb.rng_bit_generator("RNG_PHILOX", np.uint64([1, 2]), xb.u32[2]),  # type: ignore[arg-type]
        "rng_bit_generator: initial_state must be an XlaOp, got ndarray",
    ),
    "rng_bit_generator: tuple as state": (
        lambda: xb.rng_bit_generator("RNG_PHILOX", xb.tuple(*scalars("u64[2]")), xb.u32[2]),
        "rng_bit_generator: initial_state must be an array, got a tuple",
    ),
    "rng_bit_generator: complex": (
        lambda: xb.rng_bit_generator("RNG_THREE_FRY", *scalars("u64[2]"), xb.c64[2]),
        "rng_bit_generator: shape must be of integer or floating-point type, got c64[2]\n",
    ),
    "rng_bit_generator: pred": (
        lambda: xb.rng_bit_generator("RNG_THREE_FRY", *scalars("u64[2]"), xb.pred[2]),
        (
            "rng_bit_generator: shape must be of integer or floating-point type, got pred[2]\n"
            "  initial_state u64[2]\n"
            "fix: draw unsigned integers, and compare the integers: bits < n"
        ),
    ),
    "rng_bit_generator: a tuple's shape": (
        lambda: xb.rng_bit_generator("RNG_THREE_FRY", *scalars("u64[2]"), "(u32[2])"),
        "rng_bit_generator: shape must be the shape of an array, got (u32[2])\n",
    ),
    "rng_bit_generator: bounded": (
        lambda: xb.rng_bit_generator("RNG_THREE_FRY", *scalars("u64[2]"), "u32[<=2]"),
        "rng_bit_generator: shape must have static sizes, got u32[<=2]\n",
    ),
}


@each_row("name", REFUSED)
def test_refused(name: str) -> None:
    call, message = REFUSED[name]
    with pytest.raises(xb.XlaError) as caught:
        call()
    assert str(caught.value).startswith(message)
    assert caught.value.op == name.partition(":")[0]


@each_row("shape", [None, 5, xb.f32, "f32[2", [1, 2]])
def test_not_a_shape(shape: Any) -> None:
    state, x = scalars("u64[2]", "f32")
    with pytest.raises((xb.OperandError, xb.ShapeTextError)):
        xb.rng_normal(x, 1.0, shape)
    with pytest.raises((xb.OperandError, xb.ShapeTextError)):
        xb.rng_bit_generator("RNG_DEFAULT", state, shape)


def test_a_refused_op_records_nothing() -> None:
    (x,) = scalars("f32")
    for call in (
        lambda: xb.rng_normal(0.0, x, xb.f64[2]),
        lambda: xb.rng_uniform(x, 1.0, "f32[?]"),
        lambda: xb.rng_uniform(x, "1", xb.f32[2]),
    ):
        with pytest.raises(xb.XlaError):
            call()
    assert len(x.builder.ops) == 1
