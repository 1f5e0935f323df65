"""CHLO's broadcasting operations whose StableHLO operations have rewrites."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from jaxlib.mlir.dialects import chlo
from numpy.testing import assert_array_equal

import lowering
from lowering.legalize.elementwise import BROADCASTING
from lowering.legalize.registry import REWRITES


def test_they_are_those_with_rewrites() -> None:
    dialect = {getattr(view, "OPERATION_NAME", None) for view in vars(chlo).values()}
    names = {name for rewrite in REWRITES for name in rewrite.names}
    expected = {
        name.removeprefix("stablehlo.")
        for name in names
        if name.startswith("stablehlo.")
        and name.replace("stablehlo.", "chlo.broadcast_") in dialect
    }
    assert set(BROADCASTING) == expected


def run(operation: str, *arguments: Any) -> Any:
    """Run a program of one operation, whose operands are %a, %b, ..."""
    kinds = {"float32": "f32", "int32": "i32", "bool": "i1", "complex64": "complex<f32>"}
    parameters = []
    for name, argument in zip("abc", arguments, strict=False):
        sizes = "".join(f"{size}x" for size in argument.shape)
        parameters.append(f"%{name}: tensor<{sizes}{kinds[str(argument.dtype)]}>")
    result = operation.rpartition("-> ")[2]
    text = (
        f"func.func @main({', '.join(parameters)}) -> {result} {{\n"
        f"  %r = {operation}\n  return %r : {result}\n}}"
    )
    return np.asarray(lowering.compile(lowering.load_bytes(text), "cpu")(*arguments))


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("add", np.add),
        ("subtract", np.subtract),
        ("multiply", np.multiply),
        ("divide", np.floor_divide),
        ("maximum", np.maximum),
        ("minimum", np.minimum),
        ("power", np.power),
        ("remainder", np.remainder),
    ],
)
def test_operands_are_broadcast(name: str, function: Any) -> None:
    x, y = np.array([[11], [5]], np.int32), np.array([2, 3, 7], np.int32)
    types = "(tensor<2x1xi32>, tensor<3xi32>) -> tensor<2x3xi32>"
    assert_array_equal(run(f"chlo.broadcast_{name} %a, %b : {types}", x, y), function(x, y))
    # Along a dimension that is not the last.
    along = "{broadcast_dimensions = array<i64: 0>}"
    types = "(tensor<2x3xi32>, tensor<2xi32>) -> tensor<2x3xi32>"
    x, y = np.array([[11, 9, 8], [5, 6, 7]], np.int32), np.array([2, 3], np.int32)
    got = run(f'"chlo.broadcast_{name}"(%a, %b) {along} : {types}', x, y)
    assert_array_equal(got, function(x, y[:, None]))


def test_a_comparison() -> None:
    x, y = np.array([[1], [np.nan]], np.float32), np.array([0, 1, 2], np.float32)
    types = "(tensor<2x1xf32>, tensor<3xf32>) -> tensor<2x3xi1>"
    direction = "comparison_direction = #chlo<comparison_direction LT>"
    got = run(f'"chlo.broadcast_compare"(%a, %b) {{{direction}}} : {types}', x, y)
    assert_array_equal(got, x < y)
    square = "(tensor<2x1xf32>, tensor<2xf32>) -> tensor<2x2xi1>"
    total = f"{direction}, compare_type = #chlo<comparison_type TOTALORDER>"
    got = run(f'"chlo.broadcast_compare"(%a, %b) {{{total}}} : {square}', y[:2, None], x[:, 0])
    assert_array_equal(got, [[True, True], [False, True]])


def test_a_selection() -> None:
    p, x, y = np.array(True), np.array([[1], [2]], np.float32), np.array([5, 6, 7], np.float32)
    types = "(tensor<i1>, tensor<2x1xf32>, tensor<3xf32>) -> tensor<2x3xf32>"
    operation = f'"chlo.broadcast_select"(%a, %b, %c) : {types}'
    assert_array_equal(run(operation, p, x, y), np.where(p, x, y))
    assert_array_equal(run(operation, ~p, x, y), np.where(~p, x, y))


def test_the_larger_of_two_complex_numbers() -> None:
    """XLA compares the real parts alone, unless the operation is rewritten."""
    x, y = np.array([1 + 2j, 2], np.complex64), np.array(1 + 3j, np.complex64)
    types = "(tensor<2xcomplex<f32>>, tensor<complex<f32>>) -> tensor<2xcomplex<f32>>"
    got = run(f"chlo.broadcast_maximum %a, %b : {types}", x, y)
    assert_array_equal(got, np.array([1 + 3j, 2], np.complex64))


def test_bounded_sizes() -> None:
    kind = "tensor<?xi32, #stablehlo.bounds<4>>"
    module = lowering.load_bytes(f"""func.func @main(%x: {kind}) -> {kind} {{
      %y = stablehlo.negate %x : {kind}
      %r = chlo.broadcast_maximum %x, %y : ({kind}, {kind}) -> {kind}
      return %r : {kind}
    }}""")
    got = lowering.compile(module, "cpu")(np.array([7, 0, -2], np.int32))
    assert_array_equal(np.asarray(got), [7, 0, 2])
