"""Modules of JAX are imported, lowered, run, and compared with the results of JAX.

The results agree bit by bit, as XLA compiles the same operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from imported import results_and_jax_results
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from tables import mostly_slow

import lowering

RANDOM: Final = np.random.default_rng(20260101)


def floats(*dimensions: int) -> np.ndarray[Any, Any]:
    return RANDOM.uniform(-1, 1, dimensions).astype(np.float32)


def integers(*dimensions: int) -> np.ndarray[Any, Any]:
    return RANDOM.integers(-9, 9, dimensions).astype(np.int32)


X, Y, TALL, SQUARE, CUBE = floats(4, 6), floats(4, 6), floats(6, 3), floats(5, 5), floats(2, 3, 4)
POSITIVE = np.abs(X) + np.float32(0.5)
SYMMETRIC = SQUARE @ SQUARE.T + 5 * np.eye(5, dtype=np.float32)
N, M = integers(4, 6), integers(4, 6)
INDICES = np.array([[0], [2], [1]], np.int32)
WAVE = floats(8) + 1j * floats(8)
WAVE = WAVE.astype(np.complex64)

IMAGE, KERNEL = floats(2, 8, 8, 3), floats(3, 3, 3, 4)
IMAGE_NUMBERS: Final = ("NHWC", "HWIO", "NHWC")

Case = tuple[Callable[..., Any], tuple[Any, ...]]


def key_data(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda seed: function(jax.random.key(seed))


def convolution(x: Any, k: Any, **more: Any) -> Any:
    options = {"window_strides": (1, 1), "padding": "SAME", "dimension_numbers": IMAGE_NUMBERS}
    return lax.conv_general_dilated(x, k, **(options | more))


def fibonacci(n: Any) -> Any:
    return lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[2], s[1] + s[2]), (0, 0, 1))


def newton(x: Any) -> Any:
    """A while loop that captures a value."""
    return lax.while_loop(
        lambda y: jnp.abs(y * y - x) > 1e-3, lambda y: 0.5 * (y + x / y), jnp.float32(1)
    )


def running(x: Any, w: Any) -> Any:
    def step(carry: Any, row: Any) -> Any:
        carry = jnp.tanh(carry @ w + row)
        return carry, carry.sum()

    return lax.scan(step, jnp.zeros(w.shape[0]), x)


def switched(n: Any, x: Any) -> Any:
    return lax.switch(n, [lambda x: x + 1, lambda x: x * y_outside(x), jnp.exp], x)


def y_outside(x: Any) -> Any:
    return jnp.sum(x)


def attention(p: dict[str, Any], x: Any) -> Any:
    q, k, v = (jnp.einsum("bsm,mhd->bhsd", x, p[name]) for name in "qkv")
    scores = jnp.einsum("bhsd,bhtd->bhst", q, k) / np.float32(np.sqrt(q.shape[-1]))
    mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1)
    return jnp.einsum("bhst,bhtd,hdm->bsm", weights, v, p["o"])


def normalized(x: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def transformer_loss(p: dict[str, Any], x: Any) -> Any:
    x = x + attention(p, normalized(x))
    x = x + jax.nn.gelu(normalized(x) @ p["up"]) @ p["down"]
    return jnp.mean(jax.nn.logsumexp(x, axis=-1))


def transformer_parameters() -> dict[str, Any]:
    return {name: floats(8, 2, 4) for name in "qkv"} | {
        "o": floats(2, 4, 8),
        "up": floats(8, 16),
        "down": floats(16, 8),
    }


def convolutional_loss(p: dict[str, Any], x: Any) -> Any:
    x = convolution(x, p["kernel"], window_strides=(2, 2))
    mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    x = (x - mean) * lax.rsqrt(variance + 1e-5) * p["scale"] + p["offset"]
    x = lax.reduce_window(jax.nn.relu(x), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return jnp.mean(x.reshape(x.shape[0], -1) @ p["last"])


def convolutional_parameters() -> dict[str, Any]:
    sizes = {"scale": (4,), "offset": (4,), "last": (16, 2)}
    return {"kernel": KERNEL} | {name: floats(*size) for name, size in sizes.items()}


SIMPLE: Final[dict[str, Case]] = {
    "arithmetic": (lambda x, y: x * y - x / (y * y + 1), (X, Y)),
    "integer arithmetic": (lambda n, m: (n * m, n // (m * m + 1), n % (m * m + 1)), (N, M)),
    "bits": (lambda n, m: (n & m, n | m, n ^ m, ~n, n << 2, n >> 1), (N, M)),
    "popcount and clz": (lambda n: (lax.population_count(n), lax.clz(n)), (N,)),
    "comparisons": (lambda x, y: (x < y, x >= y, x == y, x != y), (X, Y)),
    "trigonometry": (lambda x: (jnp.sin(x), jnp.cos(x), jnp.tan(x), jnp.arctan2(x, x + 2)), (X,)),
    "inverse trigonometry": (lambda x: (jnp.arcsin(x), jnp.arccos(x), jnp.arctan(x)), (X,)),
    "hyperbolic": (lambda x: (jnp.sinh(x), jnp.cosh(x), jnp.tanh(x), jnp.arctanh(x)), (X * 0.9,)),
    "exponentials": (lambda x: (jnp.exp(x), jnp.expm1(x), jnp.log(x), jnp.log1p(x)), (POSITIVE,)),
    "roots": (lambda x: (jnp.sqrt(x), lax.rsqrt(x), jnp.cbrt(x), lax.pow(x, x)), (POSITIVE,)),
    "rounding": (lambda x: (jnp.round(x * 3), jnp.floor(x * 3), jnp.ceil(x), jnp.sign(x)), (X,)),
    "error function": (lambda x: (lax.erf(x), lax.erfc(x), lax.erf_inv(x)), (X,)),
    "gamma functions": (lambda x: (lax.lgamma(x), lax.digamma(x)), (POSITIVE,)),
    "bessel": (lambda x: (lax.bessel_i1e(x), jax.scipy.special.i0e(x)), (X,)),
    "zeta": (lambda x: jax.scipy.special.zeta(x + 1, x), (POSITIVE,)),
    "igamma": (lambda x: jax.scipy.special.gammainc(x, x + 1), (POSITIVE,)),
    "complex numbers": (
        lambda x, y: jnp.abs(lax.complex(x, y) * jnp.conj(lax.complex(y, x))),
        (X, Y),
    ),
    "conversions": (lambda x: (x.astype(jnp.int8), x.astype(jnp.bfloat16), x > 0), (X * 50,)),
    "bitcast": (lambda x: lax.bitcast_convert_type(x, jnp.uint32), (X,)),
    "reduced precision": (lambda x: lax.reduce_precision(x, 5, 3), (X,)),
    "next after": (jnp.nextafter, (X, Y)),
    "clamp and select": (lambda x, y: jnp.where(x > y, jnp.clip(x, -0.5, 0.5), y), (X, Y)),
    "is finite": (lambda x: (jnp.isfinite(x / 0), jnp.isnan(x)), (X,)),
    "broadcast and transpose": (lambda x: jnp.broadcast_to(x.T[None], (2, 6, 4)), (X,)),
    "reshape and ravel": (lambda x: (x.reshape(2, 12), x.ravel()), (X,)),
    "flip and roll": (lambda x: (jnp.flip(x, 1), jnp.roll(x, 2, 0)), (X,)),
    "concatenate and stack": (lambda x, y: (jnp.concatenate([x, y], 1), jnp.stack([x, y])), (X, Y)),
    "pad": (lambda x: lax.pad(x, 0.5, [(1, 2, 0), (0, -1, 2)]), (X,)),
    "slices": (lambda x: (x[1:3, ::2], x[-1]), (X,)),
    "dynamic slice": (lambda x, i: lax.dynamic_slice(x, (i, i), (2, 3)), (X, np.int32(1))),
    "dynamic update": (
        lambda x, i: lax.dynamic_update_slice(x, x[:1] * 2, (i, 0)),
        (X, np.int32(2)),
    ),
    "indexing": (lambda x, i: x[i[:, 0]], (X, INDICES)),
    "take along": (lambda x, i: jnp.take_along_axis(x, i, axis=0), (X, INDICES)),
    "scatter add": (lambda x, i: x.at[i[:, 0]].add(1.5), (X, INDICES)),
    "scatter set and max": (
        lambda x, i: x.at[i[:, 0], 1].set(9.0).at[i[:, 0]].max(0.1),
        (X, INDICES),
    ),
    "iota and one hot": (lambda i: (jnp.arange(5), jax.nn.one_hot(i[:, 0], 3)), (INDICES,)),
    "sums": (lambda x: (x.sum(0), x.prod(1), x.max(), x.min(1)), (X,)),
    "means": (lambda x: (x.mean(0), x.var(1), x.std()), (X,)),
    "any and all": (lambda x: ((x > 0).any(0), (x > 0).all(1)), (X,)),
    "argmax": (lambda x: (jnp.argmax(x, 1), jnp.argmin(x)), (X,)),
    "cumulative": (lambda x: (jnp.cumsum(x, 0), jnp.cumprod(x, 1), lax.cummax(x)), (X,)),
    "reduce window": (
        lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 3), (1, 2), "SAME"),
        (X,),
    ),
    "sort": (lambda x: (jnp.sort(x, 1), jnp.argsort(x, 0)), (X,)),
    "sort by key": (lambda n, x: lax.sort([n, x], num_keys=1), (N, X)),
    "top k": (lambda x: lax.top_k(x, 3), (X,)),
    "median": (lambda x: jnp.median(x, axis=1), (X,)),
    "unique": (lambda n: jnp.unique(n, size=8), (N,)),
    "search": (lambda x: jnp.searchsorted(jnp.sort(x[0]), x[1]), (X,)),
    "product of matrices": (lambda x, y: x @ y, (X, TALL)),
    "batched product": (lambda x: jnp.einsum("bij,bkj->bik", x, x), (CUBE,)),
    "tensordot": (lambda x: jnp.tensordot(x, x, [(0, 1), (0, 1)]), (CUBE,)),
    "integer product": (lambda n: lax.dot(n, n.T, preferred_element_type=jnp.int32), (N,)),
    "convolution": (convolution, (IMAGE, KERNEL)),
    "dilated convolution": (
        lambda x, k: convolution(x, k, rhs_dilation=(2, 2), padding=[(1, 2), (0, 3)]),
        (IMAGE, KERNEL),
    ),
    "transposed convolution": (
        lambda x, k: lax.conv_transpose(x, k, (2, 2), "SAME", dimension_numbers=IMAGE_NUMBERS),
        (IMAGE, KERNEL),
    ),
    "grouped convolution": (
        lambda x, k: convolution(x, k[:, :, :1, :3], feature_group_count=3),
        (IMAGE, KERNEL),
    ),
    "correlation": (lambda x, y: jnp.convolve(x[0], y[0, :3]), (X, Y)),
    "cholesky": (jnp.linalg.cholesky, (SYMMETRIC,)),
    "triangular solve": (
        lambda a, b: lax.linalg.triangular_solve(jnp.tril(a), b, left_side=True, lower=True),
        (SYMMETRIC, SQUARE),
    ),
    "solve": (jnp.linalg.solve, (SYMMETRIC, SQUARE)),
    "inverse and determinant": (lambda a: (jnp.linalg.inv(a), jnp.linalg.det(a)), (SYMMETRIC,)),
    "eigenvalues": (jnp.linalg.eigvalsh, (SYMMETRIC,)),
    "qr": (jnp.linalg.qr, (SQUARE,)),
    "svd": (lambda a: jnp.linalg.svd(a, compute_uv=False), (X,)),
    "norms": (lambda x: (jnp.linalg.norm(x), jnp.linalg.norm(x, axis=0)), (X,)),
    "power of a matrix": (lambda a: jnp.linalg.matrix_power(a, 5), (SQUARE,)),
    "fft": (jnp.fft.fft, (WAVE,)),
    "fft there and back": (lambda w: jnp.fft.ifft(jnp.fft.fft(w)), (WAVE,)),
    "real fft": (lambda x: (jnp.fft.rfft(x), jnp.fft.rfft2(x)), (X,)),
    "inverse real fft": (lambda w: jnp.fft.irfft(w), (WAVE,)),
    "fft shift": (lambda x: jnp.fft.fftshift(x), (X,)),
    "random bits": (key_data(lambda k: jax.random.bits(k, (7,))), (np.uint32(3),)),
    "random uniform": (key_data(lambda k: jax.random.uniform(k, (4, 5))), (np.uint32(3),)),
    "random normal": (key_data(lambda k: jax.random.normal(k, (9,))), (np.uint32(4),)),
    "random integers": (key_data(lambda k: jax.random.randint(k, (9,), 0, 50)), (np.uint32(5),)),
    "random gamma": (key_data(lambda k: jax.random.gamma(k, 2.0, (3,))), (np.uint32(6),)),
    "random categorical": (
        key_data(lambda k: jax.random.categorical(k, jnp.arange(5.0), shape=(6,))),
        (np.uint32(7),),
    ),
    "permutation": (key_data(lambda k: jax.random.permutation(k, 12)), (np.uint32(8),)),
    "generator": (
        lambda k: lax.rng_bit_generator(k, (5,)),
        (np.array([1, 2, 3, 4], np.uint32),),
    ),
    "while": (fibonacci, (np.int32(20),)),
    "while with a value from outside": (newton, (np.float32(2),)),
    "scan": (running, (floats(7, 5), SQUARE)),
    "fori": (lambda x: lax.fori_loop(0, 5, lambda i, t: t * x + i, x), (X,)),
    "map": (lambda x: lax.map(lambda row: row.sum() * row, x), (X,)),
    "cond": (lambda p, x: lax.cond(p, jnp.sin, lambda x: x + 1, x), (np.bool_(True), X)),
    "switch": (switched, (np.int32(1), X)),
    "associative scan": (lambda x: lax.associative_scan(jnp.multiply, x), (X,)),
    "optimization barrier": (lambda x, y: lax.optimization_barrier((x + 1, y)), (X, Y)),
    "softmax": (lambda x: (jax.nn.softmax(x), jax.nn.log_softmax(x)), (X,)),
    "activations": (lambda x: (jax.nn.gelu(x), jax.nn.silu(x), jax.nn.elu(x)), (X,)),
    "vmap": (lambda x: jax.vmap(lambda row: jnp.outer(row, row))(x), (X,)),
    "jacobian": (jax.jacfwd(lambda x: jnp.sin(x) * x.sum()), (X[0],)),
    "hessian": (jax.hessian(lambda x: jnp.sum(jnp.exp(x) * x)), (X[0],)),
    "checkpoint": (jax.grad(jax.checkpoint(lambda x: jnp.sum(jnp.sin(jnp.sin(x))))), (X,)),
    "polynomial": (lambda x: jnp.polyval(jnp.arange(4.0), x), (X,)),
    "interpolation": (lambda x: jnp.interp(x[0], jnp.arange(4.0), x[:, 1]), (X,)),
    "bfloat16": (lambda x: x.astype(jnp.bfloat16) @ x.T.astype(jnp.bfloat16), (X,)),
    "float8": (lambda x: x.astype(jnp.float8_e4m3fn).astype(jnp.float32), (X,)),
    "bincount": (lambda n: jnp.bincount(jnp.abs(n.ravel()), length=10), (N,)),
    "resize": (lambda x: jax.image.resize(x, (2, 4, 4, 3), "bilinear"), (IMAGE,)),
}

NETWORKS: Final[dict[str, Case]] = {
    "transformer": (
        jax.value_and_grad(transformer_loss),
        (transformer_parameters(), floats(2, 5, 8)),
    ),
    "convolutional": (
        jax.value_and_grad(convolutional_loss),
        (convolutional_parameters(), IMAGE),
    ),
    "scan": (jax.grad(lambda x, w: jnp.sum(running(x, w)[1])), (floats(7, 5), SQUARE)),
}


def check(function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    lowered = jax.jit(function).lower(*arguments)
    module = lowering.load_bytes(lowered.as_text(debug_info=True))
    computation = lowering.to_computation(module)
    leaves = jax.tree_util.tree_leaves(arguments)
    assert len(module.program_shape.parameters) == len(leaves), "jax dropped an argument"
    actual, expected = results_and_jax_results(computation, lowered, arguments)
    assert len(actual) == len(expected)
    for mine, theirs in zip(actual, expected, strict=True):
        ours, jaxs = np.asarray(mine), np.asarray(theirs)
        assert ours.dtype == jaxs.dtype
        assert ours.shape == jaxs.shape
        assert ours.tobytes() == jaxs.tobytes(), (ours, jaxs)


PROGRAMS: Final = 8
"""The number of programs with all functions: compiling one for each function takes longer."""


@pytest.mark.parametrize("program", mostly_slow(range(PROGRAMS), 2))
def test_functions(program: int) -> None:
    functions, arguments = zip(*list(SIMPLE.values())[program::PROGRAMS], strict=True)
    check(lambda *lists: [f(*a) for f, a in zip(functions, lists, strict=True)], arguments)


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_and_their_gradients(name: str) -> None:
    check(*NETWORKS[name])


def test_number_of_functions() -> None:
    assert len(SIMPLE) + len(NETWORKS) >= 60


@pytest.mark.parametrize("name", ["transformer", "convolutional"])
def test_exported(name: str) -> None:
    function, arguments = NETWORKS[name]
    jitted = jax.jit(function)
    computation = lowering.to_computation(jax.export.export(jitted)(*arguments))
    actual, expected = results_and_jax_results(computation, jitted.lower(*arguments), arguments)
    for mine, theirs in zip(actual, expected, strict=True):
        # Maxima are rewritten on CPUs so that NaNs remain, and XLA fuses other loops then.
        np.testing.assert_allclose(np.asarray(mine), np.asarray(theirs), rtol=1e-4, atol=1e-6)


def sharded(x: Any, y: Any) -> Any:
    return jnp.tanh(x @ y).sum(0)


@pytest.mark.parametrize("shardy", [False, True])
def test_sharded(shardy: bool) -> None:
    """The results are the same; shardings of arguments are preserved in XLA's form."""
    before = jax.config.jax_use_shardy_partitioner
    jax.config.update("jax_use_shardy_partitioner", shardy)
    try:
        mesh = Mesh(np.array(jax.devices()[:2]), ("rows",))
        rows = NamedSharding(mesh, PartitionSpec("rows"))
        whole = NamedSharding(mesh, PartitionSpec())
        jitted = jax.jit(sharded, in_shardings=(rows, whole), out_shardings=whole)
        text = jitted.lower(X, TALL).as_text(debug_info=True)
        expected = np.asarray(jitted(X, TALL))
    finally:
        jax.config.update("jax_use_shardy_partitioner", before)
    computation = lowering.to_computation(lowering.load_bytes(text))
    if not shardy:
        shardings = [parameter.sharding for parameter in computation.parameters]
        assert shardings == ["{devices=[2,1]<=[2]}", "{replicated}"]
    actual = np.asarray(lowering.compile(computation)(X, TALL))
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


def test_names_and_source_lines_are_preserved() -> None:
    def named(first: Any, second: dict[str, Any]) -> Any:
        with jax.named_scope("stage"):
            return first + second["weights"]

    text = jax.jit(named).lower(X, {"weights": Y}).as_text(debug_info=True)
    computation = lowering.to_computation(lowering.load_bytes(text))
    assert computation.program_shape.parameter_names == ("first", "second['weights']")
    (total,) = (op for op in computation.ops if op.opcode == "add")
    assert total.name is not None
    assert "stage/add" in total.name
    assert total.source is not None
    assert total.source.file == __file__
