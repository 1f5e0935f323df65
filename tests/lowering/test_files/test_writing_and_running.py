"""`write_test` and `run_test`: files with arguments, a program and the expected results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from click.testing import CliRunner, Result
from support import small_numbers
from tables import each_row

import builder as xb
import lowering
from builder.errors import XlaError
from examples import recorded_by_example
from lowering.cli import main
from lowering.test_files.running import difference_of, is_close, outcomes


@xb.computation(xb.f32[2, 3], xb.f32[3], xb.s32[3])
def model(x: xb.XlaOp, y: xb.XlaOp, n: xb.XlaOp) -> xb.XlaOp:
    scaled = xb.tanh(x) * xb.broadcast_in_dim(y, [2, 3], [1])
    again = xb.tanh(x) + scaled
    return xb.tuple(xb.reduce(again, 0, xb.add, [0]), xb.rev(n, [0]), y)


ARGUMENTS = (
    np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3),
    np.float32([1, 2, 3]),
    np.int32([1, 2, 3]),
)


def test_a_test_that_passes_until_a_value_is_changed(tmp_path: Path) -> None:
    (path,) = lowering.write_test(model, tmp_path / "model.mlir", *ARGUMENTS)
    text = Path(path).read_text()
    kinds = ["check.expect_almost_eq", "check.expect_eq", "check.expect_eq"]
    assert [
        kind for line in text.splitlines() for kind in kinds[:2] if f'"{kind}"' in line
    ] == kinds
    (outcome,) = lowering.run_test(path, "cpu")
    assert (outcome.name, outcome.passed, outcome.checks) == ("model", True, 3)
    changed = text.replace("dense<[3, 2, 1]>", "dense<[3, 2, 2]>")
    assert changed != text
    Path(path).write_text(changed)
    (outcome,) = lowering.run_test(path, "cpu")
    assert not outcome.passed
    assert outcome.message == "expect_eq 2: 1 of 3 elements differ; at [2] got 1, expected 2"


def test_the_program_is_not_folded(tmp_path: Path) -> None:
    """StableHLO's verifier accepts the file, and the arguments are behind barriers."""
    (path,) = lowering.write_test(model, tmp_path / "model.mlir", *ARGUMENTS)
    text = Path(path).read_text()
    assert text.count("stablehlo.optimization_barrier") == 3
    assert text.startswith("// RUN: ")
    assert "xlabuilder" not in text


def test_one_file_for_each_different_op(tmp_path: Path) -> None:
    files = lowering.write_test(model, tmp_path / "ops", *ARGUMENTS, by_op=True)
    names = ["tanh", "broadcast_in_dim", "multiply", "add", "reduce", "reverse"]
    assert [Path(file).stem for file in files] == names  # the second tanh is like the first
    assert sorted(path.stem for path in (tmp_path / "ops").iterdir()) == sorted(names)
    for file in files:
        assert [outcome.passed for outcome in lowering.run_test(file, "cpu")] == [True]
    x, y, _ = ARGUMENTS
    product = np.tanh(x) * y
    (start,) = (line for line in Path(files[3]).read_text().splitlines() if "%cst_0 =" in line)
    assert f"{product[0, 0]:.4f}"[:6] in start  # an operand has its value in the program


