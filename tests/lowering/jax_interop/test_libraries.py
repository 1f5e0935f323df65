"""Functions of jax, optax, equinox and flax, recorded by `lowering.apply` and `from_jax`."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
import optax
import pytest

import builder as xb
import lowering

pytestmark = pytest.mark.slow

Case = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function and its arguments, in any trees."""

rng = np.random.default_rng(0)
X = rng.uniform(0.1, 0.9, (4, 8)).astype(np.float32)
Y = rng.uniform(0.1, 0.9, (4, 8)).astype(np.float32)
SQUARE = X[:, :4] @ X[:, :4].T + np.eye(4, dtype=np.float32)
IMAGE = rng.standard_normal((3, 6, 8)).astype(np.float32)
LABELS = np.array([2, 0, 7, 1], np.int32)

ONE_OF_JAX: dict[Any, str] = {
    jnp: """sin arctanh cbrt expm1 sinc sort argsort cumsum cumprod median var std ptp diff nanmean
        ravel transpose rot90 flip trapezoid gradient corrcoef cov nan_to_num signbit isfinite exp2
        triu argmax""",
    jax.nn: """softmax log_softmax gelu silu elu selu celu softplus glu hard_swish standardize mish
        logsumexp relu6 squareplus""",
    jsp.special: """erf erfc erfinv gammaln digamma i0e i1e ndtr ndtri entr expit logit log_ndtr
        spence""",
    jsp.stats.norm: "pdf logpdf cdf logcdf ppf sf",
    jnp.fft: "rfft fft ifft fftshift",
}
TWO_OF_JAX: dict[str, Callable[..., Any]] = {
    "hypot": jnp.hypot,
    "kron": lambda x, y: jnp.kron(x[:2, :2], y[:2, :2]),
    "einsum": lambda x, y: jnp.einsum("ij,kj->ik", x, y),
    "tensordot": lambda x, y: jnp.tensordot(x, y, axes=2),
    "convolve": lambda x, y: jnp.convolve(x[0], y[0]),
    "interp": lambda x, y: jnp.interp(x, jnp.linspace(0, 1, 5), y[0, :5]),
    "searchsorted": lambda x, y: jnp.searchsorted(jnp.sort(x[0]), y[0]),
    "betainc": lambda x, y: jsp.special.betainc(x, y, 0.5),
    "betaln": jsp.special.betaln,
    "gammainc": jsp.special.gammainc,
    "xlogy": jsp.special.xlogy,
    "zeta": lambda x, y: jsp.special.zeta(x + 1, y),
    "map_coordinates": lambda x, y: jsp.ndimage.map_coordinates(x, [y[:2] * 3, y[2:] * 7], order=1),
    "correlate": lambda x, y: jsp.signal.correlate(x, y[:2, :2], mode="same"),
    "scan": lambda x, y: jax.lax.scan(lambda c, row: (c * row, c), y[0], x),
    "cond": lambda x, y: jax.lax.cond(x[0, 0] > y[0, 0], jnp.sin, jnp.cos, x),
    "fori_loop": lambda x, y: jax.lax.fori_loop(0, 5, lambda i, v: v * y + i, x),
    "vmap": lambda x, y: jax.vmap(jnp.outer)(x, y),
    "grad": jax.grad(lambda x, y: jnp.sum(jnp.tanh(x) * y)),
    "hessian": lambda x, y: jax.hessian(lambda v: jnp.prod(v * y[0, :3]))(x[0, :3]),
    "at": lambda x, y: x.at[jnp.array([0, 2]), 1:3].add(y[:2, :2]),
    "random": lambda x, y: jax.random.normal(jax.random.key(3), x.shape) + y,
    "segment_sum": lambda x, y: jax.ops.segment_sum(x, jnp.array([0, 1, 1, 0]), 2),
    "dot_product_attention": lambda x, y: jax.nn.dot_product_attention(
        *[v.reshape(1, 4, 2, 4) for v in (x, y, x)], is_causal=True
    ),
    "top_k": lambda x, y: jax.lax.top_k(x + y, 3),
}
SOLVERS_OF_JAX: dict[str, Callable[..., Any]] = {
    "cholesky": jnp.linalg.cholesky,
    "inv": jnp.linalg.inv,
    "det": jnp.linalg.det,
    "slogdet": jnp.linalg.slogdet,
    "eigh": lambda a: jnp.linalg.eigh(a)[0],
    "svd": lambda a: jnp.linalg.svd(a, compute_uv=False),
    "cho_solve": lambda a: jsp.linalg.cho_solve(jsp.linalg.cho_factor(a), a[:, 0]),
    "expm": jsp.linalg.expm,
    "lu_factor": jsp.linalg.lu_factor,
    "matrix_power": lambda a: jnp.linalg.matrix_power(a, 3),
    "qr": jnp.linalg.qr,
    "norm": jnp.linalg.norm,
}


