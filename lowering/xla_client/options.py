"""CompileOptions of the old binding, and the parts of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from builder.errors import OperandError, brief, error_of
from lowering.jaxlib_api import native
from lowering.reading.protocol_buffers import (
    encoded_field,
    encoded_number,
    fields_of,
    numbers_in,
)
from lowering.xla_client.errors import reporting
from lowering.xla_client.shapes import Shape


class DeviceAssignment:
    """The numbers of the devices of a program, a row for each replica."""

    __slots__ = ("_numbers",)

    def __init__(self, numbers: Any) -> None:
        self._numbers = np.asarray(numbers, dtype=np.int64)
        if self._numbers.ndim != 2:
            rule = "expected an array of two dimensions"
            raise error_of(OperandError, "DeviceAssignment", rule, got=brief(numbers))

    @classmethod
    def create(cls, numbers: Any) -> DeviceAssignment:
        """Return the assignment of an array of device numbers, a row for each replica."""
        return cls(numbers)

    def replica_count(self) -> int:
        """Return the number of replicas."""
        return int(self._numbers.shape[0])

    def computation_count(self) -> int:
        """Return the number of partitions of each replica."""
        return int(self._numbers.shape[1])

    def serialize(self) -> bytes:
        """Return XLA's DeviceAssignmentProto as bytes."""
        columns = [
            encoded_field(3, encoded_field(1, b"".join(encoded_number(int(n)) for n in column)))
            for column in self._numbers.T
        ]
        counts = [bytes([8 * i]) + encoded_number(n) for i, n in enumerate(self._numbers.shape, 1)]
        return b"".join([*counts, *columns])

    @classmethod
    def of(cls, serialized: bytes) -> DeviceAssignment:
        """Return the assignment of a DeviceAssignmentProto."""
        fields = fields_of(serialized)
        return cls(np.transpose([numbers_in(fields_of(column)[1]) for column in fields[3]]))

    def numbers(self) -> list[int]:
        """Return the device numbers, row by row."""
        return [int(number) for number in self._numbers.flat]

    def rows(self) -> np.ndarray[Any, Any]:
        """Return the device numbers, a row for each replica."""
        return self._numbers


@dataclass(slots=True)
class ExecutableBuildOptions:
    """The options of XLA's compiler that a program may set.

    The attributes of `debug_options` are XLA's flags: `xla_cpu_enable_fast_math` and others. The
    other attributes without an explanation are ignored: they are hints, or jax no longer has them.

    Attributes:
        num_replicas, num_partitions: the number of replicas, and of partitions in each replica.
        device_assignment: the devices.
        result_layout: must be the shape of the result, if it is given.
        optimization_level: 0 to 3.
    """

    num_replicas: int = 1
    num_partitions: int = 1
    device_assignment: DeviceAssignment | None = None
    result_layout: Shape | None = None
    optimization_level: int | None = None
    use_spmd_partitioning: bool = False
    use_shardy_partitioner: bool = False
    use_auto_spmd_partitioning: bool = False
    auto_spmd_partitioning_mesh_shape: list[int] = field(default_factory=list)
    auto_spmd_partitioning_mesh_ids: list[int] = field(default_factory=list)
    allow_spmd_sharding_propagation_to_parameters: list[bool] = field(default_factory=list)
    allow_spmd_sharding_propagation_to_output: list[bool] = field(default_factory=list)
    exec_time_optimization_effort: float = 0.0
    memory_fitting_effort: float = 0.0
    memory_fitting_level: int = 0
    fdo_profile: bytes | None = None
    debug_options: SimpleNamespace = field(default_factory=SimpleNamespace)


