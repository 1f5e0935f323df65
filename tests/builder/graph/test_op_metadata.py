"""`XlaBuilder.op_metadata`: names, types and source lines that a front end sets."""

from __future__ import annotations

from typing import Any

import pytest
from tables import each_row

import builder as xb
from builder.graph.xla_op import OpMetadata


def test_ops_of_a_block() -> None:
    b = xb.XlaBuilder()
    x = b.parameter(xb.f32[2], "x")
    with b.op_metadata(op_type="Add", op_name="block/add", source_file="m.abc", source_line=7):
        y = x + 1
        p = b.parameter(xb.f32[2], "p")
    ops = {op.opcode: op for op in b.ops[1:-1]}
    assert set(ops) == {"constant", "broadcast_in_dim", "add"}
    for op in ops.values():
        assert (op.op_type, op.name, str(op.source)) == ("Add", "block/add", "m.abc:7")
    assert (p.op_type, p.name, str(p.source)) == ("Add", "p", "m.abc:7")
    after = y * y
    assert after.metadata is None
    assert after.source is not None
    assert after.source.file == __file__


def test_blocks_are_nested() -> None:
    b = xb.XlaBuilder()
    x = b.parameter(xb.f32[2], "x")
    with b.op_metadata(op_type="A", op_name="a"):
        with (
            b.frontend_attributes({"k": "v"}),
            b.op_metadata(op_name="b", source_file="m.abc", source_line=1),
        ):
            inner = -x
        outer = -x
        with b.sharding("{replicated}"):
            sharded = -x
    assert (inner.op_type, inner.name, str(inner.source)) == ("A", "b", "m.abc:1")
    assert inner.frontend_attributes == {"k": "v"}
    assert outer.metadata == OpMetadata("a", None, None, op_type="A")
    assert sharded.metadata == OpMetadata("a", None, "{replicated}", op_type="A")


def test_the_metadata_of_an_error_is_restored() -> None:
    b = xb.XlaBuilder()
    x = b.parameter(xb.f32[2], "x")
    with pytest.raises(xb.XlaError), b.op_metadata(op_type="A"):
        xb.rev(x, [3])
    assert (-x).metadata is None


def test_callables_of_the_block() -> None:
    b = xb.XlaBuilder()
    x = b.parameter(xb.f32[()], "x")
    with b.op_metadata(op_type="Loop"):
        loop = xb.while_(lambda v: v < 3, lambda v: v + v, x)
    for called in loop.called_computations:
        assert called.root.op_type == "Loop"


def test_inlined_ops() -> None:
    inner = xb.XlaBuilder("inner")
    p = inner.parameter(xb.f32[2], "p")
    with inner.op_metadata(op_type="Exp"):
        q = xb.exp(p)
    computation = inner.build(-q)
    b = xb.XlaBuilder()
    x = b.parameter(xb.f32[2], "x")
    with b.op_metadata(op_type="Outer", op_name="n"):
        root = xb.inline(computation, x)
    assert (root.op_type, root.operands[0].op_type) == ("Outer", "Exp")
    assert b.build(root).extract(root).root.op_type == "Outer"


def test_assignment() -> None:
    b = xb.XlaBuilder()
    y = -b.parameter(xb.f32[2], "x")
    y.op_type = "Neg"
    assert y.op_type == "Neg"
    y.op_type = None
    assert y.metadata is None
    for value in ("", 3):
        with pytest.raises(xb.OperandError) as caught:
            y.op_type = value  # type: ignore[assignment]
        assert str(caught.value) == (
            f"op_type: op_type must be None or a non-empty string, got {value!r}"
        )


def test_find_and_diff() -> None:
    def build(op_type: str) -> xb.XlaComputation:
        b = xb.XlaBuilder()
        x = b.parameter(xb.f32[2], "x")
        with b.op_metadata(op_type=op_type, source_file="dir/m.abc", source_line=7):
            return b.build(-x)

    first, second = build("A"), build("B")
    assert first.find(source="m.abc:7") == (first.root,)
    assert first.find(source="dir/m.abc") == (first.root,)
    assert first.find(source="m.abc:8") == ()
    assert not first.diff(second)
    (change,) = first.diff(second, metadata=True).changed
    assert [str(each) for each in change.differences] == ["op_type: A -> B"]


@each_row(
    "arguments, message",
    [
        ({"op_type": ""}, "op_type must be a non-empty string, got ''"),
        ({"op_name": 3}, "op_name must be a non-empty string, got 3"),
        (
            {"source_file": b"m", "source_line": 1},
            "source_file must be a non-empty string, got b'm'",
        ),
        (
            {"source_file": "m"},
            "a source needs a file and a line, got source_file 'm' and source_line None\nfix:",
        ),
        ({"source_line": 3}, "a source needs a file and a line, got source_file None and "),
        ({"source_file": "m", "source_line": 0}, "source_line must be from 1 to 2**31 - 2, got 0"),
        ({"source_file": "m", "source_line": 2**31 - 1}, "source_line must be from 1 to "),
        ({"source_file": "m", "source_line": 1.5}, "source_line must be an integer, got 1.5"),
    ],
)
def test_refused(arguments: dict[str, Any], message: str) -> None:
    b = xb.XlaBuilder()
    with pytest.raises(xb.XlaError) as caught:
        b.op_metadata(**arguments)
    assert str(caught.value).startswith(f"op_metadata: {message}")
    assert caught.value.location == f"{__file__}:{caught.traceback[0].lineno + 1}"
