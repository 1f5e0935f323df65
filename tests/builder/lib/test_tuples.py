"""builder.lib.loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from library_calls import run

import builder as xb
from builder import lib


def test_nested_tuples() -> None:
    def exchanged(x: xb.XlaOp, y: xb.XlaOp) -> xb.XlaOp:
        t = lib.assemble_tuple(x.builder, [x, (y, [x, ()], ())])
        assert str(t.shape) == "(f32[2], (s32[], (f32[2], ()), ()))"
        first, (second, (third, empty), other) = lib.disassemble_tuple(t)
        assert empty == other == ()
        return lib.assemble_tuple(x.builder, ((second, third * 2.0), first))

    x, y = np.array([1, 2], np.float32), np.int32(7)
    (second, third), first = run(exchanged, x, y)
    assert second == 7
    np.testing.assert_array_equal(first, x)
    np.testing.assert_array_equal(third, 2 * x)


def test_values_that_are_no_tuples() -> None:
    b = xb.XlaBuilder()
    x, token = b.parameter("f32[2]"), b.create_token()
    assert lib.disassemble_tuple(x) is x
    assert lib.assemble_tuple(b, token) is token
    assert lib.disassemble_tuple(lib.assemble_tuple(b, [token]))[0].shape == token.shape


def test_refusals() -> None:
    b = xb.XlaBuilder()
    with pytest.raises(
        xb.OperandError, match=r"^disassemble_tuple: tuple must be an XlaOp, got int"
    ):
        lib.disassemble_tuple(1)
    for element in (1, "x", None):
        with pytest.raises(
            xb.OperandError, match=r"^assemble_tuple: element must be an XlaOp, got"
        ):
            lib.assemble_tuple(b, [b.parameter("f32[]"), element])
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(xb.OperandError, match=r"nested at most 200 deep; one may contain itself"):
        lib.assemble_tuple(b, endless)
