"""Inspect computations: tables, costs, searches and diffs.

These are the implementations of the methods `table`, `stats`, `find` and `diff` of
`XlaComputation`. They use the recorded ops alone, without a compiler and without recursion. The
results are printed with rich, which is imported when something is printed, and have `as_dict`.
"""
