"""Attributes of ops: bundles of several fields, and enumerations. One module for each subject.

A bundle is a frozen dataclass with the field names of ``xla_data.proto``. It converts lists to
tuples, so that it can be hashed and stored as an op's attribute.
"""

from builder.attributes.accuracy import (
    ResultAccuracy as ResultAccuracy,
    ResultAccuracyLike as ResultAccuracyLike,
)
from builder.attributes.collectives import (
    ChannelHandle as ChannelHandle,
    ChannelHandleLike as ChannelHandleLike,
    ChannelType as ChannelType,
    ReplicaGroups as ReplicaGroups,
    ReplicaGroupsLike as ReplicaGroupsLike,
)
from builder.attributes.contraction import (
    DotDimensionNumbers as DotDimensionNumbers,
    DotDimensionNumbersLike as DotDimensionNumbersLike,
    RaggedDotDimensionNumbers as RaggedDotDimensionNumbers,
    RaggedDotDimensionNumbersLike as RaggedDotDimensionNumbersLike,
)
from builder.attributes.convolution import (
    ConvolutionDimensionNumbers as ConvolutionDimensionNumbers,
    ConvolutionDimensionNumbersLike as ConvolutionDimensionNumbersLike,
)
from builder.attributes.host import (
    CustomCallApiVersion as CustomCallApiVersion,
    CustomCallSchedule as CustomCallSchedule,
    OutputOperandAliasing as OutputOperandAliasing,
    OutputOperandAliasingLike as OutputOperandAliasingLike,
)
from builder.attributes.indexing import (
    GatherDimensionNumbers as GatherDimensionNumbers,
    GatherDimensionNumbersLike as GatherDimensionNumbersLike,
    ScatterDimensionNumbers as ScatterDimensionNumbers,
    ScatterDimensionNumbersLike as ScatterDimensionNumbersLike,
)
from builder.attributes.linalg import (
    FftType as FftType,
    FftTypeLike as FftTypeLike,
    Transpose as Transpose,
    TransposeLike as TransposeLike,
)
from builder.attributes.padding import (
    PaddingConfig as PaddingConfig,
    PaddingConfigDimension as PaddingConfigDimension,
    PaddingConfigLike as PaddingConfigLike,
)
from builder.attributes.precision import (
    DotAlgorithm as DotAlgorithm,
    DotAlgorithmLike as DotAlgorithmLike,
    Precision as Precision,
    PrecisionLike as PrecisionLike,
)
from builder.attributes.random import (
    RandomAlgorithm as RandomAlgorithm,
    RandomAlgorithmLike as RandomAlgorithmLike,
)
from builder.attributes.window import (
    Padding as Padding,
    PaddingLike as PaddingLike,
)
