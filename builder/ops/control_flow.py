"""Parameters, tuples, barriers, calls, branches and loops.

Operation Semantics: Call, Conditional, GetTupleElement, OptimizationBarrier, Tuple, While.
"""

from __future__ import annotations

import builtins
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, overload

from builder.attributes.mlir_text import composite_attributes_text
from builder.checking import Check, any_dynamic, flag, integer, same_shape
from builder.errors import OperandError, brief, error_of
from builder.graph.computation import XlaComputation
from builder.graph.recording import record, resolve_builder, rollback_on_error
from builder.graph.registry import op_by_hand
from builder.graph.subcomputations import (
    Recorded,
    ReusableFunction,
    append_captures,
    build_all,
    carry_captures,
    computation_or_recorded,
    lift_captures,
    record_tuple,
    signature,
)
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.ops.definition import op
from builder.ops.operands import (
    InitialValue,
    builder_of_values,
    is_initial_value,
    need_initial_values,
    need_op,
    need_ops,
    record_constants,
)
from builder.schema.definition import (
    ANY,
    APPLIED_ONCE,
    APPLIED_REPEATEDLY,
    BUILDER_H,
    Attribute,
    CostClass,
    Group,
    Tolerance,
    Trait,
    define,
)
from builder.schema.equal_sizes import Pairs, SizedOp
from builder.schema.kinds import (
    COMPUTATION,
    DICTIONARY,
    DIMENSION,
    FLAG,
    INTEGER,
    INTEGER32,
    TEXT,
)
from builder.support.arguments import is_function
from builder.support.caches import per_signature
from builder.types import primitive_type as pt
from builder.types.shape import (
    ArrayShape,
    ProgramShape,
    Shape,
    TupleShape,
    intern_array,
    leaves,
    without_layout,
)

Applied = XlaComputation | Callable[..., Any]
_SEQUENCES = (list, builtins.tuple)

_PRED: Final = intern_array(pt.pred, ())
_INDEX: Final = intern_array(pt.s32, ())


# --- Tuples and barriers ------------------------------------------------------------------------


@per_signature
def _tuple_shape(elements: Sequence[Shape]) -> TupleShape:
    # Not in XLA: the operands determine the builder
    if not elements:
        rule = "at least one element is needed"
        fix = "record an empty tuple with builder.empty_tuple()"
        raise error_of(OperandError, "tuple", rule, fix, got="none")
    return TupleShape(elements)


TUPLE: Final = define("tuple", "*operands", cost=CostClass.FREE, traits=Trait.STRUCTURE)


@op(TUPLE, _tuple_shape)
def tuple(*elements: XlaOp | Sequence[XlaOp]) -> XlaOp:
    """Combine several values into a tuple.

    Args:
        elements: at least one op (an array, a token or a tuple), or a sequence of ops. (The empty
            tuple has no operand that determines the builder: use ``builder.empty_tuple()``.)

    Returns:
        A tuple of the elements.

    Raises:
        OperandError: there is no element, or an element is not an op.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> v, s = b.parameter(xb.f32[10]), b.parameter(xb.s32[()])
        >>> xb.tuple(v, s).shape
        (f32[10], s32[])

    Operation Semantics: Tuple.
    """


def _get_tuple_element_shape(tuple_data: Shape, index: int) -> Shape:
    check = Check("get_tuple_element", tuple_data=tuple_data)
    # StableHLO get_tuple_element (I1), (C1)
    if not isinstance(tuple_data, TupleShape):
        check.fail("tuple_data must be a tuple")
    count = len(tuple_data.elements)
    if not 0 <= index < count:
        indices = f"0 to {count - 1}" if count else "but the tuple is empty"
        check.fail(f"index must be the index of an element, {indices}", got=index)
    return tuple_data.elements[index]


GET_TUPLE_ELEMENT: Final = define(
    "get_tuple_element",
    "tuple_data",
    (Attribute("index", INTEGER),),
    cost=CostClass.FREE,
    traits=Trait.STRUCTURE,
)


@op(GET_TUPLE_ELEMENT, _get_tuple_element_shape)
def get_tuple_element(tuple_data: XlaOp, index: int) -> XlaOp:
    """Return one element of a tuple; ``tuple_data[index]`` is equivalent.

    Args:
        tuple_data: a tuple.
        index: the element's index, from 0.

    Returns:
        The element.

    Raises:
        ShapeInferenceError: the operand is not a tuple; the index is out of range.

    Example:
        >>> import builder as xb
        >>> t = xb.XlaBuilder().parameter("(f32[10], s32[])")
        >>> xb.get_tuple_element(t, 1).shape
        s32[]

    Operation Semantics: GetTupleElement.
    """


def _optimization_barrier_shape(operand: Shape) -> Shape:
    return operand


OPTIMIZATION_BARRIER: Final = define("optimization_barrier", "operand", hlo="opt-barrier")

DERIVATIVE: Final = "xlabuilder.derivative"
"""The frontend attribute of an `optimization_barrier` that has another derivative than its operand.

The barrier computes nothing, and is removed before a program is compiled."""

ZERO_DERIVATIVE: Final = "zero"
"""The value of `DERIVATIVE` for `lib.stop_gradient`."""

CUSTOM_DERIVATIVE: Final = "custom"
"""The value of `DERIVATIVE` for an identity whose derivative a rule of jax defines."""


