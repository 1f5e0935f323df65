"""Shapes of sizes known only when it runs."""

from __future__ import annotations

__all__: list[str] = []
