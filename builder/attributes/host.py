"""How code that XLA does not know is called: API versions, schedules, aliases, FFI attributes."""

from __future__ import annotations

import enum
import math
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import numpy as np

from builder.attributes.fields import enum_member, sequence_or_none, unpackable
from builder.errors import ShapeInferenceError, brief

__all__ = [
    "CustomCallApiVersion",
    "CustomCallSchedule",
    "OutputOperandAliasing",
    "OutputOperandAliasingLike",
    "ffi_dictionary",
]


class CustomCallApiVersion(enum.IntEnum):
    """What a custom call's target is called with, with the numbers of XLA's CustomCallApiVersion.

    API_VERSION_ORIGINAL: ``void f(void* out, const void** in)``, the form of the document.
    API_VERSION_STATUS_RETURNING: ``void f(void* out, const void** in, XlaCustomCallStatus*)``.
    API_VERSION_STATUS_RETURNING_UNIFIED: ``void f(void* out, const void** in, const char* opaque,
    size_t opaque_len, XlaCustomCallStatus*)``.
    API_VERSION_TYPED_FFI: a handler made with the macros of ``xla/ffi/api/ffi.h``, which sees the
    types, the sizes and the attributes.
    """

    API_VERSION_ORIGINAL = 1
    API_VERSION_STATUS_RETURNING = 2
    API_VERSION_STATUS_RETURNING_UNIFIED = 3
    API_VERSION_TYPED_FFI = 4

    def __repr__(self) -> str:
        return f"CustomCallApiVersion.{self.name}"

    @classmethod
    def of(cls, value: Any, op: str = "custom_call") -> CustomCallApiVersion:
        """`value` itself, or the version of that name or number.

        Raises:
            ShapeInferenceError: there is no such version.
        """
        return enum_member(cls, op, "api_version", value)


class CustomCallSchedule(enum.IntEnum):
    """When a compiler that orders instructions puts a custom call; a hint, not said in StableHLO.

    The numbers are those of XLA's CustomCallSchedule.
    """

    SCHEDULE_NONE = 0
    SCHEDULE_LATEST = 1
    SCHEDULE_EARLIEST = 2

    def __repr__(self) -> str:
        return f"CustomCallSchedule.{self.name}"

    @classmethod
    def of(cls, value: Any, op: str = "custom_call") -> CustomCallSchedule:
        """`value` itself, or the schedule of that name or number.

        Raises:
            ShapeInferenceError: there is no such schedule.
        """
        return enum_member(cls, op, "schedule", value)


@dataclass(frozen=True, slots=True)
class OutputOperandAliasing:
    """A result of a custom call that lies in the memory of one of its operands.

    Attributes:
        output_index: the place of the result in a tuple; () where the result is an array.
        operand_number: the number of the operand.
        operand_index: the place in the operand, if that is a tuple.

    Example:
        >>> import builder as xb
        >>> xb.OutputOperandAliasing((), 0)
        OutputOperandAliasing(output_index=(), operand_number=0, operand_index=())
    """

    output_index: tuple[int, ...]
    operand_number: int
    operand_index: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        from builder.check import integer, integers  # inference builds on this

        op, name = "custom_call", "output_operand_aliasing"
        for field in ("output_index", "operand_index"):
            object.__setattr__(self, field, integers(op, f"{name}'s {field}", getattr(self, field)))
        number = integer(op, f"{name}'s operand_number", self.operand_number)
        object.__setattr__(self, "operand_number", number)

    @classmethod
    def all_of(cls, values: Any, op: str = "custom_call") -> tuple[OutputOperandAliasing, ...]:
        """Each of `values`, which are bundles or pairs (output_index, (number, operand_index)).

        Raises:
            ShapeInferenceError: they are neither.
        """
        given = None if isinstance(values, Mapping) else sequence_or_none(values)
        if given is None:
            _refuse_aliasing(op, values)
        found = []
        for value in given:
            if isinstance(value, OutputOperandAliasing):
                found.append(value)
                continue
            try:
                output, pair = unpackable(value)
                number, operand = unpackable(pair)
            except (TypeError, ValueError):
                _refuse_aliasing(op, values)
            found.append(cls(output, number, operand))
        return tuple(found)


def _refuse_aliasing(op: str, values: Any) -> NoReturn:
    raise ShapeInferenceError(
        f"{op}: output_operand_aliasing must be a sequence of OutputOperandAliasing, or of pairs "
        f"(output_index, (operand_number, operand_index)), got {brief(values)}\n"
        f"fix: [((), (0, ()))] lays the result over operand 0",
        op=op,
    )


OutputOperandAliasingLike = OutputOperandAliasing | tuple[Sequence[int], tuple[int, Sequence[int]]]
"""An OutputOperandAliasing, or a pair (output_index, (operand_number, operand_index))."""


_INTEGERS: Final = {f"{'u' * (k == 'u')}int{b}": k + str(b) for k in "iu" for b in (8, 16, 32, 64)}
_SCALARS: Final = {
    "bool": "i1",
    "float32": "f32",
    "float64": "f64",
    **{name: f"ui{code[1:]}" if code[0] == "u" else code for name, code in _INTEGERS.items()},
}
"""NumPy dtypes that XLA's FFI decodes as attributes, and their names in MLIR."""

