"""Find the caller: the innermost stack frame outside this library."""

from __future__ import annotations

from types import FrameType
from typing import Final


class _Inside(dict[str, bool]):
    """Maps a file name to whether the file belongs to `builder` or `lowering`.

    A dict makes lookups fast: recording an op looks up several files.
    """

    def __missing__(self, file: str) -> bool:
        # Code objects of one program spell a path identically, so paths are compared unresolved.
        folder = caller_frame.__code__.co_filename.removesuffix("caller.py")
        separator = folder[-1]
        root = folder.removesuffix(f"builder{separator}support{separator}")
        packages = (f"{root}builder{separator}", f"{root}lowering{separator}")
        inside = self[file] = file.startswith(packages)
        return inside


INSIDE: Final = _Inside()


def caller_frame(frame: FrameType | None) -> FrameType | None:
    """Return `frame`, or its nearest caller that is outside this library."""
    while frame is not None and (INSIDE[frame.f_code.co_filename] or _is_generated(frame)):
        frame = frame.f_back
    return frame


def _is_generated(frame: FrameType) -> bool:
    """Return whether the frame runs a method that `dataclass` generated in this library.

    Its file name is "<string>"; its globals are those of the module that defines the class.
    """
    if frame.f_code.co_filename != "<string>":
        return False
    return str(frame.f_globals.get("__name__")).startswith(("builder.", "lowering."))
