"""One order for the programs of several devices."""

from __future__ import annotations

import threading
from typing import Final

__all__ = ["LAUNCH"]

LAUNCH: Final = threading.Lock()
"""Programs reach all devices in one order: of two that wait for each other none would end."""
