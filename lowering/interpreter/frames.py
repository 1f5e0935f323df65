"""Frames: how messages go through the pipes between a program and its helper process.

A frame is a header, which is JSON, and pieces of bytes: before everything stands the length of the
header and of each piece. Nothing is unpickled on either side.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

__all__ = ["Frame", "encoded", "read"]

Frame = tuple[dict[str, Any], list[bytes]]

_COUNT: Final = struct.Struct("<Q")


def encoded(header: dict[str, Any], pieces: Sequence[bytes | memoryview]) -> Iterator[Any]:
    """The bytes of a frame, one after the other; large pieces are not copied."""
    text = json.dumps(header).encode()
    lengths = [len(text), *(memoryview(piece).nbytes for piece in pieces)]
    yield b"".join(_COUNT.pack(number) for number in (len(lengths), *lengths)) + text
    yield from pieces


def read(take: Callable[[int], bytes]) -> Frame:
    """The next frame.

    Args:
        take: gives exactly so many bytes, or raises EOFError.
    """
    (count,) = _COUNT.unpack(take(_COUNT.size))
    lengths = [_COUNT.unpack(take(_COUNT.size))[0] for _ in range(count)]
    header, *pieces = (take(length) for length in lengths)
    found: dict[str, Any] = json.loads(header)
    return found, pieces
