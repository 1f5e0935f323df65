"""A front end on the public API: ops and errors point at the lines of its callers."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tiny_numpy as tiny
from tables import each_row

import builder as xb
import lowering


def line_of(function: object, text: str) -> int:
    """The number of the line of `function` that contains `text`."""
    lines, start = inspect.getsourcelines(function)  # type: ignore[arg-type]
    (number,) = [number for number, line in enumerate(lines, start) if text in line]
    return number


def all_ops(computation: xb.XlaComputation) -> Iterator[xb.XlaOp]:
    yield from computation.ops
    for called in computation.called_computations():
        yield from all_ops(called)


def model(x: tiny.Array, w: tiny.Array) -> tiny.Array:
    hidden = tiny.exp(x @ w)
    scaled = hidden * 2
    return scaled.repeat(3, lambda v: v + w.sum(0).op.shape.element_count).sum(1)


X, W = np.ones((2, 3), np.float32), np.full((3, 4), 0.5, np.float32)


def test_it_computes_what_numpy_computes() -> None:
    result = lowering.compile(tiny.computation(model, X, W))(X, W)
    np.testing.assert_allclose(result, (np.exp(X @ W) * 2 + 12).sum(1), rtol=1e-6)


def test_every_op_has_a_line_of_the_caller() -> None:
    computation = tiny.computation(model, X, W)
    sources = [op.source for op in all_ops(computation) if op.source is not None]
    assert {source.file for source in sources} == {__file__}
    lines = {op.opcode: op.source.line for op in computation.ops if op.source is not None}
    assert lines["dot_general"] == lines["exponential"] == line_of(model, "tiny.exp")
    assert lines["multiply"] == line_of(model, "hidden * 2")
    assert lines["while"] == lines["reduce"] == line_of(model, "scaled.repeat")


def test_an_error_names_the_line_of_the_caller() -> None:
    def wrong(x: tiny.Array) -> tiny.Array:
        return x @ x

    with pytest.raises(xb.ShapeInferenceError, match="dot: ") as caught:
        tiny.computation(wrong, X)
    assert caught.value.location == f"{__file__}:{line_of(wrong, 'x @ x')}"


def test_the_functions_of_a_front_end_are_recorded_at_each_use() -> None:
    """They may depend on more than their arguments, unlike the functions of `builder`."""
    x = xb.XlaBuilder().parameter(xb.f32[2])
    first, second = (xb.reduce(x, 1.0, tiny.product, [0]).called_computations[0] for _ in "12")
    assert first is not second
    assert str(first.root.source) == f"{__file__}:{first.root.source.line}"


@each_row("name", ["nothing.like.this", 3, None, tiny])
def test_a_module_that_is_not_imported_is_refused(name: object) -> None:
    with pytest.raises(xb.OperandError, match=r"declare_internal: .*\nfix: pass __name__"):
        xb.declare_internal(name)  # type: ignore[arg-type]


def test_a_module_without_a_file_is_refused() -> None:
    with pytest.raises(xb.OperandError, match="the module 'sys' has no source file"):
        xb.declare_internal("sys")


PACKAGE = """
import builder as xb
xb.declare_internal(__name__)
from {name}.inner import twice
"""

INNER = """
import builder as xb
def twice(x):
    return x + x
"""


def test_all_modules_of_a_package_are_internal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "declared_package"
    folder.mkdir()
    (folder / "__init__.py").write_text(PACKAGE.format(name=folder.name))
    (folder / "inner.py").write_text(INNER)
    (tmp_path / "declared_package_like.py").write_text(INNER)
    monkeypatch.syspath_prepend(tmp_path)
    package = __import__(folder.name)
    other = __import__("declared_package_like")
    x = xb.XlaBuilder().parameter(xb.f32[2])
    op, here = package.twice(x), sys._getframe().f_lineno
    assert str(op.source) == f"{__file__}:{here}"
    assert other.twice(x).source.file == str(tmp_path / "declared_package_like.py")