def cases_of_jax() -> dict[str, Case]:
    ones = [
        (f"{module.__name__}.{name}", getattr(module, name), (X,))
        for module, names in ONE_OF_JAX.items()
        for name in names.split()
    ]
    twos = [(name, function, (X, Y)) for name, function in TWO_OF_JAX.items()]
    solvers = [(name, function, (SQUARE,)) for name, function in SOLVERS_OF_JAX.items()]
    return {name: (f, arguments) for name, f, arguments in (*ones, *twos, *solvers)}


OPTIMIZERS = """adabelief adadelta adafactor adagrad adam adamax adamw adan amsgrad fromage lamb
    lars lion nadam novograd optimistic_gradient_descent radam rmsprop rprop sgd sign_sgd sm3
    yogi"""
PAIR_LOSSES = """cosine_distance hinge_loss huber_loss l2_loss log_cosh sigmoid_binary_cross_entropy
    sigmoid_focal_loss softmax_cross_entropy squared_error kl_divergence poly_loss_cross_entropy"""
CLASS_LOSSES = """softmax_cross_entropy_with_integer_labels multiclass_hinge_loss
    multiclass_perceptron_loss multiclass_sparsemax_loss"""


def cases_of_optax() -> dict[str, Case]:
    parameters, gradients = {"w": X, "b": Y[0]}, {"w": Y, "b": X[0]}

    def step(optimizer: Any) -> Case:
        """Return a step from any state: that of `init` has zeros, which hide errors."""

        def function(state: Any, parameters: Any, gradients: Any) -> Any:
            updates, state = optimizer.update(gradients, state, parameters)
            return optax.apply_updates(parameters, updates), state

        state = weights_of(jax.eval_shape(optimizer.init, parameters))
        return function, (state, parameters, gradients)

    found = {name: step(getattr(optax, name)(0.1)) for name in OPTIMIZERS.split()}
    clipped = optax.chain(optax.clip_by_global_norm(1.0), optax.trace(0.9), optax.scale(-0.1))
    found["chain"] = step(clipped)
    found |= {name: (getattr(optax.losses, name), (X, Y)) for name in PAIR_LOSSES.split()}
    found |= {name: (getattr(optax.losses, name), (X, LABELS)) for name in CLASS_LOSSES.split()}
    schedules = {
        "cosine": optax.cosine_decay_schedule(0.1, 100),
        "exponential": optax.exponential_decay(0.1, 10, 0.9),
        "warmup": optax.warmup_cosine_decay_schedule(0.0, 0.1, 5, 50),
        "piecewise": optax.piecewise_constant_schedule(0.1, {5: 0.5}),
    }
    return found | {name: (schedule, (np.int32(7),)) for name, schedule in schedules.items()}


