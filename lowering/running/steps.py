"""The steps of a call on one device, and the direct call that skips them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

import jax
import numpy as np

from builder.errors import XlaError
from builder.types.shape import ArrayShape, TupleShape, leaves
from lowering.host.callbacks import raise_failure
from lowering.jaxlib_api import execution
from lowering.legalize.dynamic import bounded_dimensions
from lowering.pjrt.devices import sharding_of
from lowering.pjrt.host_arrays import TRUNCATED_BY_JAX, copy_numpy
from lowering.pjrt.nesting import result_packer
from lowering.running import bounded_arrays as bounded
from lowering.running.arguments import DELETED, DELETED_FIX, Arguments, target_of
from lowering.running.failures import check_numbers, must_wait, raise_execution_error
from lowering.running.program import ProgramInfo


class Steps:
    """The steps of a call: check and place the arguments, execute the program, pack the results.

    Attributes:
        info: the program's metadata.
        arguments: the arguments that the program takes.
        is_flat: whether no parameter is a tuple.
        pack: the function that nests the results as the computation's root is.
        direct_results: the avals of the results, if jaxlib can execute the program without Python.
            None if a parameter is a tuple, if a call waits for the end of the program, or if a
            result has a bounded dimension, is a token, or is in a tuple inside the root's tuple.
    """

    __slots__ = (
        *("_device", "_execute", "_loaded"),
        *("arguments", "direct_results", "info", "is_flat", "pack"),
    )

    def __init__(self, loaded: Any, info: ProgramInfo, device: jax.Device) -> None:
        parameters, result = info.shape.parameters, info.shape.result
        sharding = sharding_of(device)
        self._loaded: Final = loaded
        self._device: Final = str(device)
        self.info: Final = info
        self.arguments: Final = Arguments(info, sharding)
        self.is_flat: Final = not any(isinstance(p, TupleShape) for p in parameters)
        waits = must_wait(info, loaded, device)
        targets = [target_of(leaf, sharding) for leaf in leaves(result)]
        sizes = bounded_dimensions([result])
        handlers = [
            execution.result_handler(target.aval, sharding)
            for target in (*targets, *[target_of(bounded.SIZE, sharding)] * len(sizes))
        ]
        self._execute = execution.runner(loaded, handlers, wait=waits)
        padded = dict.fromkeys(position for position, _ in bounded_dimensions(parameters))
        if padded:
            self._execute = bounded.passing_sizes(self._execute, tuple(padded))
        self.pack = result_packer(result)
        if sizes:
            self.pack = bounded.slicing_results(self.pack, sizes, targets)
        roots = result.elements if isinstance(result, TupleShape) else [result]
        is_direct = (
            self.is_flat
            and not waits
            and not sizes
            and all(isinstance(root, ArrayShape) for root in roots)
        )
        self.direct_results: Final = [target.aval for target in targets] if is_direct else None

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


def direct_call(loaded: Any, steps: Steps) -> Callable[..., Any] | None:
    """Return a jaxlib function that executes the program, if possible without the Python steps.

    The first call with jax.Arrays of some description (count, type, sizes, device, memory layout,
    not deleted) executes the steps. For later calls with the same description jaxlib executes the
    program without Python. Return None if every call needs the steps.
    """
    results = steps.direct_results
    if results is None:
        return None
    arguments = steps.arguments
    nesting = steps.pack([0] * len(results))
    program = loaded, steps.info.name, arguments.sharding, len(arguments.leaves), results, nesting
    caller = functools.partial(execution.direct_caller, *program)

    def call_with_arrays(*args: Any, **by_name: Any) -> tuple[Any, bool]:
        if by_name:
            args = arguments.by_position(args, by_name)
        elif from_host is not None:
            copies = copy_numpy(args)
            if copies is not None and copies is not args:
                return from_host(*copies), False
        arrays = steps.prepare(args)
        return steps.run(arrays), are_same(arrays, args) and not by_name

    def call_with_numpy(*args: Any) -> tuple[Any, bool]:
        arrays = steps.prepare(args)
        # jaxlib compares the dtypes and sizes of NumPy arrays, but not of those that it truncates.
        return steps.run(arrays), are_same(arrays, args, allow_numpy=True)

    from_host = caller(call_with_numpy) if accepts_numpy(steps) else None
    return caller(call_with_arrays)


def accepts_numpy(steps: Steps) -> bool:
    """Whether jaxlib transfers NumPy arrays of the parameters' types without a conversion."""
    return all(
        leaf.is_static_array
        and leaf.requested_layout is None
        and leaf.target.dtype not in TRUNCATED_BY_JAX
        for leaf in steps.arguments.leaves
    )


def translating_errors(call: Callable[..., Any], steps: Steps) -> Callable[..., Any]:
    """Return `call`, wrapped to raise this library's errors in place of jaxlib's."""

    def translated(*args: Any, **by_name: Any) -> Any:
        try:
            return call(*args, **by_name)
        except XlaError:
            raise
        except (RuntimeError, ValueError) as error:
            positional = steps.arguments.by_position(args, by_name) if by_name else args
            steps.raise_translated(error, positional)
            raise

    return translated
