"""A computation that is lowered and imported is the same computation again.

Compared are opcodes, attributes, shapes, operands and order, names, notes and source lines: see
`round_trip`; and the text that it is lowered to once more is the same, locations included. Ops that
become several operations, or others, come back in these words: `IN_OTHER_WORDS` names them all, and
of them too the text is the same, but for those that are brought into other words again,
`REWRITTEN_AGAIN`, of which the results are.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from property.families import FAMILIES
from property.strategies import Call
from round_trip import same
from support import assert_identical, flat

import builder as xb
import lowering
from benchmarks.graphs import GRAPHS, Graph, lstm, resnet50, transformer
from benchmarks.languages import ours
from examples import recorded_by_example

EXAMPLES: Final = int(os.environ.get("HYPOTHESIS_EXAMPLES", "50"))

IN_OTHER_WORDS: Final = {
    "add": "of preds it is an or",
    "all_gather": "no groups are written as the one group of all; of no elements, a constant",
    "all_to_all": "no groups are written as the one group of all",
    "all_to_all_tuple": "an all_to_all of the operands side by side",
    "custom_call": "the text of `opaque` as MLIR prints it; layouts of results that were not said",
    "dynamic_reshape": "the sizes are cut out one by one",
    "mulhi": "a product of numbers of twice the width",
    "reduce_scatter": "as all_gather",
    "reshape": "of bounded sizes, the sizes are set afterwards",
    "scan": "a loop",
    "scatter": "of some types and shapes, other operations: see builder/workarounds.py",
    "select_and_scatter": "of overlapping or padded windows, indices and a scatter",
    "set_dimension_size": "to the bound: the bound is a constant of its own, recorded once more",
    "slice": "a stride over no elements is written as 1",
    "stochastic_convert": "arithmetic on bits",
    "top_k": "of types that CHLO's lacks, a sort",
}
"""Ops that come back as others, some of them only for some operands, and as what."""

REWRITTEN_AGAIN: Final = frozenset(
    ("dynamic_reshape", "reshape", "scatter", "select_and_scatter", "set_dimension_size")
)
"""Of the same, those in whose place stands what lowering brings into other words once more."""


def opcodes(computation: xb.XlaComputation) -> set[str]:
    return {
        op.opcode for one in (computation, *computation.called_computations()) for op in one.ops
    }


def check(computation: xb.XlaComputation) -> str | None:
    """Lowers and imports a computation; gives the difference, if an op is `IN_OTHER_WORDS`."""
    module = lowering.lower(computation)
    again = lowering.to_computation(module)
    difference = same(computation, again)
    used = opcodes(computation)
    assert difference is None or used & set(IN_OTHER_WORDS), difference
    assert again.program_shape == computation.program_shape
    text = lowering.lower(again).to_text(locations=True)
    if difference is None or not used & REWRITTEN_AGAIN:
        assert text == module.to_text(locations=True)
    elif all(op.shape.is_static for op in computation.ops):
        arguments = [zeros(shape) for shape in computation.program_shape.parameters]
        results = [
            flat(jax.tree_util.tree_map(np.asarray, lowering.compile(one)(*arguments)))
            for one in (computation, again)
        ]
        for one, other in zip(*results, strict=True):
            assert_identical(one, other)
    return difference


def zeros(shape: xb.Shape) -> object:
    if isinstance(shape, xb.TupleShape):
        return tuple(map(zeros, shape.elements))
    assert isinstance(shape, xb.ArrayShape)
    return np.zeros(shape.dimensions, shape.element_type.dtype)


@pytest.mark.parametrize("name", xb.OPERATIONS)
def test_examples_of_the_docstrings(name: str) -> None:
    found = recorded_by_example(name)
    assert found
    for computation in found:
        check(computation)


def test_what_is_said_to_come_back_in_other_words_does() -> None:
    """So that the list of exceptions holds nothing that isn't one."""
    only_drawn = {"add", "scatter", "slice"}
    different: set[str] = set()
    for name in xb.OPERATIONS:
        for computation in recorded_by_example(name):
            again = lowering.to_computation(lowering.lower(computation))
            if same(computation, again) is not None:
                different |= opcodes(computation)
    assert different >= set(IN_OTHER_WORDS) - only_drawn


@pytest.mark.parametrize("family", FAMILIES)
def test_calls_that_are_drawn(family: str) -> None:
    checked = 0

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(FAMILIES[family])
    def draw(call: Call) -> None:
        nonlocal checked
        try:
            computation = call.record()
            lowering.lower(computation)
        except xb.XlaError:
            return
        check(computation)
        checked += 1

    draw()
    assert checked > EXAMPLES // 5


