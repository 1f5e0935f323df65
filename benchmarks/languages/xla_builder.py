"""The operations of the graphs in XLA's C++ XlaBuilder, through xla_client.

This needs a jaxlib release that contains it: 0.4.30 or 0.6.0, with Python 3.11.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from jaxlib import xla_client

from benchmarks.graphs.graph import Graph

xc: Any = xla_client  # types are checked with a newer jaxlib, which does not contain it
ops = xc.ops

add = add_along = ops.Add
sub = sub_along = ops.Sub
mul = mul_along = ops.Mul
div_along = ops.Div
max = ops.Max
exp, log, logistic, neg, rsqrt, tanh = (
    ops.Exp,
    ops.Log,
    ops.Logistic,
    ops.Neg,
    ops.Rsqrt,
    ops.Tanh,
)
reshape, transpose, slice = ops.Reshape, ops.Transpose, ops.Slice
dot_general, conv_general_dilated = ops.DotGeneral, ops.ConvGeneralDilated


# A stack; the last builder is the current one. (An operation has no reference to its builder.)
_builders: list[Any] = []

# Literals are cached. The constants are recorded at each use, as in the other APIs.
_f32 = lru_cache(np.float32)
_s32 = lru_cache(np.int32)


def add_number(x: Any, value: float) -> Any:
    return ops.Add(x, ops.Constant(_builders[-1], _f32(value)))


def add_integer(x: Any, value: int) -> Any:
    return ops.Add(x, ops.Constant(_builders[-1], _s32(value)))


def mul_number(x: Any, value: float) -> Any:
    return ops.Mul(x, ops.Constant(_builders[-1], _f32(value)))


def max_number(x: Any, value: float) -> Any:
    return ops.Max(x, ops.Constant(_builders[-1], _f32(value)))


def gt_number(x: Any, value: float) -> Any:
    return ops.Gt(x, ops.Constant(_builders[-1], _f32(value)))


def lt_integer(x: Any, value: int) -> Any:
    return ops.Lt(x, ops.Constant(_builders[-1], _s32(value)))


def concatenate(operands: Sequence[Any], dimension: int) -> Any:
    return ops.ConcatInDim(_builders[-1], operands, dimension)


def constant(value: np.ndarray[Any, Any], operand: Any) -> Any:
    return ops.Constant(_builders[-1], value)


def dot_numbers(
    lhs_contracting: Sequence[int],
    rhs_contracting: Sequence[int],
    lhs_batch: Sequence[int] = (),
    rhs_batch: Sequence[int] = (),
) -> Any:
    return xc.make_dot_dimension_numbers(
        ((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))
    )


def conv_numbers(text: str) -> Any:
    lhs, rhs, out = text.replace("->", "_").split("_")
    numbers = xc.ConvolutionDimensionNumbers()
    numbers.input_batch_dimension = lhs.index("b")
    numbers.input_feature_dimension = lhs.index("f")
    numbers.kernel_input_feature_dimension = rhs.index("i")
    numbers.kernel_output_feature_dimension = rhs.index("o")
    numbers.output_batch_dimension = out.index("b")
    numbers.output_feature_dimension = out.index("f")
    spatial = [str(n) for n in range(len(lhs) - 2)]
    numbers.input_spatial_dimensions.extend([lhs.index(n) for n in spatial])
    numbers.kernel_spatial_dimensions.extend([rhs.index(n) for n in spatial])
    numbers.output_spatial_dimensions.extend([out.index(n) for n in spatial])
    return numbers


@lru_cache
def _reducer(operation: Callable[[Any, Any], Any]) -> Any:
    """Return a computation of two f32, built once for all reductions, as users of XLA do."""
    builder = xc.XlaBuilder("reducer")
    scalar = xc.Shape.array_shape(np.dtype(np.float32), ())
    operation(*(ops.Parameter(builder, number, scalar) for number in range(2)))
    return builder.build()


_SUM, _MAX = _reducer(ops.Add), _reducer(ops.Max)


def reduce_sum(operand: Any, dimensions: Sequence[int]) -> Any:
    builder = _builders[-1]
    init = ops.Constant(builder, _f32(0.0))
    return ops.Reduce(builder, (operand,), (init,), _SUM, dimensions)


def reduce_max(operand: Any, dimensions: Sequence[int]) -> Any:
    builder = _builders[-1]
    init = ops.Constant(builder, _f32(float("-inf")))
    return ops.Reduce(builder, (operand,), (init,), _MAX, dimensions)


def max_pool(
    operand: Any,
    window: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
) -> Any:
    init = ops.Constant(_builders[-1], _f32(float("-inf")))
    return ops.ReduceWindowWithGeneralPadding(operand, init, _MAX, window, strides, (), (), padding)


def shared(make: Callable[[float], Callable[..., Any]]) -> Callable[[float], Callable[..., Any]]:
    return make


def _computation(function: Callable[[Any], Any], shape: Any) -> Any:
    """Record a function of one value as a computation. A tuple is passed as a list."""
    builder = xc.XlaBuilder(function.__name__)
    _builders.append(builder)
    try:
        state = ops.Parameter(builder, 0, shape)
        if shape.is_tuple():
            state = _elements(state, len(shape.tuple_shapes()))
        result = function(state)
        if isinstance(result, tuple):
            result = ops.Tuple(builder, result)
        return builder.build(result)
    finally:
        _builders.pop()


def _elements(value: Any, count: int) -> list[Any]:
    return [ops.GetTupleElement(value, index) for index in range(count)]


def while_(
    condition: Callable[[Any], Any], body: Callable[[Any], Any], init: Sequence[Any]
) -> list[Any]:
    builder = _builders[-1]
    state = ops.Tuple(builder, init)
    shape = builder.get_shape(state)
    loop = ops.While(_computation(condition, shape), _computation(body, shape), state)
    return _elements(loop, len(init))


def conditional(
    pred: Any,
    on_true: Callable[[Any], Any],
    on_false: Callable[[Any], Any],
    operand: Any,
) -> Any:
    shape = _builders[-1].get_shape(operand)
    return ops.Conditional(
        pred, operand, _computation(on_true, shape), operand, _computation(on_false, shape)
    )


def record(graph: Graph, size: int) -> Any:
    """Record and build the graph, with its results in a tuple."""
    builder = xc.XlaBuilder(graph.name)
    _builders.append(builder)
    try:
        values = [
            ops.Parameter(builder, number, xc.Shape.array_shape(np.dtype(dtype), dimensions), name)
            for number, (name, dtype, dimensions) in enumerate(graph.arguments(size))
        ]
        results = graph.body(sys.modules[__name__], size, *values)
        return builder.build(ops.Tuple(builder, results))
    finally:
        _builders.pop()
