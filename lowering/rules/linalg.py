"""Linear algebra and Fourier transforms, in StableHLO."""

from __future__ import annotations
