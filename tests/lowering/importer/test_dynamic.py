"""Import of bounded and unbounded sizes."""

from __future__ import annotations

import re
from typing import Any

import jax
import numpy as np
import pytest
from imported import of_text, returned
from jax import export
from support import assert_identical
from tables import each_row

import builder as xb
import lowering
from lowering import ArgumentError, LoweringError, ModuleFileError
from lowering.jaxlib_api import artifacts

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def opcodes(computation: xb.XlaComputation) -> set[str]:
    return {op.opcode for op in computation.ops}


def run(computation: xb.XlaComputation, *arguments: Any) -> np.ndarray[Any, Any]:
    return np.asarray(lowering.compile(computation)(*arguments))


# Sizes at run time


def test_round_trip_of_dimension_sizes() -> None:
    b = xb.XlaBuilder("sizes")
    x, n = b.parameter("f32[<=5,3]", "x"), b.parameter(xb.s32[()], "n")
    smaller = xb.set_dimension_size(x, n, 1)
    sizes = [xb.get_dimension_size(smaller, dimension) for dimension in (0, 1)]
    returned(b.build(xb.tuple(smaller, *sizes)))


def test_a_dynamic_reshape_of_bounded_sizes() -> None:
    b = xb.XlaBuilder("rows")
    x, n = b.parameter(xb.f32[4, 3], "x"), b.parameter(xb.s32[()], "n")
    rows = xb.set_dimension_size(x, n, 0)
    flat = xb.dynamic_reshape(rows, [n * 3], [12], [True])
    expected = b.build(xb.reduce(flat, 0.0, xb.add, [0]))
    module = lowering.lower(expected)
    assert "stablehlo.dynamic_reshape" in module.text
    computation = lowering.to_computation(module)
    (op,) = [op for op in computation.ops if op.opcode == "dynamic_reshape"]
    assert str(op.shape) == "f32[<=12]"
    x_value = np.arange(12, dtype=np.float32).reshape(4, 3)
    for rows_value in (0, 2, 4):
        got = run(computation, x_value, np.int32(rows_value))
        assert_identical(got, x_value[:rows_value].sum(dtype=np.float32))


def test_sizes_of_a_dynamic_reshape_in_a_vector() -> None:
    """The form that other programs write."""
    computation = of_text("""
        func.func @main(%x: tensor<6xf32>, %n: tensor<i32>, %sizes: tensor<2xi64>) -> tensor<f32> {
          %0 = stablehlo.set_dimension_size %x, %n, dim = 0
              : (tensor<6xf32>, tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<6>>
          %1 = stablehlo.dynamic_reshape %0, %sizes : (tensor<?xf32, #stablehlo.bounds<6>>,
              tensor<2xi64>) -> tensor<?x2xf32, #stablehlo.bounds<3, ?>>
          %zero = stablehlo.constant dense<0.0> : tensor<f32>
          %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [0, 1]
              : (tensor<?x2xf32, #stablehlo.bounds<3, ?>>, tensor<f32>) -> tensor<f32>
          return %2 : tensor<f32>
        }""")
    x = np.array([1, 2, 4, 8, 16, 32], np.float32)
    assert_identical(run(computation, x, np.int32(4), np.array([2, 2])), np.float32(15))


# Dynamic operations with constant operands

