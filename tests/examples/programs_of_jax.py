"""The programs of examples/ in plain jax.numpy, and arguments for both.

`PROGRAMS` has the functions of each program. jax's programs are written as users of jax write
them, without the functions of the library.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal


def gpt_block(x: Any, weights: Any, keys: Any, values: Any, position: Any) -> Any:
    norm, query, key, value, out, norm_2, up, down = weights

    def normalized(x: Any, scale: Any) -> Any:
        return x / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale

    def rotated(x: Any) -> Any:
        half = x.shape[-1] // 2
        angles = position * 10000.0 ** (-jnp.arange(half) / half)
        first, second = x[..., :half], x[..., half:]
        cos, sin = jnp.cos(angles), jnp.sin(angles)
        return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], -1)

    normal = normalized(x, norm)
    q = rotated(jnp.einsum("tw,wnh->tnh", normal, query))
    keys = keys.at[position].set(rotated(jnp.einsum("tw,wkh->tkh", normal, key))[0])
    values = values.at[position].set(jnp.einsum("tw,wkh->tkh", normal, value)[0])
    mask = (jnp.arange(keys.shape[0]) <= position)[None, None, None]
    heads = jax.nn.dot_product_attention(q, keys, values, mask=mask)
    x = x + heads.reshape(1, -1) @ out
    return x + jax.nn.gelu(normalized(x, norm_2) @ up) @ down, keys, values


def gpt(prompt: Any, embedding: Any, norm: Any, blocks: Any) -> Any:
    cache = jnp.zeros((blocks[0].shape[0], len(prompt), *blocks[2].shape[2:]))

    def position(carry: Any, given: Any) -> Any:
        last, at, keys, values = carry
        token = jnp.where(given < 0, last, given)

        def step(x: Any, arrays: Any) -> Any:
            weights, keys, values = arrays
            x, keys, values = gpt_block(x, weights, keys, values, at)
            return x, (keys, values)

        x, (keys, values) = jax.lax.scan(step, embedding[token][None], (blocks, keys, values))
        x = x / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * norm
        best = jnp.argmax(x @ embedding.T).astype(jnp.int32)
        return (best, at + 1, keys, values), token

    return jax.lax.scan(position, (jnp.int32(0), 0, cache, cache), prompt)[1]


def conv(x: Any, kernel: Any, stride: int, padding: str) -> Any:
    numbers = ("NHWC", "HWIO", "NHWC")
    strides = (stride, stride)
    return jax.lax.conv_general_dilated(x, kernel, strides, padding, dimension_numbers=numbers)


def convnet_logits(images: Any, parameters: Any, averages: Any = None) -> Any:
    layers, (weights, bias) = parameters
    x, statistics = images, []
    for number, (kernel, scale, offset) in enumerate(layers):
        x = conv(x, kernel, 1, "SAME")
        axes = (0, 1, 2)
        mean, variance = averages[number] if averages else (x.mean(axes), x.var(axes))
        statistics.append([mean, variance])
        x = (x - mean) / jnp.sqrt(variance + 1e-5) * scale + offset
        window = (1, 2, 2, 1)
        x = jnp.maximum(x, 0)
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, window, "VALID")
    return x.reshape(len(x), -1) @ weights + bias, statistics


def cross_entropy(logits: Any, labels: Any) -> Any:
    return -jnp.sum(labels * jax.nn.log_softmax(logits), -1)


def adam(gradients: Any, optimizer: Any, parameters: Any, rate: float = 0.003) -> Any:
    count, first, second = optimizer
    count = count + 1
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g**2, second, gradients)
    scale = rate * jnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)

    def updated(p: Any, m: Any, v: Any) -> Any:
        return p - scale * m / (jnp.sqrt(v) + 1e-8)

    return (count, first, second), jax.tree.map(updated, parameters, first, second)


def convnet(images: Any, labels: Any, state: Any) -> Any:
    def loss(parameters: Any) -> Any:
        scores, statistics = convnet_logits(images, parameters)
        return jnp.mean(cross_entropy(scores, labels)), statistics

    parameters, averages, optimizer = state
    (value, statistics), gradients = jax.value_and_grad(loss, has_aux=True)(parameters)
    optimizer, parameters = adam(gradients, optimizer, parameters)
    averages = jax.tree.map(lambda a, s: 0.9 * a + 0.1 * s, averages, statistics)
    return value, (parameters, averages, optimizer)


def lstm(inputs: Any, weights: Any, recurrent: Any, bias: Any) -> Any:
    def step(carry: Any, x: Any) -> Any:
        state, cell = carry
        gates = x @ weights + bias + state @ recurrent
        input, forget, new, output = jnp.split(gates, 4, axis=-1)
        cell = jax.nn.sigmoid(forget) * cell + jax.nn.sigmoid(input) * jnp.tanh(new)
        state = jax.nn.sigmoid(output) * jnp.tanh(cell)
        return (state, cell), state

    zeros = jnp.zeros((inputs.shape[1], recurrent.shape[0]))
    return jax.lax.scan(step, (zeros, zeros), inputs)[1]


def gru_states(inputs: Any, weights: Any, bias: Any, recurrent: Any) -> Any:
    def step(state: Any, x: Any) -> Any:
        reset_in, update_in, new_in = jnp.split(x @ weights + bias, 3, -1)
        reset, update, new = jnp.split(state @ recurrent, 3, -1)
        reset, update = jax.nn.sigmoid(reset_in + reset), jax.nn.sigmoid(update_in + update)
        state = update * state + (1 - update) * jnp.tanh(new_in + reset * new)
        return state, state

    zeros = jnp.zeros((inputs.shape[1], len(recurrent)))
    return jax.lax.scan(step, zeros, inputs)[1]


def gru(images: Any, labels: Any, parameters: Any, optimizer: Any) -> Any:
    def loss(parameters: Any) -> Any:
        layer, (weights, bias) = parameters
        logits = gru_states(images.swapaxes(0, 1), *layer)[-1] @ weights + bias
        return jnp.mean(cross_entropy(logits, labels))

    value, gradients = jax.value_and_grad(loss)(parameters)
    return value, *adam(gradients, optimizer, parameters)


def kalman(measured: Any, a: Any, h: Any, q: Any, r: Any, p: Any) -> Any:
    def step(carry: Any, z: Any) -> Any:
        x, p = carry
        x, p = a @ x, a @ p @ a.T + q
        gain = jnp.linalg.solve(h @ p @ h.T + r, h @ p).T
        x, p = x + gain @ (z - h @ x), p - gain @ (h @ p)
        return (x, p), x

    return jax.lax.scan(step, (jnp.zeros(len(a)), p), measured)[1]


def fft_convolution(signals: Any, kernels: Any) -> Any:
    m, n = signals.shape[1], kernels.shape[1]
    length = 1 << (m + n - 2).bit_length()
    product = jnp.fft.rfft(signals, length) * jnp.fft.rfft(kernels, length)
    return jnp.fft.irfft(product, length)[:, : m + n - 1]


def embedding(tables: Any, nodes: Any, others: Any, labels: Any) -> Any:
    def step(tables: Any, batch: Any) -> Any:
        (table, context), (i, j, label) = tables, batch
        x, y = table[i], context[j]
        score = jnp.sum(x * y, 1)
        loss = jnp.mean(jax.nn.softplus(score) - label * score)
        slope = (jax.nn.sigmoid(score) - label)[:, None] * 0.05
        return [table.at[i].add(-slope * y), context.at[j].add(-slope * x)], loss

    return jax.lax.scan(step, list(tables), (nodes, others, labels))


def top_k_sampling(logits: Any, uniform: Any, temperature: Any, p: Any, k: int) -> Any:
    values, tokens = jax.lax.top_k(logits / temperature, k)
    before = jnp.cumsum(jax.nn.softmax(values), -1) - jax.nn.softmax(values)
    gumbel = jnp.where(before < p, -jnp.log(-jnp.log(uniform)), -jnp.inf)
    choice = jnp.argmax(values + gumbel, -1)
    return jnp.take_along_axis(tokens, choice[:, None], -1)[:, 0]


def digits_loss(parameters: Any, x: Any, y: Any) -> Any:
    w1, b1, w2, b2 = parameters
    return jnp.sum(cross_entropy(jax.nn.relu(x @ w1 + b1) @ w2 + b2, y)) / 32


def data_parallel(images: Any, labels: Any, state: Any) -> Any:
    def step(state: Any, batch: Any) -> Any:
        parameters, velocities = state
        value_and_grad = jax.value_and_grad(digits_loss)
        loss, gradients = jax.lax.psum(value_and_grad(parameters, *batch), "data")
        velocities = jax.tree.map(lambda v, g: v * 0.9 + g, velocities, gradients)
        parameters = jax.tree.map(lambda p, v: p - v * 0.1, parameters, velocities)
        return (parameters, velocities), loss

    def epoch(images: Any, labels: Any, state: Any) -> Any:
        state, losses = jax.lax.scan(step, state, (images[0], labels[0]))
        return losses.mean(), state

    mesh, rows = jax.sharding.Mesh(jax.devices()[:4], "data"), jax.P("data")
    return jax.shard_map(
        epoch, mesh=mesh, in_specs=(rows, rows, jax.P()), out_specs=jax.P(), check_vma=False
    )(images, labels, state)


def transformer_block(x: Any, weights: Any) -> Any:
    norm, query, key, value, out, norm_2, up, down = weights
    normal = jax.nn.standardize(x, epsilon=1e-5) * norm
    q, k, v = (jnp.einsum("bpw,wnh->bpnh", normal, w) for w in (query, key, value))
    x = x + jax.nn.dot_product_attention(q, k, v).reshape(x.shape) @ out
    return x + jax.nn.gelu(jax.nn.standardize(x, epsilon=1e-5) * norm_2 @ up) @ down


def vision_transformer(images: Any, parameters: Any) -> Any:
    kernel, positions, blocks, weights = parameters
    x = conv(images, kernel, len(kernel), "VALID")
    x = x.reshape(len(x), -1, x.shape[-1]) + positions
    for each in blocks:
        x = transformer_block(x, each)
    return jax.nn.softmax(jax.nn.standardize(x, epsilon=1e-5).mean(1) @ weights)


def denoise(x: Any, sigma: Any, images: Any) -> Any:
    products = x @ images.T - jnp.sum(images**2, 1) / 2
    return jax.nn.softmax(products / sigma**2) @ images


def diffusion(seed: Any, sigmas: Any, images: Any, batch: int) -> Any:
    key = jax.random.key(seed)

    def noise(number: Any) -> Any:
        return jax.random.normal(jax.random.fold_in(key, number), (batch, images.shape[1]))

    def step(carry: Any, levels: Any) -> Any:
        (number, x), (sigma, following) = carry, levels
        mean = denoise(x, sigma, images)
        scale = following * jnp.sqrt(0.5)
        return (number + 1, mean + scale / sigma * (x - mean) + scale * noise(number)), None

    start = (jnp.uint32(1), sigmas[0] * noise(0))
    return jax.lax.scan(step, start, (sigmas[:-1], sigmas[1:]))[0][1]


def edit_export(program: Any, *values: Any) -> Any:
    """Evaluate a jaxpr with narrow products: jax can edit a function, but no exported program."""
    jaxpr = program.jaxpr
    found = dict(zip(jaxpr.constvars + jaxpr.invars, (*program.consts, *values), strict=True))

    def read(variable: Any) -> Any:
        return variable.val if isinstance(variable, Literal) else found[variable]

    for equation in jaxpr.eqns:
        operands, parameters = [read(v) for v in equation.invars], equation.params
        if equation.primitive is jax.lax.dot_general_p:
            operands = [operand.astype(jnp.bfloat16) for operand in operands]
            parameters = {**parameters, "preferred_element_type": jnp.float32}
        if "jaxpr" in parameters:
            results = edit_export(parameters["jaxpr"], *operands)
        else:
            results = equation.primitive.bind(*operands, **parameters)
            results = results if equation.primitive.multiple_results else [results]
        found.update(zip(equation.outvars, results, strict=True))
    return [read(v) for v in jaxpr.outvars]


def k_means(points: Any, centers: Any) -> Any:
    def step(state: Any) -> Any:
        centers, nearest, _, count = state
        distances = jnp.sum(centers**2, -1) - 2 * points @ centers.T
        new = jnp.argmin(distances, -1)
        members = jax.nn.one_hot(new, len(centers))
        centers = members.T @ points / jnp.maximum(members.sum(0), 1)[:, None]
        return centers, new, jnp.any(new != nearest), count + 1

    start = (centers, jnp.full(len(points), -1), True, 0)
    centers, nearest, _, count = jax.lax.while_loop(lambda state: state[2], step, start)
    return centers, nearest, count


def conjugate_gradient(f: Any, tolerance: Any) -> Any:
    def laplacian(u: Any) -> Any:
        p = jnp.pad(u, 1)
        return 4 * u - p[:-2, 1:-1] - p[2:, 1:-1] - p[1:-1, :-2] - p[1:-1, 2:]

    def step(state: Any) -> Any:
        u, residual, direction, square, count = state
        image = laplacian(direction)
        length = square / jnp.sum(direction * image)
        u, residual = u + length * direction, residual - length * image
        new_square = jnp.sum(residual**2)
        return u, residual, residual + new_square / square * direction, new_square, count + 1

    start = (jnp.zeros_like(f), f, f, jnp.sum(f**2), 0)
    u, _, _, _, count = jax.lax.while_loop(lambda state: state[3] > tolerance**2, step, start)
    return u, count


def mandelbrot(points: Any, limit: int) -> Any:
    def step(_: Any, state: Any) -> Any:
        z, counts = state
        z = z * z + points
        return z, counts + (jnp.abs(z) <= 2)

    zeros = jnp.zeros(points.shape, jnp.int32)
    return jax.lax.fori_loop(0, limit, step, (points, zeros))[1]


class Program(NamedTuple):
    """An example and the same program in jax.

    Attributes:
        functions: the names of the functions of the program in the example's module, the called
            one last.
        references: the functions in jax, the called one first.
        static: the names of static arguments.
        shows: for the ten programs of the documentation, what the program shows.
    """

    functions: list[str]
    references: list[Callable[..., Any]]
    static: tuple[str, ...] = ()
    shows: str = ""

    def lines(self, module: Any) -> tuple[int, int]:
        """Return the numbers of lines of the program in the example's module and in jax."""
        ours = [attrgetter(name)(module) for name in self.functions]
        counts = [sum(map(lines_of_code, functions)) for functions in (ours, self.references)]
        return counts[0], counts[1]


