"""Linear algebra and Fourier transforms.

Operation Semantics: Cholesky, Fft, TriangularSolve.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from builder.attributes import FftType, FftTypeLike, Transpose, TransposeLike
from builder.checking import CONVERT, Check
from builder.graph.xla_op import XlaOp
from builder.ops.definition import op
from builder.schema.definition import (
    COMPLEX,
    FLOATING_OR_COMPLEX,
    PART_OF_COMPLEX,
    Attribute,
    CostClass,
    LargestTerm,
    Tolerance,
    define,
)
from builder.schema.equal_sizes import Pairs, SizedOp, all_equal_sizes
from builder.schema.kinds import FLAG, INTEGERS, Enumeration
from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import UNBOUNDED, ArrayShape, Shape


def _square(check: Check, name: str) -> ArrayShape:
    """Check that operand `name` consists of square matrices, and return its shape."""
    array = check.array(name)
    # StableHLO cholesky (C2), (C3), triangular_solve (C2), (C3)
    if array.rank < 2:
        rule = f"{name} must be a matrix or a batch of matrices, of rank 2 or more"
        check.fail(rule, got=array)
    rule = f"{name} must be square in its last two dimensions"
    check.equal_sizes(rule, name, array.rank - 2, name, array.rank - 1)
    return array


def _rows(op: Any) -> int:
    """Return the number of rows of the operand's matrices."""
    return int(op.operands[0].shape.dimensions[-1])


_SOLVED: Final = Tolerance(2, terms=_rows)


def _cholesky_shape(a: Shape) -> ArrayShape:
    check = Check("cholesky", a=a)
    # StableHLO cholesky (I1)
    check.element_types(CHOLESKY.element_types, fix=CONVERT)
    return _square(check, "a").with_layout(None)


def _cholesky_equal_sizes(op: SizedOp) -> Pairs:
    yield op.operands[0][-2], op.operands[0][-1]
    yield from all_equal_sizes(op)


CHOLESKY: Final = define(
    "cholesky",
    "a",
    (Attribute("lower", FLAG, absent=False),),
    element_types={"a": FLOATING_OR_COMPLEX},
    cost=CostClass.RULE,
    tolerance=_SOLVED,
    equal_sizes=_cholesky_equal_sizes,
)


@op(CHOLESKY, _cholesky_shape)
def cholesky(a: XlaOp, lower: bool = True) -> XlaOp:
    """Return the Cholesky decomposition of a positive definite matrix: a triangular matrix.

    Only one triangle of `a` is read, and the same triangle of the result is written; the other
    triangle is undefined. The result for a matrix that is not positive definite is undefined; on
    CPU all its elements are NaN.

    Args:
        a: a symmetric (for complex types, Hermitian) positive definite matrix of floating-point or
            complex type, or a batch of them: ``[..., n, n]``.
        lower: True for the lower triangle l with ``a = l l^H``, False for the upper triangle u with
            ``a = u^H u``.

    Returns:
        An array of the shape of `a`.

    Raises:
        ShapeInferenceError: `a` is not an array of square matrices, or has another type; `lower` is
            not a bool.

    Example:
        >>> import builder as xb
        >>> a = xb.XlaBuilder().parameter(xb.f32[10, 4, 4])
        >>> xb.cholesky(a, lower=True).shape
        f32[10,4,4]

    Operation Semantics: Cholesky.
    """


def _triangular_solve_shape(a: Shape, b: Shape, left_side: bool) -> ArrayShape:
    check = Check("triangular_solve", a=a, b=b)
    _, right = check.arrays()
    # StableHLO triangular_solve (C1), (I1), (I2)
    check.same_element_type()
    check.element_types(TRIANGULAR_SOLVE.element_types, fix=CONVERT)
    matrix = _square(check, "a")
    rank = matrix.rank
    # StableHLO triangular_solve (C2)
    if right.rank != rank:
        sizes = "[n, 1]" if left_side else "[1, n]"
        fix = None
        if right.rank == rank - 1:
            fix = f"reshape vectors in b to matrices of sizes {sizes}"
        check.fail("a and b must have the same rank", got=f"{rank} and {right.rank}", fix=fix)
    # StableHLO triangular_solve (C3)
    rows, place = ("rows", rank - 2) if left_side else ("columns", rank - 1)
    rule = f"b must have as many {rows} as the square a, since left_side is {left_side}"
    check.equal_sizes(rule, "b", place, "a", rank - 1)
    for dimension in range(rank - 2):
        # Like XLA, an unbounded size equals only an unbounded one here.
        if matrix.dimensions[dimension] != right.dimensions[dimension]:
            check.fail(
                "a and b must have equal batch dimensions",
                got=f"dimension {dimension} of a (size "
                f"{matrix.dimension_text(dimension)}) and of b (size "
                f"{right.dimension_text(dimension)})",
                dimension=dimension,
                fix="broadcast the batch dimensions with xb.broadcast_in_dim",
            )
    return right.with_layout(None)


