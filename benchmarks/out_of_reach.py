"""Why a promise is not kept: what is done without us, beside what we do.

A promise that isn't kept is set beside what MLIR, Python or the C++ XlaBuilder takes for the same,
or for a part of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from benchmarks.budget import Held, held, scaled_from
from benchmarks.steps import SUMS
from benchmarks.tables import Table

__all__ = ["collected", "copied", "lowered", "reasons"]


class _Least(NamedTuple):
    """Something that does the same as what was promised, or a part of it.

    Attributes:
        title: what the table calls it.
        steps: what it consists of; one that was not measured is left out.
        needs: the steps without which it says nothing.
    """

    title: str
    steps: tuple[str, ...]
    needs: tuple[str, ...]


_CREATED: Final = _Least("create + verify", ("data", *SUMS["floor"]), SUMS["floor"])
_READ: Final = _Least("read the bytecode", ("data", "read"), ("read",))
_MADE: Final = _Least("objects + create + verify", ("objects", *_CREATED.steps), _CREATED.needs)
_UNCOLLECTED: Final = _Least("record, collector off", ("record_uncollected",), ())
_COLLECTED: Final = _Least(
    "record, collector off, + collect as many objects",
    ("record_uncollected", "collector"),
    ("record_uncollected", "collector"),
)
_OBJECTS: Final = _Least("make as many objects", ("objects",), ())
_XLA_BUILDER: Final = _Least("C++ XlaBuilder: record", ("xla_builder_record",), ())

_LEAST: Final[dict[str, tuple[_Least, ...]]] = {
    "record": (_UNCOLLECTED, _OBJECTS, _XLA_BUILDER),
    "record/xla_builder_record": (_UNCOLLECTED, _OBJECTS, _XLA_BUILDER),
    "lower": (_CREATED, _READ),
    "lower/floor": (_CREATED, _READ),
    "bytecode": (_Least("write bytecode", ("write",), ()),),
    "ours/jax": (_MADE, _READ),
    "ours/xla_builder": (_MADE, _READ),
    "scaled record": (_UNCOLLECTED, _COLLECTED, _OBJECTS),
    "scaled lower": (_CREATED, _READ),
    "scaled ours": (_Least("record, collector off, + lower", ("record_uncollected", "lower"), ()),),
}
"""What a promise is set beside, by its key."""


def _ours(key: str) -> tuple[str, ...]:
    """The steps of ours that a promise is about."""
    side = key.removeprefix("scaled ").partition("/")[0]
    return SUMS.get(side, (side,))


def _us(entry: Mapping[str, Any], steps: Sequence[str], needs: Sequence[str]) -> float | None:
    us = entry["us"]
    if any(step not in us for step in needs):
        return None
    return sum(float(us[step]["median"]) for step in steps if step in us)


def _rows(one: Held) -> list[list[str]]:
    entry = one.entry
    if entry is None:
        return []
    ours = _us(entry, _ours(one.key), _ours(one.key))
    rows = []
    for least in _LEAST.get(one.key, ()):
        needs = least.needs or least.steps
        found = _us(entry, least.steps, needs)
        if ours is None or found is None:
            continue
        with_data = "data" in least.steps and "data" in entry["us"]
        title = f"{least.title}, copy the constants" if with_data else least.title
        numbers = [f"{ours:.2f}", f"{one.allowed:.2f}", f"{found:.2f}", f"{ours / found:.2f}×"]
        verdict = "more than allowed" if found > one.allowed else "less than allowed"
        rows.append([one.graph, title, *numbers, verdict])
    return rows


def reasons(figures: dict[str, Any]) -> list[tuple[str, Table]]:
    """For each promise that is not kept everywhere, by its name: where, and beside what.

    Promises of which nothing was measured that they could be set beside have a table without rows.
    """
    columns = ["graph", "beside", "ours, us", "allowed", "that, us", "ours / that", "that is"]
    found: dict[str, Table] = {}
    for one in held(figures):
        if not one.met:
            table = found.setdefault(one.promise, Table(one.promise, columns, [], words=2))
            table.rows += _rows(one)
    return list(found.items())


def lowered(figures: dict[str, Any]) -> str | None:
    """Where lowering takes less than creating operations one by one, and what it consists of."""
    below, parts = [], []
    for name, entry in figures.get("graphs", {}).items():
        created = _us(entry, SUMS["floor"], SUMS["floor"])
        us = entry["us"]
        lower = us["lower"]["median"]
        if created is not None and lower < created:
            below.append(f"{name} ({lower:.2f} against {created:.2f})")
        if "read" in us and "data" not in us:
            read = us["read"]["median"]
            parts.append(f"{name} {lower - read:.2f} + {read:.2f}")
    said = []
    if figures.get("graphs"):
        said.append(
            f"Lowering takes less than create + verify for {', '.join(below)}."
            if below
            else "Lowering takes less than create + verify for no graph."
        )
    if parts:
        said.append(f"What it takes beside MLIR's reading, and the reading: {', '.join(parts)}.")
    return " ".join(said) or None


def collected(figures: dict[str, Any]) -> str | None:
    """What the garbage collector takes of recording, in small graphs and the largest."""
    said = []
    for name, entries in figures.get("scaling", {}).items():
        compared = scaled_from(entries) or ()
        said += [
            f"{us['record']['median']:.2f} us an op for {entry['ops']:,} ops of {name}, and "
            f"{us['record_uncollected']['median']:.2f} with the collector off"
            + (
                f"; to make as many objects, with a tuple each, {us['objects']['median']:.2f}"
                if "objects" in us
                else ""
            )
            for entry in compared
            if "record_uncollected" in (us := entry["us"])
        ]
    return f"Recording takes {'; '.join(said)}." if said else None


def copied(figures: dict[str, Any]) -> str | None:
    """What MLIR's copy of the data of constants takes."""
    said = []
    for name, entry in figures.get("graphs", {}).items():
        us = {step: spread["median"] for step, spread in entry["us"].items()}
        if "data" not in us:
            continue
        text = (
            f"Of {name} MLIR's copying and hashing of the arrays takes {us['data']:.2f} us an op; "
            f"xlabuilder takes {us['record']:.2f} to record and {us['lower']:.2f} to lower, copy "
            f"included"
        )
        if "jax_trace" in us and "jax_lower" in us:
            text += f"; jax {us['jax_trace']:.2f} and {us['jax_lower']:.2f}, with the same copy"
        said.append(
            f"{text}. Elements that MLIR would only refer to (`dense_resource`) take no copy, but "
            f"XLA compiles none, and StableHLO has no portable artifact of them."
        )
    return " ".join(said) or None
