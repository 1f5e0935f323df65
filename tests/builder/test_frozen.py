"""Frozen classes against the frozen dataclasses of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import sys
from collections.abc import Callable
from typing import Any

import pytest

import builder as xb
from builder.frozen import frozen


def a_class() -> type[Any]:
    """A class such as is given to the decorators: made anew, as `dataclass` changes it."""

    class Span:
        """From a number on."""

        low: int
        high: int = 7
        names: tuple[str, ...] = ()

        def __post_init__(self) -> None:
            object.__setattr__(self, "names", tuple(self.names))

        @property
        def width(self) -> int:
            return self.high - self.low

    return Span


Real = dataclasses.dataclass(frozen=True, slots=True)(a_class())
Ours = frozen(a_class())

CALLS: dict[str, Callable[[Any], Any]] = {
    "in order": lambda kind: kind(1, 2, ["a"]),
    "by name": lambda kind: kind(names=["a"], high=2, low=1),
    "both": lambda kind: kind(1, names="ab"),
    "defaults": lambda kind: kind(1),
    "by a default's value": lambda kind: kind(1, 7, ()),
}

WRONG_CALLS: dict[str, Callable[[Any], Any]] = {
    "too many": lambda kind: kind(1, 2, (), 4),
    "too few": lambda kind: kind(),
    "unknown name": lambda kind: kind(1, width=3),
    "twice": lambda kind: kind(1, low=3),
}

CHANGES: dict[str, Callable[[Any], Any]] = {
    "a field": lambda span: setattr(span, "low", 3),
    "another attribute": lambda span: setattr(span, "middle", 3),
    "without a field": lambda span: delattr(span, "low"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
class TestLikeADataclass:
    def test_fields(self, call: Callable[[Any], Any]) -> None:
        assert dataclasses.astuple(call(Ours)) == dataclasses.astuple(call(Real))
        assert call(Ours).names == call(Real).names  # which `__post_init__` has set
        assert call(Ours).width == call(Real).width

    def test_text(self, call: Callable[[Any], Any]) -> None:
        assert repr(call(Ours)) == repr(call(Real))

    def test_hash(self, call: Callable[[Any], Any]) -> None:
        assert hash(call(Ours)) == hash(call(Real))

    def test_equality(self, call: Callable[[Any], Any]) -> None:
        for other in CALLS.values():
            assert (call(Ours) == other(Ours)) is (call(Real) == other(Real))
        assert call(Ours) != call(Real)
        assert call(Ours) != (1, 2, ("a",))

    def test_replace(self, call: Callable[[Any], Any]) -> None:
        ours, real = (dataclasses.replace(call(kind), high=-1) for kind in (Ours, Real))
        assert type(ours) is Ours
        assert repr(ours) == repr(real)
        if sys.version_info >= (3, 13):
            assert copy.replace(call(Ours), high=-1) == ours


@pytest.mark.parametrize("call", WRONG_CALLS.values(), ids=WRONG_CALLS)
def test_wrong_arguments(call: Callable[[Any], Any]) -> None:
    messages = []
    for kind in (Ours, Real):
        with pytest.raises(TypeError) as caught:
            call(kind)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_nothing_can_be_changed(change: Callable[[Any], Any]) -> None:
    span = Ours(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        change(span)
    assert (span.low, span.high, span.names) == (1, 7, ())
    assert not hasattr(span, "__dict__")


def test_matching() -> None:
    match Ours(1, 2, "ab"):
        case Ours(low, high, ("a", last)):
            assert (low, high, last) == (1, 2, "b")
        case _:
            pytest.fail("no match")


def test_signature_and_text() -> None:
    assert inspect.signature(frozen(a_class())) == inspect.signature(Real)
    assert Ours.__doc__ == "From a number on."
    assert Ours.__qualname__ == Real.__qualname__
    assert [f.name for f in dataclasses.fields(Ours)] == [f.name for f in dataclasses.fields(Real)]
    assert dataclasses.is_dataclass(Ours)


def test_methods_of_the_class_stay() -> None:
    @frozen
    class Function:
        name: str

        __eq__ = object.__eq__
        __hash__ = object.__hash__

        def __repr__(self) -> str:
            return f"<{self.name}>"

    one, two = Function("f"), Function("f")
    assert repr(one) == "<f>"
    assert one == one
    assert one != two
    assert len({one, two}) == 2


def test_hash_before_anything_else() -> None:
    """The methods are written when one of them is first asked for, whichever it is."""
    for first in ("__hash__", "__eq__", "__init__"):
        kind = frozen(a_class())
        assert callable(getattr(kind, first))
        assert hash(kind(1)) == hash(Real(1))
        assert kind(1) == kind(1, 7)


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
def test_bundles_are_copied_and_pickled(bundle: Any) -> None:
    copies = [copy.copy(bundle), copy.deepcopy(bundle), pickle.loads(pickle.dumps(bundle))]
    for other in copies:
        assert type(other) is type(bundle)
        assert other == bundle
        assert hash(other) == hash(bundle)
        assert repr(other) == repr(bundle)
