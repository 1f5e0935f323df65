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
"""What an importer returns: one op, a tuple if the operation has several results; or a list with an
op for each result, None for an unused result."""

Importer = Callable[..., Imported]
"""A function that records an operation: takes the scope, the operation and its operands."""

IMPORTERS: Final[dict[str, Importer]] = {}
"""Handwritten importers, by operation name. They take precedence over derived importers."""

DECOMPOSITIONS: Final[dict[str, Importer]] = {}
"""Importers of operations without a schema, by operation name: jaxlib decomposes the operations."""

importer = registrar(IMPORTERS)
"""A decorator that registers a function as the importer of the named operations."""
