"""The kinds of attributes in StableHLO: each is written and read in one place.

`builder.schema.kinds` has the kinds, and their form in HLO text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from builder.attributes import (
    ChannelHandle,
    ConvolutionDimensionNumbers,
    DotAlgorithm,
    DotDimensionNumbers,
    PaddingConfig,
    PaddingConfigDimension,
    Precision,
    RaggedDotDimensionNumbers,
    ReplicaGroups,
)
from builder.errors import XlaError
from builder.schema import MISSING, SCHEMAS, Attribute as SchemaAttribute, Schema
from builder.schema.kinds import (
    Algorithm,
    AttributeKind,
    Channel,
    ConvolutionDimensions,
    Dimension,
    DimensionNumbers,
    Enumeration,
    Flag,
    Flags,
    Float32,
    Groups,
    Integer,
    Integers,
    Padding,
    Pairs,
    Precisions,
    Unit,
)
from builder.types import primitive_type as pt
from lowering.mlir.attributes import UNIT, Attribute, i64_array
from lowering.mlir.types import element_type_text

__all__ = ["attribute_names", "read_attributes", "reader_of", "stablehlo_attributes"]

Attributes = Mapping[str, ir.Attribute]
"""The attributes of an operation."""


class Codec(NamedTuple):
    """How attributes of a kind are written and read.

    Attributes:
        write: of the kind, the attribute's name and its value the attributes in MLIR text.
        read: of the kind, the name and the operation's attributes the value.
    """

    write: Callable[[Any, str, Any], dict[str, Attribute]]
    read: Callable[[Any, str, Attributes], Any]


CODECS: Final[dict[type[AttributeKind], Codec]] = {}

_VALUES: Final[dict[type[AttributeKind], Callable[[Any, Any], Any]]] = {}
"""The value of an attribute, for kinds that are one attribute."""


def _codec(
    kind: type[AttributeKind],
    text: Callable[[Any, Any], Attribute],
    value: Callable[[Any, Any], Any],
) -> None:
    """Enter a kind that is one attribute: its text, and its value."""
    _VALUES[kind] = value
    CODECS[kind] = Codec(
        lambda of, name, given: {name: text(of, given)},
        lambda of, name, attributes: value(of, attributes[name]),
    )


def _table(rows: tuple[tuple[int, ...], ...], width: int) -> str:
    """Rows of numbers as a dense attribute; short rows are filled up with -1."""
    width = max(map(len, rows), default=width)
    filled = [[*row, *[-1] * (width - len(row))] for row in rows]
    return f"dense<{filled if rows else ''}> : tensor<{len(rows)}x{width}xi64>"


def _rows(attribute: Any) -> list[list[int]]:
    found: list[list[int]] = np.asarray(attribute).tolist()
    return found


def _word(attribute: Any) -> str:
    """The NAME of ``#dialect<mnemonic NAME>``."""
    found = re.fullmatch(r"#\w+<\w+ (\w+)>", str(attribute))
    assert found is not None  # verified by MLIR
    return found[1]


_codec(Integer, lambda kind, n: f"{n} : i{kind.bits}", lambda _, a: ir.IntegerAttr(a).value)
_codec(Dimension, lambda _, n: f"{n} : i64", lambda _, a: ir.IntegerAttr(a).value)
_codec(Integers, lambda _, values: i64_array(values), lambda _, a: tuple(ir.DenseI64ArrayAttr(a)))
_codec(Flag, lambda _, one: "true" if one else "false", lambda _, a: ir.BoolAttr(a).value)
_codec(
    Flags,
    lambda _, values: (
        f"array<i1{': ' if values else ''}{', '.join(str(one).lower() for one in values)}>"
    ),
    lambda _, a: tuple(ir.DenseBoolArrayAttr(a)),
)
_codec(
    Float32,
    lambda _, number: f"0x{np.float32(number).view(np.uint32):08X} : f32",
    lambda _, a: ir.FloatAttr(a).value,
)
_codec(
    Enumeration,
    lambda kind, one: f"#stablehlo<{kind.mnemonic} {_stablehlo_name(kind, one)}>",
    lambda kind, a: _member(kind, _word(a)),
)
_codec(
    Precisions,
    lambda kind, pair: f"[{', '.join(f'#{kind.dialect}<precision {p.value}>' for p in pair)}]",
    lambda _, a: Precision.pair([_word(one) for one in ir.ArrayAttr(a)] or None),
)
_codec(Pairs, lambda _, pairs: _table(pairs, 2), lambda _, a: tuple(tuple(row) for row in _rows(a)))
_codec(
    Groups,
    lambda _, groups: _table(groups.groups, 0),
    lambda _, a: _replica_groups(a),
)
_codec(
    Channel,
    lambda _, one: f"#stablehlo.channel_handle<handle = {one.handle}, type = {int(one.type)}>",
    lambda _, a: _channel(stablehlo.ChannelHandle(a).handle),
)
CODECS[Unit] = Codec(
    lambda _, name, one: {name: UNIT} if one else {},
    lambda _, name, attributes: name in attributes,
)
CODECS[Padding] = Codec(
    lambda kind, _, config: {
        name: i64_array(tuple(getattr(one, name) for one in config.dimensions))
        for name in kind.NAMES
    },
    lambda kind, _, attributes: PaddingConfig(
        tuple(
            PaddingConfigDimension(*amounts)
            for amounts in zip(
                *(ir.DenseI64ArrayAttr(attributes[name]) for name in kind.NAMES), strict=True
            )
        )
    ),
)


