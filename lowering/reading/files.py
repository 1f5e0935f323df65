"""Files: recognize those of other formats, and warn about those that other users can change."""

from __future__ import annotations

import os
import stat
import sys
import warnings
from typing import Any, Final

from builder.support.frames import caller_frame

EXECUTABLE_MAGIC: Final = b"\x89XLAEXE\n"
"""The first bytes of the files that `lowering.load_executable` reads."""

_BEGINNINGS: Final = (
    (EXECUTABLE_MAGIC, "a compiled executable", "use lowering.load_executable"),
    (b"\x1f\x8b", "a gzip file", "unpack it: gunzip"),
    (b"BZh", "a bzip2 file", "unpack it: bunzip2"),
    (b"\xfd7zXZ\0", "an xz file", "unpack it: unxz"),
    (b"\x28\xb5\x2f\xfd", "a zstd file", "unpack it: unzstd"),
    (b"PK\x03\x04", "a zip archive", "read arrays with numpy.load; extract a module with unzip"),
    (b"\xff\xfe\0\0", "text in UTF-32", "save the text in UTF-8"),
    (b"\xff\xfe", "text in UTF-16", "save the text in UTF-8"),
    (b"\xfe\xff", "text in UTF-16", "save the text in UTF-8"),
    (b"\0\0\xfe\xff", "text in UTF-32", "save the text in UTF-8"),
    (b"\x93NUMPY", "a NumPy array", None),
    (b"\x89HDF\r\n", "an HDF5 file", None),
    (b"\x7fELF", "a native executable", None),
    (b"BC\xc0\xde", "LLVM bitcode", None),
    *((bytes((0x80, version)), "a Python pickle", None) for version in (2, 3, 4, 5)),
)


def other_kind(data: bytes) -> tuple[str, str | None] | None:
    """Return the probable format of a file that begins with `data`, and a fix or None.

    Return None if the format is not known.

    Example:
        >>> from lowering.reading.files import other_kind
        >>> other_kind(bytes([0x1F, 0x8B, 8]))
        ('a gzip file', 'unpack it: gunzip')
    """
    for beginning, kind, fix in _BEGINNINGS:
        if data.startswith(beginning):
            return kind, fix
    if len(data) > 8 and data[1:8:2] == bytes(4) and 0 not in data[:8:2]:
        return "text in UTF-16", "save the text in UTF-8"
    if data[4:8] == b"TFL3":
        return "a TensorFlow Lite model", None
    # ONNX and TensorFlow both start with a number in field 1 and a string in field 2.
    if data[:1] == b"\x08" and data[2:3] == b"\x12":
        kind = "a protocol buffer, such as a model of ONNX or TensorFlow"
        return kind, "export StableHLO with the program that wrote it"
    if data[:1] == b"\n" and any(byte < 9 or 13 < byte < 32 for byte in data[:4096]):
        return "a protocol buffer", "use lowering.from_hlo if it is an HLO protocol buffer"
    return None


def warn(message: str) -> None:
    """Issue a RuntimeWarning at the line of the user's code that called this library."""
    frame = caller_frame(sys._getframe())
    if frame is None:
        warnings.warn_explicit(message, RuntimeWarning, "<unknown>", 0)
        return
    shown: dict[Any, Any] = frame.f_globals.setdefault("__warningregistry__", {})
    file, line = frame.f_code.co_filename, frame.f_lineno
    warnings.warn_explicit(message, RuntimeWarning, file, line, registry=shown)


def warn_of_writers(status: os.stat_result, name: str) -> None:
    """Warn if users other than this one and root can write to a file or folder; on POSIX only.

    Args:
        status: the status of the file or folder.
        name: the path of the file or folder, for the message.
    """
    if os.name != "posix":
        return
    user, mode = os.geteuid(), status.st_mode
    if status.st_uid not in (0, user):
        reason, fix = f"it belongs to user {status.st_uid}", "use a file or folder of your own"
    elif mode & stat.S_IWOTH:
        reason, fix = "every user can write to it", f"chmod go-w {name}"
    elif mode & stat.S_IWGRP:
        reason, fix = f"group {status.st_gid} can write to it", f"chmod g-w {name}"
    else:
        return
    warn(
        f"{name} contains machine code, which other users of this machine can change: {reason}\n"
        f"fix: {fix}"
    )
