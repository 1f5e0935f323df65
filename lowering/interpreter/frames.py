"""Frames: the messages between a program and its helper process.

A frame consists of a JSON header and any number of byte strings. Nothing is pickled.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

Frame = tuple[dict[str, Any], list[bytes]]


def send(
    write: Callable[[Any], None], header: dict[str, Any], pieces: Sequence[bytes | memoryview]
) -> None:
    """Send a frame; `write` is the method `send_bytes` of a connection."""
    write(json.dumps([header, len(pieces)]).encode())
    for piece in pieces:
        write(piece)


def receive(read: Callable[[], bytes]) -> Frame:
    """Receive a frame; `read` is the method `recv_bytes` of a connection."""
    header, count = json.loads(read())
    return header, [read() for _ in range(count)]
