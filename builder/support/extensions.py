"""Methods whose implementation is in a module that imports their class.

`computation.table()` is a method of `XlaComputation`, implemented in `builder.inspection`, which
imports computations. Such a method has a signature, a docstring and a call of `extension`, which
imports the function and calls it:

    def table(self, *, limit: int | None = 40) -> OpTable:
        return extension("builder.inspection.table", "table_of", self, limit=limit)

Thus the class does not import that module, and `import builder` does not load it. The
`__getattr__` of a package calls it, too, for the errors of `builder.unknown_names`.
tests/test_layers.py lists these calls; nothing else may use `extension`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, TypeVar

T = TypeVar("T")


def extension(module: str, function: str, *arguments: Any, **named: Any) -> T:  # type: ignore[type-var]  # the type that the caller returns
    """Import a module, and call one of its functions.

    Args:
        module: the full name of the module.
        function: the name of the function.
        arguments, named: the arguments of the function.

    Example:
        >>> extension("math", "gcd", 12, 18)
        6
    """
    result: T = getattr(import_module(module), function)(*arguments, **named)
    return result
