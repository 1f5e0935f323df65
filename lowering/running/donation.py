"""Donation by name: `lowering.compile(..., donate=["state"])`.

The donated arguments are marked in a copy of the module, as `XlaBuilder.add_buffer_donor` marks
them. So a module from a file can also be compiled with donation. XLA writes results of the same
size to the memory of donated arguments. An argument is not deleted if no result fits its memory.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Collection, Sequence
from typing import Any

from jaxlib.mlir import ir

from builder.errors import OperandError, brief, error_of
from builder.types.shape import ArrayShape, ProgramShape
from lowering.mlir.attributes import DONOR, donated_arguments
from lowering.mlir.operations import argument_attributes, main_function, set_argument_attributes
from lowering.pjrt.host_arrays import named_leaves

Parameters = str | int | Collection[str | int]
"""Names or numbers of parameters; a single name or number needs no list."""


def with_donors(module: ir.Module, name: str, shape: ProgramShape, donate: Parameters) -> Any:
    """Return a copy of a module in which the arrays of some parameters are donated.

    Args:
        module: a verified module, which is not changed.
        name: the computation's name, for messages.
        shape: the computation's parameters and result.
        donate: the parameters; all arrays of a tuple are donated.

    Returns:
        The copy, an ir.Operation that callers use like an ir.Module. `module` itself if nothing is
        donated.

    Raises:
        OperandError: a parameter does not exist, or has no memory that can be donated.
    """
    names = shape.parameter_names
    donated = parameter_numbers("compile", "donate", name, names, donate)
    if not donated:
        return module
    donated_before = donated_arguments(module)
    positions: list[int] = []
    count = 0
    for number, (parameter, parameter_name) in enumerate(zip(shape.parameters, names, strict=True)):
        for place, leaf in named_leaves(f"parameter {number} ({parameter_name})", parameter):
            position, count = count, count + 1
            if number not in donated:
                continue
            reason = ""
            if not isinstance(leaf, ArrayShape) or not leaf.is_static:
                lack = "bounded sizes" if isinstance(leaf, ArrayShape) else "no memory"
                reason = (
                    f"only arrays of fixed sizes can be donated, got {place} {leaf} of {name}, "
                    f"which has {lack}"
                )
            elif position in donated_before:
                reason = f"{place} of {name} is donated already, by the computation itself"
            if reason:
                fix = f"remove {parameter_name!r} from donate"
                shapes = {parameter_name: parameter}
                raise error_of(OperandError, "compile", reason, fix, shapes=shapes)
            positions.append(position)
    copy = module.operation.clone()
    main = main_function(copy.operation)
    arguments = argument_attributes(main)
    for position in positions:
        arguments[position][DONOR] = ir.BoolAttr.get(True, copy.operation.context)
    set_argument_attributes(main, "arg_attrs", arguments)
    return copy


def parameter_numbers(
    op: str, role: str, name: str, names: Sequence[str], parameters: Any
) -> frozenset[int]:
    """Return the numbers of the parameters that the user listed by name or number.

    Args:
        op: the function that the user called, for messages.
        role: the name of the argument with the list, for messages, such as "donate".
        name: the computation's name, for messages.
        names: the parameters' names, in order.
        parameters: the list that the user passed.

    Raises:
        OperandError: a parameter does not exist or is listed twice, or an entry is neither a name
            nor a number.
    """
    listed = f"use one of {', '.join(names)}" if names else f"omit {role}"
    if isinstance(parameters, str) or hasattr(parameters, "__index__"):
        parameters = [parameters]
    if not isinstance(parameters, (list, tuple, range, set, frozenset)):
        example = f"{role}=[{names[0]!r}]" if names else "omit it"
        rule = f"{role} must be a list of parameters' names or numbers"
        raise error_of(OperandError, op, rule, example, got=brief(parameters))
    numbers: set[int] = set()
    for parameter in parameters:
        reason, fix = "", listed
        number = -1
        if isinstance(parameter, str):
            count = names.count(parameter)
            if count == 1:
                number = names.index(parameter)
            elif count:
                reason = f"{brief(parameter)} is the name of {count} parameters of {name}"
                fix = "pass the numbers of the intended parameters"
            else:
                reason = f"there is no parameter {brief(parameter)} in {name}"
        else:
            with contextlib.suppress(TypeError):
                number = -1 if isinstance(parameter, bool) else operator.index(parameter)
            if not 0 <= number < len(names):
                reason = f"expected the name or number of a parameter, got {brief(parameter)}"
                fix += ", or the number of a parameter, from 0" if names else ""
        if number in numbers:
            reason = f"parameter {number} ({names[number]}) of {name} is listed twice"
            fix = "list it once"
        if reason:
            raise error_of(OperandError, op, f"{role}: {reason}", fix)
        numbers.add(number)
    return frozenset(numbers)
