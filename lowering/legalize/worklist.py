"""Apply rewrites to a module until no rewrite matches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from jaxlib.mlir import ir

from builder.sharding.text import as_per_value, leaf_texts
from lowering.errors import LoweringError
from lowering.legalize.op_builder import OpBuilder
from lowering.legalize.registry import Rewrite, Target, Value
from lowering.mlir.operations import attribute_text, enclosing, operations_in, place_of
from lowering.mlir.types import UnsupportedTypeError
from lowering.sharding.texts import SHARDINGS, sharding_attribute

_FRONTEND_ATTRIBUTES: Final = "mhlo.frontend_attributes"


def mentions_any(strings: bytes, table: Mapping[str, Sequence[Rewrite]]) -> bool:
    """Whether a module may contain an operation that a rewrite in `table` matches.

    Args:
        strings: the string section of the module's bytecode.
        table: rewrites by operation name.
    """
    return any(name.partition(".")[2].encode() + b"\0" in strings for name in table)


def apply_rewrites(
    target: Target,
    module: ir.Operation,
    table: Mapping[str, Sequence[Rewrite]],
    *,
    revisit: bool = True,
) -> bool:
    """Apply rewrites to a module, in place.

    Operations are visited in program order, operations in regions before the enclosing one. The
    operations that a rewrite creates are visited next. The rewrite is not applied to them again,
    nor are the rewrites that created the operation that it replaced. So the loop ends even if a
    rewrite emits operations that it matches.

    Args:
        target: what the module is compiled for.
        module: the module's operation.
        table: the rewrites by operation name, in the order in which they are tried.
        revisit: whether the operations that a rewrite creates are visited.

    Returns:
        Whether the module changed.

    Raises:
        LoweringError: an operation has a type that XLA does not have.
    """
    no_rewrites: frozenset[Rewrite] = frozenset()
    pending = [(operation, no_rewrites) for operation in reversed(operations_in(module, table))]
    changed = False
    with module.context:
        while pending:
            operation, origins = pending.pop()
            for candidate in table[operation.name]:
                if candidate in origins:
                    continue
                target.created = []
                try:
                    values = candidate.apply(OpBuilder(target, operation), operation)
                except UnsupportedTypeError as error:
                    op = operation.name.partition(".")[2]
                    where = place_of(operation)
                    raise LoweringError(
                        f"{op}{where} has operands that XLA does not support: {error}",
                        context=(target.name,),
                        fix="use arrays of XLA's element types, without an encoding",
                    ) from None
                if values is None:
                    continue
                changed = True
                lineage = origins | {candidate}
                if revisit:
                    created = [new for new in target.created if new.name in table]
                    pending += [(new, lineage) for new in reversed(_nested_first(created))]
                if not isinstance(values, ir.OpResultList) or values.owner != operation:
                    _replace(operation, values, target.created)
                    break
                # Changed in place: other rewrites may match it as well.
                origins = lineage
    return changed


def _nested_first(operations: list[ir.Operation]) -> list[ir.Operation]:
    """Sort operations, the deepest first: a rewrite also replaces the operations in regions."""
    return sorted(operations, key=lambda one: sum(1 for _ in enclosing(one)), reverse=True)


def _replace(operation: ir.Operation, values: Sequence[Value], created: list[ir.Operation]) -> None:
    """Replace the results of an operation by `values`, and erase the operation.

    Its sharding and frontend attributes move to the new operations that define `values`. Other new
    operations do not get these attributes, because the shapes of their results may differ.
    """
    if any(name in operation.attributes for name in (*SHARDINGS, _FRONTEND_ATTRIBUTES)):
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
    has_same_results = (
        len({*owners}) == 1 and owners[0] is not None and len(owners[0].results) == len(values)
    )
    for position, owner in enumerate(owners):
        if owner is None or owner not in created:
            continue
        if _FRONTEND_ATTRIBUTES in attributes:
            owner.attributes[_FRONTEND_ATTRIBUTES] = attributes[_FRONTEND_ATTRIBUTES]
        for name in SHARDINGS:
            if name not in attributes:
                continue
            if has_same_results:
                owner.attributes[name] = attributes[name]
            elif len(owner.results) == 1:
                text = attribute_text(attributes[name]) or str(attributes[name])
                leaf = leaf_texts(text, len(values))[position]
                for key, sharding in sharding_attribute(as_per_value(leaf)).items():
                    owner.attributes[key] = ir.Attribute.parse(sharding)
