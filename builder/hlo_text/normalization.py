"""Batch normalization, in HLO text."""

from __future__ import annotations
