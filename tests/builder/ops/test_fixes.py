"""The fixes that messages name: each can be followed, and the corrected call records an op."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tables import each_row

import builder as xb
from builder import lib


class Values:
    """Parameters of one builder."""

    def __init__(self) -> None:
        b = self.builder = xb.XlaBuilder("values")
        self.x, self.y = b.parameter(xb.f32[4, 8]), b.parameter(xb.f32[3, 8])
        self.v = b.parameter(xb.f32[8])
        self.i, self.u = b.parameter(xb.s32[4]), b.parameter(xb.u8[3])
        self.batch, self.batch_t = b.parameter(xb.f32[2, 4, 8]), b.parameter(xb.f32[2, 8, 4])
        self.rows, self.triples = b.parameter(xb.s32[5, 1]), b.parameter(xb.s32[5, 3])


def dimensions(index_vector_dim: int) -> xb.GatherDimensionNumbers:
    return xb.GatherDimensionNumbers([1], [0], [0], index_vector_dim)


Call = Callable[[Values], object]

FIXES: dict[str, tuple[Call, Call]] = {
    "take a part of the operand of size 4 with xb.slice_in_dim(operand, 0, 3, dimno=0)": (
        lambda p: p.x + p.y,
        lambda p: xb.slice_in_dim(p.x, 0, 3, dimno=0) + p.y,
    ),
    "reshape rhs with xb.reshape(rhs, [4, 8])": (
        lambda p: p.x < p.builder.parameter(xb.f32[2, 16]),
        lambda p: p.x < xb.reshape(p.builder.parameter(xb.f32[2, 16]), [4, 8]),
    ),
    "transpose an operand with xb.transpose(operand, [1, 0])": (
        lambda p: p.x * p.builder.parameter(xb.f32[8, 4]),
        lambda p: p.x * xb.transpose(p.builder.parameter(xb.f32[8, 4]), [1, 0]),
    ),
    "write a limit of at most 8": (
        lambda p: xb.slice_in_dim(p.x, 0, 9, dimno=1),
        lambda p: xb.slice_in_dim(p.x, 0, 8, dimno=1),
    ),
    "write 7; indices are counted from 0": (
        lambda p: xb.slice_in_dim(p.x, -1, 8, dimno=1),
        lambda p: xb.slice_in_dim(p.x, 7, 8, dimno=1),
    ),
    "write xb.rem(lhs, rhs) for the sign of lhs, or "
    "xb.rem(xb.rem(lhs, rhs) + rhs, rhs) for the sign of rhs": (
        lambda p: p.i % 2,
        lambda p: xb.rem(xb.rem(p.i, 2) + 2, 2),
    ),
    "pass each operand before its computation: xb.conditional(pred, x, f, x, g)": (
        lambda p: xb.conditional(p.i, xb.exp, xb.neg, p.x),  # type: ignore[call-overload]
        lambda p: xb.conditional(p.builder.constant(True), p.x, xb.exp, p.x, xb.neg),
    ),
    "pass the values as operands, or write a function without parameters that uses them": (
        lambda p: xb.conditional(p.builder.constant(True), None, lambda x: x, None, lambda x: -x),
        lambda p: xb.conditional(p.builder.constant(True), p.x, lambda x: x, p.x, lambda x: -x),
    ),
    "pass a list of the arrays: xb.concatenate([x, y], dimension)": (
        lambda p: xb.concatenate(p.x, 0),
        lambda p: xb.concatenate([p.x], 0),
    ),
    "write xb.clamp(0.0, p.x, 1.0)": (
        lambda p: xb.clamp(p.x, 0.0, 1.0),  # type: ignore[arg-type]
        lambda p: xb.clamp(0.0, p.x, 1.0),
    ),
    "pass the values in a tuple, and select them by number": (
        lambda p: xb.while_(lambda s: s["i"] < 3, lambda s: s, {"i": p.i}),  # type: ignore[arg-type,call-overload]
        lambda p: xb.while_(lambda n: n < 3, lambda n: n + 1, p.builder.constant(0, xb.s32)),
    ),
    "record it with builder.constant(value, element_type), for instance with xb.s32": (
        lambda p: lib.take(p.x, [0, 1], 0),  # type: ignore[arg-type]
        lambda p: lib.take(p.x, p.builder.constant([0, 1], xb.s32), 0),
    ),
    "make dimension 1 of rhs 8; or state the order of the dimensions, if it is another one": (
        lambda p: xb.conv(xb.reshape(p.x, [1, 8, 4]), xb.reshape(p.x, [2, 4, 4]), [1], "SAME"),
        lambda p: xb.conv(xb.reshape(p.x, [1, 8, 4]), xb.reshape(p.x, [2, 8, 2]), [1], "SAME"),
    ),
    "axis=-1 is the last dimension, 1": (
        lambda p: lib.softmax(p.x, axis=2),
        lambda p: lib.softmax(p.x, axis=-1),
    ),
    "write xb.while_(condition, body, init)": (
        lambda p: xb.while_(p.v, lambda t: t < 1, lambda t: t + 1),  # type: ignore[arg-type]
        lambda p: xb.while_(lambda t: t < 1, lambda t: t + 1, p.builder.constant(0, xb.s32)),
    ),
    "write xb.map([p.x], xb.exp)": (
        lambda p: xb.map(xb.exp, [p.x]),  # type: ignore[arg-type,list-item]
        lambda p: xb.map([p.x], xb.exp),
    ),
    "write xb.scan(inputs, inits, computation, scan_dimension); the parameters are inputs, inits, "
    "computation, scan_dimension, scan_dimension_size, is_reverse, is_associative": (
        lambda p: xb.scan(lambda c, a: (c, a), p.v, p.x),  # type: ignore[arg-type,call-arg]
        lambda p: xb.scan(p.x, p.v, lambda a, c: (a, c), 0),
    ),
    "transpose rhs first with xb.transpose(rhs, [1, 0])": (
        lambda p: xb.dot(p.x, p.y),
        lambda p: xb.dot(p.x, xb.transpose(p.y, [1, 0])),
    ),
    "transpose lhs first with xb.transpose(lhs, [1, 0])": (
        lambda p: p.y @ p.builder.parameter(xb.f32[3, 5]),
        lambda p: xb.transpose(p.y, [1, 0]) @ p.builder.parameter(xb.f32[3, 5]),
    ),
    "exchange lhs and rhs": (
        lambda p: p.builder.parameter(xb.f32[8, 5]) @ p.x,
        lambda p: p.x @ p.builder.parameter(xb.f32[8, 5]),
    ),
    "for matrices with batch dimensions write lhs @ rhs; xb.dot sums over dimension 1 of lhs and "
    "0 of rhs": (
        lambda p: xb.dot(p.batch, p.batch_t),
        lambda p: p.batch @ p.batch_t,
    ),
    "pair dimension 1 of lhs with dimension 1 of rhs, both of size 8": (
        lambda p: xb.dot_general(p.x, p.y, (([1], [0]), ([], []))),
        lambda p: xb.dot_general(p.x, p.y, (([1], [1]), ([], []))),
    ),
    "write [2, 16]; XLA does not infer a size from -1": (
        lambda p: xb.reshape(p.x, [2, -1]),
        lambda p: xb.reshape(p.x, [2, 16]),
    ),
    "write [32]; XLA does not infer a size from -1": (
        lambda p: xb.reshape(p.x, -1),
        lambda p: xb.reshape(p.x, [32]),
    ),
    'write [2, "?"]; XLA does not infer a size from -1': (
        lambda p: xb.reshape(p.builder.parameter(xb.f32["?", 4]), [2, -1]),
        lambda p: xb.reshape(p.builder.parameter(xb.f32["?", 4]), [2, "?"]),
    ),
    "write each size; XLA does not infer a size from -1": (
        lambda p: xb.reshape(p.x, [5, -1]),
        lambda p: xb.reshape(p.x, [32]),
    ),
    "write sizes whose product is 32, for instance [4, 8]": (
        lambda p: xb.reshape(p.x, [4, 4]),
        lambda p: xb.reshape(p.x, [4, 8]),
    ),
    "write [0, 1]; dimensions are counted from 0": (
        lambda p: xb.transpose(p.x, [0, -1]),
        lambda p: xb.transpose(p.x, [0, 1]),
    ),
    "write 1; dimensions are counted from 0": (
        lambda p: xb.reduce(p.x, 0.0, xb.add, [-1]),
        lambda p: xb.reduce(p.x, 0.0, xb.add, [1]),
    ),
    "pass the operands as a list: xb.concatenate([x, y], dimension)": (
        lambda p: xb.concatenate(p.x, p.y),  # type: ignore[arg-type]
        lambda p: xb.concatenate([p.x, p.y], 0),
    ),
    "concatenate along dimension 0, where all other sizes are equal": (
        lambda p: xb.concatenate([p.x, p.y], 1),
        lambda p: xb.concatenate([p.x, p.y], 0),
    ),
    "add dimensions of size 1 to operand 1 with xb.reshape": (
        lambda p: xb.concatenate([p.x, p.v], 0),
        lambda p: xb.concatenate([p.x, xb.reshape(p.v, [1, 8])], 0),
    ),
    "write a Python number, or convert the init value with xb.convert(init_value, xb.f32)": (
        lambda p: xb.reduce(p.x, np.float64(0), xb.add, [0]),
        lambda p: xb.reduce(p.x, 0.0, xb.add, [0]),
    ),
    "write a Python number, or record a scalar with builder.constant(value, xb.f32)": (
        lambda p: xb.reduce(p.x, p.v, xb.add, [0]),
        lambda p: xb.reduce(p.x, p.builder.constant(0, xb.f32), xb.add, [0]),
    ),
    "pass xb.min": (
        lambda p: xb.reduce(p.x, 0.0, np.minimum, [0]),
        lambda p: xb.reduce(p.x, 0.0, xb.min, [0]),
    ),
    "use lib.max(x, axis)  # from builder import lib": (
        lambda p: np.maximum.reduce(p.x),
        lambda p: lib.max(p.x, 0),
    ),
    "write a real number, or convert the operand first with xb.convert(operand, xb.c64)": (
        lambda p: p.x * 1j,
        lambda p: xb.convert(p.x, xb.c64) * 1j,
    ),
    "write an integer, or convert the operand first with xb.convert(operand, xb.f32)": (
        lambda p: p.i * 0.5,
        lambda p: xb.convert(p.i, xb.f32) * 0.5,
    ),
    "write 255, which has the same bits, or convert the operand first with "
    "xb.convert(operand, xb.s16)": (
        lambda p: p.u + -1,
        lambda p: xb.convert(p.u, xb.s16) + -1,
    ),
    "write 255, which has the same bits, or use a type such as s8": (
        lambda p: p.builder.constant(-1, xb.u8),
        lambda p: p.builder.constant(-1, xb.s8),
    ),
    "use a type such as f32": (
        lambda p: p.builder.constant(1e6, xb.f16),
        lambda p: p.builder.constant(1e6, xb.f32),
    ),
    "write the element type, too, for instance xb.f32[4, 8]": (
        lambda p: p.builder.parameter((4, 8)),  # type: ignore[arg-type]
        lambda p: p.builder.parameter(xb.f32[4, 8]),
    ),
    "write 1 if the last dimension contains the index vectors, or 2 if each element is an index": (
        lambda p: xb.gather(p.x, p.rows, dimensions(3), [1, 8]),
        lambda p: xb.gather(p.x, p.rows, dimensions(1), [1, 8]),
    ),
    "name in start_index_map the dimension that each component of an index vector indexes, or set "
    "index_vector_dim to 1, which has size 1": (
        lambda p: xb.gather(p.x, p.rows, dimensions(0), [1, 8]),
        lambda p: xb.gather(p.x, p.rows, dimensions(1), [1, 8]),
    ),
    "name in start_index_map the dimension that each component of an index vector indexes": (
        lambda p: xb.gather(p.x, p.triples, xb.GatherDimensionNumbers([1], [0], [0, 1], 1), [1, 8]),
        lambda p: xb.gather(
            p.batch, p.triples, xb.GatherDimensionNumbers([1], [0, 1], [0, 1, 2], 1), [1, 1, 8]
        ),
    ),
    "set slice_sizes[0] to 1, or remove 0 from collapsed_slice_dims": (
        lambda p: xb.gather(p.x, p.rows, dimensions(1), [2, 8]),
        lambda p: xb.gather(p.x, p.rows, dimensions(1), [1, 8]),
    ),
    "write a size of at most 8": (
        lambda p: xb.gather(p.x, p.rows, dimensions(1), [1, 9]),
        lambda p: xb.gather(p.x, p.rows, dimensions(1), [1, 8]),
    ),
    "write xb.div(lhs, rhs) for the rounded quotient, or convert the operands first with "
    "xb.convert_element_type": (lambda p: p.i / 2, lambda p: xb.div(p.i, 2)),
    "use xb.div(lhs, rhs), which rounds toward zero for integers, or xb.floor(lhs / rhs) for "
    "floating-point numbers": (lambda p: p.x // 2, lambda p: xb.floor(p.x / 2)),
    "map each dimension of operand to a dimension of its own": (
        lambda p: xb.broadcast_in_dim(p.x, [4, 4, 8], [0, 0]),
        lambda p: xb.broadcast_in_dim(p.x, [4, 4, 8], [0, 2]),
    ),
    "map to equal sizes: broadcast_dimensions=[0, 2]": (
        lambda p: xb.broadcast_in_dim(p.x, [4, 5, 8], [0]),
        lambda p: xb.broadcast_in_dim(p.x, [4, 5, 8], [0, 2]),
    ),
    "write start_indices=[1, 0], limit_indices=[3, 8], strides=[2, 1]; the added entries change "
    "nothing": (
        lambda p: xb.slice(p.x, [1], [3], [2]),
        lambda p: xb.slice(p.x, [1, 0], [3, 8], [2, 1]),
    ),
    "append 0 to start_indices": (
        lambda p: xb.dynamic_slice(p.x, [1], [2, 8]),
        lambda p: xb.dynamic_slice(p.x, [1, 0], [2, 8]),
    ),
    "write size_indices=[2, 8]; the added entry changes nothing": (
        lambda p: xb.dynamic_slice(p.x, [1, 0], [2]),
        lambda p: xb.dynamic_slice(p.x, [1, 0], [2, 8]),
    ),
    "write padding_config=[(1, 2, 3), (0, 0, 0)]; the added entry changes nothing": (
        lambda p: xb.pad(p.x, 0.0, [(1, 2, 3)]),
        lambda p: xb.pad(p.x, 0.0, [(1, 2, 3), (0, 0, 0)]),
    ),
    "write window_dimensions=[2, 1]; the added entry changes nothing": (
        lambda p: xb.reduce_window(p.x, 0, xb.add, [2], None, "VALID"),
        lambda p: xb.reduce_window(p.x, 0, xb.add, [2, 1], None, "VALID"),
    ),
    "write window_strides=[2, 1]; the added entry changes nothing": (
        lambda p: xb.reduce_window(p.x, 0, xb.add, [2, 2], [2], "VALID"),
        lambda p: xb.reduce_window(p.x, 0, xb.add, [2, 2], [2, 1], "VALID"),
    ),
    "write padding=[(1, 1), (0, 0)]; the added entry changes nothing": (
        lambda p: xb.reduce_window(p.x, 0, xb.add, [2, 2], None, [(1, 1)]),
        lambda p: xb.reduce_window(p.x, 0, xb.add, [2, 2], None, [(1, 1), (0, 0)]),
    ),
    "map to equal sizes: broadcast_dimensions=[1]": (
        lambda p: xb.broadcast_in_dim(p.v, [4, 8], [0]),
        lambda p: xb.broadcast_in_dim(p.v, [4, 8], [1]),
    ),
    "convert dim size 0 to s32 with xb.convert_element_type": (
        lambda p: xb.dynamic_reshape(p.v, [p.builder.constant(8, xb.s64)], [8], [True]),
        lambda p: xb.dynamic_reshape(p.v, [p.builder.constant(8, xb.s32)], [8], [True]),
    ),
    "to reduce along dimensions, use lib.max(x, axis) of builder.lib": (
        lambda p: xb.max(p.x, axis=1),  # type: ignore[call-arg]
        lambda p: lib.max(p.x, 1),
    ),
    "to reduce along dimensions, use lib.min(x, axis) of builder.lib": (
        lambda p: xb.min(p.x, axis=1),  # type: ignore[call-arg]
        lambda p: lib.min(p.x, 1),
    ),
    "pass xb.max": (
        lambda p: xb.reduce(p.x, 0.0, max, [1]),
        lambda p: xb.reduce(p.x, 0.0, xb.max, [1]),
    ),
    "pass xb.add": (
        lambda p: xb.reduce(p.x, 0.0, np.sum, [1]),
        lambda p: xb.reduce(p.x, 0.0, xb.add, [1]),
    ),
    "repeat ops with xb.while_, or pass a Python number: static=[...] in lowering.jit": (
        lambda p: range(p.i),  # type: ignore[call-overload]
        lambda p: xb.while_(lambda n: n < 3, lambda n: n + 1, p.builder.constant(0, xb.s32)),
    ),
    "map each dimension of rhs to a dimension of lhs, for instance "
    "xb.add(lhs, rhs, broadcast_dimensions=[0, 2])": (
        lambda p: p.batch + p.builder.parameter(xb.f32[2, 1]),
        lambda p: xb.add(p.batch, p.builder.parameter(xb.f32[2, 1]), [0, 2]),
    ),
}


@each_row("fix", FIXES)
def test_fix(fix: str) -> None:
    wrong, right = FIXES[fix]
    p = Values()
    with pytest.raises(xb.XlaError) as caught:
        wrong(p)
    assert str(caught.value).partition("\nfix: ")[2] == fix
    assert right(p) is p.builder.ops[-1]


def test_functions_of_operands_as_branches() -> None:
    p = Values()
    pred = p.builder.constant(True)
    fix = r"fix: pass each operand before its computation: xb.conditional\(pred, x, f, x, g\)"
    with pytest.raises(xb.OperandError, match=fix):
        xb.conditional(pred, lambda x: x, lambda x: -x)  # type: ignore[call-overload]
    assert xb.conditional(pred, p.x, lambda x: x, p.x, lambda x: -x).shape is p.x.shape


@each_row("t", [xb.s32, xb.u8, xb.s4])
def test_the_operator_for_division_is_refused_for_integers(t: xb.PrimitiveType) -> None:
    b = xb.XlaBuilder()
    x, y = b.parameter(t[3]), b.parameter(t[3])
    divided = {
        "op / op": lambda: x / y,
        "op / number": lambda: x / 2,
        "number / op": lambda: 2 / x,
        "NumPy's number / op": lambda: t.dtype.type(2) / x,
        "op / float": lambda: x / 2.0,
    }
    for divide in divided.values():
        with pytest.raises(xb.ShapeInferenceError, match=r"^div: the operator / is for floating"):
            divide()
    total = x
    with pytest.raises(xb.ShapeInferenceError, match=r"^div: the operator / is for floating"):
        total /= y
    assert b.ops == [x, y]
    assert xb.div(x, y).opcode == "divide"


def test_a_vector_before_a_matrix() -> None:
    b = xb.XlaBuilder()
    matrix, vector = b.parameter(xb.f32[8, 2]), b.parameter(xb.f32[2])
    with pytest.raises(xb.ShapeInferenceError, match="fix: exchange lhs and rhs"):
        vector @ matrix
    assert (matrix @ vector).shape is xb.f32[8]
