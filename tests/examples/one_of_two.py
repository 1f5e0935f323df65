"""One of two processes that compute together: checks in words of its own, then the example.

`test_multihost` starts both. Whatever is wrong ends the process with a traceback.
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


def refused(kind: type[Exception], message: str, call: Callable[..., Any], *args: Any) -> None:
    raised: Exception | None = None
    try:
        call(*args)
    except kind as error:
        raised = error
    assert message in str(raised), f"{message}: {raised!r}"


def check_devices(process: int) -> None:
    here, there = lowering.devices(), lowering.devices("cpu", all_processes=True)
    assert [d.process_index for d in there] == [0, 0, 1, 1]
    assert here == there[2 * process : 2 * process + 2]
    assert lowering.device("cpu:1") == here[1]
    others = there[2 * (1 - process) :][:2]
    elsewhere = f"belongs to process {1 - process}, this is process {process}"
    refused(lowering.DeviceError, elsewhere, lowering.device, others[0])
    refused(lowering.DeviceError, elsewhere, lowering.device_put, ROWS, others[1])

    b = xb.XlaBuilder("one")
    one = b.build(b.parameter(xb.f64[2], "x") * 3.0)
    refused(lowering.DeviceError, elsewhere, lowering.compile, one, others[0])

    def compiled(count: int, **where: Any) -> Any:
        return lowering.compile(one, num_replicas=count, **where)

    refused(lowering.DeviceError, elsewhere, lambda: compiled(2, devices=others))
    refused(
        lowering.DeviceError,
        "need 3 devices, cpu has 2 in this process, 4 in all\nfix: ask for as many as all",
        lambda: compiled(3),
    )
    # As many as this process has are its own: the other one does not take part.
    alone = compiled(2)
    assert alone.devices == alone.local_devices == here
    if process == 0:
        results = alone(ROWS[:2])
        assert [np.asarray(r).tolist() for r in results] == (ROWS[:2] * 3).tolist()


def summing(name: str, **where: Any) -> Any:
    """x + 1, the sum of all x, and the replica's number, on 4 replicas."""
    b = xb.XlaBuilder(name)
    x = b.parameter(xb.f64[2], "x")
    root = xb.tuple(x + 1.0, xb.all_reduce(x, xb.add), b.replica_id())
    return lowering.compile(b.build(root), num_replicas=4, **where)


def as_lists(results: Any) -> Any:
    return jax.tree.map(lambda a: np.asarray(a).tolist(), results)


def wanted(*numbers: int) -> list[Any]:
    return [((ROWS[n] + 1).tolist(), ROWS.sum(axis=0).tolist(), n) for n in numbers]


def check_lists(process: int) -> None:
    run = summing("listed")
    mine = [2 * process, 2 * process + 1]
    assert run.devices == lowering.devices(all_processes=True)
    assert run.local_devices == lowering.devices()
    # Lists hold what belongs to this process's devices, arrays of rows what belongs to all.
    for given in (list(ROWS[mine]), ROWS, lowering.device_put(ROWS)):
        assert as_lists(run(given)) == wanted(*mine)
    assert as_lists(run(ROWS[1]))[0][1] == (ROWS[1] * 4).tolist()
    there = [lowering.device_put(ROWS[n], d) for n, d in zip(mine, run.local_devices, strict=True)]
    results = run(there)
    assert as_lists(results) == wanted(*mine)
    assert [r[0].devices() for r in results] == [{d} for d in run.local_devices]
    for given, message in (
        (list(ROWS), "must be a list with a value for each of 2 devices of this process, got a"),
        (there[::-1], f"for replica {mine[0]} must be on {run.local_devices[0]}, got one on"),
        (ROWS[:3], "or a list of 2 for this process, got f64[3,2]"),
        (ROWS[:2], "or a list of 2 for this process, got f64[2,2]"),
    ):
        refused(lowering.ArgumentError, message, run, given)

    # The processes take turns.
    order = [run.devices[n] for n in (3, 0, 2, 1)]
    turns = summing("turns", devices=order)
    places = [1, 3] if process == 0 else [0, 2]
    assert turns.local_devices == tuple(order[n] for n in places)
    assert as_lists(turns(ROWS)) == wanted(*places)


def check_rows(process: int) -> None:
    run = summing("rows", results="sharded", donate=["x"])
    mine = slice(2 * process, 2 * process + 2)

    def spread(array: Any, sharding: Any) -> Any:
        with jax.enable_x64(True):
            return jax.make_array_from_callback(array.shape, sharding, lambda i: array[i])

    def here(array: Any) -> Any:
        return np.concatenate([np.asarray(s.data) for s in array.addressable_shards])

    x = spread(ROWS, run.sharding)
    for number in range(3):
        moved, total, _ = run(x)
        assert x.is_deleted()
        assert moved.sharding == run.sharding
        assert moved.shape == (4, 2)
        np.testing.assert_array_equal(here(moved), ROWS[mine] + number + 1)
        np.testing.assert_array_equal(here(total)[0], ROWS.sum(axis=0) + 4 * number)
        x = moved
    refused(lowering.ArgumentError, "that has been deleted", lambda: (run(x), run(x)))
    # An array that all devices of all processes have.
    mesh = Mesh(np.array(run.devices), ("d",))
    everywhere = spread(ROWS[1], NamedSharding(mesh, PartitionSpec()))
    np.testing.assert_array_equal(here(run(everywhere)[1])[0], ROWS[1] * 4)
    backwards = Mesh(np.array(run.devices[::-1]), ("d",))
    refused(
        lowering.ArgumentError,
        "argument 0 (x) must be sharded into rows over the executable's devices, got f64[4,2] with "
        "other shards on devices of other processes\n"
        "fix: use jax.device_put(array, executable.sharding)",
        run,
        spread(ROWS, NamedSharding(backwards, PartitionSpec("d"))),
    )
    refused(
        lowering.ArgumentError,
        "f64[4,2] with a row for each, or a list of 2 for this process, got f64[4,3]",
        run,
        spread(np.zeros((4, 3)), run.sharding),
    )


def check_a_choice_that_differs() -> None:
    """All devices give up, in both processes, and the next call works."""
    b = xb.XlaBuilder("choice")
    x = b.parameter(xb.f32[()], "x")
    run = lowering.compile(
        b.build(xb.conditional(x > 0.0, x, lambda y: xb.all_reduce(y, xb.add), x, lambda y: y)),
        num_replicas=4,
    )
    refused(lowering.ExecutionError, "must have the same condition", run, np.float32([1, 1, 1, -1]))
    assert as_lists(run(np.float32([1, 2, 3, 4]))) == [10.0, 10.0]


def losses_of_one_device(demo: Any) -> list[float]:
    """Of the first three steps."""
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
    check_a_choice_that_differs()
    assert demo.add_up() == 30
    training = demo.train(10**9)
    losses = list(islice(training, 3))
    if process == 0:
        np.testing.assert_allclose(losses, losses_of_one_device(demo), rtol=1e-5)
    demo.tell("all is well")
    for number, _ in enumerate(training):
        if number == 3:
            demo.tell("in the middle")


if __name__ == "__main__":
    main()
