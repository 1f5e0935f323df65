"""Composites of `builder.lib.linalg` become calls of LAPACK and cuSOLVER."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jaxlib.mlir import ir
from library_calls import library_targets
from matrix_cases import matrices
from processes import run_python
from tables import each_row

import builder as xb
import lowering
from builder import lib
from lowering.legalize import legalize
from lowering.mlir.operations import call_target, operations_in


def recorded(shape: str) -> xb.XlaComputation:
    b = xb.XlaBuilder("recorded")
    return b.build(xb.tuple(*lib.lu(b.parameter(shape))[:2]))


@each_row(
    "shape, cpu, gpu",
    [
        ("f32[3,3]", "lapack_sgetrf_ffi", "cusolver_getrf_ffi"),
        ("f64[2,3,4]", "lapack_dgetrf_ffi", "cusolver_getrf_ffi"),
        ("c64[4,3]", "lapack_cgetrf_ffi", "cusolver_getrf_ffi"),
        ("c128[4,3]", "lapack_zgetrf_ffi", "cusolver_getrf_ffi"),
        ("bf16[4,3]", "lapack_sgetrf_ffi", "cusolver_getrf_ffi"),
    ],
)
def test_targets(shape: str, cpu: str, gpu: str) -> None:
    module = lowering.lower(recorded(shape))
    assert library_targets(module, "cpu") == [cpu]
    assert library_targets(module, "gpu") == [gpu]
    assert library_targets(module, "tpu") == ["composite"]
    assert "custom_call" not in module.text


SQUARE, PIVOTS = xb.f32[3, 3], xb.s32[3]


@each_row(
    "name, version, operands, results",
    [
        ("xlabuilder.lu", 2, [SQUARE], [SQUARE, PIVOTS]),
        ("mine.lu", 1, [SQUARE], [SQUARE, PIVOTS]),
        ("xlabuilder.lu", 1, [SQUARE], [SQUARE, xb.s32[2]]),
        ("xlabuilder.lu", 1, [SQUARE], [SQUARE, xb.f32[3]]),
        ("xlabuilder.lu", 1, [SQUARE], [SQUARE]),
        ("xlabuilder.lu", 1, [SQUARE, SQUARE], [SQUARE, PIVOTS]),
        ("xlabuilder.lu", 1, [xb.f32[3]], [xb.f32[3], PIVOTS]),
        ("xlabuilder.lu", 1, [xb.f16[3, 3]], [xb.f16[3, 3], PIVOTS]),
        ("xlabuilder.lu", 1, [xb.f32[3]], [SQUARE, PIVOTS]),
        ("xlabuilder.lu", 1, [xb.parse_shape("f32[<=3,3]")], [SQUARE, PIVOTS]),
        ("xlabuilder.lu", 1, [xb.f32[0, 3]], [xb.f32[0, 3], xb.s32[0]]),
    ],
)
def test_other_composites_are_not_replaced(
    name: str, version: int, operands: list[xb.ArrayShape], results: list[xb.ArrayShape]
) -> None:
    """The version, and the number, shapes and types of all values must be the routine's."""
    inner, b = xb.XlaBuilder("inner"), xb.XlaBuilder("recorded")
    for shape in operands:
        inner.parameter(shape)
    inside = inner.build(xb.tuple(*(lib.zeros(inner, shape) for shape in results)))
    given = [b.parameter(shape) for shape in operands]
    root = xb.composite_call(inside, given, name, version=version)
    assert library_targets(lowering.lower(b.build(root)), "cpu") == ["composite"]


@each_row(
    "element_type, cpu",
    [
        ("f32", ["lapack_sgeqrf_ffi", "lapack_sorgqr_ffi"]),
        ("f64", ["lapack_dgeqrf_ffi", "lapack_dorgqr_ffi"]),
        ("c64", ["lapack_cgeqrf_ffi", "lapack_cungqr_ffi"]),
        ("c128", ["lapack_zgeqrf_ffi", "lapack_zungqr_ffi"]),
    ],
)
def test_targets_of_qr(element_type: str, cpu: list[str]) -> None:
    b = xb.XlaBuilder("recorded")
    module = lowering.lower(b.build(xb.tuple(*lib.qr(b.parameter(f"{element_type}[2,4,3]")))))
    assert library_targets(module, "cpu") == cpu
    assert library_targets(module, "gpu") == ["cusolver_geqrf_ffi", "cusolver_orgqr_ffi"]
    assert library_targets(module, "tpu") == ["composite", "composite"]


