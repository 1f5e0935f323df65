"""What tests of the importer share: there and back again, and the same as JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from round_trip import same
from support import assert_identical, compiled_once, flat

import builder as xb
import lowering
from lowering.jaxlib_api import mlir

__all__ = ["as_jax_has_it", "of_text", "ours_and_jax_s", "returned"]


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
    lowered = jax.jit(function).lower(*arguments)
    computation = of_text(lowered.as_text())
    found, wanted = ours_and_jax_s(computation, lowered, arguments)
    assert len(found) == len(wanted)
    for mine, theirs in zip(found, wanted, strict=True):
        assert_identical(np.asarray(mine), np.asarray(theirs))
    return computation


def ours_and_jax_s(
    computation: xb.XlaComputation, lowered: jax.stages.Lowered, arguments: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """The arrays that a computation gives, and those that JAX gives of what it was imported from.

    Args:
        arguments: as JAX takes them; the computation takes the arrays in them one by one.
    """
    compiled = lowered.compile()
    theirs = mlir.bytecode(lowered.compiler_ir())
    with compiled_once((theirs, compiled.runtime_executable())):
        run = lowering.compile(computation)
    found = flat(run(*jax.tree_util.tree_leaves(arguments)))
    return found, jax.tree_util.tree_leaves(compiled(*arguments))
