"""The error functions."""

from __future__ import annotations

import math
from typing import Final

from builder.graph.xla_op import XlaOp
from builder.lib.math import floating_type, refuse_unbounded
from builder.lib.registry import library_function
from builder.lib.special.shared import in_f32, is_double, polynomial
from builder.ops.elementwise import abs, eq, erf, exp, floor, gt, log, log1p, lt, neg, select, sqrt

# Cephes, ndtr.c: erfc(x) = exp(-x^2) P(x) / Q(x) from 1 to 8, and exp(-x^2) R(x) / S(x) above.
_ERFC_P: Final = (
    2.46196981473530512524e-10, 5.64189564831068821977e-1, 7.46321056442269912687,
    4.86371970985681366614e1, 1.96520832956077098242e2, 5.26445194995477358631e2,
    9.34528527171957607540e2, 1.02755188689515710272e3, 5.57535335369399327526e2,
)  # fmt: skip
_ERFC_Q: Final = (
    1.0, 1.32281951154744992508e1, 8.67072140885989742329e1, 3.54937778887819891062e2,
    9.75708501743205489753e2, 1.82390916687909736289e3, 2.24633760818710981792e3,
    1.65666309194161350182e3, 5.57535340817727675546e2,
)  # fmt: skip
_ERFC_R: Final = (
    5.64189583547755073984e-1, 1.27536670759978104416, 5.01905042251180477414,
    6.16021097993053585195, 7.40974269950448939160, 2.97886665372100240670,
)  # fmt: skip
_ERFC_S: Final = (
    1.0, 2.26052863220117276590, 9.39603524938001434673, 1.20489539808096656605e1,
    1.70814450747565897222e1, 9.60896809063285878198, 3.36907645100081516050,
)  # fmt: skip
# A minimax polynomial in t = 1 / (x + 2), fitted to erfc(x) * exp(x * x) / t for x from 1 to 16.
_ERFC_32: Final = (
    24.81944987, -30.27421547, 6.087647777, 1.682906405, 2.912324145, 1.969945055, 1.128500151,
    0.564188507,
)  # fmt: skip


@library_function("Erfc", has_derivative=True)
def erfc(x: XlaOp) -> XlaOp:
    """Return the complement 1 - erf(x) of the error function, accurate where it is small.

    Accuracy: 6 ulps.

    Args:
        x: a floating-point array of any sizes.

    Raises:
        OperandError: `x` is not a floating-point array.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.erfc(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Source: S. Moshier, Cephes, ndtr.c.
    """
    floating_type("erfc", x=x)
    return in_f32(wide_erfc, x)


def wide_erfc(x: XlaOp) -> XlaOp:
    """Return `erfc` of x, in f32 or f64."""
    return select(gt(x, 1.0), _erfc_tail(x, _exp_of_square(x, -1.0)), 1.0 - erf(x))


def times_normal_distribution(x: XlaOp) -> XlaOp:
    """Return x times the standard normal distribution function of x, for type f32 or f64."""
    z = x * -math.sqrt(0.5)
    # The exponent is computed from x, because the rounding of z would be multiplied by z.
    tail = _erfc_tail(z, x * _exp_of_square(x, -0.5))
    return 0.5 * select(gt(z, 1.0), tail, x * (1.0 - erf(z)))


def _exp_of_square(x: XlaOp, factor: float) -> XlaOp:
    """Return exp(factor * x * x) for a power of two, without the rounding of the square."""
    # The square of `near` is exact, so that the exponent of the first factor has no error.
    steps = 2.0**20 if is_double(x) else 2.0**8
    near = floor(x * steps) * (1 / steps)
    power = exp(near * near * factor)
    # Small enough for five terms of the exponential series.
    rest = (x - near) * (x + near) * factor
    # Multiplied once: without a fused multiply-add, a product with the series less 1 could be a
    # subnormal number, which devices flush to zero.
    return power * polynomial(rest, (1 / 24, 1 / 6, 1 / 2, 1.0, 1.0))


def _erfc_tail(x: XlaOp, power: XlaOp) -> XlaOp:
    """Return erfc(x) * power / exp(-x * x) for x > 1."""
    if is_double(x):
        is_below_8 = lt(x, 8.0)
        numerator = select(is_below_8, polynomial(x, _ERFC_P), polynomial(x, _ERFC_R))
        denominator = select(is_below_8, polynomial(x, _ERFC_Q), polynomial(x, _ERFC_S))
        quotient = numerator / denominator
    else:
        t = 1.0 / (x + 2.0)
        quotient = t * polynomial(t, _ERFC_32)
    # Above 28 even the smallest f64 is too large; the polynomials of large numbers overflow.
    return select(gt(x, 28.0), 0.0, power * quotient)


