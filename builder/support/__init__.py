"""Helpers that are independent of XLA: callers, caches, lazy imports, unique names."""
