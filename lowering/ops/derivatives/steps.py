"""Steps with derivatives of their own.

A step is a function of jax (`lowering.ops.registry`): of arrays, tracers, and tuples of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

from builder.errors import error_of
from lowering.errors import LoweringError
from lowering.jaxlib_api.lazy_jax import ad, batching, jax, jax_core, jax_mlir
from lowering.ops.registry import Step, Value


def with_derivative_of(exact: Step, differentiable: Step) -> Step:
    """Return a function with the values of `exact` and the derivatives of `differentiable`.

    For ops that jax computes with other operations than XLA, whose results are rounded differently.
    """
    function: Any = jax.custom_jvp(exact)

    def derivative(primals: tuple[Value, ...], tangents: tuple[Value, ...]) -> Any:
        # An operand without a tangent need not have a derivative.
        wanted = [n for n, t in enumerate(tangents) if not _is_symbolic_zero(t)]

        def of_wanted(*some: Value) -> Value:
            every = list(primals)
            for number, value in zip(wanted, some, strict=True):
                every[number] = value
            return differentiable(*every)

        some = [primals[number] for number in wanted]
        _, tangent = jax.jvp(of_wanted, some, [tangents[number] for number in wanted])
        return function(*primals), tangent

    function.defjvp(derivative, symbolic_zeros=True)
    step: Step = function
    return step


Tangents = Sequence[Value | None]
"""A tangent for each operand or result. None is a tangent of zeros: of an integer, of a pred, or of
an operand that does not depend on what is differentiated."""


def with_rule(exact: Step, rule: Callable[[Sequence[Value], Tangents], Any]) -> Step:
    """Return a function with the values of `exact`, and with a derivative of its own.

    Args:
        exact: a function of arrays that returns an array or a tuple of arrays.
        rule: a linear function of the tangents: ``(operands, tangents of the operands) -> (results,
            tangents of the results)``. The results are arrays equal to those of `exact`, or, as
            both are only used together, other arrays that `exact` may as well return. For a second
            derivative jax differentiates the rule.
    """
    custom: Any = jax.custom_jvp  # jax has no types for it
    function = custom(exact)

    def derivative(primals: tuple[Value, ...], tangents: tuple[Value, ...]) -> Any:
        results, found = rule(primals, [_tangent(tangent) for tangent in tangents])
        if not isinstance(results, tuple):
            return results, _instantiated(results, found)
        return results, tuple(map(_instantiated, results, found))

    function.defjvp(derivative, symbolic_zeros=True)
    step: Step = function
    return step


def with_tangents(
    exact: Step, tangents_of: Callable[[Sequence[Value], Any, Tangents], Any]
) -> Step:
    """Return a function with the values of `exact`, and a derivative in terms of its results.

    Reverse mode with known results evaluates `exact` neither once more nor by other operations.

    Args:
        exact: a function of arrays that returns an array or a tuple of arrays.
        tangents_of: a linear function of the tangents: ``(operands, results, tangents of the
            operands) -> tangents of the results``, a tuple if the results are.
    """

    def derivative(operands: Sequence[Value], tangents: Tangents) -> Any:
        results = function(*operands)
        return results, tangents_of(operands, results, tangents)

    function = with_rule(exact, derivative)
    return function


def _tangent(tangent: Value) -> Value | None:
    """Return a tangent, or None for one of zeros."""
    is_zero = _is_symbolic_zero(tangent) or tangent.dtype == jax.dtypes.float0
    return None if is_zero else tangent


def _instantiated(result: Value, tangent: Value | None) -> Value:
    """Return the tangent of a result; zeros for None."""
    zero: Any = jax.custom_derivatives.zero_from_primal  # jax has no types for it
    return zero(result, symbolic_zeros=True) if tangent is None else tangent


def _is_symbolic_zero(tangent: Value) -> bool:
    return isinstance(tangent, jax.custom_derivatives.SymbolicZero)


class _Refusal:
    """The error of reverse mode.

    Attributes:
        opcode: the opcode, for the text of jax's programs.
        rule: the rule of the message.
        fix: its fix.
    """

    def __init__(self, opcode: str, rule: str, fix: str) -> None:
        self.opcode = opcode
        self.rule = rule
        self.fix = fix

    def __repr__(self) -> str:
        return self.opcode


def forward_only(opcode: str, rule: str, fix: str) -> Step:
    """Return the identity of nested values; its reverse derivative raises LoweringError."""
    restrict = partial(_forward_only().bind, refusal=_Refusal(opcode, rule, fix))
    return partial(jax.tree_util.tree_map, restrict)


def _transposed(*_: Any, refusal: _Refusal) -> Any:
    raise error_of(LoweringError, "to_jax", refusal.rule, refusal.fix)


def _identity(value: Any, **_: Any) -> Any:
    return value


@cache
def _forward_only() -> Any:
    primitive: Any = jax_core.Primitive("xlabuilder_forward_only")
    primitive.def_impl(_identity)
    primitive.def_abstract_eval(_identity)
    jax_mlir.register_lowering(primitive, lambda _, value, **_refusal: [value])
    linear: Any = ad.deflinear2  # jax has no types for it
    linear(primitive, _transposed)
    vectorized: Any = batching.defvectorized
    vectorized(primitive)
    return primitive
