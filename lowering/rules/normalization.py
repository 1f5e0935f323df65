"""Batch normalization, in StableHLO."""

from __future__ import annotations
