"""Executable: a program compiled for one device, to be called with arrays.

A call checks everything before it executes: the runtime itself takes bytes as they come, and
would read an array of another shape, type or layout without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from lowering.jaxlib_api import execution
from lowering.running.bounded_arrays import is_host
from lowering.running.failures import may_lack_memory
from lowering.running.program import CompiledProgram, ProgramInfo
from lowering.running.steps import Steps, explaining, takes_from_host, without_steps

__all__ = ["Executable"]


class Executable(CompiledProgram):
    """A computation compiled for one device. `lowering.compile` makes them.

    Call it with one argument for each parameter, in order or by the parameters' names:

    - a NumPy array or scalar, or an object with ``__dlpack__``, which is copied to the device;
    - a jax.Array on the device, which is used as it is, or copied if it lies there in another
      layout than the program takes it in; where the program takes over an argument's memory
      (`XlaBuilder.setup_alias`), the array is deleted by the call;
    - a Python number for a scalar parameter, if the parameter's type holds it exactly as
      `builder.types.constant` would have it;
    - a tuple or list, nested as the parameter is, for a tuple parameter;
    - None for a token.

    For a parameter of bounded sizes, such as f32[<=5,3], an array may have any sizes up to the
    bounds; it is copied, and filled up.

    The result is a jax.Array, or a Python tuple nested as the computation's root is. Elements are
    exactly of the types that the computation says, 64-bit ones included, whatever jax's x64 flag
    says; arrays lie in the layouts that it says. Tokens in it are None. An array of bounded sizes
    has the sizes that it got, for which the call waits.

    A program that reads an infeed, writes an outfeed or calls Python functions is waited for:
    what it reads is sent before the call, or in another thread. So is one that calls functions of
    the user's on CPU that can report an error, and one that needs more memory than there is.

    Attributes:
        name: the computation's name.
        program_shape: parameters and result.
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
        "__call__": """Executes the computation; see the class for what arguments may be.

        Raises:
            ArgumentError: the arguments are not those that the computation takes.
            ExecutionError: an infeed was not fed, or a Python function or a registered one failed;
                there was not enough memory.
            FloatingPointError: a result holds a NaN or an infinity, and jax's ``debug_nans`` or
                ``debug_infs`` is on.
        """,
        "_steps": "",
        "device": "",
    }

    __call__: Callable[..., Any]
    # A slot: each instance has a function of jaxlib's of its own. A method of Python's before it
    # would take 0.9 us more of a call with two arguments, which takes 11 us; the slot takes 0.2.

    def __init__(self, loaded: Any, info: ProgramInfo, devices: Sequence[jax.Device]) -> None:
        super().__init__(loaded, info, devices)
        (self.device,) = devices
        self._steps = steps = Steps(loaded, info, self.device)
        direct = without_steps(loaded, steps)
        if direct is None:
            self.__call__ = steps
        elif info.donated or not is_host(self.device) or may_lack_memory(loaded):
            self.__call__ = explaining(direct, steps)
        else:
            # Nothing of jaxlib's is left to be explained: it is asked whether arguments were
            # deleted, and there is memory.
            self.__call__ = direct

    def _take(self, args: tuple[Any, ...], by_name: Mapping[str, Any]) -> list[Any]:
        return self._steps.taken(self._steps.arguments.in_order(args, by_name) if by_name else args)

    def _go(self, taken: list[Any]) -> Any:
        return self._steps.pack(self._steps.ran(taken))

    # For `lowering.jit`, which nests arguments and results in another way

    def run_and_tell(self, arrays: Sequence[Any]) -> tuple[Any, bool]:
        """The result, and whether the arrays were used as they are, or were copied from NumPy."""
        taken = self._take(tuple(arrays), {})
        right = all(a is b or type(b) is np.ndarray for a, b in zip(taken, arrays, strict=True))
        return self._go(taken), right

    def call_data(self, structure: Any, *, from_host: bool = False) -> Any:
        """By what jaxlib executes the program without Python, for `execution.tree_caller`.

        None if more has to be done than that.

        Args:
            structure: of the result: a PyTreeDef.
            from_host: whether NumPy arrays may be among the arguments.
        """
        steps = self._steps
        if not steps.is_flat or steps.waits or steps.results is None:
            return None
        if from_host and not takes_from_host(steps):
            return None
        arguments = steps.arguments
        if structure.num_leaves != len(steps.results):
            return None  # a tuple in the place of a leaf
        return execution.call_data(
            self._loaded, arguments.sharding, len(arguments.leaves), steps.results, structure
        )

    def explain(self, error: RuntimeError | ValueError, arrays: Sequence[Any]) -> None:
        """Raises what jaxlib raised in words, if it is known what it means."""
        self._steps.explain(error, arrays)

    def __repr__(self) -> str:
        return f"<Executable {self.name!r} {self.program_shape} on {self.device}>"
