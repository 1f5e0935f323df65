"""lowering.compare: injected errors are found at their op; distances in ulps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support import small_numbers
from tables import each_row

import builder as xb
import lowering
from examples import recorded_by_example
from lowering.interpreter.double_precision import in_double
from lowering.interpreter.instrumentation import with_results
from lowering.interpreter.tolerances import distances
from lowering.jaxlib_api import versions

X = np.float32([[0.5, -1.0], [2.0, 3.0]])


@xb.computation(xb.f32[2, 2])
def model(x: xb.XlaOp) -> xb.XlaOp:
    product = xb.tanh(xb.dot(x, x))
    return xb.tuple(xb.exp(product), xb.reduce_all(product * x, 0.0, xb.add))


def planted(op: xb.XlaOp, operands: Any) -> xb.XlaOp | None:
    return xb.sin(operands[0]) if op.opcode == "tanh" else None


@pytest.mark.parametrize("from_reference", [True, False])
def test_a_correct_device_agrees(from_reference: bool) -> None:
    comparison = lowering.compare(model, X, device="cpu", from_reference=from_reference)
    assert comparison.agrees
    assert comparison.first is None
    assert {one.op.opcode for one in comparison.ops} == {"dot_general", "tanh", "multiply"} | {
        "exponential",
        "reduce",
    }
    text = str(comparison)
    assert "all 5 arrays are " in text
    # The largest difference is listed only if there is one.
    is_equal = not any(one.ulps for one in comparison.ops)
    assert ("all 5 arrays are equal" in text) == is_equal
    assert ("largest difference: " in text) != is_equal


@pytest.mark.parametrize("from_reference", [True, False])
def test_an_injected_error_is_found_at_its_op(from_reference: bool) -> None:
    comparison = lowering.compare(
        model,
        X,
        device="cpu",
        from_reference=from_reference,
        device_computation=model.replace(planted),
    )
    assert not comparison.agrees
    assert comparison.first is not None
    assert comparison.first.op.opcode == "tanh"
    assert repr(comparison).startswith("<Comparison 'model' on cpu:0: ")
    assert len(repr(comparison).splitlines()) == 1
    assert "test_compare.py" in str(comparison.first)
    if from_reference:  # its users are not
        assert [one.op.opcode for one in comparison.ops if not one.agrees] == ["tanh"]
    as_dict = json.loads(json.dumps(comparison.as_dict()))
    assert as_dict["first"]["opcode"] == "tanh"
    assert as_dict["agrees"] is False


def test_a_verdict_about_one_array() -> None:
    c = xb.computation(xb.f32[2])(lambda x: x + x)
    x = np.ones(2, np.float32)
    assert str(lowering.compare(c, x, device="cpu")).splitlines()[1:] == [
        "  1 array is equal, given equal operands",
        "  result: equal",
    ]
    wrong = xb.computation(xb.f32[2])(lambda x: x - x)
    compared = lowering.compare(c, x, device="cpu", device_computation=wrong)
    assert repr(compared).endswith(": 1 of 1 array is beyond its tolerance>")
    more = xb.computation(xb.f32[2])(lambda x: x + x + x)
    fix = r"fix: pass computation.replace\(function\) with a function that returns one op"
    with pytest.raises(xb.OperandError, match=rf"must have as many ops .*, 2, got 3\n{fix}"):
        lowering.compare(c, x, device_computation=more)


def test_unsupported_ops_are_left_out() -> None:
    b = xb.XlaBuilder("lacking")
    x = b.parameter(xb.f32[2, 2], "x")
    c = b.build(xb.exp(xb.cholesky(x, True)) + 1.0)
    comparison = lowering.compare(c, np.eye(2, dtype=np.float32), device="cpu")
    assert [op.opcode for op in comparison.left_out] == ["cholesky"]
    assert [one.op.opcode for one in comparison.ops if one.op.opcode == "exponential"]
    assert comparison.agrees


def test_special_values_agree() -> None:
    info: Any = ml_dtypes.finfo(np.float32)
    least, tiny, most = info.smallest_normal, info.smallest_subnormal, info.max
    signless = np.array([0, tiny, least / 2, least, 0.375, 1, 2.5, most, np.inf, np.nan])
    values = np.concatenate([signless, -signless]).astype(np.float32)
    ones, others = (a.reshape(-1).copy() for a in np.meshgrid(values, values))

    b = xb.XlaBuilder("special")
    x, y = (b.parameter(xb.f32[ones.size], name) for name in "xy")
    unary = (xb.ceil, xb.sqrt, xb.asin)
    binary = (xb.add, xb.div, xb.rem, xb.max, xb.lt)
    c = b.build(xb.tuple(*[f(x) for f in unary], *[f(x, y) for f in binary], xb.rev(x, [0])))
    comparison = lowering.compare(c, ones, others, device="cpu")
    assert comparison.first is None, str(comparison)
    assert len(comparison.ops) == len(unary) + len(binary) + 1


def test_moving_subnormal_elements_is_exact() -> None:
    c = xb.computation(xb.f32[3])(lambda x: xb.rev(x, [0]))

    def planted(op: xb.XlaOp, operands: Any) -> xb.XlaOp | None:
        return xb.abs(operands[0]) if op.opcode == "reverse" else None

    tiny = np.float32([1e-45, 1, 1e-45])
    comparison = lowering.compare(c, -tiny, device="cpu", device_computation=c.replace(planted))
    assert comparison.first is not None
    assert comparison.first.beyond == 3


def test_an_error_of_a_few_ulps_is_found() -> None:
    c = xb.computation(xb.f32[2])(lambda x: xb.reduce_precision(x, 8, 23))

    def planted(op: xb.XlaOp, operands: Any) -> xb.XlaOp | None:
        return xb.reduce_precision(operands[0], 8, 20) if len(operands) == 1 else None

    x = np.float32([1, 1 + 3 * 2**-23])
    comparison = lowering.compare(c, x, device="cpu", device_computation=c.replace(planted))
    assert comparison.first is not None
    assert (comparison.first.ulps, comparison.first.index, comparison.first.beyond) == (3, (1,), 1)
    assert "3 ulps apart at [1] (tolerance 1)" in str(comparison)


def test_a_scatter_with_equal_indices_agrees() -> None:
    def function(x: xb.XlaOp, places: xb.XlaOp, updates: xb.XlaOp) -> xb.XlaOp:
        numbers = xb.ScatterDimensionNumbers([], [0], [0], index_vector_dim=1)
        return xb.scatter(x, places, updates, xb.add, numbers) * 2.0

    c = xb.computation(xb.f32[3], xb.s32[4], xb.f32[4])(function)
    comparison = lowering.compare(c, np.zeros(3, "f"), np.int32([0, 2, 2, 0]), np.ones(4, "f"))
    assert comparison.agrees, str(comparison)


def test_logarithms_of_double_precision_agree() -> None:
    """Near 1, the CPU backend of jaxlib 0.10 computes these less accurately."""
    offsets = np.random.default_rng(0).standard_normal(2000) * 0.1
    c = xb.computation(xb.f64[2000], xb.c128[2000])(
        lambda x, z: xb.tuple(xb.log(x + 1.0), xb.log1p(x), xb.atanh(x), xb.log(z), xb.log1p(z))
    )
    comparison = lowering.compare(c, offsets, 1 + offsets * (1 + 1j), device="cpu")
    assert comparison.first is None, str(comparison)


def test_ulps_argument() -> None:
    wrong = model.replace(planted)
    comparison = lowering.compare(
        model, X, device="cpu", device_computation=wrong, ulps={"tanh": 1e10}
    )
    assert comparison.first is None


@each_row("ulps", [-1, "few", {"tanh": -1}])
def test_invalid_ulps(ulps: Any) -> None:
    with pytest.raises(xb.OperandError, match="ulps must be a number"):
        lowering.compare(model, X, ulps=ulps)


@each_row(
    "dtype",
    [
        np.float16,
        ml_dtypes.bfloat16,
        np.float32,
        np.float64,
        ml_dtypes.float8_e5m2,
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e4m3fnuz,
    ],
)
def test_the_distance_of_neighbors_is_1(dtype: Any) -> None:
    info = ml_dtypes.finfo(dtype)
    one, least = np.ones(1, dtype), np.full(1, info.smallest_subnormal, dtype)
    above = (np.ones(1) + float(info.eps)).astype(dtype)
    assert distances(one, above) == 1
    assert distances(-above, -one) == 1
    assert distances(least, -least) == 2
    assert distances(np.zeros(1, dtype), -np.zeros(1, dtype)) == 0 or dtype is (
        ml_dtypes.float8_e4m3fnuz
    )
    nan = np.full(1, np.nan, dtype)
    assert distances(nan, nan) == 0
    assert distances(nan, one) == np.inf


def test_integers_and_complex_numbers() -> None:
    low, high = np.int64([np.iinfo(np.int64).min]), np.int64([np.iinfo(np.int64).max])
    assert distances(low, high) == float(2**64 - 1)
    assert distances(np.array([True]), np.array([False])) == 1
    step = np.nextafter(np.float32(1), np.float32(2))
    assert distances(np.complex64([1 + 1j]), np.complex64([1 + step * 1j])) == 1


def test_programs_with_a_mesh() -> None:
    b = xb.XlaBuilder("sharded")
    x = b.parameter(xb.f32[8, 2], "x")
    sharding = xb.Mesh({"data": 2, "model": 2}).sharding("data", "model")
    program = b.build(xb.neg(xb.with_sharding(xb.abs(x), sharding)))
    values = np.ones((8, 2), np.float32)
    for from_reference in (True, False):
        found = lowering.compare(program, values, device="cpu", from_reference=from_reference)
        assert found.agrees
        assert [op.opcode for op in found.left_out] == ["custom_call"]


NOT_COMPARED = {
    *("host", "collectives"),
    *("real_dynamic_slice", "dynamic_pad", "dynamic_gather"),  # sizes that are not constant
    *("spmd_full_to_shard_shape", "spmd_shard_to_full_shape"),  # several devices
}
"""Families and ops that a device alone does not run."""


def comparable_examples(family: str) -> Iterator[xb.XlaComputation]:
    """Yield the computations in docstrings whose parameters are arrays of static sizes."""
    for name, info in xb.OPERATIONS.items():
        if info.family == family and name not in NOT_COMPARED:
            for computation in recorded_by_example(name):
                if all(p.shape.is_array and p.shape.is_static for p in computation.parameters):
                    yield computation


class TestDoublePrecision:
    """The reference is the CPU in f64."""

    @pytest.mark.slow
    @pytest.mark.jaxlib
    def test_every_op_agrees_with_the_device(self) -> None:
        compared: set[str] = set()
        for family in {info.family for info in xb.OPERATIONS.values()} - NOT_COMPARED:
            b = xb.XlaBuilder(family)
            arguments, results = [], []
            for computation in comparable_examples(family):
                parameters = [b.parameter(p.shape) for p in computation.parameters]
                shapes = computation.program_shape.parameters
                arguments += [small_numbers(s.element_type, s.dimensions) for s in shapes]
                inline = xb.inline if parameters else b.inline
                results.append(inline(computation, *parameters))
            program = b.build(xb.tuple(*results))
            found = lowering.compare(program, *arguments, device="cpu", reference="f64")
            assert found.first is None, f"{family}\n{found}"
            compared |= {each.op.opcode for each in found.ops}
        assert {"dot_general", "reduce", "convolution", "erf", "fft", "cholesky"} <= compared
        assert len(compared) > 70

    @pytest.mark.usefixtures("optimized")
    @pytest.mark.parametrize("element_type", [xb.f32, xb.bf16, xb.c64])
    def test_values_between_ops_are_rounded(self, element_type: xb.PrimitiveType) -> None:
        """A square is that of the type, though the subtraction reads it in f64."""
        b = xb.XlaBuilder("model")
        x, y = (b.parameter(element_type[3], name) for name in "xy")
        square = x * x
        model = b.build(xb.sub(square, y))
        wide = in_double(model)
        program = with_results(wide.computation, [wide.ops[square], wide.ops[model.root]])
        number = np.array([1.2345678, 3000.032, -2.3]).astype(element_type.dtype)
        exact = (number * number).astype(element_type.dtype)
        # XLA's newer code generator leaves out conversions to f32 and back.
        is_new = versions.jaxlib_version() >= "0.11"
        options = {} if is_new else {"xla_cpu_use_fusion_emitters": True}
        _, got, difference = lowering.compile(program, "cpu", options=options)(number, exact)
        np.testing.assert_array_equal(got, exact)
        np.testing.assert_array_equal(difference, np.zeros(3, element_type.dtype))

    def test_loops_and_branches(self) -> None:
        b = xb.XlaBuilder("model")
        x = b.parameter(xb.bf16[64], "x")
        state = (b.constant(0, xb.s32), x)
        loop = xb.while_(
            lambda s: xb.lt(s[0], 3), lambda s: (s[0] + 1, xb.sin(xb.exp(s[1]))), state
        )
        chosen = xb.conditional(xb.lt(x[0], 0.0), loop[1], xb.cos, x, xb.sin)
        values = np.linspace(-1, 1, 64).astype(xb.bf16.dtype)
        found = lowering.compare(b.build(chosen), values, device="cpu", reference="f64")
        assert found.agrees
        assert {each.op.opcode for each in found.ops} >= {"while", "conditional"}

    def test_a_wrong_op_is_found(self) -> None:
        b = xb.XlaBuilder("model")
        x = b.parameter(xb.f32[64], "x")
        program = b.build(xb.exp(x) * x)
        values = np.linspace(-1, 1, 64, dtype=np.float32)

        def wrong(op: xb.XlaOp, operands: Any) -> xb.XlaOp | None:
            return xb.expm1(operands[0]) if op.opcode == "exponential" else None

        found = lowering.compare(
            *(program, values),
            device="cpu",
            reference="f64",
            device_computation=program.replace(wrong),
        )
        assert found.first is not None
        assert found.first.op.opcode == "exponential"

    def test_what_is_left_out(self) -> None:
        b = xb.XlaBuilder("model")
        x = b.parameter(xb.f32[4, 4], "x")
        program = b.build(xb.composite_call(lambda v: xb.exp(v), x, name="mine.exp"))
        values = np.ones((4, 4), np.float32)
        found = lowering.compare(program, values, device="cpu", reference="f64")
        assert [op.opcode for op in found.left_out] == ["composite"]
        assert "not compared, since the reference may compute others: op 1 composite" in str(found)
        b = xb.XlaBuilder("random")
        noise = xb.rng_uniform(b.constant(0.0, xb.f32), b.constant(1.0, xb.f32), xb.f32[100])
        found = lowering.compare(b.build(xb.exp(noise)), device="cpu", reference="f64")
        assert found.agrees
        assert [op.opcode for op in found.left_out] == ["rng"]
        assert [each.op.opcode for each in found.ops] == ["exponential"]
        for wrong in ("f32", 5, None):
            with pytest.raises(
                xb.OperandError, match="reference must be 'interpreter', 'f64', a d"
            ):
                lowering.compare(program, values, reference=wrong)  # type: ignore[call-overload]  # refused
        with pytest.raises(xb.OperandError, match=r"fix: pass lowering.from_jax\("):
            lowering.compare(program, values, reference=np.exp)  # type: ignore[call-overload]  # refused


class TestOtherReferences:
    """Another device, other compile options: each op has the same operands on both."""

    program = xb.computation(xb.f32[64])(lambda x: xb.exp(x) * 3.0 - xb.tanh(x))
    values = np.linspace(-3, 3, 64, dtype=np.float32)

    @pytest.mark.parametrize(
        "reference",
        ["cpu:1", {"xla_backend_optimization_level": 3, "xla_cpu_enable_fast_math": True}],
    )
    def test_each_op_is_compared(self, reference: Any) -> None:
        found = lowering.compare(self.program, self.values, device="cpu", reference=reference)
        assert found.agrees
        assert [each.op.opcode for each in found.ops] == [
            *("exponential", "broadcast_in_dim", "multiply", "tanh", "subtract")
        ]
        is_device = isinstance(reference, str)
        assert found.reference == ("cpu:1" if is_device else found.reference)
        assert is_device or found.reference.startswith("itself with xla_backend_optimization_level")

    def test_a_wrong_op_is_found(self) -> None:
        def wrong(op: xb.XlaOp, operands: Any) -> xb.XlaOp | None:
            return xb.sinh(operands[0]) if op.opcode == "tanh" else None

        replaced = self.program.replace(wrong)
        found = lowering.compare(
            self.program, self.values, device="cpu", reference="cpu:1", device_computation=replaced
        )
        assert found.first is not None
        assert found.first.op.opcode == "tanh"
