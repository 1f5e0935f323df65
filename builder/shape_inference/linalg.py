"""Shapes of linear algebra and Fourier transforms.

Operation Semantics: Cholesky, Fft, TriangularSolve.
"""

from __future__ import annotations

from collections.abc import Sequence

from builder.attributes import FftType
from builder.check import Check
from builder.shape_inference.public import public
from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import UNBOUNDED, ArrayShape, Shape

__all__ = ["cholesky", "fft", "triangular_solve"]


def _square(check: Check, name: str) -> ArrayShape:
    """The operand called `name`: square matrices of floating-point or complex numbers."""
    array = check.array(name)
    element_type = array.element_type
    if not (element_type.is_floating or element_type.is_complex):
        check.fail(
            f"{name} must be of floating-point or complex type, got {element_type}",
            fix="convert it with xb.convert_element_type",
        )
    if array.rank < 2:
        check.fail(f"{name} must be a matrix, or a batch of them, of rank 2 or more, got {array}")
    if _differ(array.dimensions[-2], array.dimensions[-1]):
        check.fail(
            f"{name} must be square in its last two dimensions, "
            f"got {array.dimension_text(array.rank - 2)} by {array.dimension_text(array.rank - 1)}",
            dimension=array.rank - 2,
        )
    return array


def _differ(size: int, other: int) -> bool:
    return size != other and UNBOUNDED not in (size, other)


@public
def cholesky(a: Shape) -> ArrayShape:
    """Shape of the Cholesky decomposition of square matrices: their own.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.linalg.cholesky(xb.f32[7, 4, 4])
        f32[7,4,4]
    """
    array = _square(Check("cholesky", a=a), "a")
    return array.with_layout(None)


@public
def triangular_solve(a: Shape, b: Shape, left_side: bool) -> ArrayShape:
    """Shape of the solution of equations with triangular matrices: that of `b`.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.linalg.triangular_solve(xb.f32[4, 4], xb.f32[4, 2], True)
        f32[4,2]
    """
    check = Check("triangular_solve", a=a, b=b)
    check.arrays()
    check.same_element_type()
    matrix, right = _square(check, "a"), check.array("b")
    if right.rank != matrix.rank:
        check.fail(
            f"a and b must be of the same rank, got {matrix.rank} and {right.rank}",
            fix="a vector is a matrix with one column: reshape it to [n, 1]"
            if right.rank == matrix.rank - 1
            else None,
        )
    place = matrix.rank - (2 if left_side else 1)
    if _differ(matrix.dimensions[-1], right.dimensions[place]):
        rows = "rows" if left_side else "columns"
        check.fail(
            f"b must have as many {rows} as a, since left_side is {left_side}, "
            f"got {right.dimension_text(place)} and {matrix.dimension_text(matrix.rank - 1)}",
            dimension=place,
        )
    for dimension in range(matrix.rank - 2):
        if matrix.dimensions[dimension] != right.dimensions[dimension]:
            check.fail(
                f"a and b must have equal batch dimensions, got dimension {dimension} of a (size "
                f"{matrix.dimension_text(dimension)}) and of b (size "
                f"{right.dimension_text(dimension)})",
                dimension=dimension,
                fix="nothing is broadcast here; use xb.broadcast_in_dim",
            )
    return right.with_layout(None)


@public
def fft(operand: Shape, fft_type: FftType, fft_length: Sequence[int]) -> ArrayShape:
    """Shape of a Fourier transform along the last dimensions.

    From real numbers come half of the complex ones, ``length // 2 + 1`` in the last dimension, and
    from those come `length` real numbers again.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.linalg.fft(xb.f32[3, 16], xb.FftType.RFFT, [16])
        c64[3,9]
    """
    check = Check("fft", operand=operand)
    array = check.array("operand")
    count = len(fft_length)
    if not 1 <= count <= 3:
        check.fail(f"fft_length must have 1 to 3 entries, got {count}: {list(fft_length)}")
    check.sizes(fft_length, name="fft_length")
    result = _transformed_type(check, array, fft_type)
    if array.rank < count:
        check.fail(
            f"operand must have a dimension for each entry of fft_length: {count}, got {array.rank}"
        )
    if fft_type in (FftType.FFT, FftType.IFFT):
        # XLA does not look at the lengths here; `lowering` refuses to run other ones.
        return array.with_element_type(result).with_layout(None)
    length = fft_length[-1]
    half = length // 2 + 1 if length else 0
    sizes, marks = list(array.dimensions), list(array.dynamic_dimensions)
    last = array.rank - 1
    wanted = [*fft_length[:-1], length if fft_type is FftType.RFFT else half]
    if fft_type is FftType.IRFFT and not length and sizes[last] == 1:
        wanted[-1] = 1  # one element is ``0 // 2 + 1`` too
    for place, size in enumerate(wanted, array.rank - count):
        if sizes[place] != size and not (place == last and sizes[place] == UNBOUNDED):
            check.fail(
                f"dimension {place} of operand must be of size {size} for {fft_type.name} with "
                f"fft_length {list(fft_length)}, got {array.dimension_text(place)}",
                dimension=place,
            )
    if fft_type is FftType.IRFFT or length:
        # A size that was not known is said by the length.
        marks[last] = marks[last] and sizes[last] != UNBOUNDED
        sizes[last] = length if fft_type is FftType.IRFFT else half
    return check.result(result, sizes, marks)


def _transformed_type(check: Check, array: ArrayShape, fft_type: FftType) -> PrimitiveType:
    """The element type that a transform gives, of an operand whose type fits it."""
    element_type = array.element_type
    if fft_type is FftType.RFFT:
        if element_type not in (pt.f32, pt.f64):
            check.fail(
                f"operand must be of type f32 or f64 for RFFT, got {element_type}",
                fix="transform complex numbers with xb.FftType.FFT"
                if element_type.is_complex
                else "convert it with xb.convert_element_type",
            )
        return pt.c64 if element_type is pt.f32 else pt.c128
    if not element_type.is_complex:
        check.fail(
            f"operand must be of complex type for {fft_type.name}, got {element_type}",
            fix="transform real numbers with xb.FftType.RFFT"
            if fft_type is FftType.FFT
            else "make it complex with xb.convert_element_type",
        )
    return element_type.real_type if fft_type is FftType.IRFFT else element_type
