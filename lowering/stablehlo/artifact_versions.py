"""The StableHLO version of a portable artifact: names, and errors for inexpressible modules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, Final

from jaxlib.mlir import ir

from builder.errors import brief, error_of
from builder.graph.registry import OPERATIONS
from builder.schema import SCHEMAS
from lowering.errors import VersionError, recorded_at
from lowering.jaxlib_api import versions
from lowering.mlir.attributes import ARGUMENT_NAME
from lowering.mlir.operations import entry_text, functions_in, operations_in
from lowering.stablehlo.version_history import (
    COMPOSITE,
    Need,
    entry_arguments,
    numbers_of,
    operation_needs,
    type_need,
)

_WEEKS: Final = {"4w": 4, "12w": 12}


def checked_version(op: str, version: Any) -> str | None:
    """Return a supported StableHLO version as three numbers without leading zeros.

    Args:
        op: the function that the user called, for messages.
        version: three numbers, such as "1.9.0"; "minimum" or "current"; "4w" or "12w"; or None,
            which is returned.

    Raises:
        VersionError: `version` is none of these.
    """
    newest, oldest = versions.current_version(), versions.minimum_version()
    if version is None:
        return None
    names = {"current": newest, "minimum": oldest}
    if isinstance(version, str) and version in names:
        return names[version]
    if isinstance(version, str) and version in _WEEKS:
        return versions.compatible_version(_WEEKS[version])
    fix = f"pass a version from {oldest} to {newest}, 'minimum', '12w', '4w' or 'current'"
    pattern = r"[0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9}"
    if not isinstance(version, str) or not re.fullmatch(pattern, version):
        rule = f"version must be three numbers such as '1.9.0', got {brief(version)}"
        raise error_of(VersionError, op, rule, fix, version=version)
    numbers = numbers_of(version)
    if not numbers_of(oldest) <= numbers <= numbers_of(newest):
        is_newer = numbers > numbers_of(newest)
        reason = "newer than the installed jaxlib can write" if is_newer else "too old"
        raise error_of(VersionError, op, f"StableHLO {version} is {reason}", fix, version=version)
    return ".".join(map(str, numbers))


def version_error(module: ir.Module, name: str, version: str, report: str) -> VersionError:
    """Return the error for a module that a StableHLO version can't express.

    Args:
        module, name: the module and its name.
        version: the version that can't express the module.
        report: MLIR's report.
    """
    needs = [
        (need, needed_by)
        for need, needed_by in _needs(module)
        if numbers_of(need.version) > numbers_of(version)
    ]
    if not needs:
        match = re.search(r"failed to legalize operation '(?:vhlo\.)?([\w.]+)'", report)
        subject = f"the operation {match[1]} of {name}" if match else name
        rule = f"StableHLO {version} can't express {subject}"
        return error_of(VersionError, "artifact", rule, version=version, detail=report)
    need, needed_by = needs[0]
    rule = (
        f"StableHLO {version} can't express {need.subject} of {name} (needed by {needed_by()}; "
        f"available from {need.version})"
    )
    available = max((need.version for need, _ in needs), key=numbers_of)
    fix = f"write version {available} or newer, up to {versions.current_version()}"
    if any(need.subject == COMPOSITE for need, _ in needs):
        fix += "; composites='inline' writes the program without composites"
    return error_of(VersionError, "artifact", rule, fix, version=version, detail=report)


def _needs(module: ir.Module) -> Iterator[tuple[Need, Callable[[], str]]]:
    """Yield what StableHLO 0.9.0 can't express: parameters of @main, then operations.

    With each, yield a function that returns the name of the parameter or the op.
    """
    need_of_type = cache(type_need)
    for function in functions_in(module.operation, "main"):
        attributes = function.attributes
        listed = ir.ArrayAttr(attributes["arg_attrs"]) if "arg_attrs" in attributes else ()
        named = [entry_text(ir.DictAttr(entry), ARGUMENT_NAME) for entry in listed]
        for number, value in enumerate(entry_arguments(function)):
            if (need := need_of_type(value.type)) is not None:
                name = (named and named[number]) or f"arg{number}"
                yield need, partial("parameter {}".format, name)
    for operation in operations_in(module.operation):
        needs = [*operation_needs(operation), *(need_of_type(r.type) for r in operation.results)]
        for need in needs:
            if need is not None:
                yield need, partial(_recorded_op, operation)


def _recorded_op(operation: ir.Operation) -> str:
    """Return the public name and the source line of the op that an operation was lowered from."""
    opcode = next((s.opcode for s in SCHEMAS.values() if s.stablehlo == operation.name), None)
    names = [info.name for info in OPERATIONS.values() if info.opcode == opcode]
    name = opcode if opcode in names or not names else names[0]
    return f"{name or operation.name}{recorded_at(operation.location).rstrip(',')}"