KNOWN = {
    "dynamic_broadcast_in_dim": (
        """%s = stablehlo.constant dense<[2, 3, 4]> : tensor<3xi64>
           %r = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [1, 2]
               : (tensor<3x4xf32>, tensor<3xi64>) -> tensor<2x3x4xf32>""",
        np.broadcast_to(X, (2, 3, 4)),
        "broadcast_in_dim",
    ),
    "dynamic_broadcast_in_dim of turned dimensions": (
        """%s = stablehlo.constant dense<[2, 4, 3]> : tensor<3xi64>
           %r = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [2, 1]
               : (tensor<3x4xf32>, tensor<3xi64>) -> tensor<2x4x3xf32>""",
        np.broadcast_to(X.T, (2, 4, 3)),
        "broadcast_in_dim",
    ),
    "dynamic_iota": (
        """%s = stablehlo.constant dense<[2, 3]> : tensor<2xi32>
           %r = stablehlo.dynamic_iota %s, dim = 1 : (tensor<2xi32>) -> tensor<2x3xf32>""",
        np.broadcast_to(np.arange(3, dtype=np.float32), (2, 3)),
        "iota",
    ),
    "dynamic_reshape": (
        """%s = stablehlo.constant dense<[2, 6]> : tensor<2xi32>
           %r = stablehlo.dynamic_reshape %x, %s
               : (tensor<3x4xf32>, tensor<2xi32>) -> tensor<2x6xf32>""",
        X.reshape(2, 6),
        "reshape",
    ),
    "real_dynamic_slice": (
        """%s = stablehlo.constant dense<[1, 0]> : tensor<2xi32>
           %l = stablehlo.constant dense<[3, 4]> : tensor<2xi32>
           %t = stablehlo.constant dense<[1, 3]> : tensor<2xi32>
           %r = stablehlo.real_dynamic_slice %x, %s, %l, %t : (tensor<3x4xf32>, tensor<2xi32>,
               tensor<2xi32>, tensor<2xi32>) -> tensor<2x2xf32>""",
        X[1:3, 0:4:3],
        "slice",
    ),
    "dynamic_pad": (
        """%v = stablehlo.constant dense<9.0> : tensor<f32>
           %l = stablehlo.constant dense<[1, -1]> : tensor<2xi32>
           %h = stablehlo.constant dense<[0, 2]> : tensor<2xi32>
           %i = stablehlo.constant dense<0> : tensor<2xi32>
           %r = stablehlo.dynamic_pad %x, %v, %l, %h, %i : (tensor<3x4xf32>, tensor<f32>,
               tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<4x5xf32>""",
        np.pad(X[:, 1:], ((1, 0), (0, 2)), constant_values=np.float32(9)),
        "pad",
    ),
    "dynamic_gather": (
        """%s = stablehlo.constant dense<[1, 4]> : tensor<2xi64>
           %n = stablehlo.constant dense<[2, 0]> : tensor<2xi64>
           %r = "stablehlo.dynamic_gather"(%x, %n, %s) {
               dimension_numbers = #stablehlo.gather<offset_dims = [1],
                   collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>}
               : (tensor<3x4xf32>, tensor<2xi64>, tensor<2xi64>) -> tensor<2x4xf32>""",
        X[[2, 0]],
        "gather",
    ),
    "dynamic_conv": (
        """%p = stablehlo.constant dense<[[1, 0]]> : tensor<1x2xi64>
           %i = stablehlo.reshape %x : (tensor<3x4xf32>) -> tensor<1x12x1xf32>
           %k = stablehlo.constant dense<[[[1.0]], [[10.0]]]> : tensor<2x1x1xf32>
           %c = "stablehlo.dynamic_conv"(%i, %k, %p) {
               dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>,
               feature_group_count = 1 : i64, batch_group_count = 1 : i64}
               : (tensor<1x12x1xf32>, tensor<2x1x1xf32>, tensor<1x2xi64>) -> tensor<1x12x1xf32>
           %r = stablehlo.reshape %c : (tensor<1x12x1xf32>) -> tensor<12xf32>""",
        np.convolve(X.ravel(), [10, 1])[:12].astype(np.float32),
        "call",
    ),
}


@each_row("name", KNOWN)
def test_dynamic_operations_with_constants_become_static(name: str) -> None:
    body, expected, opcode = KNOWN[name]
    kind = f"tensor<{'x'.join(map(str, expected.shape))}xf32>"
    computation = of_text(
        f"func.func @main(%x: tensor<3x4xf32>) -> {kind} {{\n{body}\nreturn %r : {kind}\n}}"
    )
    assert opcode in opcodes(computation)
    assert_identical(run(computation, X), np.ascontiguousarray(expected))


# Sizes that can be inferred

