"""builder.lib.matrix, compared with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from library_calls import run
from tables import each_row

import builder as xb
from builder import lib

RANDOM = np.random.default_rng(7)
DIAGONALS = (-9, -4, -3, -1, 0, 1, 2, 4, 5, 9)


def numbers(*sizes: int, dtype: Any = np.float32) -> Any:
    """Return small integers, whose products and sums are exact in all types."""
    return RANDOM.integers(-4, 5, sizes).astype(dtype)


@pytest.mark.parametrize("sizes", [(4, 5), (2, 5, 4), (2, 3, 4, 4), (3, 1), (0, 3), (2, 3, 0)])
def test_diagonals(sizes: tuple[int, ...]) -> None:
    x = RANDOM.normal(size=sizes).astype(np.float32)
    x[..., ::2] = -0.0
    length = {k: np.diagonal(x, k, -2, -1).shape[-1] for k in DIAGONALS}
    diagonals = {k: numbers(*sizes[:-2], length[k]) for k in DIAGONALS}

    def results(x: xb.XlaOp, *diagonals: xb.XlaOp) -> list[xb.XlaOp]:
        pairs = list(zip(DIAGONALS, diagonals, strict=True))
        return [
            *(lib.get_matrix_diagonal(x, k) for k in DIAGONALS),
            *(lib.get_matrix_diagonal_via_gather(x, k) for k in DIAGONALS),
            *(lib.set_matrix_diagonal(x, diagonal, k) for k, diagonal in pairs),
            *(lib.get_diagonal_mask(x, k) for k in DIAGONALS),
            *(lib.triangle_mask(x, k) for k in DIAGONALS),
        ]

    got = iter(run(results, x, *diagonals.values()))
    for k in DIAGONALS * 2:
        diagonal, expected = next(got), np.diagonal(x, k, -2, -1)
        np.testing.assert_array_equal(diagonal.view(np.int32), expected.view(np.int32))
    rows, columns = np.indices(sizes[-2:])
    for k in DIAGONALS:
        expected = x.copy()
        on_diagonal = np.broadcast_to(columns - rows == k, sizes)
        expected[on_diagonal] = diagonals[k].reshape(-1)
        np.testing.assert_array_equal(next(got), expected)
    for k in DIAGONALS:
        np.testing.assert_array_equal(next(got), np.broadcast_to(columns - rows == k, sizes))
    for k in DIAGONALS:
        np.testing.assert_array_equal(next(got), np.broadcast_to(columns - rows <= k, sizes))


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint32, np.float64, np.complex64])
def test_types(dtype: Any) -> None:
    x = numbers(2, 3, 3, dtype=dtype)
    if dtype is np.complex64:
        x = x + 1j * numbers(2, 3, 3)
    expected = [
        np.tril(x),
        np.triu(x),
        np.diagonal(x, 0, 1, 2),
        np.diagonal(x, 1, 1, 2),
        np.eye(2, 3).astype(dtype),
        x.swapaxes(1, 2),
    ]
    rows, columns = np.indices((3, 3))
    for is_taken in (rows > columns, rows < columns):
        other = np.where(rows == columns, x.real, x.swapaxes(1, 2).conj())
        expected.append(np.where(is_taken, x, other).astype(dtype))

    def results(x: xb.XlaOp) -> list[xb.XlaOp]:
        return [
            lib.lower_triangle(x),
            lib.upper_triangle(x),
            lib.get_matrix_diagonal(x),
            lib.get_matrix_diagonal_via_gather(x, 1),
            lib.eye(x.builder, 2, 3, dtype),
            lib.transpose_in_minor_dims(x),
            lib.symmetrize(x, lower=True),
            lib.symmetrize(x, lower=False),
        ]

    for got, wanted in zip(run(results, x), expected, strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)


def test_symmetrize_takes_one_triangle_only() -> None:
    x = np.array([[1 + 5j, np.nan], [2 + 3j, 4 - 6j]], np.complex64)
    expected = np.array([[1, 2 - 3j], [2 + 3j, 4]], np.complex64)
    np.testing.assert_array_equal(run(lambda x: lib.symmetrize(x, True), x), expected)


def test_dynamic_sizes() -> None:
    b = xb.XlaBuilder()
    batch, rows = b.parameter("f32[<=4,2,3]"), b.parameter("f32[4,<=6,3]")
    assert lib.get_matrix_diagonal(batch).shape == xb.parse_shape("f32[<=4,2]")
    assert lib.get_matrix_diagonal(rows).shape == xb.parse_shape("f32[4,3]")
    assert lib.get_matrix_diagonal(rows, 1).shape == xb.parse_shape("f32[4,<=2]")
    assert lib.get_matrix_diagonal_via_gather(batch, 1).shape == xb.parse_shape("f32[<=4,2]")
    assert lib.lower_triangle(rows).shape == rows.shape
    assert lib.triangle_mask(rows, 0).shape == xb.parse_shape("pred[4,6,3]")
    assert lib.batch_dot(batch, batch, transpose_y=True).shape == xb.parse_shape("f32[<=4,2,2]")
    unbounded = b.parameter("f32[?,2,3]")
    assert lib.transpose_in_minor_dims(unbounded).shape == xb.parse_shape("f32[?,3,2]")
    product = lib.batch_dot(unbounded, unbounded, transpose_x=True)
    assert product.shape == xb.parse_shape("f32[?,3,3]")
    x = numbers(5, 3)
    x[3:] = np.nan

    def diagonals(x: xb.XlaOp) -> list[xb.XlaOp]:
        """In 3 of 5 rows; by reductions, because the number of rows is bounded."""
        cut = xb.set_dimension_size(x, 3, 0)
        return [lib.get_matrix_diagonal(cut, k) for k in (0, 1, -1)]

    got = run(diagonals, x)
    np.testing.assert_array_equal(got[0], np.diagonal(x[:3]))
    np.testing.assert_array_equal(got[1][:2], np.diagonal(x[:3], 1))
    np.testing.assert_array_equal(got[2][:2], np.diagonal(x[:3], -1))


EINSUMS = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("ba,cb", (2, 3), (4, 2)),
    ("bij , bjk -> bik", (5, 2, 3), (5, 3, 4)),
    ("...ij,...jk->...ik", (5, 2, 3), (5, 3, 4)),
    ("...ij,jk->...ik", (6, 5, 2, 3), (3, 4)),
    ("...ij,...jk", (5, 2, 3), (6, 5, 3, 4)),
    ("...ij,...jk->...ik", (5, 1, 2, 3), (1, 4, 3, 2)),
    ("i...,i->...", (2, 3, 4), (2,)),
    ("a...b,...->b...a", (2, 3, 4), (3,)),
    ("ij,ij->", (2, 3), (2, 3)),
    ("ij,kl->ljki", (2, 3), (4, 5)),
    ("ii,ij->j", (3, 3), (3, 4)),
    ("iij,jk->ik", (3, 3, 4), (4, 2)),
    ("iii,i->", (3, 3, 3), (3,)),
    ("ij,kj->i", (2, 3), (4, 3)),
    ("ij,j->ij", (2, 1), (3,)),
    ("ij,jk->k", (2, 1), (3, 4)),
    ("ij,jk->ik", (0, 3), (3, 4)),
    ("ij,jk->ik", (2, 0), (0, 4)),
    ("ij->ji", (2, 3)),
    ("ba", (2, 3)),
    ("ii", (3, 3)),
    ("ii->i", (3, 3)),
    ("...ii->...", (2, 3, 3)),
    ("ijij->j", (2, 3, 2, 3)),
    ("ij->", (2, 3)),
    ("aB,Bc->", (2, 3), (3, 4)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("ij,ij,ij->ij", (2, 3), (2, 3), (2, 3)),
    ("bqhd,bkhd,bkhe->bqhe", (2, 3, 2, 4), (2, 5, 2, 4), (2, 5, 2, 3)),
    ("i,j,k->kji", (2,), (3,), (4,)),
]


def test_einsum() -> None:
    cases = [(config, [numbers(*sizes) for sizes in shapes]) for config, *shapes in EINSUMS]

    def results(*arrays: xb.XlaOp) -> list[xb.XlaOp]:
        flat = iter(arrays)
        return [lib.einsum(*[next(flat) for _ in own], config) for config, own in cases]

    got = run(results, *[array for _, own in cases for array in own])
    for result, (config, own) in zip(got, cases, strict=True):
        np.testing.assert_array_equal(result, np.einsum(config, *own), err_msg=config)


def test_einsum_that_numpy_has_not() -> None:
    x, y = numbers(2, 3), numbers(4, 2, 3)

    def results(x: xb.XlaOp, y: xb.XlaOp) -> list[xb.XlaOp]:
        return [
            lib.einsum(x, "ij->jij"),
            lib.einsum(x, y, "ij,kij->kk"),
            lib.einsum(y, "...j->j"),
            lib.einsum(x, [5, 7], y, [0, 5, 7], [7, 0]),
            lib.einsum(y, [0, 1, 2], [2]),
        ]

    got = run(results, x, y)
    expected = np.zeros((3, 2, 3))
    for i, j in np.ndindex(2, 3):
        expected[j, i, j] = x[i, j]
    np.testing.assert_array_equal(got[0], expected)
    np.testing.assert_array_equal(got[1], np.diag((x * y).sum((1, 2))))
    np.testing.assert_array_equal(got[2], y.sum((0, 1)))
    np.testing.assert_array_equal(got[3], np.einsum("ij,kij->jk", x, y))
    np.testing.assert_array_equal(got[4], y.sum((0, 1)))


def test_einsum_records_no_more_than_the_product() -> None:
    b = xb.XlaBuilder()
    x, y = b.parameter("f32[2,3]"), b.parameter("f32[3,4]")
    assert lib.einsum(x, y, "ij,jk->ik").opcode == "dot_general"
    assert lib.einsum(x, "ij->ij") is x


def test_matmul() -> None:
    """The operator @ and lib.matmul compute NumPy's matmul for all ranks."""
    sizes = [
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((3,), (3, 4)),
        ((2, 3, 3), (3, 3)),
        ((3, 3, 3), (3, 3, 3)),
        ((5, 2, 3), (3,)),
        ((3,), (5, 3, 4)),
        ((4, 1, 2, 3), (5, 3, 2)),
    ]
    pairs = [(numbers(*left), numbers(*right)) for left, right in sizes]

    def products(*operands: xb.XlaOp) -> list[xb.XlaOp]:
        both = list(zip(operands[::2], operands[1::2], strict=True))
        return [x @ y for x, y in both] + [lib.matmul(x, y) for x, y in both]

    got = run(products, *(array for pair in pairs for array in pair))
    for result, (x, y) in zip(got, pairs + pairs, strict=True):
        np.testing.assert_array_equal(result, x @ y)


