"""Prepare a module for the reference interpreter, and find what the interpreter does not support.

The interpreter aborts its process on an unsupported operation. One walk over the module finds all
operations that are known to be unsupported. Some are expanded, by the StableHLO specification.
Operations of CHLO are decomposed by jaxlib instead; see `artifacts.decomposed`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from jaxlib.mlir import ir

from builder.graph.computation import is_debug_call
from builder.graph.xla_op import XlaOp
from builder.schema import SCHEMAS
from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape, TupleShape
from lowering.errors import ExecutionError, LoweringError, recorded_at
from lowering.host.debug_calls import (
    debug_calls,
    debug_function,
    may_debug,
    operand_shapes,
)
from lowering.interpreter.probes import PROBE, barrier_name, probe_name
from lowering.jaxlib_api import artifacts, mlir
from lowering.legalize.constant_folding import signed_indices
from lowering.legalize.linalg import has_full_lengths
from lowering.legalize.op_builder import OpBuilder, array_of
from lowering.legalize.registry import INTERPRETER, Target, Value, rewrite, rewrites_for
from lowering.legalize.worklist import apply_rewrites, mentions_any
from lowering.mlir.operations import main_function, operations_in, operations_where
from lowering.mlir.types import shape_of_type
from lowering.portable.expanding import recorded_code
from lowering.portable.normalization import BATCH_NORMS
from lowering.reading.bytecode_tables import module_strings
from lowering.sharding.participants import COLLECTIVES
from lowering.stablehlo.module import StablehloModule

_NO_DEVICES: Final = "the interpreter runs on one device, without communication"
_NO_HOST: Final = "the interpreter can't exchange data with a host"
_RANDOM: Final = "the StableHLO specification does not define the random numbers"

UNSUPPORTED: Final = {
    **dict.fromkeys(COLLECTIVES, _NO_DEVICES),
    "stablehlo.cross-replica-sum": _NO_DEVICES,
    "stablehlo.partition_id": _NO_DEVICES,
    "stablehlo.replica_id": _NO_DEVICES,
    "stablehlo.infeed": _NO_HOST,
    "stablehlo.outfeed": _NO_HOST,
    "stablehlo.recv": _NO_HOST,
    "stablehlo.send": _NO_HOST,
    "stablehlo.rng": _RANDOM,
    "stablehlo.rng_bit_generator": _RANDOM,
    "stablehlo.custom_call": "the interpreter can't call custom functions",
    "stablehlo.cholesky": "the interpreter does not implement cholesky",
    "stablehlo.real_dynamic_slice": "the interpreter does not implement real_dynamic_slice",
}
"""The reason why the interpreter does not support an operation, by operation name."""


@dataclass(frozen=True, slots=True, eq=False)
class DebugCall:
    """A print or a check, whose operands the interpreter's process reports.

    Attributes:
        run: prints or checks arrays; see `debug_function`.
        operands: the operands, as a tuple.
        pieces: the number of byte strings that each execution reports.
    """

    run: Callable[[Sequence[Any], str], None]
    operands: TupleShape
    pieces: int


def interpreter_bytecode(module: StablehloModule) -> tuple[bytes, dict[str, DebugCall]]:
    """Return the bytecode of a module, expanded to operations that the interpreter supports.

    The prints and checks are probes, and are returned too, by the names of these probes.

    Raises:
        ExecutionError: the interpreter does not support an operation; the message names the
            operation and its source line.
    """
    name = module.name
    code = mlir.bytecode(module.module)
    operation = module.module.operation
    # Searching the bytecode is faster than walking over the operations.
    strings = module_strings(code)
    if mentions_any(strings, rewrites_for(INTERPRETER)):
        operation = operation.clone().operation
        apply_rewrites(Target(name, INTERPRETER), operation, rewrites_for(INTERPRETER))
        operation.verify()
        code = mlir.bytecode(operation)
    calls: dict[str, DebugCall] = {}
    if may_debug(strings):
        operation = operation.clone().operation
        calls = _report_debug_calls(operation, name)
        code = mlir.bytecode(operation)
    _check(operation, name)
    if PROBE.encode() in strings:
        operation = _with_probe_calls(operation)
        code = mlir.bytecode(operation)
    strings = module_strings(code)
    if b"chlo\0" in strings or b"mhlo\0" in strings:  # possibly of an attribute only
        try:
            source = artifacts.decomposed(operation)
        except ValueError as error:
            raise _undecomposed(operation, name, str(error)) from None
        decomposed = mlir.read_module(mlir.new_context(), source)
        _check(decomposed.operation, name)
        code = mlir.bytecode(decomposed)
    return code, calls


def is_unsupported(op: XlaOp) -> bool:
    """Return True if the interpreter can't run an op, or an op of the computations it applies."""
    called = op.called_computations
    parts = chain(called, *(part.called_computations() for part in called))
    every = chain((op,), *(part.ops for part in parts))
    opcodes = {each.opcode for each in every if not is_debug_call(each)}
    return any(SCHEMAS[opcode].stablehlo in UNSUPPORTED for opcode in opcodes)


