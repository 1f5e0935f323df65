"""Compile modules to executables for devices: `lowering.compile`."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, overload

import jax
from jaxlib.mlir import ir

from builder.errors import OperandError, brief, error_of
from builder.graph.calls import explained
from builder.graph.computation import XlaComputation
from builder.types import primitive_type as pt
from builder.types.shape import (
    ArrayShape,
    ProgramShape,
    ShapeLike,
    TokenShape,
    has_unbounded_sizes,
    leaves,
    nested_text,
)
from lowering.errors import CompileError
from lowering.host.custom_calls import check_registered, failing_calls
from lowering.jaxlib_api import compilation
from lowering.legalize import legalize
from lowering.legalize.entry_attributes import check_entry_attributes
from lowering.legalize.loaded_modules import check_loaded_module
from lowering.legalize.precompile_checks import check_compilable
from lowering.mlir.attributes import donated_arguments
from lowering.mlir.operations import operations_in, place_of
from lowering.pjrt.devices import DeviceLike, devices_for as find_devices, is_local
from lowering.pjrt.entry_layouts import parameter_layouts, requested_layouts
from lowering.pjrt.failures import without_status_code
from lowering.running.compilation_cache import compile_or_read
from lowering.running.executable import Executable, executable_of
from lowering.running.options import (
    CompileOptions,
    Parameters,
    read_options,
    refused_option,
    with_donors,
    with_precision,
)
from lowering.running.partitioned import PartitionedExecutable
from lowering.running.program import ProgramInfo
from lowering.running.replicated import ReplicatedExecutable, check_results
from lowering.sharding.frontend_shardings import with_shardings
from lowering.sharding.partitioning import read_partitioning
from lowering.stablehlo.module import StablehloModule
from lowering.stablehlo.platforms import for_platform
from lowering.stablehlo.sources import ModuleSource, module_of

if TYPE_CHECKING:
    from lowering.running.open_executable import Buckets, OpenExecutable


@overload
def compile(
    computation: XlaComputation | ModuleSource,
    device: DeviceLike = None,
    *,
    argument_shapes: Sequence[ShapeLike] | None = None,
    donate: Parameters = (),
    callbacks: Sequence[Callable[..., Any] | None] = (),
    options: Mapping[str, Any] | None = None,
) -> Executable: ...  # or an OpenExecutable; a union would have to be narrowed after every call


@overload
def compile(
    computation: XlaComputation | ModuleSource,
    device: DeviceLike = None,
    *,
    sizes: Sequence[Sequence[ShapeLike]] = (),
    buckets: Buckets = None,
    num_replicas: int = 1,
    num_partitions: int = 1,
    devices: Sequence[DeviceLike] | None = None,
    results: Literal["list", "sharded"] = "list",
    donate: Parameters = (),
    callbacks: Sequence[Callable[..., Any] | None] = (),
    options: Mapping[str, Any] | None = None,
) -> OpenExecutable: ...


@overload
def compile(
    computation: XlaComputation | ModuleSource,
    device: DeviceLike = None,
    *,
    argument_shapes: Sequence[ShapeLike] | None = None,
    num_replicas: int = 1,
    num_partitions: int = 1,
    devices: Sequence[DeviceLike] | None = None,
    results: Literal["list", "sharded"] = "list",
    donate: Parameters = (),
    callbacks: Sequence[Callable[..., Any] | None] = (),
    options: Mapping[str, Any] | None = None,
) -> Executable | ReplicatedExecutable | PartitionedExecutable: ...


@explained
def compile(
    computation: XlaComputation | ModuleSource,
    device: DeviceLike = None,
    *,
    argument_shapes: Sequence[ShapeLike] | None = None,
    sizes: Sequence[Sequence[ShapeLike]] = (),
    buckets: Buckets = None,
    num_replicas: int = 1,
    num_partitions: int = 1,
    devices: Sequence[DeviceLike] | None = None,
    results: Literal["list", "sharded"] = "list",
    donate: Parameters = (),
    callbacks: Sequence[Callable[..., Any] | None] = (),
    options: Mapping[str, Any] | None = None,
) -> Executable | ReplicatedExecutable | PartitionedExecutable | OpenExecutable:
    """Compile a computation for one device or several.

    The executable keeps no reference to the MLIR module.

    Args:
        computation: an XlaComputation, or what `lowering.load` accepts: a StablehloModule, the path
            of a file, text, bytes, or a `Lowered`, `Traced` or `Exported` of jax. The executable of
            a function takes nested arguments, like the function.
        device: a jax.Device, "cpu", "gpu:1", ...; None for jax's default device. For several
            devices, the first one; the next devices of its platform are used too.
        argument_shapes: the shape of each parameter, if parameters have unbounded sizes: f32[8,4]
            for f32[?,4]. Without them the program is compiled for the sizes of each call; see
            `OpenExecutable`.
        sizes: a list of `argument_shapes` for which such a program is compiled immediately.
        buckets: the sizes to which arguments of such a program are padded with zeros, so that
            fewer sizes are compiled: "powers of two", or a list of sizes, for all unbounded sizes;
            or a dict by parameter, ``{"x": [8, 16]}``, whose values may be dicts by dimension,
            ``{"x": {0: [8, 16]}}``, in which other dimensions are not padded. Results are returned
            without the padding. Only for programs on one device whose results do not depend on the
            added elements, for instance because rows are computed independently. The first call
            that pads some dimensions checks this: it compares results with those for the exact
            sizes, also for other arguments.
        num_replicas: how many replicas run the program at the same time, each on its own
            arguments; `XlaBuilder.replica_id` distinguishes them. Shardings do not divide the
            arrays of replicas: XLA ignores them if `num_partitions` is 1.
        num_partitions: the number of partitions of each replica. If a parameter, a result or an op
            has a sharding, XLA partitions the program, and arguments and results are sharded
            arrays. Otherwise each partition runs the program on its own arguments;
            `XlaBuilder.partition_id` distinguishes them. A collective op without a `channel_id`
            communicates between replicas only, so that with one replica it changes nothing.
        devices: all devices, instead of `device`: the partitions of replica 0, those of replica 1,
            and so on. They may include devices of other processes that compute together. By
            default, the devices of all processes are used if exactly that many are needed.
        results: how replicas, or partitions with their own arrays, return their results: "list",
            a list with the result of each device, or "sharded", arrays with a row for each device,
            sharded over the devices.
        donate: the names or numbers of parameters whose memory XLA may reuse for results of the
            same size; all arrays of a tuple are donated. A call consumes a jax.Array passed for
            such a parameter, unless no result fits its memory. A value of another type, such as a
            NumPy array, is copied to the device first, and only the copy is consumed.
        callbacks: the Python functions that a module of jax calls by index (pure_callback,
            io_callback, debug.print), since a module does not contain them. Each takes arrays and
            returns an array or a tuple of arrays; tokens are not passed. None for a function that
            is never called.
        options: compiler options by name. "optimization_level": from 0, which compiles quickest,
            to 3, which optimizes most; XLA's choice by default. "default_precision": "default",
            "high" or "highest", for dot products and convolutions without a precision. The other
            options are flags of XLA's compiler for the platform, such as
            "xla_cpu_enable_fast_math": a bool, a number or a string; a list for a flag that takes
            several names. They override the flags in the environment.

    Returns:
        A callable Executable. For several replicas or partitions, or for `results="sharded"`, a
        ReplicatedExecutable. For partitions of a program with shardings, a PartitionedExecutable,
        whose arguments and results are arrays sharded over the devices. For devices of a
        `lowering.topology`, an UnloadedExecutable. For unbounded sizes without `argument_shapes`,
        an OpenExecutable, which is called like the others.

    Raises:
        LoweringError: StableHLO can't express the computation; its sizes can't be inferred from
            `argument_shapes`.
        ArgumentError: `argument_shapes` do not match the parameters.
        CompileError: XLA can't compile the program for this device; an operation across devices
            needs other devices; arrays on the device can't have a requested layout; a sharding does
            not fit the partitions or has shards of different sizes.
        DeviceError: a device does not exist, or there are not enough devices.
        OperandError: `computation` is neither a computation nor what `lowering.load` accepts;
            `num_replicas` or `num_partitions` is below 1; a donated parameter does not exist, has
            no memory of fixed size, or is donated already; an option does not exist or has a wrong
            value; `sizes` or `buckets` are passed for a program without unbounded sizes.

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
    is_recorded = isinstance(computation, XlaComputation)
    if isinstance(computation, XlaComputation):
        # Importing it is slow, and a loaded module does not need it.
        from lowering.stablehlo.lower import lower

        computation = lower(computation)
    else:
        computation = module_of(computation, "compile")
    check_results("compile", results)
    _check_callbacks(callbacks)
    checked = read_options(options)
    targets = find_devices(device, devices, num_replicas, num_partitions)
    target = next(filter(is_local, targets))
    computation = for_platform(computation, target)
    if argument_shapes is not None:
        from lowering.importer.importing import with_fitting_shapes  # lazy import

        computation = with_fitting_shapes(computation, argument_shapes, "compile")
    make = functools.partial(
        _compiled,
        targets=targets,
        num_replicas=num_replicas,
        num_partitions=num_partitions,
        results=results,
        donate=donate,
        callbacks=callbacks,
        options=checked,
        is_recorded=is_recorded,
    )
    is_open = any(map(has_unbounded_sizes, computation.program_shape.parameters))
    if is_open and not compilation.is_absent(target):
        from lowering.running.open_executable import open_executable  # lazy import

        is_on_one_device = len(targets) == 1 and results == "list"
        arguments = {
            "num_replicas": num_replicas,
            "num_partitions": num_partitions,
            "results": results,
            "donate": donate if isinstance(donate, (str, int)) else list(donate),
            "options": None if options is None else dict(options),
        }
        return open_executable(
            computation, make, targets, sizes, buckets, arguments, is_on_one_device=is_on_one_device
        )
    if buckets is not None or not isinstance(sizes, Sequence) or len(sizes):
        rule = f"sizes and buckets are for parameters of unbounded sizes, which {computation.name} "
        rule += "does not have"
        raise error_of(OperandError, "compile", rule, got=computation.program_shape)
    executable: Executable | ReplicatedExecutable | PartitionedExecutable = make(computation)
    return executable


