"""xlabuilder's language: write XLA computations in Python.

``import builder as xb``: primitive types, shapes, XlaBuilder, and every operation as a function.
Nothing here needs jax; `lowering` lowers computations to StableHLO and runs them on devices.
"""

import typing as _typing

from builder.support.collector import collector_paused as _collector_paused

with _collector_paused(retained=True):
    from builder.attributes import (
        ChannelHandle as ChannelHandle,
        ChannelType as ChannelType,
        ConvolutionDimensionNumbers as ConvolutionDimensionNumbers,
        CustomCallApiVersion as CustomCallApiVersion,
        CustomCallSchedule as CustomCallSchedule,
        DotAlgorithm as DotAlgorithm,
        DotDimensionNumbers as DotDimensionNumbers,
        FftType as FftType,
        GatherDimensionNumbers as GatherDimensionNumbers,
        OutputOperandAliasing as OutputOperandAliasing,
        Padding as Padding,
        PaddingConfig as PaddingConfig,
        PaddingConfigDimension as PaddingConfigDimension,
        Precision as Precision,
        RaggedDotDimensionNumbers as RaggedDotDimensionNumbers,
        RandomAlgorithm as RandomAlgorithm,
        ReplicaGroups as ReplicaGroups,
        ResultAccuracy as ResultAccuracy,
        ScatterDimensionNumbers as ScatterDimensionNumbers,
        Transpose as Transpose,
    )
    from builder.errors import (
        BuilderError as BuilderError,
        ConstantError as ConstantError,
        OperandError as OperandError,
        PrimitiveTypeError as PrimitiveTypeError,
        ShapeInferenceError as ShapeInferenceError,
        ShapeTextError as ShapeTextError,
        SignatureError as SignatureError,
        UnknownNameError as UnknownNameError,
        XlaError as XlaError,
        show_internal_frames as show_internal_frames,
    )
    from builder.graph.computation import XlaComputation as XlaComputation
    from builder.graph.decorators import (
        computation as computation,
        custom_gradient as custom_gradient,
    )
    from builder.graph.recording import declare_internal as declare_internal
    from builder.graph.registry import OPERATIONS as OPERATIONS, OpInfo as OpInfo, alias as _alias
    from builder.graph.subcomputations import ReusableFunction as ReusableFunction
    from builder.graph.xla_builder import XlaBuilder as XlaBuilder
    from builder.graph.xla_op import SourceLocation as SourceLocation, XlaOp as XlaOp
    from builder.layout import (
        Layout as Layout,
        PaddingValue as PaddingValue,
        Tile as Tile,
        parse_layout as parse_layout,
    )
    from builder.ops.collectives import (
        all_gather as all_gather,
        all_reduce as all_reduce,
        all_to_all as all_to_all,
        all_to_all_tuple as all_to_all_tuple,
        collective_broadcast as collective_broadcast,
        collective_permute as collective_permute,
        cross_replica_sum as cross_replica_sum,
        multi_collective_permute as multi_collective_permute,
        reduce_scatter as reduce_scatter,
    )
    from builder.ops.contraction import (
        conv as conv,
        conv_general as conv_general,
        conv_general_dilated as conv_general_dilated,
        conv_with_general_dimensions as conv_with_general_dimensions,
        conv_with_general_padding as conv_with_general_padding,
        dot as dot,
        dot_general as dot_general,
        ragged_dot as ragged_dot,
    )
    from builder.ops.control_flow import (
        call as call,
        composite_call as composite_call,
        conditional as conditional,
        get_tuple_element as get_tuple_element,
        optimization_barrier as optimization_barrier,
        scan as scan,
        tuple as tuple,
        while_ as while_,
    )
    from builder.ops.debugging import check as check, debug_print as debug_print
    from builder.ops.dynamic import (
        dynamic_broadcast_in_dim as dynamic_broadcast_in_dim,
        dynamic_iota as dynamic_iota,
        dynamic_pad as dynamic_pad,
        dynamic_reshape as dynamic_reshape,
        get_dimension_size as get_dimension_size,
        real_dynamic_slice as real_dynamic_slice,
        remove_dynamic_dimension as remove_dynamic_dimension,
        set_dimension_size as set_dimension_size,
    )
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
        mulhi as mulhi,
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
        stochastic_convert_type as stochastic_convert_type,
        sub as sub,
        tan as tan,
        tanh as tanh,
        xor as xor,
    )
    from builder.ops.host import (
        after_all as after_all,
        custom_call as custom_call,
        infeed_with_token as infeed_with_token,
        outfeed as outfeed,
        outfeed_with_token as outfeed_with_token,
        python_call as python_call,
        recv_from_host as recv_from_host,
        recv_with_token as recv_with_token,
        send as send,
        send_to_host as send_to_host,
        send_with_token as send_with_token,
    )
    from builder.ops.indexing import (
        dynamic_gather as dynamic_gather,
        dynamic_slice as dynamic_slice,
        dynamic_update_slice as dynamic_update_slice,
        gather as gather,
        scatter as scatter,
    )
    from builder.ops.linalg import (
        cholesky as cholesky,
        fft as fft,
        triangular_solve as triangular_solve,
    )
    from builder.ops.normalization import (
        batch_norm_grad as batch_norm_grad,
        batch_norm_inference as batch_norm_inference,
        batch_norm_training as batch_norm_training,
    )
    from builder.ops.random import (
        rng_bit_generator as rng_bit_generator,
        rng_normal as rng_normal,
        rng_uniform as rng_uniform,
    )
    from builder.ops.reduction import (
        reduce as reduce,
        reduce_all as reduce_all,
        reduce_window as reduce_window,
        reduce_window_with_general_padding as reduce_window_with_general_padding,
        select_and_scatter as select_and_scatter,
        select_and_scatter_with_general_padding as select_and_scatter_with_general_padding,
        sort as sort,
        top_k as top_k,
    )
    from builder.ops.reshaping import (
        broadcast as broadcast,
        broadcast_in_dim as broadcast_in_dim,
        collapse as collapse,
        concatenate as concatenate,
        pad as pad,
        pad_in_dim as pad_in_dim,
        reshape as reshape,
        reshape_with_inferred_dimension as reshape_with_inferred_dimension,
        rev as rev,
        slice as slice,
        slice_in_dim as slice_in_dim,
        transpose as transpose,
    )
    from builder.ops.sharding import (
        spmd_full_to_shard_shape as spmd_full_to_shard_shape,
        spmd_shard_to_full_shape as spmd_shard_to_full_shape,
        with_sharding as with_sharding,
    )
    from builder.types.primitive_type import (
        PrimitiveType as PrimitiveType,
        as_primitive_type as as_primitive_type,
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
    from builder.types.shape import (
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

# pyproject.toml reads it, and `lowering` exports it.
__version__ = "1.0.0rc1"

# Aliases: the names of xla_builder.h where the document's are different.
convert = _alias("convert", convert_element_type)
concat_in_dim = _alias("concat_in_dim", concatenate)
all_gather_tuple = _alias("all_gather_tuple", all_gather)
all_reduce_tuple = _alias("all_reduce_tuple", all_reduce)

if _typing.TYPE_CHECKING:
    from builder.inspection.diff import ComputationDiff as ComputationDiff
    from builder.inspection.explaining import Explanation as Explanation, explain as explain
    from builder.inspection.open_sizes import OpenSize as OpenSize
    from builder.inspection.stats import ComputationStats as ComputationStats
    from builder.inspection.table import OpTable as OpTable
    from builder.ops import shape_inference as shape_inference
    from builder.rewriting.constants import bind as bind, hoist_constants as hoist_constants
    from builder.rewriting.copying import inline as inline
    from builder.sharding.mesh import Mesh as Mesh, MeshSharding as MeshSharding
    from builder.sharding.tiling import Tiling as Tiling, parse_tiling as parse_tiling
else:
    from builder.support.imports import lazy_name as _lazy_name

    # Few programs use these names; without them the import takes less time.
    _LAZY = {
        "ComputationDiff": "builder.inspection.diff",
        "ComputationStats": "builder.inspection.stats",
        "Explanation": "builder.inspection.explaining",
        "Mesh": "builder.sharding.mesh",
        "MeshSharding": "builder.sharding.mesh",
        "OpTable": "builder.inspection.table",
        "OpenSize": "builder.inspection.open_sizes",
        "Tiling": "builder.sharding.tiling",
        "bind": "builder.rewriting.constants",
        "explain": "builder.inspection.explaining",
        "hoist_constants": "builder.rewriting.constants",
        "inline": "builder.rewriting.copying",
        "parse_tiling": "builder.sharding.tiling",
        "shape_inference": "builder.ops",
    }

    __all__ = sorted(
        {
            name
            for name, value in globals().items()
            if not name.startswith("_") and not isinstance(value, type(_typing))
        }
        | {"layout", *_LAZY}
    )

    def __getattr__(name):
        if name in _LAZY:
            return _lazy_name(globals(), _LAZY, name)
        if name.startswith("__"):  # looked up by the interpreter, not by users
            raise AttributeError(f"module 'builder' has no attribute {name!r}")
        from builder.support.imports import extension
        from builder.unknown_names import missing_name

        raise missing_name(name, __all__, extension("lowering", "__dir__"))

    def __dir__():
        return __all__
