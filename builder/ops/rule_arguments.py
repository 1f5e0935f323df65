"""Convert the arguments that users pass to shape inference functions.

Inference functions work on arguments in their normal form: Shapes, tuples of ints, attribute
objects. Ops convert their arguments themselves, and call ``function.strict``. Users call the
function that `public` returns. It converts each argument by the annotation of its parameter: shapes
from text, numbers from any sequence, attributes from every form that the attribute class's `of`
accepts. An argument that can't be converted raises one of the library's errors.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import reduce, wraps
from operator import or_
from types import NoneType
from typing import (
    Any,
    Final,
    ParamSpec,
    Protocol,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from builder.attributes.padding import Padding, padding_argument
from builder.checking import flag, flags, integer, integers
from builder.errors import OperandError, XlaError, brief, error_of
from builder.support.frames import without_internal_frames
from builder.types.primitive_type import PrimitiveType, as_primitive_type
from builder.types.shape import ProgramShape, Shape, shape_of

P = ParamSpec("P")
R = TypeVar("R")

Converter = Callable[[str, str, Any], Any]
"""A function of the op's name, the argument's name and value; returns the value in normal form."""


class PublicFunction(Protocol[P, R]):
    """An inference function that converts its arguments to their normal form.

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
        raise OperandError(f"{name} must be a shape", got=brief(value), op=op) from None


def _each(op: str, name: str, values: Any, kind: str, convert: Converter) -> tuple[Any, ...]:
    """Convert each value of a sequence; `kind` names the expected values in messages."""
    try:
        if isinstance(values, (str, bytes)):
            raise TypeError
        sequence = list(values)
    except TypeError:
        rule = f"{name} must be a sequence of {kind}"
        raise error_of(OperandError, op, rule, got=brief(values)) from None
    return tuple([convert(op, f"{name} {i}", value) for i, value in enumerate(sequence)])


def _shapes(op: str, name: str, values: Any) -> tuple[Shape, ...]:
    if isinstance(values, Shape):
        return (values,)
    return _each(op, name, values, "shapes", _shape)


def _program_shape(op: str, name: str, value: Any) -> ProgramShape:
    if isinstance(value, ProgramShape):
        return value
    rule = f"{name} must be a ProgramShape"
    raise error_of(OperandError, op, rule, "pass computation.program_shape", got=brief(value))


def _program_shapes(op: str, name: str, values: Any) -> tuple[ProgramShape, ...]:
    return _each(op, name, values, "ProgramShapes", _program_shape)


def _pair(op: str, name: str, value: Any) -> tuple[int, ...]:
    pair = integers(op, name, value)
    if len(pair) != 2:
        raise OperandError(f"{name} must be two numbers", got=brief(value), op=op)
    return pair


def _pairs(op: str, name: str, values: Any) -> tuple[tuple[int, ...], ...]:
    return _each(op, name, values, "pairs of numbers", _pair)


def _element_type(op: str, name: str, value: Any) -> PrimitiveType:
    try:
        return as_primitive_type(value)
    except XlaError:
        rule = f"{name} must be an element type"
        raise error_of(OperandError, op, rule, got=brief(value)) from None


def _text(op: str, name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    raise OperandError(f"{name} must be a string", got=brief(value), op=op)


_CONVERTERS: Final[dict[Any, Converter]] = {
    Shape: _shape,
    Sequence[Shape]: _shapes,
    ProgramShape: _program_shape,
    Sequence[ProgramShape]: _program_shapes,
    int: integer,
    Sequence[int]: integers,
    Sequence[tuple[int, int]]: _pairs,
    Padding | Sequence[tuple[int, int]]: lambda op, name, value: padding_argument(op, value, name),
    tuple[int, ...]: integers,
    bool: flag,
    Sequence[bool]: flags,
    str: _text,
    PrimitiveType: _element_type,
}


def _attribute(kind: type[Any]) -> Converter:
    """Return a converter to attribute class `kind`: `kind.of`, or `kind` if it has no `of`."""
    make: Callable[..., Any] = getattr(kind, "of", kind)
    takes_op = make is not kind and "op" in inspect.signature(make).parameters

    def convert(op: str, name: str, value: Any) -> Any:
        if isinstance(value, kind):
            return value
        converted = None
        try:
            converted = make(op=op, value=value) if takes_op else make(value)
        except XlaError:
            raise
        except (TypeError, ValueError):
            pass
        if converted is None:
            raise OperandError(f"{name} must be a {kind.__name__}", got=brief(value), op=op)
        return converted

    return convert


def _converter(annotation: Any) -> Converter | None:
    """Return the converter for an annotation, or None if the inference function itself converts."""
    kinds = get_args(annotation)
    if NoneType in kinds:
        convert = _converter(reduce(or_, [kind for kind in kinds if kind is not NoneType]))
        return convert and (lambda op, name, v: None if v is None else convert(op, name, v))
    if get_origin(annotation) is Sequence and hasattr(kinds[0], "all_of"):
        return lambda op, _, values: kinds[0].all_of(values, op)
    if annotation not in _CONVERTERS and isinstance(annotation, type):
        return _attribute(annotation)
    return _CONVERTERS.get(annotation)


def public(
    function: Callable[P, R], name: str = "", of: Callable[..., Any] | None = None
) -> PublicFunction[P, R]:
    """Return the public form of an inference function, which converts its arguments.

    The attribute `strict` of the public form is `function` itself, without conversion.

    Args:
        function: the inference function.
        name: the name of the op, if it is not that of the function.
        of: the op. The public form has the parameters of the op, in their order, that `function`
            has too. If `function` has a parameter `op`, it gets the name.
    """
    op = name or function.__name__
    converters: dict[str, Converter | None] = {}

    @without_internal_frames
    @wraps(function)
    def converted(*arguments: Any, **named: Any) -> R:
        signature = inspect.signature(converted)
        if not converters:
            # On the first call, because resolving annotations would slow down the import.
            hints = get_type_hints(function)
            converters.update((name, _converter(hints[name])) for name in hints if name != "return")
        bound = signature.bind(*arguments, **named)
        for key, value in bound.arguments.items():
            convert = converters[key]
            bound.arguments[key] = value if convert is None else convert(op, key, value)
        if of is not None and "op" in converters:
            bound.arguments["op"] = op
        return cast("Callable[..., R]", function)(**bound.arguments)

    converted.__name__ = converted.__qualname__ = op
    if of is not None:
        converted.__signature__ = _common_signature(function, of)  # type: ignore[attr-defined]  # as wraps sets it
    public_function = cast("PublicFunction[P, R]", converted)
    public_function.strict = function
    return public_function


def _common_signature(rule: Callable[..., Any], op: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of an op, with only the parameters that its rule has too."""
    signature, rules = inspect.signature(op), inspect.signature(rule).parameters
    parameters = []
    for parameter in signature.parameters.values():
        if parameter.name not in rules:
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:  # the shapes are one sequence
            parameter = parameter.replace(kind=parameter.POSITIONAL_OR_KEYWORD)
        one = rules[parameter.name]
        default = parameter.empty if parameter.default is parameter.empty else one.default
        parameters.append(parameter.replace(annotation=one.annotation, default=default))
    passed = {"op", *(parameter.name for parameter in parameters)}
    if any(one.default is one.empty and one.name not in passed for one in rules.values()):
        return inspect.signature(rule)  # the op has several forms, and the rule has one
    return signature.replace(parameters=parameters)
