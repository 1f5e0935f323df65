"""Random numbers, in StableHLO."""

from __future__ import annotations
