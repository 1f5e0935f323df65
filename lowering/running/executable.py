"""Executable: a program compiled for one device, to be called with arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import jax

from builder.errors import XlaError
from lowering.jaxlib_api import execution
from lowering.running.bounded_arrays import is_host
from lowering.running.failures import may_lack_memory
from lowering.running.program import CompiledProgram, ProgramInfo
from lowering.running.steps import Steps, accepts_numpy, are_same, direct_call, translating_errors
from lowering.stablehlo.call_tree import CallTree, flatten

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
        "_steps": "",
        "device": "",
    }

    __call__: Callable[..., Any]
    # A slot with a function of jaxlib's: a Python method would make every call slower.

    def __init__(self, loaded: Any, info: ProgramInfo, devices: Sequence[jax.Device]) -> None:
        super().__init__(loaded, info, devices)
        (self.device,) = devices
        self._steps = steps = Steps(loaded, info, self.device)
        direct = direct_call(loaded, steps)
        if direct is None:
            self.__call__ = steps
        elif info.donated or not is_host(self.device) or may_lack_memory(loaded):
            self.__call__ = translating_errors(direct, steps)
        else:
            # jaxlib itself raises no error here: it checks for deleted arrays, and there is memory.
            self.__call__ = direct
        if info.tree is not None:
            self.__call__ = self._calling_with(info.tree)

    def _calling_with(self, tree: CallTree) -> Callable[..., Any]:
        """Return a function that takes the jax function's arguments and executes the program.

        jaxlib executes later calls of the same signature without Python, as in jax.jit.
        """

        def on_miss(*args: Any, **by_name: Any) -> tuple[Any, Any]:
            values, nest = self._steps.arguments.bind(args, by_name)
            prepared = self._steps.prepare(values)
            result = nest(self._steps.run(prepared))
            leaves, structure = flatten((args, by_name))[0], flatten(result)[1]
            # Later calls like this one pass all leaves to the program, without Python.
            is_direct = tree.is_in_order and len(leaves) == len(prepared)
            is_direct = is_direct and are_same(prepared, leaves)
            return result, self._call_data(structure) if is_direct else None

        call = execution.tree_caller(self.name, _MOST_KEPT, on_miss)

        def nested_call(*args: Any, **by_name: Any) -> Any:
            try:
                return call(*args, **by_name)
            except XlaError:
                raise
            except (RuntimeError, TypeError, ValueError) as error:
                values, _ = self._steps.arguments.bind(args, by_name)
                if not isinstance(error, TypeError):
                    self._steps.raise_translated(error, values)
                raise

        return nested_call

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