@op(OPTIMIZATION_BARRIER, _optimization_barrier_shape)
def optimization_barrier(operand: XlaOp) -> XlaOp:
    """Return the operand, and prevent the compiler from moving operations across this op.

    All operations that the operand depends on execute before any operation that uses the result.

    Args:
        operand: any value; a tuple to combine several values.

    Returns:
        The same values.

    Example:
        >>> import builder as xb
        >>> xb.optimization_barrier(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: OptimizationBarrier.
    """


# --- Ops that apply computations ----------------------------------------------------------------
#
# They have bodies: callables are recorded, and the values that these use become operands.


Region = builtins.tuple[str, Applied, builtins.tuple[Shape, ...], bool]
"""A computation that an op applies: its role, the computation or callable, the shapes of its
parameters, and whether to pass arguments to a callable."""


def _recorded_before(
    computation: Applied, shapes: builtins.tuple[Shape, ...]
) -> XlaComputation | None:
    """Return the XlaComputation if it exists already, so that it has no captures; else None."""
    if type(computation) is ReusableFunction:
        return computation._cached(shapes)
    return computation if isinstance(computation, XlaComputation) else None


def _record_regions(
    name: str, regions: Sequence[Region], builder: XlaBuilder
) -> builtins.tuple[list[XlaComputation | Recorded], bool]:
    """Record the callables in `regions`; return the computations, and whether any has captures."""
    computations = [
        computation_or_recorded(name, role, computation, shapes, builder, passed)
        for role, computation, shapes, passed in regions
    ]
    has_captures = any(isinstance(c, Recorded) and c.captures() for c in computations)
    if has_captures:
        # Every computation takes the captures, so library functions are recorded for this op alone.
        for index, (role, computation, shapes, passed) in enumerate(regions):
            if not isinstance(computations[index], Recorded):
                computations[index] = computation_or_recorded(
                    name, role, computation, shapes, builder, passed, will_widen=True
                )
    return computations, has_captures


def _shapes_of(ops: Sequence[XlaOp]) -> builtins.tuple[Shape, ...]:
    return builtins.tuple([op.shape for op in ops])


def _state(name: str, argument: str, value: Any) -> XlaOp:
    """Return `value` if it is an op; record a tuple if it is a sequence of ops."""
    if isinstance(value, _SEQUENCES) and value:
        return tuple(*need_ops(name, f"{argument} element", value))
    return need_op(name, argument, value)


def _with_constants(
    name: str, argument: str, state: Any, expected: Sequence[Shape], builder: XlaBuilder
) -> Any:
    """Return a state, a value or a sequence, with its numbers and arrays recorded as constants.

    `expected` has the shape of the state if a computation determines it.
    """
    if not isinstance(state, _SEQUENCES):
        return record_constants(name, [argument], [state], builder, expected=expected)[0]
    shape = expected[0] if expected else None
    prefix = argument if argument == "init" else f"{argument} element"
    names = [f"{prefix} {index}" for index in range(len(state))]
    elements = shape.elements if isinstance(shape, TupleShape) else ()
    return record_constants(name, names, state, builder, expected=elements)


def _parameter_shapes(computation: Applied) -> builtins.tuple[Shape, ...]:
    """Return the shapes of the parameters of an XlaComputation; () for a callable."""
    return computation.signature.parameters if isinstance(computation, XlaComputation) else ()


@per_signature
def _call_shape(computation: ProgramShape, operands: Sequence[Shape], op: str = "call") -> Shape:
    check = Check.numbered(op, "operand", operands)
    count = len(operands)
    # XLA shape_inference.cc: InferCallShape, and StableHLO composite (C3)
    if len(computation.parameters) != count:
        plural = "" if count == 1 else "s"
        expected = f"a function of {count} argument{plural}, one for each operand"
        check.signature("computation", computation, expected)
    pairs = zip(operands, computation.parameters, strict=True)
    for index, (operand, parameter) in enumerate(pairs):
        if not same_shape(operand, parameter):
            check.signature(
                "computation",
                computation,
                f"a function that accepts the operands (parameter {index}, "
                f"{computation.parameter_names[index]}, is {parameter}; operand {index} is "
                f"{operand})",
            )
    return without_layout(computation.result)


def _call_equal_sizes(op: SizedOp) -> Pairs:
    return op.applied(op.attributes["to_apply"], op.arguments(0), op.results)


CALL: Final = define(
    "call",
    "*operands",
    (Attribute("to_apply", COMPUTATION, stablehlo="callee"),),
    stablehlo="func.call",
    cost=CostClass.FREE,
    tolerance=APPLIED_ONCE,
    traits=Trait.CONTROL_FLOW,
    equal_sizes=_call_equal_sizes,
)


@op_by_hand(CALL, _call_shape)
def call(computation: Applied, *operands: XlaOp) -> XlaOp:
    """Call a computation on the operands.

    Args:
        computation: an XlaComputation, or a callable. A callable may use ops of the enclosing
            builder, which become additional operands.
        operands: one op for each parameter, with the parameter's shape.

    Returns:
        The computation's result.

    Raises:
        SignatureError: the operands do not match the computation's parameters.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[3])
        >>> xb.call(lambda v: v * v, x).shape
        f32[3]

    Operation Semantics: Call.
    """
    arguments = need_ops("call", "operand", operands)
    builder = resolve_builder(
        "call", *arguments, fix="call a computation without parameters with builder.call(...)"
    )
    callee, arguments = _callee("call", computation, arguments, builder)
    shapes = _shapes_of(arguments)
    shape, attributes = callee._planned(_call_plan, callee, shapes)
    return record("call", shape, arguments, attributes)