@each_row("dtype", [np.float16, np.int8, np.float64, np.complex64])
def test_types_of_products(dtype: Any) -> None:
    x, y, z = numbers(2, 3, dtype=dtype), numbers(3, 2, dtype=dtype), numbers(2, dtype=dtype)
    wider = {np.float16: np.float32, np.int8: np.int32}.get(dtype, dtype)

    def results(*xyz: xb.XlaOp) -> list[xb.XlaOp]:
        x, y, z = xyz
        return [
            lib.batch_dot(x, y, "HIGHEST", wider),
            lib.batch_dot(x, y, transpose_x=True, transpose_y=True),
            lib.einsum(x, y, z, "ij,jk,k->i", precision="HIGHEST", preferred_element_type=wider),
        ]

    got = run(results, x, y, z)
    assert [each.dtype for each in got] == [wider, dtype, wider]
    np.testing.assert_array_equal(got[0], x @ y)
    np.testing.assert_array_equal(got[1], x.T @ y.T)
    np.testing.assert_array_equal(got[2], x.astype(wider) @ y.astype(wider) @ z.astype(wider))


def test_sums_of_narrow_types_are_rounded_once() -> None:
    x = np.ones((4096, 2), np.float16)
    np.testing.assert_array_equal(run(lambda x: lib.einsum(x, "ij->j"), x), [4096, 4096])


