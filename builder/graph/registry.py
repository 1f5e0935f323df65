"""The table of operations: one entry for each public op, made by the decorator `op`.

docs/operations.md is generated from the table, and tests/test_registry.py checks each entry.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from typing import Any, Final, TypeVar, cast

from builder.errors import XlaError
from builder.graph.calls import accepting_unknown, explained
from builder.schema import Schema

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class OpInfo:
    """A public operation.

    Attributes:
        function: the function, or the method of XlaBuilder.
        schema: the schema of the op that the function records last and returns.
        cpp_name: the name in the C++ XlaBuilder.
        section: the section of the Operation Semantics document, or another source.
        family: the name shared by the modules of its function, its shape inference and its schema.
        aliases: other names in `builder` for the same operation.
    """

    function: Callable[..., Any]
    schema: Schema
    cpp_name: str
    section: str
    family: str
    aliases: tuple[str, ...] = ()

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


def op(
    schema: Schema,
    *,
    cpp_name: str = "",
    section: str = "",
    aliases: tuple[str, ...] = (),
    family: str = "",
) -> Callable[[F], F]:
    """Add the decorated function to `OPERATIONS`, and return it with errors for wrong arguments.

    Args:
        schema: the schema of the op that the function records last.
        cpp_name, section: see `OpInfo`; by default those of the schema, which several functions
            may share.
        aliases: other names of the function.
        family: see `OpInfo`; by default the name of the function's module in `builder.ops`.
    """

    def enter(function: F) -> F:
        if "unknown" in function.__annotations__:
            function = accepting_unknown(function)
        else:
            function = explained(function)
        OPERATIONS[function.__name__] = OpInfo(
            function,
            schema,
            cpp_name or schema.cpp_name,
            section or schema.section,
            # builder.ops.FAMILY or builder.ops.FAMILY.part
            family or function.__module__.split(".")[2],
            aliases,
        )
        return function

    return enter


def order_of_arguments(name: str) -> str:
    """Return the required parameters of an op for fixes, or "" if there is no op of that name."""
    info = OPERATIONS.get(name)
    if info is None:
        return ""
    parameters = signature(info.function).parameters.values()
    required = [p.name for p in parameters if p.default is p.empty and p.name != "self"]
    return f"the arguments of {name} are {', '.join(required)}"


def alias(name: str, function: F) -> F:
    """Return a wrapper of `function` with another name; its errors begin with that name."""

    @wraps(function)
    def renamed(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except XlaError as error:
            if error.op == function.__name__:
                error.renamed(name)
            raise

    renamed.__name__ = renamed.__qualname__ = name
    return cast("F", renamed)
