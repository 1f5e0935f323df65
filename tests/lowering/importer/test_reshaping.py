"""Import of broadcasts, reshapes and slices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from imported import imported_from_jax, of_text, returned
from jax import lax
from support import assert_identical, small_numbers
from tables import each_row

import builder as xb
import lowering
from builder.types.primitive_type import ALL, PrimitiveType
from lowering import LoweringError

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)

FROM_JAX: dict[str, Callable[[Any], Any]] = {
    "broadcast in the middle": lambda x: lax.broadcast_in_dim(x, (2, 5, 3, 4), (0, 2, 3)),
    "broadcast of size 1": lambda x: lax.broadcast_in_dim(x[:, :1], (6, 2, 3, 4), (1, 2, 3)),
    "broadcast in front": lambda x: lax.broadcast(x, (3, 1)),
    "reshape": lambda x: x.reshape(4, 6),
    "reshape to a vector": lambda x: x.ravel(),
    "reshape of a scalar": lambda x: x[0, 0, 0].reshape(1, 1),
    "transpose": lambda x: lax.transpose(x, (2, 0, 1)),
    "reverse": lambda x: lax.rev(x, (0, 2)),
    "concatenate": lambda x: lax.concatenate([x, x[:, :1], x[:, 1:]], 1),
    "concatenate one": lambda x: lax.concatenate([x], 0),
    "slice": lambda x: lax.slice(x, (0, 1, 1), (2, 3, 4)),
    "slice with steps": lambda x: lax.slice(x, (0, 0, 1), (2, 3, 4), (1, 2, 2)),
    "empty slice": lambda x: lax.slice(x, (0, 2, 0), (0, 2, 4)),
    "pad": lambda x: lax.pad(x, x[0, 0, 1], ((1, 2, 0), (0, 0, 3), (0, 0, 0))),
    "pad, cutting off": lambda x: lax.pad(x, x[0, 0, 1], ((-1, 0, 0), (2, -1, 1), (-2, 3, 0))),
    "iota": lambda x: x * lax.broadcasted_iota(np.float32, (2, 3, 4), 1),
    "iota of integers": lambda x: x + lax.iota(np.int8, 4).astype(np.float32),
    "tile": lambda x: jnp.tile(x, (2, 1, 3)),
    "roll": lambda x: jnp.roll(x, (1, -1), (0, 2)),
    "stack and split": lambda x: jnp.split(jnp.stack([x, -x], axis=1), 2, axis=3),
}


@each_row("name", FROM_JAX)
def test_results_agree_with_jax(name: str) -> None:
    imported_from_jax(FROM_JAX[name], X)


Recorded = Callable[[xb.XlaOp], xb.XlaOp]

OF_ANY_TYPE: dict[str, Recorded] = {
    "broadcast": lambda x: xb.broadcast(x, [2, 0, 1]),
    "broadcast_in_dim": lambda x: xb.broadcast_in_dim(x, [2, 5, 3, 4], [0, 2, 3]),
    "reshape": lambda x: xb.reshape(x, [3, 8]),
    "reshape, reordered": lambda x: xb.reshape(x, [24], dimensions=[2, 0, 1]),
    "collapse": lambda x: xb.collapse(x, [1, 2]),
    "transpose": lambda x: xb.transpose(x, [1, 2, 0]),
    "transpose of all": lambda x: xb.transpose(x, [0, 1, 2]),
    "reverse": lambda x: xb.rev(x, [2, 0]),
    "reverse no dimensions": lambda x: xb.rev(x, []),
    "slice": lambda x: xb.slice(x, [0, 1, 2], [2, 3, 2]),
    "slice with steps": lambda x: xb.slice(x, [0, 1, 0], [2, 3, 4], [2, 1, 3]),
    "slice_in_dim": lambda x: xb.slice_in_dim(x, 1, 4, 2, dimno=2),
    "pad": lambda x: xb.pad(x, xb.reshape(xb.slice(x, [0] * 3, [1] * 3), []), [(1, -1, 2)] * 3),
}


@each_row("element_type", ALL)
def test_round_trip_of_every_type(element_type: PrimitiveType) -> None:
    for record in OF_ANY_TYPE.values():
        b = xb.XlaBuilder("shaping")
        x = b.parameter(xb.array_shape(element_type, [2, 3, 4]), "x")
        returned(b.build(record(x)))


COUNTING = [t for t in ALL if t not in (xb.pred, xb.f8e8m0fnu)]


@each_row("element_type", COUNTING)
def test_round_trip_of_iota(element_type: PrimitiveType) -> None:
    b = xb.XlaBuilder("counting")
    rows = b.iota(xb.array_shape(element_type, [2, 3]), 0)
    columns = b.iota(xb.array_shape(element_type, [2, 3]), 1)
    returned(b.build(xb.tuple(rows, columns, b.iota(xb.array_shape(element_type, [5])))))


@each_row("element_type", [t for t in ALL if t.bits != 2])
def test_round_trip_of_concatenate(element_type: PrimitiveType) -> None:
    b = xb.XlaBuilder("joining")
    x = b.parameter(xb.array_shape(element_type, [2, 3]), "x")
    y = b.parameter(xb.array_shape(element_type, [2, 0]), "y")
    returned(b.build(xb.concatenate([x, y, x], 1)))


@pytest.mark.parametrize("element_type", [xb.s2, xb.u2], ids=str)
def test_concatenate_of_two_bit_types(element_type: PrimitiveType) -> None:
    """It is lowered through 8 bits, and imported as several ops."""
    b = xb.XlaBuilder("joining")
    x = b.parameter(xb.array_shape(element_type, [2, 3]), "x")
    again = lowering.to_computation(lowering.lower(b.build(xb.concatenate([x, x], 0))))
    value = small_numbers(element_type, [2, 3])
    actual = np.asarray(lowering.compile(again)(value))
    assert_identical(actual, np.concatenate([value, value], 0))


BOUNDED: dict[str, tuple[str, Recorded]] = {
    "kept": ("f32[<=6,4]", lambda x: xb.reshape(x, [6, 2, 2])),
    "combined": ("f32[2,<=3]", lambda x: xb.reshape(x, [6])),
    "split to a fixed size": ("f32[<=6]", lambda x: xb.reshape(x, [2, 3])),
    "split off ones": ("f32[<=6]", lambda x: xb.reshape(x, [1, 6, 1])),
    "transposed": ("f32[<=6,4]", lambda x: xb.transpose(x, [1, 0])),
    "reversed": ("f32[<=6,4]", lambda x: xb.rev(x, [1])),
    "broadcast": ("f32[<=6]", lambda x: xb.broadcast_in_dim(x, [2, 6], [1])),
    "joined": ("f32[<=6]", lambda x: xb.concatenate([x, x], 0)),
    "cut": ("f32[<=6,4]", lambda x: xb.slice(x, [0, 1], [6, 3])),
    "padded": ("f32[<=6]", lambda x: xb.pad(x, x.builder.constant(np.float32(1)), [(1, 2, 0)])),
}


@each_row("name", BOUNDED)
def test_round_trip_of_bounded_sizes(name: str) -> None:
    shape, record = BOUNDED[name]
    b = xb.XlaBuilder("bounded")
    returned(b.build(record(b.parameter(shape, "x"))))


@pytest.mark.parametrize("inferred", [0, 1])
def test_the_type_determines_which_part_of_a_split_size_is_bounded(inferred: int) -> None:
    result = (
        "tensor<?x3xf32, #stablehlo.bounds<2, ?>>",
        "tensor<2x?xf32, #stablehlo.bounds<?, 3>>",
    )
    source = "tensor<?xf32, #stablehlo.bounds<6>>"
    computation = of_text(f"""
      func.func @main(%x: {source}) -> {result[inferred]} {{
        %0 = stablehlo.reshape %x : ({source}) -> {result[inferred]}
        return %0 : {result[inferred]}
      }}""")
    b = xb.XlaBuilder("main")
    x = b.parameter("f32[<=6]", "arg0")
    expected = b.build(xb.reshape_with_inferred_dimension(x, [2, 3], inferred))
    assert [op.opcode for op in computation.ops] == [op.opcode for op in expected.ops]
    assert computation.root.shape == expected.root.shape


@each_row("start, limit, stride", [(0, 2, 1), (1, 3, 1), (0, 6, 3)])
def test_slices_of_a_bounded_size_to_a_fixed_size(start: int, limit: int, stride: int) -> None:
    """The first elements are a dynamic slice; other slices are refused."""
    source, result = "tensor<?xf32, #stablehlo.bounds<6>>", "tensor<2xf32>"
    text = f"""
      func.func @main(%x: {source}) -> {result} {{
        %0 = "stablehlo.slice"(%x) {{
          start_indices = array<i64: {start}>, limit_indices = array<i64: {limit}>,
          strides = array<i64: {stride}>
        }} : ({source}) -> {result}
        return %0 : {result}
      }}"""
    if (start, stride) == (0, 1):
        assert of_text(text).root.opcode == "dynamic_slice"
        return
    with pytest.raises(lowering.LoweringError, match=r"slice, recorded at .*f32\[2\] in the file"):
        of_text(text)


def test_the_deprecated_broadcast_is_imported() -> None:
    computation = of_text("""
      func.func @main(%x: tensor<3xf32>) -> tensor<2x4x3xf32> {
        %0 = "stablehlo.broadcast"(%x) {broadcast_sizes = array<i64: 2, 4>}
          : (tensor<3xf32>) -> tensor<2x4x3xf32>
        return %0 : tensor<2x4x3xf32>
      }""")
    x = np.array([1, 2, 3], np.float32)
    actual = np.asarray(lowering.compile(computation)(x))
    assert_identical(actual, np.ascontiguousarray(np.broadcast_to(x, (2, 4, 3))))


def test_broadcast_with_permuted_dimensions() -> None:
    computation = of_text("""
      func.func @main(%x: tensor<3x1x4xf32>) -> tensor<4x3x2x5xf32> {
        %0 = stablehlo.broadcast_in_dim %x, dims = [1, 3, 0]
          : (tensor<3x1x4xf32>) -> tensor<4x3x2x5xf32>
        return %0 : tensor<4x3x2x5xf32>
      }""")
    x = np.arange(12, dtype=np.float32).reshape(3, 1, 4)
    moved = x.transpose(2, 0, 1).reshape(4, 3, 1, 1)
    actual = np.asarray(lowering.compile(computation)(x))
    assert_identical(actual, np.ascontiguousarray(np.broadcast_to(moved, (4, 3, 2, 5))))


def test_shape_inference_errors_name_the_operation() -> None:
    text = """
      func.func @main() -> tensor<3xf8E8M0FNU> {
        %0 = stablehlo.iota dim = 0 : tensor<3xf8E8M0FNU>
        return %0 : tensor<3xf8E8M0FNU>
      }"""
    with pytest.raises(
        LoweringError, match=r"stablehlo\.iota, recorded at .*:3: iota: .*can represent 0"
    ):
        of_text(text)
