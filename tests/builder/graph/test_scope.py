"""Scopes: names of groups of ops, in names, locations and HLO metadata."""

from __future__ import annotations

import re

import pytest
from tables import each_row

import builder as xb
import lowering


def test_names_begin_with_the_scopes() -> None:
    b = xb.XlaBuilder()
    with b.scope("model"):
        x = b.parameter(xb.f32[2], "x")
        with b.scope("a/b"):
            y = xb.exp(x)
            z = y + x
            z.name = "sum"
        w = xb.neg(z)
    v = xb.neg(w)
    v.name = "v"
    assert [op.name for op in (x, y, z, w, v)] == [
        "x",
        "model/a/b/exponential",
        "model/a/b/sum",
        "model/negate",
        "v",
    ]
    z.name = z.name
    assert z.name == "model/a/b/sum"
    z.name = None
    assert z.name is None


def test_scopes_and_other_metadata() -> None:
    b = xb.XlaBuilder()
    x = b.parameter(xb.f32[2], "x")
    with (
        b.scope("outer"),
        b.op_metadata(op_name="softmax", op_type="S"),
        b.scope("inner"),
        b.sharding("{replicated}"),
    ):
        y = xb.exp(x)
    assert (y.name, y.op_type, y.sharding) == ("outer/inner/softmax", "S", "{replicated}")
    assert xb.exp(x).metadata is None


def test_applied_computations_are_in_the_scope() -> None:
    b = xb.XlaBuilder()
    x = b.parameter(xb.f32[2], "x")
    with b.scope("loop"):
        scale = xb.exp(x)
        two = b.constant(2.0, xb.f32)

        def body(state: xb.XlaOp) -> xb.XlaOp:
            with b.scope("body"):
                return state * scale + two

        result = xb.while_(lambda state: xb.reduce_all(state, 0.0, xb.add) < 1.0, body, x)
    computation = b.build(result)
    names = {op.name for c in computation.called_computations() for op in c.ops}
    assert {"loop/body/multiply", "loop/body/add", "loop/reduce"} <= names
    assert not any(re.search(r"/.*(captured|parameter)", name) for name in names if name)
    lowering.compile(computation, "cpu")


def test_inlined_computations_nest() -> None:
    inner = xb.XlaBuilder("inner")
    x = inner.parameter(xb.f32[2], "x")
    with inner.scope("norm"):
        x = xb.exp(x)
    called = inner.build(xb.neg(x))
    b = xb.XlaBuilder()
    x = b.parameter(xb.f32[2], "x")
    with b.scope("layer"):
        xb.inline(called, x)
    assert [op.name for op in b.ops] == ["x", "layer/norm/exponential", "layer/negate"]
    b.ops[1].name = "e"
    assert b.ops[1].name == "layer/norm/e"


def test_locations_and_hlo_have_the_scopes() -> None:
    b = xb.XlaBuilder()
    x = b.parameter(xb.f32[2], "x")
    with b.scope("layer"):
        y = xb.exp(x)
    computation = b.build(y)
    assert 'op_name="layer/exponential"' in computation.to_hlo_text(metadata=True)
    module = lowering.lower(computation)
    assert 'loc("layer/exponential"' in module.to_text(locations=True)
    again = lowering.to_computation(module)
    assert again.root.name == "layer/exponential"
    assert computation.diff(again, metadata=False).equal
    assert 'op_name="layer/exponential"' in lowering.compile(computation, "cpu").hlo_text()
    assert [op.opcode for op in computation.find(name="layer/*")] == ["exponential"]


@each_row("name", ["", "/", "a/", "/a", "a//b", 3, None])
def test_names_are_checked(name: object) -> None:
    with pytest.raises(xb.OperandError, match="scope: name must be a non-empty string"):
        xb.XlaBuilder().scope(name)  # type: ignore[arg-type]


def test_replacements_stay_in_the_scope() -> None:
    b = xb.XlaBuilder()
    x = b.parameter(xb.f32[2], "x")
    with b.scope("layer"):
        y = xb.log(x)

    def log1p(op: xb.XlaOp, operands: xb.Operands) -> xb.XlaOp | None:
        return xb.log1p(operands[0]) if op.opcode == "log" else None

    assert b.build(y).replace(log1p).root.name == "layer/log"
