"""Elementwise operations imported from StableHLO: where they are not one op here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from imported import of_text
from support import assert_identical

import lowering

NUMBERS = np.array(
    [0, 1j, -2j, 1, 1 + 3j, -1 + 3j, -1 - 1j, complex(np.inf, 2), complex(1, -np.inf)]
)


@pytest.mark.parametrize("bits", [64, 128])
@pytest.mark.parametrize(("name", "function"), [("maximum", np.maximum), ("minimum", np.minimum)])
def test_complex_numbers_are_ordered_by_both_parts(
    name: str, function: Callable[..., Any], bits: int
) -> None:
    """XLA's own operation looks at the real parts alone; StableHLO's is that of NumPy."""
    values = NUMBERS.astype(f"complex{bits}")
    x, y = (part.ravel() for part in np.meshgrid(values, values))
    kind = f"tensor<{x.size}xcomplex<f{bits // 2}>>"
    found = of_text(f"""
        func.func @main(%x: {kind}, %y: {kind}) -> {kind} {{
          %0 = stablehlo.{name} %x, %y : {kind}
          return %0 : {kind}
        }}""")
    assert_identical(np.asarray(lowering.compile(found)(x, y)), function(x, y))
