"""Compile C and C++ source to shared libraries, cached in a folder of the user.

A library is built again if anything that determines it changes: the source and the files that the
source includes, the flags, the compiler and its version, jaxlib's version.

A cache entry consists of two files. The .json file has the library's file name and a hash of each
included file; its own name is the hash of the inputs that are known before compiling. The library
(.so) is named by the hash of its bytes; if the bytes have another hash, it is built again. Both
files are written under temporary names and then renamed, the .json file last. So several processes
may build at the same time, and a killed process leaves no partial entry.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import re
import secrets
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import jaxlib.version

from builder.errors import OperandError, brief, error_of
from lowering.errors import CompileError
from lowering.jaxlib_api.lazy_jax import jax
from lowering.reading.files import warn_of_writers

_LANGUAGES: Final = {".c": "c", ".cc": "c++", ".cpp": "c++", ".cxx": "c++", ".cu": "c++"}
"""The language of a source file, by the file's suffix."""

_COMPILERS: Final = {
    "c++": ("CXX", ("g++", "c++", "clang++")),
    "c": ("CC", ("gcc", "cc", "clang")),
}
"""For each language: the environment variable that names the compiler, and the compilers to try if
the variable is not set."""

operand_error: Final = functools.partial(error_of, OperandError, "ffi.build")
compile_error: Final = functools.partial(error_of, CompileError, "ffi.build")


def _reason(error: OSError | ValueError) -> str:
    return getattr(error, "strerror", None) or str(error)


@dataclass(frozen=True, slots=True)
class NativeSource:
    """A C or C++ source to compile.

    Attributes:
        text: the source code.
        language: "c" or "c++".
        file: the file that the source was read from: #include lines are relative to its folder.
            None for source that was passed as text.
    """

    text: str
    language: str
    file: Path | None = None


@dataclass(frozen=True, slots=True)
class SharedLibrary:
    """A compiled library.

    Attributes:
        path: the path of the library.
        identity: a hash of the source, the included files, the flags, the compiler and jaxlib's
            version, as 64 hexadecimal digits.
    """

    path: Path
    identity: str


def read_source(source: Any, language: Any) -> NativeSource:
    """Return the source that a user passed as text, or as the path of a file.

    Raises:
        OperandError: the source is neither text nor a path, or its language is unsupported.
        CompileError: the file can't be read.
    """
    if language is not None and (not isinstance(language, str) or language not in _COMPILERS):
        raise operand_error("language must be 'c' or 'c++'", got=brief(language))
    if isinstance(source, str):
        if "\n" in source or Path(source).suffix not in _LANGUAGES:
            if not source.strip():
                raise operand_error("source must be C or C++ code, got an empty string")
            if "\0" in source:
                raise operand_error("source must not contain the character NUL")
            return NativeSource(source, language or "c++")
    elif not isinstance(source, os.PathLike):
        raise operand_error("source must be C or C++ code or a path", got=brief(source))
    path: Any = os.fspath(source)
    file = Path(os.fsdecode(path))
    if file.suffix not in _LANGUAGES:
        suffixes = ", ".join(_LANGUAGES)
        raise operand_error(f"a C or C++ file must end in {suffixes}", got=brief(str(file)))
    try:
        text = file.read_text()
    except (OSError, ValueError) as error:
        raise compile_error(f"{file} can't be read: {_reason(error)}") from None
    return NativeSource(text, language or _LANGUAGES[file.suffix], file.absolute())


