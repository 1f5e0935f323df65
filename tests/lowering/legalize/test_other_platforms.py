"""The rewrites for GPUs and TPUs, run on CPU, preserve the results of the operation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import builder as xb
import lowering
from builder.types.primitive_type import PrimitiveType
from lowering.legalize import legalize, registry
from lowering.legalize.precompile_checks import check_compilable


@pytest.fixture
def apply_rewrites_of() -> Iterator[Callable[[str, str], None]]:
    """Apply the rewrites of another platform for an operation on CPU too."""
    count = len(registry.REWRITES)

    def apply(platform: str, name: str) -> None:
        found = [
            replace(one, platforms=("cpu",))
            for one in registry.REWRITES
            if name in one.names and platform in one.platforms
        ]
        assert found
        registry.REWRITES.extend(found)  # the list itself, which the lookup has

    yield apply
    del registry.REWRITES[count:]


def convolved(x: Any, kernel: Any) -> Any:
    """Convolve (batch, feature, spatial) with windows of two elements by definition."""
    rows = range(x.shape[2] - 1)
    result = [[x[:, :, n] @ kernel[:, :, 0].T + x[:, :, n + 1] @ kernel[:, :, 1].T] for n in rows]
    return np.moveaxis(np.concatenate(result), 0, 2)


@pytest.mark.parametrize("t", [xb.s4, xb.u64, xb.c64, xb.f8e3m4], ids=str)
def test_gpu_convolutions(apply_rewrites_of: Any, t: PrimitiveType) -> None:
    apply_rewrites_of("gpu", "stablehlo.convolution")
    b = xb.XlaBuilder("convolved")
    shapes = (2, 3, 4), (5, 3, 2)
    x, kernel = (b.parameter(xb.array_shape(t, sizes)) for sizes in shapes)
    program = lowering.compile(b.build(xb.conv(x, kernel, [1], "VALID")))
    random = np.random.default_rng(1)
    if not t.is_integral:
        parts = [random.integers(-3, 3, (2, *sizes)) / 2 for sizes in shapes]
        given = [(a + 1j * b if t.is_complex else a).astype(t.dtype) for a, b in parts]
        wide = np.complex128 if t.is_complex else np.float64
        want = convolved(*(one.astype(wide) for one in given)).astype(t.dtype)
        assert np.array_equal(np.asarray(program(*given)), want)
        return
    drawn = [
        random.integers(t.min, t.max, sizes, endpoint=True, dtype=np.uint64 if t is xb.u64 else int)
        for sizes in shapes
    ]
    want = convolved(*(one.astype(object) for one in drawn)) % 2**t.bits
    actual = np.asarray(program(*(one.astype(t.dtype) for one in drawn)))
    wide = actual.astype(np.uint64 if t is xb.u64 else np.int64).astype(object)
    assert np.array_equal(wide % 2**t.bits, want)


def test_tpu_windows_in_the_last_dimensions(apply_rewrites_of: Any) -> None:
    b = xb.XlaBuilder("scattered")
    x, source = b.parameter(xb.f32[4, 6]), b.parameter(xb.f32[2, 2])
    chosen = xb.select_and_scatter(x, xb.ge, [2, 3], [2, 3], xb.Padding.VALID, source, 1.0, xb.add)
    computation = b.build(chosen)
    random = np.random.default_rng(2)
    given = [random.permutation(24).reshape(4, 6), random.permutation(4).reshape(2, 2)]
    given = [one.astype(np.float32) for one in given]
    want = np.asarray(lowering.compile(computation)(*given))
    legalized = legalize(lowering.lower(computation).module, "scattered", "tpu").operation
    assert "tensor<4x6x1x1xf32>" in str(legalized)
    apply_rewrites_of("tpu", "stablehlo.select_and_scatter")
    assert np.array_equal(np.asarray(lowering.compile(computation)(*given)), want)


def test_a_loop_over_one_bounded_array() -> None:
    """XLA's compiler aborts on a state that is not a tuple, on every platform."""
    b = xb.XlaBuilder("doubled")
    x = b.parameter(xb.parse_shape("f32[<=6]"))
    total = xb.while_(lambda s: xb.lt(xb.reduce(s, 0.0, xb.add, [0]), 100.0), lambda s: s + s, x)
    program = lowering.compile(b.build(total))
    assert np.array_equal(np.asarray(program(np.ones(3, np.float32))), [64, 64, 64])


def test_gpus_sort_elements_of_4_bits_alone() -> None:
    for types, is_refused in (((xb.s4, xb.f32), True), ((xb.s4, xb.s4), False)):
        b = xb.XlaBuilder("sorted")
        root = xb.sort([b.parameter(t[5]) for t in types], lambda p, q, *_: p < q)
        module = lowering.lower(b.build(root)).module
        if is_refused:
            with pytest.raises(lowering.CompileError, match="4-bit elements together with wider"):
                check_compilable(module.operation, "sorted", "gpu")
        else:
            check_compilable(module.operation, "sorted", "gpu")
