"""The C++ XlaBuilder, in a process of its own that is asked by lines of JSON.

    PYTHON -m benchmarks.peer

It runs on the Python that --peer-python names, which has an old jaxlib and neither jax nor what
this project needs: besides NumPy it imports `benchmarks.graphs` and
`benchmarks.languages.xla_builder` alone. The first line that it writes says its versions; then each
request, ``{"graph": NAME, "size": N}``, gets an answer with the seconds that the processor worked:
``{"xla_builder_record": S, "xla_builder_convert": S}``, or ``{"error": TEXT}``.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from benchmarks.timing import keep_freed_memory, timed


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The seconds that recording and conversion to MLIR take."""
    from jaxlib import xla_client

    from benchmarks.graphs import GRAPHS
    from benchmarks.languages import xla_builder

    graph = GRAPHS[request["graph"]]
    recorded, computation = timed(xla_builder.record, graph, request["size"])
    convert = xla_client._xla.mlir.xla_computation_to_mlir_module
    converted, _ = timed(convert, computation)
    return {"xla_builder_record": recorded, "xla_builder_convert": converted}


def versions() -> dict[str, Any]:
    """The versions of Python and jaxlib, or why the C++ XlaBuilder is not here."""
    try:
        import jaxlib
        from jaxlib import xla_client
    except ImportError as error:
        return {"error": f"it has no jaxlib: {error}"}
    version = jaxlib.__version__
    if not hasattr(xla_client, "XlaBuilder"):
        return {"error": f"its jaxlib {version} has no XlaBuilder; 0.4.30 and 0.6.0 have"}
    return {"Python": sys.version.split()[0], "jaxlib": version}


def main() -> None:
    """Answers until there are no more requests."""
    # What jaxlib prints must not get among the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    print(json.dumps(versions()), file=answers, flush=True)
    for line in sys.stdin:
        try:
            found = answer(json.loads(line))
        except Exception as error:
            first = (str(error).splitlines() or [""])[0]
            found = {"error": f"{type(error).__name__}: {first}"}
        print(json.dumps(found), file=answers, flush=True)


if __name__ == "__main__":
    # As in the process that it is compared with.
    keep_freed_memory()
    main()
