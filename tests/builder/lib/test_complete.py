"""The library has each function of XLA's client library, or there is a reason why not.

`HEADERS` lists the functions that the headers of xla/hlo/builder/lib declare.
"""

from __future__ import annotations

from typing import Final

import pytest
from tables import each_row

import builder as xb
from builder import lib

HEADERS: Final = {
    "approx_topk.h": "ApproxTopK ApproxTopKFallback",
    "approx_topk_shape.h": "ApproxTopKReductionOutputSize",
    "arithmetic.h": "CreateScalarComputation CreateScalarAddComputation "
    "CreateScalarMultiplyComputation CreateScalarGeComputation CreateScalarMaxComputation "
    "CreateScalarMinComputation CreateScalarAndComputation CreateScalarOrComputation "
    "CreateScalarIdentityWithZeroComputation Any ArgMax ArgMinMax",
    "broadcast.h": "BroadcastTo",
    "comparators.h": "CreateScalarLtComputation CreateScalarGtComputation "
    "CreateScalarComparisonComputation",
    "constants.h": "ConstantR0WithType ScalarLike FullLike Zero Zeros ZerosLike One Epsilon "
    "MinValue MinFiniteValue MinPositiveNormalValue MaxValue MaxFiniteValue NanValue",
    "conv_grad_size_util.h": "ConvGradExtractAndVerifyDimension",
    "dynamic_shaped_ops.h": "DynamicConditional SetDimensionSizeWithRebound SetAllDimensionSizes",
    "logdet.h": "SLogDet LogDet",
    "loops.h": "WhileLoopHelper ForEachIndex",
    "lu_decomposition.h": "LuDecomposition",
    "math.h": "IsPosInf IsNegInf IsInf IsNan IsNegZero NextAfter Square Reciprocal Erfc ErfInv "
    "Lgamma Digamma Igamma IgammaGradA RandomGammaGrad Igammac Polygamma Zeta RoundToEven Acos "
    "Asin Atan Acosh Asinh Atanh Cosh Sinh MaybeConjugate BesselI0e BesselI1e "
    "RegularizedIncompleteBeta",
    "math_impl.h": "AsinComplex AsinReal",
    "matrix.h": "IdentityMatrix GetDiagonalMask GetMatrixDiagonal GetMatrixDiagonalViaGather "
    "SetMatrixDiagonal TriangleMask Triangle UpperTriangle LowerTriangle Symmetrize BatchDot "
    "ParseEinsumString NormalizeEinsumString Einsum TransposeInMinorDims "
    "MaybeTransposeInMinorDims",
    "pooling.h": "MaxPool AvgPool MakeSpatialPadding AvgPoolGrad",
    "prng.h": "ThreeFryBitGenerator PhiloxBitGenerator ScramblePhiloxKey "
    "UniformFloatingPointDistribution UniformIntDistribution NormalFloatingPointDistribution "
    "ConcatScalars PhiloxIncreaseCounter",
    "qr.h": "Qr ProductOfElementaryHouseholderReflectors QrExplicit",
    "quantize.h": "PackToUint32 Dequantize",
    "self_adjoint_eig.h": "SelfAdjointEig",
    "slicing.h": "UpdateSlice SliceInMinorDims UpdateSliceInMinorDims DynamicSliceInMinorDims "
    "DynamicUpdateSliceInMinorDims TorchGather TorchScatterDense TorchIndexSelect",
    "sorting.h": "TopK TopKWithPartitions",
    "svd.h": "SVD",
    "tridiagonal.h": "TridiagonalSolver TridiagonalMatMul",
    "tuple.h": "DisassembleTuple AssembleTuple",
}

OPS: Final = {
    **{f"CreateScalar{name}Computation": name.lower() for name in ("Add", "Ge", "Max", "Min")},
    "CreateScalarAndComputation": "and_",
    "CreateScalarIdentityWithZeroComputation": "add",
    "CreateScalarMultiplyComputation": "mul",
    "CreateScalarOrComputation": "or_",
    **{
        name: name.lower()
        for name in [
            "Square",
            "Reciprocal",
            "Acos",
            "Asin",
            "Atan",
            "Acosh",
            "Asinh",
            "Atanh",
            "Cosh",
            "Sinh",
        ]
    },
    "TopK": "top_k",
}
"""Functions that are ops of `builder`: an op is a reducer, so that no computation is created."""

REASONS: Final = {
    "AsinComplex": "a part of Asin",
    "AsinReal": "a part of Asin",
    "CreateScalarComputation": "a Python function is a computation: the argument of `xb.reduce`",
    "NormalizeEinsumString": "a part of Einsum",
    "ParseEinsumString": "a part of Einsum",
    "SetAllDimensionSizes": "takes XLA's ValueInference; `xb.set_dimension_size` sets one size",
    "SetDimensionSizeWithRebound": "takes XLA's ValueInference; `xb.slice_in_dim` lowers a bound",
}
"""Functions that the library does not have."""

IN_SOURCES: Final = {"BoxMullerTransform", "ConvertRandomBitsToUniformFloatingPoint"}
"""Functions of XLA's sources that no header declares."""

DECLARED: Final = {name for names in HEADERS.values() for name in names.split()}


def test_each_function_is_offered() -> None:
    offered = {function.cpp_name for function in lib.FUNCTIONS.values()} - {""}
    assert DECLARED - offered == {*OPS, *REASONS}
    assert offered <= DECLARED | IN_SOURCES, "no function of XLA has this name"


def test_no_two_functions_have_one_name_of_xla() -> None:
    names = [function.cpp_name for function in lib.FUNCTIONS.values() if function.cpp_name]
    assert len(names) == len(set(names))


@each_row("name", sorted(OPS))
def test_ops(name: str) -> None:
    assert callable(getattr(xb, OPS[name]))
    with pytest.raises(AttributeError, match=rf"fix: use xb\.{OPS[name]}\("):
        getattr(xb, name)


def test_ops_are_reducers() -> None:
    x = xb.XlaBuilder().parameter("s32[4]")
    for name in ("add", "mul", "max", "min", "and_", "or_"):
        assert xb.reduce(x, 0, getattr(xb, name), [0]).shape == xb.parse_shape("s32[]")
