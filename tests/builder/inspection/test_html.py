"""HTML of the parts that objects show."""

from __future__ import annotations

from html_pages import page_of
from tables import each_row

from builder.inspection.html import html_of, tokens
from builder.inspection.parts import (
    Bar,
    Cell,
    CellGrid,
    Column,
    Fold,
    Heading,
    Part,
    ProgramText,
    Segment,
    SideBySide,
    SideBySideRow,
    TextTable,
)
from builder.inspection.rendering import TRUNCATED

HOSTILE = "<script>alert(1)</script>\" onload='x' &amp; \x1b[31m"

TABLE = TextTable(HOSTILE, (Column(HOSTILE),), [[HOSTILE]], HOSTILE, [f"{HOSTILE}\n{HOSTILE}"])

PARTS: list[Part] = [
    HOSTILE,
    Heading(HOSTILE, HOSTILE, HOSTILE),
    TABLE,
    ProgramText(f'"{HOSTILE}"\n{HOSTILE}', HOSTILE),
    Bar(HOSTILE, [Segment(HOSTILE, 1, HOSTILE)]),
    CellGrid(HOSTILE, [HOSTILE], [(HOSTILE, [Cell(HOSTILE, 3)])]),
    SideBySide(HOSTILE, HOSTILE, [SideBySideRow("~", HOSTILE, HOSTILE)], []),
    Fold(HOSTILE, [TABLE]),
]


@each_row("part", PARTS)
def test_texts_are_escaped(part: Part) -> None:
    page = page_of(html_of([part]))
    assert "<script>alert(1)</script>" in page.text.replace("\n", "")
    assert "\x1b" not in page.text + "".join(page.titles)


def test_headings_are_aligned_as_their_columns() -> None:
    columns = (Column("name"), Column("size", is_number=True))
    html = html_of([TextTable("", columns, [["x", "1"]])])
    assert "<th>name</th>" in html
    assert "<td>x</td>" in html
    assert '<th class="xb-number xb-line">size</th><' in html
    assert '<td class="xb-number xb-line">1</td>' in html


def test_rows_have_hovers() -> None:
    page = page_of(html_of([TextTable("", (Column(""),), [["x"], ["y"]], "", ["a\nb", ""])]))
    assert page.titles == ["a\nb"]
    assert "th" not in page.tags


@each_row(
    "text, words",
    [
        ("f32[2] add(%1)", []),
        ("(x: f32[2]) -> f32[3]", ["->"]),
        ("f32[4,8]{1,0:T(2,4)(2,1)} x", ["f32[4,8]{1,0:T(2,4)(2,1)}"]),
        ("-" * 1000, []),
    ],
)
def test_lines_of_cells_end_between_words(text: str, words: list[str]) -> None:
    page = page_of(html_of([TextTable("", (Column(""),), [[text]])]))
    assert "".join(page.texts).strip() == text
    assert page.classes.count("xb-line") == len(words)
    assert {*words} <= {*page.texts}


def test_bars_fill_their_width() -> None:
    segments = [Segment("a", 3, "3 B"), Segment("none", 0, "0"), Segment("b", 1, "1 B")]
    page = page_of(html_of([Bar("memory", segments)]))
    assert page.styles == ["width:75%", "width:25%"]
    assert page.titles == ["a: 3 B", "b: 1 B"]
    page_of(html_of([Bar("nothing", [Segment("a", 0, "0")])]))


def test_long_programs_are_truncated() -> None:
    text = "\n".join(f"%{i} = f32[] add()" for i in range(TRUNCATED + 5)) + "\n"
    page = page_of(html_of([ProgramText(text, "print(x)")]))
    assert "5 more lines; print(x) prints all" in page.texts
    assert f"%{TRUNCATED - 1} " in page.text
    assert f"%{TRUNCATED} " not in page.text
    page = page_of(html_of([ProgramText("x" * 10**6, "print(x)")]))
    assert 1000 < len(page.text) < 5000


def test_long_comparisons_are_truncated() -> None:
    rows = [SideBySideRow("+", "", str(i)) for i in range(TRUNCATED + 7)]
    page = page_of(html_of([SideBySide("a", "b", rows, [])]))
    assert page.classes.count("xb-added") == TRUNCATED
    assert "7 more lines; print(diff) prints all" in page.texts


HLO = """\
HloModule m, entry_computation_layout={(f32[2]{0})->f32[2]{0}}

ENTRY %m (x: f32[2]) -> f32[2] {
  %x = f32[2]{0} parameter(0) /* first */
  ROOT %add.1 = f32[2]{0} add(%x, %x), metadata={op_name="a \\"b\\" %c"}
}
"""

MLIR = """\
module @double {
  // a comment
  func.func public @main(%arg0: tensor<2x!quant<f32, 1>>) -> tensor<2xf32> {
    %0:2 = stablehlo.add %arg0, %arg0 : tensor<2xf32> loc("x")
    return %0#1 : tensor<1.5e+00>
  }
}
"""


@each_row("text", [HLO, MLIR, "", "\n", '"unfinished', "tensor<" * 2000, "/*" * 3000])
def test_tokens_are_the_text(text: str) -> None:
    assert "".join(token for _, token in tokens(text)) == text


@each_row(
    "text, kind, expected",
    [
        (HLO, "op", {"parameter", "add"}),
        (HLO, "value", {"%m", "%x", "%add.1"}),
        (HLO, "shape", {"f32[2]{0}", "f32[2]"}),
        (HLO, "keyword", {"HloModule", "ENTRY", "ROOT"}),
        (HLO, "string", {'"a \\"b\\" %c"'}),
        (HLO, "comment", {"/* first */"}),
        (MLIR, "op", {"func.func", "stablehlo.add"}),
        (MLIR, "value", {"%arg0", "%0:2", "%0#1"}),
        (MLIR, "symbol", {"@double", "@main"}),
        (MLIR, "shape", {"tensor<2x!quant<f32, 1>>", "tensor<2xf32>", "tensor<1.5e+00>"}),
        (MLIR, "keyword", {"module", "public", "return"}),
        (MLIR, "comment", {"// a comment"}),
    ],
)
def test_kinds_of_tokens(text: str, kind: str, expected: set[str]) -> None:
    assert {token for found, token in tokens(text) if found == kind} == expected


def test_classes_of_tokens_are_not_those_of_cells() -> None:
    columns = (Column("size", is_number=True),)
    cells = page_of(html_of([TextTable("", columns, [["1"]])])).classes
    program = page_of(html_of([ProgramText("f32[2] 1 %x @y", "")])).classes
    assert "xb-token-number" in program
    assert {*cells} & {*program} <= {"xb", "xb-scroll"}
