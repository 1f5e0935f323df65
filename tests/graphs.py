"""Graphs recorded from a random recipe, evaluated by NumPy, and compared with each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

import builder as xb

SHAPE = xb.s32[2, 3]

Step = tuple[int, int, int]
"""An index into STEPS, and the indices of two operands."""

STEPS: list[Callable[[xb.XlaBuilder, xb.XlaOp, xb.XlaOp], xb.XlaOp]] = [
    lambda b, x, y: x + y,
    lambda b, x, y: x - y,
    lambda b, x, y: x * y,
    lambda b, x, y: xb.max(x, y),
    lambda b, x, y: x ^ y,
    lambda b, x, y: -x,
    lambda b, x, y: xb.rev(x, [1]),
    lambda b, x, y: b.constant(np.arange(6, dtype=np.int32).reshape(2, 3)),
    lambda b, x, y: xb.select(x < y, x, y),
    lambda b, x, y: xb.broadcast_in_dim(xb.reduce(x, 0, xb.add, [0]), [2, 3], [1]),
    lambda b, x, y: xb.call(lambda v: v * y - 1, x),
    lambda b, x, y: xb.while_(
        lambda state: state[0] < 3,
        lambda state: (state[0] + 1, state[1] * 3 + y),
        [b.constant(0, xb.s32), x],
    )[1],
    lambda b, x, y: xb.conditional(
        xb.reduce(x, 0, xb.add, [0, 1]) < 0, x, lambda v: v + y, y, xb.neg
    ),
    lambda b, x, y: xb.tuple(x, xb.tuple(y))[1][0],
    lambda b, x, y: b.parameter(SHAPE),
]

recipes = st.lists(
    st.tuples(st.integers(0, len(STEPS) - 1), st.integers(0, 30), st.integers(0, 30)),
    min_size=1,
    max_size=30,
)


def recorded(recipe: Sequence[Step]) -> xb.XlaComputation:
    """Record the graph of a recipe: each step has two earlier values, and the last is the root."""
    b = xb.XlaBuilder("graph")
    values = [b.parameter(SHAPE, "x"), b.parameter(SHAPE, "y")]
    for kind, first, second in recipe:
        x, y = values[first % len(values)], values[second % len(values)]
        values.append(STEPS[kind](b, x, y))
    return b.build(values[-1])


def arguments_of(computation: xb.XlaComputation) -> list[np.ndarray[Any, Any]]:
    """Return an array of `SHAPE` for each parameter; parameters of one name have equal arrays."""
    arrays = []
    for parameter in computation.parameters:
        rng = np.random.default_rng(list(str(parameter.name).encode()))
        arrays.append(rng.integers(-5, 5, (2, 3), np.int32))
    return arrays


def evaluate(computation: xb.XlaComputation, *arguments: Any) -> Any:
    """Return NumPy's result of a computation of the opcodes in EVALUATORS."""
    return values_of(computation, *arguments)[computation.root.id]


def values_of(computation: xb.XlaComputation, *arguments: Any) -> list[Any]:
    """Return NumPy's value of each op; tuples are Python tuples."""
    values: list[Any] = []
    with np.errstate(over="ignore"):
        for op in computation.ops:
            if op.opcode == "parameter":
                values.append(arguments[op.attributes["number"]])
            else:
                values.append(EVALUATORS[op.opcode](op, *(values[o.id] for o in op.operands)))
    return values


def _broadcast(op: xb.XlaOp, x: Any) -> Any:
    dimensions = op.attributes["broadcast_dimensions"]
    sizes = [1] * op.shape.rank
    for source, target in enumerate(dimensions):
        sizes[target] = np.shape(x)[source]
    return np.broadcast_to(np.reshape(x, sizes), op.shape.dimensions)


def _reduce(op: xb.XlaOp, x: Any, init: Any) -> Any:
    assert [o.opcode for o in op.attributes["to_apply"].ops] == ["parameter", "parameter", "add"]
    return np.sum(x, axis=op.attributes["dimensions"], dtype=np.int32) + init


def _while(op: xb.XlaOp, state: Any) -> Any:
    while evaluate(op.attributes["condition"], state):
        state = evaluate(op.attributes["body"], state)
    return state


def _conditional(op: xb.XlaOp, pred: Any, on_true: Any, on_false: Any) -> Any:
    branches = op.attributes["branch_computations"]
    return evaluate(branches[0], on_true) if pred else evaluate(branches[1], on_false)


def _compare(op: xb.XlaOp, x: Any, y: Any) -> Any:
    assert op.attributes["comparison_direction"] == "LT"
    return np.less(x, y)


EVALUATORS: dict[str, Callable[..., Any]] = {
    "constant": lambda op: op.attributes["value"],
    "add": lambda op, x, y: np.add(x, y),
    "subtract": lambda op, x, y: np.subtract(x, y),
    "multiply": lambda op, x, y: np.multiply(x, y),
    "maximum": lambda op, x, y: np.maximum(x, y),
    "xor": lambda op, x, y: np.bitwise_xor(x, y),
    "negate": lambda op, x: np.negative(x),
    "tanh": lambda op, x: np.tanh(x),
    "select": lambda op, p, x, y: np.where(p, x, y),
    "compare": _compare,
    "reverse": lambda op, x: np.flip(x, op.attributes["dimensions"]),
    "broadcast_in_dim": _broadcast,
    "reduce": _reduce,
    "call": lambda op, *values: evaluate(op.attributes["to_apply"], *values),
    "while": _while,
    "conditional": _conditional,
    "tuple": lambda op, *values: values,
    "get_tuple_element": lambda op, values: values[op.attributes["index"]],
}


def assert_same(a: xb.XlaComputation, b: xb.XlaComputation, *, nested: bool = False) -> None:
    """Check that two distinct computations are equal.

    The computations that they apply must be the same objects, or equal if `nested` is set.
    """
    pending, visited = [(a, b)], set()
    while pending:
        first, second = pending.pop()
        if (first, second) in visited:
            continue
        visited.add((first, second))
        assert first is not second or nested
        assert first.name == second.name
        assert first.program_shape is second.program_shape
        assert (first.aliases, first.donors, first.annotations) == (
            (second.aliases, second.donors, second.annotations)
        )
        assert first.root.id == second.root.id
        assert [p.id for p in first.parameters] == [p.id for p in second.parameters]
        assert [_properties(op) for op in first.ops] == [_properties(op) for op in second.ops]
        for op, twin in zip(first.ops, second.ops, strict=True):
            if op.attributes is twin.attributes:
                continue
            assert nested
            assert list(op.attributes) == list(twin.attributes)
            pending += zip(op.called_computations, twin.called_computations, strict=True)
            for name, value in op.attributes.items():
                if not isinstance(value, (tuple, xb.XlaComputation)):
                    assert twin.attributes[name] is value


def _properties(op: xb.XlaOp) -> Any:
    operands = [operand.id for operand in op.operands]
    return op.id, op.opcode, op.shape, operands, op.metadata, op.source, type(op.operands)
