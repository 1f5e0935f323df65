"""Every op on arrays of bounded sizes, executed on CPU, against NumPy on arrays of those sizes.

The elements beyond the sizes are ordinary numbers, which would change wrong results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from support import (
    assert_identical,
    compiled_once,
    flat,
    is_only_parsed,
    stablehlo_of_text,
    trusted_module,
)
from tables import each_row

import builder as xb
import lowering
from lowering import CompileError
from lowering.jaxlib_api import hlo_conversion

RANDOM = np.random.default_rng(20261121)
Array = np.ndarray
Case = tuple[Callable[..., Any], Callable[..., Any]]


def bounded(x: xb.XlaOp, sizes: Sequence[xb.XlaOp]) -> xb.XlaOp:
    """Set the sizes of the first dimensions of an array."""
    for dimension, size in enumerate(sizes):
        x = xb.set_dimension_size(x, size, dimension)
    return x


def check(
    cases: dict[str, Case],
    shapes: Sequence[tuple[xb.ArrayShape, int]],
    sizes: Sequence[Sequence[tuple[int, ...]]],
) -> None:
    """Run all cases in one program, for several sizes, in two ways.

    The second program is compiled from HLO text, without cases that StableHLO can't express.

    Args:
        cases: by name, the function and its NumPy equivalent.
        shapes: the shape of each operand, and the number of its first dimensions that are bounded.
        sizes: for each run, for each operand, the sizes of these dimensions.
    """

    def program(names: Sequence[str]) -> xb.XlaComputation:
        b = xb.XlaBuilder("bounded")
        operands = []
        for shape, dimensions in shapes:
            x = b.parameter(shape)
            operands.append(bounded(x, [b.parameter(xb.s32[()]) for _ in range(dimensions)]))
        return b.build(xb.tuple(*(cases[name][0](*operands) for name in names)))

    computation = program(list(cases))
    read = [name for name in cases if not is_only_parsed(program([name]))]
    theirs = trusted_module(stablehlo_of_text(program(read)))
    with compiled_once():
        programs = [
            (list(cases), lowering.compile(computation, "cpu")),
            (read, lowering.compile(theirs, "cpu")),
        ]
    arrays = [numbers(shape) for shape, _ in shapes]
    for run in sizes:
        arguments: list[Any] = []
        parts = []
        for array, own in zip(arrays, run, strict=True):
            arguments += [array, *(np.int32(n) for n in own)]
            parts.append(array[tuple(slice(n) for n in own)].copy())
        expected_result = {name: function(*parts) for name, (_, function) in cases.items()}
        for names, compiled in programs:
            for name, value in zip(names, flat(compiled(*arguments)), strict=True):
                array, want = np.asarray(value), expected_result[name]
                expected = np.asarray(want).astype(array.dtype)
                assert array.shape == expected.shape, (name, run)
                assert np.array_equal(array, expected), (name, run, array, expected)


def numbers(shape: xb.ArrayShape) -> Array:
    """Random integers other than 0, whose sums are exact in every type."""
    result = RANDOM.integers(1, 10, shape.dimensions) * RANDOM.choice([-1, 1], shape.dimensions)
    return result.astype(shape.element_type.dtype)


def padded(x: Array, low: int, high: int, interior: int = 0) -> Array:
    """Pad a vector with 9."""
    wide = np.full(len(x) + max(len(x) - 1, 0) * interior, 9, x.dtype)
    wide[:: interior + 1] = x
    wide = np.concatenate([np.full(max(low, 0), 9), wide, np.full(max(high, 0), 9)])
    wide = wide[max(-low, 0) :]
    return wide[: max(len(wide) + min(high, 0), 0)]


def windows(x: Array, size: int, stride: int, low: int, high: int, base: int, gap: int) -> Array:
    """Sums over windows of a vector."""
    spread = np.zeros(max(len(x) * base - base + 1, 0), x.dtype)
    spread[::base] = x
    spread = np.pad(spread, (low, high))
    reach = (size - 1) * gap + 1
    starts = range(0, len(spread) - reach + 1, stride)
    return np.array([spread[s : s + reach : gap].sum() for s in starts], x.dtype)


MATRIX: dict[str, Case] = {
    "neg": (xb.neg, np.negative),
    "compare": (lambda x: x > -x, lambda x: x > -x),
    "number": (lambda x: 1.0 - x, lambda x: 1 - x),
    "select": (lambda x: xb.select(x > 0.0, x, -x), np.abs),
    "clamp": (lambda x: xb.clamp(-1.0, x, 2.0), lambda x: np.clip(x, -1, 2)),
    "convert": (lambda x: xb.convert(x, xb.s8), lambda x: x.astype(np.int8)),
    "bitcast": (
        lambda x: xb.bitcast_convert_type(x, xb.u8),
        lambda x: x.view(np.uint8).reshape(*x.shape, 4),
    ),
    "map": (lambda x: xb.map([x], xb.neg, [0, 1]), np.negative),
    "barrier": (
        lambda x: xb.get_tuple_element(xb.optimization_barrier(xb.tuple(x, x)), 1),
        lambda x: x,
    ),
    "reduce": (lambda x: xb.reduce(x, 0.0, xb.add, [0]), lambda x: x.sum(0)),
    "reduce_1": (
        lambda x: xb.reduce(x, float("-inf"), xb.max, [1]),
        lambda x: x.max(1, initial=-np.inf),
    ),
    "reduce_all": (lambda x: xb.reduce_all(x, 1.0, xb.mul), np.prod),
    "transpose": (lambda x: xb.transpose(x, [1, 0]), np.transpose),
    "rev": (lambda x: xb.rev(x, [0]), lambda x: x[::-1]),
    "rev_all": (lambda x: xb.rev(x, [0, 1]), lambda x: x[::-1, ::-1]),
    "slice": (lambda x: xb.slice(x, [1, 0], [5, 4], [2, 1]), lambda x: x[1::2]),
    "slice_all": (lambda x: xb.slice(x, [0, 1], [4, 4], [1, 1]), lambda x: x[:4, 1:]),
    "concatenate": (lambda x: xb.concatenate([x, x], 0), lambda x: np.concatenate([x, x])),
    "broadcast": (lambda x: xb.broadcast(x, [2]), lambda x: np.stack([x, x])),
    "in_dim": (
        lambda x: xb.broadcast_in_dim(x, [5, 2, 4], [0, 2]),
        lambda x: np.stack([x, x], 1),
    ),
    "reshape": (lambda x: xb.reshape(x, [5, 1, 4]), lambda x: x[:, None]),
    "combine": (lambda x: xb.reshape(x, [20]), np.ravel),
    "sort": (lambda x: xb.sort(x, dimension=0), lambda x: np.sort(x, 0)),
    "sort_1": (lambda x: xb.sort(x, dimension=1), lambda x: np.sort(x, 1)),
    "sort_with_fixed": (
        lambda x: xb.reduce(
            xb.get_tuple_element(
                xb.sort(
                    [x, xb.convert(x.builder.iota(xb.s32[5, 4], 0), xb.f32)],
                    lambda a, b, _c, _d: a < b,
                    dimension=0,
                    is_stable=True,
                ),
                1,
            )
            * (x * 0.0 + 1.0),
            0.0,
            xb.add,
            [1],
        ),
        lambda x: np.argsort(x, 0, kind="stable").sum(1),
    ),
    "loop": (
        lambda x: xb.get_tuple_element(
            xb.while_(
                lambda s: s[0] < 3,
                lambda s: (s[0] + 1, s[1] + s[1]),
                [x.builder.constant(0, xb.s32), x],
            ),
            1,
        ),
        lambda x: 8 * x,
    ),
    "branch": (
        lambda x: xb.conditional(
            xb.get_dimension_size(x, 0) > 2, x, lambda v: v + v, x, lambda v: -v
        ),
        lambda x: 2 * x if len(x) > 2 else -x,
    ),
    "call": (
        lambda x: xb.call(lambda v: xb.reduce(v, 0.0, xb.add, [0]), x),
        lambda x: x.sum(0),
    ),
    "sizes": (
        lambda x: xb.get_dimension_size(x, 0) * 10 + xb.get_dimension_size(x, 1),
        lambda x: 10 * x.shape[0] + x.shape[1],
    ),
    "windows": (
        lambda x: xb.reduce_window(x, 0.0, xb.add, [2, 1], [1, 1], [(1, 1), (0, 0)]),
        lambda x: np.pad(x, ((1, 0), (0, 0))) + np.pad(x, ((0, 1), (0, 0))),
    ),
    "dot": (lambda x: xb.dot(x, xb.transpose(x, [1, 0])), lambda x: x @ x.T),
}
MATRIX_SIZES = [((5, 4),), ((0, 0),), ((2, 3),), ((0, 3),), ((5, 1),), ((4, 4),), ((3, 0),)]


def test_ops_on_a_matrix() -> None:
    check(MATRIX, [(xb.f32[5, 4], 2)], MATRIX_SIZES)


ROW = RANDOM.normal(size=(1, 6)).astype(np.float32)


def windows_of_two(x: xb.XlaOp, y: xb.XlaOp) -> xb.XlaOp:
    def both(a: xb.XlaOp, b: xb.XlaOp, c: xb.XlaOp, d: xb.XlaOp) -> tuple[xb.XlaOp, xb.XlaOp]:
        return a + c, b + d

    return xb.reduce_window([x, y], [0.0, 0.0], both, [2], [1], [(1, 1)])


VECTOR: dict[str, Case] = {
    **{
        f"pad {config}": (
            lambda x, config=config: xb.pad(x, x.builder.constant(9.0, xb.f32), [config]),
            lambda x, config=config: padded(x, *config),
        )
        for config in [
            (1, 2, 0),
            (0, 3, 0),
            (0, 0, 1),
            (1, 1, 2),
            (-1, 0, 0),
            (0, -1, 0),
            (-1, 2, 1),
        ]
    },
    **{
        f"windows {w}": (
            lambda x, w=w: xb.reduce_window(
                x,
                0.0,
                xb.add,
                [w[0]],
                [w[1]],
                [w[2:4]],
                base_dilations=[w[4]],
                window_dilations=[w[5]],
            ),
            lambda x, w=w: windows(x, *w),
        )
        for w in [
            (2, 1, 0, 0, 1, 1),
            (3, 1, 1, 1, 1, 1),
            (2, 2, 1, 0, 1, 1),
            (2, 3, 0, 0, 1, 2),
            (2, 1, 0, 0, 2, 2),
            (5, 1, 4, 0, 1, 1),
            (1, 1, 1, 1, 2, 1),
        ]
    },
    **{
        f"windows beside a fixed array, number {n}": (
            lambda x, n=n: windows_of_two(x, x.builder.constant(np.full(6, 2.0, np.float32)))[n],
            lambda x, n=n: windows((x, np.full(6, 2.0, np.float32))[n], 2, 1, 1, 1, 1, 1),
        )
        for n in (0, 1)
    },
    "split": (
        lambda x: xb.reshape_with_inferred_dimension(xb.concatenate([x, x], 0), [6, 2], 0),
        lambda x: np.concatenate([x, x]).reshape(-1, 2),
    ),
    "split_1": (
        lambda x: xb.reshape_with_inferred_dimension(xb.concatenate([x, x], 0), [2, 6], 1),
        lambda x: np.concatenate([x, x]).reshape(2, -1),
    ),
    "gather": (
        lambda x: xb.gather(
            x,
            x.builder.constant(np.array([[0], [9], [3], [-4]], np.int8)),
            xb.GatherDimensionNumbers([1], [], [0], 1),
            [1],
        ),
        lambda x: x[np.clip([0, 9, 3, -4], 0, len(x) - 1)][:, None],
    ),
    "dynamic_slice": (
        lambda x: xb.dynamic_slice(x, [x.builder.constant(4, xb.u8)], [2]),
        lambda x: x[min(4, len(x) - 2) :][:2],
    ),
    "dynamic_update_slice": (
        lambda x: xb.dynamic_update_slice(
            x, x.builder.constant([70.0, 80.0], xb.f32), [x.builder.constant(4, xb.s64)]
        ),
        lambda x: np.concatenate([x[: min(4, len(x) - 2)], [70, 80], x[min(4, len(x) - 2) + 2 :]]),
    ),
    "scatter": (
        lambda x: xb.scatter(
            x,
            x.builder.constant(np.array([[0], [1], [0], [5]], np.int32)),
            x.builder.constant([100.0, 200.0, 300.0, 400.0], xb.f32),
            xb.add,
            xb.ScatterDimensionNumbers([], [0], [0], 1),
        ),
        lambda x: (
            x
            + (np.arange(len(x)) == 0) * 400
            + (np.arange(len(x)) == 1) * 200
            + (np.arange(len(x)) == 5) * 400
        ),
    ),
    "top_k": (
        lambda x: xb.get_tuple_element(xb.top_k(x, 2), 0),
        lambda x: -np.sort(-x)[:2],
    ),
    "top_k_of_at_most_one_row": (
        lambda x: xb.top_k(
            xb.set_dimension_size(x.builder.constant(ROW), x.builder.constant(1, xb.s32), 0), 3
        )[0],
        lambda x: -np.sort(-ROW)[:, :3],
    ),
    "top_k_places": (
        lambda x: xb.get_tuple_element(xb.top_k(x, 2), 1),
        lambda x: np.argsort(-x, kind="stable")[:2],
    ),
    "dot": (lambda x: xb.dot(x, x), lambda x: np.dot(x, x)),
    "erf_of_huge": (
        lambda x: xb.reduce(xb.erf(x * 1e30), 0.0, xb.add, [0]),
        lambda x: np.sign(x).sum(),
    ),
}


def test_ops_on_a_vector() -> None:
    check(VECTOR, [(xb.f32[6], 1)], [((n,),) for n in (6, 2, 3, 5)])


def test_ops_on_an_empty_vector() -> None:
    cases = {n: c for n, c in VECTOR.items() if n.startswith(("pad", "windows", "dot", "split"))}
    check(cases, [(xb.f32[6], 1)], [((n,),) for n in (0, 1)])


def test_reshapes_of_no_elements() -> None:
    # XLA would divide by the number of elements, and abort.
    cases: dict[str, Case] = {
        "collapse": (lambda x: xb.collapse(x, [0, 1]), lambda x: x.reshape(0)),
        "between": (lambda x: xb.reshape(x, [6, 1, 0]), lambda x: x.reshape(len(x), 1, 0)),
        "size": (
            lambda x: xb.get_dimension_size(xb.reshape(x, [6, 0, 1]), 0),
            lambda x: np.int32(len(x)),
        ),
    }
    check(cases, [(xb.f32[6, 0], 1)], [((n,),) for n in (6, 2, 0)])


SEVERAL: dict[str, Case] = {
    "fixed_and_bounded": (lambda x, y, z: x + z, lambda x, y, z: x + z[: len(x), : x.shape[1]]),
    "bounded_and_fixed": (lambda x, y, z: z * x, lambda x, y, z: x * z[: len(x), : x.shape[1]]),
    "row": (
        lambda x, y, z: xb.add(x, xb.slice(z, [1, 0], [2, 4], [1, 1])),
        lambda x, y, z: x + z[1:2, : x.shape[1]],
    ),
    "along": (
        lambda x, y, z: xb.add(x, xb.reduce(x, 0.0, xb.add, [0]), broadcast_dimensions=[1]),
        lambda x, y, z: x + x.sum(0),
    ),
    "across": (
        lambda x, y, z: xb.add(x, xb.reduce(x, 0.0, xb.add, [1]), broadcast_dimensions=[0]),
        lambda x, y, z: x + x.sum(1)[:, None],
    ),
    "dot_fixed": (
        lambda x, y, z: xb.dot(x, xb.transpose(z, [1, 0])),
        lambda x, y, z: x @ z[:, : x.shape[1]].T,
    ),
    "concatenate": (
        lambda x, y, z: xb.concatenate([x, z, x], 0),
        lambda x, y, z: np.concatenate([x, z[:, : x.shape[1]], x]),
    ),
    "update": (
        lambda x, y, z: xb.dynamic_update_slice(z, x, [x.builder.constant(1, xb.s32)] * 2),
        lambda x, y, z: updated(z, x, 1, 1),
    ),
    "update_both": (
        lambda x, y, z: xb.dynamic_update_slice(x, y, [x.builder.constant(1, xb.s32)] * 2),
        lambda x, y, z: updated(x, y, 1, 1),
    ),
    "rows": (
        lambda x, y, z: xb.gather(
            x,
            x.builder.constant([[0], [1], [7]], xb.s32),
            xb.GatherDimensionNumbers([1], [0], [0], 1),
            [1, 4],
        ),
        lambda x, y, z: x[np.minimum([0, 1, 7], len(x) - 1)],
    ),
}


def updated(x: Array, part: Array, *at: int) -> Array:
    result = x.copy()
    begin = [max(0, min(a, n - m)) for a, n, m in zip(at, x.shape, part.shape, strict=True)]
    result[tuple(slice(s, s + n) for s, n in zip(begin, part.shape, strict=True))] = part
    return result


def test_several_operands() -> None:
    shapes = [(xb.f32[5, 4], 2), (xb.f32[3, 3], 1), (xb.f32[5, 4], 0)]
    sizes = [((m, n), (k,), ()) for m, n, k in ((5, 4, 3), (3, 3, 1), (3, 4, 2), (4, 3, 0))]
    check(SEVERAL, shapes, sizes)


def test_bounded_contracting_dimensions() -> None:
    """One or both operands have a bounded contracting dimension."""
    cases: dict[str, Case] = {
        "both": (lambda x, y, z: xb.dot(y, x), lambda x, y, z: y @ x),
        "left": (lambda x, y, z: xb.dot(y, z), lambda x, y, z: y @ z[: y.shape[1]]),
        "right": (
            lambda x, y, z: xb.dot(xb.transpose(z, [1, 0]), x),
            lambda x, y, z: z.T[:, : len(x)] @ x,
        ),
    }
    shapes = [(xb.f32[5, 4], 2), (xb.f32[3, 5], 2), (xb.f32[5, 4], 0)]
    check(cases, shapes, [((n, m), (k, n), ()) for n, m, k in ((5, 4, 3), (2, 0, 3), (0, 3, 1))])


def test_bounded_batch_dimensions() -> None:
    """Ops with a bounded batch dimension."""
    matrix = np.array([[4, 2], [2, 8]], np.float32)
    numbers_of = xb.DotDimensionNumbers([2], [1], [0], [0])
    convolution = xb.ConvolutionDimensionNumbers(0, 1, (2,), 1, 0, (2,), 0, 1, (2,))

    def same(x: xb.XlaOp) -> xb.XlaOp:
        return xb.add(x * 0.0, x.builder.constant(matrix), broadcast_dimensions=[1, 2])

    cases: dict[str, Case] = {
        "dot": (lambda x: xb.dot_general(x, x, numbers_of), lambda x: x @ x),
        "solve": (
            lambda x: xb.triangular_solve(same(x), x, True, True, False, "NO_TRANSPOSE"),
            lambda x: np.linalg.solve(np.tril(matrix), x),
        ),
        "fft": (
            lambda x: xb.imag(xb.fft(xb.complex(x, x), "FFT", [2])),
            lambda x: np.stack([x[..., 0] + x[..., 1], x[..., 0] - x[..., 1]], -1),
        ),
        "convolution": (
            lambda x: xb.conv_general_dilated(
                x, x.builder.constant(matrix[:, :, None]), [1], [(0, 0)], None, None, convolution
            ),
            lambda x: np.einsum("bfk,of->bok", x, matrix),
        ),
        "mean": (
            lambda x: xb.get_tuple_element(
                xb.batch_norm_training(
                    x,
                    x.builder.constant([1.0, 1.0], xb.f32),
                    x.builder.constant([0.0, 0.0], xb.f32),
                    0.0,
                    1,
                ),
                1,
            ),
            lambda x: x.mean((0, 2), dtype=np.float64) if len(x) else np.zeros(2),
        ),
    }
    check(cases, [(xb.f32[4, 2, 2], 1)], [((n,),) for n in (4, 1, 2)])


# Unsupported ops


@each_row(
    "shape, sizes",
    [("f32[<=6]", [2, 3]), ("f32[<=1]", []), ("f32[<=6,<=5]", [2, 3, 5])],
)
def test_ops_whose_results_lose_the_bounded_size(shape: str, sizes: list[int]) -> None:
    """XLA infers fixed sizes, whose elements would be undefined."""
    b = xb.XlaBuilder("lost")
    root = xb.reshape(b.parameter(shape), sizes)
    with pytest.raises(CompileError) as caught:
        lowering.compile(b.build(root), "cpu")
    text = str(caught.value)
    assert "lost: reshape, recorded at " in text
    assert "can't run on cpu: the result has the bound as a fixed size" in text
    assert (
        "\nfix: mark the bounded dimension of the result with xb.reshape_with_inferred_dimension"
        in text
    )


def test_a_scatter_that_xla_does_not_support() -> None:
    b = xb.XlaBuilder("window")
    x, at = b.parameter("f32[<=10,3]"), b.constant([[0], [2]], xb.s32)
    part = b.parameter("f32[2,<=2]")
    numbers_of = xb.ScatterDimensionNumbers([1], [0], [0], 1)
    with pytest.raises(CompileError) as caught:
        lowering.compile(b.build(xb.scatter(x, at, part, xb.add, numbers_of)), "cpu")
    text = str(caught.value)
    assert text.startswith("compile: ")
    assert "window" in text
    assert "\nfix: " in text


# Chains of ops

Step = tuple[xb.XlaOp, Callable[[Array], Array]]


def steps_of(x: xb.XlaOp, draw: Callable[[Any], Any]) -> Step:
    """An op on `x`, and its NumPy equivalent."""
    shape = x.shape
    assert isinstance(shape, xb.ArrayShape)
    rank = shape.rank
    kinds = ["neg", "number", "self", "broadcast", "mask"]
    if rank:
        kinds += ["transpose", "rev", "pad", "concatenate", "reduce", "sort", "windows", "slice"]
        kinds += ["row", "cut"]
    if rank > 1:
        kinds += ["combine"]
    kind = draw(st.sampled_from(kinds))
    d = draw(st.integers(0, rank - 1)) if rank else 0
    if kind == "neg":
        return -x, np.negative
    if kind == "number":
        return x * 3 - 1, lambda a: a * np.int32(3) - np.int32(1)
    if kind == "self":
        return x + x, lambda a: a + a
    if kind == "mask":
        return xb.select(x > 0, x, -x), np.abs
    if kind == "broadcast":
        return xb.broadcast(x, [2]), lambda a: np.stack([a, a])
    if kind == "transpose":
        order = draw(st.permutations(range(rank)))
        return xb.transpose(x, order), lambda a: a.transpose(order)
    if kind == "rev":
        return xb.rev(x, [d]), lambda a: np.flip(a, d)
    if kind == "concatenate":
        return xb.concatenate([x, x], d), lambda a: np.concatenate([a, a], d)
    if kind == "reduce":
        return xb.reduce(x, 0, xb.add, [d]), lambda a: a.sum(d, dtype=np.int32)
    if kind == "sort":
        return xb.sort(x, dimension=d), lambda a: np.sort(a, d)
    if kind == "pad":
        low, high = draw(st.integers(0, 2)), draw(st.integers(0, 2))
        config = [(low, high, 0) if i == d else (0, 0, 0) for i in range(rank)]
        widths = [(low, high) if i == d else (0, 0) for i in range(rank)]
        return xb.pad(x, 7, config), lambda a: np.pad(a, widths, constant_values=7)
    if kind == "windows":
        low = draw(st.integers(0, 1))
        ones = [1] * rank
        lengths = [2 if i == d else 1 for i in range(rank)]
        padding = [(low, 1) if i == d else (0, 0) for i in range(rank)]

        def sums(a: Array) -> Array:
            a = np.pad(a, padding)
            rows = np.moveaxis(a, d, 0)
            return np.moveaxis(rows[1:] + rows[:-1], 0, d)

        return xb.reduce_window(x, 0, xb.add, lengths, ones, padding), sums
    if kind == "slice":
        size = shape.dimensions[d]
        start, stride = draw(st.integers(0, max(size - 2, 0))), draw(st.integers(1, 2))
        if (size - start + stride - 1) // stride == 1 != size:
            return -x, np.negative  # XLA infers a fixed size for a slice of one element
        place = tuple(slice(start, None, stride) if i == d else slice(None) for i in range(rank))
        return xb.slice_in_dim(x, start, size, stride, d), lambda a: a[place]
    if kind == "row":
        return x + xb.broadcast_in_dim(
            xb.reduce(x, -(2**31), xb.max, [d]),
            shape.dimensions,
            [i for i in range(rank) if i != d],
        ), lambda a: a + np.expand_dims(a.max(d, initial=-(2**31)), d)
    if kind == "cut":
        most = draw(st.integers(0, shape.dimensions[d]))
        least = xb.min(xb.get_dimension_size(x, d), x.builder.constant(most, xb.s32))
        place = tuple(slice(most) if i == d else slice(None) for i in range(rank))
        return xb.set_dimension_size(x, least, d), lambda a: a[place]
    places = list(range(rank - 1))
    first = draw(st.sampled_from(places))

    def combined(a: Array) -> Array:
        sizes = a.shape
        return a.reshape(*sizes[:first], sizes[first] * sizes[first + 1], *sizes[first + 2 :])

    return xb.collapse(x, [first, first + 1]), combined


@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(st.data())
def test_chains(data: st.DataObject) -> None:
    """Inferred shapes agree with the verifiers of XLA and StableHLO; the results are right."""
    dimensions = tuple(data.draw(st.lists(st.integers(2, 5), min_size=1, max_size=3)))
    dynamic = data.draw(st.integers(1, len(dimensions)))
    b = xb.XlaBuilder("chain")
    whole = b.parameter(xb.s32[dimensions])
    x = bounded(whole, [b.parameter(xb.s32[()]) for _ in range(dynamic)])
    meaning: list[Callable[[Array], Array]] = []
    for _ in range(data.draw(st.integers(1, 4))):
        x, one = steps_of(x, data.draw)
        meaning.append(one)
    computation = b.build(x)
    # XLA's HLO parser infers every shape, and compares it with the text.
    assert f"->{x.shape}" in signature_line(hlo_conversion.parsed_hlo_text(str(computation)))
    program = lowering.compile(computation, "cpu")
    array = RANDOM.integers(-9, 10, dimensions, np.int32)
    for _ in range(2):
        sizes = [data.draw(st.integers(0, n)) for n in dimensions[:dynamic]]
        want = array[tuple(slice(n) for n in sizes)]
        for one in meaning:
            want = one(want).astype(np.int32)
        actual = np.asarray(program(array, *(np.int32(n) for n in sizes)))
        assert_identical(actual, np.ascontiguousarray(want).reshape(want.shape))


def signature_line(text: str) -> str:
    """Return the first line of HLO text, without layouts."""
    return text.split("\n", 1)[0].replace("{0}", "").replace("{1,0}", "").replace("{2,1,0}", "")


def test_results_are_jax_arrays() -> None:
    b = xb.XlaBuilder("results")
    program = lowering.compile(b.build(-b.parameter("f32[<=4]")), "cpu")
    assert isinstance(program(np.ones(3, np.float32)), jax.Array)