def _triangular_solve_equal_sizes(op: SizedOp) -> Pairs:
    a, b = op.operands
    yield a[-2], a[-1]
    yield a[-1], b[-2 if op.attributes["left_side"] else -1]
    yield from zip(a[:-2], b[:-2], strict=True)
    yield from zip(b, op.results[0], strict=True)


TRIANGULAR_SOLVE: Final = define(
    "triangular_solve",
    "a b",
    (
        Attribute("left_side", FLAG),
        Attribute("lower", FLAG),
        Attribute("unit_diagonal", FLAG),
        Attribute("transpose_a", Enumeration("transpose", Transpose)),
    ),
    element_types={"a": FLOATING_OR_COMPLEX, "b": FLOATING_OR_COMPLEX},
    cost=CostClass.RULE,
    tolerance=_SOLVED,
    equal_sizes=_triangular_solve_equal_sizes,
)


@op(TRIANGULAR_SOLVE, _triangular_solve_shape)
def triangular_solve(
    a: XlaOp,
    b: XlaOp,
    left_side: bool,
    lower: bool,
    unit_diagonal: bool,
    transpose_a: TransposeLike,
) -> XlaOp:
    """Solve ``op(a) x = b`` or ``x op(a) = b`` for x, where `a` is a triangular matrix.

    Only one triangle of `a` is read.

    Args:
        a: a matrix of floating-point or complex type, or a batch of them: ``[..., m, m]``.
        b: an array of the same type and batch dimensions: ``[..., m, k]`` if `left_side`, else
            ``[..., k, m]``.
        left_side: True to solve ``op(a) x = b``, False to solve ``x op(a) = b``.
        lower: True to read the lower triangle of `a`, False to read the upper one.
        unit_diagonal: True to assume that the diagonal of `a` is 1, without reading it.
        transpose_a: a Transpose or its name: whether op(a) is `a`, its transpose or its conjugate
            transpose.

    Returns:
        An array of the shape of `b`.

    Raises:
        ShapeInferenceError: `a` is not an array of square matrices, or has another type; `b` has
            another type, rank or sizes; a flag is not a bool; `transpose_a` is not a Transpose.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder()
        >>> a, b = x.parameter(xb.f32[4, 4]), x.parameter(xb.f32[4, 2])
        >>> xb.triangular_solve(a, b, True, True, False, xb.Transpose.NO_TRANSPOSE).shape
        f32[4,2]

    Operation Semantics: TriangularSolve.
    """


