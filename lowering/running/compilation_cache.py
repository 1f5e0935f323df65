"""The compilation cache: executables on disk, which are read instead of compiled again.

An entry is a file as `executable.save` writes it, named by a checksum of all that XLA's work
depends on: the module, the options (those of XLA_FLAGS too), the devices' kind, numbers and
arrangement, the features of a CPU, and the versions of jaxlib and of the platform's software. Where
in a source file an operation was recorded is left out: a line that is added above would otherwise
have everything compiled anew. So what `hlo_text` says of source lines is of the program that was
compiled first.

Several processes may use a folder at the same time. An entry appears under its name whole, or not
at all; one that can't be read is compiled again and replaced. The cache is a convenience: if it
can't be used, programs are compiled, and there is one warning.

Never kept are programs that call Python functions of this process, those for devices that are not
there, those of which XLA is to write down how it compiles them (xla_dump_to), and those on devices
of several processes, which talk to each other while they compile: one that found the program would
leave the others waiting.
"""

from __future__ import annotations

import contextlib
import hashlib
import operator
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import jax

from builder.errors import OperandError, brief
from builder.support.caller import caller_frame
from lowering.errors import ModuleFileError
from lowering.jaxlib_api import compilation, executables, mlir, topologies, versions
from lowering.running.executable_file import packed, unpacked
from lowering.running.interrupts import answered_afterwards
from lowering.stablehlo.module import path_text, write_whole

__all__ = ["compile_or_read", "use_compilation_cache"]

VARIABLE: Final = "XLABUILDER_COMPILATION_CACHE"
"""The environment variable that names a folder, for programs that name none themselves."""

_SUFFIX: Final = ".executable"
_MOST: Final = 1 << 30
_LEFT_OVER: Final = 3600.0
"""A file that was begun so many seconds ago is one of a process that died."""


