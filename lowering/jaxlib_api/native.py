"""The two modules of jaxlib with the private names used in this package."""

from __future__ import annotations

import importlib
from typing import Any, Final

# Imported by name, since jaxlib has no type stubs for them.
jax_extension: Final[Any] = importlib.import_module("jaxlib._jax")
xla_client: Final[Any] = importlib.import_module("jaxlib.xla_client")

default_registry: Final[Any] = jax_extension.pytree.default_registry()
"""The registry of `jax.tree_util`; jax adds the classes of users to it."""
