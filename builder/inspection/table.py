"""Ops as the rows of a table."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NamedTuple, overload

from builder.check import integer
from builder.errors import ShapeInferenceError
from builder.graph.xla_op import XlaOp
from builder.inspection.rendering import Column, Sheet, as_html, as_rich, as_text
from builder.types.shape import Shape

if TYPE_CHECKING:
    from rich.console import Group

    from builder.graph.computation import XlaComputation
    from builder.inspection.attribute_text import OpWords

__all__ = ["OpRow", "OpTable", "table_of"]

_COLUMNS: Final = (
    Column("number", is_number=True, is_whole=True),
    Column("opcode", is_whole=True, style="cyan"),
    Column("shape", style="green"),
    Column("operands"),
    Column("name", style="magenta"),
    Column("source"),
    Column("attributes"),
)


class OpRow(NamedTuple):
    """An op as a row of a table.

    Attributes:
        number: its number in its computation: ``computation.ops[number]`` is the op.
        opcode: what it does.
        shape: the shape of its result.
        operands: the numbers of its operands.
        name: its name, or None.
        source: "file:line" of the line that recorded it, or None.
        attributes: what else it says, as HLO text writes it; what is long ends in dots.
        computation: the name of its computation, as HLO text has it.
    """

    number: int
    opcode: str
    shape: Shape
    operands: tuple[int, ...]
    name: str | None
    source: str | None
    attributes: str
    computation: str

    def as_dict(self) -> dict[str, Any]:
        """The row for JSON: the shape is text, the operands are a list."""
        return {**self._asdict(), "shape": str(self.shape), "operands": list(self.operands)}


class _Section(NamedTuple):
    """Ops of one computation.

    Attributes:
        name: the computation's, as HLO text has it.
        ops: the ops.
        words: what writes their attributes.
    """

    name: str
    ops: Sequence[XlaOp]
    words: OpWords


class OpTable(Sequence[OpRow]):
    """The ops of a computation as rows, which are made when they are looked at.

    A sequence: it has a length, it is indexed, and a slice of it is such a table again. `print`
    draws it as wide as the terminal, ``rich.print`` with colours, a notebook as HTML.

    Attributes:
        limit: how many rows from the beginning and how many from the end are drawn of each
            computation; None for all.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder("sum")
        >>> x = b.parameter(xb.f32[2, 3], "x")
        >>> c = b.build(xb.reduce(x, 0.0, xb.add, dimensions=[1]))
        >>> table = c.table()
        >>> len(table), table[0].opcode, table[-1].operands, table[-1].attributes
        (3, 'parameter', (0, 1), 'dimensions={1}, to_apply=%add')
        >>> [row.opcode for row in c.table(nested=True)]
        ['parameter', 'constant', 'reduce', 'parameter', 'parameter', 'add']
    """

    __slots__ = ("_ends", "_sections", "limit")

    def __init__(self, sections: Sequence[_Section], limit: int | None) -> None:
        self._sections = tuple(sections)
        self._ends = list(accumulate(len(section.ops) for section in sections))
        self.limit = limit

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, index: int) -> OpRow: ...

    @overload
    def __getitem__(self, index: slice) -> OpTable: ...

    def __getitem__(self, index: int | slice) -> OpRow | OpTable:
        if isinstance(index, slice):
            return self._part(range(len(self))[index])
        place = range(len(self))[index]
        position = bisect_right(self._ends, place)
        section = self._sections[position]
        return _row(section, section.ops[place - self._ends[position]])

    def _part(self, places: range) -> OpTable:
        found: list[_Section] = []
        begin = 0
        if places.step < 0:
            raise ShapeInferenceError(
                f"table: the step of a slice of a table must be positive, got {places.step}\n"
                f"fix: reversed(table) gives the rows from the last to the first"
            )
        for section, end in zip(self._sections, self._ends, strict=True):
            first = max(places.start, begin)
            # The first place at or after the section's beginning that the slice has.
            first += (places.start - first) % places.step
            ops = section.ops[first - begin : max(min(places.stop, end) - begin, 0) : places.step]
            if ops:
                found.append(section._replace(ops=ops))
            begin = end
        return OpTable(found, self.limit)

    def __iter__(self) -> Iterator[OpRow]:
        for section in self._sections:
            for op in section.ops:
                yield _row(section, op)

    def as_dict(self) -> dict[str, Any]:
        """All rows for JSON: ``{"ops": [...]}``, each as `OpRow.as_dict` gives it."""
        return {"ops": [row.as_dict() for row in self]}

    def __repr__(self) -> str:
        names = ", ".join(repr(section.name) for section in self._sections[:3])
        more = ", ..." if len(self._sections) > 3 else ""
        return f"<OpTable {names}{more}, {len(self)} ops>"

    def __str__(self) -> str:
        return as_text(self._sheets())

    def __rich__(self) -> Group:
        return as_rich(self._sheets())

    def _repr_html_(self) -> str:
        return as_html(self._sheets())

    def _sheets(self) -> list[Sheet]:
        return [self._sheet(section) for section in self._sections]

    def _sheet(self, section: _Section) -> Sheet:
        ops, limit, count = section.ops, self.limit, len(section.ops)
        caption = ""
        if limit is None or count <= 2 * limit:
            cells = [_cells(_row(section, op)) for op in ops]
        else:
            cells = [_cells(_row(section, op)) for op in ops[:limit]]
            cells.append(["...", f"{count - 2 * limit:,} more", *[""] * (len(_COLUMNS) - 2)])
            cells += [_cells(_row(section, op)) for op in ops[count - limit :]]
            caption = f"{count - 2 * limit:,} ops between are left out; limit=None draws all"
        plural = "" if count == 1 else "s"
        # Columns that say nothing take no room.
        kept = [i for i in range(len(_COLUMNS)) if i < 4 or any(row[i] for row in cells)]
        return Sheet(
            f"%{section.name}: {count:,} op{plural}",
            tuple(_COLUMNS[i] for i in kept),
            [[row[i] for i in kept] for row in cells],
            caption,
        )


def table_of(
    computation: XlaComputation, *, nested: bool = False, limit: int | None = 40
) -> OpTable:
    """The ops of a computation as a table; see `XlaComputation.table`."""
    # Needed by those who look at ops, and not by all who import this.
    from builder.hlo_text.printer import ModuleNames
    from builder.inspection.attribute_text import OpWords

    if limit is not None:
        limit = integer("table", "limit", limit)
        if limit < 0:
            raise ShapeInferenceError(f"table: limit must not be negative, got {limit}", op="table")
    module = ModuleNames(computation, metadata=False)
    shown = [computation, *computation.called_computations()[::-1]] if nested else [computation]
    return OpTable(
        [_Section(module.names[one], one.ops, OpWords(one, module)) for one in shown], limit
    )


def _row(section: _Section, op: XlaOp) -> OpRow:
    source = op.source
    return OpRow(
        op.id,
        op.opcode,
        op.shape,
        tuple([operand.id for operand in op.operands]),
        op.name,
        None if source is None else f"{source.file}:{source.line}",
        section.words.attributes(op),
        section.name,
    )


def _cells(row: OpRow) -> list[str]:
    from builder.inspection.attribute_text import short

    return [
        str(row.number),
        row.opcode,
        short(str(row.shape)),
        short(", ".join(map(str, row.operands))),
        row.name or "",
        "" if row.source is None else row.source.replace("\\", "/").rpartition("/")[2],
        row.attributes,
    ]
