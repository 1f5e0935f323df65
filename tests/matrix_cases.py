"""Matrices for the tests of decompositions."""

from __future__ import annotations

from typing import Any

import numpy as np


def matrices(sizes: tuple[int, ...], dtype: Any = np.float32) -> Any:
    """Return random matrices; their imaginary parts are random too."""
    random = np.random.default_rng(list(sizes))
    values = random.standard_normal(sizes)
    if np.issubdtype(dtype, np.complexfloating):
        values = values + 1j * random.standard_normal(sizes)
    return values.astype(dtype)


def each(*arrays: Any) -> Any:
    """Yield corresponding matrices and vectors of batches; all have the same batch sizes."""
    batch = arrays[0].shape[:-2]
    return (tuple(array[index] for array in arrays) for index in np.ndindex(batch))


def adjoint(a: Any) -> Any:
    return np.swapaxes(a.conj(), -1, -2)


def rounding_unit(dtype: Any) -> float:
    """Return the relative rounding error of an operation, with a margin for complex numbers."""
    return float(np.finfo(dtype).eps) * (2 if np.issubdtype(dtype, np.complexfloating) else 1)
