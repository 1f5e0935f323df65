"""Pictures of arrays in memory: the contents of cells, in SVG and in text."""

from __future__ import annotations

import itertools
import pickle
import random
import re
from math import prod
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np
import pytest
from IPython.core.formatters import DisplayFormatter
from layouts import in_memory
from processes import run_python
from tables import each_row

import builder as xb
from builder import layout
from builder.errors import OperandError, ShapeInferenceError, ShapeTextError

FIGURE_1 = "f32[3,5]{1,0:T(2,2)}"
FIGURE_2 = "f32[4,8]{1,0:T(2,4)(2,1)}"

SVG = "{http://www.w3.org/2000/svg}"


class Cell(NamedTuple):
    x: int
    y: int
    fill: str
    label: str | None


class Drawn(NamedTuple):
    """The contents of an SVG: cells by position, and the linear indices of elements."""

    elements: dict[tuple[int, ...], int]
    padding: set[int]
    cells: dict[int, Cell]
    memory: dict[int, str]
    words: list[str]
    root: ElementTree.Element


def read(svg: str) -> Drawn:
    root = ElementTree.fromstring(svg)
    drawn = Drawn({}, set(), {}, {}, [text.text or "" for text in root.iter(f"{SVG}text")], root)
    for group in root.iter(f"{SVG}g"):
        title = group.findtext(f"{SVG}title")
        if title is None:
            continue
        of_memory = re.fullmatch(r"(\d+): (.*)", title)
        if of_memory:
            drawn.memory[int(of_memory[1])] = of_memory[2]
            continue
        match = re.fullmatch(r"(padding|\((?P<index>[\d,]*)\)) at (?P<place>\d+)", title)
        assert match, title
        place = int(match["place"])
        rectangle = group.find(f"{SVG}rect")
        assert rectangle is not None
        x, y = int(rectangle.attrib["x"]), int(rectangle.attrib["y"])
        label = group.findtext(f"{SVG}text")
        assert place not in drawn.cells, f"{place} is drawn twice"
        drawn.cells[place] = Cell(x, y, rectangle.attrib["fill"], label)
        if match["index"] is None:
            drawn.padding.add(place)
        else:
            index = tuple(map(int, filter(None, match["index"].split(","))))
            drawn.elements[index] = place
    return drawn


def linear(e: tuple[int, ...], d: tuple[int, ...]) -> int:
    """The document's linear_index."""
    return sum(i * prod(d[k + 1 :]) for k, i in enumerate(e))


