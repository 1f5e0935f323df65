"""The figures of a run, and their JSON file.

    format          1
    date, machine, versions, peer    of the run; "peer" is None without --peer-python
    quick           whether it was a quick run, whose figures are rough
    rounds          the maximum number of rounds
    graphs          by name: "title", "size"; "ops" (of the graph as written), "recorded" (ops that
                    are recorded: equal functions are shared), "computations" and "operations" (of
                    the module); "us": for each step the spread of the microseconds per op;
                    "ratios" of the medians; "memory": bytes per op recorded, and peaks of the
                    process; "missing": for contenders without figures, the reason
    scaling         by name: a list of the same for increasing sizes, without "memory" and with
                    fewer steps
    end_to_end      a list: "graph", "size", "ops"; "ms": for "ours" and "jax" the spread of each
                    stage's milliseconds; "ratios"
    cold            a list of the same for the first build in a fresh process, with other stages
    imports         by package: "ms", "cpu_ms", "over_ms": spreads; "over": what was imported
                    before; "modules", with --modules: milliseconds and names of the slowest ones
    packing         a list: "shape", "elements"; "ms": spreads of "pack", "unpack", "copy" and
                    "fresh" (a copy of the array to an existing and to a new array); "ratios"
    dispatch        a list: "arguments" and "results" (their numbers), "kind" (of arguments); "us":
                    the spreads of a call's microseconds for "ours", "jax" and optionally
                    "lowering.jit"; "ratios"
    library         a list: "function" (of builder.lib), "size" ("small" or "large"), "type" (the
                    floating-point type), "arguments" (their shapes); "ms": the spreads of an
                    execution's milliseconds for "ours" and "jax"; "ratios"
    operands        a list: "function" (of builder.lib), "arguments" (their shapes); "ms": the
                    spreads of an execution's milliseconds for "ours" and "jax", where small
                    operands are passed, and for "ours, computed", "jax, computed"; "ratios"
    interop         a list: "what" was measured, "beside" which reference; "ms": the spreads of the
                    milliseconds for "ours" and "reference"; "ratios"
    derivatives     a list: "model"; "products" and "optimized": for "ours" and "jax" the number of
                    matrix products and convolutions in the recorded and in the optimized step;
                    "error": the largest of a gradient, relative to its norm; "ms": for "step" (an
                    execution), "warm" and "cold" (recording gradients, for jax trace and lowering)
                    the spreads of the CPU milliseconds for "ours" and "jax"; "ratios"
    threads         a list: "program", "threads" (their number); "us": the spreads of microseconds
                    for "ours" and "jax", of "throughput" (the elapsed time by the calls of all
                    threads), and of the "median" and the "slowest of 100" calls; "ratios"
    start           "graph", "size"; "ms": for "ours", "jax" (a file of machine code) and "jit" (no
                    file) the spread of each stage's CPU milliseconds in a fresh process; "ratios"
    tools           a list: "what" was measured, "beside" which reference, "ops" of the program;
                    "ms": the spreads of the CPU milliseconds for "ours" and "reference"; "ratios"
    scale           a list: "devices" (virtual ones); "ms": for each step the spreads of the CPU
                    milliseconds for "ours" and, if jax has the step, "jax"; "ratios"
    later           for each part that was measured in a later run (`report FILE --later FILE`):
                    "date", "processor", "versions"

A part that was not measured is absent. A spread consists of "median", "low" and "high" (the
quartiles), "least" and "rounds". The times of all contenders are divided by "ops", so that they
are comparable.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any, Final

from benchmarks.machine import machine, today, versions

__all__ = [
    "FORMAT",
    "FiguresError",
    "check_folder",
    "check_writable",
    "new_figures",
    "read_entries",
    "read_figures",
    "replace",
    "write_figures",
]

FORMAT: Final = 1


class FiguresError(Exception):
    """A file that cannot be read or written. The message is a single line."""


def new_figures(*, rounds: int, quick: bool, peer: dict[str, str] | None) -> dict[str, Any]:
    """Return figures without any measurement."""
    return {
        "format": FORMAT,
        "date": today(),
        "machine": machine(),
        "versions": versions(),
        "peer": peer,
        "quick": quick,
        "rounds": rounds,
    }


def write_figures(figures: dict[str, Any], path: Path) -> None:
    """Write a file, with numbers rounded to four digits: more would be noise."""
    replace(path, json.dumps(_rounded(figures), indent=1) + "\n")


def check_writable(path: Path) -> None:
    """Raise FiguresError unless a file, existing or new, can be written at this path."""
    folder = path.resolve().parent
    if not folder.is_dir():
        raise FiguresError(f"folder {folder} does not exist")
    if path.is_dir():
        raise FiguresError(f"{path} is a folder")
    check_folder(folder)


def check_folder(folder: Path) -> None:
    """Create a folder if it does not exist. Raise FiguresError unless it is writable."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FiguresError(f"{folder} can't be created: {error.strerror}") from None
    try:
        # A file system may refuse writing whatever the permissions are.
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise FiguresError(f"{folder} can't be written to: {error.strerror}") from None


