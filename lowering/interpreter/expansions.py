"""Expand operations that the interpreter does not support, by the StableHLO specification.

Operations of CHLO are decomposed by jaxlib instead; see `artifacts.decomposed`.
"""

from __future__ import annotations

import math

from jaxlib.mlir import ir

from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape, intern_array
from lowering.jaxlib_api import mlir
from lowering.legalize.constant_folding import signed_indices
from lowering.legalize.linalg import has_full_lengths
from lowering.legalize.op_builder import OpBuilder, array_of, attributes_of
from lowering.legalize.registry import INTERPRETER, Value, rewrite
from lowering.mlir.operations import main_function
from lowering.portable.expanding import recorded_code
from lowering.portable.normalization import BATCH_NORMS


@rewrite("sdy.sharding_constraint", platforms=(INTERPRETER,))
def sharding_constraint(_: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Replace a sharding constraint by its operand: a sharding does not change the elements."""
    return list(operation.operands)


@rewrite("stablehlo.scatter", platforms=(INTERPRETER,))
def scatter_at_unsigned_indices(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Convert a scatter's unsigned indices to signed: the interpreter treats all as signed."""
    operands = list(operation.operands)
    place = len(operands) // 2
    element_type = b.array_of(operands[place]).element_type
    if element_type.is_signed:
        return None
    operands[place] = signed_indices(b, operands[place])
    return list(b.like(operation, operands).results)


@rewrite("stablehlo.ceil", "stablehlo.floor", platforms=(INTERPRETER,))
def rounding_up_or_down_of_f8e3m4(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Compute ceil and floor of f8e3m4 in f32: the interpreter's f8e3m4 result is mostly NaN."""
    return b.in_types(operation, {pt.f8e3m4: pt.f32})


@rewrite("stablehlo.fft", platforms=(INTERPRETER,))
def fft_of_single_precision(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Transform in c128: the error of a transform in c64 grows with its length."""
    return b.in_types(operation, {pt.f32: pt.f64, pt.c64: pt.c128})


@rewrite("stablehlo.fft", *BATCH_NORMS, platforms=(INTERPRETER,))
def by_other_operations(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Expand an operation as for readers that lack it.

    The interpreter does not implement batch normalization. It adds up all terms of a Fourier
    transform, so that the error grows with the length; before jaxlib 0.12 it also fails on real
    numbers.
    """
    if not all(array_of(value).is_static for value in (*operation.operands, *operation.results)):
        return None
    if operation.name == "stablehlo.fft" and not has_full_lengths(operation):
        return None
    expansion = mlir.read_module(b.context, recorded_code(operation))
    return b.inline(main_function(expansion.operation), 0, list(operation.operands))


@rewrite("stablehlo.triangular_solve", platforms=(INTERPRETER,))
def triangular_solve(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Solve each system of a batch separately: the interpreter aborts on batch dimensions."""
    operands = list(operation.operands)
    batch = array_of(operands[0]).dimensions[:-2]
    if not batch:
        return None
    count = math.prod(batch)
    stacks = [_with_batch(b, operand, (count,)) for operand in operands]
    solutions = [
        b(
            "triangular_solve",
            _matrix(operands[1]),
            [_matrix_at(b, stack, number) for stack in stacks],
            attributes_of(operation),
        )
        for number in range(count)
    ]
    if not solutions:  # the result has no elements either
        return [operands[1]]
    matrices = [_with_batch(b, solution, (1,)) for solution in solutions]
    return [b.reshaped(b.concatenated(matrices, 0), array_of(operands[1]).dimensions)]


def _matrix(value: Value) -> ArrayShape:
    """Return the shape of the matrices in a batch: the last two dimensions."""
    shape = array_of(value)
    return intern_array(shape.element_type, shape.dimensions[-2:])


def _with_batch(b: OpBuilder, value: Value, batch: tuple[int, ...]) -> Value:
    """Reshape a batch of matrices to the batch dimensions `batch`."""
    return b.reshaped(value, batch + _matrix(value).dimensions)


def _matrix_at(b: OpBuilder, stack: Value, number: int) -> Value:
    limits = [number + 1, *_matrix(stack).dimensions]
    return _with_batch(b, b.sliced(stack, [number, 0, 0], limits), ())
