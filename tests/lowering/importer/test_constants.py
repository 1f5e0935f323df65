"""Import of constants of every type, compared bit by bit, with splats and resources."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from imported import of_text
from tables import each_row

import builder as xb
import lowering
from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType

TYPES = [t for t in pt.ALL if t.is_array_element]
SIZES: list[tuple[int, ...]] = [(), (1,), (5,), (3, 4), (70, 30), (0, 3)]


def bits(array: Any) -> bytes:
    return np.ascontiguousarray(array).tobytes()


def any_bits(element_type: PrimitiveType, sizes: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return an array of all bit patterns, including signalling NaNs."""
    random = np.random.default_rng(len(sizes))
    width = element_type.dtype.itemsize
    raw = random.integers(0, 256, (int(np.prod(sizes)), width), dtype=np.uint8)
    if element_type.bits < 8:
        raw &= (1 << element_type.bits) - 1
    return raw.reshape(-1).view(element_type.dtype).reshape(sizes)


def constant(array: np.ndarray[Any, Any]) -> xb.XlaComputation:
    b = xb.XlaBuilder("constant")
    b.constant(array)
    return b.build()


def held(computation: xb.XlaComputation) -> np.ndarray[Any, Any]:
    result: np.ndarray[Any, Any] = computation.root.attributes["value"]
    return result


@each_row("element_type", TYPES)
def test_every_bit_is_preserved(element_type: PrimitiveType) -> None:
    for sizes in SIZES:
        array = any_bits(element_type, sizes)
        module = lowering.lower(constant(array))
        computation = lowering.to_computation(module)
        actual = held(computation)
        assert (actual.dtype, actual.shape, bits(actual)) == (array.dtype, sizes, bits(array))
        assert not actual.flags.writeable
        assert lowering.lower(computation).text == module.text


@each_row("element_type", TYPES)
def test_splats_stay_splats(element_type: PrimitiveType) -> None:
    for number in range(4):
        one = any_bits(element_type, (4,))[number]
        for sizes in ((2,), (8,), (9,), (3, 1), (1000, 1000, 1000)):
            whole = np.broadcast_to(one, sizes)
            module = lowering.lower(constant(whole))
            assert "dense<[" not in module.text
            computation = lowering.to_computation(module)
            for actual in (held(constant(whole)), held(computation)):
                assert (actual.dtype, actual.shape, set(actual.strides)) == (one.dtype, sizes, {0})
                assert bits(actual.reshape(-1)[:1]) == bits(one)
            assert lowering.lower(computation).text == module.text


@each_row("element_type", [pt.pred, pt.u8, pt.bf16, pt.s4, pt.c64])
def test_splats_run(element_type: PrimitiveType) -> None:
    ones = np.broadcast_to(np.ones((), element_type.dtype), (3, 5))
    computation = lowering.to_computation(lowering.lower(constant(ones)))
    for one in (constant(ones), computation):
        assert np.array_equal(np.asarray(lowering.compile(one)()), ones)


def test_an_element_that_is_repeated_is_copied() -> None:
    one = np.array(1.5, np.float32)
    computation = constant(np.broadcast_to(one, (4,)))
    one[()] = 2
    assert held(computation).tolist() == [1.5] * 4


@each_row(
    "value, expected",
    [
        ("dense<[1.0, 0x7FA00001]> : tensor<2xf32>", np.uint32([0x3F800000, 0x7FA00001])),
        ("dense<[1.0, 0x7F81]> : tensor<2xbf16>", np.uint16([0x3F80, 0x7F81])),
        ("dense<0x7F81> : tensor<bf16>", np.uint16(0x7F81)),
        ("dense<[1, -2, 7]> : tensor<3xi4>", np.uint8([1, 14, 7])),
        ("dense<[true, false, true]> : tensor<3xi1>", np.uint8([1, 0, 1])),
        ('dense<"0x0102FF"> : tensor<3xui8>', np.uint8([1, 2, 255])),
    ],
)
def test_texts(value: str, expected: Any) -> None:
    kind = value.rpartition(" : ")[2]
    computation = of_text(f"""
        func.func @main() -> {kind} {{
          %0 = stablehlo.constant {value}
          return %0 : {kind}
        }}
    """)
    actual = held(computation)
    width = np.asarray(expected).dtype
    raw = actual if actual.dtype != ml_dtypes.int4 else actual.astype(np.int8) & 15
    assert raw.view(width).tolist() == np.asarray(expected).tolist()


