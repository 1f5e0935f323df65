"""Import names of a package when they are first used.

`lowering` requires jax, whose import is slow, and `builder` re-exports functions that few programs
use. Such a package imports these names under `if TYPE_CHECKING:`, for type checkers and editors,
and maps each to its module for `__getattr__`:

    if TYPE_CHECKING:
        from builder.layout.packing import pack as pack
    else:
        from builder.support.lazy import lazy_name

        _LAZY = {"pack": "builder.layout.packing"}
        __all__ = ["Layout", *_LAZY]

        def __getattr__(name):
            return lazy_name(globals(), _LAZY, name)

        def __dir__():
            return __all__

tests/test_lazy.py compares the two lists. `lowering` imports this module inside `__getattr__`,
because `builder` imports NumPy.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any


def lazy_name(package: dict[str, Any], modules: Mapping[str, str], name: str) -> Any:
    """Import a name and store it in the package's globals, so that `__getattr__` runs only once.

    A name that is not in `modules` is imported as a submodule of the package.

    Args:
        package: the package's `globals()`.
        modules: the module of each name.
        name: the attribute that the package does not have yet.

    Raises:
        AttributeError: the package has neither such a name nor such a submodule.

    Example:
        >>> package = {"__name__": "shapes"}
        >>> lazy_name(package, {"size": "math"}, "sise")
        Traceback (most recent call last):
        AttributeError: module 'shapes' has no attribute 'sise'
        >>> lazy_name(package, {"prod": "math"}, "prod") is package["prod"]
        True
    """
    if name in modules:
        source = import_module(modules[name])
        if not hasattr(source, name):  # a submodule
            import_module(f"{modules[name]}.{name}")
        value = package[name] = getattr(source, name)
        return value
    package_name = package["__name__"]
    module = f"{package_name}.{name}"
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name not in (module, package_name):  # raised by an import inside the submodule
            raise
        raise AttributeError(f"module {package_name!r} has no attribute {name!r}") from None
