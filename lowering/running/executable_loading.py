"""Load an executable from a file, for devices that can run it: `lowering.load_executable`.

A header may be wrong even if the checksum of the file is right. If the numbers of devices or the
shapes in the header differed from the program's, XLA would abort, or read beyond an array.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, Final

import jax

from builder.errors import XlaError
from builder.graph.calls import explained
from builder.sharding.tiling import parse_tiling
from builder.types.shape import ArrayShape, ProgramShape, Shape, leaves, parse_shape
from lowering.errors import CompileError, DeviceError, ModuleFileError
from lowering.host.custom_calls import unregistered
from lowering.jaxlib_api import compilation, jax_arrays, versions
from lowering.pjrt.devices import (
    DeviceLike,
    device as default_device,
    devices as devices_of,
    devices_for,
)
from lowering.reading.files import warn_of_writers
from lowering.reading.module_reader import display_name
from lowering.reading.protocol_buffers import fields_of, varint
from lowering.running.arguments import SIZE
from lowering.running.executable import LoadedExecutable, executable_of
from lowering.running.executable_file import Content, UnusableError, check_magic, unpacked
from lowering.running.program import ProgramInfo
from lowering.sharding.partitioning import Partitioning, partition_counts
from lowering.stablehlo.call_tree import parsed_tree
from lowering.stablehlo.module import load_bytes, path_text, read_file

_SAVE_AGAIN: Final = "save the executable again"


def read_program(header: Mapping[str, Any]) -> ProgramInfo:
    """Return the program's metadata from the header.

    Raises:
        UnusableError: a field is missing, or its value is invalid.
    """
    try:
        return _read_program(header)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, XlaError) as error:
        raise UnusableError("has a header that can't be read", _SAVE_AGAIN, repr(error)) from None


def _read_program(header: Mapping[str, Any]) -> ProgramInfo:
    program = header["program"]
    _expect(str, [header[name] for name in ("jaxlib", "platform", "device_kind")])
    version = header["platform_version"]
    _expect(str, [program["name"], *([] if version is None else [version])])
    _expect(str, [*header["cpu_features"], *program["parameter_names"], *program["handlers"]])
    num_replicas, num_partitions = program["num_replicas"], program["num_partitions"]
    donated = program["donated"]
    _expect(int, [num_replicas, num_partitions, *donated])
    _expect(bool, [program["has_layouts"], program["in_rows"]])
    shape = ProgramShape(
        [parse_shape(text) for text in program["parameters"]],
        parse_shape(program["result"]),
        program["parameter_names"],
    )
    count = sum(1 for parameter in shape.parameters for _ in leaves(parameter))
    if min(num_replicas, num_partitions) < 1 or not all(0 <= number < count for number in donated):
        raise ValueError("num_replicas, num_partitions or the number of an argument is invalid")
    tree = program.get("tree")  # earlier files have none
    return ProgramInfo(
        name=program["name"],
        shape=shape,
        num_replicas=num_replicas,
        num_partitions=num_partitions,
        donated=frozenset(donated),
        handlers=tuple(program["handlers"]),
        in_rows=program["in_rows"],
        tree=None if tree is None else parsed_tree(tree, shape),
        partitioning=_read_partitioning(program["partitioning"], num_partitions, shape.result),
    )


def _read_partitioning(
    fields: Mapping[str, Any] | None, num_partitions: int, result: Shape
) -> Partitioning | None:
    if fields is None:
        return None
    axes = tuple((name, size) for name, size in fields["axes"])
    order, is_free = fields["device_order"], fields["is_free"]
    _expect(str, [name for name, _ in axes])
    _expect(int, [*order, *(size for _, size in axes)])
    _expect(bool, [fields["is_shardy"], *is_free])
    if order and sorted(order) != list(range(num_partitions)):
        raise ValueError("the order of the devices is not a permutation")
    if axes and math.prod(size for _, size in axes) != num_partitions:
        raise ValueError("the product of the axis sizes is not the number of devices")
    if len(is_free) not in (0, len(list(leaves(result)))):
        raise ValueError("is_free does not have one entry for each result")
    return Partitioning(fields["is_shardy"], axes, tuple(order), tuple(is_free))


def _expect(kind: type, values: Sequence[object]) -> None:
    # isinstance would accept True as a number.
    if not all(type(value) is kind for value in values):
        raise TypeError(f"expected {kind.__name__}")


def check_counts(info: ProgramInfo, payload: bytes) -> None:
    """Raise UnusableError if the header's counts of replicas and partitions are not the program's.

    Args:
        info: the program's metadata from the header.
        payload: the executable serialized by jaxlib.
    """
    compiled = _compiled_counts(payload)
    expected = info.num_replicas, info.num_partitions
    if compiled is not None and compiled != expected:
        raise UnusableError(
            f"has a header for {expected[0]} replicas and {expected[1]} partitions, but its "
            f"program was compiled for {compiled[0]} and {compiled[1]}",
            _SAVE_AGAIN,
        )


_OPTIONS: Final = 2
"""The number of the protocol buffer's field with the compile options."""


