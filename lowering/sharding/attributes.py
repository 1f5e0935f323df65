"""How a module says how arrays lie on devices: the names of the attributes that do.

GSPMD's are text, Shardy's attributes of its own. Arguments, results and operations have either.
"""

from __future__ import annotations

from typing import Final

from builder.sharding.text import is_shardy
from lowering.mlir.attributes import quoted

__all__ = ["GSPMD", "SHARDINGS", "SHARDY", "sharding_attribute"]

GSPMD: Final = "mhlo.sharding"
SHARDY: Final = "sdy.sharding"
SHARDINGS: Final = (GSPMD, SHARDY)


def sharding_attribute(text: str) -> dict[str, str]:
    """The attribute that says a sharding, by its name, as MLIR's text.

    Example:
        >>> sharding_attribute("{replicated}")
        {'mhlo.sharding': '"{replicated}"'}
    """
    return {SHARDY: text} if is_shardy(text) else {GSPMD: quoted(text)}
