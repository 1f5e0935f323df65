"""Execute the worked examples of XLA's documents, with the numbers that they show.

There is one test for each example, in the order of the documents: Operation Semantics,
Broadcasting, Shapes. Examples of layouts and tiles are tested in `tests/builder/layout`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support import parameter_like, run, run_replicated
from tables import each_row

import builder as xb
import lowering

F32 = np.float32
INFINITY = float("inf")


def value(build: Callable[..., xb.XlaOp], *arrays: Any) -> Any:
    """Return the result of a computation for these arrays as nested lists."""
    b = xb.XlaBuilder("example")
    arguments = [np.asarray(a) for a in arrays]
    arguments = [a.astype(F32) if a.dtype == np.float64 else a for a in arguments]
    arguments = [a.astype(np.int32) if a.dtype == np.int64 else a for a in arguments]
    ops = [parameter_like(b, a) for a in arguments]
    return _lists(run(b.build(build(*ops)), *arguments))


def _lists(result: Any) -> Any:
    return tuple(map(_lists, result)) if isinstance(result, tuple) else result.tolist()


def constant(op: xb.XlaOp, number: float, t: xb.PrimitiveType = xb.s32) -> xb.XlaOp:
    return op.builder.constant(number, t)


CUBE = np.array(
    [
        [[10, 11, 12], [15, 16, 17]],
        [[20, 21, 22], [25, 26, 27]],
        [[30, 31, 32], [35, 36, 37]],
        [[40, 41, 42], [45, 46, 47]],
    ],
    F32,
)
FLAT = [10, 11, 12, 15, 16, 17, 20, 21, 22, 25, 26, 27]
FLAT += [30, 31, 32, 35, 36, 37, 40, 41, 42, 45, 46, 47]


# Operation Semantics


def replicated(build: Callable[[xb.XlaOp], xb.XlaOp], *rows: list[float]) -> list[list[float]]:
    """Return the result of each replica for one array per replica."""
    b = xb.XlaBuilder("example")
    x = b.parameter(xb.f32[len(rows[0])])
    arrays = [np.array(row, F32) for row in rows]
    results = run_replicated(b.build(build(x)), arrays, num_replicas=len(rows))
    return [row.tolist() for row in results]


def test_all_gather() -> None:
    got = replicated(lambda x: xb.all_gather(x, 0, 2), [1.0, 2.5], [3.0, 5.25])
    assert got == [[1.0, 2.5, 3.0, 5.25]] * 2


def test_all_reduce() -> None:
    got = replicated(lambda x: xb.all_reduce(x, xb.add), [1.0, 2.5], [3.0, 5.25])
    assert got == [[4.0, 7.75]] * 2


def test_all_to_all() -> None:
    """Each of four cores splits f32[4,16] into f32[4,4] and concatenates f32[16,4]."""
    b = xb.XlaBuilder("alltoall")
    x = b.parameter(xb.f32[4, 16], "x")
    y = xb.all_to_all(x, split_dimension=1, concat_dimension=0, split_count=4)
    assert y.shape is xb.f32[16, 4]
    rows = [np.arange(64, dtype=F32).reshape(4, 16) + 100 * core for core in range(4)]
    for core, got in enumerate(run_replicated(b.build(y), rows, num_replicas=4)):
        want = np.concatenate([row[:, 4 * core : 4 * core + 4] for row in rows], 0)
        assert np.array_equal(got, want)


def test_bitcast_convert_type() -> None:
    for before, t, after in (
        ("f32[10]", xb.f16, "f16[10,2]"),
        ("f32[]", xb.f16, "f16[2]"),
        ("f16[10,2]", xb.f32, "f32[10]"),
    ):
        x = xb.XlaBuilder().parameter(before)
        assert str(xb.bitcast_convert_type(x, t).shape) == after


def test_broadcast() -> None:
    assert value(lambda x: xb.broadcast(x, [2, 3]), 2.0) == [[2.0] * 3] * 2


def test_clamp() -> None:
    got = value(lambda x: xb.clamp(constant(x, 0), x, constant(x, 6)), [-1, 5, 9])
    assert got == [0, 5, 6]


def test_collapse() -> None:
    """The document exchanges the last two results; its definition agrees with this test."""
    got = value(
        lambda v: xb.tuple(*(xb.collapse(v, places) for places in ([0, 1, 2], [1, 2], [0, 1]))),
        CUBE,
    )
    assert got == (
        FLAT,
        [FLAT[i : i + 6] for i in range(0, 24, 6)],
        [FLAT[i : i + 3] for i in range(0, 24, 3)],
    )


def test_concatenate() -> None:
    vector = value(lambda *xs: xb.concatenate(xs, 0), [2, 3], [4, 5], [6, 7])
    assert vector == [2, 3, 4, 5, 6, 7]
    matrix = value(lambda *xs: xb.concatenate(xs, 0), [[1, 2], [3, 4], [5, 6]], [[7, 8]])
    assert matrix == [[1, 2], [3, 4], [5, 6], [7, 8]]


@each_row("index, branch", [(0, 0), (1, 1), (2, 2), (3, 2), (-1, 2), (2**31 - 1, 2)])
def test_conditional_with_an_index_out_of_range(index: int, branch: int) -> None:
    """An index below 0 or at least N selects the last branch."""

    def build(which: xb.XlaOp, x: xb.XlaOp) -> xb.XlaOp:
        return xb.conditional(
            which, [lambda v: v + 10, lambda v: v + 20, lambda v: v + 30], [x] * 3
        )

    assert value(build, index, 1) == 11 + 10 * branch


def test_convert_element_type() -> None:
    assert value(lambda a: xb.convert_element_type(a, xb.f32), [0, 1, 2]) == [0.0, 1.0, 2.0]


def test_custom_call() -> None:
    """The document's myfunc reads its operands and writes one element."""
    pointer = ctypes.POINTER(ctypes.c_float)
    seen: list[float] = []

    @ctypes.CFUNCTYPE(None, pointer, ctypes.POINTER(pointer))
    def myfunc(out: Any, inputs: Any) -> None:
        seen.extend(inputs[0][0:2] + inputs[1][0:6])
        out[0] = inputs[0][1] + inputs[1][3]

    lowering.register_custom_call_target("document_myfunc", myfunc)
    b = xb.XlaBuilder("example")
    x = b.parameter(xb.f32[2])
    y = b.parameter(xb.f32[2, 3])
    z = xb.custom_call("document_myfunc", [x, y], xb.f32[3, 3])
    assert z.shape is xb.f32[3, 3]
    got = lowering.compile(b.build(z))(
        np.array([1, 2], F32), np.array([[10, 20, 30], [40, 50, 60]], F32)
    )
    assert np.asarray(got)[0, 0] == 2 + 40
    assert seen == [1, 2, 10, 20, 30, 40, 50, 60]


