"""Import of CHLO operations without an op of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
import scipy.special
from imported import results_and_jax_results
from jax import lax
from jaxlib.mlir.dialects import chlo
from support import assert_identical, assert_same_bits, compiled_once
from tables import mostly_slow

import builder as xb
import lowering
from lowering import LoweringError
from lowering.ops.registry import DECOMPOSITIONS, IMPORTERS

FLOAT_TYPES = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
}
FLOATS = (np.float32, ml_dtypes.bfloat16, np.float16)

UNARY: dict[str, Callable[[Any], Any]] = {
    "bessel_i1e": lax.bessel_i1e,
    "digamma": lax.digamma,
    "erf_inv": lax.erf_inv,
    "erfc": lax.erfc,
    "lgamma": lax.lgamma,
    "square": lax.square,
}

VALUES = np.array(
    [0.25, 1.0, 2.5, 7.0, 19.5, 0.0, -0.0, -0.25, -0.75, -1.0, -2.5, 1e-3, np.inf, -np.inf, np.nan]
)


def text(name: str, *types: str, result: str | None = None, attributes: str = "") -> str:
    """Return a module whose @main is one operation of CHLO."""
    takes = ", ".join(types)
    gives = types[0] if result is None else result
    arguments = ", ".join(f"%{number}: {kind}" for number, kind in enumerate(types))
    values = ", ".join(f"%{number}" for number, _ in enumerate(types))
    return f"""
        func.func @main({arguments}) -> {gives} {{
          %r = "chlo.{name}"({values}) {attributes} : ({takes}) -> {gives}
          return %r : {gives}
        }}"""


def imported(source: str) -> xb.XlaComputation:
    return lowering.to_computation(lowering.load_bytes(source))


def run(computation: xb.XlaComputation, *arguments: Any) -> np.ndarray[Any, Any]:
    return np.asarray(lowering.compile(computation)(*arguments))


def compiled(source: str, *arguments: Any) -> np.ndarray[Any, Any]:
    """Return the result of a module that is compiled without being imported."""
    return np.asarray(lowering.compile(lowering.load_bytes(source))(*arguments))


@pytest.mark.parametrize("name", mostly_slow(UNARY, 3))
def test_unary_functions_agree_with_jax(name: str) -> None:
    arrays = [VALUES.astype(dtype) for dtype in FLOATS]
    lowered = jax.jit(lambda *xs: [UNARY[name](x) for x in xs]).lower(*arrays)
    computation = imported(lowered.as_text())
    actual, expected = results_and_jax_results(computation, lowered, arrays)
    for mine, theirs in zip(actual, expected, strict=True):
        assert_identical(np.asarray(mine), np.asarray(theirs))


@pytest.mark.slow
@pytest.mark.parametrize("name", UNARY)
def test_unary_functions_agree_with_xla(name: str) -> None:
    """One program has the function of each element type."""
    arrays = [VALUES.astype(dtype) for dtype in FLOAT_TYPES.values()]
    types = [f"tensor<15x{kind}>" for kind in FLOAT_TYPES]
    arguments = ", ".join(f"%{kind}: {t}" for kind, t in zip(FLOAT_TYPES, types, strict=True))
    calls = [
        f"%r_{kind} = chlo.{name} %{kind} : {t} -> {t}"
        for kind, t in zip(FLOAT_TYPES, types, strict=True)
    ]
    results = ", ".join(f"%r_{kind}" for kind in FLOAT_TYPES)
    source = f"""
        func.func @main({arguments}) -> ({", ".join(types)}) {{
          {" ".join(calls)}
          return {results} : {", ".join(types)}
        }}"""
    with compiled_once():
        programs = imported(source), lowering.load_bytes(source)
        mine, theirs = (lowering.compile(program)(*arrays) for program in programs)
    for kind, one, other in zip(FLOAT_TYPES, mine, theirs, strict=True):
        # With jaxlib 0.10 log1p of f64 is rewritten, and the sign of its NaN is another one.
        same = assert_same_bits if (name, kind) == ("erf_inv", "f64") else assert_identical
        same(np.asarray(one), np.asarray(other))


X = np.array([1, 2, 3, 1.5, 2, 0, 4], np.float32)
Y = np.array([2, 0.5, 3, 7, -1.5, 1, np.nan], np.float32)
OF_TWO: dict[str, Callable[..., Any]] = {
    "next_after": lax.nextafter,
    "polygamma": lax.polygamma,
    "zeta": lax.zeta,
}


@pytest.mark.parametrize("name", mostly_slow(OF_TWO, 2))
def test_binary_functions_agree_with_jax(name: str) -> None:
    lowered = jax.jit(OF_TWO[name]).lower(X, Y)
    (actual,), (expected,) = results_and_jax_results(imported(lowered.as_text()), lowered, [X, Y])
    assert_identical(np.asarray(actual), np.asarray(expected))


@pytest.mark.parametrize("name", mostly_slow(OF_TWO, 2))
def test_binary_functions_agree_with_xla(name: str) -> None:
    for prefix in ("", "broadcast_"):
        source = text(prefix + name, "tensor<7xf32>", "tensor<7xf32>")
        with compiled_once():
            assert_identical(run(imported(source), X, Y), compiled(source, X, Y))


def test_equal_operations_call_one_computation() -> None:
    source = """
        func.func @main(%x: tensor<3xf32>, %y: tensor<5xf32>) -> (tensor<3xf32>, tensor<5xf32>) {
          %0 = chlo.digamma %x : tensor<3xf32> -> tensor<3xf32>
          %1 = chlo.digamma %0 : tensor<3xf32> -> tensor<3xf32>
          %2 = chlo.digamma %y : tensor<5xf32> -> tensor<5xf32>
          return %1, %2 : tensor<3xf32>, tensor<5xf32>
        }"""
    calls = [op for op in imported(source).ops if op.opcode == "call"]
    called = [op.attributes["to_apply"] for op in calls]
    assert [one.name for one in called] == ["digamma"] * 3
    assert called[0] is called[1]
    assert [str(one.program_shape.result) for one in called] == ["f32[3]", "f32[3]", "f32[5]"]


def test_a_call_has_the_source_line_and_sharding() -> None:
    source = """
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %r = chlo.lgamma %x {mhlo.sharding = "{replicated}"} : tensor<4xf32> -> tensor<4xf32>
               loc("model.py":7:3)
          return %r : tensor<4xf32>
        }"""
    (call,) = [op for op in imported(source).ops if op.opcode == "call"]
    assert str(call.source).startswith("model.py:7")
    assert str(call.sharding) == "{replicated}"
    assert all(op.source is None for op in call.attributes["to_apply"].ops)


INFINITE = {
    "is_inf": np.isinf,
    "is_neg_inf": np.isneginf,
    "is_pos_inf": np.isposinf,
}


@pytest.mark.parametrize("dtype", FLOATS[:1] + FLOATS[2:], ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("name", INFINITE)
def test_is_inf(name: str, dtype: Any) -> None:
    x = VALUES.astype(dtype)
    kind = {np.float32: "f32", np.float16: "f16"}[dtype]
    source = text(name, f"tensor<15x{kind}>", result="tensor<15xi1>")
    assert_identical(run(imported(source), x), INFINITE[name](x))


def test_conj() -> None:
    z = np.array([1 + 2j, -0.5j, complex(np.inf, -1)], np.complex64)
    assert_identical(run(imported(text("conj", "tensor<3xcomplex<f32>>")), z), np.conj(z))


def test_atan_of_complex_numbers() -> None:
    z = np.array([0.5 + 0.25j, 1e3 - 2j, -3 + 1e-4j, np.inf], np.complex64)
    source = text("atan", "tensor<4xcomplex<f32>>")
    got = run(imported(source), z)
    np.testing.assert_allclose(got, np.arctan(z.astype(np.complex128)), rtol=1e-6, atol=1e-12)


def test_atan_of_real_numbers() -> None:
    x = np.array([0.0, -0.0, 1.0, -3.0, 1e30, np.inf, np.nan], np.float32)
    computation = imported(text("atan", "tensor<7xf32>"))
    np.testing.assert_allclose(run(computation, x), np.arctan(x), rtol=1e-6)
    assert "call" not in {op.opcode for op in computation.ops}


def test_constants() -> None:
    source = """
        func.func @main(%x: tensor<2x3xi16>) -> (tensor<2xf64>, tensor<2x3xi16>) {
          %0 = chlo.constant dense<[1.5, -2.0]> : tensor<2xf64>
          %1 = "chlo.constant_like"(%x) {value = 7 : i16} : (tensor<2x3xi16>) -> tensor<2x3xi16>
          return %0, %1 : tensor<2xf64>, tensor<2x3xi16>
        }"""
    x = np.zeros((2, 3), np.int16)
    first, second = lowering.compile(imported(source))(x)
    assert_identical(np.asarray(first), np.array([1.5, -2.0]))
    assert_identical(np.asarray(second), np.full((2, 3), 7, np.int16))


def test_a_complex_constant_like_another() -> None:
    kind = "tensor<2xcomplex<f32>>"
    value = "#complex.number<:f32 1.0, -2.0> : complex<f32>"
    source = text("constant_like", kind, attributes=f"{{value = {value}}}")
    got = run(imported(source), np.zeros(2, np.complex64))
    assert_identical(got, np.full(2, 1 - 2j, np.complex64))


BROADCASTING: dict[str, tuple[Callable[..., Any], Any]] = {
    "broadcast_add": (np.add, np.float32),
    "broadcast_subtract": (np.subtract, np.float32),
    "broadcast_multiply": (np.multiply, np.float32),
    "broadcast_divide": (np.floor_divide, np.int32),
    "broadcast_maximum": (np.maximum, np.float32),
    "broadcast_minimum": (np.minimum, np.float32),
    "broadcast_and": (np.bitwise_and, np.int32),
    "broadcast_or": (np.bitwise_or, np.int32),
    "broadcast_xor": (np.bitwise_xor, np.int32),
    "broadcast_shift_left": (np.left_shift, np.int32),
    "broadcast_shift_right_arithmetic": (np.right_shift, np.int32),
    "broadcast_remainder": (np.fmod, np.int32),
}


@pytest.mark.parametrize("name", BROADCASTING)
def test_operands_are_broadcast_as_in_numpy(name: str) -> None:
    function, dtype = BROADCASTING[name]
    x = np.array([[1], [5]], dtype)
    y = np.array([2, 3, 7], dtype)
    kind = "f32" if dtype is np.float32 else "i32"
    source = text(name, f"tensor<2x1x{kind}>", f"tensor<3x{kind}>", result=f"tensor<2x3x{kind}>")
    assert_identical(run(imported(source), x, y), function(x, y).astype(dtype))


def test_operands_are_broadcast_along_given_dimensions() -> None:
    source = text(
        "broadcast_add",
        "tensor<2xf32>",
        "tensor<2x3xf32>",
        result="tensor<2x3xf32>",
        attributes="{broadcast_dimensions = array<i64: 0>}",
    )
    x, y = np.array([10, 20], np.float32), np.arange(6, dtype=np.float32).reshape(2, 3)
    assert_identical(run(imported(source), x, y), x[:, None] + y)


def test_broadcast_compare() -> None:
    attributes = "{comparison_direction = #chlo<comparison_direction LT>}"
    kinds = ("tensor<3x1xi32>", "tensor<2xi32>")
    source = text("broadcast_compare", *kinds, result="tensor<3x2xi1>", attributes=attributes)
    x, y = np.array([[1], [2], [3]], np.int32), np.array([2, 3], np.int32)
    assert_identical(run(imported(source), x, y), x < y)


def test_broadcast_compare_in_total_order() -> None:
    attributes = (
        "{comparison_direction = #chlo<comparison_direction LT>, "
        "compare_type = #chlo<comparison_type TOTALORDER>}"
    )
    kinds = ("tensor<2xf32>", "tensor<f32>")
    source = text("broadcast_compare", *kinds, result="tensor<2xi1>", attributes=attributes)
    x, y = np.array([-0.0, 0.0], np.float32), np.float32(0)
    assert_identical(run(imported(source), x, y), np.array([True, False]))


def test_broadcast_select() -> None:
    x, y = np.array([[1], [2]], np.float32), np.array([5, 6, 7], np.float32)
    for pred, kind in (
        (np.True_, "i1"),
        (np.False_, "i1"),
        (np.array([True, False, True]), "3xi1"),
    ):
        kinds = (f"tensor<{kind}>", "tensor<2x1xf32>", "tensor<3xf32>")
        source = text("broadcast_select", *kinds, result="tensor<2x3xf32>")
        assert_identical(run(imported(source), pred, x, y), np.where(pred, x, y))


def test_the_error_names_an_unsupported_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(scope: object, operation: object, operands: object) -> xb.XlaOp:
        raise LoweringError("there is no power")

    monkeypatch.setitem(IMPORTERS, "stablehlo.power", refused)
    source = text("zeta", "tensor<2xf32>", "tensor<2xf32>")
    with pytest.raises(
        LoweringError,
        match=r"chlo\.zeta, recorded at -:3: in the operation's decomposition: there is no power",
    ):
        imported(source)


def test_unbounded_sizes() -> None:
    """A decomposition for any size is compiled for one."""
    program = imported(text("zeta", "tensor<?xf32>", "tensor<?xf32>"))
    x, q = np.array([2, 3.5], np.float32), np.array([1, 2], np.float32)
    result = lowering.compile(program, argument_shapes=["f32[2]", "f32[2]"])(x, q)
    np.testing.assert_allclose(np.asarray(result), scipy.special.zeta(x, q), rtol=1e-6)
    source = text("constant_like", "tensor<?x2xf32>", attributes="{value = 1.5 : f32}")
    program = imported(source)
    assert str(program.program_shape.result) == "f32[?,2]"
    result = lowering.compile(program, argument_shapes=["f32[3,2]"])(np.zeros((3, 2), np.float32))
    assert_identical(np.asarray(result), np.full((3, 2), 1.5, np.float32))


def test_importers_are_of_operations_of_the_dialect() -> None:
    dialect = {getattr(view, "OPERATION_NAME", None) for view in vars(chlo).values()}
    broadcasting = {name for name in dialect if name and name.startswith("chlo.broadcast_")}
    names = {name for name in (*IMPORTERS, *DECOMPOSITIONS) if name.startswith("chlo.")}
    assert len(broadcasting) > 15
    assert {name for name in names if name.startswith("chlo.broadcast_")} == broadcasting
    assert names <= dialect
