"""The arguments of a program as an .npz file, which `xlabuilder run --input` takes."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from builder.types.shape import ArrayShape, ProgramShape, leaves
from lowering.interpreter.evaluating import nested_value
from lowering.mlir.types import leaf_paths

Array = np.ndarray[Any, Any]


def npz_of_arrays(arrays: Mapping[str, Array]) -> bytes:
    """Return the content of an .npz file; of the types of ml_dtypes it has the raw bytes.

    NumPy can't read arrays of these types.
    """
    stored: dict[str, Any] = {
        name: array if array.dtype.isbuiltin == 1 else array.view(f"V{array.dtype.itemsize}")
        for name, array in arrays.items()
    }
    buffer = io.BytesIO()
    np.savez(buffer, **stored)
    return buffer.getvalue()


def npz_of_arguments(program: ProgramShape, arguments: Sequence[Any]) -> bytes:
    """Return an .npz file with each array of the arguments by its name, such as x[0][1]."""
    values = jax.tree.leaves(list(arguments))
    names = [name for name, _ in _arrays(program)]
    return npz_of_arrays(dict(zip(names, map(np.asarray, values), strict=True)))


def arguments_in(program: ProgramShape, path: Path) -> list[Any]:
    """Return the arguments of a program from a file that `npz_of_arguments` wrote."""
    with np.load(path) as file:
        arrays = iter([file[n].view(leaf.element_type.dtype) for n, leaf in _arrays(program)])
    return [nested_value(shape, lambda _: next(arrays)) for shape in program.parameters]


def _arrays(program: ProgramShape) -> Iterator[tuple[str, ArrayShape]]:
    """Yield the name and the shape of each array of the parameters; tokens are left out."""
    for name, shape in zip(program.parameter_names, program.parameters, strict=True):
        for path, leaf in zip(leaf_paths(shape), leaves(shape), strict=True):
            if isinstance(leaf, ArrayShape):
                yield f"{name}{path}", leaf
