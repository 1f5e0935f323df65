"""The Python binding of XLA's builder that jaxlib had up to version 0.6, on the API of `builder`.

``from lowering import xla_client as xc`` replaces ``from jaxlib import xla_client as xc``.
docs/xla_client.md lists the old names, and what to write for them with the API of `builder`.
"""

import typing

from builder import XlaOp as XlaOp
from lowering.xla_client import native_names as native_names, ops as ops
from lowering.xla_client.builder import (
    HloModule as HloModule,
    XlaBuilder as XlaBuilder,
    XlaComputation as XlaComputation,
)
from lowering.xla_client.client import (
    Client as Client,
    Device as Device,
    LoadedExecutable as LoadedExecutable,
    execute_with_python_values as execute_with_python_values,
    execute_with_python_values_replicated as execute_with_python_values_replicated,
    get_local_backend as get_local_backend,
    make_cpu_client as make_cpu_client,
    make_gpu_client as make_gpu_client,
    make_tpu_client as make_tpu_client,
    register_custom_call_target as register_custom_call_target,
    xla_platform_names as xla_platform_names,
)
from lowering.xla_client.enums import (
    DTYPE_TO_XLA_ELEMENT_TYPE as DTYPE_TO_XLA_ELEMENT_TYPE,
    XLA_ELEMENT_TYPE_TO_DTYPE as XLA_ELEMENT_TYPE_TO_DTYPE,
    FftType as FftType,
    PaddingType as PaddingType,
    PrimitiveType as PrimitiveType,
    ResultAccuracy_Mode as ResultAccuracy_Mode,
    dtype_to_etype as dtype_to_etype,
)
from lowering.xla_client.errors import XlaRuntimeError as XlaRuntimeError
from lowering.xla_client.options import (
    CompileOptions as CompileOptions,
    DeviceAssignment as DeviceAssignment,
    ExecutableBuildOptions as ExecutableBuildOptions,
)
from lowering.xla_client.protos import (
    ChannelHandle as ChannelHandle,
    ConvolutionDimensionNumbers as ConvolutionDimensionNumbers,
    CurrentSourceInfoMetadata as CurrentSourceInfoMetadata,
    DotDimensionNumbers as DotDimensionNumbers,
    FrontendAttributes as FrontendAttributes,
    GatherDimensionNumbers as GatherDimensionNumbers,
    OpMetadata as OpMetadata,
    OpSharding as OpSharding,
    PaddingConfig as PaddingConfig,
    PaddingConfigDimension as PaddingConfigDimension,
    PrecisionConfig as PrecisionConfig,
    ReplicaGroup as ReplicaGroup,
    ResultAccuracy as ResultAccuracy,
    ScatterDimensionNumbers as ScatterDimensionNumbers,
    make_convolution_dimension_numbers as make_convolution_dimension_numbers,
    make_dot_dimension_numbers as make_dot_dimension_numbers,
    make_padding_config as make_padding_config,
    make_replica_groups as make_replica_groups,
    window_padding_type_to_pad_values as window_padding_type_to_pad_values,
)
from lowering.xla_client.shapes import (
    Layout as Layout,
    ProgramShape as ProgramShape,
    Shape as Shape,
    ShapeIndex as ShapeIndex,
    shape_from_pyval as shape_from_pyval,
)

_xla = native_names
ResultAccuracyMode = ResultAccuracy_Mode

bfloat16 = XLA_ELEMENT_TYPE_TO_DTYPE[PrimitiveType.BF16].type
float8_e4m3fn = XLA_ELEMENT_TYPE_TO_DTYPE[PrimitiveType.F8E4M3FN].type
float8_e5m2 = XLA_ELEMENT_TYPE_TO_DTYPE[PrimitiveType.F8E5M2].type

if not typing.TYPE_CHECKING:

    def __getattr__(name):
        return getattr(native_names, name)
