"""Inspect computations: tables, costs, searches and diffs.

These are the implementations of the methods `table`, `stats`, `find` and `diff` of
`XlaComputation`. They read only the recorded ops, without a compiler and without recursion. The
results have a method `as_dict`, and are printed with rich, which is imported for printing only.
"""
