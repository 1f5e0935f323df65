"""The emitter: write the operations of a module, by their schemas and the rules of `lowering.ops`.

Modules have no tuples. Here a tuple value is a list of SSA values, functions take and return the
flat list of leaves, and `StablehloModule.program_shape` keeps the nesting.

The output is MLIR bytecode (see `lowering.mlir.bytecode`). In bytecode an SSA value is a number,
counted through the enclosing regions up to the function. The values inside a region are therefore
numbered after all values of the enclosing region, and the region is written after the enclosing
one. Until then an empty list among the pieces represents it. Nothing recurses, so regions may nest
arbitrarily deep.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain, count
from typing import Any, Final, NamedTuple

import numpy as np

from builder.graph.computation import XlaComputation
from builder.graph.xla_op import (
    NO_ATTRIBUTES,
    XlaOp,
    constant_value,
    is_parameter,
    resolve_position,
)
from builder.schema import SCHEMAS, Schema
from builder.sharding.text import as_per_value, join_leaf_texts, leaf_texts
from builder.support.frames import shown_file
from builder.types.constant import is_splat
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import ArrayShape, Shape, TupleShape, leaf_count, leaves
from lowering.errors import LoweringError
from lowering.host.callbacks import PythonFunction
from lowering.mlir.attributes import (
    ARGUMENT_NAME,
    Attribute,
    DenseElements,
    dense_elements,
    dictionary,
    encodable,
    quoted,
)
from lowering.mlir.bytecode import (
    HAS_ATTRIBUTES,
    HAS_OPERANDS,
    HAS_REGIONS,
    HAS_RESULTS,
    BytecodeWriter,
    Pieces,
    Reference,
    number_of,
    reference,
    references,
)
from lowering.mlir.types import flatten, type_text, unflatten
from lowering.ops.registry import (
    CHECKS,
    EXCEPTIONS,
    STABLEHLO_RULES,
    Region,
    RegionLike,
    StablehloRule,
    Value,
)
from lowering.sharding.texts import SHARDY, sharding_attribute
from lowering.stablehlo.schema_attributes import function_attributes, stablehlo_attributes

Attributes = Mapping[str, Attribute] | None
"""The attributes of an operation by name; None for no attributes."""

_FLAGS: Final = [bytes((flags,)) for flags in range(32)]


_Parts = list[Any]
"""The encoding of a region: bytes, and a list of the same kind for each inner region."""


class _PendingRegion(NamedTuple):
    """A region still to be written, and the list that receives its parts."""

    place: _Parts
    region: RegionLike
    first_value: int
    terminator: str
    locations: Sequence[Reference] | None


_EmittedRegion = tuple[_Parts, list[Any], list[int]]
"""The list that receives a region's parts, its pieces, and the positions of its inner regions."""

_SMALL_REGION: Final = 4096


def _join(region: _EmittedRegion) -> None:
    """Join the pieces of a region, whose inner regions are joined already.

    Small inner regions, such as reducers, become pieces. Larger ones remain parts, because regions
    may nest thousands deep, and each enclosing region would copy them again.
    """
    parts, pieces, positions = region
    begin = 0
    last, is_small = None, False
    for position in positions:
        inner = pieces[position]
        if inner is not last:  # programs apply one reducer many times
            last, is_small = inner, len(inner) == 1 and len(inner[0]) <= _SMALL_REGION
        if is_small:
            pieces[position] = inner[0]
        else:
            parts += b"".join(pieces[begin:position]), inner
            begin = position + 1
    parts.append(b"".join(pieces[begin:] if begin else pieces))


def _sharding_of_results(op: XlaOp, count: int) -> dict[str, str]:
    """Return the sharding of an operation whose results are the first `count` leaves of `op`."""
    texts = leaf_texts(op.sharding, leaf_count(op.shape))[:count]
    return sharding_attribute(as_per_value(texts[0]) if len(texts) == 1 else join_leaf_texts(texts))


