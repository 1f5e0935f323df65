"""extract: the part of a computation that computes some of its values."""

from __future__ import annotations

from typing import Any

import graphs
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import builder as xb


@pytest.fixture
def model() -> xb.XlaComputation:
    """Return the computation exp(tanh(x * y) + y) - z."""
    b = xb.XlaBuilder("model")
    x, y = b.parameter(xb.f32[4], "x"), b.parameter("f32[4]", "y")
    with b.sharding("{replicated}"):
        product = x * y
    with b.frontend_attributes({"stage": "1"}):
        hidden = xb.tanh(product)
    hidden.name = "hidden"
    z = b.parameter(xb.f32[4], "z")
    b.setup_alias([], 2)
    return b.build(xb.exp(hidden + y) - z)


def op_of(computation: xb.XlaComputation, opcode: str) -> xb.XlaOp:
    (op,) = computation.find(opcode)
    return op


def opcodes(computation: xb.XlaComputation) -> list[str]:
    return [op.opcode for op in computation.ops]


def leaves(value: Any) -> list[Any]:
    return [leaf for part in value for leaf in leaves(part)] if type(value) is tuple else [value]


@given(graphs.recipes, st.lists(st.integers(0, 200), min_size=1, max_size=4))
@settings(max_examples=60)
def test_the_values_are_those_of_the_original(recipe: list[graphs.Step], choice: list[int]) -> None:
    graph = graphs.recorded(recipe)
    ops = [graph.ops[number % len(graph.ops)] for number in choice]
    part = graph.extract(ops)
    values = graphs.values_of(graph, *graphs.arguments_of(graph))
    results = graphs.evaluate(part, *graphs.arguments_of(part))
    assert_equal(results, tuple(values[op.id] for op in ops))
    assert len(part.ops) <= len(graph.ops) + 1


@given(graphs.recipes, st.lists(st.integers(0, 200), min_size=1, max_size=4, unique=True))
@settings(max_examples=60)
def test_two_parts_compute_the_original(recipe: list[graphs.Step], choice: list[int]) -> None:
    graph = graphs.recorded(recipe)
    cut = list(dict.fromkeys(graph.ops[number % len(graph.ops)] for number in choice))
    front, rest = graph.extract(cut), graph.extract(graph.root, inputs=cut)
    middle = graphs.evaluate(front, *graphs.arguments_of(front))
    remaining = graphs.arguments_of(rest)[len(cut) :] if len(rest.parameters) > len(cut) else []
    expected = graphs.evaluate(graph, *graphs.arguments_of(graph))
    assert_equal(graphs.evaluate(rest, *middle, *remaining), expected)
    # The parts combined again in one builder.
    b = xb.XlaBuilder("again")
    named = {p.name: b.parameter(p.shape, p.name) for p in graph.parameters}
    front_values = (
        xb.inline(front, *(named[p.name] for p in front.parameters))
        if front.parameters
        else b.inline(front)
    )
    again = b.build(
        xb.inline(rest, *front_values, *(named[p.name] for p in rest.parameters[len(cut) :]))
    )
    assert_equal(graphs.evaluate(again, *graphs.arguments_of(again)), expected)


def assert_equal(actual: Any, expected: Any) -> None:
    assert len(leaves(actual)) == len(leaves(expected))
    for value, other in zip(leaves(actual), leaves(expected), strict=True):
        np.testing.assert_array_equal(value, other, strict=True)