REFUSALS: list[tuple[Callable[..., Any], str]] = [
    (lambda x, y, v: lib.triangle(v, True), "triangle: x must have at least two dimensions, got f"),
    (lambda x, y, v: lib.triangle(x, 1), "triangle: lower must be True or False, got 1"),
    (lambda x, y, v: lib.get_matrix_diagonal(x, 0.5), "get_matrix_diagonal: k must be an integer"),
    (lambda x, y, v: lib.symmetrize(x, True), "symmetrize: the last two dimensions of x must have"),
    (
        lambda x, y, v: lib.set_matrix_diagonal(x, v),
        "set_matrix_diagonal: diagonal must be of shape f32[2] for diagonal 0 of f32[2,3], got",
    ),
    (lambda x, y, v: lib.batch_dot(x, v), "batch_dot: y must have at least two dimensions, got f"),
    (
        lambda x, y, v: lib.batch_dot(x, x),
        (
            "batch_dot: the columns of x must be as many as the rows of y, got 3 and 2 of f32[2,3] "
            "and f32[2,3]\nfix: write transpose_y=True"
        ),
    ),
    (
        lambda x, y, v: lib.expand_dims(x, 0) @ x,
        (
            "matmul: the columns of x must be as many as the rows of y, got 3 and 2 of f32[1,2,3] "
            "and f32[2,3]\nfix: lib.batch_dot(x, y, transpose_y=True)"
        ),
    ),
    (
        lambda x, y, v: lib.expand_dims(x, 0) @ x.builder.parameter("f32[]"),
        "matmul: an operand must not be a scalar, got f32[1,2,3] and f32[]\nfix: multiply with",
    ),
    (
        lambda x, y, v: lib.eye(x.builder, -1, 2),
        "eye: n must not be negative, got -1",
    ),
    (lambda x, y, v: lib.einsum("ij->j", x), "einsum: the labels come after the operands, got 'i"),
    (lambda x, y, v: lib.einsum(x, y), "einsum: operands and then their labels are needed, got 2"),
    (lambda x, y, v: lib.einsum("ij"), "einsum: at least one operand is needed, got none"),
    (lambda x, y, v: lib.einsum(x, 3, "ij,j"), "einsum: operand 1 must be "),
    (
        lambda x, y, v: lib.einsum(x, "ij,jk->i"),
        "einsum: 'ij,jk->i' has labels for 2 operands, got",
    ),
    (lambda x, y, v: lib.einsum(x, "ijk->i"), "einsum: operand 0 has 2 dimensions and 3 labels"),
    (lambda x, y, v: lib.einsum(x, "ijk...->i"), "einsum: operand 0 has 2 dimensions and 3 labels"),
    (lambda x, y, v: lib.einsum(x, "i->i"), "einsum: operand 0 has 2 dimensions and 1 labels"),
    (
        lambda x, y, v: lib.einsum(x, "i1->i"),
        "einsum: labels must be letters or \"...\", got '1' in",
    ),
    (
        lambda x, y, v: lib.einsum(x, "i..j->i"),
        "einsum: labels must be letters or \"...\", got '.'",
    ),
    (
        lambda x, y, v: lib.einsum(x, "......->"),
        "einsum: labels must be letters or \"...\", got '.'",
    ),
    (lambda x, y, v: lib.einsum(x, "ij->ik"), "einsum: a label of the result must be one of an op"),
    (
        lambda x, y, v: lib.einsum(x, "ii->i"),
        "einsum: the dimensions of a label must have one size",
    ),
    (
        lambda x, y, v: lib.einsum(x, v, "ij,i->j"),
        "einsum: the dimensions of a label must have one size or size 1, got 2 and 3 for label 'i'",
    ),
    (
        lambda x, y, v: lib.einsum(x, xb.convert_element_type(v, xb.f64), "ij,j->i"),
        "einsum: the operands must have one element type, got f32 and f64[3]",
    ),
    (lambda x, y, v: lib.einsum(x > x, "ij->i"), "einsum: the operands must be of numbers to sum"),
    (
        lambda x, y, v: lib.einsum(x, "ij->i", preferred_element_type=xb.f64),
        "einsum: preferred_element_type is the type of a product, got one operand",
    ),
    (lambda x, y, v: lib.einsum(x, [0], [0]), "einsum: operand 0 has 2 dimensions and 1 labels"),
    (
        lambda x, y, v: lib.get_diagonal_mask(y),
        "get_diagonal_mask: x must not have an unbounded si",
    ),
]


@each_row("call, message", REFUSALS)
def test_refusals(call: Callable[..., Any], message: str) -> None:
    b = xb.XlaBuilder()
    with pytest.raises(xb.XlaError) as caught:
        call(b.parameter("f32[2,3]"), b.parameter("f32[?,3]"), b.parameter("f32[3]"))
    assert str(caught.value).startswith(message)


def test_einsum_without_labels() -> None:
    x = xb.XlaBuilder("program").parameter(xb.f32[2, 3], "x")
    incomplete: Any = lib.einsum
    with pytest.raises(xb.XlaError) as caught:
        incomplete(x, x)
    assert 'write lib.einsum(x, y, "ab,cd->abcd"), with one letter for dimensions that are' in str(
        caught.value
    )
