"""Sizes known only when it runs, in HLO text."""

from __future__ import annotations