@each_row("reference", ["cpu", "f64", jax.devices("cpu")[1]])
def test_results_of_a_device(reference: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.mlir"
    lowering.write_test(model, path, *ARGUMENTS, reference=reference)
    assert lowering.run_test(path, "cpu")[0].passed
    files = lowering.write_test(model, tmp_path, *ARGUMENTS, reference=reference, by_op=True)
    assert len(files) == 6


def test_results_in_double_precision(tmp_path: Path) -> None:
    """The sum of f32 in one order loses what f64 keeps."""
    x = np.float32([1e8, *[1.0] * 64, -1e8])
    b = xb.XlaBuilder("total")
    total = b.build(xb.reduce(b.parameter(xb.f32[66], "x"), 0.0, xb.add, [0]))
    (path,) = lowering.write_test(total, tmp_path / "total.mlir", x, reference="f64")
    assert "dense<6.400000e+01>" in Path(path).read_text()
    (path,) = lowering.write_test(total, tmp_path / "total.mlir", x)
    assert "dense<6.400000e+01>" not in Path(path).read_text()


def test_results_of_the_caller(tmp_path: Path) -> None:
    path = tmp_path / "model.mlir"
    x, y, n = ARGUMENTS
    results = ((np.tanh(x) * (1 + y)).sum(0), n[::-1], y)
    lowering.write_test(model, path, *ARGUMENTS, reference=results)
    assert lowering.run_test(path, "cpu")[0].passed
    with pytest.raises(
        lowering.ArgumentError, match=r"f32\[3\], s32\[3\], f32\[3\], got f32\[3\]\n"
    ):
        lowering.write_test(model, path, *ARGUMENTS, reference=results[:1])
    with pytest.raises(lowering.ArgumentError, match="by_op needs the values of all ops"):
        lowering.write_test(model, path, *ARGUMENTS, reference=results, by_op=True)


def argument(shape: xb.Shape) -> Any:
    if isinstance(shape, xb.TupleShape):
        return tuple(argument(element) for element in shape.elements)
    if not isinstance(shape, xb.ArrayShape):
        return None
    return small_numbers(shape.element_type, shape.dimensions)


REFUSED = {
    "replicas": "all_reduce all_gather reduce_scatter all_to_all all_to_all_tuple "
    "collective_permute multi_collective_permute collective_broadcast",
    "static sizes only": "get_dimension_size remove_dynamic_dimension dynamic_reshape "
    "reshape_with_inferred_dimension",
    "static": "set_dimension_size",
    "depend on values": "real_dynamic_slice",
    "crashed on dynamic_pad": "dynamic_pad",
    "must have an array": "create_token after_all",
    "transfers with the host": "infeed infeed_with_token outfeed outfeed_with_token send "
    "send_with_token send_to_host recv recv_with_token recv_from_host",
    "no function of that name": "custom_call",
    "no Python functions": "python_call",
    "other ones in each run": "rng_normal rng_uniform",
    "partitions": "spmd_full_to_shard_shape spmd_shard_to_full_shape",
}
"""The ops whose examples can't be tests, by a part of the message."""


@pytest.mark.slow
def test_the_examples_of_all_ops(tmp_path: Path) -> None:
    reasons = {name: reason for reason, names in REFUSED.items() for name in names.split()}
    refused: dict[str, str] = {}
    passed: set[str] = set()
    for name in xb.OPERATIONS.keys() - {"dynamic_gather"}:  # only the interpreter runs it
        for number, computation in enumerate(recorded_by_example(name)):
            path = tmp_path / f"{name}{number}.mlir"
            arguments = [argument(parameter.shape) for parameter in computation.parameters]
            try:
                lowering.write_test(computation, path, *arguments)
            except XlaError as error:
                if name not in reasons or path.exists():
                    raise
                refused.setdefault(name, str(error))
                continue
            outcomes = lowering.run_test(path, "cpu")
            assert [str(outcome).partition(": ")[2] for outcome in outcomes] == ["passed"], name
            passed.add(name)
    # Another test may have registered the function of the custom call.
    unexpected = {name for name in reasons if reasons[name] not in refused.get(name, "")}
    assert unexpected <= {"custom_call"}
    assert passed >= xb.OPERATIONS.keys() - reasons.keys() - {"dynamic_gather"}


def test_what_can_not_be_a_test(tmp_path: Path) -> None:
    for name, text in (
        ("after_all", "must have an array"),
        ("infeed", "transfers with the host"),
        ("python_call", "no Python functions"),
        ("rng_uniform", "other ones in each run"),
    ):
        computation = recorded_by_example(name)[-1]
        arguments = [argument(parameter.shape) for parameter in computation.parameters]
        with pytest.raises(lowering.LoweringError, match=text):
            lowering.write_test(computation, tmp_path / "a.mlir", *arguments)
    assert not list(tmp_path.iterdir())


ONE_DIFFERS = "1 of 2 elements differ; at [1] got"
OF_STABLEHLO = """// RUN: stablehlo-translate --interpret -split-input-file %s
func.func @sum() {
  %0 = stablehlo.constant dense<[1.0, 2.5]> : tensor<2xf32>
  %1 = stablehlo.add %0, %0 : tensor<2xf32>
  check.expect_eq_const %1, dense<[2.0, RESULT]> : tensor<2xf32>
  check.expect_almost_eq %1, %1 : tensor<2xf32>
  func.return
}
"""
OF_IREE = """func.func @first() {
  %0 = util.unfoldable_constant dense<[1.0, 2.5]> : tensor<2xf32>
  %1 = stablehlo.add %0, %0 : tensor<2xf32>
  check.expect_almost_eq_const(%1, dense<[2.0, 5.0001]> : tensor<2xf32>) : tensor<2xf32>
  check.expect_almost_eq(%1, %1, atol 1.0e-04) : tensor<2xf32>
  return
}
func.func @second() {
  %0 = util.unfoldable_constant dense<[1, 2]> : tensor<2xi32>
  check.expect_eq(%0, %0) : tensor<2xi32>
  return
}
"""
GENERIC = """module @generic {
  func.func private @inputs() -> tensor<2xf32> {
    %0 = stablehlo.constant dense<[1.0, 1.0]> : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
  func.func public @main() -> (tensor<2xf32> {jax.result_info = ""}) {
    %0 = call @inputs() : () -> tensor<2xf32>
    %1 = stablehlo.constant dense<[1.0, 1.00000024]> : tensor<2xf32>
    "check.expect_close"(%0, %1) {max_ulp_difference = ULPS : i64} : (TYPE, TYPE) -> ()
    "check.expect_eq_const"(%0) <{value = dense<1.0> : tensor<2xf32>}> : (tensor<2xf32>) -> ()
    stablehlo.custom_call @check.expect_close(%0, %1) {has_side_effect = true} : (TYPE, TYPE) -> ()
    return %0 : tensor<2xf32>
  }
}
""".replace("TYPE", "tensor<2xf32>")


@each_row(
    "text, expected",
    [
        (OF_STABLEHLO.replace("RESULT", "5.0"), ["sum: passed"]),
        (
            f"{OF_STABLEHLO.replace('RESULT', '4.0')}// -----\n{OF_IREE}",
            [
                f"sum: FAILED: expect_eq 1: {ONE_DIFFERS} 5.0, expected 4.0",
                "first: passed",
                "second: passed",
            ],
        ),
        (GENERIC.replace("ULPS", "2"), ["generic: passed"]),
        (
            GENERIC.replace("ULPS", "1"),
            [f"generic: FAILED: expect_close 1: {ONE_DIFFERS} 1.0, expected 1.000000238418579"],
        ),
    ],
)
def test_files_of_other_projects(text: str, expected: list[str], tmp_path: Path) -> None:
    path = tmp_path / "test.mlir"
    path.write_text(text)
    assert [str(outcome) for outcome in lowering.run_test(path, "cpu")] == expected


def test_a_program_that_can_not_be_read_is_a_test_that_failed(tmp_path: Path) -> None:
    path = tmp_path / "test.mlir"
    wrong = OF_STABLEHLO.replace("stablehlo.add", "stablehlo.ad")
    path.write_text(f"{wrong}// -----\n{OF_STABLEHLO.replace('RESULT', '5.0')}")
    first, second = lowering.run_test(path, "cpu")
    assert "custom op 'stablehlo.ad' is unknown" in first.message
    assert (first.passed, first.checks, second.passed, second.checks) == (False, 0, True, 2)


def test_a_folder_that_can_not_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(lowering.ModuleFileError, match="the folder can't be created"):
        lowering.write_test(model, tmp_path / "file", *ARGUMENTS, by_op=True)


def test_values_of_other_shapes_are_a_difference() -> None:
    got, want = np.ones((2, 2), np.float32), np.ones(2, np.float32)
    expected = "got float32[2, 2], expected float32[2]"
    assert difference_of("expect_eq", got, want, 3) == expected


def test_files_without_checks_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.mlir"
    lowering.lower(model).save(path)
    with pytest.raises(lowering.ModuleFileError, match="checks a value\nfix: write tests with"):
        lowering.run_test(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(lowering.ModuleFileError, match="can't be read as text"):
        lowering.run_test(path)
    with pytest.raises(lowering.ModuleFileError, match="can't be read as text"):
        lowering.run_test(tmp_path / "none.mlir")


@each_row(
    "got, want, ulps, tolerance, expected",
    [
        (np.float32([1, 2]), np.float32([1.0000001, 2.0000005]), 1, 0.0, [True, False]),
        (np.float32([1000, 1]), np.float32([1000.9, 1.0011]), 0, 0.001, [True, False]),
        (np.float32([np.nan, np.inf]), np.float32([np.nan, 3e38]), 0, 0.001, [True, False]),
        (np.complex64([1 + 1e-5j]), np.complex64([1 + 2e-5j]), 0, 0.001, [True]),
        (np.complex64([1 + 1e-5j]), np.complex64([1 + 2e-5j]), 3, 0.0, [False]),
        (np.int32([1, 2]), np.int32([1, 3]), 5, 5.0, [True, False]),
    ],
)
def test_is_close(got: Any, want: Any, ulps: int, tolerance: float, expected: list[bool]) -> None:
    assert is_close(got, want, ulps=ulps, tolerance=tolerance).tolist() == expected


ENDS = """func.func @ends() {
  %0 = stablehlo.constant dense<1> : tensor<2xi32>
  %1 = stablehlo.custom_call @end_the_process(%0) : (tensor<2xi32>) -> tensor<2xi32>
  check.expect_eq %1, %1 : tensor<2xi32>
  return
}
"""


def test_a_process_that_ends_is_a_test_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = tmp_path / "good.mlir", tmp_path / "bad.mlir"
    good.write_text(OF_STABLEHLO.replace("RESULT", "5.0"))
    bad.write_text(ENDS)
    # Imported by the child when it starts; it ends when the program with this call is compiled.
    (tmp_path / "sitecustomize.py").write_text(
        "import os\n"
        "import lowering.test_files.running as running\n"
        "compile = running.compile\n"
        "def ending(program, device):\n"
        "    if 'end_the_process' in str(program):\n"
        "        os._exit(7)\n"
        "    return compile(program, device)\n"
        "running.compile = ending\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(lowering.__file__).parents[1]}")
    found = list(outcomes([str(good), str(bad), str(good)], "cpu", 100))
    assert [outcome.passed for outcome in found] == [True, False, True]
    assert found[1].message == "the process ended with status 7"
    assert (found[1].name, found[1].checks) == ("bad", 0)
    (late,) = outcomes([str(good)], "cpu", 0.01)
    assert late.message == "no answer within 0.01 seconds"


def run_command(*arguments: str, status: int) -> Result:
    result = CliRunner().invoke(main, ["test", *arguments], env={"COLUMNS": "160"})
    assert result.exit_code == status, result.output
    return result


@pytest.mark.slow
def test_the_command(tmp_path: Path) -> None:
    lowering.write_test(model, tmp_path / "model.mlir", *ARGUMENTS)
    (tmp_path / "sum.mlir").write_text(OF_STABLEHLO.replace("RESULT", "4.0"))
    (tmp_path / "empty.mlir").write_text("module {}")
    done = run_command(str(tmp_path), "--device", "cpu", status=1)
    lines = done.stdout.splitlines()
    assert lines[-1] == "1 of 3 tests passed"
    (row,) = (line for line in lines if "sum" in line)
    assert "FAILED" in row
    assert "at [1] got 5.0, expected 4.0" in row
    done = run_command(str(tmp_path / "model.mlir"), "--json", status=0)
    (outcome,) = json.loads(done.stdout)
    assert (outcome["name"], outcome["passed"], outcome["checks"]) == ("model", True, 3)
    done = run_command(str(tmp_path / "none.mlir"), status=1)
    assert "no such file or folder" in done.stderr
