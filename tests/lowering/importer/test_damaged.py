"""Modules that MLIR parses but that can't be imported, found by `make fuzz`."""

import pytest
from tables import each_row

import lowering
from lowering import LoweringError, ModuleFileError
from lowering.jaxlib_api import mlir
from lowering.mlir.operations import argument_attributes, main_function


def module(body, argument="tensor<f32>", before=""):
    return (
        f"{before}func.func @main(%x: {argument}) -> {argument} {{\n"
        f"{body}\n  return %x : {argument}\n}}\n"
    )


def refusal(text):
    with pytest.raises(LoweringError) as caught:
        lowering.to_computation(lowering.load_bytes(text))
    return str(caught.value)


@each_row("element", ["i64", "bf16", "complex<f32>"])
def test_constants_whose_size_overflows(element):
    value = "(1.0, 2.0)" if "complex" in element else "1.0" if "bf" in element else "1"
    kind = f"tensor<9223372036854775807x{element}>"
    message = refusal(module(f"  %0 = stablehlo.constant dense<{value}> : {kind}"))
    assert message.startswith("to_computation: stablehlo.constant, recorded at -:2: a constant ")
    assert " must have less than 2**63 bytes, got " in message


def test_errors_name_the_file(tmp_path):
    path = tmp_path / "m.mlir"
    line = "%0 = stablehlo.constant dense_resource<nowhere> : tensor<f32>"
    path.write_text(module(line))
    with pytest.raises(LoweringError) as caught:
        lowering.to_computation(path)
    start = (
        f"to_computation: stablehlo.constant, recorded at {path}:2: the constant's elements are "
    )
    assert str(caught.value).startswith(start)
    path.write_text(module(f'{line} loc("net.py":7:3)'))
    with pytest.raises(LoweringError) as caught:
        lowering.to_computation(str(path))
    start = f"to_computation: {path}: stablehlo.constant, recorded at net.py:7: the constant's"
    assert str(caught.value).startswith(start)


@each_row("line, column", [(4294967295, 1), (2147483647, 1), (1, 4294967295), (0, 0)])
def test_line_numbers_that_python_does_not_support(line, column):
    text = module(f'  %0 = stablehlo.add %x, %x : tensor<f32> loc("a.py":{line}:{column})')
    (_, added) = lowering.to_computation(lowering.load_bytes(text)).ops
    assert added.opcode == "add"
    assert "a.py" in str(added.source) or line == 0


@pytest.mark.parametrize("dim", [9223372036854775807, 3])
def test_torch_index_select_of_a_dimension_out_of_range(dim):
    text = module(
        "  %i = stablehlo.constant dense<0> : tensor<2xi32>\n"
        f'  %0 = "stablehlo.torch_index_select"(%x, %i) {{dim = {dim} : i64, batch_dims = 0 : i64}}'
        " : (tensor<2x3xf32>, tensor<2xi32>) -> tensor<2x2xf32>",
        "tensor<2x3xf32>",
    )
    with pytest.raises((LoweringError, ModuleFileError), match=r"out of range|dim"):
        lowering.to_computation(lowering.load_bytes(text))


def test_types_that_are_nested_too_deep():
    names = [f"!a{n + 1} = tuple<!a{n}>\n" for n in range(20_000)]
    before = "".join(["!a0 = tuple<tensor<f32>>\n", *names])
    call = "  %0 = stablehlo.custom_call @f() : () -> !a20000"
    assert refusal(module(call, before=before)) == (
        "to_computation: stablehlo.custom_call, recorded at -:20003: types or attributes are "
        "nested too deep"
    )


def test_long_types_are_shortened_in_messages():
    kind = "tuple<" * 500 + "tensor<f32>" + ">" * 500
    with pytest.raises(ModuleFileError, match=r"tuple<tu\.\.\. is neither a tensor") as caught:
        lowering.load_bytes(module("", kind))
    assert len(str(caught.value)) < 500