CALLS_OPEN = """
    func.func @main(%x: tensor<3x4xf32>) -> tensor<12xf32> {
      %n = stablehlo.constant dense<3> : tensor<i32>
      %0 = func.call @any(%n, %x) : (tensor<i32>, tensor<3x4xf32>) -> tensor<12xf32>
      return %0 : tensor<12xf32>
    }
    func.func private @any(%n: tensor<i32>, %x: tensor<3x4xf32>) -> tensor<12xf32> {
      %four = stablehlo.constant dense<4> : tensor<i32>
      %0 = stablehlo.multiply %n, %four : tensor<i32>
      %1 = stablehlo.reshape %0 : (tensor<i32>) -> tensor<1xi32>
      %2 = stablehlo.dynamic_reshape %x, %1 : (tensor<3x4xf32>, tensor<1xi32>) -> tensor<?xf32>
      %3 = stablehlo.dynamic_iota %1, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
      %4 = stablehlo.add %2, %3 : tensor<?xf32>
      %5 = stablehlo.dynamic_reshape %4, %1 : (tensor<?xf32>, tensor<1xi32>) -> tensor<12xf32>
      return %5 : tensor<12xf32>
    }"""


def test_functions_of_unbounded_sizes_called_by_a_static_one() -> None:
    computation = of_text(CALLS_OPEN)
    assert opcodes(computation) <= {"parameter", "constant", "iota", "add", "reshape"}
    assert_identical(run(computation, X), X.ravel() + np.arange(12, dtype=np.float32))


def test_inferred_sizes_of_an_operation() -> None:
    """Only the type of an operand is unbounded."""
    computation = of_text("""
        func.func @main(%x: tensor<3x4xf32>) -> tensor<2x4xf32> {
          %n = stablehlo.get_dimension_size %x, dim = 1 : (tensor<3x4xf32>) -> tensor<i32>
          %three = stablehlo.constant dense<3> : tensor<i32>
          %0 = stablehlo.subtract %n, %three : tensor<i32>
          %4 = stablehlo.reshape %0 : (tensor<i32>) -> tensor<1xi32>
          %zero = stablehlo.constant dense<0> : tensor<1xi32>
          %one = stablehlo.constant dense<1> : tensor<2xi32>
          %start = stablehlo.concatenate %4, %zero, dim = 0
              : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
          %limit = stablehlo.constant dense<[3, 4]> : tensor<2xi32>
          %r = stablehlo.real_dynamic_slice %x, %start, %limit, %one : (tensor<3x4xf32>,
              tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<2x4xf32>
          return %r : tensor<2x4xf32>
        }""")
    assert_identical(run(computation, X), X[1:])


OPEN = """
    module @scaled {
      func.func @main(%x: tensor<?x4xf32> {xlabuilder.name = "rows"}, %y: tensor<4xf32>)
          -> (tensor<?x4xf32>, tensor<i32>) {
        %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
        %0 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
        %four = stablehlo.constant dense<4> : tensor<1xi32>
        %1 = stablehlo.concatenate %0, %four, dim = 0
            : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
        %2 = stablehlo.dynamic_broadcast_in_dim %y, %1, dims = [1]
            : (tensor<4xf32>, tensor<2xi32>) -> tensor<?x4xf32> loc("model.py":12:5)
        %3 = stablehlo.multiply %x, %2 : tensor<?x4xf32> loc("product"("model.py":13:5))
        return %3, %n : tensor<?x4xf32>, tensor<i32>
      }
    }"""


@each_row("rows", [0, 1, 3])
def test_argument_shapes_fill_in_sizes(rows: int) -> None:
    module = lowering.load_bytes(OPEN)
    text = module.text
    computation = lowering.to_computation(module, argument_shapes=[(xb.f32[rows, 4]), "f32[4]"])
    assert [str(shape) for shape in computation.program_shape.parameters] == [
        f"f32[{rows},4]",
        "f32[4]",
    ]
    assert list(computation.program_shape.parameter_names) == ["rows", "arg1"]
    x, y = X[:rows], np.array([1, 10, 100, 0.5], np.float32)
    product, count = lowering.compile(computation)(x, y)
    assert_identical(np.asarray(product), x * y)
    assert int(count) == rows
    assert module.text == text  # the module is not modified


def test_names_and_source_lines_are_preserved() -> None:
    module = lowering.load_bytes(OPEN)
    computation = lowering.to_computation(module, argument_shapes=["f32[2,4]", "f32[4]"])
    assert computation.name == "scaled"
    (product,) = [op for op in computation.ops if op.opcode == "multiply"]
    assert product.name == "product"
    assert str(product.source).startswith("model.py:13")


