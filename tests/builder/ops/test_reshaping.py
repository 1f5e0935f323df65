"""Shapes, recorded ops and errors of ops that move elements without changing them."""

from __future__ import annotations

import pytest
from tables import each_row

import builder as xb
from builder import shape_inference as infer


def parameter(shape: str) -> xb.XlaOp:
    return xb.XlaBuilder().parameter(shape, "x")


def shape(text: str) -> xb.Shape:
    return xb.parse_shape(text)


def message(error: pytest.ExceptionInfo[xb.XlaError]) -> str:
    return str(error.value)


# --- Shapes -------------------------------------------------------------------------------------


@each_row(
    "operand, sizes, result",
    [
        ("f32[]", [2, 3], "f32[2,3]"),
        ("f32[3]", [], "f32[3]"),
        ("s4[<=5,4]", [2, 0], "s4[2,0,<=5,4]"),
    ],
)
def test_broadcast_shape(operand: str, sizes: list[int], result: str) -> None:
    assert infer.broadcast(shape(operand), sizes) is shape(result)


@each_row(
    "operand, sizes, places, result",
    [
        ("f32[]", [2, 3], [], "f32[2,3]"),
        ("f32[2]", [2, 2], [0], "f32[2,2]"),
        ("f32[3,1]", [2, 3, 4], [1, 2], "f32[2,3,4]"),
        ("f32[1]", [0], [0], "f32[0]"),
        ("s32[8,1,<=5,1]", [8, 3, 5, 3], [0, 1, 2, 3], "s32[8,3,<=5,3]"),
        ("f32[?,3]", [2, 3], [0, 1], "f32[2,3]"),
    ],
)
def test_broadcast_in_dim_shape(
    operand: str, sizes: list[int], places: list[int], result: str
) -> None:
    assert infer.broadcast_in_dim(shape(operand), sizes, places) is shape(result)


@each_row(
    "operand, sizes, result",
    [
        # The document's.
        ("f32[4,2,3]", [24], "f32[24]"),
        ("f32[4,2,3]", [8, 3], "f32[8,3]"),
        ("f32[1,1]", [], "f32[]"),
        ("f32[]", [1, 1], "f32[1,1]"),
        # No elements.
        ("f32[0,3]", [5, 0, 2], "f32[5,0,2]"),
        # Bounded: combined, split among sizes of 1, split otherwise (XLA makes it static).
        ("f32[2,<=3]", [6], "f32[<=6]"),
        ("f32[5,8,<=7]", [40, 7], "f32[40,<=7]"),
        ("f32[<=6]", [6, 1, 1], "f32[<=6,1,1]"),
        ("f32[<=2]", [1, 1, 2], "f32[1,1,<=2]"),
        ("f32[<=6]", [2, 3], "f32[2,3]"),
        ("f32[<=1]", [1], "f32[<=1]"),
        ("f32[<=1]", [], "f32[]"),
        ("f32[<=1,4]", [1, 2, 2], "f32[<=1,2,2]"),
        # Unbounded: the element count is unknown.
        ("f32[2,?]", [2, 1, 1, 1], "f32[2,1,1,1]"),
    ],
)
def test_reshape_shape(operand: str, sizes: list[int], result: str) -> None:
    assert infer.reshape(shape(operand), sizes) is shape(result)


@each_row(
    "operand, dimensions, sizes, result",
    [
        ("f32[4,2,3]", [1, 2, 0], [2, 6, 2], "f32[2,6,2]"),
        ("c128[7,1,<=7]", [0, 2, 1], [7, 7], "c128[7,<=7]"),
    ],
)
def test_reshape_shape_in_an_order(
    operand: str, dimensions: list[int], sizes: list[int], result: str
) -> None:
    assert infer.reshape(shape(operand), sizes, dimensions=dimensions) is shape(result)


