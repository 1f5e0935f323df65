"""What a platform lacks, said in other words before XLA compiles the module.

The module that `lowering.lower` gives, and that is saved to files, says what was recorded. Some of
its operations a platform can't execute, and some not by the ways that a client has (a CPU has no
infeed to be fed, a result of bounded size comes back in its largest size). `legalize` writes them
in other words, in a copy of the module; the rules stand in one module for each family of ops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxlib.mlir import ir

from builder.frozen import frozen
from lowering import jaxlib_api
from lowering.frontend_shardings import check_meshes
from lowering.host_calls import PythonFunction
from lowering.legalize import (
    collectives as collectives,
    contraction as contraction,
    convolution as convolution,
    dynamic as dynamic,
    elementwise as elementwise,
    host as host,
    indexing as indexing,
    linalg as linalg,
    normalization as normalization,
    random as random,
    reduction as reduction,
    sorting as sorting,
)
from lowering.legalize.agreement import compare_conditions
from lowering.legalize.branches import part_branches
from lowering.legalize.ownership import check_parts
from lowering.legalize.partitions import (
    complete_shardings,
    drop_shardings,
    has_shardings,
    make_manual,
)
from lowering.legalize.registry import REWRITES, Rewriter
from lowering.legalize.rows import give_rows
from lowering.participants import are_in, check_participants
from lowering.partitioning import Partitioning
from lowering.reading.bytecode_tables import words_in

__all__ = ["Legalized", "legalize"]


@frozen
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
    module: ir.Module,
    name: str,
    platform: str,
    num_replicas: int = 1,
    num_partitions: int = 1,
    *,
    devices: Sequence[Any] = (),
    functions: Sequence[PythonFunction] = (),
    in_rows: bool = False,
    partitioning: Partitioning | None = None,
) -> Legalized:
    """A module as `platform` can run it.

    Args:
        module: a verified StableHLO module; is not changed.
        name: the computation's name, for messages.
        platform: "cpu", "gpu", "tpu".
        num_replicas, num_partitions: on how many devices it is to run.
        devices: these devices, the partitions of replica 0, those of replica 1, and so on.
        functions: the Python functions that came along with the module.
        in_rows: whether the results are given a leading dimension of size 1.
        partitioning: how XLA is to cut it up; None if each partition has arrays of its own.

    Raises:
        CompileError: it can't be run there as it is.
    """
    code = jaxlib_api.bytecode(module)
    table = REWRITES.get(platform, {})
    # Looked for in the bytes: walking over the operations costs a microsecond each.
    words = words_in(code)
    check_meshes(words, name)
    bounded = dynamic.has_bounded_sizes(module.operation, words)
    across = are_in(words)
    if across:
        check_participants(module.operation, name, num_replicas, num_partitions)
    if partitioning is not None and (across or b"SPMDFullToShardShape" in words):
        check_parts(module.operation, name)
    in_parts = num_partitions > 1
    # Elsewhere XLA takes no notice of them.
    is_sharded = not in_parts and platform == "tpu" and has_shardings(words)
    names = (one.partition(".")[2].encode() + b"\0" for one in table)
    if not (bounded or in_parts or in_rows or is_sharded) and not any(
        one in words for one in names
    ):
        return Legalized(module.operation, code, ())
    copy = module.operation.clone()
    rewriter = Rewriter(name, platform, num_replicas, num_partitions, devices, functions)
    found: list[ir.Operation] = []

    def note(operation: ir.Operation) -> ir.WalkResult:
        if operation.name in table:
            found.append(operation)
        return ir.WalkResult.ADVANCE

    copy.operation.walk(note)
    with module.context:
        for operation in found:
            table[operation.name](rewriter, operation)
    if across and platform == "cpu" and num_replicas * num_partitions > 1:
        compare_conditions(rewriter, copy.operation, partitioning)
    if bounded:
        dynamic.legalize_bounded(rewriter, copy.operation)
    if in_rows:
        give_rows(copy.operation, name)
    if partitioning is not None:
        part_branches(copy.operation)
        complete_shardings(copy.operation, partitioning)
    elif in_parts:
        make_manual(copy.operation)
    elif is_sharded:
        drop_shardings(copy.operation)
    copy.operation.verify()
    return Legalized(copy.operation, jaxlib_api.bytecode(copy), rewriter.callbacks)
