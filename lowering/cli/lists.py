"""`xlabuilder devices`, `versions` and `ops`: list devices, versions, and the operations."""

from __future__ import annotations

import contextlib
import difflib
import inspect as python_inspect
import re
from typing import TYPE_CHECKING, Any, Final

import click

from lowering.cli.command import (
    FailedError,
    json_option,
    print_json,
    show,
    subcommand,
    table,
    versions,
)

if TYPE_CHECKING:
    from builder.graph.registry import OpInfo


@subcommand("devices")
@json_option
def devices(as_json: bool) -> None:
    """List the devices with their memory, and the software versions."""
    import jax

    records = [
        _record(each, jax.local_devices(backend=each.platform)) for each in _available_devices()
    ]
    if as_json:
        print_json({"devices": records, "versions": versions()})
        return
    columns = [("device", "left"), ("kind", "left"), ("id", "right"), ("process", "right")]
    columns += [("memory", "left"), ("runtime", "left")]
    rows = [
        [_memory_text(record[name]) if name == "memory" else record[name] for name, _ in columns]
        for record in records
    ]
    listed = ", ".join(f"{name} {version}" for name, version in versions().items())
    show(table(columns, rows), "", listed)


def _available_devices() -> list[Any]:
    from lowering.errors import DeviceError
    from lowering.pjrt import devices as pjrt

    available: list[Any] = list(pjrt.devices())
    with contextlib.suppress(DeviceError):  # jax may be configured without CPU
        available += [device for device in pjrt.devices("cpu") if device not in available]
    return available


@subcommand("versions")
@json_option
def print_versions(as_json: bool) -> None:
    """Print the versions, platform and devices for a bug report."""
    import platform
    from collections import Counter

    from builder.errors import XlaError, statement_of

    facts = {**versions(), "platform": platform.platform()}
    try:
        counts = Counter(f"{each.platform} {each.device_kind}" for each in _available_devices())
        devices = [f"{count} x {kind}" for kind, count in counts.items()]
    except XlaError as error:  # the report is needed most where devices do not work
        devices = [statement_of(error).partition("\n")[0]]
    if as_json:
        print_json({**facts, "devices": devices})
        return
    rows = [*facts.items(), ("devices", ", ".join(devices))]
    width = max(len(name) for name, _ in rows)
    show(*(f"{name:{width}}  {value}" for name, value in rows))


def _record(device: Any, siblings: list[Any]) -> dict[str, Any]:
    stats = device.memory_stats() or {}
    memory = {name: int(stats[name]) for name in ("bytes_in_use", "bytes_limit") if name in stats}
    lines = device.client.platform_version.splitlines()
    return {
        "device": f"{device.platform}:{siblings.index(device)}",
        "platform": device.platform,
        "kind": device.device_kind,
        "id": device.id,
        "process": device.process_index,
        "memory": memory or None,
        "runtime": lines[0] if lines else "",
    }


def _memory_text(memory: dict[str, int] | None) -> str:
    from builder.inspection.rendering import bytes_text

    if memory is None:
        return "unknown"
    used = bytes_text(memory.get("bytes_in_use", 0))
    return f"{used} of {bytes_text(memory['bytes_limit'])}" if "bytes_limit" in memory else used


@subcommand("ops")
@click.argument("name", required=False)
@json_option
def ops(name: str | None, as_json: bool) -> None:
    """List the operations, or show the documentation of NAME.

    NAME is the name in Python, the opcode, or the name in the C++ XlaBuilder.
    """
    from builder.graph.registry import OPERATIONS

    if name is None:
        if as_json:
            print_json([_row(info) for info in OPERATIONS.values()])
        else:
            _print_all(list(OPERATIONS.values()))
        return
    infos = _named(name, OPERATIONS)
    if as_json:
        print_json([{**_row(info), "documentation": _document(info)} for info in infos])
        return
    for number, info in enumerate(infos):
        if number:
            show("")
        _print_one(info)


