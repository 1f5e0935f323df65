"""Measure functions of `builder.lib` whose small operands are computed in the program.

XLA fuses a value of a few elements with the loop that reads it. If each of a million elements reads
the value, the loop computes it a million times. A function of the library must not cause this for
values that it computes itself, such as the keys of random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

import builder as xb
from benchmarks.library.measuring import in_ms
from benchmarks.library.programs import Case, Program
from builder.types.shape import leaves

__all__ = ["measure_operands", "operand_cases"]

SMALL: Final = 4_096
"""The largest number of elements of a small operand."""

LARGE: Final = 50_000
"""The least number of elements of the result or of another operand."""

_TIMES: Final = 16
"""How often the function that is expensive to compute is applied."""


def measure_operands(
    programs: Sequence[Program],
    *,
    rounds: int,
    seconds: float,
    on_progress: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Measure each program with small operands that are passed, and with ones that are computed.

    Args:
        programs: the programs; those without small operands are left out.
        rounds, seconds, on_progress: see `measure_library`.

    Returns:
        The entries of "operands", as documented in `benchmarks/figures.py`.
    """
    entries = []
    for case in operand_cases(programs):
        on_progress(f"{case}: operands")
        ms = in_ms({"": case, ", computed": _computed(case)}, rounds, seconds)
        entries.append(
            {
                "function": case.program.name,
                "arguments": ", ".join(map(str, case.shapes)),
                "ms": ms,
                "ratios": {
                    f"{who}, computed/passed": ms[f"{who}, computed"]["median"] / ms[who]["median"]
                    for who in ("ours", "jax")
                },
            }
        )
    return entries


def operand_cases(programs: Sequence[Program]) -> Iterator[Case]:
    """Yield the large programs that have a small operand, and a large one or a large result."""
    for program in programs:
        case = Case(program, "large", program.types[0])
        counts = [shape.element_count for shape in case.shapes]
        results = leaves(case.recorded().root.shape) if any(_are_small(case)) else ()
        counts += [shape.element_count for shape in results if isinstance(shape, xb.ArrayShape)]
        if any(_are_small(case)) and max(counts) >= LARGE:
            yield case


def _are_small(case: Case) -> list[bool]:
    """Return for each argument whether it is a small array."""
    arguments = zip(case.program.arguments, case.shapes, strict=True)
    return [a.values is not None and shape.element_count <= SMALL for a, shape in arguments]


def _computed(case: Case) -> Case:
    """Return the program whose small operands are computed from the arguments."""
    program, are_small = case.program, _are_small(case)

    def ours(*arguments: Any) -> Any:
        pairs = zip(arguments, are_small, strict=True)
        return program.ours(*[_equal_op(x) if is_small else x for x, is_small in pairs])

    def theirs(*arguments: Any) -> Any:
        pairs = zip(arguments, are_small, strict=True)
        return program.theirs(*[_equal_array(x) if is_small else x for x, is_small in pairs])

    return case._replace(program=program._replace(ours=ours, theirs=theirs))


# The value is that of the argument, which XLA can't know: the sine of a sine is never 2, and a hash
# of 32 bits hardly ever has a given value.
_MULTIPLIER: Final = 0x9E3779B1
_NEVER: Final = 0x5BD1E995


def _equal_op(x: xb.XlaOp) -> xb.XlaOp:
    """Record an expensive computation whose result equals `x`."""
    element_type = x.shape.element_type
    if element_type.is_floating:
        value = x
        for _ in range(_TIMES):
            value = xb.sin(value)
        return xb.select(value > 2.0, value, x)
    bits = xb.convert_element_type(x, xb.u32)
    for _ in range(_TIMES):
        bits = xb.xor(bits, xb.shift_right_logical(bits, 15)) * _MULTIPLIER
    return xb.select(xb.eq(bits, _NEVER), xb.convert_element_type(bits, element_type), x)


def _equal_array(x: jax.Array) -> jax.Array:
    """Compute the same as `_equal_op` with jax."""
    if jnp.issubdtype(x.dtype, jnp.floating):
        value = x
        for _ in range(_TIMES):
            value = jnp.sin(value)
        return jnp.where(value > 2.0, value, x)
    bits = x.astype(np.uint32)
    for _ in range(_TIMES):
        bits = (bits ^ (bits >> 15)) * np.uint32(_MULTIPLIER)
    return jnp.where(bits == np.uint32(_NEVER), bits.astype(x.dtype), x)
