"""Import of linear algebra and Fourier transforms."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy
from imported import imported_from_jax, of_text, returned
from jax import lax
from tables import each_row

import builder as xb
import lowering

RANDOM = np.random.default_rng(20250607)
REAL = RANDOM.uniform(-1, 1, (2, 4, 4)).astype(np.float32)
COMPLEX = (REAL + 1j * RANDOM.uniform(-1, 1, (2, 4, 4))).astype(np.complex64)
POSITIVE = (REAL @ REAL.transpose(0, 2, 1) + np.eye(4)).astype(np.float32)

Case = tuple[Callable[..., Any], tuple[Any, ...]]

MATRICES: dict[str, Case] = {
    "cholesky": (lax.linalg.cholesky, (POSITIVE,)),
    "triangular_solve": (
        lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True),
        (POSITIVE, REAL),
    ),
    "triangular_solve from the right, adjoint": (
        lambda a, b: lax.linalg.triangular_solve(
            a, b, transpose_a=True, conjugate_a=True, unit_diagonal=True
        ),
        (COMPLEX, COMPLEX),
    ),
}


@pytest.mark.parametrize("name", MATRICES)
def test_modules_for_other_platforms_compute_the_same(name: str) -> None:
    """On a CPU JAX lowers to calls of LAPACK, which also compute the expected results."""
    function, arguments = MATRICES[name]
    traced = jax.jit(function).trace(*arguments)
    computation = of_text(traced.lower(lowering_platforms=("tpu",)).as_text())
    assert name.split()[0] in [op.opcode for op in computation.ops]
    actual = np.asarray(lowering.compile(computation)(*arguments))
    np.testing.assert_allclose(actual, function(*arguments), rtol=1e-4, atol=1e-5)


TRANSFORMS: dict[str, Case] = {
    "fft": (jnp.fft.fft, (COMPLEX,)),
    "ifft of two dimensions": (jnp.fft.ifft2, (COMPLEX,)),
    "rfft of three dimensions": (jnp.fft.rfftn, (REAL,)),
    "irfft": (lambda x: jnp.fft.irfft(x, 6), (COMPLEX,)),
}


@each_row("name", TRANSFORMS)
def test_results_agree_with_jax(name: str) -> None:
    function, arguments = TRANSFORMS[name]
    imported_from_jax(function, *arguments)


FLOATS = (xb.f16, xb.bf16, xb.f32, xb.f64, xb.c64, xb.c128)


@each_row("element_type", FLOATS)
def test_round_trip_of_matrix_ops(element_type: xb.PrimitiveType) -> None:
    b = xb.XlaBuilder("matrices")
    a = b.parameter(xb.array_shape(element_type, [3, 4, 4]), "a")
    results = [xb.cholesky(a, lower) for lower in (False, True)]
    for left, lower, unit in itertools.product((False, True), repeat=3):
        results += [xb.triangular_solve(a, a, left, lower, unit, how) for how in xb.Transpose]
    returned(b.build(xb.tuple(*results)))


@pytest.mark.parametrize("element_type", [xb.f32, xb.f64], ids=str)
def test_round_trip_of_fourier_transforms(element_type: xb.PrimitiveType) -> None:
    b = xb.XlaBuilder("waves")
    x = b.parameter(xb.array_shape(element_type, [2, 4, 5, 6]), "x")
    results = []
    for lengths in ([6], [5, 6], [4, 5, 6]):
        half = xb.fft(x, "RFFT", lengths)
        results += [half, xb.fft(half, "IRFFT", lengths)]
        whole = xb.complex(x, x)
        results += [xb.fft(whole, kind, lengths) for kind in ("FFT", "IFFT")]
    returned(b.build(xb.tuple(*results)))


def test_cholesky_defaults_to_the_upper_triangle() -> None:
    computation = of_text("""
      func.func @main(%a: tensor<4x4xf64>) -> tensor<4x4xf64> {
        %0 = "stablehlo.cholesky"(%a) : (tensor<4x4xf64>) -> tensor<4x4xf64>
        return %0 : tensor<4x4xf64>
      }""")
    a = POSITIVE[0].astype(np.float64)
    actual = np.triu(np.asarray(lowering.compile(computation)(a)))
    np.testing.assert_allclose(actual, scipy.linalg.cholesky(a), rtol=1e-12, atol=1e-14)
