"""Linear algebra and Fourier transforms that XLA gets wrong."""

from __future__ import annotations

from jaxlib.mlir import ir

from builder.types import primitive_type as pt
from lowering.legalize.op_builder import OpBuilder, array_of, attributes_of
from lowering.legalize.registry import ALL_PLATFORMS, Value, refuse, rewrite


@rewrite("stablehlo.cholesky", platforms=ALL_PLATFORMS)
def cholesky(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Extend a matrix of bounded size by the identity, and decompose floats of 8 bits in f32.

    XLA decomposes the matrix in its largest size, with undefined elements beyond the size. It
    rounds the result of each step to the element type.

    Shown by: cholesky_of_a_bounded_size, cholesky_f8e4m3fn.
    """
    (a,) = operation.operands
    if not array_of(a).is_bounded:
        return None
    rows, columns = b.sizes(a)[-2:]
    size = rows or columns
    return _of_matrices(operation, b, [_filled_up(b, a, size, columns or size, True)])


@rewrite("stablehlo.triangular_solve", platforms=ALL_PLATFORMS)
def triangular_solve(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Extend a matrix of bounded size by the identity, and solve floats of 8 bits in f32.

    XLA has no rule for bounded sizes. It rounds the result of each step to the element type.

    Shown by: triangular_solve_of_a_bounded_size.
    """
    a, right = operation.operands
    if not (array_of(a).is_bounded and array_of(right).is_bounded):
        return None
    rows, columns = b.sizes(a)[-2:]
    size = rows or columns
    matrix = _filled_up(b, a, size, columns or size, True)
    if ir.BoolAttr(operation.attributes["left_side"]).value:
        right = _filled_up(b, right, size, None, False)
    else:
        right = _filled_up(b, right, None, size, False)
    return _of_matrices(operation, b, [matrix, right])


def _of_matrices(operation: ir.Operation, b: OpBuilder, values: list[Value]) -> list[Value] | None:
    """The results of the operation for operands of fixed sizes; those of 8 bits in f32."""
    shape = array_of(operation.results[0])
    narrow = shape.element_type.bits <= 8
    if not narrow and values == list(operation.operands):
        return None
    if narrow:
        values = [b.converted(value, pt.f32) for value in values]
    name = operation.name.removeprefix("stablehlo.")
    result = b(name, array_of(values[-1]), values, attributes_of(operation))
    result = b.sized(result, b.sizes(operation.operands[-1]))
    return [b.converted(result, shape.element_type)]


def _filled_up(
    b: OpBuilder, value: Value, rows: Value | None, columns: Value | None, one: bool
) -> Value:
    """An array of matrices in its largest size, overwritten from some row and column on.

    Args:
        b: creates the operations.
        value: an array of matrices.
        rows, columns: the number of rows and columns that are kept; None for all.
        one: True to overwrite with the identity, False to overwrite with zeros.
    """
    whole = b.at_bounds(value)
    shape = array_of(whole)
    places = shape.with_element_type(pt.s32)
    row, column = shape.rank - 2, shape.rank - 1
    inside = [
        b.compared("LT", b.counted(places, dimension), b.spread(size, shape))
        for dimension, size in ((row, rows), (column, columns))
        if size is not None
    ]
    if not inside:
        return whole
    filling = b.spread(b.number(0, shape.element_type), shape)
    if one:
        ones = b.spread(b.number(1, shape.element_type), shape)
        diagonal = b.compared("EQ", b.counted(places, row), b.counted(places, column))
        filling = b("select", shape, [diagonal, ones, filling])
    kept = inside[0]
    if len(inside) > 1:
        kept = b("and", shape.with_element_type(pt.pred), inside)
    return b("select", shape, [kept, whole, filling])


@rewrite("stablehlo.fft", platforms=("cpu", "gpu"))
def fft(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Transform a bounded batch in its largest size.

    XLA has no rule for bounded sizes.

    Shown by: fft_of_a_bounded_size.
    """
    operand, result = operation.operands[0], array_of(operation.results[0])
    if result.is_static or not result.is_bounded or not _has_its_lengths(operation):
        return None
    whole = b("fft", result.at_bounds(), [b.at_bounds(operand)], attributes_of(operation))
    return [b.sized(whole, b.sizes(operand))]


def _has_its_lengths(operation: ir.Operation) -> bool:
    lengths = list(ir.DenseI64ArrayAttr(operation.attributes["fft_length"]))
    shapes = [array_of(operation.operands[0]), array_of(operation.results[0])]
    # Of a real and a complex side the real one has the lengths.
    real = next((shape for shape in shapes if not shape.element_type.is_complex), shapes[0])
    count = len(lengths)
    return list(real.dimensions[-count:]) == lengths and not any(real.dynamic_dimensions[-count:])


refuse(
    "stablehlo.fft",
    "cpu",
    "gpu",
    reason="its fft_length is not the sizes of the dimensions that it transforms, which are fixed, "
    "and XLA would read, or write, what is not the operand's",
    fix="give those sizes as fft_length; to transform a part, or more than there is, cut it out "
    "with xb.slice or fill it up with xb.pad",
    unless=_has_its_lengths,
)


def _is_not_of_f64(operation: ir.Operation) -> bool:
    values = (*operation.operands, *operation.results)
    return all(array_of(value).element_type not in (pt.f64, pt.c128) for value in values)


refuse(
    "stablehlo.fft",
    "tpu",
    reason="XLA has Fourier transforms of f32 and c64 alone there",
    fix="convert to c64, or f32, with xb.convert_element_type",
    unless=_is_not_of_f64,
)
