"""Text without colours is the text that rich prints."""

from __future__ import annotations

import random
from typing import Any

from rich.console import Console
from rich.text import Text

from builder.inspection.parts import Column
from builder.inspection.rendering import rich_table, table_lines, wrapped

WORDS = (
    *("", "a", "0", "shape", "f32[2,3]", "dimensions={1,0},", "形状", "u\u0308ber"),
    *(" leads", "two  spaces", "ends ", "x" * 40, "transposed"),
)


def printed_by_rich(renderable: Any, width: int) -> list[str]:
    console = Console(width=width, color_system=None, force_terminal=False, force_jupyter=False)
    with console.capture() as capture:
        console.print(renderable, highlight=False)
    return [line.rstrip() for line in capture.get().splitlines()]


def cell(rng: random.Random, column: Column) -> str:
    if column.no_wrap:
        return rng.choice(WORDS[:7])
    return " ".join(rng.choices(WORDS, k=rng.randint(0, 4)))


def test_tables_are_those_of_rich() -> None:
    rng = random.Random(5)
    for _ in range(200):
        has_names = rng.random() < 0.7
        columns = [
            Column(rng.choice(WORDS[:7]) if has_names else "", rng.random() < 0.3, number == 1)
            for number in range(rng.randint(1, 6))
        ]
        rows = [[cell(rng, column) for column in columns] for _ in range(rng.randint(1, 4))]
        width = rng.choice((60, 80, 120, 200))
        expected = printed_by_rich(rich_table(columns, rows), width)
        assert table_lines(columns, rows, width) == expected


def test_paragraphs_are_wrapped_like_those_of_rich() -> None:
    rng = random.Random(6)
    for _ in range(300):
        text = " ".join(rng.choices(WORDS, k=rng.randint(0, 12)))
        width = rng.choice((10, 20, 40, 80))
        assert wrapped(text, width) == printed_by_rich(Text(text), width), text


def test_a_table_without_place_is_cut() -> None:
    columns = [Column("number", is_number=True, no_wrap=True), Column("shape"), Column("name")]
    for width in range(1, 12):
        lines = table_lines(columns, [["12", "f32[2,3]", "a"]], width)
        assert max(map(len, lines)) <= width
