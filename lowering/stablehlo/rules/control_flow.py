"""Tuples, calls, loops and branches in StableHLO. Tuples are lists of values; see `emitter`."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape, Shape, TupleShape, intern_array
from lowering.errors import LoweringError
from lowering.mlir.attributes import i32, i64_array, quoted, symbol
from lowering.mlir.flattening import flatten
from lowering.stablehlo.rules.elementwise import compared, filled
from lowering.stablehlo.rules.registry import Region, Value, check, rule

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
    op: XlaOp, what: str, given: Shape, wanted: Shape, computation: XlaComputation
) -> None:
    """Refuses a value of another shape than is wanted.

    Inference looks at sizes and not at which of them are bounds, as XLA does; StableHLO looks.
    """
    if given is not wanted:
        raise LoweringError(
            f"{op.opcode}: {what} must be {wanted} for {computation.name!r}, got {given}: in "
            f"StableHLO a size is bounded, or fixed, on both sides\n"
            f"fix: use values of the very shape {wanted} there",
            op=op.opcode,
            shapes={"given": given, "wanted": wanted},
        )


@rule("call")
def call(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    computation = op.attributes["to_apply"]
    for number, (operand, parameter) in enumerate(
        zip(op.operands, computation.parameters, strict=True)
    ):
        _need_same(op, f"operand {number}", operand.shape, parameter.shape, computation)
    attributes = {"callee": symbol(ctx.functions[computation])}
    return ctx.value("func.call", op.shape, flatten(operands), attributes)


@rule("composite")
def composite(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    computation = op.attributes["to_apply"]
    for number, (operand, parameter) in enumerate(
        zip(op.operands, computation.parameters, strict=True)
    ):
        _need_same(op, f"operand {number}", operand.shape, parameter.shape, computation)
    attributes = {
        "name": quoted(op.attributes["name"]),
        "decomposition": symbol(ctx.functions[computation]),
        "composite_attributes": op.attributes["composite_attributes"],
        "version": i32(op.attributes["version"]),
    }
    return ctx.value("stablehlo.composite", op.shape, flatten(operands), attributes)


@rule("scan")
def scan(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """Emit a loop that counts the steps.

    CHLO has a scan, but no portable artifact can hold it. A loop without steps is left out: its
    body could not be verified, as it takes elements out of empty arrays.
    """
    assert isinstance(op.shape, TupleShape)  # inference has said so
    for number, operand in enumerate(op.operands):
        if not operand.shape.is_static:
            raise LoweringError(
                f"scan: operand {number} must be of fixed size, got {operand.shape}: its outputs "
                f"are\nfix: take the dynamic size away with xb.remove_dynamic_dimension",
                op="scan",
                shapes={"operand": operand.shape},
            )
    carries = op.attributes["num_carries"]
    inits = operands[len(operands) - carries :]
    outputs = [filled(ctx, shape, 0) for shape in _outputs(op)]
    if not _steps(op):
        return [*outputs, *inits]
    inputs = op.operands[: len(operands) - carries]
    state = [_COUNT, *(o.shape for o in inputs), *op.shape.elements]
    for carry, init in zip(state[len(state) - carries :], op.operands[len(inputs) :], strict=True):
        _need_same(op, "a carry", init.shape, carry, op.attributes["to_apply"])
    arguments = [filled(ctx, _COUNT, 0), *operands[: len(inputs)], *outputs, *inits]
    regions = [
        Region((*state,), lambda values: _scan_goes_on(ctx, op, values)),
        Region((*state,), lambda values: _scan_step(ctx, op, values)),
    ]
    results = ctx.create("stablehlo.while", TupleShape(state), arguments, None, regions)
    return results[1 + len(inputs) :]


_COUNT: Final = intern_array(pt.s32, ())


def _steps(op: XlaOp) -> int:
    """The number of times that the computation of a scan is applied."""
    inputs = [o.shape for o in op.operands[: len(op.operands) - op.attributes["num_carries"]]]
    cut = [*(s for s in inputs if isinstance(s, ArrayShape)), *_outputs(op)]
    dimension: int = op.attributes["scan_dimension"]
    return cut[0].dimensions[dimension]


def _outputs(op: XlaOp) -> list[ArrayShape]:
    """The shapes of a scan's outputs."""
    assert isinstance(op.shape, TupleShape)  # inference has said so
    count = len(op.shape.elements) - op.attributes["num_carries"]
    return [s for s in op.shape.elements[:count] if isinstance(s, ArrayShape)]


