"""gradients: derivatives of an op of an open builder, recorded as ops."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import jax

from builder.errors import (
    BuilderError,
    OperandError,
    ShapeInferenceError,
    XlaError,
    brief,
    error_of,
)
from builder.graph.calls import explained
from builder.graph.computation import XlaComputation
from builder.graph.custom_gradients import custom_gradient, gradient_shapes
from builder.graph.recording import resolve_builder, rollback_on_error
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp, with_metadata
from builder.inspection.fingerprints import Fingerprints
from builder.ops.control_flow import call
from builder.rewriting.copying import copy_op
from builder.support.signatures import per_signature
from builder.types.shape import ArrayShape, Shape, TupleShape
from lowering.errors import LoweringError
from lowering.jax_interop.applying import Trace, record_trace
from lowering.jax_interop.evaluation import wide_op
from lowering.jax_interop.from_jax import abstract_array, traced_computation
from lowering.jax_interop.python_calls import recorded_calls
from lowering.jax_interop.registry import place
from lowering.jax_interop.to_jax import to_jax

_STATEFUL: Final = frozenset(("rng", "infeed", "outfeed", "send", "recv"))
"""Opcodes that may give another result, or have an effect, if they run once more."""

_COPIED: Final = frozenset(("constant", "iota", "tuple"))
"""Opcodes that are copied even if they depend on no target."""


@explained
def gradients(loss: XlaOp, wrt: Any) -> Any:
    """Record the gradients of a loss with respect to ops of the same builder.

    The ops between `wrt` and the loss are evaluated by `to_jax` and differentiated by `jax.grad`.
    The resulting ops are recorded in the builder, with the line of this call; the ops that the
    derivative needs and that exist already are used, not recorded again. A loop is recorded once
    more: the derivative needs the values of each iteration. Calls of computations with a derivative
    written by hand (`xb.custom_gradient`) use it, whatever the computation contains.

    Args:
        loss: a scalar of a floating-point type.
        wrt: an op, or several in a list, dict or other tree of jax.tree_util: arrays of
            floating-point or complex numbers. Parameters, constants and intermediate results may be
            mixed.

    Returns:
        The gradient, of the shape of `wrt`; for a tree the tree of them. Zeros for an op that the
        loss does not depend on. For complex numbers, the conjugate convention of `jax.grad`.

    Raises:
        ShapeInferenceError: the loss is not a scalar, or has no derivative: its type or that of an
            op in `wrt` is pred or an integer type.
        LoweringError: an op between `wrt` and the loss can't be differentiated: it has random or
            other state (use `rng_bit_generator` instead of `rng_uniform`), dynamic sizes, or no
            derivative in jax.
        BuilderError: the ops are of several builders.
        OperandError: `loss` or a leaf of `wrt` is not an op, or is a tuple.

    Example:
        >>> import builder as xb, lowering, numpy as np
        >>> b = xb.XlaBuilder("step")
        >>> w, x = b.parameter(xb.f32[3], "w"), b.parameter(xb.f32[3], "x")
        >>> loss = xb.reduce(xb.tanh(w * x), 0, xb.add, [0])
        >>> dw = lowering.gradients(loss, w)
        >>> step = lowering.compile(b.build(w - 0.1 * dw))
        >>> step(np.zeros(3, np.float32), np.ones(3, np.float32))
        Array([-0.1, -0.1, -0.1], dtype=float32)
    """
    leaves, structure = jax.tree_util.tree_flatten_with_path(wrt)
    tree: Any = structure  # jax has no types for it
    if not leaves:
        rule = f"wrt must be an op or a tree of ops, got {brief(wrt)}"
        raise error_of(OperandError, "gradients", rule)
    targets: list[XlaOp] = [target for _, target in leaves]
    scalar_loss("gradients", "loss", _shape_of("loss", loss))
    for path, target in leaves:
        name = f"wrt{jax.tree_util.keystr(path)}"
        differentiable("gradients", name, _shape_of(name, target))
    builder = resolve_builder("gradients", loss, *targets)
    if loss.builder is not builder:
        rule = f"loss must be an op of {builder.name!r}, got one of {loss.builder.name!r}"
        fix = "call gradients outside of the body, where the loss is recorded"
        raise error_of(BuilderError, "gradients", rule, fix)
    with rollback_on_error(builder):
        owned = [builder.adopt("gradients", target) for target in targets]
        unique = list(dict.fromkeys(owned))
        found = dict(zip(unique, _record(loss, unique), strict=True))
    return tree.unflatten([found[target] for target in owned])


def _shape_of(name: str, op: Any) -> Shape:
    if not isinstance(op, XlaOp):
        raise error_of(OperandError, "gradients", f"{name} must be an XlaOp, got {brief(op)}")
    return op.shape


def differentiable(op: str, name: str, shape: Shape) -> ArrayShape:
    """Return the shape of argument `name`, which must be an array whose numbers have derivatives.

    Raises:
        ShapeInferenceError: it is not of a floating-point or complex type.
        OperandError: it is not an array.
    """
    if not isinstance(shape, ArrayShape):
        fix = "pass its elements: xb.get_tuple_element(op, 0), ..." if shape.is_tuple else ""
        raise error_of(OperandError, op, f"{name} must be an array, got {shape}", fix)
    if not (shape.element_type.is_floating or shape.element_type.is_complex):
        rule = f"{name} must be of a floating-point or complex type, got {shape}"
        fix = "only such numbers have derivatives"
        raise error_of(ShapeInferenceError, op, rule, fix, shapes={name: shape})
    return shape


def scalar_loss(op: str, name: str, shape: Shape) -> None:
    """Check that `shape`, of the value to differentiate, is a scalar of a floating-point type."""
    array = differentiable(op, name, shape)
    if array.rank or array.element_type.is_complex:
        rule = f"{name} must be a scalar of a floating-point type, got {array}"
        fix = "reduce it to a scalar, for instance with lib.sum" if array.rank else ""
        raise error_of(ShapeInferenceError, op, rule, fix, shapes={name: array})


class _Part(NamedTuple):
    """The ops between some ops, the targets, and a loss, as a computation.

    Attributes:
        computation: has a parameter for each target, and then for each other value that it uses.
        inputs: for each parameter the op whose value it is.
        given: the same for the parameters, and for the ops whose value is a parameter's.
        copies: for each other op of the computation its original.
    """

    computation: XlaComputation
    inputs: list[XlaOp]
    given: dict[XlaOp, XlaOp]
    copies: dict[XlaOp, XlaOp]


def _part(loss: XlaOp, targets: list[XlaOp]) -> _Part:
    ops = loss.builder.ops[: loss.id + 1]
    is_target, depends, needed = set(targets), set[XlaOp](), {loss}
    for op in ops:
        if any(operand in is_target or operand in depends for operand in op.operands):
            depends.add(op)
    # What depends on a target is copied, and what the copies need to be evaluated exactly: the
    # initial values of a loop determine its trip count.
    copied = {op for op in ops if op in depends or op.opcode in _COPIED} - (is_target - depends)
    for op in reversed(ops):
        if op in needed and op in copied:
            needed.update(op.operands)
    path = [op for op in ops if op in needed and op in copied]
    custom = [op for op in path if _has_derivative(op) and op not in is_target]
    others = [op for op in ops if op in needed and op not in copied and op not in is_target]
    b = XlaBuilder("loss")
    inputs = [*targets, *others, *custom]
    parameters = {op: b.parameter(op.shape) for op in inputs}
    values = {op: parameters[op] for op in inputs if op not in copied}
    given = {parameter: op for op, parameter in parameters.items()}
    copies: dict[XlaOp, XlaOp] = {}

    def copy(op: XlaOp, operands: tuple[XlaOp, ...]) -> XlaOp:
        new = copy_op(op, operands, b, op.attributes)
        # jax drops these, and ops with others would not be found among the existing ones.
        new.metadata = with_metadata(op.metadata, frontend_attributes=None, sharding=None)
        copies[new] = op
        return new

    for op in path:
        operands = tuple([values[operand] for operand in op.operands])
        if op not in parameters:
            values[op] = copy(op, operands)
            continue
        # The parameter has the op's value; the operands determine only its derivative.
        if _has_derivative(op):
            value = call(_known_result(op.attributes["to_apply"]), *operands, parameters[op])
        else:
            value = call(_known(op.shape), copy(op, operands), parameters[op])
        given[value] = op
        values[op] = value
    return _Part(b.build(values[loss]), inputs, given, copies)


def _has_derivative(op: XlaOp) -> bool:
    """Return whether an op calls a computation with a derivative of its own."""
    return op.opcode == "call" and op.attributes["to_apply"].derivative is not None


@per_signature
def _known(shape: Shape) -> XlaComputation:
    """Return the computation of the second of two equal values, whose gradient both have."""
    b = XlaBuilder("known")
    _, value = b.parameter(shape), b.parameter(shape)

    def backward(*values: XlaOp) -> Any:
        return values[-1], values[-1]

    return custom_gradient(b.build(value), backward)


def _known_result(computation: XlaComputation) -> XlaComputation:
    """Return the computation of the last parameter: the result of `computation` on the others.

    Its derivative is that of `computation`, and that of the last parameter.
    """
    signature = computation.signature
    b = XlaBuilder(computation.name)
    for shape in signature.parameters:
        b.parameter(shape)
    forward = b.build(b.parameter(signature.result))
    derivative: Any = computation.derivative
    count = len(signature.parameters)

    def backward(*values: XlaOp) -> Any:
        gradient = values[-1]
        found = call(derivative, *values[:count], *values[-2:])
        is_one = len(gradient_shapes(signature.parameters)) == 1
        return (*([found] if is_one else found), gradient)

    return custom_gradient(forward, backward)


def _record(loss: XlaOp, targets: list[XlaOp]) -> list[XlaOp]:
    """Record the gradients with respect to different ops of the loss's builder."""
    builder = loss.builder
    part = _part(loss, targets)
    check_stateless("gradients", part.computation)
    leaves = [leaf_ops(op) for op in part.inputs]
    operands = [leaf for group in leaves for leaf in group]
    trace = _trace(part, len(targets), operands)
    existing = _existing(part, trace.computation, operands)
    return record_trace(trace, tuple(operands), builder, existing)


