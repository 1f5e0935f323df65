"""Importers of loops, conditionals, calls and barriers. `regions` records the regions first."""

from __future__ import annotations

from typing import Any, Final

from jaxlib.mlir import ir

import builder as xb
from builder.graph.inlined_calls import InlinedCall
from builder.graph.xla_op import XlaOp
from lowering.importer.by_schema import derived_importer, schema_importer
from lowering.importer.failures import failure
from lowering.importer.registry import Imported, importer
from lowering.importer.scope import INLINED_CALL, Scope
from lowering.mlir.operations import BRANCHES, attribute_text


@importer("stablehlo.while")
def while_(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    """Record a loop; values from outside that its regions use become parts of the loop's state."""
    state = [*operands, *scope.captured()]
    condition, body = scope.computation(0), scope.computation(1)
    if len(state) == 1:
        return [xb.while_(condition, body, state[0])][: len(operands)]
    return xb.while_(condition, body, scope.tuple_of(state))


@importer(*BRANCHES)
def conditional(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """Record a conditional; each branch takes the values from outside that it uses as operand."""
    branches: list[tuple[XlaOp, Any]] = []
    for number in range(len(scope.bodies)):
        captured = scope.captured(number)
        operand = captured[0] if len(captured) == 1 else scope.tuple_of(captured)
        branches.append((operand, scope.computation(number)))
    if operation.name == "stablehlo.if":
        if len(branches) != 2:
            raise failure(operation, f"an if must have two branches, got {len(branches)}")
        return xb.conditional(operands[0], *branches[0], *branches[1])
    branch_operands, computations = zip(*branches, strict=True)
    return xb.conditional(operands[0], computations, branch_operands)


@importer("func.call")
def call(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    return scope.call(scope.functions[scope.attribute(operation, "callee")], operands)


def inlined_call(scope: Scope, operation: ir.Operation, values: list[XlaOp | None]) -> Imported:
    """Note a call of one of the functions of `Tables.inlined_functions`."""
    config = scope.attribute(operation, "backend_config")
    functions = scope.tables.inlined_functions
    if not isinstance(config, dict) or config["number"] >= len(functions):
        raise failure(operation, f"files contain no custom call of {INLINED_CALL}")
    count = config["operands"]
    operands = [op for op in values[:count] if op is not None]
    results = tuple(values[count:])
    if len(operands) == count and any(op is not None for op in results):
        call = InlinedCall(functions[config["number"]], tuple(operands), results)
        scope.builder.inlined_calls.append(call)
    return []


_ATTRIBUTES: Final = "composite_attributes"
_composite = schema_importer("composite")


def is_chlo_op(operation: ir.Operation) -> bool:
    """Return whether an operation is a composite that encodes a CHLO operation with an op.

    Portable artifacts encode CHLO operations so. The importer records the op of the CHLO operation
    and ignores the decomposition: that of top_k compares complex numbers, which no op supports.
    """
    if operation.name != "stablehlo.composite":
        return False
    attributes = operation.attributes
    name = attribute_text(attributes["name"]) or ""
    recorder = derived_importer(name) if name.startswith(("chlo.", "mhlo.")) else None
    inner: Any = ir.DictAttr(attributes[_ATTRIBUTES]) if _ATTRIBUTES in attributes else ()
    return recorder is not None and recorder.accepts(inner[i].name for i in range(len(inner)))


@importer("stablehlo.composite")
def composite(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    if not is_chlo_op(operation):
        return _composite(scope, operation, operands)
    recorder = derived_importer(scope.attribute(operation, "name"))
    assert recorder is not None  # see is_chlo_op
    return recorder.call(operands, scope.attribute(operation, _ATTRIBUTES, {}))


@importer("stablehlo.optimization_barrier")
def optimization_barrier(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """Record a barrier on the operand, or on a tuple of several operands."""
    return xb.optimization_barrier(operands[0] if len(operands) == 1 else scope.tuple_of(operands))
