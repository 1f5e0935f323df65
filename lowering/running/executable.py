"""Executable: a program compiled for one device, to be called with arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from weakref import ref

import jax
import numpy as np

from builder.errors import XlaError
from builder.support.frames import remove_internal_frames, without_internal_frames
from builder.types.shape import ArrayShape, TupleShape, leaves
from lowering.host.callbacks import raise_failure
from lowering.jaxlib_api import compilation, execution
from lowering.pjrt.devices import sharding_of
from lowering.pjrt.host_arrays import (
    TRANSFERRED,
    bounded_dimensions,
    copy_numpy,
    result_packer,
)
from lowering.running.arguments import (
    DELETED,
    DELETED_FIX,
    SIZE,
    Arguments,
    is_host,
    passing_sizes,
    slicing_results,
    target_of,
)
from lowering.running.failures import (
    bytes_needed,
    check_numbers,
    may_lack_memory,
    must_wait,
    raise_execution_error,
)
from lowering.running.partitioned import PartitionedExecutable
from lowering.running.program import CompiledProgram, ProgramInfo
from lowering.running.replicated import ReplicatedExecutable
from lowering.running.topology import UnloadedExecutable
from lowering.stablehlo.call_tree import CallTree, flatten


class Steps:
    """The steps of a call: check and place the arguments, execute the program, pack the results.

    Attributes:
        info: the program's metadata.
        arguments: the arguments that the program takes.
        is_flat: whether no parameter is a tuple.
        pack: the function that nests the results as the computation's root is.
        needed: the bytes of arguments, results and temporary values; 0 if they are not known.
        direct_results: the avals of the results, if jaxlib can execute the program without Python.
            None if a parameter is a tuple, if a call waits for the end of the program, or if a
            result has a bounded dimension, is a token, or is in a tuple inside the root's tuple.
    """

    __slots__ = (
        *("_device", "_execute", "_loaded"),
        *("arguments", "direct_results", "info", "is_flat", "needed", "pack"),
    )

    def __init__(self, loaded: Any, info: ProgramInfo, device: jax.Device) -> None:
        parameters, result = info.shape.parameters, info.shape.result
        sharding = sharding_of(device)
        self._loaded: Final = loaded
        self._device: Final = str(device)
        self.info: Final = info
        self.arguments: Final = Arguments(info, sharding)
        self.is_flat: Final = not any(isinstance(p, TupleShape) for p in parameters)
        self.needed: Final = bytes_needed(loaded)
        waits = must_wait(info, device, self.needed)
        targets = [target_of(leaf, sharding) for leaf in leaves(result)]
        sizes = bounded_dimensions([result])
        handlers = [
            execution.result_handler(target.aval, sharding)
            for target in (*targets, *[target_of(SIZE, sharding)] * len(sizes))
        ]
        self._execute = execution.runner(loaded, handlers, wait=waits)
        padded = dict.fromkeys(position for position, _ in bounded_dimensions(parameters))
        if padded:
            self._execute = passing_sizes(self._execute, tuple(padded))
        self.pack = result_packer(result)
        if sizes:
            self.pack = slicing_results(self.pack, sizes, targets)
        roots = result.elements if isinstance(result, TupleShape) else [result]
        is_direct = (
            self.is_flat
            and not waits
            and not sizes
            and all(isinstance(root, ArrayShape) for root in roots)
        )
        self.direct_results: Final = [target.aval for target in targets] if is_direct else None

    @without_internal_frames
    def __call__(self, /, *args: Any, **by_name: Any) -> Any:
        if by_name:
            args = self.arguments.by_position(args, by_name)
        return self.run(self.prepare(args))

    def prepare(self, args: tuple[Any, ...]) -> list[Any]:
        """Check the arguments of a call, and return them for `run`, on the device."""
        flat = args if self.is_flat else self.arguments.flatten(args)
        return self.arguments.put_all(flat, len(args))

    def run(self, arrays: list[Any]) -> Any:
        """Execute the program, and return the packed results."""
        try:
            results = self._execute(arrays)
        except (RuntimeError, ValueError) as error:
            self.raise_translated(error, arrays)
            raise
        check_numbers(self.info.name, results)
        return self.pack(results)

    def raise_translated(self, error: RuntimeError | ValueError, values: Sequence[Any]) -> None:
        """Raise this library's error for an error of jaxlib; return if no translation is known.

        Args:
            error: the error that executing the program raised.
            values: the argument for each leaf of the parameters.
        """
        raise_failure(error)
        raise_execution_error(error, self.info, self._loaded, self._device)
        # XLA refuses deleted arrays itself, so they are looked for only after an error.
        for value, leaf in zip(values, self.arguments.leaves, strict=True):
            if isinstance(value, jax.Array) and value.is_deleted():
                raise self.arguments.refusal(leaf, DELETED, DELETED_FIX) from None
        self.arguments.check_donated_once(values)


def are_same(arrays: Sequence[Any], values: Sequence[Any], *, allow_numpy: bool = False) -> bool:
    """Return whether each array is the same object as the value at its position.

    With `allow_numpy`, values that are NumPy arrays are not compared.
    """
    return all(
        a is b or (allow_numpy and type(b) is np.ndarray)
        for a, b in zip(arrays, values, strict=True)
    )


def direct_call(
    loaded: Any, steps: Steps, owner: ref[Executable] | None
) -> Callable[..., Any] | None:
    """Return a jaxlib function that executes the program, if possible without the Python steps.

    The first call with jax.Arrays of some description (count, type, sizes, device, memory layout,
    not deleted) executes the steps. For later calls with the same description jaxlib executes the
    program without Python. A call with NumPy arrays copies them, and calls a second function of
    jaxlib, which transfers the copies. Return None if every call needs the steps.

    Args:
        loaded: the LoadedExecutable.
        steps: the Python steps of a call.
        owner: the executable, if its `__call__` may be replaced. The call after one with NumPy
            arrays is likely to have some, too: `call_with_copies` saves jaxlib's look-up of the
            caller's arrays, a tenth of a call with two arrays.
    """
    results = steps.direct_results
    if results is None:
        return None
    arguments, name = steps.arguments, steps.info.name
    structure = flatten(steps.pack([0] * len(results)))[1]
    data = execution.call_data(
        loaded, arguments.sharding, len(arguments.leaves), results, structure
    )

    def call_with_arrays(*args: Any, **by_name: Any) -> execution.Missed:
        try:
            if by_name:
                args = arguments.by_position(args, by_name)
            elif from_host is not None:
                copies = copy_numpy(args)
                if copies is not None and copies is not args:
                    executable = None if owner is None else owner()
                    if executable is not None:
                        executable.__call__ = call_with_copies
                    return from_host(*copies), None, False
            arrays = steps.prepare(args)
            result = steps.run(arrays)
        except Exception as error:
            remove_internal_frames(error)
            raise
        return result, data if are_same(arrays, args) and not by_name else None, False

    def call_with_numpy(*args: Any) -> execution.Missed:
        arrays = steps.prepare(args)
        # jaxlib compares the dtypes and sizes of NumPy arrays, except of arrays that it truncates.
        is_reusable = are_same(arrays, args, allow_numpy=True)
        return steps.run(arrays), data if is_reusable else None, False

    def call_with_copies(*args: Any, **by_name: Any) -> Any:
        assert owner is not None
        assert from_host is not None
        copies = None if by_name else copy_numpy(args)
        try:
            if copies is not None and copies is not args:
                return from_host(*copies)
            executable = owner()
            if executable is None:  # only this function of it is still in use
                return steps(*args, **by_name)
            executable.__call__ = executable._direct
            return executable._direct(*args, **by_name)
        except Exception as error:
            remove_internal_frames(error)
            raise

    from_host = execution.array_caller(name, call_with_numpy) if accepts_numpy(steps) else None
    return execution.array_caller(name, call_with_arrays)


def accepts_numpy(steps: Steps) -> bool:
    """Whether jaxlib transfers NumPy arrays of the parameters' types without a conversion."""
    return all(
        leaf.is_static_array and leaf.requested_layout is None and leaf.target.dtype in TRANSFERRED
        for leaf in steps.arguments.leaves
    )


