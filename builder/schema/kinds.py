"""The kinds of attributes: how an argument is converted, the HLO text, and the StableHLO attribute.

StableHLO attributes are written as MLIR text, and read from `Readable` objects, which `lowering`
makes of MLIR's attributes: this module does not import jaxlib.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from math import isfinite
from operator import attrgetter
from struct import pack, unpack
from typing import Any, ClassVar, Final, NamedTuple, Protocol

import numpy as np

from builder.attributes import (
    ChannelHandle,
    ChannelType,
    ConvolutionDimensionNumbers,
    DotAlgorithm,
    DotDimensionNumbers,
    PaddingConfig,
    PaddingConfigDimension,
    Precision,
    ReplicaGroups,
    ResultAccuracy,
)
from builder.attributes.dimension_numbers import of_labels
from builder.attributes.fields import NamedEnum, sequence_or_none
from builder.attributes.host import OutputOperandAliasing
from builder.attributes.mlir_text import composite_attributes_text, quoted as mlir_quoted
from builder.attributes.padding import padding_argument
from builder.checking import flag, flags, integer, integers, refusal
from builder.errors import (
    OperandError,
    ShapeInferenceError,
    ShapeTextError,
    XlaError,
    brief,
    error_of,
)
from builder.schema.syntax import braces, quoted, quoted_bytes, with_layout
from builder.support.caches import per_signature
from builder.types.layout import Layout, parse_layout
from builder.types.primitive_type import PrimitiveType, element_type_argument
from builder.types.shape import Shape, shape_argument


class Readable(Protocol):
    """An attribute of a StableHLO operation."""

    def text(self) -> str:
        """Return the text of the attribute, as MLIR prints it."""

    def value(self) -> Any:
        """Return the value in Python of an attribute whose type is MLIR's.

        Numbers, strings, tuples and dicts of these, NumPy arrays, the name of an enumeration's
        case; True for a unit attribute. For other attributes an object with the same text.

        Raises:
            TypeError, KeyError: Python has no such value.
        """

    def data(self) -> bytes | None:
        """Return the bytes of a string; None for other attributes."""

    def equals(self, text: str) -> bool:
        """Return whether the attribute is the one that MLIR reads from a text."""


class AttributeKind:
    """A kind of attribute, such as integers or computations.

    ``str(kind)`` is the name of the kind in docs/operations.md.

    Attributes:
        PARTS: the names of the StableHLO attributes, for a kind that becomes several.
        ABSENT: the value that a StableHLO operation without the attribute implies; None if the kind
            does not imply one.
    """

    NAME: ClassVar[str] = ""
    PARTS: ClassVar[tuple[str, ...]] = ()
    ABSENT: ClassVar[Any] = None

    def __str__(self) -> str:
        return self.NAME

    def convert(self, op: str, name: str, value: Any) -> Any:
        """Return an argument of an op as the value that is recorded.

        Args:
            op: the public name of the op.
            name: the name of the argument.
            value: the argument.

        Raises:
            XlaError: the value can't be converted.
        """
        raise NotImplementedError(f"{op}: no conversion of {name}, of kind {self}: {value!r}")

    def text(self, value: Any) -> str:
        """Return an attribute's value as HLO text."""
        return str(value)

    def hlo(self, name: str, value: Any) -> str:
        """Return an attribute as HLO text: ``, name=value``."""
        return f", {name}={self.text(value)}"

    def stablehlo(self, value: Any) -> Any:
        """Return an attribute's value as a StableHLO attribute; None if StableHLO omits the value.

        The result is MLIR text, or a tuple for an array of 64-bit integers. A kind with `PARTS`
        returns a result for each.

        Args:
            value: the value; of a computation the symbol of its function, as MLIR text.
        """
        raise NotImplementedError(f"no StableHLO attribute of kind {self}: {value!r}")

    def read(self, attribute: Any) -> Any:
        """Return the value of a StableHLO attribute.

        Args:
            attribute: a `Readable`; for a kind with `PARTS` a `Readable` for each.

        Raises:
            XlaError: XLA has no such value.
            TypeError, KeyError: see `Readable.value`.
        """
        return attribute.value()


