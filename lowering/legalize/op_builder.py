"""OpBuilder, which creates the operations of all rewrites."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Self

import numpy as np
from jaxlib.mlir import ir

from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import ArrayShape, intern_array
from lowering.legalize.partitions import is_manual, mark_manual
from lowering.legalize.registry import Target, Value
from lowering.mlir.types import array_shape_of_type, dense_attribute, mlir_type, shape_of_type
from lowering.sharding.texts import GSPMD

Attributes = Mapping[str, "ir.Attribute | str | int | bool | Sequence[int]"]
"""Attributes by name. A str is MLIR text, an int an i64, a sequence of ints a dense i64 array."""

F32_FOR_NARROW_FLOATS: Final = {t: pt.f32 for t in pt.ALL if t.is_floating and t.bits <= 8}
"""Maps each floating-point type of at most 8 bits to f32; an argument of `OpBuilder.in_types`."""

Type = ArrayShape | ir.Type | str
"""The type of a result: a shape, an MLIR type, or the text of an MLIR type."""


def array_of(value: Value) -> ArrayShape:
    """The shape of a value, which must be an array."""
    shape = shape_of_type(value.type)
    assert isinstance(shape, ArrayShape)  # verified by MLIR
    return shape


def is_static(value_type: ir.Type) -> bool:
    """Whether values of a type have fixed sizes."""
    return not isinstance(value_type, ir.RankedTensorType) or value_type.has_static_shape


def attributes_of(operation: ir.Operation) -> dict[str, ir.Attribute]:
    """All attributes of an operation."""
    return {name: operation.attributes[name] for name in operation.attributes}


def integer_of(operation: ir.Operation, name: str) -> int:
    """The value of an integer attribute of an operation."""
    return int(ir.IntegerAttr(operation.attributes[name]).value)


def integers_of(operation: ir.Operation, name: str, default: Sequence[int] = ()) -> list[int]:
    """The integers of a list attribute of an operation; the default if the attribute is missing."""
    if name not in operation.attributes:
        return list(default)
    return list(ir.DenseI64ArrayAttr(operation.attributes[name]))


class OpBuilder:
    """Creates operations in front of an operation, at its source location.

    An operation name without a dialect refers to StableHLO.

    Args:
        target: what the module is compiled for.
        before: the operation that a rewrite replaces; new operations precede it.
        block: a block created by `block_in`; new operations are appended to it instead.

    Example:
        >>> from jaxlib.mlir import ir
        >>> from lowering.legalize.registry import rewrite
        >>> def negate_twice(b: OpBuilder, operation: ir.Operation):
        ...     x = operation.operands[0]
        ...     return [b("negate", array_of(x), [b("negate", array_of(x), [x])])]
    """

    def __init__(self, target: Target, before: ir.Operation, block: ir.Block | None = None) -> None:
        self.target = target
        self.before = before
        self.block = block

    @property
    def context(self) -> ir.Context:
        """The MLIR context of the module."""
        return self.before.context

    def shape(self, value: Value) -> ArrayShape | None:
        """The shape of a value; None unless it is an array of an element type of XLA.

        Each type is parsed once, since rewrites look at the types of most operations.
        """
        value_type = value.type
        shapes = self.target.shapes
        if value_type not in shapes:
            shapes[value_type] = array_shape_of_type(value_type)
        return shapes[value_type]

    def array_of(self, value: Value) -> ArrayShape:
        """The shape of a value, which must be an array.

        Raises:
            LoweringError: the type has an encoding other than bounds, which MLIR accepts.
        """
        return self.shape(value) or array_of(value)

    def element_type(self, value: Value) -> PrimitiveType | None:
        """The element type of a value; None unless it is an array of an element type of XLA."""
        shape = self.shape(value)
        return None if shape is None else shape.element_type

    def create(
        self,
        name: str,
        results: Sequence[Type],
        operands: Sequence[Value],
        attributes: Attributes | None = None,
        *,
        regions: int = 0,
    ) -> ir.Operation:
        """Create an operation with any number of results, and with empty regions.

        The operation is marked as manually partitioned if the replaced operation is.
        """
        created = ir.Operation.create(
            name if "." in name else f"stablehlo.{name}",
            results=[self.type(result) for result in results],
            operands=list(operands),
            attributes={key: self.attribute(value) for key, value in (attributes or {}).items()},
            regions=regions,
            loc=self.before.location,
            ip=self._insertion_point(),
        )
        if GSPMD in self.before.attributes and is_manual(self.before):
            mark_manual(created)
        self.target.created.append(created)
        return created

    def __call__(
        self,
        name: str,
        shape: Type,
        operands: Sequence[Value],
        attributes: Attributes | None = None,
    ) -> Value:
        """Create an operation with one result, and return the result."""
        return self.create(name, [shape], operands, attributes).results[0]

    def elementwise(self, name: str, *operands: Value) -> Value:
        """Create an operation whose result has the type of its first operand."""
        return self(name, operands[0].type, operands)

    def like(
        self,
        operation: ir.Operation,
        operands: Sequence[Value],
        results: Sequence[Type] | None = None,
        attributes: Attributes | None = None,
    ) -> ir.Operation:
        """Create a copy of an operation, its regions included, with other operands.

        Args:
            operation: the operation.
            operands: the operands of the copy, as many as the operation has.
            results: the result types of the copy, if they differ.
            attributes: attributes to add or replace.
        """
        copy = operation.clone(self._insertion_point()).operation
        for position, operand in enumerate(operands):
            copy.operands[position] = operand
        for result, result_type in zip(copy.results, results or (), strict=results is not None):
            result.set_type(self.type(result_type))
        for name, value in (attributes or {}).items():
            copy.attributes[name] = self.attribute(value)
        self.target.created.append(copy)
        return copy

    def in_types(
        self,
        operation: ir.Operation,
        types: Mapping[PrimitiveType, PrimitiveType],
        operand_count: int | None = None,
    ) -> list[Value] | None:
        """Apply an operation to operands of other element types, and convert the results back.

        Args:
            operation: the operation; the element types of its regions, if any, do not change.
            types: the element types to replace, each with the type to compute in; see `recast`.
            operand_count: the number of operands to convert, from the first on; None for all.

        Returns:
            The results; None if no operand has one of these element types.
        """
        operands = list(operation.operands)
        converted = operands[:operand_count]
        if types.keys().isdisjoint(map(self.element_type, converted)):
            return None
        for position, operand in enumerate(converted):
            element_type = self.element_type(operand)
            if element_type is not None and element_type in types:
                operands[position] = self.recast(operand, types[element_type])
        shapes = [self.array_of(result) for result in operation.results]
        wide = [s.with_element_type(types.get(s.element_type, s.element_type)) for s in shapes]
        results = self.like(operation, operands, wide).results
        return [self.recast(r, s.element_type) for r, s in zip(results, shapes, strict=True)]

    # Regions

    def around_region(
        self, operation: ir.Operation, types: Mapping[PrimitiveType, PrimitiveType]
    ) -> list[Value] | None:
        """Apply an operation to operands of other element types, its region to the original ones.

        The region converts its arguments back, and the values that it returns to the other types.

        Args:
            operation: an operation with one region.
            types: the element types to replace, each with the type to use instead; see `recast`.

        Returns:
            The results, converted back; None if no operand has one of these element types.
        """
        if types.keys().isdisjoint(map(self.element_type, operation.operands)):
            return None

        def other(value: Value) -> ArrayShape:
            shape = self.array_of(value)
            return shape.with_element_type(types.get(shape.element_type, shape.element_type))

        def recast_to_other(builder: OpBuilder, values: Iterable[Value]) -> list[Value]:
            return [builder.recast(value, other(value).element_type) for value in values]

        def recast_back(
            builder: OpBuilder, values: Iterable[Value], originals: Iterable[Value]
        ) -> list[Value]:
            pairs = zip(values, originals, strict=True)
            return [builder.recast(v, self.array_of(o).element_type) for v, o in pairs]

        operands = recast_to_other(self, operation.operands)
        results = list(map(other, operation.results))
        made = self.create(operation.name, results, operands, attributes_of(operation), regions=1)
        parameters = operation.regions[0].blocks[0].arguments
        region, arguments = self.block_in(made.regions[0], list(map(other, parameters)))
        values = region.inline(operation, 0, recast_back(region, arguments, parameters))
        region.end(recast_to_other(region, values))
        return recast_back(self, made.results, operation.results)

    def block_in(self, region: ir.Region, arguments: Sequence[Type]) -> tuple[Self, list[Value]]:
        """Create the block of an empty region.

        Returns:
            A builder that appends to the block, and the block's arguments.
        """
        types = [self.type(argument) for argument in arguments]
        block = ir.Block.create_at_start(region, types, [self.before.location] * len(types))
        return type(self)(self.target, self.before, block), list(block.arguments)

    def end(self, values: Sequence[Value]) -> None:
        """Terminate the block with a return of these values."""
        self.create("return", [], values)

    def inline(self, owner: ir.Operation, region: int, arguments: Sequence[Value]) -> list[Value]:
        """Copy the operations of a region to the insertion point of this builder.

        Args:
            owner: the operation with the region; it does not change.
            region: the number of the region.
            arguments: the values that replace the block's arguments.

        Returns:
            The values that the block returns.
        """
        # MLIR's Python bindings can copy an operation, but not a block.
        copy = owner.clone(ir.InsertionPoint(self.before)).operation
        block = copy.regions[region].blocks[0]
        for argument, value in zip(block.arguments, arguments, strict=True):
            argument.replace_all_uses_with(value)
        *body, terminator = [view.operation for view in block.operations]
        results = list(terminator.operands)
        for operation in body:
            if self.block is None:
                operation.move_before(self.before)
            else:
                self.block.append(operation)
        terminator.erase()
        copy.erase()
        return results

    def reducer(self, region: ir.Region, element_type: PrimitiveType, name: str) -> None:
        """Fill an empty region with one binary operation of scalars."""
        scalar = intern_array(element_type, ())
        inside, arguments = self.block_in(region, [scalar, scalar])
        inside.end([inside(name, scalar, arguments)])

    # Attributes and types

    def attribute(self, value: ir.Attribute | str | int | bool | Sequence[int]) -> ir.Attribute:
        """Convert a value of `Attributes` to an MLIR attribute."""
        if isinstance(value, ir.Attribute):
            return value
        if isinstance(value, str):
            return ir.Attribute.parse(value, self.context)
        if isinstance(value, bool):
            return ir.BoolAttr.get(value, self.context)
        if isinstance(value, int):
            return ir.IntegerAttr.get(ir.IntegerType.get_signless(64, self.context), value)
        return ir.DenseI64ArrayAttr.get(list(value), self.context)

    def type(self, description: Type) -> ir.Type:
        """Convert a shape, or the text of a type, to an MLIR type."""
        if isinstance(description, str):
            return ir.Type.parse(description, self.context)
        if not isinstance(description, ArrayShape):
            return description
        types = self.target.types
        if description not in types:
            types[description] = mlir_type(description, self.context)
        return types[description]

    def _insertion_point(self) -> ir.InsertionPoint:
        return ir.InsertionPoint(self.before if self.block is None else self.block)

    # Arrays

    def converted(self, value: Value, to: PrimitiveType) -> Value:
        """Convert the elements to another type, unless they already have this type."""
        shape = self.array_of(value)
        if shape.element_type is to:
            return value
        return self("convert", shape.with_element_type(to), [value])

    def bitcast(self, value: Value, to: PrimitiveType) -> Value:
        """Reinterpret the bits of the elements as another type of the same width."""
        shape = self.array_of(value)
        if shape.element_type is to:
            return value
        return self("bitcast_convert", shape.with_element_type(to), [value])

    def recast(self, value: Value, to: PrimitiveType) -> Value:
        """Bitcast between floats and integers of the same width; convert all other elements."""
        source = self.array_of(value).element_type
        if source.bits == to.bits and source.is_floating != to.is_floating:
            return self.bitcast(value, to)
        return self.converted(value, to)

    def parts(self, value: Value) -> tuple[Value, Value]:
        """The real and the imaginary part of complex numbers."""
        shape = self.array_of(value)
        part = shape.with_element_type(shape.element_type.real_type)
        return self("real", part, [value]), self("imag", part, [value])

    def number(self, value: Any, element_type: PrimitiveType) -> Value:
        """A scalar constant."""
        array = np.array(value).astype(element_type.dtype)
        attributes, key = self.target.scalars, (element_type, array.tobytes())
        if key not in attributes:
            attributes[key] = self._elements(array, element_type)
        return self("constant", intern_array(element_type, ()), [], {"value": attributes[key]})

    def array(self, values: Any, element_type: PrimitiveType) -> Value:
        """A constant of any rank."""
        array = np.array(values).astype(element_type.dtype)
        shape = intern_array(element_type, array.shape)
        return self("constant", shape, [], {"value": self._elements(array, element_type)})

    def _elements(self, array: np.ndarray[Any, Any], element_type: PrimitiveType) -> ir.Attribute:
        with self.context:
            return dense_attribute(array, self.type(intern_array(element_type, array.shape)))

    def filled(self, shape: ArrayShape, number: Any) -> Value:
        """An array of fixed sizes whose elements all equal a number."""
        return self.spread(self.number(number, shape.element_type), shape)

    def spread(self, value: Value, shape: ArrayShape, dimensions: Sequence[int] = ()) -> Value:
        """Broadcast a value to fixed sizes; dimension i of the value becomes `dimensions[i]`."""
        target = shape.with_element_type(self.array_of(value).element_type)
        return self("broadcast_in_dim", target, [value], {"broadcast_dimensions": dimensions})

    def counted(self, shape: ArrayShape, dimension: int) -> Value:
        """An array of fixed sizes with the elements 0, 1, 2, ... along a dimension."""
        return self("iota", shape, [], {"iota_dimension": dimension})

    def compared(self, direction: str, lhs: Value, rhs: Value, kind: str | None = None) -> Value:
        """Compare arrays elementwise; the result has the element type pred.

        Args:
            direction: "EQ", "NE", "LT", "LE", "GT" or "GE".
            lhs, rhs: arrays of one shape.
            kind: "FLOAT", "TOTALORDER", "SIGNED" or "UNSIGNED"; None for the type's default.
        """
        attributes = {"comparison_direction": f"#stablehlo<comparison_direction {direction}>"}
        if kind is not None:
            attributes["compare_type"] = f"#stablehlo<comparison_type {kind}>"
        shape = self.array_of(lhs).with_element_type(pt.pred)
        return self("compare", shape, [lhs, rhs], attributes)

    def selected(self, condition: Value, on_true: Value, on_false: Value) -> Value:
        """The elements of `on_true` where the condition is true, else those of `on_false`."""
        return self("select", self.array_of(on_true), [condition, on_true, on_false])

    def masked(self, mask: Value, value: Value) -> Value:
        """The elements of an array of fixed sizes where the mask is true, else 0."""
        return self.selected(mask, value, self.filled(self.array_of(value), 0))

    def within(self, shape: ArrayShape, ranges: Mapping[int, tuple[Value | None, Value]]) -> Value:
        """Whether the indices of each element of an array of fixed sizes are in these ranges.

        Args:
            shape: the shape of the array.
            ranges: by dimension (at least one), the first index, or None for 0, and the index after
                the last one, as scalars of s32.
        """
        indices = shape.with_element_type(pt.s32)
        conditions = []
        for dimension, (start, end) in ranges.items():
            index = self.counted(indices, dimension)
            if start is not None:
                conditions.append(self.compared("LE", self.spread(start, indices), index))
            conditions.append(self.compared("LT", index, self.spread(end, indices)))
        return functools.reduce(functools.partial(self.elementwise, "and"), conditions)

    def reshaped(self, value: Value, dimensions: Sequence[int]) -> Value:
        """Reshape a value to other fixed sizes, unless it already has these sizes."""
        shape = self.array_of(value)
        if shape.dimensions == tuple(dimensions):
            return value
        return self("reshape", intern_array(shape.element_type, tuple(dimensions)), [value])

    def sliced(self, value: Value, starts: Sequence[int], limits: Sequence[int]) -> Value:
        """The elements from `starts` to `limits`.

        Along a bounded dimension, the start must be 0, and the limit must be the bound.
        """
        shape = self.array_of(value)
        sizes = tuple(limit - start for start, limit in zip(starts, limits, strict=True))
        attributes: Attributes = {
            "start_indices": starts,
            "limit_indices": limits,
            "strides": [1] * len(sizes),
        }
        part = intern_array(shape.element_type, sizes, shape.dynamic_dimensions)
        return self("slice", part, [value], attributes)

    def concatenated(self, values: Sequence[Value], dimension: int) -> Value:
        """Concatenate arrays of fixed sizes along a dimension."""
        shapes = [self.array_of(value) for value in values]
        sizes = list(shapes[0].dimensions)
        sizes[dimension] = sum(shape.dimensions[dimension] for shape in shapes)
        shape = intern_array(shapes[0].element_type, tuple(sizes))
        return self("concatenate", shape, values, {"dimension": dimension})

    def padded(
        self, value: Value, filling: Value, low: Sequence[int], high: Sequence[int]
    ) -> Value:
        """Add elements at both ends of fixed dimensions; negative numbers remove elements."""
        shape = self.array_of(value)
        sizes = map(sum, zip(shape.dimensions, low, high, strict=True))
        attributes: Attributes = {
            "edge_padding_low": low,
            "edge_padding_high": high,
            "interior_padding": [0] * len(low),
        }
        padded = intern_array(shape.element_type, tuple(sizes), shape.dynamic_dimensions)
        return self("pad", padded, [value, filling], attributes)

    def reduced(self, value: Value, dimensions: Sequence[int], initial: Any, name: str) -> Value:
        """Reduce an array of fixed sizes along dimensions.

        Args:
            value: the array.
            dimensions: the dimensions to reduce.
            initial: the initial value, a number.
            name: a binary operation of StableHLO, such as "add".
        """
        shape = self.array_of(value)
        sizes = [size for d, size in enumerate(shape.dimensions) if d not in dimensions]
        made = self.create(
            "reduce",
            [intern_array(shape.element_type, tuple(sizes))],
            [value, self.number(initial, shape.element_type)],
            {"dimensions": dimensions},
            regions=1,
        )
        self.reducer(made.regions[0], shape.element_type, name)
        return made.results[0]

    # Bounded sizes

    def size(self, value: Value, dimension: int) -> Value:
        """The size of a dimension at run time."""
        scalar = intern_array(pt.s32, ())
        return self("get_dimension_size", scalar, [value], {"dimension": dimension})

    def sizes(self, value: Value) -> list[Value | None]:
        """The sizes of the bounded dimensions at run time; None for the fixed dimensions."""
        dimensions = enumerate(self.array_of(value).dynamic_dimensions)
        return [self.size(value, d) if dynamic else None for d, dynamic in dimensions]

    def at_bounds(self, value: Value, dimensions: Iterable[int] | None = None) -> Value:
        """Set bounded sizes to their bounds, along some dimensions or along all.

        The values of the added elements are undefined.
        """
        shape = self.array_of(value)
        for dimension in range(shape.rank) if dimensions is None else dimensions:
            if shape.dynamic_dimensions[dimension]:
                bound = self.number(shape.dimensions[dimension], pt.s32)
                value = self._resized(value, dimension, bound, False)
        return value

    def sized(self, value: Value, sizes: Sequence[Value | None]) -> Value:
        """Set the sizes of the dimensions to scalars of s32; None leaves a dimension unchanged."""
        for dimension, size in enumerate(sizes):
            if size is not None:
                value = self._resized(value, dimension, size, True)
        return value

    def _resized(self, value: Value, dimension: int, size: Value, dynamic: bool) -> Value:
        shape = self.array_of(value)
        marks = list(shape.dynamic_dimensions)
        marks[dimension] = dynamic
        target = intern_array(shape.element_type, shape.dimensions, tuple(marks))
        return self("set_dimension_size", target, [value, size], {"dimension": dimension})

    def on_fixed_sizes(self, values: Sequence[Value], function: Callable[..., Value]) -> Value:
        """Apply a function for arrays of fixed sizes to arrays of bounded sizes.

        The function receives the arrays at their bounds. The result has the first array's sizes.
        """
        sizes = self.sizes(values[0])
        return self.sized(function(*(self.at_bounds(value) for value in values)), sizes)
