"""extract: copy the part of a computation that computes given ops into a new computation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from builder.errors import BuilderError, OperandError, error_of
from builder.graph.computation import XlaComputation
from builder.graph.inlined_calls import copied_calls, needed_ops
from builder.graph.subcomputations import record_tuple
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import OpMetadata, XlaOp, with_metadata
from builder.ops.operands import need_ops
from builder.support.names import UniqueNames

_new: Final = object.__new__


def copy_op(
    op: XlaOp, operands: tuple[XlaOp, ...], builder: XlaBuilder, attributes: Mapping[str, Any]
) -> XlaOp:
    """Record a copy of `op` in `builder`, on operands of the same shapes.

    The copy has the fields that `recording.record` sets, but keeps the source line and the metadata
    of `op`.
    """
    new = _new(XlaOp)
    new.opcode = op.opcode
    new.shape = op.shape
    new.operands = operands
    new.attributes = attributes
    new.builder = builder
    new.metadata = op.metadata
    new._code = op._code
    new._lasti = op._lasti
    ops = builder.ops
    new.id = len(ops)
    ops.append(new)
    return new


def copy_parameter(op: XlaOp, name: str, number: int, builder: XlaBuilder) -> XlaOp:
    """Record a parameter in the place of `op`, with its shape, source line and metadata."""
    shape, replicated = op.shape, ()
    if op.opcode == "parameter":
        shape = op.attributes.get("shape_with_layout", shape)
        replicated = op.attributes.get("replicated_at_leaf_buffers", ())
    new = builder._add_parameter(shape, name, number, replicated)
    new.metadata = with_metadata(op.metadata, name=name)
    new._code, new._lasti = op._code, op._lasti
    return new


def merge_metadata(metadata: OpMetadata | None, defaults: OpMetadata | None) -> OpMetadata | None:
    """Return `metadata`, with entries that are missing copied from `defaults`."""
    if metadata is None or defaults is None:
        return metadata or defaults
    attributes = {**(defaults.frontend_attributes or {}), **(metadata.frontend_attributes or {})}
    missing = {
        name: value for name, value in defaults._asdict().items() if getattr(metadata, name) is None
    }
    return metadata._replace(**{**missing, "frontend_attributes": attributes or None})


def extract(
    computation: XlaComputation,
    ops: XlaOp | Sequence[XlaOp],
    *,
    inputs: XlaOp | Sequence[XlaOp] | None = None,
) -> XlaComputation:
    """Return the part of `computation` that computes `ops`; see `XlaComputation.extract`."""
    results = need_ops("extract", "op", ops)
    if not results:
        raise OperandError("at least one op is needed", got="none", op="extract")
    cuts = () if inputs is None else need_ops("extract", "input", inputs)
    for role, arguments in (("op", results), ("input", cuts)):
        for index, op in enumerate(arguments):
            if not _is_in(op, computation):
                raise _foreign_op(computation, f"{role} {index}", op)
    numbers = {op.id: index for index, op in enumerate(cuts)}
    if len(numbers) != len(cuts):
        duplicate = next(op for number, op in enumerate(cuts) if numbers[op.id] != number)
        rule = "inputs must be unique"
        raise error_of(OperandError, "extract", rule, got=f"{duplicate!r} several times")

    needed = _needed(computation, results, numbers)
    parameters = [p for p in computation.parameters if needed[p.id] and p.id not in numbers]
    numbers |= {p.id: number for number, p in enumerate(parameters, len(cuts))}
    names = [""] * len(cuts) + [str(p.name) for p in parameters]
    unique = UniqueNames(names, separator="_")
    for index, op in enumerate(cuts):
        names[index] = unique.claim(str(op.name or f"{op.opcode}_{op.id}"))

    builder = XlaBuilder(f"{computation.name}_part")
    values: dict[int, XlaOp] = {}
    for op in computation.ops:
        if op.id in numbers:
            number = numbers[op.id]
            values[op.id] = copy_parameter(op, names[number], number, builder)
        elif needed[op.id]:
            operands = tuple([values[operand.id] for operand in op.operands])
            values[op.id] = copy_op(op, operands, builder, op.attributes)
    if computation.annotations is not None:
        # The annotations of arguments and results do not apply to those of the part.
        builder.annotations = computation.annotations._replace(
            parameters=(), results=(), result_shardings=(), nesting=None
        )
    builder._sharding_form = computation._sharding_form
    by_id = values.get
    builder._inlined_calls = copied_calls(computation._inlined_calls, lambda op: by_id(op.id))
    roots = [values[op.id] for op in results]
    return builder.build(roots[0] if type(ops) is XlaOp else record_tuple(builder, roots))


def _needed(
    computation: XlaComputation, results: Sequence[XlaOp], inputs: dict[int, int]
) -> bytearray:
    """Return for each op, by id, whether computing `results` from `inputs` needs the op."""
    ops = computation.ops
    needed = bytearray(len(ops))
    for op in results:
        needed[op.id] = 1
    if computation._inlined_calls:
        given = [ops[index] for index in inputs]
        for op in needed_ops(results, computation._inlined_calls, given):
            needed[op.id] = 1
    for index in range(len(ops) - 1, -1, -1):
        if needed[index] and index not in inputs:
            for operand in ops[index].operands:
                needed[operand.id] = 1
    return needed


def _is_in(op: XlaOp, computation: XlaComputation) -> bool:
    ops = computation.ops
    return op.id < len(ops) and ops[op.id] is op


def _foreign_op(computation: XlaComputation, role: str, op: XlaOp) -> BuilderError:
    """Return the error for an op of another computation."""
    name = computation.name
    for number, called in enumerate(computation.called_computations()):
        if _is_in(op, called):
            return BuilderError(
                f"{role} must be an op of {name!r} itself",
                got=f"an op of {called.name!r}, which {name!r} applies\n  {op!r}",
                fix=f"extract the op from computation.called_computations()[{number}], or extract "
                f"the op of {name!r} that applies {called.name!r}",
                op="extract",
                shapes={role: op.shape},
            )
    return BuilderError(
        f"{role} must be an op of computation {name!r}",
        got=f"an op of builder {op.builder.name!r}\n  {op!r}",
        fix=f"use an op of this computation, such as computation.ops[{op.id}]; replace, and "
        "building the same model again, record new ops",
        op="extract",
        shapes={role: op.shape},
    )
