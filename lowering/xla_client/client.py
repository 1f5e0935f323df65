"""Client, Device and LoadedExecutable of the old binding, on the executables of `lowering`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Literal, cast

import jax
import numpy as np

import builder as xb
from builder.errors import OperandError, brief, error_of
from lowering.errors import ArgumentError, DeviceError
from lowering.host import custom_calls
from lowering.host.infeed import transfer_from_outfeed, transfer_to_infeed
from lowering.importer.hlo import from_hlo
from lowering.jaxlib_api import native
from lowering.pjrt import devices as pjrt_devices
from lowering.pjrt.placement import device_put, share_memory
from lowering.running.compiling import compile as compile_program
from lowering.running.executable import Executable
from lowering.running.executable_loading import load_executable
from lowering.running.replicated import ReplicatedExecutable
from lowering.stablehlo.module import load_bytes
from lowering.xla_client.builder import HloModule, XlaBuilder, XlaComputation, new_builder
from lowering.xla_client.enums import ChannelHandle_ChannelType
from lowering.xla_client.errors import reporting
from lowering.xla_client.options import CompileOptions
from lowering.xla_client.protos import ChannelHandle
from lowering.xla_client.shapes import Layout, Shape

xla_platform_names: Final = {"cpu": "Host", "gpu": "CUDA"}
"""The names of platforms in XLA."""


class Device:
    """A device of a client. It has the attributes of `new`, a jax.Device."""

    __slots__ = ("client", "new")

    def __init__(self, new: jax.Device, client: Client) -> None:
        self.new = new
        self.client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self.new, name)

    @property
    def host_id(self) -> int:
        """The number of the process that the device belongs to."""
        return int(self.new.process_index)

    task_id = host_id

    @reporting("transfer_to_infeed")
    def transfer_to_infeed(self, value: Any) -> None:
        """Send an array, or a tuple of arrays, to the device's infeed."""
        transfer_to_infeed(value, self.new)

    @reporting("transfer_from_outfeed")
    def transfer_from_outfeed(self, shape: Shape) -> Any:
        """Return the next value of the device's outfeed."""
        return transfer_from_outfeed(shape.new, self.new)

    def live_buffers(self) -> list[jax.Array]:
        """Return the arrays on this device that exist."""
        return [a for a in self.client.live_buffers() if a.devices() == {self.new}]

    def __eq__(self, other: object) -> bool:
        return bool(self.new == (other.new if isinstance(other, Device) else other))

    def __hash__(self) -> int:
        return hash(self.new)

    def __repr__(self) -> str:
        return repr(self.new)


class ExecuteResults:
    """The results of a program on several devices."""

    __slots__ = ("_arrays",)

    def __init__(self, arrays: list[list[jax.Array]]) -> None:
        self._arrays = arrays

    def __len__(self) -> int:
        return len(self._arrays)

    def get_sharded_token(self) -> Token:
        """Return a token that waits for the end on all devices."""
        return Token([array for arrays in self._arrays for array in arrays])

    consume_token = get_sharded_token

    def disassemble_into_single_device_arrays(self) -> list[list[jax.Array]]:
        """Return for each result a list with its array on each device."""
        return self._arrays


class Token:
    """The end of an execution."""

    __slots__ = ("_arrays",)

    def __init__(self, arrays: Sequence[jax.Array]) -> None:
        self._arrays = arrays

    def block_until_ready(self) -> None:
        """Wait for the end of the execution."""
        for array in self._arrays:
            array.block_until_ready()


