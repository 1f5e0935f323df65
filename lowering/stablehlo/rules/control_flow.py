"""Tuples, calls, loops and branches in StableHLO. The value of a tuple is a list; see `emitter`."""

from __future__ import annotations

import builtins
from functools import partial
from itertools import starmap
from typing import TYPE_CHECKING, Final

from builder.errors import error_of
from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.schema import SCHEMAS
from builder.types import primitive_type as pt
from builder.types.shape import (
    UNBOUNDED,
    ArrayShape,
    Shape,
    TokenShape,
    TupleShape,
    intern_array,
    leaves,
)
from lowering.errors import LoweringError
from lowering.mlir.attributes import i64_array
from lowering.mlir.flattening import flatten, unflatten
from lowering.stablehlo.rules.common import as_array, compared, dictionary_text, filled
from lowering.stablehlo.rules.dynamic import resized
from lowering.stablehlo.rules.registry import Region, Value, call_attributes, check, rule

if TYPE_CHECKING:
    from lowering.stablehlo.emitter import Emitter


@rule("tuple")
def tuple(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    return operands


@rule("get_tuple_element")
def get_tuple_element(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    return operands[0][op.attributes["index"]]


@rule("optimization_barrier")
def optimization_barrier(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    values = flatten(operands)
    if not values:
        return operands[0]
    return ctx.value("stablehlo.optimization_barrier", op.shape, values)


def _need_same(
    op: XlaOp, what: str, shape: Shape, expected: Shape, computation: XlaComputation
) -> None:
    """Check that a value has the shape that a computation requires, or can be converted to it.

    XLA and shape inference compare only sizes. StableHLO also requires that both sizes are bounded,
    or both static. A value can be converted if sizes differ only where one of them is unbounded.
    """
    if shape is expected:
        return
    if not all(starmap(_is_convertible, zip(leaves(shape), leaves(expected), strict=True))):
        raise error_of(
            LoweringError,
            op.opcode,
            f"{what} must be {expected} for {computation.name!r}, got {shape}: in StableHLO both "
            "sizes must be bounded, or both static",
            f"use values of shape {expected}",
            shapes={"got": shape, "expected": expected},
        )


def _is_convertible(shape: ArrayShape | TokenShape, expected: ArrayShape | TokenShape) -> bool:
    """Return whether the sizes of two shapes differ only where one of them is unbounded."""
    if not isinstance(shape, ArrayShape) or not isinstance(expected, ArrayShape):
        return shape is expected
    ours = zip(shape.dimensions, shape.dynamic_dimensions, strict=True)
    theirs = zip(expected.dimensions, expected.dynamic_dimensions, strict=True)
    pairs = zip(ours, theirs, strict=True)
    return all(one == other or UNBOUNDED in (one[0], other[0]) for one, other in pairs)


def _converted(ctx: Emitter, value: Value, shape: Shape, expected: Shape) -> Value:
    """Emit the conversion of a value to a shape that `_need_same` has checked."""
    if shape is expected:
        return value
    pairs = zip(flatten([value]), leaves(shape), leaves(expected), strict=True)
    values = [
        one if old is new else resized(ctx, one, as_array(old), as_array(new))
        for one, old, new in pairs
    ]
    return unflatten(expected, iter(values))


@rule("call")
def call(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """Emit a call with the operands in the shapes of the parameters."""
    computation: XlaComputation = op.attributes["to_apply"]
    arguments = []
    pairs = zip(op.operands, operands, computation.parameters, strict=True)
    for number, (operand, value, parameter) in enumerate(pairs):
        if operand.shape is not parameter.shape:
            _need_same(op, f"operand {number}", operand.shape, parameter.shape, computation)
            value = _converted(ctx, value, operand.shape, parameter.shape)
        arguments.append(value)
    name = SCHEMAS[op.opcode].stablehlo
    return ctx.value(name, op.shape, flatten(arguments), call_attributes(ctx, op))


@rule("composite")
def composite(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    fix = "pass attributes={name: value, ...}"
    dictionary_text(op, "attributes", op.attributes["composite_attributes"], fix)
    return call(ctx, op, operands)


@rule("scan")
def scan(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """Emit a loop that counts the steps.

    CHLO has a scan, but portable artifacts do not support it. A loop without steps is not emitted:
    its body would slice empty arrays, which StableHLO's verifier refuses.
    """
    assert isinstance(op.shape, TupleShape)  # checked by inference
    for number, operand in enumerate(op.operands):
        if not operand.shape.is_static:
            rule = f"operand {number} must have static sizes, like the outputs, got {operand.shape}"
            fix = "remove the bounds with xb.remove_dynamic_dimension"
            raise error_of(LoweringError, "scan", rule, fix, shapes={"operand": operand.shape})
    num_inputs = _num_inputs(op)
    output_shapes = _outputs(op)
    outputs = [filled(ctx, shape, 0) for shape in output_shapes]
    inits = operands[num_inputs:]
    if not _steps(op):
        return [*outputs, *inits]
    carries = op.shape.elements[len(outputs) :]
    for carry, init in zip(carries, op.operands[num_inputs:], strict=True):
        _need_same(op, "a carry", init.shape, carry, op.attributes["to_apply"])
    inputs = [operand.shape for operand in op.operands[:num_inputs]]
    state = (_COUNT, *inputs, *op.shape.elements)
    arguments = [filled(ctx, _COUNT, 0), *operands[:num_inputs], *outputs, *inits]
    regions = [
        Region(state, lambda values: [_scan_condition(ctx, op, values[0])]),
        Region(state, lambda values: _scan_step(ctx, op, values)),
    ]
    results = ctx.value("stablehlo.while", TupleShape(state), arguments, None, regions)
    return results[1 + num_inputs :]


_COUNT: Final = intern_array(pt.s32, ())


def _num_inputs(op: XlaOp) -> int:
    count: int = op.attributes["num_carries"]
    return len(op.operands) - count


def _outputs(op: XlaOp) -> list[ArrayShape]:
    """Return the shapes of a scan's outputs."""
    assert isinstance(op.shape, TupleShape)  # checked by inference
    count = len(op.shape.elements) - op.attributes["num_carries"]
    return list(map(as_array, op.shape.elements[:count]))


def _steps(op: XlaOp) -> int:
    """Return the number of steps of a scan, which has an input or an output."""
    scanned = [*(operand.shape for operand in op.operands[: _num_inputs(op)]), *_outputs(op)]
    dimension: int = op.attributes["scan_dimension"]
    return as_array(scanned[0]).dimensions[dimension]


def _scan_condition(ctx: Emitter, op: XlaOp, count: Value) -> Value:
    return compared(ctx, _COUNT, "LT", "SIGNED", count, filled(ctx, _COUNT, _steps(op)))


def _scan_step(ctx: Emitter, op: XlaOp, state: list[Value]) -> list[Value]:
    dimension = op.attributes["scan_dimension"]
    inputs = op.operands[: _num_inputs(op)]
    output_shapes = _outputs(op)
    index = count = state[0]
    values, old = state[1 : 1 + len(inputs)], state[1 + len(inputs) :]
    if op.attributes["is_reverse"]:
        last = filled(ctx, _COUNT, _steps(op) - 1)
        index = ctx.value("stablehlo.subtract", _COUNT, [last, count])
    zero = filled(ctx, _COUNT, 0)

    def starts(shape: ArrayShape) -> list[Value]:
        return [index if d == dimension else zero for d in range(shape.rank)]

    computation = op.attributes["to_apply"]
    arguments = []
    for value, source, parameter in zip(values, inputs, computation.parameters, strict=False):
        part = _part_of_step(as_array(source.shape), dimension)
        sizes = {"slice_sizes": i64_array(part.dimensions)}
        sliced = ctx.value("stablehlo.dynamic_slice", part, [value, *starts(part)], sizes)
        arguments.append(ctx.value("stablehlo.reshape", parameter.shape, [sliced]))
    results = flatten([ctx.emit_ops(computation, [*arguments, *old[len(output_shapes) :]])])
    outputs = []
    for value, result, shape in zip(old, results, output_shapes, strict=False):
        part = _part_of_step(shape, dimension)
        update = ctx.value("stablehlo.reshape", part, [result])
        updated = [value, update, *starts(part)]
        outputs.append(ctx.value("stablehlo.dynamic_update_slice", shape, updated))
    next_count = ctx.value("stablehlo.add", _COUNT, [count, filled(ctx, _COUNT, 1)])
    return [next_count, *values, *outputs, *results[len(outputs) :]]


def _part_of_step(shape: ArrayShape, dimension: int) -> ArrayShape:
    sizes = list(shape.dimensions)
    sizes[dimension] = 1
    return intern_array(shape.element_type, builtins.tuple(sizes), shape.dynamic_dimensions)


@check("while")
def check_state(op: XlaOp) -> None:
    condition, body = op.attributes["condition"], op.attributes["body"]
    for computation in (condition, body):
        _need_same(op, "the state", op.shape, computation.parameters[0].shape, computation)
    _need_same(op, "the result of the body", body.root.shape, op.shape, body)


def _has_other_sizes(op: XlaOp) -> bool:
    """Return whether a loop's computations and its state differ in which sizes are unbounded."""
    condition, body = op.attributes["condition"], op.attributes["body"]
    shapes = condition.parameters[0].shape, body.parameters[0].shape, body.root.shape
    return any(shape is not op.shape for shape in shapes)


@rule("while", when=_has_other_sizes)
def while_(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """Emit a loop whose state has the op's shape.

    The state is converted to the shape of each computation's parameter, and the body's result is
    converted to the op's shape.
    """
    check_state(op)
    condition, body = op.attributes["condition"], op.attributes["body"]
    state = builtins.tuple(leaves(op.shape))

    def applied(computation: XlaComputation, values: list[Value]) -> Value:
        value = unflatten(op.shape, iter(values))
        argument = _converted(ctx, value, op.shape, computation.parameters[0].shape)
        return ctx.emit_ops(computation, [argument])

    def next_state(values: list[Value]) -> Value:
        return _converted(ctx, applied(body, values), body.root.shape, op.shape)

    regions = [
        Region(state, partial(applied, condition), condition),
        Region(state, next_state, body),
    ]
    return ctx.value("stablehlo.while", op.shape, flatten(operands), None, regions)


@rule("conditional")
def conditional(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    branches = op.attributes["branch_computations"]
    for operand, branch in zip(op.operands[1:], branches, strict=True):
        _need_same(op, "a branch's operand", operand.shape, branch.parameters[0].shape, branch)
        _need_same(op, "a branch's result", branch.root.shape, op.shape, branch)
    is_if = op.operands[0].shape.element_type is pt.pred
    regions = [
        Region((), partial(_branch, ctx, op, branch, operand.shape, value), branch)
        for branch, operand, value in zip(branches, op.operands[1:], operands[1:], strict=True)
    ]
    name = "stablehlo.if" if is_if else "stablehlo.case"
    return ctx.value(name, op.shape, operands[:1], None, regions)


def _branch(
    ctx: Emitter,
    op: XlaOp,
    computation: XlaComputation,
    shape: Shape,
    operand: Value,
    _: list[Value],
) -> Value:
    """Emit the contents of a branch region, and return the branch's result.

    A branch region has no arguments in StableHLO, so the contents use `operand` from outside.
    """
    argument = _converted(ctx, operand, shape, computation.parameters[0].shape)
    result = ctx.emit_ops(computation, [argument])
    return _converted(ctx, result, computation.root.shape, op.shape)
