"""inline: the ops of a computation are recorded instead of a call."""

from __future__ import annotations

from collections.abc import Callable

import graphs
import numpy as np
import pytest
from hypothesis import given, settings

import builder as xb


@pytest.fixture
def b() -> xb.XlaBuilder:
    return xb.XlaBuilder("main")


@xb.computation(xb.f32[2], xb.f32[2])
def product_and_sum(x: xb.XlaOp, y: xb.XlaOp) -> list[xb.XlaOp]:
    return [x * y, x + y]


def opcodes(computation: xb.XlaComputation) -> list[str]:
    return [op.opcode for op in computation.ops]


@given(graphs.recipes)
@settings(max_examples=40)
def test_it_computes_the_same_as_a_call(recipe: list[graphs.Step]) -> None:
    graph = graphs.recorded(recipe)

    def program(apply: Callable[..., xb.XlaOp]) -> xb.XlaComputation:
        b = xb.XlaBuilder("program")
        operands = [b.parameter(p.shape, p.name) for p in graph.parameters]
        return b.build(-apply(graph, *operands))

    called, inlined = program(xb.call), program(xb.inline)
    assert graph not in inlined.called_computations()
    assert len(inlined.ops) == len(graph.ops) + 1
    arguments = graphs.arguments_of(graph)
    expected = graphs.evaluate(called, *arguments)
    np.testing.assert_array_equal(graphs.evaluate(inlined, *arguments), expected, strict=True)


def test_ops_keep_names_lines_and_attributes(b: xb.XlaBuilder) -> None:
    inside = xb.XlaBuilder("inside")
    v = inside.parameter(xb.f32[2, 3], "v")
    with inside.sharding("{replicated}"):
        turned = xb.transpose(v, [1, 0])
    turned.name = "turned"
    c = inside.build(xb.reduce(turned, 0.0, xb.add, [0]))
    result = xb.inline(c, b.parameter(xb.f32[2, 3]))
    assert [op.opcode for op in b.ops] == ["parameter", "transpose", "constant", "reduce"]
    assert result is b.ops[-1]
    for old, new in zip(c.ops[1:], b.ops[1:], strict=True):
        assert (new.name, new.sharding, new.source) == (old.name, old.sharding, old.source)
        assert new.attributes is old.attributes
        assert new.builder is b
    assert b.ops[1].name == "turned"
    assert b.ops[1].operands == (b.ops[0],)


def test_the_computation_is_unchanged(b: xb.XlaBuilder) -> None:
    before = product_and_sum.to_hlo_text(metadata=True)
    x = b.parameter(xb.f32[2], "x")
    xb.inline(product_and_sum, x, xb.inline(product_and_sum, x, x)[0])
    assert product_and_sum.to_hlo_text(metadata=True) == before


def test_annotations_of_enclosing_blocks_apply_to_ops_without_any(b: xb.XlaBuilder) -> None:
    inside = xb.XlaBuilder("inside")
    v = inside.parameter(xb.f32[2])
    with inside.frontend_attributes({"a": "inner", "b": "inner"}):
        w = v + v
    c = inside.build(xb.neg(w))
    x = b.parameter(xb.f32[2])
    with b.frontend_attributes({"b": "outer", "c": "outer"}), b.sharding("{replicated}"):
        xb.inline(c, x)
    _, add, negate = b.ops
    assert add.frontend_attributes == {"a": "inner", "b": "inner", "c": "outer"}
    assert negate.frontend_attributes == {"b": "outer", "c": "outer"}
    assert add.sharding == negate.sharding == "{replicated}"
    assert c.ops[2].metadata is None


def test_a_parameter_as_the_root_is_the_operand(b: xb.XlaBuilder) -> None:
    second = xb.computation(xb.f32[2], xb.s32[3])(lambda x, y: y)
    x, y = b.parameter(xb.f32[2]), b.parameter(xb.s32[3])
    assert xb.inline(second, x, y) is y
    assert len(b.ops) == 2


def test_ops_that_the_root_does_not_need_are_recorded(b: xb.XlaBuilder) -> None:
    inside = xb.XlaBuilder("inside")
    v = inside.parameter(xb.f32[2])
    xb.outfeed(v)
    c = inside.build(v + v)
    xb.inline(c, b.parameter(xb.f32[2]))
    assert [op.opcode for op in b.ops] == ["parameter", "create_token", "outfeed", "add"]


def test_tuples_tokens_and_the_empty_tuple(b: xb.XlaBuilder) -> None:
    inside = xb.XlaBuilder("inside")
    t, token = inside.parameter("(f32[2], ())"), inside.parameter(xb.TOKEN_SHAPE)
    c = inside.build(xb.tuple(t[1], xb.after_all(token), inside.empty_tuple()))
    operand = xb.tuple(b.parameter(xb.f32[2]), b.empty_tuple())
    result = xb.inline(c, operand, b.create_token())
    assert str(result.shape) == "((), token[], ())"
    b.build(result)


def test_layouts_are_dropped(b: xb.XlaBuilder) -> None:
    c = xb.computation("f32[2,3]{0,1}", result="f32[2,3]{0,1}")(lambda x: x + x)
    result = xb.inline(c, b.parameter(xb.f32[2, 3], "x"))
    assert str(b.build(result).program_shape) == "(x: f32[2,3]) -> f32[2,3]"


