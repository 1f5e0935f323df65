"""The sources of an import: modules, files of every format, exported functions of JAX.

jax 0.10.2 wrote `distances.jax_export` from

    rows, = jax.export.symbolic_shape("rows")

    def distances(x, y):
        each = jnp.sum((x - y) ** 2, axis=1)
        return each, jnp.argmin(each)

    jax.export.export(jax.jit(distances))(f32[rows, 3], f32[3]).serialize(vjp_order=1)

because jax's serialization requires a package that jax does not install.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from round_trip import same
from support import assert_identical
from tables import each_row

import builder as xb
import lowering
from lowering import ModuleFileError
from lowering.reading.exported import embedded_artifact

pytestmark = pytest.mark.usefixtures("read_here")

EXPORTED = Path(__file__).with_name("distances.jax_export")

X = np.array([[1, 2, 3], [0.5, 0, 2], [4, -1, 0], [1, 1, 1]], np.float32)
Y = np.array([1, 0, 2], np.float32)


def computation() -> xb.XlaComputation:
    b = xb.XlaBuilder("normalized")
    x, y = b.parameter(xb.f32[4, 3], "x"), b.parameter(xb.f32[3], "y")
    shifted = xb.sub(x, y, [1])
    return b.build(xb.tuple(shifted, xb.reduce(shifted, 0.0, xb.add, [1])))


@each_row("suffix", [".mlir", ".mlirbc", ".stablehlo"])
@each_row("as_text", [True, False])
def test_files_of_each_format_preserve_the_computation(
    tmp_path: Path, suffix: str, as_text: bool
) -> None:
    expected = computation()
    path = tmp_path / f"saved{suffix}"
    lowering.lower(expected).save(path)
    actual = lowering.to_computation(str(path) if as_text else path)
    # Text has no names and source lines of ops; the lines of the text are used.
    if suffix == ".mlir":
        assert lowering.lower(actual).text == lowering.lower(expected).text
        assert actual.program_shape == expected.program_shape
    else:
        assert same(actual, expected) is None


@each_row("version", ["0.9.0", "1.0.0", "1.9.0", "minimum", "current"])
def test_artifacts_of_each_version_preserve_the_computation(tmp_path: Path, version: str) -> None:
    path = tmp_path / "saved.stablehlo"
    lowering.lower(computation()).save(path, version=version)
    assert same(lowering.to_computation(path), computation()) is None


def test_a_file_of_jax(tmp_path: Path) -> None:
    """JAX's text and bytecode, which have no checksum."""

    def function(x: Any, y: Any) -> Any:
        return jnp.sum((x - y) ** 2, axis=1)

    jitted = jax.jit(function)
    lowered = jitted.lower(X, Y)
    (tmp_path / "jax.mlir").write_text(lowered.as_text())
    module = lowered.compiler_ir("stablehlo")
    with (tmp_path / "jax.mlirbc").open("wb") as file:
        module.operation.write_bytecode(file)
    for name in ("jax.mlir", "jax.mlirbc"):
        actual = lowering.to_computation(tmp_path / name)
        assert_identical(np.asarray(lowering.compile(actual)(X, Y)), np.asarray(jitted(X, Y)))


def nearest(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> tuple[Any, Any]:
    each = ((x - y) ** 2).sum(axis=1, dtype=np.float32)
    return each, np.int32(each.argmin())


@pytest.mark.parametrize("rows", [1, 4])
def test_a_serialized_export(rows: int) -> None:
    actual = lowering.to_computation(EXPORTED, argument_shapes=[xb.f32[rows, 3], "f32[3]"])
    results = lowering.compile(actual)(X[:rows], Y)
    for one, other in zip(results, nearest(X[:rows], Y), strict=True):
        assert_identical(np.asarray(one), np.asarray(other))


def test_a_serialized_export_is_loaded_as_a_module() -> None:
    module = lowering.load(EXPORTED)
    assert module.name == "jit_distances"
    assert str(module.program_shape.parameters[0]) == "f32[?,3]"
    assert lowering.load_bytes(EXPORTED.read_bytes()).text == module.text


def test_an_exported_object() -> None:
    shapes = jax.ShapeDtypeStruct((4, 3), np.float32), jax.ShapeDtypeStruct((3,), np.float32)

    @jax.jit
    def function(x: Any, y: Any) -> Any:
        return jnp.cumsum(x * y, axis=1)

    exported = export.export(function)(*shapes)
    actual = lowering.to_computation(exported)
    assert actual.name == "jit_function"
    assert_identical(np.asarray(lowering.compile(actual)(X, Y)), np.asarray(exported.call(X, Y)))


def test_an_exported_object_with_symbolic_sizes() -> None:
    (rows,) = export.symbolic_shape("rows")
    shapes = jax.ShapeDtypeStruct((rows, 3), np.float32), jax.ShapeDtypeStruct((3,), np.float32)

    @jax.jit
    def function(x: Any, y: Any) -> Any:
        return (x - y).reshape(-1), x.shape[0] * y

    exported = export.export(function)(*shapes)
    actual = lowering.to_computation(exported, argument_shapes=["f32[4,3]", "f32[3]"])
    for one, other in zip(lowering.compile(actual)(X, Y), exported.call(X, Y), strict=True):
        assert_identical(np.asarray(one), np.asarray(other))


def test_truncated_serialized_exports_are_refused() -> None:
    data = EXPORTED.read_bytes()
    whole = embedded_artifact(data)
    assert whole is not None
    end = data.index(whole) + len(whole)
    assert all(embedded_artifact(data[:length]) is None for length in range(end))
    assert embedded_artifact(data[:end]) == whole


def test_a_damaged_serialized_export_is_refused(tmp_path: Path) -> None:
    data = bytearray(EXPORTED.read_bytes())
    path = tmp_path / "damaged"
    for size in (3, 100, len(data) // 3):
        path.write_bytes(data[:size])
        with pytest.raises(ModuleFileError, match="damaged: is not StableHLO text"):
            lowering.to_computation(path)
    for place in range(8):  # the table and its offsets
        changed = bytearray(data)
        changed[place] ^= 0x80
        assert embedded_artifact(bytes(changed)) in (None, embedded_artifact(bytes(data)))


@each_row("source", [None, 3, ["a.mlir"], computation])
def test_other_values_are_refused(source: Any) -> None:
    with pytest.raises(xb.OperandError, match="to_computation: expected a module, a path"):
        lowering.to_computation(source)


def test_a_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "none.mlir"
    with pytest.raises(ModuleFileError, match=r"none\.mlir: can't be read: no such file"):
        lowering.to_computation(path)
