"""Shapes: what an op takes and gives, before any value is known.

A shape is an array of one element type, a tuple of shapes, or a token. Shapes are interned: two
equal shapes are one object, so that comparing and hashing them costs nothing.

A dimension is a size, a bound (`<=5`: a size known at run time to be at most 5), or unbounded
(`?`: a size that nothing is known of).

Shapes and Layout. The text form is XLA's: ``f32[2,<=3]{1,0}``, ``(s32[], f32[4])``, ``token[]``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from math import prod
from typing import Any, Final

from builder.errors import OperandError, ShapeInferenceError, ShapeTextError, XlaError, brief
from builder.support.extensions import extension
from builder.support.interning import InternTable
from builder.support.signatures import per_signature
from builder.types import primitive_type as pt
from builder.types.layout import MOST_DIMENSIONS, Layout, int_or_none
from builder.types.layout_text import parse_layout, read_layout
from builder.types.physical_layout import physical
from builder.types.primitive_type import PrimitiveType, PrimitiveTypeLike
from builder.types.text_reader import TextReader

__all__ = [
    "TOKEN_SHAPE",
    "UNBOUNDED",
    "ArrayShape",
    "Bounded",
    "ProgramShape",
    "Shape",
    "ShapeLike",
    "TokenShape",
    "TupleShape",
    "array_shape",
    "bounded",
    "leaves",
    "parse_shape",
    "shape_argument",
    "shape_of",
    "tuple_shape",
    "without_layout",
]

UNBOUNDED: Final = -1
"""What stands for the size of an unbounded dimension in `ArrayShape.dimensions`.

