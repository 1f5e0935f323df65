"""Executable: a program compiled for one device, to be called with arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from lowering.jaxlib_api import execution
from lowering.running.bounded_arrays import is_host
from lowering.running.failures import may_lack_memory
from lowering.running.program import CompiledProgram, ProgramInfo
from lowering.running.steps import Steps, accepts_numpy, are_same, direct_call, translating_errors


class Executable(CompiledProgram):
    """A computation compiled for one device. `lowering.compile` creates it.

    Call it with one argument for each parameter, in order or by the parameters' names:

    - a NumPy array or scalar, or an object with ``__dlpack__``, which is copied to the device;
    - a jax.Array on the device, which is used without a copy unless the program requests another
      layout. If the program takes over an argument's memory (`XlaBuilder.setup_alias`), the call
      deletes the array;
    - a Python number for a scalar parameter, if `builder.types.constant` represents it exactly in
      the parameter's type;
    - a tuple or list, nested as the parameter is, for a tuple parameter;
    - None for a token.

    For a parameter of bounded sizes, such as f32[<=5,3], an array may have any sizes up to the
    bounds; it is copied and padded.

    The result is a jax.Array, or a Python tuple nested as the computation's root is, with None for
    tokens. Elements have exactly the computation's types, 64-bit ones included, whatever jax's x64
    flag, and arrays have the computation's layouts. An array of bounded sizes has its actual sizes,
    for which the call waits.

    A call waits for the end of a program that reads an infeed, writes an outfeed or calls Python
    functions: send the values that it reads before the call, or in another thread. It also waits
    for a program that calls registered functions on CPU that can report an error, and for one that
    needs more memory than the device has.

    Attributes:
        name: the computation's name.
        program_shape: the parameters and the result.
        device: the jax.Device that it runs on.

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
        "__call__": """Execute the computation; the class describes the arguments.

        Raises:
            ArgumentError: the arguments do not match the parameters.
            ExecutionError: an infeed was not fed, or a Python function or a registered one failed;
                there was not enough memory.
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

    def _prepare(self, args: tuple[Any, ...], by_name: Mapping[str, Any]) -> list[Any]:
        steps = self._steps
        return steps.prepare(steps.arguments.by_position(args, by_name) if by_name else args)

    def _run(self, prepared: list[Any]) -> Any:
        return self._steps.run(prepared)

    # For `lowering.jit`, which nests arguments and results differently

    def run_flat(self, arrays: Sequence[Any]) -> tuple[Any, bool]:
        """Return the result, and whether no argument was copied except from NumPy arrays."""
        prepared = self._steps.prepare(tuple(arrays))
        return self._steps.run(prepared), are_same(prepared, arrays, allow_numpy=True)

    def call_data(self, structure: Any, *, from_host: bool = False) -> Any:
        """Return what jaxlib needs to execute the program without Python; None if it can't.

        The result is for `execution.tree_caller`.

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

    def raise_translated(self, error: RuntimeError | ValueError, arrays: Sequence[Any]) -> None:
        """Raise the library's error for an error of jaxlib, if there is one."""
        self._steps.raise_translated(error, arrays)

    def __repr__(self) -> str:
        return f"<Executable {self.name!r} {self.program_shape} on {self.device}>"