def _callee(
    name: str, computation: Applied, operands: builtins.tuple[XlaOp, ...], builder: XlaBuilder
) -> builtins.tuple[XlaComputation, builtins.tuple[XlaOp, ...]]:
    """Return the called computation, and the operands followed by the captured values."""
    callee = computation_or_recorded(
        name, "computation", computation, _shapes_of(operands), builder
    )
    if not isinstance(callee, Recorded):
        return callee, operands
    operands = (*operands, *append_captures(callee))
    return callee.build(), operands


def _call_plan(
    callee: XlaComputation, operands: builtins.tuple[Shape, ...]
) -> builtins.tuple[Shape, Mapping[str, Any]]:
    shape = _call_shape(callee.signature, operands)
    return shape, MappingProxyType({"to_apply": callee})


def call_reusable(function: ReusableFunction, values: Sequence[Any]) -> XlaOp:
    """Record a call of a reusable function; a sequence among the operands becomes a tuple."""
    ops = builtins.tuple(_leaves(function.name, "argument", values))
    builder = resolve_builder(function.name, *ops)
    with rollback_on_error(builder):
        arguments = [_nested_tuple(builder, value) for value in values]
        shapes = _shapes_of(arguments)
        return call(function._computation_for(function.name, "function", shapes), *arguments)


_MAX_DEPTH: Final = 200
"""The maximum nesting depth of operand sequences, because functions of shapes are recursive."""


def _leaves(
    name: str, argument: str, values: Sequence[Any], depth: int = _MAX_DEPTH
) -> Iterator[XlaOp]:
    """Yield the ops in nested sequences; raise for any other value."""
    if not depth:
        rule = "an argument has tuples nested too deeply, or a sequence that contains itself"
        raise error_of(OperandError, name, rule)
    for index, value in enumerate(values):
        if isinstance(value, _SEQUENCES):
            yield from _leaves(name, f"{argument} {index} element", value, depth - 1)
        else:
            yield need_op(name, f"{argument} {index}", value)


def _nested_tuple(builder: XlaBuilder, value: Any) -> XlaOp:
    if type(value) is XlaOp:
        return value
    return (
        tuple(*[_nested_tuple(builder, part) for part in value]) if value else builder.empty_tuple()
    )


_COMPOSITE_NAME: Final = r"[a-zA-Z][a-zA-Z0-9_]*([.][a-zA-Z0-9_$]+)+"


@per_signature
def _composite_call_shape(
    computation: ProgramShape, operands: Sequence[Shape], name: str, version: int = 0
) -> Shape:
    check = Check.numbered("composite_call", "operand", operands)
    # StableHLO composite (C1), (I5)
    if not isinstance(name, str) or not re.fullmatch(_COMPOSITE_NAME, name):
        rule = "name must be in a namespace, and contain only letters, digits, underscores and dots"
        check.fail(rule, got=brief(name), fix='write name="my_library.my_op"')
    if not 0 <= version < 2**31:
        check.fail("version must be at least 0 and less than 2**31", got=version)
    return _call_shape(computation, operands, op="composite_call")


COMPOSITE: Final = define(
    "composite",
    "*operands",
    (
        Attribute("to_apply", COMPUTATION, stablehlo="decomposition", parameter="computation"),
        Attribute(
            "composite_attributes",
            DICTIONARY,
            None,
            frontend="composite.attributes",
            absent=None,
            parameter="attributes",
        ),
        Attribute("name", TEXT, None, frontend="composite.name"),
        Attribute("version", INTEGER32, None, frontend="composite.version", absent=0),
        Group(lambda _: ", is_composite=true"),
    ),
    cpp_name="CompositeCall",
    section=BUILDER_H,
    hlo="call",
    cost=CostClass.FREE,
    tolerance=APPLIED_ONCE,
    equal_sizes=_call_equal_sizes,
)


