"""Shapes of tuples, calls, loops and branches.

Operation Semantics: Call, Conditional, GetTupleElement, OptimizationBarrier, Tuple, While.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Sequence

from builder.check import Check
from builder.errors import brief
from builder.shape_inference.public import public
from builder.types import primitive_type as pt
from builder.types.shape import (
    ArrayShape,
    ProgramShape,
    Shape,
    TupleShape,
    intern_array,
    without_layout,
)

__all__ = [
    "call",
    "composite_call",
    "conditional",
    "get_tuple_element",
    "optimization_barrier",
    "same_shape",
    "scan",
    "scan_arguments",
    "tuple",
    "while_",
]

_PRED = intern_array(pt.pred, ())
_INDEX = intern_array(pt.s32, ())


@public
def same_shape(a: Shape, b: Shape) -> bool:
    """Whether a value of shape `a` may be passed where `b` is expected.

    Sizes and element types are equal throughout; whether a dimension is dynamic is not asked, as
    XLA does not ask, nor are layouts, which values inside a program have none of.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.control_flow.same_shape("f32[<=3]", "f32[3]")
        True
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


@public
def tuple(elements: Sequence[Shape]) -> TupleShape:
    """Shape of a tuple of these elements.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.control_flow.tuple(["f32[3]", "s32[]"])
        (f32[3], s32[])
    """
    return TupleShape(elements)


@public
def get_tuple_element(tuple_data: Shape, index: int) -> Shape:
    """Shape of element `index` of a tuple.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.control_flow.get_tuple_element("(f32[3], s32[])", 1)
        s32[]
    """
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


@public
def optimization_barrier(operand: Shape) -> Shape:
    """Shape of the operand, whatever it is.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.control_flow.optimization_barrier("(f32[3], s32[])")
        (f32[3], s32[])
    """
    return operand


@public
def call(computation: ProgramShape, operands: Sequence[Shape], op: str = "call") -> Shape:
    """Shape of the result of a computation called with these operands.

    Example:
        >>> import builder as xb
        >>> norm = xb.ProgramShape([xb.f32[3]], xb.f32[()])
        >>> xb.shape_inference.control_flow.call(norm, ["f32[3]"])
        f32[]
    """
    check = Check.numbered(op, "operand", operands)
    count = len(computation.parameters)
    if count != len(operands):
        check.signature(
            "computation",
            computation,
            f"a function of {len(operands)} arguments, as many as operands are given",
        )
    for index, (given, wanted) in enumerate(zip(operands, computation.parameters, strict=True)):
        if not same_shape.strict(given, wanted):
            name = computation.parameter_names[index]
            check.signature(
                "computation",
                computation,
                f"one that takes the operands (parameter {index}, {name}, is {wanted}, "
                f"operand {index} is {given})",
            )
    return without_layout(computation.result)


_COMPOSITE_NAME = r"[a-zA-Z][a-zA-Z0-9_]*([.][a-zA-Z0-9_$]+)+"


@public
def composite_call(
    computation: ProgramShape, operands: Sequence[Shape], name: str, version: int = 0
) -> Shape:
    """Shape of the result of an op that the computation decomposes: what that gives.

    Example:
        >>> import builder as xb
        >>> f32 = xb.f32[3]
        >>> square = xb.ProgramShape([f32], f32)
        >>> xb.shape_inference.control_flow.composite_call(square, [f32], "mine.square")
        f32[3]
    """
    check = Check.numbered("composite_call", "operand", operands)
    if not isinstance(name, str) or not re.fullmatch(_COMPOSITE_NAME, name):
        check.fail(
            f"name must be one in a namespace, of letters, digits and dots, got {brief(name)}",
            fix='write name="my_library.my_op"',
        )
    if not 0 <= version < 2**31:
        check.fail(f"version must not be negative and must fit 31 bits, got {version}")
    return call.strict(computation, operands, op="composite_call")


@public
def scan_arguments(
    inputs: Sequence[Shape],
    inits: Sequence[Shape],
    scan_dimension: int,
    scan_dimension_size: int | None = None,
) -> builtins.tuple[builtins.tuple[ArrayShape, ...], int]:
    """What the computation of a `scan` takes (an element of each input, each carry), and how often
    it is applied.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.control_flow.scan_arguments([xb.f32[5, 2]], [xb.s32[()]], 0)
        ((f32[2], s32[]), 5)
    """
    check = Check.numbered("scan", "input", inputs)
    check.shapes.update({f"init {i}": s for i, s in enumerate(inits)})
    arrays = check.arrays()
    check.that(scan_dimension >= 0, f"scan_dimension must not be negative, got {scan_dimension}")
    size = scan_dimension_size
    if size is not None and size < 0:
        check.fail(f"scan_dimension_size must not be negative, got {size}")
    elements = []
    for index, array in enumerate(arrays):
        if not array.is_bounded:
            check.fail("the sizes of operands must have a bound")
        if index >= len(inputs):
            elements.append(array)
            continue
        check.dimension(scan_dimension, of=f"input {index}", name="scan_dimension")
        found = array.dimensions[scan_dimension]
        if size is None:
            size = found
        elif size != found:
            check.fail(
                f"the inputs must have the same size in dimension {scan_dimension}, {size}, got "
                f"{found} of input {index}",
                dimension=scan_dimension,
            )
        sizes, dynamic = array.dimensions, array.dynamic_dimensions
        after = scan_dimension + 1
        elements.append(
            intern_array(
                array.element_type,
                sizes[:scan_dimension] + sizes[after:],
                dynamic[:scan_dimension] + dynamic[after:],
            )
        )
    if size is None:
        check.fail("scan_dimension_size must be given where there are no inputs")
    return builtins.tuple(elements), size


