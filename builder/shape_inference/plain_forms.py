"""What the functions of inference take where nobody has put their arguments in order before.

The functions of `builder` do that before they infer: shapes are Shapes, lists of numbers tuples of
ints. Whoever calls inference alone gets the same here, by the annotations of the function: shapes
may be given as text, numbers in any sequence, bundles in the forms of their `of`, and what can't
be understood is refused in words.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from types import ModuleType
from typing import Any, Final

from builder.errors import OperandError, XlaError, shown
from builder.primitive_type import as_primitive_type
from builder.shape import ProgramShape, Shape, shape_of
from builder.shape_inference.check import flag, integer, integers

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


def _shapes(op: str, name: str, values: Any) -> list[Shape]:
    if isinstance(values, Shape):
        return [values]
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise OperandError(f"{op}: {name} must be a sequence of shapes, got {shown(values)}", op=op)
    return [_shape(op, f"{name} {i}", v) for i, v in enumerate(values)]


def _program_shape(op: str, name: str, value: Any) -> ProgramShape:
    if isinstance(value, ProgramShape):
        return value
    raise OperandError(
        f"{op}: {name} must be a ProgramShape, got {shown(value)}\n"
        f"fix: that of a computation is computation.program_shape",
        op=op,
    )


def _program_shapes(op: str, name: str, values: Any) -> list[ProgramShape]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise OperandError(
            f"{op}: {name} must be a sequence of ProgramShapes, got {shown(values)}", op=op
        )
    return [_program_shape(op, f"{name} {i}", v) for i, v in enumerate(values)]


def _flags(op: str, name: str, values: Any) -> list[bool]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise OperandError(f"{op}: {name} must be a sequence of bools, got {shown(values)}", op=op)
    return [flag(op, f"each of {name}", v) for v in values]


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
    "tuple[int, ...]": integers,
    "bool": flag,
    "Sequence[bool]": _flags,
    "str": _text,
    "PrimitiveType": lambda op, name, value: as_primitive_type(value),
}


def _optional(convert: Converter) -> Converter:
    return lambda op, name, value: None if value is None else convert(op, name, value)


def _converter(annotation: str, names: dict[str, Any]) -> Converter | None:
    """How an argument of this annotation is put in order; None where the function does it."""
    plain = annotation.removesuffix(" | None")
    convert = _CONVERTERS.get(plain)
    made = getattr(names.get(plain), "of", None)
    if convert is None and made is not None:
        # A bundle: itself, or one of its other forms.
        convert = lambda op, name, value: made(value)  # noqa: E731
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
