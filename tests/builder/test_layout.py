"""Layouts: the memory order of dimensions."""

from __future__ import annotations

import copy
import itertools
import pickle
from typing import Any

import numpy as np
import pytest

import builder as xb


@pytest.mark.parametrize("rank", range(5))
def test_every_permutation_is_a_layout(rank: int) -> None:
    for order in itertools.permutations(range(rank)):
        layout = xb.Layout(order)
        assert layout.minor_to_major == order
        assert str(layout) == "{" + ",".join(map(str, order)) + "}"
        assert layout.is_default == (list(order) == sorted(order, reverse=True))


def test_equal_layouts() -> None:
    assert xb.Layout([1, 0]) == xb.Layout((1, 0))
    assert hash(xb.Layout([1, 0])) == hash(xb.Layout((1, 0)))
    assert xb.Layout([1, 0]) != xb.Layout([0, 1])
    assert xb.Layout([0]) != (0,)


def test_copies_are_equal() -> None:
    layout = xb.Layout([0, 2, 1])
    assert pickle.loads(pickle.dumps(layout)) == layout
    assert copy.deepcopy(layout) == layout


@pytest.mark.parametrize(
    "order", [[0, 0], [1], [-1], [0, 2], ["a"], [1.0, 0], [True, False], [None]]
)
def test_no_permutation(order: Any) -> None:
    with pytest.raises(
        xb.ShapeInferenceError, match="must be a permutation of the dimensions 0 to"
    ):
        xb.Layout(order)


def test_no_sequence() -> None:
    order: Any
    for order in (3, np.array(3), xb.tuple(xb.XlaBuilder().parameter(xb.f32[2]))):
        with pytest.raises(xb.ShapeInferenceError, match="a sequence of dimension numbers, got "):
            xb.Layout(order)


def test_an_endless_order() -> None:
    with pytest.raises(xb.ShapeInferenceError, match="must be a permutation of the dimensions"):
        xb.Layout(itertools.count(1))


def test_layout_of_a_shape() -> None:
    shape = xb.f32[2, 3].with_layout([0, 1])
    assert str(shape) == "f32[2,3]{0,1}"
    assert shape is xb.f32[2, 3].with_layout(xb.Layout([0, 1]))
    assert shape is not xb.f32[2, 3]
    assert shape.with_layout(None) is xb.f32[2, 3]
    assert str(shape.with_element_type(xb.s8)) == "s8[2,3]{0,1}"


def test_layout_of_another_rank() -> None:
    with pytest.raises(
        xb.ShapeInferenceError, match=r"layout: \{1,0\} orders 2 dimensions, f32\[2\] has 1"
    ):
        xb.f32[2].with_layout([1, 0])
