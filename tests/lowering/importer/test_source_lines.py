"""Code objects with the source lines of other programs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from tables import each_row

import builder as xb
import lowering
from builder.graph.xla_op import resolve_position
from lowering.cli.checking import functions_inlined
from lowering.importer.tables import MOST_PLACES, WIDTH, code_of_places

LAST_LINE = 2**31 - 2

PLACES = [(1, 1), (1, 62), (1, 63), (40, 64), (39, 65), (LAST_LINE, 5000), (1, 2**31), (2, 1)]


@each_row("count", [1, 2, len(PLACES)])
def test_each_instruction_has_its_line(count: int) -> None:
    places = PLACES[-count:]
    lines, columns = zip(*places, strict=True)
    code = code_of_places("f.mlir", lines, columns, "main")
    positions = list(code.co_positions())
    assert [(line, column) for line, _, column, _ in positions] == [(n, c - 1) for n, c in places]
    assert [resolve_position(code, number * WIDTH) for number in range(count)] == places
    assert (code.co_filename, code.co_name) == ("f.mlir", "main")


def test_consecutive_lines() -> None:
    code = code_of_places("f.mlir", range(1000, 1000 + MOST_PLACES), [4] * MOST_PLACES, "main")
    lines = [line for line, *_ in code.co_positions()]
    assert all(line is not None and after == line + 1 for line, after in pairwise(lines))
    assert len(lines) == MOST_PLACES


def all_ops(computation: xb.XlaComputation) -> Iterator[xb.XlaOp]:
    yield from computation.ops
    for called in computation.called_computations():
        yield from all_ops(called)


def program() -> xb.XlaComputation:
    """A computation whose import records more ops than the module has operations."""
    b = xb.XlaBuilder()
    pair, _, x = b.parameter("(f32[2], (), (s32[]))"), b.parameter("()"), b.parameter("f32[2]")
    double = xb.computation(lambda v: xb.tuple(v, v + v))
    loop = xb.while_(
        lambda s: s[0] < 3,
        lambda s: xb.tuple(s[0] + 1, s[1] * x),
        xb.tuple(b.constant(0, xb.s32), x),
    )
    branch = xb.conditional(loop[0] < 2, x, lambda v: v, pair[0], lambda v: v * x)
    sums = xb.reduce(branch, 0.0, xb.add, [0])
    return b.build(xb.tuple(loop, double(x), sums, pair, b.empty_tuple(), xb.top_k(x, 1)))


NAMES = ["model.mlir", 'a "name".mlir', "modèle.txt"]


@each_row("name", NAMES)
def test_ops_have_the_lines_of_the_file(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text(lowering.lower(program()).text)
    lines = file.read_text().splitlines()
    for source in (file, lowering.load(file)):
        computation = lowering.to_computation(source)
        for op in (*all_ops(computation), *all_ops(functions_inlined(computation))):
            assert op.source is not None
            assert op.source.file == str(file)
        for op in computation.ops:
            if op.opcode == "call":
                assert op.source is not None
                assert "call @" in lines[op.source.line - 1]


def test_ops_of_a_file_without_lines_have_none(tmp_path: Path) -> None:
    file = tmp_path / "model.hlo"
    file.write_text(program().to_hlo_text())
    computation = lowering.from_hlo(file)
    ops = [*all_ops(computation), *all_ops(functions_inlined(computation))]
    assert {op.source for op in ops} == {None}


def test_locations_in_the_text_are_kept(tmp_path: Path) -> None:
    module = lowering.lower(program())
    file = tmp_path / "model.mlir"
    file.write_text(module.to_text(locations=True))
    locations = {op.source for op in all_ops(lowering.to_computation(file))}
    assert {source.file for source in locations if source is not None} == {__file__}


@each_row("name", NAMES)
def test_an_error_of_xla_names_the_line_of_the_file(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text("""
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @Nowhere(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}""")
    with pytest.raises(lowering.CompileError) as caught:
        lowering.compile(lowering.load(file))
    assert f"recorded at {file}:3" in str(caught.value)
