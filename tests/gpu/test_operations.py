"""Every operation on the device: its docstring example, and each family compared with NumPy."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
import scipy
from on_device import argument, assert_near, both, cpu, device, leaves, of, random_array
from scripts import load_script

import builder as xb
import lowering
from builder.types.primitive_type import ALL, PrimitiveType

pytestmark = pytest.mark.gpu

tool = load_script("tools/write_platforms.py")

TRANSFERS = {"send", "send_with_token", "recv", "recv_with_token"}
"""Transfers between two devices."""

MANUAL_SHARDS = dict.fromkeys(
    ("spmd_full_to_shard_shape", "spmd_shard_to_full_shape"),
    r"requires a program that XLA partitions, got num_partitions=1",
)
VALUES_AS_SIZES = dict.fromkeys(
    ("dynamic_gather", "dynamic_pad", "real_dynamic_slice"), r"depend on values, and XLA's .* fixed"
)
RANDOM_OPCODE = "rng"
"""The opcode whose results differ between devices."""

REFUSED = {
    "cpu": {
        **MANUAL_SHARDS,
        **VALUES_AS_SIZES,
        **dict.fromkeys(TRANSFERS, r"can't run on cpu: XLA's CPU backend does not support"),
        "send_to_host": r"can't run on cpu: XLA's CPU backend does not support",
        "recv_from_host": r"can't run on cpu: XLA's CPU backend does not support",
        "custom_call": r"no function of that name is registered for cpu",
    },
    "gpu": {
        **MANUAL_SHARDS,
        **VALUES_AS_SIZES,
        **dict.fromkeys(TRANSFERS, r"can't run on gpu: XLA requires the attribute source_target"),
        **dict.fromkeys(
            ("send_to_host", "recv_from_host"),
            r"can't run on gpu: jaxlib has no interface for the host's side of the transfer",
        ),
        **dict.fromkeys(
            ("infeed", "infeed_with_token", "outfeed", "outfeed_with_token"),
            r"can't run on gpu: jaxlib has no interface for the host's side of",
        ),
        "python_call": r"python_call.* can't run on gpu: it calls the Python function sort, and",
        "custom_call": r"no function of that name is registered for gpu",
    },
}
"""The operations that each platform refuses, and the messages."""


@pytest.mark.parametrize("name", xb.OPERATIONS)
def test_examples_agree_with_the_cpu(name: str) -> None:
    info = xb.OPERATIONS[name]
    message = REFUSED[device().platform].get(name)
    computations = [
        computation
        for computation in tool.computations_of_example(info)
        if any(op.opcode == info.opcode for op in computation.ops)
    ]
    assert computations
    for computation in computations:
        if message is not None:
            with pytest.raises(lowering.CompileError, match=message):
                lowering.compile(computation, device())
        else:
            run_on_both(computation)


def run_on_both(computation: xb.XlaComputation) -> None:
    """Run an example on the required number of devices, if available, and compare the results."""
    arguments = [
        jax.tree_util.tree_map(in_tf32, argument(p.shape, 3 * n))
        for n, p in enumerate(computation.parameters)
    ]
    count = tool.replicas_of(computation)
    results = []
    for where in (device(), cpu()):
        if count > 1 and len(devices_from(where)) < count:
            with pytest.raises(lowering.DeviceError, match=f"need {count} devices"):
                lowering.compile(computation, where, num_replicas=count)
            return
        program = lowering.compile(computation, where, num_replicas=count)
        for op in computation.ops:
            if op.opcode == "infeed":
                lowering.transfer_to_infeed(argument(op.shape.elements[0], 5), where)
        given = arguments if count == 1 else [[one] * count for one in arguments]
        try:
            results.append(jax.block_until_ready(program(*given)))
        finally:
            if where.platform == "cpu":  # no other device has queues
                lowering.clear_transfers(where)
    if any(op.opcode == RANDOM_OPCODE for op in computation.ops):
        first, second = ([(one.shape, one.dtype) for one in leaves(result)] for result in results)
        assert first == second
    else:
        assert_near(*results)


def in_tf32(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Round f32 to numbers of tf32, in which a GPU multiplies: their products are exact in f32."""
    return np.round(array * 256) / np.float32(256) if array.dtype == np.float32 else array


