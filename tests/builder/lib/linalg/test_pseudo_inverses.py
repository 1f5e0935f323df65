"""builder.lib.linalg: pinv and matrix_rank, compared with NumPy in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from library_calls import run
from matrix_cases import matrices
from tables import each_row

import builder as xb
from builder import lib


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_pinv(dtype: Any) -> None:
    rank_2 = matrices((5, 2), dtype) @ matrices((2, 4), dtype)
    given = [matrices((2, 4, 3), dtype), matrices((3, 6), dtype), rank_2, np.zeros((2, 3), dtype)]
    results = run(lambda *all: [lib.pinv(one) for one in all], *given)
    for a, result in zip(given, results, strict=True):
        wide = a.astype(np.result_type(dtype, np.float64))
        wanted = np.linalg.pinv(wide, 10 * np.finfo(dtype).eps)
        assert result.dtype == dtype
        limit = 500 * np.finfo(dtype).eps * abs(wanted).max()
        np.testing.assert_allclose(result, wanted, rtol=0, atol=limit)


def test_ranks_and_tolerances() -> None:
    q = np.linalg.qr(matrices((4, 4), np.float64))[0]
    spectra = [4.0, 3, 2, 1], [1, 1, 0, 0], [0, 0, 0, 0], [1, 1e-3, 1e-5, 1e-18]
    a = np.stack([(q * d) @ q.T for d in spectra])
    default, coarse, inverse = run(
        lambda a: [lib.matrix_rank(a), lib.matrix_rank(a, 1e-4), lib.pinv(a, rtol=0.6)], a
    )
    assert default.dtype == np.int32
    assert default.tolist() == [4, 2, 0, 3]
    assert coarse.tolist() == [4, 2, 0, 2]
    np.testing.assert_allclose(inverse, np.linalg.pinv(a, 0.6), rtol=0, atol=1e-14)


def test_empty_and_nan() -> None:
    a = matrices((2, 3, 2))
    a[0, 1, 1] = np.nan
    inverse, rank, nothing, no_rank = run(
        lambda a, b: [lib.pinv(a), lib.matrix_rank(a), lib.pinv(b), lib.matrix_rank(b)],
        *(a, np.zeros((2, 0, 3), np.float32)),
    )
    assert np.isnan(inverse[0]).all()
    assert np.isfinite(inverse[1]).all()
    assert rank.tolist() == [0, 2]
    assert nothing.shape == (2, 3, 0)
    assert no_rank.tolist() == [0, 0]


@each_row(
    "shape, rtol, message",
    [
        ("f32[3]", None, "pinv: a must have at least two dimensions, got f32[3]"),
        ("s32[3,3]", None, "pinv: a must be of floating-point or complex type, got s32[3,3]"),
        ("f32[<=3,3]", None, "pinv: a must have fixed sizes, got f32[<=3,3]"),
        ("f32[3,3]", -1.0, "pinv: rtol must be a finite number of at least 0, got -1.0"),
        ("f32[3,3]", "0", "pinv: rtol must be a finite number of at least 0, got '0'"),
    ],
)
def test_errors(shape: str, rtol: Any, message: str) -> None:
    with pytest.raises(xb.XlaError) as caught:
        lib.pinv(xb.XlaBuilder().parameter(shape), rtol)
    assert message in str(caught.value)
