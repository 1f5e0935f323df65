"""The tables of backend knowledge: operations to rewrite and operations to refuse, by platform.

A rewrite is registered for operation names and platforms. It gets one such operation of a copy of
the module and returns the values that replace its results. A refusal is registered with a reason
and a fix; it becomes a CompileError before XLA sees the module, which might hang or abort on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from jaxlib.mlir import ir
from jaxlib.version import __version_info__ as jaxlib_version

from builder.types.shape import ArrayShape
from lowering.host.callbacks import PythonFunction, SharedFailure

if TYPE_CHECKING:
    from lowering.legalize.op_builder import OpBuilder

__all__ = [
    "ALL_PLATFORMS",
    "ARTIFACT",
    "INTERPRETER",
    "REFUSALS",
    "REWRITES",
    "STANDS_FOR",
    "Refusal",
    "Rewrite",
    "Target",
    "Value",
    "refuse",
    "rewrite",
    "rewrites_for",
]

Value = Any
"""An SSA value."""

ALL_PLATFORMS: Final = ("cpu", "gpu", "tpu")
"""For defects in the parts of XLA that its backends share: folding, verifiers, conversions."""

INTERPRETER: Final = "interpreter"
"""StableHLO's reference interpreter, which counts as a platform here."""

ARTIFACT: Final = "artifact"
"""The portable artifact, which counts as a platform too: for operations that it has no form for."""

STANDS_FOR: Final = "xlabuilder.stands_for"
"""An attribute of a custom call that a rewrite creates: the op that it replaces, for messages."""


class Target:
    """What a module is compiled for, and what its rewrites collect.

    Attributes:
        name: the computation's name, for messages.
        platform: "cpu", "gpu" or "tpu".
        num_replicas, num_partitions: the number of devices that the program runs on.
        devices: these devices, the partitions of replica 0, those of replica 1, and so on.
        functions: the Python functions that came with the module.
        callbacks: the Python functions that the module calls, in the order of their indices.
        failure: the errors that they raise on several devices.
        created: the operations created by the rewrite that is running.
        shapes: of the array types that rewrites have looked at; see `OpBuilder.shape`.
        types: of the arrays that rewrites have created.
    """

    def __init__(
        self,
        name: str,
        platform: str,
        num_replicas: int = 1,
        num_partitions: int = 1,
        devices: Sequence[Any] = (),
        functions: Sequence[PythonFunction] = (),
    ) -> None:
        self.name = name
        self.platform = platform
        self.num_replicas = num_replicas
        self.num_partitions = num_partitions
        self.devices = devices
        self.functions = functions
        self.callbacks: list[Callable[..., Any]] = []
        self.failure = SharedFailure()
        self.created: list[ir.Operation] = []
        self.shapes: dict[ir.Type, ArrayShape | None] = {}
        self.types: dict[ArrayShape, ir.Type] = {}

    def add_callback(self, function: Callable[..., Any]) -> int:
        """Add a Python function that the module calls; returns the index to call it by."""
        self.callbacks.append(function)
        return len(self.callbacks) - 1


Apply = Callable[["OpBuilder", ir.Operation], Sequence[Value] | None]
"""The function of a rewrite: the replacing values, or None to leave the operation as it is.

It creates operations through the builder, in front of the operation. One that changes the
operation in place returns the operation's own results.
"""


@dataclass(frozen=True, slots=True, eq=False)  # compared by identity, as sets of them are searched
class Rewrite:
    """A rewrite of the operations of some names.

    Attributes:
        names: of the operations.
        platforms: where it applies.
        apply: the function; its docstring describes the defect.
        fixed_in: the first (major, minor) version of jaxlib without the defect; None while the
            newest has it. The rewrite does not apply from that version on.
    """

    names: tuple[str, ...]
    platforms: tuple[str, ...]
    apply: Apply
    fixed_in: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a platform can't run an operation, and what to write instead.

    Attributes:
        reason, fix: parts of the message.
        unless: whether an operation of that name can be run nevertheless.
    """

    reason: str
    fix: str
    unless: Callable[[ir.Operation], bool] | None = None


REWRITES: Final[list[Rewrite]] = []
"""In the order in which they are tried on an operation."""

REFUSALS: Final[dict[str, dict[str, list[Refusal]]]] = {}
"""By platform and operation name; the first one that applies is reported."""


def rewrite(
    *names: str, platforms: Iterable[str], fixed_in: tuple[int, int] | None = None
) -> Callable[[Apply], Apply]:
    """Register the decorated function as a rewrite of the operations `names`.

    The docstring describes the defect, or what the platform lacks. For a defect its last line is
    "Shown by: NAME, NAME.", the programs in tests/defects/reproducers that show it; these record
    what each version of jaxlib does. docs/xla_defects.md is generated from all of it.

    Args:
        names: of the operations, with their dialects.
        platforms: those with the defect; ALL_PLATFORMS for one in a part of XLA that they share.
        fixed_in: the first (major, minor) version of jaxlib without the defect.
    """

    def enter(function: Apply) -> Apply:
        REWRITES.append(Rewrite(names, tuple(platforms), function, fixed_in))
        return function

    return enter


def rewrites_for(platform: str, among: Iterable[Rewrite] = REWRITES) -> dict[str, list[Rewrite]]:
    """The rewrites that this version of jaxlib needs on a platform, by operation name."""
    table: dict[str, list[Rewrite]] = {}
    for one in among:
        is_needed = one.fixed_in is None or jaxlib_version[:2] < one.fixed_in
        if platform in one.platforms and is_needed:
            for name in one.names:
                table.setdefault(name, []).append(one)
    return table


def refuse(
    name: str,
    *platforms: str,
    reason: str,
    fix: str,
    unless: Callable[[ir.Operation], bool] | None = None,
) -> None:
    """Register the operation `name` as one that these platforms can't run, for this reason too."""
    for platform in platforms:
        table = REFUSALS.setdefault(platform, {})
        table.setdefault(name, []).append(Refusal(reason, fix, unless))