def test_dot_general_with_contracting_dimensions() -> None:
    lhs, rhs = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]
    got = value(lambda x, y: xb.dot_general(x, y, xb.DotDimensionNumbers([1], [1])), lhs, rhs)
    assert got == [[6.0, 12.0], [15.0, 30.0]]


def test_dot_general_with_batch_dimensions() -> None:
    lhs = [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]]
    rhs = [[[1.0, 0.0], [0.0, 1.0]]] * 2
    numbers = xb.DotDimensionNumbers([2], [1], [0], [0])
    assert value(lambda x, y: xb.dot_general(x, y, numbers), lhs, rhs) == lhs


def test_dynamic_slice() -> None:
    a = [0.0, 1.0, 2.0, 3.0, 4.0]
    assert value(lambda a, s: xb.dynamic_slice(a, [s], [2]), a, 2) == [2.0, 3.0]
    b = np.arange(12, dtype=F32).reshape(4, 3)
    got = value(lambda b, i, j: xb.dynamic_slice(b, [i, j], [2, 2]), b, 2, 1)
    assert got == [[7.0, 8.0], [10.0, 11.0]]


def test_dynamic_update_slice() -> None:
    a, u = [0.0, 1.0, 2.0, 3.0, 4.0], [5.0, 6.0]
    got = value(lambda a, u, s: xb.dynamic_update_slice(a, u, [s]), a, u, 2)
    assert got == [0.0, 1.0, 5.0, 6.0, 4.0]
    b = np.arange(12, dtype=F32).reshape(4, 3)
    u2 = [[12.0, 13.0], [14.0, 15.0], [16.0, 17.0]]
    got = value(lambda b, u, i, j: xb.dynamic_update_slice(b, u, [i, j]), b, u2, 1, 1)
    assert got == [[0.0, 1.0, 2.0], [3.0, 12.0, 13.0], [6.0, 14.0, 15.0], [9.0, 16.0, 17.0]]


