"""Special functions: of errors, gamma, Bessel and zeta.

XLA: math.h of the client library. Types of at most 16 bits are computed in f32, as in XLA.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from typing import Final

from builder.errors import OperandError, ShapeInferenceError, error_of
from builder.graph.xla_op import XlaOp
from builder.lib.math import array_shape, floating_type, refuse_unbounded
from builder.lib.registry import library_function
from builder.ops.control_flow import while_
from builder.ops.elementwise import (
    abs,
    and_,
    ceil,
    clamp,
    convert_element_type,
    cos,
    eq,
    erf,
    exp,
    expm1,
    floor,
    ge,
    gt,
    le,
    log,
    log1p,
    lt,
    ne,
    neg,
    not_,
    or_,
    pow,
    rem,
    round_nearest_even,
    select,
    sign,
    sin,
    sqrt,
    sub,
)
from builder.ops.reduction import reduce_all
from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType

# The error function.

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


@library_function("Erfc")
def erfc(x: XlaOp) -> XlaOp:
    """Return the complement 1 - erf(x) of the error function, accurate where it is small.

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
    return _in_f32(_erfc, x)


def _erfc(x: XlaOp) -> XlaOp:
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
    steps = 2.0**20 if _is_f64(x) else 2.0**8
    near = floor(x * steps) * (1 / steps)
    power = exp(near * near * factor)
    # Small enough for four terms of the exponential series, less 1.
    rest = (x - near) * (x + near) * factor
    return power + power * (rest * _polynomial(rest, (1 / 24, 1 / 6, 1 / 2, 1.0)))


def _erfc_tail(x: XlaOp, power: XlaOp) -> XlaOp:
    """Return erfc(x) * power / exp(-x * x) for x > 1."""
    if _is_f64(x):
        is_below_8 = lt(x, 8.0)
        numerator = select(is_below_8, _polynomial(x, _ERFC_P), _polynomial(x, _ERFC_R))
        denominator = select(is_below_8, _polynomial(x, _ERFC_Q), _polynomial(x, _ERFC_S))
        quotient = numerator / denominator
    else:
        t = 1.0 / (x + 2.0)
        quotient = t * _polynomial(t, _ERFC_32)
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