def replace(path: Path, text: str) -> None:
    """Write a file atomically: to a temporary file beside it, which then replaces it.

    Raises:
        FiguresError: the file can't be written.
    """
    target = path.resolve()
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        if target.exists() and not target.is_file():  # such as /dev/null
            target.write_text(text, encoding="utf-8")
            return
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(target)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise FiguresError(f"{path} can't be written: {error.strerror}") from None


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def read_figures(path: Path) -> dict[str, Any]:
    """Read the figures of a run.

    Raises:
        FiguresError: the file does not exist or has another format.
    """
    return _read(path, _FIGURES, "figures of a run")


def read_entries(path: Path) -> dict[str, Any]:
    """Read the entries of a file of ratios, by versions.

    Raises:
        FiguresError: the file does not exist or has another format.
    """
    entries: dict[str, Any] = _read(path, _RATIOS, "ratios")["entries"]
    return entries


def _read(path: Path, schema: dict[str, Any], kind: str) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FiguresError(f"{path} can't be read: {error.strerror}") from None
    except ValueError as error:
        raise FiguresError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise FiguresError(f"{path} does not contain {kind} in format {FORMAT}")
    error = _schema_error(content, schema, "")
    if error is not None:
        raise FiguresError(f"{path} does not contain {kind}: {error}")
    return content


