"""Elementwise ops: arithmetic, comparison, clamp, select, conversion, map."""

from builder.ops.elementwise.binary import (
    add as add,
)
from builder.ops.elementwise.binary import (
    and_ as and_,
)
from builder.ops.elementwise.binary import (
    atan2 as atan2,
)
from builder.ops.elementwise.binary import (
    complex as complex,
)
from builder.ops.elementwise.binary import (
    div as div,
)
from builder.ops.elementwise.binary import (
    max as max,
)
from builder.ops.elementwise.binary import (
    min as min,
)
from builder.ops.elementwise.binary import (
    mul as mul,
)
from builder.ops.elementwise.binary import (
    or_ as or_,
)
from builder.ops.elementwise.binary import (
    pow as pow,
)
from builder.ops.elementwise.binary import (
    rem as rem,
)
from builder.ops.elementwise.binary import (
    right_shift_operator as right_shift_operator,
)
from builder.ops.elementwise.binary import (
    shift_left as shift_left,
)
from builder.ops.elementwise.binary import (
    shift_right_arithmetic as shift_right_arithmetic,
)
from builder.ops.elementwise.binary import (
    shift_right_logical as shift_right_logical,
)
from builder.ops.elementwise.binary import (
    sub as sub,
)
from builder.ops.elementwise.binary import (
    xor as xor,
)
from builder.ops.elementwise.comparison import (
    compare as compare,
)
from builder.ops.elementwise.comparison import (
    eq as eq,
)
from builder.ops.elementwise.comparison import (
    eq_total_order as eq_total_order,
)
from builder.ops.elementwise.comparison import (
    ge as ge,
)
from builder.ops.elementwise.comparison import (
    ge_total_order as ge_total_order,
)
from builder.ops.elementwise.comparison import (
    gt as gt,
)
from builder.ops.elementwise.comparison import (
    gt_total_order as gt_total_order,
)
from builder.ops.elementwise.comparison import (
    le as le,
)
from builder.ops.elementwise.comparison import (
    le_total_order as le_total_order,
)
from builder.ops.elementwise.comparison import (
    lt as lt,
)
from builder.ops.elementwise.comparison import (
    lt_total_order as lt_total_order,
)
from builder.ops.elementwise.comparison import (
    ne as ne,
)
from builder.ops.elementwise.comparison import (
    ne_total_order as ne_total_order,
)
from builder.ops.elementwise.conversion import (
    bitcast_convert_type as bitcast_convert_type,
)
from builder.ops.elementwise.conversion import (
    convert_element_type as convert_element_type,
)
from builder.ops.elementwise.conversion import (
    reduce_precision as reduce_precision,
)
from builder.ops.elementwise.selection import (
    clamp as clamp,
)
from builder.ops.elementwise.selection import (
    map as map,
)
from builder.ops.elementwise.selection import (
    select as select,
)
from builder.ops.elementwise.unary import (
    abs as abs,
)
from builder.ops.elementwise.unary import (
    acos as acos,
)
from builder.ops.elementwise.unary import (
    acosh as acosh,
)
from builder.ops.elementwise.unary import (
    asin as asin,
)
from builder.ops.elementwise.unary import (
    asinh as asinh,
)
from builder.ops.elementwise.unary import (
    atan as atan,
)
from builder.ops.elementwise.unary import (
    atanh as atanh,
)
from builder.ops.elementwise.unary import (
    cbrt as cbrt,
)
from builder.ops.elementwise.unary import (
    ceil as ceil,
)
from builder.ops.elementwise.unary import (
    clz as clz,
)
from builder.ops.elementwise.unary import (
    conj as conj,
)
from builder.ops.elementwise.unary import (
    cos as cos,
)
from builder.ops.elementwise.unary import (
    cosh as cosh,
)
from builder.ops.elementwise.unary import (
    erf as erf,
)
from builder.ops.elementwise.unary import (
    exp as exp,
)
from builder.ops.elementwise.unary import (
    expm1 as expm1,
)
from builder.ops.elementwise.unary import (
    floor as floor,
)
from builder.ops.elementwise.unary import (
    imag as imag,
)
from builder.ops.elementwise.unary import (
    is_finite as is_finite,
)
from builder.ops.elementwise.unary import (
    log as log,
)
from builder.ops.elementwise.unary import (
    log1p as log1p,
)
from builder.ops.elementwise.unary import (
    logistic as logistic,
)
from builder.ops.elementwise.unary import (
    neg as neg,
)
from builder.ops.elementwise.unary import (
    not_ as not_,
)
from builder.ops.elementwise.unary import (
    population_count as population_count,
)
from builder.ops.elementwise.unary import (
    real as real,
)
from builder.ops.elementwise.unary import (
    reciprocal as reciprocal,
)
from builder.ops.elementwise.unary import (
    round as round,
)
from builder.ops.elementwise.unary import (
    round_nearest_even as round_nearest_even,
)
from builder.ops.elementwise.unary import (
    rsqrt as rsqrt,
)
from builder.ops.elementwise.unary import (
    sign as sign,
)
from builder.ops.elementwise.unary import (
    sin as sin,
)
from builder.ops.elementwise.unary import (
    sinh as sinh,
)
from builder.ops.elementwise.unary import (
    sqrt as sqrt,
)
from builder.ops.elementwise.unary import (
    square as square,
)
from builder.ops.elementwise.unary import (
    tan as tan,
)
from builder.ops.elementwise.unary import (
    tanh as tanh,
)
