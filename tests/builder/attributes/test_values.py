"""Attribute bundles and other small public classes are immutable values."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import sys
import typing
from typing import Any

import numpy as np
import pytest
from tables import each_row

import builder as xb

BUNDLES = [
    xb.ReplicaGroups([[0, 2], [1, 3]]),
    xb.ChannelHandle(3, xb.ChannelType.HOST_TO_DEVICE),
    xb.DotDimensionNumbers([2], [1], [0], [0]),
    xb.RaggedDotDimensionNumbers((([1], [1]), ([], [])), [0], [0]),
    xb.ConvolutionDimensionNumbers.of("b01f_01io->b01f"),
    xb.OutputOperandAliasing((), 0),
    xb.GatherDimensionNumbers([0], [1], [1], index_vector_dim=1),
    xb.ScatterDimensionNumbers([1], [0], [0], index_vector_dim=1),
    xb.PaddingConfigDimension(1, 0, 2),
    xb.PaddingConfig([(1, 0, 2), (0, -1, 0)]),
    xb.ResultAccuracy(0.5, ulps=2),
    xb.OPERATIONS["add"],
]


@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda bundle: type(bundle).__name__)
class TestBundles:
    def test_copy_and_pickle(self, bundle: Any) -> None:
        copies = [copy.copy(bundle), copy.deepcopy(bundle), pickle.loads(pickle.dumps(bundle))]
        for other in copies:
            assert type(other) is type(bundle)
            assert other == bundle
            assert hash(other) == hash(bundle)
            assert repr(other) == repr(bundle)

    def test_fields(self, bundle: Any) -> None:
        names = [field.name for field in dataclasses.fields(bundle)]
        assert type(bundle).__match_args__ == tuple(names)
        assert repr(bundle).startswith(f"{type(bundle).__name__}({names[0]}=")

    def test_immutable(self, bundle: Any) -> None:
        name = dataclasses.fields(bundle)[0].name
        before = repr(bundle)
        value = getattr(bundle, name)
        assert dataclasses.replace(bundle, **{name: value}) == bundle
        if sys.version_info >= (3, 13):
            assert copy.replace(bundle, **{name: value}) == bundle
        for change in (
            lambda: setattr(bundle, name, value),
            lambda: delattr(bundle, name),
        ):
            with pytest.raises(dataclasses.FrozenInstanceError):
                change()
        # Python 3.11 raises TypeError for a name that is not a field of a class with slots.
        with pytest.raises((dataclasses.FrozenInstanceError, TypeError)):
            bundle.other = 1
        assert repr(bundle) == before
        assert not hasattr(bundle, "__dict__")

    def test_type_hints(self, bundle: Any) -> None:
        names = [field.name for field in dataclasses.fields(bundle)]
        assert typing.get_type_hints(type(bundle)).keys() >= set(names)

    def test_unequal_to_other_types(self, bundle: Any) -> None:
        assert bundle != dataclasses.astuple(bundle)
        assert all(bundle != other for other in BUNDLES if other is not bundle)


class Edge(xb.PaddingConfig):
    """A subclass with other arguments."""

    def __init__(self, low: int) -> None:
        super().__init__([(low, 0, 0)])


def test_subclasses() -> None:
    edge = Edge(3)
    copies = [copy.copy(edge), copy.deepcopy(edge), pickle.loads(pickle.dumps(edge))]
    assert all(type(other) is Edge and other == edge for other in copies)
    assert edge != xb.PaddingConfig(edge.dimensions)


INVALID: list[tuple[Any, tuple[Any, ...]]] = [
    (xb.PaddingConfigDimension, ("x",)),
    (xb.PaddingConfig, (0,)),
    (xb.ReplicaGroups, (0,)),
    (xb.ChannelHandle, ("x",)),
    (xb.DotDimensionNumbers, ("x",)),
    (xb.RaggedDotDimensionNumbers, (xb.DotDimensionNumbers(), ["x"])),
    (xb.GatherDimensionNumbers, ("x",) * 4),
    (xb.ScatterDimensionNumbers, ("x",) * 4),
    (xb.ConvolutionDimensionNumbers, ("x",) * 9),
    (xb.OutputOperandAliasing, ((), "x")),
    (xb.ResultAccuracy, ("x",)),
    (xb.Mesh, (0,)),
    (xb.MeshSharding, (0,)),
]


@each_row("kind, arguments", INVALID)
def test_errors_name_the_callers_line(kind: Any, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(xb.XlaError) as caught:
        kind(*arguments)
    assert caught.value.location == f"{__file__}:{caught.traceback[0].lineno + 1}"
    assert caught.value.__notes__ == [f"at {caught.value.location}"]


def test_errors_of_ops_that_make_bundles_name_the_callers_line() -> None:
    x = xb.XlaBuilder().parameter(xb.f32[2])
    padding: Any = 0
    with pytest.raises(xb.XlaError) as caught:
        xb.pad(x, x.builder.constant(0, xb.f32), padding)
    assert caught.value.location == f"{__file__}:{caught.traceback[0].lineno + 1}"


@each_row("value", ["1", True, 1.5])
def test_a_member_is_not_the_text_of_its_number(value: Any) -> None:
    assert xb.ChannelType.of(1) is xb.ChannelType.of(np.int64(1)) is xb.ChannelType(1)
    with pytest.raises(xb.ShapeInferenceError, match=r"type must be one of "):
        xb.ChannelType.of(value)
