"""Constants: element types, representable values, and ownership of memory."""

from __future__ import annotations

import _thread
import math
import mmap
import re
import threading
import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st
from tables import each_row

import builder as xb
from builder.support.caches import MAX_SIGNATURES
from builder.types.constant import scalar_constant
from builder.types.primitive_type import ALL

FLOATS = [t for t in ALL if t.is_floating]
INTEGERS = [t for t in ALL if t.is_integral]


def value_of(op: xb.XlaOp) -> np.ndarray[Any, Any]:
    return op.attributes["value"]


def some_values(t: xb.PrimitiveType) -> np.ndarray[Any, Any]:
    """Return a 2x3 array that every type represents: powers of two, as f8e8m0fnu has no 0."""
    return np.array([[1, 1, 1], [1, 1, 1]]).astype(t.dtype)


@each_row("t", ALL)
class TestArrayOfEveryType:
    def test_keeps_type_and_values(self, t: xb.PrimitiveType) -> None:
        array = some_values(t)
        op = xb.XlaBuilder().constant(array)
        assert op.shape is t[2, 3]
        assert value_of(op).dtype == t.dtype
        assert value_of(op).tobytes() == array.tobytes()

    def test_scalar_of_the_type(self, t: xb.PrimitiveType) -> None:
        op = xb.XlaBuilder().constant(some_values(t)[0, 0])
        assert op.shape is t[()]

    def test_empty(self, t: xb.PrimitiveType) -> None:
        assert xb.XlaBuilder().constant(np.empty((2, 0), t.dtype)).shape is t[2, 0]

    def test_requested_type_must_be_that_of_the_array(self, t: xb.PrimitiveType) -> None:
        b = xb.XlaBuilder()
        assert b.constant(some_values(t), t).shape is t[2, 3]
        other = xb.f32 if t is not xb.f32 else xb.f64
        with pytest.raises(
            xb.ConstantError, match=f"the element type of the array, {t}, got {other}"
        ):
            b.constant(some_values(t), other)


