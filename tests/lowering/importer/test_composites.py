"""Import of composites: their attributes are those of the file."""

from __future__ import annotations

import pytest

import lowering
from lowering.jaxlib_api import hlo_conversion
from lowering.mlir.operations import operations_in

COMPOSITE = """
  func.func private @impl(%arg0: tensor<2xf32>) -> tensor<2xf32> {{
    return %arg0 : tensor<2xf32>
  }}
  func.func @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {{
    %0 = stablehlo.composite "mine.op" %arg0 {{
      composite_attributes = {{x = {}}}, decomposition = @impl
    }} : (tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }}
"""


@pytest.mark.parametrize(
    "attribute",
    [
        *("1 : i32", "-1 : index", "3 : ui64", "0.1 : f32", "2.0 : bf16", "unit", "false"),
        *("array<i64: 1, 2>", "array<i1: true>", "array<f32: 0.1>", "[1, 2.0 : bf16]", "[]"),
        *("dense<[1, 2]> : tensor<2xi32>", "dense<(1.0, 2.0)> : tensor<complex<f32>>"),
        *('"\\FF\\00a"', "tensor<2xf32>", "@impl", "#stablehlo<precision HIGH>", "{y = 1 : i8}"),
        *('loc("file.py":1:2)', "affine_map<(d0) -> (d0)>", '"text" : i32'),
    ],
)
def test_attributes_of_composites_are_unchanged(attribute: str) -> None:
    module = lowering.load_bytes(COMPOSITE.format(attribute))
    computation = lowering.to_computation(module)
    again = lowering.lower(computation)

    def attributes(module: lowering.StablehloModule) -> str:
        (operation,) = operations_in(module.module, ["stablehlo.composite"])
        return str(operation.attributes["composite_attributes"])

    expected = attributes(module)
    assert attributes(again) == expected
    assert attributes(lowering.load_bytes(again.bytecode)) == expected
    text = computation.to_hlo_text()
    for hlo in (text, hlo_conversion.parsed_hlo_text(text)):
        assert attributes(lowering.lower(lowering.from_hlo(hlo))) == expected
    lowering.compile(computation)


def test_resources_in_attributes_of_composites_are_refused() -> None:
    attribute = "dense_resource<blob> : tensor<2xf32>"
    with pytest.raises(
        lowering.LoweringError, match=rf"composite, .*must contain their.*{attribute}"
    ):
        lowering.to_computation(lowering.load_bytes(COMPOSITE.format(attribute)))
    text = lowering.load_bytes(COMPOSITE.format('"dense_resource<"'))
    assert 'x = "dense_resource<"' in lowering.lower(lowering.to_computation(text)).text
