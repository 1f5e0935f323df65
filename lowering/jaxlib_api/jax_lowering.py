"""Evaluate and lower single equations of jaxprs, by private functions of jax."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
from jax._src.interpreters import mlir as _mlir
from jax._src.lax import linalg as _linalg
from jax.extend.core import Primitive
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from builder.ops.control_flow import DERIVATIVE, ZERO_DERIVATIVE

LoweringRule = Callable[..., Sequence[Any]]
"""A function of jax's context of a lowering and the MLIR values of the operands, with the
parameters of the equation by name; it returns the MLIR values of the results."""


def equations_of(jaxpr: Any) -> Iterator[Any]:
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
            stack += inner_jaxprs(equation)


def is_expanded(equation: Any) -> bool:
    """Return whether jax expands an equation before it lowers the jaxpr; since jax 0.12."""
    return bool(equation.primitive.name == "call_hi_primitive")


def inner_jaxprs(equation: Any) -> list[Any]:
    """Return the jaxprs among the parameters of an equation."""
    found: list[Any] = []
    for parameter in equation.params.values():
        parts = parameter if isinstance(parameter, (tuple, list)) else (parameter,)
        found += [part for part in parts if hasattr(part, "eqns")]
    return found


def evaluate_equation(
    primitive: Any, params: Mapping[str, Any], context: Any, operands: Sequence[Any]
) -> list[Any]:
    """Evaluate an equation on jax values; return a list of its results.

    Args:
        primitive, params: those of the equation.
        context: the settings of jax with which the equation was traced.
        operands: the values of its operands.
    """
    bound = primitive.get_bind_params(params)
    with context.manager:
        results = primitive.bind(*operands, **bound)
    return list(results) if primitive.multiple_results else [results]


def lowered_with_rules(
    traced: jax.stages.Traced, rules: Mapping[Any, LoweringRule]
) -> jax.stages.Lowered:
    """Lower what jax has traced, by `rules` for some primitives.

    `stop_gradient`, which jax lowers to no operation, is lowered to an operation that marks it.
    """
    primitives = {equation.primitive for equation in equations_of(traced.jaxpr)}
    stops = {p: _stopped for p in primitives if p.name == "stop_gradient"}
    parameters = None
    if rules or stops:
        every: Any = (*rules.items(), *stops.items())
        parameters = _mlir.LoweringParameters(override_lowering_rules=every)
    lowered: jax.stages.Lowered = traced.lower(_private_parameters=parameters)
    return lowered


def linalg_primitives() -> frozenset[Any]:
    """Return the primitives of jax.lax.linalg."""
    return frozenset(value for value in vars(_linalg).values() if isinstance(value, Primitive))


def _stopped(_: Any, operand: Any) -> list[Any]:
    return [with_derivative(operand, ZERO_DERIVATIVE)]


def with_derivative(value: Any, kind: str) -> Any:
    """Return the MLIR value of an operation that only has another derivative than its operand.

    Args:
        value: the value of the operand.
        kind: a value of the frontend attribute `DERIVATIVE`.
    """
    operation: Any = stablehlo.OptimizationBarrierOp([value])
    entry = ir.DictAttr.get({DERIVATIVE: ir.StringAttr.get(kind)})
    operation.operation.attributes["mhlo.frontend_attributes"] = entry
    return operation.results[0]


def lowered_by_jax(context: Any, *operands: Any, **params: Any) -> list[Any]:
    """Return the results of jax's own rule for an equation, in a rule for `lowered_with_rules`."""
    primitive = context.primitive
    platforms = context.platforms or context.module_context.platforms
    rules = {
        platform: entry.rule
        for platform in platforms
        if (entry := _mlir._platform_specific_lowerings[platform].get(primitive)) is not None
    }
    default = _mlir._lowerings.get(primitive)
    rule = None if default is None else default.rule
    no_effects: Any = ()
    results = _mlir.lower_per_platform(
        context, str(primitive), rules, rule, no_effects, *operands, **params
    )
    return list(results)
