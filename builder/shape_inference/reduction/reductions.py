"""Shapes of reductions along whole dimensions.

Operation Semantics: Reduce.
"""

from __future__ import annotations

from collections.abc import Sequence

from builder.check import Check
from builder.errors import SignatureError
from builder.shape_inference.public import public
from builder.types.shape import ArrayShape, ProgramShape, Shape, TupleShape, intern_array

__all__ = ["reduce", "reducer"]


def reducer(
    check: Check,
    computation: ProgramShape,
    operands: Sequence[ArrayShape],
    init_values: Sequence[Shape],
) -> None:
    """Raises unless `computation` folds these operands, begun with these values.

    For N operands of element types T_0, ..., T_N-1 the reducer takes the accumulated values and
    then the new ones, 2N scalars T_0, ..., T_N-1, T_0, ..., T_N-1, and gives N scalars of those
    types: one scalar for one operand, a tuple for several.
    """
    scalars = [intern_array(o.element_type, ()) for o in operands]
    for index, (init, scalar) in enumerate(zip(init_values, scalars, strict=True)):
        if init is not scalar:
            check.fail(
                f"init value {index} must be a scalar of the type of operand {index}, {scalar}, "
                f"got {init}"
            )
    result: Shape = scalars[0] if len(scalars) == 1 else TupleShape(scalars)
    wanted = ProgramShape([*scalars, *scalars], result)
    # One result may come as a tuple of one; the reduction then gives a tuple of one too.
    as_tuple = ProgramShape(wanted.parameters, TupleShape(scalars))
    if computation not in (wanted, as_tuple):
        names = "accumulated, value" if len(scalars) == 1 else "accumulated..., values..."
        inputs = ", ".join(map(str, wanted.parameters))
        check.fail(
            f"computation must be of signature ({inputs}) -> {result} ({names}), got {computation}",
            error=SignatureError,
            fix=f"give {result} back, the new accumulated value",
        )


@public
def reduce(
    operands: Sequence[Shape],
    init_values: Sequence[Shape],
    computation: ProgramShape,
    dimensions: Sequence[int],
    op: str = "reduce",
) -> Shape:
    """Shape of a reduction: the operands' without the reduced dimensions, a tuple for several.

    Example:
        >>> import builder as xb
        >>> f32 = xb.f32[()]
        >>> add = xb.ProgramShape([f32, f32], f32)
        >>> xb.shape_inference.reduction.reduce([xb.f32[4, 2, 3]], [f32], add, [0, 1])
        f32[3]
    """
    check = Check.numbered(op, "operand", operands)
    check.shapes.update({f"init value {i}": s for i, s in enumerate(init_values)})
    if not operands:
        check.fail("at least one operand is needed, got none")
    if len(operands) != len(init_values):
        check.fail(
            f"there must be one init value for each operand, got {len(operands)} operands and "
            f"{len(init_values)} init values"
        )
    arrays = [check.array(f"operand {i}") for i in range(len(operands))]
    first = arrays[0]
    for index, array in enumerate(arrays):
        if array.dimensions != first.dimensions:
            check.fail(f"operands must have the same sizes; operand {index} differs from operand 0")
    check.dimensions_in_range(dimensions, of="operand 0", name="dimensions")
    check.unique(dimensions, name="dimensions")
    reducer(check, computation, arrays, init_values)
    kept = [d for d in range(first.rank) if d not in dimensions]
    # Which sizes are dynamic is asked of operand 0 alone, as in XLA.
    sizes = tuple(first.dimensions[d] for d in kept)
    dynamic = tuple(first.dynamic_dimensions[d] for d in kept)
    results = [intern_array(array.element_type, sizes, dynamic) for array in arrays]
    return results[0] if computation.result.is_array else TupleShape(results)