_KEY: Final = r"[A-Za-z_][A-Za-z0-9_$.]*"


def ffi_dictionary(op: str, attributes: Any) -> str:
    """The attributes of a typed FFI call as the text of an MLIR dictionary.

    A bool is a bool to the handler, a Python int an int64_t, a Python float a double, a string a
    string; NumPy scalars keep their types, arrays of rank 1 are spans, mappings dictionaries.

    Raises:
        ShapeInferenceError: a name is no identifier, or a value is none of these.

    Example:
        >>> from builder.attributes.host import ffi_dictionary
        >>> ffi_dictionary("custom_call", {"alpha": 2.5, "axes": [0, 1]})
        '{alpha = 2.5 : f64, axes = array<i64: 0, 1>}'
    """
    if not isinstance(attributes, Mapping):
        raise ShapeInferenceError(
            f"{op}: attributes must map names to values, got {brief(attributes)}", op=op
        )
    entries = []
    for name, value in attributes.items():
        if not isinstance(name, str) or not re.fullmatch(_KEY, name):
            raise ShapeInferenceError(
                f"{op}: the name of an attribute is of letters, digits, '_', '$' and '.', and "
                f"begins with a letter or '_', got {brief(name)}",
                op=op,
            )
        try:
            entries.append(f"{name} = {_value_text(op, name, value)}")
        except RecursionError:
            raise ShapeInferenceError(
                f"{op}: attribute {name!r} is nested too deep, or holds itself", op=op
            ) from None
    return "{" + ", ".join(entries) + "}"


def _value_text(op: str, name: str, value: Any) -> str:
    if isinstance(value, Mapping):
        return ffi_dictionary(op, value)
    if isinstance(value, str):
        return _string_text(op, name, value)
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    kind = ""
    if isinstance(value, np.generic):
        kind, value = _SCALARS.get(value.dtype.name, ""), value.item()
    elif isinstance(value, int):
        kind = "i64"
    elif isinstance(value, float):
        kind = "f64"
    elif isinstance(value, (list, tuple, np.ndarray)):
        return _array_text(op, name, value)
    if not kind:
        raise _unknown(op, name, value)
    return f"{_number_text(op, name, value, kind)} : {kind}"


def _array_text(op: str, name: str, value: Any) -> str:
    if isinstance(value, np.ndarray):
        kind = _SCALARS.get(value.dtype.name, "")
        if value.ndim != 1 or not kind or value.dtype.byteorder == ">":
            raise _unknown(op, name, value)
        items = value.tolist()
    else:
        items = list(value)
        if all(type(v) is bool for v in items) and items:
            kind = "i1"
        elif all(type(v) is int for v in items):
            kind = "i64"
        elif all(type(v) in (int, float) for v in items):
            kind = "f64"
        else:
            raise _unknown(op, name, value)
    texts = [str(v).lower() if kind == "i1" else _number_text(op, name, v, kind) for v in items]
    if kind.startswith("ui"):
        # Only signless integers stand in MLIR's short form of arrays.
        return f"dense<[{', '.join(texts)}]> : tensor<{len(texts)}x{kind}>"
    return f"array<{kind}{':' * bool(texts)} {', '.join(texts)}".rstrip() + ">"


def _number_text(op: str, name: str, value: Any, kind: str) -> str:
    if kind[0] == "f":
        number = float(value)
        if math.isfinite(number):
            text = repr(number)
            return text if "." in text else text.replace("e", ".0e")
        # MLIR writes these by their bits.
        code, bits = ("<f", "<I") if kind == "f32" else ("<d", "<Q")
        (word,) = struct.unpack(bits, struct.pack(code, number))
        return f"0x{word:0{struct.calcsize(bits) * 2}X}"
    if kind == "i64" and not -(2**63) <= value < 2**63:
        raise ShapeInferenceError(
            f"{op}: attribute {name!r} is an int64_t to the handler, which can't hold "
            f"{brief(value)}\nfix: give numpy.uint64(...) where the handler takes a uint64_t",
            op=op,
        )
    return str(value)


def _string_text(op: str, name: str, value: str) -> str:
    """A string as MLIR's lexer takes it."""
    try:
        data = value.encode()
    except UnicodeEncodeError:
        raise ShapeInferenceError(
            f"{op}: attribute {name!r} is a string that UTF-8 can't say, got {brief(value)}",
            op=op,
        ) from None
    # Quotes, braces and backslashes too: HLO's lexer counts braces without looking at strings.
    plain = re.sub(rb'[\x00-\x1f\x7f-\xff"\\{}]', lambda m: b"\\%02X" % m[0][0], data)
    return f'"{plain.decode()}"'


def _unknown(op: str, name: str, value: Any) -> ShapeInferenceError:
    got = brief(value)
    if isinstance(value, np.ndarray):
        got = f"an array of {value.dtype} of rank {value.ndim}"
    return ShapeInferenceError(
        f"{op}: attribute {name!r} must be a bool, a string, a number of type int, float, int8 to "
        f"int64, uint8 to uint64, float32 or float64, a sequence of such numbers, or a mapping, "
        f"got {got}",
        op=op,
    )
