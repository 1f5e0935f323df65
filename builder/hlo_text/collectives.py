"""Operations across devices, in HLO text."""

from __future__ import annotations
