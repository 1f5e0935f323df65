"""Caches of one import: shapes by type, places by location, values by attribute."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from types import CodeType
from typing import Any, Final, TypeVar

import numpy as np
from jaxlib.mlir import ir

from builder.graph.computation import XlaComputation
from builder.types.shape import ArrayShape, Shape, TupleShape
from lowering.host.callbacks import PythonFunction
from lowering.importer.registry import Importer
from lowering.importer.source_lines import MOST_PLACES, WIDTH, code_of_places
from lowering.mlir.types import attribute_text, shape_of_type

__all__ = ["OpenSizeError", "Place", "Tables", "decoded", "name_of"]

T = TypeVar("T")

Place = tuple[CodeType | None, int, str | None]
"""A code object and the offset in it of an operation's source line, and the operation's name."""

_PLACE: Final = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)')
# A name is around the place, or, of what was HLO, fused with it.
_NAME: Final = re.compile(r'loc\((?:fused\[)?"((?:[^"\\]|\\.)*)"(?:\(|\)$|, ")')
_LAST_LINE: Final = (1 << 31) - 2
_CASE: Final = re.compile(r"#(?:stablehlo|chlo|mhlo)<\w+ (\w+)>")
_ESCAPE: Final = re.compile(rb"\\([0-9A-Fa-f]{2}|.)", re.DOTALL)


class OpenSizeError(Exception):
    """A module that has not been refined yet leaves a size open: see `refinement`."""


class Tables:
    """The caches of the import of one module.

    Args:
        may_refine: whether to raise `OpenSizeError` where a size is left open.

    Attributes:
        arguments: the arguments of public ops, by importer and attributes.
        elements: the arrays of constants that were recorded, by their attributes.
        foreign: the names of an operation's attributes that are not its own, by its name and the
            names of all its attributes (see `annotations.foreign_names`).
        function: the name of the function that is being read, for the source lines of its ops.
        importers: the importers of operations that were used, by operation name.
        others: the computations that were made of operations that XLA lacks.
        python_functions: those that the module calls, by their numbers.
    """

    __slots__ = (
        "_may_refine",
        "_places",
        "_shapes",
        "_values",
        "arguments",
        "elements",
        "foreign",
        "function",
        "importers",
        "others",
        "python_functions",
    )

    def __init__(self, *, may_refine: bool = False) -> None:
        self.arguments: dict[tuple[Any, ...], dict[str, Any]] = {}
        self.elements: dict[ir.Attribute, np.ndarray[Any, Any]] = {}
        self.foreign: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {}
        self.function = "main"
        self.importers: dict[str, Importer] = {}
        self.others: dict[Any, XlaComputation] = {}
        self.python_functions: Sequence[PythonFunction] = ()
        self._may_refine = may_refine
        self._shapes: dict[ir.Type, Shape] = {}
        self._places: dict[ir.Attribute, Place] = {}
        self._values: dict[ir.Attribute, Any] = {}

    def shape(self, kind: ir.Type) -> Shape:
        """The shape of a value of this type.

        Raises:
            LoweringError: XLA has no such type.
            OpenSizeError: it leaves a size open, which it need not.
        """
        found = self._shapes.get(kind)
        if found is None:
            if isinstance(kind, ir.TupleType):
                found = TupleShape([self.shape(kind.get_type(i)) for i in range(kind.num_types)])
            else:
                found = shape_of_type(kind)
            self._shapes[kind] = found
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
        """The place of an operation or an argument with this location."""
        found = self._places.get(location.attr)
        if found is None:
            self._find_places((location,))
            found = self._places[location.attr]
        return found

    def find_places(self, operations: Sequence[ir.Operation]) -> None:
        """Find the places of operations together.

        One code object for many lines takes less memory than one for each line.
        """
        for begin in range(0, len(operations), MOST_PLACES):
            self._find_places(one.location for one in operations[begin : begin + MOST_PLACES])

    def _find_places(self, locations: Iterable[ir.Location]) -> None:
        files: dict[str, dict[ir.Attribute, tuple[int, int, str | None]]] = {}
        for location in locations:
            # By the attribute: two locations that are equal have different hashes.
            key = location.attr
            if key in self._places:
                continue
            text = str(location)
            where, name = _PLACE.search(text), _name_in(text)
            line = 0 if where is None else int(where[2])
            if where is None or not line:
                self._places[key] = None, 0, name
                continue
            # Python's numbers of lines have 32 bits, and a damaged file's any.
            found = min(line, _LAST_LINE), max(int(where[3]), 1), name
            files.setdefault(_unescaped(where[1]), {})[key] = found
        for file, places in files.items():
            lines, columns, _ = zip(*places.values(), strict=True)
            code = code_of_places(file, lines, columns, self.function)
            for index, (key, (_, _, name)) in enumerate(places.items()):
                self._places[key] = code, index * WIDTH, name

    def value(self, attribute: ir.Attribute) -> Any:
        """What an attribute says; see `decoded`."""
        try:
            return self._values[attribute]
        except KeyError:
            found = self._values[attribute] = decoded(attribute)
            return found


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


def name_of(location: ir.Location) -> str | None:
    """The name in a location."""
    return _name_in(str(location))


def _name_in(location: str) -> str | None:
    found = _NAME.match(location)
    return None if found is None else _unescaped(found[1])


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
