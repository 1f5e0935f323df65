"""xlabuilder's language: write XLA computations in Python.

``import builder as xb``: primitive types, shapes, XlaBuilder, and every operation as a function.
Nothing here needs jax; `lowering` takes what is built here to StableHLO and to devices.
"""

from builder import shape_inference as shape_inference
from builder.attributes import DotAlgorithm as DotAlgorithm
from builder.attributes import DotDimensionNumbers as DotDimensionNumbers
from builder.attributes import PaddingConfig as PaddingConfig
from builder.attributes import PaddingConfigDimension as PaddingConfigDimension
from builder.attributes import Precision as Precision
from builder.computation import XlaComputation as XlaComputation
from builder.decorator import computation as computation
from builder.errors import BuilderError as BuilderError
from builder.errors import ConstantError as ConstantError
from builder.errors import OperandError as OperandError
from builder.errors import PrimitiveTypeError as PrimitiveTypeError
from builder.errors import ShapeInferenceError as ShapeInferenceError
from builder.errors import ShapeTextError as ShapeTextError
from builder.errors import SignatureError as SignatureError
from builder.errors import XlaError as XlaError
from builder.layout import Layout as Layout
from builder.ops.contraction import dot as dot
from builder.ops.contraction import dot_general as dot_general
from builder.ops.control_flow import call as call
from builder.ops.control_flow import conditional as conditional
from builder.ops.control_flow import get_tuple_element as get_tuple_element
from builder.ops.control_flow import optimization_barrier as optimization_barrier
from builder.ops.control_flow import tuple as tuple
from builder.ops.control_flow import while_ as while_
from builder.ops.elementwise import (
    abs as abs,
    acos as acos,
    acosh as acosh,
    add as add,
    and_ as and_,
    asin as asin,
    asinh as asinh,
    atan as atan,
    atan2 as atan2,
    atanh as atanh,
    bitcast_convert_type as bitcast_convert_type,
    cbrt as cbrt,
    ceil as ceil,
    clamp as clamp,
    clz as clz,
    compare as compare,
    complex as complex,
    conj as conj,
    convert_element_type as convert_element_type,
    cos as cos,
    cosh as cosh,
    div as div,
    eq as eq,
    eq_total_order as eq_total_order,
    erf as erf,
    exp as exp,
    expm1 as expm1,
    floor as floor,
    ge as ge,
    ge_total_order as ge_total_order,
    gt as gt,
    gt_total_order as gt_total_order,
    imag as imag,
    is_finite as is_finite,
    le as le,
    le_total_order as le_total_order,
    log as log,
    log1p as log1p,
    logistic as logistic,
    lt as lt,
    lt_total_order as lt_total_order,
    map as map,
    max as max,
    min as min,
    mul as mul,
    ne as ne,
    ne_total_order as ne_total_order,
    neg as neg,
    not_ as not_,
    or_ as or_,
    population_count as population_count,
    pow as pow,
    real as real,
    reciprocal as reciprocal,
    reduce_precision as reduce_precision,
    rem as rem,
    round as round,
    round_nearest_even as round_nearest_even,
    rsqrt as rsqrt,
    select as select,
    shift_left as shift_left,
    shift_right_arithmetic as shift_right_arithmetic,
    shift_right_logical as shift_right_logical,
    sign as sign,
    sin as sin,
    sinh as sinh,
    sqrt as sqrt,
    square as square,
    sub as sub,
    tan as tan,
    tanh as tanh,
    xor as xor,
)
from builder.ops.reduction import reduce as reduce
from builder.ops.registry import OPERATIONS as OPERATIONS
from builder.ops.registry import OpInfo as OpInfo
from builder.ops.reshaping import broadcast as broadcast
from builder.ops.reshaping import broadcast_in_dim as broadcast_in_dim
from builder.ops.reshaping import collapse as collapse
from builder.ops.reshaping import concatenate as concatenate
from builder.ops.reshaping import pad as pad
from builder.ops.reshaping import reshape as reshape
from builder.ops.reshaping import rev as rev
from builder.ops.reshaping import slice as slice
from builder.ops.reshaping import slice_in_dim as slice_in_dim
from builder.ops.reshaping import transpose as transpose
from builder.primitive_type import (
    PrimitiveType as PrimitiveType,
    bf16 as bf16,
    c64 as c64,
    c128 as c128,
    f4e2m1fn as f4e2m1fn,
    f8e3m4 as f8e3m4,
    f8e4m3 as f8e4m3,
    f8e4m3b11fnuz as f8e4m3b11fnuz,
    f8e4m3fn as f8e4m3fn,
    f8e4m3fnuz as f8e4m3fnuz,
    f8e5m2 as f8e5m2,
    f8e5m2fnuz as f8e5m2fnuz,
    f8e8m0fnu as f8e8m0fnu,
    f16 as f16,
    f32 as f32,
    f64 as f64,
    pred as pred,
    as_primitive_type as as_primitive_type,
    s2 as s2,
    s4 as s4,
    s8 as s8,
    s16 as s16,
    s32 as s32,
    s64 as s64,
    u2 as u2,
    u4 as u4,
    u8 as u8,
    u16 as u16,
    u32 as u32,
    u64 as u64,
)
from builder.shape import (
    TOKEN_SHAPE as TOKEN_SHAPE,
    UNBOUNDED as UNBOUNDED,
    ArrayShape as ArrayShape,
    ProgramShape as ProgramShape,
    Shape as Shape,
    TokenShape as TokenShape,
    TupleShape as TupleShape,
    array_shape as array_shape,
    bounded as bounded,
    parse_shape as parse_shape,
    tuple_shape as tuple_shape,
)
from builder.xla_builder import XlaBuilder as XlaBuilder
from builder.xla_op import SourceLocation as SourceLocation
from builder.xla_op import XlaOp as XlaOp

# Other names for the same functions, those of xla_builder.h where the document has another.
convert = convert_element_type
concat_in_dim = concatenate
