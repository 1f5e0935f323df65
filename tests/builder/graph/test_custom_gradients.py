"""xb.custom_gradient: signatures, errors, and where the derivative survives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tables import each_row

import builder as xb
from builder.graph.decorators import gradient_shape


@xb.computation(xb.f32[3], xb.s32[()])
def scaled(x: xb.XlaOp, n: xb.XlaOp) -> xb.XlaOp:
    return x * xb.convert(n, xb.f32)


def backward(_x: xb.XlaOp, n: xb.XlaOp, _y: xb.XlaOp, dy: xb.XlaOp) -> xb.XlaOp:
    return dy * xb.convert(n, xb.f32)


def test_the_program_is_the_same() -> None:
    custom = xb.custom_gradient(scaled, backward)
    assert custom.derivative is not None
    assert str(custom) == str(scaled)
    assert scaled.derivative is None
    assert not custom.diff(scaled)
    assert str(custom.derivative.program_shape) == (
        "(_x: f32[3], n: s32[], _y: f32[3], dy: f32[3]) -> f32[3]"
    )
    assert custom.called_computations() == ()


def test_aliases_and_layouts_are_preserved() -> None:
    b = xb.XlaBuilder("square")
    x = b.parameter("f32[2,3]{0,1}", "x")
    b.setup_alias((), 0)
    c = b.build(x * x, result="f32[2,3]{0,1}")
    custom = xb.custom_gradient(c, lambda x, _y, dy: 2.0 * x * dy)
    assert custom.aliases == c.aliases
    assert custom.program_shape == c.program_shape
    assert custom.derivative is not None
    assert custom.derivative.program_shape.result == xb.f32[2, 3]


def test_a_computation_as_backward() -> None:
    @xb.computation(xb.f32[3], xb.s32[()], xb.f32[3], xb.f32[3])
    def derivative(x: xb.XlaOp, n: xb.XlaOp, y: xb.XlaOp, dy: xb.XlaOp) -> xb.XlaOp:
        return dy * 2.0

    assert xb.custom_gradient(scaled, derivative).derivative is derivative
    reusable = xb.computation(backward)
    custom = xb.custom_gradient(scaled, reusable)
    assert custom.derivative is reusable.computation(xb.f32[3], xb.s32[()], xb.f32[3], xb.f32[3])


def test_a_reusable_function() -> None:
    square = xb.computation(lambda x: x * x)
    custom = xb.custom_gradient(square, lambda x, _y, dy: 2.0 * x * dy)
    assert isinstance(custom, xb.ReusableFunction)
    x = xb.XlaBuilder().parameter(xb.f32[3])
    called = custom(x).attributes["to_apply"]
    assert called.derivative is not None
    assert custom(x).attributes["to_apply"] is called
    assert custom.computation("f64[2]").derivative.program_shape.result is xb.f64[2]  # type: ignore[union-attr]
    assert square.computation(xb.f32[3]).derivative is None
    with pytest.raises(xb.ShapeInferenceError, match=r"floating-point or complex type, got \(x"):
        custom(xb.XlaBuilder().parameter(xb.s32[3]))


@each_row(
    "shape, expected",
    [
        ("f32[2]{0}", "f32[2]"),
        ("c64[]", "c64[]"),
        ("s32[]", None),
        ("token[]", None),
        ("(s32[], pred[2])", None),
        ("(s32[], (f32[1], token[], bf16[]), (u8[]))", "((f32[1], bf16[]))"),
    ],
)
def test_gradient_shapes(shape: str, expected: str | None) -> None:
    found = gradient_shape(xb.parse_shape(shape))
    assert (found if found is None else str(found)) == expected


def test_edits() -> None:
    """The derivative survives where the computation does not change."""
    custom = xb.custom_gradient(scaled, backward)
    b = xb.XlaBuilder("caller")
    x, n = b.parameter(xb.f32[3]), b.parameter(xb.s32[()])
    caller = b.build(xb.exp(xb.call(custom, x, n)))

    def other(opcode: str) -> Callable[..., Any]:
        def function(op: xb.XlaOp, operands: Any) -> xb.XlaOp | None:
            return operands.keep() * 2.0 if op.opcode == opcode else None

        return function

    assert custom.replace(lambda _op, _operands: None).derivative is custom.derivative
    assert custom.replace(other("multiply")).derivative is None
    (kept,) = caller.replace(other("exponential"), nested=True).called_computations()
    assert kept is custom
    (changed,) = caller.replace(other("multiply"), nested=True).called_computations()
    assert changed.derivative is None
    assert caller.extract(caller.ops[2]).called_computations() == (custom,)


def test_wrong_arguments() -> None:
    @xb.computation(xb.s32[()])
    def integers(n: xb.XlaOp) -> xb.XlaOp:
        return xb.convert(n, xb.f32)

    @xb.computation(xb.f32[()])
    def rounded(x: xb.XlaOp) -> xb.XlaOp:
        return xb.convert(x, xb.s32)

    @xb.computation(xb.f32[3], xb.f32[3])
    def product(x: xb.XlaOp, y: xb.XlaOp) -> xb.XlaOp:
        return x * y

    outer = xb.XlaBuilder().parameter(xb.f32[3])
    for arguments, kind, message in (
        ((3, backward), xb.OperandError, "computation must be an XlaComputation, got 3"),
        ((backward, backward), xb.OperandError, "fix: write @xb.computation above the function"),
        ((scaled, 3), xb.OperandError, "backward must be an XlaComputation or a callable, got 3"),
        ((integers, backward), xb.ShapeInferenceError, "an operand of 'integers' must be of a fl"),
        ((rounded, backward), xb.ShapeInferenceError, "the result of 'rounded' must be of a float"),
        (
            (scaled, scaled),
            xb.SignatureError,
            r"backward must be the operands of 'scaled', .*\(f32\[3\], s32\[\], f32\[3\], f32\[3\]",
        ),
        ((scaled, lambda dy: dy), xb.SignatureError, "backward is called with 4 arguments"),
        (
            (scaled, lambda _x, n, _y, _dy: n),
            xb.ShapeInferenceError,
            r"gradients with respect to the operands of 'scaled', f32\[3\], got s32\[\]\nfix: ret",
        ),
        (
            (product, lambda _x, _y, _z, dz: dz),
            xb.ShapeInferenceError,
            r"of 'product', \(f32\[3\], f32\[3\]\), got f32\[3\]",
        ),
        ((scaled, lambda *_: outer), xb.BuilderError, "outer|builder"),
    ):
        with pytest.raises(kind, match=message) as caught:
            xb.custom_gradient(*arguments)  # type: ignore[call-overload]
        assert str(caught.value).startswith("custom_gradient: ")
    with pytest.raises(
        xb.OperandError, match=r"'backward'\nfix: write xb.custom_gradient\(product, b"
    ):
        xb.custom_gradient(product)  # type: ignore[call-overload]