def _scan_goes_on(ctx: Emitter, op: XlaOp, state: list[Value]) -> list[Value]:
    return [compared(ctx, _COUNT, "LT", "SIGNED", state[0], filled(ctx, _COUNT, _steps(op)))]


def _scan_step(ctx: Emitter, op: XlaOp, state: list[Value]) -> list[Value]:
    carries, dimension = op.attributes["num_carries"], op.attributes["scan_dimension"]
    inputs = op.operands[: len(op.operands) - carries]
    outputs = _outputs(op)
    count = state[0]
    values, old = state[1 : 1 + len(inputs)], state[1 + len(inputs) :]
    index = count
    if op.attributes["is_reverse"]:
        last = filled(ctx, _COUNT, _steps(op) - 1)
        index = ctx.value("stablehlo.subtract", _COUNT, [last, count])
    zero = filled(ctx, _COUNT, 0)

    def place(shape: ArrayShape) -> list[Value]:
        return [index if d == dimension else zero for d in range(shape.rank)]

    computation = op.attributes["to_apply"]
    arguments = []
    for value, one, parameter in zip(values, inputs, computation.parameters, strict=False):
        assert isinstance(one.shape, ArrayShape)
        part = _one_step(one.shape, dimension)
        sizes = {"slice_sizes": i64_array(part.dimensions)}
        slices = [value, *place(part)]
        part_value = ctx.value("stablehlo.dynamic_slice", part, slices, sizes)
        arguments.append(ctx.value("stablehlo.reshape", parameter.shape, [part_value]))
    root = flatten([ctx.emit_ops(computation, [*arguments, *old[len(outputs) :]])])
    new = []
    for value, result, shape in zip(old, root, outputs, strict=False):
        part = _one_step(shape, dimension)
        update = ctx.value("stablehlo.reshape", part, [result])
        places = [value, update, *place(part)]
        new.append(ctx.value("stablehlo.dynamic_update_slice", shape, places))
    following = ctx.value("stablehlo.add", _COUNT, [count, filled(ctx, _COUNT, 1)])
    return [following, *values, *new, *root[len(outputs) :]]


def _one_step(shape: ArrayShape, dimension: int) -> ArrayShape:
    sizes = list(shape.dimensions)
    sizes[dimension] = 1
    return intern_array(shape.element_type, builtins.tuple(sizes), shape.dynamic_dimensions)


@check("while")
def check_state(op: XlaOp) -> None:
    condition, body = op.attributes["condition"], op.attributes["body"]
    for computation in (condition, body):
        _need_same(op, "the state", op.shape, computation.parameters[0].shape, computation)
    _need_same(op, "the state that its body gives", body.root.shape, op.shape, body)


@rule("conditional")
def conditional(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    branches = op.attributes["branch_computations"]
    for operand, branch in zip(op.operands[1:], branches, strict=True):
        _need_same(op, "a branch's operand", operand.shape, branch.parameters[0].shape, branch)
        _need_same(op, "a branch's result", branch.root.shape, op.shape, branch)
    predicated = op.operands[0].shape.element_type is pt.pred
    name = "stablehlo.if" if predicated else "stablehlo.case"
    taken = zip(branches, operands[1:], strict=True)
    regions = [Region((), _branch(ctx, branch, operand)) for branch, operand in taken]
    return ctx.value(name, op.shape, operands[:1], None, regions)


def _branch(
    ctx: Emitter, computation: XlaComputation, operand: Value
) -> Callable[[list[Value]], Value]:
    """A branch takes no arguments in StableHLO: its operand is a value from outside."""
    return lambda _: ctx.emit_ops(computation, [operand])