def test_fft_lengths() -> None:
    """RFFT of 16 and of 17 have the same shape; the innermost axis is length // 2 + 1."""
    b = xb.XlaBuilder()
    for length in (16, 17):
        assert xb.fft(b.parameter(xb.f32[length]), "RFFT", [length]).shape is xb.c64[9]
        assert xb.fft(b.parameter(xb.c64[9]), "IRFFT", [length]).shape is xb.f32[length]


PLACES = [[0, 0], [8, 5], [3, 2], [1, 4], [7, 0]]


def test_gather_of_slices() -> None:
    """Gather five slices [8,6] of an array [16,11] at start indices s32[5,2]."""
    array = np.arange(176, dtype=F32).reshape(16, 11)
    numbers = xb.GatherDimensionNumbers([1, 2], [], [0, 1], 1)
    got = value(lambda x, i: xb.gather(x, i, numbers, [8, 6]), array, PLACES)
    assert got == [array[x : x + 8, y : y + 6].tolist() for x, y in PLACES]


def test_gather_of_a_matrix_of_slices() -> None:
    """Start indices s32[4,5,2] result in two batch dimensions."""
    array = np.arange(176, dtype=F32).reshape(16, 11)
    places = [PLACES[i:] + PLACES[:i] for i in range(4)]
    numbers = xb.GatherDimensionNumbers([2, 3], [], [0, 1], 2)
    got = value(lambda x, i: xb.gather(x, i, numbers, [8, 6]), array, places)
    assert got == [[array[x : x + 8, y : y + 6].tolist() for x, y in row] for row in places]


def test_gather_of_rows() -> None:
    """tf.gather_nd: the first dimension of the slices [1,11] is collapsed."""
    array = np.arange(176, dtype=F32).reshape(16, 11)
    rows = [[3, 15, 0, 7, 7], [1, 2, 3, 4, 5]]
    numbers = xb.GatherDimensionNumbers([2], [0], [0], 2)
    got = value(lambda x, i: xb.gather(x, i, numbers, [1, 11]), array, rows)
    assert got == array[rows].tolist()


def test_set_dimension_size() -> None:
    """Elements beyond the size are ignored: 1 + ... + 5, 1 * ... * 5, 1 + ... + 6."""

    def build(v: xb.XlaOp) -> xb.XlaOp:
        five = xb.set_dimension_size(v, constant(v, 5), 0)
        six = xb.set_dimension_size(v, constant(v, 6), 0)
        assert str(five.shape) == "f32[<=10]"
        return xb.tuple(
            xb.reduce(five, 0.0, xb.add, [0]),
            xb.reduce(five, 1.0, xb.mul, [0]),
            xb.reduce(six, 0.0, xb.add, [0]),
        )

    assert value(build, np.arange(1, 11, dtype=F32)) == (15.0, 120.0, 21.0)


def test_get_tuple_element() -> None:
    b = xb.XlaBuilder("example")
    v = b.constant(np.arange(10, dtype=F32))
    t = xb.tuple(v, b.constant(5, xb.s32))
    assert str(t.shape) == "(f32[10], s32[])"
    element = xb.get_tuple_element(t, 1)
    assert element.shape is xb.s32[()]
    assert run(b.build(element)) == 5


def test_iota() -> None:
    b = xb.XlaBuilder("example")
    rows, columns = run(b.build(xb.tuple(*(b.iota(xb.s32[4, 8], d) for d in (0, 1)))))
    assert rows.tolist() == [[row] * 8 for row in range(4)]
    assert columns.tolist() == [list(range(8))] * 4


def test_map() -> None:
    """elem_out = computation(elem1, elem2, elem3) at each index."""

    def build(x: xb.XlaOp, y: xb.XlaOp, z: xb.XlaOp) -> xb.XlaOp:
        return xb.map([x, y, z], lambda a, b, c: a * b + c, [0])

    assert value(build, [1, 2], [3, 4], [5, 6]) == [8, 14]


def test_pad() -> None:
    """Edge and interior padding of two dimensions, negative padding, and no padding."""
    x = [[1, 2, 3], [4, 5, 6]]

    def build(x: xb.XlaOp, zero: xb.XlaOp) -> xb.XlaOp:
        return xb.tuple(
            xb.pad(x, zero, [(1, 2, 0), (0, 1, 0)]),
            xb.pad(x, zero, [(0, 0, 1), (0, 0, 2)]),
            xb.pad(x, zero, [(-1, 0, 0), (1, -2, 1)]),
            xb.pad(x, zero, [(0, 0, 0), (0, 0, 0)]),
        )

    edges, interior, both, same = value(build, x, 0)
    assert edges == [[0] * 4, [1, 2, 3, 0], [4, 5, 6, 0], [0] * 4, [0] * 4]
    assert interior == [[1, 0, 0, 2, 0, 0, 3], [0] * 7, [4, 0, 0, 5, 0, 0, 6]]
    # Interior padding is inserted before negative edge padding removes elements.
    assert both == [[0, 4, 0, 5]]
    assert same == x


