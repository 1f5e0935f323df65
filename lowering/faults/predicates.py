"""Whether a program shows a fault: it crashes, has wrong results or NaNs, or a command fails.

Commands, and `xlabuilder run --input`, take the arguments of a program as an .npz file.
"""

from __future__ import annotations

import io
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

import jax
import numpy as np

from builder.errors import OperandError, XlaError, brief, error_of
from builder.graph.calls import explained
from builder.graph.computation import XlaComputation
from builder.graph.xla_op import constant_value
from builder.types.shape import ArrayShape, ProgramShape, leaves
from lowering.errors import CompileError, ExecutionError, LoweringError
from lowering.interpreter.comparing import compare
from lowering.interpreter.evaluating import nested_value
from lowering.mlir.types import leaf_paths
from lowering.pjrt.devices import DeviceLike, device_argument
from lowering.running.compiling import compile
from lowering.running.worker_process import WorkerProcess
from lowering.stablehlo.lower import lower
from lowering.stablehlo.module import from_bytes

Array = np.ndarray[Any, Any]


def npz_of_arrays(arrays: Mapping[str, Array]) -> bytes:
    """Return the content of an .npz file; of the types of ml_dtypes it has the raw bytes.

    NumPy can't read arrays of these types.
    """
    stored: dict[str, Any] = {
        name: array if array.dtype.isbuiltin == 1 else array.view(f"V{array.dtype.itemsize}")
        for name, array in arrays.items()
    }
    buffer = io.BytesIO()
    np.savez(buffer, **stored)
    return buffer.getvalue()


def npz_of_arguments(program: ProgramShape, arguments: Sequence[Any]) -> bytes:
    """Return an .npz file with each array of the arguments by its name, such as x[0][1]."""
    values = jax.tree.leaves(list(arguments))
    names = [name for name, _ in _arrays(program)]
    return npz_of_arrays(dict(zip(names, map(np.asarray, values), strict=True)))


def arguments_in(program: ProgramShape, path: Path) -> list[Any]:
    """Return the arguments of a program from a file that `npz_of_arguments` wrote."""
    with np.load(path) as file:
        arrays = iter([file[n].view(leaf.element_type.dtype) for n, leaf in _arrays(program)])
    return [nested_value(shape, lambda _: next(arrays)) for shape in program.parameters]


def _arrays(program: ProgramShape) -> Iterator[tuple[str, ArrayShape]]:
    """Yield the name and the shape of each array of the parameters; tokens are left out."""
    for name, shape in zip(program.parameter_names, program.parameters, strict=True):
        for path, leaf in zip(leaf_paths(shape), leaves(shape), strict=True):
            if isinstance(leaf, ArrayShape):
                yield f"{name}{path}", leaf


Predicate = Callable[..., bool]
"""Called with a computation and an argument for each parameter."""

PLACE: Final = "{}"
"""What `command` replaces by the path of the program."""