def test_tuple_parameters_are_preserved() -> None:
    b = xb.XlaBuilder("pair")
    pair = b.parameter("(f32[?], (f32[?], s32[]))", "pair")
    total = xb.add(pair[0], pair[1][0])
    module = lowering.lower(b.build(xb.tuple(xb.tuple(total), pair[1][1])))
    computation = lowering.to_computation(module, argument_shapes=["(f32[2], (f32[2], s32[]))"])
    assert str(computation.program_shape) == (
        "(pair: (f32[2], (f32[2], s32[]))) -> ((f32[2]), s32[])"
    )
    (total_value,), number = lowering.compile(computation)((X[0, :2], (X[1, :2], np.int32(7))))
    assert_identical(np.asarray(total_value), X[0, :2] + X[1, :2])
    assert int(number) == 7


def test_argument_shapes_of_a_static_module() -> None:
    module = lowering.load_bytes(CALLS_OPEN)
    computation = lowering.to_computation(module, argument_shapes=["f32[3,4]"])
    assert str(computation.program_shape) == "(arg0: f32[3,4]) -> f32[12]"


WRONG = {
    "too few": (["f32[2,4]"], ArgumentError, r"scaled has 2 parameters, got 1 argument_shapes"),
    "another size": (
        ["f32[2,4]", "f32[5]"],
        ArgumentError,
        r"\[1\] must be .* f32\[4\], .* f32\[5\]",
    ),
    "another type": (
        ["s32[2,4]", "f32[4]"],
        ArgumentError,
        r"parameter rows of scaled, f32.*, with",
    ),
    "another rank": (["f32[2]", "f32[4]"], ArgumentError, r"\[0\] must be .* f32\[\?,4\]"),
    "a tuple": (["(f32[2,4])", "f32[4]"], ArgumentError, r"got \(f32\[2,4\]\)"),
    "still open": (["f32[?,4]", "f32[4]"], ArgumentError, r"with a size for each unbounded size"),
    "a bound": (["f32[<=8,4]", "f32[4]"], ArgumentError, r"with a size for each unbounded size"),
    "no list": ("f32[2,4]", xb.OperandError, r"must be a list of shapes, got 'f32\[2,4\]'"),
    "no shape": ([3, "f32[4]"], xb.OperandError, r"argument_shapes\[0\]: expected a shape"),
}


@each_row("case", WRONG)
def test_argument_shapes_that_do_not_match(case: str) -> None:
    shapes, kind, message = WRONG[case]
    module = lowering.load_bytes(OPEN)
    with pytest.raises(kind, match=message):
        lowering.to_computation(module, argument_shapes=shapes)


def test_sizes_that_violate_constraints() -> None:
    module = lowering.load_bytes("""
        func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
          %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
          %two = stablehlo.constant dense<2> : tensor<i32>
          %0 = stablehlo.compare GE, %n, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.custom_call @shape_assertion(%0, %n) {api_version = 2 : i32,
              error_message = "there must be two, not {0}", has_side_effect = true}
              : (tensor<i1>, tensor<i32>) -> ()
          return %x : tensor<?xf32>
        }""")
    computation = lowering.to_computation(module, argument_shapes=["f32[2]"])
    assert opcodes(computation) <= {"parameter", "constant", "compare"}
    with pytest.raises(LoweringError, match=r"can't be inferred .* f32\[1\]: there must be two"):
        lowering.to_computation(module, argument_shapes=["f32[1]"])


# Sizes that can't be inferred


