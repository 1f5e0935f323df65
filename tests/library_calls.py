"""Record a function of the library on parameters, and run it on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import builder as xb
import lowering
from lowering.legalize import legalize, linalg
from lowering.mlir.operations import call_target, operations_in


def run(function: Callable[..., Any], *arrays: Any) -> Any:
    """Return the results of `function`, called with ops for the arrays, as NumPy arrays."""
    b = xb.XlaBuilder("run")
    values = [np.asarray(array) for array in arrays]
    ops = [b.parameter(xb.array_shape(value.dtype, value.shape)) for value in values]
    result = function(*ops)
    root = xb.tuple(*result) if isinstance(result, (tuple, list)) else result
    results = lowering.compile(b.build(root), "cpu")(*values)
    return jax.tree_util.tree_map(np.asarray, results)


def run_portable(function: Callable[..., Any], *arrays: Any) -> Any:
    """Return the results of `run` with the portable algorithms instead of LAPACK."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linalg, "_ROUTINE_OF", {})
        return run(function, *arrays)


def library_targets(module: lowering.StablehloModule, platform: str) -> list[str]:
    """Return the targets of the calls in a legalized module; "composite" for each composite."""
    operation = legalize(module.module, "recorded", platform).operation
    found = operations_in(operation, ("stablehlo.custom_call", "stablehlo.composite"))
    return [call_target(one) or "composite" for one in found]
