"""Frames: the messages between a program and its helper process.

A frame is a JSON header and pieces of bytes. Nothing is pickled.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

Frame = tuple[dict[str, Any], list[bytes]]


def send(
    write: Callable[[Any], None], header: dict[str, Any], pieces: Sequence[bytes | memoryview]
) -> None:
    """Send a frame with the `send_bytes` of a connection."""
    write(json.dumps([header, len(pieces)]).encode())
    for piece in pieces:
        write(piece)


def receive(read: Callable[[], bytes]) -> Frame:
    """Receive a frame with the `recv_bytes` of a connection."""
    header, count = json.loads(read())
    return header, [read() for _ in range(count)]
