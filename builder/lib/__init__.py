"""Functions above the ops: XLA's client library, and what array programs need beside it.

All functions record public ops only. Functions with the names of XLA's client library
(`xla/hlo/builder/lib`), in snake_case, take its arguments in its order. Element types are never
promoted, and arrays are broadcast only where a function documents it.

``from builder import lib`` offers all functions (``lib.zeros_like``), also by family
(``lib.constants.zeros_like``).
"""

from builder.lib import constants as constants
from builder.lib.constants import (
    constant_r0_with_type as constant_r0_with_type,
    epsilon as epsilon,
    full_like as full_like,
    max_finite_value as max_finite_value,
    max_value as max_value,
    min_finite_value as min_finite_value,
    min_positive_normal_value as min_positive_normal_value,
    min_value as min_value,
    nan_value as nan_value,
    one as one,
    scalar_like as scalar_like,
    zero as zero,
    zeros as zeros,
    zeros_like as zeros_like,
)
from builder.lib.registry import FUNCTIONS as FUNCTIONS, LibraryFunction as LibraryFunction
