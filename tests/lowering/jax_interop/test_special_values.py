"""Elementwise ops, comparisons, conversions and sorts of special values: the bits of `compile`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from itertools import product

import jax
import numpy as np
import pytest
from jaxlib.version import __version_info__ as jaxlib_version
from support import assert_same_bits, flat

import builder as xb
import lowering
from builder.schema import SCHEMAS
from lowering.ops.elementwise import FUNCTIONS

TYPES = (xb.s4, xb.u32, xb.s64, xb.f8e5m2, xb.bf16, xb.f32, xb.f64, xb.c64, xb.pred)
OTHERS = (xb.s32, xb.u8, xb.f16, xb.f64)
"""The types to convert to."""


@pytest.fixture(autouse=True)
def x64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def special(t: xb.PrimitiveType) -> np.ndarray:
    if t is xb.pred:
        return np.array([False, True])
    if t.is_complex:
        parts = [0.0, -0.0, 1.5, -2.0, np.inf, np.nan]
        return np.array([complex(a, b) for a, b in product(parts, parts)]).astype(t.dtype)
    if t.is_integral:
        return np.array([0, 1, 2, 3, 7, 31, 100, t.max, t.max - 1, t.min, t.max // 2 + 1], t.dtype)
    info = t if t in (xb.f16, xb.f32, xb.f64) else xb.f32
    values = [0.0, -0.0, 0.5, 1.0, -1.0, 1.5, 2.5, -2.5, 3e9, -1e20, np.inf, -np.inf, np.nan]
    small = [float(np.finfo(info.dtype).tiny), 1e-3, -1e-3]
    with np.errstate(over="ignore", under="ignore"):
        return np.array([*values, *small]).astype(t.dtype)


def test_integer_division_by_constant_zero() -> None:
    """XLA's constant folding would end the process."""
    b = xb.XlaBuilder("divided")
    x = b.parameter(xb.s32[3])
    computation = b.build(xb.tuple(xb.div(x, 0), xb.rem(x, 0), xb.div(x, x - x), xb.div(x, 2)))
    values = np.array([7, -7, 0], np.int32)
    results = jax.jit(lowering.to_jax(computation))(values)
    for result, expected in zip(results, ([-1] * 3, values, [-1] * 3, [3, -3, 0]), strict=True):
        np.testing.assert_array_equal(result, expected)


def of_type(t: xb.PrimitiveType, b: xb.XlaBuilder, x: xb.XlaOp, y: xb.XlaOp) -> list[xb.XlaOp]:
    """Record all ops that take one or two arrays of a type."""
    results = []
    seen = set()
    for info in xb.OPERATIONS.values():
        schema = SCHEMAS.get(info.opcode)
        if info.opcode not in FUNCTIONS or schema is None or schema.result is None:
            continue
        operands = [x, y][: len(schema.operands.split())]
        if info.opcode in seen or not all(t in e.types for e in schema.element_types.values()):
            continue
        parameters = inspect.signature(info.function).parameters.values()
        if len([p for p in parameters if p.default is p.empty]) == len(operands):
            results.append(info.function(*operands))
            seen.add(info.opcode)
    orders = (xb.eq, xb.ne) if t.is_complex else (xb.eq, xb.ne, xb.lt, xb.le, xb.gt, xb.ge)
    results += [order(x, y) for order in orders]
    if t.is_floating:
        total = (
            *(xb.eq_total_order, xb.ne_total_order, xb.lt_total_order),
            *(xb.le_total_order, xb.gt_total_order, xb.ge_total_order),
        )
        results += [order(x, y) for order in total]
    results += [xb.convert_element_type(x, other) for other in OTHERS if not t.is_complex]
    if not t.is_complex:
        descending = xb.gt_total_order if t.is_floating else xb.gt
        least = b.constant(-np.inf if t.is_floating else t.min, t)
        results += [xb.sort(x), xb.sort(x, descending), xb.clamp(y, x, y)]
        results.append(xb.reduce(x, least, xb.max, [0]))
    if t.is_integral or t.is_floating:
        results += list(xb.top_k(x, 5))
    return results


@pytest.mark.slow
@pytest.mark.parametrize("t", TYPES, ids=str)
def test_same_bits(t: xb.PrimitiveType) -> None:
    values = special(t)
    left, right = (np.ascontiguousarray(v.reshape(-1)) for v in np.meshgrid(values, values))
    b = xb.XlaBuilder(f"special_{t}")
    x, y = b.parameter(t[left.shape]), b.parameter(t[right.shape])
    results = of_type(t, b, x, y)
    assert len(results) > 5
    computation = b.build(xb.tuple(*results))
    expected = lowering.compile(computation)(left, right)
    result = jax.jit(lowering.to_jax(computation))(left, right)
    differing = []
    for op, one, other in zip(results, flat(result), flat(expected), strict=True):
        rewritten = op.opcode in ("log_plus_one", "atanh") and t is xb.f64
        if rewritten and jaxlib_version < (0, 12):
            # `compile` rewrites them, because XLA's are inaccurate. 2 ulps: the last bits depend on
            # whether the CPU has a fused multiply-add.
            np.testing.assert_allclose(one, other, rtol=4e-16)
            continue
        if op.opcode == "atan2" and t.is_complex:
            # `compile` rewrites it, because XLA's is NaN at infinite numbers and at zeros. On
            # cuts the signs of zeros select one of two results, which differ by a multiple of pi.
            known = np.isfinite(one) & np.isfinite(left) & np.isfinite(right)
            assert known.sum() > 50
            ours, jaxs = (np.exp(2j * np.asarray(each)[known]) for each in (other, one))
            np.testing.assert_allclose(ours, jaxs, rtol=16 * float(np.finfo(t.dtype).eps))
            continue
        try:
            assert_same_bits(np.asarray(one), np.asarray(other))
        except AssertionError as error:
            differing.append(f"{op!r}: {error}")
    assert not differing
