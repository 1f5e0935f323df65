"""What linear algebra and Fourier transforms are told: Transpose, FftType."""

from __future__ import annotations

import enum

from builder.attributes.fields import member

__all__ = ["FftType", "FftTypeLike", "Transpose", "TransposeLike"]


class Transpose(enum.Enum):
    """How `triangular_solve` takes its matrix: XLA's TriangularSolveOptions.

    NO_TRANSPOSE as it is, TRANSPOSE transposed, ADJOINT transposed and conjugated, which for real
    numbers is the same as TRANSPOSE.
    """

    NO_TRANSPOSE = "NO_TRANSPOSE"
    TRANSPOSE = "TRANSPOSE"
    ADJOINT = "ADJOINT"

    def __repr__(self) -> str:
        return f"Transpose.{self.name}"

    @classmethod
    def of(cls, value: TransposeLike) -> Transpose:
        """`value` itself, or the member of that name.

        Raises:
            ShapeInferenceError: it is neither.
        """
        return member(cls, "triangular_solve", "transpose_a", value)


TransposeLike = Transpose | str
"""A Transpose or its name."""


class FftType(enum.Enum):
    """Which Fourier transform `fft` computes.

    FFT from complex to complex numbers, IFFT its inverse; RFFT from real to complex numbers, of
    which it gives the first half (the others are their conjugates), IRFFT its inverse.
    """

    FFT = "FFT"
    IFFT = "IFFT"
    RFFT = "RFFT"
    IRFFT = "IRFFT"

    def __repr__(self) -> str:
        return f"FftType.{self.name}"

    @classmethod
    def of(cls, value: FftTypeLike) -> FftType:
        """`value` itself, or the member of that name.

        Raises:
            ShapeInferenceError: it is neither.
        """
        return member(cls, "fft", "fft_type", value)


FftTypeLike = FftType | str
"""An FftType or its name."""
