"""Recognize probes: the operations whose operands the helper process reports.

A probe is recorded as an optimization_barrier with a frontend attribute. The helper process gets a
custom call with side effects instead, which no pass removes.
"""

from __future__ import annotations

from typing import Final

from jaxlib.mlir import ir

PROBE: Final = "xlabuilder.probe"
"""The frontend attribute of a barrier that is a probe, and the target of the custom call."""

_FRONTEND: Final = "mhlo.frontend_attributes"


def barrier_name(operation: ir.Operation) -> str | None:
    """Return the name of the probe if an operation is a barrier that is a probe."""
    if operation.name != "stablehlo.optimization_barrier" or _FRONTEND not in operation.attributes:
        return None
    attributes = ir.DictAttr(operation.attributes[_FRONTEND])
    return ir.StringAttr(attributes[PROBE]).value if PROBE in attributes else None


def probe_name(operation: ir.Operation) -> str | None:
    """Return the name of the probe if an operation is a custom call that is a probe."""
    if operation.name != "stablehlo.custom_call":
        return None
    if ir.StringAttr(operation.attributes["call_target_name"]).value != PROBE:
        return None
    return ir.StringAttr(operation.attributes["backend_config"]).value