class Integer(AttributeKind):
    """An integer: ``iota_dimension=1``."""

    def __init__(self, bits: int = 64) -> None:
        self.bits = bits

    def __str__(self) -> str:
        return "integer" if self.bits == 64 else f"{self.bits}-bit integer"

    def convert(self, op: str, name: str, value: Any) -> int:
        return integer(op, name, value)

    def stablehlo(self, value: int) -> str:
        return f"{value} : i{self.bits}"


class Dimension(AttributeKind):
    """One dimension, a list in HLO text: ``dimensions={1}``."""

    NAME = "dimension"

    def convert(self, op: str, name: str, value: Any) -> int:
        return integer(op, name, value)

    def text(self, value: int) -> str:
        return f"{{{value}}}"

    def stablehlo(self, value: int) -> str:
        return f"{value} : i64"


class Integers(AttributeKind):
    """A list of dimensions or sizes: ``dimensions={1,0}``."""

    NAME = "integers"

    def convert(self, op: str, name: str, value: Any) -> tuple[int, ...]:
        return integers(op, name, value)

    def text(self, value: tuple[int, ...]) -> str:
        return braces(value)

    def stablehlo(self, value: tuple[int, ...]) -> tuple[int, ...]:
        return value


class Flag(AttributeKind):
    """A Boolean: ``lower=true``."""

    NAME = "bool"

    def convert(self, op: str, name: str, value: Any) -> bool:
        return flag(op, name, value)

    def text(self, value: bool) -> str:
        return str(value).lower()

    def stablehlo(self, value: bool) -> str | None:
        return self.text(value)


class Flags(AttributeKind):
    """A list of Booleans.

    Attributes:
        of: the thing that each value describes, for messages.
    """

    NAME = "bools"

    def __init__(self, of: str = "") -> None:
        self.of = of

    def convert(self, op: str, name: str, value: Any) -> tuple[bool, ...]:
        return flags(op, name, value, self.of)

    def text(self, value: tuple[bool, ...]) -> str:
        return braces(str(one).lower() for one in value)

    def stablehlo(self, value: tuple[bool, ...]) -> str:
        return f"array<i1{': ' if value else ''}{', '.join(map(str, value)).lower()}>"


class OptionalFlag(Flag):
    """A Boolean that is false if the StableHLO operation does not have the attribute."""

    ABSENT = False

    def stablehlo(self, value: bool) -> str | None:
        return "true" if value else None


class Unit(OptionalFlag):
    """A Boolean that is a unit attribute in StableHLO: true if present, false if absent."""

    def stablehlo(self, value: bool) -> str | None:
        return "unit" if value else None


class Float32(AttributeKind):
    """A number of type f32, recorded as a Python float."""

    NAME = "float"

    def convert(self, op: str, name: str, value: Any) -> float:
        rounded = None
        if type(value) is float:
            rounded = _as_f32(value)
        elif isinstance(value, (int, np.floating, np.integer)) and not isinstance(value, bool):
            with suppress(OverflowError):  # an int larger than every float
                rounded = _as_f32(float(value))
        if rounded is None:
            rule = f"{name} must be a finite number that an f32 can represent"
            raise error_of(ShapeInferenceError, op, rule, got=brief(value))
        return rounded

    def text(self, value: float) -> str:
        # All digits of the double; XLA's parser rounds it to f32.
        return repr(value)

    def stablehlo(self, value: float) -> str:
        return f"0x{np.float32(value).view(np.uint32):08X} : f32"


@per_signature
def _as_f32(value: float) -> float | None:
    """Return the f32 nearest to a number; None if this f32 is not finite."""
    try:
        rounded: float = unpack("f", pack("f", value))[0]
    except OverflowError:
        return None
    return rounded if isfinite(rounded) else None


