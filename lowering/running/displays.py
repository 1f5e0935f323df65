"""Displays: terminals and notebooks, in which a text changes in place and can be removed."""

from __future__ import annotations

import os
import sys
from typing import Any, Protocol, TextIO


class Display(Protocol):
    """A place for a text that changes, and for lines that remain.

    A method raises OSError or ValueError if the terminal no longer exists.

    Attributes:
        way_out: how to end a process that does not react to Ctrl-C.
    """

    way_out: str

    def update(self, text: str) -> None:
        """Write the text, or replace it."""

    def line(self, text: str) -> None:
        """Write a line that remains, and remove the text."""

    def clear(self) -> None:
        """Remove the text."""


class _Terminal:
    """A terminal. The text is in the line of the cursor."""

    way_out = ("Ctrl-Break" if os.name == "nt" else "Ctrl-\\") + " ends the process at once"

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._length = 0

    def update(self, text: str) -> None:
        text = text[: self._width() - 1]  # a longer text would continue in the next line
        self._replace(text)
        self._length = len(text)

    def line(self, text: str) -> None:
        self._length += len("^C")  # the terminal writes this at the cursor
        self._replace(f"{text}\n")
        self._length = 0

    def clear(self) -> None:
        if self._length:
            self._replace("")
            self._length = 0

    def _replace(self, text: str) -> None:
        # Spaces instead of control codes, which not all terminals support.
        blank = " " * min(self._length, self._width() - 1)
        self._stream.write(f"\r{blank}\r{text}" if blank else f"\r{text}")
        self._stream.flush()

    def _width(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or 80
        except OSError:
            return 80


class _Notebook:
    """A notebook. The text is an output of the cell."""

    way_out = "restarting the kernel ends the process at once"

    def __init__(self, ipython: Any) -> None:
        self._ipython = ipython
        self._handle: Any = None

    def update(self, text: str) -> None:
        content = {"text/plain": text}
        if self._handle is None:
            self._handle = self._ipython.display.display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)

    def line(self, text: str) -> None:
        self.clear()
        print(text, file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._handle is not None:
            self.update("")


def find_display() -> Display | None:
    """Return the notebook, or the terminal that stderr is; None if there is neither."""
    ipython = sys.modules.get("IPython")
    if ipython is not None and hasattr(ipython.get_ipython(), "kernel"):
        return _Notebook(ipython)
    stream = sys.stderr
    try:
        return _Terminal(stream) if stream is not None and stream.isatty() else None
    except (AttributeError, ValueError):  # an object without this method, or a closed file
        return None
