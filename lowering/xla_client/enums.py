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


class FftType(enum.Enum):
    """See `builder.FftType`."""

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


class RandomAlgorithm(enum.IntEnum):
    """See `builder.RandomAlgorithm`."""

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2


class TriangularSolveOptions_Transpose(enum.Enum):
    """See `builder.Transpose`, which has no TRANSPOSE_INVALID."""

    TRANSPOSE_INVALID = 0
    NO_TRANSPOSE = 1
    TRANSPOSE = 2
    ADJOINT = 3


class CustomCallSchedule(enum.Enum):
    """See `builder.CustomCallSchedule`."""

    SCHEDULE_NONE = 0
    SCHEDULE_LATEST = 1
    SCHEDULE_EARLIEST = 2


class CustomCallApiVersion(enum.IntEnum):
    """See `builder.CustomCallApiVersion`."""

    API_VERSION_ORIGINAL = 1
    API_VERSION_STATUS_RETURNING = 2
    API_VERSION_STATUS_RETURNING_UNIFIED = 3
    API_VERSION_TYPED_FFI = 4


class PrecisionConfig_Precision(enum.Enum):
    """See `builder.Precision`."""

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2


class ResultAccuracy_Mode(enum.Enum):
    """The modes of a ResultAccuracy without tolerances."""

    DEFAULT = 0
    HIGHEST = 1


class ChannelHandle_ChannelType(enum.IntEnum):
    """See `builder.ChannelType`."""

    CHANNEL_TYPE_INVALID = 0
    DEVICE_TO_DEVICE = 1
    DEVICE_TO_HOST = 2
    HOST_TO_DEVICE = 3


class OpSharding_Type(enum.IntEnum):
    """The kinds of an OpSharding."""

    REPLICATED = 0
    MAXIMAL = 1
    TUPLE = 2
    OTHER = 3
    MANUAL = 4
    UNKNOWN = 5


class PaddingType(enum.Enum):
    """The padding of `window_padding_type_to_pad_values`."""

    VALID = 1
    SAME = 2


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
    rule = f"expected a member of {kind.__name__}, got {brief(value)}"
    raise error_of(OperandError, op, rule, f"pass one of {', '.join(kind.__members__)}")


_NOT_ELEMENTS: Final = ("PRIMITIVE_TYPE_INVALID", "TUPLE", "OPAQUE_TYPE", "TOKEN")


def element_type(op: str, value: Any) -> xb.PrimitiveType:
    """Return the element type for a PrimitiveType, its number, a NumPy dtype or a name.

    Raises:
        OperandError: there is no such type, or arrays can't have it.
    """
    if isinstance(value, int):
        name = member(PrimitiveType, op, value).name
        if name in _NOT_ELEMENTS:
            rule = f"expected the element type of an array, got PrimitiveType.{name}"
            raise error_of(OperandError, op, rule)
        return xb.as_primitive_type(name.lower())
    return xb.as_primitive_type(value)


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
