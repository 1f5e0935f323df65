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
from builder.support.tracebacks import remove_internal_frames
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
            takes the shapes of the operands, and the other arguments converted by their kinds.
        attributes: returns the recorded attributes, from arguments like those of `rule` and
            `result`, the inferred shape; by default they are the arguments of the same names.
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


def builder_method(
    schema: Schema,
    rule: Callable[..., Shape] | None = None,
    family: str = "",
    **facts: Any,
) -> None:
    """Make a method of XlaBuilder, which records an op without operands, a public op.

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
        if parameter.kind is parameter.VAR_POSITIONAL:
            form += "v"
        elif parameter.name in operands:
            form += "o"
        elif f"*{parameter.name}" in operands:
            form += "m"
        elif parameter.name in kinds:
            form += "?" if parameter.default is None else "a"
        else:
            raise ValueError(f"{name}: {parameter.name} is neither an operand nor an attribute")

    def wrong(more: tuple[Any, ...], unknown: Mapping[str, Any], *values: Any) -> XlaError:
        if more:
            return wrong_call(declared, (*values, *more), unknown)
        given = {n: v for n, v in zip(names, values, strict=True) if v is not _OMITTED}
        return wrong_call(declared, (), {**given, **unknown})

    def missing(*values: Any) -> XlaError | None:
        return wrong((), {}, *values) if any(value is _OMITTED for value in values) else None

    template = _template(form)(
        *[kinds[key].convert for key, letter in zip(names, form, strict=True) if letter in "a?"],
        name,
        # Messages name one of many operands: "operand 0".
        [n[:-1] if letter in "mv" else n for n, letter in zip(names, form, strict=True)],
        schema.opcode,
        SignatureTable[Any](),
        _planner(names, rule, attributes or _attributes_of(recorded)),
        wrong,
        missing,
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
        tuple(
            [
                _OMITTED if p.default is p.empty else p.default
                for p in parameters
                if p.kind is not p.VAR_POSITIONAL
            ]
        ),
        template.__closure__,
    )
    made.__doc__, made.__module__ = declared.__doc__, declared.__module__
    made.__annotations__ = declared.__annotations__
    made.__signature__ = signature  # type: ignore[attr-defined]  # as functools.wraps sets it
    return made


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
    names: list[str],
    rule: Callable[..., Shape],
    attributes: Callable[..., Mapping[str, Any]],
) -> Callable[..., tuple[Shape, Mapping[str, Any]]]:
    """Return the function that infers the shape and makes the attributes of a new signature."""

    def plan(*values: Any) -> tuple[Shape, Mapping[str, Any]]:
        arguments = dict(zip(names, values, strict=True))
        shape = rule(**_taken(rule, arguments))
        arguments["result"] = shape
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
        form: a letter for each parameter: o for an operand, m for many operands, v for many
            operands that are arguments or one list, a for an attribute, ? for an attribute that
            may be None.
    """
    parameters = [f"p{number}" for number in range(len(form))]
    lines: list[str] = []
    key: list[str] = []
    operands: list[str] = []
    for number, kind in enumerate(form):
        p = f"p{number}"
        if kind == "o":
            lines.append(f"if type({p}) is not XlaOp: need_op(name, names[{number}], {p})")
        elif kind == "v":
            listed = f"{p}[0] if len({p}) == 1 and isinstance({p}[0], (list, tuple)) else {p}"
            lines.append(f"{p} = need_ops(name, names[{number}], {listed})")
        elif kind == "m":
            lines.append(f"{p} = need_ops(name, names[{number}], {p})")
        else:
            guard = f"if {p} is not None: " if kind == "?" else ""
            lines.append(f"{guard}{p} = convert{number}(name, names[{number}], {p})")
        many = f"tuple([op.shape for op in {p}])"
        key.append({"o": f"{p}.shape", "m": many, "v": many}.get(kind, p))
        operands += {"o": [p], "m": [f"*{p}"], "v": [f"*{p}"]}.get(kind, [])
    constants = [f"convert{number}" for number, kind in enumerate(form) if kind in "a?"]
    constants += ["name", "names", "opcode", "table", "plan", "wrong", "missing", *_SHARED]
    listed = ", ".join(parameters)
    accepted = f"*{listed}" if form == "v" else f"{listed}, *more"
    surplus = "()" if form == "v" else "more"
    conversions = "\n            ".join(lines)
    source = f"""
def make({", ".join(constants)}):
    def template({accepted}, **unknown):
        if {surplus} or unknown:
            raise wrong({surplus}, unknown, {listed})
        try:
            {conversions}
            key = ({", ".join(key)},)
            found = table.get(key)
            if found is None:
                found = table.add(key, plan(*key))
            return record(opcode, found[0], ({", ".join(operands)},), found[1])
        except XlaError as error:
            other = missing({listed})
            if other is not None:
                raise other from None
            remove_internal_frames(error)
            raise
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
    "need_op": need_op,
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
