"""Operations of CHLO and MHLO, from the forms that portable artifacts have of them."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

from lowering.legalize.op_builder import OpBuilder
from lowering.legalize.registry import ALL_PLATFORMS, INTERPRETER, REWRITES, Value, rewrite
from lowering.mlir.types import attribute_text


@rewrite("stablehlo.composite", platforms=ALL_PLATFORMS)
def composite(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Make the operation of CHLO that a composite was written for, if it has rewrites.

    XLA makes the operation too, after the rewrites.
    """
    return _made(b, operation, "chlo.", "name", "composite_attributes")


@rewrite("stablehlo.custom_call", platforms=(*ALL_PLATFORMS, INTERPRETER))
def custom_call(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Make the operation of MHLO that a custom call was written for, if it has rewrites.

    XLA makes some of them, but not top_k of the smallest elements.
    """
    return _made(b, operation, "mhlo.", "call_target_name", "mhlo.attributes")


def _made(
    b: OpBuilder, operation: ir.Operation, dialect: str, name_in: str, attributes_in: str
) -> list[Value] | None:
    """The results of the operation; None for other composites and custom calls.

    Those with lists among their attributes (ragged_dot) stay: the operation has other attributes.
    """
    name = attribute_text(operation.attributes[name_in]) or ""
    if not (name.startswith(dialect) and any(name in one.names for one in REWRITES)):
        return None
    attributes = {}
    if attributes_in in operation.attributes:
        given: Any = operation.attributes[attributes_in]
        attributes = {entry.name: given[entry.name] for entry in given}
    if any(isinstance(value, ir.ArrayAttr) for value in attributes.values()):
        return None
    types = [result.type for result in operation.results]
    return list(b.create(name, types, operation.operands, attributes).results)
