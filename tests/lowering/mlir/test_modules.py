"""The text of every op is read back as the same module."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tables import each_row

import builder as xb
import lowering


def assert_read_back(computation: xb.XlaComputation) -> str:
    module = lowering.lower(computation)
    for text in (module.text, module.to_text(locations=True)):
        assert lowering.load_bytes(text).text == module.text
    return module.text


INDICES = np.zeros(0, np.int32)

OF_SCALARS: dict[str, Callable[[xb.XlaOp], xb.XlaOp]] = {
    "broadcast_in_dim": lambda x: xb.broadcast_in_dim(x, [], []),
    "dot_general": lambda x: xb.dot_general(x, x, xb.DotDimensionNumbers()),
    "dynamic_slice": lambda x: xb.dynamic_slice(x, [], []),
    "dynamic_update_slice": lambda x: xb.dynamic_update_slice(x, x, []),
    "gather": lambda x: xb.gather(
        x, x.builder.constant(INDICES), xb.GatherDimensionNumbers((), (), (), 0), []
    ),
    "map": lambda x: xb.map([x], xb.neg),
    "pad": lambda x: xb.pad(x, 0.0, []),
    "reduce": lambda x: xb.reduce(x, 0.0, xb.add, []),
    "reduce_window": lambda x: xb.reduce_window(x, 0.0, xb.add, [], [], []),
    "reshape": lambda x: xb.reshape(x, []),
    "rev": lambda x: xb.rev(x, []),
    "scatter": lambda x: xb.scatter(
        *(x, x.builder.constant(INDICES), x, xb.add),
        xb.ScatterDimensionNumbers((), (), (), 0),
    ),
    "select_and_scatter": lambda x: xb.select_and_scatter(x, xb.ge, [], [], [], x, 0.0, xb.add),
    "slice": lambda x: xb.slice(x, [], []),
    "transpose": lambda x: xb.transpose(x, []),
}
"""Ops whose lists of dimensions, sizes or indices are empty."""


@each_row("name", OF_SCALARS)
@each_row("is_inside", [False, True])
def test_scalars(name: str, is_inside: bool) -> None:
    b = xb.XlaBuilder('a "name"')
    with b.frontend_attributes({"a.b": ", , sizes = []"}):
        x = b.parameter(xb.f32[()], "x")
        function = OF_SCALARS[name]
        y = xb.while_(lambda v: v < 0.0, function, x) if is_inside else function(x)
        y.name = "\n  %0 = stablehlo.dynamic_slice %arg0, , sizes = []"
        assert_read_back(b.build(y))


def test_a_slice_of_a_scalar_is_in_the_generic_form() -> None:
    b = xb.XlaBuilder("slice")
    x = b.parameter(xb.f32[()], "x")
    y = xb.dynamic_slice(x, [], [])
    text = assert_read_back(b.build(y))
    assert (
        '%0 = "stablehlo.dynamic_slice"(%arg0) <{slice_sizes = array<i64>}> : '
        "(tensor<f32>) -> tensor<f32>" in text
    )
