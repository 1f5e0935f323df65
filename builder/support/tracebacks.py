"""Remove the frames of this library from the errors that leave it.

A traceback belongs to its exception. The decorators of public functions catch an error, remove the
frames, and continue with ``raise``, which does not add a frame. Nothing is replaced in `sys` or
`threading`. Functions and methods without such a decorator leave their frames.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import dropwhile
from types import TracebackType
from typing import Final

from builder.support.caller import is_inside

_MARK: Final = "_xlabuilder_from_function"
"""The attribute of exceptions that `from_function` has marked."""

VARIABLE: Final = "XLABUILDER_SHOW_INTERNAL_FRAMES"
_STATE: Final[dict[str, bool]] = {}
"""Under "shown", the argument of the last call of `show_frames`."""


def show_frames(show: bool) -> None:
    """Keep internal frames in the tracebacks of errors, or remove them."""
    _STATE["shown"] = show


class UserError(Exception):
    """An error in the user's program: the frames of this library do not help to find it."""


def from_function(error: Exception) -> None:
    """Mark an error that a function of the user raised: it is treated as a `UserError`.

    The error is not marked if its last frames are in this library: it may be a defect of the
    library, which the frames help to find.

    Args:
        error: an exception that the caller of the function has caught.
    """
    below = dropwhile(is_inside, (each.tb_frame for each in _entries(error.__traceback__)))
    if not any(map(is_inside, below)):
        vars(error)[_MARK] = True


def remove_internal_frames(error: BaseException) -> None:
    """Remove the frames of this library from a user's error, and exceptions that it handled.

    Args:
        error: an exception that the caller has caught. ``raise``, without an argument, continues
            with it and does not add the frame of the caller.
    """
    if (isinstance(error, UserError) or _MARK in vars(error)) and not _are_shown():
        error.__traceback__ = _outside_frames(error.__traceback__)
        context = error.__context__
        while context is not None and _is_internal(context):
            context = context.__context__
        error.__context__ = context


def user_frame(error: BaseException) -> tuple[str, int] | None:
    """Return the file and the line where an error left this library; None if it has not."""
    places = [
        (each.tb_frame.f_code.co_filename, each.tb_lineno)
        for each in _entries(error.__traceback__)
        if not is_inside(each.tb_frame)
    ]
    return places[-1] if places else None


def _outside_frames(frames: TracebackType | None) -> TracebackType | None:
    """Return a traceback without its internal frames; None if all are internal."""
    entries = list(_entries(frames))
    outside = [each for each in entries if not is_inside(each.tb_frame)]
    if len(outside) == len(entries):
        return frames  # IPython compares tracebacks by identity
    rest = None
    for each in reversed(outside):
        rest = TracebackType(rest, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return rest


def _is_internal(error: BaseException) -> bool:
    """Return whether an exception was raised and caught inside this library."""
    return all(is_inside(each.tb_frame) for each in _entries(error.__traceback__))


def _entries(frames: TracebackType | None) -> Iterator[TracebackType]:
    while frames is not None:
        yield frames
        frames = frames.tb_next


def _are_shown() -> bool:
    return _STATE.get("shown", os.environ.get(VARIABLE, "") not in ("", "0"))
