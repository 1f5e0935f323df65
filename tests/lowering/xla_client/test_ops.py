"""The functions of `xla_client.ops`, compared with NumPy and SciPy."""

from __future__ import annotations

import ctypes
import inspect
from collections.abc import Callable
from functools import cache
from itertools import islice
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import scipy
from tables import each_row

import builder as xb
from lowering import xla_client as xc
from lowering.xla_client import ops
from lowering.xla_client.mapping import FUNCTIONS

X = np.array([[0.5, -0.25, 0.75], [-0.5, 0.125, 0.25]], np.float32)
Y = np.array([[2.0, -1.5, 0.25], [1.0, 3.0, -0.75]], np.float32)
POSITIVE = np.array([0.5, 1.25, 3.0], np.float32)
OTHER = np.array([2.0, 0.75, 4.5], np.float32)
INTS = np.array([12, -7, 5], np.int32)
SHIFTS = np.array([1, 2, 3], np.int32)
MATRIX = np.array([[4, 1, 0.5], [1, 3, 0.25], [0.5, 0.25, 2]], np.float32)
COMPLEX = np.array([1 + 2j, -0.5j, 3], np.complex64)
GRID = np.arange(9, dtype=np.int32).reshape(3, 3)


def parameters(builder: xc.XlaBuilder, *values: Any) -> list[xb.XlaOp]:
    return [ops.Parameter(builder, i, xc.shape_from_pyval(value)) for i, value in enumerate(values)]


def run(builder: xc.XlaBuilder, *values: Any) -> list[np.ndarray[Any, Any]]:
    client = xc.make_cpu_client()
    executable = client.compile(builder.build())
    return xc.execute_with_python_values(executable, values, client)


def scalars(function: Callable[..., Any], dtype: Any, count: int = 2) -> xc.XlaComputation:
    b = xc.XlaBuilder("scalars")
    shape = xc.Shape.scalar_shape(np.dtype(dtype))
    operands = [ops.Parameter(b, i, shape) for i in range(count)]
    return b.build(function(*operands))


UNARY: dict[str, tuple[Callable[..., Any], Any]] = {
    "Abs": (np.abs, X),
    "Acos": (np.arccos, X),
    "Acosh": (np.arccosh, POSITIVE + 1),
    "Asin": (np.arcsin, X),
    "Asinh": (np.arcsinh, X),
    "Atan": (np.arctan, X),
    "Atanh": (np.arctanh, X),
    "BesselI0e": (scipy.special.i0e, X),
    "BesselI1e": (scipy.special.i1e, X),
    "Cbrt": (np.cbrt, X),
    "Ceil": (np.ceil, Y),
    "Clz": (lambda x: np.array([32 - int(v).bit_length() for v in x], np.int32), abs(INTS)),
    "Conj": (np.conj, COMPLEX),
    "Cos": (np.cos, Y),
    "Cosh": (np.cosh, Y),
    "Digamma": (scipy.special.digamma, POSITIVE),
    "Erf": (scipy.special.erf, X),
    "ErfInv": (scipy.special.erfinv, X),
    "Erfc": (scipy.special.erfc, X),
    "Exp": (np.exp, Y),
    "Expm1": (np.expm1, X),
    "Floor": (np.floor, Y),
    "Imag": (np.imag, COMPLEX),
    "IsFinite": (np.isfinite, np.array([1, np.inf, np.nan], np.float32)),
    "Lgamma": (scipy.special.gammaln, POSITIVE),
    "Log": (np.log, POSITIVE),
    "Log1p": (np.log1p, X),
    "Logistic": (scipy.special.expit, Y),
    "Neg": (np.negative, Y),
    "Not": (np.invert, INTS),
    "OptimizationBarrier": (lambda x: x, Y),
    "PopulationCount": (np.bitwise_count, abs(INTS)),
    "Real": (np.real, COMPLEX),
    "Reciprocal": (np.reciprocal, Y),
    "Round": (lambda x: np.trunc(x + np.copysign(0.5, x)), np.array([2.5, -1.5, 0.2], np.float32)),
    "Rsqrt": (lambda x: 1 / np.sqrt(x), POSITIVE),
    "Sign": (np.sign, Y),
    "Sin": (np.sin, Y),
    "Sinh": (np.sinh, Y),
    "Sqrt": (np.sqrt, POSITIVE),
    "Square": (np.square, Y),
    "Tan": (np.tan, X),
    "Tanh": (np.tanh, Y),
}

