"""Data of a jax.stages.Lowered besides its module, from private attributes of jax."""

from __future__ import annotations

from typing import Any


def used_leaves(lowered: Any) -> list[int] | None:
    """Return the indices of the argument leaves that @main takes; None if unknown."""
    kept = getattr(_inner(lowered), "compile_args", {}).get("kept_var_idx")
    return None if kept is None else sorted(kept)


def lowered_platforms(lowered: Any) -> tuple[str, ...]:
    """Return jax's names of the platforms that a Lowered is for; empty if unknown."""
    return tuple(getattr(_inner(lowered), "_platforms", None) or ())


def _inner(lowered: Any) -> Any:
    return getattr(lowered, "_lowering", None)
