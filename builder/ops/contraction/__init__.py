"""Contractions: dot products and convolutions."""

from builder.ops.contraction.convolution import (
    conv as conv,
    conv_general as conv_general,
    conv_general_dilated as conv_general_dilated,
    conv_with_general_dimensions as conv_with_general_dimensions,
    conv_with_general_padding as conv_with_general_padding,
)
from builder.ops.contraction.dot_product import (
    dot as dot,
    dot_general as dot_general,
    ragged_dot as ragged_dot,
)
