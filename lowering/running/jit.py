"""lowering.jit: Python functions of XlaOps, compiled for the arguments of their calls.

A function is recorded once for each structure, each set of shapes and each set of static values of
its arguments, and compiled once for each device.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MethodType
from typing import Any, Final, Literal, overload

import jax
import numpy as np

from builder.errors import ConstantError, OperandError, XlaError, brief, error_of, statement_of
from builder.graph.calls import explained
from builder.graph.computation import XlaComputation
from builder.graph.recording import resolve_builder, rollback_on_error
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.inspection.parts import Column, Heading, Part, TextTable
from builder.inspection.table import count_text
from builder.ops.control_flow import call as record_call
from builder.support.arguments import is_function
from builder.support.display import Displayed
from builder.support.frames import remove_internal_frames
from builder.support.imports import extension
from builder.support.names import ExplainsAttributes
from builder.types.constant import default_element_type, scalar_array, wider_number
from builder.types.shape import UNBOUNDED, ArrayShape, Shape, array_shape, intern_array
from lowering.errors import ArgumentError, CompileError
from lowering.jaxlib_api import execution, jax_arrays
from lowering.pjrt.devices import DeviceLike, device_argument
from lowering.pjrt.host_arrays import copy_numpy
from lowering.pjrt.placement import device_put
from lowering.running.compiling import compile
from lowering.running.executable import Executable, LoadedExecutable, executable_for
from lowering.running.jit_arguments import (
    NUMBERS,
    OpenSizes,
    Signature,
    TreeError,
    as_numpy,
    declared_shape,
    descriptions,
    element_types,
    flatten,
    flatten_dataclasses,
    leaf_names,
    mismatch,
    shape_of,
)
from lowering.running.jit_cache import (
    MOST_KEPT,
    Call,
    Entry,
    JitCache,
    JitCacheInfo,
    Recording,
    record,
)
from lowering.running.jit_devices import (
    DeviceCounts,
    PlacementError,
    devices_of,
    local_count,
    on_devices,
    placement_of,
    read_counts,
    split_lists,
)
from lowering.running.options import Parameters, read_options
from lowering.running.partitioned import PartitionedExecutable
from lowering.running.replicated import ReplicatedExecutable
from lowering.stablehlo.lower import lower
from lowering.stablehlo.module import StablehloModule

_JaxArray: Final = jax_arrays.array_type


_TRANSLATED: Final = (RuntimeError, TypeError, ValueError, SystemError)
"""The classes of jaxlib's errors that may become errors of this library."""


