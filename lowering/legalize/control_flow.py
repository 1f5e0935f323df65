"""Rewrites of control flow that XLA compiles incorrectly."""

from __future__ import annotations

from jaxlib.mlir import ir

from builder.ops.control_flow import DERIVATIVE
from lowering.legalize.op_builder import OpBuilder, array_of, integer_of
from lowering.legalize.registry import ALL_PLATFORMS, Value, rewrite
from lowering.mlir.operations import called_function, enclosing, functions_in


@rewrite("chlo.scan", "mhlo.scan", platforms=ALL_PLATFORMS)
def scan_without_steps(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Replace a scan over a dimension of size 0 by empty outputs and the initial carries.

    XLA expands a scan into a loop, whose body slices one element along the scanned dimension. With
    a dimension of size 0 the slice is invalid, and the HLO verifier refuses it. The scan should
    return outputs of size 0 and the initial carries.

    Shown by: scan_without_steps.
    """
    outputs, carries = ir.DenseI32ArrayAttr(operation.attributes["resultSegmentSizes"])
    inputs = len(operation.operands) - carries
    values = [*operation.operands[:inputs], *operation.results[:outputs]]
    dimension = integer_of(operation, "dimension")
    shapes = [array_of(value) for value in values]
    if not all(shape.is_static for shape in shapes):
        return None
    if all(shape.dimensions[dimension] for shape in shapes):
        return None
    empty = [b.filled(array_of(result), 0) for result in operation.results[:outputs]]
    return [*empty, *operation.operands[inputs:]]


@rewrite("stablehlo.optimization_barrier", platforms=ALL_PLATFORMS)
def barrier_of_a_derivative(_: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Remove a barrier that only marks a value for derivatives, as `lib.stop_gradient` records it.

    XLA would keep it until its last passes, and fuse no operations across it.
    """
    name = "mhlo.frontend_attributes"
    if name not in operation.attributes:
        return None
    is_mark = DERIVATIVE in ir.DictAttr(operation.attributes[name])
    return list(operation.operands) if is_mark else None


@rewrite("func.call", platforms=("cpu",))
def call_in_map(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Inline a function call in the computation of a map.

    If the computation of a map consists of a single call, XLA's CPU compiler replaces the map by a
    call of the function with the map's operands. The function's parameters are scalars, so the
    shapes differ and the compiler fails: "Operand shape does not match parameter's shape". The map
    should apply the function to each element.

    Shown by: map_of_a_call.
    """
    parent = operation.parent
    if parent is None or parent.name != "stablehlo.map":
        return None
    (*_, module) = enclosing(operation)
    (function,) = functions_in(module, called_function(operation))
    return b.inline(function, 0, operation.operands)
