"""extract: the part of a computation that gives some of its values."""

from __future__ import annotations

from collections.abc import Sequence

from builder.errors import BuilderError, OperandError
from builder.graph.computation import XlaComputation
from builder.graph.subcomputations import record_tuple
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp, with_metadata
from builder.ops.operands import need_ops
from builder.rewriting.copying import copied, parameter_shape
from builder.support.unique_names import UniqueNames

__all__ = ["extract"]


def extract(
    computation: XlaComputation,
    ops: XlaOp | Sequence[XlaOp],
    *,
    inputs: XlaOp | Sequence[XlaOp] | None = None,
) -> XlaComputation:
    """The part of a computation that gives some values; see `XlaComputation.extract`."""
    wanted = need_ops("extract", "op", ops)
    if not wanted:
        raise OperandError("extract: at least one op is needed, got none", op="extract")
    cuts = () if inputs is None else need_ops("extract", "input", inputs)
    for role, some in (("op", wanted), ("input", cuts)):
        for index, op in enumerate(some):
            if not _is_in(op, computation):
                raise _foreign(computation, f"{role} {index}", op)
    numbers = {op.id: number for number, op in enumerate(cuts)}
    if len(numbers) != len(cuts):
        twice = next(op for number, op in enumerate(cuts) if numbers[op.id] != number)
        raise OperandError(
            f"extract: an op can be one input only, got {twice!r} several times", op="extract"
        )

    needed = _needed(computation, wanted, numbers)
    reached = [p for p in computation.parameters if needed[p.id] and p.id not in numbers]
    numbers |= {p.id: number for number, p in enumerate(reached, len(cuts))}
    names = [""] * len(cuts) + [str(p.name) for p in reached]
    unique = UniqueNames(names, separator="_")
    for number, op in enumerate(cuts):
        names[number] = unique.claim(str(op.name or f"{op.opcode}_{op.id}"))

    builder = XlaBuilder(f"{computation.name}_part")
    values: dict[int, XlaOp] = {}
    for op in computation.ops:
        key = op.id
        if key in numbers:
            shape = parameter_shape(op) if op.opcode == "parameter" else op.shape
            new = builder.add_parameter(shape, names[numbers[key]], numbers[key])
            new.metadata = with_metadata(op.metadata, name=new.name)
            new.code, new.lasti = op.code, op.lasti
            values[key] = new
        elif needed[key]:
            inside = tuple([values[operand.id] for operand in op.operands])
            values[key] = copied(op, inside, builder, op.attributes)
    if computation.annotations is not None:
        # Of arguments and results there are others now.
        builder.annotations = computation.annotations._replace(
            parameters=(), results=(), result_shardings=()
        )
    builder.sharding_form = computation.sharding_form
    results = [values[op.id] for op in wanted]
    return builder.build(results[0] if type(ops) is XlaOp else record_tuple(builder, results))


def _needed(computation: XlaComputation, wanted: Sequence[XlaOp], cut: dict[int, int]) -> bytearray:
    """For each op whether the wanted ones depend on it, not looking behind those of `cut`."""
    ops = computation.ops
    needed = bytearray(len(ops))
    for op in wanted:
        needed[op.id] = 1
    for index in range(max(op.id for op in wanted), -1, -1):
        if needed[index] and index not in cut:
            for operand in ops[index].operands:
                needed[operand.id] = 1
    return needed


def _is_in(op: XlaOp, computation: XlaComputation) -> bool:
    ops = computation.ops
    return op.id < len(ops) and ops[op.id] is op


def _foreign(computation: XlaComputation, role: str, op: XlaOp) -> BuilderError:
    """The error for an op that stands elsewhere."""
    name = computation.name
    for number, one in enumerate(computation.called_computations()):
        if _is_in(op, one):
            return BuilderError(
                f"extract: {role} stands in {one.name!r}, which {name!r} applies, and not in "
                f"{name!r} itself, got\n  {op!r}\n"
                f"fix: extract it from there, computation.called_computations()[{number}]; or the "
                f"op that applies it",
                op="extract",
                shapes={role: op.shape},
            )
    return BuilderError(
        f"extract: {role} belongs to builder {op.builder.name!r}, and not to computation "
        f"{name!r}, got\n  {op!r}\n"
        f"fix: take it from this computation, computation.ops[{op.id}] for instance; ops of what "
        f"replace gave, or of the same model built again, are others",
        op="extract",
        shapes={role: op.shape},
    )
