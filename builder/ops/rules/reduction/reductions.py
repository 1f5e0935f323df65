"""Infer the result shapes of reductions along dimensions.

Operation Semantics: Reduce.
"""

from __future__ import annotations

from collections.abc import Sequence

from builder.check import Check, same_sizes
from builder.ops.rules.public import public
from builder.types.shape import ArrayShape, ProgramShape, Shape, TupleShape, intern_array


def reduction_operands(
    op: str, operands: Sequence[Shape], init_values: Sequence[Shape]
) -> tuple[Check, list[ArrayShape]]:
    """Return the `Check` of a reduction, and its operands after checking that they are arrays."""
    check = Check.numbered(op, "operand", operands)
    check.shapes.update({f"init value {i}": s for i, s in enumerate(init_values)})
    # StableHLO reduce (C3), reduce_window (C1)
    check.that(bool(operands), "at least one operand is needed, got none")
    check.one_for_each(init_values, len(operands), of="operand", name="init_values")
    return check, [check.array(f"operand {i}") for i in range(len(operands))]


def reducer(
    check: Check,
    computation: ProgramShape,
    operands: Sequence[ArrayShape],
    init_values: Sequence[Shape],
) -> None:
    """Check that `computation` can reduce `operands`, starting with `init_values`.

    For N operands of element types T_0, ..., T_N-1 the reducer has 2N scalar parameters, first the
    accumulated values and then the new values, T_0, ..., T_N-1, T_0, ..., T_N-1. It returns N
    scalars of types T_0, ..., T_N-1: a scalar for one operand, a tuple for several operands.
    """
    scalars = [intern_array(o.element_type, ()) for o in operands]
    # StableHLO reduce (C2), reduce_window (C3)
    for index, (init, scalar) in enumerate(zip(init_values, scalars, strict=True)):
        if init is not scalar:
            check.fail(
                f"init value {index} must be a scalar of the type of operand {index}, {scalar}, "
                f"got {init}",
                fix=_init_fix(init, scalar),
            )
    # StableHLO reduce (C6), reduce_window (C13). The result of a reducer that returns a tuple of
    # one is a tuple of one.
    check.applied("computation", computation, [*scalars, *scalars], scalars, or_tuple=True)


def _init_fix(init: Shape, scalar: ArrayShape) -> str:
    """Return the fix for an init value that is not a `scalar`."""
    if isinstance(init, ArrayShape) and not init.rank:
        return (
            f"write a Python number, or convert the init value with "
            f"xb.convert(init_value, xb.{scalar.element_type})"
        )
    constant = f"builder.constant(value, xb.{scalar.element_type})"
    return f"write a Python number, or record a scalar with {constant}"


def equal_sizes(check: Check, arrays: Sequence[ArrayShape]) -> None:
    """Check that the operands have the same sizes. An unbounded size may be any size."""
    first = arrays[0]
    # StableHLO reduce (C1), reduce_window (C2), sort (C3)
    for index, array in enumerate(arrays):
        if not same_sizes(array, first):
            check.fail(f"operands must have the same sizes; operand {index} differs from operand 0")


@public
def reduce(
    operands: Sequence[Shape],
    init_values: Sequence[Shape],
    computation: ProgramShape,
    dimensions: Sequence[int],
    op: str = "reduce",
) -> Shape:
    """Return the shape of a reduction: the operand's shape without the reduced dimensions.

    The result for several operands is a tuple.

    Example:
        >>> import builder as xb
        >>> f32 = xb.f32[()]
        >>> add = xb.ProgramShape([f32, f32], f32)
        >>> xb.shape_inference.reduction.reduce([xb.f32[4, 2, 3]], [f32], add, [0, 1])
        f32[3]
    """
    check, arrays = reduction_operands(op, operands, init_values)
    first = arrays[0]
    equal_sizes(check, arrays)
    # StableHLO reduce (C4), (C5)
    check.dimensions_in_range(dimensions, of="operand 0", name="dimensions")
    check.unique(dimensions, name="dimensions")
    reducer(check, computation, arrays, init_values)
    # Like XLA, take dynamic sizes from operand 0 alone.
    left = [d for d in range(first.rank) if d not in dimensions]
    sizes = tuple(first.dimensions[d] for d in left)
    dynamic = tuple(first.dynamic_dimensions[d] for d in left)
    results = [intern_array(array.element_type, sizes, dynamic) for array in arrays]
    return results[0] if computation.result.is_array else TupleShape(results)