class _Definition(NamedTuple):
    """The position and the encoded parts of an operation, for adding attributes later."""

    position: int
    name: str
    results: Sequence[Reference]
    attributes: Attributes
    flags: int


LargeConstant = tuple[Value, np.ndarray[Any, Any], ArrayShape]
"""A constant whose elements are set after parsing: its value, the elements, and their shape."""

LARGE_CONSTANTS: Final = "xlabuilder.large_constants"
"""The target of a custom call at the end of a function, which is removed after parsing. Its
operands are the large constants: MLIR finds an operand faster than an operation of a block."""

_LARGE_BYTES: Final = 4096


@lru_cache(maxsize=4096)
def _zeros(shape: ArrayShape) -> DenseElements:
    """Return a dense elements attribute that is a splat of zero."""
    return DenseElements(np.zeros((), shape.element_type.dtype), shape)


class _ConstantTemplate(NamedTuple):
    """The encoding shared by constants of one shape and source position, without metadata.

    Attributes:
        before, after: the bytes around the reference to the value.
        elements_head: the head of a dense elements attribute, and its total size; None if the
            elements are many, or there are none.
        unfilled: the encoding of the operation whose elements are set after parsing; empty unless
            the elements are many.
    """

    before: bytes
    after: bytes
    elements_head: tuple[bytes, Reference] | None
    unfilled: bytes


_Head = tuple[bytes, bytes, tuple[XlaComputation, ...]]
"""What the operations of ops with equal encodings share: the encoding up to the operands, the
encoded number of regions (empty for none), and the computations that are the regions."""


