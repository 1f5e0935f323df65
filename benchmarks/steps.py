"""The steps that are measured, in the order of the tables.

A contender runs its steps one after another, each with the result of the one before. A step has an
entry here, and a line in the contender's function in `benchmarks/contenders.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

__all__ = ["CONTENDERS", "RATIOS", "STEPS", "SUMS", "Step", "medians", "ratios_of", "shared_part"]


class Step(NamedTuple):
    """A step that is measured.

    Attributes:
        contender: a key of CONTENDERS.
        title: its name in tables.
        large: whether it is measured at all sizes, up to a million ops.

    "data" is measured only for graphs with large constants.
    """

    contender: str
    title: str
    large: bool


CONTENDERS: Final = {
    "ours": "xlabuilder",
    "jax": "jax.jit",
    "floor": "MLIR alone",
    "objects": "Python alone",
    "xla_builder": "C++ XlaBuilder",
}

STEPS: Final = {
    "record": Step("ours", "record", large=True),
    "record_uncollected": Step("ours", "record, collector off", large=True),
    "lower": Step("ours", "lower, verified", large=True),
    "verify": Step("ours", "verify alone", large=False),
    "bytecode": Step("ours", "bytecode", large=True),
    "artifact": Step("ours", "portable artifact", large=False),
    "import": Step("ours", "import", large=True),
    "hlo_text": Step("ours", "HLO text", large=False),
    "jax_trace": Step("jax", "trace", large=True),
    "jax_lower": Step("jax", "lower", large=True),
    "floor_create": Step("floor", "create", large=True),
    "floor_verify": Step("floor", "verify", large=True),
    "read": Step("floor", "read the bytecode", large=True),
    "write": Step("floor", "write bytecode", large=False),
    "data": Step("floor", "copy the constants", large=False),
    "parse": Step("floor", "parse the text", large=False),
    "objects": Step("objects", "make as many objects", large=True),
    "collector": Step("objects", "of these, the collector", large=True),
    "xla_builder_record": Step("xla_builder", "record", large=True),
    "xla_builder_convert": Step("xla_builder", "convert to MLIR", large=True),
}

SUMS: Final = {
    "ours": ("record", "lower"),
    "jax": ("jax_trace", "jax_lower"),
    "floor": ("floor_create", "floor_verify"),
    "xla_builder": ("xla_builder_record", "xla_builder_convert"),
}
"""The steps of each contender up to a verified module. (The floor has nothing to record.)"""

RATIOS: Final = (
    ("ours", "jax"),
    ("ours", "xla_builder"),
    ("record", "jax_trace"),
    ("record", "xla_builder_record"),
    ("record", "floor"),
    ("lower", "jax_lower"),
    ("lower", "floor"),
    ("bytecode", "floor"),
    ("artifact", "floor"),
    ("hlo_text", "floor"),
    ("import", "floor"),
)
"""Pairs of dividend and divisor. A larger ratio means a slower xlabuilder. No divisor is one of its
own times, since an improvement of that time would look like a loss."""


def medians(entry: Mapping[str, Any]) -> dict[str, float]:
    """Return the median microseconds per op of each step and contender in an entry of figures."""
    return _with_sums({step: values["median"] for step, values in entry["us"].items()})


def _with_sums(times: Mapping[str, float]) -> dict[str, float]:
    """Add the total of each contender whose steps were all measured."""
    totals = {
        contender: sum(times[step] for step in steps)
        for contender, steps in SUMS.items()
        if all(step in times for step in steps)
    }
    return {**times, **totals}


def shared_part(us: Mapping[str, float]) -> float | None:
    """Return the least time of a recorder in Python that writes bytecode; None if not measured.

    It is that of as many objects, of MLIR's copy of the constants, and of MLIR's reading.

    Args:
        us: the times of steps, as `medians` returns them.
    """
    if "objects" not in us or "read" not in us:
        return None
    return us["objects"] + us.get("data", 0.0) + us["read"]


def ratios_of(times: Mapping[str, float]) -> dict[str, float]:
    """Return every ratio whose two sides were measured, by a name such as ``"ours/jax"``."""
    sides = _with_sums(times)
    return {
        f"{dividend}/{divisor}": sides[dividend] / sides[divisor]
        for dividend, divisor in RATIOS
        if dividend in sides and sides.get(divisor, 0) > 0
    }
