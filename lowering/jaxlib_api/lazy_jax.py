"""jax and its modules, imported when one of their attributes is first used.

Recording, lowering and import run without jax, whose import is slow. Modules that contain functions
for jax besides others import its modules from here.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__all__ = [
    "ad",
    "batching",
    "jax",
    "jax_core",
    "jax_experimental",
    "jax_mlir",
    "jnp",
    "lax",
]

if TYPE_CHECKING:
    import jax
    import jax.experimental as jax_experimental
    import jax.extend.core as jax_core
    import jax.numpy as jnp
    from jax import lax
    from jax.interpreters import ad, batching, mlir as jax_mlir
else:

    class _Module:
        """A module that is imported when an attribute is first read; attributes are kept."""

        def __init__(self, name: str) -> None:
            self.__name__ = name

        def __getattr__(self, name: str) -> Any:
            value = getattr(importlib.import_module(self.__name__), name)
            setattr(self, name, value)
            return value

    jax = _Module("jax")
    jnp = _Module("jax.numpy")
    lax = _Module("jax.lax")
    ad = _Module("jax.interpreters.ad")
    batching = _Module("jax.interpreters.batching")
    jax_mlir = _Module("jax.interpreters.mlir")
    jax_core = _Module("jax.extend.core")
    jax_experimental = _Module("jax.experimental")
