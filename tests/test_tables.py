"""The decorator that makes one test of a table."""

from __future__ import annotations

import inspect

import pytest
from tables import each_row


def test_every_row_is_checked_and_failing_rows_are_listed() -> None:
    seen = []

    @each_row("number", [1, 2])
    @each_row("name, value", [("a", 1), ("b", 2), ("c", 1)])
    def check(tmp: str, number: int, name: str, value: int) -> None:
        seen.append((tmp, number, name))
        if name == "c":
            pytest.fail("not for c")
        assert number == value

    assert list(inspect.signature(check).parameters) == ["tmp"]  # pytest passes the fixture
    with pytest.raises(BaseExceptionGroup, match="2 of 2 rows") as caught:
        check(tmp="folder")
    assert seen == [("folder", number, name) for number in (1, 2) for name in "abc"]
    first, second = caught.value.exceptions
    notes = [[error.__notes__ for error in each.exceptions] for each in (first, second)]
    assert notes == [
        [["in the row {'name': 'b', 'value': 2}"], ["in the row {'name': 'c', 'value': 1}"]],
        [["in the row {'name': 'a', 'value': 1}"], ["in the row {'name': 'c', 'value': 1}"]],
    ]


def test_a_class() -> None:
    @each_row("number", [1, 2])
    class TestNumbers:
        def test_small(self, number: int) -> None:
            assert number < 2

        def helper(self, number: int) -> int:
            return number

    with pytest.raises(BaseExceptionGroup, match="1 of 2 rows"):
        TestNumbers().test_small()  # type: ignore[call-arg]  # the decorator passes it
    assert TestNumbers().helper(3) == 3


def test_a_row_is_not_skipped() -> None:
    @each_row("number", [1, 2])
    def test(number: int) -> None:
        if number == 1:
            pytest.skip("hides the second row")

    with pytest.raises(ValueError, match="a skip would hide the other rows"):
        test()


def test_an_empty_table_is_refused() -> None:
    with pytest.raises(ValueError, match="without rows"):
        each_row("number", [])
