"""Prints and checks in programs that run: their order, on several devices, in derivatives."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from tables import each_row

import builder as xb
import lowering

ONES = np.ones(2, np.float32)


@xb.computation(xb.f32[2])
def announce(x: xb.XlaOp) -> xb.XlaOp:
    xb.debug_print("called {}", x)
    return xb.neg(x)


@xb.computation(xb.f32[2])
def model(x: xb.XlaOp) -> xb.XlaOp:
    """Print before, inside and after loops, branches and calls; no value passes between them."""
    xb.debug_print("begin {}", x)

    def body(state: xb.XlaOp) -> xb.XlaOp:
        i, v = state
        xb.debug_print("body {}", i)

        def even(value: xb.XlaOp) -> xb.XlaOp:
            xb.debug_print("even {:.0f}", value)
            return value * 2.0

        def odd(value: xb.XlaOp) -> xb.XlaOp:
            xb.debug_print("odd {:.0f}", value)
            return value + 1.0

        v = xb.conditional(xb.eq(i, 0), v, even, v, odd)
        xb.debug_print("chosen {:.0f}", v)
        return xb.tuple(i + 1, v)

    def condition(state: xb.XlaOp) -> xb.XlaOp:
        xb.debug_print("condition {}", state[0])
        return state[0] < 2

    zero = x.builder.constant(0, xb.s32)
    last = xb.while_(condition, body, xb.tuple(zero, x))
    # A call that depends on nothing of the loop.
    called = xb.call(announce, x)
    xb.debug_print("end {}", called)
    return xb.tuple(last[1], called)


EXPECTED = """begin [1. 1.]
condition 0
body 0
even [1 1]
chosen [2 2]
condition 1
body 1
odd [2 2]
chosen [3 3]
condition 2
called [1. 1.]
end [-1. -1.]
"""


def test_order(capsys: pytest.CaptureFixture[str]) -> None:
    program = lowering.compile(model, "cpu")
    for _ in range(3):
        value, _ = program(ONES)
        assert np.asarray(value).tolist() == [3, 3]
        assert capsys.readouterr().out == EXPECTED


def test_the_interpreter_prints(capsys: pytest.CaptureFixture[str]) -> None:
    value, _ = lowering.interpret(model, ONES)
    assert value.tolist() == [3, 3]
    assert capsys.readouterr().out == EXPECTED


def test_files_print(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "model.stablehlo")
    lowering.lower(model).save(path)
    lowering.compile(lowering.load(path), "cpu")(ONES)
    assert capsys.readouterr().out == EXPECTED
    from_text = lowering.from_hlo(model.to_hlo_text())
    lowering.compile(from_text, "cpu")(ONES)
    # HLO text has no order of ops that do not depend on each other.
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines) == sorted(EXPECTED.splitlines())
    # Without prints there is nothing that another compiler does not know.
    assert "custom_call" not in lowering.lower(model.strip_debug()).text


@pytest.mark.parametrize("where", [{"num_replicas": 2}, {"num_partitions": 2}], ids=str)
def test_each_device_prints(where: dict[str, int], capsys: pytest.CaptureFixture[str]) -> None:
    lowering.compile(model, "cpu", **where)([ONES, ONES])
    lines = capsys.readouterr().out.splitlines()
    for device in ("cpu:0", "cpu:1"):
        own = [line.partition(": ")[2] for line in lines if line.startswith(device)]
        assert own == EXPECTED.splitlines()
    assert len(lines) == 2 * len(EXPECTED.splitlines())


@pytest.mark.parametrize("is_shardy", [True, False])
def test_a_partitioned_program_prints_whole_arrays(
    is_shardy: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    mesh = xb.Mesh({"data": 2})
    sharding = mesh.sharding("data") if is_shardy else "{devices=[2]<=[2]}"
    b = xb.XlaBuilder("sharded")
    x = b.parameter(xb.f32[4], "x", sharding=sharding)
    xb.check(x < 9.0, "too large: {:.0f}", x)
    y = x + 1.0
    xb.debug_print("y is {}", y)
    program = lowering.compile(b.build(y), "cpu", num_partitions=2)
    program(np.arange(4, dtype=np.float32))
    out, err = capfd.readouterr()
    assert out == "y is [1. 2. 3. 4.]\n"
    assert "rematerialization" not in err
    with pytest.raises(lowering.ExecutionError, match=r"failed: too large: \[7 8 9 10\]"):
        program(np.arange(7, 11, dtype=np.float32))
    program(np.arange(4, dtype=np.float32))  # can be called again


def test_unbounded_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    b = xb.XlaBuilder("any")
    x = b.parameter(xb.f32["?"], "x")
    xb.debug_print("x is {}", x)
    program = lowering.compile(b.build(x + x), "cpu")
    program(np.float32([1]))
    program(np.float32([1, 2, 3]))
    assert capsys.readouterr().out == "x is [1.]\nx is [1. 2. 3.]\n"


def test_check_names_the_line() -> None:
    @xb.computation(xb.f32[2])
    def roots(x: xb.XlaOp) -> xb.XlaOp:
        xb.check(x >= 0.0, "roots of {:.1f}, at least {low}", x, low=x[0])
        return xb.sqrt(x)

    program = lowering.compile(roots, "cpu")
    assert np.asarray(program(np.float32([1, 4]))).tolist() == [1, 2]
    line = test_check_names_the_line.__code__.co_firstlineno + 3
    failed = rf"check, recorded at .*test_debugging.py:{line}, failed: roots of \[1.0 -4.0\]"
    for run in (program, lowering.jit(lambda x: xb.call(roots, x), device="cpu")):
        with pytest.raises(lowering.ExecutionError, match=failed) as caught:
            run(np.float32([1, -4]))
        assert caught.value.op == "check"
    with pytest.raises(lowering.ExecutionError, match="roots: " + failed):
        lowering.interpret(roots, np.float32([1, -4]))
    with pytest.raises(Exception, match="roots of"):
        jax.block_until_ready(lowering.to_jax(roots)(np.float32([1, -4])))


@xb.computation(xb.f32[3])
def looped(x: xb.XlaOp) -> xb.XlaOp:
    """A loss that prints outside of a loop, in a loop, and in a branch; their values are used."""
    xb.debug_print("x {:.0f}", x)

    def step(element: xb.XlaOp, total: xb.XlaOp) -> tuple[xb.XlaOp, xb.XlaOp]:
        xb.debug_print("step {:.0f}", total)
        return total, total + element * element

    _, total = xb.scan([x], [x[0]], step, 0)

    def shown(value: xb.XlaOp) -> xb.XlaOp:
        xb.debug_print("branch {:.0f}", value)
        return value * value

    return xb.conditional(total > 0.0, total, shown, total, xb.neg)


PRINTED = ["x [1 2 3]", "step 1", "step 2", "step 6", "branch 15"]

DERIVED: dict[str, Any] = {
    "the loss": looped,
    "grad": lowering.grad(looped),
    "value_and_grad": lowering.value_and_grad(looped),
}


@each_row("name", DERIVED)
def test_derivatives_print_once(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = lowering.compile(DERIVED[name], "cpu")(np.float32([1, 2, 3]))
    assert capsys.readouterr().out.splitlines() == PRINTED
    if name == "grad":
        # 2 * 15 * (2, 4, 6), and 1 for the initial total.
        assert np.asarray(result[0]).tolist() == [90, 120, 180]


def test_checks_hold_in_derivatives_of_loops() -> None:
    def step(state: xb.XlaOp) -> xb.XlaOp:
        number, value = state
        xb.check(value < 100.0, "{} is too large", value)
        return xb.tuple(number + 1, value * value)

    @xb.computation(xb.f32[()])
    def model(x: xb.XlaOp) -> xb.XlaOp:
        zero = x.builder.constant(0, xb.s32)
        return xb.while_(lambda state: state[0] < 3, step, xb.tuple(zero, x))[1]

    program = lowering.compile(lowering.value_and_grad(model), "cpu")
    value, (gradient,) = program(np.float32(1.5))
    assert (float(value), float(gradient)) == (1.5**8, 8 * 1.5**7)
    with pytest.raises(lowering.ExecutionError, match=r"256\.0 is too large"):
        program(np.float32(4))


def test_vmap_and_jax_print_for_each_element(capsys: pytest.CaptureFixture[str]) -> None:
    batch = np.float32([[1, 2, 3], [4, 5, 6]])
    expected = sorted(
        [*PRINTED, "x [4 5 6]", "step 4", "step 20", "step 45", "branch 81"]
        # Both branches run, with all elements.
    )
    function = lowering.to_jax(looped)
    for run in (
        lowering.compile(lowering.vmap(looped, 2), "cpu"),
        jax.vmap(function),
        jax.jit(jax.vmap(function)),
    ):
        jax.block_until_ready(run(batch))
        jax.effects_barrier()
        assert sorted(capsys.readouterr().out.splitlines()) == expected
    jax.grad(function)(batch[0])
    jax.effects_barrier()
    assert capsys.readouterr().out.splitlines()[0] == "x [1 2 3]"


def call_text(target: str, config: str, operand: str = "tensor<2xf32>") -> str:
    return f"""func.func @main(%x: {operand}) -> {operand} {{
            stablehlo.custom_call @xlabuilder.{target}(%x) {{
              has_side_effect = true, api_version = 4 : i32, backend_config = {{{config}}}
            }} : ({operand}) -> ()
            return %x : {operand}
        }}"""


FOREIGN = {
    "no message": call_text("debug_print", ""),
    "a message of another type": call_text("debug_print", "message = 5 : i64"),
    "an operand that is missing": call_text("debug_print", 'message = "{1}"'),
    "a field by name": call_text("debug_print", 'message = "{x}"'),
    "half a field": call_text("debug_print", 'message = "{"'),
    "a check of numbers": call_text("check", 'message = "x"'),
    "a token": call_text("debug_print", 'message = "{0}"', "!stablehlo.token"),
}


@each_row("name", FOREIGN)
def test_calls_of_other_tools(name: str) -> None:
    kind = re.search("@xlabuilder.(\\w+)", FOREIGN[name])
    assert kind is not None
    message = rf"{kind[1]}.* must have a message with a field for each operand"
    for function in (lowering.compile, lowering.interpret):
        arguments = (np.float32([1, 2]),) if function is lowering.interpret else ()
        if name != "a token" or function is lowering.compile:
            with pytest.raises(lowering.CompileError, match=message):
                function(FOREIGN[name], *arguments)


def test_places_without_prints() -> None:
    b = xb.XlaBuilder("reducer")
    x = b.parameter(xb.f32[2])

    def add(a: xb.XlaOp, c: xb.XlaOp) -> xb.XlaOp:
        xb.debug_print("{}", a)
        return a + c

    computation = b.build(xb.reduce(x, 0.0, add, [0]))
    match = "the computation of reduce can't contain debug_print"
    with pytest.raises(lowering.CompileError, match=match):
        lowering.compile(computation, "cpu")
    with pytest.raises(lowering.ModuleFileError, match=r"strip_debug\(\) removes prints"):
        lowering.compile(model, "cpu").save("model.executable")
