"""Operations across devices, in StableHLO."""

from __future__ import annotations
