"""Import of elementwise operations that are several ops, or composites."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from imported import of_text
from round_trip import same
from support import assert_identical
from tables import each_row

import builder as xb
import lowering

NUMBERS = np.array(
    [0, 1j, -2j, 1, 1 + 3j, -1 + 3j, -1 - 1j, complex(np.inf, 2), complex(1, -np.inf)]
)


@each_row("bits", [64, 128])
@each_row("name, function", [("maximum", np.maximum), ("minimum", np.minimum)])
def test_complex_numbers_are_ordered_by_both_parts(
    name: str, function: Callable[..., Any], bits: int
) -> None:
    """XLA compares only the real parts; StableHLO compares as NumPy does."""
    values = NUMBERS.astype(f"complex{bits}")
    x, y = (part.ravel() for part in np.meshgrid(values, values))
    kind = f"tensor<{x.size}xcomplex<f{bits // 2}>>"
    computation = of_text(f"""
        func.func @main(%x: {kind}, %y: {kind}) -> {kind} {{
          %0 = stablehlo.{name} %x, %y : {kind}
          return %0 : {kind}
        }}""")
    assert_identical(np.asarray(lowering.compile(computation)(x, y)), function(x, y))


@each_row("name", ["acos", "acosh", "asin", "asinh", "atanh", "cosh", "erf", "mulhi", "sinh"])
def test_functions_of_an_artifact_are_ops(name: str) -> None:
    """A portable artifact has composites with decompositions."""
    b = xb.XlaBuilder("program")
    x = b.parameter("s32[3]" if name == "mulhi" else "f32[3]", "x")
    op = getattr(xb, name)
    computation = b.build(op(x, x) if name == "mulhi" else op(x))
    module = lowering.load_bytes(lowering.lower(computation).artifact())
    assert f'stablehlo.composite "chlo.{name}"' in module.text
    assert same(computation, lowering.to_computation(module)) is None


def test_a_composite_with_other_attributes_is_preserved() -> None:
    computation = of_text("""
        func.func private @f(%x: tensor<3xf32>) -> tensor<3xf32> {
          return %x : tensor<3xf32>
        }
        func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
          %0 = stablehlo.composite "chlo.acos" %x {
            composite_attributes = {steps = 2 : i64}, decomposition = @f
          } : (tensor<3xf32>) -> tensor<3xf32>
          return %0 : tensor<3xf32>
        }
    """)
    assert computation.ops[-1].opcode == "composite", computation
