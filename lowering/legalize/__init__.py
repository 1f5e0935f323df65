"""What a platform lacks, said in other words before XLA compiles the module.

The module that `lowering.lower` gives, and that is saved to files, says what was recorded. Some of
its operations a platform can't execute, and some not by the ways that a client has (a CPU has no
infeed to be fed, a result of bounded size comes back in its largest size). `legalize` writes them
in other words, in a copy of the module; the rules stand in one module for each family of ops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir

from lowering import jaxlib_api
from lowering.legalize import (
    collectives as collectives,
    contraction as contraction,
    dynamic as dynamic,
    host as host,
)
from lowering.legalize.registry import REWRITES, Rewriter

__all__ = ["Legalized", "legalize"]


@dataclass(frozen=True, slots=True)
class Legalized:
    """A module as a platform can run it.

    Attributes:
        operation: the module's operation; that of the original where nothing had to be changed.
        code: its bytecode.
        callbacks: the Python functions that it calls, in the order of their indices.
    """

    operation: ir.Operation
    code: bytes
    callbacks: Sequence[Callable[..., Any]]


def legalize(
    module: ir.Module, name: str, platform: str, num_replicas: int = 1, num_partitions: int = 1
) -> Legalized:
    """A module as `platform` can run it.

    Args:
        module: a verified StableHLO module; is not changed.
        name: the computation's name, for messages.
        platform: "cpu", "gpu", "tpu".
        num_replicas, num_partitions: on how many devices it is to run.

    Raises:
        CompileError: it can't be run there as it is.
    """
    code = jaxlib_api.bytecode(module)
    table = REWRITES.get(platform, {})
    # Looked for in the bytes: walking over the operations costs a microsecond each.
    if not any(one.partition(".")[2].encode() + b"\0" in code for one in table):
        return Legalized(module.operation, code, ())
    copy = module.operation.clone()
    rewriter = Rewriter(name, platform, num_replicas, num_partitions)
    found: list[ir.Operation] = []

    def note(operation: ir.Operation) -> ir.WalkResult:
        if operation.name in table:
            found.append(operation)
        return ir.WalkResult.ADVANCE

    copy.operation.walk(note)
    for operation in found:
        table[operation.name](rewriter, operation)
    copy.operation.verify()
    return Legalized(copy.operation, jaxlib_api.bytecode(copy), rewriter.callbacks)
