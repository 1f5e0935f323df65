"""ReplicatedExecutable: a program that runs on several devices at the same time.

Each device has its own arguments and results. Devices communicate only through the program's
collective operations. All arguments are checked before the program is executed: with several
devices jaxlib crashes on wrong arguments.

An array can be sharded along its first dimension, one row for each device. The program of each
device takes an f32[4], but the device has a row, an f32[1,4]. Both arrays have the same bytes in
the same order, so a row is passed without a copy. If arrays have tiled layouts, as on a TPU, or the
program requests a layout, the leading dimension is removed on the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding

from builder.errors import OperandError, brief, error_of
from builder.support.frames import without_internal_frames
from builder.types.foreign_arrays import UnreadableArrayError, read_array
from builder.types.shape import ArrayShape, TupleShape, intern_array, leaves
from lowering.jaxlib_api import execution, jax_arrays
from lowering.pjrt.devices import Target, is_local, sharding_of
from lowering.pjrt.entry_layouts import layout_from
from lowering.pjrt.host_arrays import describe, result_packer
from lowering.running.arguments import DELETED, DELETED_FIX, Arguments, Leaf, target_of
from lowering.running.launching import AcceptedArrays, Launcher
from lowering.running.program import CompiledProgram, ProgramInfo
from lowering.running.shards import is_equivalent
from lowering.stablehlo.call_tree import unchanged


class Rows:
    """The rows that are passed for one array argument.

    Attributes:
        dimensions: the sizes that a jax.Array must have to be passed without a copy; None if all
            arrays are copied.
        dtype: the dtype of the array's elements.
        layout: the memory layout that rows must have; None for scalars, which have only one layout.
    """

    def __init__(self, leaf: Leaf, count: int) -> None:
        target = leaf.target
        shape = intern_array(target.shape.element_type, (1, *target.dimensions))
        row = Target(shape, target.sharding)
        layouts = map(jax_arrays.layout_text, (target.default, row.default))
        in_tiles = any(layout_from(text).tiles for text in layouts)
        is_same = leaf.is_static_array and leaf.requested_layout is None and not in_tiles
        self.dimensions: Final = (count, *target.dimensions) if is_same else None
        self.dtype: Final = target.dtype
        self.layout: Final = row.default if target.dimensions else None


def rows_aval(target: Target, count: int) -> Any:
    """Return the aval of an array with `count` rows of the shape of `target`."""
    return jax.core.ShapedArray((count, *target.dimensions), target.dtype)


def row_of(shard: jax.Array) -> jax.Array:
    """Return a copy of a row without its leading dimension, on the same device."""
    with jax.enable_x64(True):
        return jax.lax.squeeze(shard, [0])


def sharding_by_row(devices: Sequence[jax.Device]) -> NamedSharding:
    """Return the sharding of arrays that have a row for each device."""
    spec: Any = PartitionSpec
    return NamedSharding(Mesh(np.array(devices), ("device",)), spec("device"))


_JaxArray: Final = jax_arrays.array_type
_layout_of: Final = jax_arrays.layout_of


def check_results(op: str, results: Any) -> None:
    """Raise OperandError unless `results` is "list" or "sharded", as for `lowering.compile`."""
    if not isinstance(results, str) or results not in ("list", "sharded"):
        rule = "results must be 'list' or 'sharded'"
        raise error_of(OperandError, op, rule, got=brief(results))


_Passed = tuple[list[Any], list[list[Any]]]
"""The array passed to jaxlib for each leaf of the parameters, and its array on each device."""


class ReplicatedExecutable(CompiledProgram):
    """A computation compiled for several devices.

    `lowering.compile` creates it for several replicas or partitions.

    Call it with one argument for each parameter, in order or by the parameters' names:

    - a list or tuple of N values, one for each of the N devices;
    - an array with a leading dimension of size N, whose rows go to the devices;
    - one value of the parameter's own shape, which is copied to every device.

    The values are those that an `Executable` takes: arrays of any library, numbers, and, in a list
    with an entry for each device, nested lists of numbers. A jax.Array in a list must already be on
    the device that takes it. For a tuple parameter pass a list of N tuples, or one tuple whose
    elements are passed in any of the three ways above.

    A jax.Array that is sharded into rows over these devices, by ``jax.device_put(array,
    executable.sharding)``, is used without a copy; arrays with other shardings are copied.

    The result is a list of N results, each as an `Executable` returns it, on its own device. With
    ``results="sharded"`` the call returns one result, nested as the computation's root is. Its
    arrays have a leading dimension of size N and `sharding`: they can be arguments of the next
    call, or of any function of jax, without a copy.

    The program of a function of jax or `lowering.jit` is called like the function, as an
    `Executable` is, with one of the three forms above in the place of each array.

    Where several processes compute together (`jax.distributed.initialize`), all of them call their
    executables in the same order. A list of arguments or results then has one entry for each of
    this process's devices (`local_devices`). An array of rows has a row for every device of all
    processes.

    Attributes:
        name: the computation's name.
        program_shape: the parameters and the result on each device.
        devices: the jax.Devices: the partitions of replica 0, those of replica 1, and so on.
        local_devices: the devices of this process, in the same order.
        sharding: the jax NamedSharding of arrays with a row for each device.
        num_replicas, num_partitions: the number of replicas, and of partitions in each replica.

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
        *("_accepted", "_arguments", "_common", "_in_rows", "_launcher", "_numbers", "_pack"),
        "_rows",
        *("_unsharded", "local_devices", "num_partitions", "num_replicas", "sharding"),
    )

    def __init__(self, loaded: Any, info: ProgramInfo, devices: Sequence[jax.Device]) -> None:
        super().__init__(loaded, info, devices)
        self.num_replicas = info.num_replicas
        self.num_partitions = info.num_partitions
        self._numbers = [n for n, device in enumerate(self.devices) if is_local(device)]
        self.local_devices = tuple(self.devices[n] for n in self._numbers)
        self._arguments = tuple(
            Arguments(info, sharding_of(self.devices[number]), self._place(number))
            for number in self._numbers
        )
        # For messages about an argument of all devices.
        self._common = Arguments(info, self._arguments[0].sharding)
        self.sharding = sharding_by_row(self.devices)
        # jaxlib executes lists as unsharded arrays; that their elements differ is invisible to it.
        spec: Any = PartitionSpec
        self._unsharded = NamedSharding(self.sharding.mesh, spec())
        expected = self._common.leaves
        places = [arguments.sharding for arguments in self._arguments]
        self._accepted = tuple(AcceptedArrays([leaf] * len(places), places) for leaf in expected)
        self._rows = tuple(Rows(leaf, len(self.devices)) for leaf in expected)
        self._in_rows = info.in_rows
        self._pack = result_packer(info.shape.result)
        self._launcher = launcher = Launcher(loaded, info, self.local_devices)
        if info.in_rows:
            launcher.execute = execution.joining_runner(
                loaded, self._row_results(), self._unsharded, wait=launcher.waits
            )
        else:
            launcher.execute = execution.sharded_runner(loaded, wait=launcher.waits)

    def _row_results(self) -> list[tuple[Any, Any, Sharding]]:
        """Return for each result the aval of one row, the aval of all rows, and the sharding.

        A token has no rows: both avals are the token's.
        """
        results: list[tuple[Any, Any, Sharding]] = []
        for leaf in leaves(self.program_shape.result):
            target = target_of(leaf, sharding_of(self.local_devices[0]))
            if isinstance(leaf, ArrayShape):
                rows = rows_aval(target, len(self.devices))
                results.append((rows_aval(target, 1), rows, self.sharding))
            else:
                results.append((target.aval, target.aval, self._unsharded))
        return results

    def _place(self, number: int) -> str:
        replica, partition = divmod(number, self.num_partitions)
        if self.num_partitions == 1:
            return f" for replica {replica}"
        if self.num_replicas == 1:
            return f" for partition {partition}"
        return f" for replica {replica}, partition {partition}"

    @without_internal_frames
    def __call__(self, /, *args: Any, **by_name: Any) -> Any:
        """Execute the computation; the class describes the arguments.

        Raises:
            ArgumentError: the arguments do not match the parameters.
            ExecutionError: the devices take different branches, and not all of them execute a
                collective operation; an infeed was not fed; a Python function failed.
        """
        return self._run(self._prepare(args, by_name))

    def _prepare(self, args: tuple[Any, ...], by_name: Mapping[str, Any]) -> Any:
        values, nest = self._common.bind(args, by_name, lists=True)
        return self._passed(values), nest

    def _run(self, prepared: tuple[_Passed, Callable[[Any], Any]]) -> Any:
        (passed, columns), nest = prepared
        if self._common.donated:
            for arguments, arrays in zip(self._arguments, zip(*columns, strict=True), strict=True):
                arguments.check_donated_once(arrays)
        results = self._launcher(passed)
        if self._in_rows:
            return nest(self._pack(results))
        return [
            nest(self._pack([result[number] for result in results]))
            for number in range(len(self.local_devices))
        ]

    def _run_flat(self, values: Sequence[Any]) -> Any:
        """Execute the computation for one argument for each parameter; return its flat results."""
        return self._run((self._passed(values), unchanged))

    def __repr__(self) -> str:
        return (
            f"<ReplicatedExecutable {self.name!r} {self.program_shape} on {len(self.devices)} "
            f"devices: {self.num_replicas} replicas of {self.num_partitions} partitions>"
        )

    # Arguments

    def _passed(self, args: Sequence[Any]) -> _Passed:
        """Return the array passed to jaxlib for each leaf, and its array on each device."""
        if len(args) != len(self.program_shape.parameters):
            raise self._common.wrong_count(len(args), args)
        passed: list[Any] = []
        columns: list[list[Any]] = []
        padding: list[Any] = [None] * (len(self._arguments) - 1)
        for position, (value, leaf) in enumerate(self._values(args)):
            if self._is_sharded_in_rows(value, self._rows[position]):
                passed.append(value)
                # `check_donated_once` compares the memory of the first row only.
                columns.append([value, *padding])
                continue
            arrays = self._device_values(value, leaf)
            if not self._accepted[position].accept(arrays):
                arrays = [
                    arguments.put(array, arguments.leaves[position])
                    for array, arguments in zip(arrays, self._arguments, strict=True)
                ]
            passed.append(jax_arrays.assemble(leaf.target.aval, self._unsharded, arrays))
            columns.append(arrays)
        return passed, columns

    def _is_sharded_in_rows(self, value: Any, rows: Rows) -> bool:
        """Return whether `value` is a jax.Array sharded into `rows`, which needs no copy."""
        return (
            type(value) is _JaxArray
            # Not by its aval, which contains the mesh.
            and value.shape == rows.dimensions
            and value.dtype == rows.dtype
            and (
                (where := value.sharding) is self.sharding
                or is_equivalent(where, self.sharding, value.ndim)
            )
            and not value.is_deleted()
            and (rows.layout is None or _layout_of(value) == rows.layout)
        )

    def _values(self, args: Sequence[Any]) -> Iterator[tuple[Any, Leaf]]:
        """Yield for each leaf of the parameters the value that the caller passed, and the leaf."""
        common = self._common
        position = 0
        for number, (argument, parameter) in enumerate(
            zip(args, self.program_shape.parameters, strict=True)
        ):
            values: list[Any]
            if isinstance(parameter, TupleShape) and isinstance(argument, list):
                if len(argument) != len(self._arguments):
                    name = self.program_shape.parameter_names[number]
                    raise self._wrong_length(number, name, "", argument)
                each = [
                    arguments.flatten_parameter(number, value)
                    for value, arguments in zip(argument, self._arguments, strict=True)
                ]
                values = list(map(list, zip(*each, strict=True)))
            else:
                values = common.flatten_parameter(number, argument)
                if isinstance(parameter, TupleShape):
                    for leaf, value in zip(common.leaves[position:], values, strict=False):
                        # A tuple nests the parameter; a list has a value for each device.
                        if isinstance(value, tuple):
                            fix = "pass a list with a value for each device"
                            raise common.refusal(leaf, describe(value), fix)
            for value in values:
                yield value, common.leaves[position]
                position += 1

    def _device_values(self, value: Any, leaf: Leaf) -> list[Any]:
        """Split or repeat a leaf's value: return an argument for each device of this process."""
        count = len(self._arguments)
        if isinstance(value, (list, tuple)):
            if len(value) != count:
                raise self._wrong_length(leaf.number, leaf.name, leaf.path, value)
            return list(value)
        if isinstance(value, jax.Array):
            if type(value) is not _JaxArray:
                return [value] * count  # tracers and keys: `Arguments` refuses them
            if value.is_deleted():
                raise self._common.refusal(leaf, DELETED, DELETED_FIX)
            if not self._has_rows(value, leaf) and value.shape != leaf.target.dimensions:
                raise self._wrong_sizes(value, leaf)
            shards = self._local_shards(value, leaf)
            if shards is not None:
                return shards
            if not value.is_fully_addressable:
                raise self._common.refusal(
                    leaf,
                    f"{describe(value)} with other shards on devices of other processes",
                    "use jax.device_put(array, executable.sharding)",
                    expected="sharded into rows over the executable's devices",
                )
            value = np.asarray(value)
        else:
            try:
                array = read_array(value)
            except UnreadableArrayError:
                array = None
            if array is None:
                return [value] * count  # `Arguments` converts or refuses it
            value = array
        if value.shape == leaf.target.dimensions:
            return [value] * count
        if not self._has_rows(value, leaf):
            raise self._wrong_sizes(value, leaf)
        # The ellipsis keeps the rows of a vector arrays.
        return [value[number, ...] for number in self._numbers]

    def _has_rows(self, value: Any, leaf: Leaf) -> bool:
        dimensions: tuple[int, ...] = value.shape
        return dimensions == (len(self.devices), *leaf.target.dimensions)

    def _local_shards(self, value: jax.Array, leaf: Leaf) -> list[Any] | None:
        """Return the local devices' shards of an array.

        Return None if a local device does not have the shard that the program needs there.
        """
        shards = {shard.device: shard for shard in value.addressable_shards}
        if not shards.keys() >= set(self.local_devices):
            return None
        local = [shards[device] for device in self.local_devices]
        if value.shape == leaf.target.dimensions:
            return [shard.data for shard in local] if value.is_fully_replicated else None
        for shard, number in zip(local, self._numbers, strict=True):
            if shard.data.shape != (1, *leaf.target.dimensions):
                return None
            if (shard.index[0].start or 0) != number:
                return None
        return [row_of(shard.data) for shard in local]

    def _wrong_sizes(self, value: Any, leaf: Leaf) -> Exception:
        count, local = len(self.devices), len(self.local_devices)
        shape = leaf.target.shape
        sizes = ",".join(map(str, (count, *shape.dimensions)))
        here = " for this process" if local < count else ""
        return self._common.refusal(
            leaf,
            describe(value),
            expected=f"{shape} for all {count} devices, {shape.element_type}[{sizes}] with a row "
            f"for each, or a list of {local}{here}",
        )

    def _wrong_length(self, number: int, name: str, path: str, value: Sequence[Any]) -> Exception:
        count = len(self.local_devices)
        here = " of this process" if count < len(self.devices) else ""
        return self._common.error(
            f"argument {number} ({name}){path} must be a list with a value for each of {count} "
            f"devices{here}",
            f"pass {count} values, or one array for all devices",
            number,
            name,
            f"a {type(value).__name__} of {len(value)}",
        )
