"""Shapes and refusals of linear algebra and Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tables import each_row

import builder as xb
from builder import shape_inference as infer
from builder.types.primitive_type import ALL

FLOATING = [t for t in ALL if t.is_floating or t.is_complex]
NO, FFT, RFFT, IRFFT = xb.Transpose.NO_TRANSPOSE, "FFT", "RFFT", "IRFFT"


def parameters(*shapes: str) -> list[xb.XlaOp]:
    b = xb.XlaBuilder()
    return [b.parameter(shape) for shape in shapes]


@each_row("shape", ["f32[3,3]", "c128[2,0,4,4]", "f64[5,0,0]", "bf16[<=2,<=3,<=3]"])
def test_cholesky_has_the_shape_of_its_matrix(shape: str) -> None:
    (a,) = parameters(shape)
    op = xb.cholesky(a, lower=False)
    assert op.shape is a.shape
    assert op.opcode == "cholesky"
    assert dict(op.attributes) == {"lower": False}
    assert xb.cholesky(a).attributes["lower"] is True
    assert xb.cholesky(a, np.bool_(True)).attributes is xb.cholesky(a, True).attributes


@each_row("element_type", FLOATING)
def test_matrices_of_every_floating_and_complex_type(element_type: xb.PrimitiveType) -> None:
    a, b = xb.array_shape(element_type, (4, 4)), xb.array_shape(element_type, (4, 2))
    assert infer.cholesky(a) is a
    assert infer.triangular_solve(a, b, True) is b


@each_row(
    "a, b, left_side",
    [
        ("f32[4,4]", "f32[4,2]", True),
        ("f32[4,4]", "f32[2,4]", False),
        ("c64[7,2,0,0]", "c64[7,2,5,0]", False),
        ("f64[0,3,3]", "f64[0,3,9]", True),
        ("f32[<=5,3,3]", "f32[5,3,4]", True),
        ("f32[3,3]", "f32[3,<=4]", True),
        ("f32[?,?]", "f32[3,4]", False),
        ("f32[3,3]", "f32[?,?]", True),
    ],
)
def test_triangular_solve_has_the_shape_of_b(a: str, b: str, left_side: bool) -> None:
    matrix, right = parameters(a, b)
    op = xb.triangular_solve(matrix, right, left_side, True, False, NO)
    assert op.shape is right.shape
    assert op.operands == (matrix, right)
    assert dict(op.attributes) == {
        "left_side": left_side,
        "lower": True,
        "unit_diagonal": False,
        "transpose_a": NO,
    }


@each_row("transpose", xb.Transpose)
def test_transpose_by_name(transpose: xb.Transpose) -> None:
    a, b = parameters("f32[4,4]", "f32[4,2]")
    one, other = (
        xb.triangular_solve(a, b, True, False, True, t) for t in (transpose, transpose.name)
    )
    assert one.attributes is other.attributes
    assert one.attributes["transpose_a"] is transpose
    assert repr(transpose) == f"Transpose.{transpose.name}"


@each_row(
    "operand, fft_type, fft_length, result",
    [
        ("c64[8]", "FFT", [8], "c64[8]"),
        ("c128[2,3,4,5]", "IFFT", [3, 4, 5], "c128[2,3,4,5]"),
        ("c64[3,0]", "FFT", [0], "c64[3,0]"),
        # The document's two lengths with the same result shape, and the inverse.
        ("f32[16]", "RFFT", [16], "c64[9]"),
        ("f32[17]", "RFFT", [17], "c64[9]"),
        ("c64[9]", "IRFFT", [16], "f32[16]"),
        ("c64[9]", "IRFFT", [17], "f32[17]"),
        ("f64[2,6,5,6]", "RFFT", [5, 6], "c128[2,6,5,4]"),
        ("c128[2,6,5,4]", "IRFFT", [5, 7], "f64[2,6,5,7]"),
        ("f32[1]", "RFFT", [1], "c64[1]"),
        ("c64[1]", "IRFFT", [1], "f32[1]"),
        # Empty operands give empty results.
        ("f32[4,0]", "RFFT", [4, 0], "c64[4,0]"),
        ("f32[0,4]", "RFFT", [0, 4], "c64[0,3]"),
        ("c64[4,0]", "IRFFT", [4, 0], "f32[4,0]"),
        ("c64[4,1]", "IRFFT", [0], "f32[4,0]"),
        # Bounded sizes stay bounded; the length replaces an unbounded size.
        ("f32[<=3,<=8]", "RFFT", [8], "c64[<=3,<=5]"),
        ("c64[<=5]", "IRFFT", [8], "f32[<=8]"),
        ("f32[?,8]", "RFFT", [8], "c64[?,5]"),
        ("f32[?]", "RFFT", [8], "c64[5]"),
        ("f32[?]", "RFFT", [0], "c64[?]"),
        ("c64[2,?]", "IRFFT", [8], "f32[2,8]"),
        ("c64[2,?]", "IRFFT", [2, 0], "f32[2,0]"),
        ("c64[?,<=4]", "FFT", [4], "c64[?,<=4]"),
        # XlaBuilder ignores the lengths of a complex-to-complex transform.
        ("c64[8]", "FFT", [7], "c64[8]"),
        ("c64[2,1,8]", "IFFT", [0, 3, 8], "c64[2,1,8]"),
    ],
)
def test_fft_shape(operand: str, fft_type: str, fft_length: list[int], result: str) -> None:
    (x,) = parameters(operand)
    op = xb.fft(x, fft_type, fft_length)
    assert str(op.shape) == result
    assert dict(op.attributes) == {
        "fft_type": xb.FftType[fft_type],
        "fft_length": tuple(fft_length),
    }
    assert xb.fft(x, xb.FftType[fft_type], tuple(fft_length)).attributes is op.attributes


def solve(a: str, b: str, left_side: Any = True, **more: Any) -> xb.XlaOp:
    matrix, right = parameters(a, b)
    flags = {"lower": True, "unit_diagonal": False, "transpose_a": NO, **more}
    return xb.triangular_solve(matrix, right, left_side, **flags)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "cholesky: type": (
        lambda: xb.cholesky(*parameters("s32[3,3]")),
        (
            "cholesky: a must be of floating-point or complex type, got s32\n"
            "  a s32[3,3]\n"
            "fix: convert it with xb.convert_element_type"
        ),
    ),
    "cholesky: rank": (
        lambda: xb.cholesky(*parameters("f32[3]")),
        "cholesky: a must be a matrix or a batch of matrices, of rank 2 or more, got f32[3]\n",
    ),
    "cholesky: square": (
        lambda: xb.cholesky(*parameters("f32[2,3,<=4]")),
        "cholesky: a must be square in its last two dimensions, got dimension 1 of a (size 3)",
    ),
    "cholesky: tuple": (
        lambda: xb.cholesky(xb.tuple(*parameters("f32[3,3]"))),
        "cholesky: a must be an array, got a tuple",
    ),
    "cholesky: lower": (
        lambda: xb.cholesky(*parameters("f32[3,3]"), "lower"),
        "cholesky: lower must be True or False, got 'lower'",
    ),
    "cholesky: not an op": (
        lambda: xb.cholesky(np.eye(3)),
        "cholesky: a must be an XlaOp, got ndarray",
    ),
    "triangular_solve: types": (
        lambda: solve("f32[3,3]", "f64[3,3]"),
        (
            "triangular_solve: operands must have one element type, got f32, f64\n"
            "  a f32[3,3]\n"
            "  b f64[3,3]\n"
        ),
    ),
    "triangular_solve: type": (
        lambda: solve("u8[3,3]", "u8[3,3]"),
        "triangular_solve: a must be of floating-point or complex type, got u8\n",
    ),
    "triangular_solve: rank of a": (
        lambda: solve("f32[]", "f32[3,3]"),
        (
            "triangular_solve: a must be a matrix or a batch of matrices, of rank 2 or more, "
            "got f32[]\n"
        ),
    ),
    "triangular_solve: square": (
        lambda: solve("f32[3,0]", "f32[3,3]"),
        "triangular_solve: a must be square in its last two dimensions, got dimension 0 of a (",
    ),
    "triangular_solve: a vector": (
        lambda: solve("f32[3,3]", "f32[3]"),
        (
            "triangular_solve: a and b must have the same rank, got 2 and 1\n"
            "  a f32[3,3]\n"
            "  b f32[3]\n"
            "fix: reshape vectors in b to matrices of sizes [n, 1]"
        ),
    ),
    "triangular_solve: a vector on the left": (
        lambda: solve("f32[3,3]", "f32[3]", False),
        (
            "triangular_solve: a and b must have the same rank, got 2 and 1\n"
            "  a f32[3,3]\n"
            "  b f32[3]\n"
            "fix: reshape vectors in b to matrices of sizes [1, n]"
        ),
    ),
    "triangular_solve: rank": (
        lambda: solve("f32[3,3]", "f32[5,3,3]"),
        "triangular_solve: a and b must have the same rank, got 2 and 3\n",
    ),
    "triangular_solve: rows": (
        lambda: solve("f32[3,3]", "f32[4,3]"),
        "triangular_solve: b must have as many rows as the square a, since left_side is True, got",
    ),
    "triangular_solve: columns": (
        lambda: solve("f32[3,3]", "f32[3,4]", False),
        "triangular_solve: b must have as many columns as the square a, since left_side is False",
    ),
    "triangular_solve: batch": (
        lambda: solve("f32[1,2,3,3]", "f32[1,5,3,3]"),
        (
            "triangular_solve: a and b must have equal batch dimensions, "
            "got dimension 1 of a (size 2) and of b (size 5)\n"
            "  a f32[1,2,3,3]\n"
            "  b f32[1,5,3,3]\n"
            "fix: broadcast the batch dimensions with xb.broadcast_in_dim"
        ),
    ),
    "triangular_solve: unbounded batch": (
        lambda: solve("f32[?,3,3]", "f32[2,3,3]"),
        "triangular_solve: a and b must have equal batch dimensions, got dimension 0 of a (size ?)",
    ),
    "triangular_solve: left_side": (
        lambda: solve("f32[3,3]", "f32[3,3]", 1),
        "triangular_solve: left_side must be True or False, got 1",
    ),
    "triangular_solve: lower": (
        lambda: solve("f32[3,3]", "f32[3,3]", lower=None),
        "triangular_solve: lower must be True or False, got None",
    ),
    "triangular_solve: unit_diagonal": (
        lambda: solve("f32[3,3]", "f32[3,3]", unit_diagonal=0.0),
        "triangular_solve: unit_diagonal must be True or False, got 0.0",
    ),
    "triangular_solve: transpose_a": (
        lambda: solve("f32[3,3]", "f32[3,3]", transpose_a="TRANSPOSE_INVALID"),
        (
            "triangular_solve: transpose_a must be one of NO_TRANSPOSE, TRANSPOSE, ADJOINT, "
            "got 'TRANSPOSE_INVALID'\n"
            "fix: write for instance xb.Transpose.NO_TRANSPOSE or 'NO_TRANSPOSE'"
        ),
    ),
    "triangular_solve: transpose_a of another kind": (
        lambda: solve("f32[3,3]", "f32[3,3]", transpose_a=xb.FftType.FFT),
        (
            "triangular_solve: transpose_a must be one of NO_TRANSPOSE, TRANSPOSE, ADJOINT, "
            "got FftType.FFT\n"
        ),
    ),
    "fft: no length": (
        lambda: xb.fft(*parameters("c64[3]"), FFT, []),
        "fft: fft_length must have 1 to 3 entries, got 0: []\n  operand c64[3]",
    ),
    "fft: four lengths": (
        lambda: xb.fft(*parameters("c64[2,2,2,2]"), FFT, [2, 2, 2, 2]),
        "fft: fft_length must have 1 to 3 entries, got 4: [2, 2, 2, 2]\n",
    ),
    "fft: negative": (
        lambda: xb.fft(*parameters("c64[?]"), IRFFT, [-1]),
        "fft: the sizes in fft_length must not be negative, got -1 in [-1]\n",
    ),
    "fft: real": (
        lambda: xb.fft(*parameters("f32[8]"), FFT, [8]),
        (
            "fft: operand must be of complex type for FFT, got f32\n"
            "  operand f32[8]\n"
            "fix: transform real numbers with xb.FftType.RFFT"
        ),
    ),
    "fft: inverse of real": (
        lambda: xb.fft(*parameters("f64[5]"), IRFFT, [8]),
        "fft: operand must be of complex type for IRFFT, got f64\n",
    ),
    "fft: complex": (
        lambda: xb.fft(*parameters("c64[8]"), RFFT, [8]),
        (
            "fft: operand must be of f32 or f64 type for RFFT, got c64\n"
            "  operand c64[8]\n"
            "fix: transform complex numbers with xb.FftType.FFT"
        ),
    ),
    "fft: half": (
        lambda: xb.fft(*parameters("f16[8]"), RFFT, [8]),
        "fft: operand must be of f32 or f64 type for RFFT, got f16\n",
    ),
    "fft: rank": (
        lambda: xb.fft(*parameters("c64[4]"), FFT, [4, 4]),
        "fft: operand must have at least one dimension for each entry of fft_length: 2, got 1\n",
    ),
    "fft: size": (
        lambda: xb.fft(*parameters("f32[6,2,5,2]"), RFFT, [6, 5, 2]),
        "fft: dimension 1 of operand must be of size 6 for RFFT with fft_length [6, 5, 2], got 2\n",
    ),
    "fft: last size": (
        lambda: xb.fft(*parameters("f32[8]"), RFFT, [7]),
        "fft: dimension 0 of operand must be of size 7 for RFFT with fft_length [7], got 8\n",
    ),
    "fft: half of the size": (
        lambda: xb.fft(*parameters("c64[8]"), IRFFT, [8]),
        "fft: dimension 0 of operand must be of size 5 for IRFFT with fft_length [8], got 8\n",
    ),
    "fft: an unbounded size that is not the last": (
        lambda: xb.fft(*parameters("c64[?,5]"), IRFFT, [3, 8]),
        "fft: dimension 0 of operand must be of size 3 for IRFFT with fft_length [3, 8], got ?\n",
    ),
    "fft: empty operand, result not empty": (
        lambda: xb.fft(*parameters("c64[0]"), IRFFT, [1]),
        "fft: dimension 0 of operand must be of size 1 for IRFFT with fft_length [1], got 0\n",
    ),
    "fft: empty result, operand not empty": (
        lambda: xb.fft(*parameters("c64[2]"), IRFFT, [0]),
        "fft: dimension 0 of operand must be of size 0 for IRFFT with fft_length [0], got 2\n",
    ),
    "fft: too large": (
        lambda: xb.fft(*parameters("c64[2147483648,2]"), IRFFT, [2**62]),
        "fft: dimension 1 of operand must be of size 2305843009213693953 for IRFFT",
    ),
    "fft: type": (
        lambda: xb.fft(*parameters("c64[8]"), "fft", [8]),
        (
            "fft: fft_type must be one of FFT, IFFT, RFFT, IRFFT, got 'fft'\n"
            "fix: write for instance xb.FftType.FFT or 'FFT'"
        ),
    ),
    "fft: a number as length": (
        lambda: xb.fft(*parameters("c64[8]"), FFT, 8),
        "fft: fft_length must be a sequence of integers, got 8\nfix: write fft_length=[8]",
    ),
    "fft: token": (
        lambda: infer.fft(xb.TOKEN_SHAPE, xb.FftType.IFFT, [4, 7, 1]),
        "fft: operand must be an array, got a token",
    ),
}


@each_row("name", REFUSED)
def test_refused(name: str) -> None:
    call, message = REFUSED[name]
    with pytest.raises((xb.ShapeInferenceError, xb.OperandError)) as caught:
        call()
    assert str(caught.value).startswith(message)
    assert caught.value.op == name.partition(":")[0]


def test_the_result_size_of_an_unbounded_transform() -> None:
    with pytest.raises(xb.ShapeInferenceError, match="would have more than 2\\*\\*63 - 1 elements"):
        xb.fft(*parameters("c64[8,?]"), IRFFT, [2**62])


def test_a_refused_op_records_nothing() -> None:
    (a,) = parameters("f32[2,3]")
    for call in (
        lambda: xb.cholesky(a),
        lambda: xb.triangular_solve(a, a, True, True, True, "NO_TRANSPOSE"),
        lambda: xb.fft(a, "FFT", [3]),
    ):
        with pytest.raises(xb.ShapeInferenceError):
            call()
    assert len(a.builder.ops) == 1


def test_text() -> None:
    a, z = parameters("f32[2,2]", "c64[4]")
    b = a.builder
    x = xb.triangular_solve(xb.cholesky(a, False), a, True, False, False, xb.Transpose.ADJOINT)
    text = str(b.build(xb.tuple(x, xb.fft(z, "IRFFT", [6]))))
    assert "cholesky(%p0), lower=false\n" in text
    assert (
        "(%cholesky.2, %p0), left_side=true, lower=false, unit_diagonal=false, "
        "transpose_a=ADJOINT\n" in text
    )
    assert "f32[6]{0} fft(%p1), fft_type=IRFFT, fft_length={6}\n" in text
