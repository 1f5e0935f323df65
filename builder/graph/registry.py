"""The table of operations: one entry for each public op, made by the decorator `op`.

docs/operations.md is written from it, and a test walks it: an op without a lowering rule, a
docstring with an example, inference cases or an executed test fails there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

__all__ = ["OPERATIONS", "OpInfo", "op"]

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class OpInfo:
    """What is known of one public operation.

    Attributes:
        name: its name in `builder`.
        function: the function, or the method of XlaBuilder.
        opcode: the instruction that it records last, whose value is the result.
        cpp_name: its name in the C++ XlaBuilder.
        family: the module that holds it, in every room of the house.
        section: where the Operation Semantics document describes it, or where else.
        aliases: other names in `builder` for the same function.
        is_method: a method of XlaBuilder, not a function.
    """

    name: str
    function: Callable[..., Any]
    opcode: str
    cpp_name: str
    family: str
    section: str
    aliases: tuple[str, ...] = ()
    is_method: bool = False


OPERATIONS: Final[dict[str, OpInfo]] = {}


def op(
    cpp_name: str,
    *,
    opcode: str,
    section: str,
    aliases: tuple[str, ...] = (),
    family: str | None = None,
    is_method: bool = False,
) -> Callable[[F], F]:
    """Enters the decorated function into the table and gives it back unchanged."""

    def enter(function: F) -> F:
        name = function.__name__
        OPERATIONS[name] = OpInfo(
            name=name,
            function=function,
            opcode=opcode,
            cpp_name=cpp_name,
            # builder.ops.FAMILY or builder.ops.FAMILY.part
            family=family or function.__module__.split(".")[2],
            section=section,
            aliases=aliases,
            is_method=is_method,
        )
        return function

    return enter
