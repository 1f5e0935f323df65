"""The table of rules: for each opcode, how jax evaluates an op.

A rule is a function of the op that returns a *step*: a function of the operands' values, which are
jax arrays or tracers, that returns the op's value. The value of a tuple is a Python tuple, and the
value of a token is None. A rule is called once for each op, when `to_jax` is called; its step is
called whenever jax evaluates or traces the function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import jax
from jax.custom_derivatives import SymbolicZero, zero_from_primal

from builder.errors import error_of
from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.support.registration import registrar
from builder.types.shape import ArrayShape, Shape
from lowering.errors import LoweringError

Value = Any
"""A jax array or a tracer; for a tuple the tuple of its elements' values, for a token None."""

Step = Callable[..., Value]
"""A function of the operands' values that returns the op's value."""


class Context(Protocol):
    """What a rule may use besides the op.

    Attributes:
        computation: the computation that contains the op.
        axis: the name of jax's mapped axis along which the replicas are, or None.
    """

    computation: XlaComputation
    axis: str | None

    def function(self, computation: XlaComputation) -> Step:
        """Return an applied computation as a function of its parameters' values."""

    def shared(self, computation: XlaComputation) -> Step:
        """Return an applied computation as a function that jax traces once for all calls."""


Rule = Callable[[Context, XlaOp], Step]

RULES: Final[dict[str, Rule]] = {}
"""The rule of each opcode that jax can evaluate."""

REFUSED: Final[dict[str, tuple[str, str]]] = {}
"""For each opcode that jax cannot evaluate: the reason, and the fix."""

rule = registrar(RULES)
"""Register the decorated function as the rule of opcodes."""

COMPOSITES: Final[dict[str, Callable[[XlaOp, Step], Step | None]]] = {}
"""By name, the rule of each composite with a derivative of its own.

A rule is a function of the op and of the step that evaluates its decomposition. It returns None for
composites that it does not support. They have the derivative of the decomposition.
"""

composite_rule = registrar(COMPOSITES)
"""Register the decorated function as the rule of composites."""

CUSTOM_CALLS: Final[dict[str, Callable[[Context, XlaOp], Step | None]]] = {}
"""By target, the rule of each custom call that has a derivative.

A rule returns None for calls that it does not support. They have no derivative.
"""

custom_call_rule = registrar(CUSTOM_CALLS)
"""Register the decorated function as the rule of targets of custom calls."""


def place(op: XlaOp) -> str:
    """Return ", recorded at FILE:LINE"; "" if the op has no source line."""
    return "" if op.source is None else f", recorded at {op.source}"


def refusal(op: XlaOp, reason: str, fix: str) -> LoweringError:
    """Return the error of an op that jax cannot evaluate."""
    operands = {f"operand {i}": operand.shape for i, operand in enumerate(op.operands)}
    return error_of(
        LoweringError,
        "to_jax",
        f"{op.opcode}{place(op)}: {reason}",
        fix,
        shapes={"result": op.shape, **operands},
    )


def array_of(shape: Shape) -> ArrayShape:
    """Return a shape that shape inference has checked to be an array."""
    assert isinstance(shape, ArrayShape)
    return shape


def with_derivative_of(exact: Step, differentiable: Step) -> Step:
    """Return a function with the values of `exact` and the derivatives of `differentiable`.

    For ops that jax computes with other operations than XLA, whose results are rounded differently.
    """
    function: Any = jax.custom_jvp(exact)

    def derivative(primals: tuple[Value, ...], tangents: tuple[Value, ...]) -> Any:
        # An operand without a tangent need not have a derivative.
        wanted = [n for n, t in enumerate(tangents) if not isinstance(t, SymbolicZero)]

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
    is_zero = isinstance(tangent, SymbolicZero) or tangent.dtype == jax.dtypes.float0
    return None if is_zero else tangent


def _instantiated(result: Value, tangent: Value | None) -> Value:
    """Return the tangent of a result; zeros for None."""
    zero: Any = zero_from_primal  # jax has no types for it
    return zero(result, symbolic_zeros=True) if tangent is None else tangent
