"""The compilation cache: hits, misses, and the files in its folder."""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import run_python
from tables import each_row

import builder as xb
import lowering
from lowering import ModuleFileError
from lowering.jaxlib_api import compilation
from lowering.running import compilation_cache

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def adding(number: float = 1.0, name: str = "adding") -> xb.XlaComputation:
    b = xb.XlaBuilder(name)
    x = b.parameter(xb.f32[2, 3], "x")
    return b.build(x + number)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    lowering.use_compilation_cache(tmp_path / "cache")
    yield tmp_path / "cache"
    lowering.use_compilation_cache(None)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Record the calls of XLA's compiler."""
    results: list[Any] = []
    original = compilation.compile_and_load
    compilation.host_cpu_features()  # compiles a program once

    def compile_and_load(devices: Any, code: bytes, **more: Any) -> Any:
        results.append(code)
        return original(devices, code, **more)

    monkeypatch.setattr(compilation, "compile_and_load", compile_and_load)
    return results


class TestKeys:
    def test_an_equal_program_is_found(self, folder: Path, compiled: list[Any]) -> None:
        first = lowering.compile(adding(), "cpu")
        b = xb.XlaBuilder("adding")
        x = b.parameter(xb.f32[2, 3], "x")
        elsewhere = b.build(x + 1.0)  # on another line
        assert lowering.lower(elsewhere).bytecode != lowering.lower(adding()).bytecode
        again = lowering.compile(elsewhere, "cpu")
        assert len(compiled) == 1
        assert np.array_equal(again(x=X), X + 1)
        assert np.array_equal(first(x=X), X + 1)
        assert again.hlo_text() == first.hlo_text()
        (entry,) = folder.iterdir()
        with pytest.raises(ModuleFileError, match="is an entry of the compilation cache"):
            lowering.load_executable(entry)

    def test_replicas_layouts_and_donation(self, folder: Path, compiled: list[Any]) -> None:
        b = xb.XlaBuilder("several")
        state = b.parameter(xb.parse_shape("f32[2,3]{0,1}"), "state")
        b.setup_alias([], 0)
        computation = b.build(xb.all_reduce(state, xb.add) + 1.0)
        for _ in range(2):
            run = lowering.compile(computation, "cpu", num_replicas=2)
            for result in run(np.stack([X, X])):
                assert np.array_equal(result, X + X + 1)
        assert len(compiled) == 1
        alone = lowering.compile(adding(), "cpu", donate=["x"])
        again = lowering.compile(adding(), "cpu", donate=["x"])
        assert len(compiled) == 2
        for executable in (alone, again):
            array = lowering.device_put(X, executable.device)
            assert np.array_equal(executable(array), X + 1)
            assert array.is_deleted()

    def test_different_programs_are_not_found(self, folder: Path, compiled: list[Any]) -> None:
        ways: list[dict[str, Any]] = [
            {},
            {"device": "cpu:1"},
            {"num_replicas": 2},
            {"donate": ["x"]},
            {"options": {"optimization_level": 0}},
            {"options": {"xla_cpu_enable_fast_math": True}},
        ]
        for _ in range(2):
            for way in ways:
                run = lowering.compile(adding(), **{"device": "cpu", **way})
                assert np.array_equal(np.ravel(np.asarray(run(X)))[:6], X.ravel() + 1)
        lowering.compile(adding(2.0), "cpu")
        lowering.compile(adding(name="other"), "cpu")
        assert len(compiled) == len(ways) + 2 == len(list(folder.iterdir()))

    def test_programs_that_are_never_cached(self, folder: Path, compiled: list[Any]) -> None:
        @xb.computation(xb.f32[2, 3])
        def calling(x: xb.XlaOp) -> xb.XlaOp:
            return xb.python_call(np.negative, [x], xb.f32[2, 3])

        dumps = folder.with_name("dumps")
        for _ in range(2):
            assert np.array_equal(lowering.compile(calling, "cpu")(X), -X)
            lowering.compile(adding(), "cpu", options={"xla_dump_to": str(dumps)})
        assert len(compiled) == 4
        assert not folder.exists()
        assert any(dumps.iterdir())

    def test_errors_are_the_same_as_without_a_cache(self, folder: Path) -> None:
        with pytest.raises(xb.OperandError, match="there is no option xla_nonsense"):
            lowering.compile(adding(), "cpu", options={"xla_nonsense": 1})
        b = xb.XlaBuilder("calling")
        calling = b.build(b.custom_call("test.missing", xb.f32[2]))
        with pytest.raises(lowering.CompileError, match="no function of that name is registered"):
            lowering.compile(calling, "cpu")
        assert not folder.exists()


