"""Compare each unmet target with other implementations of the same step.

The references are MLIR, Python or the C++ XlaBuilder, which do the same or a part of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from benchmarks.budget import TargetResult, evaluate, scaling_ends
from benchmarks.steps import SUMS
from benchmarks.tables import Table

__all__ = ["collector_note", "comparisons", "constants_note", "lowering_note"]


class _Reference(NamedTuple):
    """An implementation of the step of a target, or of a part of it.

    Attributes:
        title: its name in the table.
        steps: the steps that are added up; those not measured are left out.
        required: the steps that a row requires; all if empty.
    """

    title: str
    steps: tuple[str, ...]
    required: tuple[str, ...] = ()


_FLOOR: Final = SUMS["floor"]
_CREATE: Final = _Reference("create + verify", ("data", *_FLOOR), _FLOOR)
_READ: Final = _Reference("read the bytecode", ("data", "read"), ("read",))
_OBJECTS_CREATE: Final = _Reference(
    "objects + create + verify", ("objects", *_CREATE.steps), _FLOOR
)
_WITHOUT_COLLECTOR: Final = _Reference("record, collector off", ("record_uncollected",))
_COLLECT: Final = _Reference(
    "record, collector off, + collect as many objects", ("record_uncollected", "collector")
)
_OBJECTS: Final = _Reference("make as many objects", ("objects",))
_XLA_BUILDER: Final = _Reference("C++ XlaBuilder: record", ("xla_builder_record",))

_REFERENCES: Final[dict[str, tuple[_Reference, ...]]] = {
    "record": (_WITHOUT_COLLECTOR, _OBJECTS, _XLA_BUILDER),
    "record/xla_builder_record": (_WITHOUT_COLLECTOR, _OBJECTS, _XLA_BUILDER),
    "lower": (_CREATE, _READ),
    "lower/floor": (_CREATE, _READ),
    "bytecode": (_Reference("write bytecode", ("write",)),),
    "ours/jax": (_OBJECTS_CREATE, _READ),
    "ours/xla_builder": (_OBJECTS_CREATE, _READ),
    "scaled record": (_WITHOUT_COLLECTOR, _COLLECT, _OBJECTS),
    "scaled lower": (_CREATE, _READ),
    "scaled ours": (_Reference("record, collector off, + lower", ("record_uncollected", "lower")),),
}
"""The references of a target, by its key."""


def _our_steps(key: str) -> tuple[str, ...]:
    """Return xlabuilder's steps in the key of a target."""
    step = key.removeprefix("scaled ").partition("/")[0]
    return SUMS.get(step, (step,))


def _us(entry: Mapping[str, Any], steps: Sequence[str], required: Sequence[str]) -> float | None:
    us = entry["us"]
    if any(step not in us for step in required):
        return None
    return sum(float(us[step]["median"]) for step in steps if step in us)


def _rows(result: TargetResult) -> list[list[str]]:
    entry = result.entry
    if entry is None:
        return []
    steps = _our_steps(result.key)
    ours = _us(entry, steps, steps)
    rows = []
    for reference in _REFERENCES.get(result.key, ()):
        us = _us(entry, reference.steps, reference.required or reference.steps)
        if ours is None or us is None:
            continue
        with_data = "data" in reference.steps and "data" in entry["us"]
        title = f"{reference.title}, copy the constants" if with_data else reference.title
        numbers = [f"{ours:.2f}", f"{result.limit:.2f}", f"{us:.2f}", f"{ours / us:.2f}×"]
        verdict = "above the limit" if us > result.limit else "below the limit"
        rows.append([result.graph, title, *numbers, verdict])
    return rows


def comparisons(figures: dict[str, Any]) -> list[Table]:
    """Return a table for each target that is not met everywhere, titled with the target.

    The table has no rows if none of the references was measured.
    """
    columns = ["graph", "reference", "ours, us", "limit, us", "reference, us", "ours / reference"]
    tables: dict[str, Table] = {}
    for result in evaluate(figures):
        if not result.met:
            empty = Table(result.target, [*columns, "reference is"], [], text_columns=2)
            tables.setdefault(result.target, empty).rows.extend(_rows(result))
    return list(tables.values())


def lowering_note(figures: dict[str, Any]) -> str | None:
    """Name the graphs for which lowering is faster than creating operations, and its parts."""
    faster, parts = [], []
    for name, entry in figures.get("graphs", {}).items():
        created = _us(entry, _FLOOR, _FLOOR)
        us = entry["us"]
        lower = us["lower"]["median"]
        if created is not None and lower < created:
            faster.append(f"{name} ({lower:.2f} against {created:.2f})")
        if "read" in us and "data" not in us:
            read = us["read"]["median"]
            parts.append(f"{name} {lower - read:.2f} + {read:.2f}")
    sentences = []
    if figures.get("graphs"):
        sentences.append(
            f"Lowering takes less time than create + verify for {', '.join(faster) or 'no graph'}."
        )
    if parts:
        sentences.append(f"Its own part and MLIR's reading take: {', '.join(parts)}.")
    return " ".join(sentences) or None


def collector_note(figures: dict[str, Any]) -> str | None:
    """Give the share of the garbage collector in recording, at about 10,000 ops and at most."""
    clauses = []
    for name, entries in figures.get("scaling", {}).items():
        for entry in scaling_ends(entries) or ():
            us = entry["us"]
            if "record_uncollected" not in us:
                continue
            clause = (
                f"{us['record']['median']:.2f} us per op for {entry['ops']:,} ops of {name}, and "
                f"{us['record_uncollected']['median']:.2f} with the collector off"
            )
            if "objects" in us:
                clause += f" (making as many objects: {us['objects']['median']:.2f})"
            clauses.append(clause)
    return f"Recording takes {'; '.join(clauses)}." if clauses else None


def constants_note(figures: dict[str, Any]) -> str | None:
    """Give the time in which MLIR copies the data of constants."""
    sentences = []
    for name, entry in figures.get("graphs", {}).items():
        us = {step: spread["median"] for step, spread in entry["us"].items()}
        if "data" not in us:
            continue
        sentence = (
            f"For {name}, MLIR's copying and hashing of the arrays takes {us['data']:.2f} us per "
            f"op; xlabuilder takes {us['record']:.2f} to record and {us['lower']:.2f} to lower, "
            f"including the copy"
        )
        if "jax_trace" in us and "jax_lower" in us:
            sentence += (
                f"; jax takes {us['jax_trace']:.2f} and {us['jax_lower']:.2f}, including the same "
                f"copy"
            )
        sentences.append(
            f"{sentence}. Elements that MLIR only references (`dense_resource`) need no copy, but "
            f"XLA compiles no such constants, and StableHLO has no portable artifact for them."
        )
    return " ".join(sentences) or None
