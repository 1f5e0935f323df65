"""Nested tuples as nested Python tuples.

XLA: tuple.h of the client library, whose `ShapeTree` is a nested Python tuple here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from builder.errors import OperandError, error_of
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.lib.registry import library_function
from builder.ops.control_flow import get_tuple_element, tuple as record_tuple
from builder.ops.operands import need_op
from builder.types.shape import TupleShape

_MAX_DEPTH: Final = 200


@library_function("DisassembleTuple")
def disassemble_tuple(tuple: XlaOp) -> Any:
    """Return the arrays and tokens in a tuple, as a Python tuple; inner tuples likewise.

    Args:
        tuple: an op whose result is a tuple. An array or a token is returned unchanged.

    Raises:
        OperandError: the argument is not an op.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> t = xb.XlaBuilder().parameter("(f32[2], (s32[], pred[3]))")
        >>> x, (i, mask) = lib.disassemble_tuple(t)
        >>> x.shape, i.shape, mask.shape
        (f32[2], s32[], pred[3])
    """
    return _disassembled(need_op("disassemble_tuple", "tuple", tuple))


def _disassembled(value: XlaOp) -> Any:
    if not isinstance(value.shape, TupleShape):
        return value
    indices = range(len(value.shape))
    return (*(_disassembled(get_tuple_element(value, index)) for index in indices),)


@library_function("AssembleTuple")
def assemble_tuple(builder: XlaBuilder, elements: Any) -> XlaOp:
    """Combine the ops in nested Python sequences into a tuple; inner sequences are inner tuples.

    It is the inverse of `disassemble_tuple`.

    Args:
        builder: records empty tuples.
        elements: a list or tuple of ops, lists and tuples. An op is returned unchanged.

    Raises:
        OperandError: an element is not an op; the sequences are nested too deeply.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> x = b.parameter(xb.f32[2])
        >>> lib.assemble_tuple(b, [x, [x, ()]]).shape
        (f32[2], (f32[2], ()))
    """
    return _assembled(builder, elements, _MAX_DEPTH)


def _assembled(builder: XlaBuilder, value: Any, depth: int) -> XlaOp:
    if isinstance(value, XlaOp) or not isinstance(value, Sequence) or isinstance(value, str):
        return need_op("assemble_tuple", "element", value)
    if not depth:
        rule = f"sequences must be nested at most {_MAX_DEPTH} deep; one may contain itself"
        raise error_of(OperandError, "assemble_tuple", rule)
    parts = [_assembled(builder, part, depth - 1) for part in value]
    return record_tuple(*parts) if parts else builder.empty_tuple()
