"""Schema: the description of an opcode, as data, with its element types and its tolerance."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, ParamSpec

import numpy as np

from builder.schema.equal_sizes import EqualSizes, no_equal_sizes
from builder.schema.kinds import AttributeKind, Computation
from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType


class ElementTypes(NamedTuple):
    """A set of element types.

    Attributes:
        text: the name of the set in messages and in the reference: "pred or integer".
        types: the members.
    """

    text: str
    types: frozenset[PrimitiveType]


_PRED = frozenset((pt.pred,))
_INTEGER = frozenset(t for t in pt.ALL if t.is_integral)
_SIGNED = frozenset(t for t in _INTEGER if t.is_signed)
_FLOATING = frozenset(t for t in pt.ALL if t.is_floating)
_COMPLEX = frozenset(t for t in pt.ALL if t.is_complex)

ANY: Final = ElementTypes("any", frozenset(pt.ALL))
PRED: Final = ElementTypes("pred", _PRED)
INTEGER: Final = ElementTypes("integer", _INTEGER)
UNSIGNED: Final = ElementTypes("unsigned integer", _INTEGER - _SIGNED)
S32: Final = ElementTypes("s32", frozenset((pt.s32,)))
S32_OR_S64: Final = ElementTypes("s32 or s64", frozenset((pt.s32, pt.s64)))
FLOATING: Final = ElementTypes("floating-point", _FLOATING)
COMPLEX: Final = ElementTypes("complex", _COMPLEX)
PRED_OR_INTEGER: Final = ElementTypes("pred or integer", _PRED | _INTEGER)
ORDERED: Final = ElementTypes("pred, integer or floating-point", _PRED | _INTEGER | _FLOATING)
REAL_NUMBER: Final = ElementTypes("integer or floating-point", _INTEGER | _FLOATING)
NUMBER: Final = ElementTypes("integer, floating-point or complex", _INTEGER | _FLOATING | _COMPLEX)
SIGNED_NUMBER: Final = ElementTypes(
    "signed integer, floating-point or complex", _SIGNED | _FLOATING | _COMPLEX
)
FLOATING_OR_COMPLEX: Final = ElementTypes("floating-point or complex", _FLOATING | _COMPLEX)
PART_OF_COMPLEX: Final = ElementTypes("f32 or f64", frozenset((pt.f32, pt.f64)))


def comparison_type(element_type: PrimitiveType, *, total_order: bool = False) -> str:
    """Return HLO's comparison type; `total_order` affects floating-point types only."""
    if element_type.is_floating:
        return "TOTALORDER" if total_order else "FLOAT"
    if element_type.is_complex:
        return "FLOAT"
    return "SIGNED" if element_type.is_signed else "UNSIGNED"


UNKNOWN_COUNT: Final = 64
"""The assumed number of iterations of a loop whose actual number is unknown until it runs."""


class LargestTerm(enum.Enum):
    """An upper bound of the magnitude of the terms whose sum is an element of the result."""

    OPERANDS = "the largest element of the operands and the result"
    PRODUCT = "the larger of the result's largest element and the product of those of two operands"
    RESULT = "the largest element of the result"


class Tolerance(NamedTuple):
    """How far floating-point results of two implementations may differ.

    Tolerances are in units in the last place (ulps); 0 for results that are exact. For an op with
    `terms` or `applications`, each element of the result is a sum of terms, and its tolerance is in
    ulps of the largest term, because the error of a sum does not shrink when its terms cancel.

    Attributes:
        ulps: the tolerance of an element; with `terms`, for each term.
        complex_ulps: replaces `ulps` if an operand or the result is complex; None for `ulps`. The
            unit is one ulp of the larger of the real and the imaginary part.
        flushes: whether devices may flush subnormal operands to zero: true for elementwise
            arithmetic and comparisons, false for ops that only move elements.
        terms: a function of the op that returns how many terms are added up for each element.
        applications: a function of the op that returns how often the op's computations are applied
            for an element of the result. The tolerance of the computations is multiplied by this
            number.
        largest_term: the upper bound of the largest term; see `LargestTerm`.
    """

    ulps: float = 0
    complex_ulps: float | None = None
    flushes: bool = False
    terms: Callable[[Any], int] | None = None
    applications: Callable[[Any], int] | None = None
    largest_term: LargestTerm = LargestTerm.OPERANDS


EXACT: Final = Tolerance()


def _once(_: Any) -> int:
    return 1


def _unknown(_: Any) -> int:
    return UNKNOWN_COUNT


APPLIED_ONCE: Final = Tolerance(applications=_once)
"""The tolerance of ops that apply a computation once for each element of the result."""

APPLIED_REPEATEDLY: Final = Tolerance(applications=_unknown)
"""The tolerance of ops that apply a computation an unknown number of times."""


