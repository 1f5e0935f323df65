"""Importers derived from the schemas of opcodes.

To import an operation, a derived importer calls the public op with the schema's opcode. The op's
parameters that are named like the schema's operands take the operands; if none is, the first
parameters do. The schema names the parameters that take its attributes and computations. Operations
that do not match a public op in this way have a handwritten importer.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from jaxlib.mlir import ir

from builder.graph.computation import XlaComputation
from builder.graph.registry import OPERATIONS, OpInfo
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.schema import SCHEMAS, Attribute, Schema
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import Shape
from lowering.mlir.operations import attribute_text
from lowering.ops.importing import failure
from lowering.ops.registry import DECOMPOSITIONS, IMPORTERS, Importer
from lowering.stablehlo.schema_attributes import attribute_names, read_attributes

if TYPE_CHECKING:
    from lowering.importer.scope import Scope


def _parameter(attribute: Attribute) -> str:
    return attribute.parameter or attribute.name


def _singular(operand: str) -> str:
    return operand.removeprefix("*")


def _region(number: int, scope: Scope, _: ir.Operation) -> XlaComputation:
    return scope.computation(number)


def _function(name: str, scope: Scope, operation: ir.Operation) -> XlaComputation | None:
    """Return the computation of the function that the attribute `name` refers to.

    The attribute may be a list of one function. Return None if the attribute is absent or empty.
    """
    symbols = scope.attribute(operation, name, ())
    if isinstance(symbols, str):
        symbols = (symbols,)
    if len(symbols) > 1:
        raise failure(operation, "XLA's instruction calls one computation", got=len(symbols))
    return scope.functions[symbols[0]] if symbols else None


def _result_element_type(scope: Scope, operation: ir.Operation) -> PrimitiveType:
    return scope.result_shape(operation).element_type


def _last_shape(scope: Scope, operation: ir.Operation) -> Shape:
    return scope.result_shape(operation, len(operation.results) - 1)


_FROM_RESULT: Final[dict[str, Callable[[Scope, ir.Operation], Any]]] = {
    "new_element_type": _result_element_type,
    "preferred_element_type": _result_element_type,
    "shape": _last_shape,
}
"""For parameters of public ops, functions that compute the argument from an operation's results."""


