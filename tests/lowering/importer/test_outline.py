"""What is read from bytecode, compared with what MLIR's own objects say."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from jaxlib.mlir import ir

import builder as xb
import lowering
from lowering.importer.bodies import Body
from lowering.importer.outline import Outline

LOOPS = """
func.func private @twice(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.add %x, %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func @main(%n: tensor<i32>, %x: tensor<2xf32>) -> (tensor<i32>, tensor<2xf32>) {
  %one = stablehlo.constant dense<1> : tensor<i32>
  %a:2 = stablehlo.while(%i = %n, %y = %x) : tensor<i32>, tensor<2xf32>
  cond {
    %c = stablehlo.compare LT, %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %p = stablehlo.compare EQ, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %q = "stablehlo.if"(%p) ({
      %s = stablehlo.multiply %y, %x : tensor<2xf32>
      stablehlo.return %s : tensor<2xf32>
    }, {
      %s = func.call @twice(%y) : (tensor<2xf32>) -> tensor<2xf32>
      stablehlo.return %s : tensor<2xf32>
    }) : (tensor<i1>) -> tensor<2xf32>
    %j = stablehlo.add %i, %one {mhlo.frontend_attributes = {k = "v"}} : tensor<i32>
    stablehlo.return %j, %q : tensor<i32>, tensor<2xf32>
  }
  return %a#0, %a#1 : tensor<i32>, tensor<2xf32>
}
"""


def alike() -> lowering.StablehloModule:
    """Many sums, whose regions are the same."""
    b = xb.XlaBuilder("sums")
    x = b.parameter(xb.f32[4, 3], "x")
    for _ in range(5):
        x = xb.add(x, xb.reduce(x, 0.0, xb.add, [0]), broadcast_dimensions=[1])
    return lowering.lower(b.build(x))


def long(constant: int = 0) -> lowering.StablehloModule:
    """More values than numbers of two bytes, or a large constant with attributes behind it."""
    b = xb.XlaBuilder("long")
    x = b.parameter(xb.f32[2], "x")
    for _ in range(3 if constant else 17_000):
        x = xb.add(x, x)
    if constant:
        numbers = b.constant(np.arange(constant, dtype=np.int32))
        x = xb.add(x, xb.convert_element_type(xb.slice(numbers, [7], [9], [1]), xb.f32))
    return lowering.lower(b.build(xb.neg(x)))


MODULES = {
    "loops": lambda: lowering.load_bytes(LOOPS),
    "alike": alike,
    "long": long,
    "constant": lambda: long(100_000),
}


def pairs(outline: Outline, module: ir.Module) -> Iterator[tuple[Body, ir.Block]]:
    """Each body, and the block that stands in its place in MLIR."""
    pending = [(outline.body, module.body)]
    while pending:
        body, block = pending.pop()
        yield body, block
        for entry, view in zip(body.entries, block.operations, strict=True):
            regions = view.operation.regions
            pending += [(one, r.blocks[0]) for one, r in zip(entry[6], regions, strict=True)]


@pytest.mark.parametrize("name", MODULES)
def test_it_says_what_mlir_says(name: str) -> None:
    module = MODULES[name]().module
    outline = Outline(module)
    types: dict[int, ir.Type] = {}
    values: dict[tuple[int, int], ir.Value] = {}
    attributes: dict[tuple[int, int, int], str] = {}
    outer: dict[Body, dict[int, ir.Value]] = {}
    for body, block in pairs(outline, module):
        holder = body.holder
        inside = holder is not None and body.first > 0
        values = dict(outer[holder[0]]) if inside else {}
        own = [*block.arguments, *(r for v in block.operations for r in v.operation.results)]
        assert body.count == len(own) == len(body.types)
        values.update(enumerate(own, body.first))
        outer[body] = values
        for number, value in zip(body.types, own, strict=True):
            assert types.setdefault(number, value.type) == value.type
        for position, (entry, view) in enumerate(zip(body.entries, block.operations, strict=True)):
            kind, location, discardable, properties, results, operands, _ = entry
            operation = view.operation
            assert outline.names[kind] == operation.name
            assert [values[one] for one in operands] == list(operation.operands)
            assert [types[one] for one in results] == [r.type for r in operation.results]
            key = kind, discardable, properties
            said = str({n: str(operation.attributes[n]) for n in operation.attributes})
            assert attributes.setdefault(key, said) == said
            place = outline.place(location)
            assert place is not None
            file, line, column, _ = place
            if line:
                assert f'"{file.decode()}":{line}:{column}' in str(operation.location)
            if name != "alike":  # those of regions that are alike are the first's
                assert body.operation(position) == operation
    assert len(set(map(str, types.values()))) == len(types)


def test_captures_are_what_is_used_from_outside() -> None:
    module = MODULES["loops"]().module
    outline = Outline(module)
    entry = outline.body.entries[1][6][0]
    loop = entry.entries[1]
    condition, body = loop[6]
    n, x, one = 0, 1, 2
    assert condition.captures == [one]
    assert body.captures == [n, x, one]
    first, second = body.entries[1][6]
    y = body.first + 1
    assert (first.captures, second.captures) == ([y, x], [y])
    assert entry.captures == []


def test_regions_that_are_alike_are_one() -> None:
    outline = Outline(alike().module)
    (main,) = outline.body.entries[0][6]
    regions = [entry[6] for entry in main.entries if entry[6]]
    assert len(regions) == 5
    assert all(one is regions[0] for one in regions)
    assert len(outline.holders[0]) == 1


def test_a_large_constant_is_not_kept() -> None:
    outline = Outline(long(1_000_000).module)
    assert len(outline._data) < 10_000
