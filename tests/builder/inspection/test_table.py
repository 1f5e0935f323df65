"""The table of ops: rows, printing, and lazy evaluation."""

from __future__ import annotations

import builtins
import io
import json
from typing import Any

import numpy as np
import pytest
from html_pages import page_of
from rich.console import Console
from tables import each_row

import builder as xb
from builder.inspection.table import OpRow


@pytest.fixture
def summed() -> xb.XlaComputation:
    b = xb.XlaBuilder("total")
    x = b.parameter(xb.f32[2, 3], "x")
    return b.build(xb.reduce(xb.transpose(x, [1, 0]), 0.0, xb.add, dimensions=[0]))


def chain(length: int) -> xb.XlaComputation:
    b = xb.XlaBuilder("chain")
    y = b.parameter(xb.f32[2], "x")
    for _ in range(length - 1):
        y = xb.neg(y)
    return b.build(y)


def test_rows(summed: xb.XlaComputation) -> None:
    rows = list(summed.table())
    assert [row.number for row in rows] == [0, 1, 2, 3]
    assert rows[0][:6] == (0, "parameter", xb.f32[2, 3], (), "x", rows[0].source)
    assert rows[1].attributes == "dimensions={1,0}"
    assert rows[3].operands == (1, 2)
    assert rows[3].attributes == "dimensions={0}, to_apply=%add"
    assert {row.computation for row in rows} == {"total"}
    assert rows[3].source is not None
    file, _, line = rows[3].source.rpartition(":")
    assert file == __file__
    assert int(line) == summed.ops[3].source.line  # type: ignore[union-attr]


def test_rows_of_applied_computations_follow(summed: xb.XlaComputation) -> None:
    table = summed.table(nested=True)
    assert [row.computation for row in table] == ["total"] * 4 + ["add"] * 3
    assert table[4].number == 0
    assert table[-1].opcode == "add"
    assert "%total: 4 ops" in str(table)
    assert "%add: 3 ops" in str(table)


def test_computations_with_equal_names_are_distinguished() -> None:
    """They have their names in the HLO text, to which attributes refer."""
    b = xb.XlaBuilder("f")
    x = b.parameter(xb.f32[2])
    y = xb.call(lambda v: xb.neg(v), xb.call(lambda v: xb.exp(v), x))
    computation = b.build(y)
    table = computation.table(nested=True)
    names = [row.computation for row in table if row.opcode in ("negate", "exponential")]
    assert len(set(names)) == 2
    for row in table:
        if row.opcode == "call":
            assert row.attributes.removeprefix("to_apply=%") in names
            assert f"{row.attributes}" in str(computation)


def test_attributes_are_those_of_the_hlo_text() -> None:
    b = xb.XlaBuilder()
    x = b.parameter(xb.f32[2, 8, 9, 3])
    with b.sharding("{devices=[2,1,1,1]0,1}"):
        xb.conv_general_dilated(
            x, b.parameter(xb.f32[3, 3, 3, 4]), [1, 2], [(1, 1), (0, 0)], None, [2, 1],
            "b01f_01io->b01f",
        )  # fmt: skip
    xb.slice(x, [0, 0, 0, 0], [2, 8, 9, 1], [1, 2, 1, 1])
    xb.compare(x, x, "LT")
    computation = b.build()
    text = str(computation).splitlines()
    for row in computation.table():
        if row.opcode != "parameter":
            (line,) = [text_line for text_line in text if f".{row.number} = " in text_line]
            assert line.endswith(f", {row.attributes}"), line


def test_ops_without_one_hlo_instruction_show_recorded_attributes() -> None:
    b = xb.XlaBuilder()
    xb.broadcast_in_dim(b.parameter(xb.f32[1, 3], "x"), [2, 3], [0, 1])
    xb.custom_call("f", b.ops[0], xb.f32[2], attributes={"factor": 2.0})
    row, call = list(b.build().table())[1:]
    assert row.attributes == "broadcast_dimensions={0,1}"
    assert 'custom_call_target="f"' in call.attributes


@each_row(
    "value, text",
    [
        (np.float32(1.5), "1.5"),
        (np.float32([1, 2]), "{1, 2}"),
        (np.zeros((100, 100), np.float32), "{0, "),
        (np.arange(10**6, dtype=np.int32), "{0, 1, 2, 3, 4, 5, 6, 7, ...}"),
        (np.array([True, False]), "{true, false}"),
    ],
)
def test_constants_are_short(value: Any, text: str) -> None:
    b = xb.XlaBuilder()
    b.constant(value)
    attributes = b.build().table()[0].attributes
    assert attributes.startswith(text)
    assert len(attributes) < 60


def test_long_attributes_end_in_dots() -> None:
    b = xb.XlaBuilder()
    xb.custom_call("f", b.parameter(xb.f32[2]), xb.f32[2], opaque="x" * 10_000)
    attributes = b.build().table()[1].attributes
    assert attributes.endswith("...")
    assert len(attributes) == 240