class SchemaImporter:
    """Imports the operation of a schema by calling a public op.

    Args:
        schema: the schema of the operation.
        info: the public op.
        supplied: the parameters whose arguments the caller passes at each call.

    Attributes:
        info: the public op.
        parameters: the names of the public op's parameters that are not operands.

    Raises:
        TypeError: the parameters of the public op do not match the schema.
    """

    __slots__ = (
        "_attribute_names",
        "_computed",
        "_function",
        "_groups",
        "_is_grouped",
        "_is_method",
        "_keywords",
        "_read_attributes",
        "_schema",
        "_splits",
        "info",
        "parameters",
    )

    def __init__(self, schema: Schema, info: OpInfo, supplied: Iterable[str] = ()) -> None:
        self.info = info
        self._schema = schema
        self._function: Callable[..., XlaOp] = info.function
        self._is_method = info.is_method
        names = schema.operands.split()
        if info.is_method and names:
            raise TypeError(f"{info.name} is a method of XlaBuilder, which takes no operands")
        parameters = list(inspect.signature(info.function).parameters.values())[info.is_method :]
        for_operands = parameters[: len(names)]
        if len(for_operands) < len(names):
            raise TypeError(f"{info.name} has fewer parameters than the schema has operands")
        by_name = {p.name: p for p in parameters if p.kind is not p.VAR_POSITIONAL}
        named = [by_name[name] for name in map(_singular, names) if name in by_name]
        if named and len(named) < len(names):
            raise TypeError(f"{info.name} has no parameter for some operands of the schema")
        self._keywords: tuple[str, ...] = ()
        if named and named != for_operands:
            for_operands = named
            self._keywords = tuple(parameter.name for parameter in named)
        others = [parameter for parameter in parameters if parameter not in for_operands]
        self.parameters = frozenset(parameter.name for parameter in others)
        self._read_attributes = [a for a in schema.value_attributes if a.stablehlo is not None]
        self._attribute_names = attribute_names(schema)
        self._computed: list[tuple[str, Callable[[Scope, ir.Operation], Any]]] = [
            (
                _parameter(attribute),
                partial(_function, attribute.stablehlo)
                if attribute.stablehlo
                else partial(_region, number),
            )
            for number, attribute in enumerate(schema.computation_attributes)
        ]
        bound = {*map(_parameter, self._read_attributes), *dict(self._computed)}
        if not bound <= self.parameters:
            raise TypeError(
                f"{info.name} has no parameters {bound - self.parameters}, which the schema names"
            )
        bound.update(supplied)
        for parameter in others:
            if parameter.name in _FROM_RESULT and parameter.name not in bound:
                self._computed.append((parameter.name, _FROM_RESULT[parameter.name]))
            elif parameter.default is parameter.empty and parameter.name not in bound:
                raise TypeError(
                    f"{info.name} requires {parameter.name}, which is not in the schema"
                )
        self._groups = tuple(zip(names, for_operands, strict=True))
        self._splits: dict[int, list[int | slice]] = {}
        self._is_grouped = info.is_method or "*" in schema.operands

    def __call__(
        self, scope: Scope, operation: ir.Operation, operands: list[XlaOp], **arguments: Any
    ) -> XlaOp:
        """Record an operation.

        Args:
            scope: where the operation is recorded.
            operation: the operation.
            operands: the operands as ops.
            arguments: further arguments of the public op; attributes of the operation take
                precedence.
        """
        read = self.arguments(scope, operation)
        arguments = {**arguments, **read} if arguments else read
        return self._recorded(scope.builder, operands, arguments)

    def record(
        self,
        builder: XlaBuilder,
        operands: list[XlaOp],
        attributes: Mapping[str, Any],
        results: Mapping[str, Any],
    ) -> XlaOp:
        """Record an op by its attributes, in place of the attributes of a StableHLO operation.

        Args:
            builder: the builder of the operands.
            operands: the operands.
            attributes: the attributes of a recorded op with the schema's opcode.
            results: arguments that are not attributes of an op, such as `shape`; those that the
                public op does not take are ignored.
        """
        arguments = {name: value for name, value in results.items() if name in self.parameters}
        for attribute in (*self._schema.value_attributes, *self._schema.computation_attributes):
            name = _parameter(attribute)
            if attribute.name in attributes and name in self.parameters:
                value = attributes[attribute.name]
                convert = attribute.argument
                arguments[name] = value if convert is None else convert(value)
        return self._recorded(builder, operands, arguments)

    def _recorded(
        self, builder: XlaBuilder, operands: list[XlaOp], arguments: Mapping[str, Any]
    ) -> XlaOp:
        if self._is_grouped:
            operands = self._positional(builder, operands)
        if self._keywords:
            return self._function(**dict(zip(self._keywords, operands, strict=True)), **arguments)
        return self._function(*operands, **arguments)

    def arguments(self, scope: Scope, operation: ir.Operation) -> dict[str, Any]:
        """Return the arguments that are not operands. Do not modify the dict: it may be cached."""
        arguments: dict[str, Any] = {}
        if self._attribute_names:
            key = self, *map(operation.attributes.get, self._attribute_names)
            cached = scope.tables.arguments.get(key)
            if cached is None:
                _, *attributes = key
                cached = scope.tables.arguments[key] = self._read(attributes)
            arguments = cached
        if self._computed:
            computed = {name: compute(scope, operation) for name, compute in self._computed}
            arguments = {**arguments, **computed}
        return arguments

    def call(self, operands: list[XlaOp], attributes: dict[str, Any]) -> XlaOp:
        """Call the public op with these operands and decoded attributes."""
        return self._function(*operands, **attributes)

    def accepts(self, names: Iterable[str]) -> bool:
        """Return whether `call` accepts attributes with these names."""
        known = {attribute.name for attribute in self._schema.value_attributes}
        return {attribute.name for attribute in self._read_attributes} <= set(names) <= known

    def _read(self, attributes: Iterable[Any]) -> dict[str, Any]:
        """Decode attributes, in the order of `_attribute_names`, to arguments of the public op."""
        pairs = zip(self._attribute_names, attributes, strict=True)
        present = {name: attribute for name, attribute in pairs if attribute is not None}
        values = read_attributes(self._schema, present)
        arguments = {}
        for attribute in self._read_attributes:
            if attribute.name in values:
                value = values[attribute.name]
                if attribute.argument is not None:
                    value = attribute.argument(value)
                arguments[_parameter(attribute)] = value
        return arguments

    def _positional(self, builder: XlaBuilder, operands: list[XlaOp]) -> list[Any]:
        """Return the operands as positional arguments; those of a variadic group are one list."""
        split = self._splits.get(len(operands))
        if split is None:
            split = self._splits[len(operands)] = self._split(len(operands))
        arguments = [operands[part] for part in split]
        return [builder, *arguments] if self._is_method else arguments

    def _split(self, count: int) -> list[int | slice]:
        """Return which of `count` operands form each positional argument: an index or a slice.

        A variadic group has a slice; or an index, if the group has one operand and the parameter
        accepts an op.
        """
        variadic = sum(name.startswith("*") for name, _ in self._groups)
        size = (count - len(self._groups) + variadic) // max(variadic, 1)
        split: list[int | slice] = []
        start = 0
        for name, parameter in self._groups:
            is_variadic = name.startswith("*")
            stop = start + (size if is_variadic else 1)
            takes_op = not is_variadic or str(parameter.annotation).startswith("XlaOp")
            if parameter.kind is parameter.VAR_POSITIONAL:
                split += range(start, stop)
            elif takes_op and stop == start + 1:
                split.append(start)
            else:
                split.append(slice(start, stop))
            start = stop
        return split


