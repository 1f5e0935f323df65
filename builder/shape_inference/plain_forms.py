"""What the functions of inference take where nobody has put their arguments in order before.

The functions of `builder` do that before they infer: shapes are Shapes, lists of numbers tuples of
ints. Whoever calls inference alone gets the same here, by the annotations of the function: shapes
may be given as text, numbers in any sequence, bundles in the forms of their `of`, and what can't
be understood is refused in words.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any, Final

from builder.errors import OperandError, XlaError, shown
from builder.primitive_type import PrimitiveType, as_primitive_type
from builder.shape import ProgramShape, Shape, shape_of
from builder.shape_inference.check import flag, flags, integer, integers

__all__ = ["take_plain_forms"]

Converter = Callable[[str, str, Any], Any]
"""From the op, the argument's name and what was given to what the function works with."""


def _shape(op: str, name: str, value: Any) -> Shape:
    if isinstance(value, Shape):
        return value
    try:
        return shape_of(value)
    except XlaError:
        raise OperandError(f"{op}: {name} must be a shape, got {shown(value)}", op=op) from None


def _each(op: str, name: str, values: Any, what: str, convert: Converter) -> list[Any]:
    """The values of a sequence, each converted."""
    try:
        found = None if isinstance(values, (str, bytes)) else list(values)
    except TypeError:
        found = None
    if found is None:
        raise OperandError(f"{op}: {name} must be a sequence of {what}, got {shown(values)}", op=op)
    return [convert(op, f"{name} {i}", value) for i, value in enumerate(found)]


def _shapes(op: str, name: str, values: Any) -> list[Shape]:
    return [values] if isinstance(values, Shape) else _each(op, name, values, "shapes", _shape)


def _program_shape(op: str, name: str, value: Any) -> ProgramShape:
    if isinstance(value, ProgramShape):
        return value
    raise OperandError(
        f"{op}: {name} must be a ProgramShape, got {shown(value)}\n"
        f"fix: that of a computation is computation.program_shape",
        op=op,
    )


def _program_shapes(op: str, name: str, values: Any) -> list[ProgramShape]:
    return _each(op, name, values, "ProgramShapes", _program_shape)


def _pair(op: str, name: str, value: Any) -> tuple[int, ...]:
    pair = integers(op, name, value)
    if len(pair) != 2:
        raise OperandError(f"{op}: {name} must be two numbers, got {shown(value)}", op=op)
    return pair


def _pairs(op: str, name: str, values: Any) -> list[tuple[int, ...]]:
    return _each(op, name, values, "pairs of numbers", _pair)


def _element_type(op: str, name: str, value: Any) -> PrimitiveType:
    try:
        return as_primitive_type(value)
    except XlaError:
        raise OperandError(
            f"{op}: {name} must be an element type, got {shown(value)}", op=op
        ) from None


def _text(op: str, name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    raise OperandError(f"{op}: {name} must be a string, got {shown(value)}", op=op)


_CONVERTERS: Final[dict[str, Converter]] = {
    "Shape": _shape,
    "Sequence[Shape]": _shapes,
    "ProgramShape": _program_shape,
    "Sequence[ProgramShape]": _program_shapes,
    "int": integer,
    "Sequence[int]": integers,
    "Sequence[tuple[int, int]]": _pairs,
    "tuple[int, ...]": integers,
    "bool": flag,
    "Sequence[bool]": flags,
    "str": _text,
    "PrimitiveType": _element_type,
}


def _optional(convert: Converter) -> Converter:
    return lambda op, name, value: None if value is None else convert(op, name, value)


def _bundle(kind: type[Any]) -> Converter:
    """A bundle of attributes: itself, or one of the other forms that make one."""
    made: Callable[..., Any] = getattr(kind, "of", kind)
    names_op = made is not kind and "op" in inspect.signature(made).parameters

    def convert(op: str, name: str, value: Any) -> Any:
        if isinstance(value, kind):
            return value
        found = None
        try:
            found = made(op=op, value=value) if names_op else made(value)
        except XlaError:
            raise
        except (TypeError, ValueError):
            pass
        if found is None:
            raise OperandError(f"{op}: {name} must be a {kind.__name__}, got {shown(value)}", op=op)
        return found

    return convert


def _converter(annotation: str, names: dict[str, Any]) -> Converter | None:
    """How an argument of this annotation is put in order; None where the function does it."""
    plain = annotation.removesuffix(" | None")
    convert = _CONVERTERS.get(plain)
    kind = names.get(plain)
    if convert is None and isinstance(kind, type):
        convert = _bundle(kind)
    if convert is not None and plain != annotation:
        return _optional(convert)
    return convert


def _plainly(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with its arguments put in order first."""
    op = function.__name__
    plan: list[tuple[str, Converter | None]] = []

    @wraps(function)
    def inferred(*arguments: Any, **named: Any) -> Any:
        if not plan:
            # At the first call, as import is to stay quick.
            annotations = {k: v for k, v in function.__annotations__.items() if k != "return"}
            plan.extend((k, _converter(v, function.__globals__)) for k, v in annotations.items())
        given = [
            value if convert is None else convert(op, name, value)
            for value, (name, convert) in zip(arguments, plan, strict=False)
        ]
        given += arguments[len(plan) :]
        for name, convert in plan:
            if name in named and convert is not None:
                named[name] = convert(op, name, named[name])
        return function(*given, **named)

    return inferred


def take_plain_forms(family: ModuleType) -> None:
    """Has the public functions of a family of inference take plain forms."""
    for name, value in list(vars(family).items()):
        if not name.startswith("_") and inspect.isfunction(value):
            inside = value.__module__.startswith(family.__name__)
            if inside and "Check" not in value.__annotations__.values():
                setattr(family, name, _plainly(value))
