"""The wrapper of public functions that explains wrong arguments.

Python's TypeError does not contain what to write. Ops with a body of their own, and other public
functions, are wrapped in `explained`. An op that `builder/ops/definition.py` makes accepts any
arguments, and calls `builder.graph.wrong_calls` for wrong ones.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from builder.errors import XlaError
from builder.support.frames import remove_internal_frames

F = TypeVar("F", bound=Callable[..., Any])


def is_of_call(error: Exception) -> bool:
    """Return whether an error that was just caught is Python's, for a call that does not fit."""
    if not isinstance(error, TypeError) or isinstance(error, XlaError):
        return False
    return error.__traceback__ is not None and error.__traceback__.tb_next is None


def explained(function: F) -> F:
    """Return a wrapper of `function` that explains arguments that it does not accept."""

    @wraps(function)
    def checked(*arguments: Any, **named: Any) -> Any:
        try:
            # The usual call is faster without an empty dict.
            return function(*arguments, **named) if named else function(*arguments)
        except Exception as error:
            # Lazy imports: only errors need them.
            from builder.graph.corrections import correct, users_frame

            if not is_of_call(error):
                if isinstance(error, XlaError):
                    correct(error, function, arguments, named, users_frame(sys._getframe()))
                remove_internal_frames(error)
                raise
            text = str(error)
        from builder.graph.wrong_calls import refused_call

        frame = users_frame(sys._getframe())
        raise refused_call(function, function, arguments, named, text, frame)

    return cast("F", checked)
