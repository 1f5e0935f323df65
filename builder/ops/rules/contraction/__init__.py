"""Shapes of contractions: dot products, convolutions."""

from builder.ops.rules.contraction.convolution import (
    ConvolutionWindow as ConvolutionWindow,
    conv_general_dilated as conv_general_dilated,
    convolution_window as convolution_window,
)
from builder.ops.rules.contraction.dot_product import (
    ALGORITHM_TYPES as ALGORITHM_TYPES,
    dot as dot,
    dot_dimension_numbers as dot_dimension_numbers,
    dot_general as dot_general,
    is_promotable as is_promotable,
)
from builder.ops.rules.contraction.ragged import (
    RaggedMode as RaggedMode,
    ragged_dot as ragged_dot,
    ragged_mode as ragged_mode,
    ragged_prefix as ragged_prefix,
)
