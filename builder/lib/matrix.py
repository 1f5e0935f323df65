"""Diagonals, triangles, transposes and products of matrices, which are the last two dimensions.

The dimensions in front of them are batch dimensions. Diagonals are numbered as in NumPy: 0 is the
main one, positive numbers are above it, and negative ones below. Masks of bounded sizes have the
bounds as sizes.

XLA: matrix.h of the client library. Its `grad_x` and `grad_y` are not parameters here: they are
frontend attributes, which `XlaBuilder.frontend_attributes` sets.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import islice
from string import ascii_lowercase
from typing import Any, Final

from builder.attributes import DotDimensionNumbers, GatherDimensionNumbers, PrecisionLike
from builder.checking import CONVERT, flag, integer, integers
from builder.errors import OperandError, ShapeInferenceError, brief, error_of
from builder.graph.xla_op import XlaOp
from builder.lib.arguments import (
    array_argument,
    as_type,
    bounded_argument,
    shape_of,
    static_argument,
    widened,
)
from builder.lib.registry import library_function
from builder.ops import elementwise as ew
from builder.ops.contraction import dot, dot_general
from builder.ops.indexing import gather
from builder.ops.reduction import reduce
from builder.ops.reshaping import (
    broadcast,
    broadcast_in_dim,
    pad_in_dim,
    reshape,
    slice_in_dim,
    transpose,
)
from builder.types.primitive_type import PrimitiveTypeLike, pred, s32, s64
from builder.types.shape import UNBOUNDED, ArrayShape

EinsumArgument = XlaOp | str | Sequence[int]
"""An operand of `einsum`, or labels: of one operand, of the result, or of all."""

_Labels = list[Hashable]

_NAMES: Final = "xyzuvwpqrst"
"""The variables of the operands of `einsum` in messages."""


@library_function("GetDiagonalMask")
def get_diagonal_mask(x: XlaOp, k: int = 0) -> XlaOp:
    """Return a mask of the sizes of `x` that is true on a diagonal.

    Args:
        x: an array of at least two dimensions.
        k: the number of the diagonal.

    Raises:
        ShapeInferenceError: `x` has less than two dimensions, or an unbounded size.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.get_diagonal_mask(xb.XlaBuilder().parameter(xb.f32[5, 2, 3]), 1).shape
        pred[5,2,3]
    """
    return _mask("get_diagonal_mask", x, ew.eq, k)


@library_function("GetMatrixDiagonal")
def get_matrix_diagonal(x: XlaOp, k: int = 0) -> XlaOp:
    """Return a diagonal of each matrix.

    Args:
        x: an array of shape [..., m, n].
        k: the number of the diagonal.

    Returns:
        An array of shape [..., min(m, n - k)], or [..., min(m + k, n)] if k is negative. The size
        is 0 for a diagonal outside of the matrix.

    Raises:
        ShapeInferenceError: `x` has less than two dimensions, or an unbounded size.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.get_matrix_diagonal(xb.XlaBuilder().parameter(xb.f32[5, 2, 3]), 2).shape
        f32[5,1]
    """
    op = "get_matrix_diagonal"
    shape, m, n = _matrices(op, "x", x)
    k = integer(op, "k", k)
    length = _diagonal_length(m, n, k)
    major = shape.rank - 2
    if not any(shape.dynamic_dimensions[major:]):
        # The distance of the diagonal's elements in the order of rows is one row and one column.
        start = (k if k > 0 else -k * n) if length else 0
        limit = start + (length - 1) * (n + 1) + 1 if length else 0
        rows = reshape(x, [*shape.dimensions[:major], m * n])
        return slice_in_dim(rows, start, limit, n + 1, major)
    # In each row or column, at most one element is not masked.
    kind = shape.element_type
    zero: Any = False if kind is pred else 0
    if kind.is_floating or kind.is_complex:
        zero = complex(-0.0, -0.0) if kind.is_complex else -0.0  # leaves 0.0 and -0.0 unchanged
    masked = ew.select(_mask(op, x, ew.eq, k), x, zero)
    reduced = major if (k == 0 and m >= n) or k < 0 else major + 1
    is_sum = kind.is_floating or kind.is_complex
    result = reduce(masked, zero, ew.add if is_sum else ew.or_, [reduced])
    if shape_of(result).dimensions[major] == length:
        return result
    return slice_in_dim(result, 0, length, 1, major)


@library_function("GetMatrixDiagonalViaGather")
def get_matrix_diagonal_via_gather(x: XlaOp, k: int = 0) -> XlaOp:
    """Return a diagonal of each matrix, by one gather.

    The result is that of `get_matrix_diagonal`. This function is faster only on backends that
    gather fast from arrays that are sharded along the batch.

    Args:
        x: an array of shape [..., m, n].
        k: the number of the diagonal.

    Returns:
        An array of shape [..., min(m, n - k)], or [..., min(m + k, n)] if k is negative. The size
        is fixed, also if m or n is bounded.

    Raises:
        ShapeInferenceError: `x` has less than two dimensions, or an unbounded size.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> x = xb.XlaBuilder().parameter(xb.f32[5, 2, 3])
        >>> lib.get_matrix_diagonal_via_gather(x, -1).shape
        f32[5,1]
    """
    op = "get_matrix_diagonal_via_gather"
    shape, m, n = _matrices(op, "x", x)
    k = integer(op, "k", k)
    length = _diagonal_length(m, n, k)
    if not length:
        return get_matrix_diagonal(x, k)  # a gather needs an element to read
    index = s32 if max(m, n) <= s32.max else s64
    steps = x.builder.iota(index[length, 2], 0)
    first = x.builder.constant([max(-k, 0), max(k, 0)], index)
    major = shape.rank - 2
    numbers = GatherDimensionNumbers(
        offset_dims=tuple(range(major)),
        collapsed_slice_dims=(major, major + 1),
        start_index_map=(major, major + 1),
        index_vector_dim=1,
    )
    sizes = [*shape.dimensions[:major], 1, 1]
    return gather(x, ew.add(steps, first, [1]), numbers, sizes, indices_are_sorted=True)


@library_function("SetMatrixDiagonal")
def set_matrix_diagonal(x: XlaOp, diagonal: XlaOp, k: int = 0) -> XlaOp:
    """Replace a diagonal of each matrix.

    Args:
        x: an array of shape [..., m, n].
        diagonal: the new elements, an array of the shape that `get_matrix_diagonal` returns.
        k: the number of the diagonal.

    Returns:
        An array of the shape of `x`.

    Raises:
        ShapeInferenceError: `x` has less than two dimensions, or an unbounded size; `diagonal` has
            other sizes or another element type.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> matrix, diag = b.parameter(xb.f32[5, 2, 3]), b.parameter(xb.f32[5, 2])
        >>> lib.set_matrix_diagonal(matrix, diag, 1).shape
        f32[5,2,3]
    """
    op = "set_matrix_diagonal"
    shape, m, n = _matrices(op, "x", x)
    given = array_argument(op, "diagonal", diagonal)
    k = integer(op, "k", k)
    length = _diagonal_length(m, n, k)
    major = shape.rank - 2
    expected = (*shape.dimensions[:major], length)
    if given.dimensions != expected or given.element_type is not shape.element_type:
        wanted = shape.element_type[expected]
        rule = f"diagonal must be of shape {wanted} for diagonal {k} of {shape}"
        raise error_of(ShapeInferenceError, op, rule, got=given)
    # One element for each row, or for each column of a diagonal below the main one.
    along = major if k >= 0 else major + 1
    # The padding is never read; all types but pred have a 1, and f8e8m0fnu has no 0.
    unread = True if shape.element_type is pred else 1
    elements = pad_in_dim(diagonal, unread, major, 0, shape.dimensions[along] - length)
    wide = broadcast_in_dim(elements, shape.dimensions, [*range(major), along])
    return ew.select(_mask(op, x, ew.eq, k), wide, x)


@library_function("TriangleMask")
def triangle_mask(x: XlaOp, k: int) -> XlaOp:
    """Return a mask of the sizes of `x` that is true on a diagonal and below it.

    Args:
        x: an array of at least two dimensions.
        k: the number of the diagonal.

    Raises:
        ShapeInferenceError: `x` has less than two dimensions, or an unbounded size.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.triangle_mask(xb.XlaBuilder().parameter(xb.f32[3, 3]), -1).shape
        pred[3,3]
    """
    return _mask("triangle_mask", x, ew.le, k)


@library_function("Triangle")
def triangle(x: XlaOp, lower: bool) -> XlaOp:
    """Return the lower or the upper triangles of matrices, with their diagonals.

    Args:
        x: an array of at least two dimensions.
        lower: True to set the elements above the diagonal to zero, False for those below it.

    Raises:
        ShapeInferenceError: `x` has less than two dimensions, or an unbounded size.
        ConstantError: the element type can't represent 0.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.triangle(xb.XlaBuilder().parameter(xb.f32[3, 3]), lower=True).shape
        f32[3,3]
    """
    is_lower = flag("triangle", "lower", lower)
    mask = _mask("triangle", x, ew.le if is_lower else ew.ge, 0)
    return ew.select(mask, x, False if x.shape.element_type is pred else 0)


@library_function("UpperTriangle")
def upper_triangle(x: XlaOp) -> XlaOp:
    """Return matrices with the elements below the diagonal set to zero; see `triangle`.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.upper_triangle(xb.XlaBuilder().parameter(xb.f32[3, 3])).shape
        f32[3,3]
    """
    return triangle(x, lower=False)


@library_function("LowerTriangle")
def lower_triangle(x: XlaOp) -> XlaOp:
    """Return matrices with the elements above the diagonal set to zero; see `triangle`.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.lower_triangle(xb.XlaBuilder().parameter(xb.f32[3, 3])).shape
        f32[3,3]
    """
    return triangle(x, lower=True)


@library_function("Symmetrize")
def symmetrize(x: XlaOp, lower: bool) -> XlaOp:
    """Return symmetric matrices made of the lower or the upper triangles of `x`.

    Complex matrices become Hermitian: the other triangle is conjugated, and the diagonal is real.

    Args:
        x: an array of shape [..., n, n].
        lower: whether to take the lower or the upper triangle.

    Raises:
        ShapeInferenceError: the matrices are not square, or have a bounded size; a size is
            unbounded.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.symmetrize(xb.XlaBuilder().parameter(xb.c64[2, 3, 3]), lower=True).shape
        c64[2,3,3]
    """
    op = "symmetrize"
    shape, m, n = _matrices(op, "x", x)
    if m != n or any(shape.dynamic_dimensions[-2:]):
        rule = "the last two dimensions of x must have one fixed size"
        raise error_of(ShapeInferenceError, op, rule, got=shape)
    mask = _mask(op, x, ew.le if flag(op, "lower", lower) else ew.ge, 0)
    if not shape.element_type.is_complex:
        return ew.select(mask, x, transpose_in_minor_dims(x))
    whole = ew.select(mask, x, ew.conj(transpose_in_minor_dims(x)))
    imaginary = ew.select(_mask(op, x, ew.eq, 0), 0.0, ew.imag(whole))
    return ew.complex(ew.real(whole), imaginary)


@library_function("TransposeInMinorDims")
def transpose_in_minor_dims(x: XlaOp) -> XlaOp:
    """Exchange the last two dimensions.

    Args:
        x: an array of at least two dimensions, of any sizes.

    Raises:
        ShapeInferenceError: `x` has less than two dimensions.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.transpose_in_minor_dims(xb.XlaBuilder().parameter(xb.f32[5, 2, 3])).shape
        f32[5,3,2]
    """
    rank = _matrix_argument("transpose_in_minor_dims", "x", x).rank
    return transpose(x, [*range(rank - 2), rank - 1, rank - 2])


@library_function("MaybeTransposeInMinorDims")
def maybe_transpose_in_minor_dims(x: XlaOp, transpose: bool) -> XlaOp:
    """Exchange the last two dimensions, or return `x`.

    Args:
        x: an array of at least two dimensions, of any sizes.
        transpose: whether to exchange them.

    Raises:
        ShapeInferenceError: `x` has less than two dimensions.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> x = xb.XlaBuilder().parameter(xb.f32[5, 2, 3])
        >>> lib.maybe_transpose_in_minor_dims(x, False) is x
        True
    """
    op = "maybe_transpose_in_minor_dims"
    _matrix_argument(op, "x", x)
    return transpose_in_minor_dims(x) if flag(op, "transpose", transpose) else x


@library_function("BatchDot")
def batch_dot(
    x: XlaOp,
    y: XlaOp,
    precision: PrecisionLike = None,
    preferred_element_type: PrimitiveTypeLike | None = None,
    *,
    transpose_x: bool = False,
    transpose_y: bool = False,
) -> XlaOp:
    """Multiply matrices in batches: `einsum` with "...mk,...kn->...mn".

    Args:
        x: an array of shape [..., m, k], or [..., k, m] with `transpose_x`.
        y: an array of shape [..., k, n], or [..., n, k] with `transpose_y`. The batch dimensions
            are aligned at the last one; those of size 1, and missing ones, are broadcast.
        precision: see `builder.dot_general`.
        preferred_element_type: see `builder.dot_general`.
        transpose_x: whether the matrices of x are transposed. XLA has the argument after x.
        transpose_y: whether the matrices of y are transposed. XLA has the argument after y.

    Raises:
        ShapeInferenceError: an operand has less than two dimensions; sizes or element types
            differ.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> x, y = b.parameter(xb.f32[7, 2, 3]), b.parameter(xb.f32[7, 4, 3])
        >>> lib.batch_dot(x, y, transpose_y=True).shape
        f32[7,2,4]
    """
    left = "...km" if flag("batch_dot", "transpose_x", transpose_x) else "...mk"
    right = "...nk" if flag("batch_dot", "transpose_y", transpose_y) else "...kn"
    options = {"precision": precision, "preferred_element_type": preferred_element_type}
    return _multiplied("batch_dot", x, y, f"{left},{right}", options)


def _multiplied(op: str, x: XlaOp, y: XlaOp, labels: str, options: Mapping[str, Any]) -> XlaOp:
    """Multiply matrices in batches, with the labels "...mk,...kn" or others for transposed ones."""
    left, right = labels.split(",")
    sizes = dict(zip(left[-2:], _matrix_argument(op, "x", x).dimensions[-2:], strict=True))
    others = dict(zip(right[-2:], _matrix_argument(op, "y", y).dimensions[-2:], strict=True))
    count, rows = sizes["k"], others["k"]
    if count not in (rows, 1, UNBOUNDED) and rows not in (1, UNBOUNDED):
        rule = "the columns of x must be as many as the rows of y"
        got = f"{count} and {rows} of {x.shape} and {y.shape}"
        fix = ""
        if count == others["n"]:
            transposed = f"transpose_y={right == '...kn'}"
            fix = (
                f"write {transposed}" if op == "batch_dot" else f"lib.batch_dot(x, y, {transposed})"
            )
        shapes = {"x": x.shape, "y": y.shape}
        raise error_of(ShapeInferenceError, op, rule, fix, got=got, shapes=shapes)
    return einsum(x, y, f"{labels}->...mn", **options)


@library_function()
def matmul(
    x: XlaOp,
    y: XlaOp,
    precision: PrecisionLike = None,
    preferred_element_type: PrimitiveTypeLike | None = None,
) -> XlaOp:
    """Multiply vectors, matrices or batches of matrices, like NumPy's matmul: ``x @ y``.

    Args:
        x: an array of shape [k] or [..., m, k].
        y: an array of shape [k] or [..., k, n], of x's element type. The batch dimensions are
            aligned at the last one; those of size 1, and missing ones, are broadcast.
        precision: see `builder.dot_general`.
        preferred_element_type: see `builder.dot_general`.

    Returns:
        An array of shape [..., m, n], without m if x is a vector, and without n if y is a vector.

    Raises:
        ShapeInferenceError: an operand is a scalar; sizes or element types differ.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> x, w = b.parameter(xb.f32[7, 2, 3]), b.parameter(xb.f32[3, 4])
        >>> lib.matmul(x, w).shape, (x @ w).shape
        (f32[7,2,4], f32[7,2,4])
    """
    options: dict[str, Any] = {
        "precision": precision,
        "preferred_element_type": preferred_element_type,
    }
    ranks = array_argument("matmul", "x", x).rank, array_argument("matmul", "y", y).rank
    if max(ranks) <= 2:
        return dot(x, y, **options)
    if 0 in ranks:
        rule, fix = "an operand must not be a scalar", "multiply with x * y"
        got = f"{x.shape} and {y.shape}"
        raise error_of(ShapeInferenceError, "matmul", rule, fix, got=got)
    if ranks[1] == 1:
        return einsum(x, y, "...mk,k->...m", **options)
    if ranks[0] == 1:
        return einsum(x, y, "k,...kn->...n", **options)
    return _multiplied("matmul", x, y, "...mk,...kn", options)


@library_function("Einsum")
def einsum(
    *operands_and_config: EinsumArgument,
    precision: PrecisionLike = None,
    preferred_element_type: PrimitiveTypeLike | None = None,
) -> XlaOp:
    """Multiply arrays and sum over dimensions, as described by a label for each dimension.

    There are two forms, as in XLA::

        einsum(x, y, "ij,jk->ik")
        einsum(x, [0, 1], y, [1, 2], [0, 2])

    Both take any number of operands. More than two are multiplied from left to right: the first
    two, their product and the third one, and so on.

    The labels of a text are letters. "..." stands for any number of further dimensions, which are
    aligned at the last one; operands may have different numbers of them. Without "->", the result
    has the dimensions of "..." and then, in alphabetical order, the labels that occur once. A label
    (or "...") that is missing in the result is summed over, even if only one operand has it. Spaces
    are ignored.

    A label that occurs twice in an operand selects the diagonal. If a label occurs twice in the
    result, the result is zero outside of the diagonal. A dimension of size 1 is broadcast if
    another operand has another size for its label.

    Args:
        operands_and_config: arrays of one element type and their labels, in one of these forms.
        precision: see `builder.dot_general`.
        preferred_element_type: the element type of products, see `builder.dot_general`.

    Raises:
        OperandError: an argument is not an array or labels; the config comes first.
        ShapeInferenceError: the labels do not match the ranks, or sizes differ for a label; the
            result has a label that no operand has; element types differ.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> x, y = b.parameter(xb.f32[7, 2, 3]), b.parameter(xb.f32[3, 4])
        >>> lib.einsum(x, y, "...ij,jk->...ik").shape
        f32[7,2,4]
        >>> lib.einsum(y, "ij->j").shape
        f32[4]
    """
    operands, labels, result = _einsum_arguments(operands_and_config)
    first = shape_of(operands[0]).element_type
    for number, operand in enumerate(operands):
        if operand.shape.element_type is not first:
            rule = "the operands must have one element type"
            got = f"{first} and {operand.shape} (operand {number})"
            fix = f"{CONVERT}; nothing is promoted silently"
            raise error_of(ShapeInferenceError, "einsum", rule, fix, got=got)
    if len(operands) == 1 and preferred_element_type is not None:
        rule = "preferred_element_type is the type of a product"
        raise error_of(OperandError, "einsum", rule, CONVERT, got="one operand")
    _check_sizes(operands, labels, result)
    x, here = _diagonal(operands[0], labels[0])
    for number, operand in enumerate(operands[1:], 1):
        y, there = _diagonal(operand, labels[number])
        rest = set(result).union(*labels[number + 1 :])
        y = as_type(y, shape_of(x).element_type)  # the products before have the preferred type
        x, here = _product(x, here, y, there, rest, precision, preferred_element_type)
    x, here = _summed(x, here, set(result))
    order = list(dict.fromkeys(result))
    if order != here:
        x = transpose(x, [here.index(label) for label in order])
    return x if len(order) == len(result) else _on_diagonal(x, order, result)


def _einsum_arguments(
    arguments: Sequence[EinsumArgument],
) -> tuple[list[XlaOp], list[_Labels], _Labels]:
    """Return the operands, their labels, and the labels of the result."""
    if arguments and isinstance(arguments[-1], str):
        operands = _operands(arguments[:-1], arguments)
        return operands, *_parsed(arguments[-1], [shape_of(x).rank for x in operands])
    if len(arguments) < 3 or len(arguments) % 2 == 0 or isinstance(arguments[0], str):
        rule, got = "operands and then their labels are needed", f"{len(arguments)} arguments"
        if arguments and isinstance(arguments[0], str):
            rule, got = "the labels come after the operands", f"{brief(arguments[0])} first"
        raise error_of(OperandError, "einsum", rule, _einsum_fix(arguments), got=got)
    operands = _operands(arguments[:-1:2])
    given: list[Any] = [*arguments[1::2], arguments[-1]]
    numbers: list[_Labels] = [list(integers("einsum", "labels", labels)) for labels in given]
    for number, (operand, labels) in enumerate(zip(operands, numbers[:-1], strict=True)):
        _check_count(number, shape_of(operand).rank, len(labels))
    return operands, numbers[:-1], numbers[-1]


def _einsum_fix(arguments: Sequence[Any]) -> str:
    """Return the fix for arguments where operands or labels are not in their places.

    The fix uses the labels of the call; if there are none, each dimension gets its own label.
    """
    config = next((each for each in arguments if isinstance(each, str)), "")
    ranks = [shape_of(x).rank for x in arguments if isinstance(x, XlaOp) and x.shape.is_array]
    if not config and (not ranks or sum(ranks) > len(ascii_lowercase)):
        config = "ij,jk->ik"
    if config:
        names = _NAMES[: config.partition("->")[0].count(",") + 1]
        return f'write lib.einsum({", ".join(names)}, "{config}")'
    letters = iter(ascii_lowercase)
    labels = ["".join(islice(letters, rank)) for rank in ranks]
    config = f"{','.join(labels)}->{''.join(labels)}"
    call = f'write lib.einsum({", ".join(_NAMES[: len(ranks)])}, "{config}")'
    return f"{call}, with one letter for dimensions that are multiplied and summed over"


def _operands(values: Sequence[Any], config: Sequence[Any] = ()) -> list[XlaOp]:
    if not values:
        fix = _einsum_fix(config)
        raise error_of(OperandError, "einsum", "at least one operand is needed", fix, got="none")
    for number, value in enumerate(values):
        array_argument("einsum", f"operand {number}", value)
    return list(values)


def _parsed(config: str, ranks: Sequence[int]) -> tuple[list[_Labels], _Labels]:
    """Return the labels of the operands and of the result.

    The dimensions that "..." stands for have the labels -1 (the last one), -2, and so on.
    """
    left, arrow, right = config.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        rule = f"{config!r} has labels for {len(terms)} operands"
        raise error_of(ShapeInferenceError, "einsum", rule, got=len(ranks))
    labels: list[_Labels] = []
    most = 0
    for number, (term, rank) in enumerate(zip(terms, ranks, strict=True)):
        head, dots, tail = _split(config, term)
        more = rank - len(head) - len(tail) if dots else 0
        if more < 0 or not dots:
            _check_count(number, rank, len(head) + len(tail))
        most = max(most, more)
        labels.append([*head, *range(-more, 0), *tail])
    if not arrow:
        letters = [letter for letter in left if letter.isalpha()]
        single = sorted(letter for letter in letters if letters.count(letter) == 1)
        right = "".join([*(["..."] if "..." in left else []), *single])
    head, dots, tail = _split(config, right)
    return labels, [*head, *range(-most if dots else 0, 0), *tail]


def _split(config: str, term: str) -> tuple[str, str, str]:
    head, dots, tail = term.partition("...")
    for letter in head + tail:
        if not (letter.isascii() and letter.isalpha()):
            rule = 'labels must be letters or "..."'
            raise error_of(ShapeInferenceError, "einsum", rule, got=f"{letter!r} in {config!r}")
    return head, dots, tail


def _check_count(number: int, rank: int, count: int) -> None:
    if count != rank:
        rule = f"operand {number} has {rank} dimensions and {count} labels"
        raise error_of(ShapeInferenceError, "einsum", rule)


def _check_sizes(operands: Sequence[XlaOp], labels: Sequence[_Labels], result: _Labels) -> None:
    """Check that each label of the result has a size, and that the sizes of each label agree."""
    sizes: dict[Hashable, int] = {}
    for number, (operand, names) in enumerate(zip(operands, labels, strict=True)):
        shape = shape_of(operand)
        own: dict[Hashable, int] = {}
        for label, size in zip(names, shape.dimensions, strict=True):
            before = own.setdefault(label, size)
            if before == size:
                before = sizes.get(label, 1)
                sizes[label] = size if before in (1, UNBOUNDED) else before
                if 1 in (before, size) or UNBOUNDED in (before, size):
                    continue
            if before != size:
                rule = "the dimensions of a label must have one size or size 1"
                got = f"{before} and {size} for {_named(label)} (operand {number}, {shape})"
                raise error_of(ShapeInferenceError, "einsum", rule, got=got)
    for label in result:
        if label not in sizes:
            rule = "a label of the result must be one of an operand"
            raise error_of(ShapeInferenceError, "einsum", rule, got=_named(label))


def _named(label: Hashable) -> str:
    return f"label {label!r}"


def _diagonal(x: XlaOp, labels: _Labels) -> tuple[XlaOp, _Labels]:
    """Return the diagonal for each label that occurs twice, as the last dimension."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            rest = [n for n in range(len(labels)) if n not in (first, second)]
            x = get_matrix_diagonal(transpose(x, [*rest, first, second]))
            labels = [*(labels[n] for n in rest), label]
    return x, labels