BINARY: dict[str, tuple[Callable[..., Any], Any, Any]] = {
    "Add": (np.add, X, Y),
    "And": (np.bitwise_and, INTS, SHIFTS),
    "Atan2": (np.arctan2, X, Y),
    "Complex": (lambda x, y: x + 1j * y, X, Y),
    "Div": (np.divide, X, Y),
    "Eq": (np.equal, X, X),
    "Ge": (np.greater_equal, X, Y),
    "Gt": (np.greater, X, Y),
    "Igamma": (scipy.special.gammainc, POSITIVE, OTHER),
    "IgammaGradA": (
        lambda a, x: (
            (scipy.special.gammainc(a + 1e-5, x) - scipy.special.gammainc(a - 1e-5, x)) / 2e-5
        ),
        POSITIVE.astype(np.float64),
        OTHER.astype(np.float64),
    ),
    "Igammac": (scipy.special.gammaincc, POSITIVE, OTHER),
    "Le": (np.less_equal, X, Y),
    "Lt": (np.less, X, Y),
    "Max": (np.maximum, X, Y),
    "Min": (np.minimum, X, Y),
    "Mul": (np.multiply, X, Y),
    "Ne": (np.not_equal, X, Y),
    "NextAfter": (np.nextafter, X, Y),
    "Or": (np.bitwise_or, INTS, SHIFTS),
    "Pow": (np.power, POSITIVE, OTHER),
    "RandomGammaGrad": (
        lambda a, x: (scipy.special.gammaincinv(a + 1e-5, scipy.special.gammainc(a, x)) - x) / 1e-5,
        POSITIVE.astype(np.float64),
        OTHER.astype(np.float64),
    ),
    "Rem": (np.fmod, Y, X),
    "ShiftLeft": (np.left_shift, INTS, SHIFTS),
    "ShiftRightArithmetic": (np.right_shift, INTS, SHIFTS),
    "ShiftRightLogical": (
        lambda x, y: (x.astype(np.uint32) >> y.astype(np.uint32)).astype(np.int32),
        INTS,
        SHIFTS,
    ),
    "Sub": (np.subtract, X, Y),
    "Xor": (np.bitwise_xor, INTS, SHIFTS),
    "Zeta": (scipy.special.zeta, POSITIVE + 1, OTHER),
}


def close(actual: Any, expected: Any) -> None:
    expected = np.asarray(expected)
    assert actual.shape == expected.shape
    assert actual.dtype.kind == expected.dtype.kind or {*"iub"} >= {
        actual.dtype.kind,
        expected.dtype.kind,
    }
    np.testing.assert_allclose(actual, expected, rtol=3e-5, atol=1e-6)


@cache
def results_of_elementwise() -> dict[str, Any]:
    """Return the results of the functions of one or two arrays, from one program."""
    b = xc.XlaBuilder("elementwise")
    table = UNARY | BINARY
    values = [value for _, *operands in table.values() for value in operands]
    operands = iter(parameters(b, *values))
    ops.Tuple(b, [getattr(ops, n)(*islice(operands, len(case) - 1)) for n, case in table.items()])
    return dict(zip(table, run(b, *values), strict=True))


@each_row("name", UNARY)
def test_function_of_one_array(name: str) -> None:
    expected, x = UNARY[name]
    close(results_of_elementwise()[name], expected(x))


@each_row("name", BINARY)
def test_function_of_two_arrays(name: str) -> None:
    expected, x, y = BINARY[name]
    result = results_of_elementwise()[name]
    if name in ("IgammaGradA", "RandomGammaGrad"):  # a difference quotient is less exact
        np.testing.assert_allclose(result, expected(x, y), rtol=1e-4)
    else:
        close(result, expected(x, y))


def gather_numbers() -> xc.GatherDimensionNumbers:
    numbers = xc.GatherDimensionNumbers()
    numbers.offset_dims.append(1)
    numbers.collapsed_slice_dims.append(0)
    numbers.start_index_map.append(0)
    numbers.index_vector_dim = 1
    return numbers


def scatter_numbers() -> xc.ScatterDimensionNumbers:
    numbers = xc.ScatterDimensionNumbers()
    numbers.update_window_dims.append(1)
    numbers.inserted_window_dims.append(0)
    numbers.scatter_dims_to_operand_dims.append(0)
    numbers.index_vector_dim = 1
    return numbers