def _replica_groups(attribute: Any) -> ReplicaGroups:
    if not isinstance(attribute, ir.DenseIntElementsAttr):
        raise XlaError(f"its replica_groups must be a table of numbers, got {attribute}")
    if not np.asarray(attribute).size:  # there may be more empty rows than a list can hold
        return ReplicaGroups()
    rows = (tuple(number for number in row if number != -1) for row in _rows(attribute))
    return ReplicaGroups(tuple(filter(None, rows)))


def _channel(handle: int) -> ChannelHandle | None:
    """Return the channel of a number; StableHLO takes numbers below 1 for no channel."""
    return ChannelHandle(handle) if handle > 0 else None


def _stablehlo_name(kind: Enumeration, value: Any) -> str:
    return kind.name(value).removeprefix(kind.prefix).upper()


def _member(kind: Enumeration, name: str) -> Any:
    if kind.members is None:
        return f"{kind.prefix}{name.lower() if kind.prefix.islower() else name}"
    return kind.members[kind.prefix + name]


@lru_cache(maxsize=4096)
def _numbers_text(kind: DimensionNumbers, numbers: Any) -> str:
    parts = []
    for field in kind.fields:
        value = numbers
        for name in field.name.split("."):
            value = getattr(value, name)
        text = list(value) if isinstance(value, tuple) else value
        parts.append(f"{field.stablehlo} = {text}")
    return f"#{kind.mnemonic}<{', '.join(parts)}>"


def _numbers(kind: DimensionNumbers, attribute: Any) -> Any:
    found = _CLASSES[kind.mnemonic](attribute)
    values = {field.name: getattr(found, field.python) for field in kind.fields}
    return kind.bundle(
        **{name: one if isinstance(one, int) else tuple(one) for name, one in values.items()}
    )


def _ragged_numbers(attribute: Any) -> RaggedDotDimensionNumbers:
    """jaxlib has no class for the attribute; that of MHLO has the same text."""
    lists = {
        name: tuple(int(n) for n in values.split(",") if n.strip())
        for name, values in re.findall(r"(\w+) = \[([^\]]*)\]", str(attribute))
    }
    dot = {
        f"{side}_{kind}_dimensions": lists.get(f"{side}_{name}_dimensions", ())
        for side in ("lhs", "rhs")
        for kind, name in (("batch", "batching"), ("contracting", "contracting"))
    }
    return RaggedDotDimensionNumbers(
        DotDimensionNumbers(**dot),
        lists.get("lhs_ragged_dimensions", ()),
        lists.get("rhs_group_dimensions", ()),
    )


_CLASSES: Final[dict[str, Any]] = {
    "stablehlo.dot": stablehlo.DotDimensionNumbers,
    "stablehlo.gather": stablehlo.GatherDimensionNumbers,
    "stablehlo.scatter": stablehlo.ScatterDimensionNumbers,
}

_codec(
    DimensionNumbers,
    _numbers_text,
    lambda kind, a: _numbers(kind, a) if kind.mnemonic in _CLASSES else _ragged_numbers(a),
)


@lru_cache(maxsize=4096)
def _convolution_text(numbers: ConvolutionDimensionNumbers) -> str:
    labels = numbers.labels(len(numbers.input_spatial_dimensions) + 2)
    source, kernel, result = (f"[{', '.join(part)}]" for part in labels)
    return f"#stablehlo.conv<{source}x{kernel}->{result}>"


def _convolution_numbers(attribute: Any) -> ConvolutionDimensionNumbers:
    found = stablehlo.ConvDimensionNumbers(attribute)
    names = ConvolutionDimensionNumbers.__match_args__
    fields: dict[str, Any] = {name: getattr(found, name) for name in names}
    for name, value in fields.items():
        fields[name] = value if isinstance(value, int) else tuple(value)
    return ConvolutionDimensionNumbers(**fields)


_codec(
    ConvolutionDimensions,
    lambda _, numbers: _convolution_text(numbers),
    lambda _, a: _convolution_numbers(a),
)


