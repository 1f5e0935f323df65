"""Interning: one object for equal values, while it is used."""

from __future__ import annotations

import gc
import sys
import threading

import numpy as np

import builder as xb
from builder.support.caches import LATEST, InternTable
from builder.types.shape import TupleShape


class Thing:
    __slots__ = ("__weakref__",)


def test_an_interned_object_is_unique_while_it_is_used() -> None:
    table: InternTable[Thing] = InternTable(latest=4)
    kept = table.intern("kept", Thing())
    for number in range(20):
        table.intern(number, Thing())
    assert table.find("kept") is kept
    assert table.intern("kept", Thing()) is kept
    del kept
    for number in range(20, 40):
        table.intern(number, Thing())
    assert table.find("kept") is None
    assert table.find(39) is not None  # one of the latest


def test_a_table_is_bounded() -> None:
    table: InternTable[Thing] = InternTable(latest=4)
    kept = [table.intern(number, Thing()) for number in range(100)]
    for number in range(100, 10_000):
        table.intern(number, Thing())
        assert len(table) <= 2 * (len(kept) + 4)
    assert [table.find(number) for number in range(100)] == kept
    kept.clear()
    for number in range(300):
        table.intern(number, Thing())
    assert len(table) <= 8


def test_an_object_is_interned_again_after_it_was_freed() -> None:
    table: InternTable[Thing] = InternTable(latest=1)
    table.intern("freed", Thing())
    table.intern("other", Thing())
    again = table.intern("freed", Thing())
    for number in range(20):
        table.intern(number, Thing())
    assert table.find("freed") is again


def test_shapes_stay_one_object_through_evictions() -> None:
    array, nested = xb.f32[5, 8191], xb.parse_shape("(f32[5,8191], (s32[5,8191]))")
    for size in range(LATEST + 1):
        xb.tuple_shape([xb.f32[size, 8191]])
    assert xb.f32[5, 8191] is array
    assert xb.parse_shape(str(nested) + " ") is nested
    assert xb.array_shape(np.float32, [5, 8191]) is array


def test_threads_share_one_object() -> None:
    workers = 4
    ids: list[list[int]] = [[] for _ in range(workers)]
    kept: list[object] = []
    barrier = threading.Barrier(workers)

    def make(number: int) -> None:
        barrier.wait()
        for size in range(2000):
            shape = xb.u8[size, 8191, 13]
            kept.append(shape)
            ids[number].append(id(shape))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=make, args=(n,)) for n in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert ids == [ids[0]] * workers


def test_a_deep_tuple_is_freed() -> None:
    shape: xb.Shape = xb.f32[3, 8191]
    for _ in range(50_000):
        shape = TupleShape((shape,))
    assert shape.leaf_count == 1
    for size in range(LATEST + 1):
        xb.tuple_shape([xb.f32[size]])
    del shape
    gc.collect()
    assert xb.tuple_shape([xb.f32[3, 8191]]) is xb.tuple_shape([xb.f32[3, 8191]])
