"""`lowering.probe`: statistics of every op, compared with NumPy and with the interpreter."""

from __future__ import annotations

import io
from typing import Any

import jax
import numpy as np
import pytest
from rich.console import Console
from support import small_numbers
from tables import each_row

import builder as xb
import lowering
from builder import lib
from lowering.faults.probing import OpStatistics


def close(found: OpStatistics, values: Any, executions: int = 1) -> None:
    """Compare statistics with those of arrays, one for each execution."""
    wide = np.asarray(values)
    wide = np.abs(wide).astype(np.float64) if wide.dtype.kind == "c" else wide.astype(np.float64)
    assert found.executions == executions
    assert found.nans == np.isnan(wide).sum()
    assert found.infinities == np.isinf(wide).sum()
    numbers = wide[~np.isnan(wide)]
    if not numbers.size:
        assert np.isnan([found.minimum, found.maximum]).all()
        return
    extremes = found.minimum, found.maximum
    np.testing.assert_allclose(extremes, [numbers.min(), numbers.max()], rtol=1e-5)
    finite = wide[np.isfinite(wide)]
    if finite.size:
        np.testing.assert_allclose(found.mean, finite.mean(), rtol=1e-4, atol=1e-6)
    assert found.is_finite == bool(np.isfinite(wide).all())


TYPES = [xb.pred, xb.s4, xb.s32, xb.u8, xb.f8e4m3fn, xb.bf16, xb.f16, xb.f32, xb.f64, xb.c64]


@each_row("element_type", TYPES)
def test_every_kind_of_number(element_type: xb.PrimitiveType) -> None:
    b = xb.XlaBuilder("program")
    x = b.parameter(element_type[3, 4], "x")
    turned = xb.rev(x, [0])
    probe = lowering.probe(b.build(turned), values := small_numbers(element_type, (3, 4)))
    assert [each.op for each in probe.ops] == [x, turned]
    for each in probe.ops:
        close(each, values)


def test_an_array_without_elements() -> None:
    b = xb.XlaBuilder("program")
    x = b.parameter(xb.f32[0, 4], "x")
    values = np.zeros((0, 4), np.float32)
    probe = lowering.probe(b.build(xb.rev(x, [0])), values)
    for each in probe.ops:
        close(each, values)
        assert "f32[0,4]: no number; " in str(each)


def test_values_that_are_not_finite() -> None:
    b = xb.XlaBuilder("program")
    x = b.parameter(xb.f32[2, 3], "x")
    quotient = x / 0.0
    root = xb.sqrt(x)
    program = b.build(quotient * root)
    values = np.float32([[1, 0, -1], [2, 3, 4]])
    probe = lowering.probe(program, values, device="cpu", values=[root])
    with np.errstate(all="ignore"):
        close(probe[x], values)
        close(probe[quotient], values / 0)
        close(probe[root], np.sqrt(values))
        np.testing.assert_allclose(probe.values[root], np.sqrt(values), rtol=1e-6)
    assert probe.first_nonfinite is probe[quotient]
    np.testing.assert_array_equal(probe.result, lowering.compile(program, "cpu")(values))
    assert "first not finite: %" in str(probe)
    assert "1 NaN, 5 infinite" in str(probe.first_nonfinite)
    assert f"recorded at {__file__}:" in str(probe.first_nonfinite)
    between = probe.between(quotient, root)
    assert between[0] is probe[quotient]
    assert between[-1] is probe[root]
    shown = io.StringIO()
    Console(file=shown, width=160).print(probe)
    assert "Probe" in shown.getvalue()
    assert "divide" in shown.getvalue()


def test_loops_branches_and_calls() -> None:
    b = xb.XlaBuilder("program")
    x = b.parameter(xb.f32[4], "x")
    square = xb.computation(xb.f32[4])(lambda v: v * v)

    def body(s: xb.XlaOp) -> tuple[xb.XlaOp, xb.XlaOp]:
        lower = xb.conditional(xb.lt(s[0], 2), s[1], xb.sqrt, s[1], xb.neg)
        return s[0] + 1, lower - 0.5

    loop = xb.while_(lambda s: xb.lt(s[0], 4), body, (b.constant(0, xb.s32), xb.call(square, x)))
    program = b.build(loop[1])
    values = np.float32([1, 2, 0.3, 4])
    probe = lowering.probe(program, values, device="cpu")
    interpreted = lowering.interpret(program, values, probe=[each.op for each in probe.ops])
    for each in probe.ops:
        executed = interpreted[each.op]
        if isinstance(executed, list):
            close(each, executed, len(executed))
        else:
            close(each, executed)
    by_opcode = {each.op.opcode: each for each in probe.ops}
    root, negated = by_opcode["sqrt"], by_opcode["negate"]
    assert (root.executions, negated.executions) == (2, 2)
    assert (root.nans, root.first_iteration) == (1, 1)  # of 0.3 ** 2 after the first step
    assert by_opcode["multiply"].inside
    assert by_opcode["multiply"].first_iteration is None
    assert probe.first_nonfinite is root
    assert "first in iteration 1" in str(root)


