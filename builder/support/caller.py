"""Find the caller: the innermost stack frame outside this library and the front ends on it."""

from __future__ import annotations

import os
import sys
from types import FrameType
from typing import Final


def _library() -> tuple[str, str]:
    """Return the folders of `builder` and `lowering`, ending with a separator."""
    # Code objects of one program spell a path identically, so paths are compared unresolved.
    folder = _library.__code__.co_filename.removesuffix("caller.py")
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
