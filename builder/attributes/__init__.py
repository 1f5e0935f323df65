"""Attribute bundles: what an op says besides its operands, where one list would not do.

All are frozen dataclasses with the field names of ``xla_data.proto``, one module for each subject.
Lists become tuples, so that a bundle can be hashed, and kept in the attributes of an op.
"""

from builder.attributes.contraction import (
    DotDimensionNumbers as DotDimensionNumbers,
    DotDimensionNumbersLike as DotDimensionNumbersLike,
)
from builder.attributes.padding import (
    PaddingConfig as PaddingConfig,
    PaddingConfigDimension as PaddingConfigDimension,
    PaddingConfigLike as PaddingConfigLike,
)
from builder.attributes.precision import (
    DotAlgorithm as DotAlgorithm,
    Precision as Precision,
    PrecisionLike as PrecisionLike,
)