# The type that operands are rounded to, the accumulation type, the number of components of an
# operand, the number of products, and whether the accumulation may be imprecise.
_ALGORITHMS: Final = {
    DotAlgorithm.DOT_ANY_F8_ANY_F8_F32: ("f8E5M2", "f32", 1, 1, False),
    DotAlgorithm.DOT_ANY_F8_ANY_F8_F32_FAST_ACCUM: ("f8E5M2", "f32", 1, 1, True),
    DotAlgorithm.DOT_F16_F16_F16: ("f16", "f16", 1, 1, False),
    DotAlgorithm.DOT_F16_F16_F32: ("f16", "f32", 1, 1, False),
    DotAlgorithm.DOT_BF16_BF16_BF16: ("bf16", "bf16", 1, 1, False),
    DotAlgorithm.DOT_BF16_BF16_F32: ("bf16", "f32", 1, 1, False),
    DotAlgorithm.DOT_BF16_BF16_F32_X3: ("bf16", "f32", 1, 3, False),
    DotAlgorithm.DOT_BF16_BF16_F32_X6: ("bf16", "f32", 1, 6, False),
    DotAlgorithm.DOT_BF16_BF16_F32_X9: ("bf16", "f32", 1, 9, False),
    DotAlgorithm.DOT_TF32_TF32_F32: ("tf32", "f32", 1, 1, False),
    DotAlgorithm.DOT_TF32_TF32_F32_X3: ("tf32", "f32", 1, 3, False),
    DotAlgorithm.DOT_F32_F32_F32: ("f32", "f32", 1, 1, False),
    DotAlgorithm.DOT_F64_F64_F64: ("f64", "f64", 1, 1, False),
}
_BY_FIELDS: Final = {fields: algorithm for algorithm, fields in _ALGORITHMS.items()}


_F8: Final = frozenset(element_type_text(t) for t in pt.ALL if t.is_floating and t.bits == 8)


def _algorithm(attribute: Any) -> DotAlgorithm:
    """Return the algorithm that ``#stablehlo.dot_algorithm<...>`` describes.

    Raises:
        XlaError: XLA has no such algorithm.
    """
    found = stablehlo.DotAlgorithm(attribute)
    # The table has the algorithms for any types of 8 bits under one of these types.
    types = [
        "f8E5M2" if str(one) in _F8 else str(one)
        for one in (found.lhs_precision_type, found.rhs_precision_type)
    ]
    components = found.lhs_component_count, found.rhs_component_count
    fields = (
        types[0],
        str(found.accumulation_type),
        components[0],
        found.num_primitive_operations,
        found.allow_imprecise_accumulation,
    )
    if types[0] != types[1] or components[0] != components[1] or fields not in _BY_FIELDS:
        raise XlaError(f"XLA has no algorithm like its {attribute}")
    return _BY_FIELDS[fields]


def _algorithm_text(algorithm: DotAlgorithm) -> str:
    operand, accumulation, components, products, imprecise = _ALGORITHMS[algorithm]
    return (
        f"#stablehlo.dot_algorithm<lhs_precision_type = {operand}, "
        f"rhs_precision_type = {operand}, accumulation_type = {accumulation}, "
        f"lhs_component_count = {components}, rhs_component_count = {components}, "
        f"num_primitive_operations = {products}, "
        f"allow_imprecise_accumulation = {str(imprecise).lower()}>"
    )


_codec(Algorithm, lambda _, one: _algorithm_text(one), lambda _, a: _algorithm(a))


def stablehlo_attributes(schema: Schema, attributes: Mapping[str, Any]) -> dict[str, Attribute]:
    """The attributes of the StableHLO operation of an op, as MLIR text.

    Args:
        schema: of the op's opcode.
        attributes: the op's.
    """
    found: dict[str, Attribute] = {}
    for one in schema.value_attributes:
        if one.stablehlo is None or (one.unless and attributes[one.unless] is not None):
            continue
        value = attributes[one.name] if one.written is None else one.written(attributes)
        if value is not None:
            codec = CODECS[type(one.kind)]
            found.update(codec.write(one.kind, one.stablehlo or one.name, value))
    return found


def reader_of(opcode: str, name: str) -> Callable[[ir.Attribute], Any]:
    """The reader of one attribute of an opcode: from the MLIR attribute to the value."""
    (kind,) = (one.kind for one in SCHEMAS[opcode].value_attributes if one.name == name)
    return partial(_VALUES[type(kind)], kind)


def _names(attribute: SchemaAttribute) -> tuple[str, ...]:
    """Return the names of the StableHLO attributes that hold an attribute of a schema."""
    if isinstance(attribute.kind, Padding):
        return attribute.kind.NAMES
    return (attribute.stablehlo or attribute.name,)


def attribute_names(schema: Schema) -> tuple[str, ...]:
    """Return the names of the StableHLO attributes that `read_attributes` looks up."""
    return tuple(
        name
        for attribute in schema.value_attributes
        if attribute.stablehlo is not None
        for name in _names(attribute)
    )


def read_attributes(schema: Schema, attributes: Attributes) -> dict[str, Any]:
    """Return the attributes of an op from those of a StableHLO operation.

    An attribute that the operation does not have gets the schema's value for that; it is left out
    if the schema has no such value.

    Raises:
        XlaError: an attribute has no counterpart in XLA.
    """
    values: dict[str, Any] = {}
    for attribute in schema.value_attributes:
        if attribute.stablehlo is None:
            continue
        name, *_ = _names(attribute)
        if name in attributes or isinstance(attribute.kind, Unit):
            read = CODECS[type(attribute.kind)].read
            values[attribute.name] = read(attribute.kind, name, attributes)
        elif attribute.absent is not MISSING:
            values[attribute.name] = attribute.absent
    return values