class LoadedExecutable:
    """A compiled program; `new` is the executable of `lowering`.

    Example:
        >>> from lowering import xla_client as xc
        >>> b = xc.XlaBuilder("doubled")
        >>> x = xc.ops.Parameter(b, 0, xc.Shape("f32[2]"))
        >>> client = xc.make_cpu_client()
        >>> run = client.compile(b.build(xc.ops.Add(x, x)))
        >>> run.execute([client.buffer_from_pyval(np.float32([1, 2]))])
        [Array([2., 4.], dtype=float32)]
    """

    def __init__(self, new: Executable | ReplicatedExecutable, client: Client) -> None:
        self.new = new
        self.client = client
        self.traceback = native.xla_client.Traceback.get_traceback()

    @property
    def fingerprint(self) -> bytes:
        """Bytes that are equal for equal optimized programs."""
        return blake2b(self.new.hlo_text().encode(), digest_size=16).digest()

    @reporting("get_parameter_layouts")
    def get_parameter_layouts(self) -> list[Layout]:
        """Return the layout of each array among the parameters."""
        return _layouts(self.new.compiled_shape().parameters)

    @reporting("get_output_layouts")
    def get_output_layouts(self) -> list[Layout]:
        """Return the layout of each array among the results."""
        return _layouts([self.new.compiled_shape().result])

    def local_devices(self) -> list[Device]:
        """Return the devices that execute the program."""
        devices = [self.new.device] if isinstance(self.new, Executable) else self.new.devices
        return [Device(device, self.client) for device in devices]

    @reporting("execute")
    def execute(self, arguments: Sequence[Any], device: Device | None = None) -> list[jax.Array]:
        """Execute the program on one device.

        Args:
            arguments: an array for each array among the parameters.
            device: the device of the program, or None.

        Returns:
            The arrays of the result; the elements of a tuple.

        Raises:
            XlaRuntimeError: the arguments do not match the parameters, or the execution fails.
        """
        return _flat(self.new(*self._nested(arguments)))

    def _nested(self, arguments: Sequence[Any]) -> list[Any]:
        """Return the arguments nested as the parameters are.

        Raises:
            ArgumentError: the number of arguments differs from the number of arrays.
        """
        shapes = [Shape.of(parameter) for parameter in self.new.program_shape.parameters]
        expected = sum(shape.leaf_count() for shape in shapes)
        if not isinstance(arguments, (list, tuple)):
            rule = f"expected a list of {expected} arguments"
            raise error_of(OperandError, "execute", rule, got=brief(arguments))
        if len(arguments) != expected:
            rule = f"expected {expected} arguments for {shapes}"
            raise error_of(ArgumentError, "execute", rule, got=len(arguments))
        values = iter(arguments)
        return [_nested_value(shape, values) for shape in shapes]

    def execute_with_token(
        self, arguments: Sequence[Any], device: Device | None = None
    ) -> tuple[list[jax.Array], Token]:
        """Execute the program, and return a token that waits for the end."""
        results = self.execute(arguments, device)
        return results, Token(results)

    @reporting("execute_sharded")
    def execute_sharded(
        self, arguments: Sequence[Any], with_tokens: bool = False
    ) -> ExecuteResults:
        """Execute the program on all of its devices.

        Args:
            arguments: for each parameter a list with the array of each device.
            with_tokens: ignored; the arrays themselves can be waited for.

        Raises:
            XlaRuntimeError: the arguments do not match the parameters, or the execution fails.
        """
        if isinstance(self.new, Executable):
            values = [a[0] if isinstance(a, (list, tuple)) else a for a in arguments]
            return ExecuteResults([[result] for result in _flat(self.new(*self._nested(values)))])
        per_device = [_flat(result) for result in self.new(*self._nested(arguments))]
        return ExecuteResults([list(arrays) for arrays in zip(*per_device, strict=True)])

    def execute_sharded_on_local_devices(self, arguments: Sequence[Any]) -> list[list[jax.Array]]:
        """Execute the program on all of its devices, and return a list for each result."""
        return self.execute_sharded(arguments).disassemble_into_single_device_arrays()

    def execute_sharded_on_local_devices_with_tokens(
        self, arguments: Sequence[Any]
    ) -> tuple[list[list[jax.Array]], Token]:
        """Execute the program as `execute_sharded_on_local_devices` does, and return a token."""
        results = self.execute_sharded_on_local_devices(arguments)
        return results, Token([array for arrays in results for array in arrays])

    def cost_analysis(self) -> dict[str, float]:
        """Return XLA's estimate of the cost of a run: "flops", "bytes accessed" and others."""
        return self.new.cost()

    def hlo_modules(self) -> list[HloModule]:
        """Return the module that XLA has optimized."""
        return [HloModule(self.new.hlo_text(large_constants=True))]

    def size_of_generated_code_in_bytes(self) -> int:
        """Return the size of the machine code; -1 if it is unknown."""
        return -1


def _layouts(shapes: Sequence[xb.Shape]) -> list[Layout]:
    leaves = [leaf for shape in shapes for leaf in Shape.of(shape).leaves()]
    return [leaf.layout() for leaf in leaves if leaf.is_array()]


def _flat(result: Any) -> list[jax.Array]:
    if isinstance(result, tuple):
        return [leaf for element in result for leaf in _flat(element)]
    return [result]


def _nested_value(shape: Shape, values: Iterator[Any]) -> Any:
    if shape.is_tuple():
        return tuple(_nested_value(element, values) for element in shape.tuple_shapes())
    return next(values)


