"""Sorts and top_k that XLA gets wrong, or that a platform lacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jaxlib.mlir import ir

from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import intern_array
from lowering.legalize.op_builder import Attributes, OpBuilder, array_of, attributes_of
from lowering.legalize.registry import ALL_PLATFORMS, INTERPRETER, Value, refuse, rewrite

_NORMALIZED: Final = {pt.bf16: pt.u16, pt.f8e8m0fnu: pt.u8}
_NARROW: Final = {
    pt.s2: pt.s8,
    pt.u2: pt.u8,
    pt.f8e3m4: pt.u8,
    pt.f8e4m3: pt.u8,
    pt.f8e5m2: pt.u8,
    pt.f8e5m2fnuz: pt.u8,
}


@rewrite("stablehlo.sort", platforms=("cpu",), fixed_in=(0, 12))
def sort_of_normalized_floats(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Sort elements of bf16 and f8e8m0fnu as their bits, which the comparator converts back.

    XLA sorts them as f32 and f16. The conversions change NaNs, and numbers out of range.

    Shown by: sort_bf16_nan, sort_f8e8m0fnu.
    """
    return _sorted_in(b, operation, _NORMALIZED)


@rewrite("stablehlo.sort", platforms=("cpu",))
def sort_of_narrow_types(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Sort elements of 2 bits in 8 bits, and some floats of 8 bits as their bits.

    XLA sorts elements of 2 bits wrong. It sorts these floats as f16; the conversions change NaNs,
    and make different numbers equal.

    Shown by: sort_s2, sort_u2, sort_f8e5m2_nan, sort_f8e5m2fnuz.
    """
    return _sorted_in(b, operation, _NARROW)


def _sorted_in(
    b: OpBuilder, operation: ir.Operation, others: Mapping[PrimitiveType, PrimitiveType]
) -> list[Value] | None:
    """The sort with operands of some types in other types; None if it has no such operands."""
    if others.keys().isdisjoint(map(b.element_type, operation.operands)):
        return None
    types = [array_of(value).element_type for value in operation.operands]
    pairs = zip(operation.operands, types, strict=True)
    operands = [_in_type(b, value, others.get(t, t)) for value, t in pairs]
    made = b.create(
        "sort", [v.type for v in operands], operands, attributes_of(operation), regions=1
    )
    scalars = [intern_array(others.get(t, t), ()) for t in types for _ in range(2)]
    inside, arguments = b.block_in(made.regions[0], scalars)
    own = [_in_type(inside, value, types[n // 2]) for n, value in enumerate(arguments)]
    inside.end(inside.inline(operation, 0, own))
    return [_in_type(b, value, t) for value, t in zip(made.results, types, strict=True)]


def _in_type(b: OpBuilder, value: Value, to: PrimitiveType) -> Value:
    """Integers converted; the bits of floats as integers, or back."""
    if to.is_floating or array_of(value).element_type.is_floating:
        return b.bitcast(value, to)
    return b.converted(value, to)


_TOP_K: Final = ("chlo.top_k", "mhlo.topk")


@rewrite(*_TOP_K, platforms=(*ALL_PLATFORMS, INTERPRETER))
def top_k_of_any_type(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Sort for top_k of complex numbers, of elements of 2 and 4 bits, and of bounded sizes.

    XLA makes a sort of top_k itself. It compares complex numbers, for which its comparison has
    no order; makes indices of the element type where that is narrow; and refuses bounded sizes.

    Shown by: top_k_c64, top_k_s4, top_k_bounded.
    """
    (operand,) = operation.operands
    shape = array_of(operand)
    element_type = shape.element_type
    if not (element_type.is_complex or element_type.bits in (2, 4)) and shape.is_static:
        return None
    return _top_k_by_sort(b, operation)


@rewrite(*_TOP_K, platforms=("cpu",))
def top_k_of_short_floats(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Sort for top_k of bf16 and of some floats of 8 bits.

    XLA computes it in f32, and the conversions change NaNs and their order.

    Shown by: top_k_bf16_nan, top_k_f8e5m2_nan.
    """
    element_type = b.element_type(operation.operands[0])
    if element_type is not pt.bf16 and element_type not in _NARROW:
        return None
    return _top_k_by_sort(b, operation)


@rewrite("mhlo.topk", platforms=("gpu", "tpu", INTERPRETER))
def smallest_top_k(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Sort for top_k of the smallest elements.

    StableHLO's interpreter has no operations of MHLO. On GPU and TPU it was never run: jax asks
    for the largest elements only.
    """
    return None if _is_largest(operation) else _top_k_by_sort(b, operation)


def _is_largest(operation: ir.Operation) -> bool:
    # chlo.top_k has no such attribute.
    name = "largest"
    return name not in operation.attributes or bool(ir.BoolAttr(operation.attributes[name]).value)


def _top_k_by_sort(b: OpBuilder, operation: ir.Operation) -> list[Value]:
    """The first elements of the sorted rows, and their places."""
    (operand,) = operation.operands
    shape = array_of(operand)
    element_type = shape.element_type
    # A slice changes NaNs too, so it is one of the bits.
    sorted_as = {**_NORMALIZED, **_NARROW}.get(element_type, element_type)
    wide = _in_type(b, operand, sorted_as)
    last = shape.rank - 1
    places = b.sized(b.counted(intern_array(pt.s32, shape.dimensions), last), b.sizes(operand))
    made = b.create(
        "sort",
        [wide.type, places.type],
        [wide, places],
        {"dimension": last, "is_stable": True},
        regions=1,
    )
    scalars = [intern_array(t, ()) for t in (sorted_as, sorted_as, pt.s32, pt.s32)]
    inside, arguments = b.block_in(made.regions[0], scalars)
    lhs, rhs = (_in_type(inside, value, element_type) for value in arguments[:2])
    direction = "GT" if _is_largest(operation) else "LT"
    inside.end([_is_before(inside, direction, lhs, rhs)])
    bounds: Attributes = {
        "start_indices": [0] * shape.rank,
        "limit_indices": [*shape.dimensions[:-1], array_of(operation.results[0]).dimensions[-1]],
        "strides": [1] * shape.rank,
    }
    # The sizes of the results: rows of bound 1 are fixed ones there.
    values, indices = (array_of(result) for result in operation.results)
    first = b("slice", values.with_element_type(sorted_as), [made.results[0]], bounds)
    return [_in_type(b, first, element_type), b("slice", indices, [made.results[1]], bounds)]


def _is_before(b: OpBuilder, direction: str, lhs: Value, rhs: Value) -> Value:
    """The order of top_k: floats in their total order, complex numbers by part."""
    element_type = array_of(lhs).element_type
    if not element_type.is_complex:
        kind = "TOTALORDER" if element_type.is_floating else None
        return b.compared(direction, lhs, rhs, kind)
    part = intern_array(element_type.real_type, ())
    (real, imag), (other_real, other_imag) = (
        [b(name, part, [value]) for name in ("real", "imag")] for value in (lhs, rhs)
    )
    tie = b.compared("EQ", real, other_real, "TOTALORDER")
    broken = b("and", tie.type, [tie, b.compared(direction, imag, other_imag, "TOTALORDER")])
    return b("or", tie.type, [b.compared(direction, real, other_real, "TOTALORDER"), broken])


def _are_alike(operation: ir.Operation) -> bool:
    """Whether no operand is of four bits, or all are, or there is one alone."""
    bits = {array_of(operand).element_type.bits for operand in operation.operands}
    return 4 not in bits or len(bits) == 1


refuse(
    "stablehlo.sort",
    "gpu",
    reason="XLA sorts elements of 4 bits there with no others beside them",
    fix="convert those of 4 bits to s8, u8 or bf16 with xb.convert_element_type",
    unless=_are_alike,
)
