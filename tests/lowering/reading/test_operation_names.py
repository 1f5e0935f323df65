"""The operation names in bytecode and text, compared with those of MLIR."""

from __future__ import annotations

import pytest
from jaxlib.mlir import ir
from tables import each_row

import lowering
from lowering.jaxlib_api import mlir
from lowering.reading import module_reader
from lowering.reading.bytecode_tables import operation_names, prefixes_before_dots

TEXT = """
func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = chlo.erf %x : tensor<2xf32> -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func @main(%x: tensor<2xf32>, %p: tensor<i1>) -> tensor<2xf32> {
  %0 = "stablehlo.if"(%p) ({
    %1 = stablehlo.add %x, %x : tensor<2xf32>
    stablehlo.return %1 : tensor<2xf32>
  }, {
    %1 = call @f(%x) : (tensor<2xf32>) -> tensor<2xf32>
    stablehlo.return %1 : tensor<2xf32>
  }) : (tensor<i1>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
"""


class Written:
    """A file in memory that MLIR's Python bindings write to."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, piece: bytes) -> None:
        self.data += piece


def bytecode(text: str, version: int = 6) -> bytes:
    written = Written()
    module = mlir.read_module(mlir.new_context(), text)
    module.operation.write_bytecode(written, version)
    return written.data


def walked(data: bytes) -> set[str]:
    names = set()

    def look(operation: ir.Operation) -> ir.WalkResult:
        names.add(operation.name)
        return ir.WalkResult.ADVANCE

    module = mlir.read_module(mlir.new_context(), data)
    module.operation.walk(look)
    return names


@pytest.mark.parametrize("version", [5, 6])
def test_names_in_bytecode(version: int) -> None:
    data = bytecode(TEXT, version)
    assert operation_names(data) == walked(data)


def test_names_in_older_bytecode_are_unknown() -> None:
    assert operation_names(bytecode(TEXT, 4)) is None


def test_names_in_damaged_bytecode_are_unknown() -> None:
    data = bytecode(TEXT)
    assert operation_names(data[:-1]) is None
    assert operation_names(data[:4] + b"\xff" * 40) is None
    assert operation_names(b"ML\xefR") is None


def test_operations_in_bytecode_are_refused_by_name() -> None:
    calls = TEXT.replace("chlo.erf %x : tensor<2xf32> -> tensor<2xf32>", "call @f(%x)").replace(
        "call @f(%x)\n", "call @f(%x) : (tensor<2xf32>) -> tensor<2xf32>\n"
    )
    with pytest.raises(lowering.ModuleFileError, match="does not support: @f -> @f"):
        lowering.load_bytes(bytecode(calls))
    other = TEXT.replace(
        "chlo.erf %x : tensor<2xf32> -> tensor<2xf32>", "math.erf %x : tensor<2xf32>"
    )
    with pytest.raises(
        lowering.ModuleFileError, match=r"math\.erf is not an operation of StableHLO"
    ):
        lowering.load_bytes(bytecode(other))


UNARY = "(tensor<2xf32>) -> tensor<2xf32>"

PLAIN = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "stablehlo.add"(%x, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %1 = chlo.erf %0 {jax.v = 1.5 : f32} : tensor<2xf32> -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
"""


def test_prefixes_before_dots() -> None:
    assert prefixes_before_dots(PLAIN) == {"func", "stablehlo", "chlo", "jax", "1"}
    dialects = {name.partition(".")[0] for name in walked(bytecode(TEXT))}
    assert prefixes_before_dots(TEXT) == dialects - {"builtin"}


@each_row(
    "more",
    [
        'loc("a\\n.py":1:1)',
        "// a_module_of_many_letters.py",
        "// " + "".join(f"{n}.0, " for n in range(5000)),
    ],
)
def test_prefixes_that_are_unknown(more: str) -> None:
    assert prefixes_before_dots(PLAIN + more) is None


def test_text_with_supported_names_is_not_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    def walk(*_: object) -> None:
        raise AssertionError("walked")

    monkeypatch.setattr(module_reader, "_check_operations", walk)
    lowering.load_bytes(PLAIN)
    with pytest.raises(AssertionError, match="walked"):
        lowering.load_bytes(TEXT)


@each_row(
    "operation, refused",
    [
        ("math.erf %x : tensor<2xf32>", r"math\.erf is not an operation"),
        ('"math.erf"(%x) : ' + UNARY, r"math\.erf is not an operation"),
        ('"ma\\74h.erf"(%x) : ' + UNARY, r"math\.erf is not an operation"),
        (f"call @main(%x) : {UNARY}", "does not support: @main -> @main"),
        (f'"func.c\\61ll"(%x) {{callee = @main}} : {UNARY}', "does not support: @main -> @main"),
        (
            f"stablehlo.custom_call @target(%x) {{called_computations = [@main]}} : {UNARY}",
            "does not support: @main -> @main",
        ),
        (
            f'stablehlo.composite "a.b" %x {{decomposition = @main}} : {UNARY}',
            "does not support: @main -> @main",
        ),
        ('"vhlo.sine_v1"(%x) : ' + UNARY, r"vhlo\.sine_v1 is not an operation"),
    ],
)
def test_operations_in_text_are_refused_by_name(operation: str, refused: str) -> None:
    before, _, after = PLAIN.partition('"stablehlo.add"')
    text = before + operation + "\n" + after.partition("\n")[2]
    with pytest.raises(lowering.ModuleFileError, match=refused):
        lowering.load_bytes(text)
