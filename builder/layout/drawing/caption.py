"""The caption of a picture: sizes, legend, and omissions."""

from __future__ import annotations

from builder.layout.drawing.grid import Axis, Grid
from builder.layout.indexing import physical_of


def index_text(grid: Grid, leading: tuple[int, ...], row: str, column: str) -> str:
    """Return the index of a cell as text, such as "0,2,3"."""
    rank = grid.shape.rank
    return ",".join([*map(str, leading), row, column][max(0, len(leading) + 2 - rank) :])


def axes_line(grid: Grid) -> str:
    """Return the caption line that names the dimensions drawn as rows and as columns."""
    down, across = grid.rows.dimension, grid.columns.dimension
    if across is None:
        return "no elements" if grid.shape.rank else "a scalar"
    return (
        f"dimension {across} across" if down is None else f"dimension {down} down, {across} across"
    )


def facts(grid: Grid) -> list[str]:
    """Return the caption lines with the sizes in elements and bytes, and the share of padding."""
    shape, size = grid.shape, grid.size
    count = shape.element_count
    padding = size - count
    share = f"{padding:,} of padding, {_percent(padding, size)}" if padding else "no padding"
    elements, byte_size = _plural(count, "element"), _plural(shape.padded_byte_size, "byte")
    lines = [f"{elements} in a buffer of {size:,} ({byte_size}): {share}"]
    if not shape.is_static:
        lines.append("dynamic dimensions are drawn at their bounds")
    tail = physical_of(shape).tail
    inside = size - grid.cell_count - tail
    places = [f"{inside:,} added by further levels of tiles"] if inside else []
    places += [f"{tail:,} at the end of the buffer"] if tail else []
    if places:
        lines.append(f"padding that is not drawn: {' and '.join(places)}")
    return lines


def legend(grid: Grid) -> str:
    """Return the caption line that explains colours, borders and hatching."""
    layout = grid.shape.layout
    tiles = [repr(tile) for tile in layout.tiles] if layout is not None else []
    entries = []
    if tiles:
        marks = ("colours: tiles of", "red borders: of", "dashed: of")
        entries = [f"{mark} {tile}" for mark, tile in zip(marks, tiles, strict=False)]
    elif grid.shape.rank > 1:
        minor = grid.shape.rank - 1 if layout is None else layout.minor_to_major[0]
        entries = [f"colours: runs of dimension {minor}, the most minor"]
    if grid.size > grid.shape.element_count:
        entries.append("hatched: padding")
    return "; ".join(entries)


def left_out(grid: Grid) -> list[str]:
    """Return a list of one caption line that counts what is drawn; [] if nothing is omitted."""
    if grid.is_complete:
        return []
    parts = [_axis_part(axis) for axis in (grid.rows, grid.columns) if not axis.is_complete]
    if len(grid.panels) < grid.panel_count:
        parts.append(f"{len(grid.panels)} of {grid.panel_count:,} grids")
    return [f"drawn: {', '.join(parts)}; the rest is omitted"]


def _axis_part(axis: Axis) -> str:
    where = "beside the scalar" if axis.dimension is None else f"along dimension {axis.dimension}"
    padded = f" ({axis.size:,} and padding)" if axis.extent > axis.size else ""
    return f"{len(axis.drawn)} of {axis.extent:,}{padded} {where}"


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _percent(part: int, total: int) -> str:
    # In integers, because a float does not have enough digits for large buffers.
    tenths = (part * 1000 + total // 2) // total
    if tenths == 0:
        return "less than 0.1%"
    return "more than 99.9%" if tenths == 1000 and part < total else f"{tenths / 10:g}%"
