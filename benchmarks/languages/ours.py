"""The operations of the graphs in xlabuilder."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import builder as xb
from benchmarks.graphs.graph import Graph

add = add_along = add_number = add_integer = xb.add
sub = sub_along = xb.sub
mul = mul_along = mul_number = xb.mul
div_along = xb.div
max = max_number = xb.max
exp, log, logistic, neg, rsqrt, tanh = xb.exp, xb.log, xb.logistic, xb.neg, xb.rsqrt, xb.tanh
gt_number = xb.gt
lt_integer = xb.lt
reshape, transpose, slice, concatenate = xb.reshape, xb.transpose, xb.slice, xb.concatenate
dot_general, conv_general_dilated = xb.dot_general, xb.conv_general_dilated
while_ = xb.while_

dot_numbers = xb.DotDimensionNumbers
conv_numbers = xb.ConvolutionDimensionNumbers.of


def constant(value: object, operand: xb.XlaOp) -> xb.XlaOp:
    return operand.builder.constant(value)


# The reducer is a function, which is recorded once per element type and shared by all reductions.
def reduce_sum(operand: xb.XlaOp, dimensions: Sequence[int]) -> xb.XlaOp:
    return xb.reduce(operand, 0.0, xb.add, dimensions)


def reduce_max(operand: xb.XlaOp, dimensions: Sequence[int]) -> xb.XlaOp:
    return xb.reduce(operand, float("-inf"), xb.max, dimensions)


def max_pool(
    operand: xb.XlaOp,
    window: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
) -> xb.XlaOp:
    return xb.reduce_window(operand, float("-inf"), xb.max, window, strides, padding)


def shared(make: Callable[[float], Callable[..., Any]]) -> Callable[[float], xb.ReusableFunction]:
    return functools.cache(lambda number: xb.computation(make(number)))


def conditional(
    pred: xb.XlaOp,
    on_true: xb.ReusableFunction,
    on_false: xb.ReusableFunction,
    operand: xb.XlaOp,
) -> xb.XlaOp:
    return xb.conditional(pred, operand, on_true, operand, on_false)


def record(graph: Graph, size: int) -> xb.XlaComputation:
    """Record and build the graph, with its results in a tuple."""
    b = xb.XlaBuilder(graph.name)
    values = [
        b.parameter(xb.array_shape(np.dtype(dtype), dimensions), name)
        for name, dtype, dimensions in graph.arguments(size)
    ]
    return b.build(xb.tuple(graph.body(sys.modules[__name__], size, *values)))