class Client:
    """The devices of a platform. `make_cpu_client` and `make_client` create it.

    Attributes:
        platform: the name of the platform, such as "cpu".
    """

    def __init__(self, platform: str, num_devices: int | None = None) -> None:
        self.platform = platform
        self._channels = 0
        devices = pjrt_devices.devices(platform)[:num_devices]
        self._devices = [Device(device, self) for device in devices]

    @property
    def platform_version(self) -> str:
        """The version of the platform."""
        return str(self._devices[0].new.client.platform_version)

    @property
    def runtime_type(self) -> str:
        """The name of the runtime."""
        return str(self._devices[0].new.client.runtime_type)

    def devices(self) -> list[Device]:
        """Return the devices of all processes."""
        return list(self._devices)

    def local_devices(self) -> list[Device]:
        """Return the devices of this process."""
        return [d for d in self._devices if d.new.process_index == jax.process_index()]

    _get_all_devices = devices

    def device_count(self) -> int:
        """Return the number of devices of all processes."""
        return len(self._devices)

    def local_device_count(self) -> int:
        """Return the number of devices of this process."""
        return len(self.local_devices())

    @reporting("device_from_local_hardware_id")
    def device_from_local_hardware_id(self, local_hardware_id: int) -> Device:
        """Return the device of this process with a number of the hardware.

        Raises:
            XlaRuntimeError: there is no such device.
        """
        for device in self.local_devices():
            if device.local_hardware_id == local_hardware_id:
                return device
        numbers = [device.local_hardware_id for device in self.local_devices()]
        rule = f"local_hardware_id must be one of {numbers}"
        raise error_of(
            DeviceError, "device_from_local_hardware_id", rule, got=brief(local_hardware_id)
        )

    def process_index(self) -> int:
        """Return the number of this process."""
        return jax.process_index()

    host_id = task_id = process_index

    def live_buffers(self) -> list[jax.Array]:
        """Return the arrays on the client's platform that are not deleted."""
        arrays: list[jax.Array] = jax.live_arrays(self.platform)  # type: ignore[no-untyped-call]  # of jax
        return arrays

    live_arrays = live_buffers

    @reporting("buffer_from_pyval")
    def buffer_from_pyval(
        self,
        argument: Any,
        device: Device | None = None,
        force_copy: bool = False,
        host_buffer_semantics: object = None,
    ) -> jax.Array:
        """Copy an array to a device; it has exactly the element type of `argument`.

        Args:
            argument: a NumPy array or scalar, a Python number, or an array of another library.
            device: a device of this client; by default the first one.
            force_copy: whether to copy the array also with ZERO_COPY.
            host_buffer_semantics: with `HostBufferSemantics.ZERO_COPY` the buffer uses the memory
                of a NumPy array on CPU if it is aligned; the program must not modify the array
                afterwards. Otherwise the array is copied.

        Raises:
            XlaRuntimeError: the value is not an array.
        """
        if isinstance(argument, (bool, int, float, complex)):
            argument = np.asarray(argument)
        target = self._devices[0] if device is None else device
        is_shared = host_buffer_semantics == native.xla_client.HostBufferSemantics.ZERO_COPY
        if is_shared and not force_copy and isinstance(argument, np.ndarray):
            return share_memory(argument, target.new)
        return device_put(argument, target.new)

    @reporting("compile")
    def compile(
        self,
        computation: Any,
        compile_options: CompileOptions | None = None,
        host_callbacks: Sequence[Any] = (),
    ) -> LoadedExecutable:
        """Compile a computation for this client's devices.

        Args:
            computation: an XlaComputation, an HloModule, or a StableHLO module as bytes or text.
            compile_options: the numbers of replicas and partitions, the devices, the layouts.
            host_callbacks: must be empty; use `emit_python_callback`.

        Raises:
            XlaRuntimeError: XLA can't compile the computation, or the options do not fit it.
        """
        options = CompileOptions() if compile_options is None else compile_options
        if not isinstance(options, CompileOptions):
            rule = "expected a CompileOptions"
            raise error_of(OperandError, "compile", rule, got=brief(options))
        if host_callbacks:
            fix = "use emit_python_callback"
            raise error_of(OperandError, "compile", "host_callbacks are not supported", fix)
        program = _for_new_compile(computation)
        build = options.executable_build_options
        if build.use_auto_spmd_partitioning:
            rule = "use_auto_spmd_partitioning is not supported"
            raise error_of(OperandError, "compile", rule, "set the shardings of the parameters")
        replicas = max(options.num_replicas, build.num_replicas)
        partitions = max(options.num_partitions, build.num_partitions)
        if options.argument_layouts is not None:
            _check_layouts(program.program_shape, options.argument_layouts)
        result = build.result_layout
        if result is not None and result != Shape.of(program.program_shape.result):
            rule = f"Invalid result shape: expected {Shape.of(program.program_shape.result)}"
            fix = "request the layout with build(root, result=shape) of builder.XlaBuilder"
            raise error_of(ArgumentError, "compile", rule, fix, got=result)
        assignment = options.device_assignment or build.device_assignment
        numbers = range(replicas * partitions) if assignment is None else assignment.numbers()
        flags: dict[str, Any] = {**vars(build.debug_options), **dict(options.env_option_overrides)}
        if build.optimization_level is not None:
            flags["optimization_level"] = build.optimization_level
        by_number = {device.id: device.new for device in self._devices}
        missing = [number for number in numbers if number not in by_number]
        if missing and assignment is not None:
            rule = f"expected numbers of devices of the platform {self.platform}"
            raise error_of(OperandError, "compile", rule, got=missing)
        devices: list[Any] = [by_number.get(number) for number in numbers]
        if missing:
            devices = [self.platform]
        executable = compile_program(
            program,
            num_replicas=replicas,
            num_partitions=partitions,
            **({"device": self.platform} if missing else {"devices": devices}),
            options=flags or None,
        )
        return LoadedExecutable(cast("Executable | ReplicatedExecutable", executable), self)

    @reporting("serialize_executable")
    def serialize_executable(self, executable: LoadedExecutable) -> bytes:
        """Return a compiled program as bytes."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "executable"
            executable.new.save(path)
            return path.read_bytes()

    @reporting("deserialize_executable")
    def deserialize_executable(
        self, serialized: bytes, compile_options: CompileOptions | None = None
    ) -> LoadedExecutable:
        """Return the program of the bytes that `serialize_executable` has returned.

        Raises:
            XlaRuntimeError: the bytes are not a program for these devices.
        """
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "executable"
            path.write_bytes(serialized)
            new = load_executable(path, self.platform)
        return LoadedExecutable(cast("Executable | ReplicatedExecutable", new), self)

    def create_channel_handle(self) -> ChannelHandle:
        """Return a channel with a number that no other channel of this client has."""
        self._channels += 1
        return ChannelHandle(ChannelHandle_ChannelType.DEVICE_TO_DEVICE, self._channels)

    @reporting("emit_python_callback")
    def emit_python_callback(
        self,
        callback: Callable[..., Any],
        builder: Any,
        operands: Sequence[xb.XlaOp],
        result_shapes: Sequence[Shape],
        operand_layouts: Sequence[Shape] | None = None,
        has_side_effects: bool = False,
    ) -> tuple[xb.XlaOp, object]:
        """Record a call of a Python function.

        Args:
            callback: takes NumPy arrays, and returns a tuple of arrays.
            builder: the XlaBuilder that records.
            operands: the arguments.
            result_shapes: the shapes of the results.
            operand_layouts: ignored; the arrays have the default layout.
            has_side_effects: whether the function is called even if its results are not used.

        Returns:
            The tuple of the results, and an object that older programs keep while the program runs.
        """
        shape = xb.tuple_shape([s.new for s in result_shapes])
        recorder = new_builder("emit_python_callback", builder)
        if operands:
            call = xb.python_call(callback, operands, shape, has_side_effect=has_side_effects)
        else:
            call = recorder.python_call(callback, shape, has_side_effect=has_side_effects)
        return call, callback

    def __repr__(self) -> str:
        return f"<Client {self.platform}, {len(self._devices)} devices>"


def _for_new_compile(computation: Any) -> Any:
    """Convert an argument of `Client.compile` to one of `lowering.compile`."""
    if isinstance(computation, XlaComputation):
        return computation.new
    if isinstance(computation, XlaBuilder):
        rule = "expected an XlaComputation"
        raise error_of(
            OperandError,
            "compile",
            rule,
            "pass the result of XlaBuilder.build()",
            got=repr(computation),
        )
    if isinstance(computation, HloModule):
        return from_hlo(computation.to_string())
    return load_bytes(computation) if isinstance(computation, (str, bytes)) else computation


def _check_layouts(shape: xb.ProgramShape, layouts: Sequence[Shape]) -> None:
    """Raise unless the requested shapes are those of the parameters."""
    for number, (parameter, requested) in enumerate(zip(shape.parameters, layouts, strict=False)):
        expected = Shape.of(parameter)
        if expected != requested:
            rule = f"Invalid argument shape: expected {expected}"
            fix = "give the parameter this shape, with its layout"
            raise error_of(ArgumentError, "compile", rule, fix, got=f"{requested} for {number}")
    if len(layouts) != len(shape.parameters):
        rule = f"expected {len(shape.parameters)} argument_layouts"
        raise error_of(ArgumentError, "compile", rule, got=len(layouts))


@reporting("make_cpu_client")
def make_cpu_client(
    asynchronous: bool = True,
    *args: Any,
    num_devices: int | None = None,
    **options: Any,
) -> Client:
    """Return the client of the CPU.

    Args:
        num_devices: the number of devices. jax creates the devices when it is first used, so this
            function has to be called before that, unless there are enough devices already.
        asynchronous, args, options: ignored.

    Raises:
        XlaRuntimeError: there are fewer devices, and jax is in use.

    Example:
        >>> from lowering import xla_client as xc
        >>> xc.make_cpu_client().platform
        'cpu'
    """
    if num_devices is not None:
        with suppress(RuntimeError):  # jax is in use
            jax.config.update("jax_num_cpu_devices", num_devices)  # type: ignore[no-untyped-call]
    client = Client("cpu", num_devices)
    if num_devices is not None and client.device_count() != num_devices:
        rule = f"num_devices is {num_devices}, but jax has created {client.device_count()} devices"
        fix = "call make_cpu_client before jax is first used"
        raise error_of(DeviceError, "make_cpu_client", rule, fix)
    return client


@reporting("make_gpu_client")
def make_gpu_client(**options: Any) -> Client:
    """Return the client of the GPUs; the options are ignored."""
    return Client("gpu")


@reporting("make_tpu_client")
def make_tpu_client(*paths: Any, **options: Any) -> Client:
    """Return the client of the TPUs; the options are ignored."""
    return Client("tpu")


@reporting("get_local_backend")
def get_local_backend(platform: str | None = None) -> Client:
    """Return the client of a platform, by default that of jax's default devices.

    Example:
        >>> from lowering import xla_client as xc
        >>> xc.get_local_backend("cpu").platform
        'cpu'
    """
    return Client(jax.default_backend() if platform is None else platform)


@reporting("execute_with_python_values")
def execute_with_python_values(
    executable: LoadedExecutable, arguments: Sequence[Any], backend: Client
) -> list[np.ndarray[Any, Any]]:
    """Execute a program with NumPy arrays, and return NumPy arrays.

    Example:
        >>> from lowering import xla_client as xc
        >>> b = xc.XlaBuilder("one")
        >>> one = xc.ops.Constant(b, np.float32(1))
        >>> client = xc.make_cpu_client()
        >>> xc.execute_with_python_values(client.compile(b.build()), [], client)
        [array(1., dtype=float32)]
    """
    device = executable.local_devices()[0]
    results = executable.execute([backend.buffer_from_pyval(a, device) for a in arguments])
    return [np.asarray(result) for result in results]


@reporting("execute_with_python_values_replicated")
def execute_with_python_values_replicated(
    executable: LoadedExecutable, arguments: Sequence[Sequence[Any]], backend: Client
) -> list[list[np.ndarray[Any, Any]]]:
    """Execute a program on several replicas; `arguments` and results have a list for each."""
    devices = executable.local_devices()
    columns = [
        [backend.buffer_from_pyval(v, d) for v, d in zip(values, devices, strict=True)]
        for values in zip(*arguments, strict=True)
    ]
    results = executable.execute_sharded_on_local_devices(columns)
    return [[np.asarray(array) for array in arrays] for arrays in zip(*results, strict=True)]


@reporting("register_custom_call_target")
def register_custom_call_target(
    name: str | bytes, fn: Any, platform: str = "cpu", api_version: int = 0
) -> None:
    """Register a C function under the name of a custom call.

    Args:
        name: the name.
        fn: a capsule with the function, or what `lowering.register_custom_call_target` takes.
        platform: "cpu", "gpu" or "tpu", or the name in XLA: "Host", "CUDA".
        api_version: 1 for a handler of XLA's FFI, 0 for other functions.

    Raises:
        OperandError: an argument has the wrong type, or another function has the name already.
    """
    platforms = {value.lower(): key for key, value in xla_platform_names.items()}
    api: Literal["typed", "untyped"] = "typed" if api_version else "untyped"
    custom_calls.register_custom_call_target(
        name.decode() if isinstance(name, bytes) else name,
        fn,
        platforms.get(platform.lower(), platform.lower()),
        api=api,
    )
