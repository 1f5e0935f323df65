"""Gradients of functions of jax, optax and equinox equal those of `jax.grad`, in f64.

`library_gradients.py` has hundreds of derivatives. Those here execute each line of `builder` and
`lowering` that all of them execute; they were chosen by the lines that each executes.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest
from scripts import load_script

pytestmark = pytest.mark.slow

trials: Any = load_script("tests/lowering/jax_interop/library_gradients.py")

CHOSEN = {
    ("jax linalg", "first"): ("cholesky", "eigvals", "eigh", "cg", "svdvals", "qr"),
    ("jax linalg", "second"): ("cholesky",),
    ("jax linalg", "vmap"): ("solve",),
    ("jax numpy", "first"): (
        *("detrend", "max_pool", "gammaln", "fft", "welch", "top_k", "cummax", "expi", "interp"),
        *("truncnorm.logpdf", "hyp1f1", "sort by two keys", "median", "gelu, silu, relu, elu"),
        *("attention", "random.dirichlet"),
    ),
    ("jax numpy", "second"): ("sort",),
    ("jax control", "first"): (
        *("custom_vjp, map", "custom_vjp, switch", "linear_transpose", "optimization_barrier"),
        *("dynamic_update_slice", "dynamic_slice", "scan in reverse"),
    ),
    ("jax control", "second"): ("scan in scan",),
    ("jax control", "vmap"): ("straight-through",),
    ("equinox", "first"): ("ConvTranspose2d", "Dropout", "AvgPool2d", "RMSNorm", "GRUCell"),
    ("optax", "first"): ("triplet_margin_loss", "lion", "multiclass_hinge_loss"),
}
"""Names of the cases, by their library and the derivative."""

ONLY_APPLIED = {
    *("detrend", "max_pool", "fft", "welch", "cummax", "expi", "interp", "truncnorm.logpdf"),
    *("median", "sort by two keys", "random.dirichlet", "Dropout", "AvgPool2d", "RMSNorm"),
    *("triplet_margin_loss", "multiclass_hinge_loss"),
}
"""Cases that only `apply` runs, because `from_jax` imports the same programs."""


@pytest.mark.parametrize("path", trials.PATHS)
@pytest.mark.parametrize("library", dict.fromkeys(library for library, _ in CHOSEN))
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_gradients(library: str, path: str) -> None:
    module = trials.LIBRARIES[library].module
    if find_spec(module) is None:
        pytest.skip(f"{module} is not installed: pip install {module}")
    keys = [(n, order) for (lib, order), names in CHOSEN.items() if lib == library for n in names]
    left_out = ONLY_APPLIED if path == "from_jax" else set()
    found = trials.outcomes(library, path, chosen=tuple(keys), left_out=left_out)
    assert found == {key: "equal" for key in keys if key[0] not in left_out}
