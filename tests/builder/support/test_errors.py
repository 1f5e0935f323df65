"""Errors can be pickled, as multiprocessing does to return them from another process."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from tables import each_row

import builder as xb
import builder.errors
import lowering.errors

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
