"""Tokens, the host, and code that XLA does not know, in StableHLO."""

from __future__ import annotations
