"""The tables of importers, by the name of the MLIR operation.

An importer calls a public op, so shape inference runs again; `Scope` compares the inferred shape
with the type in the file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from jaxlib.mlir import ir

from builder.graph.xla_op import XlaOp
from builder.support.registration import registrar

if TYPE_CHECKING:
    Value = ir.Value[Any]
else:
    Value = ir.Value
"""An MLIR value: a block argument, or a result of an operation."""

Imported = XlaOp | Sequence[XlaOp | None]
"""The value of an operation, a tuple if it has several results; or the value of each result, None
for results that are not used."""

Importer = Callable[..., Imported]
"""Records an operation: takes the scope, the operation and its operands."""

IMPORTERS: Final[dict[str, Importer]] = {}
"""The importers written by hand, by operation name. They precede importers derived from schemas."""

DECOMPOSITIONS: Final[dict[str, Importer]] = {}
"""The importers of operations that no op has a schema for: jaxlib decomposes the operations."""

importer = registrar(IMPORTERS)
"""Register the decorated function as the importer of these operations."""
