"""Program: run reproducers without rewrites, each in a process of its own.

Each line of the standard input is the name of a reproducer and a time limit in seconds. The line
that answers it is a JSON list: the exit status, or the negative number of the signal that ended the
process; and what it printed, which begins with "right", "wrong" or "error".

The processes are forks of this one, which has imported the modules and has not started XLA: a new
interpreter would need a second to import them.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback

import jax

import lowering
from lowering.legalize import bounded_ops, registry
from lowering.legalize.loaded_modules import accepted_types
from lowering.running import failures
from tests.defects.reproducer import differing_results, read


def run(name: str) -> None:
    """Run the reproducer `name` without rewrites and refusals."""
    reproducer = read(name)
    device_count = reproducer.replicas * reproducer.partitions
    if device_count > 1:
        jax.config.update("jax_num_cpu_devices", device_count)
    try:
        differing = differing_results(reproducer)
    except lowering.CompileError as error:
        print("error", error)
        return
    print("wrong", differing) if differing else print("right")


def run_in_fork(name: str, seconds: int) -> tuple[int, str]:
    """Return the exit status and the output of a process that runs the reproducer `name`."""
    output, write_end = os.pipe()
    process = os.fork()
    if process == 0:
        os.dup2(write_end, sys.stdout.fileno())
        signal.alarm(seconds)  # ends the process, wherever it is
        status = 0
        try:
            run(name)
        except BaseException:
            print(traceback.format_exc())
            status = 1
        sys.stdout.flush()
        os._exit(status)
    os.close(write_end)
    with os.fdopen(output, encoding="utf-8") as file:
        printed = file.read()
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), printed


def main() -> None:
    lowering.compile  # noqa: B018  (loads all modules that register rewrites)
    accepted_types("cpu")  # cached: the checks accept the types for which rewrites are defined
    registry.REWRITES.clear()
    registry.REFUSALS.clear()
    bounded_ops.BOUNDED.clear()
    # It would look for the operation in a new interpreter, which has the rewrites.
    failures.failing_operation = lambda *_: None
    for line in sys.stdin:
        name, seconds = line.split()
        print(json.dumps(run_in_fork(name, int(seconds))), flush=True)


if __name__ == "__main__":
    main()
