"""The steps of a call on one device, and the way of calling that leaves them out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import jax
import numpy as np

from builder.errors import XlaError
from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape, TupleShape, leaves
from lowering.host.callbacks import raise_failure
from lowering.jaxlib_api import execution, jax_arrays
from lowering.legalize.dynamic import bounded_dimensions
from lowering.pjrt.devices import sharding_of
from lowering.running import bounded_arrays as bounded
from lowering.running.arguments import DELETED, DELETED_FIX, Arguments, target_of
from lowering.running.failures import check_numbers, must_wait, raise_execution_error
from lowering.running.program import ProgramInfo
from lowering.running.results import result_packer

__all__ = ["Steps", "explaining", "takes_from_host", "without_steps"]

_JaxArray: Final = jax_arrays.array_type


class Steps:
    """What a call does: looks at the arguments, takes them to the device, runs, packs the results.

    Attributes:
        info: what is known of the program.
        arguments: what may be given.
        is_flat: no parameter is a tuple.
        run: from arrays on the device to arrays on the device.
        pack: nests the results as the computation's root is.
        waits: whether a call waits for the end of the program.
        results: for each result what jax says of its array; None where the results are cut to
            their sizes, hold tokens or are nested further than in one tuple.
    """

    __slots__ = (
        "_loaded",
        "_where",
        "arguments",
        "info",
        "is_flat",
        "pack",
        "results",
        "run",
        "waits",
    )

    def __init__(self, loaded: Any, info: ProgramInfo, device: jax.Device) -> None:
        shape = info.shape
        sharding = sharding_of(device)
        self._loaded: Final = loaded
        self._where: Final = str(device)
        self.info: Final = info
        self.arguments: Final = Arguments(info, sharding)
        self.is_flat: Final = not any(isinstance(p, TupleShape) for p in shape.parameters)
        self.waits: Final = must_wait(info, loaded, device)
        targets = [target_of(leaf, sharding) for leaf in leaves(shape.result)]
        sizes = bounded_dimensions([shape.result])
        handlers = [
            execution.result_handler(target.aval, sharding)
            for target in (*targets, *[target_of(bounded.SIZE, sharding)] * len(sizes))
        ]
        self.run = execution.runner(loaded, handlers, wait=self.waits)
        self.pack = result_packer(shape.result)
        if sizes:
            self.pack = bounded.cut_off(self.pack, sizes, targets)
        filled = dict.fromkeys(n for n, _ in bounded_dimensions(shape.parameters))
        if filled:
            self.run = bounded.passing_sizes(self.run, tuple(filled))
        roots = shape.result.elements if isinstance(shape.result, TupleShape) else [shape.result]
        plain = all(isinstance(one, ArrayShape) for one in roots) and not sizes
        self.results: Final = [target.aval for target in targets] if plain else None

    def __call__(self, /, *args: Any, **by_name: Any) -> Any:
        if by_name:
            args = self.arguments.in_order(args, by_name)
        return self.pack(self.ran(self.taken(args)))

    def taken(self, args: tuple[Any, ...]) -> list[Any]:
        """What `ran` is given: jax.Arrays on the device."""
        flat = args if self.is_flat else self.arguments.flattened(args)
        return self.arguments.on_device(flat, len(args))

    def ran(self, arrays: list[Any]) -> list[Any]:
        """The results, as they come."""
        try:
            results = self.run(arrays)
        except (RuntimeError, ValueError) as error:
            self.explain(error, arrays)
            raise
        check_numbers(self.info.name, results)
        return results

    def explain(self, error: RuntimeError | ValueError, values: Sequence[Any]) -> None:
        """Raises an error in words, if it is known what jaxlib means by its own.

        Args:
            error: what executing raised.
            values: what was given for the leaves.
        """
        raise_failure(error)
        raise_execution_error(error, self.info, self._loaded, self._where)
        # Looked for only now: an executable does not take deleted arrays.
        for value, leaf in zip(values, self.arguments.leaves, strict=True):
            if isinstance(value, jax.Array) and value.is_deleted():
                raise self.arguments.refused(leaf, DELETED, DELETED_FIX) from None
        self.arguments.check_given_once(values)


def without_steps(loaded: Any, steps: Steps) -> Callable[..., Any] | None:
    """A function that leaves out what is superfluous of the steps; None if they all are needed.

    Where the arguments are jax.Arrays, and are like those of a call that found all right, jaxlib
    itself makes sure of the likeness (count, type, sizes, device, memory layout, not deleted) and
    executes the program. Looking at them in Python takes 0.6 us an argument: more than all that
    jax.jit does with them.
    """
    results = steps.results
    if not steps.is_flat or steps.waits or results is None:
        return None
    arguments = steps.arguments
    nesting = steps.pack([0] * len(results))

    def caller(otherwise: Callable[..., tuple[Any, bool]]) -> Callable[..., Any]:
        return execution.direct_caller(
            loaded,
            steps.info.name,
            arguments.sharding,
            len(arguments.leaves),
            results,
            nesting,
            otherwise,
        )

    def with_steps(*args: Any, **by_name: Any) -> tuple[Any, bool]:
        if by_name:
            args = arguments.in_order(args, by_name)
        elif from_host is not None and (copies := _copies(args, dtypes)) is not None:
            return from_host(*copies), False
        arrays = steps.taken(args)
        used_as_they_are = all(a is b for a, b in zip(arrays, args, strict=True))
        return steps.pack(steps.ran(arrays)), used_as_they_are and not by_name

    def with_puts(*args: Any) -> tuple[Any, bool]:
        arrays = steps.taken(args)
        # jaxlib compares the sizes of NumPy arrays next time; their types were compared.
        right = all(a is b or type(b) is np.ndarray for a, b in zip(arrays, args, strict=True))
        return steps.pack(steps.ran(arrays)), right

    dtypes = [leaf.target.dtype for leaf in arguments.leaves]
    from_host = None
    if takes_from_host(steps):
        from_host = caller(with_puts)
    return caller(with_steps)


_CHANGED_BY_JAX: Final = frozenset({pt.f64, pt.s64, pt.u64, pt.c128})
"""NumPy arrays of these types jaxlib would convert to 32 bits, where jax's x64 flag is off."""