def test_into_a_callable_whose_op_captures(b: xb.XlaBuilder) -> None:
    x, y = b.parameter(xb.f32[2], "x"), b.parameter(xb.f32[2], "y")
    loop = xb.while_(
        lambda state: state[0] < 3,
        lambda state: (state[0] + 1, xb.inline(product_and_sum, state[1], y)[0]),
        [b.constant(0, xb.s32), x],
    )
    body = b.build(loop).called_computations()[1]
    assert "multiply" in opcodes(body)
    assert "call" not in opcodes(body)


def test_meshes_are_copied(b: xb.XlaBuilder) -> None:
    from builder.attributes.annotations import Annotations

    two = {"mesh": {"mesh": '#sdy.mesh<["x"=2]>'}}
    inside = xb.XlaBuilder("inside")
    inside.annotations = Annotations(module={"of": "0"}, meshes=two)
    c = inside.build(inside.parameter(xb.f32[2]))
    x = b.parameter(xb.f32[2])
    xb.inline(c, x)
    assert b.annotations == Annotations(meshes=two)
    xb.inline(c, x)
    b.annotations = Annotations(meshes={"mesh": {"mesh": '#sdy.mesh<["x"=4]>'}})
    message = (
        r"inline: mesh 'mesh' of 'inside' must equal the mesh in builder 'main', got\n"
        r'  #sdy.mesh<\["x"=4\]>\n  #sdy.mesh<\["x"=2\]>\n'
        r"fix: define the mesh identically in all computations, or rename one: xb.Mesh"
    )
    with pytest.raises(xb.BuilderError, match=message):
        xb.inline(c, x)


class TestWithoutParameters:
    @pytest.fixture
    def one(self) -> xb.XlaComputation:
        inside = xb.XlaBuilder("one")
        return inside.build(inside.constant(1, xb.s32))

    def test_it_is_a_method(self, b: xb.XlaBuilder, one: xb.XlaComputation) -> None:
        result = b.inline(one)
        assert (result.opcode, result.builder) == ("constant", b)
        assert result.attributes is one.root.attributes

    def test_inside_a_callable(self, b: xb.XlaBuilder, one: xb.XlaComputation) -> None:
        xb.call(lambda v: v + b.inline(one), b.parameter(xb.s32[()]))
        assert [op.opcode for op in b.ops] == ["parameter", "call"]

    def test_with_parameters(self, b: xb.XlaBuilder) -> None:
        with pytest.raises(xb.SignatureError, match=r"inline: .*a function of 0 arguments"):
            b.inline(product_and_sum)

    def test_builder_that_was_built(self, b: xb.XlaBuilder, one: xb.XlaComputation) -> None:
        b.build(b.constant(1, xb.s32))
        with pytest.raises(xb.BuilderError, match="inline: builder 'main' was already built"):
            b.inline(one)

    def test_builder_argument_of_the_function(self, one: xb.XlaComputation) -> None:
        with pytest.raises(xb.OperandError, match=r"\nfix: .* builder.inline\("):
            xb.inline(one)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (["f32[2]"], "computation must be a function of 1 argument, one for each operand"),
        (["f32[2]", "f32[3]"], r"parameter 1, y, is f32\[2\]; operand 1 is f32\[3\]\), got"),
        (["f32[2]", "(f32[2])"], r"parameter 1, y, is f32\[2\]; operand 1 is \(f32\[2\]\)"),
    ],
)
def test_wrong_operands(b: xb.XlaBuilder, shapes: list[str], message: str) -> None:
    operands = [b.parameter(shape) for shape in shapes]
    with pytest.raises(xb.SignatureError, match=f"inline: .*{message}"):
        xb.inline(product_and_sum, *operands)
    assert len(b.ops) == len(shapes)


def test_dynamic_sizes_must_be_the_parameters(b: xb.XlaBuilder) -> None:
    x, y = b.parameter("f32[<=2]"), b.parameter("f32[2]")
    message = (
        r"parameter 0, x, of 'product_and_sum' f32\[2\]\n  operand 0 f32\[<=2\]\nfix: .*xb.call"
    )
    with pytest.raises(xb.SignatureError, match=message):
        xb.inline(product_and_sum, x, y)
    assert len(b.ops) == 2
    xb.call(product_and_sum, x, y)


def test_not_a_computation(b: xb.XlaBuilder) -> None:
    x = b.parameter(xb.f32[2])
    with pytest.raises(xb.OperandError, match=r"must be an XlaComputation, got 3\n"):
        xb.inline(3, x)  # type: ignore[arg-type]
    with pytest.raises(xb.OperandError, match=r"got <function.*\nfix: .*function\(\*operands\)"):
        xb.inline(xb.neg, x)  # type: ignore[arg-type]


def test_operands_of_two_builders(b: xb.XlaBuilder) -> None:
    x, y = b.parameter(xb.f32[2]), xb.XlaBuilder("other").parameter(xb.f32[2])
    with pytest.raises(xb.BuilderError, match="inline: operands belong to different builders"):
        xb.inline(product_and_sum, x, y)