def shared_library(
    source: NativeSource, flags: Sequence[str], compiler: Any, folder: Any
) -> SharedLibrary:
    """Return the library of a source from the cache, or compile the source.

    Args:
        source: the source.
        flags: flags for the compiler, appended to the default ones.
        compiler: the compiler's name or path; None for the environment variable or the defaults in
            `_COMPILERS`.
        folder: the path of the folder of libraries; None for the user's cache folder.

    Raises:
        CompileError: there is no compiler, the compiler refuses the source, or the folder can't be
            used.
    """
    compiler_command = _compiler_command(source.language, compiler)
    command = [*compiler_command, *_FLAGS[source.language]]
    # -isystem, not -I: excludes jaxlib's headers from warnings and from -MMD.
    command += ["-isystem", jax.ffi.include_dir(), *flags]
    inputs = [
        source.text,
        str(source.file),
        command,
        _version(*_stamped(compiler_command)),
        jaxlib.version.__version__,
    ]
    key = _hash(json.dumps(inputs).encode())
    cache = _folder(folder)
    entry = cache / f"{key}.json"
    cached = _read_entry(entry, key)
    if cached is not None:
        return cached
    try:
        _remove_abandoned(cache)
        with tempfile.TemporaryDirectory(dir=cache, prefix=_SCRATCH) as scratch:
            compiled, included = _compile(source, command, Path(scratch))
            content = compiled.read_bytes()
            library = cache / f"{_hash(content)}.so"
            compiled.replace(library)
        files = {str(file): _hash(file.read_bytes()) for file in included}
        temporary = entry.with_name(f".{entry.name}.{secrets.token_hex(6)}.tmp")
        temporary.write_text(json.dumps({"included": files, "library": library.name}))
        temporary.replace(entry)
    except OSError as error:
        raise _unusable(cache, error) from None
    return SharedLibrary(library, _identity(key, files))


_FLAGS: Final = {
    "c++": ("-std=c++17", "-O2", "-shared", "-fPIC", "-pthread"),
    "c": ("-O2", "-shared", "-fPIC", "-pthread"),
}

_SCRATCH: Final = ".building-"
_ABANDONED_SECONDS: Final = 24 * 3600.0
"""A scratch folder that is older than this many seconds belongs to a killed process."""


def _remove_abandoned(cache: Path) -> None:
    """Remove the scratch folders of killed processes."""
    for scratch in cache.glob(f"{_SCRATCH}*"):
        with contextlib.suppress(OSError):
            if time.time() - scratch.stat().st_mtime > _ABANDONED_SECONDS:
                shutil.rmtree(scratch)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _identity(key: str, files: dict[str, str]) -> str:
    return _hash(json.dumps([key, sorted(files.items())]).encode())


# The compiler


def _compiler_command(language: str, compiler: Any) -> tuple[str, ...]:
    """Return the compiler's path, and the compiler arguments in the environment variable."""
    variable, defaults = _COMPILERS[language]
    if compiler is not None:
        if not isinstance(compiler, (str, os.PathLike)) or not os.fspath(compiler):
            raise operand_error(
                "compiler must be the name or the path of a compiler", got=brief(compiler)
            )
        candidates, origin = [[os.fspath(compiler)]], "compiler"
    elif os.environ.get(variable, "").strip():
        origin = variable
        try:
            candidates = [shlex.split(os.environ[variable])]
        except ValueError:  # an unterminated quotation
            candidates = [[os.environ[variable]]]
    else:
        candidates, origin = [[name] for name in defaults], ""
    for name, *arguments in candidates:
        path = shutil.which(name)
        if path is not None:
            return path, *arguments
    reason = f"none of {', '.join(defaults)} exists"
    if origin:
        reason = f"{origin} names {brief(candidates[0][0])}, which does not exist"
    raise compile_error(
        f"no compiler for {language.upper()} was found: {reason}",
        f"install a compiler (apt install g++, dnf install gcc-c++, xcode-select --install), or "
        f"pass its path as compiler=..., or set {variable} in the environment",
    )


def _stamped(command: tuple[str, ...]) -> tuple[tuple[str, ...], int, int]:
    status = Path(command[0]).stat()
    return command, status.st_mtime_ns, status.st_size


@functools.lru_cache(maxsize=16)
def _version(command: tuple[str, ...], _modified: int, _size: int) -> str:
    """Return the version text of a compiler, cached until the compiler's file changes."""
    try:
        return _run([*command, "--version"], None).stdout
    except OSError:  # not a program: compiling raises the error
        return ""


