"""Save and load modules in the three formats, and refuse damaged input."""

import errno
import os
import pathlib
import random
import resource
import signal
import sys
import textwrap
import threading

import numpy as np
import pytest
from jaxlib.mlir import ir
from processes import run_python
from tables import each_row

import builder as xb
import lowering
from lowering import ModuleFileError, VersionError
from lowering.jaxlib_api import artifacts, mlir, versions
from lowering.reading import helper_process, module_reader

AFFINE = """\
module @affine {
  func.func public @main(%arg0: tensor<2x3xf32> {xlabuilder.name = "x"}, %arg1: tensor<3xf32> {xlabuilder.name = "bias of x"}) -> tensor<2x3xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
    %1 = stablehlo.add %arg0, %0 : tensor<2x3xf32>
    return %1 : tensor<2x3xf32>
  }
}
"""  # noqa: E501

NESTED = """\
module @nested {
  func.func public @main(%arg0: tensor<f32> {xlabuilder.name = "state[0]"}, %arg1: tensor<2xsi32> {xlabuilder.name = "state[1][0]"}, %arg2: tensor<i1> {xlabuilder.name = "flag"}) -> (tensor<2xi32>, tensor<i1>) attributes {xlabuilder.parameters = ["(f32[], (s32[2], ()))", "pred[]"], xlabuilder.result = "((s32[2]), pred[])"} {
    return %arg1, %arg2 : tensor<2xi32>, tensor<i1>
  }
}
""".replace("si32", "i32")  # noqa: E501

SUFFIXES = (".mlir", ".mlirbc", ".stablehlo")


@pytest.fixture
def affine():
    return lowering.load_bytes(AFFINE)


def refused(data, path=None):
    """Return the error message for bytes; it has at most two lines."""
    with pytest.raises(ModuleFileError) as caught:
        module_reader.read(data, path) if path else lowering.load_bytes(data)
    message = str(caught.value)
    assert message.count("\n") <= 1, message
    assert caught.value.path == path
    return message


# The three formats


@each_row("suffix", SUFFIXES)
def test_save_and_load_preserve_the_module(affine, tmp_path, suffix):
    path = tmp_path / f"affine{suffix}"
    affine.save(path)
    loaded = lowering.load(path)
    assert str(loaded) == loaded.text == AFFINE
    assert str(loaded.program_shape) == "(x: f32[2,3], bias of x: f32[3]) -> f32[2,3]"
    assert repr(loaded) == f"<StablehloModule 'affine' {loaded.program_shape}>"
    loaded.verify()


@each_row("suffix", SUFFIXES)
def test_tuples_and_names_are_preserved(tmp_path, suffix):
    path = tmp_path / f"nested{suffix}"
    lowering.load_bytes(NESTED).save(str(path))
    shape = lowering.load(str(path)).program_shape
    assert shape.parameters == (xb.parse_shape("(f32[], (s32[2], ()))"), xb.pred[()])
    assert shape.parameter_names == ("state", "flag")
    assert shape.result == xb.parse_shape("((s32[2]), pred[])")


@each_row("suffix", SUFFIXES)
def test_load_ignores_the_suffix(affine, tmp_path, suffix):
    path = tmp_path / f"affine{suffix}"
    affine.save(path)
    other = tmp_path / "module.bin"
    path.rename(other)
    assert lowering.load(other).text == AFFINE


def test_saving_is_deterministic(affine):
    assert affine.bytecode == lowering.load_bytes(AFFINE).bytecode
    assert affine.artifact() == lowering.load_bytes(affine.bytecode).artifact()
    assert affine.text == AFFINE


def test_locations_in_text_and_bytecode():
    text = (
        "func.func @main(%a: tensor<f32>) -> tensor<f32>"
        ' { return %a : tensor<f32> loc("u.py":3:4) }'
    )
    module = lowering.load_bytes(text)
    assert "u.py" not in module.text
    for again in (
        module.to_text(locations=True),
        module.bytecode,
        module.artifact("minimum"),
    ):
        assert 'loc("u.py":3:4)' in lowering.load_bytes(again).to_text(locations=True)


def test_names_without_attributes():
    module = lowering.load_bytes(
        "func.func @main(%a: tensor<?xf32, #stablehlo.bounds<3>>, %b: !stablehlo.token)"
        " -> (!stablehlo.token, tensor<2xui4>)"
        " { %0 = stablehlo.constant dense<1> : tensor<2xui4>"
        " return %b, %0 : !stablehlo.token, tensor<2xui4> }"
    )
    text = "(arg0: f32[<=3], arg1: token[]) -> (token[], u4[2])"
    assert str(module.program_shape) == text
    assert module.name == "main"
    empty = lowering.load_bytes("func.func @main() { return }")
    assert str(empty.program_shape) == "() -> ()"


def test_layouts_are_read():
    module = lowering.load_bytes(
        'func.func @main(%a: tensor<2x3xf32> {mhlo.layout_mode = "{0,1}"})'
        ' -> (tensor<2x3xf32> {mhlo.layout_mode = "default"}) { return %a : tensor<2x3xf32> }'
    )
    assert str(module.program_shape) == "(arg0: f32[2,3]{0,1}) -> f32[2,3]"