@dataclass(slots=True)
class CompileOptions:
    """The options of `Client.compile`.

    Attributes:
        argument_layouts: must be the shapes of the parameters, if they are given.
        num_replicas, num_partitions: the number of replicas, and of partitions in each replica.
        device_assignment: the devices.
        env_option_overrides: XLA's flags and their values.
        parameter_is_tupled_arguments, tuple_arguments, compile_portable_executable,
            profile_version: ignored.
    """

    argument_layouts: list[Shape] | None = None
    num_replicas: int = 1
    num_partitions: int = 1
    device_assignment: DeviceAssignment | None = None
    parameter_is_tupled_arguments: bool = False
    tuple_arguments: bool = False
    compile_portable_executable: bool = False
    profile_version: int = 0
    env_option_overrides: list[tuple[str, Any]] = field(default_factory=list)
    executable_build_options: ExecutableBuildOptions = field(default_factory=ExecutableBuildOptions)

    @reporting("SerializeAsString")
    def SerializeAsString(self) -> bytes:
        """Return XLA's CompileOptionsProto as bytes.

        Raises:
            XlaRuntimeError: an option has a value that XLA's proto can't represent.

        Example:
            >>> from lowering import xla_client as xc
            >>> options = xc.CompileOptions(num_replicas=2)
            >>> xc.CompileOptions.ParseFromString(options.SerializeAsString()).num_replicas
            2
        """
        proto, own = native.xla_client.CompileOptions(), self.executable_build_options
        build = proto.executable_build_options
        _copy_changed(ExecutableBuildOptions(), own, build, _to_native)
        _copy_changed(CompileOptions(), self, proto, _to_native)
        # These are one field of the proto.
        proto.num_replicas = max(self.num_replicas, own.num_replicas)
        proto.num_partitions = max(self.num_partitions, own.num_partitions)
        if own.optimization_level is not None:
            build.optimization_level = _EFFORT_LEVELS[own.optimization_level]
        overrides = list(self.env_option_overrides)
        for name, value in vars(own.debug_options).items():
            if hasattr(build.debug_options, name):
                setattr(build.debug_options, name, value)
            else:  # a flag of another version, or one that only XLA knows
                overrides.append((name, value))
        proto.env_option_overrides = overrides
        serialized: bytes = proto.SerializeAsString()
        return serialized

    @staticmethod
    @reporting("ParseFromString")
    def ParseFromString(serialized: bytes) -> CompileOptions:
        """Return the options of a CompileOptionsProto.

        The attributes of `debug_options` are the flags that differ from their defaults.

        Raises:
            XlaRuntimeError: `serialized` is not bytes. XLA ignores bytes that it can't parse.
        """
        proto = native.xla_client.CompileOptions.ParseFromString(serialized)
        options, plain = CompileOptions(), native.xla_client.CompileOptions()
        build, proto_build = options.executable_build_options, proto.executable_build_options
        _copy_changed(plain, proto, options, _from_native)
        _copy_changed(plain.executable_build_options, proto_build, build, _from_native)
        if proto_build.optimization_level in _EFFORT_LEVELS:
            build.optimization_level = _EFFORT_LEVELS.index(proto_build.optimization_level)
        flags, defaults = proto_build.debug_options, plain.executable_build_options.debug_options
        for name in dir(defaults):
            if name.startswith("xla_") and getattr(flags, name) != getattr(defaults, name):
                setattr(build.debug_options, name, getattr(flags, name))
        overrides = proto.env_option_overrides
        options.env_option_overrides = [(n, v) for n, v in overrides if hasattr(defaults, n)]
        for name, value in overrides:
            if not hasattr(defaults, name):
                setattr(build.debug_options, name, value)
        return options


_NAMES: Final = {
    *(one.name for one in (*fields(CompileOptions), *fields(ExecutableBuildOptions)))
} - {"executable_build_options", "debug_options", "env_option_overrides", "optimization_level"}
"""The options whose values are converted one by one."""

_EFFORT_LEVELS: Final = (9, 19, 29, 39)
"""The numbers of the levels 0 to 3 in `xla.ExecutionOptions.EffortLevel`."""


def _copy_changed(default: Any, source: Any, target: Any, convert: Callable[[Any], Any]) -> None:
    """Copy the options that differ from the default and that both objects have."""
    for name in _NAMES:
        if hasattr(source, name) and hasattr(target, name):
            value = getattr(source, name)
            if value != getattr(default, name):
                setattr(target, name, convert(value))


def _to_native(value: Any) -> Any:
    if isinstance(value, DeviceAssignment):
        return native.xla_client.DeviceAssignment.create(value.rows())
    if isinstance(value, Shape):
        return native.xla_client.Shape(str(value))
    return list(map(_to_native, value)) if isinstance(value, (list, tuple)) else value


def _from_native(value: Any) -> Any:
    if isinstance(value, native.xla_client.DeviceAssignment):
        return DeviceAssignment.of(value.serialize())
    if isinstance(value, native.xla_client.Shape):
        return Shape(str(value))
    return list(map(_from_native, value)) if isinstance(value, (list, tuple)) else value
