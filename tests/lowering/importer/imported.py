"""What tests of the importer share: there and back again, and the same as JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from round_trip import same
from support import assert_identical, flat

import builder as xb
import lowering

__all__ = ["as_jax_has_it", "of_text", "returned"]


def returned(computation: xb.XlaComputation) -> xb.XlaComputation:
    """The computation lowered and imported; checked to be the same, and to lower to the same."""
    module = lowering.lower(computation)
    again = lowering.to_computation(module)
    difference = same(computation, again)
    assert difference is None, difference
    assert lowering.lower(again).text == module.text
    return again


def of_text(text: str) -> xb.XlaComputation:
    """The computation of a module written as text."""
    return lowering.to_computation(lowering.load_bytes(text.encode()))


def as_jax_has_it(function: Callable[..., Any], *arguments: Any) -> xb.XlaComputation:
    """What JAX lowers of a function, imported; checked to give JAX's own results, bit by bit."""
    jitted = jax.jit(function)
    computation = of_text(jitted.lower(*arguments).as_text())
    found = flat(lowering.compile(computation)(*flat(list(arguments))))
    wanted = jax.tree_util.tree_leaves(jitted(*arguments))
    assert len(found) == len(wanted)
    for mine, theirs in zip(found, wanted, strict=True):
        assert_identical(np.asarray(mine), np.asarray(theirs))
    return computation
