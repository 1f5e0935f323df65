"""The enumerations of the old binding, with the numbers of XLA's protocol buffers."""

from __future__ import annotations

import enum
from typing import Any, Final, TypeVar

import numpy as np

import builder as xb
from builder.errors import OperandError, brief, error_of
from lowering.xla_client.errors import reporting


class PrimitiveType(enum.IntEnum):
    """The element types, and the kinds of shapes that are not arrays."""

    PRIMITIVE_TYPE_INVALID = 0
    PRED = 1
    S2 = 26
    S4 = 21
    S8 = 2
    S16 = 3
    S32 = 4
    S64 = 5
    U2 = 27
    U4 = 22
    U8 = 6
    U16 = 7
    U32 = 8
    U64 = 9
    F16 = 10
    F4E2M1FN = 32
    F8E3M4 = 29
    F8E4M3 = 28
    F8E4M3FN = 20
    F8E4M3B11FNUZ = 23
    F8E4M3FNUZ = 25
    F8E5M2 = 19
    F8E5M2FNUZ = 24
    F8E8M0FNU = 33
    BF16 = 16
    F32 = 11
    F64 = 12
    C64 = 15
    C128 = 18
    TUPLE = 13
    OPAQUE_TYPE = 14
    TOKEN = 17


# The members have the meanings that they have in the enumerations of `builder`.
FftType = enum.Enum("FftType", "FFT IFFT RFFT IRFFT", start=0)
RandomAlgorithm = enum.IntEnum("RandomAlgorithm", "RNG_DEFAULT RNG_THREE_FRY RNG_PHILOX", start=0)
TriangularSolveOptions_Transpose = enum.Enum(
    "TriangularSolveOptions_Transpose", "TRANSPOSE_INVALID NO_TRANSPOSE TRANSPOSE ADJOINT", start=0
)
CustomCallSchedule = enum.Enum(
    "CustomCallSchedule", "SCHEDULE_NONE SCHEDULE_LATEST SCHEDULE_EARLIEST", start=0
)
CustomCallApiVersion = enum.IntEnum(
    "CustomCallApiVersion",
    "API_VERSION_ORIGINAL API_VERSION_STATUS_RETURNING API_VERSION_STATUS_RETURNING_UNIFIED "
    "API_VERSION_TYPED_FFI",
)
PrecisionConfig_Precision = enum.Enum("PrecisionConfig_Precision", "DEFAULT HIGH HIGHEST", start=0)
ResultAccuracy_Mode = enum.Enum("ResultAccuracy_Mode", "DEFAULT HIGHEST", start=0)
ChannelHandle_ChannelType = enum.IntEnum(
    "ChannelHandle_ChannelType",
    "CHANNEL_TYPE_INVALID DEVICE_TO_DEVICE DEVICE_TO_HOST HOST_TO_DEVICE",
    start=0,
)
OpSharding_Type = enum.IntEnum(
    "OpSharding_Type", "REPLICATED MAXIMAL TUPLE OTHER MANUAL UNKNOWN", start=0
)
PaddingType = enum.Enum("PaddingType", "VALID SAME")

_Member = TypeVar("_Member", bound=enum.Enum)


def member(kind: type[_Member], op: str, value: Any) -> _Member:
    """Return a member of an enumeration for a member, its number, or a member of the same name.

    Raises:
        OperandError: there is no such member.
    """
    if isinstance(value, kind):
        return value
    if isinstance(value, enum.Enum) and value.name in kind.__members__:  # such as builder.FftType
        return kind[value.name]
    if isinstance(value, (int, np.integer)) and not isinstance(value, (bool, enum.Enum)):
        for candidate in kind:
            if candidate.value == value:
                return candidate
    rule = f"expected a member of {kind.__name__}"
    raise error_of(
        OperandError, op, rule, f"pass one of {', '.join(kind.__members__)}", got=brief(value)
    )


_NOT_ELEMENTS: Final = ("PRIMITIVE_TYPE_INVALID", "TUPLE", "OPAQUE_TYPE", "TOKEN")


def element_type(op: str, value: Any) -> xb.PrimitiveType:
    """Return the element type for a PrimitiveType, its number, a NumPy dtype or a name.

    Raises:
        OperandError: there is no such type, or arrays can't have it.
    """
    if isinstance(value, int):
        name = member(PrimitiveType, op, value).name
        if name in _NOT_ELEMENTS:
            rule = "expected the element type of an array"
            raise error_of(OperandError, op, rule, got=f"PrimitiveType.{name}")
        return xb.as_primitive_type(name.lower())
    try:
        return xb.as_primitive_type(value)
    except xb.XlaError:
        rule = "expected a PrimitiveType or a NumPy dtype"
        raise error_of(
            OperandError, op, rule, "pass for instance PrimitiveType.F32", got=brief(value)
        ) from None


def old_type(new: xb.PrimitiveType) -> PrimitiveType:
    """Return the old enumeration's member for an element type."""
    return PrimitiveType[new.name.upper()]


XLA_ELEMENT_TYPE_TO_DTYPE: Final[dict[PrimitiveType, np.dtype[Any]]] = {
    kind: np.dtype(object) if kind.name in _NOT_ELEMENTS else element_type("dtype", kind).dtype
    for kind in PrimitiveType
    if kind.name not in ("PRIMITIVE_TYPE_INVALID", "OPAQUE_TYPE")
}
"""The NumPy dtype of each element type; object for tuples and tokens."""

DTYPE_TO_XLA_ELEMENT_TYPE: Final[dict[str, PrimitiveType]] = {
    str(dtype): kind for kind, dtype in XLA_ELEMENT_TYPE_TO_DTYPE.items()
}
"""The element type by the name of a NumPy dtype, such as "float32"."""


@reporting("dtype_to_etype")
def dtype_to_etype(dtype: Any) -> PrimitiveType:
    """Return the PrimitiveType of a NumPy dtype.

    Example:
        >>> from lowering import xla_client as xc
        >>> xc.dtype_to_etype("float32")
        <PrimitiveType.F32: 11>
    """
    return DTYPE_TO_XLA_ELEMENT_TYPE[str(np.dtype(dtype))]
