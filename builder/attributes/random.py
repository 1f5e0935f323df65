"""How random bits are made: RandomAlgorithm."""

from __future__ import annotations

from builder.attributes.fields import NamedEnum

__all__ = ["RandomAlgorithm", "RandomAlgorithmLike"]


class RandomAlgorithm(NamedEnum, op="rng_bit_generator", argument="algorithm"):
    """How `rng_bit_generator` makes bits out of its state.

    RNG_PHILOX is Philox 4x32-10 and RNG_THREE_FRY is Threefry 2x32-20, both of Salmon et al.,
    "Parallel random numbers: as easy as 1, 2, 3" (2011); RNG_DEFAULT is what the device does best,
    on a CPU the same as RNG_PHILOX.
    """

    RNG_DEFAULT = "RNG_DEFAULT"
    RNG_THREE_FRY = "RNG_THREE_FRY"
    RNG_PHILOX = "RNG_PHILOX"


RandomAlgorithmLike = RandomAlgorithm | str
"""A RandomAlgorithm or its name."""