RESOURCES = {
    "one": ("0x04000000" + "0000803F", "tensor<1xf32>", [1.0]),
    "two": ("0x40000000" + "0000803F00000040", "tensor<2xf32>", [1.0, 2.0]),
    "short": ("0x02000000" + "803F0040", "tensor<2xbf16>", [1.0, 2.0]),
    "preds": ("0x01000000" + "000101", "tensor<3xi1>", [False, True, True]),
    "complex": ("0x08000000" + "0000803F00000040", "tensor<1xcomplex<f32>>", [1 + 2j]),
    **{
        f"{size} bytes": (f"0x{1 << size % 4:02X}000000" + "07" * size, f"tensor<{size}xi8>", 7)
        for size in range(3, 40)
    },
}


@each_row("name", RESOURCES)
def test_elements_in_a_resource(name: str) -> None:
    blob, kind, expected = RESOURCES[name]
    computation = of_text(f"""
        func.func @main() -> ({kind}, {kind}) {{
          %0 = stablehlo.constant dense_resource<blob> : {kind}
          return %0, %0 : {kind}, {kind}
        }}
        {{-# dialect_resources: {{ builtin: {{ blob: "{blob}" }} }} #-}}
    """)
    (constant_op,) = set(computation.root.operands)
    actual = constant_op.attributes["value"]
    assert (actual == expected).all()


def test_a_missing_resource() -> None:
    with pytest.raises(lowering.LoweringError, match=r"stablehlo\.constant.*are not in the file"):
        of_text("""
            func.func @main() -> tensor<2xf32> {
              %0 = stablehlo.constant dense_resource<blob> : tensor<2xf32>
              return %0 : tensor<2xf32>
            }
        """)


def test_other_attributes_with_elements() -> None:
    computation = of_text("""
        func.func @main() -> tensor<2xcomplex<f32>> {
          %0 = stablehlo.constant {other = dense<[(5.0, 6.0), (7.0, 8.0)]> : tensor<2xcomplex<f32>>}
            dense<[(1.0, 2.0), (3.0, 4.0)]> : tensor<2xcomplex<f32>>
          return %0 : tensor<2xcomplex<f32>>
        }
    """)
    assert held(computation).tolist() == [1 + 2j, 3 + 4j]


def test_complex_constants_in_a_reducer() -> None:
    computation = of_text("""
        func.func @main(%x: tensor<3xcomplex<f32>>, %i: tensor<complex<f32>>)
            -> tensor<complex<f32>> {
          %outside = stablehlo.constant dense<(0.0, 1.0)> : tensor<complex<f32>>
          %0 = "stablehlo.reduce"(%x, %i) <{dimensions = array<i64: 0>}> ({
          ^bb0(%a: tensor<complex<f32>>, %b: tensor<complex<f32>>):
            %inside = stablehlo.constant dense<(0.0, -1.0)> : tensor<complex<f32>>
            %1 = stablehlo.add %a, %b : tensor<complex<f32>>
            %2 = stablehlo.add %1, %inside : tensor<complex<f32>>
            %3 = stablehlo.add %2, %outside : tensor<complex<f32>>
            stablehlo.return %3 : tensor<complex<f32>>
          }) : (tensor<3xcomplex<f32>>, tensor<complex<f32>>) -> tensor<complex<f32>>
          return %0 : tensor<complex<f32>>
        }
    """)
    actual = lowering.compile(computation)(np.complex64([1, 2, 3j]), np.complex64(0))
    assert np.asarray(actual) == 3 + 3j


def test_equal_constants_share_their_elements() -> None:
    kind, value = "tensor<3xf32>", "dense<[1.0, 2.0, 3.0]> : tensor<3xf32>"
    computation = of_text(f"""
        func.func @main() -> {kind} {{
          %0 = stablehlo.constant {value}
          %1 = stablehlo.constant {value}
          %2 = stablehlo.add %0, %1 : {kind}
          return %2 : {kind}
        }}
    """)
    one, other = (op.attributes["value"] for op in computation.ops[:2])
    assert one is other
    gc.collect()  # the module; elements stay
    assert one.tolist() == [1, 2, 3]


@each_row("kind", ["f32", "bf16", "s8", "c128"])
def test_large_constants_are_copied_once(kind: str) -> None:
    size = 1 << 24
    dtype = pt.from_name(kind).dtype
    array = np.resize(np.arange(100, dtype=np.uint8), size).view(dtype)
    module = lowering.lower(constant(array))
    tracemalloc.start()
    try:
        computation = lowering.to_computation(module)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert bits(held(computation)) == bits(array)
    assert size <= most < 1.1 * size


def test_complex_elements_elsewhere_are_refused() -> None:
    """MLIR's Python aborts on one way to read them."""
    with pytest.raises(lowering.LoweringError, match="has elements that can't be read"):
        of_text("""
            func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {
              return %x : tensor<2xf32>
            }
            func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
              %0 = chlo.lgamma %x {other = dense<(1.0, 2.0)> : tensor<2xcomplex<f32>>}
                : tensor<2xf32> -> tensor<2xf32>
              return %0 : tensor<2xf32>
            }
        """)
