"""The C++ XlaBuilder in a process of its own, which is controlled by lines of JSON.

    PYTHON -m benchmarks.peer

It runs on the Python of --peer-python, which has an old jaxlib, no jax and not the dependencies of
this project. It imports only NumPy, jaxlib, `benchmarks.graphs`, `benchmarks.timing` and
`benchmarks.languages.xla_builder`. Its first line of output contains its versions. It answers each
request, ``{"graph": NAME, "size": N}``, with CPU seconds,
``{"xla_builder_record": S, "xla_builder_convert": S}``, or with ``{"error": TEXT}``.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from benchmarks.timing import keep_freed_memory, timed


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return the CPU seconds of recording and of conversion to MLIR."""
    from jaxlib import xla_client

    from benchmarks.graphs import GRAPHS
    from benchmarks.languages import xla_builder

    graph = GRAPHS[request["graph"]]
    record_seconds, computation = timed(xla_builder.record, graph, request["size"])
    convert = xla_client._xla.mlir.xla_computation_to_mlir_module
    convert_seconds, _ = timed(convert, computation)
    return {"xla_builder_record": record_seconds, "xla_builder_convert": convert_seconds}


def versions() -> dict[str, Any]:
    """Return the versions of Python and jaxlib, or an error if jaxlib has no XlaBuilder."""
    try:
        import jaxlib
        from jaxlib import xla_client
    except ImportError as error:
        return {"error": f"it has no jaxlib: {error}"}
    version = jaxlib.__version__
    if not hasattr(xla_client, "XlaBuilder"):
        return {"error": f"its jaxlib {version} has no XlaBuilder; fix: use jaxlib 0.4.30 or 0.6.0"}
    return {"Python": sys.version.split()[0], "jaxlib": version}


def main() -> None:
    """Answer requests until the input ends."""
    # Keeps the output of jaxlib out of the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    print(json.dumps(versions()), file=answers, flush=True)
    for line in sys.stdin:
        try:
            reply = answer(json.loads(line))
        except Exception as error:
            first = (str(error).splitlines() or [""])[0]
            reply = {"error": f"{type(error).__name__}: {first}"}
        print(json.dumps(reply), file=answers, flush=True)


if __name__ == "__main__":
    # As in the process with the other contenders.
    keep_freed_memory()
    main()
