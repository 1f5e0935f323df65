"""Operations across devices that a platform lacks."""

from __future__ import annotations
