"""Convert Python and NumPy values to constants that the element type represents; print them.

Nothing is converted silently: an array keeps its dtype, and a Python number must fit the requested
type.

HLO's parser reads ``-0`` as an integer, without its sign. In place of an array, the parser
accepts ``{...}`` or a scalar, and makes up the elements. This module prints none of these.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from builder.errors import ConstantError, OperandError, PrimitiveTypeError, brief
from builder.support.caches import SignatureTable, per_signature
from builder.types import primitive_type as pt
from builder.types.foreign_arrays import UnreadableArrayError, is_array, read_array
from builder.types.primitive_type import Kind, PrimitiveType
from builder.types.shape import UNBOUNDED, ArrayShape, Shape, intern_array

_SIGNED, _UNSIGNED = (pt.s8, pt.s16, pt.s32, pt.s64), (pt.u8, pt.u16, pt.u32, pt.u64)
_WIDER: Final = {
    Kind.SIGNED: (*_SIGNED, pt.u64),
    Kind.UNSIGNED: (*_UNSIGNED, *_SIGNED),
    Kind.FLOAT: (pt.f32, pt.f64),
    Kind.COMPLEX: (pt.c64, pt.c128),
}
"""For each kind of types, the types that a message suggests; the first that fits is named."""

_MAX_RANK = 64
"""The largest rank of a NumPy array."""


def _represents(element_type: PrimitiveType, value: int | float | complex) -> bool:
    """Return whether a number is in the range of a type, and exact if it is an int."""
    real = element_type.real_type
    return (
        real.min <= value.real <= real.max
        and real.min <= value.imag <= real.max
        and (not isinstance(value, int) or real.is_integral or _rounded(value, real) == value)
    )


def check_number(
    value: Any, element_type: PrimitiveType, op: str = "constant", operand: Shape | None = None
) -> None:
    """Raise ConstantError unless `element_type` represents the Python number `value`.

    `operand`, for messages, is the shape of the operand from which the number has its type.

    A bool requires pred. An int requires an integer type whose range contains it, or a
    floating-point type that represents it exactly. A float requires a floating-point type, and is
    rounded without overflow. A complex number requires a complex type.
    """

    def refuse(reason: str, write: str = "", types: Iterable[PrimitiveType] = ()) -> ConstantError:
        number = f"the Python number {brief(value)}"
        fixes = [write] if write else []
        needed: list[Any] = [value]
        if operand is not None and element_type.is_integral and isinstance(value, int):
            needed += [element_type.min, element_type.max]
        wide = [t for t in types if t.real_type.bits >= element_type.real_type.bits]
        fitting = next((t for t in wide if all(_represents(t, n) for n in needed)), None)
        if fitting is not None and operand is None:
            fixes.append(f"use a type such as {fitting}")
        elif fitting is not None:
            fixes.append(f"convert the operand first with xb.convert(operand, xb.{fitting})")
        return ConstantError(
            f"{element_type} can't represent {number}: {reason}",
            op=op,
            fix=", or ".join(fixes),
            shapes={} if operand is None else {"operand": operand},
            lists_shapes=True,
            number=number,
            reason=reason,
        )

    kind = element_type.kind
    if not isinstance(value, (int, float, complex)):
        raise refuse(
            f"a {type(value).__name__} is neither int, float nor complex",
            "convert the value first, for instance with float(...)",
        )
    if isinstance(value, bool):
        if kind is not Kind.PRED:
            fix = "write 1 or 0, or convert the pred with xb.convert"
            raise refuse("a bool has type pred", fix)
    elif kind is Kind.PRED:
        raise refuse("a pred value is True or False", "write True or False")
    elif type(value) is int and value == UNBOUNDED and not element_type.is_integral:
        # The entry of `dimensions` for a size that is not known, which is not a size.
        raise refuse(
            "it stands for an unbounded size",
            f"write xb.convert(xb.get_dimension_size(x, dimension), xb.{element_type}) for the "
            "size, -2.0**63 for the number",
        )
    elif isinstance(value, int):
        low, high = element_type.min, element_type.max
        if not low <= value <= high:
            write = ""
            if value < 0 == low and -value <= (high + 1) // 2:
                write = f"write {value + high + 1}, which has the same bits"
            raise refuse(f"the range is {low} to {high}", write, _WIDER[kind])
        if element_type.is_integral:
            return
        rounded = int(_rounded(value, element_type.real_type))
        if rounded != value:
            raise refuse(
                f"the nearest number that the type represents is {rounded}",
                f"write {float(rounded)!r}",
                _WIDER[kind],
            )
    elif isinstance(value, float):
        if element_type.is_integral:
            fix = f"write {int(value)}" if value.is_integer() else "write an integer"
            types = _WIDER[Kind.FLOAT]
            raise refuse("the number is a float, and the type is an integer type", fix, types)
        _check_float(value, element_type.real_type, refuse)
    elif not element_type.is_complex:
        raise refuse(
            "the number is complex, and the type is not",
            "write a real number",
            _WIDER[Kind.COMPLEX],
        )
    else:
        _check_float(value.real, element_type.real_type, refuse)
        _check_float(value.imag, element_type.real_type, refuse)


def _check_float(value: float, real: PrimitiveType, refuse: Callable[..., ConstantError]) -> None:
    """Check that rounding `value` to the floating-point type `real` does not overflow."""
    rounded = _rounded(value, real)
    if math.isnan(value):
        if not math.isnan(rounded):
            raise refuse("the type has no NaN")
    elif math.isinf(value):
        if not math.isinf(rounded) or (rounded < 0) != (value < 0):
            raise refuse("the type does not have this infinity")
    elif not math.isfinite(rounded) or not _is_in_range(value, real):
        raise refuse(f"the range is {real.min} to {real.max}", "", _WIDER[real.kind])
    elif value < 0 and rounded > 0:
        raise refuse("the type has no negative numbers")


def _is_in_range(value: float, real: PrimitiveType) -> bool:
    """Return whether a finite `value` rounds to a number in the range of `real`."""
    if abs(value) <= real.max:
        return value >= 0 or real.min < 0
    # A value less than half a step beyond the largest number rounds down to it.
    step = real.max - float(np.nextafter(real.dtype.type(real.max), real.dtype.type(0)))
    return bool(abs(value) < real.max + step / 2)


def _rounded(value: int | float, real: PrimitiveType) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.asarray(value, np.float64).astype(real.dtype))


def scalar_array(
    value: Any, element_type: PrimitiveType, op: str = "constant"
) -> np.ndarray[Any, Any]:
    """Return the Python number `value` as a read-only rank-0 array, checked by `check_number`."""
    array: np.ndarray[Any, Any] = scalar_constant(value, element_type, op)[1]["value"]
    return array


def scalar_constant(
    value: Any, element_type: PrimitiveType, op: str = "constant"
) -> tuple[ArrayShape, Mapping[str, Any]]:
    """Return the shape and the attributes of a constant from the Python number `value`.

    Equal numbers of one type share one result, other than NaNs. Errors are those of `check_number`.
    """
    # Programs repeat their numbers, and a lookup is much faster than a check. The key has the type,
    # because 1, 1.0 and True are equal, and the text of a zero, because 0.0 and -0.0 are equal. A
    # NaN would never be found.
    kind = type(value)
    if (kind is float and value == value) or kind is int or kind is bool:
        key = kind, value or str(value), element_type
    else:
        return _scalar_constant(value, element_type, op)
    found = _SCALARS.get(key)
    if found is None:
        found = _SCALARS.add(key, _scalar_constant(value, element_type, op))
    return found


_SCALARS: Final = SignatureTable[tuple[ArrayShape, Mapping[str, Any]]]()


def _scalar_constant(
    value: Any, element_type: PrimitiveType, op: str
) -> tuple[ArrayShape, Mapping[str, Any]]:
    check_number(value, element_type, op)
    if not element_type.is_integral:
        # Through the widest type, because NumPy's default for a large int is `object`.
        wide = np.array(value, np.complex128 if element_type.is_complex else np.float64)
    else:
        wide = np.array(value, np.int64 if element_type.min < 0 else np.uint64)
    array = wide.astype(element_type.dtype)
    array.flags.writeable = False
    return intern_array(element_type, ()), MappingProxyType({"value": array})


def default_element_type(number: Any, beside: Iterable[PrimitiveType]) -> PrimitiveType:
    """Return the element type of a Python number that is used without a type.

    A bool is a pred, and an int an s32. A float or complex number has the floating-point or complex
    type of the values beside it if they have exactly one such type; otherwise f32 or c64.

    Args:
        number: a bool, int, float or complex number.
        beside: the element types of the values beside it.

    Example:
        >>> import builder as xb
        >>> from builder.types.constant import default_element_type
        >>> default_element_type(0.5, [xb.bf16, xb.s32]), default_element_type(1, [xb.bf16])
        (bf16, s32)
    """
    if isinstance(number, int):
        return pt.pred if isinstance(number, bool) else pt.s32
    if isinstance(number, complex):
        found, default = {one for one in beside if one.is_complex}, pt.c64
    else:
        found, default = {one for one in beside if one.is_floating}, pt.f32
    return found.pop() if len(found) == 1 else default


def wider_number(number: Any) -> str:
    """Return a Python expression for `number` as a NumPy number of 64 bits, or 128 if complex."""
    kind = "float64"
    if isinstance(number, complex):
        kind = "complex128"
    elif isinstance(number, int):
        kind = "int64" if number < 2**63 else "uint64"
    return f"numpy.{kind}({brief(number)})"


def constant_plan(value: Any, element_type: Any = None) -> tuple[ArrayShape, Mapping[str, Any]]:
    """Return the shape and the attributes of ``constant(value, element_type)``.

    Equal Python numbers of one type share one result.
    """
    if element_type is None and type(value) is np.ndarray:
        # The fast path for the weights of a network: arrays whose bytes are those of the constant.
        shape = _native_shape(value.dtype, value.shape)
        flags = value.flags
        if shape is not None and (flags.c_contiguous or 0 not in value.strides):
            base = value.base
            if (
                flags.writeable
                or not flags.c_contiguous
                or (base is not None and _is_writable(base))
            ):
                value = _read_only_copy(value)
            return shape, {"value": value}
    if type(element_type) is PrimitiveType and type(value) in (int, float):
        if element_type.is_array_element:
            return scalar_constant(value, element_type)
    elif type(value) is bool and element_type is None:
        return scalar_constant(value, pt.pred)
    array, shape = as_constant_array(value, element_type)
    return shape, {"value": array}


@per_signature
def _native_shape(dtype: np.dtype[Any], dimensions: tuple[int, ...]) -> ArrayShape | None:
    """Return the shape of an array, or None if its dtype must be converted or refused."""
    try:
        element_type = pt.from_dtype(dtype)
    except ValueError:
        return None
    if element_type.bits < 8 or not dtype.isnative:
        return None
    return intern_array(element_type, dimensions)


def as_constant_array(
    value: Any, element_type: Any = None
) -> tuple[np.ndarray[Any, Any], ArrayShape]:
    """Return `value` as a read-only array in native byte order, and its shape (see `constant`)."""
    requested = None
    if element_type is not None:
        requested = pt.element_type_argument("constant", "element_type", element_type)
    if isinstance(value, (np.ndarray, np.generic)):
        return _from_array(value, requested)
    if isinstance(value, numbers.Number):
        if isinstance(value, bool) and requested is None:
            requested = pt.pred
        if requested is None:
            raise _error(
                f"the Python number {brief(value)} has no element type",
                f"write b.constant({brief(value)}, xb.f32), or pass a NumPy value",
            )
        return scalar_array(value, requested), intern_array(requested, ())
    if isinstance(value, (list, tuple)):
        array = list_array(value, requested)
        return array, intern_array(pt.from_dtype(array.dtype), array.shape)
    return _from_array(value, requested)


def _error(rule: str, fix: str = "", got: str | None = None) -> ConstantError:
    return ConstantError(rule, op="constant", got=got, fix=fix)


def _from_array(
    value: Any, requested: PrimitiveType | None
) -> tuple[np.ndarray[Any, Any], ArrayShape]:
    try:
        array = read_array(value)
    except UnreadableArrayError as error:
        raise _error("value must be an array of numbers", error.fix, error.got) from None
    if array is None:
        raise OperandError(
            "expected an array, a Python number or nested lists of numbers",
            op="constant",
            got=f"{type(value).__name__}: {brief(value)}",
        )
    try:
        element_type = pt.from_dtype(array.dtype)
    except PrimitiveTypeError as error:
        got = f"an array of sizes {list(array.shape)}"
        raise error._as_kind(ConstantError, op="constant", context=("constant",), got=got) from None
    if requested is not None and requested is not element_type:
        name = requested.dtype.name
        converted = f".astype({name!r})"
        if not isinstance(value, (np.ndarray, np.generic)):
            converted = f"numpy.asarray(value){converted}"
        raise _error(
            f"element_type must be the element type of the array, {element_type}",
            f"convert the array first with {converted}, or omit element_type",
            str(requested),
        )
    shape = intern_array(element_type, array.shape)
    if is_splat(array):
        element = _read_only_copy(splat_or_array(array), element_type)
        return np.broadcast_to(_clear_unused_bits(element, element_type), array.shape), shape
    # A read-only array is shared; any other is copied once.
    if not array.dtype.isnative or not array.flags.c_contiguous or _is_writable(array):
        array = _read_only_copy(array, element_type)
    return _clear_unused_bits(array, element_type), shape


def _read_only_copy(
    array: np.ndarray[Any, Any], element_type: PrimitiveType | None = None
) -> np.ndarray[Any, Any]:
    """Copy an array in C order, with native byte order if `element_type` is passed."""
    copy = np.array(array, None if element_type is None else element_type.dtype, order="C")
    copy.flags.writeable = False
    return copy


def is_splat(array: np.ndarray[Any, Any]) -> bool:
    """Return whether an array has several elements at one address, as from `np.broadcast_to`."""
    return array.size > 1 and not any(array.strides)


def splat_or_array(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the repeated element as a rank-0 array if `is_splat(array)`, else `array` itself."""
    if not is_splat(array):
        return array
    return array[(slice(1),) * array.ndim].reshape(())


