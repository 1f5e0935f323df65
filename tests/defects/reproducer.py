"""Reproducers of defects in XLA: StableHLO files with their arguments and expected results.

A file begins with comment lines:

    // DEFECT: one sentence.
    // ARGS: a NumPy expression for the tuple of arguments; omitted if there are none.
    // WANT: a NumPy expression for the tuple of expected results.
    // REPLICAS: the number of replicas, if not 1. WANT is then the results of each replica.
    // PARTITIONS: the number of partitions, if XLA partitions the module.
    // OBSERVED: 0.10 wrong, 0.12 right

OBSERVED has one word for each version of jaxlib that was tried, on CPU: "wrong" for other results,
"error" for an exception, "aborts" if the process ends, "hangs" if it takes minutes, or "right".
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

__all__ = ["FOLDER", "Reproducer", "all_reproducers", "differing_results", "read", "same"]

FOLDER = Path(__file__).parent / "reproducers"

_NAMES = {name: getattr(np, name) for name in np.__all__} | {"md": ml_dtypes}


class Reproducer(NamedTuple):
    """The content of one file.

    Attributes:
        name: the name of the file, without its extension.
        defect: one sentence.
        module: the text of the module, without the comment lines.
        arguments, want: arrays.
        replicas: the number of replicas.
        partitions: the number of partitions.
        observed: by version of jaxlib, such as "0.10".
        arguments_text, want_text: the expressions in the file.
    """

    name: str
    defect: str
    module: str
    arguments: tuple[Any, ...]
    want: tuple[Any, ...]
    replicas: int
    partitions: int
    observed: dict[str, str]
    arguments_text: str
    want_text: str


def read(name: str) -> Reproducer:
    """Read a reproducer by its name."""
    fields: dict[str, str] = {}
    lines = (FOLDER / f"{name}.mlir").read_text().splitlines()
    while lines[0].startswith("// "):
        key, _, value = lines.pop(0)[3:].partition(": ")
        fields[key] = value
    observed = dict(entry.split() for entry in fields["OBSERVED"].split(","))
    arguments, want = fields.get("ARGS", "()"), fields["WANT"]
    return Reproducer(
        name=name,
        defect=fields["DEFECT"],
        module="\n".join(lines) + "\n",
        arguments=_evaluate(arguments),
        want=_evaluate(want),
        replicas=int(fields.get("REPLICAS", "1")),
        partitions=int(fields.get("PARTITIONS", "1")),
        observed=observed,
        arguments_text=arguments,
        want_text=want,
    )


def all_reproducers() -> list[str]:
    """The names of all reproducers."""
    return sorted(path.stem for path in FOLDER.glob("*.mlir"))


def _evaluate(text: str) -> tuple[Any, ...]:
    values = eval(text, {"__builtins__": {}, **_NAMES, "range": range})
    assert isinstance(values, tuple), text
    return tuple(map(np.asarray, values))


def differing_results(reproducer: Reproducer) -> list[list[Any]]:
    """Compile and run a reproducer; return the results of the replicas that differ from WANT."""
    import lowering

    module, count = lowering.load_bytes(reproducer.module), reproducer.replicas
    if count == 1:
        program = lowering.compile(module, "cpu", num_partitions=reproducer.partitions)
        by_replica = [program(*reproducer.arguments)]
    else:
        program = lowering.compile(module, "cpu", num_replicas=count)
        by_replica = program(*([argument] * count for argument in reproducer.arguments))
    leaves = [list(r) if isinstance(r, (tuple, list)) else [r] for r in by_replica]
    return [values for values in leaves if not same(values, reproducer.want)]


def same(results: list[Any], want: tuple[Any, ...]) -> bool:
    """Whether results equal the expected ones, bit by bit."""

    def content(value: Any) -> Any:
        array = np.asarray(value)
        return array.dtype, array.shape, array.tobytes()

    return list(map(content, results)) == list(map(content, want))
