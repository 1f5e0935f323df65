"""Files of jax that call functions outside of the module: LAPACK, and Python functions."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback
from processes import run_python
from tables import each_row

import lowering
from builder.errors import OperandError

MATRIX = np.random.default_rng(0).normal(size=(5, 5)).astype(np.float32)
SYMMETRIC = MATRIX @ MATRIX.T + 5 * np.eye(5, dtype=np.float32)
X = np.arange(4, dtype=np.float32)
STRUCT: Any = jax.eval_shape(lambda: jnp.zeros(4, jnp.float32))


def lowered(function: Callable[..., Any], *arguments: Any) -> str:
    """Return the StableHLO text that jax lowers a function to."""
    text: str = jax.jit(function).lower(*arguments).as_text()
    return text


# Each calls LAPACK, and returns an array that does not depend on the signs of vectors.
LINALG: dict[str, Callable[[Any], Any]] = {
    "qr": lambda a: jnp.abs(jnp.linalg.qr(a)[1]),
    "svd": lambda a: jnp.linalg.svd(a)[1],
    "eigh": lambda a: jnp.linalg.eigh(a)[0],
    "eig": lambda a: jnp.sort(jnp.abs(jnp.linalg.eig(a)[0])),
    "lu": lambda a: jnp.linalg.det(a),
    "cholesky": jnp.linalg.cholesky,
    "solve": lambda a: jax.scipy.linalg.solve_triangular(a, a[0], lower=True),
    "tridiagonal": lambda a: jnp.abs(jax.lax.linalg.tridiagonal(a)[2]),
}

RUN = """
import sys
import numpy as np
import lowering

route, *files = sys.argv[1:]
matrix = np.load("matrix.npy")
for file in files:
    if route == "load":
        result = lowering.compile(lowering.load(file), "cpu")(matrix)
    else:
        result = lowering.load_executable(file, "cpu")(matrix)
    np.save(file + ".npy", result)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("route", "first"), [("load", "qr"), ("load_executable", "eigh")])
def test_lapack_in_a_fresh_process(tmp_path: Path, route: str, first: str) -> None:
    # jaxlib finds LAPACK when jax lowers the first linear algebra op of a process.
    names = [first, *(name for name in LINALG if name != first)]
    np.save(tmp_path / "matrix.npy", SYMMETRIC)
    for name in names:
        text = lowered(LINALG[name], SYMMETRIC)
        assert "lapack_" in text
        if route == "load":
            (tmp_path / name).write_text(text)
        else:
            lowering.compile(lowering.load_bytes(text), "cpu").save(tmp_path / name)
    run_python("-c", RUN, route, *names, cwd=tmp_path)
    for name in names:
        expected = LINALG[name](SYMMETRIC)
        np.testing.assert_allclose(
            np.load(tmp_path / f"{name}.npy"), expected, rtol=1e-4, atol=1e-4
        )


@pytest.mark.slow
def test_lapack_on_the_command_line(tmp_path: Path) -> None:
    np.save(tmp_path / "matrix.npy", SYMMETRIC)
    (tmp_path / "lu.mlir").write_text(lowered(LINALG["lu"], SYMMETRIC))
    arguments = (
        "run",
        "lu.mlir",
        "--device",
        "cpu",
        "--input",
        "arg0=matrix.npy",
        "--output",
        "out.npz",
    )
    run_python("-m", "lowering.cli", *arguments, cwd=tmp_path)
    with np.load(tmp_path / "out.npz") as results:
        np.testing.assert_allclose(results["result"], np.linalg.det(SYMMETRIC), rtol=1e-4)


def pure(a: Any) -> Any:
    return jax.pure_callback(np.sin, STRUCT, a)


def both(a: Any) -> Any:
    return np.negative(a), a + 1


def unordered(a: Any) -> Any:
    return io_callback(both, (STRUCT, STRUCT), a)


def ordered(a: Any) -> Any:
    return io_callback(both, (STRUCT, STRUCT), a, ordered=True)


def printing(a: Any) -> Any:
    jax.debug.print("a = {}", a)
    return a + 1


def guarded_by_a_branch(a: Any) -> Any:
    return jax.lax.cond(a[1] > 0, lambda x: x * 2, pure, a)


