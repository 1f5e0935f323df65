"""How often a loop runs, where that is plain to see.

A `while` counts when its state has an integer that begins with a constant, to which the body adds
or subtracts a constant, and the condition compares it with a constant. The constant may also be
carried along in the state, unchanged: values that a loop captures are.
"""

from __future__ import annotations

from typing import Final

from builder.graph.xla_op import XlaOp
from builder.types.shape import ArrayShape

__all__ = ["trip_count"]

_Path = tuple[int, ...]
"""The place of an element in a nested tuple."""

_MIRRORED: Final = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE", "NE": "NE", "EQ": "EQ"}


def trip_count(loop: XlaOp) -> int | None:
    """How often the body of a `while` or a `scan` runs; None where that is not known.

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
        # Outputs are as long as inputs, and stand first.
        shape = inputs[0].shape if inputs else loop.shape
        if not isinstance(shape, ArrayShape):
            shape = loop.shape.elements[0]  # type: ignore[union-attr]  # a scan gives a tuple
        if not isinstance(shape, ArrayShape) or shape.rank <= attributes["scan_dimension"]:
            return None
        dimension = attributes["scan_dimension"]
        return None if shape.dynamic_dimensions[dimension] else shape.dimensions[dimension]
    test = loop.attributes["condition"].root
    if test.opcode != "compare":
        return None
    direction = test.attributes["comparison_direction"]
    counter, limit = test.operands
    for first, second, wanted in (
        (counter, limit, direction),
        (limit, counter, _MIRRORED[direction]),
    ):
        place = _place(first)
        if place is None or not _is_whole(first):
            continue
        step = _step(loop, place)
        begin = _initial(loop, place)
        end = _value(loop, second)
        if step is not None and begin is not None and end is not None:
            return _count(begin, end, step, wanted, first)
    return None


def _is_whole(op: XlaOp) -> bool:
    shape = op.shape
    return isinstance(shape, ArrayShape) and not shape.rank and shape.element_type.is_integral


def _constant(op: XlaOp) -> int | None:
    """The value of a scalar constant of whole numbers."""
    return int(op.attributes["value"]) if op.opcode == "constant" and _is_whole(op) else None


def _place(op: XlaOp) -> _Path | None:
    """Which part of the parameter an op is; () for all of it, None if it is none."""
    path: list[int] = []
    while op.opcode == "get_tuple_element":
        path.append(op.attributes["index"])
        op = op.operands[0]
    return tuple(reversed(path)) if op.opcode == "parameter" else None


def _element(op: XlaOp, path: _Path) -> XlaOp | None:
    """The op that gives an element of a tuple; None where it is not recorded by itself."""
    for index in path:
        if op.opcode != "tuple":
            return None
        op = op.operands[index]
    return op


def _initial(loop: XlaOp, path: _Path) -> int | None:
    """The constant that a part of the state begins with."""
    found = _element(loop.operands[0], path)
    return None if found is None else _constant(found)


def _step(loop: XlaOp, path: _Path) -> int | None:
    """The constant that the body adds to a part of the state."""
    after = _element(loop.attributes["body"].root, path)
    if after is None or after.opcode not in ("add", "subtract"):
        return None
    first, second = after.operands
    if after.opcode == "add" and _place(first) != path:
        first, second = second, first
    if _place(first) != path:
        return None
    step = _value(loop, second)
    return -step if step is not None and after.opcode == "subtract" else step


def _value(loop: XlaOp, op: XlaOp) -> int | None:
    """The value of an op of the condition or the body that is the same whenever it runs."""
    found = _constant(op)
    if found is not None or not _is_whole(op):
        return found
    path = _place(op)
    if path is None:
        return None
    after = _element(loop.attributes["body"].root, path)
    return _initial(loop, path) if after is not None and _place(after) == path else None


def _count(begin: int, end: int, step: int, direction: str, counter: XlaOp) -> int | None:
    """How often ``begin``, ``begin + step``, ... are in the relation to ``end`` before one is not.

    None where the numbers never end, or only by running over.
    """
    ahead = end - begin if step > 0 else begin - end
    if direction == "EQ":
        count = 0 if begin != end else 1
        if count and not step:
            return None
    elif direction == "NE":
        if begin == end:
            return 0
        if not step or ahead < 0 or ahead % abs(step):
            return None
        count = ahead // abs(step)
    else:
        includes = direction in ("LE", "GE")
        goes_up = direction in ("LT", "LE")
        holds = (begin < end) if goes_up else (begin > end)
        if not (holds or (includes and begin == end)):
            return 0
        if not step or (step > 0) is not goes_up:
            return None
        size = abs(step)
        count = ahead // size + 1 if includes else -(-ahead // size)
    last = begin + count * step
    element = counter.shape.element_type
    return count if element.min <= last <= element.max else None
