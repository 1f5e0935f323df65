"""Elementwise ops: arithmetic, comparison, clamp, select, conversion, map.

The functions of one array (`abs` to `tanh`), of two arrays (`add` to `xor`) and the comparisons
share their arguments, results and errors. docs/operations.md lists the element types that each
function accepts.

Args:
    operand: an array.
    lhs, rhs: arrays of one element type. One of them may be a Python number that this type can
        represent.
    broadcast_dimensions: required if the operands have different ranks and neither is a scalar:
        for each dimension of the operand of lower rank the corresponding dimension of the other
        operand. Sizes must be equal, or one of them 1.
    result_accuracy: the accuracy of a transcendental function: "HIGHEST", a `ResultAccuracy` with
        tolerances, or None for the compiler's default.

Returns:
    An array of the operands' sizes, broadcast to each other. Its element type is the operands'
    element type, with these exceptions: `real`, `imag` and `abs` of complex numbers return the type
    of the real part, `complex` and `conj` return a complex type, and `is_finite` and the
    comparisons return pred.

Raises:
    ShapeInferenceError: an operand is not an array or not of an allowed element type; the element
        types differ; the sizes do not match; complex numbers are compared other than by `eq` and
        `ne`.
    ConstantError: the element type can't represent the number.
"""

from builder.ops.elementwise.binary import (
    add as add,
    and_ as and_,
    atan2 as atan2,
    complex as complex,
    div as div,
    division_operator as division_operator,
    max as max,
    min as min,
    mul as mul,
    mulhi as mulhi,
    or_ as or_,
    pow as pow,
    rem as rem,
    right_shift_operator as right_shift_operator,
    shift_left as shift_left,
    shift_right_arithmetic as shift_right_arithmetic,
    shift_right_logical as shift_right_logical,
    sub as sub,
    xor as xor,
)
from builder.ops.elementwise.comparison import (
    compare as compare,
    eq as eq,
    eq_total_order as eq_total_order,
    ge as ge,
    ge_total_order as ge_total_order,
    gt as gt,
    gt_total_order as gt_total_order,
    le as le,
    le_total_order as le_total_order,
    lt as lt,
    lt_total_order as lt_total_order,
    ne as ne,
    ne_total_order as ne_total_order,
)
from builder.ops.elementwise.conversion import (
    bitcast_convert_type as bitcast_convert_type,
    convert_element_type as convert_element_type,
    reduce_precision as reduce_precision,
    stochastic_convert_type as stochastic_convert_type,
)
from builder.ops.elementwise.selection import clamp as clamp, map as map, select as select
from builder.ops.elementwise.unary import (
    abs as abs,
    acos as acos,
    acosh as acosh,
    asin as asin,
    asinh as asinh,
    atan as atan,
    atanh as atanh,
    cbrt as cbrt,
    ceil as ceil,
    clz as clz,
    conj as conj,
    cos as cos,
    cosh as cosh,
    erf as erf,
    exp as exp,
    expm1 as expm1,
    floor as floor,
    imag as imag,
    is_finite as is_finite,
    log as log,
    log1p as log1p,
    logistic as logistic,
    neg as neg,
    not_ as not_,
    population_count as population_count,
    real as real,
    reciprocal as reciprocal,
    round as round,
    round_nearest_even as round_nearest_even,
    rsqrt as rsqrt,
    sign as sign,
    sin as sin,
    sinh as sinh,
    sqrt as sqrt,
    square as square,
    tan as tan,
    tanh as tanh,
)
