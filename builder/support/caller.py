"""Where the caller is: the nearest frame of the stack that is not this library's."""

from __future__ import annotations

from types import FrameType
from typing import Final

__all__ = ["INSIDE", "caller_frame"]


class _Inside(dict[str, bool]):
    """Whether a source file belongs to `builder` or `lowering`; asked thrice for each op."""

    def __missing__(self, file: str) -> bool:
        # As the interpreter spells this very file, so that no path has to be resolved.
        folder = caller_frame.__code__.co_filename.removesuffix("caller.py")
        separator = folder[-1]
        root = folder.removesuffix(f"builder{separator}support{separator}")
        packages = (f"{root}builder{separator}", f"{root}lowering{separator}")
        found = self[file] = file.startswith(packages)
        return found


INSIDE: Final = _Inside()


def caller_frame(frame: FrameType | None) -> FrameType | None:
    """`frame` or the nearest one below it on the stack that is outside of this library."""
    while frame is not None and INSIDE[frame.f_code.co_filename]:
        frame = frame.f_back
    return frame
