"""Compile modules, for devices that may be absent; what XLA reports about the executables."""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from jaxlib.mlir import ir

from lowering.jaxlib_api.mlir import new_context
from lowering.jaxlib_api.native import jax_extension, xla_client


def is_absent(device: Any) -> bool:
    """Return whether a device belongs to a topology and is not present."""
    return isinstance(device.client, jax_extension.CompileOnlyPyClient)


def devices_of_topology(device: Any) -> list[Any]:
    """Return all devices of the topology of an absent device, in order."""
    devices: list[Any] = device.client.devices()
    return devices


def topology_devices(platform: str, name: str, settings: Mapping[str, str]) -> list[Any]:
    """Return the devices of a topology, which need not be present, from a platform's plugin.

    Args:
        platform: "tpu", "cuda", "rocm".
        name: the plugin's name of the topology: "v5e:2x2", "1x1x8".
        settings: further options of the plugin.

    Raises:
        NotImplementedError: the plugin is not installed, or does not support topologies.
        ValueError: the plugin refuses the topology; the text is the plugin's report.
    """
    topologies: Any = importlib.import_module("jax.experimental.topologies")
    try:
        devices: list[Any] = topologies.get_topology_desc(name, platform, **settings).devices
    except NotImplementedError:
        raise
    except (RuntimeError, ValueError, TypeError) as error:
        raise ValueError(str(error)) from None
    return devices


def plugins() -> set[str]:
    """Return the names of the platforms with a plugin or a client of jax."""
    from jax._src import xla_bridge

    return set(xla_bridge._backend_factories)


def devices_are_in_use() -> bool:
    """Return whether jax has started the clients of its platforms."""
    from jax._src import xla_bridge

    return bool(xla_bridge.backends_are_initialized())


def load_plugin(name: str, path: str, options: Mapping[str, Any]) -> None:
    """Load a PJRT plugin for a platform of a name that is not in use.

    Raises:
        RuntimeError: the file is not a plugin; the text is jaxlib's report.
    """
    from jax._src import xla_bridge

    xla_bridge.register_plugin(name, library_path=path, options=options)


def registered_targets(platform: str) -> dict[str, Any]:
    """Return the functions registered for custom calls on a platform, by target name."""
    name = {"cpu": "Host", "gpu": "CUDA"}.get(platform, platform)
    targets: dict[str, Any] = xla_client.custom_call_targets(name)
    return targets


