"""The emitter: walks computations and writes the operations of a module, by the rules of each
family.

Tuples do not exist in the module: a tuple value is a list of SSA values here, a function takes and
gives the flat list of leaves, and `StablehloModule.program_shape` keeps the nesting.

What is written is MLIR bytecode (see `bytecode`). An SSA value is there a number, counted through
the regions that enclose it, of which the outermost is a function's. So the values inside a region
are numbered after all those of the region around it, and it is written when that one is at its end:
a region is an empty bytearray among the pieces until then. Nothing recurses, however deep regions
are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain, count
from typing import Any, Final, NamedTuple

import numpy as np

from builder.graph.computation import XlaComputation
from builder.graph.xla_op import NO_ATTRIBUTES, XlaOp, resolve_position
from builder.schema import SCHEMAS
from builder.sharding.text import as_per_value, join_leaf_texts, leaf_texts
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
    SMALL_BYTES,
    BytecodeWriter,
    Pieces,
    Reference,
    number_of,
    reference,
    references,
)
from lowering.mlir.flattening import flatten, unflatten
from lowering.mlir.types import type_text
from lowering.sharding.attributes import SHARDY, sharding_attribute
from lowering.stablehlo.rules.registry import (
    CHECKS,
    EXCEPTIONS,
    ONE_TO_ONE,
    RULES,
    Region,
    RegionLike,
    Value,
    attributes_of,
)

__all__ = ["Emitter"]

Attributes = Mapping[str, Attribute] | None
"""The attributes of an operation by name."""

_FLAGS: Final = [bytes((flags,)) for flags in range(32)]


class _Hole(NamedTuple):
    """A region that is not written yet, and the place that it is to fill."""

    place: bytearray
    region: RegionLike
    first_value: int
    terminator: str
    locations: Sequence[Reference] | None


def _sharding_of_results(op: XlaOp, count: int) -> dict[str, str]:
    """The sharding of a tuple, as the operation says it that gives its first arrays."""
    texts = leaf_texts(op.sharding, leaf_count(op.shape))[:count]
    return sharding_attribute(as_per_value(texts[0]) if len(texts) == 1 else join_leaf_texts(texts))


class _Definition(NamedTuple):
    """How an operation begins, for attributes that are added when it has been written."""

    position: int
    name: str
    results: Sequence[Reference]
    attributes: Attributes
    flags: int


LargeConstant = tuple[int, np.ndarray[Any, Any], ArrayShape]
"""A constant that MLIR has still to be given the elements of: the number of the operation in its
function's block, the elements, and their shape."""

_LARGE_BYTES: Final = 4096


@lru_cache(maxsize=4096)
def _zeros(shape: ArrayShape) -> DenseElements:
    """An array of one element throughout, whose bits are 0."""
    return DenseElements(np.zeros((), shape.element_type.dtype), shape)


_LARGE_REGION: Final = 1 << 16

_Parts = list[Any]
"""Bytes, and other such lists, which may be nested deep."""


def _joined_around(pieces: Pieces, apart: Mapping[int, _Parts]) -> _Parts:
    """The pieces, joined between the places whose content is kept apart, by identity."""
    parts: _Parts = []
    begin = 0
    for position, piece in enumerate(pieces):
        found = apart.get(id(piece))
        if found is not None:
            parts += b"".join(pieces[begin:position]), found
            begin = position + 1
    parts.append(b"".join(pieces[begin:]))
    return parts


def _unnested(parts: _Parts) -> Iterator[bytes]:
    waiting = [iter(parts)]
    while waiting:
        for part in waiting[-1]:
            if type(part) is list:
                waiting.append(iter(part))
                break
            yield part
        else:
            waiting.pop()


class _ConstantsAlike(NamedTuple):
    """Constants of one shape that one line records, without metadata: what they have in common.

    Attributes:
        before, after: what stands around the value of each.
        before_elements: what stands before their elements where these are said here.
        unfilled: the whole operation, where MLIR is given the elements later.
    """

    before: bytes
    after: bytes
    before_elements: tuple[bytes, Reference]
    unfilled: bytes


class _Applying(NamedTuple):
    """An operation that applies computations: how it begins, and what it applies."""

    head: bytes
    computations: tuple[XlaComputation, ...]