def test_duplicate_parameter_names():
    text = (
        'func.func @main(%x: tensor<f32> {xlabuilder.name = "a"}, '
        '%y: tensor<f32> {xlabuilder.name = "a"}) -> tensor<f32> {\n  return %x : tensor<f32>\n}\n'
    )
    computation = lowering.to_computation(lowering.load_bytes(text))
    assert computation.program_shape.parameter_names == ("a", "a.1")


def test_a_name_that_is_a_location():
    """MLIR's Python has no class for such an attribute."""
    text = 'func.func @main(%x: tensor<f32> {xlabuilder.name = loc("a")}) { return }'
    assert lowering.load_bytes(text).program_shape.parameter_names == ("arg0",)
    assert refusal(text) == (
        "to_computation: MLIR's Python bindings can't read the attributes "
        '{xlabuilder.name = loc("a")}\nfix: remove locations and complex numbers from these '
        "attributes"
    )


LOOP = """\
func.func @main(%p: KIND, %a: tensor<i32>) -> tensor<i32> {
  %0 = stablehlo.while(%b = %a) : tensor<i32> cond {
    stablehlo.return %p : KIND
  } do {
    stablehlo.return %b : tensor<i32>
  }
  return %0 : tensor<i32>
}
"""


def test_a_condition_that_is_not_a_tensor():
    """StableHLO's verifier aborts on it."""
    with pytest.raises(ModuleFileError) as caught:
        lowering.load_bytes(LOOP.replace("KIND", "!stablehlo.token"))
    assert str(caught.value) == (
        "the module: line 3, column 5: not StableHLO: a region must return tensors here\n"
        "fix: correct the text at this position, or save the module again"
    )
    assert (caught.value.line, caught.value.column) == (3, 5)
    assert lowering.load_bytes(LOOP.replace("KIND", "tensor<i1>")).name == "main"


def test_a_reduction_without_an_initial_value():
    """StableHLO's verifier may crash on it."""
    text = module(
        '  %0 = "stablehlo.reduce"(%x) ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n'
        "    stablehlo.return %a : tensor<f32>\n"
        "  }) {dimensions = array<i64: 0>} : (tensor<3xf32>) -> tensor<f32>",
        "tensor<3xf32>",
    )
    with pytest.raises(ModuleFileError, match="reduce must have an initial value") as caught:
        lowering.load_bytes(text)
    assert caught.value.line == 2


def test_tokens_may_be_returned():
    text = module(
        "  %p = stablehlo.constant dense<true> : tensor<i1>\n"
        "  %t = stablehlo.create_token : !stablehlo.token\n"
        '  %0 = "stablehlo.if"(%p) ({ stablehlo.return %t : !stablehlo.token\n'
        "  }, { stablehlo.return %t : !stablehlo.token\n"
        "  }) : (tensor<i1>) -> !stablehlo.token"
    )
    computation = lowering.to_computation(lowering.load_bytes(text))
    assert "conditional" in [op.opcode for op in computation.ops]


def test_names_that_are_not_utf_8():
    """MLIR's Python aborts on reading them."""
    text = 'func.func @main(%x: tensor<f32> {"foo.\\FF" = 1 : i32}) { return }'
    with pytest.raises(ModuleFileError) as caught:
        lowering.load_bytes(text)
    rule = "the module: line 1, column 34: not StableHLO: a name is not UTF-8 text\n"
    assert str(caught.value).startswith(rule)
    named = 'func.func @main(%x: tensor<f32> {foo.bar = "\\FF"}) { return }'
    assert lowering.load_bytes(named).name == "main"


@pytest.mark.parametrize("attribute", ['loc("a")', "dense<(1.0, 2.0)> : tensor<2xcomplex<f32>>"])
def test_an_attribute_without_a_python_class(attribute):
    """Reading it from the dictionary by position aborts the process."""
    text = f"func.func @main(%x: tensor<f32> {{foo.bar = {attribute}}}) {{ return }}"
    main = main_function(mlir.read_module(mlir.new_context(), text).operation)
    with pytest.raises(lowering.LoweringError):
        argument_attributes(main)
