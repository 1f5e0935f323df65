"""Element types that StableHLO has and XLA does not are refused where a file is read."""

from __future__ import annotations

import io

import pytest
from tables import each_row

import lowering
from lowering.jaxlib_api import artifacts, mlir, versions
from lowering.mlir.bytecode import HAS_ATTRIBUTES, HAS_REGIONS, BytecodeWriter, reference

pytestmark = pytest.mark.usefixtures("read_here")

TEXT = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.add %x, %x : tensor<2xf32>
  %1 = stablehlo.convert %0 : (tensor<2xf32>) -> tensor<2xTYPE>PLACE
  %2 = stablehlo.convert %1 : (tensor<2xTYPE>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}
"""


def in_format(text: str, kind: str) -> bytes:
    """The module as another program writes it, without a checksum."""
    if kind == "text":
        return text.encode()
    module = mlir.read_module(mlir.new_context(), text)
    if kind == "artifact":
        return artifacts.serialize_artifact(module, versions.current_version(), {}, lambda _: None)
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()


@each_row("kind", ["text", "bytecode", "artifact"])
@each_row("name", ["f6E2M3FN", "f6E3M2FN"])
def test_the_operation_is_named(kind: str, name: str) -> None:
    text = TEXT.replace("TYPE", name)
    message = f"stablehlo.convert: XLA does not support the element type {name}, got tensor<2x"
    with pytest.raises(lowering.ModuleFileError) as caught:
        lowering.load_bytes(in_format(text.replace("PLACE", ""), kind))
    assert f"line 4, column 8: {message}" in str(caught.value)
    assert (caught.value.line, caught.value.column) == (4, 8)
    text = text.replace("PLACE", ' loc("model.py":7:1)')
    with pytest.raises(lowering.ModuleFileError, match=r"convert, recorded at model\.py:7: XLA do"):
        lowering.load_bytes(in_format(text, kind))


@each_row("kind", ["text", "bytecode", "artifact"])
@each_row("name", ["f4E2M1FN", "f8E8M0FNU", "f8E3M4", "i2", "ui4", "i1"])
def test_types_of_xla_are_read(kind: str, name: str) -> None:
    """Also if text contains the names of other types."""
    text = TEXT.replace("TYPE", name).replace("PLACE", ' loc("f6E2M3FN")')
    module = lowering.load_bytes(in_format(text, kind))
    assert f"tensor<2x{name}>" in module.text
    lowering.to_computation(module)


def test_quantized_types_in_bytecode() -> None:
    writer = BytecodeWriter()
    attributes = writer.dictionary({"x.type": "tensor<2x!quant.uniform<i8:f32, 0.5>>"})
    flags = bytes((HAS_ATTRIBUTES | HAS_REGIONS,))
    head = writer.operation_name("builtin.module") + flags + writer.unknown_location() + attributes
    # One isolated region of one block, without values and operations.
    region = b"".join(map(reference, (1 << 1 | 1, 1, 0, 0)))
    with pytest.raises(
        lowering.ModuleFileError,
        match=r"^the module: quantized types are not supported, .*: uniform<i8:f32, 0\.5>\nfix: ",
    ):
        lowering.load_bytes(writer.module([head, region]))
