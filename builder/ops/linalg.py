"""Linear algebra and Fourier transforms."""

from __future__ import annotations

__all__: list[str] = []
