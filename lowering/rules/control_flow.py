"""Tuples, calls, loops and branches in StableHLO. Tuples are lists of values; see `emitter`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxlib.mlir import ir

from builder import primitive_type as pt
from builder.computation import XlaComputation
from builder.shape import Shape
from builder.xla_op import XlaOp
from lowering.errors import LoweringError
from lowering.flattening import flatten, unflatten
from lowering.rules.registry import Value, rule

if TYPE_CHECKING:
    from lowering.emitter import Emitter


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
    callee = ctx.functions[computation]
    attributes: dict[str, ir.Attribute] = {
        "callee": ir.FlatSymbolRefAttr.get(callee, ctx.mlir.context)
    }
    return ctx.value("func.call", op.shape, flatten(operands), attributes)


@rule("while")
def while_(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    for role in ("condition", "body"):
        computation = op.attributes[role]
        _need_same(op, "the state", op.shape, computation.parameters[0].shape, computation)
    _need_same(op, "the state that its body gives", computation.root.shape, op.shape, computation)
    operation = ctx.create("stablehlo.while", op.shape, flatten(operands), regions=2)
    ctx.emit_region(operation.regions[0], op.attributes["condition"])
    ctx.emit_region(operation.regions[1], op.attributes["body"])
    return unflatten(op.shape, iter(operation.results))


@rule("conditional")
def conditional(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    branches = op.attributes["branch_computations"]
    for operand, branch in zip(op.operands[1:], branches, strict=True):
        _need_same(op, "a branch's operand", operand.shape, branch.parameters[0].shape, branch)
        _need_same(op, "a branch's result", branch.root.shape, op.shape, branch)
    predicated = op.operands[0].shape.element_type is pt.pred
    name = "stablehlo.if" if predicated else "stablehlo.case"
    operation = ctx.create(name, op.shape, operands[:1], regions=len(branches))
    for region, branch, operand in zip(operation.regions, branches, operands[1:], strict=True):
        ctx.emit_region(region, branch, [operand])
    return unflatten(op.shape, iter(operation.results))
