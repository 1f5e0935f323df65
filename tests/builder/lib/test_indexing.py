"""``x[key]`` and ``x.at[key]``, compared with NumPy's basic indexing."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from library_calls import run
from tables import each_row

import builder as xb
import lowering

Key = Any

SHAPES = ((), (5,), (1,), (4, 9), (2, 1, 7), (3, 4, 2, 5), (3, 0, 2))
KEYS = 60  # for each shape

DYNAMIC = np.int32


def random_key(draw: np.random.Generator, shape: tuple[int, ...], *, dynamic: bool) -> Key:
    """Return a key of NumPy's basic indexing; an index at run time is a NumPy scalar of s32."""

    def entry(size: int) -> Any:
        kind = draw.integers(0, 10)
        if kind < 3 and size:
            return int(draw.integers(-size, size))
        if kind < 5 and size and dynamic:
            return DYNAMIC(draw.integers(-2, size + 2))
        bounds = [None, *range(-size - 3, size + 4)]
        start, stop = (bounds[draw.integers(len(bounds))] for _ in range(2))
        step = [None, 1, 2, 3, 50, -1, -2, -3, -50][draw.integers(9)]
        return slice(start, stop, step)

    count = int(draw.integers(0, len(shape) + 1))
    key = [entry(size) for size in shape[:count]]
    if len(shape) and draw.integers(3) == 0:  # some of the last dimensions, after an ellipsis
        last = int(draw.integers(0, len(shape) - count + 1))
        key += [..., *[entry(size) for size in shape[len(shape) - last :]]]
    for _ in range(draw.integers(0, 3)):
        key.insert(int(draw.integers(0, len(key) + 1)), None)
    return key[0] if len(key) == 1 and draw.integers(2) else tuple(key)


def static(shape: tuple[int, ...], key: Key) -> Key:
    """Return `key` with the indices at run time clamped, as XLA does."""
    entries = key if isinstance(key, tuple) else (key,)
    given = sum(1 for entry in entries if entry is not None and entry is not ...)
    clamped, dimension = [], 0
    for entry in entries:
        if isinstance(entry, DYNAMIC):
            entry = min(max(int(entry), 0), shape[dimension] - 1)
        clamped.append(entry)
        if entry is ...:
            dimension += len(shape) - given
        elif entry is not None:
            dimension += 1
    return tuple(clamped)


def with_ops(key: Key, indices: list[np.int32], ops: list[xb.XlaOp]) -> Key:
    """Return `key` with an op for each index at run time; their values go to `indices`."""

    def op_for(entry: Any) -> Any:
        if not isinstance(entry, DYNAMIC):
            return entry
        indices.append(entry)
        ops.append(ops[0].builder.parameter(xb.s32[()]))
        return ops[-1]

    return tuple(map(op_for, key)) if isinstance(key, tuple) else op_for(key)


def record_and_run(x: np.ndarray[Any, Any], keys: list[Key], record: Callable[..., Any]) -> Any:
    """Return the results of ``record(x, key, number of the key)`` for all keys."""
    b = xb.XlaBuilder("keys")
    ops = [b.parameter(xb.array_shape(x.dtype, x.shape))]
    indices: list[np.int32] = []
    results = [
        record(ops[0], with_ops(key, indices, ops), number) for number, key in enumerate(keys)
    ]
    return lowering.compile(b.build(xb.tuple(*results)), "cpu")(x, *indices)