class Emitter:
    """Emits the operations of one module.

    Attributes:
        functions: symbol names of the functions made for called computations.
        large_constants: of each function, in order, the constants that are large.
        python_functions: the Python functions that are called, with their numbers, by `key`.
        has_streams: whether there is an infeed or outfeed.
        writer: the tables of the module.
    """

    __slots__ = (
        "_applying",
        "_begins",
        "_constants",
        "_constants_alike",
        "_definitions",
        "_kept",
        "_large",
        "_location",
        "_locations",
        "_numbers",
        "_operation_count",
        "_pieces",
        "_places",
        "_translated",
        "_types",
        "_unknown_location",
        "functions",
        "has_streams",
        "large_constants",
        "python_functions",
        "writer",
    )

    def __init__(self, functions: dict[XlaComputation, str]) -> None:
        self.functions = functions
        self.python_functions: dict[Any, tuple[int, PythonFunction]] = {}
        self.has_streams = False
        self.large_constants: list[list[LargeConstant]] = []
        self.writer = writer = BytecodeWriter()
        # Of the region being written: its pieces, the number of its operations, the numbers of
        # the values to come, and the regions inside it, which are still to be written. (A
        # computation applied again and again is the same bytes each time, as its values are
        # numbered from the same number on: all its places are one.)
        self._pieces: Pieces = []
        self._operation_count = 0
        self._numbers: Iterator[Reference] = references(0)
        self._places: dict[RegionLike, bytearray] = {}
        # Of a function's own block: its large constants. (Those of regions inside are not found
        # again so easily, and are written with the others.)
        self._large: list[LargeConstant] | None = None
        # Of the op being lowered: its location; and, if it has annotations, the operations that
        # its rule has emitted, by the values that they define.
        self._unknown_location: Final = writer.unknown_location()
        self._location = self._unknown_location
        self._definitions: dict[Value, _Definition] | None = None
        # By identity, for as long as the computations, which are kept, hold on to the ids.
        self._kept: list[XlaComputation] = []
        self._translated: dict[int, Reference] = {}
        self._locations: dict[tuple[int, int], Reference] = {}
        self._begins: dict[Any, bytes | _Applying] = {}
        self._applying: dict[Any, _Applying] = {}
        self._constants: dict[Any, bytes] = {}
        self._constants_alike: dict[Any, _ConstantsAlike] = {}
        self._types: dict[Shape, tuple[Reference, ...]] = {}

    def types(self, shape: Shape) -> tuple[Reference, ...]:
        """The MLIR types of a value of this shape, tuples flattened."""
        found = self._types.get(shape)
        if found is None:
            texts = map(type_text, leaves(shape))
            found = self._types[shape] = tuple([self.writer.type(text) for text in texts])
        return found

    def create(
        self,
        name: str,
        shape: Shape,
        operands: Sequence[Value],
        attributes: Attributes = None,
        regions: Sequence[RegionLike] = (),
    ) -> list[Value]:
        """Emits an operation whose results make up a value of `shape`; gives them one by one."""
        return self.create_typed(name, self.types(shape), operands, attributes, regions)

    def value(
        self,
        name: str,
        shape: Shape,
        operands: Sequence[Value],
        attributes: Attributes = None,
        regions: Sequence[RegionLike] = (),
    ) -> Value:
        """Emits an operation and gives its value, nested as `shape` is."""
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
        """Emits an operation with results of these types."""
        pieces = self._pieces
        flags = (HAS_OPERANDS if operands else 0) | (HAS_REGIONS if regions else 0)
        begin = len(pieces)
        pieces.append(self._head(name, results, self._entered(attributes), flags))
        if operands:
            pieces.append(reference(len(operands)))
            pieces += operands
        if regions:
            pieces.append(reference(len(regions) << 1))
            pieces += map(self._place_of, regions)
        self._operation_count += 1
        values: list[Value] = [next(self._numbers) for _ in results]
        if self._definitions is not None:
            definition = _Definition(begin, name, results, attributes, flags)
            self._definitions.update((value, definition) for value in values)
        return values

    def _place_of(self, region: RegionLike) -> bytearray:
        """The place of a region inside the one being written."""
        found = self._places.get(region)
        if found is None:
            found = self._places[region] = bytearray()
        return found

    def _entered(self, attributes: Attributes) -> Reference:
        """The reference to an operation's attributes; empty if there are none."""
        return self.writer.dictionary(attributes) if attributes else b""

    def _head(self, name: str, results: Sequence[Reference], said: bytes, flags: int) -> bytes:
        """An operation up to its operands; `said` is the reference to its attributes, if any."""
        if said:
            flags |= HAS_ATTRIBUTES
        if results:
            flags |= HAS_RESULTS
            said += reference(len(results)) + b"".join(results)
        return self.writer.operation_name(name) + _FLAGS[flags] + self._location + said

    def converted(self, value: Value, shape: Shape, to: PrimitiveType) -> Value:
        """Emits the conversion of a value of array shape `shape` to another element type."""
        assert isinstance(shape, ArrayShape)  # inference has said so
        return self.value("stablehlo.convert", shape.with_element_type(to), [value])

    def location(self, op: XlaOp) -> Reference:
        """Where the op was recorded, and its name if it has one."""
        place = self._line(op)
        if op.name is None:
            return place
        return self.writer.name_location(encodable(str(op.name)), place)

    def _line(self, op: XlaOp) -> Reference:
        """Where the op was recorded."""
        code = op.code
        if code is None:
            return self._unknown_location
        # By identity: hashing a code object would hash its constants.
        key = (id(code), op.lasti)
        found = self._locations.get(key)
        if found is None:
            line, column = resolve_position(code, op.lasti)
            found = self.writer.file_location(encodable(code.co_filename), line, column)
            self._locations[key] = found
        return found

    def named_argument(self, parameter: XlaOp) -> tuple[Reference, Reference]:
        """The attributes and the location of an argument that has nothing but a name.

        Networks have a thousand of them: 3 us each, and 9 us by way of a mapping.
        """
        writer = self.writer
        name = writer.text(encodable(str(parameter.name)))
        return writer.only(ARGUMENT_NAME, name), writer.located(name, self._line(parameter))

    def emit_ops(self, computation: XlaComputation, arguments: Sequence[Value]) -> Value:
        """Emits the ops of a computation here; gives the value of its root."""
        self._kept.append(computation)
        pieces, numbers, places = self._pieces, self._numbers, self._places.get
        begins, constants = self._begins.get, self._constants.get
        append = pieces.append
        values: list[Value] = []  # by the numbers of the ops
        count = 0
        for op in computation.ops:
            operands = op.operands
            source = None
            if operands:
                source = operands[0].shape
            elif op.opcode == "constant" and op.metadata is None:
                said = op.attributes
                # Numbers share theirs where they are equal; arrays have their own, in a dict.
                whole = None if type(said) is dict else constants((id(said), id(op.code), op.lasti))
                if whole is None:
                    self._operation_count += count
                    count = 0
                    whole = self._constant(op)
                append(whole)
                values.append(next(numbers))
                count += 1
                continue
            elif op.opcode == "parameter":
                values.append(arguments[op.attributes["number"]])
                continue
            # Nine ops out of ten are one operation each, and those that a line of a program
            # records begin alike, up to the operands: that is put together once. So an op takes
            # 1.1 us here, and not 2.5 us as where it begins like no other.
            code, attributes = id(op.code), id(op.attributes)
            key = (op.shape, attributes, code, op.lasti, op.opcode, source, len(operands))
            begun = begins(key)
            if begun is None or op.metadata is not None:
                self._operation_count += count
                count = 0
                given = [values[operand.id] for operand in operands]
                values.append(self._emit_anew(op, key, given))
                continue
            if isinstance(begun, bytes):
                append(begun)
                for operand in operands:
                    append(values[operand.id])
            else:
                # For the many reductions of a program; saves 3 us of 5.
                begin, computations = begun
                append(begin)
                for operand in operands:
                    append(values[operand.id])
                append(reference(len(computations) << 1))
                for one in computations:
                    place = places(one)
                    append(self._place_of(one) if place is None else place)
            values.append(next(numbers))
            count += 1
        self._operation_count += count
        return values[computation.root.id]

    def _emit_anew(self, op: XlaOp, key: Any, operands: list[Value]) -> Value:
        """Emits an op that is the first of its kind, or takes more than a head and operands."""
        opcode = op.opcode
        name = ONE_TO_ONE.get(opcode)
        if name is None or (opcode in EXCEPTIONS and EXCEPTIONS[opcode](op)):
            return self._emit_by_rule(op, operands)
        if opcode == "constant":
            array = op.attributes["value"]
            is_large = array.nbytes >= _LARGE_BYTES and not is_splat(array)
            if self._large is not None and is_large:
                return self._emit_large_constant(op, self._large)
        if op.shape.is_tuple or SCHEMAS[opcode].computations:
            return self._emit_applying(op, key, operands)
        if opcode in CHECKS:
            CHECKS[opcode](op)
        head = self._begun(op, name, HAS_OPERANDS if operands else 0)
        if operands:
            head += reference(len(operands))
        if op.metadata is None:
            self._begins[key] = head
        self._pieces.append(head)
        self._pieces += operands
        self._operation_count += 1
        return next(self._numbers)

    def _constant(self, op: XlaOp) -> bytes:
        """The whole of a constant without metadata.

        There may be thousands that have nothing in common but their shapes: each takes 1.5 to 2.5
        us, and would take 12 us as another op that is the first of its kind.
        """
        shape: Any = op.shape  # of an array: inference has said so
        attributes = op.attributes
        of_kind = shape, id(op.code), op.lasti
        alike = self._constants_alike.get(of_kind)
        if alike is None:
            alike = self._constants_alike[of_kind] = self._alike(op, shape)
        array = attributes["value"]
        size = array.nbytes
        repeats = 0 in array.strides and is_splat(array)
        if size >= _LARGE_BYTES and self._large is not None and not repeats:
            # In bytecode the elements would be copied once more, which takes as long as MLIR's
            # own copy.
            self._large.append((self._operation_count, array, shape))
            self.writer.constant_bytes += size
            return alike.unfilled
        is_shared = type(attributes) is not dict
        said = self._translated.get(id(attributes)) if is_shared else None
        if said is None:
            if 0 < size < SMALL_BYTES and not repeats:
                said = self.writer.value_of_elements(alike.before_elements, array)
            else:
                said = self.writer.value(dense_elements(array, shape))
        whole = alike.before + said + alike.after
        if is_shared:
            self._translated[id(attributes)] = said
            self._constants[id(attributes), id(op.code), op.lasti] = whole
        return whole

    def _alike(self, op: XlaOp, shape: ArrayShape) -> _ConstantsAlike:
        """What constants have in common with this one if they are of its shape and its line."""
        size = op.attributes["value"].nbytes
        self._location = self.location(op)
        head = self._head("stablehlo.constant", (), b"", HAS_ATTRIBUTES | HAS_RESULTS)
        after = reference(1) + b"".join(self.types(shape))
        unfilled = b""
        if size >= _LARGE_BYTES:
            unfilled = head + self.writer.value(_zeros(shape)) + after
        return _ConstantsAlike(
            before=head,
            after=after,
            before_elements=self.writer.before_elements(shape, size),
            unfilled=unfilled,
        )

    def _emit_large_constant(self, op: XlaOp, large: list[LargeConstant]) -> Value:
        """Emits a constant with metadata whose elements MLIR is given when it has read the module."""
        shape, array = op.shape, op.attributes["value"]
        assert isinstance(shape, ArrayShape)  # inference has said so
        large.append((self._operation_count, array, shape))
        self.writer.constant_bytes += array.nbytes
        self._location = self.location(op)
        said = self.writer.dictionary({"value": _zeros(shape), **self.annotations(op)})
        self._pieces.append(self._head("stablehlo.constant", self.types(shape), said, 0))
        self._operation_count += 1
        return next(self._numbers)

    def _begun(self, op: XlaOp, name: str, flags: int) -> bytes:
        """The operation that an op becomes as it stands in the tables, up to its operands."""
        self._location = self.location(op)
        annotations = self.annotations(op)
        if annotations:
            if op.sharding is not None and op.shape.is_tuple:
                annotations |= _sharding_of_results(op, leaf_count(op.shape))
            said = self._entered({**attributes_of(op), **annotations})
        else:
            said = b"" if op.attributes is NO_ATTRIBUTES else self._translated_once(op)
        return self._head(name, self.types(op.shape), said, flags)

    def _emit_applying(self, op: XlaOp, key: Any, operands: list[Value]) -> Value:
        """Emits the operation of `ONE_TO_ONE` for an op with regions, or with several results."""
        opcode, shape = op.opcode, op.shape
        begun = self._applying.get(key)
        if begun is None or op.metadata is not None:
            if opcode in CHECKS:
                CHECKS[opcode](op)
            names = SCHEMAS[opcode].computations
            flags = HAS_OPERANDS | (HAS_REGIONS if names else 0)
            head = self._begun(op, ONE_TO_ONE[opcode], flags)
            begun = _Applying(head, tuple([op.attributes[name] for name in names]))
            if op.metadata is None:
                if (
                    names
                    and shape.is_array
                    and False not in [o.shape.is_array for o in op.operands]
                ):
                    # Of ops that are alike all operands are arrays if those of one are.
                    whole = _Applying(head + reference(len(operands)), begun.computations)
                    self._begins[key] = whole
                else:
                    self._applying[key] = begun
        pieces = self._pieces
        pieces.append(begun.head)
        if list in map(type, operands):  # tuples
            operands = flatten(operands)
        pieces.append(reference(len(operands)))
        pieces += operands
        if begun.computations:
            pieces.append(reference(len(begun.computations) << 1))
            pieces += map(self._place_of, begun.computations)
        self._operation_count += 1
        return next(self._numbers) if shape.is_array else unflatten(shape, self._numbers)

    def _translated_once(self, op: XlaOp) -> Reference:
        """The attributes of an op. Ops that say the same share theirs."""
        found = self._translated.get(id(op.attributes))
        if found is None:
            found = self._entered(attributes_of(op))
            self._translated[id(op.attributes)] = found
        return found

    def _emit_by_rule(self, op: XlaOp, operands: list[Value]) -> Value:
        rule = RULES.get(op.opcode)
        if rule is None:
            raise LoweringError(
                f"{op.opcode}: there is no lowering rule for this op, got {op!r}", op=op.opcode
            )
        self._location = self.location(op)
        annotations = self.annotations(op)
        if not annotations:
            return rule(self, op, operands)
        self._definitions = {}
        result = rule(self, op, operands)
        # On the operation that defines the value, or its first leaf; a tuple's are those of others.
        definition = next(map(self._definitions.get, flatten([result])), None)
        if definition is not None:
            position, name, results, attributes, flags = definition
            if op.sharding is not None and isinstance(op.shape, TupleShape):
                annotations |= _sharding_of_results(op, len(results))
            if name == "sdy.sharding_constraint":  # which says it by itself
                annotations.pop(SHARDY, None)
            said = self.writer.dictionary({**(attributes or {}), **annotations})
            self._pieces[position] = self._head(name, results, said, flags)
        self._definitions = None
        return result

    def annotations(self, op: XlaOp) -> dict[str, str]:
        """An op's frontend attributes and sharding as XLA's StableHLO importer takes them.

        A parameter has none here of the sharding, which each of its arrays says by itself.
        """
        found: dict[str, str] = {}
        if op.metadata is None:
            return found
        _, frontend_attributes, sharding, others = op.metadata
        if frontend_attributes:
            attributes = {name: quoted(value) for name, value in frontend_attributes.items()}
            found["mhlo.frontend_attributes"] = dictionary(attributes)
        if sharding is not None and op.opcode != "parameter":
            found.update(sharding_attribute(as_per_value(sharding)))
        if others is not None:
            found.update(others)
        return found

    def function(
        self,
        attributes: Mapping[str, Attribute],
        computation: XlaComputation,
        locations: Sequence[Reference],
    ) -> Pieces:
        """A function operation whose body is a computation.

        Args:
            attributes: of the operation.
            computation: what to emit in it.
            locations: of its arguments, tuples flattened.
        """
        self._location = self._unknown_location
        said = self.writer.dictionary(attributes)
        one_region = reference(1 << 1 | 1)  # which sees no values from outside
        head = self._head("func.func", (), said, HAS_REGIONS)
        body = bytearray()
        self._large = []
        self.large_constants.append(self._large)
        written: list[tuple[bytearray, Pieces, int]] = []  # and the number of the region around
        waiting = [_Hole(body, computation, 0, "func.return", locations)]
        around = [-1]  # of those waiting
        while waiting:
            hole = waiting.pop()
            pieces, inside = self._emit_region(hole)
            written.append((hole.place, pieces, around.pop()))
            inside.reverse()  # the first at the end, from which they are taken
            waiting += inside
            around += [len(written) - 1] * len(inside)
            self._large = None
        # A region is copied into the one around it, with all that is inside. What is large by then
        # waits apart: of loops 5,000 deep the inmost would be copied 5,000 times, 3 s of 4.
        apart: dict[int, _Parts] = {}
        holding: set[int] = set()  # the numbers of those around what waits
        while written:  # those inside before those around them
            place, pieces, outer = written.pop()
            is_holding = len(written) in holding
            parts = _joined_around(pieces, apart) if is_holding else [b"".join(pieces)]
            if is_holding or len(parts[0]) >= _LARGE_REGION:
                apart[id(place)] = parts
                holding.add(outer)
            else:
                place += parts[0]
        return [head, one_region, *_unnested(apart.get(id(body), [body]))]

    def _emit_region(self, hole: _Hole) -> tuple[Pieces, list[_Hole]]:
        """Emits a region; gives its pieces, and the regions inside that are still to be written."""
        _, region, first, terminator, locations = hole
        is_long = terminator == "func.return"
        if isinstance(region, XlaComputation):
            # (Where numbers are so high that they are made anew, twenty make up for the iterator.)
            is_long |= first >= 1 << 14 and len(region.ops) > 20
            region = Region(region.program_shape.parameters, partial(self.emit_ops, region))
        shapes, body = region
        types = [t for shape in shapes for t in self.types(shape)]
        pieces: Pieces = [b""]
        self._pieces = pieces
        self._operation_count = 0
        # A function's values are many; an iterator that is quick to make suits the others.
        self._numbers = numbers = references(first) if is_long else map(reference, count(first))
        self._places = places = dict[RegionLike, bytearray]()
        self._location = self._unknown_location
        arguments = [unflatten(shape, numbers) for shape in shapes]
        results = body(arguments)
        self._location = self._unknown_location
        self.create_typed(terminator, (), flatten([results]))
        after = number_of(next(numbers))
        # One block. First how many values it has, and then how many operations.
        head = reference(1) + reference(after - first)
        head += reference(self._operation_count << 1 | bool(types))
        if types:
            head += reference(len(types))
            given = locations or [self._unknown_location] * len(types)
            head += b"".join([t + at for t, at in zip(types, given, strict=True)])
        pieces[0] = head
        ends = "stablehlo.return"
        return pieces, [_Hole(p, inner, after, ends, None) for inner, p in places.items()]

    def module(
        self,
        name: str,
        functions: Sequence[Pieces],
        attributes: Mapping[str, str],
        meshes: Mapping[str, Mapping[str, str]],
    ) -> bytes:
        """The module of these functions, in bytecode.

        Args:
            name: the module's.
            functions: what `function` gave.
            attributes: the others of the module, as MLIR's text.
            meshes: by name the meshes of devices that shardings name, attributes as MLIR's text.
        """
        self._location = self._unknown_location
        writer = self.writer
        said = writer.dictionary({"sym_name": quoted(name), **attributes})
        head = self._head("builtin.module", (), said, HAS_REGIONS)
        declared = [
            self._head("sdy.mesh", (), writer.dictionary({"sym_name": quoted(n), **mesh}), 0)
            for n, mesh in meshes.items()
        ]
        count = reference((len(declared) + len(functions)) << 1)
        # One region that sees no values from outside, of one block without values of its own.
        region = [reference(1 << 1 | 1), reference(1), reference(0), count]
        return writer.module([head, *region, *declared, *chain.from_iterable(functions)])