def test_reduce_of_a_vector() -> None:
    """f(10, f(11, f(12, f(init, 13)))), in any order."""
    assert value(lambda x: xb.reduce(x, 0, xb.add, [0]), [10, 11, 12, 13]) == 46


def test_reduce_of_a_matrix() -> None:
    got = value(
        lambda x: xb.tuple(xb.reduce(x, 0, xb.add, [0]), xb.reduce(x, 0, xb.add, [1])),
        [[1, 2, 3], [4, 5, 6]],
    )
    assert got == ([5, 7, 9], [6, 15])


def test_reduce_of_a_cube() -> None:
    """The operand has the numbers 1 to 6 four times."""

    def build(x: xb.XlaOp) -> xb.XlaOp:
        return xb.tuple(*(xb.reduce(x, 0, xb.add, d) for d in ([0], [2], [0, 1], [0, 1, 2])))

    got = value(build, np.tile(np.arange(1, 7).reshape(1, 2, 3), (4, 1, 1)))
    assert got == ([[4, 8, 12], [16, 20, 24]], [[6, 15]] * 4, [20, 28, 36], 84)


def test_variadic_reduce_of_the_maximum_and_its_index() -> None:
    def f(largest: xb.XlaOp, place: xb.XlaOp, value: xb.XlaOp, index: xb.XlaOp) -> Any:
        is_larger = value >= largest
        return xb.select(is_larger, value, largest), xb.select(is_larger, index, place)

    def build(v: xb.XlaOp, k: xb.XlaOp) -> xb.XlaOp:
        return xb.reduce([v, k], [-INFINITY, -1], f, [0])

    assert value(build, [2.0, 7.5, -1.0, 7.0], [0, 1, 2, 3]) == (7.5, 1)


def test_reduce_scatter() -> None:
    got = replicated(lambda x: xb.reduce_scatter(x, xb.add, 0, 2), [1.0, 2.25], [3.0, 5.25])
    assert got == [[4.0], [7.5]]


def test_reduce_window() -> None:
    """Return the maxima of windows [2,3] of a matrix [4,6] that do not overlap."""
    matrix = np.array(
        [[7, 2, 5, 3, 10, 2], [3, 8, 9, 3, 4, 2], [1, 5, 7, 5, 6, 1], [0, 6, 2, 7, 2, 8]]
    )

    def build(x: xb.XlaOp) -> xb.XlaOp:
        return xb.reduce_window(x, -INFINITY, xb.max, [2, 3], [2, 3], "VALID")

    assert value(build, matrix.astype(F32)) == [[9, 10], [7, 8]]


def test_reduce_window_with_padding() -> None:
    """The minima of windows of size 3 and stride 2, with the largest number as initial value."""
    largest = float(np.finfo(F32).max)

    def build(x: xb.XlaOp) -> xb.XlaOp:
        windows = [xb.reduce_window(x, largest, xb.min, [3], [2], p) for p in ("VALID", "SAME")]
        return xb.tuple(*windows)

    valid, same = value(build, [10000.0, 1000.0, 100.0, 10.0, 1.0])
    assert valid == [100, 1]
    assert same == [1000, 10, 1]


RESHAPES = [
    ([0, 1, 2], [24], FLAT),
    ([0, 1, 2], [8, 3], FLAT),
    (
        [1, 2, 0],
        [24],
        [
            *(10, 20, 30, 40, 11, 21, 31, 41, 12, 22, 32, 42),
            *(15, 25, 35, 45, 16, 26, 36, 46, 17, 27, 37, 47),
        ],
    ),
    ([1, 2, 0], [8, 3], None),
    ([1, 2, 0], [2, 6, 2], None),
]


