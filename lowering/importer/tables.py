"""The caches of one import: shapes by type, source lines by location, values by attribute.

An op stores its source line as a Python code object and an offset in the code. For the source lines
of an imported module, code objects are created that have only a line table. One code object for
many lines takes less memory and time than one code object for each line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from operator import sub
from types import CodeType
from typing import Any, Final, NamedTuple

import numpy as np
from jaxlib.mlir import ir

from builder.graph.computation import XlaComputation
from builder.types.shape import ArrayShape, Shape, TupleShape
from lowering.errors import unescaped
from lowering.host.callbacks import PythonFunction
from lowering.importer.hlo_repairs import TYPE_END
from lowering.mlir.attributes import attribute_value
from lowering.mlir.types import shape_of_type
from lowering.ops.registry import Importer

MOST_PLACES: Final = 64
"""The maximum number of lines in a code object: to look up a line, Python decodes the table."""

WIDTH: Final = 2
"""The size of an instruction in bytes: the difference between the offsets of two lines."""

_EMPTY: Final = compile("", "", "exec")
_INSTRUCTION: Final = _EMPTY.co_code[:WIDTH]
"""An arbitrary Python instruction: the code objects are never executed."""

_ONE_INSTRUCTION: Final = 0x80 | 14 << 3
"""The first byte of an entry of a line table, in the long form, for one instruction."""


def _varint(value: int) -> bytes:
    """Encode a number for a line table: 6 bits per byte, the lowest bits first."""
    encoded = bytearray()
    while value > 0x3F:
        encoded.append(0x40 | value & 0x3F)
        value >>= 6
    encoded.append(value)
    return bytes(encoded)


@lru_cache(maxsize=4096)
def _entry(step: int, column: int) -> bytes:
    """Encode an entry of a line table.

    Args:
        step: the line number minus the line number of the previous entry.
        column: the column, counted from 1.
    """
    line = _varint(abs(step) << 1 | (step < 0))
    end_line = b"\0"  # relative to `line`
    return b"%c%b%b%b%b" % (_ONE_INSTRUCTION, line, end_line, _varint(column), _varint(column + 1))


def code_of_places(
    file: str, lines: Sequence[int], columns: Sequence[int], function: str
) -> CodeType:
    """Return a code object with one instruction for each line, `WIDTH` apart.

    Args:
        file: the name of the file.
        lines, columns: the position of each instruction, counted from 1; at least one position.
        function: the name of the function.

    The format of line tables is described in Objects/locations.md of CPython's source.
    """
    first = lines[0]
    table = map(_entry, map(sub, lines, (first, *lines)), columns)
    return _EMPTY.replace(
        co_code=_INSTRUCTION * len(lines),
        co_filename=file,
        co_firstlineno=first,
        co_name=function,
        co_qualname=function,
        co_linetable=b"".join(table),
    )


class Place(NamedTuple):
    """The source line, the name and the type in the location of an operation.

    Attributes:
        code: a code object that has the source line; None if the location has no source line.
        offset: the offset of the source line in the code object.
        name: the name in the location, or None.
        op_type: the type in the location, or None.
    """

    code: CodeType | None
    offset: int
    name: str | None
    op_type: str | None


_PLACE: Final = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)')
# A name is around the place, or fused with it in modules converted from HLO.
_NAME: Final = re.compile(r'loc\((?:fused\[)?"((?:[^"\\]|\\.)*)"(?=\(|\)$|, ")')
# As XLA writes them, a type is a name with a colon at its end, before the name.
_NAME_AFTER_TYPE: Final = re.compile(r'(?:\(|, )"((?:[^"\\]|\\.)*)"(?!:)')
_LAST_LINE: Final = (1 << 31) - 2


class UnboundedSizeError(Exception):
    """A module has an unbounded size, and must be refined by `refinement` before its import."""


class Tables:
    """The caches of the import of one module.

    Args:
        may_refine: whether to raise `UnboundedSizeError` for an unbounded size.

    Attributes:
        arguments: the arguments of public ops, by importer and attributes.
        decompositions: the computations of decomposed operations.
        elements: the arrays of recorded constants, by attribute.
        foreign: the results of `annotations.foreign_names`, by operation name and attribute names.
        function: the name of the function that is being imported, for the source lines of its ops.
        importers: the importers used so far, by operation name.
        inlined_functions: the functions of inlined calls (`control_flow.inlined_call`), by number.
        python_functions: the Python functions that the module calls, by number.
    """

    __slots__ = (
        "_may_refine",
        "_places",
        "_shapes",
        "_values",
        "arguments",
        "decompositions",
        "elements",
        "foreign",
        "function",
        "importers",
        "inlined_functions",
        "python_functions",
    )

    def __init__(self, *, may_refine: bool = False) -> None:
        self.arguments: dict[tuple[Any, ...], dict[str, Any]] = {}
        self.elements: dict[ir.Attribute, np.ndarray[Any, Any]] = {}
        self.foreign: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {}
        self.function = "main"
        self.importers: dict[str, Importer] = {}
        self.inlined_functions: Sequence[Any] = ()
        self.decompositions: dict[Any, XlaComputation] = {}
        self.python_functions: Sequence[PythonFunction] = ()
        self._may_refine = may_refine
        self._shapes: dict[ir.Type, Shape] = {}
        self._places: dict[ir.Attribute, Place] = {}
        self._values: dict[ir.Attribute, Any] = {}

    def shape(self, value_type: ir.Type) -> Shape:
        """Return the shape of a value of this type.

        Raises:
            LoweringError: XLA has no such type.
            UnboundedSizeError: the type has an unbounded size, and `may_refine` is true.
        """
        shape = self._shapes.get(value_type)
        if shape is None:
            if isinstance(value_type, ir.TupleType):
                types = [value_type.get_type(i) for i in range(value_type.num_types)]
                shape = TupleShape([self.shape(element) for element in types])
            else:
                shape = shape_of_type(value_type)
            self._shapes[value_type] = shape
            if isinstance(shape, ArrayShape) and not shape.is_bounded:
                self.need_sizes()
        return shape

    def need_sizes(self) -> None:
        """Raise `UnboundedSizeError` if `may_refine` is true."""
        if self._may_refine:
            raise UnboundedSizeError

    def place(self, location: ir.Location) -> Place:
        """Return the `Place` of an operation or an argument with this location."""
        # By attribute: equal locations have different hashes.
        place = self._places.get(location.attr)
        if place is None:
            self._find_places((location,))
            place = self._places[location.attr]
        return place

    def find_places(self, operations: Sequence[ir.Operation]) -> None:
        """Cache the `Place` of each operation; up to `MOST_PLACES` lines share a code object."""
        for start in range(0, len(operations), MOST_PLACES):
            part = operations[start : start + MOST_PLACES]
            self._find_places(operation.location for operation in part)

    def _find_places(self, locations: Iterable[ir.Location]) -> None:
        files: dict[str, dict[ir.Attribute, tuple[int, int, _Names]]] = {}
        for location in locations:
            key = location.attr
            if key in self._places:
                continue
            text = str(location)
            match, names = _PLACE.search(text), _names_in(text)
            line = 0 if match is None else int(match[2])
            if match is None or not line:
                self._places[key] = Place(None, 0, *names)
                continue
            # Line numbers of Python have 32 bits, and may be larger in a damaged file.
            position = min(line, _LAST_LINE), max(int(match[3]), 1), names
            files.setdefault(unescaped(match[1]), {})[key] = position
        for file, positions in files.items():
            lines, columns, names_of_keys = zip(*positions.values(), strict=True)
            code = code_of_places(file, lines, columns, self.function)
            for number, (key, of_key) in enumerate(zip(positions, names_of_keys, strict=True)):
                self._places[key] = Place(code, number * WIDTH, *of_key)

    def value(self, attribute: ir.Attribute) -> Any:
        """Return the value of an attribute; see `attribute_value`."""
        try:
            return self._values[attribute]
        except KeyError:
            value = self._values[attribute] = attribute_value(attribute)
            return value


def name_of(location: ir.Location) -> str | None:
    """Return the name in an MLIR location; None if the location has no name."""
    return _names_in(str(location))[0]


_Names = tuple[str | None, str | None]
"""The name and the type in a location."""


def _names_in(location: str) -> _Names:
    match = _NAME.match(location)
    if match is None:
        return None, None
    name = unescaped(match[1])
    if TYPE_END in name:  # from HLO
        op_type, _, name = name.partition(TYPE_END)
        return name, op_type
    inner = _NAME_AFTER_TYPE.match(location, match.end()) if name.endswith(":") else None
    if inner is not None:
        return unescaped(inner[1]) or None, name[:-1]
    return name, None