@op_by_hand(COMPOSITE, _composite_call_shape)
def composite_call(
    computation: Applied,
    operands: XlaOp | Sequence[XlaOp],
    name: str,
    attributes: Mapping[str, Any] | str | None = None,
    version: int | None = None,
) -> XlaOp:
    """Call a user-defined op, which a backend implements by name or by the decomposition.

    Args:
        computation: the decomposition of the op: an XlaComputation, or a callable on one XlaOp for
            each operand. A callable may use ops of the enclosing builder, which become additional
            operands.
        operands: one op for each parameter, with the parameter's shape.
        name: the op's name, in a namespace: ``"my_library.gelu"``.
        attributes: attributes for the backend, by name: bools, numbers, strings, sequences and
            mappings of these. A Python number is 64 bits wide, a NumPy number as wide as its type.
            Other attributes of MLIR are passed in the text of a dictionary: ``"{a = unit}"``.
        version: the version of the op; 0 if omitted.

    Returns:
        The computation's result.

    Raises:
        SignatureError: the operands do not match the computation's parameters.
        ShapeInferenceError: the name has no namespace; the version is negative; the type of an
            attribute is not supported.
        OperandError: there is no operand, or an operand is not an op.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[3])
        >>> xb.composite_call(lambda v: v * v, x, "mine.square", {"exact": True}, 1).shape
        f32[3]

    Not in Operation Semantics; XlaBuilder's CompositeCall.
    """
    arguments = need_ops("composite_call", "operand", operands)
    builder = resolve_builder("composite_call", *arguments)
    text = composite_attributes_text(attributes)
    if not isinstance(name, str):
        raise error_of(OperandError, "composite_call", "name must be a string", got=brief(name))
    number = 0 if version is None else integer("composite_call", "version", version)
    with rollback_on_error(builder):
        callee, arguments = _callee("composite_call", computation, arguments, builder)
        shape = _composite_call_shape(callee.signature, _shapes_of(arguments), name, number)
    return record(
        "composite",
        shape,
        arguments,
        {"to_apply": callee, "name": name, "composite_attributes": text, "version": number},
    )


# --- Branches -----------------------------------------------------------------------------------


_BY_NUMBER = (
    "select a branch by number with "
    "xb.conditional(branch_index, branch_computations, branch_operands)"
)
_BY_PRED = (
    "select by a pred with "
    "xb.conditional(pred, true_operand, true_computation, false_operand, false_computation)"
)


@per_signature
def _conditional_shape(
    branch_index: Shape,
    branches: Sequence[ProgramShape],
    operands: Sequence[Shape],
    *,
    predicated: bool = False,
) -> Shape:
    check = Check.numbered("conditional", "branch operand", operands)
    check.shapes = {"pred" if predicated else "branch_index": branch_index, **check.shapes}
    # StableHLO case (C1), (I1), if (I1)
    check.that(bool(branches), "at least one branch is needed")
    if predicated and branch_index is not _PRED:
        is_array = isinstance(branch_index, ArrayShape) and branch_index.element_type is pt.pred
        by_element = "select each element with xb.select(pred, a, b)"
        fix = by_element if is_array else _BY_NUMBER
        check.fail("pred must be a scalar pred", got=branch_index, fix=fix)
    if not predicated and branch_index is not _INDEX:
        needs_pred = branch_index is _PRED
        check.fail(
            "branch_index must be a scalar s32",
            got=branch_index,
            fix=_BY_PRED if needs_pred else None,
        )
    # XLA shape_inference.cc: InferConditionalShape
    if len(branches) != len(operands):
        check.fail(
            "there must be one operand for each branch",
            got=f"{len(branches)} branches and {len(operands)} operands",
        )
    for index, (branch, operand) in enumerate(zip(branches, operands, strict=True)):
        role, result = f"branch {index}", branches[0].result
        if len(branch.parameters) != 1:
            several = "pass several values as one tuple: xb.tuple(a, b)"
            check.signature(role, branch, "a function of one argument", fix=several)
        if not same_shape(operand, branch.parameters[0]):
            check.signature(role, branch, f"a function that accepts its operand, {operand}")
        # StableHLO case (C3), if (C2)
        if not same_shape(branch.result, result):
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


def _conditional_equal_sizes(op: SizedOp) -> Pairs:
    for number, branch in enumerate(op.attributes["branch_computations"], 1):
        yield from op.applied(branch, op.arguments(number, number + 1), op.results)


CONDITIONAL: Final = define(
    "conditional",
    "pred *operands",
    (Attribute("branch_computations", COMPUTATION),),
    stablehlo="stablehlo.case",
    cost=CostClass.FREE,
    tolerance=APPLIED_ONCE,
    traits=Trait.CONTROL_FLOW,
    equal_sizes=_conditional_equal_sizes,
)


@overload
def conditional(
    pred: XlaOp,
    true_operand: InitialValue | Sequence[InitialValue] | None,
    true_computation: Applied,
    false_operand: InitialValue | Sequence[InitialValue] | None,
    false_computation: Applied,
) -> XlaOp: ...


@overload
def conditional(pred: XlaOp, true_computation: Applied, false_computation: Applied) -> XlaOp: ...


@overload
def conditional(
    branch_index: XlaOp,
    branch_computations: Sequence[Applied],
    branch_operands: Sequence[InitialValue | Sequence[InitialValue] | None],
) -> XlaOp: ...


