"""Test the programs that run StableHLO's samples, on samples defined here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scripts import ROOT, load_script
from tables import each_row

sys.path.insert(0, str(ROOT / "tests" / "conformance"))
runner = load_script("tests/conformance/sample_runner.py")

ADD = """
module {
  func.func public @main() -> tensor<2xf32> {
    %0 = call @inputs() : () -> tensor<2xf32>
    %1 = call @expected() : () -> tensor<2xf32>
    %2 = stablehlo.add %0, %0 : tensor<2xf32>
    stablehlo.custom_call @check.CHECK(%2, %1) {has_side_effect = true}
    return %2 : tensor<2xf32>
  }
  func.func private @inputs() -> (tensor<2xf32> {mhlo.layout_mode = "default"}) {
    %c = stablehlo.constant dense<[1.0, 2.5]> : tensor<2xf32>
    return %c : tensor<2xf32>
  }
  func.func private @expected() -> (tensor<2xf32> {mhlo.layout_mode = "default"}) {
    %c = stablehlo.constant dense<EXPECTED> : tensor<2xf32>
    return %c : tensor<2xf32>
  }
}""".replace("{has_side_effect = true}", "{} : (tensor<2xf32>, tensor<2xf32>) -> ()")

DYNAMIC = """
module @any {
  func.func @main(%n: tensor<i64>, %x: tensor<?xf32>) -> tensor<?xf32> {
    %0 = stablehlo.add %x, %x : tensor<?xf32>
    return %0 : tensor<?xf32>
  }
}"""

QUANTIZED = """
module {
  func.func @main() -> tensor<2xf32> {
    %c = stablehlo.constant dense<[1.0, 2.5]> : tensor<2xf32>
    %0 = stablehlo.uniform_quantize %c : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 0.5>>
    %1 = stablehlo.uniform_dequantize %0 : (tensor<2x!quant.uniform<i8:f32, 0.5>>) -> tensor<2xf32>
    return %1 : tensor<2xf32>
  }
}"""


TWO_CHECKS = """
module {
  func.func public @main() -> (tensor<2xf32>, tensor<2xi32>) {
    %0 = call @inputs() : () -> tensor<2xf32>
    %1:2 = call @expected() : () -> (tensor<2xi32>, tensor<2xf32>)
    %2 = stablehlo.add %0, %0 : tensor<2xf32>
    %3 = stablehlo.convert %2 : (tensor<2xf32>) -> tensor<2xi32>
    stablehlo.custom_call @check.expect_eq(%3, %1#0) : (tensor<2xi32>, tensor<2xi32>) -> ()
    stablehlo.custom_call @check.expect_close(%2, %1#1) : (tensor<2xf32>, tensor<2xf32>) -> ()
    return %2, %3 : tensor<2xf32>, tensor<2xi32>
  }
  func.func private @inputs() -> tensor<2xf32> {
    %0 = stablehlo.constant dense<[1.0, 2.5]> : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
  func.func private @expected() -> (tensor<2xi32>, tensor<2xf32>) {
    %0 = stablehlo.constant dense<[2, FIVE]> : tensor<2xi32>
    %1 = stablehlo.constant dense<[2.0, 5.000001]> : tensor<2xf32>
    return %0, %1 : tensor<2xi32>, tensor<2xf32>
  }
}
"""


def add(check: str, expected: str) -> str:
    return ADD.replace("CHECK", check).replace("EXPECTED", expected)


INTERPRET = """
func.func @add() {
  %0 = stablehlo.constant dense<[1.0, 2.5]> : tensor<2xf32>
  %1 = stablehlo.add %0, %0 : tensor<2xf32>
  check.expect_eq_const %1, dense<[2.0, FIVE]> : tensor<2xf32>
  func.return
}

// -----

module {
  func.func @negate() {
    %0 = stablehlo.constant dense<[1, -3]> : tensor<2xi8>
    %1 = stablehlo.negate %0 : tensor<2xi8>
    "check.expect_eq_const"(%1) <{value = dense<[-1, 3]> : tensor<2xi8>}> : (tensor<2xi8>) -> ()
    return
  }
}
"""

PARALLEL = """
module @sides {
  func.func @program(%x: tensor<ui32>) -> tensor<ui32> {
    %0 = stablehlo.replica_id : tensor<ui32>
    %1 = stablehlo.add %0, %x : tensor<ui32>
    return %1 : tensor<ui32>
  }
  func.func @main() {
    %a = stablehlo.constant dense<10> : tensor<ui32>
    %b = stablehlo.constant dense<20> : tensor<ui32>
    %results:2 = "interpreter.run_parallel"(%a, %b) {
      programs=[[@program], [@program]]
    } : (tensor<ui32>, tensor<ui32>) -> (tensor<ui32>, tensor<ui32>)
    check.expect_eq_const %results#0, dense<10> : tensor<ui32>
    check.expect_eq_const %results#1, dense<SECOND> : tensor<ui32>
    func.return
  }
}
"""


def run(program: str, folder: Path) -> tuple[int, list[str]]:
    """Run one of the programs; return its exit status and its output lines."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "conformance" / program), str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout.splitlines()


def test_test_data(tmp_path: Path) -> None:
    samples = {
        "add_exact": add("expect_eq", "[2.0, 5.0]"),
        "add_close": add("expect_close", "[2.0, 5.000001]"),
        "add_almost": add("expect_almost_eq", "[2.0, 5.004]"),
        "dynamic__any": DYNAMIC,
        "quantized__some": QUANTIZED,
        "dynamic/any": DYNAMIC,
        "quantized/some": QUANTIZED,
        "quantized/plain": TWO_CHECKS.replace("FIVE", "5"),
    }
    for name, text in samples.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.mlir").write_text(text)
    status, lines = run("run_testdata.py", tmp_path)
    assert lines == [
        "passed 4 of 8, 4 not representable (quantized: 2, dynamic: 2), 0 failed",
    ]
    assert status == 0


def test_test_data_that_fails(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    samples = {
        "inside/add_exact": add("expect_eq", "[2.0, 5.000001]"),
        "add_almost": add("expect_almost_eq", "[2.0, 5.01]"),
        "add_unlike": "func.func @main() -> tensor<2xf32> {",
        "quantized_not": add("expect_eq", "[2.0, 5.0]"),
        "surprising": QUANTIZED,
        "two_checks": TWO_CHECKS.replace("FIVE", "6"),
    }
    for name, text in samples.items():
        (tmp_path / f"{name}.mlir").write_text(text)
    status, lines = run("run_testdata.py", tmp_path)
    assert status == 1
    assert lines.pop() == "passed 1 of 6, 0 not representable (quantized: 0, dynamic: 0), 5 failed"
    assert [line.partition(":")[0] for line in lines] == [
        "add_almost.mlir",
        "add_unlike.mlir",
        "inside/add_exact.mlir",
        "surprising.mlir",
        "two_checks.mlir",
    ]
    assert "result 0 is [2. 5.], expected [2.   5.01]" in lines[0]
    assert "ModuleFileError: the module: line 1, column" in lines[1]
    assert "quantized types are not supported" in lines[3]
    assert "result 1 is [2 5], expected [2 6]" in lines[4]


@pytest.mark.slow
def test_interpreted(tmp_path: Path) -> None:
    for name, five, second in (("right", "5.0", "21"), ("wrong", "5.5", "20")):
        (tmp_path / f"add_{name}.mlir").write_text(INTERPRET.replace("FIVE", five))
        (tmp_path / f"sides_{name}.mlir").write_text(PARALLEL.replace("SECOND", second))
    assert run("run_interpret.py", tmp_path) == (
        1,
        [
            "add_wrong.mlir: ValueError: module 1: %1 is [2.0, 5.0], expected dense<[2.0, 5.5]>",
            "sides_wrong.mlir: ValueError: module 1: %results#1 is 21, expected dense<20>",
            "passed 2 of 4, 0 not representable (quantized: 0, dynamic: 0), 2 failed",
        ],
    )


KILLER = """
import os, sys
sys.path.insert(0, {folder!r})
import sample_runner

def check(path):
    if path.stem == "killer":
        os.abort()
    if path.stem == "silent":
        import time
        time.sleep(60)
    return sample_runner.PASSED, ""

if __name__ == "__main__":
    sample_runner.SECONDS = 2.0
    sys.exit(sample_runner.command_line(__file__, "", check, None))
"""


@pytest.mark.slow
def test_a_sample_that_kills_the_process_is_one_failure(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(KILLER.format(folder=str(ROOT / "tests" / "conformance")))
    for name in ("first", "killer", "second", "silent", "third"):
        (tmp_path / f"{name}.mlir").write_text("")
    status, lines = run(str(program), tmp_path)
    assert status == 1
    assert lines == [
        "killer.mlir: the process died with status -6",
        "silent.mlir: no answer within 2 seconds",
        "passed 3 of 5, 0 not representable (quantized: 0, dynamic: 0), 2 failed",
    ]


@pytest.mark.parametrize("program", ["run_testdata.py", "run_interpret.py"])
def test_a_folder_without_samples(program: str, tmp_path: Path) -> None:
    assert run(program, tmp_path)[0] == 2
    assert run(program, tmp_path / "none")[0] == 2


CLOSE = {
    "the same": (1.5, 1.5, {}, True),
    "not a number": (np.nan, np.nan, {}, True),
    "infinite": (np.inf, np.inf, {}, True),
    "infinite and not": (np.inf, 3e38, {"ulps": 3}, False),
    "one of two infinities": (np.inf, -np.inf, {"tolerance": 0.001}, False),
    "a step": (1.0, np.nextafter(np.float32(1), 2), {}, False),
    "three steps": (1.0, 1 + 3 * 2.0**-23, {"ulps": 3}, True),
    "four steps": (1.0, 1 + 4 * 2.0**-23, {"ulps": 3}, False),
    "steps of small numbers": (0.0, 3e-45, {"ulps": 3}, True),
    "within tolerance": (0.0, 0.00099, {"tolerance": 0.001}, True),
    "beyond tolerance": (0.0, 0.0011, {"tolerance": 0.001}, False),
    "tolerance of a large number": (1000.0, 1000.9, {"tolerance": 0.001}, True),
}


@each_row("case", CLOSE)
def test_closeness(case: str) -> None:
    one, other, allowed, expected = CLOSE[case]
    for pair in ((one, other), (other, one)):
        arrays = [np.array([value], np.float32) for value in pair]
        assert runner.is_close(*arrays, **allowed) is expected
    both = [np.array([complex(2, value)], np.complex64) for value in (one, other)]
    if "tolerance" not in allowed:
        assert runner.is_close(*both, **allowed) is expected


def test_other_types_and_sizes_are_not_close() -> None:
    x = np.zeros(2, np.float32)
    assert not runner.is_close(x, x.astype(np.float64), tolerance=1.0)
    assert not runner.is_close(x, x[:1], tolerance=1.0)
    assert not runner.is_close(x.astype(np.int8), np.array([0, 1], np.int8), tolerance=1.0)
