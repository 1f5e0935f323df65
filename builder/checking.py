"""The checks that inference functions share, and the form of their messages.

A `Check` holds the name of the op and the shapes of its operands. Each method checks one rule, and
raises a ShapeInferenceError if it is broken. The message contains the op, the rule, the value that
broke the rule, every operand and, if there is one, the fix.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from typing import Any, Final, NoReturn

import numpy as np

from builder.errors import ShapeInferenceError, SignatureError, brief, error_of
from builder.support.arguments import Missing
from builder.types.layout import MAX_DIMENSIONS
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import (
    UNBOUNDED,
    ArrayShape,
    ProgramShape,
    Shape,
    TupleShape,
    has_too_many_elements,
    intern_array,
    static,
)

_LOWEST, _HIGHEST = -(2**63), 2**63 - 1

TypeSet = tuple[str, Container[PrimitiveType]]
"""A pair: the description of element types for messages, such as "integer", and the set of them."""

NUMBER_NOT_OP: Final = (
    "pass a Python number, because an op has no value when ops are recorded; static=[...] in "
    "lowering.jit makes an argument one"
)
"""The fix for an op in place of a size or of a dimension."""

CONVERT: Final = "convert it with xb.convert_element_type"
"""The fix for an operand of the wrong element type."""


def refusal(
    op: str, rule: str, value: object, fix: str | None = None, argument: str | None = None
) -> ShapeInferenceError:
    """Return a ShapeInferenceError for `value`, an argument of `op` that breaks `rule`."""
    if not fix and isinstance(value, Missing):
        fix = value.fix
    return ShapeInferenceError(rule, op=op, argument=argument, got=brief(value), fix=fix)


def integer(op: str, name: str, value: Any, argument: str | None = None) -> int:
    """Return `value` as a Python int. It must fit in 64 bits, like every integer in XLA.

    Args:
        op, name, value: the op, and the name and the value of the argument.
        argument: the name of the argument if `name` describes a part of it.

    Raises:
        ShapeInferenceError: `value` is not an integer, or too large.
    """
    if type(value) is int and _LOWEST <= value <= _HIGHEST:
        return value
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        rule = f"{name} must be an integer"
        fix = NUMBER_NOT_OP if hasattr(value, "opcode") else ""
        raise refusal(op, rule, value, fix, argument or name) from None
    if not _LOWEST <= number <= _HIGHEST:
        rule = f"{name} must fit 64 bits"
        raise error_of(ShapeInferenceError, op, rule, got=f"an int of {number.bit_length()} bits")
    return number


def _is_text_or_op(value: object) -> bool:
    """Whether `value` is a string or an op: iterable, but not a sequence of numbers."""
    return isinstance(value, (str, bytes)) or hasattr(value, "opcode")


def integers(op: str, name: str, values: Iterable[Any]) -> tuple[int, ...]:
    """Return `values` as a tuple of Python ints.

    Raises:
        ShapeInferenceError: `values` is not a sequence of integers.
    """
    is_list = type(values) is list or type(values) is tuple
    if is_list:
        # The usual argument, checked without a call for each value.
        for value in values:
            if type(value) is not int or not _LOWEST <= value <= _HIGHEST:
                break
        else:
            return tuple(values)
    rule = f"{name} must be a sequence of integers"
    if _is_text_or_op(values) or isinstance(values, (ArrayShape, TupleShape)):
        fix = f"write {name}=shape.dimensions" if isinstance(values, ArrayShape) else ""
        if isinstance(values, str) and re.fullmatch(r"[-0-9,()\[\] ]+", values):
            fix = f"write {name}=[{', '.join(re.findall('-?[0-9]+', values))}]"
        raise refusal(op, rule, values, fix, name)
    try:
        # An iterator may have no end.
        numbers = tuple(values if is_list else islice(values, MAX_DIMENSIONS))
    except TypeError:
        is_number = isinstance(values, (int, np.integer)) and not isinstance(values, bool)
        fix = f"write {name}=[{brief(values)}]" if is_number else ""
        raise refusal(op, rule, values, fix, name) from None
    if not is_list and len(numbers) == MAX_DIMENSIONS:
        raise refusal(op, f"{rule}, one for each dimension", values, argument=name)
    return tuple(integer(op, f"each entry of {name}", number, name) for number in numbers)


def optional_integers(op: str, name: str, values: Iterable[Any] | None) -> tuple[int, ...]:
    """Return `values` as a tuple of Python ints, like `integers`; an empty tuple for None."""
    return () if values is None else integers(op, name, values)


def flag(op: str, name: str, value: Any) -> bool:
    """Return `value` as a bool; NumPy's bools are accepted, numbers are not.

    Raises:
        ShapeInferenceError: `value` is neither True nor False.
    """
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise refusal(op, f"{name} must be True or False", value, argument=name)


def flags(op: str, name: str, values: Any, of: str = "") -> tuple[bool, ...]:
    """Return `values` as a tuple of bools; NumPy's bools are accepted, numbers are not.

    Args:
        op, name: the op and the name of the argument, for messages.
        values: any sequence.
        of: the thing that each value describes, such as "dimension", for messages.

    Raises:
        ShapeInferenceError: `values` is not a sequence of bools.
    """
    entries = None
    if not _is_text_or_op(values):
        with suppress(TypeError):
            entries = tuple(islice(values, MAX_DIMENSIONS))  # an iterator may have no end
    if entries is None or not all(isinstance(entry, (bool, np.bool_)) for entry in entries):
        each = f", one for each {of}" if of else ""
        raise refusal(op, f"{name} must be a sequence of bools{each}", values, argument=name)
    return tuple(map(bool, entries))


def sizes_differ(size: int, other: int) -> bool:
    """Return whether two sizes differ. An unbounded size matches every size."""
    return size != other and UNBOUNDED not in (size, other)


def same_sizes(a: ArrayShape, b: ArrayShape) -> bool:
    """Return whether two arrays have the same sizes. An unbounded size matches every size."""
    if a.is_bounded and b.is_bounded:
        return a.dimensions == b.dimensions
    return a.rank == b.rank and not any(map(sizes_differ, a.dimensions, b.dimensions))


def same_shape(a: Shape, b: Shape) -> bool:
    """Return whether a value of shape `a` may be passed where shape `b` is expected.

    Sizes and element types must be equal; an unbounded size equals any size. As in XLA, a size <=3
    equals a size 3. Layouts are ignored, because values inside a program have no layouts.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.same_shape("f32[<=3]", "f32[3]")
        True
    """
    stack = [(a, b)]
    while stack:
        x, y = stack.pop()
        if x is y:
            continue
        if isinstance(x, TupleShape) and isinstance(y, TupleShape):
            if len(x.elements) != len(y.elements):
                return False
            stack.extend(zip(x.elements, y.elements, strict=True))
        elif not (
            isinstance(x, ArrayShape)
            and isinstance(y, ArrayShape)
            and x.element_type is y.element_type
            and same_sizes(x, y)
        ):
            return False
    return True


def any_dynamic(arrays: Sequence[ArrayShape], sizes: tuple[int, ...]) -> tuple[bool, ...]:
    """Return for each dimension of a result with these `sizes` whether it is dynamic.

    A dimension is dynamic if its size is unbounded, or if one of `arrays` has a bound in place of
    its size. All arrays have the result's rank.
    """
    if all(array.is_static for array in arrays):
        return static(len(sizes))  # the usual case
    return tuple(
        size == UNBOUNDED
        or any(a.dynamic_dimensions[i] and a.dimensions[i] != UNBOUNDED for a in arrays)
        for i, size in enumerate(sizes)
    )


def first_duplicate(values: Sequence[Any]) -> Any:
    """Return the first value that occurs a second time, or None if all values differ."""
    if len(set(values)) == len(values):
        return None
    return next(value for index, value in enumerate(values) if value in values[:index])


def _inferred(sizes: Sequence[int], count: int | None) -> str:
    """Return `sizes` with the size that -1 stands for, as text; `count` is the product."""
    if count == UNBOUNDED and sizes.count(-1) == 1:
        return str(["?" if size == -1 else size for size in sizes]).replace("'", '"')
    if count is not None and sizes.count(-1) == 1:
        rest = math.prod(size for size in sizes if size != -1)
        if rest > 0 and count % rest == 0:
            return str([count // rest if size == -1 else size for size in sizes])
    return "each size"


def completed(lists: Mapping[str, tuple[Sequence[Any], Sequence[Any]]]) -> str:
    """Return the fix that completes those lists that are too short with entries without effect.

    Args:
        lists: the arguments, each with its entries and those that change nothing.

    Returns:
        The fix, or "" if a list is too long or no such entry is known.
    """
    shorter = {}
    for name, (values, neutral) in lists.items():
        added = neutral[len(values) :]
        if len(values) > len(neutral) or UNBOUNDED in added:
            return ""
        if added:
            shorter[f"{name}=[{', '.join(map(str, [*values, *added]))}]"] = len(added)
    if not shorter:
        return ""
    entries = "entry changes" if sum(shorter.values()) == 1 else "entries change"
    return f"write {', '.join(shorter)}; the added {entries} nothing"


@lru_cache(maxsize=256)
def operand_names(name: str, count: int) -> tuple[str, ...]:
    """Return the names of operands in messages: "name 0", "name 1", ..."""
    return tuple([f"{name} {index}" for index in range(count)])


class Check:
    """The checks of one op: its name and the shapes of its operands, by argument name.

    Args:
        op: the name of the op that the user called.
        shapes: the operands' shapes by argument name.
    """

    __slots__ = ("op", "shapes")

    def __init__(self, op: str, **shapes: Shape) -> None:
        self.op = op
        self.shapes: dict[str, Shape] = shapes

    @classmethod
    def numbered(cls, op: str, name: str, shapes: Sequence[Shape], **more: Shape) -> Check:
        """Return a Check for a list of operands; messages call them "name 0", "name 1", ..."""
        check = cls(op)
        check.shapes = dict(zip(operand_names(name, len(shapes)), shapes, strict=True))
        check.shapes.update(more)
        return check

    def fail(
        self,
        rule: str,
        *,
        argument: str | None = None,
        got: object = None,
        fix: str | None = None,
        dimension: int | None = None,
        error: type[ShapeInferenceError] = ShapeInferenceError,
    ) -> NoReturn:
        """Raise `error` with the op and its operands, which the message lists."""
        if got is None and self.shapes:
            got = ""  # the operands
        raise error(
            rule,
            op=self.op,
            argument=argument,
            got=got,
            fix=fix,
            shapes=self.shapes,
            dimension=dimension,
            lists_shapes=True,
        )

    def fail_along(
        self, dimension: int, rule: str, got: object, *, fix: str | None = None
    ) -> NoReturn:
        """Raise an error: the value `got` for `dimension` breaks `rule`."""
        self.fail(rule, got=f"{got} for dimension {dimension}", fix=fix, dimension=dimension)

    def that(
        self,
        holds: bool,
        rule: str,
        *,
        got: object = None,
        fix: str | None = None,
        dimension: int | None = None,
    ) -> None:
        """Raise an error unless `holds`. For a `rule` that is costly to format, call `fail`."""
        if not holds:
            self.fail(rule, got=got, fix=fix, dimension=dimension)

    def array(self, name: str) -> ArrayShape:
        """Return the shape of operand `name`, which must be an array."""
        shape = self.shapes[name]
        if not isinstance(shape, ArrayShape):
            kind = "a tuple" if shape.is_tuple else "a token"
            self.fail(
                f"{name} must be an array",
                argument=name,
                got=kind,
                fix="take an element with xb.get_tuple_element" if shape.is_tuple else None,
            )
        return shape

    def arrays(self) -> list[ArrayShape]:
        """Return the shapes of all operands, which must be arrays; at least one is needed."""
        if not self.shapes:
            self.fail("at least one operand is needed", got="none")
        return [self.array(name) for name in self.shapes]

    def same_element_type(self, *names: str) -> PrimitiveType:
        """Return the common element type of the named operands, by default of all operands."""
        names = names or tuple(self.shapes)
        types = [self.shapes[name].element_type for name in names]
        if types.count(types[0]) != len(types) or not types[0].is_array_element:
            for name in names:
                self.array(name)
            listed = ", ".join(dict.fromkeys(map(str, types)))
            self.fail(
                "operands must have one element type",
                got=listed,
                fix="convert with xb.convert_element_type; nothing is promoted silently",
            )
        return types[0]

    def element_type(self, name: str, allowed: TypeSet, *, fix: str | None = None) -> None:
        """Check that the element type of operand `name` is one of `allowed`."""
        text, types = allowed
        element_type = self.shapes[name].element_type
        if element_type not in types:
            self.array(name)  # the error for tuples and tokens
            self.fail(f"{name} must be of {text} type", argument=name, got=element_type, fix=fix)

    def element_types(self, allowed: Mapping[str, TypeSet], *, fix: str | None = None) -> None:
        """Check that the element type of each operand in `allowed` is one of its allowed types."""
        for name, types in allowed.items():
            self.element_type(name, types, fix=fix)

    def in_rank(self, number: int, rank: int, *, of: str, name: str) -> int:
        """Check that argument `name` is a dimension of `of`; return its value, `number`."""
        if not 0 <= number < rank:
            dimensions = f"0 to {rank - 1}" if rank else "it has none"
            rule = f"{name} must be a dimension of {of} ({dimensions})"
            fix = f"write {number + rank}; dimensions are counted from 0" if number < 0 else None
            self.fail(
                rule,
                argument=name,
                got=number,
                dimension=number,
                fix=fix if number + rank >= 0 else None,
            )
        return number

    def dimension(self, number: int, of: str, name: str) -> int:
        """Check that argument `name` is a dimension of operand `of`; return its value, `number`."""
        return self.in_rank(number, self.array(of).rank, of=of, name=name)

    def dimensions_in_range(self, numbers: Sequence[int], *, of: str, name: str) -> None:
        """Check that argument `name`, a list, contains only dimensions of operand `of`."""
        rank = self.array(of).rank
        for number in numbers:
            self.in_rank(number, rank, of=of, name=name)

    def unique(self, numbers: Sequence[int], *, name: str) -> None:
        """Check that argument `name` does not contain a number twice."""
        twice = first_duplicate(numbers)
        if twice is not None:
            self.fail(
                f"{name} must not name a dimension twice",
                argument=name,
                got=f"{twice} twice in {list(numbers)}",
                dimension=twice,
            )

    def permutation(self, numbers: Sequence[int], *, of: str, name: str) -> None:
        """Check that argument `name` is a permutation of all dimensions of operand `of`."""
        dimensions = list(range(self.array(of).rank))
        if sorted(numbers) != dimensions:
            self.fail(
                f"{name} must be a permutation of the dimensions of {of}, {dimensions}",
                argument=name,
                got=list(numbers),
                fix=self._permutation_fix(numbers, dimensions),
            )

    @staticmethod
    def _permutation_fix(numbers: Sequence[int], dimensions: list[int]) -> str:
        """Return the fix for `numbers`, which are not a permutation of `dimensions`."""
        rank = len(dimensions)
        if all(-rank <= n < rank for n in numbers):
            counted = [n % rank for n in numbers]
            if sorted(counted) == dimensions:
                return f"write {counted}; dimensions are counted from 0"
        if sorted(numbers) == [n + 1 for n in dimensions]:
            return f"write {[n - 1 for n in numbers]}; dimensions are counted from 0"
        return "list each dimension once"

    def scalar(self, name: str) -> ArrayShape:
        """Return the shape of operand `name`, which must be a scalar."""
        shape = self.array(name)
        if shape.rank:
            self.fail(f"{name} must be a scalar", argument=name, got=shape)
        return shape

    def one_for_each(
        self,
        values: Sequence[Any],
        count: int,
        *,
        of: str,
        name: str,
        fix: str | None = None,
        neutral: Sequence[Any] = (),
    ) -> None:
        """Check that argument `name` has `count` entries, one for each `of`.

        Args:
            values, count, of, name: the argument, the number of entries, and what they are for.
            fix: what to write instead.
            neutral: for each `of` the entry that changes nothing, for the fix.
        """
        if len(values) != count:
            fix = fix or completed({name: (values, neutral)})
            listed = ", ".join(map(str, values))
            self.fail(
                f"{name} must have one entry for each {of}: {count}",
                argument=name,
                got=f"{len(values)}: [{listed}]",
                fix=fix,
            )

    def one_for_each_dimension(
        self,
        values: Sequence[Any],
        *,
        of: str,
        name: str,
        fix: str | None = None,
        neutral: Sequence[Any] = (),
    ) -> None:
        """Check that argument `name` has one entry for each dimension of operand `of`."""
        count, each = self.array(of).rank, f"dimension of {of}"
        self.one_for_each(values, count, of=each, name=name, fix=fix, neutral=neutral)

    def sizes(
        self, values: Sequence[int], *, name: str, at_run_time: str = "", count: int | None = None
    ) -> None:
        """Check that no size in argument `name` is negative or unbounded.

        Args:
            values: the sizes.
            name: the name of the argument.
            at_run_time: the op that accepts sizes at run time, for the fix; "" if there is none.
            count: the product of the sizes, for the fix; None if it is not known, UNBOUNDED if a
                size is to be unbounded.
        """
        for index, size in enumerate(values):
            if size == UNBOUNDED:
                text = ", ".join("?" if n == UNBOUNDED else str(n) for n in values)
                self.fail(
                    f"{name} must contain static sizes",
                    argument=name,
                    got=f"an unbounded size in [{text}]",
                    dimension=index,
                    fix=f"pass sizes at run time to xb.{at_run_time}" if at_run_time else None,
                )
            if size < 0:
                fix = None
                if size == -1:
                    fix = f"write {_inferred(values, count)}; XLA does not infer a size from -1"
                self.fail(
                    f"the sizes in {name} must not be negative",
                    argument=name,
                    got=f"{size} in {list(values)}",
                    dimension=index,
                    fix=fix,
                )

    def positive(self, values: Sequence[int], *, name: str) -> None:
        """Check that each number in argument `name` is 1 or more."""
        for index, value in enumerate(values):
            if value < 1:
                self.fail(
                    f"{name} must be positive",
                    argument=name,
                    got=f"{value} in {list(values)}",
                    dimension=index,
                )

    def equal_sizes(
        self,
        rule: str,
        of: str,
        dimension: int,
        other: str,
        number: int,
        fix: Callable[[], str | None] | None = None,
    ) -> None:
        """Check that `dimension` of operand `of` is as large as dimension `number` of `other`.

        `fix` returns the fix of the message; it is called only if the sizes differ.
        """
        array, other_array = self.array(of), self.array(other)
        if sizes_differ(array.dimensions[dimension], other_array.dimensions[number]):
            self.fail(
                rule,
                got=f"dimension {dimension} of {of} (size "
                f"{array.dimension_text(dimension)}) and dimension {number} of {other} (size "
                f"{other_array.dimension_text(number)})",
                dimension=dimension,
                fix=None if fix is None else fix(),
            )

    def result(
        self,
        element_type: PrimitiveType,
        dimensions: Sequence[int],
        dynamic_dimensions: Sequence[bool] | None = None,
    ) -> ArrayShape:
        """Return the shape of the result; its number of elements must fit 63 bits."""
        if has_too_many_elements(dimensions):
            sizes = ",".join("?" if size == UNBOUNDED else str(size) for size in dimensions)
            self.fail(f"the result {element_type}[{sizes}] would have more than 2**63 - 1 elements")
        dynamic = None if dynamic_dimensions is None else tuple(dynamic_dimensions)
        return intern_array(element_type, tuple(dimensions), dynamic)

    def signature(
        self, role: str, program_shape: ProgramShape, expected: str, *, fix: str | None = None
    ) -> NoReturn:
        """Raise a SignatureError: the computation `role` is not of the `expected` signature."""
        self.fail(f"{role} must be {expected}", got=program_shape, fix=fix, error=SignatureError)

    def applied(
        self,
        name: str,
        computation: ProgramShape,
        parameters: Sequence[Shape],
        results: Sequence[Shape],
        meaning: str | None = None,
        returns: str = "the new accumulated value",
        *,
        or_tuple: bool = False,
    ) -> None:
        """Check the signature of the computation that an op applies to elements.

        Args:
            name: the name of the argument.
            computation: the signature of the computation.
            parameters: the shapes of the parameters.
            results: the shape of the result; several for a tuple.
            meaning: the meaning of the parameters, for the message; None for a reducer.
            returns: the meaning of the result, for the message.
            or_tuple: whether a tuple of one element is accepted as one result.
        """
        result = results[0] if len(results) == 1 else TupleShape(results)
        is_fitting = computation.parameters == tuple(parameters) and (
            computation.result is result or (or_tuple and computation.result is TupleShape(results))
        )
        if not is_fitting:
            signature = f"({', '.join(map(str, parameters))}) -> {result}"
            if meaning is None:
                one = len(results) == 1
                meaning = "accumulated, value" if one else "accumulated..., values..."
            expected = f"of signature {signature} ({meaning})"
            self.signature(name, computation, expected, fix=f"return {result}, {returns}")
