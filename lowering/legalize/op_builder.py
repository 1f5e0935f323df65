"""OpBuilder: what all rewrites create operations with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from jaxlib.mlir import ir

from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import ArrayShape, intern_array
from lowering.errors import LoweringError
from lowering.legalize.partitions import is_manual, mark_manual
from lowering.legalize.registry import Target, Value
from lowering.mlir.types import dense_attribute, mlir_type, shape_of_type
from lowering.sharding.attributes import GSPMD

__all__ = ["Attributes", "OpBuilder", "array_of", "attributes_of"]

Attributes = Mapping[str, "ir.Attribute | str | int | bool | Sequence[int]"]
"""Attributes by name. A str is MLIR text, an int an i64, a sequence of ints a dense i64 array."""


Type = ArrayShape | ir.Type | str
"""The type of a result: a shape, an MLIR type, or the text of one."""


def array_of(value: Value) -> ArrayShape:
    """The shape of a value, which must be an array."""
    shape = shape_of_type(value.type)
    assert isinstance(shape, ArrayShape)  # verified by MLIR
    return shape


def attributes_of(operation: ir.Operation) -> dict[str, ir.Attribute]:
    """All attributes of an operation."""
    return {name: operation.attributes[name] for name in operation.attributes}


class OpBuilder:
    """Creates operations in front of another one, at its source line.

    Names of operations without a dialect are StableHLO's.

    Args:
        target: what the module is compiled for.
        before: the operation, which is to be replaced.
        block: the block to append to instead; made by `block_in`.

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
        """The shape of a value; None if it is no array of a type that XLA has.

        Each type is read once, so that it is quick enough to ask of every operation of a module.
        """
        kind = value.type
        try:
            return self.target.shapes[kind]
        except KeyError:
            pass
        try:
            found = shape_of_type(kind)
        except LoweringError:  # quantized elements, for instance
            found = None
        shape = found if isinstance(found, ArrayShape) else None
        self.target.shapes[kind] = shape
        return shape

    def array_of(self, value: Value) -> ArrayShape:
        """The shape of a value, which must be an array."""
        shape = self.shape(value)
        assert shape is not None  # verified by MLIR
        return shape

    def element_type(self, value: Value) -> PrimitiveType | None:
        """The element type of a value; None if it is no array of a type that XLA has."""
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
        """Create an operation with any number of results, and of regions to be filled.

        Where the replaced operation is marked as manually partitioned, so is the new one.
        """
        made = ir.Operation.create(
            name if "." in name else f"stablehlo.{name}",
            results=[self.type(one) for one in results],
            operands=list(operands),
            attributes={key: self.attribute(one) for key, one in (attributes or {}).items()},
            regions=regions,
            loc=self.before.location,
            ip=self._place(),
        )
        if GSPMD in self.before.attributes and is_manual(self.before):
            mark_manual(made)
        self.target.created.append(made)
        return made

    def __call__(
        self,
        name: str,
        shape: Type,
        operands: Sequence[Value],
        attributes: Attributes | None = None,
    ) -> Value:
        """Create an operation with one result, and return this value."""
        return self.create(name, [shape], operands, attributes).results[0]

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
            operands: of the copy, as many as the operation has.
            results: the result types of the copy, if they differ.
            attributes: further attributes, or others of the same names.
        """
        made = operation.clone(self._place()).operation
        for position, operand in enumerate(operands):
            made.operands[position] = operand
        for result, one in zip(made.results, results or (), strict=results is not None):
            result.set_type(self.type(one))
        for name, value in (attributes or {}).items():
            made.attributes[name] = self.attribute(value)
        self.target.created.append(made)
        return made

    # Regions

    def block_in(self, region: ir.Region, arguments: Sequence[Type]) -> tuple[Self, list[Value]]:
        """Begin the block of an empty region.

        Returns:
            A builder that appends to the block, and the block's arguments.
        """
        types = [self.type(one) for one in arguments]
        block = ir.Block.create_at_start(region, types, [self.before.location] * len(types))
        return type(self)(self.target, self.before, block), list(block.arguments)

    def end(self, values: Sequence[Value]) -> None:
        """End the block with these values."""
        self.create("return", [], values)

    def inline(self, owner: ir.Operation, region: int, arguments: Sequence[Value]) -> list[Value]:
        """Copy the operations of a region here.

        Args:
            owner: the operation that has the region; is not changed.
            region: its number.
            arguments: the values that take the place of the block's arguments.

        Returns:
            The values that the block ends with.
        """
        # MLIR's Python bindings copy no blocks, but whole operations.
        copy = owner.clone(ir.InsertionPoint(self.before)).operation
        block = copy.regions[region].blocks[0]
        for argument, value in zip(block.arguments, arguments, strict=True):
            argument.replace_all_uses_with(value)
        *body, end = [one.operation for one in block.operations]
        results = list(end.operands)
        for one in body:
            if self.block is None:
                one.move_before(self.before)
            else:
                self.block.append(one)
        end.erase()
        copy.erase()
        return results

    def reducer(self, region: ir.Region, element_type: PrimitiveType, name: str) -> None:
        """Fill an empty region with one binary operation of scalars."""
        scalar = intern_array(element_type, ())
        inside, arguments = self.block_in(region, [scalar, scalar])
        inside.end([inside(name, scalar, arguments)])

    # Attributes and types

    def attribute(self, value: ir.Attribute | str | int | bool | Sequence[int]) -> ir.Attribute:
        """The MLIR attribute of a value of `Attributes`."""
        if isinstance(value, ir.Attribute):
            return value
        if isinstance(value, str):
            return self.parsed(value)
        if isinstance(value, bool):
            return ir.BoolAttr.get(value, self.context)
        if isinstance(value, int):
            return ir.IntegerAttr.get(ir.IntegerType.get_signless(64, self.context), value)
        return ir.DenseI64ArrayAttr.get(list(value), self.context)

    def parsed(self, text: str) -> ir.Attribute:
        """An attribute from its MLIR text."""
        return ir.Attribute.parse(text, self.context)

    def type(self, one: Type) -> ir.Type:
        """The MLIR type of a shape or of a type's text."""
        if isinstance(one, str):
            return ir.Type.parse(one, self.context)
        if not isinstance(one, ArrayShape):
            return one
        known = self.target.types
        if one not in known:
            known[one] = mlir_type(one, self.context)
        return known[one]

    def _place(self) -> ir.InsertionPoint:
        return ir.InsertionPoint(self.before if self.block is None else self.block)

    # Arrays

    def converted(self, value: Value, to: PrimitiveType) -> Value:
        """The value with elements of another type, or itself if they are of that."""
        shape = self.array_of(value)
        if shape.element_type is to:
            return value
        return self("convert", shape.with_element_type(to), [value])

    def bitcast(self, value: Value, to: PrimitiveType) -> Value:
        """The bits of the elements as another type of the same width."""
        shape = self.array_of(value)
        if shape.element_type is to:
            return value
        return self("bitcast_convert", shape.with_element_type(to), [value])

    def carried(self, value: Value, to: PrimitiveType) -> Value:
        """The elements in a type that holds them, or back: as bits if it has the same width."""
        if self.array_of(value).element_type.bits == to.bits:
            return self.bitcast(value, to)
        return self.converted(value, to)

    def number(self, value: Any, element_type: PrimitiveType) -> Value:
        """A scalar constant."""
        return self.array(value, element_type)

    def array(self, values: Any, element_type: PrimitiveType) -> Value:
        """A constant of any rank."""
        array = np.array(values).astype(element_type.dtype)
        shape = intern_array(element_type, array.shape)
        with self.context:
            elements = dense_attribute(array, mlir_type(shape, self.context))
        return self("constant", shape, [], {"value": elements})

    def filled(self, shape: ArrayShape, number: Any) -> Value:
        """An array of fixed sizes with one number throughout."""
        return self.spread(self.number(number, shape.element_type), shape)

    def spread(self, value: Value, shape: ArrayShape, dimensions: Sequence[int] = ()) -> Value:
        """A scalar throughout an array of fixed sizes, or an array along some dimensions of it."""
        target = shape.with_element_type(self.array_of(value).element_type)
        return self("broadcast_in_dim", target, [value], {"broadcast_dimensions": dimensions})

    def counted(self, shape: ArrayShape, dimension: int) -> Value:
        """0, 1, 2, ... along a dimension of an array of fixed sizes."""
        return self("iota", shape, [], {"iota_dimension": dimension})

    def compared(self, direction: str, lhs: Value, rhs: Value, kind: str | None = None) -> Value:
        """Whether elements of lhs are less ("LT") than those of rhs, equal ("EQ"), and so on.

        Args:
            direction: "EQ", "NE", "LT", "LE", "GT" or "GE".
            lhs, rhs: arrays of one shape.
            kind: "FLOAT", "TOTALORDER", "SIGNED" or "UNSIGNED"; that of the element type if None.
        """
        attributes = {"comparison_direction": f"#stablehlo<comparison_direction {direction}>"}
        if kind is not None:
            attributes["compare_type"] = f"#stablehlo<comparison_type {kind}>"
        shape = self.array_of(lhs).with_element_type(pt.pred)
        return self("compare", shape, [lhs, rhs], attributes)

    def selected(self, condition: Value, on_true: Value, on_false: Value) -> Value:
        """The elements of one array where the condition holds, else those of the other."""
        return self("select", self.array_of(on_true), [condition, on_true, on_false])

    def masked(self, mask: Value, value: Value) -> Value:
        """The elements of an array of fixed sizes where the mask holds, else 0."""
        return self.selected(mask, value, self.filled(self.array_of(value), 0))

    def reshaped(self, value: Value, dimensions: Sequence[int]) -> Value:
        """The value with other fixed sizes; itself if they are its own."""
        shape = self.array_of(value)
        if shape.dimensions == tuple(dimensions):
            return value
        return self("reshape", intern_array(shape.element_type, tuple(dimensions)), [value])

    def sliced(self, value: Value, starts: Sequence[int], limits: Sequence[int]) -> Value:
        """The elements between two indices; of bounded dimensions, all."""
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
        """Arrays of fixed sizes one after the other along a dimension."""
        shapes = [self.array_of(value) for value in values]
        sizes = list(shapes[0].dimensions)
        sizes[dimension] = sum(shape.dimensions[dimension] for shape in shapes)
        shape = intern_array(shapes[0].element_type, tuple(sizes))
        return self("concatenate", shape, values, {"dimension": dimension})

    def padded(
        self, value: Value, filling: Value, low: Sequence[int], high: Sequence[int]
    ) -> Value:
        """An array with so many elements more, or fewer, at both ends of fixed dimensions."""
        shape = self.array_of(value)
        sizes = [sum(three) for three in zip(shape.dimensions, low, high, strict=True)]
        attributes: Attributes = {
            "edge_padding_low": low,
            "edge_padding_high": high,
            "interior_padding": [0] * len(low),
        }
        padded = intern_array(shape.element_type, tuple(sizes), shape.dynamic_dimensions)
        return self("pad", padded, [value, filling], attributes)

    def reduced(self, value: Value, dimensions: Sequence[int], initial: Any, name: str) -> Value:
        """The elements of an array of fixed sizes along dimensions, put together by an operation.

        Args:
            value: the array.
            dimensions: the dimensions.
            initial: the number to begin with.
            name: a binary operation of StableHLO, such as "add".
        """
        shape = self.array_of(value)
        left = [size for d, size in enumerate(shape.dimensions) if d not in dimensions]
        made = self.create(
            "reduce",
            [intern_array(shape.element_type, tuple(left))],
            [value, self.number(initial, shape.element_type)],
            {"dimensions": dimensions},
            regions=1,
        )
        self.reducer(made.regions[0], shape.element_type, name)
        return made.results[0]

    # Bounded sizes

    def size(self, value: Value, dimension: int) -> Value:
        """The size that a dimension has at run time."""
        scalar = intern_array(pt.s32, ())
        return self("get_dimension_size", scalar, [value], {"dimension": dimension})

    def sizes(self, value: Value) -> list[Value | None]:
        """The sizes that the bounded dimensions have at run time; None for the others."""
        marks = enumerate(self.array_of(value).dynamic_dimensions)
        return [self.size(value, d) if dynamic else None for d, dynamic in marks]

    def at_bounds(self, value: Value, dimensions: Iterable[int] | None = None) -> Value:
        """The value in its largest size, along some dimensions or along all.

        What the added elements hold is undefined.
        """
        shape = self.array_of(value)
        marks = shape.dynamic_dimensions
        for dimension in range(shape.rank) if dimensions is None else dimensions:
            if marks[dimension]:
                bound = self.number(shape.dimensions[dimension], pt.s32)
                value = self._sized(value, dimension, bound, False)
        return value

    def sized(self, value: Value, sizes: Sequence[Value | None]) -> Value:
        """The value with other sizes in those dimensions that one is given for."""
        for dimension, size in enumerate(sizes):
            if size is not None:
                value = self._sized(value, dimension, size, True)
        return value

    def _sized(self, value: Value, dimension: int, size: Value, dynamic: bool) -> Value:
        shape = self.array_of(value)
        marks = list(shape.dynamic_dimensions)
        marks[dimension] = dynamic
        target = intern_array(shape.element_type, shape.dimensions, tuple(marks))
        return self("set_dimension_size", target, [value, size], {"dimension": dimension})

    def on_fixed_sizes(self, values: Sequence[Value], function: Callable[..., Value]) -> Value:
        """Apply a function of arrays of fixed sizes to arrays of bounded ones.

        The arrays are passed in their largest size; the result gets the sizes of the first.
        """
        sizes = self.sizes(values[0])
        return self.sized(function(*(self.at_bounds(value) for value in values)), sizes)