TINY: Final[dict[str, tuple[Graph, int]]] = {
    "chain": (GRAPHS["chain"], 21),
    "layers": (GRAPHS["layers"], 2),
    "transformer": (
        transformer.graph_of(
            transformer.Config(batch=2, sequence=5, model=12, heads=3, inner=16, vocabulary=7)
        ),
        2,
    ),
    "resnet50": (
        resnet50.graph_of(resnet50.Config(batch=2, image=32, width=4, blocks=(1, 1), classes=5)),
        2,
    ),
    "lstm": (lstm.graph_of(lstm.Config(batch=2, inputs=3, hidden=4)), 3),
    "control_flow": (GRAPHS["control_flow"], 8),
    "constants": (GRAPHS["constants"], 1),
    "reducers": (GRAPHS["reducers"], 9),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs_of_the_benchmarks(name: str) -> None:
    graph, size = TINY[name]
    assert check(ours.record(graph, size)) is None


def looping() -> xb.XlaComputation:
    """Loops and branches in each other, which use values from further out."""
    b = xb.XlaBuilder("looping")
    x = b.parameter(xb.f32[3], "x")
    n = b.parameter(xb.s32[()], "n")
    scale = xb.exp(x)

    def body(state: xb.XlaOp) -> tuple[xb.XlaOp, xb.XlaOp]:
        i, total = state
        grown = xb.conditional(
            i > 2, total, lambda t: t * scale, total, lambda t: xb.while_(small, flip, t)
        )
        return i + 1, grown

    def small(t: xb.XlaOp) -> xb.XlaOp:
        return xb.reduce_all(t, 0.0, xb.add) < 9.0

    def flip(t: xb.XlaOp) -> xb.XlaOp:
        return t + xb.abs(scale)

    flip_sum = xb.while_(lambda s: s[0] < n, body, (b.constant(np.int32(0)), x))
    return b.build(xb.tuple(flip_sum[1], scale))


def nested() -> xb.XlaComputation:
    b = xb.XlaBuilder("nested")
    state = b.parameter([xb.f32[2], [xb.s32[()], [xb.f32[2]]], []], "state")
    other = b.parameter(xb.f32[2], "other")
    inside = state[1]
    return b.build(xb.tuple(inside, xb.tuple(state[0] + other), b.empty_tuple()))


def annotated() -> xb.XlaComputation:
    b = xb.XlaBuilder("annotated")
    with b.sharding("{devices=[2]<=[2]}"), b.frontend_attributes({"stage": "in"}):
        x = b.parameter(xb.f32[8], "x")
        state = b.parameter([xb.f32[2], xb.f32[2]], "state")
    with b.sharding("{replicated}"):
        y = xb.neg(x)
    y.name = 'the "negative", and \\more'
    with b.frontend_attributes({"stage": "1", "kind": 'a "quoted" word'}):
        z = xb.add(y, x)
    return b.build(xb.tuple(z, state))


def in_layouts() -> xb.XlaComputation:
    b = xb.XlaBuilder("in_layouts")
    x = b.parameter("f32[2,3]{0,1}", "x")
    y = b.parameter("(f32[2,3]{0,1}, s32[4])", "y")
    return b.build(xb.tuple(x + y[0], y[1]), result="(f32[2,3]{0,1}, s32[4])")


def calling() -> xb.XlaComputation:
    inner = xb.XlaBuilder("inner")
    pair = inner.parameter([xb.f32[2], xb.f32[2]], "pair")
    twice = inner.build(xb.tuple(pair[0] + pair[1], pair[0]))
    outer = xb.XlaBuilder("outer")
    x = outer.parameter(xb.f32[2], "x")
    made = xb.call(twice, xb.tuple(x, x))
    return outer.build(xb.call(twice, made)[0])


@pytest.mark.parametrize("make", [looping, nested, annotated, in_layouts])
def test_made_up(make: Callable[[], xb.XlaComputation]) -> None:
    assert check(make()) is None


def test_tuples_as_parameters_of_what_is_called() -> None:
    """Their arrays are parameters one by one, of which the second is `pair.1`."""
    computation = calling()
    module = lowering.lower(computation)
    again = lowering.to_computation(module)
    assert same(computation, again) is None
    assert lowering.lower(again).text == module.text
    (called,) = again.called_computations()
    assert called.name == "inner"
    assert called.program_shape.parameter_names == ("pair", "pair.1")


class TestSame:
    """That differences are found."""

    def record(self, **changes: object) -> xb.XlaComputation:
        said = {"name": "c", "op": xb.add, "dimension": 0, "value": 1.0, "note": "{replicated}"}
        said |= changes
        b = xb.XlaBuilder(str(said["name"]))
        x = b.parameter(xb.f32[2, 2], str(said.get("parameter", "x")))
        with b.sharding(said["note"]):
            y = xb.rev(x, [said["dimension"]])
        total = xb.reduce(y, b.constant(np.float32(said["value"])), said["op"], [0])
        pair = xb.tuple(total, total)
        return b.build(xb.neg(pair[0]) if said.get("more") else pair[0])

    def test_of_the_same(self) -> None:
        assert same(self.record(), self.record()) is None

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"name": "d"}, "names: 'c', 'd'"),
            ({"parameter": "y"}, "notes of the parameter x"),
            ({"op": xb.mul}, "to_apply, op 0: opcodes"),
            ({"dimension": 1}, "attribute dimensions"),
            ({"value": 2.0}, "attribute value"),
            ({"note": None}, "notes"),
            ({"more": True}, "op 3: None"),
        ],
    )
    def test_of_others(self, change: dict[str, object], reason: str) -> None:
        found = same(self.record(), self.record(**change))
        assert found is not None
        assert reason in found

    def test_operands_and_results(self) -> None:
        def record(swapped: bool, last: bool) -> xb.XlaComputation:
            b = xb.XlaBuilder("c")
            x, y = (b.parameter(xb.f32[2], name) for name in "xy")
            z = y - x if swapped else x - y
            w = xb.neg(x)
            return b.build(w if last else z)

        assert "operands" in (same(record(False, False), record(True, False)) or "")
        assert "results" in (same(record(False, False), record(False, True)) or "")


def test_a_computation_is_used_inside_another() -> None:
    b = xb.XlaBuilder("double")
    x = b.parameter(xb.f32[2], "x")
    double = lowering.to_computation(lowering.lower(b.build(x + x)))
    outer = xb.XlaBuilder("outer")
    y = outer.parameter(xb.f32[2], "y")
    result = lowering.compile(outer.build(xb.call(double, y) - y))(np.float32([1, 2]))
    np.testing.assert_array_equal(result, np.float32([1, 2]))
