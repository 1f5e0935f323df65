"""Shapes of tuples, calls, loops and branches.

Operation Semantics: Call, Conditional, GetTupleElement, OptimizationBarrier, Tuple, While.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Sequence

from builder.check import Check, any_dynamic, same_sizes
from builder.errors import brief
from builder.ops.rules.public import public
from builder.types import primitive_type as pt
from builder.types.shape import (
    ArrayShape,
    ProgramShape,
    Shape,
    TupleShape,
    intern_array,
    without_layout,
)

_PRED = intern_array(pt.pred, ())
_INDEX = intern_array(pt.s32, ())


@public
def same_shape(a: Shape, b: Shape) -> bool:
    """Return whether a value of shape `a` may be passed where shape `b` is expected.

    Sizes and element types must be equal; an unbounded size equals any size. As in XLA, a size <=3
    equals a size 3. Layouts are ignored, because values inside a program have no layouts.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.control_flow.same_shape("f32[<=3]", "f32[3]")
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


@public
def tuple(elements: Sequence[Shape]) -> TupleShape:
    """Return the shape of a tuple of elements with these shapes.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.control_flow.tuple(["f32[3]", "s32[]"])
        (f32[3], s32[])
    """
    return TupleShape(elements)


@public
def get_tuple_element(tuple_data: Shape, index: int) -> Shape:
    """Return the shape of element `index` of a tuple.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.control_flow.get_tuple_element("(f32[3], s32[])", 1)
        s32[]
    """
    check = Check("get_tuple_element", tuple_data=tuple_data)
    # StableHLO get_tuple_element (I1), (C1)
    if not isinstance(tuple_data, TupleShape):
        check.fail("tuple_data must be a tuple")
    count = len(tuple_data.elements)
    if not 0 <= index < count:
        indices = f"0 to {count - 1}" if count else "but the tuple is empty"
        check.fail(f"index must be the index of an element, {indices}, got {index}")
    return tuple_data.elements[index]


@public
def optimization_barrier(operand: Shape) -> Shape:
    """Return the shape of the operand: an array, a tuple or a token.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.control_flow.optimization_barrier("(f32[3], s32[])")
        (f32[3], s32[])
    """
    return operand


@public
def call(computation: ProgramShape, operands: Sequence[Shape], op: str = "call") -> Shape:
    """Return the shape of the result of a call of `computation` with operands of these shapes.

    Example:
        >>> import builder as xb
        >>> norm = xb.ProgramShape([xb.f32[3]], xb.f32[()])
        >>> xb.shape_inference.control_flow.call(norm, ["f32[3]"])
        f32[]
    """
    check = Check.numbered(op, "operand", operands)
    count = len(operands)
    # XLA shape_inference.cc: InferCallShape, and StableHLO composite (C3)
    if len(computation.parameters) != count:
        plural = "" if count == 1 else "s"
        expected = f"a function of {count} argument{plural}, one for each operand"
        check.signature("computation", computation, expected)
    pairs = zip(operands, computation.parameters, strict=True)
    for index, (operand, parameter) in enumerate(pairs):
        if not same_shape.strict(operand, parameter):
            check.signature(
                "computation",
                computation,
                f"a function that accepts the operands (parameter {index}, "
                f"{computation.parameter_names[index]}, is {parameter}; operand {index} is "
                f"{operand})",
            )
    return without_layout(computation.result)


_COMPOSITE_NAME = r"[a-zA-Z][a-zA-Z0-9_]*([.][a-zA-Z0-9_$]+)+"


@public
def composite_call(
    computation: ProgramShape, operands: Sequence[Shape], name: str, version: int = 0
) -> Shape:
    """Return the shape of a composite op's result: the result of its decomposition.

    Example:
        >>> import builder as xb
        >>> f32 = xb.f32[3]
        >>> square = xb.ProgramShape([f32], f32)
        >>> xb.shape_inference.control_flow.composite_call(square, [f32], "mine.square")
        f32[3]
    """
    check = Check.numbered("composite_call", "operand", operands)
    # StableHLO composite (C1), (I5)
    if not isinstance(name, str) or not re.fullmatch(_COMPOSITE_NAME, name):
        rule = (
            f"name must be in a namespace, and contain only letters, digits, underscores and dots, "
            f"got {brief(name)}"
        )
        check.fail(rule, fix='write name="my_library.my_op"')
    if not 0 <= version < 2**31:
        check.fail(f"version must be at least 0 and less than 2**31, got {version}")
    return call.strict(computation, operands, op="composite_call")


