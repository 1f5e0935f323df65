"""The steps that are measured, in the order in which the tables show them.

A contender runs some steps one after another, each with what the one before it gave. A step is one
entry here, and one line in the contender's function in `benchmarks/contenders.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

__all__ = ["CONTENDERS", "RATIOS", "STEPS", "SUMS", "Step", "ratios_of"]


class Step(NamedTuple):
    """What is measured under a name.

    Attributes:
        contender: who does it: a key of CONTENDERS.
        title: what the tables call it.
        large: whether it is measured where sizes are compared, up to a million ops.

    Of a graph without large constants, "data" isn't measured.
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
"""The whole way to a verified module, for each contender. (The floor has nothing to record.)"""

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
)
"""What is divided by what. A larger ratio is a slower xlabuilder: no divisor is a time of ours,
or a gain in it would look like a loss elsewhere."""


def ratios_of(times: Mapping[str, float]) -> dict[str, float]:
    """Every ratio of which both sides were measured, named ``"ours/jax"``."""
    sides = dict(times)
    for name, parts in SUMS.items():
        if all(part in times for part in parts):
            sides[name] = sum(times[part] for part in parts)
    return {
        f"{above}/{below}": sides[above] / sides[below]
        for above, below in RATIOS
        if above in sides and below in sides and sides[below] > 0
    }