def lines_of_code(function: Any) -> int:
    """Return the number of lines of a function, without blank lines, comments and docstrings."""
    function = getattr(function, "__wrapped__", function)
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    numbers: set[int] = set()
    docstrings: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            docstrings |= {node, node.value}
        elif isinstance(node, (ast.stmt, ast.expr, ast.arg)) and node not in docstrings:
            numbers |= {node.lineno, node.end_lineno or node.lineno}
    return len(numbers)


PROGRAMS: dict[str, Program] = {
    "gpt": Program(
        ["block", "decode"],
        [gpt, gpt_block],
        shows="a GPT with a KV cache, exported to a file and decoded by another process",
    ),
    "convnet": Program(
        ["logits", "adam", "train"],
        [convnet, conv, convnet_logits, cross_entropy, adam],
        shows="convolutions and batch normalization, trained with Adam",
    ),
    "gru": Program(
        ["gru", "logits", "train"],
        [gru, gru_states],
        shows="a recurrent network as a scan, and its training",
    ),
    "fft_convolution": Program(
        ["convolve"], [fft_convolution], shows="convolution of long signals by Fourier transforms"
    ),
    "embedding": Program(
        ["train"], [embedding], shows="embeddings, trained by adding to rows of a table (scatter)"
    ),
    "top_k_sampling": Program(
        ["sample"], [top_k_sampling], ("k",), shows="top-k and nucleus sampling of tokens"
    ),
    "data_parallel": Program(
        ["digits.loss_and_gradients", "digits.update", "train_epoch"],
        [data_parallel, digits_loss, cross_entropy],
        shows="training on four devices",
    ),
    "vision_transformer": Program(
        ["block", "logits", "classify"],
        [vision_transformer, transformer_block, conv],
        shows="a vision transformer for batches of any size",
    ),
    "diffusion": Program(
        ["denoise", "sample"],
        [diffusion, denoise],
        ("batch",),
        shows="a loop of denoising steps that draws random numbers",
    ),
    "edit_export": Program(
        ["narrow", "narrowed"],
        [edit_export],
        shows="a program exported by jax, edited and saved",
    ),
    "lstm": Program(["lstm"], [lstm]),
    "kalman": Program(["track"], [kalman]),
    "k_means": Program(["k_means"], [k_means]),
    "conjugate_gradient": Program(["laplacian", "solve"], [conjugate_gradient]),
    "mandelbrot": Program(["steps"], [mandelbrot]),
}


