"""Rewrite computations: record them again in another builder, with ops replaced or extracted.

The new computation shares attributes and applied computations with the original one. Shapes are not
inferred again, because the operands' shapes are unchanged. Source lines, names, shardings and
frontend attributes are preserved.

This module imports nothing: `import builder` loads only `copying`, and methods of XlaComputation
load the others when they are called.
"""