CALLS: dict[str, tuple[Any, Any]] = {
    "lu": (lambda a: xb.tuple(*lib.lu(a)), jax.lax.linalg.lu),
    "qr": (lambda a: xb.tuple(*lib.qr(a)), jax.lax.linalg.qr),
    "eigh": (lambda a: xb.tuple(*lib.eigh(a)), jax.lax.linalg.eigh),
    "svd": (lambda a: xb.tuple(*lib.svd(a)), jax.lax.linalg.svd),
    "thin_svd": (
        lambda a: xb.tuple(*lib.svd(a, full_matrices=False)),
        lambda a: jax.lax.linalg.svd(a, full_matrices=False),
    ),
}


def first_call(operation: ir.Operation) -> tuple[str | None, set[str], list[str]]:
    """Return the target, the names and types of the attributes, and the types of the results."""
    call = next(iter(operations_in(operation, ("stablehlo.custom_call",))))
    name = "mhlo.backend_config"
    config = call.attributes[name if name in call.attributes else "backend_config"]
    attributes = {f"{one.name}: {getattr(one.attr, 'type', '')}" for one in ir.DictAttr(config)}
    return call_target(call), attributes, [str(result.type) for result in call.results]


@each_row("name", CALLS)
@each_row("platform, in_jax", [("cpu", "cpu"), ("gpu", "cuda")])
def test_calls_are_those_of_jax(name: str, platform: str, in_jax: str) -> None:
    """A routine has the attributes and results that jax gives it, on platforms not tested on too.

    The matrix is so tall that jax does not choose another routine of cuSOLVER for it.
    """
    ours, theirs = CALLS[name]
    sizes = (2, 4, 4) if name == "eigh" else (2, 1500, 3)
    b = xb.XlaBuilder("recorded")
    module = lowering.lower(b.build(ours(b.parameter(xb.c64[sizes]))))
    given = jax.ShapeDtypeStruct(sizes, "complex64")
    traced = jax.jit(theirs).trace(given).lower(lowering_platforms=(in_jax,))
    wanted = first_call(traced.compiler_ir("stablehlo").operation)
    assert first_call(legalize(module.module, "recorded", platform).operation) == wanted


def test_decompositions_of_replaced_composites_are_dropped() -> None:
    """Also the functions that only they call; those of other composites remain."""
    b = xb.XlaBuilder("recorded")
    module = lowering.lower(
        b.build(xb.tuple(*lib.svd(b.parameter("f32[4,3]"), full_matrices=False)))
    )
    assert len(functions_of(module.module.operation)) > 1
    for platform, count in (("cpu", 1), ("gpu", 1)):
        assert len(functions_of(legalize(module.module, "recorded", platform).operation)) == count
    kept = legalize(module.module, "recorded", "tpu").operation
    assert functions_of(kept) == functions_of(module.module.operation)


def functions_of(operation: ir.Operation) -> list[str]:
    return [str(one.attributes["sym_name"]) for one in operations_in(operation, ("func.func",))]


def test_files_hold_the_composite(tmp_path: Path) -> None:
    module = lowering.lower(recorded("f64[2,5,4]"))
    a = matrices((2, 5, 4), np.float64)
    want = [np.asarray(part) for part in lowering.compile(module, "cpu")(a)]
    module.save(tmp_path / "lu.mlirbc")
    (tmp_path / "lu.artifact").write_bytes(module.artifact())
    for path in tmp_path.iterdir():
        loaded = lowering.load(path)
        assert loaded.text.count('stablehlo.composite "xlabuilder.lu"') == 1
        computation = lowering.to_computation(loaded)
        for file in (loaded, computation, lowering.from_hlo(computation.to_hlo_text())):
            result = lowering.compile(file, "cpu")(a)
            assert all(map(np.array_equal, want, map(np.asarray, result)))