def devices_from(first: jax.Device) -> list[jax.Device]:
    there = jax.local_devices(backend=first.platform)
    return there[there.index(first) :]


# Types: data movement is exact, arithmetic is close to the CPU's.


@pytest.mark.parametrize("t", ALL, ids=str)
def test_data_movement_of_every_type(t: PrimitiveType) -> None:
    x = random_array(t, (4, 6))
    computation = of(
        lambda p: xb.tuple(
            xb.transpose(p, [1, 0]),
            xb.rev(p, [1]),
            xb.slice(p, [1, 0], [3, 6], [1, 2]),
            xb.reshape(p, [24]),
            xb.concatenate([p, p], 0),
            xb.broadcast_in_dim(p, [4, 2, 6], [0, 2]),
        ),
        xb.array_shape(t, (4, 6)),
    )
    results = both(computation, x)
    expected = [
        *(x.T, x[:, ::-1], x[1:3, ::2], x.reshape(24), np.concatenate([x, x])),
        np.broadcast_to(x[:, None], (4, 2, 6)),
    ]
    for actual, want in zip(results, expected, strict=True):
        assert actual.tobytes() == np.ascontiguousarray(want).tobytes()


@pytest.mark.parametrize("t", [t for t in ALL if t is not xb.pred], ids=str)
def test_arithmetic_of_every_type(t: PrimitiveType) -> None:
    functions = [xb.add, xb.mul, xb.eq]
    if not t.is_complex:
        functions += [xb.max, xb.min, xb.lt]
    shape = xb.array_shape(t, (5, 7))
    x, y = random_array(t, (5, 7), 1), random_array(t, (5, 7), 2)
    both(of(lambda p, q: xb.tuple(*(f(p, q) for f in functions)), shape, shape), x, y)


