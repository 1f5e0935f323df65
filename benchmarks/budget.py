"""What was promised, and whether the figures keep it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

__all__ = ["LARGE", "Held", "held"]

LARGE: Final = 5_000
"""From this many ops on a graph is held to the figures for an op: in a smaller one, what a module
costs at all is divided by too few."""

FULL_OF_DATA: Final = frozenset({"constants"})
"""Graphs whose ops take time and memory for the data in them. What is promised for an op, and
beside the floor, which has the data already, isn't promised for these; the rest is."""

RECORD_US: Final = 3.0
LOWER_US: Final = 4.0
BYTECODE_US: Final = 1.5
TO_XLA_BUILDER_RECORD: Final = 2.0
TO_FLOOR: Final = 2.0
FASTER_THAN_JAX: Final = 6.0
FASTER_THAN_XLA_BUILDER: Final = 2.0
LINEAR: Final = 1.5
RECORDED_BYTES: Final = 500
WITH_MODULE_BYTES: Final = 1_500
IMPORT_MS: Final = {"builder": 50, "lowering": 100}


class Held(NamedTuple):
    """One promise and what came of it.

    Attributes:
        graph: whose figure it is; the package for an import.
        promise: what was promised.
        figure: what was measured, with its unit.
        met: whether the promise is kept.
    """

    graph: str
    promise: str
    figure: str
    met: bool


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
        # As all that runs on one thread, by what the processor worked.
        ms, limit = entry["cpu_ms"]["median"], IMPORT_MS[package]
        promise = f"import at most {limit} ms beyond {entry['over']}'s"
        found.append(Held(package, promise, f"{ms:.0f} ms", met=ms <= limit))
    return found


def _of_graph(name: str, entry: dict[str, Any]) -> Iterator[Held]:
    us = {step: values["median"] for step, values in entry["us"].items()}
    ratios = entry["ratios"]
    data = name in FULL_OF_DATA
    for step, title, limit in (
        ("record", "record", RECORD_US),
        ("lower", "lower, verified,", LOWER_US),
        ("bytecode", "bytecode", BYTECODE_US),
    ):
        if data:
            continue
        promise = f"{title} at most {limit:g} us an op"
        yield Held(name, promise, f"{us[step]:.2f} us", met=us[step] <= limit)
    for ratio, title, limit in (
        (
            "record/xla_builder_record",
            "record at most {:g} times XlaBuilder's",
            TO_XLA_BUILDER_RECORD,
        ),
        ("lower/floor", "lower at most {:g} times the floor", TO_FLOOR),
    ):
        if ratio in ratios and not (data and ratio == "lower/floor"):
            figure = f"{ratios[ratio]:.2f} times"
            yield Held(name, title.format(limit), figure, met=ratios[ratio] <= limit)
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
            yield Held(name, title.format(limit), f"{faster:.1f} times", met=faster >= limit)
    if "memory" in entry:
        for key, title, limit in (
            ("recorded_bytes", "at most {:,} bytes an op recorded", RECORDED_BYTES),
            ("with_module_bytes", "at most {:,} bytes an op with its module", WITH_MODULE_BYTES),
        ):
            if data and key == "with_module_bytes":
                continue
            value = entry["memory"][key]
            yield Held(name, title.format(limit), f"{value:,.0f} bytes", met=value <= limit)


def _of_scaling(name: str, entries: list[dict[str, Any]]) -> Iterator[Held]:
    """Whether an op of a large graph costs what one of 10,000 does."""
    costs = {
        entry["ops"]: entry["us"]["record"]["median"] + entry["us"]["lower"]["median"]
        for entry in entries
    }
    base = min((ops for ops in costs if ops >= LARGE), default=None)
    largest = max(costs, default=0)
    if base is None or largest == base:
        return
    growth = costs[largest] / costs[base]
    promise = f"an op of {largest:,} at most {LINEAR:g} times one of {base:,}"
    yield Held(name, promise, f"{growth:.2f} times", met=growth <= LINEAR)
