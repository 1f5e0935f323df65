"""Shapes of operands and results.

A shape is an array of one element type, a tuple of shapes, or a token. Shapes are interned: equal
shapes are one object, so they are compared and hashed by identity.

A dimension has a static size, an upper bound on a size fixed at run time (`<=5`), or no bound at
all (`?`).

Shapes and Layout. The text form is XLA's: ``f32[2,<=3]{1,0}``, ``(s32[], f32[4])``, ``token[]``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import islice
from math import prod
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from builder.errors import (
    OperandError,
    PrimitiveTypeError,
    ShapeInferenceError,
    ShapeTextError,
    XlaError,
    brief,
    error_of,
)
from builder.support.caches import InternTable, per_signature
from builder.support.frames import without_internal_frames
from builder.support.imports import extension
from builder.support.names import ExplainsAttributes
from builder.types import primitive_type as pt
from builder.types.layout import (
    MAX_DIMENSIONS,
    Layout,
    in_order,
    int_or_none,
    parse_layout,
    read_layout,
)
from builder.types.primitive_type import PrimitiveType, PrimitiveTypeLike
from builder.types.text_reader import TextReader

if TYPE_CHECKING:
    from builder.types.physical import LayoutFault, Physical

T = TypeVar("T")

UNBOUNDED: Final = -(2**63)
"""The value in `ArrayShape.dimensions` that marks an unbounded dimension, "?" in shape text.