# Schemas of the files. A dict lists its keys ("?" marks an optional one, "*" matches any other), a
# list contains the schema of its items, and a tuple the types of a value.
_NUMBER: Final = (int, float)
_SPREAD: Final = dict.fromkeys(("median", "low", "high", "least", "rounds"), _NUMBER)
_ENTRY: Final = {
    "title": (str,),
    **dict.fromkeys(("size", "ops", "recorded", "computations", "operations"), (int,)),
    "us": {"record": _SPREAD, "lower": _SPREAD, "bytecode": _SPREAD, "*": _SPREAD},
    "ratios": {"*": _NUMBER},
    "missing": {"*": (str,)},
}
_MEMORY: Final = ("recorded_bytes", "with_module_bytes", "peak_bytes", "jax_bytes")
_STAGES: Final = ("record", "lower", "compile", "run", "total")
_COLD_STAGES: Final = ("import", "record", "lower", "total")
_THREAD_QUANTITIES: Final = ("throughput", "median", "slowest of 100")
_START_STAGES: Final = ("import", "load", "first call", "total")
_BUILD: Final = {"graph": (str,), "size": (int,), "ops": (int,)}
_FIGURES: Final = {
    "date": (str,),
    "machine": {
        "processor": (str,),
        "cores": (int,),
        "memory_bytes": (int, type(None)),
        "system": (str,),
        "device?": (str,),
    },
    "versions": {"*": (str,)},
    "peer": (dict, type(None)),
    "quick": (bool,),
    "rounds": (int,),
    "graphs?": {
        "*": _ENTRY | {"memory": dict.fromkeys((*_MEMORY, "jax_peak_bytes"), _NUMBER)},
    },
    "scaling?": {"*": [_ENTRY]},
    "end_to_end?": [
        _BUILD | {"ms": dict.fromkeys(("ours", "jax"), dict.fromkeys(_STAGES, _SPREAD))},
    ],
    "cold?": [
        _BUILD
        | {
            "ms": dict.fromkeys(("ours", "jax"), dict.fromkeys(_COLD_STAGES, _SPREAD)),
            "ratios": {"*": _NUMBER},
        },
    ],
    "imports?": {
        "*": {"ms": _SPREAD, "cpu_ms": _SPREAD, "over_ms": _SPREAD, "over": (str,)},
    },
    "packing?": [
        {
            "shape": (str,),
            "elements": (int,),
            "ms": dict.fromkeys(("pack", "unpack", "copy", "fresh"), _SPREAD),
            "ratios": {"*": _NUMBER},
        }
    ],
    "dispatch?": [
        {
            "arguments": (int,),
            "results": (int,),
            "kind": (str,),
            "us": {"ours": _SPREAD, "jax": _SPREAD, "*": _SPREAD},
            "ratios": {"ours/jax": _NUMBER, "*": _NUMBER},
        }
    ],
    "library?": [
        {
            **dict.fromkeys(("function", "size", "type", "arguments"), (str,)),
            "ms": {"ours": _SPREAD, "jax": _SPREAD},
            "ratios": {"ours/jax": _NUMBER},
        }
    ],
    "operands?": [
        {
            **dict.fromkeys(("function", "arguments"), (str,)),
            "ms": dict.fromkeys(("ours", "jax", "ours, computed", "jax, computed"), _SPREAD),
            "ratios": dict.fromkeys(("ours, computed/passed", "jax, computed/passed"), _NUMBER),
        }
    ],
    "interop?": [
        {
            "what": (str,),
            "beside": (str,),
            "ms": {"ours": _SPREAD, "reference": _SPREAD},
            "ratios": {"ours/reference": _NUMBER},
        }
    ],
    "derivatives?": [
        {
            "model": (str,),
            "products": {"ours": (int,), "jax": (int,)},
            "optimized": {"ours": (int,), "jax": (int,)},
            "error": _NUMBER,
            "ms": {key: {"ours": _SPREAD, "jax": _SPREAD} for key in ("step", "warm", "cold")},
            "ratios": {"*": _NUMBER},
        }
    ],
    "threads?": [
        {
            "program": (str,),
            "threads": (int,),
            "us": {key: {"ours": _SPREAD, "jax": _SPREAD} for key in _THREAD_QUANTITIES},
            "ratios": {"*": _NUMBER},
        }
    ],
    "start?": {
        "graph": (str,),
        "size": (int,),
        "ms": dict.fromkeys(("ours", "jax", "jit"), dict.fromkeys(_START_STAGES, _SPREAD)),
        "ratios": {"*": _NUMBER},
    },
    "tools?": [
        {
            "what": (str,),
            "beside": (str,),
            "ops": (int,),
            "ms": {"ours": _SPREAD, "reference": _SPREAD},
            "ratios": {"ours/reference": _NUMBER},
        }
    ],
    "scale?": [
        {
            "devices": (int,),
            "ms": {"*": {"ours": _SPREAD, "*": _SPREAD}},
            "ratios": {"*": _NUMBER},
        }
    ],
    "later?": {"*": {"date": (str,), "processor": (str,), "versions": {"*": (str,)}}},
}
_RATIOS: Final = {
    "entries": {"*": {"date": (str,), "sizes": {"*": (int,)}, "ratios": {"*": {"*": _NUMBER}}}}
}


def _schema_error(value: Any, schema: Any, where: str) -> str | None:
    """Describe the first difference between a value and its schema; None if there is none."""
    if isinstance(schema, tuple):
        return None if isinstance(value, schema) else f"{where[1:]} is {value!r:.40}"
    if not isinstance(value, type(schema)):
        return f"{where[1:]} is not a {type(schema).__name__}"
    items: list[tuple[Any, Any, str]]
    if isinstance(schema, list):
        items = [(item, schema[0], f"{where}[{i}]") for i, item in enumerate(value)]
    else:
        for key in schema:
            if key != "*" and not key.endswith("?") and key not in value:
                return f"{f'{where}.{key}'[1:]} is missing"
        keys = {key.removesuffix("?"): inner for key, inner in schema.items() if key != "*"}
        items = [
            (item, keys.get(key, schema.get("*")), f"{where}.{key}")
            for key, item in value.items()
            if key in keys or "*" in schema
        ]
    errors = (_schema_error(item, inner, path) for item, inner, path in items)
    return next((error for error in errors if error is not None), None)
