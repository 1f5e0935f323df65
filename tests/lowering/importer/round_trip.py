"""Comparison of two computations, up to what StableHLO cannot express.

StableHLO has no tuples and no operands of branches. So `tuple` and `get_tuple_element` are ignored:
the array operands and results of ops are compared, and a parameter of a branch is the value that is
passed. All else must be equal: opcodes, attributes, shapes, operands, metadata and the order of the
ops, and the parameters and the result of the entry with their nesting, names and layouts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

import builder as xb
import lowering
from builder.graph.xla_op import XlaOp
from builder.schema import SCHEMAS
from builder.types.shape import leaves

__all__ = ["REPLACED", "read_back", "same"]

Leaf = Any
"""The name of an array; corresponding arrays of two computations have the same name."""


def same(c: xb.XlaComputation, d: xb.XlaComputation) -> str | None:
    """Return the first difference of two computations as text; None if they are equal."""
    if c.name != d.name:
        return f"names: {c.name!r}, {d.name!r}"
    if c.program_shape != d.program_shape:
        return f"signatures: {c.program_shape}, {d.program_shape}"
    numbers: list[Leaf] = []
    for parameter in c.program_shape.parameters:
        numbers += [
            (c.name, "parameter", len(numbers) + i) for i, _ in enumerate(leaves(parameter))
        ]
    for one, other in zip(c.parameters, d.parameters, strict=True):
        if one.metadata != other.metadata:
            return f"metadata of the parameter {one.name}: {one.metadata}, {other.metadata}"
    # Pairs of computations to compare, with the names of the arrays in their parameters.
    pending: list[tuple[str, xb.XlaComputation, xb.XlaComputation, list[Leaf], list[Leaf]]] = []
    pending.append((c.name, c, d, numbers, numbers))
    compared: set[Any] = set()
    while pending:
        place, one, other, left_values, right_values = pending.pop()
        key = id(one), id(other), tuple(left_values), tuple(right_values)
        if key in compared:
            continue
        compared.add(key)
        lefts, rights = _Values(one, left_values), _Values(other, right_values)
        number = 0
        while True:
            left, right = next(lefts.rest, None), next(rights.rest, None)
            where = f"{place}, op {number}"
            if left is None or right is None:
                if left is not right:
                    return f"{where}: {left!r}, {right!r}"
                break
            reason, inside = _differ(left, right)
            if reason is not None:
                return f"{where}: {reason} of {left!r}, {right!r}"
            ours, theirs = lefts.operands_of(left), rights.operands_of(right)
            branching = left.opcode == "conditional"
            if branching:
                # All operands except the first are passed to the branches.
                ours, theirs = ours[:1], theirs[:1]
            if ours != theirs:
                return f"{where}: operands of {left!r}, {right!r}: {ours}, {theirs}"
            for position, (name, left_inner, right_inner) in enumerate(inside):
                into = f"{where} ({left.opcode}), {name}"
                if branching:
                    into = f"{into} {position}"
                    left_arguments = lefts.of(left.operands[1 + position])
                    right_arguments = rights.of(right.operands[1 + position])
                else:
                    left_shapes, right_shapes = (
                        [shape for p in inner.program_shape.parameters for shape in leaves(p)]
                        for inner in (left_inner, right_inner)
                    )
                    if left_shapes != right_shapes:
                        return f"{into}: parameters: {left_shapes}, {right_shapes}"
                    left_arguments = [("parameter", i) for i, _ in enumerate(left_shapes)]
                    right_arguments = left_arguments
                pending.append((into, left_inner, right_inner, left_arguments, right_arguments))
            lefts.define(left, (place, number))
            rights.define(right, (place, number))
            number += 1
        if lefts.of(one.root) != rights.of(other.root):
            return f"{place}: results: {lefts.of(one.root)}, {rights.of(other.root)}"
    return None


class _Values:
    """The result arrays of a computation's ops.

    Attributes:
        rest: the remaining ops, without parameters and tuples.
    """

    def __init__(self, computation: xb.XlaComputation, given: list[Leaf]) -> None:
        self._leaves: dict[XlaOp, list[Leaf]] = {}
        arrays = iter(given)
        for parameter in computation.parameters:
            self._leaves[parameter] = [next(arrays) for _ in leaves(parameter.shape)]
        self.rest = self._walk(computation)

    def _walk(self, computation: xb.XlaComputation) -> Iterator[XlaOp]:
        for op in computation.ops:
            if op.opcode == "tuple":
                self._leaves[op] = [leaf for one in op.operands for leaf in self.of(one)]
            elif op.opcode == "get_tuple_element":
                operand, index = op.operands[0], op.attributes["index"]
                begin = sum(len(list(leaves(s))) for s in operand.shape.elements[:index])
                count = len(list(leaves(op.shape)))
                self._leaves[op] = self.of(operand)[begin : begin + count]
            elif op.opcode != "parameter":
                yield op

    def of(self, op: XlaOp) -> list[Leaf]:
        return self._leaves[op]

    def operands_of(self, op: XlaOp) -> list[Leaf]:
        return [leaf for one in op.operands for leaf in self.of(one)]

    def define(self, op: XlaOp, number: Any) -> None:
        self._leaves[op] = [(number, i) for i, _ in enumerate(leaves(op.shape))]


Inside = list[tuple[str, xb.XlaComputation, xb.XlaComputation]]


def _differ(left: XlaOp, right: XlaOp) -> tuple[str | None, Inside]:
    """Return the difference of two ops, if there is one, and the computations that they apply."""
    inside: Inside = []
    if left.opcode != right.opcode:
        return "opcodes", inside
    if list(leaves(left.shape)) != list(leaves(right.shape)):
        return "shapes", inside
    if left.metadata != right.metadata:
        return f"metadata ({left.metadata}, {right.metadata})", inside
    if left.source is not None and str(left.source) != str(right.source):
        return f"source lines ({left.source}, {right.source})", inside
    if set(left.attributes) != set(right.attributes):
        return f"attributes ({set(left.attributes)}, {set(right.attributes)})", inside
    pending = [(name, left.attributes[name], right.attributes[name]) for name in left.attributes]
    while pending:
        name, a, b = pending.pop(0)
        if isinstance(a, xb.XlaComputation) and isinstance(b, xb.XlaComputation):
            inside.append((name, a, b))
        elif isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b) and a:
            pending[:0] = [(name, one, other) for one, other in zip(a, b, strict=True)]
        elif isinstance(a, Mapping) and isinstance(b, Mapping) and set(a) == set(b):
            pending[:0] = [(f"{name}.{key}", a[key], b[key]) for key in a]
        elif isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
            if (a.dtype, a.shape, a.tobytes()) != (b.dtype, b.shape, b.tobytes()):
                return f"attribute {name} ({a!r}, {b!r})", inside
        elif a != b and str(a) != str(b):
            return f"attribute {name} ({a!r}, {b!r})", inside
    return None, inside


class Replacement(NamedTuple):
    """How an op is imported as others.

    Attributes:
        reason: a description.
        opcodes: the opcodes that may replace it, including those in applied computations.
        attributes: the attributes that may differ if it is imported as the same opcode.
    """

    reason: str
    opcodes: frozenset[str] = frozenset()
    attributes: frozenset[str] = frozenset()


def replacement(reason: str, opcodes: str = "", attributes: str = "") -> Replacement:
    return Replacement(reason, frozenset(opcodes.split()), frozenset(attributes.split()))


REPLACED: Final = {
    "all_gather": replacement(
        "zeros for arrays that are empty along the dimension", "constant broadcast_in_dim"
    ),
    "all_to_all": replacement("absent groups become one group of all", attributes="replica_groups"),
    "all_to_all_tuple": replacement(
        "an all_to_all of the operands side by side", "all_to_all concatenate reshape slice"
    ),
    "custom_call": replacement(
        "the text of `opaque` as MLIR prints it; default layouts of results",
        attributes="opaque operand_shapes_with_layout shape_with_layout",
    ),
    "reduce_scatter": replacement(
        "one for each array; zeros for arrays that are empty along the dimension",
        "constant broadcast_in_dim reduce_scatter",
    ),
    "reshape": replacement(
        "to several bounded sizes, a dynamic_reshape to computed sizes",
        "constant divide dynamic_reshape get_dimension_size multiply",
    ),
    "scan": replacement(
        "a loop",
        "add broadcast_in_dim compare constant dynamic_slice dynamic_update_slice reshape "
        "subtract while",
    ),
    "stochastic_convert": replacement(
        "arithmetic on bits",
        "abs add broadcast_in_dim compare constant convert floor multiply negate select subtract",
    ),
}
"""Ops that are imported as others, some of them only for some operands."""


def opcodes(computation: xb.XlaComputation) -> Counter[str]:
    """Return the number of ops of each opcode, without those that `round_trip` ignores."""
    every = (computation, *computation.called_computations())
    result = Counter(op.opcode for one in every for op in one.ops)
    for looked_through in ("parameter", "tuple", "get_tuple_element"):
        del result[looked_through]
    return result


def unexplained(c: xb.XlaComputation, d: xb.XlaComputation, difference: str) -> str | None:
    """Return the part of a difference that `REPLACED` does not explain; None if it explains all."""
    before, after = opcodes(c), opcodes(d)
    known = [REPLACED[opcode] for opcode in before if opcode in REPLACED]
    gone, come = before - after, after - before
    expected: set[str] = set().union(*(one.opcodes for one in known))
    every = [op for one in (c, *c.called_computations()) for op in one.ops]
    applied = [op.called_computations for op in every if op.opcode in REPLACED]
    may_go = set(REPLACED).union(*(opcodes(one) for inside in applied for one in inside))
    if not set(gone) <= may_go or not set(come) <= expected:
        return f"{dict(gone)} became {dict(come)}"
    if gone or come:
        return None
    attribute = re.search(r": attribute ([\w.]+) ", difference)
    may_differ: set[str] = set().union(*(one.attributes for one in known))
    if attribute is None or attribute[1].partition(".")[0] not in may_differ:
        return difference
    return None


def read_back(computation: xb.XlaComputation) -> str | None:
    """Lower and import a computation; return the difference, if an op is in `REPLACED`."""
    module = lowering.lower(computation)
    again = lowering.to_computation(module)
    for one in (computation, again):
        applying = {op.opcode for op in one.ops if op.called_computations}
        assert all(SCHEMAS[opcode].computations for opcode in applying)
    difference = same(computation, again)
    if difference is not None:
        assert unexplained(computation, again, difference) is None
    assert again.program_shape == computation.program_shape
    # The import lowers to the same text, so further round trips change nothing.
    assert lowering.lower(again).to_text(locations=True) == module.to_text(locations=True)
    return difference
