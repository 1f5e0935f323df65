"""Stack frames: find the caller, and remove the frames of this library from errors that leave it.

The caller is the innermost frame outside this library and the front ends on it.

A traceback belongs to its exception. The decorators of public functions catch an error, remove the
frames, and continue with ``raise``, which does not add a frame. Nothing is replaced in `sys` or
`threading`. Functions and methods without such a decorator leave their frames. `explained`
(`builder/graph/calls.py`) is the usual one; `without_internal_frames` is for packages below the
graph, for classes, and for functions that are called often.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import wraps
from itertools import dropwhile
from types import FrameType, TracebackType
from typing import Any, Final, TypeVar, cast


def _library() -> tuple[str, str]:
    """Return the folders of `builder` and `lowering`, ending with a separator."""
    # Code objects of one program spell a path identically, so paths are compared unresolved.
    folder = _library.__code__.co_filename.removesuffix("frames.py")
    root = folder.removesuffix(f"builder{os.sep}support{os.sep}")
    return f"{root}builder{os.sep}", f"{root}lowering{os.sep}"


_LIBRARY: Final = _library()


class _Inside(dict[str, bool]):
    """Maps a file name to whether the file belongs to this library or to a front end on it.

    A dict makes lookups fast: recording an op looks up several files.

    Attributes:
        modules: the names of the packages and modules that are inside.
        paths: the folders, ending with a separator, and the files of `modules`.
    """

    def __init__(self) -> None:
        self.modules: tuple[str, ...] = ("builder", "lowering")
        self.paths: tuple[str, ...] = _LIBRARY

    def __missing__(self, file: str) -> bool:
        inside = self[file] = file.startswith(self.paths)
        return inside

    def add(self, module: str, paths: tuple[str, ...]) -> None:
        """Add the module or package `module` of a front end, with these folders and files."""
        self.modules = tuple(dict.fromkeys((*self.modules, module)))
        self.paths = tuple(dict.fromkeys((*self.paths, *paths)))
        self.clear()


INSIDE: Final = _Inside()


def is_library_file(file: str) -> bool:
    """Return whether a file belongs to `builder` or `lowering`."""
    return file.startswith(_LIBRARY)


def caller_frame(frame: FrameType | None) -> FrameType | None:
    """Return `frame`, or its nearest caller that is outside this library and its front ends."""
    while frame is not None and is_inside(frame):
        frame = frame.f_back
    return frame


def is_inside(frame: FrameType) -> bool:
    """Return whether a frame belongs to this library or to a front end on it."""
    file = frame.f_code.co_filename
    if file != "<string>":
        return INSIDE[file]
    # A method that `dataclass` generated: its globals are those of the module of the class.
    name = f"{frame.f_globals.get('__name__')}."
    return name.startswith(tuple(f"{module}." for module in INSIDE.modules))


def is_called_from(folder: str, frame: FrameType | None) -> bool:
    """Return whether `frame`, or an internal frame that called it, belongs to `builder.FOLDER`."""
    path = f"{_LIBRARY[0]}{folder}{os.sep}"
    while frame is not None and is_inside(frame):
        if frame.f_code.co_filename.startswith(path):
            return True
        frame = frame.f_back
    return False


def shown_file(file: str) -> str:
    """Return the name of a source file for users.

    For a notebook cell it is the name that IPython shows, such as "In[3]", instead of the name of a
    temporary file.
    """
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    name_of_cell = getattr(getattr(shell, "compile", None), "format_code_name", None)
    cell = None if name_of_cell is None else name_of_cell(file)
    return file if cell is None else str(cell[1])


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


F = TypeVar("F", bound=Callable[..., Any])


def without_internal_frames(public: F) -> F:
    """Return a public function or class whose errors are raised without internal frames.

    Args:
        public: a function, or a class. A wrapper of the function is returned; the class gets a
            wrapper of its ``__init__``.
    """
    if isinstance(public, type):
        public.__init__ = without_internal_frames(public.__init__)  # type: ignore[misc]  # wrapped
        return public

    @wraps(public)
    def wrapper(*arguments: Any, **named: Any) -> Any:
        try:
            # The usual call is faster without an empty dict.
            return public(*arguments, **named) if named else public(*arguments)
        except Exception as error:
            remove_internal_frames(error)
            raise

    return cast("F", wrapper)


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
