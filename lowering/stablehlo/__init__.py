"""Computations as StableHLO modules: lowering, attribute codecs, saving and loading."""
