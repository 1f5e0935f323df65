"""Reading modules from bytes that may be anything, without dying of them.

MLIR's reader of bytecode trusts its input: a truncated file is refused, but about one in a hundred
files with a single bit changed crashes the process, or keeps it busy for ever. So a module that
this library writes carries a checksum, and one that carries none is read in a helper process
first. That takes a few tenths of a second and is not needed for text, whose parser stands
anything but brackets nested thousands deep.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from jaxlib.mlir import ir

from lowering import jaxlib_api
from lowering.errors import ModuleFileError
from lowering.jaxlib_api import BYTECODE_MAGIC, UnreadableModuleError

__all__ = ["CHECKSUM_ATTRIBUTE", "read", "sealed"]

CHECKSUM_ATTRIBUTE: Final = "xlabuilder.checksum"
"""The attribute of a module whose text holds the checksum of the bytes around it."""

_EMPTY_SEAL: Final = b"xlabuilder-crc32-00000000"
_SEAL: Final = re.compile(rb"xlabuilder-crc32-(.{8})", re.DOTALL)

MAX_NESTING: Final = 1000
"""How deep brackets may nest in text. MLIR's parser recurses; at 10,000 it overflows the stack."""

_DIALECTS: Final = frozenset({"builtin", "func", "stablehlo", "chlo", "mhlo", "sdy"})
_UNKNOWN: Final = r"custom op '[^']*' is unknown|unregistered dialect|Dialect .* not found"


def sealed(module: ir.Module, write: Callable[[bytes], bytes] | None = None) -> bytes:
    """MLIR bytecode of a module, with a checksum of itself inside.

    Args:
        module: is given an attribute for the time of writing.
        write: turns the bytecode into what is wanted, a portable artifact; None for bytecode.
    """
    if write is None:
        write = bytes
    attributes = module.operation.attributes
    attributes[CHECKSUM_ATTRIBUTE] = ir.StringAttr.get(_EMPTY_SEAL.decode(), module.context)
    try:
        data = write(jaxlib_api.bytecode(module))
    finally:
        del attributes[CHECKSUM_ATTRIBUTE]
    if len(_SEAL.findall(data)) != 1:
        # The module's own data look like a seal: it goes without, and is read with more care.
        return write(jaxlib_api.bytecode(module))
    return data.replace(_EMPTY_SEAL, b"xlabuilder-crc32-%08x" % zlib.crc32(data))


def _seal_holds(data: bytes) -> bool | None:
    """Whether the checksum in `data` is right; None where there is none."""
    found = list(_SEAL.finditer(data))
    if len(found) != 1 or CHECKSUM_ATTRIBUTE.encode() not in data:
        return None
    start, end = found[0].span()
    checksum = zlib.crc32(data[end:], zlib.crc32(_EMPTY_SEAL, zlib.crc32(data[:start])))
    return bool(found[0][1] == b"%08x" % checksum)


def read(data: bytes, path: str | None = None) -> ir.Module:
    """The module in these bytes: MLIR text, MLIR bytecode or a portable artifact; verified.

    The module has a context of its own.

    Args:
        data: content of a file.
        path: where it is from, for messages.

    Raises:
        ModuleFileError: the bytes are no StableHLO module.
    """
    name = path or "the module"
    if not data.strip():
        raise ModuleFileError(f"{name}: is empty\nfix: save the module again", path=path)
    source = data if data.startswith(BYTECODE_MAGIC) else _text(data, name, path)
    if isinstance(source, bytes):
        if not _is_whole(source):
            raise ModuleFileError(
                f"{name}: is truncated or damaged: its {len(source)} bytes of bytecode do not add "
                f"up\nfix: copy or save the module again",
                path=path,
            )
        holds = _seal_holds(source)
        if holds is False:
            raise ModuleFileError(
                f"{name}: is damaged, its checksum is not that of its content\n"
                f"fix: copy or save the module again; if another program rewrote it on purpose, "
                f"have it drop the attribute {CHECKSUM_ATTRIBUTE} of the module",
                path=path,
            )
        if holds is None:
            _read_in_helper(source, name, path)
    context = jaxlib_api.new_context()
    try:
        module = jaxlib_api.read_module(context, source)
    except UnreadableModuleError as error:
        raise _refused(
            name, path, source, error.reason, error.line, error.column, error.detail
        ) from None
    if CHECKSUM_ATTRIBUTE in module.operation.attributes:
        del module.operation.attributes[CHECKSUM_ATTRIBUTE]
    _check_dialects(module, name, path)
    return module


def _is_whole(data: bytes) -> bool:
    """Whether the sections that bytecode is made of fill it exactly.

    MLIR would find this out as well; but truncated files are the commonest of all damaged ones,
    and this spares them the helper process.

    MLIR Bytecode Format: File; Alignment.
    """

    def number(at: int) -> tuple[int, int]:
        """A variable-width integer, and where it ends."""
        first = data[at]
        width = (first & -first).bit_length() if first else 9
        end = at + width
        if end > len(data):
            raise IndexError
        value = int.from_bytes(data[at:end], "little")
        return value >> (8 if width == 9 else width), end

    sections = set()
    try:
        _, at = number(len(BYTECODE_MAGIC))
        at = data.index(0, at) + 1  # the producer's name
        while at < len(data):
            aligned = data[at] & 0x80
            sections.add(data[at] & 0x7F)
            length, at = number(at + 1)
            if aligned:
                alignment, at = number(at)
                if alignment:
                    at += -at % alignment
            at += length
    except (IndexError, ValueError):
        return False
    # Strings, dialects, attributes and types, their offsets, operations: no module lacks these.
    return at == len(data) and sections >= {0, 1, 2, 3, 4}


