"""lowering.interpret: values, probes, refused ops, and crashes of the helper process."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tables import each_row

import builder as xb
import lowering
from examples import recorded_by_example
from lowering.interpreter import helper
from lowering.interpreter.interpreter_support import UNSUPPORTED

X = np.float32([0.5, 1.0, 2.0])


@xb.computation(xb.f32[3])
def model(x: xb.XlaOp) -> xb.XlaOp:
    return xb.neg(x * x)


def computation(function: Any, *shapes: Any) -> xb.XlaComputation:
    b = xb.XlaBuilder("example")
    return b.build(function(*[b.parameter(s, f"p{i}") for i, s in enumerate(shapes)]))


@each_row(
    "element_type",
    [
        xb.pred,
        xb.s2,
        xb.s4,
        xb.u4,
        xb.s64,
        xb.u64,
        xb.f4e2m1fn,
        xb.f8e5m2,
        xb.f8e4m3fn,
        xb.bf16,
        xb.f16,
        xb.f64,
        xb.c64,
        xb.c128,
    ],
)
def test_arguments_and_results_of_each_element_type(element_type: xb.PrimitiveType) -> None:
    values = np.array([0, 1, 1]).astype(element_type.dtype)
    shape = element_type[3]
    identity = computation(lambda x: xb.tuple(x, xb.rev(x, [0])), shape)
    whole, turned = lowering.interpret(identity, values)
    assert whole.dtype == values.dtype
    assert whole.tobytes() == values.tobytes()
    assert turned.tobytes() == values[::-1].tobytes()


def test_bf16_is_summed_in_bf16() -> None:
    total = computation(lambda x: xb.reduce_all(x, 0, xb.add), xb.bf16[300])
    ones = np.ones(300, ml_dtypes.bfloat16)
    assert lowering.interpret(total, ones) == 256  # adding 1 to 256 has no effect


def test_functions_of_chlo_and_batch_norm_are_expanded() -> None:
    def function(x: xb.XlaOp) -> xb.XlaOp:
        one, zero = (x.builder.constant(np.full(1, n, np.float32)) for n in (1, 0))
        normal = xb.batch_norm_training(xb.reshape(x, [3, 1]), one, zero, 0.0, 1)
        return xb.tuple(xb.sinh(x), normal)

    sinh, (normal, mean, variance) = lowering.interpret(computation(function, xb.f32[3]), X)
    np.testing.assert_allclose(sinh, np.sinh(X), rtol=1e-6)
    np.testing.assert_allclose(normal[:, 0], (X - X.mean()) / X.std(), rtol=1e-6)
    np.testing.assert_allclose([mean[0], variance[0]], [X.mean(), X.var()], rtol=1e-6)


def test_batch_norm_grad_equals_the_device() -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(0.5, 2, s).astype("f") for s in ([4, 3, 2], [2], [2], [2], [4, 3, 2])]

    def function(x: Any, scale: Any, mean: Any, variance: Any, gradient: Any) -> xb.XlaOp:
        return xb.batch_norm_grad(x, scale, mean, variance, gradient, 0.25, 2)

    c = computation(function, *(xb.f32[a.shape] for a in arrays))
    for ours, theirs in zip(
        lowering.interpret(c, *arrays), lowering.compile(c, "cpu")(*arrays), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_modules_and_files(tmp_path: Any) -> None:
    module = lowering.lower(model)
    path = tmp_path / "model.mlir"
    module.save(path)
    for source in (module, path, str(path)):
        np.testing.assert_array_equal(lowering.interpret(source, x=X), -X * X)
    assert lowering.interpret(path, X, probe="multiply")[1][2] == 4


def test_probes() -> None:
    seen = lowering.interpret(model, X, probe=True)
    assert [op.opcode for op in seen.values] == ["parameter", "multiply", "negate"]
    np.testing.assert_array_equal(seen[1], X * X)
    np.testing.assert_array_equal(seen.result, -X * X)
    assert repr(seen) == "<Interpretation of 'model': 3 probed ops>"
    for key, message in (
        ("negate", r"got 'negate'\nfix: index with an op, .*computation.find\('negate'\)\[0\]"),
        (3, r"3 probed ops, got 3\nfix: pass probe=True, or a probe that includes the op"),
        (X, "3 probed ops, got array"),
    ):
        with pytest.raises(xb.OperandError, match=f"^interpret: the values are .*{message}"):
            seen[key]  # type: ignore[index]
    with pytest.raises(xb.OperandError, match="those of 1 probed op, got 0"):
        lowering.interpret(model, X, probe="negate")[0]


def test_probes_in_nested_loops_have_a_value_for_each_execution() -> None:
    def inner(v: xb.XlaOp) -> xb.XlaOp:
        return xb.while_(lambda w: xb.lt(w, 4.0), lambda w: w + w, v)

    def function(x: xb.XlaOp) -> xb.XlaOp:
        once = xb.while_(lambda v: xb.lt(v, 9.0), lambda v: inner(v) * 1.5, x)
        return xb.neg(once)

    c = computation(function, xb.f32[()])
    seen = lowering.interpret(c, 1.0, probe=["add", "multiply"])
    values = {op.opcode: [float(v) for v in executions] for op, executions in seen.values.items()}
    assert values == {"add": [2, 4], "multiply": [6, 9]}
    assert seen.result == -9


@each_row(
    "probe, message",
    [(9, "has ops 0 to 2"), ("sine", "no op with the probed opcode"), (1.5, "probe must be True")],
)
def test_invalid_probes(probe: Any, message: str) -> None:
    with pytest.raises(xb.OperandError, match=message):
        lowering.interpret(model, X, probe=probe)


def test_probes_in_branches_have_values_if_executed() -> None:
    def last(v: xb.XlaOp) -> xb.XlaOp:
        grown = xb.while_(lambda w: xb.lt(w, 9.0), lambda w: w + w, v)
        is_large = xb.gt(grown, 10.0)
        return xb.conditional(is_large, grown, xb.sinh, grown, lambda w: xb.real(xb.complex(w, w)))

    def function(x: xb.XlaOp, number: xb.XlaOp) -> xb.XlaOp:
        branches = [xb.abs, lambda v: xb.neg(v) * x, last]
        return xb.tuple(xb.conditional(number, branches, [x, x, x]), x)

    c = computation(function, xb.f32[()], xb.s32[()])
    opcodes = ["abs", "negate", "add", "sinh", "complex"]
    twelve = {"add": [6.0, 12.0], "sinh": [np.sinh(12.0)]}
    for number, expected in (
        (0, {"abs": [3.0]}),
        (1, {"negate": [-3.0]}),
        (2, twelve),
        (-1, twelve),
    ):
        seen = lowering.interpret(c, 3.0, number, probe=opcodes)
        assert [op.opcode for op in seen.values] != []
        for op, value in seen.values.items():
            np.testing.assert_allclose(value, expected.get(op.opcode, []), rtol=1e-6)
        assert seen.result == lowering.interpret(c, 3.0, number)


@each_row("element_type", [xb.pred, xb.u4, xb.f8e8m0fnu, xb.f4e2m1fn, xb.bf16, xb.c64])
def test_probes_in_branches_of_each_element_type(element_type: xb.PrimitiveType) -> None:
    def function(x: xb.XlaOp, choice: xb.XlaOp) -> xb.XlaOp:
        return xb.conditional(choice, x, lambda v: xb.rev(v, [0]), x, lambda v: v)

    c = computation(function, element_type[2], xb.pred[()])
    values = np.array([1, 2]).astype(element_type.dtype)
    for choice, expected in ((True, [values[::-1]]), (False, [])):
        seen = lowering.interpret(c, values, choice, probe="reverse")
        (actual,) = seen.values.values()
        assert [one.tobytes() for one in actual] == [one.tobytes() for one in expected]
        assert seen.result.tobytes() == (expected[0] if expected else values).tobytes()


def test_a_scatter_does_not_change_its_operand() -> None:
    def function(x: xb.XlaOp, places: xb.XlaOp, updates: xb.XlaOp) -> xb.XlaOp:
        turned = xb.neg(x)
        numbers = xb.ScatterDimensionNumbers([], [0], [0], index_vector_dim=1)
        return xb.tuple(xb.scatter(turned, places, updates, xb.add, numbers), turned * 1.0, x)

    c = computation(function, xb.f32[3], xb.s32[4], xb.f32[4])
    places = np.int32([0, 2, 2, 0])
    added, turned, x = lowering.interpret(c, X, places, np.float32([1, 2, 3, 4]))
    assert added.tolist() == [4.5, -1, 3]  # updates of equal indices are all added
    np.testing.assert_array_equal(turned, -X)
    np.testing.assert_array_equal(x, X)


@each_row("left, batch", [(True, (2,)), (False, (2, 1)), (True, (0,))])
def test_several_triangular_systems(left: bool, batch: tuple[int, ...]) -> None:
    def function(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
        return xb.triangular_solve(a, b, left, True, False, "NO_TRANSPOSE")

    rng = np.random.default_rng(0)
    a = np.tril(rng.uniform(1, 2, (*batch, 3, 3))).astype(np.float32)
    b = rng.uniform(1, 2, (*batch, *((3, 2) if left else (2, 3)))).astype(np.float32)
    actual = lowering.interpret(computation(function, xb.f32[a.shape], xb.f32[b.shape]), a, b)
    assert actual.shape == b.shape
    np.testing.assert_allclose(a @ actual if left else actual @ a, b, rtol=1e-5)


def test_an_op_of_another_computation_is_not_probed() -> None:
    with pytest.raises(xb.BuilderError, match="a probed op must belong to"):
        lowering.interpret(model, X, probe=computation(xb.neg, xb.f32[3]).root)


@each_row(
    "name, record",
    [
        ("cholesky", lambda b: xb.cholesky(b.constant(np.eye(2, dtype=np.float32)), True)),
        (
            "rng",
            lambda b: xb.rng_uniform(b.constant(0.0, xb.f32), b.constant(1.0, xb.f32), xb.f32[2]),
        ),
        ("partition_id", lambda b: b.partition_id()),
        ("replica_id", lambda b: b.replica_id()),
        ("all_reduce", lambda b: xb.all_reduce(b.constant(1.0, xb.f32), xb.add)),
        ("custom_call", lambda b: b.custom_call("unregistered", xb.f32[2])),
    ],
)
def test_unsupported_ops_are_refused_by_name(name: str, record: Any) -> None:
    b = xb.XlaBuilder("lacking")
    op = record(b)
    c = b.build(op)
    before = helper.helper_id()
    with pytest.raises(
        lowering.ExecutionError,
        match=f"does not support {name}, recorded at .*{__name__.rpartition('.')[2]}",
    ) as error:
        lowering.interpret(c)
    assert error.value.op == name
    assert helper.helper_id() == before


def test_unsupported_names_are_operations() -> None:
    assert {"stablehlo.infeed", "stablehlo.rng_bit_generator"} <= set(UNSUPPORTED)


def test_a_crash_names_the_op() -> None:
    c = computation(lambda x, y: xb.div(xb.neg(x) + y, y) + x, xb.s32[2], xb.s32[2])
    lines = "crashed on divide, op 4 of example, recorded at .*test_interpret.py:"
    with pytest.raises(lowering.ExecutionError, match=lines) as error:
        lowering.interpret(c, np.int32([1, 2]), np.int32([1, 0]))
    assert error.value.op == "divide"
    np.testing.assert_array_equal(lowering.interpret(model, X), -X * X)


def test_a_killed_helper_is_replaced() -> None:
    lowering.interpret(model, X)
    before = helper.helper_id()
    assert before is not None
    os.kill(before, signal.SIGKILL)
    np.testing.assert_array_equal(lowering.interpret(model, X), -X * X)
    assert helper.helper_id() != before


def test_timeout() -> None:
    endless = computation(lambda x: xb.while_(lambda v: xb.le(v, v), xb.neg, x), xb.f32[()])
    with pytest.raises(lowering.ExecutionError, match=r"exceeded the time limit of 0\.2 seconds"):
        lowering.interpret(endless, 1.0, timeout=0.2)
    np.testing.assert_array_equal(lowering.interpret(model, X), -X * X)


def test_two_threads() -> None:
    collected: dict[int, Any] = {}

    def work(number: int) -> None:
        collected[number] = [lowering.interpret(model, X * number) for _ in range(5)]

    threads = [threading.Thread(target=work, args=(n,)) for n in (1, 2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    for number, results in collected.items():
        for result in results:
            np.testing.assert_array_equal(result, -np.square(X * number))
    assert sorted(collected) == [1, 2]


def test_arguments_are_checked() -> None:
    with pytest.raises(lowering.ArgumentError) as ours:
        lowering.interpret(model, np.zeros(4, np.float32))
    with pytest.raises(lowering.ArgumentError) as theirs:
        lowering.compile(model, "cpu")(np.zeros(4, np.float32))
    assert str(ours.value) == str(theirs.value)


def test_dynamic_sizes_are_refused() -> None:
    c = computation(xb.neg, "f32[<=3]")
    with pytest.raises(lowering.ExecutionError, match="static sizes only"):
        lowering.interpret(c, X)


def test_other_values_are_refused() -> None:
    with pytest.raises(xb.OperandError, match="expected an XlaComputation"):
        lowering.interpret(3)  # type: ignore[arg-type]  # refused


def test_a_token_after_the_arrays() -> None:
    program = computation(lambda x, token: xb.tuple(x + 1.0, token), "f32[2]", "token[]")
    got, token = lowering.interpret(program, np.ones(2, np.float32), None)
    assert (got.tolist(), token) == ([2, 2], None)


def test_sizes_at_run_time() -> None:
    """XLA can't compile these programs."""
    x = np.arange(8, dtype=np.float32)
    (program,) = recorded_by_example("dynamic_pad")
    got = lowering.interpret(program, x, np.int32([1]))
    np.testing.assert_array_equal(got, np.pad(x, (1, 0)), strict=True)
    (program,) = recorded_by_example("dynamic_gather")
    got = lowering.interpret(program, x, np.int32([3]))
    np.testing.assert_array_equal(got, x[2:5], strict=True)
