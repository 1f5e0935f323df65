"""Imports of names when they are first used, and errors for packages that are not installed.

**Packages.** `lowering` requires jax, whose import is slow, and `builder` re-exports functions that
few programs use. Such a package imports these names under `if TYPE_CHECKING:`, for type checkers
and editors, and maps each to its module for `__getattr__`:

    if TYPE_CHECKING:
        from builder.layout.packing import pack as pack
    else:
        from builder.support.imports import lazy_name

        _LAZY = {"pack": "builder.layout.packing"}
        __all__ = ["Layout", *_LAZY]

        def __getattr__(name):
            return lazy_name(globals(), _LAZY, name)

        def __dir__():
            return __all__

tests/test_lazy.py compares the two lists. `lowering` imports this module inside `__getattr__`,
because `builder` imports NumPy.

**Methods** whose implementation is in a module that imports their class. `computation.table()` is a
method of `XlaComputation`, implemented in `builder.inspection`, which imports computations. Such a
method has a signature, a docstring and a call of `extension`, which imports the function and calls
it:

    def table(self, *, limit: int | None = 40) -> OpTable:
        return extension("builder.inspection.table", "table_of", self, limit=limit)

Thus the class does not import that module, and `import builder` does not load it. The
`__getattr__` of a package calls it, too, for the errors of `builder.unknown_names`.
tests/test_layers.py lists these calls; nothing else may use `extension`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final, TypeVar


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


REQUIREMENTS: Final = {
    "click": "click>=8.2",
    "jax": "jax>=0.10,<0.13",
    "jaxlib": "jax>=0.10,<0.13",
    "pygraphviz": "xlabuilder[draw]",
}
"""What to install for each package that parts of the project import; jax installs jaxlib."""


def missing_requirement(error: ModuleNotFoundError, user: str) -> ModuleNotFoundError:
    """Return an error that states what to install, or `error` if it is about another module.

    Args:
        error: the error of an import.
        user: what requires the module: a name that a program uses, or a command.

    Example:
        >>> error = ModuleNotFoundError("No module named 'jax'", name="jax")
        >>> print(missing_requirement(error, "lowering.compile"))
        lowering.compile requires jax: run `pip install "jax>=0.10,<0.13"`
    """
    # jax replaces the error for jaxlib by one without a name.
    name = error.name or getattr(error.__cause__, "name", None)
    if name not in REQUIREMENTS:
        return error
    text = f'{user} requires {name}: run `pip install "{REQUIREMENTS[name]}"`'
    return ModuleNotFoundError(text, name=name)
