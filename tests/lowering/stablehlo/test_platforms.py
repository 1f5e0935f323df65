"""Modules for several platforms: `compile` passes the number of the device's platform."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax import export, lax
from tables import each_row

import lowering
from lowering.reading.exported import embedded_artifact, platforms_of

pytestmark = pytest.mark.usefixtures("read_here")

X = np.float32([1, 2])


@jax.jit
def by_platform(x: Any) -> Any:
    return lax.platform_dependent(
        x, cpu=lambda x: x + 1, cuda=lambda x: x + 2, rocm=lambda x: x + 3, tpu=lambda x: x + 4
    )


PLATFORMS = [("cpu", "cuda"), ("cuda", "cpu"), ("tpu", "rocm", "cuda", "cpu"), ("cpu",)]


def serialized(exported: export.Exported) -> bytes:
    """The fields of a serialized Exported that are read, as a FlatBuffers table.

    jax's own serialization requires a package that jax does not install.
    """
    offsets = struct.pack("<HH14H", 32, 12, *[0] * 9, 4, *[0] * 3, 8)
    table = struct.pack("<iII", len(offsets), 8, 0)  # the second offset is set below
    names = [platform.encode() for platform in exported.platforms]
    strings = [struct.pack("<I", len(name)) + name + b"\0" * (4 - len(name) % 4) for name in names]
    vector = struct.pack("<I", len(names))
    at = 4 * len(names)
    for number, string in enumerate(strings):
        vector += struct.pack("<I", at - 4 * number)
        at += len(string)
    vector += b"".join(strings)
    table = table[:8] + struct.pack("<I", 4 + len(vector))
    module = exported.mlir_module_serialized
    tail = vector + struct.pack("<I", len(module)) + module
    return struct.pack("<I", 4 + len(offsets)) + offsets + table + tail


@pytest.mark.slow
@pytest.mark.parametrize("platforms", PLATFORMS, ids=",".join)
def test_the_number_is_passed(platforms: tuple[str, ...], tmp_path: Path) -> None:
    exported = export.export(by_platform, platforms=platforms)(X)
    path = tmp_path / "exported"
    path.write_bytes(serialized(exported))
    expected = X + 1
    on_cpu = jax.device_put(X, jax.devices("cpu")[0])
    np.testing.assert_array_equal(jax.jit(exported.call)(on_cpu), expected)
    lowered = by_platform.trace(X).lower(lowering_platforms=platforms)
    for source in (exported, lowered, path, path.read_bytes(), lowering.load(path)):
        run = lowering.compile(source, "cpu")
        assert [str(shape) for shape in run.program_shape.parameters] == ["f32[2]"]
        np.testing.assert_array_equal(run(X), expected)


@each_row("platforms", PLATFORMS)
def test_serialized_platforms(platforms: tuple[str, ...]) -> None:
    exported = export.export(by_platform, platforms=platforms)(X)
    data = serialized(exported)
    assert embedded_artifact(data) == exported.mlir_module_serialized
    assert platforms_of(data) == platforms
    # A shorter table, which has no field for the module.
    assert embedded_artifact(data[:4] + struct.pack("<H", 20) + data[6:]) is None


def test_platforms_that_jax_wrote() -> None:
    data = Path(__file__).parent.with_name("importer").joinpath("distances.jax_export").read_bytes()
    assert platforms_of(data) == ("cpu",)
    assert lowering.load(data).platforms == ("cpu",)


def test_damaged_tables_have_no_platforms() -> None:
    data = serialized(export.export(by_platform, platforms=("cpu", "cuda"))(X))
    for size in range(4, 80):
        assert platforms_of(data[:size]) in ((), ("cpu", "cuda"))
    for at in range(4, 80):
        damaged = data[:at] + b"\xff\xff\xff\xff" + data[at + 4 :]
        assert all(isinstance(name, str) for name in platforms_of(damaged))


def test_the_module_does_not_change() -> None:
    module = lowering.load(export.export(by_platform, platforms=("cuda", "cpu"))(X))
    text = module.text
    lowering.compile(module, "cpu")
    assert module.text == text
    assert [str(shape) for shape in module.program_shape.parameters] == ["s32[]", "f32[2]"]


def test_other_platforms() -> None:
    exported = export.export(by_platform, platforms=("cuda", "tpu"))(X)
    message = r"jit_by_platform was exported for cuda, tpu, got .*(?s:.*)platforms=\[..., 'cpu'\]"
    with pytest.raises(lowering.CompileError, match=message):
        lowering.compile(exported, "cpu")


def test_modules_without_names_of_platforms_take_the_number() -> None:
    exported = export.export(by_platform, platforms=("cuda", "cpu"))(X)
    run = lowering.compile(exported.mlir_module(), "cpu")
    np.testing.assert_array_equal(run(np.int32(0), X), X + 2)
    np.testing.assert_array_equal(run(np.int32(1), X), X + 1)


@pytest.mark.parametrize("platforms", PLATFORMS, ids=",".join)
def test_imported_programs_behave_like_the_exported_ones(
    platforms: tuple[str, ...], tmp_path: Path
) -> None:
    exported = export.export(by_platform, platforms=platforms)(X)
    computation = lowering.to_computation(exported)
    names = computation.program_shape.parameter_names
    assert names == (("_platform_index", "x") if len(platforms) > 1 else ("x",))
    module = lowering.lower(computation)
    module.save(tmp_path / "f.stablehlo")
    sources = [computation, module, tmp_path / "f.stablehlo", lowering.to_computation(module)]
    lowering.load(exported).save(tmp_path / "g.mlir")
    for source in (*sources, tmp_path / "g.mlir"):
        run = lowering.compile(source, "cpu")
        assert [str(shape) for shape in run.program_shape.parameters] == ["f32[2]"]
        np.testing.assert_array_equal(run(X), X + 1)
    for source in sources[::2]:
        np.testing.assert_array_equal(lowering.interpret(source, X), X + 1)
        assert lowering.compare(source, X, device="cpu").agrees


def test_imported_programs_for_other_platforms() -> None:
    computation = lowering.to_computation(export.export(by_platform, platforms=("cuda", "tpu"))(X))
    for call in (lowering.compile, lowering.interpret):
        with pytest.raises(lowering.CompileError, match="was exported for cuda, tpu, got"):
            call(computation)


def test_sizes_of_programs_for_several_platforms() -> None:
    argument = jax.ShapeDtypeStruct(export.symbolic_shape("n"), np.float32)
    exported = export.export(by_platform, platforms=("cuda", "cpu"))(argument)
    computation = lowering.to_computation(exported, argument_shapes=["f32[2]"])
    for program in (computation, lowering.to_computation(exported)):
        run = lowering.compile(program, "cpu", argument_shapes=["f32[2]"])
        np.testing.assert_array_equal(run(X), X + 1)


def test_gradients_of_programs_for_several_platforms() -> None:
    function = jax.jit(lambda tree: (by_platform(tree["x"]) ** 2).sum())
    exported = export.export(function, platforms=("cuda", "cpu"))({"x": X})
    gradient = lowering.grad(lowering.to_computation(exported), "tree")
    np.testing.assert_array_equal(lowering.compile(gradient, "cpu")({"x": X})["x"], 2 * (X + 1))


def test_a_module_without_the_names_of_its_platforms(tmp_path: Path) -> None:
    path = tmp_path / "module"
    path.write_bytes(
        export.export(by_platform, platforms=("cuda", "cpu"))(X).mlir_module_serialized
    )
    run = lowering.compile(lowering.load(path), "cpu")
    np.testing.assert_array_equal(run(np.int32(1), X), X + 1)
    with pytest.raises(lowering.ArgumentError, match="pass the number of the platform first"):
        run(X)
