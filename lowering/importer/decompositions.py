"""Import operations without an op as calls of their decompositions.

jaxlib decomposes a module that contains only the operation. JAX uses the same decompositions, so
the values equal JAX's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jaxlib.mlir import ir

from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.types.shape import ProgramShape, TupleShape
from lowering.errors import LoweringError
from lowering.importer.importing import imported
from lowering.importer.scope import Scope
from lowering.jaxlib_api import mlir
from lowering.mlir.operations import main_function, module_with_main
from lowering.ops.importing import failure
from lowering.stablehlo.module import StablehloModule


def call_decomposition(
    scope: Scope,
    operation: ir.Operation,
    operands: list[XlaOp],
    decompose: Callable[[ir.Module], bytes],
    constants: Mapping[int, ir.Attribute] | None = None,
) -> XlaOp:
    """Record a call of the decomposition of an operation; equal operations share a computation.

    Args:
        scope: where the call is recorded.
        operation: the operation.
        operands: its operands.
        decompose: takes a module that contains a copy of the operation, and returns the bytecode of
            the decomposed module.
        constants: the values, by operand number, of operands that are constants in that module, not
            parameters.
    """
    constants = constants or {}
    # Attributes of other dialects, such as shardings, are those of the call.
    names = [name for name in operation.attributes if "." not in name]
    try:
        attributes = {name: operation.attributes[name] for name in names}
    except TypeError:
        raise failure(operation, "an attribute has elements that can't be read") from None
    key = (
        operation.name,
        decompose,
        tuple(value.type for value in operation.operands),
        tuple(constants.items()),
        tuple(result.type for result in operation.results),
        tuple(attributes.items()),
    )
    computation = scope.tables.decompositions.get(key)
    if computation is None:
        module = module_of_operation(operation, attributes, constants)
        computation = _decomposed(scope, operation, module, decompose)
        scope.tables.decompositions[key] = computation
    return scope.call(computation, [op for n, op in enumerate(operands) if n not in constants])


def module_of_operation(
    operation: ir.Operation,
    attributes: Mapping[str, ir.Attribute],
    constants: Mapping[int, ir.Attribute],
) -> ir.Module:
    """Return a module whose @main executes a copy of an operation.

    @main has an argument for each operand that is not in `constants`.
    """
    with operation.context, ir.Location.unknown(operation.context):
        types = [v.type for n, v in enumerate(operation.operands) if n not in constants]
        results = [result.type for result in operation.results]
        module, block = module_with_main(operation.context, types, results)
        module.operation.attributes["sym_name"] = ir.StringAttr.get(
            operation.name.rpartition(".")[2]
        )
        end = ir.InsertionPoint(block)
        arguments = iter(block.arguments)
        values: list[ir.Value[Any]] = []
        for number, value in enumerate(operation.operands):
            if number in constants:
                elements = {"value": constants[number]}
                constant = ir.Operation.create(
                    "stablehlo.constant", [value.type], attributes=elements, ip=end
                )
                values.append(constant.results[0])
            else:
                values.append(next(arguments))
        copy = ir.Operation.create(operation.name, results, values, dict(attributes), ip=end)
        ir.Operation.create("func.return", operands=list(copy.results), ip=end)
    return module


def _decomposed(
    scope: Scope,
    operation: ir.Operation,
    module: ir.Module,
    decompose: Callable[[ir.Module], bytes],
) -> XlaComputation:
    try:
        decomposed = mlir.read_module(operation.context, decompose(module))
    except (ValueError, mlir.UnreadableModuleError) as error:
        reason = (str(error).strip().splitlines() or ["no reason"])[0]
        raise failure(operation, f"jaxlib can't decompose the operation: {reason}") from None
    main = main_function(decomposed.operation)
    main_type = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    inputs, results = (
        list(map(scope.tables.shape, types)) for types in (main_type.inputs, main_type.results)
    )
    shape = ProgramShape(inputs, results[0] if len(results) == 1 else TupleShape(results))
    try:
        return imported(StablehloModule(decomposed, shape))
    except LoweringError as error:
        raise failure(operation, error, "in the operation's decomposition") from error
