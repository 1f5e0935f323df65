"""The graphs of the benchmarks give the same results in xlabuilder and in jax.lax.

The two share a body, so errors in it are found by comparing with jax.grad, NumPy and published
sizes of models.
"""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
from imported import results_and_jax_results

import builder as xb
import lowering
from benchmarks.graphs import GRAPHS, Graph, constants, lstm, resnet50, shapes, transformer
from benchmarks.languages import jax_lax, ours

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]

# The same models with small arrays.
TINY_TRANSFORMER = transformer.Config(
    batch=2, sequence=5, model=12, heads=3, inner=16, vocabulary=7
)
TINY_RESNET50 = resnet50.Config(batch=2, image=32, width=4, blocks=(1, 1), classes=5)
TINY_LSTM = lstm.Config(batch=2, inputs=3, hidden=4)

SMALL: dict[str, tuple[Graph, int]] = {
    "chain": (GRAPHS["chain"], 21),
    "layers": (GRAPHS["layers"], 2),
    "transformer": (transformer.graph_of(TINY_TRANSFORMER), 2),
    "resnet50": (resnet50.graph_of(TINY_RESNET50), 2),
    "lstm": (lstm.graph_of(TINY_LSTM), 3),
    "control_flow": (GRAPHS["control_flow"], 8),
    "constants": (GRAPHS["constants"], 1),
    "reducers": (GRAPHS["reducers"], 9),
    "shapes": (shapes.graph_of(itertools.repeat(5)), 3),
}


def values_of(graph: Graph, size: int) -> list[np.ndarray[Any, Any]]:
    """Return an array for each argument."""
    random = np.random.default_rng(7)
    values: list[Any] = []
    for name, dtype, dimensions in graph.arguments(size):
        if dtype in ("int32", "uint8"):
            value = np.zeros(dimensions, dtype)
        else:
            value = random.standard_normal(dimensions).astype(np.dtype(dtype))
        if name == "targets":  # probabilities
            value = np.exp(value) / np.exp(value).sum(-1, keepdims=True)
        values.append(value)
    return values


