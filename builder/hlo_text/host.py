"""Tokens, the host, and code that XLA does not know, in HLO text."""

from __future__ import annotations
