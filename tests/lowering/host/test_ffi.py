"""Functions in C and C++ built from source: results, the cache of libraries, refused sources."""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from tables import each_row

import builder as xb
import lowering
from lowering.host import native_code

SOURCE = r"""
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

// XLA_FFI_DEFINE_HANDLER_SYMBOL(in_a_comment, No)
static const char* text = "XLA_FFI_DEFINE_HANDLER_SYMBOL(in_a_string, No)";

static ffi::Error Scale(float alpha, ffi::AnyBuffer x, ffi::Result<ffi::AnyBuffer> y) {
  if (alpha == 0) return ffi::Error::InvalidArgument("nothing is left");
  const float* from = x.typed_data<float>();
  float* to = y->typed_data<float>();
  std::vector<std::thread> threads;
  for (size_t half = 0; half < 2; half++)
    threads.emplace_back([=] {
      for (size_t i = half; i < x.element_count(); i += 2) to[i] = alpha * from[i];
    });
  for (auto& one : threads) one.join();
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(scale, Scale,
                              ffi::Ffi::Bind()
                                  .Attr<float>("alpha")
                                  .Arg<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>());

static ffi::Error Fill(ffi::Span<const int64_t> values, bool turned, std::string_view name,
                       ffi::ResultBufferR1<ffi::S64> out, ffi::ResultBufferR0<ffi::S32> length) {
  for (size_t i = 0; i < values.size(); i++)
    out->typed_data()[turned ? values.size() - 1 - i : i] = values[i];
  *length->typed_data() = name.size();
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(fill, Fill,
                              ffi::Ffi::Bind()
                                  .Attr<ffi::Span<const int64_t>>("values")
                                  .Attr<bool>("turned")
                                  .Attr<std::string_view>("name")
                                  .Ret<ffi::BufferR1<ffi::S64>>()
                                  .Ret<ffi::BufferR0<ffi::S32>>());
"""

IN_C = r"""
#include "xla/ffi/api/c_api.h"

XLA_FFI_Error* negate(XLA_FFI_CallFrame* frame) {
  __typeof__(frame->extension_start) more = frame->extension_start;  // its name changes
  if (more != 0 && more->type == XLA_FFI_Extension_Metadata) {
    XLA_FFI_Metadata* metadata = ((XLA_FFI_Metadata_Extension*)more)->metadata;
    metadata->api_version.major_version = XLA_FFI_API_MAJOR;
    metadata->api_version.minor_version = XLA_FFI_API_MINOR;
    return 0;
  }
  XLA_FFI_Buffer* x = frame->args.args[0];
  XLA_FFI_Buffer* y = frame->rets.rets[0];
  for (int64_t i = 0; i < x->dims[0]; i++) ((float*)y->data)[i] = -((float*)x->data)[i];
  return 0;
}
"""

PLAIN = 'extern "C" void plain(void* out, const void** in) { *(float*)out = NUMBER; }'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("libraries")


@pytest.fixture(scope="module")
def library(folder: Path) -> lowering.ffi.FfiLibrary:
    return lowering.ffi.build(SOURCE, flags=["-O0"], folder=folder)


def plain(folder: Path, number: str = "1", **more: Any) -> lowering.ffi.FfiLibrary:
    """Build a library with one function that returns a number."""
    return lowering.ffi.build(
        PLAIN, api="untyped", folder=folder, flags=[f"-DNUMBER={number}"], **more
    )


def value_of(function: lowering.ffi.FfiFunction) -> float:
    b = xb.XlaBuilder("value")
    return float(lowering.compile(b.build(function(b, xb.f32[()])), "cpu")())


@pytest.mark.slow
def test_handlers_in_cpp(library: lowering.ffi.FfiLibrary) -> None:
    assert list(library.functions) == ["scale", "fill"]
    assert library.scale is library.functions["scale"]
    assert {"scale", "fill", "path"} <= set(dir(library))
    assert library.scale.target.startswith("scale.")
    b = xb.XlaBuilder("handlers")
    x = b.parameter(xb.f32[2, 3])
    scaled = library.scale(x, xb.f32[2, 3], alpha=np.float32(2.5))
    looped = xb.while_(
        lambda s: xb.reduce(s, 0.0, xb.add, [0, 1]) < 2000.0,
        lambda s: library.scale(s, s.shape, alpha=np.float32(2)),
        x,
    )
    filled = library.fill(b, "(s64[3], s32[])", values=[1, -(2**40), 3], turned=True, name="é")
    values = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    one, two, (numbers, length) = lowering.compile(b.build(xb.tuple(scaled, looped, filled)))(
        values
    )
    assert np.asarray(one).tolist() == (values * np.float32(2.5)).tolist()
    assert np.asarray(two).tolist() == (values * np.float32(128)).tolist()
    assert np.asarray(numbers).tolist() == [3, -(2**40), 1]
    assert int(length) == 2


