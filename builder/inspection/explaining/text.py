"""Render the grids of an op as text."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from builder.inspection.explaining.grids import Grid, Scene


def text_of(scene: Scene) -> str:
    """Return the picture as text."""
    lines = [scene.title]
    for grid in (*scene.operands, *scene.results):
        lines += ["", grid.title, *_rows(grid)]
    if scene.notes:
        lines += ["", *scene.notes]
    return "\n".join(line.rstrip() for line in lines)


def _rows(grid: Grid) -> Iterator[str]:
    if not grid.boxes:
        yield "  no elements"
        return
    sizes = grid.sizes
    rows = sizes[-2] if len(sizes) > 1 else 1
    columns = sizes[-1] if sizes else 1
    width = max(len(str(columns - 1)), *(len(box.label) for box in grid.boxes))
    margin = len(str(rows - 1))
    cells = iter(grid.boxes)
    for outer in np.ndindex(*sizes[:-2]):
        if outer:
            yield f"  [{', '.join(map(str, outer))}, :, :]"
        if sizes:
            names = [str(column).ljust(width) for column in range(columns)]
            yield f"  {'':{margin}}  {'  '.join(names)}"
        for row in range(rows):
            labels = [next(cells).label.ljust(width) for _ in range(columns)]
            name = str(row) if len(sizes) > 1 else ""
            yield f"  {name:>{margin}}  {'  '.join(labels)}"
