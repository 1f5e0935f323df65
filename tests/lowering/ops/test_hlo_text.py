"""HLO text, parsed by XLA and executed on CPU.

`support.run` checks the HLO text of every computation that a test runs. These tests cover the rest:
names, annotations, and bits that data movement must preserve.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jaxlib
import numpy as np
import pytest
from support import (
    assert_identical,
    assert_same_bits,
    compiled_once,
    parameter_like,
    run,
    stablehlo_of_text,
    trusted_module,
)
from tables import each_row

import builder as xb
import lowering
from builder.hlo_text.printer import RESERVED
from builder.ops.contraction.dot_product import ALGORITHM_TYPES
from builder.types.constant import splat_value
from builder.types.primitive_type import ALL, PrimitiveType
from lowering.jaxlib_api import hlo_conversion, mlir
from lowering.legalize.elementwise import TRANSCENDENTAL

FLOATS = [t for t in ALL if t.is_floating]
COMPLEXES = [t for t in ALL if t.is_complex]


def executed(module_bytecode: bytes, *arguments: Any) -> list[np.ndarray]:
    result = lowering.compile(trusted_module(module_bytecode))(*arguments)
    return [np.asarray(r) for r in (result if isinstance(result, tuple) else (result,))]


def both_ways(computation: xb.XlaComputation, *arguments: Any) -> list[list[np.ndarray]]:
    """Return the results of the lowered module and of the HLO text."""
    return [
        executed(module, *arguments)
        for module in (lowering.lower(computation).bytecode, stablehlo_of_text(computation))
    ]


# Names

# Names of parameters, and names that look like those of the printer.
NAMES = [
    *("__x", "é日本", "___", "__", "_", "-", ".", "\ud800", "a\ud800", "0x1", "1x2", "0_0_1"),
    *("constant.60", "constant.60.value", "constant.60.value.1", "popcnt.61.bits", "all0"),
    *("add.1", "add.2", "b01f_01io", "dim_labels", "%x", "x:", "x", "x.", "x-"),
    *sorted(RESERVED),
]


def test_the_parser_reads_every_name() -> None:
    b = xb.XlaBuilder("__names")
    parameters = [b.parameter(xb.s4[2], name) for name in NAMES]
    total = b.constant(np.array([7, 7]).astype(xb.s4.dtype))
    for parameter, name in zip(parameters, NAMES, strict=True):
        total = total + xb.population_count(parameter)
        total.name = name
    computation = b.build(total)
    text = computation.to_hlo_text(metadata=True)
    assert hlo_conversion.parsed_hlo_text(text).startswith("HloModule x__names")
    arguments = [np.array([-1, i % 2]).astype(xb.s4.dtype) for i in range(len(NAMES))]
    ours, theirs = both_ways(computation, *arguments)
    expected = 7 + np.array([4 * len(NAMES), len(NAMES) // 2])
    assert ours[0].astype(int).tolist() == [(w + 8) % 16 - 8 for w in expected]
    assert_identical(ours[0], theirs[0])


@each_row("name", ["__f", "é日本", "\ud800", "a\ud800b", "or_u8"])
def test_names_of_computations(name: str) -> None:
    inner = xb.XlaBuilder(name)
    bits = xb.bitcast_convert_type(inner.parameter(xb.pred[2, 8], name), xb.u8)
    b = xb.XlaBuilder(name)
    result = xb.call(inner.build(bits), b.parameter(xb.pred[2, 8], name))
    result.name = name
    x = np.arange(16).reshape(2, 8) % 3 == 0
    got = run(b.build(result), x)
    assert got.tolist() == [0b01001001, 0b10010010]


def test_ten_thousand_functions_with_one_name() -> None:
    """Both texts make the names unique in linear time."""

    def calls(count: int) -> xb.XlaComputation:
        b = xb.XlaBuilder("<lambda>")
        x = b.parameter(xb.f32[()], "x")
        for number in range(count):
            # The default argument makes it another function, which is not shared.
            x = xb.call(lambda v, _number=number: v, x)
        return b.build(x)

    computation = calls(10_000)
    start = time.process_time()
    text, module = str(computation), lowering.lower(computation)
    assert time.process_time() - start < 30
    assert text.count(" call(") == 10_000
    assert len(list(module.module.body.operations)) == 10_001
    small = calls(300)
    for module_bytecode in (lowering.lower(small).bytecode, stablehlo_of_text(small)):
        assert hlo_conversion.stablehlo_to_hlo_text(module_bytecode).count(" call(") == 300


# Annotations


def test_frontend_attributes_are_read() -> None:
    b = xb.XlaBuilder("keys")
    keys = ["a", "_", "__x", "a.b", "a-b", "A1_", "a-", *sorted(RESERVED)]
    values = ["", "plain", 'q"uote', "back\\", "two\nlines", "tab\t", "nul\0", "é", "{}", "\x7f"]
    expected = {key: values[i % len(values)] for i, key in enumerate(keys)}
    with b.frontend_attributes(expected):
        x = b.parameter(xb.f32[()], "x")
        y = x + x
    computation = b.build(y)
    assert hlo_conversion.parsed_hlo_text(computation.to_hlo_text(metadata=True))
    for code in (lowering.lower(computation).bytecode, stablehlo_of_text(computation)):
        module = mlir.read_module(mlir.new_context(), code)
        (main,) = module.body.operations
        add = main.regions[0].blocks[0].operations[0]
        got = add.attributes["mhlo.frontend_attributes"]
        assert len(got) == len(keys)
        assert {key: got[key].value for key in keys} == expected
        assert hlo_conversion.stablehlo_to_hlo_text(code).count("frontend_attributes={") == 2


@each_row(
    "sharding",
    [
        "{replicated}",
        "{maximal device=0}",
        "{manual}",
        "{devices=[2,1]<=[2]}",
        "{devices=[2,1]0,1}",
    ],
)
def test_shardings_are_read(sharding: str) -> None:
    b = xb.XlaBuilder("sharding")
    with b.sharding(sharding):
        x = b.parameter(xb.f32[8, 2], "x")
    assert f"sharding={sharding}" in hlo_conversion.parsed_hlo_text(str(b.build(x)))


# Dot algorithms


@each_row("algorithm", list(xb.DotAlgorithm))
def test_the_parser_reads_dot_algorithms(algorithm: xb.DotAlgorithm) -> None:
    """Their conversion and execution is tested in test_contraction.py."""
    b = xb.XlaBuilder("dot")
    sources, targets = ALGORITHM_TYPES[algorithm][0]
    x = b.parameter(min(sources, key=str)[2, 2], "x")
    product = xb.dot_general(
        x,
        x,
        xb.DotDimensionNumbers([1], [0]),
        preferred_element_type=max(targets, key=lambda t: t.bits),
        algorithm=algorithm,
    )
    text = hlo_conversion.parsed_hlo_text(str(b.build(product)))
    assert f"algorithm={algorithm.value}" in text


# Opcodes that jaxlib converts to mhlo


@each_row("name", TRANSCENDENTAL)
def test_opcodes_that_jaxlib_converts_to_mhlo(name: str) -> None:
    """XLA parses an op of the opcode for each type."""
    b = xb.XlaBuilder(name)
    types = [t for t in (*FLOATS, *COMPLEXES) if t.bits > 8]
    results = [getattr(xb, name)(b.parameter(t[3], f"x_{t}")) for t in types]
    computation = b.build(xb.tuple(*results))
    parsed = hlo_conversion.parsed_hlo_text(str(computation))
    assert parsed.count(f" {name}(") == len(types)
    context = mlir.new_context()
    code = hlo_conversion.hlo_text_to_stablehlo(str(computation))
    assert str(mlir.read_module(context, code)).count(f"mhlo.{name} ") == len(types)


# Bits


def patterns(t: PrimitiveType) -> np.ndarray:
    """Every bit pattern of a type of up to 16 bits; NaNs and random bits of a wider type."""
    if t is xb.pred:
        return np.array([False, True])
    if t.is_complex:
        parts = patterns(t.real_type)
        together = np.empty(parts.size, t.dtype)
        bits = together.view(f"u{parts.dtype.itemsize}")
        bits[::2], bits[1::2] = (
            p.view(bits.dtype) for p in (parts, np.random.default_rng(1).permutation(parts))
        )
        return together
    if t.is_integral and t.bits < 8:
        return np.arange(t.min, t.max + 1).astype(t.dtype)
    unsigned: Any = np.dtype(f"u{t.byte_width}").type
    if t.bits <= 16:
        return np.arange(1 << t.bits, dtype=unsigned).view(t.dtype)
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << t.bits, 3000, unsigned)
    if t.is_floating:
        mantissa = np.finfo(t.dtype).nmant
        payloads = rng.integers(1, 1 << mantissa, 1000, unsigned)
        payloads[:3] = [1, 1 << mantissa - 1, (1 << mantissa) - 1]  # signaling, quiet, all ones
        exponent = unsigned((1 << t.bits - 1) - (1 << mantissa))
        sign = rng.integers(0, 2, 1000, unsigned) << unsigned(t.bits - 1)
        subnormal = rng.integers(1, 1 << mantissa, 100, unsigned)
        corners = np.array([0.0, -0.0, 1, np.inf, -np.inf], t.dtype).view(unsigned)
        bits = np.concatenate([bits, payloads | exponent | sign, subnormal, corners])
    return bits.view(t.dtype)


def is_nan(x: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # NumPy warns about signaling NaNs
        return x != x


@pytest.mark.slow
def test_constants_preserve_every_bit() -> None:
    """Signaling NaNs, payloads, and signs of zeros and NaNs, in both texts."""
    arrays = []
    for t in ALL:
        every = patterns(t)
        arrays += [every, every[:2].reshape(2, 1), every[-1], np.full((3, 2), every[-1], t.dtype)]
        nan = every[is_nan(every)][:1]
        if nan.size:
            arrays += [nan, nan[0].reshape(()), np.full(5, nan[0])]
    b = xb.XlaBuilder("constants")
    computation = b.build(xb.tuple(*(b.constant(a) for a in arrays)))
    for results in both_ways(computation):
        for array, got in zip(arrays, results, strict=True):
            if array.dtype == xb.bf16.dtype and splat_value(array) is not None:
                assert_same_bits(got, array)  # XLA broadcasts it as f32, which makes NaNs quiet
            else:
                assert_identical(got, array)


@pytest.mark.parametrize("t", COMPLEXES, ids=str)
def test_complex_constants_with_special_parts(t: PrimitiveType) -> None:
    special = np.array([1.5, 0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan], t.real_type.dtype)
    array = np.empty((special.size, special.size), t.dtype)
    array.real, array.imag = special[:, None], special
    b = xb.XlaBuilder("complex")
    scalars = [b.constant(array[i, j]) for i in range(7) for j in range(7)]
    computation = b.build(xb.tuple(b.constant(array), *scalars))
    for whole, *each in both_ways(computation):
        assert_identical(whole, array)
        assert_identical(np.array(each).reshape(7, 7), array)


def test_iota_constants_from_negative_zero_preserve_the_sign() -> None:
    arrays = [
        np.array([-0.0, 1, 2, 3]).astype(t.dtype)
        for t in (*FLOATS, *COMPLEXES)
        if t is not xb.f8e8m0fnu and not t.name.endswith("fnuz")  # they have no -0
    ]
    b = xb.XlaBuilder("counting")
    computation = b.build(xb.tuple(*(b.constant(a) for a in arrays)))
    for results in both_ways(computation):
        for array, got in zip(arrays, results, strict=True):
            assert_identical(got, array)


def filled_edge(x: xb.XlaOp) -> xb.XlaOp:
    corner = xb.reshape(xb.slice(x, [0, 0], [1, 1], [1, 1]), [])
    return xb.pad(x, corner, [(1, 0, 0), (0, 2, 0)])


def with_filled_edge(v: np.ndarray) -> np.ndarray:
    result = np.full((v.shape[0] + 1, v.shape[1] + 2), v[0, 0], v.dtype)
    result[1:, :-2] = v
    return result


def with_moved_corner(v: np.ndarray) -> np.ndarray:
    result = v.copy()
    result[1, 1] = v[0, 0]
    return result


# Ops that move elements, and the same in NumPy.
MOVES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "reshape": (lambda x: xb.reshape(x, [x.shape.element_count]), np.ravel),
    "transpose": (lambda x: xb.transpose(x, [1, 0]), np.transpose),
    "reverse": (lambda x: xb.rev(x, [0, 1]), np.flip),
    "slice": (lambda x: xb.slice(x, [1, 0], x.shape.dimensions, [2, 1]), lambda v: v[1::2]),
    "broadcast": (lambda x: xb.broadcast(x, [2]), lambda v: np.stack([v, v])),
    "concatenate": (lambda x: xb.concat_in_dim([x, x], 1), lambda v: np.hstack([v, v])),
    "pad": (filled_edge, with_filled_edge),
    "select": (
        lambda x: xb.select(x.builder.iota(xb.s32[x.shape.dimensions], 0) < 1, x, xb.rev(x, [0])),
        lambda v: np.where(np.arange(len(v))[:, None] < 1, v, v[::-1]),
    ),
    "dynamic_slice": (
        lambda x: xb.dynamic_slice(x, [x.builder.constant(1, xb.s32)] * 2, [2, 1]),
        lambda v: v[1:3, 1:2],
    ),
    "dynamic_update_slice": (
        lambda x: xb.dynamic_update_slice(
            x, xb.slice(x, [0, 0], [1, 1], [1, 1]), [x.builder.constant(1, xb.s32)] * 2
        ),
        with_moved_corner,
    ),
}


@pytest.mark.slow
def test_ops_that_move_elements_preserve_bits() -> None:
    arrays = []
    for t in ALL:
        x = patterns(t)
        arrays.append(np.resize(x, (4, max(2, -(-x.size // 4)))))
    b = xb.XlaBuilder("moves")
    parameters = [parameter_like(b, x) for x in arrays]
    cases, ops = [], []
    for number, (t, x, p) in enumerate(zip(ALL, arrays, parameters, strict=True)):
        # XLA computes f16 and bf16 in f32; of the other types, two consecutive ones have all moves.
        for name in MOVES if t in (xb.f16, xb.bf16) else [*MOVES][number % 2 :: 2]:
            cases.append((t, x, name))
            ops.append(MOVES[name][0](p))
    with compiled_once():
        ours, theirs = both_ways(b.build(xb.tuple(*ops)), *arrays)
    for (t, x, name), mine, other in zip(cases, ours, theirs, strict=True):
        assert_identical(mine, other)
        want = MOVES[name][1](as_records(x))
        assert mine.shape == want.shape, name
        same = as_records(mine) == want
        if name == "select" and t is xb.bf16 and jaxlib.__version__.startswith("0.10."):
            same |= np.isnan(mine)  # signaling NaNs become quiet
        assert same.all(), (name, t)


def as_records(x: np.ndarray) -> np.ndarray:
    """The bytes of the elements as integers."""
    return np.ascontiguousarray(x).view(f"S{x.dtype.itemsize}").reshape(x.shape)