def test_a_lowered_computation_is_preserved(tmp_path):
    b = xb.XlaBuilder("pair")
    x = b.parameter("(f64[2], (s32[], pred[3]))", "state")
    y = b.parameter(xb.f64[2], "y")
    z = xb.get_tuple_element(x, 0) + y
    module = lowering.lower(b.build(xb.tuple(z, xb.get_tuple_element(x, 1))))
    for suffix in SUFFIXES:
        path = tmp_path / f"pair{suffix}"
        module.save(path)
        loaded = lowering.load(path)
        assert loaded.program_shape == module.program_shape
        assert loaded.program_shape.parameter_names == ("state", "y")
        assert loaded.text == module.text


# Versions


@each_row("version", ["0.9.0", "minimum", "1.0.0", "1.9.5", "current", "12w", "4w", None])
def test_artifacts_of_every_version_can_be_read(affine, version):
    artifact = affine.artifact(version)
    assert lowering.load_bytes(artifact).text == AFFINE
    names = {
        "minimum": "0.9.0",
        "current": versions.current_version(),
        "4w": versions.compatible_version(4),
        "12w": versions.compatible_version(12),
        None: "1.0.0",
    }
    number = names.get(version, version)
    assert artifact.startswith(mlir.BYTECODE_MAGIC)
    assert f"StableHLO_v{number}\0".encode() in artifact[:40]


@each_row(
    "version, message",
    [
        ("1.9", "three numbers such as '1.9.0', got '1.9'"),
        ("1.9.0.0", "three numbers such as '1.9.0', got '1.9.0.0'"),
        ("v1.9.0", "three numbers such as '1.9.0', got 'v1.9.0'"),
        ("", "three numbers such as '1.9.0', got ''"),
        ("-1.9.0", "three numbers such as '1.9.0', got '-1.9.0'"),
        (190, "three numbers such as '1.9.0', got 190"),
        ("99.0.0", "StableHLO 99.0.0 is newer than the installed jaxlib can write"),
        ("0.8.9", "StableHLO 0.8.9 is too old"),
    ],
)
def test_invalid_versions(affine, version, message, tmp_path):
    newest = versions.current_version()
    fix = f"pass a version from 0.9.0 to {newest}, 'minimum', '12w', '4w' or 'current'"
    end = f"{message}\nfix: {fix}"
    with pytest.raises(VersionError) as caught:
        affine.artifact(version)
    assert str(caught.value).endswith(end)
    assert caught.value.version == version
    assert str(caught.value).startswith("artifact: ")
    with pytest.raises(VersionError) as caught:
        affine.save(tmp_path / "a.stablehlo", version=version)
    assert str(caught.value).startswith("save: ")
    assert str(caught.value).endswith(end)
    assert list(tmp_path.iterdir()) == []


def test_an_operation_that_a_version_cannot_express():
    module = lowering.load_bytes(
        "func.func @main(%a: tensor<f32>) -> tensor<f32>"
        " { %0 = chlo.erf %a : tensor<f32> -> tensor<f32> return %0 : tensor<f32> }"
    )
    with pytest.raises(VersionError) as caught:
        module.artifact("0.9.0")
    assert str(caught.value) == (
        "artifact: StableHLO 0.9.0 can't express the operation composite of main (needed by "
        "erf, recorded at -:1; available from 0.19.0)\n"
        f"fix: write version 0.19.0 or newer, up to {versions.current_version()}; "
        "composites='inline' writes the program without composites"
    )
    assert "legalize" in caught.value.detail


def test_the_operation_at_fault_is_named():
    """Not the first operation of that name, if only a later one needs a new version."""
    b = xb.XlaBuilder("products")
    x = b.parameter(xb.f32[4, 4], "x")
    numbers = xb.DotDimensionNumbers((1,), (0,))
    y = xb.dot_general(x, x, numbers)
    z = xb.dot_general(y, x, numbers, algorithm="dot_bf16_bf16_f32")
    with pytest.raises(VersionError) as caught:
        lowering.lower(b.build(z)).artifact("1.0.0")
    assert str(caught.value).startswith(
        "artifact: StableHLO 1.0.0 can't express the attribute algorithm of the operation "
        "dot_general of products (needed by "
        f"dot_general, recorded at {z.source}; available from 1.6.0)\nfix: write version 1.6.0"
    )


@pytest.mark.parametrize("is_parameter", [True, False])
def test_an_element_type_that_a_version_cannot_express(is_parameter, tmp_path):
    b = xb.XlaBuilder("types")
    x = b.parameter(xb.f8e3m4[4] if is_parameter else xb.f32[4], "x")
    y = xb.convert_element_type(x, xb.f16 if is_parameter else xb.f8e3m4)
    place = "parameter x" if is_parameter else f"convert_element_type, recorded at {y.source}"
    with pytest.raises(VersionError) as caught:
        lowering.lower(b.build(y)).save(tmp_path / "a.stablehlo", version="1.0.0")
    assert str(caught.value).startswith(
        "artifact: StableHLO 1.0.0 can't express the element type f8E3M4 of types (needed by "
        f"{place}; available from 1.7.0)\nfix: write version 1.7.0 or newer"
    )


