"""Recording prints and checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tables import each_row

import builder as xb
from builder.ops.debugging import format_message


def messages(computation: xb.XlaComputation) -> list[str]:
    """The messages as recorded, in the escapes of HLO's text."""
    opaque = [op.attributes["opaque"] for op in computation.ops if op.opcode == "custom_call"]
    return [text.replace(r"\7B", "{").replace(r"\7D", "}") for text in opaque]


def test_fields_are_numbered() -> None:
    b = xb.XlaBuilder("fields")
    x, y = b.parameter(xb.f32[2], "x"), b.parameter(xb.s32[()], "y")
    xb.debug_print("{} {{}} {}", x, y)
    xb.debug_print("{1} {0} {0}", x, y)
    xb.debug_print("{y:04d} {x:.2f} {}", y, x=x, y=y)
    xb.check(x > 0.0, "{x}", x=x)
    built = b.build()
    assert messages(built) == [
        '{message = "{0} {{}} {1}"}',
        '{message = "{1} {0} {0}"}',
        '{message = "{2:04d} {1:.2f} {0}"}',
        '{message = "{0}"}',
    ]
    # The root is the last value: prints and checks have none.
    assert built.root.opcode == "compare"
    assert built.ops[-1].operands == (built.root, x)


FORMATTED: dict[str, tuple[str, list[Any], str]] = {
    "an array": ("x is {0}", [np.float32([1, 2.5])], "x is [1.  2.5]"),
    "a scalar of f32": ("{0}", [np.float32(0.1)], "0.1"),
    "a format for each element": ("{0:.1f}", [np.float32([[1, 2.25]])], "[[1.0 2.2]]"),
    "an integer": ("{0:>4d}|{1:x}", [np.int8(-3), np.uint64(255)], "  -3|ff"),
    "bf16": ("{0:.3f} {0}", [np.asarray(1.5, xb.bf16.dtype)], "1.500 1.5"),
    "s4": ("{0:+d}", [np.asarray(-2, xb.s4.dtype)], "-2"),
    "a pred with a width": ("{0:>6}|", [np.asarray(True)], "  True|"),
    "pred": ("{0} {1}", [np.asarray(True), np.asarray([False])], "True [False]"),
    "complex": ("{0:.1f}", [np.complex64(1 + 2j)], "1.0+2.0j"),
    "braces": ("{{{0}}}", [np.int32(1)], "{1}"),
}


@each_row("name", FORMATTED)
def test_format_message(name: str) -> None:
    text, arrays, expected = FORMATTED[name]
    assert format_message(text, arrays) == expected


def _x(shape: str = "f32[2]") -> xb.XlaOp:
    return xb.XlaBuilder().parameter(shape)


REFUSED: dict[str, tuple[Callable[[], Any], type[xb.XlaError], str]] = {
    "no message": (
        lambda: xb.debug_print(_x()),  # type: ignore[arg-type]  # refused
        xb.OperandError,
        "debug_print: message must be text, got .*\nfix: begin with the message: xb.debug_print\\(",
    ),
    "a condition only": (
        lambda: xb.check(_x("pred[]"), _x()),  # type: ignore[arg-type]  # refused
        xb.OperandError,
        'check: message must be text.*\nfix: write xb.check\\(condition, "x must',
    ),
    "no operand": (
        lambda: xb.debug_print("here"),
        xb.OperandError,
        "debug_print: at least one operand is needed, got none\nfix: pass an op",
    ),
    "an array of NumPy": (
        lambda: xb.debug_print("{}", np.zeros(2)),  # type: ignore[arg-type]  # refused
        xb.OperandError,
        "debug_print: operand 0 must be an XlaOp",
    ),
    "a field too many": (
        lambda: xb.debug_print("{} {}", _x()),
        xb.OperandError,
        "debug_print: each field of the message must be an operand, got {} beside the operands 0",
    ),
    "a field of no name": (
        lambda: xb.debug_print("{total}", x=_x()),
        xb.OperandError,
        "got {total} beside the operands x",
    ),
    "an operand too many": (
        lambda: xb.debug_print("x {}", _x(), _x()),
        xb.OperandError,
        "the message must contain each operand, got 'x {}' without operand 1\nfix: add {}",
    ),
    "a named operand too many": (
        lambda: xb.debug_print("x", x=_x()),
        xb.OperandError,
        "without operand x\nfix: add {x} to the message",
    ),
    "half a field": (
        lambda: xb.debug_print("{", _x()),
        xb.OperandError,
        "message must be a format string: .*\nfix: write {}, {0}",
    ),
    "an attribute": (
        lambda: xb.debug_print("{0.shape}", _x()),
        xb.OperandError,
        "a field of the message must be a number or a name, .* got {0.shape:}",
    ),
    "a conversion": (lambda: xb.debug_print("{!r}", _x()), xb.OperandError, "got {!r:}"),
    "numbers and none": (
        lambda: xb.debug_print("{} {1}", _x(), _x()),
        xb.OperandError,
        r"a message must not contain both \{\} and numbers, got '\{\} \{1\}'",
    ),
    "a width of gigabytes": (
        lambda: xb.debug_print("{:>3000000000}", _x()),
        xb.OperandError,
        "does not apply to f32: a width must be at most 1000",
    ),
    "a format of another type": (
        lambda: xb.debug_print("{:d}", _x()),
        xb.OperandError,
        "the format of {:d} does not apply to f32",
    ),
    "a condition of numbers": (
        lambda: xb.check(_x(), "x"),
        xb.ShapeInferenceError,
        "check: condition must be of pred type, got f32\n  condition f32\\[2\\]\nfix: compare",
    ),
    "a tuple": (
        lambda: xb.debug_print("{}", _x("(f32[2], s32[])")),
        xb.ShapeInferenceError,
        "debug_print: operand 0 must be an array, got a tuple",
    ),
    "a bounded size": (
        lambda: xb.debug_print("{}", _x("f32[<=3]")),
        xb.ShapeInferenceError,
        "debug_print: operand 0 must not have a bounded size, got\n  operand 0 f32\\[<=3\\]\n",
    ),
    "several builders": (
        lambda: xb.debug_print("{} {}", _x(), _x()),
        xb.BuilderError,
        "debug_print",
    ),
}


@each_row("name", REFUSED)
def test_refused(name: str) -> None:
    call, error, message = REFUSED[name]
    with pytest.raises(error, match=message) as caught:
        call()
    assert caught.value.op in ("debug_print", "check")


def test_strip_debug() -> None:
    @xb.computation(xb.f32[2])
    def twice(x: xb.XlaOp) -> xb.XlaOp:
        xb.debug_print("{}", x)
        return x + x

    double = xb.custom_gradient(twice, lambda x, result, gradient: gradient + gradient)

    @xb.computation(xb.f32[2], xb.f32[2])
    def plain(x: xb.XlaOp, y: xb.XlaOp) -> xb.XlaOp:
        return x * y

    @xb.computation(xb.f32[2])
    def model(x: xb.XlaOp) -> xb.XlaOp:
        xb.check(x > 0.0, "{}", x)
        return xb.call(plain, xb.call(double, x), x)

    stripped = model.strip_debug()
    every = (stripped, *stripped.called_computations())
    assert "custom_call" not in {op.opcode for each in every for op in each.ops}
    assert [op.opcode for op in model.ops].count("custom_call") == 1
    # What does not change is shared, and derivatives are kept.
    assert plain in every
    assert plain.strip_debug() is plain
    (inner,) = [each for each in every if each.name == "twice"]
    assert inner.derivative is not None
    assert inner.derivative is double.derivative
