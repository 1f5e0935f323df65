"""Enumerations of algorithms: Transpose, FftType, RandomAlgorithm."""

from __future__ import annotations

from typing import Literal

from builder.attributes.fields import NamedEnum


class Transpose(NamedEnum, op="triangular_solve", argument="transpose_a"):
    """How `triangular_solve` uses its matrix: XLA's TriangularSolveOptions.

    NO_TRANSPOSE uses the matrix unchanged, TRANSPOSE its transpose, ADJOINT its conjugate
    transpose. For real numbers ADJOINT is the same as TRANSPOSE.
    """

    NO_TRANSPOSE = "NO_TRANSPOSE"
    TRANSPOSE = "TRANSPOSE"
    ADJOINT = "ADJOINT"


TransposeLike = Transpose | Literal["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"]
"""A Transpose or its name."""


class FftType(NamedEnum, op="fft", argument="fft_type"):
    """The Fourier transform that `fft` computes.

    FFT transforms complex to complex numbers; IFFT is its inverse. RFFT transforms real to complex
    numbers and returns the first half of the result, because the other half is its conjugate; IRFFT
    is the inverse of RFFT.
    """

    FFT = "FFT"
    IFFT = "IFFT"
    RFFT = "RFFT"
    IRFFT = "IRFFT"


FftTypeLike = FftType | Literal["FFT", "IFFT", "RFFT", "IRFFT"]
"""An FftType or its name."""


class RandomAlgorithm(NamedEnum, op="rng_bit_generator", argument="algorithm"):
    """The algorithm by which `rng_bit_generator` computes bits from its state.

    RNG_PHILOX is Philox 4x32-10 and RNG_THREE_FRY is Threefry 2x32-20, both of Salmon et al.,
    "Parallel random numbers: as easy as 1, 2, 3" (2011). RNG_DEFAULT is the algorithm that the
    device prefers; on a CPU it is RNG_PHILOX.
    """

    RNG_DEFAULT = "RNG_DEFAULT"
    RNG_THREE_FRY = "RNG_THREE_FRY"
    RNG_PHILOX = "RNG_PHILOX"


RandomAlgorithmLike = RandomAlgorithm | Literal["RNG_DEFAULT", "RNG_THREE_FRY", "RNG_PHILOX"]
"""A RandomAlgorithm or its name."""
