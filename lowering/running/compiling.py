"""compile: from a module to an executable on devices."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, overload

from builder.errors import OperandError, brief
from builder.graph.computation import XlaComputation
from builder.graph.subcomputations import ReusableFunction
from builder.graph.xla_op import XlaOp
from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape, ProgramShape, leaves
from lowering.errors import CompileError
from lowering.host.custom_calls import check_registered, failing_calls
from lowering.jaxlib_api import compilation
from lowering.legalize import legalize
from lowering.legalize.precompile_checks import check_compilable
from lowering.mlir.donations import donated_arguments
from lowering.pjrt.devices import DeviceLike, devices_for as find_devices, is_local
from lowering.pjrt.entry_layouts import parameter_layouts, requested_layouts
from lowering.running.compilation_cache import compile_or_read
from lowering.running.donation import Parameters, with_donors
from lowering.running.executable import Executable
from lowering.running.executable_kinds import executable_of
from lowering.running.options import read_options, refused_option, with_precision
from lowering.running.partitioned import PartitionedExecutable
from lowering.running.program import ProgramInfo
from lowering.running.replicated import ReplicatedExecutable
from lowering.sharding.frontend_shardings import with_shardings
from lowering.sharding.partitioning import read_partitioning
from lowering.stablehlo.module import StablehloModule

__all__ = ["compile"]


@overload
def compile(
    computation: StablehloModule | XlaComputation,
    device: DeviceLike = None,
    *,
    donate: Parameters = (),
    options: Mapping[str, Any] | None = None,
) -> Executable: ...


@overload
def compile(
    computation: StablehloModule | XlaComputation,
    device: DeviceLike = None,
    *,
    num_replicas: int = 1,
    num_partitions: int = 1,
    devices: Sequence[DeviceLike] | None = None,
    results: Literal["list", "sharded"] = "list",
    donate: Parameters = (),
    options: Mapping[str, Any] | None = None,
) -> Executable | ReplicatedExecutable | PartitionedExecutable: ...


def compile(
    computation: StablehloModule | XlaComputation,
    device: DeviceLike = None,
    *,
    num_replicas: int = 1,
    num_partitions: int = 1,
    devices: Sequence[DeviceLike] | None = None,
    results: Literal["list", "sharded"] = "list",
    donate: Parameters = (),
    options: Mapping[str, Any] | None = None,
) -> Executable | ReplicatedExecutable | PartitionedExecutable:
    """Compiles a computation for a device, or for several.

    The MLIR module is not kept: the executable holds what XLA made of it, and nothing else.

    Args:
        computation: an XlaComputation, or a StablehloModule that was lowered or loaded.
        device: a jax.Device, "cpu", "gpu:1", ...; None for jax's default device. Of several
            devices the first; the others are those that follow on the same platform.
        num_replicas: how many replicas run the program at the same time, each on its own
            arguments; `XlaBuilder.replica_id` tells them apart.
        num_partitions: how many partitions each replica has. Where a parameter, a result or an op
            has a sharding, XLA cuts the program up into them, and whole arrays go in and out. Else
            they run the program too, each on its own arguments; `XlaBuilder.partition_id` tells
            them apart.
        devices: all devices, in place of `device`: the partitions of replica 0, those of replica
            1, and so on. Those of other processes may be among them, if they compute together; and
            they are if nothing is said and all devices of all processes are needed.
        results: how replicas, or partitions with arrays of their own, give their results: "list",
            a list of them, or "sharded", arrays with a row for each device, cut up over them.
        donate: the names or numbers of parameters whose memory the program takes over, of a tuple
            all its arrays: XLA writes results of the same size there. Their jax.Arrays are used up
            by a call; of other arguments a copy is, and an array that no result fits stays.
        options: how to compile, by name. "optimization_level": 0, which compiles quickest, to 3,
            which tries hardest; else XLA's choice. "default_precision": "default", "high" or
            "highest", for dot products and convolutions that say no precision. And the flags of
            XLA's compiler for the platform, such as "xla_cpu_enable_fast_math": a bool, a number
            or a string; of names a list too. They count more than those of the environment.

    Returns:
        A callable Executable; for several replicas or partitions, or for sharded results, a
        ReplicatedExecutable; for partitions of a program with shardings a PartitionedExecutable,
        which takes and gives whole arrays, cut up over the devices. For devices of
        `lowering.topology`, which need not be there, an UnloadedExecutable.

    Raises:
        LoweringError: the computation can't be said in StableHLO.
        CompileError: XLA can't compile it for this device, an operation across devices counts
            on others than there are, arrays on the device can't have a layout that is asked for, or
            a sharding does not fit the partitions or leaves shards of uneven size.
        DeviceError: there is no such device, or there are not enough.
        OperandError: neither a computation nor a module; a number that is less than 1; a parameter
            to be donated that is not there, has no memory of fixed size, or is given away already;
            an option that there is not, or not with such a value.

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
        from lowering.stablehlo.lower import lower  # which builds on modules, as this module does

        computation = lower(computation)
    if not isinstance(computation, StablehloModule):
        hint = ""
        if isinstance(computation, XlaOp):
            hint = "\nfix: build the computation first: op.builder.build(op)"
        elif isinstance(computation, ReusableFunction):
            hint = (
                "\nfix: compile function.computation(shape, ...), with a shape for each parameter, "
                "or call lowering.jit(function) with arrays"
            )
        raise OperandError(
            f"compile: expected an XlaComputation or a StablehloModule, "
            f"got {brief(computation)}{hint}",
            op="compile",
        )
    if results not in ("list", "sharded"):
        raise OperandError(
            f"compile: results must be 'list' or 'sharded', got {brief(results)}", op="compile"
        )
    checked = read_options(options)
    targets = find_devices(device, devices, num_replicas, num_partitions)
    target = next(filter(is_local, targets))
    shape = computation.program_shape
    _check_bounded(computation.name, shape, has_rows=results == "sharded" or len(targets) > 1)
    module = with_donors(computation.module, computation.name, shape, donate)
    module = with_precision(module, checked.default_precision)
    if num_partitions > 1:
        module = with_shardings(module, shape.parameters)
    partitioning = read_partitioning(
        module.operation, computation.name, shape, num_replicas, num_partitions
    )
    # What is cut up comes out as arrays over all devices anyway.
    in_rows = results == "sharded" and partitioning is None
    legal = legalize(
        module,
        computation.name,
        target.platform,
        num_replicas,
        num_partitions,
        devices=targets,
        functions=computation.functions,
        in_rows=in_rows,
        partitioning=partitioning,
    )
    check_compilable(legal.operation, computation.name, target.platform)
    asked = requested_layouts(legal.operation, legal.code, computation.name, shape, target)
    told = compilation.compile_options(
        targets,
        num_replicas=num_replicas,
        num_partitions=num_partitions,
        flags=checked.flags,
        level=checked.optimization_level,
        shardy=partitioning is not None and partitioning.is_shardy,
        free_results=() if partitioning is None else partitioning.is_free,
    )
    began = time.perf_counter()
    try:
        loaded = compile_or_read(
            targets,
            legal.code if asked is None else asked.code,
            told,
            legal.callbacks,
            has_dumps=any(name.startswith("xla_dump_") for name, _ in checked.flags),
        )
    except ValueError as error:
        refused = refused_option(str(error), checked)
        if refused is not None:
            raise refused from None
        check_registered(str(error), computation.name, target.platform, legal.operation)
        raise CompileError(
            f"compile: XLA can't compile {computation.name} for {target.platform}: "
            f"{_plain_reason(str(error))}"
            + (_SIZES_FIX if b"set_dimension_size\0" in legal.code else ""),
            detail=str(error),
        ) from None
    seconds = time.perf_counter() - began
    info = ProgramInfo(
        name=computation.name,
        shape=shape,
        num_replicas=num_replicas,
        num_partitions=num_partitions,
        donated=donated_arguments(module),
        layouts=None if asked is None else parameter_layouts(asked, loaded),
        callbacks=tuple(legal.callbacks),
        handlers=failing_calls(legal.operation, legal.code, target.platform),
        in_rows=in_rows,
        partitioning=partitioning,
        compile_seconds=seconds,
    )
    made: Executable | ReplicatedExecutable | PartitionedExecutable = executable_of(
        loaded, info, targets
    )
    return made


_SIZES_FIX: Final = (
    "\nfix: XLA may have no rule for the bounded sizes there; take them away before the operation "
    "with xb.remove_dynamic_dimension, and set them behind it with xb.set_dimension_size"
)


def _check_bounded(name: str, shape: ProgramShape, *, has_rows: bool) -> None:
    """Refuses unbounded sizes where a program is entered and left; bounded ones, if it has rows."""
    named = dict(zip(shape.parameter_names, shape.parameters, strict=True))
    places = [(f"parameter {n}", s) for n, s in named.items()]
    for what, one in [*places, ("the result", shape.result)]:
        if one.is_static:
            continue
        if has_rows:
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
