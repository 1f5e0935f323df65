"""Recording an op again, in its place, so that it returns what its derivative needs.

The derivative of a loop needs the values of each iteration. The loop that was recorded does not
return them, so it is replaced, in the open builder, by one that does. The handles of users stay
valid: the `XlaOp` of the loop becomes the part of the new results that it was before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from builder.graph.computation import XlaComputation
from builder.graph.inlined_calls import InlinedCall
from builder.graph.subcomputations import record_tuple
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import NO_ATTRIBUTES, XlaOp, with_metadata
from builder.ops.control_flow import get_tuple_element
from builder.rewriting.inlining import inlined_ops
from builder.types.shape import ArrayShape, Shape, TupleShape
from lowering.jax_interop.applying import set_line
from lowering.jax_interop.inlined_calls import RECORDED_AGAIN
from lowering.jax_interop.pullbacks import Unit, arrays_in


def array_of_value(op: XlaOp, number: int) -> XlaOp:
    """Return the op of an array in a value, by its number; elements of tuples may be recorded."""
    while isinstance(op.shape, TupleShape):
        index = 0
        for element in op.shape.elements:
            count = len(arrays_in([element]))
            if number < count:
                break
            number -= count
            index += 1
        op = op.operands[index] if op.opcode == "tuple" else get_tuple_element(op, index)
    return op


def record_with_residuals(unit: Unit, forward: XlaComputation) -> list[XlaOp]:
    """Replace the op or the inlined call of a unit; return the ops of the residuals.

    Args:
        unit: the unit.
        forward: a computation of the arrays of its operands; it returns the arrays of its results,
            and then the residuals.
    """
    builder = unit.op.builder
    ops = builder.ops
    end, calls = len(ops), len(builder._inlined_calls)
    arrays = [
        array_of_value(operand, number)
        for operand in unit.operands
        for number in range(len(arrays_in([operand.shape])))
    ]
    root = forward.root
    is_tuple = isinstance(root.shape, TupleShape)
    needed = [op for op in forward.ops if not (is_tuple and op is root)]
    metadata = builder._current_metadata
    # The blocks in force are those of the call of `gradients`, not of the op.
    unchanged: Any = {"name": None, "others": None, "op_type": None, "source": None, "scope": None}
    builder._current_metadata = with_metadata(unit.op.metadata, **unchanged)
    try:
        values = inlined_ops(forward, tuple(arrays), builder, needed, {})
    finally:
        builder._current_metadata = metadata
    found = [values[op] for op in (root.operands if is_tuple else (root,))]
    count = len(arrays_in([op.shape for op in unit.results]))
    results, residuals = found[:count], found[count:]
    remaining = iter(results)
    for op in unit.results:
        if isinstance(op.shape, ArrayShape):
            _become_element(op, next(remaining), builder)
        else:
            _become_tuple(op, remaining, builder)
    new = ops[end:]
    if unit.op._code is not None:
        set_line(new, unit.op._code, unit.op._lasti)
    moved = set(unit.results)
    first = min(op.id for op in unit.results)
    removed = _unused_members(unit, ops[:end])
    before = [op for op in ops[:first] if op not in removed]
    after = [op for op in ops[first:end] if op not in moved and op not in removed]
    ops[:] = [*before, *new, *unit.results, *after]
    for number, op in enumerate(ops):
        op.id = number
    builder._inlined_calls.append(InlinedCall(RECORDED_AGAIN, tuple(arrays), tuple(found)))
    if unit.call is not None:
        gone = moved | removed
        builder._inlined_calls[:calls] = [
            c
            for c in builder._inlined_calls[:calls]
            if not any(op in gone for op in c.results if op is not None)
        ]
        if unit.call.function.primitive.name.startswith("custom_"):
            # The new ops are those of its forward rule, and have another derivative. (Loops and
            # branches have inlined calls of their own.)
            whole = InlinedCall(unit.call.function, unit.call.operands, unit.call.results)
            builder._inlined_calls.append(whole)
        retired = XlaBuilder(f"{builder.name}, before gradients")
        retired.built, retired._is_open = True, False
        for op in removed:
            op.builder = retired
    return residuals


def _become_element(op: XlaOp, value: XlaOp, builder: XlaBuilder) -> None:
    """Turn an op in place into an op that returns `value`, of the same shape."""
    tuple_op = record_tuple(builder, [value])
    op.opcode, op.operands = "get_tuple_element", (tuple_op,)
    op.attributes = {"index": 0}


def _become_tuple(op: XlaOp, values: Iterator[XlaOp], builder: XlaBuilder) -> None:
    """Turn an op in place into a tuple of the next values, nested as before."""
    shape = op.shape
    assert isinstance(shape, TupleShape)
    operands = tuple([nested_op(builder, element, values) for element in shape.elements])
    op.opcode, op.operands, op.attributes = "tuple", operands, NO_ATTRIBUTES


def nested_op(builder: XlaBuilder, shape: Shape, arrays: Iterator[XlaOp]) -> XlaOp:
    """Return an op of `shape`: the next array, or a tuple of the next ones."""
    if not isinstance(shape, TupleShape):
        return next(arrays)
    return record_tuple(builder, [nested_op(builder, each, arrays) for each in shape.elements])


def _unused_members(unit: Unit, ops: list[XlaOp]) -> set[XlaOp]:
    """Return the ops of an inlined call that nothing uses once its results are replaced."""
    if unit.call is None:
        return set()
    candidates = set(unit.call.members).difference(unit.results)
    used = {operand for op in ops if op not in candidates for operand in op.operands}
    for op in reversed(unit.call.members):
        if op in candidates and (op in used or op.attributes.get("has_side_effect")):
            candidates.discard(op)
            used.update(op.operands)
    return candidates
