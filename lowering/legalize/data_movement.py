"""Operations that move elements and, on a CPU, change them on the way."""

from __future__ import annotations

from typing import Final

from jaxlib.mlir import ir

from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType
from lowering.legalize.op_builder import OpBuilder, array_of
from lowering.legalize.registry import Value, rewrite

__all__ = ["carrier_of"]


def carrier_of(element_type: PrimitiveType | None) -> PrimitiveType | None:
    """The integers in which XLA's CPU backend moves elements unchanged; None for their own type.

    All floats of 8 bits are among those that need them: a device to which nothing is sent gets zero
    bits, which f8e8m0fnu has no number for.
    """
    if element_type is None:
        return None
    if element_type.bits == 2:
        return pt.s8 if element_type.is_signed else pt.u8
    if element_type is pt.bf16:
        return pt.u16
    return pt.u8 if element_type.is_floating and element_type.bits == 8 else None


_SMALL_FLOATS: Final = frozenset((pt.f8e5m2, pt.f8e4m3, pt.f8e3m4))


@rewrite("stablehlo.concatenate", platforms=("cpu",))
def concatenate_of_two_bits(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Concatenate 2-bit elements in 8 bits.

    XLA's CPU compiler aborts.

    Shown by: concatenate_s2.
    """
    element_type = b.element_type(operation.results[0])
    if element_type is not pt.s2 and element_type is not pt.u2:
        return None
    return _moved(b, operation, element_type)


@rewrite(
    "stablehlo.concatenate",
    "stablehlo.pad",
    "stablehlo.select",
    "stablehlo.slice",
    "stablehlo.reverse",
    "stablehlo.dynamic_slice",
    "stablehlo.dynamic_update_slice",
    platforms=("cpu",),
)
def small_floats_as_bits(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Move f8e5m2, f8e4m3 and f8e3m4 as their bits.

    XLA converts the elements to f16 and back, which replaces the payloads of NaNs. jaxlib 0.10
    does so in concatenate, pad, select and dynamic_update_slice; 0.12 in all of these operations.

    Shown by: concatenate_f8e5m2_nan, concatenate_f8e4m3_nan, concatenate_f8e3m4_nan,
    pad_f8e5m2_nan, select_f8e5m2_nan, slice_f8e5m2_nan, reverse_f8e5m2_nan,
    dynamic_slice_f8e5m2_nan, dynamic_update_slice_f8e5m2_nan.
    """
    element_type = b.element_type(operation.results[0])
    if element_type not in _SMALL_FLOATS:
        return None
    return _moved(b, operation, element_type)


@rewrite(
    "stablehlo.concatenate",
    "stablehlo.pad",
    "stablehlo.dynamic_update_slice",
    platforms=("cpu",),
    fixed_in=(0, 12),
)
def bf16_as_bits(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Move bf16 as its bits.

    XLA converts the elements to f32 and back, which makes signalling NaNs quiet. A select does so
    too, and is left alone: masks are frequent, and the bitcasts keep XLA from fusing them well.

    Shown by: concatenate_bf16_nan, pad_bf16_nan, dynamic_update_slice_bf16_nan.
    """
    element_type = b.element_type(operation.results[0])
    return _moved(b, operation, element_type) if element_type is pt.bf16 else None


def _moved(b: OpBuilder, operation: ir.Operation, element_type: PrimitiveType) -> list[Value]:
    """The results of the same operation on the integers that carry its elements."""
    carrier = carrier_of(element_type)
    assert carrier is not None
    operands = [
        b.carried(operand, carrier) if b.element_type(operand) is element_type else operand
        for operand in operation.operands
    ]
    (result,) = operation.results
    made = b.like(operation, operands, [array_of(result).with_element_type(carrier)])
    return [b.carried(made.results[0], element_type)]