def leaf_ops(op: XlaOp) -> list[XlaOp]:
    """Return the arrays of an op; the elements of a tuple are recorded."""
    if not isinstance(op.shape, TupleShape):
        return [op] if op.shape.is_array else []
    return [leaf for element in op for leaf in leaf_ops(element)]


def _trace(part: _Part, count: int, operands: Sequence[XlaOp]) -> Trace:
    """Trace the gradients with respect to the first `count` inputs, as a function of `operands`."""
    loss = jax_function("gradients", part.computation)

    def gradients(*arrays: Any) -> Any:
        remaining = iter(arrays)
        values = [nested(op.shape, remaining) for op in part.inputs]
        targets, others = values[:count], values[count:]
        return jax.grad(lambda targets: loss(*targets, *others))(targets)

    shapes = [operand.shape for operand in operands]
    return traced("gradients", gradients, shapes, wide_op(part.computation))


def jax_function(op: str, computation: XlaComputation) -> Callable[..., Any]:
    """Return a computation as a jax function, for the public function `op`.

    Raises:
        LoweringError: jax can't evaluate an op.
    """
    try:
        return to_jax(computation)
    except XlaError as error:
        raise error.renamed(op) from None


def traced(
    op: str, function: Callable[..., Any], shapes: Sequence[Shape], wide: XlaOp | None
) -> Trace:
    """Trace a transformed computation: a function of arrays that returns a list of arrays.

    Args:
        op: the name of the public function, for messages.
        function: the function.
        shapes: the shapes of its arguments.
        wide: an op with 64-bit numbers; None if there is none.

    Raises:
        LoweringError: jax can't evaluate or transform an op.
    """
    arrays = [abstract_array(op, shape) for shape in shapes]
    try:
        x64 = jax.enable_x64(True) if wide is not None else contextlib.nullcontext()
        with x64, recorded_calls() as calls:
            computation = calls.restored(traced_computation(op, function, arrays, {}))
    except XlaError as error:
        raise error.renamed(op) from None
    except RecursionError:
        rule = "jax can't transform computations that call each other this deep"
        fix = "record the ops of some instead of a call: xb.inline(computation, ...)"
        raise error_of(LoweringError, op, rule, fix) from None
    except (NotImplementedError, ValueError) as error:  # of a primitive of jax
        notes = getattr(error, "__notes__", ())
        where = "".join(f"\n{note}" for note in notes if note.startswith("to_jax"))
        rule = f"jax can't transform an op: {error}{where}"
        fix = "call it in a computation with a derivative of its own: xb.custom_gradient"
        raise error_of(LoweringError, op, rule, fix) from None
    result = computation.program_shape.result
    count = len(result.elements) if isinstance(result, TupleShape) else 1
    return Trace(computation, jax.tree.structure([0] * count))