def highest() -> xc.PrecisionConfig:
    config = xc.PrecisionConfig()
    config.operand_precision.append(config.Precision.HIGHEST)
    config.operand_precision.append(config.Precision.DEFAULT)
    return config


def constant(b: xc.XlaBuilder, value: Any, dtype: Any = np.float32) -> xb.XlaOp:
    return ops.Constant(b, np.array(value, dtype))


def one() -> xc.XlaComputation:
    b = xc.XlaBuilder("one")
    return b.build(constant(b, 1))


def first_of_top_k(function: Callable[..., Any], b: xc.XlaBuilder, x: xb.XlaOp) -> xb.XlaOp:
    c = xc.XlaBuilder("comparator")
    shapes = [xc.Shape(text) for text in ("f32[]", "f32[]", "s32[]", "s32[]")]
    lhs, rhs, *_ = [ops.Parameter(c, i, shape) for i, shape in enumerate(shapes)]
    comparator = c.build(ops.Gt(lhs, rhs))
    index = ops.Iota(b, xc.Shape("s32[2,3]"), 1)
    init = [constant(b, -np.inf), constant(b, -1, np.int32)]
    return ops.GetTupleElement(function(b, [x, index], init, 2, 1, comparator), 0)


def scattered() -> Any:
    expected = GRID.copy()
    expected[[0, 2]] += 10
    return expected


IMAGE = np.arange(24, dtype=np.float32).reshape(1, 1, 4, 6)
WINDOW = np.array([[[[1.0, -2.0], [0.5, 3.0]]]], np.float32)
CORRELATED = np.array(
    [[[[(IMAGE[0, 0, i : i + 2, j : j + 2] * WINDOW[0, 0]).sum() for j in range(5)]
       for i in range(3)]]],
    np.float32,
)  # fmt: skip
SPECTRUM = np.array([1.0, 2.0, -1.0, 0.5], np.float32)
ADD = xc.ops.Add
ROWS = xc.make_replica_groups([[0]])