# M. Giles, Approximating the erfinv function: polynomials in w - 2.5 (f64: w - 3.125) or
# sqrt(w) - 3 (f64: 3.25 and 5), for w = -log(1 - x^2).
_ERF_INV_32: Final = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
    -0.00125372503, -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
_ERF_INV_32_TAIL: Final = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
    -0.0076224613, 0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip
_ERF_INV_64: Final = (
    -3.6444120640178196996e-21, -1.685059138182016589e-19, 1.2858480715256400167e-18,
    1.115787767802518096e-17, -1.333171662854620906e-16, 2.0972767875968561637e-17,
    6.6376381343583238325e-15, -4.0545662729752068639e-14, -8.1519341976054721522e-14,
    2.6335093153082322977e-12, -1.2975133253453532498e-11, -5.4154120542946279317e-11,
    1.051212273321532285e-09, -4.1126339803469836976e-09, -2.9070369957882005086e-08,
    4.2347877827932403518e-07, -1.3654692000834678645e-06, -1.3882523362786468719e-05,
    0.0001867342080340571352, -0.00074070253416626697512, -0.0060336708714301490533,
    0.24015818242558961693, 1.6536545626831027356,
)  # fmt: skip
_ERF_INV_64_MIDDLE: Final = (
    2.2137376921775787049e-09, 9.0756561938885390979e-08, -2.7517406297064545428e-07,
    1.8239629214389227755e-08, 1.5027403968909827627e-06, -4.013867526981545969e-06,
    2.9234449089955446044e-06, 1.2475304481671778723e-05, -4.7318229009055733981e-05,
    6.8284851459573175448e-05, 2.4031110387097893999e-05, -0.0003550375203628474796,
    0.00095328937973738049703, -0.0016882755560235047313, 0.0024914420961078508066,
    -0.0037512085075692412107, 0.005370914553590063617, 1.0052589676941592334,
    3.0838856104922207635,
)  # fmt: skip
_ERF_INV_64_TAIL: Final = (
    -2.7109920616438573243e-11, -2.5556418169965252055e-10, 1.5076572693500548083e-09,
    -3.7894654401267369937e-09, 7.6157012080783393804e-09, -1.4960026627149240478e-08,
    2.9147953450901080826e-08, -6.7711997758452339498e-08, 2.2900482228026654717e-07,
    -9.9298272942317002539e-07, 4.5260625972231537039e-06, -1.9681778105531670567e-05,
    7.5995277030017761139e-05, -0.00021503011930044477347, -0.00013871931833623122026,
    1.0103004648645343977, 4.8499064014085844221,
)  # fmt: skip


@library_function("ErfInv", has_derivative=True)
def erf_inv(x: XlaOp) -> XlaOp:
    """Return the inverse of the error function; infinities at -1 and 1, NaN outside [-1, 1].

    Accuracy: 3 ulps.

    Args:
        x: a floating-point array.

    Raises:
        OperandError: `x` is not a floating-point array.
        ShapeInferenceError: a size is unbounded.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.erf_inv(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Source: M. Giles, Approximating the erfinv function, GPU Computing Gems (2011).
    """
    floating_type("erf_inv", x=x)
    refuse_unbounded("erf_inv", x=x)
    return in_f32(_erf_inv, x)


def _erf_inv(x: XlaOp) -> XlaOp:
    size = abs(x)
    # 1 - |x| is exact from 0.5; below, log1p has the accuracy.
    factors = log((1.0 - size) * (1.0 + size))
    return erf_inv_of_logarithm(x, select(lt(size, 0.5), log1p(neg(x * x)), factors))


def erf_inv_of_logarithm(x: XlaOp, logarithm: XlaOp) -> XlaOp:
    """Return `erf_inv` of x, given the logarithm of 1 - x**2, in f32 or f64."""
    w = neg(logarithm)
    root = sqrt(w)
    if is_double(x):
        central = polynomial(w - 3.125, _ERF_INV_64)
        middle = polynomial(root - 3.25, _ERF_INV_64_MIDDLE)
        tail = polynomial(root - 5.0, _ERF_INV_64_TAIL)
        ratio = select(lt(w, 6.25), central, select(lt(w, 16.0), middle, tail))
    else:
        central = polynomial(w - 2.5, _ERF_INV_32)
        ratio = select(lt(w, 5.0), central, polynomial(root - 3.0, _ERF_INV_32_TAIL))
    return x * select(eq(abs(x), 1.0), math.inf, ratio)
