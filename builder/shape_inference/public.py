"""The public boundary of shape inference: arguments in the forms that users write.

Inference functions work on arguments in their normal form: Shapes, tuples of ints, attribute
objects. Ops have brought theirs into that form and call ``function.strict``. A user calls the
function itself, which `public` wraps: a shape may be given as text, numbers in any sequence, an
attribute in each form that its `of` takes, and anything else is refused with an error of the
library. The annotation of a parameter decides how its argument is converted.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import reduce, wraps
from operator import or_
from types import NoneType
from typing import Any, Final, ParamSpec, Protocol, TypeVar, cast, get_args, get_type_hints

from builder.check import flag, flags, integer, integers
from builder.errors import OperandError, XlaError, brief
from builder.types.primitive_type import PrimitiveType, as_primitive_type
from builder.types.shape import ProgramShape, Shape, shape_of

__all__ = ["public"]

P = ParamSpec("P")
R = TypeVar("R")

Converter = Callable[[str, str, Any], Any]
"""Return the normal form of an argument, given the op's name, the argument's name and its value."""


class PublicFunction(Protocol[P, R]):
    """An inference function at the public boundary.

    Attributes:
        strict: the same function for arguments in their normal form.
    """

    strict: Callable[P, R]

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R: ...


def _shape(op: str, name: str, value: Any) -> Shape:
    if isinstance(value, Shape):
        return value
    try:
        return shape_of(value)
    except XlaError:
        raise OperandError(f"{op}: {name} must be a shape, got {brief(value)}", op=op) from None


def _each(op: str, name: str, values: Any, what: str, convert: Converter) -> list[Any]:
    """Convert each value of a sequence."""
    try:
        found = None if isinstance(values, (str, bytes)) else list(values)
    except TypeError:
        found = None
    if found is None:
        raise OperandError(f"{op}: {name} must be a sequence of {what}, got {brief(values)}", op=op)
    return [convert(op, f"{name} {i}", value) for i, value in enumerate(found)]


def _shapes(op: str, name: str, values: Any) -> list[Shape]:
    return [values] if isinstance(values, Shape) else _each(op, name, values, "shapes", _shape)


def _program_shape(op: str, name: str, value: Any) -> ProgramShape:
    if isinstance(value, ProgramShape):
        return value
    raise OperandError(
        f"{op}: {name} must be a ProgramShape, got {brief(value)}\n"
        f"fix: that of a computation is computation.program_shape",
        op=op,
    )


def _program_shapes(op: str, name: str, values: Any) -> list[ProgramShape]:
    return _each(op, name, values, "ProgramShapes", _program_shape)


def _pair(op: str, name: str, value: Any) -> tuple[int, ...]:
    pair = integers(op, name, value)
    if len(pair) != 2:
        raise OperandError(f"{op}: {name} must be two numbers, got {brief(value)}", op=op)
    return pair


def _pairs(op: str, name: str, values: Any) -> list[tuple[int, ...]]:
    return _each(op, name, values, "pairs of numbers", _pair)


def _element_type(op: str, name: str, value: Any) -> PrimitiveType:
    try:
        return as_primitive_type(value)
    except XlaError:
        raise OperandError(
            f"{op}: {name} must be an element type, got {brief(value)}", op=op
        ) from None


def _text(op: str, name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    raise OperandError(f"{op}: {name} must be a string, got {brief(value)}", op=op)


_CONVERTERS: Final[dict[Any, Converter]] = {
    Shape: _shape,
    Sequence[Shape]: _shapes,
    ProgramShape: _program_shape,
    Sequence[ProgramShape]: _program_shapes,
    int: integer,
    Sequence[int]: integers,
    Sequence[tuple[int, int]]: _pairs,
    tuple[int, ...]: integers,
    bool: flag,
    Sequence[bool]: flags,
    str: _text,
    PrimitiveType: _element_type,
}


def _attribute(kind: type[Any]) -> Converter:
    """Convert to an attribute class, by its `of` or by calling it."""
    make: Callable[..., Any] = getattr(kind, "of", kind)
    takes_op = make is not kind and "op" in inspect.signature(make).parameters

    def convert(op: str, name: str, value: Any) -> Any:
        if isinstance(value, kind):
            return value
        found = None
        try:
            found = make(op=op, value=value) if takes_op else make(value)
        except XlaError:
            raise
        except (TypeError, ValueError):
            pass
        if found is None:
            raise OperandError(f"{op}: {name} must be a {kind.__name__}, got {brief(value)}", op=op)
        return found

    return convert


def _converter(annotation: Any) -> Converter | None:
    """Return the converter for an annotation; None where the function converts by itself."""
    kinds = get_args(annotation)
    if NoneType in kinds:
        convert = _converter(reduce(or_, [kind for kind in kinds if kind is not NoneType]))
        return convert and (lambda op, name, v: None if v is None else convert(op, name, v))
    found = _CONVERTERS.get(annotation)
    return _attribute(annotation) if found is None and isinstance(annotation, type) else found


def public(function: Callable[P, R]) -> PublicFunction[P, R]:
    """Make an inference function part of the public API: it converts its arguments.

    The function without conversion is the attribute `strict` of the result.
    """
    op = function.__name__
    converters: dict[str, Converter | None] = {}

    @wraps(function)
    def converted(*arguments: Any, **named: Any) -> R:
        if not converters:
            # On the first call, because resolving annotations would slow down the import.
            hints = get_type_hints(function)
            converters.update((name, _converter(hints[name])) for name in hints if name != "return")
        values = list(arguments)
        for index, (name, convert) in enumerate(converters.items()):
            if convert is None:
                continue
            if index < len(values):
                values[index] = convert(op, name, values[index])
            elif name in named:
                named[name] = convert(op, name, named[name])
        return function(*values, **named)

    made = cast("PublicFunction[P, R]", converted)
    made.strict = function
    return made