def _compiled_counts(payload: bytes) -> tuple[int, int] | None:
    """Return the numbers of replicas and partitions that an executable was compiled for.

    jaxlib's serialization consists of the length of a header, the header, and a protocol buffer
    with the executable and the compile options.

    Returns:
        The numbers of replicas and partitions; None if `payload` has another format.
    """
    view = memoryview(payload)
    try:
        length, begin = varint(view, 0)
        (options,) = fields_of(view[begin + length :])[_OPTIONS]
        return compilation.counts_in(bytes(options))
    except (IndexError, KeyError, ValueError):
        return None


def check_shapes(info: ProgramInfo, loaded: Any) -> None:
    """Raise UnusableError if the header's shapes on a device differ from the program's."""
    parameters, results = compilation.device_shapes(loaded)
    tilings: tuple[list[str] | None, list[str] | None] = (None, None)
    if info.partitioning is not None:
        tilings = jax_arrays.parameter_tilings(loaded), jax_arrays.result_tilings(loaded)
    in_header = [leaf for parameter in info.shape.parameters for leaf in leaves(parameter)]
    for kind, expected, compiled in (
        ("arguments", _on_device(in_header, tilings[0], in_rows=False), parameters),
        (
            "results",
            _on_device(list(leaves(info.shape.result)), tilings[1], in_rows=info.in_rows),
            results,
        ),
    ):
        if expected != compiled:
            raise UnusableError(
                f"has a header with the {kind} ({', '.join(expected)}) on each device, but its "
                f"program has ({', '.join(compiled)})",
                _SAVE_AGAIN,
            )


def _on_device(
    shapes: Sequence[Shape], tilings: Sequence[str] | None, *, in_rows: bool
) -> list[str]:
    """Return the shapes of arrays on one device as text, then an s32[] for each bounded size.

    Args:
        shapes: the shapes of the arrays over all devices.
        tilings: how the arrays are divided among the devices; None if each device has full arrays.
        in_rows: whether each array on a device has a leading dimension of size 1.
    """
    texts, sizes = [], []
    for number, shape in enumerate(shapes):
        if not isinstance(shape, ArrayShape):
            texts.append(str(shape))
            continue
        dimensions = list(shape.dimensions)
        if tilings is not None and number < len(tilings):
            counts = partition_counts(parse_tiling(tilings[number])) or ()
            # The rank in the header may be wrong.
            for dimension, count in zip(range(len(dimensions)), counts, strict=False):
                dimensions[dimension] //= count
        if in_rows:
            dimensions.insert(0, 1)
        texts.append(f"{shape.element_type}[{','.join(map(str, dimensions))}]")
        sizes += [str(SIZE)] * sum(shape.dynamic_dimensions)
    return texts + sizes


def _check_start(file: BinaryIO, _size: int, path: str) -> None:
    """Raise UnusableError if the first bytes of a file are not those of an executable.

    Issue a RuntimeWarning if other users can write to the file.
    """
    check_magic(file.read(4096))
    file.seek(0)
    warn_of_writers(os.fstat(file.fileno()), display_name(path))


