"""Measure the execution of functions of `builder.lib`, and of jax's under `jax.jit`.

The time is elapsed time until the result is available, because XLA executes on several threads. The
arguments are device arrays. Both sides compile one function for the same device, and their results
are compared before anything is measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import builder as xb
import lowering
from benchmarks.timing import Round, in_turns, spread
from builder import lib

__all__ = ["PROGRAMS", "Program", "measure_library"]


class Program(NamedTuple):
    """A function of the library and the function of jax that computes the same.

    Attributes:
        name: the name of the function in `lib`.
        ours: a function of ops.
        theirs: a function of jax arrays.
        arguments: the shapes of the arguments.
    """

    name: str
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    arguments: tuple[xb.ArrayShape, ...]


_TABLE: Final = xb.f32[4096, 1024]
_MATRIX: Final = xb.f32[256, 256]

PROGRAMS: Final = (
    Program("max", lambda x: lib.max(x, axis=1), lambda x: jnp.max(x, axis=1), (_TABLE,)),
    Program("sum", lambda x: lib.sum(x, axis=1), lambda x: jnp.sum(x, axis=1), (_TABLE,)),
    Program("var", lambda x: lib.var(x, axis=1), lambda x: jnp.var(x, axis=1), (_TABLE,)),
    Program("arg_max", lambda x: lib.arg_max(x, xb.s32, 1), lambda x: jnp.argmax(x, 1), (_TABLE,)),
    Program(
        "logsumexp",
        lambda x: lib.logsumexp(x, axis=1),
        lambda x: jax.nn.logsumexp(x, axis=1),
        (_TABLE,),
    ),
    Program("cumsum", lambda x: lib.cumsum(x, 0), lambda x: jnp.cumsum(x, 0), (xb.f32[10**6],)),
    Program(
        "einsum",
        lambda x, y: lib.einsum(x, y, "bqhd,bkhd->bhqk"),
        lambda x, y: jnp.einsum("bqhd,bkhd->bhqk", x, y),
        (xb.f32[4, 256, 8, 64],) * 2,
    ),
    Program("softmax", lib.softmax, jax.nn.softmax, (_TABLE,)),
    Program("gelu", lib.gelu, jax.nn.gelu, (_TABLE,)),
    Program(
        "dot_product_attention",
        lambda q, k, v: lib.dot_product_attention(q, k, v, is_causal=True),
        lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True),
        (xb.f32[2, 512, 8, 64],) * 3,
    ),
    Program(
        "layer_norm",
        lambda x: lib.layer_norm(x),
        lambda x: jax.nn.standardize(x, epsilon=1e-5),
        (_TABLE,),
    ),
    Program("argsort", lib.argsort, jnp.argsort, (xb.f32[64, 4096],)),
    Program(
        "normal",
        lambda key: lib.normal(key, xb.f32[10**6]),
        lambda key: jax.random.normal(jax.random.wrap_key_data(key), (10**6,)),
        (xb.u32[2],),
    ),
    Program("lu", lambda x: lib.lu(x), lambda x: tuple(jax.lax.linalg.lu(x)), (_MATRIX,)),
    Program("qr", lib.qr, lambda x: tuple(jnp.linalg.qr(x)), (_MATRIX,)),
    Program(
        "eigvalsh",
        lib.eigvalsh,
        lambda x: jnp.linalg.eigvalsh(x, symmetrize_input=False),
        (_MATRIX,),
    ),
    Program("svdvals", lib.svdvals, jnp.linalg.svdvals, (_MATRIX,)),
    Program("solve", lib.solve, jnp.linalg.solve, (_MATRIX, xb.f32[256, 16])),
)
"""The programs to measure, in the order of the table."""


def measure_library(
    programs: Sequence[Program],
    *,
    rounds: int,
    seconds: float,
    on_progress: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Measure each program, xlabuilder and jax in turns.

    Args:
        programs: the programs.
        rounds: the maximum number of rounds.
        seconds: the time after which a contender is left out of further rounds.
        on_progress: called with a description of each measurement.

    Returns:
        The entries of "library", as documented in `benchmarks/figures.py`.
    """
    entries = []
    for program in programs:
        shapes = ", ".join(map(str, program.arguments))
        on_progress(f"lib.{program.name}({shapes})")
        entry = _measured(program, rounds, seconds)
        entries.append({"function": program.name, "arguments": shapes} | entry)
    return entries


def _measured(program: Program, rounds: int, seconds: float) -> dict[str, Any]:
    device = lowering.device()
    rng = np.random.default_rng(0)
    values = [
        lowering.device_put(rng.standard_normal(s.dimensions).astype(s.element_type.dtype), device)
        for s in program.arguments
    ]
    b = xb.XlaBuilder(program.name)
    result = program.ours(*[b.parameter(shape) for shape in program.arguments])
    root = xb.tuple(*result) if isinstance(result, tuple) else result
    calls = {"ours": lowering.compile(b.build(root), device), "jax": jax.jit(program.theirs)}
    _compare(*(jax.tree.leaves(call(*values)) for call in calls.values()))

    def round_of(name: str, call: Callable[..., Any]) -> Round:
        def run() -> dict[str, float]:
            start = time.perf_counter()
            jax.block_until_ready(call(*values))
            return {name: time.perf_counter() - start}

        return run

    contenders = {name: round_of(name, call) for name, call in calls.items()}
    times, _ = in_turns(contenders, rounds=rounds, seconds=seconds)
    ms = {name: spread([t * 1e3 for t in values]) for name, values in times.items()}
    return {"ms": ms, "ratios": {"ours/jax": ms["ours"]["median"] / ms["jax"]["median"]}}


def _compare(ours: Sequence[Any], theirs: Sequence[Any]) -> None:
    for result, reference in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(result, reference, rtol=1e-3, atol=1e-3)
