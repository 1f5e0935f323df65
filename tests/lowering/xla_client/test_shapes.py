"""Shape, Layout, ProgramShape and ShapeIndex of `xla_client`."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from jaxlib.xla_client import PrimitiveType
from tables import each_row

import builder as xb
from lowering import xla_client as xc

F32 = xc.PrimitiveType.F32


def test_primitive_types_have_the_numbers_of_jaxlibs() -> None:
    ours = {kind.name: kind.value for kind in xc.PrimitiveType}
    theirs = {kind.name: kind.value for kind in PrimitiveType}
    # Types that one of the two lacks; the numbers are those of xla_data.proto.
    others = {"S2": 26, "U2": 27, "F6E3M2FN": 35, "F6E2M3FN": 36}
    assert ours.items() <= {**theirs, **others}.items()
    assert theirs.items() <= {**ours, **others}.items()


def test_shape_of_an_array() -> None:
    shape = xc.Shape.array_shape(np.dtype(np.float32), (2, 3))
    assert shape.is_array()
    assert not shape.is_tuple()
    assert not shape.is_token()
    assert shape.dimensions() == (2, 3)
    assert shape.rank() == 2
    assert shape.xla_element_type() is F32
    assert shape.element_type() == shape.numpy_dtype() == np.float32
    assert shape.layout().minor_to_major() == (1, 0)
    assert shape.leaf_count() == 1
    assert shape.with_major_to_minor_layout_if_absent() == shape
    assert repr(shape) == "f32[2,3]{1,0}"
    assert shape.new == xb.f32[2, 3]


def test_default_layouts_are_equal_to_no_layouts() -> None:
    shapes = [xc.Shape("f32[2,3]"), xc.Shape("f32[2,3]{1,0}"), xc.Shape.array_shape(11, (2, 3))]
    assert len(set(shapes)) == 1
    assert xc.Shape("f32[2,3]{0,1}") not in shapes
    assert repr(xc.Shape("(f32[2]{0}, (s8[]), token[])")) == "(f32[2]{0}, (s8[]), token[])"


def test_layouts() -> None:
    first, second = (
        xc.Shape.array_shape(F32, (2, 3), order).layout() for order in ((0, 1), (1, 0))
    )
    assert first.minor_to_major() == (0, 1)
    assert first != second
    assert first == xc.Layout((0, 1))
    assert hash(first) == hash(xc.Layout([0, 1]))
    tiled = xc.Layout((1, 0), [(2, 4)], 8)
    assert tiled.tiling() == [(2, 4)]
    assert tiled.element_size_in_bits() == 8
    assert tiled.to_string() == "{1,0:T(2,4)E(8)}"


def test_tuple_shape() -> None:
    shape = xc.Shape.tuple_shape([xc.Shape("f32[2]"), xc.Shape("(s32[], token[])")])
    assert shape.is_tuple()
    assert [repr(element) for element in shape.tuple_shapes()] == ["f32[2]{0}", "(s32[], token[])"]
    assert shape.leaf_count() == 3
    assert shape.xla_element_type() is xc.PrimitiveType.TUPLE
    assert shape.numpy_dtype() == np.dtype(object)
    with pytest.raises(TypeError, match="expected the shape of an array"):
        shape.dimensions()


def test_token_shape() -> None:
    shape = xc.Shape.token_shape()
    assert shape.is_token()
    assert shape.xla_element_type() is xc.PrimitiveType.TOKEN
    with pytest.raises(TypeError, match="expected the shape of a tuple"):
        shape.tuple_shapes()


def test_bounded_sizes() -> None:
    shape = xc.Shape.array_shape(F32, (2, 3), None, [True, False])
    assert repr(shape) == "f32[<=2,3]{1,0}"
    assert shape.is_dynamic()
    assert shape.is_dynamic_dimension(0)
    assert not shape.is_dynamic_dimension(1)
    shape.set_dynamic_dimension(0, False)
    assert shape.is_static()
    assert shape == xc.Shape("f32[2,3]")


@each_row(
    "text, proto",
    [  # the bytes are those of jaxlib 0.6.0
        ("f32[2,3]", b"\x10\x0b\x1a\x02\x02\x03*\x07\n\x02\x01\x00\x80\x01\x012\x02\x00\x00"),
        ("token[]", b"\x10\x11"),
        ("(token[])", b'\x10\r"\x02\x10\x11'),
    ],
)
def test_serialized_shape(text: str, proto: bytes) -> None:
    assert xc.Shape(text).to_serialized_proto() == proto


def test_invalid_shapes() -> None:
    with pytest.raises(xc.XlaRuntimeError, match=r"INVALID_ARGUMENT: Shape: "):
        xc.Shape("f32[2")
    with pytest.raises(TypeError, match="expected the element type of an array"):
        xc.Shape.scalar_shape(xc.PrimitiveType.TUPLE)
    with pytest.raises(TypeError, match="dynamic_dimensions needs 2 members"):
        xc.Shape.array_shape(F32, (2, 3), None, [True])
    with pytest.raises(xc.XlaRuntimeError, match="permutation"):
        xc.Shape.array_shape(F32, (2, 3), (0, 0))


def test_shapes_of_values() -> None:
    assert xc.shape_from_pyval(np.float32(1)) == xc.Shape("f32[]")
    assert xc.shape_from_pyval(np.zeros((2, 3), np.int8), (0, 1)) == xc.Shape("s8[2,3]{0,1}")
    assert xc.shape_from_pyval((np.zeros(2), ())) == xc.Shape("(f64[2], ())")


def test_program_shape() -> None:
    shape = xc.ProgramShape([xc.Shape("f32[]"), xc.Shape("s32[2]")], xc.Shape("pred[]"))
    assert shape.parameter_shapes() == [xc.Shape("f32[]"), xc.Shape("s32[2]")]
    assert shape.result_shape() == xc.Shape("pred[]")
    assert repr(shape) == "(p0: f32[], p1: s32[2]) -> pred[]"


def test_shape_index() -> None:
    assert xc.ShapeIndex((1, 2)) == xc.ShapeIndex([1, 2]) != xc.ShapeIndex((2, 3))
    assert repr(xc.ShapeIndex((1, 2))) == "{1,2}"


@each_row("kind", xc.XLA_ELEMENT_TYPE_TO_DTYPE)
def test_element_types(kind: xc.PrimitiveType) -> None:
    dtype = xc.XLA_ELEMENT_TYPE_TO_DTYPE[kind]
    if dtype == np.dtype(object):
        assert kind.name in ("TUPLE", "TOKEN")
    else:
        assert xc.dtype_to_etype(dtype) is kind
        assert xc.Shape.scalar_shape(dtype).xla_element_type() is kind


def test_narrow_types() -> None:
    assert xc.bfloat16 is ml_dtypes.bfloat16
    assert xc.float8_e4m3fn is ml_dtypes.float8_e4m3fn
    assert xc.float8_e5m2 is ml_dtypes.float8_e5m2
