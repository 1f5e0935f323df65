"""Expand operations that the interpreter does not support, by the StableHLO specification.

Operations of CHLO are decomposed by jaxlib instead; see `artifacts.decomposed`.
"""

from __future__ import annotations

from jaxlib.mlir import ir

from builder.types import primitive_type as pt
from lowering.jaxlib_api import mlir
from lowering.legalize.constant_folding import signed_indices
from lowering.legalize.linalg import has_full_lengths
from lowering.legalize.op_builder import OpBuilder, array_of
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


@rewrite("stablehlo.fft", "stablehlo.triangular_solve", *BATCH_NORMS, platforms=(INTERPRETER,))
def by_other_operations(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Expand an operation as for readers that lack it.

    The interpreter does not implement batch normalization, and aborts on batches of triangular
    systems. It adds up all terms of a Fourier transform, so that the error grows with the length;
    before jaxlib 0.12 it also fails on real numbers.
    """
    operand = array_of(operation.operands[0])
    if operation.name == "stablehlo.triangular_solve" and operand.rank == 2:
        return None
    if not all(array_of(value).is_static for value in (*operation.operands, *operation.results)):
        return None
    if operation.name == "stablehlo.fft" and not has_full_lengths(operation):
        return None
    expansion = mlir.read_module(b.context, recorded_code(operation))
    return b.inline(main_function(expansion.operation), 0, list(operation.operands))
