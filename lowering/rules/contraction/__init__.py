"""Contractions in StableHLO; dot products with groups of unequal sizes in CHLO."""

from lowering.rules.contraction import (
    convolution as convolution,
    dot_product as dot_product,
    ragged as ragged,
)
