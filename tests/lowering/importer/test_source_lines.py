"""Code objects with the source lines of other programs."""

from __future__ import annotations

from itertools import pairwise

import pytest

from builder.graph.xla_op import resolve_position
from lowering.importer.source_lines import MOST_PLACES, WIDTH, code_of_places

LAST_LINE = 2**31 - 2

PLACES = [(1, 1), (1, 62), (1, 63), (40, 64), (39, 65), (LAST_LINE, 5000), (1, 2**31), (2, 1)]


@pytest.mark.parametrize("count", [1, 2, len(PLACES)])
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