def _clear_unused_bits(
    array: np.ndarray[Any, Any], element_type: PrimitiveType
) -> np.ndarray[Any, Any]:
    """Clear the bits of each byte that an element of fewer than 8 bits does not use.

    NumPy ignores these bits, XLA reads them. The bits may be set if memory was viewed as an
    array of such elements.
    """
    if element_type.bits >= 8:
        return array
    used = (1 << element_type.bits) - 1
    raw = array.reshape(-1).view(np.uint8)
    if not raw.size or int(raw.max()) <= used:
        return array
    result: np.ndarray[Any, Any]
    if element_type is pt.pred:
        result = array != 0
    elif element_type.is_floating:
        result = array.astype(np.float32).astype(array.dtype)  # NumPy's reading of the bits
    else:
        result = (raw & used).view(array.dtype).reshape(array.shape)
    result.flags.writeable = False
    return result


def _is_writable(owner: Any) -> bool:
    """Return whether an array, or one of its bases, can be used to write to its memory.

    Args:
        owner: the array, or the base of a read-only array.
    """
    while isinstance(owner, np.ndarray):
        if owner.flags.writeable:
            return True
        if owner.base is None:
            return False
        owner = owner.base
    return not isinstance(owner, bytes)


def list_array(value: Any, element_type: PrimitiveType | None = None) -> np.ndarray[Any, Any]:
    """Return nested lists or tuples of numbers as a read-only array.

    Args:
        value: a list or tuple.
        element_type: the type; it must represent each number. None for lists of bools.

    Raises:
        ConstantError: the lists have different lengths; a number does not fit the type.
        OperandError: an element is not a number.
    """
    flat, sizes = _flatten_lists(value)
    if element_type is None and flat and all(isinstance(v, bool) for v in flat):
        element_type = pt.pred
    if element_type is None:
        raise _error(
            "lists of Python numbers have no element type",
            "write b.constant([1, 2], xb.f32), or pass a NumPy array",
        )
    result = _all_in_range(flat, element_type)
    if result is None:
        result = np.empty(len(flat), element_type.dtype)
        for index, item in enumerate(flat):
            number = item.item() if isinstance(item, np.generic) else item
            result[index] = scalar_array(number, element_type)
    result = result.reshape(sizes)
    result.flags.writeable = False
    return result