def _on_diagonal(x: XlaOp, labels: _Labels, result: _Labels) -> XlaOp:
    """Return an array of the dimensions `result`, zero where the indices of equal labels differ."""
    shape = shape_of(x)
    static_argument("einsum", "a result with a label twice", shape)
    sizes = tuple([shape.dimensions[labels.index(label)] for label in result])
    first = [result.index(label) for label in labels]
    x = broadcast_in_dim(x, sizes, first)
    for n, label in enumerate(result):
        if result.index(label) != n:
            one, other = (x.builder.iota(s32[sizes], d) for d in (result.index(label), n))
            x = ew.select(ew.eq(one, other), x, False if shape.element_type is pred else 0)
    return x


def _product(
    x: XlaOp,
    here: _Labels,
    y: XlaOp,
    there: _Labels,
    rest: set[Hashable],
    precision: PrecisionLike,
    preferred_element_type: PrimitiveTypeLike | None,
) -> tuple[XlaOp, _Labels]:
    """Multiply two arrays, and sum over the labels that are not in `rest`."""
    # A dimension of size 1 is removed if it is broadcast to the other one.
    sizes = dict(zip(here, shape_of(x).dimensions, strict=True))
    others = dict(zip(there, shape_of(y).dimensions, strict=True))
    shared = [label for label in here if label in others]
    x_ones = {label for label in shared if sizes[label] == 1 != others[label]}
    y_ones = {label for label in shared if others[label] == 1 != sizes[label]}
    own = set(there) - x_ones
    x, here = _summed(x, here, (rest | own) - x_ones)
    y, there = _summed(y, there, (rest | set(here)) - y_ones)
    shared = [label for label in here if label in there]
    batch = [label for label in shared if label in rest]
    contracting = [label for label in shared if label not in rest]
    numbers = DotDimensionNumbers(
        lhs_contracting_dimensions=tuple([here.index(label) for label in contracting]),
        rhs_contracting_dimensions=tuple([there.index(label) for label in contracting]),
        lhs_batch_dimensions=tuple([here.index(label) for label in batch]),
        rhs_batch_dimensions=tuple([there.index(label) for label in batch]),
    )
    product = dot_general(
        x, y, numbers, precision=precision, preferred_element_type=preferred_element_type
    )
    outer = [label for label in [*here, *there] if label not in shared]
    return product, [*batch, *outer]