class JittedFunction(Displayed, ExplainsAttributes):
    """A function of XlaOps that is called with arrays. `lowering.jit` creates it.

    A call with arrays, in any trees of jax.tree_util, executes the recorded function on a device,
    and returns arrays in the tree that the function returns. A call with XlaOps, while a
    computation is being recorded, records a call of the function's computation; arrays among the
    arguments become constants. In jax.jit, jax.grad, jax.vmap and other transformations of jax, a
    call evaluates the computation by `to_jax`; the function's device and options do not apply.

    Attributes:
        function: the Python function.
        name: the name of the function and of its computations.
    """

    def __init__(
        self,
        signature: Signature,
        device: DeviceLike,
        options: Mapping[str, Any] | None,
        counts: DeviceCounts,
    ) -> None:
        self.function = function = signature.function
        self.name = signature.name
        self._signature = signature
        self._device = device
        self._options = options
        self._counts = counts
        self._cache = JitCache(self.name)
        self._direct = self._call = self._caller()
        functools.update_wrapper(self, function, updated=())

    def __call__(self, /, *args: Any, **by_name: Any) -> Any:
        """Return the function's result for these arguments.

        The static type is Any: arguments and results are nested like the function's, with arrays
        instead of XlaOps, which no type variable expresses.

        Raises:
            ArgumentError: the arguments do not match the function's signature, are not arrays, or
                are on different devices.
            XlaError: an op of the function can't be recorded, lowered or compiled.
        """
        try:
            return self._call(*args, **by_name)
        except Exception as error:
            # Raised by the program, by flattening the arguments, or by the function itself.
            if isinstance(error, _TRANSLATED) and not isinstance(error, XlaError):
                self._raise_translated(error, args, by_name)
            remove_internal_frames(error)
            raise

    def _call_with_copies(self, /, *args: Any, **by_name: Any) -> Any:
        """Call the function after a call with NumPy arrays, as this one is likely to have some.

        It saves jaxlib's look-up of the caller's arrays, as in `direct_call`.
        """
        caller = None if by_name else self._cache.callers.get(((), len(args)))
        copies = None if caller is None else copy_numpy(args)
        if caller is None or copies is None or copies is args:
            self._call = self._direct
            return self._direct(*args, **by_name)
        return caller(*copies)

    def _call_uncached(
        self, static: tuple[Any, ...], static_key: tuple[Any, ...], /, *args: Any, **by_name: Any
    ) -> execution.Missed:
        """Call the function for arguments that are not in the cache of jaxlib's function.

        Args:
            static, static_key: the static arguments and their key from `Signature.bind`; empty if
                there are none.
            args, by_name: the other arguments. `Signature.bind` has bound them already if there are
                static arguments.
        """
        callers = self._cache.callers
        signature = self._signature
        flat_key = static_key, len(args)
        if not by_name and (caller := callers.get(flat_key)) is not None:
            copies = copy_numpy(args)
            if copies is not None and copies is not args:
                if self._call is self._direct and not signature.has_static:
                    self._call = self._call_with_copies
                return caller(*copies), None, False
        passed = None
        positional = args
        if by_name or (len(args) != signature.count and not signature.has_static):
            passed = len(args), tuple(by_name)
            args, static, static_key = signature.bind(args, by_name)
        nested: Any = args
        try:
            leaves, tree = flatten(args)
        except (TypeError, ValueError, RecursionError, SystemError):
            nested, leaves, tree = self._flatten(args)  # raises an ArgumentError with the reason
        arrays = copy_numpy(leaves)
        if arrays is leaves and (passed is None or signature.keeps_order(*passed)):
            return self._call_flat(Call(nested, leaves, tree, static, static_key))
        if arrays is None:  # there are dataclasses, or values that are not arrays
            nested, leaves, tree = self._flatten(args)
            arrays = copy_numpy(leaves)
            if arrays is None:
                call = Call(nested, leaves, tree, static, static_key)
                return self._call_flat(call)[0], None, False
        caller = callers.get((static_key, tree)) or self._flat_caller(static, static_key, tree)
        result = caller(*arrays)
        if not by_name and list(map(id, leaves)) == list(map(id, positional)):
            # Arrays that are passed by position in this number always have this structure.
            self._cache.caller(flat_key, lambda: caller)
        return result, None, False

    def _call_flat(self, call: Call) -> execution.Missed:
        """Call the function with flattened arguments."""
        try:
            entry = self._cache.quick.get((call.tree, call.static_key, descriptions(call.leaves)))
        except (TypeError, ValueError, RecursionError, SystemError):
            entry = None
        if entry is None:  # not in the handler: an error of the function has no context
            return self._record_and_run(call)
        executable = entry.executable
        # The last executable runs on the right device if that device was requested, is the default
        # one, or can be checked against an argument that is committed to a device.
        if executable is not None and (
            self._device is not None
            or executable.device is device_argument(self.name, None)
            or any(type(leaf) is _JaxArray and leaf.committed for leaf in call.leaves)
        ):
            try:
                return _run_executable(entry, executable, call.leaves)
            except ArgumentError:  # an argument is on another device
                pass
        return self._run(entry, call)

    def _raise_translated(
        self, error: Exception, args: tuple[Any, ...], by_name: Mapping[str, Any]
    ) -> None:
        """Raise the error of this library for an error of jaxlib; return if there is none."""
        bound, _, static_key = self._signature.bind(args, by_name)
        _, leaves, tree = self._flatten(bound)
        try:
            entry = self._cache.quick.get((tree, static_key, descriptions(leaves)))
        except (TypeError, ValueError):  # metadata of the user's classes can't be compared
            return
        if (
            isinstance(error, (RuntimeError, ValueError))
            and entry is not None
            and entry.executable is not None
        ):
            executable_for(entry.executable, leaves)._raise_translated(error, leaves)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<JittedFunction {self.name!r}, {self._cache.info().kept} computations>"

    def _parts(self) -> list[Part]:
        info = self._cache.info()
        recorded = count_text(info.recorded, "recording")
        counts = f"{recorded}, {count_text(info.compiled, 'compilation')}"
        rows = [
            [
                str(recording.computation.program_shape),
                f"{len(recording.computation.ops):,}",
                ", ".join(f"{device.platform}:{device.id}" for device in devices),
            ]
            for recording, devices in self._cache.recorded()
        ]
        columns = (Column("recorded for"), Column("ops", is_number=True), Column("compiled for"))
        heading = Heading("JittedFunction", self.name, counts)
        return [heading, TextTable("", columns, rows)] if rows else [heading]

    def computation(self, /, *args: Any, **by_name: Any) -> XlaComputation:
        """Return the computation that the function records for these arguments.

        Args:
            args, by_name: the arguments of a call; a shape, such as ``xb.f32[2, 3]``, or a
                jax.ShapeDtypeStruct may replace any array.

        Returns:
            A computation with a parameter for each array in the arguments, named by its path. Its
            result is a tuple of the arrays in the function's result, or the array if there is
            exactly one. ``lowering.compile(computation)`` is called like the function, without the
            static arguments, also after the computation was saved to a file; see `lowering.load`.

        Raises:
            ArgumentError, XlaError: as for a call.

        Example:
            >>> import builder as xb, lowering
            >>> step = lowering.jit(lambda state, x: {"w": state["w"] + x}, name="step")
            >>> step.computation({"w": xb.f32[3]}, xb.f32[3]).program_shape
            (state['w']: f32[3], x: f32[3]) -> f32[3]
        """
        return self._recorded(self._bound(args, by_name), allow_shapes=True)[1].computation

    def lower(self, /, *args: Any, **by_name: Any) -> StablehloModule:
        """Return the StableHLO module of `computation`; its file keeps the nesting of arguments.

        Raises:
            ArgumentError, XlaError: as for a call.
        """
        return lower(self.computation(*args, **by_name))

    def compile(
        self, /, *args: Any, **by_name: Any
    ) -> Executable | ReplicatedExecutable | PartitionedExecutable:
        """Return the executable of `computation`. Later calls with equal shapes use the executable.

        It is called like the function, without the static arguments; see `Executable`.

        Raises:
            ArgumentError, XlaError: as for a call.
        """
        call = self._bound(args, by_name)
        entry, _ = self._recorded(call, allow_shapes=True)
        devices = [self._device_for(call)] if call.placement is None else call.placement.devices
        executable: LoadedExecutable = executable_for(
            self._executable(entry, devices), call.columns or call.leaves
        )
        return executable

    def cache_info(self) -> JitCacheInfo:
        """Return how often the function was recorded and compiled, and the size of its cache."""
        return self._cache.info()

    def cache_clear(self) -> None:
        """Remove all recordings and executables from the cache."""
        self._cache.clear()
        self._direct = self._call = self._caller()

    # Callers

    def _caller(self) -> Callable[..., Any]:
        """Return the function that executes calls; `__call__` delegates to it."""
        if not self._counts.is_default:
            return self._call_on_devices
        if self._signature.has_static:
            return self._call_with_static
        return self._tree_caller((), ())

    def _tree_caller(self, static: tuple[Any, ...], key: tuple[Any, ...]) -> Callable[..., Any]:
        """Return a jaxlib function that calls Python only for arguments of a new signature."""
        on_miss = functools.partial(self._call_uncached, static, key)
        return execution.tree_caller(self.name, MOST_KEPT, on_miss)

    def _call_with_static(self, /, *args: Any, **by_name: Any) -> Any:
        """Call the jaxlib function for the values of the static arguments.

        Each set of static values has its own jaxlib function. A single function would compare
        static values by ==, which equates 1 and True.
        """
        dynamic, static, key = self._signature.bind(args, by_name)
        caller = self._cache.callers.get(key)
        if caller is None:
            caller = self._cache.caller(key, lambda: self._tree_caller(static, key))
        return caller(*dynamic)

    def _flat_caller(
        self, static: tuple[Any, ...], key: tuple[Any, ...], tree: Any
    ) -> Callable[..., Any]:
        """Return a jaxlib function of the flattened arrays in arguments of one structure.

        This function is used for arguments that jaxlib can't flatten, because they contain
        dataclasses, and for NumPy arrays. jaxlib transfers NumPy arrays fastest when it executes a
        program. But jaxlib may read their memory while the program runs, and converts 64-bit
        elements to 32 bits if jax's x64 flag is off. So jaxlib receives copies of NumPy arrays, and
        none with 64-bit elements (`copy_numpy`).
        """

        def on_miss(*arrays: Any) -> execution.Missed:
            return self._call_flat(Call(*self._flatten(tree.unflatten(arrays)), static, key))

        return self._cache.caller(
            (key, tree), lambda: execution.tree_caller(self.name, MOST_KEPT, on_miss)
        )

    # Running

    def _record_and_run(self, call: Call) -> execution.Missed:
        """Call the function as `_call_flat` does, if the cache `quick` has no entry for a call."""
        # Raises if the arguments can't be compared.
        call = Call(*self._flatten(call.nested), call.static, call.static_key)
        if any(type(leaf) is XlaOp for leaf in call.leaves):
            return self._record_call(call), None, False
        if any(isinstance(leaf, jax.core.Tracer) for leaf in call.leaves):
            return self._trace_call(call), None, False
        entry, _ = self._recorded(call)
        result = self._run(entry, call)
        described = descriptions(call.leaves)
        if None not in described:
            self._cache.add_quick((call.tree, call.static_key, described), entry)
        return result

    def _trace_call(self, call: Call) -> Any:
        """Evaluate the function's computation with jax, which is tracing or transforming a call."""
        entry, recording = self._recorded(call, allow_shapes=True)
        if entry.of_tracers is None:
            entry.of_tracers = extension(
                "lowering.jax_interop.to_jax", "to_jax", recording.computation
            )
        return recording.nested(entry.of_tracers(*call.leaves))

    def _run(self, entry: Entry, call: Call) -> execution.Missed:
        """Execute an entry's recording on the call's device."""
        device = self._device_for(call)
        entry.executable = executable = self._executable(entry, [device])
        # Uncommitted arrays are copied to the device, as in jax.
        devices = {device}
        leaves = [
            device_put(leaf, device)
            if type(leaf) is _JaxArray
            and not leaf.committed
            and not leaf.is_deleted()
            and leaf.sharding.device_set != devices
            else leaf
            for leaf in call.leaves
        ]
        result, data, _ = _run_executable(entry, executable, leaves)
        is_same = all(a is b for a, b in zip(leaves, call.leaves, strict=True))
        return result, data if is_same else None, False

    def _device_for(self, call: Call) -> jax.Device:
        """Return the device of a call.

        It is the device passed to `jit`; without one, the device that the arguments are committed
        to; without committed arguments, jax's default device.
        """
        if self._device is not None:
            return device_argument(self.name, self._device)
        committed: dict[jax.Device, int] = {}
        for number, leaf in enumerate(call.leaves):
            if type(leaf) is not _JaxArray or not leaf.committed:
                continue
            devices = leaf.sharding.device_set
            if len(devices) > 1:
                raise self._refusal(
                    call,
                    number,
                    f"on one device, got an array on {len(devices)} devices",
                    f"pass num_partitions={len(devices)} to lowering.jit",
                )
            committed.setdefault(next(iter(devices)), number)
        if len(committed) > 1:
            names = self._names(call)
            (first, first_number), (second, number), *_ = committed.items()
            raise ArgumentError(
                "the arguments must be on one device",
                got=f"\n  {names[first_number]} on {first}\n  {names[number]} on {second}",
                fix="copy the arrays to one device with lowering.device_put(array, device)",
                computation=self.name,
                argument=number,
                name=names[number],
            )
        return next(iter(committed), None) or device_argument(self.name, None)

    def _executable(self, entry: Entry, devices: Sequence[jax.Device]) -> Any:
        """Return the executable of an entry's recording for the devices of a call.

        Raises:
            CompileError: the arrays are global, and nothing in the program has a sharding.
        """
        counts = self._counts

        def make(recording: Recording) -> Any:
            executable = compile(
                recording.computation,
                num_replicas=counts.num_replicas,
                num_partitions=counts.num_partitions,
                devices=devices,
                results=counts.results,
                options=self._options,
            )
            if not counts.has_own_arrays and not isinstance(executable, PartitionedExecutable):
                raise error_of(
                    CompileError,
                    self.name,
                    "XLA partitions a program by its shardings",
                    "pass an array of jax.device_put(array, sharding), or use xb.with_sharding in "
                    "the function; or pass num_replicas if each device has arrays of its own",
                    got=f"num_partitions={counts.num_partitions} and no sharding in the arguments "
                    "and the function",
                )
            return executable

        return self._cache.executable(entry, devices[0], make)

    def _call_on_devices(self, /, *args: Any, **by_name: Any) -> Any:
        """Call the function on several devices, or record a call with XlaOps."""
        call = self._bound(args, by_name)
        if call.placement is None:
            return self._record_call(call)
        entry, recording = self._recorded(call)
        executable = self._executable(entry, call.placement.devices)
        columns = call.columns
        if isinstance(executable, PartitionedExecutable):
            columns = list(map(on_devices, columns, executable.parameter_shardings.values()))
        result = executable_for(executable, columns)._run_flat(columns)
        if self._counts.has_own_arrays and self._counts.results == "list":
            return [recording.nested(each) for each in result]
        return recording.nested(result)

    # Arguments

    def _bound(self, args: tuple[Any, ...], by_name: Mapping[str, Any]) -> Call:
        """Return the arguments of a call; on several devices, also their places.

        Raises:
            ArgumentError: an argument is not on the devices of the call.
        """
        dynamic, static, key = self._signature.bind(args, by_name)
        call = Call(*self._flatten(dynamic), static, key)
        columns = call.leaves
        if self._counts.is_default or any(type(leaf) is XlaOp for leaf in columns):
            return call
        try:
            devices = devices_of(self.name, self._counts, self._device, columns)
            if self._counts.has_own_arrays:
                names = self._signature.names
                nested, columns = split_lists(call.nested, names, local_count(devices))
                call = Call(nested, *flatten(nested), static, key)
            placement, rows = placement_of(self._counts, devices, columns)
        except PlacementError as error:
            raise self._refusal(call, error.place, error.rule, error.fix) from None
        return call._replace(columns=columns, placement=placement, rows=rows)

    def _names(self, call: Call) -> list[str]:
        return leaf_names(call.nested, self._signature.names)

    def _flatten(self, args: tuple[Any, ...]) -> tuple[Any, list[Any], Any]:
        """Flatten the arguments of a call; numbers and foreign arrays become NumPy arrays."""
        try:
            nested, leaves, tree = flatten_dataclasses(args)
        except TreeError as error:
            rule = f"{self._invalid_tree(args)}{error.reason}"
            raise ArgumentError(rule, computation=self.name, fix=error.fix) from error.__cause__
        leaves = list(map(as_numpy, leaves))
        if not NUMBERS.isdisjoint(map(type, leaves)):
            leaves = self._numbers_as_arrays(nested, leaves)
        return nested, leaves, tree

    def _numbers_as_arrays(self, nested: Any, leaves: list[Any]) -> list[Any]:
        """Return the leaves, with Python numbers converted to arrays of rank 0.

        Raises:
            ArgumentError: the element type can't represent a number.
        """
        types = element_types(leaves)
        arrays = list(leaves)
        for number, leaf in enumerate(leaves):
            if type(leaf) not in NUMBERS:
                continue
            element_type = default_element_type(leaf, types)
            try:
                arrays[number] = scalar_array(leaf, element_type)
            except ConstantError as error:
                raise self._refusal(
                    Call(nested, leaves, None, (), ()),
                    number,
                    f"a number that {element_type} represents, got {brief(leaf)}: {error.reason}",
                    f"pass a NumPy number, such as {wider_number(leaf)}",
                ) from None
        return arrays

    def _invalid_tree(self, args: tuple[Any, ...]) -> str:
        """Return "argument NAME: " for an argument that can't be flattened; "" if none is found."""
        for name, value in zip(self._signature.names, args, strict=True):
            try:
                flatten_dataclasses(value)
            except TreeError:
                return f"argument {name}: "
        return ""

    def _shapes(self, call: Call, *, allow_shapes: bool) -> tuple[Shape, ...]:
        """Return the shapes of arguments on each device.

        Raises:
            ArgumentError: a leaf is neither an array nor (if `allow_shapes` is true) a shape.
        """
        shapes: list[Shape] = []
        for number, leaf in enumerate(call.leaves):
            shape: Shape | None = shape_of(leaf)
            if shape is None and allow_shapes:
                shape = declared_shape(leaf)
            if shape is None:
                raise self._refusal(call, number, *self._mismatch(call, number))
            if number in call.rows:
                assert isinstance(shape, ArrayShape)  # of a jax.Array
                shape = intern_array(shape.element_type, shape.dimensions[1:])
            shapes.append(shape)
        opened = self._signature.open_sizes
        for number, position in self._signature.leaves_of(call.nested, opened).items():
            shapes[number] = self._opened(call, number, shapes[number], opened[position])
        return tuple(shapes)

    def _opened(
        self, call: Call, number: int, shape: Shape, dimensions: tuple[int, ...]
    ) -> ArrayShape:
        """Return the shape of a leaf with unbounded sizes in `dimensions`.

        Raises:
            ArgumentError: the leaf does not have these dimensions.
        """
        if not isinstance(shape, ArrayShape) or max(dimensions) >= shape.rank:
            rule = f"an array with dimension {max(dimensions)}, which is in open_sizes, got {shape}"
            raise self._refusal(call, number, rule, "remove the argument from open_sizes")
        sizes = [UNBOUNDED if n in dimensions else size for n, size in enumerate(shape.dimensions)]
        return array_shape(shape.element_type, sizes)

    def _mismatch(self, call: Call, number: int) -> tuple[str, str]:
        name = self._names(call)[number]
        return mismatch(call.leaves[number], name, is_argument=name in self._signature.names)

    def _refusal(self, call: Call, place: int | str, rule: str, fix: str) -> ArgumentError:
        """Return the error for a leaf, by its number or its name."""
        number = place if isinstance(place, int) else None
        name = place if isinstance(place, str) else self._names(call)[place]
        return ArgumentError(
            f"argument {name} must be {rule}",
            fix=fix,
            computation=self.name,
            argument=number,
            name=name,
        )

    # Recording

    def _recorded(self, call: Call, *, allow_shapes: bool = False) -> tuple[Entry, Recording]:
        """Return the cache entry and the recording for the arguments of a call.

        Raises:
            ArgumentError: a leaf is neither an array nor (if `allow_shapes` is true) a shape.
        """
        shapes = self._shapes(call, allow_shapes=allow_shapes)
        entry = self._cache.entry(call.key(shapes))
        try:
            return entry, self._cache.recording(
                entry, lambda: record(self._signature, call, shapes)
            )
        except PlacementError as error:
            raise self._refusal(call, error.place, error.rule, error.fix) from None

    # Calls in other computations

    def _record_call(self, call: Call) -> Any:
        """Record a call of the function in the computation that the XlaOp arguments belong to."""
        leaves = call.leaves
        builder = resolve_builder("jit", *[leaf for leaf in leaves if type(leaf) is XlaOp])
        with rollback_on_error(builder):
            operands = [
                leaf if type(leaf) is XlaOp else self._constant(builder, call, number)
                for number, leaf in enumerate(leaves)
            ]
            shapes = tuple([operand.shape for operand in operands])
            captured: list[XlaOp] = []
            recording = self._cache.recording(
                self._cache.entry(call.key(shapes)),
                lambda: record(self._signature, call, shapes, builder, captured),
            )
            result = record_call(recording.computation, *operands, *captured)
            count = recording.results.num_leaves
            return recording.nested(
                [result[i] for i in range(count)] if recording.is_tuple else result
            )

    def _constant(self, builder: XlaBuilder, call: Call, number: int) -> XlaOp:
        """Return the constant for an array that is passed together with XlaOps."""
        leaf = call.leaves[number]
        is_array = isinstance(leaf, (np.ndarray, np.generic, jax.Array))
        if is_array and not isinstance(leaf, (np.ma.MaskedArray, jax.core.Tracer)):
            try:
                return builder.constant(leaf)
            except ConstantError as error:
                reason = statement_of(error, error.context)
                rule = f"an array of numbers if other arguments are XlaOps: {reason}"
                fix = error.fix or "pass a NumPy array of numbers"
        else:
            rule, fix = self._mismatch(call, number)
        raise self._refusal(call, number, rule, fix)