def _all_in_range(flat: list[Any], element_type: PrimitiveType) -> np.ndarray[Any, Any] | None:
    """Return many numbers as an array, or None if they must be checked one by one."""
    kinds = set(map(type, flat))
    if kinds == {float} and element_type.is_floating:
        wide = np.array(flat, np.float64)
    elif kinds == {int} and element_type.is_integral and element_type is not pt.pred:
        try:
            wide = np.array(flat, np.int64 if element_type.min < 0 else np.uint64)
        except OverflowError:
            return None
    else:
        return None
    is_in_range = (wide >= element_type.min) & (wide <= element_type.max)
    return wide.astype(element_type.dtype) if is_in_range.all() else None


def _flatten_lists(value: Any) -> tuple[list[Any], tuple[int, ...]]:
    """Return the numbers in nested lists, and the sizes of the array that they form."""
    sizes: list[int] = []
    level: list[Any] = [value]
    first: set[int] = set()
    while any(isinstance(v, (list, tuple)) for v in level):
        size = len(level[0]) if isinstance(level[0], (list, tuple)) else -1
        if not all(isinstance(v, (list, tuple)) and len(v) == size for v in level):
            raise _error(
                "nested lists must have equal lengths and contain numbers",
                "write lists of equal lengths at each level",
                brief(value),
            )
        if id(level[0]) in first or len(sizes) == _MAX_RANK:
            raise _error(f"nested lists must have at most {_MAX_RANK} levels", got=brief(value))
        first.add(id(level[0]))
        sizes.append(size)
        level = [
            item.tolist() if isinstance(item, np.ndarray) else item
            for part in level
            for item in part
        ]
    for item in level:
        if not isinstance(item, (numbers.Number, np.generic)):
            fix = ""
            if hasattr(item, "opcode"):  # an XlaOp
                fix = "join ops with xb.concatenate"
            elif is_array(item):
                fix = "join arrays first: numpy.stack(values)"
            raise OperandError(
                "nested lists must contain numbers",
                op="constant",
                got=f"{type(item).__name__}: {brief(item)}",
                fix=fix,
            )
    return level, tuple(sizes)


