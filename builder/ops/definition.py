"""The decorator `op`: it makes the body of a public op from its rule, data and signature.

Most ops do the same things with their arguments: convert each one by its kind, infer the shape of
the result, record. Only the names, the rule and the kinds differ, and these are declared::

    @op(REVERSE, _rev_shape)
    def rev(operand: XlaOp, dimensions: Sequence[int]) -> XlaOp:
        \"""Reverse the elements along dimensions. ...\"""

The signature and the docstring are those that users, editors and type checkers see. An op with a
form of its own is recorded by another function, `by`, or has a body and the decorator `op_by_hand`.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from textwrap import indent
from types import CodeType, FrameType, FunctionType
from typing import Any, Final, TypeVar, cast

from builder.errors import XlaError
from builder.graph.recording import record, shared_attributes
from builder.graph.registry import op_by_hand, register
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import NO_ATTRIBUTES, XlaOp
from builder.ops import bodies
from builder.ops.operands import need_op, need_ops
from builder.schema import Attribute, AttributeKind, Schema
from builder.schema.definition import MISSING
from builder.support.arguments import Missing
from builder.support.caches import SignatureTable
from builder.support.frames import remove_internal_frames
from builder.types.shape import Shape

F = TypeVar("F", bound=Callable[..., Any])

_OMITTED: Final = Missing()
"""The default of required parameters: a wrong call is explained better than Python does it."""


def op(
    schema: Schema,
    rule: Callable[..., Shape],
    attributes: Callable[..., Mapping[str, Any]] | None = None,
    *,
    by: Callable[..., XlaOp] | None = None,
    cpp_name: str = "",
    section: str = "",
    aliases: tuple[str, ...] = (),
    family: str = "",
    **kinds: AttributeKind | None,
) -> Callable[[F], F]:
    """Return a decorator that turns a function with only a docstring into a public op.

    The parameters of the function are operands (those of the schema, or other parameters of type
    XlaOp), attributes, and those of `kinds`.

    Args:
        schema: the data of the op.
        rule: its shape inference. The parameters are those of the function, or some of them; it
            takes the shapes of the operands, and the other arguments converted by their kinds. A
            rule that several ops share has a parameter `op`, the name of the op.
        attributes: returns the recorded attributes, from arguments like those of `rule` and
            `result`, the inferred shape; by default they are the arguments of the same names.
        by: a function that infers the shape and records, if the op needs code of its own for this.
            It is called with the name of the function and the converted arguments.
        cpp_name, section, aliases, family: see `register`.
        kinds: the kinds of parameters that are not attributes, such as the sizes of the result.
            None for those that `by` converts, such as operands that may be numbers.

    Raises:
        ValueError: a parameter is neither an operand nor an attribute, and has no kind.
    """

    def enter(declared: F) -> F:
        made = _made(schema, rule, attributes, by, kinds, declared)
        names = {"cpp_name": cpp_name, "section": section, "family": family}
        register(made, schema, rule, aliases=aliases, **names)
        return cast("F", made)

    return enter


def builder_method(
    schema: Schema,
    rule: Callable[..., Shape] | None = None,
    family: str = "",
    **facts: Any,
) -> None:
    """Make a method of XlaBuilder that records a public op without operands.

    Args:
        schema: the data of the op. The name of the method is the opcode.
        rule: its shape inference; None if the method's argument is the shape or the value.
        family: see `register`; by default the name of the rule's module in `builder.ops`.
        facts: the other arguments of `register`.
    """
    if rule is not None and not family:
        family = rule.__module__.split(".")[2]
    method = getattr(XlaBuilder, schema.opcode)
    setattr(XlaBuilder, schema.opcode, op_by_hand(schema, rule, family=family, **facts)(method))


def _made(
    schema: Schema,
    rule: Callable[..., Shape],
    attributes: Callable[..., Mapping[str, Any]] | None,
    by: Callable[..., XlaOp] | None,
    kinds: Mapping[str, AttributeKind | None],
    declared: Callable[..., Any],
) -> FunctionType:
    name, defaults = declared.__name__, _parameters(declared)
    names = list(defaults)
    operands = schema.operands.split()
    recorded = {a.parameter or a.name: a for a in schema.attributes if isinstance(a, Attribute)}
    given = {key: a.kind for key, a in recorded.items()} | dict(kinds)
    form = ""
    for parameter in names:
        annotation = declared.__annotations__[parameter]
        if parameter in given and given[parameter] is None:
            form += "u"
        elif _takes_many(declared) and parameter == names[-1]:
            form += "v"
        elif parameter in operands or annotation == "XlaOp":
            form += "o"
        elif f"*{parameter}" in operands:
            form += "m"
        elif parameter in given:
            may_be_none = defaults[parameter] is None or annotation.endswith("| None")
            form += "n" if may_be_none else "a"
        else:
            raise ValueError(f"{name}: {parameter} is neither an operand nor an attribute")
    constants: dict[str, Any] = {
        f"convert{number}": kind.convert
        for number, (letter, kind) in enumerate(zip(form, map(given.get, names), strict=True))
        if letter in "an" and kind is not None
    }
    constants["name"] = name
    # Messages name one of many operands: "operand 0".
    constants["names"] = [
        key[:-1] if letter in "mv" else key for key, letter in zip(names, form, strict=True)
    ]

    def need(number: int, *values: Any) -> None:
        beside = _same_types(schema, names, number)
        need_op(name, names[number], values[number], None if beside is None else values[beside])

    constants["need"] = need
    if by is not None:
        body = partial(_converting, form, "by")
        return made(declared, f"{form}_by", body, {**constants, "by": by})
    constants["opcode"] = schema.opcode
    constants["table"] = SignatureTable[Any]()
    make_recorded: Callable[[], Callable[..., Mapping[str, Any]] | None]
    if attributes is None:
        make_recorded = partial(_attributes_of, recorded, names)
    else:
        make_recorded = partial(_taking, attributes, [*names, "result"], name)
    constants["plan"] = _planner(partial(_taking, rule, names, name), make_recorded)
    return made(declared, form, partial(_converting, form, ""), constants)


def made(
    declared: Callable[..., Any],
    form: str,
    body: Callable[[], str],
    constants: Mapping[str, Any],
    instead: str = "",
) -> FunctionType:
    """Return the function with the signature and the docstring of `declared`, and another body.

    Arguments that do not fit the signature raise an error, and errors leave one frame.

    Args:
        declared: a function with only a docstring.
        form: the name of the body; with the numbers of parameters, it determines the body.
        body: returns the body as Python code. The parameters are p0, p1, ...
        constants: the objects that the body uses, besides those of `_SHARED`.
        instead: the fix in errors for unknown arguments that correspond to no parameter.
    """
    name, defaults = declared.__name__, _parameters(declared)
    names = list(defaults)
    code: CodeType = declared.__code__
    count, takes_many = code.co_argcount, _takes_many(declared)

    def given(values: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments before the first that is omitted, and the others by name."""
        stop = next((n for n in range(count) if values[n] is defaults[names[n]]), count)
        many = values[count] if takes_many and stop == count else ()
        named = {
            names[n]: values[n]
            for n in range(stop, len(names))
            if values[n] is not defaults[names[n]] and not (takes_many and n == count)
        }
        return (*values[:stop], *many), named

    def wrong(
        frame: FrameType, more: tuple[Any, ...], unknown: Mapping[str, Any], *values: Any
    ) -> XlaError:
        """Return the error for surplus arguments, `more`, or for `unknown` or missing ones."""
        # Lazy imports: only errors need them.
        from builder.graph.corrections import users_frame
        from builder.graph.wrong_calls import wrong_call

        positional, named = ((*values[:count], *more), {}) if more else given(values)
        return wrong_call(
            declared,
            function,
            positional,
            {**named, **unknown},
            users_frame(frame),
            "" if more else instead,
        )

    def explained(frame: FrameType, error: XlaError, *values: Any) -> XlaError:
        """Return the error to raise: about a missing argument, or `error` with a better fix."""
        if any(value is _OMITTED for value in values):
            return wrong(frame, (), {}, *values)
        from builder.graph.corrections import correct, users_frame  # lazy: only errors need it

        correct(error, function, *given(values), users_frame(frame))
        return error

    signature = count, code.co_kwonlyargcount, takes_many, tuple(constants)
    make = _template(form, signature, body)
    template = make(**constants, wrong=wrong, explained=explained)
    function = FunctionType(
        template.__code__.replace(
            co_name=name,
            co_qualname=declared.__qualname__,
            co_filename=code.co_filename,
            co_firstlineno=code.co_firstlineno,
            co_linetable=_on_the_first_line(len(template.__code__.co_code) // 2),
            co_varnames=(*names, *template.__code__.co_varnames[len(names) :]),
        ),
        declared.__globals__,
        name,
        tuple([defaults[n] for n in names[:count]]),
        template.__closure__,
    )
    function.__kwdefaults__ = {n: defaults[n] for n in names[count:][: code.co_kwonlyargcount]}
    function.__doc__, function.__module__ = declared.__doc__, declared.__module__
    function.__annotations__ = declared.__annotations__
    function.__wrapped__ = declared  # type: ignore[attr-defined]  # has the signature, for `inspect`
    return function


# Read from the code objects, because `inspect.signature` would slow down the import.


def _takes_many(declared: Callable[..., Any]) -> bool:
    """Return whether the last parameter collects all positional arguments."""
    return bool(declared.__code__.co_flags & inspect.CO_VARARGS)


@cache
def _parameters(declared: Callable[..., Any]) -> Mapping[str, Any]:
    """Return the default of each parameter; `_OMITTED` for those that are required."""
    function = cast("FunctionType", declared)
    code, given = function.__code__, function.__defaults__ or ()
    count = code.co_argcount + code.co_kwonlyargcount + _takes_many(declared)
    optional = zip(code.co_varnames[code.co_argcount - len(given) :], given, strict=False)
    defaults = dict(optional) | (function.__kwdefaults__ or {})
    return {name: defaults.get(name, _OMITTED) for name in code.co_varnames[:count]}


@cache  # there are few forms
def _on_the_first_line(count: int) -> bytes:
    """Return a line table with which `count` instructions are shown as the first line.

    It has entries of at most eight instructions, without columns (13 in CPython's format) and with
    a distance of 0 lines. Changing the lines of a parsed tree would take longer than compiling.
    """
    lengths = [8] * (count // 8) + [count % 8] * (count % 8 > 0)
    return bytes(byte for length in lengths for byte in (0x80 | 13 << 3 | length - 1, 0))


def _same_types(schema: Schema, names: list[str], number: int) -> int | None:
    """Return the number of another operand that may have the same element types, for fixes."""
    types = schema.element_types
    allowed = types.get(names[number])
    others = (n for n, other in enumerate(names) if n != number and types.get(other) is allowed)
    return None if allowed is None else next(others, None)


def _attributes_of(
    recorded: Mapping[str, Attribute], names: Sequence[str]
) -> Callable[..., Mapping[str, Any]] | None:
    """Return the function that records arguments as the attributes of the same names, if any."""
    places = [(a.name, names.index(key), a.omitted) for key, a in recorded.items() if key in names]
    if not places:
        return None

    def attributes(*values: Any) -> Mapping[str, Any]:
        return {
            name: values[place]
            for name, place, omitted in places
            if omitted is MISSING or values[place] != omitted
        }

    return attributes


def _planner(
    make_infer: Callable[[], Callable[..., Shape]],
    make_recorded: Callable[[], Callable[..., Mapping[str, Any]] | None],
) -> Callable[..., tuple[Shape, Mapping[str, Any]]]:
    """Return the function that infers the shape and makes the attributes of a new signature.

    Args:
        make_infer: returns the function that infers the shape. It is called for the first
            signature, because `inspect.signature` would slow down the import.
        make_recorded: returns the function that makes the attributes; it is called then, too.
    """
    infer: Callable[..., Shape] | None = None
    recorded: Callable[..., Mapping[str, Any]] | None = None

    def plan(*values: Any) -> tuple[Shape, Mapping[str, Any]]:
        nonlocal infer, recorded
        if infer is None:
            # `infer` last: a thread that finds it set uses `recorded` too.
            recorded = make_recorded()
            infer = make_infer()
        shape = infer(*values)
        if recorded is None:
            return shape, NO_ATTRIBUTES
        found = recorded(*values, shape)
        return shape, shared_attributes(**found) if found else NO_ATTRIBUTES

    return plan


def _taking(function: Callable[..., Any], names: Sequence[str], op: str) -> Callable[..., Any]:
    """Return a function of the values of `names` that calls `function` with those that it takes.

    A parameter `op` gets the name of the op.
    """
    parameters = inspect.signature(function).parameters
    taken = partial(function, op=op) if "op" in parameters else function
    first = 0  # the number of values that it takes by position
    for (key, parameter), value in zip(parameters.items(), names, strict=False):
        if key != value or parameter.kind is parameter.KEYWORD_ONLY:
            break
        first += 1
    if first == len(names):
        return taken  # takes all of them, in their order; the usual case
    others = [(key, names.index(key)) for key in [*parameters][first:] if key in names]
    if not others:
        return lambda *values: taken(*values[:first])
    return lambda *values: taken(*values[:first], **{key: values[at] for key, at in others})


def _converting(form: str, by: str) -> str:
    """Return the body of the functions of one form, which differ in constants only.

    Args:
        form: a letter for each parameter: o for an operand, m for many operands, v for many
            operands that are arguments or one list, a for an attribute, n for an attribute that
            may be None, u for a parameter without conversion.
        by: the function that records; "" to infer the shape and record.
    """
    arguments = ", ".join(f"p{number}" for number in range(len(form)))
    lines: list[str] = []
    key: list[str] = []
    operands: list[str] = []
    for number, kind in enumerate(form):
        p = f"p{number}"
        if kind == "o":
            lines.append(f"if type({p}) is not XlaOp: need({number}, {arguments})")
        elif kind == "v":
            listed = f"{p}[0] if len({p}) == 1 and isinstance({p}[0], (list, tuple)) else {p}"
            lines.append(f"{p} = need_ops(name, names[{number}], {listed})")
        elif kind == "m":
            lines.append(f"{p} = need_ops(name, names[{number}], {p})")
        elif kind in "an":
            guard = f"if {p} is not None: " if kind == "n" else ""
            lines.append(f"{guard}{p} = convert{number}(name, names[{number}], {p})")
        many = f"tuple([op.shape for op in {p}])"
        key.append({"o": f"{p}.shape", "m": many, "v": many}.get(kind, p))
        operands += {"o": [p], "m": [f"*{p}"], "v": [f"*{p}"]}.get(kind, [])
    if by:
        missing = " or ".join(f"p{n} is omitted" for n, kind in enumerate(form) if kind == "u")
        if missing:  # before a function of the user is called
            lines.append(f"if {missing}: raise wrong(_getframe(), (), {{}}, {arguments})")
        return "\n".join([*lines, f"return {by}(name, {arguments})"])
    listed = ", ".join(key)
    # A tuple that adds nothing to a shape would only have to be made and hashed.
    signature = {"o": listed, "on": f"{key[0]} if p1 is None else ({listed})"}.get(
        form, f"({listed},)"
    )
    recorded = f"opcode, found[0], ({', '.join(operands)},), found[1]"
    if len(operands) == 1 and not operands[0].startswith(
        "*"
    ):  # no need to compare the builders of operands
        lines.append(f"builder = {operands[0]}.builder")
        recorded += ", 2, builder if builder._is_open else None"
    lines += [
        f"key = {signature}",
        "found = table.get(key)",
        "if found is None:",
        f"    found = table.add(key, plan({listed}))",
        f"return record({recorded})",
    ]
    return "\n".join(lines)


Signature = tuple[int, int, bool, tuple[str, ...]]
"""What a function needs to make a body, besides its statements: the numbers of positional and of
keyword-only parameters, whether the last one takes all positional arguments, and the constants."""

BODIES: Final[dict[str, tuple[Signature, Callable[[], str]]]] = {}
"""For each body in use the name of its function, its signature, and a function that returns its
statements. `tools/write_bodies.py` writes these functions to `builder.ops.bodies`."""


def _template(form: str, signature: Signature, body: Callable[[], str]) -> Callable[..., Any]:
    """Return a function that makes the functions with one body.

    There are few bodies, and `builder.ops.bodies` has the functions for those of this library, so
    that the import compiles none. A change of a body has no effect before tools/write_bodies.py has
    run. The names of the parameters are those of the code object, which are replaced later.
    """
    name = f"body_{form}_{signature[0]}_{signature[1]}"
    if BODIES.setdefault(name, (signature, body))[0] != signature:
        raise ValueError(f"{name} has another signature: {signature}")
    return partial(getattr(bodies, name, None) or _compiled(name), **_SHARED)


@cache
def _compiled(name: str) -> Callable[..., Any]:
    scope: dict[str, Any] = {}
    exec(compile(source_of(name), __file__, "exec"), scope)
    return cast("Callable[..., Any]", scope[name])


def source_of(name: str) -> str:
    """Return the definition of a function in `BODIES`."""
    (positional, keywords, takes_many, constants), body = BODIES[name]
    parameters = [f"p{number}" for number in range(positional + keywords + takes_many)]
    passed = ", ".join(parameters)
    # Surplus arguments are refused, unless they are operands.
    many = f"*{parameters[-1]}" if takes_many else "*more"
    accepted = [*parameters[:positional], many, *parameters[positional : positional + keywords]]
    surplus = "()" if takes_many else "more"
    return f"""\
def {name}({", ".join((*constants, "wrong", "explained", *_SHARED))}):
    def template({", ".join(accepted)}, **unknown):
        if {surplus} or unknown:
            raise wrong(_getframe(), {surplus}, unknown, {passed})
        try:
{indent(body(), " " * 12)}
        except Exception as error:
            if isinstance(error, XlaError):
                other = explained(_getframe(), error, {passed})
                if other is not error:
                    raise other from None
            remove_internal_frames(error)
            raise
    return template
"""


_SHARED: Final[dict[str, Any]] = {
    "XlaError": XlaError,
    "XlaOp": XlaOp,
    "_getframe": sys._getframe,
    "omitted": _OMITTED,
    "need_ops": need_ops,
    "record": record,
    "isinstance": isinstance,
    "len": len,
    "list": list,
    "remove_internal_frames": remove_internal_frames,
    "tuple": tuple,
    "type": type,
}
"""What the templates use. The globals of an op are those of its module, as doctest expects it."""
