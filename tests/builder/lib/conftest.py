"""Settings of the tests of `builder.lib`."""

from typing import Final

import ml_dtypes
import numpy as np
import pytest

SWEPT: Final = (
    *("f16", "bf16", "f64", np.float16, ml_dtypes.bfloat16, np.float64, np.complex128),
    *("float16", "bfloat16", "float64"),
)
"""The element types of tests that take long and rarely fail if those of f32 and c64 pass."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark tests of a function as slow that differ from another test only in the element type."""
    parameters = getattr(item, "callspec", None)
    values = parameters.params.values() if parameters is not None else ()
    if any(isinstance(value, (str, type)) and value in SWEPT for value in values):
        item.add_marker(pytest.mark.slow)