# The types whose NaN payload the parser reads, with the width of the mantissa.
_PAYLOAD_BITS = {
    "f8e3m4": 4,
    "f8e4m3": 3,
    "f8e5m2": 2,
    "f16": 10,
    "bf16": 7,
    "f32": 23,
    "f64": 52,
}


def splat_value(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """Return the repeated value of an array of two or more identical elements, else None."""
    if array.size < 2:
        return None
    if is_splat(array):
        return splat_or_array(array)
    rows = np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(array.size, -1)
    if (rows != rows[0]).any():
        return None
    value: np.ndarray[Any, Any] = array.reshape(-1)[:1].reshape(())
    return value


def literal_text(array: np.ndarray[Any, Any], element_type: PrimitiveType) -> str:
    """Return the text between the parentheses of ``constant(...)``."""
    texts = _element_texts(array.reshape(-1), element_type)
    if array.ndim == 0:
        return texts[0]
    grouped = array.shape[1:]
    if 0 in array.shape:
        # An empty dimension is printed for each index of the preceding ones, later ones are not.
        place = array.shape.index(0)
        texts = ["{}"] * math.prod(array.shape[:place]) if place else []
        grouped = array.shape[1:place]
    for size in reversed(grouped):
        texts = ["{" + ", ".join(texts[i : i + size]) + "}" for i in range(0, len(texts), size)]
    return "{" + ", ".join(texts) + "}"


def _element_texts(flat: np.ndarray[Any, Any], element_type: PrimitiveType) -> list[str]:
    if element_type is pt.pred:
        return ["true" if v else "false" for v in flat.tolist()]
    if element_type.is_integral:
        wide = flat.astype(np.int64 if element_type.is_signed else np.uint64)
        return [str(v) for v in wide.tolist()]
    if element_type.is_complex:
        parts = element_type.real_type
        real = _element_texts(np.ascontiguousarray(flat.real), parts)
        imag = _element_texts(np.ascontiguousarray(flat.imag), parts)
        return [f"({r}, {i})" for r, i in zip(real, imag, strict=True)]
    with np.errstate(invalid="ignore"):  # signalling NaNs; `_nan_text` reads their bits
        values = flat.astype(np.float64).tolist()
    return [
        _nan_text(flat[i], element_type) if v != v else _float_text(v) for i, v in enumerate(values)
    ]


def _float_text(value: float) -> str:
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value == int(value) and abs(value) < 1e15 and (value or math.copysign(1, value) > 0):
        return str(int(value))
    return repr(value)


def _nan_text(value: Any, element_type: PrimitiveType) -> str:
    width = _PAYLOAD_BITS.get(element_type.name)
    if width is None:
        sign = "-" if np.signbit(np.float32(value)) else ""
        return f"{sign}nan"
    raw = int.from_bytes(np.asarray(value).tobytes(), "little")
    sign = "-" if raw >> (element_type.bits - 1) else ""
    payload = raw & ((1 << width) - 1)
    return f"{sign}nan" if payload == 1 << (width - 1) else f"{sign}nan({payload:#x})"