def takes_from_host(steps: Steps) -> bool:
    """Whether jaxlib puts NumPy arrays of the parameters' types on the device as they are."""
    return all(
        leaf.is_plain
        and leaf.wanted is None
        and leaf.target.shape.element_type not in _CHANGED_BY_JAX
        for leaf in steps.arguments.leaves
    )


def _copies(args: tuple[Any, ...], dtypes: Sequence[Any]) -> list[Any] | None:
    """The arguments, NumPy arrays of the right types as copies; None if there are none, or others.

    jaxlib takes NumPy arrays to the device in 3 us each, if it does so on the way to executing, as
    for jax.jit, and in 7 us if it is asked to. But then it may use their memory while the program
    runs, and the caller may write to them: so it is given copies, which take 0.2 us.
    """
    copies = []
    for value, dtype in zip(args, dtypes):  # noqa: B905 (a wrong number is refused later)
        if type(value) is np.ndarray and value.dtype == dtype:
            try:
                copies.append(value.copy())
            except MemoryError:  # of which putting it on the device tells in words
                return None
        elif type(value) is _JaxArray:
            copies.append(value)
        else:
            return None
    return copies if len(copies) == len(args) and np.ndarray in map(type, copies) else None


def explaining(call: Callable[..., Any], steps: Steps) -> Callable[..., Any]:
    """`call`, with the errors that jaxlib raises without Python in words."""

    def explained(*args: Any, **by_name: Any) -> Any:
        try:
            return call(*args, **by_name)
        except XlaError:
            raise
        except (RuntimeError, ValueError) as error:
            steps.explain(error, steps.arguments.in_order(args, by_name) if by_name else args)
            raise

    return explained
