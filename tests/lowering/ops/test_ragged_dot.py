"""Ragged dot products executed on CPU, compared with NumPy group by group."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, strategies as st
from support import assert_same_bits, run, summable

import builder as xb
import lowering
from builder.ops.contraction.dot_product import RaggedMode, ragged_mode, ragged_prefix
from lowering import CompileError
from lowering.jaxlib_api import hlo_conversion
from tests.lowering.common import parameters

Array = np.ndarray
Ragged = xb.RaggedDotDimensionNumbers
ALL_TYPES = [t for t in vars(xb).values() if isinstance(t, xb.PrimitiveType)]
RANDOM = np.random.default_rng(20240809)

ROWS = Ragged((([1], [1]), ([], [])), [0], [0])
INNER = Ragged((([1], [0]), ([], [])), [1])
BATCH = Ragged((([2], [1]), ([0], [0])), [0])
# Sizes of both operands and of the groups.
FORMS: dict[str, tuple[Ragged, tuple[int, ...], tuple[int, ...], Any]] = {
    "rows": (ROWS, (9, 3), (4, 3, 2), [2, 0, 4, 1]),
    "inner": (INNER, (3, 9), (9, 2), [2, 0, 4, 1]),
    "batch": (BATCH, (5, 2, 3), (5, 3, 2), [2, 2]),
    "more rows than there are": (ROWS, (5, 3), (3, 3, 2), [2, 2, 9]),
    "no rows": (ROWS, (0, 3), (3, 3, 2), [0, 0, 0]),
    "no groups": (ROWS, (5, 3), (0, 3, 2), []),
    "no groups inside": (INNER, (3, 5), (5, 2), []),
    "empty sums": (ROWS, (5, 0), (2, 0, 2), [1, 2]),
    "rows of batches": (
        Ragged((([3], [2]), ([0], [1])), [2], [0]),
        (2, 3, 5, 4),
        (3, 2, 4, 2),
        [[[1, 2, 2], [5, 0, 0], [0, 0, 1]], [[0, 2, 3], [1, 1, 1], [0, 4, 4]]],
    ),
    "inner of batches": (
        Ragged((([3, 1], [0, 3]), ([2], [2])), [1]),
        (3, 5, 2, 2),
        (2, 4, 2, 5),
        [[[1, 2], [5, 0]], [[2, 3], [0, 0]]],
    ),
    "one row of sizes for all": (
        Ragged((([2], [0]), ([1], [2])), [0], [3]),
        (6, 2, 3),
        (3, 4, 2, 3),
        [1, 3, 1],
    ),
}


def by_groups(x: Array, y: Array, sizes: Any, numbers: Ragged) -> Array:
    """Compute the product of each group, with the elements of other groups set to zero."""
    dot = numbers.dot_dimension_numbers
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    of_lhs, of_rhs = [""] * x.ndim, [""] * y.ndim
    pairs = [
        *zip(dot.lhs_batch_dimensions, dot.rhs_batch_dimensions, strict=True),
        *zip(dot.lhs_contracting_dimensions, dot.rhs_contracting_dimensions, strict=True),
    ]
    for i, j in pairs:
        of_lhs[i] = of_rhs[j] = next(letters)
    of_lhs = [letter or next(letters) for letter in of_lhs]
    of_rhs = [letter or next(letters) for letter in of_rhs]
    summed = {of_lhs[d] for d in dot.lhs_contracting_dimensions}
    batch = [of_lhs[d] for d in dot.lhs_batch_dimensions]
    group = [of_rhs[d] for d in numbers.rhs_group_dimensions]
    free = [c for c in (*of_lhs, *of_rhs) if c not in (*batch, *summed, *group)]
    result = "".join([*batch, *free])
    left, right = "".join(of_lhs), "".join(of_rhs)
    mode = ragged_mode(numbers)
    if mode is RaggedMode.BATCH:
        return np.einsum(f"{left},{right}->{result}", x, y)
    prefix = ragged_prefix(numbers)
    (ragged,) = numbers.lhs_ragged_dimensions
    sizes = np.array(sizes, np.int64)
    each = np.broadcast_to(sizes, (*(x.shape[d] for d in prefix), sizes.shape[-1]))
    parts = []
    for index in range(each.shape[-1]):
        inside = np.zeros(x.shape, bool)
        for place in np.ndindex(*each.shape[:-1]):
            start = int(each[place][:index].sum())
            where: list[Any] = [slice(None)] * x.ndim
            for d, at in zip(prefix, place, strict=True):
                where[d] = at
            where[ragged] = slice(start, start + int(each[(*place, index)]))
            inside[tuple(where)] = True
        if mode is RaggedMode.FREE:
            (at,) = numbers.rhs_group_dimensions
            term = f"{left},{right.replace(group[0], '')}->{result}"
            parts.append(np.einsum(term, np.where(inside, x, 0), np.take(y, index, at)))
        else:
            parts.append(np.einsum(f"{left},{right}->{result}", np.where(inside, x, 0), y))
    if not parts:
        sizes_of = dict(zip(left + right, x.shape + y.shape, strict=True))
        nothing = np.zeros([sizes_of[c] for c in result], x.dtype)
        return nothing if mode is RaggedMode.FREE else nothing[None][:0]
    return np.stack(parts) if mode is RaggedMode.CONTRACTING else np.sum(parts, axis=0)


def expected_product(x: Array, y: Array, sizes: Any, numbers: Ragged, t: xb.PrimitiveType) -> Array:
    """Compute `by_groups` in a wide type, converted to `t`; integers wrap around."""
    if t.is_complex:
        return by_groups(x.astype(np.complex128), y.astype(np.complex128), sizes, numbers).astype(
            t.dtype
        )
    if t.is_floating:
        total = by_groups(x.astype(np.float64), y.astype(np.float64), sizes, numbers)
        return total.astype(t.dtype)
    total = by_groups(x.astype(np.int64), y.astype(np.int64), sizes, numbers)
    if t is xb.pred:
        return total != 0
    if t.bits < 64:
        total = total & ((1 << t.bits) - 1)
        total = np.where(total > t.max, total - (1 << t.bits), total)
    return total.astype(t.dtype)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rows", "inner", "batch"])
def test_every_type(name: str) -> None:
    numbers, lhs, rhs, sizes = FORMS[name]
    # Each has a third of the types: the mode makes no difference for a type.
    types = ALL_TYPES[["rows", "inner", "batch"].index(name) :: 3]
    types = [t for t in types if t is not xb.f8e8m0fnu or name == "batch"]
    pairs = [(summable(RANDOM, t, lhs), summable(RANDOM, t, rhs)) for t in types]
    b = xb.XlaBuilder("types")
    groups = np.array(sizes, np.int32)
    (p,) = parameters(b, groups)
    results = [xb.ragged_dot(*parameters(b, *pair), p, numbers) for pair in pairs]
    actual = run(b.build(xb.tuple(*results)), groups, *itertools.chain(*pairs))
    for t, got, (x, y) in zip(types, actual, pairs, strict=True):
        assert_same_bits(got, expected_product(x, y, sizes, numbers, t))


def test_a_type_without_zero() -> None:
    """Every row is in a group, since rows outside would be 0."""
    x, y = summable(RANDOM, xb.f8e8m0fnu, (4, 2)), summable(RANDOM, xb.f8e8m0fnu, (2, 2, 3))
    b = xb.XlaBuilder("scale")
    got = run(
        b.build(xb.ragged_dot(*parameters(b, x, y, np.array([1, 3], np.int8)), ROWS)),
        *(x, y, np.array([1, 3], np.int8)),
    )
    assert_same_bits(got, expected_product(x, y, [1, 3], ROWS, xb.f8e8m0fnu))


def test_forms_and_types_of_group_sizes() -> None:
    b = xb.XlaBuilder("forms")
    arguments, results, want = [], [], []
    integers = itertools.cycle([t for t in ALL_TYPES if t.is_integral])
    for numbers, lhs, rhs, sizes in FORMS.values():
        t = next(integers)
        largest = max(np.array(sizes, np.int64).reshape(-1).tolist(), default=0)
        while t.max < largest:
            t = next(integers)
        x, y = summable(RANDOM, xb.f32, lhs), summable(RANDOM, xb.f32, rhs)
        arguments += [x, y, np.array(sizes, np.int64).astype(t.dtype)]
        results.append(xb.ragged_dot(*parameters(b, *arguments[-3:]), numbers))
        want.append(expected_product(x, y, sizes, numbers, xb.f32))
    for got, theirs in zip(run(b.build(xb.tuple(*results)), *arguments), want, strict=True):
        assert_same_bits(got, theirs)


def test_sums_of_group_sizes_that_overflow_their_type() -> None:
    x, y = summable(RANDOM, xb.s32, (300, 2)), summable(RANDOM, xb.s32, (3, 2, 2))
    sizes = [100, 120, 127]
    b = xb.XlaBuilder("sums")
    p, q, r, s = parameters(b, x, y, np.array(sizes, np.int8), np.array([1, 2**64 - 1, 2], "u8"))
    root = xb.tuple(xb.ragged_dot(p, q, r, ROWS), xb.ragged_dot(p, q, s, ROWS))
    short, long = run(
        b.build(root), x, y, np.array(sizes, np.int8), np.array([1, 2**64 - 1, 2], "u8")
    )
    assert_same_bits(short, expected_product(x, y, sizes, ROWS, xb.s32))
    assert_same_bits(long, expected_product(x, y, [1, 299, 0], ROWS, xb.s32))


def test_preferred_element_type() -> None:
    pairs = [
        *((xb.s2, xb.s32), (xb.u4, xb.u8), (xb.s8, xb.s32), (xb.f4e2m1fn, xb.f32)),
        *((xb.f8e4m3fn, xb.f16), (xb.bf16, xb.f32), (xb.f16, xb.f64), (xb.c64, xb.c128)),
    ]
    b = xb.XlaBuilder("preferred")
    arguments, results, want = [], [], []
    for (t, to), name in itertools.product(pairs, ("rows", "inner")):
        numbers, lhs, rhs, sizes = FORMS[name]
        x, y = summable(RANDOM, t, lhs), summable(RANDOM, t, rhs)
        arguments += [x, y, np.array(sizes, np.int32)]
        highest = xb.Precision.HIGHEST
        results.append(xb.ragged_dot(*parameters(b, *arguments[-3:]), numbers, highest, to))
        want.append(expected_product(x, y, sizes, numbers, to))
    for got, theirs in zip(run(b.build(xb.tuple(*results)), *arguments), want, strict=True):
        assert_same_bits(got, theirs)


def test_elements_of_other_groups_have_no_effect() -> None:
    """Including infinities and NaNs, which would become NaN if multiplied by zero."""
    x = np.ones((4, 2), np.float32)
    y = np.ones((2, 2, 2), np.float32)
    y[1, 0, 0] = np.inf
    y[1, 1, 1] = np.nan
    inner = np.array([[1, 2, np.inf, np.nan]], np.float32)
    b = xb.XlaBuilder("infinite")
    p, q, r, s = parameters(b, x, y, np.array([3, 1], np.int32), inner)
    root = xb.tuple(
        xb.ragged_dot(p, q, r, ROWS),
        xb.ragged_dot(s, p, b.constant(np.array([2, 1], np.int32)), INNER),
    )
    rows, sums = run(b.build(root), x, y, np.array([3, 1], np.int32), inner)
    assert rows[:3].tolist() == [[2, 2]] * 3
    assert rows[3, 0] == np.inf
    assert np.isnan(rows[3, 1])
    assert sums.tolist() == [[[3, 3]], [[np.inf, np.inf]]]


def test_large() -> None:
    x = RANDOM.normal(size=(500, 64)).astype(np.float32)
    w = RANDOM.normal(size=(16, 64, 48)).astype(np.float32)
    sizes = RANDOM.multinomial(480, [1 / 16] * 16).astype(np.int32)
    b = xb.XlaBuilder("large")
    got = run(b.build(xb.ragged_dot(*parameters(b, x, w, sizes), ROWS)), x, w, sizes)
    want = by_groups(x.astype(np.float64), w.astype(np.float64), sizes, ROWS)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(got, jax.lax.ragged_dot(x, w, sizes), rtol=1e-4, atol=1e-4)
    assert not got[480:].any()


# Lowering


@st.composite
def ragged_dots(draw: st.DrawFn) -> tuple[list[xb.ArrayShape], Ragged]:
    """Draw consistent shapes of the three operands, with any order of dimensions."""
    mode = draw(st.sampled_from(list(RaggedMode)))
    counts = {kind: draw(st.integers(0, 2)) for kind in ("batch", "contracting", "lhs", "rhs")}
    kind = {RaggedMode.FREE: "lhs"}.get(mode, mode.value)
    counts[kind] = max(counts[kind], 1)
    labels = {k: [(k, i) for i in range(n)] for k, n in counts.items()}
    group = [("group", 0)]
    size = {label: draw(st.integers(0, 4)) for ls in (*labels.values(), group) for label in ls}
    shared = [*labels["batch"], *labels["contracting"]]
    left = draw(st.permutations([*shared, *labels["lhs"]]))
    right = draw(
        st.permutations([*shared, *labels["rhs"], *(group if mode is RaggedMode.FREE else [])])
    )
    dot = xb.DotDimensionNumbers(
        *(
            [side.index(label) for label in labels[k]]
            for k in ("contracting", "batch")
            for side in (left, right)
        )
    )
    ragged = left.index(draw(st.sampled_from(labels[kind])))
    numbers = Ragged(dot, [ragged], [right.index(g) for g in group if g in right])
    outer = [size[left[d]] for d in ragged_prefix(numbers)] if draw(st.booleans()) else []
    t, integers = draw(st.sampled_from(ALL_TYPES)), [u for u in ALL_TYPES if u.is_integral]
    bounded = draw(st.booleans())
    shapes: list[xb.ArrayShape] = []
    for element_type, sizes in (
        (t, [size[label] for label in left]),
        (t, [size[label] for label in right]),
        (draw(st.sampled_from(integers)), [*outer, size[group[0]]]),
    ):
        marks = [bounded and draw(st.booleans()) for _ in sizes]
        if len(shapes) == 2:
            # CHLO requires the sizes of lhs here.
            marks[:-1] = [shapes[0].dynamic_dimensions[d] for d in ragged_prefix(numbers)][
                : len(outer)
            ]
        shapes.append(xb.array_shape(element_type, sizes, dynamic_dimensions=marks))
    return shapes, numbers


@given(ragged_dots())
def test_inferred_shapes_agree_with_mlir_and_xla(
    drawn: tuple[list[xb.ArrayShape], Ragged],
) -> None:
    shapes, numbers = drawn
    b = xb.XlaBuilder("drawn")
    y = xb.ragged_dot(*(b.parameter(shape) for shape in shapes), numbers)
    computation = b.build(y)
    lowering.lower(computation).verify()
    # XLA infers the shape of an instruction if the text omits it.
    text, count = re.subn(r" = \S+ ragged-dot\(", " = ragged-dot(", str(computation))
    root = re.search(r"ROOT \S+ = ([^{ ]+)", hlo_conversion.parsed_hlo_text(text))
    assert root is not None
    assert (root[1], count) == (str(y.shape), 1)


def test_round_trip() -> None:
    b = xb.XlaBuilder("kept")
    x, w, sizes = b.parameter("f32[9,3]"), b.parameter("f32[2,3,4]"), b.parameter("s32[2]")
    computation = b.build(xb.ragged_dot(x, w, sizes, ROWS, xb.Precision.HIGH))
    module = lowering.lower(computation)
    assert "chlo.ragged_dot" in module.text
    text = str(computation)
    assert "ragged-dot(" in text
    assert "lhs_ragged_dims={0}, rhs_group_dims={0}, operand_precision={high,high}" in text


def test_saved_and_loaded(tmp_path: Path) -> None:
    numbers, lhs, rhs, sizes = FORMS["rows"]
    x, y, groups = (
        summable(RANDOM, xb.s32, lhs),
        summable(RANDOM, xb.s32, rhs),
        np.array(sizes, np.int32),
    )
    b = xb.XlaBuilder("saved")
    module = lowering.lower(b.build(xb.ragged_dot(*parameters(b, x, y, groups), numbers)))
    module.save(tmp_path / "ragged.mlirbc")
    got = lowering.compile(lowering.load(tmp_path / "ragged.mlirbc"))(x, y, groups)
    assert_same_bits(np.asarray(got), expected_product(x, y, sizes, numbers, xb.s32))


def test_bounded_sizes_are_refused_on_cpu() -> None:
    b = xb.XlaBuilder("bounded")
    x, w, sizes = b.parameter("f32[<=9,3]"), b.parameter("f32[2,3,4]"), b.parameter("s32[2]")
    module = lowering.lower(b.build(xb.ragged_dot(x, w, sizes, ROWS)))
    with pytest.raises(
        CompileError, match=r"ragged_dot.* can't run on cpu: ragged_dot is exp"
    ) as e:
        lowering.compile(module)
    assert e.value.op == "ragged_dot"