def _fft_shape(operand: Shape, fft_type: FftType, fft_length: Sequence[int]) -> ArrayShape:
    check = Check("fft", operand=operand)
    array = check.array("operand")
    count = len(fft_length)
    # StableHLO fft (C3)
    if not 1 <= count <= 3:
        check.fail("fft_length must have 1 to 3 entries", got=f"{count}: {list(fft_length)}")
    check.sizes(fft_length, name="fft_length")
    result = _transformed_type(check, array, fft_type)
    # StableHLO fft (C1)
    if array.rank < count:
        check.fail(
            f"operand must have at least one dimension for each entry of fft_length: {count}",
            got=array.rank,
        )
    if fft_type in (FftType.FFT, FftType.IFFT):
        # XLA infers the shape without the lengths; `lowering` refuses to run wrong ones.
        return array.with_element_type(result).with_layout(None)
    length = fft_length[-1]
    half = length // 2 + 1 if length else 0
    sizes, dynamic = list(array.dimensions), list(array.dynamic_dimensions)
    last = array.rank - 1
    expected = [*fft_length[:-1], length if fft_type is FftType.RFFT else half]
    if fft_type is FftType.IRFFT and not length and sizes[last] == 1:
        expected[-1] = 1  # ``0 // 2 + 1``, which XLA accepts too
    # StableHLO fft (C4), (C5)
    for place, size in enumerate(expected, array.rank - count):
        if sizes[place] != size and not (place == last and sizes[place] == UNBOUNDED):
            check.fail(
                f"dimension {place} of operand must be of size {size} for {fft_type.name} with "
                f"fft_length {list(fft_length)}",
                got=array.dimension_text(place),
                dimension=place,
            )
    if fft_type is FftType.IRFFT or length:
        # An unbounded size becomes known from the length.
        dynamic[last] = dynamic[last] and sizes[last] != UNBOUNDED
        sizes[last] = length if fft_type is FftType.IRFFT else half
    return check.result(result, sizes, dynamic)


def _transformed_type(check: Check, array: ArrayShape, fft_type: FftType) -> PrimitiveType:
    """Check the element type of the operand; return the element type of the result."""
    operand = array.element_type
    allowed, fix = COMPLEX, CONVERT
    if fft_type is FftType.RFFT:
        allowed = PART_OF_COMPLEX
        fix = "transform complex numbers with xb.FftType.FFT" if operand.is_complex else CONVERT
    elif fft_type is FftType.FFT:
        fix = "transform real numbers with xb.FftType.RFFT"
    # StableHLO fft (C2)
    if operand not in allowed.types:
        rule = f"operand must be of {allowed.text} type for {fft_type.name}"
        check.fail(rule, got=operand, fix=fix)
    if fft_type is FftType.RFFT:
        return pt.c64 if operand is pt.f32 else pt.c128
    return operand.real_type if fft_type is FftType.IRFFT else operand


def _stages(op: Any) -> int:
    """Return the number of additions per element of the result of a fast Fourier transform."""
    return int(math.prod(op.attributes["fft_length"])).bit_length()


def _fft_equal_sizes(op: SizedOp) -> Pairs:
    kept = len(op.results[0]) - len(op.attributes["fft_length"])
    return zip(op.operands[0][:kept], op.results[0][:kept], strict=True)


FFT: Final = define(
    "fft",
    "operand",
    (Attribute("fft_type", Enumeration("fft_type", FftType)), Attribute("fft_length", INTEGERS)),
    cost=CostClass.RULE,
    # The norm of the result is that of the operand, apart from a factor.
    tolerance=Tolerance(2, terms=_stages, largest_term=LargestTerm.RESULT),
    equal_sizes=_fft_equal_sizes,
)


@op(FFT, _fft_shape)
def fft(operand: XlaOp, fft_type: FftTypeLike, fft_length: Sequence[int]) -> XlaOp:
    """Return the Fourier transform along the last one, two or three dimensions.

    A transform along several dimensions transforms each of them. If it converts between real and
    complex numbers, the conversion is along the last dimension; the others are complex to complex.
    Inverse transforms are divided by the number of elements.

    Args:
        operand: an array; complex for FFT, IFFT and IRFFT, f32 or f64 for RFFT.
        fft_type: an FftType or its name.
        fft_length: the size of each transformed dimension before the transform. For the last
            dimension of IRFFT, whose input has ``length // 2 + 1`` elements, the size after
            the transform.

    Returns:
        An array of the operand's sizes. RFFT returns complex numbers, ``length // 2 + 1`` in the
        last dimension; IRFFT returns real numbers, `length` in the last dimension. The last
        dimension is empty if `length` is 0.

    Raises:
        ShapeInferenceError: `fft_length` does not have 1 to 3 entries, or has more entries than the
            operand has dimensions; a length is negative; sizes do not match RFFT or IRFFT; the
            element type is not supported.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[3, 16])
        >>> y = xb.fft(x, xb.FftType.RFFT, [16])
        >>> y.shape, xb.fft(y, "IRFFT", [16]).shape, xb.fft(y, "FFT", [3, 9]).shape
        (c64[3,9], f32[3,16], c64[3,9])

    Operation Semantics: Fft.
    """
