"""Executables in files: round trips, and refused files."""

from __future__ import annotations

import ctypes
import dataclasses
import hashlib
import json
import os
import signal
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from processes import run_python

import builder as xb
import lowering
from lowering import DeviceError, ModuleFileError
from lowering.host.custom_calls import unregistered
from lowering.jaxlib_api import compilation, jax_arrays, versions
from lowering.running.executable_file import packed, save_executable, unpacked
from lowering.running.program import ProgramInfo

MAGIC = b"\x89XLAEXE\n"


@xb.computation(xb.f32[2, 3])
def twice(x: xb.XlaOp) -> xb.XlaOp:
    return x + x


X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("saved") / "twice"
    lowering.compile(twice, "cpu").save(path)
    return path.read_bytes()


def through_a_file(executable: Any, folder: Path, *where: Any, **more: Any) -> Any:
    path = folder / "program.executable"
    executable.save(path)
    assert [one.name for one in folder.iterdir()] == [path.name]
    again = lowering.load_executable(path, *where, **more)
    assert type(again) is type(executable)
    assert again.program_shape == executable.program_shape
    assert again.name == executable.name
    return again


class TestRoundTrip:
    def test_kinds_of_arguments_and_results(self, tmp_path: Path) -> None:
        b = xb.XlaBuilder("mixed")
        state = b.parameter([xb.f64[2], [xb.bf16[3], xb.u64[()]]], "state")
        turned = b.parameter(xb.parse_shape("f32[2,3]{0,1}"), "turned")
        b.setup_alias([0], 0, [0])
        root = xb.tuple(state[0] * 3.0, xb.tuple(turned, state[1]))
        executable = lowering.compile(b.build(root), "cpu")
        again = through_a_file(executable, tmp_path)
        assert str(again.program_shape) == str(executable.program_shape)
        assert "turned: f32[2,3]{0,1}" in str(again.program_shape)
        narrow = np.array([1, 2.5, -3], ml_dtypes.bfloat16)

        def given(array: Any) -> Any:
            return {"turned": X, "state": (array, (narrow, np.uint64(2**63)))}

        first = lowering.device_put(np.array([0.1, 2]))
        (tripled, (same, (small, large))) = again(**given(first))
        assert np.array_equal(tripled, np.array([0.1, 2]) * 3)
        assert tripled.dtype == np.float64
        assert np.array_equal(same, X)
        assert np.array_equal(small, narrow)
        assert int(large) == 2**63
        assert first.is_deleted()  # it was donated
        with pytest.raises(lowering.ArgumentError, match="has been deleted"):
            again(**given(first))
        with pytest.raises(lowering.ArgumentError, match=r"must be f32\[2,3\]\{0,1\}, got s32"):
            again((np.zeros(2), (narrow, np.uint64(1))), X.astype(np.int32))
        assert again.hlo_text() == executable.hlo_text()

    def test_bounded_sizes(self, tmp_path: Path) -> None:
        @xb.computation(xb.parse_shape("f32[<=5]"))
        def negated(x: xb.XlaOp) -> xb.XlaOp:
            return -x

        again = through_a_file(lowering.compile(negated, "cpu"), tmp_path)
        assert np.array_equal(again(np.float32([1, 2, 3])), np.float32([-1, -2, -3]))

    def test_on_another_device(self, tmp_path: Path) -> None:
        devices = lowering.devices("cpu")
        again = through_a_file(lowering.compile(twice, "cpu:1"), tmp_path, devices[3])
        result = again(X)
        assert result.devices() == {devices[3]}
        assert np.array_equal(result, X + X)
        path = tmp_path / "program.executable"
        assert lowering.load_executable(str(path)).device == devices[0]

    def test_replicas(self, tmp_path: Path) -> None:
        @xb.computation(xb.f32[2])
        def total(x: xb.XlaOp) -> xb.XlaOp:
            return xb.all_reduce(x, xb.add)

        devices = lowering.devices("cpu")[2:0:-1]
        executable = lowering.compile(total, "cpu", num_replicas=2)
        rows = np.float32([[1, 2], [3, 4.5]])
        again = through_a_file(executable, tmp_path, devices=devices)
        assert again.devices == devices
        for result, device in zip(again(rows), devices, strict=True):
            assert np.array_equal(result, rows.sum(0))
            assert result.devices() == {device}
        path = tmp_path / "program.executable"
        with pytest.raises(DeviceError, match=r"num_replicas=2 and .* got 1 in"):
            lowering.load_executable(path, devices=devices[:1])
        with pytest.raises(DeviceError, match=r"^load_executable: device and devices must"):
            lowering.load_executable(path, "cpu", devices=devices)

    @pytest.mark.parametrize("is_shardy", [False, True])
    def test_partitions(self, tmp_path: Path, is_shardy: bool) -> None:
        mesh, sharding = "", 'mhlo.sharding = "{devices=[2,1]<=[2]}"'
        if is_shardy:
            mesh = 'sdy.mesh @mesh = <["rows"=2]>'
            sharding = 'sdy.sharding = #sdy.sharding<@mesh, [{"rows"}, {}]>'
        module = lowering.load_bytes(f"""module {{ {mesh}
        func.func @main(%x: tensor<2x3xf32> {{{sharding}}}) -> tensor<2x3xf32> {{
          %0 = stablehlo.add %x, %x : tensor<2x3xf32>
          return %0 : tensor<2x3xf32>
        }} }}""")
        executable = lowering.compile(module, "cpu", num_partitions=2)
        again = through_a_file(executable, tmp_path)
        result = again(X)
        assert result.sharding == executable(X).sharding
        assert np.array_equal(result, X + X)

    def test_every_field_is_saved(self) -> None:
        """Every new field of ProgramInfo must be written to files."""
        names = {field.name for field in dataclasses.fields(ProgramInfo)}
        executable = lowering.compile(twice, "cpu")
        content = unpacked(b"".join(packed(executable._info, executable.devices, b"")))
        written = content.header["program"].keys()
        of_this_process = {"callbacks", "compile_seconds"}
        assert names - {"shape", "layouts"} - of_this_process == written - {
            *("parameters", "parameter_names", "result"),  # the shape
            "has_layouts",  # read from the executable itself
        }