@op_by_hand(CONDITIONAL, _conditional_shape)
def conditional(*arguments: Any, **named: Any) -> XlaOp:
    """Execute one of several computations and return its result.

    There are two forms, as in Operation Semantics, and a short one for callables without arguments,
    or computations on the empty tuple::

        conditional(pred, true_operand, true_computation, false_operand, false_computation)
        conditional(branch_index, branch_computations, branch_operands)
        conditional(pred, true_computation, false_computation)

    Args:
        pred: a scalar pred: if true, true_computation is applied to true_operand, otherwise
            false_computation to false_operand.
        branch_index: a scalar s32: the index of the branch. Any index out of range, including a
            negative one, selects the last branch.
        true_operand, false_operand, branch_operands: one operand for each branch: an op; a sequence
            of any number of ops, also one or none, which is combined into a tuple; or None for a
            callable without arguments or a computation on the empty tuple. A number or a NumPy
            array, alone or in a sequence, becomes a constant; see `while_`.
        true_computation, false_computation, branch_computations: computations T_b -> S, or
            callables on one XlaOp, the tuple if the operand is a sequence. Callables may use ops of
            the enclosing builder.

    Returns:
        A value of shape S.

    Raises:
        ShapeInferenceError: the selector is not a scalar pred or s32; the numbers of operands and
            computations differ.
        SignatureError: a branch does not accept its operand, or the result shapes of the branches
            differ.
        ConstantError: the element type can't represent a number among the operands.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> p, x = b.parameter(xb.pred[()]), b.parameter(xb.f32[3])
        >>> xb.conditional(p, x, lambda v: v + 1, x, lambda v: v * 2).shape
        f32[3]
        >>> xb.conditional(p, lambda: x + 1, lambda: x * 2).shape
        f32[3]
        >>> i = b.parameter(xb.s32[()])
        >>> xb.conditional(i, [xb.neg, xb.abs, xb.exp], [x, x, x]).shape
        f32[3]

    Operation Semantics: Conditional.
    """
    is_predicated, selector, computations, operands = _conditional_arguments(arguments, named)
    which = need_op("conditional", "pred or branch_index", selector)
    if len(computations) == len(operands) and False not in [type(o) is XlaOp for o in operands]:
        shapes = _shapes_of(operands)
        known = [_recorded_before(c, (s,)) for c, s in zip(computations, shapes, strict=True)]
        branches = builtins.tuple([branch for branch in known if branch is not None])
        if 0 < len(branches) == len(known):
            return _record_conditional(which, branches, operands, shapes, is_predicated)
    values = [v for o in operands for v in (o if isinstance(o, _SEQUENCES) else [o])]
    builder = resolve_builder("conditional", which, *[v for v in values if type(v) is XlaOp])
    with rollback_on_error(builder):
        if any(map(is_initial_value, values)):
            operands = _branch_operands(computations, operands, builder)
        states = [
            builder.empty_tuple()
            if operand is None or (isinstance(operand, _SEQUENCES) and not operand)
            else _state("conditional", f"branch operand {index}", operand)
            for index, operand in enumerate(operands)
        ]
        shapes = _shapes_of(states)
        regions: list[Region] = [
            (
                f"branch {index}",
                computation,
                shapes[index : index + 1],
                index < len(shapes) and operands[index] is not None,
            )
            for index, computation in enumerate(computations)
        ]
        recorded, has_captures = _record_regions("conditional", regions, builder)
        if recorded and not has_captures:
            branches = build_all(recorded)
            return _record_conditional(which, branches, states, shapes, is_predicated)
        signatures = builtins.tuple([signature(branch) for branch in recorded])
        shape = _conditional_shape(which.shape, signatures, shapes, predicated=is_predicated)
        closed, captured = lift_captures(recorded, give_back=[False] * len(recorded))
        states = [tuple(state, *captured) for state in states]
        attributes = {"branch_computations": builtins.tuple(closed)}
        return record("conditional", shape, (which, *states), attributes)


def _branch_operands(
    computations: Sequence[Applied], operands: Sequence[Any], builder: XlaBuilder
) -> list[Any]:
    """Return the operands of branches with their numbers and arrays recorded as constants."""
    found = []
    for index, operand in enumerate(operands):
        argument = f"branch operand {index}"
        if isinstance(operand, _SEQUENCES):
            need_initial_values("conditional", f"{argument} element", operand)
        elif operand is not None and not is_initial_value(operand):
            need_op("conditional", argument, operand)
        if operand is not None:
            expected = _parameter_shapes(computations[index]) if index < len(computations) else ()
            operand = _with_constants("conditional", argument, operand, expected, builder)
        found.append(operand)
    return found


def _record_conditional(
    which: XlaOp,
    branches: builtins.tuple[XlaComputation, ...],
    states: Sequence[XlaOp],
    shapes: builtins.tuple[Shape, ...],
    is_predicated: bool,
) -> XlaOp:
    arguments = branches, which.shape, shapes, is_predicated
    shape, attributes = branches[0]._planned(_conditional_plan, *arguments)
    return record("conditional", shape, (which, *states), attributes, 3)


def _conditional_plan(
    branches: builtins.tuple[XlaComputation, ...],
    which: Shape,
    operands: builtins.tuple[Shape, ...],
    is_predicated: bool,
) -> builtins.tuple[Shape, Mapping[str, Any]]:
    signatures = builtins.tuple([branch.signature for branch in branches])
    shape = _conditional_shape(which, signatures, operands, predicated=is_predicated)
    return shape, MappingProxyType({"branch_computations": branches})


def _predicated(
    pred: Any, true_operand: Any, true_computation: Any, false_operand: Any, false_computation: Any
) -> Any:
    return pred, [true_computation, false_computation], [true_operand, false_operand]


def _indexed(branch_index: Any, branch_computations: Any, branch_operands: Any) -> Any:
    return branch_index, branch_computations, branch_operands


def _fix_of_branches(arguments: Sequence[Any]) -> str:
    """Return the fix for ``conditional(pred, f, g, x)``, the order of jax."""
    if not all(map(is_function, arguments[1:3])):
        return ""
    x = "x" if len(arguments) > 3 or any(map(_takes_operand, arguments[1:3])) else "None"
    return f"pass each operand before its computation: xb.conditional(pred, {x}, f, {x}, g)"


