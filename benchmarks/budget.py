"""The performance targets, and whether the figures of a run meet them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from benchmarks.steps import medians, shared_part

__all__ = [
    *("LARGE", "LIBRARY_TO_JAX", "LIMITS", "SPEEDUPS", "TargetResult", "evaluate", "no_slower"),
    "scaling_ends",
]

LARGE: Final = 5_000
"""The least number of ops for which the targets per op apply. In smaller graphs the fixed cost of a
module dominates."""

LARGE_DATA: Final = frozenset({"constants"})
"""Graphs whose ops take time and memory for their data. The targets per op do not apply to these,
nor do those relative to the floor, whose data is already in the context."""

NEW_SHAPES: Final = frozenset({"shapes"})
"""Graphs in which no op finds its signature in a cache. Only the targets relative to other
contenders apply, as those per op assume warm caches."""

STEP_US: Final = {
    "record": ("record at most {:g} us per op", 3.0),
    "lower": ("lower, verified, at most {:g} us per op", 4.0),
    "bytecode": ("bytecode at most {:g} us per op", 1.5),
    "import": ("import of a file at most {:g} us per op", 30.0),
}
RATIOS: Final = {
    "record/xla_builder_record": ("record at most {:g} times XlaBuilder's", 2.0),
    "lower/floor": ("lower at most {:g} times the floor", 2.0),
    "import/floor": ("import of a file at most {:g} times the floor", 7.0),
}
SPEEDUPS: Final = {
    "ours/jax": ("record + lower at least {:g} times faster than jax", 6.0),
    "ours/xla_builder": ("record + lower at least {:g} times faster than XlaBuilder", 2.0),
}
MEMORY_BYTES: Final = {
    "recorded_bytes": ("at most {:,} bytes per op recorded", 500),
    "with_module_bytes": ("at most {:,} bytes per op with its module", 1_500),
}
LIMITS: Final = {
    # MLIR copies and hashes 10 KB for each op, for jax too.
    ("constants", "ours/jax"): 4.5,
    # A new signature is checked in Python, rule by rule, so that an error can name the rule.
    ("shapes", "record/xla_builder_record"): 3.0,
    ("shapes", "ours/xla_builder"): 1.4,
}
"""The limits of `RATIOS` and `SPEEDUPS` for graphs that have other ones."""

TO_SHARED: Final = 2.0
"""The target of recording and lowering where the target relative to jax is missed: relative to the
least time of any recorder, `steps.shared_part`. The faster jax is, the nearer is its target to this
least time, which does not depend on jax."""
MAX_GROWTH: Final = 1.5
RECORD_TO_OBJECTS: Final = 1.2
"""The target of recording a million ops. Most of its time is that of making as many objects, which
Python's garbage collector visits again and again while there are more and more of them."""
IMPORT_TO_BASE: Final = {"builder": 0.7, "lowering": 0.4}
"""The targets of imports, relative to the import of the package that each of them needs."""
COLD_TO_JAX: Final = 2.0
"""The target of the first build in a fresh process, imports included."""
LIBRARY_TO_JAX: Final = 1.1
"""The target of a function of the library; its table marks the functions that miss it."""
COMPUTED_TO_PASSED: Final = 2.0
"""The target of a function of the library whose small operands are computed in the program. If
jax's program, which may be the same, takes longer too, the target is `COMPUTED_TO_JAX`, or that the
quartiles overlap: the same program may take 2.3 or 4.3 ms, depending on its threads."""
COMPUTED_TO_JAX: Final = 1.5
PACKED_TO_COPY: Final = 1.1
"""The target of packing. The packed array is new memory, so it is compared with a copy into new
memory, which takes longer than one into memory that is used again."""
ALIGNED_ARRAYS: Final = "NumPy, aligned"
LARGE_ARRAYS: Final = "NumPy, 64 MiB"
"""Kinds of arguments of calls; others are "device" and "NumPy"."""
SMALL_ARRAYS_TO_JAX: Final = {"NumPy": 1.3, ALIGNED_ARRAYS: 1.5}
"""The targets of calls with small NumPy arrays, relative to jax. xlabuilder copies the arrays; jax
copies only those that are not aligned."""
JIT_TO_EXECUTABLE: Final = 1.15
"""The target of `lowering.jit` with NumPy arrays. It looks up the program of the arguments' types,
which takes up to a tenth of a call with two arrays."""
START_TO_JIT: Final = 0.7
TABLE_US: Final = 50.0
TOOLS_TO_REFERENCE: Final = {
    "compare(c, reference=d)": ("compare at most {:g} times computing all values", 2.0),
    "save as .mlirbc": ("saved as bytecode in at most {:g} times its lowering", 1.0),
    "a process that saves one op": ("at most {:g} times jax's lowering", 0.65),
    "xlabuilder inspect of its file": ("at most {:g} times jax's lowering", 0.65),
}
SCALED_ONCE: Final = ("record", "lower", "legalize", "compile")
"""The steps that do not depend on the number of devices; all others are done for each device."""
SCALE_TO_JAX: Final = 2.0
"""The target of the steps for each device that are executed often, on the most devices."""
_OFTEN: Final = ("place shards", "place copies", "call", "call, NumPy arguments", "read")
MAX_SCALED: Final = 1.5
"""The target of a step for the program on the most devices, relative to the fewest. If jax's step
takes longer there too, because the process has many threads, the target is jax's growth."""
PACKED_ELEMENTS: Final = 10_000_000
"""The least number of elements for which packing is compared with a copy: smaller arrays fit into
caches."""


