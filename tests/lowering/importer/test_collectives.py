"""Import of collective operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from imported import of_text, returned
from tables import each_row

import builder as xb
import lowering

COUNT = 4
PAIRS = [[0, 2], [1, 3]]

X = np.arange(COUNT * 8, dtype=np.float32).reshape(COUNT, 8)
"""One row for each replica."""


def _permuted(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    result = np.zeros_like(x)
    result[1], result[0] = x[0], x[3]
    return result


Record = Callable[[xb.XlaOp], xb.XlaOp]
Expected = Callable[[np.ndarray[Any, Any]], Any]

CASES: dict[str, tuple[Record, Expected]] = {
    "all_reduce": (
        lambda x: xb.all_reduce(x, xb.add),
        lambda x: np.broadcast_to(x.sum(0), x.shape),
    ),
    "all_reduce in groups": (
        lambda x: xb.all_reduce(x, xb.max, PAIRS),
        lambda x: np.stack([x[2], x[3], x[2], x[3]]),
    ),
    "all_reduce in groups of several sizes": (
        lambda x: xb.all_reduce(x, xb.add, [[0, 2, 3], [1]]),
        lambda x: np.stack([x[0] + x[2] + x[3] if i != 1 else x[1] for i in range(4)]),
    ),
    "all_reduce of numbers of devices": (
        lambda x: xb.all_reduce(x, xb.add, PAIRS, channel_id=3, use_global_device_ids=True),
        lambda x: np.stack([x[0] + x[2], x[1] + x[3]] * 2),
    ),
    "all_gather": (
        lambda x: xb.all_gather(x, 0, 2, PAIRS),
        lambda x: np.stack([x[[0, 2]].ravel(), x[[1, 3]].ravel()] * 2),
    ),
    "reduce_scatter": (
        lambda x: xb.reduce_scatter(x, xb.add, 0, 2, PAIRS),
        lambda x: np.stack(
            [(x[0] + x[2])[:4], (x[1] + x[3])[:4], (x[0] + x[2])[4:], (x[1] + x[3])[4:]]
        ),
    ),
    "all_to_all": (
        lambda x: xb.all_to_all(x, 0, 0, 4, [[0, 1, 2, 3]]),
        lambda x: x.reshape(4, 4, 2).swapaxes(0, 1).reshape(4, 8),
    ),
    "collective_permute": (lambda x: xb.collective_permute(x, [(0, 1), (3, 0)]), _permuted),
    "replica_id": (
        lambda x: x + xb.convert_element_type(x.builder.replica_id(), xb.f32),
        lambda x: x + np.arange(4, dtype=np.float32)[:, None],
    ),
}


def on_replicas(computation: xb.XlaComputation, *arguments: Any) -> list[Any]:
    return list(lowering.compile(computation, "cpu", num_replicas=COUNT)(*arguments))


@each_row("name", CASES)
def test_round_trip(name: str) -> None:
    record, expected = CASES[name]
    b = xb.XlaBuilder("program")
    computation = returned(b.build(record(b.parameter(xb.f32[8], "x"))))
    actual = np.stack([np.asarray(one) for one in on_replicas(computation, list(X))])
    assert np.array_equal(actual, expected(X))


def test_several_operands() -> None:
    b = xb.XlaBuilder("several")
    x, y = b.parameter(xb.f32[8]), b.parameter(xb.f32[2, 2])
    sums = xb.all_reduce([x, y], xb.add, PAIRS)
    gathered = xb.all_gather([x, y], 0, 2, PAIRS)
    computation = returned(b.build(xb.tuple(sums[1], gathered[0])))
    squares = X[:, :4].reshape(COUNT, 2, 2)
    for number, actual in enumerate(on_replicas(computation, list(X), list(squares))):
        both = PAIRS[number % 2]
        assert np.array_equal(actual[0], squares[both].sum(0))
        assert np.array_equal(actual[1], X[both].ravel())


def test_omitted_groups() -> None:
    b = xb.XlaBuilder("program")
    x = b.parameter(xb.f32[8])
    root = xb.tuple(xb.all_gather(x, 0, COUNT), xb.all_to_all(x, 0, 0, COUNT))
    again = lowering.to_computation(lowering.lower(b.build(root)))
    gathered, exchanged = (op for op in again.ops if op.opcode.startswith("all"))
    assert gathered.attributes["replica_groups"] == xb.ReplicaGroups([])
    # StableHLO's verifier refuses an all_to_all without groups.
    assert exchanged.attributes["replica_groups"] == xb.ReplicaGroups([[0, 1, 2, 3]])


@pytest.mark.parametrize("parts", [2, 4])
def test_operands_of_all_to_all_are_exchanged_separately(parts: int) -> None:
    """Each operand is split, as in StableHLO's specification. (XLA's operation sends operands.)"""
    groups = [[0, 1], [2, 3]] if parts == 2 else [[0, 1, 2, 3]]
    computation = of_text(f"""
        func.func @main(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {{
          %0:2 = "stablehlo.all_to_all"(%x, %y) <{{
            split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = {parts} : i64,
            replica_groups = dense<{groups}> : tensor<{len(groups)}x{parts}xi64>
          }}> : (tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
          return %0#0, %0#1 : tensor<8xf32>, tensor<8xf32>
        }}
    """)

    def exchanged(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        blocks = x.reshape(COUNT // parts, parts, parts, 8 // parts)
        return blocks.swapaxes(1, 2).reshape(COUNT, 8)

    for number, actual in enumerate(on_replicas(computation, list(X), list(-X))):
        assert np.array_equal(actual[0], exchanged(X)[number])
        assert np.array_equal(actual[1], exchanged(-X)[number])


def test_empty_groups_are_all_devices() -> None:
    computation = of_text("""
        func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
          %0 = "stablehlo.all_gather"(%x) <{
            all_gather_dim = 0 : i64, replica_groups = dense<> : tensor<99999999999x0xi64>
          }> : (tensor<8xf32>) -> tensor<8xf32>
          return %0 : tensor<8xf32>
        }
    """)
    assert computation.root.attributes["replica_groups"] == xb.ReplicaGroups([])


@pytest.mark.parametrize("handle", [0, -1])
def test_a_nonpositive_channel_is_ignored(handle: int) -> None:
    computation = of_text(f"""
        func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {{
          %0 = "stablehlo.collective_permute"(%x) <{{
            source_target_pairs = dense<[[0, 1], [3, 0]]> : tensor<2x2xi64>,
            channel_handle = #stablehlo.channel_handle<handle = {handle}, type = 0>
          }}> : (tensor<8xf32>) -> tensor<8xf32>
          return %0 : tensor<8xf32>
        }}
    """)
    assert computation.root.attributes["channel_handle"] is None
    actual = [np.asarray(one) for one in on_replicas(computation, list(X))]
    assert np.array_equal(np.stack(actual), _permuted(X))


def test_the_first_of_each_group_broadcasts() -> None:
    b = xb.XlaBuilder("program")
    sent = xb.collective_broadcast(b.parameter(xb.f32[8], "x"), [[2, 0], [3, 1]])
    computation = returned(b.build(sent))
    actual = [np.asarray(one) for one in on_replicas(computation, list(X))]
    assert np.array_equal(np.stack(actual), X[[2, 3, 2, 3]])


def test_asynchronous_operations_are_refused() -> None:
    with pytest.raises(lowering.LoweringError, match=r"stablehlo\.async_start"):
        of_text("""
            func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
              %0 = "stablehlo.async_start"(%x) ({
              ^bb0(%a: tensor<8xf32>):
                %2 = "stablehlo.collective_permute"(%a) <{
                  source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>
                }> : (tensor<8xf32>) -> tensor<8xf32>
                stablehlo.return %2 : tensor<8xf32>
              }) : (tensor<8xf32>) -> !stablehlo.future<tensor<8xf32>>
              %1 = "stablehlo.async_done"(%0)
                : (!stablehlo.future<tensor<8xf32>>) -> tensor<8xf32>
              return %1 : tensor<8xf32>
            }
        """)
