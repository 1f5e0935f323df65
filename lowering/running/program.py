"""Compiled programs: the metadata and the methods that all kinds of executables share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NoReturn, Self

import jax

from builder.checking import flag
from builder.errors import OperandError
from builder.graph.calls import explained
from builder.inspection.parts import Column, Heading, Part, TextTable
from builder.inspection.rendering import bytes_text, flops_text
from builder.support.display import Displayed
from builder.support.frames import without_internal_frames
from builder.support.names import ExplainsAttributes
from builder.types.layout import Layout, parse_layout
from builder.types.shape import ArrayShape, ProgramShape, Shape, TokenShape, TupleShape, fold
from lowering.errors import ExecutionError
from lowering.jaxlib_api import compilation, jax_arrays
from lowering.running.executable_file import save_executable
from lowering.running.profiling import Memory, Profile, profiled
from lowering.sharding.partitioning import Partitioning
from lowering.stablehlo.call_tree import CallTree

_MOST_NAMED: Final = 8


@dataclass(frozen=True, slots=True)
class ProgramInfo:
    """The metadata needed to execute a program, besides XLA's executable.

    Attributes:
        name: the computation's name.
        shape: the parameters and the result.
        num_replicas, num_partitions: the number of replicas, and of partitions in each replica.
        donated: the numbers of the donated array arguments, counted with tuples flattened.
        layouts: the runtime's layout of each array argument; None where the program requests none.
        callbacks: the Python functions that the program calls.
        handlers: the registered functions that the program calls and that can report an error, as
            text for messages: "'scale', recorded at file.py:3".
        in_rows: whether the results on each device have a leading dimension of size 1, and are rows
            of arrays sharded over all devices.
        partitioning: how XLA partitions the program; None if XLA does not partition the program.
        tree: the nesting of the arguments and results of the function that the program was lowered
            from; None if the executable takes one argument for each parameter.
        compile_seconds: the time to compile the program, or to read it from the cache.
    """

    name: str
    shape: ProgramShape
    num_replicas: int = 1
    num_partitions: int = 1
    donated: frozenset[int] = frozenset()
    layouts: Sequence[Any] | None = None
    callbacks: tuple[Callable[..., Any], ...] = ()
    handlers: tuple[str, ...] = ()
    in_rows: bool = False
    partitioning: Partitioning | None = None
    tree: CallTree | None = None
    compile_seconds: float = 0.0


class CompiledProgram(Displayed, ExplainsAttributes):
    """The base class of the executables that `lowering.compile` creates.

    Attributes:
        name: the computation's name.
        program_shape: the parameters and the result.
        devices: the jax.Devices that the program runs on: the partitions of replica 0, those of
            replica 1, and so on.
    """

    __slots__ = ("__weakref__", "_info", "_loaded", "devices", "name", "program_shape")

    def __init__(self, loaded: Any, info: ProgramInfo, devices: Sequence[jax.Device]) -> None:
        self.name = info.name
        self.program_shape = info.shape
        self.devices = tuple(devices)
        self._loaded = loaded
        self._info = info

    @explained
    def hlo_text(self, *, large_constants: bool = True) -> str:
        """Return the HLO text of the optimized program: fused, with layouts, scheduled.

        `lowering.from_hlo` reads this text.

        Args:
            large_constants: whether constants of more than ten elements are written in full. If
                False, they are written as `{...}`, and the text can't be parsed again.

        Raises:
            ShapeInferenceError: `large_constants` is neither True nor False.

        Example:
            >>> import builder as xb, lowering
            >>> @xb.computation(xb.f32[16])
            ... def wave(x):
            ...     return xb.exp(xb.sin(x)) + x
            >>> text = lowering.compile(wave, "cpu").hlo_text()
            >>> text.startswith("HloModule wave"), " fusion(" in text
            (True, True)
        """
        large_constants = flag("hlo_text", "large_constants", large_constants)
        return compilation.optimized_hlo_text(self._loaded, large_constants=large_constants)

    @explained
    def compiled_shape(self) -> ProgramShape:
        """Return the parameters and the result with the layouts that the compiled program has.

        `program_shape` has only the layouts that the computation requests. XLA selects the others.

        Raises:
            ExecutionError: the platform does not report the layouts.

        Example:
            >>> import builder as xb, lowering
            >>> @xb.computation("f32[2,3]{0,1}")
            ... def total(x):
            ...     return x + x
            >>> run = lowering.compile(total, "cpu")
            >>> run.program_shape, run.compiled_shape()
            ((x: f32[2,3]{0,1}) -> f32[2,3], (x: f32[2,3]{0,1}) -> f32[2,3]{1,0})
        """
        parameters, results = self._reported("layouts", _layouts)
        shape = self.program_shape
        if self._info.in_rows:  # a result on a device has a leading dimension of size 1
            results = [_of_row(layout) for layout in results]
        remaining = iter(parameters)
        return ProgramShape(
            [_with_layouts(parameter, remaining) for parameter in shape.parameters],
            _with_layouts(shape.result, iter(results)),
            shape.parameter_names,
        )

    @explained
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the executable to a file, atomically.

        `lowering.load_executable` reads the file without compiling. Loading requires the same
        versions of jaxlib and of the platform's software, and the same kind of device. An
        executable for CPU requires all CPU features that XLA was allowed to use: those of this CPU,
        or fewer with XLA_FLAGS=--xla_cpu_max_isa=AVX2 in the environment. For a file that any
        platform can load, use `StablehloModule.save`. The nesting of arguments and results is
        written as in files of modules; see `lowering.load`.

        Args:
            path: the file.

        Raises:
            ModuleFileError: the program calls Python functions, or runs on devices of several
                processes; or the file can't be written.

        Example:
            >>> import builder as xb, lowering, pathlib, tempfile
            >>> @xb.computation(xb.f32[2])
            ... def half(x):
            ...     return x / 2.0
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     path = pathlib.Path(folder, "half.executable")
            ...     lowering.compile(half, "cpu").save(path)
            ...     lowering.load_executable(path)
            <Executable 'half' (x: f32[2]) -> f32[2] on cpu:0>
        """
        save_executable(path, self._loaded, self._info, self.devices)

    @explained
    def memory(self) -> Memory:
        """Return the memory that the program needs on each device, in bytes.

        Returns:
            A Memory with arguments, results, aliased, temporary, code and total.

        Raises:
            ExecutionError: the platform does not report the memory.

        Example:
            >>> import builder as xb, lowering
            >>> @xb.computation(xb.f32[16], xb.f32[16])
            ... def total(x, y):
            ...     return x + y
            >>> memory = lowering.compile(total, "cpu").memory()
            >>> memory.arguments, memory.results
            (128, 64)
        """
        return Memory(**self._reported("memory", compilation.compiled_memory))

    @explained
    def cost(self) -> dict[str, float]:
        """Return XLA's estimate of the cost of a run, on each device.

        Returns:
            A dict from XLA's names to numbers: "flops", the arithmetic operations
            ("transcendentals" such as sin are counted separately); "bytes accessed", the bytes read
            and written, with "bytes accessed0{}" for operand 0 and "bytes accessedout{}" for
            results; and others that depend on the platform. The body of a loop is counted once if
            XLA can't determine the number of iterations. Entries that are 0 may be missing.

        Raises:
            ExecutionError: the platform does not report the cost.

        Example:
            >>> import builder as xb, lowering
            >>> @xb.computation(xb.f32[16], xb.f32[16])
            ... def total(x, y):
            ...     return x + y
            >>> cost = lowering.compile(total, "cpu").cost()
            >>> cost["flops"], cost["bytes accessed"]
            (16.0, 192.0)
        """
        cost: dict[str, float] = self._reported("cost", compilation.compiled_cost)
        return cost

    def _reported(self, quantity: str, query: Callable[[Any], Any]) -> Any:
        try:
            return query(self._loaded)
        except (RuntimeError, AttributeError) as error:
            raise ExecutionError(
                f"{self.devices[0].platform} does not report a program's {quantity}",
                context=(self.name,),
                detail=str(error),
            ) from None

    @without_internal_frames
    def profile(self, /, *args: Any, **by_name: Any) -> Profile:
        """Execute the computation, wait for its end, and return the time of each part of the call.

        Args:
            args, by_name: the arguments of a call.

        Returns:
            A Profile with the seconds for compile, transfer, run and fetch, and the result. Its
            method `by_op` has the times of the program's ops.

        Raises:
            ArgumentError: the arguments do not match the parameters.
            ExecutionError: as for a call.

        Example:
            >>> import builder as xb, lowering, numpy as np
            >>> @xb.computation(xb.f32[2], xb.f32[2])
            ... def total(x, y):
            ...     return x + y
            >>> ones = np.ones(2, np.float32)
            >>> profile = lowering.compile(total, "cpu").profile(ones, y=ones)
            >>> profile.result, profile.run > 0
            (Array([2., 2.], dtype=float32), True)
        """
        return profiled(
            self._info.name,
            self._info.compile_seconds,
            lambda: self._prepare(args, by_name),
            self._run,
            partial(compilation.optimized_hlo_text, self._loaded, large_constants=False),
        )

    def _parts(self) -> list[Part]:
        from builder.inspection.describing import signature_table  # lazy import

        parts: list[Part] = [
            Heading(type(self).__name__, self.name, _devices_text(self.devices)),
            signature_table(self.program_shape),
        ]
        # Not all platforms report both.
        with suppress(ExecutionError):
            parts += self.memory()._parts()
        with suppress(ExecutionError):
            cost = self.cost()
            rows = [
                ["operations", flops_text(round(cost.get("flops", 0)))],
                ["transcendental functions", f"{cost.get('transcendentals', 0):,.0f}"],
                ["bytes accessed", bytes_text(round(cost.get("bytes accessed", 0)))],
            ]
            columns = (Column("estimated cost of a run"), Column("", is_number=True))
            parts.append(TextTable("", columns, rows))
        return parts

    def __copy__(self) -> Self:
        return self  # executables are immutable

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise OperandError(
            f"executable {self.name} can't be pickled",
            fix="use executable.save(path) and lowering.load_executable(path); or pickle the "
            "module: lowering.lower(computation).bytecode",
            op="pickle",
        )

    def _prepare(self, args: tuple[Any, ...], by_name: Mapping[str, Any]) -> Any:
        """Check the arguments, and put them on the devices for `_run`; subclasses define this."""
        raise NotImplementedError

    def _run(self, prepared: Any) -> Any:
        """Execute the program, and return the result; subclasses define this."""
        raise NotImplementedError