@pytest.mark.parametrize("divisor", ["zero", "one", "n", "late"])
def test_refinement_of_integer_divisions(divisor: str) -> None:
    """jaxlib up to 0.11.0 crashes where it folds one by zero, so a helper process refines."""
    module = lowering.load_bytes(
        f"""module @m {{ func.func @main(%x: tensor<?xf32>) -> (tensor<?xf32>, tensor<i32>) {{
          %a = stablehlo.constant dense<7> : tensor<i32>
          %zero = stablehlo.constant dense<0> : tensor<i32>
          %one = stablehlo.constant dense<1> : tensor<i32>
          %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
          %late = stablehlo.subtract %n, %n : tensor<i32>
          %q = stablehlo.divide %a, %{divisor} : tensor<i32>
          return %x, %q : tensor<?xf32>, tensor<i32>
        }} }}"""
    )
    if divisor in ("zero", "late") and artifacts.REFINING_DIVIDES_BY_ZERO:
        reason = (
            "to_computation: m is dynamic, and its sizes can't be inferred for arguments of "
            "f32[3]: jaxlib crashed, probably on an integer division by zero\n"
            "fix: select 1 where an integer divisor is 0, "
        )
        with pytest.raises(LoweringError, match=re.escape(reason)):
            lowering.to_computation(module, argument_shapes=[xb.f32[3]])
        return
    computation = lowering.to_computation(module, argument_shapes=[xb.f32[3]])
    results = lowering.compile(computation)(np.ones(3, np.float32))
    assert int(results[1]) == {"zero": -1, "late": -1, "one": 7, "n": 2}[divisor]


def test_refinement_of_empty_replica_groups() -> None:
    """jaxlib up to 0.11.0 divides by the size of the groups."""
    module = lowering.load_bytes("""
        func.func @main(%x: tensor<8xf32>) -> tensor<?xf32> {
          %0 = "stablehlo.reduce_scatter"(%x) ({
          ^bb0(%a: tensor<f32>, %b: tensor<f32>):
            %1 = stablehlo.add %a, %b : tensor<f32>
            stablehlo.return %1 : tensor<f32>
          }) {replica_groups = dense<> : tensor<0x0xi64>, scatter_dimension = 0 : i64}
             : (tensor<8xf32>) -> tensor<?xf32>
          return %0 : tensor<?xf32>
        }""")
    expected = "list the replicas" if artifacts.REFINING_DIVIDES_BY_ZERO else "the operation is dyn"
    with pytest.raises(LoweringError, match=expected):
        lowering.to_computation(module)


def test_missing_argument_shapes_are_requested() -> None:
    source = """
        func.func @main(%x: tensor<1x?x1xf32>, %k: tensor<2x1x1xf32>, %p: tensor<1x2xi32>)
            -> tensor<1x?x1xf32> {
          %2 = "stablehlo.dynamic_conv"(%x, %k, %p) {
              dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>,
              feature_group_count = 1 : i64, batch_group_count = 1 : i64}
              : (tensor<1x?x1xf32>, tensor<2x1x1xf32>, tensor<1x2xi32>) -> tensor<1x?x1xf32>
              loc("model.py":12:5)
          return %2 : tensor<1x?x1xf32>
        }"""
    with pytest.raises(
        LoweringError,
        match=r"stablehlo\.dynamic_conv, recorded at model\.py:12: the operation is dynamic, .*"
        r"\nfix: .*argument_shapes",
    ):
        of_text(source)


def test_a_program_for_any_size_is_imported() -> None:
    computation = of_text(OPEN)
    assert str(computation.program_shape.result) == "(f32[?,4], s32[])"
    assert "dynamic_broadcast_in_dim" in opcodes(computation)
    again = lowering.to_computation(lowering.lower(computation))
    assert str(again) == str(computation)


DYNAMIC = {
    "dynamic_reshape": (
        "%r = stablehlo.dynamic_reshape %x, %v : (tensor<6xf32>, tensor<1xi32>) -> tensor<?xf32>",
        r"only if the sizes of the result follow .*, got f32\[\?\]",
    ),
    "custom_call": (
        "%r = stablehlo.custom_call @rows(%x) : (tensor<6xf32>) -> tensor<?xf32>",
        "only if the sizes of the result follow from the arguments' sizes",
    ),
}


@each_row("name", DYNAMIC)
def test_sizes_that_depend_on_values_are_refused(name: str) -> None:
    body, reason = DYNAMIC[name]
    source = f"""
        func.func @main(%x: tensor<6xf32>, %n: tensor<i32>) -> tensor<f32> {{
          %v = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
          {body}
          %zero = stablehlo.constant dense<0.0> : tensor<f32>
          %sum = stablehlo.reduce(%r init: %zero) applies stablehlo.add across dimensions = [0]
              : (tensor<?xf32>, tensor<f32>) -> tensor<f32>
          return %sum : tensor<f32>
        }}"""
    with pytest.raises(
        LoweringError, match=rf"stablehlo\.{name}, recorded at -:\d+: the operation is dynamic"
    ):
        of_text(source)
    with pytest.raises(LoweringError, match=reason):
        of_text(source)


