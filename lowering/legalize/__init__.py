"""Legalization: a copy of a module, rewritten for the platform that it is compiled for.

The module that `lowering.lower` gives, and that is saved to files, is what was recorded. XLA
compiles some of its operations wrongly, a platform may have no code for others, and some can't be
used through a client (a CPU has no infeed to be fed, a result of bounded size comes back in its
largest size). `legalize` rewrites these in a copy. The rewrites are in one module for each family
of ops; what can't be rewritten is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir

from lowering.host.callbacks import PythonFunction
from lowering.jaxlib_api import mlir
from lowering.legalize import (
    artifacts as artifacts,
    bitcasts as bitcasts,
    collectives as collectives,
    constants as constants,
    contraction as contraction,
    control_flow as control_flow,
    convolution as convolution,
    data_movement as data_movement,
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
from lowering.legalize.registry import ARTIFACT, Target, rewrites_for
from lowering.legalize.rows import give_rows
from lowering.legalize.worklist import apply_rewrites, mentions_any
from lowering.reading.bytecode_tables import module_strings
from lowering.sharding.frontend_shardings import check_meshes
from lowering.sharding.participants import check_participants, may_contain_collectives
from lowering.sharding.partitioning import Partitioning

__all__ = ["Legalized", "legalize", "prepare_artifact"]


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
    code = mlir.bytecode(module)
    table = rewrites_for(platform)
    # Looked for in the bytes: walking over the operations costs a microsecond each.
    words = module_strings(code)
    check_meshes(words, name)
    bounded = dynamic.has_bounded_sizes(module.operation, words)
    across = may_contain_collectives(words)
    if across:
        check_participants(module.operation, name, num_replicas, num_partitions)
    if partitioning is not None and (across or b"SPMDFullToShardShape" in words):
        check_parts(module.operation, name)
    in_parts = num_partitions > 1
    # Elsewhere XLA takes no notice of them.
    is_sharded = not in_parts and platform == "tpu" and has_shardings(words)
    changes_anyway = bounded or in_parts or in_rows or is_sharded
    if not changes_anyway and not mentions_any(words, table):
        return Legalized(module.operation, code, ())
    copy = module.operation.clone()
    target = Target(name, platform, num_replicas, num_partitions, devices, functions)
    changed = apply_rewrites(target, copy.operation, table)
    if not (changed or changes_anyway or across):
        return Legalized(module.operation, code, ())
    if across and platform == "cpu" and num_replicas * num_partitions > 1:
        compare_conditions(target, copy.operation, partitioning)
    if bounded:
        dynamic.legalize_bounded(target, copy.operation)
    if in_rows:
        give_rows(target, copy.operation)
    if partitioning is not None:
        part_branches(target, copy.operation)
        complete_shardings(copy.operation, partitioning)
    elif in_parts:
        make_manual(copy.operation)
    elif is_sharded:
        drop_shardings(copy.operation)
    copy.operation.verify()
    return Legalized(copy.operation, mlir.bytecode(copy), target.callbacks)


def prepare_artifact(module: ir.Module, name: str) -> None:
    """Rewrite, in place, operations that a portable artifact has no form for.

    Args:
        module: a verified StableHLO module.
        name: the computation's name, for messages.
    """
    apply_rewrites(Target(name, ARTIFACT), module.operation, rewrites_for(ARTIFACT))
