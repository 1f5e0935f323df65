"""Slices and updates at places known only when it runs, gathers, scatters, in HLO text."""

from __future__ import annotations
