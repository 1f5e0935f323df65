"""The registered rewrites and refusals of operations, by platform.

A rewrite is a function for operations of some names on some platforms. It receives an operation of
a copy of the module, and returns the values that replace the results. A refusal has a reason and a
fix. It raises CompileError before XLA compiles the module, because XLA might hang or abort.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from jaxlib.mlir import ir
from jaxlib.version import __version_info__ as jaxlib_version

from builder.schema import ElementTypes
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import ArrayShape
from lowering.host.callbacks import PythonFunction, SharedFailure

if TYPE_CHECKING:
    from lowering.legalize.op_builder import OpBuilder


Value = Any
"""An SSA value."""

ALL_PLATFORMS: Final = ("cpu", "gpu", "tpu")
"""All platforms, for defects in code that XLA's backends share: folding, verifiers, conversions."""

INTERPRETER: Final = "interpreter"
"""The platform name of StableHLO's reference interpreter."""

ARTIFACT: Final = "artifact"
"""The platform name of the portable artifact, which can't represent some operations."""

PUBLIC_NAME: Final = "xlabuilder.public_name"
"""An attribute of a custom call created by a rewrite: the name of the replaced op, for messages."""


@dataclass(slots=True, eq=False)
class Target:
    """What a module is compiled for, and the state that its rewrites share.

    Attributes:
        name: the computation's name, for messages.
        platform: "cpu", "gpu" or "tpu".
        num_replicas, num_partitions: the number of devices that the program runs on.
        devices: these devices, in order of replica, then of partition.
        functions: the Python functions recorded in the module.
        supplied: the Python functions that a module of jax calls by index; None for a function that
            is never called.
        is_partitioned: whether XLA partitions the program.
        callbacks: the Python functions that the module calls, in the order of their indices.
        failure: the errors that the callbacks raise on several devices.
        created: the operations created by the rewrite that is running.
        shapes: the shapes of MLIR types, a cache of `OpBuilder.shape`.
        types: the MLIR types of shapes, a cache of `OpBuilder.type`.
        scalars: the attributes of scalar constants, a cache of `OpBuilder.number`.
    """

    name: str
    platform: str
    num_replicas: int = 1
    num_partitions: int = 1
    devices: Sequence[Any] = ()
    functions: Sequence[PythonFunction] = ()
    supplied: Sequence[Callable[..., Any] | None] = ()
    is_partitioned: bool = False
    callbacks: list[Callable[..., Any]] = field(default_factory=list)
    failure: SharedFailure = field(default_factory=SharedFailure)
    created: list[ir.Operation] = field(default_factory=list)
    shapes: dict[ir.Type, ArrayShape | None] = field(default_factory=dict)
    types: dict[ArrayShape, ir.Type] = field(default_factory=dict)
    scalars: dict[tuple[PrimitiveType, bytes], ir.Attribute] = field(default_factory=dict)

    def add_callback(self, function: Callable[..., Any]) -> int:
        """Add a Python function that the module calls; return its index."""
        self.callbacks.append(function)
        return len(self.callbacks) - 1


Apply = Callable[["OpBuilder", ir.Operation], Sequence[Value] | None]
"""A rewrite's function: returns the replacing values, or None to leave the operation unchanged.

The function creates operations through the builder, in front of the operation. A rewrite that
changes the operation in place returns `operation.results`.
"""


@dataclass(frozen=True, slots=True, eq=False)  # compared by identity: sets of rewrites are searched
class Rewrite:
    """A rewrite of the operations of some names.

    Attributes:
        names: the names of the operations, with their dialects.
        platforms: the platforms that need the rewrite.
        apply: the function; its docstring describes the defect.
        fixed_in: the first (major, minor) version of jaxlib without the defect, where the rewrite
            no longer applies; None while the newest version has the defect.
        adds: element types for which the rewrite defines the operations, although the definitions
            of the ops do not accept them; None if there are none.
    """

    names: tuple[str, ...]
    platforms: tuple[str, ...]
    apply: Apply
    fixed_in: tuple[int, int] | None = None
    adds: ElementTypes | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a platform can't run an operation, and what to write instead.

    Attributes:
        reason, fix: parts of the message.
        unless: a function that returns whether the platform can run an operation nevertheless;
            None if the platform can run no such operation.
    """

    reason: str
    fix: str
    unless: Callable[[ir.Operation], bool] | None = None


REWRITES: Final[list[Rewrite]] = []
"""All rewrites, in the order in which they are tried on an operation."""

REFUSALS: Final[dict[str, dict[str, list[Refusal]]]] = {}
"""The refusals by platform and operation name; the first one that applies is reported."""


def rewrite(
    *names: str,
    platforms: Iterable[str],
    fixed_in: tuple[int, int] | None = None,
    adds: ElementTypes | None = None,
) -> Callable[[Apply], Apply]:
    """Register the decorated function as a rewrite of the operations `names`.

    The docstring describes the defect, or the operation that the platform does not support. The
    last line of the description of a defect is "Shown by: NAME, NAME.": the names of programs in
    tests/defects/reproducers, which record the result with each version of jaxlib.
    docs/xla_defects.md is generated from these docstrings and programs.

    Args:
        names: the names of the operations, with their dialects.
        platforms: the platforms with the defect; ALL_PLATFORMS for a defect in shared code.
        fixed_in: the first (major, minor) version of jaxlib without the defect.
        adds: element types for which the rewrite defines the operations; see `Rewrite`.
    """

    def register(function: Apply) -> Apply:
        REWRITES.append(Rewrite(names, tuple(platforms), function, fixed_in, adds))
        return function

    return register


def rewrites_for(platform: str, among: Iterable[Rewrite] = REWRITES) -> dict[str, list[Rewrite]]:
    """The rewrites that a platform needs with this version of jaxlib, by operation name."""
    table: dict[str, list[Rewrite]] = {}
    for candidate in among:
        is_fixed = candidate.fixed_in is not None and jaxlib_version[:2] >= candidate.fixed_in
        if platform in candidate.platforms and not is_fixed:
            for name in candidate.names:
                table.setdefault(name, []).append(candidate)
    return table


def refuse(
    name: str,
    *platforms: str,
    reason: str,
    fix: str,
    unless: Callable[[ir.Operation], bool] | None = None,
) -> None:
    """Register the reason why these platforms can't run operations `name`."""
    for platform in platforms:
        table = REFUSALS.setdefault(platform, {})
        table.setdefault(name, []).append(Refusal(reason, fix, unless))
