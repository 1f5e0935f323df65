"""Bounded sizes executed on CPU: ops that set sizes, bounded parameters and bounded results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import pytest
from support import (
    assert_identical,
    compiled_once,
    flat,
    run,
    stablehlo_of_text,
    trusted_module,
)
from tables import each_row

import builder as xb
import lowering
from lowering import ArgumentError, CompileError
from lowering.pjrt.devices import Target, sharding_of
from lowering.running import arguments

RANDOM = np.random.default_rng(20261120)
ALL_TYPES = [t for t in vars(xb).values() if isinstance(t, xb.PrimitiveType)]
Array = np.ndarray


def sample(t: xb.PrimitiveType, sizes: Sequence[int]) -> Array:
    """Random bits that are not NaNs."""
    if t is xb.pred:
        return RANDOM.integers(0, 2, sizes).astype(bool)
    raw = RANDOM.integers(0, 1 << min(t.bits, 62), sizes)
    if t.is_integral:
        return (raw + (t.min if t.is_signed else 0)).astype(t.dtype)
    return (raw % 17 - (0 if t.min >= 0 else 8) + 1).astype(t.dtype)


def built(function: Callable[..., Any], *shapes: Any) -> xb.XlaComputation:
    b = xb.XlaBuilder("dynamic")
    result = function(*(b.parameter(shape) for shape in shapes))
    return b.build(xb.tuple(*result) if isinstance(result, (list, tuple)) else result)


class Both:
    """Run a computation from StableHLO and from its HLO text, and compare the results."""

    def __init__(self, computation: xb.XlaComputation) -> None:
        with compiled_once():
            self.ours = lowering.compile(computation, "cpu")
            self.theirs = lowering.compile(trusted_module(stablehlo_of_text(computation)), "cpu")

    def __call__(self, *arguments: Any) -> list[Array]:
        ours = [np.asarray(leaf) for leaf in flat(self.ours(*arguments))]
        theirs = [np.asarray(leaf) for leaf in flat(self.theirs(*flat(list(arguments))))]
        for mine, other in zip(ours, theirs, strict=True):
            assert_identical(mine, other)
        return ours


# The ops


def test_documented_set_dimension_size() -> None:
    """Operation Semantics: SetDimensionSize."""

    def program(v: xb.XlaOp, five: xb.XlaOp, six: xb.XlaOp) -> list[xb.XlaOp]:
        padded_v_five = xb.set_dimension_size(v, five, 0)
        padded_v_six = xb.set_dimension_size(v, six, 0)
        return [
            xb.reduce(padded_v_five, 0.0, xb.add, [0]),
            xb.reduce(padded_v_five, 1.0, xb.mul, [0]),
            xb.reduce(padded_v_six, 0.0, xb.add, [0]),
        ]

    v = np.arange(1, 11, dtype=np.float32)
    sums = run(built(program, xb.f32[10], xb.s32[()], xb.s32[()]), v, np.int32(5), np.int32(6))
    assert [float(s) for s in sums] == [1 + 2 + 3 + 4 + 5, 1 * 2 * 3 * 4 * 5, 1 + 2 + 3 + 4 + 5 + 6]


@pytest.mark.parametrize("sizes", [(0,), (5, 4), (3, 0), (100_000,)])
def test_every_type_is_sliced_and_restored(sizes: tuple[int, ...]) -> None:
    """A smaller size does not remove elements: a larger size restores them."""
    types = ALL_TYPES if len(sizes) > 1 else [xb.f32, xb.s4, xb.c128, xb.f8e4m3fn, xb.pred]

    def program(*parameters: xb.XlaOp) -> list[xb.XlaOp]:
        *arrays, size = parameters
        results = []
        for x in arrays:
            cut = xb.set_dimension_size(x, size, len(sizes) - 1)
            results += [cut, xb.remove_dynamic_dimension(cut, len(sizes) - 1)]
        return [*results, *(xb.get_dimension_size(cut, d) for d in range(len(sizes)))]

    computation = Both(built(program, *(t[sizes] for t in types), xb.s32[()]))
    arrays = [sample(t, sizes) for t in types]
    for size in sorted({0, 1, sizes[-1] // 2, sizes[-1]}):
        if size > sizes[-1]:
            continue
        results = computation(*arrays, np.int32(size))
        for index, array in enumerate(arrays):
            assert_identical(results[2 * index], array[..., :size].copy())
            assert_identical(results[2 * index + 1], array)
        assert [int(n) for n in results[2 * len(arrays) :]] == [*sizes[:-1], size]


def test_several_dimensions_and_sizes_set_again() -> None:
    def program(x: xb.XlaOp, m: xb.XlaOp, n: xb.XlaOp) -> list[xb.XlaOp]:
        both = xb.set_dimension_size(xb.set_dimension_size(x, m, 0), n, 2)
        again = xb.set_dimension_size(both, n, 0)
        return [both, again, xb.set_dimension_size(again, 4, 0)]

    x = sample(xb.f64, (4, 2, 3))
    computation = Both(built(program, xb.f64[4, 2, 3], xb.s32[()], xb.s32[()]))
    for m, n in ((4, 3), (0, 2), (1, 0), (3, 1)):
        actual = computation(x, np.int32(m), np.int32(n))
        for array, size in zip(actual, (m, n, 4), strict=True):
            assert_identical(array, x[:size, :, :n].copy())


def test_a_size_out_of_bounds_is_clamped() -> None:
    def program(x: xb.XlaOp, n: xb.XlaOp) -> list[xb.XlaOp]:
        cut = xb.set_dimension_size(x, n, 0)
        largest = xb.get_tuple_element(xb.top_k(cut, 1), 1)
        return [cut, xb.reduce(cut, 0, xb.add, [0]), xb.get_dimension_size(cut, 0), largest]

    x = np.arange(5, dtype=np.int32)
    computation = Both(built(program, xb.s32[5], xb.s32[()]))
    for size in (-(2**31), -1, 6, 2**31 - 1):
        want = x if size > 0 else x[:0]
        cut, total, known, largest = computation(x, np.int32(size))
        assert_identical(cut, want)
        assert total == want.sum()
        assert known == len(want)
        assert largest.shape == (1,)


def test_dynamic_reshape() -> None:
    """Elements retain their order at run time."""

    def program(x: xb.XlaOp, y: xb.XlaOp) -> list[xb.XlaOp]:
        m, n = (xb.get_dimension_size(x, d) for d in (0, 1))
        return [
            xb.dynamic_reshape(x, [m * n], [20], [True]),
            xb.dynamic_reshape(x, [n, m], [4, 5], [True, True]),
            xb.dynamic_reshape(x, [1, m, n, 1], [1, 5, 4, 1], [True, True, True, False]),
            xb.reduce(xb.dynamic_reshape(x, [m * n], [20], [True]), 0, xb.add, [0]),
            xb.dynamic_reshape(y, [xb.get_dimension_size(y, 0) * 3, 2], [12, 2], [True, False]),
            xb.dynamic_reshape(y, [6, xb.get_dimension_size(y, 0)], [6, 4], [False, True]),
        ]

    computation = Both(built(program, "s16[<=5,<=4]", "c64[<=4,6]"))
    for m, n in ((5, 4), (0, 3), (2, 0), (1, 1), (3, 2)):
        x, y = sample(xb.s16, (m, n)), sample(xb.c64, (n, 6))
        actual = computation(x, y)
        want = [
            x.reshape(m * n),
            x.reshape(n, m),
            x.reshape(1, m, n, 1),
            x.sum(dtype=np.int16).reshape(()),
            y.reshape(n * 3, 2),
            y.reshape(6, n),
        ]
        for array, expected in zip(actual, want, strict=True):
            assert_identical(array, expected)


def test_a_dynamic_reshape_to_fixed_sizes() -> None:
    x = sample(xb.u8, (6,))
    program = built(lambda x: xb.dynamic_reshape(x, [2, 3], [2, 3], [False, False]), xb.u8[6])
    assert_identical(run(program, x), x.reshape(2, 3))
    assert str(lowering.lower(program)).count("stablehlo.dynamic_reshape %arg0") == 1
    assert " dynamic-reshape(%p0, " in str(program)
    scalar = built(lambda x: xb.dynamic_reshape(x, [], [], []), xb.u8[1])
    assert_identical(run(scalar, x[:1]), x[0].reshape(()))


@pytest.mark.slow
def test_dynamic_reshape_moves_every_type() -> None:
    def reshaped(x: xb.XlaOp) -> xb.XlaOp:
        cut = xb.set_dimension_size(xb.set_dimension_size(x, 2, 0), 3, 1)
        return xb.dynamic_reshape(cut, [6], [12], [True])

    arrays = [sample(t, (3, 4)) for t in ALL_TYPES]
    program = built(lambda *ops: [*map(reshaped, ops)], *(t[3, 4] for t in ALL_TYPES))
    for array, result in zip(arrays, Both(program)(*arrays), strict=True):
        assert_identical(result, array[:2, :3].reshape(6))


# Results


def test_results_have_their_sizes_nested_and_exact() -> None:
    def program(x: xb.XlaOp, n: xb.XlaOp) -> xb.XlaOp:
        cut = xb.set_dimension_size(x, n, 0)
        return xb.tuple(xb.tuple(cut, n), xb.tuple(x, xb.transpose(cut, [1, 0])), cut)

    x = (RANDOM.random((4, 3)) * 1e300).astype(np.float64)
    compiled = lowering.compile(built(program, xb.f64[4, 3], xb.s32[()]), "cpu")
    (a, n), (whole, turned), c = compiled(x, np.int32(2))
    for array, want in ((a, x[:2]), (whole, x), (turned, x[:2].T), (c, x[:2])):
        assert isinstance(array, jax.Array)
        assert array.dtype == np.float64
        assert array.shape == want.shape
        assert array.sharding == n.sharding
        assert_identical(np.asarray(array), want.copy())
    # The program accepts its results as arguments.
    again = lowering.compile(built(lambda x: x + x, "f64[<=4,3]"), "cpu")
    assert_identical(np.asarray(again(a)), x[:2] + x[:2])


@pytest.mark.parametrize("t", [xb.f64, xb.s64, xb.c128, xb.bf16, xb.s4, xb.pred], ids=str)
def test_results_are_sliced_on_other_devices(
    t: xb.PrimitiveType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The device does not share its memory with the host."""
    x = sample(t, (4, 3))
    target = Target(t[4, 3], sharding_of(lowering.device("cpu")))
    array = target.put(x)
    cut = arguments.slicing_results(lambda results: results, [(0, 0), (0, 1)], [target])
    (host,) = cut([array, np.int32(2), np.int32(7)])
    monkeypatch.setattr(arguments, "is_host", lambda device: False)
    (other,) = cut([array, np.int32(2), np.int32(7)])
    for actual in (host, other):
        assert isinstance(actual, jax.Array)
        assert_identical(np.asarray(actual), x[:2].copy())
    (whole,) = cut([array, np.int32(4), np.int32(3)])
    assert whole is array


