"""Compare each unmet target with other implementations of the same step.

The references are MLIR, Python or the C++ XlaBuilder, which do the same or a part of it.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from benchmarks.budget import LIMITS, SPEEDUPS, TargetResult, evaluate, scaling_ends
from benchmarks.steps import SUMS, medians, shared_part
from benchmarks.tables import Table

__all__ = ["collector_table", "comparisons", "constants_note", "lowering_table", "shared_table"]


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
    "import/floor": (_CREATE, _READ),
    "bytecode": (_Reference("write bytecode", ("write",)),),
    "ours/jax": (_OBJECTS_CREATE, _READ),
    "ours/xla_builder": (_OBJECTS_CREATE, _READ),
    "scaled record": (_WITHOUT_COLLECTOR, _COLLECT, _OBJECTS),
    "scaled lower": (_CREATE, _READ),
    "scaled ours": (_Reference("record, collector off, + lower", ("record_uncollected", "lower")),),
}
"""The references of a target, by its key."""


def _rows(result: TargetResult) -> list[list[str]]:
    if result.entry is None:
        return []
    us = medians(result.entry)
    ours = us[result.key.removeprefix("scaled ").partition("/")[0]]
    rows = []
    for reference in _REFERENCES.get(result.key, ()):
        if any(step not in us for step in reference.required or reference.steps):
            continue
        theirs = sum(us[step] for step in reference.steps if step in us)
        with_data = "data" in reference.steps and "data" in us
        title = f"{reference.title}, copy the constants" if with_data else reference.title
        numbers = [f"{ours:.2f}", f"{result.limit:.2f}", f"{theirs:.2f}", f"{ours / theirs:.2f}×"]
        verdict = "above the limit" if theirs > result.limit else "below the limit"
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


def lowering_table(figures: dict[str, Any]) -> Table:
    """Return xlabuilder's own part of lowering, MLIR's part, and the time to create operations.

    MLIR's part is reading the bytecode. A graph of constants, which MLIR also copies, has no parts.
    """
    columns = ["graph", "lower", "xlabuilder's part", "MLIR's reading", "create + verify"]
    table = Table("The parts of lowering, and create + verify, in us per op", columns)
    for name, entry in figures.get("graphs", {}).items():
        us = medians(entry)
        parts = [us["lower"] - us["read"], us["read"]] if "read" in us and "data" not in us else []
        floor = [us["floor"]] if "floor" in us else []
        if parts or floor:
            cells = [us["lower"], *(parts or (None, None)), *(floor or (None,))]
            table.rows.append([name, *("—" if time is None else f"{time:.2f}" for time in cells)])
    return table


def shared_table(figures: dict[str, Any]) -> Table:
    """Return the least that recording and lowering need, and the time that targets leave.

    A recorder that writes bytecode needs at least the objects, MLIR's copy of the constants, and
    MLIR's reading. The target of the speedup over jax leaves the rest for all other work.
    """
    columns = ["graph", "record + lower", "shared", "ours / shared", "jax", "jax / shared"]
    columns += ["target", "left for own", "own"]
    table = Table("The shared part, and what the target beside jax leaves, in us per op", columns)
    for name, entry in figures.get("graphs", {}).items():
        us = medians(entry)
        shared = shared_part(us)
        if shared is not None and "ours" in us and "jax" in us:
            limit = us["jax"] / LIMITS.get((name, "ours/jax"), SPEEDUPS["ours/jax"][1])
            ratios = [f"{us[who] / shared:.1f}×" for who in ("ours", "jax")]
            times = (us["ours"], shared, us["jax"], limit, limit - shared, us["ours"] - shared)
            ours, least, jax, *rest = (f"{time:.2f}" for time in times)
            table.rows.append([name, ours, least, ratios[0], jax, ratios[1], *rest])
    return table


def collector_table(figures: dict[str, Any]) -> Table:
    """Return the share of the garbage collector in recording, at about 10,000 ops and at most."""
    columns = ["graph", "ops", "record", "record, collector off", "make as many objects"]
    table = Table("Recording, and Python's garbage collector, in us per op", columns)
    for name, entries in figures.get("scaling", {}).items():
        for entry in scaling_ends(entries) or ():
            us = medians(entry)
            if "record_uncollected" in us:
                steps = (us["record"], us["record_uncollected"], us.get("objects"))
                cells = ("—" if time is None else f"{time:.2f}" for time in steps)
                table.rows.append([name, f"{entry['ops']:,}", *cells])
    return table


def constants_note(figures: dict[str, Any]) -> str | None:
    """Give the time in which MLIR copies the data of constants."""
    sentences = []
    for name, entry in figures.get("graphs", {}).items():
        us = medians(entry)
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
        if "jax" in us and "read" in us:
            least = LIMITS.get((name, "ours/jax"), SPEEDUPS["ours/jax"][1])
            bound = us["data"] + us["read"]
            sentence += (
                f". {least:g} times faster than jax is {us['jax'] / least:.2f} us; this copy and "
                f"MLIR's reading of the module alone take {bound:.2f}"
            )
            if "xla_builder_record" in us:
                recording = us["xla_builder_record"]
                sentence += f"; the C++ XlaBuilder takes {recording:.2f} to record alone"
        sentences.append(
            f"{sentence}. Elements that MLIR only references (`dense_resource`) need no copy, but "
            f"XLA compiles no such constants, and StableHLO has no portable artifact for them."
        )
    return " ".join(sentences) or None
