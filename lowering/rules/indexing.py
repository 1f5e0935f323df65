"""Slices and updates at places known only when it runs, gathers, scatters, in StableHLO."""

from __future__ import annotations
