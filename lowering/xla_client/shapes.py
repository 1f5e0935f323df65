"""Shape, Layout, ProgramShape and ShapeIndex of the old binding, around those of `builder`.

The old binding gives every array a layout. Here a shape without a layout has the default one, and
is printed with it; `builder` has no layout in this case.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

import builder as xb
from builder.errors import OperandError, brief, error_of
from lowering.reading.protocol_buffers import encoded_field, encoded_number
from lowering.xla_client.enums import PrimitiveType, element_type, old_type
from lowering.xla_client.errors import reporting


class Layout:
    """The memory layout of an array; `new` is the `builder.Layout`.

    Args:
        minor_to_major: the dimension numbers, the fastest varying first.
        tiling: the sizes of the tiles.
        element_size_in_bits: the size of an element; 0 for that of its type.
    """

    __slots__ = ("new",)

    new: xb.Layout

    @reporting("Layout")
    def __init__(
        self,
        minor_to_major: Iterable[int],
        tiling: Iterable[Iterable[int]] = (),
        element_size_in_bits: int = 0,
    ) -> None:
        self.new = xb.Layout(
            minor_to_major, tiles=tiling, element_size_in_bits=element_size_in_bits
        )

    @classmethod
    def of(cls, new: xb.Layout) -> Layout:
        """Return the old form of a layout of `builder`."""
        layout = cls.__new__(cls)
        layout.new = new
        return layout

    def minor_to_major(self) -> tuple[int, ...]:
        """Return the dimension numbers, the fastest varying first."""
        return self.new.minor_to_major

    def tiling(self) -> list[tuple[int, ...]]:
        """Return the sizes of the tiles."""
        return [tuple(tile.dimensions) for tile in self.new.tiles]

    def element_size_in_bits(self) -> int:
        """Return the size of an element; 0 for that of its type."""
        return self.new.element_size_in_bits

    def to_string(self) -> str:
        """Return the layout in XLA's text form."""
        return repr(self.new)

    def __repr__(self) -> str:
        return f"Layout({self.new!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self.new == other.new

    def __hash__(self) -> int:
        return hash(self.new)


def _default_layout(rank: int) -> xb.Layout:
    return xb.Layout(range(rank)[::-1])


