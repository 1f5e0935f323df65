"""Tuples, calls, loops, branches and barriers.

Operation Semantics: Call, Conditional, GetTupleElement, OptimizationBarrier, Tuple, While.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, overload

from builder import shape_inference
from builder.attributes.composite import composite_attributes_text
from builder.check import flag, integer
from builder.errors import OperandError, brief
from builder.graph.computation import XlaComputation
from builder.graph.recording import record, resolve_builder, rollback_on_error
from builder.graph.registry import op
from builder.graph.subcomputations import (
    Recorded,
    ReusableFunction,
    append_captures,
    as_computation,
    available_computation,
    build,
    build_all,
    computation_or_recorded,
    has_no_metadata,
    lift_captures,
    signature,
)
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.ops.operands import need_op, need_ops
from builder.schema import SCHEMAS
from builder.support.signatures import per_signature
from builder.types.shape import Shape

__all__ = [
    "call",
    "call_reusable",
    "composite_call",
    "conditional",
    "get_tuple_element",
    "optimization_barrier",
    "scan",
    "tuple",
    "while_",
]

Applied = XlaComputation | Callable[..., Any]
_SEQUENCES = (list, builtins.tuple)


_tuple_shape = per_signature(shape_inference.control_flow.tuple.strict)
_barrier_shape = per_signature(shape_inference.control_flow.optimization_barrier.strict)
_while_shape = per_signature(shape_inference.control_flow.while_.strict)
_conditional_shape = per_signature(shape_inference.control_flow.conditional.strict)
_call_shape = per_signature(shape_inference.control_flow.call.strict)
_composite_shape = per_signature(shape_inference.control_flow.composite_call.strict)


@op(SCHEMAS["tuple"])
def tuple(*elements: XlaOp | Sequence[XlaOp]) -> XlaOp:
    """Several values as one.

    Args:
        elements: at least one op; arrays, tokens or tuples; or one sequence of them. (The empty
            tuple, which has no operand to find the builder by, is ``builder.empty_tuple()``.)

    Returns:
        A tuple of their shapes.

    Raises:
        OperandError: no element, or one that is no op.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> v, s = b.parameter(xb.f32[10]), b.parameter(xb.s32[()])
        >>> xb.tuple(v, s).shape
        (f32[10], s32[])

    Operation Semantics: Tuple.
    """
    if len(elements) == 1 and isinstance(elements[0], _SEQUENCES):
        elements = builtins.tuple(elements[0])
    if not elements:
        raise OperandError(
            "tuple: at least one element is needed, got none\n"
            "fix: the empty tuple is builder.empty_tuple()",
            op="tuple",
        )
    ops = need_ops("tuple", "element", elements)
    return record("tuple", _tuple_shape(builtins.tuple([o.shape for o in ops])), ops)


@op(SCHEMAS["get_tuple_element"])
def get_tuple_element(tuple_data: XlaOp, index: int) -> XlaOp:
    """One element of a tuple; ``tuple_data[index]`` is the same.

    Args:
        tuple_data: a tuple.
        index: the element's number, from 0.

    Returns:
        The element.

    Raises:
        ShapeInferenceError: not a tuple, or no such element.

    Example:
        >>> import builder as xb
        >>> t = xb.XlaBuilder().parameter("(f32[10], s32[])")
        >>> xb.get_tuple_element(t, 1).shape
        s32[]

    Operation Semantics: GetTupleElement.
    """
    source = need_op("get_tuple_element", "tuple_data", tuple_data)
    number = integer("get_tuple_element", "index", index)
    shape, attributes = _element_plan(source.shape, number)
    return record("get_tuple_element", shape, (source,), attributes)


@per_signature
def _element_plan(tuple_data: Shape, index: int) -> builtins.tuple[Shape, Mapping[str, int]]:
    shape = shape_inference.control_flow.get_tuple_element.strict(tuple_data, index)
    return shape, MappingProxyType({"index": index})


@op(SCHEMAS["optimization_barrier"])
def optimization_barrier(operand: XlaOp) -> XlaOp:
    """The operand, with nothing moved across by the compiler: all of it is computed before use.

    Args:
        operand: anything; a tuple to hold several values together.

    Returns:
        The same values.

    Example:
        >>> import builder as xb
        >>> xb.optimization_barrier(xb.XlaBuilder().parameter(xb.f32[3])).shape
        f32[3]

    Operation Semantics: OptimizationBarrier.
    """
    source = need_op("optimization_barrier", "operand", operand)
    shape = _barrier_shape(source.shape)
    return record("optimization_barrier", shape, (source,))


def _state(name: str, argument: str, value: Any) -> XlaOp:
    """One op for a value that may be given as a sequence of ops, which becomes a tuple."""
    if isinstance(value, _SEQUENCES) and value:
        return tuple(*need_ops(name, argument, value))
    return need_op(name, argument, value)


Wanted = builtins.tuple[str, Applied, builtins.tuple[Shape, ...], bool]
"""A role, the computation for it, what it takes, and whether a callable is given that."""


def _record_all(
    name: str, wanted: Sequence[Wanted], builder: XlaBuilder
) -> builtins.tuple[list[XlaComputation | Recorded], bool]:
    """The computations of one op, and whether any of them captures something.

    The others then take that as well.
    """
    ones = [
        computation_or_recorded(name, role, computation, shapes, builder, passed)
        for role, computation, shapes, passed in wanted
    ]
    has_captures = any(isinstance(one, Recorded) and one.captures() for one in ones)
    if has_captures:
        # A library function must take the captures, too, so it is recorded for this op alone.
        for index, (role, computation, shapes, passed) in enumerate(wanted):
            if not isinstance(ones[index], Recorded):
                ones[index] = computation_or_recorded(
                    name, role, computation, shapes, builder, passed, will_widen=True
                )
    return ones, has_captures


@op(SCHEMAS["call"])
def call(computation: Applied, *operands: XlaOp) -> XlaOp:
    """The result of a computation applied to the operands.

    Args:
        computation: an XlaComputation, or a callable; a callable may use ops of the enclosing
            builder, which are passed as further operands.
        operands: one for each parameter, of its shape.

    Returns:
        The computation's result.

    Raises:
        SignatureError: the operands are not those that the computation takes.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[3])
        >>> xb.call(lambda v: v * v, x).shape
        f32[3]

    Operation Semantics: Call.
    """
    arguments = need_ops("call", "operand", operands)
    if not arguments:
        raise OperandError(
            "call: at least one operand is needed to know the builder, got none\n"
            "fix: a computation without parameters is called with builder.call(computation)",
            op="call",
        )
    builder = resolve_builder("call", *arguments)
    shapes = _shapes_of(arguments)
    recorded = computation_or_recorded("call", "computation", computation, shapes, builder)
    if isinstance(recorded, Recorded):
        arguments = (*arguments, *append_captures(recorded))
    applied = build(recorded) if isinstance(recorded, Recorded) else recorded
    given = _shapes_of(arguments)
    shape, attributes = applied.planned(("call", given), _call_plan, applied, given)
    return record("call", shape, arguments, attributes)


def call_reusable(function: ReusableFunction, values: Sequence[Any]) -> XlaOp:
    """Record a call of a reusable function; a sequence among the operands becomes a tuple."""
    ops = builtins.tuple(_leaves(function.name, "argument", values))
    if not ops:
        raise OperandError(
            f"{function.name}: at least one XlaOp is needed to know the builder, got none",
            op=function.name,
        )
    builder = resolve_builder("call", *ops)
    with rollback_on_error(builder):
        arguments = [_nested_tuple(builder, value) for value in values]
        shapes = _shapes_of(arguments)
        return call(function.recorded(function.name, "function", shapes), *arguments)


def _leaves(name: str, argument: str, values: Sequence[Any]) -> Iterator[XlaOp]:
    """The ops in nested sequences; raises where something else is among them."""
    for index, value in enumerate(values):
        if isinstance(value, _SEQUENCES):
            yield from _leaves(name, f"{argument} {index} element", value)
        else:
            yield need_op(name, f"{argument} {index}", value)


def _nested_tuple(builder: XlaBuilder, value: Any) -> XlaOp:
    if type(value) is XlaOp:
        return value
    return (
        tuple(*[_nested_tuple(builder, one) for one in value]) if value else builder.empty_tuple()
    )


def _call_plan(
    applied: XlaComputation, operands: builtins.tuple[Shape, ...]
) -> builtins.tuple[Shape, Mapping[str, Any]]:
    shape = _call_shape(applied.signature, operands)
    return shape, MappingProxyType({"to_apply": applied})


@op(SCHEMAS["composite"])
def composite_call(
    computation: Applied,
    operands: XlaOp | Sequence[XlaOp],
    name: str,
    attributes: Mapping[str, Any] | None = None,
    version: int | None = None,
) -> XlaOp:
    """The result of an op of your own, which a backend may know by name and else decomposes.

    Args:
        computation: what the op does, in terms of others: an XlaComputation, or a callable on one
            XlaOp for each operand; a callable may use ops of the enclosing builder, which are
            passed as further operands.
        operands: one for each parameter, of its shape.
        name: of the op, in a namespace: ``"my_library.gelu"``.
        attributes: facts about the op for the backend, by name: bools, numbers, strings, sequences
            and mappings of these. A Python number is 64 bits wide, a NumPy number as wide as its
            type.
        version: the version of the op; 0 if it is not given.

    Returns:
        The computation's result.

    Raises:
        SignatureError: the operands are not those that the computation takes.
        ShapeInferenceError: the name has no namespace, the version is negative, or an attribute
            is none of these.
        OperandError: no operand, or one that is no op.

    Example:
        >>> import builder as xb
        >>> x = xb.XlaBuilder().parameter(xb.f32[3])
        >>> xb.composite_call(lambda v: v * v, x, "mine.square", {"exact": True}, 1).shape
        f32[3]

    Not in the document; XlaBuilder's CompositeCall.
    """
    arguments = need_ops("composite_call", "operand", operands)
    if not arguments:
        raise OperandError(
            "composite_call: at least one operand is needed to know the builder, got none",
            op="composite_call",
        )
    text = composite_attributes_text(attributes)
    if not isinstance(name, str):
        raise OperandError(
            f"composite_call: name must be a string, got {brief(name)}", op="composite_call"
        )
    number = 0 if version is None else integer("composite_call", "version", version)
    builder = resolve_builder("composite_call", *arguments)
    shapes = _shapes_of(arguments)
    recorded = computation_or_recorded(
        "composite_call", "computation", computation, shapes, builder
    )
    with rollback_on_error(builder):
        if isinstance(recorded, Recorded):
            arguments = (*arguments, *append_captures(recorded))
        applied = build(recorded) if isinstance(recorded, Recorded) else recorded
        given = builtins.tuple([a.shape for a in arguments])
        shape = _composite_shape(applied.signature, given, name, number)
    said = {"to_apply": applied, "name": name, "composite_attributes": text, "version": number}
    return record("composite", shape, arguments, said)


@op(SCHEMAS["scan"])
def scan(
    inputs: XlaOp | Sequence[XlaOp],
    inits: XlaOp | Sequence[XlaOp],
    computation: Applied,
    scan_dimension: int,
    scan_dimension_size: int | None = None,
    *,
    is_reverse: bool = False,
    is_associative: bool | None = None,
) -> XlaOp:
    """A computation applied to the slices of arrays one after the other, carrying values along.

    Args:
        inputs: arrays of the same size in `scan_dimension`.
        inits: the carries to begin with: arrays of any shapes.
        computation: applied once for each index of `scan_dimension`, to the slice of each input
            there, without that dimension, and to the carries; gives the elements of the outputs
            and then the new carries, in one tuple. A computation, or a callable.
        scan_dimension: the dimension along which the inputs are cut and the outputs put together.
        scan_dimension_size: its size; needed only where there are no inputs.
        is_reverse: whether to go from the last index to the first.
        is_associative: a promise that the order of application does not matter, which lets a
            backend take steps together; None promises nothing. (By name, as is_reverse.)

    Returns:
        A tuple: the outputs, each with `scan_dimension` inserted; then the last carries.

    Raises:
        ShapeInferenceError: sizes of the inputs differ; a dimension is out of range; the number
            of steps is not known.
        SignatureError: the computation does not take those elements and carries, or does not
            give the carries back.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x, start = b.parameter(xb.f32[5, 2]), b.parameter(xb.f32[2])
        >>> def running_sum(element, total):
        ...     return element + total, element + total
        >>> xb.scan(x, start, running_sum, 0).shape
        (f32[5,2], f32[2])

    Not in the document; XlaBuilder's Scan.
    """
    given = need_ops("scan", "input", inputs)
    carried = need_ops("scan", "init", inits)
    if not given and not carried:
        raise OperandError("scan: at least one input or init is needed, got none", op="scan")
    dimension = integer("scan", "scan_dimension", scan_dimension)
    size = None
    if scan_dimension_size is not None:
        size = integer("scan", "scan_dimension_size", scan_dimension_size)
    reverse = flag("scan", "is_reverse", is_reverse)
    associative = None
    if is_associative is not None:
        associative = flag("scan", "is_associative", is_associative)
    input_shapes = builtins.tuple([o.shape for o in given])
    init_shapes = builtins.tuple([o.shape for o in carried])
    elements, _ = _scan_arguments(input_shapes, init_shapes, dimension, size)
    resolve_builder("scan", *given, *carried)
    applied = as_computation("scan", "computation", computation, elements)
    shape = _scan_shape(input_shapes, init_shapes, applied.signature, dimension, size)
    attributes = {
        "to_apply": applied,
        "scan_dimension": dimension,
        "num_carries": len(carried),
        "is_reverse": reverse,
        "is_associative": associative,
    }
    return record("scan", shape, (*given, *carried), attributes)


_scan_arguments = per_signature(shape_inference.control_flow.scan_arguments.strict)
_scan_shape = per_signature(shape_inference.control_flow.scan.strict)


@op(SCHEMAS["while"])
def while_(condition: Applied, body: Applied, init: XlaOp | Sequence[XlaOp]) -> XlaOp:
    """A loop: `body` applied to the state for as long as `condition` of it holds.

    Args:
        condition: a computation T -> pred[], or a callable on one XlaOp.
        body: a computation T -> T, or a callable on one XlaOp. A callable may unpack a tuple
            (``i, total = state``), return a tuple of ops, and use ops of the enclosing builder.
            A function of ``@xb.computation`` is recorded once; see `reduce`.
        init: the first state, of any shape T; several ops stand for their tuple.

    Returns:
        The last state, of shape T.

    Raises:
        SignatureError: condition or body is not of that signature.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> init = xb.tuple(b.constant(0, xb.s32), b.parameter(xb.f32[10]))
        >>> def body(state):
        ...     i, total = state
        ...     return i + 1, total + 1.0
        >>> xb.while_(lambda state: state[0] < 1000, body, init).shape
        (s32[], f32[10])

    Operation Semantics: While.
    """
    beside = need_ops("while_", "init", init)
    if not beside:
        raise OperandError(
            "while_: init must be an XlaOp or a sequence of at least one, got none", op="while_"
        )
    builder = resolve_builder("while_", *beside)
    if has_no_metadata(builder) and (type(init) is XlaOp or type(init) in _SEQUENCES):
        shape = init.shape if type(init) is XlaOp else _tuple_shape(_shapes_of(beside))
        test = available_computation("while_", "condition", condition, (shape,))
        step = available_computation("while_", "body", body, (shape,))
        if test is not None and step is not None:
            # Nothing to record but the loop itself: a tenth of the time.
            attributes = step.planned(("while", test, shape), _while_attributes, test, step, shape)
            return record("while", shape, (_state("while_", "init", init),), attributes)
    with rollback_on_error(builder):
        return _while(builder, condition, body, _state("while_", "init", init))


def _shapes_of(ops: Sequence[XlaOp]) -> builtins.tuple[Shape, ...]:
    return builtins.tuple([op.shape for op in ops])


def _while_attributes(
    condition: XlaComputation, body: XlaComputation, state: Shape
) -> Mapping[str, XlaComputation]:
    _while_shape(condition.signature, body.signature, state)
    return MappingProxyType({"condition": condition, "body": body})


def _while(
    builder: XlaBuilder,
    condition: Applied,
    body: Applied,
    state: XlaOp,
) -> XlaOp:
    shapes = (state.shape,)
    wanted = [("condition", condition, shapes, True), ("body", body, shapes, True)]
    ones, has_captures = _record_all("while_", wanted, builder)
    if not has_captures:
        condition, body = build_all(ones)
        key = ("while", condition, state.shape)
        attributes = body.planned(key, _while_attributes, condition, body, state.shape)
        return record("while", state.shape, (state,), attributes)
    _while_shape(signature(ones[0]), signature(ones[1]), state.shape)
    (condition, body), captured = lift_captures(ones, give_back=[False, True])
    # The loop carries what it captured along with the state.
    widened = tuple(state, *captured)
    attributes = {"condition": condition, "body": body}
    return record("while", widened.shape, (widened,), attributes)[0]


@overload
def conditional(
    pred: XlaOp,
    true_operand: XlaOp | Sequence[XlaOp] | None,
    true_computation: Applied,
    false_operand: XlaOp | Sequence[XlaOp] | None,
    false_computation: Applied,
) -> XlaOp: ...


@overload
def conditional(
    branch_index: XlaOp,
    branch_computations: Sequence[Applied],
    branch_operands: Sequence[XlaOp | Sequence[XlaOp] | None],
) -> XlaOp: ...


@op(SCHEMAS["conditional"])
def conditional(*arguments: Any, **named: Any) -> XlaOp:
    """The result of one of several computations; only that one is executed.

    Two forms, as in the document::

        conditional(pred, true_operand, true_computation, false_operand, false_computation)
        conditional(branch_index, branch_computations, branch_operands)

    Args:
        pred: a scalar pred: true_computation is applied to true_operand if it holds, else
            false_computation to false_operand.
        branch_index: a scalar s32: the number of the branch. A number that is out of range, less
            than 0 too, chooses the last branch.
        true_operand, false_operand, branch_operands: one op for each branch; several ops in a
            sequence stand for their tuple; None for a callable without arguments.
        true_computation, false_computation, branch_computations: computations T_b -> S, or
            callables on one XlaOp. Callables may use ops of the enclosing builder.

    Returns:
        A value of shape S.

    Raises:
        ShapeInferenceError: the choice is no scalar pred or s32; counts differ.
        SignatureError: a branch does not take its operand, or gives another shape than the first.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> p, x = b.parameter(xb.pred[()]), b.parameter(xb.f32[3])
        >>> xb.conditional(p, x, lambda v: v + 1, x, lambda v: v * 2).shape
        f32[3]
        >>> i = b.parameter(xb.s32[()])
        >>> xb.conditional(i, [xb.neg, xb.abs, xb.exp], [x, x, x]).shape
        f32[3]

    Operation Semantics: Conditional.
    """
    predicated, choice, computations, operands = _conditional_arguments(arguments, named)
    which = need_op("conditional", "pred or branch_index", choice)
    beside = [v for o in operands for v in (o if isinstance(o, _SEQUENCES) else [o])]
    ops = [v for v in beside if type(v) is XlaOp]
    builder = resolve_builder("conditional", which, *ops)
    are_plain = len(ops) == len(operands) == len(computations) > 0
    if are_plain and has_no_metadata(builder) and False not in [type(o) is XlaOp for o in operands]:
        shapes = _shapes_of(ops)
        known = [
            available_computation("conditional", _branch(i), computation, (shape,))
            for i, (computation, shape) in enumerate(zip(computations, shapes, strict=True))
        ]
        branches = builtins.tuple([one for one in known if one is not None])
        if len(branches) == len(known):
            # Nothing to record but the op itself, as each operand is one op: a tenth of the time.
            key = ("conditional", branches, which.shape, shapes, predicated)
            shape, attributes = branches[0].planned(
                key, _conditional_plan, branches, which.shape, shapes, predicated
            )
            return record("conditional", shape, (which, *ops), attributes)
    with rollback_on_error(builder):
        return _conditional(builder, predicated, which, computations, operands)


@per_signature
def _branch(number: int) -> str:
    """The role of a branch."""
    return f"branch {number}"


def _conditional_plan(
    branches: builtins.tuple[XlaComputation, ...],
    which: Shape,
    operands: builtins.tuple[Shape, ...],
    predicated: bool,
) -> builtins.tuple[Shape, Mapping[str, Any]]:
    signatures = builtins.tuple([branch.signature for branch in branches])
    shape = _conditional_shape(which, signatures, operands, predicated=predicated)
    return shape, MappingProxyType({"branch_computations": branches})


def _conditional(
    builder: XlaBuilder,
    predicated: bool,
    which: XlaOp,
    computations: list[Any],
    operands: list[Any],
) -> XlaOp:
    given = [
        which.builder.empty_tuple()
        if o is None
        else o
        if type(o) is XlaOp
        else _state("conditional", f"branch operand {i}", o)
        for i, o in enumerate(operands)
    ]
    wanted: list[Wanted] = [
        (
            _branch(i),
            computation,
            (given[i].shape,) if i < len(given) else (),
            i < len(given) and operands[i] is not None,
        )
        for i, computation in enumerate(computations)
    ]
    ones, has_captures = _record_all("conditional", wanted, builder)
    shapes = _shapes_of(given)
    if ones and not has_captures:
        done = build_all(ones)
        key = ("conditional", done, which.shape, shapes, predicated)
        shape, attributes = done[0].planned(
            key, _conditional_plan, done, which.shape, shapes, predicated
        )
        return record("conditional", shape, (which, *given), attributes)
    signatures = builtins.tuple([signature(one) for one in ones])
    shape = _conditional_shape(which.shape, signatures, shapes, predicated=predicated)
    closed, captured = lift_captures(ones, give_back=[False] * len(ones))
    given = [tuple(o, *captured) for o in given]
    attributes = {"branch_computations": builtins.tuple(closed)}
    return record("conditional", shape, (which, *given), attributes)


def _conditional_arguments(
    arguments: Sequence[Any], named: dict[str, Any]
) -> builtins.tuple[bool, Any, list[Any], list[Any]]:
    """Which form it is, the choice, the computations and the operands."""
    predicated = ("pred", "true_operand", "true_computation", "false_operand", "false_computation")
    indexed = ("branch_index", "branch_computations", "branch_operands")
    if len(arguments) == 5 and not named:
        # The form of nearly all, in a fifth of the time.
        pred, on_true, true_computation, on_false, false_computation = arguments
        return True, pred, [true_computation, false_computation], [on_true, on_false]
    count = len(arguments) + len(named)
    for form in (predicated, indexed):
        if count != len(form) or any(n not in form[len(arguments) :] for n in named):
            continue
        values = [*arguments, *(named[n] for n in form[len(arguments) :])]
        if form is predicated:
            pred, on_true, true_computation, on_false, false_computation = values
            return True, pred, [true_computation, false_computation], [on_true, on_false]
        index, computations, operands = values
        for name, value in (("branch_computations", computations), ("branch_operands", operands)):
            if not isinstance(value, _SEQUENCES):
                raise OperandError(
                    f"conditional: {name} must be a list or tuple, got {brief(value)}",
                    op="conditional",
                )
        return False, index, list(computations), list(operands)
    got = [type(a).__name__ for a in arguments] + [f"{n}=" for n in named]
    raise OperandError(
        f"conditional: takes ({', '.join(predicated)}) or ({', '.join(indexed)}), "
        f"got ({', '.join(got)})",
        op="conditional",
    )
