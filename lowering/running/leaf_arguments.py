"""The arrays in the arguments of a jitted function: their shapes, and errors for other values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import jax
import numpy as np

from builder.graph.xla_op import XlaOp
from builder.types import primitive_type as pt
from builder.types.foreign_arrays import UnreadableArrayError, read_array
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import ArrayShape, Shape, TokenShape, TupleShape, intern_array
from lowering.jaxlib_api import jax_arrays
from lowering.pjrt.host_arrays import describe

_JaxArray: Final = jax_arrays.array_type
_SHAPES: Final = (ArrayShape, TupleShape, TokenShape)
_NOT_FOREIGN: Final = (jax.Array, XlaOp, bool, int, float, complex)
NUMBERS: Final = frozenset((bool, int, float, complex))
"""The types of Python numbers, which become arrays of rank 0."""


def descriptions(leaves: Sequence[Any]) -> tuple[Any, ...]:
    """Return a hashable description of each leaf: shape and element type; None if not an array."""
    # The aval of a jax.Array is faster than its shape and dtype: jax has one object for equal
    # avals, so that a dict compares it by identity.
    return tuple(
        [
            leaf.aval
            if type(leaf) is _JaxArray
            else (
                (leaf.dtype, leaf.shape)
                if type(leaf) is np.ndarray or isinstance(leaf, np.generic)
                else None
            )
            for leaf in leaves
        ]
    )


def as_numpy(leaf: Any) -> Any:
    """Return an array of another library as a NumPy array; any other value itself."""
    if type(leaf) is np.ndarray or isinstance(leaf, _NOT_FOREIGN):
        return leaf
    try:
        array = read_array(leaf)
    except UnreadableArrayError:  # `mismatch` reports the reason
        return leaf
    return leaf if array is None else array


def shape_of(leaf: Any) -> ArrayShape | None:
    """Return the shape of an array that an executable takes; None for other values."""
    if type(leaf) is _JaxArray or type(leaf) is np.ndarray or isinstance(leaf, np.generic):
        return _array_shape(leaf)
    return None


def element_types(leaves: Sequence[Any]) -> list[PrimitiveType]:
    """Return the element types of the arrays, shapes and XlaOps among the leaves."""
    shapes = [
        leaf.shape if type(leaf) is XlaOp else shape_of(leaf) or declared_shape(leaf)
        for leaf in leaves
    ]
    return [shape.element_type for shape in shapes if isinstance(shape, ArrayShape)]


def declared_shape(leaf: Any) -> Shape | None:
    """Return the shape of a shape, a `jax.ShapeDtypeStruct` or a tracer; None for other values."""
    if isinstance(leaf, (jax.ShapeDtypeStruct, jax.core.Tracer)):
        return _array_shape(leaf)
    return leaf if isinstance(leaf, _SHAPES) else None


def _array_shape(array: Any) -> ArrayShape | None:
    try:
        return intern_array(pt.from_dtype(array.dtype), tuple(array.shape))
    except ValueError:
        return None


def mismatch(leaf: Any, name: str, *, is_argument: bool) -> tuple[str, str]:
    """Return the rule that a leaf violates, with the leaf's value, and the fix.

    Args:
        leaf: a value that is not an array.
        name: the leaf's path in the arguments.
        is_argument: whether the leaf is a full argument, not a part of one.
    """
    alternative = ""
    if is_argument:
        alternative = f"; or, if the value rarely changes, pass static=[{name!r}] to lowering.jit"
    elif name.rpartition(".")[2].isidentifier():
        alternative = (
            "; or register the class of this field's object, with the field as metadata: "
            "jax.tree_util.register_dataclass(..., meta_fields=[...])"
        )
    if isinstance(leaf, jax.core.Tracer):
        fix = "call lowering.to_jax(function.computation(...)) in transformations of jax"
        return "an array, got a tracer of jax", fix
    if declared_shape(leaf) is not None:
        fix = "pass an array; only computation, lower and compile take shapes"
        return f"an array, got the shape {leaf}", fix
    fix = f"pass a NumPy array or a jax.Array{alternative}"
    if isinstance(leaf, jax.Array):
        fix = "pass the key's numbers: jax.random.key_data(key)"
    else:
        try:
            read_array(leaf)
        except UnreadableArrayError as error:
            return f"an array, got {error.got}", error.fix
    return f"an array of numbers, got {describe(leaf)}", fix
