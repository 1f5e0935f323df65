"""Methods whose code lives in a package above their class.

`computation.table()` belongs to `XlaComputation`, which users expect to have it, and to
`builder.inspection`, which works on computations. Such a method is a signature, a docstring and a
call of `extension`, which imports the function when the method is first called:

    def table(self, *, limit: int | None = 40) -> OpTable:
        made: OpTable = extension("builder.inspection.table", "table_of")(self, limit=limit)
        return made

So the graph does not import what is built on it, and `import builder` loads none of it.
tests/test_layers.py lists these calls; nothing else may use `extension`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = ["extension"]


def extension(module: str, function: str) -> Callable[..., Any]:
    """Return a function of a module that is imported now, if it was not before.

    Args:
        module: the full name of the module.
        function: the name of the function.

    Example:
        >>> extension("math", "gcd")(12, 18)
        6
    """
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found