def refused(path: Path, content: bytes, message: str) -> None:
    path.write_bytes(content)
    with pytest.raises(ModuleFileError, match=message) as caught:
        lowering.load_executable(path)
    assert caught.value.path == str(path)
    assert "fix: " in str(caught.value)


def forged(saved: bytes, **changes: Any) -> bytes:
    """Return the file with changed fields in its header and a valid checksum."""
    _, version, length, _ = struct.unpack_from("<8sII32s", saved)
    header = json.loads(saved[48 : 48 + length])
    assert changes.keys() <= header.keys()
    head = json.dumps(header | changes).encode()
    rest = head + saved[48 + length :]
    prefix = struct.pack("<8sII", MAGIC, version, len(head))
    return prefix + hashlib.blake2b(prefix + rest, digest_size=32).digest() + rest


class TestRefusedFiles:
    def test_other_files(self, tmp_path: Path, saved: bytes) -> None:
        path = tmp_path / "file"
        module = lowering.lower(twice)
        for content, message in (
            (b"", "is not an executable, but empty"),
            (b"hello", "is not an executable\nfix: pass a file that executable.save"),
            (b"PK\x03\x04" + bytes(40), "is not an executable, but a zip archive"),
            (
                module.bytecode,
                r"contains a module.*\nfix: call lowering.compile\(lowering.load\(path\)\)",
            ),
            (module.artifact(), "contains a module, which is not compiled yet"),
            (module.text.encode(), "is not an executable"),
            (saved.replace(b"\n", b"\r\n"), "is not an executable"),
            (MAGIC, "is truncated: it has 8 bytes"),
            (MAGIC + b"\2" + saved[9:], "is of format 2, but this version .* reads format 1"),
        ):
            refused(path, content, message)
        path.write_bytes(saved)
        with pytest.raises(ModuleFileError, match=r"executable\nfix: use lowering.load_executable"):
            lowering.load(path)

    def test_damaged(self, tmp_path: Path, saved: bytes) -> None:
        path = tmp_path / "file"
        random = np.random.default_rng(3)
        for place in [*range(48), *random.integers(48, len(saved), 60)]:
            content = bytearray(saved)
            content[place] ^= 1 << int(random.integers(8))
            refused(path, content, "is not an executable|is of format|is truncated or damaged")
        for length in [*range(0, 60, 7), *random.integers(60, len(saved), 20)]:
            refused(path, saved[:length], "is not an executable|is truncated")
        refused(path, saved + b"\0", "is truncated or damaged: its checksum does not match")

    def test_files_of_other_machines_and_versions(
        self, tmp_path: Path, saved: bytes, monkeypatch: Any
    ) -> None:
        path = tmp_path / "file"
        version = versions.jaxlib_version()
        for changes, message in (
            (
                {"jaxlib": "0.9.0"},
                f"compiled with jaxlib 0.9.0, but jaxlib {version} is installed\nfix",
            ),
            ({"platform": "tpu"}, "was compiled for tpu, which is not available here"),
            ({"device_kind": "abacus"}, "was compiled for 'abacus', and cpu:0 is 'cpu'"),
            ({"platform_version": "cuda 1"}, "another version of cpu's software: 'cuda 1', inst"),
            (
                {"cpu_features": ["avx9", "sse2"]},
                "for a CPU that has avx9, which this CPU does not have",
            ),
            ({"payload_bytes": 3}, "has a header that can't be read"),
            ({"program": {}}, "has a header that can't be read"),
            ({"program": None}, "is an entry of the compilation cache"),
        ):
            refused(path, forged(saved, **changes), message)
        # A field has another type, or is missing.
        header = unpacked(saved).header
        wrong: list[dict[str, Any]] = [
            {"platform_version": 3},
            {"cpu_features": 3},
            {"cpu_features": [3]},
            *[
                {"program": header["program"] | one}
                for one in ({"name": 3}, {"num_replicas": "1"}, {"num_partitions": 0})
            ],
            {"program": {k: v for k, v in header["program"].items() if k != "has_layouts"}},
        ]
        for changes in wrong:
            refused(path, forged(saved, **changes), "has a header that can't be read\nfix: ")
        path.write_bytes(forged(saved, platform="gpu"))
        with pytest.raises(ModuleFileError, match="compiled for gpu, and cpu:1 is of platform cpu"):
            lowering.load_executable(path, "cpu:1")
        path.write_bytes(forged(saved))
        assert np.array_equal(lowering.load_executable(path)(X), X + X)
        # A CPU without a required feature.
        monkeypatch.setattr(compilation, "host_cpu_features", lambda: ("sse2",))
        refused(
            path, saved, "was compiled for a CPU that has .*, which this CPU does not have\nfix:"
        )

    def test_cpu_features_after_large_constants(self, saved: bytes) -> None:
        features = compilation.cpu_features(saved)
        assert features
        assert features == compilation.host_cpu_features()
        # A run of dashes must not be searched from each dash: a megabyte would take hours.
        for text in (b"-" * (1 << 20), b"-a" * (1 << 19), b"+a," * 5, b",+a" * 5 + b","):
            assert compilation.cpu_features(text + b"\0" + saved) == features

    def test_files_that_the_runtime_refuses(self, tmp_path: Path) -> None:
        executable = lowering.compile(twice, "cpu")
        content = b"".join(packed(executable._info, executable.devices, b"no executable"))
        refused(tmp_path / "file", content, "is refused by cpu's runtime: ")

    def test_paths(self, tmp_path: Path) -> None:
        for path, message in (
            (tmp_path / "missing", "no such file or directory\nfix: check the name"),
            (tmp_path, "it is a folder"),
            (Path(os.devnull), "it is not a regular file"),
        ):
            with pytest.raises(ModuleFileError, match=message):
                lowering.load_executable(path)
        executable = lowering.compile(twice, "cpu")
        with pytest.raises(ModuleFileError, match=r"there is no folder .*\nfix: create it"):
            executable.save(tmp_path / "none" / "file")
        for call in (lowering.load_executable, executable.save):
            with pytest.raises(xb.OperandError, match="a path must be a string or a pathlib"):
                call(3)  # type: ignore[operator]  # the wrong type is the test