CALLBACK_TARGET: Final = "xla_ffi_python_cpu_callback"
"""The custom call target that calls a Python function on CPU.

The backend_config of the custom call contains the function's index.
"""


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
    """Return jaxlib's CompileOptions, with XLA's flags from the environment (XLA_FLAGS).

    Args:
        devices: the devices, as for `compile_and_load`.
        num_replicas, num_partitions: the numbers of replicas and partitions.
        flags: names and values of XLA's flags, in order; they override flags from the environment.
            XLA checks names and types when it compiles.
        level: the optimization level of XLA's backend and passes, 0 to 3; None is XLA's default.
        shardy: whether Shardy partitions the program instead of GSPMD. Each partitioner ignores
            the annotations for the other.
        free_results: for each result of a partitioned program, whether XLA may choose its sharding.
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
    """Serialize a CompileOptions; equal options of one jaxlib version give equal bytes."""
    content: bytes = options.SerializeAsString()
    return content


def counts_in(options: bytes) -> tuple[int, int]:
    """Return the numbers of replicas and partitions in the result of `options_bytes`.

    Raises:
        ValueError: jaxlib can't parse the bytes.
    """
    try:
        parsed = xla_client.CompileOptions.ParseFromString(options)
    except RuntimeError as error:
        raise ValueError(str(error)) from None
    return parsed.num_replicas, parsed.num_partitions


@functools.cache
def known_flags() -> dict[str, str]:
    """Return the XLA flags that jaxlib lists, each with a value as text: true, 3, "text", NAME.

    jaxlib lists the flags that have a default value. XLA has further flags, such as those for TPUs.
    The text is "{" if the value is a protocol buffer message.
    """
    # The parts do not keep `compile_options` alive, and jaxlib would crash without this reference.
    compile_options = xla_client.CompileOptions()
    options = compile_options.executable_build_options.debug_options
    flags: dict[str, str] = {}
    for name, colon, value in re.findall(r"^(xla_\w+)(:?) (.*)$", str(options), re.MULTILINE):
        flags[name] = value if colon else "{"
    for name in dir(options):
        if name.startswith("xla_") and name not in flags:
            value = getattr(options, name, None)
            if isinstance(value, (bool, int)):
                flags[name] = str(value).lower()
            elif isinstance(value, str):
                flags[name] = '""'
    return flags


def initialize_lapack(code: bytes) -> None:
    """Load LAPACK if a module or a serialized executable may call it.

    jaxlib loads the functions when jax lowers a linear algebra op. A program that jax did not lower
    in this process would call null pointers.
    """
    if b"lapack_" in code:
        lapack: Any = importlib.import_module("jaxlib.lapack")
        lapack._lapack.initialize()


def compile_and_load(
    devices: Sequence[Any],
    module_bytecode: bytes,
    *,
    options: Any = None,
    num_replicas: int = 1,
    num_partitions: int = 1,
    callbacks: Sequence[Callable[..., Any]] = (),
) -> Any:
    """Compile a module for devices of one client; return a jaxlib LoadedExecutable.

    The module is passed as bytes, because XLA compiles without holding the GIL, and another thread
    could use the module's MLIR context at the same time.

    Args:
        devices: ``num_replicas * num_partitions`` jax.Devices: the partitions of replica 0, those
            of replica 1, and so on. For absent devices (`topology_devices`) the result is an
            Executable, which has the same information but can't be executed.
        module_bytecode: MLIR bytecode, or a portable artifact.
        options: the result of `compile_options` for the same devices and numbers; None for
            the defaults.
        num_replicas: the number of replicas.
        num_partitions: the number of partitions of each replica.
        callbacks: the Python functions that custom calls of `CALLBACK_TARGET` refer to by index.
            The executable keeps references to the functions.

    Raises:
        ValueError: XLA refuses the module or a flag; the message is XLA's report.
    """
    if options is None:
        options = compile_options(devices, num_replicas=num_replicas, num_partitions=num_partitions)
    initialize_lapack(module_bytecode)
    client = devices[0].client
    arguments = jax_extension.DeviceList(tuple(devices)), options
    try:
        if not is_absent(devices[0]) and not callbacks:
            return client.compile_and_load(module_bytecode, *arguments)
        # The other variants require an MLIR module; it has a context of its own.
        module = ir.Module.parse(module_bytecode, new_context())
        if is_absent(devices[0]):
            return client.compile(module, *arguments)
        return client.compile_and_load(module, *arguments, list(callbacks))
    except UnicodeDecodeError:
        raise ValueError("the module is damaged: XLA's report is not valid UTF-8") from None
    except (RuntimeError, ValueError) as error:  # RuntimeError: jax.errors.JaxRuntimeError
        raise ValueError(str(error)) from None


def serialized(loaded: Any) -> bytes:
    """Serialize an executable for `deserialize` in another process.

    Raises:
        ValueError: the executable or its platform does not support serialization.
    """
    try:
        content: bytes = loaded.serialize()
    except (RuntimeError, ValueError, AttributeError) as error:
        raise ValueError(str(error)) from None
    return content


def deserialize(devices: Sequence[Any], content: bytes, options: Any) -> Any:
    """Load the result of `serialized` on these devices.

    Load only trusted bytes: jaxlib may crash on damaged bytes, and executes the machine code in the
    bytes.

    Args:
        devices: devices of the kind that the executable was compiled for.
        content: the bytes.
        options: the result of `compile_options` for the same devices.

    Raises:
        ValueError: jaxlib refuses the bytes; the message is jaxlib's report.
    """
    initialize_lapack(content)
    try:
        return devices[0].client.deserialize_executable(
            content, jax_extension.DeviceList(tuple(devices)), options
        )
    except (RuntimeError, ValueError, TypeError) as error:
        raise ValueError(str(error)) from None


_LAYOUT: Final = re.compile(r"\{[^}]*\}")


def device_shapes(loaded: Any) -> tuple[list[str], list[str]]:
    """Return the shapes of an executable's arguments and results on one device.

    The shapes are text without layouts: "f32[4]", "token[]". Tuples are flattened.
    """
    (module,) = loaded.hlo_modules()
    computation = xla_client.XlaComputation(module.as_serialized_hlo_module_proto())
    shape = computation.program_shape()

    def texts(shapes: Sequence[Any]) -> list[str]:
        flat: list[str] = []
        for each in shapes:
            flat += texts(each.tuple_shapes()) if each.is_tuple() else [_LAYOUT.sub("", str(each))]
        return flat

    return texts(shape.parameter_shapes()), texts([shape.result_shape()])


_FEATURE: Final = rb"[+-][a-z0-9][a-z0-9._-]{0,40}"

_FEATURES: Final = re.compile(rb",%b(?:,%b){6,}" % (_FEATURE, _FEATURE))
"""Matches LLVM's list of CPU features from the list's first comma on: the search for a pattern that
begins with one fixed character is fast. The pattern limits the length of a feature name, since a
run of dashes in a constant would otherwise take quadratic time."""


def cpu_features(content: bytes) -> tuple[str, ...]:
    """Return the CPU features that a serialized executable was compiled for: "avx2", "fma", ...

    The executable contains LLVM's feature list. The result is empty if there is no list.
    """
    match = _FEATURES.search(content)
    if match is None:
        return ()
    first = re.search(_FEATURE + rb"\Z", content[max(match.start() - 42, 0) : match.start()])
    names = ((b"" if first is None else first[0]) + match[0]).decode().strip(",").split(",")
    # Preferences require nothing of the CPU.
    return tuple(sorted(n[1:] for n in names if n[0] == "+" and not n.startswith("+prefer-")))


@functools.cache
def host_cpu_features() -> tuple[str, ...]:
    """Return the CPU features that an empty program compiled for this machine's CPU requires.

    The result is empty if the features can't be determined.
    """
    jax: Any = importlib.import_module("jax")
    try:
        device = jax.local_devices(backend="cpu")[0]
        module = b"func.func @main() { return }"
        return cpu_features(serialized(compile_and_load([device], module)))
    except (RuntimeError, ValueError):
        return ()


def optimized_hlo_text(loaded: Any, *, large_constants: bool) -> str:
    """Return the optimized HLO text of an executable.

    `{...}` replaces large constants unless `large_constants` is True.
    """
    options = xla_client.hlo.HloPrintOptions()
    options.print_large_constants = large_constants
    return "\n".join(m.to_string(options) for m in loaded.hlo_modules())


def compiled_cost(loaded: Any) -> dict[str, float]:
    """Return XLA's cost estimates for an execution, by XLA's names ("flops", "bytes accessed")."""
    return {name: float(number) for name, number in sorted(loaded.cost_analysis().items())}


def compiled_memory(loaded: Any) -> dict[str, int]:
    """Return the bytes of device memory that an executable needs, by purpose."""
    stats = loaded.get_compiled_memory_stats()
    return {
        "arguments": stats.argument_size_in_bytes,
        "results": stats.output_size_in_bytes,
        "aliased": stats.alias_size_in_bytes,
        "temporary": stats.temp_size_in_bytes,
        "code": stats.generated_code_size_in_bytes,
    }