class Enumeration(AttributeKind):
    """A member of an enumeration, or one of a fixed set of names: ``fft_type=RFFT``.

    Attributes:
        mnemonic: the mnemonic of the StableHLO attribute, ``#stablehlo<mnemonic NAME>``.
        members: the enumeration class; None if the value is recorded as a name.
        prefix: the prefix of the members' names that StableHLO omits.
        is_lower: whether the name is in lower case in HLO text.
        example: one of the names, for messages, if arguments are names.
    """

    def __init__(
        self,
        mnemonic: str,
        members: type[enum.Enum] | None = None,
        *,
        prefix: str = "",
        is_lower: bool = False,
        example: str = "",
    ) -> None:
        self.mnemonic = mnemonic
        self.members = members
        self.prefix = prefix
        self.is_lower = is_lower
        self.example = example

    def __str__(self) -> str:
        return "name" if self.members is None else self.members.__name__

    def convert(self, op: str, name: str, value: Any) -> Any:
        if self.example:  # the rule of the op checks the name
            if isinstance(value, str):
                return value
            rule = f"{name} must be a string such as {self.example!r}"
            raise error_of(OperandError, op, rule, got=brief(value))
        if self.members is None or not issubclass(self.members, NamedEnum):
            return super().convert(op, name, value)
        return value if type(value) is self.members else self.members.of(value, op)

    def name(self, value: Any) -> str:
        """Return the name of a member of the enumeration."""
        return value if self.members is None else str(value.name)

    def text(self, value: Any) -> str:
        name = self.name(value)
        return name.lower() if self.is_lower else name

    def stablehlo(self, value: Any) -> str:
        name = self.name(value).removeprefix(self.prefix).upper()
        return f"#stablehlo<{self.mnemonic} {name}>"

    def read(self, attribute: Readable) -> Any:
        name = attribute.value()
        if self.members is None:
            return f"{self.prefix}{name.lower() if self.prefix.islower() else name}"
        return self.members[self.prefix + name]


class NumberedEnumeration(AttributeKind):
    """A member of an enumeration, a number in StableHLO: ``schedule=SCHEDULE_LATEST``.

    Attributes:
        members: the enumeration class.
    """

    def __init__(self, members: type[NamedEnum]) -> None:
        self.members = members

    def __str__(self) -> str:
        return self.members.__name__

    def convert(self, op: str, name: str, value: Any) -> Any:  # noqa: ARG002  (the members name it)
        return self.members.of(value, op)

    def text(self, value: enum.IntEnum) -> str:
        return value.name

    def stablehlo(self, value: enum.IntEnum) -> str:
        return f"{int(value)} : i32"


class Text(AttributeKind):
    """A string: ``infeed_config="x"``."""

    NAME = "string"

    def convert(self, op: str, name: str, value: Any) -> str:
        if not isinstance(value, str):
            raise error_of(OperandError, op, f"{name} must be a string", got=brief(value))
        return value

    def text(self, value: str) -> str:
        return quoted(value)

    def stablehlo(self, value: str) -> str:
        return mlir_quoted(value.encode("utf-8", "replace"))


class Bytes(AttributeKind):
    """A string of arbitrary bytes: ``backend_config="a\\377"``.

    It is recorded as a Python string, decoded as UTF-8 with the error handler "surrogateescape":
    surrogates represent the bytes that are not valid UTF-8.
    """

    NAME = "bytes"

    def convert(self, op: str, name: str, value: Any) -> str:
        if isinstance(value, str):
            try:
                value = value.encode("utf-8", "surrogateescape")
            except UnicodeEncodeError:
                rule = f"{name} must be a string that UTF-8 can encode, or bytes"
                text = rule
                raise error_of(OperandError, op, text, "pass the bytes", got=brief(value)) from None
        if not isinstance(value, (bytes, bytearray)):
            rule = f"{name} must be a string or bytes"
            raise error_of(OperandError, op, rule, got=brief(value))
        return value.decode("utf-8", "surrogateescape")

    def text(self, value: str) -> str:
        return quoted_bytes(value)

    def stablehlo(self, value: str) -> str:
        return mlir_quoted(value.encode("utf-8", "surrogateescape"))

    def read(self, attribute: Readable) -> str | None:
        data = attribute.data()
        return None if data is None else data.decode("utf-8", "surrogateescape")