def _layouts(loaded: Any) -> tuple[list[Layout], list[Layout]]:
    """Return the layouts of the arguments and results, tuples flattened."""
    found = jax_arrays.parameter_layouts(loaded), jax_arrays.result_layouts(loaded)
    if None in found:
        raise RuntimeError("a token has no layout")
    parameters, results = (
        [parse_layout(jax_arrays.layout_text(layout)) for layout in layouts or ()]
        for layouts in found
    )
    return parameters, results


def _of_row(layout: Layout) -> Layout:
    """Return the layout of a row of an array with `layout` whose first dimension has size 1."""
    order = [dimension - 1 for dimension in layout.minor_to_major if dimension]
    return Layout(order, tiles=layout.tiles, element_size_in_bits=layout.element_size_in_bits)


def _with_layouts(shape: Shape, layouts: Iterator[Layout]) -> Shape:
    def laid_out(leaf: ArrayShape | TokenShape) -> Shape:
        layout = next(layouts)
        return leaf.with_layout(layout) if isinstance(leaf, ArrayShape) else leaf

    return fold(shape, laid_out, TupleShape)


def _devices_text(devices: Sequence[jax.Device]) -> str:
    """Return the kind of the devices, and their names or their number."""
    first = devices[0]
    platform = first.platform
    kind = platform if first.device_kind == platform else f"{first.device_kind} ({platform})"
    names = [f"{device.platform}:{device.id}" for device in devices]
    shown = ", ".join(names) if len(names) <= _MOST_NAMED else f"{len(names):,} devices"
    return f"on {kind}: {shown}"
