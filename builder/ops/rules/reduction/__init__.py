"""Infer the result shapes of reductions along dimensions and over windows, and of sorts."""

from builder.ops.rules.reduction.reductions import (
    reduce as reduce,
    reducer as reducer,
)
from builder.ops.rules.reduction.sorting import (
    sort as sort,
    sorted_dimension as sorted_dimension,
    top_k as top_k,
)
from builder.ops.rules.reduction.windows import (
    Window as Window,
    reduce_window as reduce_window,
    select_and_scatter as select_and_scatter,
    window_over as window_over,
)