def _row(info: OpInfo) -> dict[str, Any]:
    return {
        "name": info.name,
        "aliases": list(info.aliases),
        "opcode": info.opcode,
        "cpp_name": info.cpp_name,
        "family": info.family,
        "section": info.section,
        "is_method": info.is_method,
        "element_types": _element_types(info),
        "stablehlo": info.schema.stablehlo,
    }


def _element_types(info: OpInfo) -> dict[str, str]:
    """Return the element types that the schema allows, as text by parameter name."""
    parameters = python_inspect.signature(info.function).parameters
    types = info.schema.element_types
    return {name: allowed.text for name, allowed in types.items() if name in parameters}


def _print_all(infos: list[OpInfo]) -> None:
    columns = ["name", "opcode", "XlaBuilder", "family", "section"]
    rows = [
        (_names_text(info), info.opcode, info.cpp_name, info.family, info.section)
        for info in sorted(infos, key=lambda info: (info.family, info.name))
    ]
    show(
        table([(column, "left") for column in columns], rows),
        "",
        f"{len(rows)} operations; `xlabuilder ops NAME` documents one",
    )


def _names_text(info: OpInfo) -> str:
    names = ", ".join((info.name, *info.aliases))
    return f"XlaBuilder.{names}" if info.is_method else names


def _named(name: str, operations: dict[str, OpInfo]) -> list[OpInfo]:
    """Return the operations that have this name.

    Raises:
        FailedError: there is no such operation; the message lists similar names.
    """
    from builder import lib

    name_in_python = name.removeprefix("xb.").removeprefix("XlaBuilder.")
    infos = operations.values()
    matches = [info for info in infos if name_in_python in (info.name, *info.aliases)]
    if matches:
        return matches
    lowered = name_in_python.lower().replace("-", "_")
    matches = [
        info for info in infos if lowered in (info.name.lower(), info.opcode, info.cpp_name.lower())
    ]
    if matches:
        return matches
    names = {
        alias.lower(): info.name
        for info in infos
        for alias in (info.name, *info.aliases, info.opcode, info.cpp_name)
    }
    if lowered.removeprefix("lib.") in dir(lib):
        name_in_library = lowered.removeprefix("lib.")
        raise FailedError(
            f"ops: {name_in_library!r} is a function of builder.lib, which records several ops",
            f"read help(lib.{name_in_library}) in Python, after `from builder import lib`",
        )
    near = difflib.get_close_matches(lowered, names, n=5, cutoff=0.5)
    listed = ", ".join(dict.fromkeys(names[alias] for alias in near))
    raise FailedError(
        f"ops: there is no operation {name!r}",
        f"use a similar name: {listed}" if listed else "list all operations with `xlabuilder ops`",
    )


def _document(info: OpInfo) -> str:
    text = python_inspect.cleandoc(info.function.__doc__ or "")
    if "\nReturns:\n" not in text:
        # The package describes the arguments and results that its functions share.
        from builder.ops import elementwise

        text += "\n\n" + python_inspect.cleandoc(elementwise.__doc__ or "").partition("\n\n")[2]
    return text


def _print_one(info: OpInfo) -> None:
    signature = str(python_inspect.signature(info.function)).replace("'", "")
    names = [f"opcode {info.opcode}", f"{info.cpp_name} in C++", f"family {info.family}"]
    if info.aliases:
        names.append(f"also called {', '.join(info.aliases)}")
    types = [f"{name}: {text}" for name, text in _element_types(info).items()]
    show(
        [(f"{'XlaBuilder' if info.is_method else 'xb'}.{info.name}", "bold cyan"), (signature, "")],
        [(", ".join(names), "italic")],
        *([[(f"element types {'; '.join(types)}", "italic")]] if types else []),
        "",
        *(
            [(line, "bold" if _HEADING.fullmatch(line) else "")]
            for line in _document(info).splitlines()
        ),
    )


_HEADING: Final = re.compile(r"(Args|Returns|Raises|Example|Attributes):")
