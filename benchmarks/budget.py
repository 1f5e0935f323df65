"""What was promised, and whether the figures keep it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from benchmarks.steps import SUMS

__all__ = ["LARGE", "Held", "held", "scaled_from"]

LARGE: Final = 5_000
"""From this many ops on a graph is held to the figures for an op: in a smaller one, what a module
costs at all is divided by too few."""

FULL_OF_DATA: Final = frozenset({"constants"})
"""Graphs whose ops take time and memory for the data in them. What is promised for an op, and
beside the floor, which has the data already, isn't promised for these; the rest is."""

NEW_SHAPES: Final = frozenset({"shapes"})
"""Graphs in which no op finds its signature in a cache. What is promised for an op counts on the
caches; what compares with others is held against these too."""

RECORD_US: Final = 3.0
LOWER_US: Final = 4.0
BYTECODE_US: Final = 1.5
IMPORT_US: Final = 30.0
TO_XLA_BUILDER_RECORD: Final = 2.0
TO_FLOOR: Final = 2.0
FASTER_THAN_JAX: Final = 6.0
FASTER_THAN_XLA_BUILDER: Final = 2.0
LINEAR: Final = 1.5
RECORDED_BYTES: Final = 500
WITH_MODULE_BYTES: Final = 1_500
IMPORT_MS: Final = {"builder": 50, "lowering": 100}
PACKED_TO_COPY: Final = 3.0
PACKED_ELEMENTS: Final = 10_000_000
"""From this many elements on packing is held to a copy: smaller arrays stay in caches."""


class Held(NamedTuple):
    """One promise and what came of it.

    Attributes:
        graph: whose figure it is; the package for an import.
        promise: what was promised.
        figure: what was measured, with its unit.
        met: whether the promise is kept.
        key: the step or the ratio that it is about, "" for what isn't compared with a floor.
        allowed: for a key, the most microseconds an op that keep the promise.
        entry: for a key, the figures that it was read from.
    """

    graph: str
    promise: str
    figure: str
    met: bool
    key: str = ""
    allowed: float = 0.0
    entry: dict[str, Any] | None = None


def held(figures: dict[str, Any]) -> list[Held]:
    """Every promise that the figures speak of."""
    found: list[Held] = []
    for name, entry in figures.get("graphs", {}).items():
        if entry["ops"] >= LARGE:
            found.extend(_of_graph(name, entry))
        if name == "reducers":
            count = entry["computations"] - 1
            found.append(Held(name, "a reducer recorded once", f"{count} recorded", met=count == 1))
    for name, entries in figures.get("scaling", {}).items():
        found.extend(_of_scaling(name, entries))
    for package, entry in figures.get("imports", {}).items():
        if package not in IMPORT_MS:
            continue
        # As all that runs on one thread, by what the processor worked.
        ms, limit = entry["cpu_ms"]["median"], IMPORT_MS[package]
        promise = f"import at most {limit} ms beyond {entry['over']}'s"
        found.append(Held(package, promise, f"{ms:.0f} ms", met=ms <= limit))
    for entry in figures.get("packing", []):
        ratio = entry["ratios"].get("pack/copy")
        promised = entry["shape"].startswith("f32[") and entry["shape"].endswith("{1,0:T(8,128)}")
        if promised and ratio is not None and entry["elements"] >= PACKED_ELEMENTS:
            promise = f"packed in at most {PACKED_TO_COPY:g} times a copy"
            met = ratio <= PACKED_TO_COPY
            found.append(Held(entry["shape"], promise, f"{ratio:.2f} times", met=met))
    for entry in figures.get("dispatch", []):
        if entry["kind"] == "device":
            ours, theirs = entry["us"]["ours"], entry["us"]["jax"]
            # Equally long ones are the longer half of the time: quartiles that overlap are equal.
            met = ours["median"] <= theirs["median"] or ours["low"] <= theirs["high"]
            whose = f"call, {entry['arguments']} in, {entry['results']} out"
            promise = "no longer than jax.jit's (or the quartiles overlap)"
            found.append(Held(whose, promise, f"{entry['ratios']['ours/jax']:.2f} times", met=met))
    return found