@pytest.mark.parametrize("t", [xb.bf16, xb.f16, xb.f32, xb.f64, xb.c64, xb.c128], ids=str)
def test_functions(t: PrimitiveType) -> None:
    names = ["exp", "log", "sin", "cos", "tanh", "sqrt", "rsqrt", "log1p", "expm1", "logistic"]
    names += ["tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "atanh"]
    if not t.is_complex:
        names += ["erf", "cbrt", "ceil", "floor", "sign"]
    x = random_array(t, (33,))
    results = both(of(lambda p: xb.tuple(*(getattr(xb, n)(p) for n in names)), t[33]), x)
    wide = x.astype(np.complex128 if t.is_complex else np.float64)
    assert_near(results[0], np.exp(wide).astype(t.dtype))
    assert_near(results[4], np.tanh(wide).astype(t.dtype))


def test_conversions() -> None:
    types = [t for t in ALL if not t.is_complex]
    x = random_array(xb.f32, (16,))
    both(of(lambda p: xb.tuple(*(xb.convert(p, t) for t in types)), xb.f32[16]), x)


# Families


@pytest.mark.parametrize("t", [xb.s32, xb.bf16, xb.f32, xb.f64, xb.c64], ids=str)
def test_products(t: PrimitiveType) -> None:
    x, y = random_array(t, (17, 33), 1), random_array(t, (33, 9), 2)
    # A GPU multiplies f32 in tf32 unless a higher precision is requested.
    dot = of(lambda p, q: xb.dot(p, q, xb.Precision.HIGHEST), t[17, 33], t[33, 9])
    actual = both(dot, x, y)
    wide = np.complex128 if t.is_complex else np.float64
    assert_near(actual, (x.astype(wide) @ y.astype(wide)).astype(t.dtype))


@pytest.mark.parametrize("t", [xb.f16, xb.f32, xb.f64], ids=str)
def test_convolutions(t: PrimitiveType) -> None:
    x, kernel = random_array(t, (2, 3, 9, 8), 1), random_array(t, (4, 3, 3, 2), 2)
    shapes = [t[2, 3, 9, 8], t[4, 3, 3, 2]]
    highest = xb.Precision.HIGHEST
    actual = both(
        of(lambda p, q: xb.conv(p, q, [1, 1], "VALID", precision=highest), *shapes),
        *(x, kernel),
        tolerance=1e-2 if t is xb.f16 else None,
    )
    want = sum(
        np.einsum("bihw,oi->bohw", x[:, :, i : i + 7, j : j + 7].astype(np.float64), part)
        for i in range(3)
        for j in range(2)
        for part in [kernel[:, :, i, j].astype(np.float64)]
    )
    assert_near(actual, np.asarray(want).astype(t.dtype), 1e-2 if t is xb.f16 else None)


def test_reductions_and_windows() -> None:
    x = random_array(xb.f64, (6, 10))
    total, largest, windows, running = both(
        of(
            lambda p: xb.tuple(
                xb.reduce(p, 0.0, xb.add, [1]),
                xb.reduce(p, float("-inf"), xb.max, [0]),
                xb.reduce_window(p, 0.0, xb.add, [1, 2], [1, 2], "VALID"),
                xb.reduce(p, 1.0, lambda a, b: a * b, [0, 1]),
            ),
            xb.f64[6, 10],
        ),
        x,
    )
    assert_near(total, x.sum(1))
    assert_near(largest, x.max(0))
    assert_near(windows, x.reshape(6, 5, 2).sum(2))
    assert_near(running, np.asarray(x.prod()))


def test_sorting() -> None:
    x = random_array(xb.f32, (50,))
    numbers = np.arange(50, dtype=np.int32)
    actual, places, (most, indices) = both(
        of(
            lambda p, n: xb.tuple(
                xb.sort(p),
                xb.sort([p, n], lambda a, b, _, __: xb.lt(a, b), 0, is_stable=True),
                xb.top_k(p, 5),
            ),
            *(xb.f32[50], xb.s32[50]),
        ),
        *(x, numbers),
    )
    assert np.array_equal(actual, np.sort(x))
    assert np.array_equal(places[1], np.argsort(x, kind="stable"))
    assert np.array_equal(most, np.sort(x)[::-1][:5])
    assert np.array_equal(x[indices], most)


def test_gather_scatter_and_slices() -> None:
    x, rows = random_array(xb.f32, (7, 4)), np.array([5, 0, 5], np.int32)

    numbers = xb.GatherDimensionNumbers([1], [0], [0], 1)

    def moved(p: xb.XlaOp, n: xb.XlaOp) -> xb.XlaOp:
        start = xb.reshape(xb.slice(n, [0], [1], [1]), [])
        return xb.tuple(
            xb.gather(p, n, numbers, [1, 4]),
            xb.dynamic_slice(p, [start, 1], [2, 3]),
            xb.dynamic_update_slice(p, xb.slice(p, [0, 0], [2, 2], [1, 1]), [start, 1]),
        )

    chosen, part, changed = both(of(moved, xb.f32[7, 4], xb.s32[3]), x, rows)
    assert np.array_equal(chosen, x[rows])
    assert np.array_equal(part, x[5:7, 1:4])
    want = x.copy()
    want[5:7, 1:3] = x[:2, :2]
    assert np.array_equal(changed, want)


@pytest.mark.parametrize("t", [xb.f32, xb.f64, xb.c64, xb.c128], ids=str)
def test_linear_algebra(t: PrimitiveType) -> None:
    a, right = random_array(t, (6, 6), 1), random_array(t, (6, 3), 2)
    factor, solved = both(
        of(
            lambda p, q: xb.tuple(
                xb.cholesky(p, True), xb.triangular_solve(p, q, True, True, False, "NO_TRANSPOSE")
            ),
            *(t[6, 6], t[6, 3]),
        ),
        *(a, right),
    )
    lower = np.tril(factor)
    assert_near(lower @ lower.conj().T, a, 1e-4 if t in (xb.f32, xb.c64) else 1e-12)
    want = scipy.linalg.solve_triangular(a, right, lower=True)
    assert_near(solved, np.asarray(want).astype(t.dtype), 1e-4)


@pytest.mark.parametrize("t", [xb.c64, xb.c128], ids=str)
def test_fourier_transforms(t: PrimitiveType) -> None:
    x = random_array(t, (3, 16)) + t.dtype.type(1j) * random_array(t, (3, 16), 9)
    actual = both(of(lambda p: xb.fft(p, "FFT", [16]), t[3, 16]), x)
    assert_near(actual, np.fft.fft(x).astype(t.dtype), 1e-4 if t is xb.c64 else 1e-12)


def test_normalization() -> None:
    x = random_array(xb.f32, (4, 5, 3))
    one, zero = np.ones(3, np.float32), np.zeros(3, np.float32)
    normal, mean, variance = both(
        of(
            lambda p, s, o: xb.batch_norm_training(p, s, o, 1e-3, 2),
            *(xb.f32[4, 5, 3], xb.f32[3], xb.f32[3]),
        ),
        *(x, one, zero),
    )
    wide = x.astype(np.float64)
    assert_near(mean, wide.mean((0, 1)).astype(np.float32))
    assert_near(variance, wide.var((0, 1)).astype(np.float32))
    want = (wide - wide.mean((0, 1))) / np.sqrt(wide.var((0, 1)) + 1e-3)
    assert_near(normal, want.astype(np.float32), 1e-4)


def test_control_flow() -> None:
    def steps(n: xb.XlaOp, x: xb.XlaOp) -> xb.XlaOp:
        doubled = xb.while_(lambda s: xb.lt(s, n), lambda s: s + s, x)
        return xb.tuple(
            doubled,
            xb.conditional(xb.gt(doubled, n), n, lambda v: v * 2.0, n, lambda v: v - 1.0),
        )

    actual, chosen = both(of(steps, xb.f32[()], xb.f32[()]), np.float32(100), np.float32(3))
    assert (actual, chosen) == (192, 200)


@pytest.mark.parametrize("algorithm", ["RNG_THREE_FRY", "RNG_PHILOX"])
@pytest.mark.parametrize("t", [xb.u8, xb.u32, xb.u64], ids=str)
def test_random_bits_agree_with_the_cpu(algorithm: str, t: PrimitiveType) -> None:
    state = np.array([7, 2**63 + 5], np.uint64)
    both(of(lambda s: xb.rng_bit_generator(algorithm, s, t[5, 13]), xb.u64[2]), state)


def test_random_numbers_are_in_their_range() -> None:
    b = xb.XlaBuilder("drawn")
    low, high = b.constant(np.float32(2)), b.constant(np.float32(3))
    actual = np.asarray(
        lowering.compile(b.build(xb.rng_uniform(low, high, xb.f32[1000])), device())()
    )
    assert 2 <= actual.min() < 2.1
    assert 2.9 < actual.max() < 3


@pytest.mark.parametrize("size", [0, 3, 6])
def test_bounded_sizes(size: int) -> None:
    x = random_array(xb.f32, (6,))

    def cut(p: xb.XlaOp, n: xb.XlaOp) -> xb.XlaOp:
        part = xb.set_dimension_size(p, n, 0)
        return xb.tuple(part * 2.0, xb.reduce(part, 0.0, xb.add, [0]))

    doubled, total = both(of(cut, xb.f32[6], xb.s32[()]), x, np.int32(size))
    assert np.array_equal(doubled, 2 * x[:size])
    assert_near(total, x[:size].sum(dtype=np.float32))


COLLECTIVES: dict[str, Callable[[Any], Any]] = {
    "all_reduce": lambda x: xb.all_reduce(x, xb.add),
    "cross_replica_sum": lambda x: xb.cross_replica_sum(x),
    "all_gather": lambda x: xb.all_gather(x, 0, 1),
    "reduce_scatter": lambda x: xb.reduce_scatter(x, xb.add, 0, 1),
    "all_to_all": lambda x: xb.all_to_all(x, 0, 0, 1),
    "collective_permute": lambda x: xb.collective_permute(x, [(0, 0)]),
    "collective_broadcast": lambda x: xb.collective_broadcast(x, [[0]]),
}


@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives_of_one_device_return_their_operands(name: str) -> None:
    x = random_array(xb.f32, (8,))
    assert np.array_equal(both(of(COLLECTIVES[name], xb.f32[8]), x), x)


def test_refused_names_are_operations() -> None:
    for table in REFUSED.values():
        assert set(table) <= set(xb.OPERATIONS)
        for message in table.values():
            re.compile(message)
