"""Shapes of slices and updates at places known only when it runs, of gathers and scatters."""

from __future__ import annotations

__all__: list[str] = []
