"""A module as the reference interpreter can run it; what it lacks, found before it is asked.

It ends its process when it meets an operation that it lacks, or says so in words of its own. One
walk over the module finds all of them that are known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from jaxlib.mlir import ir

from builder.graph.xla_op import XlaOp
from builder.types.shape import ArrayShape
from lowering.errors import ExecutionError, LoweringError, recorded_at
from lowering.interpreter import expansions as expansions  # registers its rewrites
from lowering.interpreter.probes import PROBED, barrier_name, probe_name
from lowering.jaxlib_api import artifacts, interpreter, mlir
from lowering.legalize.registry import INTERPRETER, Target, rewrites_for
from lowering.legalize.worklist import apply_rewrites, mentions_any
from lowering.mlir.types import shape_of_type
from lowering.reading.bytecode_tables import module_strings
from lowering.stablehlo.module import StablehloModule

__all__ = ["LACKING", "Interpretable", "interpretable", "lacks", "recorded"]

_ALONE: Final = "it runs on one device alone, without others to communicate with"
_HOST: Final = "it has no host to exchange data with"
_RANDOM: Final = "the specification leaves open which numbers are drawn"

LACKING: Final = {
    **dict.fromkeys(
        (
            *("all_gather", "all_reduce", "all_to_all", "collective_broadcast"),
            *("collective_permute", "cross-replica-sum", "reduce_scatter"),
            *("partition_id", "replica_id"),
        ),
        _ALONE,
    ),
    **dict.fromkeys(("infeed", "outfeed", "recv", "send"), _HOST),
    "rng": _RANDOM,
    "rng_bit_generator": _RANDOM,
    "custom_call": "it has no functions of others",
    "cholesky": "it has none",
    # What there is before jaxlib 0.12 dies of real operands.
    **({} if interpreter.interprets_fft() else {"fft": "it has none that works"}),
}
"""Operations that the interpreter lacks, and why."""


@dataclass(frozen=True, slots=True)
class Interpretable:
    """A module as the interpreter can run it.

    Attributes:
        code: its bytecode.
    """

    code: bytes


def interpretable(module: StablehloModule) -> Interpretable:
    """A module as the interpreter can run it.

    Raises:
        ExecutionError: it can't; names the operation, and where it was recorded.
    """
    name = module.name
    code = mlir.bytecode(module.module)
    operation = module.module.operation
    # Looked for in the bytes: walking over the operations takes longer.
    words = module_strings(code)
    if mentions_any(words, rewrites_for(INTERPRETER)):
        operation = _rewritten(operation, name)
        code = mlir.bytecode(operation)
    _check(operation, name)
    if PROBED.encode() in words:
        operation = _with_lasting_probes(operation)
        code = mlir.bytecode(operation)
    words = module_strings(code)
    if b"chlo\0" in words or b"mhlo\0" in words:  # (it may be an attribute's: that costs time only)
        try:
            source = artifacts.decomposed(operation)
        except ValueError as error:
            raise _undecomposed(operation, name, str(error)) from None
        decomposed = mlir.read_module(mlir.new_context(), source)
        _check(decomposed.operation, name)
        code = mlir.bytecode(decomposed)
    return Interpretable(code)


def lacks(op: XlaOp) -> bool:
    """Whether the interpreter lacks an op, or one in the computations that it applies."""
    names = {op.opcode}
    for called in op.called_computations:
        for one in (called, *called.called_computations()):
            names.update(inner.opcode for inner in one.ops)
    return not _OPCODES.isdisjoint(names)


_OPCODES: Final = frozenset((*LACKING, "python_call", "all_to_all_tuple"))


def recorded(op: XlaOp) -> str:
    """Where an op was recorded, for messages; or nothing."""
    return f", recorded at {op.source}" if op.source else ""


def _rewritten(operation: ir.Operation, name: str) -> ir.Operation:
    """A copy in which what the interpreter lacks is said in other words."""
    copy = operation.clone()
    apply_rewrites(Target(name, INTERPRETER), copy.operation, rewrites_for(INTERPRETER))
    copy.operation.verify()
    return copy.operation


def _with_lasting_probes(operation: ir.Operation) -> ir.Operation:
    """A copy in which probes are calls with side effects.

    A barrier that nobody takes the results of goes away when CHLO is said in other words.
    """
    copy = operation.clone()
    found: list[tuple[str, ir.Operation]] = []

    def note(one: ir.Operation) -> ir.WalkResult:
        name = barrier_name(one)
        if name is not None:
            found.append((name, one))
        return ir.WalkResult.ADVANCE

    copy.operation.walk(note)
    with operation.context:
        for name, barrier in found:
            attributes: dict[str, ir.Attribute] = {
                "call_target_name": ir.StringAttr.get(PROBED),
                "has_side_effect": ir.BoolAttr.get(True),
                "backend_config": ir.StringAttr.get(name),
            }
            ir.Operation.create(
                "stablehlo.custom_call",
                operands=list(barrier.operands),
                attributes=attributes,
                loc=barrier.location,
                ip=ir.InsertionPoint(barrier),
            )
            barrier.erase()
    return copy.operation


def _check(operation: ir.Operation, name: str) -> None:
    """Refuses what the interpreter would die of.

    Raises:
        ExecutionError: the first such operation.
    """
    # Kept, since MLIR's walk does not let exceptions through.
    errors: list[ExecutionError] = []
    seen: set[ir.Type] = set()

    def visit(one: ir.Operation) -> ir.WalkResult:
        dialect, _, spoken = one.name.partition(".")
        reason = LACKING.get(spoken) if dialect == "stablehlo" else None
        if reason is not None and probe_name(one) is None:
            errors.append(_lacking(name, spoken, one, reason))
            return ir.WalkResult.INTERRUPT
        for result in one.results:
            if result.type not in seen:
                seen.add(result.type)
                if _is_open(result.type):
                    errors.append(
                        _lacking(name, spoken, one, f"it has fixed sizes only, not {result.type}")
                    )
                    return ir.WalkResult.INTERRUPT
        return ir.WalkResult.ADVANCE

    operation.walk(visit)
    if errors:
        raise errors[0]


def _is_open(kind: ir.Type) -> bool:
    try:
        shape = shape_of_type(kind)
    except LoweringError:
        return False  # no type of XLA's: the interpreter says what it is
    return isinstance(shape, ArrayShape) and not shape.is_static


def _lacking(name: str, spoken: str, operation: ir.Operation, reason: str) -> ExecutionError:
    return ExecutionError(
        f"interpret: StableHLO's reference interpreter lacks {spoken}"
        f"{recorded_at(operation.location)} in {name}: {reason}\n"
        f"fix: run it on a device: lowering.compile",
        op=spoken,
    )


def _undecomposed(operation: ir.Operation, name: str, report: str) -> ExecutionError:
    """What to say of operations of other dialects that nobody says in StableHLO's."""
    found: list[ir.Operation] = []

    def note(one: ir.Operation) -> ir.WalkResult:
        if one.name.partition(".")[0] in ("chlo", "mhlo"):
            found.append(one)
        return ir.WalkResult.ADVANCE

    operation.walk(note)
    named = [one for one in found if one.name in report] or found
    error = _lacking(name, named[0].name, named[0], "StableHLO's operations can't say it")
    error.detail = report
    return error
