"""Attributes of ops: bundles of several fields, and enumerations. One module for each subject.

A bundle (`builder.support.bundles`) has the field names of ``xla_data.proto``. It converts lists to
tuples, so that it can be hashed and stored as an op's attribute.
"""

from builder.attributes.algorithms import (
    DotAlgorithm as DotAlgorithm,
    DotAlgorithmLike as DotAlgorithmLike,
    FftType as FftType,
    FftTypeLike as FftTypeLike,
    Precision as Precision,
    PrecisionLike as PrecisionLike,
    RandomAlgorithm as RandomAlgorithm,
    RandomAlgorithmLike as RandomAlgorithmLike,
    ResultAccuracy as ResultAccuracy,
    ResultAccuracyLike as ResultAccuracyLike,
    Transpose as Transpose,
    TransposeLike as TransposeLike,
)
from builder.attributes.collectives import (
    ChannelHandle as ChannelHandle,
    ChannelHandleLike as ChannelHandleLike,
    ChannelType as ChannelType,
    ReplicaGroups as ReplicaGroups,
    ReplicaGroupsLike as ReplicaGroupsLike,
)
from builder.attributes.dimension_numbers import (
    ConvolutionDimensionNumbers as ConvolutionDimensionNumbers,
    ConvolutionDimensionNumbersLike as ConvolutionDimensionNumbersLike,
    DotDimensionNumbers as DotDimensionNumbers,
    DotDimensionNumbersLike as DotDimensionNumbersLike,
    GatherDimensionNumbers as GatherDimensionNumbers,
    GatherDimensionNumbersLike as GatherDimensionNumbersLike,
    RaggedDotDimensionNumbers as RaggedDotDimensionNumbers,
    RaggedDotDimensionNumbersLike as RaggedDotDimensionNumbersLike,
    ScatterDimensionNumbers as ScatterDimensionNumbers,
    ScatterDimensionNumbersLike as ScatterDimensionNumbersLike,
)
from builder.attributes.host import (
    CustomCallApiVersion as CustomCallApiVersion,
    CustomCallSchedule as CustomCallSchedule,
    OutputOperandAliasing as OutputOperandAliasing,
    OutputOperandAliasingLike as OutputOperandAliasingLike,
)
from builder.attributes.padding import (
    Padding as Padding,
    PaddingConfig as PaddingConfig,
    PaddingConfigDimension as PaddingConfigDimension,
    PaddingConfigLike as PaddingConfigLike,
    PaddingLike as PaddingLike,
)
