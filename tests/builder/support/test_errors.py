"""Errors hold facts, from which the message is composed; they can be pickled and copied."""

from __future__ import annotations

import ast
import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from scripts import ROOT
from tables import each_row

import builder as xb
import builder.errors
import lowering.errors
from builder import lib

CLASSES = sorted(
    {
        value
        for module in (builder.errors, lowering.errors)
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, xb.XlaError)
    },
    key=lambda kind: kind.__name__,
)

FACTS: dict[type, dict[str, Any]] = {
    xb.ShapeTextError: {"text": "f32[", "position": 4},
    xb.ShapeInferenceError: {"op": "add", "shapes": {"x": xb.f32[2]}, "dimension": 0},
    lowering.errors.ModuleFileError: {"path": "x.mlir", "line": 3, "column": 4, "detail": "report"},
    lowering.errors.ArgumentError: {"computation": "f", "argument": 1, "name": "x"},
    lowering.errors.VersionError: {"version": "1.0.0"},
}


@each_row("kind", CLASSES)
@each_row("protocol", [0, 2, pickle.HIGHEST_PROTOCOL])
def test_pickle(kind: Any, protocol: int) -> None:
    error = kind("add: operands must be arrays", **FACTS.get(kind, {}))
    for other in (pickle.loads(pickle.dumps(error, protocol)), copy.copy(error)):
        assert type(other) is kind
        assert str(other) == str(error)
        assert vars(other) == vars(error)


def test_long_names_are_shortened() -> None:
    name = "n" * 100_000
    b = xb.XlaBuilder(name)
    x = b.parameter(xb.f32[2], name)
    attempts: list[Callable[[], object]] = [
        lambda: b.parameter(xb.f32[2], name),
        lambda: bool(x),
        lambda: x + xb.XlaBuilder(name).parameter(xb.f32[2]),
        lambda: lowering.compile(b.build(x))(1, 2),
        lambda: lowering.load(name),
    ]
    for attempt in attempts:
        with pytest.raises(xb.XlaError) as caught:
            attempt()
        lines = str(caught.value).split("\n")
        assert max(map(len, lines)) < 2100
        assert "nnn ... nnn" in str(caught.value)


def test_the_message_is_composed_of_the_facts() -> None:
    error = xb.ShapeInferenceError(
        "sizes must be equal",
        op="add",
        got="2 and 3",
        fix="pad lhs",
        shapes={"lhs": xb.f32[2], "y": xb.f32[3]},
        lists_shapes=True,
    )
    rest = "sizes must be equal, got 2 and 3\n  lhs f32[2]\n  y   f32[3]\nfix: pad lhs"
    assert str(error) == f"add: {rest}"
    assert repr(error) == f"ShapeInferenceError({str(error)!r})"
    error.fix = ""
    assert str(error) == f"add: {rest.removesuffix(chr(10) + 'fix: pad lhs')}"
    assert str(xb.XlaError("it is wrong")) == "it is wrong"


def test_facts_are_changed_where_more_is_known() -> None:
    def error() -> xb.XlaError:
        return xb.OperandError("it must be an array", op="dot", got="3", fix="convert it")

    def facts(error: xb.XlaError) -> list[Any]:
        assert str(error).endswith("it must be an array, got 3\nfix: convert it")
        return [error.op, error.argument, str(error).partition("it must")[0]]

    assert facts(error()) == ["dot", None, "dot: "]
    assert facts(error()._renamed("matmul")) == ["matmul", None, "matmul: "]
    assert facts(error()._in_call("softmax")) == ["softmax", None, "softmax: dot: "]
    assert facts(error()._in_argument("while_", "body")) == [
        "while_",
        "body",
        "while_: body: dot: ",
    ]
    nested = error()._in_argument("while_", "body")._renamed("While")
    assert facts(nested) == ["While", "body", "While: body: dot: "]
    other = error()._as_kind(lowering.errors.LoweringError, op="lower", detail="report")
    assert facts(other) == ["lower", None, "dot: "]
    assert (type(other), other.detail) == (lowering.errors.LoweringError, "report")


def test_errors_of_ops_have_facts() -> None:
    x = xb.XlaBuilder().parameter(xb.f32[2, 3])
    attempts: dict[Callable[[], object], tuple[str, str | None, str | None]] = {
        lambda: xb.rev(x, "0"): ("rev", "dimensions", "'0'"),
        lambda: xb.rev(x, [5]): ("rev", "dimensions", "5"),
        lambda: xb.rev(3, [0]): ("rev", "operand", "int: 3"),
        lambda: xb.rev(x, axis=[0], wrong=3): ("rev", "axis", "axis=[0]"),
        lambda: lib.softmax(x, 7): ("softmax", "axis", "7"),
        lambda: xb.f32[-1]: ("shape", None, "-1"),
    }
    for attempt, expected in attempts.items():
        with pytest.raises(xb.XlaError) as caught:
            attempt()
        error = caught.value
        assert (error.op, error.argument, error.got) == expected, str(error)
        assert "fix: " not in error.rule
        assert not error.rule.startswith(f"{error.op}: ")


def test_no_text_of_an_error_contains_what_is_a_fact() -> None:
    """`errors.py` composes the message. A fix or an op in a rule would have to be parsed."""
    for path in sorted(
        p for package in ("builder", "lowering") for p in (ROOT / package).rglob("*.py")
    ):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name = getattr(node.func, "id", "")
            rule = node.args[2 if name == "error_of" and len(node.args) > 2 else 0]
            if name != "error_of" and name not in KINDS:
                continue
            place, text = f"{path}:{node.lineno}", ast.unparse(rule)
            assert "\\nfix: " not in text, place
            op = next((ast.unparse(k.value) for k in node.keywords if k.arg == "op"), None)
            assert op is None or not text.startswith((f"f'{{{op}}}: ", f"{op[:-1]}: ")), place


KINDS = {kind.__name__ for kind in CLASSES}