def test_a_loop_in_a_loop() -> None:
    b = xb.XlaBuilder("program")
    x = b.parameter(xb.f32[2], "x")

    def outer(s: xb.XlaOp) -> tuple[xb.XlaOp, xb.XlaOp]:
        inner = xb.while_(
            lambda t: xb.lt(t[0], 3), lambda t: (t[0] + 1, t[1] * 1e15), (xb.xor(s[0], s[0]), s[1])
        )
        return s[0] + 1, inner[1]

    loop = xb.while_(lambda s: xb.lt(s[0], 2), outer, (b.constant(0, xb.s32), x))
    probe = lowering.probe(b.build(loop[1]), np.float32([1e-10, 0]), device="cpu")
    (product,) = (each for each in probe.ops if each.op.opcode == "multiply")
    assert product.executions == 6
    assert (product.infinities, product.first_iteration) == (3, 1)
    assert product.minimum == 0


def test_the_first_in_time_is_not_the_first_in_the_program() -> None:
    b = xb.XlaBuilder("program")
    x = b.parameter(xb.f32[2], "x")
    state = (b.constant(0, xb.s32), x)
    loop = xb.while_(
        lambda s: xb.lt(s[0], 5), lambda s: (s[0] + 1, xb.log(s[1] * 2.0) - 1.0), state
    )
    later = xb.while_(
        lambda s: xb.lt(s[0], 2), lambda s: (s[0] + 1, xb.exp(s[1])), (state[0], loop[1])
    )
    probe = lowering.probe(b.build(later[1]), np.ones(2, np.float32), device="cpu")
    first = probe.first_nonfinite
    assert first is not None
    assert (first.op.opcode, first.first_iteration) == ("log", 1)
    assert first.loop is loop
    by_opcode = {each.op.opcode: each.first_iteration for each in probe.ops}
    assert (by_opcode["multiply"], by_opcode["exponential"]) == (2, 0)


def test_a_loop_that_is_not_executed() -> None:
    b = xb.XlaBuilder("program")
    x = b.parameter(xb.f32[2], "x")
    loop = xb.while_(
        lambda s: xb.lt(s[0], 0), lambda s: (s[0] + 1, xb.exp(s[1])), (b.constant(0, xb.s32), x)
    )
    probe = lowering.probe(b.build(loop[1]), np.ones(2, np.float32), device="cpu")
    (inside,) = (each for each in probe.ops if each.op.opcode == "exponential")
    assert inside.executions == 0
    assert np.isnan([inside.minimum, inside.maximum, inside.mean]).all()
    assert inside.is_finite


def test_programs_of_jax_and_files(tmp_path: Any) -> None:
    exported = jax.export.export(jax.jit(lambda x: jax.nn.softmax(x) / x))(np.ones(3, np.float32))
    probe = lowering.probe(exported, np.float32([1, 0, 2]), device="cpu")
    assert probe.first_nonfinite is not None
    assert probe.first_nonfinite.op.opcode == "divide"
    b = xb.XlaBuilder("program")
    program = b.build(xb.log(b.parameter(xb.f32[2], "x")))
    lowering.lower(program).save(tmp_path / "program.mlir")
    probe = lowering.probe(tmp_path / "program.mlir", x=np.float32([0, 1]), device="cpu")
    assert [each.infinities for each in probe.ops] == [0, 1]


def test_errors() -> None:
    b = xb.XlaBuilder("program")
    x = b.parameter(xb.f32[2], "x")
    program = b.build(xb.log(x))
    ones = np.ones(2, np.float32)
    other = xb.XlaBuilder("other").parameter(xb.f32[2])
    with pytest.raises(xb.OperandError, match="values must be a list of ops"):
        lowering.probe(program, ones, values=[other])
    with pytest.raises(xb.OperandError, match="the op has no statistics"):
        lowering.probe(program, ones)[other]
    with pytest.raises(lowering.ArgumentError):
        lowering.probe(program, ones[:1])
    open_program = xb.computation(xb.f32["?"])(xb.log)
    with pytest.raises(lowering.ArgumentError, match="must not have unbounded sizes, got f32"):
        lowering.probe(open_program, ones)


def test_a_program_with_a_mesh() -> None:
    b = xb.XlaBuilder("sharded")
    x = b.parameter(xb.f32[8, 2], "x")
    sharding = xb.Mesh({"data": 2}).sharding("data", None)
    program = b.build(lib.softmax(xb.with_sharding(xb.abs(x), sharding)))
    probe = lowering.probe(program, np.ones((8, 2), np.float32), device="cpu")
    assert probe.first_nonfinite is None
    assert "all finite" in str(probe)


def test_nested_arguments_of_jax() -> None:
    def function(parameters: Any, x: Any) -> Any:
        return {"y": jax.numpy.log(x) * parameters["w"], "sum": x.sum()}

    arguments = {"w": np.ones(2, np.float32)}, np.float32([0, 1])
    probe = lowering.probe(lowering.from_jax(function, *arguments), *arguments, device="cpu")
    assert probe.result["sum"] == 1
    assert probe.first_nonfinite is not None
    assert probe.first_nonfinite.op.opcode == "log"


def test_bounded_sizes() -> None:
    """Values of bounded sizes have no statistics; those of fixed sizes do."""
    b = xb.XlaBuilder("program")
    x = b.parameter("f32[<=4]", "x")
    total = xb.reduce(xb.log(x), 0.0, xb.add, [0])
    probe = lowering.probe(b.build(total), np.float32([1, 0]), device="cpu")
    assert [each.op.opcode for each in probe.ops] == ["reduce"]
    assert probe.ops[0].infinities == 1
