"""Read a damaged file and judge the outcome; with the argument "run", compile and run it too.

The file may still be a program, which is lowered and verified. Or it is refused with a short error
of this library that has a position. Any other outcome is a defect.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from unittest import mock

import jax
import numpy as np

import lowering
from builder.errors import XlaError
from builder.types.shape import ArrayShape
from lowering.importer import hlo, refinement
from lowering.importer.hlo import is_hlo
from lowering.jaxlib_api import mlir
from lowering.reading import module_reader
from lowering.reading.helper_process import HelperError
from tests.fuzz.workers import has_large_arrays

__all__ = ["HANG_SECONDS", "REFUSED", "attempt", "reading_by_fork"]

HANG_SECONDS: Final = 10.0
"""The limit of CPU time for an input."""

REFUSED: Final = "refused"


def attempt(data: bytes, path: str, stage: Callable[[str], None]) -> tuple[str, str]:
    """Return the kind of outcome ("ok", "refused", or a defect) and the message.

    Args:
        data: the content of the file.
        path: the path to write it to.
        stage: is called with the name of each stage.
    """
    Path(path).write_bytes(data)
    try:
        stage("load")
        if is_hlo(data):
            computation = lowering.from_hlo(Path(path))
        else:
            module = lowering.load(path)
            stage("to_computation")
            computation = lowering.to_computation(module)
        stage("lower")
        again = lowering.lower(computation)
        stage("verify")
        again.verify()
    except XlaError as error:
        return _judged(error, path)
    except Exception as error:
        return _defect(error)
    return "ok", ""


def attempt_run(data: bytes, path: str, stage: Callable[[str], None]) -> tuple[str, str]:
    """Load, compile and run a module; the arguments and the result are those of `attempt`."""
    Path(path).write_bytes(data)
    try:
        stage("load")
        module = lowering.load(path)
        stage("compile")
        program = lowering.compile(module, "cpu")
        if has_large_arrays(data):
            return "ok", ""
        stage("run")
        arguments: list[Any] = [
            np.ones(shape.dimensions, shape.element_type.dtype)
            for shape in module.program_shape.parameters
            if isinstance(shape, ArrayShape)
        ]
        jax.block_until_ready(program(*arguments))
    except lowering.CompileError as error:
        is_nameless = "XLA can't compile" in str(error) and "recorded at" not in str(error)
        return "nameless" if is_nameless else REFUSED, str(error)
    except XlaError as error:
        return REFUSED, str(error)
    except Exception as error:
        return _defect(error)
    return "ok", ""


def _judged(error: XlaError, path: str) -> tuple[str, str]:
    """Check the message of an error."""
    message = str(error)
    if isinstance(error, lowering.ModuleFileError):
        if not message.startswith(path):
            return "nameless", f"without the file's name: {message}"
        if error.line is not None and f"line {error.line}, column {error.column}" not in message:
            return "placeless", f"without line {error.line}: {message}"
    elif not isinstance(error, lowering.LoweringError):
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} from {Path(frame.filename).name}", message
    if len(message) > 4000:
        return "long", message
    return REFUSED, message


def _defect(error: Exception) -> tuple[str, str]:
    """Return the exception and the function of this library that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [
        frame for frame in frames if "/builder/" in frame.filename or "/lowering/" in frame.filename
    ]
    last = (own or frames)[-1]
    place = f"{Path(last.filename).name}:{last.name}"
    return f"{type(error).__name__} in {place}", "".join(traceback.format_exception(error))[-4000:]


@contextlib.contextmanager
def reading_by_fork() -> Iterator[None]:
    """Use a fork of this process as the helper process, which starts much faster."""
    with (
        mock.patch.object(module_reader, "in_helper", _read_in_a_copy),
        mock.patch.object(hlo, "in_helper", _read_in_a_copy),
        mock.patch.object(refinement, "in_helper", _read_in_a_copy),
    ):
        yield


def _read_in_a_copy(task: Callable[[bytes], bytes], source: bytes, *, crash_reason: str) -> bytes:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        signal.setitimer(signal.ITIMER_PROF, HANG_SECONDS / 2)
        # A process with corrupted memory may also block; and the fork must not return from here.
        signal.setitimer(signal.ITIMER_REAL, 4 * HANG_SECONDS)
        refused, result = None, b""
        try:
            result = task(source)
        except mlir.UnreadableModuleError as error:
            refused = [error.reason, error.line, error.column, error.detail]
        except BaseException:
            os._exit(1)
        with os.fdopen(writing, "wb") as answer:
            answer.write(json.dumps({"refused": refused}).encode() + b"\n" + result)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer_pipe:
        answer_bytes = answer_pipe.read()
    os.waitpid(child, 0)
    if not answer_bytes:
        raise HelperError(crash_reason)
    head, _, result = answer_bytes.partition(b"\n")
    refused = json.loads(head)["refused"]
    if refused is not None:
        raise HelperError(*refused)
    return result


def main() -> None:
    """Read inputs from standard input and write the outcomes to standard output.

    An input is its length in 8 bytes and its content. An answer is the names of the stages, the
    kind of outcome after a dot, and the message, one line each.
    """
    import faulthandler

    faulthandler.enable()
    judge = attempt_run if sys.argv[1:] == ["run"] else attempt
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # printed text must not mix with answers

    def write(line: str) -> None:
        answers.write(line.replace("\\", "\\\\").replace("\n", "\\n") + "\n")
        answers.flush()

    with reading_by_fork(), tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "damaged.mlir"))
        while head := sys.stdin.buffer.read(8):
            data = sys.stdin.buffer.read(int.from_bytes(head, "little"))
            # SIGPROF ends the process even in native code.
            signal.setitimer(signal.ITIMER_PROF, HANG_SECONDS)
            kind, message = judge(data, path, write)
            signal.setitimer(signal.ITIMER_PROF, 0)
            write(f".{kind}")
            write(message)


if __name__ == "__main__":
    main()