CASES: dict[str, list[tuple[Callable[..., Any], list[Any], Any]]] = {
    "BitcastConvertType": [
        (lambda b, x: ops.BitcastConvertType(x, xc.PrimitiveType.S32), [X], X.view(np.int32))
    ],
    "ConvertElementType": [
        (lambda b, x: ops.ConvertElementType(x, xc.PrimitiveType.S32), [Y], Y.astype(np.int32)),
        (lambda b, x: ops.ConvertElementType(x, 12), [Y], Y.astype(np.float64)),
    ],
    "Clamp": [
        (lambda b, x: ops.Clamp(constant(b, -1), x, constant(b, 1)), [Y], Y.clip(-1, 1)),
    ],
    "ReducePrecision": [
        (
            lambda b, x: ops.ReducePrecision(x, exponent_bits=8, mantissa_bits=7),
            [X / 3],
            (X / 3).astype(ml_dtypes.bfloat16).astype(np.float32),
        )
    ],
    "Select": [(lambda b, p, x, y: ops.Select(p, x, y), [X > 0, X, Y], np.where(X > 0, X, Y))],
    "RegularizedIncompleteBeta": [
        (
            lambda b, *xs: ops.RegularizedIncompleteBeta(*xs),
            [POSITIVE, OTHER, np.float32([0.25, 0.5, 0.75])],
            scipy.special.betainc(POSITIVE, OTHER, np.float32([0.25, 0.5, 0.75])),
        )
    ],
    "Broadcast": [(lambda b, x: ops.Broadcast(x, sizes=(2,)), [INTS], np.stack([INTS, INTS]))],
    "BroadcastInDim": [
        (lambda b, x: ops.BroadcastInDim(x, [3, 2], [0]), [INTS], np.stack([INTS, INTS], 1)),
        (lambda b, x: ops.BroadcastInDim(x, [2], []), [np.int32(7)], np.int32([7, 7])),
    ],
    "Collapse": [(lambda b, x: ops.Collapse(x, [0, 1]), [X], X.reshape(6))],
    "ConcatInDim": [
        (lambda b, x, y: ops.ConcatInDim(b, [x, y], 1), [X, Y], np.concatenate([X, Y], 1))
    ],
    "DynamicReshape": [
        (
            lambda b, x, n: ops.DynamicReshape(x, [n], [6], [True]),
            [np.arange(6, dtype=np.float32), np.int32(4)],
            np.arange(4, dtype=np.float32),
        )
    ],
    "GetDimensionSize": [(lambda b, x: ops.GetDimensionSize(x, 1), [X], np.int32(3))],
    "SetDimensionSize": [
        (lambda b, x, n: ops.SetDimensionSize(x, n, 0), [POSITIVE, np.int32(2)], POSITIVE[:2])
    ],
    "RemoveDynamicDimension": [
        (
            lambda b, x, n: ops.RemoveDynamicDimension(ops.SetDimensionSize(x, n, 0), 0),
            [POSITIVE, np.int32(3)],
            POSITIVE,
        )
    ],
    "Pad": [
        (
            lambda b, x: ops.Pad(x, constant(b, 9), xc.make_padding_config([(1, 0, 0), (0, 2, 0)])),
            [X],
            np.pad(X, [(1, 0), (0, 2)], constant_values=9),
        )
    ],
    "Rev": [(lambda b, x: ops.Rev(x, [1]), [X], X[:, ::-1])],
    "Slice": [(lambda b, x: ops.Slice(x, [0, 0], [2, 3], [1, 2]), [X], X[:, ::2])],
    "SliceInDim": [(lambda b, x: ops.SliceInDim(x, 1, 3, 1, 1), [X], X[:, 1:3])],
    "Transpose": [(lambda b, x: ops.Transpose(x, (1, 0)), [X], X.T)],
    "Reshape": [
        (lambda b, x: ops.Reshape(x, [3, 2]), [X], X.reshape(3, 2)),
        (lambda b, x: ops.Reshape(x, [1, 0], [2, 3]), [X], X.T.reshape(2, 3)),
        (
            lambda b, x: ops.Reshape(x, dimensions=[0, 1], new_sizes=[6]),
            [X],
            X.reshape(6),
        ),
    ],
    "DynamicSlice": [
        (
            lambda b, x: ops.DynamicSlice(x, [constant(b, [1, 0], np.int32)], [2, 2]),
            [GRID],
            GRID[1:3, 0:2],
        )
    ],
    "DynamicUpdateSlice": [
        (
            lambda b, x: ops.DynamicUpdateSlice(
                x, constant(b, [[7]], np.int32), [constant(b, i, np.int32) for i in (1, 2)]
            ),
            [GRID],
            np.where(GRID == 5, 7, GRID),
        )
    ],
    "Gather": [
        (
            lambda b, x, i: ops.Gather(x, i, gather_numbers(), slice_sizes=[1, 3]),
            [GRID, np.int32([2, 0])],
            GRID[[2, 0]],
        )
    ],
    "Scatter": [
        (
            lambda b, x, i, u: ops.Scatter(x, i, u, scalars(ADD, np.int32), scatter_numbers()),
            [GRID, np.int32([0, 2]), np.full((2, 3), 10, np.int32)],
            scattered(),
        ),
        (
            lambda b, x, i, u: ops.Scatter(
                inputs=[x],
                scatter_indices=i,
                updates=[u],
                update_computation=scalars(ADD, np.int32),
                dimension_numbers=scatter_numbers(),
            ),
            [GRID, np.int32([0, 2]), np.full((2, 3), 10, np.int32)],
            scattered(),
        ),
    ],
    "ConvGeneralDilated": [
        (
            lambda b, x, w: ops.ConvGeneralDilated(
                x,
                w,
                [1, 1],
                [(0, 0), (0, 0)],
                (),
                (),
                xc.make_convolution_dimension_numbers(("NCHW", "OIHW", "NCHW"), 2),
                precision_config=highest(),
            ),
            [IMAGE, WINDOW],
            CORRELATED,
        )
    ],
    "Dot": [(lambda b, x, y: ops.Dot(x, y), [X, MATRIX], X @ MATRIX)],
    "DotGeneral": [
        (
            lambda b, x, y: ops.DotGeneral(
                x, y, xc.make_dot_dimension_numbers((([1], [1]), ([], []))), highest()
            ),
            [X, Y],
            X @ Y.T,
        ),
        (
            lambda b, x, y: ops.DotGeneral(
                x,
                y,
                xc.make_dot_dimension_numbers((([1], [1]), ([0], [0]))),
                preferred_element_type=xc.PrimitiveType.F64,
            ),
            [X, Y],
            (X.astype(np.float64) * Y).sum(1),
        ),
    ],
    "Cholesky": [(lambda b, a: ops.Cholesky(a), [MATRIX], np.linalg.cholesky(MATRIX))],
    "Fft": [
        (
            lambda b, x: ops.Fft(x, xc.FftType.RFFT, [4]),
            [SPECTRUM],
            np.fft.rfft(SPECTRUM).astype(np.complex64),
        ),
        (
            lambda b, x: ops.Fft(x, 0, [3]),
            [COMPLEX],
            np.fft.fft(COMPLEX).astype(np.complex64),
        ),
    ],
    "TriangularSolve": [
        (
            lambda b, a, x: ops.TriangularSolve(
                a,
                x,
                left_side=True,
                lower=True,
                unit_diagonal=False,
                transpose_a=ops.TriangularSolveOptions_Transpose.TRANSPOSE,
            ),
            [MATRIX, Y.T.copy()],
            scipy.linalg.solve_triangular(MATRIX, Y.T, trans="T", lower=True),
        )
    ],
    "Reduce": [
        (
            lambda b, x: ops.Reduce(b, [x], [constant(b, 0)], scalars(ADD, np.float32), [1]),
            [X],
            X.sum(1),
        )
    ],
    "ReduceWindowWithGeneralPadding": [
        (
            lambda b, x: ops.ReduceWindowWithGeneralPadding(
                x, constant(b, 0), scalars(ADD, np.float32), (2, 1), (1, 1), [], [], [(0, 0)] * 2
            ),
            [X],
            X[:1] + X[1:],
        ),
        (
            lambda b, x: ops.ReduceWindowWithGeneralPadding(
                operands=[x],
                init_values=[constant(b, 0)],
                computation=scalars(ADD, np.float32),
                window_dimensions=(1, 2),
                window_strides=(),
                base_dilations=(),
                window_dilations=(1, 2),
                padding=[(0, 0), (0, 0)],
            ),
            [X],
            X[:, :1] + X[:, 2:],
        ),
    ],
    "SelectAndScatterWithGeneralPadding": [
        (
            lambda b, x: ops.SelectAndScatterWithGeneralPadding(
                x,
                scalars(ops.Ge, np.float32),
                (2, 1),
                (2, 1),
                [(0, 0), (0, 0)],
                constant(b, [[10, 20, 30]]),
                constant(b, 0),
                scalars(ADD, np.float32),
            ),
            [X],
            np.float32([[10, 0, 30], [0, 20, 0]]),
        )
    ],
    "Sort": [
        (lambda b, x: ops.Sort(b, [x], is_stable=True), [X], np.sort(X, 1)),
        (
            lambda b, x: ops.Sort(b, [x], scalars(ops.Gt, np.float32), 0),
            [X],
            -np.sort(-X, 0),
        ),
    ],
    "TopK": [(lambda b, x: ops.GetTupleElement(ops.TopK(x, 2), 0), [X], -np.sort(-X, 1)[:, :2])],
    "ApproxTopK": [
        (lambda b, x: first_of_top_k(ops.ApproxTopK, b, x), [X], -np.sort(-X, 1)[:, :2])
    ],
    "ApproxTopKFallback": [
        (
            lambda b, x: first_of_top_k(ops.ApproxTopKFallback, b, x),
            [X],
            -np.sort(-X, 1)[:, :2],
        )
    ],
    "GetTupleElement": [(lambda b, x, y: ops.GetTupleElement(ops.Tuple(b, [x, y]), 1), [X, Y], Y)],
    "While": [
        (
            lambda b, x: ops.While(
                scalars(lambda v: ops.Lt(v, constant(v.builder, 10)), np.float32, 1),
                scalars(lambda v: ops.Add(v, v), np.float32, 1),
                x,
            ),
            [np.float32(3)],
            np.float32(12),
        )
    ],
    "Conditional": [
        (
            lambda b, p, x: ops.Conditional(
                p, x, scalars(ops.Neg, np.float32, 1), x, scalars(ops.Square, np.float32, 1)
            ),
            [np.bool_(False), np.float32(3)],
            np.float32(9),
        ),
        (
            lambda b, i, x: ops.Conditional(
                branch_index=i,
                branch_computations=[scalars(f, np.float32, 1) for f in (ops.Neg, ops.Square)],
                branch_operands=[x, x],
            ),
            [np.int32(0), np.float32(3)],
            np.float32(-3),
        ),
    ],
    "Call": [
        (
            lambda b, x: ops.Call(b, scalars(ops.Neg, np.float32, 1), operands=[x]),
            [np.float32(2)],
            np.float32(-2),
        ),
        (lambda b, x: ops.Add(x, ops.Call(b, one(), [])), [np.float32(2)], np.float32(3)),
    ],
    "Map": [
        (
            lambda b, x, y: ops.Map(b, [x, y], scalars(ops.Sub, np.float32), [0, 1]),
            [X, Y],
            X - Y,
        )
    ],
    "Constant": [
        (lambda b: ops.Constant(b, X), [], X),
        (lambda b: ops.GetTupleElement(ops.Constant(b, (X, Y)), 1), [], Y),
        (lambda b: ops.Constant(b, 2.5), [], np.float64(2.5)),
    ],
    "ConstantLiteral": [(lambda b: ops.ConstantLiteral(b, INTS), [], INTS)],
    "Iota": [
        (lambda b: ops.Iota(b, xc.PrimitiveType.F32, 4), [], np.arange(4, dtype=np.float32)),
        (
            lambda b: ops.Iota(b, xc.Shape("s32[2,3]"), 1),
            [],
            np.broadcast_to(np.arange(3), (2, 3)),
        ),
        (lambda b: ops.Iota(b, type=4, size=3), [], np.arange(3)),
    ],
    "ReplicaId": [(lambda b: ops.ReplicaId(b), [], np.uint32(0))],
    "AllGather": [(lambda b, x: ops.AllGather(x, 0, 1, ROWS), [X], X)],
    "AllReduce": [(lambda b, x: ops.AllReduce(x, scalars(ADD, np.float32)), [X], X)],
    "AllToAll": [(lambda b, x: ops.AllToAll(x, 0, 0, 1, ROWS), [X], X)],
    "CrossReplicaSum": [(lambda b, x: ops.CrossReplicaSum(x, ROWS), [X], X)],
    "CollectivePermute": [(lambda b, x: ops.CollectivePermute(x, [(0, 0)]), [X], X)],
    "MultiCollectivePermute": [
        (
            lambda b, x, y: ops.GetTupleElement(ops.MultiCollectivePermute([x, y], [(0, 0)]), 1),
            [X, Y],
            Y,
        )
    ],
    "ReduceScatter": [(lambda b, x: ops.ReduceScatter(x, scalars(ADD, np.float32), 0, 1), [X], X)],
}


