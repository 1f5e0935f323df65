"""Functions of the library, indexing and reshapes, on arrays of unbounded sizes.

The programs are compared with those that are recorded for the sizes. All functions are one program.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tables import each_row

import builder as xb
import lowering
from builder import lib

Function = Callable[..., xb.XlaOp]

TABLE = np.arange(12, dtype=np.float32).reshape(4, 3)


def conv(x: xb.XlaOp) -> xb.XlaOp:
    kernel = x.builder.constant(
        np.linspace(-1, 1, 3 * 3 * 2 * 5, dtype=np.float32).reshape(3, 3, 2, 5)
    )
    return lib.conv(x, kernel, padding="SAME", data_format="NHWC")


ROWS: dict[str, Function] = {
    "x[:, 0]": lambda x: x[:, 0],
    "x[:, None]": lambda x: x[:, None],
    "x[..., -1:, None]": lambda x: x[..., -1:, None],
    "x[:, ::-2]": lambda x: x[:, ::-2],
    "expand_dims": lambda x: lib.expand_dims(x, (0, 2)),
    "squeeze": lambda x: lib.squeeze(lib.expand_dims(x, (0, 2)), (0, 2)),
    "stack": lambda x: lib.stack([x, x * 2.0], -1),
    "concatenate": lambda x: xb.concatenate([x, x * 2.0], 1),
    "concatenate rows": lambda x: xb.concatenate([x, x * 2.0], 0),
    "collapse": lambda x: xb.collapse(lib.stack([x, x * 2.0], -1), [1, 2]),
    "collapse all": lambda x: xb.collapse(x, [0, 1]),
    "arg_max": lambda x: lib.arg_max(x, xb.s32, 1),
    "arg_min": lambda x: lib.arg_min(x, xb.s32, 1, keepdims=True),
    "argsort": lambda x: lib.argsort(x, 1, descending=True),
    "sort": lambda x: xb.sort([x], None, 0),
    "repeat": lambda x: lib.repeat(x, 2, 1),
    "repeat rows": lambda x: lib.repeat(x, 2, 0),
    "dropout": lambda x: lib.dropout(lib.random_key(x.builder, 3), x, 0.5),
    "tile": lambda x: lib.tile(x, [2, 3, 2]),
    "one_hot": lambda x: lib.one_hot(xb.convert_element_type(x, xb.s32), 4, axis=1),
    "take": lambda x: lib.take(
        x.builder.constant(TABLE), xb.convert_element_type(x[:, 0], xb.s32), 0
    ),
    "take_along_axis": lambda x: lib.take_along_axis(x, xb.convert_element_type(x, xb.s32), 1),
    "put_along_axis": lambda x: lib.put_along_axis(
        x, xb.convert_element_type(x[:, :1], xb.s32), 9.0, 1
    ),
    "cross_entropy": lambda x: lib.cross_entropy(x, xb.convert_element_type(x[:, 0], xb.s32)),
    "cumsum": lambda x: lib.cumsum(x, 1),
    "top_k": lambda x: xb.get_tuple_element(xb.top_k(x, 2), 1),
    "std": lambda x: lib.std(x, 1),
    "mean of rows": lambda x: lib.mean(x, 0),
    "layer_norm": lib.layer_norm,
    "logsumexp": lambda x: lib.logsumexp(x, 1),
    "roll": lambda x: lib.roll(x, 1, 1),
    "indices_along": lambda x: lib.indices_along(x, 0, xb.f32) + lib.indices_along(x, 1, xb.f32),
    "arg_max of rows": lambda x: lib.arg_max(x, xb.s32, 0),
    "argsort of rows": lambda x: lib.argsort(x, 0),
    "attention of rows": lambda x: lib.dot_product_attention(
        *[lib.expand_dims(x, 1)] * 3, is_causal=True
    ),
    "rotary_embedding of rows": lambda x: lib.rotary_embedding(
        lib.expand_dims(x[:, :2], 1), lib.arg_max(x, xb.s32, 1)
    ),
    "pad": lambda x: xb.pad(x, 0.0, [(1, 0, 0), (0, 2, 1)]),
}
"""Functions of an f32[?,3]."""

HEADS: dict[str, Function] = {
    "y[:, 1, :, None]": lambda y: y[:, 1, :, None],
    "attention": lambda y: lib.dot_product_attention(y, y, y, is_causal=True),
    "attention with a mask": lambda y: lib.dot_product_attention(
        y, y[:, :, :2], y[:, :, 2:], mask=xb.gt(y[:, :1, :, :4], 0.0)
    ),
    "dropout": lambda y: lib.dropout(lib.random_key(y.builder, 3), y, 0.5),
    "rotary_embedding": lambda y: lib.rotary_embedding(y, y.builder.iota(xb.s32[4], 0)),
    "max_pool": lambda y: lib.max_pool(y, [2, 2], [2, 2], "VALID", "NHWC"),
    "max_pool, SAME": lambda y: lib.max_pool(y, [3, 3], [2, 2], "SAME", "NHWC"),
    "avg_pool": lambda y: lib.avg_pool(y, [3, 3], [1, 2], "SAME", "NHWC", False),
    "conv": lambda y: conv(y[..., :2]),
}
"""Functions of an f32[?,4,4,8]."""


def recorded(functions: dict[str, Function], shape: Any) -> xb.XlaComputation:
    b = xb.XlaBuilder("functions")
    x = b.parameter(shape, "x")
    return b.build(xb.tuple(*[function(x) for function in functions.values()]))


@pytest.mark.parametrize(
    ("functions", "sizes"), [(ROWS, (3,)), (HEADS, (4, 4, 8))], ids=["rows", "heads"]
)
def test_functions(functions: dict[str, Function], sizes: tuple[int, ...]) -> None:
    run = lowering.compile(recorded(functions, xb.f32[("?", *sizes)]), "cpu")
    random = np.random.default_rng(5)
    for size in (1, 4):
        x = random.uniform(0, 3, (size, *sizes)).astype(np.float32)
        want = lowering.compile(recorded(functions, xb.f32[x.shape]), "cpu")(x)
        for name, got, expected in zip(functions, run(x), want, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6, err_msg=name)


@each_row(
    "sizes, new_sizes, result",
    [
        (("?", 4, 8), ("?", 32), ("?", 32)),
        (("?", 4, 8), (xb.UNBOUNDED, 2, 16), ("?", 2, 16)),
        (("?", 4, 8), (8, "?"), (8, "?")),
        ((2, "?", 6, "?", 1), (1, 2, "?", 3, 2, "?"), (1, 2, "?", 3, 2, "?")),
    ],
)
def test_reshapes(sizes: Any, new_sizes: Any, result: Any) -> None:
    b = xb.XlaBuilder("reshapes")
    reshaped = xb.reshape(b.parameter(xb.s32[sizes]), new_sizes)
    assert reshaped.shape == xb.s32[result]
    x = np.arange(np.prod([3 if s == "?" else s for s in sizes])).astype(np.int32)
    x = x.reshape([3 if size == "?" else size for size in sizes])
    got = np.asarray(lowering.compile(b.build(reshaped), "cpu")(x))
    assert got.ravel().tolist() == x.ravel().tolist()
    assert all(want in ("?", size) for want, size in zip(result, got.shape, strict=True))


@each_row(
    "function, message",
    [
        (lambda x: xb.reshape(x, ["?", 2]), r"must be a multiple.*got 3 and 2 in \[\?, 2\]"),
        (lambda x: xb.reshape(x, ["?", -3]), r"must not be negative, got \[\?, -3\]"),
        (lambda x: xb.reshape(x, ["?", "?"]), "as many unbounded sizes as operand: 1, got 2"),
        (
            lambda x: xb.reshape(xb.concatenate([x, x], 1).builder.iota(xb.s32[6], 0), ["?", 2]),
            "as many unbounded sizes as operand: 0, got 1",
        ),
        (lambda x: xb.collapse(x @ xb.transpose(x, [1, 0]), [0, 1]), "as operand: 2, got 1"),
        (lambda x: lib.take(x, x.builder.iota(xb.s32[2], 0), 1), "must not have an unbounded size"),
        (lambda x: x[:, x.builder.constant(0, xb.s32)], "an index that is an op requires bounded"),
        (lambda x: x[1], r"dynamic size must be selected entirely"),
    ],
)
def test_what_needs_sizes(function: Function, message: str) -> None:
    x = xb.XlaBuilder("refused").parameter(xb.f32["?", 3], "x")
    with pytest.raises(xb.ShapeInferenceError, match=message):
        function(x)


def pieces(random: np.random.Generator, x: xb.XlaOp) -> xb.XlaOp:
    """Apply a random function to an f32[n,m]; the result is another such array."""
    columns = x.shape.dimensions[1]
    weights = random.normal(size=(columns, int(random.integers(1, 5)))).astype(np.float32)
    start = int(random.integers(0, columns))
    choices: list[Function] = [
        lambda x: x @ x.builder.constant(weights),
        lambda x: lib.softmax(x),
        lambda x: lib.layer_norm(x),
        lambda x: xb.tanh(x) + lib.mean(x, 1, keepdims=True),
        lambda x: x[:, start:],
        lambda x: x[:, start, None],
        lambda x: x[:, ::-1] * 0.5,
        lambda x: xb.collapse(lib.stack([x, xb.sin(x)], 2), [1, 2]),
        lambda x: lib.repeat(x, 2, 1),
        lambda x: lib.tile(x, [1, 2]),
        lambda x: xb.concatenate([x, lib.max(x, 1, keepdims=True)], 1),
        lambda x: xb.sub(x, lib.mean(x, 0), [1]),
        lambda x: lib.one_hot(lib.arg_max(x, xb.s32, 1), 3),
        lambda x: xb.get_tuple_element(xb.top_k(x, 1 + start), 0),
        lambda x: xb.select(x > 0.0, x, xb.exp(x) - 1.0),
        lambda x: xb.conditional(
            xb.reduce(x, 0.0, xb.add, [0, 1]) > 0.0, x, lambda v: v * 2.0, x, lambda v: -v
        ),
        lambda x: xb.while_(
            lambda s: s[0] < 3,
            lambda s: (s[0] + 1, xb.cos(s[1])),
            (x.builder.constant(0, xb.s32), x),
        )[1],
        lambda x: lib.cumsum(x, 1),
    ]
    return choices[int(random.integers(0, len(choices)))](x)


PROGRAMS = 20


def random_programs(shape: xb.ArrayShape) -> xb.XlaComputation:
    """Return the programs as one, because compiling many small ones is slow."""
    b = xb.XlaBuilder("random")
    results = []
    for seed in range(PROGRAMS):
        random = np.random.default_rng(seed)
        x = b.parameter(shape)
        for _ in range(6):
            x = pieces(random, x)
        results.append(x)
    return b.build(xb.tuple(*results))


@pytest.mark.slow
def test_random_programs() -> None:
    """Saved, loaded, and called at two sizes, programs compute what is recorded for the sizes."""
    code = lowering.lower(random_programs(xb.f32["?", 4])).artifact()
    run = lowering.compile(lowering.load_bytes(code), "cpu")
    for size in (1, 5):
        rows = np.random.default_rng(0).normal(size=(PROGRAMS, size, 4)).astype(np.float32)
        found = run(*rows)
        wanted = lowering.compile(random_programs(xb.f32[size, 4]), "cpu")(*rows)
        for seed, (got, want) in enumerate(zip(found, wanted, strict=True)):
            np.testing.assert_allclose(got, want, rtol=2e-4, atol=1e-5, err_msg=str(seed))


def test_fixes_name_what_works_for_unbounded_sizes() -> None:
    b = xb.XlaBuilder("program")
    x = b.parameter(xb.f32["?", 4], "x")
    for call, fix in (
        (lambda: x[0], "use xb.slice_in_dim(x, start, limit, dimno=0) to count from the start"),
        (lambda: b.iota(xb.s32["?"], 0), "use lib.indices_along(x, dimension)"),
        (lambda: x.shape[0], "xb.get_dimension_size(x, 0) is a size at run time"),
        (lambda: x * x.shape.dimensions[0], "write xb.convert(xb.get_dimension_size(x, dimension)"),
    ):
        with pytest.raises(xb.XlaError, match=re.escape(fix)):
            call()
    with pytest.raises(xb.XlaError, match="contracting") as caught:
        xb.dot(x, b.parameter(xb.f32[5, 3], "w"))
    assert "transpose lhs" not in str(caught.value)  # its first dimension may not be 5
    assert lib.sum(x * -(2.0**63)).shape is xb.f32[()]


@each_row(
    "function, reference",
    [
        (lambda x: lib.tile(x, [2, 1, 3]), lambda x: np.tile(x, (2, 1, 3))),
        (lambda x: lib.tile(x, [2, 3, 1, 1]), lambda x: np.tile(x, (2, 3, 1, 1))),
        (lambda x: lib.repeat(x, 2, 0), lambda x: np.repeat(x, 2, 0)),
        (lambda x: lib.repeat(x, 3, 2), lambda x: np.repeat(x, 3, 2)),
    ],
)
def test_repetition_with_several_unbounded_sizes(function: Any, reference: Any) -> None:
    b = xb.XlaBuilder("repeated")
    run = lowering.compile(b.build(function(b.parameter(xb.f32["?", "?", 4], "x"))), "cpu")
    for sizes in ((1, 2, 4), (3, 5, 4)):
        x = np.arange(np.prod(sizes), dtype=np.float32).reshape(sizes)
        np.testing.assert_array_equal(run(x), reference(x))