class TargetResult(NamedTuple):
    """A target and the figure that was measured.

    Attributes:
        graph: the graph measured; the package for an import.
        target: the target.
        figure: the figure with its unit.
        met: whether the figure meets the target.
        key: the step or the ratio of the target; "" for a target without references.
        limit: with a key, the most microseconds per op that meet the target.
        entry: with a key, the entry of the figures.
    """

    graph: str
    target: str
    figure: str
    met: bool
    key: str = ""
    limit: float = 0.0
    entry: dict[str, Any] | None = None


def evaluate(figures: dict[str, Any]) -> list[TargetResult]:
    """Return the result of every target for which the figures contain a measurement."""
    results: list[TargetResult] = []
    for name, entry in figures.get("graphs", {}).items():
        if entry["ops"] >= LARGE:
            results.extend(_graph_results(name, entry))
        if name == "reducers":
            count = entry["computations"] - 1
            figure, met = f"{count} recorded", count == 1
            results.append(TargetResult(name, "a reducer recorded once", figure, met))
    for name, entries in figures.get("scaling", {}).items():
        results.extend(_scaling_results(name, entries))
    for package, entry in figures.get("imports", {}).items():
        if package in IMPORT_TO_BASE:
            # CPU time, because imports run on one thread.
            ratio = entry["cpu_ms"]["median"] / entry["over_ms"]["median"]
            limit, base = IMPORT_TO_BASE[package], entry["over"]
            target = f"import after {base} in at most {limit:g} times the import of {base}"
            results.append(TargetResult(package, target, f"{ratio:.2f} times", ratio <= limit))
    for entry in figures.get("packing", []):
        shape, ratio = entry["shape"], entry["ratios"].get("pack/fresh")
        applies = shape.startswith("f32[") and shape.endswith("{1,0:T(8,128)}")
        if applies and ratio is not None and entry["elements"] >= PACKED_ELEMENTS:
            target = f"packed in at most {PACKED_TO_COPY:g} times a copy into new memory"
            met = ratio <= PACKED_TO_COPY
            results.append(TargetResult(shape, target, f"{ratio:.2f} times", met))
    for entry in figures.get("cold", []):
        ours, theirs = (entry["ms"][side]["total"]["median"] for side in ("ours", "jax"))
        target = f"the first build at least {COLD_TO_JAX:g} times faster than jax's"
        name, faster = f"{entry['graph']}, {entry['ops']:,} ops, cold", theirs / ours
        results.append(TargetResult(name, target, f"{faster:.1f} times", faster >= COLD_TO_JAX))
    results.extend(_operand_results(figures.get("operands", [])))
    results.extend(_call_results(figures.get("dispatch", [])))
    results.extend(_serving_results(figures))
    results.extend(_tool_results(figures))
    results.extend(_scale_results(figures.get("scale", [])))
    return results


def _operand_results(entries: Sequence[dict[str, Any]]) -> Iterator[TargetResult]:
    """Return the result of the function that is farthest from its limit."""
    ratios: dict[str, tuple[float, float]] = {}
    for entry in entries:
        ms = {name: spread["median"] for name, spread in entry["ms"].items()}
        limit = max(COMPUTED_TO_PASSED * ms["ours"], COMPUTED_TO_JAX * ms["jax, computed"])
        computed = ms["ours, computed"]
        distance = computed / limit
        sides = {side: entry["ms"][f"{side}, computed"] for side in ("ours", "jax")}
        if no_slower(sides, COMPUTED_TO_JAX):
            distance = min(distance, 1.0)
        ratios[entry["function"]] = computed / ms["ours"], distance
    if ratios:
        worst = max(ratios, key=lambda name: ratios[name][1])
        target = (
            f"small operands computed in at most {COMPUTED_TO_PASSED:g} times (or "
            f"{COMPUTED_TO_JAX:g} times jax's time, or the quartiles overlap)"
        )
        name = f"{len(entries)} functions of builder.lib"
        figure = f"{ratios[worst][0]:.2f} times ({worst})"
        yield TargetResult(name, target, figure, ratios[worst][1] <= 1)