class TestOneOp:
    def test_only_needed_ops_are_extracted(self, model: xb.XlaComputation) -> None:
        part = model.extract(op_of(model, "tanh"))
        assert opcodes(part) == ["parameter", "parameter", "multiply", "tanh"]
        assert str(part.program_shape) == "(x: f32[4], y: f32[4]) -> f32[4]"
        assert part.name == "model_part"
        for name in ("multiply", "tanh"):
            old, new = op_of(model, name), op_of(part, name)
            assert (new.metadata, new.source) == (old.metadata, old.source)
            assert new.attributes is old.attributes
        assert op_of(part, "tanh").name == "hidden"
        assert part.aliases == part.donors == ()
        assert len(model.aliases) == 1

    def test_a_sequence_of_one_is_a_tuple(self, model: xb.XlaComputation) -> None:
        part = model.extract([op_of(model, "tanh")])
        assert str(part.program_shape.result) == "(f32[4])"

    def test_several_and_one_twice(self, model: xb.XlaComputation) -> None:
        exp, tanh = op_of(model, "exponential"), op_of(model, "tanh")
        part = model.extract((exp, tanh, exp))
        assert part.root.operands == (part.ops[-2], op_of(part, "tanh"), part.ops[-2])
        assert str(part.program_shape.result) == "(f32[4], f32[4], f32[4])"

    def test_a_parameter(self, model: xb.XlaComputation) -> None:
        part = model.extract(model.parameters[2])
        assert str(part.program_shape) == "(z: f32[4]) -> f32[4]"
        assert opcodes(part) == ["parameter"]

    def test_layouts_of_parameters_are_preserved_those_of_results_are_not(self) -> None:
        c = xb.computation("f32[2,3]{0,1}", result="f32[2,3]{0,1}")(lambda x: x + x)
        assert str(c.extract(c.root).program_shape) == "(x: f32[2,3]{0,1}) -> f32[2,3]"

    def test_without_parameters(self) -> None:
        b = xb.XlaBuilder("c")
        one = b.constant(1, xb.s32)
        part = b.build(one + b.parameter(xb.s32[()])).extract(one)
        assert str(part.program_shape) == "() -> s32[]"

    def test_unneeded_side_effects_are_omitted(self) -> None:
        b = xb.XlaBuilder()
        x = b.parameter(xb.f32[2])
        token = xb.outfeed(x)
        y = x + x
        c = b.build(xb.tuple(y, token))
        assert opcodes(c.extract(y)) == ["parameter", "add"]
        assert opcodes(c.extract(token)) == ["parameter", "create_token", "outfeed"]

    def test_applied_computations_are_shared(self) -> None:
        c = xb.computation(xb.f32[3])(lambda x: xb.neg(xb.reduce(x, 0.0, xb.add, [0])))
        assert c.extract(op_of(c, "reduce")).called_computations() == c.called_computations()


class TestInputs:
    def test_inputs_are_the_first_parameters_in_order(self, model: xb.XlaComputation) -> None:
        product, tanh = op_of(model, "multiply"), op_of(model, "tanh")
        part = model.extract(model.root, inputs=[tanh, product])
        assert str(part.program_shape) == (
            "(hidden: f32[4], multiply_2: f32[4], y: f32[4], z: f32[4]) -> f32[4]"
        )
        hidden, unused = part.parameters[:2]
        assert part.users(unused) == ()
        assert hidden.source == tanh.source
        assert (hidden.frontend_attributes, unused.sharding) == ({"stage": "1"}, "{replicated}")

    def test_a_single_input(self, model: xb.XlaComputation) -> None:
        part = model.extract(op_of(model, "exponential"), inputs=op_of(model, "add"))
        assert str(part.program_shape) == "(add_5: f32[4]) -> f32[4]"
        assert opcodes(part) == ["parameter", "exponential"]

    def test_no_inputs(self, model: xb.XlaComputation) -> None:
        part = model.extract(model.root, inputs=[])
        assert str(part.program_shape) == str(model.program_shape)

    def test_a_parameter_as_an_input(self) -> None:
        c = xb.computation("f32[2,3]{0,1}", xb.f32[2, 3])(lambda x, y: xb.neg(x * y))
        part = c.extract(c.root, inputs=[c.parameters[1], c.parameters[0]])
        assert str(part.program_shape) == "(y: f32[2,3], x: f32[2,3]{0,1}) -> f32[2,3]"

    def test_an_input_that_is_the_root(self, model: xb.XlaComputation) -> None:
        tanh = op_of(model, "tanh")
        part = model.extract(tanh, inputs=tanh)
        assert str(part.program_shape) == "(hidden: f32[4]) -> f32[4]"
        assert opcodes(part) == ["parameter"]

    def test_names_that_exist_already(self) -> None:
        b = xb.XlaBuilder()
        x = b.parameter(xb.f32[2], "x")
        y, z = xb.neg(x), xb.abs(x)
        y.name = z.name = "x"
        part = b.build(x + y + z).extract(b.ops[-1], inputs=[y, z])
        assert [p.name for p in part.parameters] == ["x_1", "x_2", "x"]

    def test_tuples_and_tokens(self) -> None:
        b = xb.XlaBuilder()
        pair = xb.tuple(b.parameter(xb.f32[2]), b.empty_tuple())
        token = xb.outfeed(pair[0])
        c = b.build(xb.tuple(xb.after_all(token), pair[1]))
        part = c.extract(c.root, inputs=[pair, token])
        assert str(part.program_shape) == (
            "(tuple_2: (f32[2], ()), outfeed_5: token[]) -> (token[], ())"
        )


