"""C and C++ source made into shared libraries, which are kept in a folder of the user's.

What is kept is found again by a hash of all that goes into it: the source and the files that it
includes, the flags, the compiler with its version, jaxlib's. An entry of the folder is two files: a
list (.json) under the hash of what is known before compiling, which says what was included and
which library came of it; and that library, under the hash of its own bytes. Both are written
beside and renamed, the list last, so that processes may build at the same time, and one that dies
leaves nothing half-written under a name. What does not agree with its hash is built again.
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

import jax
import jaxlib.version

from builder.errors import OperandError, brief
from lowering.errors import CompileError

__all__ = ["NativeSource", "SharedLibrary", "read_source", "shared_library"]

_LANGUAGES: Final = {".c": "c", ".cc": "c++", ".cpp": "c++", ".cxx": "c++", ".cu": "c++"}
"""By suffix what a file is written in."""

_COMPILERS: Final = {
    "c++": ("CXX", ("g++", "c++", "clang++")),
    "c": ("CC", ("gcc", "cc", "clang")),
}
"""The variable of the environment that names the compiler, and which are tried where none does."""


@dataclass(frozen=True, slots=True)
class NativeSource:
    """What is to be compiled.

    Attributes:
        text: the source.
        language: "c" or "c++".
        file: the file that it was read from, whose folder its #include lines begin at; or None.
    """

    text: str
    language: str
    file: Path | None = None


@dataclass(frozen=True, slots=True)
class SharedLibrary:
    """What a compiler made.

    Attributes:
        path: the file.
        identity: equal for equal sources, included files, flags and compilers: 64 digits.
    """

    path: Path
    identity: str


def read_source(op: str, source: Any, language: Any) -> NativeSource:
    """The source that a user gave as text, or as the path of a file.

    Raises:
        OperandError: neither a text nor a path, or no such language.
        CompileError: the file can't be read.
    """
    if language is not None and (not isinstance(language, str) or language not in _COMPILERS):
        raise OperandError(f"{op}: language must be 'c' or 'c++', got {brief(language)}", op=op)
    if isinstance(source, str):
        if "\n" in source or Path(source).suffix not in _LANGUAGES:
            if not source.strip():
                raise OperandError(f"{op}: source must be C or C++, got an empty text", op=op)
            if "\0" in source:
                raise OperandError(f"{op}: source must not hold the character NUL", op=op)
            return NativeSource(source, language or "c++")
    elif not isinstance(source, os.PathLike):
        raise OperandError(
            f"{op}: source must be the text of C or C++, or a path, got {brief(source)}",
            op=op,
        )
    path: Any = os.fspath(source)
    file = Path(os.fsdecode(path))
    if file.suffix not in _LANGUAGES:
        raise OperandError(
            f"{op}: a file of C or C++ ends in {', '.join(_LANGUAGES)}, got {brief(str(file))}",
            op=op,
        )
    try:
        text = file.read_text()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CompileError(f"{op}: {file} can't be read: {reason}", op=op) from None
    return NativeSource(text, language or _LANGUAGES[file.suffix], file.absolute())


def shared_library(
    op: str, source: NativeSource, flags: Sequence[str], compiler: Any, folder: Any
) -> SharedLibrary:
    """The library that a source is compiled to: out of the folder, or made and put there.

    Args:
        op: what asks for it, for messages.
        source: the source.
        flags: what the compiler is told besides; they stand behind those that are always said.
        compiler: its name or path; None for that of the environment.
        folder: a path; None for that of the user.

    Raises:
        CompileError: there is no compiler, it refuses the source, or the folder can't be used.
    """
    command = _command(op, source.language, compiler)
    words = [*command, *_FLAGS[source.language], *_headers(), *flags]
    known = [
        source.text,
        str(source.file),
        words,
        _version(*_stamped(command)),
        jaxlib.version.__version__,
    ]
    key = _hash(json.dumps(known).encode())
    where = _folder(op, folder)
    entry = where / f"{key}.json"
    found = _kept(entry, key)
    if found is not None:
        return found
    try:
        _clear(where)
        with tempfile.TemporaryDirectory(dir=where, prefix=_SCRATCH) as scratch:
            made, included = _compiled(op, source, words, Path(scratch))
            content = made.read_bytes()
            library = where / f"{_hash(content)}.so"
            made.replace(library)
        files = {str(one): _hash(one.read_bytes()) for one in included}
        beside = entry.with_name(f".{entry.name}.{secrets.token_hex(6)}.tmp")
        beside.write_text(json.dumps({"included": files, "library": library.name}))
        beside.replace(entry)
    except OSError as error:
        raise _unusable(op, where, error) from None
    return SharedLibrary(library, _identity(key, files))


# -isystem, not -I: jaxlib's own headers are no business of the source's warnings, nor of -MMD.
_FLAGS: Final = {
    "c++": ("-std=c++17", "-O2", "-shared", "-fPIC", "-pthread"),
    "c": ("-O2", "-shared", "-fPIC", "-pthread"),
}


def _headers() -> tuple[str, str]:
    folder: str = jax.ffi.include_dir()
    return "-isystem", folder


_SCRATCH: Final = ".building-"
_ABANDONED: Final = 24 * 3600.0
"""Seconds after which nobody builds there any more: the process was killed."""


def _clear(where: Path) -> None:
    """Removes what killed processes have left."""
    for one in where.glob(f"{_SCRATCH}*"):
        with contextlib.suppress(OSError):
            if time.time() - one.stat().st_mtime > _ABANDONED:
                shutil.rmtree(one)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _identity(key: str, files: dict[str, str]) -> str:
    return _hash(json.dumps([key, sorted(files.items())]).encode())


# The compiler


def _command(op: str, language: str, compiler: Any) -> tuple[str, ...]:
    """The compiler's path, and the words that the environment says behind its name."""
    variable, usual = _COMPILERS[language]
    if compiler is not None:
        if not isinstance(compiler, (str, os.PathLike)) or not os.fspath(compiler):
            raise OperandError(
                f"{op}: compiler must be the name or the path of one, got {brief(compiler)}",
                op=op,
            )
        tried, named = [[os.fspath(compiler)]], "compiler"
    elif os.environ.get(variable, "").strip():
        try:
            tried, named = [shlex.split(os.environ[variable])], variable
        except ValueError:  # a quotation that does not end
            tried, named = [[os.environ[variable]]], variable
    else:
        tried, named = [[one] for one in usual], ""
    for name, *words in tried:
        path = shutil.which(name)
        if path is not None:
            return path, *words
    there = f"the one that {named} names is not: {brief(tried[0][0])}" if named else "none of "
    if not named:
        there += f"{', '.join(usual)} is found"
    what = "C++" if language == "c++" else "C"
    raise CompileError(
        f"{op}: no compiler for {what} is here: {there}\n"
        f"fix: install one (apt install g++, dnf install gcc-c++, xcode-select --install), or name "
        f"it: compiler=..., or {variable} in the environment",
        op=op,
    )


