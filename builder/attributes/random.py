"""How random bits are made: RandomAlgorithm."""

from __future__ import annotations

import enum

from builder.attributes.fields import member

__all__ = ["RandomAlgorithm", "RandomAlgorithmLike"]


class RandomAlgorithm(enum.Enum):
    """How `rng_bit_generator` makes bits out of its state.

    RNG_PHILOX is Philox 4x32-10 and RNG_THREE_FRY is Threefry 2x32-20, both of Salmon et al.,
    "Parallel random numbers: as easy as 1, 2, 3" (2011); RNG_DEFAULT is what the device does best,
    on a CPU the same as RNG_PHILOX.
    """

    RNG_DEFAULT = "RNG_DEFAULT"
    RNG_THREE_FRY = "RNG_THREE_FRY"
    RNG_PHILOX = "RNG_PHILOX"

    def __repr__(self) -> str:
        return f"RandomAlgorithm.{self.name}"

    @classmethod
    def of(cls, value: RandomAlgorithmLike) -> RandomAlgorithm:
        """`value` itself, or the member of that name.

        Raises:
            ShapeInferenceError: it is neither.
        """
        return member(cls, "rng_bit_generator", "algorithm", value)


RandomAlgorithmLike = RandomAlgorithm | str
"""A RandomAlgorithm or its name."""
