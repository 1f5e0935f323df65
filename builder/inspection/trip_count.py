"""The trip counts of loops.

The trip count of a `while` is known if an integer in the loop state has a constant initial value,
the body adds a step to the integer or subtracts a step, and the condition compares the integer with
a limit. The step and the limit must be constants, or elements of the state that have constant
initial values and that the body does not change, such as captured values.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from builder.graph.xla_op import XlaOp, constant_value, is_element, is_parameter, is_tuple
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import ArrayShape

_Path = tuple[int, ...]
"""The tuple indices that lead to an element of a nested tuple, the outermost index first."""

_MIRRORED: Final = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE", "NE": "NE", "EQ": "EQ"}


def trip_count(loop: XlaOp) -> int | None:
    """Return the trip count of a `while` or a `scan`, or None if it is unknown.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> loop = xb.while_(lambda i: i < 10, lambda i: i + 3, b.constant(0, xb.s32))
        >>> trip_count(loop)
        4
    """
    if loop.opcode == "scan":
        attributes = loop.attributes
        inputs = loop.operands[: len(loop.operands) - attributes["num_carries"]]
        # Without inputs, use the first result, an output of the same length.
        shape = inputs[0].shape if inputs else loop.shape
        if not isinstance(shape, ArrayShape):
            shape = loop.shape.elements[0]  # type: ignore[union-attr]  # a scan returns a tuple
        if not isinstance(shape, ArrayShape) or shape.rank <= attributes["scan_dimension"]:
            return None
        dimension = attributes["scan_dimension"]
        return None if shape.dynamic_dimensions[dimension] else shape.dimensions[dimension]
    counter = loop_counter(loop)
    return None if counter is None else counter.trips()


class LoopCounter(NamedTuple):
    """The integer that ends a loop ``i = begin; while (i relation end): i += step``.

    Attributes:
        begin: the initial value.
        end: the limit.
        step: what each iteration adds.
        relation: the direction of the comparison of the integer with the limit, such as "LT".
        element_type: the type of the integer.
    """

    begin: int
    end: int
    step: int
    relation: str
    element_type: PrimitiveType

    def end_after(self, count: int) -> int:
        """Return the limit with which the loop has this many iterations.

        Example:
            >>> import builder as xb
            >>> LoopCounter(2, 20, 3, "LT", xb.s32).end_after(4)
            14
        """
        return self.begin + (count - (self.relation in ("LE", "GE"))) * self.step

    def trips(self) -> int | None:
        """Return the trip count; None if the loop is infinite, or the integer would overflow.

        Example:
            >>> import builder as xb
            >>> LoopCounter(2, 20, 3, "LT", xb.s32).trips()
            6
        """
        begin, end, step, relation, element_type = self
        size = abs(step)
        distance = end - begin if step > 0 else begin - end
        if relation == "EQ":
            count = int(begin == end)
            if count and not step:
                return None
        elif relation == "NE":
            if begin == end:
                return 0
            if not step or distance < 0 or distance % size:
                return None
            count = distance // size
        else:
            is_inclusive = relation in ("LE", "GE")
            is_upward = relation in ("LT", "LE")
            holds = (begin < end) if is_upward else (begin > end)
            if not (holds or (is_inclusive and begin == end)):
                return 0
            if not step or (step > 0) is not is_upward:
                return None
            count = distance // size + 1 if is_inclusive else -(-distance // size)
        last = begin + count * step
        return count if element_type.min <= last <= element_type.max else None


def loop_counter(loop: XlaOp) -> LoopCounter | None:
    """Return the counter of a `while`, or None if it has none that is known.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> loop = xb.while_(lambda i: i < 10, lambda i: i + 3, b.constant(0, xb.s32))
        >>> loop_counter(loop)
        LoopCounter(begin=0, end=10, step=3, relation='LT', element_type=s32)
    """
    test = loop.attributes["condition"].root
    if test.opcode != "compare":
        return None
    direction = test.attributes["comparison_direction"]
    counter, limit = test.operands
    for first, second, relation in (
        (counter, limit, direction),
        (limit, counter, _MIRRORED[direction]),
    ):
        path = _state_path(first)
        if path is None or not _is_integer(first):
            continue
        step = _step(loop, path)
        begin = _initial(loop, path)
        end = _invariant(loop, second)
        if step is not None and begin is not None and end is not None:
            return LoopCounter(begin, end, step, relation, first.shape.element_type)
    return None


def _is_integer(op: XlaOp) -> bool:
    shape = op.shape
    return isinstance(shape, ArrayShape) and not shape.rank and shape.element_type.is_integral


def _constant(op: XlaOp) -> int | None:
    """Return the value of an integer scalar constant, or None for other ops."""
    constant = constant_value(op)
    return int(constant) if constant is not None and _is_integer(op) else None


def _state_path(op: XlaOp) -> _Path | None:
    """Return the path of the element of the loop state that `op` reads.

    Return () if `op` is the entire state, and None if it is not a part of the state.
    """
    path: list[int] = []
    while is_element(op):
        path.append(op.attributes["index"])
        op = op.operands[0]
    return tuple(reversed(path)) if is_parameter(op) else None


def _element(op: XlaOp, path: _Path) -> XlaOp | None:
    """Return the op at `path` in nested `tuple` ops; None if another op is on the path."""
    for index in path:
        if not is_tuple(op):
            return None
        op = op.operands[index]
    return op


def _initial(loop: XlaOp, path: _Path) -> int | None:
    """Return the initial value of an element of the state, or None if it is not constant."""
    initial = _element(loop.operands[0], path)
    return None if initial is None else _constant(initial)


def _step(loop: XlaOp, path: _Path) -> int | None:
    """Return the constant that the body adds to an element of the state.

    Return None if the body changes the element in another way.
    """
    after = _element(loop.attributes["body"].root, path)
    if after is None or after.opcode not in ("add", "subtract"):
        return None
    first, second = after.operands
    if after.opcode == "add" and _state_path(first) != path:
        first, second = second, first
    if _state_path(first) != path:
        return None
    step = _invariant(loop, second)
    return -step if step is not None and after.opcode == "subtract" else step


def _invariant(loop: XlaOp, op: XlaOp) -> int | None:
    """Return the value of an op of the condition or the body if it is a loop-invariant constant.

    Return None for other ops.
    """
    value = _constant(op)
    if value is not None or not _is_integer(op):
        return value
    path = _state_path(op)
    if path is None:
        return None
    after = _element(loop.attributes["body"].root, path)
    return _initial(loop, path) if after is not None and _state_path(after) == path else None
