"""The ops of a computation as a table, with their attributes as short HLO text."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from itertools import accumulate
from linecache import getline
from typing import Any, Final, NamedTuple, overload

import numpy as np

from builder.checking import flag, integer
from builder.errors import ShapeInferenceError
from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp, is_constant
from builder.hlo_text.printer import Printer
from builder.inspection.parts import Column, TextTable
from builder.inspection.rendering import Printable
from builder.schema.syntax import braces, quoted
from builder.types.constant import literal_text
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import UNBOUNDED, Shape

_MAX_LENGTH: Final = 240

_MAX_ELEMENTS: Final = 8


class _SeveralInstructionsError(Exception):
    """Raised by the printer if HLO text needs several instructions for an op."""


class AttributePrinter(Printer):
    """Prints the attributes of single ops as the HLO printer does.

    If HLO text expresses an op by several instructions, or without attributes, the attributes are
    printed with their recorded names.
    """

    def operand(self, op: XlaOp) -> str:
        return f"%{op.id}"

    def helper(self, *_arguments: Any) -> str:
        raise _SeveralInstructionsError

    def attributes(self, op: XlaOp) -> str:
        """Return the text of an op's attributes, including sharding and frontend attributes."""
        texts = [self._attributes(op)] if op.attributes else []
        if op.metadata is not None:
            texts.append(self.annotations(op).removeprefix(", "))
        return abbreviated(", ".join(filter(None, texts)))

    def _attributes(self, op: XlaOp) -> str:
        if is_constant(op):
            return constant_text(op.attributes["value"], op.shape.element_type)
        try:
            _, _, text = self.parts(op)
        except _SeveralInstructionsError:
            text = ""
        if text:
            return text.removeprefix(", ")
        return ", ".join(
            f"{name}={value_text(value, self.called)}"
            for name, value in op.attributes.items()
            if value is not None
        )


def constant_text(value: np.ndarray[Any, Any], element_type: PrimitiveType) -> str:
    """Return the value of a constant as text; for a large constant, only the first elements.

    Example:
        >>> import builder as xb, numpy as np
        >>> constant_text(np.array([1.5, 2.0], np.float32), xb.f32)
        '{1.5, 2}'
        >>> constant_text(np.arange(100, dtype=np.int32), xb.s32)
        '{0, 1, 2, 3, 4, 5, 6, 7, ...}'
        >>> constant_text(np.broadcast_to(np.float32(3), (100, 100)), xb.f32)
        '{3, ...}'
    """
    if value.size <= _MAX_ELEMENTS:
        return literal_text(value, element_type)
    # A constant with strides of 0 repeats one element, which is printed once.
    count = _MAX_ELEMENTS if any(value.strides) else 1
    first = np.array([value[np.unravel_index(i, value.shape)] for i in range(count)], value.dtype)
    return literal_text(first, element_type).removesuffix("}") + ", ...}"


def value_text(value: Any, called: Any = lambda computation: f"%{computation.name}") -> str:
    """Return the value of an attribute as short text.

    Args:
        value: any attribute of an op.
        called: a function that returns the text for a computation.
    """
    if type(value) is int and value == UNBOUNDED:
        return "?"
    if isinstance(value, XlaComputation):
        return str(called(value))
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value)).lower()
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, (tuple, list)):
        # Truncated, because the value may have millions of elements.
        return braces(value_text(element, called) for element in value[:_MAX_LENGTH])
    if isinstance(value, Mapping):
        return braces(f"{name}={value_text(entry, called)}" for name, entry in value.items())
    if isinstance(value, np.ndarray):
        return f"({value.dtype}{list(value.shape)})"
    return abbreviated(str(value))


def abbreviated(text: str) -> str:
    """Return the text, truncated with dots if it is long."""
    return text if len(text) <= _MAX_LENGTH else text[: _MAX_LENGTH - 3] + "..."


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
                "the step of a slice of a table must be positive",
                got=places.step,
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
                table = table._replace(
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
            raise ShapeInferenceError("limit must not be negative", got=limit, op="table")
    sections = sections_of(computation, nested=flag("table", "nested", nested))
    return OpTable(sections, limit)


def sections_of(computation: XlaComputation, *, nested: bool) -> list[Section]:
    """Return a section for the computation and, if `nested`, for those that ops apply."""
    # Imported here, because importing `OpTable` does not require them.
    from builder.hlo_text.printer import ModuleNames

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

    return [
        str(row.number),
        row.opcode,
        abbreviated(str(row.shape)),
        abbreviated(", ".join(map(str, row.operands))),
        row.name or "",
        "" if row.source is None else row.source.replace("\\", "/").rpartition("/")[2],
        row.attributes,
    ]
