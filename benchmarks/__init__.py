"""How fast graphs are built: python -m benchmarks, or make bench.

Nothing is imported here: `benchmarks.peer` runs on a Python that has neither jax nor this project's
packages' needs.
"""
