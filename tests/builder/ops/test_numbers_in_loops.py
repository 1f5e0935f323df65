"""Python numbers in the initial state of `while_` and the initial carries of `scan`."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import builder as xb


def never(state: xb.XlaOp) -> xb.XlaOp:
    return state.builder.constant(False)


def same(state: xb.XlaOp) -> xb.XlaOp:
    return state


@pytest.fixture
def b() -> xb.XlaBuilder:
    return xb.XlaBuilder("main")


NUMBERS = [
    # The number, the type beside it, and the type that it gets.
    (True, xb.f32, xb.pred),
    (0, xb.f32, xb.s32),
    (0, xb.s8, xb.s32),
    (-(2**31), xb.u64, xb.s32),
    (0.1, xb.f32, xb.f32),
    (0.1, xb.f64, xb.f64),
    (0.1, xb.bf16, xb.bf16),
    (0.1, xb.s32, xb.f32),
    (0.1, xb.c128, xb.f32),
    (1j, xb.c128, xb.c128),
    (1j, xb.f64, xb.c64),
    (np.int8(3), xb.f32, xb.s8),
    (np.float64(0.1), xb.f32, xb.f64),
    (np.array(3, np.uint16), xb.f32, xb.u16),
    (ml_dtypes.bfloat16(0.5), xb.f32, xb.bf16),
]


@pytest.mark.parametrize(("number", "beside", "element_type"), NUMBERS)
def test_types(
    b: xb.XlaBuilder, number: Any, beside: xb.PrimitiveType, element_type: xb.PrimitiveType
) -> None:
    """A float has the floating-point type beside it, and the constant is NumPy's conversion."""
    x = b.parameter(xb.array_shape(beside, [3]))
    loop = xb.while_(never, same, (number, x))
    assert loop.shape == xb.tuple_shape([xb.array_shape(element_type, []), x.shape])
    scan = xb.scan(x, number, lambda e, c: (e, c), 0)
    assert scan.shape == xb.tuple_shape([x.shape, xb.array_shape(element_type, [])])
    constants = [op.attributes["value"] for op in b.ops if op.opcode == "constant"]
    expected = np.asarray(number).astype(element_type.dtype)
    for value in constants:
        assert value.tobytes() == expected.tobytes()
    assert len(constants) == 2


def test_different_types_beside_a_float(b: xb.XlaBuilder) -> None:
    x, y = b.parameter(xb.f64[3]), b.parameter(xb.bf16[3])
    assert xb.while_(never, same, (x, y, 0.5))[2].shape is xb.f32[()]
    assert xb.scan([x, y], 0.5, lambda e, f, c: (e, c), 0)[1].shape is xb.f32[()]


def test_the_type_of_a_recorded_computation(b: xb.XlaBuilder) -> None:
    """A computation that exists determines the types; the numbers must fit them."""
    state = xb.tuple_shape([xb.u8[()], xb.bf16[()], xb.f32[3]])
    other = xb.XlaBuilder("body")
    body = other.build(other.parameter(state))
    x = b.parameter(xb.f32[3])
    assert xb.while_(never, body, (200, 0.5, x)).shape == state
    condition = xb.computation(state)(never)
    assert xb.while_(condition, same, (200, 2, x)).shape == state
    count = len(b.ops)
    with pytest.raises(
        xb.ConstantError, match=r"while_: init 0: u8 can't represent .* 256: the ra"
    ):
        xb.while_(never, body, (256, 0.5, x))
    with pytest.raises(xb.ConstantError, match=r"init 1: bf16 can't .* 257: the nearest number"):
        xb.while_(never, body, (0, 257, x))
    assert len(b.ops) == count
    step = xb.computation(xb.f32[()], xb.s64[()])(lambda e, c: (e, c + 1))
    assert xb.scan(x, 2**40, step, 0)[1].shape is xb.s64[()]


@pytest.mark.parametrize(
    ("number", "beside", "message"),
    [
        (2**31, xb.f32, r"s32 can't .*range is .*\nfix: .* such as numpy\.int64\(2147483648\)$"),
        (2**63, xb.f32, r"\nfix: .* such as numpy\.uint64\(9223372036854775808\)$"),
        (1e39, xb.f32, r"f32 can't .*range is .*\nfix: .* such as numpy\.float64\(1e\+39\)$"),
        (70000.0, xb.f16, r"f16 can't .*\nfix: .* such as numpy\.float64\(70000\.0\)$"),
    ],
)
def test_numbers_that_do_not_fit(
    b: xb.XlaBuilder, number: Any, beside: xb.PrimitiveType, message: str
) -> None:
    x = b.parameter(xb.array_shape(beside, [3]))
    for use in (
        lambda: xb.while_(never, same, (x, number)),
        lambda: xb.scan(x, [x, number], lambda e, c, d: (e, c, d), 0),
    ):
        with pytest.raises(xb.ConstantError) as caught:
            use()
        text = str(caught.value)
        assert text.startswith(("while_: init 1: ", "scan: init 1: "))
        assert re.search(message, text), text
        assert b.ops == [x]


def test_numbers_alone(b: xb.XlaBuilder) -> None:
    for init in (0, (0, 1.0)):
        with pytest.raises(
            xb.OperandError, match=r"while_: .*\nfix: pass a number of init as an op"
        ):
            xb.while_(never, same, init)


def test_other_values(b: xb.XlaBuilder) -> None:
    x = b.parameter(xb.f32[3])
    with pytest.raises(xb.OperandError, match="while_: init 1 must be an XlaOp, got str: '0'"):
        xb.while_(never, same, (x, "0", 0))  # type: ignore[arg-type]


def test_a_failing_body_leaves_no_constant(b: xb.XlaBuilder) -> None:
    x = b.parameter(xb.f32[3])
    for use in (
        lambda: xb.while_(never, lambda s: s[0], (0, x)),
        lambda: xb.scan(x, 0, lambda e, c: (e, e), 0),
    ):
        with pytest.raises(xb.SignatureError):
            use()
        assert b.ops == [x]


def test_inside_a_body(b: xb.XlaBuilder) -> None:
    """The constant is recorded in the computation that contains the loop."""
    x = b.parameter(xb.f32[3])

    def body(value: xb.XlaOp) -> xb.XlaOp:
        return xb.while_(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] + x), (0, value))[1]

    called = xb.call(body, x)
    assert called.shape is xb.f32[3]
    assert [op.opcode for op in b.ops] == ["parameter", "call"]
