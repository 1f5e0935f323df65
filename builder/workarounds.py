"""The ops that XLA gets wrong for some types or values, and so are written in other words.

HLO text and StableHLO put each of them in the same other words; what they are stands with the
rules of `hlo_text` and of `lowering.rules`. Inference and the recorded graph know nothing of it.
Found on jaxlib 0.10 and 0.12, on CPU.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from builder import primitive_type as pt
from builder.attributes import ChannelHandle, ReplicaGroups
from builder.constant import once
from builder.primitive_type import PrimitiveType
from builder.shape import ArrayShape, TupleShape
from builder.xla_op import XlaOp

__all__ = [
    "TRANSCENDENTAL",
    "WRITTEN_OUT",
    "carried_by",
    "channel_of",
    "counts_from_negative_zero",
    "explicit_groups",
    "is_awkward_bitcast",
    "is_awkward_convert",
    "is_awkward_power",
    "is_awkward_selection",
    "is_empty_exchange",
    "is_empty_scan",
    "is_narrow_contraction",
    "is_narrow_function",
    "is_narrow_signed",
    "is_narrow_sort",
    "is_narrow_stochastic_convert",
    "is_of_two_bits",
    "is_pred_sum",
    "is_signed_integral",
    "is_sorted_top_k",
    "is_written_out",
    "may_divide_by_zero",
    "sorted_as",
    "stride_within",
    "widens_four_bits",
]

WRITTEN_OUT: Final = "xlabuilder.written_out"
"""What is noted, here and in StableHLO, on an op that other words have come to, and that would be
put in other words itself. Read from a file, and written again, it would be so once more each time.
"""


def is_written_out(op: XlaOp) -> bool:
    """An op around which everything stands already that XLA has to be told."""
    return op.notes is not None and op.notes.others is not None and WRITTEN_OUT in op.notes.others


TRANSCENDENTAL: Final = ("acos", "acosh", "asin", "asinh", "atanh", "cosh", "sinh")
"""Opcodes that XLA writes out as sums and products. StableHLO has them in its dialect CHLO."""


def is_narrow_function(op: XlaOp) -> bool:
    """One of `TRANSCENDENTAL`, or erf, of at most 8 bits: each of its sums is rounded to the type.

    So f8e8m0fnu gets wrong numbers, and XLA 0.12 takes half a minute to compile some of the other
    8-bit types, or dies; and erf of them has no form for older versions of StableHLO.
    """
    return op.shape.element_type.bits <= 8


def is_narrow_signed(op: XlaOp) -> bool:
    """A popcnt of s2 or s4: the sign is extended first, and those bits are counted too."""
    return op.shape.element_type in (pt.s2, pt.s4)


def is_awkward_convert(op: XlaOp) -> bool:
    """Conversions that XLA gets wrong.

    Complex to pred, where the real part alone is looked at; complex to real numbers, which ends
    the process when a constant is converted; the largest f4e2m1fn to an integer, which is taken
    for an infinity; and `widens_four_bits`.
    """
    source, target = op.operands[0].shape.element_type, op.shape.element_type
    return (
        (source.is_complex and not target.is_complex)
        or (source is pt.f4e2m1fn and target.is_integral)
        or widens_four_bits(source, target)
    )


def widens_four_bits(source: PrimitiveType, target: PrimitiveType) -> bool:
    """From s4 to s8, or u4 to u8: the 4 bits are computed in 8, and the conversion does nothing, so
    that a sum that does not fit 4 bits comes out as it was. Shifting up and down again wraps it.
    """
    return (source is pt.s4 and target is pt.s8) or (source is pt.u4 and target is pt.u8)


def is_pred_sum(op: XlaOp) -> bool:
    """An add of preds, which is their `or`: of two constants XLA takes the sum modulo 2."""
    return op.shape.element_type is pt.pred


def may_divide_by_zero(op: XlaOp) -> bool:
    """An integer division whose divisor XLA 0.10 may see to be 0: it divides, and dies of it.

    That is a divisor computed from constants alone; an optimization barrier keeps it out of sight.
    """
    if not op.shape.element_type.is_integral:
        return False
    divisor = op.operands[1]
    if divisor.opcode == "broadcast_in_dim":
        divisor = divisor.operands[0]
    if divisor.opcode == "constant":
        return bool((once(divisor.attributes["value"]) == 0).any())
    # Most divisors are a step or two away from a parameter. One that is far away is hardly made
    # of constants, and is not looked into to the end.
    waiting = [divisor]
    for _ in range(100):
        if not waiting:
            return True
        one = waiting.pop()
        if one.opcode in _UNKNOWN or one.opcode == "optimization_barrier":
            return False
        waiting.extend(one.operands)
    return False


_UNKNOWN: Final = frozenset(("parameter", "while", "conditional", "call"))
"""What XLA knows no value of before the program runs."""


def stride_within(start: int, limit: int, stride: int) -> int:
    """A stride no longer than the slice, which takes the same elements: of larger ones XLA 0.10
    dies."""
    return min(stride, max(limit - start, 1))


def is_awkward_bitcast(op: XlaOp) -> bool:
    """A pred, which has one bit to StableHLO and XlaBuilder and eight to the backends; or complex
    numbers to another width, which ends the process."""
    source, target = op.operands[0].shape.element_type, op.shape.element_type
    return source is not target and (source.is_complex or pt.pred in (source, target))


def is_awkward_power(op: XlaOp) -> bool:
    """A power of integers whose exponent is not known to be below 64.

    XLA looks at the low 6 bits of an exponent. But an even base to the 64 is 0 in every type, not
    1. (Of an odd base such a power wraps, and does not come out right.)
    """
    element_type = op.shape.element_type
    if not element_type.is_integral or element_type.max < 64 or is_written_out(op):
        return False
    exponent = op.operands[1]
    if exponent.opcode == "broadcast_in_dim":
        exponent = exponent.operands[0]
    return exponent.opcode != "constant" or bool((once(exponent.attributes["value"]) >= 64).any())


def is_narrow_stochastic_convert(op: XlaOp) -> bool:
    """A stochastic_convert of at most 8 bits to integers: in so few bits the fraction, times 2 to
    the number of random bits, does not fit some types."""
    source, target = op.operands[0].shape.element_type, op.shape.element_type
    return source.bits <= 8 and is_signed_integral(target)


def is_signed_integral(element_type: PrimitiveType) -> bool:
    """What XLA rounds to at random."""
    return element_type.is_integral and element_type.is_signed


def is_empty_scan(op: XlaOp) -> bool:
    """A scan of no steps, which XLA refuses: it takes the slice of the first one beforehand."""
    dimension, carries = op.attributes["scan_dimension"], op.attributes["num_carries"]
    assert isinstance(op.shape, TupleShape)  # inference has said so
    outputs = op.shape.elements[: len(op.shape.elements) - carries]
    cut = [*(o.shape for o in op.operands[: len(op.operands) - carries]), *outputs]
    return any(isinstance(s, ArrayShape) and s.dimensions[dimension] == 0 for s in cut)


def is_empty_exchange(op: XlaOp, position: int) -> bool:
    """An operand of all_gather or reduce_scatter that has no elements along the dimension, which
    StableHLO refuses, though there is nothing to exchange."""
    name = "all_gather_dim" if op.opcode == "all_gather" else "scatter_dimension"
    shape = op.operands[position].shape
    return isinstance(shape, ArrayShape) and shape.dimensions[op.attributes[name]] == 0


def is_of_two_bits(op: XlaOp) -> bool:
    """A concatenate of 2-bit elements, of which the CPU backend dies."""
    return op.shape.element_type.bits == 2


def is_narrow_contraction(op: XlaOp) -> bool:
    """A dot or a convolution of 2-bit integers, or of 4-bit elements into wider ones: the CPU
    backend has none."""
    source = op.operands[0].shape.element_type
    if source.bits >= 8 or source is pt.pred:
        return False
    return source.bits == 2 or source is not op.shape.element_type


def counts_from_negative_zero(array: np.ndarray[Any, Any]) -> bool:
    """Whether an array equals [0, 1, 2, ...] though it has a negative zero in it.

    XLA counts such an array up itself, and begins with +0.
    """
    if array.dtype.kind in "biu" or array.ndim != 1 or array.size < 2:
        return False
    # As Python's numbers, whose comparison takes a fifth of the time of NumPy's.
    if array.item(0) != 0 or array.item(1) != 1:
        return False
    with np.errstate(invalid="ignore"):  # signalling NaNs
        wide = array.astype(np.complex128)
    if not np.array_equal(wide, np.arange(array.size)):
        return False
    return bool(np.signbit(wide.real).any() or np.signbit(wide.imag).any())


def explicit_groups(op: XlaOp) -> ReplicaGroups:
    """The replica groups of an op across devices; where its count says who they are, written out.

    Without groups, XLA gathers out of bounds of memory when a program is run by another number of
    replicas than it counts on, and StableHLO 1.17 divides by zero in all_to_all.
    """
    groups: ReplicaGroups = op.attributes["replica_groups"]
    if groups.groups:
        return groups
    count = op.attributes.get("shard_count") or op.attributes.get("split_count")
    if op.opcode == "all_to_all_tuple":
        count = len(op.operands)
    of_replicas = op.attributes["channel_handle"] is not None and op.opcode in (
        "all_gather",
        "reduce_scatter",
    )
    if count is None or (of_replicas and not op.attributes["use_global_device_ids"]):
        return groups
    return ReplicaGroups((tuple(range(count)),))


def channel_of(op: XlaOp) -> ChannelHandle | None:
    """The channel of an op across devices. Numbers of devices need one; any will do."""
    channel: ChannelHandle | None = op.attributes["channel_handle"]
    if channel is None and op.attributes.get("use_global_device_ids"):
        return ChannelHandle(1)
    return channel


def sorted_as(element_type: PrimitiveType) -> PrimitiveType:
    """The type that elements are sorted in: their own, but for 2-bit integers and short floats.

    The CPU backend sorts no 2-bit elements. Floats of 8 bits and bf16 it widens to sort them, and
    so gives back other NaNs than it was given, and takes different ones for equal. They are sorted
    as bits.
    """
    if element_type.bits == 2:
        return pt.s8 if element_type is pt.s2 else pt.u8
    if element_type.is_floating and element_type.bits == 8:
        return pt.u8
    return pt.u16 if element_type is pt.bf16 else element_type


def is_narrow_sort(op: XlaOp) -> bool:
    """A sort with elements that `sorted_as` has in another type."""
    return any(sorted_as(o.shape.element_type) is not o.shape.element_type for o in op.operands)


def is_sorted_top_k(op: XlaOp) -> bool:
    """A top_k that is written as a sort.

    CHLO has none of the smallest, and none of bounded rows. Of complex numbers XLA knows no order,
    for elements of 2 and 4 bits it makes indices of so few bits, and floats of 8 bits and bf16 it
    sorts as `sorted_as` says.
    """
    shape = op.operands[0].shape
    element_type = shape.element_type
    return (
        not op.attributes["largest"]
        or element_type.is_complex
        or element_type.bits in (2, 4)
        or sorted_as(element_type) is not element_type
        or not shape.is_static
    )


def is_awkward_selection(op: XlaOp) -> bool:
    """A select_and_scatter whose window extends along several dimensions of a padded array.

    The CPU backend then asks for the elements of a window in another order than that of their
    places, so that of equal ones it may select a later one. One of a scalar ends the process.
    """
    source = op.operands[0].shape
    assert isinstance(source, ArrayShape)  # inference has said so
    if not source.dimensions:
        return True
    return (
        sum(size > 1 for size in op.attributes["window_dimensions"]) > 1
        and any(low or high for low, high in op.attributes["padding"])
        and source.is_static
    )


def carried_by(element_type: PrimitiveType) -> PrimitiveType | None:
    """The integers in which arrays are put together unharmed; None if as they are.

    Small floats the CPU backend turns into larger ones and back, which changes NaNs; and of 2-bit
    elements it dies.
    """
    if element_type.bits == 2:
        return pt.s8 if element_type.is_signed else pt.u8
    if element_type is pt.bf16:
        return pt.u16
    return pt.u8 if element_type.is_floating and element_type.bits == 8 else None
