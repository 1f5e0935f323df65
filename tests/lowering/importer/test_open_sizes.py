"""`XlaComputation.open_sizes`, against the refinement of the StableHLO program.

Refinement accepts sizes if those of each group are equal, and refuses them if one differs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import builder as xb
import lowering
from builder import lib
from builder.types.shape import UNBOUNDED
from lowering.importer.refinement import with_argument_shapes
from tests.tables import each_row

FIRST, OTHER = 12, 24
"""Two sizes, which all splits in the programs divide."""

_ROW = xb.f32["?", 3]
_SQUARE = xb.f32["?", 4, 4]
_IMAGE = xb.f32["?", 8, 8, 3]
_NHWC = xb.ConvolutionDimensionNumbers.of("b01f_01io->b01f")


def _while(x: xb.XlaOp, y: xb.XlaOp) -> xb.XlaOp:
    loop = xb.while_(
        lambda state: state[0] < 3,
        lambda state: (state[0] + 1, state[1] + y),
        (x.builder.constant(0, xb.s32), x),
    )
    return loop[1]


def _called_with_a_size(x: xb.XlaOp, y: xb.XlaOp) -> xb.XlaOp:
    b = xb.XlaBuilder("ones")
    size = b.parameter(xb.s32[()])
    one = b.constant(1.0, xb.f32)
    ones = xb.dynamic_broadcast_in_dim(one, xb.reshape(size, [1]), [], xb.f32["?"])
    return xb.call(b.build(ones), xb.get_dimension_size(x, 0)) + y


def _vectors(op: xb.XlaOp, *numbers: int) -> list[xb.XlaOp]:
    return [op.builder.constant([each], xb.s32) for each in numbers]


PROGRAMS: list[tuple[str, list[Any], Callable[..., xb.XlaOp], list[str]]] = [
    ("add", [_ROW, _ROW], xb.add, ["0 of a = 0 of b = 0 of result"]),
    (
        "select",
        [xb.pred["?", 3], _ROW, xb.f32[5, 3]],
        xb.select,
        ["0 of a = 0 of b = 0 of result = 5"],
    ),
    ("clamp", [xb.f32[()], _ROW, _ROW], xb.clamp, ["0 of b = 0 of c = 0 of result"]),
    (
        "dot",
        [xb.f32["?", "?"], xb.f32["?", "?"]],
        xb.dot,
        ["0 of a = 0 of result", "1 of a = 0 of b", "1 of b = 1 of result"],
    ),
    (
        "dot_general",
        [xb.f32[2, "?", "?"], xb.f32["?", 2, "?"]],
        lambda x, y: xb.dot_general(x, y, (([1], [0]), ([0], [1]))),
        ["1 of a = 0 of b", "2 of a = 1 of result", "2 of b = 2 of result"],
    ),
    (
        "conv",
        [_IMAGE, xb.f32[3, 3, 3, 8]],
        lambda x, k: xb.conv_general_dilated(x, k, [1, 1], [(1, 1)] * 2, [1, 1], [1, 1], _NHWC),
        ["0 of a = 0 of result"],
    ),
    (
        "reduce",
        [xb.f32["?", "?"], xb.s32["?", "?"]],
        lambda x, y: xb.reduce([x, y], [0.0, 0], lambda a, b, c, d: xb.tuple(a + c, b + d), [0]),
        ["0 of a = 0 of b", "1 of a = 1 of b = 0 of result[0] = 0 of result[1]"],
    ),
    (
        "reduce_window",
        [xb.f32["?", "?"]],
        lambda x: xb.reduce_window(x, 0.0, xb.add, [3, 2], [1, 2], [(1, 1), (0, 0)]),
        ["0 of a = 0 of result", "1 of a"],
    ),
    (
        "transpose",
        [xb.f32["?", 2, "?"]],
        lambda x: xb.transpose(x, [2, 0, 1]),
        ["0 of a = 1 of result", "2 of a = 0 of result"],
    ),
    (
        "concatenate",
        [xb.f32["?", "?"], xb.f32["?", "?"]],
        lambda x, y: xb.concat_in_dim([x, y], 0),
        ["0 of a", "1 of a = 1 of b = 1 of result", "0 of b"],
    ),
    (
        "pad",
        [xb.f32["?", "?"]],
        lambda x: xb.pad(x, 0.0, [(1, 0, 0), (0, 0, 0)]),
        ["0 of a", "1 of a = 1 of result"],
    ),
    ("slice", [_SQUARE], lambda x: x[:, 1:3, ::2], ["0 of a = 0 of result"]),
    ("reverse", [_ROW], lambda x: xb.rev(x, [1]), ["0 of a = 0 of result"]),
    (
        "sort",
        [_ROW, xb.s32["?", 3]],
        lambda x, y: xb.sort([x, y], dimension=1),
        ["0 of a = 0 of b = 0 of result[0] = 0 of result[1]"],
    ),
    (
        "top_k",
        [_ROW],
        lambda x: xb.top_k(x, 2),
        ["0 of a = 0 of result[0] = 0 of result[1]"],
    ),
    ("cholesky", [_SQUARE], xb.cholesky, ["0 of a = 0 of result"]),
    (
        "triangular_solve",
        [_SQUARE, xb.f32["?", 4, "?"]],
        lambda a, y: xb.triangular_solve(a, y, True, True, False, "NO_TRANSPOSE"),
        ["0 of a = 0 of b = 0 of result", "2 of b = 2 of result"],
    ),
    (
        "fft",
        [_ROW],
        lambda x: xb.fft(x, "RFFT", [3]),
        ["0 of a = 0 of result"],
    ),
    (
        "take",
        [xb.f32[9, 4], xb.s32["?"]],
        lambda table, ids: lib.take(table, ids, 0),
        ["0 of b = 0 of result"],
    ),
    (
        "scatter",
        [xb.f32[9, 4], xb.s32["?"], xb.f32["?", 4]],
        lambda x, i, u: xb.scatter(
            x, i, u, xb.add, xb.ScatterDimensionNumbers([1], [0], [0], index_vector_dim=1)
        ),
        ["0 of b = 0 of c"],
    ),
    (
        "batch_norm",
        [_IMAGE, xb.f32[3], xb.f32[3]],
        lambda x, s, o: xb.batch_norm_training(x, s, o, 1e-3, 3),
        ["0 of a = 0 of result[0]"],
    ),
    ("while", [_ROW, _ROW], _while, ["0 of a = 0 of b = 0 of result"]),
    (
        "conditional",
        [xb.pred[()], _ROW, _ROW],
        lambda p, x, y: xb.conditional(p, x, lambda v: v + v, y, lambda v: v * v),
        ["0 of b = 0 of c = 0 of result"],
    ),
    (
        "tuple",
        [xb.parse_shape("(f32[?], f32[?,2])")],
        lambda t: xb.tuple(t[1], t[0] + xb.reduce(t[1], 0.0, xb.add, [1])),
        ["0 of a[0] = 0 of a[1] = 0 of result[0] = 0 of result[1]"],
    ),
    (
        "sizes at run time",
        [_ROW, xb.f32[3]],
        lambda x, y: xb.mul(x + lib.softmax(x), y, [1]),
        ["0 of a = 0 of result"],
    ),
    (
        "called with a size",
        [_ROW, xb.f32["?"]],
        _called_with_a_size,
        ["0 of a = 0 of b = 0 of result"],
    ),
    (
        "iota",
        [_ROW, xb.s32["?"]],
        lambda x, y: y + xb.dynamic_iota(xb.reshape(xb.get_dimension_size(x, 0), [1]), 0, y.shape),
        ["0 of a = 0 of b = 0 of result"],
    ),
    (
        "reshape",
        [xb.f32["?", 2, 3], xb.f32["?", 6]],
        lambda x, y: xb.reshape(x, ["?", 6]) + y,
        ["0 of a = 0 of b = 0 of result"],
    ),
    (
        "slice at run time",
        [xb.f32["?"]],
        lambda x: xb.real_dynamic_slice(x, *_vectors(x, 1, 4, 2), xb.f32["?"]),
        ["0 of a"],
    ),
    (
        "pad at run time",
        [xb.f32["?"], xb.f32[()]],
        lambda x, y: xb.dynamic_pad(x, y, *_vectors(x, 1, 0, 0), xb.f32["?"]),
        ["0 of a"],
    ),
    ("bitcast", [_ROW], lambda x: xb.bitcast_convert_type(x, xb.s32), ["0 of a = 0 of result"]),
]


def program(shapes: list[Any], function: Callable[..., xb.XlaOp]) -> xb.XlaComputation:
    b = xb.XlaBuilder("program")
    parameters = [b.parameter(s, name) for s, name in zip(shapes, "abc", strict=False)]
    return b.build(function(*parameters))


@each_row("name, shapes, function, expected", PROGRAMS)
def test_open_sizes(
    name: str, shapes: list[Any], function: Callable[..., xb.XlaOp], expected: list[str]
) -> None:
    computation = program(shapes, function)
    sizes = computation.open_sizes()
    assert [str(size).replace("dimension ", "") for size in sizes] == expected

    module = lowering.lower(computation)
    numbers = {place: n for n, size in enumerate(sizes) for place in size.parameters}
    fixed = {n: size.size for n, size in enumerate(sizes)}

    def refine(differing: tuple[str, int] | None) -> xb.ProgramShape:
        def sized(shape: xb.Shape, path: str) -> xb.Shape:
            if isinstance(shape, xb.TupleShape):
                return xb.TupleShape(
                    [sized(element, f"{path}[{i}]") for i, element in enumerate(shape.elements)]
                )
            assert isinstance(shape, xb.ArrayShape)
            dimensions = []
            for d, size in enumerate(shape.dimensions):
                if size == UNBOUNDED:
                    size = fixed[numbers[path, d]] or FIRST + 24 * numbers[path, d]
                    size = OTHER if (path, d) == differing else size
                dimensions.append(size)
            return shape.element_type[tuple(dimensions)]

        passed = [sized(p.shape, p.name or "") for p in computation.parameters]
        return with_argument_shapes(module, passed, "program").program_shape

    refine(None)
    for size in sizes:
        if len(size.parameters) > 1 or size.size is not None:
            for place in size.parameters:
                with pytest.raises(lowering.LoweringError):
                    refine(place)


def test_a_loaded_program_and_the_display() -> None:
    computation = program([_ROW, _ROW], xb.add)
    loaded = lowering.to_computation(lowering.lower(computation))
    assert loaded.open_sizes() == computation.open_sizes()
    html = computation._repr_html_()
    assert "dimension 0 of a = dimension 0 of b = dimension 0 of result" in html
    assert "equal sizes" not in program([xb.f32[3]], xb.neg)._repr_html_()
