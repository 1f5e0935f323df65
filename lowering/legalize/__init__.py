"""Legalization: rewrites a copy of a module for the platform that it is compiled for.

`lowering.lower` returns a module with the recorded operations, and `legalize` does not change it.
XLA compiles some operations incorrectly, and some platforms do not support others. A client of XLA
can't use some features: it can't feed the infeed of a CPU, and it receives a result of bounded size
padded to the bound. `legalize` rewrites such operations in a copy of the module. There is one
Python module of rewrites for each family of ops. Operations that can't be rewritten are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir

from lowering.errors import CompileError, recorded_at
from lowering.host.callbacks import PythonFunction
from lowering.host.debug_calls import may_debug
from lowering.jaxlib_api import mlir
from lowering.legalize import (
    artifacts as artifacts,
    collectives as collectives,
    constant_folding as constant_folding,
    contraction as contraction,
    control_flow as control_flow,
    data_movement as data_movement,
    dynamic as dynamic,
    elementwise as elementwise,
    host as host,
    indexing as indexing,
    linalg as linalg,
    normalization as normalization,
    random as random,
    reduction as reduction,
    scale_types as scale_types,
    sorting as sorting,
)
from lowering.legalize.control_flow import compare_conditions, separate_branch_shardings
from lowering.legalize.debugging import run_debug_calls
from lowering.legalize.partitions import (
    check_manual_values,
    complete_shardings,
    drop_shardings,
    has_shardings,
    make_manual,
)
from lowering.legalize.registry import ARTIFACT, Target, rewrites_for
from lowering.legalize.rows import add_device_dimension
from lowering.legalize.worklist import apply_rewrites, mentions_any
from lowering.mlir.operations import operations_in
from lowering.reading.bytecode_tables import module_strings
from lowering.sharding.frontend_shardings import check_meshes
from lowering.sharding.participants import check_participants, may_contain_collectives
from lowering.sharding.partitioning import Partitioning
from lowering.sharding.texts import check_sharding_texts

__all__ = ["Legalized", "legalize", "prepare_artifact"]


@dataclass(frozen=True, slots=True)
class Legalized:
    """A module that a platform can run.

    Attributes:
        operation: the module's operation; the original one if nothing had to change.
        code: the bytecode of this operation.
        callbacks: the Python functions that the module calls, in the order of their indices.
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
    supplied: Sequence[Callable[..., Any] | None] = (),
    in_rows: bool = False,
    partitioning: Partitioning | None = None,
) -> Legalized:
    """Return a module that `platform` can run.

    Args:
        module: a verified StableHLO module; it does not change.
        name: the computation's name, for messages.
        platform: "cpu", "gpu" or "tpu".
        num_replicas, num_partitions: the number of devices that the program runs on.
        devices: these devices, in order of replica, then of partition.
        functions: the Python functions recorded in the module.
        supplied: the Python functions that a module of jax calls by index; None for a function that
            is never called.
        in_rows: whether to add a leading dimension of size 1 to the results.
        partitioning: how XLA partitions the program; None if each partition has its own arrays.

    Raises:
        CompileError: the platform can't run the module.
    """
    code = mlir.bytecode(module)
    table = rewrites_for(platform)
    # A search of the bytecode is faster than a walk over the operations.
    strings = module_strings(code)
    check_meshes(strings, name)
    check_sharding_texts(module.operation, strings, name)
    dynamic.refuse_unbounded_sizes(module.operation, strings, name)
    bounded = dynamic.has_bounded_sizes(module.operation, strings)
    has_collectives = may_contain_collectives(strings)
    if has_collectives:
        check_participants(module.operation, name, num_replicas, num_partitions)
    if partitioning is not None and (has_collectives or b"SPMDFullToShardShape" in strings):
        check_manual_values(module.operation, name, partitioning)
    is_partitioned = num_partitions > 1
    # Other platforms ignore the shardings of a program for one partition.
    has_unused_shardings = not is_partitioned and platform == "tpu" and has_shardings(strings)
    debugs = may_debug(strings)
    always_changes = bounded or is_partitioned or in_rows or has_unused_shardings or debugs
    if not always_changes and not mentions_any(strings, table):
        return Legalized(module.operation, code, ())
    copy = module.operation.clone()
    target = Target(name, platform, num_replicas, num_partitions, devices, functions, supplied)
    target.is_partitioned = partitioning is not None
    if debugs:
        run_debug_calls(target, copy.operation, partitioning)
    changed = apply_rewrites(target, copy.operation, table)
    if not (changed or always_changes or has_collectives):
        return Legalized(module.operation, code, ())
    if b"composite\0" in strings:
        # The decompositions of composites that became calls of libraries.
        mlir.drop_unused_functions(copy.operation)
    if has_collectives and platform == "cpu" and num_replicas * num_partitions > 1:
        compare_conditions(target, copy.operation, partitioning)
    if bounded:
        dynamic.legalize_bounded(target, copy.operation)
    if in_rows:
        add_device_dimension(target, copy.operation)
    if partitioning is not None:
        separate_branch_shardings(target, copy.operation)
        complete_shardings(copy.operation, partitioning)
    elif is_partitioned:
        make_manual(copy.operation)
    elif has_unused_shardings:
        drop_shardings(copy.operation)
    try:
        copy.operation.verify()
    except ir.MLIRError as error:
        raise _invalid(module.operation, name, error) from None
    return Legalized(copy.operation, mlir.bytecode(copy), target.callbacks)


def _invalid(module: ir.Operation, name: str, error: ir.MLIRError) -> CompileError:
    """Return the error for an operation that MLIR refuses only after a rewrite.

    MLIR does not verify the sizes of CHLO's operations that broadcast their operands.
    """
    diagnostic = error.error_diagnostics[0]
    at = str(diagnostic.location)
    operations = [each for each in operations_in(module) if str(each.location) == at]
    op = operations[0].name.partition(".")[2] if operations else "compile"
    operands = ", ".join(str(operand.type) for each in operations[:1] for operand in each.operands)
    return CompileError(
        f"{op}{recorded_at(diagnostic.location)} is invalid: {diagnostic.message}",
        got=operands,
        context=("compile", name),
        fix="correct the types of the operands",
        op=op,
    )


def prepare_artifact(module: ir.Module, name: str) -> None:
    """Rewrite, in place, operations that a portable artifact can't represent.

    Args:
        module: a verified StableHLO module.
        name: the computation's name, for messages.
    """
    apply_rewrites(Target(name, ARTIFACT), module.operation, rewrites_for(ARTIFACT))
