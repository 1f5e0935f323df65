"""The value of an argument that a call omits although it is required."""

from __future__ import annotations


class Missing:
    """The base of the values; a check refuses them, as it refuses other values."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "no argument"

    @property
    def fix(self) -> str:
        """What to write, for messages."""
        return ""