def _summed(x: XlaOp, labels: _Labels, wanted: set[Hashable]) -> tuple[XlaOp, _Labels]:
    """Return the sum of an array over the dimensions whose labels are not wanted."""
    dimensions = [n for n, label in enumerate(labels) if label not in wanted]
    if not dimensions:
        return x, labels
    kind = shape_of(x).element_type
    if kind is pred:
        rule = "the operands must be of numbers to sum over a dimension"
        raise error_of(ShapeInferenceError, "einsum", rule, CONVERT, got=x.shape)
    total = as_type(reduce(widened(x), 0, ew.add, dimensions), kind)
    return total, [label for label in labels if label in wanted]


def _matrix_argument(op: str, name: str, value: Any) -> ArrayShape:
    shape = array_argument(op, name, value)
    if shape.rank < 2:
        rule = f"{name} must have at least two dimensions"
        fix = "reshape a vector to a matrix of one row or one column"
        raise error_of(ShapeInferenceError, op, rule, fix, got=shape, shapes={name: shape})
    return shape


def _matrices(op: str, name: str, value: Any) -> tuple[ArrayShape, int, int]:
    """Return the shape of matrices without unbounded sizes, and the two sizes of a matrix."""
    shape = _matrix_argument(op, name, value)
    bounded_argument(op, name, shape)
    return shape, shape.dimensions[-2], shape.dimensions[-1]


def _diagonal_length(m: int, n: int, k: int) -> int:
    return max(min(m + min(k, 0), n - max(k, 0)), 0)


def _mask(op: str, x: XlaOp, comparison: Any, diagonal: int) -> XlaOp:
    """Return the comparison of the number of each element's diagonal with `diagonal`."""
    shape, m, n = _matrices(op, "x", x)
    # All diagonals outside of the matrix are equivalent.
    limit = min(max(integer(op, "diagonal", diagonal), -m - 1), n)
    index = s32 if max(m, n) < s32.max else s64
    columns, rows = (x.builder.iota(index[m, n], d) for d in (1, 0))
    return broadcast(comparison(columns - rows, limit), shape.dimensions[:-2])
