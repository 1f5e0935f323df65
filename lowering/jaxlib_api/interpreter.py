"""StableHLO's reference interpreter."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from lowering.jaxlib_api.mlir import new_context
from lowering.jaxlib_api.versions import current_version

__all__ = [
    "interpreted",
    "interpreter_context",
    "interprets_fft",
]


def interpreter_context() -> ir.Context:
    """A fresh MLIR context that knows the interpreter's own operations besides all others.

    One of them is `interpreter.probe`, which writes its operand to a file.
    """
    context = new_context()
    stablehlo.register_interpreter_dialect(context)
    return context


def interpreted(
    module: ir.Module, arguments: Sequence[ir.Attribute], folder: str = ""
) -> list[Any]:
    """What StableHLO's reference interpreter gives for `@main`: NumPy arrays, or views of MLIR's.

    Of operations that it lacks the process is aborted, and of results whose elements MLIR has no
    Python type for, such as complex ones.

    Args:
        module: of a context that `interpreter_context` made.
        arguments: made by `elements_attribute`.
        folder: an empty folder, in which each probe that is met writes a file `probeN.npy`, and a
            line in `index.csv`: its name, its type, the file. Empty where there are no probes.
    """
    numpy: Any = importlib.import_module("numpy")
    return [numpy.array(one) for one in stablehlo.eval_module(module, list(arguments), folder)]


def interprets_fft() -> bool:
    """Whether the interpreter has Fourier transforms of all kinds: not in 0.10."""
    return tuple(map(int, current_version().split("."))) > (1, 17, 0)
