"""Python frames at the source lines of ops.

jax takes the locations of its operations, and the lines in its errors, from the stack of Python
frames. So each op is evaluated in a frame whose file, line and function are those of the program
that recorded the op. jax ignores the frames of this package.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final

from jax.extend import source_info_util

from builder.graph.xla_op import XlaOp, resolve_position

Frame = Callable[[Callable[..., Any], Sequence[Any]], Any]
"""Calls a function with arguments, in a frame of its own."""

source_info_util.register_exclusion(str(Path(__file__).parent))


def _frame(file: str, line: int, column: int, function: str) -> Frame:
    """Return a function whose code is at a position of a file."""
    name = function.rpartition(".")[2]
    # The positions in a code object are relative to its first line.
    code = _template(column).replace(
        co_filename=file, co_firstlineno=line, co_name=name, co_qualname=function
    )
    return FunctionType(code, {"__builtins__": builtins, "__name__": name}, name)


@cache
def _template(column: int) -> CodeType:
    """Return the code of a frame at a column of a first line."""
    tree = ast.parse("lambda step, operands: step(*operands)", mode="eval")
    for node in ast.walk(tree):
        if isinstance(node, (ast.expr, ast.arg)):
            node.lineno = node.end_lineno = 1
            node.col_offset, node.end_col_offset = column - 1, column
    code: CodeType = eval(compile(tree, "", "eval")).__code__
    return code


def call(step: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """Call a step for an op without a source line."""
    return step(*operands)


_FRAMES: Final[dict[tuple[int, int], tuple[CodeType, Frame]]] = {}
"""The frames of source positions. Keyed by id because hashing a code object hashes its constants;
the entry keeps the object alive."""

_MOST_KEPT: Final = 65536


def frame_of(op: XlaOp) -> Frame:
    """Return a function that calls a step in a frame at the source line of an op."""
    code = op._code
    if code is None or (op.metadata is not None and op.metadata.source is not None):
        source = op.source
        if source is None:
            return call
        return _frame(source.file, source.line, max(source.column, 1), source.function or "op")
    key = id(code), op._lasti
    entry = _FRAMES.get(key)
    if entry is None:
        if len(_FRAMES) > _MOST_KEPT:
            _FRAMES.clear()
        # Not the name of the file for users: Python reads the line from the file.
        line, column = resolve_position(code, op._lasti)
        entry = _FRAMES[key] = code, _frame(code.co_filename, line, column, code.co_qualname)
    return entry[1]