def _stamped(command: tuple[str, ...]) -> tuple[tuple[str, ...], int, int]:
    found = Path(command[0]).stat()
    return command, found.st_mtime_ns, found.st_size


@functools.lru_cache(maxsize=16)
def _version(command: tuple[str, ...], _written: int, _size: int) -> str:
    """What a compiler says of itself; asked once a process while its file is the same."""
    try:
        done = _run([*command, "--version"], None)
    except OSError:  # no program: running it with the source will tell
        return ""
    return done.stdout


def _run(words: Sequence[str], folder: Path | None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(words),
        cwd=folder,
        # Its errors are looked for by an English word.
        env={**os.environ, "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )


def _compiled(
    op: str, source: NativeSource, words: Sequence[str], scratch: Path
) -> tuple[Path, list[Path]]:
    """The library, and the files that the source includes (those of the system left out)."""
    text = source.file
    if text is None:
        text = Path("source.c" if source.language == "c" else "source.cc")
        (scratch / text).write_text(source.text)
    outputs = ["-o", "library.so", "-MMD", "-MF", "included.d"]
    # Behind the source what is linked to: -lm, -lz.
    linked = [word for word in words if word.startswith("-l")]
    said = [word for word in words if not word.startswith("-l")]
    try:
        done = _run([*said, *outputs, str(text), *linked], scratch)
    except OSError as error:
        raise CompileError(
            f"{op}: {words[0]} can't be started: {error.strerror or error}\n"
            f"fix: name another compiler: compiler=...",
            op=op,
        ) from None
    made = scratch / "library.so"
    if done.returncode != 0 or not made.is_file():
        raise CompileError(
            f"{op}: {Path(words[0]).name} can't compile the source:\n{_first_errors(done.stdout)}"
            f"\nfix: mend these lines; the whole report is the error's `detail`",
            op=op,
            detail=f"{shlex.join(done.args)}\n{done.stdout}",
        )
    try:
        listed = (scratch / "included.d").read_text()
    except OSError:  # a compiler that does not know -MMD
        listed = ""
    names = listed.replace("\\\n", " ").partition(": ")[2]
    files = [Path(name.replace("\\ ", " ")) for name in re.findall(r"(?:\\ |\S)+", names)]
    absolute = [scratch / one for one in files]
    return made, [one for one in absolute if one.is_file() and scratch not in one.parents]


_MOST_LINES: Final = 6


def _first_errors(report: str) -> str:
    """The first errors in a compiler's report, with file and line; else its last lines."""
    lines = [line for line in report.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\berror\b|undefined reference", line)]
    chosen = errors[:_MOST_LINES] or lines[-_MOST_LINES:] or ["it says no reason"]
    more = len(errors) - len(chosen)
    if more > 0:
        chosen.append(f"... and {more} more")
    return "\n".join(f"  {line[:300]}" for line in chosen)


# The folder


def _folder(op: str, given: Any) -> Path:
    """The folder of libraries; it is made if it isn't there, for this user alone."""
    if given is None:
        base = os.environ.get("XDG_CACHE_HOME", "")
        # The standard asks to leave out what is not absolute.
        where = Path(base) if Path(base).is_absolute() else Path("~/.cache").expanduser()
        where = where / "xlabuilder" / "ffi"
    elif isinstance(given, (str, os.PathLike)) and os.fspath(given):
        where = Path(os.fsdecode(given)).absolute()
    else:
        raise OperandError(f"{op}: folder must be the path of one, got {brief(given)}", op=op)
    try:
        where.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise _unusable(op, where, error) from None
    return where


def _unusable(op: str, where: Path, error: OSError | ValueError) -> CompileError:
    reason = getattr(error, "strerror", None) or str(error)
    return CompileError(
        f"{op}: libraries can't be kept in {where}: {reason[:1].lower() + reason[1:]}\n"
        f"fix: name another folder: folder=..., or XDG_CACHE_HOME in the environment",
        op=op,
    )


def _kept(entry: Path, key: str) -> SharedLibrary | None:
    """The library that an entry of the folder leads to; None if it has to be made."""
    try:
        said = json.loads(entry.read_text())
        files = said["included"]
        library = entry.with_name(said["library"])
        if any(_hash(Path(name).read_bytes()) != one for name, one in files.items()):
            return None
        # A library that is cut off would end the process when it is loaded.
        if f"{_hash(library.read_bytes())}.so" != library.name:
            return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return SharedLibrary(library, _identity(key, files))
