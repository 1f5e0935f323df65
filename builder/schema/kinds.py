"""The kinds of attributes, and the form of their values in HLO text.

`lowering.stablehlo.attribute_codecs` has the StableHLO form of the same kinds.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from contextlib import suppress
from math import isfinite
from operator import attrgetter
from struct import pack, unpack
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

from builder.attributes import (
    ChannelHandle,
    DotAlgorithm,
    PaddingConfig,
    Precision,
    ReplicaGroups,
    ResultAccuracy,
)
from builder.attributes.fields import NamedEnum
from builder.attributes.host import OutputOperandAliasing
from builder.check import flag, integer, integers
from builder.errors import OperandError, ShapeInferenceError, brief, error_of
from builder.schema.syntax import braces, quoted, quoted_bytes, with_layout
from builder.support.signatures import per_signature
from builder.types.primitive_type import PrimitiveType, element_type_argument
from builder.types.shape import Shape, shape_argument


class AttributeKind:
    """A kind of attribute, such as integers or computations.

    ``str(kind)`` is the name of the kind in docs/operations.md.
    """

    NAME: ClassVar[str] = ""

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


class Integer(AttributeKind):
    """An integer: ``iota_dimension=1``."""

    def __init__(self, bits: int = 64) -> None:
        self.bits = bits

    def __str__(self) -> str:
        return "integer" if self.bits == 64 else f"{self.bits}-bit integer"

    def convert(self, op: str, name: str, value: Any) -> int:
        return integer(op, name, value)


class Dimension(AttributeKind):
    """One dimension, a list in HLO text: ``dimensions={1}``."""

    NAME = "dimension"

    def convert(self, op: str, name: str, value: Any) -> int:
        return integer(op, name, value)

    def text(self, value: int) -> str:
        return f"{{{value}}}"


class Integers(AttributeKind):
    """A list of dimensions or sizes: ``dimensions={1,0}``."""

    NAME = "integers"

    def convert(self, op: str, name: str, value: Any) -> tuple[int, ...]:
        return integers(op, name, value)

    def text(self, value: tuple[int, ...]) -> str:
        return braces(value)


class Flag(AttributeKind):
    """A Boolean: ``lower=true``."""

    NAME = "bool"

    def convert(self, op: str, name: str, value: Any) -> bool:
        return flag(op, name, value)

    def text(self, value: bool) -> str:
        return str(value).lower()


class Flags(AttributeKind):
    """A list of Booleans."""

    NAME = "bools"

    def text(self, value: tuple[bool, ...]) -> str:
        return braces(str(one).lower() for one in value)


class OptionalFlag(Flag):
    """A Boolean that is false if the StableHLO operation does not have the attribute."""


class Unit(OptionalFlag):
    """A Boolean that is a unit attribute in StableHLO: true if present, false if absent."""


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
            rule = f"{name} must be a finite number that an f32 can represent, got {brief(value)}"
            raise error_of(ShapeInferenceError, op, rule)
        return rounded

    def text(self, value: float) -> str:
        # All digits of the double; XLA's parser rounds it to f32.
        return repr(value)


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
            rule = f"{name} must be a string such as {self.example!r}, got {brief(value)}"
            raise error_of(OperandError, op, rule)
        if self.members is None or not issubclass(self.members, NamedEnum):
            return super().convert(op, name, value)
        return value if type(value) is self.members else self.members.of(value, op)

    def name(self, value: Any) -> str:
        """Return the name of a member of the enumeration."""
        return value if self.members is None else str(value.name)

    def text(self, value: Any) -> str:
        name = self.name(value)
        return name.lower() if self.is_lower else name


class NumberedEnumeration(AttributeKind):
    """A member of an enumeration, a number in StableHLO: ``schedule=SCHEDULE_LATEST``.

    Attributes:
        members: the enumeration class.
    """

    def __init__(self, members: type[enum.IntEnum]) -> None:
        self.members = members

    def __str__(self) -> str:
        return self.members.__name__

    def text(self, value: enum.IntEnum) -> str:
        return value.name


class Text(AttributeKind):
    """A string: ``infeed_config="x"``."""

    NAME = "string"

    def text(self, value: str) -> str:
        return quoted(value)


class Bytes(AttributeKind):
    """A string of arbitrary bytes: ``backend_config="a\\377"``.

    It is recorded as a Python string, decoded as UTF-8 with the error handler "surrogateescape":
    surrogates represent the bytes that are not valid UTF-8.
    """

    NAME = "bytes"

    def text(self, value: str) -> str:
        return quoted_bytes(value)


class Dictionary(AttributeKind):
    """An MLIR dictionary, recorded as text."""

    NAME = "dictionary"


class ShapeWithLayout(AttributeKind):
    """A shape: ``outfeed_shape=f32[2,3]{1,0}``."""

    NAME = "shape"

    def convert(self, op: str, name: str, value: Any) -> Shape:
        return shape_argument(op, name, value)

    def text(self, value: Shape) -> str:
        return with_layout(value)


class ShapesWithLayout(AttributeKind):
    """A list of shapes: ``operand_layout_constraints={f32[2]{0}, f32[2,3]{0,1}}``."""

    NAME = "shapes"

    def text(self, value: Iterable[Shape]) -> str:
        return f"{{{', '.join(map(with_layout, value))}}}"


class Aliases(AttributeKind):
    """Results that share memory with operands: ``output_to_operand_aliasing={{}: (0, {})}``."""

    NAME = "OutputOperandAliasing"

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

    def text(self, value: tuple[Precision, ...]) -> str:
        return braces(one.name.lower() for one in value)


class Algorithm(AttributeKind):
    """The algorithm of a dot product: ``algorithm=dot_bf16_bf16_f32``."""

    NAME = "DotAlgorithm"

    def text(self, value: DotAlgorithm) -> str:
        return str(value.value)


class Accuracy(AttributeKind):
    """The accuracy of a function: ``result_accuracy={mode=highest}``."""

    NAME = "ResultAccuracy"

    def convert(self, op: str, name: str, value: Any) -> ResultAccuracy | None:  # noqa: ARG002
        return ResultAccuracy.of(value, op)


class ElementType(AttributeKind):
    """An element type, an argument that is not recorded: the result's shape contains it."""

    NAME = "element type"

    def convert(self, op: str, name: str, value: Any) -> PrimitiveType:
        return element_type_argument(op, name, value)


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

    def hlo(self, name: str, value: Any) -> str:  # noqa: ARG002  (each field has a name)
        values = [(field, attrgetter(field.name)(value)) for field in self.fields]
        return "".join(
            f", {field.hlo}={braces(number) if isinstance(number, tuple) else number}"
            for field, number in values
            if number != () or not field.is_optional
        )


