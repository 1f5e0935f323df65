"""The valid files that are damaged."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

import builder as xb
import lowering
from lowering.jaxlib_api import artifacts, hlo_conversion, mlir, versions
from tests.lowering.importer.examples import recorded_by_example
from tests.type_grid.cases import CASES, modules, text_of

__all__ = ["examples", "handful", "in_three_forms", "of_one_operation", "samples"]

_FOREIGN: Final = (
    """\
#loc1 = loc("x")
module @of_others attributes {mhlo.num_partitions = 1 : i32} {
  sdy.mesh @mesh = <["a"=2]>
  func.func public @main(%x: tensor<2x3xf32> {mhlo.sharding = "{replicated}", jax.buffer_donor = true} loc(#loc1), %i: tensor<2x2xi32>) -> (tensor<2x3xf32> {jax.result_info = "r"}, tensor<4xf32>, tensor<2x2xf32>) {
    %0 = "stablehlo.torch_index_select"(%x, %i) {dim = 1 : i64, batch_dims = 1 : i64} : (tensor<2x3xf32>, tensor<2x2xi32>) -> tensor<2x2xf32>
    %1 = "stablehlo.einsum"(%x, %x) {einsum_config = "ab,cb->ac"} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>
    %2 = stablehlo.composite "my.op" %1, %0 {composite_attributes = {n = 1 : i64, s = "a"}, decomposition = @inner, version = 1 : i32} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    %3 = stablehlo.constant dense<[4]> : tensor<1xi64>
    %4 = stablehlo.dynamic_reshape %2, %3 : (tensor<2x2xf32>, tensor<1xi64>) -> tensor<4xf32>
    %values, %indices = chlo.top_k(%x, k = 2) : tensor<2x3xf32> -> (tensor<2x2xf32>, tensor<2x2xi32>)
    %5 = stablehlo.custom_call @Sharding(%x) {mhlo.sharding = "{devices=[1,2]<=[2]}", api_version = 2 : i32} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %6 = stablehlo.constant dense<(1.0, 2.0)> : tensor<3xcomplex<f32>>
    %7 = chlo.broadcast_add %5, %x : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    return %7, %4, %values : tensor<2x3xf32>, tensor<4xf32>, tensor<2x2xf32>
  }
  func.func private @inner(%a: tensor<2x2xf32>, %b: tensor<2x2xf32>) -> tensor<2x2xf32> {
    %0 = chlo.erf_inv %a : tensor<2x2xf32> -> tensor<2x2xf32>
    %1 = stablehlo.add %0, %b : tensor<2x2xf32>
    return %1 : tensor<2x2xf32>
  }
}
""",  # noqa: E501
    """\
func.func @main(%x: tensor<3xf32>, %p: tensor<i1>, %n: tensor<i32>) -> (tensor<3xf32>, tensor<i32>) {
  %c = stablehlo.constant dense<1> : tensor<i32>
  %0:2 = stablehlo.while(%a = %x, %b = %n) : tensor<3xf32>, tensor<i32>
    cond {
      %1 = stablehlo.compare LT, %b, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1 = stablehlo.add %b, %c : tensor<i32>
      %2 = "stablehlo.if"(%p) ({
        stablehlo.return %a : tensor<3xf32>
      }, {
        %3 = "stablehlo.sort"(%a) <{dimension = 0 : i64, is_stable = true}> ({
        ^bb0(%l: tensor<f32>, %r: tensor<f32>):
          %4 = stablehlo.compare GT, %l, %r : (tensor<f32>, tensor<f32>) -> tensor<i1>
          stablehlo.return %4 : tensor<i1>
        }) : (tensor<3xf32>) -> tensor<3xf32>
        stablehlo.return %3 : tensor<3xf32>
      }) : (tensor<i1>) -> tensor<3xf32>
      stablehlo.return %2, %1 : tensor<3xf32>, tensor<i32>
    }
  %5 = stablehlo.optimization_barrier %0#0 : tensor<3xf32>
  return %5, %0#1 : tensor<3xf32>, tensor<i32>
}
""",  # noqa: E501
)
"""Texts with constructs that only other programs write."""


def _network() -> xb.XlaComputation:
    b = xb.XlaBuilder("network")
    image = b.parameter(xb.f32[1, 6, 6, 2], "image")
    kernel = b.constant(np.ones((3, 3, 2, 4), np.float32))
    numbers = xb.ConvolutionDimensionNumbers(0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2))
    convolved = xb.conv_with_general_dimensions(image, kernel, (1, 1), "VALID", numbers)
    pooled = xb.reduce_window(convolved, 0.0, xb.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    weights = b.constant(np.linspace(0, 1, 64, dtype=np.float32).reshape(16, 4))
    return b.build(xb.dot(xb.reshape(pooled, (1, 16)), weights))


def _indexing() -> xb.XlaComputation:
    b = xb.XlaBuilder("indexing")
    table = b.parameter(xb.f32[5, 3], "table")
    rows = b.parameter(xb.s32[4, 1], "rows")
    state = b.parameter((xb.u64[2], (xb.pred[()], xb.bf16[2])), "state")
    gathered = xb.gather(table, rows, xb.GatherDimensionNumbers((1,), (0,), (0,), 1), (1, 3))
    numbers = xb.ScatterDimensionNumbers((1,), (0,), (0,), 1)
    added = xb.scatter(table, rows, gathered, xb.add, numbers)
    padded = xb.pad(added, b.constant(np.float32(0)), ((1, 0, 0), (0, 1, 1)))
    return b.build(
        xb.tuple(xb.rev(xb.transpose(padded, (1, 0)), (0,)), xb.get_tuple_element(state, 1))
    )


def handful() -> list[bytes]:
    """Return a few small files in all formats, which reveal most defects."""
    files = [text.encode() for text in _FOREIGN]
    for computation in (_network(), _indexing()):
        files += in_three_forms(lowering.lower(computation))
        files += in_hlo(computation)
    for text in _FOREIGN:
        files += in_three_forms(lowering.load_bytes(text))[1:]
    return files


def of_one_operation() -> list[bytes]:
    """Return the texts of the grid's modules for one device, for every element type."""
    return [
        text_of(CASES[name], element_type, constant=constant).encode()
        for name, element_type, constant in modules()
        if CASES[name].replicas * CASES[name].partitions == 1
    ]


def in_hlo(computation: xb.XlaComputation) -> list[bytes]:
    """Return a computation as HLO text and as a protocol buffer."""
    text = computation.to_hlo_text()
    return [text.encode(), hlo_conversion.hlo_proto(text)]


def in_three_forms(module: lowering.StablehloModule) -> list[bytes]:
    """Return a module as text with locations, as bytecode, and as a portable artifact.

    They have no checksums, which would detect any change.
    """
    artifact = artifacts.serialize_artifact(module.module, versions.current_version(), {})
    text = module.to_text(locations=True)
    return [text.encode(), mlir.bytecode(module.module), artifact]


def examples() -> Iterator[bytes]:
    """Return the computations in the docstrings of all ops, in all formats."""
    for name in xb.OPERATIONS:
        for computation in recorded_by_example(name):
            try:
                module = lowering.lower(computation)
                forms = [*in_three_forms(module), *in_hlo(computation)]
            except (lowering.LoweringError, ValueError):
                continue  # some are refused or cannot be saved
            yield from forms


def samples(folder: Path) -> Iterator[bytes]:
    """Return the modules in the files of a folder.

    Operations of the check dialect are removed, and the first function is renamed to main.
    """
    for path in sorted(folder.rglob("*")):
        if path.suffix not in (".mlir", ".mlirbc", ".stablehlo"):
            continue
        for module in path.read_bytes().split(b"// -----"):
            text = re.sub(rb"(?m)^ *check\..*$", b"", module)
            if b"@main" not in text:
                text = re.sub(rb"func\.func (?:public )?@\w+", b"func.func @main", text, count=1)
            yield text
