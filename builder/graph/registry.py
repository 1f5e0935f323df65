"""The table of operations, and decorators that enter functions into tables by opcode.

The decorators of ops make one entry for each public op. docs/operations.md is generated from the
table, and tests/test_every_op.py checks each entry.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, Final, TypeVar, cast, get_overloads

from builder.errors import XlaError
from builder.graph.calls import explained
from builder.schema import Schema
from builder.support.bundles import Bundle, bundle, set_fields

F = TypeVar("F", bound=Callable[..., Any])


@bundle
class OpInfo(Bundle):
    """A public operation.

    Attributes:
        function: the function, or the method of XlaBuilder.
        schema: the schema of the op that the function records last and returns.
        rule: the function that infers the shape of the result from the shapes of the operands and
            the attributes, which `builder.shape_inference` offers to users.
        cpp_name: the name in the C++ XlaBuilder.
        section: the section of the Operation Semantics document, or another source.
        family: the name shared by the modules of its function, its shape inference and its schema.
        aliases: other names in `builder` for the same operation.
    """

    function: Callable[..., Any]
    schema: Schema
    rule: Callable[..., Any] | None
    cpp_name: str
    section: str
    family: str
    aliases: tuple[str, ...]

    def __init__(
        self,
        function: Callable[..., Any],
        schema: Schema,
        rule: Callable[..., Any] | None,
        cpp_name: str,
        section: str,
        family: str,
        aliases: tuple[str, ...] = (),
    ) -> None:
        set_fields(self, function, schema, rule, cpp_name, section, family, aliases)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy is the same object, and a rule may be a local function.
        return _by_name, (self.name,)

    @property
    def name(self) -> str:
        """The operation's name in `builder`, such as "mul"."""
        return self.function.__name__

    @property
    def opcode(self) -> str:
        """The opcode of the op that the function returns, such as "multiply"."""
        return self.schema.opcode

    @property
    def is_method(self) -> bool:
        """Whether the operation is a method of XlaBuilder, not a function."""
        return self.function.__qualname__.startswith("XlaBuilder.")


OPERATIONS: Final[dict[str, OpInfo]] = {}
"""The public operations by name."""


def _by_name(name: str) -> OpInfo:
    return OPERATIONS[name]


def register(
    function: Callable[..., Any],
    schema: Schema,
    rule: Callable[..., Any] | None = None,
    *,
    cpp_name: str = "",
    section: str = "",
    aliases: tuple[str, ...] = (),
    family: str = "",
) -> None:
    """Add a function to `OPERATIONS`.

    Args:
        function, schema, rule: see `OpInfo`.
        cpp_name, section: see `OpInfo`; by default those of the schema, which several functions
            may share.
        aliases: other names of the function.
        family: see `OpInfo`; by default the name of the function's module in `builder.ops`.
    """
    OPERATIONS[function.__name__] = OpInfo(
        function,
        schema,
        rule,
        cpp_name or schema.cpp_name,
        section or schema.section,
        # builder.ops.FAMILY or builder.ops.FAMILY.part
        family or function.__module__.split(".")[2],
        aliases,
    )


def op_by_hand(
    schema: Schema, rule: Callable[..., Any] | None = None, **facts: Any
) -> Callable[[F], F]:
    """Return a decorator for a public op with a body, which adds errors for wrong arguments.

    The arguments are those of `register`. Ops without a form of their own have no body; see
    `builder/ops/definition.py`.
    """

    def enter(function: F) -> F:
        function = explained(function)
        register(function, schema, rule, **facts)
        return function

    return enter


def rule_of(name: str) -> Callable[..., Any]:
    """Return the function that infers the shape of an op; see `OpInfo.rule`.

    Raises:
        KeyError: there is no such op, or it has no rule.
    """
    rule = OPERATIONS[name].rule
    if rule is None:
        raise KeyError(name)
    return rule


def order_of_arguments(name: str) -> str:
    """Return the required parameters of an op for fixes, or "" if there is no op of that name."""
    info = OPERATIONS.get(name)
    if info is None:
        return ""
    calls = []
    for form in get_overloads(info.function) or [info.function]:
        parameters = signature(form).parameters.values()
        required = [p.name for p in parameters if p.default is p.empty and p.name != "self"]
        calls.append(f"{'b' if info.is_method else 'xb'}.{name}({', '.join(required)})")
    return f"write {' or '.join(calls)}"


def alias(name: str, function: F) -> F:
    """Return a wrapper of `function` with another name; its errors begin with that name."""

    @wraps(function)
    def renamed(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except XlaError as error:
            if error.op == function.__name__:
                error._renamed(name)
            raise

    renamed.__name__ = renamed.__qualname__ = name
    return cast("F", renamed)


def registrar(table: dict[str, F]) -> Callable[..., Callable[[F], F]]:
    """Return a decorator ``(*names)`` that enters a function into `table` under these names."""

    def under(*names: str) -> Callable[[F], F]:
        def enter(function: F) -> F:
            table.update(dict.fromkeys(names, function))
            return function

        return enter

    return under
