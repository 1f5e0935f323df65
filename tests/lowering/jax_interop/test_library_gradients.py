"""Gradients of functions of jax, optax, equinox and flax equal those of `jax.grad`, in f64.

Each derivative is computed by one of the two ways. `library_gradients.py` runs all derivatives in
both ways, and those of other libraries.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest
from scripts import load_script

pytestmark = pytest.mark.slow

trials: Any = load_script("tests/lowering/jax_interop/library_gradients.py")

IN_SUITE = ("jax linalg", "jax numpy", "jax control", "optax", "equinox", "flax")


@pytest.mark.parametrize("library", IN_SUITE)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_gradients(library: str) -> None:
    module, _, least = trials.LIBRARIES[library]
    if find_spec(module) is None:
        pytest.skip(f"{module} is not installed: pip install {module}")
    found = {
        (path, *key): text
        for half, path in enumerate(trials.PATHS)
        for key, text in trials.outcomes(library, path, half=half).items()
    }
    assert len(found) >= least
    assert {key: text for key, text in found.items() if text != "equal"} == {}
