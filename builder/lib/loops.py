"""Loops with several values as their state, and conversions of nested tuples to Python tuples.

XLA: loops.h and tuple.h of the client library, whose `ShapeTree` is a nested Python tuple here.
`builder` is needed only for a loop without ops among its initial values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from builder.checking import integer
from builder.errors import OperandError, ShapeInferenceError, SignatureError, brief, error_of
from builder.graph.foreign_values import RECORDING
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.lib.registry import library_function
from builder.ops.control_flow import get_tuple_element, tuple as record_tuple, while_
from builder.ops.operands import (
    InitialValue,
    builder_of_values,
    need_initial_values,
    need_op,
    need_ops,
    record_constants,
)
from builder.types.primitive_type import PrimitiveTypeLike, element_type_argument
from builder.types.shape import TupleShape

_MAX_DEPTH: Final = 200


@library_function("DisassembleTuple")
def disassemble_tuple(tuple: XlaOp) -> Any:
    """Return the arrays and tokens in a tuple, as a Python tuple; inner tuples likewise.

    Args:
        tuple: an op whose result is a tuple. An array or a token is returned unchanged.

    Raises:
        OperandError: the argument is not an op.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> t = xb.XlaBuilder().parameter("(f32[2], (s32[], pred[3]))")
        >>> x, (i, mask) = lib.disassemble_tuple(t)
        >>> x.shape, i.shape, mask.shape
        (f32[2], s32[], pred[3])
    """
    return _disassembled(need_op("disassemble_tuple", "tuple", tuple))


def _disassembled(value: XlaOp) -> Any:
    if not isinstance(value.shape, TupleShape):
        return value
    indices = range(len(value.shape))
    return (*(_disassembled(get_tuple_element(value, index)) for index in indices),)


@library_function("AssembleTuple")
def assemble_tuple(builder: XlaBuilder, elements: Any) -> XlaOp:
    """Combine the ops in nested Python sequences into a tuple; inner sequences are inner tuples.

    It is the inverse of `disassemble_tuple`.

    Args:
        builder: records empty tuples.
        elements: a list or tuple of ops, lists and tuples. An op is returned unchanged.

    Raises:
        OperandError: an element is not an op; the sequences are nested too deeply.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> x = b.parameter(xb.f32[2])
        >>> lib.assemble_tuple(b, [x, [x, ()]]).shape
        (f32[2], (f32[2], ()))
    """
    return _assembled(builder, elements, _MAX_DEPTH)


def _assembled(builder: XlaBuilder, value: Any, depth: int) -> XlaOp:
    if isinstance(value, XlaOp) or not isinstance(value, Sequence) or isinstance(value, str):
        return need_op("assemble_tuple", "element", value)
    if not depth:
        rule = f"sequences must be nested at most {_MAX_DEPTH} deep; one may contain itself"
        raise error_of(OperandError, "assemble_tuple", rule)
    parts = [_assembled(builder, part, depth - 1) for part in value]
    return record_tuple(*parts) if parts else builder.empty_tuple()


@library_function("WhileLoopHelper")
def while_loop_helper(
    condition_function: Callable[[Sequence[XlaOp]], XlaOp],
    body_function: Callable[[Sequence[XlaOp]], Sequence[XlaOp]],
    initial_values: Sequence[InitialValue],
    name: str = "while_loop",
    builder: XlaBuilder | None = None,
) -> tuple[XlaOp, ...]:
    """Repeat a body for several values, as long as a condition holds.

    Both functions may use ops of the enclosing builder, as in `builder.while_`.

    Args:
        condition_function: takes the values, and returns a scalar pred.
        body_function: takes the values, and returns the next ones, of the same shapes.
        initial_values: arrays, tuples or tokens. A number or a NumPy array is a constant, see
            `builder.while_`.
        name: the name of the loop; its computations are NAME_condition and NAME_body.
        builder: records the loop; by default the builder of the initial values, and without ops
            among them that of the innermost function that is being recorded.

    Returns:
        The last values.

    Raises:
        OperandError: there is no builder; a value is neither an op nor a number or an array.
        SignatureError: the condition is not a scalar pred; the body returns another number of
            values, or values of other shapes.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> b = xb.XlaBuilder()
        >>> count, x = lib.while_loop_helper(
        ...     lambda values: values[0] < 5,
        ...     lambda values: [values[0] + 1, values[1] * 2.0],
        ...     [b.constant(0, xb.s32), b.parameter(xb.f32[3])],
        ... )
        >>> count.shape, x.shape
        (s32[], f32[3])
    """
    arguments = condition_function, body_function, initial_values, name, builder
    return _loop("while_loop_helper", *arguments)


@library_function("ForEachIndex")
def for_each_index(
    num_iterations: int,
    num_iterations_type: PrimitiveTypeLike,
    body_function: Callable[[XlaOp, Sequence[XlaOp]], Sequence[XlaOp]],
    initial_values: Sequence[InitialValue],
    name: str = "for_each_index",
    builder: XlaBuilder | None = None,
) -> tuple[XlaOp, ...]:
    """Repeat a body for the indices from 0.

    The body may use ops of the enclosing builder, as in `builder.while_`.

    Args:
        num_iterations: how often to apply the body.
        num_iterations_type: the integer type of the index.
        body_function: takes the index and the values, and returns the next values, of the same
            shapes.
        initial_values: arrays, tuples or tokens. A number or a NumPy array is a constant, see
            `builder.while_`.
        name: the name of the loop; its computations are NAME_condition and NAME_body.
        builder: records the loop; by default the builder of the initial values, and without ops
            among them that of the innermost function that is being recorded.

    Returns:
        The last values.

    Raises:
        ShapeInferenceError: the type is not an integer type, or can't represent the number; the
            number is negative.
        OperandError: there is no builder; a value is neither an op nor a number or an array.
        SignatureError: the body returns another number of values, or values of other shapes.

    Example:
        >>> import builder as xb
        >>> from builder import lib
        >>> x = xb.XlaBuilder().parameter(xb.f32[3])
        >>> [power] = lib.for_each_index(5, xb.s32, lambda i, values: [values[0] * 2.0], [x])
        >>> power.shape
        f32[3]
    """
    op = "for_each_index"
    kind = element_type_argument(op, "num_iterations_type", num_iterations_type)
    if not kind.is_integral:
        rule = "num_iterations_type must be an integer type"
        raise error_of(ShapeInferenceError, op, rule, "write xb.s32", got=kind)
    count = integer(op, "num_iterations", num_iterations)
    if not 0 <= count <= kind.max:
        rule = f"num_iterations must be from 0 to {kind.max}, the largest {kind}"
        raise error_of(ShapeInferenceError, op, rule, got=count)
    _check_function(op, "body_function", body_function)
    values, recorder = _initial_values(op, initial_values, builder)

    def body(values: Sequence[XlaOp]) -> list[XlaOp]:
        results = _called(op, "body_function", body_function, values[0], values[1:])
        results = _results(op, results, len(values) - 1)
        return [values[0] + 1, *results]

    first = recorder.constant(0, kind)
    return _loop(op, lambda values: values[0] < count, body, [first, *values], name, recorder)[1:]


def _loop(
    op: str,
    condition_function: Callable[[Sequence[XlaOp]], XlaOp],
    body_function: Callable[[Sequence[XlaOp]], Sequence[XlaOp]],
    initial_values: Sequence[InitialValue],
    name: str,
    builder: XlaBuilder | None,
) -> tuple[XlaOp, ...]:
    values, recorder = _initial_values(op, initial_values, builder)
    if not isinstance(name, str):
        raise error_of(OperandError, op, "name must be a string", got=brief(name))
    _check_function(op, "condition_function", condition_function)
    _check_function(op, "body_function", body_function)
    state = record_tuple(*values) if values else recorder.empty_tuple()

    def condition(state: XlaOp) -> XlaOp:
        result: XlaOp = _called(op, "condition_function", condition_function, _elements(state))
        return result

    def body(state: XlaOp) -> XlaOp:
        results = _called(op, "body_function", body_function, _elements(state))
        results = _results(op, results, len(values))
        return record_tuple(*results) if results else state.builder.empty_tuple()

    condition.__name__, body.__name__ = f"{name}_condition", f"{name}_body"
    return tuple(_elements(while_(condition, body, state)))


def _initial_values(
    op: str, initial_values: Sequence[InitialValue], builder: XlaBuilder | None
) -> tuple[tuple[XlaOp, ...], XlaBuilder]:
    """Return the initial values as ops, and the builder that records the loop."""
    values = need_initial_values(op, "initial value", initial_values)
    is_of_ops = any(isinstance(value, XlaOp) for value in values)
    if is_of_ops or (builder is None and RECORDING.builders):
        recorder = builder_of_values(op, "initial value", values)
    else:
        recorder = _builder(op, builder)._target(op)
    names = [f"initial value {index}" for index in range(len(values))]
    return record_constants(op, names, values, recorder), recorder


def _check_function(op: str, name: str, function: Any) -> None:
    if not callable(function):
        raise error_of(OperandError, op, f"{name} must be a function", got=brief(function, 80))


def _called(op: str, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call argument `name`; raise SignatureError if it does not take the arguments."""
    try:
        return function(*arguments)
    except TypeError as error:
        if error.__traceback__ is None or error.__traceback__.tb_next is not None:
            raise  # from the function's body
        passed = "the index and the list of values" if len(arguments) == 2 else "the list of values"
        rule = f"{name} is called with {passed}"
        example = "i, values" if len(arguments) == 2 else "values"
        raise error_of(
            SignatureError,
            op,
            rule,
            f"write lambda {example}: ...",
            got=f"a callable that does not take them: {error}",
        ) from error


def _results(op: str, results: Any, count: int) -> Sequence[XlaOp]:
    """Return the results of a body, which must be `count` ops."""
    if not isinstance(results, Sequence) or len(results) != count:
        rule = f"the body must return {count} values in a list"
        fix = "return the op in a list" if isinstance(results, XlaOp) else ""
        raise error_of(SignatureError, op, rule, fix, got=brief(results))
    return need_ops(op, "result of the body", results)


def _builder(op: str, builder: Any) -> XlaBuilder:
    if not isinstance(builder, XlaBuilder):
        rule = "a loop without ops among its initial values needs a builder"
        raise error_of(
            OperandError, op, rule, "pass builder=b, where b is an XlaBuilder", got=brief(builder)
        )
    return builder


def _elements(state: XlaOp) -> list[XlaOp]:
    shape = state.shape
    count = len(shape) if isinstance(shape, TupleShape) else 0
    return [get_tuple_element(state, index) for index in range(count)]
