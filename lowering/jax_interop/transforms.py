"""grad, value_and_grad, vmap and gradients: derivatives and batches, by jax's transformations."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import jax

from builder.attributes.annotations import Annotations
from builder.checking import integer
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
from builder.graph.inlined_calls import copied_calls, needed_ops
from builder.graph.recording import resolve_builder, rollback_on_error
from builder.graph.subcomputations import record_tuple
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.ops.control_flow import call
from builder.ops.host import is_observer, observers
from builder.ops.operands import need_computation
from builder.rewriting.copying import inlined_ops
from builder.support.frames import caller_frame
from builder.types.shape import ArrayShape, Shape, TupleShape, leaves as leaf_shapes
from lowering.errors import LoweringError
from lowering.importer.importing import for_device
from lowering.jax_interop.applying import Trace, record_trace
from lowering.jax_interop.evaluation import wide_op
from lowering.jax_interop.from_jax import traced_computation
from lowering.jax_interop.pasting import nested
from lowering.jax_interop.pullbacks import transformation_errors
from lowering.jax_interop.reverse import Reverse, element_of, leaves_of
from lowering.jax_interop.sizes import Sizes, SymbolicSizes
from lowering.jax_interop.to_jax import flat_function
from lowering.ops.host import recorded_calls
from lowering.ops.registry import place
from lowering.stablehlo.call_tree import CallTree

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
        The gradient, of the shape of `wrt`; for a tree, a tree of gradients. Zeros for an op that
        the loss does not depend on. For complex numbers, the conjugate convention of `jax.grad`.

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
    elif name == "loss" and callable(op):
        fix = "write lowering.grad(xb.computation(shape, ...)(function))"
    elif name == "loss" and isinstance(op, (list, tuple, dict)):
        fix = "write lowering.gradients(loss, wrt)"
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
        fix = "use floating-point numbers; integers and preds have no derivatives"
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
        raise error._renamed(op) from None


def check_effects(name: str, computation: XlaComputation) -> None:
    """Refuse calls with side effects, which the recorded result would omit."""
    for op in (op for part in (*computation.called_computations(), computation) for op in part.ops):
        if op.attributes.get("has_side_effect") and not is_observer(op):
            rule = f"{op.opcode}{place(op)}: it has side effects, which would be lost"
            fix = "remove it, or use lowering.to_jax and the transformation of jax"
            raise error_of(LoweringError, name, rule, fix)


Wrt = str | Sequence[str] | None
"""The names of parameters; None for all."""


@explained
def grad(computation: XlaComputation, wrt: Wrt = None) -> XlaComputation:
    """Return the computation of the gradients of a computation's result.

    The result is an ordinary graph: it can be lowered, exported, inspected and edited.

    Args:
        computation: its result is a scalar of a floating-point type, the loss. A program of jax
            for several platforms becomes that for jax's default device.
        wrt: the name of a parameter, or several names; None for all parameters. For a computation
            of a function of jax (`from_jax`) or `lowering.jit`, the name of an argument stands for
            all its arrays.

    Returns:
        A computation called "NAME_grad", of the same parameters. Its result is the gradient with
        respect to the parameter, nested like the parameter if that is a tuple; for several names or
        None, a tuple of such gradients.

    Raises:
        ShapeInferenceError: the result is not a scalar of a floating-point type; a parameter in
            `wrt` contains integers or preds.
        LoweringError: an op can't be differentiated; see `gradients`.
        OperandError: `computation` is not a computation; it has no parameter of that name.

    Example:
        >>> import builder as xb, lowering, numpy as np
        >>> @xb.computation(xb.f32[3], xb.f32[3])
        ... def loss(w, x):
        ...     return xb.reduce(xb.tanh(w * x), 0, xb.add, [0])
        >>> lowering.grad(loss, "w").program_shape
        (w: f32[3], x: f32[3]) -> f32[3]
        >>> lowering.grad(loss).program_shape
        (w: f32[3], x: f32[3]) -> (f32[3], f32[3])
    """
    return _gradient("grad", computation, wrt, with_value=False)


@explained
def value_and_grad(computation: XlaComputation, wrt: Wrt = None) -> XlaComputation:
    """Return the computation of a computation's result and its gradients.

    Args:
        computation, wrt: see `grad`.

    Returns:
        A computation called "NAME_value_and_grad", of the same parameters. Its result is a tuple of
        the loss, and of what `grad` returns.

    Raises:
        ShapeInferenceError, LoweringError, OperandError: see `grad`.

    Example:
        >>> import builder as xb, lowering
        >>> @xb.computation(xb.f32[3], xb.f32[3])
        ... def loss(w, x):
        ...     return xb.reduce(xb.tanh(w * x), 0, xb.add, [0])
        >>> lowering.value_and_grad(loss, ["w"]).program_shape
        (w: f32[3], x: f32[3]) -> (f32[], (f32[3]))
    """
    return _gradient("value_and_grad", computation, wrt, with_value=True)


@explained
def vmap(
    computation: XlaComputation,
    axis_size: int,
    in_axes: int | Sequence[int | None] | None = 0,
    out_axes: int = 0,
) -> XlaComputation:
    """Return a computation applied to each element along a new dimension of its parameters.

    Args:
        computation: a computation.
        axis_size: the size of the new dimension.
        in_axes: where the dimension is in each parameter: a number for all, or one for each
            parameter; None for parameters without it, which are the same for all elements. It
            applies to all arrays of a tuple.
        out_axes: where the dimension is in the results.

    Returns:
        A computation called "NAME_vmap".

    Raises:
        LoweringError: an op has no batched form in jax, side effects or dynamic sizes.
        OperandError: `computation` is not a computation; there is not one of `in_axes` for each
            parameter, or all are None.
        ShapeInferenceError: the size is negative; an axis is out of range.

    Example:
        >>> import builder as xb, lowering
        >>> @xb.computation(xb.f32[3], xb.f32[3])
        ... def dot(x, y):
        ...     return xb.dot(x, y)
        >>> lowering.vmap(dot, 8, in_axes=(0, None)).program_shape
        (x: f32[8,3], y: f32[3]) -> f32[8]
    """
    need_computation("vmap", computation)
    computation = for_device(computation, None)
    check_effects("vmap", computation)
    size = integer("vmap", "axis_size", axis_size)
    if size < 0:
        raise _error(ShapeInferenceError, "axis_size must be 0 or more", got=size)
    shapes = computation.signature.parameters
    if in_axes is None or isinstance(in_axes, int):
        axes: list[int | None] = [in_axes] * len(shapes)
    elif not isinstance(in_axes, Sequence):
        rule = "in_axes must be an axis, or one for each parameter"
        raise _error(OperandError, rule, argument="in_axes", got=brief(in_axes))
    else:
        axes = [None if axis is None else integer("vmap", "in_axes", axis) for axis in in_axes]
    if len(axes) != len(shapes):
        rule = f"in_axes must have an axis for each of {len(shapes)} parameters"
        fix = "pass one number for all, or a sequence with numbers and None"
        raise _error(OperandError, rule, fix, argument="in_axes", got=brief(in_axes))
    if all(axis is None for axis in axes):
        rule, got = "a parameter must have the new dimension", f"in_axes={brief(in_axes)}"
        fix = "pass 0, or the position of the new dimension, for a parameter that has it"
        raise _error(OperandError, rule, fix if axes else "", argument="in_axes", got=got)
    batched = [
        shape if axis is None else _with_dimension(shape, axis, size)
        for shape, axis in zip(shapes, axes, strict=True)
    ]
    out = integer("vmap", "out_axes", out_axes)
    _with_dimension(computation.signature.result, out, size)
    function = jax.vmap(jax_function("vmap", computation), tuple(axes), out)
    symbols = SymbolicSizes.of_ops(computation.ops)
    arrays = [
        array
        for parameter, axis in zip(computation.parameters, axes, strict=True)
        for array in _abstract(parameter.shape, symbols.of(parameter), axis, size)
    ]
    return _recorded("vmap", computation, batched, arrays, lambda *values: function(*values))


def _abstract(
    shape: Shape, sizes: Sequence[Sizes], axis: int | None, size: int
) -> Iterator[jax.ShapeDtypeStruct]:
    """Yield jax's descriptions of the arrays of a parameter with a new dimension.

    Args:
        shape: the shape of the parameter without the dimension.
        sizes: the sizes of its arrays.
        axis, size: the position and the size of the dimension; `axis` is None for none.
    """
    arrays = [leaf for leaf in leaf_shapes(shape) if isinstance(leaf, ArrayShape)]
    for array, each in zip(arrays, sizes, strict=True):
        found = list(each)
        if axis is not None:
            found.insert(axis % (len(found) + 1), size)
        described: Any = jax.ShapeDtypeStruct  # jax has no types for it
        yield described(tuple(found), array.element_type.dtype)


def _error(kind: Any, rule: str, fix: str = "", **facts: Any) -> Any:
    return error_of(kind, "vmap", rule, fix, **facts)


def _with_dimension(shape: Shape, axis: int, size: int) -> Shape:
    """Return `shape` with a dimension at `axis` in each array; raise if it is out of range."""
    if isinstance(shape, TupleShape):
        return TupleShape([_with_dimension(element, axis, size) for element in shape.elements])
    if not isinstance(shape, ArrayShape):
        return shape
    rank = shape.rank + 1
    if not -rank <= axis < rank:
        rule = f"the axis for {shape} must be from {-rank} to {rank - 1}"
        raise _error(ShapeInferenceError, rule, got=axis)
    sizes = list(shape.dimensions)
    sizes.insert(axis % rank, size)
    return shape.element_type[tuple(sizes)]


def _gradient(
    op: str, computation: XlaComputation, wrt: Wrt, *, with_value: bool
) -> XlaComputation:
    need_computation(op, computation)
    computation = for_device(computation, None)
    check_effects(op, computation)
    scalar_loss(op, "the result", computation.program_shape.result)
    groups = _selected(op, computation, wrt)
    numbers: list[int] = jax.tree.leaves(groups)
    for number in numbers:
        parameter = computation.parameters[number]
        for leaf in leaf_shapes(parameter.shape):
            differentiable(op, f"parameter {parameter.name}", leaf)
    b = XlaBuilder(f"{computation.name}_{op}")
    parameters = [b.parameter(p.shape, p.name) for p in computation.parameters]
    if computation.derivative is not None:
        loss = call(computation, *parameters)
    else:
        checks = observers(computation.ops)
        needed = needed_ops([computation.root, *checks], computation._inlined_calls)
        values = inlined_ops(computation, tuple(parameters), b, needed, {})
        loss = values[computation.root]
    chosen = [leaf for number in numbers for leaf in leaves_of(parameters[number])]
    found = Reverse(op, loss, chosen).record(caller_frame(sys._getframe(1)))
    by = [parameters[number] for number in numbers]
    gradients = [nested(p.shape, [found[leaf] for leaf in leaves_of(p)]) for p in by]
    tree: Any = jax.tree.structure(groups[0] if isinstance(wrt, str) else tuple(groups))
    result = tree.unflatten(gradients)
    return _built(b, computation, (loss, result) if with_value else result)


def _selected(op: str, computation: XlaComputation, wrt: Wrt) -> list[Any]:
    """Return for each name in `wrt` the number of the parameter, or a tree of such numbers."""
    numbers: dict[str, Any] = {p.name or "": n for n, p in enumerate(computation.parameters)}
    everything = numbers
    nesting = _nesting(computation)
    if nesting is not None:
        everything = _arguments(nesting, list(numbers))
        numbers |= everything
    if wrt is None:
        return list(everything.values())
    if not isinstance(wrt, Sequence):
        rule = "wrt must be the name of a parameter, several names or None"
        raise error_of(OperandError, op, rule, got=brief(wrt))
    names = [wrt] if isinstance(wrt, str) else list(wrt)
    for name in names:
        if not isinstance(name, str) or name not in numbers:
            rule = f"wrt must name parameters of {computation.name!r}"
            fix = f"use {', '.join(map(repr, numbers))}"
            raise error_of(OperandError, op, rule, fix, got=brief(name))
    if not names or len(set(names)) < len(names):
        rule = "wrt must name at least one parameter, each once"
        raise error_of(OperandError, op, rule, got=brief(wrt))
    return [numbers[name] for name in names]


def _nesting(computation: XlaComputation) -> CallTree | None:
    annotations = computation.annotations
    nesting: CallTree | None = None if annotations is None else annotations.nesting
    return nesting


def _arguments(nesting: CallTree, names: Sequence[str]) -> dict[str, Any]:
    """Return the arguments of a jax function by name, as trees of the numbers of parameters."""
    numbers: list[int | None] = [None] * nesting.arguments.num_leaves
    for number, leaf in enumerate(nesting.used, nesting.argument_tokens):
        numbers[leaf] = number
    args, by_name = nesting.arguments.unflatten(numbers)
    arguments: dict[str, Any] = {}
    starts = [
        re.split(r"[\[.]", names[min(found)])[0] if found else "" for found in map(_leaves, args)
    ]
    for position, (start, argument) in enumerate(zip(starts, args, strict=True)):
        # Those of a parameter *args have one name.
        name = start if starts.count(start) == 1 else f"{start}[{position - starts.index(start)}]"
        if start:
            arguments[name] = argument
    arguments.update(by_name)
    return arguments


def _leaves(tree: Any) -> list[int]:
    return list(jax.tree.leaves(tree))


def _recorded(
    op: str,
    computation: XlaComputation,
    parameters: Sequence[Shape],
    arrays: Sequence[jax.ShapeDtypeStruct],
    function: Callable[..., Any],
) -> XlaComputation:
    """Record a function of the values of a computation's parameters, of other shapes.

    Args:
        op: the public function.
        computation: the computation.
        parameters: the shapes.
        arrays: jax's descriptions of the arrays in them.
        function: the function.
    """
    b = XlaBuilder(f"{computation.name}_{op}")
    names = [parameter.name for parameter in computation.parameters]
    ops = [b.parameter(shape, name) for shape, name in zip(parameters, names, strict=True)]
    operands = [leaf for parameter in ops for leaf in leaf_ops(parameter)]
    structure: list[Any] = []

    def of_leaves(*arrays: Any) -> list[Any]:
        remaining = iter(arrays)
        result = function(*[nested(parameter.shape, remaining) for parameter in ops])
        flat, tree = jax.tree.flatten(result)
        structure.append(tree)
        return flat

    of_leaves.__name__ = op
    is_wide = wide_op(computation) is not None
    x64 = jax.enable_x64(True) if is_wide else contextlib.nullcontext()
    with transformation_errors(op), x64, recorded_calls() as calls:
        recorded = calls.restored(traced_computation(op, of_leaves, arrays, {}))
    trace = Trace(recorded, jax.tree.structure([0] * structure[-1].num_leaves))
    results = record_trace(trace, tuple(operands), b)
    return _built(b, computation, structure[-1].unflatten(results))


def _built(b: XlaBuilder, computation: XlaComputation, value: Any) -> XlaComputation:
    """Build `b`, whose parameters are those of `computation`, with a tree of ops as its result.

    If `computation` is a function with nested arguments, so is the result.
    """
    nesting = _nesting(computation)
    if nesting is None:
        root = _nested_root(b, value)
    else:
        results, structure = jax.tree.flatten(value)
        is_tuple = len(results) != 1
        returned = tuple(range(len(results)))
        tree = dataclasses.replace(nesting, results=structure, returned=returned, is_tuple=is_tuple)
        b.annotations = Annotations(nesting=tree)
        root = record_tuple(b, results) if is_tuple else results[0]
    _drop_unused(b, root)
    return b.build(root)


def _drop_unused(b: XlaBuilder, root: XlaOp) -> None:
    """Remove the ops that the root does not depend on, but for parameters, prints and checks."""
    checks = observers(b.ops)
    needed = set(needed_ops([root, *b.parameters.values(), *checks], b._inlined_calls))
    b.ops[:] = [op for op in b.ops if op in needed]
    for number, op in enumerate(b.ops):
        op.id = number
    b._inlined_calls[:] = copied_calls(b._inlined_calls, lambda op: op if op in needed else None)


def _nested_root(builder: XlaBuilder, value: Any) -> XlaOp:
    """Return an op for a result: arrays, and tuples and lists of them."""
    if isinstance(value, (tuple, list)):
        return record_tuple(builder, [_nested_root(builder, element) for element in value])
    root: XlaOp = value
    return root
