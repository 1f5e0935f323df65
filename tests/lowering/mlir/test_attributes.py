"""The values of MLIR attributes in Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from jaxlib.mlir import ir
from tables import each_row

from lowering.mlir.attributes import attribute_value
from lowering.mlir.modules import shared_context


@each_row(
    "text, value",
    [
        ("7 : i64", 7),
        ("true", True),
        ("0.5 : f32", 0.5),
        ('"a\\22b\\FF"', 'a"b?'),
        ("unit", True),
        ("@main", "main"),
        ("array<i64: 1, 2>", (1, 2)),
        ("array<i32>", ()),
        ("array<i1: true, false>", (True, False)),
        ('[1, [@f, "x"]]', (1, ("f", "x"))),
        ("{a = 1 : i8, b = {c = []}}", {"a": 1, "b": {"c": ()}}),
        ("#stablehlo<comparison_direction LE>", "LE"),
        ("#chlo<precision HIGHEST>", "HIGHEST"),
    ],
)
def test_values(text: str, value: Any) -> None:
    with shared_context():
        assert attribute_value(ir.Attribute.parse(text)) == value


@pytest.mark.parametrize(("text", "shape"), [("[[1, 2], [3, 4]]", "2x2"), ("5", "3")])
def test_dense_integers_are_arrays(text: str, shape: str) -> None:
    with shared_context():
        array = attribute_value(ir.Attribute.parse(f"dense<{text}> : tensor<{shape}xi64>"))
    expected = np.array([[1, 2], [3, 4]]) if shape == "2x2" else np.full(3, 5)
    assert array.dtype == np.int64
    np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize(
    ("text", "shape"), [("5", "99999999999"), ("", "4611686018427387904x4611686018427387904")]
)
def test_a_large_array_in_a_small_file(text: str, shape: str) -> None:
    """MLIR multiplies the sizes modulo 2**64."""
    with shared_context(), pytest.raises(TypeError, match="too many elements"):
        attribute_value(ir.Attribute.parse(f"dense<{text}> : tensor<{shape}xi64>"))


def test_others_are_unchanged() -> None:
    with shared_context():
        channel = ir.Attribute.parse("#stablehlo.channel_handle<handle = 1, type = 0>")
        assert attribute_value(channel) is channel