@public
def scan_arguments(
    inputs: Sequence[Shape],
    inits: Sequence[Shape],
    scan_dimension: int,
    scan_dimension_size: int | None = None,
) -> builtins.tuple[builtins.tuple[ArrayShape, ...], int]:
    """Return the parameter shapes of a `scan`'s computation, and the number of steps.

    The parameters are a slice of each input, without `scan_dimension`, and then each carry.

    Example:
        >>> import builder as xb
        >>> xb.shape_inference.control_flow.scan_arguments([xb.f32[5, 2]], [xb.s32[()]], 0)
        ((f32[2], s32[]), 5)
    """
    check = _scan_check(inputs, inits)
    # xla_builder.h: Scan
    arrays = [check.array(name) for name in check.shapes]
    if scan_dimension < 0:
        check.fail(f"scan_dimension must not be negative, got {scan_dimension}")
    if (scan_dimension_size or 0) < 0:
        check.fail(f"scan_dimension_size must not be negative, got {scan_dimension_size}")
    if not all(array.is_bounded for array in arrays):
        check.fail("the sizes of operands must be static or bounded")
    size = scan_dimension_size
    elements = []
    for index, array in enumerate(arrays[: len(inputs)]):
        check.dimension(scan_dimension, of=f"input {index}", name="scan_dimension")
        sizes, dynamic = list(array.dimensions), list(array.dynamic_dimensions)
        input_size, _ = sizes.pop(scan_dimension), dynamic.pop(scan_dimension)
        size = input_size if size is None else size
        if size != input_size:
            check.fail(
                f"the inputs must all have size {size} in dimension {scan_dimension}, got "
                f"{input_size} of input {index}",
                dimension=scan_dimension,
            )
        elements.append(
            intern_array(array.element_type, builtins.tuple(sizes), builtins.tuple(dynamic))
        )
    if size is None:
        check.fail("scan_dimension_size is required if there are no inputs")
    return (*elements, *arrays[len(inputs) :]), size


def _scan_check(inputs: Sequence[Shape], inits: Sequence[Shape]) -> Check:
    return Check.numbered(
        "scan", "input", inputs, **{f"init {i}": init for i, init in enumerate(inits)}
    )


@public
def scan(
    inputs: Sequence[Shape],
    inits: Sequence[Shape],
    computation: ProgramShape,
    scan_dimension: int,
    scan_dimension_size: int | None = None,
) -> TupleShape:
    """Return the shape of a scan's result, a tuple of the outputs and then the carries.

    Each output has the dimensions of the array that the computation returns for it, with the
    scanned dimension inserted.

    Example:
        >>> import builder as xb
        >>> f32 = xb.f32[()]
        >>> step = xb.ProgramShape([f32, f32], xb.tuple_shape([f32, f32]))
        >>> xb.shape_inference.control_flow.scan([xb.f32[5]], [f32], step, 0)
        (f32[5], f32[])
    """
    elements, size = scan_arguments.strict(inputs, inits, scan_dimension, scan_dimension_size)
    check = _scan_check(inputs, inits)
    parameters = ", ".join(map(str, elements))
    results = ", ".join(["outputs...", *map(str, inits)])
    expected = f"of signature ({parameters}) -> ({results}), for elements of inputs, then carries"
    # xla_builder.h: Scan
    if not same_shape.strict(TupleShape(computation.parameters), TupleShape(elements)):
        check.signature("computation", computation, expected)
    result = computation.result
    returned = result.elements if isinstance(result, TupleShape) else (result,)
    count = len(returned) - len(inits)
    if count < 0 or not same_shape.strict(TupleShape(returned[count:]), TupleShape(inits)):
        fix = "return the new carries after the outputs"
        check.signature("computation", computation, expected, fix=fix)
    outputs = []
    for index, output in enumerate(returned[:count]):
        if not isinstance(output, ArrayShape) or output.rank < scan_dimension:
            check.fail(
                f"output {index} of computation must be an array of at least {scan_dimension} "
                f"dimensions, because the scan inserts dimension {scan_dimension}, got {output}"
            )
        sizes = [*output.dimensions[:scan_dimension], size, *output.dimensions[scan_dimension:]]
        outputs.append(check.result(output.element_type, sizes))
    return TupleShape([*outputs, *map(without_layout, returned[count:])])


