"""Tuples, calls, loops, branches and barriers.

In StableHLO the value of a tuple is a list; see `lowering.stablehlo.emitter`. Import records the
regions of an operation first; see `lowering.importer.regions`.
"""

from __future__ import annotations

from functools import partial
from itertools import starmap
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from jaxlib.mlir import ir

import builder as xb
from builder.errors import error_of
from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.inspection.trip_count import trip_count
from builder.ops.control_flow import CUSTOM_DERIVATIVE, DERIVATIVE, ZERO_DERIVATIVE
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
from lowering.jaxlib_api.jax_arrays import alike
from lowering.jaxlib_api.lazy_jax import lax
from lowering.mlir.attributes import i64_array
from lowering.mlir.operations import BRANCHES, attribute_text
from lowering.mlir.types import flatten, unflatten
from lowering.ops.derivatives import forward_only, with_derivative_of
from lowering.ops.dynamic import resized
from lowering.ops.emitting import compared, dictionary_text, filled
from lowering.ops.importing import failure
from lowering.ops.registry import (
    COMPOSITES,
    Context,
    Imported,
    Region,
    Step,
    Value,
    array_of,
    importer,
    jax_rule,
    place,
    refusal,
    stablehlo_check,
    stablehlo_rule,
)

if TYPE_CHECKING:
    from lowering.importer.scope import Scope
    from lowering.stablehlo.emitter import Emitter


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
            f"{what} must be {expected} for {computation.name!r}",
            f"use values of shape {expected}",
            got=f"{shape}: in StableHLO both sizes must be bounded, or both static",
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
        one if old is new else resized(ctx, one, array_of(old), array_of(new))
        for one, old, new in pairs
    ]
    return unflatten(expected, iter(values))