class TestMemory:
    def test_big_endian_is_converted(self) -> None:
        array = np.array([1, 2, 515], ">i4")
        held = value_of(xb.XlaBuilder().constant(array))
        assert held.dtype == np.dtype("=i4")
        assert held.tolist() == [1, 2, 515]

    @each_row("view", [lambda a: a.T, lambda a: a[::2], lambda a: a[:, ::-1], np.asfortranarray])
    def test_non_contiguous(self, view: Callable[[Any], Any]) -> None:
        array = view(np.arange(12, dtype=np.int32).reshape(4, 3))
        held = value_of(xb.XlaBuilder().constant(array))
        assert held.flags.c_contiguous
        np.testing.assert_array_equal(held, array)

    def test_later_writes_have_no_effect(self) -> None:
        array = np.zeros(3, np.float32)
        op = xb.XlaBuilder().constant(array)
        array[:] = 7
        assert value_of(op).tolist() == [0, 0, 0]

    def test_later_writes_through_the_base_have_no_effect(self) -> None:
        array = np.zeros(3, np.float32)
        view = array.view()
        view.flags.writeable = False
        op = xb.XlaBuilder().constant(view)
        array[:] = 7
        assert value_of(op).tolist() == [0, 0, 0]

    def test_is_read_only(self) -> None:
        held = value_of(xb.XlaBuilder().constant(np.zeros(3, np.float32)))
        with pytest.raises(ValueError, match="read-only"):
            held[0] = 1

    def test_read_only_is_not_copied(self) -> None:
        array = np.zeros(3, np.float32)
        array.flags.writeable = False
        assert value_of(xb.XlaBuilder().constant(array)) is array
        buffer = np.frombuffer(b"\0" * 8, np.float32)
        assert np.shares_memory(value_of(xb.XlaBuilder().constant(buffer)), buffer)

    def test_writable_memory_is_copied(self) -> None:
        """Read-only views of writable memory."""
        content = np.arange(16, dtype=np.uint8)
        memory = bytearray(content)
        mapped = mmap.mmap(-1, 16)
        mapped[:] = bytes(content)
        behind = content.copy()
        between = behind[2:14]
        between.flags.writeable = False
        views = [
            np.frombuffer(memory, np.uint8),
            np.frombuffer(memoryview(memory).toreadonly(), np.uint8),
            np.frombuffer(mapped, np.uint8),
            between[1:].reshape(-1)[:4],
        ]
        expected = [array.tolist() for array in views]
        for array in views:
            array.flags.writeable = False
        b = xb.XlaBuilder()
        held = [value_of(b.constant(array)) for array in views]
        memory[:] = bytes(16)
        mapped[:] = bytes(16)
        behind[:] = 0
        assert [array.tolist() for array in held] == expected
        assert not any(array.any() for array in views)

    @each_row("is_writable", [True, False])
    @each_row(
        "view",
        [
            lambda a: np.broadcast_to(a[:1, :1], (2, 3)),
            lambda a: np.broadcast_to(a[0], (2, 3)),
            lambda a: np.broadcast_to(a[:, ::-1][:, :1], (4, 5)),
            lambda a: np.lib.stride_tricks.as_strided(a, (1, 3), (0, 4)),
            lambda a: np.lib.stride_tricks.as_strided(a, (1, 3, 1), (1000, -4, 7))[:, :1],
            lambda a: a[0, 0, None][0:1],
            lambda a: a[1, 2, ...],
            lambda a: a[:0],
            lambda a: np.broadcast_to(a[:1, :0], (7, 0)),
            lambda a: a.view(np.recarray),
            lambda a: np.asarray(a.view(np.recarray))[1:],
            lambda a: a.astype(np.dtype("i4", metadata={"unit": "m"})),
            lambda a: a.astype(a.dtype.newbyteorder()),
            lambda a: np.frombuffer(b"\0" + a.tobytes(), np.uint8)[1:].view(np.int32),
        ],
    )
    def test_odd_arrays(self, view: Callable[[Any], Any], is_writable: bool) -> None:
        """Sizes of 1 with any stride, strides of 0, rank 0, other classes, unaligned memory."""
        array = view(np.arange(12, dtype=np.int32).reshape(4, 3))
        if not is_writable:
            array.flags.writeable = False
        for element_type in (None, xb.s32):
            op = xb.XlaBuilder().constant(array, element_type)
            held = value_of(op)
            assert op.shape is xb.s32[array.shape]
            assert type(held) is np.ndarray
            assert not held.flags.writeable
            assert held.dtype == np.dtype("=i4")
            np.testing.assert_array_equal(held, array)

    @each_row("writable, copies", [(True, 1), (False, 0)])
    def test_64_megabytes_are_copied_once_or_not_at_all(self, writable: bool, copies: int) -> None:
        size = 64 * 2**20
        array = np.ones(size // 4, np.float32)
        array.flags.writeable = writable
        b = xb.XlaBuilder()
        tracemalloc.start()
        try:
            op = b.constant(array)
            held, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert copies * size <= peak < copies * size + 2**20
        assert held < copies * size + 2**20
        assert value_of(op).nbytes == size

    def test_big_endian_is_copied_once(self) -> None:
        size = 64 * 2**20
        array = np.ones(size // 4, ">f4").T[::1]
        tracemalloc.start()
        try:
            xb.XlaBuilder().constant(array)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert size <= peak < size + 2**20


class TestInvalidConstants:
    @each_row(
        "value, message",
        [
            (
                np.array([1, "a", None], object),
                "constant: NumPy dtype object has no primitive type",
            ),
            (np.array(["abc"]), "constant: NumPy dtype str96 has no primitive type"),
            (np.array([b"abc"]), "constant: NumPy dtype bytes24 has no primitive type"),
            (np.array("2020", np.datetime64), r"NumPy dtype datetime64\[Y\] has no primitive type"),
            (np.longdouble(1), "has no primitive type"),
            (
                np.ma.array([1, 2], mask=[0, 1]),
                "value must be an array of numbers, got a masked array\nfix: fill .*filled",
            ),
            ([[1, 2], [3]], "nested lists must have equal lengths"),
            (1, "the Python number 1 has no element type\nfix: write b.constant"),
            (1.5, "the Python number 1.5 has no element type\nfix"),
            ([1, 2], "lists of Python numbers have no element type\nfix: write"),
            ([], "lists of Python numbers have no element type"),
        ],
    )
    def test_values_without_a_type(self, value: Any, message: str) -> None:
        with pytest.raises(xb.ConstantError, match=message):
            xb.XlaBuilder().constant(value)

    @each_row("value", ["abc", b"abc", None, object(), {1: 2}])
    def test_not_numbers(self, value: Any) -> None:
        with pytest.raises(
            xb.OperandError,
            match=f"constant: expected an array, .* got {type(value).__name__}",
        ):
            xb.XlaBuilder().constant(value)

    @each_row(
        "value, got",
        [
            (["a"], "str: 'a'"),
            ([1, None], "NoneType: None"),
            ([1, {}], "dict: {}"),
            ([1, memoryview(b"ab")], r"memoryview: .*\nfix: join arrays first: numpy.stack"),
        ],
    )
    def test_lists_of_other_values(self, value: Any, got: str) -> None:
        with pytest.raises(
            xb.OperandError, match=f"constant: nested lists must contain numbers, got {got}"
        ):
            xb.XlaBuilder().constant(value, xb.f32)

    def test_lists_that_contain_themselves(self) -> None:
        whole: list[Any] = []
        whole += [whole, whole]
        for value in (whole, [whole, whole]):
            with pytest.raises(xb.ConstantError, match="nested lists must have at most 64 levels"):
                xb.XlaBuilder().constant(value, xb.f32)

    def test_op(self) -> None:
        b = xb.XlaBuilder()
        with pytest.raises(xb.OperandError, match="got XlaOp"):
            b.constant(b.parameter(xb.f32[2]))
        with pytest.raises(
            xb.OperandError, match=r"numbers, got XlaOp: .*\nfix: join ops with xb.con"
        ):
            b.constant([b.parameter(xb.f32[2])], xb.f32)

    @each_row("value", [Fraction(1, 3), [Fraction(1, 3)]])
    def test_other_numbers(self, value: Any) -> None:
        with pytest.raises(
            xb.ConstantError, match="a Fraction is neither int, float nor complex\nfix: convert"
        ):
            xb.XlaBuilder().constant(value, xb.f32)

    def test_unknown_type(self) -> None:
        with pytest.raises(xb.PrimitiveTypeError, match="unknown primitive type 'f99'"):
            xb.XlaBuilder().constant(1, "f99")


class TestPythonNumbers:
    @each_row("t", INTEGERS)
    def test_ints_in_integer_types(self, t: xb.PrimitiveType) -> None:
        info = ml_dtypes.iinfo(t.dtype) if t.bits < 8 else np.iinfo(t.dtype)
        b = xb.XlaBuilder()
        for value in (int(info.min), int(info.max), 0, 1):
            assert int(value_of(b.constant(value, t))[()]) == value
        for value in (int(info.min) - 1, int(info.max) + 1, 2**70, -(2**70)):
            with pytest.raises(xb.ConstantError) as caught:
                b.constant(value, t)
            rule, _, fix = str(caught.value).partition("\nfix: ")
            assert rule == (
                f"constant: {t} can't represent the Python number {value}: "
                f"the range is {int(info.min)} to {int(info.max)}"
            )
            suggested = re.findall(r"use a type such as (\w+)$", fix)
            assert bool(suggested) == (-(2**63) <= value < 2**64)
            for name in suggested:
                b.constant(value, name)
            wrapped = re.findall(r"write (\d+), which has the same bits", fix)
            assert wrapped == ([str(value % 2**t.bits)] if t.min == 0 and value == -1 else [])

    @each_row("t", INTEGERS)
    @each_row(
        "value, message",
        [
            (1.0, "the number is a float, and the type is an integer type\nfix: write 1"),
            (1.5, "the number is a float, and the type is an integer type\nfix: write an integer"),
            (float("nan"), "the number is a float"),
            (True, "a bool has type pred\nfix: write 1 or 0"),
            (1j, "the number is complex, and the type is not"),
        ],
    )
    def test_integer_types_refuse(self, t: xb.PrimitiveType, value: Any, message: str) -> None:
        with pytest.raises(
            xb.ConstantError, match=f"{t} can't represent the Python number .*{message}"
        ):
            xb.XlaBuilder().constant(value, t)

    @each_row("t", FLOATS)
    def test_ints_in_floating_types_must_be_exact(self, t: xb.PrimitiveType) -> None:
        info = ml_dtypes.finfo(t.dtype)
        largest = float(info.max)
        b = xb.XlaBuilder()
        for value in range(-20, 20):
            if value == 0 and t is xb.f8e8m0fnu:
                exact = False  # it has no zero
            else:
                with np.errstate(all="ignore"):
                    stored = float(np.asarray(value, np.float64).astype(t.dtype))
                exact = abs(value) <= largest and stored == value
            if exact:
                assert float(value_of(b.constant(value, t))[()]) == value
            else:
                with pytest.raises(
                    xb.ConstantError, match=f"{t} can't represent the Python number {value}"
                ):
                    b.constant(value, t)

    @each_row(
        "t, first_missing",
        [(xb.f16, 2**11 + 1), (xb.bf16, 2**8 + 1), (xb.f32, 2**24 + 1), (xb.f64, 2**53 + 1)],
    )
    def test_smallest_int_that_a_floating_type_does_not_represent(
        self, t: xb.PrimitiveType, first_missing: int
    ) -> None:
        b = xb.XlaBuilder()
        b.constant(first_missing - 1, t)
        with pytest.raises(
            xb.ConstantError, match="the nearest number that the type represents is"
        ):
            b.constant(first_missing, t)

    @each_row("t", FLOATS)
    def test_floats_round_and_do_not_overflow(self, t: xb.PrimitiveType) -> None:
        info = ml_dtypes.finfo(t.dtype)
        largest = float(info.max)
        b = xb.XlaBuilder()
        assert float(value_of(b.constant(largest, t))[()]) == largest
        third = float(value_of(b.constant(1 / 3, t))[()])
        assert third == float(np.float64(1 / 3).astype(t.dtype))
        if t is not xb.f64:
            for value in (largest * 2, largest * 1.6):
                with pytest.raises(xb.ConstantError, match="the range is"):
                    b.constant(value, t)

    @each_row("t", FLOATS)
    @each_row("value", [float("inf"), float("-inf"), float("nan")])
    def test_special_values(self, t: xb.PrimitiveType, value: float) -> None:
        with np.errstate(all="ignore"):
            stored = float(np.float64(value).astype(t.dtype))
        # float4_e2m1fn and the "fn" types saturate or give NaN in place of an infinity.
        has_it = (stored == value) or (value != value and stored != stored)
        b = xb.XlaBuilder()
        if has_it:
            assert repr(float(value_of(b.constant(value, t))[()])) == repr(value).replace(
                "-nan", "nan"
            )
        else:
            with pytest.raises(xb.ConstantError, match=r"have this infinity|no NaN|no negative"):
                b.constant(value, t)

    @each_row(
        "value, t, fits",
        [
            (65519.0, xb.f16, True),
            (65520.0, xb.f16, False),
            (6.9, xb.f4e2m1fn, True),
            (7.0, xb.f4e2m1fn, False),
            (448.0, xb.f8e4m3fn, True),
            (480.0, xb.f8e4m3fn, False),
            (3.4028235e38, xb.f32, True),
            (3.5e38, xb.f32, False),
            (2**100, xb.f32, True),
            (2**128, xb.f32, False),
            (10**400, xb.f64, False),
            (1e-60, xb.f32, True),
            (-1.0, xb.f8e8m0fnu, False),
        ],
    )
    def test_limits_of_the_range(self, value: Any, t: xb.PrimitiveType, fits: bool) -> None:
        b = xb.XlaBuilder()
        if fits:
            b.constant(value, t)
        else:
            with pytest.raises(xb.ConstantError, match=f"{t} can't represent"):
                b.constant(value, t)

    @each_row("t", [xb.s32, xb.f32, xb.c64, xb.pred])
    def test_ints_that_python_does_not_print(self, t: xb.PrimitiveType) -> None:
        with pytest.raises(xb.ConstantError, match=r"an int of 16610 bits|True or False"):
            xb.XlaBuilder().constant(10**5000, t)

    def test_pred(self) -> None:
        b = xb.XlaBuilder()
        assert b.constant(True).shape is xb.pred[()]
        assert b.constant(False, xb.pred).attributes["value"][()] == np.False_
        for value in (1, 0, 1.0):
            with pytest.raises(xb.ConstantError, match="a pred value is True or False"):
                b.constant(value, xb.pred)

    @each_row("t, part", [(xb.c64, np.float32), (xb.c128, np.float64)])
    def test_complex(self, t: xb.PrimitiveType, part: Any) -> None:
        b = xb.XlaBuilder()
        held = value_of(b.constant(1.25 - 2j, t))
        assert (held.real[()], held.imag[()]) == (part(1.25), part(-2))
        assert value_of(b.constant(3, t))[()] == 3
        with pytest.raises(xb.ConstantError, match="the range is"):
            b.constant(complex(0, 1e39) if t is xb.c64 else 10**400, t)

    @given(st.floats(width=32))
    def test_floats_are_rounded_as_numpy_does(self, value: float) -> None:
        held = value_of(xb.XlaBuilder().constant(value, xb.f32))
        assert held.tobytes() == np.float32(value).tobytes() or value != value


class TestLists:
    def test_nested(self) -> None:
        op = xb.XlaBuilder().constant([[1, 2, 3], [4, 5, 6]], xb.s8)
        assert op.shape is xb.s8[2, 3]
        assert value_of(op).tolist() == [[1, 2, 3], [4, 5, 6]]

    def test_bools_need_no_type(self) -> None:
        assert xb.XlaBuilder().constant([True, False]).shape is xb.pred[2]

    def test_huge_ints(self) -> None:
        op = xb.XlaBuilder().constant([2**64 - 1, 0], xb.u64)
        assert value_of(op).tolist() == [2**64 - 1, 0]
        with pytest.raises(xb.ConstantError, match="the range is 0 to 18446744073709551615"):
            xb.XlaBuilder().constant([2**64], xb.u64)

    def test_every_number_is_checked(self) -> None:
        with pytest.raises(xb.ConstantError, match="s8 can't represent the Python number 300"):
            xb.XlaBuilder().constant([[1, 2], [3, 300]], xb.s8)

    def test_empty(self) -> None:
        assert xb.XlaBuilder().constant([[], []], xb.f32).shape is xb.f32[2, 0]


class TestArrayInterface:
    def test_array_interface(self) -> None:
        class Holder:
            def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
                return np.arange(3, dtype=np.int16)

        assert xb.XlaBuilder().constant(Holder()).shape is xb.s16[3]


def test_a_constant_that_c_records_has_no_line() -> None:
    """A thread's first function has no Python code above it."""
    done = threading.Event()

    class Value:
        def __array__(self, *_: Any, **__: Any) -> np.ndarray[Any, Any]:
            return np.arange(3)

        def __del__(self) -> None:
            done.set()

    b = xb.XlaBuilder()
    _thread.start_new_thread(b.constant, (Value(),))
    assert done.wait(30)
    assert [op.source for op in b.ops] == [None]
    assert value_of(b.ops[0]).tolist() == [0, 1, 2]


def test_equal_numbers_share_their_attributes() -> None:
    b = xb.XlaBuilder()
    x, integers = b.parameter(xb.f32[2]), b.parameter(xb.s32[2])

    def constant(op: xb.XlaOp) -> xb.XlaOp:
        return op.operands[1].operands[0]

    one = constant(x + 1.0)
    assert constant(xb.max(x, 1.0)).attributes is one.attributes
    assert not one.attributes["value"].flags.writeable
    # Equal keys in Python, but different numbers: by type, sign, or element type.
    for other in (constant(x + 1), constant(integers + 1), constant(x + np.float32(1))):
        assert other.attributes is not one.attributes
        assert other.attributes["value"] == 1
    zero, negative = constant(x + 0.0), constant(x + -0.0)
    assert np.signbit(negative.attributes["value"])
    assert not np.signbit(zero.attributes["value"])
    assert constant(x * -0.0).attributes is negative.attributes
    assert np.isnan(constant(x + float("nan")).attributes["value"])
    assert constant(b.parameter(xb.pred[2]) & True).attributes["value"].dtype == bool
    for wrong in (True, 10**400, 2**200 + 1):
        for function in (xb.add, xb.mul, xb.add):
            with pytest.raises(xb.ConstantError) as caught:
                function(x, wrong)
            assert str(caught.value).startswith(f"{caught.value.op}: f32 can't represent")
            assert caught.value.op == function.__name__


@each_row(
    "element_type, data, expected",
    [
        (xb.pred, b"\x00\x02\xff\x01", [False, True, True, True]),
        (xb.u2, b"\x0f\xf1\xfc\x02", [3, 1, 0, 2]),
        (xb.s2, b"\x0f\xf1\xfc\x02", [-1, 1, 0, -2]),
        (xb.u4, b"\x1f\xf1\xf0\x0a", [15, 1, 0, 10]),
        (xb.s4, b"\x1f\xf1\xf0\x0a", [-1, 1, 0, -6]),
        (xb.f4e2m1fn, b"\x12\xf1\xf0\x0a", [-1, -0.5, -0.0, -1]),
    ],
)
def test_unused_bits_are_ignored(
    element_type: xb.PrimitiveType, data: bytes, expected: list[float]
) -> None:
    """Memory viewed as narrow elements; NumPy and the constant ignore the unused bits."""
    array = np.frombuffer(data, element_type.dtype)
    assert array.astype(np.float32).tolist() == expected
    b = xb.XlaBuilder("bits")
    held = b.constant(array).attributes["value"]
    used = 2**element_type.bits - 1
    expected_bits = np.array(expected).astype(element_type.dtype).view(np.uint8) & used
    assert held.view(np.uint8).tolist() == expected_bits.tolist()
    assert not held.flags.writeable


@each_row("element_type", ALL)
def test_lists_are_converted_like_numbers(element_type: xb.PrimitiveType) -> None:
    """Lists of one kind of numbers are converted at once."""
    b = xb.XlaBuilder()
    numbers: list[Any] = [1, 0, 5, -3, 300, 2**31, -(2**63), 2**64 - 1, 2**64]
    numbers += [1.0, 0.1, -0.0, 448.0, 1e38, 3.5e38, float("inf"), float("nan"), -2.5, 1j, True]

    def constant(value: Any) -> bytes | None:
        try:
            return value_of(b.constant(value, element_type)).tobytes()
        except xb.ConstantError:
            return None

    for kind in (int, float, complex, bool):
        constants = [(n, constant(n)) for n in numbers if type(n) is kind]
        for (n, first), (m, second) in product(constants, repeat=2):
            if first is None or second is None:
                with pytest.raises(xb.ConstantError, match="can't represent the Python number"):
                    b.constant([n, m], element_type)
            else:
                assert value_of(b.constant([n, m], element_type)).tobytes() == first + second


def test_scalars_are_shared_unless_they_are_nan() -> None:
    """A NaN is a key that is never found: NaNs would displace the other numbers."""
    number = scalar_constant(0.5, xb.f32)
    for _ in range(3 * MAX_SIGNATURES):
        assert math.isnan(scalar_constant(float("nan"), xb.f32)[1]["value"])
    assert scalar_constant(0.5, xb.f32)[1] is number[1]
