"""Linear algebra and Fourier transforms that a platform gets wrong.

XLA takes a matrix of bounded size in its largest size, with whatever stands in the rest of it, or
can't compile it. So the matrices are filled up with the identity, and the other side of equations
with zeros, which leaves the part that counts as it is.
"""

from __future__ import annotations

from jaxlib.mlir import ir

from builder import primitive_type as pt
from lowering.legalize.registry import Rewriter, Value, refuse, rewrite
from lowering.legalize.words import Words, array_of, attributes_of


@rewrite("stablehlo.cholesky", "cpu", "gpu", "tpu")
def cholesky(rewriter: Rewriter, operation: ir.Operation) -> None:
    (a,) = operation.operands
    if not array_of(a).is_bounded:
        return
    words = Words(rewriter, operation)
    rows, columns = words.sizes(a)[-2:]
    size = rows or columns
    _of_matrices(rewriter, operation, words, [_filled_up(words, a, size, columns or size, True)])


@rewrite("stablehlo.triangular_solve", "cpu", "gpu", "tpu")
def triangular_solve(rewriter: Rewriter, operation: ir.Operation) -> None:
    a, b = operation.operands
    if not (array_of(a).is_bounded and array_of(b).is_bounded):
        return
    words = Words(rewriter, operation)
    rows, columns = words.sizes(a)[-2:]
    size = rows or columns
    matrix = _filled_up(words, a, size, columns or size, True)
    if ir.BoolAttr(operation.attributes["left_side"]).value:
        right = _filled_up(words, b, size, None, False)
    else:
        right = _filled_up(words, b, None, size, False)
    _of_matrices(rewriter, operation, words, [matrix, right])


def _of_matrices(
    rewriter: Rewriter, operation: ir.Operation, words: Words, values: list[Value]
) -> None:
    """Puts what the operation gives of these values, of fixed sizes, in the place of its result.

    Those of 8 bits in f32: XLA rounds each step to the type, and some types have no zero.
    """
    shape = array_of(operation.results[0])
    narrow = shape.element_type.bits <= 8
    if not narrow and values == list(operation.operands):
        return
    if narrow:
        values = [words.converted(value, pt.f32) for value in values]
    name = operation.name.removeprefix("stablehlo.")
    result = words(name, array_of(values[-1]), values, attributes_of(operation))
    result = words.sized(result, words.sizes(operation.operands[-1]))
    rewriter.replace(operation, [words.converted(result, shape.element_type)])


def _filled_up(
    words: Words, value: Value, rows: Value | None, columns: Value | None, one: bool
) -> Value:
    """An array of matrices in its largest size, filled up from some row and column on.

    Args:
        words: creates the operations.
        value: an array of matrices.
        rows, columns: how many rows and columns stay; None for all.
        one: True to fill them up with the identity, False to fill them up with zeros.
    """
    whole = words.at_bounds(value)
    shape = array_of(whole)
    places = shape.with_element_type(pt.s32)
    row, column = shape.rank - 2, shape.rank - 1
    inside = [
        words.compared("LT", words.counted(places, dimension), words.spread(size, shape))
        for dimension, size in ((row, rows), (column, columns))
        if size is not None
    ]
    if not inside:
        return whole
    filling = words.spread(words.number(0, shape.element_type), shape)
    if one:
        ones = words.spread(words.number(1, shape.element_type), shape)
        diagonal = words.compared("EQ", words.counted(places, row), words.counted(places, column))
        filling = words("select", shape, [diagonal, ones, filling])
    kept = inside[0]
    if len(inside) > 1:
        kept = words("and", shape.with_element_type(pt.pred), inside)
    return words("select", shape, [kept, whole, filling])


@rewrite("stablehlo.fft", "cpu", "gpu")
def fft(rewriter: Rewriter, operation: ir.Operation) -> None:
    """In fixed sizes: XLA can't compile bounded ones, though each transform is one by itself."""
    operand, result = operation.operands[0], array_of(operation.results[0])
    if result.is_static or not result.is_bounded or not _has_its_lengths(operation):
        return
    words = Words(rewriter, operation)
    whole = words("fft", result.at_bounds(), [words.at_bounds(operand)], attributes_of(operation))
    rewriter.replace(operation, [words.sized(whole, words.sizes(operand))])


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
