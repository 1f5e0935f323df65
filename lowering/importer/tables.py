"""What types, locations and attributes of a module mean, each looked at once."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any, Final, TypeVar

import numpy as np
from jaxlib.mlir import ir

from builder.computation import XlaComputation
from builder.foreign_source import code_at
from builder.shape import ArrayShape, Shape, TupleShape
from lowering.host_calls import PythonFunction
from lowering.importer.bodies import Body
from lowering.importer.outline import Outline
from lowering.importer.registry import IMPORTERS, PLAIN
from lowering.types import attribute_text, shape_of_type

__all__ = ["OpenSizeError", "Place", "Tables", "decoded", "place_of"]

T = TypeVar("T")

Place = tuple[CodeType | None, str | None]
"""Where an operation is from: a code object that stands there, and the name it was given."""

_PLACE: Final = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)')
# A name is around the place, or, of what was HLO, fused with it.
_NAME: Final = re.compile(r'loc\((?:fused\[)?"((?:[^"\\]|\\.)*)"(?:\(|\)$|, ")')
_LAST_LINE: Final = (1 << 31) - 2
_CASE: Final = re.compile(r"#(?:stablehlo|chlo|mhlo)<\w+ (\w+)>")
_ESCAPE: Final = re.compile(rb"\\([0-9A-Fa-f]{2}|.)", re.DOTALL)


class OpenSizeError(Exception):
    """A module that has not been refined yet leaves a size open: see `refinement`."""


class Tables:
    """The tables of one module: the same types and locations come again in each operation.

    Args:
        outline: of the module.
        may_refine: whether to raise `OpenSizeError` where a size is left open.

    Attributes:
        elements: the arrays of constants that were recorded.
        outline: that of the module.
        known: what scopes found in attributes, by the numbers of an operation's name, attributes
            and properties.
        plain, importers: of each number of an operation's name what `PLAIN` and `IMPORTERS` have.
        numbered_places: what `place` has found, by the location's number.
        numbered_shapes: the shapes that were compared with a type, by the type's number.
        function: the name of the function that is being read, for the source lines of its ops.
        others: the computations that were made of operations that XLA lacks.
        places: what `place` has found, by the location's attribute.
        python_functions: those that the module calls, by their numbers.
        shapes: what `shape` has found.
    """

    __slots__ = (
        "_may_refine",
        "_readings",
        "_values",
        "elements",
        "function",
        "importers",
        "known",
        "numbered_places",
        "numbered_shapes",
        "others",
        "outline",
        "places",
        "plain",
        "python_functions",
        "shapes",
    )

    def __init__(self, outline: Outline, *, may_refine: bool = False) -> None:
        self.outline = outline
        self.plain = [PLAIN.get(name) for name in outline.names]
        self.importers = [IMPORTERS.get(name) for name in outline.names]
        self.known: dict[tuple[int, int, int], dict[Any, Any]] = defaultdict(dict)
        self.numbered_places: dict[int, Place] = {}
        self.numbered_shapes: dict[int, Shape] = {}
        self.elements: dict[ir.Attribute, np.ndarray[Any, Any]] = {}
        self.function = "main"
        self.others: dict[Any, XlaComputation] = {}
        self.python_functions: Sequence[PythonFunction] = ()
        self._may_refine = may_refine
        self.shapes: dict[ir.Type, Shape] = {}
        self.places: dict[ir.Attribute, Place] = {}
        self._values: dict[ir.Attribute, Any] = {}
        self._readings: dict[tuple[ir.Attribute, Callable[[ir.Attribute], Any]], Any] = {}

    def shape(self, kind: ir.Type) -> Shape:
        """The shape of a value of this type.

        Raises:
            LoweringError: XLA has no such type.
            OpenSizeError: it leaves a size open, which it need not.
        """
        found = self.shapes.get(kind)
        if found is None:
            if isinstance(kind, ir.TupleType):
                found = TupleShape([self.shape(kind.get_type(i)) for i in range(kind.num_types)])
            else:
                found = shape_of_type(kind)
            self.shapes[kind] = found
            if isinstance(found, ArrayShape) and not found.is_bounded:
                self.need_sizes()
        return found

    def need_sizes(self) -> None:
        """Says that something hangs on a size that is left open.

        Raises:
            OpenSizeError: it can be worked out; the module is to be read again then.
        """
        if self._may_refine:
            raise OpenSizeError

    def place(self, location: ir.Location) -> Place:
        """Where an operation of this location is from."""
        # By the attribute: two locations that are equal have different hashes.
        key = location.attr
        found = self.places.get(key)
        if found is None:
            found = self.places[key] = _place(str(location), self.function)
        return found

    def numbered_place(self, number: int, body: Body, position: int) -> Place:
        """The same of the location with this number, which is that of an operation."""
        said = self.outline.place(number)
        if said is None:
            found = self.place(body.operation(position).location)
        else:
            file, line, column, name = said
            code = None
            if line:
                line = min(line, _LAST_LINE)
                code = code_at(_read(file), line, max(column, 1), self.function)
            found = code, None if name is None else _read(name)
        self.numbered_places[number] = found
        return found

    def numbered_shape(self, number: int, body: Body, value: int) -> Shape:
        """The shape of the type with this number, which is that of a value."""
        found = self.numbered_shapes.get(number)
        if found is None:
            found = self.numbered_shapes[number] = self.shape(body.value(value).type)
        return found

    def value(self, attribute: ir.Attribute) -> Any:
        """What an attribute says; see `decoded`."""
        try:
            return self._values[attribute]
        except KeyError:
            found = self._values[attribute] = decoded(attribute)
            return found

    def read(self, attribute: ir.Attribute, reader: Callable[[ir.Attribute], T]) -> T:
        """What a reader of its kind of attributes makes of one."""
        key = attribute, reader
        try:
            found: T = self._readings[key]
        except KeyError:
            found = self._readings[key] = reader(attribute)
        return found


@lru_cache(maxsize=64)
def _read(text: bytes) -> str:
    return text.decode("utf-8", "replace")


def _unescaped(text: str) -> str:
    """The text that stands in quotes in MLIR."""
    if "\\" not in text:
        return text

    def byte(match: re.Match[bytes]) -> bytes:
        said = match.group(1)
        return (
            bytes((int(said, 16),))
            if len(said) == 2
            else {b"n": b"\n", b"t": b"\t"}.get(said, said)
        )

    return _ESCAPE.sub(byte, text.encode()).decode("utf-8", "replace")


def place_of(location: ir.Location) -> Place:
    """Where a location is, for who looks at a few only."""
    return _place(str(location), "main")


def _place(text: str, function: str) -> Place:
    where, name = _PLACE.search(text), _NAME.match(text)
    code = None
    if where is not None:
        file, line, column = _unescaped(where[1]), int(where[2]), int(where[3])
        if line:
            # Python's numbers of lines have 32 bits, and a damaged file's any.
            code = code_at(file, min(line, _LAST_LINE), max(column, 1), function)
    return code, None if name is None else _unescaped(name[1])


def decoded(attribute: ir.Attribute) -> Any:
    """What an attribute says, as Python has it.

    Numbers, Booleans and text as they are; lists as tuples; dictionaries as dicts; arrays of
    elements as NumPy arrays; a symbol as its name; a unit as True; an enumeration as the name of
    the case. Others as they stand in MLIR.
    """
    if isinstance(attribute, ir.DenseI64ArrayAttr | ir.DenseI32ArrayAttr | ir.DenseBoolArrayAttr):
        return tuple(attribute)
    if isinstance(attribute, ir.BoolAttr | ir.IntegerAttr | ir.FloatAttr):
        return attribute.value
    if isinstance(attribute, ir.StringAttr):
        return attribute_text(attribute)
    if isinstance(attribute, ir.FlatSymbolRefAttr):
        return attribute.value
    if isinstance(attribute, ir.UnitAttr):
        return True
    if isinstance(attribute, ir.ArrayAttr):
        return tuple([decoded(one) for one in attribute])
    if isinstance(attribute, ir.DictAttr):
        names = [attribute[i].name for i in range(len(attribute))]
        # (By name. What `attribute[i].attr` has no Python class for ends the process.)
        return {name: decoded(attribute[name]) for name in names}
    if isinstance(attribute, ir.DenseIntElementsAttr):
        return np.array(attribute)
    case = _CASE.fullmatch(str(attribute))
    return attribute if case is None else case[1]
