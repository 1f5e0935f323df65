"""The decorator `op`: it makes the body of a public op from its rule, data and signature.

Most ops do the same things with their arguments: convert each one by its kind, infer the shape of
the result, record. Only the names, the rule and the kinds differ, and these are declared::

    @op(REVERSE, _rev_shape)
    def rev(operand: XlaOp, dimensions: Sequence[int]) -> XlaOp:
        \"""Reverse the elements along dimensions. ...\"""

The signature and the docstring are those that users, editors and type checkers see. An op with a
form of its own has a body, and the decorator `op_by_hand`.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from functools import cache, partial
from types import FunctionType
from typing import Any, Final, TypeVar, cast

from builder.errors import XlaError
from builder.graph.calls import wrong_call
from builder.graph.recording import record, shared_attributes
from builder.graph.registry import op_by_hand, register
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.ops.operands import need_op, need_ops
from builder.schema import Attribute, AttributeKind, Schema
from builder.schema.definition import MISSING
from builder.support.missing import Missing
from builder.support.signatures import SignatureTable
from builder.support.tracebacks import without_internal_frames
from builder.types.shape import Shape

F = TypeVar("F", bound=Callable[..., Any])

_OMITTED: Final = Missing()
"""The default of required parameters: a wrong call is explained better than Python does it."""


def op(
    schema: Schema,
    rule: Callable[..., Shape],
    attributes: Callable[..., Mapping[str, Any]] | None = None,
    *,
    cpp_name: str = "",
    section: str = "",
    aliases: tuple[str, ...] = (),
    family: str = "",
    **kinds: AttributeKind,
) -> Callable[[F], F]:
    """Return a decorator that makes the body of a function with only a docstring, a public op.

    The parameters of the function are operands of the schema, attributes, and those of `kinds`.

    Args:
        schema: the data of the op.
        rule: its shape inference. The parameters are those of the function, or some of them; it
            takes the shapes of the operands, and the other arguments converted by their kinds. A
            rule that several ops share has a parameter `op`, the name of the op.
        attributes: returns the recorded attributes, from arguments like those of `rule`; by default
            they are the arguments of the same names.
        cpp_name, section, aliases, family: see `register`.
        kinds: the kinds of parameters that are not attributes, such as the sizes of the result.

    Raises:
        ValueError: a parameter is neither an operand nor an attribute, and has no kind.
    """

    def enter(declared: F) -> F:
        made = _made(schema, rule, attributes, kinds, declared)
        names = {"cpp_name": cpp_name, "section": section, "family": family}
        register(made, schema, rule, aliases=aliases, **names)
        return cast("F", made)

    return enter


def builder_method(schema: Schema, rule: Callable[..., Shape]) -> None:
    """Make a method of XlaBuilder, which records an op without operands, a public op.

    Args:
        schema: the data of the op. The name of the method is the opcode.
        rule: its shape inference.
    """
    family = rule.__module__.split(".")[2]
    method = getattr(XlaBuilder, schema.opcode)
    setattr(XlaBuilder, schema.opcode, op_by_hand(schema, rule, family=family)(method))


def _made(
    schema: Schema,
    rule: Callable[..., Shape],
    attributes: Callable[..., Mapping[str, Any]] | None,
    kinds: Mapping[str, AttributeKind],
    declared: Callable[..., Any],
) -> FunctionType:
    name, signature = declared.__name__, inspect.signature(declared)
    parameters = signature.parameters.values()
    names = list(signature.parameters)
    operands = schema.operands.split()
    recorded = {a.parameter or a.name: a for a in schema.attributes if isinstance(a, Attribute)}
    kinds = {key: a.kind for key, a in recorded.items()} | dict(kinds)
    form = ""
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in form:
            form += "*"
        if parameter.name in operands:
            form += "o"
        elif f"*{parameter.name}" in operands:
            form += "m"
        elif parameter.name in kinds:
            form += "?" if _may_be_none(parameter) else "a"
        else:
            raise ValueError(f"{name}: {parameter.name} is neither an operand nor an attribute")
    defaults = [_OMITTED if p.default is p.empty else p.default for p in parameters]
    letters = form.replace("*", "")
    positional = form.find("*") if "*" in form else len(form)
    # Messages name one of many operands: "operand 0".
    shown_names = [n[:-1] if k == "m" else n for n, k in zip(names, letters, strict=True)]

    def need(number: int, *values: Any) -> None:
        beside = _same_types(schema, names, number)
        need_op(name, names[number], values[number], None if beside is None else values[beside])

    def wrong(more: tuple[Any, ...], unknown: Mapping[str, Any], *values: Any) -> XlaError:
        if more:
            return wrong_call(declared, (*values[:positional], *more), unknown)
        arguments = zip(names, values, defaults, strict=True)
        given = {key: value for key, value, default in arguments if value is not default}
        return wrong_call(declared, (), {**given, **unknown})

    def shown(error: XlaError, *values: Any) -> XlaError:
        if any(value is _OMITTED for value in values):
            error = wrong((), {}, *values)
        return without_internal_frames(error)

    template = _template(form)(
        *[kinds[key].convert for key, letter in zip(names, letters, strict=True) if letter in "a?"],
        name,
        shown_names,
        schema.opcode,
        SignatureTable[Any](),
        _planner(name, names, rule, attributes or _attributes_of(recorded)),
        need,
        wrong,
        shown,
    )
    code, source = template.__code__, declared.__code__
    made = FunctionType(
        code.replace(
            co_name=name,
            co_qualname=declared.__qualname__,
            co_filename=source.co_filename,
            co_firstlineno=source.co_firstlineno,
            co_varnames=(*names, *code.co_varnames[len(names) :]),
        ),
        declared.__globals__,
        name,
        tuple(defaults[:positional]),
        template.__closure__,
    )
    made.__kwdefaults__ = dict(zip(names[positional:], defaults[positional:], strict=True))
    made.__doc__, made.__module__ = declared.__doc__, declared.__module__
    made.__annotations__ = declared.__annotations__
    made.__signature__ = signature  # type: ignore[attr-defined]  # as functools.wraps sets it
    return made


def _may_be_none(parameter: inspect.Parameter) -> bool:
    return parameter.default is None or str(parameter.annotation).endswith("| None")


def _same_types(schema: Schema, names: list[str], number: int) -> int | None:
    """Return the number of another operand that may have the same element types, for fixes."""
    types = schema.element_types
    allowed = types.get(names[number])
    others = (n for n, other in enumerate(names) if n != number and types.get(other) is allowed)
    return None if allowed is None else next(others, None)


def _attributes_of(recorded: Mapping[str, Attribute]) -> Callable[..., Mapping[str, Any]]:
    """Return the function that records arguments as the attributes of the same names."""

    def attributes(**arguments: Any) -> Mapping[str, Any]:
        return {
            attribute.name: arguments[name]
            for name, attribute in recorded.items()
            if name in arguments
            and (attribute.omitted is MISSING or arguments[name] != attribute.omitted)
        }

    return attributes


def _planner(
    name: str,
    names: list[str],
    rule: Callable[..., Shape],
    attributes: Callable[..., Mapping[str, Any]],
) -> Callable[..., tuple[Shape, Mapping[str, Any]]]:
    """Return the function that infers the shape and makes the attributes of a new signature."""

    def plan(*values: Any) -> tuple[Shape, Mapping[str, Any]]:
        arguments = dict(zip(names, values, strict=True), op=name)
        shape = rule(**_taken(rule, arguments))
        return shape, shared_attributes(**attributes(**_taken(attributes, arguments)))

    return plan


def _taken(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments that a function has parameters for."""
    parameters = inspect.signature(function).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return arguments
    return {name: value for name, value in arguments.items() if name in parameters}


