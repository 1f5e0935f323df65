"""Python and NumPy values as constants: which type they get, and whether it holds them.

Nothing is converted silently: an array keeps its dtype, a Python number must fit the type that
is asked for.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np

from builder.errors import ConstantError, OperandError, brief
from builder.support.signatures import per_signature
from builder.types import primitive_type as pt
from builder.types.primitive_type import Kind, PrimitiveType
from builder.types.shape import ArrayShape, intern_array

__all__ = [
    "as_constant_array",
    "check_number",
    "constant_plan",
    "is_splat",
    "scalar_array",
    "scalar_constant",
    "splat_or_array",
]


def check_number(value: Any, element_type: PrimitiveType, op: str = "constant") -> None:
    """Raises ConstantError unless `element_type` holds the Python number `value`.

    A bool needs pred; an int needs an integer type in range, or a floating type that holds it
    exactly; a float needs a floating type, and rounds to it without overflow; a complex number
    needs a complex type.
    """

    def refuse(reason: str, fix: str = "") -> ConstantError:
        return ConstantError(
            f"{op}: {element_type} can't hold the Python number {_text(value)}: {reason}"
            + (f"\nfix: {fix}" if fix else ""),
            op=op,
        )

    kind = element_type.kind
    if not isinstance(value, (int, float, complex)):
        raise refuse(
            f"a {type(value).__name__} is neither int, float nor complex",
            "convert it first, for instance with float(...)",
        )
    if isinstance(value, bool):
        if kind is not Kind.PRED:
            raise refuse("a bool is a pred", "write 1 or 0, or convert the pred with xb.convert")
        return
    if kind is Kind.PRED:
        raise refuse("a pred is True or False", "write True or False")
    if isinstance(value, int):
        if element_type.is_integral:
            if not element_type.min <= value <= element_type.max:
                raise refuse(
                    f"the range is {element_type.min} to {element_type.max}", "use a wider type"
                )
            return
        _check_float(value, element_type, refuse)
    elif isinstance(value, float):
        if element_type.is_integral:
            fix = f"write {int(value)}" if value.is_integer() else "write a whole number"
            raise refuse("it is a float, the type is an integer type", fix)
        _check_float(value, element_type, refuse)
    else:  # complex
        if not element_type.is_complex:
            raise refuse(
                "it is complex, the type is not", "write a real number, or use c64 or c128"
            )
        _check_float(value.real, element_type.real_type, refuse)
        _check_float(value.imag, element_type.real_type, refuse)


def _text(value: Any) -> str:
    """The number as messages show it. Python itself refuses to write very large ints."""
    if isinstance(value, int) and value.bit_length() > 256:
        return f"(an int of {value.bit_length()} bits)"
    return repr(value)


def _check_float(value: int | float, element_type: PrimitiveType, refuse: Any) -> None:
    """`value` in a floating-point (or complex, by its parts) type: no overflow, ints exact."""
    real = element_type.real_type
    if isinstance(value, int):
        low, high = element_type.min, element_type.max
        held = int(_rounded(value, real)) if low <= value <= high else None
        if held is None:
            raise refuse(f"the range is {low} to {high}", "use a wider type")
        if held != value:
            raise refuse(
                f"the nearest number that it holds is {held}",
                f"write {float(held)!r}, or use a wider type",
            )
        return
    held_float = _rounded(value, real)
    if math.isnan(value):
        if not math.isnan(held_float):
            raise refuse("it has no NaN")
    elif math.isinf(value):
        if not math.isinf(held_float) or (held_float < 0) != (value < 0):
            raise refuse("it has no such infinity")
    elif not math.isfinite(held_float) or not _near(value, real):
        raise refuse(f"the range is {real.min} to {real.max}", "use a wider type")
    elif value < 0 and held_float > 0:
        raise refuse("it has no negative numbers")


def _near(value: float, real: PrimitiveType) -> bool:
    """Whether a finite `value` rounds into the range, not merely saturates at its end."""
    if abs(value) <= real.max:
        return value >= 0 or real.min < 0
    # Above the largest value only what rounds down to it: at most half a step beyond.
    step = real.max - float(np.nextafter(real.dtype.type(real.max), real.dtype.type(0)))
    return bool(abs(value) < real.max + step / 2)


def _rounded(value: int | float, real: PrimitiveType) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.asarray(value, np.float64).astype(real.dtype))


def scalar_array(
    value: Any, element_type: PrimitiveType, op: str = "constant"
) -> np.ndarray[Any, Any]:
    """The Python number `value` as a read-only rank-0 array; raises as `check_number` does."""
    array: np.ndarray[Any, Any] = scalar_constant(value, element_type, op)[1]["value"]
    return array


def scalar_constant(
    value: Any, element_type: PrimitiveType, op: str = "constant"
) -> tuple[ArrayShape, Mapping[str, Any]]:
    """The shape and the attributes of a constant that is the Python number `value`.

    Equal numbers of one type share them; raises as `check_number` does.
    """
    # Programs repeat their numbers, and checking one takes ten times as long as looking it up.
    sign, kind = 1.0, type(value)
    if kind is float:
        if not value:
            sign = math.copysign(1.0, value)  # 0.0 and -0.0 are equal, and not the same
        elif value != value:
            return _scalar_constant(value, element_type, op)  # NaN would not be found again
    elif kind is not int and kind is not bool:
        return _scalar_constant(value, element_type, op)
    try:
        return _shared_constant(value, sign, element_type)
    except ConstantError:
        # Not kept: said again, in the name of this op.
        return _scalar_constant(value, element_type, op)


def _scalar_constant(
    value: Any, element_type: PrimitiveType, op: str
) -> tuple[ArrayShape, Mapping[str, Any]]:
    check_number(value, element_type, op)
    if not element_type.is_integral:
        # By way of the widest type: NumPy's own choice for a large int would be `object`.
        wide = np.array(value, np.complex128 if element_type.is_complex else np.float64)
    else:
        wide = np.array(value, np.int64 if element_type.min < 0 else np.uint64)
    array = wide.astype(element_type.dtype)
    array.flags.writeable = False
    return intern_array(element_type, ()), MappingProxyType({"value": array})


@lru_cache(maxsize=4096, typed=True)  # typed: 1, 1.0 and True are different numbers
def _shared_constant(
    value: Any, _sign: float, element_type: PrimitiveType
) -> tuple[ArrayShape, Mapping[str, Any]]:
    return _scalar_constant(value, element_type, "constant")


def constant_plan(value: Any, element_type: Any = None) -> tuple[ArrayShape, Mapping[str, Any]]:
    """The shape and the attributes of ``constant(value, element_type)``.

    Equal Python numbers of one type share them, which takes a third of the time of making them.
    """
    if element_type is None and type(value) is np.ndarray:
        # Networks have their weights frozen in by the thousands. Nearly all are arrays whose bytes
        # are as XLA has them: 0.9 us each here, and 2.5 us where everything is asked for.
        plain = _plain_shape(value.dtype, value.shape)
        flags = value.flags
        in_order = flags.c_contiguous
        if plain is not None and (in_order or 0 not in value.strides):
            base = value.base
            if flags.writeable or not in_order or (base is not None and _writable(base)):
                value = np.array(value, order="C")
                value.flags.writeable = False
            return plain, {"value": value}
    if type(element_type) is PrimitiveType and type(value) in (int, float):
        if element_type.is_array_element:
            return scalar_constant(value, element_type)
    elif type(value) is bool and element_type is None:
        return scalar_constant(value, pt.pred)
    array, shape = as_constant_array(value, element_type)
    return shape, {"value": array}


@per_signature
def _plain_shape(dtype: np.dtype[Any], dimensions: tuple[int, ...]) -> ArrayShape | None:
    """The shape of an array of this type; None for types that need more than a copy, or a no."""
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
    """`value` as a read-only array in native byte order, and its shape (see `constant`)."""
    wanted = None
    if element_type is not None:
        wanted = pt.element_type_argument("constant", "element_type", element_type)
    if isinstance(value, (np.ndarray, np.generic)):
        return _from_array(value, wanted)
    if isinstance(value, numbers.Number):
        if isinstance(value, bool) and wanted is None:
            wanted = pt.pred
        if wanted is None:
            raise ConstantError(
                f"constant: the Python number {_text(value)} has no element type of its own\n"
                f"fix: name one: constant({_text(value)}, xb.f32), or give a NumPy value",
                op="constant",
            )
        return scalar_array(value, wanted), intern_array(wanted, ())
    if isinstance(value, (list, tuple)):
        return _from_lists(value, wanted)
    exported = getattr(value, "__array__", None)
    if exported is not None and not hasattr(value, "opcode"):
        return _from_array(np.asarray(value), wanted)
    raise OperandError(
        f"constant: expected a NumPy array, a Python number or nested lists of numbers, "
        f"got {type(value).__name__}: {brief(value)}",
        op="constant",
    )


def _from_array(
    value: Any, wanted: PrimitiveType | None
) -> tuple[np.ndarray[Any, Any], ArrayShape]:
    if isinstance(value, np.ma.MaskedArray):
        raise ConstantError(
            "constant: a masked array can't be held: there are no masks in XLA\n"
            "fix: fill it first with .filled(value)",
            op="constant",
        )
    array = np.asarray(value)
    try:
        found = pt.from_dtype(array.dtype)
    except ValueError as error:
        rule, _, fix = str(error).partition("\n")
        raise ConstantError(
            f"constant: {rule}, got an array of sizes {list(array.shape)}\n{fix}".rstrip(),
            op="constant",
        ) from None
    if wanted is not None and wanted is not found:
        raise ConstantError(
            f"constant: the array is of type {found} and {wanted} was asked for; nothing is "
            f"converted silently\n"
            f"fix: convert it first with .astype({wanted.dtype.name!r}), or leave the type out",
            op="constant",
        )
    if is_splat(array):
        # As np.broadcast_to makes them: the one element is held, and seen in all places.
        one = np.array(splat_or_array(array), dtype=found.dtype)
        one.flags.writeable = False
        return np.broadcast_to(_with_clean_bits(one, found), array.shape), intern_array(
            found, array.shape
        )
    # The one copy: into C order, native byte order, and memory of our own. An array that nobody
    # can write to is taken as it is.
    if not array.dtype.isnative or not array.flags.c_contiguous or _writable(array):
        array = np.array(array, dtype=found.dtype, order="C", copy=True)
        array.flags.writeable = False
    return _with_clean_bits(array, found), intern_array(found, array.shape)


def is_splat(array: np.ndarray[Any, Any]) -> bool:
    """Whether all elements of an array, which has several, are one place in memory."""
    return array.size > 1 and not any(array.strides)


def splat_or_array(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The one element of an array that `is_splat`; another array as it is."""
    if not is_splat(array):
        return array
    return array[(slice(1),) * array.ndim].reshape(())


