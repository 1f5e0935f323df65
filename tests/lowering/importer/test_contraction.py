"""Import of dot products and convolutions."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from imported import imported_from_jax, of_text, returned
from jax import lax
from support import assert_identical, summable
from tables import each_row

import builder as xb
import lowering
from builder.ops.contraction.dot_product import ALGORITHM_TYPES, is_promotable
from builder.types.primitive_type import ALL, PrimitiveType
from lowering import LoweringError, ModuleFileError
from lowering.jaxlib_api import hlo_conversion
from lowering.mlir import types

RANDOM = np.random.default_rng(20250610)
A = RANDOM.normal(size=(4, 3)).astype(np.float32)
B = RANDOM.normal(size=(3, 5)).astype(np.float32)
STACKS = RANDOM.normal(size=(2, 4, 3)).astype(np.float32)
IMAGES = RANDOM.normal(size=(4, 8, 7, 6)).astype(np.float32)
KERNEL = RANDOM.normal(size=(3, 2, 6, 4)).astype(np.float32)
NHWC = ("NHWC", "HWIO", "NHWC")


def convolve(x: Any, kernel: Any, strides: Any = (1, 1), padding: Any = "SAME", **more: Any) -> Any:
    return lax.conv_general_dilated(x, kernel, strides, padding, dimension_numbers=NHWC, **more)


FROM_JAX: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "matrices": (lambda a, b: a @ b, (A, B)),
    "matrices, exactly": (lambda a, b: jnp.dot(a, b, precision="highest"), (A, B)),
    "two precisions": (lambda a, b: jnp.dot(a, b, precision=("high", "default")), (A, B)),
    "vectors": (lambda a, b: a[0] @ b[:, 0], (A, B)),
    "outer product": (lambda a, b: jnp.outer(a[0], b[0]), (A, B)),
    "batches": (lambda a, b: jnp.einsum("bij,bkj->bik", a, b), (STACKS, STACKS)),
    "batches in the middle": (
        lambda a, b: jnp.einsum("bij,kbj->bik", a, b),
        (STACKS, STACKS[:, :2]),
    ),
    "several contracting": (lambda a, b: jnp.tensordot(a, b, ((1, 2), (1, 2))), (STACKS, STACKS)),
    "bytes, summed wide": (
        lambda a: lax.dot(a, a.T, preferred_element_type=np.int32),
        (RANDOM.integers(-128, 128, (4, 5)).astype(np.int8),),
    ),
    "convolution": (convolve, (IMAGES, KERNEL)),
    "convolution with strides": (
        lambda x, kernel: convolve(x, kernel, (2, 3), [(1, 2), (-1, 0)]),
        (IMAGES, KERNEL),
    ),
    "convolution, dilated": (
        lambda x, kernel: convolve(x, kernel, padding="VALID", rhs_dilation=(2, 3)),
        (IMAGES, KERNEL),
    ),
    "convolution, transposed": (
        lambda x, kernel: lax.conv_transpose(x, kernel, (2, 2), "SAME"),
        (IMAGES, KERNEL),
    ),
    "convolution by groups": (
        lambda x, kernel: convolve(x, kernel[:, :, :3], feature_group_count=2),
        (IMAGES, KERNEL),
    ),
    "convolution by groups of a batch": (
        lambda x, kernel: convolve(x, kernel, batch_group_count=2, precision="highest"),
        (IMAGES, KERNEL),
    ),
}


@each_row("name", FROM_JAX)
def test_results_agree_with_jax(name: str) -> None:
    function, arguments = FROM_JAX[name]
    imported_from_jax(function, *arguments)


def test_precisions_are_preserved() -> None:
    function, arguments = FROM_JAX["two precisions"]
    precision = imported_from_jax(function, *arguments).root.attributes["precision"]
    assert precision == (xb.Precision.HIGH, xb.Precision.DEFAULT)


WHOLE = [t for t in ALL if t.bits >= 8 or t is xb.pred]


@each_row("element_type", WHOLE)
def test_round_trip_of_every_type(element_type: PrimitiveType) -> None:
    b = xb.XlaBuilder("products")
    x, y = (b.parameter(xb.array_shape(element_type, [2, 3, 4]), name) for name in "xy")
    kernel = b.parameter(xb.array_shape(element_type, [4, 3, 1]), "kernel")
    results = [
        xb.dot_general(x, y, (([2], [2]), ([0], [0]))),
        xb.dot_general(x, y, (([2, 0], [2, 0]), ([], [])), precision=("HIGH", "HIGHEST")),
        xb.conv(x, kernel, [1], xb.Padding.VALID),
    ]
    returned(b.build(xb.tuple(*results)))


WIDER = {
    (t, wide)
    for t, wide in itertools.product(WHOLE, WHOLE)
    if t.kind is wide.kind and t.bits < wide.bits and not t.is_floating
} | {(xb.bf16, xb.f32), (xb.f16, xb.f64), (xb.f8e5m2, xb.f16), (xb.f32, xb.f64)}


@each_row("wide", sorted(WIDER, key=str))
def test_the_result_type_is_preserved(wide: tuple[PrimitiveType, PrimitiveType]) -> None:
    element_type, result = wide
    b = xb.XlaBuilder("wide")
    x = b.parameter(xb.array_shape(element_type, [3, 3, 3]), "x")
    numbers = (([2], [2]), ([0], [0]))
    results = [
        xb.dot_general(x, x, numbers, preferred_element_type=result),
        xb.conv(x, x, [1], xb.Padding.SAME, preferred_element_type=result),
    ]
    returned(b.build(xb.tuple(*results)))


@each_row("algorithm", xb.DotAlgorithm)
def test_round_trip_of_algorithms(algorithm: xb.DotAlgorithm) -> None:
    for operands, results in ALGORITHM_TYPES[algorithm]:
        for element_type, result in itertools.product(operands, results):
            if not is_promotable(element_type, result):
                continue
            b = xb.XlaBuilder("algorithm")
            x = b.parameter(xb.array_shape(element_type, [3, 3]), "x")
            numbers = (([1], [0]), ([], []))
            options = {"preferred_element_type": result, "algorithm": algorithm}
            returned(b.build(xb.dot_general(x, x, numbers, **options)))


def with_algorithm(kind: str, products: int = 1, rhs: str = "f8E4M3FN") -> str:
    return f"""
      func.func @main(%x: tensor<3x3xf8E4M3FN>, %y: tensor<3x3x{rhs}>) -> tensor<3x3xf32> {{
        %0 = "stablehlo.dot_general"(%x, %y) {{
            dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1],
              rhs_contracting_dimensions = [0]>,
            algorithm = #stablehlo.dot_algorithm<lhs_precision_type = {kind},
              rhs_precision_type = {kind}, accumulation_type = f32, lhs_component_count = 1,
              rhs_component_count = 1, num_primitive_operations = {products},
              allow_imprecise_accumulation = false>}}
          : (tensor<3x3xf8E4M3FN>, tensor<3x3x{rhs}>) -> tensor<3x3xf32>
        return %0 : tensor<3x3xf32>
      }}"""


@each_row("kind", ["f8E4M3FN", "f8E5M2", "f8E4M3B11FNUZ"])
def test_algorithms_for_any_8_bit_type_get_a_specific_one(kind: str) -> None:
    computation = of_text(with_algorithm(kind)).root.attributes["algorithm"]
    assert computation is xb.DotAlgorithm.DOT_ANY_F8_ANY_F8_F32


def test_unsupported_algorithms_are_refused() -> None:
    # Newer versions of StableHLO support this one; older ones do not.
    with pytest.raises((LoweringError, ModuleFileError), match="algorithm"):
        of_text(with_algorithm("f8E4M3FN", products=3))


def test_algorithms_with_different_operand_types_are_refused() -> None:
    with pytest.raises(LoweringError, match="dot_general: operands must have one element type"):
        of_text(with_algorithm("f8E4M3FN", rhs="f8E5M2"))


def product_of(lhs: PrimitiveType, rhs: PrimitiveType, result: PrimitiveType) -> str:
    left, right, wide = map(types.element_type_text, (lhs, rhs, result))
    return f"""
      func.func @main(%x: tensor<4x3x{left}>, %y: tensor<3x5x{right}>) -> tensor<4x5x{wide}> {{
        %0 = stablehlo.dot %x, %y
          : (tensor<4x3x{left}>, tensor<3x5x{right}>) -> tensor<4x5x{wide}>
        return %0 : tensor<4x5x{wide}>
      }}"""


UNLIKE = [
    (xb.f8e4m3fn, xb.f8e5m2, xb.f32),
    (xb.bf16, xb.f32, xb.f32),
    (xb.f32, xb.s8, xb.f32),
    (xb.s8, xb.u8, xb.s32),
    (xb.s8, xb.s8, xb.f32),
    (xb.u16, xb.u8, xb.f32),
    (xb.f32, xb.c64, xb.c64),
    (xb.u8, xb.bf16, xb.bf16),
]


@each_row("kinds", UNLIKE)
def test_operands_of_different_types_are_converted(
    kinds: tuple[PrimitiveType, PrimitiveType, PrimitiveType],
) -> None:
    lhs, rhs, result = kinds
    random = np.random.default_rng(3)
    x, y = summable(random, lhs, (4, 3)), summable(random, rhs, (3, 5))
    actual = np.asarray(lowering.compile(of_text(product_of(*kinds)))(x, y))
    exact = x.astype(np.complex128) @ y.astype(np.complex128)
    with np.errstate(all="ignore"):
        expected = (exact if result.is_complex else exact.real).astype(result.dtype)
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual, expected)  # the sign of a zero is not specified


@each_row(
    "kinds, message",
    [
        ((xb.f32, xb.f32, xb.bf16), "preferred_element_type must be"),
        ((xb.s32, xb.s32, xb.f32), "preferred_element_type must be"),
        ((xb.f16, xb.bf16, xb.f16), "operands must have one element type"),
    ],
)
def test_conversions_that_lose_precision_are_refused(
    kinds: tuple[PrimitiveType, PrimitiveType, PrimitiveType], message: str
) -> None:
    with pytest.raises(LoweringError, match=rf"stablehlo\.dot, recorded at .*:3: dot: {message}"):
        of_text(product_of(*kinds))


def test_round_trip_of_convolution_attributes() -> None:
    b = xb.XlaBuilder("convolutions")
    x, kernel = b.parameter(xb.f32[4, 8, 7, 6], "x"), b.parameter(xb.f32[3, 2, 3, 4], "kernel")
    whole, flat = b.parameter(xb.f32[3, 2, 6, 4], "whole"), b.parameter(xb.f32[4, 5], "flat")
    strides, padding, numbers = [2, 1], [(3, -1), (0, 2)], "b01f_01io->f0b1"
    results = [
        xb.conv_general_dilated(
            x, kernel, strides, padding, [1, 2], [2, 1], numbers, 2, 1, "HIGH", xb.f64
        ),
        xb.conv_general_dilated(
            x, whole, [], padding, None, None, numbers, 1, 2, window_reversal=[True, False]
        ),
        xb.conv_general(flat, flat, [], [], "bf_oi->bf"),  # no spatial dimensions
    ]
    returned(b.build(xb.tuple(*results)))


def test_defaults_of_convolution_attributes() -> None:
    computation = of_text("""
      func.func @main(%x: tensor<2x8x3xf32>, %k: tensor<4x3x5xf32>) -> tensor<2x5x5xf32> {
        %0 = "stablehlo.convolution"(%x, %k) {
            dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>,
            feature_group_count = 1 : i64, batch_group_count = 1 : i64}
          : (tensor<2x8x3xf32>, tensor<4x3x5xf32>) -> tensor<2x5x5xf32>
        return %0 : tensor<2x5x5xf32>
      }""")
    x, kernel = (summable(RANDOM, xb.f32, sizes) for sizes in ((2, 8, 3), (4, 3, 5)))
    actual = np.asarray(lowering.compile(computation)(x, kernel))
    expected = sum(np.einsum("bpi,io->bpo", x[:, at : at + 5], kernel[at]) for at in range(4))
    assert_identical(actual, np.asarray(expected))


NARROW = [t for t in ALL if t.bits < 8 and t is not xb.pred]


@each_row("element_type", NARROW)
def test_products_of_narrow_types(element_type: PrimitiveType) -> None:
    """Some are lowered to a wider type, and are imported as several ops."""
    wide = xb.f32 if element_type.is_floating else xb.s32 if element_type.is_signed else xb.u32
    b = xb.XlaBuilder("narrow")
    x = b.parameter(xb.array_shape(element_type, [3, 4]), "x")
    product = xb.dot_general(x, x, (([1], [1]), ([], [])), preferred_element_type=wide)
    again = lowering.to_computation(lowering.lower(b.build(product)))
    value = summable(np.random.default_rng(5), element_type, (3, 4))
    numbers = value.astype(np.float64)
    actual = np.asarray(lowering.compile(again)(value))
    assert_identical(actual, (numbers @ numbers.T).astype(wide.dtype))


Ragged = xb.RaggedDotDimensionNumbers
GROUPED = {
    "rows": (Ragged((([1], [1]), ([], [])), [0], [0]), [9, 3], [4, 3, 2]),
    "inner": (Ragged((([1], [0]), ([], [])), [1]), [3, 9], [9, 2]),
    "batch": (Ragged((([2], [1]), ([0], [0])), [0]), [9, 2, 3], [9, 3, 2]),
}


@each_row("name", GROUPED)
def test_round_trip_of_ragged_dot(name: str) -> None:
    numbers, lhs, rhs = GROUPED[name]
    b = xb.XlaBuilder("groups")
    x, y = b.parameter(xb.array_shape(xb.bf16, lhs)), b.parameter(xb.array_shape(xb.bf16, rhs))
    sizes = b.parameter(xb.s32[4])
    returned(b.build(xb.ragged_dot(x, y, sizes, numbers, ("HIGH", "DEFAULT"), xb.f32)))


def test_ragged_dot_of_mhlo() -> None:
    """jaxlib converts HLO text to this form."""
    numbers, lhs, rhs = GROUPED["rows"]
    b = xb.XlaBuilder("groups")
    x, y = b.parameter(xb.array_shape(xb.f32, lhs)), b.parameter(xb.array_shape(xb.f32, rhs))
    c = b.build(xb.ragged_dot(x, y, b.parameter(xb.s32[4]), numbers))
    code = hlo_conversion.hlo_text_to_stablehlo(str(c))
    computation = lowering.to_computation(lowering.load_bytes(code))
    assert computation.root.opcode == "ragged_dot"
    assert computation.root.attributes == c.root.attributes


def test_ragged_dot_of_jax() -> None:
    # JAX expands it for a CPU, and uses the operation for a TPU.
    x, y = summable(RANDOM, xb.f32, (9, 3)), summable(RANDOM, xb.f32, (4, 3, 2))
    sizes = np.array([2, 0, 4, 3], np.int32)
    traced = jax.jit(lax.ragged_dot).trace(x, y, sizes)
    computation = of_text(traced.lower(lowering_platforms=("tpu",)).as_text())
    assert "ragged_dot" in [op.opcode for one in all_computations(computation) for op in one.ops]
    actual = np.asarray(lowering.compile(computation)(x, y, sizes))
    groups = np.repeat(np.arange(4), sizes)
    assert_identical(actual, np.einsum("mk,mkn->mn", x, y[groups]))


def all_computations(computation: xb.XlaComputation) -> list[xb.XlaComputation]:
    return [computation, *computation.called_computations()]


def letters(config: str) -> str:
    sizes = {"a": 2, "b": 3, "c": 4, "d": 5}
    *parts, expected = config.replace("->", ",").split(",")
    kinds = ["tensor<" + "".join(f"{sizes[c]}x" for c in p) + "f32>" for p in (*parts, expected)]
    name = "einsum" if len(parts) == 2 else "unary_einsum"
    values = ["%x", "%y"][: len(parts)]
    signature = ", ".join(f"{v}: {kind}" for v, kind in zip(values, kinds, strict=False))
    return f"""
      func.func @main({signature}) -> {kinds[-1]} {{
        %0 = "stablehlo.{name}"({", ".join(values)}) {{einsum_config = "{config}"}}
          : ({", ".join(kinds[:-1])}) -> {kinds[-1]}
        return %0 : {kinds[-1]}
      }}"""


LETTERS = ["ab,bc->ac", "ab,bc->ca", "abc,abd->adc", "ab,cd->dbca", "abc,dc->b", ",ab->b"]
LETTERS += ["ab,ab->", "ab->ba", "abcd->cb", "abc->", "a->a"]


@each_row("config", LETTERS)
def test_einsum(config: str) -> None:
    computation = of_text(letters(config))
    shapes = computation.program_shape.parameters
    arguments = [summable(RANDOM, xb.f32, shape.dimensions) for shape in shapes]
    actual = np.asarray(lowering.compile(computation)(*arguments))
    expected = np.einsum(config, *arguments)
    assert actual.shape == expected.shape
    np.testing.assert_array_equal(actual, expected)


def test_unsupported_einsums_are_refused() -> None:
    text = letters("ab,bc->ac")
    for config in ("aa,ab->ab", "...b,bc->...c", "ab,bc->ad", "ab,b->a", "ab,bc", "ab->ab"):
        with pytest.raises(LoweringError, match=r"stablehlo\.einsum, .*: einsum_config must"):
            of_text(text.replace("ab,bc->ac", config))
