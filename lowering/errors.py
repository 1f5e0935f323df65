"""The errors that `lowering` raises: subclasses of `builder.XlaError`.

A message has the rule that was violated, the actual values, and the fix, in a line or two.
`detail` has the original report of MLIR or XLA.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar, Final

from builder.errors import XlaError


class _DetailedError(XlaError):
    """An error that carries the original report of MLIR, XLA or a compiler.

    Attributes:
        detail: the report, possibly long; empty if there is no report.
    """

    _op: ClassVar[str | None] = None
    """The default of the attribute `op`: the function of `lowering` that raises this error."""

    def __init__(self, rule: str, *, op: str | None = None, detail: str = "", **facts: Any) -> None:
        super().__init__(rule, op=op, **facts)
        self.op = op if op is not None else self._op
        self.detail = detail


class LoweringError(_DetailedError, ValueError):
    """StableHLO can't express a computation, or a StableHLO module can't be imported.

    `op` is the opcode of the unsupported op, or "lower" if the error is not about a single op.
    """

    _op = "lower"


class ModuleFileError(_DetailedError, ValueError):
    """A module or an executable can't be read from a file or bytes, or can't be written to a file.

    `op` is "load", "save" or "load_executable".

    Attributes:
        path: the file, or None for bytes and text in memory.
        line, column: the position of the error in the text, counted from 1; None if unknown.
    """

    _op = "load"

    def __init__(
        self,
        rule: str,
        *,
        path: str | None = None,
        line: int | None = None,
        column: int | None = None,
        **facts: Any,
    ) -> None:
        super().__init__(rule, **facts)
        self.path = path
        self.line = line
        self.column = column


class VersionError(_DetailedError, ValueError):
    """A portable artifact can't be written for the requested StableHLO version.

    `op` is "artifact" or "save".

    Attributes:
        version: the requested version.
    """

    _op = "artifact"

    def __init__(self, rule: str, *, version: Any = None, **facts: Any) -> None:
        super().__init__(rule, **facts)
        self.version = version


class ArgumentError(_DetailedError, TypeError, ValueError):
    """The arguments of a compiled computation do not match its parameters.

    An ArgumentError is a TypeError and a ValueError: Python raises a TypeError for a wrong number
    of arguments and a ValueError for a wrong value. `op` is the name of the computation, and
    `shapes` has the shapes of its parameters by name.

    Attributes:
        computation: the name of the computation.
        argument: the number of the wrong argument; None if the error is not about one argument.
        name: the name of the wrong argument's parameter, or None.
    """

    def __init__(
        self,
        rule: str,
        *,
        computation: str | None = None,
        name: str | None = None,
        op: str | None = None,
        **facts: Any,
    ) -> None:
        super().__init__(rule, op=op or computation, **facts)
        self.computation = computation
        self.name = name


class CompileError(_DetailedError, RuntimeError):
    """XLA can't compile a module for a device."""

    _op = "compile"


class DeviceError(_DetailedError, RuntimeError):
    """A device does not exist, or this process can't use it."""

    _op = "device"


class ExecutionError(_DetailedError, RuntimeError):
    """A program failed while it ran.

    `op` is the operation that failed.
    """

    _op = "execute"


_FILE_AND_LINE: Final = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):\d+')


def recorded_at(location: object) -> str:
    """Return ", recorded at FILE:LINE," for an MLIR location; "" if it has no file."""
    match = _FILE_AND_LINE.search(str(location))
    if match is None:
        return ""
    file = unescaped(match[1])
    return f", recorded at {file if file.isprintable() else repr(file)}:{match[2]},"


_ESCAPED: Final = {b"n": b"\n", b"t": b"\t"}
_ESCAPE: Final = re.compile(rb"\\([0-9A-Fa-f]{2}|.)", re.DOTALL)


def unescaped(text: str) -> str:
    """Return the content of a quoted MLIR string, with escapes decoded."""
    if "\\" not in text:
        return text

    def byte(match: re.Match[bytes]) -> bytes:
        code = match[1]
        return bytes.fromhex(code.decode()) if len(code) == 2 else _ESCAPED.get(code, code)

    return _ESCAPE.sub(byte, text.encode()).decode("utf-8", "replace")