@each_row(
    "operand, sizes, inferred, result",
    [
        ("f32[6]", [2, 3], 0, "f32[2,3]"),
        ("f32[6]", [2, 3], -1, "f32[2,3]"),
        ("f32[<=6]", [2, 3], -1, "f32[2,3]"),
        ("f32[<=6]", [2, 3], 0, "f32[<=2,3]"),
        ("f32[<=6]", [2, 3], 1, "f32[2,<=3]"),
        ("f32[<=6,5]", [2, 3, 5], 1, "f32[2,<=3,5]"),
        ("f32[2,<=3]", [6], -1, "f32[<=6]"),
        ("f32[0]", [0, 4], 1, "f32[0,4]"),
    ],
)
def test_reshape_with_inferred_dimension_shape(
    operand: str, sizes: list[int], inferred: int, result: str
) -> None:
    x = xb.reshape_with_inferred_dimension(parameter(operand), sizes, inferred)
    assert x.shape is shape(result)
    assert x.opcode == "reshape"


@each_row(
    "operand, dimensions, result",
    [
        ("f32[4,2,3]", [0, 1, 2], "f32[24]"),
        ("f32[4,2,3]", [0, 1], "f32[8,3]"),
        ("f32[4,2,3]", [1, 2], "f32[4,6]"),
        ("f32[4,2,3]", [1], "f32[4,2,3]"),
        ("f32[4,2,3]", [], "f32[4,2,3]"),
        ("f32[]", [], "f32[]"),
        ("f32[8,<=2,3]", [0, 1], "f32[<=16,3]"),
        ("u4[<=2,6,4,4,5]", [1, 2, 3], "u4[<=2,96,5]"),
    ],
)
def test_collapse_shape(operand: str, dimensions: list[int], result: str) -> None:
    assert infer.collapse(shape(operand), dimensions) is shape(result)


@each_row(
    "operand, permutation, result",
    [
        ("f32[2,3,4]", [2, 0, 1], "f32[4,2,3]"),
        ("f32[]", [], "f32[]"),
        ("u8[3,<=4,?]", [2, 1, 0], "u8[?,<=4,3]"),
    ],
)
def test_transpose_shape(operand: str, permutation: list[int], result: str) -> None:
    assert infer.transpose(shape(operand), permutation) is shape(result)


@each_row("dimensions", [[], [0], [1, 0]])
def test_rev_shape(dimensions: list[int]) -> None:
    assert infer.rev(shape("f32[<=2,3]"), dimensions) is shape("f32[<=2,3]")


@each_row(
    "operands, dimension, result",
    [
        # The document's.
        (["s32[2]", "s32[2]", "s32[2]"], 0, "s32[6]"),
        (["s32[3,2]", "s32[1,2]"], 0, "s32[4,2]"),
        (["f32[2,0]"], 1, "f32[2,0]"),
        (["s8[<=1]", "s8[1]"], 0, "s8[<=2]"),
        (["f32[<=2,3]", "f32[2,5]"], 1, "f32[<=2,8]"),
        (["f32[?,5]", "f32[<=7,5]", "f32[3,<=5]"], 0, "f32[?,<=5]"),
        (["f32[2,?]", "f32[<=2,3]"], 1, "f32[<=2,?]"),
        (["f32[2,6]", "f32[?,8]"], 1, "f32[2,14]"),
    ],
)
def test_concatenate_shape(operands: list[str], dimension: int, result: str) -> None:
    assert infer.concatenate([shape(o) for o in operands], dimension) is shape(result)


@each_row(
    "operand, config, result",
    [
        ("f32[3]", [(1, 0, 2)], "f32[8]"),
        ("f32[3,4]", [(0, 0, 0), (-1, -3, 0)], "f32[3,0]"),
        ("f32[0]", [(2, 1, 5)], "f32[3]"),
        ("f32[3]", [(-1, 0, 2)], "f32[6]"),
        ("f32[]", [], "f32[]"),
        ("f32[<=3,?]", [(2, -4, 1), (1, 1, 1)], "f32[<=3,?]"),
    ],
)
def test_pad_shape(operand: str, config: list[tuple[int, int, int]], result: str) -> None:
    inferred = infer.pad(shape(operand), shape("f32[]"), xb.PaddingConfig(config))
    assert inferred is shape(result)


