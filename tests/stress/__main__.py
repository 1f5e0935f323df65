"""Call and compile programs for minutes: in many threads, a million times, interrupted.

    python -m tests.stress --threads 8 --seconds 60 --calls 1000000

Exit status 1 if memory grows; an error ends it.
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
"""Bytes: noise of allocators. A million calls that leaked 8 bytes each would exceed it."""


def main() -> int:
    """Run it; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.stress", description=__doc__)
    parser.add_argument("--threads", type=int, default=8, help="how many threads (8)")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long they run (60)")
    parser.add_argument("--calls", type=int, default=1_000_000, help="how many calls (1000000)")
    parser.add_argument("--executables", type=int, default=1_000, help="how many programs (1000)")
    given = parser.parse_args()

    # First: memory that threads have returned to the allocator would hide growth.
    grown = False
    for what, count, growth in (
        ("calls", given.calls, running.growth_of_calls),
        ("programs compiled and dropped", given.executables, running.growth_of_executables),
    ):
        began = time.perf_counter()
        size = growth(count)
        passed = time.perf_counter() - began
        print(f"{count:,} {what}: {size / 1e6:+.2f} MB, {passed:.0f} s", flush=True)
        grown |= size > _MOST_GROWTH

    counted = running.call_and_compile(given.threads, given.seconds)
    done = ", ".join(f"{count:,} {what}" for what, count in counted.items())
    print(f"{given.threads} threads for {given.seconds:g} s: {done}", flush=True)

    run = lowering.compile(running.products(1_000))
    x = lowering.device_put(np.eye(300, dtype=np.float32))
    module = lowering.lower(running.waves(1_000))
    for what, work in (
        ("a run that is waited for", lambda: jax.block_until_ready(run(x))),
        ("compiling", lambda: lowering.compile(module)),
    ):
        began = time.perf_counter()
        work()
        whole = time.perf_counter() - began
        passed = running.interrupted(work, whole / 3)
        assert np.array_equal(run(x), x), "the next call"
        print(
            f"{what}, {whole:.2f} s, interrupted after {whole / 3:.2f} s: ended at {passed:.2f} s"
        )
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
