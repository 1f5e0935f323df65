"""What the attribute bundles share."""

from __future__ import annotations

from typing import Any

__all__ = ["set_integers"]


def set_integers(bundle: Any, op: str, *names: str) -> None:
    """Makes tuples of ints of the named fields of a frozen dataclass."""
    from builder.shape_inference.check import integers  # inference builds on this module

    for name in names:
        object.__setattr__(bundle, name, integers(op, name, getattr(bundle, name)))
