"""Importers of operations that have no op: of MHLO, of CHLO, and decomposed ones.

An operation with a decomposition becomes a call of it; jaxlib decomposes a module that contains
only the operation. JAX uses the same decompositions, so the values equal JAX's.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from jaxlib.mlir import ir

import builder as xb
from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.ops.broadcasting import broadcast_scalar
from builder.schema import Schema
from builder.types.shape import ArrayShape, ProgramShape, TupleShape
from lowering.errors import LoweringError
from lowering.importer.by_schema import SchemaImporter, importer_of
from lowering.importer.importing import imported
from lowering.importer.scope import Scope
from lowering.jaxlib_api import artifacts, mlir
from lowering.mlir.operations import main_function, module_with_main
from lowering.ops.dynamic import constants_of, static_result
from lowering.ops.elementwise import import_constant
from lowering.ops.importing import failure
from lowering.ops.registry import DECOMPOSITIONS, IMPORTERS, importer
from lowering.stablehlo.module import StablehloModule


@importer("mhlo.fusion")
def fusion(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    return scope.call(scope.computation(), operands)


@importer("mhlo.copy", "mhlo.domain")
def identity(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """Return the operand: the operation changes only the layout or the sharding."""
    return operands[0]


@importer("mhlo.bitcast")
def bitcast(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """Record a bitcast as reshapes and transposes that keep the order of elements in memory."""
    (operand,) = operands
    source, target = operand.shape, scope.result_shape(operation)
    if not isinstance(source, ArrayShape) or not isinstance(target, ArrayShape):
        raise failure(operation, "the operand and the result of a bitcast must be arrays")
    if source.element_type is not target.element_type:
        if source.element_type.bits != target.element_type.bits:
            raise failure(
                operation,
                "the element types of a bitcast's operand and result must have the same width",
            )
        operand = xb.bitcast_convert_type(operand, target.element_type)
    before = _major_to_minor(scope, operation, "source_layout", source)
    after = _major_to_minor(scope, operation, "result_layout", target)
    in_memory = [target.dimensions[number] for number in after]
    operand = _transposed(operand, before)
    if [source.dimensions[number] for number in before] != in_memory:
        operand = xb.reshape(operand, in_memory)
    return _transposed(operand, list(map(after.index, range(len(after)))))


def _major_to_minor(
    scope: Scope, operation: ir.Operation, name: str, shape: ArrayShape
) -> list[int]:
    minor_to_major = scope.attribute(operation, name, range(shape.rank)[::-1])
    return [int(number) for number in minor_to_major][::-1]


def _transposed(operand: XlaOp, order: list[int]) -> XlaOp:
    return operand if order == sorted(order) else xb.transpose(operand, order)


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


for _name in ("conj", "square"):  # ops of XLA's client library
    IMPORTERS[f"chlo.{_name}"] = SchemaImporter(Schema(_name, "operand"), xb.OPERATIONS[_name])

IMPORTERS["chlo.constant"] = import_constant


@importer(
    *(
        f"chlo.broadcast_{info.opcode}"
        for info in xb.OPERATIONS.values()
        if info.schema.operands == "lhs rhs"
        and info.schema.stablehlo.startswith("stablehlo.")
        and "broadcast_dimensions" in inspect.signature(info.function).parameters
    )
)
def broadcasting(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """Record a binary operation by its public op, which broadcasts operands in the same way."""
    record: Any = importer_of(f"stablehlo.{operation.name.removeprefix('chlo.broadcast_')}")
    dimensions = _broadcast_dimensions(scope, operation, operands)
    op: XlaOp = record(scope, operation, operands, broadcast_dimensions=dimensions)
    return op


def _broadcast_dimensions(
    scope: Scope, operation: ir.Operation, operands: list[XlaOp]
) -> Sequence[int] | None:
    """Return the dimensions of the higher-rank operand to which the lower-rank operand's dimensions
    correspond: by default the last ones; None if the ranks are equal."""
    dimensions: tuple[int, ...] | None = scope.attribute(operation, "broadcast_dimensions")
    ranks = [op.shape.rank for op in operands if isinstance(op.shape, ArrayShape)]
    if dimensions is not None or min(ranks) == max(ranks):
        return dimensions
    return range(max(ranks) - min(ranks), max(ranks))


@importer("chlo.broadcast_select")
def broadcast_select(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    result = scope.result_array(operation)
    broadcast = []
    for op in operands:
        assert isinstance(op.shape, ArrayShape)  # verified by MLIR
        if op.shape.dimensions != result.dimensions:
            last = range(result.rank - op.shape.rank, result.rank)
            op = xb.broadcast_in_dim(op, result.dimensions, last)
        broadcast.append(op)
    return xb.select(*broadcast)


@importer("chlo.atan")
def atan(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    return xb.atan(operands[0])


@importer("chlo.is_inf")
def is_inf(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    return xb.eq(xb.abs(operands[0]), float("inf"))


@importer("chlo.is_pos_inf")
def is_pos_inf(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    return xb.eq(operands[0], float("inf"))


@importer("chlo.is_neg_inf")
def is_neg_inf(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    return xb.eq(operands[0], float("-inf"))


_COMPLEX: Final = re.compile(r"#complex\.number<:\w+ (\S+), (\S+)>.*")


@importer("chlo.constant_like")
def constant_like(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    shape, value = scope.result_array(operation), scope.attribute(operation, "value")
    parts = _COMPLEX.fullmatch(str(value))
    try:
        number = value if parts is None else complex(float(parts[1]), float(parts[2]))
        scalar = np.array(number).astype(shape.element_type.dtype)
    except (TypeError, ValueError):
        raise failure(operation, "the attribute value must be a number", got=value) from None
    if not shape.is_bounded:
        return broadcast_scalar(scope.builder.constant(scalar), shape, operands)
    return scope.builder.constant(np.broadcast_to(scalar, shape.dimensions))


def decomposed(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """Record an operation of CHLO as a call of the operations that jaxlib expands it to."""
    return call_decomposition(scope, operation, operands, artifacts.decomposed)


for _name in (
    "bessel_i1e",
    "broadcast_next_after",
    "broadcast_polygamma",
    "broadcast_zeta",
    "digamma",
    "erf_inv",
    "erfc",
    "lgamma",
    "next_after",
    "polygamma",
    "zeta",
):
    DECOMPOSITIONS[f"chlo.{_name}"] = decomposed


@importer("stablehlo.dynamic_conv")
def with_constant_padding(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    static_result(scope, operation)
    constants = constants_of(scope, operation, (2,))
    return call_decomposition(scope, operation, operands, artifacts.refined, constants)
