"""Random numbers that a platform lacks, or gets wrong."""

from __future__ import annotations

from typing import Final

import numpy as np
from jaxlib.mlir import ir

from builder import primitive_type as pt
from builder.primitive_type import PrimitiveType
from builder.shape import ArrayShape, intern_array
from lowering.legalize.registry import Rewriter, Value, refuse, rewrite
from lowering.legalize.words import Words, array_of, attributes_of

_PHILOX: Final = ("tensor<2xui64>", "tensor<3xui64>")
_STATES: Final = {"THREE_FRY": _PHILOX[:1], "PHILOX": _PHILOX, "DEFAULT": _PHILOX}
"""The types of the states that XLA takes."""


@rewrite("stablehlo.rng", "cpu", "gpu")
def rng(rewriter: Rewriter, operation: ir.Operation) -> None:
    """Drawn in a type that XLA has random numbers of; it dies of the others."""
    shape = array_of(operation.results[0])
    uniform = "UNIFORM" in str(operation.attributes["rng_distribution"])
    if uniform and shape.element_type.is_floating:
        _uniform_floats(rewriter, operation, shape)
        return
    wide = _wide(shape.element_type)
    if wide is shape.element_type:
        return
    words = Words(rewriter, operation)
    *scalars, sizes = operation.operands
    operands = [*(words.converted(value, wide) for value in scalars), sizes]
    drawn = words("rng", shape.with_element_type(wide), operands, attributes_of(operation))
    rewriter.replace(operation, [words.converted(drawn, shape.element_type)])


def _wide(element_type: PrimitiveType) -> PrimitiveType:
    if element_type.is_floating:
        return pt.f32 if element_type.bits <= 8 else element_type
    if element_type.bits >= 32:
        return element_type
    return pt.s32 if element_type.is_signed else pt.u32


def _uniform_floats(rewriter: Rewriter, operation: ir.Operation, shape: ArrayShape) -> None:
    """Kept below the upper end.

    XLA rounds to the type in the end, and so gives the upper end itself: one of 500 bf16 from 0 to
    1 is 1. And where the ends are farther apart than the largest number it gives infinities only.
    """
    words = Words(rewriter, operation)
    element_type = shape.element_type
    wide = pt.f64 if element_type is pt.f64 else pt.f32
    scalar, drawn = intern_array(wide, ()), shape.with_element_type(wide)
    low, high, sizes = operation.operands
    first, last = words.converted(low, wide), words.converted(high, wide)
    # Half of both ends, and the numbers doubled, where they are too far apart.
    distance = words("subtract", scalar, [last, first])
    near = words("is_finite", scalar.with_element_type(pt.pred), [distance])
    half, one, two = (words.number(n, wide) for n in (0.5, 1, 2))
    shrink = words("select", scalar, [near, one, half])
    stretch = words("select", scalar, [near, one, two])
    ends = [words("multiply", scalar, [end, shrink]) for end in (first, last)]
    numbers = words("rng", drawn, [*ends, sizes], attributes_of(operation))
    numbers = words("multiply", drawn, [numbers, words.spread(stretch, drawn)])
    numbers = words.converted(numbers, element_type)
    below = words.converted(_below(words, last, element_type), element_type)
    numbers = words("minimum", shape, [numbers, words.spread(below, shape)])
    rewriter.replace(operation, [words("maximum", shape, [numbers, words.spread(low, shape)])])


def _below(words: Words, number: Value, element_type: PrimitiveType) -> Value:
    """A number that, rounded to `element_type`, is the next below `number`, or nearly.

    A little more than half of the distance between two numbers is taken off; near zero, where that
    is nothing, the least number that is there in the wider type.
    """
    shape = array_of(number)
    info = pt.float_info(element_type)
    wide = np.finfo(shape.element_type.dtype)
    step = 1.125 * float(info.eps) / 2
    least = max(float(info.smallest_subnormal), float(wide.smallest_normal))
    size = words("abs", shape, [number])
    part = words("multiply", shape, [size, words.number(step, shape.element_type)])
    part = words("maximum", shape, [part, words.number(least, shape.element_type)])
    return words("subtract", shape, [number, part])


def _takes_its_state(operation: ir.Operation) -> bool:
    text = str(operation.attributes["rng_algorithm"])
    types = next(types for name, types in _STATES.items() if name in text)
    return str(operation.operands[0].type) in types


refuse(
    "stablehlo.rng_bit_generator",
    "cpu",
    reason="XLA takes a state of u64[2] for RNG_THREE_FRY, of u64[2] or u64[3] for RNG_PHILOX and "
    "RNG_DEFAULT, and no other",
    fix="give such a state; xb.bitcast_convert_type makes u64[2] of u32[2,2]",
    unless=_takes_its_state,
)
