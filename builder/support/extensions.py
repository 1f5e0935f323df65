"""Methods that are implemented in a package above their class.

`computation.table()` is a method of `XlaComputation`, implemented in `builder.inspection`, which
imports computations. Such a method has a signature, a docstring and a call of `extension`, which
imports the function when the method is first called:

    def table(self, *, limit: int | None = 40) -> OpTable:
        table: OpTable = extension("builder.inspection.table", "table_of")(self, limit=limit)
        return table

So the graph does not import the packages above it, and `import builder` does not load them.
tests/test_layers.py lists these calls; nothing else may use `extension`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def extension(module: str, function: str) -> Callable[..., Any]:
    """Import a module, and return one of its functions.

    Args:
        module: the full name of the module.
        function: the name of the function.

    Example:
        >>> extension("math", "gcd")(12, 18)
        6
    """
    result: Callable[..., Any] = getattr(import_module(module), function)
    return result