def _text(data: bytes, name: str, path: str | None) -> str:
    """`data` as text that MLIR's parser can be given."""
    kinds = "StableHLO text, MLIR bytecode or a portable artifact"
    if BYTECODE_MAGIC.startswith(data):
        raise ModuleFileError(
            f"{name}: is truncated, only {len(data)} bytes of bytecode are there\n"
            f"fix: copy or save the module again",
            path=path,
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ModuleFileError(
            f"{name}: is not {kinds}: byte {error.start} (0x{data[error.start]:02x}) is no text",
            path=path,
        ) from None
    if "\0" in text:
        raise ModuleFileError(f"{name}: is not {kinds}: byte {data.index(0)} is zero", path=path)
    if text.lstrip().startswith("HloModule"):
        raise ModuleFileError(
            f"{name}: is HLO text, not StableHLO\n"
            f"fix: save the StableHLO module that the HLO text was printed from",
            path=path,
        )
    # Without the arrows, so that brackets come in pairs.
    depth = deepest = 0
    for bracket in re.sub(r'->|"[^"\\]*(?:\\.[^"\\]*)*"|[^][(){}<>"-]+|["-]', "", text):
        if bracket in "([{<":
            depth += 1
            deepest = max(deepest, depth)
        else:
            depth -= 1
    if deepest > MAX_NESTING:
        raise ModuleFileError(
            f"{name}: brackets are nested {deepest} deep, at most {MAX_NESTING} can be read",
            path=path,
        )
    return text


def _refused(
    name: str,
    path: str | None,
    source: str | bytes,
    reason: str,
    line: int | None,
    column: int | None,
    detail: str,
) -> ModuleFileError:
    """What to say when MLIR refuses a module for `reason`."""
    # What follows is advice about MLIR's own tools.
    reason = reason.partition(". If this is intended")[0][:300]
    if isinstance(source, str):
        place = "" if line is None else f"line {line}, column {column}: "
        message = f"{name}: {place}not StableHLO: {reason}"
        if re.search(_UNKNOWN, detail):
            message += f"\nfix: use operations of these dialects: {', '.join(sorted(_DIALECTS))}"
    else:
        # A place in bytecode is no line of anything that the user has seen.
        line = column = None
        message = f"{name}: is not readable StableHLO: {reason}"
        written = re.match(rb"ML\xefR.StableHLO_v(\d+)\.(\d+)\.(\d+)\0", source, re.DOTALL)
        newest = jaxlib_api.current_version()
        if written is not None and [int(n) for n in written.groups()] > [
            int(n) for n in newest.split(".")
        ]:
            version = ".".join(n.decode() for n in written.groups())
            message = (
                f"{name}: is written for StableHLO {version}, the jaxlib installed reads up to "
                f"{newest}\nfix: install a newer jaxlib, or save it with version={newest!r}"
            )
        else:
            message += "\nfix: it is truncated, damaged or of another program; save it again"
    return ModuleFileError(message, path=path, line=line, column=column, detail=detail)


def _check_dialects(module: ir.Module, name: str, path: str | None) -> None:
    """Refuses a module that holds operations of other dialects."""
    wrong: list[tuple[str, str]] = []

    def look(operation: ir.Operation) -> ir.WalkResult:
        if operation.name.partition(".")[0] not in _DIALECTS:
            wrong.append((operation.name, str(operation.location)))
            return ir.WalkResult.INTERRUPT
        return ir.WalkResult.ADVANCE

    module.operation.walk(look)
    if wrong:
        operation, location = wrong[0]
        place = re.match(r'^loc\("-":(\d+):(\d+)\)$', location)
        line, column = (int(place[1]), int(place[2])) if place else (None, None)
        where = "" if line is None else f"line {line}, column {column}: "
        raise ModuleFileError(
            f"{name}: {where}{operation} is no operation of StableHLO\n"
            f"fix: use operations of these dialects: {', '.join(sorted(_DIALECTS))}",
            path=path,
            line=line,
            column=column,
        )


_HELPER_SECONDS = 20.0
"""How long reading in the helper may take, besides a second for each megabyte."""

# The helper is given jaxlib_api.py by its file name: importing the package would import jax.
_HELPER: Final = """
import importlib.util, json, sys
arguments = json.loads(sys.argv[1])
sys.path[:] = arguments["sys_path"]
spec = importlib.util.spec_from_file_location("jaxlib_api", arguments["file"])
api = importlib.util.module_from_spec(spec)
spec.loader.exec_module(api)
try:
    module = api.read_module(api.new_context(), sys.stdin.buffer.read())
    str(module)
    answer = None
except api.UnreadableModuleError as error:
    answer = [error.reason, error.detail]
print(json.dumps({"refused": answer}))
"""


def _read_in_helper(source: bytes, name: str, path: str | None) -> None:
    """Raises ModuleFileError unless another process can read the bytecode."""
    if not sys.executable:
        return
    arguments = {"sys_path": sys.path, "file": str(Path(jaxlib_api.__file__).resolve())}
    seconds = _HELPER_SECONDS + len(source) / 1e6
    reason = detail = ""
    try:
        finished = subprocess.run(
            [sys.executable, "-I", "-c", _HELPER, json.dumps(arguments)],
            input=source,
            capture_output=True,
            timeout=seconds,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
            check=False,
        )
    except subprocess.TimeoutExpired:
        reason = f"reading it takes more than {seconds:.0f} seconds"
    else:
        try:
            answer = json.loads(finished.stdout)
        except ValueError:
            reason = "the bytecode contradicts itself"
            detail = finished.stderr.decode(errors="replace")
        else:
            if answer["refused"] is None:
                return
            reason, detail = answer["refused"]
    raise _refused(name, path, source, reason, None, None, detail)
