"""PartitionedExecutable: a program that XLA has cut up over several devices.

The caller sees one program, whose arguments and results are whole arrays that lie in shards on the
devices. Everything is checked before it executes: with several devices jaxlib dies of an array in
another sharding, or over the same devices in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import compress, filterfalse
from typing import Any, Final

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from builder.sharding.tiling import Tiling, parse_tiling
from builder.types.shape import ArrayShape, Shape, TokenShape, TupleShape, leaves
from lowering.errors import CompileError, ExecutionError
from lowering.host.callbacks import raise_failure, shared_failure
from lowering.jaxlib_api import array_layouts, execution, jax_arrays
from lowering.legalize.agreement import Disagreement
from lowering.mlir.flattening import leaf_paths
from lowering.pjrt.devices import is_local, sharding_of
from lowering.running.arguments import Arguments, Leaf, passed_shape
from lowering.running.failures import must_wait, raise_execution_error
from lowering.running.launch_order import LAUNCH
from lowering.running.program import CompiledProgram, ProgramInfo
from lowering.running.results import result_packer
from lowering.running.shards import ShardedTarget, is_equivalent, named_shardings
from lowering.sharding.partitioning import Partitioning, partition_counts

__all__ = ["PartitionedExecutable"]

_aval_of: Final = jax_arrays.aval_of
_is_deleted: Final = jax_arrays.is_deleted
_layout_of: Final = array_layouts.layout_of
_sharding_of: Final = jax_arrays.sharding_getter()


class PartitionedExecutable(CompiledProgram):
    """A computation cut up over several devices, which `lowering.compile` makes when it is asked
    for several partitions and something in the computation has a sharding.

    Call it with one argument for each parameter, in order or by the parameters' names. Arguments
    are whole arrays, of the parameters' own shapes:

    - a NumPy array or scalar, or an object with ``__dlpack__``, which is cut up and copied to the
      devices; a Python number for a scalar parameter;
    - a jax.Array that is cut up as the program takes it, which is used as it is. One that lies
      elsewhere is refused: ``jax.device_put(array, executable.parameter_shardings["x"])`` moves it;
    - a tuple or list, nested as the parameter is, for a tuple parameter; None for a token.

    A parameter without a sharding is taken whole on every device. The results are jax.Arrays with
    a NamedSharding, nested as the computation's root is: ``numpy.asarray(result)`` is the whole
    array. Results without a sharding are cut up as XLA finds best; `result_shardings` says how.

    Where several processes compute together, all of them call their executables in the same order,
    with jax.Arrays over all devices, or with equal NumPy arrays, of which each puts its own shards.

    Attributes:
        name: the computation's name.
        program_shape: parameters and result, of the whole arrays.
        devices: the jax.Devices: that of partition 0, that of partition 1, and so on.
        parameter_shardings: by name how each parameter is taken: a jax NamedSharding, nested as the
            parameter is; None for a token.
        result_shardings: the same for the result.

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
        "_arguments",
        "_avals",
        "_disagreements",
        "_failure",
        "_flat",
        "_has_layout",
        "_layouts",
        "_pack",
        "_parts",
        "_run",
        "_shardings",
        "_types",
        "_waits",
        "parameter_shardings",
        "result_shardings",
    )

    def __init__(self, loaded: Any, info: ProgramInfo, devices: Sequence[jax.Device]) -> None:
        super().__init__(loaded, info, devices)
        parameters, results = info.shape.parameters, info.shape.result
        entered = [leaf for parameter in parameters for leaf in leaves(parameter)]
        left = list(leaves(results))
        taken, given = _tilings(loaded, info, len(entered), len(left))
        shapes = list(map(passed_shape, (*entered, *left)))
        _check(info, shapes, [*taken, *given])
        shardings = named_shardings(
            [*taken, *given],
            [shape.rank for shape in shapes],
            self.devices,
            info.partitioning or Partitioning(is_shardy=False),
        )
        targets = [
            ShardedTarget(shape, sharding, self.devices)
            for shape, sharding in zip(shapes, shardings, strict=True)
        ]
        named = iter(shardings)
        self.parameter_shardings = {
            name: _nested(parameter, named)
            for name, parameter in zip(info.shape.parameter_names, parameters, strict=True)
        }
        self.result_shardings = _nested(results, named)
        self._arguments = _ShardedArguments(info, targets[: len(entered)])
        expected = self._arguments.leaves
        self._types = [jax_arrays.array_type] * len(expected)
        self._avals = [leaf.aval for leaf in expected]
        self._shardings: list[Any] = shardings[: len(expected)]
        self._has_layout = [leaf.layout is not None for leaf in expected]
        self._layouts = [leaf.layout for leaf in expected if leaf.layout is not None]
        self._flat = not any(isinstance(p, TupleShape) for p in parameters)
        self._pack = result_packer(results)
        count = len(entered)
        self._waits = must_wait(info, loaded, next(filter(is_local, self.devices)))
        self._failure = shared_failure(info.callbacks)
        self._disagreements = [c for c in info.callbacks if isinstance(c, Disagreement)]
        self._run: Callable[[list[Any]], list[Any]] | None = None
        if all(target.in_order for target in targets) and not self._waits:
            handlers = [
                execution.result_handler(target.aval, target.sharding) for target in targets[count:]
            ]
            self._run = execution.runner(loaded, handlers)
        self._parts = _PartByPart(
            loaded, info.donated, targets[:count], targets[count:], self.devices
        )

    def __call__(self, /, *args: Any, **by_name: Any) -> Any:
        """Executes the computation; see the class for what arguments may be.

        Raises:
            ArgumentError: the arguments are not those that the computation takes.
            ExecutionError: the devices go different ways around an operation across them; a Python
                function or a registered one failed; there was not enough memory.
        """
        return self._go(self._take(args, by_name))

    def _take(self, args: tuple[Any, ...], by_name: Mapping[str, Any]) -> Any:
        if by_name:
            args = self._arguments.in_order(args, by_name)
        arrays: Any = args if self._flat else self._arguments.flattened(args)
        # Arrays that are right are looked at all together, one property after the other: 0.4 us an
        # argument, against 0.6 us in a loop. What is equal is one object, as a rule, which lists
        # are compared by first. A deleted array that is asked for its layout ends the process in
        # jaxlib 0.10.
        if not (
            [*map(type, arrays)] == self._types
            and [*map(_aval_of, arrays)] == self._avals
            and (shardings := [*map(_sharding_of, arrays)]) == self._shardings
            and not any(map(_is_deleted, arrays))
            and (
                not self._layouts
                or [*map(_layout_of, filterfalse(_is_deleted, compress(arrays, self._has_layout)))]
                == self._layouts
            )
        ):
            arrays = self._arguments.on_device(arrays, len(args))
            # What was found to be right is taken quickly when it comes again: jax describes one
            # array in several ways, and NamedShardings over meshes of other axes can be the same.
            shardings = [*map(_sharding_of, arrays)]
            self._avals = [*map(_aval_of, arrays)]
        self._shardings = shardings
        return arrays

    def _go(self, arrays: Any) -> Any:
        if self._arguments.donated:
            self._arguments.check_given_once(arrays)
        try:
            if self._failure is None:
                results = self._launch(arrays)
            else:
                results = self._failure.carried(lambda: self._launch(arrays))
        except RuntimeError as error:
            for one in self._disagreements:
                if one.noticed:
                    one.noticed = False
                    raise ExecutionError(one.message, op=one.op, detail=str(error)) from None
            raise_failure(error)
            raise_execution_error(error, self._info, self._loaded, f"{len(self.devices)} devices")
            raise
        return self._pack(results)

    def _launch(self, arrays: list[Any]) -> list[Any]:
        """Executes the program; waits for its end if it can fail."""
        if self._run is not None:
            with LAUNCH:
                return self._run(arrays)
        with LAUNCH:
            results, wait = self._parts(arrays)
        if self._waits:
            wait()
        return results

    def __repr__(self) -> str:
        return (
            f"<PartitionedExecutable {self.name!r} {self.program_shape} on {len(self.devices)} "
            f"devices>"
        )


