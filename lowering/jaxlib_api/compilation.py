"""Compile options, XLA's flags, custom call targets, and compilation of a module."""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from jaxlib.mlir import ir

from lowering.jaxlib_api.mlir import new_context
from lowering.jaxlib_api.native import jax_extension, xla_client
from lowering.jaxlib_api.topologies import is_absent

__all__ = [
    "CALLBACK_TARGET",
    "compile_and_load",
    "compile_options",
    "known_flags",
    "options_bytes",
    "registered_targets",
]


def registered_targets(platform: str) -> dict[str, Any]:
    """The functions registered for custom calls on a platform, by name."""
    name = {"cpu": "Host", "gpu": "CUDA"}.get(platform, platform)
    found: dict[str, Any] = xla_client.custom_call_targets(name)
    return found


CALLBACK_TARGET: Final = "xla_ffi_python_cpu_callback"
"""The custom call, on CPU, of the Python function whose index its backend_config says."""


def compile_options(
    devices: Sequence[Any],
    *,
    num_replicas: int = 1,
    num_partitions: int = 1,
    flags: Sequence[tuple[str, bool | int | float | str]] = (),
    level: int | None = None,
    shardy: bool = False,
    free_results: Sequence[bool] = (),
) -> Any:
    """What XLA is told beside the module: a CompileOptions of jaxlib.

    Flags that stand in the environment (XLA_FLAGS) are in it already.

    Args:
        devices: as for `compile_and_load`.
        num_replicas, num_partitions: how many there are of each.
        flags: names of XLA's flags and their values, in this order, before those of the
            environment. XLA looks at names and types when it compiles.
        level: how hard XLA's backend and its passes try, 0 to 3; None leaves it to XLA.
        shardy: whether Shardy cuts the program into partitions, and not GSPMD. Each leaves out
            what is said for the other.
        free_results: for each result whether XLA may choose how it is cut up, where it is.
    """
    options = xla_client.CompileOptions()
    options.num_replicas = num_replicas
    options.num_partitions = num_partitions
    build = options.executable_build_options
    build.num_replicas = num_replicas
    build.num_partitions = num_partitions
    build.use_spmd_partitioning = num_partitions > 1
    build.use_shardy_partitioner = shardy
    if any(free_results):
        build.allow_spmd_sharding_propagation_to_output = list(free_results)
    numpy: Any = importlib.import_module("numpy")
    numbers = numpy.array([device.id for device in devices])
    assignment = xla_client.DeviceAssignment.create(numbers.reshape(num_replicas, num_partitions))
    options.device_assignment = assignment
    build.device_assignment = assignment
    if level is not None:
        build.debug_options.xla_backend_optimization_level = level
        # Effort "O0" to "O3", as xla.ExecutionOptions.EffortLevel numbers them.
        build.optimization_level = (9, 19, 29, 39)[level]
    options.env_option_overrides = list(flags)
    return options


def options_bytes(options: Any) -> bytes:
    """What stands in a CompileOptions, equal for equal ones of one version of jaxlib."""
    content: bytes = options.SerializeAsString()
    return content


@functools.cache
def known_flags() -> dict[str, str]:
    """XLA's flags that jaxlib tells of, each with a value as text: true, 3, 1.1, "text", NAME.

    They are those that have a default value; XLA knows others, and those of a TPU besides. The
    text is "{" where the value is a message.
    """
    # Held while its parts are looked at: they do not keep it, and jaxlib would die.
    whole = xla_client.CompileOptions()
    options = whole.executable_build_options.debug_options
    found: dict[str, str] = {}
    for name, colon, value in re.findall(r"^(xla_\w+)(:?) (.*)$", str(options), re.MULTILINE):
        found[name] = value if colon else "{"
    for name in dir(options):
        if name.startswith("xla_") and name not in found:
            value = getattr(options, name, None)
            if isinstance(value, bool):
                found[name] = str(value).lower()
            elif isinstance(value, int):
                found[name] = str(value)
            elif isinstance(value, str):
                found[name] = '""'
    return found


def compile_and_load(
    devices: Sequence[Any],
    module_bytecode: bytes,
    *,
    options: Any = None,
    num_replicas: int = 1,
    num_partitions: int = 1,
    callbacks: Sequence[Callable[..., Any]] = (),
) -> Any:
    """Compiles a module for some devices of one client; gives a jaxlib LoadedExecutable.

    The module goes as bytes, not as an MLIR module: XLA compiles without holding Python's lock,
    and must not meet another thread in the same MLIR context.

    Args:
        devices: ``num_replicas * num_partitions`` jax.Devices: the partitions of replica 0, those
            of replica 1, and so on. Of devices that are not there (`topology_devices`) an
            Executable is made, which tells what a LoadedExecutable tells, and can't be run.
        module_bytecode: MLIR bytecode, or a portable artifact.
        options: made by `compile_options` of the same devices and numbers, which are given in it.
        num_replicas: how many replicas run the program.
        num_partitions: into how many partitions each replica is cut.
        callbacks: the Python functions that the module's callback custom calls name by index. The
            executable keeps them.

    Raises:
        ValueError: XLA refuses the module, or a flag; the text holds XLA's report.
    """
    if options is None:
        options = compile_options(devices, num_replicas=num_replicas, num_partitions=num_partitions)
    client = devices[0].client
    arguments = (module_bytecode, jax_extension.DeviceList(tuple(devices)), options)
    try:
        if is_absent(devices[0]):
            # Here too no bytes are taken.
            module = ir.Module.parse(module_bytecode, new_context())
            return client.compile(module, *arguments[1:])
        if callbacks:
            # With callbacks only a module is taken, no bytes: one in a context of its own.
            module = ir.Module.parse(module_bytecode, new_context())
            return client.compile_and_load(module, *arguments[1:], list(callbacks))
        return client.compile_and_load(*arguments)
    except UnicodeDecodeError:
        raise ValueError("the module is damaged: its report is no text") from None
    except (RuntimeError, ValueError) as error:  # RuntimeError: jax.errors.JaxRuntimeError
        raise ValueError(str(error)) from None
