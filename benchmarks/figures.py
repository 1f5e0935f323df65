"""The figures of a run, as they stand in a JSON file.

    format          1
    date, machine, versions, peer    of the run; "peer" is None without --peer-python
    quick           whether it was a quick run, which says little
    rounds          how many rounds at most
    graphs          by name: "title", "size"; "ops" (of the graph as it is written), "recorded"
                    (those of them that are recorded: what is alike is shared), "computations" and
                    "operations" (of the module); "us": for each step the spread of its microseconds
                    an op; "ratios" of the medians; "memory": bytes an op recorded, and peaks of the
                    process; "missing": why a contender has no figures
    scaling         by name: a list of the same for growing sizes, without "memory" and with fewer
                    steps
    end_to_end      a list: "graph", "size", "ops"; "ms": for "ours" and "jax" the spread of each
                    stage's milliseconds; "ratios"
    cold            a list of the same for the first build in a fresh process; other stages
    imports         by package: "ms", "cpu_ms", "over_ms": spreads; "over": what was there before;
                    "modules", with --modules: milliseconds and names of those that take longest
    packing         a list: "shape", "elements"; "ms": spreads of "pack", "unpack", "copy" and
                    "fresh" (a copy of the array to one that is there, and to a new one); "ratios"
    dispatch        a list: "arguments" and "results" (how many), "kind" (of arguments); "us": the
                    spreads of a call's microseconds for "ours", "jax" and perhaps "lowering.jit";
                    "ratios"

A part that was not measured is not there. A spread is "median", "low" and "high" (the quartiles),
"least" and "rounds". Times are divided by "ops", whoever took them, so that all are comparable.
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
    "need_folder",
    "need_writable",
    "new_figures",
    "read_entries",
    "read_figures",
    "replace",
    "write_figures",
]

FORMAT: Final = 1


class FiguresError(Exception):
    """A file holds no figures; the message says why, on one line."""


def new_figures(*, rounds: int, quick: bool, peer: dict[str, str] | None) -> dict[str, Any]:
    """Figures in which nothing has been measured yet."""
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
    """Writes a file. Numbers are cut to four digits: more would be noise."""
    replace(path, json.dumps(_cut(figures), indent=1) + "\n")


def need_writable(path: Path) -> None:
    """Raises FiguresError unless a file can be written there, whether or not there is one."""
    folder = path.resolve().parent
    if not folder.is_dir():
        raise FiguresError(f"there is no folder {folder}")
    if path.is_dir():
        raise FiguresError(f"{path} is a folder")
    need_folder(folder)


def need_folder(folder: Path) -> None:
    """Makes a folder if there is none; raises FiguresError if files can't be written into it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FiguresError(f"{folder} can't be made: {error.strerror}") from None
    try:
        with tempfile.TemporaryFile(dir=folder):  # a system of files may refuse whatever its rights
            pass
    except OSError as error:
        raise FiguresError(f"{folder} can't be written to: {error.strerror}") from None


def replace(path: Path, text: str) -> None:
    """Writes a file at once or not at all: beside it first, then in its place.

    Raises:
        FiguresError: it can't be written.
    """
    target = path.resolve()
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        if target.exists() and not target.is_file():  # such as /dev/null
            target.write_text(text, encoding="utf-8")
            return
        beside.write_text(text, encoding="utf-8")
        beside.replace(target)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        raise FiguresError(f"{path} can't be written: {error.strerror}") from None


def _cut(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _cut(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_cut(inner) for inner in value]
    if isinstance(value, float):
        return float(f"{value:.4g}")
    return value


def read_figures(path: Path) -> dict[str, Any]:
    """Reads the figures of a run.

    Raises:
        FiguresError: there is no such file, or it holds something else.
    """
    figures = _read(path)
    fault = _fault(figures, _FIGURES, "")
    if fault is not None:
        raise FiguresError(f"{path} holds no figures of a run: {fault}")
    return figures


def read_entries(path: Path) -> dict[str, Any]:
    """Reads the entries of a file of ratios, by versions.

    Raises:
        FiguresError: there is no such file, or it holds something else.
    """
    held = _read(path)
    fault = _fault(held, _RATIOS, "")
    if fault is not None:
        raise FiguresError(f"{path} holds no ratios: {fault}")
    found: dict[str, Any] = held["entries"]
    return found


def _read(path: Path) -> dict[str, Any]:
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FiguresError(f"{path} can't be read: {error.strerror}") from None
    except ValueError as error:
        raise FiguresError(f"{path} is no JSON: {error}") from None
    if not isinstance(held, dict) or held.get("format") != FORMAT:
        raise FiguresError(f"{path} holds no figures of format {FORMAT}")
    return held


# What a file must hold: of a dict the keys named (those with a "?" may be missing; "*" stands for
# any), of a list what each item is, else one of some types.
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
        {
            "graph": (str,),
            "size": (int,),
            "ops": (int,),
            "ms": dict.fromkeys(("ours", "jax"), dict.fromkeys(_STAGES, _SPREAD)),
        }
    ],
    "cold?": [
        {
            "graph": (str,),
            "size": (int,),
            "ops": (int,),
            "ms": dict.fromkeys(("ours", "jax"), dict.fromkeys(_COLD_STAGES, _SPREAD)),
            "ratios": {"*": _NUMBER},
        }
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
}
_RATIOS: Final = {
    "entries": {"*": {"date": (str,), "sizes": {"*": (int,)}, "ratios": {"*": {"*": _NUMBER}}}}
}


def _fault(value: Any, wanted: Any, where: str) -> str | None:
    """What is wrong with a value, or None."""
    if isinstance(wanted, tuple):
        return None if isinstance(value, wanted) else f"{where[1:]} is {value!r:.40}"
    kind = type(wanted)
    if not isinstance(value, kind):
        return f"{where[1:]} is no {kind.__name__}"
    inside: list[tuple[Any, Any, str]]
    if isinstance(wanted, list):
        inside = [(item, wanted[0], f"{where}[{i}]") for i, item in enumerate(value)]
    else:
        named = {key.removesuffix("?"): kept for key, kept in wanted.items() if key != "*"}
        for key in wanted:
            if key != "*" and not key.endswith("?") and key not in value:
                return f"there is no {f'{where}.{key}'[1:]}"
        inside = [
            (item, named.get(key, wanted.get("*")), f"{where}.{key}")
            for key, item in value.items()
            if key in named or "*" in wanted
        ]
    return next((fault for one in inside if (fault := _fault(*one)) is not None), None)
