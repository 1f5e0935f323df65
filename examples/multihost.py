"""Trains on the devices of several processes, on one machine or on many: all run this script.

Every process says where the first one listens, how many there are, and which it is:

    python examples/multihost.py --coordinator HOST:PORT --processes 2 --process 0
    python examples/multihost.py --coordinator HOST:PORT --processes 2 --process 1

On a TPU pod, and under Slurm or Open MPI, jax finds that out, and nothing is to be said. Where it
finds nothing, the process computes alone. docs/distributed.md says more.

First the devices add up numbers, with one `all_reduce`. Then they train the classifier of
digits.py: the step is recorded as for one device, and that each minibatch is cut up over all of
them is said where its images and labels come in. XLA finds out the rest.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import digits
import jax
import numpy as np

import builder as xb
import lowering


def read_options(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--coordinator", help="host and port at which process 0 listens")
    parser.add_argument("--processes", type=int, help="how many there are")
    parser.add_argument("--process", type=int, help="which of them this is: 0, 1, ...")
    parser.add_argument("--cpu-devices", type=int, default=2, help="as how many a CPU counts")
    parser.add_argument("--patience", type=int, default=30, help="seconds to wait for the dead")
    parser.add_argument("--steps", type=int, default=90)
    options = parser.parse_args(arguments)
    said = [options.coordinator, options.processes, options.process]
    # Without the coordinator, say, each process would train alone, and nobody would notice.
    if any(one is not None for one in said) and None in said:
        parser.error("--coordinator, --processes and --process are given together, or none of them")
    if options.coordinator is not None and ":" not in options.coordinator:
        parser.error(f"--coordinator must be HOST:PORT, got {options.coordinator}")
    if options.coordinator is not None and not 0 <= options.process < options.processes:
        parser.error("--process must be 0 or more, and less than --processes")
    if options.cpu_devices < 1:
        parser.error("--cpu-devices must be 1 or more")
    return options


def connect(options: argparse.Namespace) -> None:
    """Finds the other processes, before jax is first used."""
    jax.config.update("jax_num_cpu_devices", options.cpu_devices)
    try:
        jax.distributed.initialize(
            options.coordinator,
            options.processes,
            options.process,
            # If a process dies, the others end with an error after so long at the latest.
            heartbeat_timeout_seconds=options.patience,
            # So too if one ends with an error of its own, and waits for the others to end as well.
            shutdown_timeout_seconds=options.patience,
        )
    except ValueError:
        if options.coordinator is not None:
            raise  # else there is no cluster that jax knows of: this process computes alone
    else:
        # How CPUs of several processes exchange data; GPUs and TPUs have their own ways.
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
    there = lowering.devices(all_processes=True)
    tell(
        f"process {jax.process_index()} of {jax.process_count()} has {len(lowering.devices())} of "
        f"{len(there)} devices, {there[0].device_kind}"
    )


def tell(text: str) -> None:
    print(text, flush=True)  # at once: the process may be killed


def add_up() -> float:
    """The sum of 1, 4, 9, ..., a number on each of all devices: one of the equal results."""
    b = xb.XlaBuilder("add_up")
    x = b.parameter(xb.f32[()], "x")
    count = len(lowering.devices(all_processes=True))
    run = lowering.compile(b.build(xb.all_reduce(x, xb.add)), num_replicas=count, results="sharded")
    # One global array, of which each process makes the rows that its devices have.
    squares = np.arange(1, count + 1, dtype=np.float32) ** 2
    given = jax.make_array_from_callback((count,), run.sharding, lambda index: squares[index])
    return float(run(given).addressable_shards[0].data[0])


def training_step(devices: int) -> xb.XlaComputation:
    """(images, labels, state) -> (mean loss, new state), a minibatch cut up over the devices."""
    mesh = xb.Mesh({"data": devices})
    rows, whole = mesh.sharding("data", None), mesh.sharding()
    b = xb.XlaBuilder("training_step")
    x = b.parameter(xb.f32[digits.BATCH, digits.PIXELS], "images", sharding=rows)
    y = b.parameter(xb.f32[digits.BATCH, digits.CLASSES], "labels", sharding=rows)
    state = b.parameter(digits.STATE, "state", sharding=whole)
    parameters, velocities = state
    loss, gradients = digits.loss_and_gradients(x, y, list(parameters))
    pulled = [v * digits.MOMENTUM + g for v, g in zip(velocities, gradients, strict=True)]
    moved = [p - v * digits.LEARNING_RATE for p, v in zip(parameters, pulled, strict=True)]
    root = xb.tuple(loss, xb.tuple(xb.tuple(*moved), xb.tuple(*pulled)))
    return b.build(root, result_sharding=whole)


def train(steps: int) -> Iterator[float]:
    """The loss of each step, on all devices of all processes."""
    count = len(lowering.devices(all_processes=True))
    step = lowering.compile(training_step(count), num_partitions=count, donate=["state"])
    images, labels, _, _ = digits.load_digits()
    state: Any = digits.first_state(seed=0)
    for number in range(steps):
        x = images[number % digits.BATCHES].reshape(digits.BATCH, digits.PIXELS)
        y = labels[number % digits.BATCHES].reshape(digits.BATCH, digits.CLASSES)
        # All processes have all images here; of a NumPy array each puts its own rows.
        loss, state = step(x, y, state)
        yield float(loss)


def main() -> None:
    options = read_options()
    connect(options)
    tell(f"the squares add up to {add_up():g}")
    for number, loss in enumerate(train(options.steps)):
        if number % 10 == 9:
            tell(f"step {number + 1}: loss {loss:.5f}")


if __name__ == "__main__":
    main()
