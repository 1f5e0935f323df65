"""The causes of the times above the target, for the page.

A cause belongs to functions and to columns of the table. `explanation_lines` compares the causes
with the figures, so that the page lists times without a cause, and causes that no longer apply.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from benchmarks.budget import LIBRARY_TO_JAX, no_slower

__all__ = ["COLUMNS", "Cause", "explanation_lines", "is_above"]

COLUMNS: Final = ("f32 small", "f32 large", "bf16 small", "bf16 large")
"""The columns of the table: a type and a size."""

_SMALL: Final = ("f32 small", "bf16 small")
_LARGE: Final = ("f32 large", "bf16 large")


class Cause(NamedTuple):
    """Why functions take longer than jax's.

    Attributes:
        columns: the columns above the target.
        functions: the functions.
        text: the cause, as a sentence.
    """

    columns: tuple[str, ...]
    functions: tuple[str, ...]
    text: str


_CAUSES: Final = (
    Cause(
        _LARGE,
        ("max", "min", "max_pool"),
        "XLA's reduction calls YNNPACK, which ignores NaNs. The rewrite `extremes_of_nans` returns "
        "them, in a loop that XLA compiles; jax's functions ignore NaNs.",
    ),
    Cause(
        COLUMNS,
        ("torch_scatter_dense",),
        "Compares each index with all positions, as XLA's function of this name does, for devices "
        "without a fast scatter; jax's expression is a scatter. `xb.scatter` records one.",
    ),
    Cause(
        COLUMNS,
        ("zeta", "polygamma"),
        "Negative arguments need two more sums, which are computed for all elements. jax's "
        "functions have one sum, whose results for arguments below -10 are wrong.",
    ),
    Cause(
        COLUMNS,
        ("erf_inv", "erfc"),
        "Logarithms and exponentials without the rounding of their arguments: jax's functions have "
        "errors of up to 65 ulps, `erf_inv` near 1, and `erfc` where it is small.",
    ),
    Cause(
        COLUMNS,
        ("cross_entropy",),
        "Compares the labels with all classes, so that the classes can be divided among devices; "
        "jax's expression is a gather.",
    ),
    Cause(
        ("f32 large",),
        ("gelu",),
        "Divides by 1 + exp(-2 u), where jax's function has the factor 1 + tanh(u), which has no "
        "correct digit for negative numbers of large magnitude.",
    ),
    Cause(
        ("bf16 large",),
        ("relu",),
        "The rewrite `extremes_of_nan_operands` converts to f32, to find NaNs that XLA's maximum "
        "may lose; from jaxlib 0.12 on, CPUs with instructions for bf16 need no conversion "
        "otherwise.",
    ),
    Cause(
        ("bf16 small", "bf16 large"),
        ("top_k_with_partitions",),
        "The rewrite `top_k_of_short_floats` sorts, because XLA's top_k changes NaNs.",
    ),
    Cause(
        (*_SMALL, "f32 large"),
        ("set_matrix_diagonal",),
        "XLA runs programs of up to about 1,000 floating-point operations in the calling thread. "
        "A select of 1,024 elements runs in another one, jax's scatter of 32 elements does not. "
        "For large matrices of f32, a select takes as long as an addition, and jax's scatter as "
        "long as a copy, which is faster.",
    ),
    Cause(
        ("f32 small", "f32 large"),
        ("eigh", "eigvalsh", "svd"),
        "The elements are checked before LAPACK is called, because its routines may loop forever "
        "on NaNs. For small matrices this takes as long as LAPACK, for 256 rows hardly any time.",
    ),
    Cause(
        _SMALL,
        ("indices_along", "full_like", "zeros_like"),
        "Nearly all of the 6 to 8 us is the call itself, which takes up to 1 us more or less from "
        "one program to another.",
    ),
    Cause(
        ("bf16 large",),
        ("arg_min",),
        "NaNs lose, as in XLA's function of this name; jax's function returns their index. How "
        "fast a reducer of bf16 is depends on the version of XLA: that of `arg_max`, with the "
        "opposite comparison, takes 0.6 times as long as this one with jax 0.12, and as long with "
        "0.10.",
    ),
    Cause(
        ("f32 large",),
        ("next_after",),
        "Compares integers that number the values in order, because devices may take subnormal "
        "numbers for zeros. That takes three subtractions and a select more than jax's function.",
    ),
    Cause(
        ("bf16 large",),
        ("symmetrize",),
        "Selects between the matrix and its transpose; the same select in jax takes as long. jax's "
        "expression is the sum of two triangles, which changes -0 to +0. With jax 0.10 it takes "
        "0.92 times as long as the select in bf16, and as long in f32.",
    ),
    Cause(
        ("f32 small",),
        ("digamma", "lgamma"),
        "XLA divides this program of 1,024 elements between two threads, and jax's not; to wake a "
        "thread takes longer than all the rest. For a million numbers both functions take a third "
        "of jax's time or less.",
    ),
    Cause(
        ("bf16 small",),
        ("matmul",),
        "XLA compiles the same program for both, and the fastest rounds of both take equally long.",
    ),
    Cause(
        _SMALL,
        ("normal", "truncated_normal", "glorot_normal", "he_normal", "categorical", "dropout"),
        "The rounds of the generator are one fused loop, which XLA divides among threads; that "
        "takes longer than 1,024 numbers. jax's loop over the rounds stays in one thread. For a "
        "million numbers the fused loop takes less time than jax's.",
    ),
)


def is_above(entry: Mapping[str, Any]) -> bool:
    """Return whether a function misses the target: the quartiles do not overlap either."""
    return not no_slower(entry["ms"], LIBRARY_TO_JAX)


def explanation_lines(
    entries: Sequence[Mapping[str, Any]], causes: Sequence[Cause] = _CAUSES
) -> list[str]:
    """Return an item of a list for each cause, each time without a cause, and all outdated causes.

    Args:
        entries: the entries of "library", as documented in `benchmarks/figures.py`.
        causes: the causes.
    """
    above = {
        (entry["function"], f"{entry['type']} {entry['size']}")
        for entry in entries
        if is_above(entry)
    }
    measured = {entry["function"] for entry in entries}
    lines, explained, outdated = [], set(), []
    for cause in causes:
        cells = {(name, column) for name in cause.functions for column in cause.columns}
        explained |= cells
        names = [name for name in cause.functions if any((name, c) in above for c in cause.columns)]
        if names:
            lines.append(f"{_code(names)}: {cause.text}")
        outdated += [name for name in cause.functions if name in measured and name not in names]
    for column in COLUMNS:
        missing = sorted(name for name, where in above - explained if where == column)
        if missing:
            lines.append(f"{_code(missing)}, {column}: not explained")
    if outdated:
        lines.append(f"{_code(outdated)}: explained, but not above the target in this run")
    return lines


def _code(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
