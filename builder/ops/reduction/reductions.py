"""Reductions along whole dimensions.

Operation Semantics: Reduce.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from builder import shape_inference
from builder.computation import XlaComputation
from builder.nested import as_computation, is_own
from builder.ops.operands import Number, is_number, need_op, need_ops, number_as
from builder.ops.registry import op
from builder.recording import record, resolve_builder, undone_on_error
from builder.shape import ArrayShape, Shape, intern_array
from builder.shape_inference.check import Check, integers
from builder.xla_builder import XlaBuilder
from builder.xla_op import XlaOp

__all__ = [
    "folded_operands",
    "inits_of",
    "reduce",
    "reduce_all",
    "reducer_and_inits",
    "resolved",
    "scalars_of",
    "shapes_of_inits",
]

_reduce_shape = lru_cache(maxsize=65536)(shape_inference.reduction.reduce)


@op("Reduce", opcode="reduce", section="Reduce")
def reduce(
    operands: XlaOp | Sequence[XlaOp],
    init_values: XlaOp | Number | Sequence[XlaOp | Number],
    computation: XlaComputation | Callable[..., Any],
    dimensions: Sequence[int],
) -> XlaOp:
    """The elements of one or more arrays folded together along some dimensions.

    The order in which elements are folded is not defined: the computation should be associative,
    up to rounding, and the init value should change nothing.

    Args:
        operands: an array, or N arrays of the same sizes and of any element types.
        init_values: for each operand the scalar to begin with; a Python number stands for a
            constant of the operand's type.
        computation: a reducer: for one operand ``(accumulated, value) -> new``, all scalars of its
            type; for N operands it takes N accumulated values and then N new ones, and gives a
            tuple of N. A computation, or a callable such as ``xb.add`` or a lambda.
        dimensions: the dimensions that are folded, in any order; none leaves the sizes.

    Returns:
        An array of the operand's remaining dimensions; for several operands a tuple of those.

    Raises:
        ShapeInferenceError: sizes differ; a dimension is out of range or named twice; an init
            value is no scalar of its operand's type; counts differ.
        SignatureError: the computation is no reducer for these operands.
        ConstantError: the type can't hold a number.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[4, 2, 3])
        >>> xb.reduce(x, 0.0, xb.add, dimensions=[0, 1]).shape
        f32[3]
        >>> i = x.builder.iota(xb.s32[4, 2, 3], 2)
        >>> def argmax(best, best_at, value, at):
        ...     better = value > best
        ...     return xb.select(better, value, best), xb.select(better, at, best_at)
        >>> xb.reduce([x, i], [float("-inf"), 0], argmax, dimensions=[2]).shape
        (f32[4,2], s32[4,2])

    Operation Semantics: Reduce.
    """
    places = integers("reduce", "dimensions", dimensions)
    return _reduce("reduce", operands, init_values, computation, places)


@lru_cache(maxsize=65536)
def _own_plan(
    name: str,
    operands: tuple[Shape, ...],
    init_values: tuple[Shape, ...],
    computation: Callable[..., Any],
    places: tuple[int, ...],
) -> tuple[Shape, Mapping[str, Any]]:
    """Shape and attributes where one of the library's own functions is the reducer."""
    scalars = scalars_of(name, operands)
    applied = as_computation(name, "computation", computation, scalars + scalars)
    shape = _reduce_shape(operands, init_values, applied.program_shape, places, name)
    return shape, MappingProxyType({"to_apply": applied, "dimensions": places})


def _reduce(
    name: str, operands: Any, init_values: Any, computation: Any, places: tuple[int, ...]
) -> XlaOp:
    arrays, given = folded_operands(name, operands, init_values)
    shapes = tuple([a.shape for a in arrays])
    init_shapes = shapes_of_inits(name, shapes, given)
    if init_shapes is not None and is_own(computation):
        shape, attributes = _own_plan(name, shapes, init_shapes, computation, places)
        inits = inits_of(name, arrays, given)
    elif init_shapes is not None and type(computation) is XlaComputation:
        shape = _reduce_shape(shapes, init_shapes, computation.program_shape, places, name)
        attributes = MappingProxyType({"to_apply": computation, "dimensions": places})
        inits = inits_of(name, arrays, given)
    else:
        with undone_on_error(resolved(name, arrays, given)):
            applied, inits = reducer_and_inits(name, arrays, given, computation)
            init_shapes = tuple([i.shape for i in inits])
            shape = _reduce_shape(shapes, init_shapes, applied.program_shape, places, name)
        attributes = MappingProxyType({"to_apply": applied, "dimensions": places})
    return record("reduce", shape, (*arrays, *inits), attributes)


