"""Train on the devices of several processes, on one machine or several. All run this script.

The arguments are the address of process 0, the number of processes, and the index of this one:

    python examples/multihost.py --coordinator HOST:PORT --processes 2 --process 0
    python examples/multihost.py --coordinator HOST:PORT --processes 2 --process 1

On a TPU pod, and under Slurm or Open MPI, jax detects these, and no arguments are needed. Otherwise
the process computes alone. See docs/distributed.md.

First the devices add numbers, with an `all_reduce`. Then they train the classifier of digits.py.
The step is recorded as for one device. The shardings of the parameters for images and labels divide
each minibatch among all devices, and XLA partitions the step accordingly.
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
    parser.add_argument("--coordinator", help="host and port on which process 0 listens")
    parser.add_argument("--processes", type=int, help="number of processes")
    parser.add_argument("--process", type=int, help="index of this process: 0, 1, ...")
    parser.add_argument("--cpu-devices", type=int, default=2, help="number of devices on a CPU")
    parser.add_argument("--patience", type=int, default=30, help="seconds to wait for others")
    parser.add_argument("--steps", type=int, default=90)
    options = parser.parse_args(arguments)
    cluster = [options.coordinator, options.processes, options.process]
    # With only some of them, each process would train alone, without an error.
    if None in cluster and any(value is not None for value in cluster):
        parser.error("--coordinator, --processes and --process must be used together")
    if options.coordinator is not None and ":" not in options.coordinator:
        parser.error(f"--coordinator must be HOST:PORT, got {options.coordinator}")
    if options.coordinator is not None and not 0 <= options.process < options.processes:
        parser.error("--process must be 0 or more, and less than --processes")
    if options.cpu_devices < 1:
        parser.error("--cpu-devices must be 1 or more")
    return options


def connect(options: argparse.Namespace) -> None:
    """Connect to the other processes. Call this before jax initializes its devices."""
    jax.config.update("jax_num_cpu_devices", options.cpu_devices)
    try:
        jax.distributed.initialize(
            options.coordinator,
            options.processes,
            options.process,
            # If a process crashes, the others exit with an error after this time.
            heartbeat_timeout_seconds=options.patience,
            # A process that exits with an error waits this long for the others.
            shutdown_timeout_seconds=options.patience,
        )
    except ValueError:
        if options.coordinator is not None:
            raise  # without a coordinator: jax detected no cluster, so this process computes alone
    else:
        # The collectives between CPUs of several processes. GPUs and TPUs have their own.
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
    devices = lowering.devices(all_processes=True)
    print_now(
        f"process {jax.process_index()} of {jax.process_count()} has {len(lowering.devices())} of "
        f"{len(devices)} devices, {devices[0].device_kind}"
    )


def print_now(text: str) -> None:
    print(text, flush=True)  # the process may be killed


def add_squares() -> float:
    """Return the sum of 1, 4, 9, ..., with a number on each device of all processes."""
    b = xb.XlaBuilder("add_squares")
    x = b.parameter(xb.f32[()], "x")
    count = len(lowering.devices(all_processes=True))
    run = lowering.compile(b.build(xb.all_reduce(x, xb.add)), num_replicas=count, results="sharded")
    # A global array. Each process makes the rows of its devices.
    squares = np.arange(1, count + 1, dtype=np.float32) ** 2
    rows = jax.make_array_from_callback((count,), run.sharding, lambda index: squares[index])
    return float(run(rows).addressable_shards[0].data[0])


def training_step(devices: int) -> xb.XlaComputation:
    """Return the step (images, labels, state) -> (mean loss, new state), with sharded images."""
    mesh = xb.Mesh({"data": devices})
    by_rows, replicated = mesh.sharding("data", None), mesh.sharding()
    b = xb.XlaBuilder("training_step")
    x = b.parameter(xb.f32[digits.BATCH, digits.PIXELS], "images", sharding=by_rows)
    y = b.parameter(xb.f32[digits.BATCH, digits.CLASSES], "labels", sharding=by_rows)
    state = b.parameter(digits.STATE, "state", sharding=replicated)
    parameters, velocities = state
    loss, gradients = digits.loss_and_gradients(x, y, list(parameters))
    parameters, velocities = digits.update(parameters, velocities, gradients)
    root = xb.tuple(loss, xb.tuple(xb.tuple(*parameters), xb.tuple(*velocities)))
    return b.build(root, result_sharding=replicated)


def train(steps: int) -> Iterator[float]:
    """Train on all devices of all processes, and yield the loss of each step."""
    count = len(lowering.devices(all_processes=True))
    step = lowering.compile(training_step(count), num_partitions=count, donate=["state"])
    images, labels, _, _ = digits.load_digits()
    state: Any = digits.first_state(seed=0)
    for number in range(steps):
        x = images[number % digits.BATCHES].reshape(digits.BATCH, digits.PIXELS)
        y = labels[number % digits.BATCHES].reshape(digits.BATCH, digits.CLASSES)
        # All processes have all images. Each transfers the rows of its devices.
        loss, state = step(x, y, state)
        yield float(loss)


def main() -> None:
    options = read_options()
    connect(options)
    print_now(f"the sum of the squares is {add_squares():g}")
    for number, loss in enumerate(train(options.steps)):
        if number % 10 == 9:
            print_now(f"step {number + 1}: loss {loss:.5f}")


if __name__ == "__main__":
    main()
