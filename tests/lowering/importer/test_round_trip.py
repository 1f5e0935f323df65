"""Lowering and importing a computation returns an equal computation.

`round_trip` compares opcodes, attributes, shapes, operands and order, names, metadata and source
lines. The import lowers to the same text again, including locations. `REPLACED` lists the ops that
are imported as other ops; their text is the same too.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from property.families import FAMILIES
from property.strategies import Call
from round_trip import read_back, same
from tables import each_row

import builder as xb
import lowering
from benchmarks.graphs import GRAPHS, Graph, lstm, resnet50, transformer
from benchmarks.languages import ours

EXAMPLES: Final = int(os.environ.get("HYPOTHESIS_EXAMPLES", "50"))


@pytest.mark.parametrize("family", FAMILIES)
def test_random_calls(family: str) -> None:
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
        read_back(computation)
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
    "shapes": (GRAPHS["shapes"], 3),
    "constants": (GRAPHS["constants"], 1),
    "reducers": (GRAPHS["reducers"], 9),
}


@each_row("name", GRAPHS)
def test_graphs_of_the_benchmarks(name: str) -> None:
    graph, size = TINY[name]
    assert read_back(ours.record(graph, size)) is None


def looping() -> xb.XlaComputation:
    """Nested loops and branches that capture values of outer regions."""
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


@each_row("make", [looping, nested, annotated, in_layouts])
def test_examples(make: Callable[[], xb.XlaComputation]) -> None:
    assert read_back(make()) is None


def test_tuple_parameters_of_called_computations() -> None:
    """Each array is a parameter; the second is `pair.1`."""
    computation = calling()
    module = lowering.lower(computation)
    again = lowering.to_computation(module)
    assert same(computation, again) is None
    assert lowering.lower(again).text == module.text
    (called,) = again.called_computations()
    assert called.name == "inner"
    assert called.program_shape.parameter_names == ("pair", "pair.1")


class TestSame:
    def record(self, **changes: object) -> xb.XlaComputation:
        values = {"name": "c", "op": xb.add, "dimension": 0, "value": 1.0, "note": "{replicated}"}
        values |= changes
        b = xb.XlaBuilder(str(values["name"]))
        x = b.parameter(xb.f32[2, 2], str(values.get("parameter", "x")))
        with b.sharding(values["note"]):
            y = xb.rev(x, [values["dimension"]])
        total = xb.reduce(y, b.constant(np.float32(values["value"])), values["op"], [0])
        pair = xb.tuple(total, total)
        return b.build(xb.neg(pair[0]) if values.get("more") else pair[0])

    def test_equal_computations(self) -> None:
        assert same(self.record(), self.record()) is None

    @each_row(
        "change, reason",
        [
            ({"name": "d"}, "names: 'c', 'd'"),
            ({"parameter": "y"}, "metadata of the parameter x"),
            ({"op": xb.mul}, "to_apply, op 0: opcodes"),
            ({"dimension": 1}, "attribute dimensions"),
            ({"value": 2.0}, "attribute value"),
            ({"note": None}, "metadata"),
            ({"more": True}, "op 3: None"),
        ],
    )
    def test_different_computations(self, change: dict[str, object], reason: str) -> None:
        difference = same(self.record(), self.record(**change))
        assert difference is not None
        assert reason in difference

    def test_operands_and_results(self) -> None:
        def record(swapped: bool, last: bool) -> xb.XlaComputation:
            b = xb.XlaBuilder("c")
            x, y = (b.parameter(xb.f32[2], name) for name in "xy")
            z = y - x if swapped else x - y
            w = xb.neg(x)
            return b.build(w if last else z)

        assert "operands" in (same(record(False, False), record(True, False)) or "")
        assert "results" in (same(record(False, False), record(False, True)) or "")


def test_an_imported_computation_in_another() -> None:
    b = xb.XlaBuilder("double")
    x = b.parameter(xb.f32[2], "x")
    double = lowering.to_computation(lowering.lower(b.build(x + x)))
    outer = xb.XlaBuilder("outer")
    y = outer.parameter(xb.f32[2], "y")
    result = lowering.compile(outer.build(xb.call(double, y) - y))(np.float32([1, 2]))
    np.testing.assert_array_equal(result, np.float32([1, 2]))
