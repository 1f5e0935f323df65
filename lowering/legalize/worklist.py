"""Applying rewrites to a module until none of them changes anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from jaxlib.mlir import ir

from builder.sharding.text import as_per_value, leaf_texts
from lowering.legalize.op_builder import OpBuilder
from lowering.legalize.registry import Rewrite, Target, Value
from lowering.mlir.types import attribute_text
from lowering.sharding.attributes import GSPMD, SHARDY, sharding_attribute

__all__ = ["apply_rewrites", "mentions_any"]

_FRONTEND_ATTRIBUTES: Final = "mhlo.frontend_attributes"


def mentions_any(words: bytes, table: Mapping[str, Sequence[Rewrite]]) -> bool:
    """Whether a module may hold operations of these names.

    Args:
        words: the strings in the module's bytecode.
        table: rewrites by operation name.
    """
    return any(name.partition(".")[2].encode() + b"\0" in words for name in table)


def apply_rewrites(
    target: Target,
    module: ir.Operation,
    table: Mapping[str, Sequence[Rewrite]],
    *,
    revisit: bool = True,
) -> bool:
    """Apply rewrites to a module, in place.

    Operations are visited in program order, those in regions before the operation around them.
    What a rewrite creates is visited next, but not by the same rewrite again, nor by one that led
    to it: so a rewrite may emit the operation that it matches, and the work ends.

    Args:
        target: what the module is compiled for.
        module: the module's operation.
        table: the rewrites by operation name, in the order in which they are tried.
        revisit: whether the operations that a rewrite creates are visited.

    Returns:
        Whether the module changed.
    """
    found: list[ir.Operation] = []

    def visit(operation: ir.Operation) -> ir.WalkResult:
        if operation.name in table:
            found.append(operation)
        return ir.WalkResult.ADVANCE

    module.walk(visit)
    found.reverse()
    none: frozenset[Rewrite] = frozenset()
    waiting = [(operation, none) for operation in found]
    changed = False
    with module.context:
        while waiting:
            operation, origins = waiting.pop()
            for one in table[operation.name]:
                if one in origins:
                    continue
                target.created = []
                values = one.apply(OpBuilder(target, operation), operation)
                if values is None:
                    continue
                changed = True
                created = _inside_first(target.created)
                created.reverse()
                lineage = origins | {one}
                if revisit:
                    waiting += [(new, lineage) for new in created if new.name in table]
                if list(values) != list(operation.results) or not values:
                    _replace(operation, values, created)
                    break
                # Changed in place: other rewrites may match it still.
                origins = lineage
    return changed


def _inside_first(operations: list[ir.Operation]) -> list[ir.Operation]:
    """Operations in their order, but those in regions before the ones around them.

    The operation around might be replaced, and they with it.
    """
    if not any(len(one.regions) for one in operations):
        return operations
    return sorted(operations, key=_depth, reverse=True)


def _depth(operation: ir.Operation) -> int:
    """The number of operations around an operation."""
    depth = 0
    parent = operation.parent
    while parent is not None:
        depth += 1
        parent = parent.parent
    return depth


def _replace(operation: ir.Operation, values: Sequence[Value], created: list[ir.Operation]) -> None:
    """Let the users of the results use these values, and erase the operation.

    The sharding and the frontend attributes of the operation go to those that define the values,
    if they are new: not to operations in between, whose shapes may be others.
    """
    if any(name in operation.attributes for name in (GSPMD, SHARDY, _FRONTEND_ATTRIBUTES)):
        _move_annotations(operation, values, created)
    for result, value in zip(operation.results, values, strict=True):
        result.replace_all_uses_with(value)
    operation.erase()


def _move_annotations(
    operation: ir.Operation, values: Sequence[Value], created: list[ir.Operation]
) -> None:
    attributes = operation.attributes
    owners = [
        None if isinstance(value.owner, ir.Block) else value.owner.operation for value in values
    ]
    is_one = len({*owners}) == 1 and owners[0] is not None and len(owners[0].results) == len(values)
    for position, owner in enumerate(owners):
        if owner is None or owner not in created:
            continue
        if _FRONTEND_ATTRIBUTES in attributes:
            owner.attributes[_FRONTEND_ATTRIBUTES] = attributes[_FRONTEND_ATTRIBUTES]
        for name in (GSPMD, SHARDY):
            if name not in attributes:
                continue
            if is_one:
                owner.attributes[name] = attributes[name]
            elif len(owner.results) == 1:
                text = attribute_text(attributes[name]) or str(attributes[name])
                leaf = leaf_texts(text, len(values))[position]
                for key, one in sharding_attribute(as_per_value(leaf)).items():
                    owner.attributes[key] = ir.Attribute.parse(one)