def _call_results(entries: Sequence[dict[str, Any]]) -> Iterator[TargetResult]:
    for entry in entries:
        call = f"call, {entry['arguments']} in, {entry['results']} out, {entry['kind']}"
        ratios = entry["ratios"]
        if entry["kind"] in ("device", LARGE_ARRAYS):
            target = "no longer than jax.jit's (or the quartiles overlap)"
            figure = f"{ratios['ours/jax']:.2f} times"
            yield TargetResult(call, target, figure, no_slower(entry["us"]))
        elif entry["kind"] in SMALL_ARRAYS_TO_JAX:
            limit = SMALL_ARRAYS_TO_JAX[entry["kind"]]
            target = f"an executable at most {limit:g} times jax.jit's"
            ratio = ratios["ours/jax"]
            yield TargetResult(call, target, f"{ratio:.2f} times", ratio <= limit)
            target = f"lowering.jit at most {JIT_TO_EXECUTABLE:g} times the executable"
            ratio = ratios["lowering.jit/jax"] / ratio
            yield TargetResult(call, target, f"{ratio:.2f} times", ratio <= JIT_TO_EXECUTABLE)


def _serving_results(figures: dict[str, Any]) -> Iterator[TargetResult]:
    for entry in figures.get("threads", []):
        name = f"{entry['program']}, {entry['threads']} threads"
        target = "all calls no longer than jax.jit's (or the quartiles overlap)"
        figure = f"{entry['ratios']['throughput, ours/jax']:.2f} times"
        yield TargetResult(name, target, figure, no_slower(entry["us"]["throughput"]))
    if "start" in figures:
        ratio = figures["start"]["ratios"]["total, ours/jit"]
        target = f"at most {START_TO_JIT:g} times jax.jit's start"
        met = ratio <= START_TO_JIT
        yield TargetResult("a saved executable", target, f"{ratio:.2f} times", met)


def _tool_results(figures: dict[str, Any]) -> Iterator[TargetResult]:
    for entry in figures.get("tools", []):
        what, ops = f"{entry['what']}, {entry['ops']:,} ops", entry["ops"]
        if entry["what"].startswith("text") and ops >= LARGE:
            us = entry["ms"]["ours"]["median"] * 1e3 / ops
            target = f"at most {TABLE_US:g} us a row"
            yield TargetResult(what, target, f"{us:.1f} us", us <= TABLE_US)
        if entry["what"] in TOOLS_TO_REFERENCE:
            text, limit = TOOLS_TO_REFERENCE[entry["what"]]
            ratio = entry["ratios"]["ours/reference"]
            yield TargetResult(what, text.format(limit), f"{ratio:.2f} times", ratio <= limit)


def _scale_results(entries: Sequence[dict[str, Any]]) -> Iterator[TargetResult]:
    """Compare the steps on the most devices with those on the fewest, and with jax's.

    Each result has the figure of the step that is farthest from the target.
    """
    if len(entries) < 2:
        return
    small, large = entries[0], entries[-1]
    name = f"a sharded program, {large['devices']} devices"
    growth, jax_growth = (
        {
            step: sides[side]["median"] / small["ms"][step][side]["median"]
            for step, sides in large["ms"].items()
            if side in sides
        }
        for side in ("ours", "jax")
    )
    devices = large["devices"] / small["devices"]
    for text, limit, steps in (
        ("a step for the program", MAX_SCALED, [s for s in growth if s in SCALED_ONCE]),
        ("a step for each device", devices, [s for s in growth if s not in SCALED_ONCE]),
    ):
        worst = max(steps, key=growth.__getitem__)
        target = f"{text} at most {limit:g} times that on {small['devices']} devices (or as jax's)"
        figure = f"{growth[worst]:.2f} times ({worst})"
        met = all(growth[step] <= max(limit, jax_growth.get(step, 0.0)) for step in steps)
        yield TargetResult(name, target, figure, met)
    ratios = {step: large["ratios"][f"{step}, ours/jax"] for step in _OFTEN}
    worst = max(ratios, key=ratios.__getitem__)
    met = all(no_slower(large["ms"][step], SCALE_TO_JAX) for step in _OFTEN)
    target = f"placing, calling and reading at most {SCALE_TO_JAX:g} times jax's"
    yield TargetResult(name, target, f"{ratios[worst]:.2f} times ({worst})", met)


