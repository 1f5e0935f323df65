"""ReplicatedExecutable: a program that runs on several devices at the same time.

Each device has arguments and results of its own; the program's operations across devices are the
only connection. All arguments are checked before anything executes: with several devices jaxlib
dies of wrong ones.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from builder.shape import TupleShape
from lowering import jaxlib_api
from lowering.errors import ExecutionError
from lowering.host_calls import SharedCallback
from lowering.legalize.agreement import Disagreement
from lowering.pjrt import host_array, sharding_of
from lowering.running.arguments import DELETED, DELETED_FIX, Arguments, Leaf, describe
from lowering.running.program import CompiledProgram, ProgramInfo
from lowering.running.results import packer

__all__ = ["ReplicatedExecutable"]

_JaxArray: Final = jaxlib_api.array_type
_layout_of: Final = jaxlib_api.layout_of

_LAUNCH: Final = threading.Lock()
"""Programs reach all devices in one order: of two that wait for each other none would end."""


class ReplicatedExecutable(CompiledProgram):
    """A computation compiled for several devices, which `lowering.compile` makes when it is asked
    for several replicas or partitions.

    Call it with one argument for each parameter, in order or by the parameters' names:

    - a list or tuple of N values, one for each of the N devices;
    - an array with a leading dimension of size N, whose rows go to the devices;
    - one value of the parameter's own shape, which every device gets.

    The values are what an `Executable` takes: NumPy arrays, objects with ``__dlpack__``, numbers,
    and jax.Arrays, which in a list have to be on their devices already. For a tuple parameter give
    a list of N tuples, or one tuple whose elements are given in any of these ways.

    The result is a list of N results, each as an `Executable` gives it, on its own device.

    Attributes:
        name: the computation's name.
        program_shape: parameters and result, on each device.
        devices: the jax.Devices: the partitions of replica 0, those of replica 1, and so on.
        num_replicas, num_partitions: how many there are of each.

    Example:
        >>> import builder as xb, lowering, numpy as np
        >>> @xb.computation(xb.f32[2])
        ... def total(x):
        ...     return xb.all_reduce(x, xb.add)
        >>> module = lowering.lower(total)
        >>> if len(lowering.devices("cpu")) >= 2:
        ...     run = lowering.compile(module, "cpu", num_replicas=2)
        ...     results = run(np.array([[1, 2.5], [3, 5.25]], np.float32))
        ...     assert [np.asarray(r).tolist() for r in results] == [[4.0, 7.75]] * 2
    """

    __slots__ = (
        "_arguments",
        "_calls_python",
        "_disagreements",
        "_execute",
        "_failure",
        "_global",
        "_pack",
        "_running",
        "num_partitions",
        "num_replicas",
    )

    def __init__(self, loaded: Any, info: ProgramInfo, devices: Sequence[jax.Device]) -> None:
        super().__init__(loaded, info, devices)
        self.num_replicas = info.num_replicas
        self.num_partitions = info.num_partitions
        callbacks = info.callbacks
        self._arguments = tuple(
            Arguments(info, sharding_of(device), self._place(number))
            for number, device in enumerate(self.devices)
        )
        # What is passed together. That the arrays differ is no business of jax's.
        everywhere: Any = PartitionSpec
        self._global = NamedSharding(Mesh(np.array(self.devices), ("device",)), everywhere())
        self._execute = jaxlib_api.sharded_runner(loaded)
        self._pack = packer(info.shape.result)
        self._calls_python = bool(callbacks)
        shared = [c.failure for c in callbacks if isinstance(c, SharedCallback)]
        self._failure = shared[0] if shared else None
        self._running = threading.Lock()
        self._disagreements = [c for c in callbacks if isinstance(c, Disagreement)]

    def _place(self, number: int) -> str:
        replica, partition = divmod(number, self.num_partitions)
        if self.num_partitions == 1:
            return f" for replica {replica}"
        if self.num_replicas == 1:
            return f" for partition {partition}"
        return f" for replica {replica}, partition {partition}"

    def __call__(self, /, *args: Any, **by_name: Any) -> list[Any]:
        """Executes the computation; see the class for what arguments may be.

        Raises:
            ArgumentError: the arguments are not those that the computation takes.
            ExecutionError: the devices go different ways around an operation across them; an
                infeed was not fed, or a Python function failed.
        """
        first = self._arguments[0]
        if by_name:
            args = first.in_order(args, by_name)
        if len(args) != len(self.program_shape.parameters):
            raise first.wrong_count(len(args))
        columns = self._columns(args)
        rows = [
            [
                self._argument(value, one, one.leaves[position])
                for value, one in zip(values, self._arguments, strict=True)
            ]
            for position, values in enumerate(columns)
        ]
        if first.donated:
            for one, arrays in zip(self._arguments, zip(*rows, strict=True), strict=True):
                one.check_given_once(arrays)
        passed = [
            jaxlib_api.assemble(leaf.target.aval, self._global, arrays)
            for leaf, arrays in zip(first.leaves, rows, strict=True)
        ]
        if self._failure is None:
            results = self._launch(passed)
        else:
            # One run at a time, whose failure it is.
            with self._running:
                try:
                    results = self._launch(passed)
                finally:
                    failed = self._failure.taken()
                    if failed is not None:
                        raise failed from failed.__cause__
        return [
            self._pack([result[number] for result in results])
            for number in range(len(self.devices))
        ]

    def _launch(self, passed: list[Any]) -> list[list[Any]]:
        """Executes the program; waits for its end if Python functions are called."""
        with _LAUNCH:
            results, wait = self._execute(passed)
        if self._calls_python:
            self._wait(wait)
        return results

    def _wait(self, wait: Callable[[], None]) -> None:
        """Waits for the end, and says what the devices disagreed about if they did."""
        try:
            wait()
        except RuntimeError as error:
            for one in self._disagreements:
                if one.noticed:
                    one.noticed = False
                    raise ExecutionError(one.message, op=one.op, detail=str(error)) from None
            raise

    def __repr__(self) -> str:
        return (
            f"<ReplicatedExecutable {self.name!r} {self.program_shape} on {len(self.devices)} "
            f"devices: {self.num_replicas} replicas of {self.num_partitions} partitions>"
        )

    # Arguments

    def _columns(self, args: Sequence[Any]) -> list[list[Any]]:
        """For each leaf of the parameters the values for the devices."""
        columns: list[list[Any]] = []
        count = len(self.devices)
        for number, (argument, parameter) in enumerate(
            zip(args, self.program_shape.parameters, strict=True)
        ):
            first = self._arguments[0]
            if not isinstance(parameter, TupleShape):
                columns.append(self._values(argument, first.leaves[len(columns)]))
            elif isinstance(argument, list):
                name = self.program_shape.parameter_names[number]
                if len(argument) != count:
                    raise self._wrong_length(number, name, "", argument)
                rows = [
                    one.flattened_parameter(number, value)
                    for value, one in zip(argument, self._arguments, strict=True)
                ]
                columns.extend(map(list, zip(*rows, strict=True)))
            else:
                for value in first.flattened_parameter(number, argument):
                    leaf = first.leaves[len(columns)]
                    if isinstance(value, tuple):
                        # One for each device, or a part of the tuple that the parameter is? Lists
                        # are the one, tuples the other.
                        raise first.refused(leaf, describe(value), "give a list for the devices")
                    columns.append(self._values(value, leaf))
        return columns

    def _values(self, value: Any, leaf: Leaf) -> list[Any]:
        """The values for the devices, of what was given for one leaf."""
        count = len(self.devices)
        if isinstance(value, (list, tuple)):
            if len(value) != count:
                raise self._wrong_length(leaf.number, leaf.name, leaf.path, value)
            return list(value)
        if isinstance(value, jax.Array):
            if type(value) is not _JaxArray or not value.is_fully_addressable:
                return [value] * count  # tracers, keys, arrays of other processes: are refused
            if value.is_deleted():
                raise self._arguments[0].refused(leaf, DELETED, DELETED_FIX)
            value = np.asarray(value)
        else:
            array = host_array(value)
            if array is None:
                return [value] * count
            value = array
        if value.shape == leaf.target.dimensions:
            return [value] * count
        if value.ndim and value.shape[0] == count and value.shape[1:] == leaf.target.dimensions:
            # Rows of a vector would be scalars without a shape of their own.
            return [value[number, ...] for number in range(count)]
        shape = leaf.target.shape
        sizes = ",".join(map(str, (count, *shape.dimensions)))
        raise self._arguments[0].error(
            f"argument {leaf.number} ({leaf.name}){leaf.path} must be {shape} for all {count} "
            f"devices, {shape.element_type}[{sizes}] with a row for each, or a list of {count}, "
            f"got {describe(value)}",
            leaf.number,
            leaf.name,
        )

    def _wrong_length(self, number: int, name: str, path: str, value: Sequence[Any]) -> Exception:
        count = len(self.devices)
        return self._arguments[0].error(
            f"argument {number} ({name}){path} must be a list with a value for each of {count} "
            f"devices, got a {type(value).__name__} of {len(value)}\n"
            f"fix: give {count} values, or one array for all",
            number,
            name,
        )

    def _argument(self, value: Any, arguments: Arguments, leaf: Leaf) -> Any:
        """`value` as a jax.Array on the device of `arguments`; as it is if it is one."""
        if (
            type(value) is _JaxArray
            and value.aval == leaf.aval
            and value.sharding == arguments.sharding
            and not value.is_deleted()
            and (leaf.layout is None or _layout_of(value) == leaf.layout)
        ):
            return value
        return arguments.argument(value, leaf)