# Quantized types


def test_quantized_types_are_refused() -> None:
    with pytest.raises(
        ModuleFileError,
        match=r"line 4, column \d+: stablehlo\.uniform_quantize: quantized types are not "
        r"supported, because XLA has none: uniform<i8:f32, 0\.5:-128>",
    ):
        of_text("""func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
          %a = stablehlo.add %x, %x : tensor<2xf32>
          %0 = stablehlo.uniform_quantize %a : (tensor<2xf32>)
              -> tensor<2x!quant.uniform<i8:f32, 0.5:-128>>
          %1 = stablehlo.uniform_dequantize %0
              : (tensor<2x!quant.uniform<i8:f32, 0.5:-128>>) -> tensor<2xf32>
          return %1 : tensor<2xf32>
        }""")


def test_quantized_arguments_are_refused() -> None:
    with pytest.raises(ModuleFileError, match=r"line 1, column \d+: func\.func: quantized types"):
        of_text("""func.func @main(%x: tensor<2x!quant.uniform<u8:f32, 34.0:16>>) -> tensor<2xf32> {
          %1 = stablehlo.uniform_dequantize %x
              : (tensor<2x!quant.uniform<u8:f32, 34.0:16>>) -> tensor<2xf32>
          return %1 : tensor<2xf32>
        }""")


def test_a_slice_of_a_bounded_to_a_static_size() -> None:
    """`xb.slice` would have a bounded size."""
    computation = of_text("""
        func.func @main(%x: tensor<?x2xf32, #stablehlo.bounds<5, ?>>) -> tensor<3x2xf32> {
          %0 = "stablehlo.slice"(%x) <{start_indices = array<i64: 0, 0>,
              limit_indices = array<i64: 3, 2>, strides = array<i64: 1, 1>}>
              : (tensor<?x2xf32, #stablehlo.bounds<5, ?>>) -> tensor<3x2xf32>
          return %0 : tensor<3x2xf32>
        }""")
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    assert_identical(run(computation, x), x[:3])


@pytest.mark.parametrize("kind", ["f32", "bf16"])
def test_top_k_of_a_bounded_size(kind: str) -> None:
    """The result has static sizes."""
    b = xb.XlaBuilder("largest")
    x = b.parameter(f"{kind}[2,<=5]", "x")
    computation = b.build(xb.top_k(x, 2))
    again = lowering.to_computation(lowering.lower(computation))
    assert again.program_shape == computation.program_shape
    argument = np.array([[3, 1, 2], [5, 7, 6]], xb.parse_shape(kind + "[]").element_type.dtype)
    for program in (computation, again):
        values, places = lowering.compile(program)(argument)
        assert np.asarray(values).tolist() == [[3, 2], [7, 6]]
        assert np.asarray(places).tolist() == [[0, 2], [1, 2]]


def test_top_k_of_all_of_a_bounded_size() -> None:
    b = xb.XlaBuilder("largest")
    computation = b.build(xb.top_k(b.parameter("f32[<=5]", "x"), 5))
    again = lowering.to_computation(lowering.lower(computation))
    assert again.program_shape == computation.program_shape
    assert [op.opcode for op in again.ops] == [
        "parameter",
        "top_k",
        "get_tuple_element",
        "get_tuple_element",
        "tuple",
    ]


def test_an_export_with_symbolic_sizes_runs_after_import() -> None:
    """jaxlib refuses the assertions about the sizes if they have lost their messages."""
    sizes = export.symbolic_shape("2*n, 3")
    argument = jax.ShapeDtypeStruct(sizes, np.float32)
    exported = export.export(jax.jit(lambda x: x * x.shape[0]))(argument)
    computation = lowering.to_computation(exported)
    x = np.ones((4, 3), np.float32)
    run = lowering.compile(computation, argument_shapes=[xb.f32[4, 3]])
    np.testing.assert_array_equal(run(x), x * 4)
    with pytest.raises(lowering.LoweringError, match="Expected value >= 1"):
        lowering.compile(computation, argument_shapes=[xb.f32[0, 3]])