def _of_graph(name: str, entry: dict[str, Any]) -> Iterator[Held]:
    us = {step: values["median"] for step, values in entry["us"].items()}
    ratios = entry["ratios"]
    data, new_shapes = name in FULL_OF_DATA, name in NEW_SHAPES
    for step, title, limit in (
        ("record", "record", RECORD_US),
        ("lower", "lower, verified,", LOWER_US),
        ("bytecode", "bytecode", BYTECODE_US),
        ("import", "import of a file", IMPORT_US),
    ):
        if data or new_shapes or step not in us:
            continue
        promise = f"{title} at most {limit:g} us an op"
        figure, met = f"{us[step]:.2f} us", us[step] <= limit
        yield Held(name, promise, figure, met, step, limit, entry)
    for ratio, title, limit in (
        (
            "record/xla_builder_record",
            "record at most {:g} times XlaBuilder's",
            TO_XLA_BUILDER_RECORD,
        ),
        ("lower/floor", "lower at most {:g} times the floor", TO_FLOOR),
    ):
        if ratio in ratios and not (data and ratio == "lower/floor"):
            figure, met = f"{ratios[ratio]:.2f} times", ratios[ratio] <= limit
            allowed = _sum(us, ratio.partition("/")[2]) * limit
            yield Held(name, title.format(limit), figure, met, ratio, allowed, entry)
    for ratio, title, limit in (
        ("ours/jax", "record + lower at least {:g} times faster than jax", FASTER_THAN_JAX),
        (
            "ours/xla_builder",
            "record + lower at least {:g} times faster than XlaBuilder",
            FASTER_THAN_XLA_BUILDER,
        ),
    ):
        if ratio in ratios:
            faster = 1 / ratios[ratio]
            figure, met = f"{faster:.1f} times", faster >= limit
            allowed = _sum(us, ratio.partition("/")[2]) / limit
            yield Held(name, title.format(limit), figure, met, ratio, allowed, entry)
    if "memory" in entry and not new_shapes:
        for key, title, limit in (
            ("recorded_bytes", "at most {:,} bytes an op recorded", RECORDED_BYTES),
            ("with_module_bytes", "at most {:,} bytes an op with its module", WITH_MODULE_BYTES),
        ):
            if data and key == "with_module_bytes":
                continue
            value = entry["memory"][key]
            yield Held(name, title.format(limit), f"{value:,.0f} bytes", met=value <= limit)


def _sum(us: Mapping[str, float], who: str) -> float:
    """Microseconds an op of a step, or of all that a contender does."""
    return sum(us[step] for step in SUMS.get(who, (who,)))


def scaled_from(entries: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Of several sizes the one of about 10,000 ops and the largest, if these are two."""
    large = sorted((e for e in entries if e["ops"] >= LARGE), key=lambda e: int(e["ops"]))
    return (large[0], large[-1]) if len(large) > 1 else None


def _of_scaling(name: str, entries: Sequence[dict[str, Any]]) -> Iterator[Held]:
    """Whether an op of a large graph costs what one of 10,000 does."""
    compared = scaled_from(entries)
    if compared is None:
        return
    base, largest = compared
    sides = [{s: v["median"] for s, v in entry["us"].items()} for entry in compared]
    for key, title in (("record", "record"), ("lower", "lower"), ("ours", "record + lower")):
        small, large = (_sum(us, key) for us in sides)
        growth = large / small
        promise = (
            f"{title} of an op of {largest['ops']:,} at most {LINEAR:g} times "
            f"that of one of {base['ops']:,}"
        )
        figure, met = f"{growth:.2f} times", growth <= LINEAR
        yield Held(name, promise, figure, met, f"scaled {key}", small * LINEAR, largest)
