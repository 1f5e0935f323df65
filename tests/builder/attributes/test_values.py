"""Attribute bundles and other small public classes are immutable values."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import sys
from typing import Any

import pytest

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

    def test_unequal_to_other_types(self, bundle: Any) -> None:
        assert bundle != dataclasses.astuple(bundle)
        assert all(bundle != other for other in BUNDLES if other is not bundle)
