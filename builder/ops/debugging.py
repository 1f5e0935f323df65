"""Print values and check conditions while a program runs.

Both are custom calls with side effects, so exported files contain them. `lowering` replaces them by
calls of Python when it compiles a program; `XlaComputation.strip_debug` removes them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from builder.attributes.host import CHECK_TARGET, DEBUG_PRINT_TARGET
from builder.checking import Check
from builder.errors import OperandError, brief, error_of
from builder.graph.calls import explained
from builder.graph.recording import record, resolve_builder
from builder.graph.xla_op import XlaOp
from builder.ops.host import custom_call_plan
from builder.ops.operands import need_op
from builder.schema.definition import PRED
from builder.types.shape import UNBOUNDED, ArrayShape, TupleShape

NOTHING: Final = TupleShape(())


@explained
def debug_print(message: str, /, *operands: XlaOp, **named: XlaOp) -> None:
    """Print a message with the values of arrays whenever the program reaches this place.

    Prints and checks run in the order in which they are recorded, also in loops, branches and
    called computations; HLO text does not keep this order. If a program runs on several devices,
    each device prints, with its name in front. If XLA partitions the program, the first device
    prints the full arrays, in an undefined order.

    Derivatives do not print again. `lowering.vmap` runs both branches of a conditional, and repeats
    a loop until the condition is false for all elements of the batch. So prints and checks in
    branches and loops also see elements that would not reach them without `vmap`.

    A program that was exported to a file prints when it is loaded and compiled again. Other
    compilers do not know the custom call: remove it with ``computation.strip_debug()`` or with
    ``xlabuilder convert --strip-debug``. Only programs on CPU can print.

    Args:
        message: a format string as of `str.format`, without conversions such as ``!r``. ``{}`` and
            ``{0}`` are the operands by number, ``{name}`` those by name. A format such as
            ``{:.3f}`` applies to each element.
        operands, named: arrays of static or unbounded sizes; the message must contain each of them.

    Raises:
        OperandError: the message is not text, or its fields do not match the operands; an operand
            is not an array; there is no operand.
        ShapeInferenceError: an operand has a bounded size.

    Example:
        >>> import builder as xb
        >>> @xb.computation(xb.f32[2])
        ... def f(x):
        ...     total = xb.reduce(x, 0.0, xb.add, [0])
        ...     xb.debug_print("the sum of {} is {total:.2f}", x, total=total)
        ...     return total

        ``lowering.compile(f)([1, 2])`` prints "the sum of [1. 2.] is 3.00".

    Not in Operation Semantics: CustomCall, of a target of this library.
    """
    text, values = _message("debug_print", message, operands, named)
    _record("debug_print", DEBUG_PRINT_TARGET, text, values)


@explained
def check(condition: XlaOp, message: str, /, *operands: XlaOp, **named: XlaOp) -> None:
    """Check a condition whenever the program reaches this place.

    If any element of the condition is false, the call of the program raises a
    `lowering.ExecutionError` with the line of this check. What the program computes does not
    depend on the check. See `debug_print` for the order, for files and devices.

    Args:
        condition: an array of type pred and of any sizes.
        message: what is wrong, a format string as in `debug_print`.
        operands, named: the arrays of the message.

    Raises:
        OperandError: the condition is not an op; see `debug_print` for the message.
        ShapeInferenceError: the condition is not of type pred; an operand has a bounded size.

    Example:
        >>> import builder as xb
        >>> @xb.computation(xb.f32[2])
        ... def roots(x):
        ...     xb.check(x >= 0.0, "x must not be negative, got {}", x)
        ...     return xb.sqrt(x)

        ``lowering.compile(roots)([1, -4])`` raises an error that ends in "x must not be negative,
        got [ 1. -4.]".

    Not in Operation Semantics: CustomCall, of a target of this library.
    """
    need_op("check", "condition", condition)
    rule = Check("check", condition=condition.shape)
    # Not in XLA: a condition has elements that are true or false.
    rule.element_type("condition", PRED, fix="compare, as in x > 0")
    text, values = _message("check", message, operands, named)
    _record("check", CHECK_TARGET, text, [condition, *values])


def _record(op: str, target: str, text: str, values: Sequence[XlaOp]) -> None:
    if not values:
        fix = "pass an op, at whose place in the program the message is printed"
        raise error_of(OperandError, op, "at least one operand is needed", fix, got="none")
    resolve_builder(op, *values)
    shapes = tuple([value.shape for value in values])
    rule = Check.numbered(op, "operand", shapes)
    for name in rule.shapes:
        array = rule.array(name)
        pairs = zip(array.dimensions, array.dynamic_dimensions, strict=True)
        # Not in XLA: Python receives NumPy arrays. Unbounded sizes are known before compiling.
        if any(is_dynamic and size != UNBOUNDED for size, is_dynamic in pairs):
            fix = "print its size, xb.get_dimension_size, and the array padded to the bound"
            rule.fail(f"{name} must not have a bounded size", argument=name, fix=fix)
    inferred, attributes = custom_call_plan(
        target, shapes, NOTHING, has_side_effect=True, attributes={"message": text}
    )
    record("custom_call", inferred, tuple(values), attributes)


def _message(
    op: str, message: Any, operands: Sequence[Any], named: Mapping[str, Any]
) -> tuple[str, list[XlaOp]]:
    """Return the message with fields by number, and the operands in the order of the numbers."""
    if not isinstance(message, str):
        fix = f'begin with the message: xb.{op}("x is {{}}", x)'
        if op == "check":
            fix = 'write xb.check(condition, "x must be positive, got {}", x)'
        rule = "message must be text"
        raise error_of(OperandError, op, rule, fix, argument="message", got=brief(message))
    values = [need_op(op, f"operand {i}", value) for i, value in enumerate(operands)]
    numbers: dict[str, int] = {}
    for name, value in named.items():
        numbers[name] = len(values)
        values.append(need_op(op, name, value))
    parts: list[str] = []
    used: set[int] = set()
    automatic = 0
    for literal, field, format_spec, _ in _fields(op, message):
        parts.append(literal.replace("{", "{{").replace("}", "}}"))
        if field is None:
            continue
        if field == "":
            number, automatic = automatic, automatic + 1
        elif field.isdecimal():
            number = int(field)
        else:
            number = numbers.get(field, -1)
        if number < 0 or number >= (len(values) if field in numbers else len(operands)):
            given = ", ".join([*map(str, range(len(operands))), *named]) or "none"
            rule = "each field of the message must be an operand"
            fix = "pass an op for each {}; write {{ and }} for braces"
            got = f"{{{field}}} beside the operands {given}"
            raise error_of(OperandError, op, rule, fix, argument="message", got=got)
        used.add(number)
        _check_format(op, f"{{{field}:{format_spec}}}", values[number].shape, format_spec or "")
        parts.append("{" + str(number) + (f":{format_spec}" if format_spec else "") + "}")
    for number in range(len(values)):
        if number not in used:
            name = next((n for n, at in numbers.items() if at == number), str(number))
            rule = "the message must contain each operand"
            fix = f"add {{{name if name in numbers else ''}}} to the message"
            got = f"{brief(message)} without operand {name}"
            raise error_of(OperandError, op, rule, fix, argument="message", got=got)
    return "".join(parts), values


_Field = tuple[str, str | None, str | None, str | None]


def _parsed(text: str) -> list[_Field]:
    from string import Formatter  # lazy: few programs print

    return list(Formatter().parse(text))


def _fields(op: str, message: str) -> list[_Field]:
    """Return the parts of a format string: text, and a field's name, format and conversion."""
    fix = "write {}, {0}, {name} or {:.3f}, and {{ and }} for braces"
    try:
        fields = _parsed(message)
    except ValueError as error:
        rule = f"message must be a format string: {error}"
        got = brief(message)
        raise error_of(OperandError, op, rule, fix, argument="message", got=got) from None
    kinds = {field == "" for _, field, _, _ in fields if field == "" or (field or "").isdecimal()}
    if len(kinds) > 1:
        rule = "a message must not contain both {} and numbers"
        raise error_of(OperandError, op, rule, argument="message", got=brief(message))
    for _, field, format_spec, conversion in fields:
        is_simple = field is None or field == "" or field.isdecimal() or field.isidentifier()
        if not is_simple or "{" in (format_spec or "") or conversion is not None:
            rule = "a field of the message must be a number or a name, with or without a format"
            got = f"{{{field}{'' if not conversion else '!' + conversion}:{format_spec}}}"
            raise error_of(OperandError, op, rule, fix, argument="message", got=got)
    return fields


