"""Large files are refused by their first bytes; files that change while being read are refused."""

import os
import re
import resource
from pathlib import Path

import pytest
from tables import each_row

import lowering
from lowering import ModuleFileError
from lowering.jaxlib_api.mlir import BYTECODE_MAGIC
from lowering.reading.file_kind import reject_by_prefix
from lowering.stablehlo import sources

MAIN = "func.func @main(%x: tensor<f32>) -> tensor<f32> {\n  return %x : tensor<f32>\n}\n"
SIZE = 3 << 30


def refused(path):
    with pytest.raises(ModuleFileError) as caught:
        lowering.load(path)
    assert caught.value.path == str(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    return message.removeprefix(f"{path}: ")


@each_row(
    "beginning, message",
    [
        (b"", "is not StableHLO text, MLIR bytecode or a portable artifact: byte 0 is zero\nfix: "),
        (
            b"module {\n" * 1000,
            "is not StableHLO text, MLIR bytecode or a portable artifact: byte 9",
        ),
        (
            BYTECODE_MAGIC,
            f"is truncated or damaged: its {SIZE} bytes of bytecode are inconsistent\n",
        ),
        (
            b"\x1f\x8b\x08",
            "portable artifact: byte 1 (0x8b) is not text; it seems to be a gzip file",
        ),
        (
            b"hello world\n" * 10000,
            "line 1, column 1: not StableHLO: no operation begins with 'hel",
        ),
        (
            b"\n// by\n\n " + b"12,7 " * 20000,
            "line 4, column 2: not StableHLO: no operation begins",
        ),
        (
            b"x = 1" * 20000,
            "line 1, column 1: not StableHLO: no operation begins with 'x'\nfix: pass",
        ),
        ("\u20ac".encode() * 30000, "line 1, column 1: not StableHLO: no operation begins with"),
    ],
)
def test_a_large_file_is_refused_by_its_beginning(tmp_path, beginning, message):
    path = tmp_path / "large.mlir"
    with path.open("wb") as file:
        file.write(beginning)
        file.truncate(SIZE)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert message in refused(path)
    # In KB: only the beginning of the file was in memory.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


@each_row(
    "beginning, message",
    [
        (b"", "is not HLO text, nor a protocol buffer of HLO: byte 0 is zero"),
        (b"HloModule m\n", "is not HLO text, nor a protocol buffer of HLO: byte 12 is zero"),
        (BYTECODE_MAGIC, "is StableHLO, not HLO\nfix: call lowering.to_computation"),
        (MAIN.encode() * 1000, "is StableHLO, not HLO\nfix: "),
    ],
)
def test_a_large_file_that_is_not_hlo_is_refused_by_its_beginning(tmp_path, beginning, message):
    path = tmp_path / "large.hlo"
    with path.open("wb") as file:
        file.write(beginning)
        file.truncate(SIZE)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ModuleFileError, match=re.escape(message)) as caught:
        lowering.from_hlo(path)
    assert caught.value.path == str(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


@each_row("padding", ["// a comment\n", "\n", "// \u20ac\n"])
def test_large_files_that_are_modules_are_read(tmp_path, padding):
    text = padding * 150_000
    path = tmp_path / "large.mlir"
    path.write_text(text + MAIN)
    assert len(text) > 100_000
    assert lowering.load(path).name == "main"
    bytecode = lowering.load_bytes(MAIN).bytecode
    path.write_bytes(bytecode)
    assert lowering.load(path).name == "main"


def test_a_large_exported_is_accepted(tmp_path):
    """The module is the last field, possibly after zeros."""
    sound = Path(__file__).parent.with_name("importer") / "distances.jax_export"
    path = tmp_path / "large.jax_export"
    path.write_bytes(sound.read_bytes() + bytes(2 << 20))
    with path.open("rb") as file:
        reject_by_prefix(file, path.stat().st_size, "it")
        assert file.read() == path.read_bytes()
    path.write_bytes(bytes(2 << 20))
    with path.open("rb") as file, pytest.raises(ModuleFileError, match=r"^it: is not StableHLO"):
        reject_by_prefix(file, path.stat().st_size, "it")


def test_a_file_that_changes_while_it_is_read(tmp_path, monkeypatch):
    path = tmp_path / "growing.mlir"
    path.write_text(MAIN)
    check = sources.reject_by_prefix

    def check_and_write(*arguments):
        check(*arguments)
        with path.open("a") as file:
            file.write("// more\n")

    monkeypatch.setattr(sources, "reject_by_prefix", check_and_write)
    assert refused(path) == (
        "can't be read: it changed while it was read\nfix: read it again when complete"
    )


def test_devices_and_folders_are_refused(tmp_path):
    assert refused(Path("/dev/zero")) == (
        "can't be read: it is not a regular file\nfix: copy it into a regular file"
    )
    (tmp_path / "saved_model.pb").write_bytes(b"")
    assert refused(tmp_path) == (
        "can't be read: it is a folder\n"
        "fix: this is a TensorFlow SavedModel: export StableHLO with the program that wrote it"
    )


def test_a_file_that_becomes_a_pipe_is_refused_without_waiting(tmp_path, monkeypatch):
    path = tmp_path / "pipe.mlir"
    path.write_text(MAIN)
    real = os.open

    def replaced_by_a_pipe(name, flags, *more):
        path.unlink()
        os.mkfifo(path)
        return real(name, flags, *more)

    monkeypatch.setattr(os, "open", replaced_by_a_pipe)
    assert "it is not a regular file" in refused(path)


def test_a_file_with_a_size_of_0_and_content():
    """Files in /proc have a size of 0."""
    assert refused(Path("/proc/self/status")).startswith("line 1, column ")


def test_file_names_with_newlines_are_quoted(tmp_path):
    path = tmp_path / "a\nb.mlir"
    path.write_text("what")
    with pytest.raises(ModuleFileError) as caught:
        lowering.load(path)
    assert str(caught.value).startswith(f"{str(path)!r}: line 1, column 1: ")
    assert caught.value.path == str(path)
    with pytest.raises(ModuleFileError, match=r"can't be read: no such file"):
        lowering.load(tmp_path / "c\nd")
