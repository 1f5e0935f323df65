"""Infer the result shapes of linear algebra ops and Fourier transforms.

Operation Semantics: Cholesky, Fft, TriangularSolve.
"""

from __future__ import annotations

from collections.abc import Sequence

from builder.attributes import FftType
from builder.check import CONVERT, Check
from builder.ops.rules.public import public
from builder.schema import SCHEMAS
from builder.schema.element_types import COMPLEX, PART_OF_COMPLEX
from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import UNBOUNDED, ArrayShape, Shape


def _square(check: Check, name: str) -> ArrayShape:
    """Check that operand `name` consists of square matrices, and return its shape."""
    array = check.array(name)
    # StableHLO cholesky (C2), (C3), triangular_solve (C2), (C3)
    if array.rank < 2:
        rule = f"{name} must be a matrix or a batch of matrices, of rank 2 or more"
        check.fail(f"{rule}, got {array}")
    rule = f"{name} must be square in its last two dimensions"
    check.equal_sizes(rule, name, array.rank - 2, name, array.rank - 1)
    return array


@public
def cholesky(a: Shape) -> ArrayShape:
    """Return the shape of the Cholesky decomposition of square matrices: the shape of the operand.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.linalg.cholesky(xb.f32[7, 4, 4])
        f32[7,4,4]
    """
    check = Check("cholesky", a=a)
    # StableHLO cholesky (I1)
    check.element_types(SCHEMAS["cholesky"].element_types, fix=CONVERT)
    return _square(check, "a").with_layout(None)


@public
def triangular_solve(a: Shape, b: Shape, left_side: bool) -> ArrayShape:
    """Return the shape of the solution of equations with triangular matrices: the shape of `b`.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.linalg.triangular_solve(xb.f32[4, 4], xb.f32[4, 2], True)
        f32[4,2]
    """
    check = Check("triangular_solve", a=a, b=b)
    _, right = check.arrays()
    # StableHLO triangular_solve (C1), (I1), (I2)
    check.same_element_type()
    check.element_types(SCHEMAS["triangular_solve"].element_types, fix=CONVERT)
    matrix = _square(check, "a")
    rank = matrix.rank
    # StableHLO triangular_solve (C2)
    if right.rank != rank:
        sizes = "[n, 1]" if left_side else "[1, n]"
        fix = None
        if right.rank == rank - 1:
            fix = f"reshape vectors in b to matrices of sizes {sizes}"
        check.fail(f"a and b must have the same rank, got {rank} and {right.rank}", fix=fix)
    # StableHLO triangular_solve (C3)
    rows, place = ("rows", rank - 2) if left_side else ("columns", rank - 1)
    rule = f"b must have as many {rows} as the square a, since left_side is {left_side}"
    check.equal_sizes(rule, "b", place, "a", rank - 1)
    for dimension in range(rank - 2):
        # Like XLA, an unbounded size equals only an unbounded one here.
        if matrix.dimensions[dimension] != right.dimensions[dimension]:
            check.fail(
                f"a and b must have equal batch dimensions, got dimension {dimension} of a (size "
                f"{matrix.dimension_text(dimension)}) and of b (size "
                f"{right.dimension_text(dimension)})",
                dimension=dimension,
                fix="broadcast the batch dimensions with xb.broadcast_in_dim",
            )
    return right.with_layout(None)


@public
def fft(operand: Shape, fft_type: FftType, fft_length: Sequence[int]) -> ArrayShape:
    """Return the shape of a Fourier transform along the last dimensions.

    RFFT returns ``length // 2 + 1`` complex numbers along the last dimension, and IRFFT returns
    `length` real numbers, where `length` is the last entry of `fft_length`.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.linalg.fft(xb.f32[3, 16], xb.FftType.RFFT, [16])
        c64[3,9]
    """
    check = Check("fft", operand=operand)
    array = check.array("operand")
    count = len(fft_length)
    # StableHLO fft (C3)
    if not 1 <= count <= 3:
        check.fail(f"fft_length must have 1 to 3 entries, got {count}: {list(fft_length)}")
    check.sizes(fft_length, name="fft_length")
    result = _transformed_type(check, array, fft_type)
    # StableHLO fft (C1)
    if array.rank < count:
        check.fail(
            f"operand must have at least one dimension for each entry of fft_length: {count}, "
            f"got {array.rank}"
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
                f"fft_length {list(fft_length)}, got {array.dimension_text(place)}",
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
        check.fail(f"{rule}, got {operand}", fix=fix)
    if fft_type is FftType.RFFT:
        return pt.c64 if operand is pt.f32 else pt.c128
    return operand.real_type if fft_type is FftType.IRFFT else operand