@pytest.mark.parametrize("replicas", [1, 2])
def test_errors_of_a_handler(library: lowering.ffi.FfiLibrary, replicas: int) -> None:
    def program(name: str, operands: int = 1, **attributes: Any) -> Any:
        b = xb.XlaBuilder(name)
        x = b.parameter(xb.f32[1])
        computation = b.build(library.scale([x] * operands, xb.f32[1], **attributes))
        return lowering.compile(computation, "cpu", num_replicas=replicas)

    def fails(name: str, **attributes: Any) -> lowering.ExecutionError:
        with pytest.raises(lowering.ExecutionError) as caught:
            program(name, **attributes)(np.ones(1, np.float32))
        assert caught.value.op == "custom_call"
        return caught.value

    error = fails("report", alpha=np.float32(0))
    assert str(error).startswith("report: custom_call of 'scale.")
    assert "', recorded at " in str(error)
    assert "test_ffi.py:" in str(error)
    assert str(error).endswith(" failed: nothing is left")
    wrong = str(fails("wrong", alpha=2.5))
    assert "expected F32 but got F64" in wrong
    assert "fix: pass the attributes, operands and results of the handler's binding" in wrong
    many = str(fails("many", operands=2, alpha=np.float32(3)))
    assert "expected 1 but got 2\nfix: pass the attributes, operands and results" in many
    right = program("right", alpha=np.float32(3))(np.ones(1, np.float32))
    assert [np.asarray(r).tolist() for r in (right if replicas > 1 else [right])] == (
        [[3.0]] * replicas
    )


