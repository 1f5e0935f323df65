"""The ops of a computation as a table."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from linecache import getline
from typing import TYPE_CHECKING, Any, Final, NamedTuple, overload

from builder.check import flag, integer
from builder.errors import ShapeInferenceError
from builder.graph.xla_op import XlaOp
from builder.inspection.rendering import Printable
from builder.support.display import Column, TextTable
from builder.types.shape import Shape

if TYPE_CHECKING:
    from builder.graph.computation import XlaComputation
    from builder.inspection.attribute_text import AttributePrinter


_COLUMNS: Final = (
    Column("number", is_number=True, no_wrap=True),
    Column("opcode", no_wrap=True, style="cyan"),
    Column("shape", style="green"),
    Column("operands"),
    Column("name", style="magenta"),
    Column("source"),
    Column("attributes"),
)


class OpRow(NamedTuple):
    """An op as a row of a table.

    Attributes:
        number: the number of the op: ``computation.ops[number]`` is the op.
        opcode: the opcode.
        shape: the shape of the result.
        operands: the numbers of the operands.
        name: the name of the op, or None.
        source: "file:line" of the line that recorded the op, or None.
        attributes: the attributes in HLO text, abbreviated with "..." if they are long.
        computation: the name of the computation in HLO text.
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
        """Return the row as a dict for JSON: the shape as text, the operands as a list."""
        return {**self._asdict(), "shape": str(self.shape), "operands": list(self.operands)}


class Section(NamedTuple):
    """The ops of one computation.

    Attributes:
        name: the name of the computation in HLO text.
        ops: the ops.
        printer: prints the attributes of the ops.
    """

    name: str
    ops: Sequence[XlaOp]
    printer: AttributePrinter

    def text_table(self, ops: Sequence[XlaOp], title: str) -> TextTable:
        """Return a table of some of the ops, without empty optional columns."""
        rows = [_cells(_row(self, op)) for op in ops]
        columns = [i for i in range(len(_COLUMNS)) if i < 4 or any(row[i] for row in rows)]
        return TextTable(
            title,
            tuple(_COLUMNS[i] for i in columns),
            [[row[i] for i in columns] for row in rows],
            hovers=[source_hover(op) for op in ops],
        )


class OpTable(Sequence[OpRow], Printable):
    """The ops of a computation as a sequence of rows, which are created on access.

    A slice is another table. `print` uses the width of the terminal, ``rich.print`` adds colours,
    and a notebook shows HTML.

    Attributes:
        limit: the number of rows that are printed from the beginning and from the end of each
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

    def __init__(self, sections: Sequence[Section], limit: int | None) -> None:
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
            return self._slice(range(len(self))[index])
        place = range(len(self))[index]
        number = bisect_right(self._ends, place)
        section = self._sections[number]
        return _row(section, section.ops[place - self._ends[number]])

    def _slice(self, places: range) -> OpTable:
        if places.step < 0:
            raise ShapeInferenceError(
                f"the step of a slice of a table must be positive, got {places.step}",
                op="table",
                fix="write reversed(table) to iterate from the last row to the first",
            )
        sections: list[Section] = []
        begin = 0
        for section, end in zip(self._sections, self._ends, strict=True):
            first = max(places.start, begin)
            # The first place of the slice in this section.
            first += (places.start - first) % places.step
            ops = section.ops[first - begin : max(min(places.stop, end) - begin, 0) : places.step]
            if ops:
                sections.append(section._replace(ops=ops))
            begin = end
        return OpTable(sections, self.limit)

    def __iter__(self) -> Iterator[OpRow]:
        for section in self._sections:
            for op in section.ops:
                yield _row(section, op)

    def as_dict(self) -> dict[str, Any]:
        """Return a dict for JSON: ``{"ops": [...]}``, with an `OpRow.as_dict` for each op."""
        return {"ops": [row.as_dict() for row in self]}

    def __repr__(self) -> str:
        names = ", ".join(repr(section.name) for section in self._sections[:3])
        more = ", ..." if len(self._sections) > 3 else ""
        return f"<OpTable {names}{more}, {len(self)} ops>"

    def _parts(self) -> Iterator[TextTable]:
        for section in self._sections:
            ops, count = section.ops, len(section.ops)
            limit = count if self.limit is None else self.limit
            omitted = max(count - 2 * limit, 0)
            shown = [*ops[:limit], *ops[count - limit :]] if omitted else ops
            table = section.text_table(shown, f"%{section.name}: {count_text(count)}")
            if omitted:
                gap = ["...", f"{omitted:,} more", *[""] * (len(table.columns) - 2)]
                table = replace(
                    table,
                    rows=[*table.rows[:limit], gap, *table.rows[limit:]],
                    hovers=[*table.hovers[:limit], "", *table.hovers[limit:]],
                    caption=f"{omitted:,} ops are omitted; limit=None prints all",
                )
            yield table


def table_of(
    computation: XlaComputation, *, nested: bool = False, limit: int | None = 40
) -> OpTable:
    """Return the ops of a computation as a table; see `XlaComputation.table`."""
    if limit is not None:
        limit = integer("table", "limit", limit)
        if limit < 0:
            raise ShapeInferenceError(f"limit must not be negative, got {limit}", op="table")
    sections = sections_of(computation, nested=flag("table", "nested", nested))
    return OpTable(sections, limit)


def sections_of(computation: XlaComputation, *, nested: bool) -> list[Section]:
    """Return a section for the computation and, if `nested`, for those that ops apply."""
    # Imported here, because importing `OpTable` does not require them.
    from builder.hlo_text.printer import ModuleNames
    from builder.inspection.attribute_text import AttributePrinter

    module = ModuleNames(computation, metadata=False)
    shown = [computation]
    if nested:
        shown += computation.called_computations()[::-1]
    return [Section(module.names[c], c.ops, AttributePrinter(c, module)) for c in shown]


def count_text(count: int, noun: str = "op") -> str:
    """Return a number with a noun: "1 op", "2,000 ops"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def source_hover(op: XlaOp) -> str:
    """Return the source line of an op and its text, as far as Python can read it, or ""."""
    source = op.source
    if source is None:
        return ""
    file = op._code.co_filename if op._code is not None else source.file
    return f"{source}\n{getline(file, source.line).strip()}".rstrip()


def _row(section: Section, op: XlaOp) -> OpRow:
    source = op.source
    return OpRow(
        op.id,
        op.opcode,
        op.shape,
        tuple([operand.id for operand in op.operands]),
        op.name,
        None if source is None else f"{source.file}:{source.line}",
        section.printer.attributes(op),
        section.name,
    )


def _cells(row: OpRow) -> list[str]:
    from builder.inspection.attribute_text import abbreviated

    return [
        str(row.number),
        row.opcode,
        abbreviated(str(row.shape)),
        abbreviated(", ".join(map(str, row.operands))),
        row.name or "",
        "" if row.source is None else row.source.replace("\\", "/").rpartition("/")[2],
        row.attributes,
    ]
