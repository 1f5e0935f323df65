"""The algorithm of random bits: RandomAlgorithm."""

from __future__ import annotations

from typing import Literal

from builder.attributes.fields import NamedEnum


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
