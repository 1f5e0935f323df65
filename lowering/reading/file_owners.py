"""Warn about files with machine code that other users of the machine can change."""

from __future__ import annotations

import os
import stat
import sys
import warnings
from typing import Any

from builder.support.caller import caller_frame


def warn(message: str) -> None:
    """Issue a RuntimeWarning at the line of the user's code that called this library."""
    frame = caller_frame(sys._getframe())
    if frame is None:
        warnings.warn_explicit(message, RuntimeWarning, "<unknown>", 0)
        return
    shown: dict[Any, Any] = frame.f_globals.setdefault("__warningregistry__", {})
    file, line = frame.f_code.co_filename, frame.f_lineno
    warnings.warn_explicit(message, RuntimeWarning, file, line, registry=shown)


def warn_of_writers(status: os.stat_result, name: str) -> None:
    """Warn if users other than this one and root can write to a file or folder; on POSIX only.

    Args:
        status: the status of the file or folder.
        name: the path of the file or folder, for the message.
    """
    if os.name != "posix":
        return
    user, mode = os.geteuid(), status.st_mode
    if status.st_uid not in (0, user):
        reason, fix = f"it belongs to user {status.st_uid}", "use a file or folder of your own"
    elif mode & stat.S_IWOTH:
        reason, fix = "every user can write to it", f"chmod go-w {name}"
    elif mode & stat.S_IWGRP:
        reason, fix = f"group {status.st_gid} can write to it", f"chmod g-w {name}"
    else:
        return
    warn(
        f"{name} contains machine code, which other users of this machine can change: {reason}\n"
        f"fix: {fix}"
    )