P = ParamSpec("P")

BUILDER_H: Final = "xla_builder.h (not in the document)"
"""The `Schema.section` of ops that the Operation Semantics document does not describe."""
STABLEHLO: Final = "StableHLO's specification (not in XlaBuilder)"
"""The `Schema.section` of ops that XlaBuilder does not have."""
MATH_H: Final = "XLA's client library, math.h"
"""The `Schema.section` of functions that XLA's client library composes from several ops."""


_NO_TYPES: Final[Mapping[str, ElementTypes]] = MappingProxyType({})


class _Missing(enum.Enum):
    MISSING = "MISSING"


MISSING: Final = _Missing.MISSING
"""Marks a missing value where None is a valid value."""


class Attribute(NamedTuple):
    """An attribute of an opcode.

    Attributes:
        name: the key in the `attributes` of a recorded op.
        kind: the kind, which defines how a value is printed, lowered and read.
        hlo: the name in HLO text, if it differs; None if a `Group` writes it.
        stablehlo: the name in StableHLO, if it differs; None if StableHLO has no such attribute.
            For a computation, the attribute that names its function; "" if it is a region.
        frontend: the name of the frontend attribute that has the value in HLO text.
        omitted: the default value, which is not printed in HLO text. An op without the attribute
            has this value.
        absent: the argument of the public op that a StableHLO operation without the attribute
            implies.
        unless: the name of another attribute of the op. If the other attribute is not None, the
            StableHLO operation does not have this attribute.
        written: a function of the op's attributes that returns the value to write instead of the
            recorded one.
        parameter: the name of the public op's parameter, if it differs from `name`.
        argument: a function that converts the recorded value to the argument of the public op.
    """

    name: str
    kind: AttributeKind
    hlo: str | None = ""
    stablehlo: str | None = ""
    frontend: str = ""
    omitted: Any = MISSING
    absent: Any = MISSING
    unless: str = ""
    written: Callable[[Mapping[str, Any]], Any] | None = None
    parameter: str = ""
    argument: Callable[[Any], Any] | None = None

    def value(self, attributes: Mapping[str, Any]) -> Any:
        """Return the value to write, from the attributes of an op."""
        if self.written is not None:
            return self.written(attributes)
        if self.omitted is MISSING:
            return attributes[self.name]
        return attributes.get(self.name, self.omitted)


class Group(NamedTuple):
    """Several attributes that are one attribute in HLO text: ``slice={[0:4:1]}``.

    Attributes:
        hlo: a function of the op that returns the attribute as HLO text, with a comma before it;
            an empty string if HLO text omits the attribute.
    """

    hlo: Callable[[Any], str]


class CostClass(enum.Enum):
    """The number of arithmetic operations that an op performs, for cost analysis."""

    FREE = "none, and no data is moved"
    DATA_MOVEMENT = "none"
    ELEMENTWISE = "one for each element of the result"
    TRANSCENDENTAL = "one transcendental operation for each element of the result"
    RULE = "computed by a function in builder.inspection.stats"
    CUSTOM = "unknown"


class ResultType(enum.Enum):
    """How the element type of an elementwise op's result follows from the operands' types."""

    OPERAND = "that of the operands"
    REAL_PART = "that of the operand; of a complex type the type of its parts"
    COMPLEX = "the complex type with parts of the operands' type"
    PRED = "pred"


class Trait(enum.Flag):
    """What an op is, for code that treats all ops of a kind alike."""

    NONE = 0
    STRUCTURE = enum.auto()
    """Its value is that of an argument, or of other ops: nothing is computed."""
    ON_ELEMENTS = enum.auto()
    """It applies a computation of scalars to the elements of its operands."""
    CONTROL_FLOW = enum.auto()
    """It applies computations to whole values."""
    COLLECTIVE = enum.auto()
    """The devices that run the program exchange values."""
    STATEFUL = enum.auto()
    """Done again, it has another result or another effect."""
    TRANSFER = enum.auto()
    """It exchanges values with the host, or with a device by a channel."""
    DIVISION = enum.auto()
    """The result of an integer division by 0 differs between implementations."""
    MOVES = enum.auto()
    """The elements of the result are those of the operands, each as often as the others."""


class Monoid(NamedTuple):
    """What a reduction by an associative and commutative function of two values needs to know.

    Attributes:
        identity: a function of an element type that returns the scalar with which the function
            changes no value, other than -0.
        symbol: how explanations write the function: "+" or "max".
        is_infix: whether the symbol is written between the terms.
    """

    identity: Callable[[PrimitiveType], np.ndarray[Any, Any]]
    symbol: str
    is_infix: bool = True


