"""Computations of jax functions, and jax functions of computations."""
