"""Callables that record other callables: how deep they nest."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pytest

import builder as xb
from builder.graph.subcomputations import MAX_NESTED_CALLABLES

Nest = Callable[[Callable[[xb.XlaOp], xb.XlaOp], xb.XlaOp], xb.XlaOp]

NESTS: dict[str, tuple[Nest, str]] = {
    "call": (lambda f, x: xb.call(f, x), "call: callables .* got computation"),
    "while_": (
        lambda f, x: xb.while_(lambda v: xb.lt(v, 0.0), f, x),
        "while_: callables .* got (condition|body)",
    ),
    "conditional": (
        lambda f, x: xb.conditional(xb.lt(x, 0.0), x, f, x, xb.neg),
        "conditional: callables .* got branch 0",
    ),
    "map": (lambda f, x: xb.map([x], f), "map: callables .* got computation"),
}


@pytest.fixture
def deep_stack() -> Iterator[None]:
    """Let Python call deeper than callables may nest."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    yield
    sys.setrecursionlimit(limit)


@pytest.fixture
def x() -> xb.XlaOp:
    return xb.XlaBuilder().parameter(xb.f32[()], "x")


def nested(nest: Nest, depth: int | None) -> tuple[Callable[[xb.XlaOp], xb.XlaOp], list[int]]:
    """Return a callable that passes itself on to this depth, and the number of its calls."""
    calls = [0]

    def function(value: xb.XlaOp) -> xb.XlaOp:
        calls[0] += 1
        return xb.neg(value) if calls[0] == depth else nest(function, value)

    return function, calls


@pytest.mark.parametrize("op", NESTS)
def test_endless_recursion(op: str, x: xb.XlaOp) -> None:
    nest, message = NESTS[op]
    function, _ = nested(nest, None)
    with pytest.raises(xb.BuilderError, match=message) as caught:
        nest(function, x)
    assert "must not reach Python's recursion limit" in str(caught.value)
    assert "\nfix: use xb.while_" in str(caught.value)
    # The builder can still be used.
    assert x.builder.build(nest(xb.neg, x)).root.opcode == op.rstrip("_")


@pytest.mark.usefixtures("deep_stack")
@pytest.mark.parametrize("op", NESTS)
def test_recursion_with_a_deep_stack(op: str, x: xb.XlaOp) -> None:
    nest, message = NESTS[op]
    function, calls = nested(nest, None)
    with pytest.raises(xb.BuilderError, match=message) as caught:
        nest(function, x)
    assert "may nest at most 500 deep" in str(caught.value)
    assert calls[0] <= MAX_NESTED_CALLABLES


@pytest.mark.usefixtures("deep_stack")
def test_recursion_that_ends(x: xb.XlaOp) -> None:
    nest, _ = NESTS["call"]
    function, _ = nested(nest, MAX_NESTED_CALLABLES)
    root = nest(function, x)
    assert len(x.builder.build(root).called_computations()) == MAX_NESTED_CALLABLES


def test_a_recursion_error_of_the_callable(x: xb.XlaOp) -> None:
    def function(value: xb.XlaOp) -> xb.XlaOp:
        return function(value)

    with pytest.raises(RecursionError):
        xb.call(function, x)
