"""Computations made of others: recorded in another builder, with ops swapped, or cut out.

What is made shares attributes and applied computations with what it is made of. Shapes are those
that were inferred when the ops were first recorded: operands are of the same shapes, so inference
could say nothing else. Source lines, names, shardings and frontend attributes go along.

Nothing is imported here: `import builder` needs `inlining` alone, and the others load when a method
of XlaComputation is called.
"""
