"""The examples with one program equal the same programs in plain jax.numpy, in double the lines.

`REFERENCES` has the functions of each program in jax.numpy.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scripts import load_script
from tables import each_row

pytestmark = pytest.mark.slow

load_script("examples/digits.py")  # imported by other examples


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


def convnet(images: Any, kernel: Any, kernel_2: Any) -> Any:
    def convolved(x: Any, kernel: Any) -> Any:
        numbers = ("NHWC", "HWIO", "NHWC")
        y = jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=numbers)
        return jnp.maximum(y, 0)

    def blocks_of_4(x: Any) -> Any:
        n, h, w, c = x.shape
        return x.reshape(n, h // 2, 2, w // 2, 2, c)

    x = blocks_of_4(convolved(images, kernel)).mean((2, 4))
    x = blocks_of_4(convolved(x, kernel_2)).max((2, 4))
    return x.reshape(len(x), -1)


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


def top_k_sampling(logits: Any, uniform: Any, temperature: Any, k: int) -> Any:
    values, tokens = jax.lax.top_k(logits, k)
    gumbel = -jnp.log(-jnp.log(uniform))
    choice = jnp.argmax(values / temperature + gumbel, -1)
    return jnp.take_along_axis(tokens, choice[:, None], -1)[:, 0]


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


# Of each example the functions of the program, those of jax.numpy, and the static arguments.
REFERENCES: dict[str, tuple[list[str], list[Callable[..., Any]], list[str]]] = {
    "gpt": (["block", "decode"], [gpt, gpt_block], []),
    "convnet": (["features"], [convnet], []),
    "lstm": (["lstm"], [lstm], []),
    "kalman": (["track"], [kalman], []),
    "fft_convolution": (["convolve"], [fft_convolution], []),
    "top_k_sampling": (["sample"], [top_k_sampling], ["k"]),
    "k_means": (["k_means"], [k_means], []),
    "conjugate_gradient": (["laplacian", "solve"], [conjugate_gradient], []),
    "mandelbrot": (["steps"], [mandelbrot], []),
}


def arguments(name: str, module: Any) -> tuple[Any, ...]:
    """Return the arguments of an example's program, smaller than those of its main function."""
    random = np.random.default_rng(5)

    def normal(*sizes: int) -> Any:
        return random.normal(size=sizes).astype(np.float32)

    if name == "gpt":
        prompt = np.full(module.LENGTH, -1, np.int32)
        prompt[:9] = list(b"Greedily ")
        return (prompt, *module.random_weights(seed=1))
    if name == "convnet":
        return (normal(3, 8, 8, 1), *module.random_kernels(seed=1))
    if name == "lstm":
        return (normal(20, 2, 3), *module.random_weights(3, seed=1))
    if name == "kalman":
        return (normal(30, 2).cumsum(0), *module.model(noise=0.4))
    if name == "fft_convolution":
        return normal(2, 300), normal(2, 50)
    if name == "top_k_sampling":
        return normal(50, 20), random.uniform(0.01, 1, (50, 4)).astype(np.float32), 0.7, 4
    if name == "k_means":
        points = normal(300, 2)
        return points, points[:6]
    if name == "conjugate_gradient":
        return normal(30, 20), 1e-3
    assert name == "mandelbrot"
    return (random.normal(0, 1, 200) + 1j * random.normal(0, 1, 200)).astype(np.complex64), 30


@pytest.mark.parametrize("name", REFERENCES)
def test_the_results_equal_those_of_jax_numpy(name: str) -> None:
    module = load_script(f"examples/{name}.py")
    (*_, program), (reference, *_), static = REFERENCES[name]
    values = arguments(name, module)
    got = getattr(module, program)(*values)
    expected = jax.jit(reference, static_argnames=static)(*values)
    for result, wanted in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert result.shape == wanted.shape
        scale = max(np.abs(wanted).max(), 1)
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5 * scale)


def lines_of_code(function: Any) -> int:
    """Return the number of lines of a function, without blank lines, comments and docstrings."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    numbers: set[int] = set()
    docstrings: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            docstrings |= {node, node.value}
        elif isinstance(node, (ast.stmt, ast.expr, ast.arg)) and node not in docstrings:
            numbers |= {node.lineno, node.end_lineno or node.lineno}
    return len(numbers)


@each_row("name", REFERENCES)
def test_the_programs_have_at_most_twice_the_lines_of_jax_numpy(name: str) -> None:
    module = load_script(f"examples/{name}.py")
    programs, references, _ = REFERENCES[name]
    functions = [getattr(module, program) for program in programs]
    lines = sum(lines_of_code(getattr(f, "__wrapped__", f)) for f in functions)
    assert lines <= 2 * sum(map(lines_of_code, references))


@pytest.mark.parametrize("name", REFERENCES)
def test_main(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    module = load_script(f"examples/{name}.py")
    monkeypatch.setattr("sys.argv", [name])
    module.main()
    output = capsys.readouterr().out
    assert output
    if name == "convnet":
        assert "test accuracy: 9" in output
