"""gradients: derivatives of an op of an open builder, recorded as ops."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

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
from builder.graph.recording import resolve_builder, rollback_on_error
from builder.graph.xla_op import XlaOp
from builder.ops.host import is_observer
from builder.support.caller import caller_frame
from builder.types.shape import ArrayShape, Shape, TupleShape
from lowering.errors import LoweringError
from lowering.jax_interop.reverse import Reverse, element_of
from lowering.jax_interop.to_jax import flat_function
from lowering.ops.registry import place

Tree = TypeVar("Tree")
"""An op, or ops in nested lists, tuples, dicts and other pytrees of jax."""


@explained
def gradients(loss: XlaOp, wrt: Tree) -> Tree:
    """Record the gradients of a loss with respect to ops of the same builder.

    Each op between `wrt` and the loss is differentiated by jax's rule for it, at the recorded
    operands and results, so no value is computed twice. The ops of the derivative are recorded in
    the builder, with the line of this call. A loop, conditional, call or sort whose derivative
    needs more than its results is replaced by one that returns the other values too. What `apply`
    recorded of a jax function is differentiated by the rules of jax's primitives and of
    `jax.custom_jvp` and `jax.custom_vjp`. Calls of computations with a derivative written by hand
    (`xb.custom_gradient`) use it, whatever the computation contains.

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
        rule = "wrt must be an op or a tree of ops"
        raise error_of(OperandError, "gradients", rule, got=brief(wrt))
    targets: list[XlaOp] = [target for _, target in leaves]
    scalar_loss("gradients", "loss", _shape_of("loss", loss))
    for path, target in leaves:
        name = f"wrt{jax.tree_util.keystr(path)}"
        differentiable("gradients", name, _shape_of(name, target))
    builder = resolve_builder("gradients", loss, *targets)
    if loss.builder is not builder:
        rule = f"loss must be an op of {builder.name!r}"
        fix = "call gradients outside of the body, where the loss is recorded"
        raise error_of(BuilderError, "gradients", rule, fix, got=f"one of {loss.builder.name!r}")
    with rollback_on_error(builder):
        owned = [builder._adopt("gradients", target) for target in targets]
        chosen = [element_of(target) for target in owned]
        reverse = Reverse("gradients", loss, chosen)
    frame = caller_frame(sys._getframe(1))
    found = reverse.record(frame)
    result: Tree = tree.unflatten([found[leaf] for leaf in chosen])
    return result


def _shape_of(name: str, op: Any) -> Shape:
    if isinstance(op, XlaOp):
        return op.shape
    fix = ""
    if isinstance(op, XlaComputation):
        fix = "pass ops of a builder, or use lowering.grad(computation)"
    elif hasattr(op, "shape") or isinstance(op, (int, float, complex)):
        fix = (
            "pass the op whose value this is, such as a parameter, and the value when the program "
            "is called; for values use jax.grad of lowering.to_jax(computation)"
        )
    raise error_of(OperandError, "gradients", f"{name} must be an XlaOp", fix, got=brief(op))


def differentiable(op: str, name: str, shape: Shape) -> ArrayShape:
    """Return the shape of argument `name`, which must be an array whose numbers have derivatives.

    Raises:
        ShapeInferenceError: it is not of a floating-point or complex type.
        OperandError: it is not an array.
    """
    if not isinstance(shape, ArrayShape):
        fix = "pass its elements: xb.get_tuple_element(op, 0), ..." if shape.is_tuple else ""
        raise error_of(OperandError, op, f"{name} must be an array", fix, got=shape)
    if not (shape.element_type.is_floating or shape.element_type.is_complex):
        rule = f"{name} must be of a floating-point or complex type"
        fix = "only such numbers have derivatives"
        raise error_of(ShapeInferenceError, op, rule, fix, got=shape, shapes={name: shape})
    return shape


def scalar_loss(op: str, name: str, shape: Shape) -> None:
    """Check that `shape`, of the value to differentiate, is a scalar of a floating-point type."""
    array = differentiable(op, name, shape)
    if array.rank or array.element_type.is_complex:
        rule = f"{name} must be a scalar of a floating-point type"
        fix = "reduce it to a scalar, for instance with lib.sum" if array.rank else ""
        raise error_of(ShapeInferenceError, op, rule, fix, got=array, shapes={name: array})


def leaf_ops(op: XlaOp) -> list[XlaOp]:
    """Return the arrays of an op; the elements of a tuple are recorded."""
    if not isinstance(op.shape, TupleShape):
        return [op] if op.shape.is_array else []
    return [leaf for element in op for leaf in leaf_ops(element)]


def jax_function(op: str, computation: XlaComputation) -> Callable[..., Any]:
    """Return a computation as a jax function, for the public function `op`.

    Raises:
        LoweringError: jax can't evaluate an op.
    """
    try:
        return flat_function(computation)
    except XlaError as error:
        raise error.renamed(op) from None


def check_effects(name: str, computation: XlaComputation) -> None:
    """Refuse calls with side effects, which the recorded result would omit."""
    for op in (op for part in (*computation.called_computations(), computation) for op in part.ops):
        if op.attributes.get("has_side_effect") and not is_observer(op):
            rule = f"{op.opcode}{place(op)}: it has side effects, which would be lost"
            fix = "remove it, or use lowering.to_jax and the transformation of jax"
            raise error_of(LoweringError, name, rule, fix)