def test_the_interpreter_runs_the_decomposition() -> None:
    computation = recorded("f32[2,5,4]")
    a = matrices((2, 5, 4))
    want = lowering.compile(computation, "cpu")(a)
    factors, pivots = lowering.interpret(computation, a)
    np.testing.assert_allclose(factors, want[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(pivots, want[1])


PROGRAM = """
import numpy as np
import builder as xb, lowering
from builder import lib
b = xb.XlaBuilder("lu")
program = lowering.compile(b.build(xb.tuple(*lib.lu(b.parameter("f32[2,2]")))), "cpu")
print(program(np.array([[1, 2], [4, 4]], np.float32))[0].tolist())
"""


@pytest.mark.slow
def test_lapack_is_loaded_in_a_fresh_process() -> None:
    assert run_python("-c", PROGRAM).stdout == "[[4.0, 4.0], [0.25, 1.0]]\n"


@pytest.mark.parametrize("lower", [False, True])
def test_triangular_solves_of_cpus(lower: bool) -> None:
    """GPUs run XLA's own kernels."""
    b = xb.XlaBuilder("recorded")
    root = lib.cholesky_solve(b.parameter("c64[3,3]"), b.parameter("c64[3]"), lower)
    module = lowering.lower(b.build(root))
    assert library_targets(module, "cpu") == ["lapack_ctrsm_ffi"] * 2
    assert library_targets(module, "gpu") == ["composite"] * 2


@pytest.mark.parametrize(
    "attributes", [None, {"lower": 1, "unit_diagonal": True, "transpose_a": "ADJOINT"}]
)
def test_attributes_that_a_routine_does_not_support(attributes: dict[str, object] | None) -> None:
    b = xb.XlaBuilder("recorded")
    given = [b.parameter(SQUARE), b.parameter(SQUARE)]
    name = "xlabuilder.triangular_solve"
    root = xb.composite_call(lambda a, b: b - a, given, name, attributes, 1)
    assert library_targets(lowering.lower(b.build(root)), "cpu") == ["composite"]


def test_tridiagonal_solves_of_cpus() -> None:
    b = xb.XlaBuilder("recorded")
    diagonal = b.parameter("f64[1,3]")
    module = lowering.lower(b.build(lib.tridiagonal_solver(*[diagonal] * 4)))
    assert library_targets(module, "cpu") == ["lapack_dgtsv_ffi"]
    assert library_targets(module, "gpu") == ["composite"]


def test_sharded_batches() -> None:
    """Programs that XLA partitions have the results of one device."""
    mesh = jax.sharding.Mesh(np.array(jax.devices("cpu")[:2]), ("batch",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("batch"))
    given = [matrices((4, 3, 3)), matrices((4, 3, 2))]

    def record(a: xb.XlaOp, b: xb.XlaOp) -> tuple[xb.XlaOp, ...]:
        return (*lib.qr(a), lib.solve(a, b))

    sharded = [jax.device_put(array, sharding) for array in given]
    results = lowering.jit(record, num_partitions=2)(*sharded)
    for result, want in zip(results, lowering.jit(record)(*given), strict=True):
        np.testing.assert_array_equal(result, want)


@pytest.mark.parametrize("lower", [False, True])
def test_cholesky_of_cpus(lower: bool) -> None:
    """The other triangle is 0; a matrix that is not positive definite gives NaNs only."""
    b = xb.XlaBuilder("recorded")
    module = lowering.lower(b.build(xb.cholesky(b.parameter("c128[3,4,4]"), lower)))
    assert library_targets(module, "cpu") == ["lapack_zpotrf_ffi"]
    assert library_targets(module, "gpu") == []
    a = matrices((3, 4, 4), np.complex128)
    a = a @ np.swapaxes(a.conj(), 1, 2)
    a[1] *= -1
    factor = np.asarray(lowering.compile(module, "cpu")(a))
    assert np.isnan(factor[1]).all()
    for index in (0, 2):
        want = np.linalg.cholesky(a[index])
        np.testing.assert_allclose(factor[index], want if lower else want.conj().T, atol=1e-12)


def test_cholesky_in_a_file_without_its_optional_attribute() -> None:
    """The default of `lower` is false."""
    text = """func.func @main(%a: tensor<2x2xf32>) -> tensor<2x2xf32> {
      %0 = "stablehlo.cholesky"(%a) : (tensor<2x2xf32>) -> tensor<2x2xf32>
      return %0 : tensor<2x2xf32> }"""
    factor = lowering.compile(lowering.load_bytes(text))(np.array([[4, 2], [2, 5]], np.float32))
    np.testing.assert_allclose(factor, [[2, 1], [0, 2]])


@each_row("shape", ["f16[3,3]", "f32[0,0]", "f64[2,0,0]"])
def test_cholesky_without_lapack(shape: str) -> None:
    b = xb.XlaBuilder("recorded")
    module = lowering.lower(b.build(xb.cholesky(b.parameter(shape))))
    assert library_targets(module, "cpu") == []
