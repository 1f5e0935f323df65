"""Reductions along dimensions and in windows; sorting."""

from builder.ops.reduction.reductions import reduce as reduce, reduce_all as reduce_all
from builder.ops.reduction.sorting import sort as sort, top_k as top_k
from builder.ops.reduction.windows import (
    reduce_window as reduce_window,
    reduce_window_with_general_padding as reduce_window_with_general_padding,
    select_and_scatter as select_and_scatter,
    select_and_scatter_with_general_padding as select_and_scatter_with_general_padding,
)
