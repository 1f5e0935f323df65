"""Control flow that XLA gets wrong."""

from __future__ import annotations

from jaxlib.mlir import ir

from lowering.legalize.op_builder import OpBuilder, array_of
from lowering.legalize.registry import ALL_PLATFORMS, Value, rewrite
from lowering.mlir.types import attribute_text


@rewrite("chlo.scan", "mhlo.scan", platforms=ALL_PLATFORMS)
def scan_without_steps(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Replace a scan of no steps by empty arrays and its initial values.

    XLA expands a scan into a loop, whose body slices one element out of arrays that have none. Its
    verifier refuses that.

    Shown by: scan_without_steps.
    """
    outputs, carries = ir.DenseI32ArrayAttr(operation.attributes["resultSegmentSizes"])
    inputs = len(operation.operands) - carries
    values = [*operation.operands[:inputs], *operation.results[:outputs]]
    dimension = ir.IntegerAttr(operation.attributes["dimension"]).value
    shapes = [array_of(value) for value in values]
    if not all(shape.is_static for shape in shapes):
        return None
    if all(shape.dimensions[dimension] for shape in shapes):
        return None
    empty = [b.filled(array_of(result), 0) for result in operation.results[:outputs]]
    return [*empty, *operation.operands[inputs:]]


@rewrite("func.call", platforms=("cpu",))
def call_in_map(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Inline a call that is all that the region of a map does.

    XLA's CPU compiler replaces the map by a call of the function on whole arrays, whose parameters
    are scalars: "Operand shape does not match parameter's shape".

    Shown by: map_of_a_call.
    """
    around = operation.parent
    if around is None or around.name != "stablehlo.map":
        return None
    function = _function(around, ir.FlatSymbolRefAttr(operation.attributes["callee"]).value)
    return b.inline(function, 0, operation.operands)


def _function(operation: ir.Operation, name: str) -> ir.Operation:
    """The function of a name in the module of an operation."""
    module = operation
    while module.parent is not None:
        module = module.parent.operation
    for one in module.regions[0].blocks[0].operations:
        found: ir.Operation = one.operation
        if found.name == "func.func" and attribute_text(found.attributes["sym_name"]) == name:
            return found
    raise AssertionError("a call of a function that is not there")  # refused by MLIR's verifier