def _compiled(
    computation: StablehloModule,
    *,
    targets: Sequence[jax.Device],
    num_replicas: int,
    num_partitions: int,
    results: str,
    donate: Parameters,
    callbacks: Sequence[Callable[..., Any] | None],
    options: CompileOptions,
    is_recorded: bool,
) -> Any:
    """Return the executable of a module of fixed or bounded sizes; see `compile`."""
    target = next(filter(is_local, targets))
    name, shape = computation.name, computation.program_shape
    _check_sizes(name, shape, has_rows=results == "sharded" or len(targets) > 1)
    module = with_donors(computation.module, name, shape, donate)
    module = with_precision(module, options.default_precision)
    if num_partitions > 1:
        module = with_shardings(module, shape.parameters)
    partitioning = read_partitioning(module.operation, name, shape, num_replicas, num_partitions)
    if not is_recorded:
        check_entry_attributes(module.operation, name, shape, num_partitions)
        check_loaded_module(module.operation, name, target.platform)
    # The results of a partitioned program are arrays over all devices anyway.
    in_rows = results == "sharded" and partitioning is None
    legalized = legalize(
        module,
        name,
        target.platform,
        num_replicas,
        num_partitions,
        devices=targets,
        functions=computation.functions,
        supplied=callbacks,
        in_rows=in_rows,
        partitioning=partitioning,
    )
    check_compilable(legalized.operation, name, target.platform)
    layouts = requested_layouts(legalized.operation, legalized.code, name, shape, target)
    start = time.perf_counter()
    try:
        loaded = compile_or_read(
            name,
            targets,
            legalized.code if layouts is None else layouts.code,
            compilation.compile_options(
                targets,
                num_replicas=num_replicas,
                num_partitions=num_partitions,
                flags=options.flags,
                level=options.optimization_level,
                shardy=partitioning is not None and partitioning.is_shardy,
                free_results=() if partitioning is None else partitioning.is_free,
            ),
            legalized.callbacks,
            has_dumps=any(flag.startswith("xla_dump_") for flag, _ in options.flags),
        )
    except ValueError as error:
        report = str(error)
        refused = refused_option(report, options)
        if refused is not None:
            raise refused from None
        check_registered(report, name, target.platform, legalized.operation)
        counts = num_replicas, num_partitions
        raise _compile_error(report, name, module, target.platform, counts) from None
    info = ProgramInfo(
        name=name,
        shape=shape,
        num_replicas=num_replicas,
        num_partitions=num_partitions,
        compile_seconds=time.perf_counter() - start,
        donated=donated_arguments(module),
        layouts=None if layouts is None else parameter_layouts(layouts, loaded),
        callbacks=tuple(legalized.callbacks),
        handlers=failing_calls(module.operation, legalized.code, target.platform),
        in_rows=in_rows,
        partitioning=partitioning,
        tree=computation.tree,
    )
    return executable_of(loaded, info, targets)