@each_row("function", [pure, unordered, ordered, printing, guarded_by_a_branch])
def test_python_functions_are_required(function: Callable[..., Any]) -> None:
    module = lowering.load_bytes(lowered(function, X))
    for program in (module, lowering.to_computation(module)):
        with pytest.raises(lowering.CompileError) as caught:
            lowering.compile(program, "cpu")
        text = str(caught.value)
        assert "custom_call of 'xla_ffi_python_cpu_callback', recorded at" in text
        assert "requires the Python function 0 of the process that lowered the module" in text
        assert "callbacks=[function]" in text


def test_a_refusal_ends_no_process(tmp_path: Path) -> None:
    (tmp_path / "pure.mlir").write_text(lowered(pure, X))
    arguments = ("-m", "lowering.cli", "run", "pure.mlir", "--device", "cpu", "--random", "0")
    done = run_python(*arguments, cwd=tmp_path, status=1)
    assert "xla_ffi_python_cpu_callback" in done.stderr


def test_supplied_functions() -> None:
    def compiled(function: Callable[..., Any], *callbacks: Any) -> Any:
        module = lowering.load_bytes(lowered(function, X))
        return lowering.compile(module, "cpu", callbacks=callbacks)

    np.testing.assert_array_equal(compiled(pure, np.sin)(X), np.sin(X))
    for expected, got in zip(both(X), compiled(unordered, both)(X), strict=True):
        np.testing.assert_array_equal(got, expected)
    token, *results = compiled(ordered, both)(None, X)
    assert token is None
    for expected, got in zip(both(X), results, strict=True):
        np.testing.assert_array_equal(got, expected)
    seen: list[Any] = []
    np.testing.assert_array_equal(compiled(printing, seen.append)(X), X + 1)
    deadline = time.monotonic() + 10
    while not seen and time.monotonic() < deadline:
        time.sleep(0.01)
    np.testing.assert_array_equal(seen[0], X)
    run = compiled(guarded_by_a_branch, None)
    np.testing.assert_array_equal(run(X), X * 2)
    with pytest.raises(lowering.ExecutionError, match=r"callbacks\[0\] is None"):
        run(-X)
    with pytest.raises(lowering.ExecutionError, match=r"the result must be f32\[4\], got f32\[2\]"):
        compiled(pure, lambda a: a[:2])(X)
    with pytest.raises(lowering.ExecutionError, match="raised ZeroDivisionError"):
        compiled(pure, lambda a: 1 // 0)(X)


def test_supplied_functions_on_replicas() -> None:
    module = lowering.load_bytes(lowered(pure, X))
    run: Any = lowering.compile(module, "cpu", num_replicas=2, callbacks=[np.cos])
    for value, result in zip((X, X + 1), run([X, X + 1]), strict=True):
        np.testing.assert_array_equal(result, np.cos(value))


@pytest.mark.parametrize(
    ("callbacks", "message"),
    [
        (np.sin, "callbacks must be a list of functions, got"),
        ([np.sin, 1], r"callbacks\[1\] must be a function or None, got 1"),
    ],
)
def test_invalid_callbacks(callbacks: Any, message: str) -> None:
    module = lowering.load_bytes(lowered(pure, X))
    with pytest.raises(OperandError, match=message):
        lowering.compile(module, "cpu", callbacks=callbacks)


@each_row("kind", ["python_cpu", "ffi_python_gpu", "ffi_partitioned_python_cpu"])
def test_other_targets(kind: str) -> None:
    text = lowered(pure, X).replace("xla_ffi_python_cpu_callback", f"xla_{kind}_callback")
    module = lowering.load_bytes(text)
    with pytest.raises(lowering.CompileError, match=f"custom_call of 'xla_{kind}_callback'"):
        lowering.compile(module, "cpu")
    run = lowering.compile(module, "cpu", callbacks=[np.sin])
    np.testing.assert_array_equal(run(X), np.sin(X))


def test_an_old_file_with_an_address() -> None:
    text = lowered(pure, X).replace("xla_ffi_python_cpu", "xla_python_cpu")
    module = lowering.load_bytes(text.replace("{index = 0 : ui64}", '"94036318"'))
    with pytest.raises(lowering.CompileError, match="requires the Python function of the process"):
        lowering.compile(module, "cpu", callbacks=[np.sin])