def with_tiles(e: tuple[int, ...], d: tuple[int, ...], *tiles: tuple[int, ...]) -> int:
    """The document's linear_index_with_tile, repeated, also for tiles of lower rank."""
    for t in tiles:
        left = len(d) - len(t)
        which = tuple(i // n for i, n in zip(e[left:], t, strict=True))
        within = tuple(i % n for i, n in zip(e[left:], t, strict=True))
        counts = tuple(-(-n // m) for n, m in zip(d[left:], t, strict=True))
        e, d = (*e[:left], *which, *within), (*d[:left], *counts, *t)
    return linear(e, d)


def test_the_formula_is_the_documents() -> None:
    assert with_tiles((2, 3), (3, 5), (2, 2)) == 17
    assert with_tiles((1, 0), (4, 8), (2, 4), (2, 1)) == 1
    assert with_tiles((0, 1), (4, 8), (2, 4), (2, 1)) == 2
    assert with_tiles((2, 0), (4, 8), (2, 4), (2, 1)) == 16


def test_figure_1_as_svg() -> None:
    drawn = read(layout.draw(FIGURE_1).svg())
    indices = list(itertools.product(range(3), range(5)))
    assert drawn.elements == {e: with_tiles(e, (3, 5), (2, 2)) for e in indices}
    assert drawn.elements[2, 3] == 17
    # The fourth row and the sixth column are padding, and white.
    around = [e for e in itertools.product(range(4), range(6)) if e not in indices]
    assert drawn.padding == {with_tiles(e, (4, 6), (2, 2)) for e in around}
    assert drawn.padding == {9, 11, 14, 15, 18, 19, 21, 22, 23}
    assert {drawn.cells[place].fill for place in drawn.padding} == {"#fff"}
    assert all(cell.label == str(place) for place, cell in drawn.cells.items())
    # The position of a cell follows from its index.
    xs = sorted({cell.x for cell in drawn.cells.values()})
    ys = sorted({cell.y for cell in drawn.cells.values()})
    assert (len(xs), len(ys)) == (6, 4)
    for (row, column), place in drawn.elements.items():
        assert drawn.cells[place][:2] == (xs[column], ys[row])
    # Six tiles of 2x2 in six colours.
    tiles: dict[tuple[int, int], set[str]] = {}
    for (row, column), place in drawn.elements.items():
        tiles.setdefault((row // 2, column // 2), set()).add(drawn.cells[place].fill)
    assert all(len(fills) == 1 for fills in tiles.values())
    assert len(set.union(*tiles.values()) | {"#fff"}) == 7


def test_figure_1_in_memory_order() -> None:
    memory = read(layout.draw(FIGURE_1).svg()).memory
    assert list(memory) == list(range(24))
    assert memory[17] == "(2,3)"
    assert [memory[place] for place in range(4)] == ["(0,0)", "(0,1)", "(1,0)", "(1,1)"]
    assert [p for p, what in memory.items() if what == "padding"] == [
        9, 11, 14, 15, 18, 19, 21, 22, 23,
    ]  # fmt: skip


def test_figure_1_as_text() -> None:
    assert str(layout.draw(FIGURE_1)) == (
        "f32[3,5]{1,0:T(2,2)}: dimension 0 down, 1 across\n"
        "\n"
        "      0    1    2    3    4\n"
        "  0   0    1 |  4    5 |  8    .\n"
        "  1   2    3 |  6    7 | 10    .\n"
        "     --------+---------+--------\n"
        "  2  12   13 | 16   17 | 20    .\n"
        "      .    . |  .    . |  .    .\n"
        "\n"
        "15 elements in a buffer of 24 (96 bytes): 9 of padding, 37.5%"
    )


def rows_of(text: str) -> list[list[str]]:
    """Return the cells of the lines that start with a row index."""
    lines = text.split("\n\n")[1].splitlines()[1:]
    matches = [re.match(r"  +(\d+)  (.*)", line) for line in lines]
    return [match[2].replace("|", " ").split() for match in matches if match]


def test_figure_2() -> None:
    picture = layout.draw(FIGURE_2)
    drawn = read(picture.svg())
    expected = {
        e: with_tiles(e, (4, 8), (2, 4), (2, 1)) for e in itertools.product(range(4), range(8))
    }
    assert (expected[1, 0], expected[0, 1], expected[2, 0]) == (1, 2, 16)
    assert drawn.elements == expected
    assert drawn.padding == set()
    assert rows_of(str(picture)) == [[str(expected[r, c]) for c in range(8)] for r in range(4)]
    # A colour for each tile of 2x4.
    fills = {e: drawn.cells[place].fill for e, place in expected.items()}
    by_tile = [{fills[r, c] for r in rs for c in cs} for rs, cs in itertools.product(
        (range(2), range(2, 4)), (range(4), range(4, 8))
    )]  # fmt: skip
    assert all(len(colours) == 1 for colours in by_tile)
    assert len(set.union(*by_tile)) == 4


def edges(drawn: Drawn, stroke: str) -> set[tuple[int, int, int, int]]:
    """Return the lines of a colour, split into sides of cells: (x, y, x end, y end)."""
    corner = min(drawn.cells.values())
    next_x = min((c.x for c in drawn.cells.values() if c.x > corner.x), default=corner.x + 32)
    next_y = min((c.y for c in drawn.cells.values() if c.y > corner.y), default=corner.y + 28)
    wide, high = next_x - corner.x, next_y - corner.y
    sides = set()
    for path in drawn.root.iter(f"{SVG}path"):
        if path.attrib["stroke"] != stroke:
            continue
        for x, y, way, length in re.findall(r"M(\d+) (\d+)([hv])(\d+)", path.attrib["d"]):
            column, row = (int(x) - corner.x) // wide, (int(y) - corner.y) // high
            if way == "h":
                sides |= {(c, row, c + 1, row) for c in range(column, column + int(length) // wide)}
            else:
                sides |= {(column, r, column, r + 1) for r in range(row, row + int(length) // high)}
    return sides


def test_red_borders_of_figure_2_are_tiles_of_2x1() -> None:
    flat = {(c, row, c + 1, row) for c in range(8) for row in (0, 2, 4)}
    upright = {(column, r, column, r + 1) for column in range(9) for r in range(4)}
    assert edges(read(layout.draw(FIGURE_2).svg()), "#c00") == flat | upright


def test_borders_of_tiles_of_tiles() -> None:
    # The second tile consists of two tiles of 2 side by side.
    drawn = read(layout.draw("f32[1,8]{1,0:T(1,2)(2,1,2)}").svg())
    assert edges(drawn, "#c00") == {
        *((c, row, c + 1, row) for c in range(8) for row in (0, 1)),
        *((column, 0, column, 1) for column in (0, 4, 8)),
    }
    # A third level is dashed; the first has no borders but colours.
    drawn = read(layout.draw("f32[8]{0:T(4)(2)(1)}").svg())
    assert len(edges(drawn, "#222")) == 16 + 9
    assert not edges(read(layout.draw(FIGURE_1).svg()), "#c00")


PADDED = "f32[2,3]{0,1:pad(3,5)=zero}"


def test_the_documents_padded_example() -> None:
    # a d 0 b e 0 c f 0 0 0 0 0 0 0
    memory = read(layout.draw(PADDED).svg()).memory
    letters = dict(zip(itertools.product(range(2), range(3)), "abcdef", strict=True))
    names = {f"({r},{c})": letter for (r, c), letter in letters.items()}
    shown = " ".join(names.get(memory[place], "0") for place in range(15))
    assert shown == "a d 0 b e 0 c f 0 0 0 0 0 0 0"
    assert "6 elements in a buffer of 15 (60 bytes): 9 of padding, 60%" in str(layout.draw(PADDED))


def brute_force(shape: xb.ArrayShape) -> np.ndarray:
    """Return the element number at each place of NumPy's buffer, and -1 for padding."""
    shape_layout = layout.layout_of(shape)
    elements = np.arange(shape.element_count).reshape(shape.dimensions)
    flat = in_memory(elements, shape_layout).reshape(-1)
    tail = -len(flat) % shape_layout.tail_padding_alignment_in_elements
    return np.pad(flat, (0, tail), constant_values=-1)


def random_shape(chance: random.Random) -> xb.ArrayShape:
    rank = chance.randrange(5)
    sizes = [chance.randint(1, 3 if d < rank - 2 else 6) for d in range(rank)]
    order = chance.sample(range(rank), rank)
    tiles, dimensions = [], max(rank, 1)
    for _ in range(chance.randrange(4)):
        length = chance.randint(1, min(dimensions, 3))
        tile: list[int | str] = [chance.choice([1, 2, 3, "*"]) for _ in range(length - 1)]
        tile.append(chance.randint(1, 4))
        dimensions += length - 2 * tile.count("*")
        tiles.append(tile)
    return xb.array_shape(
        "f32",
        sizes,
        layout=xb.Layout(
            order,
            tiles=tiles,
            padded_dimensions=chance.choice([None, [s + chance.randrange(3) for s in sizes]]),
            tail_padding_alignment_in_elements=chance.choice([1, 1, 8]),
        ),
    )


@each_row("seed", range(60))
def test_every_cell_is_where_numpy_puts_it(seed: int) -> None:
    shape = random_shape(random.Random(seed))
    drawn = read(layout.draw(shape, max_cells=10**6).svg())
    assert not any("left out" in line for line in drawn.words)
    buffer = brute_force(shape)
    assert drawn.elements == {
        tuple(map(int, np.unravel_index(number, shape.dimensions) if shape.rank else ())): place
        for place, number in enumerate(buffer.tolist())
        if number >= 0
    }
    assert drawn.padding <= set(np.flatnonzero(buffer < 0).tolist())
    # The caption reports exactly the padding without a cell.
    without = len(buffer) - len(drawn.cells)
    counts = re.findall(r"([\d,]+) (?:added by|at the end)", " ".join(drawn.words))
    assert sum(int(number.replace(",", "")) for number in counts) == without
    drawn_layout = layout.layout_of(shape)
    if len(drawn_layout.tiles) <= 1 and drawn_layout.tail_padding_alignment_in_elements == 1:
        assert without == 0


@each_row("seed", range(30))
def test_neighbouring_tiles_have_different_colours(seed: int) -> None:
    chance = random.Random(seed)
    sizes = (chance.randint(2, 12), chance.randint(2, 12))
    tile = (chance.randint(1, 4), chance.randint(1, 4))
    order = chance.choice([(1, 0), (0, 1)])
    shape = xb.array_shape("f32", sizes, layout=xb.Layout(order, tiles=[tile]))
    drawn = read(layout.draw(shape).svg())
    along = {order[1]: tile[0], order[0]: tile[1]}
    for (row, column), place in drawn.elements.items():
        for other in ((row + 1, column), (row, column + 1)):
            if other in drawn.elements:
                same = (row // along[0], column // along[1]) == (
                    other[0] // along[0],
                    other[1] // along[1],
                )
                neighbour = drawn.cells[drawn.elements[other]]
                assert (drawn.cells[place].fill == neighbour.fill) == same


def test_colours_without_tiles_are_runs_of_the_most_minor_dimension() -> None:
    drawn = read(layout.draw("f32[4,5]{0,1}").svg())
    by_column = [
        {drawn.cells[drawn.elements[row, column]].fill for row in range(4)} for column in range(5)
    ]
    assert all(len(fills) == 1 for fills in by_column)
    assert all(a != b for a, b in itertools.pairwise(by_column))
    assert "colours: runs of dimension 0, the most minor" in drawn.words


def test_dimensions_and_indices_label_rows_and_columns() -> None:
    words = read(layout.draw("f32[2,3,4]{1,2,0:T(2,2)}").svg()).words
    assert words[0] == "f32[2,3,4]{1,2,0:T(2,2)}"
    assert words.count("dimension 1") == words.count("dimension 2") == 2
    assert {"[0,:,:]", "[1,:,:]"} <= set(words)


def test_ranks_below_two() -> None:
    assert str(layout.draw("f32[]")) == (
        "f32[]: a scalar\n\n     0\n\n1 element in a buffer of 1 (4 bytes): no padding"
    )
    drawn = read(layout.draw("s32[]{:T(128)}").svg())
    assert drawn.elements == {(): 0}
    assert drawn.padding == set(range(1, 128))
    assert str(layout.draw("f32[5]{0:T(4)}")).splitlines()[2:4] == [
        "     0   1   2   3   4",
        "     0   1   2   3 | 4   .   .   .",
    ]
    assert "0 elements in a buffer of 0 (0 bytes): no padding" in str(layout.draw("f32[0,3]"))
    assert read(layout.draw("f32[0,3,2]{2,1,0:T(2,2)}").svg()).cells == {}
    assert read(layout.draw("f32[0,3]{1,0:pad(2,3)}").svg()).padding == set(range(6))


def test_captions_report_padding_without_a_cell() -> None:
    text = str(layout.draw("f32[3,5]{1,0:T(2,2)(3)L(40)}"))
    # Tiles of 2x2 as two rows of 3: 6 instead of 4 for each of 6 tiles; 36, then 40.
    assert (
        "padding that is not drawn: 12 added by further levels of tiles and 4 at the end of "
        "the buffer" in text
    )
    assert "15 elements in a buffer of 40 (160 bytes): 25 of padding, 62.5%" in text


def test_bounds_are_drawn() -> None:
    picture = layout.draw("f32[<=3,2]{0,1}")
    assert "dynamic dimensions are drawn at their bounds" in str(picture)
    drawn = read(picture.svg())  # "<" is escaped
    assert drawn.words[0] == "f32[<=3,2]{0,1}"
    assert len(drawn.elements) == 6


LARGE = [
    "f32[100000,100000]{1,0:T(8,128)}",
    "f32[1000,3,700]{0,2,1:T(8,128)(2,1)}",
    "bf16[300,2,2]",
    "s8[4611686018427387904]{0:T(1024)(128)(4,1)}",
    "s8[1,1]{1,0:T(2147483648,2147483648)}",
    "f32[2,7,8,11,10]{4,3,2,1,0:T(*,*,2,*,3)}",
]


@each_row("text", LARGE)
@each_row("max_cells", [1, 2, 7, 50, 300, 4096])
def test_large_arrays_are_summarised(text: str, max_cells: int) -> None:
    shape = xb.parse_shape(text)
    picture = layout.draw(shape, max_cells=max_cells)
    drawn = read(picture.svg())
    assert 1 <= len(drawn.cells) <= max_cells
    for index, place in drawn.elements.items():
        assert layout.linear_index(shape, index) == place
    assert re.search(r" drawn: .*; the rest is omitted$", " ".join(drawn.words))
    assert "; the rest is omitted" in str(picture)
    assert drawn.elements[(0,) * shape.rank] == 0


def test_a_summary_shows_ends_borders_and_the_beginning_of_padding() -> None:
    picture = layout.draw("f32[1000,1000]{1,0:T(8,128)}", max_cells=4096)
    drawn = read(picture.svg())
    rows, columns = ({index[d] for index in drawn.elements} for d in (0, 1))
    assert {0, 1, 7, 8, 999} <= rows
    assert {0, 1, 127, 128, 998, 999} <= columns
    # 1000 rows are a multiple of 8; 1000 columns are padded to 1024.
    expected = {with_tiles((0, c), (1000, 1024), (8, 128)) for c in (1000, 1023)}
    assert expected <= drawn.padding
    # Text has only the columns that fit into a line.
    for width, count in ((1000, 16), (100, 8), (40, 2), (1, 1)):
        text = picture.text(width=width)
        assert f"along dimension 0, {count} of 1,024 (1,000 and padding) along dim" in text
        grids = text.split("\n\n")[1:-1]
        assert len(grids) == 1
        assert max(map(len, grids[0].splitlines())) <= max(width, 16)
    assert {"…", "⋮"} <= set(drawn.words)


def test_a_summary_as_text() -> None:
    # Column-major: the element (r, c) is at r + 100 c.
    assert str(layout.draw("f32[100,100]{0,1}", max_cells=20)) == (
        "f32[100,100]{0,1}: dimension 0 down, 1 across\n"
        "\n"
        "         0     1  ...   98    99\n"
        "   0     0   100  ... 9800  9900\n"
        "   1     1   101  ... 9801  9901\n"
        "  ...\n"
        "  98    98   198  ... 9898  9998\n"
        "  99    99   199  ... 9899  9999\n"
        "\n"
        "10,000 elements in a buffer of 10,000 (40,000 bytes): no padding\n"
        "drawn: 4 of 100 along dimension 0, 4 of 100 along dimension 1; the rest is omitted"
    )


def test_grids_of_further_dimensions_are_left_out() -> None:
    text = str(layout.draw("f32[300,2,2]"))
    assert re.findall(r"^(\[.*\]|\.\.\.)$", text, re.MULTILINE) == [
        "[0,:,:]", "[1,:,:]", "[2,:,:]", "...", "[299,:,:]",
    ]  # fmt: skip
    assert "drawn: 4 of 300 grids; the rest is omitted" in text


def test_up_to_a_few_thousand_cells_all_are_drawn() -> None:
    drawn = read(layout.draw("f32[64,64]{1,0:T(8,128)}", max_cells=64 * 128).svg())
    assert sorted(drawn.cells) == list(range(64 * 128))
    assert len(read(layout.draw("f32[4096]").svg()).elements) == 4096
    assert len(read(layout.draw("f32[4097]").svg()).elements) < 100


@each_row(
    "shape",
    [
        "f32[4,8]{1,0:T(2,4)(2,1)}",
        "f32[2,3,4]{0,2,1}",
        "f32[2,3,5]{2,1,0:T(*,2,3)}",
        "bf16[20,300]{1,0:T(8,128)(2,1)}",
        "f32[96]{0:T(96)}",
        "f32[1000000]{0:T(1024)}",
        "u8[2,2,2,2,2]{4,3,2,1,0}",
    ],
)
def test_pictures_fit_a_notebook_of_700_pixels(shape: str) -> None:
    assert int(ElementTree.fromstring(layout.draw(shape).svg()).attrib["width"]) <= 650


@each_row("width", [1, 20, 60, 100, 1000])
def test_text_has_the_requested_width(width: int) -> None:
    text = layout.draw("f32[9,130]{1,0:T(8,128)}").text(width=width)
    grid = text.split("\n\n")[1:-1]
    cells = re.findall(r"(?<=  )\d+|(?<=  )\.", "\n".join(grid).replace("|", " "))
    assert len(cells) >= 9 * 130
    longest = max(len(line) for block in grid for line in block.splitlines())
    assert longest <= max(width, 13)


def test_text_in_colours() -> None:
    picture = layout.draw(FIGURE_2)
    coloured = picture.text(color=True)
    assert re.sub(r"\033\[[\d;]*m", "", coloured) == picture.text()
    colours = re.findall(r"\033\[30;48;5;(\d+)m *(\d+)\033\[0m", coloured)
    assert len(colours) == 32
    tile_of = {place: int(place) // 8 for _, place in colours}
    assert len({(colour, tile_of[place]) for colour, place in colours}) == 4
    assert "\033" not in repr(picture)


def test_without_labels() -> None:
    picture = layout.draw(FIGURE_1, labels=False)
    drawn = read(picture.svg())
    assert {cell.label for cell in drawn.cells.values()} == {None}
    assert drawn.elements[2, 3] == 17  # the tooltip
    assert picture.text().splitlines()[3] == "  0  #   # | #   # | #   ."


def test_notebooks_show_a_picture_of_a_shape_with_a_layout() -> None:
    shape = xb.parse_shape(FIGURE_1)
    shown, _ = DisplayFormatter().format(shape)
    assert shown == {
        "text/plain": "f32[3,5]{1,0:T(2,2)}",
        "image/svg+xml": layout.draw(shape).svg(),
    }
    picture = layout.draw(shape)
    shown, _ = DisplayFormatter().format(picture)
    assert shown == {"text/plain": str(picture), "image/svg+xml": picture.svg()}
    assert picture.shape is shape


@each_row("text", ["f32[3,5]", "f32[]", "f32[?,2]", "(f32[2]{0}, s32[])"])
def test_notebooks_show_other_shapes_as_text(text: str) -> None:
    shape = xb.parse_shape(text)
    assert DisplayFormatter().format(shape)[0] == {"text/plain": text}


def test_a_layout_of_an_unbounded_array_is_text() -> None:
    shape = xb.parse_shape("f32[?,2]{0,1}")
    assert DisplayFormatter().format(shape)[0] == {"text/plain": "f32[?,2]{0,1}"}


def test_importing_builder_draws_nothing() -> None:
    program = (
        "import sys, builder as xb\n"
        "shape = xb.parse_shape('f32[3,5]{1,0:T(2,2)}')\n"
        "assert not [name for name in sys.modules if name.startswith('builder.layout.drawing')]\n"
        "assert shape._repr_svg_().startswith('<svg')\n"
        "assert 'builder.layout.drawing' in sys.modules"
    )
    run_python("-c", program)


def test_pictures_are_saved(tmp_path: Path) -> None:
    picture = layout.draw(FIGURE_1)
    for name, text in (
        ("a.svg", picture.svg()),
        ("b.txt", picture.text()),
        ("C.SVG", picture.svg()),
    ):
        (tmp_path / name).write_text("before")
        picture.save(tmp_path / name)
        assert (tmp_path / name).read_text(encoding="utf-8") == text + "\n"
    picture.save(str(tmp_path / "b.txt"))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["C.SVG", "a.svg", "b.txt"]
    assert ElementTree.parse(tmp_path / "a.svg").getroot().tag == f"{SVG}svg"


def test_refusals_of_save(tmp_path: Path) -> None:
    picture = layout.draw(FIGURE_1)
    with pytest.raises(OperandError, match=r"^save: path must end in .svg or .txt, got .*png"):
        picture.save(tmp_path / "a.png")
    with pytest.raises(OperandError, match=r"can't be written: no such file or directory"):
        picture.save(tmp_path / "nowhere" / "a.svg")
    with pytest.raises(OperandError, match=r"^save: path must be a str or os\.PathLike, got 3"):
        picture.save(3)  # type: ignore[arg-type]  # the wrong type is the test
    with pytest.raises(OperandError, match=r"^save: path must be a str .*, got b'a.svg'"):
        picture.save(b"a.svg")  # type: ignore[arg-type]  # the wrong type is the test
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises(OperandError, match="can't be written: "):
        picture.save(tmp_path / "folder.svg")
    assert [p.name for p in tmp_path.iterdir()] == ["folder.svg"]


REFUSED = {
    "a tuple": (("(f32[2], s32[])",), {}, "draw: shape must be the shape of an array, got"),
    "a token": (("token[]",), {}, "draw: shape must be the shape of an array, got"),
    "not a shape": ((3,), {}, "draw: shape: expected a shape such as f32[2, 3]"),
    "an element type": ((xb.f32,), {}, "draw: shape: expected a shape, got the element type f32"),
    "labels": ((FIGURE_1,), {"labels": "yes"}, "draw: labels must be True or False, got 'yes'"),
    "no cells": ((FIGURE_1,), {"max_cells": 0}, "draw: max_cells must be a positive integer"),
    "a float": ((FIGURE_1,), {"max_cells": 2.5}, "draw: max_cells must be a positive integer"),
    "a bool": ((FIGURE_1,), {"max_cells": True}, "draw: max_cells must be a positive integer"),
}


@each_row("arguments, options, message", REFUSED.values())
def test_refusals(arguments: tuple[object], options: dict[str, object], message: str) -> None:
    with pytest.raises(OperandError) as caught:
        layout.draw(*arguments, **options)  # type: ignore[arg-type]  # the wrong type is the test
    assert str(caught.value).startswith(message)
    assert caught.value.op == "draw"


def test_refusals_of_sizes_and_text() -> None:
    with pytest.raises(ShapeInferenceError, match=r"draw: .*unbounded dimensions") as caught:
        layout.draw("f32[2,?]")
    assert caught.value.dimension == 1
    with pytest.raises(ShapeTextError, match=r"^draw: shape: .* at position 4"):
        layout.draw("f32[")
    picture = layout.draw(FIGURE_1)
    with pytest.raises(OperandError, match=r"^text: width must be a positive integer, got 0"):
        picture.text(width=0)
    with pytest.raises(OperandError, match=r"^text: color must be True or False, got 1"):
        picture.text(color=1)  # type: ignore[arg-type]  # the wrong type is the test


def test_pictures_of_one_shape_are_equal() -> None:
    again = pickle.loads(pickle.dumps(xb.parse_shape(FIGURE_2)))
    assert layout.draw(again).svg() == layout.draw(FIGURE_2).svg()