def _compile_error(
    report: str, name: str, module: ir.Module, platform: str, counts: tuple[int, int]
) -> CompileError:
    """Return the error for a report of XLA; it names the operation that XLA can't compile.

    Args:
        report: XLA's report.
        name: the computation's name.
        module: the module, before it was legalized.
        platform: the platform.
        counts: the numbers of replicas and partitions.
    """
    from lowering.running.failures import failing_operation  # lazy import: rarely used

    operation = failing_operation(module, report, platform, *counts)
    reason = _first_reason(report)
    if operation is None:
        rule = f"XLA can't compile {name} for {platform}: {reason}"
        fix = "compile parts of the program, made by xb.extract, to find the operation"
        op = "compile"
    else:
        op = operation.name.partition(".")[2]
        rule = f"{name}: XLA can't compile {op}{place_of(operation)} for {platform}"
        rule = f"{rule}: {reason}"
        fix = "use other operations or another element type"
    if operations_in(module.operation, ["stablehlo.set_dimension_size"]):
        fix = _SIZES_FIX
    return CompileError(rule, context=("compile",), fix=fix, op=op, detail=report)


_SIZES_FIX: Final = (
    "remove bounded sizes before the operation with xb.remove_dynamic_dimension, and set the sizes "
    "after the operation with xb.set_dimension_size; XLA may not support bounded sizes there"
)


