"""Derivatives of decompositions of matrices, in f64 and c128, against jax's."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import pytest
from jax import lax

import builder as xb
import lowering
from builder import lib
from lowering.errors import LoweringError

linalg: Any = lax.linalg


@pytest.fixture(autouse=True)
def x64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def matrices(dtype: Any, *sizes: int) -> Any:
    random = np.random.default_rng(0)
    real, imaginary = random.normal(size=(2, *sizes))
    return (real + 1j * imaginary).astype(dtype) if dtype is np.complex128 else real


def adjoint(x: Any) -> Any:
    return jnp.conj(jnp.swapaxes(x, -1, -2))


def weighted(results: Any) -> Any:
    """Return a weighted sum of all elements of the results; the weights differ."""
    random = np.random.default_rng(1)
    total: Any = 0.0
    for leaf in jax.tree.leaves(results):
        if jnp.issubdtype(leaf.dtype, jnp.inexact):
            weights = random.normal(size=leaf.shape)
            total = total + jnp.sum(jnp.sin(leaf.real) * weights + jnp.cos(leaf.imag) * weights)
    return total


def projectors(vectors: Any) -> Any:
    """Return what does not depend on the phases of vectors."""
    return (vectors * np.arange(1, vectors.shape[-1] + 1)) @ adjoint(vectors)


def of_svd(results: Any) -> Any:
    u, s, vh = results
    k = s.shape[-1]
    return s, projectors(u[..., :k]), projectors(adjoint(vh)[..., :k])


def of_full_svd(results: Any) -> Any:
    """The other vectors are determined as a space only."""
    u, s, _ = results
    rest = u[..., s.shape[-1] :]
    return of_svd(results), rest @ adjoint(rest)


def full_svd_of_jax(a: Any) -> Any:
    u, s, vh = jnp.linalg.svd(a, full_matrices=False)
    return of_svd((u, s, vh)), jnp.eye(a.shape[-2]) - u @ adjoint(u)


def of_eigh(results: Any) -> Any:
    vectors, values = sorted(results, key=lambda each: -each.ndim)
    return values, projectors(vectors)


def svd_of_lib(a: xb.XlaOp, *, full_matrices: bool) -> Any:
    u, s, v = lib.svd(a, full_matrices=full_matrices)
    v = xb.transpose(v, [0, 2, 1])
    return u, s, xb.conj(v) if v.shape.element_type.is_complex else v


def identity(results: Any) -> Any:
    return results


Case = tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]

DECOMPOSITIONS: dict[str, Case] = {
    "eigh": (lib.eigh, of_eigh, lambda a: of_eigh(jnp.linalg.eigh(a))),
    "eigvalsh": (lib.eigvalsh, identity, jnp.linalg.eigvalsh),
    "svd": (
        lambda a: svd_of_lib(a, full_matrices=False),
        of_svd,
        lambda a: of_svd(jnp.linalg.svd(a, full_matrices=False)),
    ),
    "full svd": (lambda a: svd_of_lib(a, full_matrices=True), of_full_svd, full_svd_of_jax),
    "svdvals": (lib.svdvals, identity, lambda a: jnp.linalg.svd(a, compute_uv=False)),
    "qr": (lib.qr, identity, jnp.linalg.qr),
    "full qr": (lambda a: lib.qr(a, True), identity, lambda a: jnp.linalg.qr(a, mode="complete")),
    "lu": (lambda a: lib.lu(a)[0], identity, lambda a: linalg.lu(a)[0]),
    "pinv": (lib.pinv, identity, jnp.linalg.pinv),
    "spectral norm": (
        lambda a: lib.norm(a, 2, (-2, -1)),
        identity,
        lambda a: jnp.linalg.norm(a, 2, axis=(-2, -1)),
    ),
    "solve": (lambda a: lib.solve(a, a * a), identity, lambda a: jnp.linalg.solve(a, a * a)),
    "slogdet": (lambda a: lib.slogdet(a)[1], identity, lambda a: jnp.linalg.slogdet(a)[1]),
    "cholesky": (xb.cholesky, identity, jnp.linalg.cholesky),
    "upper cholesky": (
        lambda a: xb.cholesky(a, lower=False),
        identity,
        lambda a: jnp.linalg.cholesky(a, upper=True),
    ),
    "triangular solve": (
        lambda a: xb.triangular_solve(a, a * a, False, False, True, "ADJOINT"),
        identity,
        lambda a: linalg.triangular_solve(
            a, a * a, left_side=False, unit_diagonal=True, transpose_a=True, conjugate_a=True
        ),
    ),
}
"""A function of ops, what is compared of its results, and the same in jax."""

DERIVED = ("full svd", "full qr", "pinv", "spectral norm", "solve", "slogdet", "upper cholesky")
"""Functions whose derivatives are those of the other decompositions."""

HERMITIAN = ("eigh", "eigvalsh", "cholesky", "upper cholesky")
SIZES: dict[str, tuple[tuple[int, int], ...]] = {
    "svd": ((5, 3), (3, 5)),
    "full svd": ((5, 3),),
    "qr": ((5, 3), (3, 5)),
    "full qr": ((5, 3),),
    "lu": ((5, 3), (3, 5)),
}
"""The sizes of the matrices; others are 4 x 4."""


def compared(function: Callable[..., Any], reference: Callable[..., Any], *arguments: Any) -> None:
    results, expected = (jax.jit(each)(*arguments) for each in (function, reference))
    for one, other in zip(results, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10 * np.abs(other).max())


def test_a_unit_diagonal_has_no_derivative() -> None:
    """The solution does not depend on the diagonal, whatever it is."""
    lower = np.array([[7.0, 9.0], [2.0, 5.0]])

    @xb.computation(xb.f64[2, 2], xb.f64[2, 1])
    def last(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
        return xb.triangular_solve(a, b, True, True, True, "NO_TRANSPOSE")[1, 0]

    function = lowering.to_jax(last)
    by_a, by_b = jax.grad(function, (0, 1))(lower, np.array([[3.0], [4.0]]))
    np.testing.assert_array_equal(by_a, [[0, 0], [-3, 0]])
    np.testing.assert_array_equal(by_b, [[-2], [1]])


@pytest.mark.slow
@pytest.mark.parametrize("name", DECOMPOSITIONS)
def test_functions_of_the_library(name: str) -> None:
    """The gradient of a batch of complex matrices and its derivative along a direction.

    Of derived functions, and of real matrices of other sizes, the gradient.
    """
    record, prepare, reference = DECOMPOSITIONS[name]

    def operand(a: Any) -> Any:
        return a @ adjoint(a) + jnp.eye(a.shape[-1]) if name in HERMITIAN else a

    for number, sizes in enumerate(SIZES.get(name, ((4, 4),))):
        kind = xb.c128 if number == 0 else xb.f64
        b = xb.XlaBuilder("decomposition")
        result = record(b.parameter(kind[2, *sizes]))
        computation = b.build(xb.tuple(*result) if isinstance(result, tuple) else result)
        function = lowering.to_jax(computation)

        def loss(a: Any, function: Any = function) -> Any:
            return weighted(prepare(function(operand(a))))

        def loss_of_jax(a: Any) -> Any:
            return weighted(reference(operand(a)))

        x = matrices(kind.dtype.type, 2, *sizes)
        if name in DERIVED or number > 0:
            compared(lambda x: (jax.grad(loss)(x),), lambda x: (jax.grad(loss_of_jax)(x),), x)
        else:
            both = [partial(jax.jvp, jax.grad(each)) for each in (loss, loss_of_jax)]
            compared(*both, (x,), (np.cos(x),))


@pytest.mark.slow
def test_gradients_of_recorded_decompositions() -> None:
    @xb.computation(xb.f32[4, 4])
    def loss(a: xb.XlaOp) -> xb.XlaOp:
        return lib.sum(lib.svdvals(a)) + lib.sum(lib.eigvalsh(a)) + lib.slogdet(a)[1]

    x = matrices(np.float64, 4, 4).astype(np.float32)
    x = x + x.T

    def reference(a: Any) -> Any:
        nuclear = jnp.linalg.norm(a, "nuc")
        lower = jnp.tril(a, -1)
        values = jnp.linalg.eigvalsh(lower + lower.T + jnp.diag(jnp.diag(a)))
        return nuclear + jnp.sum(values) + jnp.linalg.slogdet(a)[1]

    expected = jax.jit(jax.grad(reference))(x.astype(np.float64))
    result = lowering.compile(lowering.grad(loss, "a"))(x)
    np.testing.assert_allclose(result, expected, atol=2e-5)


@pytest.mark.slow
def test_repeated_values() -> None:
    """Sums of eigenvalues and singular values have derivatives; vectors have none, as in jax."""
    b = xb.XlaBuilder("values")
    a = b.parameter(xb.f64[3, 3])
    function = lowering.to_jax(b.build(lib.sum(lib.eigvalsh(a)) + lib.sum(lib.svdvals(a))))
    twice = np.diag([2.0, 2.0, 1.0])
    np.testing.assert_allclose(jax.jit(jax.grad(function))(twice), 2 * np.eye(3), atol=1e-14)
    b = xb.XlaBuilder("vectors")
    vectors = lowering.to_jax(b.build(lib.eigh(b.parameter(xb.f64[3, 3]))[0]))
    gradient = jax.jit(jax.grad(lambda a: jnp.sum(vectors(a) ** 3)))(twice)
    assert np.isnan(gradient).any()


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "cholesky": lambda a: jnp.linalg.cholesky(a @ adjoint(a) + jnp.eye(a.shape[-1])),
    "cho_factor": lambda a: jsl.cho_solve(
        jsl.cho_factor(a @ adjoint(a) + jnp.eye(a.shape[-1]), lower=True), a
    ),
    "solve": lambda a: jnp.linalg.solve(a, a * a),
    "lu": lambda a: linalg.lu(a[..., :3])[0],
    "qr": jnp.linalg.qr,
    "eigh": lambda a: of_eigh(jnp.linalg.eigh(a + adjoint(a))),
    "svd": lambda a: of_svd(jnp.linalg.svd(a[..., :2, :], full_matrices=False)),
    "svdvals": lambda a: jnp.linalg.svd(a, compute_uv=False),
    "triangles": lambda a: [
        linalg.triangular_solve(
            a, a * a, left_side=left, lower=left, transpose_a=left, unit_diagonal=not left
        )
        for left in (False, True)
    ],
    "tridiagonal": lambda a: linalg.tridiagonal_solve(a[..., 0, :], a[..., 1, :], a[..., 2, :], a),
    "eigvals": lambda a: linalg.eig(
        a, compute_left_eigenvectors=False, compute_right_eigenvectors=False
    )[0],
}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_programs_of_jax(dtype: Any) -> None:
    """Calls of LAPACK in a program that is read from a file: of real matrices those that differ."""
    x = matrices(dtype, 2, 4, 4)
    names = ("qr", "eigh", "tridiagonal", "eigvals") if dtype is np.float64 else tuple(PROGRAMS)

    def losses(a: Any) -> Any:
        return [weighted(PROGRAMS[name](a)) for name in names]

    def gradient_of_the_sum(losses: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return jax.grad(lambda a: sum(losses(a)).real)

    text = jax.jit(losses).lower(x).as_text()
    routines = {routine[1:] for routine in re.findall(r"@lapack_(\w+)_ffi", text)}
    assert routines == (
        {"geqrf", "orgqr", "syevd", "gtsv", "geev"}
        if dtype is np.float64
        else {"potrf", "getrf", "geqrf", "ungqr", "trsm", "heevd", "gesdd", "gtsv", "geev"}
    )
    read = lowering.to_jax(lowering.to_computation(lowering.load(text)))
    compared(gradient_of_the_sum(read), gradient_of_the_sum(losses), x)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["solve", "svdvals"])
def test_gradients_of_programs_of_jax(name: str) -> None:
    """Twice: the gradient has calls of LAPACK too."""
    x = matrices(np.float64, 3, 3)

    def loss(a: Any) -> Any:
        return weighted(PROGRAMS[name](a))

    computation = lowering.from_jax(lambda a: jnp.sum(jax.grad(loss)(a) ** 2), x)
    (recorded,) = lowering.compile(lowering.grad(computation))(x)
    expected = jax.jit(jax.grad(lambda a: jnp.sum(jax.grad(loss)(a) ** 2)))(x)
    np.testing.assert_allclose(recorded, expected, rtol=1e-9)


def read_from_file(function: Any, *arguments: Any) -> Any:
    """Return a function of the program that jax lowers, which has calls of LAPACK and no rules."""
    text = jax.jit(function).lower(*arguments).as_text()
    return lowering.to_jax(lowering.to_computation(lowering.load(text)))


@pytest.mark.slow
def test_pivoted_qr_and_single_triangles() -> None:
    """What jax passes for a triangle; the other one has no gradient, or that of a copy."""
    x = matrices(np.float64, 4, 4)

    def pivoted(a: Any) -> Any:
        return weighted(jsl.qr(a, pivoting=True)[:2])

    read = read_from_file(pivoted, x)
    gradient, expected = jax.jit(lambda x: (jax.grad(read)(x), jax.grad(pivoted)(x)))(x)
    np.testing.assert_allclose(gradient, expected, rtol=1e-10)

    def lower(a: Any) -> Any:
        return jnp.sum(linalg.eigh(a, lower=True, symmetrize_input=False)[1] ** 2)

    gradient = jax.jit(jax.grad(read_from_file(lower, x)))(x)
    # The sum of the squares of the eigenvalues is that of the squares of all elements.
    np.testing.assert_allclose(gradient, 4 * np.tril(x, -1) + 2 * np.diag(np.diag(x)), rtol=1e-12)


@pytest.mark.parametrize("name", ["cholesky", "solve", "qr", "eigh", "svd", "svdvals"])
def test_programs_for_gpus(name: str) -> None:
    """The calls of cuSOLVER are found: the program of the gradient has the forward pass's calls."""

    def loss(a: Any) -> Any:
        return weighted(PROGRAMS[name](a))

    x = matrices(np.float64, 4, 4)
    stages: Any = jax.jit(loss).trace(x)
    text = stages.lower(lowering_platforms=("cuda",)).as_text()
    targets = set(re.findall(r"@(cusolver_\w+)", text))
    assert targets
    read = lowering.to_jax(lowering.to_computation(lowering.load(text)))
    stages = jax.jit(jax.grad(read)).trace(x)
    gradient = stages.lower(lowering_platforms=("cuda",)).as_text()
    assert targets <= set(re.findall(r"@(cusolver_\w+)", gradient))


