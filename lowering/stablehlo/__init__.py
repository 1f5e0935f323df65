"""Computations as StableHLO modules: lowering, attributes by schema, saving and loading."""
