"""Donation by name: `lowering.compile(..., donate=["state"])`.

The arguments are marked in a copy of the module, as `XlaBuilder.add_buffer_donor` would have had
them marked, so that a module from a file can be compiled with donation too. XLA gives their memory
to results of the same size; where there is none for one, its array stays as it is.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Sequence
from typing import Any

from jaxlib.mlir import ir

from builder.errors import OperandError, brief
from builder.types.shape import ArrayShape, ProgramShape, leaves
from lowering.mlir.donations import DONOR, donated_arguments
from lowering.mlir.flattening import leaf_paths
from lowering.mlir.types import attribute_text

__all__ = ["Parameters", "parameter_numbers", "with_donors"]

Parameters = str | int | Collection[str | int]
"""Parameters by their names or numbers; one alone needs no list."""


def with_donors(module: ir.Module, name: str, shape: ProgramShape, donate: Parameters) -> Any:
    """A copy of a module in which the arrays of some parameters are donated.

    Args:
        module: a verified module; is not changed.
        name: the computation's name, for messages.
        shape: parameters and result as the computation has them.
        donate: the parameters; of a tuple all arrays in it.

    Returns:
        The module's operation with what an `ir.Module` has: body, context, operation. The module
        itself if nothing is donated.

    Raises:
        OperandError: there is no such parameter, or it has no memory that could be taken over.
    """
    names = shape.parameter_names
    wanted = parameter_numbers("compile", "donate", name, names, donate)
    if not wanted:
        return module
    given_away = donated_arguments(module)
    marked: list[int] = []
    first = 0
    for number, (whole, parameter) in enumerate(zip(shape.parameters, names, strict=True)):
        parts = list(zip(leaves(whole), leaf_paths(whole), strict=True))
        for position, (leaf, path) in enumerate(parts, first):
            if number not in wanted:
                continue
            if not isinstance(leaf, ArrayShape) or not leaf.is_static:
                what = "bounded sizes" if isinstance(leaf, ArrayShape) else "no memory"
                raise OperandError(
                    f"compile: only arrays of fixed sizes are donated, got parameter "
                    f"{number} ({parameter}){path} {leaf} of {name}, which has {what}\n"
                    f"fix: leave {parameter!r} out of donate",
                    op="compile",
                    shapes={parameter: whole},
                )
            if position in given_away:
                raise OperandError(
                    f"compile: parameter {number} ({parameter}){path} of {name} is donated "
                    f"already, by the computation itself\n"
                    f"fix: leave {parameter!r} out of donate",
                    op="compile",
                    shapes={parameter: whole},
                )
            marked.append(position)
        first += len(parts)
    copy = module.operation.clone()
    _mark(copy, marked, first)
    return copy


def parameter_numbers(
    op: str, role: str, name: str, names: Sequence[str], given: Any
) -> frozenset[int]:
    """The numbers of the parameters that are named.

    Args:
        op, role: for messages: which function, which of its arguments.
        name: whose parameters they are, for messages.
        names: the parameters' names, in order.
        given: what the argument was given.

    Raises:
        OperandError: no such parameter, one given twice, or neither a name nor a number.
    """
    known = f"the parameters are {', '.join(names)}" if names else f"{name} has none"
    if isinstance(given, str) or hasattr(given, "__index__"):
        given = [given]
    if not isinstance(given, (list, tuple, set, frozenset)):
        example = f"{role}=[{names[0]!r}]" if names else "leave it out"
        raise OperandError(
            f"{op}: {role} must be a list of parameters' names or numbers, got {brief(given)}\n"
            f"fix: {example}",
            op=op,
        )
    found: set[int] = set()
    for one in given:
        if isinstance(one, str):
            count = names.count(one)
            if count != 1:
                reason = (
                    f"there is no parameter {brief(one)} in {name}\nfix: {known}"
                    if not count
                    else f"{brief(one)} is the name of {count} parameters of {name}\n"
                    f"fix: give the numbers of those that are meant"
                )
                raise OperandError(f"{op}: {role}: {reason}", op=op)
            number = names.index(one)
        else:
            try:
                number = -1 if isinstance(one, bool) else operator.index(one)
            except TypeError:
                number = -1
            if not 0 <= number < len(names):
                raise OperandError(
                    f"{op}: {role}: a parameter's name or its number is expected, got "
                    f"{brief(one)}\nfix: {known}, numbered from 0",
                    op=op,
                )
        if number in found:
            raise OperandError(
                f"{op}: {role}: parameter {number} ({names[number]}) of {name} is given twice\n"
                f"fix: give it once",
                op=op,
            )
        found.add(number)
    return frozenset(found)


def _mark(module: Any, positions: Sequence[int], count: int) -> None:
    """Marks arguments of ``@main``, of which there are `count`, as donors."""
    for view in module.regions[0].blocks[0].operations:
        operation = view.operation
        if operation.name == "func.func" and (
            attribute_text(operation.attributes["sym_name"]) == "main"
        ):
            break
    with module.context:
        said: list[dict[str, ir.Attribute]] = [{} for _ in range(count)]
        if "arg_attrs" in operation.attributes:
            for entries, given in zip(
                said, ir.ArrayAttr(operation.attributes["arg_attrs"]), strict=True
            ):
                listed = ir.DictAttr(given)
                named = [listed[number] for number in range(len(listed))]
                entries.update({entry.name: entry.attr for entry in named})
        for position in positions:
            said[position][DONOR] = ir.BoolAttr.get(True)
        operation.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(e) for e in said])
