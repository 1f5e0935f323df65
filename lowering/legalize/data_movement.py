"""Rewrites of operations that should only move elements, but change some of them on CPU."""

from __future__ import annotations

from typing import Final

from jaxlib.mlir import ir

from builder.types import primitive_type as pt
from lowering.legalize.op_builder import OpBuilder
from lowering.legalize.registry import Value, rewrite

TWO_BITS: Final = {pt.s2: pt.s8, pt.u2: pt.u8}
"""For each 2-bit type, the wider type in which XLA moves the elements correctly."""

CARRIERS: Final = {
    **TWO_BITS,
    pt.bf16: pt.u16,
    **{t: pt.u8 for t in pt.ALL if t.is_floating and t.bits == 8},
}
"""The element types that XLA's CPU backend changes in transfers between devices.

The value is an integer type in which XLA sends the elements unchanged.
"""

_SMALL_FLOATS: Final = {pt.f8e5m2: pt.u8, pt.f8e4m3: pt.u8, pt.f8e3m4: pt.u8}


@rewrite("stablehlo.concatenate", platforms=("cpu",))
def concatenate_of_two_bits(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Concatenate elements of s2 and u2 in s8 and u8.

    XLA's CPU compiler aborts on a concatenate of 2-bit elements.

    Shown by: concatenate_s2.
    """
    return b.in_types(operation, TWO_BITS)


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
    """Move elements of f8e5m2, f8e4m3 and f8e3m4 as u8.

    XLA converts elements of f8e5m2, f8e4m3 and f8e3m4 to f16, moves them and converts them back.
    The conversions replace the payloads of NaNs, although the operations should copy the bits.
    jaxlib 0.10 does so in concatenate, pad, select and dynamic_update_slice; 0.12 also in slice,
    reverse and dynamic_slice.

    Shown by: concatenate_f8e5m2_nan, concatenate_f8e4m3_nan, concatenate_f8e3m4_nan,
    pad_f8e5m2_nan, select_f8e5m2_nan, slice_f8e5m2_nan, reverse_f8e5m2_nan,
    dynamic_slice_f8e5m2_nan, dynamic_update_slice_f8e5m2_nan.
    """
    return b.in_types(operation, _SMALL_FLOATS)


@rewrite(
    "stablehlo.concatenate",
    "stablehlo.pad",
    "stablehlo.dynamic_update_slice",
    platforms=("cpu",),
    fixed_in=(0, 12),
)
def bf16_as_bits(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Move elements of bf16 as u16.

    XLA converts elements of bf16 to f32, moves them and converts them back. The conversions quiet
    signalling NaNs, although these operations should copy the bits. XLA does so in select too,
    which is not rewritten: programs select often, and the bitcasts keep XLA from fusing a select
    with other operations.

    Shown by: concatenate_bf16_nan, pad_bf16_nan, dynamic_update_slice_bf16_nan.
    """
    return b.in_types(operation, {pt.bf16: pt.u16})
