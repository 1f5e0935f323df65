"""Rewrite sort and top_k where XLA compiles them incorrectly or does not support them."""

from __future__ import annotations

from itertools import count
from typing import Final

from jaxlib.mlir import ir

from builder.types import primitive_type as pt
from builder.types.shape import intern_array
from lowering.legalize.data_movement import TWO_BITS
from lowering.legalize.op_builder import Attributes, OpBuilder, array_of
from lowering.legalize.registry import (
    ALL_PLATFORMS,
    ARTIFACT,
    INTERPRETER,
    Value,
    refuse,
    rewrite,
)
from lowering.mlir.operations import enclosing

_NORMALIZED: Final = {pt.bf16: pt.u16, pt.f8e8m0fnu: pt.u8}
_NARROW: Final = {
    **TWO_BITS,
    **dict.fromkeys((pt.f8e3m4, pt.f8e4m3, pt.f8e5m2, pt.f8e5m2fnuz), pt.u8),
}


@rewrite("stablehlo.sort", platforms=("cpu",), fixed_in=(0, 12))
def sort_of_bf16_and_f8e8m0fnu(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Sort bf16 as u16 and f8e8m0fnu as u8, and bitcast the elements back in the comparator.

    XLA sorts bf16 as f32 and f8e8m0fnu as f16, and converts the results back. The conversions quiet
    NaNs, and change numbers that f16 can't represent. A sort should only permute its operands.

    Shown by: sort_bf16_nan, sort_f8e8m0fnu.
    """
    return b.around_region(operation, _NORMALIZED)


@rewrite("stablehlo.sort", platforms=("cpu",))
def sort_of_narrow_types(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Sort 2-bit integers as 8-bit integers, and 8-bit floats as u8.

    In the rewritten sort, the comparator converts the elements back to the original type.

    XLA's CPU backend returns 2-bit elements in a wrong order. It sorts f8e3m4, f8e4m3, f8e5m2 and
    f8e5m2fnuz as f16. The conversions change NaNs, and round different numbers to the same number.

    Shown by: sort_s2, sort_u2, sort_f8e5m2_nan, sort_f8e5m2fnuz.
    """
    return b.around_region(operation, _NARROW)


_TOP_K: Final = ("chlo.top_k", "mhlo.topk")


@rewrite(*_TOP_K, platforms=(*ALL_PLATFORMS, INTERPRETER))
def top_k_of_other_types(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Expand top_k of complex numbers, of 2-bit and 4-bit elements, and of bounded sizes to a sort.

    XLA expands top_k to a sort too, but its expansion compares complex numbers by GT, which HLO
    does not allow. For operands of 2-bit or 4-bit elements, it creates indices of that width, and
    fails. It refuses bounded sizes.

    Shown by: top_k_c64, top_k_s4, top_k_bounded.
    """
    shape = array_of(operation.operands[0])
    element_type = shape.element_type
    if not (element_type.is_complex or element_type.bits in (2, 4)) and shape.is_static:
        return None
    return _top_k_by_sort(b, operation)


@rewrite(*_TOP_K, platforms=("cpu",))
def top_k_of_short_floats(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Expand top_k of bf16 and of 8-bit floats to a sort.

    XLA computes top_k of these types in f32. The conversions change NaNs, and so their order.

    Shown by: top_k_bf16_nan, top_k_f8e5m2_nan.
    """
    element_type = b.element_type(operation.operands[0])
    if element_type is not pt.bf16 and element_type not in _NARROW:
        return None
    return _top_k_by_sort(b, operation)


@rewrite("mhlo.topk", platforms=(ARTIFACT,))
def top_k_of_smallest_elements_in_artifacts(
    b: OpBuilder, operation: ir.Operation
) -> list[Value] | None:
    """Write top_k of the smallest elements as a composite that contains a sort.

    StableHLO would write a custom call, which other readers of artifacts don't support.
    """
    if _is_largest(operation):
        return None
    (operand,) = operation.operands
    types = [result.type for result in operation.results]
    *_, module = enclosing(operation)
    symbols = ir.SymbolTable(module)
    names = (f"{operation.name}.impl_{number}" for number in count())
    name = next(name for name in names if name not in symbols)
    function_type = ir.FunctionType.get([operand.type], types)
    function = ir.Operation.create(
        "func.func",
        attributes={
            "sym_name": ir.StringAttr.get(name),
            "function_type": ir.TypeAttr.get(function_type),
            "sym_visibility": ir.StringAttr.get("private"),
        },
        regions=1,
        loc=operation.location,
        ip=ir.InsertionPoint.at_block_begin(module.regions[0].blocks[0]),
    )
    inside, (argument,) = b.block_in(function.regions[0], [operand.type])
    inside.create("func.return", [], _top_k_by_sort(inside, operation, argument))
    attributes: Attributes = {
        "name": ir.StringAttr.get(operation.name),
        "composite_attributes": ir.DictAttr.get({a: operation.attributes[a] for a in _ATTRIBUTES}),
        "decomposition": ir.FlatSymbolRefAttr.get(name),
        "version": "1 : i32",
    }
    return list(b.create("composite", types, [operand], attributes).results)


_ATTRIBUTES: Final = ("k", "largest")


@rewrite("mhlo.topk", platforms=("gpu", "tpu", INTERPRETER))
def top_k_of_smallest_elements(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Expand top_k of the smallest elements to a sort.

    StableHLO's interpreter does not support operations of MHLO. This case is untested on GPU and
    TPU, because jax uses only top_k of the largest elements.
    """
    return None if _is_largest(operation) else _top_k_by_sort(b, operation)


def _is_largest(operation: ir.Operation) -> bool:
    # chlo.top_k does not have the attribute.
    name = "largest"
    return name not in operation.attributes or bool(ir.BoolAttr(operation.attributes[name]).value)


def _top_k_by_sort(
    b: OpBuilder, operation: ir.Operation, operand: Value | None = None
) -> list[Value]:
    """Return the results of top_k: the first elements of each sorted row, and their indices.

    Args:
        operation: the top_k.
        operand: its operand in the block of `b`; None if this is the operation's block.
    """
    operand = operation.operands[0] if operand is None else operand
    shape = array_of(operand)
    element_type = shape.element_type
    # The elements are also sliced in this type, since a slice can change NaNs too.
    sorted_as = {**_NORMALIZED, **_NARROW}.get(element_type, element_type)
    wide = b.recast(operand, sorted_as)
    last = shape.rank - 1
    indices = b.sized(b.counted(intern_array(pt.s32, shape.dimensions), last), b.sizes(operand))
    made = b.create(
        "sort",
        [wide.type, indices.type],
        [wide, indices],
        {"dimension": last, "is_stable": True},
        regions=1,
    )
    scalars = [intern_array(t, ()) for t in (sorted_as, sorted_as, pt.s32, pt.s32)]
    comparator, arguments = b.block_in(made.regions[0], scalars)
    lhs, rhs = (comparator.recast(value, element_type) for value in arguments[:2])
    direction = "GT" if _is_largest(operation) else "LT"
    comparator.end([_is_before(comparator, direction, lhs, rhs)])
    bounds: Attributes = {
        "start_indices": [0] * shape.rank,
        "limit_indices": [*shape.dimensions[:-1], array_of(operation.results[0]).dimensions[-1]],
        "strides": [1] * shape.rank,
    }
    # The result has a fixed size where the operand has the bound 1.
    value_shape, index_shape = (array_of(result) for result in operation.results)
    first = b("slice", value_shape.with_element_type(sorted_as), [made.results[0]], bounds)
    return [b.recast(first, element_type), b("slice", index_shape, [made.results[1]], bounds)]


def _is_before(b: OpBuilder, direction: str, lhs: Value, rhs: Value) -> Value:
    """Return a scalar of pred: whether `lhs` precedes `rhs` in the results of top_k.

    Floats have their total order. Complex numbers are ordered by real part, then imaginary part.
    """
    element_type = array_of(lhs).element_type
    if not element_type.is_complex:
        kind = "TOTALORDER" if element_type.is_floating else None
        return b.compared(direction, lhs, rhs, kind)
    (lhs_real, lhs_imag), (rhs_real, rhs_imag) = b.parts(lhs), b.parts(rhs)
    is_tie = b.compared("EQ", lhs_real, rhs_real, "TOTALORDER")
    by_imag = b.compared(direction, lhs_imag, rhs_imag, "TOTALORDER")
    by_real = b.compared(direction, lhs_real, rhs_real, "TOTALORDER")
    return b.elementwise("or", by_real, b.elementwise("and", is_tie, by_imag))


def _has_uniform_width(operation: ir.Operation) -> bool:
    """Whether all operands of a sort have 4-bit elements, or none of them has."""
    bits = {array_of(operand).element_type.bits for operand in operation.operands}
    return 4 not in bits or len(bits) == 1


refuse(
    "stablehlo.sort",
    "gpu",
    reason="XLA does not sort 4-bit elements together with wider elements",
    fix="convert the 4-bit operands to s8, u8 or bf16 with xb.convert_element_type",
    unless=_has_uniform_width,
)
