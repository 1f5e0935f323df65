"""Shapes of tuples, calls, loops and branches.

Operation Semantics: Call, Conditional, GetTupleElement, OptimizationBarrier, Tuple, While.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence

from builder import primitive_type as pt
from builder.shape import ArrayShape, ProgramShape, Shape, TupleShape, intern_array
from builder.shape_inference.check import Check

__all__ = [
    "call",
    "conditional",
    "get_tuple_element",
    "optimization_barrier",
    "same_shape",
    "tuple",
    "while_",
]

_PRED = intern_array(pt.pred, ())
_INDEX = intern_array(pt.s32, ())


def same_shape(a: Shape, b: Shape) -> bool:
    """Whether a value of shape `a` may be passed where `b` is expected.

    Sizes and element types are equal throughout; whether a dimension is dynamic is not asked, as
    XLA does not ask.
    """
    if a is b:
        return True
    stack = [(a, b)]
    while stack:
        x, y = stack.pop()
        if x is y:
            continue
        if isinstance(x, TupleShape) and isinstance(y, TupleShape):
            if len(x.elements) != len(y.elements):
                return False
            stack.extend(zip(x.elements, y.elements, strict=True))
        elif isinstance(x, ArrayShape) and isinstance(y, ArrayShape):
            if x.element_type is not y.element_type or x.dimensions != y.dimensions:
                return False
        else:
            return False
    return True


def tuple(elements: Sequence[Shape]) -> TupleShape:
    """Shape of a tuple of these elements."""
    return TupleShape(elements)


def get_tuple_element(tuple_data: Shape, index: int) -> Shape:
    """Shape of element `index` of a tuple."""
    check = Check("get_tuple_element", tuple_data=tuple_data)
    if not isinstance(tuple_data, TupleShape):
        check.fail("tuple_data must be a tuple")
    count = len(tuple_data.elements)
    if not 0 <= index < count:
        check.fail(
            "index must be that of an element, "
            + (f"0 to {count - 1}" if count else "and the tuple is empty")
            + f", got {index}"
        )
    return tuple_data.elements[index]


def optimization_barrier(operand: Shape) -> Shape:
    """Shape of the operand, whatever it is."""
    return operand


def call(computation: ProgramShape, operands: Sequence[Shape]) -> Shape:
    """Shape of the result of a computation called with these operands."""
    check = Check.numbered("call", "operand", operands)
    count = len(computation.parameters)
    if count != len(operands):
        check.signature(
            "computation",
            computation,
            f"a function of {len(operands)} arguments, as many as operands are given",
        )
    for index, (given, wanted) in enumerate(zip(operands, computation.parameters, strict=True)):
        if not same_shape(given, wanted):
            name = computation.parameter_names[index]
            check.signature(
                "computation",
                computation,
                f"one that takes the operands (parameter {index}, {name}, is {wanted}, "
                f"operand {index} is {given})",
            )
    return computation.result


def while_(condition: ProgramShape, body: ProgramShape, init: Shape) -> Shape:
    """Shape of a loop's result: that of `init`, T; condition is T -> pred[], body is T -> T."""
    check = Check("while_", init=init)
    for role, signature, result in (("condition", condition, _PRED), ("body", body, init)):
        expected = f"of signature ({init}) -> {result}, for init {init}"
        if len(signature.parameters) != 1 or not same_shape(signature.parameters[0], init):
            check.signature(role, signature, expected)
        if not same_shape(signature.result, result):
            check.signature(
                role,
                signature,
                expected,
                fix="the loop's state keeps its shape in every iteration"
                if role == "body"
                else "give one pred: compare, and reduce an array of preds with xb.and_",
            )
    return init


def conditional(
    branch_index: Shape,
    branches: Sequence[ProgramShape],
    operands: Sequence[Shape],
    *,
    predicated: bool = False,
) -> Shape:
    """Shape of the result of the branch that is chosen; all branches give the same.

    `branch_index` is a scalar s32; when `predicated`, a scalar pred, and the branches are two: true
    and false. A size of the result is dynamic if it is in any branch.
    """
    check = Check.numbered("conditional", "branch operand", operands)
    check.shapes = {"pred" if predicated else "branch_index": branch_index, **check.shapes}
    check.that(bool(branches), "at least one branch is needed")
    if predicated and branch_index is not _PRED:
        check.fail(
            f"pred must be a scalar pred, got {branch_index}",
            fix="a branch is chosen by number with "
            "xb.conditional(branch_index, branch_computations, branch_operands)",
        )
    if not predicated and branch_index is not _INDEX:
        check.fail(
            f"branch_index must be a scalar s32, got {branch_index}",
            fix="a pred chooses with xb.conditional(pred, true_operand, true_computation, "
            "false_operand, false_computation)"
            if branch_index is _PRED
            else None,
        )
    if len(branches) != len(operands):
        check.fail(
            f"there must be one operand for each branch, got {len(branches)} branches and "
            f"{len(operands)} operands"
        )
    for index, (branch, operand) in enumerate(zip(branches, operands, strict=True)):
        role = f"branch {index}"
        if len(branch.parameters) != 1:
            check.signature(
                role,
                branch,
                "a function of one argument",
                fix="pass several values as one tuple: xb.tuple(a, b)",
            )
        if not same_shape(operand, branch.parameters[0]):
            check.signature(role, branch, f"one that takes its operand, {operand}")
        if not same_shape(branch.result, branches[0].result):
            check.signature(
                role, branch, f"one that gives what branch 0 gives, {branches[0].result}"
            )
    return _joined([branch.result for branch in branches])


def _joined(shapes: Sequence[Shape]) -> Shape:
    """Of shapes with equal sizes the one in which a size is dynamic if it is in any of them."""
    first = shapes[0]
    if all(shape is first for shape in shapes):
        return first
    if isinstance(first, TupleShape):
        parts = zip(*(s.elements for s in shapes if isinstance(s, TupleShape)), strict=True)
        return TupleShape(_joined(part) for part in parts)
    arrays = [s for s in shapes if isinstance(s, ArrayShape)]
    dynamic = [any(sizes) for sizes in zip(*(a.dynamic_dimensions for a in arrays), strict=True)]
    return intern_array(
        arrays[0].element_type, arrays[0].dimensions, builtins.tuple(dynamic), arrays[0].layout
    )
