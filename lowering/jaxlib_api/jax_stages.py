"""Data of jax's jitted functions, traces and lowered functions, from private attributes of jax."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from jax._src import config as _config


def used_leaves(lowered: Any) -> list[int] | None:
    """Return the indices of the argument leaves that @main takes; None if unknown."""
    kept = getattr(_inner(lowered), "compile_args", {}).get("kept_var_idx")
    return None if kept is None else sorted(kept)


def lowered_platforms(lowered: Any) -> tuple[str, ...]:
    """Return jax's names of the platforms that a Lowered is for; empty if unknown."""
    return tuple(getattr(_inner(lowered), "_platforms", None) or ())


def _inner(lowered: Any) -> Any:
    return getattr(lowered, "_lowering", None)


def static_arguments(jitted: Any) -> tuple[frozenset[int], frozenset[str]]:
    """Return the positions and the names of the static arguments of a function of jax.jit."""
    info = getattr(jitted, "_jit_info", None)
    if info is None:
        return frozenset(), frozenset()
    return frozenset(info.static_argnums), frozenset(info.static_argnames)


def trace_context() -> Hashable:
    """Return the settings of jax that affect a trace, such as x64 and matmul precision."""
    context: Hashable = _config.trace_context()
    return context