def nested(shape: Shape, leaves: Iterator[Any]) -> Any:
    """Return the value of a shape from its arrays: tuples of values, and None for tokens."""
    if isinstance(shape, TupleShape):
        return tuple([nested(element, leaves) for element in shape.elements])
    return next(leaves) if shape.is_array else None


def check_stateless(name: str, computation: XlaComputation) -> None:
    """Refuse ops that must not run once more: the derivative evaluates ops on its path again."""
    for op in _ops_of(computation):
        if op.opcode in _STATEFUL or op.attributes.get("has_side_effect"):
            rule = f"{op.opcode}{place(op)}: it has state or effects, so it can't be differentiated"
            fix = "compute it outside of the differentiated part"
            if op.opcode == "rng":
                fix = "use random numbers of xb.rng_bit_generator, or pass them as a parameter"
            raise error_of(LoweringError, name, rule, fix)


def check_effects(name: str, computation: XlaComputation) -> None:
    """Refuse calls with side effects, which the recorded result would omit."""
    for op in _ops_of(computation):
        if op.attributes.get("has_side_effect"):
            rule = f"{op.opcode}{place(op)}: it has side effects, which would be lost"
            fix = "remove it, or use lowering.to_jax and the transformation of jax"
            raise error_of(LoweringError, name, rule, fix)


def _ops_of(computation: XlaComputation) -> Iterator[XlaOp]:
    for part in (*computation.called_computations(), computation):
        yield from part.ops


def _existing(
    part: _Part, computation: XlaComputation, operands: Sequence[XlaOp]
) -> dict[XlaOp, XlaOp]:
    """Return for ops of the derivative the existing ops that compute the same values."""
    fingerprints = Fingerprints()
    numbers: dict[Hashable, int] = {}

    def values_of(computation: XlaComputation, given: Mapping[XlaOp, XlaOp]) -> list[int]:
        values: list[int] = []
        for op, label in zip(computation.ops, fingerprints.labels(computation), strict=True):
            key: Hashable = given.get(op)
            if key is None:
                key = label, tuple([values[operand.id] for operand in op.operands])
            values.append(numbers.setdefault(key, len(numbers)))
        return values

    originals = part.copies | part.given
    values = values_of(part.computation, part.given)
    known = {values[op.id]: original for op, original in originals.items()}
    arguments = dict(zip(computation.parameters, operands, strict=True))
    values = values_of(computation, arguments)
    return {
        op: known[value]
        for op, value in zip(computation.ops, values, strict=True)
        if value in known and op not in arguments
    }
