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
)
from builder.ops.elementwise import (
    acos as acos,
)
from builder.ops.elementwise import (
    acosh as acosh,
)
from builder.ops.elementwise import (
    add as add,
)
from builder.ops.elementwise import (
    and_ as and_,
)
from builder.ops.elementwise import (
    asin as asin,
)
from builder.ops.elementwise import (
    asinh as asinh,
)
from builder.ops.elementwise import (
    atan as atan,
)
from builder.ops.elementwise import (
    atan2 as atan2,
)
from builder.ops.elementwise import (
    atanh as atanh,
)
from builder.ops.elementwise import (
    bitcast_convert_type as bitcast_convert_type,
)
from builder.ops.elementwise import (
    cbrt as cbrt,
)
from builder.ops.elementwise import (
    ceil as ceil,
)
from builder.ops.elementwise import (
    clamp as clamp,
)
from builder.ops.elementwise import (
    clz as clz,
)
from builder.ops.elementwise import (
    compare as compare,
)
from builder.ops.elementwise import (
    complex as complex,
)
from builder.ops.elementwise import (
    conj as conj,
)
from builder.ops.elementwise import (
    convert_element_type as convert_element_type,
)
from builder.ops.elementwise import (
    cos as cos,
)
from builder.ops.elementwise import (
    cosh as cosh,
)
from builder.ops.elementwise import (
    div as div,
)
from builder.ops.elementwise import (
    eq as eq,
)
from builder.ops.elementwise import (
    eq_total_order as eq_total_order,
)
from builder.ops.elementwise import (
    erf as erf,
)
from builder.ops.elementwise import (
    exp as exp,
)
from builder.ops.elementwise import (
    expm1 as expm1,
)
from builder.ops.elementwise import (
    floor as floor,
)
from builder.ops.elementwise import (
    ge as ge,
)
from builder.ops.elementwise import (
    ge_total_order as ge_total_order,
)
from builder.ops.elementwise import (
    gt as gt,
)
from builder.ops.elementwise import (
    gt_total_order as gt_total_order,
)
from builder.ops.elementwise import (
    imag as imag,
)
from builder.ops.elementwise import (
    is_finite as is_finite,
)
from builder.ops.elementwise import (
    le as le,
)
from builder.ops.elementwise import (
    le_total_order as le_total_order,
)
from builder.ops.elementwise import (
    log as log,
)
from builder.ops.elementwise import (
    log1p as log1p,
)
from builder.ops.elementwise import (
    logistic as logistic,
)
from builder.ops.elementwise import (
    lt as lt,
)
from builder.ops.elementwise import (
    lt_total_order as lt_total_order,
)
from builder.ops.elementwise import (
    map as map,
)
from builder.ops.elementwise import (
    max as max,
)
from builder.ops.elementwise import (
    min as min,
)
from builder.ops.elementwise import (
    mul as mul,
)
from builder.ops.elementwise import (
    ne as ne,
)
from builder.ops.elementwise import (
    ne_total_order as ne_total_order,
)
from builder.ops.elementwise import (
    neg as neg,
)
from builder.ops.elementwise import (
    not_ as not_,
)
from builder.ops.elementwise import (
    or_ as or_,
)
from builder.ops.elementwise import (
    population_count as population_count,
)
from builder.ops.elementwise import (
    pow as pow,
)
from builder.ops.elementwise import (
    real as real,
)
from builder.ops.elementwise import (
    reciprocal as reciprocal,
)
from builder.ops.elementwise import (
    reduce_precision as reduce_precision,
)
from builder.ops.elementwise import (
    rem as rem,
)
from builder.ops.elementwise import (
    round as round,
)
from builder.ops.elementwise import (
    round_nearest_even as round_nearest_even,
)
from builder.ops.elementwise import (
    rsqrt as rsqrt,
)
from builder.ops.elementwise import (
    select as select,
)
from builder.ops.elementwise import (
    shift_left as shift_left,
)
from builder.ops.elementwise import (
    shift_right_arithmetic as shift_right_arithmetic,
)
from builder.ops.elementwise import (
    shift_right_logical as shift_right_logical,
)
from builder.ops.elementwise import (
    sign as sign,
)
from builder.ops.elementwise import (
    sin as sin,
)
from builder.ops.elementwise import (
    sinh as sinh,
)
from builder.ops.elementwise import (
    sqrt as sqrt,
)
from builder.ops.elementwise import (
    square as square,
)
from builder.ops.elementwise import (
    sub as sub,
)
from builder.ops.elementwise import (
    tan as tan,
)
from builder.ops.elementwise import (
    tanh as tanh,
)
from builder.ops.elementwise import (
    xor as xor,
)
from builder.ops.reduction import reduce as reduce
from builder.ops.reduction import reduce_all as reduce_all
from builder.ops.registry import OPERATIONS as OPERATIONS
from builder.ops.registry import OpInfo as OpInfo
from builder.ops.reshaping import broadcast as broadcast
from builder.ops.reshaping import broadcast_in_dim as broadcast_in_dim
from builder.ops.reshaping import collapse as collapse
from builder.ops.reshaping import concatenate as concatenate
from builder.ops.reshaping import pad as pad
from builder.ops.reshaping import pad_in_dim as pad_in_dim
from builder.ops.reshaping import reshape as reshape
from builder.ops.reshaping import rev as rev
from builder.ops.reshaping import slice as slice
from builder.ops.reshaping import slice_in_dim as slice_in_dim
from builder.ops.reshaping import transpose as transpose
from builder.primitive_type import (
    PrimitiveType as PrimitiveType,
)
from builder.primitive_type import (
    as_primitive_type as as_primitive_type,
)
from builder.primitive_type import (
    bf16 as bf16,
)
from builder.primitive_type import (
    c64 as c64,
)
from builder.primitive_type import (
    c128 as c128,
)
from builder.primitive_type import (
    f4e2m1fn as f4e2m1fn,
)
from builder.primitive_type import (
    f8e3m4 as f8e3m4,
)
from builder.primitive_type import (
    f8e4m3 as f8e4m3,
)
from builder.primitive_type import (
    f8e4m3b11fnuz as f8e4m3b11fnuz,
)
from builder.primitive_type import (
    f8e4m3fn as f8e4m3fn,
)
from builder.primitive_type import (
    f8e4m3fnuz as f8e4m3fnuz,
)
from builder.primitive_type import (
    f8e5m2 as f8e5m2,
)
from builder.primitive_type import (
    f8e5m2fnuz as f8e5m2fnuz,
)
from builder.primitive_type import (
    f8e8m0fnu as f8e8m0fnu,
)
from builder.primitive_type import (
    f16 as f16,
)
from builder.primitive_type import (
    f32 as f32,
)
from builder.primitive_type import (
    f64 as f64,
)
from builder.primitive_type import (
    pred as pred,
)
from builder.primitive_type import (
    s2 as s2,
)
from builder.primitive_type import (
    s4 as s4,
)
from builder.primitive_type import (
    s8 as s8,
)
from builder.primitive_type import (
    s16 as s16,
)
from builder.primitive_type import (
    s32 as s32,
)
from builder.primitive_type import (
    s64 as s64,
)
from builder.primitive_type import (
    u2 as u2,
)
from builder.primitive_type import (
    u4 as u4,
)
from builder.primitive_type import (
    u8 as u8,
)
from builder.primitive_type import (
    u16 as u16,
)
from builder.primitive_type import (
    u32 as u32,
)
from builder.primitive_type import (
    u64 as u64,
)
from builder.shape import (
    TOKEN_SHAPE as TOKEN_SHAPE,
)
from builder.shape import (
    UNBOUNDED as UNBOUNDED,
)
from builder.shape import (
    ArrayShape as ArrayShape,
)
from builder.shape import (
    ProgramShape as ProgramShape,
)
from builder.shape import (
    Shape as Shape,
)
from builder.shape import (
    TokenShape as TokenShape,
)
from builder.shape import (
    TupleShape as TupleShape,
)
from builder.shape import (
    array_shape as array_shape,
)
from builder.shape import (
    bounded as bounded,
)
from builder.shape import (
    parse_shape as parse_shape,
)
from builder.shape import (
    tuple_shape as tuple_shape,
)
from builder.xla_builder import XlaBuilder as XlaBuilder
from builder.xla_op import SourceLocation as SourceLocation
from builder.xla_op import XlaOp as XlaOp

# Other names for the same functions, those of xla_builder.h where the document has another.
convert = convert_element_type
concat_in_dim = concatenate