@each_row(
    "operand, start, limit, strides, result",
    [
        # The document's.
        ("f32[5]", [2], [4], None, "f32[2]"),
        ("f32[4,3]", [2, 1], [4, 3], None, "f32[2,2]"),
        ("f32[7,4]", [0, 4], [7, 4], [3, 1], "f32[3,0]"),
        ("f32[]", [], [], [], "f32[]"),
        # A slice of one element of a bounded dimension is static; an empty one is not.
        ("f32[<=5]", [0], [2], [1], "f32[<=2]"),
        ("f32[<=5]", [0], [2], [2], "f32[1]"),
        ("f32[<=5]", [5], [5], [1], "f32[<=0]"),
        ("f32[?]", [5], [9], [2], "f32[2]"),
    ],
)
def test_slice_shape(
    operand: str, start: list[int], limit: list[int], strides: list[int] | None, result: str
) -> None:
    assert infer.slice(shape(operand), start, limit, strides) is shape(result)


def test_pad_in_dim_shape() -> None:
    x = xb.XlaBuilder().parameter(xb.f32[3, 4])
    assert xb.pad_in_dim(x, 0.0, 1, 2, -1).shape is xb.f32[3, 5]
    with pytest.raises(
        xb.ShapeInferenceError, match=r"dimno must be a dimension of operand \(0 to 1\), got 2"
    ):
        xb.pad_in_dim(x, 0.0, 2, 0, 0)
    recorded = len(x.builder.ops)
    with pytest.raises(xb.ShapeInferenceError):
        xb.pad_in_dim(x, 0.0, 1, -3, -2)
    assert len(x.builder.ops) == recorded  # the constant of the failed op is gone


def test_slice_in_dim_shape() -> None:
    assert infer.slice_in_dim(shape("f32[4,<=9]"), 1, 3, 1, 0) is shape("f32[2,<=9]")


def test_iota_shape() -> None:
    assert infer.iota(shape("s32[4,8]{0,1}"), 1) == shape("s32[4,8]")
    assert infer.iota(shape("c64[8]")) == shape("c64[8]")


# --- Recorded ops -------------------------------------------------------------------------------


def test_broadcasts_are_recorded_as_broadcast_in_dim() -> None:
    y = xb.broadcast(parameter("f32[3]"), [2, 4])
    assert y.opcode == "broadcast_in_dim"
    assert y.attributes == {"broadcast_dimensions": (2,)}
    z = xb.broadcast_in_dim(parameter("f32[3]"), (2, 3), (1,))
    assert (z.opcode, z.attributes) == ("broadcast_in_dim", {"broadcast_dimensions": (1,)})


def test_reshape_in_an_order_is_recorded_as_two() -> None:
    x = parameter("f32[4,2,3]")
    y = xb.reshape(x, dimensions=[1, 2, 0], new_sizes=[24])
    (transposed,) = y.operands
    assert (y.opcode, y.attributes) == ("reshape", {})
    assert (transposed.opcode, transposed.attributes) == ("transpose", {"permutation": (1, 2, 0)})
    assert transposed.operands == (x,)
    assert xb.reshape(x, [24], dimensions=[0, 1, 2]).operands == (x,)


def test_collapse_of_fewer_than_two_dimensions_is_the_operand() -> None:
    x = parameter("f32[4,2,3]")
    assert xb.collapse(x, []) is x
    assert xb.collapse(x, [2]) is x
    assert xb.collapse(x, [0, 1]).opcode == "reshape"


def test_rev_is_recorded_as_reverse() -> None:
    y = xb.rev(parameter("f32[2,3]"), [1])
    assert (y.opcode, y.attributes) == ("reverse", {"dimensions": (1,)})


def test_concatenate_has_an_alias_and_accepts_any_sequence() -> None:
    x = parameter("f32[2,3]")
    for concatenate in (xb.concatenate, xb.concat_in_dim):
        y = concatenate((x, x), 1)
        assert (y.opcode, y.attributes, y.operands) == ("concatenate", {"dimension": 1}, (x, x))


