"""load_executable: load an executable from a file, for devices that can run it."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, Final

import jax

from builder.errors import XlaError
from builder.types.shape import ProgramShape, parse_shape
from lowering.errors import CompileError, DeviceError, ModuleFileError
from lowering.host.custom_calls import unregistered
from lowering.jaxlib_api import array_layouts, compilation, executables, topologies, versions
from lowering.pjrt.devices import DeviceLike, devices as devices_of, devices_for
from lowering.reading.foreign_formats import EXECUTABLE_MAGIC
from lowering.reading.module_reader import display_name
from lowering.running.executable_file import other_content, unpacked
from lowering.running.executable_kinds import executable_of
from lowering.running.program import ProgramInfo
from lowering.sharding.partitioning import Partitioning
from lowering.stablehlo.module import read_file

__all__ = ["load_executable"]


def _check_magic(file: BinaryIO, _size: int, name: str, path: str) -> None:
    """Refuse other files by their first bytes, before the rest is read."""
    beginning = file.read(4096)
    file.seek(0)
    if not beginning.startswith(EXECUTABLE_MAGIC):
        raise _refused(name, path, other_content(beginning))


def _refused(name: str, path: str, reason: str, detail: str = "") -> ModuleFileError:
    return ModuleFileError(f"{name}: {reason}", path=path, op="load_executable", detail=detail)


def load_executable(
    path: str | os.PathLike[str],
    device: DeviceLike = None,
    *,
    devices: Sequence[DeviceLike] | None = None,
) -> Any:
    """Load an executable that `save` wrote. Nothing is compiled.

    It requires what it was compiled for: devices of the same kind, the same versions of jaxlib and
    of the platform's software, and a CPU with all features that it was compiled for. Register the
    functions of its custom calls before loading it. Load only files that you trust: they contain
    machine code.

    Args:
        path: the file.
        device: the device, or the first of several; None for jax's default device, or the first of
            the platform that the file is for.
        devices: all devices, instead of `device`, as for `lowering.compile`.

    Returns:
        An executable of the kind that was saved.

    Raises:
        ModuleFileError: the file can't be read, is damaged or of another kind, or does not match
            the devices, jaxlib or the machine.
        DeviceError: a device does not exist.
        CompileError: a function that it calls is not registered.

    Example:
        >>> import builder as xb, lowering, numpy as np, pathlib, tempfile
        >>> @xb.computation(xb.f32[2])
        ... def double(x):
        ...     return x + x
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "double.executable")
        ...     lowering.compile(double, "cpu").save(path)
        ...     again = lowering.load_executable(path)
        >>> again(np.array([1, 2], np.float32))
        Array([2., 4.], dtype=float32)
    """
    data, path = read_file(path, "load_executable", _check_magic)
    name = display_name(path)
    content = unpacked(data)
    if isinstance(content, str):
        raise _refused(name, path, content)
    if content.header.get("program", "") is None:
        raise _refused(
            name,
            path,
            "is an entry of the compilation cache, which has no description of the parameters\n"
            "fix: give a file that executable.save(path) wrote",
        )
    try:
        _check_types(content.header)
        info = _program(content.header["program"])
        mismatch = _version_mismatch(content.header)
        platform, kind = content.header["platform"], content.header["device_kind"]
    except (KeyError, TypeError, ValueError, AttributeError, XlaError) as error:
        raise _refused(
            name, path, "has a header that can't be read\nfix: save it again", repr(error)
        ) from None
    if mismatch is not None:
        raise _refused(name, path, mismatch)
    targets = _devices(name, path, platform, info, device, devices)
    mismatch = _device_mismatch(content.header, targets[0], platform, kind)
    if mismatch is not None:
        raise _refused(name, path, mismatch)
    options = compilation.compile_options(
        targets,
        num_replicas=info.num_replicas,
        num_partitions=info.num_partitions,
        shardy=info.partitioning is not None and info.partitioning.is_shardy,
    )
    start = time.perf_counter()
    try:
        loaded = executables.deserialize(targets, content.payload, options)
    except ValueError as error:
        missing = unregistered(str(error))
        if missing is not None:
            raise CompileError(
                f"load_executable: {info.name} calls the custom call {missing!r}, and no function "
                f"of that name is registered for {platform}\n"
                f"fix: register it before loading, as before compiling: "
                f"lowering.register_custom_call_target, or jax.ffi.register_ffi_target",
                op="custom_call",
                detail=str(error),
            ) from None
        reason = str(error).partition("\n")[0][:300]
        raise _refused(
            name,
            path,
            f"is refused by {platform}'s runtime: {reason}\nfix: compile and save it again here",
            str(error),
        ) from None
    has_layouts = content.header["program"]["has_layouts"]
    info = dataclasses.replace(
        info,
        layouts=array_layouts.parameter_layouts(loaded) if has_layouts else None,
        compile_seconds=time.perf_counter() - start,
    )
    return executable_of(loaded, info, targets)


def _check_types(header: Mapping[str, Any]) -> None:
    """Raise KeyError or TypeError if a field of the header is missing or has another type."""
    program = header["program"]
    strings = [header[name] for name in ("jaxlib", "platform", "device_kind")]
    strings += [header["platform_version"] or "", program["name"]]
    strings += [*header["cpu_features"], *program["parameter_names"], *program["handlers"]]
    numbers = [program["num_replicas"], program["num_partitions"], *program["donated"]]
    if not all(isinstance(string, str) for string in strings):
        raise TypeError("expected a string")
    # isinstance would accept True. The first two numbers are 1 or more.
    if not all(type(number) is int and number >= 0 for number in numbers) or 0 in numbers[:2]:
        raise TypeError("expected a number")
    if not all(isinstance(program[name], bool) for name in ("has_layouts", "in_rows")):
        raise TypeError("expected true or false")


def _program(program: Mapping[str, Any]) -> ProgramInfo:
    """Return the program's metadata from its header."""
    partitioning = program["partitioning"]
    if partitioning is not None:
        partitioning = Partitioning(
            is_shardy=partitioning["is_shardy"],
            axes=tuple((name, size) for name, size in partitioning["axes"]),
            device_order=tuple(partitioning["device_order"]),
            is_free=tuple(partitioning["is_free"]),
        )
    return ProgramInfo(
        name=program["name"],
        shape=ProgramShape(
            [parse_shape(text) for text in program["parameters"]],
            parse_shape(program["result"]),
            program["parameter_names"],
        ),
        num_replicas=program["num_replicas"],
        num_partitions=program["num_partitions"],
        donated=frozenset(program["donated"]),
        handlers=tuple(program["handlers"]),
        in_rows=program["in_rows"],
        partitioning=partitioning,
    )


