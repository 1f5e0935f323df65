"""Probes: what the operations are called that have the helper process tell a value.

A program is recorded with an optimization_barrier that says so in a frontend attribute; what the
helper process is given is a call with side effects, which nothing takes away.
"""

from __future__ import annotations

from typing import Final

from jaxlib.mlir import ir

__all__ = ["PROBED", "barrier_name", "probe_name"]

PROBED: Final = "xlabuilder.probe"
"""The frontend attribute of a barrier whose operands are to be told, and the call's function."""

_FRONTEND: Final = "mhlo.frontend_attributes"


def barrier_name(operation: ir.Operation) -> str | None:
    """The name that the operands of a barrier are to be told by, if it is a probe."""
    if operation.name != "stablehlo.optimization_barrier" or _FRONTEND not in operation.attributes:
        return None
    said = ir.DictAttr(operation.attributes[_FRONTEND])
    return ir.StringAttr(said[PROBED]).value if PROBED in said else None


def probe_name(operation: ir.Operation) -> str | None:
    """The name that the operands of a call are to be told by, if it is a probe."""
    if operation.name != "stablehlo.custom_call":
        return None
    if ir.StringAttr(operation.attributes["call_target_name"]).value != PROBED:
        return None
    return ir.StringAttr(operation.attributes["backend_config"]).value