def _takes_operand(function: Any) -> bool:
    return getattr(getattr(function, "__code__", None), "co_argcount", 0) == 1


_SHORT: Final = ("pred", "true_computation", "false_computation")


def _is_short(arguments: Sequence[Any], named: Mapping[str, Any]) -> bool:
    """Return whether the arguments are a pred and two computations without operands."""
    if {*named} != {*_SHORT[len(arguments) :]} or len(arguments) > len(_SHORT):
        return False
    branches = [*arguments[1:], *(named[name] for name in named if name != "pred")]
    return all(
        isinstance(each, XlaComputation) or (is_function(each) and not _takes_operand(each))
        for each in branches
    )


def _conditional_arguments(
    arguments: Sequence[Any], named: dict[str, Any]
) -> builtins.tuple[bool, Any, Sequence[Any], Sequence[Any]]:
    """Return whether the selector is a pred; the selector; the computations; the operands."""
    is_predicated = len(arguments) + len(named) == 5
    if _is_short(arguments, named):
        selector, *computations = builtins.tuple(arguments) + builtins.tuple(
            named[name] for name in _SHORT[len(arguments) :]
        )
        return True, selector, computations, (None, None)
    try:
        form = _predicated if is_predicated else _indexed
        selector, computations, operands = form(*arguments, **named)
    except TypeError:
        forms = " or ".join(
            f"({', '.join(inspect.signature(form).parameters)})" for form in (_predicated, _indexed)
        )
        got = [type(a).__name__ for a in arguments] + [f"{n}=" for n in named]
        rule = f"takes {forms}"
        raise error_of(
            OperandError,
            "conditional",
            rule,
            _fix_of_branches(arguments),
            got=f"({', '.join(got)})",
        ) from None
    for name, value in (("branch_computations", computations), ("branch_operands", operands)):
        if not isinstance(value, _SEQUENCES):
            rule = f"{name} must be a list or tuple"
            raise error_of(
                OperandError, "conditional", rule, _fix_of_branches(arguments), got=brief(value)
            )
    return is_predicated, selector, computations, operands


# --- Loops --------------------------------------------------------------------------------------


@per_signature
def _while_shape(condition: ProgramShape, body: ProgramShape, init: Shape) -> Shape:
    check = Check("while_", init=init)
    fix_pred = (
        "return a scalar pred; reduce an array of preds with xb.reduce_all(..., True, xb.and_)"
    )
    fix_state = "return a value of the shape of init"
    # StableHLO while (C1), (C2)
    for role, applied, result, fix in (
        ("condition", condition, _PRED, fix_pred),
        ("body", body, init, fix_state),
    ):
        expected = f"of signature ({init}) -> {result}, for init {init}"
        if len(applied.parameters) != 1 or not same_shape(applied.parameters[0], init):
            check.signature(role, applied, expected)
        if not same_shape(applied.result, result):
            check.signature(role, applied, expected, fix=fix)
    return init


def _while_equal_sizes(op: SizedOp) -> Pairs:
    # A loop carries arrays of one shape. A number that it carries may change.
    for before, after in zip(op.operands, op.results, strict=True):
        yield from zip(before, after, strict=True)
    state = [(None, *sizes) for sizes in op.operands]
    yield from op.applied(op.attributes["body"], state, op.operands)
    yield from op.applied(op.attributes["condition"], state, [()])


WHILE: Final = define(
    "while",
    "init",
    (Attribute("condition", COMPUTATION), Attribute("body", COMPUTATION)),
    cost=CostClass.FREE,
    tolerance=APPLIED_REPEATEDLY,
    traits=Trait.CONTROL_FLOW,
    equal_sizes=_while_equal_sizes,
)


