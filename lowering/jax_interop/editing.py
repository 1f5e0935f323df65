"""edit_jax: a jax function whose program is edited before XLA compiles it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import jax
from jax.sharding import NamedSharding

from builder.errors import OperandError, brief, error_of
from builder.graph.calls import explained
from builder.graph.computation import XlaComputation
from lowering.jax_interop.from_jax import check_function, computation_of_stage, without_static
from lowering.jax_interop.to_jax import flat_function, nested_function
from lowering.jaxlib_api import jaxprs
from lowering.running.compiling import compile
from lowering.stablehlo.call_tree import CallTree
from lowering.stablehlo.lower import lower

_MOST_KEPT: Final = 128
"""The most executables that an edited function keeps."""


@explained
def edit_jax(
    function: Callable[..., Any],
    edit: Callable[[XlaComputation], XlaComputation],
    *,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Return a jax function whose program is edited before XLA compiles it.

    For each new structure, shapes, types and shardings of its arguments, the function is traced and
    lowered by jax, imported (`from_jax`), edited, and compiled. (jax.extend.xla can register a
    transformation of HLO modules, but for programs that XLA has optimized and fused already, and
    for all programs of the process.)

    Args:
        function: a function of jax arrays, or of `jax.jit`. Its shardings, donated and static
            arguments apply.
        edit: called with the computation of the program; returns a computation of the same
            parameters and the same result. `XlaComputation.replace` returns one.
        options: compiler options, see `lowering.compile`.

    Returns:
        A function with the arguments and results of `function`, on the devices of its arguments, or
        on jax's default device. In transformations of jax, such as `jax.jit` and `jax.grad`, the
        edited computation is evaluated by `to_jax`.

    Raises:
        OperandError: the function or `edit` is not callable; when called, if `edit` returns no
            computation of the same parameters and result.

    Example:
        >>> import builder as xb, jax.numpy as jnp, lowering, numpy as np
        >>> def exact(op, operands):  # tanh(x) by its definition
        ...     if op.opcode == "tanh":
        ...         a, b = xb.exp(operands[0]), xb.exp(-operands[0])
        ...         return (a - b) / (a + b)
        >>> edited = lowering.edit_jax(jnp.tanh, lambda c: c.replace(exact, nested=True))
        >>> edited(np.zeros(2, np.float32))
        Array([0., 0.], dtype=float32)
    """
    check_function("edit_jax", function)
    if not callable(edit):
        rule = "edit must be a function of a computation"
        raise error_of(OperandError, "edit_jax", rule, got=brief(edit))
    is_jitted = isinstance(function, jax.stages.Wrapped)
    jitted: Any = function if is_jitted else jax.jit(function)
    numbers, names = jaxprs.static_arguments(jitted)
    executables: dict[Any, tuple[Any, Callable[..., Any]]] = {}

    @functools.wraps(function)
    def edited(*arguments: Any, **named: Any) -> Any:
        # jax caches the trace; equal arguments have the same jaxpr, which the entry refers to.
        traced = jitted.trace(*arguments, **named)
        leaves = jax.tree.leaves((arguments, named))
        is_inside = any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)
        shardings = () if is_inside else tuple([getattr(x, "sharding", None) for x in leaves])
        key = id(traced.jaxpr), traced.in_tree, shardings, is_inside
        if key not in executables:
            while len(executables) >= _MOST_KEPT:
                del executables[next(iter(executables))]
            original = computation_of_stage("edit_jax", traced)
            changed = _edited(original, edit)
            tree = None if original.annotations is None else original.annotations.nesting
            if is_inside:
                executable = _traceable(changed, tree)
            else:
                executable = _compiled(changed, tree, shardings, options)
            executables[key] = traced.jaxpr, executable
        # Static arguments are part of the program.
        passed, by_name = without_static(arguments, named, numbers, names)
        return executables[key][1](*passed, **by_name)

    return edited


def _edited(original: XlaComputation, edit: Callable[..., Any]) -> XlaComputation:
    """Return the edited computation; check what `edit` returns."""
    changed = edit(original)
    expected = original.program_shape
    if not isinstance(changed, XlaComputation):
        rule = "edit must return an XlaComputation"
        raise error_of(OperandError, "edit_jax", rule, got=brief(changed))
    shape = changed.program_shape
    if shape.parameters != expected.parameters or shape.result != expected.result:
        rule = f"edit must keep the parameters and the result, {expected}"
        raise error_of(OperandError, "edit_jax", rule, got=shape)
    return changed


def _traceable(computation: XlaComputation, tree: CallTree | None) -> Callable[..., Any]:
    """Return a computation as a jax function of arguments nested as `tree`."""
    function = flat_function(computation)
    return function if tree is None else nested_function(function, computation, tree)


def _compiled(
    computation: XlaComputation, tree: CallTree | None, shardings: Sequence[Any], options: Any
) -> Callable[..., Any]:
    """Return the executable of a computation, called with arguments nested as `tree`."""
    module = lower(computation)
    module.tree = tree
    meshes = [sharding.mesh for sharding in shardings if isinstance(sharding, NamedSharding)]
    largest = max(meshes, key=lambda mesh: mesh.size, default=None)
    if largest is not None and largest.size > 1:
        devices = list(largest.devices.flat)
        return compile(module, devices=devices, num_partitions=len(devices), options=options)
    places = [device for sharding in shardings if sharding for device in sharding.device_set]
    return compile(module, places[0] if places else None, options=options)
