"""Special functions: the error, gamma, Bessel and zeta functions.

XLA: math.h of the client library. Types of at most 16 bits are computed in f32, as in XLA.

The accuracy of a function is the largest error on CPUs, in ulps: the error relative to the exact
result, divided by the epsilon of the type. Results of types of at most 16 bits have the error in
f32 and one rounding. Subnormal numbers may count as zero, in arguments, terms and results.
"""

from builder.lib.special.bessel_functions import bessel_i0e as bessel_i0e, bessel_i1e as bessel_i1e
from builder.lib.special.error_functions import erf_inv as erf_inv, erfc as erfc
from builder.lib.special.gamma_functions import digamma as digamma, lgamma as lgamma
from builder.lib.special.incomplete_beta import (
    regularized_incomplete_beta as regularized_incomplete_beta,
)
from builder.lib.special.incomplete_gamma import (
    igamma as igamma,
    igamma_grad_a as igamma_grad_a,
    igammac as igammac,
    random_gamma_grad as random_gamma_grad,
)
from builder.lib.special.zeta_functions import polygamma as polygamma, zeta as zeta