class Emitter:
    """Emits the operations of one module.

    Attributes:
        functions: the symbols of the functions, by called computation.
        large_constants: the large constants of each function, in order.
        python_functions: the called Python functions and their numbers, by `PythonFunction.key`.
        has_streams: whether the module has an infeed or outfeed.
        writer: the bytecode tables of the module.
    """

    def __init__(self, functions: dict[XlaComputation, str]) -> None:
        self.functions = functions
        self.python_functions: dict[Any, tuple[int, PythonFunction]] = {}
        self.has_streams = False
        self.large_constants: list[list[LargeConstant]] = []
        self.writer = writer = BytecodeWriter()
        # The region being written: its pieces, the number of its operations, the numbers of the
        # next values, the pending regions inside it, and their positions among the pieces. A
        # computation applied repeatedly has one list: its values start at the same number, so its
        # bytes are the same each time.
        self._pieces: list[Any] = []
        self._operation_count = 0
        self._numbers: Iterator[Reference] = references(0)
        self._places: defaultdict[RegionLike, _Parts] = defaultdict(list)
        self._positions: list[int] = []
        # The large constants of the function's own block. Constants in inner regions are written
        # with their elements, because the function's last operations can't refer to them.
        self._large: list[LargeConstant] | None = None
        # The op being lowered: its location; and, if it has annotations, the operations that its
        # rule has emitted, by result. The last operation is also the value of None.
        self._unknown_location: Final = writer.unknown_location()
        self._location = self._unknown_location
        self._definitions: dict[Value | None, _Definition] | None = None
        # Caches by identity. The computations are referenced so that ids stay valid.
        self._computations: list[XlaComputation] = []
        self._dictionaries: dict[int, Reference] = {}
        self._locations: dict[tuple[int, int], Reference] = {}
        self._heads: dict[Any, _Head] = {}
        self._region_ops: dict[Any, _Head] = {}
        self._constants: dict[Any, bytes] = {}
        self._constant_templates: dict[Any, _ConstantTemplate] = {}
        self._types: dict[Shape, tuple[Reference, ...]] = {}

    def types(self, shape: Shape) -> tuple[Reference, ...]:
        """Return the MLIR types of a value of this shape, with tuples flattened."""
        types = self._types.get(shape)
        if types is None:
            parts = leaves(shape) if isinstance(shape, TupleShape) else (shape,)
            types = tuple([self.writer.type(type_text(part)) for part in parts])
            self._types[shape] = types
        return types

    def value(
        self,
        name: str,
        shape: Shape,
        operands: Sequence[Value],
        attributes: Attributes = None,
        regions: Sequence[RegionLike] = (),
    ) -> Value:
        """Emit an operation and return its value, nested like `shape`."""
        results = self.create_typed(name, self.types(shape), operands, attributes, regions)
        return unflatten(shape, iter(results)) if isinstance(shape, TupleShape) else results[0]

    def create_typed(
        self,
        name: str,
        results: Sequence[Reference],
        operands: Sequence[Value],
        attributes: Attributes = None,
        regions: Sequence[RegionLike] = (),
    ) -> list[Value]:
        """Emit an operation with results of these types and return the results."""
        pieces = self._pieces
        flags = (HAS_OPERANDS if operands else 0) | (HAS_REGIONS if regions else 0)
        begin = len(pieces)
        entered = self.writer.dictionary(attributes) if attributes else b""
        pieces.append(self._head(name, results, entered, flags))
        if operands:
            pieces.append(reference(len(operands)))
            pieces += operands
        if regions:
            self._add_regions(regions)
        self._operation_count += 1
        values: list[Value] = [next(self._numbers) for _ in results]
        if self._definitions is not None:
            definition = _Definition(begin, name, results, attributes, flags)
            self._definitions.update((value, definition) for value in (*values, None))
        return values

    def _add_regions(self, regions: Sequence[RegionLike]) -> None:
        """Append a placeholder for each region of an operation."""
        pieces, places = self._pieces, self._places
        pieces.append(reference(len(regions) << 1))
        for region in regions:
            self._positions.append(len(pieces))
            pieces.append(places[region])

    def _head(
        self, name: str, results: Sequence[Reference], attributes: Reference, flags: int
    ) -> bytes:
        """Encode an operation up to its operands; `attributes` is empty for no attributes."""
        if attributes:
            flags |= HAS_ATTRIBUTES
        encoding = self._location + attributes
        if results:
            flags |= HAS_RESULTS
            encoding += reference(len(results)) + b"".join(results)
        return self.writer.operation_name(name) + _FLAGS[flags] + encoding

    def converted(self, value: Value, shape: Shape, to: PrimitiveType) -> Value:
        """Emit the conversion of an array value of shape `shape` to another element type."""
        assert isinstance(shape, ArrayShape)  # checked by inference
        return self.value("stablehlo.convert", shape.with_element_type(to), [value])

    def location(self, op: XlaOp) -> Reference:
        """Return the location of an op: the source position, and the op's name and type if any.

        As in XLA, the type is a name with a colon at its end, around the name.
        """
        position = self._source_position(op)
        metadata = op.metadata
        if metadata is None:
            return position
        named = self.writer.name_location
        if metadata.name is not None or metadata.op_type is not None:
            position = named(encodable(str(metadata.name or "")), position)
        if metadata.op_type is not None:
            position = named(f"{encodable(metadata.op_type)}:", position)
        return position

    def _source_position(self, op: XlaOp) -> Reference:
        metadata = op.metadata
        if metadata is not None and metadata.source is not None:
            file, line, column, _ = metadata.source
            return self.writer.file_location(encodable(file), line, column)
        code = op._code
        if code is None:
            return self._unknown_location
        # By identity: hashing a code object would hash its constants.
        key = (id(code), op._lasti)
        location = self._locations.get(key)
        if location is None:
            line, column = resolve_position(code, op._lasti)
            location = self.writer.file_location(
                encodable(shown_file(code.co_filename)), line, column
            )
            self._locations[key] = location
        return location

    def named_arguments(
        self, parameters: Sequence[XlaOp]
    ) -> tuple[list[Reference], list[Reference]]:
        """Return the attributes and the locations of arguments whose only attribute is a name."""
        names = [encodable(str(parameter.name)) for parameter in parameters]
        places = map(self._source_position, parameters)
        return self.writer.named_arguments(ARGUMENT_NAME, names, places)

    def emit_ops(self, computation: XlaComputation, arguments: Sequence[Value]) -> Value:
        """Emit the ops of a computation in the current region; return the value of the root."""
        self._computations.append(computation)
        pieces, numbers, positions = self._pieces, self._numbers, self._positions
        places = self._places
        heads, constants = self._heads.get, self._constants.get
        values: list[Value] = []  # by the numbers of the ops
        count = 0
        for op in computation.ops:
            operands = op.operands
            source = None
            if operands:
                source = operands[0].shape
            elif op.opcode == "constant" and op.metadata is None:
                attributes = op.attributes
                if type(attributes) is dict:  # an array, whose dict no other op has
                    values.append(self._array(op, attributes["value"]))
                else:
                    encoding = constants((id(attributes), id(op._code), op._lasti))
                    pieces.append(self._number(op) if encoding is None else encoding)
                    values.append(next(numbers))
                count += 1
                continue
            elif op.opcode == "parameter":
                values.append(arguments[op.attributes["number"]])
                continue
            # Most ops become one operation, and the ops recorded by one source position have the
            # same encoding up to the operands, which is looked up.
            code, attributes_id = id(op._code), id(op.attributes)
            key = (op.shape, attributes_id, code, op._lasti, op.opcode, source, len(operands))
            head = heads(key)
            if head is None or op.metadata is not None:
                self._operation_count += count
                count = 0
                operand_values = [values[operand.id] for operand in operands]
                values.append(self._emit_uncached(op, key, operand_values))
                continue
            encoding, region_count, computations = head
            pieces.append(encoding)
            if len(operands) == 2:  # faster than the loop
                lhs, rhs = operands
                pieces.append(values[lhs.id])
                pieces.append(values[rhs.id])
            else:
                for operand in operands:
                    pieces.append(values[operand.id])
            if computations:  # as `_add_regions` does it
                pieces.append(region_count)
                for region in computations:
                    positions.append(len(pieces))
                    pieces.append(places[region])
            values.append(next(numbers))
            count += 1
        self._operation_count += count
        return values[computation.root.id]

    def _emit_uncached(self, op: XlaOp, key: Any, operands: list[Value]) -> Value:
        """Emit an op whose encoded head is not cached, or that has more than head and operands."""
        opcode = op.opcode
        rule = STABLEHLO_RULES.get(opcode)
        if rule is not None and (opcode not in EXCEPTIONS or EXCEPTIONS[opcode](op)):
            return self._emit_by_rule(rule, op, operands)
        # Not a table made by an import: schemas may be defined later.
        schema = SCHEMAS.get(opcode)
        if schema is None:
            raise LoweringError("no lowering rule", got=repr(op), op=opcode)
        array = None if operands else constant_value(op)
        is_large = array is not None and array.nbytes >= _LARGE_BYTES and not is_splat(array)
        if is_large and self._large is not None:
            return self._emit_large_constant(op, self._large)
        if op.shape.is_tuple or schema.computations:
            return self._emit_region_op(op, schema, key, operands)
        if opcode in CHECKS:
            CHECKS[opcode](op)
        head = self._one_to_one_head(op, schema.stablehlo, HAS_OPERANDS if operands else 0)
        if operands:
            head += reference(len(operands))
        if op.metadata is None:
            self._heads[key] = head, b"", ()
        self._pieces.append(head)
        self._pieces += operands
        self._operation_count += 1
        return next(self._numbers)

    def _number(self, op: XlaOp) -> bytes:
        """Encode a constant without metadata, for an attribute mapping that ops share."""
        encoding = self._one_to_one_head(op, "stablehlo.constant", 0)
        self._constants[id(op.attributes), id(op._code), op._lasti] = encoding
        return encoding

    def _array(self, op: XlaOp, array: np.ndarray[Any, Any]) -> Value:
        """Emit a constant without metadata; the caller counts the operation.

        Programs may have thousands of constants that share only a shape, so these are encoded by a
        faster path than other ops.
        """
        shape: Any = op.shape  # an array, checked by inference
        key = shape, id(op._code), op._lasti
        template = self._constant_templates.get(key)
        if template is None:
            template = self._constant_templates[key] = self._constant_template(op, shape, array)
        before, after, elements_head, unfilled = template
        result = next(self._numbers)
        if 0 not in array.strides:  # not the repeated element of `np.broadcast_to`
            if unfilled and self._large is not None:
                # In bytecode the elements would be copied twice: here and by MLIR.
                self._large.append((result, array, shape))
                self._pieces.append(unfilled)
                return result
            if elements_head is not None:
                value = self.writer.value_of_elements(elements_head, array)
                self._pieces.append(before + value + after)
                return result
        value = self.writer.value(dense_elements(array, shape))
        self._pieces.append(before + value + after)
        return result

    def _constant_template(
        self, op: XlaOp, shape: ArrayShape, array: np.ndarray[Any, Any]
    ) -> _ConstantTemplate:
        """Return the encoding that all constants of this shape and source position share."""
        self._location = self.location(op)
        head = self._head("stablehlo.constant", (), b"", HAS_ATTRIBUTES | HAS_RESULTS)
        after = reference(1) + b"".join(self.types(shape))
        elements_head, unfilled = None, b""
        if 0 < array.nbytes < _LARGE_BYTES:
            elements_head = self.writer.elements_head(shape, array.nbytes)
        elif array.nbytes:
            unfilled = head + self.writer.value(_zeros(shape)) + after
        return _ConstantTemplate(head, after, elements_head, unfilled)

    def _emit_large_constant(self, op: XlaOp, large: list[LargeConstant]) -> Value:
        """Emit a constant with metadata whose elements are set after parsing."""
        shape, array = op.shape, op.attributes["value"]
        assert isinstance(shape, ArrayShape)  # checked by inference
        self._location = self.location(op)
        attributes: Attributes = {"value": _zeros(shape), **self.annotations(op)}
        (result,) = self.create_typed("stablehlo.constant", self.types(shape), (), attributes)
        large.append((result, array, shape))
        return result

    def _one_to_one_head(self, op: XlaOp, name: str, flags: int) -> bytes:
        """Encode the operation that the schema names for an op, up to the operands."""
        self._location = self.location(op)
        annotations = self.annotations(op)
        if annotations:
            if op.sharding is not None and op.shape.is_tuple:
                annotations |= _sharding_of_results(op, leaf_count(op.shape))
            entered = self.writer.dictionary({**self.attributes_of(op), **annotations})
        else:
            entered = b"" if op.attributes is NO_ATTRIBUTES else self._dictionary_of(op)
        return self._head(name, self.types(op.shape), entered, flags)

    def _emit_region_op(self, op: XlaOp, schema: Schema, key: Any, operands: list[Value]) -> Value:
        """Emit the operation that `schema` names, for an op with regions or several results."""
        opcode, shape = op.opcode, op.shape
        region_op = self._region_ops.get(key)
        if region_op is None or op.metadata is not None:
            if opcode in CHECKS:
                CHECKS[opcode](op)
            names = schema.computations
            flags = HAS_OPERANDS | (HAS_REGIONS if names else 0)
            head = self._one_to_one_head(op, schema.stablehlo, flags)
            computations = tuple([op.attributes[name] for name in names])
            region_op = head, reference(len(names) << 1), computations
            if op.metadata is None:
                if names and shape.is_array and all(o.shape.is_array for o in op.operands):
                    # Ops with the same key have array operands too.
                    complete_head = head + reference(len(operands))
                    self._heads[key] = complete_head, *region_op[1:]
                else:
                    self._region_ops[key] = region_op
        pieces = self._pieces
        encoding, _, applied = region_op
        pieces.append(encoding)
        if list in map(type, operands):  # tuples
            operands = flatten(operands)
        pieces.append(reference(len(operands)))
        pieces += operands
        if applied:
            self._add_regions(applied)
        self._operation_count += 1
        return next(self._numbers) if shape.is_array else unflatten(shape, self._numbers)

    def _dictionary_of(self, op: XlaOp) -> Reference:
        """Return the encoded attributes of an op; cached, because ops share attribute mappings."""
        entered = self._dictionaries.get(id(op.attributes))
        if entered is None:
            attributes = self.attributes_of(op)
            entered = self.writer.dictionary(attributes) if attributes else b""
            self._dictionaries[id(op.attributes)] = entered
        return entered

    def _emit_by_rule(self, rule: StablehloRule, op: XlaOp, operands: list[Value]) -> Value:
        self._location = self.location(op)
        annotations = self.annotations(op)
        if not annotations:
            return rule(self, op, operands)
        self._definitions = {}
        result = rule(self, op, operands)
        # Annotate the operation that defines the value, or the first leaf of a tuple. A custom call
        # without results defines none.
        definitions = map(self._definitions.get, (*flatten([result]), None))
        definition = next(filter(None, definitions), None)
        if definition is not None:
            position, name, results, attributes, flags = definition
            if op.sharding is not None and isinstance(op.shape, TupleShape):
                annotations |= _sharding_of_results(op, len(results))
            if name == "sdy.sharding_constraint":  # has the sharding as its own attribute
                annotations.pop(SHARDY, None)
            entered = self.writer.dictionary({**(attributes or {}), **annotations})
            self._pieces[position] = self._head(name, results, entered, flags)
        self._definitions = None
        return result

    def attributes_of(self, op: XlaOp) -> Mapping[str, Attribute]:
        """Return the attributes of the StableHLO operation for an op."""
        array = constant_value(op)
        if array is not None:
            assert isinstance(op.shape, ArrayShape)  # checked by inference
            return {"value": dense_elements(array, op.shape)}
        return self.attributes(op.opcode, op.attributes)

    def attributes(self, opcode: str, attributes: Mapping[str, Any]) -> dict[str, Attribute]:
        """Return an op's attributes as MLIR text, by the names that StableHLO gives them."""
        return stablehlo_attributes(SCHEMAS[opcode], attributes)

    def call_attributes(self, op: XlaOp) -> dict[str, Attribute]:
        """Return the attributes of the operation for an op that calls functions by symbol."""
        functions = function_attributes(SCHEMAS[op.opcode], op.attributes, self.functions)
        return {**self.attributes_of(op), **functions}

    def annotations(self, op: XlaOp) -> dict[str, str]:
        """Return an op's frontend attributes, sharding and other metadata as MLIR attributes.

        The sharding of a parameter is omitted: it is written to the function's arguments.
        """
        attributes: dict[str, str] = {}
        metadata = op.metadata
        if metadata is None:
            return attributes
        if metadata.frontend_attributes:
            values = {name: quoted(value) for name, value in metadata.frontend_attributes.items()}
            attributes["mhlo.frontend_attributes"] = dictionary(values)
        if metadata.sharding is not None and not is_parameter(op):
            attributes.update(sharding_attribute(as_per_value(metadata.sharding)))
        if metadata.others is not None:
            attributes.update(metadata.others)
        return attributes

    def function(
        self,
        attributes: Mapping[str, Attribute],
        computation: XlaComputation,
        locations: Sequence[Reference],
    ) -> Pieces:
        """Emit a computation as a function.

        Args:
            attributes: the attributes of the operation.
            computation: the body.
            locations: the locations of the arguments, tuples flattened.
        """
        self._location = self._unknown_location
        head = self._head("func.func", (), self.writer.dictionary(attributes), HAS_REGIONS)
        body: _Parts = []
        self._large = []
        self.large_constants.append(self._large)
        pending = [_PendingRegion(body, computation, 0, "func.return", locations)]
        emitted: list[_EmittedRegion] = []
        while pending:
            pending += self._emit_region(pending.pop(), emitted)
            self._large = None
        # Inner regions come after the enclosing ones.
        for region in reversed(emitted):
            _join(region)
        return [head, _ISOLATED_REGION, *flatten(body)]

    def _emit_region(
        self, pending: _PendingRegion, emitted: list[_EmittedRegion]
    ) -> Iterator[_PendingRegion]:
        """Emit a region, and add it to `emitted`; return the regions inside it, the last first."""
        parts, region, first, terminator, locations = pending
        is_long = terminator == "func.return"
        if isinstance(region, XlaComputation):
            # Above 1 << 14 references are not cached, and 20 values pay for the iterator.
            is_long |= first >= 1 << 14 and len(region.ops) > 20
            parameters = region.program_shape.parameters
            region = Region(parameters, partial(self.emit_ops, region), region)
        shapes, body, computation = region
        annotations = None if computation is None else computation.annotations
        types = list(chain.from_iterable(map(self.types, shapes)))
        self._pieces = pieces = [b""]
        self._operation_count = 0
        # `references` is faster for many values, and the other iterator is faster to create.
        self._numbers = numbers = references(first) if is_long else map(reference, count(first))
        self._places = places = defaultdict[RegionLike, _Parts](list)
        self._positions = positions = list[int]()
        self._location = self._unknown_location
        arguments = [
            next(numbers) if shape.is_array else unflatten(shape, numbers) for shape in shapes
        ]
        results = body(arguments)
        self._location = self._unknown_location
        if self._large:
            large = [value for value, _, _ in self._large]
            self.writer.constant_bytes += sum([array.nbytes for _, array, _ in self._large])
            target = {"call_target_name": quoted(LARGE_CONSTANTS)}
            self.create_typed("stablehlo.custom_call", (), large, target)
        attributes = None if annotations is None else annotations.terminator
        self.create_typed(terminator, (), flatten([results]), attributes)
        next_value = number_of(next(numbers))
        # One block: the number of its values, then the number of its operations.
        head = reference(1) + reference(next_value - first)
        head += reference(self._operation_count << 1 | bool(types))
        if types:
            head += reference(len(types))
            locations = locations or [self._unknown_location] * len(types)
            head += b"".join([t + at for t, at in zip(types, locations, strict=True)])
        pieces[0] = head
        emitted.append((parts, pieces, positions))
        return (
            _PendingRegion(place, inner, next_value, "stablehlo.return", None)
            for inner, place in reversed(places.items())
        )

    def module(
        self,
        name: str,
        functions: Sequence[Pieces],
        attributes: Mapping[str, str],
        meshes: Mapping[str, Mapping[str, str]],
    ) -> bytes:
        """Encode the module of these functions in bytecode.

        Args:
            name: the name of the module.
            functions: the results of `function`.
            attributes: the other attributes of the module, as MLIR text.
            meshes: the attributes, as MLIR text, of the device meshes that shardings refer to, by
                name.
        """
        self._location = self._unknown_location
        dictionary_of = self.writer.dictionary
        module_attributes = dictionary_of({"sym_name": quoted(name), **attributes})
        head = self._head("builtin.module", (), module_attributes, HAS_REGIONS)
        mesh_operations = [
            self._head("sdy.mesh", (), dictionary_of({"sym_name": quoted(n), **mesh}), 0)
            for n, mesh in meshes.items()
        ]
        count = reference((len(mesh_operations) + len(functions)) << 1)
        # One block without values of its own.
        region = [_ISOLATED_REGION, reference(1), reference(0), count]
        operations = chain(mesh_operations, chain.from_iterable(functions))
        return self.writer.module([head, *region, *operations])


_ISOLATED_REGION: Final = reference(1 << 1 | 1)
"""The encoded region count of an operation: one region, isolated from values outside."""