@cache
def results_of_others() -> dict[tuple[str, int], Any]:
    """Return the results of `CASES`, from one program."""
    b = xc.XlaBuilder("functions")
    table = {(name, i): case for name, cases in CASES.items() for i, case in enumerate(cases)}
    values = [value for _, arguments, _ in table.values() for value in arguments]
    operands = iter(parameters(b, *values))
    ops.Tuple(b, [function(b, *islice(operands, len(a))) for function, a, _ in table.values()])
    return dict(zip(table, run(b, *values), strict=True))


@each_row("name, case", [(name, i) for name, cases in CASES.items() for i in range(len(cases))])
def test_function(name: str, case: int) -> None:
    _, _, expected = CASES[name][case]
    close(results_of_others()[name, case], expected)


def test_parameters() -> None:
    b = xc.XlaBuilder("parameters")
    second = ops.Parameter(b, 1, xc.Shape("f32[]"), "x")
    first = ops.Parameter(b, 0, xc.shape_from_pyval(np.float32(0)), name="x")
    third = ops.Parameter(b, 2, xc.Shape("f32[2,3]{0,1}"), "", [True])
    ops.Tuple(b, [ops.Sub(second, first), third])
    assert third.attributes["replicated_at_leaf_buffers"] == (True,)
    difference, matrix = run(b, np.float32(3), np.float32(5), X)
    close(difference, np.float32(2))
    close(matrix, X)


