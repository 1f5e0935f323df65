"""The functions of `builder.lib` with derivatives of their own, as differentiable jax functions.

The ops that such a function records are an approximation by cases, whose derivative is inaccurate
or NaN where the function is smooth. The function here has the same parameters, and arrays for ops.
Only its derivative is used; the values are those of the recorded ops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import jax

from builder.graph.inlined_calls import LibraryCall, Operand
from lowering.jax_interop.registry import Step, Value

FUNCTIONS: Final[dict[str, Callable[..., Value]]] = {
    "relu": jax.nn.relu,
}
"""The jax function for each function of `builder.lib` that is declared with `has_derivative`."""


def library_step(call: LibraryCall) -> Step:
    """Return a call of a library function as a jax function of its operands' values.

    It returns a tuple.
    """
    function = FUNCTIONS[call.name]

    def step(*operands: Value) -> Value:
        arguments: dict[str, Any] = {
            name: operands[value.number] if isinstance(value, Operand) else value
            for name, value in call.arguments.items()
        }
        value = function(**arguments)
        return tuple(value) if isinstance(value, (tuple, list)) else (value,)

    return step
