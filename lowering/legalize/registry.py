"""The tables of what a platform lacks: operations said in other words, and operations refused.

A rewrite is entered for an operation's name and the platforms that lack it. It is called with each
such operation of a copy of the module, and puts other operations in its place. A refusal is
entered with the reason and with what to write instead; it becomes a CompileError before XLA sees
the module, which might hang or die of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from jaxlib.mlir import ir

from builder.frozen import frozen
from lowering.host_calls import PythonFunction, SharedFailure
from lowering.legalize.partitions import is_manual, mark_manual
from lowering.sharding_attributes import GSPMD

__all__ = [
    "REFUSALS",
    "REWRITES",
    "STANDS_FOR",
    "Refusal",
    "Rewrite",
    "Rewriter",
    "refuse",
    "rewrite",
]

Value = Any
"""An SSA value."""

STANDS_FOR: Final = "xlabuilder.stands_for"
"""An attribute of a custom call made by a rewrite: the op that it was, for messages."""


class Rewriter:
    """What the rewrites of one module share.

    Attributes:
        name: the computation's name, for messages.
        platform: "cpu", "gpu", "tpu": where the module is to run.
        num_replicas, num_partitions: on how many devices it is to run.
        devices: these devices, the partitions of replica 0, those of replica 1, and so on.
        functions: the Python functions that came along with the module.
        callbacks: the Python functions that the module calls, in the order of their indices.
        failure: what goes wrong in them on several devices.
    """

    def __init__(
        self,
        name: str,
        platform: str,
        num_replicas: int,
        num_partitions: int,
        devices: Sequence[Any],
        functions: Sequence[PythonFunction],
    ) -> None:
        self.name = name
        self.platform = platform
        self.num_replicas = num_replicas
        self.num_partitions = num_partitions
        self.devices = devices
        self.functions = functions
        self.callbacks: list[Callable[..., Any]] = []
        self.failure = SharedFailure()

    def create(
        self,
        name: str,
        results: Sequence[ir.Type],
        operands: Sequence[Value],
        attributes: dict[str, ir.Attribute] | None = None,
        *,
        before: ir.Operation,
        regions: int = 0,
    ) -> ir.Operation:
        """Creates an operation before another one, at the same source line.

        Where it is said of the other one that each partition has its own (of a program that XLA
        cuts up), it is said of the new one too.
        """
        made = ir.Operation.create(
            name,
            results=list(results),
            operands=list(operands),
            attributes=attributes,
            regions=regions,
            loc=before.location,
            ip=ir.InsertionPoint(before),
        )
        if GSPMD in before.attributes and is_manual(before):
            mark_manual(made)
        return made

    def replace(self, old: ir.Operation, values: Sequence[Value]) -> None:
        """Has the users of the results of `old` use these values, and erases it."""
        for result, value in zip(list(old.results), values, strict=True):
            result.replace_all_uses_with(value)
        old.erase()

    def add_callback(self, function: Callable[..., Any]) -> int:
        """The index by which the module calls a Python function."""
        self.callbacks.append(function)
        return len(self.callbacks) - 1


Rewrite = Callable[[Rewriter, ir.Operation], None]


@frozen
class Refusal:
    """Why a platform can't run an operation, and what to write instead.

    Attributes:
        reason, fix: the words of the message.
        unless: says of an operation of that name that it can be run all the same.
    """

    reason: str
    fix: str
    unless: Callable[[ir.Operation], bool] | None = None


REWRITES: Final[dict[str, dict[str, Rewrite]]] = {}
"""By platform and operation name."""

REFUSALS: Final[dict[str, dict[str, list[Refusal]]]] = {}
"""By platform and operation name; of several the first that holds is said."""


def rewrite(name: str, *platforms: str) -> Callable[[Rewrite], Rewrite]:
    """Enters the decorated function for the operation `name`, which these platforms lack."""

    def enter(function: Rewrite) -> Rewrite:
        for platform in platforms:
            REWRITES.setdefault(platform, {})[name] = function
        return function

    return enter


def refuse(
    name: str,
    *platforms: str,
    reason: str,
    fix: str,
    unless: Callable[[ir.Operation], bool] | None = None,
) -> None:
    """Enters the operation `name` as one that these platforms can't run, for this reason too."""
    for platform in platforms:
        table = REFUSALS.setdefault(platform, {})
        table.setdefault(name, []).append(Refusal(reason, fix, unless))
