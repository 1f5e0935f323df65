"""Python numbers as arguments of jitted functions, compared with NumPy and jax.jit."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from tables import each_row

import builder as xb
import lowering
from lowering import ArgumentError

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def identity() -> lowering.JittedFunction:
    """Return a jitted function of several arguments that returns them."""
    return lowering.jit(lambda *args: args, name="identity")


@each_row("number", [True, False, 0, 7, -(2**31), 2**31 - 1, 0.1, -0.0, 1e-45, 1 - 2j])
def test_types_are_those_of_jax(number: Any) -> None:
    """A number alone has the type that jax.jit gives it without 64-bit types."""
    with jax.enable_x64(False):
        expected = np.asarray(jax.jit(lambda x: x)(number))
    (result,) = identity()(number)
    assert result.shape == ()
    assert result.dtype == expected.dtype
    assert np.asarray(result).tobytes() == expected.tobytes()


@each_row("number", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_are_not_finite(number: float) -> None:
    (result,) = identity()(number)
    np.testing.assert_array_equal(np.asarray(result), np.float32(number))


@each_row(
    "number, beside, dtype",
    [
        (0.1, [np.float64], "float64"),
        (0.1, [np.float16, np.int32], "float16"),
        (0.1, [ml_dtypes.bfloat16], "bfloat16"),
        (0.1, [np.float64, np.float16], "float32"),
        (0.1, [np.complex128], "float32"),
        (0.1, [np.int8], "float32"),
        (1j, [np.complex128], "complex128"),
        (1j, [np.float64], "complex64"),
        (3, [np.float64], "int32"),
        (3, [np.uint8], "int32"),
        (True, [np.float64], "bool"),
    ],
)
def test_a_float_has_the_type_of_the_arrays_beside_it(
    number: Any, beside: list[Any], dtype: str
) -> None:
    arrays = [np.ones(2, one) for one in beside]
    expected = np.asarray(number).astype(dtype)
    for others in (arrays, [lowering.device_put(array) for array in arrays]):
        for arguments in ([number, *others], [*others, number]):
            results = identity()(*arguments)
            result = results[0] if arguments[0] is number else results[-1]
            assert result.dtype == expected.dtype
            assert np.asarray(result).tobytes() == expected.tobytes()


def test_other_numbers_need_no_compilation() -> None:
    scaled = lowering.jit(lambda x, factor: x * factor)
    for x in (X, jnp.asarray(X)):
        for number in (0.5, -3.0, 1e30, np.float32(2), jnp.float32(4)):
            np.testing.assert_array_equal(scaled(x, number), X * np.float32(number))
    assert scaled.cache_info()[:2] == (1, 1)
    with pytest.raises(xb.ShapeInferenceError, match=r"mul: .*s32"):
        scaled(X, 2)
    assert scaled.cache_info()[:2] == (1, 1)


def test_true_and_one_are_different() -> None:
    shifted = lowering.jit(lambda x: xb.convert(x, xb.s8) * 5, name="shifted")
    for value, expected in ((True, 5), (1, 5), (2, 10), (False, 0), (1.0, 5)):
        assert shifted(value) == expected
    assert shifted.cache_info().compiled == 3


def test_the_value_of_a_later_call_is_checked() -> None:
    """jaxlib has cached calls with small numbers by then."""
    function = lowering.jit(lambda n: n + 1, name="function")
    assert [int(function(n)) for n in (1, 2, 3)] == [2, 3, 4]
    for number in (2**31, -(2**31) - 1, 2**70):
        with pytest.raises(ArgumentError, match=rf"argument n must be a number .* got {number}: "):
            function(number)
    assert int(function(np.int64(2**31))) == 2**31 + 1


def test_nested_named_and_default_arguments() -> None:
    @dataclasses.dataclass
    class State:
        step: Any
        rate: Any

    @lowering.jit
    def update(params: Any, state: Any, momentum: Any = 0.5) -> Any:
        new = {name: p * state.rate + momentum for name, p in params.items()}
        return new, dataclasses.replace(state, step=state.step + 1)

    params = {"w": X, "b": 2.0}
    for momentum in (0.5, 0.25):
        named = {} if momentum == 0.5 else {"momentum": momentum}
        new, state = update(params, State(3, 0.1), **named)
        rate = np.float32(0.1)
        np.testing.assert_allclose(new["w"], X * rate + np.float32(momentum), rtol=1e-6)
        np.testing.assert_allclose(new["b"], 2 * rate + np.float32(momentum), rtol=1e-6)
        assert int(state.step) == 4
    assert update.cache_info()[:2] == (1, 1)


def test_computation_and_compile() -> None:
    function = lowering.jit(lambda x, factor: x * factor, name="function")
    expected = "(x: bf16[3], factor: bf16[]) -> bf16[3]"
    assert str(function.computation(xb.bf16[3], 0.5).program_shape) == expected
    shape = jax.ShapeDtypeStruct((3,), jnp.bfloat16)
    assert str(function.computation(shape, 0.5).program_shape) == expected
    executable = function.compile(X, 2.0)
    np.testing.assert_array_equal(executable(X, 3), X * 3)


def test_beside_ops_numbers_are_constants() -> None:
    inner = lowering.jit(lambda x, factor, offset: x * factor + xb.convert(offset, xb.f64))
    outer = lowering.jit(lambda x: inner(x, 0.1, 2), name="outer")
    x = np.array([1.5, -2.5])
    np.testing.assert_array_equal(outer(x), x * 0.1 + 2)
    called = outer.computation(x).called_computations()[0]
    assert [str(p.shape) for p in called.parameters] == ["f64[2]", "f64[]", "s32[]"]


def test_donated_and_static_arguments() -> None:
    function = lowering.jit(lambda x, n: x * 2.0 if n == 1 else x, donate=["x"], static=["n"])
    assert float(function(1.5, 1)) == 3
    assert float(function(1.5, 2)) == 1.5
