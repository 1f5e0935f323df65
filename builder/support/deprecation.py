"""Warnings for names that a later version removes. docs/stability.md has the rule."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from builder.support.frames import is_library_file, without_internal_frames

_MINOR_VERSIONS: Final = 2
"""For how many minor versions a deprecated name remains."""

P = ParamSpec("P")
R = TypeVar("R")


def deprecated(name: str, *, since: str, use: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function so that a call of it issues a DeprecationWarning at the caller's line.

    Python shows a warning once for each line that causes it. `@classmethod`, `@staticmethod` and
    `@property` come above this decorator. Calls between functions of this library do not count as
    the caller's line.

    Args:
        name: the function as users write it, such as "xb.old".
        since: the version that deprecates it, such as "1.1". It is removed two minor versions
            later.
        use: what to write instead, such as "xb.new(...)".

    Example:
        >>> import warnings
        >>> @deprecated("xb.twice", since="1.1", use="xb.add(x, x)")
        ... def twice(x):
        ...     return x + x
        >>> with warnings.catch_warnings(record=True) as shown:
        ...     warnings.simplefilter("always")
        ...     twice(2)
        4
        >>> print(shown[0].message)
        xb.twice is deprecated since 1.1 and will be removed in 1.3: use xb.add(x, x)
    """
    major, minor = map(int, since.split("."))
    removed = f"{major}.{minor + _MINOR_VERSIONS}"
    message = f"{name} is deprecated since {since} and will be removed in {removed}: use {use}"

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @without_internal_frames
        @functools.wraps(function)
        def warning(*args: P.args, **kwargs: P.kwargs) -> R:
            frame, level = sys._getframe(1), 2
            while is_library_file(frame.f_code.co_filename) and frame.f_back is not None:
                frame, level = frame.f_back, level + 1
            warnings.warn(message, DeprecationWarning, stacklevel=level)
            return function(*args, **kwargs)

        return warning

    return decorate