class Dictionary(AttributeKind):
    """An MLIR dictionary, recorded as text."""

    NAME = "dictionary"

    def stablehlo(self, value: str) -> str:
        return value

    def read(self, attribute: Readable) -> str:
        """Return the text that `builder` writes; if MLIR reads it differently, the text of MLIR."""
        text = attribute.text()
        if "dense_resource<" in re.sub(_STRING, "", text):
            raise XlaError("attributes must contain their values, not dense_resource", got=text)
        try:
            written = composite_attributes_text(attribute.value())
        except (TypeError, KeyError, XlaError):  # Python has no such values
            return text
        return written if attribute.equals(written) else text


_STRING: Final = r'"(?:[^"\\]|\\.)*"'


class ElementType(AttributeKind):
    """An element type, an argument that determines the shape of the result."""

    NAME = "element type"

    def convert(self, op: str, name: str, value: Any) -> PrimitiveType:
        return element_type_argument(op, name, value)


class ShapeWithLayout(AttributeKind):
    """A shape: ``outfeed_shape=f32[2,3]{1,0}``."""

    NAME = "shape"

    def convert(self, op: str, name: str, value: Any) -> Shape:
        return shape_argument(op, name, value)

    def text(self, value: Shape) -> str:
        return with_layout(value)


class ResultLayout(AttributeKind):
    """The memory layout of a result, recorded in its shape: ``shape_with_layout``."""

    NAME = "layout"

    def convert(self, op: str, name: str, value: Any) -> Layout:
        if isinstance(value, Layout):
            return value
        try:
            return parse_layout(value) if isinstance(value, str) else Layout(value)
        except ShapeTextError as error:
            raise error._in_argument(op, name) from None
        except XlaError as error:
            raise error._renamed(op) from None


class ShapesWithLayout(AttributeKind):
    """A list of shapes: ``operand_layout_constraints={f32[2]{0}, f32[2,3]{0,1}}``."""

    NAME = "shapes"

    def convert(self, op: str, name: str, value: Any) -> tuple[Shape, ...]:
        if isinstance(value, str) or not isinstance(value, Sequence):
            rule = f"{name} must be a sequence of shapes"
            raise error_of(OperandError, op, rule, got=brief(value))
        return tuple([shape_argument(op, name, shape) for shape in value])

    def text(self, value: Iterable[Shape]) -> str:
        return f"{{{', '.join(map(with_layout, value))}}}"


class Aliases(AttributeKind):
    """Results that share memory with operands: ``output_to_operand_aliasing={{}: (0, {})}``."""

    NAME = "OutputOperandAliasing"

    def convert(self, op: str, name: str, value: Any) -> tuple[OutputOperandAliasing, ...]:  # noqa: ARG002  (the class names it)
        return OutputOperandAliasing.all_of(value, op)

    def text(self, value: Iterable[OutputOperandAliasing]) -> str:
        aliases = (
            f"{braces(a.output_index)}: ({a.operand_number}, {braces(a.operand_index)})"
            for a in value
        )
        return f"{{{', '.join(aliases)}}}"


class Precisions(AttributeKind):
    """The precision of each operand: ``operand_precision={high,default}``.

    Attributes:
        dialect: the dialect of the attribute in MLIR: "stablehlo" or "chlo".
    """

    NAME = "pair of Precision"

    def __init__(self, dialect: str = "stablehlo") -> None:
        self.dialect = dialect

    def convert(self, op: str, name: str, value: Any) -> tuple[Precision, Precision]:  # noqa: ARG002  (of the class)
        return Precision.pair(value, op)

    def text(self, value: tuple[Precision, ...]) -> str:
        return braces(one.name.lower() for one in value)

    def stablehlo(self, value: tuple[Precision, ...]) -> str:
        return f"[{', '.join(f'#{self.dialect}<precision {one.value}>' for one in value)}]"

    def read(self, attribute: Readable) -> tuple[Precision, Precision]:
        return Precision.pair(attribute.value() or None)