def cases_of_equinox() -> dict[str, Case]:
    nn, key = eqx.nn, jax.random.key(0)
    row, sequence = X[0], X
    layers: dict[str, tuple[Callable[[], Any], tuple[Any, ...]]] = {
        "Linear": (lambda: nn.Linear(8, 5, key=key), (row,)),
        "MLP": (lambda: nn.MLP(8, 2, 16, 2, key=key), (row,)),
        "LayerNorm": (lambda: nn.LayerNorm(8), (row,)),
        "RMSNorm": (lambda: nn.RMSNorm(8), (row,)),
        "GroupNorm": (lambda: nn.GroupNorm(1, 3), (IMAGE,)),
        "Conv2d": (lambda: nn.Conv2d(3, 4, 3, padding=1, key=key), (IMAGE,)),
        "Conv1d": (lambda: nn.Conv1d(4, 2, 3, dilation=2, key=key), (sequence,)),
        "ConvTranspose2d": (lambda: nn.ConvTranspose2d(3, 2, 3, stride=2, key=key), (IMAGE,)),
        "MaxPool2d": (lambda: nn.MaxPool2d(2, 2), (IMAGE,)),
        "AvgPool2d": (lambda: nn.AvgPool2d(3, 2, padding=1), (IMAGE,)),
        "AdaptiveAvgPool2d": (lambda: nn.AdaptiveAvgPool2d((2, 3)), (IMAGE,)),
        "AdaptiveMaxPool1d": (lambda: nn.AdaptiveMaxPool1d(3), (sequence,)),
        "Embedding": (lambda: nn.Embedding(10, 4, key=key), (LABELS[0],)),
        "GRUCell": (lambda: nn.GRUCell(8, 4, key=key), (row, Y[0, :4])),
        "LSTMCell": (lambda: nn.LSTMCell(8, 4, key=key), (row, (Y[0, :4], Y[1, :4]))),
        "MultiheadAttention": (lambda: nn.MultiheadAttention(2, 8, key=key), (sequence, Y, Y)),
        "RotaryPositionalEmbedding": (lambda: nn.RotaryPositionalEmbedding(8), (sequence,)),
        "PReLU": (lambda: nn.PReLU(), (row,)),
        "Dropout": (lambda: nn.Dropout(0.5, inference=True), (row,)),
        "WeightNorm": (lambda: nn.WeightNorm(nn.Linear(8, 3, key=key)), (row,)),
        "Sequential": (
            lambda: nn.Sequential(
                [nn.Linear(8, 4, key=key), nn.Lambda(jax.nn.relu), nn.LayerNorm(4)]
            ),
            (row,),
        ),
    }
    return {name: called_by_weights(*case) for name, case in layers.items()}


def called_by_weights(layer: Callable[[], Any], arguments: tuple[Any, ...]) -> Case:
    """Return the call of a layer of equinox as a function of its weights, too."""
    shapes, rest = eqx.partition(eqx.filter_eval_shape(layer), is_abstract)

    def function(weights: Any, *inputs: Any) -> Any:
        return eqx.combine(weights, rest)(*inputs)

    return function, (weights_of(shapes), *arguments)


def is_abstract(leaf: Any) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct)


def weights_of(shapes: Any) -> Any:
    """Return a tree of arrays; the initializers of the libraries would be compiled one by one."""
    return jax.tree.map(lambda s: rng.uniform(0.1, 0.9, s.shape).astype(s.dtype), shapes)


def cases_of_flax() -> dict[str, Case]:
    from flax import linen, nnx

    image = np.moveaxis(IMAGE, 0, -1)[None]
    batch = np.stack([X, Y])  # of sequences
    modules: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "Dense": (linen.Dense(5), (X,)),
        "DenseGeneral": (linen.DenseGeneral((2, 3)), (X,)),
        "Conv": (linen.Conv(4, (3, 3), strides=2), (image,)),
        "ConvTranspose": (linen.ConvTranspose(2, (3, 3)), (image,)),
        "Embed": (linen.Embed(10, 4), (LABELS,)),
        "LayerNorm": (linen.LayerNorm(), (X,)),
        "GroupNorm": (linen.GroupNorm(2), (X,)),
        "RMSNorm": (linen.RMSNorm(), (X,)),
        "BatchNorm": (linen.BatchNorm(use_running_average=True), (X,)),
        "InstanceNorm": (linen.InstanceNorm(), (image,)),
        "PReLU": (linen.PReLU(), (X,)),
        "SelfAttention": (linen.MultiHeadDotProductAttention(2), (batch, batch)),
        "LSTM": (linen.RNN(linen.LSTMCell(4)), (batch,)),
        "GRU": (linen.RNN(linen.GRUCell(4)), (batch,)),
        "Sequential": (linen.Sequential([linen.Dense(4), linen.gelu, linen.Dense(2)]), (X,)),
    }
    found: dict[str, Case] = {}
    for name, (module, arguments) in modules.items():
        shapes = jax.eval_shape(module.init, jax.random.key(0), *arguments)
        found[name] = module.apply, (weights_of(shapes), *arguments)
    found["max_pool"] = lambda x: linen.max_pool(x, (2, 2), (2, 2)), (image,)
    found["avg_pool"] = lambda x: linen.avg_pool(x, (2, 2), padding="SAME"), (image,)
    for name, create, value in (
        ("nnx.Linear", lambda rngs: nnx.Linear(8, 3, rngs=rngs), X),
        ("nnx.Conv", lambda rngs: nnx.Conv(3, 4, (3, 3), rngs=rngs), image),
        ("nnx.LayerNorm", lambda rngs: nnx.LayerNorm(8, rngs=rngs), X),
        ("nnx.Embed", lambda rngs: nnx.Embed(10, 4, rngs=rngs), LABELS),
    ):
        definition, shapes = nnx.split(nnx.eval_shape(lambda create=create: create(nnx.Rngs(0))))
        found[name] = merged(definition), (weights_of(shapes), value)
    return found


