"""What linear algebra and Fourier transforms are told: Transpose, FftType."""

from __future__ import annotations

from builder.attributes.fields import NamedEnum

__all__ = ["FftType", "FftTypeLike", "Transpose", "TransposeLike"]


class Transpose(NamedEnum, op="triangular_solve", argument="transpose_a"):
    """How `triangular_solve` takes its matrix: XLA's TriangularSolveOptions.

    NO_TRANSPOSE as it is, TRANSPOSE transposed, ADJOINT transposed and conjugated, which for real
    numbers is the same as TRANSPOSE.
    """

    NO_TRANSPOSE = "NO_TRANSPOSE"
    TRANSPOSE = "TRANSPOSE"
    ADJOINT = "ADJOINT"


TransposeLike = Transpose | str
"""A Transpose or its name."""


class FftType(NamedEnum, op="fft", argument="fft_type"):
    """Which Fourier transform `fft` computes.

    FFT from complex to complex numbers, IFFT its inverse; RFFT from real to complex numbers, of
    which it gives the first half (the others are their conjugates), IRFFT its inverse.
    """

    FFT = "FFT"
    IFFT = "IFFT"
    RFFT = "RFFT"
    IRFFT = "IRFFT"


FftTypeLike = FftType | str
"""An FftType or its name."""
