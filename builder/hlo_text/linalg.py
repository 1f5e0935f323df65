"""Linear algebra and Fourier transforms, in HLO text."""

from __future__ import annotations
