"""Devices that are not there: programs are compiled for them, looked at and saved, not called.

The compilers of TPUs and GPUs come with jax's plugins, and need no device. So what a program will
take on a TPU, and what XLA makes of it there, is seen on any machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

import jax

from builder.errors import OperandError, brief
from lowering.errors import DeviceError
from lowering.jaxlib_api import topologies
from lowering.running.program import CompiledProgram

__all__ = ["Topology", "UnloadedExecutable", "topology"]


@dataclass(frozen=True, slots=True)
class Topology:
    """Devices of one kind that need not be there, as `lowering.topology` gives them.

    Attributes:
        platform: "tpu" or "gpu".
        name: as it was asked for: "v5e:2x2".
        device_kind: what jax calls such a device: "TPU v5 lite".
        devices: jax.Devices, for `lowering.compile` and nothing else.
    """

    platform: str
    name: str
    device_kind: str
    devices: tuple[jax.Device, ...]


_PLUGINS: Final = {
    "tpu": ("tpu", 'pip install "xlabuilder[tpu]", or libtpu alone'),
    "gpu": ("cuda", 'pip install "xlabuilder[cuda13]"'),
    "cuda": ("cuda", 'pip install "xlabuilder[cuda13]"'),
    "rocm": ("rocm", 'pip install "xlabuilder[rocm7-local]"'),
}
"""By platform jax's name of its plugin, and what brings it."""


def topology(
    platform: str, name: str, *, target_config: str | os.PathLike[str] | None = None
) -> Topology:
    """Devices to compile for that need not be there.

    A TPU's compiler (libtpu) needs no TPU. A GPU's compiler (jax's CUDA plugin) needs either a GPU
    of that kind here, or a description of one. A CPU is always there, and jaxlib compiles for the
    one that it runs on alone.

    Args:
        platform: "tpu"; "gpu" or "cuda"; "rocm".
        name: of a TPU the generation and how its chips are arranged, such as "v5e:2x2" or
            "v4:2x2x1". Of GPUs how many slices, machines in each, and GPUs in each: "1x1x8".
        target_config: of a GPU the file in which XLA describes it, a GpuTargetConfigProto as text
            (XLA's sources hold those of many GPUs); None for the GPU that is here.

    Raises:
        DeviceError: the plugin is not installed, or knows no such devices.
        OperandError: an argument of another type.

    Example:
        >>> import lowering
        >>> try:
        ...     lowering.topology("cpu", "2")
        ... except lowering.DeviceError as error:
        ...     print(str(error).splitlines()[0])
        topology: jaxlib compiles for no other CPU than the one that it runs on, got 'cpu'
    """
    for what, value in (("platform", platform), ("name", name)):
        if not isinstance(value, str):
            raise OperandError(
                f"topology: {what} must be a string, got {brief(value)}", op="topology"
            )
    wanted = platform.strip().lower()
    if wanted == "cpu":
        raise _error(
            f"jaxlib compiles for no other CPU than the one that it runs on, got {brief(platform)}",
            'compile for "cpu"; with XLA_FLAGS=--xla_cpu_max_isa=AVX2 in the environment the code '
            'runs on all CPUs that have that; jax.config.update("jax_num_cpu_devices", n) makes '
            "n devices of this one",
        )
    if wanted not in _PLUGINS:
        raise _error(
            f"there is no compiler for platform {brief(platform)}",
            f"use one of {', '.join(_PLUGINS)}",
        )
    if not name.strip():
        raise _error(f"a topology has a name, got {brief(name)}", _NAMES[wanted == "tpu"])
    settings: dict[str, str] = {}
    if wanted != "tpu":
        settings["topology"] = name
        if target_config is not None:
            settings["target_config"] = _description(target_config)
    elif target_config is not None:
        raise _error("a TPU has no target_config", "leave it out: its name says all")
    found = _devices(wanted, name, settings)
    return Topology(found[0].platform, name, found[0].device_kind, found)


_NAMES: Final = {
    True: 'name it by generation and arrangement of chips, such as "v5e:2x2"',
    False: 'name it by slices, machines in each and GPUs in each, such as "1x1x8"',
}
"""What a name is like; of a TPU, of a GPU."""


def _error(message: str, fix: str, detail: str = "") -> DeviceError:
    return DeviceError(f"topology: {message}\nfix: {fix}", op="topology", detail=detail)


def _description(path: Any) -> str:
    """What stands in the file that describes a GPU."""
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError, TypeError, ValueError) as error:
        raise _error(
            f"target_config: {brief(path)} can't be read: {error}",
            "name a file that holds a GpuTargetConfigProto as text",
            str(error),
        ) from None


def _devices(platform: str, name: str, settings: Mapping[str, str]) -> tuple[jax.Device, ...]:
    plugin, brings = _PLUGINS[platform]
    try:
        found = topologies.topology_devices(plugin, name, settings)
    except NotImplementedError as error:
        raise _error(
            f"the compiler for {platform} is not installed, or can't compile for what is not there",
            brings,
            str(error),
        ) from None
    except ValueError as error:
        report = str(error)
        first = re.sub(r"^(?:[A-Z_]+: )+", "", report.strip().partition("\n")[0])[:300]
        if "JAX TPU support not installed" in report:
            raise _error(f"the compiler for {platform} is not installed", brings, report) from None
        if platform == "tpu" and "lockfile" in report:
            raise _error(
                "another process on this machine is using the compiler for tpu, and it lets in one "
                "at a time",
                "wait for its end; or, where none of them uses a TPU, put "
                "ALLOW_MULTIPLE_LIBTPU_LOAD=1 into the environment of each",
                report,
            ) from None
        if platform != "tpu" and "target_config" not in settings:
            raise _error(
                f"there is no GPU here that {brief(name)} could be made of: {first}",
                'give target_config="h100_sxm.txtpb", the file in which XLA describes the GPU',
                report,
            ) from None
        if "GpuTargetConfigProto" in report:
            raise _error(
                "target_config is no description of a GPU",
                "name a file that holds a GpuTargetConfigProto as text",
                report,
            ) from None
        raise _error(
            f"the compiler for {platform} knows no {brief(name)}: {first}",
            _NAMES[platform == "tpu"],
            report,
        ) from None
    return tuple(found)


class UnloadedExecutable(CompiledProgram):
    """A computation compiled for devices that are not there, which `lowering.topology` gave.

    It tells what other executables tell of what XLA made (`hlo_text`, `memory`, ...) and is saved
    to a file, for machines that have such devices. It can't be called.

    Attributes:
        name: the computation's name.
        program_shape: parameters and result.
        devices: those that it was compiled for.
    """

    __slots__ = ()

    def __call__(self, /, *_args: Any, **_by_name: Any) -> NoReturn:
        """Raises DeviceError: there is no device to run it on."""
        one = self.devices[0]
        raise DeviceError(
            f"{self.name}: is compiled for {one.device_kind!r}, which is not there, and can't be "
            f"called\n"
            f"fix: save it, and load it where there is one (lowering.load_executable); or compile "
            f"it for a device that is here: {jax.local_devices()[0].platform!r}",
            op=self.name,
        )

    def __repr__(self) -> str:
        return (
            f"<UnloadedExecutable {self.name!r} {self.program_shape} for {len(self.devices)} "
            f"{self.devices[0].device_kind!r}>"
        )
