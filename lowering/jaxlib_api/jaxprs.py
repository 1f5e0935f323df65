"""The equations of jaxprs: taking them apart, and evaluating some of them.

In jax 0.12 a jaxpr has its constants, before it a ClosedJaxpr has; the attributes used here are
those of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jax.extend import core

from lowering.jaxlib_api.jax_lowering import evaluate_equation


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
