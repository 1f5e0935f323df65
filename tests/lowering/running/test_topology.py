"""Topologies: programs compiled for devices of other machines, and refused arguments."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import jaxlib
import numpy as np
import pytest
from scripts import load_script
from tables import each_row

import builder as xb
import lowering
from lowering import DeviceError, ModuleFileError, UnloadedExecutable
from lowering.jaxlib_api import compilation

tool = load_script("tools/write_platforms.py")


@xb.computation(xb.f32[128, 128])
def product(x: xb.XlaOp) -> xb.XlaOp:
    return xb.exp(xb.dot(x, x))


@each_row(
    "arguments, more, message",
    [
        (("cpu", "2"), {}, "jaxlib compiles only for the CPU .*\nfix: .*xla_cpu_max_isa"),
        (("abacus", "2"), {}, "there is no compiler for platform 'abacus'\nfix: use one of tpu, g"),
        (("tpu", " "), {}, "name must not be empty, got ' '\nfix: .* such as \"v5e:2x2\""),
        (("gpu", ""), {}, "name must not be empty, got ''\nfix: .*: \"1x1x8\""),
        (("tpu", "v5e:2x2"), {"target_config": "x"}, "a TPU has no target_config"),
        (("gpu", "1x1x8"), {"target_config": "/none/h100"}, "target_config: '/none/h100' can't b"),
        (("gpu", "1x1x8"), {"target_config": 3}, "target_config: 3 can't be read"),
    ],
)
def test_refused(arguments: Any, more: Any, message: str) -> None:
    with pytest.raises(DeviceError, match=f"^topology: {message}"):
        lowering.topology(*arguments, **more)


def test_not_strings() -> None:
    with pytest.raises(xb.OperandError, match="topology: platform must be a string, got None"):
        lowering.topology(None, "v5e:2x2")  # type: ignore[arg-type]  # the wrong type is the test
    with pytest.raises(xb.OperandError, match="topology: name must be a string, got 3"):
        lowering.topology("tpu", 3)  # type: ignore[arg-type]  # the wrong type is the test


@each_row(
    "platform, report, message",
    [
        ("tpu", NotImplementedError("x"), 'not installed, or .*\nfix: pip install "xlabuilder.tpu'),
        ("tpu", ValueError("JAX TPU support not installed;"), "for tpu is not installed\nfix: "),
        (
            "tpu",
            ValueError("INVALID_ARGUMENT: no such TPU"),
            "does not support 'name': no such TPU\nfix: ",
        ),
        (
            "tpu",
            ValueError("run rm /tmp/x_lockfile"),
            "another process .*\nfix: wait until .*MULTIPLE",
        ),
        (
            "gpu",
            ValueError("FAILED: No visible GPU"),
            "this machine has no GPU for .*: No.*\nfix: pass target_",
        ),
    ],
)
def test_errors_of_plugins(
    monkeypatch: pytest.MonkeyPatch, platform: str, report: Exception, message: str
) -> None:
    def refusing(*_: Any) -> Any:
        raise report

    monkeypatch.setattr(compilation, "topology_devices", refusing)
    with pytest.raises(DeviceError, match=message) as caught:
        lowering.topology(platform, "name")
    assert caught.value.detail == str(report)


def test_a_missing_plugin() -> None:
    with pytest.raises((NotImplementedError, ValueError), match="abacus"):
        compilation.topology_devices("abacus", "1x1x1", {})


def test_compiled_programs_are_not_callable() -> None:
    there = lowering.compile(product, "cpu")
    absent = UnloadedExecutable(there._loaded, there._info, there.devices)
    assert absent.hlo_text() == there.hlo_text()
    assert repr(absent) == f"<UnloadedExecutable 'product' {there.program_shape} for 1 'cpu'>"
    with pytest.raises(
        DeviceError, match="product: the executable is compiled for 'cpu', which is not on this"
    ):
        absent(np.eye(128, dtype=np.float32))


def test_local_devices_are_not_a_topology() -> None:
    assert not any(map(compilation.is_absent, lowering.devices("cpu")))


@pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None,
    reason="libtpu, the compiler of TPUs, is not installed",
)
class TestTpu:
    """Compilations by libtpu on a machine without a TPU."""

    @pytest.fixture(autouse=True)
    def allow_several_processes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """By default libtpu allows one process at a time, and the tests run in several."""
        monkeypatch.setenv("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")

    def test_one_device(self, tmp_path: Path) -> None:
        topology = lowering.topology("tpu", "v5e:2x2")
        assert (topology.platform, topology.device_kind) == ("tpu", "TPU v5 lite")
        assert len(topology.devices) == 4
        texts = []
        for options in ({}, {"default_precision": "highest"}):
            executable = lowering.compile(product, topology.devices[1], options=options)
            assert isinstance(executable, UnloadedExecutable)
            assert executable.devices == (topology.devices[1],)
            texts.append(executable.hlo_text())
        # In tiles of 8 rows and 128 columns, the shape of its registers.
        assert "f32[128,128]{1,0:T(8,128)}" in texts[0]
        assert "operand_precision={highest,highest}" not in texts[0]
        assert "operand_precision={highest,highest}" in texts[1]
        assert executable.memory().arguments == executable.memory().results == 128 * 128 * 4
        assert executable.cost()["flops"] >= 2 * 128**3
        with pytest.raises(
            DeviceError, match="which is not on this machine, and can't be called\nfix: save"
        ):
            executable.profile(np.eye(128, dtype=np.float32))
        path = tmp_path / "product"
        executable.save(path)
        for where, message in (
            (
                {"device": topology.devices[0]},
                "can't be loaded for .*, which is a device of a topology",
            ),
            ({"device": "cpu"}, "was compiled for tpu, and cpu:0 is of platform cpu"),
        ):
            with pytest.raises(ModuleFileError, match=message):
                lowering.load_executable(path, **where)
        with pytest.raises(xb.OperandError, match="there is no option xla_tpu_nonsense"):
            lowering.compile(product, topology.devices[0], options={"xla_tpu_nonsense": True})

    def test_several_devices(self) -> None:
        @xb.computation(xb.f32[2])
        def total(x: xb.XlaOp) -> xb.XlaOp:
            return xb.all_reduce(x, xb.add)

        topology = lowering.topology("tpu", "v5e:4x4")
        assert {device.process_index for device in topology.devices} == {0, 1, 2, 3}
        executable = lowering.compile(total, num_replicas=16, devices=topology.devices)
        assert "all-reduce" in executable.hlo_text()
        executable = lowering.compile(total, topology.devices[4], num_replicas=2)
        assert executable.devices == topology.devices[4:6]

    def test_device_put_is_refused(self) -> None:
        (one, *_) = lowering.topology("tpu", "v5e:2x2").devices
        with pytest.raises(
            DeviceError, match=r"belongs to a topology, which only lowering.compile accepts\nfix: "
        ):
            lowering.device_put(np.ones(3), one)

    def test_unknown_names(self) -> None:
        with pytest.raises(DeviceError, match="the compiler for tpu does not support 'v99:2x2': "):
            lowering.topology("tpu", "v99:2x2")

    def test_layouts_without_tiles_get_the_device_s_tiles(self) -> None:
        (one, *_) = lowering.topology("tpu", "v5e:2x2").devices
        b = xb.XlaBuilder("columns")
        x = b.parameter(xb.f32[16, 256].with_layout([0, 1]), "x")
        text = lowering.compile(b.build(xb.exp(x)), one).hlo_text()
        assert "(f32[16,256]{0,1:T(8,128)})->" in text

    def test_shardings_are_ignored_on_one_device(self) -> None:
        """The layout of a shard would have tiles of one row."""
        (one, *_) = lowering.topology("tpu", "v5e:2x2").devices
        for rows in ("{devices=[2,1]<=[2]}", xb.Mesh({"data": 2}).sharding("data", None)):
            b = xb.XlaBuilder("sharded")
            x = xb.with_sharding(xb.exp(b.parameter(xb.f32[2, 3], "x", sharding=rows)), rows)
            text = lowering.compile(b.build(x), one).hlo_text()
            assert "{(f32[2,3]{1,0:T(2,128)})->f32[2,3]{1,0:T(2,128)}}" in text

    def test_unsupported_operations_are_rewritten_or_refused(self) -> None:
        devices = lowering.topology("tpu", "v5e:2x2").devices

        def of(function: Any, *shapes: Any) -> xb.XlaComputation:
            b = xb.XlaBuilder("lacking")
            return b.build(function(*(b.parameter(shape) for shape in shapes)))

        reduced = of(lambda x: xb.reduce_scatter(x, xb.add, 0, 4), xb.f64[8])
        lowering.compile(reduced, num_replicas=4, devices=devices)
        for function, shapes, message in (
            (lambda x: xb.dot(x, x), [xb.s64[4, 4]], "64-bit integers in dot products"),
            (lambda x: xb.fft(x, "FFT", [4]), [xb.c128[4]], "of f32 and c64 only"),
            (lambda x: xb.rev(x, [0]), [xb.s2[4]], "supports elements of two bits in few shapes"),
            (lambda x: xb.reduce_precision(x, 5, 9), [xb.f64[4]], "does not support it for f64"),
        ):
            with pytest.raises(lowering.CompileError, match=f"{message}.*\nfix: "):
                lowering.compile(of(function, *shapes), devices[0])

    def test_every_example_is_compiled_or_refused(self) -> None:
        """The programs are compiled in another process, as XLA may crash."""
        slow = {
            "conv_with_general_padding",
            "conv_with_general_dimensions",
        }  # these take half of the time
        recorded = tool.record()["compiled tpu"]
        recorded = recorded.get(jaxlib.__version__, recorded[max(recorded)])
        actual = tool.measure("compiled tpu", without=slow)
        assert actual == {name: recorded[name] for name in actual}
        assert len(actual) == len(xb.OPERATIONS) - len(slow)
