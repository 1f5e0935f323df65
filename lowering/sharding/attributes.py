"""The names of sharding attributes.

Arguments, results and operations have either GSPMD shardings, which are text, or Shardy shardings,
which are attributes of the sdy dialect.
"""

from __future__ import annotations

from typing import Final

from builder.sharding.text import is_shardy
from lowering.mlir.attributes import quoted

GSPMD: Final = "mhlo.sharding"
SHARDY: Final = "sdy.sharding"
SHARDINGS: Final = (GSPMD, SHARDY)


def sharding_attribute(text: str) -> dict[str, str]:
    """Return the attribute for a sharding, as a dict from its name to its value as MLIR text.

    Example:
        >>> sharding_attribute("{replicated}")
        {'mhlo.sharding': '"{replicated}"'}
    """
    return {SHARDY: text} if is_shardy(text) else {GSPMD: quoted(text)}
