"""Programs in a worker that compiles them without this library's rewrites."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np

import lowering
from lowering.faults.predicates import arguments_in, npz_of_arguments
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
        results = lowering.compile(module, "cpu")(
            *arguments_in(module.program_shape, Path(path).with_suffix(".npz"))
        )
    except lowering.CompileError as error:
        return str(error)
    leaves = [np.asarray(leaf).tobytes().hex() for leaf in jax.tree.leaves(results)]
    Path(path).with_suffix(".results").write_text("\n".join(leaves))
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
        content = npz_of_arguments(computation.program_shape, arguments)
        self.path.with_suffix(".npz").write_bytes(content)
        message, reason = self.worker.ask(str(self.path))
        if reason or message:
            return True
        results = self.path.with_suffix(".results").read_text().split("\n")
        return results != [np.asarray(leaf).tobytes().hex() for leaf in expected]