@cache  # there are few forms
def _template(form: str) -> Callable[..., FunctionType]:
    """Return a function that makes the functions of one form, which differ in constants only.

    Generating the source of each op, as dataclasses do it, would slow down the import: there are
    few forms. The names of the parameters are those of the code object, which are replaced later.

    Args:
        form: a letter for each parameter: o for an operand, m for many operands, a for an
            attribute, ? for an attribute that may be None. Parameters after * are keyword-only.
    """
    before, _, after = form.partition("*")
    letters = before + after
    parameters = [f"p{number}" for number in range(len(letters))]
    listed = ", ".join(parameters)
    lines: list[str] = []
    key: list[str] = []
    operands: list[str] = []
    for number, kind in enumerate(letters):
        p = f"p{number}"
        if kind == "o":
            lines.append(f"if type({p}) is not XlaOp: need({number}, {listed})")
        elif kind == "m":
            lines.append(f"{p} = need_ops(name, names[{number}], {p})")
        else:
            guard = f"if {p} is not None: " if kind == "?" else ""
            lines.append(f"{guard}{p} = convert{number}(name, names[{number}], {p})")
        shapes = {"o": f"{p}.shape", "m": f"tuple([op.shape for op in {p}])"}
        key.append(shapes.get(kind, p))
        operands += {"o": [p], "m": [f"*{p}"]}.get(kind, [])
    constants = [f"convert{number}" for number, kind in enumerate(letters) if kind in "a?"]
    constants += ["name", "names", "opcode", "table", "plan", "need", "wrong", "shown", *_SHARED]
    signature = ", ".join([*parameters[: len(before)], "*more", *parameters[len(before) :]])
    conversions = "\n            ".join(lines)
    source = f"""
def make({", ".join(constants)}):
    def template({signature}, **unknown):
        if more or unknown:
            raise wrong(more, unknown, {listed})
        try:
            {conversions}
            key = ({", ".join(key)},)
            found = table.get(key)
            if found is None:
                found = table.add(key, plan(*key))
            return record(opcode, found[0], ({", ".join(operands)},), found[1])
        except XlaError as error:
            raise shown(error, {listed}) from error.__cause__
    return template
"""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.expr, ast.stmt)):  # a traceback shows the line of the definition
            node.lineno = node.end_lineno = 1
            node.col_offset = node.end_col_offset = 0
    scope: dict[str, Any] = {}
    exec(compile(tree, __file__, "exec"), scope)
    return partial(scope["make"], **_SHARED)  # the other arguments are positional


_SHARED: Final[dict[str, Any]] = {
    "XlaError": XlaError,
    "XlaOp": XlaOp,
    "need_ops": need_ops,
    "record": record,
    "tuple": tuple,
    "type": type,
}
"""What the templates use. The globals of an op are those of its module, as doctest expects it."""
