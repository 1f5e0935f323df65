"""The file format of executables: compiled programs that load without compiling.

A file begins with eight magic bytes, the format's version, the length of the header and a checksum
of the rest. The rest is the header and the payload. The header is JSON that describes the program,
the devices, and the versions that compiled it. The payload is the executable serialized by jaxlib.
jaxlib crashes on a damaged payload, so the checksum and the header are verified first.

A file contains machine code. The checksum protects against accidents, not against malice.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lowering.errors import ModuleFileError
from lowering.host.callbacks import Disagreement
from lowering.jaxlib_api import compilation, jax_arrays, mlir, versions
from lowering.pjrt.devices import is_local
from lowering.reading.files import EXECUTABLE_MAGIC, other_kind
from lowering.stablehlo.module import path_text, write_atomically

if TYPE_CHECKING:
    from lowering.running.program import ProgramInfo


_VERSION: Final = 1
_PREFIX: Final = struct.Struct("<8sII")
"""The start of a file: magic bytes, format version, length of the header. A checksum follows."""

_DIGEST: Final = 32

CODE_MODE: Final = 0o644
"""The permissions of new files with machine code, before the umask: only the owner can write."""


class UnusableError(Exception):
    """A file is not an executable, or can't be loaded.

    Attributes:
        reason, fix: why, and what to do instead.
        detail: the text of the error that caused this one; empty if there is none.
    """

    def __init__(self, reason: str, fix: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.fix = fix
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Content:
    """The content of an executable's file.

    Attributes:
        header: the description of the program.
        payload: the executable serialized by jaxlib.
    """

    header: Mapping[str, Any]
    payload: bytes


def packed(
    info: ProgramInfo | None, devices: Sequence[Any], payload: bytes, key: str = ""
) -> list[bytes]:
    """Return the bytes of an executable's file, in pieces.

    Args:
        info: the program's metadata; None for the compilation cache, whose readers have it.
        devices: the devices that the program was compiled for.
        payload: the executable serialized by jaxlib.
        key: the program's key in the compilation cache.
    """
    first = devices[0]
    header = {
        "jaxlib": versions.jaxlib_version(),
        "platform": first.platform,
        # The compiler of a topology has another version than the runtime that it compiles for.
        "platform_version": (
            None if compilation.is_absent(first) else versions.platform_version(first)
        ),
        "device_kind": first.device_kind,
        "cpu_features": compilation.cpu_features(payload) if first.platform == "cpu" else (),
        "payload_bytes": len(payload),
        "key": key,
        "program": None if info is None else _program_header(info),
    }
    head = json.dumps(header).encode()
    prefix = _PREFIX.pack(EXECUTABLE_MAGIC, _VERSION, len(head))
    return [prefix, _digest(prefix, head, payload), head, payload]


def _digest(*pieces: bytes | memoryview) -> bytes:
    # Faster than SHA-256, unless the machine has instructions for that.
    check = hashlib.blake2b(digest_size=_DIGEST)
    for piece in pieces:
        check.update(piece)
    return check.digest()


def save_open_executable(
    path: Any, name: str, module: bytes, arguments: Mapping[str, Any], executables: Sequence[Any]
) -> None:
    """Write an OpenExecutable to a file: its module and its executables, one after another.

    Args:
        path: the file.
        name: the program's name, for messages.
        module: the module, as bytecode.
        arguments: the arguments of `lowering.compile`.
        executables: the executables, of class CompiledProgram.

    Raises:
        ModuleFileError: see `CompiledProgram.save`.
    """
    text = path_text(path, "save")
    parts = [module]
    parts += [
        b"".join(_packed_executable(text, e._loaded, e._info, e.devices)) for e in executables
    ]
    lengths = [len(part) for part in parts]
    header = {"open": arguments, "name": name, "parts": lengths, "payload_bytes": sum(lengths)}
    head = json.dumps(header).encode()
    prefix = _PREFIX.pack(EXECUTABLE_MAGIC, _VERSION, len(head))
    payload = b"".join(parts)
    write_atomically(text, [prefix, _digest(prefix, head, payload), head, payload], mode=CODE_MODE)


def _program_header(info: ProgramInfo) -> dict[str, Any]:
    """Return the header fields from which `load_executable` creates a ProgramInfo."""
    shape, partitioning = info.shape, info.partitioning
    return {
        "name": info.name,
        "parameters": [str(s) for s in shape.parameters],
        "parameter_names": shape.parameter_names,
        "result": str(shape.result),
        "num_replicas": info.num_replicas,
        "num_partitions": info.num_partitions,
        "donated": sorted(info.donated),
        "has_layouts": info.layouts is not None,
        "handlers": info.handlers,
        "in_rows": info.in_rows,
        "tree": None if info.tree is None else info.tree.literal(),
        "partitioning": None if partitioning is None else dataclasses.asdict(partitioning),
    }


def unpacked(data: bytes) -> Content:
    """Return the content of an executable's file.

    Raises:
        UnusableError: the file is not an executable, is damaged, or has another format version.
    """
    check_magic(data)
    fix = "copy the file again, or save the executable again"
    begin = _PREFIX.size + _DIGEST
    if len(data) < begin:
        raise UnusableError(f"is truncated: it has {len(data)} bytes", fix)
    _, version, length = _PREFIX.unpack_from(data)
    if version != _VERSION:
        raise UnusableError(
            f"is of format {version}, but this version of the library reads format {_VERSION}",
            "load the file with the library version that saved it, or save the executable again",
        )
    view = memoryview(data)
    rest = view[begin:]
    if _digest(view[: _PREFIX.size], rest) != view[_PREFIX.size : begin]:
        raise UnusableError(
            f"is truncated or damaged: its checksum does not match its {len(data)} bytes", fix
        )
    try:
        header = json.loads(bytes(rest[:length]))
        payload = bytes(rest[length:])
        if not isinstance(header, dict) or len(payload) != header["payload_bytes"]:
            raise ValueError
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UnusableError("has a header that can't be read", fix) from None
    return Content(header, payload)


def check_magic(data: bytes) -> None:
    """Raise UnusableError if a file does not begin with the magic bytes of executables."""
    if data.startswith(EXECUTABLE_MAGIC):
        return
    if data.startswith(mlir.BYTECODE_MAGIC):
        raise UnusableError(
            "contains a module, which is not compiled yet",
            "call lowering.compile(lowering.load(path))",
        )
    kind = other_kind(data) if data else ("empty", None)
    but = f", but {kind[0]}" if kind is not None else ""
    raise UnusableError(
        f"is not an executable{but}", "pass a file that executable.save(path) wrote"
    )


def save_executable(path: Any, loaded: Any, info: ProgramInfo, devices: Sequence[Any]) -> None:
    """Write an executable to a file; see `CompiledProgram.save`."""
    name = path_text(path, "save")
    write_atomically(name, _packed_executable(name, loaded, info, devices), mode=CODE_MODE)


def _packed_executable(
    name: str, loaded: Any, info: ProgramInfo, devices: Sequence[Any]
) -> list[bytes]:
    """Return the bytes of the file `name` of an executable, in pieces.

    Raises:
        ModuleFileError: the executable can't be saved.
    """

    def refuse(reason: str, fix: str, detail: str = "") -> ModuleFileError:
        return ModuleFileError(
            f"{info.name} {reason}", context=(name,), fix=fix, path=name, op="save", detail=detail
        )

    checks = [c for c in info.callbacks if isinstance(c, Disagreement)]
    if checks and len(checks) == len(info.callbacks):
        raise refuse(
            f"contains a collective inside {checks[0].op}; a Python function checks that all "
            f"devices have the same condition, and this function can't be saved to a file",
            "move the collectives out of the branch or loop",
        )
    if info.callbacks:
        raise refuse(
            "calls Python functions (or uses this process's infeed or outfeed), which can't be "
            "saved to a file",
            "call a registered function instead: xb.custom_call; or pass the values as arguments "
            "and results; computation.strip_debug() removes prints and checks",
        )
    save_module = "save the module (lowering.lower(computation).save(path)), and compile it later"
    if not all(map(is_local, devices)):
        raise refuse(
            "runs on devices of several processes, and each process has only a part of the program",
            save_module,
        )
    if info.layouts is not None and jax_arrays.parameter_layouts(loaded) is None:
        raise refuse(
            "has both tokens and arrays with layouts among its arguments; jaxlib does not report "
            "the layouts of such a program",
            save_module,
        )
    try:
        payload = compilation.serialized(loaded)
    except ValueError as error:
        raise refuse(
            f"can't be serialized by {devices[0].platform}'s runtime", save_module, str(error)
        ) from None
    return packed(info, devices, payload)
