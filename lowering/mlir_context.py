"""The MLIR context and what is cached in it: types, attributes, locations.

A context with all dialects costs 2 ms to make and never frees what it has uniqued, constants
included. So one context is shared by all modules, until the constants given to it are large
together: then the next one is begun, and the old one goes with the last module in it. A module with
large constants gets a context of its own at once.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Final

from jaxlib.mlir import ir

from builder.shape import ArrayShape, TokenShape
from builder.xla_op import XlaOp, resolve_position
from lowering import jaxlib_api
from lowering.types import mlir_type

__all__ = ["MlirContext", "encodable", "shared_context"]


def encodable(text: str) -> str:
    """The text with question marks for what UTF-8, which MLIR speaks, can't say."""
    return text.encode("utf-8", "replace").decode()


class _Types(dict[Any, ir.Type]):
    """Shape -> MLIR type; a look-up that succeeds is a plain dict's."""

    __slots__ = ("context",)

    def __init__(self, context: ir.Context) -> None:
        super().__init__()
        self.context = context

    def __missing__(self, shape: ArrayShape | TokenShape) -> ir.Type:
        found = self[shape] = mlir_type(shape, self.context)
        return found


class MlirContext:
    """An MLIR context with its caches.

    Attributes:
        context: the MLIR context, all dialects loaded.
        locations: the file location of each (id of a code object, offset), beside the code object
            itself, whose id must stay its own.
        constant_bytes: how many bytes of constants it was asked for, as far as it is shared.
        types: the MLIR type of each array or token shape, made when first asked for.
        unknown_location: the location of what the library itself adds.
    """

    __slots__ = (
        "__weakref__",
        "_attributes",
        "constant_bytes",
        "context",
        "locations",
        "types",
        "unknown_location",
    )

    def __init__(self) -> None:
        self.context: Final = jaxlib_api.new_context()
        self.types: Final = _Types(self.context)
        self.unknown_location: Final[ir.Location] = ir.Location.unknown(self.context)
        self.constant_bytes = 0
        self._attributes: dict[Any, ir.Attribute] = {}
        self.locations: dict[tuple[int, int], tuple[Any, ir.Location]] = {}

    def location(self, op: XlaOp) -> ir.Location:
        """Where the op was recorded, and its name if it has one."""
        code = op.code
        if code is None:
            place: ir.Location = self.unknown_location
        else:
            # By identity: hashing a code object would hash its constants.
            key = (id(code), op.lasti)
            entry = self.locations.get(key)
            if entry is None:
                if len(self.locations) > 1_000_000:
                    self.locations.clear()
                line, column = resolve_position(code, op.lasti)
                file = encodable(code.co_filename)
                place = ir.Location.file(file, line, column, self.context)
                self.locations[key] = (code, place)
            else:
                place = entry[1]
        if op.name is not None:
            return ir.Location.name(encodable(str(op.name)), place, self.context)
        return place

    def i64_array(self, values: tuple[int, ...]) -> ir.Attribute:
        """`array<i64: ...>`, the form of most lists of dimensions."""
        found = self._attributes.get(values)
        if found is None:
            found = self._attributes[values] = ir.DenseI64ArrayAttr.get(values, self.context)
        return found

    def parsed(self, text: str) -> ir.Attribute:
        """An attribute from its MLIR text, for the rarer kinds."""
        found = self._attributes.get(text)
        if found is None:
            found = self._attributes[text] = ir.Attribute.parse(text, self.context)
        return found

    def i64(self, value: int) -> ir.Attribute:
        """A 64-bit integer attribute."""
        return self.parsed(f"{value} : i64")

    def i32(self, value: int) -> ir.Attribute:
        """A 32-bit integer attribute."""
        return self.parsed(f"{value} : i32")

    def string(self, value: str) -> ir.Attribute:
        """A string attribute."""
        return ir.StringAttr.get(encodable(value), self.context)

    def array(self, values: Sequence[ir.Attribute]) -> ir.Attribute:
        """An array attribute."""
        return ir.ArrayAttr.get(list(values), self.context)

    def dictionary(self, values: dict[str, ir.Attribute]) -> ir.Attribute:
        """A dictionary attribute."""
        return ir.DictAttr.get(values, self.context)


_LOCK: Final = threading.Lock()
_SHARED: list[MlirContext] = []


MAX_SHARED_BYTES: Final = 64 << 20
"""How many bytes of constants the shared context is given before the next one is begun."""


def shared_context(constant_bytes: int = 0) -> MlirContext:
    """The context that modules share now.

    Args:
        constant_bytes: how large the constants are that will be made in it.
    """
    with _LOCK:
        if not _SHARED or _SHARED[0].constant_bytes + constant_bytes > MAX_SHARED_BYTES:
            _SHARED[:] = [MlirContext()]
        shared = _SHARED[0]
        shared.constant_bytes += constant_bytes
        return shared
