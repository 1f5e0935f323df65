"""Arguments of ops: what may stand where an XlaOp is expected, and explicit broadcasts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from builder.check import Check, integers
from builder.errors import ConstantError, OperandError, brief
from builder.graph.recording import append, record, resolve_builder
from builder.graph.xla_op import XlaOp
from builder.support.signatures import per_signature
from builder.types.constant import as_constant_array, scalar_constant
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import ArrayShape, Shape

__all__ = [
    "Number",
    "broadcast_to",
    "check_broadcast",
    "dimensions_argument",
    "is_number",
    "need_op",
    "need_ops",
    "number_as",
    "number_constant",
    "plain",
]

_NUMBERS = (int, float, complex, np.generic)

Number = int | float | complex | np.generic
"""A Python or NumPy scalar, which ops take next to an XlaOp."""


def need_op(op: str, name: str, value: Any) -> XlaOp:
    """`value`, which must be an XlaOp."""
    if type(value) is XlaOp:
        return value
    hint = ""
    if isinstance(value, (*_NUMBERS, list)) or hasattr(value, "__array__"):
        hint = "\nfix: record it with builder.constant(value), for instance x.builder.constant(...)"
    elif isinstance(value, tuple):
        hint = "\nfix: gather several ops into one with xb.tuple(...)"
    raise OperandError(
        f"{op}: {name} must be an XlaOp, got {type(value).__name__}: {brief(value, 80)}{hint}",
        op=op,
    )


def need_ops(op: str, name: str, values: Any) -> tuple[XlaOp, ...]:
    """`values`, which must be a sequence of XlaOps; a single XlaOp stands for itself alone."""
    if type(values) is XlaOp:
        return (values,)
    if type(values) is list or type(values) is tuple:
        # What is given nearly always, in a quarter of the time.
        for value in values:
            if type(value) is not XlaOp:
                break
        else:
            return tuple(values)
    if not isinstance(values, Iterable) or isinstance(values, (str, bytes)):
        raise OperandError(
            f"{op}: {name} must be a sequence of XlaOps, "
            f"got {type(values).__name__}: {brief(values, 80)}",
            op=op,
        )
    try:
        return tuple(need_op(op, f"{name} {i}", v) for i, v in enumerate(values))
    except TypeError as error:
        if isinstance(error, OperandError) and error.op is not None:
            raise
        # An array of rank 0 says that it is iterable, and is not.
        raise OperandError(
            f"{op}: {name} must be a sequence of XlaOps, got {brief(values, 80)}", op=op
        ) from None


def is_number(value: Any) -> bool:
    """A Python or NumPy scalar (or array of rank 0), which ops take next to an XlaOp."""
    return isinstance(value, _NUMBERS) or (isinstance(value, np.ndarray) and value.ndim == 0)


def number_as(
    op: str, value: Any, element_type: PrimitiveType, beside: XlaOp, *more: XlaOp
) -> XlaOp:
    """The number `value` as a scalar constant of `element_type`, in the builder of `beside`.

    A NumPy scalar keeps its own type, which the op then checks.
    """
    builder = resolve_builder(op, beside, *more)
    shape, attributes = number_constant(op, value, element_type, beside.shape)
    return append(builder, "constant", shape, (), attributes)


def number_constant(
    op: str, value: Any, element_type: PrimitiveType, beside: Shape
) -> tuple[ArrayShape, Mapping[str, Any]]:
    """The shape and the attributes of what `number_as` records.

    Ops that ask for them first can check their rules before anything is recorded.
    """
    if isinstance(value, (np.generic, np.ndarray)):
        array, shape = as_constant_array(value)
        return shape, {"value": array}
    try:
        return scalar_constant(value, element_type, op)
    except ConstantError as error:
        rule, _, fix = str(error).partition("\nfix: ")
        raise ConstantError(
            f"{rule}\n  operand {beside}" + (f"\nfix: {fix}" if fix else ""),
            op=op,
            shapes={"operand": beside},
        ) from None


def dimensions_argument(op: str, values: Any) -> tuple[int, ...] | None:
    """The argument `broadcast_dimensions` as a tuple of ints, or None when it was not given."""
    if values is None:
        return None
    return integers(op, "broadcast_dimensions", values)


@per_signature
def dimensions_attribute(name: str, dimensions: tuple[int, ...]) -> Mapping[str, tuple[int, ...]]:
    """An attribute mapping with one entry, shared by all ops that say the same."""
    return MappingProxyType({name: dimensions})


def plain(value: Any, depth: int = 3) -> Any:
    """Whole numbers in lists and tuples as tuples, to be a key; None where it is anything else.

    What the numbers are turned into need then not be made again; it may be None for an empty one
    of a depth that no argument has.
    """
    kind = type(value)
    if kind is int:
        return value
    if depth and (kind is list or kind is tuple):
        parts = tuple([plain(part, depth - 1) for part in value])
        return None if None in parts else parts
    return None


def check_broadcast(op: str, source: Shape, shape: ArrayShape) -> None:
    """Raises unless a broadcast from `source` to `shape` can be said: all sizes have a bound."""
    assert isinstance(source, ArrayShape)  # inference has said so
    if not (shape.is_bounded and source.is_bounded):
        Check(op, operand=source).fail(
            f"an operand can't be broadcast where a size is unbounded: {source} would have to "
            f"become {shape}",
            fix="give the dimension a bound: f32[<=n] instead of f32[?]",
        )


def broadcast_to(
    operand: XlaOp, shape: ArrayShape, dimensions: tuple[int, ...], op: str = "broadcast_in_dim"
) -> XlaOp:
    """Records the broadcast of `operand` into `shape`; its dimensions go where it is said."""
    source = operand.shape
    assert isinstance(source, ArrayShape)  # inference has said so
    check_broadcast(op, source, shape)
    return record(
        "broadcast_in_dim",
        shape,
        (operand,),
        dimensions_attribute("broadcast_dimensions", dimensions),
    )
