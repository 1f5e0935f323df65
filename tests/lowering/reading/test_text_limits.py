"""Texts that would crash MLIR's parser or make it loop."""

import pytest
from tables import each_row

import lowering
from lowering import ModuleFileError
from lowering.reading.text_limits import exceeded_limit

MAIN = "func.func @main(%x: tensor<f32>) -> tensor<f32> {\n  return %x : tensor<f32>\n}\n"


def refused(text):
    with pytest.raises(ModuleFileError) as caught:
        lowering.load_bytes(text)
    error = caught.value
    assert f"line {error.line}, column {error.column}: " in str(error)
    return str(error).partition(": ")[2], error.line, error.column


def test_brackets_nested_too_deep_have_a_position():
    text = MAIN + '// "((("\n' + "[" * 1100
    message, *place = refused(text)
    assert "brackets may nest at most 1000 deep, got 1100\nfix: save the module as" in message
    assert place == [5, 1001]


def test_a_missing_quote_takes_linear_time():
    """Trying each of the 300,000 quotes as a beginning would take quadratic time."""
    message, *place = refused('"' + '\\"' * 300_000)
    assert "expected '\"' in string literal" in message
    assert place == [1, 600_002]


def test_a_quote_in_a_comment_ends_with_the_line():
    text = f'// it"s\n{MAIN}' + "}{" * 10 + '// "\n' + "{" * 1100
    assert exceeded_limit(text).reason.startswith("brackets may nest at most 1000 deep, got 1100")


@pytest.mark.parametrize("count", [1000, 300_000])
def test_a_type_of_many_dimensions(count):
    text = "func.func @main(%x: tensor<2" + "x2" * count + "xf32>) { return }"
    message, *place = refused(text)
    assert message.endswith(
        "a type has a thousand dimensions or more\nfix: use arrays of fewer dimensions"
    )
    assert place == [1, 27]


def test_a_type_of_400_dimensions_is_read():
    kind = "tensor<" + "1x" * 400 + "f32>"
    text = MAIN.replace("tensor<f32>", kind)
    assert lowering.load_bytes(text).program_shape.result.rank == 400


@each_row("piece", ["-", "- ", "d0 + ", "2 * "])
def test_a_long_affine_map(piece):
    text = f"module attributes {{foo.bar = affine_map<(d0) -> ({piece * 100_000}d0)>}} {{}}"
    message, *place = refused(text)
    assert "an affine map is longer than 5000 characters\nfix: remove the map" in message
    assert place == [1, text.index("affine") + 1]


def test_the_longest_affine_map_is_read():
    inside = "-" * 4900 + "d0"
    module = lowering.load_bytes(
        MAIN.replace("{\n", f"attributes {{foo.bar = affine_map<(d0) -> ({inside})>}} {{\n", 1)
    )
    assert "affine_map" in module.text


@each_row(
    "mark, first, next_one",
    [
        ("#", '"x"', "[{0}, {0}]"),
        ("!", "tuple<tensor<f32>>", "tuple<{0}, {0}>"),
        ("#", 'loc("x")', "loc(callsite({0} at {0}))"),
    ],
)
def test_nested_aliases_that_expand_too_far(mark, first, next_one):
    lines = [f"{mark}a0 = {first}\n"]
    lines += [f"{mark}a{n + 1} = {next_one.format(f'{mark}a{n}')}\n" for n in range(40)]
    text = "".join(lines) + MAIN
    message, line, column = refused(text)
    assert " expands to more than 10,000,000 characters through nested aliases\nfix: " in message
    assert column == 1
    assert f"{mark}a{line - 1} " in message
    # As many aliases with a shorter expansion are read.
    assert lowering.load_bytes("".join(lines[: line - 5]) + MAIN).name == "main"


def test_valid_text_is_accepted():
    assert exceeded_limit(MAIN) is None
    assert exceeded_limit("") is None


@each_row("beside", ["", "{}<>(x) ", '"{" {}-> ', '<(a)>[[]] "}" -> '])
def test_the_limit_of_nested_brackets(beside):
    """Empty brackets and brackets in strings do not count."""
    for depth, reason in ((1000, None), (1001, "brackets may nest at most 1000 deep")):
        inside = "([{<" * (depth // 4) + "<" * (depth % 4) + "x"
        text = beside + inside + ">" * (depth % 4) + ">}])" * (depth // 4) + beside
        actual = exceeded_limit(text)
        assert (actual and actual.reason.partition(",")[0]) == reason


CONVOLUTION = """
func.func @main(%x: tensor<1x8x3xf32>, %w: tensor<5x3x4xf32>) -> tensor<1x4x4xf32> {
  %0 = "stablehlo.convolution"(%x, %w) {
    batch_group_count = 1 : i64, feature_group_count = 1 : i64,
    dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>
  } : (tensor<1x8x3xf32>, tensor<5x3x4xf32>) -> tensor<1x4x4xf32>
  return %0 : tensor<1x4x4xf32>
}
"""
GENERIC = "dimension_numbers = #stablehlo.conv<"
PRETTY = "dim_numbers = "


@each_row("spelling", [GENERIC, PRETTY])
@each_row("part", ["]x[0", "[b, 0, f]x", "->[b, 0"])
def test_a_large_spatial_dimension(spelling, part):
    """The parser would allocate as many numbers."""
    text = CONVOLUTION.replace(GENERIC, spelling)
    text = text.replace(part, part.replace("0", "2147483648"))
    message, line, _ = refused(text)
    assert "a spatial dimension of a convolution is 10000 or more\nfix: number the" in message
    assert line == 5


def test_a_convolution_is_read():
    assert lowering.load_bytes(CONVOLUTION).program_shape.result.dimensions == (1, 4, 4)
