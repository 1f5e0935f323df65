"""Random bits by the arithmetic of their algorithm."""

from __future__ import annotations

from collections.abc import Sequence

import builder as xb
from builder import lib
from builder.graph.xla_op import XlaOp
from builder.lib.arguments import as_type, shape_of
from builder.types.shape import ArrayShape, TupleShape
from lowering.portable.registry import expansion


@expansion("rng_bit_generator")
def rng_bit_generator(op: XlaOp, operands: Sequence[XlaOp]) -> list[XlaOp]:
    """Threefry-2x32, or Philox-4x32 for the algorithms RNG_PHILOX and RNG_DEFAULT.

    The bits are those of XLA's CPU backend.
    """
    (state,) = operands
    key, counter = state[0], state[1:]
    assert isinstance(op.shape, TupleShape)  # checked by inference
    shape = op.shape.elements[1]
    assert isinstance(shape, ArrayShape)  # checked by inference
    if op.attributes["algorithm"].name == "RNG_THREE_FRY":
        bits, next_counter = lib.three_fry_bit_generator(key, counter, shape)
    else:
        (size,) = shape_of(counter).dimensions
        if size == 1:  # the key is the high half of the counter too
            counter = xb.rev(state, [0])
        bits, next_counter = lib.philox_bit_generator(key, counter, shape)
        next_counter = xb.slice_in_dim(next_counter, 0, size, 1, 0)
    next_state = xb.concat_in_dim([xb.reshape(key, [1]), next_counter], 0)
    return [next_state, as_type(bits, shape.element_type)]