@public
def scan(
    inputs: Sequence[Shape],
    inits: Sequence[Shape],
    computation: ProgramShape,
    scan_dimension: int,
    scan_dimension_size: int | None = None,
) -> TupleShape:
    """Shape of a scan's result, a tuple: each output with the scanned dimension, then the carries.

    Example:
        >>> import builder as xb
        >>> f32 = xb.f32[()]
        >>> step = xb.ProgramShape([f32, f32], xb.tuple_shape([f32, f32]))
        >>> xb.shape_inference.control_flow.scan([xb.f32[5]], [f32], step, 0)
        (f32[5], f32[])
    """
    elements, size = scan_arguments.strict(inputs, inits, scan_dimension, scan_dimension_size)
    check = Check.numbered("scan", "input", inputs)
    check.shapes.update({f"init {i}": s for i, s in enumerate(inits)})
    takes = ", ".join(map(str, elements))
    carries = ", ".join(["outputs...", *map(str, inits)])
    expected = f"of signature ({takes}) -> ({carries}), elements of the inputs and carries"
    parameters = computation.parameters
    if len(parameters) != len(elements) or not all(map(same_shape.strict, parameters, elements)):
        check.signature("computation", computation, expected)
    result = computation.result
    gives = result.elements if isinstance(result, TupleShape) else (result,)
    count = len(gives) - len(inits)
    if count < 0 or not all(map(same_shape.strict, gives[count:], inits)):
        check.signature(
            "computation", computation, expected, fix="give the new carries after the outputs"
        )
    outputs = []
    for index, output in enumerate(gives[:count]):
        if not isinstance(output, ArrayShape) or output.rank < scan_dimension:
            check.fail(
                f"output {index} of computation must be an array of at least {scan_dimension} "
                f"dimensions, to get dimension {scan_dimension} as the scanned one, got {output}"
            )
        sizes = [*output.dimensions[:scan_dimension], size, *output.dimensions[scan_dimension:]]
        outputs.append(check.result(output.element_type, sizes))
    return TupleShape([*outputs, *map(without_layout, gives[count:])])


@public
def while_(condition: ProgramShape, body: ProgramShape, init: Shape) -> Shape:
    """Shape of a loop's result: that of `init`, T; condition is T -> pred[], body is T -> T.

    Example:
        >>> import builder as xb
        >>> i = xb.s32[()]
        >>> goes_on, step = xb.ProgramShape([i], xb.pred[()]), xb.ProgramShape([i], i)
        >>> xb.shape_inference.control_flow.while_(goes_on, step, i)
        s32[]
    """
    check = Check("while_", init=init)
    for role, signature, result in (("condition", condition, _PRED), ("body", body, init)):
        expected = f"of signature ({init}) -> {result}, for init {init}"
        if len(signature.parameters) != 1 or not same_shape.strict(signature.parameters[0], init):
            check.signature(role, signature, expected)
        if not same_shape.strict(signature.result, result):
            check.signature(
                role,
                signature,
                expected,
                fix="the loop's state keeps its shape in every iteration"
                if role == "body"
                else "give one pred: compare, and reduce an array of preds with xb.and_",
            )
    return init


@public
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

    Example:
        >>> import builder as xb
        >>> branch = xb.ProgramShape([xb.f32[3]], xb.f32[()])
        >>> operands = ["f32[3]", "f32[3]"]
        >>> xb.shape_inference.control_flow.conditional("s32[]", [branch, branch], operands)
        f32[]
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
        if not same_shape.strict(operand, branch.parameters[0]):
            check.signature(role, branch, f"one that takes its operand, {operand}")
        if not same_shape.strict(branch.result, branches[0].result):
            check.signature(
                role, branch, f"one that gives what branch 0 gives, {branches[0].result}"
            )
    return _joined([without_layout(branch.result) for branch in branches])


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
    return intern_array(arrays[0].element_type, arrays[0].dimensions, builtins.tuple(dynamic))
