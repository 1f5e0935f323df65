"""Ops that are passed to functions of jax, in fresh processes: in three orders of imports."""

from __future__ import annotations

import pytest
from processes import run_python

PROGRAM = """
import jax
import jax.numpy as jnp
import optax

op = xb.XlaBuilder().parameter(xb.f32[4], "x")
for use in (
    lambda: jnp.exp(op),
    lambda: jax.nn.relu(op),
    lambda: jax.lax.add(op, op),
    lambda: jax.jit(lambda v: v)(op),
    lambda: jax.grad(jnp.sum)(op),
    lambda: jax.vmap(jnp.sum)(op),
    lambda: jnp.dot(jnp.ones(4), op),
    lambda: jnp.asarray(op),
    lambda: jnp.zeros_like(op),
    lambda: jnp.stack([op, op]),
    lambda: optax.sgd(0.1, momentum=0.9).init({"w": op}),
    lambda: optax.apply_updates({"w": op}, {"w": op}),
):
    try:
        use()
    except xb.BuilderError as error:
        text = str(error)
        assert text.startswith("jax: an XlaOp is not an array of jax"), text
        assert "fix: call a function of jax with lowering.apply(function, op)" in text, text
        assert error.location == "<string>:%d" % use.__code__.co_firstlineno, error.location
    else:
        raise AssertionError("not refused")
assert lowering.apply(jnp.exp, op).shape is xb.f32[4]
assert not hasattr(op, "__jax_array__")
"""

ORDERS = {
    "jax first": "import jax, builder as xb, lowering\n",
    "jax in the middle": "import builder as xb, jax, lowering\n",
    "jax last": "import builder as xb, lowering, jax\n",
}


@pytest.mark.parametrize("order", ORDERS)
def test_functions_of_jax_refuse_ops(order: str) -> None:
    run_python("-c", ORDERS[order] + PROGRAM)
