"""The compilation cache: a folder of executables, so that programs are not compiled again.

An entry is a file as `executable.save` writes it. Its name is a checksum of everything that the
compiler's output depends on: the module, the options (including those in XLA_FLAGS), the kind,
numbers and arrangement of the devices, the features of a CPU, and the versions of jaxlib and of the
platform's software. Source locations are omitted, so that moving a program within its source file
does not invalidate its entry. `hlo_text` therefore has the locations of the first compilation.

Several processes may use a folder at the same time. Entries are written atomically. If an entry
can't be read, the program is compiled again and the entry replaced. If the folder can't be used,
programs are compiled each time, and one warning is issued.

Four kinds of programs are never cached: programs that call Python functions of this process,
programs for devices of a topology, programs whose compilation XLA dumps (xla_dump_to), and programs
on devices of several processes. Such processes communicate while they compile: a process that found
the program in the cache would leave the other processes waiting.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import operator
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import jax

from builder.errors import OperandError, brief, error_of
from builder.graph.calls import explained
from lowering.errors import ModuleFileError
from lowering.jaxlib_api import compilation, mlir, versions
from lowering.reading.files import warn, warn_of_writers
from lowering.running.executable_file import CODE_MODE, UnusableError, packed, unpacked
from lowering.running.progress import deferred_interrupts, reported
from lowering.stablehlo.module import path_text, write_atomically

VARIABLE: Final = "XLABUILDER_COMPILATION_CACHE"
"""The environment variable that names the folder if `use_compilation_cache` is not called."""

_SUFFIX: Final = ".executable"
_DEFAULT_MAX_BYTES: Final = 1 << 30
_ABANDONED_SECONDS: Final = 3600.0
"""The age in seconds at which a temporary file is deleted, because its process must have ended."""


class _Cache:
    """A compilation cache in one folder.

    Attributes:
        folder: the folder.
        max_bytes: the maximal total size of the entries; None for no limit.
    """

    def __init__(self, folder: Path, max_bytes: int | None) -> None:
        self.folder = folder
        self.max_bytes = max_bytes
        self.has_warned = False
        self.is_checked = False

    def read(self, key: str, devices: Sequence[Any], options: Any) -> Any:
        """Return the LoadedExecutable in the entry of `key`; None if the entry can't be read."""
        if not self.is_checked:
            with contextlib.suppress(OSError):
                warn_of_writers(self.folder.stat(), str(self.folder))
            self.is_checked = True  # not if the warning is an error
        path = self.folder / (key + _SUFFIX)
        try:
            content = unpacked(path.read_bytes())
            # The checksum does not cover the name of the file.
            if content.header.get("key") != key:
                return None
            loaded = compilation.deserialize(devices, content.payload, options)
        except (FileNotFoundError, UnusableError, ValueError):
            return None
        except OSError as error:
            self.warn(error.strerror or str(error))
            return None
        with contextlib.suppress(OSError):  # a file of another user may be read-only
            os.utime(path)
        return loaded

    def write(self, key: str, devices: Sequence[Any], loaded: Any) -> None:
        """Write the entry of `key`, unless the executable is too large or can't be serialized."""
        try:
            payload = compilation.serialized(loaded)
        except ValueError:
            return  # the platform does not support it
        pieces = packed(None, devices, payload, key)
        if self.max_bytes is not None and sum(map(len, pieces)) > self.max_bytes:
            return
        try:
            self.folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            write_atomically(str(self.folder / (key + _SUFFIX)), pieces, mode=CODE_MODE)
            self.evict()
        except ModuleFileError as error:
            self.warn(str(error).partition("\n")[0])
        except OSError as error:
            self.warn(error.strerror or str(error))

    def evict(self) -> None:
        """Delete abandoned temporary files, and least recently used entries beyond `max_bytes`."""
        entries: list[tuple[float, int, str]] = []
        now = time.time()
        with os.scandir(self.folder) as files:
            for file in files:
                # Another process may have deleted it.
                with contextlib.suppress(OSError):
                    status = file.stat()
                    if file.name.endswith(_SUFFIX):
                        entries.append((status.st_mtime, status.st_size, file.path))
                    elif (
                        file.name.endswith(".tmp")
                        and _SUFFIX in file.name
                        and now - status.st_mtime > _ABANDONED_SECONDS
                    ):
                        Path(file.path).unlink()
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
        """Warn once that the cache can't be used."""
        if not self.has_warned:
            self.has_warned = True
            warn(
                f"the compilation cache {self.folder} can't be used, so programs are compiled "
                f"each time: {reason}"
            )


_LOCK: Final = threading.Lock()
_IN_USE: list[_Cache | None] = []
"""One element: the cache, or None for no cache. Empty until the environment is read."""