_RECOMPILE: Final = "compile and save it again here"


def _version_mismatch(header: Mapping[str, Any]) -> str | None:
    """Return why this version of jaxlib can't load the program; None if it can."""
    here = versions.jaxlib_version()
    if header["jaxlib"] == here:
        return None
    return (
        f"was compiled with jaxlib {header['jaxlib']}, and here is jaxlib {here}\n"
        f"fix: install jaxlib=={header['jaxlib']}, or {_RECOMPILE}"
    )


def _devices(
    name: str,
    path: str,
    platform: str,
    info: ProgramInfo,
    device: DeviceLike,
    devices: Sequence[DeviceLike] | None,
) -> list[jax.Device]:
    """Return the devices to load the program for."""
    if device is None and devices is None:
        try:
            available = devices_of(platform)
        except DeviceError as error:
            raise _refused(
                name,
                path,
                f"was compiled for {platform}, and there is no such platform here"
                + str(error).partition("\n")[2].join(("\n", "")),
                error.detail,
            ) from None
        configured: Any = jax.config
        chosen = configured.jax_default_device
        device = chosen if chosen in available else available[0]
    return devices_for(
        device, devices, info.num_replicas, info.num_partitions, op="load_executable"
    )


def _device_mismatch(
    header: Mapping[str, Any], device: jax.Device, platform: str, kind: str
) -> str | None:
    """Return why a program can't run on a device; None if it can."""
    if topologies.is_absent(device):
        return (
            f"can't be loaded for {device}, which is a device of a topology\n"
            f"fix: give a device of this machine"
        )
    if device.platform != platform:
        return (
            f"was compiled for {platform}, and {device} is of platform {device.platform}\n"
            f"fix: give a device of {platform}, or compile and save it for {device.platform}"
        )
    if device.device_kind != kind:
        return (
            f"was compiled for {kind!r}, and {device} is {device.device_kind!r}\nfix: {_RECOMPILE}"
        )
    version, here = header["platform_version"], versions.platform_version(device)
    if version is not None and version != here:
        return (
            f"was compiled with another version of {platform}'s software: "
            f"{' '.join(version.split())[:100]!r}, and here is {' '.join(here.split())[:100]!r}\n"
            f"fix: install that version, or {_RECOMPILE}"
        )
    if platform == "cpu" and header["cpu_features"]:
        known = executables.host_cpu_features()
        missing = [f for f in header["cpu_features"] if known and f not in known]
        if missing:
            more = ", ..." if len(missing) > 8 else ""
            return (
                f"was compiled for a CPU that has {', '.join(missing[:8])}{more}, which this one "
                f"does not have\n"
                f"fix: {_RECOMPILE}; or on that machine for more CPUs, with "
                f"XLA_FLAGS=--xla_cpu_max_isa=AVX2 in the environment"
            )
    return None
