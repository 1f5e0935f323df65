"""PartitionedExecutable: a program that XLA has partitioned over several devices.

The caller sees one program; its arguments and results are arrays sharded over the devices.
All arguments are checked before the program is executed: with several devices jaxlib crashes on an
array with a wrong sharding or a wrong device order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from builder.errors import error_of
from builder.sharding.tiling import Tiling, parse_tiling
from builder.support.frames import without_internal_frames
from builder.types.shape import ArrayShape, Shape, TokenShape, TupleShape, leaves
from lowering.errors import CompileError
from lowering.jaxlib_api import execution, jax_arrays
from lowering.pjrt.devices import is_local, sharding_of
from lowering.pjrt.host_arrays import program_leaves, result_packer
from lowering.running.arguments import Arguments, Leaf, passed_shape
from lowering.running.launching import AcceptedArrays, Execute, Launcher
from lowering.running.program import CompiledProgram, ProgramInfo
from lowering.running.shards import ShardedTarget, is_equivalent, named_shardings
from lowering.sharding.partitioning import Partitioning, partition_counts
from lowering.stablehlo.call_tree import unchanged


class PartitionedExecutable(CompiledProgram):
    """A computation partitioned over several devices.

    `lowering.compile` creates it for several partitions of a computation with shardings.

    Call it with one argument for each parameter, in order or by the parameters' names. Arguments
    are unpartitioned values, of the parameters' own shapes:

    - a NumPy array or scalar, an array of another library, nested lists of numbers, or a Python
      number, as for an `Executable`; it is split and copied to the devices;
    - a jax.Array with the sharding of the parameter, which is used without a copy. An array with
      another sharding is refused; copy it first:
      ``jax.device_put(array, executable.parameter_shardings["x"])``;
    - a tuple or list, nested as the parameter is, for a tuple parameter; None for a token.

    A parameter without a sharding is replicated on every device. The results are jax.Arrays with a
    NamedSharding, nested as the computation's root is: ``numpy.asarray(result)`` is the full array.
    XLA chooses the sharding of a result if the program does not specify one; `result_shardings`
    contains the shardings of all results.

    Where several processes compute together, all of them call their executables in the same order,
    with jax.Arrays over all devices, or with equal NumPy arrays. Each process transfers its own
    shards of a NumPy array.

    Attributes:
        name: the computation's name.
        program_shape: the parameters and the result, before partitioning.
        devices: the jax.Devices, in the order of the partitions.
        parameter_shardings: the jax NamedSharding of each parameter by name, nested as the
            parameter is; None for a token.
        result_shardings: the jax NamedShardings of the result, nested as the result is.

    Example:
        >>> import lowering, numpy as np
        >>> module = lowering.load_bytes('''
        ... func.func @main(%x: tensor<4x2xf32> {mhlo.sharding = "{devices=[2,1]<=[2]}"})
        ...     -> tensor<4x2xf32> {
        ...   %0 = stablehlo.negate %x : tensor<4x2xf32>
        ...   return %0 : tensor<4x2xf32>
        ... }''')
        >>> if len(lowering.devices("cpu")) >= 2:
        ...     negate = lowering.compile(module, "cpu", num_partitions=2)
        ...     result = negate(np.ones((4, 2), np.float32))
        ...     assert result.sharding.shard_shape(result.shape) == (2, 2)
        ...     assert np.asarray(negate(result)).tolist() == [[1.0, 1.0]] * 4
    """

    __slots__ = (
        *("_accepted", "_arguments", "_is_flat", "_launcher", "_pack"),
        *("parameter_shardings", "result_shardings"),
    )

    def __init__(self, loaded: Any, info: ProgramInfo, devices: Sequence[jax.Device]) -> None:
        super().__init__(loaded, info, devices)
        parameters, result = info.shape.parameters, info.shape.result
        flat = [leaf for parameter in parameters for leaf in leaves(parameter)]
        count = len(flat)
        shapes = list(map(passed_shape, (*flat, *leaves(result))))
        tilings = _tilings(loaded, info, count, len(shapes) - count)
        _check_tilings(info, shapes, tilings)
        shardings = named_shardings(
            tilings,
            [shape.rank for shape in shapes],
            self.devices,
            info.partitioning or Partitioning(is_shardy=False),
        )
        targets = [
            ShardedTarget(shape, sharding, self.devices)
            for shape, sharding in zip(shapes, shardings, strict=True)
        ]
        remaining = iter(shardings)
        self.parameter_shardings = {
            name: _nested(parameter, remaining)
            for name, parameter in zip(info.shape.parameter_names, parameters, strict=True)
        }
        self.result_shardings = _nested(result, remaining)
        self._arguments = _ShardedArguments(info, targets[:count])
        self._accepted = AcceptedArrays(self._arguments.leaves, shardings[:count])
        self._is_flat = not any(isinstance(p, TupleShape) for p in parameters)
        self._pack = result_packer(result)
        local = list(filter(is_local, self.devices))
        self._launcher = launcher = Launcher(loaded, info, local)
        if all(target.in_order for target in targets) and not launcher.waits:
            launcher.execute = _execute_sharded(loaded, targets[count:])
        else:
            launcher.execute = _execute_by_shards(
                loaded, info.donated, targets[:count], targets[count:], self.devices
            )

    @without_internal_frames
    def __call__(self, /, *args: Any, **by_name: Any) -> Any:
        """Execute the computation; the class describes the arguments.

        Raises:
            ArgumentError: the arguments do not match the parameters.
            ExecutionError: the devices take different branches, and not all of them execute a
                collective operation; a Python function or a registered function failed; there was
                not enough memory.
        """
        return self._run(self._prepare(args, by_name))

    def _prepare(self, args: tuple[Any, ...], by_name: Mapping[str, Any]) -> Any:
        values, nest = self._arguments.bind(args, by_name)
        return self._arrays(values), nest

    def _arrays(self, values: tuple[Any, ...]) -> Any:
        """Return the arrays that the runtime accepts for one argument for each parameter."""
        arrays: Any = values if self._is_flat else self._arguments.flatten(values)
        if not self._accepted.accept(arrays):
            arrays = self._arguments.put_all(arrays, len(values))
            self._accepted.expect(arrays)
        return arrays

    def _run(self, prepared: Any) -> Any:
        arrays, nest = prepared
        if self._arguments.donated:
            self._arguments.check_donated_once(arrays)
        return nest(self._pack(self._launcher(arrays)))

    def _run_flat(self, values: Sequence[Any]) -> Any:
        """Execute the computation for one argument for each parameter; return its flat result."""
        return self._run((self._arrays(tuple(values)), unchanged))

    def __repr__(self) -> str:
        return (
            f"<PartitionedExecutable {self.name!r} {self.program_shape} on {len(self.devices)} "
            f"devices>"
        )


class _ShardedArguments(Arguments):
    """The arguments of a partitioned program."""

    __slots__ = ()

    def __init__(self, info: ProgramInfo, targets: Sequence[ShardedTarget]) -> None:
        sharding: Any = sharding_of(targets[0].device) if targets else None
        super().__init__(info, sharding, targets=targets)

    def is_accepted(self, value: Any, leaf: Leaf) -> bool:  # noqa: ARG002  (overrides)
        return False  # `AcceptedArrays` has compared all of them

    def check_place(self, value: jax.Array, leaf: Leaf) -> None:
        sharding = leaf.target.sharding
        shardings = f"executable.parameter_shardings[{leaf.name!r}]{leaf.path}"
        fix = f"pass jax.device_put(array, {shardings}), or a NumPy array"
        self.check_memory_kind(value, leaf, sharding.memory_kind, fix)
        if not is_equivalent(value.sharding, sharding, value.ndim):
            got = f"one {_placement(value.sharding)}"
            raise self.refusal(leaf, got, fix, expected=_placement(sharding))


def _placement(sharding: Any) -> str:
    """Return a description of a sharding and its devices, for messages."""
    devices = sorted(sharding.device_set, key=lambda device: int(device.id))
    if len(devices) == 1:
        return f"on {devices[0]}"
    if not isinstance(sharding, NamedSharding):
        return f"in {sharding}"
    ids = [str(device.id) for device in sharding.mesh.devices.flat]
    on = ", ".join(ids[:16]) + (", ..." if len(ids) > 16 else "")
    if sharding.is_fully_replicated:
        return f"replicated on devices {on}"
    axes = ", ".join(f"{name}={size}" for name, size in sharding.mesh.shape.items())
    return f"sharded as {sharding.spec} over a mesh {axes} of devices {on}"


def _execute_sharded(loaded: Any, results: Sequence[ShardedTarget]) -> Execute:
    """Return a function that executes a program whose arrays all have shards in device order."""
    handlers = [execution.result_handler(target.aval, target.sharding) for target in results]
    run = execution.runner(loaded, handlers)

    def execute(arrays: Any) -> tuple[list[Any], Callable[[], None]]:
        return run(arrays), _no_wait

    return execute


def _no_wait() -> None:
    pass


def _execute_by_shards(
    loaded: Any,
    donated: frozenset[int],
    parameters: Sequence[ShardedTarget],
    results: Sequence[ShardedTarget],
    devices: Sequence[jax.Device],
) -> Execute:
    """Return a function that executes a program, and passes its arrays shard by shard.

    jaxlib takes and returns shards in the order of the devices. The shardings of the arrays may
    have another order.
    """
    run = execution.sharded_runner(loaded, wait=True)
    local = list(filter(is_local, devices))
    spec: Any = PartitionSpec
    unsharded = NamedSharding(Mesh(np.array(devices), ("device",)), spec())

    def in_device_order(array: jax.Array) -> list[jax.Array]:
        shards = {shard.device: shard.data for shard in array.addressable_shards}
        return [shards[device] for device in local]

    def assembled(in_order: Sequence[jax.Array], target: ShardedTarget) -> jax.Array:
        shards = dict(zip(local, in_order, strict=True))
        array: jax.Array = jax_arrays.assemble(
            target.aval, target.sharding, [shards[device] for device in target.local_devices]
        )
        return array

    def execute(arrays: Sequence[jax.Array]) -> tuple[list[Any], Callable[[], None]]:
        passed = [
            jax_arrays.assemble(target.shard, unsharded, in_device_order(array))
            for array, target in zip(arrays, parameters, strict=True)
        ]
        shards, wait = run(passed)
        for number in donated:
            arrays[number].delete()
        return [assembled(*pair) for pair in zip(shards, results, strict=True)], wait

    return execute


def _tilings(
    loaded: Any, info: ProgramInfo, parameter_count: int, result_count: int
) -> list[Tiling]:
    """Return the tilings that XLA chose for the arguments, followed by those for the results."""
    parameters = jax_arrays.parameter_tilings(loaded) or []
    # For a program without results, XLA reports the tiling of the empty tuple.
    results = (jax_arrays.result_tilings(loaded) or []) if result_count else []
    if len(parameters) != parameter_count or len(results) != result_count:
        raise CompileError(
            f"jaxlib does not report all shardings of {info.name}: the program has "
            f"{parameter_count} arguments and {result_count} results",
            got=f"shardings of {len(parameters)} arguments and {len(results)} results",
            context=("compile",),
        )
    return [parse_tiling(text) for text in (*parameters, *results)]


def _check_tilings(
    info: ProgramInfo, shapes: Sequence[ArrayShape], tilings: Sequence[Tiling]
) -> None:
    """Raise CompileError for a tiling that no jax.Array can have."""
    parameters, results = program_leaves(info.shape)
    for (place, _), shape, tiling in zip((*parameters, *results), shapes, tilings, strict=True):
        fix = f"specify a sharding for {place} that divides each dimension evenly"
        counts = partition_counts(tiling)
        if counts is None:
            if tiling.kind == "manual":
                fix = "combine the shards: xb.spmd_shard_to_full_shape(x, full_shape, tiling)"
            reason = "which an argument or result can't have"
        elif any(size % n for size, n in zip(shape.dimensions, counts, strict=False)):
            reason = "whose shards differ in size"
        else:
            continue
        rule = f"{place} of {info.name!r}, {shape}, has the sharding {tiling.text}, {reason}"
        raise error_of(CompileError, "compile", rule, fix, shapes={place: shape})


def _nested(shape: Shape, shardings: Any) -> Any:
    """Take a sharding for each leaf of `shape` from an iterator, and nest them like `shape`.

    A token takes a sharding too, but has None in the result.
    """
    if isinstance(shape, TupleShape):
        return tuple(_nested(element, shardings) for element in shape.elements)
    sharding = next(shardings)
    return None if isinstance(shape, TokenShape) else sharding
