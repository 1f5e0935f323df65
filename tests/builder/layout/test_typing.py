"""The types that type checkers infer for the functions."""

from __future__ import annotations

import importlib.util
import typing
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tables import each_row

from builder import layout

Integer = int | np.integer[Any]


@each_row(
    "function, argument, expected",
    [
        (layout.multi_index, "linear_index", (Integer, tuple[int, ...])),
        (layout.is_padding, "linear_index", (Integer, bool)),
    ],
)
def test_numpy_numbers_are_accepted_as_ints(
    function: Any, argument: str, expected: tuple[Any, Any]
) -> None:
    first = typing.get_type_hints(typing.get_overloads(function)[0])
    assert (first[argument], first["return"]) == expected


def test_arrays_result_in_an_array() -> None:
    hints = [typing.get_type_hints(each) for each in typing.get_overloads(layout.linear_index)]
    # The result for a single array depends on its rank: rank 1 is the index of an element.
    assert [each["return"] for each in hints] == [Any, int, npt.NDArray[np.int64]]


def test_unknown_names_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Type checkers accept any name of a module with `__getattr__`."""
    monkeypatch.setattr(typing, "TYPE_CHECKING", True)
    spec = importlib.util.spec_from_file_location("seen", layout.__file__)
    assert spec is not None
    assert spec.loader is not None
    seen = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(seen)
    assert "__getattr__" not in vars(seen)
    assert set(layout.__all__) <= set(vars(seen))
