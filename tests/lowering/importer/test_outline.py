"""What is read from bytecode, compared with what MLIR's own objects say."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from jaxlib.mlir import ir

import builder as xb
import lowering
from lowering.importer import outline
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


PLACES = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.constant dense<[[1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 2, 3, 4, 5, 6, 7, 8, 9]]>
      : tensor<2x9xi64> loc("a.py":1000:2)
  %1 = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi64> loc("a.py":70000:300)
  %2 = stablehlo.add %x, %x : tensor<2xf32> loc("a.py":8:1)
  %3 = stablehlo.add %x, %x : tensor<2xf32> loc("b.py":8:1)
  %4 = stablehlo.add %x, %x : tensor<2xf32> loc("named"("a.py":9:1))
  %5 = stablehlo.add %x, %x : tensor<2xf32> loc(unknown)
  %6 = stablehlo.add %x, %x : tensor<2xf32> loc(callsite("f"("a.py":10:1) at "g"("a.py":11:1)))
  return %6 : tensor<2xf32> loc("a.py":0:0)
}
"""

MODULES = {
    "loops": lambda: lowering.load_bytes(LOOPS),
    "alike": alike,
    "long": long,
    "constant": lambda: long(100_000),
    "text": lambda: lowering.load_bytes(long(30).text),
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


def entry_of(text: str) -> Body:
    """What the last function of a text consists of."""
    body: Body = Outline(lowering.load_bytes(text).module).body.entries[-1][6][0]
    return body


def sums(*lines: str) -> str:
    """For each of these lines a sum whose region has it."""
    applied = [
        f"""
  %r{number} = "stablehlo.reduce"(%x, %zero) ({{
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    {line}
    stablehlo.return %c : tensor<f32>
  }}) {{dimensions = array<i64: 0>}} : (tensor<4xf32>, tensor<f32>) -> tensor<f32>"""
        for number, line in enumerate(lines)
    ]
    return f"""
func.func @main(%x: tensor<4xf32>) -> tensor<f32> {{
  %zero = stablehlo.constant dense<0.0> : tensor<f32>{"".join(applied)}
  return %r0 : tensor<f32>
}}"""


ADD = "%c = stablehlo.add %a, %b : tensor<f32>"


def test_regions_of_a_text_that_differ_in_their_lines_only_are_one() -> None:
    # Enough of them for locations of one, of two and of three bytes.
    main = entry_of("\n" * 5 + sums(*[ADD] * 6000))
    lines = {entry[6][0].entries[0][1] for entry in main.entries if entry[6]}
    regions = {entry[6] for entry in main.entries if entry[6]}
    assert len(regions) == len(lines) <= 3


@pytest.mark.parametrize(
    "other",
    [
        "%c = stablehlo.subtract %a, %b : tensor<f32>",
        "%c = stablehlo.add %b, %a : tensor<f32>",
        "%c = stablehlo.add %a, %a : tensor<f32>",
        "%c = stablehlo.add %a, %b {k.v = 1 : i32} : tensor<f32>",
        "%d = stablehlo.add %b, %b : tensor<f32>\n" + ADD,
        '%c = "stablehlo.add"(%a, %zero) : (tensor<f32>, tensor<f32>) -> tensor<f32>',
    ],
    ids=["name", "order", "operand", "attribute", "two", "outside"],
)
def test_regions_that_differ_in_more_are_not_one(other: str) -> None:
    main = entry_of(sums(ADD, other, ADD, other))
    first, second, third, fourth = (entry[6] for entry in main.entries if entry[6])
    assert first is third
    assert second is not first
    assert fourth is not first


def every(text: str) -> list[object]:
    """All that is known of the ops of the computation in a text, and of those that it applies."""
    computation = lowering.to_computation(lowering.load_bytes(text))
    return [
        (one.name, one.to_hlo_text(), [(op.name, op.source, op.sharding) for op in one.ops])
        for one in (computation, *computation.called_computations())
    ]


@pytest.mark.parametrize("text", [LOOPS, sums(ADD, ADD, ADD), PLACES, alike().text])
def test_computations_are_those_of_regions_read_one_by_one(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    found = every(text)
    monkeypatch.setattr(outline, "_without_locations", lambda code: None)
    monkeypatch.setattr(Outline, "places", lambda self, locations: None)
    assert every(text) == found


def test_places_of_many_are_those_of_each() -> None:
    found = Outline(lowering.load_bytes(PLACES).module)
    (main,) = found.body.entries[0][6]
    first, second, third, other, named, unknown, called, last = (one[1] for one in main.entries)
    wanted = b"a.py", [1000, 70000, 8, 0], [2, 300, 1, 0]
    assert found.places([first, second, third, last]) == wanted
    assert [found.place(one) for one in (second, other)] == [
        (b"a.py", 70000, 300, None),
        (b"b.py", 8, 1, None),
    ]
    assert found.place(named) == (b"a.py", 9, 1, b"named")
    assert found.place(unknown) == (b"", 0, 0, None)
    assert found.place(called) is None
    for odd in (other, named, unknown, called):
        assert found.places([first, odd]) is None
    assert found.places([]) is None


@pytest.mark.parametrize("order", ["as they stand", "backwards", "any", "a few"])
def test_operations_are_found_in_any_order(order: str) -> None:
    count = 700
    lines = (f"  %{n + 1} = stablehlo.add %{n}, %{n} : tensor<f32>\n" for n in range(count - 1))
    module = lowering.load_bytes(
        f"func.func @main(%0: tensor<f32>) -> tensor<f32> {{\n{''.join(lines)}"
        f"  return %{count - 1} : tensor<f32>\n}}"
    ).module
    (main,) = Outline(module).body.entries[0][6]
    wanted = list(module.body.operations[0].regions[0].blocks[0].operations)
    positions = {
        "as they stand": range(count),
        "backwards": range(count - 1, -1, -1),
        "any": np.random.default_rng(0).permutation(count).tolist(),
        "a few": [600, 3, 650, 3, 699],
    }[order]
    for position in positions:
        found = main.operation(position)
        assert found == wanted[position].operation
        assert main.operation(position) is found


def test_a_large_constant_is_not_kept() -> None:
    outline = Outline(long(1_000_000).module)
    assert len(outline._data) < 10_000
