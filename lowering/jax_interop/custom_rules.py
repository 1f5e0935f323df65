"""Derivatives that jax functions define by jax.custom_jvp and jax.custom_vjp.

The recorded ops of such a function do not have them. So its jaxpr is kept as long as its
computation exists, and `to_jax` evaluates the jaxpr instead of the ops. Computations that are made
from it, for instance by `replace`, have the derivatives of their ops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final
from weakref import WeakKeyDictionary

import jax
from jax.extend.core import jaxpr_as_fun

from builder.errors import error_of
from builder.graph.computation import XlaComputation
from builder.types.shape import TupleShape
from lowering.errors import LoweringError
from lowering.jax_interop.registry import Step, Value, with_derivative_of
from lowering.jax_interop.varying import axes_of
from lowering.jaxlib_api.jax_stages import used_leaves

_JAXPRS: Final[WeakKeyDictionary[XlaComputation, Any]] = WeakKeyDictionary()

_RULES: Final = ("custom_jvp_call", "custom_vjp_call")
"""The primitives of functions that define their derivatives."""


def keep_rules(computation: XlaComputation, jaxpr: Any, lowered: jax.stages.Lowered) -> None:
    """Keep the jaxpr of a computation if a function that it calls defines its derivative.

    Args:
        computation: the recorded ops.
        jaxpr: of the function that jax has traced.
        lowered: of the same function; it may drop arguments that are not used.
    """
    if any(equation.primitive.name in _RULES for equation in _equations(jaxpr)):
        used = used_leaves(lowered)
        count = len(jaxpr.in_avals)
        numbers = range(count) if used is None else used
        if len(numbers) == len(computation.parameters):
            _JAXPRS[computation] = jaxpr, tuple(numbers)


def has_rules(computation: XlaComputation) -> bool:
    """Return whether a function with its own derivative is part of the computation's function."""
    return computation in _JAXPRS


def function_with_rules(computation: XlaComputation, by_ops: Callable[[], Step]) -> Step:
    """Return the jax function whose ops the computation has.

    A jaxpr has no values that differ along axes of jax.shard_map. There the ops are evaluated, and
    their derivative, which is another one, is refused.

    Args:
        computation: a computation for which `has_rules` is true.
        by_ops: returns the function that evaluates the ops.
    """
    jaxpr, used = _JAXPRS[computation]
    shape = computation.signature.result
    avals = jaxpr.in_avals

    def refuse(*_: Value) -> Value:
        rule = (
            f"{computation.name}: jax.shard_map can't differentiate a recorded function that uses "
            "jax.custom_jvp or jax.custom_vjp"
        )
        raise error_of(LoweringError, "to_jax", rule, "pass check_vma=False to jax.shard_map")

    def function(*operands: Value) -> Value:
        if axes_of(operands):
            return with_derivative_of(by_ops(), refuse)(*operands)
        given = dict(zip(used, operands, strict=True))
        values = [
            given[number] if number in given else jax.numpy.zeros(aval.shape, aval.dtype)
            for number, aval in enumerate(avals)
        ]
        results = jaxpr_as_fun(jaxpr)(*values)
        return tuple(results) if isinstance(shape, TupleShape) else results[0]

    function.__name__ = function.__qualname__ = computation.name
    return function


def _equations(jaxpr: Any) -> Iterator[Any]:
    """Return the equations of a jaxpr and of the jaxprs in their parameters, each once."""
    stack, entered = [jaxpr], set[int]()
    while stack:
        current = stack.pop()
        # Calls of a function share its jaxpr; some versions of jax wrap it for each call.
        identity = id(getattr(current, "jaxpr", current))
        if identity in entered:
            continue
        entered.add(identity)
        for equation in current.eqns:
            yield equation
            for parameter in equation.params.values():
                parts = parameter if isinstance(parameter, (tuple, list)) else (parameter,)
                stack += [part for part in parts if hasattr(part, "eqns")]
