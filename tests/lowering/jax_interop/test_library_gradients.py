"""Gradients of functions of jax, optax, equinox and flax equal those of `jax.grad`, in f64.

The cases of other libraries run by hand: see `library_gradients.py`.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest
from scripts import load_script

trials: Any = load_script("tests/lowering/jax_interop/library_gradients.py")

IN_SUITE = ("jax linalg", "jax numpy", "jax control", "optax", "equinox", "flax")


@pytest.mark.parametrize("path", trials.PATHS)
@pytest.mark.parametrize("library", IN_SUITE)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_gradients(library: str, path: str) -> None:
    module, _, least = trials.LIBRARIES[library]
    if find_spec(module) is None:
        pytest.skip(f"{module} is not installed: pip install {module}")
    found = trials.outcomes(library, path)
    assert len(found) >= least
    different = {f"{name}, {order}": text for (name, order), text in found.items()}
    assert {name: text for name, text in different.items() if text != "equal"} == {}