Where sizes are given it is written "?": a size of -1 is refused, since it is more often a slip."""

MAX_ELEMENTS: Final = 2**63 - 1


class Bounded:
    """The size of a bounded dynamic dimension: at most `bound`. Made by `bounded`."""

    __slots__ = ("bound",)

    def __init__(self, bound: int) -> None:
        self.bound = bound

    def __repr__(self) -> str:
        return f"<={self.bound}"


def bounded(bound: int) -> Bounded:
    """A dimension whose size is known only at run time and is at most `bound`.

    Example:
        >>> import builder as xb
        >>> xb.f32[xb.bounded(5), 3]
        f32[<=5,3]
    """
    return Bounded(bound)


LayoutLike = Layout | str | Iterable[int]
"""A layout, its text, or minor_to_major alone."""

DimensionLike = int | Bounded | str
"""A size, `bounded(n)` or "<=n", or "?"."""


class ArrayShape:
    """The shape of an array: element type, sizes, and a layout if one was asked for.

    Make one with ``f32[2, 3]``, `array_shape` or `parse_shape`. Equal shapes are one object.

    Attributes:
        element_type: the primitive type of the elements.
        dimensions: the sizes; of a bounded dimension the bound, of an unbounded one `UNBOUNDED`.
        dynamic_dimensions: for each dimension whether its size is known only at run time.
        layout: the Layout asked for, or None for the default.
        rank: number of dimensions.
        is_static: no dimension is dynamic.
        is_bounded: no dimension is unbounded.
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
    _text: str

    is_array: Final = True
    is_tuple: Final = False
    is_token: Final = False

    def __new__(cls, *_args: Any, **_kwargs: Any) -> ArrayShape:
        raise TypeError("make array shapes with f32[2, 3], array_shape(...) or parse_shape(...)")

    @property
    def element_count(self) -> int:
        """Number of elements, dynamic dimensions counted at their bounds.

        Raises:
            ShapeInferenceError: a dimension is unbounded.
        """
        return self._counted("element_count")

    def _counted(self, asked: str) -> int:
        if not self.is_bounded:
            raise ShapeInferenceError(f"{asked}: {self} has an unbounded dimension")
        count = 1
        for size in self.dimensions:
            count *= size
        return count

    @property
    def is_scalar(self) -> bool:
        return not self.dimensions

    @property
    def true_rank(self) -> int:
        """Number of dimensions larger than 1, unbounded ones counted.

        Shapes and Layout: Terminology, notation, and conventions.
        """
        return sum(size > 1 or size == UNBOUNDED for size in self.dimensions)

    def dimension_number(self, dimension: int) -> int:
        """The number of a dimension that may be counted from the end: -1 is the last.

        Ops themselves take no negative numbers.

        Raises:
            ShapeInferenceError: there is no such dimension.

        Example:
            >>> import builder as xb
            >>> xb.f32[5, 6, 7].dimension_number(-1)
            2
        """
        number = int_or_none(dimension)
        if number is None or not -self.rank <= number < self.rank:
            raise ShapeInferenceError(
                f"dimension_number: {self} has no dimension {brief(dimension)}"
                + (f"\nfix: one from {-self.rank} to {self.rank - 1}" if self.rank else "")
            )
        return number % self.rank

    @property
    def element_size_in_bits(self) -> int:
        """Bits that an element takes in memory: the layout's, or else those of whole bytes."""
        asked = 0 if self.layout is None else self.layout.element_size_in_bits
        return asked or 8 * self.element_type.byte_width

    @property
    def byte_size(self) -> int:
        """Bytes of the elements alone, bounded dimensions counted at their bounds.

        Raises:
            ShapeInferenceError: a dimension is unbounded.

        Example:
            >>> import builder as xb
            >>> xb.parse_shape("f32[3,5]{1,0:T(2,2)}").byte_size
            60
        """
        return -(-self._counted("byte_size") * self.element_size_in_bits // 8)

    @property
    def padded_byte_size(self) -> int:
        """Bytes of the buffer, with all that the layout's padding and tiles add.

        Raises:
            ShapeInferenceError: a dimension is unbounded.

        Example:
            >>> import builder as xb
            >>> xb.parse_shape("f32[3,5]{1,0:T(2,2)}").padded_byte_size
            96
        """
        count = self._counted("padded_byte_size")
        if self.layout is not None:
            count = physical(self.dimensions, self.layout).size
        return -(-count * self.element_size_in_bits // 8)

    def with_element_type(self, element_type: PrimitiveType) -> ArrayShape:
        """The same sizes with elements of another type; the layout is kept.

        Raises:
            PrimitiveTypeError: no element type.
            ShapeInferenceError: the layout's elements are of fewer bits than the type has.
        """
        if not isinstance(element_type, PrimitiveType):
            element_type = pt.element_type_argument("shape", "element_type", element_type)
        made = intern_array(element_type, self.dimensions, self.dynamic_dimensions, None)
        return made if self.layout is None else made.with_layout(self.layout)

    def at_bounds(self) -> ArrayShape:
        """The same array with its bounds as fixed sizes; the layout is kept.

        Raises:
            ShapeInferenceError: a dimension is unbounded.
        """
        if not self.is_bounded:
            raise ShapeInferenceError(f"at_bounds: {self} has an unbounded dimension")
        return intern_array(self.element_type, self.dimensions, None, self.layout)

    def with_layout(self, layout: LayoutLike | None) -> ArrayShape:
        """The same array with another layout, or with None for the default one.

        Args:
            layout: a Layout, its text, or minor_to_major alone.

        Raises:
            ShapeInferenceError: it does not fit the array: another rank, a padded size smaller
                than the dimension, elements of fewer bits than the type has, a buffer of 2**63
                elements or more.
        """
        if layout is not None:
            if isinstance(layout, str):
                layout = parse_layout(layout)
            elif not isinstance(layout, Layout):
                layout = Layout(layout)
            # One that was made before fits.
            key = (self.element_type, self.dimensions, self.dynamic_dimensions, layout)
            found = _INTERNED.find(key)
            if found is not None:
                return found
            fault = _misfit(layout, self)
            if fault is not None:
                raise ShapeInferenceError(
                    f"layout: {fault.what}",
                    op="layout",
                    shapes={"shape": self},
                    dimension=fault.dimension,
                )
        return intern_array(self.element_type, self.dimensions, self.dynamic_dimensions, layout)

    def dimension_text(self, dimension: int) -> str:
        """One dimension as it stands in the shape's text: "3", "<=3" or "?"."""
        try:
            size = self.dimensions[dimension]
        except (IndexError, TypeError):
            raise ShapeInferenceError(
                f"dimension_text: dimension must be one of {self}, got {brief(dimension)}"
            ) from None
        if not self.dynamic_dimensions[dimension]:
            return str(size)
        return "?" if size == UNBOUNDED else f"<={size}"

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__

    def _repr_svg_(self) -> str | None:
        """What notebooks show of a shape with a layout, besides its text: a picture of it."""
        if self.layout is None or not self.is_bounded:
            return None
        svg: str = extension("builder.layout.drawing", "draw")(self).svg()
        return svg

    def __reduce__(self) -> tuple[Any, ...]:
        return (
            intern_array,
            (self.element_type, self.dimensions, self.dynamic_dimensions, self.layout),
        )


class TupleShape:
    """The shape of a tuple: the shapes of its elements, which may be tuples again.

    Equal tuple shapes are one object too, so that comparing them never descends.

    Attributes:
        elements: the shapes of the elements.
        leaf_count: number of arrays and tokens inside, tuples looked through.
        is_static: no dimension inside is dynamic.
        has_layout: a layout was asked for of an array inside.
    """

    __slots__ = ("__weakref__", "elements", "has_layout", "is_static", "leaf_count")

    elements: tuple[Shape, ...]
    leaf_count: int
    is_static: bool
    has_layout: bool

    is_array: Final = False
    is_tuple: Final = True
    is_token: Final = False
    element_type: Final = pt.TUPLE

    def __new__(cls, elements: Iterable[Shape]) -> TupleShape:
        try:
            each = iter(elements)
        except TypeError:
            raise OperandError(f"a tuple shape is made of shapes, got {brief(elements)}") from None
        parts = tuple(each)
        for part in parts:
            if not isinstance(part, (ArrayShape, TupleShape, TokenShape)):
                raise OperandError(f"a tuple shape is made of shapes, got {brief(part)}")
        found = _INTERNED_TUPLES.find(parts)
        if found is not None:
            return found
        shape = object.__new__(cls)
        shape.elements = parts
        shape.leaf_count = sum(leaf_count(p) for p in parts)
        shape.is_static = all(p.is_static for p in parts)
        shape.has_layout = any(
            p.has_layout
            if isinstance(p, TupleShape)
            else isinstance(p, ArrayShape) and p.layout is not None
            for p in parts
        )
        return _INTERNED_TUPLES.intern(parts, shape)

    def __str__(self) -> str:
        return nested_text(self)

    __repr__ = __str__

    def __len__(self) -> int:
        return len(self.elements)

    def __reduce__(self) -> tuple[Any, ...]:
        return (TupleShape, (self.elements,))


class TokenShape:
    """The shape of a token, which orders side effects and holds no data. One object: `TOKEN`."""

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
_STATIC: dict[int, tuple[bool, ...]] = {}


def static(rank: int) -> tuple[bool, ...]:
    """`rank` times False: the dynamic_dimensions of a static shape."""
    found = _STATIC.get(rank)
    if found is None:
        found = _STATIC[rank] = (False,) * rank
    return found


def intern_array(
    element_type: PrimitiveType,
    dimensions: tuple[int, ...],
    dynamic_dimensions: tuple[bool, ...] | None = None,
    layout: Layout | None = None,
) -> ArrayShape:
    """The one ArrayShape of these parts, which must be valid already (see `array_shape`)."""
    if dynamic_dimensions is None:
        dynamic_dimensions = static(len(dimensions))
    key = (element_type, dimensions, dynamic_dimensions, layout)
    found = _INTERNED.find(key)
    if found is not None:
        return found
    if layout is not None and not dimensions and layout.is_default:
        # The order of no dimensions says nothing: XLA takes no "f32[]{}", and writes "f32[]".
        return intern_array(element_type, dimensions, dynamic_dimensions)
    shape = object.__new__(ArrayShape)
    shape.element_type = element_type
    shape.dimensions = dimensions
    shape.dynamic_dimensions = dynamic_dimensions
    shape.layout = layout
    shape.rank = len(dimensions)
    shape.is_static = True not in dynamic_dimensions
    shape.is_bounded = UNBOUNDED not in dimensions
    sizes = ",".join(shape.dimension_text(i) for i in range(shape.rank))
    order = "" if layout is None else repr(layout)
    shape._text = f"{element_type.name}[{sizes}]{order}"
    return _INTERNED.intern(key, shape)


def _dimension(size: DimensionLike, element_type: PrimitiveType) -> tuple[int, bool]:
    if isinstance(size, Bounded):
        bound, dynamic = _whole(size.bound, element_type), True
    elif isinstance(size, str):
        text = size.strip()
        if text == "?":
            return UNBOUNDED, True
        dynamic = text.startswith("<=")
        number = text[2:] if dynamic else text
        if not (number.isdecimal() and number.isascii()):
            raise ShapeInferenceError(
                f"shape: {brief(size)} is not a dimension; a dimension is a size, '<=n' or '?'"
            )
        bound = int(number)
    else:
        bound, dynamic = _whole(size, element_type), False
    if bound < 0:
        raise ShapeInferenceError(
            f"shape: a dimension of {element_type}[...] can't be negative, got {bound}"
            + ("\nfix: an unbounded size is written '?'" if bound == UNBOUNDED else "")
        )
    if bound > MAX_ELEMENTS:
        raise ShapeInferenceError(
            f"shape: a dimension of {element_type}[...] must fit 63 bits, "
            f"got a number of {bound.bit_length()}"
        )
    return bound, dynamic


def _whole(size: Any, element_type: PrimitiveType) -> int:
    number = int_or_none(size)
    if number is None:
        raise ShapeInferenceError(
            f"shape: a dimension of {element_type}[...] is a whole number, bounded(n), "
            f"'<=n' or '?', got {brief(size)}"
        )
    return number


@dataclass(frozen=True, slots=True)
class _Misfit:
    """Why a layout can't be that of a shape.

    Attributes:
        what: the rule that is broken, and what was got.
        part: the part of the layout that is at fault, by the name of its argument.
        index: which of several values of that part.
        dimension: the number of the dimension at fault, if it is one.
    """

    what: str
    part: str
    index: int = 0
    dimension: int | None = None


def _misfit(layout: Layout, shape: ArrayShape) -> _Misfit | None:
    """Why `layout` can't be that of `shape`; None if it can."""
    ordered = len(layout.minor_to_major)
    if ordered != shape.rank:
        return _Misfit(
            f"{brief(layout)} orders {ordered} dimension{'' if ordered == 1 else 's'}, "
            f"{shape} has {shape.rank}",
            "minor_to_major",
        )
    if layout.is_order_only:
        return None
    bits, element = layout.element_size_in_bits, shape.element_type
    if bits and bits < element.bits:
        return _Misfit(
            f"element_size_in_bits can't be smaller than the {element.bits} bits of an element "
            f"of {element}, got {bits}",
            "element_size_in_bits",
        )
    if bits and (8 % bits if bits < 8 else bits % 8):
        return _Misfit(
            f"element_size_in_bits is 1, 2, 4 or a multiple of 8, got {bits}",
            "element_size_in_bits",
        )
    for dimension, padded in enumerate(layout.padded_dimensions or ()):
        if padded < shape.dimensions[dimension]:
            return _Misfit(
                f"padded_dimensions can't be smaller than the dimensions, got {padded} "
                f"for dimension {dimension} of {without_layout(shape)}",
                "padded_dimensions",
                index=dimension,
                dimension=dimension,
            )
    return _overflow(layout, shape) if shape.is_bounded else None


def _overflow(layout: Layout, shape: ArrayShape) -> _Misfit | None:
    """Says of a buffer of too many elements which part of the layout makes them."""
    form = physical(shape.dimensions, layout)
    if form.size <= MAX_ELEMENTS:
        return None
    counts = [
        ("padded_dimensions", 0, prod(form.ordered)),
        *(("tiles", i, prod(tiling.after)) for i, tiling in enumerate(form.tilings)),
        ("tail_padding_alignment_in_elements", 0, form.size),
    ]
    part, index, _ = next(each for each in counts if each[-1] > MAX_ELEMENTS)
    return _Misfit(
        f"the buffer of {without_layout(shape)} with {brief(layout)} has {brief(form.size)} "
        "elements, padding included, more than 2**63 - 1",
        part,
        index,
    )


def array_shape(
    element_type: PrimitiveTypeLike,
    dimensions: Iterable[DimensionLike] = (),
    *,
    dynamic_dimensions: Iterable[bool] | None = None,
    layout: LayoutLike | None = None,
) -> ArrayShape:
    """The shape of an array with these sizes.

    Args:
        element_type: a primitive type, its name, or a NumPy type.
        dimensions: sizes; `bounded(n)` or "<=n" for a bounded one, "?" for an unbounded one.
        dynamic_dimensions: for each dimension whether it is dynamic, its size then being a bound.
        layout: a Layout, its text, or minor_to_major alone; None for the default.

    Raises:
        ShapeInferenceError: a size is negative or no whole number, the element count overflows
            64 bits, or the layout does not fit.

    Example:
        >>> import builder as xb
        >>> xb.array_shape("f32", [2, "<=3"], layout=[0, 1])
        f32[2,<=3]{0,1}
    """
    is_plain = dynamic_dimensions is None and layout is None
    element = pt.as_primitive_type(element_type)
    if is_plain and type(dimensions) is tuple and all(type(size) is int for size in dimensions):
        # One that was made before, out of plain numbers: a sixth of the time.
        found = _INTERNED.find((element, dimensions, static(len(dimensions)), None))
        if found is not None:
            return found
    if not element.is_array_element:
        raise ShapeInferenceError(f"shape: {element} is not an element type of arrays")
    try:
        wanted = None if isinstance(dimensions, str) else list(islice(dimensions, MOST_DIMENSIONS))
    except TypeError:
        wanted = None
    if wanted is None or len(wanted) == MOST_DIMENSIONS:
        raise ShapeInferenceError(
            f"shape: dimensions are a sequence of sizes, got {brief(dimensions)}\n"
            f"fix: write [{brief(dimensions)}]"
        )
    given = [False] * len(wanted)
    if dynamic_dimensions is not None:
        try:
            given = [bool(d) for d in islice(dynamic_dimensions, MOST_DIMENSIONS)]
        except (TypeError, ValueError):
            raise ShapeInferenceError(
                f"shape: dynamic_dimensions are a sequence of bools, "
                f"got {brief(dynamic_dimensions)}"
            ) from None
        if len(given) != len(wanted):
            raise ShapeInferenceError(
                f"shape: {len(given)} dynamic_dimensions for {len(wanted)} dimensions"
            )
        wanted = [
            "?" if g and type(d) is int and d == UNBOUNDED else d
            for d, g in zip(wanted, given, strict=True)
        ]
    pairs = [_dimension(d, element) for d in wanted]
    sizes = tuple(p[0] for p in pairs)
    dynamic = tuple(p[1] or g for p, g in zip(pairs, given, strict=True))
    count = 1
    for size in sizes:
        if size > 0:
            count *= size
    if count > MAX_ELEMENTS:
        raise ShapeInferenceError(
            f"shape: {element}[{','.join(map(str, sizes))}] has more than 2**63 - 1 elements"
        )
    shape = intern_array(element, sizes, dynamic, None)
    return shape if layout is None else shape.with_layout(layout)


def tuple_shape(elements: Iterable[ShapeLike]) -> TupleShape:
    """The shape of a tuple with these elements.

    Example:
        >>> import builder as xb
        >>> xb.tuple_shape([xb.s32[()], "f32[2]"])
        (s32[], f32[2])
    """
    try:
        # An op is iterable as well, and would record what it gives.
        is_other = isinstance(elements, str) or hasattr(elements, "opcode")
        each = None if is_other else iter(elements)
    except TypeError:
        each = None
    if each is None:
        raise OperandError(f"tuple_shape: expected a sequence of shapes, got {brief(elements)}")
    return TupleShape(shape_of(e) for e in each)


def leaves(shape: Shape) -> Iterator[ArrayShape | TokenShape]:
    """The array and token shapes inside `shape`, left to right; tuples are looked through."""
    stack = [shape]
    while stack:
        top = stack.pop()
        if isinstance(top, TupleShape):
            stack.extend(reversed(top.elements))
        else:
            yield top


def leaf_count(shape: Shape) -> int:
    """The number of array and token shapes inside `shape`."""
    return shape.leaf_count if isinstance(shape, TupleShape) else 1


def without_layout(shape: Shape) -> Shape:
    """The same shape with every array in the default layout.

    Example:
        >>> from builder.types.shape import parse_shape, without_layout
        >>> without_layout(parse_shape("(f32[2,3]{0,1}, s32[])"))
        (f32[2,3], s32[])
    """
    if isinstance(shape, ArrayShape):
        return shape if shape.layout is None else shape.with_layout(None)
    if not isinstance(shape, TupleShape) or not shape.has_layout:
        return shape
    # Tuples may be nested deeper than Python's stack: what is open waits on a list.
    opened: list[tuple[Iterator[Shape], list[Shape]]] = [(iter(shape.elements), [])]
    while True:
        remaining, done = opened[-1]
        for element in remaining:
            if isinstance(element, TupleShape):
                opened.append((iter(element.elements), []))
                break
            done.append(without_layout(element))
        else:
            opened.pop()
            closed = TupleShape(done)
            if not opened:
                return closed
            opened[-1][1].append(closed)


def nested_text(shape: Shape, leaf_text: Callable[[ArrayShape | TokenShape], str] = str) -> str:
    """The text of a shape whose leaves are written by `leaf_text`.

    Without recursion: tuples may be nested deeper than Python's stack.
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
    """The signature of a computation: its parameters' shapes and names, and the result's shape.

    Args:
        parameters, result: shapes, or what stands for them.
        parameter_names: strings; "p0", "p1", ... when none are given.

    Raises:
        OperandError: they are not that.
        ShapeInferenceError: there are other names than parameters.

    Attributes:
        parameters: the parameter shapes in the order of their numbers.
        parameter_names: their names.
        result: the shape of the root.
        without_layouts: the same signature in default layouts; None if this one has no others.
    """

    __slots__ = ("_hash", "parameter_names", "parameters", "result", "without_layouts")

    parameters: tuple[Shape, ...]
    parameter_names: tuple[str, ...]
    result: Shape
    without_layouts: ProgramShape | None

    def __init__(
        self, parameters: Iterable[Shape], result: Shape, parameter_names: Iterable[str] = ()
    ) -> None:
        self.parameters = tuple_shape(parameters).elements
        try:
            names = None if isinstance(parameter_names, str) else tuple(parameter_names)
        except TypeError:
            names = None
        if names is None or not all(isinstance(n, str) for n in names):
            raise OperandError(
                f"program shape: parameter names are a sequence of strings, "
                f"got {brief(parameter_names)}"
            )
        self.parameter_names = names or tuple(f"p{i}" for i in range(len(self.parameters)))
        self.result = shape_of(result)
        # Signatures are keys of caches; shapes are interned, so this looks one level deep.
        self._hash = hash((self.parameters, self.result))
        if len(self.parameter_names) != len(self.parameters):
            raise ShapeInferenceError(
                f"program shape: as many names as parameters are needed, "
                f"got {len(self.parameter_names)} for {len(self.parameters)}"
            )
        plain = tuple(map(without_layout, self.parameters)), without_layout(self.result)
        self.without_layouts = (
            None
            if plain == (self.parameters, self.result)
            else ProgramShape(*plain, self.parameter_names)
        )

    def __eq__(self, other: object) -> bool:
        """Equal signatures take and give the same shapes; names do not count."""
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
    """One ProgramShape for all computations of a signature: looked up in a tenth of the time."""
    return ProgramShape(parameters, result, parameter_names)


class _Parser(TextReader):
    """A recursive-descent reading of XLA's shape text, iterative where tuples nest."""

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
        except ValueError as error:
            raise self.fault(str(error), start) from None
        self.expect("[")
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
            raise ShapeTextError(str(error), text=self.text, position=start) from None
        if self.token != "{":
            return shape
        layout, places = read_layout(self)
        fault = _misfit(layout, shape)
        if fault is not None:
            raise ShapeTextError(
                f"layout: {fault.what}",
                text=self.text,
                position=places[fault.part][fault.index],
            )
        return intern_array(shape.element_type, shape.dimensions, shape.dynamic_dimensions, layout)

    def shape(self) -> Shape:
        """One shape. Open tuples wait on a stack of element lists."""
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


def parse_shape(text: str) -> Shape:
    """Reads a shape from XLA's text form.

    Args:
        text: for instance ``"f32[2,<=3]{1,0}"``, ``"(s32[], f32[?])"`` or ``"token[]"``.

    Raises:
        ShapeTextError: malformed text; says at which position.
        OperandError: no string.

    Example:
        >>> import builder as xb
        >>> xb.parse_shape("(s32[], f32[2,<=3]{1,0})")
        (s32[], f32[2,<=3]{1,0})
    """
    if not isinstance(text, str):
        raise OperandError(f"parse_shape: expected a shape's text, got {brief(text)}")
    parser = _Parser(text)
    shape = parser.shape()
    parser.end()
    return shape


_parsed = lru_cache(maxsize=4096)(parse_shape)


def shape_of(value: ShapeLike) -> Shape:
    """The shape that `value` stands for: a shape, its text, or a sequence of them for a tuple.

    Raises:
        OperandError: `value` is nothing of the kind.
        ShapeTextError: malformed text.
    """
    if isinstance(value, (ArrayShape, TupleShape, TokenShape)):
        return value
    if isinstance(value, str):
        return _parsed(value) if type(value) is str else parse_shape(value)
    if isinstance(value, PrimitiveType):
        raise OperandError(f"{value} is an element type, not a shape; a scalar is {value}[()]")
    if isinstance(value, Sequence):
        try:
            return TupleShape(shape_of(e) for e in value)
        except RecursionError:
            raise OperandError(
                "a shape of sequences nested too deep, or of one that holds itself"
            ) from None
    raise OperandError(
        f"expected a shape such as f32[2, 3], its text 'f32[2,3]', or a sequence of shapes, "
        f"got {brief(value)}"
    )


def shape_argument(op: str, name: str, value: Any) -> Shape:
    """What `value`, given for argument `name` of an op, stands for in `shape_of`."""
    try:
        return shape_of(value)
    except XlaError as error:
        raise error.in_argument(op, name) from None


def shapes_text(shapes: Mapping[str, Any]) -> str:
    """Lines "  name shape", as errors show the operands."""
    width = max((len(n) for n in shapes), default=0)
    return "\n".join(f"  {name:<{width}} {shape}" for name, shape in shapes.items())
