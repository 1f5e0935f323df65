"""Artifacts that earlier releases wrote are read, with everything that attributes of ours mean.

`saved_by` has two artifacts for each release. This module, run as a program, writes that of the
current version. No artifact is ever replaced: docs/stability.md promises that each 1.x reads those
that every earlier 1.x wrote.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import builder as xb
import lowering
from builder import lib

FOLDER = Path(__file__).parent / "saved_by"
RELEASES = sorted(path.name.removesuffix("_trees.stablehlo") for path in FOLDER.glob("*_trees.*"))

W = np.array([[2, 1], [0, 3]], np.float32)
B = np.array([[1, 2], [3, 5]], np.float32)
X = np.array([[1, 2], [3, 4]], np.float32)
ARGUMENTS = {"w": W, "b": [B, None]}, X


def program(params: Any, x: Any, *, scale: Any) -> Any:
    """Use what an artifact can only keep in attributes and names of ours."""
    w = lib.stop_gradient(params["w"])
    y = xb.dot(x, w) * scale + params["b"][0]
    xb.debug_print("y is {}", y)
    xb.check(lib.all(y < 100.0), "y must be below 100, got {}", y)
    pivots = lib.lu(w)[1]
    r = xb.abs(lib.qr(w)[1])
    eigenvalues = lib.eigvalsh(xb.dot(w, xb.transpose(w, (1, 0))))
    singular = lib.svdvals(w)
    return {"y": y, "factors": [(pivots, r), None], "values": (eigenvalues, singular)}


def tuples() -> xb.XlaComputation:
    """Return a computation whose parameter and result are nested."""
    b = xb.XlaBuilder("tuples")
    pair = b.parameter(xb.tuple_shape([xb.f32[2], xb.tuple_shape([xb.s32[3]])]), "pair")
    first, (second,) = pair
    number = b.parameter(xb.f32[2], "number")
    return b.build(xb.tuple([xb.tuple([second]), first - number]))


def write(folder: Path) -> None:
    """Write the artifacts of this version, unless they exist."""
    modules = {
        "trees": lowering.jit(program).lower(*ARGUMENTS, scale=np.float32(2)),
        "tuples": lowering.lower(tuples()),
    }
    for kind, module in modules.items():
        path = folder / f"{xb.__version__}_{kind}.stablehlo"
        if path.exists():
            raise FileExistsError(path)
        module.save(path)


def load(release: str, kind: str) -> lowering.StablehloModule:
    return lowering.load(FOLDER / f"{release}_{kind}.stablehlo")


@pytest.mark.parametrize("release", RELEASES)
def test_trees(release: str, capfd: pytest.CaptureFixture[str]) -> None:
    module = load(release, "trees")
    names = ["params['b'][0]", "params['w']", "x", "scale"]
    assert list(module.program_shape.parameter_names) == names
    found = lowering.compile(module)(*ARGUMENTS, scale=np.float32(2))
    y = 2 * X @ W + B
    (pivots, r), nothing = found["factors"]
    eigenvalues, singular = found["values"]
    assert nothing is None
    np.testing.assert_array_equal(found["y"], y)
    np.testing.assert_array_equal(pivots, scipy.linalg.lu_factor(W)[1])
    np.testing.assert_allclose(r, abs(np.linalg.qr(W)[1]), rtol=1e-6)
    np.testing.assert_allclose(eigenvalues, np.linalg.eigvalsh(W @ W.T), rtol=1e-6)
    np.testing.assert_allclose(singular, np.linalg.svd(W)[1], rtol=1e-6)
    assert "y is [[" in capfd.readouterr().out
    with pytest.raises(lowering.ExecutionError, match=r"y must be below 100, got"):
        lowering.compile(module)(*ARGUMENTS, scale=np.float32(100))


@pytest.mark.parametrize("release", RELEASES)
def test_derivatives(release: str) -> None:
    computation = lowering.to_computation(load(release, "trees"))
    b = xb.XlaBuilder()
    operands = [b.parameter(shape) for shape in computation.program_shape.parameters]
    results = xb.call(computation, *operands)
    y = xb.get_tuple_element(results, 4)
    _, w_gradient, x_gradient, _ = lowering.gradients(lib.sum(y), operands)
    gradients = b.build(xb.tuple([w_gradient, x_gradient]))
    of_w, of_x = lowering.compile(gradients)(B, W, X, np.float32(2))
    np.testing.assert_array_equal(of_w, np.zeros_like(W))  # of stop_gradient
    np.testing.assert_array_equal(of_x, 2 * np.ones((2, 2), np.float32) @ W.T)


@pytest.mark.parametrize("release", RELEASES)
def test_tuples(release: str) -> None:
    module = load(release, "tuples")
    assert str(module.program_shape) == str(tuples().program_shape)
    found = lowering.compile(module)((X[0], (np.arange(3, dtype=np.int32),)), X[1])
    np.testing.assert_array_equal(found[0][0], [0, 1, 2])
    np.testing.assert_array_equal(found[1], X[0] - X[1])


def test_the_first_release_has_artifacts() -> None:
    assert "1.0.0rc1" in RELEASES


if __name__ == "__main__":
    write(FOLDER)