def assert_close(actual: Any, expected: Any, error: float) -> None:
    """Check that arrays are equal up to an error relative to the largest number."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    actual, expected = actual.astype(np.float64), expected.astype(np.float64)
    assert np.isfinite(expected).all()
    atol = error * max(1e-30, np.abs(expected).max())
    np.testing.assert_allclose(actual, expected, rtol=0, atol=atol)


def compute(graph: Graph, size: int, values: list[Any]) -> tuple[Any, ...]:
    return tuple(lowering.compile(ours.record(graph, size))(*values))


@pytest.mark.parametrize("name", [name for name in GRAPHS if name != "transformer"])
def test_languages_agree(name: str) -> None:
    graph, size = SMALL[name]
    values = values_of(graph, size)
    function, arguments = jax_lax.record(graph, size)
    assert [(a.shape, a.dtype) for a in arguments] == [(v.shape, v.dtype) for v in values]
    lowered = jax.jit(function).lower(*values)
    results, expected = results_and_jax_results(ours.record(graph, size), lowered, values)
    for result, theirs in zip(results, expected, strict=True):
        assert_close(result, theirs, 1e-5)


def test_transformer_agrees_and_its_gradients_are_right() -> None:
    graph, layers = SMALL["transformer"]
    values = values_of(graph, layers)
    function, _ = jax_lax.record(graph, layers)
    first = [name for name, _, _ in graph.arguments(layers)].index("0_before_attention_scale")

    def loss(*values: Any) -> Any:
        return transformer.loss_of(TINY_TRANSFORMER, jax_lax, layers, *values)

    def results_and_gradients(*values: Any) -> Any:
        weights = tuple(range(first, len(values)))
        return function(*values), jax.value_and_grad(loss, weights)(*values)

    theirs, (value, gradients) = jax.jit(results_and_gradients)(*values)
    results = compute(graph, layers, values)
    names = ["loss", *(name for name, _, _ in graph.arguments(layers)[first:])]
    for name, mine, other, by_jax in zip(names, results, theirs, (value, *gradients), strict=True):
        if name.endswith("key_bias"):
            # It shifts all scores of a row equally, so the gradient is 0 up to rounding.
            assert max(np.abs(array).max() for array in (mine, other, by_jax)) < 1e-6
        else:
            assert_close(mine, other, 1e-5)
            assert_close(mine, by_jax, 1e-5)


def test_lstm_is_an_lstm() -> None:
    graph, steps = SMALL["lstm"]
    values = values_of(graph, steps)
    sequence, weights, bias, h, c = (value.astype(np.float64) for value in values)

    def sigmoid(x: Any) -> Any:
        return 1 / (1 + np.exp(-x))

    for x in sequence:
        i, f, o, g = np.split(np.concatenate([x, h], 1) @ weights + bias, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
    for result, expected in zip(compute(graph, steps, values), (h, c), strict=True):
        assert_close(result, expected.astype(np.float32), 1e-5)


def weights_in(graph: Graph, first: str) -> int:
    """Return the number of elements of the arguments, starting with the one named `first`."""
    arguments = graph.arguments(graph.default)
    names = [name for name, _, _ in arguments]
    return sum(math.prod(dimensions) for _, _, dimensions in arguments[names.index(first) :])


def test_models_have_the_sizes_of_real_ones() -> None:
    # ResNet-50 in https://pytorch.org/vision/stable/models.html
    assert weights_in(GRAPHS["resnet50"], "stem_kernel") == 25_557_032
    # GPT-2 with 24 layers has 354,823,168, including the embeddings of 50,257 tokens and 1,024
    # positions. The last layer is a projection to another number of tokens here.
    blocks = 354_823_168 - (50_257 + 1_024) * 1024
    config = transformer.Config()
    projection = (config.model + 1) * config.vocabulary
    assert weights_in(GRAPHS["transformer"], "0_before_attention_scale") == blocks + projection


RECORDED = {
    "chain": 10_000,
    "layers": 10_000,
    "transformer": 6_000,  # 24 layers
    "resnet50": 10_000,
    "lstm": 38_000,  # 2,000 steps
    "control_flow": 17_500,  # 22 computations for 10,000 functions
    "constants": 10_000,
    "reducers": 30_000,  # an initial value, a reduction and an addition for each
    "shapes": 10_000,  # 12 for each of 834 layers
}


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs_have_the_documented_size(name: str) -> None:
    graph = GRAPHS[name]
    assert graph.name == name
    assert graph.default in graph.sizes
    assert list(graph.sizes) == sorted(graph.sizes)
    computation = ours.record(graph, graph.default)
    called = list(computation.called_computations())
    count = sum(len(each.ops) for each in (computation, *called))
    assert RECORDED[name] * 0.97 < count < RECORDED[name] * 1.03
    if name == "control_flow":
        # 2,500 conditions with one of seven numbers; 2,500 bodies and the two branches of 2,500
        # conditionals with one of five numbers each.
        assert len(called) == 7 + 5 + 2 * 5
    if name == "reducers":
        reductions = [op for op in computation.ops if op.opcode == "reduce"]
        assert len(reductions) == 10_000
        assert len(called) == 1


def test_every_op_of_shapes_is_new() -> None:
    seen: set[tuple[str, xb.Shape, tuple[xb.Shape, ...]]] = set()
    for _ in range(2):
        computation = ours.record(GRAPHS["shapes"], 5)
        for op in computation.ops:
            if op.operands:
                signature = op.opcode, op.shape, tuple(operand.shape for operand in op.operands)
                assert signature not in seen
                seen.add(signature)


def test_constants_have_a_hundred_megabytes() -> None:
    sizes = [
        kind.number * math.prod(kind.dimensions) * np.dtype(kind.dtype).itemsize
        for kind in constants.kinds(GRAPHS["constants"].default)
    ]
    assert 100 * 2**20 <= sum(sizes) < 101 * 2**20
    first, second, *_ = constants.arrays(1)
    assert first[0].shape == (128, 1024)
    assert second[0].dtype == np.int32
    assert constants.arrays(1)[2][0].dtype == ml_dtypes.bfloat16


def test_graphs_import_no_api() -> None:
    # They also run on a Python that has only NumPy, ml_dtypes and an old jaxlib.
    program = (
        "import sys, benchmarks.graphs\n"
        "print([m for m in ('builder', 'lowering', 'jax', 'jaxlib') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
