"""A program that XLA has compiled: what executables of all kinds know of it, and tell."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Self

import jax

from builder.errors import OperandError
from builder.types.shape import ProgramShape
from lowering.errors import ExecutionError
from lowering.jaxlib_api import executables
from lowering.running.executable_file import save_executable
from lowering.running.profiling import Memory, Profile, profiled
from lowering.sharding.partitioning import Partitioning

__all__ = ["CompiledProgram", "ProgramInfo"]


@dataclass(frozen=True, slots=True)
class ProgramInfo:
    """What has to be known of a program to execute it, besides what XLA made of it.

    Attributes:
        name: the computation's name.
        shape: parameters and result.
        num_replicas, num_partitions: for how many of each it was compiled.
        donated: the numbers of the arrays among the arguments that a call uses up, tuples opened.
        layouts: for each array among the arguments the runtime's layout that it is taken in; None
            where the program asks for none.
        callbacks: the Python functions that it calls.
        handlers: the functions registered by the user that it calls and that can report an error,
            for messages: "'scale', recorded at file.py:3".
        in_rows: whether its results have a leading dimension of size 1 on each device, a row of an
            array over all of them.
        partitioning: how XLA was told to cut it up; None where each device has its own arrays.
        compile_seconds: how long XLA took for it, or reading it from the cache.
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
    compile_seconds: float = 0.0


class CompiledProgram:
    """What executables of all kinds have in common. `lowering.compile` makes them.

    Attributes:
        name: the computation's name.
        program_shape: parameters and result.
        devices: the jax.Devices that it runs on: the partitions of replica 0, those of replica 1,
            and so on.
    """

    __slots__ = ("__weakref__", "_info", "_loaded", "devices", "name", "program_shape")

    def __init__(self, loaded: Any, info: ProgramInfo, devices: Sequence[jax.Device]) -> None:
        self.name = info.name
        self.program_shape = info.shape
        self.devices = tuple(devices)
        self._loaded = loaded
        self._info = info

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
        return executables.optimized_hlo_text(self._loaded, large_constants=large_constants)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the executable to a file, whole or not at all.

        `lowering.load_executable` reads it, and it runs without being compiled: under the same
        versions of jaxlib and of the platform's software, on the same kind of device; a CPU's on
        CPUs that have all that this one has, or that XLA was to use of it: with
        XLA_FLAGS=--xla_cpu_max_isa=AVX2 in the environment no more than AVX2. What runs anywhere is
        the module: `StablehloModule.save`.

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

    def memory(self) -> Memory:
        """What the program takes on each device, in bytes, as XLA has planned it.

        Returns:
            A Memory: arguments, results, aliased, temporary, code; and the total.

        Raises:
            ExecutionError: the platform does not tell.

        Example:
            >>> import builder as xb, lowering
            >>> @xb.computation(xb.f32[16], xb.f32[16])
            ... def total(x, y):
            ...     return x + y
            >>> memory = lowering.compile(total, "cpu").memory()
            >>> memory.arguments, memory.results
            (128, 64)
        """
        return Memory(**self._told("memory", executables.compiled_memory))

    def cost(self) -> dict[str, float]:
        """What XLA reckons that a run costs, on each device.

        Returns:
            Numbers by XLA's names: "flops", the operations of numbers ("transcendentals" such as
            sin are counted apart); "bytes accessed", the bytes read and written, with "bytes
            accessed0{}" for operand 0 and "bytes accessedout{}" for results; and others that
            the platform has. What a loop does is counted once where XLA doesn't know how often
            it runs. What is 0 may be left out.

        Raises:
            ExecutionError: the platform does not tell.

        Example:
            >>> import builder as xb, lowering
            >>> @xb.computation(xb.f32[16], xb.f32[16])
            ... def total(x, y):
            ...     return x + y
            >>> cost = lowering.compile(total, "cpu").cost()
            >>> cost["flops"], cost["bytes accessed"]
            (16.0, 192.0)
        """
        found: dict[str, float] = self._told("cost", executables.compiled_cost)
        return found

    def _told(self, what: str, ask: Callable[[Any], Any]) -> Any:
        try:
            return ask(self._loaded)
        except (RuntimeError, AttributeError) as error:
            raise ExecutionError(
                f"{self.name}: {self.devices[0].platform} does not tell the program's {what}",
                detail=str(error),
            ) from None

    def profile(self, /, *args: Any, **by_name: Any) -> Profile:
        """Executes the computation, waits for it, and says what took how long.

        Args:
            args, by_name: the arguments, as for a call.

        Returns:
            A Profile: seconds for compile, transfer, run and fetch; and the result.

        Raises:
            ArgumentError: the arguments are not those that the computation takes.
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
        return profiled(self._info.compile_seconds, self._take, self._go, args, by_name)

    def __copy__(self) -> Self:
        return self  # nothing in it changes

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise OperandError(
            f"pickle: executable {self.name} can't be pickled\n"
            f"fix: executable.save(path) and lowering.load_executable(path); or pickle the "
            f"module: lowering.lower(computation).bytecode()",
            op="pickle",
        )

    def _take(self, args: tuple[Any, ...], by_name: Mapping[str, Any]) -> Any:
        """What `_go` is given: the arguments, looked at, on the devices."""
        return args, by_name

    def _go(self, taken: Any) -> Any:
        """Executes the program, and gives the result."""
        args, by_name = taken
        call: Any = self
        return call(*args, **by_name)
