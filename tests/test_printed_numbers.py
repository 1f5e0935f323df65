"""Outputs of documents are compared as text, and their floating-point numbers as numbers."""

from __future__ import annotations

import doctest

import numpy as np
import printed_numbers
from printed_numbers import same_output
from tables import each_row

THIRD = np.float32(1 / 3)


def after(number: np.float32, steps: int) -> np.float32:
    """Return the f32 a number of steps above another one."""
    return np.float32((number.view(np.int32) + np.int32(steps)).view(np.float32))


def test_the_examples_of_the_module() -> None:
    result = doctest.testmod(printed_numbers)
    assert result.attempted > 1
    assert not result.failed


@each_row("steps", [-2, -1, 1, 2])
@each_row("number", [THIRD, np.float32(0.4082483), np.float32(1e30)])
def test_last_digits_may_differ(number: np.float32, steps: int) -> None:
    other = after(number, steps)
    assert str(number) != str(other)
    assert same_output(str(number), str(other))
    assert same_output(f"loss {number!r}, {-number!s}\n", f"loss {other!r}, {-other!s}\n")
    assert same_output(f"dense<{number:e}>", f"dense<{other:e}>")
    complexes = np.complex64(complex(number, -number)), np.complex64(complex(other, -other))
    assert same_output(*map(str, complexes))


@each_row("steps", [-16, -8, 8, 16])
def test_many_steps_are_a_difference(steps: int) -> None:
    assert not same_output(str(THIRD), str(after(THIRD, steps)))


@each_row("factor", [1 - 1e-4, 1 + 1e-4, 1 + 1e-6, -1])
def test_other_numbers_are_a_difference(factor: float) -> None:
    number = 0.40824829
    assert not same_output(f"[{number}]", f"[{number * factor:.8f}]")
    assert not same_output(f"{number}", f"{number * factor}")


@each_row(
    "old, new", [("0.12", "0.13"), ("0.09", "0.10"), ("-8.3729", "-8.3730"), ("2.5e-01",) * 2]
)
def test_a_number_with_few_digits_may_round_the_other_way(old: str, new: str) -> None:
    assert same_output(f"loss {old}, 1", f"loss {new}, 1")
    assert same_output(new, old)


@each_row(
    "old, new",
    [
        *[("0.12", "0.14"), ("0.125", "0.13"), ("1.5", "1.6"), ("2.", "3."), ("0.01", "0.02")],
        *[("0.00", "0.01"), ("0.000000e+00", "1.000000e-06"), ("1e-05", "2e-05")],
        *[("1.00e+09", "1.00e+08"), ("0.", "-0."), ("0.", "1e-30"), ("1.5", "2")],
    ],
)
def test_numbers_with_few_digits(old: str, new: str) -> None:
    assert not same_output(old, new)
    assert not same_output(f"[{new}]", f"[{old}]")


@each_row(
    "old, new",
    [
        *[("1000000000", "1000000001"), ("f32[3]", "f32[4]"), ("%add.10", "%add.11")],
        *[("1.20.0", "1.21.0"), ("jaxlib 0.10", "jaxlib 0.12"), ("12.25ms", "12.26ms")],
        *[("0.25f", "0.25g"), ("x = 0.25", "y = 0.25"), ("0.25", "'0.25'"), ("a b", "a  b")],
        *[("0.5 0.5", "0.5"), ("0.5, 0.5", "0.5; 0.5")],
    ],
)
def test_integers_and_text_are_exact(old: str, new: str) -> None:
    assert not same_output(old, new)
    # Also beside a number that may differ.
    assert not same_output(f"{old} 0.4082483 ", f"{new} 0.40824828")


@each_row("number", ["nan", "inf", "-inf"])
def test_numbers_that_are_not_finite_are_exact(number: str) -> None:
    old, new = f"[{number} 0.4082483 ]", f"[{number}  0.40824828]"
    assert same_output(old, new)
    for other in {"nan", "inf", "-inf", "3.4028235e+38", "0."} - {number}:
        assert not same_output(old, f"[{other} 0.40824828]")


@each_row("size", [1, 3, 40])  # 40 numbers are printed on several lines
def test_the_alignment_of_arrays(size: int) -> None:
    old = np.array([[0.4082483, 3, 10, np.inf, -0.25] * size], np.float32)
    new = np.where(old == old[0, 0], after(old[0, 0], -1), old)
    assert "0.4082483 " in str(old)
    assert "0.4082483 " not in str(new)
    for text in (str, repr):
        assert same_output(text(old), text(new))
        assert same_output(f"an array:\n{text(old)}\nend", f"an array:\n{text(new)}\nend")
    new[0, 1] = 4
    assert not same_output(str(old), str(new))


def test_spaces_are_exact_if_no_number_has_more_digits() -> None:
    assert same_output("0.3333333 1", "0.3333334 1")
    assert not same_output("0.3333333 1", "0.3333334  1")
    assert not same_output("0.3333333\n0.5", "0.3333334 0.5")
    assert not same_output("0.25\n", "0.25")
