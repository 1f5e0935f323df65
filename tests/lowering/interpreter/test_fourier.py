"""Fourier transforms on the reference interpreter, compared with NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support import parameter_like

import builder as xb
import lowering

KINDS: dict[str, Callable[..., Any]] = {
    "FFT": np.fft.fftn,
    "IFFT": np.fft.ifftn,
    "RFFT": np.fft.rfftn,
    "IRFFT": np.fft.irfftn,
}


def operand(kind: str, sizes: tuple[int, ...], is_double: bool) -> np.ndarray[Any, Any]:
    """Random numbers of the operand's type; `sizes` are those of the real array, if there is one.

    The last dimension of IRFFT's operand is shorter.
    """
    rng = np.random.default_rng(sum(sizes))
    if kind == "IRFFT":
        sizes = (*sizes[:-1], sizes[-1] // 2 + 1)
    real = rng.standard_normal(sizes)
    if kind == "RFFT":
        return real.astype(np.float64 if is_double else np.float32)
    numbers = real + 1j * rng.standard_normal(sizes)
    return numbers.astype(np.complex128 if is_double else np.complex64)


@pytest.mark.slow
@pytest.mark.parametrize("is_double", [False, True], ids=["c64", "c128"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("sizes", "count"),
    [((1,), 1), ((8,), 1), ((2, 30), 1), ((31,), 1), ((2, 6, 5), 2), ((4, 3, 10), 3), ((512,), 1)],
    ids=str,
)
def test_transforms(kind: str, sizes: tuple[int, ...], count: int, is_double: bool) -> None:
    x = operand(kind, sizes, is_double)
    lengths = sizes[-count:]
    b = xb.XlaBuilder("transform")
    got = lowering.interpret(b.build(xb.fft(parameter_like(b, x), kind, lengths)), x)
    wide = x.astype(np.result_type(x.dtype, np.float64))  # NumPy transforms c64 in c64
    expected = KINDS[kind](wide, lengths, axes=tuple(range(len(sizes) - count, len(sizes))))
    assert got.shape == expected.shape
    error = np.abs(got - expected).max() / np.abs(expected).max()
    assert error < (1e-14 if is_double else 1.2e-7)


def test_a_transform_of_nothing() -> None:
    c = xb.computation(xb.c64[0, 4])(lambda x: xb.fft(x, "FFT", [4]))
    assert lowering.interpret(c, np.zeros((0, 4), np.complex64)).shape == (0, 4)