def test_pad_takes_triples_bundles_and_numbers() -> None:
    x = parameter("f32[3,4]")
    one = xb.PaddingConfigDimension(1, 0, 2)
    config = xb.PaddingConfig([one, (0, -1, 0)])
    y = xb.pad(x, 0, config)
    assert y.attributes == {"padding_config": config}
    assert y.operands[1].opcode == "constant"
    assert xb.pad(x, y.operands[1], [one, (0, -1, 0)]).attributes["padding_config"] == config
    assert config == xb.PaddingConfig([(1, 0, 2), (0, -1, 0)])


def test_slices_are_recorded_with_strides() -> None:
    x = parameter("f32[4,9]")
    y = xb.slice(x, [0, 0], [4, 9])
    expected = {"start_indices": (0, 0), "limit_indices": (4, 9), "strides": (1, 1)}
    assert y.attributes == expected
    z = xb.slice_in_dim(x, 1, 8, stride=2, dimno=1)
    expected = {"start_indices": (0, 1), "limit_indices": (4, 8), "strides": (1, 2)}
    assert (z.opcode, z.attributes) == ("slice", expected)


def test_iota_is_a_method_and_drops_the_layout() -> None:
    b = xb.XlaBuilder()
    y = b.iota("s32[4,8]{0,1}", 0)
    assert (y.shape, y.attributes) == (xb.s32[4, 8], {"iota_dimension": 0})
    assert b.iota(xb.f8e5m2[3]).attributes == {"iota_dimension": 0}


def test_recorded_shapes_have_no_layout() -> None:
    x = parameter("f32[4,6]{0,1}")
    for y in (
        xb.broadcast(x, [2]),
        xb.broadcast_in_dim(x, [4, 6], [0, 1]),
        xb.reshape(x, [24]),
        xb.transpose(x, [0, 1]),
        xb.rev(x, [0]),
        xb.concatenate([x], 0),
        xb.pad(x, 0, [(0, 0, 0)] * 2),
        xb.slice(x, [0, 0], [4, 6]),
    ):
        assert y.shape.layout is None, y


def test_equal_calls_share_their_attributes() -> None:
    x = parameter("f32[4,6]")
    assert xb.transpose(x, [1, 0]).attributes is xb.transpose(x, (1, 0)).attributes
    assert xb.slice(x, [0, 0], [2, 2]).attributes is xb.slice(x, [0, 0], [2, 2]).attributes


def test_methods_are_in_the_table() -> None:
    for name, family in (
        ("iota", "reshaping"),
        ("constant", "sources"),
        ("parameter", "sources"),
    ):
        info = xb.OPERATIONS[name]
        assert (info.is_method, info.family, info.opcode) == (True, family, name)


# --- Errors -------------------------------------------------------------------------------------


def test_the_complete_message() -> None:
    x = parameter("f32[4,6]")
    with pytest.raises(xb.ShapeInferenceError) as error:
        xb.reshape(x, [5, 5])
    assert message(error) == (
        "reshape: the number of elements must stay the same, 24, got 25 for new_sizes [5, 5]\n"
        "  operand f32[4,6]\n"
        "fix: write sizes whose product is 24"
    )
    assert (error.value.op, error.value.shapes) == ("reshape", {"operand": x.shape})
    with pytest.raises(xb.ShapeInferenceError) as error:
        xb.broadcast_in_dim(x, [6, 4], [1, 0])
    assert message(error) == (
        "broadcast_in_dim: broadcast_dimensions must be strictly increasing, got [1, 0]\n"
        "  operand f32[4,6]\n"
        "fix: transpose the operand first with xb.transpose(operand, [1, 0])"
    )
    with pytest.raises(xb.ShapeInferenceError) as error:
        xb.concatenate([x, parameter("f32[4,7]")], 0)
    assert message(error) == (
        "concatenate: operands must have equal sizes in all dimensions but 0; dimension 1 has 6 in "
        "operand 0 and 7 in operand 1, got\n"
        "  operand 0 f32[4,6]\n"
        "  operand 1 f32[4,7]\n"
        "fix: concatenate along dimension 1, where all other sizes are equal"
    )
    assert error.value.dimension == 1
    with pytest.raises(xb.ShapeInferenceError) as error:
        infer.concatenate(["f32[1,2,?]", "f32[1,?,4]", "f32[1,2,5]", "f32[1,3,4]"], 0)
    assert "dimension 2 has 4 in operand 1 and 5 in operand 2" in message(error)
    assert error.value.dimension == 2


