"""Pictures of arrays in memory: each element with its place, tiles in colours, padding marked.

`grid` says what is drawn, `svg` and `text` draw it.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

from builder.errors import OperandError, brief
from builder.layout.drawing.grid import Grid, grid_of
from builder.layout.drawing.svg import svg_of
from builder.layout.drawing.text import text_of
from builder.layout.indexing import placed_array
from builder.types.layout import int_or_none
from builder.types.shape import ArrayShape, ShapeLike

__all__ = ["Picture", "draw"]

MAX_CELLS = 4096


class Picture:
    """A picture of an array in memory, made by `draw`.

    A notebook shows it as SVG, a terminal as text.

    Attributes:
        shape: the shape that it is a picture of, in the layout that is drawn.
    """

    __slots__ = ("_grid", "_labels")

    def __init__(self, grid: Grid, labels: bool) -> None:
        self._grid = grid
        self._labels = labels

    @property
    def shape(self) -> ArrayShape:
        return self._grid.shape

    def svg(self) -> str:
        """The picture as the text of an SVG file."""
        return svg_of(self._grid, self._labels)

    def text(self, *, color: bool = False, width: int = 100) -> str:
        """The picture in characters; padding is a dot, and lines stand between tiles.

        Args:
            color: tiles in colours too, by the escape sequences of terminals.
            width: columns that do not fit into lines of this length stand below the others; in a
                summary they are left out.

        Raises:
            OperandError: `color` is not True or False, `width` no number from 1.

        Example:
            >>> from builder import layout
            >>> print(layout.draw("f32[2,3]{0,1}").text())
            f32[2,3]{0,1}: dimension 0 down, 1 across
            <BLANKLINE>
                 0  1  2
              0  0  2  4
              1  1  3  5
            <BLANKLINE>
            6 elements in a buffer of 6 (24 bytes): no padding
        """
        return text_of(
            self._grid, self._labels, _flag("text", "color", color), _count("text", "width", width)
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the picture into a file: SVG if its name ends in .svg, text if it ends in .txt.

        What was there is replaced at once, or not at all.

        Raises:
            OperandError: no path, or one that ends in something else.
        """
        try:
            file = Path(path)
        except TypeError:
            raise OperandError(f"save: path must be a path, got {brief(path)}", op="save") from None
        writers = {".svg": self.svg, ".txt": self.text}
        write = writers.get(file.suffix.lower())
        if write is None:
            raise OperandError(
                f"save: a picture's file ends in .svg or .txt, got {brief(os.fspath(path))}",
                op="save",
            )
        _write(file, write() + "\n")

    def _repr_svg_(self) -> str:
        return self.svg()

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__


def draw(shape: ShapeLike, *, labels: bool = True, max_cells: int = MAX_CELLS) -> Picture:
    """A picture of an array in memory.

    Rows and columns are the last two dimensions; an array of more has a grid for each index of the
    others. In each cell stands where the element lies in the buffer. A colour is a tile of the
    layout's first level, a red border one of the second, a dashed one of the third; without tiles,
    a colour is a run of the most minor dimension. White and hatched is padding.

    Args:
        shape: an array shape without unbounded dimensions, or its text; bounded dimensions are
            drawn at their bounds.
        labels: whether places are written into the cells.
        max_cells: how many cells are drawn at most. Of a larger array the beginning, the end and
            the first border between tiles are drawn, and the caption says what is not.

    Returns:
        A Picture, which notebooks and terminals show.

    Raises:
        OperandError: no array shape; another value for `labels` or `max_cells`.
        ShapeInferenceError: a dimension is unbounded.

    Example:
        >>> from builder import layout
        >>> layout.draw("f32[3,5]{1,0:T(2,2)}")
        f32[3,5]{1,0:T(2,2)}: dimension 0 down, 1 across
        <BLANKLINE>
              0    1    2    3    4
          0   0    1 |  4    5 |  8    .
          1   2    3 |  6    7 | 10    .
             --------+---------+--------
          2  12   13 | 16   17 | 20    .
              .    . |  .    . |  .    .
        <BLANKLINE>
        15 elements in a buffer of 24 (96 bytes): 9 of padding, 37.5%

    Tiled layout: figures 1 and 2.
    """
    array = placed_array("draw", shape)
    is_labelled = _flag("draw", "labels", labels)
    return Picture(grid_of(array, _count("draw", "max_cells", max_cells)), is_labelled)


def _flag(function: str, name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise OperandError(
            f"{function}: {name} must be True or False, got {brief(value)}", op=function
        )
    return value


def _count(function: str, name: str, value: Any) -> int:
    number = int_or_none(value)
    if number is None or number < 1:
        raise OperandError(
            f"{function}: {name} must be a whole number from 1, got {brief(value)}",
            op=function,
        )
    return number


def _write(file: Path, text: str) -> None:
    """Writes beside the file and renames, so that nobody finds half of it."""
    beside = file.with_name(f".{file.name[:200]}.{secrets.token_hex(6)}.tmp")
    try:
        try:
            with beside.open("x", encoding="utf-8") as stream:
                stream.write(text)
            beside.replace(file)
        finally:
            beside.unlink(missing_ok=True)
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise OperandError(
            f"save: {brief(str(file))} can't be written: {reason[:1].lower()}{reason[1:]}",
            op="save",
        ) from None