@each_row(
    "op, name",
    [
        (lambda x: xb.top_k(x, 2)[0], "top_k"),
        (xb.erf, "erf"),
        (lambda x: xb.composite_call(xb.neg, x, "a.b"), "composite_call"),
    ],
)
def test_composites_are_written_for_the_oldest_version(op, name, tmp_path):
    b = xb.XlaBuilder("composite")
    root = op(b.parameter(xb.f32[8], "x"))
    module = lowering.lower(b.build(root))
    path = tmp_path / "a.stablehlo"
    module.save(path)
    assert module_reader.artifact_version(path.read_bytes()) == "1.0.0"
    assert lowering.load(path).program_shape == module.program_shape
    with pytest.raises(VersionError, match=rf"needed by {name}, recorded at .*available from 0.19"):
        module.save(path, version="minimum")


def test_chlo_becomes_a_composite():
    module = lowering.load_bytes(
        "func.func @main(%a: tensor<f32>) -> tensor<f32>"
        " { %0 = chlo.erf %a : tensor<f32> -> tensor<f32> return %0 : tensor<f32> }"
    )
    loaded = lowering.load_bytes(module.artifact("1.0.0"))
    assert 'stablehlo.composite "chlo.erf"' in loaded.text
    assert "chlo.erf" in module.text
    assert "composite" not in module.text


# Writing


def test_an_unknown_suffix_is_refused(affine, tmp_path):
    for name, got in (("a.txt", "'.txt'"), ("a", "none"), (".mlir", "none")):
        path = str(tmp_path / name)
        with pytest.raises(ModuleFileError) as caught:
            affine.save(path)
        assert str(caught.value) == (
            f"{path}: the suffix selects the format, got {got}\n"
            "fix: use .mlir for text, .mlirbc for bytecode, .stablehlo for a portable artifact"
        )
        assert caught.value.path == path


def test_only_artifacts_have_a_version(affine, tmp_path):
    path = tmp_path / "a.mlirbc"
    with pytest.raises(VersionError, match=r"bytecode has no StableHLO version, got '1.9.0'\nfix"):
        affine.save(path, version="1.9.0")


def test_paths_that_cannot_be_written(affine, tmp_path):
    def message(path):
        with pytest.raises(ModuleFileError) as caught:
            affine.save(path)
        assert caught.value.path == str(path)
        assert caught.value.op == "save"
        return str(caught.value)

    missing = tmp_path / "no" / "a.mlir"
    assert message(missing) == (
        f"{missing}: can't be written: there is no folder {tmp_path}/no\n"
        f"fix: create it: os.makedirs('{tmp_path}/no')"
    )
    folder = tmp_path / "folder.mlir"
    folder.mkdir()
    assert message(folder) == (
        f"{folder}: can't be written: it is a folder\nfix: name a file in that folder"
    )
    (tmp_path / "file").write_bytes(b"")
    below = tmp_path / "file" / "a.mlir"
    assert message(below).endswith(
        "can't be written: not a directory\n"
        "fix: a part of the path is a file; replace this part by a folder"
    )
    long = tmp_path / ("x" * 300 + ".mlir")
    assert message(long) == (
        f"{long}: can't be written: file name too long\nfix: use a shorter name"
    )
    os.mkfifo(tmp_path / "pipe.mlir")
    assert message(tmp_path / "pipe.mlir").endswith("is not a regular file\nfix: pass another path")
    assert message(str(tmp_path / "a\0.mlir")).endswith("fix: use a name without zero bytes")


