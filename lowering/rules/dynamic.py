"""Sizes known only when it runs, in StableHLO."""

from __future__ import annotations
