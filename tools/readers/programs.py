"""Programs with library functions, gradients, imports of jax functions, and the examples."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import builder as xb
import lowering
from benchmarks import training_steps
from builder import lib

sys.path.append(str(Path(__file__).parents[2] / "examples"))

import conjugate_gradient
import convnet
import digits
import fft_convolution
import gpt
import k_means
import kalman
import lstm
import mandelbrot
import top_k_sampling

__all__ = ["Program", "programs"]


class Program(NamedTuple):
    """A computation, and arguments of it.

    Attributes:
        name: the kind of the program and its own name, such as "library/svd".
        computation: makes the computation.
        arguments: arrays, nested as the computation is called.
    """

    name: str
    computation: Callable[[], xb.XlaComputation]
    arguments: tuple[Any, ...]


_RANDOM: Final = np.random.default_rng(0)


def _normal(*sizes: int) -> np.ndarray:
    return _RANDOM.normal(size=sizes).astype(np.float32)


def _between(low: float, high: float, *sizes: int) -> np.ndarray:
    return _RANDOM.uniform(low, high, sizes).astype(np.float32)


def _integers(high: int, *sizes: int) -> np.ndarray:
    return _RANDOM.integers(0, high, sizes).astype(np.int32)


def _positive_definite(size: int) -> np.ndarray:
    a = _normal(size, size)
    return a @ a.T + size * np.eye(size, dtype=np.float32)


_X: Final = _normal(4, 6)
_MATRIX: Final = _normal(5, 5) + 3 * np.eye(5, dtype=np.float32)
_DEFINITE: Final = _positive_definite(5)
_KEY: Final = np.array([3, 7], np.uint32)
_IMAGES: Final = _normal(2, 8, 8, 3)
_KERNEL: Final = _normal(3, 3, 3, 4)
_HEADS: Final = tuple(_normal(2, 6, 4, 8) for _ in range(3))


# The signs of singular vectors, of eigenvectors and of QR's factors differ between algorithms, so
# programs return products in which the signs cancel.


def _svd(a: xb.XlaOp) -> Any:
    u, d, v = lib.svd(a, full_matrices=False)
    return d, xb.mul(u, d, [1]) @ xb.transpose(v, [1, 0])


def _eigh(a: xb.XlaOp) -> Any:
    v, w = lib.eigh(a)
    return w, xb.mul(v, w, [1]) @ xb.transpose(v, [1, 0])


def _qr(a: xb.XlaOp) -> Any:
    q, r = lib.qr(a)
    return q @ r, xb.abs(r)


def _lu(a: xb.XlaOp) -> Any:
    return tuple(lib.lu(a))


def _approx_top_k(x: xb.XlaOp) -> Any:
    b = x.builder
    indices = b.iota(xb.s32[x.shape.dimensions], 1)
    init = [b.constant(-np.inf, xb.f32), b.constant(-1, xb.s32)]
    comparator = lib.create_scalar_gt_computation([xb.f32, xb.s32])
    return tuple(lib.approx_top_k([x, indices], init, 3, 1, comparator))


def _sort_pairs(keys: xb.XlaOp, values: xb.XlaOp) -> Any:
    return tuple(xb.sort([keys, values], lambda a, b, *_: a < b, 1, True))


def _random_numbers(key: xb.XlaOp) -> Any:
    first, second = lib.split_key(key)[0], lib.fold_in(key, 3)
    return lib.uniform(first, xb.f32[4, 3]), lib.normal(second, xb.f32[4, 3])


def _random_choices(key: xb.XlaOp, logits: xb.XlaOp) -> Any:
    return (
        lib.categorical(key, logits),
        lib.permutation(key, logits),
        lib.randint(key, xb.s32[5], 0, 100),
        lib.truncated_normal(key, -1.0, 1.0, xb.f32[5]),
        lib.bernoulli(key, 0.3, xb.pred[7]),
    )


def _philox(key: xb.XlaOp, state: xb.XlaOp) -> Any:
    return tuple(
        lib.normal_floating_point_distribution(key, state, lib.philox_bit_generator, xb.f32[9])
    )


def _three_fry(key: xb.XlaOp, state: xb.XlaOp) -> Any:
    return tuple(lib.three_fry_bit_generator(key, state, xb.u32[9]))


def _rng_bit_generator(state: xb.XlaOp) -> Any:
    return tuple(xb.rng_bit_generator("RNG_THREE_FRY", state, xb.u32[6]))


def _fft(x: xb.XlaOp) -> Any:
    spectrum = xb.fft(x, "RFFT", [16])
    return xb.real(spectrum), xb.imag(spectrum), xb.fft(spectrum * spectrum, "IRFFT", [16])


def _complex(x: xb.XlaOp) -> Any:
    return xb.exp(x), xb.sqrt(x), xb.tanh(x), xb.log(x), xb.abs(x)


def _inverse_hyperbolic(x: xb.XlaOp) -> Any:
    half = x / 2.0
    return xb.asinh(x), xb.acosh(x + 1.0), xb.atanh(half), xb.asin(half), xb.acos(half), xb.tan(x)


def _transposed_conv(x: xb.XlaOp, kernel: xb.XlaOp) -> Any:
    padding, numbers = [(2, 2), (2, 2)], "b01f_01io->b01f"
    return xb.conv_general_dilated(x, kernel, [1, 1], padding, [2, 2], None, numbers)


def _pools(x: xb.XlaOp) -> Any:
    return (
        lib.max_pool(x, [3, 3], [2, 2], "SAME", "NHWC"),
        lib.avg_pool(x, [2, 2], [2, 2], "SAME", "NHWC", False),
    )


def _batch_norm(x: xb.XlaOp, scale: xb.XlaOp, offset: xb.XlaOp) -> Any:
    y, mean, variance = xb.batch_norm_training(x, scale, offset, 1e-5, 3)
    return y, xb.batch_norm_inference(x, scale, offset, mean, variance, 1e-5, 3)


def _batch_norm_grad(x: xb.XlaOp, scale: xb.XlaOp, offset: xb.XlaOp) -> Any:
    _, mean, variance = xb.batch_norm_training(x, scale, offset, 1e-5, 3)
    return tuple(xb.batch_norm_grad(x, scale, mean, variance, xb.sin(x), 1e-5, 3))


def _along_axes(x: xb.XlaOp, indices: xb.XlaOp) -> Any:
    return (
        lib.take(x, indices, 1),
        lib.take_along_axis(x, xb.broadcast(indices, [4]), 1),
        lib.put_along_axis(x, xb.broadcast(indices, [4]), 0.5, 1),
    )


def _updates(x: xb.XlaOp, indices: xb.XlaOp) -> Any:
    at = indices[0]
    return x.at[at].add(1.0), x.at[1:3, 2:4].set(0.0), x.at[at, 0].max(2.0), x[at]


def _scatter_dense(x: xb.XlaOp, indices: xb.XlaOp, source: xb.XlaOp) -> Any:
    return lib.torch_scatter_dense(x, indices, source, 1, xb.add), lib.torch_gather(x, indices, 1)


def _matrices(a: xb.XlaOp) -> Any:
    return (
        lib.einsum(a, a, "ij,kj->ik"),
        lib.triangle(a, True),
        lib.get_matrix_diagonal(a),
        lib.tri(a.builder, 4),
        lib.one_hot(lib.arg_max(a, xb.s32, 1), 6),
    )


def _reductions(x: xb.XlaOp) -> Any:
    positive = x > 0.0
    return (
        *(f(x, 1) for f in (lib.mean, lib.var, lib.std, lib.prod, lib.max, lib.logsumexp)),
        lib.any(positive, 0),
        lib.all(positive, 0),
    )


def _cumulative(x: xb.XlaOp) -> Any:
    return (
        lib.cumsum(x, 1),
        lib.cumprod(x, 0),
        lib.cummax(x, 1, reverse=True),
        lib.cumlogsumexp(x, 1),
    )


def _scan(x: xb.XlaOp) -> Any:
    return tuple(xb.scan(x, lib.zeros_like(x[0]), lambda item, last: (item * last, item + last), 0))


def _while(x: xb.XlaOp) -> Any:
    return xb.while_(lambda s: s[0] < 5, lambda s: (s[0] + 1, xb.sin(s[1])), [0, x])[1]


def _conditional(index: xb.XlaOp, x: xb.XlaOp) -> Any:
    return xb.conditional(index, [xb.sin, xb.cos, xb.neg], [x, x, x])


def _for_each_index(x: xb.XlaOp) -> Any:
    return lib.for_each_index(4, xb.s32, lambda i, s: [s[0] + xb.convert(i, xb.f32)], [x])[0]


def _bits(x: xb.XlaOp) -> Any:
    n = xb.bitcast_convert_type(x, xb.s32)
    return xb.population_count(n), xb.clz(n), xb.shift_right_logical(n, 3), lib.next_after(x, -x)


def _composite(x: xb.XlaOp) -> Any:
    return xb.composite_call(lambda v: v * v + 1.0, x, "mine.square", {"n": 3})


def _bf16_layer(x: xb.XlaOp, w: xb.XlaOp) -> Any:
    x, w = (xb.convert_element_type(a, xb.bf16) for a in (x, w))
    return xb.convert_element_type(lib.gelu(lib.rms_norm(lib.linear(x, w))), xb.f32)


_LIBRARY: Final[dict[str, tuple[Any, ...]]] = {
    "activations": (lambda x: (lib.relu(x), lib.sigmoid(x), lib.silu(x), lib.gelu(x)), _X),
    "gelu exact": (lambda x: lib.gelu(x, approximate=False), _X),
    "erf": (xb.erf, _X),
    "erfc, erf_inv": (lambda x: (lib.erfc(x), lib.erf_inv(xb.tanh(x))), _X),
    "lgamma": (lib.lgamma, _between(0.1, 5, 8)),
    "digamma": (lib.digamma, _between(0.1, 5, 8)),
    "polygamma": (lib.polygamma, np.ones(8, np.float32), _between(0.5, 5, 8)),
    "zeta": (lib.zeta, _between(1.5, 5, 8), _between(0.5, 5, 8)),
    "igamma": (lambda a, x: (lib.igamma(a, x), lib.igammac(a, x)), *_between(0.5, 5, 2, 8)),
    "random_gamma_grad": (lib.random_gamma_grad, *_between(0.5, 5, 2, 8)),
    "bessel": (lambda x: (lib.bessel_i0e(x), lib.bessel_i1e(x)), _X),
    "regularized_incomplete_beta": (lib.regularized_incomplete_beta, *_between(0.2, 0.9, 3, 8)),
    "inverse hyperbolic functions": (_inverse_hyperbolic, _between(0, 1.9, 8)),
    "complex functions": (_complex, (_X + 1j * _normal(4, 6)).astype(np.complex64)),
    "softmax": (lambda x: (lib.softmax(x), lib.log_softmax(x)), _X),
    "cross_entropy": (
        lambda x, labels: lib.cross_entropy(x, labels),
        _X,
        np.eye(6, dtype=np.float32)[:4],
    ),
    "dot_product_attention": (
        lambda q, k, v: lib.dot_product_attention(q, k, v, is_causal=True),
        *_HEADS,
    ),
    "rms_norm": (lambda x, scale: lib.rms_norm(x, scale), _X, _normal(6)),
    "layer_norm": (lambda x, *weights: lib.layer_norm(x, *weights), _X, _normal(6), _normal(6)),
    "rotary_embedding": (
        lambda x, at: lib.rotary_embedding(x, at),
        _HEADS[0],
        np.arange(6, dtype=np.int32),
    ),
    "dropout": (lambda key, x: lib.dropout(key, x, 0.5), _KEY, _X),
    "top_k": (lambda x: tuple(xb.top_k(x, 3)), _X),
    "top_k smallest": (lambda x: tuple(xb.top_k(x, 3, largest=False)), _X),
    "approx_top_k": (_approx_top_k, _normal(2, 200)),
    "top_k_with_partitions": (lambda x: tuple(lib.top_k_with_partitions(x, 3, 2)), _normal(64)),
    "sort of pairs": (_sort_pairs, _X, _integers(9, 4, 6)),
    "argsort": (lambda x: lib.argsort(x, descending=True), _X),
    "arg_max, arg_min": (lambda x: (lib.arg_max(x, xb.s32, 1), lib.arg_min(x, xb.s32, 0)), _X),
    "cumulative functions": (_cumulative, _X),
    "reductions": (_reductions, _X),
    "cholesky": (lambda a: xb.cholesky(a), _DEFINITE),
    "cholesky_solve": (
        lambda a, b: lib.cholesky_solve(xb.cholesky(a), b),
        _DEFINITE,
        _normal(5, 2),
    ),
    "triangular_solve": (
        lambda a, b: xb.triangular_solve(a, b, True, True, False, "NO_TRANSPOSE"),
        _DEFINITE,
        _normal(5, 2),
    ),
    "qr": (_qr, _normal(6, 4)),
    "lstsq": (lib.lstsq, _normal(6, 4), _normal(6, 2)),
    "svd": (_svd, _normal(6, 4)),
    "pinv": (lib.pinv, _normal(6, 4)),
    "eigh": (_eigh, _DEFINITE),
    "lu": (_lu, _MATRIX),
    "solve": (lib.solve, _MATRIX, _normal(5, 2)),
    "inv, det": (lambda a: (lib.inv(a), lib.det(a)), _MATRIX),
    "slogdet": (lambda a: tuple(lib.slogdet(a)), _MATRIX),
    "norms": (lambda a: (lib.norm(a), lib.norm(a, 2), lib.norm(a, "nuc")), _X),
    "tridiagonal_solver": (
        lib.tridiagonal_solver,
        _normal(1, 1, 5),
        _between(4, 5, 1, 1, 5),
        _normal(1, 1, 5),
        _normal(1, 2, 5),
    ),
    "random numbers": (_random_numbers, _KEY),
    "random choices": (_random_choices, _KEY, _X),
    "philox": (_philox, np.uint64(42), np.array([1, 2], np.uint64)),
    "three_fry": (_three_fry, np.uint64(42), np.uint64(7)),
    "rng_bit_generator": (_rng_bit_generator, np.array([42, 7], np.uint64)),
    "fft": (_fft, _normal(2, 16)),
    "conv": (lambda x, kernel: lib.conv(x, kernel, 2), _IMAGES, _KERNEL),
    "conv of groups, dilated": (
        lambda x, kernel: lib.conv(x, kernel, dilation=2, groups=3),
        _IMAGES,
        _normal(3, 3, 1, 6),
    ),
    "conv transposed": (_transposed_conv, _IMAGES, _KERNEL),
    "pooling": (_pools, _IMAGES),
    "batch_norm": (_batch_norm, _IMAGES, _normal(3), _normal(3)),
    "batch_norm_grad": (_batch_norm_grad, _IMAGES, _normal(3), _normal(3)),
    "take, put": (_along_axes, _X, np.array([0, 5, 2], np.int32)),
    "updates at indices": (_updates, _X, np.array([0, 3, 1], np.int32)),
    "torch_gather, torch_scatter_dense": (_scatter_dense, _X, _integers(6, 4, 6), _normal(4, 6)),
    "matrices": (_matrices, _X),
    "scan": (_scan, _X),
    "while": (_while, _X),
    "conditional": (_conditional, np.int32(1), _X),
    "for_each_index": (_for_each_index, _X),
    "bits": (_bits, _X),
    "composite_call": (_composite, _X),
    "bf16 layer": (_bf16_layer, _X, _normal(6, 8)),
}


def _mlp(x: xb.XlaOp, w: xb.XlaOp, bias: xb.XlaOp, w_2: xb.XlaOp) -> xb.XlaOp:
    logits = lib.linear(lib.gelu(lib.linear(x, w, bias), approximate=False), w_2)
    labels = lib.one_hot(x.builder.iota(xb.s32[4], 0), 3)
    return lib.mean(lib.cross_entropy(logits, labels))


def _attention(q: xb.XlaOp, k: xb.XlaOp, v: xb.XlaOp) -> xb.XlaOp:
    return lib.mean(xb.square(lib.rms_norm(lib.dot_product_attention(q, k, v, is_causal=True))))


def _gaussian_likelihood(a: xb.XlaOp, y: xb.XlaOp) -> xb.XlaOp:
    factor = xb.cholesky(a)
    weights = lib.cholesky_solve(factor, y)
    return lib.sum(y * weights) + 2.0 * lib.sum(xb.log(lib.get_matrix_diagonal(factor)))


def _logistic_regression(x: xb.XlaOp, w: xb.XlaOp) -> xb.XlaOp:
    return lib.mean(xb.log1p(xb.exp(-lib.linear(x, w)))) + lib.mean(xb.logistic(lib.linear(x, w)))


def _batch_normalized(x: xb.XlaOp, scale: xb.XlaOp, offset: xb.XlaOp) -> xb.XlaOp:
    return lib.mean(xb.sin(xb.batch_norm_training(x, scale, offset, 1e-5, 3)[0]))


def _ode(x: xb.XlaOp) -> xb.XlaOp:
    return lib.sum(xb.scan(x, x[0], lambda item, y: (y, y + 0.1 * xb.sin(y * item)), 0)[0])


_GRADIENTS: Final[dict[str, tuple[Any, ...]]] = {
    "mlp with exact gelu": (_mlp, _X, _normal(6, 8), _normal(8), _normal(8, 3)),
    "attention": (_attention, *_HEADS),
    "likelihood by cholesky": (_gaussian_likelihood, _DEFINITE, _normal(5, 1)),
    "logistic regression": (_logistic_regression, _X, _normal(6, 1)),
    "clamp": (lambda x: lib.sum(xb.square(xb.clamp(-0.5, x, 0.5))), _X),
    "batch_norm": (_batch_normalized, _IMAGES, _normal(3), _normal(3)),
    "scan": (_ode, _X),
    "conv and pooling": (
        lambda x, w: lib.sum(lib.max_pool(lib.conv(x, w), [2, 2], [2, 2], "VALID", "NHWC")),
        _IMAGES,
        _KERNEL,
    ),
    "top_k": (lambda x: lib.sum(xb.square(xb.top_k(x, 2)[0])), _X),
    "sort": (lambda x: lib.sum(xb.sort(x) * x), _X),
    "cumsum": (lambda x: lib.sum(xb.sin(lib.cumsum(x, 1))), _X),
    "fft": (lambda x: lib.sum(xb.square(xb.abs(xb.fft(x, "RFFT", [16])))), _normal(2, 16)),
    "updates at indices": (lambda x: lib.sum(xb.sin(x.at[1].add(2.0)[:, 1:])), _X),
    "lgamma, erf": (lambda x: lib.sum(lib.lgamma(x) + xb.erf(x)), _between(0.5, 4, 8)),
    "logdet": (lambda a: lib.slogdet(a)[1], _MATRIX),
    "svdvals": (lambda a: lib.sum(lib.svdvals(a)), _normal(4, 4)),
    "eigvalsh": (lambda a: lib.sum(xb.log(lib.eigvalsh(a))), _DEFINITE),
    "qr": (lambda a: lib.sum(xb.abs(lib.qr(a)[1])), _normal(6, 4)),
    "solve": (lambda a, b: lib.sum(xb.square(lib.solve(a, b))), _MATRIX, _normal(5, 2)),
}


def _with_gradients(loss: Callable[..., xb.XlaOp]) -> Callable[..., Any]:
    def function(*ops: xb.XlaOp) -> Any:
        value = loss(*ops)
        return value, *lowering.gradients(value, ops)

    return function


def _jax_loss(weights: Any, x: Any) -> Any:
    hidden = jax.nn.gelu(x @ weights["first"], approximate=False)
    return -jnp.mean(jax.nn.log_softmax(hidden @ weights["second"])[:, 0])


def _jax_svd(a: Any) -> Any:
    u, d, v = jnp.linalg.svd(a, full_matrices=False)
    return d, (u * d) @ v


def _jax_rnn(w: Any, x: Any) -> Any:
    return lax.scan(lambda state, item: (jnp.tanh(state @ w + item), state.sum()), x[0], x)


_IMPORTS: Final[dict[str, tuple[Any, ...]]] = {
    "value and gradients of an mlp": (
        jax.value_and_grad(_jax_loss),
        {"first": _normal(6, 8), "second": _normal(8, 3)},
        _X,
    ),
    "dot_product_attention": (jax.nn.dot_product_attention, *_HEADS),
    "linalg.svd": (_jax_svd, _normal(6, 4)),
    "linalg.solve": (jnp.linalg.solve, _MATRIX, _normal(5, 2)),
    "linalg.cholesky": (jnp.linalg.cholesky, _DEFINITE),
    "special functions": (
        lambda x: (
            jax.scipy.special.gammaln(x),
            jax.scipy.special.erf(x),
            jax.scipy.special.i0e(x),
        ),
        _between(0.5, 4, 8),
    ),
    "median, quantile": (lambda x: (jnp.median(x), jnp.quantile(x, 0.3, axis=1)), _X),
    "random.normal": (lambda key: jax.random.normal(key, (4,)), _KEY),
    "top_k": (lambda x: tuple(lax.top_k(x, 2)), _X),
    "argsort, unique indices": (lambda x: x.at[jnp.argsort(x)].set(0.5, mode="drop"), _normal(8)),
    "scan": (_jax_rnn, _normal(6, 6), _X),
    "gradients of a scan": (jax.grad(lambda *a: _jax_rnn(*a)[1].sum()), _normal(6, 6), _X),
    "associative_scan": (lambda x: lax.associative_scan(jnp.multiply, x, axis=1), _X),
    "fft": (lambda x: jnp.abs(jnp.fft.rfft2(x)), _normal(8, 8)),
    "while": (lambda x: lax.while_loop(lambda s: s.sum() < 50, lambda s: s * 2 + 1, x), _X),
}


def _examples() -> dict[str, tuple[Any, ...]]:
    """Return functions and their arguments."""
    images, labels, test_images, _ = digits.load_digits()
    parameters, velocities = digits.first_state(seed=0)
    prompt = np.full(gpt.LENGTH, -1, np.int32)
    prompt[:4] = list(b"Once")
    real, imaginary = np.linspace(-2.2, 0.8, 20), np.linspace(-1.2, 1.2, 12)
    points = (real + 1j * imaginary[:, None]).astype(np.complex64)
    kernels = convnet.random_kernels(seed=0)
    return {
        "digits, an epoch": (
            digits.train_epoch.computation(*digits.EPOCH),
            images,
            labels,
            (parameters, velocities),
        ),
        "digits, classes": (digits.classify, test_images, parameters),
        "convnet": (convnet.features, test_images[:5].reshape(-1, 8, 8, 1), *kernels),
        "gpt": (gpt.decode, prompt, *gpt.random_weights(seed=0)),
        "lstm": (lstm.lstm, _normal(7, 2, 3), *lstm.random_weights(3, seed=0)),
        "k_means": (k_means.k_means, *(_normal(n, 2) for n in (40, 3))),
        "kalman": (kalman.track, _normal(6, 2), *kalman.model(0.5)[:5]),
        "fft_convolution": (fft_convolution.convolve, _normal(2, 30), _normal(2, 7)),
        "conjugate_gradient": (conjugate_gradient.solve, _normal(8, 8), np.float32(1e-3)),
        "mandelbrot": (mandelbrot.steps, points, np.int32(60)),
        "top_k_sampling": (
            lambda *a: top_k_sampling.sample(*a, 1.0, 3),
            _normal(5, 7),
            _between(0.1, 0.9, 5, 3),
        ),
    }


def programs() -> Iterator[Program]:
    """Yield all programs."""
    gradients = {name: (_with_gradients(f), *rest) for name, (f, *rest) in _GRADIENTS.items()}
    recorded = {"library": _LIBRARY, "gradients": gradients, "examples": _examples()}
    for kind, functions in recorded.items():
        for name, (function, *arguments) in functions.items():
            yield _program(f"{kind}/{name}", function, arguments)
    for model in training_steps.SMALL:
        weights, data = training_steps.values_of(model)
        values = [*weights.values(), *map(np.zeros_like, weights.values()), *data.values()]
        name = f"gradients/training step: {model.title}"
        yield Program(name, partial(training_steps.step_of_ours, model), tuple(values))
    for name, (function, *arguments) in _IMPORTS.items():
        make = partial(lowering.from_jax, function, *arguments)
        yield Program(f"imports/{name}", make, tuple(arguments))


def _program(name: str, function: Any, arguments: list[Any]) -> Program:
    if isinstance(function, xb.XlaComputation):
        return Program(name, lambda: function, tuple(arguments))
    jitted = function if hasattr(function, "computation") else lowering.jit(function)
    leaves = tuple(jax.tree_util.tree_leaves(arguments))
    return Program(name, lambda: jitted.computation(*arguments), leaves)
