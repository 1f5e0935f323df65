"""Limits of time, memory and stack: computations that exceed them are refused."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest
from jaxlib.mlir import ir

import builder as xb
import lowering
from lowering import LoweringError
from lowering.mlir import modules
from lowering.mlir.modules import shared_context
from lowering.stablehlo import lower as lowering_module

SCALAR = xb.f32[()]


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A shared context for one test."""
    monkeypatch.setattr(modules, "_SHARED", [])
    yield
    gc.collect()


def with_constant(number: int, size: int) -> xb.XlaComputation:
    b = xb.XlaBuilder("constant")
    return b.build(b.constant(np.full(size // 8, number, np.int64)))


@pytest.mark.usefixtures("shared")
def test_a_new_context_after_many_large_constants(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(modules, "MAX_SHARED_BYTES", 1_000_000)
    gc.collect()
    before = ir.Context._get_live_count()
    first = shared_context()
    kept = lowering.lower(with_constant(0, 400_000))
    assert kept.module.context == first
    contexts = [first]
    for number in range(1, 20):
        module = lowering.lower(with_constant(number, 400_000))
        if shared_context() != contexts[-1]:
            contexts.append(shared_context())
        assert module.module.context == shared_context()
    assert len(contexts) == 10  # each has two of the 20 constants
    # The old contexts are freed, except for the one with a module.
    del first, contexts
    gc.collect()
    assert ir.Context._get_live_count() == before + 2
    assert kept.text.count("stablehlo.constant") == 1
    assert lowering.compile(kept, "cpu")()[0].item() == 0


@pytest.mark.usefixtures("shared")
def test_a_new_context_after_many_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """A context keeps every type, so programs of ever new shapes need new contexts."""
    monkeypatch.setattr(modules, "MAX_SHARED_BYTES", 100_000)
    gc.collect()
    before = ir.Context._get_live_count()
    first = shared_context()
    for start in range(1, 3000, 100):
        b = xb.XlaBuilder("types")
        x = b.parameter(xb.f32[start, 3])
        for _ in range(100):
            x = xb.pad(x, 0.0, [(0, 1, 0), (0, 0, 0)])
        lowering.lower(b.build(x))
    assert shared_context() != first
    del first
    gc.collect()
    assert ir.Context._get_live_count() == before + 1


@pytest.mark.usefixtures("shared")
def test_modules_without_constants_share_one_context() -> None:
    b = xb.XlaBuilder("none")
    computation = b.build(xb.neg(b.parameter(SCALAR)))
    modules = [lowering.lower(computation) for _ in range(3)]
    assert all(m.module.context == shared_context() for m in modules)


def nested(depth: int, times: int = 1) -> xb.XlaComputation:
    """Return nested computations; each calls the next `times` times."""
    b = xb.XlaBuilder("innermost")
    computation = b.build(xb.sin(b.parameter(SCALAR)))
    for number in range(depth):
        b = xb.XlaBuilder(f"level{number}")
        total = x = b.parameter(SCALAR)
        for _ in range(times):
            total = total + xb.map([x], computation, [])
        computation = b.build(total)
    return computation


def test_exponentially_many_calls() -> None:
    module = lowering.lower(nested(6, 2))
    assert module.text.count("stablehlo.sine") == 2**6
    computation = nested(60, 2)
    with pytest.raises(LoweringError) as caught:
        lowering.lower(computation)
    text = str(caught.value)
    assert text.startswith(
        f"lower: 'level59' must have at most {lowering_module.MAX_REPEATED_OPS} repeated ops, got "
    )
    assert "; 'level58' expands to " in text
    assert "is applied at 2 places\nfix: apply 'level58' once" in text


def test_shared_functions_are_emitted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering_module, "MAX_REPEATED_OPS", 0)
    computation = nested(3)
    b = xb.XlaBuilder("calls")
    x = b.parameter(SCALAR)
    for _ in range(100):
        x = xb.call(computation, x)
    # The function is emitted once, and so is each region in it.
    lowering.lower(b.build(x))
    b = xb.XlaBuilder("maps")
    x = b.parameter(SCALAR)
    with pytest.raises(LoweringError, match="at most 0 repeated ops, got 11"):
        lowering.lower(b.build(xb.map([xb.map([x], computation, [])], computation, [])))


def test_computations_nested_too_deep() -> None:
    assert lowering.lower(nested(1000)).text.count("stablehlo.map") == 1000
    with pytest.raises(LoweringError) as caught:
        lowering.lower(nested(5001))
    text = str(caught.value)
    assert text.startswith(
        "lower: 'level5000' may nest applied computations at most 5000 deep, got 5001\nfix: "
    )
    # XLA fails on fewer levels.
    lowering.compile(nested(200))
    for depth in (202, 1000):
        with pytest.raises(
            lowering.CompileError,
            match="computations can be nested at most 200 deep, because XLA's comp",
        ):
            lowering.compile(nested(depth))
    # The suggested fix works.
    computation = nested(100)
    for number in range(10):
        b = xb.XlaBuilder(f"call{number}")
        inner = computation
        x = b.parameter(SCALAR)
        computation = b.build(
            xb.conditional(x > 0.0, x, lambda v, inner=inner: xb.call(inner, v), x, lambda v: v)
        )
    lowering.lower(computation)


@pytest.mark.parametrize("function", [lowering.lower, lowering.compile])
def test_an_op_passed_as_a_computation(function: object) -> None:
    assert callable(function)
    x = xb.XlaBuilder().parameter(xb.f32[2])
    with pytest.raises(xb.OperandError, match="fix: build ") as caught:
        function(x)
    assert caught.value.op == function.__name__


def test_constants_that_refer_to_their_elements_are_refused() -> None:
    """MLIR never frees elements that it only references, so lowering copies them."""
    module = lowering.lower(with_constant(1, 64)).module
    elements = np.arange(8, dtype=np.int64)
    with module.context:
        (operation, *_) = module.body.operations[0].regions[0].blocks[0].operations
        kind = operation.result.type
        referred = ir.DenseResourceElementsAttr.get_from_buffer(elements, "elements", kind)
        operation.attributes["value"] = referred
    assert module.operation.verify()
    changed = lowering.load_bytes(str(module).encode())
    with pytest.raises(lowering.CompileError, match="dense"):
        lowering.compile(changed, "cpu")
    with pytest.raises(
        lowering.VersionError, match=r"can't express the operation stablehlo\.constant of "
    ):
        changed.artifact()
