"""The StableHLO form of each kind of attribute: how it is written and read.

`builder.schema.kinds` has the kinds, and their form in HLO text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any, Final, NamedTuple

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

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
from builder.attributes.composite import composite_attributes_text
from builder.errors import XlaError
from builder.graph.computation import XlaComputation
from builder.schema import MISSING, SCHEMAS, Schema
from builder.schema.kinds import (
    Accuracy,
    Algorithm,
    AttributeKind,
    Bytes,
    Channel,
    ConvolutionDimensions,
    Dictionary,
    Dimension,
    DimensionNumbers,
    Enumeration,
    Flag,
    Flags,
    Float32,
    Groups,
    Integer,
    Integers,
    NumberedEnumeration,
    OptionalComputation,
    OptionalFlag,
    Padding,
    Pairs,
    Precisions,
    Text,
    Unit,
    WindowPadding,
)
from builder.types import primitive_type as pt
from lowering.mlir.attribute_values import UNREADABLE, attribute_value
from lowering.mlir.attributes import UNIT, Attribute, array, boolean, i32, i64_array, quoted, symbol
from lowering.mlir.operations import attribute_bytes
from lowering.mlir.types import element_type_text

_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"')


def _dictionary_text(attribute: Any) -> str:
    """Return a dictionary attribute as text in the form that `builder` writes.

    If MLIR does not parse this text to an equal dictionary, return the text that MLIR prints.

    Raises:
        XlaError: the dictionary refers to a resource of the file instead of containing a value.
    """
    text = str(attribute)
    if "dense_resource<" in _STRING.sub("", text):
        raise XlaError(f"attributes must contain their values, not dense_resource, got {text}")
    try:
        written = composite_attributes_text(attribute_value(attribute))
    except (TypeError, KeyError, XlaError):  # Python has no such values
        return text
    return written if ir.Attribute.parse(written, attribute.context) == attribute else text


class Codec(NamedTuple):
    """The StableHLO form of a kind of attribute.

    Attributes:
        write: a function of the kind and a value that returns the attribute as MLIR text; None for
            a value that StableHLO omits.
        read: a function of the kind and the result of `value` that returns the op's attribute; None
            if the op's attribute is the result of `value`.
        value: a function of an MLIR attribute that returns its value in Python.
    """

    write: Callable[[Any, Any], Attribute | None]
    read: Callable[[Any, Any], Any] | None = None
    value: Callable[[Any], Any] = attribute_value


def _table(rows: tuple[tuple[int, ...], ...], width: int) -> str:
    """Return rows of numbers as a dense attribute; short rows are padded with -1."""
    width = max(map(len, rows), default=width)
    padded = [[*row, *[-1] * (width - len(row))] for row in rows]
    return f"dense<{padded if rows else ''}> : tensor<{len(rows)}x{width}xi64>"


def _pairs(table: Any) -> tuple[tuple[int, ...], ...]:
    if not isinstance(table, np.ndarray):
        raise XlaError(f"pairs must be a table of numbers, got {table}")
    return tuple(map(tuple, table.tolist()))


def _replica_groups(table: Any) -> ReplicaGroups:
    if not isinstance(table, np.ndarray):
        raise XlaError(f"replica_groups must be a table of numbers, got {table}")
    if not table.size:  # there may be more empty rows than a list can hold
        return ReplicaGroups()
    rows = (tuple(number for number in row if number != -1) for row in table.tolist())
    return ReplicaGroups(tuple(filter(None, rows)))


_CHANNEL_TYPES: Final = {int(channel_type): channel_type for channel_type in ChannelType}


def _channel(attribute: Any) -> ChannelHandle | None:
    """Return the channel; None if the handle is below 1, as StableHLO defines."""
    channel = stablehlo.ChannelHandle(attribute)
    channel_type = _CHANNEL_TYPES.get(channel.channel_type, ChannelType.DEVICE_TO_DEVICE)
    return ChannelHandle(channel.handle, channel_type) if channel.handle > 0 else None


def _stablehlo_name(kind: Enumeration, value: Any) -> str:
    return kind.name(value).removeprefix(kind.prefix).upper()


def _member(kind: Enumeration, name: str) -> Any:
    if kind.members is None:
        return f"{kind.prefix}{name.lower() if kind.prefix.islower() else name}"
    return kind.members[kind.prefix + name]


@lru_cache(maxsize=4096)
def _numbers_text(kind: DimensionNumbers, numbers: Any) -> str:
    values = [(field.stablehlo, attrgetter(field.name)(numbers)) for field in kind.fields]
    parts = [
        f"{name} = {list(value) if isinstance(value, tuple) else value}" for name, value in values
    ]
    return f"#{kind.mnemonic}<{', '.join(parts)}>"


_FIELD: Final = re.compile(r"(\w+) = (?:\[([^\]]*)\]|(\d+))")


def _numbers(kind: DimensionNumbers, attribute: Any) -> Any:
    """Parse dimension numbers from the text of an attribute, which omits empty lists and 0."""
    in_text = {
        name: int(number) if number else tuple(int(n) for n in numbers.split(",") if n.strip())
        for name, numbers, number in _FIELD.findall(str(attribute))
    }
    values: dict[str, Any] = {}
    inner: dict[str, dict[str, Any]] = {}
    for field in kind.fields:
        *outer, name = field.name.split(".")
        default = 0 if name == "index_vector_dim" else ()
        fields = inner.setdefault(outer[0], {}) if outer else values
        fields[name] = in_text.get(field.stablehlo, default)
    for name, fields in inner.items():
        values[name] = DotDimensionNumbers(**fields)
    return kind.bundle(**values)


@lru_cache(maxsize=4096)
def _convolution_text(numbers: ConvolutionDimensionNumbers) -> str:
    labels = numbers.labels(len(numbers.input_spatial_dimensions) + 2)
    source, kernel, result = (f"[{', '.join(part)}]" for part in labels)
    return f"#stablehlo.conv<{source}x{kernel}->{result}>"


def _convolution_numbers(attribute: Any) -> ConvolutionDimensionNumbers:
    numbers = stablehlo.ConvDimensionNumbers(attribute)
    names = ConvolutionDimensionNumbers.__match_args__
    values: dict[str, Any] = {name: getattr(numbers, name) for name in names}
    for name, value in values.items():
        values[name] = value if isinstance(value, int) else tuple(value)
    return ConvolutionDimensionNumbers(**values)


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
_BY_TEXT: Final = {text: algorithm for algorithm, text in _ALGORITHMS.items()}
_F8: Final = "|".join(element_type_text(t) for t in pt.ALL if t.is_floating and t.bits == 8)


def _algorithm(attribute: Any) -> DotAlgorithm:
    """Return the algorithm that ``#stablehlo.dot_algorithm<...>`` describes.

    Raises:
        XlaError: XLA has no such algorithm.
    """
    # The algorithms for any f8 types are in the table as those for f8E5M2.
    text = re.sub(rf"\b(?:{_F8})\b", "f8E5M2", str(attribute))
    if text not in _BY_TEXT:
        raise XlaError(f"XLA has no dot algorithm equal to {attribute}")
    return _BY_TEXT[text]


def _accuracy_text(accuracy: ResultAccuracy) -> str:
    # Hexadecimal digits of the doubles, because MLIR refuses texts such as 1e-05.
    atol, rtol = (f"0x{np.float64(t).view(np.uint64):016X}" for t in (accuracy.atol, accuracy.rtol))
    return (
        f"#stablehlo.result_accuracy<atol = {atol}, rtol = {rtol}, ulps = {accuracy.ulps}, "
        f"mode = #stablehlo.result_accuracy_mode<{accuracy.mode}>>"
    )


def _accuracy(attribute: ir.Attribute) -> ResultAccuracy | None:
    """Return the accuracy; None for the default.

    Raises:
        XlaError: the attribute has another type, or a tolerance is NaN.
    """
    # jaxlib has a class for StableHLO's attribute only; MHLO's has the same text.
    text = str(attribute).replace("#mhlo.", "#stablehlo.")
    try:
        read: Any = stablehlo.ResultAccuracyAttr(ir.Attribute.parse(text, attribute.context))
    except ValueError:
        raise XlaError(f"result_accuracy must be a result accuracy, got {text}") from None
    return ResultAccuracy.of(ResultAccuracy(read.atol, read.rtol, read.ulps, read.mode))


CODECS: Final[dict[type[AttributeKind], Codec]] = {
    Integer: Codec(lambda kind, n: f"{n} : i{kind.bits}"),
    Dimension: Codec(lambda _, n: f"{n} : i64"),
    Integers: Codec(lambda _, numbers: i64_array(numbers)),
    Flag: Codec(lambda _, flag: boolean(flag)),
    Flags: Codec(
        lambda _, flags: f"array<i1{': ' if flags else ''}{', '.join(map(str, flags)).lower()}>"
    ),
    OptionalFlag: Codec(lambda _, flag: boolean(True) if flag else None),
    Unit: Codec(lambda _, flag: UNIT if flag else None),
    Float32: Codec(lambda _, number: f"0x{np.float32(number).view(np.uint32):08X} : f32"),
    Enumeration: Codec(
        lambda kind, value: f"#stablehlo<{kind.mnemonic} {_stablehlo_name(kind, value)}>",
        _member,
    ),
    NumberedEnumeration: Codec(lambda _, member: i32(int(member))),
    Text: Codec(lambda _, text: quoted(text)),
    Bytes: Codec(lambda _, text: quoted(text, "surrogateescape"), value=attribute_bytes),
    Dictionary: Codec(lambda _, text: text, value=_dictionary_text),
    Precisions: Codec(
        lambda kind, pair: f"[{', '.join(f'#{kind.dialect}<precision {p.value}>' for p in pair)}]",
        lambda _, names: Precision.pair(names or None),
    ),
    Accuracy: Codec(lambda _, accuracy: _accuracy_text(accuracy), value=_accuracy),
    Algorithm: Codec(lambda _, algorithm: _ALGORITHMS[algorithm], lambda _, a: _algorithm(a)),
    DimensionNumbers: Codec(_numbers_text, _numbers),
    ConvolutionDimensions: Codec(
        lambda _, numbers: _convolution_text(numbers), lambda _, a: _convolution_numbers(a)
    ),
    **dict.fromkeys(
        (Pairs, WindowPadding),
        Codec(lambda _, pairs: _table(pairs, 2), lambda _, table: _pairs(table)),
    ),
    Groups: Codec(
        lambda _, groups: _table(groups.groups, 0), lambda _, table: _replica_groups(table)
    ),
    Channel: Codec(
        lambda _, c: f"#stablehlo.channel_handle<handle = {c.handle}, type = {int(c.type)}>",
        lambda _, a: _channel(a),
    ),
}
"""The codec of each kind of attribute in StableHLO. A `Padding` becomes three attributes; see
`stablehlo_attributes`."""


def stablehlo_attributes(schema: Schema, attributes: Mapping[str, Any]) -> dict[str, Attribute]:
    """Return the attributes of the StableHLO operation of an op, as MLIR text.

    Args:
        schema: the schema of the op's opcode.
        attributes: the attributes of the op.
    """
    written: dict[str, Attribute] = {}
    for attribute in schema.value_attributes:
        kind, name = attribute.kind, attribute.stablehlo
        if name is None or (attribute.unless and attributes[attribute.unless] is not None):
            continue
        value = attribute.value(attributes)
        if value is None:
            continue
        if isinstance(kind, Padding):
            for part in kind.NAMES:
                written[part] = i64_array(tuple(getattr(one, part) for one in value.dimensions))
            continue
        text = CODECS[type(kind)].write(kind, value)
        if text is not None:
            written[name or attribute.name] = text
    return written


def function_attributes(
    schema: Schema, attributes: Mapping[str, Any], functions: Mapping[XlaComputation, str]
) -> dict[str, Attribute]:
    """Return the attributes of a StableHLO operation that name functions, as MLIR text.

    Args:
        schema: the schema of the op's opcode.
        attributes: the attributes of the op.
        functions: the symbols of the functions, by computation.
    """
    written: dict[str, Attribute] = {}
    for attribute in schema.computation_attributes:
        if attribute.stablehlo and attribute.name in attributes:
            name = symbol(functions[attributes[attribute.name]])
            is_list = isinstance(attribute.kind, OptionalComputation)
            written[attribute.stablehlo] = array([name]) if is_list else name
    return written


def _read(kind: AttributeKind, attribute: ir.Attribute) -> Any:
    codec = CODECS[type(kind)]
    value = codec.value(attribute)
    return value if codec.read is None else codec.read(kind, value)


def reader_of(opcode: str, name: str) -> Callable[[ir.Attribute], Any]:
    """Return a function that reads an attribute of an opcode from an MLIR attribute."""
    attributes = SCHEMAS[opcode].value_attributes
    (kind,) = (attribute.kind for attribute in attributes if attribute.name == name)
    return partial(_read, kind)


def attribute_names(schema: Schema) -> tuple[str, ...]:
    """Return the names of the StableHLO attributes that `read_attributes` looks up."""
    names: list[str] = []
    for attribute in schema.value_attributes:
        if isinstance(attribute.kind, Padding):
            names += attribute.kind.NAMES
        elif attribute.stablehlo is not None:
            names.append(attribute.stablehlo or attribute.name)
    return tuple(names)


def read_attributes(
    schema: Schema, attributes: Mapping[str, ir.Attribute] | ir.OpAttributeMap
) -> dict[str, Any]:
    """Convert the attributes of a StableHLO operation to the attributes of an op.

    An attribute that the operation does not have gets the value `absent` of its schema, or is
    omitted if the schema has no such value.

    Raises:
        XlaError: an attribute has no counterpart in XLA, or can't be read.
    """
    values: dict[str, Any] = {}
    for attribute in schema.value_attributes:
        kind, name = attribute.kind, attribute.stablehlo
        if isinstance(kind, Padding):
            amounts = (attribute_value(attributes[part]) for part in kind.NAMES)
            dimensions = map(PaddingConfigDimension, *amounts)
            values[attribute.name] = PaddingConfig(tuple(dimensions))
        elif name is None:
            continue
        elif (name or attribute.name) in attributes:
            name = name or attribute.name
            try:
                values[attribute.name] = _read(kind, attributes[name])
            except TypeError:  # MLIR's Python has no class for an entry of a dictionary
                raise XlaError(f"{name} {UNREADABLE}") from None
        elif isinstance(kind, OptionalFlag):
            values[attribute.name] = False
        elif attribute.absent is not MISSING:
            values[attribute.name] = attribute.absent
    return values
