"""builder.lib.registry: checks that all functions of the library share."""

from __future__ import annotations

import inspect

import pytest
from tables import each_row

import builder as xb
from builder import lib

OF_BUILDER = [
    name
    for name, info in lib.FUNCTIONS.items()
    if inspect.signature(info.function).parameters.get("builder", inspect.Parameter).annotation
    == "XlaBuilder"
]


def test_functions_of_builders_are_found() -> None:
    assert {"zeros", "eye", "linspace", "random_key"} <= {*OF_BUILDER}


@each_row("name", OF_BUILDER)
def test_builders_are_checked(name: str) -> None:
    function = lib.FUNCTIONS[name].function
    required = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    x = xb.XlaBuilder().parameter(xb.f32[2])
    for builder in (None, xb.XlaBuilder, x):
        rest = [None for _ in required[1:]]
        for call in (
            lambda b, rest=rest: function(b, *rest),
            lambda b, rest=rest: function(
                builder=b, **{p.name: value for p, value in zip(required[1:], rest, strict=True)}
            ),
        ):
            with pytest.raises(xb.OperandError) as caught:
                call(builder)
            assert str(caught.value).startswith(f"{name}: builder must be an XlaBuilder, got ")
    with pytest.raises(TypeError):
        function()
