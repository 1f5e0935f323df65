"""The declarations of xla_builder.h and their equivalents: the second table of docs/operations.md.

The header is `xla/hlo/builder/xla_builder.h` of 2026. Overloads share a row.
tests/test_xla_builder_h.py checks that the equivalents exist, and that every operation of the first
table is listed here under its C++ name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["GROUPS", "Declared"]


@dataclass(frozen=True)
class Declared:
    """A name that the header declares.

    Attributes:
        cpp: the name.
        ours: its equivalents: names in `builder`, with "b." for methods of XlaBuilder and "op." for
            those of XlaOp; empty if there are none.
        note: the difference, or the reason for the missing equivalent; a sentence, or empty.
    """

    cpp: str
    ours: tuple[str, ...]
    note: str = ""


def _same(names: str) -> list[Declared]:
    """Return rows of functions with the same name in snake_case, or as given by `Name=ours`."""
    rows = []
    for pair in names.split():
        cpp, _, ours = pair.partition("=")
        snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in cpp).lstrip("_")
        rows.append(Declared(cpp, (ours or snake,)))
    return rows


def _as(ours: str, names: str, note: str = "") -> list[Declared]:
    """Return rows of functions with the same equivalents, or none."""
    return [Declared(cpp, tuple(ours.split()), note) for cpp in names.split()]


_DEVICE_LIST: Final = "Replica groups are lists or a ReplicaGroups object."

_FUNCTIONS: Final = [
    *_as(
        "b.parameter",
        "Parameter",
        "Without replication of leaf buffers, which lowering would not use.",
    ),
    *_as(
        "b.constant",
        "ConstantLiteral ConstantR0 ConstantR1 ConstantR2 ConstantFromArray ConstantR2FromArray2D "
        "ConstantR3FromArray3D ConstantR4FromArray4D",
        "From numbers, lists and NumPy arrays of any rank.",
    ),
    *_as(
        "b.constant",
        "ConstantFromArrayWithLayout ConstantR2FromArray2DWithLayout "
        "ConstantR3FromArray3DWithLayout ConstantR4FromArray4DWithLayout",
        "Without a layout: the compiler chooses the layouts of values inside a program.",
    ),
    *_same("Broadcast BroadcastInDim"),
    *_as("dynamic_broadcast_in_dim", "MhloDynamicBroadcastInDim"),
    *_as("dynamic_reshape", "MhloDynamicReshape", "With xb.UNBOUNDED in new_size_bounds."),
    *_as(
        "",
        "Copy",
        "Internal to the compiler according to the header, and not in StableHLO; "
        "optimization_barrier prevents merging with other values.",
    ),
    *_same("Pad PadInDim DynamicReshape Reshape ReshapeWithInferredDimension Collapse Slice"),
    *_same("SliceInDim DynamicSlice DynamicUpdateSlice ConcatInDim Select"),
    *_as("tuple b.empty_tuple", "Tuple"),
    *_same("GetTupleElement Eq EqTotalOrder Ne NeTotalOrder Ge GeTotalOrder Gt GtTotalOrder"),
    *_same("Lt LtTotalOrder Le LeTotalOrder Compare Dot DotGeneral"),
    *_as("", "RaggedAllToAll RaggedAllToAllWithDeviceList", "StableHLO has no such operation."),
    *_same("RaggedDot Conv ConvWithGeneralPadding ConvWithGeneralDimensions ConvGeneral"),
    *_same("ConvGeneralDilated"),
    *_as(
        "",
        "DynamicConvForward DynamicConvInputGrad DynamicConvKernelGrad",
        "Custom calls that XLA's passes make for dynamic sizes; not in StableHLO. "
        "conv_general_dilated supports dynamic sizes.",
    ),
    *_same("Fft TriangularSolve Cholesky"),
    Declared("Infeed", ("b.infeed",)),
    *_same("InfeedWithToken Outfeed OutfeedWithToken"),
    *_as("call b.call", "Call"),
    *_same("CompositeCall CustomCall"),
    *_as(
        "custom_call",
        "CustomCallWithComputationAndLayouts CustomCallWithComputation CustomCallWithLayout",
    ),
    *_as(
        "",
        "CustomCallWithConvDnums",
        "Only cuDNN's targets use a window and convolution numbers, and StableHLO can't represent "
        "them; pass them as attributes of custom_call.",
    ),
    *_same("OptimizationBarrier Complex Conj Add Sub Mul Mulhi Div Rem Max Min And=and_ Or=or_"),
    *_same("Xor Not=not_ PopulationCount ShiftLeft ShiftRightArithmetic ShiftRightLogical Reduce"),
    *_same("Scan ReduceAll ReduceWindow ReduceWindowWithGeneralPadding CrossReplicaSum AllGather"),
    *_as("all_gather", "AllGatherTuple"),
    *_as("all_gather", "AllGatherWithDeviceList AllGatherTupleWithDeviceList", _DEVICE_LIST),
    *_same("AllReduce"),
    *_as("all_reduce", "AllReduceTuple"),
    *_as("all_reduce", "AllReduceWithDeviceList AllReduceTupleWithDeviceList", _DEVICE_LIST),
    *_same("ReduceScatter"),
    *_as("reduce_scatter", "ReduceScatterWithDeviceList", _DEVICE_LIST),
    *_same("AllToAll"),
    *_as("all_to_all", "AllToAllWithDeviceList", _DEVICE_LIST),
    *_same("AllToAllTuple"),
    *_as("all_to_all_tuple", "AllToAllTupleWithDeviceList", _DEVICE_LIST),
    *_same("CollectiveBroadcast"),
    *_as("collective_broadcast", "CollectiveBroadcastWithDeviceList", _DEVICE_LIST),
    *_same("CollectivePermute MultiCollectivePermute"),
    *_as("b.replica_id", "ReplicaId"),
    *_same("SelectAndScatter SelectAndScatterWithGeneralPadding Abs Atan2 Erf Exp Expm1 Floor"),
    *_same("Ceil Round RoundNearestEven Log Log1p Logistic Sign Clz Cos Sin Tan Tanh Real Imag"),
    *_same("Sqrt Cbrt Rsqrt Pow IsFinite"),
    *_as("b.iota", "Iota"),
    *_same("ConvertElementType BitcastConvertType StochasticConvertType Neg Transpose Rev Sort"),
    *_same("TopK Clamp Map RngNormal RngUniform RngBitGenerator While=while_ Conditional"),
    *_same("ReducePrecision Gather Scatter"),
    *_same("Send SendWithToken"),
    Declared("Recv", ("b.recv",)),
    *_same("RecvWithToken"),
    *_same("SendToHost RecvFromHost"),
    *_as("b.create_token", "CreateToken"),
    *_same("AfterAll BatchNormTraining BatchNormInference BatchNormGrad GetDimensionSize"),
    *_same("SetDimensionSize RemoveDynamicDimension"),
    *_as("spmd_full_to_shard_shape", "ConvertSpmdFullToShardShape", "For all dimensions at once."),
    *_as("spmd_shard_to_full_shape", "ConvertSpmdShardToFullShape", "For all dimensions at once."),
]

_OPERATORS: Final = [
    Declared("operator-", ("op.__sub__", "op.__neg__")),
    Declared("operator+", ("op.__add__",)),
    Declared("operator*", ("op.__mul__",)),
    Declared("operator/", ("op.__truediv__",), "`xb.div` for integers."),
    Declared("operator%", ("op.__mod__",)),
    Declared("operator~", ("op.__invert__",)),
    Declared("operator&", ("op.__and__",)),
    Declared("operator|", ("op.__or__",)),
    Declared("operator^", ("op.__xor__",)),
    Declared("operator<<", ("op.__lshift__",)),
    Declared("operator>>", ("op.__rshift__",)),
]

_ELSEWHERE: Final = [
    *_same("Acos Acosh Asin Asinh Atanh Cosh Sinh"),
    *_as("", "ScaledDot", "Declared only as a friend: the header has no function."),
    *_as("", "ConvKernelGrad", "Declared as a friend and not defined."),
]

_ERRORS: Final = "Errors are raised on the line that records the op, not deferred."
_ORIGINAL: Final = "A debugging aid of XLA's passes, which StableHLO can't represent."

_METHODS: Final = [
    Declared("XlaBuilder", ("XlaBuilder",)),
    Declared("name", ("b.name",)),
    *_as("b.op_metadata", "SetOpMetadata SwapOpMetadata ClearOpMetadata", "A context manager."),
    *_as("op.op_type", "SetOneShotOpMetadata", "Assign it, and `op.name`, to the recorded op."),
    *_as("b.set_sharding", "SetSharding ClearSharding", "None clears it."),
    *_as("b.sharding", "SwapSharding sharding", "A context manager."),
    *_as("", "SetOriginalValue ClearOriginalValue original_value", _ORIGINAL),
    *_as(
        "b.frontend_attributes",
        "SetFrontendAttributes SwapFrontendAttributes ClearFrontendAttributes frontend_attributes",
        "A context manager.",
    ),
    *_as(
        "",
        "set_die_immediately_on_error first_error GetCurrentStatus ReportError "
        "ReportErrorOrReturn BuildAndNoteError",
        _ERRORS,
    ),
    *_as("ConvolutionDimensionNumbers.default", "CreateDefaultConvDimensionNumbers"),
    *_as("shape_inference", "Validate", "Shape inference checks the dimension numbers of each op."),
    *_as(
        "",
        "CreateSubBuilder BuildSubComputation AddSubComputation",
        "Ops apply callables, which a nested builder records, or computations of another "
        "XlaBuilder.",
    ),
    *_as("b.build", "Build"),
    *_as(
        "",
        "BuildConstantSubGraph IsConstant",
        "The compiler folds constants; follow `operands` to find what a value depends on.",
    ),
    *_as("op.shape", "GetShape GetShapePtr GetOperandShapes"),
    *_as("op.sharding", "GetOpSharding"),
    *_as("XlaComputation.program_shape", "GetProgramShape", "Of the built computation."),
    *_as("b.setup_alias", "SetUpAlias", "The compiler may alias the buffers, but need not."),
    *_as("b.add_buffer_donor", "AddBufferDonor"),
    *_as("op.frontend_attributes", "SetInstructionFrontendAttribute", "Settable."),
    *_as("op.sharding", "SetInstructionSharding", "Settable."),
    *_as("op.__repr__", "OpToString"),
]

_OTHERS: Final = [
    Declared("XlaOp", ("XlaOp",)),
    Declared("XlaOp::builder", ("op.builder",)),
    *_as(
        "",
        "XlaOp::valid XlaOp::IsUninitialized",
        "There are no invalid ops: errors raise exceptions.",
    ),
    Declared("XlaOp::IsIdenticalTo", (), "Python's `is`."),
    Declared("XlaComputationId", ("XlaComputation",)),
    *_as("b.sharding", "XlaScopedShardingAssignment"),
    *_as("b.frontend_attributes", "XlaScopedFrontendAttributesAssignment"),
    *_as("b.op_metadata", "XlaScopedOpMetadataAssignment"),
    *_as("", "XlaScopedOriginalValueAssignment", _ORIGINAL),
    *_as("b.partition_id", "internal::XlaBuilderFriend::BuildPartitionId"),
    *[
        Declared(
            f"internal::XlaBuilderFriend::{name}",
            (),
            "Internal: made by XLA's compiler or by its reader of protos.",
        )
        for name in (
            *("BuildAddDependency", "BuildAsyncStart", "BuildAsyncUpdate", "BuildAsyncDone"),
            *("BuildAllGatherStart", "BuildAllGatherDone", "BuildAllReduceStart"),
            *("BuildAllReduceDone", "BuildCollectivePermuteStart", "BuildCollectivePermuteDone"),
            *("BuildCopyStart", "BuildCopyDone", "BuildFusion", "BuildBitcast", "BuildSend"),
            *("BuildSendDone", "BuildRecv", "BuildRecvDone", "BuildDomain"),
            *("BuildRngGetAndUpdateState", "GetInstruction", "GetInstructionByHandle"),
            *("SetExecutionThread", "SetParameterReplication"),
        )
    ],
]

GROUPS: Final[tuple[tuple[str, list[Declared]], ...]] = (
    ("Functions", _FUNCTIONS),
    ("Operators", _OPERATORS),
    ("Declared as friends, and elsewhere as functions (math.h) or not at all", _ELSEWHERE),
    ("Methods of XlaBuilder", _METHODS),
    ("Other classes", _OTHERS),
)
"""Every public name of the header, in order."""
