"""Shapes of tokens, the host, and code that XLA does not know."""

from __future__ import annotations

__all__: list[str] = []
