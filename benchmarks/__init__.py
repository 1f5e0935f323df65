"""Benchmarks of building graphs: `python -m benchmarks`, or `make bench`.

This module imports nothing, because `benchmarks.peer` runs on a Python without jax and without the
dependencies of this project.
"""
