"""Rewrites of linear algebra and Fourier transforms that XLA compiles incorrectly."""

from __future__ import annotations

from jaxlib.mlir import ir

from builder.types import primitive_type as pt
from lowering.legalize.op_builder import (
    F32_FOR_NARROW_FLOATS,
    OpBuilder,
    array_of,
    attributes_of,
    integers_of,
)
from lowering.legalize.registry import ALL_PLATFORMS, Value, refuse, rewrite


@rewrite("stablehlo.cholesky", platforms=ALL_PLATFORMS)
def cholesky(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Extend a matrix of bounded size by the identity, and decompose 8-bit floats in f32.

    XLA decomposes the matrix at its bound, including undefined elements beyond its size. It rounds
    the result of each step of the algorithm to the element type.

    Shown by: cholesky_of_a_bounded_size, cholesky_f8e4m3fn.
    """
    (a,) = operation.operands
    if not array_of(a).is_bounded:
        return None
    return _on_matrices(b, operation, [_extended_by_identity(b, a)])


@rewrite("stablehlo.triangular_solve", platforms=ALL_PLATFORMS)
def triangular_solve(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Extend a matrix of bounded size by the identity, and solve systems of 8-bit floats in f32.

    XLA does not support bounded sizes in triangular_solve. XLA rounds the result of each step of
    the algorithm to the element type.

    Shown by: triangular_solve_of_a_bounded_size.
    """
    a, right = operation.operands
    if not (array_of(a).is_bounded and array_of(right).is_bounded):
        return None
    is_left = ir.BoolAttr(operation.attributes["left_side"]).value
    dimension = array_of(right).rank - (2 if is_left else 1)
    size = _matrix_size(b, a)
    full = b.at_bounds(right)
    if size is not None:
        full = b.masked(b.within(array_of(full), {dimension: (None, size)}), full)
    return _on_matrices(b, operation, [_extended_by_identity(b, a), full])


def _on_matrices(b: OpBuilder, operation: ir.Operation, values: list[Value]) -> list[Value] | None:
    """Apply the operation to these operands, in f32 for 8-bit floats; None if nothing changes."""
    shape = array_of(operation.results[0])
    is_narrow = shape.element_type in F32_FOR_NARROW_FLOATS
    if not is_narrow and values == list(operation.operands):
        return None
    if is_narrow:
        values = [b.converted(value, pt.f32) for value in values]
    result = b(operation.name, values[-1].type, values, attributes_of(operation))
    result = b.sized(result, b.sizes(operation.operands[-1]))
    return [b.converted(result, shape.element_type)]


def _matrix_size(b: OpBuilder, matrix: Value) -> Value | None:
    """The size of square matrices at run time; None if the size is fixed."""
    rows, columns = b.sizes(matrix)[-2:]
    return rows or columns


def _extended_by_identity(b: OpBuilder, matrix: Value) -> Value:
    """Square matrices at their bound, extended by the identity beyond their size."""
    full = b.at_bounds(matrix)
    size = _matrix_size(b, matrix)
    if size is None:
        return full
    shape = array_of(full)
    indices = shape.with_element_type(pt.s32)
    row, column = shape.rank - 2, shape.rank - 1
    is_diagonal = b.compared("EQ", b.counted(indices, row), b.counted(indices, column))
    identity = b.masked(is_diagonal, b.filled(shape, 1))
    is_inside = b.within(shape, {row: (None, size), column: (None, size)})
    return b.selected(is_inside, full, identity)


@rewrite("stablehlo.fft", platforms=("cpu", "gpu"))
def fft(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Transform an array with bounded batch dimensions at its bounds.

    XLA does not support bounded sizes in fft.

    Shown by: fft_of_a_bounded_size.
    """
    operand, result = operation.operands[0], array_of(operation.results[0])
    if result.is_static or not result.is_bounded or not has_full_lengths(operation):
        return None
    full = b("fft", result.at_bounds(), [b.at_bounds(operand)], attributes_of(operation))
    return [b.sized(full, b.sizes(operand))]


def has_full_lengths(operation: ir.Operation) -> bool:
    """Whether fft_length equals the sizes of the transformed dimensions, which are fixed."""
    lengths = integers_of(operation, "fft_length")
    shapes = [array_of(operation.operands[0]), array_of(operation.results[0])]
    # In a transform between real and complex numbers, the real array has these lengths.
    real = next((shape for shape in shapes if not shape.element_type.is_complex), shapes[0])
    count = len(lengths)
    return list(real.dimensions[-count:]) == lengths and not any(real.dynamic_dimensions[-count:])


refuse(
    "stablehlo.fft",
    "cpu",
    "gpu",
    reason="fft_length must equal the sizes of the transformed dimensions, which must be fixed; "
    "otherwise XLA accesses memory outside of the operand",
    fix="pass the sizes of the transformed dimensions as fft_length; to transform a part or an "
    "extension of the operand, use xb.slice or xb.pad first",
    unless=has_full_lengths,
)


def _has_single_precision(operation: ir.Operation) -> bool:
    values = (*operation.operands, *operation.results)
    return all(array_of(value).element_type not in (pt.f64, pt.c128) for value in values)


refuse(
    "stablehlo.fft",
    "tpu",
    reason="XLA supports Fourier transforms of f32 and c64 only",
    fix="convert to c64 or f32 with xb.convert_element_type",
    unless=_has_single_precision,
)