_DERIVED: Final[dict[tuple[Schema, tuple[str, ...]], SchemaImporter]] = {}
"""The importers derived so far, by schema and supplied parameters."""


def schema_importer(opcode: str, *supplied: str) -> SchemaImporter:
    """Return an importer derived from the schema of an opcode.

    Args:
        opcode: the opcode.
        supplied: the parameters of the public op whose arguments the caller passes at each call.

    Raises:
        LookupError: no public op takes the operands and attributes of the schema.
    """
    schema = SCHEMAS[opcode]
    derived = _DERIVED.get((schema, supplied))
    # The public op may have been replaced.
    if derived is None or OPERATIONS.get(derived.info.name) is not derived.info:
        derived = _DERIVED[schema, supplied] = _derived(schema, supplied)
    return derived


def _derived(schema: Schema, supplied: tuple[str, ...]) -> SchemaImporter:
    for info in OPERATIONS.values():
        if info.opcode == schema.opcode:
            try:
                return SchemaImporter(schema, info, supplied)
            except TypeError:
                continue
    raise LookupError(f"no public op takes the operands and attributes of {schema.opcode}")


def derived_importer(name: str) -> SchemaImporter | None:
    """Return the importer derived from the schema of an operation; None if none can be derived."""
    for schema in SCHEMAS.values():
        if name == schema.stablehlo or name in schema.synonyms:
            break
    else:
        return None
    try:
        return schema_importer(schema.opcode)
    except LookupError:
        return None


def encoded_importer(operation: ir.Operation, name: str, attributes: str) -> SchemaImporter | None:
    """Return the importer of the CHLO operation that an operation encodes; see `Scope.chlo_op`."""
    importer = derived_importer(name)
    encoded: Any = operation.attributes.get(attributes)
    if encoded is None:
        encoded = ()
    elif not isinstance(encoded, ir.DictAttr):
        return None
    names = (encoded[number].name for number in range(len(encoded)))
    return importer if importer is not None and importer.accepts(names) else None


def is_chlo_op(operation: ir.Operation) -> bool:
    """Return whether an operation is a composite that encodes a CHLO operation with an op."""
    if operation.name != "stablehlo.composite":
        return False
    name = attribute_text(operation.attributes["name"]) or ""
    if not name.startswith(("chlo.", "mhlo.")):
        return False
    return encoded_importer(operation, name, "composite_attributes") is not None


def importer_of(name: str) -> Importer | None:
    """Return the importer for the operation `name`; None for an unsupported operation."""
    return IMPORTERS.get(name) or derived_importer(name) or DECOMPOSITIONS.get(name)
