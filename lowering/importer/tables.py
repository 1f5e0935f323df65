"""What types, locations and attributes of a module mean, each looked at once."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import repeat
from types import CodeType
from typing import Any, Final, TypeVar

import numpy as np
from jaxlib.mlir import ir

from builder.computation import XlaComputation
from builder.foreign_source import MOST_PLACES, WIDTH, code_at, code_of_places
from builder.shape import ArrayShape, Shape, TupleShape
from lowering.host_calls import PythonFunction
from lowering.importer.bodies import Body
from lowering.importer.outline import Outline
from lowering.importer.registry import ALIKE, IMPORTERS, PLAIN
from lowering.types import attribute_text, shape_of_type

__all__ = ["OpenSizeError", "Place", "Tables", "decoded", "place_of"]

T = TypeVar("T")

Place = tuple[CodeType | None, int, str | None]
"""Where an operation is from: a code object, the offset in it of what stands there, and the name it
was given."""

_PLACE: Final = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)')
# A name is around the place, or, of what was HLO, fused with it.
_NAME: Final = re.compile(r'loc\((?:fused\[)?"((?:[^"\\]|\\.)*)"(?:\(|\)$|, ")')
_CONSTANT: Final = "stablehlo.constant"
_DRAWN: Final = "stablehlo.rng"
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
        alike: of each number of an operation's name whether `made` knows such operations.
        made: opcode, shape and attributes of ops that were recorded, by all that they hang on but
            for the values of their operands (see `registry.ALIKE`).
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
        "alike",
        "elements",
        "function",
        "importers",
        "known",
        "made",
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
        self.alike = [
            name in PLAIN or (name in ALIKE and not (name == _CONSTANT and _DRAWN in outline.names))
            for name in outline.names
        ]
        self.made: dict[tuple[Any, ...], tuple[str, Shape, Mapping[str, Any]]] = {}
        self.known: dict[tuple[int, int, int], dict[Any, Any]] = defaultdict(dict)
        self.numbered_places: dict[int, Place] = {-1: (None, 0, None)}
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
            code, name = _place(str(location), self.function)
            found = self.places[key] = code, 0, name
        return found

    def numbered_place(self, body: Body, position: int) -> Place:
        """The same of the operation in this position."""
        number = body.entries[position][1]
        found = self.numbered_places.get(number)
        if found is None:
            self._find_places([one[1] for one in body.entries[position : position + MOST_PLACES]])
            found = self.numbered_places.get(number)
        if found is None:
            found = self.place(body.operation(position).location)
            self.numbered_places[number] = found
        return found

    def argument_place(self, body: Body, position: int) -> Place:
        """The same of an argument."""
        number = body.argument_places[position]
        found = self.numbered_places.get(number)
        if found is None:
            self._find_places(body.argument_places[position : position + MOST_PLACES])
            found = self.numbered_places.get(number)
        if found is None:
            found = self.place(body.arguments[position].location)
            self.numbered_places[number] = found
        return found

    def find_places(self, bodies: Iterable[Body]) -> None:
        """Finds the places of the operations in the bodies of one function, as far as that can be
        done for many at once. By themselves small bodies take four times as long.
        """
        numbers = [entry[1] for body in bodies for entry in body.entries]
        for begin in range(0, len(numbers), MOST_PLACES):
            self._find_places(numbers[begin : begin + MOST_PLACES])

    def _find_places(self, numbers: Iterable[int]) -> None:
        """Finds what locations say, as far as the outline knows and as they are of one file.

        In a text each operation has a line of its own, and one code object for many lines spares
        3 us an operation.
        """
        known, outline = self.numbered_places, self.outline
        file = b""
        together: dict[int, tuple[int, int, bytes | None]] = {}
        new = list(dict.fromkeys(numbers))
        if not known.keys().isdisjoint(new):
            new = [number for number in new if number not in known]
        plain = outline.places(new)
        if plain is not None:
            # As in a text without names, where it takes a third of the time.
            file, lines, columns = plain
            if 1 <= min(lines) <= max(lines) <= _LAST_LINE and min(columns) >= 1:
                code = code_of_places(_read(file), lines, columns, self.function)
                offsets = range(0, WIDTH * len(new), WIDTH)
                known.update(zip(new, zip(repeat(code), offsets, repeat(None)), strict=False))
                return
        for number in new:
            said = outline.place(number)
            if said is None:
                continue
            of_file, line, column, name = said
            if not line:
                known[number] = None, 0, None if name is None else _read(name)
                continue
            if together and of_file != file:
                break
            file = of_file
            together[number] = min(line, _LAST_LINE), max(column, 1), name
        if together:
            lines = [line for line, _, _ in together.values()]
            columns = [column for _, column, _ in together.values()]
            code = code_of_places(_read(file), lines, columns, self.function)
            for index, (number, (_, _, name)) in enumerate(together.items()):
                known[number] = code, index * WIDTH, None if name is None else _read(name)

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


def place_of(location: ir.Location) -> tuple[CodeType | None, str | None]:
    """Where a location is, and its name, for who looks at a few only."""
    return _place(str(location), "main")


def _place(text: str, function: str) -> tuple[CodeType | None, str | None]:
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