def merged(definition: Any) -> Callable[..., Any]:
    """Return the call of a module of flax.nnx as a function of its state, too."""
    from flax import nnx

    return lambda state, x: nnx.merge(definition, state)(x)


LIBRARIES: dict[str, tuple[Callable[[], dict[str, Case]], int]] = {
    "jax": (cases_of_jax, 90),
    "optax": (cases_of_optax, 40),
    "equinox": (cases_of_equinox, 20),
    "flax": (cases_of_flax, 20),
}
"""The functions of each library, and how many there are at least."""


@pytest.mark.parametrize("library", LIBRARIES)
def test_functions(library: str) -> None:
    """All in one computation, and under one jax.jit."""
    if find_spec(library) is None:  # tensorstore, which flax requires, is large
        pytest.skip(f"{library} is not installed: pip install {library}")
    record, least = LIBRARIES[library]
    cases = record()
    assert len(cases) >= least
    places = {id(leaf): leaf for _, arguments in cases.values() for leaf in leaves(arguments)}
    b = xb.XlaBuilder(library)
    ops = {place: b.parameter(xb.array_shape(a.dtype, a.shape)) for place, a in places.items()}
    recorded = {}
    for name, (function, arguments) in cases.items():
        operands = jax.tree.map(lambda leaf: ops[id(leaf)], arguments)
        recorded[name] = lowering.apply(function, *operands)
    results, tree = jax.tree.flatten(recorded)
    assert all(isinstance(result, xb.XlaOp) for result in results)
    run = lowering.compile(b.build(xb.tuple(*results)))
    found = tree.unflatten(run(*places.values()))

    def all_of(arguments: Any) -> Any:
        return {name: cases[name][0](*arguments[name]) for name in cases}

    expected = jax.jit(all_of)({n: c[1] for n, c in cases.items()})
    for name, result in found.items():
        # Fusion differs, and with it the rounding.
        for ours, theirs in zip(leaves(result), leaves(expected[name]), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5, err_msg=name)


def leaves(tree: Any) -> list[Any]:
    return jax.tree.leaves(tree)


def test_a_training_step() -> None:
    """A model of equinox and an optimizer of optax in one computation."""
    model = eqx.filter_eval_shape(eqx.nn.MLP, 8, 1, 16, 2, key=jax.random.key(1))
    shapes, rest = eqx.partition(model, is_abstract)
    weights = weights_of(shapes)
    optimizer = optax.adamw(optax.cosine_decay_schedule(1e-2, 10))

    def step(weights: Any, state: Any, x: Any, y: Any) -> Any:
        def loss(weights: Any) -> Any:
            return jnp.mean(optax.l2_loss(jax.vmap(eqx.combine(weights, rest))(x)[:, 0], y))

        value, gradients = jax.value_and_grad(loss)(weights)
        updates, state = optimizer.update(gradients, state, weights)
        return value, optax.apply_updates(weights, updates), state

    state = optimizer.init(weights)
    run = lowering.compile(lowering.from_jax(step, weights, state, X, Y[:, 0]))
    ours = theirs = weights, state
    for _ in range(3):
        value, *ours = run(*ours, X, Y[:, 0])
        expected, *theirs = jax.jit(step)(*theirs, X, Y[:, 0])
        np.testing.assert_allclose(value, expected, rtol=1e-6)
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for one, other in zip(leaves(ours), leaves(theirs), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)
