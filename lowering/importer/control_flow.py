"""Loops, branches, calls and barriers. Their regions are computations already: see `regions`."""

from __future__ import annotations

from typing import Any, Final

from jaxlib.mlir import ir

import builder as xb
from builder.graph.xla_op import XlaOp
from lowering.importer.by_schema import derived_importer
from lowering.importer.failures import failure
from lowering.importer.registry import Imported, importer
from lowering.importer.scope import Scope
from lowering.mlir.types import attribute_text


@importer("stablehlo.while")
def while_(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    state = [*operands, *scope.captured()]
    condition, body = scope.computation(0), scope.computation(1)
    if len(state) == 1:
        return [xb.while_(condition, body, state[0])][: len(operands)]
    init = xb.tuple(*state) if state else scope.builder.empty_tuple()
    return xb.while_(condition, body, init)


@importer("stablehlo.if", "stablehlo.case")
def conditional(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    branches = range(len(scope.bodies))
    taken = []
    for number in branches:
        captured = scope.captured(number)
        if len(captured) == 1:
            taken.append(captured[0])
        else:
            taken.append(xb.tuple(*captured) if captured else scope.builder.empty_tuple())
    computations = [scope.computation(number) for number in branches]
    if operation.name == "stablehlo.if":
        if len(computations) != 2:
            raise failure(operation, f"it has two branches, got {len(computations)}")
        pairs = (taken[0], computations[0], taken[1], computations[1])
        return xb.conditional(operands[0], *pairs)
    return xb.conditional(operands[0], computations, taken)


@importer("func.call")
def call(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    computation = scope.functions[scope.attribute(operation, "callee")]
    if operands:
        return xb.call(computation, *operands)
    return scope.builder.call(computation)


def stands_for_op(operation: ir.Operation) -> bool:
    """Whether an operation is the composite that a portable artifact has of an operation of CHLO.

    It is recorded as the op, and its decomposition is not: that of top_k compares complex numbers,
    which no op does.
    """
    if operation.name != "stablehlo.composite":
        return False
    attributes = operation.attributes
    name = attribute_text(attributes["name"]) or ""
    recorder = derived_importer(name) if name.startswith("chlo.") else None
    said: Any = ir.DictAttr(attributes[_SAID]) if _SAID in attributes else ()
    return recorder is not None and recorder.accepts(said[i].name for i in range(len(said)))


_SAID: Final = "composite_attributes"


@importer("stablehlo.composite")
def composite(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    said = scope.attribute(operation, _SAID) or {}
    name, version = scope.attribute(operation, "name"), scope.attribute(operation, "version")
    if stands_for_op(operation):
        recorder = derived_importer(name)
        assert recorder is not None  # see stands_for_op
        return recorder.call(operands, said)
    computation = scope.functions[scope.attribute(operation, "decomposition")]
    return xb.composite_call(computation, operands, name, said, version)


@importer("stablehlo.optimization_barrier")
def optimization_barrier(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    if len(operands) == 1:
        return xb.optimization_barrier(operands[0])
    return xb.optimization_barrier(xb.tuple(*operands))