def test_tuple() -> None:
    b = xc.XlaBuilder("tuple")
    ops.Tuple(b, [*parameters(b, X, INTS), ops.Tuple(b, [])])
    first, second = run(b, X, INTS)
    close(first, X)
    close(second, INTS)


def test_uniform_numbers() -> None:
    b = xc.XlaBuilder("uniform")
    ops.RngUniform(constant(b, 2), constant(b, 4), shape=xc.Shape("f32[50]"))
    (result,) = run(b)
    assert result.shape == (50,)
    assert len(np.unique(result)) > 40
    assert (result >= 2).all()
    assert (result < 4).all()


def test_normal_numbers() -> None:
    b = xc.XlaBuilder("normal")
    ops.RngNormal(constant(b, 100), constant(b, 1), xc.Shape("f32[200]"))
    (result,) = run(b)
    assert abs(result.mean() - 100) < 1
    assert 0.7 < result.std() < 1.4


@pytest.mark.parametrize("algorithm", [ops.RandomAlgorithm.RNG_THREE_FRY, 1])
def test_random_bits(algorithm: Any) -> None:
    b = xc.XlaBuilder("bits")
    (state,) = parameters(b, np.uint64([1, 2]))
    ops.RngBitGenerator(algorithm, state, xc.Shape("u32[8]"))
    following, bits = run(b, np.uint64([1, 2]))
    assert following.shape == (2,)
    assert len(np.unique(bits)) == 8


