"""The versions of jaxlib for which `tests/defects` and `tests/type_grid` have recorded outcomes.

These are the oldest and the newest. With a version between them, the tests of outcomes are skipped;
with a later one they fail until its outcomes are recorded.
"""

from __future__ import annotations

from typing import Final

import jaxlib
import pytest

VERSION: Final = ".".join(jaxlib.__version__.split(".")[:2])
RECORDED: Final = ("0.10", "0.12")

needs_outcomes: Final = pytest.mark.skipif(
    min(RECORDED) < VERSION < max(RECORDED),
    reason=f"outcomes are recorded with jaxlib {' and '.join(RECORDED)}",
)