class Algorithm(AttributeKind):
    """The algorithm of a dot product: ``algorithm=dot_bf16_bf16_f32``."""

    NAME = "DotAlgorithm"

    def convert(self, op: str, name: str, value: Any) -> DotAlgorithm:  # noqa: ARG002  (of the class)
        return DotAlgorithm.of(value)

    def text(self, value: DotAlgorithm) -> str:
        return str(value.value)

    def stablehlo(self, value: DotAlgorithm) -> str:
        return _ALGORITHMS[value]

    def read(self, attribute: Readable) -> DotAlgorithm:
        # The algorithms for any f8 types are in the table as those for f8E5M2.
        text = re.sub(r"\bf8E\w+", "f8E5M2", attribute.text())
        for algorithm, known in _ALGORITHMS.items():
            if text == known:
                return algorithm
        raise XlaError(f"XLA has no dot algorithm equal to {attribute.text()}")


def _algorithm_text(
    precision: str, accumulation: str, operations: int = 1, *, is_imprecise: bool = False
) -> str:
    """Return ``#stablehlo.dot_algorithm<...>`` as MLIR prints it."""
    return (
        f"#stablehlo.dot_algorithm<lhs_precision_type = {precision}, "
        f"rhs_precision_type = {precision}, accumulation_type = {accumulation}, "
        f"lhs_component_count = 1, rhs_component_count = 1, "
        f"num_primitive_operations = {operations}, "
        f"allow_imprecise_accumulation = {str(is_imprecise).lower()}>"
    )


_ALGORITHMS: Final = {
    DotAlgorithm.DOT_ANY_F8_ANY_F8_F32: _algorithm_text("f8E5M2", "f32"),
    DotAlgorithm.DOT_ANY_F8_ANY_F8_F32_FAST_ACCUM: _algorithm_text(
        "f8E5M2", "f32", is_imprecise=True
    ),
    DotAlgorithm.DOT_F16_F16_F16: _algorithm_text("f16", "f16"),
    DotAlgorithm.DOT_F16_F16_F32: _algorithm_text("f16", "f32"),
    DotAlgorithm.DOT_BF16_BF16_BF16: _algorithm_text("bf16", "bf16"),
    DotAlgorithm.DOT_BF16_BF16_F32: _algorithm_text("bf16", "f32"),
    DotAlgorithm.DOT_BF16_BF16_F32_X3: _algorithm_text("bf16", "f32", 3),
    DotAlgorithm.DOT_BF16_BF16_F32_X6: _algorithm_text("bf16", "f32", 6),
    DotAlgorithm.DOT_BF16_BF16_F32_X9: _algorithm_text("bf16", "f32", 9),
    DotAlgorithm.DOT_TF32_TF32_F32: _algorithm_text("tf32", "f32"),
    DotAlgorithm.DOT_TF32_TF32_F32_X3: _algorithm_text("tf32", "f32", 3),
    DotAlgorithm.DOT_F32_F32_F32: _algorithm_text("f32", "f32"),
    DotAlgorithm.DOT_F64_F64_F64: _algorithm_text("f64", "f64"),
}


class Accuracy(AttributeKind):
    """The accuracy of a function: ``result_accuracy={mode=highest}``."""

    NAME = "ResultAccuracy"

    def convert(self, op: str, name: str, value: Any) -> ResultAccuracy | None:  # noqa: ARG002  (of the class)
        return ResultAccuracy.of(value, op)

    def stablehlo(self, value: ResultAccuracy) -> str:
        # Hexadecimal digits of the doubles, because MLIR refuses texts such as 1e-05.
        atol, rtol = (f"0x{np.float64(t).view(np.uint64):016X}" for t in (value.atol, value.rtol))
        return (
            f"#stablehlo.result_accuracy<atol = {atol}, rtol = {rtol}, ulps = {value.ulps}, "
            f"mode = #stablehlo.result_accuracy_mode<{value.mode}>>"
        )

    def read(self, attribute: Readable) -> ResultAccuracy | None:
        """Return the accuracy; None for the default."""
        text = attribute.text()  # that of MHLO's attribute differs in the dialect only
        match = re.fullmatch(_ACCURACY, text)
        if match is None:
            raise XlaError("result_accuracy must be a result accuracy", got=text)
        fields = dict(re.findall(r"(\w+) = ([^,]+)", match[1]))
        atol, rtol = (_double(fields.get(name, "0")) for name in ("atol", "rtol"))
        ulps, mode = int(fields.get("ulps", 0)), match[2]
        return ResultAccuracy.of(ResultAccuracy(atol, rtol, ulps, mode))  # type: ignore[arg-type]  # any text