# Parameters


def test_a_parameter_accepts_any_size_up_to_its_bounds() -> None:
    def program(x: xb.XlaOp, y: xb.XlaOp) -> list[xb.XlaOp]:
        return [
            xb.reduce(x, 0, xb.add, [0]),
            xb.reduce(x, -(2**63), xb.max, [0, 1]),
            xb.get_dimension_size(x, 0),
            y,
        ]

    computation = Both(built(program, "s64[<=5,3]", "f64[<=2,<=3]"))
    for m, n in ((5, 3), (2, 2), (0, 0), (1, 3)):
        x, y = sample(xb.s64, (m, 3)), sample(xb.f64, (min(m, 2), n))
        total, largest, size, same = computation(x, y)
        assert_identical(total, x.sum(axis=0))
        assert largest == x.max(initial=-(2**63))
        assert size == m
        assert_identical(same, y)


def test_parameters_in_tuples_by_name_and_with_a_layout() -> None:
    b = xb.XlaBuilder("nested")
    pair = b.parameter("(f32[<=4], (s32[2], u8[<=3,2]))", "pair")
    turned = b.parameter("f32[<=3,2]{0,1}", "turned")
    fixed = b.parameter(xb.f32[()], "fixed")
    inner = xb.get_tuple_element(pair, 1)
    root = xb.tuple(
        xb.get_tuple_element(pair, 0) * fixed, xb.get_tuple_element(inner, 1), xb.neg(turned)
    )
    compiled = lowering.compile(b.build(root), "cpu")
    a, c, t = sample(xb.f32, (3,)), sample(xb.u8, (1, 2)), sample(xb.f32, (2, 2))
    actual = compiled((a, (np.zeros(2, np.int32), c)), fixed=2.0, turned=t)
    for array, want in zip(actual, (a * 2, c, -t), strict=True):
        assert_identical(np.asarray(array), want)


