"""compile: from a module to an executable on devices."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, overload

from builder import primitive_type as pt
from builder.computation import XlaComputation
from builder.errors import OperandError, shown
from builder.shape import ArrayShape, ProgramShape, leaves
from builder.xla_op import XlaOp
from lowering import jaxlib_api
from lowering.compilable import check_compilable
from lowering.custom_calls import check_registered
from lowering.donations import donated_arguments
from lowering.entry_layouts import asked_layouts, parameter_layouts
from lowering.errors import CompileError
from lowering.legalize import legalize
from lowering.module import StablehloModule
from lowering.pjrt import DeviceLike, devices_for as find_devices
from lowering.running.executable import Executable
from lowering.running.program import ProgramInfo
from lowering.running.replicated import ReplicatedExecutable

__all__ = ["compile"]


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
    info = ProgramInfo(
        name=computation.name,
        shape=shape,
        num_replicas=num_replicas,
        num_partitions=num_partitions,
        donated=donated_arguments(computation.module),
        layouts=None if asked is None else parameter_layouts(asked, loaded),
        callbacks=tuple(legal.callbacks),
    )
    if len(targets) == 1:
        return Executable(loaded, info, targets)
    return ReplicatedExecutable(loaded, info, targets)


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
