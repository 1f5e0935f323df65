"""Executable: a program compiled for one device, to be called with arrays.

A call checks everything before it executes: the runtime itself takes bytes as they come, and
would read an array of another shape, type or layout without a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import jax

from builder.shape import TupleShape, leaves
from lowering import jaxlib_api
from lowering.host_calls import raise_failure
from lowering.legalize.dynamic import bounded_dimensions
from lowering.pjrt import sharding_of
from lowering.running import bounded
from lowering.running.arguments import DELETED, DELETED_FIX, Arguments, target_of
from lowering.running.program import CompiledProgram, ProgramInfo
from lowering.running.results import packer

__all__ = ["Executable"]

_JaxArray: Final = jaxlib_api.array_type
_layout_of: Final = jaxlib_api.layout_of


class Executable(CompiledProgram):
    """A computation compiled for one device. `lowering.compile` makes them.

    Call it with one argument for each parameter, in order or by the parameters' names:

    - a NumPy array or scalar, or an object with ``__dlpack__``, which is copied to the device;
    - a jax.Array on the device, which is used as it is, or copied if it lies there in another
      layout than the program takes it in; where the program takes over an argument's memory
      (`XlaBuilder.setup_alias`), the array is deleted by the call;
    - a Python number for a scalar parameter, if the parameter's type holds it exactly as
      `builder.constant` would have it;
    - a tuple or list, nested as the parameter is, for a tuple parameter;
    - None for a token.

    For a parameter of bounded sizes, such as f32[<=5,3], an array may have any sizes up to the
    bounds; it is copied, and filled up.

    The result is a jax.Array, or a Python tuple nested as the computation's root is. Elements are
    exactly of the types that the computation says, 64-bit ones included, whatever jax's x64 flag
    says; arrays lie in the layouts that it says. Tokens in it are None. An array of bounded sizes
    has the sizes that it got, for which the call waits.

    A program that reads an infeed, writes an outfeed or calls Python functions is waited for:
    what it reads is sent before the call, or in another thread.

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

    __slots__ = ("_arguments", "_flat", "_leaves", "_pack", "_run", "_sharding", "device")

    def __init__(self, loaded: Any, info: ProgramInfo, devices: Sequence[jax.Device]) -> None:
        super().__init__(loaded, info, devices)
        (device,) = devices
        self.device = device
        program_shape = info.shape
        sharding = sharding_of(device)
        self._sharding = sharding
        self._arguments = Arguments(info, sharding)
        self._leaves = self._arguments.leaves
        self._flat = not any(isinstance(p, TupleShape) for p in program_shape.parameters)
        targets = [target_of(leaf, sharding) for leaf in leaves(program_shape.result)]
        sizes = bounded_dimensions([program_shape.result])
        handlers = [
            jaxlib_api.result_handler(target.aval, sharding)
            for target in (*targets, *[target_of(bounded.SIZE, sharding)] * len(sizes))
        ]
        self._run = jaxlib_api.runner(loaded, handlers, wait=bool(info.callbacks))
        self._pack = packer(program_shape.result)
        if sizes:
            self._pack = bounded.cut_off(self._pack, sizes, targets)
        filled = dict.fromkeys(n for n, _ in bounded_dimensions(program_shape.parameters))
        if filled:
            self._run = bounded.passing_sizes(self._run, tuple(filled))

    def __call__(self, /, *args: Any, **by_name: Any) -> Any:
        """Executes the computation; see the class for what arguments may be.

        Raises:
            ArgumentError: the arguments are not those that the computation takes.
            ExecutionError: an infeed was not fed, or a Python function failed.
        """
        if by_name:
            args = self._arguments.in_order(args, by_name)
        expected = self._leaves
        flat: Any = args if self._flat else self._arguments.flattened(args)
        if len(flat) != len(expected):
            raise self._arguments.wrong_count(len(args))
        sharding = self._sharding
        arrays = []
        for value, leaf in zip(flat, expected):  # noqa: B905 (the lengths were compared)
            if (
                type(value) is _JaxArray
                and value.aval == leaf.aval
                # By identity first: comparing takes five times as long.
                and ((where := value.sharding) is sharding or where == sharding)
                and (
                    leaf.layout is None
                    or (not value.is_deleted() and _layout_of(value) == leaf.layout)
                )
            ):
                arrays.append(value)
            else:
                arrays.append(self._arguments.argument(value, leaf))
        try:
            results = self._run(arrays)
        except RuntimeError as error:
            raise_failure(error)
            # Looked for only now: an executable does not take deleted arrays.
            for value, leaf in zip(arrays, expected, strict=True):
                if value.is_deleted():
                    raise self._arguments.refused(leaf, DELETED, DELETED_FIX) from None
            self._arguments.check_given_once(arrays)
            raise
        return self._pack(results)

    def __repr__(self) -> str:
        return f"<Executable {self.name!r} {self.program_shape} on {self.device}>"
