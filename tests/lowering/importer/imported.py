"""Helpers of the importer's tests: round trips, and comparison with JAX."""

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

__all__ = ["imported_from_jax", "of_text", "results_and_jax_results", "returned"]


def returned(computation: xb.XlaComputation) -> xb.XlaComputation:
    """Lower and import a computation, and check that it is the same and lowers to the same text."""
    module = lowering.lower(computation)
    again = lowering.to_computation(module)
    difference = same(computation, again)
    assert difference is None, difference
    assert lowering.lower(again).text == module.text
    return again


def of_text(text: str) -> xb.XlaComputation:
    """Return the computation of the text of a module."""
    return lowering.to_computation(lowering.load_bytes(text.encode()))


def imported_from_jax(function: Callable[..., Any], *arguments: Any) -> xb.XlaComputation:
    """Import JAX's lowering of a function, and check that its results equal JAX's bit by bit."""
    lowered = jax.jit(function).lower(*arguments)
    computation = of_text(lowered.as_text())
    result, expected = results_and_jax_results(computation, lowered, arguments)
    assert len(result) == len(expected)
    for mine, theirs in zip(result, expected, strict=True):
        assert_identical(np.asarray(mine), np.asarray(theirs))
    return computation


def results_and_jax_results(
    computation: xb.XlaComputation, lowered: jax.stages.Lowered, arguments: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """Return the results of a computation, and JAX's results of its source.

    Args:
        arguments: as JAX takes them. The computation takes them so too if it was imported from an
            object of JAX, and otherwise the arrays in them one by one.
    """
    compiled = lowered.compile()
    theirs = mlir.bytecode(lowered.compiler_ir())
    with compiled_once((theirs, compiled.runtime_executable())):
        run = lowering.compile(computation)
    annotations = computation.annotations
    is_nested = annotations is not None and annotations.nesting is not None
    result = run(*(arguments if is_nested else jax.tree_util.tree_leaves(arguments)))
    return flat(jax.tree_util.tree_leaves(result)), jax.tree_util.tree_leaves(compiled(*arguments))