class Shape:
    """The shape of an array, a tuple or a token; `new` is the shape of `builder`.

    Args:
        text: for instance ``"f32[2,3]{0,1}"`` or ``"(s32[], token[])"``.

    Example:
        >>> from lowering import xla_client as xc
        >>> shape = xc.Shape.array_shape(xc.PrimitiveType.F32, (2, 3))
        >>> shape, shape.layout().minor_to_major(), shape.new
        (f32[2,3]{1,0}, (1, 0), f32[2,3])
    """

    __slots__ = ("new",)

    new: xb.Shape

    @reporting("Shape")
    def __init__(self, text: str) -> None:
        self.new = _without_default_layouts(xb.parse_shape(text))

    @classmethod
    def of(cls, new: xb.Shape) -> Shape:
        """Return the old form of a shape of `builder`."""
        shape = cls.__new__(cls)
        shape.new = _without_default_layouts(new)
        return shape

    @staticmethod
    @reporting("array_shape")
    def array_shape(
        type: Any,
        dims: Iterable[int],
        layout: Iterable[int] | None = None,
        dynamic_dimensions: Sequence[bool] | None = None,
    ) -> Shape:
        """Return the shape of an array.

        Args:
            type: a PrimitiveType or a NumPy dtype.
            dims: the sizes, or bounds of sizes.
            layout: minor_to_major; None for the default layout.
            dynamic_dimensions: whether each size is bounded.

        Example:
            >>> from lowering import xla_client as xc
            >>> xc.Shape.array_shape(np.dtype("int32"), [4], dynamic_dimensions=[True])
            s32[<=4]{0}
        """
        sizes = tuple(dims)
        flags = [False] * len(sizes) if dynamic_dimensions is None else list(dynamic_dimensions)
        if len(flags) != len(sizes):
            rule = f"dynamic_dimensions needs {len(sizes)} members"
            raise error_of(OperandError, "array_shape", rule, got=brief(flags))
        bounds = [
            xb.bounded(n) if is_dynamic else n for n, is_dynamic in zip(sizes, flags, strict=True)
        ]
        new = xb.array_shape(element_type("array_shape", type), bounds)
        return Shape.of(new if layout is None else new.with_layout(xb.Layout(layout)))

    @staticmethod
    def scalar_shape(type: Any) -> Shape:
        """Return the shape of a scalar.

        Example:
            >>> from lowering import xla_client as xc
            >>> xc.Shape.scalar_shape(xc.PrimitiveType.S8)
            s8[]
        """
        return Shape.array_shape(type, ())

    @staticmethod
    @reporting("tuple_shape")
    def tuple_shape(shapes: Iterable[Shape]) -> Shape:
        """Return the shape of a tuple.

        Example:
            >>> from lowering import xla_client as xc
            >>> xc.Shape.tuple_shape([xc.Shape("f32[2]"), xc.Shape.token_shape()])
            (f32[2]{0}, token[])
        """
        return Shape.of(xb.tuple_shape([shape.new for shape in shapes]))

    @staticmethod
    def token_shape() -> Shape:
        """Return the shape of a token.

        Example:
            >>> from lowering import xla_client as xc
            >>> xc.Shape.token_shape()
            token[]
        """
        return Shape.of(xb.TOKEN_SHAPE)

    def is_array(self) -> bool:
        """Return whether this is the shape of an array."""
        return isinstance(self.new, xb.ArrayShape)

    def is_tuple(self) -> bool:
        """Return whether this is the shape of a tuple."""
        return isinstance(self.new, xb.TupleShape)

    def is_token(self) -> bool:
        """Return whether this is the shape of a token."""
        return isinstance(self.new, xb.TokenShape)

    def is_static(self) -> bool:
        """Return whether all sizes are fixed."""
        return self.new.is_static

    def is_dynamic(self) -> bool:
        """Return whether a size is bounded."""
        return not self.new.is_static

    def _array(self, method: str) -> xb.ArrayShape:
        if isinstance(self.new, xb.ArrayShape):
            return self.new
        raise error_of(OperandError, method, "expected the shape of an array", got=self.new)

    def dimensions(self) -> tuple[int, ...]:
        """Return the sizes or their bounds."""
        return self._array("dimensions").dimensions

    def rank(self) -> int:
        """Return the number of dimensions."""
        return self._array("rank").rank

    @reporting("is_dynamic_dimension")
    def is_dynamic_dimension(self, dimension: int) -> bool:
        """Return whether a size is bounded."""
        return self._array("is_dynamic_dimension").dynamic_dimensions[dimension]

    @reporting("set_dynamic_dimension")
    def set_dynamic_dimension(self, dimension: int, is_dynamic: bool) -> None:
        """Change a size to a bound, or a bound to a size."""
        shape = self._array("set_dynamic_dimension")
        flags = list(shape.dynamic_dimensions)
        flags[dimension] = is_dynamic
        order = None if shape.layout is None else shape.layout.minor_to_major
        self.new = Shape.array_shape(
            old_type(shape.element_type), self.dimensions(), order, flags
        ).new

    def xla_element_type(self) -> PrimitiveType:
        """Return the PrimitiveType of an array's elements; TUPLE or TOKEN for other shapes."""
        if isinstance(self.new, xb.TupleShape):
            return PrimitiveType.TUPLE
        if isinstance(self.new, xb.TokenShape):
            return PrimitiveType.TOKEN
        return old_type(self.new.element_type)

    def element_type(self) -> np.dtype[Any]:
        """Return the NumPy dtype of an array's elements."""
        return self._array("element_type").element_type.dtype

    def numpy_dtype(self) -> np.dtype[Any]:
        """Return the NumPy dtype of an array's elements, and object for a tuple."""
        return np.dtype(object) if self.is_tuple() else self.element_type()

    def layout(self) -> Layout:
        """Return the layout of an array, possibly the default one."""
        shape = self._array("layout")
        return Layout.of(_default_layout(shape.rank) if shape.layout is None else shape.layout)

    def tuple_shapes(self) -> list[Shape]:
        """Return the shapes of a tuple's elements."""
        if isinstance(self.new, xb.TupleShape):
            return [Shape.of(element) for element in self.new.elements]
        rule = "expected the shape of a tuple"
        raise error_of(OperandError, "tuple_shapes", rule, got=self.new)

    def leaves(self) -> list[Shape]:
        """Return the shapes of the arrays and tokens."""
        if self.is_tuple():
            return [leaf for element in self.tuple_shapes() for leaf in element.leaves()]
        return [self]

    def leaf_count(self) -> int:
        """Return the number of arrays and tokens."""
        return len(self.leaves())

    def with_major_to_minor_layout_if_absent(self) -> Shape:
        """Return this shape: a shape without a layout has the default one."""
        return self

    def to_serialized_proto(self) -> bytes:
        """Return XLA's ShapeProto as bytes."""
        data = _number(2, int(self.xla_element_type()))
        if self.is_tuple():
            elements = [encoded_field(4, s.to_serialized_proto()) for s in self.tuple_shapes()]
            return data + b"".join(elements)
        if self.is_token():
            return data
        layout = self.layout().new
        if not layout.is_order_only:
            rule = "only the order of dimensions can be serialized"
            raise error_of(OperandError, "to_serialized_proto", rule, got=layout)
        order = _packed(1, layout.minor_to_major) + _number(16, 1)
        flags = map(int, self._array("to_serialized_proto").dynamic_dimensions)
        return data + _packed(3, self.dimensions()) + encoded_field(5, order) + _packed(6, flags)

    def __repr__(self) -> str:
        if isinstance(self.new, xb.TupleShape):
            return f"({', '.join(map(repr, self.tuple_shapes()))})"
        if isinstance(self.new, xb.TokenShape) or not self.new.rank:
            return str(self.new)
        return str(self.new.with_layout(self.layout().new))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shape) and self.new == other.new

    def __hash__(self) -> int:
        return hash(self.new)


