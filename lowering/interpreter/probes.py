"""Recognize probes: the operations whose operands the interpreter's process reports.

A probe is recorded as an optimization_barrier with a frontend attribute. The interpreter's process
receives a custom call with side effects instead, which no pass removes.
"""

from __future__ import annotations

from typing import Final

from jaxlib.mlir import ir

PROBE: Final = "xlabuilder.probe"
"""Marks a probe: a frontend attribute of an optimization_barrier, or a custom call's target."""

_FRONTEND: Final = "mhlo.frontend_attributes"


def barrier_name(operation: ir.Operation) -> str | None:
    """Return the probe's name if an operation is a probe's optimization_barrier, else None."""
    if operation.name != "stablehlo.optimization_barrier" or _FRONTEND not in operation.attributes:
        return None
    attributes = ir.DictAttr(operation.attributes[_FRONTEND])
    return ir.StringAttr(attributes[PROBE]).value if PROBE in attributes else None


def probe_name(operation: ir.Operation) -> str | None:
    """Return the probe's name if an operation is a probe's custom call, else None."""
    if operation.name != "stablehlo.custom_call":
        return None
    if ir.StringAttr(operation.attributes["call_target_name"]).value != PROBE:
        return None
    return ir.StringAttr(operation.attributes["backend_config"]).value