XLA and MLIR use the same value. A size of -1, which is usually a mistake, is refused."""

MAX_ELEMENTS: Final = 2**63 - 1


class Bounded:
    """The size of a bounded dynamic dimension, returned by `bounded`."""

    __slots__ = ("bound",)

    def __init__(self, bound: int) -> None:
        self.bound = bound

    def __repr__(self) -> str:
        return f"<={self.bound}"


def bounded(bound: int) -> Bounded:
    """Return a dimension whose size is set at run time and is at most `bound`.

    Example:
        >>> import builder as xb
        >>> xb.f32[xb.bounded(5), 3]
        f32[<=5,3]
    """
    return Bounded(bound)


LayoutLike = Layout | str | Iterable[int]
"""A layout, its text, or its minor_to_major."""

DimensionLike = int | Bounded | str
"""A size, `bounded(n)` or "<=n", `UNBOUNDED` or "?"."""


class ArrayShape(ExplainsAttributes):
    """The shape of an array: element type, dimensions, and an optional layout.

    Created by ``f32[2, 3]``, `array_shape` or `parse_shape`. Equal shapes are one object.

    Attributes:
        element_type: the primitive type of the elements.
        dimensions: the size of each dimension; the bound of a bounded one, `UNBOUNDED` for an
            unbounded one.
        dynamic_dimensions: for each dimension, whether its size is set at run time.
        layout: the requested Layout, or None for the default.
        rank: the number of dimensions.
        is_static: whether no dimension is dynamic.
        is_bounded: whether no dimension is unbounded.
    """

    __slots__ = (
        "__weakref__",
        "_text",
        "dimensions",
        "dynamic_dimensions",
        "element_type",
        "is_bounded",
        "is_static",
        "layout",
        "rank",
    )

    element_type: PrimitiveType
    dimensions: tuple[int, ...]
    dynamic_dimensions: tuple[bool, ...]
    layout: Layout | None
    rank: int
    is_static: bool
    is_bounded: bool
    _text: str | None

    is_array: Final = True
    is_tuple: Final = False
    is_token: Final = False

    def __new__(cls, *_args: Any, **_kwargs: Any) -> ArrayShape:
        raise TypeError("make array shapes with f32[2, 3], array_shape(...) or parse_shape(...)")

    @property
    def element_count(self) -> int:
        """The number of elements, with dynamic dimensions at their bounds.

        Raises:
            ShapeInferenceError: a dimension is unbounded.
        """
        return self._element_count("element_count")

    def _element_count(self, caller: str) -> int:
        if not self.is_bounded:
            raise ShapeInferenceError(f"{self} has an unbounded dimension", op=caller)
        return prod(self.dimensions)

    @property
    def is_scalar(self) -> bool:
        """Whether the array has no dimensions."""
        return not self.dimensions

    @property
    def true_rank(self) -> int:
        """The number of dimensions larger than 1, including unbounded ones.

        Shapes and Layout: Terminology, notation, and conventions.
        """
        return sum(size > 1 or size == UNBOUNDED for size in self.dimensions)

    def dimension_number(self, dimension: int) -> int:
        """Return a dimension number as non-negative: -1 is the last dimension.

        Ops do not accept negative dimension numbers.

        Raises:
            ShapeInferenceError: the shape has no such dimension.

        Example:
            >>> import builder as xb
            >>> xb.f32[5, 6, 7].dimension_number(-1)
            2
        """
        number = int_or_none(dimension)
        if number is None or not -self.rank <= number < self.rank:
            raise ShapeInferenceError(
                f"{self} has no dimension {brief(dimension)}",
                op="dimension_number",
                fix=f"pass one from {-self.rank} to {self.rank - 1}" if self.rank else "",
            )
        return number % self.rank

    @property
    def element_size_in_bits(self) -> int:
        """The bits of an element in memory: from the layout, or the type's width in full bytes."""
        bits = 0 if self.layout is None else self.layout.element_size_in_bits
        return bits or 8 * self.element_type.byte_width

    @property
    def byte_size(self) -> int:
        """The number of bytes of the unpadded elements, with bounded dimensions at their bounds.

        Raises:
            ShapeInferenceError: a dimension is unbounded.

        Example:
            >>> import builder as xb
            >>> xb.parse_shape("f32[3,5]{1,0:T(2,2)}").byte_size
            60
        """
        return -(-self._element_count("byte_size") * self.element_size_in_bits // 8)

    @property
    def padded_byte_size(self) -> int:
        """The number of bytes of the buffer, including the padding of the layout and its tiles.

        Raises:
            ShapeInferenceError: a dimension is unbounded.

        Example:
            >>> import builder as xb
            >>> xb.parse_shape("f32[3,5]{1,0:T(2,2)}").padded_byte_size
            96
        """
        count = self._element_count("padded_byte_size")
        if self.layout is not None and not self.layout.is_order_only:
            count = self._physical(self.layout).size
        return -(-count * self.element_size_in_bits // 8)

    @without_internal_frames
    def with_element_type(self, element_type: PrimitiveType) -> ArrayShape:
        """Return the same dimensions and layout with another element type.

        Raises:
            PrimitiveTypeError: `element_type` is not an element type.
            ShapeInferenceError: the layout's element size is smaller than the type's.
        """
        if not isinstance(element_type, PrimitiveType):
            element_type = pt.element_type_argument("shape", "element_type", element_type)
        shape = of_same_sizes(self, element_type)
        return shape if self.layout is None else shape.with_layout(self.layout)

    def at_bounds(self) -> ArrayShape:
        """Return the static shape whose sizes are the bounds; the layout is unchanged.

        Raises:
            ShapeInferenceError: a dimension is unbounded.
        """
        self._element_count("at_bounds")
        return intern_array(self.element_type, self.dimensions, None, self.layout)

    @without_internal_frames
    def with_layout(self, layout: LayoutLike | None) -> ArrayShape:
        """Return the same shape with another layout.

        Args:
            layout: a Layout, its text, its minor_to_major, or None for the default layout.

        Raises:
            ShapeInferenceError: the layout has another rank, a padded size smaller than the
                dimension, an element size smaller than the type's, or needs a buffer of 2**63
                elements or more.
        """
        if layout is not None:
            if isinstance(layout, str):
                layout = parse_layout(layout)
            elif not isinstance(layout, Layout):
                layout = Layout(layout)
            # An interned shape has been checked before.
            key = (self.element_type, self.dimensions, self.dynamic_dimensions, layout)
            interned = _INTERNED.find(key)
            if interned is not None:
                return interned
            fault = self._layout_fault(layout)
            if fault is not None:
                raise ShapeInferenceError(
                    fault.message,
                    op="layout",
                    shapes={"shape": self},
                    dimension=fault.dimension,
                )
        return intern_array(self.element_type, self.dimensions, self.dynamic_dimensions, layout)

    def _physical(self, layout: Layout) -> Physical:
        return extension("builder.types.physical", "physical", self.dimensions, layout)

    def _layout_fault(self, layout: Layout) -> LayoutFault | None:
        """Return why a layout does not fit, or None if it does."""
        if layout.is_order_only and len(layout.minor_to_major) == self.rank:
            return None
        return extension("builder.types.physical", "layout_fault", layout, self)

    def dimension_text(self, dimension: int) -> str:
        """Return the text of one dimension: "3", "<=3" or "?"."""
        try:
            size = self.dimensions[dimension]
        except (IndexError, TypeError):
            raise ShapeInferenceError(
                f"dimension must be a dimension of {self}",
                got=brief(dimension),
                op="dimension_text",
            ) from None
        if not self.dynamic_dimensions[dimension]:
            return str(size)
        return "?" if size == UNBOUNDED else f"<={size}"

    if not TYPE_CHECKING:  # type checkers report these uses

        def __getitem__(self, index: Any) -> NoReturn:
            raise self._not_a_sequence()

        def __len__(self) -> NoReturn:
            raise self._not_a_sequence()

        def __bool__(self) -> bool:  # without it, Python would call `__len__`
            return True

    def _not_a_sequence(self) -> OperandError:
        rule = "the shape of an array is not a sequence"
        fix = "use shape.dimensions for the sizes, shape.rank for their number"
        if has_unbounded_sizes(self):
            fix += "; xb.get_dimension_size(x, 0) is a size at run time"
        return error_of(OperandError, "shape", rule, fix, got=self, shapes={"shape": self})

    def __str__(self) -> str:
        # Composed when it is first needed: most shapes of a graph are never shown.
        if self._text is None:
            self._text = self._composed_text()
        return self._text

    __repr__ = __str__

    def _composed_text(self) -> str:
        sizes = ",".join([self.dimension_text(i) for i in range(self.rank)])
        order = "" if self.layout is None else repr(self.layout)
        return f"{self.element_type.name}[{sizes}]{order}"

    def _repr_svg_(self) -> str | None:
        """Return an SVG picture of the layout, which notebooks show, or None without a layout."""
        if self.layout is None or not self.is_bounded:
            return None
        picture: Any = extension("builder.layout.drawing", "draw", self)
        return str(picture.svg())

    def __reduce__(self) -> tuple[Any, ...]:
        return (
            intern_array,
            (self.element_type, self.dimensions, self.dynamic_dimensions, self.layout),
        )


class TupleShape:
    """The shape of a tuple, whose elements may be tuples.

    Equal tuple shapes are one object, so a comparison does not descend into elements.

    Attributes:
        elements: the shapes of the elements.
        leaf_count: the number of arrays and tokens in the tuple and its nested tuples.
        nesting: the number of tuples around the innermost element: 1 if no element is a tuple.
        is_static: whether no dimension of any array is dynamic.
        has_layout: whether any array has a layout.
    """

    __slots__ = ("__weakref__", "elements", "has_layout", "is_static", "leaf_count", "nesting")

    elements: tuple[Shape, ...]
    leaf_count: int
    nesting: int
    is_static: bool
    has_layout: bool

    is_array: Final = False
    is_tuple: Final = True
    is_token: Final = False
    element_type: Final = pt.TUPLE

    def __new__(cls, elements: Iterable[Shape]) -> TupleShape:
        parts: tuple[Any, ...] = tuple(elements) if hasattr(elements, "__iter__") else (elements,)
        for part in parts:
            if not isinstance(part, (ArrayShape, TupleShape, TokenShape)):
                raise OperandError("tuple shape: elements must be shapes", got=brief(part))
        # The key has ids, so that the entry of a freed tuple does not keep its elements alive. The
        # elements of a tuple in use are in use, so no other shapes have their addresses.
        key = tuple(map(id, parts))
        interned = _INTERNED_TUPLES.find(key)
        if interned is not None:
            return interned
        shape = object.__new__(cls)
        shape.elements = parts
        shape.leaf_count = sum(leaf_count(p) for p in parts)
        shape.nesting = 1 + max((p.nesting for p in parts if isinstance(p, TupleShape)), default=0)
        shape.is_static = all(p.is_static for p in parts)
        shape.has_layout = any(
            p.has_layout
            if isinstance(p, TupleShape)
            else isinstance(p, ArrayShape) and p.layout is not None
            for p in parts
        )
        return _INTERNED_TUPLES.intern(key, shape)

    def __str__(self) -> str:
        return nested_text(self)

    __repr__ = __str__

    def __len__(self) -> int:
        return len(self.elements)

    if not TYPE_CHECKING:  # type checkers report this use

        def __getitem__(self, index: Any) -> NoReturn:
            rule = "the shape of a tuple is not a sequence"
            fix = "use shape.elements for the shapes of the elements"
            raise error_of(OperandError, "shape", rule, fix, got=self, shapes={"shape": self})

    def __reduce__(self) -> tuple[Any, ...]:
        return (TupleShape, (self.elements,))


class TokenShape:
    """The shape of a token, a value without data that orders side effects; see `TOKEN_SHAPE`."""

    __slots__ = ()

    is_array: Final = False
    is_tuple: Final = False
    is_token: Final = True
    is_static: Final = True
    element_type: Final = pt.TOKEN

    def __str__(self) -> str:
        return "token[]"

    __repr__ = __str__

    def __reduce__(self) -> str:
        return "TOKEN_SHAPE"


TOKEN_SHAPE: Final = TokenShape()

Shape = ArrayShape | TupleShape | TokenShape
ShapeLike = Shape | str | Sequence[Any]
"""A shape, its text, or a sequence of shapes for a tuple."""

_INTERNED: Final = InternTable[ArrayShape]()
_INTERNED_TUPLES: Final = InternTable[TupleShape]()


@cache
def static(rank: int) -> tuple[bool, ...]:
    """Return the `dynamic_dimensions` of a static shape of this rank: all False."""
    return (False,) * rank


def intern_array(
    element_type: PrimitiveType,
    dimensions: tuple[int, ...],
    dynamic_dimensions: tuple[bool, ...] | None = None,
    layout: Layout | None = None,
) -> ArrayShape:
    """Return the interned array shape with these attributes, which the caller must have checked."""
    if dynamic_dimensions is None:
        dynamic_dimensions = static(len(dimensions))
    key = (element_type, dimensions, dynamic_dimensions, layout)
    interned = _INTERNED.find(key)
    if interned is not None:
        return interned
    if layout is not None and not dimensions and layout.is_default:
        # XLA prints "f32[]" and does not parse "f32[]{}".
        return intern_array(element_type, dimensions, dynamic_dimensions)
    shape = object.__new__(ArrayShape)
    shape.element_type = element_type
    shape.dimensions = dimensions
    shape.dynamic_dimensions = dynamic_dimensions
    shape.layout = layout
    shape.rank = len(dimensions)
    shape.is_static = True not in dynamic_dimensions
    shape.is_bounded = UNBOUNDED not in dimensions
    shape._text = None
    return _INTERNED.intern(key, shape)


def has_too_many_elements(sizes: Iterable[int]) -> bool:
    """Return whether an array of these sizes has more than `MAX_ELEMENTS`; zeros are ignored."""
    count = 1
    for size in sizes:
        if size > 0:
            count *= size
            if count > MAX_ELEMENTS:  # a product of thousands of sizes would take seconds
                return True
    return False


def of_same_sizes(array: ArrayShape, element_type: PrimitiveType) -> ArrayShape:
    """Return the shape with the sizes of `array` and `element_type`, in the default layout."""
    if element_type is array.element_type and array.layout is None:
        return array  # the usual case, which needs no key
    return intern_array(element_type, array.dimensions, array.dynamic_dimensions)


def _dimension(size: DimensionLike, element_type: PrimitiveType) -> tuple[int, bool]:
    if isinstance(size, Bounded):
        bound, dynamic = _integer(size.bound, element_type), True
    elif isinstance(size, str):
        text = size.strip()
        if text == "?":
            return UNBOUNDED, True
        dynamic = text.startswith("<=")
        number = text[2:] if dynamic else text
        if not (number.isdecimal() and number.isascii()):
            raise ShapeInferenceError(
                f"{brief(size)} is not a dimension; a dimension is a size, '<=n' or '?'", op="shape"
            )
        bound = int(number)
    else:
        bound, dynamic = _integer(size, element_type), False
        if bound == UNBOUNDED:
            return UNBOUNDED, True
    if bound < 0:
        raise ShapeInferenceError(
            f"a dimension of {element_type}[...] can't be negative",
            op="shape",
            got=str(bound),
            fix="write '?' for an unbounded dimension" if bound == -1 else "",
        )
    if bound > MAX_ELEMENTS:
        raise ShapeInferenceError(
            f"a dimension of {element_type}[...] must fit 63 bits",
            got=f"{bound.bit_length()} bits",
            op="shape",
        )
    return bound, dynamic


def _integer(size: Any, element_type: PrimitiveType) -> int:
    number = int_or_none(size)
    if number is None:
        raise ShapeInferenceError(
            f"a dimension of {element_type}[...] must be an integer, bounded(n), '<=n' or '?'",
            got=brief(size),
            fix="write '?' for a size that is known only when the program runs"
            if size is None or hasattr(size, "opcode")
            else "",
            op="shape",
        )
    return number


@without_internal_frames
def array_shape(
    element_type: PrimitiveTypeLike,
    dimensions: Iterable[DimensionLike] = (),
    *,
    dynamic_dimensions: Iterable[bool] | None = None,
    layout: LayoutLike | None = None,
) -> ArrayShape:
    """Return the shape of an array.

    Args:
        element_type: a primitive type, its name, or a NumPy type.
        dimensions: sizes; `bounded(n)` or "<=n" for a bounded one, `UNBOUNDED` or "?" for an
            unbounded one.
        dynamic_dimensions: for each dimension, whether its size is a bound.
        layout: a Layout, its text, or its minor_to_major; None for the default.

    Raises:
        ShapeInferenceError: a size is negative or not an integer, the element count exceeds
            2**63 - 1, or the layout does not fit.

    Example:
        >>> import builder as xb
        >>> xb.array_shape("f32", [2, "<=3"], layout=[0, 1])
        f32[2,<=3]{0,1}
    """
    element = pt.element_type_argument("shape", "element_type", element_type)
    if type(dimensions) is tuple and dynamic_dimensions is None and layout is None:
        # The common case: sizes that need no conversion.
        for size in dimensions:
            if type(size) is not int:
                break
        else:
            interned = _INTERNED.find((element, dimensions, static(len(dimensions)), None))
            if interned is not None:
                return interned
            is_usual = len(dimensions) < MAX_DIMENSIONS and min(dimensions, default=1) >= 0
            if is_usual and element.is_array_element and not has_too_many_elements(dimensions):
                return intern_array(element, dimensions)
    if not element.is_array_element:
        raise ShapeInferenceError(f"{element} is not an element type of arrays", op="shape")
    values = in_order(dimensions)
    requested = None if values is None else list(islice(values, MAX_DIMENSIONS))
    if requested is None or len(requested) == MAX_DIMENSIONS:
        raise ShapeInferenceError(
            "dimensions must be a sequence of sizes",
            got=brief(dimensions),
            op="shape",
            fix=f"write [{brief(dimensions)}]",
        )
    flags = [False] * len(requested)
    if dynamic_dimensions is not None:
        try:
            flags = [bool(d) for d in islice(dynamic_dimensions, MAX_DIMENSIONS)]
        except (TypeError, ValueError):
            raise ShapeInferenceError(
                "dynamic_dimensions must be a sequence of bools",
                got=brief(dynamic_dimensions),
                op="shape",
            ) from None
        if len(flags) != len(requested):
            raise ShapeInferenceError(
                f"dynamic_dimensions must have one entry for each dimension: {len(requested)}",
                got=len(flags),
                op="shape",
            )
    pairs = [_dimension(d, element) for d in requested]
    sizes = tuple(size for size, _ in pairs)
    dynamic = tuple(is_dynamic or flag for (_, is_dynamic), flag in zip(pairs, flags, strict=True))
    if has_too_many_elements(sizes):
        text = ",".join("?" if size == UNBOUNDED else str(size) for size in sizes)
        raise ShapeInferenceError(f"{element}[{text}] has more than 2**63 - 1 elements", op="shape")
    shape = intern_array(element, sizes, dynamic)
    return shape if layout is None else shape.with_layout(layout)


@without_internal_frames
def tuple_shape(elements: Iterable[ShapeLike]) -> TupleShape:
    """Return the shape of a tuple.

    Example:
        >>> import builder as xb
        >>> xb.tuple_shape([xb.s32[()], "f32[2]"])
        (s32[], f32[2])
    """
    return TupleShape(_shapes("tuple_shape", "element", elements))


def _shapes(op: str, name: str, values: Iterable[ShapeLike]) -> list[Shape]:
    """Convert each value to a shape; `name` is the singular name of the argument."""
    entries = in_order(values)
    if entries is None:
        rule = f"{name}s must be a sequence of shapes"
        raise OperandError(rule, got=brief(values), op=op)
    return [shape_argument(op, f"{name} {i}", value) for i, value in enumerate(entries)]


def leaves(shape: Shape) -> Iterator[ArrayShape | TokenShape]:
    """Yield the array and token shapes of `shape`, left to right, descending into tuples."""
    stack = [shape]
    while stack:
        top = stack.pop()
        if isinstance(top, TupleShape):
            stack.extend(reversed(top.elements))
        else:
            yield top


def leaf_count(shape: Shape) -> int:
    """Return the number of array and token shapes in `shape`."""
    return shape.leaf_count if isinstance(shape, TupleShape) else 1


def without_layout(shape: Shape) -> Shape:
    """Return `shape` with every array in the default layout.

    Example:
        >>> from builder.types.shape import parse_shape, without_layout
        >>> without_layout(parse_shape("(f32[2,3]{0,1}, s32[])"))
        (f32[2,3], s32[])
    """
    if isinstance(shape, ArrayShape):
        return shape if shape.layout is None else shape.with_layout(None)
    if not isinstance(shape, TupleShape) or not shape.has_layout:
        return shape
    return fold(shape, without_layout, TupleShape)


def fold(
    shape: Shape, leaf: Callable[[ArrayShape | TokenShape], T], join: Callable[[list[T]], T]
) -> T:
    """Compute a value from a shape: `leaf` of an array or token, `join` of the values of a tuple.

    The argument of `join` is a list with the value of each element. The function is iterative,
    because tuples may be nested deeper than Python's recursion limit.
    """
    if not isinstance(shape, TupleShape):
        return leaf(shape)
    stack: list[tuple[Iterator[Shape], list[T]]] = [(iter(shape.elements), [])]
    while True:
        remaining, values = stack[-1]
        for element in remaining:
            if isinstance(element, TupleShape):
                stack.append((iter(element.elements), []))
                break
            values.append(leaf(element))
        else:
            stack.pop()
            value = join(values)
            if not stack:
                return value
            stack[-1][1].append(value)


def element_at(shape: Shape, index: Iterable[int]) -> Shape | None:
    """Return the shape at an index of a nested tuple; None if there is no such element."""
    part: Shape | None = shape
    for number in index:
        elements = part.elements if isinstance(part, TupleShape) else ()
        part = elements[number] if 0 <= number < len(elements) else None
    return part


def nested_text(shape: Shape, leaf_text: Callable[[ArrayShape | TokenShape], str] = str) -> str:
    """Return the text of a shape, with each array or token formatted by `leaf_text`.

    The function is iterative, because tuples may be nested deeper than Python's recursion limit.
    """
    parts: list[str] = []
    stack: list[Shape | str] = [shape]
    while stack:
        top = stack.pop()
        if isinstance(top, TupleShape):
            stack.append(")")
            for index in range(len(top.elements) - 1, -1, -1):
                stack.append(top.elements[index])
                if index:
                    stack.append(", ")
            stack.append("(")
        else:
            parts.append(top if isinstance(top, str) else leaf_text(top))
    return "".join(parts)


class ProgramShape:
    """The signature of a computation: parameter shapes, parameter names and result shape.

    Args:
        parameters, result: shapes, or their text.
        parameter_names: strings; "p0", "p1", ... by default.

    Raises:
        OperandError: an argument has another type.
        ShapeInferenceError: the number of names differs from the number of parameters.

    Attributes:
        parameters: the parameter shapes, by parameter number.
        parameter_names: the parameter names.
        result: the shape of the root.
        without_layouts: the same signature in default layouts, or None if all layouts are default.
    """

    __slots__ = ("_hash", "parameter_names", "parameters", "result", "without_layouts")

    parameters: tuple[Shape, ...]
    parameter_names: tuple[str, ...]
    result: Shape
    without_layouts: ProgramShape | None

    @without_internal_frames
    def __init__(
        self, parameters: Iterable[Shape], result: Shape, parameter_names: Iterable[str] = ()
    ) -> None:
        self.parameters = tuple(_shapes("ProgramShape", "parameter", parameters))
        try:
            names = None if isinstance(parameter_names, str) else tuple(parameter_names)
        except TypeError:
            names = None
        if names is None or not all(isinstance(n, str) for n in names):
            raise OperandError(
                "parameter_names must be a sequence of strings",
                got=brief(parameter_names),
                op="ProgramShape",
            )
        self.parameter_names = names or tuple(f"p{i}" for i in range(len(self.parameters)))
        self.result = shape_argument("ProgramShape", "result", result)
        # Computed once, because signatures are keys of caches.
        self._hash = hash((self.parameters, self.result))
        if len(self.parameter_names) != len(self.parameters):
            raise ShapeInferenceError(
                "the number of names must equal the number of parameters",
                got=f"{len(self.parameter_names)} names for {len(self.parameters)} parameters",
                op="ProgramShape",
            )
        default = tuple(map(without_layout, self.parameters)), without_layout(self.result)
        self.without_layouts = (
            None
            if default == (self.parameters, self.result)
            else ProgramShape(*default, self.parameter_names)
        )

    def __eq__(self, other: object) -> bool:
        """Compare the shapes and ignore the names."""
        return (
            isinstance(other, ProgramShape)
            and self.parameters == other.parameters
            and self.result == other.result
        )

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        inputs = ", ".join(
            f"{n}: {s}" for n, s in zip(self.parameter_names, self.parameters, strict=True)
        )
        return f"({inputs}) -> {self.result}"

    __repr__ = __str__


@per_signature
def interned_program_shape(
    parameters: tuple[Shape, ...], result: Shape, parameter_names: tuple[str, ...]
) -> ProgramShape:
    """Return one ProgramShape for all computations with the same signature."""
    return ProgramShape(parameters, result, parameter_names)


class _Parser(TextReader):
    """A parser of XLA's shape text, iterative for nested tuples."""

    __slots__ = ()

    def __init__(self, text: str) -> None:
        super().__init__(text, "shape text")

    def array(self) -> Shape:
        if not (self.token[:1].isalpha() or self.token[:1] == "_"):
            raise self.fail("an element type or '('")
        start, name = self.start, self.advance().lower()
        if name == "token":
            self.expect("[")
            self.expect("]")
            return TOKEN_SHAPE
        try:
            element_type = pt.from_name(name)
        except PrimitiveTypeError as error:
            meant = pt.meant_type(name)
            if meant is None:
                raise self.fault(error.rule, start) from None
            corrected = f"{self.text[:start]}{meant}{self.text[start + len(name) :]}"
            rule = f"unknown primitive type {brief(name)}"
            raise self.fault(rule, start, f"write {brief(corrected)}") from None
        if self.token != "[":
            fix = f"write '{name}[]' for a scalar, '{name}[2,3]' for an array"
            raise self.fail("'['", fix)
        self.advance()
        sizes: list[DimensionLike] = []
        while self.token != "]":
            if sizes:
                self.expect(",")
            if self.token == "?":
                self.advance()
                sizes.append("?")
            elif self.token == "<=":
                self.advance()
                sizes.append(Bounded(self.number("a bound")))
            else:
                sizes.append(self.number("a size, '<=n' or '?'"))
        self.advance()
        try:
            shape = array_shape(element_type, sizes)
        except ShapeInferenceError as error:
            raise error._as_kind(ShapeTextError, text=self.text, position=start) from None
        if self.token != "{":
            return shape
        layout, places = read_layout(self)
        fault = shape._layout_fault(layout)
        if fault is not None:
            raise ShapeTextError(
                fault.message,
                op="layout",
                text=self.text,
                position=places[fault.part][fault.item],
            )
        return intern_array(shape.element_type, shape.dimensions, shape.dynamic_dimensions, layout)

    def shape(self) -> Shape:
        """Parse one shape, with the elements of unfinished tuples on a stack."""
        open_tuples: list[list[Shape]] = []
        while True:
            value: Shape
            if self.token == "(":
                self.advance()
                open_tuples.append([])
                if self.token != ")":
                    continue
                self.advance()
                value = TupleShape(open_tuples.pop())
            else:
                value = self.array()
            while open_tuples:
                open_tuples[-1].append(value)
                if self.token == ",":
                    self.advance()
                    break
                if self.token != ")":
                    raise self.fail("',' or ')'")
                self.advance()
                value = TupleShape(open_tuples.pop())
            else:
                return value


@without_internal_frames
def parse_shape(text: str) -> Shape:
    """Parse a shape in XLA's text form.

    Args:
        text: for instance ``"f32[2,<=3]{1,0}"``, ``"(s32[], f32[?])"`` or ``"token[]"``.

    Raises:
        ShapeTextError: the text is malformed; the error has the position.
        OperandError: `text` is not a string.

    Example:
        >>> import builder as xb
        >>> xb.parse_shape("(s32[], f32[2,<=3]{1,0})")
        (s32[], f32[2,<=3]{1,0})
    """
    if not isinstance(text, str):
        raise OperandError("expected a shape's text", got=brief(text), op="parse_shape")
    parser = _Parser(text)
    shape = parser.shape()
    parser.end()
    return shape


_parsed = lru_cache(maxsize=4096)(parse_shape)


_EXPECTED: Final = (
    "expected a shape such as f32[2, 3], its text 'f32[2,3]', or a sequence of shapes"
)


def shape_of(value: ShapeLike) -> Shape:
    """Convert `value` to a shape: a shape, its text, or a sequence of these for a tuple.

    Raises:
        OperandError: `value` has another type.
        ShapeTextError: the text is malformed.
    """
    if isinstance(value, (ArrayShape, TupleShape, TokenShape)):
        return value
    if isinstance(value, str):
        return _parsed(value) if type(value) is str else parse_shape(value)
    if isinstance(value, PrimitiveType):
        raise OperandError(
            "expected a shape",
            got=f"the element type {value}",
            fix=f"write xb.{value}[2, 3] with the sizes, or xb.{value}[()] for a scalar",
        )
    if isinstance(value, Sequence):
        if isinstance(next(iter(value), None), int):
            sizes = brief(list(islice(value, 8)))
            raise OperandError(
                f"{_EXPECTED}",
                got=f"sizes without an element type: {brief(value)}",
                fix=f"write the element type, too, for instance xb.f32{sizes}",
            )
        try:
            return TupleShape(shape_of(e) for e in value)
        except RecursionError:
            raise OperandError(
                "expected a shape", got="sequences that are nested too deep or contain themselves"
            ) from None
    meant = _meant_shape(value)
    raise OperandError(_EXPECTED, got=brief(value), fix=f"write {meant}" if meant else "")


def _meant_shape(value: Any) -> str:
    """Return what to write instead of an array, a data type, a size or a dict, or ""."""
    if isinstance(value, Mapping):
        return "a list of the shapes, or call the function through lowering.jit, which takes dicts"
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0:
            return "a shape, for instance xb.f32[2, 3]"
        return f"the element type, too, for instance xb.s32[{brief(value)}]"
    sizes = getattr(value, "shape", None)
    try:
        if isinstance(sizes, tuple):
            element_type = pt.from_dtype(value.dtype)
            inside = ", ".join(map(str, sizes)) or "()"
            return f"its shape: xb.{element_type}[{inside}]"
        return f"the sizes, too, for instance xb.{pt.from_dtype(value)}[2, 3]"
    except (PrimitiveTypeError, AttributeError):
        return ""


def shape_argument(op: str, name: str, value: Any) -> Shape:
    """Convert argument `name` of `op` with `shape_of`; errors name the op and the argument."""
    try:
        return shape_of(value)
    except XlaError as error:
        raise error._in_argument(op, name) from None


def has_unbounded_sizes(shape: Shape) -> bool:
    """Return whether an array, or a leaf of a tuple, has an unbounded size."""
    return any(isinstance(leaf, ArrayShape) and not leaf.is_bounded for leaf in leaves(shape))
