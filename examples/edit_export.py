"""Edit a program that jax exported: run its matrix products with operands in bf16.

The file is imported op by op, some ops are replaced, and the result is saved and run. The source of
the jax function is not needed. Products inside of the functions that the program calls are replaced
too.

    python examples/edit_export.py
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import export

import builder as xb
import lowering


def narrow(op: xb.XlaOp, operands: Sequence[xb.XlaOp]) -> xb.XlaOp | None:
    """Return a product in f32 of operands that are rounded to bf16; None for any other op."""
    if op.opcode != "dot_general":
        return None
    lhs, rhs = (xb.convert(operand, xb.bf16) for operand in operands)
    numbers = op.attributes["dimension_numbers"]
    return xb.dot_general(lhs, rhs, numbers, preferred_element_type=xb.f32)


def narrowed(path: Path) -> xb.XlaComputation:
    """Import the program in a file; return it with narrow products."""
    return lowering.to_computation(path).replace(narrow, nested=True)


def model(x: Any, *weights: Any) -> Any:
    """Return the result of a jax program: layers that are functions of their own."""

    @jax.jit
    def layer(x: Any, w: Any) -> Any:
        return jax.nn.gelu(x @ w)

    *hidden, last = weights
    for w in hidden:
        x = layer(x, w)
    return jax.nn.softmax(x @ last)


def random_arguments(seed: int) -> list[np.ndarray]:
    """Return inputs and weights of the model."""
    random = np.random.default_rng(seed)
    sizes = [(16, 64), (64, 64), (64, 5)]
    weights = [random.normal(0, 1.5 / np.sqrt(s[0]), s) for s in sizes]
    return [x.astype(np.float32) for x in (random.normal(size=(8, 16)), *weights)]


def write_export(path: Path, arguments: Sequence[Any]) -> None:
    """Export the model for the shapes of the arguments, as users of jax do."""
    path.write_bytes(export.export(jax.jit(model))(*arguments).mlir_module_serialized)


def main() -> None:
    arguments = random_arguments(seed=0)
    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder, "model.mlirbc"), Path(folder, "narrow.stablehlo")
        write_export(before, arguments)
        edited = narrowed(before)
        lowering.lower(edited).save(after)
        print(f"products: {[str(op.shape) for op in edited.find('dot_general', nested=True)]}")
        results = [np.asarray(lowering.compile(path)(*arguments)) for path in (before, after)]
    print(f"largest difference of probabilities: {abs(results[0] - results[1]).max():.1e}")


if __name__ == "__main__":
    main()
