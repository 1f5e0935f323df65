"""Computations for comparing costs with XLA's HloCostAnalysis, at least one for each opcode.

Every entry is a function that records the computation with a builder. Arrays are small, because
XLA counts in 32-bit floats, which are exact only for small numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import builder as xb
from builder.graph.registry import OPERATIONS

Case = Callable[[xb.XlaBuilder], xb.XlaOp]
P = xb.PrimitiveType

CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    CASES[function.__name__.strip("_")] = function
    return function


UNARY = (
    *("abs", "ceil", "floor", "neg", "sign", "round", "round_nearest_even", "is_finite"),
    *("exp", "expm1", "log", "log1p", "logistic", "sqrt", "rsqrt", "cbrt", "tanh"),
    *("sin", "cos", "tan", "erf", "acos", "acosh", "asin", "asinh", "atanh", "cosh", "sinh"),
)
BINARY = ("add", "sub", "mul", "div", "rem", "max", "min", "pow", "atan2", "complex", "eq")
WHOLE = ("and_", "or_", "xor", "shift_left", "shift_right_logical", "shift_right_arithmetic")


def unary(name: str, element_type: P = xb.f32) -> Case:
    return lambda b: getattr(xb, name)(b.parameter(element_type[3, 5]))


def binary(name: str, element_type: P = xb.f32) -> Case:
    return lambda b: getattr(xb, name)(
        b.parameter(element_type[3, 5]), b.parameter(element_type[3, 5])
    )


for name in UNARY:
    CASES[name] = unary(name)
for name in BINARY:
    CASES[name] = binary(name)
for name in WHOLE:
    CASES[name] = binary(name, xb.s32)
for name in ("not_", "clz", "population_count"):
    CASES[name] = unary(name, xb.u16)
for name in ("real", "imag", "abs", "exp", "sqrt"):
    CASES[f"{name} of complex"] = unary(name, xb.c64)
for element_type in (xb.pred, xb.s4, xb.u8, xb.bf16, xb.f64, xb.c128, xb.f8e4m3fn):
    CASES[f"bytes of {element_type}"] = lambda b, t=element_type: xb.rev(b.parameter(t[3, 5]), [1])  # type: ignore[misc]


@case
def select(b: xb.XlaBuilder) -> xb.XlaOp:
    return xb.select(b.parameter(xb.pred[7]), b.parameter(xb.f32[7]), b.parameter(xb.f32[7]))


@case
def clamp(b: xb.XlaBuilder) -> xb.XlaOp:
    return xb.clamp(b.parameter(xb.f32[()]), b.parameter(xb.f32[7]), b.parameter(xb.f32[()]))


@case
def convert(b: xb.XlaBuilder) -> xb.XlaOp:
    return xb.convert(b.parameter(xb.f32[7]), xb.s8)


@case
def bitcast_convert(b: xb.XlaBuilder) -> xb.XlaOp:
    return xb.bitcast_convert_type(b.parameter(xb.f32[7]), xb.s32)


@case
def stochastic_convert(b: xb.XlaBuilder) -> xb.XlaOp:
    return xb.stochastic_convert_type(b.parameter(xb.f32[7]), b.parameter(xb.u32[7]), xb.bf16)


@case
def reduce_precision(b: xb.XlaBuilder) -> xb.XlaOp:
    return xb.reduce_precision(b.parameter(xb.f32[7]), 5, 10)


@case
def map_(b: xb.XlaBuilder) -> xb.XlaOp:
    x, y = b.parameter(xb.f32[7]), b.parameter(xb.f32[7])
    return xb.map([x, y], lambda p, q: xb.exp(p) * q + p, [0])


# Shapes.


@case
def broadcast(b: xb.XlaBuilder) -> xb.XlaOp:
    return xb.broadcast(b.parameter(xb.f32[7]), [2, 3])


@case
def broadcast_in_dim(b: xb.XlaBuilder) -> xb.XlaOp:
    return xb.broadcast_in_dim(b.parameter(xb.f32[7]), [2, 7, 3], [1])


@case
def reshape(b: xb.XlaBuilder) -> xb.XlaOp:
    return xb.reshape(b.parameter(xb.f32[6]), [2, 3])


@case
def transpose(b: xb.XlaBuilder) -> xb.XlaOp:
    return xb.transpose(b.parameter(xb.f32[2, 3]), [1, 0])


@case
def transpose_of_ones(b: xb.XlaBuilder) -> xb.XlaOp:
    return xb.transpose(b.parameter(xb.f32[2, 1, 3]), [1, 0, 2])


@case
def concatenate(b: xb.XlaBuilder) -> xb.XlaOp:
    return xb.concatenate([b.parameter(xb.f32[2]), b.parameter(xb.f32[5])], 0)


@case
def pad(b: xb.XlaBuilder) -> xb.XlaOp:
    return xb.pad(b.parameter(xb.f32[5]), b.parameter(xb.f32[()]), [(1, 2, 3)])


@case
def slice_(b: xb.XlaBuilder) -> xb.XlaOp:
    return xb.slice(b.parameter(xb.f32[50]), [3], [11], [2])


@case
def iota(b: xb.XlaBuilder) -> xb.XlaOp:
    return b.iota(xb.f32[5])


@case
def constant(b: xb.XlaBuilder) -> xb.XlaOp:
    return xb.neg(b.constant(np.arange(9, dtype=np.float32)))


@case
def tuples(b: xb.XlaBuilder) -> xb.XlaOp:
    x, y = b.parameter(xb.f32[9]), b.parameter(xb.s8[2])
    pair = xb.tuple(x, xb.tuple(y, x))
    return xb.tuple(pair[1], pair[0], xb.optimization_barrier(pair), b.empty_tuple())


# Indexing.


@case
def dynamic_slice(b: xb.XlaBuilder) -> xb.XlaOp:
    starts = [b.parameter(xb.s32[()]) for _ in range(2)]
    return xb.dynamic_slice(b.parameter(xb.f32[50, 3]), starts, [5, 2])


@case
def dynamic_update_slice(b: xb.XlaBuilder) -> xb.XlaOp:
    starts = [b.parameter(xb.s64[()]) for _ in range(2)]
    return xb.dynamic_update_slice(b.parameter(xb.f32[50, 3]), b.parameter(xb.f32[4, 2]), starts)


@case
def gather(b: xb.XlaBuilder) -> xb.XlaOp:
    numbers = xb.GatherDimensionNumbers(
        offset_dims=[1], collapsed_slice_dims=[0], start_index_map=[0], index_vector_dim=1
    )
    return xb.gather(b.parameter(xb.f32[50, 3]), b.parameter(xb.s32[4, 1]), numbers, [1, 3])


@case
def scatter(b: xb.XlaBuilder) -> xb.XlaOp:
    numbers = xb.ScatterDimensionNumbers(
        update_window_dims=[1],
        inserted_window_dims=[0],
        scatter_dims_to_operand_dims=[0],
        index_vector_dim=1,
    )
    operand, updates = b.parameter(xb.f32[50, 3]), b.parameter(xb.f32[4, 3])
    return xb.scatter(operand, b.parameter(xb.s32[4, 1]), updates, xb.add, numbers)


@case
def scatter_of_two(b: xb.XlaBuilder) -> xb.XlaOp:
    numbers = xb.ScatterDimensionNumbers(
        update_window_dims=[1],
        inserted_window_dims=[0],
        scatter_dims_to_operand_dims=[0],
        index_vector_dim=1,
    )
    operands = [b.parameter(xb.f32[50, 3]), b.parameter(xb.s8[50, 3])]
    updates = [b.parameter(xb.f32[4, 3]), b.parameter(xb.s8[4, 3])]
    indices = b.parameter(xb.s32[4, 1])
    return xb.scatter(
        operands, indices, updates, lambda p, q, r, s: (xb.exp(p) + r, q * s), numbers
    )


# Contractions.


@case
def dot(b: xb.XlaBuilder) -> xb.XlaOp:
    return b.parameter(xb.f32[3, 4]) @ b.parameter(xb.f32[4, 5])


@case
def dot_of_complex(b: xb.XlaBuilder) -> xb.XlaOp:
    return b.parameter(xb.c64[3, 4]) @ b.parameter(xb.c64[4, 5])


@case
def dot_with_batch(b: xb.XlaBuilder) -> xb.XlaOp:
    numbers = xb.DotDimensionNumbers([1, 3], [0, 1], [0], [2])
    return xb.dot_general(b.parameter(xb.s8[7, 3, 4, 5]), b.parameter(xb.s8[3, 5, 7, 2]), numbers)


@case
def ragged_dot(b: xb.XlaBuilder) -> xb.XlaOp:
    numbers = xb.RaggedDotDimensionNumbers(xb.DotDimensionNumbers([1], [1], [], []), [0], [0])
    lhs, rhs = b.parameter(xb.f32[11, 5]), b.parameter(xb.f32[3, 5, 7])
    return xb.ragged_dot(lhs, rhs, b.parameter(xb.s64[3]), numbers)


def convolution(
    lhs: xb.Shape, rhs: xb.Shape, numbers: str = "b01f_01io->b01f", **more: Any
) -> Case:
    rank = len(numbers.split("_")[0]) - 2
    given = {
        "window_strides": [1] * rank,
        "padding": [(0, 0)] * rank,
        "lhs_dilation": None,
        "rhs_dilation": None,
        "dimension_numbers": numbers,
        **more,
    }
    return lambda b: xb.conv_general_dilated(b.parameter(lhs), b.parameter(rhs), **given)


CONVOLUTIONS: dict[str, Case] = {
    "plain": convolution(xb.f32[2, 8, 9, 3], xb.f32[3, 3, 3, 4]),
    "same": convolution(xb.f32[2, 8, 9, 3], xb.f32[3, 3, 3, 4], padding=[(1, 1), (2, 0)]),
    "strided": convolution(
        xb.f32[2, 8, 9, 3], xb.f32[3, 3, 3, 4], window_strides=[2, 3], padding=[(1, 1), (1, 2)]
    ),
    "dilated lhs": convolution(
        xb.f32[1, 5, 6, 2], xb.f32[3, 2, 2, 3], lhs_dilation=[2, 3], padding=[(2, 1), (0, 1)]
    ),
    "dilated rhs": convolution(
        xb.f32[1, 9, 9, 2], xb.f32[3, 2, 2, 3], rhs_dilation=[2, 3], padding=[(2, 1), (0, 1)]
    ),
    "all": convolution(
        xb.f32[4, 7, 8, 6],
        xb.f32[3, 2, 3, 4],
        lhs_dilation=[3, 2],
        rhs_dilation=[2, 2],
        window_strides=[2, 3],
        padding=[(3, -1), (-2, 4)],
        feature_group_count=2,
    ),
    "reversed": convolution(
        xb.f32[1, 9, 9, 2],
        xb.f32[3, 2, 2, 3],
        padding=[(2, 1), (0, 1)],
        window_reversal=[True, False],
    ),
    "feature groups": convolution(xb.f32[2, 8, 9, 6], xb.f32[3, 3, 2, 9], feature_group_count=3),
    "depthwise": convolution(xb.f32[2, 8, 9, 6], xb.f32[3, 3, 1, 6], feature_group_count=6),
    "batch groups": convolution(xb.f32[6, 8, 9, 4], xb.f32[3, 3, 4, 9], batch_group_count=3),
    "other order": convolution(xb.f32[3, 2, 8, 9], xb.f32[4, 3, 3, 3], "fb01_oi01->bf01"),
    "one dimension": convolution(xb.f32[2, 8, 3], xb.f32[3, 3, 4], "b0f_0io->b0f"),
    "no dimension": convolution(xb.f32[2, 3], xb.f32[3, 4], "bf_io->bf"),
    "whole window": convolution(xb.f32[2, 1, 8, 3], xb.f32[5, 8, 3, 4], padding=[(4, 4), (0, 0)]),
}
CASES |= {f"convolution, {name}": made for name, made in CONVOLUTIONS.items()}


# Reductions.


@case
def reduce(b: xb.XlaBuilder) -> xb.XlaOp:
    return xb.reduce(b.parameter(xb.f32[4, 5, 6]), 0.0, xb.add, [0, 2])


@case
def reduce_with_more(b: xb.XlaBuilder) -> xb.XlaOp:
    return xb.reduce(b.parameter(xb.f32[4, 5]), 0.0, lambda p, q: xb.exp(p * q) + q, [1])


@case
def reduce_of_two(b: xb.XlaBuilder) -> xb.XlaOp:
    x, y = b.parameter(xb.f32[4, 5]), b.parameter(xb.s32[4, 5])
    return xb.reduce([x, y], [0.0, 0], lambda p, q, r, s: (p + r, q * s), [1])


@case
def reduce_window(b: xb.XlaBuilder) -> xb.XlaOp:
    x = b.parameter(xb.f32[8, 9])
    return xb.reduce_window(x, 0.0, xb.max, [2, 3], [1, 2], [(1, 0), (0, 1)])


@case
def cumulative_sum(b: xb.XlaBuilder) -> xb.XlaOp:
    x = b.parameter(xb.f32[8, 9])
    return xb.reduce_window(x, 0.0, xb.add, [1, 9], [1, 1], [(0, 0), (8, 0)])


@case
def reduce_window_over_all(b: xb.XlaBuilder) -> xb.XlaOp:
    x = b.parameter(xb.f32[8, 9])
    return xb.reduce_window(x, 0.0, xb.add, [1, 17], [1, 1], [(0, 0), (8, 8)])


@case
def select_and_scatter(b: xb.XlaBuilder) -> xb.XlaOp:
    x, source = b.parameter(xb.f32[8, 8]), b.parameter(xb.f32[4, 4])
    return xb.select_and_scatter(x, xb.ge, [2, 2], [2, 2], "VALID", source, 0.0, xb.add)


@case
def sort(b: xb.XlaBuilder) -> xb.XlaOp:
    return xb.sort(b.parameter(xb.f32[5, 7]), dimension=0)


@case
def sort_of_two(b: xb.XlaBuilder) -> xb.XlaOp:
    x, y = b.parameter(xb.f32[5, 8]), b.parameter(xb.s32[5, 8])
    return xb.sort([x, y], lambda p, q, r, s: xb.lt(p, q))


@case
def top_k(b: xb.XlaBuilder) -> xb.XlaOp:
    return xb.top_k(b.parameter(xb.f32[5, 8]), 3)


# Linear algebra, normalization, random numbers.


@case
def cholesky(b: xb.XlaBuilder) -> xb.XlaOp:
    return xb.cholesky(b.parameter(xb.f32[2, 5, 5]))


@case
def triangular_solve(b: xb.XlaBuilder) -> xb.XlaOp:
    a, y = b.parameter(xb.f32[2, 5, 5]), b.parameter(xb.f32[2, 5, 3])
    return xb.triangular_solve(a, y, True, True, False, "NO_TRANSPOSE")


@case
def triangular_solve_from_the_right(b: xb.XlaBuilder) -> xb.XlaOp:
    a, y = b.parameter(xb.f32[3, 3]), b.parameter(xb.f32[5, 3])
    return xb.triangular_solve(a, y, False, True, False, "NO_TRANSPOSE")


for kind, source, lengths in (
    ("FFT", xb.c64[3, 12], [12]),
    ("IFFT", xb.c64[3, 8, 16], [8, 16]),
    ("RFFT", xb.f32[3, 12], [12]),
    ("IRFFT", xb.c64[3, 9], [16]),
):
    CASES[kind] = lambda b, k=kind, s=source, n=lengths: xb.fft(b.parameter(s), k, n)  # type: ignore[misc]


@case
def batch_norm_training(b: xb.XlaBuilder) -> xb.XlaOp:
    scale, offset = (b.parameter(xb.f32[3]) for _ in range(2))
    return xb.batch_norm_training(b.parameter(xb.f32[4, 5, 3]), scale, offset, 0.1, 2)


@case
def batch_norm_inference(b: xb.XlaBuilder) -> xb.XlaOp:
    four = [b.parameter(xb.f32[3]) for _ in range(4)]
    return xb.batch_norm_inference(b.parameter(xb.f32[4, 5, 3]), *four, 0.1, 2)


@case
def batch_norm_grad(b: xb.XlaBuilder) -> xb.XlaOp:
    three = [b.parameter(xb.f32[3]) for _ in range(3)]
    x, grad = (b.parameter(xb.f32[4, 5, 3]) for _ in range(2))
    return xb.batch_norm_grad(x, *three, grad, 0.1, 2)


@case
def rng(b: xb.XlaBuilder) -> xb.XlaOp:
    return xb.rng_uniform(b.parameter(xb.f32[()]), b.parameter(xb.f32[()]), xb.f32[3, 4])


@case
def rng_bit_generator(b: xb.XlaBuilder) -> xb.XlaOp:
    return xb.rng_bit_generator("RNG_THREE_FRY", b.parameter(xb.u64[2]), xb.u32[3, 4])


# Across devices, and to hosts.


@case
def all_reduce(b: xb.XlaBuilder) -> xb.XlaOp:
    return xb.all_reduce(b.parameter(xb.f32[6]), xb.add)


@case
def all_reduce_of_two(b: xb.XlaBuilder) -> xb.XlaOp:
    return xb.all_reduce([b.parameter(xb.f32[6]), b.parameter(xb.f32[3, 2])], xb.add)


@case
def all_gather(b: xb.XlaBuilder) -> xb.XlaOp:
    return xb.all_gather(b.parameter(xb.f32[6]), 0, 2, [[0, 1]])


@case
def reduce_scatter(b: xb.XlaBuilder) -> xb.XlaOp:
    return xb.reduce_scatter(b.parameter(xb.f32[6]), xb.add, 0, 2, [[0, 1]])


@case
def all_to_all(b: xb.XlaBuilder) -> xb.XlaOp:
    return xb.all_to_all(b.parameter(xb.f32[6, 2]), 0, 0, 2, [[0, 1]])


@case
def all_to_all_tuple(b: xb.XlaBuilder) -> xb.XlaOp:
    return xb.all_to_all_tuple([b.parameter(xb.f32[6]), b.parameter(xb.f32[6])], [[0, 1]])


@case
def collective_permute(b: xb.XlaBuilder) -> xb.XlaOp:
    return xb.collective_permute(b.parameter(xb.f32[6]), [(0, 1), (1, 0)])


@case
def collective_broadcast(b: xb.XlaBuilder) -> xb.XlaOp:
    return xb.collective_broadcast(b.parameter(xb.f32[6]), [[0, 1]])


@case
def ids(b: xb.XlaBuilder) -> xb.XlaOp:
    return b.replica_id() + b.partition_id()


@case
def infeed(b: xb.XlaBuilder) -> xb.XlaOp:
    return b.infeed("(f32[3], s8[5])")


@case
def outfeed(b: xb.XlaBuilder) -> xb.XlaOp:
    return xb.outfeed(xb.tuple(b.parameter(xb.f32[5]), b.parameter(xb.s8[3])))


@case
def send(b: xb.XlaBuilder) -> xb.XlaOp:
    channel = xb.ChannelHandle(1, xb.ChannelType.DEVICE_TO_HOST)
    return xb.send_to_host(b.parameter(xb.f32[5]), b.create_token(), xb.f32[5], channel)


@case
def recv(b: xb.XlaBuilder) -> xb.XlaOp:
    channel = xb.ChannelHandle(1, xb.ChannelType.HOST_TO_DEVICE)
    return xb.recv_from_host(b.create_token(), xb.f32[5], channel)


@case
def tokens(b: xb.XlaBuilder) -> xb.XlaOp:
    return xb.after_all(b.create_token(), b.create_token())


# Control flow.


@case
def call(b: xb.XlaBuilder) -> xb.XlaOp:
    return xb.call(lambda v: xb.exp(v) * v, b.parameter(xb.f32[7]))


@case
def composite(b: xb.XlaBuilder) -> xb.XlaOp:
    return xb.composite_call(lambda v: xb.exp(v) * v, b.parameter(xb.f32[7]), "mine.f")


@case
def conditional(b: xb.XlaBuilder) -> xb.XlaOp:
    x = b.parameter(xb.f32[7])
    return xb.conditional(
        b.parameter(xb.pred[()]), x, lambda v: xb.exp(xb.exp(v)), x, lambda v: v * v + v
    )


@case
def switch(b: xb.XlaBuilder) -> xb.XlaOp:
    x = b.parameter(xb.f32[7])
    branches = [xb.exp, xb.neg, lambda v: v * v * v]
    return xb.conditional(b.parameter(xb.s32[()]), branches, [x, x, x])


@case
def while_(b: xb.XlaBuilder) -> xb.XlaOp:
    # The trip count is unknown: the loop ends when the sum is large.
    return xb.while_(lambda v: xb.lt(v, 100.0), lambda v: v * v + 1, b.parameter(xb.f32[()]))


@case
def while_of_many(b: xb.XlaBuilder) -> xb.XlaOp:
    state = xb.tuple(b.parameter(xb.f32[7]), b.parameter(xb.s32[()]))
    limit = b.parameter(xb.s32[()])
    return xb.while_(
        lambda s: xb.lt(s[1], limit), lambda s: xb.tuple(xb.tanh(s[0]) + s[0], s[1] + 1), state
    )


def opcodes() -> set[str]:
    """Return the opcodes that a case has."""
    recorded = set()
    for record in CASES.values():
        builder = xb.XlaBuilder()
        record(builder)
        computation = builder.build()
        for each in (computation, *computation.called_computations()):
            recorded |= {op.opcode for op in each.ops}
    return recorded


def all_opcodes() -> set[str]:
    return {info.opcode for info in OPERATIONS.values()}


OTHERWISE = {
    "ragged_dot": "XLA takes the groups for the dimension that is summed along",
    "send": "two instructions, with the buffer in the result of the first",
    "recv": "two instructions, with the buffer in the result of the first",
}
"""Cases whose costs differ from XLA's, with the reason. Tuple pointers are compared separately."""