def test_meshes_are_copied() -> None:
    from builder.attributes.annotations import Annotations

    b = xb.XlaBuilder()
    b.annotations = Annotations(
        meshes={"mesh": {"mesh": "#sdy.mesh<[]>"}}, parameters=({"a": "0"},), results=({},)
    )
    c = b.build(xb.neg(b.parameter(xb.f32[2])))
    assert c.extract(c.root).annotations == Annotations(meshes={"mesh": {"mesh": "#sdy.mesh<[]>"}})


class TestRefused:
    def test_not_an_op(self, model: xb.XlaComputation) -> None:
        with pytest.raises(xb.OperandError, match="extract: at least one op is needed, got none"):
            model.extract([])
        with pytest.raises(xb.OperandError, match=r"extract: op must be .*, got str: 'tanh'"):
            model.extract("tanh")  # type: ignore[arg-type]
        with pytest.raises(xb.OperandError, match="extract: input 0 must be an XlaOp, got int: 3"):
            model.extract(model.root, inputs=[3])  # type: ignore[list-item]

    def test_op_of_another_computation(self, model: xb.XlaComputation) -> None:
        other = xb.computation(xb.f32[4])(lambda x: xb.tanh(x))
        message = (
            r"extract: {} must be an op of computation 'model', got an op of builder '.*'\n"
            r"  <XlaOp %1 = .*\nfix: use an op of this computation"
        )
        with pytest.raises(xb.BuilderError, match=message.format("op 1")) as failure:
            model.extract([model.root, other.root])
        assert failure.value.shapes == {"op 1": xb.f32[4]}
        with pytest.raises(xb.BuilderError, match=message.format("input 0")):
            model.extract(model.root, inputs=other.root)

    def test_op_of_a_body(self) -> None:
        @xb.computation(xb.s32[()])
        def c(x: xb.XlaOp) -> xb.XlaOp:
            return xb.while_(lambda v: v < 3, lambda v: v + 1, x)

        body = c.root.attributes["body"]
        number = c.called_computations().index(body)
        with pytest.raises(
            xb.BuilderError,
            match=rf"op 0 must be an op of 'c' itself, got an op of 'while_body', .*\n.*add.*\n"
            rf"fix: .* computation.called_computations\(\)\[{number}\]",
        ):
            c.extract(body.root)
        assert opcodes(c.called_computations()[number].extract(body.root)) == opcodes(body)

    def test_an_input_twice(self, model: xb.XlaComputation) -> None:
        tanh = op_of(model, "tanh")
        with pytest.raises(xb.OperandError, match="inputs must be unique, got <XlaOp %3 'hidden'"):
            model.extract(model.root, inputs=[tanh, model.ops[0], tanh])