def test_lu() -> None:
    b = xc.XlaBuilder("lu")
    ops.Tuple(b, ops.LU(*parameters(b, MATRIX)))
    factors, pivots, permutation = run(b, MATRIX)
    lower, upper = np.tril(factors, -1) + np.eye(3), np.triu(factors)
    close((lower @ upper).astype(np.float32), MATRIX[permutation])
    assert pivots.dtype == permutation.dtype == np.int32


@pytest.mark.parametrize("full_matrices", [True, False])
def test_qr(full_matrices: bool) -> None:
    b = xc.XlaBuilder("qr")
    ops.Tuple(b, ops.QR(*parameters(b, Y.T), full_matrices))
    q, r = run(b, Y.T.copy())
    assert q.shape == ((3, 3) if full_matrices else (3, 2))
    close(q @ r, Y.T)
    close(q.T @ q, np.eye(q.shape[1], dtype=np.float32))


def test_householder_reflectors() -> None:
    b = xc.XlaBuilder("qr")
    packed, taus = ops.QrDecomposition(*parameters(b, MATRIX))
    q = ops.ProductOfElementaryHouseholderReflectors(packed, taus)
    ops.Tuple(b, [packed, q])
    reflectors, rotation = run(b, MATRIX)
    close(rotation @ np.triu(reflectors), MATRIX)


def test_eigh() -> None:
    b = xc.XlaBuilder("eigh")
    ops.Tuple(b, ops.Eigh(*parameters(b, MATRIX), lower=True, max_iter=20))
    vectors, values = run(b, MATRIX)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(MATRIX), rtol=1e-5)
    np.testing.assert_allclose(MATRIX @ vectors, values * vectors, atol=1e-5)


def test_svd() -> None:
    b = xc.XlaBuilder("svd")
    ops.Tuple(b, ops.SVD(*parameters(b, X)))
    u, d, v = run(b, X)
    np.testing.assert_allclose(d, np.linalg.svd(X, compute_uv=False), rtol=1e-5)
    np.testing.assert_allclose((u * d) @ v.T[:2], X, atol=1e-6)


def test_size_of_approximate_top_k() -> None:
    assert ops.ApproxTopKReductionOutputSize(3000, 2, 10, 0.95) == (10, -1)
    size, _ = ops.ApproxTopKReductionOutputSize(100_000, 2, 10, 0.9, aggregate_to_topk=False)
    assert 10 < size < 100_000


def test_tokens() -> None:
    b = xc.XlaBuilder("tokens")
    first, second = ops.CreateToken(b), ops.AfterAll(b, [])
    assert b.get_shape(ops.AfterAll(b, [first, second])) == xc.Shape.token_shape()


def test_infeed_and_outfeed() -> None:
    b = xc.XlaBuilder("feeds")
    shape = xc.Shape("s32[2]")
    received = ops.InfeedWithToken(ops.CreateToken(b), shape)
    value, token = (ops.GetTupleElement(received, i) for i in range(2))
    ops.OutfeedWithToken(ops.Neg(value), token, shape)
    client = xc.make_cpu_client()
    executable = client.compile(b.build(value))
    (device,) = executable.local_devices()
    device.transfer_to_infeed(np.int32([3, 4]))
    (result,) = executable.execute([])
    assert np.asarray(result).tolist() == [3, 4]
    assert np.asarray(device.transfer_from_outfeed(shape)).tolist() == [-3, -4]