class Schema:
    """The description of an opcode.

    Attributes:
        opcode: the opcode, as in `XlaOp.opcode`.
        operands: the names of the operands, separated by spaces; ``*name`` is any number of them.
        attributes: the attributes, in the order of HLO text.
        cpp_name: the name in the C++ XlaBuilder; by default the opcode in camel case.
        section: the section of the Operation Semantics document; by default `cpp_name`.
        element_types: a mapping from operand names to the element types that the operand may have.
            The shape inference function checks the types of operands that are not in the mapping.
        result: the element type of the result of an elementwise op whose rule is that of all
            functions of one array, or of two; otherwise None.
        first_size: the number of the first operand that is a size at run time, or a vector of
            them. So are all operands after it. None if the op has no such operands.
        equal_sizes: the sizes that the op requires to be equal; see `EqualSizes`.
        hlo: the name of the instruction in HLO text.
        stablehlo: the name of the operation, with its dialect.
        synonyms: other MLIR operations and custom call targets that the importer reads as this op.
        traits: see `Trait`.
        monoid: see `Monoid`; None for an op that is no such function.
        cost: see `CostClass`.
        tolerance: how far the results of two implementations may differ.
        value_attributes: the attributes that are not computations.
        frontend_attributes: the attributes that are frontend attributes in HLO text.
        computation_attributes: the computations, in the order of StableHLO's regions.
        computations: the names of `computation_attributes`.
    """

    __slots__ = (
        "attributes",
        "computation_attributes",
        "computations",
        "cost",
        "cpp_name",
        "element_types",
        "equal_sizes",
        "first_size",
        "frontend_attributes",
        "hlo",
        "monoid",
        "opcode",
        "operands",
        "result",
        "section",
        "stablehlo",
        "synonyms",
        "tolerance",
        "traits",
        "value_attributes",
    )

    def __init__(
        self,
        opcode: str,
        operands: str,
        attributes: tuple[Attribute | Group, ...] = (),
        *,
        cpp_name: str = "",
        section: str = "",
        element_types: Mapping[str, ElementTypes] = _NO_TYPES,
        result: ResultType | None = None,
        first_size: int | None = None,
        equal_sizes: EqualSizes = no_equal_sizes,
        hlo: str = "",
        stablehlo: str = "",
        synonyms: tuple[str, ...] = (),
        traits: Trait = Trait.NONE,
        monoid: Monoid | None = None,
        cost: CostClass = CostClass.DATA_MOVEMENT,
        tolerance: Tolerance = EXACT,
    ) -> None:
        self.opcode = opcode
        self.operands = operands
        self.attributes = attributes
        self.cpp_name = cpp_name or "".join(map(str.capitalize, opcode.split("_")))
        self.section = section or self.cpp_name
        self.element_types = element_types
        self.result = result
        self.first_size = first_size
        self.equal_sizes = equal_sizes
        self.hlo = hlo or opcode.replace("_", "-")
        self.stablehlo = stablehlo or f"stablehlo.{opcode}"
        self.synonyms = synonyms
        self.traits = traits
        self.monoid = monoid
        self.cost = cost
        self.tolerance = tolerance
        single = [a for a in attributes if isinstance(a, Attribute)]
        self.value_attributes = tuple(a for a in single if not isinstance(a.kind, Computation))
        self.frontend_attributes = tuple(a for a in single if a.frontend)
        self.computation_attributes = tuple(a for a in single if isinstance(a.kind, Computation))
        self.computations = tuple(a.name for a in self.computation_attributes)

    def __repr__(self) -> str:
        return f"Schema({self.opcode!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy is the same object: schemas are compared by identity.
        return _by_opcode, (self.opcode,)


SCHEMAS: Final[dict[str, Schema]] = {}
"""The schemas by opcode."""

APPLYING: Final[set[str]] = set()
"""The opcodes with attributes that are computations. Every lowering looks for their ops."""


def opcodes_with(trait: Trait) -> frozenset[str]:
    """Return the opcodes with a trait. All ops must be defined: `builder` is imported.

    Example:
        >>> sorted(opcodes_with(Trait.STRUCTURE))
        ['get_tuple_element', 'parameter', 'tuple']
    """
    return frozenset(opcode for opcode, schema in SCHEMAS.items() if trait in schema.traits)


def _by_opcode(opcode: str) -> Schema:
    return SCHEMAS[opcode]


def _define(schema: Callable[P, Schema]) -> Callable[P, Schema]:
    def define(*arguments: P.args, **named: P.kwargs) -> Schema:
        """Create a `Schema` from its arguments, add it to `SCHEMAS`, and return it.

        Raises:
            ValueError: the opcode has a schema already.
        """
        made = schema(*arguments, **named)
        if made.opcode in SCHEMAS:
            raise ValueError(f"the opcode {made.opcode!r} has a schema already")
        SCHEMAS[made.opcode] = made
        if made.computations:
            APPLYING.add(made.opcode)
        return made

    return define


define = _define(Schema)