class Isolated:
    """A predicate that compiles and runs programs in another process.

    Attributes:
        needs_values: whether the results of the program matter, so that arguments of its parts must
            be values that it computes.
    """

    needs_values = False

    def __init__(self, device: str | None, message: str, seconds: float) -> None:
        self.device = device
        self.message = message
        self._worker = WorkerProcess(run_file, seconds)
        self._folder = tempfile.TemporaryDirectory()

    def __call__(self, computation: XlaComputation, /, *arguments: Any) -> bool:
        path = Path(self._folder.name, "program")
        try:
            path.with_suffix(".mlirbc").write_bytes(lower(computation).bytecode)
        except LoweringError:
            return False
        content = npz_of_arguments(computation.program_shape, arguments)
        path.with_suffix(".npz").write_bytes(content)
        answer, reason = self._worker.ask([str(path), self.device])
        if reason:
            return not self.message or self.message in reason
        return bool(self.message) and self.message in answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process; the end of a ``with`` block does it too."""
        self._worker.end()
        self._folder.cleanup()


@explained
def crashes(device: str | None = None, *, message: str = "", seconds: float = 60) -> Isolated:
    """Return the predicate that compiling or running a program ends the process, or hangs.

    Args:
        device: "cpu", "gpu:1", ...; None for jax's default device.
        message: if present, the fault is instead an error of the compiler or the device that
            contains this text.
        seconds: how long a program may take.

    Example:
        >>> import builder as xb, lowering, numpy as np
        >>> @xb.computation(xb.f32[2])
        ... def double(x):
        ...     return x + x
        >>> with lowering.faults.crashes("cpu") as fails:
        ...     fails(double, np.ones(2, np.float32))
        False
    """
    device_argument("crashes", device)
    return Isolated(device, message, seconds)


def run_file(request: list[Any]) -> str:
    """Run a program in the worker; return the message of its error, or ""."""
    path, device = request
    module = from_bytes(Path(path).with_suffix(".mlirbc").read_bytes(), None)
    try:
        run = compile(module, device)
        results = run(*arguments_in(module.program_shape, Path(path).with_suffix(".npz")))
        jax.tree.map(np.asarray, results)  # waits for them
    except (CompileError, ExecutionError) as error:
        return f"{error}\n{getattr(error, 'detail', '')}"
    return ""


@explained
def differs(
    device: DeviceLike = None,
    *,
    ulps: float | None = None,
    reference: str | jax.Device | Mapping[str, Any] = "interpreter",
    timeout: float | None = 60,
) -> Predicate:
    """Return the predicate that a device has other values than a reference: `lowering.compare`.

    Args:
        device: a jax.Device, "cpu", "gpu:1", ...; None for jax's default device.
        ulps: the tolerance for all ops; None for those of `lowering.compare`.
        reference: "interpreter"; "f64", the CPU in double precision, which also finds ops whose
            rounding errors another op amplifies; another device; or compile options.
        timeout: the time limit of each run of the interpreter, in seconds.

    Raises:
        DeviceError: the device does not exist, or this process can't use it.
        OperandError: `reference` is none of these; another computation has no counterpart of a
            part of the program.

    Example:
        >>> import builder as xb, lowering, numpy as np
        >>> @xb.computation(xb.f32[2])
        ... def double(x):
        ...     return x + x
        >>> lowering.faults.differs("cpu")(double, np.ones(2, np.float32))
        False
    """
    target = device_argument("differs", device)
    if isinstance(reference, XlaComputation):
        rule = "reference must be an evaluation of the same program, not another computation"
        fix = "call lowering.compare(computation, *args, reference=...), which names the first op"
        raise error_of(OperandError, "differs", rule, fix, got=brief(reference))
    is_named = isinstance(reference, str) and reference in ("interpreter", "f64")
    if not is_named and not isinstance(reference, Mapping):
        device_argument("differs", reference)

    def predicate(computation: XlaComputation, /, *arguments: Any) -> bool:
        try:
            found = compare(
                computation,
                *arguments,
                device=target,
                ulps=ulps,
                reference=reference,
                timeout=timeout,
            )
        except XlaError:
            return False
        return not found.agrees

    return predicate


@explained
def is_not_finite(device: DeviceLike = None) -> Predicate:
    """Return the predicate that a result has a NaN or an infinity, although no argument has one.

    If the program has an infinite constant, such as that of a mask, only NaNs count.

    Args:
        device: a jax.Device, "cpu", "gpu:1", ...; None for jax's default device.

    Example:
        >>> import builder as xb, lowering, numpy as np
        >>> @xb.computation(xb.f32[2])
        ... def inverse(x):
        ...     return 1.0 / x
        >>> is_bad = lowering.faults.is_not_finite("cpu")
        >>> is_bad(inverse, np.float32([1, 0])), is_bad(inverse, np.float32([1, 2]))
        (True, False)
    """
    target = device_argument("is_not_finite", device)

    def predicate(computation: XlaComputation, /, *arguments: Any) -> bool:
        if not _are_all(np.isfinite, arguments):
            return False
        parts = (computation, *computation.called_computations())
        constants = [constant_value(op) for part in parts for op in part.ops]
        is_right = np.isfinite if _are_all(np.isfinite, constants) else _is_number
        try:
            return not _are_all(is_right, compile(computation, target)(*arguments))
        except XlaError:
            return False

    return predicate


def _is_number(array: np.ndarray[Any, Any]) -> Any:
    return ~np.isnan(array)


def _are_all(test: Callable[[Any], Any], values: Any) -> bool:
    """Return whether all inexact elements of arrays pass a test; None stands for no array."""
    for leaf in jax.tree.leaves(values):
        array = np.asarray(leaf)
        if jax.numpy.issubdtype(array.dtype, jax.numpy.inexact):
            wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
            if not test(wide).all():
                return False
    return True


@explained
def command(line: str, *, status: int | None = None, seconds: float = 60) -> Command:
    """Return the predicate that a command fails on the StableHLO text of a program.

    Args:
        line: the command; ``{}`` stands for the path of the file, which has the suffix ``.mlir``.
            The arguments are next to it, in an ``.npz`` file of the same name. No shell interprets
            the line.
        status: the exit status that counts as the fault; a negative number is a signal. None for
            any status but 0; a command that takes too long then counts too.
        seconds: the time limit.

    Raises:
        OperandError: the line does not contain ``{}``.

    Example:
        >>> import lowering
        >>> is_bad = lowering.faults.command("my-compiler {} -o /dev/null")
    """
    if not isinstance(line, str) or PLACE not in line:
        rule = "the command must contain {}, for the path of the program"
        raise error_of(OperandError, "command", rule, got=brief(line))

    return Command(line, status, seconds)


class Command:
    """The predicate that a command fails; see `command`."""

    needs_values = False

    def __init__(self, line: str, status: int | None, seconds: float) -> None:
        self.line = line
        self.status = status
        self.seconds = seconds

    def __call__(self, computation: XlaComputation, /, *arguments: Any) -> bool:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "program.mlir")
            try:
                path.write_text(lower(computation).text, encoding="utf-8")
            except LoweringError:
                return False
            content = npz_of_arguments(computation.program_shape, arguments)
            path.with_suffix(".npz").write_bytes(content)
            words = [word.replace(PLACE, str(path)) for word in shlex.split(self.line)]
            try:
                done = subprocess.run(words, capture_output=True, timeout=self.seconds, check=False)
            except subprocess.TimeoutExpired:
                return self.status is None
            except OSError as error:
                rule = f"the command can't be started: {error}"
                got = brief(self.line)
                raise error_of(OperandError, "command", rule, got=got) from None
        return bool(done.returncode) if self.status is None else done.returncode == self.status