class _ShardedArguments(Arguments):
    """The arguments of a program that is cut up: whole arrays, in shards."""

    __slots__ = ()

    def __init__(self, info: ProgramInfo, targets: Sequence[ShardedTarget]) -> None:
        device = targets[0].device if targets else None
        where: Any = None if device is None else sharding_of(device)
        super().__init__(info, where, targets=targets)

    # What is given is the same as of other arguments; here it has no say.
    def is_taken_as_it_is(self, value: Any, leaf: Leaf) -> bool:  # noqa: ARG002
        return False  # that was asked already, of all of them together

    def check_place(self, value: jax.Array, leaf: Leaf) -> None:
        sharding = leaf.target.sharding
        given = value.sharding
        if given.memory_kind != sharding.memory_kind:
            raise self.refused(
                leaf,
                f"one in memory of kind {given.memory_kind!r}",
                self._moved(leaf),
                wanted=f"in memory of kind {sharding.memory_kind!r}",
            )
        if not is_equivalent(given, sharding, value.ndim):
            raise self.refused(
                leaf,
                f"one {_where(given)}",
                self._moved(leaf),
                wanted=_where(sharding),
            )

    def _moved(self, leaf: Leaf) -> str:
        return (
            f"jax.device_put(array, executable.parameter_shardings[{leaf.name!r}]{leaf.path}), "
            f"or a NumPy array"
        )