def _number(number: int, value: int) -> bytes:
    """Return the encoding of a field of a protocol buffer whose value is a number."""
    return encoded_number(number << 3) + encoded_number(value)


def _packed(number: int, values: Iterable[int]) -> bytes:
    data = b"".join(map(encoded_number, values))
    return encoded_field(number, data) if data else b""


def _without_default_layouts(shape: xb.Shape) -> xb.Shape:
    if isinstance(shape, xb.TupleShape):
        return xb.tuple_shape([_without_default_layouts(element) for element in shape.elements])
    if isinstance(shape, xb.ArrayShape) and shape.layout is not None and shape.layout.is_default:
        return shape.with_layout(None)
    return shape


@reporting("shape_from_pyval")
def shape_from_pyval(pyval: Any, layout: Sequence[int] | None = None) -> Shape:
    """Return the shape of a NumPy array or scalar, or of a tuple of them.

    Example:
        >>> from lowering import xla_client as xc
        >>> xc.shape_from_pyval((np.float32(0), np.zeros((2, 3), np.int8)))
        (f32[], s8[2,3]{1,0})
    """
    if isinstance(pyval, tuple):
        return Shape.tuple_shape([shape_from_pyval(element) for element in pyval])
    return Shape.array_shape(pyval.dtype, np.shape(pyval), layout)


class ProgramShape:
    """The shapes of a computation's parameters and its result."""

    __slots__ = ("_parameters", "_result")

    def __init__(self, parameter_shapes: Iterable[Shape], result_shape: Shape) -> None:
        self._parameters = list(parameter_shapes)
        self._result = result_shape

    @classmethod
    def of(cls, new: xb.ProgramShape) -> ProgramShape:
        """Return the old form of a program shape of `builder`."""
        return cls([Shape.of(parameter) for parameter in new.parameters], Shape.of(new.result))

    def parameter_shapes(self) -> list[Shape]:
        """Return the shapes of the parameters."""
        return list(self._parameters)

    def result_shape(self) -> Shape:
        """Return the shape of the result."""
        return self._result

    def __repr__(self) -> str:
        parameters = ", ".join(f"p{i}: {shape.new}" for i, shape in enumerate(self._parameters))
        return f"({parameters}) -> {self._result.new}"


class ShapeIndex(tuple[int, ...]):
    """The position of an array in a tuple: the index in the tuple, in its element, and so on."""

    def __repr__(self) -> str:
        return f"{{{','.join(map(str, self))}}}"
