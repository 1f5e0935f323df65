"""Contractions in HLO text."""

from builder.hlo_text.contraction import (
    convolution as convolution,
    dot_product as dot_product,
    ragged as ragged,
)
