"""Direct calls, which jaxlib executes without Python, check their arguments."""

import copy
import gc
import pickle
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax.experimental.layout import Format, Layout
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from tables import each_row

import builder as xb
import lowering
from lowering import ArgumentError
from lowering.pjrt.host_arrays import copy_numpy
from tests.lowering.common import aligned

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def sums(dtype=xb.f32, donate=None):
    builder = xb.XlaBuilder("sums")
    x, y = (builder.parameter(dtype[3, 4], name) for name in "xy")
    if donate is not None:
        builder.setup_alias((), donate, ())
    return lowering.compile(builder.build(x + y), "cpu")


@pytest.fixture(scope="module")
def run():
    """Return a program that was called with all kinds of arguments; later calls are direct."""
    made = sums()
    for _ in range(2):
        for x in kinds_of_arguments():
            for y in kinds_of_arguments():
                assert np.array_equal(made(x, y), X + X)
    return made


def put(array=X):
    return lowering.device_put(array, "cpu")


def kinds_of_arguments():
    """Return valid arguments: committed, uncommitted and sharded jax arrays, and NumPy arrays."""
    mesh = Mesh(np.array([lowering.device("cpu")]), ("one",))
    yield put()
    yield jnp.asarray(X)
    yield jax.device_put(X, NamedSharding(mesh, PartitionSpec("one")))
    yield X
    yield np.asfortranarray(X)


def deleted():
    array = put()
    array.delete()
    return array


@each_row(
    "wrong, message",
    [
        (deleted, "f32[3,4], got a jax.Array that has been deleted"),
        (lambda: put(X.astype(np.int32)), "f32[3,4], got s32[3,4]"),
        (lambda: put(X.T), "f32[3,4], got f32[4,3]"),
        (lambda: X.astype(np.float64), "f32[3,4], got f64[3,4]"),
        (lambda: X.astype(np.int32), "f32[3,4], got s32[3,4]"),
        (lambda: X.T, "f32[3,4], got f32[4,3]"),
        (lambda: np.ma.masked_array(X), "f32[3,4], got a masked array"),
        (lambda: None, "f32[3,4], got None"),
        (lambda: {1: X, "b": X}, "f32[3,4], got a dict"),
        (lambda: (put(),), "f32[3,4], got a tuple"),
        (lambda: object(), "f32[3,4], got an object"),
        (lambda: 1.0, "f32[3,4], got the Python number 1.0"),
    ],
)
def test_wrong_arguments_after_accepted_ones(run, wrong, message):
    for arguments in ((put(), wrong()), (wrong(), put()), (X, wrong()), (wrong(), X)):
        for _ in range(2):
            with pytest.raises(ArgumentError) as caught:
                run(*arguments)
            assert message in str(caught.value)
    assert np.array_equal(run(put(), put()), X + X)


def test_wrong_counts_after_accepted_arguments(run):
    for _ in range(2):
        for arguments, message in (
            ((put(),), "takes 2 arguments (x f32[3,4], y f32[3,4]), got 1"),
            ((put(), put(), X), "got 3"),
            ((X,), "got 1"),
            (((put(), put()),), "got 1"),
            ((), "got 0"),
        ):
            with pytest.raises(ArgumentError) as caught:
                run(*arguments)
            assert message in str(caught.value)
        assert np.array_equal(run(put(), y=X), X + X)
        with pytest.raises(ArgumentError, match="there is no parameter 'z'"):
            run(put(), z=X)


def test_other_devices_and_layouts(run):
    turned = jax.device_put(put(), Format(Layout((1, 0)), put().sharding))
    for _ in range(2):
        assert np.array_equal(run(turned, put()), X + X)
    if len(lowering.devices("cpu")) > 1:
        with pytest.raises(ArgumentError, match=r"must be on .*, got an array on"):
            run(put(), lowering.device_put(X, "cpu:1"))


def test_calls_in_contexts_of_jax(run):
    for _ in range(2):
        for x in kinds_of_arguments():
            with jax.enable_x64(True):
                assert np.array_equal(run(x, put()), X + X)
            with jax.disable_jit():
                assert np.array_equal(run(x, put()), X + X)
                turned = jax.device_put(put(), Format(Layout((1, 0)), put().sharding))
                assert np.array_equal(run(turned, x), X + X)
    with pytest.raises(ArgumentError, match="got a tracer of jax"):
        jax.jit(lambda x: run(x, put()))(X)

    def traced(x):
        assert np.array_equal(run(put(), X), X + X)
        return x + run(put(), put())

    assert np.array_equal(jax.jit(traced)(X), X * 3)
    jax.clear_caches()
    assert np.array_equal(run(put(), put()), X + X)


def test_nan_and_inf_checks_of_jax(run):
    twice = lowering.jit(lambda x: x + x, name="twice")
    for value, flag, word in (
        (np.nan, jax.debug_nans, "nan"),
        (np.inf, jax.debug_infs, "inf"),
    ):
        wrong = np.full_like(X, value)
        for call, name in ((lambda x: run(x, X), "sums"), (twice, "twice")):
            for x in (put(wrong), put(wrong), wrong, wrong):
                assert np.array_equal(call(x), wrong, equal_nan=True)
                with flag(True):
                    with pytest.raises(FloatingPointError, match=rf"\({word}\) .* in {name}\b"):
                        call(x)
                    assert np.all(np.isfinite(call(put())))


