"""Find ops, and the users of ops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tables import each_row

import builder as xb


@pytest.fixture
def model() -> xb.XlaComputation:
    b = xb.XlaBuilder("model")
    x = b.parameter(xb.f32[4], "x")
    y = xb.exp(x)
    y.name = "layer1/exp"
    z = xb.reduce(y * y, 0.0, xb.add, dimensions=[0])
    z.name = "layer2/sum"
    return b.build(xb.tuple(z, xb.rev(y, [0])))


def opcodes(ops: Any) -> list[str]:
    return [op.opcode for op in ops]


@each_row(
    "conditions, expected",
    [
        ({}, ["parameter", "exponential", "multiply", "constant", "reduce", "reverse", "tuple"]),
        ({"opcode": "reduce"}, ["reduce"]),
        ({"opcode": "re*"}, ["reduce", "reverse"]),
        ({"opcode": "*e"}, ["reduce", "reverse", "tuple"]),
        ({"opcode": "tanh"}, []),
        ({"name": "x"}, ["parameter"]),
        ({"name": "layer?/*"}, ["exponential", "reduce"]),
        ({"name": "layer1"}, []),
        ({"shape": "f32[4]"}, ["parameter", "exponential", "multiply", "reverse"]),
        ({"shape": xb.f32[()]}, ["constant", "reduce"]),
        ({"shape": "(f32[], f32[4])"}, ["tuple"]),
        ({"shape": "f32[4]", "opcode": "m*"}, ["multiply"]),
        ({"where": lambda op: len(op.operands) == 2}, ["multiply", "reduce", "tuple"]),
        ({"opcode": "add"}, []),
        ({"opcode": "add", "nested": True}, ["add"]),
        ({"shape": "f32[]", "opcode": "parameter", "nested": True}, ["parameter"] * 2),
    ],
)
def test_find(model: xb.XlaComputation, conditions: dict[str, Any], expected: list[str]) -> None:
    assert opcodes(model.find(**conditions)) == expected


def test_a_name_with_pattern_characters_matches_itself() -> None:
    b = xb.XlaBuilder()
    x = b.parameter(xb.f32[2], "w")
    x.name = "w[0]*"
    assert b.build(x).find(name="w[0]*") == (x,)


def test_find_by_source(model: xb.XlaComputation) -> None:
    path = Path(__file__)
    line = model.ops[1].source.line  # type: ignore[union-attr]
    assert len(model.find(source=path.name)) == 7
    assert len(model.find(source=str(path))) == 7
    assert len(model.find(source=f"inspection/{path.name}")) == 7
    assert opcodes(model.find(source=f"{path.name}:{line}")) == ["exponential"]
    assert model.find(source=path.name[1:]) == ()
    assert model.find(source="elsewhere.py:3") == ()


def test_shapes_with_layouts_are_those_of_parameters() -> None:
    b = xb.XlaBuilder()
    x = b.parameter("f32[2,3]{0,1}")
    xb.neg(x)
    computation = b.build()
    assert computation.find(shape="f32[2,3]{0,1}") == (x,)
    assert len(computation.find(shape="f32[2,3]")) == 2


@each_row(
    "opcode, meant",
    [
        ("redcue", "'reduce'"),
        ("mul", "'multiply'"),
        ("dot", "'dot_general'"),
        ("reduce-window", "'reduce_window'"),
        ("ConvertElementType", "'convert'"),
    ],
)
def test_an_unknown_opcode_suggests_similar_ones(
    model: xb.XlaComputation, opcode: str, meant: str
) -> None:
    with pytest.raises(xb.OperandError, match=f"no op has the opcode '{opcode}'") as caught:
        model.find(opcode)
    assert meant in str(caught.value).partition("fix: did you mean")[2]


def test_an_empty_pattern_is_refused(model: xb.XlaComputation) -> None:
    with pytest.raises(xb.OperandError, match=r"no op has the opcode 'zz\*'(\nat|$)"):
        model.find("zz*")


@each_row(
    "conditions, message",
    [
        ({"opcode": 3}, "opcode must be a str, got 3"),
        (
            {"opcode": lambda op: True},
            r"got <func.*\nfix: write computation\.find\(where=lambda op: \.\.\.\)",
        ),
        ({"opcode": xb.mul}, r"got <func.*\nfix: write computation\.find\('multiply'\)"),
        (
            {"opcode": xb.f32[4]},
            r"got f32\[4\]\nfix: write computation\.find\(shape=xb\.f32\[4\]\)",
        ),
        ({"name": b"x"}, "name must be a str"),
        ({"source": 12}, "source must be a str, got 12"),
        ({"where": True}, "where must be a function of an XlaOp, got True"),
        ({"shape": "f32[4"}, "find: shape: "),
        ({"nested": np.ones(2)}, "find: nested must be True or False, got array"),
    ],
)
def test_arguments_are_checked(model: xb.XlaComputation, conditions: Any, message: str) -> None:
    with pytest.raises(xb.XlaError, match=message):
        model.find(**conditions)


def test_users_of_an_op_of_another_computation_are_refused(model: xb.XlaComputation) -> None:
    b = xb.XlaBuilder("other")
    foreign = b.parameter(xb.f32[4], "x")
    with pytest.raises(xb.BuilderError, match="users: op must be an op of computation 'model'"):
        model.users(foreign)
    inner = model.called_computations()[0].ops[0]  # has a number that the model has too
    with pytest.raises(xb.BuilderError, match="fix: call the method of the computation"):
        model.users(inner)
    with pytest.raises(xb.OperandError, match="users: op must be an XlaOp, got int: 3"):
        model.users(3)  # type: ignore[arg-type]