@pytest.mark.parametrize("change", ["target", "layout"])
def test_other_calls_are_refused(change: str) -> None:
    text = jax.jit(jnp.linalg.cholesky).lower(np.eye(3)).as_text()
    if change == "target":
        text = text.replace("lapack_dpotrf_ffi", "lapack_dpotrf_other")
    else:
        text = text.replace("dense<[0, 1]> : tensor<2xindex>", "dense<[1, 0]> : tensor<2xindex>")
    function = lowering.to_jax(lowering.to_computation(lowering.load(text)))
    with pytest.raises(LoweringError, match=r"custom_call.*: jax has no derivative"):
        jax.jit(jax.grad(lambda a: jnp.sum(function(a)))).trace(np.eye(3))


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_triangles_of_jax(dtype: Any) -> None:
    """Each side and form of the matrix, whose other triangle is not read."""
    a, b = matrices(dtype, 2, 3, 3) + 3 * np.eye(3), matrices(dtype, 2, 3, 3)

    def solved(a: Any, b: Any) -> Any:
        return [
            linalg.triangular_solve(
                a, b, left_side=left, lower=left, transpose_a=transposed, conjugate_a=conjugate
            )
            for left, transposed, conjugate in product((False, True), repeat=3)
        ]

    computation = lowering.from_jax(solved, a, b)
    assert "custom_call" not in lowering.lower(computation).text
    results = lowering.compile(computation)(a, b)
    for result, expected in zip(results, jax.jit(solved)(a, b), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-12)


@pytest.mark.slow
def test_programs_of_jax_call_no_library() -> None:
    """Neither the program nor its gradient, which other readers can run then."""
    x = matrices(np.float64, 2, 4, 4)
    portable = [name for name in PROGRAMS if name not in ("tridiagonal", "eigvals")]

    def losses(a: Any) -> Any:
        return sum(weighted(PROGRAMS[name](a)) for name in portable)

    computation = lowering.from_jax(jax.value_and_grad(losses), x)
    assert "custom_call" not in lowering.lower(computation).text
    value, gradient = lowering.compile(computation)(x)
    expected, expected_gradient = jax.jit(jax.value_and_grad(losses))(x)
    np.testing.assert_allclose(value, expected, rtol=1e-10)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-8)
