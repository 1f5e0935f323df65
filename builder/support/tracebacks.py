"""Print the tracebacks of this library's errors without its own frames.

Wrapping each public function, to remove frames from the errors that leave it, would slow down
recording. Instead, errors remain complete, and frames are left out where Python prints them: the
first error replaces `sys.excepthook` and `threading.excepthook` by functions that call the previous
ones. IPython calls a method of the error.

An error that a user's function raises while this library records it is printed in the same way.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import dropwhile
from types import TracebackType
from typing import Any, Final, TypeVar

from builder.support.caller import is_inside

E = TypeVar("E", bound=BaseException)

VARIABLE: Final = "XLABUILDER_SHOW_INTERNAL_FRAMES"
_STATE: Final[dict[str, bool]] = {}
"""Under "shown", the argument of the last call of `show_frames`; "hooked" if the hooks are
installed."""


def show_frames(show: bool) -> None:
    """Print tracebacks with the frames of this library, or without."""
    _STATE["shown"] = show


class UserError(Exception):
    """An exception whose traceback is printed without the frames of this library."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        _install()

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython prints."""
        return _rendered(self)


def from_function(error: Exception) -> None:
    """Print an error that a user's function raised without the frames of this library.

    The error is unchanged if its last frames are in this library: it may be a defect of the
    library, which the frames help to find.

    Args:
        error: an exception that the caller of this function has caught.
    """
    below = dropwhile(is_inside, (each.tb_frame for each in _entries(error.__traceback__)))
    if not isinstance(error, UserError) and not any(map(is_inside, below)):
        _install()
        vars(error)["_render_traceback_"] = partial(_rendered, error)  # IPython calls it


def _is_shortened(error: BaseException) -> bool:
    """Return whether an error is printed without internal frames."""
    render = vars(error).get("_render_traceback_")
    return isinstance(error, UserError) or getattr(render, "func", None) is _rendered


def _rendered(error: BaseException) -> list[str]:
    """Return the lines that IPython prints for an error."""
    shell = sys.modules["IPython"].get_ipython()
    with _internal_frames_removed(error):
        lines: list[str] = shell.InteractiveTB.structured_traceback(
            type(error), error, error.__traceback__
        )
        return lines


def _install() -> None:
    """Replace the hooks, if this is the first call."""
    if _STATE.setdefault("hooked", False):
        return
    _STATE["hooked"] = True
    previous, previous_of_threads = sys.excepthook, threading.excepthook

    def hook(kind: type[BaseException], error: BaseException, _: TracebackType | None) -> None:
        with _internal_frames_removed(error):
            previous(kind, error, error.__traceback__)

    def hook_of_threads(arguments: Any, /) -> None:
        error = arguments.exc_value
        with _internal_frames_removed(error):
            kind, thread = arguments.exc_type, arguments.thread
            frames = getattr(error, "__traceback__", None)
            previous_of_threads(threading.ExceptHookArgs((kind, error, frames, thread)))

    sys.excepthook, threading.excepthook = hook, hook_of_threads


@contextmanager
def _internal_frames_removed(error: BaseException | None) -> Iterator[None]:
    """Remove internal frames and exceptions from the errors in a chain, until the context ends."""
    saved = []
    shown = _are_shown()
    for each in [] if shown or error is None else _chain(error):
        cause, context, suppresses = each.__cause__, each.__context__, each.__suppress_context__
        saved.append((each, cause, context, suppresses, each.__traceback__))
        each.__traceback__ = _outside_frames(each.__traceback__)
        if cause is not None and _is_internal(cause):
            each.__cause__ = None  # this suppresses the context too
        while context is not None and _is_internal(context):
            context = context.__context__
        each.__context__ = context
    try:
        yield
    finally:
        for each, cause, context, suppresses, frames in saved:
            each.__cause__, each.__context__ = cause, context
            each.__suppress_context__ = suppresses
            each.__traceback__ = frames


def _chain(error: BaseException) -> list[BaseException]:
    """Return the errors to shorten among an exception, its causes and contexts."""
    found = {id(error): error}
    pending = [error]
    while pending:
        each = pending.pop()
        for other in (each.__cause__, each.__context__):
            if other is not None and id(other) not in found:
                found[id(other)] = other
                pending.append(other)
    return [each for each in found.values() if _is_shortened(each)]


def _outside_frames(frames: TracebackType | None) -> TracebackType | None:
    """Return a copy of a traceback without internal frames; the traceback if all are internal."""
    outside = [each for each in _entries(frames) if not is_inside(each.tb_frame)]
    rest = None
    for each in reversed(outside):
        rest = TracebackType(rest, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return rest or frames


def user_frame(error: BaseException) -> tuple[str, int] | None:
    """Return the file and the line where an error left this library; None if it has not."""
    places = [
        (each.tb_frame.f_code.co_filename, each.tb_lineno)
        for each in _entries(error.__traceback__)
        if not is_inside(each.tb_frame)
    ]
    return places[-1] if places else None


def _is_internal(error: BaseException) -> bool:
    """Return whether an exception was raised and caught inside this library."""
    return all(is_inside(each.tb_frame) for each in _entries(error.__traceback__))


def _entries(frames: TracebackType | None) -> Iterator[TracebackType]:
    while frames is not None:
        yield frames
        frames = frames.tb_next


def without_internal_frames(error: E) -> E:
    """Return an error without its traceback, unless internal frames are shown.

    A function of the library raises the result, so that its own frame is the only internal one.
    """
    return error if _are_shown() else error.with_traceback(None)


def _are_shown() -> bool:
    return _STATE.get("shown", os.environ.get(VARIABLE, "") not in ("", "0"))
