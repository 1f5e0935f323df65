"""The inlined calls of a computation that are evaluated and differentiated as functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import jax

from builder.graph.computation import XlaComputation
from builder.graph.decorators import gradient_shape, gradient_shapes
from builder.graph.inlined_calls import InlinedCall, LibraryCall, Operand, copied_calls
from builder.graph.subcomputations import record_tuple
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.rewriting.copying import copy_op
from builder.types.shape import Shape, TupleShape
from lowering.errors import LoweringError
from lowering.ops.registry import Step, Value


def with_custom_gradient(computation: XlaComputation, function: Step, backward: Step) -> Step:
    """Return `function`, which evaluates a computation, with the derivative `backward`.

    Args:
        computation: the computation, which has a derivative.
        function: its function.
        backward: the function of its derivative.
    """
    shapes = computation.signature.parameters
    is_one = len(gradient_shapes(shapes)) == 1
    differentiable: Any = jax.custom_vjp(function)

    def forward(*operands: Value) -> tuple[Value, Any]:
        result = function(*operands)
        return result, (operands, result)

    def transpose(saved: Any, cotangent: Value) -> tuple[Value, ...]:
        operands, result = saved
        found = backward(*operands, result, _selected(computation.signature.result, cotangent))
        remaining = iter([found] if is_one else found)
        return tuple([_filled(shape, remaining) for shape in shapes])

    differentiable.defvjp(forward, transpose)
    step: Step = differentiable
    return step


def _selected(shape: Shape, value: Value) -> Value:
    """Return the parts of a value that have gradients, nested as `gradient_shape` of `shape`."""
    if not isinstance(shape, TupleShape):
        return value
    return tuple(
        [
            _selected(element, part)
            for element, part in zip(shape.elements, value, strict=True)
            if gradient_shape(element) is not None
        ]
    )


def _filled(shape: Shape, gradients: Iterator[Value]) -> Value:
    """Return the next gradient, with None for each part of `shape` that has no gradient."""
    if gradient_shape(shape) is None:
        return None
    gradient = next(gradients)
    if not isinstance(shape, TupleShape):
        return gradient
    parts = iter(gradient)
    return tuple([_filled(element, parts) for element in shape.elements])


LIBRARY_FUNCTIONS: Final[dict[str, Callable[..., Value]]] = {}
"""The jax function for each function of `builder.lib` that is declared with `has_derivative`.