def test_accepted_arrays() -> None:
    compiled = lowering.compile(built(xb.neg, "f32[<=4]"), "cpu")
    x = np.arange(3, dtype=np.float32)
    for given in (x, x[::-1][::-1], x.astype(">f4"), jax.numpy.asarray(x), Dlpack(x)):
        assert_identical(np.asarray(compiled(given)), -x)
    # Later writes to the argument do not change the result.
    full = np.ones(4, np.float32)
    result = compiled(full)
    full[:] = 7
    assert_identical(np.asarray(result), -np.ones(4, np.float32))


class Dlpack:
    """An object with only a ``__dlpack__`` method."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def __dlpack__(self, **_: Any) -> Any:
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


REFUSED: dict[str, tuple[Any, str]] = {
    "too large": (
        np.zeros((2, 5), np.float32),
        (
            "dynamic: argument 0 (p0) must be f32[2,<=4], got f32[2,5]\n"
            "fix: reduce dimension 1 to size 4 or less: array[:, :4]"
        ),
    ),
    "fixed size": (
        np.zeros((3, 2), np.float32),
        (
            "dynamic: argument 0 (p0) must be f32[2,<=4], got f32[3,2]\n"
            "fix: pass an array of size 2 in dimension 0"
        ),
    ),
    "rank": (
        np.zeros(4, np.float32),
        (
            "dynamic: argument 0 (p0) must be f32[2,<=4], got f32[4]\n"
            "fix: pass an array of 2 dimensions"
        ),
    ),
    "type": (
        np.zeros((2, 3)),
        (
            "dynamic: argument 0 (p0) must be f32[2,<=4], got f64[2,3]\n"
            "fix: convert it: array.astype(numpy.float32)"
        ),
    ),
    "type of a jax.Array": (
        jax.numpy.zeros((2, 3), jax.numpy.int32),
        (
            "dynamic: argument 0 (p0) must be f32[2,<=4], got s32[2,3]\n"
            "fix: convert it: array.astype(numpy.float32)"
        ),
    ),
    "number": (
        1.0,
        (
            "dynamic: argument 0 (p0) must be f32[2,<=4], got the Python number 1.0\n"
            "fix: pass a NumPy array: numpy.asarray(value, numpy.float32)"
        ),
    ),
    "None": (None, "dynamic: argument 0 (p0) must be f32[2,<=4], got None"),
    "list": (
        [[1.0], [2.0], [3.0]],
        "dynamic: argument 0 (p0) must be f32[2,<=4], got a list of sizes (3, 1)",
    ),
    "text": ("x", "dynamic: argument 0 (p0) must be f32[2,<=4], got a str"),
    "objects": (
        np.zeros((2, 3), object),
        "dynamic: argument 0 (p0) must be f32[2,<=4], got an array object[2,3]",
    ),
}


@pytest.fixture(scope="module")
def negate() -> lowering.Executable:
    return lowering.compile(built(xb.neg, "f32[2,<=4]"), "cpu")


@each_row("name", REFUSED)
def test_refused(negate: lowering.Executable, name: str) -> None:
    value, message = REFUSED[name]
    with pytest.raises(ArgumentError) as caught:
        negate(value)
    assert str(caught.value).startswith(message)


def test_a_deleted_array_is_refused(negate: lowering.Executable) -> None:
    array = jax.numpy.zeros((2, 3), jax.numpy.float32)
    array.delete()
    with pytest.raises(ArgumentError, match=r"a jax\.Array that has been deleted"):
        negate(array)


def test_bounds_that_are_too_large_to_allocate() -> None:
    with pytest.raises(CompileError) as caught:
        lowering.compile(built(lambda x: x, "s8[<=2147483648]"), "cpu")
    assert str(caught.value).startswith(
        "compile: parameter p0 of dynamic must have bounded sizes that fit an s32, "
        "got s8[<=2147483648]"
    )


def test_compiling_does_not_change_the_module() -> None:
    module = lowering.lower(built(xb.neg, "f32[<=4]"))
    before = module.bytecode
    lowering.compile(module, "cpu")
    assert module.bytecode == before
    loaded = lowering.compile(lowering.load_bytes(before), "cpu")
    assert_identical(np.asarray(loaded(np.ones(2, np.float32))), -np.ones(2, np.float32))
