"""Values that may differ along the axes of jax.shard_map.

jax infers along which axes a value may differ, and requires that branches and the steps of a loop
agree. A constant differs along none, so it is converted where another value may differ.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
from jax import lax

from lowering.jax_interop.registry import Value
from lowering.jaxlib_api.jax_arrays import varying_axes


def axes_of(values: Value) -> frozenset[Any]:
    """Return the axes along which any of some nested values may differ."""
    return frozenset().union(*map(varying_axes, jax.tree_util.tree_leaves(values)))


def varying(values: Value, axes: frozenset[Any]) -> Value:
    """Mark nested values as values that may differ along `axes`."""
    if not axes:
        return values
    return jax.tree_util.tree_map(partial(_cast, axes=axes), values)


def alike(values: Value) -> Value:
    """Mark nested values as values that may differ along the same axes."""
    return varying(values, axes_of(values))


def _cast(leaf: Value, axes: frozenset[Any]) -> Value:
    missing = tuple(axes - varying_axes(leaf))
    return lax.pcast(leaf, missing, to="varying") if missing else leaf