def filled(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_random_keys(shape: tuple[int, ...]) -> None:
    draw = np.random.default_rng(len(shape))
    keys = [random_key(draw, shape, dynamic=n % 2 == 0) for n in range(KEYS)]
    x = filled(shape)
    results = record_and_run(x, keys, lambda x, key, _: x[key])
    for key, result in zip(keys, results, strict=True):
        np.testing.assert_array_equal(result, x[static(shape, key)], err_msg=f"{key}", strict=True)


METHODS: dict[str, Callable[[Any, Any], Any]] = {
    "set": lambda old, value: np.broadcast_to(value, old.shape),
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_random_updates(shape: tuple[int, ...]) -> None:
    draw = np.random.default_rng(10 + len(shape))
    keys = [random_key(draw, shape, dynamic=n % 2 == 0) for n in range(KEYS)]
    x = filled(shape)
    values = [
        np.float32(7.5)
        if n % 3 == 0
        else draw.normal(10, 10, x[static(shape, key)].shape).astype(np.float32)
        for n, key in enumerate(keys)
    ]
    methods = [list(METHODS)[n % len(METHODS)] for n in range(KEYS)]

    def record(x: xb.XlaOp, key: Key, number: int) -> xb.XlaOp:
        value = values[number]
        op = 7.5 if number % 3 == 0 else x.builder.constant(value)
        return getattr(x.at[key], methods[number])(op)

    results = record_and_run(x, keys, record)
    for key, result, value, method in zip(keys, results, values, methods, strict=True):
        expected, place = x.copy(), static(shape, key)
        expected[place] = METHODS[method](expected[place], value)
        np.testing.assert_array_equal(result, expected, err_msg=f"{method} {key}", strict=True)


TYPES = ("bool", "int8", "uint64", "float16", "float64", "complex64")
SMALL = ("int4", "bfloat16", "float8_e5m2", "float8_e8m0fnu")


def test_element_types() -> None:
    """Updates with a step pad with a constant of the type, and do not change other elements."""
    dtypes = [np.dtype(name) for name in TYPES] + [np.dtype(getattr(ml_dtypes, n)) for n in SMALL]
    arrays = [np.asarray([1, 2, 4, 2, 1], np.float32).astype(dtype) for dtype in dtypes]

    def record(*ops: xb.XlaOp) -> list[xb.XlaOp]:
        return [part for op in ops for part in (op[::-2], op.at[1::2].set(op[:2]))]

    results = iter(run(record, *arrays))
    for array in arrays:
        np.testing.assert_array_equal(next(results), array[::-2], strict=True)
        expected = array.copy()
        expected[1::2] = array[:2]
        np.testing.assert_array_equal(next(results), expected, strict=True)


def test_zeros_keep_their_sign() -> None:
    x = np.asarray([-0.0, -0.0, -0.0, 1.0], np.float32)
    added = run(lambda x: x.at[::2].add(1.0), x)
    assert np.signbit(added).tolist() == [False, True, False, False]


def test_indices_of_narrow_types() -> None:
    """The other indices need not fit the type of the index at run time."""
    x = np.arange(3 * 1000, dtype=np.int32).reshape(3, 1000)
    for dtype in (np.int8, np.uint8, np.uint64):
        part, changed = run(lambda x, i: (x[i, 900:], x.at[i, 900].set(-1)), x, dtype(1))
        np.testing.assert_array_equal(part, x[1, 900:])
        expected = x.copy()
        expected[1, 900] = -1
        np.testing.assert_array_equal(changed, expected)


def opcodes(function: Callable[[xb.XlaOp, xb.XlaOp], Any]) -> list[str]:
    b = xb.XlaBuilder()
    x, i = b.parameter(xb.f32[4, 9]), b.parameter(xb.s32[()])
    function(x, i)
    return [op.opcode for op in b.ops[2:]]


@each_row(
    "function, expected",
    [
        (lambda x, i: x[:], ""),
        (lambda x, i: x[...], ""),
        (lambda x, i: x[()], ""),
        (lambda x, i: x[0:4, -9:100], ""),
        (lambda x, i: x[1:3], "slice"),
        (lambda x, i: x[1:2:7], "slice"),
        (lambda x, i: x[1:3, 0], "slice reshape"),
        (lambda x, i: x[0][0], "slice reshape slice reshape"),
        (lambda x, i: x[None], "reshape"),
        (lambda x, i: x[::-1], "reverse"),
        (lambda x, i: x[::-1, ::2], "slice reverse"),
        (lambda x, i: x[0:1, ::-1], "slice reverse"),
        (lambda x, i: x[i, i], "dynamic_slice reshape"),
        (lambda x, i: x[i], "constant dynamic_slice reshape"),
        (lambda x, i: x[i, 1:3], "constant dynamic_slice reshape"),
        (lambda x, i: x[i, ::2], "constant dynamic_slice slice reshape"),
        (lambda x, i: x.at[:].set(x), ""),
        (lambda x, i: x.at[:, 2:2].add(1.0), ""),
        (lambda x, i: x.at[:].add(x), "add"),
        (lambda x, i: x.at[i, i].set(0.0), "constant broadcast_in_dim dynamic_update_slice"),
        (lambda x, i: x.at[2:, 2:].set(x[2:, 2:]), "slice constant dynamic_update_slice"),
    ],
)
def test_what_is_recorded(function: Any, expected: str) -> None:
    assert opcodes(function) == expected.split()


def test_ops_have_the_line_of_the_caller() -> None:
    b = xb.XlaBuilder()
    x, i = b.parameter(xb.f32[4, 9]), b.parameter(xb.s32[()])
    line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
    x.at[i, ::-2].add(x[i, 1::2, None][:, 0][0])
    assert len(b.ops) > 15
    assert {(op.source.file, op.source.line) for op in b.ops[2:] if op.source} == {(__file__, line)}


def test_bounded_and_unbounded_sizes() -> None:
    b = xb.XlaBuilder()
    i = b.parameter(xb.s32[()])
    bounded, unbounded = b.parameter("f32[<=4,3]"), b.parameter("f32[?,3]")
    shapes = {
        "f32[<=4]": bounded[:, 0],
        "f32[<=4,2]": bounded[..., 1:],
        "f32[1,<=4]": bounded[None, :, i],
        "f32[<=4,3]": bounded.at[:, 0].set(b.parameter("f32[<=4]")),
        "f32[?,2]": unbounded[:, 1:],
        "f32[?,3]": unbounded[:, ::-1],
    }
    assert {text: str(op.shape) for text, op in shapes.items()} == {text: text for text in shapes}
    for updated in (bounded.at[:].set(0.0), bounded.at[:, ::2].add(1.0), bounded.at[:, i].mul(2.0)):
        assert updated.shape is bounded.shape


def test_bounded_sizes_at_run_time() -> None:
    """The results have the size at run time, also where a slice has a fixed size (bound 1)."""

    def record(x: xb.XlaOp, size: xb.XlaOp, i: xb.XlaOp) -> list[xb.XlaOp]:
        y = xb.set_dimension_size(x, size, 0)
        one = xb.set_dimension_size(x[:1], size - 3, 0)
        return [
            y[:, i],
            y[..., 1:5:2],
            y[:, ::-1],
            y.at[:].set(2.0),
            y.at[:, ::2].add(1.0),
            y.at[:, i].mul(y[:, 0]),
            *(one[:, 0], one[:, i], one.at[:, 0].set(0.0)),
        ]

    x = filled((4, 6))
    y = x[:3]
    added, multiplied = y.copy(), y.copy()
    added[:, ::2] += 1
    multiplied[:, 2] *= y[:, 0]
    expected = [y[:, 2], y[:, 1:5:2], y[:, ::-1], np.full_like(y, 2), added, multiplied]
    expected += [x[:0, 0], x[:0, 0], x[:0]]
    results = run(record, x, np.int32(3), np.int32(2))
    for result, value in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, value, strict=True)


def test_values_of_an_enclosing_computation() -> None:
    def record(x: xb.XlaOp, i: xb.XlaOp) -> xb.XlaOp:
        init = xb.tuple(x.builder.constant(0, xb.s32), x)
        return xb.while_(
            lambda state: state[0] < 3,
            lambda state: xb.tuple(
                state[0] + 1, state[1].at[state[0], 1:].set(x[i, ::-1][:2]).at[::2, 0].add(1.0)
            ),
            init,
        )[1]

    x = filled((3, 3))
    expected = x.copy()
    for row in range(3):
        expected[row, 1:] = x[2, ::-1][:2]
        expected[::2, 0] += 1
    np.testing.assert_array_equal(run(record, x, np.int32(2)), expected)


@each_row(
    "use, message",
    [
        (lambda x: x[4], "getitem: an index must be from -4 to 3, got 4 for dimension 0\n  x f32"),
        (lambda x: x[0, -10], "getitem: an index must be from -9 to 8, got -10 for dimension 1"),
        (lambda x: x.at[4], "at: an index must be from -4 to 3, got 4 for dimension 0"),
        (lambda x: x[2:2][0], "an index must be in a dimension that is not empty, got 0"),
        (lambda x: x[0, 0, 0], "at most one index for each dimension of x: 2, got 3"),
        (lambda x: x[..., ...], r"must contain \.\.\. at most once, got \(Ellipsis, Ellipsis\)"),
        (lambda x: x[:, (1, 2)], r"got tuple: \(1, 2\) .*\n.*\nfix: write a list: \[1, 2\]"),
        (lambda x: x[True], r"got bool: True .*\n.*\nfix: write None .*xb\.select"),
        (lambda x: x[np.bool_(True)], r"got bool: .*\n.*\nfix: write None"),
        (lambda x: x[x[0, 0] > 0], r"got pred\[\] .*\n.*\nfix: use xb\.select"),
        (lambda x: x[x[0, 0]], r"got f32\[\] .*\n.*\nfix: convert it"),
        (lambda x: x[x.builder.parameter("(s32[])")], r"got \(s32\[\]\) for dimension 0"),
        (lambda x: x[x[:0].builder.parameter("s8[]"), x.builder.parameter("s32[]")], "s8 and s32"),
        (lambda x: x[1.0], r"got float: 1\.0 .*\n.*\nfix: write int\(1\.0\)"),
        (lambda x: x["a"], r"an array or an op of integers, got str: 'a' for dimension 0"),
        (lambda x: x[::0], "the step of a slice must not be 0"),
        (lambda x: x[:, 1.5:], "bounds and the step of a slice .* got 1.5 for dimension 1"),
        (lambda x: x[True:], "bounds and the step of a slice .* got True for dimension 0"),
        (
            lambda x: x[x.builder.parameter("s32[]") :],
            r"slice .* got s32\[\] for .*\n.*\nfix: use xb\.dynamic_slice",
        ),
        (
            lambda x: x.builder.parameter("f32[0]")[x.builder.parameter("s32[]")],
            "an index requires a size of at least 1, got 0 for dimension 0",
        ),
        (lambda x: x.builder.parameter("f32[<=4,3]")[1:], r"entirely, by `:`, got f32\[<=4,3\]"),
        (lambda x: x.builder.parameter("f32[<=4]")[x.builder.parameter("s32[]")], "entirely"),
        (lambda x: x.builder.parameter("f32[<=4,3]").at[0], r"at: .* entirely, by `:`"),
        (lambda x: x.builder.parameter("f32[?]")[0], "entirely"),
        (
            lambda x: x.builder.parameter("f32[?,3]")[:, x.builder.constant(0, xb.s32)],
            "requires bounded sizes.*\n.*\nfix: give",
        ),
        (lambda x: x.builder.parameter("f32[?]").at[:], "at: x must not have an unbounded size"),
        (lambda x: x.builder.create_token()[0], "getitem: x must be an array, got token"),
        (lambda x: xb.tuple(x).at[0], r"at: x must be an array, got \(f32\[4,9\]\)"),
        (lambda x: x.at[0].set(x[:, 0]), r"at\.set: value must .* \[9\], got f32\[4\]\n  x  "),
        (lambda x: x.at[0].add(x[0, :1]), r"at\.add: value must .* \[9\], got f32\[1\]"),
        (lambda x: x.at[0].set(x.builder.parameter("s32[]")), r"element type, f32, got s32\[\]"),
        (lambda x: x.at[0].set(np.float64(1)), r"at\.set: value must be of .* f32, got f64\[\]"),
        (lambda x: x.at[2:2].max(1j), r"at\.max: f32 can't represent the Python number 1j"),
        (lambda x: x.at[0].set([1]), r"at\.set: value must be an XlaOp, got list: \[1\]"),
        (lambda x: x.at[0].set(x.builder.parameter("f32[<=9]")), r"got f32\[<=9\]"),
        (lambda x: x.at[0].set(xb.XlaBuilder().parameter("f32[]")), "belong"),
        (lambda x: x.at[::2].min(xb.complex(x, x)[::2]), r"at\.min: value must be of x's element"),
        (lambda x: xb.complex(x, x).at[0].max(1.0), r"at\.max: max: "),
        (lambda x: x.at[0].multiply(2.0), r"at\[key\]\.multiply: .*\nfix: write .*\.mul\(value\)"),
        (lambda x: x.at[0].get(mode="drop"), r"at\.get: mode must be 'clip' or 'fill', got 'drop'"),
        (
            lambda x: x.at[0].set(0.0, mode=1),
            r"at\.set: mode must be 'drop' or 'clip', got",
        ),
        (
            lambda x: x.at[0].apply(1.0),
            r"at\.apply: function must be a function of an op",
        ),
        (
            lambda x: x.at[0].apply(lambda part: part[:2]),
            r"at\.apply: value must .* \[9\]",
        ),
        (lambda x: x.at[0].sort(), r"at\[key\]\.sort: .*\nfix: use get, set, add, mul, max"),
        (lambda x: x.at.set(0.0), r"at\.set: .*\nfix: give a key first: x\.at\[key\]\.set"),
        (lambda x: x.at.__setitem__(0, 1.0), r"at: .* assigned to\nfix: .* x\.at\[key\]\.set"),
    ],
)
def test_refusals(use: Any, message: str) -> None:
    x = xb.XlaBuilder().parameter(xb.f32[4, 9])
    with pytest.raises(xb.XlaError, match=message) as caught:
        use(x)
    assert caught.value.location is not None
    assert caught.value.location.startswith(__file__)


def test_a_failed_update_records_nothing() -> None:
    b = xb.XlaBuilder()
    z = b.parameter(xb.c64[4, 9])
    with pytest.raises(xb.XlaError, match=r"at\.max: max: "):
        z.at[::2].max(1.0)
    assert len(b.ops) == 1


def test_items_of_tuples_are_its_elements() -> None:
    b = xb.XlaBuilder()
    t = xb.tuple(b.parameter(xb.f32[4]), b.parameter(xb.s32[()]))
    assert t[1].opcode == "get_tuple_element"
    with pytest.raises(xb.ShapeInferenceError, match="get_tuple_element: index must be"):
        t[-1]


def test_every_op_has_the_attribute_at() -> None:
    """Programs look up attributes of objects that may not have them."""
    assert hasattr(xb.XlaBuilder().create_token(), "at")
    assert not hasattr(xb.XlaBuilder().parameter(xb.f32[4]).at[0], "sort")


def test_iteration_ends_with_an_error() -> None:
    x: Any = xb.XlaBuilder().parameter(xb.f32[4])
    for use in (list, lambda x: [*x], reversed):
        with pytest.raises(xb.ShapeInferenceError, match="requires a tuple, got f32"):
            use(x)
    with pytest.raises(TypeError, match="not iterable"):
        list(x.at)
