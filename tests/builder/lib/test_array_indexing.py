"""``x[key]`` and ``x.at[key]`` with arrays as indices, compared with NumPy and jax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from library_calls import run
from tables import each_row

import builder as xb
import lowering
from builder import lib

Array = np.ndarray[Any, Any]

SHAPES = ((5,), (4, 3), (2, 1, 6), (3, 4, 2, 5))
KEYS = 60  # for each shape


class RunTime(np.ndarray[Any, Any]):
    """Marks an array of a key that is an op; NumPy indexes with it as with any array."""


def random_key(draw: np.random.Generator, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Return a key with at least one array, and with all kinds of other entries."""
    sizes = tuple(int(n) for n in draw.integers(1, 4, draw.integers(1, 3)))
    is_array = draw.random(len(shape)) < 0.4
    is_array[draw.integers(len(shape))] = True

    def entry(size: int, many: bool) -> Any:
        if many:
            own = sizes[draw.integers(len(sizes)) :]
            own = tuple(1 if draw.random() < 0.2 else n for n in own)
            values = draw.integers(-size, size, own)
            match draw.integers(4):
                case 0:
                    return values.tolist()
                case 1:
                    return values.astype(np.int8)
                case _:
                    return values.astype(draw.choice([np.int32, np.int64])).view(RunTime)
        if draw.random() < 0.3:
            return int(draw.integers(-size, size))
        bounds = [None, *range(-size - 1, size + 2)]
        start, stop = (bounds[draw.integers(len(bounds))] for _ in range(2))
        return slice(start, stop, [None, 1, 2, -1, -2][draw.integers(5)])

    last = max(n for n in range(len(shape)) if is_array[n]) + 1
    count = int(draw.integers(last, len(shape) + 1))
    key = [entry(*pair) for pair in zip(shape[:count], is_array[:count], strict=True)]
    if draw.random() < 0.3:
        # `...` in place of slices of all elements, possibly of none.
        whole = [n for n in range(count) if not is_array[n]]
        at = int(draw.choice(whole)) if whole else int(draw.integers(count + 1))
        key[at : at + bool(whole)] = [...]
        if count < len(shape):
            key += [slice(None)] * (len(shape) - count)
    for _ in range(draw.integers(0, 3)):
        key.insert(int(draw.integers(0, len(key) + 1)), None)
    return tuple(key)


def recorded(
    x: Array, keys: list[tuple[Any, ...]], record: Callable[[xb.XlaOp, Any, int], xb.XlaOp]
) -> Any:
    """Return the results of ``record(x, key, number)`` for all keys, in one program."""
    b = xb.XlaBuilder("keys")
    op = b.parameter(xb.array_shape(x.dtype, x.shape))
    arrays: list[Array] = []

    def op_for(entry: Any) -> Any:
        if not isinstance(entry, RunTime):
            return entry
        arrays.append(np.asarray(entry))
        return b.parameter(xb.array_shape(entry.dtype, entry.shape))

    results = [record(op, tuple(map(op_for, key)), n) for n, key in enumerate(keys)]
    run = lowering.compile(b.build(xb.tuple(*results)), "cpu")
    return list(map(np.asarray, run(x, *arrays)))


