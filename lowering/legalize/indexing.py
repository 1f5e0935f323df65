"""Scatters of bounded sizes that XLA does not look at."""

from __future__ import annotations

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from lowering.legalize.registry import Value, refuse


def _dynamic(value: Value) -> list[bool]:
    """For each dimension whether its size is known only at run time."""
    tensor = ir.RankedTensorType(value.type)
    return [tensor.is_dynamic_dim(d) for d in range(tensor.rank)]


def _is_run_right(operation: ir.Operation) -> bool:
    dynamic = [_dynamic(value) for value in operation.operands]
    if not any(map(any, dynamic)):
        return True
    if len(dynamic) > 3:
        return False
    operand, indices, updates = dynamic
    numbers = stablehlo.ScatterDimensionNumbers(operation.attributes["scatter_dimension_numbers"])
    if any(indices) and not numbers.scattered_dims_to_operand_dims:
        return False
    apart = {*numbers.inserted_window_dims, *numbers.input_batching_dims}
    windowed = [d for d in range(len(operand)) if d not in apart]
    return all(
        operand[d] or not updates[place]
        for d, place in zip(windowed, numbers.update_window_dims, strict=True)
    )


refuse(
    "stablehlo.scatter",
    "cpu",
    "gpu",
    reason="a size of it is bounded where XLA takes the bound for the size, or dies of it: one of "
    "several operands, their indices or updates; one of windows, in an operand of a fixed size; "
    "one of indices that are vectors of no number",
    fix="give updates that are not to count an index outside, and make the sizes fixed with "
    "xb.remove_dynamic_dimension",
    unless=_is_run_right,
)
