"""Helpers without knowledge of XLA: callers, caches, lazy imports, unique names."""
