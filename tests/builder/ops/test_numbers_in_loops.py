"""Numbers and NumPy arrays as initial values of loops and as operands of branches."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import builder as xb
import lowering
from builder import lib


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
    """Without an op there is no builder, unless a function is being recorded."""
    match = r"one operand .*\nfix: pass one init as an op: b\.constant\(number, element_type\)"
    for init in (0, (0, 1.0), np.zeros(3)):
        with pytest.raises(xb.OperandError, match=f"while_: .*{match}"):
            xb.while_(never, same, init)
    with pytest.raises(xb.OperandError, match=f"scan: .*{match}"):
        xb.scan([], 0, lambda c: c + 1, 0, 5)
    with pytest.raises(xb.OperandError, match=r"for_each_index: .*\nfix: pass builder=b"):
        lib.for_each_index(5, xb.s32, lambda i, values: values, [0])
    [count] = lib.for_each_index(5, xb.s32, lambda i, values: values, [0], builder=b)
    assert count.builder is b


def test_numbers_alone_in_a_function() -> None:
    """The loops belong to the function that is being recorded."""

    @lowering.jit
    def counts(limit: xb.XlaOp) -> Any:
        alone = xb.while_(lambda i: i < limit, lambda i: i + 3, 1)
        single = xb.while_(lambda i: i[0] < limit, lambda i: [i[0] * 2], (np.int32(1),))[0]
        pair = xb.while_(lambda s: s[0] < limit, lambda s: (s[0] + 1, s[1] / 2), (0, 8.0))
        scanned = xb.scan([], [0, True], lambda i, flag: (i + 2, xb.not_(flag)), 0, 5)
        (repeated,) = lib.for_each_index(4, xb.s32, lambda i, v: [v[0] * 2], [np.float64(0.5)])
        return alone, single, list(pair), list(scanned), repeated

    alone, single, pair, scanned, repeated = counts(np.int32(6))
    assert (int(alone), int(single), int(pair[0]), float(pair[1])) == (7, 8, 6, 0.125)
    assert (int(scanned[0]), bool(scanned[1])) == (10, False)
    assert float(repeated) == 8
    assert [str(x.dtype) for x in (alone, pair[1], repeated)] == ["int32", "float32", "float64"]


def test_arrays(b: xb.XlaBuilder) -> None:
    """A NumPy array keeps its type and sizes."""
    x, values = b.parameter(xb.f32[3]), np.arange(6, dtype=np.int16).reshape(2, 3)
    assert xb.while_(never, same, (x, values))[1].shape is xb.s16[2, 3]
    assert xb.scan(x, values, lambda e, c: (e, c), 0)[1].shape is xb.s16[2, 3]
    assert lib.while_loop_helper(never_of_list, list, [x, values])[1].shape is xb.s16[2, 3]
    constants = [op.attributes["value"] for op in b.ops if op.opcode == "constant"]
    assert len(constants) == 3
    for constant in constants:
        np.testing.assert_array_equal(constant, values, strict=True)


def never_of_list(values: Any) -> xb.XlaOp:
    return never(values[0])


def test_operands_of_branches(b: xb.XlaBuilder) -> None:
    """Numbers are typed like those of loops: by the computation, or by default."""
    pred, x = b.parameter(xb.pred[()]), b.parameter(xb.f64[3])
    doubled = xb.computation(xb.u8[()])(lambda n: n + n)
    chosen = xb.conditional(pred, 100, doubled, np.uint8(7), xb.neg)
    total = xb.conditional(pred, (x, 0.5), lambda v: v[0] + v[1], np.ones(3), lambda v: v)
    run = lowering.compile(b.build(xb.tuple(chosen, total)))
    for flag, number, expected in ((True, 200, [1.5, 2.5, 3.5]), (False, 249, [1, 1, 1])):
        result, array = run(flag, np.float64([1, 2, 3]))
        assert (int(result), str(result.dtype)) == (number, "uint8")
        np.testing.assert_array_equal(array, expected)


def test_operands_of_branches_that_do_not_fit(b: xb.XlaBuilder) -> None:
    pred, x = b.parameter(xb.pred[()]), b.parameter(xb.f32[3])
    doubled = xb.computation(xb.u8[()])(lambda n: n + n)
    with pytest.raises(
        xb.ConstantError, match=r"conditional: branch operand 1: u8 can't represent .* 256"
    ):
        xb.conditional(pred, 1, doubled, 256, doubled)
    with pytest.raises(
        xb.ConstantError, match=r"branch operand 0 element 1: s32 can't .*\nfix: pass a Num"
    ):
        xb.conditional(pred, (x, 2**31), lambda v: v[0], x, lambda v: v)
    with pytest.raises(xb.OperandError, match=r"branch operand 1 element 1 must be an XlaOp, got "):
        xb.conditional(pred, 0, lambda v: x, (x, "1"), lambda v: v[0])  # type: ignore[call-overload]  # a string
    assert b.ops == [pred, x]


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
