"""Slices and updates at places known only when it runs, gathers, scatters."""

from __future__ import annotations

__all__: list[str] = []
