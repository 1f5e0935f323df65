"""Tests over tables: one test that checks every row, and tables with mostly slow rows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, TypeVar

import pytest

T = TypeVar("T")


def each_row(names: str, table: Iterable[Any]) -> Callable[[T], T]:
    """Call a test, or each test of a class, with each row of a table, as one test.

    For tables of cases that take less time than pytest needs to run a test. All rows are checked,
    and the error of each row that fails has a note with the row. The rows share the fixtures.

    Args:
        names: the parameters that a row has values for, separated by commas.
        table: the rows: tuples if there are several names.

    Raises:
        BaseExceptionGroup: in the test, if rows fail.
    """
    parameters = [name.strip() for name in names.split(",")]
    values = [row if len(parameters) > 1 else (row,) for row in table]
    if not values:
        raise ValueError("a table without rows tests nothing")

    def decorate(tests: Any) -> Any:
        if not isinstance(tests, type):
            return of_function(tests)
        for name, function in list(vars(tests).items()):
            if name.startswith("test_"):
                setattr(tests, name, of_function(function))
        return tests

    def of_function(function: Callable[..., None]) -> Callable[..., None]:
        @wraps(function)
        def test(*arguments: Any, **fixtures: Any) -> None:
            errors = []
            for row in values:
                named = dict(zip(parameters, row, strict=True))
                try:
                    function(*arguments, **named, **fixtures)
                except KeyboardInterrupt:
                    raise
                except pytest.skip.Exception:
                    raise ValueError("a skip would hide the other rows") from None
                except BaseException as error:  # pytest.fail raises a BaseException
                    error.add_note(f"in the row {named}")
                    errors.append(error)
            if errors:
                raise BaseExceptionGroup(f"{len(errors)} of {len(values)} rows", errors)

        signature = inspect.signature(function)
        remaining = [p for p in signature.parameters.values() if p.name not in parameters]
        test.__signature__ = signature.replace(parameters=remaining)  # type: ignore[attr-defined]  # inspect reads it
        return test

    return decorate


def mostly_slow(table: Iterable[Any], quick: int) -> list[Any]:
    """Return the rows of a table for `pytest.mark.parametrize`, all but some marked slow.

    For cases that go through the same code, such as one program for each element type.

    Args:
        table: the rows.
        quick: the number of rows that are not slow, at equal distances.
    """
    rows = list(table)
    kept = {number * len(rows) // quick for number in range(quick)}
    return [
        row if number in kept else pytest.param(row, marks=pytest.mark.slow)
        for number, row in enumerate(rows)
    ]