def folded_operands(
    op: str, operands: Any, init_values: Any
) -> tuple[tuple[XlaOp, ...], Sequence[Any]]:
    """The operands of a reduction, of which there must be one, and its init values in a list."""
    arrays = need_ops(op, "operand", operands)
    if not arrays:
        Check(op).fail("at least one operand is needed, got none")
    return arrays, init_values if isinstance(init_values, (list, tuple)) else (init_values,)


def resolved(op: str, arrays: tuple[XlaOp, ...], given: Sequence[Any]) -> XlaBuilder:
    """The builder that records the reduction."""
    return resolve_builder(op, *arrays, *[v for v in given if type(v) is XlaOp])


def shapes_of_inits(
    op: str, shapes: tuple[Shape, ...], given: Sequence[Any]
) -> tuple[Shape, ...] | None:
    """The shapes of init values that need nothing recorded before the rules are checked.

    Those are ops, or a single Python number; None for all others.
    """
    if len(given) == 1 and type(given[0]) in _PYTHON_NUMBERS:
        return scalars_of(op, shapes) if len(shapes) == 1 else None
    for value in given:
        if type(value) is not XlaOp:
            return None
    return tuple([v.shape for v in given])


_PYTHON_NUMBERS = frozenset((bool, int, float, complex))


def inits_of(op: str, arrays: tuple[XlaOp, ...], given: Sequence[Any]) -> Sequence[XlaOp]:
    """The init values that `shapes_of_inits` has told the shapes of, the number recorded."""
    if len(given) == 1 and type(given[0]) is not XlaOp:
        return (number_as(op, given[0], arrays[0].shape.element_type, arrays[0]),)
    return given


def reducer_and_inits(
    op: str, arrays: tuple[XlaOp, ...], given: Sequence[Any], computation: Any
) -> tuple[XlaComputation, Sequence[XlaOp]]:
    """The computation that folds `arrays`, and the init values, numbers recorded as constants."""
    scalars = scalars_of(op, tuple([a.shape for a in arrays]))
    applied = as_computation(op, "computation", computation, scalars + scalars)
    inits = []
    for index, value in enumerate(given):
        if type(value) is not XlaOp:
            if not is_number(value) or index >= len(arrays):
                need_op(op, f"init value {index}", value)
            value = number_as(op, value, scalars[index].element_type, arrays[0])
        inits.append(value)
    return applied, inits


@lru_cache(maxsize=4096)
def scalars_of(op: str, shapes: tuple[Shape, ...]) -> tuple[ArrayShape, ...]:
    """A scalar shape of each operand's element type; raises when one is no array."""
    arrays = Check.numbered(op, "operand", shapes).arrays()
    return tuple(intern_array(a.element_type, ()) for a in arrays)


@op("ReduceAll", opcode="reduce", section="Reduce (XlaBuilder's ReduceAll)")
def reduce_all(
    operand: XlaOp,
    init_value: XlaOp | Number,
    computation: XlaComputation | Callable[..., Any],
) -> XlaOp:
    """All elements of an array folded together: `reduce` along every dimension.

    Args:
        operand: an array.
        init_value: the scalar to begin with, or a Python number.
        computation: a reducer ``(accumulated, value) -> new``; see `reduce`.

    Returns:
        A scalar of the operand's element type.

    Raises:
        ShapeInferenceError, SignatureError, ConstantError: as in `reduce`.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[4, 2, 3])
        >>> xb.reduce_all(x, 0.0, xb.add).shape
        f32[]

    Operation Semantics: Reduce.
    """
    source = need_op("reduce_all", "operand", operand)
    rank = Check("reduce_all", operand=source.shape).array("operand").rank
    return _reduce("reduce_all", source, init_value, computation, tuple(range(rank)))
