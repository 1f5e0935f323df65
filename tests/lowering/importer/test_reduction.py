"""Import of reductions, windows and sorts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from imported import imported_from_jax, of_text, returned
from jax import lax
from round_trip import same
from tables import each_row

import builder as xb
import lowering

RANDOM = np.random.default_rng(20250608)
TABLE = RANDOM.uniform(-1, 1, (6, 8)).astype(np.float32)
NUMBERS = RANDOM.integers(-9, 9, (6, 8)).astype(np.int32)

Case = tuple[Callable[..., Any], tuple[Any, ...]]

FROM_JAX: dict[str, Case] = {
    "reduce": (lambda x: jnp.sum(x, axis=0), (TABLE,)),
    "reduce all": (jnp.max, (TABLE,)),
    "reduce preds": (lambda x: jnp.any(x > 5, axis=1), (NUMBERS,)),
    "reduce two": (lambda x: jnp.argmax(x, axis=1), (TABLE,)),
    "reduce with its own words": (
        lambda x, y: lax.reduce(
            (x, y), (0.0, 0), lambda a, b: (a[0] + b[0] * 2, a[1] | b[1]), (0,)
        ),
        (TABLE, NUMBERS),
    ),
    "reduce_window": (
        lambda x: lax.reduce_window(x, -np.inf, lax.max, (2, 3), (1, 2), "SAME"),
        (TABLE,),
    ),
    "reduce_window, dilated": (
        lambda x: lax.reduce_window(
            x, 0, lax.add, (2, 3), (2, 1), ((1, 0), (0, 2)), (2, 1), (1, 2)
        ),
        (NUMBERS,),
    ),
    "cumulative": (lambda x: jnp.cumsum(x, axis=1), (NUMBERS,)),
    "sort": (lambda x: jnp.sort(x, axis=0), (TABLE,)),
    "sort two": (lambda x, y: lax.sort((x, y), dimension=1, num_keys=1), (NUMBERS, TABLE)),
    "argsort": (lambda x: jnp.argsort(x, axis=0), (TABLE,)),
    "top_k": (lambda x: lax.top_k(x, 3), (TABLE,)),
}


@pytest.mark.parametrize("name", FROM_JAX)
def test_results_agree_with_jax(name: str) -> None:
    function, arguments = FROM_JAX[name]
    imported_from_jax(function, *arguments)


def test_the_gradient_of_a_pooling() -> None:
    def pooled(x: Any) -> Any:
        return jnp.sum(lax.reduce_window(x, -np.inf, lax.max, (2, 2), (2, 2), "VALID") ** 2)

    computation = imported_from_jax(jax.grad(pooled), TABLE)
    assert "select_and_scatter" in [op.opcode for op in computation.ops]


def _map_(b: xb.XlaBuilder) -> xb.XlaOp:
    x = b.parameter(xb.f32[3, 2])
    return xb.map([x, x], lambda a, c: a * c + 1.0, [0, 1])


def _reduce_three(b: xb.XlaBuilder) -> xb.XlaOp:
    arrays = [b.parameter(f"{kind}[4,5]") for kind in ("f32", "s8", "pred")]

    def reducer(a: Any, n: Any, p: Any, c: Any, m: Any, q: Any) -> Any:
        return xb.max(a, c), n + m, xb.or_(p, q)

    inits = [b.constant(0, xb.f32), b.constant(0, xb.s8), b.constant(False)]
    return xb.reduce(arrays, inits, reducer, [1])


def _window(b: xb.XlaBuilder) -> xb.XlaOp:
    return xb.reduce_window(
        b.parameter(xb.f64[8, 9]),
        0.0,
        xb.add,
        [3, 2],
        [1, 2],
        [(1, 2), (0, -1)],
        base_dilations=[2, 1],
        window_dilations=[1, 3],
    )


def _scatter(b: xb.XlaBuilder) -> xb.XlaOp:
    x, source = b.parameter(xb.f32[8]), b.parameter(xb.f32[4])
    return xb.select_and_scatter(x, xb.ge, [2], [2], xb.Padding.VALID, source, 0.0, xb.add)


def _sort(b: xb.XlaBuilder) -> xb.XlaOp:
    x, y = b.parameter(xb.f32[8, 3]), b.parameter(xb.s32[8, 3])
    return xb.sort([x, y], dimension=0, is_stable=True)


def _second_of_two(b: xb.XlaBuilder) -> xb.XlaOp:
    return xb.top_k(b.parameter(xb.f32[8, 3]), 2)[1]


RECORDED = (_map_, _reduce_three, _window, _scatter, _sort, _second_of_two)


@each_row("record", RECORDED)
def test_round_trip(record: Callable[[xb.XlaBuilder], xb.XlaOp]) -> None:
    b = xb.XlaBuilder("program")
    returned(b.build(record(b)))


@each_row("kind", ["f32", "bf16", "f8e4m3fn", "s2", "c64"])
@each_row("largest", [True, False])
def test_round_trip_of_top_k(kind: str, largest: bool) -> None:
    """From a module, and from the composite or custom call of an artifact."""
    b = xb.XlaBuilder("program")
    values, places = xb.top_k(b.parameter(f"{kind}[3,5]"), 2, largest=largest)
    computation = b.build(xb.tuple(values, places))
    returned(computation)
    module = lowering.load_bytes(lowering.lower(computation).artifact())
    assert module.text.count("chlo.top_k" if largest else "mhlo.topk") > 0
    again = lowering.to_computation(module)
    assert same(computation, again) is None


def test_the_smallest_by_mhlo() -> None:
    computation = of_text("""
        func.func @main(%x: tensor<2x4xf32>) -> (tensor<2x2xf32>, tensor<2x2xi32>) {
          %0:2 = "mhlo.topk"(%x) {k = 2 : i64, largest = false}
            : (tensor<2x4xf32>) -> (tensor<2x2xf32>, tensor<2x2xi32>)
          return %0#0, %0#1 : tensor<2x2xf32>, tensor<2x2xi32>
        }
    """)
    x = TABLE[:2, :4]
    values, places = lowering.compile(computation)(x)
    assert np.array_equal(values, np.sort(x)[:, :2])
    assert np.array_equal(places, np.argsort(x)[:, :2])


def test_omitted_attributes() -> None:
    """Strides, dilations and padding of windows; dimension and stability of a sort."""
    computation = of_text("""
        func.func @main(%x: tensor<4x3xi32>, %i: tensor<i32>)
            -> (tensor<3x3xi32>, tensor<4x3xi32>) {
          %0 = "stablehlo.reduce_window"(%x, %i) <{window_dimensions = array<i64: 2, 1>}> ({
          ^bb0(%a: tensor<i32>, %b: tensor<i32>):
            %2 = stablehlo.add %a, %b : tensor<i32>
            stablehlo.return %2 : tensor<i32>
          }) : (tensor<4x3xi32>, tensor<i32>) -> tensor<3x3xi32>
          %1 = "stablehlo.sort"(%x) ({
          ^bb0(%a: tensor<i32>, %b: tensor<i32>):
            %2 = stablehlo.compare LT, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %2 : tensor<i1>
          }) : (tensor<4x3xi32>) -> tensor<4x3xi32>
          return %0, %1 : tensor<3x3xi32>, tensor<4x3xi32>
        }
    """)
    x = NUMBERS[:4, :3]
    windows, ordered = lowering.compile(computation)(x, np.int32(0))
    assert np.array_equal(windows, x[:-1] + x[1:])
    assert np.array_equal(ordered, np.sort(x, axis=1))


@pytest.mark.parametrize("is_reverse", [False, True])
def test_chlo_s_scan(is_reverse: bool) -> None:
    computation = of_text(f"""
        func.func @main(%x: tensor<5x2xi32>, %i: tensor<2xi32>)
            -> (tensor<5x2xi32>, tensor<2xi32>) {{
          %0:2 = "chlo.scan"(%x, %i) <{{
            dimension = 0 : i64, is_reverse = {str(is_reverse).lower()},
            operandSegmentSizes = array<i32: 1, 1>, resultSegmentSizes = array<i32: 1, 1>
          }}> ({{
          ^bb0(%a: tensor<2xi32>, %b: tensor<2xi32>):
            %1 = stablehlo.add %a, %b : tensor<2xi32>
            stablehlo.return %1, %1 : tensor<2xi32>, tensor<2xi32>
          }}) : (tensor<5x2xi32>, tensor<2xi32>) -> (tensor<5x2xi32>, tensor<2xi32>)
          return %0#0, %0#1 : tensor<5x2xi32>, tensor<2xi32>
        }}
    """)
    x, start = NUMBERS[:5, :2], np.int32([3, 4])
    sums, last = lowering.compile(computation)(x, start)
    expected = np.cumsum(x[::-1] if is_reverse else x, axis=0) + start
    assert np.array_equal(sums, expected[::-1] if is_reverse else expected)
    assert np.array_equal(last, expected[-1])


def test_a_reducer_with_a_captured_value() -> None:
    with pytest.raises(lowering.LoweringError, match=r"stablehlo\.reduce.*from outside"):
        of_text("""
            func.func @main(%x: tensor<4xf32>, %i: tensor<f32>) -> tensor<f32> {
              %0 = "stablehlo.reduce"(%x, %i) <{dimensions = array<i64: 0>}> ({
              ^bb0(%a: tensor<f32>, %b: tensor<f32>):
                %1 = stablehlo.add %a, %i : tensor<f32>
                stablehlo.return %1 : tensor<f32>
              }) : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
              return %0 : tensor<f32>
            }
        """)


REDUCER = """^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %1 = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %1 : tensor<f32>"""
REDUCE_WINDOW = f"""
    func.func @main(%x: tensor<3x4xf32>, %init: tensor<f32>) -> tensor<3x4xf32> {{
      %0 = "stablehlo.reduce_window"(%x, %init) ({{
        {REDUCER}
      }}) {{ATTRIBUTES}} : (tensor<3x4xf32>, tensor<f32>) -> tensor<3x4xf32>
      return %0 : tensor<3x4xf32>
    }}"""
SELECT_AND_SCATTER = f"""
    func.func @main(%x: tensor<3x4xf32>, %init: tensor<f32>) -> tensor<3x4xf32> {{
      %0 = "stablehlo.select_and_scatter"(%x, %x, %init) ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %1 = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %1 : tensor<i1>
      }}, {{
        {REDUCER}
      }}) {{ATTRIBUTES}} : (tensor<3x4xf32>, tensor<3x4xf32>, tensor<f32>) -> tensor<3x4xf32>
      return %0 : tensor<3x4xf32>
    }}"""
SIZES = "window_dimensions = array<i64: 1, 1>"
STRIDES = "window_strides = array<i64: 1, 1>"
PADDING = "padding = dense<0> : tensor<2x2xi64>"


@each_row(
    "text, attributes",
    [
        (REDUCE_WINDOW, [SIZES]),
        (REDUCE_WINDOW, [SIZES, STRIDES]),
        (REDUCE_WINDOW, [SIZES, PADDING]),
        (SELECT_AND_SCATTER, [SIZES]),
        (SELECT_AND_SCATTER, [SIZES, PADDING]),
    ],
)
def test_attributes_of_windows_may_be_absent(text: str, attributes: list[str]) -> None:
    short, full = (
        of_text(text.replace("ATTRIBUTES", ", ".join(written)))
        for written in (attributes, [SIZES, STRIDES, PADDING])
    )
    assert same(short, full) is None
    assert short.root.attributes["window_strides"] == (1, 1)
    assert short.root.attributes["padding"] == ((0, 0), (0, 0))


def test_the_window_of_a_scalar_may_be_absent() -> None:
    """It has no dimensions. That of another array may not: StableHLO's verifier refuses it."""
    text = SELECT_AND_SCATTER.replace("ATTRIBUTES", "").replace("3x4x", "")
    attributes = of_text(text).root.attributes
    assert attributes["window_dimensions"] == attributes["window_strides"] == ()
    assert attributes["padding"] == ()
    with pytest.raises(lowering.ModuleFileError, match="window-dimensions size == operand rank"):
        of_text(SELECT_AND_SCATTER.replace("ATTRIBUTES", ""))


def test_scans_of_hlo_without_inputs_or_without_outputs() -> None:
    b = xb.XlaBuilder("scans")
    x, start = b.parameter(xb.s32[2], "x"), b.parameter(xb.s32[3], "start")
    root = xb.tuple(
        xb.scan([], start, lambda c: (c, c * 2), 1, 4),
        xb.scan(x, start, lambda e, c: xb.tuple(c + e), 0),
        xb.scan([], start, lambda c: c * 3, 0, 4),
    )
    computation = lowering.from_hlo(b.build(root).to_hlo_text())
    arguments = np.int32([1, 2]), np.int32([1, 2, 3])
    (powers, last), (total,), (third,) = lowering.compile(computation)(*arguments)
    assert powers.tolist() == [[1, 2, 4, 8], [2, 4, 8, 16], [3, 6, 12, 24]]
    assert (last.tolist(), total.tolist()) == ([16, 32, 48], [4, 5, 6])
    assert third.tolist() == [81, 162, 243]
