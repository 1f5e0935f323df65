"""ReplicatedExecutable: a program that runs on several devices at the same time.

Each device has arguments and results of its own; the program's operations across devices are the
only connection. All arguments are checked before anything executes: with several devices jaxlib
dies of wrong ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding

from builder.types.shape import ArrayShape, TupleShape, leaves
from lowering.errors import ExecutionError
from lowering.host.callbacks import raise_failure, shared_failure
from lowering.jaxlib_api import array_layouts, execution, jax_arrays
from lowering.legalize.agreement import Disagreement
from lowering.pjrt.devices import is_local, sharding_of
from lowering.pjrt.host_arrays import describe, host_array
from lowering.running.arguments import DELETED, DELETED_FIX, Arguments, Leaf, target_of
from lowering.running.failures import must_wait, raise_execution_error
from lowering.running.launch_order import LAUNCH
from lowering.running.program import CompiledProgram, ProgramInfo
from lowering.running.results import result_packer
from lowering.running.rows import Rows, row_of, rows_on

__all__ = ["ReplicatedExecutable"]

_JaxArray: Final = jax_arrays.array_type
_aval_of: Final = jax_arrays.aval_of
_is_deleted: Final = jax_arrays.is_deleted
_layout_of: Final = array_layouts.layout_of
_sharding_of: Final = jax_arrays.sharding_getter()


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

    A jax.Array that is cut up into rows over these devices already, as ``jax.device_put(array,
    executable.sharding)`` cuts it, is used where it is; one that lies elsewhere is copied.

    The result is a list of N results, each as an `Executable` gives it, on its own device. Compiled
    with ``results="sharded"`` it is one result, nested as the computation's root is, whose arrays
    have a leading dimension of size N, cut up over the devices in the same way: it can be an
    argument of the next call, or of any function of jax, and nothing is copied.

    Where several processes compute together (`jax.distributed.initialize`), all of them call their
    executables in the same order. A list then holds the values, and the results, for the devices
    of this process alone, `local_devices`; arrays of rows have those of all devices.

    Attributes:
        name: the computation's name.
        program_shape: parameters and result, on each device.
        devices: the jax.Devices: the partitions of replica 0, those of replica 1, and so on.
        local_devices: those of them that are of this process, in the same order.
        sharding: the jax NamedSharding of arrays that hold a row for each device.
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
        ...     run = lowering.compile(module, "cpu", num_replicas=2, results="sharded")
        ...     once = run(np.array([[1, 2.5], [3, 5.25]], np.float32))
        ...     assert np.asarray(run(once)).tolist() == [[8.0, 15.5]] * 2
    """

    __slots__ = (
        "_arguments",
        "_disagreements",
        "_execute",
        "_failure",
        "_in_rows",
        "_numbers",
        "_pack",
        "_places",
        "_rows",
        "_waits",
        "_whole",
        "local_devices",
        "num_partitions",
        "num_replicas",
        "sharding",
    )

    def __init__(self, loaded: Any, info: ProgramInfo, devices: Sequence[jax.Device]) -> None:
        super().__init__(loaded, info, devices)
        self.num_replicas = info.num_replicas
        self.num_partitions = info.num_partitions
        callbacks = info.callbacks
        # Which of all devices are of this process: all of them, if there is but one.
        self._numbers = [n for n, device in enumerate(self.devices) if is_local(device)]
        self.local_devices = tuple(self.devices[n] for n in self._numbers)
        self._arguments = tuple(
            Arguments(info, sharding_of(self.devices[number]), self._place(number))
            for number in self._numbers
        )
        self._places = [one.sharding for one in self._arguments]
        mesh = Mesh(np.array(self.devices), ("device",))
        spec: Any = PartitionSpec
        self.sharding = NamedSharding(mesh, spec("device"))
        # What lists are passed as. That the arrays differ is no business of jax's.
        self._whole = NamedSharding(mesh, spec())
        count = len(self.devices)
        self._rows = tuple(Rows(leaf, count) for leaf in self._arguments[0].leaves)
        self._in_rows = info.in_rows
        self._pack = result_packer(info.shape.result)
        self._waits = waits = must_wait(info, loaded, self.local_devices[0])
        self._execute: Callable[[list[Any]], tuple[list[Any], Callable[[], None]]]
        if info.in_rows:
            results = self._results()
            self._execute = execution.rows_runner(loaded, results, self._whole, wait=waits)
        else:
            self._execute = execution.sharded_runner(loaded, wait=waits)
        self._failure = shared_failure(callbacks)
        self._disagreements = [c for c in callbacks if isinstance(c, Disagreement)]

    def _results(self) -> list[tuple[Any, Any, Sharding]]:
        """Of each result a row, the whole, and how that lies; tokens have no rows."""
        found: list[tuple[Any, Any, Sharding]] = []
        for leaf in leaves(self.program_shape.result):
            target = target_of(leaf, sharding_of(self.local_devices[0]))
            if isinstance(leaf, ArrayShape):
                whole = rows_on(target, len(self.devices))
                found.append((rows_on(target, 1), whole, self.sharding))
            else:
                found.append((target.aval, target.aval, self._whole))
        return found

    def _place(self, number: int) -> str:
        replica, partition = divmod(number, self.num_partitions)
        if self.num_partitions == 1:
            return f" for replica {replica}"
        if self.num_replicas == 1:
            return f" for partition {partition}"
        return f" for replica {replica}, partition {partition}"

    def __call__(self, /, *args: Any, **by_name: Any) -> Any:
        """Executes the computation; see the class for what arguments may be.

        Raises:
            ArgumentError: the arguments are not those that the computation takes.
            ExecutionError: the devices go different ways around an operation across them; an
                infeed was not fed, or a Python function failed.
        """
        return self._go(self._take(args, by_name))

    def _take(
        self, args: tuple[Any, ...], by_name: Mapping[str, Any]
    ) -> tuple[list[Any], list[list[jax.Array]]]:
        first = self._arguments[0]
        if by_name:
            args = first.in_order(args, by_name)
        if len(args) != len(self.program_shape.parameters):
            raise first.wrong_count(len(args))
        return self._passed(args)

    def _go(self, taken: tuple[list[Any], list[list[jax.Array]]]) -> Any:
        first = self._arguments[0]
        passed, columns = taken
        if first.donated:
            for one, arrays in zip(self._arguments, zip(*columns, strict=True), strict=True):
                one.check_given_once(arrays)
        if self._failure is None:
            results = self._launch(passed)
        else:
            results = self._failure.carried(lambda: self._launch(passed))
        if self._in_rows:
            return self._pack(results)
        return [
            self._pack([result[number] for result in results])
            for number in range(len(self.local_devices))
        ]

    def _launch(self, passed: list[Any]) -> list[Any]:
        """Executes the program; waits for its end where a failure is to be expected."""
        try:
            with LAUNCH:
                results, wait = self._execute(passed)
        except RuntimeError as error:
            self._raise_in_words(error)
            raise
        if self._waits:
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
            self._raise_in_words(error)
            raise

    def _raise_in_words(self, error: RuntimeError) -> None:
        raise_failure(error)
        devices = self.local_devices
        where = f"{devices[0]} to {devices[-1]}" if len(devices) > 1 else str(devices[0])
        raise_execution_error(error, self._info, self._loaded, where)

    def __repr__(self) -> str:
        return (
            f"<ReplicatedExecutable {self.name!r} {self.program_shape} on {len(self.devices)} "
            f"devices: {self.num_replicas} replicas of {self.num_partitions} partitions>"
        )

    # Arguments

    def _passed(self, args: Sequence[Any]) -> tuple[list[Any], list[list[Any]]]:
        """For each leaf of the parameters what is passed, and what of it each device gets."""
        passed: list[Any] = []
        columns: list[list[Any]] = []
        others: list[Any] = [None] * (len(self._arguments) - 1)
        for value, leaf, rows in self._given(args):
            if (
                # Used as it is: 1 us instead of 30 to take 8 rows apart and put them together.
                type(value) is _JaxArray
                # Not by its aval, which holds a mesh too.
                and value.shape == rows.dimensions
                and value.dtype == rows.dtype
                and (
                    (where := value.sharding) is self.sharding
                    or _is_same(where, self.sharding, value.ndim)
                )
                and not value.is_deleted()
                and (rows.layout is None or _layout_of(value) == rows.layout)
            ):
                passed.append(value)
                # The first device's part stands for all of it.
                columns.append([value, *others])
                continue
            arrays = self._values(value, leaf)
            if not self._are_right(arrays, leaf):
                position = len(passed)
                arrays = [
                    one.argument(part, one.leaves[position])
                    for part, one in zip(arrays, self._arguments, strict=True)
                ]
            passed.append(jax_arrays.assemble(leaf.target.aval, self._whole, arrays))
            columns.append(arrays)
        return passed, columns

    def _given(self, args: Sequence[Any]) -> Iterator[tuple[Any, Leaf, Rows]]:
        """What was given for each leaf of the parameters."""
        first = self._arguments[0]
        position = 0
        for number, (argument, parameter) in enumerate(
            zip(args, self.program_shape.parameters, strict=True)
        ):
            given: list[Any]
            if not isinstance(parameter, TupleShape):
                given = [argument]
            elif isinstance(argument, list):
                name = self.program_shape.parameter_names[number]
                if len(argument) != len(self._arguments):
                    raise self._wrong_length(number, name, "", argument)
                each = [
                    one.flattened_parameter(number, value)
                    for value, one in zip(argument, self._arguments, strict=True)
                ]
                given = list(map(list, zip(*each, strict=True)))
            else:
                given = first.flattened_parameter(number, argument)
                for place, value in enumerate(given, position):
                    if isinstance(value, tuple):
                        # One for each device, or a part of the tuple that the parameter is? Lists
                        # are the one, tuples the other.
                        leaf = first.leaves[place]
                        raise first.refused(leaf, describe(value), "give a list for the devices")
            for value in given:
                yield value, first.leaves[position], self._rows[position]
                position += 1

    def _values(self, value: Any, leaf: Leaf) -> list[Any]:
        """The values for the devices of this process, of what was given for one leaf."""
        count = len(self._arguments)
        if isinstance(value, (list, tuple)):
            if len(value) != count:
                raise self._wrong_length(leaf.number, leaf.name, leaf.path, value)
            return list(value)
        if isinstance(value, jax.Array):
            if type(value) is not _JaxArray:
                return [value] * count  # tracers and keys: are refused
            if value.is_deleted():
                raise self._arguments[0].refused(leaf, DELETED, DELETED_FIX)
            there = self._on_devices(value, leaf)
            if there is not None:
                return there
            if not value.is_fully_addressable:
                raise self._out_of_reach(value, leaf)
            value = np.asarray(value)
        else:
            array = host_array(value)
            if array is None:
                return [value] * count
            value = array
        if value.shape == leaf.target.dimensions:
            return [value] * count
        if self._has_rows(value, leaf):
            # Rows of a vector would be scalars without a shape of their own.
            return [value[number, ...] for number in self._numbers]
        raise self._wrong_sizes(value, leaf)

    def _has_rows(self, value: Any, leaf: Leaf) -> bool:
        dimensions: tuple[int, ...] = value.shape
        return dimensions == (len(self.devices), *leaf.target.dimensions)

    def _on_devices(self, value: jax.Array, leaf: Leaf) -> list[Any] | None:
        """A jax.Array's values for the devices, if each is on its device; None if not."""
        if not self._has_rows(value, leaf) and value.shape != leaf.target.dimensions:
            return None
        shards = {shard.device: shard for shard in value.addressable_shards}
        if not shards.keys() >= set(self.local_devices):
            return None
        local = [shards[device] for device in self.local_devices]
        if value.shape == leaf.target.dimensions:
            return [shard.data for shard in local] if value.is_fully_replicated else None
        for shard, number in zip(local, self._numbers, strict=True):
            if shard.data.shape[0] != 1 or (shard.index[0].start or 0) != number:
                return None
            if shard.data.shape[1:] != leaf.target.dimensions:
                return None
        return [row_of(shard.data) for shard in local]

    def _out_of_reach(self, value: jax.Array, leaf: Leaf) -> Exception:
        if not self._has_rows(value, leaf) and value.shape != leaf.target.dimensions:
            return self._wrong_sizes(value, leaf)
        return self._arguments[0].error(
            f"argument {leaf.number} ({leaf.name}){leaf.path} must be cut up into rows over the "
            f"executable's devices, got {describe(value)} cut up otherwise, with parts on devices "
            f"of other processes\nfix: jax.device_put(array, executable.sharding)",
            leaf.number,
            leaf.name,
        )

    def _wrong_sizes(self, value: Any, leaf: Leaf) -> Exception:
        count = len(self.devices)
        shape = leaf.target.shape
        sizes = ",".join(map(str, (count, *shape.dimensions)))
        return self._arguments[0].error(
            f"argument {leaf.number} ({leaf.name}){leaf.path} must be {shape} for all {count} "
            f"devices, {shape.element_type}[{sizes}] with a row for each, or a list of "
            f"{self._how_many()}, got {describe(value)}",
            leaf.number,
            leaf.name,
        )

    def _how_many(self) -> str:
        local = len(self.local_devices)
        return f"{local}" + (" for this process" if local < len(self.devices) else "")

    def _wrong_length(self, number: int, name: str, path: str, value: Sequence[Any]) -> Exception:
        count = len(self.local_devices)
        here = " of this process" if count < len(self.devices) else ""
        return self._arguments[0].error(
            f"argument {number} ({name}){path} must be a list with a value for each of {count} "
            f"devices{here}, got a {type(value).__name__} of {len(value)}\n"
            f"fix: give {count} values, or one array for all",
            number,
            name,
        )

    def _are_right(self, arrays: Sequence[Any], leaf: Leaf) -> bool:
        """Whether all are jax.Arrays on their devices, to be used as they are."""
        # All together, one property after the other, and what is the same object is not compared:
        # two lists of 8 take 29 us, against 41 one by one. A deleted array that is asked for its
        # layout ends the process in jaxlib 0.10.
        count = len(arrays)
        return (
            [*map(type, arrays)].count(_JaxArray) == count
            and [*map(_aval_of, arrays)].count(leaf.aval) == count
            and [*map(_sharding_of, arrays)] == self._places
            and not any(map(_is_deleted, arrays))
            and (leaf.layout is None or [*map(_layout_of, arrays)].count(leaf.layout) == count)
        )


@lru_cache(maxsize=1024)
def _is_same(one: Sharding, other: Sharding, rank: int) -> bool:
    """Whether arrays lie under one sharding as under another, whatever meshes are called."""
    return one.memory_kind == other.memory_kind and one.is_equivalent_to(other, rank)
