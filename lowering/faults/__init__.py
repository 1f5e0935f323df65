"""Find what is wrong with a program or a device: predicates for `lowering.minimize`.

A predicate is a function of a computation and an argument for each of its parameters, which returns
whether the fault occurs.
"""

from __future__ import annotations

from lowering.faults.predicates import (
    Predicate as Predicate,
    command as command,
    crashes as crashes,
    differs as differs,
    is_not_finite as is_not_finite,
)

__all__ = ["Predicate", "command", "crashes", "differs", "is_not_finite"]