def test_reshape_with_orders_of_dimensions() -> None:
    def build(v: xb.XlaOp) -> xb.XlaOp:
        return xb.tuple(*(xb.reshape(v, sizes, dimensions=order) for order, sizes, _ in RESHAPES))

    in_order, rows, turned, turned_rows, turned_cube = value(build, CUBE)
    assert in_order == FLAT
    assert rows == [FLAT[i : i + 3] for i in range(0, 24, 3)]
    assert turned == RESHAPES[2][2]
    assert turned_rows == [
        *([10, 20, 30], [40, 11, 21], [31, 41, 12], [22, 32, 42]),
        *([15, 25, 35], [45, 16, 26], [36, 46, 17], [27, 37, 47]),
    ]
    assert turned_cube == [
        [[10, 20], [30, 40], [11, 21], [31, 41], [12, 22], [32, 42]],
        [[15, 25], [35, 45], [16, 26], [36, 46], [17, 27], [37, 47]],
    ]


def test_reshape_of_scalars() -> None:
    assert value(lambda x: xb.reshape(x, [], dimensions=[0, 1]), [[5.0]]) == 5
    assert value(lambda x: xb.reshape(x, [1, 1], dimensions=[]), 5.0) == [[5]]


def test_select() -> None:
    v1, v2 = [1, 2, 3, 4], [100, 200, 300, 400]
    assert value(xb.select, [True, False, False, True], v1, v2) == [1, 200, 300, 4]
    assert value(xb.select, True, v1, v2) == [1, 2, 3, 4]


def scattered(operand: list[list[float]], strides: list[int]) -> Any:
    def build(x: xb.XlaOp, source: xb.XlaOp) -> xb.XlaOp:
        return xb.select_and_scatter(x, xb.ge, [2, 3], strides, "VALID", source, 0.0, xb.add)

    return value(build, np.array(operand, F32), np.array([[2, 6], [3, 1]], F32))


def test_select_and_scatter() -> None:
    matrix = [[7, 2, 5, 3, 10, 2], [3, 8, 9, 3, 4, 2], [1, 5, 7, 5, 6, 1], [0, 6, 2, 7, 2, 8]]
    assert scattered(matrix, [2, 3]) == [
        *([0, 0, 0, 0, 6, 0], [0, 0, 2, 0, 0, 0], [0, 0, 3, 0, 0, 0], [0, 0, 0, 0, 0, 1])
    ]


def test_select_and_scatter_of_windows_that_overlap() -> None:
    """The 9 is selected twice, so its result is 2 + 6."""
    matrix = [[7, 2, 5, 3, 8], [3, 8, 9, 3, 4], [1, 5, 7, 5, 6], [0, 6, 2, 10, 2]]
    assert scattered(matrix, [2, 2]) == [
        *([0, 0, 0, 0, 0], [0, 0, 8, 0, 0], [0, 0, 3, 0, 0], [0, 0, 0, 1, 0])
    ]


def test_slice() -> None:
    assert value(lambda a: xb.slice(a, [2], [4]), [0.0, 1.0, 2.0, 3.0, 4.0]) == [2.0, 3.0]
    b = np.arange(12, dtype=F32).reshape(4, 3)
    assert value(lambda b: xb.slice(b, [2, 1], [4, 3]), b) == [[7.0, 8.0], [10.0, 11.0]]


def test_sort_of_three_operands() -> None:
    def less(a0: Any, b0: Any, a1: Any, b1: Any, a2: Any, b2: Any) -> xb.XlaOp:
        return xb.lt(a0, b0)

    first, second, third = value(
        lambda *xs: xb.sort(xs, less, 0), [3, 1], [42, 50], np.array([-3.0, 1.1], F32)
    )
    assert (first, second, third) == ([1, 3], [50, 42], [float(F32(1.1)), -3.0])


def test_while_a_thousand_times() -> None:
    b = xb.XlaBuilder("example")
    zero = b.constant(np.zeros(10, F32))

    def body(state: xb.XlaOp) -> Any:
        iteration, vector = state
        step = vector.builder.constant(np.arange(10, dtype=F32))
        return iteration + 1, vector + step

    root = xb.while_(lambda result: result[0] < 1000, body, [b.constant(0, xb.s32), zero])
    count, total = run(b.build(root))
    assert count == 1000
    assert total.tolist() == [1000.0 * i for i in range(10)]


# Broadcasting

MATRIX = [[1, 2, 3], [4, 5, 6]]


def added(lhs: Any, rhs: Any, dimensions: list[int] | None = None) -> Any:
    return value(lambda x, y: xb.add(x, y, broadcast_dimensions=dimensions), lhs, rhs)