`library_functions` enters them.
"""


class NoDerivativeError(LoweringError):
    """The derivative of a function by an argument does not exist; no line is known yet."""

    def __init__(self, function: str, argument: str, fix: str) -> None:
        rule = f"{function} has no derivative with respect to {argument}"
        super().__init__(rule, op="to_jax", argument=argument, fix=fix)
        self.function = function

    def _renamed(self, op: str) -> Any:
        """Return the error that the user sees."""
        return self._as_kind(LoweringError)._renamed(op)


def library_step(call: LibraryCall, where: str) -> Step:
    """Return a call of a library function as a jax function of its operands' values.

    It returns a tuple.

    Args:
        call: the call.
        where: the place of the call, for messages; see `place`.
    """
    function = LIBRARY_FUNCTIONS[call.name]

    def step(*operands: Value) -> Value:
        arguments: dict[str, Any] = {
            name: operands[value.number] if isinstance(value, Operand) else value
            for name, value in call.arguments.items()
        }
        try:
            value = function(**arguments)
        except NoDerivativeError as error:
            if not where:
                raise  # the caller knows the place
            subject = "it" if error.function == call.name else error.function
            rule = f"{subject} has no derivative with respect to {error.argument}"
            context = ("to_jax", f"{call.name}{where}")
            raise error._as_kind(LoweringError, rule=rule, context=context) from None
        return tuple(value) if isinstance(value, (tuple, list)) else (value,)

    return step


RECORDED_AGAIN: Final = "recorded with residuals"
"""The function of a call that marks ops which `gradients` has recorded in the place of others."""

_NO_OPS: Final[Mapping[XlaOp, XlaOp]] = MappingProxyType({})


class Outermost(NamedTuple):
    """An inlined call that is not part of another one.

    Attributes:
        function, operands, results: those of the `InlinedCall`.
        members: the ops that compute the results from the operands.
        first: the first of the results, in the order of recording.
        inner: the calls that are part of this one.
    """

    function: Any
    operands: tuple[XlaOp, ...]
    results: tuple[XlaOp | None, ...]
    members: list[XlaOp]
    first: XlaOp
    inner: list[InlinedCall]


def outermost_calls(calls: Sequence[InlinedCall], ops: Sequence[XlaOp]) -> list[Outermost]:
    """Return the calls whose ops are complete and that are not part of another call.

    A call inside another one counts if an op outside uses its result, as the backward part of a
    rule uses values of its forward part.

    Args:
        calls: the inlined calls of a computation or a builder; inner ones come before outer ones.
        ops: its ops.
    """
    found: list[Outermost] = []
    owners: dict[XlaOp, Outermost] = {}
    for call in reversed(calls):
        results = [op for op in call.results if op is not None]
        outer = next((owners[op] for op in results if op in owners), None)
        if outer is not None:
            outer.inner.insert(0, call)
            continue
        whole = None if call.function is RECORDED_AGAIN else _complete(call, results, ops)
        if whole is not None:
            for op in whole.members:
                owners.setdefault(op, whole)
            found.append(whole)
    used = {
        operand
        for op in ops
        for operand in op.operands
        if operand in owners and owners.get(op) is not owners[operand]
    }
    for outer in list(found):
        escaping = used.difference(outer.results) if outer.inner else set()
        for position, call in enumerate(outer.inner):
            results = [op for op in call.results if op is not None]
            if escaping.intersection(results) and call.function is not RECORDED_AGAIN:
                whole = _complete(call, results, ops)
                if whole is not None:
                    whole.inner.extend(outer.inner[:position])
                    found.append(whole)
                    escaping.difference_update(results)
    return sorted(found, key=lambda call: call.first.id)


def _complete(
    call: InlinedCall, results: Sequence[XlaOp], ops: Sequence[XlaOp]
) -> Outermost | None:
    """Return a call with its ops; None if ops of it were edited or moved."""
    members = call.members()
    if not members:
        return None
    first = min(results, key=_position)
    last = max(results, key=_position)
    if max(map(_position, call.operands), default=-1) >= first.id:
        return None
    # Nothing else uses a result before all of them are there.
    inside = {*members, *results}
    between = (op for op in ops[first.id : last.id] if op not in inside)
    if any(operand in inside for op in between for operand in op.operands):
        return None
    return Outermost(*call, members, first, [])


def _position(op: XlaOp) -> int:
    return op.id


def part_of(
    name: str,
    operands: Sequence[XlaOp],
    members: Iterable[XlaOp],
    results: Sequence[XlaOp],
    calls: Sequence[InlinedCall],
    same: Mapping[XlaOp, XlaOp] = _NO_OPS,
) -> XlaComputation:
    """Return a computation of copies of some ops.

    Args:
        name: its name.
        operands: the ops that become its parameters; one may be there several times.
        members: the ops that compute the results from the operands.
        results: the ops of its results; several are a tuple.
        calls: the inlined calls that may be part of it.
        same: for ops that are not copied, the op that takes their place.
    """
    b = XlaBuilder(name)
    values: dict[XlaOp, XlaOp] = {}
    for operand in operands:
        parameter = b.parameter(operand.shape)
        values.setdefault(operand, parameter)
    for op in members:
        if op in same:
            values[op] = values[same[op]]
            continue
        inputs = tuple([values[operand] for operand in op.operands])
        values[op] = copy_op(op, inputs, b, op.attributes)
    b._inlined_calls += copied_calls(calls, values.get)
    roots = [values[op] for op in results]
    return b.build(roots[0] if len(roots) == 1 else record_tuple(b, roots))