# The call on parameters of these shapes, and its message.
ERRORS = {
    "broadcast": [
        (["f32[?]"], ([2],), "fix: broadcast operand with xb.dynamic_broadcast_in_dim, to sizes"),
        (["token[]"], ([2],), "operand must be an array, got a token"),
        (
            ["f32[2]"],
            ([2, -3],),
            "the sizes in broadcast_sizes must not be negative, got -3",
        ),
        (["f32[?]"], ([2],), "unbounded dimension can't be broadcast"),
        (["f32[2]"], ([2**62, 2],), "more than 2**63 - 1 elements"),
        (["f32[2]"], (3,), "broadcast_sizes must be a sequence of integers, got 3"),
        (["f32[2]"], ([True],), "each entry of broadcast_sizes must be an integer, got True"),
        (["f32[2]"], ([1.0],), "each entry of broadcast_sizes must be an integer, got 1.0"),
    ],
    "broadcast_in_dim": [
        (["f32[3]"], ([xb.UNBOUNDED, 3], [1]), "must contain static sizes, got an unbounded size"),
        (["f32[3]"], ([xb.UNBOUNDED], [0]), "fix: pass sizes at run time to xb.dynamic_broadcast"),
        (["(f32[2])"], ([2], [0]), "operand must be an array, got a tuple"),
        (["f32[2,3]"], ([3], [0, 1]), "at least as many dimensions as operand: 2"),
        (["f32[2]"], ([2, 3], [0, 1]), "one entry for each dimension of operand: 1, got 2: [0, 1]"),
        (["f32[2]"], ([3, 2], [2]), "must be a dimension of the result (0 to 1), got 2"),
        (["f32[2]"], ([3, 2], [-1]), "must be a dimension of the result (0 to 1), got -1"),
        (["f32[2,2]"], ([2, 2], [0, 0]), "must be strictly increasing, got [0, 0]"),
        (["f32[2]"], ([3, 4], [1]), "has size 2, dimension 1 of the result has size 4"),
        (["f32[<=2]"], ([3], [0]), "has size <=2, dimension 0 of the result has size 3"),
        (["f32[<=1]"], ([3], [0]), "a dynamic size <=1 can't be broadcast, got size 3"),
        (["f32[2]"], ([2, -1], [0]), "the sizes in out_dim_size must not be"),
    ],
    "reshape": [
        (
            ["f32[?]"],
            ([2, xb.UNBOUNDED],),
            "must be a multiple of new_sizes' product, got 1 and 2 in [2, ?]",
        ),
        (["f32[<=3,?]"], ([3, "?"],), "a bounded size can't be reshaped to unbounded sizes"),
        (["f32[?,<=3]"], ([6],), "fix: reshape operand with xb.dynamic_reshape, with xb.UNBOUNDED"),
        (["f32[6]"], ([2, -1],), "got -1 in [2, -1]"),
        (["f32[0]"], ([3],), "must stay the same, 0, got 3"),
        (["f32[5,<=4]"], ([4, 5],), "can be split, or combined with others, but not both"),
        (["f32[4,<=1,1]"], ([4],), "a dimension <=1 can be reshaped only if"),
        (["f32[<=5,?]"], ([5],), "both bounded and unbounded dimensions can't be reshaped"),
        (["token[]"], ([1],), "operand must be an array"),
    ],
    "reshape_with_inferred_dimension": [
        (["f32[6]"], ([2, 4], 0), "the number of elements must stay the same, 6, got 8"),
        (
            ["f32[6]"],
            ([2, 3], 2),
            "must be a dimension of the result (0 to 1), or -1 for none, g",
        ),
        (
            ["f32[6]"],
            ([2, 3], -2),
            "must be a dimension of the result (0 to 1), or -1 for none, g",
        ),
        (["f32[6]"], ([2, -1], 1), "the sizes in new_sizes must not be negative, got -1"),
        (["f32[6]"], ([2, 3], 1.5), "inferred_dimension must be an integer, got 1.5"),
        (["(f32[6])"], ([6], 0), "operand must be an array, got a tuple"),
    ],
    "collapse": [
        (
            ["f32[?,?]"],
            ([0, 1],),
            "fix: reshape operand with xb.dynamic_reshape, with xb.UNBOUNDED",
        ),
        (["f32[2,3,4]"], ([0, 2],), "must be consecutive and in order, got [0, 2]"),
        (["f32[2,3,4]"], ([1, 0],), "must be consecutive and in order, got [1, 0]"),
        (["f32[2,3,4]"], ([3],), "dimensions must be a dimension of operand (0 to 2), got 3"),
        (["f32[]"], ([0],), "must be a dimension of operand (it has none), got 0"),
    ],
    "transpose": [
        (["f32[2,3]"], ([0],), "must be a permutation of the dimensions of operand, [0, 1]"),
        (["f32[2,3]"], ([0, 0],), "got [0, 0]"),
        (["f32[2,3]"], ([1, -1],), "got [1, -1]"),
    ],
    "rev": [
        (["f32[2,3]"], ([2],), "dimensions must be a dimension of operand (0 to 1), got 2"),
        (["f32[2,3]"], ([0, 0],), "must not name a dimension twice, got 0 twice in [0, 0]"),
    ],
    "pad": [
        (["f32[2]", "f32[1]"], ([(0, 0, 0)],), "padding_value must be a scalar, got f32[1]"),
        (["f32[2]", "s32[]"], ([(0, 0, 0)],), "operands must have one element type, got f32, s32"),
        (
            ["f32[2]", "f32[]"],
            ([(0, 0, 0), (1, 1, 1)],),
            "one entry for each dimension of operand: 1, got 2: [(0, 0, 0), (1, 1, 1)]",
        ),
        (["f32[2]", "f32[]"], ([(0, 0, -1)],), "interior padding must not be negative, got -1"),
        (
            ["f32[2]", "f32[]"],
            ([(-2, -1, 0)],),
            "0 or more, not -1, got (-2, -1, 0) for dimension 0",
        ),
        (["f32[2]", "f32[]"], ([(1, 1)],), "three numbers, got (1, 1)"),
        (["f32[2]", "f32[]"], (3,), "must be a PaddingConfig or a sequence of (low, "),
        (["f32[2]", "f32[]"], ([(1, 1, True)],), "interior_padding must be an integer"),
        (["token[]", "f32[]"], ([],), "operand must be an array"),
    ],
    "slice": [
        (["f32[5]"], ([0, 0], [5]), "start_indices must have one entry for each dimension"),
        (["f32[5]"], ([0], [5, 5]), "limit_indices must have one entry for each dimension"),
        (["f32[5]"], ([0], [5], []), "strides must have one entry for each dimension"),
        (["f32[5]"], ([-1], [5]), "a start index must not be negative, got -1 for dimension 0"),
        (["f32[5]"], ([0], [6]), "at most the size, 5, got 6 for dimension 0"),
        (["f32[<=5]"], ([0], [6]), "at most the size, <=5, got 6 for dimension 0"),
        (["f32[5]"], ([3], [2]), "at least the start index, got 3 to 2 for dimension 0"),
        (["f32[5]"], ([0], [-1]), "fix: count limits from index 0"),
        (["f32[5]"], ([0], [5], [0]), "a stride must be at least 1, got 0 for dimension 0"),
        (["f32[5]"], ([0], [5], [-1]), "fix: reverse with xb.rev"),
    ],
    "slice_in_dim": [
        (["f32[5]"], (0, xb.UNBOUNDED, 1, 0), "a limit index must be at least the start index"),
        (["f32[5]"], (0, 5, 1, 1), "dimno must be a dimension of operand (0 to 0), got 1"),
        (["f32[5]"], (0, 6, 1, 0), "slice_in_dim: a limit index must be at most"),
        (["f32[5,?]"], (0, 6, 1, 0), "slice_in_dim: a limit index must be at most the size, 5"),
        (["f32[5]"], (0, 5, 1.5, 0), "stride must be an integer, got 1.5"),
    ],
}