def arguments(name: str, module: Any) -> tuple[Any, ...]:
    """Return the arguments of an example's program, smaller than those of its main function."""
    random = np.random.default_rng(5)

    def normal(*sizes: int) -> Any:
        return random.normal(size=sizes).astype(np.float32)

    def labels(count: int) -> Any:
        return np.eye(10, dtype=np.float32)[random.integers(0, 10, count)]

    def after_a_step(gradients: Any) -> Any:
        """A state of Adam in which no update depends on the rounding of a small gradient."""
        moments = jax.tree.map(lambda x: normal(*x.shape) / 10, gradients)
        squares = jax.tree.map(lambda x: normal(*x.shape) ** 2 + np.float32(0.1), gradients)
        return np.float32(3), moments, squares

    match name:
        case "gpt":
            prompt = np.full(module.LENGTH, -1, np.int32)
            prompt[:9] = list(b"Greedily ")
            return (prompt, *module.random_weights(seed=1))
        case "convnet":
            parameters, averages, _ = module.first_state(seed=1)
            state = parameters, averages, after_a_step(parameters)
            return normal(6, 8, 8, 1), labels(6), state
        case "gru":
            parameters = module.random_weights(seed=1)
            return normal(6, 8, 8), labels(6), parameters, after_a_step(parameters)
        case "fft_convolution":
            return normal(2, 300), normal(2, 50)
        case "embedding":
            return module.random_tables(seed=1), *module.pairs(30, 50, seed=1)
        case "top_k_sampling":
            uniform = random.uniform(0.01, 1, (50, 4)).astype(np.float32)
            return normal(50, 20), uniform, np.float32(0.7), np.float32(0.8), 4
        case "data_parallel":
            digits = module.digits
            images, classes, _, _ = digits.load_digits()
            rows = module.split(images, 4, digits.PIXELS), module.split(classes, 4, digits.CLASSES)
            return *rows, digits.first_state(seed=1)
        case "vision_transformer":
            return normal(5, 8, 8, 1), module.random_weights(seed=1)
        case "diffusion":
            return np.uint32(3), module.levels(12), random.random((20, 64), np.float32), 5
        case "edit_export":
            return tuple(module.random_arguments(seed=1))
        case "lstm":
            return (normal(20, 2, 3), *module.random_weights(3, seed=1))
        case "kalman":
            return (normal(30, 2).cumsum(0), *module.model(noise=0.4))
        case "k_means":
            points = normal(300, 2)
            return points, points[:6]
        case "conjugate_gradient":
            return normal(30, 20), 1e-3
        case "mandelbrot":
            real, imaginary = random.normal(0, 1, (2, 200))
            return (real + 1j * imaginary).astype(np.complex64), 30
        case _:
            raise ValueError(f"no arguments for {name}")
