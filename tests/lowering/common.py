"""Helpers of several test modules in this folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from support import parameter_like, run

import builder as xb

__all__ = ["aligned", "evaluate", "parameters"]


def parameters(b: xb.XlaBuilder, *arrays: np.ndarray) -> list[xb.XlaOp]:
    """Record a parameter of the shape of each array."""
    return [parameter_like(b, array) for array in arrays]


def evaluate(function: Callable[..., Any], *arguments: np.ndarray) -> Any:
    """Record `function` of a parameter for each argument, and return its results on CPU."""
    b = xb.XlaBuilder("evaluated")
    return run(b.build(function(*parameters(b, *arguments))), *arguments)


def aligned(array: np.ndarray) -> np.ndarray:
    """Copy `array` to an aligned address, which jax would share instead of copying."""
    memory = np.zeros(array.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    view = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view
