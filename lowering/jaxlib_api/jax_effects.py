"""Side effects of operations that jax traces."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def side_effect() -> Any:
    """Return the effect of an operation that jax must not remove, also inside loops and branches.

    It does not order operations.
    """
    from jax._src import effects

    class SideEffect(effects.Effect):
        def __str__(self) -> str:
            return "xlabuilder side effect"

    effects.lowerable_effects.add_type(SideEffect)
    effects.control_flow_allowed_effects.add_type(SideEffect)
    return SideEffect()
