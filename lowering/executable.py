"""Executable: a module compiled for a device, to be called with arrays.

A call checks everything before it executes: the runtime itself takes bytes as they come, and
would read an array of another shape, type or layout without a word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, overload

import jax

from builder import primitive_type as pt
from builder.computation import XlaComputation
from builder.errors import OperandError, shown
from builder.shape import ArrayShape, ProgramShape, TupleShape, leaves
from builder.xla_op import XlaOp
from lowering import bounded, jaxlib_api
from lowering.arguments import DELETED, DELETED_FIX, Arguments, target_of
from lowering.compilable import check_compilable
from lowering.custom_calls import check_registered
from lowering.donations import donated_arguments
from lowering.entry_layouts import asked_layouts, parameter_layouts
from lowering.errors import CompileError
from lowering.host_calls import raise_failure
from lowering.legalize import legalize
from lowering.legalize.dynamic import bounded_dimensions
from lowering.module import StablehloModule
from lowering.pjrt import DeviceLike, devices_for as find_devices, sharding_of
from lowering.replicated import ReplicatedExecutable
from lowering.results import packer

__all__ = ["Executable", "compile"]

_JaxArray: Final = jaxlib_api.array_type
_layout_of: Final = jaxlib_api.layout_of


class Executable:
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

    __slots__ = (
        "__weakref__",
        "_arguments",
        "_flat",
        "_leaves",
        "_loaded",
        "_pack",
        "_run",
        "_sharding",
        "device",
        "name",
        "program_shape",
    )

    def __init__(
        self,
        loaded: Any,
        name: str,
        program_shape: ProgramShape,
        device: jax.Device,
        calls_python: bool = False,
        layouts: Sequence[Any] | None = None,
        donated: frozenset[int] = frozenset(),
    ) -> None:
        self.name = name
        self.program_shape = program_shape
        self.device = device
        self._loaded = loaded
        sharding = sharding_of(device)
        self._sharding = sharding
        self._arguments = Arguments(name, program_shape, sharding, layouts, donated=donated)
        self._leaves = self._arguments.leaves
        self._flat = not any(isinstance(p, TupleShape) for p in program_shape.parameters)
        targets = [target_of(leaf, sharding) for leaf in leaves(program_shape.result)]
        sizes = bounded_dimensions([program_shape.result])
        handlers = [
            jaxlib_api.result_handler(target.aval, sharding)
            for target in (*targets, *[target_of(bounded.SIZE, sharding)] * len(sizes))
        ]
        self._run = jaxlib_api.runner(loaded, handlers, wait=calls_python)
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

    def hlo_text(self, *, large_constants: bool = True) -> str:
        """HLO text of what XLA made of the computation: fused, in layouts, scheduled.

        `lowering.from_hlo` reads it.

        Args:
            large_constants: whether constants of more than ten elements are written in full; if
                not, `{...}` stands for them, which is shorter, and can't be read again.

        Returns:
            Text; of the CPU's, GPU's or TPU's HLO, whichever was compiled for.

        Example:
            >>> import builder as xb, lowering
            >>> @xb.computation(xb.f32[16])
            ... def wave(x):
            ...     return xb.exp(xb.sin(x)) + x
            >>> text = lowering.compile(wave, "cpu").hlo_text()
            >>> text.startswith("HloModule wave"), " fusion(" in text
            (True, True)
        """
        return jaxlib_api.optimized_hlo_text(self._loaded, large_constants=large_constants)

    def __repr__(self) -> str:
        return f"<Executable {self.name!r} {self.program_shape} on {self.device}>"


@overload
def compile(
    computation: StablehloModule | XlaComputation, device: DeviceLike = None
) -> Executable: ...


@overload
def compile(
    computation: StablehloModule | XlaComputation,
    device: DeviceLike = None,
    *,
    num_replicas: int = 1,
    num_partitions: int = 1,
    devices: Sequence[DeviceLike] | None = None,
) -> Executable | ReplicatedExecutable: ...


def compile(
    computation: StablehloModule | XlaComputation,
    device: DeviceLike = None,
    *,
    num_replicas: int = 1,
    num_partitions: int = 1,
    devices: Sequence[DeviceLike] | None = None,
) -> Executable | ReplicatedExecutable:
    """Compiles a computation for a device, or for several.

    The MLIR module is not kept: the executable holds what XLA made of it, and nothing else.

    Args:
        computation: an XlaComputation, or a StablehloModule that was lowered or loaded.
        device: a jax.Device, "cpu", "gpu:1", ...; None for jax's default device. Of several
            devices the first; the others are those that follow on the same platform.
        num_replicas: how many replicas run the program at the same time, each on its own
            arguments; `XlaBuilder.replica_id` tells them apart.
        num_partitions: how many partitions each replica has, which run the program too, each on
            its own arguments; `XlaBuilder.partition_id` tells them apart.
        devices: all devices, in place of `device`: the partitions of replica 0, those of replica
            1, and so on.

    Returns:
        A callable Executable; for several replicas or partitions a ReplicatedExecutable.

    Raises:
        LoweringError: the computation can't be said in StableHLO.
        CompileError: XLA can't compile it for this device, an operation across devices counts
            on others than there are, or arrays on the device can't have a layout that is asked for.
        DeviceError: there is no such device, or there are not enough.
        OperandError: neither a computation nor a module; a number that is less than 1.

    Example:
        >>> import lowering
        >>> module = lowering.load_bytes('''
        ... func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
        ...   %0 = stablehlo.negate %x : tensor<2xf32>
        ...   return %0 : tensor<2xf32>
        ... }''')
        >>> import numpy as np
        >>> lowering.compile(module, "cpu")(np.array([1, 2], np.float32))
        Array([-1., -2.], dtype=float32)
    """
    if isinstance(computation, XlaComputation):
        from lowering.lowering import lower  # which builds on modules, as this module does

        computation = lower(computation)
    if not isinstance(computation, StablehloModule):
        hint = ""
        if isinstance(computation, XlaOp):
            hint = "\nfix: build the computation first: op.builder.build(op)"
        raise OperandError(
            f"compile: expected an XlaComputation or a StablehloModule, "
            f"got {shown(computation)}{hint}",
            op="compile",
        )
    targets = find_devices(device, devices, num_replicas, num_partitions)
    target = targets[0]
    shape = computation.program_shape
    _check_bounded(computation.name, shape, len(targets))
    legal = legalize(
        computation.module,
        computation.name,
        target.platform,
        num_replicas,
        num_partitions,
        devices=targets,
        functions=computation.functions,
    )
    check_compilable(legal.operation, computation.name, target.platform)
    asked = asked_layouts(legal.operation, legal.code, computation.name, shape, target)
    try:
        loaded = jaxlib_api.compile_and_load(
            targets,
            legal.code if asked is None else asked.code,
            num_replicas=num_replicas,
            num_partitions=num_partitions,
            callbacks=legal.callbacks,
        )
    except ValueError as error:
        check_registered(str(error), computation.name, target.platform, legal.operation)
        raise CompileError(
            f"compile: XLA can't compile {computation.name} for {target.platform}: "
            f"{_plain_reason(str(error))}"
            + (_SIZES_FIX if b"set_dimension_size\0" in legal.code else ""),
            detail=str(error),
        ) from None
    layouts = None if asked is None else parameter_layouts(asked, loaded)
    donated = donated_arguments(computation.module)
    if len(targets) == 1:
        return Executable(
            loaded, computation.name, shape, target, bool(legal.callbacks), layouts, donated
        )
    return ReplicatedExecutable(
        loaded,
        computation.name,
        shape,
        targets,
        num_replicas,
        num_partitions,
        legal.callbacks,
        layouts,
        donated,
    )


_SIZES_FIX: Final = (
    "\nfix: XLA may have no rule for the bounded sizes there; take them away before the operation "
    "with xb.remove_dynamic_dimension, and set them behind it with xb.set_dimension_size"
)


def _check_bounded(name: str, shape: ProgramShape, device_count: int) -> None:
    """Refuses unbounded sizes where a program is entered and left."""
    named = dict(zip(shape.parameter_names, shape.parameters, strict=True))
    places = [(f"parameter {n}", s) for n, s in named.items()]
    for what, one in [*places, ("the result", shape.result)]:
        if one.is_static:
            continue
        if device_count > 1:
            raise CompileError(
                f"compile: {what} of {name} must have fixed sizes on several devices, got {one}\n"
                f"fix: pass the array in its largest size, and the size beside it as an s32[]",
                shapes=named,
            )
        for leaf in leaves(one):
            if not isinstance(leaf, ArrayShape) or leaf.is_static:
                continue
            if not leaf.is_bounded:
                raise CompileError(
                    f"compile: {what} of {name} must have sizes that are fixed or bounded, "
                    f"got {one}\n"
                    f"fix: give each size a bound: f32[<=n] instead of f32[?]",
                    shapes=named,
                )
            if max(leaf.dimensions) > pt.s32.max:
                raise CompileError(
                    f"compile: {what} of {name} has a size that no s32 holds, got {one}",
                    shapes=named,
                )


def _plain_reason(report: str) -> str:
    """The sentence in XLA's report that says why."""
    lines = [line.strip() for line in report.splitlines() if line.strip()]
    errors = [line for line in lines if "error:" in line]
    reason = errors[0].split("error:", 1)[1] if errors else (lines[0] if lines else "no reason")
    reason = re.sub(r"^(?:[A-Z_]+: )+", "", reason.strip())
    return reason[:300]