_error: Final = functools.partial(error_of, OperandError, "jit")


def _run_executable(entry: Entry, executable: Any, leaves: Sequence[Any]) -> execution.Missed:
    """Execute an entry's program for the leaves of the arguments."""
    recording = entry.recording
    assert recording is not None  # recorded first
    executable = executable_for(executable, leaves)
    result, is_direct = executable._run_flat(leaves)
    data = None
    if is_direct:
        from_host = not all(type(leaf) is _JaxArray for leaf in leaves)
        data = executable._call_data(recording.results, from_host=from_host)
    return recording.nested(result), data, False


@overload
def jit(
    function: Callable[..., Any],
    *,
    donate: Parameters = (),
    device: DeviceLike = None,
    num_replicas: int = 1,
    num_partitions: int = 1,
    results: Literal["list", "sharded"] = "list",
    static: Parameters = (),
    open_sizes: OpenSizes = None,
    options: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> JittedFunction: ...


@overload
def jit(
    function: None = None,
    *,
    donate: Parameters = (),
    device: DeviceLike = None,
    num_replicas: int = 1,
    num_partitions: int = 1,
    results: Literal["list", "sharded"] = "list",
    static: Parameters = (),
    open_sizes: OpenSizes = None,
    options: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> Callable[[Callable[..., Any]], JittedFunction]: ...


@explained
def jit(
    function: Callable[..., Any] | None = None,
    *,
    donate: Parameters = (),
    device: DeviceLike = None,
    num_replicas: int = 1,
    num_partitions: int = 1,
    results: Literal["list", "sharded"] = "list",
    static: Parameters = (),
    open_sizes: OpenSizes = None,
    options: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> JittedFunction | Callable[[Callable[..., Any]], JittedFunction]:
    """Compile a function of XlaOps for the arrays that it is called with.

    The function is recorded and compiled when it is first called with arguments of new shapes,
    element types or nesting, or with new static values; later calls run the compiled program.
    Arguments are bound by the function's signature: it makes no difference whether an argument is
    passed by position or by name, or is a default value.

    Arguments and results may be nested in dicts, lists, tuples, named tuples, None, dataclasses,
    and classes registered with jax.tree_util. An unregistered dataclass is rebuilt field by field,
    without running its ``__init__`` and ``__post_init__``. The arrays may be of any kind that an
    `Executable` takes; NumPy arrays are copied to the device.

    A Python number is an array of rank 0, and another number needs no new compilation. A bool is a
    pred, and an int an s32. A float is an f32, or of the floating-point type of the arrays among
    the arguments if these have exactly one such type; a complex number likewise, with c64. A number
    that its type can't represent is refused: pass a NumPy number, such as ``numpy.int64(2**40)``.

    As in jax.jit, a call runs on the device that the jax.Arrays among its arguments are committed
    to. If no argument is committed to a device, the call runs on jax's default device.

    A call on several devices runs on those of the first argument that is on several devices, in the
    order of its mesh. With `num_partitions`, arguments and results are global arrays, as for a
    `PartitionedExecutable`, and XLA partitions the program. The parameters have the shardings of
    the jax.Arrays that are passed; other arrays are copied to all devices.

    With `num_replicas`, each device has arrays of its own, as for a `ReplicatedExecutable`. No
    shapes are declared that could distinguish the arguments, so they are distributed by their kind:

    - a list has a value for each device; use tuples for other sequences;
    - an array that is sharded into one row for each device, by its first dimension, has a value for
      each device in its rows;
    - any other array is one value for all devices.

    Args:
        function: takes and returns XlaOps.
        donate: names or numbers of arguments. XLA may reuse the memory of all arrays in these
            arguments for results. A call consumes jax.Arrays in these arguments, but not NumPy
            arrays. See `lowering.compile`.
        device: the device to run on; None for the device that the arguments are committed to. For
            several devices the first one, if no argument is on several devices.
        num_replicas: how many replicas run the function at the same time, each on its own arrays.
        num_partitions: the number of partitions of each replica. For one replica, XLA partitions
            the program by its shardings: those of arguments, or of ops in the function.
        results: how devices with their own arrays return their results: "list", a list with the
            result of each device, or "sharded", arrays with a row for each device.
        static: names or numbers of arguments that are passed to the function unchanged. Their
            values must be hashable; each new value needs another compilation.
        open_sizes: a mapping from names or numbers of arguments to a dimension, or several
            dimensions, of all arrays in the argument: ``{"x": 0}``. The function is recorded once
            for all sizes of these dimensions, which are unbounded in the recording, and compiled
            for the sizes of each call.
        options: compiler options; see `lowering.compile`.
        name: the name of the computations; None for the function's own name.

    Returns:
        A `JittedFunction`; if `function` is None, a decorator that returns a `JittedFunction`.

    Raises:
        OperandError: `function` is not a function; `donate` or `static` names an argument that does
            not exist; `name` is not an identifier; an option does not exist; the number of replicas
            or partitions is not a positive integer; `results` has another value.

    Example:
        >>> import builder as xb, lowering, numpy as np
        >>> def train_step(params, x):
        ...     return {name: p - x * 0.5 for name, p in params.items()}
        >>> step = lowering.jit(train_step, donate=["params"])
        >>> params = {"w": np.ones(2, np.float32), "b": np.zeros(2, np.float32)}
        >>> step(params, np.array([1, 2], np.float32))
        {'b': Array([-0.5, -1. ], dtype=float32), 'w': Array([0.5, 0. ], dtype=float32)}

        As a decorator, with a static argument:

        >>> @lowering.jit(static=["times"])
        ... def doubled(x, times=1):
        ...     for _ in range(times):
        ...         x = x + x
        ...     return x
        >>> doubled(np.float32(3), times=2)
        Array(12., dtype=float32)

        On several devices, each with an array of its own:

        >>> total = lowering.jit(lambda x: xb.all_reduce(x, xb.add), device="cpu", num_replicas=2)
        >>> if len(lowering.devices("cpu")) >= 2:
        ...     first, second = total([np.float32(1), np.float32(2)])
        ...     assert float(first) == float(second) == 3.0
    """
    if function is None:
        decorator: Callable[[Callable[..., Any]], JittedFunction] = functools.partial(
            jit,
            donate=donate,
            device=device,
            num_replicas=num_replicas,
            num_partitions=num_partitions,
            results=results,
            static=static,
            open_sizes=open_sizes,
            options=options,
            name=name,
        )
        return decorator
    if not is_function(function):
        fix = "pass a function of XlaOps"
        if isinstance(function, (XlaComputation, StablehloModule)):
            fix = "compile it: lowering.compile(computation)"
        raise _error("expected a function", fix, got=brief(function))
    if name is None:
        inner = function
        while isinstance(inner, functools.partial):
            inner = inner.func
        name = getattr(inner, "__name__", "")
        if not isinstance(name, str) or not name.isidentifier():
            name = "jitted"
    elif not isinstance(name, str) or not name.isidentifier():
        raise _error("name must be an identifier, such as 'train_step'", got=brief(name))
    try:
        read_options(options)
    except OperandError as error:
        raise error._renamed("jit") from None
    counts = read_counts(num_replicas, num_partitions, results)
    signature = Signature(name, function, donate, static, open_sizes)
    return JittedFunction(signature, device, options, counts)