def _with_clean_bits(
    array: np.ndarray[Any, Any], element_type: PrimitiveType
) -> np.ndarray[Any, Any]:
    """The array with zeros in the bits that its elements don't use, which NumPy passes over.

    An element of less than 8 bits stands in a byte; memory that is looked at as such elements may
    have anything beside them, and XLA reads all of it.
    """
    if element_type.bits >= 8:
        return array
    used = (1 << element_type.bits) - 1
    raw = array.reshape(-1).view(np.uint8)
    if not raw.size or int(raw.max()) <= used:
        return array
    clean: np.ndarray[Any, Any]
    if element_type is pt.pred:
        clean = array != 0
    elif element_type.is_floating:
        clean = array.astype(np.float32).astype(array.dtype)  # as NumPy takes the bits
    else:
        clean = (raw & used).view(array.dtype).reshape(array.shape)
    clean.flags.writeable = False
    return clean


def _writable(owner: Any) -> bool:
    """Whether somebody can write to memory: through an array, or through what it views.

    Args:
        owner: the array, or the base of one that itself can't be written to.
    """
    current = owner
    while isinstance(current, np.ndarray):
        if current.flags.writeable:
            return True
        current = current.base
        if current is None:
            return False
    return not isinstance(current, bytes)


def _from_lists(
    value: Any, wanted: PrimitiveType | None
) -> tuple[np.ndarray[Any, Any], ArrayShape]:
    try:
        array = np.array(value, dtype=object)
    except ValueError:
        array = np.array(None, dtype=object)
    flat = array.ravel().tolist()
    if any(isinstance(v, (list, tuple)) or v is None for v in flat):
        raise ConstantError(
            f"constant: nested lists must have equal lengths and hold numbers, got {brief(value)}",
            op="constant",
        )
    for item in flat:
        if not isinstance(item, (numbers.Number, np.generic)):
            raise OperandError(
                f"constant: nested lists must hold numbers, "
                f"got {type(item).__name__}: {brief(item)}",
                op="constant",
            )
    if wanted is None:
        if flat and all(isinstance(v, bool) for v in flat):
            wanted = pt.pred
        else:
            raise ConstantError(
                "constant: lists of Python numbers have no element type of their own\n"
                "fix: name one: constant([1, 2], xb.f32), or give a NumPy array",
                op="constant",
            )
    result = np.empty(len(flat), wanted.dtype)
    for index, item in enumerate(flat):
        number = item.item() if isinstance(item, np.generic) else item
        result[index] = scalar_array(number, wanted)
    result = result.reshape(array.shape)
    result.flags.writeable = False
    return result, intern_array(wanted, result.shape)