@explained
def load_executable(
    path: str | os.PathLike[str],
    device: DeviceLike = None,
    *,
    devices: Sequence[DeviceLike] | None = None,
) -> LoadedExecutable:
    """Load an executable that `save` wrote. Nothing is compiled.

    An executable requires devices of the kind that it was compiled for, the same versions of jaxlib
    and of the platform's software, and a CPU with all features that it was compiled for. Register
    the functions of its custom calls before loading it. Load only files that you trust: they
    contain machine code. If other users of the machine can write to the file, a RuntimeWarning is
    issued.

    Args:
        path: the file.
        device: the device, or the first device if the program needs several. None for jax's default
            device, or, if that is of another platform, for the first device of the file's platform.
        devices: all devices, instead of `device`, in the order of `lowering.compile`.

    Returns:
        An executable of the kind that was saved.

    Raises:
        ModuleFileError: the file can't be read, is damaged or of another kind, or does not match
            the devices, jaxlib or the machine.
        DeviceError: a device does not exist.
        CompileError: a function that the executable calls is not registered.

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
    text = path_text(path, "load_executable")
    try:
        data, _ = read_file(text, "load_executable", _check_start)
        loaded: LoadedExecutable = _load(unpacked(data), device, devices)
        return loaded
    except UnusableError as error:
        raise ModuleFileError(
            error.reason,
            op="load_executable",
            fix=error.fix,
            context=(display_name(text),),
            path=text,
            detail=error.detail,
        ) from None


def _load(content: Content, device: DeviceLike, devices: Sequence[DeviceLike] | None) -> Any:
    """Return the executable from the content of a file.

    Raises:
        UnusableError: the file does not match the devices, jaxlib or the machine.
    """
    header = content.header
    if "open" in header:
        return _load_open(content, device, devices)
    if header.get("program", "") is None:
        raise UnusableError(
            "is an entry of the compilation cache, which has no description of the parameters",
            "pass a file that executable.save(path) wrote",
        )
    info = read_program(header)
    platform = header["platform"]
    _check_version(header)
    targets = _devices(platform, info, device, devices)
    _check_device(header, targets[0])
    check_counts(info, content.payload)
    options = compilation.compile_options(
        targets,
        num_replicas=info.num_replicas,
        num_partitions=info.num_partitions,
        shardy=info.partitioning is not None and info.partitioning.is_shardy,
    )
    start = time.perf_counter()
    try:
        loaded = compilation.deserialize(targets, content.payload, options)
    except ValueError as error:
        report = str(error)
        missing = unregistered(report)
        if missing is not None:
            raise CompileError(
                f"{info.name} contains a custom call of {missing!r}, and no "
                f"function of that name is registered for {platform}",
                context=("load_executable",),
                fix="register the function before loading the executable: "
                "lowering.register_custom_call_target, or jax.ffi.register_ffi_target",
                op="custom_call",
                detail=report,
            ) from None
        reason = f"is refused by {platform}'s runtime: {report.splitlines()[0][:300]}"
        raise UnusableError(reason, _RECOMPILE, report) from None
    check_shapes(info, loaded)
    has_layouts = header["program"]["has_layouts"]
    info = dataclasses.replace(
        info,
        layouts=jax_arrays.parameter_layouts(loaded) if has_layouts else None,
        compile_seconds=time.perf_counter() - start,
    )
    return executable_of(loaded, info, targets)


def _load_open(content: Content, device: DeviceLike, devices: Sequence[DeviceLike] | None) -> Any:
    """Return the OpenExecutable in a file, with the executables that it had."""
    from lowering.running.compiling import compile  # lazy import

    view = memoryview(content.payload)
    try:
        ends = list(itertools.accumulate(content.header["parts"]))
        module, *parts = [bytes(view[start:end]) for start, end in itertools.pairwise([0, *ends])]
        arguments = dict(content.header["open"])
    except (KeyError, TypeError, ValueError):
        raise UnusableError("has a header that can't be read", _SAVE_AGAIN) from None
    kept = [_load(unpacked(part), device, devices) for part in parts]
    if device is None and devices is None and kept:
        devices = kept[0].devices
    try:
        executable: Any = compile(load_bytes(module), device, devices=devices, **arguments)
        executable._keep(kept)
    except (AttributeError, TypeError):  # other arguments, or a program of fixed sizes
        raise UnusableError("has a header that does not match its module", _SAVE_AGAIN) from None
    return executable


_RECOMPILE: Final = "compile and save the program again on this machine"


def _check_version(header: Mapping[str, Any]) -> None:
    """Raise UnusableError if another version of jaxlib compiled the program."""
    version, installed = header["jaxlib"], versions.jaxlib_version()
    if version != installed:
        raise UnusableError(
            f"was compiled with jaxlib {version}, but jaxlib {installed} is installed",
            f"install jaxlib=={version}, or {_RECOMPILE}",
        )


def _devices(
    platform: str, info: ProgramInfo, device: DeviceLike, devices: Sequence[DeviceLike] | None
) -> list[jax.Device]:
    """Return the devices to load the program for."""
    if device is None and devices is None:
        try:
            available = devices_of(platform)
        except DeviceError as error:
            raise UnusableError(
                f"was compiled for {platform}, which is not available here",
                error.fix,
                error.detail,
            ) from None
        default = default_device()
        device = default if default in available else available[0]
    return devices_for(
        device, devices, info.num_replicas, info.num_partitions, op="load_executable"
    )


def _check_device(header: Mapping[str, Any], device: jax.Device) -> None:
    """Raise UnusableError if the device can't run the program that the header describes."""
    platform, kind = header["platform"], header["device_kind"]
    if compilation.is_absent(device):
        raise UnusableError(
            f"can't be loaded for {device}, which is a device of a topology",
            "pass a device of this machine",
        )
    if device.platform != platform:
        raise UnusableError(
            f"was compiled for {platform}, and {device} is of platform {device.platform}",
            f"pass a device of {platform}, or compile and save the program for {device.platform}",
        )
    if device.device_kind != kind:
        raise UnusableError(
            f"was compiled for {kind!r}, and {device} is {device.device_kind!r}", _RECOMPILE
        )
    version, here = header["platform_version"], versions.platform_version(device)
    if version is not None and version != here:
        raise UnusableError(
            f"was compiled with another version of {platform}'s software: "
            f"{' '.join(version.split())[:100]!r}, installed is {' '.join(here.split())[:100]!r}",
            f"install that version, or {_RECOMPILE}",
        )
    available = compilation.host_cpu_features() if platform == "cpu" else ()
    missing = [f for f in header["cpu_features"] if available and f not in available]
    if missing:
        more = ", ..." if len(missing) > 8 else ""
        raise UnusableError(
            f"was compiled for a CPU that has {', '.join(missing[:8])}{more}, which this CPU does "
            f"not have",
            f"{_RECOMPILE}; or compile it on the other machine for all CPUs with AVX2: set "
            f"XLA_FLAGS=--xla_cpu_max_isa=AVX2 in the environment",
        )
