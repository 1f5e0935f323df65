"""Topologies: sets of devices to compile for, which need not be on this machine.

The compilers for TPUs and GPUs come with jax's plugins. A TPU's compiler needs no TPU, so any
machine can determine the memory that a program needs on a TPU, and its optimized HLO.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

import jax

from builder.errors import OperandError, brief, error_of
from builder.graph.calls import explained
from builder.inspection.parts import Column, Heading, Part, TextTable
from builder.inspection.table import count_text
from builder.support.display import Displayed
from lowering.errors import DeviceError
from lowering.jaxlib_api import compilation
from lowering.pjrt.failures import install_command, without_status_code
from lowering.running.program import CompiledProgram


@dataclass(frozen=True, slots=True)
class Topology(Displayed):
    """A set of devices of one kind, which need not be on this machine.

    `lowering.topology` creates it.

    Attributes:
        platform: "tpu" or "gpu".
        name: the name of the topology: "v5e:2x2".
        device_kind: jax's name for this kind of device: "TPU v5 lite".
        devices: jax.Devices, for `lowering.compile` only.
    """

    platform: str
    name: str
    device_kind: str
    devices: tuple[jax.Device, ...]

    def _parts(self) -> list[Part]:
        count = count_text(len(self.devices), "device")
        columns = [Column("device", is_number=True), Column("process", is_number=True)]
        rows = [[str(each.id), str(each.process_index)] for each in self.devices[:_SHOWN]]
        if hasattr(self.devices[0], "coords"):  # of TPUs
            columns.append(Column("coordinates"))
            for row, device in zip(rows, self.devices, strict=False):
                row.append(", ".join(map(str, device.coords)))
        more = len(self.devices) - _SHOWN
        caption = f"{more:,} more devices" if more > 0 else ""
        heading = Heading("Topology", self.name, f"{count}: {self.device_kind} ({self.platform})")
        return [heading, TextTable("", tuple(columns), rows, caption)]


_SHOWN: Final = 64


class _Plugin(NamedTuple):
    """The plugin of a platform.

    Attributes:
        name: jax's name of the plugin.
        names: the fix for a wrong name of a topology.
    """

    name: str
    names: str


_OF_CHIPS: Final = 'pass a name with the generation and the arrangement of chips, such as "v5e:2x2"'
_OF_GPUS: Final = 'pass the numbers of slices, machines per slice and GPUs per machine: "1x1x8"'
_CUDA: Final = _Plugin("cuda", _OF_GPUS)
_PLUGINS: Final = {
    "tpu": _Plugin("tpu", _OF_CHIPS),
    "gpu": _CUDA,
    "cuda": _CUDA,
    "rocm": _Plugin("rocm", _OF_GPUS),
}
"""The plugin of each platform."""


@explained
def topology(
    platform: str, name: str, *, target_config: str | os.PathLike[str] | None = None
) -> Topology:
    """Return a Topology: devices to compile for, which need not be on this machine.

    A TPU's compiler (libtpu) needs no TPU. A GPU's compiler (jax's CUDA plugin) needs either a GPU
    of that kind on this machine, or a description of such a GPU. For CPUs, jaxlib compiles only for
    the CPU of this machine.

    Args:
        platform: "tpu"; "gpu" or "cuda"; "rocm".
        name: for TPUs the generation and the arrangement of chips, such as "v5e:2x2" or
            "v4:2x2x1". For GPUs the numbers of slices, of machines per slice, and of GPUs per
            machine: "1x1x8".
        target_config: for GPUs, the path of a file that describes the GPU: a GpuTargetConfigProto
            as text (XLA's sources contain such files for many GPUs); None for the GPU of this
            machine.

    Raises:
        DeviceError: the platform's plugin is not installed, or does not support these devices.
        OperandError: an argument has the wrong type.

    Example:
        >>> import lowering
        >>> try:
        ...     lowering.topology("cpu", "2")
        ... except lowering.DeviceError as error:
        ...     print(str(error).splitlines()[0])
        topology: jaxlib compiles only for the CPU that it runs on, got 'cpu'
    """
    for argument, value in (("platform", platform), ("name", name)):
        if not isinstance(value, str):
            rule = f"{argument} must be a string"
            raise error_of(OperandError, "topology", rule, got=brief(value))
    key = platform.strip().lower()
    if key == "cpu":
        raise _error(
            "jaxlib compiles only for the CPU that it runs on",
            'call lowering.compile(computation, "cpu"); for code that runs on all CPUs with AVX2, '
            "set XLA_FLAGS=--xla_cpu_max_isa=AVX2 in the environment; for n CPU devices, call "
            'jax.config.update("jax_num_cpu_devices", n)',
            got=brief(platform),
        )
    if key not in _PLUGINS:
        rule = f"there is no compiler for platform {brief(platform)}"
        fix = f"use one of {', '.join(_PLUGINS)}"
        raise _error(rule, fix)
    if not name.strip():
        raise _error("name must not be empty", _PLUGINS[key].names, got=brief(name))
    settings: dict[str, str] = {}
    if key != "tpu":
        settings["topology"] = name
        if target_config is not None:
            settings["target_config"] = _read_target_config(target_config)
    elif target_config is not None:
        rule, got = "a TPU has no target_config", brief(target_config)
        raise _error(rule, "omit target_config", argument="target_config", got=got)
    devices = _devices(key, name, settings)
    return Topology(devices[0].platform, name, devices[0].device_kind, devices)


_TARGET_CONFIG_FIX: Final = "pass the path of a file that contains a GpuTargetConfigProto as text"


_error: Final = functools.partial(error_of, DeviceError, "topology")


def _read_target_config(path: Any) -> str:
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError, TypeError, ValueError) as error:
        reason = f"target_config: {brief(path)} can't be read: {error}"
        raise _error(reason, _TARGET_CONFIG_FIX, detail=str(error)) from None


def _devices(platform: str, name: str, settings: Mapping[str, str]) -> tuple[jax.Device, ...]:
    plugin, names = _PLUGINS[platform]
    install = install_command(platform) + (", or libtpu alone" if platform == "tpu" else "")
    try:
        return tuple(compilation.topology_devices(plugin, name, settings))
    except NotImplementedError as error:
        report = str(error)
        reason = f"the compiler for {platform} is not installed, or can't compile for a topology"
        fix = install
    except ValueError as error:
        report = str(error)
        first = without_status_code(report).partition("\n")[0][:300]
        reason = f"the compiler for {platform} does not support {brief(name)}: {first}"
        fix = names
        if "JAX TPU support not installed" in report:
            reason, fix = f"the compiler for {platform} is not installed", install
        elif platform == "tpu" and "lockfile" in report:
            reason = (
                "another process on this machine is using the compiler for tpu, which only one "
                "process can use at a time"
            )
            fix = (
                "wait until that process ends; or, if no process uses a TPU, set "
                "ALLOW_MULTIPLE_LIBTPU_LOAD=1 in the environment of every process"
            )
        elif platform != "tpu" and "target_config" not in settings:
            reason = f"this machine has no GPU for {brief(name)}: {first}"
            fix = 'pass target_config="h100_sxm.txtpb", the file in which XLA describes the GPU'
        elif "GpuTargetConfigProto" in report:
            reason, fix = "target_config does not describe a GPU", _TARGET_CONFIG_FIX
    raise _error(reason, fix, detail=report)


class UnloadedExecutable(CompiledProgram):
    """A computation compiled for the devices of a `lowering.topology`.

    The methods that describe the compiled program (`hlo_text`, `memory`, ...) work as for other
    executables. The executable can be saved to a file, and loaded on a machine that has the
    devices. It can't be called.

    Attributes:
        name: the computation's name.
        program_shape: the parameters and the result.
        devices: the devices that the program was compiled for.
    """

    __slots__ = ()

    def __call__(self, /, *_args: Any, **_by_name: Any) -> NoReturn:
        """Raise DeviceError: this machine has no device to run the program on."""
        self._prepare((), {})

    def _prepare(self, _args: tuple[Any, ...], _by_name: Mapping[str, Any]) -> NoReturn:
        raise DeviceError(
            f"the executable is compiled for {self.devices[0].device_kind!r}, which "
            "is not on this machine, and can't be called",
            fix="save the executable, and call lowering.load_executable on a machine with such a "
            f"device; or compile for a device of this machine: {jax.local_devices()[0].platform!r}",
            op=self.name,
        )

    def __repr__(self) -> str:
        return (
            f"<UnloadedExecutable {self.name!r} {self.program_shape} for {len(self.devices)} "
            f"{self.devices[0].device_kind!r}>"
        )
