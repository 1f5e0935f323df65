"""Functions above the ops: XLA's client library, and what array programs need beside it.

All functions record public ops only. Functions with the names of XLA's client library
(`xla/hlo/builder/lib`), in snake_case, take its arguments in its order. Element types are never
promoted, and arrays are broadcast only where a function documents it.

``from builder import lib`` offers all functions (``lib.zeros_like``), also by family
(``lib.constants.zeros_like``).
"""

from builder.lib import (
    constants as constants,
    math as math,
    nn as nn,
    reductions as reductions,
    shaping as shaping,
    special as special,
)
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
from builder.lib.math import (
    is_inf as is_inf,
    is_nan as is_nan,
    is_neg_inf as is_neg_inf,
    is_neg_zero as is_neg_zero,
    is_pos_inf as is_pos_inf,
    maybe_conjugate as maybe_conjugate,
    next_after as next_after,
    round_to_even as round_to_even,
)
from builder.lib.nn import (
    gelu as gelu,
    log_softmax as log_softmax,
    relu as relu,
    sigmoid as sigmoid,
    silu as silu,
    softmax as softmax,
)
from builder.lib.reductions import (
    all as all,
    any as any,
    arg_max as arg_max,
    arg_min as arg_min,
    logsumexp as logsumexp,
    max as max,
    mean as mean,
    min as min,
    prod as prod,
    std as std,
    sum as sum,
    var as var,
)
from builder.lib.registry import FUNCTIONS as FUNCTIONS, LibraryFunction as LibraryFunction
from builder.lib.shaping import (
    clip as clip,
    expand_dims as expand_dims,
    eye as eye,
    flip as flip,
    linspace as linspace,
    one_hot as one_hot,
    repeat as repeat,
    roll as roll,
    split as split,
    squeeze as squeeze,
    stack as stack,
    take as take,
    take_along_axis as take_along_axis,
    tile as tile,
    tri as tri,
    where as where,
)
from builder.lib.special import (
    bessel_i0e as bessel_i0e,
    bessel_i1e as bessel_i1e,
    digamma as digamma,
    erf_inv as erf_inv,
    erfc as erfc,
    igamma as igamma,
    igamma_grad_a as igamma_grad_a,
    igammac as igammac,
    lgamma as lgamma,
    polygamma as polygamma,
    random_gamma_grad as random_gamma_grad,
    regularized_incomplete_beta as regularized_incomplete_beta,
    zeta as zeta,
)