def _run(command: Sequence[str], folder: Path | None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(command),
        cwd=folder,
        # `_first_errors` searches for English words.
        env={**os.environ, "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )


def _compile(
    source: NativeSource, command: Sequence[str], scratch: Path
) -> tuple[Path, list[Path]]:
    """Compile the source; return the library and the included files except system headers."""
    file = source.file
    if file is None:
        file = Path("source.c" if source.language == "c" else "source.cc")
        (scratch / file).write_text(source.text)
    outputs = ["-o", "library.so", "-MMD", "-MF", "included.d"]
    # The linker requires libraries after the source that uses them.
    libraries = [word for word in command if word.startswith("-l")]
    others = [word for word in command if not word.startswith("-l")]
    try:
        done = _run([*others, *outputs, str(file), *libraries], scratch)
    except OSError as error:
        raise compile_error(
            f"{command[0]} can't be started: {_reason(error)}",
            "pass another compiler: compiler=...",
        ) from None
    library = scratch / "library.so"
    if done.returncode != 0 or not library.is_file():
        raise compile_error(
            f"{Path(command[0]).name} can't compile the source:\n{_first_errors(done.stdout)}",
            "correct these lines; the full report is the error's `detail`",
            detail=f"{shlex.join(done.args)}\n{done.stdout}",
        )
    try:
        dependencies = (scratch / "included.d").read_text()
    except OSError:  # the compiler does not support -MMD
        dependencies = ""
    names = dependencies.replace("\\\n", " ").partition(": ")[2]
    files = [Path(name.replace("\\ ", " ")) for name in re.findall(r"(?:\\ |\S)+", names)]
    absolute = [scratch / path for path in files]
    return library, [path for path in absolute if path.is_file() and scratch not in path.parents]


_MAX_LINES: Final = 6


def _first_errors(report: str) -> str:
    """Return the first errors in a compiler's report, or its last lines if it has no errors."""
    lines = [line for line in report.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\berror\b|undefined reference", line)]
    shown = errors[:_MAX_LINES] or lines[-_MAX_LINES:] or ["without a report"]
    if len(errors) > len(shown):
        shown.append(f"... and {len(errors) - len(shown)} more errors")
    return "\n".join(f"  {line[:300]}" for line in shown)


# The folder


def _folder(folder: Any) -> Path:
    """Return the folder of libraries; if it is new, only this user has access to it."""
    if folder is None:
        base = os.environ.get("XDG_CACHE_HOME", "")
        # The XDG specification requires ignoring relative paths.
        cache = Path(base) if Path(base).is_absolute() else Path("~/.cache").expanduser()
        cache = cache / "xlabuilder" / "ffi"
    elif isinstance(folder, (str, os.PathLike)) and os.fspath(folder):
        cache = Path(os.fsdecode(folder)).absolute()
    else:
        raise operand_error("folder must be the path of a folder", got=brief(folder))
    try:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        warn_of_writers(cache.stat(), str(cache))
    except (OSError, ValueError) as error:
        raise _unusable(cache, error) from None
    return cache


def _unusable(cache: Path, error: OSError | ValueError) -> CompileError:
    reason = _reason(error)
    return compile_error(
        f"libraries can't be written to {cache}: {reason[:1].lower() + reason[1:]}",
        "pass another folder: folder=..., or set XDG_CACHE_HOME in the environment",
    )


def _read_entry(entry: Path, key: str) -> SharedLibrary | None:
    """Return the library of the cache entry with the .json file `entry`; None if invalid."""
    try:
        content = json.loads(entry.read_text())
        files = content["included"]
        library = entry.with_name(content["library"])
        if any(_hash(Path(name).read_bytes()) != digest for name, digest in files.items()):
            return None
        # Loading a truncated library would end the process.
        if f"{_hash(library.read_bytes())}.so" != library.name:
            return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return SharedLibrary(library, _identity(key, files))
