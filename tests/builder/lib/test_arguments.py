"""Every function of the library refuses arguments of wrong types, sizes and kinds by its name."""

from __future__ import annotations

import inspect
import math
import random
from typing import Any

import numpy as np
import pytest
from tables import each_row

import builder as xb
from builder import lib
from builder.lib.arguments import finite_number, real_number

SHAPES = (
    *("f32[]", "f32[4,3]", "f32[3,3]", "f32[0,3]", "f32[<=4,3]", "f32[?,3]", "bf16[2,8,8,4]"),
    *("s32[]", "s32[4]", "u64[3]", "u64[]", "u32[2]", "pred[4,3]", "c64[3,3]", "f8e5m2[4,3]"),
    *("f8e8m0fnu[4]", "s4[4]", "token[]", "(f32[4], s32[])", "()"),
)
ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 3, 2**31, 2**70, 10**400, 0.5, math.nan, math.inf, 1j, "x", "", "SAME"),
    *("f32[4,3]", "f32[", "ij,jk->ik", b"x", [], [0], [1, 1], [-1], [1.5], [None], [[0, 0]], {}),
    *(
        set(),
        object(),
        ...,
        int,
        slice(None),
        range(3),
        np.float32(1),
        np.int64(2),
        np.array([1, 2]),
    ),
    *(np.zeros((3, 3)), xb.f32, xb.s32, xb.pred, xb.add, xb.parse_shape("(f32[2])")),
)


@each_row("name", sorted(lib.FUNCTIONS))
def test_odd_arguments(name: str) -> None:
    """A call returns, or raises an error of `builder` that begins with the function's name."""
    draw = random.Random(name)
    function = lib.FUNCTIONS[name].function
    parameters = inspect.signature(function).parameters.values()
    b = xb.XlaBuilder("odd")
    ops = [b.parameter(shape) for shape in SHAPES]
    ops.append(xb.XlaBuilder("other").parameter(xb.f32[4, 3]))
    for _ in range(150):
        arguments: list[Any] = []
        named: dict[str, Any] = {}
        for parameter in parameters:
            kind = str(parameter.annotation)
            usual: Any = b if kind.startswith("XlaBuilder") else draw.choice(ops)
            value = usual if draw.random() < 0.6 and "Xla" in kind else draw.choice(ODD)
            if parameter.kind is parameter.VAR_POSITIONAL:
                arguments = [draw.choice([*ops, *ODD]) for _ in range(draw.randrange(4))]
            elif parameter.default is parameter.empty or draw.random() < 0.4:
                named[parameter.name] = value
        if not callable(named.get("bit_generator", print)):
            named["bit_generator"] = lib.three_fry_bit_generator
        message = ""
        try:
            function(*arguments, **named)
        except xb.XlaError as error:
            message = str(error)
        assert not message or message.startswith(f"{name}: "), (message, named)
        assert len(message) < 2000


def test_numbers() -> None:
    for value in (2, 2.0, np.float32(2), np.int8(2)):
        assert real_number("op", "x", value) == finite_number("op", "x", value) == 2.0
    assert math.isnan(real_number("op", "x", math.nan))
    wrong: tuple[Any, ...] = (True, "2", None, 1j, np.complex64(1), np.bool_(True), 10**400, [2])
    for value in wrong:
        with pytest.raises(xb.OperandError, match=r"^op: x must be a number, got "):
            real_number("op", "x", value)
    for value in (math.nan, -math.inf, 10**400, True):
        with pytest.raises(xb.OperandError, match=r"^op: x must be a finite number, got "):
            finite_number("op", "x", value)
    with pytest.raises(xb.OperandError, match=r"^op: x must be a finite number of at least 0"):
        finite_number("op", "x", -1, 0)
