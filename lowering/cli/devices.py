"""`xlabuilder devices`: what there is to run on."""

from __future__ import annotations

import contextlib
from typing import Any

from lowering.cli.command import NAME, json_option, subcommand
from lowering.cli.output import bytes_text, print_json, show, table

__all__ = ["versions"]


@subcommand("devices")
@json_option
def devices(as_json: bool) -> None:
    """Lists the devices that programs can run on, with their memory, and the versions."""
    import jax

    from lowering.errors import DeviceError
    from lowering.pjrt import devices as pjrt

    found = list(pjrt.devices())
    with contextlib.suppress(DeviceError):  # "cpu" may be left out of jax's platforms
        found += [one for one in pjrt.devices("cpu") if one not in found]
    listed = [_about(one, jax.local_devices(backend=one.platform)) for one in found]
    if as_json:
        print_json({"devices": listed, "versions": versions()})
        return
    columns = [("device", "left"), ("kind", "left"), ("id", "right"), ("process", "right")]
    columns += [("memory", "left"), ("runtime", "left")]
    rows = [
        (
            one["device"],
            one["kind"],
            one["id"],
            one["process"],
            _memory_text(one["memory"]),
            one["runtime"],
        )
        for one in listed
    ]
    said = ", ".join(f"{name} {version}" for name, version in versions().items())
    show(table(columns, rows), "", said)


def _about(one: Any, siblings: list[Any]) -> dict[str, Any]:
    stats = one.memory_stats() or {}
    known = {name: int(stats[name]) for name in ("bytes_in_use", "bytes_limit") if name in stats}
    lines = one.client.platform_version.splitlines()
    return {
        "device": f"{one.platform}:{siblings.index(one)}",
        "platform": one.platform,
        "kind": one.device_kind,
        "id": one.id,
        "process": one.process_index,
        "memory": known or None,
        "runtime": lines[0] if lines else "",
    }


def _memory_text(memory: dict[str, int] | None) -> str:
    if memory is None:
        return "not said"
    used = bytes_text(memory.get("bytes_in_use", 0))
    return f"{used} of {bytes_text(memory['bytes_limit'])}" if "bytes_limit" in memory else used


def versions() -> dict[str, str]:
    """The versions of this project and of what it stands on."""
    import platform
    from importlib import metadata

    def version(name: str) -> str:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:  # it is run from its folder, and not installed
            return "(not installed)"

    from lowering.jaxlib_api import versions

    names = (NAME, "jax", "jaxlib", "numpy")
    found = {name: version(name) for name in names}
    return {
        **found,
        "StableHLO": versions.current_version(),
        "Python": platform.python_version(),
    }