@public
def while_(condition: ProgramShape, body: ProgramShape, init: Shape) -> Shape:
    """Return the shape of a loop's result: the shape T of `init`.

    The signature of `condition` is ``T -> pred[]``, and that of `body` is ``T -> T``.

    Example:
        >>> import builder as xb
        >>> i = xb.s32[()]
        >>> goes_on, step = xb.ProgramShape([i], xb.pred[()]), xb.ProgramShape([i], i)
        >>> xb.shape_inference.control_flow.while_(goes_on, step, i)
        s32[]
    """
    check = Check("while_", init=init)
    fix_pred = (
        "return a scalar pred; reduce an array of preds with xb.reduce_all(..., True, xb.and_)"
    )
    fix_state = "return a value of the shape of init"
    # StableHLO while (C1), (C2)
    for role, signature, result, fix in (
        ("condition", condition, _PRED, fix_pred),
        ("body", body, init, fix_state),
    ):
        expected = f"of signature ({init}) -> {result}, for init {init}"
        if len(signature.parameters) != 1 or not same_shape.strict(signature.parameters[0], init):
            check.signature(role, signature, expected)
        if not same_shape.strict(signature.result, result):
            check.signature(role, signature, expected, fix=fix)
    return init


_BY_NUMBER = (
    "select a branch by number with "
    "xb.conditional(branch_index, branch_computations, branch_operands)"
)
_BY_PRED = (
    "select by a pred with "
    "xb.conditional(pred, true_operand, true_computation, false_operand, false_computation)"
)


@public
def conditional(
    branch_index: Shape,
    branches: Sequence[ProgramShape],
    operands: Sequence[Shape],
    *,
    predicated: bool = False,
) -> Shape:
    """Return the shape of the selected branch's result; all branches return the same shape.

    `branch_index` is a scalar s32. If `predicated` is True, `branch_index` is a scalar pred, and
    `branches` are the branches for true and for false. A dimension of the result is dynamic if the
    result of any branch is dynamic in it.

    Example:
        >>> import builder as xb
        >>> branch = xb.ProgramShape([xb.f32[3]], xb.f32[()])
        >>> operands = ["f32[3]", "f32[3]"]
        >>> xb.shape_inference.control_flow.conditional("s32[]", [branch, branch], operands)
        f32[]
    """
    check = Check.numbered("conditional", "branch operand", operands)
    check.shapes = {"pred" if predicated else "branch_index": branch_index, **check.shapes}
    # StableHLO case (C1), (I1), if (I1)
    check.that(bool(branches), "at least one branch is needed")
    if predicated and branch_index is not _PRED:
        check.fail(f"pred must be a scalar pred, got {branch_index}", fix=_BY_NUMBER)
    if not predicated and branch_index is not _INDEX:
        fix = _BY_PRED if branch_index is _PRED else None
        check.fail(f"branch_index must be a scalar s32, got {branch_index}", fix=fix)
    # XLA shape_inference.cc: InferConditionalShape
    if len(branches) != len(operands):
        check.fail(
            f"there must be one operand for each branch, got {len(branches)} branches and "
            f"{len(operands)} operands"
        )
    for index, (branch, operand) in enumerate(zip(branches, operands, strict=True)):
        role, result = f"branch {index}", branches[0].result
        if len(branch.parameters) != 1:
            several = "pass several values as one tuple: xb.tuple(a, b)"
            check.signature(role, branch, "a function of one argument", fix=several)
        if not same_shape.strict(operand, branch.parameters[0]):
            check.signature(role, branch, f"a function that accepts its operand, {operand}")
        # StableHLO case (C3), if (C2)
        if not same_shape.strict(branch.result, result):
            check.signature(
                role, branch, f"a computation that returns the shape of branch 0, {result}"
            )
    return _joined([without_layout(branch.result) for branch in branches])


def _joined(shapes: Sequence[Shape]) -> Shape:
    """Return the common shape of `shapes`; a dimension is dynamic if it is dynamic in any shape.

    As in XLA, each size or bound is copied from the first shape; the size may be unbounded.
    """
    first = shapes[0]
    if all(shape is first for shape in shapes):
        return first
    if isinstance(first, TupleShape):
        parts = zip(*(s.elements for s in shapes if isinstance(s, TupleShape)), strict=True)
        return TupleShape(_joined(part) for part in parts)
    arrays = [s for s in shapes if isinstance(s, ArrayShape)]
    dynamic = any_dynamic(arrays, arrays[0].dimensions)
    return intern_array(arrays[0].element_type, arrays[0].dimensions, dynamic)
