"""Print floating-point numbers and strings as MLIR prints them in attributes."""

from __future__ import annotations

import math
import re
import struct


def float_text(value: float, bits: int) -> str:
    """Return the text of a float; infinities and NaNs are printed as hexadecimal bit patterns.

    Example:
        >>> float_text(1e-5, 64), float_text(float("inf"), 32)
        ('1.0e-05', '0x7F800000')
    """
    if not math.isfinite(value):
        code = {16: "<e", 32: "<f", 64: "<d"}[bits]
        return f"0x{int.from_bytes(struct.pack(code, value), 'little'):0{bits // 4}X}"
    text = repr(value)
    return text if "." in text else text.replace("e", ".0e")


def quoted(data: bytes, also: bytes = b"") -> str:
    """Return bytes as a quoted MLIR string.

    Quotes, backslashes, bytes that are not printable ASCII, and the bytes in `also` are escaped.

    Example:
        >>> quoted(b'a "b"')
        '"a \\\\22b\\\\22"'
    """
    special = rb'[\x00-\x1f\x7f-\xff"\\' + re.escape(also) + b"]"
    escaped = re.sub(special, lambda match: b"\\%02X" % match[0][0], data)
    return f'"{escaped.decode()}"'
