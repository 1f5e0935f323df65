"""Functions that jax traced: their equations, effects and lowering, by private functions of jax.

In jax 0.12 a jaxpr has its constants, before it a ClosedJaxpr has; the attributes used here are
those of both.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import jax
from jax._src import config as _config
from jax._src.interpreters import mlir as _mlir
from jax._src.lax import linalg as _linalg
from jax.extend import core
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


def parts_of(closed: Any) -> tuple[dict[Any, Any], list[Any], list[Any], list[Any]]:
    """Return the constants by variable, the arguments, the equations and the results of a jaxpr."""
    inner = closed.jaxpr
    constants = dict(zip(inner.constvars, closed.consts, strict=True))
    return constants, list(inner.invars), list(inner.eqns), list(inner.outvars)


def is_literal(atom: Any) -> bool:
    """Return whether an operand or result is a constant in the jaxpr, not a variable."""
    return isinstance(atom, core.Literal)


def variables(atoms: Iterable[Any]) -> list[Any]:
    """Return the atoms that are variables."""
    return [atom for atom in atoms if not is_literal(atom)]


def evaluate(equations: Sequence[Any], values: Mapping[Any, Any], results: Sequence[Any]) -> Any:
    """Evaluate equations, in order; return a list of the values of `results`.

    Args:
        equations: equations of a jaxpr.
        values: the values of the variables that other equations define.
        results: variables and constants.
    """
    environment = dict(values)

    def read(atom: Any) -> Any:
        return atom.val if is_literal(atom) else environment[atom]

    for equation in equations:
        operands = [read(atom) for atom in equation.invars]
        found = evaluate_equation(equation.primitive, equation.params, equation.ctx, operands)
        environment.update(zip(equation.outvars, found, strict=True))
    return [read(atom) for atom in results]


def inner_parts(jaxpr: Any) -> tuple[list[Any], list[Any], list[Any]]:
    """Return the arguments, equations and results of a jaxpr in the parameters of an equation."""
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    return list(inner.invars), list(inner.eqns), list(inner.outvars)


def is_usual(equation: Any) -> bool:
    """Return whether an equation has no annotations, such as those of `jax.experimental`."""
    context = equation.ctx
    return not (context.compute_type or context.xla_metadata or equation.effects)


def is_on_one_device(aval: Any) -> bool:
    """Return whether the type of an array has no mesh."""
    return bool(aval.sharding.mesh.empty)


def scan_counts(params: Mapping[str, Any]) -> tuple[int, int]:
    """Return the numbers of the constants and of the carries of a scan."""
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    constants, carries, _ = params["ft_in"].unpack()  # since jax 0.12
    return len(constants), len(carries)


@cache
def side_effect() -> Any:
    """Return the effect of an operation that jax must not remove, also inside loops and branches.

    It does not order operations.
    """
    from jax._src import effects

    class SideEffect(effects.Effect):
        def __str__(self) -> str:
            return "xlabuilder side effect"

    effects.lowerable_effects.add_type(SideEffect)
    effects.control_flow_allowed_effects.add_type(SideEffect)
    return SideEffect()


def used_leaves(lowered: Any) -> list[int] | None:
    """Return the indices of the argument leaves that @main takes; None if unknown."""
    kept = getattr(_inner(lowered), "compile_args", {}).get("kept_var_idx")
    return None if kept is None else sorted(kept)


def lowered_platforms(lowered: Any) -> tuple[str, ...]:
    """Return jax's names of the platforms that a Lowered is for; empty if unknown."""
    return tuple(getattr(_inner(lowered), "_platforms", None) or ())


def _inner(lowered: Any) -> Any:
    return getattr(lowered, "_lowering", None)


def static_arguments(jitted: Any) -> tuple[frozenset[int], frozenset[str]]:
    """Return the positions and the names of the static arguments of a function of jax.jit."""
    info = getattr(jitted, "_jit_info", None)
    if info is None:
        return frozenset(), frozenset()
    return frozenset(info.static_argnums), frozenset(info.static_argnames)


def trace_context() -> Hashable:
    """Return the settings of jax that affect a trace, such as x64 and matmul precision."""
    context: Hashable = _config.trace_context()
    return context
