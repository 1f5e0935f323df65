"""The StableHLO version of a portable artifact: names, and errors for inexpressible modules.

A reader supports artifacts of its own StableHLO version and of earlier ones. Readers are often
older than the writer, so an artifact is written for an older version if that version can express
the module.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from jaxlib.mlir import ir

from builder.errors import brief, error_of
from builder.graph.registry import OPERATIONS
from builder.schema import SCHEMAS
from lowering.errors import VersionError, recorded_at
from lowering.jaxlib_api import artifacts, versions
from lowering.mlir.attributes import ARGUMENT_NAME
from lowering.mlir.operations import entry_text, functions_in, operations_where

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
    numbers = _numbers(version)
    if not _numbers(oldest) <= numbers <= _numbers(newest):
        is_newer = numbers > _numbers(newest)
        reason = "newer than the installed jaxlib can write" if is_newer else "too old"
        raise error_of(VersionError, op, f"StableHLO {version} is {reason}", fix, version=version)
    return ".".join(map(str, numbers))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


_LAST_BEFORE_1: Final = 20

_NEWER_ATTRIBUTE: Final = "result_accuracy"
"""The attribute that operations of StableHLO 0.9.0 got in later versions."""


def first_newer(version: str, is_expressible: Callable[[str], bool]) -> str | None:
    """Return the first version after `version` that can express a module, or None.

    StableHLO adds operations in versions with a patch number of 0, and does not remove any.
    """
    newest = versions.current_version()
    major, minor, _ = _numbers(newest)
    minor_versions = [f"0.{n}.0" for n in range(_LAST_BEFORE_1 + 1)]
    minor_versions += [f"{major}.{n}.0" for n in range(minor + 1)]
    newer = [v for v in minor_versions if _numbers(v) > _numbers(version)]
    if newest not in minor_versions:
        newer.append(newest)
    position = bisect.bisect_left(newer, True, key=is_expressible)
    return newer[position] if position < len(newer) else None


class _Cause(NamedTuple):
    """Texts for an error: what a version can't express, and the op that needs it.

    Both are empty if unknown.
    """

    subject: str
    needed_by: str


def version_error(
    module: ir.Module, name: str, version: str, available: str | None, report: str
) -> VersionError:
    """Return the error for a module that a StableHLO version can't express.

    Args:
        module, name: the module and its name.
        version: the version that can't express the module.
        available: the first version that can express the module, or None.
        report: MLIR's report.
    """
    cause = _type_cause(module, version) or _operation_cause(module, report)
    subject = f"{cause.subject} of {name}" if cause.subject else name
    notes = [f"needed by {cause.needed_by}"] if cause.needed_by else []
    if available is not None:
        notes.append(f"available from {available}")
    parenthesis = f" ({'; '.join(notes)})" if notes else ""
    newest = versions.current_version()
    fix = f"write version {available} or newer, up to {newest}" if available else ""
    rule = f"StableHLO {version} can't express {subject}{parenthesis}"
    return error_of(VersionError, "artifact", rule, fix, version=version, detail=report)


def _operation_cause(module: ir.Module, report: str) -> _Cause:
    """Return the operation in MLIR's report, and the op that needs the operation."""
    match = re.search(r"failed to legalize operation '(?:vhlo\.)?([\w.]+?)(?:_v\d+)?'", report)
    if match is None:
        return _Cause("", "")
    name = match[1]
    users = _users(module, name)
    subject = f"the operation {name}"
    accurate = [user for user in users if _NEWER_ATTRIBUTE in user.attributes]
    if accurate and _NEWER_ATTRIBUTE in report:
        users = accurate
        subject = f"the attribute {_NEWER_ATTRIBUTE} of {subject}"
    # The report begins with the location. Other operations of this name may be expressible.
    places = report[: match.start()].replace('"', "")
    reported = [user for user in users if _place(user) and f"{_place(user)}:" in places]
    needed_by = _recorded_op((reported or users)[0]) if users else ""
    return _Cause(subject, needed_by)


def _users(module: ir.Module, name: str) -> list[ir.Operation]:
    """Return the operations of this name in any dialect.

    For "composite", CHLO operations are included: they are serialized as composites.
    """

    def is_user(operation: ir.Operation) -> bool:
        dialect, _, short_name = operation.name.partition(".")
        return name in (short_name, operation.name) or (name == "composite" and dialect == "chlo")

    return operations_where(module, is_user)


def _place(operation: ir.Operation) -> str:
    """Return "file:line" of an operation; "" if its location is unknown."""
    return recorded_at(operation.location).removeprefix(", recorded at ").removesuffix(",")


def _recorded_op(operation: ir.Operation) -> str:
    """Return the public name and the source line of the op that an operation was lowered from."""
    opcode = next((s.opcode for s in SCHEMAS.values() if s.stablehlo == operation.name), None)
    names = [info.name for info in OPERATIONS.values() if info.opcode == opcode]
    name = opcode if opcode in names or not names else names[0]
    return f"{name or operation.name}{recorded_at(operation.location).rstrip(',')}"


_PROBE: Final = "func.func @main(%x: tensor<{0}>) -> tensor<{0}> {{ return %x : tensor<{0}> }}"


def _type_cause(module: ir.Module, version: str) -> _Cause | None:
    """Return the first element type in the signature of @main that `version` can't express.

    Return None if `version` can express all element types of the signature.
    """
    probed: set[str] = set()
    for value_type, needed_by in _values(module):
        if not isinstance(value_type, ir.ShapedType):
            continue
        text = str(value_type.element_type)
        if text not in probed:
            probed.add(text)
            probe = ir.Module.parse(_PROBE.format(text), module.context)
            try:
                artifacts.serialize_artifact(probe, version, {})
            except ValueError:
                return _Cause(f"the element type {text}", needed_by())
    return None


def _values(module: ir.Module) -> Iterator[tuple[ir.Type, Callable[[], str]]]:
    """Yield the type of each argument and result of @main, and a function that returns a name."""
    for function in functions_in(module.operation, "main"):
        attributes = function.attributes
        arguments = function.regions[0].blocks[0].arguments
        names = [f"arg{number}" for number in range(len(arguments))]
        if "arg_attrs" in attributes:
            entries = map(ir.DictAttr, ir.ArrayAttr(attributes["arg_attrs"]))
            names = [
                entry_text(entry, ARGUMENT_NAME) or name
                for entry, name in zip(entries, names, strict=True)
            ]
        for argument, name in zip(arguments, names, strict=True):
            yield argument.type, partial("parameter {}".format, name)
    for operation in operations_where(module, lambda operation: bool(operation.results)):
        for result in operation.results:
            yield result.type, partial(_recorded_op, operation)