def test_it_is_a_sequence(summed: xb.XlaComputation) -> None:
    table = summed.table(nested=True)
    rows = list(table)
    assert len(table) == 7
    assert [table[i] for i in range(-7, 7)] == rows + rows
    for part in (slice(2, 6), slice(None, None, 2), slice(1, None, 3), slice(5, 3), slice(-3, -1)):
        selected = table[part]
        assert type(selected) is xb.OpTable
        assert list(selected) == rows[part]
    assert rows[2] in table
    assert list(reversed(table)) == rows[::-1]
    with pytest.raises(IndexError):
        table[7]
    with pytest.raises(xb.ShapeInferenceError, match="step of a slice of a table must be positive"):
        table[::-1]


def test_rows_are_created_on_access(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def counting(*fields: Any) -> OpRow:
        made.append(fields[0])
        return OpRow(*fields)

    monkeypatch.setattr("builder.inspection.table.OpRow", counting)
    table = chain(50_000).table(limit=3)
    assert made == []
    assert table[40_000].number == 40_000
    text = str(table)
    assert made == [40_000, 0, 1, 2, 49_997, 49_998, 49_999]
    assert "49,994 more" in text
    assert "49,994 ops are omitted; limit=None prints all" in text


@each_row("limit, lines", [(None, 90), (45, 90), (44, 89), (0, 1)])
def test_limit(limit: int | None, lines: int) -> None:
    text = str(chain(90).table(limit=limit)).splitlines()
    rows = [line for line in text[3:] if line.strip() and "ops are omitted" not in line]
    assert len(rows) == lines


def test_limit_is_a_number() -> None:
    with pytest.raises(xb.ShapeInferenceError, match="limit must not be negative, got -1"):
        chain(2).table(limit=-1)
    with pytest.raises(xb.ShapeInferenceError, match="limit"):
        chain(2).table(limit="all")  # type: ignore[arg-type]


def test_nested_is_a_flag() -> None:
    with pytest.raises(xb.ShapeInferenceError, match="table: nested must be True or False, got 1"):
        chain(2).table(nested=1)  # type: ignore[arg-type]  # the wrong type is the test


def test_text_has_the_requested_width_and_no_colours(
    monkeypatch: pytest.MonkeyPatch, summed: xb.XlaComputation
) -> None:
    for width in (60, 90):
        monkeypatch.setenv("COLUMNS", str(width))
        text = str(summed.table())
        assert "\x1b" not in text
        assert max(map(len, text.splitlines())) <= width
    assert "to_apply=%add" in text


def test_rich_draws_it_in_colours(summed: xb.XlaComputation) -> None:
    file = io.StringIO()
    Console(file=file, force_terminal=True, width=100, color_system="standard").print(
        summed.table()
    )
    assert "\x1b[" in file.getvalue()
    assert "f32[2,3]" in file.getvalue()  # which rich would read as a style


def test_names_cannot_write_to_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")  # no wrapped cells
    b = xb.XlaBuilder()
    b.parameter(xb.f32[2]).name = "\x1b[31mred\n[bold]x"
    text = str(b.build().table())
    assert "\x1b" not in text
    assert r"\x1b[31mred\n[bold]x" in text


def test_html_is_escaped() -> None:
    b = xb.XlaBuilder("<model>")
    b.parameter(xb.f32[2]).name = "<script>alert(1)</script>"
    page = page_of(b.build().table())
    assert "<script>alert(1)</script>" in page.texts


def test_json(summed: xb.XlaComputation) -> None:
    ops = json.loads(json.dumps(summed.table(nested=True).as_dict()))["ops"]
    assert len(ops) == 7
    assert ops[3] == {
        "number": 3,
        "opcode": "reduce",
        "shape": "f32[2]",
        "operands": [1, 2],
        "name": None,
        "source": str(summed.ops[3].source),
        "attributes": "dimensions={0}, to_apply=%add",
        "computation": "total",
    }


def test_without_rich(monkeypatch: pytest.MonkeyPatch, summed: xb.XlaComputation) -> None:
    real = builtins.__import__

    def importing(name: str, *more: Any, **named: Any) -> Any:
        if name.partition(".")[0] == "rich":
            raise ModuleNotFoundError("No module named 'rich'", name="rich")
        return real(name, *more, **named)

    monkeypatch.setattr(builtins, "__import__", importing)
    table = summed.table()
    assert len(table.as_dict()["ops"]) == 4
    assert "4 ops" in repr(table)
    assert '<table class="xb-table">' in table._repr_html_()
    assert str(table).startswith("%total: 4 ops\nnumber   opcode")
    for drawn in (table, summed.stats()):
        with pytest.raises(ImportError, match="fix: run `pip install rich`"):
            drawn.__rich__()
    assert str(summed.diff(summed)) == "total: equal"
