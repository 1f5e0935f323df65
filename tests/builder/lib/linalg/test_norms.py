"""builder.lib.linalg.norm, compared with NumPy in double precision."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from library_calls import run
from matrix_cases import matrices
from tables import each_row, mostly_slow

import builder as xb
import lowering
from builder import lib

VECTOR_ORDERS = None, 2, 1, 0, 3, 0.5, -1, -2.0, np.inf, -np.inf
MATRIX_ORDERS: tuple[Any, ...] = (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)


@pytest.mark.parametrize(
    "dtype", mostly_slow([np.float32, np.float64, np.complex64, np.complex128], 1)
)
def test_norms(dtype: Any) -> None:
    x = matrices((3, 4, 5), dtype)
    x[0, 0, 0] = 0
    calls: list[tuple[Any, Any, bool]] = [(None, None, False), (None, None, True)]
    calls += [(order, axis, axis == -1) for order in VECTOR_ORDERS for axis in (0, -1)]
    calls += [
        (order, axis, axis[0] == 0) for order in MATRIX_ORDERS for axis in ((0, 1), (-1, 0), (1, 2))
    ]
    results = run(lambda x: [lib.norm(x, *call) for call in calls], x)
    wide = x.astype(np.result_type(dtype, np.float64))
    for call, result in zip(calls, results, strict=True):
        with np.errstate(divide="ignore"):
            wanted = np.linalg.norm(wide, *call)
        assert result.dtype == x.real.dtype
        assert result.shape == wanted.shape
        limit = 16 * np.finfo(dtype).eps
        np.testing.assert_allclose(result, wanted, rtol=limit, atol=limit, err_msg=str(call))


def test_without_axis() -> None:
    """One or two dimensions are one vector or matrix; with no order, all elements are a vector."""
    vector, matrix, array = matrices((5,)), matrices((4, 3)), matrices((2, 3, 4))
    results = run(
        lambda *all: [lib.norm(one, order) for one, order in zip(all, (1, 1, None), strict=True)],
        *(vector, matrix, array),
    )
    wanted = np.linalg.norm(vector, 1), np.linalg.norm(matrix, 1), np.linalg.norm(array)
    np.testing.assert_allclose(results, wanted, rtol=1e-6)


def test_special_values() -> None:
    """NaN and infinity spread; norms of no elements are 0."""
    x = np.array([[1, np.nan], [np.inf, 1]], np.float32)
    orders = 1, 2, 3, np.inf
    results = run(lambda x: [lib.norm(x, order, 1) for order in orders], x)
    assert all(np.isnan(one[0]) and one[1] == np.inf for one in results)
    zeros = np.zeros((0, 2), np.float32)
    empty = run(lambda x: [lib.norm(x, order, 0) for order in orders], zeros)
    empty += run(lambda x: [lib.norm(x, order) for order in ("nuc", 2, 1)], zeros)
    assert all(np.array_equal(one, np.zeros(one.shape)) for one in empty)


def test_narrow_types() -> None:
    """Narrow floats are added in f32, and rounded once."""
    for kind in (np.float16, ml_dtypes.bfloat16):
        x = np.full(4096, 0.5, kind)
        one, two = run(lambda x: [lib.norm(x, 1), lib.norm(x)], x)
        assert one.dtype == two.dtype == kind
        assert (float(one), float(two)) == (2048, 32)


def test_bounded_sizes() -> None:
    b = xb.XlaBuilder("bounded")
    x = b.parameter("f32[<=4,<=5]")
    orders: tuple[Any, ...] = (1, -np.inf, "fro")
    program = lowering.compile(b.build(xb.tuple(*(lib.norm(x, one) for one in orders))), "cpu")
    a = matrices((3, 2))
    wanted = [np.linalg.norm(a, one) for one in orders]
    np.testing.assert_allclose([float(one) for one in program(a)], wanted, rtol=1e-5)


@each_row(
    "shape, arguments, message",
    [
        ("s32[3]", (), "norm: x must be of floating-point or complex type, got s32[3]"),
        ("f32[3,4,5]", (1,), "norm: axis must be one dimension for vectors or two for matrices"),
        (
            "f32[3,4]",
            (3,),
            "norm: ord must be one of (None, 'fro', 'nuc', 1, -1, 2, -2, inf, -inf)",
        ),
        ("f32[3,4]", ("l2",), "for matrices, got 'l2'"),
        ("f32[3]", ("fro",), "norm: ord must be None or a number for vectors, got 'fro'"),
        ("f32[3]", (float("nan"),), "norm: ord must be None or a number for vectors, got nan"),
        ("f32[3]", (True,), "norm: ord must be None, a number, 'fro' or 'nuc', got True"),
        ("f32[3]", (1, 1), "norm: axis must be a dimension"),
        ("f32[3]", (1, 0, 1), "norm: keepdims must be True or False, got 1"),
        ("f32[<=3,3]", ("nuc",), "norm: x must have fixed sizes, got f32[<=3,3]"),
        ("(f32[3])", (), "norm: x must be an array"),
    ],
)
def test_errors(shape: str, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(xb.XlaError) as caught:
        lib.norm(xb.XlaBuilder().parameter(shape), *arguments)
    assert message in str(caught.value)