@each_row(
    "op, operands, arguments, text",
    [(op, *case) for op, cases in ERRORS.items() for case in cases],
)
def test_errors(op: str, operands: list[str], arguments: tuple[object, ...], text: str) -> None:
    b = xb.XlaBuilder()
    ops = [b.parameter(o) for o in operands]
    count = len(b.ops)
    with pytest.raises(xb.ShapeInferenceError) as error:
        getattr(xb, op)(*ops, *arguments)
    assert message(error).startswith(f"{op}: ")
    assert text in message(error)
    assert error.value.op == op
    assert len(b.ops) == count, "a rejected call must record nothing"


@each_row(
    "operands, dimension, text",
    [
        (["f32[2]", "token[]"], 0, "operand 1 must be an array, got a token"),
        (["f32[2]", "s32[2]"], 0, "operands must have one element type, got f32, s32"),
        (["f32[2]", "f32[2,1]"], 0, "the same number of dimensions, got 1 for operand 0 and 2"),
        (["f32[]", "f32[]"], 0, "scalars can't be concatenated"),
        (["f32[2]"], 1, "dimension must be a dimension of operand 0 (0 to 0), got 1"),
        (["f32[2]"], -1, "dimension must be a dimension of operand 0 (0 to 0), got -1"),
        (["f32[<=2,3]", "f32[3,3]"], 1, "dimension 0 has <=2 in operand 0 and 3 in operand 1"),
        (["f32[?,1]", "f32[2,1]", "f32[3,1]"], 1, "has 2 in operand 1 and 3 in operand 2"),
    ],
)
def test_concatenate_errors(operands: list[str], dimension: int, text: str) -> None:
    b = xb.XlaBuilder()
    with pytest.raises(xb.ShapeInferenceError) as error:
        xb.concatenate([b.parameter(o) for o in operands], dimension)
    assert text in message(error)