def no_slower(times: Mapping[str, Mapping[str, float]], ratio: float = 1.0) -> bool:
    """Return whether "ours" takes at most `ratio` times as long as "jax", or the quartiles overlap.

    If both take equally long, the median of ours is the greater in half of the runs by chance.
    """
    ours, theirs = times["ours"], times["jax"]
    return ours["median"] <= ratio * theirs["median"] or ours["low"] <= theirs["high"]


def _graph_results(name: str, entry: dict[str, Any]) -> Iterator[TargetResult]:
    us, ratios = medians(entry), entry["ratios"]
    large_data, new_shapes = name in LARGE_DATA, name in NEW_SHAPES
    for step, (text, limit) in STEP_US.items():
        if step in us and not (large_data or new_shapes):
            target, figure = text.format(limit), f"{us[step]:.2f} us"
            yield TargetResult(name, target, figure, us[step] <= limit, step, limit, entry)
    for key, (text, limit) in RATIOS.items():
        if key in ratios and not (large_data and key.endswith("/floor")):
            limit = LIMITS.get((name, key), limit)
            target, figure = text.format(limit), f"{ratios[key]:.2f} times"
            limit_us = limit * us[key.partition("/")[2]]
            yield TargetResult(name, target, figure, ratios[key] <= limit, key, limit_us, entry)
    for key, (text, limit) in SPEEDUPS.items():
        if key in ratios:
            speedup, limit = 1 / ratios[key], LIMITS.get((name, key), limit)
            target, figure = text.format(limit), f"{speedup:.4g} times"
            limit_us, met = us[key.partition("/")[2]] / limit, speedup >= limit
            if key == "ours/jax":
                target += f" (or at most {TO_SHARED:g} times the shared part)"
                shared = shared_part(us)
                if shared is not None and not met:
                    figure += f" ({us['ours'] / shared:.2f} times the shared part)"
                    limit_us = max(limit_us, TO_SHARED * shared)
                    met = us["ours"] <= limit_us
            yield TargetResult(name, target, figure, met, key, limit_us, entry)
    if "memory" in entry and not new_shapes:
        for key, (text, limit) in MEMORY_BYTES.items():
            if not (large_data and key == "with_module_bytes"):
                count = entry["memory"][key]
                figure = f"{count:,.0f} bytes"
                yield TargetResult(name, text.format(limit), figure, count <= limit)


def scaling_ends(entries: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Return the entries with about 10,000 ops and with the most; None if there are not two."""
    large = sorted((e for e in entries if e["ops"] >= LARGE), key=lambda e: int(e["ops"]))
    return (large[0], large[-1]) if len(large) > 1 else None


def _scaling_results(name: str, entries: Sequence[dict[str, Any]]) -> Iterator[TargetResult]:
    """Compare lowering a million ops with lowering 10,000, and recording with its lower bound."""
    ends = scaling_ends(entries)
    if ends is None:
        return
    base, largest = ends
    us, ops = medians(largest), f"{largest['ops']:,} ops"
    if us.get("objects"):
        target = f"record {ops} in at most {RECORD_TO_OBJECTS:g} times making as many objects"
        ratio, limit = us["record"] / us["objects"], us["objects"] * RECORD_TO_OBJECTS
        met = ratio <= RECORD_TO_OBJECTS
        yield TargetResult(name, target, f"{ratio:.2f} times", met, "scaled record", limit, largest)
    growth, limit = us["lower"] / medians(base)["lower"], medians(base)["lower"] * MAX_GROWTH
    target = f"lower per op at {ops} at most {MAX_GROWTH:g} times that at {base['ops']:,}"
    met = growth <= MAX_GROWTH
    yield TargetResult(name, target, f"{growth:.2f} times", met, "scaled lower", limit, largest)
    if "jax" in us:
        text, least = SPEEDUPS["ours/jax"]
        target, speedup = f"{ops}: {text.format(least)}", us["jax"] / us["ours"]
        limit = us["jax"] / least
        met = speedup >= least
        yield TargetResult(name, target, f"{speedup:.1f} times", met, "scaled ours", limit, largest)