@stablehlo_rule("tuple")
def emit_tuple(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    return operands


@importer("stablehlo.tuple")
def import_tuple(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    return scope.tuple_of(operands)


@jax_rule("tuple")
def jax_tuple(ctx: Context, op: XlaOp) -> Step:
    return lambda *operands: operands


@stablehlo_rule("get_tuple_element")
def emit_get_tuple_element(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    return operands[0][op.attributes["index"]]


@jax_rule("get_tuple_element")
def jax_get_tuple_element(ctx: Context, op: XlaOp) -> Step:
    return itemgetter(op.attributes["index"])


@stablehlo_rule("optimization_barrier")
def emit_optimization_barrier(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    values = flatten(operands)
    if not values:
        return operands[0]
    return ctx.value("stablehlo.optimization_barrier", op.shape, values)


@importer("stablehlo.optimization_barrier")
def import_optimization_barrier(
    scope: Scope, operation: ir.Operation, operands: list[XlaOp]
) -> XlaOp:
    """Record a barrier on the operand, or on a tuple of several operands."""
    return xb.optimization_barrier(operands[0] if len(operands) == 1 else scope.tuple_of(operands))


@jax_rule("optimization_barrier")
def jax_optimization_barrier(ctx: Context, op: XlaOp) -> Step:
    kind = (op.frontend_attributes or {}).get(DERIVATIVE)
    if kind == ZERO_DERIVATIVE:
        return lambda operand: lax.stop_gradient(operand)
    if kind == CUSTOM_DERIVATIVE:

        def refuse(_: Value) -> Value:
            raise refusal(op, *_LOST)

        return with_derivative_of(lambda operand: operand, refuse)
    barrier: Any = lax.optimization_barrier  # jax has no types for it
    if len(op.operands) == 1:
        return lambda operand: barrier(operand)
    return lambda *operands: barrier(operands)


_LOST: Final = (
    "a rule of a jax function defines its derivative, and edited programs and files do not have it",
    "differentiate the computation of lowering.from_jax or the ops of lowering.apply",
)


@stablehlo_rule("call")
def emit_call(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
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
    return ctx.value(name, op.shape, flatten(arguments), ctx.call_attributes(op))


@importer("func.call")
def import_call(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    return scope.call(scope.functions[scope.attribute(operation, "callee")], operands)


@jax_rule("call")
def jax_call(ctx: Context, op: XlaOp) -> Step:
    return ctx.shared(op.attributes["to_apply"])


@stablehlo_rule("composite")
def emit_composite(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    fix = "pass attributes={name: value, ...}"
    dictionary_text(op, "attributes", op.attributes["composite_attributes"], fix)
    return emit_call(ctx, op, operands)


@importer("stablehlo.composite")
def import_composite(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    """Record a composite; or the op of the CHLO operation that it encodes, as in artifacts.

    The decomposition of a CHLO operation is ignored: that of top_k compares complex numbers, which
    no op supports.
    """
    name = attribute_text(operation.attributes["name"]) or ""
    if name.startswith(("chlo.", "mhlo.")):
        op = scope.chlo_op(operation, operands, name, "composite_attributes")
        if op is not None:
            return op
    return scope.by_schema("composite", operation, operands)


@jax_rule("composite")
def jax_composite(ctx: Context, op: XlaOp) -> Step:
    """Evaluate the decomposition: jax neither differentiates nor vmaps a composite."""
    decomposition = ctx.shared(op.attributes["to_apply"])
    known = COMPOSITES.get(op.attributes["name"])
    step = None if known is None else known(op, decomposition)
    return decomposition if step is None else step


@stablehlo_check("while")
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


@stablehlo_rule("while", when=_has_other_sizes)
def emit_while(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """Emit a loop whose state has the op's shape.

    The state is converted to the shape of each computation's parameter, and the body's result is
    converted to the op's shape.
    """
    check_state(op)
    condition, body = op.attributes["condition"], op.attributes["body"]
    state = tuple(leaves(op.shape))

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


@importer("stablehlo.while")
def import_while(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    """Record a loop; values from outside that its regions use become parts of the loop's state."""
    state = [*operands, *scope.captured()]
    condition, body = scope.computation(0), scope.computation(1)
    if len(state) == 1:
        return [xb.while_(condition, body, state[0])][: len(operands)]
    return xb.while_(condition, body, scope.tuple_of(state))


@jax_rule("while")
def jax_while(ctx: Context, op: XlaOp) -> Step:
    """Return a `lax.scan` for a known trip count, which jax differentiates in both modes."""
    body = ctx.function(op.attributes["body"])
    count = trip_count(op)
    if count is not None:

        def scanned(init: Value) -> Value:
            return lax.scan(lambda state, _: (body(state), None), alike(init), None, length=count)[
                0
            ]

        return scanned
    condition = ctx.function(op.attributes["condition"])
    reason = (
        f"while{place(op)}: reverse-mode differentiation requires a trip count that is known when "
        "the computation is built"
    )
    fix = (
        "let the loop count from a constant to a constant by a constant step, use xb.scan, write "
        "the derivative with xb.custom_gradient, or differentiate forward with jax.jvp"
    )
    restrict = forward_only("while", reason, fix)
    return lambda init: restrict(lax.while_loop(condition, body, alike(init)))


@stablehlo_rule("conditional")
def emit_conditional(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
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


@importer(*BRANCHES)
def import_conditional(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """Record a conditional; each branch takes the values from outside that it uses as operand."""
    branches: list[tuple[XlaOp, Any]] = []
    for number in range(len(scope.bodies)):
        captured = scope.captured(number)
        operand = captured[0] if len(captured) == 1 else scope.tuple_of(captured)
        branches.append((operand, scope.computation(number)))
    if operation.name == "stablehlo.if":
        if len(branches) != 2:
            raise failure(operation, "an if must have two branches", got=len(branches))
        return xb.conditional(operands[0], *branches[0], *branches[1])
    branch_operands, computations = zip(*branches, strict=True)
    return xb.conditional(operands[0], computations, branch_operands)


@jax_rule("conditional")
def jax_conditional(ctx: Context, op: XlaOp) -> Step:
    branches = [ctx.function(branch) for branch in op.attributes["branch_computations"]]

    # Each branch takes its own operand.
    def taking(number: int, operands: Value) -> Value:
        return branches[number](operands[number])

    functions = [partial(taking, number) for number in range(len(branches))]
    if op.operands[0].shape.element_type is pt.pred:
        return lambda pred, *operands: lax.cond(pred, *functions, alike(operands))
    last = len(branches) - 1

    def switch(index: Value, *operands: Value) -> Value:
        # XLA takes the last branch for an index out of range, jax the nearest one.
        zero, end = (lax.full_like(index, limit) for limit in (0, last))
        is_inside = lax.bitwise_and(lax.ge(index, zero), lax.le(index, end))
        return lax.switch(lax.select(is_inside, index, end), functions, alike(operands))

    return switch


@stablehlo_rule("scan")
def emit_scan(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """Emit a loop that counts the steps.

    CHLO has a scan, but portable artifacts do not support it. A loop without steps is not emitted:
    its body would slice empty arrays, which StableHLO's verifier refuses.
    """
    assert isinstance(op.shape, TupleShape)  # checked by inference
    for number, operand in enumerate(op.operands):
        if not operand.shape.is_static:
            rule = f"operand {number} must have static sizes, like the outputs"
            fix = "remove the bounds with xb.remove_dynamic_dimension"
            raise error_of(
                LoweringError,
                "scan",
                rule,
                fix,
                got=operand.shape,
                shapes={"operand": operand.shape},
            )
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
    return list(map(array_of, op.shape.elements[:count]))


def _steps(op: XlaOp) -> int:
    """Return the number of steps of a scan, which has an input or an output."""
    scanned = [*(operand.shape for operand in op.operands[: _num_inputs(op)]), *_outputs(op)]
    dimension: int = op.attributes["scan_dimension"]
    return array_of(scanned[0]).dimensions[dimension]


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
        part = _part_of_step(array_of(source.shape), dimension)
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
    return intern_array(shape.element_type, tuple(sizes), shape.dynamic_dimensions)


@importer("chlo.scan", "mhlo.scan")
def import_scan(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """Record a scan. No importer is derived: the schema describes the loop that `lower` emits."""
    inputs, carries = scope.attribute(operation, "operandSegmentSizes")
    dimension = scope.attribute(operation, "dimension")
    size = scope.attribute(operation, "scan_dim_size")
    if size is None and not inputs and len(operation.results) > carries:  # from HLO
        output = scope.result_shape(operation)
        assert isinstance(output, ArrayShape)
        size = output.dimensions[dimension]
    return xb.scan(
        operands[:inputs],
        operands[inputs:],
        scope.computation(),
        dimension,
        size,
        is_reverse=scope.attribute(operation, "is_reverse", False),
        is_associative=scope.attribute(operation, "is_associative"),
    )


@jax_rule("scan")
def jax_scan(ctx: Context, op: XlaOp) -> Step:
    attributes = op.attributes
    dimension, num_carries = attributes["scan_dimension"], attributes["num_carries"]
    num_inputs = len(op.operands) - num_carries
    step = ctx.function(attributes["to_apply"])
    num_outputs = len(op.shape.elements) - num_carries  # type: ignore[union-attr]  # a tuple
    length = trip_count(op)
    is_reverse = attributes["is_reverse"]

    def moved(value: Value, source: int, target: int) -> Value:
        order = [d for d in range(value.ndim) if d != source]
        order.insert(target, source)
        return lax.transpose(value, order)

    def one(carries: Value, inputs: Value) -> Value:
        results = step(*inputs, *carries)
        results = results if isinstance(results, tuple) else (results,)
        return results[num_outputs:], results[:num_outputs]

    def scanned(*operands: Value) -> Value:
        operands = alike(operands)
        inputs = [moved(value, dimension, 0) for value in operands[:num_inputs]]
        inits = tuple(operands[num_inputs:])
        carries, outputs = lax.scan(one, inits, inputs, length=length, reverse=is_reverse)
        return (*(moved(value, 0, dimension) for value in outputs), *carries)

    return scanned
