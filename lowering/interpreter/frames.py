"""Frames: the messages between a program and its helper process.

A frame is a JSON header and pieces of bytes, preceded by the length of each. Nothing is unpickled
on either side.
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
    """Return the parts of an encoded frame; large pieces are not copied."""
    text = json.dumps(header).encode()
    lengths = [len(text), *(memoryview(piece).nbytes for piece in pieces)]
    yield b"".join(_COUNT.pack(number) for number in (len(lengths), *lengths)) + text
    yield from pieces


def read(take: Callable[[int], bytes]) -> Frame:
    """Read the next frame.

    Args:
        take: returns exactly the given number of bytes, or raises EOFError.
    """
    (count,) = _COUNT.unpack(take(_COUNT.size))
    lengths = [_COUNT.unpack(take(_COUNT.size))[0] for _ in range(count)]
    header, *pieces = (take(length) for length in lengths)
    return json.loads(header), pieces
