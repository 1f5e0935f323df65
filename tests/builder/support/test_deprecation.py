"""Deprecated names warn once for each line of a user, and work as before."""

from __future__ import annotations

import inspect
import sys
import traceback
import warnings

import pytest

import builder as xb
from builder.support.deprecation import deprecated

MESSAGE = "xb.old is deprecated since 1.1 and will be removed in 1.3: use xb.new(...)"


@deprecated("xb.old", since="1.1", use="xb.new(...)")
def old(x: int, *, by: int = 2) -> int:
    """Multiply."""
    return x * by


class Shape:
    @classmethod
    @deprecated("Shape.of", since="1.9", use="Shape(...)")
    def of(cls, size: int) -> tuple[type, int]:
        return cls, size


def line() -> int:
    return sys._getframe(1).f_lineno


def test_each_line_of_the_caller_warns_once() -> None:
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        for x in range(3):
            assert old(x, by=5) == 5 * x
        first = line() - 1
        assert old(4) == 8
    assert [(w.category, str(w.message), w.filename, w.lineno) for w in shown] == [
        (DeprecationWarning, MESSAGE, __file__, first),
        (DeprecationWarning, MESSAGE, __file__, first + 2),
    ]


def test_a_method_of_a_class() -> None:
    with pytest.warns(DeprecationWarning, match=r"^Shape\.of is deprecated") as shown:
        assert Shape.of(3) == (Shape, 3)
    assert [(str(w.message), w.filename, w.lineno) for w in shown] == [
        (
            "Shape.of is deprecated since 1.9 and will be removed in 1.11: use Shape(...)",
            __file__,
            line() - 5,
        )
    ]


def test_the_warning_is_not_at_a_line_of_the_library() -> None:
    """A deprecated callable that the library calls: `xb.computation` calls `model`."""
    model = deprecated("model", since="2.0", use="xb.abs(...)")(lambda x: xb.abs(x))
    with pytest.warns(DeprecationWarning, match=r"removed in 2\.2: use xb\.abs") as shown:
        xb.computation(xb.f32[2])(model)
    assert [(w.filename, w.lineno) for w in shown] == [(__file__, line() - 1)]


def test_the_function_is_described_as_before() -> None:
    assert (old.__name__, old.__doc__) == ("old", "Multiply.")
    assert str(inspect.signature(old)) == "(x: 'int', *, by: 'int' = 2) -> 'int'"


def test_an_error_ends_at_the_line_of_the_caller() -> None:
    add = deprecated("xb.plus", since="1.1", use="xb.add(...)")(xb.add)
    b = xb.XlaBuilder()
    operands = [b.parameter(xb.f32[size], f"x{size}") for size in (2, 3)]
    with (
        pytest.warns(DeprecationWarning, match="plus"),
        pytest.raises(xb.ShapeInferenceError, match="sizes 2 and 3") as caught,
    ):
        add(*operands)
    assert [f.filename for f in traceback.extract_tb(caught.value.__traceback__)] == [__file__]


def test_a_warning_that_is_an_error_stops_the_call() -> None:
    called = []
    record = deprecated("record", since="1.0", use="append")(called.append)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DeprecationWarning, match=r"removed in 1\.2: use append$"):
            record(1)
    assert called == []