@op_by_hand(WHILE, _while_shape)
def while_(condition: Applied, body: Applied, init: InitialValue | Sequence[InitialValue]) -> XlaOp:
    """Apply `body` to a state repeatedly, as long as `condition` returns true for the state.

    Args:
        condition: a computation T -> pred[], or a callable on one XlaOp.
        body: a computation T -> T, or a callable on one XlaOp. A callable may unpack a tuple
            (``i, total = state``), return a tuple of ops, and use ops of the enclosing builder. A
            function decorated with ``@xb.computation`` is recorded once; see `reduce`.
        init: the initial state, of any shape T. A sequence of ops, also of a single op, is combined
            into a tuple. A number or a NumPy array, alone or in the sequence, becomes a constant.
            If `condition` or `body` is a computation, a Python number gets the element type of the
            parameter. If both are callables, a bool becomes a pred, an int an s32, and a float an
            f32; if the arrays in the sequence have exactly one floating-point type, a float gets
            that type. Pass a NumPy number for another type. A loop whose state has no op belongs to
            the innermost function that is being recorded.

    Returns:
        The last state, of shape T.

    Raises:
        SignatureError: `condition` or `body` does not have the signature above.
        ConstantError: the element type can't represent a number in `init`.
        OperandError: `init` has no op, and no function is being recorded.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> init = 0, b.parameter(xb.f32[10])
        >>> def body(state):
        ...     i, total = state
        ...     return i + 1, total + 1.0
        >>> xb.while_(lambda state: state[0] < 1000, body, init).shape
        (s32[], f32[10])

    Operation Semantics: While.
    """
    values = need_initial_values("while_", "init", init)
    ops = builtins.tuple([value for value in values if isinstance(value, XlaOp)])
    if len(ops) < len(values):
        builder = builder_of_values("while_", "init", values)
        with rollback_on_error(builder):
            expected = _parameter_shapes(condition) or _parameter_shapes(body)
            return while_(
                condition, body, _with_constants("while_", "init", init, expected, builder)
            )
    if ops:
        shape = init.shape if type(init) is XlaOp else _tuple_shape(_shapes_of(ops))
        known = _recorded_before(condition, (shape,)), _recorded_before(body, (shape,))
        if known[0] is not None and known[1] is not None:
            # The rules are checked before the tuple is recorded, so nothing is rolled back.
            attributes = known[1]._planned(_while_plan, known[0], known[1], shape)
            state = init if type(init) is XlaOp else tuple(*ops)
            return record("while", shape, (state,), attributes)
    builder = resolve_builder("while_", *ops)
    with rollback_on_error(builder):
        state = _state("while_", "init", init)
        shapes = (state.shape,)
        regions = [("condition", condition, shapes, True), ("body", body, shapes, True)]
        recorded, has_captures = _record_regions("while_", regions, builder)
        if not has_captures:
            condition, body = build_all(recorded)
            attributes = body._planned(_while_plan, condition, body, state.shape)
            return record("while", state.shape, (state,), attributes)
        _while_shape(signature(recorded[0]), signature(recorded[1]), state.shape)
        (condition, body), captured = lift_captures(recorded, give_back=[False, True])
        # The loop carries the captured values along with the state.
        widened = tuple(state, *captured)
        attributes = {"condition": condition, "body": body}
        return record("while", widened.shape, (widened,), attributes)[0]


def _while_plan(
    condition: XlaComputation, body: XlaComputation, state: Shape
) -> Mapping[str, XlaComputation]:
    _while_shape(condition.signature, body.signature, state)
    return MappingProxyType({"condition": condition, "body": body})


@per_signature
def _scan_arguments(
    inputs: Sequence[Shape],
    inits: Sequence[Shape],
    scan_dimension: int,
    scan_dimension_size: int | None = None,
) -> builtins.tuple[builtins.tuple[ArrayShape, ...], int]:
    """Return the shapes of the parameters of a scan's computation, and the number of steps.

    The parameters are a slice of each input, without `scan_dimension`, and then each carry.
    """
    check = _scan_check(inputs, inits)
    # xla_builder.h: Scan
    arrays = [check.array(name) for name in check.shapes]
    if scan_dimension < 0:
        check.fail("scan_dimension must not be negative", got=scan_dimension)
    if (scan_dimension_size or 0) < 0:
        check.fail("scan_dimension_size must not be negative", got=scan_dimension_size)
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
                f"the inputs must all have size {size} in dimension {scan_dimension}",
                got=f"{input_size} of input {index}",
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


@per_signature
def _scan_shape(
    inputs: Sequence[Shape],
    inits: Sequence[Shape],
    computation: ProgramShape,
    scan_dimension: int,
    scan_dimension_size: int | None = None,
) -> TupleShape:
    elements, size = _scan_arguments(inputs, inits, scan_dimension, scan_dimension_size)
    check = _scan_check(inputs, inits)
    parameters = ", ".join(map(str, elements))
    results = ", ".join(["outputs...", *map(str, inits)])
    expected = f"of signature ({parameters}) -> ({results}), for elements of inputs, then carries"
    # xla_builder.h: Scan
    if not same_shape(TupleShape(computation.parameters), TupleShape(elements)):
        check.signature("computation", computation, expected)
    result = computation.result
    returned = result.elements if isinstance(result, TupleShape) else (result,)
    count = len(returned) - len(inits)
    if count < 0 or not same_shape(TupleShape(returned[count:]), TupleShape(inits)):
        fix = "return the new carries after the outputs"
        check.signature("computation", computation, expected, fix=fix)
    outputs = []
    for index, output in enumerate(returned[:count]):
        if not isinstance(output, ArrayShape) or output.rank < scan_dimension:
            check.fail(
                f"output {index} of computation must be an array of at least {scan_dimension} "
                f"dimensions, because the scan inserts dimension {scan_dimension}",
                got=output,
            )
        sizes = [*output.dimensions[:scan_dimension], size, *output.dimensions[scan_dimension:]]
        outputs.append(check.result(output.element_type, sizes))
    return TupleShape([*outputs, *map(without_layout, returned[count:])])


def _steps(op: Any) -> int:
    """Return the size of the scanned dimension; 1 if no operand or result has this dimension."""
    dimension = op.attributes["scan_dimension"]
    shapes = [*(operand.shape for operand in op.operands), *leaves(op.shape)]
    ranked = [s.dimensions for s in shapes if isinstance(s, ArrayShape) and s.rank > dimension]
    return max((sizes[dimension] for sizes in ranked), default=1)


