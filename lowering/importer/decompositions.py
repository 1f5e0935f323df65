"""Operations that XLA lacks, as calls of computations that say the same in other words.

jaxlib finds the words: it is given a module with the one operation, and translates it. So numbers
are those that JAX gets, which goes the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jaxlib.mlir import ir

import builder as xb
from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.types.shape import ProgramShape, TupleShape
from lowering.errors import LoweringError
from lowering.importer.failures import failure
from lowering.importer.importing import recorded
from lowering.importer.refinement import main_function
from lowering.importer.registry import Imported, Value
from lowering.importer.scope import Scope
from lowering.jaxlib_api import mlir
from lowering.stablehlo.module import StablehloModule

__all__ = ["call_in_other_words"]


def call_in_other_words(
    scope: Scope,
    operation: ir.Operation,
    operands: list[XlaOp],
    translate: Callable[[ir.Module], bytes],
    constants: Mapping[int, ir.Attribute] | None = None,
) -> Imported:
    """Calls a computation that does what an operation does.

    Operations that are alike share one.

    Args:
        translate: makes bytecode of a module with other operations of one with this.
        constants: the operands that have to be known, by their numbers.
    """
    known = constants or {}
    kinds = [value.type for value in operation.operands]
    results = [result.type for result in operation.results]
    given = operation.attributes
    # By name: of one that MLIR's Python has no class for, `given[number].attr` ends the process.
    names = [name for name in given if "." not in name]  # no shardings and the like
    try:
        attributes = {name: given[name] for name in names}
    except TypeError:
        raise failure(operation, "an attribute of it holds elements that can't be read") from None
    key = (
        operation.name,
        translate,
        tuple(kinds),
        tuple(known.items()),
        tuple(results),
        tuple(attributes.items()),
    )
    computation = scope.tables.others.get(key)
    if computation is None:
        module = _with_one(operation, attributes, known)
        computation = _translated(scope, operation, module, translate)
        scope.tables.others[key] = computation
    passed = [op for number, op in enumerate(operands) if number not in known]
    return xb.call(computation, *passed) if passed else scope.builder.call(computation)


def _with_one(
    operation: ir.Operation,
    attributes: Mapping[str, ir.Attribute],
    known: Mapping[int, ir.Attribute],
) -> ir.Module:
    """A module whose @main is an operation like this, and takes the operands that aren't known."""
    context = operation.context
    with context, ir.Location.unknown(context):
        module = ir.Module.create()
        kinds = [v.type for n, v in enumerate(operation.operands) if n not in known]
        results = [result.type for result in operation.results]
        main = ir.Operation.create(
            "func.func",
            attributes={
                "sym_name": ir.StringAttr.get("main"),
                "function_type": ir.TypeAttr.get(ir.FunctionType.get(kinds, results)),
            },
            regions=1,
            ip=ir.InsertionPoint(module.body),
        )
        block = main.regions[0].blocks.append(*kinds)
        end = ir.InsertionPoint(block)
        arguments = iter(block.arguments)
        values: list[Value] = []
        for number, value in enumerate(operation.operands):
            if number in known:
                constant = ir.Operation.create(
                    "stablehlo.constant",
                    [value.type],
                    attributes={"value": known[number]},
                    ip=end,
                )
                values.append(constant.results[0])
            else:
                values.append(next(arguments))
        copy = ir.Operation.create(operation.name, results, values, dict(attributes), ip=end)
        ir.Operation.create("func.return", operands=list(copy.results), ip=end)
    return module


def _translated(
    scope: Scope,
    operation: ir.Operation,
    module: ir.Module,
    translate: Callable[[ir.Module], bytes],
) -> XlaComputation:
    name = operation.name.rpartition(".")[2]
    module.operation.attributes["sym_name"] = ir.StringAttr.get(name, operation.context)
    try:
        code = translate(module)
        found = mlir.read_module(operation.context, code)
    except (ValueError, mlir.UnreadableModuleError) as error:
        said = (str(error).strip().splitlines() or ["for no reason"])[0]
        raise failure(operation, f"StableHLO's operations can't say it: {said}") from None
    kind = ir.FunctionType(ir.TypeAttr(main_function(found).attributes["function_type"]).value)
    shapes = [[scope.tables.shape(one) for one in side] for side in (kind.inputs, kind.results)]
    inputs, results = shapes
    result = results[0] if len(results) == 1 else TupleShape(results)
    try:
        return recorded(StablehloModule(found, ProgramShape(inputs, result)))
    except LoweringError as error:
        raise failure(operation, f"in other words: {error}") from error
