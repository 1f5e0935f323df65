"""`lowering.minimize` and its predicates."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from click.testing import CliRunner, Result
from tables import each_row

import builder as xb
import lowering
from builder import lib
from lowering.cli import main
from lowering.faults import predicates
from lowering.faults.minimizing import _fewest
from lowering.faults.predicates import arguments_in, npz_of_arguments
from tests.defects.reproducer import all_reproducers, read
from tests.lowering.faults.plain_xla import PlainXla

HERE = Path(__file__).parent
ONES = np.ones(8, np.float32)


def opcodes(computation: xb.XlaComputation) -> list[str]:
    return [op.opcode for op in computation.ops if op.opcode != "parameter"]


def around(value: xb.XlaOp, x: xb.XlaOp, count: int, seed: int) -> xb.XlaOp:
    """Record random ops on x; one of them uses a value of the shape of x."""
    random = np.random.default_rng(seed)
    ops = [x]
    for number in range(count):
        a, b = (ops[random.integers(max(0, len(ops) - 6), len(ops))] for _ in range(2))
        choices = (a + b, xb.tanh(a) * b, xb.sin(a) - b, xb.max(a, b))
        ops.append(xb.tanh(choices[random.integers(4)]))
        if number == count // 2:
            ops.append(xb.tanh(ops[-1] + value))
    return ops[-1]


def test_one_op_of_many() -> None:
    b = xb.XlaBuilder("model")
    x = b.parameter(xb.f32[8], "x")
    model = b.build(around(xb.log(x - 1.5), x, 25, seed=1))
    assert len(model.ops) > 100
    tried: list[int] = []
    is_not_finite = lowering.faults.is_not_finite("cpu")

    def is_bad(computation: xb.XlaComputation, *arguments: Any) -> bool:
        tried.append(len(computation.ops))
        return is_not_finite(computation, *arguments)

    found = lowering.minimize(model, is_bad, ONES)
    assert opcodes(found.computation) == ["log"]
    assert found.computation.name == "model"
    assert (found.arguments[0] <= 0).all()
    assert found.tried == len(tried) < 60
    assert found.is_finished
    assert str(found).startswith(f"1 op after {found.tried} programs in ")


def test_a_fault_with_two_results() -> None:
    """The tuple of the results is not removed again and again."""
    b = xb.XlaBuilder("model")
    x = b.parameter(xb.f32[8], "x")
    model = b.build(xb.tuple(xb.tanh(xb.exp(x)), xb.sin(x), xb.cos(x)))

    def is_bad(computation: xb.XlaComputation, *_: Any) -> bool:
        return {"tanh", "sine"} <= set(opcodes(computation))

    found = lowering.minimize(model, is_bad, ONES)
    assert opcodes(found.computation) == ["tanh", "sine", "tuple"]
    assert found.is_finished
    again = lowering.minimize(model, is_bad, ONES)
    assert str(again.computation) == str(found.computation)


def test_the_whole_program_must_be_bad() -> None:
    b = xb.XlaBuilder("model")
    model = b.build(b.parameter(xb.f32[8], "x") + 1.0)
    is_not_finite = lowering.faults.is_not_finite("cpu")
    with pytest.raises(xb.OperandError, match="must be true for the whole computation"):
        lowering.minimize(model, is_not_finite, ONES)
    with pytest.raises(lowering.ArgumentError):
        lowering.minimize(model, is_not_finite)
    with pytest.raises(xb.OperandError, match="seconds must be a positive number, got 0"):
        lowering.minimize(model, is_not_finite, ONES, seconds=0)
    with pytest.raises(xb.OperandError, match=r"fix: call it: lowering.faults.is_not_finite\("):
        lowering.minimize(model, lowering.faults.is_not_finite, ONES)  # type: ignore[arg-type]  # refused
    of_any_size = xb.computation("f32[?]")(lambda x: x + 1.0)
    with pytest.raises(lowering.ArgumentError, match=r"(?s)unbounded sizes.*argument_shapes="):
        lowering.minimize(of_any_size, is_not_finite, ONES)


def test_checks_do_not_hide_the_fault() -> None:
    """A check that fails ends the program before its values are NaN."""

    @xb.computation(xb.f32[3])
    def model(x: xb.XlaOp) -> xb.XlaOp:
        y = xb.log(x)
        xb.check(y > -100.0, "y is {}", y)
        return xb.exp(y) * 2.0

    is_bad = lowering.faults.is_not_finite("cpu")
    found = lowering.minimize(model, is_bad, np.float32([1, 2, -1]))
    assert [op.opcode for op in found.computation.ops] == ["parameter", "log"]


def test_the_time_limit_returns_the_smallest_program_until_then() -> None:
    b = xb.XlaBuilder("model")
    x = b.parameter(xb.f32[8], "x")
    model = b.build(around(xb.log(x - 1.5), x, 10, seed=1))
    calls: list[int] = []
    is_not_finite = lowering.faults.is_not_finite("cpu")

    def is_bad(computation: xb.XlaComputation, *arguments: Any) -> bool:
        calls.append(1)
        bad = is_not_finite(computation, *arguments)
        if bad and len(calls) > 1:  # the first smaller program
            raise_time_over()
        return bad

    ended = []

    def raise_time_over() -> None:
        ended.append(True)
        clock[0] = 1e9

    clock = [0.0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lowering.faults.minimizing.time.monotonic", lambda: clock[0])
        found = lowering.minimize(model, is_bad, ONES)
    assert not found.is_finished
    assert ended
    assert 1 < len(opcodes(found.computation)) < len(opcodes(model))
    assert is_not_finite(found.computation, *found.arguments)
    assert "the time was over" in str(found)


def has(opcode: str) -> Any:
    """The predicate that an op is somewhere in a program, which also compiles."""

    def is_bad(computation: xb.XlaComputation, *arguments: Any) -> bool:
        lowering.compile(computation, "cpu")(*arguments)
        every = (computation, *computation.called_computations())
        return any(op.opcode == opcode for part in every for op in part.ops)

    return is_bad


def test_applied_computations() -> None:
    """Calls, loops and branches become their ops; the faulty op remains alone."""
    b = xb.XlaBuilder("model")
    x = b.parameter(xb.f32[8], "x")
    inner = xb.computation(xb.f32[8])(lambda v: xb.atan2(v, xb.exp(v)) * 2.0)
    called = xb.call(inner, x) + 1.0
    state = (b.constant(0, xb.s32), called)
    loop = xb.while_(lambda s: xb.lt(s[0], 3), lambda s: (s[0] + 1, xb.call(inner, s[1])), state)
    chosen = xb.conditional(xb.lt(x[0], 2.0), loop[1], inner, x, xb.neg)
    found = lowering.minimize(b.build(chosen), has("atan2"), ONES)
    assert opcodes(found.computation) == ["atan2"]
    assert [argument.tolist() for argument in found.arguments] == [[0]]  # atan2(x, x)


def test_a_fault_after_some_iterations() -> None:
    b = xb.XlaBuilder("model")
    x = b.parameter(xb.f32[8], "x")
    state = (b.constant(0, xb.s32), x)
    loop = xb.while_(lambda s: xb.lt(s[0], 9), lambda s: (s[0] + 1, xb.sqrt(s[1]) - 0.8), state)
    found = lowering.minimize(b.build(loop[1]), lowering.faults.is_not_finite("cpu"), ONES)
    assert opcodes(found.computation) == ["sqrt"]
    assert (found.arguments[0] < 0).all()


def test_ops_inside_a_loop_are_removed_but_not_its_end() -> None:
    b = xb.XlaBuilder("model")
    x = b.parameter(xb.f32[8], "x")

    def body(s: xb.XlaOp) -> tuple[xb.XlaOp, xb.XlaOp]:
        return s[0] + 1, xb.tanh(xb.sqrt(xb.sin(s[1]))) + s[1]

    state = (b.constant(0, xb.s32), x)
    model = b.build(xb.while_(lambda s: xb.lt(s[0], 3), body, state)[1])

    def is_bad(computation: xb.XlaComputation, *arguments: Any) -> bool:
        bodies = [op.attributes["body"] for op in computation.ops if op.opcode == "while"]
        lowering.compile(computation, "cpu")(*arguments)
        return any(op.opcode == "sqrt" for part in bodies for op in part.ops)

    found = lowering.minimize(model, is_bad, ONES)
    assert opcodes(found.computation) == ["while"]
    (loop,) = (op for op in found.computation.ops if op.opcode == "while")
    inside = [op.opcode for op in loop.attributes["body"].ops]
    assert {"sqrt", "add"} <= set(inside)
    assert not {"tanh", "sin"} & set(inside)


@each_row(
    "needed",
    [{3}, {0, 9}, {2, 3, 7}, set(range(10)), {9}],
)
def test_delta_debugging(needed: set[int]) -> None:
    assert set(_fewest(range(10), lambda some: needed <= set(some))) == needed


def test_differs() -> None:
    b = xb.XlaBuilder("model")
    x = b.parameter(xb.f32[8], "x")
    model = b.build(xb.tanh(xb.exp(x)) + x)
    assert not lowering.faults.differs("cpu")(model, ONES)
    strict = lowering.faults.differs("cpu", ulps=0)
    found = lowering.minimize(model, strict, ONES)
    assert opcodes(found.computation) in (["tanh"], ["exponential"])
    assert strict(found.computation, *found.arguments)


@pytest.mark.slow
def test_rounding_errors_that_a_subtraction_amplifies() -> None:
    """Each op is right by itself: only the result differs from that in double precision."""

    @xb.computation(xb.f32[2, 3], xb.f32[2])
    def difference(x: xb.XlaOp, y: xb.XlaOp) -> xb.XlaOp:
        return xb.tanh(lib.sum(x, axis=1) - y)

    x = np.full((2, 3), [1, 2**-24, 2**-24], np.float32)
    y = x[:, 0]
    report = str(lowering.compare(difference, x, y, device="cpu", reference="f64"))
    assert "each op agrees by itself; lowering.minimize finds" in report
    by_result = lowering.faults.differs("cpu", reference="f64")
    found = lowering.minimize(difference, by_result, x, y)
    assert opcodes(found.computation)[-1] == "subtract"
    assert len(opcodes(found.computation)) <= 3
    assert found.computation.root.shape == xb.f32[1]
    assert "subtract, recorded at test_minimize.py:" in str(found).replace(f"{HERE}/", "")
    with pytest.raises(xb.OperandError, match="not another computation"):
        lowering.faults.differs("cpu", reference=difference)  # type: ignore[arg-type]  # refused
    with pytest.raises(xb.XlaError, match="differs"):
        lowering.faults.differs("cpu", reference=3)  # type: ignore[arg-type]  # refused


class InThisProcess:
    """A replacement of `WorkerProcess`, for programs that do not end the process."""

    def __init__(self, function: Callable[[Any], Any], seconds: float) -> None:
        self.function = function

    def ask(self, request: Any) -> tuple[Any, str]:
        return self.function(request), ""

    def end(self) -> None:
        pass


@pytest.mark.slow
def test_crashes(monkeypatch: pytest.MonkeyPatch) -> None:
    b = xb.XlaBuilder("model")
    x = b.parameter(xb.f32[8], "x")
    good = b.build(xb.tanh(x) + x)
    unregistered = xb.XlaBuilder("unregistered")
    y = unregistered.parameter(xb.f32[8], "y")
    call = xb.custom_call("not_registered", [xb.exp(y)], xb.f32[8])
    refused = unregistered.build(call + y)
    crashes = lowering.faults.crashes("cpu", seconds=60)
    assert not crashes(good, ONES)
    assert not crashes(refused, ONES)  # an error
    assert crashes._worker._child is not None
    crashes.close()
    assert crashes._worker._child is None
    hangs = lowering.faults.crashes("cpu", seconds=0.001)
    assert hangs(good, ONES)
    hangs.close()
    monkeypatch.setattr(predicates, "WorkerProcess", InThisProcess)
    fails = lowering.faults.crashes("cpu", message="no function of that name")
    found = lowering.minimize(refused, fails, ONES)
    assert opcodes(found.computation) == ["custom_call"]
    fails.close()


COMPILER = """
import sys, zipfile
with open(sys.argv[1]) as file:
    text = file.read()