_ACCURACY: Final = (
    r"#(?:stablehlo|mhlo)\.result_accuracy<(.*)mode = #\w+\.result_accuracy_mode<(\w+)>>"
)


def _double(text: str) -> float:
    """Return the double that MLIR prints; infinities and NaNs are printed as bit patterns."""
    is_pattern = text.startswith("0x")
    return float(np.uint64(int(text, 16)).view(np.float64)) if is_pattern else float(text)


class Field(NamedTuple):
    """A field of dimension numbers.

    Attributes:
        name: the name in the recorded dimension numbers; ``a.b`` for field b of nested dimension
            numbers a.
        hlo: the name in HLO text.
        stablehlo: the name in StableHLO's text.
        is_optional: whether HLO text omits the field if its list is empty.
    """

    name: str
    hlo: str
    stablehlo: str
    is_optional: bool = False


class DimensionNumbers(AttributeKind):
    """Dimension numbers: one attribute in StableHLO, and one attribute per field in HLO text.

    Attributes:
        bundle: the class of the recorded value.
        mnemonic: the mnemonic of the StableHLO attribute, such as "stablehlo.gather".
        fields: the fields of the dimension numbers, in the order of HLO text.
    """

    def __init__(self, bundle: type[Any], mnemonic: str, fields: Iterable[Field]) -> None:
        self.bundle = bundle
        self.mnemonic = mnemonic
        self.fields = tuple(fields)

    def __str__(self) -> str:
        return self.bundle.__name__

    def convert(self, op: str, name: str, value: Any) -> Any:  # noqa: ARG002  (of the class)
        if type(value) is self.bundle:
            return value
        try:
            return self.bundle.of(value)
        except XlaError as error:
            raise error._renamed(op) from None

    def hlo(self, name: str, value: Any) -> str:  # noqa: ARG002  (each field has a name)
        values = [(field, attrgetter(field.name)(value)) for field in self.fields]
        return "".join(
            f", {field.hlo}={braces(number) if isinstance(number, tuple) else number}"
            for field, number in values
            if number != () or not field.is_optional
        )

    def stablehlo(self, value: Any) -> str:
        return _dimension_numbers_text(self, value)

    def read(self, attribute: Readable) -> Any:
        # The text omits empty lists and 0.
        in_text = _numbers_of(attribute.text())
        values: dict[str, Any] = {}
        inner: dict[str, dict[str, Any]] = {}
        for field in self.fields:
            *outer, name = field.name.split(".")
            default = 0 if name == "index_vector_dim" else ()
            fields = inner.setdefault(outer[0], {}) if outer else values
            fields[name] = in_text.get(field.stablehlo, default)
        for name, fields in inner.items():
            values[name] = DotDimensionNumbers(**fields)
        return self.bundle(**values)


def _numbers_of(text: str) -> dict[str, Any]:
    """Return the integers, and tuples of integers, in the text of an attribute by field."""
    return {
        name: int(number) if number else tuple(int(n) for n in numbers.split(",") if n.strip())
        for name, numbers, number in re.findall(_FIELD, text)
    }


_FIELD: Final = r"(\w+) = (?:\[([^\]]*)\]|(-?\d+))"


@per_signature
def _dimension_numbers_text(kind: DimensionNumbers, numbers: Any) -> str:
    values = [(field.stablehlo, attrgetter(field.name)(numbers)) for field in kind.fields]
    parts = [
        f"{name} = {list(value) if isinstance(value, tuple) else value}" for name, value in values
    ]
    return f"#{kind.mnemonic}<{', '.join(parts)}>"


