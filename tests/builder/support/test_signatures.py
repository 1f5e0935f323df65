"""Caches of inference: bounded, looked up in constant time, never wrong after an eviction."""

from __future__ import annotations

import gc
import statistics
import time
import weakref

import pytest

import builder as xb
from builder.support import caches
from builder.support.caches import SignatureTable, per_signature


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit tables to four signatures."""
    monkeypatch.setattr(caches, "MAX_SIGNATURES", 4)


def test_a_function_is_called_once_per_signature() -> None:
    calls: list[int] = []

    @per_signature
    def doubled(number: int) -> int:
        calls.append(number)
        return 2 * number

    assert [doubled(n) for n in (1, 2, 1)] == [2, 4, 2]
    assert calls == [1, 2]


def test_errors_are_raised_each_time() -> None:
    x = xb.XlaBuilder().parameter(xb.f32[2, 3])
    for _ in range(2):
        with pytest.raises(xb.ShapeInferenceError, match=r"add: .*equal"):
            xb.add(x, x.builder.parameter(xb.f32[3, 3]))


def test_functions_forget_the_oldest_signature() -> None:
    calls: list[int] = []
    one = per_signature(calls.append)
    for number in (*range(caches.MAX_SIGNATURES + 1), 1, 0):
        one(number)
    assert calls[-1] == 0
    assert len(calls) == caches.MAX_SIGNATURES + 2


@pytest.mark.usefixtures("few")
def test_a_table_is_bounded() -> None:
    table: SignatureTable[int] = SignatureTable()
    for number in range(100):
        assert table.add(number, -number) == -number
        assert len(table) <= 4
        assert table.get(number) == -number


@pytest.mark.usefixtures("few")
def test_recording_is_right_with_evictions() -> None:
    b = xb.XlaBuilder()
    for _ in range(2):
        for size in range(1, 12):
            x, scalar = b.parameter(xb.f32[size, 3]), b.parameter(xb.f32[()])
            v = b.parameter(xb.f32[3])
            assert xb.add(x, x).shape is xb.f32[size, 3]
            assert xb.add(x, scalar).shape is xb.f32[size, 3]
            assert xb.exp(x).shape is xb.f32[size, 3]
            along = xb.mul(x, v, [1])
            assert along.shape is xb.f32[size, 3]
            assert along.operands[1].attributes == {"broadcast_dimensions": (1,)}
            assert xb.mul(x, b.parameter(xb.f32[size]), [0]).shape is xb.f32[size, 3]
            total = xb.reduce(x, 0.0, lambda p, q: p + q, [1])
            assert total.shape is xb.f32[size]


def test_pairs_of_shapes_are_distinguished() -> None:
    b = xb.XlaBuilder()
    x, y, s = b.parameter(xb.f32[3, 3]), b.parameter(xb.f32[3]), b.parameter(xb.f32[()])
    for _ in range(2):
        assert xb.sub(x, x).operands == (x, x)
        assert xb.sub(x, y, [0]).operands[1].attributes == {"broadcast_dimensions": (0,)}
        assert xb.sub(x, y, [1]).operands[1].attributes == {"broadcast_dimensions": (1,)}
        assert xb.sub(x, s).operands[0] is x
        assert xb.sub(s, x).operands[1] is x


def test_new_shapes_do_not_become_slower() -> None:
    """Each op has a new shape; the last thousand are recorded as fast as the first."""

    def seconds(sizes: range) -> float:
        times = []
        for start in sizes[::100]:
            began = time.process_time()
            for size in range(start, start + 100):
                xb.add(xb.XlaBuilder().parameter(xb.f32[size, 7]), 1.0)
            times.append(time.process_time() - began)
        return statistics.median(times)

    first = seconds(range(1, 1001))
    for size in range(1001, 8001):
        xb.add(xb.XlaBuilder().parameter(xb.f32[size, 7]), 1.0)
    assert seconds(range(8001, 9001)) < 3 * first


@pytest.mark.slow
def test_new_shapes_do_not_leak_memory() -> None:
    def record(sizes: range) -> list[weakref.ref[xb.Shape]]:
        references = []
        for size in sizes:
            x = xb.XlaBuilder().parameter(xb.f32[size, 11])
            y = xb.reduce(xb.exp(x + 1.0) * x, 0.0, xb.add, [0])
            turned = xb.reshape(xb.transpose(x, [1, 0]), [size * 11])
            results = xb.tuple(xb.dot(x, y), xb.slice(turned, [1], [size]), xb.gt(x, 0.0))
            references += [weakref.ref(op.shape) for op in (x, turned, results)]
        return references

    shapes = record(range(100, 200))
    assert all(shape() is not None for shape in shapes)
    record(range(1000, 1000 + max(caches.MAX_SIGNATURES, caches.LATEST) * 5 // 4))
    gc.collect()
    assert all(shape() is None for shape in shapes)