@pytest.mark.parametrize("flag", [False, True])
def test_64_bit_types(flag):
    run = sums(xb.f64)
    exact = X.astype(np.float64) + 1e-12
    with jax.enable_x64(flag):
        for x in (exact, put(exact)) * 2:
            result = run(x, exact)
            assert result.dtype == np.float64
            assert np.array_equal(result, exact + exact)
        with pytest.raises(ArgumentError, match=r"must be f64\[3,4\], got f32\[3,4\]"):
            run(X, exact)


def test_numpy_memory_is_not_used_afterwards(run):
    array = aligned(X)  # aligned, so that the device could share its memory
    for _ in range(3):
        result = run(array, put())
        array[:] = -1
        assert np.array_equal(result, X + X)
        array[:] = X


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.bool_])
def test_large_numpy_arrays_are_copied_to_aligned_memory(dtype: Any) -> None:
    """XLA uses the copy without another one; the caller's array may be written to or donated."""
    array = np.arange(2**21).reshape(2048, 1024).astype(dtype).T
    copied = copy_numpy([array])
    assert copied is not None
    assert copied[0].ctypes.data % 64 == 0
    assert copied[0].flags.c_contiguous
    assert not np.shares_memory(copied[0], array)
    b = xb.XlaBuilder("large")
    x = b.parameter(xb.array_shape(xb.as_primitive_type(dtype), array.shape))
    either = b.build(xb.max(x, b.parameter(x.shape)))
    for run in (lowering.compile(either), lowering.compile(either, donate=[0])):
        for _ in range(2):
            given, other = array.copy(), array.copy()
            result = run(given, other)
            given[:] = other[:] = array.max()
            assert np.array_equal(result, array)


@pytest.mark.parametrize("donated", [0, 1])
def test_donated_arguments(donated, capfd):
    run = sums(donate=donated)
    for _ in range(2):
        given = [put(), put()]
        assert np.array_equal(run(*given), X + X)
        assert [one.is_deleted() for one in given] == [donated == 0, donated == 1]
        with pytest.raises(ArgumentError, match="that has been deleted"):
            run(*given)
        both = put()
        with pytest.raises(ArgumentError, match="whose memory the program takes over"):
            run(both, both)
        assert np.array_equal(run(X, X), X + X)
    capfd.readouterr()  # jaxlib raises its own errors


def test_results_equal_those_of_the_first_call():
    for make in (lambda x: xb.tuple(x + x, x * x), lambda x: xb.tuple(x + x), lambda x: x + x):
        builder = xb.XlaBuilder("several")
        root = make(builder.parameter(xb.f32[3, 4], "x"))
        run = lowering.compile(builder.build(root), "cpu")
        first, *others = (run(put()) for _ in range(3))
        for other in others:
            assert type(other) is type(first)
            for one, two in zip(jax.tree.leaves(other), jax.tree.leaves(first), strict=True):
                assert np.array_equal(one, two)
                assert (one.aval, one.sharding, one.committed) == (
                    two.aval,
                    two.sharding,
                    two.committed,
                )


def test_executables_are_copied_and_pickled(run):
    assert copy.deepcopy({"run": run})["run"] is run
    assert copy.copy(run) is run
    with pytest.raises(
        xb.OperandError, match=r"(?s)sums can't be pickled.*fix: use executable.save"
    ):
        pickle.dumps(run)


def test_executables_are_freed_without_the_collector():
    gc.collect()
    client = lowering.device("cpu").client
    before = len(client.live_executables())
    gc.disable()
    try:
        run = sums()
        run(put(), put())
        run(X, put())
        assert len(client.live_executables()) == before + 1
        gone = weakref.ref(run)
        del run
        assert gone() is None
        assert len(client.live_executables()) == before
    finally:
        gc.enable()


def test_the_call_after_one_with_numpy_arrays_copies_first():
    made = sums()
    direct = made.__call__
    made(put(), put())
    assert made.__call__ is direct
    mine = X.copy()
    made(mine, X)
    copying = made.__call__
    assert copying is not direct
    result = made(mine, put())
    mine[:] = 0  # the program has a copy
    assert np.array_equal(result, X + X)
    assert made.__call__ is copying
    assert np.array_equal(made(y=X, x=put()), X + X)  # by name, and then with jax.Arrays
    assert made.__call__ is direct
    assert np.array_equal(copying(put(), put()), X + X)
    del made
    for y in (X, put()):
        assert np.array_equal(copying(X, y), X + X)
    assert np.array_equal(copying(put(), put()), X + X)  # without the executable


def test_wrong_arguments_after_numpy_arrays():
    made = sums()
    made(X, X)
    for wrong in [(X,), (X[:2], X), (X, X.astype(np.int32)), (None, X), (put(X[:2]), put())]:
        made(X, X)
        with pytest.raises(ArgumentError) as caught:
            made(*wrong)
        assert caught.traceback[-1].path.name == "test_direct_calls.py"


def test_jitted_functions_after_numpy_arrays():
    @lowering.jit
    def added(x, y):
        return x + y

    for x in (*kinds_of_arguments(), *kinds_of_arguments()):
        added(X, X)
        assert np.array_equal(added(x, X), X + X)
        assert np.array_equal(added(X, y=x), X + X)
        assert np.array_equal(jax.jit(added)(x, X), X + X)
    added(X, X)
    assert np.array_equal(added(X[0], X[1]), X[0] + X[1])
    b = xb.XlaBuilder()
    added(X, X)
    assert added(b.parameter(xb.f32[3, 4]), X).shape == xb.f32[3, 4]
    added.cache_clear()
    assert np.array_equal(added(X, X), X + X)