class ConvolutionDimensions(AttributeKind):
    """The dimension numbers of a convolution: ``dim_labels=b01f_01io->b01f``."""

    NAME = "ConvolutionDimensionNumbers"

    def convert(self, op: str, name: str, value: Any) -> ConvolutionDimensionNumbers:  # noqa: ARG002  (of the class)
        return ConvolutionDimensionNumbers.of(value, op)

    def stablehlo(self, value: ConvolutionDimensionNumbers) -> str:
        return _convolution_text(value)

    def read(self, attribute: Readable) -> ConvolutionDimensionNumbers:
        text = attribute.text()
        numbers: dict[str, Any] = _numbers_of(text)
        if numbers:  # not each dimension has one label
            return ConvolutionDimensionNumbers(**numbers)
        return of_labels([part.split(", ") for part in re.findall(r"\[(.*?)\]", text)])


@per_signature
def _convolution_text(numbers: ConvolutionDimensionNumbers) -> str:
    labels = numbers.labels(len(numbers.input_spatial_dimensions) + 2)
    source, kernel, result = (f"[{', '.join(part)}]" for part in labels)
    return f"#stablehlo.conv<{source}x{kernel}->{result}>"


class Padding(AttributeKind):
    """The amounts of a pad: ``padding=0_1_0x2_0_0``. StableHLO has three lists."""

    NAME = "PaddingConfig"
    PARTS = ("edge_padding_low", "edge_padding_high", "interior_padding")

    def text(self, value: PaddingConfig) -> str:
        return "x".join(
            f"{one.edge_padding_low}_{one.edge_padding_high}_{one.interior_padding}"
            for one in value.dimensions
        )

    def stablehlo(self, value: PaddingConfig) -> list[tuple[int, ...]]:
        amounts = value.dimensions
        return [
            tuple([one.edge_padding_low for one in amounts]),
            tuple([one.edge_padding_high for one in amounts]),
            tuple([one.interior_padding for one in amounts]),
        ]

    def read(self, attribute: Sequence[Readable]) -> PaddingConfig:
        amounts = [part.value() for part in attribute]
        return PaddingConfig(tuple(map(PaddingConfigDimension, *amounts)))


class Pairs(AttributeKind):
    """A list of pairs of integers: ``source_target_pairs={{0,1},{1,0}}``."""

    NAME = "pairs of integers"

    def convert(self, op: str, name: str, value: Any) -> tuple[tuple[int, int], ...]:
        rows = sequence_or_none(value)
        pairs = [] if rows is None else [sequence_or_none(row) or () for row in rows]
        if rows is None or any(len(pair) != 2 for pair in pairs):
            rule = f"{name} must be a sequence of pairs (source, target)"
            raise refusal(op, rule, value, "write for instance [(0, 1), (1, 0)]")
        numbers = [integers(op, "a pair", pair) for pair in pairs]
        return tuple([(source, target) for source, target in numbers])

    def text(self, value: Iterable[Iterable[int]]) -> str:
        return braces(braces(pair) for pair in value)

    def stablehlo(self, value: tuple[tuple[int, int], ...]) -> str:
        return _table_text(value, 2)

    def read(self, attribute: Readable) -> tuple[tuple[int, ...], ...]:
        table = attribute.value()
        if not isinstance(table, np.ndarray):
            raise XlaError("pairs must be a table of numbers", got=table)
        return tuple(map(tuple, table.tolist()))


def _table_text(rows: tuple[tuple[int, ...], ...], width: int) -> str:
    """Return rows of numbers as a dense attribute; short rows are padded with -1."""
    width = max(map(len, rows), default=width)
    padded = [[*row, *[-1] * (width - len(row))] for row in rows]
    return f"dense<{padded if rows else ''}> : tensor<{len(rows)}x{width}xi64>"


class WindowPadding(Pairs):
    """The padding of a window; an argument may also be Padding.SAME or Padding.VALID."""

    def convert(self, op: str, name: str, value: Any) -> Any:
        return padding_argument(op, value, name)


