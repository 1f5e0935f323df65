"""Dot products of vectors, of matrices, of batches of matrices, and of groups of unequal sizes.

Operation Semantics: Dot, DotGeneral. xla_builder.h: RaggedDot.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from builder.attributes import (
    DotAlgorithm,
    DotAlgorithmLike,
    DotDimensionNumbers,
    DotDimensionNumbersLike,
    Precision,
    PrecisionLike,
    RaggedDotDimensionNumbers,
    RaggedDotDimensionNumbersLike,
)
from builder.checking import Check, sizes_differ
from builder.errors import ShapeInferenceError, error_of
from builder.graph.xla_op import XlaOp
from builder.ops.definition import op
from builder.schema.definition import (
    ANY,
    BUILDER_H,
    INTEGER,
    Attribute,
    CostClass,
    LargestTerm,
    Tolerance,
    define,
)
from builder.schema.equal_sizes import Pairs, SizedOp, Sizes
from builder.schema.kinds import (
    ALGORITHM,
    ELEMENT_TYPE,
    PRECISION,
    DimensionNumbers,
    Field,
    Precisions,
)
from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType, PrimitiveTypeLike
from builder.types.shape import UNBOUNDED, ArrayShape, Shape

Types = frozenset[PrimitiveType]

_F8 = frozenset(t for t in pt.ALL if t.is_floating and t.bits == 8)
_F16, _BF16, _F32, _F64 = (frozenset((t,)) for t in (pt.f16, pt.bf16, pt.f32, pt.f64))

ALGORITHM_TYPES: Final[dict[DotAlgorithm, tuple[tuple[Types, Types], ...]]] = {
    DotAlgorithm.DOT_ANY_F8_ANY_F8_F32: ((_F8, _F8 | _F16 | _BF16 | _F32),),
    DotAlgorithm.DOT_ANY_F8_ANY_F8_F32_FAST_ACCUM: ((_F8, _F8 | _F16 | _BF16 | _F32),),
    DotAlgorithm.DOT_F16_F16_F16: ((_F16, _F16),),
    DotAlgorithm.DOT_F16_F16_F32: ((_F16, _F16 | _F32),),
    DotAlgorithm.DOT_BF16_BF16_BF16: ((_BF16, _BF16),),
    DotAlgorithm.DOT_BF16_BF16_F32: ((_BF16, _BF16 | _F32), (_F32, _F32)),
    DotAlgorithm.DOT_BF16_BF16_F32_X3: ((_F32, _F32),),
    DotAlgorithm.DOT_BF16_BF16_F32_X6: ((_F32, _F32),),
    DotAlgorithm.DOT_BF16_BF16_F32_X9: ((_F32, _F32),),
    DotAlgorithm.DOT_TF32_TF32_F32: ((_F32, _F32),),
    DotAlgorithm.DOT_TF32_TF32_F32_X3: ((_F32, _F32),),
    DotAlgorithm.DOT_F32_F32_F32: ((_F32, _F32),),
    DotAlgorithm.DOT_F64_F64_F64: ((_F64, _F64),),
}
"""For each algorithm, pairs (element types of the operands, element types of the result)."""


def is_promotable(element_type: PrimitiveType, to: PrimitiveType) -> bool:
    """Return whether `to` may be the `preferred_element_type` of a dot product of `element_type`.

    `to` may be `element_type`, or a wider type of the same kind that represents all values of
    `element_type`. A wider signed integer may replace an unsigned integer.
    """
    if to is element_type:
        return True
    integral = to.is_integral and element_type.is_integral
    return (
        (to.kind is element_type.kind or integral)
        and to.bits > element_type.bits
        and to.min <= element_type.min
        and to.max >= element_type.max
    )


def dot_general_shape(
    lhs: Shape,
    rhs: Shape,
    dimension_numbers: DotDimensionNumbers,
    preferred_element_type: PrimitiveType | None = None,
    algorithm: DotAlgorithm | None = None,
    *,
    op: str,
) -> ArrayShape:
    """Return the shape of products summed over the contracting dimensions.

    The batch dimensions come first, then the free dimensions of lhs, then those of rhs. `op` is the
    op to name in messages.
    """
    check = Check(op, lhs=lhs, rhs=rhs)
    left, right = check.array("lhs"), check.array("rhs")
    # StableHLO dot_general (C13)
    element_type = check.same_element_type()
    n = dimension_numbers
    for of, contracting, batch in (
        ("lhs", n.lhs_contracting_dimensions, n.lhs_batch_dimensions),
        ("rhs", n.rhs_contracting_dimensions, n.rhs_batch_dimensions),
    ):
        # StableHLO dot_general (C5-C8)
        check.dimensions_in_range(contracting, of=of, name=f"{of}_contracting_dimensions")
        check.dimensions_in_range(batch, of=of, name=f"{of}_batch_dimensions")
        # StableHLO dot_general (C3), (C4)
        check.unique(
            (*contracting, *batch),
            name=f"{of}_contracting_dimensions and {of}_batch_dimensions together",
        )
    _pairs(check, n, "contracting", n.lhs_contracting_dimensions, n.rhs_contracting_dimensions)
    _pairs(check, n, "batch", n.lhs_batch_dimensions, n.rhs_batch_dimensions)
    result = element_type if preferred_element_type is None else preferred_element_type
    # XLA shape_inference.cc: InferDotOpShape
    if not is_promotable(element_type, result):
        check.fail(
            f"preferred_element_type must be the operands' element type, {element_type}, or a "
            "wider type of its kind",
            got=result,
            fix="convert the operands or the result with xb.convert_element_type",
        )
    if algorithm is not None:
        _algorithm(check, algorithm, element_type, result)
    sizes: list[int] = []
    dynamic: list[bool] = []
    for array, numbers in (
        (left, n.lhs_batch_dimensions),
        (left, _free(left, n.lhs_contracting_dimensions, n.lhs_batch_dimensions)),
        (right, _free(right, n.rhs_contracting_dimensions, n.rhs_batch_dimensions)),
    ):
        sizes += [array.dimensions[i] for i in numbers]
        dynamic += [array.dynamic_dimensions[i] for i in numbers]
    return check.result(result, sizes, dynamic)


def _free(array: ArrayShape, contracting: Sequence[int], batch: Sequence[int]) -> list[int]:
    return [i for i in range(array.rank) if i not in contracting and i not in batch]


def _pairs(
    check: Check,
    numbers: DotDimensionNumbers,
    kind: str,
    of_lhs: Sequence[int],
    of_rhs: Sequence[int],
) -> None:
    """Check that paired dimensions of lhs and rhs are equal in number and in size."""
    # StableHLO dot_general (C1), (C2)
    if len(of_lhs) != len(of_rhs):
        check.fail(
            f"lhs and rhs must have the same number of {kind} dimensions",
            got=f"{len(of_lhs)} of lhs, {list(of_lhs)}, and {len(of_rhs)} of rhs, {list(of_rhs)}",
            fix=f"write a dimension of rhs for each {kind} dimension of lhs",
        )
    # StableHLO dot_general (C9), (C10)
    rule = f"{kind} dimensions must have equal sizes"
    for i, j in zip(of_lhs, of_rhs, strict=True):
        fix = (
            partial(_matrix_fix, check)
            if check.op == "dot"
            else partial(_fix, check, numbers, i, j)
        )
        check.equal_sizes(rule, "lhs", i, "rhs", j, fix)


def _matrix_fix(check: Check) -> str | None:
    """Return the fix for operands of `dot` whose contracting dimensions have different sizes."""
    lhs, rhs = check.array("lhs"), check.array("rhs")
    if max(lhs.rank, rhs.rank) > 2:
        return (
            "for matrices with batch dimensions write lhs @ rhs; xb.dot sums over dimension 1 of "
            "lhs and 0 of rhs"
        )
    is_fixed = lhs.rank == rhs.rank == 2 and rhs.dimensions[1] != UNBOUNDED
    if is_fixed and not sizes_differ(lhs.dimensions[1], rhs.dimensions[1]):
        return "transpose rhs first with xb.transpose(rhs, [1, 0])"
    is_fixed = lhs.rank == 2 and lhs.dimensions[0] != UNBOUNDED
    if is_fixed and not sizes_differ(lhs.dimensions[0], rhs.dimensions[0]):
        return "transpose lhs first with xb.transpose(lhs, [1, 0])"
    if rhs.rank == 2 and not sizes_differ(lhs.dimensions[0], rhs.dimensions[1]):
        return "exchange lhs and rhs"
    return None


def _fix(check: Check, numbers: DotDimensionNumbers, i: int, j: int) -> str | None:
    """Return the fix that pairs dimension `i` of lhs, or `j` of rhs, with one of equal size."""
    lhs, rhs = check.array("lhs"), check.array("rhs")
    pairs = [
        (i, k) for k in _free(rhs, numbers.rhs_contracting_dimensions, numbers.rhs_batch_dimensions)
    ]
    pairs += [
        (k, j) for k in _free(lhs, numbers.lhs_contracting_dimensions, numbers.lhs_batch_dimensions)
    ]
    for left, right in pairs:
        if not sizes_differ(lhs.dimensions[left], rhs.dimensions[right]):
            return (
                f"pair dimension {left} of lhs with dimension {right} of rhs, both of size "
                f"{lhs.dimension_text(left)}"
            )
    return None


def _algorithm(
    check: Check, algorithm: DotAlgorithm, element_type: PrimitiveType, result: PrimitiveType
) -> None:
    """Check that an algorithm supports the element types of the operands and of the result."""
    rows = ALGORITHM_TYPES[algorithm]
    # XLA xla_data.proto: PrecisionConfig.Algorithm
    if not any(element_type in operands and result in results for operands, results in rows):
        supported = " or ".join(
            f"operands of {_names(operands)} with a result of {_names(results)}"
            for operands, results in rows
        )
        converted = any(element_type in operands for operands, _ in rows)
        change = (
            "set preferred_element_type"
            if converted
            else "convert the operands with xb.convert_element_type"
        )
        check.fail(
            f"algorithm {algorithm.value} takes {supported}",
            got=f"operands of {element_type} with a result of {result}",
            fix=f"{change}, or omit algorithm",
        )


def _names(types: Types) -> str:
    return " or ".join(t.name for t in pt.ALL if t in types)


DEFAULT_PRECISION: Final = Precision.pair(None)

PRECISION_ATTRIBUTE: Final = Attribute(
    "precision",
    PRECISION,
    "operand_precision",
    "precision_config",
    omitted=DEFAULT_PRECISION,
    absent=DEFAULT_PRECISION,
    # None is the default of the public ops, which need not check it.
    argument=lambda pair: None if pair == DEFAULT_PRECISION else pair,
)
"""The attribute `precision` of products."""


def dot_fields(inside: str = "") -> list[Field]:
    """Return the fields of DotDimensionNumbers; `inside` is the prefix of nested numbers."""
    return [
        Field(
            f"{inside}{side}_{kind}_dimensions",
            f"{side}_{kind}_dims",
            f"{side}_{stablehlo}_dimensions",
            kind == "batch",
        )
        for side in ("lhs", "rhs")
        for kind, stablehlo in (("batch", "batching"), ("contracting", "contracting"))
    ]


_DOT: Final = DimensionNumbers(DotDimensionNumbers, "stablehlo.dot", dot_fields())


def _contracted(op: Any) -> int:
    """Return the number of products that are added up for each element of a dot product."""
    numbers = op.attributes["dimension_numbers"]
    dot_numbers = getattr(numbers, "dot_dimension_numbers", numbers)
    sizes = op.operands[0].shape.dimensions
    return math.prod(sizes[d] for d in dot_numbers.lhs_contracting_dimensions)


DOT_TOLERANCE: Final = Tolerance(2, terms=_contracted, largest_term=LargestTerm.PRODUCT)


def _equal_sizes(op: SizedOp) -> Pairs:
    numbers, (lhs, rhs) = op.attributes["dimension_numbers"], op.operands
    yield from equal_sizes_of_operands(numbers, lhs, rhs)
    left = {*numbers.lhs_batch_dimensions, *numbers.lhs_contracting_dimensions}
    right = {*numbers.rhs_batch_dimensions, *numbers.rhs_contracting_dimensions}
    sizes = [lhs[d] for d in numbers.lhs_batch_dimensions]
    sizes += [size for d, size in enumerate(lhs) if d not in left]
    sizes += [size for d, size in enumerate(rhs) if d not in right]
    yield from zip(op.results[0], sizes, strict=True)


def equal_sizes_of_operands(numbers: DotDimensionNumbers, lhs: Sizes, rhs: Sizes) -> Pairs:
    """Yield the sizes of the batch and contracting dimensions of two operands."""
    batch = numbers.lhs_batch_dimensions, numbers.rhs_batch_dimensions
    contracting = numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions
    for left, right in (*zip(*batch, strict=True), *zip(*contracting, strict=True)):
        yield lhs[left], rhs[right]


DOT_GENERAL: Final = define(
    "dot_general",
    "lhs rhs",
    (
        Attribute("dimension_numbers", _DOT, stablehlo="dot_dimension_numbers"),
        PRECISION_ATTRIBUTE._replace(unless="algorithm"),
        Attribute("algorithm", ALGORITHM, omitted=None, absent=None),
    ),
    element_types={"lhs": ANY, "rhs": ANY},
    hlo="dot",
    cost=CostClass.RULE,
    tolerance=DOT_TOLERANCE,
    equal_sizes=_equal_sizes,
)


def _dot_general_attributes(
    dimension_numbers: DotDimensionNumbers,
    precision: tuple[Precision, Precision] | None,
    algorithm: DotAlgorithm | None,
) -> Mapping[str, Any]:
    if algorithm is not None and precision not in (None, DEFAULT_PRECISION):
        got = f"{precision} and {algorithm.value}"
        rule = "at most one of precision and algorithm is allowed"
        raise error_of(ShapeInferenceError, "dot_general", rule, "omit precision", got=got)
    return {
        "dimension_numbers": dimension_numbers,
        "precision": precision or DEFAULT_PRECISION,
        "algorithm": algorithm,
    }


@op(
    DOT_GENERAL,
    dot_general_shape,
    _dot_general_attributes,
    preferred_element_type=ELEMENT_TYPE,
)
def dot_general(
    lhs: XlaOp,
    rhs: XlaOp,
    dimension_numbers: DotDimensionNumbersLike,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: PrimitiveTypeLike | None = None,
    algorithm: DotAlgorithmLike | None = None,
) -> XlaOp:
    """Sum products over the contracting dimensions, for each index of the batch dimensions.

    Args:
        lhs, rhs: arrays of one element type.
        dimension_numbers: DotDimensionNumbers, or a pair of pairs
            ``((lhs contracting, rhs contracting), (lhs batch, rhs batch))``. Corresponding
            dimensions of lhs and rhs have equal sizes.
        precision: a Precision or its name, or a pair of them for lhs and rhs; DEFAULT if omitted.
        preferred_element_type: the element type of the result and of the sums: a wider type of the
            same kind; by default the operands' element type.
        algorithm: a DotAlgorithm or its name, to fix exactly how the product is computed. It
            replaces `precision`. The available algorithms depend on the device.

    Returns:
        An array of the batch dimensions, then the remaining dimensions of lhs, then the remaining
        dimensions of rhs.

    Raises:
        ShapeInferenceError: element types differ; dimensions are out of range, duplicated or do not
            match; the algorithm does not support these types.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, y = b.parameter(xb.f32[7, 3, 4]), b.parameter(xb.f32[7, 4, 5])
        >>> xb.dot_general(x, y, xb.DotDimensionNumbers([2], [1], [0], [0])).shape
        f32[7,3,5]
        >>> xb.dot_general(x, y, (([2], [1]), ([], []))).shape
        f32[7,3,7,5]

    Operation Semantics: DotGeneral.
    """


def _dot_dimension_numbers(lhs: Shape, rhs: Shape) -> DotDimensionNumbers:
    check = Check("dot", lhs=lhs, rhs=rhs)
    # Operation Semantics: Dot
    for name in ("lhs", "rhs"):
        if not check.array(name).rank:
            check.fail(
                f"{name} must have a dimension to sum over", got="a scalar", fix="use xb.mul"
            )
    return DotDimensionNumbers((0 if check.array("lhs").rank == 1 else 1,), (0,))


def _dot_shape(
    lhs: Shape, rhs: Shape, preferred_element_type: PrimitiveType | None = None
) -> ArrayShape:
    numbers = _dot_dimension_numbers(lhs, rhs)
    return dot_general_shape(lhs, rhs, numbers, preferred_element_type, op="dot")


def _dot_attributes(
    lhs: Shape, rhs: Shape, precision: tuple[Precision, Precision] | None
) -> Mapping[str, Any]:
    return _dot_general_attributes(_dot_dimension_numbers(lhs, rhs), precision, None)


@op(
    DOT_GENERAL,
    _dot_shape,
    _dot_attributes,
    cpp_name="Dot",
    section="Dot",
    preferred_element_type=ELEMENT_TYPE,
)
def dot(
    lhs: XlaOp,
    rhs: XlaOp,
    precision: PrecisionLike = None,
    preferred_element_type: PrimitiveTypeLike | None = None,
) -> XlaOp:
    """Return the dot product of vectors, or of a matrix with a vector or a matrix.

    The sum is over dimension 1 of lhs (0 if it is a vector) and dimension 0 of rhs. Recorded as
    `dot_general`.

    Args:
        lhs, rhs: arrays of one element type, not scalars. Higher ranks are accepted. For batches
            of matrices write ``lhs @ rhs``, which is `builder.lib.matmul`, or use `dot_general`.
        precision: a Precision or its name, or a pair of them for lhs and rhs; DEFAULT if omitted.
        preferred_element_type: the element type of the result and of the sums: a wider type of the
            same kind; by default the operands' element type.

    Returns:
        An array of the remaining dimensions of lhs, then the remaining dimensions of rhs.

    Raises:
        ShapeInferenceError: the element types or the summed sizes differ; an operand is a scalar.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> m, v = b.parameter(xb.f32[3, 4]), b.parameter(xb.f32[4])
        >>> xb.dot(m, v).shape, xb.dot(v, v).shape
        (f32[3], f32[])

    Operation Semantics: Dot.
    """


class RaggedMode(enum.Enum):
    """The kind of the ragged dimension of a dot product."""

    FREE = "neither contracting nor batch"
    CONTRACTING = "contracting"
    BATCH = "batch"


def ragged_mode(numbers: RaggedDotDimensionNumbers) -> RaggedMode:
    """Return the kind of the ragged dimension; `numbers` must be valid for the operands."""
    dot = numbers.dot_dimension_numbers
    (ragged,) = numbers.lhs_ragged_dimensions
    if ragged in dot.lhs_batch_dimensions:
        return RaggedMode.BATCH
    return RaggedMode.CONTRACTING if ragged in dot.lhs_contracting_dimensions else RaggedMode.FREE


def ragged_prefix(numbers: RaggedDotDimensionNumbers) -> tuple[int, ...]:
    """Return the dimensions of lhs along which the sizes of the groups may vary."""
    dot = numbers.dot_dimension_numbers
    (ragged,) = numbers.lhs_ragged_dimensions
    batch, contracting = dot.lhs_batch_dimensions, dot.lhs_contracting_dimensions
    match ragged_mode(numbers):
        case RaggedMode.BATCH:
            return batch[: batch.index(ragged)]
        case RaggedMode.CONTRACTING:
            return (*batch, *contracting[: contracting.index(ragged)])
        case RaggedMode.FREE:
            return (*batch, *(d for d in range(ragged) if d not in (*batch, *contracting)))


def _ragged_dot_shape(
    lhs: Shape,
    rhs: Shape,
    group_sizes: Shape,
    dimension_numbers: RaggedDotDimensionNumbers,
    preferred_element_type: PrimitiveType | None = None,
) -> ArrayShape:
    check = Check("ragged_dot", lhs=lhs, rhs=rhs, group_sizes=group_sizes)
    left, right, sizes = check.arrays()
    n = dimension_numbers
    dot = n.dot_dimension_numbers
    product = dot_general_shape(left, right, dot, preferred_element_type, op="ragged_dot")
    # xla_builder.h: RaggedDot, and CHLO ragged_dot
    if len(n.lhs_ragged_dimensions) != 1:
        check.fail(
            "lhs_ragged_dimensions must be one dimension",
            got=f"{len(n.lhs_ragged_dimensions)}: {list(n.lhs_ragged_dimensions)}",
        )
    check.dimensions_in_range(n.lhs_ragged_dimensions, of="lhs", name="lhs_ragged_dimensions")
    check.dimensions_in_range(n.rhs_group_dimensions, of="rhs", name="rhs_group_dimensions")
    bound_dimensions = (*dot.rhs_batch_dimensions, *dot.rhs_contracting_dimensions)
    check.unique(
        (*n.rhs_group_dimensions, *bound_dimensions),
        name="rhs_group_dimensions, rhs_batch_dimensions and rhs_contracting_dimensions together",
    )
    mode = ragged_mode(n)
    is_free = mode is RaggedMode.FREE
    if len(n.rhs_group_dimensions) != is_free:
        check.fail(
            f"rhs_group_dimensions must {'list one dimension' if is_free else 'be empty'} if the "
            f"ragged dimension of lhs is {mode.value}",
            got=list(n.rhs_group_dimensions),
        )
    _group_sizes(check, left, sizes, n)
    dimensions, dynamic = list(product.dimensions), list(product.dynamic_dimensions)
    if mode is RaggedMode.CONTRACTING:
        dimensions.insert(0, sizes.dimensions[-1])
        dynamic.insert(0, sizes.dynamic_dimensions[-1])
    if is_free:
        (group,) = n.rhs_group_dimensions
        # xla_builder.h: RaggedDot, and CHLO ragged_dot
        rule = "the group dimension of rhs must have the size of the last dimension of group_sizes"
        check.equal_sizes(rule, "rhs", group, "group_sizes", sizes.rank - 1)
        # The group dimension is one of the free dimensions of rhs, which come last.
        free = [d for d in range(right.rank) if d not in bound_dimensions]
        at = len(dimensions) - len(free) + free.index(group)
        del dimensions[at], dynamic[at]
    return check.result(product.element_type, dimensions, dynamic)


def _group_sizes(
    check: Check, lhs: ArrayShape, sizes: ArrayShape, numbers: RaggedDotDimensionNumbers
) -> None:
    """Check the shape of `group_sizes`: one vector, or one for each index of `ragged_prefix`."""
    # xla_builder.h: RaggedDot, and CHLO ragged_dot
    check.element_types(RAGGED_DOT.element_types)
    prefix = [lhs.dimensions[d] for d in ragged_prefix(numbers)]
    forms = "[groups]" + (f" or [{', '.join(map(str, prefix))}, groups]" if prefix else "")
    if sizes.rank not in (1, len(prefix) + 1):
        check.fail(f"group_sizes must have sizes {forms}", got=f"rank {sizes.rank}")
    if sizes.rank > 1:
        for index, (size, got) in enumerate(zip(prefix, sizes.dimensions, strict=False)):
            if sizes_differ(size, got):
                rule = f"group_sizes must have sizes {forms}"
                check.fail(rule, got=f"{got} in place of {size}", dimension=index)


_RAGGED_DOT: Final = DimensionNumbers(
    RaggedDotDimensionNumbers,
    "chlo.ragged_dot",
    [
        *dot_fields("dot_dimension_numbers."),
        Field("lhs_ragged_dimensions", "lhs_ragged_dims", "lhs_ragged_dimensions"),
        Field("rhs_group_dimensions", "rhs_group_dims", "rhs_group_dimensions", True),
    ],
)


def _equal_sizes_of_groups(op: SizedOp) -> Pairs:
    lhs, rhs, _ = op.operands
    numbers = op.attributes["dimension_numbers"].dot_dimension_numbers
    return equal_sizes_of_operands(numbers, lhs, rhs)


RAGGED_DOT: Final = define(
    "ragged_dot",
    "lhs rhs group_sizes",
    (
        Attribute("dimension_numbers", _RAGGED_DOT, stablehlo="ragged_dot_dimension_numbers"),
        PRECISION_ATTRIBUTE._replace(kind=Precisions("chlo")),
    ),
    section=BUILDER_H,
    element_types={"lhs": ANY, "rhs": ANY, "group_sizes": INTEGER},
    stablehlo="chlo.ragged_dot",
    synonyms=("mhlo.ragged_dot",),
    cost=CostClass.RULE,
    tolerance=DOT_TOLERANCE,
    equal_sizes=_equal_sizes_of_groups,
)


def _ragged_dot_attributes(
    dimension_numbers: RaggedDotDimensionNumbers, precision: tuple[Precision, Precision] | None
) -> Mapping[str, Any]:
    return {"dimension_numbers": dimension_numbers, "precision": precision or DEFAULT_PRECISION}


@op(
    RAGGED_DOT,
    _ragged_dot_shape,
    _ragged_dot_attributes,
    preferred_element_type=ELEMENT_TYPE,
)
def ragged_dot(
    lhs: XlaOp,
    rhs: XlaOp,
    group_sizes: XlaOp,
    dimension_numbers: RaggedDotDimensionNumbersLike,
    precision: PrecisionLike = None,
    preferred_element_type: PrimitiveTypeLike | None = None,
) -> XlaOp:
    """Return a dot product in which one dimension is divided into consecutive groups of any sizes.

    The group sizes are runtime values. The meaning of the groups depends on the ragged dimension.
    For matrices [m, k] and [k, n] and g groups:

    - m, neither contracting nor batch: rhs is [g, k, n], a matrix for each group. Each row of lhs
      is multiplied by the matrix of its group. Rows after the last group give zeros.
    - k, contracting: the result is [g, m, n], a product for each group, summed over that group
      only.
    - a batch dimension: the result is that of `dot_general`; the groups have no effect.

    On CPU, XLA computes the products of all rows with the matrices of all groups, and selects the
    results.

    Args:
        lhs, rhs: arrays of one element type.
        group_sizes: integers [g]; or [..., g], with separate sizes in each batch. The dimensions
            before g are then the batch dimensions of lhs, followed by the free dimensions of lhs
            before a free ragged dimension, or the contracting dimensions of lhs before a
            contracting ragged dimension.
        dimension_numbers: RaggedDotDimensionNumbers, or a triple: the dimension numbers of
            `dot_general`, the ragged dimension of lhs, and the group dimension of rhs.
        precision: a Precision or its name, or a pair of them for lhs and rhs; DEFAULT if omitted.
        preferred_element_type: the element type of the result and of the sums: a wider type of the
            same kind; by default the operands' element type.

    Returns:
        The result of `dot_general` without the group dimension. If the ragged dimension is
        contracting, a dimension for the groups comes first.

    Raises:
        ShapeInferenceError: see `dot_general`; there is not exactly one ragged dimension, or the
            required group dimension is missing; `group_sizes` does not have the dimensions above,
            or is not of integers.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, sizes = b.parameter(xb.f32[11, 5]), b.parameter(xb.s32[3])
        >>> w = b.parameter(xb.f32[3, 5, 7])
        >>> numbers = xb.RaggedDotDimensionNumbers((([1], [1]), ([], [])), [0], [0])
        >>> xb.ragged_dot(x, w, sizes, numbers).shape
        f32[11,7]

    Not in Operation Semantics; XlaBuilder's RaggedDot.
    """
