"""`xlabuilder devices`: list the devices."""

from __future__ import annotations

import contextlib
from typing import Any

from lowering.cli.command import json_option, print_json, show, subcommand, table, versions


@subcommand("devices")
@json_option
def devices(as_json: bool) -> None:
    """List the devices with their memory, and the software versions."""
    import jax

    from lowering.errors import DeviceError
    from lowering.pjrt import devices as pjrt

    available = list(pjrt.devices())
    with contextlib.suppress(DeviceError):  # jax may be configured without CPU
        available += [device for device in pjrt.devices("cpu") if device not in available]
    records = [_record(each, jax.local_devices(backend=each.platform)) for each in available]
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
