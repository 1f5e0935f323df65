"""Loops, branches, calls and barriers. Their regions are computations already: see `regions`."""

from __future__ import annotations

from typing import Any, Final

from jaxlib.mlir import ir

import builder as xb
from builder.graph.xla_op import XlaOp
from builder.types.shape import TupleShape
from lowering.importer.registry import PLAIN, Imported, importer
from lowering.importer.scope import Scope, failure
from lowering.mlir.types import attribute_text


@importer("stablehlo.while")
def while_(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    state = [*operands, *scope.captured()]
    condition, body = scope.computation(0), scope.computation(1)
    if len(state) == 1:
        return [xb.while_(condition, body, state[0])][: len(operands)]
    init = xb.tuple(*state) if state else scope.builder.empty_tuple()
    return scope.elements(operation, xb.while_(condition, body, init))


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
        return _results(scope, operation, xb.conditional(operands[0], *pairs))
    return _results(scope, operation, xb.conditional(operands[0], computations, taken))


def _results(scope: Scope, operation: ir.Operation, value: XlaOp) -> Imported:
    """A value as the results of an operation: one as it is, others as elements of a tuple."""
    return value if len(operation.results) == 1 else scope.elements(operation, value)


@importer("func.call")
def call(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    computation = scope.functions[scope.attribute(operation, "callee")]
    if operands:
        return _results(scope, operation, xb.call(computation, *operands))
    return _results(scope, operation, scope.builder.call(computation))


def stands_for_op(operation: ir.Operation) -> bool:
    """Whether an operation is the composite that a portable artifact has of an operation of CHLO.

    It is recorded as the op, and its decomposition is not: that of top_k compares complex numbers,
    which no op does.
    """
    if operation.name != "stablehlo.composite":
        return False
    attributes = operation.attributes
    name = attribute_text(attributes["name"]) or ""
    said: Any = ir.DictAttr(attributes[_SAID]) if _SAID in attributes else {}
    if name == "chlo.top_k":
        return "k" in said
    return name.startswith("chlo.") and name in PLAIN and not len(said)


_SAID: Final = "composite_attributes"


@importer("stablehlo.composite")
def composite(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    said = scope.attribute(operation, _SAID) or {}
    name, version = scope.attribute(operation, "name"), scope.attribute(operation, "version")
    if stands_for_op(operation):
        if name == "chlo.top_k":
            return scope.elements(operation, xb.top_k(operands[0], said["k"]))
        return PLAIN[name](*operands)
    computation = scope.functions[scope.attribute(operation, "decomposition")]
    found = xb.composite_call(computation, operands, name, said, version)
    return _results(scope, operation, found)


@importer("stablehlo.optimization_barrier")
def optimization_barrier(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    if len(operands) == 1:
        return xb.optimization_barrier(operands[0])
    whole = xb.optimization_barrier(xb.tuple(*operands))
    assert isinstance(whole.shape, TupleShape)
    return scope.elements(operation, whole)
