"""Errors for packages that are not installed."""

from __future__ import annotations

from typing import Final

REQUIREMENTS: Final = {
    "click": "click>=8.2",
    "jax": "jax>=0.10,<0.13",
    "jaxlib": "jax>=0.10,<0.13",
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