@library_function("ErfInv")
def erf_inv(x: XlaOp) -> XlaOp:
    """Return the inverse of the error function; infinities at -1 and 1, NaN outside [-1, 1].

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
    return _in_f32(_erf_inv, x)


def _erf_inv(x: XlaOp) -> XlaOp:
    size = abs(x)
    # 1 - |x| is exact from 0.5; below, log1p has the accuracy.
    factors = log((1.0 - size) * (1.0 + size))
    return erf_inv_of_logarithm(x, select(lt(size, 0.5), log1p(neg(x * x)), factors))


def erf_inv_of_logarithm(x: XlaOp, logarithm: XlaOp) -> XlaOp:
    """Return `erf_inv` of x, given the logarithm of 1 - x**2, in f32 or f64."""
    w = neg(logarithm)
    root = sqrt(w)
    if _is_f64(x):
        central = _polynomial(w - 3.125, _ERF_INV_64)
        middle = _polynomial(root - 3.25, _ERF_INV_64_MIDDLE)
        tail = _polynomial(root - 5.0, _ERF_INV_64_TAIL)
        ratio = select(lt(w, 6.25), central, select(lt(w, 16.0), middle, tail))
    else:
        central = _polynomial(w - 2.5, _ERF_INV_32)
        ratio = select(lt(w, 5.0), central, _polynomial(root - 3.0, _ERF_INV_32_TAIL))
    return x * select(eq(abs(x), 1.0), math.inf, ratio)


# The logarithm of the gamma function and its derivative.

_EULER: Final = 0.57721566490153286061
# The Bernoulli numbers B(2), B(4), ...
_BERNOULLI: Final = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798,
    -174611 / 330, 854513 / 138,
)  # fmt: skip


@library_function("Lgamma")
def lgamma(input: XlaOp) -> XlaOp:
    """Return log(|gamma(x)|); +infinity at 0, the negative integers and the infinities.

    Args:
        input: a floating-point array.

    Raises:
        OperandError: `input` is not a floating-point array.
        ShapeInferenceError: a size is unbounded.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.lgamma(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Source: DLMF 5.7.3 near 1 and 2, 5.11.1 (Stirling) from 8, 5.5.1 between, 5.5.3 below -0.5.
    """
    floating_type("lgamma", input=input)
    refuse_unbounded("lgamma", input=input)
    return _in_f32(_lgamma, input)


@library_function("Digamma")
def digamma(input: XlaOp) -> XlaOp:
    """Return the derivative of log(gamma(x)); -infinity at 0, NaN at the negative integers.

    Args:
        input: a floating-point array.

    Raises:
        OperandError: `input` is not a floating-point array.
        ShapeInferenceError: a size is unbounded.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.digamma(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Source: DLMF 5.7.4 near 1 and 2, 5.11.2 from 8, 5.5.2 between, 5.5.4 below -0.5.
    """
    floating_type("digamma", input=input)
    refuse_unbounded("digamma", input=input)
    return _in_f32(_digamma, input)


def _lgamma(x: XlaOp) -> XlaOp:
    size = abs(x)
    z, product, _ = _moved_to_two(x)
    is_moved_up = lt(size, 1.5)
    logarithm = log(product)
    near = z * _polynomial(z, _lgamma_series(_is_f64(x)))
    near = near + select(is_moved_up, neg(logarithm), logarithm)
    far = (size - 0.5) * (log(size) - 1.0) + (0.5 * math.log(2 * math.pi) - 0.5)
    far = far + _stirling_tail(size)
    value = select(lt(size, 8.0), near, far)
    # The distance from the nearest integer is exact; it is 0 at the poles.
    sine = abs(sin((x - round_nearest_even(x)) * math.pi))
    mirrored = log(math.pi / (size * sine)) - value
    is_pole = or_(and_(lt(x, 0.0), eq(x, floor(x))), eq(size, math.inf))
    return select(is_pole, math.inf, select(lt(x, -0.5), mirrored, value))


def _digamma(x: XlaOp) -> XlaOp:
    size = abs(x)
    z, _, reciprocals = _moved_to_two(x)
    near = _polynomial(z, _digamma_series(_is_f64(x)))
    near = near + select(lt(size, 1.5), neg(reciprocals), reciprocals)
    inverse = 1.0 / size
    powers = _stirling_coefficients(_is_f64(x))
    coefficients = [c * (2 * k + 1) for k, c in enumerate(powers)][::-1]
    far = log(size) - (inverse * inverse * _polynomial(inverse * inverse, coefficients))
    far = far - 0.5 * inverse
    value = select(lt(size, 8.0), near, far)
    angle = (x - round_nearest_even(x)) * math.pi
    mirrored = value + inverse - math.pi * (cos(angle) / sin(angle))
    value = select(lt(x, -0.5), mirrored, value)
    value = select(eq(x, 0.0), -math.inf, value)
    return select(and_(lt(x, 0.0), eq(x, floor(x))), math.nan, value)


def _moved_to_two(x: XlaOp) -> tuple[XlaOp, XlaOp, XlaOp]:
    """Move numbers between -0.5 and 8 by an integer to the interval from 1.5 to 2.5.

    Numbers below -0.5 are replaced by their absolute values.

    Returns:
        The distance z of the moved number from 2, the quotient of gamma(2 + z) and gamma(x) or its
        inverse (the one of at least about 1), and the sum of the inverses of its factors.
    """
    size = abs(x)
    number = size
    product: XlaOp | float = 1.0
    reciprocals: XlaOp | float = 0.0
    for _ in range(6):
        is_above = gt(number, 2.5)
        below = number - 1.0
        product = select(is_above, product * below, product)
        reciprocals = select(is_above, reciprocals + 1.0 / below, reciprocals)
        number = select(is_above, below, number)
    is_first, is_second = lt(size, 1.5), le(size, 0.5)
    z = select(is_second, x, select(is_first, size - 1.0, number - 2.0))
    factor = select(is_second, size * (1.0 + x), select(is_first, size, product))
    inverse = 1.0 / select(is_second, x, size)
    sum_below = select(is_second, inverse + 1.0 / (1.0 + x), inverse)
    return z, factor, select(is_first, sum_below, reciprocals)


def _stirling_tail(x: XlaOp) -> XlaOp:
    """Return log(gamma(x)) less the first terms of Stirling's series, for x of at least 8."""
    inverse = 1.0 / x
    return inverse * _polynomial(inverse * inverse, _stirling_coefficients(_is_f64(x))[::-1])


def _stirling_coefficients(is_f64: bool) -> Sequence[float]:
    numbers = _BERNOULLI if is_f64 else _BERNOULLI[:4]
    return [b / (2 * k * (2 * k - 1)) for k, b in enumerate(numbers, 1)]


@cache
def _zeta_less_one(k: int) -> float:
    """Return zeta(k) - 1 for an integer k from 2 (DLMF 25.2.9, with one correction term)."""
    last = 400
    rest = last ** (1.0 - k) * (1 / (k - 1) + 0.5 / last + k / 12 / last**2)
    correction = k * (k + 1) * (k + 2) / 720 * float(last) ** (-k - 3)
    return math.fsum([*(float(n) ** -k for n in range(2, last)), rest, -correction])


def _lgamma_series(is_f64: bool) -> Sequence[float]:
    """Return the coefficients of log(gamma(2 + z)) / z."""
    count = 27 if is_f64 else 13
    terms = [(-1) ** k * _zeta_less_one(k) / k for k in range(2, count)]
    return [1 - _EULER, *terms][::-1]


def _digamma_series(is_f64: bool) -> Sequence[float]:
    """Return the coefficients of digamma(2 + z)."""
    return [k * c for k, c in enumerate(_lgamma_series(is_f64)[::-1], 1)][::-1]


# The exponentially scaled Bessel functions.

# Cephes, i0.c and i1.c: Chebyshev series in x / 2 - 2 to 8, and in 32 / x - 2 above. For f32, the
# first terms are left out.
_I0E_NEAR: Final = (
    -4.41534164647933937950e-18, 3.33079451882223809783e-17, -2.43127984654795469359e-16,
    1.71539128555513303061e-15, -1.16853328779934516808e-14, 7.67618549860493561688e-14,
    -4.85644678311192946090e-13, 2.95505266312963983461e-12, -1.72682629144155570723e-11,
    9.67580903537323691224e-11, -5.18979560163526290666e-10, 2.65982372468238665035e-9,
    -1.30002500998624804212e-8, 6.04699502254191894932e-8, -2.67079385394061173391e-7,
    1.11738753912010371815e-6, -4.41673835845875056359e-6, 1.64484480707288970893e-5,
    -5.75419501008210370398e-5, 1.88502885095841655729e-4, -5.76375574538582365885e-4,
    1.63947561694133579842e-3, -4.32430999505057594430e-3, 1.05464603945949983183e-2,
    -2.37374148058994688156e-2, 4.93052842396707084878e-2, -9.49010970480476444210e-2,
    1.71620901522208775349e-1, -3.04682672343198398683e-1, 6.76795274409476084995e-1,
)  # fmt: skip
_I0E_FAR: Final = (
    -7.23318048787475395456e-18, -4.83050448594418207126e-18, 4.46562142029675999901e-17,
    3.46122286769746109310e-17, -2.82762398051658348494e-16, -3.42548561967721913462e-16,
    1.77256013305652638360e-15, 3.81168066935262242075e-15, -9.55484669882830764870e-15,
    -4.15056934728722208663e-14, 1.54008621752140982691e-14, 3.85277838274214270114e-13,
    7.18012445138366623367e-13, -1.79417853150680611778e-12, -1.32158118404477131188e-11,
    -3.14991652796324136454e-11, 1.18891471078464383424e-11, 4.94060238822496958910e-10,
    3.39623202570838634515e-9, 2.26666899049817806459e-8, 2.04891858946906374183e-7,
    2.89137052083475648297e-6, 6.88975834691682398426e-5, 3.36911647825569408990e-3,
    8.04490411014108831608e-1,
)  # fmt: skip
_I1E_NEAR: Final = (
    2.77791411276104639959e-18, -2.11142121435816608115e-17, 1.55363195773620046921e-16,
    -1.10559694773538630805e-15, 7.60068429473540693410e-15, -5.04218550472791168711e-14,
    3.22379336594557470981e-13, -1.98397439776494371520e-12, 1.17361862988909016308e-11,
    -6.66348972350202774223e-11, 3.62559028155211703701e-10, -1.88724975172282928790e-9,
    9.38153738649577178388e-9, -4.44505912879632808065e-8, 2.00329475355213526229e-7,
    -8.56872026469545474066e-7, 3.47025130813767847674e-6, -1.32731636560394358279e-5,
    4.78156510755005422638e-5, -1.61760815825896745588e-4, 5.12285956168575772895e-4,
    -1.51357245063125314899e-3, 4.15642294431288815669e-3, -1.05640848946261981558e-2,
    2.47264490306265168283e-2, -5.29459812080949914269e-2, 1.02643658689847095384e-1,
    -1.76416518357834055153e-1, 2.52587186443633654823e-1,
)  # fmt: skip
_I1E_FAR: Final = (
    7.51729631084210481353e-18, 4.41434832307170791151e-18, -4.65030536848935832153e-17,
    -3.20952592199342395980e-17, 2.96262899764595013876e-16, 3.30820231092092828324e-16,
    -1.88035477551078244854e-15, -3.81440307243700780478e-15, 1.04202769841288027642e-14,
    4.27244001671195135429e-14, -2.10154184277266431302e-14, -4.08355111109219731823e-13,
    -7.19855177624590851209e-13, 2.03562854414708950722e-12, 1.41258074366137813316e-11,
    3.25260358301548823856e-11, -1.89749581235054123450e-11, -5.58974346219658380687e-10,
    -3.83538038596423702205e-9, -2.63146884688951950684e-8, -2.51223623787020892529e-7,
    -3.88256480887769039346e-6, -1.10588938762623716291e-4, -9.76109749136146840777e-3,
    7.78576235018280120474e-1,
)  # fmt: skip
_DROPPED_BY_F32: Final = 12, 18


@library_function("BesselI0e")
def bessel_i0e(x: XlaOp) -> XlaOp:
    """Return exp(-|x|) I0(x): the scaled modified Bessel function of the first kind and order 0.

    Args:
        x: a floating-point array of any sizes.

    Raises:
        OperandError: `x` is not a floating-point array.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.bessel_i0e(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Source: S. Moshier, Cephes, i0.c.
    """
    floating_type("bessel_i0e", x=x)

    def even(x: XlaOp) -> XlaOp:
        return select(le(abs(x), 8.0), *_bessel_series(x, _I0E_NEAR, _I0E_FAR))

    return _in_f32(even, x)


@library_function("BesselI1e")
def bessel_i1e(x: XlaOp) -> XlaOp:
    """Return exp(-|x|) I1(x): the scaled modified Bessel function of the first kind and order 1.

    Args:
        x: a floating-point array of any sizes.

    Raises:
        OperandError: `x` is not a floating-point array.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> lib.bessel_i1e(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Source: S. Moshier, Cephes, i1.c.
    """
    floating_type("bessel_i1e", x=x)

    def odd(x: XlaOp) -> XlaOp:
        near, far = _bessel_series(x, _I1E_NEAR, _I1E_FAR)
        return select(le(abs(x), 8.0), x * near, sign(x) * far)

    return _in_f32(odd, x)


def _bessel_series(x: XlaOp, near: Sequence[float], far: Sequence[float]) -> tuple[XlaOp, XlaOp]:
    """Return the values of the two series: for |x| up to 8, and above."""
    size = abs(x)
    if not _is_f64(x):
        near, far = near[_DROPPED_BY_F32[0] :], far[_DROPPED_BY_F32[1] :]
    value = _chebyshev(size * 0.5 - 2.0, near)
    return value, _chebyshev(32.0 / size - 2.0, far) / sqrt(size)


def _chebyshev(x: XlaOp, coefficients: Sequence[float]) -> XlaOp:
    """Return the sum of a Chebyshev series in x / 2 by Clenshaw's recurrence.

    The coefficient of the highest order is the first; half of the last one counts.
    """
    last: XlaOp | float = 0.0
    value: XlaOp | float = coefficients[0]
    before: XlaOp | float = 0.0
    for coefficient in coefficients[1:]:
        before, last, value = last, value, x * value - last + coefficient
    return sub(value, before) * 0.5


# The zeta functions.


@library_function("Zeta")
def zeta(x: XlaOp, q: XlaOp) -> XlaOp:
    """Return the Hurwitz zeta function, the sum of (q + k)^(-x) over the integers k from 0.

    The result is infinite where x is 1, and NaN where x is below 1 or where q is negative and x is
    not an integer. Where q is 0 or a negative integer, it is infinite for even x and NaN otherwise.

    Args:
        x: the exponents, a floating-point array.
        q: an array of the same shape.

    Raises:
        OperandError: an operand is not a floating-point array, or the types differ.
        ShapeInferenceError: the sizes differ.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> lib.zeta(b.parameter(xb.f32[3]), b.parameter(xb.f32[3])).shape
        f32[3]

    Source: F. Johansson, Rigorous high-precision computation of the Hurwitz zeta function
    (2015), formula 5 (Euler-Maclaurin).
    """
    _same_shapes("zeta", x=x, q=q)
    return _in_f32(_zeta, x, q)


@library_function("Polygamma")
def polygamma(n: XlaOp, x: XlaOp) -> XlaOp:
    """Return the derivative of order n of `digamma`; NaN where n is not a natural number.

    Args:
        n: the orders, a floating-point array.
        x: an array of the same shape.

    Raises:
        OperandError: an operand is not a floating-point array, or the types differ.
        ShapeInferenceError: the sizes differ, or one is unbounded.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> lib.polygamma(b.parameter(xb.f32[3]), b.parameter(xb.f32[3])).shape
        f32[3]

    Source: DLMF 25.11.12.
    """
    _same_shapes("polygamma", n=n, x=x)
    refuse_unbounded("polygamma", n=n)
    return _in_f32(_polygamma, n, x)


def _zeta(x: XlaOp, q: XlaOp) -> XlaOp:
    is_negative = lt(q, 0.0)
    is_even = eq(rem(x, 2.0), 0.0)
    # The terms of negative bases are those of another zeta function, up to their sign.
    up = ceil(q) - q
    mirrored = _positive_zeta(x, up) - _positive_zeta(x, 1.0 - q)
    value = _positive_zeta(x, select(is_negative, q - floor(q), q))
    value = select(is_negative, value + select(is_even, mirrored, neg(mirrored)), value)
    value = select(eq(x, 1.0), math.inf, value)
    is_undefined = or_(lt(x, 1.0), and_(le(q, 0.0), ne(x, floor(x))))
    is_pole = and_(le(q, 0.0), eq(q, floor(q)))
    value = select(or_(is_undefined, is_pole), math.nan, value)
    return select(and_(is_pole, is_even), math.inf, value)


def _positive_zeta(x: XlaOp, q: XlaOp) -> XlaOp:
    """Return the Hurwitz zeta function for x above 1 and q above 0."""
    total = pow(q, neg(x))
    for k in range(1, 10):
        total = total + pow(q + float(k), neg(x))
    end = q + 10.0
    last = pow(end, neg(x))
    square = 1.0 / (end * end)
    rest: XlaOp | float = 0.0
    for k in range(len(_BERNOULLI), 1, -1):
        coefficient = _BERNOULLI[k - 1] / math.factorial(2 * k)
        factors = (x + float(2 * k - 3)) * (x + float(2 * k - 2))
        rest = factors * square * (rest + coefficient)
    correction = last * (x / end * (rest + _BERNOULLI[0] / 2) + 0.5)
    complete = total + pow(end, 1.0 - x) / (x - 1.0) + correction
    # The correction of a negligible last term may overflow.
    eps = 2.0**-53 if _is_f64(x) else 2.0**-24
    return select(lt(last, total * eps), total, complete)


def _polygamma(n: XlaOp, x: XlaOp) -> XlaOp:
    order = n + 1.0
    value = exp(_lgamma(order)) * _zeta(order, x)
    value = select(eq(rem(n, 2.0), 0.0), neg(value), value)
    value = select(eq(n, 0.0), _digamma(x), value)
    return select(or_(lt(n, 0.0), ne(n, floor(n))), math.nan, value)


# The incomplete gamma and beta functions.


@library_function("Igamma")
def igamma(a: XlaOp, x: XlaOp) -> XlaOp:
    """Return the regularized lower incomplete gamma function P(a, x).

    The result is NaN where a is not positive or x is negative.

    Args:
        a: the parameters, a floating-point array.
        x: an array of the same shape.

    Raises:
        OperandError: an operand is not a floating-point array, or the types differ.
        ShapeInferenceError: the sizes differ, or one is unbounded.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> lib.igamma(b.parameter(xb.f32[3]), b.parameter(xb.f32[3])).shape
        f32[3]

    Source: DLMF 8.12.3 and 8.12.4 (Temme's uniform expansion) for large a and x near a; otherwise
    8.7.1 (series) up to the larger of a and 1, and 8.9.2 (continued fraction) above. The upper
    function of small a and x is 8.7.3.
    """
    _same_shapes("igamma", a=a, x=x)
    refuse_unbounded("igamma", a=a)
    return _in_f32(lambda a, x: _incomplete_gamma(a, x, is_upper=False), a, x)


@library_function("Igammac")
def igammac(a: XlaOp, x: XlaOp) -> XlaOp:
    """Return the regularized upper incomplete gamma function Q(a, x) = 1 - P(a, x).

    As in XLA, the result is 1 where a or x is not positive.

    Args:
        a: the parameters, a floating-point array.
        x: an array of the same shape.

    Raises:
        OperandError: an operand is not a floating-point array, or the types differ.
        ShapeInferenceError: the sizes differ, or one is unbounded.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> lib.igammac(b.parameter(xb.f32[3]), b.parameter(xb.f32[3])).shape
        f32[3]

    Source: see `igamma`.
    """
    _same_shapes("igammac", a=a, x=x)
    refuse_unbounded("igammac", a=a)
    return _in_f32(lambda a, x: _incomplete_gamma(a, x, is_upper=True), a, x)


@library_function("IgammaGradA")
def igamma_grad_a(a: XlaOp, x: XlaOp) -> XlaOp:
    """Return the derivative of `igamma` with respect to a.

    The result is NaN where a is not positive or x is negative.

    Args:
        a: the parameters, a floating-point array.
        x: an array of the same shape.

    Raises:
        OperandError: an operand is not a floating-point array, or the types differ.
        ShapeInferenceError: the sizes differ, or one is unbounded.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> lib.igamma_grad_a(b.parameter(xb.f32[3]), b.parameter(xb.f32[3])).shape
        f32[3]

    Source: the derivatives of the expansions of `igamma`, term by term.
    """
    _same_shapes("igamma_grad_a", a=a, x=x)
    refuse_unbounded("igamma_grad_a", a=a)
    return _in_f32(lambda a, x: _incomplete_gamma_gradient(a, x, is_sample=False), a, x)


@library_function("RandomGammaGrad")
def random_gamma_grad(a: XlaOp, x: XlaOp) -> XlaOp:
    """Return the derivative of a sample x of the gamma distribution with respect to its shape a.

    It is the derivative of x where `igamma` (a, x) is constant. The result is NaN where a is not
    positive or x is negative.

    Args:
        a: the parameters, a floating-point array.
        x: an array of the same shape.

    Raises:
        OperandError: an operand is not a floating-point array, or the types differ.
        ShapeInferenceError: the sizes differ, or one is unbounded.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> lib.random_gamma_grad(b.parameter(xb.f32[3]), b.parameter(xb.f32[3])).shape
        f32[3]

    Source: see `igamma_grad_a`.
    """
    _same_shapes("random_gamma_grad", a=a, x=x)
    refuse_unbounded("random_gamma_grad", a=a)
    return _in_f32(lambda a, x: _incomplete_gamma_gradient(a, x, is_sample=True), a, x)


@library_function("RegularizedIncompleteBeta")
def regularized_incomplete_beta(a: XlaOp, b: XlaOp, x: XlaOp) -> XlaOp:
    """Return the regularized incomplete beta function I(a, b, x).

    The result is NaN where a or b is not positive, or x is outside [0, 1].

    Args:
        a: the first parameters, an array of f16, bf16, f32 or f64.
        b: the second parameters, of the same shape, or a scalar.
        x: an array of the same shape, or a scalar.

    Raises:
        OperandError: an operand is of another type, or the types differ.
        ShapeInferenceError: the sizes differ, or one is unbounded.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> a, b, x = (xb.XlaBuilder().parameter(xb.f32[3]),) * 3
        >>> lib.regularized_incomplete_beta(a, b, x).shape
        f32[3]

    Source: DLMF 8.17.22 (continued fraction) for small x, 8.17.4 otherwise.
    """
    name = "regularized_incomplete_beta"
    kind = floating_type(name, a=a, b=b, x=x)
    if kind not in (pt.f16, pt.bf16, pt.f32, pt.f64):
        rule = f"a, b and x must be of f16, bf16, f32 or f64, got {kind}"
        raise error_of(OperandError, name, rule, "convert them with xb.convert_element_type")
    refuse_unbounded(name, a=a, b=b, x=x)
    # Each becomes an array of the common shape.
    is_nan = or_(or_(ne(a, a), ne(b, b)), ne(x, x))
    if array_shape(name, "a", a).rank < array_shape(name, "x", is_nan).rank:
        rule = f"a must have the sizes of the result, got {a.shape}, {b.shape} and {x.shape}"
        raise error_of(ShapeInferenceError, name, rule, "broadcast it with xb.broadcast")
    a, b, x = (select(is_nan, math.nan, operand) for operand in (a, b, x))
    return _in_f32(_incomplete_beta, a, b, x)


# Temme's expansion is used from this parameter on, for x with |x / a - 1| below the second number,
# where |eta| is below the third.
_UNIFORM_FROM: Final = 32.0
_UNIFORM_RATIO: Final = 0.3
_UNIFORM_ETA: Final = 0.34
# The other expansions end much earlier, as they are not used for large a near x.
_MOST_TERMS: Final = 2000.0


def _incomplete_gamma(a: XlaOp, x: XlaOp, *, is_upper: bool) -> XlaOp:
    # Results for such parameters depend on the sign of x - a only, and their inverses may be zero.
    is_huge = gt(a, 1e300 if _is_f64(a) else 1e30)
    a, x = (select(is_huge, operand * 2.0**-20, operand) for operand in (a, x))
    is_series = or_(le(x, 1.0), le(x, a))
    is_uniform = _is_uniform(a, x)
    power = _gamma_density(a, x)
    is_inside = and_(_is_inside(a, x, is_uniform), gt(power, 0.0))
    low, _ = _gamma_series(a, x, and_(is_inside, is_series), has_gradient=False)
    high, _ = _gamma_fraction(a, x, and_(is_inside, not_(is_series)), has_gradient=False)
    low, high = power * low / a, power * high
    low_tail, high_tail = _uniform_tails(a, x)
    low, high = select(is_uniform, low_tail, low), select(is_uniform, high_tail, high)
    low, high = clamp(0.0, low, 1.0), clamp(0.0, high, 1.0)  # roundings may exceed them
    is_nan = or_(or_(ne(a, a), ne(x, x)), and_(eq(a, math.inf), eq(x, math.inf)))
    if is_upper:
        value = select(is_series, 1.0 - low, high)
        value = select(and_(le(a, 0.5), le(x, 1.0)), _upper_of_small(a, x), value)
        value = select(eq(x, math.inf), 0.0, value)
        value = select(or_(or_(le(a, 0.0), le(x, 0.0)), eq(a, math.inf)), 1.0, value)
        return select(is_nan, math.nan, value)
    value = select(is_series, low, 1.0 - high)
    value = select(or_(eq(x, 0.0), eq(a, math.inf)), 0.0, value)
    value = select(and_(eq(x, math.inf), lt(a, math.inf)), 1.0, value)
    return select(or_(is_nan, or_(le(a, 0.0), lt(x, 0.0))), math.nan, value)


def _upper_of_small(a: XlaOp, x: XlaOp) -> XlaOp:
    """Return Q(a, x) for a up to 0.5 and x up to 1, where 1 - P(a, x) cancels (DLMF 8.7.3)."""
    total: XlaOp | float = 0.0
    for n in range(20 if _is_f64(x) else 12, 0, -1):
        total = (1.0 / (a + float(n)) + total) * (x * (-1.0 / n))
    exponent = a * log(x) - _lgamma_of_next(a)
    return neg(expm1(exponent) + a * exp(exponent) * total)


def _lgamma_of_next(x: XlaOp) -> XlaOp:
    """Return log(gamma(1 + x)) for x from 0 to 0.5."""
    return x * _polynomial(x, _lgamma_series(_is_f64(x))) - log1p(x)


def _incomplete_gamma_gradient(a: XlaOp, x: XlaOp, *, is_sample: bool) -> XlaOp:
    is_series = or_(le(x, 1.0), le(x, a))
    is_uniform = _is_uniform(a, x)
    is_inside = _is_inside(a, x, is_uniform)
    low, low_gradient = _gamma_series(a, x, and_(is_inside, is_series), has_gradient=True)
    high, high_gradient = _gamma_fraction(a, x, and_(is_inside, not_(is_series)), has_gradient=True)
    # The derivatives of the logarithms of x^a exp(-x) / gamma(a + 1), and of the same / gamma(a).
    low_slope = log(x) - _digamma(a + 1.0)
    slope = low_slope + 1.0 / a
    low = (low * low_slope + low_gradient) / a
    high = neg(high * slope + high_gradient)
    value = select(is_uniform, _uniform_gradient(a, x), select(is_series, low, high))
    value = neg(value * x) if is_sample else value * _gamma_density(a, x)
    value = select(or_(eq(x, 0.0), or_(eq(x, math.inf), eq(a, math.inf))), 0.0, value)
    is_undefined = or_(or_(ne(a, a), ne(x, x)), or_(le(a, 0.0), lt(x, 0.0)))
    is_undefined = or_(is_undefined, and_(eq(a, math.inf), eq(x, math.inf)))
    return select(is_undefined, math.nan, value)


def _is_inside(a: XlaOp, x: XlaOp, is_uniform: XlaOp) -> XlaOp:
    """Return where a series or a continued fraction determines the result."""
    is_finite = and_(lt(a, math.inf), lt(x, math.inf))
    return and_(and_(is_finite, not_(is_uniform)), and_(gt(a, 0.0), gt(x, 0.0)))


def _is_uniform(a: XlaOp, x: XlaOp) -> XlaOp:
    return and_(ge(a, _UNIFORM_FROM), lt(abs((x - a) / a), _UNIFORM_RATIO))


def _gamma_density(a: XlaOp, x: XlaOp) -> XlaOp:
    """Return x^a exp(-x) / gamma(a)."""
    # For large a, the terms of the logarithm cancel, unless they are combined.
    ratio = (x - a) / a
    logarithm = select(lt(abs(ratio), 0.5), _log1p_less(ratio), log(x / a) - ratio)
    large = exp(a * logarithm - _stirling_tail(a)) * sqrt(a * (0.5 / math.pi))
    # The logarithm of gamma(a) is large for small a.
    is_small = le(a, 0.5)
    gamma = select(is_small, _lgamma_of_next(a), _lgamma(a))
    return select(ge(a, 8.0), large, select(is_small, a, 1.0) * exp(a * log(x) - x - gamma))


def _log1p_less(x: XlaOp) -> XlaOp:
    """Return log(1 + x) - x for |x| up to 0.5, by the series of the inverse hyperbolic tangent."""
    s = x / (x + 2.0)
    square = s * s
    count = 18 if _is_f64(x) else 8
    series = _polynomial(square, [2 / (2 * k + 1) for k in range(count, 0, -1)])
    return s * (square * series - x)


@cache
def _mu_coefficients(count: int) -> tuple[Fraction, ...]:
    """Return those of eta, eta^2, ... in the series of x / a - 1 (DLMF 8.12.13)."""
    alpha = [Fraction(0), Fraction(1)]
    for n in range(2, count + 1):
        products = sum(j * alpha[j] * alpha[n - j + 1] for j in range(2, n))
        alpha.append((alpha[n - 1] - products) / (n + 1))
    return tuple(alpha[1:])


@cache
def _uniform_coefficients(is_f64: bool) -> tuple[tuple[float, ...], ...]:
    """Return the coefficients of c(0), c(1), ... as series in eta (DLMF 8.12.9 to 8.12.12).

    Terms that are negligible for all arguments of the expansion are left out.
    """
    orders, powers = (12, 20) if is_f64 else (6, 10)
    alpha = (Fraction(0), *_mu_coefficients(powers + 2 * orders + 2))
    first = [(n + 2) * alpha[n + 2] for n in range(powers + 2 * orders)]
    first[0] = Fraction(-1, 3)
    series, factor = [first], 1
    for k in range(1, orders):
        factor *= 2 * k + 1
        stirling = (-1) ** k * factor * alpha[2 * k + 1]
        before = series[-1]
        kept = range(len(before) - 2)
        series.append([stirling * first[n] + (n + 2) * before[n + 2] for n in kept])
    smallest = 2.0**-57 if is_f64 else 2.0**-28
    rows: list[tuple[float, ...]] = []
    for k, numbers in enumerate(series):
        row = [float(number) for number in numbers]
        sizes = [math.fabs(c) * _UNIFORM_ETA**n / _UNIFORM_FROM**k for n, c in enumerate(row)]
        used = [n for n, size in enumerate(sizes) if size > smallest]
        if used:
            rows.append(tuple(row[: max(used[-1] + 1, 2)]))
    return tuple(rows)


def _eta(a: XlaOp, x: XlaOp) -> tuple[XlaOp, XlaOp]:
    """Return r = x / a - 1 and eta, which has its sign: half of its square is r - log(1 + r)."""
    ratio = (x - a) / a
    return ratio, sign(ratio) * sqrt(_log1p_less(ratio) * -2.0)


def _uniform_sum(a: XlaOp, eta: XlaOp, rows: Sequence[Sequence[float]]) -> XlaOp:
    """Return the sum of the series in eta of `rows`, over a^0, a^1, ..."""
    inverse = 1.0 / a
    polynomials = [_polynomial(eta, row[::-1]) for row in rows]
    total = polynomials[-1]
    for polynomial in polynomials[-2::-1]:
        total = total * inverse + polynomial
    return total


def _uniform_tails(a: XlaOp, x: XlaOp) -> tuple[XlaOp, XlaOp]:
    """Return P(a, x) for x up to a, and Q(a, x) for larger ones."""
    ratio, eta = _eta(a, x)
    exponent = a * _log1p_less(ratio)
    rest = _uniform_sum(a, eta, _uniform_coefficients(_is_f64(a)))
    rest = rest * exp(exponent) / sqrt(a * (2.0 * math.pi))
    normal = 0.5 * _erfc(abs(eta) * sqrt(a * 0.5))
    return normal - rest, normal + rest


def _uniform_gradient(a: XlaOp, x: XlaOp) -> XlaOp:
    """Return the derivative of P(a, x) by a, over the density: that of the expansion."""
    ratio, eta = _eta(a, x)
    is_f64 = _is_f64(a)
    rows = _uniform_coefficients(is_f64)
    slopes = [
        [n * c for n, c in enumerate(row)][1:] + ([0.0] if len(row) < 3 else []) for row in rows
    ]
    orders = [[k * c for c in row] for k, row in enumerate(rows)]
    alpha = [float(c) for c in _mu_coefficients(18 if is_f64 else 10)]
    inverse = 1.0 / a
    per_eta = _polynomial(eta, alpha[::-1])  # ratio / eta
    value = eta * 0.5 - per_eta
    exponent = ratio - eta * eta * 0.5 - inverse * 0.5
    value = value - exponent * _uniform_sum(a, eta, rows)
    change = per_eta * _uniform_sum(a, eta, slopes) + _uniform_sum(a, eta, orders)
    return (value + inverse * change) * inverse * exp(_stirling_tail(a))


def _gamma_series(a: XlaOp, x: XlaOp, is_used: XlaOp, *, has_gradient: bool) -> tuple[XlaOp, XlaOp]:
    """Return the sum of x^k / ((a + 1) ... (a + k)) over k, and its derivative by a."""
    a, x = select(is_used, a, 1.0), select(is_used, x, 0.0)
    eps = _eps(x)
    zero = a * 0.0

    def condition(state: XlaOp) -> XlaOp:
        _, _, term, total, slope, gradient, _ = state
        is_left = gt(term, total * eps)
        if has_gradient:
            is_left = or_(is_left, gt(abs(slope), abs(gradient) * eps))
        return and_(lt(state[6], _MOST_TERMS), _any(is_left))

    def body(state: XlaOp) -> tuple[XlaOp, ...]:
        base, x, term, total, slope, gradient, k = state
        base = base + 1.0
        ratio = x / base
        if has_gradient:
            slope = (slope - term / base) * ratio
            gradient = gradient + slope
        term = term * ratio
        return base, x, term, total + term, slope, gradient, k + 1.0

    counter = a.builder.constant(0.0, _kind(a))
    state = while_(condition, body, (a, x, zero + 1.0, zero + 1.0, zero, zero, counter))
    return state[3], state[5]


def _gamma_fraction(
    a: XlaOp, x: XlaOp, is_used: XlaOp, *, has_gradient: bool
) -> tuple[XlaOp, XlaOp]:
    """Return the continued fraction of gamma(a, x) exp(x) / x^a, and its derivative by a.

    Lentz's method: the fraction is the product of the ratios of its convergents. The derivative of
    its logarithm is the sum of those of the ratios.
    """
    a, x = select(is_used, a, 1.0), select(is_used, x, 2.0)
    eps, tiny = _eps(x), 1e-30
    one = a * 0.0 + 1.0
    zero = a * 0.0
    first = x + 1.0 - a
    inverse = 1.0 / first

    def condition(state: XlaOp) -> XlaOp:
        return and_(lt(state[0], _MOST_TERMS), _any(state[1]))

    def body(state: XlaOp) -> tuple[XlaOp, ...]:
        k, _, a, x, up, down, value, up_slope, down_slope, slope = state
        k = k + 1.0
        numerator, denominator = (a - k) * k, x + (k * 2.0 + 1.0) - a
        new_up = denominator + numerator / up
        new_up = select(lt(abs(new_up), tiny), tiny, new_up)
        new_down = denominator + numerator * down
        new_down = 1.0 / select(lt(abs(new_down), tiny), tiny, new_down)
        ratio = new_up * new_down
        is_left = gt(abs(ratio - 1.0), eps)
        if has_gradient:
            up_slope = k / up - numerator / (up * up) * up_slope - 1.0
            down_slope = (1.0 - k * down - numerator * down_slope) * new_down * new_down
            change = up_slope / new_up + down_slope / new_down
            slope = slope + change
            is_left = or_(is_left, gt(abs(change), abs(slope) * eps))
        value = value * ratio
        return k, is_left, a, x, new_up, new_down, value, up_slope, down_slope, slope

    state = while_(
        condition,
        body,
        (
            a.builder.constant(0.0, _kind(a)),
            is_used,
            a,
            x,
            one / tiny,
            inverse,
            inverse,
            zero,
            inverse * inverse,
            inverse,
        ),
    )
    return state[6], state[6] * state[9]


def _incomplete_beta(a: XlaOp, b: XlaOp, x: XlaOp) -> XlaOp:
    is_undefined = or_(or_(le(a, 0.0), le(b, 0.0)), or_(lt(x, 0.0), gt(x, 1.0)))
    is_undefined = or_(is_undefined, ne(x, x))
    is_direct = lt(x, (a + 1.0) / (a + b + 2.0))
    one, other = select(is_direct, a, b), select(is_direct, b, a)
    rest = 1.0 - x
    here, there = select(is_direct, x, rest), select(is_direct, rest, x)
    fraction = _beta_fraction(one, other, here, not_(is_undefined))
    # log1p has the accuracy of numbers near 1, whose difference from 1 is rounded.
    log_here = select(is_direct, log(here), log1p(neg(x)))
    log_there = select(is_direct, log1p(neg(x)), log(there))
    beta = _lgamma(a) + _lgamma(b) - _lgamma(a + b)
    value = fraction * exp(log_here * one + log_there * other - beta) / one
    value = select(is_direct, value, 1.0 - value)
    value = select(eq(x, 0.0), 0.0, select(eq(x, 1.0), 1.0, value))
    return select(is_undefined, math.nan, value)


def _beta_fraction(a: XlaOp, b: XlaOp, x: XlaOp, is_used: XlaOp) -> XlaOp:
    """Return the continued fraction 1 / (1 + d1 / (1 + d2 / ...)) of DLMF 8.17.22."""
    a, b = select(is_used, a, 1.0), select(is_used, b, 1.0)
    x = select(is_used, x, 0.0)
    eps, tiny = _eps(x), 1e-30

    def condition(state: XlaOp) -> XlaOp:
        return and_(lt(state[0], 10000.0), _any(state[1]))

    def step(numerator: XlaOp, up: XlaOp, down: XlaOp) -> tuple[XlaOp, XlaOp]:
        up, down = numerator / up + 1.0, numerator * down + 1.0
        up = select(lt(abs(up), tiny), tiny, up)
        return up, 1.0 / select(lt(abs(down), tiny), tiny, down)

    def body(state: XlaOp) -> tuple[XlaOp, ...]:
        m, _, a, b, x, up, down, value = state
        base = a + m * 2.0
        up, down = step(neg((a + m) / base * ((a + b + m) / (base + 1.0)) * x), up, down)
        first = up * down
        m = m + 1.0
        base = a + m * 2.0
        up, down = step(m / (base - 1.0) * ((b - m) / base) * x, up, down)
        ratio = up * down
        is_left = or_(gt(abs(ratio - 1.0), eps), gt(abs(first - 1.0), eps))
        return m, is_left, a, b, x, up, down, value * first * ratio

    one = a * 0.0 + 1.0
    counter = a.builder.constant(0.0, _kind(a))
    state = while_(condition, body, (counter, is_used, a, b, x, one, a * 0.0, one))
    return 1.0 / state[7]


# Shared.


def _polynomial(x: XlaOp, coefficients: Sequence[float]) -> XlaOp:
    """Return the polynomial of the coefficients, that of the highest power first."""
    value = x * coefficients[0]
    for coefficient in coefficients[1:-1]:
        value = (value + coefficient) * x
    return value + coefficients[-1]


def _in_f32(function: Callable[..., XlaOp], *operands: XlaOp) -> XlaOp:
    """Call a function with the operands, converted to f32 from types of at most 16 bits."""
    kind = floating_type("", x=operands[0])
    if kind.bits > 16:
        return function(*operands)
    return convert_element_type(
        function(*(convert_element_type(x, pt.f32) for x in operands)), kind
    )


def _kind(x: XlaOp) -> PrimitiveType:
    return floating_type("", x=x)


def _is_f64(x: XlaOp) -> bool:
    return _kind(x) is pt.f64


def _eps(x: XlaOp) -> float:
    """Return the difference between 1 and the next larger number of f32 or f64."""
    return 2.0**-52 if _is_f64(x) else 2.0**-23


def _any(preds: XlaOp) -> XlaOp:
    return reduce_all(preds, preds.builder.constant(False), or_)


def _same_shapes(op: str, **operands: XlaOp) -> None:
    """Refuse operands that are not floating-point arrays of one shape."""
    floating_type(op, **operands)
    shapes = [array_shape(op, name, x).with_layout(None) for name, x in operands.items()]
    if any(shape != shapes[0] for shape in shapes):
        got = " and ".join(map(str, shapes))
        rule = f"{', '.join(operands)} must have one shape, got {got}"
        raise error_of(ShapeInferenceError, op, rule, "broadcast one with xb.broadcast_in_dim")