def plain(key: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(np.asarray(e) if isinstance(e, RunTime) else e for e in key)


def filled(shape: tuple[int, ...]) -> Array:
    return np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_random_keys(shape: tuple[int, ...]) -> None:
    draw = np.random.default_rng(len(shape))
    keys = [random_key(draw, shape) for _ in range(KEYS)]
    x = filled(shape)
    results = recorded(x, keys, lambda x, key, _: x[key])
    for key, result in zip(keys, results, strict=True):
        np.testing.assert_array_equal(result, x[plain(key)], err_msg=f"{key}", strict=True)


METHODS: dict[str, np.ufunc | None] = {
    "set": None,
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_random_updates(shape: tuple[int, ...]) -> None:
    """`ufunc.at` uses all values of an index that occurs several times."""
    draw = np.random.default_rng(20 + len(shape))
    keys = [random_key(draw, shape) for _ in range(KEYS)]
    x = filled(shape)
    values = [
        np.float32(2.0) if n % 3 == 0 else draw.integers(1, 4, x[plain(key)].shape).astype("f4")
        for n, key in enumerate(keys)
    ]
    methods = [list(METHODS)[n % len(METHODS)] for n in range(KEYS)]

    def record(x: xb.XlaOp, key: Any, number: int) -> xb.XlaOp:
        value = 2.0 if number % 3 == 0 else x.builder.constant(values[number])
        return getattr(x.at[key], methods[number])(value)

    results = recorded(x, keys, record)
    for key, result, value, method in zip(keys, results, values, methods, strict=True):
        expected, place, ufunc = x.copy(), plain(key), METHODS[method]
        if ufunc is not None:
            ufunc.at(expected, place, value)
        else:
            # Of several values for one element, one is there.
            expected[place] = result[place]
            assert np.isin(result[place], value).all()
        np.testing.assert_array_equal(result, expected, err_msg=f"{method} {key}", strict=True)


X = filled((4, 3))
OUTSIDE = np.int32([-5, -4, 0, 3, 4, 2**31 - 1])
"""Two that count from the end, of which one is out of range, and two beyond it."""


def test_indices_out_of_range() -> None:
    """As in jax, with the modes of the same names."""
    x, i = jnp.asarray(X), jnp.asarray(OUTSIDE)
    value = jnp.arange(18, dtype=jnp.float32).reshape(6, 3)

    def record(x: xb.XlaOp, i: xb.XlaOp, value: xb.XlaOp) -> xb.XlaOp:
        pairs = x.at[i, xb.clamp(0, i, 2)]
        return xb.tuple(
            x[i],
            x.at[i].get(),
            x.at[i].get(mode="fill", fill_value=-1),
            x.at[i].add(value),
            x.at[i].mul(value, mode="clip"),
            x.at[i].max(9.5, mode="drop"),
            pairs.get(mode="fill"),
            pairs.add(1.0, mode="clip"),
        )

    columns = jnp.clip(i, 0, 2)
    expected = (
        x.at[i].get(mode="clip"),
        x.at[i].get(mode="clip"),
        x.at[i].get(mode="fill", fill_value=-1),
        x.at[i].add(value, mode="drop"),
        x.at[i].mul(value, mode="clip"),
        x.at[i].max(9.5, mode="drop"),
        x.at[i, columns].get(mode="fill", fill_value=0),
        x.at[i, columns].add(1.0, mode="clip"),
    )
    for found, wanted in zip(run(record, X, OUTSIDE, value), expected, strict=True):
        np.testing.assert_array_equal(found, wanted, strict=True)


@pytest.mark.parametrize("index", [-5, -1, 2, 9])
def test_scalar_indices_out_of_range(index: int) -> None:
    """Without a mode they are clamped; with one they are like those of arrays."""
    x, i = jnp.asarray(X), index

    def record(x: xb.XlaOp, i: xb.XlaOp) -> xb.XlaOp:
        return xb.tuple(
            x.at[i].get(mode="fill", fill_value=-1),
            x.at[1:, i].get(mode="clip"),
            x.at[i, 1].add(5.0, mode="drop"),
            x.at[i].set(x[0], mode="clip"),
            x.at[i].set(7.0),
        )

    # jax computes `x[1:, i]` without a clamp for a static index.
    expected = (
        x.at[i].get(mode="fill", fill_value=-1),
        x.at[1:, jnp.asarray(i)].get(mode="clip"),
        x.at[jnp.asarray(i), 1].add(5.0, mode="drop"),
        x.at[jnp.asarray(i)].set(x[0], mode="clip"),
        x.at[min(max(i, 0), 3)].set(7.0),
    )
    found = run(record, X, np.int32(index))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other, strict=True)


def test_apply_changes_each_element_once() -> None:
    rows = np.int32([1, 1, 3])
    (found,) = run(lambda x, i: xb.tuple(x.at[i, 1:].apply(xb.neg)), X, rows)
    expected = X.copy()
    expected[[1, 3], 1:] *= -1
    np.testing.assert_array_equal(found, expected)


def test_types_of_indices() -> None:
    """Narrow, unsigned and 64-bit indices, ops and constants; sizes beyond their types."""
    x = np.arange(300, dtype=np.int32)
    kinds = ("int8", "uint8", "int16", "uint32", "int64", "uint64")
    for i in (*[np.asarray([0, 5, 127], kind) for kind in kinds], np.asarray([-1, -128], np.int8)):
        np.testing.assert_array_equal(run(lambda x, i: x[i], x, i), x[i])
        np.testing.assert_array_equal(run(lambda x, i=i: x[i], x), x[i])


def opcodes(record: Callable[[xb.XlaOp], xb.XlaOp]) -> list[str]:
    b = xb.XlaBuilder()
    x = b.parameter(xb.f32[4, 3], "x")
    record(x)
    return [op.opcode for op in b.ops[1:]]


def test_what_is_recorded() -> None:
    # Constant indices are one constant, also for several dimensions.
    assert opcodes(lambda x: x[[0, -1]]) == ["constant", "gather"]
    assert opcodes(lambda x: x[np.arange(3)[:, None], [2, 1]]) == ["constant", "gather"]
    assert opcodes(lambda x: x[1:, [0, 2]]) == ["slice", "constant", "gather"]
    assert opcodes(lambda x: x.at[[0, 2]].set(x[:2])) == ["slice", "constant", "scatter"]
    # Unsigned indices do not count from the end.
    assert opcodes(lambda x: x[x.builder.parameter("u32[2]", "i")]) == [
        *("parameter", "convert", "gather")
    ]


def test_indices_of_any_number() -> None:
    b = xb.XlaBuilder("lookup")
    table = b.parameter(xb.f32[4, 3], "table")
    tokens = b.parameter(xb.s32["?"], "tokens")
    program = lowering.compile(b.build(table[tokens]), "cpu")
    for tokens_given in ([1], [3, -1, 0]):
        given = np.asarray(tokens_given, np.int32)
        np.testing.assert_array_equal(program(X, given), X[given])


def test_gradient_of_a_lookup() -> None:
    b = xb.XlaBuilder("loss")
    table, tokens = b.parameter(xb.f32[4, 3], "table"), b.parameter(xb.s32[5], "tokens")
    (gradient,) = lowering.gradients(lib.sum(table[tokens] * table[tokens]), [table])
    given = np.int32([1, 1, 0, -1, 3])
    expected = np.zeros_like(X)
    np.add.at(expected, given, 2 * X[given])
    found = lowering.compile(b.build(gradient), "cpu")(X, given)
    np.testing.assert_allclose(found, expected)


REFUSED: dict[str, tuple[Callable[[xb.XlaOp], Any], str]] = {
    "a mask": (
        lambda x: x[x > 0],
        r"must not be a mask.* got pred\[4,3\] .*\n.*\nfix: write xb\.select\(mask, x, other\)",
    ),
    "a mask of NumPy": (lambda x: x[X > 0], r"must not be a mask.* got an array of bools"),
    "a mask at a place": (lambda x: x.at[x > 0], r"at: an index must not be a mask"),
    "floats": (lambda x: x[x], r"an index must be an array of integers, got f32\[4,3\]"),
    "floats of NumPy": (lambda x: x[[0.5]], r"an array or a list of integers, got \[0\.5\]"),
    "lists of different lengths": (lambda x: x[[[0], [1, 2]]], "a list of integers, got"),
    "ops in a list": (
        lambda x: x[[0, x.builder.parameter("s32[]")]],
        r"a list of indices must consist of integers.*\n.*\nfix: combine ops into an array",
    ),
    "out of range": (
        lambda x: x[:, [0, 3]],
        "an index must be from -3 to 2, got 3 for dimension 1",
    ),
    "out of range at a place": (lambda x: x.at[[-5]], "from -4 to 3, got -5 for dimension 0"),
    "no sizes in common": (
        lambda x: x[[0, 1], [0, 1, 2]],
        r"sizes that NumPy broadcasts: equal ones, or 1, got \[2\] and \[3\]",
    ),
    "too many": (lambda x: x[[0], [0], [0]], "at most one index for each dimension of x: 2, got 3"),
    "an empty dimension": (
        lambda x: x[:0][x.builder.parameter("s32[2]")],
        "an index requires a size of at least 1",
    ),
    "a value of other sizes": (
        lambda x: x.at[[0, 1]].set(x),
        r"at\.set: value must be a scalar or have the sizes of the key's elements, \[2, 3\]",
    ),
    "a value of another type": (
        lambda x: x.at[[0, 1]].add(x.builder.parameter("s32[]")),
        r"at\.add: value must be of x's element type, f32",
    ),
    "an unknown mode": (lambda x: x.at[[0]].add(1.0, mode="wrap"), "mode must be 'drop' or 'clip'"),
    "a bounded dimension": (
        lambda x: x.builder.parameter("f32[<=4,3]")[[0]],
        r"selected entirely, by `:`.*\n.*\nfix: use lib\.take\(x, indices, axis=0\)",
    ),
    "a bounded dimension beside an array": (
        lambda x: x.builder.parameter("f32[<=4,3]")[:, [0]],
        r"beside index arrays, a dimension must have a fixed size",
    ),
    "a scalar for places of any number": (
        lambda x: x.at[x.builder.parameter("s32[?]")].add(1.0),
        r"value must be an array, because the number of indices is not known",
    ),
}


@each_row("name", REFUSED)
def test_refused(name: str) -> None:
    use, message = REFUSED[name]
    x = xb.XlaBuilder().parameter(xb.f32[4, 3])
    with pytest.raises(xb.XlaError, match=message) as caught:
        use(x)
    assert str(caught.value.location).startswith(__file__)
