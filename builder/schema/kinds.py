"""The kinds of attributes, and the form of their values in HLO text.

`lowering.stablehlo.attribute_codecs` has the StableHLO form of the same kinds.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from operator import attrgetter
from typing import Any, ClassVar, Final, NamedTuple

from builder.attributes import ChannelHandle, DotAlgorithm, PaddingConfig, Precision, ReplicaGroups


def braces(values: Iterable[Any]) -> str:
    """A list in HLO text.

    Example:
        >>> braces([2, 3])
        '{2,3}'
    """
    return "{" + ",".join(map(str, values)) + "}"


class AttributeKind:
    """A kind of attribute. Equal kinds are one object.

    The text of a kind is its name in docs/operations.md.
    """

    NAME: ClassVar[str] = ""

    def __str__(self) -> str:
        return self.NAME

    def text(self, value: Any) -> str:
        """The value in HLO text."""
        return str(value)

    def hlo(self, name: str, value: Any) -> str:
        """The attribute in HLO text, with the comma before it."""
        return f", {name}={self.text(value)}"


class Integer(AttributeKind):
    """An integer: ``iota_dimension=1``."""

    def __init__(self, bits: int = 64) -> None:
        self.bits = bits

    def __str__(self) -> str:
        return "integer" if self.bits == 64 else f"{self.bits}-bit integer"


class Dimension(AttributeKind):
    """One dimension, a list in HLO text: ``dimensions={1}``."""

    NAME = "dimension"

    def text(self, value: int) -> str:
        return f"{{{value}}}"


class Integers(AttributeKind):
    """A list of dimensions or sizes: ``dimensions={1,0}``."""

    NAME = "integers"

    def text(self, value: tuple[int, ...]) -> str:
        return braces(value)


class Flag(AttributeKind):
    """A Boolean: ``lower=true``."""

    NAME = "bool"

    def text(self, value: bool) -> str:
        return str(value).lower()


class Flags(AttributeKind):
    """A list of Booleans."""

    NAME = "bools"

    def text(self, value: tuple[bool, ...]) -> str:
        return braces(str(one).lower() for one in value)


class Unit(Flag):
    """A Boolean that StableHLO expresses by the presence of an attribute."""


class Float32(AttributeKind):
    """A number of type f32, recorded as a Python float."""

    NAME = "float"

    def text(self, value: float) -> str:
        # All digits of the double; XLA's parser rounds it to f32.
        return repr(value)


class Enumeration(AttributeKind):
    """A member of an enumeration, or one of a fixed set of names: ``fft_type=RFFT``.

    Attributes:
        mnemonic: the mnemonic of the StableHLO attribute, ``#stablehlo<mnemonic NAME>``.
        members: the enumeration; None for names.
        prefix: the prefix of the members' names that StableHLO omits.
        is_lower: whether the name is in lower case in HLO text.
    """

    def __init__(
        self,
        mnemonic: str,
        members: type[enum.Enum] | None = None,
        *,
        prefix: str = "",
        is_lower: bool = False,
    ) -> None:
        self.mnemonic = mnemonic
        self.members = members
        self.prefix = prefix
        self.is_lower = is_lower

    def __str__(self) -> str:
        return "name" if self.members is None else self.members.__name__

    def name(self, value: Any) -> str:
        """The name of a value."""
        return value if self.members is None else str(value.name)

    def text(self, value: Any) -> str:
        name = self.name(value)
        return name.lower() if self.is_lower else name


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


class Field(NamedTuple):
    """A field of dimension numbers.

    Attributes:
        name: the name in the recorded bundle; with dots for a field of a nested bundle.
        hlo: the name in HLO text.
        stablehlo: the name in StableHLO's text.
        is_optional: whether HLO text omits it where it is empty.
    """

    name: str
    hlo: str
    stablehlo: str
    is_optional: bool = False


class DimensionNumbers(AttributeKind):
    """A bundle of dimension numbers: one attribute in StableHLO, one for each field in HLO text.

    Attributes:
        bundle: the class of the recorded value.
        mnemonic: the mnemonic of the StableHLO attribute, such as "stablehlo.gather".
        fields: the fields of the bundle, in the order of HLO text.
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
    """A computation that the op applies: a name in HLO text, a region in StableHLO.

    A conditional has a tuple of computations, and a custom call may have none; rules print and
    lower these.
    """

    NAME = "computation"


INTEGER: Final = Integer()
INTEGER32: Final = Integer(32)
DIMENSION: Final = Dimension()
INTEGERS: Final = Integers()
FLAG: Final = Flag()
FLAGS: Final = Flags()
UNIT: Final = Unit()
FLOAT32: Final = Float32()
PRECISION: Final = Precisions()
ALGORITHM: Final = Algorithm()
CONVOLUTION_DIMENSIONS: Final = ConvolutionDimensions()
PADDING: Final = Padding()
PAIRS: Final = Pairs()
GROUPS: Final = Groups()
CHANNEL: Final = Channel()
COMPUTATION: Final = Computation()
