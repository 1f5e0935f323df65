"""Record a function of the library on parameters, and run it on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import builder as xb
import lowering


def run(function: Callable[..., Any], *arrays: Any) -> Any:
    """Return the results of `function`, called with ops for the arrays, as NumPy arrays."""
    b = xb.XlaBuilder("run")
    values = [np.asarray(array) for array in arrays]
    ops = [b.parameter(xb.array_shape(value.dtype, value.shape)) for value in values]
    result = function(*ops)
    root = xb.tuple(*result) if isinstance(result, (tuple, list)) else result
    results = lowering.compile(b.build(root), "cpu")(*values)
    return jax.tree_util.tree_map(np.asarray, results)
