"""The types of the arguments of old functions, by the names of their parameters.

The functions of `builder` accept more types than the old functions did, and raise errors of several
classes. A call of an old function that fails is a TypeError if an argument has another type than
jaxlib's binding accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import numpy as np

import builder as xb


def _is_op(value: object) -> bool:
    return isinstance(value, xb.XlaOp)


def _is_integer(value: object) -> bool:
    return isinstance(value, (int, np.integer))


def _is_bool(value: object) -> bool:
    return isinstance(value, (bool, np.bool_))


def _list_of(is_member: Callable[[object], bool]) -> Callable[[object], bool]:
    def is_list(value: object) -> bool:
        if isinstance(value, (xb.XlaOp, str, bytes)) or not isinstance(value, Iterable):
            return False
        return all(map(is_member, value))

    return is_list


def _is_attribute(value: object) -> bool:
    return isinstance(value, _ATTRIBUTES)


_ATTRIBUTES: Final = (
    *(xb.ConvolutionDimensionNumbers, xb.DotDimensionNumbers, xb.GatherDimensionNumbers),
    *(xb.PaddingConfig, xb.ResultAccuracy, xb.ScatterDimensionNumbers),
)

is_list_of_ops: Final = _list_of(_is_op)
_is_pair: Final = _list_of(_is_integer)

_PARAMETERS: Final[Mapping[Callable[[object], bool], str]] = {
    _is_op: "a b branch_index false_operand from_ init init_value initial_state input lhs max min "
    "mu on_false on_true operand padding_value pred predicate q rhs scatter_indices sigma source "
    "taus to token true_operand tuple_data update updates val x",
    is_list_of_ops: "branch_operands dim_sizes elements init_values inputs operands tokens",
    _is_integer: "all_gather_dimension batch_group_count concat_dimension dimension dimno "
    "exponent_bits feature_group_count index input_size iota_dimension k limit_index mantissa_bits "
    "parameter_number rank reduction_dim scatter_dimension shard_count size split_count "
    "split_dimension start_index stride top_k",
    _list_of(_is_integer): "base_dilations broadcast_dimensions dimensions dimensions_to_reduce "
    "fft_length lhs_dilation limit_indices new_size_bounds new_sizes permutation rhs_dilation "
    "sizes slice_sizes strides window_dilations window_dimensions window_strides",
    _list_of(lambda value: _is_op(value) or _is_integer(value)): "start_indices",
    _list_of(_is_pair): "padding source_target_pairs",
    _is_attribute: "dimension_numbers padding_config result_accuracy",
    _is_bool: "aggregate_to_topk full_matrices indices_are_sorted is_stable left_side lower "
    "sort_eigenvalues unique_indices unit_diagonal",
    _list_of(_is_bool): "dims_are_dynamic window_reversal",
}
_KINDS: Final = {name: is_kind for is_kind, names in _PARAMETERS.items() for name in names.split()}
_OPTIONAL: Final = frozenset({"broadcast_dimensions", "result_accuracy", "window_reversal"})


def has_wrong_type(function: str, arguments: Mapping[str, Any]) -> bool:
    """Return whether jaxlib's binding refused the type of an argument.

    Args:
        function: the name of an old function.
        arguments: its arguments by the names of its parameters.
    """
    kinds = {**_KINDS, "start_indices": _is_op} if function == "Gather" else _KINDS
    return any(
        not kinds[name](value)
        for name, value in arguments.items()
        if name in kinds and not (value is None and name in _OPTIONAL)
    )