def _check_format(op: str, field: str, shape: Any, format_spec: str) -> None:
    """Raise an error if a format does not apply to the elements of an array."""
    if not isinstance(shape, ArrayShape):
        return  # refused later
    element = np.zeros((), shape.element_type.dtype)
    try:
        _element_text(element[()], format_spec)
    except ValueError as error:
        rule = f"the format of {field} does not apply to {shape.element_type}: {error}"
        fix = "remove the format, or convert the operand"
        got = repr(format_spec)
        raise error_of(OperandError, op, rule, fix, argument="message", got=got) from None


_MOST_CHARACTERS: Final = 1000
"""The largest width and precision of a format: a wider text could fill the memory."""


def _element_text(element: Any, format_spec: str) -> str:
    """Return the text of an element of a NumPy array."""
    if not format_spec:
        return str(element)
    if any(int(digits) > _MOST_CHARACTERS for digits in re.findall(r"\d+", format_spec)):
        raise ValueError(f"a width must be at most {_MOST_CHARACTERS}")
    number = element.item()
    if isinstance(number, bool):
        return format(str(number), format_spec)
    if not isinstance(number, (bool, int, float, complex)):  # a type of ml_dtypes
        number = float(number)
        number = int(number) if "int" in element.dtype.name else number
    return format(number, format_spec)


def format_message(text: str, arrays: Sequence[Any]) -> str:
    """Return a recorded message with the values of NumPy arrays.

    Args:
        text: the `message` of the custom call: a format string with fields by number.
        arrays: one for each operand that the message contains.

    Raises:
        ValueError, IndexError: the text, from a file of another tool, is no such format string.
    """
    parts = []
    for literal, field, format_spec, _ in _parsed(text):
        parts.append(literal)
        if field is None:
            continue
        array, spec = np.asarray(arrays[int(field)]), format_spec or ""
        if array.ndim == 0:
            parts.append(_element_text(array[()], spec))
        elif spec:
            text_of = partial(_element_text, format_spec=spec)
            parts.append(np.array2string(array, formatter={"all": text_of}))
        else:
            parts.append(str(array))
    return "".join(parts)
