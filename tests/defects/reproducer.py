"""Reproducers of defects in XLA: StableHLO files with their arguments and expected results.

A file begins with comment lines:

    // DEFECT: one sentence.
    // ARGS: a NumPy expression for the tuple of arguments; without the line there are none.
    // WANT: a NumPy expression for the tuple of results.
    // REPLICAS: on how many devices it runs, if not on one. WANT is then what each of them gives.
    // OBSERVED: 0.10 wrong, 0.12 right

An observation is one word for each jaxlib that was tried, on CPU: "wrong" for other results,
"error" for an exception, "aborts" for a process that ends, "hangs" after minutes, "right".
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

__all__ = ["FOLDER", "Reproducer", "all_reproducers", "read", "same"]

FOLDER = Path(__file__).parent / "reproducers"

_NAMES = {name: getattr(np, name) for name in np.__all__} | {"md": ml_dtypes}


class Reproducer(NamedTuple):
    """One file.

    Attributes:
        name: the file's, without its ending.
        defect: one sentence.
        module: the text of the module, without the comment lines.
        arguments, want: arrays.
        replicas: on how many devices it runs.
        observed: by version of jaxlib, such as "0.10".
        arguments_text, want_text: as the file has them.
    """

    name: str
    defect: str
    module: str
    arguments: tuple[Any, ...]
    want: tuple[Any, ...]
    replicas: int
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
    observed = dict(one.split() for one in fields["OBSERVED"].split(","))
    arguments, want = fields.get("ARGS", "()"), fields["WANT"]
    return Reproducer(
        name=name,
        defect=fields["DEFECT"],
        module="\n".join(lines) + "\n",
        arguments=_evaluated(arguments),
        want=_evaluated(want),
        replicas=int(fields.get("REPLICAS", "1")),
        observed=observed,
        arguments_text=arguments,
        want_text=want,
    )


def all_reproducers() -> list[str]:
    """The names of all reproducers."""
    return sorted(path.stem for path in FOLDER.glob("*.mlir"))


def _evaluated(text: str) -> tuple[Any, ...]:
    found = eval(text, {"__builtins__": {}, **_NAMES, "range": range})
    assert isinstance(found, tuple), text
    return tuple(map(np.asarray, found))


def same(results: list[Any], want: tuple[Any, ...]) -> bool:
    """Whether results are those that are wanted, bit by bit."""
    arrays = [np.asarray(one) for one in results]
    return len(arrays) == len(want) and all(
        (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
        for one, other in zip(arrays, want, strict=True)
    )
