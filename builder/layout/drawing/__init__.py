"""Pictures of arrays in memory: linear indices, tiles in colours, and padding.

`grid` computes the cells, `rendering` renders them.
"""

from __future__ import annotations

import os
from typing import Any

from builder.errors import OperandError, brief, error_of
from builder.layout.drawing.grid import Grid, grid_of
from builder.layout.drawing.rendering import save_as, svg_of, text_of
from builder.layout.indexing import bounded_array
from builder.support.frames import without_internal_frames
from builder.types.layout import int_or_none
from builder.types.shape import ArrayShape, ShapeLike

__all__ = ["Picture", "draw"]

MAX_CELLS = 4096


class Picture:
    """A picture of an array in memory, returned by `draw`.

    A notebook shows it as SVG, a terminal as text.

    Attributes:
        shape: the shape of the array, with its layout.
    """

    def __init__(self, grid: Grid, labels: bool) -> None:
        self._grid = grid
        self._labels = labels

    @property
    def shape(self) -> ArrayShape:
        return self._grid.shape

    def svg(self) -> str:
        """Return the picture as the text of an SVG file."""
        return svg_of(self._grid, self._labels)

    def text(self, *, color: bool = False, width: int = 100) -> str:
        """Return the picture as text, with dots for padding and lines between tiles.

        Args:
            color: whether to colour tiles with the escape sequences of terminals.
            width: the length of lines. Columns that do not fit are drawn below the first columns,
                or are omitted in an abbreviated picture.

        Raises:
            OperandError: `color` is not a bool, or `width` is not a positive integer.

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
        """Write the picture to a file: SVG for the suffix .svg, text for .txt.

        An existing file is replaced atomically.

        Raises:
            OperandError: `path` is not a str or path object, has a different suffix, or can't be
                written.
        """
        save_as(path, {".svg": lambda: self.svg() + "\n", ".txt": lambda: self.text() + "\n"})

    def _repr_svg_(self) -> str:
        return self.svg()

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__


@without_internal_frames
def draw(shape: ShapeLike, *, labels: bool = True, max_cells: int = MAX_CELLS) -> Picture:
    """Draw an array in memory.

    Rows and columns are the last two dimensions; there is a grid for each index of the other
    dimensions. A cell shows the linear index of its element in the buffer. Tiles of the first level
    have colours, tiles of the second level have red borders, and tiles of the third level have
    dashed borders. Without tiles, runs of the most minor dimension have colours. Padding is white
    and hatched.

    Args:
        shape: an array shape without unbounded dimensions, or its text; bounded dimensions are
            drawn at their bounds.
        labels: whether cells show their linear indices.
        max_cells: the maximum number of cells to draw. For a larger array only the beginning, the
            end and the first border between tiles are drawn, and the caption counts what is drawn.

    Returns:
        A Picture, which notebooks and terminals show.

    Raises:
        OperandError: `shape` is not an array shape, `labels` is not a bool, or `max_cells` is not
            a positive integer.
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
    array = bounded_array("draw", shape)
    is_labelled = _flag("draw", "labels", labels)
    return Picture(grid_of(array, _count("draw", "max_cells", max_cells)), is_labelled)


def _flag(function: str, name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise error_of(OperandError, function, f"{name} must be True or False", got=brief(value))
    return value


def _count(function: str, name: str, value: Any) -> int:
    number = int_or_none(value)
    if number is None or number < 1:
        rule = f"{name} must be a positive integer"
        raise error_of(OperandError, function, rule, got=brief(value))
    return number
