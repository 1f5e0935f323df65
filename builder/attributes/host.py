"""Attributes of custom calls: API versions, schedules, aliases, FFI attributes."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np

from builder.attributes.fields import (
    NamedEnum,
    construct,
    sequence_or_none,
    set_integers,
    unpackable,
)
from builder.attributes.mlir_text import float_text, quoted
from builder.checking import refusal
from builder.errors import ShapeInferenceError, brief
from builder.support.bundles import Bundle, bundle

DEBUG_PRINT_TARGET: Final = "xlabuilder.debug_print"
"""The target of custom calls that print their operands while the program runs."""

CHECK_TARGET: Final = "xlabuilder.check"
"""The target of custom calls whose first operand must be true while the program runs."""

DEBUG_TARGETS: Final = frozenset((DEBUG_PRINT_TARGET, CHECK_TARGET))
"""The targets of custom calls that look at values, and on which no value depends."""


class CustomCallApiVersion(NamedEnum, enum.IntEnum, op="custom_call", argument="api_version"):
    """The C signature of a custom call's target, numbered as in XLA's CustomCallApiVersion.

    API_VERSION_ORIGINAL: ``void f(void* out, const void** in)``, as in Operation Semantics.
    API_VERSION_STATUS_RETURNING: ``void f(void* out, const void** in, XlaCustomCallStatus*)``.
    API_VERSION_STATUS_RETURNING_UNIFIED: ``void f(void* out, const void** in, const char* opaque,
    size_t opaque_len, XlaCustomCallStatus*)``.
    API_VERSION_TYPED_FFI: a handler defined with the macros of ``xla/ffi/api/ffi.h``, which
    receives the types, the sizes and the attributes.
    """

    API_VERSION_ORIGINAL = 1
    API_VERSION_STATUS_RETURNING = 2
    API_VERSION_STATUS_RETURNING_UNIFIED = 3
    API_VERSION_TYPED_FFI = 4


class CustomCallSchedule(NamedEnum, enum.IntEnum, op="custom_call", argument="schedule"):
    """A hint for a compiler's scheduler: place a custom call as late or as early as possible.

    StableHLO has no attribute for this hint. Numbered as in XLA's CustomCallSchedule.
    """

    SCHEDULE_NONE = 0
    SCHEDULE_LATEST = 1
    SCHEDULE_EARLIEST = 2


CustomCallApiVersionLike = (
    CustomCallApiVersion
    | int
    | Literal[
        "API_VERSION_ORIGINAL",
        "API_VERSION_STATUS_RETURNING",
        "API_VERSION_STATUS_RETURNING_UNIFIED",
        "API_VERSION_TYPED_FFI",
    ]
)
"""A CustomCallApiVersion, its name or its number."""

CustomCallScheduleLike = (
    CustomCallSchedule | int | Literal["SCHEDULE_NONE", "SCHEDULE_LATEST", "SCHEDULE_EARLIEST"]
)
"""A CustomCallSchedule, its name or its number."""


@bundle
class OutputOperandAliasing(Bundle):
    """A result of a custom call that shares the memory of one of its operands.

    Attributes:
        output_index: the index of the result in a tuple; () if the result is an array.
        operand_number: the number of the operand.
        operand_index: the index in the operand if the operand is a tuple, otherwise ().

    Example:
        >>> import builder as xb
        >>> xb.OutputOperandAliasing((), 0)
        OutputOperandAliasing(output_index=(), operand_number=0, operand_index=())
    """

    output_index: tuple[int, ...]
    operand_number: int
    operand_index: tuple[int, ...]

    def __init__(
        self,
        output_index: Sequence[int],
        operand_number: int,
        operand_index: Sequence[int] = (),
    ) -> None:
        set_integers(self, output_index, operand_number, operand_index)

    @classmethod
    def all_of(cls, values: Any, op: str = "custom_call") -> tuple[OutputOperandAliasing, ...]:
        """Return a sequence of aliases as a tuple of OutputOperandAliasing.

        Args:
            values: a sequence of OutputOperandAliasing, or of pairs (output_index,
                (operand_number, operand_index)).
            op: the op, for messages.

        Raises:
            ShapeInferenceError: `values` is not such a sequence.
        """
        aliases = []
        try:
            entries = None if isinstance(values, Mapping) else sequence_or_none(values)
            if entries is None:
                raise TypeError
            for value in entries:
                if isinstance(value, OutputOperandAliasing):
                    aliases.append(value)
                    continue
                output, pair = unpackable(value)
                number, operand = unpackable(pair)
                aliases.append(construct(cls, op, output, number, operand))
        except ShapeInferenceError:
            raise
        except (TypeError, ValueError):
            raise refusal(
                op,
                "output_operand_aliasing must be a sequence of OutputOperandAliasing, or of pairs "
                "(output_index, (operand_number, operand_index))",
                values,
                "write for instance [((), (0, ()))]: the result shares the memory of operand 0",
            ) from None
        return tuple(aliases)


OutputOperandAliasingLike = OutputOperandAliasing | tuple[Sequence[int], tuple[int, Sequence[int]]]
"""An OutputOperandAliasing, or a pair (output_index, (operand_number, operand_index))."""


_SCALARS: Final = {
    "bool": "i1",
    "float32": "f32",
    "float64": "f64",
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"ui{bits}" for bits in (8, 16, 32, 64)},
}
"""The MLIR type of each NumPy dtype that XLA's FFI decodes as an attribute."""

