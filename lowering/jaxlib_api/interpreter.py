"""Call StableHLO's reference interpreter."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from lowering.jaxlib_api.mlir import new_context


def interpreter_context() -> ir.Context:
    """Return a new MLIR context that includes the interpreter's own operations.

    One of them is `interpreter.probe`, which writes its operand to a file.
    """
    context = new_context()
    stablehlo.register_interpreter_dialect(context)
    return context


def interpreted(
    module: ir.Module, arguments: Sequence[ir.Attribute], folder: str = ""
) -> list[Any]:
    """Evaluate `@main` with StableHLO's reference interpreter; return NumPy arrays.

    Unsupported operations abort the process, and so do results whose element type has no Python
    type in MLIR, such as complex numbers.

    Args:
        module: a module in a context of `interpreter_context`.
        arguments: the results of `elements_attribute`.
        folder: an empty folder, or "" if the module has no probes. Each executed probe writes a
            file `probeN.npy` there, and a line in `index.csv`: the probe's name, the type of the
            value, the file.
    """
    numpy: Any = importlib.import_module("numpy")
    return [numpy.array(value) for value in stablehlo.eval_module(module, list(arguments), folder)]
