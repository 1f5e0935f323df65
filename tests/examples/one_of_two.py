"""One of two processes that compute together: runs checks, then examples/multihost.py.

`test_multihost` starts both. A failed check ends the process with a traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts import load_script

import builder as xb
import lowering

ROWS = np.arange(8, dtype=np.float64).reshape(4, 2)


def check_raises(kind: type[Exception], message: str, call: Callable[..., Any], *args: Any) -> None:
    raised: Exception | None = None
    try:
        call(*args)
    except kind as error:
        raised = error
    assert message in str(raised), f"{message}: {raised!r}"


def check_devices(process: int) -> None:
    local, devices = lowering.devices(), lowering.devices("cpu", all_processes=True)
    assert [d.process_index for d in devices] == [0, 0, 1, 1]
    assert local == devices[2 * process : 2 * process + 2]
    assert lowering.device("cpu:1") == local[1]
    remote = devices[2 * (1 - process) :][:2]
    message = f"belongs to process {1 - process}, but this is process {process}"
    check_raises(lowering.DeviceError, message, lowering.device, remote[0])
    check_raises(lowering.DeviceError, message, lowering.device_put, ROWS, remote[1])

    b = xb.XlaBuilder("triple")
    triple = b.build(b.parameter(xb.f64[2], "x") * 3.0)
    check_raises(lowering.DeviceError, message, lowering.compile, triple, remote[0])

    def compile_replicas(count: int, **options: Any) -> Any:
        return lowering.compile(triple, num_replicas=count, **options)

    check_raises(lowering.DeviceError, message, lambda: compile_replicas(2, devices=remote))
    check_raises(
        lowering.DeviceError,
        "need 3 devices, cpu has 2 in this process, 4 in all processes\nfix: request as many",
        lambda: compile_replicas(3),
    )
    # Two replicas run on the two devices of this process, without the other process.
    alone = compile_replicas(2)
    assert alone.devices == alone.local_devices == local
    if process == 0:
        results = alone(ROWS[:2])
        assert [np.asarray(r).tolist() for r in results] == (ROWS[:2] * 3).tolist()


def compile_sum(name: str, **options: Any) -> Any:
    """Compile x + 1, the sum of all x, and the replica's number, for 4 replicas."""
    b = xb.XlaBuilder(name)
    x = b.parameter(xb.f64[2], "x")
    root = xb.tuple(x + 1.0, xb.all_reduce(x, xb.add), b.replica_id())
    return lowering.compile(b.build(root), num_replicas=4, **options)


def as_lists(results: Any) -> Any:
    return jax.tree.map(lambda a: np.asarray(a).tolist(), results)


def expected(*numbers: int) -> list[Any]:
    return [((ROWS[n] + 1).tolist(), ROWS.sum(axis=0).tolist(), n) for n in numbers]


def check_lists(process: int) -> None:
    run = compile_sum("listed")
    mine = [2 * process, 2 * process + 1]
    assert run.devices == lowering.devices(all_processes=True)
    assert run.local_devices == lowering.devices()
    # Lists contain the values for the devices of this process, arrays the rows for all devices.
    for argument in (list(ROWS[mine]), ROWS, lowering.device_put(ROWS)):
        assert as_lists(run(argument)) == expected(*mine)
    assert as_lists(run(ROWS[1]))[0][1] == (ROWS[1] * 4).tolist()
    on_devices = [
        lowering.device_put(ROWS[n], d) for n, d in zip(mine, run.local_devices, strict=True)
    ]
    results = run(on_devices)
    assert as_lists(results) == expected(*mine)
    assert [r[0].devices() for r in results] == [{d} for d in run.local_devices]
    for argument, message in (
        (list(ROWS), "must be a list with a value for each of 2 devices of this process, got a"),
        (
            on_devices[::-1],
            f"for replica {mine[0]} must be on {run.local_devices[0]}, got an array",
        ),
        (ROWS[:3], "or a list of 2 for this process, got f64[3,2]"),
        (ROWS[:2], "or a list of 2 for this process, got f64[2,2]"),
    ):
        check_raises(lowering.ArgumentError, message, run, argument)

    # The devices of the two processes alternate.
    order = [run.devices[n] for n in (3, 0, 2, 1)]
    alternating = compile_sum("alternating", devices=order)
    replicas = [1, 3] if process == 0 else [0, 2]
    assert alternating.local_devices == tuple(order[n] for n in replicas)
    assert as_lists(alternating(ROWS)) == expected(*replicas)


