"""Recognize files of other formats by their first bytes, for error messages."""

from __future__ import annotations

from typing import Final

EXECUTABLE_MAGIC: Final = b"\x89XLAEXE\n"
"""The first bytes of the files that `lowering.load_executable` reads."""

_BEGINNINGS: Final = (
    (EXECUTABLE_MAGIC, "a compiled executable", "use lowering.load_executable"),
    (b"\x1f\x8b", "a gzip file", "unpack it: gunzip"),
    (b"BZh", "a bzip2 file", "unpack it: bunzip2"),
    (b"\xfd7zXZ\0", "an xz file", "unpack it: unxz"),
    (b"\x28\xb5\x2f\xfd", "a zstd file", "unpack it: unzstd"),
    (b"PK\x03\x04", "a zip archive", "extract the module with unzip"),
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
        >>> from lowering.reading.foreign_formats import other_kind
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
