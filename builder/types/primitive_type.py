"""The element types of XLA arrays: names, widths, kinds, NumPy types and ranges.

Each type is one object (compare with ``is``). Indexing a type with sizes returns an array shape:
``f32[2, 3]``.

Shapes and Layout; ``xla_data.proto``, PrimitiveType.
"""

from __future__ import annotations

import enum
import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np

from builder.errors import OperandError, PrimitiveTypeError, XlaError, brief, error_of
from builder.support.arguments import NotAFunction
from builder.support.frames import without_internal_frames
from builder.support.imports import extension
from builder.support.names import by_name

if TYPE_CHECKING:
    from builder.types.shape import ArrayShape, DimensionLike


class Kind(enum.Enum):
    """The kind of values of a primitive type."""

    PRED = "pred"
    SIGNED = "signed integer"
    UNSIGNED = "unsigned integer"
    FLOAT = "floating point"
    COMPLEX = "complex"
    NOT_ARRAY = "not an array element"


class PrimitiveType(NotAFunction):
    """An XLA element type, such as ``f32``.

    Attributes:
        name: XLA's name, as in shape text ("f32", "pred", "f8e4m3fn").
        bits: the width of an element in bits; 1 for a pred, which occupies a byte in memory.
        kind: pred, signed, unsigned, floating point or complex.
        dtype: the NumPy or ml_dtypes type of the same values.
        min, max: the smallest and largest finite value, as Python numbers; for a complex type,
            the range of its real and imaginary part.
        ml_dtype: the name of the ml_dtypes type; "" for a type of NumPy.
        is_array_element: whether arrays can have elements of the type.
        is_complex, is_floating, is_integral: whether the elements are complex numbers,
            floating-point numbers or integers.
        is_signed: whether the elements are real numbers that may be negative.

    Example:
        >>> import builder as xb
        >>> xb.bf16.bits, xb.s4.min, xb.s4.max
        (16, -8, 7)
        >>> xb.f32[2, 3]
        f32[2,3]
    """

    __slots__ = (
        "bits",
        "dtype",
        "is_array_element",
        "is_complex",
        "is_floating",
        "is_integral",
        "is_signed",
        "kind",
        "max",
        "min",
        "ml_dtype",
        "name",
    )

    name: Final[str]
    bits: Final[int]
    kind: Final[Kind]
    dtype: Final[np.dtype[Any]]
    min: Final[Any]
    max: Final[Any]
    ml_dtype: Final[str]
    is_array_element: Final[bool]
    is_complex: Final[bool]
    is_floating: Final[bool]
    is_integral: Final[bool]
    is_signed: Final[bool]

    def __init__(
        self, name: str, bits: int, kind: Kind, dtype: Any, low: Any = None, high: Any = None
    ) -> None:
        self.name = name
        self.bits = bits
        self.kind = kind
        self.ml_dtype = dtype if isinstance(dtype, str) else ""
        if not self.ml_dtype:  # else set by `_load_ml_dtypes`
            self.dtype = np.dtype(dtype)
            self.min = low
            self.max = high
        # Attributes rather than properties, because inference reads them for every op.
        self.is_array_element = kind is not Kind.NOT_ARRAY
        self.is_floating = kind is Kind.FLOAT
        self.is_complex = kind is Kind.COMPLEX
        self.is_integral = kind in (Kind.SIGNED, Kind.UNSIGNED)
        self.is_signed = kind in (Kind.SIGNED, Kind.FLOAT)

    if not TYPE_CHECKING:  # with `__getattr__`, type checkers accept any attribute

        def __getattr__(self, name: str) -> Any:
            # Called for a missing attribute: at the first use of an ml_dtypes type.
            if name in ("dtype", "min", "max"):
                _load_ml_dtypes()
                return object.__getattribute__(self, name)
            raise AttributeError(f"'PrimitiveType' object has no attribute {name!r}")

    @property
    def real_type(self) -> PrimitiveType:
        """The type of a complex type's real part (f32 for c64); the type itself otherwise."""
        if self.is_complex:
            return _BY_NAME["f32" if self.bits == 64 else "f64"]
        return self

    @property
    def complex_type(self) -> PrimitiveType | None:
        """The complex type whose parts have this type: c64 for f32, c128 for f64, else None."""
        return {"f32": _BY_NAME["c64"], "f64": _BY_NAME["c128"]}.get(self.name)

    @property
    def byte_width(self) -> int:
        """The number of bytes of an element in an unpacked array: at least 1."""
        return max(1, self.bits // 8)

    @without_internal_frames
    def __getitem__(self, dimensions: DimensionLike | tuple[DimensionLike, ...]) -> ArrayShape:
        sizes = dimensions if isinstance(dimensions, tuple) else (dimensions,)
        return extension("builder.types.shape", "array_shape", self, sizes)

    if not TYPE_CHECKING:  # type checkers report the call

        def __call__(self, *values: Any) -> NoReturn:
            value = brief(values[0], 40) if values else "value"
            fix = f"write b.constant({value}, xb.{self.name}), where b is a builder"
            if values and hasattr(values[0], "opcode"):
                fix = f"write xb.convert_element_type(x, xb.{self.name})"
            got = f"{self.name}({', '.join(brief(v, 40) for v in values)})"
            rule = "an element type is not a function"
            raise error_of(OperandError, self.name, rule, fix, got=got)

    def __iter__(self) -> Any:
        # Without this, `list(f32)` would index f32[0], f32[1], ... without end.
        # Without `op`: an op replaces such an error by one that names the op.
        raise OperandError(
            "a primitive type is not iterable",
            got=self.name,
            context=("iter",),
            fix=f"pass a list of values, or write {self.name}[()] for the shape of a scalar",
        )

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return (from_name, (self.name,))


def _integer(name: str, bits: int, dtype: Any) -> PrimitiveType:
    info = np.iinfo(dtype)
    kind = Kind.SIGNED if name.startswith("s") else Kind.UNSIGNED
    return PrimitiveType(name, bits, kind, dtype, int(info.min), int(info.max))


def _floating(name: str, bits: int, dtype: Any, kind: Kind = Kind.FLOAT) -> PrimitiveType:
    info = np.finfo(dtype)
    return PrimitiveType(name, bits, kind, dtype, float(info.min), float(info.max))


pred: Final = PrimitiveType("pred", 1, Kind.PRED, np.bool_, False, True)
s2: Final = PrimitiveType("s2", 2, Kind.SIGNED, "int2")
s4: Final = PrimitiveType("s4", 4, Kind.SIGNED, "int4")
s8: Final = _integer("s8", 8, np.int8)
s16: Final = _integer("s16", 16, np.int16)
s32: Final = _integer("s32", 32, np.int32)
s64: Final = _integer("s64", 64, np.int64)
u2: Final = PrimitiveType("u2", 2, Kind.UNSIGNED, "uint2")
u4: Final = PrimitiveType("u4", 4, Kind.UNSIGNED, "uint4")
u8: Final = _integer("u8", 8, np.uint8)
u16: Final = _integer("u16", 16, np.uint16)
u32: Final = _integer("u32", 32, np.uint32)
u64: Final = _integer("u64", 64, np.uint64)
f4e2m1fn: Final = PrimitiveType("f4e2m1fn", 4, Kind.FLOAT, "float4_e2m1fn")
f8e3m4: Final = PrimitiveType("f8e3m4", 8, Kind.FLOAT, "float8_e3m4")
f8e4m3: Final = PrimitiveType("f8e4m3", 8, Kind.FLOAT, "float8_e4m3")
f8e4m3fn: Final = PrimitiveType("f8e4m3fn", 8, Kind.FLOAT, "float8_e4m3fn")
f8e4m3b11fnuz: Final = PrimitiveType("f8e4m3b11fnuz", 8, Kind.FLOAT, "float8_e4m3b11fnuz")
f8e4m3fnuz: Final = PrimitiveType("f8e4m3fnuz", 8, Kind.FLOAT, "float8_e4m3fnuz")
f8e5m2: Final = PrimitiveType("f8e5m2", 8, Kind.FLOAT, "float8_e5m2")
f8e5m2fnuz: Final = PrimitiveType("f8e5m2fnuz", 8, Kind.FLOAT, "float8_e5m2fnuz")
f8e8m0fnu: Final = PrimitiveType("f8e8m0fnu", 8, Kind.FLOAT, "float8_e8m0fnu")
bf16: Final = PrimitiveType("bf16", 16, Kind.FLOAT, "bfloat16")
f16: Final = _floating("f16", 16, np.float16)
f32: Final = _floating("f32", 32, np.float32)
f64: Final = _floating("f64", 64, np.float64)
c64: Final = _floating("c64", 64, np.complex64, Kind.COMPLEX)
c128: Final = _floating("c128", 128, np.complex128, Kind.COMPLEX)

ALL: Final[tuple[PrimitiveType, ...]] = (
    *(pred, s2, s4, s8, s16, s32, s64, u2, u4, u8, u16, u32, u64),
    *(f4e2m1fn, f8e3m4, f8e4m3, f8e4m3fn, f8e4m3b11fnuz, f8e4m3fnuz, f8e5m2, f8e5m2fnuz),
    *(f8e8m0fnu, bf16, f16, f32, f64, c64, c128),
)
"""Every element type, narrow to wide within a kind."""

# The `element_type` of tuples and tokens, so that callers can read it for any shape. These are not
# element types of arrays and are not exported.
TUPLE: Final = PrimitiveType("tuple", 0, Kind.NOT_ARRAY, np.void)
TOKEN: Final = PrimitiveType("token", 0, Kind.NOT_ARRAY, np.void)

_BY_NAME: Final = {t.name: t for t in ALL}
_BY_DTYPE: Final = {
    t.dtype: t for t in (pred, s8, s16, s32, s64, u8, u16, u32, u64, f16, f32, f64, c64, c128)
}


@cache
def _load_ml_dtypes() -> None:
    """Set dtype, min and max of the types that NumPy does not have.

    Called at first use, because importing ml_dtypes takes a large part of `import builder`, and
    many programs use none of its types. Until then these attributes are missing, so reading them
    is as fast as for other types.
    """
    import ml_dtypes

    for element_type in ALL:
        if not element_type.ml_dtype:
            continue
        dtype = np.dtype(getattr(ml_dtypes, element_type.ml_dtype))
        number: Any = int if element_type.is_integral else float
        info: Any = (ml_dtypes.iinfo if number is int else ml_dtypes.finfo)(dtype)
        values = dtype, number(info.min), number(info.max)
        for name, value in zip(("dtype", "min", "max"), values, strict=True):
            object.__setattr__(element_type, name, value)
        _BY_DTYPE[element_type.dtype] = element_type


PrimitiveTypeLike = PrimitiveType | str | type | np.dtype[Any]
"""A primitive type, its name, or its NumPy type."""


def from_name(name: str) -> PrimitiveType:
    """Return the primitive type with this name in XLA's text.

    Raises:
        PrimitiveTypeError: the name is unknown.

    Example:
        >>> import builder as xb
        >>> from_name("bf16") is xb.bf16
        True
    """
    element_type = _BY_NAME.get(name)
    if element_type is None:
        meant = meant_type(name)
        rest = f"; the types are: {', '.join(_BY_NAME)}" if meant is None else ""
        fix = "" if meant is None else f"use {meant}"
        raise PrimitiveTypeError(f"unknown primitive type {brief(name)}{rest}", fix=fix)
    return element_type


@cache
def other_names() -> dict[str, str]:
    """Return XLA's names of element types by the names of NumPy, ml_dtypes, MLIR and C."""
    names = by_name(
        {"double": "f64", "half": "f16", "i1 bool bool_ boolean": "pred", "single": "f32"}
    )
    signs = {Kind.SIGNED: ("i", "si"), Kind.UNSIGNED: ("ui",)}
    for each in ALL:
        names.setdefault(str(each.dtype), each.name)
        for sign in signs.get(each.kind, ()):
            names[f"{sign}{each.bits}"] = each.name
    return names


def meant_type(name: str) -> str | None:
    """Return XLA's name of the element type with another library's or a misspelled name, or None.

    Example:
        >>> meant_type("float32"), meant_type("float23"), meant_type("int128")
        ('f32', 'f32', None)
    """
    names = {each: each for each in _BY_NAME} | other_names()
    parts = re.fullmatch(r"([a-z]+)(\d+)", name.lower())
    if name in names or parts is None:
        return names.get(name)
    from difflib import get_close_matches  # lazy: only errors need it

    by_width: dict[str, dict[str, str]] = {}
    for known, meant in names.items():
        if found := re.fullmatch(r"([a-z]+)(\d+)", known):
            by_width.setdefault(found[1], {})[found[2]] = meant
    width = parts[2]
    for letters in get_close_matches(parts[1], by_width, 1, 0.7):
        widths = by_width[letters]
        swapped = [each for each in widths if sorted(each) == sorted(width)]
        close = [each for each in widths if abs(len(each) - len(width)) < 2]
        for each in swapped or get_close_matches(width, close, 1, 0.5):
            return widths[each]
    return None


def dtype_text(dtype: np.dtype[Any]) -> str:
    """Return a NumPy or ml_dtypes type as Python source: "numpy.float32", "bool"."""
    if dtype.name == "bool":
        return "bool"
    return f"{'numpy' if dtype.type.__module__ == 'numpy' else 'ml_dtypes'}.{dtype.name}"


def float_info(element_type: PrimitiveType) -> Any:
    """Return `finfo` of a floating-point type, including those of ml_dtypes.

    Example:
        >>> import builder as xb
        >>> float(float_info(xb.bf16).eps)
        0.0078125
    """
    import ml_dtypes

    return ml_dtypes.finfo(element_type.dtype)  # type: ignore[no-untyped-call]  # it has no types


def from_dtype(dtype: Any) -> PrimitiveType:
    """Return the primitive type that corresponds to a NumPy or ml_dtypes type.

    Raises:
        PrimitiveTypeError: XLA has no such type (object, strings, float128, dates, records).
    """
    try:
        if dtype is None:  # NumPy's default, float64
            raise TypeError
        resolved = dtype if isinstance(dtype, np.dtype) else np.dtype(dtype)
        element_type = _BY_DTYPE.get(resolved)
        if element_type is None:  # only then, because `newbyteorder` is slow
            resolved = resolved.newbyteorder("=")
            element_type = _BY_DTYPE.get(resolved)
    except Exception:  # NumPy raises various exceptions
        rule = "expected a primitive type, its name or a NumPy data type"
        raise PrimitiveTypeError(rule, got=brief(dtype)) from None
    if element_type is None:
        _load_ml_dtypes()
        element_type = _BY_DTYPE.get(resolved)
    if element_type is None:
        raise PrimitiveTypeError(
            f"NumPy dtype {resolved.name} has no primitive type in XLA",
            fix="convert the array first, for instance with .astype(numpy.float32)",
        )
    return element_type


@without_internal_frames
def as_primitive_type(value: PrimitiveTypeLike) -> PrimitiveType:
    """Convert `value` to a primitive type: a type, XLA's name, or a NumPy type.

    Raises:
        PrimitiveTypeError: `value` has no primitive type.

    Example:
        >>> import builder as xb, numpy as np
        >>> xb.as_primitive_type(np.float32), xb.as_primitive_type("pred")
        (f32, pred)
    """
    return element_type_argument("as_primitive_type", "value", value)


def element_type_argument(op: str, name: str, value: Any) -> PrimitiveType:
    """Convert argument `name` of `op`; errors name the op and the argument."""
    if isinstance(value, PrimitiveType):
        return value
    try:
        return from_name(value) if isinstance(value, str) else from_dtype(value)
    except XlaError as error:
        raise error._in_argument(op, name) from None
