"""The functions of the old module `xla_client.ops`, with their parameters and default values.

A function whose parameters correspond to those of a function of `builder` or `builder.lib` is an
entry of a table; the others are written by hand. Old ops are ops of `builder`, so a program may use
both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import builder as xb
from builder import lib
from builder.errors import OperandError, brief, error_of
from lowering.xla_client.enums import (
    CustomCallApiVersion as CustomCallApiVersion,
    CustomCallSchedule as CustomCallSchedule,
    RandomAlgorithm as RandomAlgorithm,
    TriangularSolveOptions_Transpose as TriangularSolveOptions_Transpose,
    element_type,
)
from lowering.xla_client.mapping import mapped, refuse, written

# Elementwise

Abs = mapped(xb.abs, "operand, /")
Acos = mapped(xb.acos, "operand, /")
Acosh = mapped(xb.acosh, "operand, /")
Asin = mapped(xb.asin, "operand, /")
Asinh = mapped(xb.asinh, "operand, /")
Atan = mapped(xb.atan, "operand, /")
Atanh = mapped(xb.atanh, "operand, /")
BesselI0e = mapped(lib.bessel_i0e, "operand, /")
BesselI1e = mapped(lib.bessel_i1e, "operand, /")
Cbrt = mapped(xb.cbrt, "operand, result_accuracy=None")
Ceil = mapped(xb.ceil, "operand, /")
Clz = mapped(xb.clz, "operand, /")
Conj = mapped(xb.conj, "operand, /")
Cos = mapped(xb.cos, "operand, result_accuracy=None")
Cosh = mapped(xb.cosh, "operand, /")
Digamma = mapped(lib.digamma, "operand, /")
ErfInv = mapped(lib.erf_inv, "operand, /")
Erfc = mapped(lib.erfc, "operand, /")
Exp = mapped(xb.exp, "operand, result_accuracy=None")
Expm1 = mapped(xb.expm1, "operand, result_accuracy=None")
Floor = mapped(xb.floor, "operand, /")
Imag = mapped(xb.imag, "operand, /")
IsFinite = mapped(xb.is_finite, "operand, /")
Lgamma = mapped(lib.lgamma, "operand, /")
Log = mapped(xb.log, "operand, result_accuracy=None")
Log1p = mapped(xb.log1p, "operand, result_accuracy=None")
Logistic = mapped(xb.logistic, "operand, result_accuracy=None")
Neg = mapped(xb.neg, "operand, /")
Not = mapped(xb.not_, "operand, /")
PopulationCount = mapped(xb.population_count, "operand, /")
Real = mapped(xb.real, "operand, /")
Reciprocal = mapped(xb.reciprocal, "operand, /")
Round = mapped(xb.round, "operand, /")
Rsqrt = mapped(xb.rsqrt, "operand, result_accuracy=None")
Sign = mapped(xb.sign, "operand, /")
Sin = mapped(xb.sin, "operand, result_accuracy=None")
Sinh = mapped(xb.sinh, "operand, /")
Sqrt = mapped(xb.sqrt, "operand, result_accuracy=None")
Square = mapped(xb.square, "operand, /")
Tan = mapped(xb.tan, "operand, result_accuracy=None")
Tanh = mapped(xb.tanh, "operand, result_accuracy=None")

_BINARY = "lhs, rhs, broadcast_dimensions=None"

Add = mapped(xb.add, _BINARY)
And = mapped(xb.and_, _BINARY)
Atan2 = mapped(xb.atan2, _BINARY)
Complex = mapped(xb.complex, _BINARY)
Div = mapped(xb.div, _BINARY)
Eq = mapped(xb.eq, _BINARY)
Ge = mapped(xb.ge, _BINARY)
Gt = mapped(xb.gt, _BINARY)
Le = mapped(xb.le, _BINARY)
Lt = mapped(xb.lt, _BINARY)
Max = mapped(xb.max, _BINARY)
Min = mapped(xb.min, _BINARY)
Mul = mapped(xb.mul, _BINARY)
Ne = mapped(xb.ne, _BINARY)
Or = mapped(xb.or_, _BINARY)
Pow = mapped(xb.pow, _BINARY)
Rem = mapped(xb.rem, _BINARY)
ShiftLeft = mapped(xb.shift_left, _BINARY)
ShiftRightArithmetic = mapped(xb.shift_right_arithmetic, _BINARY)
ShiftRightLogical = mapped(xb.shift_right_logical, _BINARY)
Sub = mapped(xb.sub, _BINARY)
Xor = mapped(xb.xor, _BINARY)

BitcastConvertType = mapped(xb.bitcast_convert_type, "operand, new_element_type")
Clamp = mapped(xb.clamp, "min, operand, max")
ConvertElementType = mapped(xb.convert_element_type, "operand, new_element_type")
ReducePrecision = mapped(xb.reduce_precision, "operand, exponent_bits, mantissa_bits")
Select = mapped(xb.select, "pred, on_true, on_false")

Igamma = mapped(lib.igamma, "a, x")
IgammaGradA = mapped(lib.igamma_grad_a, "a, x")
Igammac = mapped(lib.igammac, "a, x")
NextAfter = mapped(lib.next_after, "from_, to")
RandomGammaGrad = mapped(lib.random_gamma_grad, "a, x")
RegularizedIncompleteBeta = mapped(lib.regularized_incomplete_beta, "a, b, x")
Zeta = mapped(lib.zeta, "x, q")

# Shapes

Broadcast = mapped(xb.broadcast, "operand, sizes")
BroadcastInDim = mapped(xb.broadcast_in_dim, "operand, shape, broadcast_dimensions")
Collapse = mapped(xb.collapse, "operand, dimensions")
ConcatInDim = mapped(xb.concatenate, "builder, operands, dimension")
DynamicReshape = mapped(xb.dynamic_reshape, "operand, dim_sizes, new_size_bounds, dims_are_dynamic")
GetDimensionSize = mapped(xb.get_dimension_size, "operand, dimension")
Pad = mapped(xb.pad, "operand, padding_value, padding_config")
RemoveDynamicDimension = mapped(xb.remove_dynamic_dimension, "operand, dimension")
Rev = mapped(xb.rev, "operand, dimensions")
SetDimensionSize = mapped(xb.set_dimension_size, "operand, val, dimension")
Slice = mapped(xb.slice, "operand, start_indices, limit_indices, strides")
SliceInDim = mapped(xb.slice_in_dim, "operand, start_index, limit_index, stride, dimno")
Transpose = mapped(xb.transpose, "operand, permutation")

# Indices

DynamicSlice = mapped(xb.dynamic_slice, "operand, start_indices, slice_sizes")
DynamicUpdateSlice = mapped(xb.dynamic_update_slice, "operand, update, start_indices")
Gather = mapped(
    xb.gather, "a, start_indices, dimension_numbers, slice_sizes, indices_are_sorted=False"
)

_SCATTER = (
    "scatter_indices, updates, update_computation, dimension_numbers, indices_are_sorted=False, "
    "unique_indices=False"
)
Scatter = mapped(xb.scatter, f"input, {_SCATTER}", f"inputs, {_SCATTER}")

# Products

ConvGeneralDilated = mapped(
    xb.conv_general_dilated,
    "lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers, "
    "feature_group_count=1, batch_group_count=1, precision_config=None, "
    "preferred_element_type=None, window_reversal=None",
)
Dot = mapped(xb.dot, "lhs, rhs, precision_config=None, preferred_element_type=None")
DotGeneral = mapped(
    xb.dot_general,
    "lhs, rhs, dimension_numbers, precision_config=None, preferred_element_type=None",
    keywords={
        "precision_config": "precision",
        "preferred_element_type": "preferred_element_type",
    },
)

# Linear algebra

Cholesky = mapped(xb.cholesky, "a, lower=True")
Fft = mapped(xb.fft, "operand, fft_type, fft_length")
LU = mapped(lib.lu, "operand", name="LU")
ProductOfElementaryHouseholderReflectors = mapped(
    lib.product_of_elementary_householder_reflectors, "a, taus"
)
QR = mapped(lib.qr, "operand, full_matrices", name="QR")
QrDecomposition = mapped(lib.qr_decomposition, "operand", name="QrDecomposition")
TriangularSolve = mapped(xb.triangular_solve, "a, b, left_side, lower, unit_diagonal, transpose_a")

# Reductions and sorting

Reduce = mapped(xb.reduce, "builder, operands, init_values, computation, dimensions_to_reduce")
SelectAndScatterWithGeneralPadding = mapped(
    xb.select_and_scatter_with_general_padding,
    "operand, select, window_dimensions, window_strides, padding, source, init_value, scatter",
)
Sort = mapped(xb.sort, "builder, operands, comparator=None, dimension=-1, is_stable=False")
TopK = mapped(xb.top_k, "input, k")
ApproxTopK = mapped(
    lib.approx_top_k,
    "builder, operands, init_values, top_k, reduction_dim, comparator, recall_target=0.9, "
    "aggregate_to_topk=True, reduction_input_size_override=-1",
)
ApproxTopKFallback = mapped(
    lib.approx_top_k_fallback,
    "builder, operands, init_values, top_k, reduction_dim, comparator, recall_target=0.9, "
    "aggregate_to_topk=True, reduction_input_size_override=-1",
)
ApproxTopKReductionOutputSize = mapped(
    lib.approx_top_k_reduction_output_size,
    "input_size, rank, top_k, recall_target, aggregate_to_topk=True, input_size_override=-1",
)

# Random numbers

RngBitGenerator = mapped(xb.rng_bit_generator, "algorithm, initial_state, shape")
RngNormal = mapped(xb.rng_normal, "mu, sigma, shape")
RngUniform = mapped(xb.rng_uniform, "a, b, shape")

# Control flow and tuples

Conditional = mapped(
    xb.conditional,
    "branch_index, branch_computations, branch_operands",
    "predicate, true_operand, true_computation, false_operand, false_computation",
)
GetTupleElement = mapped(xb.get_tuple_element, "tuple_data, index")
OptimizationBarrier = mapped(xb.optimization_barrier, "operand, /")
While = mapped(xb.while_, "condition, body, init")

# Several devices

AllGather = mapped(
    xb.all_gather,
    "operand, all_gather_dimension, shard_count, replica_groups=[], channel_id=None, "
    "shape_with_layout=None, use_global_device_ids=None",
)
AllReduce = mapped(
    xb.all_reduce,
    "operand, computation, replica_groups=[], channel_id=None, shape_with_layout=None, "
    "use_global_device_ids=None",
)
AllToAll = mapped(
    xb.all_to_all,
    "operand, split_dimension, concat_dimension, split_count, replica_groups=[], layout=None, "
    "channel_id=None",
)
CrossReplicaSum = mapped(xb.cross_replica_sum, "operand, replica_groups=[]")
ReduceScatter = mapped(
    xb.reduce_scatter,
    "operand, computation, scatter_dimension, shard_count, replica_groups=[], channel_id=None, "
    "layout=None, use_global_device_ids=None",
)

# Host

InfeedWithToken = mapped(xb.infeed_with_token, "token, shape, config=''")
OutfeedWithToken = mapped(
    xb.outfeed_with_token, "operand, token, shape_with_layout, outfeed_config=''"
)
RecvFromHost = mapped(xb.recv_from_host, "token, shape, handle")
SendToHost = mapped(xb.send_to_host, "operand, token, shape_with_layout, handle")


# Functions whose parameters differ from those of the new API


@written("xb.after_all", "builder, tokens")
def AfterAll(builder: xb.XlaBuilder, tokens: Sequence[xb.XlaOp]) -> xb.XlaOp:
    """See `builder.after_all`; without tokens, a new token."""
    return xb.after_all(*tokens) if tokens else builder.create_token()


@written("xb.call", "builder, computation, operands")
def Call(
    builder: xb.XlaBuilder, computation: xb.XlaComputation, operands: Sequence[xb.XlaOp]
) -> xb.XlaOp:
    """See `builder.call`."""
    return xb.call(computation, *operands) if operands else builder.call(computation)


@written("xb.collective_permute", "operand, source_target_pairs, channel_id=None, inplace=False")
def CollectivePermute(
    operand: xb.XlaOp, source_target_pairs: Any, channel_id: Any, inplace: bool
) -> xb.XlaOp:
    """See `builder.collective_permute`."""
    refuse("CollectivePermute", "inplace", inplace, False, _NOT_IN_PLACE)
    return xb.collective_permute(operand, source_target_pairs, channel_id)


@written(
    "xb.multi_collective_permute", "operands, source_target_pairs, channel_id=None, inplace=False"
)
def MultiCollectivePermute(
    operands: Sequence[xb.XlaOp], source_target_pairs: Any, channel_id: Any, inplace: bool
) -> xb.XlaOp:
    """See `builder.multi_collective_permute`."""
    refuse("MultiCollectivePermute", "inplace", inplace, False, _NOT_IN_PLACE)
    return xb.multi_collective_permute(operands, source_target_pairs, channel_id)


_NOT_IN_PLACE = "omit it; StableHLO has no permutation in place"


@written("b.constant", "builder, literal")
def Constant(builder: xb.XlaBuilder, literal: Any) -> xb.XlaOp:
    """See `builder.XlaBuilder.constant`; a tuple of arrays is recorded as a tuple of constants."""
    if isinstance(literal, tuple):
        elements = [Constant(builder, element) for element in literal]
        return xb.tuple(*elements) if elements else builder.empty_tuple()
    if isinstance(literal, (bool, int, float, complex)):
        literal = np.asarray(literal)
    return builder.constant(literal)


@written("b.constant", "builder, literal")
def ConstantLiteral(builder: xb.XlaBuilder, literal: Any) -> xb.XlaOp:
    """See `Constant`."""
    op: xb.XlaOp = Constant(builder, literal)
    return op


@written("b.create_token", "builder")
def CreateToken(builder: xb.XlaBuilder) -> xb.XlaOp:
    """See `builder.XlaBuilder.create_token`."""
    return builder.create_token()


_CALL = "builder, call_target_name, operands, "
_CALL_OPTIONS = "opaque=b'', has_side_effect=False, "
_CALL_END = "schedule=0, api_version=1"
_CALL_LAYOUTS = "shape_with_layout, operand_shapes_with_layout, "
_CALL_ALIASING = "output_operand_aliasing=(), literal=None, "


@written("xb.custom_call", f"{_CALL}shape, {_CALL_OPTIONS}{_CALL_END}")
def CustomCall(**arguments: Any) -> xb.XlaOp:
    """See `builder.custom_call`."""
    return _custom_call("CustomCall", **arguments)


@written("xb.custom_call", f"{_CALL}{_CALL_LAYOUTS}{_CALL_OPTIONS}{_CALL_END}")
def CustomCallWithLayout(**arguments: Any) -> xb.XlaOp:
    """See `builder.custom_call`."""
    return _custom_call("CustomCallWithLayout", **arguments)


@written("xb.custom_call", f"{_CALL}{_CALL_LAYOUTS}{_CALL_OPTIONS}{_CALL_ALIASING}{_CALL_END}")
def CustomCallWithAliasing(**arguments: Any) -> xb.XlaOp:
    """See `builder.custom_call`."""
    return _custom_call("CustomCallWithAliasing", **arguments)


@written("xb.custom_call", f"{_CALL}computation, shape, {_CALL_OPTIONS}{_CALL_ALIASING}{_CALL_END}")
def CustomCallWithComputation(**arguments: Any) -> xb.XlaOp:
    """See `builder.custom_call`."""
    return _custom_call("CustomCallWithComputation", **arguments)


def _custom_call(
    op: str,
    *,
    builder: xb.XlaBuilder,
    call_target_name: str,
    operands: Sequence[xb.XlaOp],
    shape: xb.Shape | None = None,
    shape_with_layout: xb.Shape | None = None,
    literal: Any = None,
    **more: Any,
) -> xb.XlaOp:
    refuse(op, "literal", literal, None, "pass the literal as an operand")
    result: Any = shape_with_layout if shape is None else shape
    if operands:
        return xb.custom_call(call_target_name, operands, result, **more)
    return builder.custom_call(call_target_name, result, **more)


@written("lib.eigh", "a, lower=True, max_iter=15, epsilon=1e-5, sort_eigenvalues=True")
def Eigh(
    a: xb.XlaOp, lower: bool, max_iter: int, epsilon: float, sort_eigenvalues: bool
) -> tuple[xb.XlaOp, xb.XlaOp]:
    """See `builder.lib.eigh`, which needs neither a tolerance nor a number of iterations."""
    return lib.eigh(a, lower, sort_eigenvalues)


@written("lib.svd", "a, max_iter=100, epsilon=1e-6")
def SVD(a: xb.XlaOp, max_iter: int, epsilon: float) -> tuple[xb.XlaOp, xb.XlaOp, xb.XlaOp]:
    """See `builder.lib.svd`, which needs neither a tolerance nor a number of iterations."""
    return lib.svd(a)


@written("xb.erf", "operand, result_accuracy=None")
def Erf(operand: xb.XlaOp, result_accuracy: Any) -> xb.XlaOp:
    """See `builder.erf`."""
    refuse("Erf", "result_accuracy", result_accuracy, None, "omit it; StableHLO has none for erf")
    return xb.erf(operand)


@written("b.iota", "builder, shape, iota_dimension", "builder, type, size")
def Iota(builder: xb.XlaBuilder, **arguments: Any) -> xb.XlaOp:
    """See `builder.XlaBuilder.iota`."""
    first, number = arguments.values()
    if isinstance(first, (xb.ArrayShape, xb.TupleShape, xb.TokenShape)):
        return builder.iota(first, number)
    return builder.iota(xb.array_shape(element_type("Iota", first), [number]), 0)


@written("xb.map", "builder, operands, computation, dimensions, static_operands=()")
def Map(
    builder: xb.XlaBuilder,
    operands: Sequence[xb.XlaOp],
    computation: xb.XlaComputation,
    dimensions: Sequence[int],
    static_operands: Sequence[xb.XlaOp],
) -> xb.XlaOp:
    """See `builder.map`."""
    if static_operands:
        rule = "static_operands are not supported, as in XLA"
        raise error_of(OperandError, "Map", rule, got=brief(static_operands))
    return xb.map(operands, computation, dimensions)


@written("b.parameter", "builder, parameter_number, shape, name='', replicated_at_leaf_buffers=()")
def Parameter(
    builder: xb.XlaBuilder,
    parameter_number: int,
    shape: xb.Shape,
    name: str,
    replicated_at_leaf_buffers: Sequence[bool],
) -> xb.XlaOp:
    """See `builder.XlaBuilder.parameter`; a name that is used already is made unique."""
    used = builder._parameter_names
    stem = name or f"p{parameter_number}"
    numbered = (f"{stem}_{count}" for count in range(1, len(used) + 2))
    unique = next(n for n in (stem, *numbered) if n not in used)
    return builder.parameter(
        shape,
        unique,
        number=parameter_number,
        replicated_at_leaf_buffers=list(replicated_at_leaf_buffers),
    )


_WINDOW = (
    "computation, window_dimensions, window_strides, base_dilations, window_dilations, padding"
)


@written(
    "xb.reduce_window_with_general_padding",
    f"operand, init_value, {_WINDOW}",
    f"operands, init_values, {_WINDOW}",
)
def ReduceWindowWithGeneralPadding(**arguments: Any) -> xb.XlaOp:
    """See `builder.reduce_window_with_general_padding`; empty strides or dilations mean ones."""
    for name in ("window_strides", "base_dilations", "window_dilations"):
        arguments[name] = list(arguments[name]) or None
    return xb.reduce_window_with_general_padding(*arguments.values())


@written("b.replica_id", "builder")
def ReplicaId(builder: xb.XlaBuilder) -> xb.XlaOp:
    """See `builder.XlaBuilder.replica_id`."""
    return builder.replica_id()


@written("xb.reshape", "operand, new_sizes", "operand, dimensions, new_sizes")
def Reshape(
    operand: xb.XlaOp, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None
) -> xb.XlaOp:
    """See `builder.reshape`; `dimensions` is a permutation that is applied first."""
    if dimensions is not None and list(dimensions) != sorted(dimensions):
        operand = xb.transpose(operand, dimensions)
    return xb.reshape(operand, new_sizes)


@written("xb.tuple", "builder, elements")
def Tuple(builder: xb.XlaBuilder, elements: Sequence[xb.XlaOp]) -> xb.XlaOp:
    """See `builder.tuple`."""
    return xb.tuple(*elements) if elements else builder.empty_tuple()
