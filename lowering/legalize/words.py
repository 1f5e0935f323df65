"""What the rewrites of arrays share: creating operations in the place of another one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from builder import primitive_type as pt
from builder.primitive_type import PrimitiveType
from builder.shape import ArrayShape, intern_array
from lowering.legalize.registry import Rewriter, Value
from lowering.types import dense_attribute, mlir_type, shape_of_type

__all__ = ["Words", "array_of", "attributes_of"]


def array_of(value: Value) -> ArrayShape:
    """The shape of a value, which must be an array."""
    shape = shape_of_type(value.type)
    assert isinstance(shape, ArrayShape)  # the verifier has said so
    return shape


def attributes_of(operation: ir.Operation) -> dict[str, ir.Attribute]:
    """All attributes of an operation."""
    return {name: operation.attributes[name] for name in operation.attributes}


class Words:
    """Creates operations before the one that they replace.

    Args:
        rewriter: of the module.
        before: the operation that is said in other words.
    """

    def __init__(self, rewriter: Rewriter, before: ir.Operation) -> None:
        self.rewriter = rewriter
        self.before = before

    def several(
        self,
        name: str,
        shapes: Sequence[ArrayShape],
        operands: Sequence[Value],
        attributes: dict[str, ir.Attribute] | None = None,
    ) -> list[Value]:
        """The results of a new StableHLO operation."""
        types = [mlir_type(shape, self.before.context) for shape in shapes]
        created = self.rewriter.create(
            f"stablehlo.{name}", types, operands, attributes, before=self.before
        )
        return list(created.results)

    def __call__(
        self,
        name: str,
        shape: ArrayShape,
        operands: Sequence[Value],
        attributes: dict[str, ir.Attribute] | None = None,
    ) -> Value:
        """The one result of a new StableHLO operation."""
        return self.several(name, [shape], operands, attributes)[0]

    def parsed(self, text: str) -> ir.Attribute:
        """An attribute from its MLIR text."""
        return ir.Attribute.parse(text, self.before.context)

    def converted(self, value: Value, to: PrimitiveType) -> Value:
        """The value with elements of another type, or itself if they are of that."""
        shape = array_of(value)
        if shape.element_type is to:
            return value
        return self("convert", shape.with_element_type(to), [value])

    def number(self, value: Any, element_type: PrimitiveType) -> Value:
        """A scalar constant."""
        shape = intern_array(element_type, ())
        array = np.array(value).astype(element_type.dtype)
        with self.before.context:
            elements = dense_attribute(array, mlir_type(shape, self.before.context))
        return self("constant", shape, [], {"value": elements})

    def spread(self, value: Value, shape: ArrayShape, dimensions: Sequence[int] = ()) -> Value:
        """A scalar throughout an array of fixed sizes, or a vector along one of its dimensions."""
        places = ir.DenseI64ArrayAttr.get(list(dimensions), self.before.context)
        target = shape.with_element_type(array_of(value).element_type)
        return self("broadcast_in_dim", target, [value], {"broadcast_dimensions": places})

    def counted(self, shape: ArrayShape, dimension: int) -> Value:
        """0, 1, 2, ... along a dimension of an array of fixed sizes."""
        return self("iota", shape, [], {"iota_dimension": self.parsed(f"{dimension} : i64")})

    def compared(self, direction: str, lhs: Value, rhs: Value) -> Value:
        """Whether elements of lhs are less ("LT") than those of rhs, or equal ("EQ"), ..."""
        attribute = self.parsed(f"#stablehlo<comparison_direction {direction}>")
        shape = array_of(lhs).with_element_type(pt.pred)
        return self("compare", shape, [lhs, rhs], {"comparison_direction": attribute})

    def size(self, value: Value, dimension: int) -> Value:
        """The size that a dimension has at run time."""
        attributes = {"dimension": self.parsed(f"{dimension} : i64")}
        return self("get_dimension_size", intern_array(pt.s32, ()), [value], attributes)

    def sizes(self, value: Value) -> list[Value | None]:
        """The sizes that the bounded dimensions have at run time; None for the others."""
        marks = enumerate(array_of(value).dynamic_dimensions)
        return [self.size(value, d) if dynamic else None for d, dynamic in marks]

    def at_bounds(self, value: Value) -> Value:
        """The value in its largest size; whatever stands there stands in the added elements."""
        shape = array_of(value)
        for dimension, dynamic in enumerate(shape.dynamic_dimensions):
            if dynamic:
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
        shape = array_of(value)
        marks = list(shape.dynamic_dimensions)
        marks[dimension] = dynamic
        target = intern_array(shape.element_type, shape.dimensions, tuple(marks))
        attributes = {"dimension": self.parsed(f"{dimension} : i64")}
        return self("set_dimension_size", target, [value, size], attributes)
