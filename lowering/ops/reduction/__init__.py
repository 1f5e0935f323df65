"""Reductions along dimensions and in windows; sorting."""

from lowering.ops.reduction import (
    reductions as reductions,
    sorting as sorting,
    windows as windows,
)
