"""Programs in a worker that compiles them without this library's rewrites."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np

import lowering
from lowering.faults.predicates import read_arguments, write_arguments
from lowering.legalize import bounded_ops, registry
from lowering.legalize.loaded_modules import accepted_types
from lowering.running.worker_process import WorkerProcess


def answer(path: str) -> str:
    """Run a program of a file; write the results, or return the message of the error."""
    if registry.REWRITES:
        lowering.compile  # noqa: B018  # loads all modules that register rewrites
        accepted_types("cpu")  # cached: the checks accept the types for which rewrites are defined
        registry.REWRITES.clear()
        registry.REFUSALS.clear()
        bounded_ops.BOUNDED.clear()
    module = lowering.load_bytes(Path(path).with_suffix(".mlirbc").read_bytes())
    try:
        results = lowering.compile(module, "cpu")(*read_arguments(Path(path).with_suffix(".npz")))
    except lowering.CompileError as error:
        return str(error)
    write_arguments(Path(path).with_suffix(".results.npz"), jax.tree.leaves(results))
    return ""


class PlainXla:
    """The predicate that XLA ends the process, refuses a program, or has other results."""

    needs_values = True

    def __init__(self, folder: Path) -> None:
        self.worker = WorkerProcess(answer, 20)
        self.path = folder / "program"

    def __call__(self, computation: Any, /, *arguments: Any) -> bool:
        try:
            expected = jax.tree.leaves(lowering.compile(computation, "cpu")(*arguments))
        except lowering.CompileError:
            return False  # refused here
        self.path.with_suffix(".mlirbc").write_bytes(lowering.lower(computation).bytecode)
        write_arguments(self.path.with_suffix(".npz"), arguments)
        message, reason = self.worker.ask(str(self.path))
        if reason or message:
            return True
        results = read_arguments(self.path.with_suffix(".results.npz"))
        pairs = zip(results, expected, strict=True)
        return any(np.asarray(a).tobytes() != np.asarray(b).tobytes() for a, b in pairs)
