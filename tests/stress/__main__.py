"""Call and compile programs for minutes: in many threads, a million times, interrupted.

    python -m tests.stress --threads 8 --seconds 60 --calls 1000000

The exit status is 1 if memory grows or an error occurs.
"""

from __future__ import annotations

import argparse
import sys
import time

import jax
import numpy as np

import lowering
from tests.stress import running

_MOST_GROWTH = 8_000_000
"""A limit in bytes above the noise of allocators; a leak of 8 bytes in each call exceeds it."""


def main() -> int:
    """Run the tests and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.stress",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--threads", type=int, default=8, help="how many threads (8)")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long they run (60)")
    parser.add_argument("--calls", type=int, default=1_000_000, help="how many calls (1000000)")
    parser.add_argument("--executables", type=int, default=1_000, help="how many programs (1000)")
    options = parser.parse_args()

    # This is first, because memory that threads freed before would hide growth.
    grown = False
    for what, count, growth in (
        ("calls", options.calls, running.growth_of_calls),
        ("programs compiled and dropped", options.executables, running.growth_of_executables),
    ):
        start = time.perf_counter()
        size = growth(count)
        passed = time.perf_counter() - start
        print(f"{count:,} {what}: {size / 1e6:+.2f} MB, {passed:.0f} s", flush=True)
        grown |= size > _MOST_GROWTH

    counted = running.call_and_compile(options.threads, options.seconds)
    done = ", ".join(f"{count:,} {what}" for what, count in counted.items())
    print(f"{options.threads} threads for {options.seconds:g} s: {done}", flush=True)

    run = lowering.compile(running.products(1_000))
    x = lowering.device_put(np.eye(300, dtype=np.float32))
    module = lowering.lower(running.waves(1_000))
    for what, work in (
        ("a run that is waited for", lambda: jax.block_until_ready(run(x))),
        ("compiling", lambda: lowering.compile(module)),
    ):
        start = time.perf_counter()
        work()
        duration = time.perf_counter() - start
        passed = running.interrupted(work, duration / 3)
        assert np.array_equal(run(x), x), "the next call"
        print(
            f"{what}, {duration:.2f} s, interrupted after {duration / 3:.2f} s: "
            f"ended at {passed:.2f} s"
        )
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
