"""Operations of CHLO that are no ops here, or several: broadcasts that are implied, functions."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
from jaxlib.mlir import ir

import builder as xb
from builder.graph.xla_op import XlaOp
from builder.types.shape import ArrayShape
from lowering.importer.constants import constant
from lowering.importer.decompositions import call_in_other_words
from lowering.importer.registry import IMPORTERS, PLAIN, Imported, importer
from lowering.importer.scope import Scope, failure
from lowering.jaxlib_api import artifacts

PLAIN.update({f"chlo.{name}": getattr(xb, name) for name in ("conj", "mulhi", "square")})

IMPORTERS["chlo.constant"] = constant

_IMPLIED: Final = (
    "add",
    "and",
    "atan2",
    "complex",
    "divide",
    "maximum",
    "minimum",
    "multiply",
    "or",
    "power",
    "remainder",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
    "subtract",
    "xor",
)
"""Operations whose operands chlo.broadcast_* broadcasts, as the ops here do by themselves."""


@importer(*(f"chlo.broadcast_{name}" for name in _IMPLIED))
def broadcasting(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    op: Any = PLAIN[f"stablehlo.{operation.name.removeprefix('chlo.broadcast_')}"]
    found: XlaOp = op(*operands, _places(scope, operation, operands))
    return found


@importer("chlo.broadcast_compare")
def broadcast_compare(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    lhs, rhs = operands
    direction = scope.attribute(operation, "comparison_direction")
    places = _places(scope, operation, operands)
    total_order = scope.attribute(operation, "compare_type") == "TOTALORDER"
    return xb.compare(lhs, rhs, direction, places, total_order=total_order)


def _places(
    scope: Scope, operation: ir.Operation, operands: list[XlaOp]
) -> tuple[int, ...] | range | None:
    """Which dimensions of the larger operand the smaller one has: the last, unless it is said."""
    said: tuple[int, ...] | None = scope.attribute(operation, "broadcast_dimensions")
    ranks = [op.shape.rank for op in operands if isinstance(op.shape, ArrayShape)]
    if said is not None or min(ranks) == max(ranks):
        return said
    return range(max(ranks) - min(ranks), max(ranks))


@importer("chlo.broadcast_select")
def broadcast_select(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    whole = scope.result_shape(operation)
    assert isinstance(whole, ArrayShape)  # MLIR's verifier has said so
    sizes, same = whole.dimensions, []
    for op in operands:
        assert isinstance(op.shape, ArrayShape)  # MLIR's verifier has said so
        places = range(whole.rank - op.shape.rank, whole.rank)
        needed = op.shape.dimensions != sizes
        same.append(xb.broadcast_in_dim(op, sizes, places) if needed else op)
    return xb.select(*same)


@importer("chlo.atan")
def atan(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    shape = scope.result_shape(operation)
    if isinstance(shape, ArrayShape) and shape.element_type.is_complex:
        # xb.atan is an atan2, as XlaBuilder has it, and less exact than what CHLO means.
        return function(scope, operation, operands)
    return xb.atan(operands[0])


@importer("chlo.is_inf")
def is_inf(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    return xb.eq(xb.abs(operands[0]), float("inf"))


@importer("chlo.is_pos_inf")
def is_pos_inf(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    return xb.eq(operands[0], float("inf"))


@importer("chlo.is_neg_inf")
def is_neg_inf(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    return xb.eq(operands[0], float("-inf"))


_COMPLEX: Final = re.compile(r"#complex\.number<:\w+ (\S+), (\S+)>.*")


@importer("chlo.constant_like")
def constant_like(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    shape, value = scope.result_shape(operation), scope.attribute(operation, "value")
    assert isinstance(shape, ArrayShape)  # MLIR's verifier has said so
    parts = _COMPLEX.fullmatch(str(value))
    try:
        number = value if parts is None else complex(float(parts[1]), float(parts[2]))
        one = np.array(number).astype(shape.element_type.dtype)
    except (TypeError, ValueError):
        raise failure(operation, f"{value} is not read as a number") from None
    return scope.builder.constant(np.broadcast_to(one, shape.dimensions))


@importer(
    "chlo.bessel_i1e",
    "chlo.broadcast_next_after",
    "chlo.broadcast_polygamma",
    "chlo.broadcast_zeta",
    "chlo.digamma",
    "chlo.erf_inv",
    "chlo.erfc",
    "chlo.lgamma",
    "chlo.next_after",
    "chlo.polygamma",
    "chlo.zeta",
)
def function(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    return call_in_other_words(scope, operation, operands, artifacts.decomposed)
