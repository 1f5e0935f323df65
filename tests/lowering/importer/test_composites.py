"""Import of composites: their attributes are those of the file."""

from __future__ import annotations

import numpy as np
import pytest

import builder as xb
import lowering
from lowering.jaxlib_api import hlo_conversion
from lowering.mlir.operations import operations_in

pytestmark = pytest.mark.usefixtures("read_here")

COMPOSITE = """
  func.func private @impl(%arg0: tensor<2xf32>) -> tensor<2xf32> {{
    return %arg0 : tensor<2xf32>
  }}
  func.func @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {{
    %0 = stablehlo.composite "mine.op" %arg0 {{
      composite_attributes = {{{}}}, decomposition = @impl
    }} : (tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }}
"""


ATTRIBUTES = (
    *("1 : i32", "-1 : index", "3 : ui64", "0.1 : f32", "2.0 : bf16", "unit", "false"),
    *("array<i64: 1, 2>", "array<i1: true>", "array<f32: 0.1>", "[1, 2.0 : bf16]", "[]"),
    *("dense<[1, 2]> : tensor<2xi32>", "dense<(1.0, 2.0)> : tensor<complex<f32>>"),
    *('"\\FF\\00a"', "tensor<2xf32>", "@impl", "#stablehlo<precision HIGH>", "{y = 1 : i8}"),
    *('loc("file.py":1:2)', "affine_map<(d0) -> (d0)>", '"text" : i32'),
)


def test_attributes_of_composites_are_unchanged() -> None:
    listed = ", ".join(f"x{n} = {attribute}" for n, attribute in enumerate(ATTRIBUTES))
    module = lowering.load_bytes(COMPOSITE.format(listed))
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
        lowering.to_computation(lowering.load_bytes(COMPOSITE.format(f"x = {attribute}")))
    text = lowering.load_bytes(COMPOSITE.format('x = "dense_resource<"'))
    assert 'x = "dense_resource<"' in lowering.lower(lowering.to_computation(text)).text


def test_composites_with_several_results_in_hlo() -> None:
    """jaxlib's converter gives such a composite one result; `from_hlo` restores it."""
    b = xb.XlaBuilder("both")
    x = b.parameter(xb.f32[3])
    with b.frontend_attributes({"stage": "1"}):
        both = xb.composite_call(lambda v: (v + 1, v * 2), x, "mine.both", {"a": [1, 2]}, 3)
    one = xb.composite_call(lambda v: xb.tuple(v), both[0], "mine.one")
    computation = b.build(xb.tuple(both, one))
    text = computation.to_hlo_text()
    for hlo in (text, hlo_conversion.hlo_proto(text)):
        again = lowering.from_hlo(hlo)
        assert again.program_shape.result == computation.program_shape.result
        first, second = (op for op in again.ops if op.opcode == "composite")
        assert (first.attributes["name"], first.attributes["version"]) == ("mine.both", 3)
        assert first.attributes["composite_attributes"] == "{a = [1 : i64, 2 : i64]}"
        assert first.frontend_attributes == {"stage": "1"}
        assert (second.attributes["name"], second.attributes["version"]) == ("mine.one", 0)
        (more, double), (same,) = lowering.compile(again, "cpu")(np.arange(3, dtype=np.float32))
        assert np.asarray(more).tolist() == np.asarray(same).tolist() == [1, 2, 3]
        assert np.asarray(double).tolist() == [0, 2, 4]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('composite.version="3"', 'composite.version="three"'),
        ('composite.attributes="{a = 1 : i64}"', 'composite.attributes="{a = "'),
        ('composite.attributes="{a = 1 : i64}"', 'composite.attributes="1 : i64"'),
        ('composite.attributes="{a = 1 : i64}"', f'composite.attributes="{"[" * 100_000}"'),
    ],
    ids=["version", "text", "no dictionary", "deep"],
)
def test_damaged_attributes_of_a_composite_in_hlo(old: str, new: str) -> None:
    b = xb.XlaBuilder("both")
    both = xb.composite_call(lambda v: (v + 1, v), b.parameter(xb.f32[3]), "mine.both", {"a": 1}, 3)
    text = b.build(both).to_hlo_text()
    assert old in text
    again = lowering.from_hlo(text.replace(old, new))
    assert [op.opcode for op in again.ops if op.opcode in ("call", "composite")] == ["call"]
