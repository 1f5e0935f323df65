"""Dot products executed on CPU, compared with NumPy in double precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support import assert_same_bits, parameter_like, run, summable

import builder as xb
import lowering
from builder.ops.contraction.dot_product import ALGORITHM_TYPES, is_promotable
from lowering.jaxlib_api import hlo_conversion

RANDOM = np.random.default_rng(20240612)
ALL_TYPES = [t for t in vars(xb).values() if isinstance(t, xb.PrimitiveType)]
Array = np.ndarray


def sample(t: xb.PrimitiveType, sizes: tuple[int, ...]) -> Array:
    """Return values whose sums are exact."""
    if t is xb.f8e8m0fnu:
        return np.full(sizes, 0.5).astype(t.dtype)
    return summable(RANDOM, t, sizes)


def reference(
    function: Callable[[Array, Array], Array], x: Array, y: Array, t: xb.PrimitiveType
) -> Array:
    """Compute `function`, a sum of products, in a wide type, and convert the result to `t`."""
    if x.dtype == bool:
        return np.asarray(function(x.astype(np.int64), y.astype(np.int64))) > 0
    if t.is_complex:
        return np.asarray(function(x.astype(np.complex128), y.astype(np.complex128))).astype(
            t.dtype
        )
    if t.is_floating:
        return np.asarray(function(x.astype(np.float64), y.astype(np.float64))).astype(t.dtype)
    # Integers wrap around: the low bits of the sum in 64 bits.
    total = np.asarray(function(x.astype(np.int64), y.astype(np.int64)))
    if t.bits < 64:
        total = total & ((1 << t.bits) - 1)
        if t.is_signed:
            total = np.where(total > t.max, total - (1 << t.bits), total)
    return total.astype(t.dtype)


CASES: dict[str, tuple[Any, Callable[[Array, Array], Array], tuple[int, ...], tuple[int, ...]]] = {
    "vector with vector": (xb.dot, np.dot, (5,), (5,)),
    "matrix with vector": (xb.dot, np.dot, (3, 4), (4,)),
    "matrix with matrix": (xb.dot, np.dot, (3, 4), (4, 5)),
    "empty sums": (xb.dot, np.dot, (3, 0), (0, 2)),
    "no sums": (xb.dot, np.dot, (0, 3), (3, 2)),
    "larger": (xb.dot, np.dot, (33, 17), (17, 40)),
    "batch": (
        lambda x, y: xb.dot_general(x, y, (([2], [1]), ([0], [0]))),
        np.matmul,
        (3, 2, 5),
        (3, 5, 4),
    ),
    "dimensions in another order": (
        lambda x, y: xb.dot_general(x, y, (([0, 3], [2, 0]), ([2], [3]))),
        lambda x, y: np.einsum("abcd,deac->cbe", x, y),
        (3, 2, 4, 5),
        (5, 6, 3, 4),
    ),
    "outer product": (
        lambda x, y: xb.dot_general(x, y, xb.DotDimensionNumbers()),
        lambda x, y: np.multiply.outer(x, y),
        (3,),
        (2, 2),
    ),
}


# One type of each kind, and the shape makes no difference for a type. Sums of many numbers would be
# rounded in narrower types of floating point.
SOME_TYPES = [xb.pred, xb.u4, xb.s32, xb.bf16, xb.f32, xb.c64]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_type(name: str) -> None:
    function, want, lhs, rhs = CASES[name]
    types = ALL_TYPES if name in ("matrix with matrix", "batch", "empty sums") else SOME_TYPES
    arguments = {t: (sample(t, lhs), sample(t, rhs)) for t in types}
    b = xb.XlaBuilder("dot")
    results = [
        function(b.parameter(xb.array_shape(t, lhs)), b.parameter(xb.array_shape(t, rhs)))
        for t in types
    ]
    actual = run(b.build(xb.tuple(*results)), *(a for t in types for a in arguments[t]))
    for t, result in zip(types, actual, strict=True):
        if t is xb.f8e8m0fnu and 0 in lhs[-1:]:
            continue  # the empty sum is 0, which this type can't represent
        assert_same_bits(result, reference(want, *arguments[t], t))


WIDER = {
    source: [t for t in ALL_TYPES if t is not source and is_promotable(source, t)]
    for source in ALL_TYPES
}


@pytest.mark.slow
def test_preferred_element_type() -> None:
    operands = {source: (sample(source, (3, 4)), sample(source, (4, 2))) for source in WIDER}
    b = xb.XlaBuilder("dot")
    pairs, results = [], []
    for source, (x, y) in operands.items():
        lhs, rhs = parameter_like(b, x), parameter_like(b, y)
        for to in WIDER[source]:
            pairs.append((source, to))
            results.append(xb.dot(lhs, rhs, preferred_element_type=to))
    actual = run(b.build(xb.tuple(*results)), *(a for both in operands.values() for a in both))
    for (source, to), result in zip(pairs, actual, strict=True):
        assert_same_bits(result, reference(np.dot, *operands[source], to))


def test_precision() -> None:
    x, y = (RANDOM.normal(size=s).astype(np.float32) for s in ((61, 67), (67, 30)))
    b = xb.XlaBuilder("dot")
    lhs, rhs = b.parameter(xb.f32[61, 67]), b.parameter(xb.f32[67, 30])
    high, highest = xb.Precision.HIGH, xb.Precision.HIGHEST
    results = [xb.dot(lhs, rhs, p) for p in (None, high, highest, (high, highest))]
    for actual in run(b.build(xb.tuple(*results)), x, y):
        np.testing.assert_allclose(actual, x.astype(np.float64) @ y, rtol=1e-4, atol=1e-5)


X9 = xb.DotAlgorithm.DOT_BF16_BF16_F32_X9


@pytest.mark.slow
@pytest.mark.parametrize(
    "algorithms", [[a for a in xb.DotAlgorithm if a is not X9], [X9]], ids=["others", "X9"]
)
def test_algorithms(algorithms: list[xb.DotAlgorithm]) -> None:
    b = xb.XlaBuilder("dot")
    arguments: list[Array] = []
    results: list[xb.XlaOp] = []
    expected: list[Array] = []
    for algorithm in algorithms:
        record_products(b, algorithm, arguments, results, expected)
    computation = b.build(xb.tuple(*results))
    text = str(computation)
    assert all(f"algorithm={algorithm.value}" in text for algorithm in algorithms)
    if algorithms == [X9]:
        # Not `run`: XLA parses the text, but jaxlib aborts when it converts it to StableHLO.
        assert f"algorithm={X9.value}" in hlo_conversion.parsed_hlo_text(text)
        actual = lowering.compile(computation)(*arguments)
    else:
        actual = run(computation, *arguments)
    for result, want in zip(actual, expected, strict=True):
        assert_same_bits(np.asarray(result), want)


def record_products(
    b: xb.XlaBuilder,
    algorithm: xb.DotAlgorithm,
    arguments: list[Array],
    results: list[xb.XlaOp],
    expected: list[Array],
) -> None:
    """Append the products of all types of an algorithm, their arguments and their values."""
    # The CPU backend treats both algorithms of f8, which have the same types, alike.
    count = 1 if algorithm is xb.DotAlgorithm.DOT_ANY_F8_ANY_F8_F32_FAST_ACCUM else None
    for sources, targets in ALGORITHM_TYPES[algorithm]:
        for source in sorted(sources, key=str)[:count]:
            x, y = sample(source, (3, 4)), sample(source, (4, 2))
            lhs, rhs = b.parameter(source[3, 4]), b.parameter(source[4, 2])
            arguments += [x, y]
            for target in sorted(targets, key=str):
                if is_promotable(source, target):
                    numbers = xb.DotDimensionNumbers([1], [0])
                    results.append(
                        xb.dot_general(
                            lhs, rhs, numbers, preferred_element_type=target, algorithm=algorithm
                        )
                    )
                    expected.append(reference(np.dot, x, y, target))


# Worked examples of Operation Semantics


def evaluate(numbers: xb.DotDimensionNumbers, lhs: Any, rhs: Any) -> Any:
    x, y = np.array(lhs, np.float32), np.array(rhs, np.float32)
    b = xb.XlaBuilder("example")
    shapes = [xb.array_shape(xb.f32, a.shape) for a in (x, y)]
    result = xb.dot_general(b.parameter(shapes[0]), b.parameter(shapes[1]), numbers)
    return run(b.build(result), x, y).tolist()


def test_documented_contracting_dimensions() -> None:
    lhs = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    rhs = [[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]
    numbers = xb.DotDimensionNumbers([1], [1])
    assert evaluate(numbers, lhs, rhs) == [[6.0, 12.0], [15.0, 30.0]]


def test_documented_batch_dimensions() -> None:
    lhs = [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]]
    rhs = [[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]]
    numbers = xb.DotDimensionNumbers([2], [1], [0], [0])
    assert evaluate(numbers, lhs, rhs) == lhs


def test_integers_of_a_file_are_converted_if_the_conversion_is_exact() -> None:
    """A product of a wider floating-point type."""
    for element_type, opcodes in (("i8", ["convert", "convert"]), ("f32", [])):
        module = lowering.load_bytes(f"""
            func.func @main(%x: tensor<2x2x{element_type}>) -> tensor<2x2xf32> {{
              %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
                  : (tensor<2x2x{element_type}>, tensor<2x2x{element_type}>) -> tensor<2x2xf32>
              return %0 : tensor<2x2xf32>
            }}""")
        computation = lowering.to_computation(module)
        found = [op.opcode for op in computation.ops]
        assert found == ["parameter", *opcodes, "dot_general"]
