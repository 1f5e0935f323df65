"""The command `xlabuilder`, mostly run in this process."""

from __future__ import annotations

import importlib.metadata
import io
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

import jax
import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner, Result
from processes import run_python
from scripts import ROOT
from tables import each_row

import builder as xb
import lowering
from builder.inspection.rendering import bytes_text
from lowering.cli import main
from lowering.cli.command import ended_by_interrupt, subcommand
from lowering.jaxlib_api import hlo_conversion, versions


def call(*arguments: str | Path, status: int = 0, stdin: bytes | None = None) -> Result:
    """Run a command, which must exit with this status."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments], input=stdin)
    assert result.exit_code == status, result.output
    if status == 0:
        assert result.stderr == ""
    return result


def from_json(*arguments: str | Path, status: int = 0) -> dict:
    return json.loads(call(*arguments, "--json", status=status).stdout)


@xb.computation(xb.f32[8, 4], xb.f32[4, 3], xb.bf16[3])
def layer(x, w, bias):
    wide = xb.convert_element_type(bias, xb.f32)
    y = xb.add(x @ w, wide, broadcast_dimensions=[1])
    return xb.tuple(xb.tanh(y), xb.convert_element_type(y, xb.bf16))


@xb.computation(xb.tuple_shape([xb.f64[2], xb.tuple_shape([xb.pred[()], xb.s8[3]])]), xb.c64[2])
def nested(state, z):
    x, inner = state
    flag, small = inner
    doubled = xb.select(flag, x + x, x)
    return xb.tuple(doubled, xb.tuple(small + small, xb.conj(z)))


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Path]:
    """A program in every format that is read without a helper process; and another program."""
    folder = tmp_path_factory.mktemp("files")
    module = lowering.lower(layer)
    paths = {}
    for suffix in ("mlir", "mlirbc", "stablehlo"):
        paths[suffix] = folder / f"layer.{suffix}"
        module.save(paths[suffix])
    paths["hlo"] = folder / "layer.hlo"
    paths["hlo"].write_text(str(layer))
    paths["nested"] = folder / "nested.stablehlo"
    lowering.lower(nested).save(paths["nested"])
    return paths


# inspect


@pytest.mark.parametrize("suffix", ["mlir", "mlirbc", "stablehlo"])
def test_inspect(files, suffix):
    about = from_json("inspect", files[suffix], "--ops")
    kind, version, producer = {
        "mlir": ("StableHLO text", None, None),
        "mlirbc": ("StableHLO bytecode", None, about["producer"]),
        "stablehlo": ("StableHLO portable artifact", "1.0.0", "StableHLO_v1.0.0"),
    }[suffix]
    assert (about["kind"], about["stablehlo_version"], about["producer"]) == (
        kind,
        version,
        producer,
    )
    if suffix == "mlirbc":
        assert re.fullmatch(r"MLIR[\w.]+", producer)
    assert about["bytes"] == files[suffix].stat().st_size
    assert about["name"] == "layer"
    assert about["parameters"] == [
        {"name": "x", "shape": "f32[8,4]"},
        {"name": "w", "shape": "f32[4,3]"},
        {"name": "bias", "shape": "bf16[3]"},
    ]
    assert about["result"] == "(f32[8,3], bf16[8,3])"
    stats = about["stats"]
    # A product of 8x4 and 4x3: 8 * 3 sums of 4 products, two operations each.
    assert stats["by_opcode"]["dot_general"]["flops"] == 2 * 8 * 4 * 3
    assert stats["transcendentals"] == 8 * 3
    assert stats["parameters"] == {"count": 3, "elements": 47, "bytes": 4 * (32 + 12) + 2 * 3}
    assert [op["opcode"] for op in about["ops"]] == [op.opcode for op in layer.ops]


def test_inspect_output(files):
    lines = call("inspect", files["stablehlo"]).stdout.splitlines()
    assert lines[0].endswith(
        f"layer.stablehlo: StableHLO portable artifact, version 1.0.0, "
        f"{bytes_text(files['stablehlo'].stat().st_size)}"
    )
    assert lines[1] == f"layer{layer.program_shape}"
    assert lines[5] == "x           f32[8,4]   128 B"
    assert any(re.match(r"dot_general +1 +1 +192 FLOP", line) for line in lines)
    assert "\x1b" not in "".join(lines)
    assert not any(line.endswith(" ") for line in lines)
    table = call("inspect", files["mlir"], "--ops", "--limit", 2).stdout
    assert re.search(r"^ +0 +parameter +f32\[8,4\]", table, re.MULTILINE)
    assert re.search(rf"{len(layer.ops) - 4} more", table)
    assert "more" not in call("inspect", files["mlir"], "--ops", "--limit", 0).stdout


@pytest.mark.parametrize(("results", "shown"), [(2, "(f32[2], f32[2])"), (30, "a tuple of 30")])
def test_long_signatures_are_folded(tmp_path, results, shown):
    b = xb.XlaBuilder("wide")
    parameters = [b.parameter(xb.f32[2], f"parameter_{i}") for i in range(30)]
    lowering.lower(b.build(xb.tuple(*parameters[:results]))).save(tmp_path / "wide.mlir")
    lines = call("inspect", tmp_path / "wide.mlir").stdout.splitlines()
    assert lines[1] == f"wide: 30 parameters -> {shown}"
    assert sum(bool(re.match(r"parameter_\d+ +f32\[2\] +8 B$", line)) for line in lines) == 30


@pytest.mark.parametrize("name", ["text.mlir", "text.hlo", "text.stablehlo"])
def test_files_of_other_text(tmp_path, name):
    (tmp_path / name).write_text("hello world")
    error = call("inspect", tmp_path / name, status=1).stderr
    assert "line 1, column 1: not StableHLO: no operation begins with 'hello'\nfix: pass" in error
    assert "dialects" not in error


def test_help_fits_in_80_columns():
    # The last command of a list that is cut off would end in dots.
    for command in ("", *main.commands):
        lines = call(*command.split(), "--help").stdout.splitlines()
        assert [line for line in lines if len(line) > 80] == []
        assert [line for line in lines[1:] if line.endswith("...")] == []


def test_inspect_hlo(files):
    about = from_json("inspect", files["hlo"])
    assert (about["kind"], about["producer"]) == ("HLO text", None)
    assert about["result"] == "(f32[8,3], bf16[8,3])"


CALLS = """
func.func private @inner(%x: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.custom_call @"my target"(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func @main(%x: tensor<f32>, %t: !stablehlo.token) -> tensor<f32> {
  %0 = stablehlo.custom_call @"my target"(%x) : (tensor<f32>) -> tensor<f32>
  %1 = func.call @inner(%0) : (tensor<f32>) -> tensor<f32>
  %2 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%1) : (tensor<f32>) -> tensor<f32>
  %3 = stablehlo.custom_call @LayoutConstraint(%2) : (tensor<f32>) -> tensor<f32>
  %4:2 = "stablehlo.infeed"(%t) : (!stablehlo.token) -> (tensor<f32>, !stablehlo.token)
  %5 = "stablehlo.outfeed"(%4#0, %4#1) : (tensor<f32>, !stablehlo.token) -> !stablehlo.token
  %6 = "stablehlo.send"(%3, %5) {
    channel_handle = #stablehlo.channel_handle<handle = 1, type = 2>, is_host_transfer = true
  } : (tensor<f32>, !stablehlo.token) -> !stablehlo.token
  %7:2 = "stablehlo.recv"(%6) {
    channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>
  } : (!stablehlo.token) -> (tensor<f32>, !stablehlo.token)
  LAST
  return %7#0 : tensor<f32>
}
"""
PYTHON = """%8 = stablehlo.custom_call @xlabuilder.python_call(%3) {
    api_version = 4 : i32, backend_config = {index = 0 : i64, name = "removes_files"}
  } : (tensor<f32>) -> tensor<f32>"""
QUANTIZE = """%8 = stablehlo.uniform_quantize %3
    : (tensor<f32>) -> tensor<!quant.uniform<i8:f32, 0.5>>"""


@pytest.mark.parametrize("last", ["", PYTHON, QUANTIZE, PYTHON + QUANTIZE.replace("%8", "%9")])
def test_inspect_lists_calls_and_transfers(tmp_path, last):
    """Of a program that is imported, one that is only parsed, and one that MLIR can't parse."""
    path = tmp_path / "calls.mlir"
    path.write_text(CALLS.replace("LAST", last))
    expected = [
        ("custom_call", "my target", True, 2),
        ("custom_call", "xla_ffi_python_cpu_callback", True, 1),
        *([("python_call", "removes_files", True, 1)] if PYTHON in last else []),
        ("custom_call", "LayoutConstraint", False, 1),
        ("infeed", "host", False, 1),
        ("outfeed", "host", False, 1),
        ("recv", "device", False, 1),
        ("send", "host", False, 1),
    ]
    about = from_json("inspect", path)
    assert ("not_imported" in about) == (last != "")
    assert [tuple(row.values()) for row in about["external"]] == expected
    lines = call("inspect", path).stdout.splitlines()
    assert any(re.fullmatch(r"custom_call +my target +2 +code outside XLA", line) for line in lines)
    assert any(re.fullmatch(r"custom_call +LayoutConstraint +1", line) for line in lines)


@pytest.mark.usefixtures("read_here")
def test_inspect_lists_nothing_without_calls(files):
    for kind in ("mlir", "hlo"):
        assert from_json("inspect", files[kind])["external"] == []
        assert "call or transfer" not in call("inspect", files[kind]).stdout


OPEN = """
func.func @main(%arg0: tensor<?x2xf32> loc("rows")) -> tensor<?x2xf32> {
  %0 = stablehlo.add %arg0, %arg0 : tensor<?x2xf32>
  return %0 : tensor<?x2xf32>
}
"""


def test_dynamic_sizes(tmp_path):
    path = tmp_path / "open.mlir"
    path.write_text(OPEN)
    for name in ("rows", "arg0", "0"):
        about = from_json("inspect", path, "--shape", f"{name}=f32[5,2]")
        assert about["result"] == "f32[5,2]"
        assert about["stats"]["flops"] == 10
    assert (
        "no parameter 'x'\nfix: use one of arg0"
        in call("inspect", path, "--shape", "x=f32[1,2]", status=1).stderr
    )
    assert "expected NAME=SHAPE" in call("inspect", path, "--shape", "x", status=2).stderr
    without_type = call("inspect", path, "--shape", "rows=1,2", status=1).stderr
    assert "fix: write a shape with its element type, such as rows=f32[2,3]" in without_type


QUANTIZED = """
module {
  func.func @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.uniform_quantize %arg0 : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 0.5>>
    %1 = stablehlo.uniform_dequantize %0 : (tensor<2x!quant.uniform<i8:f32, 0.5>>) -> tensor<2xf32>
    %2 = stablehlo.add %1, %1 : tensor<2xf32>
    %3 = stablehlo.add %2, %2 : tensor<2xf32>
    return %3 : tensor<2xf32>
  }
}
"""
UNKNOWN_SIZE = """
func.func @main(%arg0: tensor<1xi64>) -> tensor<?xf32> {
  %0 = stablehlo.dynamic_iota %arg0, dim = 0 : (tensor<1xi64>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}
"""


def test_inspect_files_that_cannot_be_imported(tmp_path):
    path = tmp_path / "other.mlir"
    path.write_text(QUANTIZED)
    about = from_json("inspect", path)
    assert about["operations"] == {
        "stablehlo.add": 2,
        "stablehlo.uniform_quantize": 1,
        "stablehlo.uniform_dequantize": 1,
    }
    assert about["signature"] == "(%arg0: tensor<2xf32>) -> tensor<2xf32>"
    assert "quantized types are not supported" in about["not_imported"]
    path.write_text(UNKNOWN_SIZE)
    lines = call("inspect", path).stdout.splitlines()
    assert lines[1] == "main(arg0: s64[1]) -> f32[?]"
    assert any(re.fullmatch(r"stablehlo.dynamic_iota +1", line) for line in lines)
    assert "stablehlo.dynamic_iota" in lines[-1]
    path.write_text(QUANTIZED.replace("stablehlo.uniform_quantize", "other.quantize"))
    about = from_json("inspect", path)
    assert about["operations"]["stablehlo.add"] == 2
    assert "Dialect `other' not found" in about["not_imported"]
    path.write_text(OPEN)
    lines = call("inspect", path).stdout.splitlines()
    assert lines[1] == "main(arg0: f32[?,2]) -> f32[?,2]"
    assert any(re.fullmatch(r"stablehlo.add +1", line) for line in lines)
    path.write_text("module {")
    assert call("inspect", path, status=1).stderr.startswith(f"xlabuilder: {path}: line 1, column")


# convert


@pytest.mark.parametrize("suffix", ["mlir", "mlirbc", "stablehlo"])
@pytest.mark.parametrize("source", ["mlir", "stablehlo"])
def test_convert(files, tmp_path, source, suffix):
    out = tmp_path / f"out.{suffix}"
    output = call("convert", files[source], out).stdout
    assert output.startswith(f"{out}: ")
    assert not layer.diff(lowering.to_computation(out))


@pytest.mark.usefixtures("read_here")
def test_convert_hlo(files, tmp_path):
    text, back = tmp_path / "out.txt", tmp_path / "back.mlir"
    call("convert", files["stablehlo"], text)
    assert hlo_conversion.parsed_hlo_text(text.read_text()).startswith("HloModule layer")
    call("convert", text, back)
    assert not layer.diff(lowering.to_computation(back))


@pytest.mark.parametrize("suffix", ["mlir", "hlo"])
def test_convert_strip_debug(tmp_path, suffix):
    b = xb.XlaBuilder("prints")
    x = b.parameter(xb.f32[2])
    xb.debug_print("{}", x)
    source, out = tmp_path / "a.stablehlo", tmp_path / f"b.{suffix}"
    lowering.lower(b.build(xb.neg(x))).save(str(source))
    for options, is_left in (((), True), (("--strip-debug",), False)):
        call("convert", source, out, *options)
        assert ("debug_print" in out.read_text()) is is_left


def test_convert_for_readers_that_lack_operations(tmp_path):
    source, out = tmp_path / "a.mlir", tmp_path / "b.mlir"
    source.write_text(
        "func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> "
        "{ %0 = stablehlo.cholesky %x : tensor<4x4xf32> "
        "%1 = chlo.erf %0 : tensor<4x4xf32> -> tensor<4x4xf32> return %1 : tensor<4x4xf32> }"
    )
    call("convert", source, out, "--inline-composites", "--without", "cholesky")
    text = out.read_text()
    assert "stablehlo.cholesky" not in text
    assert "chlo.erf" not in text
    failed = call("convert", out, "-", "--format", "hlo", "--without", "while", status=1)
    assert "convert: while" in failed.stderr
    assert "has no expansion" in failed.stderr


def test_messages_name_the_options_of_the_command(files, tmp_path):
    source, out = tmp_path / "a.mlir", tmp_path / "b.stablehlo"
    source.write_text(
        "func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> { "
        "%0 = stablehlo.custom_call @foo(%x) : (tensor<8xf32>) -> tensor<8xf32> "
        '%1 = stablehlo.composite "a.b" %0 {decomposition = @f} : (tensor<8xf32>) -> tensor<8xf32> '
        "return %1 : tensor<8xf32> } func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> "
        "{ return %x : tensor<8xf32> }"
    )
    for options, first, fix in (
        (["--target", "0.14.0"], "", "pass --target 0.19.0 or newer, up to"),
        (["--target", "0.14.0"], "", "; --inline-composites writes the program without composites"),
        (["--target", "9.9"], "artifact: --target must be three numbers", "pass a version from"),
        (["--without", "custom_call"], "got --without custom_call", "omit --without custom_call, "),
        (["--without", "foo"], "convert: --without must have names", "did you mean 'floor'?"),
        (["--shape", "0=f32[9]"], "--shape must be the shape of parameter arg0", ""),
    ):
        message, *rest = call("convert", source, out, *options, status=1).stderr.splitlines()
        assert first in message
        assert fix in "".join(rest)


def test_convert_for_older_versions(files, tmp_path):
    out = tmp_path / "old.stablehlo"
    for target, version in {
        "1.2.0": "1.2.0",
        "minimum": versions.minimum_version(),
        "4w": versions.compatible_version(4),
        "12w": versions.compatible_version(12),
        "current": versions.current_version(),
    }.items():
        output = call("convert", files["mlir"], out, "--target", target).stdout
        assert f"for StableHLO {version}, " in output
        assert from_json("inspect", out)["stablehlo_version"] == version
    output = call("convert", files["mlir"], out).stdout
    assert "for StableHLO 1.0.0, " in output
    parts = [tuple(map(int, versions.compatible_version(weeks).split("."))) for weeks in (12, 4)]
    assert parts == sorted(parts)
    before = out.read_bytes()
    message = call("convert", files["mlir"], out, "--target", "9.9.9", status=1).stderr
    assert message.startswith("xlabuilder: artifact: StableHLO 9.9.9 is newer than the")
    assert len(message.splitlines()) == 2
    assert out.read_bytes() == before
    assert list(tmp_path.iterdir()) == [out]


def test_convert_with_standard_streams(files):
    data = files["stablehlo"].read_bytes()
    text = call("convert", "-", "-", "--format", "text", stdin=data).stdout_bytes
    assert text.decode() == lowering.load_bytes(data).text
    artifact = call("convert", "-", "-", "--format", "artifact", stdin=text).stdout_bytes
    assert lowering.load_bytes(artifact).text == text.decode()
    assert "<stdin>: is empty" in call("inspect", "-", stdin=b"", status=1).stderr


def test_convert_usage_errors(files, tmp_path):
    message = call("convert", files["mlir"], tmp_path / "out.onnx", status=2).stderr
    assert message.startswith("xlabuilder convert: OUT must end in one of .mlir, ")
    assert "standard output" in call("convert", files["mlir"], "-", status=2).stderr
    message = call("convert", files["mlir"], tmp_path / "a.mlir", "--target", "4w", status=2).stderr
    assert "--target is for portable artifacts, not StableHLO text" in message
    assert list(tmp_path.iterdir()) == []


# run


def test_run(files, tmp_path):
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((8, 4), np.float32), rng.standard_normal((4, 3), np.float32)
    bias = np.array([1, -2, 0.5], ml_dtypes.bfloat16)
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "others.npz", first=w, bias=bias)
    out = tmp_path / "out.npz"
    arguments = ["--input", f"x={tmp_path / 'x.npy'}"]
    arguments += ["--input", f"w={tmp_path / 'others.npz'}:first"]
    arguments += ["--input", f"bias={tmp_path / 'others.npz'}", "--device", "cpu", "--repeat", "3"]
    about = from_json("run", files["stablehlo"], *arguments, "-o", str(out))
    y = x @ w + bias.astype(np.float32)
    with np.load(out) as stored:
        assert sorted(stored.files) == ["result[0]", "result[1]"]
        np.testing.assert_allclose(stored["result[0]"], np.tanh(y), rtol=1e-5)
        rounded = stored["result[1]"].view(ml_dtypes.bfloat16)
    np.testing.assert_allclose(rounded.astype(np.float32), y, rtol=1e-2)
    first, second = about["results"]
    assert (first["name"], first["shape"], first["nan_count"]) == ("result[0]", "f32[8,3]", 0)
    for name in ("min", "mean", "max"):
        np.testing.assert_allclose(first[name], getattr(np.tanh(y), name)(), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(second["first"], y.reshape(-1)[:6], rtol=1e-2)
    assert len(about["call_seconds"]) == 3
    assert about["median_call_seconds"] == sorted(about["call_seconds"])[1]
    counted = layer.stats().flops + layer.stats().transcendentals
    assert about["flops_per_second"] == counted / about["median_call_seconds"]
    assert about["memory_bytes"]["arguments"] == 4 * (32 + 12) + 2 * 3

    # The output is a valid input.
    again = ["--input", f"bias={tmp_path / 'bias.npy'}", *arguments[:4]]
    np.save(tmp_path / "bias.npy", bias)
    assert from_json("run", files["mlir"], *again)["results"] == about["results"]


def test_run_output(files, tmp_path):
    out = tmp_path / "out.npz"
    lines = call("run", files["mlir"], "--random", 0, "--output", out).stdout.splitlines()
    assert lines[0] == f"layer{layer.program_shape} on cpu:0"
    assert [line.split("  ")[0] for line in lines[2:7]] == [
        "compile",
        "first call",
        "call",
        "speed",
        "memory",
    ]
    assert any(line.startswith("result[1]   bf16[8,3]") for line in lines)
    assert (
        lines[-1]
        == "bf16 is stored as raw bytes (V2); restore it by array.view(ml_dtypes.bfloat16)"
    )


def test_run_nested_arguments(files, tmp_path):
    arrays = {
        "state[0]": np.array([1.5, 2.0**60]),
        "state[1][0]": np.array(True),
        "state[1][1]": np.array([1, -2, 3], np.int8),
        "z": np.array([1 + 2j, complex(np.nan, 1)], np.complex64),
    }
    np.savez(tmp_path / "in.npz", **arrays)
    about = from_json("run", files["nested"], "--input", str(tmp_path / "in.npz"), "--repeat", "1")
    doubled, small, z = about["results"]
    assert doubled["first"] == [3.0, 2.0**61]
    assert (small["name"], small["first"], small["min"]) == ("result[1][0]", [2, -4, 6], -4)
    assert (z["shape"], z["first"][0], z["nan_count"], z["min"]) == ("c64[2]", "(1-2j)", 1, None)
    lines = call("run", files["nested"], "--random", 1, "--repeat", 1).stdout.splitlines()
    assert any(line.startswith("result[1][1]   c64[2] ") for line in lines)


def test_random_arguments_depend_on_the_seed():
    from lowering.cli.inputs import arguments_of

    b = xb.XlaBuilder("all")
    kinds = [xb.pred, xb.s2, xb.u4, xb.s64, xb.f8e8m0fnu, xb.f4e2m1fn, xb.bf16, xb.f64, xb.c128]
    for kind in kinds:
        b.parameter(xb.array_shape(kind, [50]))
    computation = b.build(b.constant(0, xb.s32))
    first, second, other = (arguments_of(computation, [], seed) for seed in (4, 4, 5))
    for kind, one, same in zip(kinds, first, second, strict=True):
        assert one.dtype == kind.dtype
        assert one.tobytes() == same.tobytes()
        if kind.is_integral:
            assert 0 <= one.astype(int).min() <= one.astype(int).max() <= min(9, kind.max)
        elif kind is not xb.pred:
            assert np.isfinite(one.astype(np.complex128)).all()
    assert any(a.tobytes() != b.tobytes() for a, b in zip(first, other, strict=True))


def test_dynamic_sizes_require_the_shape_option(tmp_path):
    path = tmp_path / "open.mlir"
    path.write_text(
        "func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {\n"
        "  %y = stablehlo.negate %x : tensor<?x4xf32>\n  return %y : tensor<?x4xf32>\n}"
    )
    fix = "fix: pass --shape arg0=f32[8,4], with the intended sizes"
    for command in ("run", "compare"):
        first, second = call(command, path, "--random", 0, status=1).stderr.splitlines()
        assert first == "xlabuilder: parameter arg0 is f32[?,4]: its sizes are dynamic"
        assert second == fix
    assert call("inspect", path).stdout.splitlines()[-1] == fix
    assert from_json("run", path, "--random", 0, "--shape", "arg0=f32[2,4]")["flops"] == 8
    path.write_text(
        "func.func @main(%x: tensor<1x?x1xf32>, %k: tensor<2x1x1xf32>, %p: tensor<1x2xi32>)\n"
        "    -> tensor<1x?x1xf32> {\n"
        '  %y = "stablehlo.dynamic_conv"(%x, %k, %p) {\n'
        "      dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>,\n"
        "      feature_group_count = 1 : i64, batch_group_count = 1 : i64}\n"
        "      : (tensor<1x?x1xf32>, tensor<2x1x1xf32>, tensor<1x2xi32>) -> tensor<1x?x1xf32>\n"
        "  return %y : tensor<1x?x1xf32>\n}"
    )
    fix = call("run", path, "--random", 0, status=1).stderr.splitlines()[1]
    assert "without unbounded sizes: --shape NAME=SHAPE, for (arg0: f32[1,?,1]" in fix


def test_random_arguments_need_memory(tmp_path):
    path = tmp_path / "huge.mlir"
    path.write_text(
        "func.func @main(%x: tensor<4xf32>, %y: tensor<1000000x1000000xbf16>) -> tensor<4xf32> {\n"
        "  return %x : tensor<4xf32>\n}"
    )
    assert call("run", path, "--random", 0, status=1).stderr == (
        "xlabuilder: parameter arg1 is bf16[1000000,1000000] (1.82 TiB): there is no memory for as "
        "many random numbers\nfix: run a program of smaller arrays, or pass --input arg1=FILE.npy\n"
    )


@pytest.mark.parametrize("handler", [signal.default_int_handler, signal.SIG_IGN])
def test_ended_by_interrupt(handler):
    before = signal.signal(signal.SIGINT, handler)
    try:
        with ended_by_interrupt():
            # A process whose caller ignores the signal, as nohup does, continues to ignore it.
            expected = signal.SIG_IGN if handler is signal.SIG_IGN else signal.SIG_DFL
            assert signal.getsignal(signal.SIGINT) is expected
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_run_with_wrong_arguments(files, tmp_path):
    def refusal(*arguments, status=1):
        message = call("run", files["mlir"], *arguments, status=status).stderr
        assert len(message.splitlines()) <= 2
        return message

    assert refusal() == (
        "xlabuilder: arrays are missing for x: f32[8,4], w: f32[4,3], bias: bf16[3]\n"
        "fix: pass --input x=FILE.npy, or --random SEED\n"
    )
    path, both = tmp_path / "a.npy", tmp_path / "both.npz"
    np.save(path, np.zeros((8, 5), np.float32))
    np.savez(both, a=np.zeros(2), b=np.zeros(2))
    wrong = refusal("--input", f"x={path}", "--random", "0")
    assert "layer: argument 0 (x) must be f32[8,4], got f32[8,5]" in wrong
    assert "no parameter 'y'\nfix: use one of x, w, bias" in refusal("--input", f"y={path}")
    assert "has several arrays: a, b\nfix: select one: x=" in refusal("--input", f"x={both}")
    assert "has no array 'c', only a, b" in refusal("--input", f"x={both}:c")
    assert "no array has the name of a parameter, got a, b" in refusal("--input", str(both))
    assert "expected NAME=FILE" in refusal("--input", str(path), status=2)
    assert "\nfix: pass arrays with --input NAME=FILE" in refusal(str(path), status=2)
    assert "No such file" in refusal("--input", f"x={tmp_path / 'none.npy'}")
    twice = ("--input", f"x={path}", "--input", f"x={both}:a")
    assert f"x has two files: {path} and {both}:a" in refusal(*twice, status=2)
    assert "expected a file after 'x='" in refusal("--input", "x=", status=2)
    path.write_text("hello")
    assert "a.npy: is neither an .npy file nor an .npz file" in refusal("--input", f"x={path}")
    np.save(path, np.zeros(1000))
    path.write_bytes(path.read_bytes()[:100])
    assert "a.npy: is not a NumPy array" in refusal("--input", f"x={path}")
    np.save(path, np.zeros(3, ml_dtypes.int4))
    wrong_size = "bias is bf16[3], with 2 bytes per element, got an array with 1"
    assert wrong_size in refusal("--input", f"bias={path}")
    assert "there is no platform 'abacus' here" in refusal("--random", "0", "--device", "abacus")
    assert "expected an .npz file" in refusal("--random", "0", "--output", "a.npy", status=2)


def test_donated_arguments(tmp_path):
    b = xb.XlaBuilder("step")
    x = b.parameter(xb.f32[4], "x")
    b.setup_alias((), 0)
    lowering.lower(b.build(x + x)).save(tmp_path / "step.mlir")
    np.save(tmp_path / "x.npy", np.arange(4, dtype=np.float32))
    arguments = ["--input", f"x={tmp_path / 'x.npy'}", "--repeat", "3"]
    about = from_json("run", tmp_path / "step.mlir", *arguments)
    # Each call gets the original argument.
    assert about["results"][0]["first"] == [0.0, 2.0, 4.0, 6.0]


# compare, diff


def test_compare_inlines_functions():
    @xb.computation(xb.f32[3])
    def model(x):
        twice = xb.call(lambda v: xb.call(xb.exp, v) + v, x)
        return xb.while_(lambda v: xb.lt(xb.reduce_all(v, 0.0, xb.add), 9.0), xb.abs, twice)

    from lowering.cli.checking import functions_inlined

    computation = functions_inlined(model)
    assert [op.opcode for op in computation.ops] == ["parameter", "exponential", "add", "while"]
    assert computation.program_shape == model.program_shape
    assert computation.stats().flops == model.stats().flops


def test_compare_with_another_program(tmp_path):
    files = []
    for name, function in (("port", xb.sin), ("original", xb.cos)):
        b = xb.XlaBuilder(name)
        files.append(tmp_path / f"{name}.mlir")
        root = function(b.parameter(xb.f32[4], "x")) + 1.0
        lowering.lower(b.build(root)).save(str(files[-1]))
    port, original = files
    random = ("--random", 0)
    same = call("compare", port, "--reference", port, *random).stdout
    assert "the results are equal" in same
    found = call("compare", port, "--reference", original, *random, status=1).stdout
    assert "the first value that is not in original:\n    %1 sine f32[4]" in found
    wrong = call("compare", port, "--reference", "missing.mlir", *random, status=1).stderr
    assert "reference must be 'interpreter', 'f64', a device" in wrong


def test_compare(files, tmp_path):
    output = call("compare", files["mlir"], "--random", 0).stdout
    assert output.startswith("layer on cpu:0 and on StableHLO's reference interpreter:")
    about = from_json("compare", files["mlir"], "--random", "0")
    assert about["agrees"] is True
    assert about["first"] is None


def test_diff(files, tmp_path):
    assert call("diff", files["mlir"], files["stablehlo"]).stdout == "no differences\n"
    assert from_json("diff", files["mlir"], files["mlirbc"])["equal"] is True
    other = tmp_path / "other.mlir"
    other.write_text(files["mlir"].read_text().replace("stablehlo.tanh", "stablehlo.sine"))
    output = call("diff", files["mlir"], other, status=1)
    assert output.stderr == ""
    assert re.search(r"opcode: tanh -> sine", output.stdout)
    assert from_json("diff", files["mlir"], other, status=1)["equal"] is False
    assert "only one of the files" in call("diff", "-", "-", status=2).stderr


def test_diff_shows_the_values_of_constants(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for scale in (2.0, 3.0):
        scaled = xb.computation(xb.f32[4])(lambda x, scale=scale: x * scale)
        lowering.lower(scaled).save(tmp_path / f"{scale}.mlir")
    lines = call("diff", "2.0.mlir", "3.0.mlir", status=1).stdout.splitlines()
    assert re.fullmatch(r"  ~ %\d+ = f32\[\] constant\(2\)  # 2\.0\.mlir:\d+", lines[1])
    assert lines[2:] == ["      value: 2 -> 3"]


# ops, devices


def test_ops():
    rows = json.loads(call("ops", "--json").stdout)
    assert {row["name"] for row in rows} == set(xb.OPERATIONS)
    lines = call("ops").stdout.splitlines()
    assert lines[-1] == f"{len(xb.OPERATIONS)} operations; `xlabuilder ops NAME` documents one"
    assert any(re.fullmatch(r"rev +reverse +Rev +reshaping +Rev \(reverse\)", x) for x in lines)
    for name in ("rev", "xb.rev", "Rev", "reverse", "REVERSE"):
        output = call("ops", name).stdout.splitlines()
        assert output[0] == "xb.rev(operand: XlaOp, dimensions: Sequence[int]) -> XlaOp"
        assert "Args:" in output
        assert "    dimensions: the dimensions to reverse, each once." in output
    assert call("ops", "infeed").stdout.startswith("XlaBuilder.infeed(")
    assert "fix: use a similar name: rev" in call("ops", "revv", status=1).stderr
    assert "a function of builder.lib" in call("ops", "softmax", status=1).stderr
    (row,) = json.loads(call("ops", "abs", "--json").stdout)
    assert row["documentation"].splitlines()[0] == (xb.abs.__doc__ or "").splitlines()[0]
    assert row["stablehlo"] == "stablehlo.abs"
    types = row["element_types"]["operand"]
    assert types == "signed integer, floating-point or complex"
    lines = call("ops", "abs").stdout.splitlines()
    assert f"element types operand: {types}" in lines
    assert "Args:" in lines  # of the package


def test_devices():
    about = from_json("devices")
    assert [one["id"] for one in about["devices"]] == [one.id for one in jax.devices()]
    assert about["devices"][0]["platform"] == jax.devices()[0].platform
    assert about["versions"]["jaxlib"] == importlib.metadata.version("jaxlib")
    assert about["versions"]["StableHLO"] == versions.current_version()
    lines = call("devices").stdout.splitlines()
    assert re.match(r"cpu:1 +\S+ +1 +0 ", lines[3])
    assert lines[-1].startswith("xlabuilder ")
    assert call("--version").stdout.startswith("xlabuilder ")


def test_versions():
    facts = from_json("versions")
    packages = {"jax": "jax", "jaxlib": "jaxlib", "numpy": "numpy", "ml_dtypes": "ml_dtypes"}
    for name, distribution in {"xlabuilder": "xlabuilder", **packages}.items():
        assert facts[name] == importlib.metadata.version(distribution)
    assert facts["Python"] == "{}.{}.{}".format(*sys.version_info)
    assert facts["platform"] == platform.platform()
    devices = jax.devices()
    assert facts["devices"] == [f"{len(devices)} x cpu {devices[0].device_kind}"]
    lines = call("versions").stdout.splitlines()
    assert [line.split(maxsplit=1) for line in lines] == [
        [name, ", ".join(value) if name == "devices" else value] for name, value in facts.items()
    ]


def test_versions_where_no_device_works(monkeypatch):
    def fail(platform=None):
        raise lowering.DeviceError("device: there is no GPU")

    monkeypatch.setattr("lowering.pjrt.devices.devices", fail)
    facts = from_json("versions")
    assert facts["jaxlib"] == importlib.metadata.version("jaxlib")
    assert facts["devices"] == ["device: there is no GPU"]


# Errors


def test_errors_are_short(files, tmp_path):
    missing = tmp_path / "none.mlir"
    assert call("inspect", missing, status=1).stderr == (
        f"xlabuilder: {missing}: can't be read: no such file or directory\n"
        f"fix: check the name and the current folder\n"
    )
    assert "Traceback" in call("inspect", missing, "--traceback", status=1).stderr
    assert "Traceback" in call("--traceback", "inspect", missing, status=1).stderr
    for command in (["inspect"], ["frob"], ["inspect", "a", "--frob"], ["run", "a", "--repeat", 0]):
        message = call(*command, status=2).stderr
        assert len(message.splitlines()) == 2
        assert message.startswith("xlabuilder")
    assert call("--help").stdout.startswith("Usage: xlabuilder [OPTIONS] COMMAND")
    commands = ["inspect", "convert", "run", "compare", "minimize", "test", "diff", "draw"]
    commands += ["ops", "devices", "versions"]
    assert re.findall(r"^  ([a-z]+)  ", call("--help").stdout, re.MULTILINE) == commands
    for name in commands:
        assert "--traceback" in call(name, "--help").stdout


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (KeyboardInterrupt(), 130, "\nxlabuilder: interrupted\n"),
        (
            ZeroDivisionError("no\nmore"),
            1,
            "xlabuilder: ZeroDivisionError: no\n--traceback shows where it was raised.\n",
        ),
        (OSError(28, "No space left on device", "a.npz"), 1, "xlabuilder: a.npz: No space left"),
    ],
)
def test_errors_of_all_kinds(error, status, message):
    @subcommand("fail")
    def fail():
        raise error

    try:
        assert call("fail", status=status).stderr.startswith(message)
    finally:
        del main.commands["fail"]


# Separate processes


def process(*arguments: str, **more) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-W", "error", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )


def test_help_loads_neither_jax_nor_numpy():
    program = (
        "import sys\n"
        "from lowering.cli import main\n"
        "try:\n"
        "    main(['inspect', '--help'])\n"
        "finally:\n"
        "    loaded = {name.partition('.')[0] for name in sys.modules}\n"
        "    assert not loaded & {'jax', 'jaxlib', 'numpy', 'ml_dtypes', 'rich'}, loaded\n"
    )
    done = run_python("-c", program)
    assert done.stderr == ""
    assert done.stdout.startswith("Usage: xlabuilder inspect")


def test_a_closed_pipe():
    # Unbuffered, so that a write fails as soon as the pipe is closed.
    with process(
        "-m", "lowering.cli", "ops", env={**os.environ, "PYTHONUNBUFFERED": "1"}
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline().startswith("name")
        running.stdout.close()
        assert running.stderr is not None
        assert running.stderr.read() == ""


INTERRUPTED = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # the test runner may ignore it
from lowering.cli import inspect, main
inspect.opened = lambda *_: signal.raise_signal(signal.SIGINT)
main(["inspect", "-"])
"""


def test_an_interrupt():
    with process("-c", INTERRUPTED) as running:
        assert running.stderr is not None
        assert running.stderr.read() == "\nxlabuilder: interrupted\n"
    assert running.returncode == 130


def test_color_only_on_a_terminal(monkeypatch, files):
    from lowering.cli import command

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for no_color, expected in (("", True), ("1", False)):
        monkeypatch.setenv("NO_COLOR", no_color)
        monkeypatch.setenv("TERM", "xterm-256color")
        screen = Terminal()
        monkeypatch.setattr(sys, "stdout", screen)
        command.show(layer.stats())
        assert ("\x1b[36m" in screen.getvalue()) is expected
    monkeypatch.setenv("NO_COLOR", "")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    command.show(layer.stats())
    assert "\x1b[36m" in sys.stdout.getvalue()


@each_row(
    "encoding, ruler, name",
    [("utf-8", "─", "\u5f62"), ("cp1252", "-", "\\u5f62"), ("ascii", "-", "\\u5f62")],
)
def test_output_in_other_encodings(encoding: str, ruler: str, name: str) -> None:
    """A table is printed at once, in characters that the output's encoding has."""
    b = xb.XlaBuilder("named")
    module = lowering.lower(b.build(xb.exp(b.parameter(xb.f32[2], "\u5f62"))))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "named.mlirbc")
        module.save(file)
        environment = {**os.environ, "PYTHONIOENCODING": encoding}
        done = subprocess.run(
            [sys.executable, "-m", "lowering.cli", "inspect", str(file)],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            check=True,
        )
    text = done.stdout.decode(encoding)
    assert f"\n{ruler * 20}" in text
    assert f"\n{name} " in text


def test_types_of_ml_dtypes_are_written_and_read(tmp_path):
    b = xb.XlaBuilder("narrow")
    kinds = [xb.f8e5m2, xb.f8e8m0fnu, xb.s4, xb.bf16]
    root = xb.tuple(*[b.parameter(xb.array_shape(kind, [2]), kind.name) for kind in kinds])
    program, out = tmp_path / "narrow.mlir", tmp_path / "out.npz"
    lowering.lower(b.build(root)).save(program)
    call("run", program, "--random", 5, "--output", out)
    with np.load(out) as stored:
        assert [stored[f"result[{i}]"].dtype.str for i in range(4)] == ["|V1", "|V1", "|V1", "|V2"]
        np.savez(
            tmp_path / "in.npz", **{k.name: stored[f"result[{i}]"] for i, k in enumerate(kinds)}
        )
    again = from_json("run", program, "--input", tmp_path / "in.npz")
    assert again["results"] == from_json("run", program, "--random", 5)["results"]
    assert [one["shape"] for one in again["results"]] == [f"{kind.name}[2]" for kind in kinds]


def test_draw(tmp_path):
    b = xb.XlaBuilder("drawn")
    x = b.parameter(xb.f32[4], "x")
    with b.scope("layer"):
        y = xb.exp(x)
    program = tmp_path / "drawn.mlirbc"
    lowering.lower(b.build(xb.neg(y))).save(program)
    svg, dot = tmp_path / "g.svg", tmp_path / "g.dot"
    assert call("draw", program, "-o", svg).stdout == f"{svg}: written\n"
    texts = [element.text for element in ElementTree.parse(svg).iter() if element.text]
    assert {"x", "layer", "exponential", "negate"} <= {*texts}
    call("draw", program, "-o", dot)
    assert dot.read_text().startswith('digraph "drawn" {')
    call("draw", program, "-o", svg, "--scope", "layer")
    assert "negate" not in svg.read_text()
    unknown = call("draw", program, "-o", svg, "--scope", "layers", status=1).stderr
    assert "did you mean 'layer'" in unknown
    refused = call("draw", program, "-o", tmp_path / "g.png", status=2).stderr
    assert "OUT must end in one of .svg, .dot, .gv" in refused