class _Cache:
    """A folder of entries.

    Attributes:
        folder: where they are.
        max_bytes: how large they may be together; None for any size.
    """

    def __init__(self, folder: Path, max_bytes: int | None) -> None:
        self.folder = folder
        self.max_bytes = max_bytes
        self.has_warned = False

    def read(self, key: str, devices: Sequence[Any], options: Any) -> Any:
        """The LoadedExecutable under a key; None if there is none, or none that can be read."""
        path = self.folder / (key + _SUFFIX)
        try:
            content = unpacked(path.read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            self.warn(error.strerror or str(error))
            return None
        # The name of a file is no part of its checksum.
        if isinstance(content, str) or content.header.get("key") != key:
            return None
        try:
            loaded = executables.deserialize(devices, content.payload, options)
        except ValueError:
            return None
        with contextlib.suppress(OSError):  # that of others may be read, and not touched
            os.utime(path)
        return loaded

    def write(self, key: str, devices: Sequence[Any], loaded: Any) -> None:
        """Enters an executable under a key."""
        try:
            payload = executables.serialized(loaded)
        except ValueError:
            return  # this platform can't do that
        pieces = packed(None, devices, payload, key)
        if self.max_bytes is not None and sum(map(len, pieces)) > self.max_bytes:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(str(self.folder / (key + _SUFFIX)), pieces)
            self.make_room()
        except ModuleFileError as error:
            self.warn(str(error).partition("\n")[0])
        except OSError as error:
            self.warn(error.strerror or str(error))

    def make_room(self) -> None:
        """Deletes the entries that were used least recently, until the others fit."""
        entries: list[tuple[float, int, str]] = []
        now = time.time()
        with os.scandir(self.folder) as found:
            for one in found:
                # Of several processes another may have deleted it already.
                with contextlib.suppress(OSError):
                    facts = one.stat()
                    if one.name.endswith(_SUFFIX):
                        entries.append((facts.st_mtime, facts.st_size, one.path))
                    elif (
                        one.name.endswith(".tmp")
                        and _SUFFIX in one.name
                        and now - facts.st_mtime > _LEFT_OVER
                    ):
                        Path(one.path).unlink()
        if self.max_bytes is None:
            return
        excess = sum(size for _, size, _ in entries) - self.max_bytes
        for _, size, path in sorted(entries):
            if excess <= 0:
                break
            with contextlib.suppress(OSError):
                Path(path).unlink()
            excess -= size

    def warn(self, reason: str) -> None:
        """Says once that the cache can't be used."""
        if not self.has_warned:
            self.has_warned = True
            # At the line that compiles something, however far up.
            frame = caller_frame(sys._getframe())
            file, line = (
                ("<unknown>", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)
            )
            warnings.warn_explicit(
                f"the compilation cache {self.folder} can't be used, programs are compiled each "
                f"time: {reason}",
                RuntimeWarning,
                file,
                line,
            )


_LOCK: Final = threading.Lock()
_IN_USE: list[_Cache | None] = []
"""The cache, or None for none; empty until somebody asks, when the environment is looked at."""


def use_compilation_cache(
    folder: str | os.PathLike[str] | None, *, max_bytes: int | None = _MOST
) -> None:
    """Has this process keep what it compiles in a folder, and read from there what it finds.

    Without a call the environment variable XLABUILDER_COMPILATION_CACHE names the folder; without
    that there is no cache. A folder may be used by several processes and versions at the same time,
    and by machines of other kinds.

    Args:
        folder: is made when it is first written to. What is read from it is run: name one that
            only those can write to whose programs you would run. None for no cache.
        max_bytes: how large the entries may be together; the ones that were used least recently
            are deleted. None for any size.

    Raises:
        OperandError: `folder` is no path, or `max_bytes` no number.

    Example:
        >>> import builder as xb, lowering, pathlib, tempfile
        >>> @xb.computation(xb.f32[2])
        ... def double(x):
        ...     return x + x
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     lowering.use_compilation_cache(folder)
        ...     run = lowering.compile(double, "cpu")
        ...     again = lowering.compile(double, "cpu")  # is read
        ...     lowering.use_compilation_cache(None)
        ...     len(list(pathlib.Path(folder).iterdir()))
        1
    """
    if max_bytes is not None:
        try:
            number = -1 if isinstance(max_bytes, bool) else operator.index(max_bytes)
        except TypeError:
            number = -1
        if number < 0:
            raise OperandError(
                f"use_compilation_cache: max_bytes must be a whole number, 0 or more, or None, "
                f"got {brief(max_bytes)}\nfix: max_bytes=1 << 30 for 1 GiB",
                op="use_compilation_cache",
            )
        max_bytes = number
    made = None
    if folder is not None:
        text = path_text(folder, "use_compilation_cache")
        if not text or "\0" in text:
            raise OperandError(
                f"use_compilation_cache: a folder has a name, got {brief(text)}\n"
                f"fix: None for no cache",
                op="use_compilation_cache",
            )
        made = _Cache(Path(text).absolute(), max_bytes)
    with _LOCK:
        _IN_USE[:] = [made]


def _cache() -> _Cache | None:
    """The cache that is used, if one is."""
    with _LOCK:
        if not _IN_USE:
            named = os.environ.get(VARIABLE)
            _IN_USE.append(_Cache(Path(named).absolute(), _MOST) if named else None)
        return _IN_USE[0]


def _key(devices: Sequence[Any], code: bytes, options: Any) -> str:
    """A checksum of all that the result of compiling depends on."""
    one = devices[0]
    parts = (
        b"1",  # to be changed with what is said of these parts
        versions.jaxlib_version().encode(),
        one.platform.encode(),
        one.device_kind.encode(),
        versions.platform_version(one).encode(),
        ",".join(executables.host_cpu_features()).encode() if one.platform == "cpu" else b"",
        compilation.options_bytes(options),
        # Flags of a TPU's compiler for all programs, which are not among the options.
        os.environ.get("LIBTPU_INIT_ARGS", "").encode() if one.platform == "tpu" else b"",
        mlir.without_locations(code),
    )
    check = hashlib.blake2b(digest_size=32)
    for part in parts:
        check.update(len(part).to_bytes(8, "little"))
        check.update(part)
    return check.hexdigest()


def compile_or_read(
    devices: Sequence[jax.Device],
    code: bytes,
    options: Any,
    callbacks: Sequence[Callable[..., Any]],
    *,
    has_dumps: bool = False,
) -> Any:
    """What XLA makes of a module, from the cache if it is there.

    Args:
        devices: those that are compiled for.
        code: the module's bytecode.
        options: as `compilation.compile_options` made them of these devices.
        callbacks: the Python functions that the module calls.
        has_dumps: whether XLA is to write down what it does, which it does not of what is read.

    Raises:
        ValueError: XLA refuses it; the text holds XLA's report.
    """
    cache = _cache()
    has_dumps = has_dumps or "xla_dump_" in os.environ.get("XLA_FLAGS", "")
    if cache is None or callbacks or has_dumps or not _is_kept(devices):
        with answered_afterwards():
            return compilation.compile_and_load(devices, code, options=options, callbacks=callbacks)
    key = _key(devices, code, options)
    loaded = cache.read(key, devices, options)
    if loaded is None:
        with answered_afterwards():
            loaded = compilation.compile_and_load(devices, code, options=options)
        cache.write(key, devices, loaded)
    return loaded


def _is_kept(devices: Sequence[jax.Device]) -> bool:
    """Whether programs for these devices are kept."""
    here = jax.process_index()
    return not any(topologies.is_absent(d) or d.process_index != here for d in devices)