@explained
def use_compilation_cache(
    folder: str | os.PathLike[str] | None, *, max_bytes: int | None = _DEFAULT_MAX_BYTES
) -> None:
    """Write compiled programs to a folder, and read them instead of compiling again.

    If this function is not called, the environment variable XLABUILDER_COMPILATION_CACHE names the
    folder. If the variable is not set, there is no cache. Several processes, versions of jaxlib and
    kinds of machines may use a folder at the same time.

    Args:
        folder: the path of the folder, which is created when it is first written to; None for no
            cache. Programs in the folder are executed, so only you should be able to write to it.
            If other users can write to it, the first compilation issues a RuntimeWarning.
        max_bytes: the maximal total size of the entries; the least recently used ones are deleted.
            None for no limit.

    Raises:
        OperandError: `folder` is not a path, or `max_bytes` is not an integer, or is negative.

    Example:
        >>> import builder as xb, lowering, pathlib, tempfile
        >>> @xb.computation(xb.f32[2])
        ... def double(x):
        ...     return x + x
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     lowering.use_compilation_cache(folder)
        ...     run = lowering.compile(double, "cpu")
        ...     again = lowering.compile(double, "cpu")  # from the cache
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
            rule = "max_bytes must be an integer, 0 or more, or None"
            fix = "pass max_bytes=1 << 30 for 1 GiB"
            raise _error(rule, fix, argument="max_bytes", got=brief(max_bytes))
        max_bytes = number
    cache = None
    if folder is not None:
        text = path_text(folder, "use_compilation_cache")
        if not text or "\0" in text:
            rule, fix = "folder must be the path of a folder", "pass None for no cache"
            raise _error(rule, fix, argument="folder", got=brief(text))
        cache = _Cache(Path(text).absolute(), max_bytes)
    with _LOCK:
        _IN_USE[:] = [cache]


_error: Final = functools.partial(error_of, OperandError, "use_compilation_cache")


def _cache() -> _Cache | None:
    """Return the cache in use; None if there is none."""
    with _LOCK:
        if not _IN_USE:
            folder = os.environ.get(VARIABLE)
            _IN_USE.append(_Cache(Path(folder).absolute(), _DEFAULT_MAX_BYTES) if folder else None)
        return _IN_USE[0]


def _key(devices: Sequence[Any], code: bytes, options: Any) -> str:
    """Return the key of a program: a checksum of all that the compiler's output depends on."""
    first = devices[0]
    parts = (
        b"1",  # to be changed with the meaning of these parts
        versions.jaxlib_version().encode(),
        first.platform.encode(),
        first.device_kind.encode(),
        versions.platform_version(first).encode(),
        ",".join(compilation.host_cpu_features()).encode() if first.platform == "cpu" else b"",
        compilation.options_bytes(options),
        # Flags of a TPU's compiler for all programs, which are not among the options.
        os.environ.get("LIBTPU_INIT_ARGS", "").encode() if first.platform == "tpu" else b"",
        mlir.without_locations(code),
    )
    check = hashlib.blake2b(digest_size=32)
    for part in parts:
        check.update(len(part).to_bytes(8, "little"))
        check.update(part)
    return check.hexdigest()


def compile_or_read(
    name: str,
    devices: Sequence[jax.Device],
    code: bytes,
    options: Any,
    callbacks: Sequence[Callable[..., Any]],
    *,
    has_dumps: bool = False,
) -> Any:
    """Return XLA's executable of a module, from the cache if possible.

    Args:
        name: the name of the program.
        devices: the devices to compile for.
        code: the module's bytecode.
        options: the result of `compilation.compile_options` for these devices.
        callbacks: the Python functions that the module calls.
        has_dumps: whether the options request dumps. XLA writes dumps only when it compiles, so the
            cache is not used.

    Raises:
        ValueError: XLA can't compile the module; the message contains XLA's report.
    """
    cache = _cache()
    has_dumps = has_dumps or "xla_dump_" in os.environ.get("XLA_FLAGS", "")
    if cache is None or callbacks or has_dumps or not _is_cached(devices):
        with deferred_interrupts() as deferred, reported(name, deferred):
            return compilation.compile_and_load(devices, code, options=options, callbacks=callbacks)
    key = _key(devices, code, options)
    loaded = cache.read(key, devices, options)
    if loaded is None:
        with deferred_interrupts() as deferred, reported(name, deferred):
            loaded = compilation.compile_and_load(devices, code, options=options)
        cache.write(key, devices, loaded)
    return loaded


def _is_cached(devices: Sequence[jax.Device]) -> bool:
    """Return whether programs for these devices can be cached."""
    here = jax.process_index()
    return not any(compilation.is_absent(d) or d.process_index != here for d in devices)