def test_a_vector_is_added_to_each_row() -> None:
    assert added(MATRIX, [7, 8, 9], [1]) == [[8, 10, 12], [11, 13, 15]]
    with pytest.raises(xb.ShapeInferenceError, match="broadcast_dimensions"):
        added(MATRIX, [7, 8, 9])


def test_a_scalar_is_added_to_each_element() -> None:
    assert added(MATRIX, 7) == [[8, 9, 10], [11, 12, 13]]


def test_two_ways_to_add_a_vector_to_a_square_matrix() -> None:
    zeros = np.zeros((3, 3), np.int32)
    assert added(zeros, [7, 8, 9], [1]) == [[7, 8, 9]] * 3
    assert added(zeros, [7, 8, 9], [0]) == [[7] * 3, [8] * 3, [9] * 3]


def test_a_matrix_is_matched_to_two_dimensions_of_a_cuboid() -> None:
    cuboid, matrix = np.arange(24).reshape(2, 3, 4), np.arange(12).reshape(3, 4)
    assert added(cuboid, matrix, [1, 2]) == (cuboid + matrix).tolist()


@each_row("dimension", [0, 1, 2, 3])
def test_a_vector_is_matched_to_any_dimension(dimension: int) -> None:
    m_n_p_q = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    t = 100 * np.arange(m_n_p_q.shape[dimension])
    want = m_n_p_q + t.reshape([-1 if d == dimension else 1 for d in range(4)])
    assert added(m_n_p_q, t, [dimension]) == want.tolist()


@each_row("places", [(2, 3), (1, 2), (0, 3)])
def test_a_matrix_is_matched_to_any_two_dimensions(places: tuple[int, int]) -> None:
    m_n_p_q = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    sizes = [m_n_p_q.shape[p] for p in places]
    t_v = 1000 * np.arange(np.prod(sizes)).reshape(sizes)
    want = m_n_p_q + t_v.reshape([s if d in places else 1 for d, s in enumerate(m_n_p_q.shape)])
    assert added(m_n_p_q, t_v, list(places)) == want.tolist()


def test_dimensions_must_be_in_increasing_order() -> None:
    """Mapping V to N and T to P is not allowed."""
    m_n_p_q, t_v = np.zeros((2, 3, 4, 5), np.int32), np.zeros((4, 3), np.int32)
    with pytest.raises(xb.ShapeInferenceError, match="increasing"):
        added(m_n_p_q, t_v, [2, 1])


@pytest.mark.parametrize(
    ("lhs", "rhs", "result"),
    [
        ((2, 1), (2, 3), (2, 3)),
        ((1, 2, 5), (7, 2, 5), (7, 2, 5)),
        ((7, 2, 5), (7, 1, 5), (7, 2, 5)),
        ((7, 2, 5), (7, 2, 6), None),
        # An outer product.
        ((2, 1), (1, 3), (2, 3)),
    ],
)
def test_sizes_of_one_are_broadcast(lhs: Any, rhs: Any, result: Any) -> None:
    x, y = np.arange(np.prod(lhs)).reshape(lhs), 100 * np.arange(np.prod(rhs)).reshape(rhs)
    if result is None:
        with pytest.raises(xb.ShapeInferenceError, match="5"):
            added(x, y)
        return
    got = added(x, y)
    assert got == (x + y).tolist()
    assert np.shape(got) == result


def test_a_row_is_added_to_a_vector_of_four() -> None:
    """The row is 1x2. The vector is broadcast to 4x2 along dimension 0, and then the row."""
    assert added([1, 2, 3, 4], [[5, 6]], [0]) == [[6, 7], [7, 8], [8, 9], [9, 10]]


def test_a_row_is_added_to_a_cuboid_of_4x3x1() -> None:
    """A matrix 1x2 along dimensions (1, 2) is broadcast to 4x1x2, and both to 4x3x2."""
    cuboid, row = np.arange(12).reshape(4, 3, 1), np.array([[50, 60]])
    got = added(cuboid, row, [1, 2])
    assert np.shape(got) == (4, 3, 2)
    assert got == (cuboid + row.reshape(1, 1, 2)).tolist()


# Shapes


def test_dimensions_are_listed_in_the_order_of_their_numbers() -> None:
    shape = xb.array_shape(xb.f32, [2, 3, 5, 7])
    assert shape.dimensions == (2, 3, 5, 7)
    assert [shape.dimensions[d] for d in (0, 1, 2)] == [2, 3, 5]
    assert shape.rank == 4