def test_concatenate_of_nothing() -> None:
    with pytest.raises(xb.ShapeInferenceError, match="at least one operand is needed, got none"):
        xb.concatenate([], 0)


@each_row(
    "text_shape, dimension, text",
    [
        ("f32[<=2,3]", 0, "shape must be static, got f32[<=2,3]"),
        ("pred[2]", 0, "integer, floating-point or complex type, got pred"),
        ("f8e8m0fnu[2]", 0, "a type that can represent 0, got f8e8m0fnu"),
        ("f32[]", 0, "a dimension to count along, got a scalar"),
        ("f32[2,3]", None, "is required unless the rank is 1, got rank 2"),
        ("f32[2,3]", 2, "iota_dimension must be a dimension of shape (0 to 1), got 2"),
        ("f32[2,3]", -1, "(0 to 1), got -1"),
        ("f32[2,3]", 1.0, "iota_dimension must be an integer, got 1.0"),
        ("(f32[2])", 0, "shape must be an array, got a tuple"),
    ],
)
def test_iota_errors(text_shape: str, dimension: int | None, text: str) -> None:
    with pytest.raises(xb.ShapeInferenceError) as error:
        xb.XlaBuilder().iota(text_shape, dimension)
    assert text in message(error)


def test_operands_that_are_not_ops() -> None:
    with pytest.raises(xb.OperandError, match="reshape: operand must be an XlaOp, got list"):
        xb.reshape([1, 2], [2])  # type: ignore[arg-type]
    with pytest.raises(xb.OperandError, match="concatenate: operand 1 must be an XlaOp"):
        xb.concatenate([parameter("f32[2]"), 3], 0)  # type: ignore[list-item]
    with pytest.raises(xb.OperandError, match="pad: padding_value must be an XlaOp"):
        xb.pad(parameter("f32[2]"), None, [(0, 0, 0)])  # type: ignore[arg-type]
    with pytest.raises(xb.ConstantError):
        xb.pad(parameter("s8[2]"), 1000, [(0, 0, 0)])