def translating_errors(call: Callable[..., Any], steps: Steps) -> Callable[..., Any]:
    """Return `call`, wrapped to raise this library's errors in place of jaxlib's."""

    @without_internal_frames
    def translated(*args: Any, **by_name: Any) -> Any:
        try:
            return call(*args, **by_name)
        except XlaError:
            raise
        except (RuntimeError, TypeError, ValueError) as error:
            # Raises an ArgumentError for arguments that jaxlib can't flatten.
            values, _ = steps.arguments.bind(args, by_name)
            if not isinstance(error, TypeError):
                steps.raise_translated(error, values)
            raise

    return translated


_MOST_KEPT: Final = 16
"""The number of argument signatures cached for an executable of a jax function."""


class Executable(CompiledProgram):
    """A computation compiled for one device. `lowering.compile` creates it.

    Call it with one argument for each parameter, in order or by the parameters' names:

    - a NumPy array or scalar, or an array of another library, which implements ``__array__``,
      ``__array_interface__``, ``__dlpack__`` or the buffer protocol; it is copied to the device;
    - a jax.Array on the device, which is used without a copy unless the program requests another
      layout. If the program takes over an argument's memory (`XlaBuilder.setup_alias`), the call
      deletes the array;
    - a Python number for a scalar parameter, nested lists of numbers for an array, if the element
      type represents the numbers as `XlaBuilder.constant` requires;
    - a tuple or list, nested as the parameter is, for a tuple parameter;
    - None for a token.

    For a parameter of bounded sizes, such as f32[<=5,3], an array may have any sizes up to the
    bounds; it is copied and padded.

    The executable of a function of jax (`from_jax`, a `Lowered`, `Traced` or `Exported`) or of
    `lowering.jit` is called like the function: with arguments nested in dicts, lists and other
    trees of jax.tree_util. Arguments that the jax function took by name are passed by name. The
    result is nested like the function's. It can also be called with one array for each parameter,
    and then returns an array or a tuple. `lowering.load` describes the nesting in files.

    The static type of a result is Any, because it depends on the program: a union of types would
    have to be narrowed after every call. The result is a jax.Array, or a Python tuple nested as the
    computation's root is, with None for tokens. Elements have exactly the computation's types, also
    64-bit types when jax's x64 flag is off, and arrays have the computation's layouts. An array of
    bounded sizes is returned with its actual sizes; the call waits for the program, which computes
    them.

    A call waits for the end of a program that reads an infeed, writes an outfeed or calls Python
    functions: send the values for an infeed before the call, or in another thread. A call also
    waits for a program that calls registered functions on CPU that can report an error, and for a
    program that needs more memory than the device has.

    Attributes:
        name: the computation's name.
        program_shape: the parameters and the result.
        device: the jax.Device that the program runs on.

    Example:
        >>> import builder as xb, lowering, numpy as np
        >>> @xb.computation(xb.f64[2], xb.f64[()])
        ... def scale(x, factor):
        ...     return xb.mul(x, factor)
        >>> run = lowering.compile(scale)
        >>> run(np.array([1.0, 2.0]), factor=0.5)
        Array([0.5, 1. ], dtype=float64)
    """

    __slots__ = {
        "__call__": """Execute the computation; `Executable` describes the arguments and the result.

        Raises:
            ArgumentError: the arguments do not match the parameters.
            ExecutionError: nothing was sent to an infeed; a Python function or a registered
                function failed; there was not enough memory.
            FloatingPointError: a result contains a NaN or an infinity, and jax's ``debug_nans`` or
                ``debug_infs`` is on.
        """,
        "_direct": "",
        "_steps": "",
        "device": "",
    }

    __call__: Callable[..., Any]
    # A slot with a function of jaxlib's: a Python method would make every call slower.
    _direct: Callable[..., Any]
    # The first `__call__`, which `direct_call` replaces and restores.

    def __init__(self, loaded: Any, info: ProgramInfo, devices: Sequence[jax.Device]) -> None:
        super().__init__(loaded, info, devices)
        (self.device,) = devices
        self._steps = steps = Steps(loaded, info, self.device)
        # Otherwise jaxlib itself raises no error: it checks for deleted arrays, and has memory.
        may_fail = info.donated or not is_host(self.device) or may_lack_memory(steps.needed)
        is_replaced = not may_fail and info.tree is None
        call = direct_call(loaded, steps, ref(self) if is_replaced else None)
        if call is None:
            call = steps
        elif may_fail:
            call = translating_errors(call, steps)
        if info.tree is not None:
            call = self._calling_with(info.tree)
        self.__call__ = self._direct = call

    def _calling_with(self, tree: CallTree) -> Callable[..., Any]:
        """Return a function that takes the jax function's arguments and executes the program.

        jaxlib executes later calls of the same signature without Python, as in jax.jit.
        """

        def on_miss(*args: Any, **by_name: Any) -> execution.Missed:
            values, nest = self._steps.arguments.bind(args, by_name)
            prepared = self._steps.prepare(values)
            result = nest(self._steps.run(prepared))
            leaves, structure = flatten((args, by_name))[0], flatten(result)[1]
            # Later calls like this one pass all leaves to the program, without Python.
            is_direct = tree.is_in_order and len(leaves) == len(prepared)
            is_direct = is_direct and are_same(prepared, leaves)
            return result, self._call_data(structure) if is_direct else None, False

        call = execution.tree_caller(self.name, _MOST_KEPT, on_miss)
        return translating_errors(call, self._steps)

    def _prepare(self, args: tuple[Any, ...], by_name: Mapping[str, Any]) -> Any:
        values, nest = self._steps.arguments.bind(args, by_name)
        return self._steps.prepare(values), nest

    def _run(self, prepared: Any) -> Any:
        arrays, nest = prepared
        return nest(self._steps.run(arrays))

    # For `lowering.jit`, which nests arguments and results differently

    def _run_flat(self, arrays: Sequence[Any]) -> tuple[Any, bool]:
        """Execute the computation for the leaves of the arguments.

        Returns:
            The result, and whether all arguments except NumPy arrays were passed without a copy.
        """
        prepared = self._steps.prepare(tuple(arrays))
        return self._steps.run(prepared), are_same(prepared, arrays, allow_numpy=True)

    def _call_data(self, structure: Any, *, from_host: bool = False) -> Any:
        """Return the data for jaxlib to execute the program without Python; None if jaxlib can't.

        `execution.tree_caller` uses this data.

        Args:
            structure: the PyTreeDef of the result.
            from_host: whether NumPy arrays may be among the arguments.
        """
        steps = self._steps
        results = steps.direct_results
        if results is None or (from_host and not accepts_numpy(steps)):
            return None
        if structure.num_leaves != len(results):
            return None  # a tuple in the place of a leaf
        arguments = steps.arguments
        return execution.call_data(
            self._loaded, arguments.sharding, len(arguments.leaves), results, structure
        )

    def _raise_translated(self, error: RuntimeError | ValueError, arrays: Sequence[Any]) -> None:
        """Raise the error of this library for an error of jaxlib; return if there is none."""
        self._steps.raise_translated(error, arrays)

    def __repr__(self) -> str:
        return f"<Executable {self.name!r} {self.program_shape} on {self.device}>"


LoadedExecutable = Executable | ReplicatedExecutable | PartitionedExecutable


def executable_for(executable: Any, values: Sequence[Any]) -> Any:
    """Return the executable for the sizes of some arrays, if it is an OpenExecutable.

    Args:
        executable: an executable of any class.
        values: an array for each parameter; on several devices a value for all, or a list.
    """
    if not isinstance(executable, CompiledProgram):
        return executable._for_arrays(values)
    return executable


def executable_of(loaded: Any, info: ProgramInfo, devices: Sequence[jax.Device]) -> Any:
    """Return the executable of a compiled program.

    Its class depends on the number of devices, on the sharding, and on whether the devices belong
    to a topology.

    Args:
        loaded: jaxlib's LoadedExecutable; for devices of a topology, jaxlib's Executable.
        info: the program's metadata.
        devices: the devices that the program was compiled for.
    """
    if compilation.is_absent(devices[0]):
        return UnloadedExecutable(loaded, info, devices)
    if info.partitioning is not None:
        return PartitionedExecutable(loaded, info, devices)
    if len(devices) == 1 and not info.in_rows:
        return Executable(loaded, info, devices)
    return ReplicatedExecutable(loaded, info, devices)
