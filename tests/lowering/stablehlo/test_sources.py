"""The sources of modules: every function accepts the same ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jaxlib.mlir import ir
from tables import each_row

import builder as xb
import lowering

pytestmark = pytest.mark.usefixtures("read_here")

X = np.array([[1, 2, 3], [4, 5, 6]], np.float32)


def centered(x: Any) -> Any:
    return x - jnp.mean(x, axis=1, keepdims=True)


EXPECTED = np.array([[-1, 0, 1], [-1, 0, 1]], np.float32)

TRACED = jax.jit(centered).trace(X)
TEXT: str = TRACED.lower().as_text()

SOURCES: dict[str, Callable[[Path], Any]] = {
    "lowered": lambda _: TRACED.lower(),
    "traced": lambda _: TRACED,
    "exported": lambda _: export.export(jax.jit(centered))(X),
    "module of jaxlib": lambda _: TRACED.lower().compiler_ir("stablehlo"),
    "text": lambda _: TEXT,
    "text on one line": lambda _: " ".join(TEXT.split("\n")),
    "bytes of text": lambda _: TEXT.encode(),
    "bytearray": lambda _: bytearray(TEXT.encode()),
    "bytecode": lambda _: lowering.load(TEXT).bytecode,
    "artifact": lambda _: lowering.load(TEXT).artifact(),
    "path": lambda folder: folder / "m.mlir",
    "name": lambda folder: str(folder / "m.mlir"),
    "module": lambda _: lowering.load(TEXT),
}

USES: dict[str, Callable[[Any], Any]] = {
    "load": lambda source: lowering.compile(lowering.load(source), "cpu")(X),
    "compile": lambda source: lowering.compile(source, "cpu")(X),
    "to_computation": lambda source: lowering.compile(lowering.to_computation(source), "cpu")(X),
    "interpret": lambda source: lowering.interpret(source, X),
}


@each_row("use", USES)
@each_row("source", SOURCES)
def test_sources(source: str, use: str, tmp_path: Path) -> None:
    (tmp_path / "m.mlir").write_text(TEXT)
    np.testing.assert_allclose(USES[use](SOURCES[source](tmp_path)), EXPECTED, atol=1e-6)


def test_compare(tmp_path: Path) -> None:
    (tmp_path / "m.mlir").write_text(TEXT)
    for source in SOURCES.values():
        comparison = lowering.compare(source(tmp_path), X, device="cpu")
        assert comparison.agrees
        assert len(comparison.ops) > 3


HLO: dict[str, Callable[[Path], Any]] = {
    "lowered": lambda _: TRACED.lower(),
    "traced": lambda _: TRACED,
    "compiled": lambda _: TRACED.lower().compile(),
    "text": lambda _: TRACED.lower().as_text("hlo"),
    "bytes": lambda _: TRACED.lower().as_text("hlo").encode(),
    "path": lambda folder: folder / "m.hlo",
    "name": lambda folder: str(folder / "m.hlo"),
}


@pytest.mark.parametrize("source", HLO)
def test_sources_of_hlo(source: str, tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(TRACED.lower().as_text("hlo"))
    computation = lowering.from_hlo(HLO[source](tmp_path))
    np.testing.assert_allclose(lowering.compile(computation, "cpu")(X), EXPECTED, atol=1e-6)


@each_row("function", ["load", "to_computation", "compile"])
def test_other_sources(function: str) -> None:
    b = xb.XlaBuilder("b")
    x = b.parameter(xb.f32[2])
    for source, fix in (
        (3, "got 3"),
        (None, "got None"),
        (jax.jit(centered), r"fix: pass function.lower\(...\)"),
        (TRACED.lower().compile(), "fix: pass the jax.stages.Lowered instead of"),
        (x, r"fix: build the computation first: op.builder.build\(op\)"),
    ):
        with pytest.raises(xb.OperandError, match=f"(?s){function}: expected .*{fix}"):
            getattr(lowering, function)(source)
    if function != "compile":
        with pytest.raises(xb.OperandError, match=r"fix: lower it: lowering.lower"):
            getattr(lowering, function)(b.build(x))


def test_a_module_without_an_entry() -> None:
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.create()
    with pytest.raises(lowering.ModuleFileError, match="has no function @main"):
        lowering.load(module)
