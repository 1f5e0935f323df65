"""Shapes of operations across devices."""

from __future__ import annotations

__all__: list[str] = []
