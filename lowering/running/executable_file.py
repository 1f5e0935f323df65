"""Files of executables: what XLA made of a program, to be run without compiling again.

A file begins with eight bytes that no other kind begins with, the format's version, the length of
the header and a checksum of all that follows: the header, which is JSON and says what the program
is and what it was compiled with and for, and jaxlib's own bytes. Those are read by jaxlib alone,
which dies of damaged ones; so nothing is given to it before the checksum and the header are right.

What is in a file is machine code. The checksum is against accidents, not against malice.
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
from lowering.jaxlib_api import array_layouts, executables, mlir, topologies, versions
from lowering.legalize.agreement import Disagreement
from lowering.pjrt.devices import is_local
from lowering.reading.foreign_formats import EXECUTABLE_MAGIC, other_kind
from lowering.stablehlo.module import path_text, write_whole

if TYPE_CHECKING:
    from lowering.running.program import ProgramInfo

__all__ = ["Content", "other_content", "packed", "save_executable", "unpacked"]

_VERSION: Final = 1
_PREFIX: Final = struct.Struct("<8sII")
"""The magic bytes, the version, the length of the header. A checksum of all the rest follows."""

_DIGEST: Final = 32


@dataclass(frozen=True, slots=True)
class Content:
    """What is in a file.

    Attributes:
        header: what is said of the program.
        payload: jaxlib's bytes.
    """

    header: Mapping[str, Any]
    payload: bytes


def packed(
    info: ProgramInfo | None, devices: Sequence[Any], payload: bytes, key: str = ""
) -> list[bytes]:
    """The content of a file, in pieces.

    Args:
        info: what is known of the program; None in the compilation cache, which is asked by those
            who know it.
        devices: those that it was compiled for.
        payload: jaxlib's bytes.
        key: its name in the compilation cache.
    """
    one = devices[0]
    header = {
        "jaxlib": versions.jaxlib_version(),
        "platform": one.platform,
        # A topology's compiler says another version than the runtime that it compiles for.
        "platform_version": None if topologies.is_absent(one) else versions.platform_version(one),
        "device_kind": one.device_kind,
        "cpu_features": executables.cpu_features(payload) if one.platform == "cpu" else (),
        "payload_bytes": len(payload),
        "key": key,
        "program": None if info is None else _said_of(info),
    }
    head = json.dumps(header).encode()
    prefix = _PREFIX.pack(EXECUTABLE_MAGIC, _VERSION, len(head))
    return [prefix, _digest(prefix, head, payload), head, payload]


def _digest(*pieces: bytes | memoryview) -> bytes:
    # In two thirds of the time of SHA-256, where the machine has no instructions for that.
    check = hashlib.blake2b(digest_size=_DIGEST)
    for piece in pieces:
        check.update(piece)
    return check.digest()


def _said_of(info: ProgramInfo) -> dict[str, Any]:
    """What a header says of a program, for `_program`."""
    shape, cut = info.shape, info.partitioning
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
        "partitioning": None if cut is None else dataclasses.asdict(cut),
    }


def unpacked(data: bytes) -> Content | str:
    """What is in a file; or why it can't be read, and how to mend that."""
    if not data.startswith(EXECUTABLE_MAGIC):
        return other_content(data)
    again = "fix: copy it again, or save the executable again"
    begin = _PREFIX.size + _DIGEST
    if len(data) < begin:
        return f"is truncated: it has {len(data)} bytes\n{again}"
    _, version, length = _PREFIX.unpack_from(data)
    if version != _VERSION:
        return (
            f"is of format {version}, and this version of the library reads format {_VERSION}\n"
            f"fix: load it with the version that saved it, or save it again"
        )
    view = memoryview(data)
    rest = view[begin:]
    if _digest(view[: _PREFIX.size], rest) != view[_PREFIX.size : begin]:
        return f"is truncated or damaged: its checksum does not fit its {len(data)} bytes\n{again}"
    try:
        header = json.loads(bytes(rest[:length]))
        payload = bytes(rest[length:])
        if not isinstance(header, dict) or len(payload) != header["payload_bytes"]:
            raise ValueError
    except (ValueError, KeyError, TypeError):
        return f"has a header that can't be read\n{again}"
    return Content(header, payload)


def other_content(data: bytes) -> str:
    """What a file is that is no executable, and who reads it."""
    if data.startswith(mlir.BYTECODE_MAGIC):
        return (
            "holds a module, which is not compiled yet\nfix: lowering.compile(lowering.load(path))"
        )
    kind = other_kind(data) if data else ("empty", None)
    what = "is no executable" + (f", but {kind[0]}" if kind is not None else "")
    return f"{what}\nfix: give a file that executable.save(path) wrote"


def save_executable(path: Any, loaded: Any, info: ProgramInfo, devices: Sequence[Any]) -> None:
    """Writes an executable to a file; see `CompiledProgram.save`."""
    name = path_text(path, "save")

    def refuse(reason: str, fix: str, detail: str = "") -> ModuleFileError:
        return ModuleFileError(
            f"{name}: {info.name} {reason}\nfix: {fix}", path=name, op="save", detail=detail
        )

    watching = [one for one in info.callbacks if isinstance(one, Disagreement)]
    if watching and len(watching) == len(info.callbacks):
        raise refuse(
            f"has a {watching[0].op} with an operation across devices inside, about which the "
            f"devices have to agree: Python looks whether they do, which a file can't hold",
            "take the operations across devices out of the branch or loop",
        )
    if info.callbacks:
        raise refuse(
            "calls Python functions (or is fed by this process: infeed, outfeed), which a file "
            "can't hold",
            "let a registered function do it: xb.custom_call; or give and take the values as "
            "arguments and results",
        )
    whole = "save the module instead, and compile it there: lowering.lower(computation).save(path)"
    if not all(map(is_local, devices)):
        raise refuse("runs on devices of several processes, each of which has but its part", whole)
    if info.layouts is not None and array_layouts.parameter_layouts(loaded) is None:
        raise refuse("takes tokens besides arrays in layouts that jaxlib then does not tell", whole)
    try:
        payload = executables.serialized(loaded)
    except ValueError as error:
        raise refuse(
            f"can't be written by {devices[0].platform}'s runtime", whole, str(error)
        ) from None
    write_whole(name, packed(info, devices, payload))