def test_no_permission(affine, tmp_path, monkeypatch):
    def refuse(*_args, **_kwargs):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    path = tmp_path / "a.mlir"
    path.write_text(AFFINE)
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        with pytest.raises(ModuleFileError) as caught:
            affine.save(path)
    assert str(caught.value) == (
        f"{path}: can't be written: permission denied\n"
        "fix: let this user write the file and its folder (chmod), or save elsewhere"
    )
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        with pytest.raises(ModuleFileError) as caught:
            lowering.load(path)
    assert str(caught.value) == (
        f"{path}: can't be read: permission denied\n"
        "fix: let this user read the file and enter its folders (chmod)"
    )


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("failing", ["write", "fsync", "replace", "interrupt"])
def test_a_failed_save_leaves_the_old_file(affine, tmp_path, monkeypatch, suffix, failing):
    path = tmp_path / f"a{suffix}"
    path.write_bytes(b"before")
    write = os.write
    calls = []

    def full(*_args):
        if failing == "interrupt":
            raise KeyboardInterrupt
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def second_fails(descriptor, data):
        calls.append(data)
        return write(descriptor, data[:10]) if len(calls) == 1 else full()

    if failing == "replace":
        monkeypatch.setattr(pathlib.Path, "replace", full)
    elif failing == "write":
        monkeypatch.setattr(os, "write", second_fails)
    else:
        monkeypatch.setattr(os, "fsync", full)
    with pytest.raises((ModuleFileError, KeyboardInterrupt)) as caught:
        affine.save(path)
    monkeypatch.undo()
    if failing != "interrupt":
        assert str(caught.value) == (
            f"{path}: can't be written: the disk is full\nfix: free disk space, or save elsewhere"
        )
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_size_limit(tmp_path):
    """Exceed the file size limit of the process."""
    path = tmp_path / "a.mlir"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    module = lowering.load_bytes(AFFINE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
        with pytest.raises(ModuleFileError, match="can't be written: file too large"):
            module.save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert list(tmp_path.iterdir()) == []


def test_links_and_modes_are_preserved(affine, tmp_path):
    target = tmp_path / "target.mlir"
    target.write_text("old")
    target.chmod(0o640)
    link = tmp_path / "link.mlir"
    link.symlink_to(target)
    affine.save(link)
    assert link.is_symlink()
    assert target.read_text() == AFFINE
    assert target.stat().st_mode & 0o777 == 0o640


# Threads, copies, dialects


def test_a_module_is_printed_in_several_threads_at_once():
    b = xb.XlaBuilder("chain")
    x = b.parameter(xb.f32[2], "x")
    for _ in range(300):
        x = x + x
    module = lowering.lower(b.build(x))
    expected = [module.text, module.bytecode, module.artifact()]
    wrong: list[object] = []

    def work():
        try:
            for _ in range(30):
                if [module.text, module.bytecode, module.artifact()] != expected:
                    wrong.append("other bytes")
        except Exception as error:
            wrong.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert wrong == []


@each_row(
    "operation",
    [
        "affine.for %i = 0 to 2 { }",
        "%c = arith.constant 1 : i32",
        "%c = complex.create %x, %x : complex<f32>",
        "gpu.barrier",
        "%c = llvm.mlir.constant(1 : i32) : i32",
        "%c = shape.const_size 2",
        "%c = vector.broadcast %x : f32 to vector<2xf32>",
    ],
)
def test_operations_of_every_dialect_are_parsed(operation):
    """Most dialects are loaded when their name is parsed for the first time."""
    module = ir.Module.parse(f"func.func @f(%x: f32) {{ {operation} return }}", mlir.new_context())
    assert module.operation.verify()
    again = ir.Module.parse(mlir.bytecode(module), mlir.new_context())
    assert str(again) == str(module)


@pytest.mark.parametrize(
    ("place", "attribute", "message"),
    [
        ("argument", "llvm.byval = 1 : i32", "should be a type attribute"),
        ("operation", "gpu.known_block_size = 1 : i32", "must be a dense i32 array"),
        ("module", 'shape.lib = "f"', "only SymbolRefAttr"),
    ],
)
def test_attributes_of_other_dialects_are_verified(place, attribute, message):
    """Parsing text loads the dialect of an attribute; parsing bytecode requires it to be loaded."""

    def text(attribute):
        texts = dict.fromkeys(("argument", "result", "function", "operation", "module"), "")
        texts[place] = attribute
        return (
            f"module attributes {{{texts['module']}}} {{\n"
            f"func.func @main(%x: tensor<f32> {{{texts['argument']}}})"
            f" -> (tensor<f32> {{{texts['result']}}}) attributes {{{texts['function']}}} {{\n"
            f"%y = stablehlo.abs %x {{{texts['operation']}}} : tensor<f32>\n"
            f"return %y : tensor<f32>\n}}\n}}"
        )

    assert message in refused(text(attribute).encode())
    # Written with the name of an unregistered dialect of the same length.
    dialect, _, name = attribute.partition(".")
    context = mlir.new_context()
    context.allow_unregistered_dialects = True
    module = ir.Module.parse(text(f"{'q' * len(dialect)}.{name}"), context)
    code = mlir.bytecode(module)
    unknown, known = (
        f"{one}.{name.split()[0]}\0".encode() for one in ("q" * len(dialect), dialect)
    )
    assert code.count(unknown) == 1
    assert message in refused(code.replace(unknown, known))


def test_saving_does_not_change_the_module(affine, monkeypatch):
    """The module has no checksum attribute while it is written."""
    texts = []
    write = mlir.bytecode_pieces

    def spy(module):
        texts.append(affine.text)
        return write(module)

    monkeypatch.setattr(mlir, "bytecode_pieces", spy)
    assert affine.bytecode
    assert affine.artifact()
    assert set(texts) == {AFFINE}


@pytest.mark.skipif(not pathlib.Path("/proc/self/clear_refs").exists(), reason="reads Linux's peak")
def test_bytecode_is_saved_with_one_copy_of_a_constant(tmp_path):
    def status(field):
        lines = pathlib.Path("/proc/self/status").read_text().splitlines()
        line = next(t for t in lines if t.startswith(field))
        return int(line.split()[1]) * 1024

    size = 64 << 20
    b = xb.XlaBuilder("big")
    b.constant(np.random.default_rng(0).integers(0, 2**32, size // 4, np.uint32))
    module = lowering.lower(b.build())
    path = tmp_path / "big.mlirbc"
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    before = status("VmRSS")
    module.save(path)
    assert status("VmHWM") - before < 1.5 * size
    assert module_reader._checksum_matches(path.read_bytes())


def test_the_fast_artifact_writer_writes_the_same_bytes(affine, monkeypatch):
    def slow(*_args):
        raise AssertionError("the slow way")

    with monkeypatch.context() as patch:
        patch.setattr(artifacts.jax_extension.mlir, "serialize_portable_artifact", slow)
        quick = artifacts.serialize_artifact(affine.module, "1.9.5", {})
    monkeypatch.setattr(artifacts, "_OTHER_DIALECTS", (b"",))
    assert artifacts.serialize_artifact(affine.module, "1.9.5", {}) == quick


def test_the_report_of_the_fast_artifact_writer(capfd):
    module = lowering.load_bytes(
        "func.func @main(%a: tensor<f32>) -> tensor<f32>"
        " { %0 = stablehlo.tan %a : tensor<f32> return %0 : tensor<f32> }"
    )
    with pytest.raises(
        VersionError, match=r"0\.9\.0 can't express the operation tan of main \(needed by tan, rec"
    ) as caught:
        module.artifact("0.9.0")
    assert "failed to legalize operation 'vhlo.tan" in caught.value.detail
    assert caught.value.op == "artifact"
    assert capfd.readouterr() == ("", "")


def test_checksum_patterns_across_pieces():
    seal = b"xlabuilder-crc32-00000000"
    assert module_reader._has_seal_across_pieces([b"", b"a" + seal[:7], seal[7:] + b"b"])
    assert not module_reader._has_seal_across_pieces([b"a" + seal, b"b" + seal, seal[:-1]])
    pieces = [b"a", b"b", b"c" * (1 << 16), b"d", b"e"]
    assert module_reader._join_small(pieces) == [b"ab", b"c" * (1 << 16), b"de"]


# Recursive functions, which would overflow the stack of XLA.


CALLS = """
func.func private @f(%a: tensor<f32>) -> tensor<f32> {
  %0 = func.call @{f}(%a) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @g(%a: tensor<f32>) -> tensor<f32> {
  %0 = func.call @{g}(%a) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @h(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> }
func.func @main(%a: tensor<f32>) -> tensor<f32> {
  %0 = func.call @{main}(%a) : (tensor<f32>) -> tensor<f32>
  %1 = func.call @h(%0) : (tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}
"""


def calls(f, g, main):
    return CALLS.replace("{f}", f).replace("{g}", g).replace("{main}", main)


@each_row(
    "text, cycle, line",
    [
        (calls("h", "h", "main"), "@main -> @main", 12),
        (calls("g", "f", "f"), "@f -> @g -> @f", 7),
        (calls("f", "h", "g"), "@f -> @f", 3),
        (calls("main", "f", "g"), "@f -> @main -> @g -> @f", 7),
    ],
)
def test_recursion_is_refused(text, cycle, line):
    with pytest.raises(ModuleFileError) as caught:
        lowering.load_bytes(text)
    assert str(caught.value) == (
        f"the module: line {line}, column 8: functions are recursive, which XLA does not support: "
        f"{cycle}\nfix: use stablehlo.while instead of recursion"
    )
    assert caught.value.line == line


def test_recursion_in_a_region_and_by_a_composite():
    region = (
        'func.func @main(%a: tensor<f32>, %p: tensor<i1>) -> tensor<f32> { %0 = "stablehlo.if"(%p)'
        " ({ %1 = func.call @main(%a, %p) : (tensor<f32>, tensor<i1>) -> tensor<f32>"
        " stablehlo.return %1 : tensor<f32> }, { stablehlo.return %a : tensor<f32> })"
        " : (tensor<i1>) -> tensor<f32> return %0 : tensor<f32> }"
    )
    composite = (
        "func.func @main(%a: tensor<f32>) -> tensor<f32> {"
        ' %0 = stablehlo.composite "x.y" %a {decomposition = @main}'
        " : (tensor<f32>) -> tensor<f32> return %0 : tensor<f32> }"
    )
    for text in (region, composite):
        with pytest.raises(ModuleFileError, match="does not support: @main -> @main"):
            lowering.load_bytes(text)


def test_calls_without_a_cycle():
    run = lowering.compile(lowering.load_bytes(calls("g", "h", "f")), "cpu")
    assert run(1.5).item() == 1.5
    # More than the recursion limit of Python.
    lines = [
        f"func.func private @f{i}(%a: tensor<f32>) -> tensor<f32> {{ %0 = func.call @f{i + 1}(%a)"
        " : (tensor<f32>) -> tensor<f32> return %0 : tensor<f32> }"
        for i in range(3000)
    ]
    lines.append(
        "func.func private @f3000(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> }"
    )
    lines.append("func.func @main(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> }")
    assert lowering.load_bytes("\n".join(lines)).name == "main"


# Names of parameters


def test_names_of_parameters_without_arguments(tmp_path):
    b = xb.XlaBuilder("names")
    b.parameter("()", "nothing")
    x = b.parameter("(f32[], (s32[]))", "x[0]")
    b.parameter("((), ())", "unused")
    b.parameter(xb.f32[2], "y[1]")
    module = lowering.lower(b.build(x[0]))
    for suffix in SUFFIXES:
        module.save(tmp_path / f"names{suffix}")
        loaded = lowering.load(tmp_path / f"names{suffix}")
        assert loaded.program_shape.parameter_names == ("nothing", "x[0]", "unused", "y[1]")
        assert loaded.program_shape == module.program_shape
    run = lowering.compile(loaded, "cpu")
    y = np.zeros(2, np.float32)
    assert run(nothing=(), unused=((), ()), **{"x[0]": (2.5, (1,)), "y[1]": y}).item() == 2.5


def test_a_wrong_number_of_names():
    names = 'attributes {xlabuilder.parameter_names = ["a", "b"]}'
    message = refused(f"func.func @main(%a: tensor<f32>) {names} {{ return }}")
    assert message.startswith("the module: the attribute xlabuilder.parameter_names does not match")
    assert "xlabuilder.parameter_names" not in lowering.load_bytes(NESTED).text


# Files that are not modules


def test_files_that_cannot_be_read(tmp_path):
    def message(path):
        with pytest.raises(ModuleFileError) as caught:
            lowering.load(path)
        assert caught.value.op == "load"
        return str(caught.value)

    missing = tmp_path / "no.mlir"
    assert message(missing) == (
        f"{missing}: can't be read: no such file or directory\n"
        "fix: check the name and the current folder"
    )
    assert message(tmp_path) == (
        f"{tmp_path}: can't be read: it is a folder\nfix: name a file in that folder"
    )
    empty = tmp_path / "empty.mlir"
    empty.write_bytes(b"")
    assert message(empty) == f"{empty}: is empty\nfix: save the module again"
    empty.write_bytes(b" \n\t")
    assert message(empty) == f"{empty}: is empty\nfix: save the module again"


def test_values_that_are_neither_paths_nor_bytes(affine, tmp_path):
    def refusal(function, value):
        with pytest.raises(xb.OperandError) as caught:
            function(value)
        assert caught.value.op == function.__name__
        return str(caught.value)

    assert refusal(lowering.load_bytes, 7) == "load_bytes: expected bytes or text, got int"
    assert refusal(lowering.load_bytes, tmp_path).endswith("\nfix: use lowering.load for a file")
    expected = "expected a module, a path, text, bytes or an object of jax"
    assert refusal(lowering.load, 3) == f"load: {expected}, got 3"
    a_path = "a path must be a string or a pathlib.Path, got"
    assert refusal(affine.save, b"a.mlir") == f"save: {a_path} bytes\nfix: use os.fsdecode(path)"
    assert refusal(affine.save, None) == f"save: {a_path} NoneType"
    for kind in (bytes, bytearray, memoryview):
        assert lowering.load_bytes(kind(affine.bytecode)).text == AFFINE
        assert lowering.load_bytes(kind(AFFINE.encode())).text == AFFINE


def test_syntax_errors_have_a_position(tmp_path):
    path = tmp_path / "affine.mlir"
    path.write_text(AFFINE.replace("%1 = stablehlo.add %arg0, %0", "%1 = stablehlo.add %arg0, %7"))
    with pytest.raises(ModuleFileError) as caught:
        lowering.load(path)
    error = caught.value
    assert str(error) == (
        f"{path}: line 4, column 31: not StableHLO: use of undeclared SSA value name\n"
        f"fix: correct the text at this position, or save the module again"
    )
    assert (error.path, error.line, error.column) == (str(path), 4, 31)


@each_row(
    "text, message",
    [
        ("this is not MLIR", "line 1, column 1: not StableHLO: no operation begins with 'this'"),
        (AFFINE[:-3], "line 5, column 32: not StableHLO: expected operation name in quotes"),
        (AFFINE.replace("@main", "@start"), "has no function @main"),
        ("module {}", "has no function @main"),
        ("func.func private @main(tensor<f32>)", "has no function @main"),
        ("func.func @main(%a: i32) { return }", "@main can't be called: the MLIR type i32 is nei"),
        ("func.func @main(%a: tensor<index>) { return }", "@main can't be called: the MLIR elem"),
        ("func.func @main(%a: tensor<*xf32>) { return }", "@main can't be called: the MLIR type"),
        (
            "func.func @main() {\n  %0 = arith.constant 1 : i32\n  return }",
            "line 2, column 8: arith.constant is not an operation of StableHLO\nfix: use operatio",
        ),
        (
            'func.func @main() {\n  "foo.bar"() : () -> ()\n  return }',
            "line 2, column 12: not StableHLO: operation being parsed with an unregistered diale",
        ),
        ("HloModule m\n", "is HLO text, not StableHLO\nfix: "),
        ("func.func @main() { return }\0", "byte 28 is zero"),
        (b"\x93NUMPY\x01\x00v\x00", "byte 0 (0x93) is not text"),
        (b"ML\xef", "is truncated: it has only 3 bytes of bytecode"),
        ("{" * 5000, "brackets may nest at most 1000 deep, got 5000"),
        (NESTED.replace("(f32[], (", "(f64[], ("), "xlabuilder.parameters does not match @main"),
        (NESTED.replace('"((s32[2])', '"((s32[3])'), "xlabuilder.result does not match @main"),
        (NESTED.replace('"((s32[2])', '"((s32[2]'), "xlabuilder.* must contain shapes: shape text"),
        (NESTED.replace('"pred[]"]', "3]"), "xlabuilder.* must contain shapes, got 3"),
    ],
)
def test_text_that_is_not_a_module(text, message, capfd):
    data = text if isinstance(text, bytes) else text.encode()
    if "must contain shapes: " in message:
        with pytest.raises(ModuleFileError) as caught:
            lowering.load_bytes(data)
        assert message in str(caught.value)
    else:
        assert message in refused(data)
    assert capfd.readouterr() == ("", "")


def test_brackets_in_strings_do_not_count():
    text = "(" * 2000
    module = lowering.load_bytes(
        f'func.func @main() attributes {{foo.bar = "{text}\\""}} {{ return }}'
    )
    assert text in module.text


@pytest.mark.parametrize("kind", ["bytecode", "artifact", "text"])
def test_truncated_at_every_length(affine, kind, capfd):
    data = {
        "bytecode": affine.bytecode,
        "artifact": affine.artifact(),
        "text": AFFINE.rstrip().encode(),
    }[kind]
    for length in range(len(data)):
        refused(data[:length])
    lowering.load_bytes(data)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("kind", ["bytecode", "artifact"])
def test_changed_bytes_are_detected(affine, kind, capfd):
    data = affine.bytecode if kind == "bytecode" else affine.artifact()
    marks = [
        range(start, start + len(mark))
        for mark in (b"xlabuilder-crc32-", b"xlabuilder.checksum")
        for start in [data.find(mark)]
        if start >= 0
    ]
    assert len(marks) == (1 if kind == "bytecode" else 2)
    chosen = random.Random(1)
    for _ in range(300):
        position = chosen.randrange(len(data))
        if any(position in mark for mark in marks):
            continue  # the checksum itself is damaged: see the tests of foreign bytecode
        changed = bytearray(data)
        changed[position] ^= 1 << chosen.randrange(8)
        message = refused(bytes(changed))
        assert "damaged" in message or "is not text" in message
    assert capfd.readouterr() == ("", "")


def test_random_bytes(capfd):
    chosen = random.Random(2)
    for _ in range(100):
        refused(chosen.randbytes(chosen.randrange(1, 300)))
        refused(mlir.BYTECODE_MAGIC + chosen.randbytes(chosen.randrange(1, 300)))
    assert capfd.readouterr() == ("", "")


def test_the_checksum_is_removed_when_loading(affine):
    assert b"xlabuilder-crc32" in affine.bytecode
    assert "checksum" not in affine.text
    assert "checksum" not in lowering.load_bytes(affine.artifact()).text


def test_foreign_bytecode(affine, capfd):
    code = mlir.bytecode(affine.module)
    assert lowering.load_bytes(code).text == AFFINE
    artifact = artifacts.serialize_artifact(affine.module, "1.9.5", {})
    assert lowering.load_bytes(artifact).text == AFFINE
    # All sizes are unchanged, but the name of the function is invalid.
    message = refused(code.replace(b"stablehlo", b"stablehli"))
    assert message.startswith("the module: is not readable StableHLO: ")
    assert message.endswith(
        "\nfix: save the module again; it is truncated, damaged or from another program"
    )
    newer = artifact.replace(b"StableHLO_v1.9.5", b"StableHLO_v9.9.5")
    assert lowering.load_bytes(newer).text == AFFINE  # it uses nothing new
    newest = versions.current_version()
    assert refused(newer.replace(b"broadcast_in_dim_v1", b"broadcast_in_dim_v9")) == (
        f"the module: is written for StableHLO 9.9.5; the installed jaxlib reads up to {newest}\n"
        f"fix: install a newer jaxlib, or save the module with version={newest!r}"
    )
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("read_here")
def test_data_that_look_like_a_checksum():
    text = AFFINE.replace("bias of x", "not xlabuilder-crc32-00000000")
    module = lowering.load_bytes(text)
    assert lowering.load_bytes(module.bytecode).text == text
    assert lowering.load_bytes(module.artifact()).text == text


@pytest.mark.usefixtures("read_here")
def test_data_that_look_like_a_checksum_and_its_attribute():
    b = xb.XlaBuilder("names")
    x = b.parameter(xb.f32[2], "xlabuilder.checksum")
    module = lowering.lower(b.build(x + b.parameter(xb.f32[2], "xlabuilder-crc32-00000000")))
    assert lowering.load_bytes(module.bytecode).text == module.text


def test_a_helper_that_crashes_or_hangs(affine, monkeypatch, capfd):
    code = mlir.bytecode(affine.module)
    monkeypatch.setattr(helper_process, "HELPER", "import os; os.abort()")
    assert "is not readable StableHLO: the bytecode is inconsistent" in refused(code)
    monkeypatch.setattr(helper_process, "HELPER_SECONDS", 0.3)
    monkeypatch.setattr(helper_process, "HELPER", "import time; time.sleep(30)")
    assert "reading the file takes more than 0 seconds" in refused(code)
    assert capfd.readouterr() == ("", "")


def test_a_module_that_does_not_verify(affine):
    del (
        affine.module.body.operations[0]
        .regions[0]
        .blocks[0]
        .operations[0]
        .attributes["broadcast_dimensions"]
    )
    with pytest.raises(lowering.LoweringError, match="affine is not valid StableHLO: ") as caught:
        affine.verify()
    assert "\n" not in str(caught.value)


def test_nothing_is_logged_at_import():
    code = """
        import lowering
        lowering.compile(lowering.load_bytes("func.func @main() { return }"))()
    """
    done = run_python("-c", textwrap.dedent(code), env={"TF_CPP_MIN_LOG_LEVEL": None})
    assert (done.stdout, done.stderr) == ("", "")


ATTRIBUTES = """
module @plain {{
  func.func public @main(%a: {type} {{{argument}}}) -> {type} attributes {{{function}}} {{
    return %a : {type}
  }}
}}"""
FLAT = "tensor<2xf32>"

ODD_ATTRIBUTES = {
    "a name that is not UTF-8": (FLAT, r'xlabuilder.name = "\FF"', "", "?"),
    "a layout that is not UTF-8": (FLAT, r'mhlo.layout_mode = "\FF"', "", "arg0"),
    "a layout of many digits": (FLAT, f'mhlo.layout_mode = "{{{"9" * 5000}}}"', "", "arg0"),
    "another kind of name": (FLAT, "xlabuilder.name = 3 : i32", "", "arg0"),
    "parameters that are not UTF-8": (FLAT, "", r'xlabuilder.parameters = ["\FF"]', None),
    "parameters that are a number": (FLAT, "", "xlabuilder.parameters = 3 : i32", None),
    "parameters that are text": (FLAT, "", 'xlabuilder.parameters = "f32[2]"', None),
    "parameters that are a unit attribute": (FLAT, "", "xlabuilder.parameters", None),
    "names that are a number": (FLAT, "", "xlabuilder.parameter_names = 3 : i32", None),
    "a result that is a number": (FLAT, "", "xlabuilder.result = 3 : i32", None),
    "more elements than 64 bits count": ("tensor<9223372036854775807x4xf32>", "", "", None),
    "a bound below zero": ("tensor<?xf32, #stablehlo.bounds<-5>>", "", "", None),
    "bounds that multiply too far": (
        "tensor<?x?xf32, #stablehlo.bounds<9223372036854775807, 9223372036854775807>>",
        "",
        "",
        None,
    ),
    "text for an encoding": ('tensor<2xf32, "#stablehlo.bounds<x>">', "", "", None),
    "three bounds in text": ('tensor<2xf32, "#stablehlo.bounds<1,2,3>">', "", "", None),
}


@each_row("name", ODD_ATTRIBUTES)
def test_unusual_attributes(name: str) -> None:
    """The module has the expected name, or is refused with a ModuleFileError."""
    mlir_type, argument, function, parameter = ODD_ATTRIBUTES[name]
    text = ATTRIBUTES.format(type=mlir_type, argument=argument, function=function)
    try:
        module = lowering.load_bytes(text.encode())
    except lowering.ModuleFileError:
        assert parameter is None
    else:
        assert module.program_shape.parameter_names == (parameter,)


def test_a_module_name_that_is_not_utf_8() -> None:
    text = ATTRIBUTES.format(type=FLAT, argument="", function="").replace("@plain", r'@"\FF"')
    module = lowering.load_bytes(text.encode())
    assert module.name == "?"
    assert "?" in repr(module)


def test_a_pipe_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe.mlir")
    with pytest.raises(
        ModuleFileError, match="it is not a regular file\nfix: copy it into a regular file"
    ):
        lowering.load(tmp_path / "pipe.mlir")


def test_bytecode_with_aligned_resources_has_no_checksum():
    """A longer producer name would change the alignment to 64 bytes."""
    text = (
        "module {\n"
        "  func.func public @main() -> tensor<2xf32> {\n"
        "    %cst = stablehlo.constant dense_resource<numbers> : tensor<2xf32>\n"
        "    return %cst : tensor<2xf32>\n"
        "  }\n"
        "}\n"
        '{-# dialect_resources: { builtin: { numbers: "0x400000000000803F00000040" } } #-}\n'
    )
    module = lowering.load_bytes(text)
    assert module.bytecode == mlir.bytecode(module.module)


def test_a_module_that_calls_python_is_not_saved(tmp_path):
    b = xb.XlaBuilder("calling")
    x = b.parameter(xb.f32[2])
    module = lowering.lower(b.build(xb.python_call(lambda a: a, x, x.shape)))
    with pytest.raises(
        ModuleFileError, match=r"calling calls the Python function .*<lambda> \(.*:\d"
    ):
        module.save(tmp_path / "calling.mlir")
    assert not list(tmp_path.iterdir())
