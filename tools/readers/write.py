"""Write programs to a folder, for tools/readers/read.py: files, arguments, and results.

    PYTHONPATH=$PWD python tools/readers/write.py FOLDER

The folder of each program has the arguments and results in arrays.npz, and a file for each of
`VARIANTS`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
from programs import Program, programs

import lowering

WITHOUT = ["batch_norm_grad", "batch_norm_training", "cholesky", "fft", "tan", "triangular_solve"]

VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "inline": {"composites": "inline"},
    "without": {"composites": "inline", "without": WITHOUT},
    "without_rounding": {"composites": "inline", "without": [*WITHOUT, "reduce_precision"]},
}


def write(program: Program, folder: Path) -> None:
    """Write a program's arrays and files."""
    computation = program.computation()
    results = lowering.compile(computation, "cpu")(*program.arguments)
    arrays = {}
    for kind, values in {"argument": program.arguments, "result": results}.items():
        for number, value in enumerate(jax.tree_util.tree_leaves(values)):
            arrays[f"{kind}_{number}"] = np.asarray(value)
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "arrays.npz", **arrays)
    for variant, options in VARIANTS.items():
        lowering.lower(computation).save(folder / f"{variant}.stablehlo", **options)


def main() -> None:
    folder = Path(sys.argv[1])
    for number, program in enumerate(programs()):
        kind, _, name = program.name.partition("/")
        print(program.name, flush=True)
        write(program, folder / f"{number:03} {kind} {name.replace('/', ' ')}")


if __name__ == "__main__":
    main()