SCAN: Final = define(
    "scan",
    "*operands",
    (
        Attribute("scan_dimension", DIMENSION, "dimensions"),
        Attribute("is_reverse", FLAG, omitted=False),
        Attribute("num_carries", INTEGER),
        Attribute("is_associative", FLAG, omitted=None),
        Attribute("to_apply", COMPUTATION),
    ),
    section=BUILDER_H,
    element_types={"operands": ANY},
    stablehlo="stablehlo.while",
    tolerance=Tolerance(applications=_steps),
    traits=Trait.CONTROL_FLOW,
)


@op_by_hand(SCAN, _scan_shape)
def scan(
    inputs: XlaOp | Sequence[XlaOp],
    inits: InitialValue | Sequence[InitialValue],
    computation: Applied,
    scan_dimension: int,
    scan_dimension_size: int | None = None,
    *,
    is_reverse: bool = False,
    is_associative: bool | None = None,
) -> XlaOp:
    """Apply a computation to the slices of arrays in order, with values carried from step to step.

    Args:
        inputs: arrays of the same size in `scan_dimension`.
        inits: the initial carries: arrays of any shapes. A number or a NumPy array is a constant,
            see `while_`; a float has the type of the inputs if these have one floating-point type.
        computation: applied once for each index of `scan_dimension`. It takes the slice of each
            input at that index, without that dimension, and then the carries. It returns the
            elements of the outputs and then the new carries, in one tuple. A computation, or a
            callable, which may use arrays of the enclosing builder. These become additional
            carries.
        scan_dimension: the dimension along which inputs are sliced and outputs are stacked.
        scan_dimension_size: the size of `scan_dimension`; required only if there are no inputs.
            Without inputs and outputs it is the number of steps, and a `while` is recorded, because
            HLO's scan gets its number of steps from an input or an output.
        is_reverse: whether to proceed from the last index to the first.
        is_associative: whether the order of application does not matter, so that a backend may
            combine steps; None if unspecified. Ignored if `computation` uses other arrays.

    Returns:
        A tuple: the outputs, each with `scan_dimension` inserted; then the last carries.

    Raises:
        ShapeInferenceError: sizes of the inputs differ; a dimension is out of range; the number of
            steps is undefined.
        SignatureError: the computation does not take the slices and the carries, or does not
            return the carries.
        ConstantError: the element type can't represent a number in `inits`.
        OperandError: there are no ops among `inputs` and `inits`, and no function is being
            recorded.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, start = b.parameter(xb.f32[5, 2]), b.parameter(xb.f32[2])
        >>> def running_sum(element, total):
        ...     return element + total, element + total
        >>> xb.scan(x, start, running_sum, 0).shape
        (f32[5,2], f32[2])

    Not in Operation Semantics; XlaBuilder's Scan.
    """
    arrays = need_ops("scan", "input", inputs)
    values = need_initial_values("scan", "init", inits)
    builder = builder_of_values("scan", "init", [*arrays, *values])
    dimension = integer("scan", "scan_dimension", scan_dimension)
    if scan_dimension_size is not None:
        scan_dimension_size = integer("scan", "scan_dimension_size", scan_dimension_size)
    is_reverse = flag("scan", "is_reverse", is_reverse)
    if is_associative is not None:
        is_associative = flag("scan", "is_associative", is_associative)
    with rollback_on_error(builder):
        expected = _parameter_shapes(computation)[len(arrays) :]
        names = [f"init {index}" for index in range(len(values))]
        carries = record_constants("scan", names, values, builder, beside=arrays, expected=expected)
        arguments = _shapes_of(arrays), _shapes_of(carries)
        parameters, _ = _scan_arguments(*arguments, dimension, scan_dimension_size)
        step = computation_or_recorded("scan", "computation", computation, parameters, builder)
        shape = _scan_shape(*arguments, signature(step), dimension, scan_dimension_size)
        if scan_dimension_size is not None and not arrays and len(shape.elements) == len(carries):
            return _repeated(step, carries, scan_dimension_size)
        captured: list[XlaOp] = []
        if isinstance(step, Recorded):
            if step.captures():
                captured = carry_captures(step)
                is_associative = None  # steps with these carries can't be combined
            step = step.build()
        attributes = {
            "to_apply": step,
            "scan_dimension": dimension,
            "num_carries": len(carries) + len(captured),
            "is_reverse": is_reverse,
            "is_associative": is_associative,
        }
        operands = (*arrays, *carries, *captured)
        if not captured:
            return record("scan", shape, operands, attributes)
        widened = _tuple_shape((*shape.elements, *_shapes_of(captured)))
        result = record("scan", widened, operands, attributes)
        return record_tuple(result.builder, [result[i] for i in range(len(shape.elements))])


def _repeated(
    step: XlaComputation | Recorded, carries: builtins.tuple[XlaOp, ...], count: int
) -> XlaOp:
    """Record a scan without inputs and outputs: a `while` that counts the steps."""
    captured = append_captures(step) if isinstance(step, Recorded) else []
    (called,) = build_all([step])
    builder = carries[0].builder
    element_type = pt.s32 if count <= pt.s32.max else pt.s64

    def next_state(state: XlaOp) -> list[XlaOp]:
        number, *values = state
        results = call(called, *values, *captured)
        is_one = not isinstance(results.shape, TupleShape)
        return [number + 1, *([results] if is_one else results)]

    init = [builder.constant(0, element_type), *carries]
    result = while_(lambda state: state[0] < count, next_state, init)
    return record_tuple(builder, [result[i + 1] for i in range(len(carries))])