def _where(sharding: Any) -> str:
    """How an array lies, for messages."""
    devices = sorted(sharding.device_set, key=lambda one: int(one.id))
    if len(devices) == 1:
        return f"whole on {devices[0]}"
    if not isinstance(sharding, NamedSharding):
        return f"in {sharding}"
    there = [str(one.id) for one in sharding.mesh.devices.flat]
    on = ", ".join(there[:16]) + (", ..." if len(there) > 16 else "")
    if sharding.is_fully_replicated:
        return f"whole on each of devices {on}"
    axes = ", ".join(f"{name}={size}" for name, size in sharding.mesh.shape.items())
    return f"cut up as {sharding.spec} over a mesh {axes} of devices {on}"


class _PartByPart:
    """Executes a program with arrays taken apart and put together, and can be waited for.

    Arrays may be dealt out in another order than the devices have; jaxlib takes and gives their
    shards in the order of the devices.
    """

    def __init__(
        self,
        loaded: Any,
        donated: frozenset[int],
        taken: Sequence[ShardedTarget],
        given: Sequence[ShardedTarget],
        devices: Sequence[jax.Device],
    ) -> None:
        self._execute = execution.sharded_runner(loaded, wait=True)
        self._local = [device for device in devices if is_local(device)]
        spec: Any = PartitionSpec
        self._whole = NamedSharding(Mesh(np.array(devices), ("device",)), spec())
        self._taken = taken
        self._given = given
        self._donated = donated

    def __call__(self, arrays: Sequence[jax.Array]) -> tuple[list[Any], Callable[[], None]]:
        passed = [
            jax_arrays.assemble(target.shard, self._whole, self._shards(array))
            for array, target in zip(arrays, self._taken, strict=True)
        ]
        results, wait = self._execute(passed)
        for number in self._donated:
            arrays[number].delete()
        return [
            self._assembled(dict(zip(self._local, shards, strict=True)), target)
            for shards, target in zip(results, self._given, strict=True)
        ], wait

    def _shards(self, array: jax.Array) -> list[jax.Array]:
        found = {shard.device: shard.data for shard in array.addressable_shards}
        return [found[device] for device in self._local]

    def _assembled(self, shards: dict[Any, jax.Array], target: ShardedTarget) -> jax.Array:
        there = [shards[device] for device in target.local_devices]
        made: jax.Array = jax_arrays.assemble(target.aval, target.sharding, there)
        return made


def _tilings(
    loaded: Any, info: ProgramInfo, entered: int, left: int
) -> tuple[list[Tiling], list[Tiling]]:
    """How XLA takes arguments and gives results."""
    taken = [*map(parse_tiling, array_layouts.parameter_tilings(loaded) or [])]
    given = [*map(parse_tiling, array_layouts.result_tilings(loaded) or [])]
    if not left:
        given = []  # of which XLA says how the empty tuple is cut up
    if len(taken) != entered or len(given) != left:
        raise CompileError(
            f"compile: jaxlib does not tell how XLA has cut up {info.name}: it has {entered} "
            f"arguments and {left} results, and of {len(taken)} and {len(given)} it tells"
        )
    return taken, given


def _check(info: ProgramInfo, shapes: Sequence[ArrayShape], tilings: Sequence[Tiling]) -> None:
    """Raises CompileError for what can't be a jax.Array."""
    places = [
        f"parameter {name}{path}"
        for name, parameter in zip(info.shape.parameter_names, info.shape.parameters, strict=True)
        for path in leaf_paths(parameter)
    ]
    places += [f"the result{path}" for path in leaf_paths(info.shape.result)]
    for place, shape, tiling in zip(places, shapes, tilings, strict=True):
        reason = ""
        fix = "say how it is cut up: with a sharding of its own"
        counts = partition_counts(tiling)
        if counts is None:
            if tiling.kind == "manual":
                fix = "put the parts together: xb.spmd_shard_to_full_shape(x, full_shape, tiling)"
            reason = "which no array that enters or leaves a program can have"
        elif any(size % n for size, n in zip(shape.dimensions, counts, strict=False)):
            reason = "whose shards are not all of one size"
        if reason:
            raise CompileError(
                f"compile: {place} of {info.name}, {shape}, has got the sharding {tiling.text}, "
                f"{reason}\nfix: {fix}",
                shapes={place: shape},
            )


def _nested(shape: Shape, shardings: Any) -> Any:
    """The next shardings, nested as a parameter or the result is."""
    if isinstance(shape, TupleShape):
        return tuple(_nested(one, shardings) for one in shape.elements)
    found = next(shardings)
    return None if isinstance(shape, TokenShape) else found
