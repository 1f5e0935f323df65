"""Random numbers."""

from __future__ import annotations

from builder.graph.xla_op import XlaOp
from lowering.jax_interop.pasting import pasted
from lowering.jax_interop.registry import Context, Step, rule


@rule("rng", "rng_bit_generator")
def random(ctx: Context, op: XlaOp) -> Step:
    """Paste the op: vmap of `lax.rng_bit_generator` uses the first state for the whole batch."""
    return pasted(ctx.computation, op)