_KEY: Final = r"[A-Za-z_][A-Za-z0-9_$.]*"


def ffi_dictionary(op: str, attributes: Any) -> str:
    """Return the attributes of a typed FFI call as the text of an MLIR dictionary.

    The handler receives a bool as a bool, a Python int as an int64_t, a Python float as a double
    and a string as a string. NumPy scalars keep their types. Sequences of numbers and arrays of
    rank 1 become spans, mappings become dictionaries.

    Raises:
        ShapeInferenceError: a name is not an identifier, or a value has another type.

    Example:
        >>> from builder.attributes.host import ffi_dictionary
        >>> ffi_dictionary("custom_call", {"alpha": 2.5, "axes": [0, 1]})
        '{alpha = 2.5 : f64, axes = array<i64: 0, 1>}'
    """
    if not isinstance(attributes, Mapping):
        raise refusal(op, "attributes must map names to values", attributes)
    entries = []
    for name, value in attributes.items():
        if not isinstance(name, str) or not re.fullmatch(_KEY, name):
            rule = (
                "the name of an attribute must consist of letters, digits, '_', '$' and '.', and "
                "begin with a letter or '_'"
            )
            raise refusal(op, rule, name)
        try:
            entries.append(f"{name} = {_value_text(op, name, value)}")
        except RecursionError:
            raise ShapeInferenceError(
                f"attribute {name!r} is nested too deep, or contains itself", op=op
            ) from None
    return "{" + ", ".join(entries) + "}"


def _value_text(op: str, name: str, value: Any) -> str:
    if isinstance(value, Mapping):
        return ffi_dictionary(op, value)
    if isinstance(value, str):
        return _string_text(op, name, value)
    if isinstance(value, (list, tuple, np.ndarray)):
        return _array_text(op, name, value)
    if isinstance(value, np.generic):
        kind = _SCALARS.get(value.dtype.name, "")
    else:
        types = {bool: "i1", int: "i64", float: "f64"}
        kind = next((k for t, k in types.items() if isinstance(value, t)), "")
    if not kind:
        raise _unknown(op, name, value)
    text = _number_text(op, name, value, kind)
    return text if kind == "i1" else f"{text} : {kind}"


def _array_text(op: str, name: str, value: Any) -> str:
    if isinstance(value, np.ndarray):
        is_native_vector = value.ndim == 1 and value.dtype.byteorder != ">"
        kind = _SCALARS.get(value.dtype.name, "") if is_native_vector else ""
    else:
        types = set(map(type, value))
        kind = "i1" if types == {bool} else "i64" if types <= {int} else "f64"
        kind = kind if types == {bool} or types <= {int, float} else ""
    if not kind:
        raise _unknown(op, name, value)
    texts = [_number_text(op, name, number, kind) for number in value]
    if kind.startswith("ui"):
        # MLIR's short form of arrays holds signless integers only.
        return f"dense<[{', '.join(texts)}]> : tensor<{len(texts)}x{kind}>"
    return f"array<{kind}{':' * bool(texts)} {', '.join(texts)}".rstrip() + ">"


def _number_text(op: str, name: str, value: Any, kind: str) -> str:
    if kind == "i1":
        return "true" if value else "false"
    if kind[0] == "f":
        return float_text(float(value), int(kind[1:]))
    if not -(2**63) <= int(value) < 2**63 and kind == "i64":
        raise ShapeInferenceError(
            f"attribute {name!r} must fit the int64_t that the handler receives",
            got=brief(value),
            fix="pass numpy.uint64(...) if the handler takes a uint64_t",
            op=op,
        )
    return str(int(value))


def _string_text(op: str, name: str, value: str) -> str:
    try:
        data = value.encode()
    except UnicodeEncodeError:
        rule = f"attribute {name!r} must be a string that UTF-8 can encode"
        raise refusal(op, rule, value) from None
    # Braces are escaped because HLO's lexer counts them even in strings.
    return quoted(data, also=b"{}")


def _unknown(op: str, name: str, value: Any) -> ShapeInferenceError:
    got = brief(value)
    if isinstance(value, np.ndarray):
        got = f"an array of {value.dtype} of rank {value.ndim}"
    return ShapeInferenceError(
        f"attribute {name!r} must be a bool, a string, a number of type int, float, int8 to "
        "int64, uint8 to uint64, float32 or float64, a sequence of such numbers, or a mapping",
        got=got,
        op=op,
    )
