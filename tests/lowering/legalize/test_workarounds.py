"""Programs that XLA compiles incorrectly, or aborts on, unless `lowering.legalize` rewrites them.

The expected results come from plain arithmetic. Each op is lowered to one operation.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from jaxlib.version import __version_info__ as jaxlib_version
from numpy.testing import assert_array_equal
from processes import run_python
from support import run
from tables import each_row

import builder as xb
import lowering
from lowering.legalize import indexing, legalize
from tests.lowering.common import parameters


def evaluate(function, *arguments):
    """Run `function(builder, *ops)` on the arguments."""
    b = xb.XlaBuilder("workaround")
    return run(b.build(function(b, *parameters(b, *arguments))), *arguments)


def test_the_sum_of_two_constant_preds() -> None:
    for left, right in [(True, True), (True, False), (False, False)]:
        got = evaluate(lambda b, p=left, q=right: xb.add(b.constant(p), b.constant(q)))
        assert bool(got) is (left or right)


ONE_EACH = {
    "add of preds": (xb.add, "pred[2]", "pred[2]"),
    "popcnt": (xb.population_count, "s4[2]"),
    "convert complex": (lambda x: xb.convert(x, xb.f32), "c64[2]"),
    "convert f4": (lambda x: xb.convert(x, xb.s8), "f4e2m1fn[2]"),
    "convert s4": (lambda x: xb.convert(x, xb.s8), "s4[2]"),
    "bitcast to preds": (lambda x: xb.bitcast_convert_type(x, xb.pred), "u8[2]"),
    "bitcast from preds": (lambda x: xb.bitcast_convert_type(x, xb.s4), "pred[2,4]"),
    "bitcast complex": (lambda x: xb.bitcast_convert_type(x, xb.c64), "c128[2]"),
    "divide": (xb.div, "s32[2]", "s32[2]"),
    "divide constants": (lambda b: xb.div(b.constant(7, xb.s32), b.constant(0, xb.s32)),),
    "power": (xb.pow, "s8[2]", "s8[2]"),
    "slice": (lambda x: xb.slice(x, [0], [2], [2**62]), "f32[2]"),
    "constant": (lambda b: b.constant(np.array([-0.0, 1, 2])),),
    "acos": (xb.acos, "f8e5m2[2]"),
    "erf": (xb.erf, "f8e4m3fn[2]"),
    "mulhi": (xb.mulhi, "s4[2]", "s4[2]"),
    "mulhi of 64 bits": (xb.mulhi, "s64[2]", "s64[2]"),
}


@each_row("case", ONE_EACH)
def test_an_op_is_lowered_to_one_operation(case: str) -> None:
    function, *shapes = ONE_EACH[case]
    b = xb.XlaBuilder("one")
    result = function(*(b.parameter(shape) for shape in shapes)) if shapes else function(b)
    module = lowering.lower(b.build(result)).module
    (main,) = module.body.operations
    *operations, end = main.regions[0].blocks[0].operations
    assert end.operation.name == "func.return"
    recorded = sum(op.opcode != "parameter" for op in b.ops)
    assert len(operations) == recorded


@pytest.mark.parametrize("t", [xb.s4, xb.u4], ids=str)
def test_four_bit_results_wrap_before_conversion(t: xb.PrimitiveType) -> None:
    every = np.arange(t.min, t.max + 1)
    x, y = (v.reshape(-1) for v in np.meshgrid(every, every))
    wide = xb.s8 if t is xb.s4 else xb.u8
    references = {
        "add": x + y,
        "sub": x - y,
        "mul": x * y,
        "shift_left": np.where((y >= 0) & (y < 4), x << np.clip(y, 0, 3), 0),
        "not_": ~x,
        "neg": -x,
        "square": x * x,
    }

    def program(b: xb.XlaBuilder, lhs: xb.XlaOp, rhs: xb.XlaOp) -> xb.XlaOp:
        results = []
        for name in references:
            operands = [lhs] if name in ("not_", "neg", "square") else [lhs, rhs]
            results.append(xb.convert(getattr(xb, name)(*operands), wide))
        return xb.tuple(*results)

    results = evaluate(program, x.astype(t.dtype), y.astype(t.dtype))
    for (name, reference), got in zip(references.items(), results, strict=True):
        wrapped = reference & 15
        if t is xb.s4:
            wrapped = np.where(wrapped > 7, wrapped - 16, wrapped)
        assert_array_equal(got, wrapped.astype(wide.dtype), name)


@pytest.mark.parametrize("t", [xb.s4, xb.u4], ids=str)
def test_four_bit_operands_wrap_before_an_eight_bit_dot(t: xb.PrimitiveType) -> None:
    x = np.array([[7, 5], [3, 6]])
    wide = xb.s8 if t is xb.s4 else xb.u8
    got = evaluate(lambda b, a: xb.dot(a + a, a, preferred_element_type=wide), x.astype(t.dtype))
    twice = (x + x) & 15
    if t is xb.s4:
        twice = np.where(twice > 7, twice - 16, twice)
    assert_array_equal(got, (twice @ x).astype(wide.dtype))


AS_RECORDED: dict[str, tuple[Any, list[str], str, str]] = {
    "dot of 2 bits": (xb.dot, ["s2[2,3]", "s2[3,2]"], "dot_general", "dot"),
    "dot of 4 bits": (
        lambda x, y: xb.dot(x, y, preferred_element_type=xb.s32),
        ["s4[2,3]", "s4[3,2]"],
        "dot_general",
        "dot",
    ),
    "dot of f4": (
        lambda x, y: xb.dot(x, y, preferred_element_type=xb.f32),
        ["f4e2m1fn[2,3]", "f4e2m1fn[3,2]"],
        "dot_general",
        "dot",
    ),
    "convolution": (
        lambda x, y: xb.conv(x, y, [1], [(0, 0)]),
        ["u2[1,2,4]", "u2[3,2,2]"],
        "convolution",
        "convolution",
    ),
    "ragged_dot": (
        lambda x, y, sizes: xb.ragged_dot(
            x, y, sizes, xb.RaggedDotDimensionNumbers((([1], [1]), ([], [])), [0], [0])
        ),
        ["s2[4,3]", "s2[2,3,2]", "s32[2]"],
        "ragged_dot",
        "ragged-dot",
    ),
    "concatenate": (
        lambda x, y: xb.concatenate([x, y], 0),
        ["u2[3]", "u2[2]"],
        "concatenate",
        "concatenate",
    ),
    "all_gather": (lambda x: xb.all_gather(x, 0, 2), ["bf16[2]"], "all_gather", "all-gather"),
    "all_to_all": (
        lambda x: xb.all_to_all(x, 0, 0, 2),
        ["f8e5m2[2]"],
        "all_to_all",
        "all-to-all",
    ),
    "reshape": (
        lambda x: xb.reshape_with_inferred_dimension(x, [3, 2], 0),
        ["f32[<=6]"],
        "reshape",
        "reshape",
    ),
}


@each_row("name", AS_RECORDED)
def test_exported_modules_have_one_operation_for_an_op(name: str) -> None:
    function, shapes, stablehlo, hlo = AS_RECORDED[name]
    b = xb.XlaBuilder("recorded")
    computation = b.build(function(*(b.parameter(shape) for shape in shapes)))
    text = str(lowering.lower(computation))
    assert re.findall(r"(?:stablehlo|chlo)\.(\w+)(?=[ \"(])", text) == [stablehlo]
    opcodes = re.findall(r" ([a-z-]+)\(", str(computation).split("ENTRY")[1].split("\n", 1)[1])
    assert opcodes == ["parameter"] * len(shapes) + [hlo]


def test_a_reshape_that_divides_a_bounded_size() -> None:
    b = xb.XlaBuilder("divided")
    x = b.parameter("f32[<=6]")
    rows = xb.reshape_with_inferred_dimension(x, [3, 2], 0)
    columns = xb.reshape_with_inferred_dimension(x, [2, 3], 1)
    computation = b.build(xb.tuple(rows, columns))
    for n in (6, 4, 0):
        values = np.arange(n, dtype=np.float32)
        actual = run(computation, values)
        assert_array_equal(actual[0], values.reshape(-1, 2))
        assert_array_equal(actual[1], values.reshape(2, -1))


@pytest.mark.slow
def test_powers_are_exact_modulo_the_width() -> None:
    types = (xb.s8, xb.u8, xb.s32, xb.u16, xb.u64)
    bases = [0, 2, 4, 6, 2, 3, 1, 1, 3, 3, 5, 7, 2]
    exponents = [64, 64, 65, 100, 3, 3, 64, 127, 64, 65, 100, 127, 0]
    constants = [np.array(exponents, t.dtype) for t in types]

    def program(b: xb.XlaBuilder, *ops: xb.XlaOp) -> xb.XlaOp:
        x, y = ops[: len(types)], ops[len(types) :]
        folded = [xb.pow(p, b.constant(c)) for p, c in zip(x, constants, strict=True)]
        return xb.tuple(*map(xb.pow, x, y), *folded)

    got = evaluate(program, *(np.array(bases, t.dtype) for t in types), *constants)
    for index, t in enumerate(types):
        powers = [pow(x, y, 2**t.bits) for x, y in zip(bases, exponents, strict=True)]
        want = np.array(powers, object).astype(np.uint64).astype(t.dtype)
        for each in got[index :: len(types)]:
            assert_array_equal(each, want, str(t))


def test_powers_by_constants_at_the_limits_of_rewrites() -> None:
    """64 is the first exponent of two digits, and -1 the first one below 0."""
    bases = [3, -1, -1, 2]
    exponents = [[63] * 4, [64] * 4, [0, -1, -1, 1]]

    def program(b: xb.XlaBuilder, x: xb.XlaOp) -> xb.XlaOp:
        constants = [b.constant(np.array(each, np.int32)) for each in exponents]
        both = (x, b.constant(np.array(bases, np.int32)))
        return xb.tuple(*(xb.pow(base, each) for base in both for each in constants))

    for place, got in enumerate(evaluate(program, np.array(bases, np.int32))):
        # The reciprocal of -1 is -1.
        powers = [b ** abs(n) for b, n in zip(bases, exponents[place % 3], strict=True)]
        want = np.array([power % 2**32 for power in powers], np.uint32).view(np.int32)
        assert_array_equal(got, want)


def test_powers_by_negative_exponents_and_of_bounded_sizes() -> None:
    base = np.array([1, -1, -1, 3, 0, -3, 2], np.int32)
    exponent = np.array([-1, -1, -64, -(2**31), 5, 65, 31], np.int32)
    want = np.array([1, -1, 1, 0, 0, -(3**65), 2**31], object) % 2**32
    want = want.astype(np.uint32).view(np.int32)
    assert_array_equal(evaluate(lambda b, x, y: xb.pow(x, y), base, exponent), want)
    b = xb.XlaBuilder("bounded")
    x, y = (b.parameter("s32[<=9]") for _ in range(2))
    got = lowering.compile(b.build(xb.pow(x, y)))(base, exponent)
    assert_array_equal(np.asarray(got), want)


def test_powers_of_scalars_in_regions() -> None:
    """A power is a loop in @main, in loops and in branches, but not in the computation of map."""
    want = np.array(pow(3, 65, 2**32), np.uint32).view(np.int32)

    def power(x: xb.XlaOp, y: xb.XlaOp) -> xb.XlaOp:
        return xb.pow(x, y)

    def in_loop(x: xb.XlaOp, y: xb.XlaOp) -> xb.XlaOp:
        return xb.while_(lambda v: xb.eq(v, 3), lambda v: xb.pow(v, y), x)

    def in_branch(x: xb.XlaOp, y: xb.XlaOp) -> xb.XlaOp:
        return xb.conditional(xb.eq(x, 3), x, lambda v: xb.pow(v, y), y, lambda v: v)

    def in_map(x: xb.XlaOp, y: xb.XlaOp) -> xb.XlaOp:
        vectors = [xb.reshape(value, [1]) for value in (x, y)]
        return xb.reshape(xb.map(vectors, lambda a, c: xb.pow(a, c), [0]), [])

    for function in (power, in_loop, in_branch, in_map):
        got = evaluate(lambda b, x, y, f=function: f(x, y), np.int32(3), np.int32(65))
        assert_array_equal(got, want)


@pytest.mark.parametrize("source", [np.complex64, np.complex128])
def test_complex_constants_as_real_numbers(source: type) -> None:
    values = (source(1 + 2j), np.array([1 + 2j, 3 - 1j], source))
    types = (xb.f32, xb.f64, xb.s32, xb.bf16, xb.u8)
    cases = [(value, t) for value in values for t in types]
    results = evaluate(lambda b: xb.tuple(*(xb.convert(b.constant(v), t) for v, t in cases)))
    for (value, t), got in zip(cases, results, strict=True):
        assert_array_equal(got, np.real(value).astype(t.dtype), str(t))


def test_complex_numbers_as_preds() -> None:
    x = np.array([2j, 1, 0, -0.0], np.complex64)
    got = evaluate(lambda b, a: xb.convert(a, xb.pred), x)
    assert_array_equal(got, [True, True, False, False])
    # StableHLO's convert takes the real part, as jax does.
    module = lowering.load_bytes(
        """func.func @main(%x: tensor<4xcomplex<f32>>) -> tensor<4xi1> {
          %0 = stablehlo.convert %x : (tensor<4xcomplex<f32>>) -> tensor<4xi1>
          return %0 : tensor<4xi1>
        }"""
    )
    want = [False, True, False, False]
    assert_array_equal(np.asarray(lowering.compile(module)(x)), want)
    assert_array_equal(run(lowering.to_computation(module), x), want)


@pytest.mark.parametrize("name", ["div", "rem"])
@pytest.mark.parametrize("t", [xb.s8, xb.s32, xb.u32, xb.s64], ids=str)
def test_constants_divided_by_zero(name: str, t: xb.PrimitiveType) -> None:
    """The results are those of XLA for variables: all bits set in a quotient, the dividend."""

    def program(b: xb.XlaBuilder) -> xb.XlaOp:
        five, zero = b.constant(5, t), b.constant(0, t)
        count = b.iota(xb.array_shape(t, [1]), 0)
        function = getattr(xb, name)
        return xb.tuple(
            function(five, zero),
            function(xb.broadcast(five, [1]), count),
            function(five, zero + 0),
            function(xb.broadcast(five, [1]), xb.broadcast(zero, [1])),
            function(five, count - count),
            xb.conditional(b.constant(True), zero, lambda x: function(five, x), zero, lambda x: x),
        )

    expected = np.array({"div": -1, "rem": 5}[name]).astype(t.dtype)
    for got in evaluate(program):
        assert_array_equal(got.reshape(()), expected)


_LATE_ZEROS = """
import numpy as np