def _report_debug_calls(module: ir.Operation, name: str) -> dict[str, DebugCall]:
    """Replace prints and checks by probes, in place; return them by the names of the probes."""
    calls: dict[str, DebugCall] = {}
    for call in debug_calls(module):
        run = debug_function(call, name)
        shapes = operand_shapes(call)
        pieces = sum(2 if shape.element_type.is_complex else 1 for shape in shapes)
        probe = f"debug:{len(calls)}"
        calls[probe] = DebugCall(run, TupleShape(shapes), pieces)
        with module.context:
            call.attributes["call_target_name"] = ir.StringAttr.get(PROBE)
            call.attributes["backend_config"] = ir.StringAttr.get(probe)
        del call.attributes["api_version"]
    return calls


def _with_probe_calls(operation: ir.Operation) -> ir.Operation:
    """Return a copy of a module in which each probe is a custom call with side effects.

    A probe is recorded as an optimization_barrier whose result has no uses. jaxlib would remove
    such a barrier when it decomposes CHLO.
    """
    copy = operation.clone().operation
    with operation.context:
        for barrier in operations_where(copy, lambda each: barrier_name(each) is not None):
            attributes: dict[str, ir.Attribute] = {
                "call_target_name": ir.StringAttr.get(PROBE),
                "has_side_effect": ir.BoolAttr.get(True),
                "backend_config": ir.StringAttr.get(barrier_name(barrier) or ""),
            }
            ir.Operation.create(
                "stablehlo.custom_call",
                operands=list(barrier.operands),
                attributes=attributes,
                loc=barrier.location,
                ip=ir.InsertionPoint(barrier),
            )
            barrier.erase()
    return copy


def _check(operation: ir.Operation, name: str) -> None:
    """Refuse operations that would abort the interpreter.

    Raises:
        ExecutionError: the module has such an operation; the message names the first one.
    """
    checked: set[ir.Type] = set()
    for each in operations_in(operation):
        reason = UNSUPPORTED.get(each.name)
        if reason is not None and probe_name(each) is not None:
            reason = None
        for result_type in {result.type for result in each.results} - checked:
            checked.add(result_type)
            if reason is None and _is_dynamic(result_type):
                reason = f"the interpreter supports static sizes only, got {result_type}"
        if reason is not None:
            raise _unsupported(name, each.name.partition(".")[2], each, reason)


def _is_dynamic(value_type: ir.Type) -> bool:
    try:
        shape = shape_of_type(value_type)
    except LoweringError:
        return False  # not a type of XLA's; the interpreter reports it
    return isinstance(shape, ArrayShape) and not shape.is_static


def _unsupported(name: str, op: str, operation: ir.Operation, reason: str) -> ExecutionError:
    return ExecutionError(
        f"StableHLO's reference interpreter does not support {op}"
        f"{recorded_at(operation.location)} in {name}: {reason}",
        context=("interpret",),
        fix="run the computation on a device with lowering.compile",
        op=op,
    )


def _undecomposed(operation: ir.Operation, name: str, report: str) -> ExecutionError:
    """Return the error for a CHLO or MHLO operation that jaxlib can't decompose to StableHLO."""
    candidates = operations_where(
        operation, lambda each: each.name.partition(".")[0] in ("chlo", "mhlo")
    )
    blamed = next((each for each in candidates if each.name in report), candidates[0])
    reason = "jaxlib can't decompose this operation into StableHLO operations"
    error = _unsupported(name, blamed.name, blamed, reason)
    error.detail = report
    return error


@rewrite("sdy.sharding_constraint", platforms=(INTERPRETER,))
def sharding_constraint(_: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Replace a sharding constraint by its operand: a sharding does not change the elements."""
    return list(operation.operands)


@rewrite("stablehlo.scatter", platforms=(INTERPRETER,))
def scatter_at_unsigned_indices(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Convert a scatter's unsigned indices to signed: the interpreter treats all as signed."""
    operands = list(operation.operands)
    place = len(operands) // 2
    element_type = b.array_of(operands[place]).element_type
    if element_type.is_signed:
        return None
    operands[place] = signed_indices(b, operands[place])
    return list(b.like(operation, operands).results)


@rewrite("stablehlo.ceil", "stablehlo.floor", platforms=(INTERPRETER,))
def rounding_up_or_down_of_f8e3m4(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Compute ceil and floor of f8e3m4 in f32: the interpreter's f8e3m4 result is mostly NaN."""
    return b.in_types(operation, {pt.f8e3m4: pt.f32})


@rewrite("stablehlo.fft", platforms=(INTERPRETER,))
def fft_of_single_precision(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Transform in c128: the error of a transform in c64 grows with its length."""
    return b.in_types(operation, {pt.f32: pt.f64, pt.c64: pt.c128})


@rewrite("stablehlo.fft", "stablehlo.triangular_solve", *BATCH_NORMS, platforms=(INTERPRETER,))
def by_other_operations(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Expand an operation as for readers that lack it.

    The interpreter does not implement batch normalization, and aborts on batches of triangular
    systems. It adds up all terms of a Fourier transform, so that the error grows with the length;
    before jaxlib 0.12 it also fails on real numbers.
    """
    operand = array_of(operation.operands[0])
    if operation.name == "stablehlo.triangular_solve" and operand.rank == 2:
        return None
    if not all(array_of(value).is_static for value in (*operation.operands, *operation.results)):
        return None
    if operation.name == "stablehlo.fft" and not has_full_lengths(operation):
        return None
    expansion = mlir.read_module(b.context, recorded_code(operation))
    return b.inline(main_function(expansion.operation), 0, list(operation.operands))
