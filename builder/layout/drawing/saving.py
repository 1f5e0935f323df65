"""Save pictures to files."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

from builder.errors import OperandError, brief, error_of


def save_as(path: str | os.PathLike[str], writers: Mapping[str, Callable[[], str]]) -> None:
    """Write a picture to a file, atomically.

    Args:
        path: the file.
        writers: for each suffix a function that returns the content.

    Raises:
        OperandError: `path` is not a str or path object, has another suffix, or can't be written.
    """
    try:
        file = Path(path)
    except TypeError:
        raise OperandError(
            f"path must be a str or os.PathLike, got {brief(path)}", op="save"
        ) from None
    write = writers.get(file.suffix.lower())
    if write is None:
        *others, last = writers
        rule = f"path must end in {', '.join(others)} or {last}, got {brief(os.fspath(path))}"
        raise error_of(OperandError, "save", rule)
    _write(file, write())


def _write(file: Path, text: str) -> None:
    """Write a temporary file and rename it, so that the file is never incomplete."""
    temporary = file.with_name(f".{file.name[:200]}.{secrets.token_hex(6)}.tmp")
    try:
        try:
            with temporary.open("x", encoding="utf-8") as stream:
                stream.write(text)
            temporary.replace(file)
        finally:
            temporary.unlink(missing_ok=True)
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        reason = getattr(error, "strerror", None) or str(error)
        rule = f"{brief(str(file))} can't be written: {reason[:1].lower()}{reason[1:]}"
        raise error_of(OperandError, "save", rule) from None
