"""Dot products and convolutions.

StableHLO specification: dot_general, convolution.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from builder.inspection.explaining.elements import Context, Outcome, Rule, joined, sizes_of
from builder.inspection.explaining.reduction import windows

_Index = tuple[int, ...]


def _dot_general(context: Context) -> Outcome:
    lhs, rhs = context.operands
    numbers = context.attributes["dimension_numbers"]
    left, right = numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions
    lhs_batch, rhs_batch = numbers.lhs_batch_dimensions, numbers.rhs_batch_dimensions
    lhs_free = [d for d in range(lhs.ndim) if d not in (*left, *lhs_batch)]
    rhs_free = [d for d in range(rhs.ndim) if d not in (*right, *rhs_batch)]
    ranges = [lhs.shape[d] for d in left]
    first_free = len(lhs_batch)
    last_free = first_free + len(lhs_free)

    def terms(index: _Index) -> Iterator[tuple[int, ...]]:
        batch, free = index[:first_free], index[first_free:last_free]
        for inner in np.ndindex(*ranges):
            of_lhs = dict(zip((*lhs_batch, *lhs_free, *left), (*batch, *free, *inner), strict=True))
            others = (*batch, *index[last_free:], *inner)
            of_rhs = dict(zip((*rhs_batch, *rhs_free, *right), others, strict=True))
            yield int(lhs[_place(of_lhs)]), int(rhs[_place(of_rhs)])

    return Outcome([joined(sizes_of(context.op), terms)])


def _place(index: Mapping[int, int]) -> _Index:
    return tuple(index[d] for d in range(len(index)))


def _convolution(context: Context) -> Outcome:
    lhs, rhs = context.operands
    attributes = context.attributes
    numbers = attributes["dimension_numbers"]
    feature_groups, batch_groups = (
        attributes["feature_group_count"],
        attributes["batch_group_count"],
    )
    sizes = sizes_of(context.op)
    features = sizes[numbers.output_feature_dimension]
    batches = sizes[numbers.output_batch_dimension]
    inputs = rhs.shape[numbers.kernel_input_feature_dimension]
    spatial = [lhs.shape[d] for d in numbers.input_spatial_dimensions]
    window = [rhs.shape[d] for d in numbers.kernel_spatial_dimensions]

    def terms(index: _Index) -> Iterator[tuple[int, ...]]:
        feature = index[numbers.output_feature_dimension]
        batch = index[numbers.output_batch_dimension]
        batch += feature // (features // batch_groups) * batches
        first_input = feature // (features // feature_groups) * inputs
        position = tuple(index[d] for d in numbers.output_spatial_dimensions)
        for inner, place in windows(
            spatial,
            position,
            window,
            attributes["window_strides"],
            attributes["padding"],
            attributes["lhs_dilation"],
            attributes["rhs_dilation"],
        ):
            reversal = attributes["window_reversal"]
            tap = [
                size - 1 - i if is_reversed else i
                for i, size, is_reversed in zip(inner, window, reversal, strict=True)
            ]
            for channel in range(inputs):
                at_lhs = {
                    numbers.input_batch_dimension: batch,
                    numbers.input_feature_dimension: first_input + channel,
                    **dict(zip(numbers.input_spatial_dimensions, place, strict=True)),
                }
                at_rhs = {
                    numbers.kernel_output_feature_dimension: feature,
                    numbers.kernel_input_feature_dimension: channel,
                    **dict(zip(numbers.kernel_spatial_dimensions, tap, strict=True)),
                }
                yield int(lhs[_place(at_lhs)]), int(rhs[_place(at_rhs)])

    return Outcome([joined(sizes, terms)])


RULES: Final[Mapping[str, Rule]] = {"convolution": _convolution, "dot_general": _dot_general}