class TestFolder:
    def test_unreadable_entries_are_replaced(self, folder: Path, compiled: list[Any]) -> None:
        lowering.compile(adding(), "cpu")
        (entry,) = folder.iterdir()
        whole = entry.read_bytes()
        lowering.compile(adding(2.0), "cpu")
        (other,) = set(folder.iterdir()) - {entry}
        damaged = bytearray(whole)
        damaged[-40] ^= 1
        # The last file is valid, but of another program.
        for content in (whole[:-1], bytes(damaged), b"", b"garbage" * 99, other.read_bytes()):
            entry.write_bytes(content)
            before = len(compiled)
            assert np.array_equal(lowering.compile(adding(), "cpu")(X), X + 1)
            assert len(compiled) == before + 1
            assert np.array_equal(lowering.compile(adding(), "cpu")(X), X + 1)
            assert len(compiled) == before + 1

    def test_entries_that_the_runtime_refuses_are_replaced(
        self, folder: Path, compiled: list[Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(compilation, "serialized", lambda _: b"no executable")
        lowering.compile(adding(), "cpu")
        monkeypatch.undo()
        lowering.use_compilation_cache(folder)
        assert np.array_equal(lowering.compile(adding(), "cpu")(X), X + 1)
        (entry,) = folder.iterdir()
        assert b"no executable" not in entry.read_bytes()

    def test_least_recently_used_entries_are_deleted(
        self, folder: Path, compiled: list[Any]
    ) -> None:
        for number in (1, 2, 3):
            lowering.compile(adding(number), "cpu")
        assert len(compiled) == 3
        size = max(one.stat().st_size for one in folder.iterdir())
        for age, one in enumerate(sorted(folder.iterdir(), key=lambda p: p.stat().st_mtime_ns)):
            os.utime(one, (time.time() - 100 + age,) * 2)
        lowering.compile(adding(1), "cpu")  # used again
        lowering.use_compilation_cache(folder, max_bytes=3 * size + size // 2)
        left = folder / ".left.executable.0123.tmp"
        left.write_bytes(b"half")
        os.utime(left, (1, 1))
        lowering.compile(adding(4), "cpu")
        assert len(list(folder.iterdir())) == 3
        for number in (1, 3, 4):
            lowering.compile(adding(number), "cpu")
        assert len(compiled) == 4
        lowering.compile(adding(2), "cpu")
        assert len(compiled) == 5
        lowering.use_compilation_cache(folder, max_bytes=10)
        lowering.compile(adding(5), "cpu")
        assert len(list(folder.iterdir())) == 3  # an entry that is too large is not written

    def test_an_unusable_folder(self, tmp_path: Path, compiled: list[Any]) -> None:
        (tmp_path / "file").write_bytes(b"")
        lowering.use_compilation_cache(tmp_path / "file" / "cache")
        try:
            with pytest.warns(
                RuntimeWarning, match="can't be used, so programs are .*: Not a direc"
            ) as caught:
                assert np.array_equal(lowering.compile(adding(), "cpu")(X), X + 1)
            assert caught[0].filename == __file__
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                assert np.array_equal(lowering.compile(adding(), "cpu")(X), X + 1)
        finally:
            lowering.use_compilation_cache(None)
        assert len(compiled) == 2

    def test_a_full_disk(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(*_: Any, **__: Any) -> None:
            raise ModuleFileError("entry: can't be written: the disk is full\nfix: make room")

        monkeypatch.setattr(compilation_cache, "write_atomically", full)
        with pytest.warns(RuntimeWarning, match="each time: entry: can't be written: the disk is"):
            assert np.array_equal(lowering.compile(adding(), "cpu")(X), X + 1)

    def test_threads(self, folder: Path) -> None:
        """All threads write, read and delete the same three entries; only two fit."""
        computations = [adding(number) for number in (1.0, 2.0, 3.0)]
        lowering.compile(computations[0], "cpu")
        (entry,) = folder.iterdir()
        lowering.use_compilation_cache(folder, max_bytes=int(entry.stat().st_size * 2.5))
        wrong: list[Any] = []

        def work(begin: int) -> None:
            try:
                for turn in range(3):
                    number = (begin + turn) % 3
                    result = lowering.compile(computations[number], "cpu")(X)
                    assert np.array_equal(result, X + number + 1)
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert not wrong
        assert len(list(folder.iterdir())) <= 2


class TestArguments:
    @each_row(
        "arguments, more, message",
        [
            ((3,), {}, "a path must be a string or a pathlib.Path, got int"),
            (("",), {}, "folder must be the path of a folder, got ''\nfix: pass None for no cache"),
            (("a\0b",), {}, "folder must be the path of a folder, got"),
            (("a",), {"max_bytes": -1}, "max_bytes must be an integer, 0 or more, or None"),
            (("a",), {"max_bytes": True}, "max_bytes must be an integer"),
            (("a",), {"max_bytes": "1G"}, "max_bytes must be an integer.* got '1G'\nfix: "),
        ],
    )
    def test_refused(self, arguments: Any, more: Any, message: str) -> None:
        with pytest.raises(xb.OperandError, match=message):
            lowering.use_compilation_cache(*arguments, **more)

    def test_any_size(self, tmp_path: Path, compiled: list[Any]) -> None:
        lowering.use_compilation_cache(str(tmp_path), max_bytes=None)
        try:
            for _ in range(2):
                lowering.compile(adding(), "cpu")
        finally:
            lowering.use_compilation_cache(None)
        assert len(compiled) == 1


CHILD = """
import jax
import numpy as np
import builder as xb, lowering
from lowering.jaxlib_api import compilation
compilation.host_cpu_features()
def compile_and_load(*_, **__):
    raise SystemExit("compiled")
compilation.compile_and_load = compile_and_load
b = xb.XlaBuilder("adding")
x = b.parameter(xb.f32[2, 3], "x")
print(np.asarray(lowering.compile(b.build(x + 1.0), "cpu")(np.zeros((2, 3), np.float32))).sum())
"""


@pytest.mark.slow
def test_another_process_uses_the_folder_of_the_environment(folder: Path) -> None:
    lowering.compile(adding(), "cpu")
    done = run_python("-c", CHILD, env={compilation_cache.VARIABLE: str(folder)})
    assert done.stdout == "6.0\n"
