"""Regions: their captured values, and equal regions."""

from __future__ import annotations

from imported import of_text
from tables import each_row

import builder as xb
import lowering
from lowering.importer.scope import region_operations
from lowering.sharding.partitioning import main_function

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


def test_inner_operations_come_first() -> None:
    module = lowering.load_bytes(LOOPS)
    actual = [
        region_operation.operation.name
        for region_operation in region_operations(main_function(module.module.operation))
    ]
    assert actual == ["stablehlo.if", "stablehlo.while", "func.func"]


def test_captures_are_values_from_outside() -> None:
    module = lowering.load_bytes(LOOPS)
    branches, (_, loop), (_, (main,)) = region_operations(main_function(module.module.operation))
    condition, body = loop
    n, x = main.arguments
    one = main.operations[0].result
    assert condition.captures == [one]
    assert body.captures == [n, x, one]
    first, second = branches.bodies
    y = body.arguments[1]
    assert (first.captures, second.captures) == ([y, x], [y])
    assert main.captures == []
    assert main.inner[1] == loop
    assert body.inner[1] == branches.bodies


def sums(*lines: str) -> str:
    """Return a module with a sum for each of these lines, which is in its region."""
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


def applied(text: str) -> list[xb.XlaComputation]:
    """Return the computations that the reductions in a text apply."""
    ops = of_text(text).ops
    return [op.attributes["to_apply"] for op in ops if op.opcode == "reduce"]


def test_regions_that_differ_only_in_source_lines_are_shared() -> None:
    actual = applied(sums(*[ADD] * 1000))
    assert len(actual) == 1000
    assert len(set(actual)) == 1


@each_row(
    "other",
    [
        "%c = stablehlo.subtract %a, %b : tensor<f32>",
        "%c = stablehlo.add %b, %a : tensor<f32>",
        "%c = stablehlo.add %a, %a : tensor<f32>",
        "%c = stablehlo.add %a, %b {k.v = 1 : i32} : tensor<f32>",
        "%d = stablehlo.add %b, %b : tensor<f32>\n" + ADD,
        '%c = "stablehlo.add"(%a, %zero) : (tensor<f32>, tensor<f32>) -> tensor<f32>',
    ],
)
def test_other_regions_are_not_shared(other: str) -> None:
    first, second, third, fourth = applied(sums(ADD, other, ADD, other))
    assert first is third
    assert second is not first
    assert fourth is not first


BRANCH = """"stablehlo.if"(%p) ({
      %a = stablehlo.constant dense<2.0> : tensor<f32> loc("a.py":{line}:1)
      stablehlo.return %a : tensor<f32> loc("a.py":2:1)
    }, {
      %b = stablehlo.constant dense<3.0> : tensor<f32> loc("a.py":3:1)
      stablehlo.return %b : tensor<f32> loc("a.py":4:1)
    }) : (tensor<i1>) -> tensor<f32>"""


def test_branches_with_different_source_lines_are_not_shared() -> None:
    computation = of_text(f"""
        func.func @main(%p: tensor<i1>) -> (tensor<f32>, tensor<f32>, tensor<f32>) {{
          %0 = {BRANCH.replace("{line}", "1")}
          %1 = {BRANCH.replace("{line}", "1")}
          %2 = {BRANCH.replace("{line}", "9")}
          return %0, %1, %2 : tensor<f32>, tensor<f32>, tensor<f32>
        }}""")
    branches = [
        op.attributes["branch_computations"] for op in computation.ops if op.opcode == "conditional"
    ]
    (first, other), second, (third, also) = branches
    assert (first, other) == second
    assert other is also
    assert first is not third
    assert [
        op.source.line for one in (first, third) for op in one.ops if op.opcode == "constant"
    ] == [1, 9]


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


def test_source_locations() -> None:
    ops = of_text(PLACES).ops
    actual = [(op.opcode, str(op.source) if op.source else None, op.name) for op in ops]
    assert actual[1:] == [
        ("constant", "a.py:1000", None),
        ("constant", "a.py:70000", None),
        ("add", "a.py:8", None),
        ("add", "b.py:8", None),
        ("add", "a.py:9", "named"),
        ("add", None, None),
        ("add", "a.py:10", None),
    ]


def test_each_op_of_a_region_has_a_line_of_the_file():
    """Also the ops without an operation: parameters, the elements of the state, its tuple."""
    text = """func.func @main(%x: tensor<f32>, %p: tensor<i1>) -> tensor<f32> {
  %z = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = stablehlo.while(%i = %z, %v = %x) : tensor<i32>, tensor<f32>
   cond { %n = stablehlo.constant dense<3> : tensor<i32>
     %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
     stablehlo.return %c : tensor<i1> }
   do { %o = stablehlo.constant dense<1> : tensor<i32>
     %j = stablehlo.add %i, %o : tensor<i32>
     %w = stablehlo.add %v, %x : tensor<f32>
     stablehlo.return %j, %w : tensor<i32>, tensor<f32> }
  %1:2 = "stablehlo.if"(%p) ({
      stablehlo.return %x, %0#1 : tensor<f32>, tensor<f32>
  }, {
      stablehlo.return %0#1, %x : tensor<f32>, tensor<f32>
  }) : (tensor<i1>) -> (tensor<f32>, tensor<f32>)
  %2 = "stablehlo.map"(%1#0, %1#1) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %q = stablehlo.multiply %a, %b : tensor<f32>
      stablehlo.return %q : tensor<f32>
  }) {dimensions = array<i64>} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %2 : tensor<f32> }"""
    computation = lowering.to_computation(lowering.load_bytes(text))
    lines = {
        inner.name: {(op.opcode, op.source.file, op.source.line) for op in inner.ops}
        for inner in computation.called_computations()
    }
    assert lines == {
        "condition": {
            *(("parameter", "-", 3), ("get_tuple_element", "-", 3)),
            *(("constant", "-", 4), ("compare", "-", 5)),
        },
        "body": {
            *(("parameter", "-", 3), ("get_tuple_element", "-", 3), ("tuple", "-", 3)),
            *(("constant", "-", 7), ("add", "-", 8), ("add", "-", 9)),
        },
        "branch_0": {
            *(("parameter", "-", 11), ("get_tuple_element", "-", 11), ("tuple", "-", 11)),
        },
        "branch_1": {
            *(("parameter", "-", 11), ("get_tuple_element", "-", 11), ("tuple", "-", 11)),
        },
        "map": {("parameter", "-", 16), ("multiply", "-", 18)},
    }
