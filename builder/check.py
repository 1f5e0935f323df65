"""The checks that inference functions share, and the one form of their messages.

A `Check` knows the op and its operands' shapes; each method states one rule and raises a
ShapeInferenceError that shows the rule, what was got, every operand and, where there is one, the
fix.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, NoReturn

import numpy as np

from builder.errors import ShapeInferenceError, SignatureError, brief
from builder.types.layout import MOST_DIMENSIONS
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import (
    MAX_ELEMENTS,
    ArrayShape,
    ProgramShape,
    Shape,
    intern_array,
    shapes_text,
)

__all__ = ["Check", "flag", "flags", "integer", "integers"]


_LOWEST, _HIGHEST = -(2**63), 2**63 - 1


def integer(op: str, name: str, value: Any) -> int:
    """`value` as a Python int of at most 64 bits, as all of XLA's numbers are.

    Raises:
        ShapeInferenceError: it is no whole number, or too large.
    """
    if type(value) is int and _LOWEST <= value <= _HIGHEST:
        return value
    try:
        if isinstance(value, bool):
            raise TypeError
        number = value if type(value) is int else operator.index(value)
    except TypeError:
        raise ShapeInferenceError(
            f"{op}: {name} must be a whole number, got {brief(value)}", op=op
        ) from None
    if not _LOWEST <= number <= _HIGHEST:
        raise ShapeInferenceError(
            f"{op}: {name} must fit 64 bits, got a number of {number.bit_length()}", op=op
        )
    return number


def integers(op: str, name: str, values: Iterable[Any]) -> tuple[int, ...]:
    """`values` as a tuple of Python ints.

    Raises:
        ShapeInferenceError: it is no sequence of whole numbers.
    """
    if type(values) is list or type(values) is tuple:
        # What is given nearly always, in half the time.
        for value in values:
            if type(value) is not int or not _LOWEST <= value <= _HIGHEST:
                break
        else:
            return tuple(values)
    if isinstance(values, (str, bytes)) or hasattr(values, "opcode"):
        raise ShapeInferenceError(
            f"{op}: {name} must be a sequence of whole numbers, got {brief(values)}", op=op
        )
    try:
        plain = type(values) is tuple or type(values) is list
        found = tuple(values if plain else islice(values, MOST_DIMENSIONS))
    except TypeError:
        raise ShapeInferenceError(
            f"{op}: {name} must be a sequence of whole numbers, got {brief(values)}\n"
            f"fix: write {name}=[{brief(values)}]",
            op=op,
        ) from None
    if not plain and len(found) == MOST_DIMENSIONS:
        raise ShapeInferenceError(
            f"{op}: {name} must be a sequence of whole numbers, one for each dimension, "
            f"got {brief(values)}",
            op=op,
        )
    for value in found:
        if type(value) is not int or not _LOWEST <= value <= _HIGHEST:
            return tuple(integer(op, f"each of {name}", v) for v in found)
    return found


def flag(op: str, name: str, value: Any) -> bool:
    """`value` as a bool; a NumPy one is taken too, a number is not.

    Raises:
        ShapeInferenceError: it is neither True nor False.
    """
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise ShapeInferenceError(f"{op}: {name} must be True or False, got {brief(value)}", op=op)


def flags(op: str, name: str, values: Any, of: str = "") -> tuple[bool, ...]:
    """`values` as a tuple of bools, each taken as `flag` takes it.

    Args:
        op, name: for messages: which op, which of its arguments.
        values: any sequence.
        of: for messages: what there is one for each of.

    Raises:
        ShapeInferenceError: it is no sequence of bools.
    """
    try:
        # More than anything has dimensions: a long range is not read to the end.
        strange = isinstance(values, (str, bytes)) or hasattr(values, "opcode")
        found = None if strange else tuple(islice(values, MOST_DIMENSIONS))
    except TypeError:
        found = None
    if found is None or not all(isinstance(v, (bool, np.bool_)) for v in found):
        each = f", one for each {of}" if of else ""
        raise ShapeInferenceError(
            f"{op}: {name} must be a sequence of bools{each}, got {brief(values)}", op=op
        )
    return tuple(map(bool, found))


def _text(values: Sequence[Any]) -> str:
    return "[" + ", ".join(map(str, values)) + "]"


class Check:
    """The op under inference and its operands, by argument name.

    Args:
        op: the name of the op as the user wrote it.
        shapes: the operands' shapes by the names of the arguments.
    """

    __slots__ = ("op", "shapes")

    def __init__(self, op: str, **shapes: Shape) -> None:
        self.op = op
        self.shapes: dict[str, Shape] = shapes

    @classmethod
    def numbered(cls, op: str, name: str, shapes: Sequence[Shape], **more: Shape) -> Check:
        """A check for an op with a list of operands, shown as "name 0", "name 1", ..."""
        check = cls(op)
        check.shapes = {f"{name} {i}": s for i, s in enumerate(shapes)} | more
        return check

    def fail(
        self,
        rule: str,
        *,
        fix: str | None = None,
        dimension: int | None = None,
        error: type[ShapeInferenceError] = ShapeInferenceError,
    ) -> NoReturn:
        """Raises: the rule that was broken (with what was got), the operands, the fix."""
        text = f"{self.op}: {rule}"
        if self.shapes:
            text += ("" if ", got" in rule else ", got") + "\n" + shapes_text(self.shapes)
        if fix:
            text += f"\nfix: {fix}"
        raise error(text, op=self.op, shapes=self.shapes, dimension=dimension)

    def that(
        self, holds: bool, rule: str, *, fix: str | None = None, dimension: int | None = None
    ) -> None:
        """Raises unless `holds`. For rules whose text is cheap; else ask first, then `fail`."""
        if not holds:
            self.fail(rule, fix=fix, dimension=dimension)

    def array(self, name: str) -> ArrayShape:
        """The operand called `name`, which must be an array."""
        shape = self.shapes[name]
        if not isinstance(shape, ArrayShape):
            kind = "a tuple" if shape.is_tuple else "a token"
            self.fail(
                f"{name} must be an array, got {kind}",
                fix="take the element with xb.get_tuple_element" if shape.is_tuple else None,
            )
        return shape

    def arrays(self) -> list[ArrayShape]:
        """All operands, which must be arrays."""
        return [self.array(name) for name in self.shapes]

    def same_element_type(self, *names: str) -> PrimitiveType:
        """The element type of the named operands (of all, when none is named), which is one."""
        arrays = [self.array(name) for name in (names or self.shapes)]
        first = arrays[0].element_type
        for array in arrays[1:]:
            if array.element_type is not first:
                types = ", ".join(dict.fromkeys(str(a.element_type) for a in arrays))
                self.fail(
                    f"operands must have one element type, got {types}",
                    fix="convert with xb.convert_element_type; nothing is promoted silently",
                )
        return first

    def element_type(self, name: str, allowed: Iterable[PrimitiveType], rule: str) -> PrimitiveType:
        """The element type of an operand, which must be among `allowed`, that is `rule`."""
        found = self.array(name).element_type
        if found not in allowed:
            self.fail(f"{name} must be of {rule} type, got {found}")
        return found

    def dimension(self, number: int, of: str, name: str) -> int:
        """`number`, which must be a dimension of operand `of`; it is argument `name`."""
        rank = self.array(of).rank
        if not 0 <= number < rank:
            self.fail(
                f"{name} must be a dimension of {of}, "
                + (f"0 to {rank - 1}" if rank else "which has none")
                + f", got {number}",
                dimension=number,
            )
        return number

    def dimensions_in_range(self, numbers: Sequence[int], *, of: str, name: str) -> None:
        """Each of `numbers` must be a dimension of operand `of`; they are argument `name`."""
        for number in numbers:
            self.dimension(number, of, name)

    def unique(self, numbers: Sequence[int], *, name: str) -> None:
        """No number may stand twice in argument `name`."""
        if len(set(numbers)) != len(numbers):
            twice = next(n for i, n in enumerate(numbers) if n in numbers[:i])
            self.fail(
                f"{name} must not name a dimension twice, got {twice} twice in {list(numbers)}",
                dimension=twice,
            )

    def permutation(self, numbers: Sequence[int], *, of: str, name: str) -> None:
        """`numbers` must be a permutation of all dimensions of operand `of`."""
        rank = self.array(of).rank
        if sorted(numbers) != list(range(rank)):
            self.fail(
                f"{name} must be a permutation of the dimensions of {of}, "
                f"{list(range(rank))}, got {list(numbers)}"
            )

    def scalar(self, name: str) -> ArrayShape:
        """The operand called `name`, which must be an array without dimensions."""
        shape = self.array(name)
        if shape.rank:
            self.fail(f"{name} must be a scalar, got {shape}")
        return shape

    def one_for_each_dimension(self, values: Sequence[Any], *, of: str, name: str) -> None:
        """Argument `name` must have one entry for each dimension of operand `of`."""
        rank = self.array(of).rank
        if len(values) != rank:
            self.fail(
                f"{name} must have one entry for each dimension of {of}: {rank}, "
                f"got {len(values)}: {_text(values)}"
            )

    def sizes(self, values: Sequence[int], *, name: str) -> None:
        """Argument `name` holds sizes: none may be negative."""
        for index, size in enumerate(values):
            if size < 0:
                self.fail(
                    f"{name} must hold sizes, which are not negative, got {size} in {list(values)}",
                    dimension=index,
                    fix="write each size out; XLA works none of them out" if size == -1 else None,
                )

    def result(
        self,
        element_type: PrimitiveType,
        dimensions: Sequence[int],
        dynamic_dimensions: Sequence[bool] | None = None,
    ) -> ArrayShape:
        """The shape of the result, which must not have more elements than 63 bits count."""
        count = 1
        for size in dimensions:
            if size > 0:
                count *= size
        if count > MAX_ELEMENTS:
            self.fail(
                f"the result {element_type}[{','.join(map(str, dimensions))}] would have more "
                f"than 2**63 - 1 elements"
            )
        dynamic = None if dynamic_dimensions is None else tuple(dynamic_dimensions)
        return intern_array(element_type, tuple(dimensions), dynamic)

    def signature(
        self, role: str, program_shape: ProgramShape, expected: str, *, fix: str | None = None
    ) -> NoReturn:
        """Raises a SignatureError: computation `role` is not of the `expected` signature."""
        self.fail(f"{role} must be {expected}, got {program_shape}", fix=fix, error=SignatureError)
