"""Read the arrays that users pass, possibly nested; name leaves, and pack results into tuples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any, Final

import numpy as np

from builder.errors import error_of
from builder.graph.xla_op import XlaOp
from builder.types import foreign_arrays, primitive_type as pt
from builder.types.expected_arrays import NestingError, array_for, describe_array, flatten_value
from builder.types.foreign_arrays import UnreadableArrayError, read_array
from builder.types.shape import ArrayShape, ProgramShape, Shape, TokenShape, TupleShape, leaves
from lowering.errors import ArgumentError
from lowering.jaxlib_api import jax_arrays
from lowering.jaxlib_api.lazy_jax import jax
from lowering.mlir.types import leaf_paths

_JaxArray: Final = jax_arrays.array_type

TRANSFERRED: Final = frozenset(
    t.dtype for t in pt.ALL if t not in (pt.s64, pt.u64, pt.f64, pt.c128)
)
"""The dtypes of the NumPy arrays that jaxlib transfers unchanged.

If jax's x64 flag is off, jaxlib converts 64-bit elements to f32, s32, u32 and c64."""

_LARGE: Final = 2**20
"""The number of bytes from which aligned copies are faster on CPU."""

_ALIGNMENT: Final = 64


def _aligned_copy(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Copy an array to an address at which XLA's CPU backend uses it without another copy."""
    memory = np.empty(array.nbytes + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    elements = memory[start : start + array.nbytes].view(array.dtype)
    copy: np.ndarray[Any, Any] = elements.reshape(array.shape)
    copy[...] = array
    return copy


def copy_numpy(values: Sequence[Any]) -> Sequence[Any] | None:
    """Copy the NumPy arrays among the arguments that jaxlib will transfer to the device.

    jaxlib transfers NumPy arrays fastest when it executes a program. But jaxlib may read the arrays
    while the program runs, and the caller may write to the original arrays at that time.

    Returns:
        The arguments with copied NumPy arrays; `values` itself if all are jax.Arrays. None if a
        value has another type, if jaxlib would convert an array (see `TRANSFERRED`), or if there is
        not enough memory.
    """
    arrays = []
    is_same = True
    try:
        for value in values:
            if type(value) is np.ndarray:
                if value.dtype not in TRANSFERRED:
                    return None
                arrays.append(value.copy() if value.nbytes < _LARGE else _aligned_copy(value))
                is_same = False
            elif type(value) is _JaxArray:
                arrays.append(value)
            elif isinstance(value, np.generic) and value.dtype in TRANSFERRED:
                arrays.append(np.asarray(value))
                is_same = False
            else:
                return None
    except MemoryError:
        return None
    return values if is_same else arrays


def check_readable(op: str, array: jax.Array) -> None:
    """Raise ArgumentError for a jax.Array that was deleted, or is on other processes' devices."""
    if array.is_deleted():
        rule = "expected an array"
        raise error_of(ArgumentError, op, rule, got="a jax.Array that has been deleted")
    if not array.is_fully_addressable:
        rule = "expected an array of this process"
        raise error_of(ArgumentError, op, rule, got="a jax.Array on devices of other processes")


def array_or_jax_array(op: str, value: Any) -> np.ndarray[Any, Any] | jax.Array:
    """Return a jax.Array itself, and an array of another library as a NumPy array.

    Raises:
        ArgumentError: `value` is not an array, or its elements can't be read.
    """
    if isinstance(value, jax.Array):
        if isinstance(value, jax.core.Tracer):
            rule = "expected an array"
            fix = f"call {op} outside of jax.jit, jax.grad and other transformations"
            raise error_of(ArgumentError, op, rule, fix, got="a tracer of jax")
        check_readable(op, value)
        return value
    try:
        array = read_array(value)
    except UnreadableArrayError as error:
        raise error_of(ArgumentError, op, "expected an array", error.fix, got=error.got) from None
    if array is None:
        fix = "pass numpy.asarray(value, dtype)"
        raise error_of(ArgumentError, op, "expected an array", fix, got=describe(value))
    return array


def describe(value: Any) -> str:
    """Describe a value for messages: an op, the shape of an array, the type of anything else."""
    return str(value) if isinstance(value, XlaOp) else foreign_arrays.describe(value)


class MismatchError(Exception):
    """A value does not have the expected shape; the message is the rule with the value.

    Attributes:
        fix: an imperative sentence, or empty.
    """

    def __init__(self, rule: str, fix: str = "") -> None:
        super().__init__(rule)
        self.fix = fix


def read_leaves(name: str, value: Any, shape: Shape) -> list[Any]:
    """Return the leaves of a value, which must have exactly this shape.

    Args:
        name: the name of the value, for messages.
        value: arrays, numbers or lists, nested like the shape.
        shape: the shape.

    Returns:
        An array in C order for each leaf, which may share memory with `value`; None for tokens.

    Raises:
        MismatchError: the value does not have this shape.
    """
    try:
        flat = flatten_value(value, shape)
    except NestingError as error:
        count = len(error.shape.elements)
        raise MismatchError(
            f"{name}{error.path} must be a tuple of {count}, {error.shape}, got {error.got}"
        ) from None
    return [_read(f"{name}{path}", leaf, expected) for leaf, expected, path in flat]


def _read(name: str, leaf: Any, expected: ArrayShape | TokenShape) -> np.ndarray[Any, Any] | None:
    if isinstance(expected, TokenShape):
        if leaf is not None:
            raise MismatchError(f"{name} must be None for a token, got {describe(leaf)}")
        return None
    try:
        array = array_for(leaf, expected)
    except UnreadableArrayError as error:
        raise MismatchError(f"{name} must be {expected}, got {error.got}", error.fix) from None
    if array.dtype != expected.element_type.dtype or array.shape != expected.dimensions:
        raise MismatchError(f"{name} must be {expected}, got {describe_array(leaf, array)}")
    return np.asarray(array, order="C")


NamedLeaf = tuple[str, ArrayShape | TokenShape]


def named_leaves(name: str, shape: Shape) -> list[NamedLeaf]:
    """Return the path and the shape of each leaf: "x[0]" and "x[1]" for a tuple named "x"."""
    paths = (f"{name}{path}" for path in leaf_paths(shape))
    return list(zip(paths, leaves(shape), strict=True))


def program_leaves(shape: ProgramShape) -> tuple[list[NamedLeaf], list[NamedLeaf]]:
    """Return the leaves of the parameters, and the leaves of the result.

    The paths are for messages: "parameter x[0]", "the result[1]".
    """
    parameters = [
        leaf
        for name, parameter in zip(shape.parameter_names, shape.parameters, strict=True)
        for leaf in named_leaves(f"parameter {name}", parameter)
    ]
    return parameters, named_leaves("the result", shape.result)


_TAKE: Final = -1
_HIDE: Final = -2


def result_packer(shape: Shape) -> Callable[[list[Any]], Any]:
    """Return a function that packs a flat list of results into tuples nested like `shape`.

    The function returns None in place of each token.
    """
    if isinstance(shape, ArrayShape):
        return itemgetter(0)
    if isinstance(shape, TupleShape) and all(isinstance(e, ArrayShape) for e in shape.elements):
        return tuple
    # Postfix order: an array, a token, or a tuple of the last `count` values.
    steps: list[int] = []
    stack: list[Shape | int] = [shape]
    while stack:
        top = stack.pop()
        if isinstance(top, int):
            steps.append(top)
        elif isinstance(top, TupleShape):
            stack.append(len(top.elements))
            stack.extend(reversed(top.elements))
        else:
            steps.append(_TAKE if isinstance(top, ArrayShape) else _HIDE)

    def pack(results: list[Any]) -> Any:
        remaining = iter(results)
        done: list[Any] = []
        for step in steps:
            if step < 0:
                result = next(remaining)
                done.append(result if step == _TAKE else None)
            else:
                start = len(done) - step
                done[start:] = [tuple(done[start:])]
        return done[0]

    return pack


def bounded_dimensions(shapes: Iterable[Shape]) -> list[tuple[int, int]]:
    """List the bounded dimensions of all leaves as pairs (leaf number, dimension).

    The sizes are passed in this order, after all other arguments and after all other results.
    """
    pairs = []
    all_leaves = (leaf for shape in shapes for leaf in leaves(shape))
    for number, leaf in enumerate(all_leaves):
        if not leaf.is_static:
            assert isinstance(leaf, ArrayShape)  # tokens have no sizes
            pairs += [(number, d) for d, dynamic in enumerate(leaf.dynamic_dimensions) if dynamic]
    return pairs