class ConvolutionDimensions(AttributeKind):
    """The dimension numbers of a convolution: ``dim_labels=b01f_01io->b01f``."""

    NAME = "ConvolutionDimensionNumbers"


class Padding(AttributeKind):
    """The amounts of a pad: ``padding=0_1_0x2_0_0``. StableHLO has three lists."""

    NAME = "PaddingConfig"

    NAMES: Final = ("edge_padding_low", "edge_padding_high", "interior_padding")

    def text(self, value: PaddingConfig) -> str:
        return "x".join(
            f"{one.edge_padding_low}_{one.edge_padding_high}_{one.interior_padding}"
            for one in value.dimensions
        )


class Pairs(AttributeKind):
    """A list of pairs of integers: ``source_target_pairs={{0,1},{1,0}}``."""

    NAME = "pairs of integers"

    def text(self, value: Iterable[Iterable[int]]) -> str:
        return braces(braces(pair) for pair in value)


class Groups(AttributeKind):
    """Replica groups: ``replica_groups={{0,1},{2,3}}``."""

    NAME = "ReplicaGroups"

    def text(self, value: ReplicaGroups) -> str:
        return braces(braces(group) for group in value.groups)


class Channel(AttributeKind):
    """The channel of a collective: ``channel_id=1``."""

    NAME = "ChannelHandle"

    def text(self, value: ChannelHandle) -> str:
        return str(value.handle)


class Computation(AttributeKind):
    """A computation that the op applies: a name in HLO text; a region or a function in StableHLO.

    For a conditional, the value is a tuple of computations; the conditional's own rules print and
    lower the tuple.
    """

    NAME = "computation"


class OptionalComputation(Computation):
    """A computation that an op may omit: a list of at most one in HLO text and in StableHLO."""

    def text(self, value: Any) -> str:
        return braces([value])


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
GROUPS: Final = Groups()
CHANNEL: Final = Channel()
TEXT: Final = Text()
BYTES: Final = Bytes()
DICTIONARY: Final = Dictionary()
SHAPE: Final = ShapeWithLayout()
SHAPES: Final = ShapesWithLayout()
ALIASES: Final = Aliases()
COMPUTATION: Final = Computation()
OPTIONAL_COMPUTATION: Final = OptionalComputation()