def test_transfers_through_channels() -> None:
    b = xc.XlaBuilder("channels")
    send, receive = xc.ChannelHandle(), xc.ChannelHandle()
    send.handle, receive.handle = 1, 2
    token = ops.CreateToken(b)
    shape = xc.Shape("f32[]")
    sent = ops.SendToHost(constant(b, 1), token, shape_with_layout=shape, handle=send)
    received = ops.RecvFromHost(token, shape=shape, handle=receive)
    assert sent.opcode == "send"
    assert received.opcode == "recv"
    assert b.get_shape(received) == xc.Shape("(f32[], token[])")


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))
def _difference(out: int, inputs: Any) -> None:
    x, y = (ctypes.cast(inputs[i], ctypes.POINTER(ctypes.c_float))[0] for i in range(2))
    ctypes.cast(out, ctypes.POINTER(ctypes.c_float))[0] = x - y


@each_row(
    "call",
    [
        lambda b, xs, f32: ops.CustomCall(b, b"xc_difference", xs, f32),
        lambda b, xs, f32: ops.CustomCallWithLayout(b, b"xc_difference", xs, f32, [f32, f32]),
        lambda b, xs, f32: ops.CustomCallWithAliasing(
            b, b"xc_difference", xs, f32, [f32, f32], output_operand_aliasing=[]
        ),
    ],
)
def test_custom_call(call: Callable[..., xb.XlaOp]) -> None:
    xc.register_custom_call_target(b"xc_difference", _difference)
    b = xc.XlaBuilder("call")
    call(b, parameters(b, np.float32(0), np.float32(0)), xc.Shape("f32[]"))
    (result,) = run(b, np.float32(5), np.float32(1.5))
    close(result, np.float32(3.5))


def test_options_of_custom_calls() -> None:
    b = xc.XlaBuilder("call")
    (x,) = parameters(b, X)
    shape = xc.Shape("f32[2,3]")
    aliased = ops.CustomCallWithAliasing(
        b,
        b"f",
        [x],
        shape,
        [shape],
        b"opaque",
        True,
        output_operand_aliasing=[(xc.ShapeIndex(()), (0, xc.ShapeIndex(())))],
        schedule=ops.CustomCallSchedule.SCHEDULE_LATEST,
        api_version=ops.CustomCallApiVersion.API_VERSION_STATUS_RETURNING,
    )
    assert aliased.attributes["schedule"].name == "SCHEDULE_LATEST"
    assert aliased.attributes["api_version"].name == "API_VERSION_STATUS_RETURNING"
    assert aliased.attributes["output_operand_aliasing"][0].operand_number == 0
    applied = ops.CustomCallWithComputation(
        b, b"f", [x], scalars(ops.Add, np.float32), shape, output_operand_aliasing=[]
    )
    assert applied.attributes["to_apply"].name == "scalars"
    with pytest.raises(TypeError, match="literal must be None"):
        ops.CustomCallWithAliasing(b, b"f", [x], shape, [shape], literal=X)


ELSEWHERE = {
    *["AfterAll", "CreateToken", "Tuple", "RngUniform", "RngNormal", "RngBitGenerator"],
    *[
        "Parameter",
        "LU",
        "QR",
        "QrDecomposition",
        "ProductOfElementaryHouseholderReflectors",
        "Eigh",
        "SVD",
    ],
    *["ApproxTopKReductionOutputSize", "InfeedWithToken", "OutfeedWithToken"],
    *["SendToHost", "RecvFromHost", "CustomCall", "CustomCallWithLayout"],
    *["CustomCallWithAliasing", "CustomCallWithComputation"],
}
"""The functions that have tests of their own."""


def test_every_function_has_a_test() -> None:
    assert FUNCTIONS.keys() == {*UNARY, *BINARY, *CASES, *ELSEWHERE}


def test_functions_have_their_old_names() -> None:
    for name, entry in FUNCTIONS.items():
        assert getattr(ops, name) is entry.function
        assert entry.function.__name__ == name


def test_parameters_by_name() -> None:
    assert list(inspect.signature(ops.DotGeneral).parameters) == [
        *["lhs", "rhs", "dimension_numbers", "precision_config", "preferred_element_type"]
    ]
    b = xc.XlaBuilder("named")
    x, y = parameters(b, X, X)
    assert ops.Add(rhs=y, lhs=x).operands == (x, y)
    assert ops.NextAfter(**{"from": x, "to": y}).shape == x.shape
    with pytest.raises(TypeError, match=r"Add: expected Add\(lhs, rhs"):
        ops.Add(x, other=y)