class TestRefusedPrograms:
    def test_python_functions(self, tmp_path: Path) -> None:
        @xb.computation(xb.f32[2])
        def calling(x: xb.XlaOp) -> xb.XlaOp:
            return xb.python_call(np.negative, [x], xb.f32[2])

        executable = lowering.compile(calling, "cpu")
        with pytest.raises(ModuleFileError, match="calling calls Python functions") as caught:
            executable.save(tmp_path / "file")
        assert caught.value.op == "save"
        assert not list(tmp_path.iterdir())

    def test_programs_with_agreement_checks(self, tmp_path: Path) -> None:
        @xb.computation(xb.f32[2], xb.pred[()])
        def perhaps(x: xb.XlaOp, chosen: xb.XlaOp) -> xb.XlaOp:
            return xb.conditional(chosen, x, lambda y: xb.all_reduce(y, xb.add), x, lambda y: y)

        executable = lowering.compile(perhaps, "cpu", num_replicas=2)
        with pytest.raises(ModuleFileError, match=r"contains a collective inside (if|case);"):
            executable.save(tmp_path / "file")

    def test_devices_of_other_processes(self, tmp_path: Path, monkeypatch: Any) -> None:
        executable = lowering.compile(twice, "cpu")
        monkeypatch.setattr("lowering.running.executable_file.is_local", lambda _: False)
        with pytest.raises(ModuleFileError, match="runs on devices of several processes"):
            executable.save(tmp_path / "file")

    def test_unreported_layouts(self, tmp_path: Path, monkeypatch: Any) -> None:
        executable = lowering.compile(twice, "cpu")
        info = dataclasses.replace(executable._info, layouts=[])
        monkeypatch.setattr(jax_arrays, "parameter_layouts", lambda _: None)
        with pytest.raises(ModuleFileError, match="has both tokens and arrays with layouts"):
            save_executable(tmp_path / "file", executable._loaded, info, executable.devices)


