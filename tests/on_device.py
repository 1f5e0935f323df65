"""Helpers of the GPU tests: the device, arguments and comparisons."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final

import jax
import ml_dtypes
import numpy as np

import builder as xb
import lowering

VARIABLE: Final = "XLABUILDER_TEST_DEVICE"
"""The environment variable that selects another device; "cpu:1" tests the tests themselves."""


def device_name() -> str:
    return os.environ.get(VARIABLE, "gpu")


def device() -> jax.Device:
    """Return the device under test."""
    return lowering.device(device_name())


def cpu() -> jax.Device:
    """Return the device for comparison."""
    return lowering.device("cpu")


def missing() -> str | None:
    """Return the reason why the tests can't run here, or None if they can."""
    try:
        device()
    except lowering.DeviceError as error:
        first = str(error).partition("\n")[0]
        return f"{first} ({VARIABLE}=cpu:1 runs them on a second CPU device)"
    return None


def argument(shape: xb.Shape, seed: int) -> Any:
    """Return small positive numbers for a parameter, which are in the domain of every function."""
    if isinstance(shape, xb.TupleShape):
        return tuple(argument(part, seed + n) for n, part in enumerate(shape.elements))
    if not isinstance(shape, xb.ArrayShape):
        return None
    t = shape.element_type
    random = np.random.default_rng(seed)
    if t is xb.pred:
        return random.integers(0, 2, shape.dimensions).astype(bool)
    if t.is_integral:
        return np.asarray(random.integers(0, min(3, t.max), shape.dimensions)).astype(t.dtype)
    numbers = random.uniform(0.25, 0.9, shape.dimensions)
    # Symmetric positive definite, for Cholesky decompositions.
    if len(shape.dimensions) >= 2 and shape.dimensions[-1] == shape.dimensions[-2]:
        numbers = numbers + np.swapaxes(numbers, -1, -2) + 4 * np.eye(shape.dimensions[-1])
    return np.asarray(numbers).astype(t.dtype)


def leaves(value: Any) -> list[np.ndarray[Any, Any]]:
    """Return the arrays of a result, on the host."""
    return [np.asarray(one) for one in jax.tree_util.tree_leaves(value)]


def assert_near(result: Any, expected: Any, tolerance: float | None = None) -> None:
    """Compare integers exactly, and floats within some epsilons of the type, by default 64.

    The error is relative to the largest magnitude, as for sums with cancellation.
    """
    ours, theirs = leaves(result), leaves(expected)
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.shape == other.shape
        assert mine.dtype == other.dtype
        t = xb.as_primitive_type(mine.dtype)
        if t.is_integral or t is xb.pred:
            assert np.array_equal(mine, other)
            continue
        wide = np.complex128 if t.is_complex else np.float64
        a, b = mine.astype(wide), other.astype(wide)
        whole = np.isfinite(b)
        assert np.array_equal(np.isfinite(a), whole)
        assert np.array_equal(a[~whole], b[~whole], equal_nan=True)
        size = np.abs(b[whole]).max(initial=1.0)
        allowed = size * (tolerance or 64 * epsilon(t))
        assert np.abs(a[whole] - b[whole]).max(initial=0.0) <= allowed, (mine, other)


def epsilon(t: xb.PrimitiveType) -> float:
    """Return the machine epsilon of a float type, or of the parts of a complex type."""
    return float(ml_dtypes.finfo(t.real_type.dtype).eps)


def both(computation: xb.XlaComputation, *arguments: Any, tolerance: float | None = None) -> Any:
    """Return the device's results as NumPy arrays, after comparing them with the CPU's."""
    result = lowering.compile(computation, device())(*arguments)
    expected = lowering.compile(computation, cpu())(*arguments)
    for leaf in jax.tree_util.tree_leaves(result):
        assert leaf.devices() == {device()}
    assert_near(result, expected, tolerance)
    return jax.tree_util.tree_map(np.asarray, result)


def of(function: Any, *shapes: Any, name: str = "test") -> xb.XlaComputation:
    """Record a function of parameters of these shapes."""
    b = xb.XlaBuilder(name)
    return b.build(function(*(b.parameter(shape) for shape in shapes)))


def random_array(t: xb.PrimitiveType, sizes: Sequence[int], seed: int = 1) -> np.ndarray[Any, Any]:
    return np.asarray(argument(xb.array_shape(t, sizes), seed))