import builder as xb
import lowering

b = xb.XlaBuilder("late")
x = b.parameter(xb.s32[2])
seven, zero = (b.constant(np.array([n, n], np.int32)) for n in (7, 0))
far = zero
for _ in range(300):
    far = xb.neg(far)
zeros = [
    *(x - x, x * 0, x ^ x, x & 0, far, xb.clamp(0, x, 0)),
    xb.broadcast(xb.get_dimension_size(x, 0) - 2, [2]),
    xb.slice(xb.concatenate([zero, x], 0), [0], [2]),
    xb.optimization_barrier(zero),
]
results = [f(seven, divisor) for divisor in zeros for f in (xb.div, xb.rem)]
computation = b.build(xb.tuple(*results))
for program in (computation, lowering.load_bytes(str(lowering.lower(computation)))):
    got = lowering.compile(program, "cpu")(np.array([1, 2], np.int32))
    assert [r.tolist() for r in map(np.asarray, got)] == [[-1, -1], [7, 7]] * len(zeros), got
print("done")
"""


@pytest.mark.slow
def test_divisors_that_xla_simplifies_to_zero() -> None:
    """In another process, which XLA would end; also from a file."""
    assert run_python("-c", _LATE_ZEROS).stdout == "done\n"


@each_row(
    "first, compared, sizes",
    [
        ("s32", "s32", (3, 5)),
        ("s16", "s16", (40_000, 2)),
        ("u16", "u16", (5, 3)),
        ("u16", "s32", (5, 3)),
        ("f16", "f16", (70_000,)),
        ("f16", "f32", (70_000,)),
        ("f8e5m2", "f32", (70_000,)),
    ],
)
def test_comparisons_of_iotas(first: str, compared: str, sizes: tuple[int, ...]) -> None:
    """Also where their difference has the opposite sign, or is NaN."""
    t, shape = (xb.as_primitive_type(name)[sizes] for name in (first, compared))
    b = xb.XlaBuilder("indices")
    operands = [xb.convert(b.iota(t, d), shape.element_type) for d in (0, len(sizes) - 1)]
    results = [compare(*operands) for compare in (xb.eq, xb.ne, xb.lt, xb.le, xb.gt, xb.ge)]
    with np.errstate(over="ignore"):
        numbers = [np.indices(sizes)[d].astype(t.element_type.dtype) for d in (0, -1)]
        i, j = (each.astype(shape.element_type.dtype) for each in numbers)
    want = [i == j, i != j, i < j, i <= j, i > j, i >= j]
    assert_array_equal(run(b.build(xb.tuple(results))), want)


def test_comparisons_of_broadcast_iotas_are_compiled_as_differences() -> None:
    b = xb.XlaBuilder("differences")
    x = b.parameter(xb.f32[2, 4, 4])
    row = xb.reshape(b.iota(xb.s64[4], 0), [4, 1])
    rows = xb.broadcast_in_dim(row, [2, 4, 4], [1, 2])
    columns = xb.convert(b.iota(xb.s16[2, 4, 4], 2), xb.s64)
    c = b.build(xb.select(xb.lt(rows, columns), x, xb.transpose(x, [0, 2, 1])))
    array = np.arange(32, dtype=np.float32).reshape(2, 4, 4)
    assert_array_equal(run(c, array), np.triu(array, 1) + np.tril(array.swapaxes(1, 2)))
    compiled = str(legalize(lowering.lower(c).module, "differences", "cpu").operation)
    assert ("subtract" in compiled) == (jaxlib_version < (0, 12))


def test_a_stride_beyond_the_slice() -> None:
    x = np.arange(5, dtype=np.float32)
    got = evaluate(lambda b, a: xb.slice(a, [1], [4], [2**63 - 1]), x)
    assert_array_equal(got, x[1:2])
    b = xb.XlaBuilder("stepping")
    a = b.parameter(xb.f32[2, 3, 4])
    c = b.build(xb.slice(a, [0, 1, 0], [2, 3, 4], [1, 2**40, 2**62]))
    again = lowering.to_computation(lowering.lower(c))
    assert again.root.attributes["strides"] == (1, 2**40, 2**62)
    y = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    assert_array_equal(run(again, y), y[:, 1:2, :1])


@pytest.mark.parametrize("t", [xb.f8e4m3fn, xb.f8e5m2, xb.f4e2m1fn], ids=str)
def test_erf_of_narrow_types_in_every_version(t: xb.PrimitiveType) -> None:
    @xb.computation(xb.array_shape(t, [3]))
    def narrow(x: xb.XlaOp) -> xb.XlaOp:
        return xb.erf(x)

    module = lowering.lower(narrow)
    x = np.array([0.0, 0.5, -1.0], t.dtype)
    want = np.array([0.0, 0.5204999, -0.8427008]).astype(t.dtype)
    assert_array_equal(run(narrow, x), want)
    # StableHLO 1.0.0 has no f4e2m1fn.
    loaded = lowering.load_bytes(module.artifact("current" if t is xb.f4e2m1fn else "1.0.0"))
    assert_array_equal(np.asarray(lowering.compile(loaded)(x)), want)


def test_the_range_of_shared_operands_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[Any] = []
    compute = indexing._compute_range

    def counted(value: Any, depth: int, known: Any) -> Any:
        computed.append(value)
        return compute(value, depth, known)

    monkeypatch.setattr(indexing, "_compute_range", counted)

    def program(b: xb.XlaBuilder, x: xb.XlaOp, update: xb.XlaOp) -> xb.XlaOp:
        indices = b.constant(np.array([[3]], np.int32))
        for _ in range(60):
            indices = xb.min(indices, indices)
        numbers = xb.ScatterDimensionNumbers([1], [], [0], 1)
        return xb.scatter(x, indices, update, xb.add, numbers)

    # The last element of the window is out of bounds.
    got = evaluate(program, np.zeros(4, np.float32), np.array([[1, 2]], np.float32))
    assert_array_equal(got, np.array([0, 0, 0, 1], np.float32))
    assert len(computed) < 50
