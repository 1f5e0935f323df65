"""Write the table of docs/jax.md: which derivatives of jax functions are kept, and where."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import jax  # noqa: E402  (needs ROOT on the path)
import jax.numpy as jnp  # noqa: E402  (needs ROOT on the path)
import numpy as np  # noqa: E402  (needs ROOT on the path)

import builder as xb  # noqa: E402  (needs ROOT on the path)
import lowering  # noqa: E402  (needs ROOT on the path)
from builder import lib  # noqa: E402  (needs ROOT on the path)
from tools.generated_block import with_block  # noqa: E402  (needs ROOT on the path)

PAGE = ROOT / "docs" / "jax.md"
WRITER = "tools/write_derivatives.py (make docs)"

X = np.array([1, 2, 0.5])


@jax.custom_jvp
def tripled(x: Any) -> Any:
    return jnp.sin(x)


tripled.defjvp(lambda x, dx: (tripled(*x), dx[0] * 3))


@jax.custom_vjp
def reversed_gradient(x: Any) -> Any:
    return x


reversed_gradient.defvjp(lambda x: (x, None), lambda _, dy: (-dy,))


def _cholesky(x: Any) -> Any:
    return jnp.diag(jnp.linalg.cholesky(jnp.diag(x + 3) + x[:, None] * x / 9))


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "`lax.stop_gradient`": lambda x: x * jax.lax.stop_gradient(jnp.exp(x)),
    "`jax.custom_jvp`": tripled,
    "`jax.custom_vjp`": lambda x: x * reversed_gradient(x),
    "special function": jax.scipy.special.gammaln,
    "LAPACK": _cholesky,
    "`jax.checkpoint`": jax.checkpoint(lambda x: jnp.sin(jnp.sin(x))),
}
"""The columns: functions of a vector. The ops of the first four have other derivatives."""


def _total(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: jnp.sum(f(x) * x)


@cache
def _recorded(f: Callable[[Any], Any]) -> xb.XlaComputation:
    return lowering.from_jax(_total(f), xb.f64[3])


def _gradient(record: Callable[[xb.XlaOp], xb.XlaOp]) -> Any:
    """Return the gradient of what is recorded on a parameter."""
    b = xb.XlaBuilder("table")
    x = b.parameter(xb.f64[3], "x")
    return lowering.compile(b.build(lowering.gradients(record(x), x)))(X)


def _of(computation: xb.XlaComputation) -> Any:
    return _gradient(lambda x: xb.inline(computation, x))


def _in_scan(f: Callable[[Any], Any], x: xb.XlaOp) -> xb.XlaOp:
    rows = xb.broadcast(x, [1])
    start = lib.sum(x) * 0.0
    return xb.scan([rows], [start], lambda row, y: (y + lowering.apply(_total(f), row),), 0)[0]


def _in_while(f: Callable[[Any], Any], x: xb.XlaOp) -> xb.XlaOp:
    state = (x.builder.constant(0, xb.s32), lib.sum(x) * 0.0)
    return xb.while_(
        lambda s: s[0] < 1, lambda s: (s[0] + 1, s[1] + lowering.apply(_total(f), x)), state
    )[1]


def _in_conditional(f: Callable[[Any], Any], x: xb.XlaOp) -> xb.XlaOp:
    return xb.conditional(
        x[0] > 0.0, x, lambda x: lowering.apply(_total(f), x), x, lambda x: lib.sum(x)
    )


def _extracted(computation: xb.XlaComputation) -> Any:
    return _of(computation.extract(computation.root))


def _by_jax(f: Callable[[Any], Any]) -> Any:
    function: Any = lowering.to_jax(_recorded(f))
    with jax.enable_x64(True):
        return jax.jit(jax.grad(function))(X)


def _batched(f: Callable[[Any], Any]) -> Any:
    batched = lowering.vmap(lowering.grad(_recorded(f), "x"), 2)
    return lowering.compile(batched)(np.stack([X, X]))[0]


def _twice(f: Callable[[Any], Any]) -> Any:
    """The derivative of the gradient's product with x, from which the gradient follows."""
    return _gradient(lambda x: lib.sum(lowering.gradients(lowering.apply(_total(f), x), x) * x))


def _edited(f: Callable[[Any], Any]) -> Any:
    """Another op is replaced: the product with x."""

    def function(op: xb.XlaOp, operands: Any) -> xb.XlaOp | None:
        is_product = op.opcode == "multiply" and op is computation.root.operands[0]
        return xb.mul(operands[1], operands[0]) if is_product else None

    computation = _recorded(f)
    return _of(computation.replace(function))


def _in_a_file(f: Callable[[Any], Any]) -> Any:
    code = lowering.lower(_recorded(f)).artifact()
    return _of(lowering.to_computation(code))


def _in_hlo_text(f: Callable[[Any], Any]) -> Any:
    return _of(lowering.from_hlo(_recorded(f).to_hlo_text()))


def _lowered(f: Callable[[Any], Any]) -> Any:
    with jax.enable_x64(True):
        lowered = jax.jit(_total(f)).lower(X)
    return _of(lowering.from_jax(lowered))


WAYS: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "`gradients` of `apply`": lambda f: _gradient(lambda x: lowering.apply(_total(f), x)),
    "`grad` of `from_jax`": lambda f: lowering.compile(lowering.grad(_recorded(f), "x"))(X),
    "`vmap` of `grad`": _batched,
    "`jax.grad` of `to_jax`": _by_jax,
    "the second derivative": _twice,
    "`apply` in a body of `xb.scan`": lambda f: _gradient(lambda x: _in_scan(f, x)),
    "in a body of `xb.while_`": lambda f: _gradient(lambda x: _in_while(f, x)),
    "in a branch of `xb.conditional`": lambda f: _gradient(lambda x: _in_conditional(f, x)),
    "after `xb.call`": lambda f: _gradient(lambda x: xb.call(_recorded(f), x)),
    "after `xb.inline`": lambda f: _of(_recorded(f)),
    "after `extract`": lambda f: _extracted(_recorded(f)),
    "after `replace` of other ops": _edited,
    "a StableHLO file of `lower`": _in_a_file,
    "the HLO text": _in_hlo_text,
    "`from_jax` of a `Lowered` or `Exported`": _lowered,
}
"""The rows: ways to a derivative."""


@cache
def _expected(f: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Return the gradient, and that of its product with x."""
    with jax.enable_x64(True):
        slope = jax.grad(_total(f))
        twice = jax.grad(lambda x: jnp.sum(slope(x) * x))
        gradients: tuple[Any, Any] = jax.jit(lambda x: (slope(x), twice(x)))(X)
    return gradients


def result(f: Callable[[Any], Any], way: Callable[[Callable[[Any], Any]], Any]) -> str:
    """Return which derivative one way to it has: jax's, that of the ops, or none."""
    expected = _expected(f)[way is _twice]
    try:
        found = way(f)
    except lowering.LoweringError:
        return "refused"
    if np.allclose(found, expected, rtol=1e-9, atol=1e-12):
        return "jax's"
    return "the rule again" if way is _twice else "that of the ops"


def table() -> str:
    """Return the table as Markdown."""
    lines = [f"| | {' | '.join(FUNCTIONS)} |", "| --- |" + " --- |" * len(FUNCTIONS)]
    for name, way in WAYS.items():
        cells = [result(f, way) for f in FUNCTIONS.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def with_table(text: str, content: str) -> str:
    """Return the text of the page with this table."""
    return with_block(text, WRITER, content)


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), table()), encoding="utf-8")