def test_a_handler_in_c(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "negate.c"
    file.write_text(IN_C)
    library = lowering.ffi.build(file, folder=folder, flags=["-O0"])
    b = xb.XlaBuilder("c")
    x = b.parameter(xb.f32[3])
    program = lowering.compile(b.build(library.negate(x, xb.f32[3])))
    assert np.asarray(program(np.array([1, 2, 3], np.float32))).tolist() == [-1, -2, -3]


def test_a_changed_source_under_the_same_name(folder: Path) -> None:
    """As in a notebook cell that is run again: earlier recordings use the earlier function."""
    first = plain(folder, "1.5")
    b = xb.XlaBuilder("before")
    before = b.build(first.plain(b, xb.f32[()]))
    second = plain(folder, "2.5")
    assert first.plain.target != second.plain.target
    assert value_of(second.plain) == 2.5
    assert float(lowering.compile(before, "cpu")()) == 1.5
    assert plain(folder, "1.5").plain.target == first.plain.target


def test_explicit_names(folder: Path) -> None:
    named = plain(folder, "7", targets={"test.ffi.seven": "plain"})
    assert named.functions["test.ffi.seven"].target == "test.ffi.seven"
    assert value_of(named.functions["test.ffi.seven"]) == 7
    plain(folder, "7", targets={"test.ffi.seven": "plain"})
    with pytest.raises(xb.OperandError) as caught:
        plain(folder, "8", targets={"test.ffi.seven": "plain"})
    assert str(caught.value).startswith(
        "ffi.build: the target name 'test.ffi.seven' belongs to another source on cpu already"
    )
    assert value_of(plain(folder, "8", targets="plain").plain) == 8


# The cache


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record each compilation of a source."""
    made: list[int] = []
    real = native_code._compile

    def compiled(*arguments: Any) -> Any:
        made.append(1)
        return real(*arguments)

    monkeypatch.setattr(native_code, "_compile", compiled)
    return made


def test_libraries_are_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = counted(monkeypatch)
    first = plain(tmp_path, "10")
    assert plain(tmp_path, "10").path == first.path
    assert len(made) == 1
    plain(tmp_path, "11")
    assert len(made) == 2
    # A damaged entry is compiled again.
    (entry,) = (e for e in tmp_path.glob("*.json") if first.path.endswith(_library_of(e)))
    for damage in (b"[]", b'{"included": 3, "library": "x"}', b"\xff"):
        entry.write_bytes(damage)
        assert plain(tmp_path, "10").path == first.path
    assert len(made) == 5
    whole = Path(first.path).read_bytes()
    # Written to another file and renamed, because this process has the file mapped.
    cut = tmp_path / "cut"
    cut.write_bytes(whole[: len(whole) // 2])
    cut.replace(first.path)
    assert value_of(plain(tmp_path, "10").plain) == 10
    assert Path(first.path).read_bytes() == whole
    assert len(made) == 6
    assert not [p for p in tmp_path.iterdir() if p.suffix not in (".so", ".json")]


def _library_of(entry: Path) -> str:
    name: str = json.loads(entry.read_text())["library"]
    return name


def test_changed_included_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = counted(monkeypatch)
    source, header = tmp_path / "with header.cc", tmp_path / "the number.h"
    source.write_text(f'#include "the number.h"\n{PLAIN}')
    for number in (1, 2):
        header.write_text(f"#define NUMBER {number}\n")
        for _ in range(2):
            library = lowering.ffi.build(str(source), api="untyped", folder=tmp_path / "kept")
            assert value_of(library.plain) == number
    assert len(made) == 2


def test_several_build_at_once(tmp_path: Path) -> None:
    """As in several processes: only the folder is shared."""
    source = native_code.read_source(PLAIN, None)
    results: list[Any] = []

    def build() -> None:
        results.append(native_code.shared_library(source, ("-DNUMBER=3",), None, tmp_path))

    abandoned, other = tmp_path / ".building-killed", tmp_path / ".building-now"
    for one in (abandoned, other):
        one.mkdir()
        (one / "source.cc").touch()
    os.utime(abandoned, (0, 0))
    threads = [threading.Thread(target=build) for _ in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    assert len(results) == 3
    assert len({one.identity for one in results}) == 1
    assert all(one.path.is_file() for one in results)
    assert other.is_dir()
    shutil.rmtree(other)
    assert sorted(p.suffix for p in tmp_path.iterdir()) == [".json", ".so"]


def test_the_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    library = lowering.ffi.build(PLAIN, api="untyped", flags=["-DNUMBER=1"])
    where = tmp_path / "xlabuilder" / "ffi"
    assert Path(library.path).parent == where
    assert where.stat().st_mode & 0o777 == 0o700
    where.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="ffi contains machine code, .*every user can write"):
        lowering.ffi.build(PLAIN, api="untyped", flags=["-DNUMBER=1"])
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    library = lowering.ffi.build(PLAIN, api="untyped", flags=["-DNUMBER=1"])
    assert Path(library.path).parent == tmp_path / "home" / ".cache" / "xlabuilder" / "ffi"


# Refused arguments

UNTYPED = 'extern "C" void f(void* out, const void** in) {}'


@each_row(
    "source, more, message",
    [
        (3, {}, "source must be C or C++ code or a path, got 3"),
        (" ", {}, "source must be C or C++ code, got an empty string"),
        ("int x;\0", {}, "source must not contain the character NUL"),
        (Path("x.py"), {}, "a C or C++ file must end in .c, .cc, .cpp, .cxx, .cu, got 'x.py'"),
        ("int x;", {"language": "rust"}, "language must be 'c' or 'c++', got 'rust'"),
        ("int x;", {"platform": "tpu"}, "platform must be 'cpu' or 'gpu', got 'tpu'\nfix: record"),
        ("int x;", {"platform": np.ones(2)}, "platform must be 'cpu' or 'gpu', got array(["),
        ("int x;", {"platform": ["cpu"]}, "platform must be 'cpu' or 'gpu', got ['cpu']"),
        ("int x;", {"api": "both"}, "api must be 'typed' or 'untyped', got 'both'"),
        ("int x;", {"flags": "-O0"}, "flags must be a sequence of strings, got '-O0'\nfix: "),
        ("int x;", {"flags": [3]}, "a flag must be a string, got 3"),
        ("int x;", {"compiler": 3}, "compiler must be the name or the path of a compiler, got 3"),
        ("int x;", {"folder": 3}, "folder must be the path of a folder, got 3"),
        ("int x;", {"targets": 3}, "targets must be names of functions, or a mapping from "),
        ("int x;", {"targets": []}, "targets must be names of functions, or a mapping from "),
        ("int x;", {"targets": {"a": 3}}, "targets must be names of functions, or a mapping from "),
        (
            "int x;",
            {},
            "no typed handler is found in the source\nfix: define a handler with XLA_FFI",
        ),
        (UNTYPED, {}, "no typed handler is found in the source\nfix: pass api='untyped', because"),
        (UNTYPED, {"targets": "f"}, "api is 'typed', but the source defines f as untyped\nfix: "),
        (
            UNTYPED,
            {"api": "untyped", "targets": "g"},
            "the library has no function 'g'\nfix: pass one ",
        ),
        (
            UNTYPED[11:],
            {"api": "untyped"},
            'the source defines f, which the library does not export\nfix: write extern "C"',
        ),
    ],
)
def test_wrong_arguments(source: Any, more: Any, message: str, folder: Path) -> None:
    with pytest.raises(xb.OperandError) as caught:
        lowering.ffi.build(source, **{"folder": folder, **more})
    assert str(caught.value).startswith(f"ffi.build: {message}")
    assert caught.value.op == "ffi.build"


def test_sources_that_do_not_compile(folder: Path, tmp_path: Path) -> None:
    def refused(source: Any, **more: Any) -> lowering.CompileError:
        with pytest.raises(lowering.CompileError) as caught:
            lowering.ffi.build(source, **{"folder": folder, "api": "untyped", **more})
        assert caught.value.op == "ffi.build"
        return caught.value

    before = sorted(folder.iterdir())
    error = refused("int f() {\n  retrun 1;\n}\n" + "int g() { return h; }\n" * 8)
    assert str(error).startswith("ffi.build: ")
    assert " can't compile the source:\n  source.cc:2:3: error: " in str(error)
    assert "more errors\nfix: correct these lines" in str(error)
    assert "retrun" in error.detail
    assert sorted(folder.iterdir()) == before
    nowhere = f'extern "C" int nowhere(); {UNTYPED[:-1]} nowhere(); }}'
    assert "can't be loaded: undefined symbol: nowhere\nfix: define nowhere, or link" in str(
        refused(nowhere)
    )
    assert "/missing.cc can't be read: No such file" in str(refused(tmp_path / "missing.cc"))
    no_compiler = str(refused("int x;", compiler="no-such-compiler"))
    assert "no compiler for C++ was found: compiler names" in no_compiler
    assert "fix: install a compiler (apt install g++" in no_compiler
    (tmp_path / "file").write_text("")
    message = str(refused("int x;", folder=tmp_path / "file" / "folder"))
    assert (
        f"libraries can't be written to {tmp_path}/file/folder: not a directory\nfix: " in message
    )


def test_the_compiler_of_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler -x")
    with pytest.raises(lowering.CompileError, match="CXX names 'no-such-"):
        plain(folder, "1")
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(lowering.CompileError, match=r"none of g\+\+, c\+\+, clang\+\+ exists"):
        plain(folder, "1")


def test_wrong_calls(library: lowering.ffi.FfiLibrary, folder: Path) -> None:
    with pytest.raises(AttributeError, match="the library has no function 'scael'; it has scale, "):
        library.scael  # noqa: B018  (the attribute raises)
    x = xb.XlaBuilder("calls").parameter(xb.f32[2])
    with pytest.raises(xb.OperandError, match="plain: an untyped function takes no attributes"):
        plain(folder).plain(x, xb.f32[2], alpha=1)
    with pytest.raises(xb.OperandError, match="custom_call: at least one operand is needed"):
        library.scale([], xb.f32[2])
    with pytest.raises(xb.OperandError, match="custom_call: operand"):
        library.scale(3, xb.f32[2])
    with pytest.raises(xb.ShapeInferenceError, match="custom_call: attribute 'alpha' must be"):
        library.scale(x, xb.f32[2], alpha=1j)


def test_a_function_for_another_platform(folder: Path) -> None:
    """It can be registered without a GPU, like the functions of jax."""
    elsewhere = plain(folder, "5", platform="gpu")
    with pytest.raises(lowering.CompileError) as caught:
        value_of(elsewhere.plain)
    assert str(caught.value).endswith(
        "no function of that name is registered for cpu, only for gpu\n"
        "fix: compile for 'gpu', or register a function for 'cpu' too"
    )
    assert value_of(plain(folder, "5").plain) == 5


def test_calls_from_jax(library: lowering.ffi.FfiLibrary) -> None:
    shape = jax.ShapeDtypeStruct((2,), np.float32)
    call = jax.ffi.ffi_call(library.scale.target, shape)
    assert call(np.array([1, 2], np.float32), alpha=np.float32(4)).tolist() == [4, 8]