class Groups(AttributeKind):
    """Replica groups: ``replica_groups={{0,1},{2,3}}``."""

    NAME = "ReplicaGroups"

    def convert(self, op: str, name: str, value: Any) -> ReplicaGroups:  # noqa: ARG002  (the class names it)
        return ReplicaGroups.of(value, op)

    def text(self, value: ReplicaGroups) -> str:
        return braces(braces(group) for group in value.groups)

    def stablehlo(self, value: ReplicaGroups) -> str:
        return _table_text(value.groups, 0)

    def read(self, attribute: Readable) -> ReplicaGroups:
        table = attribute.value()
        if not isinstance(table, np.ndarray):
            raise XlaError("replica_groups must be a table of numbers", got=table)
        if not table.size:  # there may be more empty rows than a list can hold
            return ReplicaGroups()
        rows = (tuple(number for number in row if number != -1) for row in table.tolist())
        return ReplicaGroups(tuple(filter(None, rows)))


class Channel(AttributeKind):
    """The channel of a collective or a transfer: ``channel_id=1``.

    Attributes:
        type: the two ends of a channel that is passed as a number.
    """

    NAME = "ChannelHandle"

    def __init__(self, type: ChannelType = ChannelType.DEVICE_TO_DEVICE) -> None:
        self.type = type

    def convert(self, op: str, name: str, value: Any) -> ChannelHandle:
        channel = ChannelHandle.of(value, op, self.type, name)
        if channel is None:
            rule = f"{name} must be a ChannelHandle or its number"
            fix = (
                f"pass xb.ChannelHandle(1, xb.ChannelType.{self.type.name}), with a number that "
                "no other pair of a send and a recv uses"
            )
            raise refusal(op, rule, None, fix)
        return channel

    def text(self, value: ChannelHandle) -> str:
        return str(value.handle)

    def stablehlo(self, value: ChannelHandle) -> str:
        return f"#stablehlo.channel_handle<handle = {value.handle}, type = {int(value.type)}>"

    def read(self, attribute: Readable) -> ChannelHandle | None:
        """Return the channel; None if the handle is below 1, as StableHLO defines."""
        numbers = _numbers_of(attribute.text())
        if numbers.keys() != {"handle", "type"}:
            raise XlaError("channel_handle must be a channel handle", got=attribute.text())
        channel_type = _CHANNEL_TYPES.get(numbers["type"], ChannelType.DEVICE_TO_DEVICE)
        return ChannelHandle(numbers["handle"], channel_type) if numbers["handle"] > 0 else None


_CHANNEL_TYPES: Final = {int(channel_type): channel_type for channel_type in ChannelType}


class Computation(AttributeKind):
    """A computation that the op applies: a name in HLO text; a region or a function in StableHLO.

    For a conditional, the value is a tuple of computations; the conditional's own rules print and
    lower the tuple.
    """

    NAME = "computation"

    def stablehlo(self, value: str) -> str:
        return value


class OptionalComputation(Computation):
    """A computation that an op may omit: a list of at most one in HLO text and in StableHLO."""

    def text(self, value: Any) -> str:
        return braces([value])

    def stablehlo(self, value: str) -> str:
        return f"[{value}]"


INTEGER: Final = Integer()
INTEGER32: Final = Integer(32)
DIMENSION: Final = Dimension()
INTEGERS: Final = Integers()
FLAG: Final = Flag()
FLAGS: Final = Flags()
OPTIONAL_FLAG: Final = OptionalFlag()
UNIT: Final = Unit()
FLOAT32: Final = Float32()
PRECISION: Final = Precisions()
ALGORITHM: Final = Algorithm()
ACCURACY: Final = Accuracy()
ELEMENT_TYPE: Final = ElementType()
CONVOLUTION_DIMENSIONS: Final = ConvolutionDimensions()
PADDING: Final = Padding()
PAIRS: Final = Pairs()
WINDOW_PADDING: Final = WindowPadding()
GROUPS: Final = Groups()
CHANNEL: Final = Channel()
TEXT: Final = Text()
BYTES: Final = Bytes()
DICTIONARY: Final = Dictionary()
SHAPE: Final = ShapeWithLayout()
LAYOUT: Final = ResultLayout()
SHAPES: Final = ShapesWithLayout()
ALIASES: Final = Aliases()
COMPUTATION: Final = Computation()
OPTIONAL_COMPUTATION: Final = OptionalComputation()