def _check_callbacks(callbacks: Any) -> None:
    """Raise OperandError unless `callbacks` is a list or tuple of functions and None."""
    if not isinstance(callbacks, (list, tuple)):
        rule = "callbacks must be a list of functions"
        raise error_of(OperandError, "compile", rule, got=brief(callbacks))
    for index, function in enumerate(callbacks):
        if function is not None and not callable(function):
            rule = f"callbacks[{index}] must be a function or None"
            raise error_of(OperandError, "compile", rule, got=brief(function))


def _check_sizes(name: str, shape: ProgramShape, *, has_rows: bool) -> None:
    """Raise CompileError for sizes that can't be compiled.

    These are unbounded sizes and bounds that don't fit an s32; if `has_rows`, also bounded sizes.
    """
    named = dict(zip(shape.parameter_names, shape.parameters, strict=True))
    places = [(f"parameter {n}", s) for n, s in named.items()]
    for place, part in [*places, ("the result", shape.result)]:
        if part.is_static:
            continue
        dynamic = [s for s in leaves(part) if isinstance(s, ArrayShape) and not s.is_static]
        if has_rows:
            rule = "must have fixed sizes on several devices"
            fix = "use arrays padded to their bounds, and s32[] parameters or results for the sizes"
        elif not all(leaf.is_bounded for leaf in dynamic):
            rule = "must not have unbounded sizes"
            shapes = [nested_text(parameter, _with_sizes) for parameter in shape.parameters]
            fix = f"pass the sizes: lowering.compile(..., argument_shapes={shapes})"
            if not any(map(has_unbounded_sizes, shape.parameters)):
                bounded = str(part).replace("?", "<=8")
                fix = f"the sizes depend on values: record it with bounds, such as {bounded}"
        elif any(max(leaf.dimensions) > pt.s32.max for leaf in dynamic):
            rule, fix = "must have bounded sizes that fit an s32", ""
        else:
            continue
        rule = f"{place} of {name} {rule}"
        raise error_of(CompileError, "compile", rule, fix, got=part, shapes=named)


def _with_sizes(leaf: ArrayShape | TokenShape) -> str:
    """Return the text of a shape with 8 in place of each unbounded size, for an example."""
    return str(leaf).replace("?", "8")


def _first_reason(report: str) -> str:
    """Return the first error in XLA's report, without status codes, cut to 300 characters."""
    lines = [line.strip() for line in report.splitlines() if line.strip()]
    errors = [line for line in lines if "error:" in line]
    reason = errors[0].split("error:", 1)[1] if errors else (lines[0] if lines else "no reason")
    return without_status_code(reason)[:300]
