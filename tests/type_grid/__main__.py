"""Load, compile and run each module of the grid, and write the outcomes.

    python -m tests.type_grid --seconds 900

A forked process handles many modules. If it ends or takes too long, the module is tried again in a
fresh process. The exit status is 1 if there are defects: other outcomes than those of
`outcomes.LETTERS`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

import numpy as np

import builder as xb
import lowering
from tests.type_grid.cases import (
    CASES,
    ELEMENT_TYPES,
    Case,
    malformed_cases,
    modules,
    text_of,
)
from tests.type_grid.outcomes import LETTERS, read_table, write_table

_SECONDS: Final = 60
"""The time limit for a module."""

_BATCH: Final = 400
"""The number of modules in a process."""

Key = tuple[str, str, bool]
"""A case, an element type, and whether the operands are constants."""


@cache
def _all_cases() -> dict[str, Case]:
    return CASES | malformed_cases()


def outcome(key: Key) -> str:
    """Return a letter of `LETTERS`, or a description of the defect."""
    name, type_name, constant = key
    case = _all_cases()[name]
    try:
        module = lowering.load_bytes(text_of(case, ELEMENT_TYPES[type_name], constant=constant))
    except lowering.ModuleFileError:
        return "-"
    counts = {"num_replicas": case.replicas, "num_partitions": case.partitions}
    shapes = module.program_shape.parameters
    try:
        program = lowering.compile(module, "cpu", **counts)
        devices = case.replicas * case.partitions
        arrays = [np.ones(shape.dimensions, shape.element_type.dtype) for shape in shapes]
        result = program(*arrays if devices == 1 else ([a] * devices for a in arrays))
        for leaf in result if isinstance(result, (tuple, list)) else [result]:
            np.asarray(leaf)
    except lowering.CompileError as error:
        if "recorded at" in str(error) and error.op != "compile":
            return "d" if "must have" in error.rule else "c"
        return f"does not name the operation: {error}"
    except (xb.XlaError, Exception) as error:
        return f"{type(error).__name__}: {error}"
    return "r"


def outcomes(keys: Sequence[Key]) -> Iterator[tuple[Key, str]]:
    """Yield the outcome of each module, computed in forked processes."""
    position, size = 0, _BATCH
    while position < len(keys):
        batch = keys[position : position + size]
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            _answer(batch, writing)
        os.close(writing)
        count = 0
        with os.fdopen(reading) as answers:
            for key, line in zip(batch, answers, strict=False):
                yield key, json.loads(line)
                count += 1
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        position += count
        if count < len(batch) and size == 1:
            yield keys[position], f"ends the process: {signal.Signals(-status).name}"
            position += 1
        size = 1 if count < len(batch) and size > 1 else _BATCH


def _answer(batch: Sequence[Key], writing: int) -> None:
    """Write the outcomes to a pipe, and end this process."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    with os.fdopen(writing, "w") as answers:
        for key in batch:
            signal.alarm(_SECONDS)  # ends the process, wherever it is
            answers.write(json.dumps(outcome(key)) + "\n")
            answers.flush()
    os._exit(0)


def main() -> int:
    """Run the grid and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.type_grid", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0, help="the time limit (3600)")
    parser.add_argument("--only", default="", help="a text in the names of the cases to run")
    parser.add_argument("--missing", action="store_true", help="only what is not measured yet")
    parser.add_argument(
        "--constants", action="store_true", help="use constants as operands; writes no table"
    )
    parser.add_argument(
        "--malformed",
        action="store_true",
        help="replace integers, operands and results; writes no table",
    )
    options = parser.parse_args()
    # XLA reads the number of devices when a child starts it.
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
    lowering.compile  # noqa: B018  (imported once, before the forks)
    table = read_table()
    all_keys = [(name, element_type.name, constant) for name, element_type, constant in modules()]
    if options.malformed:
        all_keys = [(name, "f32", options.constants) for name in malformed_cases()]
    keys = [key for key in all_keys if options.only in key[0] and key[2] == options.constants]
    if options.missing:
        keys = [key for key in keys if table.get(key[:2], ".") == "."]
    end = time.monotonic() + options.seconds
    has_defect = False
    found = itertools.takewhile(lambda _: time.monotonic() < end, outcomes(keys))
    for number, (key, letter) in enumerate(found):
        if letter not in LETTERS:
            has_defect = True
            print(*key[:2], "constants" if key[2] else "", letter, flush=True)
        elif key[0] in CASES and not options.constants:
            table[key[:2]] = letter
        if number % 500 == 0:
            print(f"{number} of {len(keys)} modules", flush=True)
    write_table(table)
    return 1 if has_defect else 0


if __name__ == "__main__":
    sys.exit(main())
