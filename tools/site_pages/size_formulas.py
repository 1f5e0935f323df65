"""The sizes of each opcode's result, as expressions in Python.

The names in an expression are the op's operands, as tuples of sizes, and its attributes. `*names`
of the schema are lists of such tuples. The pages of the operations show the expressions;
`sizes_by_formula` evaluates them, and a test compares the values with inferred shapes.

The formulas are those of static sizes. Opcodes without a formula return the shape that an attribute
or a computation determines, or a shape without sizes.
"""

from __future__ import annotations

import ast
from math import ceil
from typing import Any, Final

_ELEMENTWISE: Final = {
    "operand": "operand",
    "lhs rhs": "[m if n == 1 else n for n, m in zip(lhs, rhs)]",
}
"""The formulas of opcodes whose schema has a `result`, by their operands."""

_SAME: Final = "operand"
_FIRST: Final = "operands[0]"
_ALL: Final = "[operand for operand in operands]"
_WINDOWS: Final = (
    "[(low + high + (n - 1) * base + 1 - ((w - 1) * dilation + 1)) // stride + 1\n"
    " for n, w, stride, (low, high), base, dilation in zip(\n"
    "     {operand}, window_dimensions, window_strides, padding, base_dilations, window_dilations)]"
)

FORMULAS: Final = {
    "all_gather": (
        "[n * shard_count if d == all_gather_dim else n for d, n in enumerate(operands[0])]"
    ),
    "all_reduce": _FIRST,
    "all_to_all": (
        "[n // (split_count if d == split_dimension else 1)\n"
        "   * (split_count if d == concat_dimension else 1) for d, n in enumerate(operand)]"
    ),
    "all_to_all_tuple": _ALL,
    "batch_norm_grad": "[operand, scale, scale]",
    "batch_norm_inference": _SAME,
    "batch_norm_training": "[operand, scale, scale]",
    "cholesky": "a",
    "clamp": _SAME,
    "collective_broadcast": _SAME,
    "collective_permute": _SAME,
    "compare": _ELEMENTWISE["lhs rhs"],
    "concatenate": (
        "[sum(one[d] for one in operands) if d == dimension else n\n"
        " for d, n in enumerate(operands[0])]"
    ),
    "convert": _SAME,
    "convolution": (
        "N = lhs[numbers.input_batch_dimension] // batch_group_count\n"
        "F = rhs[numbers.kernel_output_feature_dimension]\n"
        "windows = [(low + high + (n - 1) * base + 1 - ((w - 1) * dilation + 1)) // stride + 1\n"
        "           for n, w, stride, (low, high), base, dilation in zip(\n"
        "               [lhs[d] for d in numbers.input_spatial_dimensions],\n"
        "               [rhs[d] for d in numbers.kernel_spatial_dimensions],\n"
        "               window_strides, padding, lhs_dilation, rhs_dilation)]\n"
        "places = [numbers.output_batch_dimension, numbers.output_feature_dimension,\n"
        "          *numbers.output_spatial_dimensions]\n"
        "[size for _, size in sorted(zip(places, [N, F, *windows]))]"
    ),
    "dot_general": (
        "batch = [lhs[d] for d in numbers.lhs_batch_dimensions]\n"
        "lhs_free = [n for d, n in enumerate(lhs) if d not in\n"
        "            numbers.lhs_contracting_dimensions + numbers.lhs_batch_dimensions]\n"
        "rhs_free = [n for d, n in enumerate(rhs) if d not in\n"
        "            numbers.rhs_contracting_dimensions + numbers.rhs_batch_dimensions]\n"
        "batch + lhs_free + rhs_free"
    ),
    "dynamic_slice": "slice_sizes",
    "dynamic_update_slice": _SAME,
    "fft": (
        "last = fft_length[-1] // 2 + 1 if fft_type == FftType.RFFT else fft_length[-1]\n"
        "[*operand[:-1], last]"
    ),
    "gather": (
        "sizes = [n for d, n in enumerate(slice_sizes) if d not in\n"
        "         numbers.collapsed_slice_dims + numbers.operand_batching_dims]\n"
        "batch = [n for d, n in enumerate(start_indices) if d != numbers.index_vector_dim]\n"
        "[(sizes if d in numbers.offset_dims else batch).pop(0)\n"
        " for d in range(len(sizes) + len(batch))]"
    ),
    "get_dimension_size": "[]",
    "map": _FIRST,
    "pad": (
        "[p.edge_padding_low + p.edge_padding_high + n + max(n - 1, 0) * p.interior_padding\n"
        " for n, p in zip(operand, padding_config.dimensions)]"
    ),
    "partition_id": "[]",
    "reduce": "[n for d, n in enumerate(operands[0]) if d not in dimensions]",
    "reduce_precision": _SAME,
    "reduce_scatter": (
        "[n // shard_count if d == scatter_dimension else n for d, n in enumerate(operands[0])]"
    ),
    "reduce_window": _WINDOWS.replace("{operand}", "operands[0]"),
    "replica_id": "[]",
    "reverse": _SAME,
    "scatter": _FIRST,
    "select": "on_true",
    "select_and_scatter": _SAME,
    "slice": (
        "[ceil((limit - start) / stride)\n"
        " for start, limit, stride in zip(start_indices, limit_indices, strides)]"
    ),
    "sort": _FIRST,
    "stochastic_convert": _SAME,
    "top_k": "[[*operand[:-1], k], [*operand[:-1], k]]",
    "transpose": "[operand[d] for d in permutation]",
    "triangular_solve": "b",
}
"""By opcode: an expression, after assignments if the expression needs them.

`numbers` is the attribute `dimension_numbers`. `reduce`, `reduce_window`, `scatter` and `sort` of
several arrays return a tuple of arrays of these sizes.
"""


def formula_of(schema: Any) -> str | None:
    """Return the formula of an opcode's schema, or None if it has none."""
    if schema.opcode in FORMULAS:
        return FORMULAS[schema.opcode]
    return _ELEMENTWISE.get(schema.operands) if schema.result is not None else None


def sizes_by_formula(formula: str, op: Any, schema: Any) -> list[Any]:
    """Return the sizes of a recorded op by a formula: a list, or a list of lists for a tuple."""
    from builder import FftType

    names: dict[str, Any] = {"ceil": ceil, "FftType": FftType, **op.attributes}
    names["numbers"] = op.attributes.get("dimension_numbers")
    names |= _sizes_by_name(schema.operands.split(), [sizes(one.shape) for one in op.operands])
    tree = ast.parse(formula)
    value = ast.Expression(tree.body.pop().value)  # type: ignore[attr-defined]  # an expression
    exec(compile(tree, "formula", "exec"), names)
    return as_lists(eval(compile(value, "formula", "eval"), names))


def sizes(shape: Any) -> Any:
    """Return the sizes of an array, or a list of the sizes of a tuple's elements."""
    if shape.is_tuple:
        return [sizes(element) for element in shape.elements]
    return shape.dimensions if shape.is_array else ()


def as_lists(value: Any) -> Any:
    """Return nested sequences as lists."""
    return [as_lists(one) for one in value] if isinstance(value, (list, tuple)) else value


def _sizes_by_name(names: list[str], operands: list[Any]) -> dict[str, Any]:
    """Divide operands among the names of a schema; those with a star get equal numbers of them."""
    starred = sum(name.startswith("*") for name in names)
    each = (len(operands) - len(names) + starred) // max(starred, 1)
    remaining = iter(operands)
    return {
        name.removeprefix("*"): [next(remaining) for _ in range(each)]
        if name.startswith("*")
        else next(remaining)
        for name in names
    }