with zipfile.ZipFile(sys.argv[1].replace(".mlir", ".npz")) as arguments:
    assert arguments.namelist()
sys.exit(3 if "stablehlo.atan2" in text else 0)
"""


def test_a_command(tmp_path: Path) -> None:
    script = tmp_path / "compiler.py"
    script.write_text(COMPILER)
    # Without the site packages Python starts faster.
    line = f"{shlex.quote(sys.executable)} -I -S {shlex.quote(str(script))} {{}}"
    b = xb.XlaBuilder("model")
    x = b.parameter(xb.f32[8], "x")
    model = b.build(xb.tanh(xb.atan2(xb.exp(x), x)) + x)
    found = lowering.minimize(model, lowering.faults.command(line, status=3), ONES)
    assert opcodes(found.computation) == ["atan2"]
    assert not lowering.faults.command(line, status=4)(model, ONES)
    assert lowering.faults.command(line)(model, ONES)
    with pytest.raises(xb.OperandError, match=r"the command must contain \{\}"):
        lowering.faults.command("compiler")
    with pytest.raises(xb.OperandError, match="the command can't be started"):
        lowering.faults.command("no-such-compiler {}")(model, ONES)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predicates, "WorkerProcess", InThisProcess)
    b = xb.XlaBuilder("model")
    x = b.parameter(xb.f32[8], "x")
    state = xb.tuple(b.constant(0, xb.s32), xb.log(xb.exp(x) - xb.exp(x)))
    loop = xb.while_(lambda s: xb.lt(s[0], 3), lambda s: (s[0] + 1, s[1] * 2.0), state)
    lowering.lower(b.build(loop[1])).save(tmp_path / "model.mlir")
    call = ["minimize", str(tmp_path / "model.mlir"), "--random", "1", "--device", "cpu"]

    def run(name: str, *more: str) -> Result:
        return CliRunner().invoke(main, [*call, "-o", str(tmp_path / name), *more])

    done = run("small.mlir", "--nan")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("1 op after ")
    small = lowering.to_computation(lowering.load(tmp_path / "small.mlir"))
    assert opcodes(small) == ["log"]
    with np.load(tmp_path / "small.npz") as file:
        arguments = {name: file[name] for name in file.files}
    assert [array.tolist() for array in arguments.values()] == [[0]]
    assert not np.isfinite(lowering.compile(small, "cpu")(**arguments)).any()
    assert "pass one of --crashes" in run("none.mlir").stderr
    assert "is_bad must be true" in run("none.mlir", "--crashes").stderr
    assert not (tmp_path / "none.mlir").exists()


def test_a_file_of_another_kind_is_not_written(tmp_path: Path) -> None:
    b = xb.XlaBuilder("model")
    model = b.build(xb.log(b.parameter(xb.f32[8], "x") - 1.0))
    found = lowering.minimize(model, lowering.faults.is_not_finite("cpu"), ONES)
    with pytest.raises(xb.OperandError, match=r"the path must end in .mlir"):
        found.save(tmp_path / "small.txt")
    assert not list(tmp_path.iterdir())


def test_arguments_in_files(tmp_path: Path) -> None:
    b = xb.XlaBuilder("program")
    b.parameter("(f32[2], (bf16[], s4[1]))", "x")
    b.parameter(xb.pred[2], "y")
    shape = b.build(b.parameter(xb.c64[()], "z")).program_shape
    arguments = [
        (np.ones(2, np.float32), (np.zeros((), xb.bf16.dtype), np.array([1], xb.s4.dtype))),
        np.array([True, False]),
        np.array(2j, np.complex64),
    ]
    (tmp_path / "a.npz").write_bytes(npz_of_arguments(shape, arguments))
    with np.load(tmp_path / "a.npz") as file:
        assert file.files == ["x[0]", "x[1][0]", "x[1][1]", "y", "z"]
    again = arguments_in(shape, tmp_path / "a.npz")
    assert jax.tree.structure(again) == jax.tree.structure(arguments)
    for one, other in zip(jax.tree.leaves(again), jax.tree.leaves(arguments), strict=True):
        assert (one.dtype, one.tolist()) == (other.dtype, other.tolist())


def test_an_infinite_constant_is_no_fault() -> None:
    """A masked softmax whose exponential overflows: not the constant of the mask is at fault."""
    b = xb.XlaBuilder("masked")
    x = b.parameter(xb.f32[4], "x")
    masked = xb.select(xb.lt(b.iota(xb.s32[4], 0), 2), x, float("-inf"))
    powers = xb.exp(masked)
    model = b.build(powers / xb.broadcast_in_dim(lib.sum(powers), [4], []))
    is_bad = lowering.faults.is_not_finite("cpu")
    assert not is_bad(model, ONES[:4])
    found = lowering.minimize(model, is_bad, np.float32([100, 100, 0, 0]))
    assert opcodes(found.computation) == ["exponential"]


def with_defect(name: str) -> tuple[xb.XlaComputation, list[Any]] | None:
    """Return a program of about 50 ops around the reproducer of a defect, and its arguments."""
    reproducer = read(name)
    if reproducer.replicas * reproducer.partitions > 1:
        return None
    try:
        part = lowering.to_computation(lowering.load_bytes(reproducer.module))
    except (lowering.LoweringError, lowering.ModuleFileError):
        return None
    if not all(shape.is_array and shape.is_static for shape in part.program_shape.parameters):
        return None
    b = xb.XlaBuilder("model")
    x = b.parameter(xb.f32[8], "x")
    parameters = [b.parameter(p.shape, f"p{n}") for n, p in enumerate(part.parameters)]
    result = xb.inline(part, *parameters) if parameters else b.inline(part)
    arrays = list(result) if result.shape.is_tuple else [result]
    more = around(xb.sin(x), x, 10, seed=len(name))
    return b.build(xb.tuple(more, *arrays)), [ONES, *reproducer.arguments]


@pytest.mark.slow
def test_a_defect_of_xla(tmp_path: Path) -> None:
    """A defect inside a larger program comes down to a few ops."""
    is_bad = PlainXla(tmp_path)
    names = [name for name in all_reproducers() if name.startswith("sort")]
    try:
        for name in names:
            case = with_defect(name)
            if case is not None and is_bad(case[0], *case[1]):
                found = lowering.minimize(case[0], is_bad, *case[1])
                assert len(opcodes(found.computation)) <= 5, f"{name}\n{found}"
                return
    finally:
        is_bad.worker.end()
    pytest.fail(f"none of {names} shows its defect")
