"""The two modules of jaxlib that the others here take their private names from."""

from __future__ import annotations

import importlib
from typing import Any, Final

__all__ = ["jax_extension", "xla_client"]

# Imported by name: jaxlib has no type stubs for these two.
jax_extension: Final[Any] = importlib.import_module("jaxlib._jax")
xla_client: Final[Any] = importlib.import_module("jaxlib.xla_client")
