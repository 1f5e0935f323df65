"""Parameters and results of bounded sizes."""

from __future__ import annotations
