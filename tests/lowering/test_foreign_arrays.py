"""Every function that takes arrays takes those of all libraries, and refuses them with a reason."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import numpy as np
import pytest
from tables import each_row

import builder as xb
import lowering
from tests.foreign_arrays import PROTOCOLS, ArrayOnly, OldDeviceTensor, TorchTensor

X = np.arange(6, dtype=np.float32).reshape(2, 3)
SHAPE = xb.f32[2, 3]


@cache
def negated(shape: xb.Shape | str = SHAPE) -> xb.XlaComputation:
    b = xb.XlaBuilder("negated")
    return b.build(-b.parameter(shape, "x"))


@cache
def compiled(computation: xb.XlaComputation, **options: int) -> Any:
    return lowering.compile(computation, "cpu", **options)


@cache
def negated_infeed() -> xb.XlaComputation:
    b = xb.XlaBuilder("read")
    return b.build(-b.infeed(SHAPE))


def by_infeed(value: Any, **shape: Any) -> Any:
    run = compiled(negated_infeed())
    lowering.transfer_to_infeed(value, "cpu", **shape)
    return run()


RETURNED: list[Any] = []
"""What the Python function of a program returns."""


@cache
def negated_callback() -> xb.XlaComputation:
    b = xb.XlaBuilder("called")
    return b.build(-xb.python_call(lambda _: RETURNED.pop(), b.constant(0, xb.s32), SHAPE))


def by_callback(value: Any) -> Any:
    RETURNED.append(value)
    return compiled(negated_callback())()


def as_constant(value: Any) -> Any:
    return -xb.XlaBuilder("constant").constant(value).attributes["value"]


def with_ops(value: Any) -> Any:
    """A jitted function that is called with an op and an array."""
    add = lowering.jit(lambda x, y: x + y, name="add")
    return lowering.jit(lambda x: add(x, value))(-2 * X)


NEGATE = lowering.jit(lambda x: -x)


SHAPED: dict[str, Callable[[Any], Any]] = {
    "executable": lambda value: compiled(negated())(value),
    "by name": lambda value: compiled(negated())(x=value),
    "jit.compile": lambda value: NEGATE.compile(SHAPE)(value),
    "bounded": lambda value: compiled(negated("f32[<=4,3]"))(value),
    "replicated": lambda value: compiled(negated(), num_replicas=2)([value, value])[1],
    "partitioned": lambda value: compiled(negated(), num_partitions=2)([value, value])[1],
    "interpret": lambda value: lowering.interpret(negated(), value),
    "shaped infeed": lambda value: by_infeed(value, shape=SHAPE),
    "callback": by_callback,
}
"""The functions that know the shape of an array before they read it."""

SHAPELESS: dict[str, Callable[[Any], Any]] = {
    "jit": NEGATE,
    "jit with ops": with_ops,
    "device_put": lambda value: -lowering.device_put(value, "cpu"),
    "infeed": by_infeed,
    "constant": as_constant,
}

FUNCTIONS = SHAPED | SHAPELESS


@pytest.fixture(params=FUNCTIONS)
def negate(request: pytest.FixtureRequest) -> Any:
    yield FUNCTIONS[request.param]
    lowering.clear_transfers("cpu")


@pytest.fixture(params=SHAPED)
def negate_shaped(request: pytest.FixtureRequest) -> Any:
    yield SHAPED[request.param]
    lowering.clear_transfers("cpu")


@each_row("make", PROTOCOLS.values())
def test_protocols(negate: Callable[[Any], Any], make: Callable[[np.ndarray], Any]) -> None:
    np.testing.assert_array_equal(negate(make(X)), -X)
    turned = np.asfortranarray(X)
    np.testing.assert_array_equal(negate(make(turned)), -X)


class Counted(ArrayOnly):
    """An array that counts how often it is read."""

    reads = 0

    def __array__(self, dtype: Any = None) -> Any:
        self.reads += 1
        return super().__array__(dtype)


# A call with ops is recorded, and flattens its arguments twice.
@each_row("name", sorted(FUNCTIONS.keys() - {"replicated", "partitioned", "jit with ops"}))
def test_an_array_is_read_once(name: str) -> None:
    value = Counted(X)
    FUNCTIONS[name](value)
    assert value.reads == 1


def test_later_calls_of_jit_use_the_same_executable() -> None:
    negate = lowering.jit(lambda x: -x)
    value = Counted(X)
    for number in range(1, 4):
        np.testing.assert_array_equal(negate(value), -X)
        assert value.reads == number
    np.testing.assert_array_equal(negate(X), -X)
    assert negate.cache_info().compiled == 1
    value.array = X.astype(np.float64)
    assert negate(value).dtype == np.float64


@each_row("name", sorted(FUNCTIONS.keys() - {"replicated", "partitioned"}))
def test_arrays_of_jax(name: str) -> None:
    np.testing.assert_array_equal(FUNCTIONS[name](jax.device_put(X)), -X)


@each_row(
    "value, message",
    [
        (
            TorchTensor(X, requires_grad=True),
            (
                "got a TorchTensor of torch.float32[2,3] that requires gradients\n"
                "fix: write array.detach()"
            ),
        ),
        (
            TorchTensor(X, is_sparse=True),
            (
                "got a TorchTensor of torch.float32[2,3] that can't be read: TypeError: can't "
                "convert Sparse layout tensor to numpy.\nfix: convert it to a NumPy array first"
            ),
        ),
        (
            OldDeviceTensor(X),
            (
                "got an OldDeviceTensor in the memory of a device\n"
                "fix: copy it to the memory of the host: array.cpu()"
            ),
        ),
        (np.ma.array(X), "got a masked array\nfix: fill the masked elements: array.filled(value)"),
    ],
)
def test_refusals_have_a_reason(negate: Callable[[Any], Any], value: Any, message: str) -> None:
    with pytest.raises(xb.XlaError) as caught:
        negate(value)
    assert message in str(caught.value)


def test_arrays_of_objects_are_refused(negate: Callable[[Any], Any]) -> None:
    """Such as columns of texts of pandas."""
    with pytest.raises(xb.XlaError) as caught:
        negate(ArrayOnly(np.full((2, 3), "a", object)))
    assert "object" in str(caught.value) or "an array of numbers" in str(caught.value)
    assert "\nfix: " in str(caught.value)


@each_row(
    "value",
    [
        X.tolist(),
        tuple(map(tuple, X.tolist())),
        [list(row) for row in X],
        [[0, 1, 2], [3, 4, 5]],
        [X[0], X[1]],
    ],
)
def test_nested_lists(negate_shaped: Callable[[Any], Any], value: Any) -> None:
    np.testing.assert_array_equal(negate_shaped(value), -X)


@each_row(
    "value, got",
    [
        ([[1, 2, 2**24 + 1], [1, 2, 3]], "with the Python number 16777217: the nearest number"),
        ([[1, 2, 1e39], [1, 2, 3]], "with the Python number 1e+39: the range is -3.40"),
        ([[1, 2, 1j], [1, 2, 3]], "with the Python number 1j: the number is complex"),
        ([[1, 2, True], [1, 2, 3]], "with the Python number True: a bool has type pred"),
        ([[1, 2, "3"], [1, 2, 3]], "nested lists must contain numbers, got str: '3'"),
        ([[1, 2], [1, 2, 3]], "nested lists must have equal lengths and contain numbers"),
    ],
)
def test_numbers_that_do_not_fit(negate_shaped: Callable[[Any], Any], value: Any, got: str) -> None:
    with pytest.raises(xb.XlaError) as caught:
        negate_shaped(value)
    assert f"got a list {got}" in str(caught.value) or f"got a list: {got}" in str(caught.value)
    assert "\nfix: " in str(caught.value) or "nested lists" in got


@each_row("value", [[[1, 2], [3, 4]], [1, 2, 3, 4, 5, 6]])
def test_lists_of_other_sizes(negate_shaped: Callable[[Any], Any], value: Any) -> None:
    with pytest.raises(xb.XlaError, match=r"got a list of sizes \((2, 2|6,)\)"):
        negate_shaped(value)


def test_integers_are_exact() -> None:
    b = xb.XlaBuilder("same")
    x = b.parameter(xb.u64[2], "x")
    run = lowering.compile(b.build(x), "cpu")
    assert np.asarray(run([2**64 - 1, 2**53 + 1])).tolist() == [2**64 - 1, 2**53 + 1]
    for value, reason in (
        ([1, 2**64], "the range is 0 to 18446744073709551615"),
        ([1, -1], "the range is 0 to 18446744073709551615"),
        ([1, 1.0], "the number is a float, and the type is an integer type\nfix: write 1"),
    ):
        with pytest.raises(lowering.ArgumentError) as caught:
            run(value)
        message = f"argument 0 (x) must be u64[2], got a list with the Python number {value[1]}: "
        assert message + reason in str(caught.value)


def test_a_mismatch_of_another_library_names_numpy() -> None:
    run = lowering.compile(negated(), "cpu")
    with pytest.raises(lowering.ArgumentError) as caught:
        run(ArrayOnly(X.astype(np.float64).T))
    assert "must be f32[2,3], got f64[3,2]\nfix: convert and transpose it: " in str(caught.value)
    assert "numpy.asarray(array).transpose((1, 0)).astype(numpy.float32)" in str(caught.value)


def test_a_shaped_infeed() -> None:
    b = xb.XlaBuilder("shaped")
    value, _ = xb.infeed_with_token(b.create_token(), "(f32[2], (s8[], pred[1]))")
    run = lowering.compile(b.build(value), "cpu")
    shape = xb.parse_shape("(f32[2], (s8[], pred[1]))")
    lowering.transfer_to_infeed(([1, 2.5], (-3, [True])), "cpu", shape=shape)
    floats, (number, flags) = run()
    assert (np.asarray(floats).tolist(), int(number), np.asarray(flags).tolist()) == (
        [1, 2.5],
        -3,
        [True],
    )
    for value, message in (
        (([1, 2], (300, [True])), "value[1][0] must be s8[], got the Python number 300: the range"),
        (([1, 2], 3), "value[1] must be a tuple of 2, (s8[], pred[1]), got an int"),
        (([1, 2], (3, X)), "value[1][1] must be pred[1], got f32[2,3]"),
    ):
        with pytest.raises(lowering.ArgumentError) as caught:
            lowering.transfer_to_infeed(value, "cpu", shape=shape)
        assert f"transfer_to_infeed: {message}" in str(caught.value)
        assert caught.value.shapes == {"shape": shape}
    with pytest.raises(
        lowering.ArgumentError, match="shape must consist of arrays of static sizes"
    ):
        lowering.transfer_to_infeed([1], "cpu", shape="f32[<=3]")
    assert lowering.clear_transfers("cpu") == (0, 0)


def test_a_shaped_infeed_copies() -> None:
    value = X.copy()
    b = xb.XlaBuilder("copied")
    run = lowering.compile(b.build(b.infeed(SHAPE)), "cpu")
    lowering.transfer_to_infeed(value, "cpu", shape=SHAPE)
    value[...] = 9
    np.testing.assert_array_equal(run(), X)
