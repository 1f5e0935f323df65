"""The tables of importers: from the name of an MLIR operation to what records it.

An importer is the way back of a rule in the module of the same name in `lowering/stablehlo/rules`.
It goes through the public op, so that shape inference runs again; the caller compares the result's
shape with the type in the file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from jaxlib.mlir import ir

from builder.graph.xla_op import XlaOp

__all__ = ["DECOMPOSITIONS", "IMPORTERS", "Imported", "Importer", "Value", "importer"]

if TYPE_CHECKING:
    Value = ir.Value[Any]
else:
    Value = ir.Value
"""An MLIR value: an argument of a block, or a result of an operation."""

Imported = XlaOp | Sequence[XlaOp | None]
"""The value of an operation, or one for each of its results; None for one that is not used."""

Importer = Callable[..., Imported]
"""Records an operation: takes the scope, the operation and its operands."""

IMPORTERS: Final[dict[str, Importer]] = {}
"""The importers written by hand, by operation name. They precede importers derived from schemas."""

DECOMPOSITIONS: Final[dict[str, Importer]] = {}
"""The importers of operations that no op has a schema for: jaxlib decomposes the operations."""

_T = TypeVar("_T", bound=Callable[..., Any])


def importer(*names: str) -> Callable[[_T], _T]:
    """Enters the decorated function for MLIR operations of these full names."""

    def enter(function: _T) -> _T:
        for name in names:
            IMPORTERS[name] = function
        return function

    return enter
