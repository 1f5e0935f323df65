"""The strings that annotations allow; typed_program.py has what type checkers infer and refuse."""

from __future__ import annotations

import enum
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from tables import each_row

import builder as xb
from builder import attributes
from builder.attributes import host


def names_in(annotation: Any) -> set[str]:
    """Return the strings of the `Literal` types in a union or a sequence."""
    if get_origin(annotation) is Literal:
        return set(get_args(annotation))
    return {name for part in get_args(annotation) for name in names_in(part)}


@each_row(
    "annotation, kind",
    [
        (attributes.PaddingLike, xb.Padding),
        (attributes.PrecisionLike, xb.Precision),
        (attributes.FftTypeLike, xb.FftType),
        (attributes.TransposeLike, xb.Transpose),
        (attributes.RandomAlgorithmLike, xb.RandomAlgorithm),
        (host.CustomCallApiVersionLike, xb.CustomCallApiVersion),
        (host.CustomCallScheduleLike, xb.CustomCallSchedule),
    ],
)
def test_names_are_those_of_the_members(annotation: Any, kind: type[enum.Enum]) -> None:
    assert names_in(annotation) == set(kind.__members__)
    assert str not in get_args(annotation)
    assert {*get_args(annotation)} >= {kind}
    assert NoneType not in get_args(annotation) or kind is xb.Precision


def test_names_of_dot_algorithms_are_their_values() -> None:
    assert names_in(attributes.DotAlgorithmLike) == {each.value for each in xb.DotAlgorithm}