CHILD = """
import os, signal, sys
import jax
jax.config.update("jax_platforms", "cpu")
import numpy as np
import lowering
run = lowering.load_executable(sys.argv[1])
print(np.asarray(run(np.arange(6, dtype=np.float32).reshape(2, 3))).tolist())
try:
    lowering.load_executable(sys.argv[2])
except lowering.CompileError as error:
    print(error.op, str(error).splitlines()[0])
write = os.write
def partly(descriptor, content):
    write(descriptor, bytes(content[: len(content) // 2]))
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)
os.write = partly
run.save(sys.argv[1])
"""


LOAD_AND_CALL = """\
import sys
import numpy as np
import lowering
print(np.asarray(lowering.load_executable(sys.argv[1])(np.float32([1, 2]))).tolist())
unused = ("lowering.legalize", "lowering.ops")
print(sorted(name for name in sys.modules if name.startswith(unused)))
"""


def test_a_start_imports_no_rewrites(tmp_path: Path) -> None:
    """Nothing that only lowering and compiling need, which would lengthen the start."""
    path = tmp_path / "double.executable"
    b = xb.XlaBuilder("double")
    x = b.parameter(xb.f32[2], "x")
    lowering.compile(b.build(x + x), "cpu").save(path)
    done = run_python("-c", LOAD_AND_CALL, str(path))
    assert done.stdout.splitlines() == ["[2.0, 4.0]", "[]"]


def test_another_process_loads_it_and_is_killed_while_it_saves(tmp_path: Path) -> None:
    calling = tmp_path / "calling"

    @ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_int32), ctypes.c_void_p)
    def seven(out: Any, _: Any) -> None:
        out[0] = 7

    lowering.register_custom_call_target("test.seven", seven)
    b = xb.XlaBuilder("calling")
    root = b.custom_call("test.seven", xb.s32[()], has_side_effect=True)
    lowering.compile(b.build(root), "cpu").save(calling)
    assert int(lowering.load_executable(calling)()) == 7
    path = tmp_path / "twice"
    lowering.compile(twice, "cpu").save(path)
    before = path.read_bytes()
    done = run_python("-c", CHILD, str(path), str(calling), status=-signal.SIGKILL)
    numbers, error = done.stdout.splitlines()
    assert json.loads(numbers) == (X + X).tolist()
    assert error.startswith(
        "custom_call load_executable: calling contains a custom call of 'test.seven', and no "
        "function of that name is registered for cpu"
    )
    assert path.read_bytes() == before
    # The temporary file is beside it, under another name.
    (left,) = set(tmp_path.iterdir()) - {path, calling}
    assert left.name.startswith(".twice.")
    assert left.stat().st_size < len(before)


def test_reports_of_targets_that_are_not_registered() -> None:
    typed = "NOT_FOUND: No FFI handler registered for scale on a platform Host (canonical host)"
    assert unregistered(typed) == "scale"
    assert unregistered("INTERNAL: something else") is None
