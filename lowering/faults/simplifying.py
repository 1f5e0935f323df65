"""Steps of `lowering.minimize` that keep the ops, with simpler sizes, loops, attributes and types.

Each step returns a program with the fault; the given program itself if there is no simpler one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import jax
import numpy as np

from builder.attributes.padding import PaddingConfig, PaddingConfigDimension
from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp, is_constant
from builder.ops.contraction.dot_product import DEFAULT_PRECISION
from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import ArrayShape, leaves
from lowering.faults.equal_dimensions import EqualDimensions
from lowering.faults.recording_again import Change, recorded_again, without_annotations
from lowering.faults.search import (
    Program,
    Search,
    all_parts,
    attempt,
    loop_counters,
    loops_in,
    with_changes,
)

Changes = Iterator[Callable[[], Program]]


def _changed(
    program: Program, change: Change, dimensions: EqualDimensions | None = None
) -> Program:
    """Return a program with a change; `dimensions` are those that the change refers to."""
    dimensions = dimensions or EqualDimensions(program.computation)
    return Program(*recorded_again(*program, dimensions, change))


def is_static(program: Program) -> bool:
    """Return whether all sizes of a program are fixed: only such programs are recorded again."""
    shapes = (op.shape for part in all_parts(program.computation) for op in part.ops)
    return all(
        leaf.is_static for shape in shapes for leaf in leaves(shape) if isinstance(leaf, ArrayShape)
    )


# Sizes


def with_smaller_sizes(search: Search, program: Program) -> Program:
    """Make the dimensions of arrays smaller: all of them at first, then one after the other."""
    dimensions = EqualDimensions(program.computation)
    smallest = Change(likely=dict.fromkeys(dimensions.sizes, 1))
    places = _places(program.computation, dimensions)
    if any(size > 1 for size in dimensions.sizes.values()):
        program = attempt(search, partial(_changed, program, smallest, dimensions)) or program
    for place in places:
        program = _with_smaller_size(search, program, place)
    return program


_Place = tuple[int, int, int, int]
"""A dimension by the numbers of the computation, the op, the array in its value, the dimension."""


def _places(computation: XlaComputation, dimensions: EqualDimensions) -> list[_Place]:
    """Return a place for each group of equal dimensions.

    A place remains valid when sizes change.
    """
    found: dict[Any, _Place] = {}
    for number, part in enumerate(all_parts(computation)):
        for op in part.ops:
            for index, nodes in enumerate(dimensions.of[op]):
                for d, node in enumerate(nodes):
                    found.setdefault(node.root, (number, op.id, index, d))
    return list(found.values())


def _with_smaller_size(search: Search, program: Program, place: _Place) -> Program:
    """Keep a part of the elements along a dimension: one, or as few as possible."""
    number, op_id, index, d = place

    def part(start: int, size: int) -> Program | None:
        dimensions = EqualDimensions(program.computation)
        op = all_parts(program.computation)[number].ops[op_id]
        root = dimensions.of[op][index][d].root
        change = Change(sizes={root: size}, starts={root: start})
        return attempt(search, partial(_changed, program, change, dimensions))

    op = all_parts(program.computation)[number].ops[op_id]
    array = list(leaves(op.shape))[index]
    size = array.dimensions[d] if isinstance(array, ArrayShape) else 1
    if size <= 1:
        return program
    smallest = part(0, 1)
    if smallest is not None:
        return smallest
    step = size // 2
    while step:
        smaller = part(0, size - step) or part(step, size - step)
        if smaller is None:
            step //= 2
        else:
            program, size = smaller, size - step
            step = min(step, size // 2)
    return program


# Loops


def with_fewer_iterations(search: Search, program: Program) -> Program:
    """Make the limits of loops smaller, where they are constants or arguments."""
    return with_changes(search, program, _shorter_loops)


def _shorter_loops(program: Program) -> Changes:
    counters = loop_counters(program)
    for number, counter in enumerate(counters):
        count = counter and counter.trips()
        if counter is None or not count or counter.relation == "EQ":
            continue
        for fewer in sorted({1, 2, count // 2, count - 1} - {0}):
            if fewer >= count:
                continue
            for changed in _with_limit(program, number, counter.end, counter.end_after(fewer)):

                def checked(
                    changed: Callable[[], Program] = changed,
                    number: int = number,
                    fewer: int = fewer,
                ) -> Program:
                    new = changed()
                    counter = loop_counters(new)[number]
                    # The number was something else than the limit of the loop.
                    is_right = counter is not None and counter.trips() == fewer
                    return new if is_right else program

                yield checked


def _with_limit(program: Program, number: int, old: int, new: int) -> Changes:
    """Yield programs in which one number may be the new limit of a loop."""
    loop = loops_in(program.computation)[number]
    for op in (*loop.attributes["condition"].ops, *loop.operands[0].operands, loop.operands[0]):
        if is_constant(op) and _is_number(op.attributes["value"], old):
            value = np.asarray(new, op.attributes["value"].dtype)
            change = Change(attributes={op: {"value": value}})
            yield partial(_changed, program, change)
    values, structure = jax.tree.flatten(program.arguments)
    for place, value in enumerate(values):
        if _is_number(value, old):
            changed = [*values]
            changed[place] = np.asarray(new, np.asarray(value).dtype)
            arguments = jax.tree.unflatten(structure, changed)
            yield partial(program._replace, arguments=arguments)


def _is_number(value: Any, number: int) -> bool:
    array = np.asarray(value)
    return not array.shape and array.dtype.kind in "iu" and int(array) == number


# Attributes


def with_simple_attributes(search: Search, program: Program) -> Program:
    """Remove annotations, and give attributes simple values."""
    if _has_annotations(program.computation):
        plain = attempt(search, partial(_changed, program, Change(keeps_annotations=False)))
        program = plain or program
    return with_changes(search, program, _simpler_attributes)


def _has_annotations(computation: XlaComputation) -> bool:
    """Return whether there are shardings, layouts, aliases or frontend attributes."""
    shape = computation.program_shape
    layouts = [leaf for each in (*shape.parameters, shape.result) for leaf in leaves(each)]
    return bool(
        any(isinstance(leaf, ArrayShape) and leaf.layout is not None for leaf in layouts)
        or computation.annotations
        or computation.aliases
        or computation.donors
        or any(
            op.metadata != without_annotations(op.metadata)
            for part in all_parts(computation)
            for op in part.ops
        )
    )


def _simpler_attributes(program: Program) -> Changes:
    for part in all_parts(program.computation):
        for op in part.ops:
            for attributes in _simple_values(op):
                change = Change(attributes={op: attributes})
                yield partial(_changed, program, change)


_SIMPLE: Final[dict[str, Any]] = {
    "algorithm": None,
    "base_dilations": 1,
    "batch_group_count": 1,
    "feature_group_count": 1,
    "indices_are_sorted": False,
    "is_stable": False,
    "lhs_dilation": 1,
    "padding": (0, 0),
    "precision": DEFAULT_PRECISION,
    "result_accuracy": None,
    "rhs_dilation": 1,
    "start_indices": 0,
    "strides": 1,
    "unique_indices": False,
    "window_dilations": 1,
    "window_dimensions": 1,
    "window_reversal": False,
    "window_strides": 1,
}
"""The simple value of an attribute, or of each element of an attribute with one per dimension."""


def _simple_values(op: XlaOp) -> Iterator[dict[str, Any]]:
    """Yield simpler values of attributes: in all dimensions, then in single ones."""
    for name, value in op.attributes.items():
        if name == "padding_config":
            plain = PaddingConfigDimension(0, 0, 0)
            for new in _simpler(value.dimensions, plain):
                yield {name: PaddingConfig(tuple(new))}
        elif name in _SIMPLE and op.opcode != "rng_bit_generator":
            simple = _SIMPLE[name]
            if not isinstance(value, tuple) or name == "precision":
                if value != simple:
                    yield {name: simple}
            else:
                yield from ({name: tuple(new)} for new in _simpler(value, simple))


def _simpler(values: Any, simple: Any) -> Iterator[list[Any]]:
    """Yield lists in which elements have the simple value: all, then each one."""
    others = [place for place, value in enumerate(values) if value != simple]
    if others:
        yield [simple] * len(values)
    for place in others if len(others) > 1 else ():
        yield [simple if place == number else value for number, value in enumerate(values)]


# Element types


def with_simple_types(search: Search, program: Program) -> Program:
    """Replace element types by f32, s32 and c64."""
    return with_changes(search, program, _simpler_types)


def _simpler_types(program: Program) -> Changes:
    types: dict[PrimitiveType, None] = {}
    for part in all_parts(program.computation):
        for op in part.ops:
            found = [leaf for leaf in leaves(op.shape) if isinstance(leaf, ArrayShape)]
            types.update(dict.fromkeys(leaf.element_type for leaf in found))
    for element_type in types:
        simple = _simple_type(element_type)
        if simple is not element_type:
            change = Change(types={element_type: simple})
            yield partial(_changed, program, change)


def _simple_type(element_type: PrimitiveType) -> PrimitiveType:
    if element_type.is_complex:
        return pt.c64
    if element_type.is_floating:
        return pt.f32
    return pt.s32 if element_type.is_integral else element_type
