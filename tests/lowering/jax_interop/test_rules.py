"""Each opcode: `to_jax` gives the bits of `compile`, or has a reason to refuse."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

import jax
import numpy as np
import pytest
from recorded_ops import recorded_ops
from support import assert_same_bits, flat, parameter_like, small_numbers
from tables import each_row

import builder as xb
import lowering
from builder.graph.xla_op import XlaOp
from builder.schema import SCHEMAS
from builder.types.shape import leaves
from lowering.errors import LoweringError
from lowering.jax_interop import evaluation as evaluation, pasting
from lowering.ops.registry import JAX_RULES, REFUSED

Case = tuple[str, XlaOp, xb.XlaComputation]

MOST = 3
"""The number of recorded ops that are compared for each opcode."""

LARGE = 10_000
"""The number of elements of an array that is too large for a comparison."""

UNCOMPARED = {
    "constant": "the value is read from the op",
    **dict.fromkeys(
        ("dynamic_gather", "dynamic_iota", "dynamic_pad", "real_dynamic_slice"),
        "test_open_sizes.py",
    ),
    "dynamic_reshape": "test_static_sizes_of_dynamic_ops",
    "set_dimension_size": "test_static_sizes_of_dynamic_ops",
    "custom_call": "test_host.py",
    "parameter": "the argument itself",
    "partition_id": "refused",
    "python_call": "test_host.py",
    "rng": "random",
    "send": "refused",
    "recv": "refused",
    "infeed": "refused",
    "outfeed": "refused",
    **dict.fromkeys(
        (
            *("all_gather", "all_reduce", "all_to_all", "all_to_all_tuple", "collective_broadcast"),
            *("collective_permute", "reduce_scatter", "replica_id"),
        ),
        "test_collectives.py",
    ),
}
"""Why an opcode is not compared here."""


@pytest.fixture(autouse=True)
def x64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def test_no_opcode_is_in_two_tables() -> None:
    assert JAX_RULES.keys() | REFUSED.keys() <= SCHEMAS.keys()
    assert not JAX_RULES.keys() & REFUSED.keys()
    for reason, fix in REFUSED.values():
        assert reason
        assert fix


def test_an_op_without_a_rule_is_pasted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(JAX_RULES, "reverse")
    b = xb.XlaBuilder("reversed")
    function = lowering.to_jax(b.build(xb.rev(b.parameter(xb.f32[3]), [0])))
    values = np.arange(12, dtype=np.float32).reshape(4, 3)
    for evaluate in (function, jax.jit(function)):
        np.testing.assert_array_equal(evaluate(values[0]), values[0, ::-1])
    np.testing.assert_array_equal(jax.vmap(function)(values), values[:, ::-1])
    with pytest.raises(LoweringError, match=r"reverse, recorded at .*: jax has no derivative"):
        jax.jvp(function, [values[0]], [values[0]])
    with pytest.raises(LoweringError, match=r"reverse, recorded at .*: jax has no derivative"):
        jax.grad(lambda x: function(x).sum())(values[0])


def is_static(computation: xb.XlaComputation) -> bool:
    """Whether all arrays have static sizes, and are small."""
    computations = (computation, *computation.called_computations())
    shapes = [leaf for c in computations for op in c.ops for leaf in leaves(op.shape)]
    arrays = [shape for shape in shapes if isinstance(shape, xb.ArrayShape)]
    return all(a.is_static and math.prod(a.dimensions) < LARGE for a in arrays)


def is_comparable(op: XlaOp) -> bool:
    """Whether XLA compiles an op, as jax evaluates it."""
    if op.opcode == "composite" and op.attributes["name"].startswith("xlabuilder."):
        return False  # run by LAPACK; jax evaluates the decomposition
    if op.opcode == "rng_bit_generator" and op.operands[0].shape is not xb.u64[2]:
        return False
    floats = {o.shape.element_type for o in op.operands if o.shape.element_type.is_floating}
    return len(floats) < 2 or not SCHEMAS[op.opcode].computations


@cache
def cases() -> dict[str, list[Case]]:
    """Return ops of each opcode that is compared."""
    chosen: dict[str, list[Case]] = {}
    for name, op, computation in recorded_ops():
        if op.opcode in UNCOMPARED or not computation.parameters:
            continue
        cases = chosen.setdefault(op.opcode, [])
        if len(cases) < MOST and is_static(computation) and is_comparable(op):
            cases.append((name, op, computation))
    return chosen


def argument(shape: xb.Shape, seed: int) -> Any:
    if shape.is_tuple:
        return tuple(argument(element, seed) for element in shape.elements)
    return None if shape.is_token else small_numbers(shape.element_type, shape.dimensions, seed)


FAMILIES = 8
"""The number of programs in which all ops are compared: compiling one of many ops is faster."""


SEEDS = (0, 7)


@cache
def cases_of(family: int) -> tuple[list[Case], xb.XlaComputation, Any, list[Any]]:
    """Return cases, the program of all of them, its function and its arguments for each seed."""
    chosen = [c for opcode in sorted(cases())[family::FAMILIES] for c in cases()[opcode]]
    b = xb.XlaBuilder("cases")
    results = []
    arguments: list[Any] = [[] for _ in SEEDS]
    for _, _, computation in chosen:
        parameters = [b.parameter(p.shape) for p in computation.parameters]
        for seed, values in zip(SEEDS, arguments, strict=True):
            shapes = [parameter.shape for parameter in parameters]
            values += [argument(shape, seed + i) for i, shape in enumerate(shapes)]
        results.append(xb.inline(computation, *parameters))
    program = b.build(xb.tuple(*results))
    return chosen, program, jax.jit(lowering.to_jax(program)), arguments


@pytest.mark.slow
@pytest.mark.parametrize("family", range(FAMILIES))
def test_same_bits(family: int) -> None:
    chosen, program, function, (arguments, _) = cases_of(family)
    expected = lowering.compile(program)(*arguments)
    for case, one, other in zip(chosen, function(*arguments), expected, strict=True):
        for result, reference in zip(flat(one), flat(other), strict=True):
            if reference is None:
                assert result is None
                continue
            try:
                assert_same_bits(np.asarray(result), np.asarray(reference))
            except AssertionError as error:
                raise AssertionError(f"{case[0]}: {case[1]!r}: {error}") from error


@pytest.mark.slow
@pytest.mark.parametrize("family", range(FAMILIES))
def test_vmap(family: int) -> None:
    """Each opcode for a batch of two, against a loop."""
    chosen, _, function, arguments = cases_of(family)
    batch = jax.tree.map(lambda *values: np.stack(values), *arguments)
    batched = jax.jit(jax.vmap(function))(*batch)
    loop = jax.tree.map(lambda *values: np.stack(values), *(function(*each) for each in arguments))
    for (name, op, _), one, other in zip(chosen, batched, loop, strict=True):
        if name.startswith("Igamma."):
            continue  # it iterates until it converges, which depends on the rounding
        for result, reference in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
            assert result.dtype == reference.dtype
            wide = np.complex128 if result.dtype.kind == "c" else np.float64
            one_wide, other_wide = np.asarray(result).astype(wide), reference.astype(wide)
            message = f"{name}: {op!r}"
            np.testing.assert_allclose(one_wide, other_wide, rtol=1e-6, err_msg=message)


def test_a_convolution_of_groups_of_a_batch() -> None:
    b = xb.XlaBuilder("groups")
    x, kernel = b.parameter(xb.f32[4, 2, 5]), b.parameter(xb.f32[6, 2, 3])
    result = xb.conv_general_dilated(
        x, kernel, [1], [(1, 0)], [1], [1], "bf0_oi0->bf0", batch_group_count=2
    )
    computation = b.build(result)
    values = small_numbers(xb.f32, (4, 2, 5)), small_numbers(xb.f32, (6, 2, 3), 1)
    got = lowering.to_jax(computation)(*values)
    np.testing.assert_array_equal(got, lowering.compile(computation)(*values))


def test_index_vectors_before_batch_dimensions() -> None:
    """jax has index vectors in the last dimension."""
    b = xb.XlaBuilder("batches")
    x, index = b.parameter(xb.f32[2, 5]), b.parameter(xb.s32[1, 2, 3])
    dimensions = [], [1], [1], 0, [0], [1]
    gathered = xb.gather(x, index, xb.GatherDimensionNumbers(*dimensions), [1, 1])
    scattered = xb.scatter(x, index, gathered, xb.add, xb.ScatterDimensionNumbers(*dimensions))
    function = lowering.to_jax(b.build(xb.tuple(gathered, scattered)))
    values, places = small_numbers(xb.f32, (2, 5)), np.int32([[4, 0, 2], [1, 3, 0]])
    part, total = function(values, places[None])
    np.testing.assert_array_equal(part, np.take_along_axis(values, places, 1))
    expected = values.copy()
    np.put_along_axis(expected, places, 2 * np.take_along_axis(values, places, 1), 1)
    np.testing.assert_array_equal(total, expected)


def test_a_broadcast_with_permuted_dimensions() -> None:
    b = xb.XlaBuilder("permuted")
    x, sizes = b.parameter(xb.f32[3, 1]), b.parameter(xb.s32[3])
    result = xb.dynamic_broadcast_in_dim(x, sizes, [2, 0], xb.f32[4, 2, 3])
    function = lowering.to_jax(b.build(result))
    values, to = np.arange(3, dtype=np.float32).reshape(3, 1), np.int32([4, 2, 3])
    np.testing.assert_array_equal(function(values, to), np.broadcast_to(values[:, 0], to))
    gradient = jax.grad(lambda x: (function(x, to) ** 2).sum())(values)
    np.testing.assert_array_equal(gradient, 2 * 8 * values)


def test_sorts_of_narrow_types() -> None:
    """XLA sorts 2-bit integers incorrectly without the rewrites, and there are no 4-bit keys."""
    arrays = [small_numbers(t, (9,)) for t in (xb.s2, xb.u2, xb.s4, xb.u4, xb.f4e2m1fn)]
    b = xb.XlaBuilder("sorted")
    operands = [parameter_like(b, array) for array in arrays]
    computation = b.build(xb.tuple(*(xb.sort(operand) for operand in operands)))
    for got, array in zip(jax.jit(lowering.to_jax(computation))(*arrays), arrays, strict=True):
        expected = np.sort(array.astype(np.float32))
        np.testing.assert_array_equal(np.asarray(got).astype(np.float32), expected, str(got.dtype))


def test_logistic_of_narrow_floats() -> None:
    """It is rounded once, as by `compile`."""
    arrays = [np.linspace(-9, 9, 500).astype(t.dtype) for t in (xb.bf16, xb.f16)]
    b = xb.XlaBuilder("rounded")
    operands = [parameter_like(b, array) for array in arrays]
    computation = b.build(xb.tuple(*map(xb.logistic, operands)))
    expected = lowering.compile(computation)(*arrays)
    results = jax.jit(lowering.to_jax(computation))(*arrays)
    for result, reference in zip(results, expected, strict=True):
        assert_same_bits(np.asarray(result), np.asarray(reference))


@each_row("dtype", [np.int8, np.int32, np.int64, np.uint64])
def test_windows_of_a_scatter_that_are_partly_or_far_outside(dtype: Any) -> None:
    """Each element out of bounds is ignored, and a window far outside changes nothing."""
    starts = [-128, -3, -2, -1, 0, 3, 4, 5, 127, np.iinfo(dtype).min, np.iinfo(dtype).max]
    starts = [start for start in starts if start >= np.iinfo(dtype).min]
    b = xb.XlaBuilder("scattered")
    x, index, update = (
        b.parameter(xb.s32[5]),
        b.parameter(xb.array_shape(dtype, [1])),
        b.parameter(xb.s32[3]),
    )
    numbers = xb.ScatterDimensionNumbers([0], [], [0], index_vector_dim=0)
    function = jax.jit(lowering.to_jax(b.build(xb.scatter(x, index, update, xb.add, numbers))))
    for start in starts:
        expected = np.zeros(5, np.int32)
        for place in range(3):
            if 0 <= start + place < 5:
                expected[start + place] = place + 1
        got = function(np.zeros(5, np.int32), np.array([start], dtype), np.int32([1, 2, 3]))
        np.testing.assert_array_equal(got, expected, str(start))


def test_lapack_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """jaxlib loads LAPACK when jax lowers a factorization of its own; before, a call crashes."""
    loaded = []
    monkeypatch.setattr(pasting, "initialize_lapack", loaded.append)
    b = xb.XlaBuilder("factor")
    factor = b.build(xb.cholesky(b.parameter(xb.f32[3, 3])))
    jax.jit(lowering.to_jax(factor)).lower(np.eye(3, dtype=np.float32))
    assert any(b"lapack_spotrf_ffi" in code for code in loaded)


@pytest.mark.slow
@pytest.mark.jaxlib
def test_every_opcode_is_compared() -> None:
    counts = Counter({opcode: len(each) for opcode, each in cases().items()})
    free = {"iota", "create_token", "tuple", "get_tuple_element"}
    assert {o for o in SCHEMAS if not counts[o]} == UNCOMPARED.keys() | free


def test_static_sizes_of_dynamic_ops() -> None:
    b = xb.XlaBuilder("reshaped")
    x, n = b.parameter(xb.f32[6]), b.parameter(xb.s32[()])
    reshaped = xb.dynamic_reshape(x, [n, n], [2, 3], [False, False])
    computation = b.build(xb.remove_dynamic_dimension(reshaped, 1))
    assert computation.root.opcode == "set_dimension_size"
    assert all(op.shape.is_static for op in computation.ops)
    values = np.arange(6, dtype=np.float32)
    result = lowering.to_jax(computation)(values, 2)
    np.testing.assert_array_equal(result, values.reshape(2, 3))


@pytest.mark.slow
@pytest.mark.jaxlib
@each_row("opcode", sorted(REFUSED))
def test_refused_opcodes(opcode: str) -> None:
    op, computation = next((op, c) for _, op, c in recorded_ops() if op.opcode == opcode)
    with pytest.raises(LoweringError) as caught:
        lowering.to_jax(computation)
    reason, fix = REFUSED[opcode]
    assert str(caught.value).startswith(f"to_jax: {opcode}, recorded at ")
    assert f": {reason}\nfix: {fix}" in str(caught.value)
    assert caught.value.shapes["result"] is op.shape
