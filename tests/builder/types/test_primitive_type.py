"""Primitive types, compared with the types of NumPy and ml_dtypes."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tables import each_row

import builder as xb
from builder.types.primitive_type import ALL, Kind

# XLA's name, NumPy type, bits, kind: from xla_data.proto and the names of the NumPy types.
TABLE: list[tuple[str, Any, int, Kind]] = [
    ("pred", np.bool_, 1, Kind.PRED),
    ("s2", ml_dtypes.int2, 2, Kind.SIGNED),
    ("s4", ml_dtypes.int4, 4, Kind.SIGNED),
    ("s8", np.int8, 8, Kind.SIGNED),
    ("s16", np.int16, 16, Kind.SIGNED),
    ("s32", np.int32, 32, Kind.SIGNED),
    ("s64", np.int64, 64, Kind.SIGNED),
    ("u2", ml_dtypes.uint2, 2, Kind.UNSIGNED),
    ("u4", ml_dtypes.uint4, 4, Kind.UNSIGNED),
    ("u8", np.uint8, 8, Kind.UNSIGNED),
    ("u16", np.uint16, 16, Kind.UNSIGNED),
    ("u32", np.uint32, 32, Kind.UNSIGNED),
    ("u64", np.uint64, 64, Kind.UNSIGNED),
    ("f4e2m1fn", ml_dtypes.float4_e2m1fn, 4, Kind.FLOAT),
    ("f8e3m4", ml_dtypes.float8_e3m4, 8, Kind.FLOAT),
    ("f8e4m3", ml_dtypes.float8_e4m3, 8, Kind.FLOAT),
    ("f8e4m3fn", ml_dtypes.float8_e4m3fn, 8, Kind.FLOAT),
    ("f8e4m3b11fnuz", ml_dtypes.float8_e4m3b11fnuz, 8, Kind.FLOAT),
    ("f8e4m3fnuz", ml_dtypes.float8_e4m3fnuz, 8, Kind.FLOAT),
    ("f8e5m2", ml_dtypes.float8_e5m2, 8, Kind.FLOAT),
    ("f8e5m2fnuz", ml_dtypes.float8_e5m2fnuz, 8, Kind.FLOAT),
    ("f8e8m0fnu", ml_dtypes.float8_e8m0fnu, 8, Kind.FLOAT),
    ("bf16", ml_dtypes.bfloat16, 16, Kind.FLOAT),
    ("f16", np.float16, 16, Kind.FLOAT),
    ("f32", np.float32, 32, Kind.FLOAT),
    ("f64", np.float64, 64, Kind.FLOAT),
    ("c64", np.complex64, 64, Kind.COMPLEX),
    ("c128", np.complex128, 128, Kind.COMPLEX),
]
NAMES = [row[0] for row in TABLE]


def limits(dtype: Any, kind: Kind) -> tuple[Any, Any]:
    """Smallest and largest finite value, from NumPy or ml_dtypes."""
    if kind is Kind.PRED:
        return False, True
    if kind in (Kind.SIGNED, Kind.UNSIGNED):
        info = ml_dtypes.iinfo(dtype) if np.dtype(dtype).kind == "V" else np.iinfo(dtype)
        return int(info.min), int(info.max)
    # A complex type has the range of its parts.
    part = np.empty(0, dtype).real.dtype if kind is Kind.COMPLEX else dtype
    info = ml_dtypes.finfo(part)
    return float(info.min), float(info.max)


def test_the_table_is_complete() -> None:
    assert [t.name for t in ALL] == NAMES


@each_row("name, dtype, bits, kind", TABLE)
class TestEveryType:
    def test_properties(self, name: str, dtype: Any, bits: int, kind: Kind) -> None:
        t = getattr(xb, name)
        assert (t.name, t.bits, t.kind) == (name, bits, kind)
        assert t.dtype == np.dtype(dtype)
        assert str(t) == name

    def test_range(self, name: str, dtype: Any, bits: int, kind: Kind) -> None:
        t = getattr(xb, name)
        assert (t.min, t.max) == limits(dtype, kind)
        assert type(t.max) is type(limits(dtype, kind)[1])

    def test_kind_flags(self, name: str, dtype: Any, bits: int, kind: Kind) -> None:
        t = getattr(xb, name)
        assert t.is_array_element
        assert t.is_floating == (kind is Kind.FLOAT)
        assert t.is_complex == (kind is Kind.COMPLEX)
        assert t.is_integral == (kind in (Kind.SIGNED, Kind.UNSIGNED))
        assert t.is_signed == (kind in (Kind.SIGNED, Kind.FLOAT))

    def test_bytes_are_those_of_numpy(self, name: str, dtype: Any, bits: int, kind: Kind) -> None:
        assert getattr(xb, name).byte_width == np.dtype(dtype).itemsize

    def test_lookup_by_name_and_by_dtype(
        self, name: str, dtype: Any, bits: int, kind: Kind
    ) -> None:
        t = getattr(xb, name)
        for value in (t, name, dtype, np.dtype(dtype), np.dtype(dtype).newbyteorder(">")):
            assert xb.as_primitive_type(value) is t

    def test_copies_are_the_same_object(self, name: str, dtype: Any, bits: int, kind: Kind) -> None:
        t = getattr(xb, name)
        assert pickle.loads(pickle.dumps(t)) is t
        assert copy.deepcopy(t) is t
        assert copy.copy(t) is t

    def test_makes_shapes(self, name: str, dtype: Any, bits: int, kind: Kind) -> None:
        assert str(getattr(xb, name)[2, 3]) == f"{name}[2,3]"
        assert str(getattr(xb, name)[()]) == f"{name}[]"


def test_parts_of_complex_types() -> None:
    assert xb.c64.real_type is xb.f32
    assert xb.c128.real_type is xb.f64
    assert xb.bf16.real_type is xb.bf16
    assert [t.complex_type for t in (xb.f32, xb.f64, xb.bf16, xb.c64)] == [
        xb.c64,
        xb.c128,
        None,
        None,
    ]


@each_row("name", ["f99", "int128", "float", "", "tuple", "token", "f32[]", " f32"])
def test_unknown_name(name: str) -> None:
    with pytest.raises(xb.PrimitiveTypeError, match=r"unknown primitive type .*; the types are: "):
        xb.as_primitive_type(name)


@each_row(
    "dtype", [object, np.longdouble, "datetime64[s]", np.dtype([("a", np.int8)]), np.str_, bytes]
)
def test_dtype_without_primitive_type(dtype: Any) -> None:
    with pytest.raises(xb.PrimitiveTypeError, match="has no primitive type in XLA"):
        xb.as_primitive_type(np.dtype(dtype))


@each_row("value", [None, 3, 1.5, [], xb.f32[2]])
def test_not_a_type(value: Any) -> None:
    message = r"as_primitive_type: value: (expected a primitive type, .*, got|NumPy dtype)"
    with pytest.raises(xb.PrimitiveTypeError, match=message):
        xb.as_primitive_type(value)
    with pytest.raises(xb.PrimitiveTypeError, match=r"shape: element_type: (expected|NumPy dtype)"):
        xb.array_shape(value, [2])


def test_iterating_ends() -> None:
    with pytest.raises(TypeError, match="iter: a primitive type is not iterable, got f32\nfix"):
        list(xb.f32)


def test_type_used_as_a_shape() -> None:
    with pytest.raises(
        xb.OperandError, match=r"the element type f32\nfix: write xb.f32\[2, 3\] with the sizes, or"
    ):
        xb.XlaBuilder().parameter(xb.f32)  # type: ignore[arg-type]