def check_rows(process: int) -> None:
    run = compile_sum("rows", results="sharded", donate=["x"])
    mine = slice(2 * process, 2 * process + 2)

    def distribute(array: Any, sharding: Any) -> Any:
        with jax.enable_x64(True):
            return jax.make_array_from_callback(array.shape, sharding, lambda i: array[i])

    def local_rows(array: Any) -> Any:
        return np.concatenate([np.asarray(s.data) for s in array.addressable_shards])

    x = distribute(ROWS, run.sharding)
    for number in range(3):
        moved, total, _ = run(x)
        assert x.is_deleted()
        assert moved.sharding == run.sharding
        assert moved.shape == (4, 2)
        np.testing.assert_array_equal(local_rows(moved), ROWS[mine] + number + 1)
        np.testing.assert_array_equal(local_rows(total)[0], ROWS.sum(axis=0) + 4 * number)
        x = moved
    check_raises(lowering.ArgumentError, "that has been deleted", lambda: (run(x), run(x)))
    # An array that is replicated on all devices of all processes.
    mesh = Mesh(np.array(run.devices), ("d",))
    replicated = distribute(ROWS[1], NamedSharding(mesh, PartitionSpec()))
    np.testing.assert_array_equal(local_rows(run(replicated)[1])[0], ROWS[1] * 4)
    backwards = Mesh(np.array(run.devices[::-1]), ("d",))
    check_raises(
        lowering.ArgumentError,
        "argument 0 (x) must be sharded into rows over the executable's devices, got f64[4,2] "
        "with other shards on devices of other processes\n"
        "fix: use jax.device_put(array, executable.sharding)",
        run,
        distribute(ROWS, NamedSharding(backwards, PartitionSpec("d"))),
    )
    check_raises(
        lowering.ArgumentError,
        "f64[4,2] with a row for each, or a list of 2 for this process, got f64[4,3]",
        run,
        distribute(np.zeros((4, 3)), run.sharding),
    )


def check_differing_conditions() -> None:
    """All devices of both processes raise, and the next call works."""
    b = xb.XlaBuilder("choice")
    x = b.parameter(xb.f32[()], "x")
    run = lowering.compile(
        b.build(xb.conditional(x > 0.0, x, lambda y: xb.all_reduce(y, xb.add), x, lambda y: y)),
        num_replicas=4,
    )
    check_raises(
        lowering.ExecutionError, "must have the same condition", run, np.float32([1, 1, 1, -1])
    )
    assert as_lists(run(np.float32([1, 2, 3, 4]))) == [10.0, 10.0]


def losses_of_one_device(demo: Any) -> list[float]:
    """Return the losses of the first three steps."""
    digits = sys.modules["digits"]
    step = lowering.compile(demo.training_step(1))
    images, labels, _, _ = digits.load_digits()
    state, losses = digits.first_state(seed=0), []
    for x, y in zip(images[:3], labels[:3], strict=True):
        loss, state = step(x.reshape(32, 64), y.reshape(32, 10), state)
        losses.append(float(loss))
    return losses


def main() -> None:
    load_script("examples/digits.py")
    demo = load_script("examples/multihost.py")
    demo.connect(demo.read_options())
    process = jax.process_index()
    check_devices(process)
    check_lists(process)
    check_rows(process)
    check_differing_conditions()
    assert demo.add_squares() == 30
    training = demo.train(10**9)
    losses = list(islice(training, 3))
    if process == 0:
        np.testing.assert_allclose(losses, losses_of_one_device(demo), rtol=1e-5)
    demo.print_now("checks passed")
    for number, _ in enumerate(training):
        if number == 3:
            demo.print_now("in the middle")


if __name__ == "__main__":
    main()
