"""Programs for arguments of any size: lowered, refined for sizes, compiled, compared with NumPy."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tables import each_row, mostly_slow

import builder as xb
import lowering
from builder.types.shape import has_unbounded_sizes, leaves
from lowering import ArgumentError, CompileError, LoweringError
from lowering.jaxlib_api import hlo_conversion

RANDOM = np.random.default_rng(11)
SIZES = (0, 1, 4)
ANY = xb.UNBOUNDED


def built(function: Callable[..., Any], *shapes: Any) -> xb.XlaComputation:
    b = xb.XlaBuilder("program")
    return b.build(function(*map(b.parameter, shapes)))


def argument(shape: Any) -> np.ndarray[Any, Any]:
    if shape.element_type.is_integral:
        return RANDOM.integers(0, 3, shape.dimensions).astype(shape.element_type.dtype)
    return RANDOM.standard_normal(shape.dimensions).astype(shape.element_type.dtype)


def of_size(shape: Any, size: int) -> xb.ArrayShape:
    """Return a shape with `size` for each unbounded size."""
    sizes = [size if n == ANY else n for n in xb.parse_shape(str(shape)).dimensions]
    return xb.array_shape(shape.element_type, sizes)


def model(x: xb.XlaOp, w: xb.XlaOp, bias: xb.XlaOp, rows: xb.XlaOp) -> list[xb.XlaOp]:
    """A dense layer, softmax, means, a concatenation, and rows by number."""
    y = xb.max(xb.add(xb.dot(x, w), bias, broadcast_dimensions=[1]), 0.0)
    top = xb.reduce(y, float("-inf"), xb.max, [1])
    powers = xb.exp(xb.sub(y, top, broadcast_dimensions=[0]))
    softmax = xb.div(powers, xb.reduce(powers, 0.0, xb.add, [1]), broadcast_dimensions=[0])
    both = xb.concatenate([softmax, x * 2.0 - 1.0], 1)
    numbers = xb.GatherDimensionNumbers(
        offset_dims=[1], collapsed_slice_dims=[0], start_index_map=[0], index_vector_dim=1
    )
    chosen = xb.gather(both, rows, numbers, [1, 7])
    return [softmax, both, chosen, xb.reduce(both, 0.0, xb.add, [0])]


def expected_model(x: Any, w: Any, bias: Any, rows: Any) -> list[Any]:
    y = np.maximum(x @ w + bias, 0)
    powers = np.exp(y - y.max(1, keepdims=True))
    softmax = powers / powers.sum(1, keepdims=True)
    both = np.concatenate([softmax, x * 2 - 1], 1)
    return [softmax, both, both[np.clip(rows, 0, len(x) - 1)], both.sum(0)]


MODEL = (xb.f32[ANY, 4], xb.f32[4, 3], xb.f32[3], xb.s32[2])


@pytest.mark.parametrize("size", mostly_slow([1, 2, 7], 1))
def test_a_model_of_any_batch_size(size: int) -> None:
    program = built(lambda *p: xb.tuple(*model(*p)), *MODEL)
    assert str(program.program_shape.result) == "(f32[?,3], f32[?,7], f32[2,7], f32[7])"
    shapes = [of_size(shape, size) for shape in MODEL]
    arguments = [argument(shape) for shape in shapes]
    results = lowering.compile(program, argument_shapes=shapes)(*arguments)
    for result, expected in zip(results, expected_model(*arguments), strict=True):
        np.testing.assert_allclose(np.asarray(result), expected, rtol=1e-5, atol=1e-6)


def test_a_saved_model_of_any_batch_size(tmp_path: Any) -> None:
    """One file serves all sizes; the import with sizes has no dynamic operation."""
    path = tmp_path / "model.mlirbc"
    lowering.lower(built(lambda *p: xb.tuple(*model(*p)), *MODEL)).save(path)
    for size in (2, 5):
        shapes = [of_size(shape, size) for shape in MODEL]
        arguments = [argument(shape) for shape in shapes]
        program = lowering.to_computation(path, argument_shapes=shapes)
        assert all(op.shape.is_static for op in program.ops)
        for loaded in (program, lowering.load(path)):
            results = lowering.compile(loaded, argument_shapes=shapes)(*arguments)
            for result, expected in zip(results, expected_model(*arguments), strict=True):
                np.testing.assert_allclose(np.asarray(result), expected, rtol=1e-5, atol=1e-6)


def shifted(x: xb.XlaOp) -> xb.XlaOp:
    """Add the number of rows to each row, in a loop."""
    count = xb.get_dimension_size(x, 0)
    start = [x.builder.constant(0, xb.s32), x]
    return xb.while_(lambda s: s[0] < count, lambda s: (s[0] + 1, s[1] + 1.0), start)[1]


TWO = xb.f32[ANY, 4]
VECTOR = xb.f32[ANY]


# A function of parameters of some shapes, and the same in NumPy.
def rows_of(x: xb.XlaOp) -> xb.XlaOp:
    """The number of rows as a vector."""
    return xb.reshape(xb.get_dimension_size(x, 0), [1])


def sizes_of(x: xb.XlaOp) -> xb.XlaOp:
    return xb.concatenate([rows_of(x), x.builder.constant(np.int32([4]))], 0)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], Callable[..., Any]]] = {
    "number": (lambda x: 1.0 - x, (TWO,), lambda x: 1 - x),
    "scalar": (lambda x, y: x * y, (TWO, xb.f32[()]), lambda x, y: x * y),
    "ones": (lambda x, y: x + y, (TWO, xb.f32[1, 4]), lambda x, y: x + y),
    "column": (lambda x, y: x + y, (TWO, xb.f32[ANY, 1]), lambda x, y: x + y),
    "outer": (lambda x, y: x + y, (xb.f32[ANY, 1], xb.f32[1, 4]), lambda x, y: x + y),
    "row": (lambda x, y: xb.mul(x, y, [1]), (TWO, xb.f32[4]), lambda x, y: x * y),
    "comparison": (lambda x: x > 0.0, (TWO,), lambda x: x > 0),
    "select": (lambda x: xb.select(x > 0, x, 0.5), (TWO,), lambda x: np.where(x > 0, x, 0.5)),
    "select_numbers": (
        lambda x: xb.select(x > 0, x.builder.constant(2.0, xb.f32), 0.5),
        (TWO,),
        lambda x: np.where(x > 0, 2.0, 0.5).astype(np.float32),
    ),
    "clamp": (lambda x: xb.clamp(-0.5, x, 0.5), (TWO,), lambda x: np.clip(x, -0.5, 0.5)),
    "clamp_scalar": (
        lambda x, y: xb.clamp(x, y, x + 1.0),
        (VECTOR, xb.f32[()]),
        lambda x, y: np.clip(y, x, x + 1),
    ),
    "map": (
        lambda x, y: xb.map([x, y], lambda a, b: a * b + 1.0),
        (TWO, xb.f32[()]),
        lambda x, y: x * y + 1,
    ),
    "reciprocal": (lambda x: xb.reciprocal(x), (TWO,), lambda x: 1 / x),
    "mean": (
        lambda x: xb.reduce(x, 0.0, xb.add, [0]),
        (TWO,),
        lambda x: x.sum(0),
    ),
    "transpose": (lambda x: xb.transpose(x, [1, 0]), (TWO,), lambda x: x.T),
    "concatenate": (
        lambda x, y: xb.concatenate([x, y, x], 0),
        (TWO, xb.f32[2, 4]),
        lambda x, y: np.concatenate([x, y, x]),
    ),
    "pad": (
        lambda x: xb.pad(x, 7.0, [(1, 2, 1), (0, 1, 0)]),
        (TWO,),
        lambda x: padded(x),
    ),
    "reverse": (lambda x: xb.rev(x, [0]), (TWO,), lambda x: x[::-1]),
    "sort": (lambda x: xb.sort(x, dimension=0), (TWO,), lambda x: np.sort(x, 0)),
    "slice": (
        lambda x: xb.slice(x, [0, 1], [ANY, 3], [2, 1]),
        (TWO,),
        lambda x: x[::2, 1:3],
    ),
    "slice_of_columns": (lambda x: xb.slice_in_dim(x, 1, 3, dimno=1), (TWO,), lambda x: x[:, 1:3]),
    "dot": (
        lambda x, y: xb.dot_general(x, y, (([0], [0]), ([], []))),
        (TWO, xb.f32[ANY, 3]),
        lambda x, y: x.T @ y,
    ),
    "batched_dot": (
        lambda x, y: xb.dot_general(x, y, (([2], [1]), ([0], [0]))),
        (xb.f32[ANY, 2, 4], xb.f32[ANY, 4, 3]),
        lambda x, y: x @ y,
    ),
    "convolution": (
        lambda x, y: xb.conv(x, y, [1], xb.Padding.SAME),
        (xb.f32[ANY, 1, 6], xb.f32[1, 1, 3]),
        lambda x, y: np.array(
            [np.convolve(row[0], y[0, 0][::-1], "same") for row in x], np.float32
        ).reshape(-1, 1, 6),
    ),
    "reduce_window": (
        lambda x: xb.reduce_window(x, 0.0, xb.add, [1, 2], [1, 2], xb.Padding.VALID),
        (TWO,),
        lambda x: x.reshape(-1, 2, 2).sum(2),
    ),
    "loop": (shifted, (TWO,), lambda x: x + len(x)),
    "conditional": (
        lambda x, p: xb.conditional(p > 0, x, lambda v: v * 2.0, x, lambda v: v - 1.0),
        (TWO, xb.f32[()]),
        lambda x, p: x * 2 if p > 0 else x - 1,
    ),
    "call": (lambda x: xb.call(lambda v: v + v * 3.0, x), (TWO,), lambda x: x + x * 3),
    "flat": (
        lambda x: xb.dynamic_reshape(x, [xb.get_dimension_size(x, 0) * 4], [ANY], [True]),
        (TWO,),
        lambda x: x.ravel(),
    ),
    "zeros": (
        lambda x, y: xb.dynamic_broadcast_in_dim(
            y, xb.concatenate([xb.reshape(xb.get_dimension_size(x, 0), [1])] * 2, 0), [], "f32[?,?]"
        ),
        (VECTOR, xb.f32[()]),
        lambda x, y: np.full((len(x), len(x)), y, np.float32),
    ),
    "iota": (
        lambda x: xb.dynamic_iota(sizes_of(x), 0, "f32[?,4]"),
        (TWO,),
        lambda x: np.broadcast_to(np.arange(len(x), dtype=np.float32)[:, None], x.shape),
    ),
    "sliced": (
        lambda x: xb.real_dynamic_slice(
            xb.concatenate([x, x], 0),
            xb.concatenate([rows_of(x), x.builder.constant(np.int32([1]))], 0),
            xb.concatenate([rows_of(x) * 2, x.builder.constant(np.int32([4]))], 0),
            x.builder.constant(np.int32([1, 2])),
            "f32[?,2]",
        ),
        (TWO,),
        lambda x: x[:, 1::2],
    ),
    "padded": (
        lambda x: xb.dynamic_pad(
            x,
            x.builder.constant(7.0, xb.f32),
            xb.concatenate([rows_of(x), x.builder.constant(np.int32([-1]))], 0),
            x.builder.constant(np.int32([0, 2])),
            x.builder.constant(np.int32([0, 0])),
            "f32[?,5]",
        ),
        (TWO,),
        lambda x: np.pad(x[:, 1:], [(len(x), 0), (0, 2)], constant_values=7),
    ),
    "gathered": (
        lambda x: xb.dynamic_gather(
            xb.concatenate([x, x * 2.0], 0),
            rows_of(x),
            xb.concatenate([rows_of(x), x.builder.constant(np.int32([3]))], 0),
            xb.GatherDimensionNumbers([0, 1], [], [0], 0),
            "f32[?,3]",
        ),
        (TWO,),
        lambda x: 2 * x[:, :3],
    ),
    "set_by_index": (
        lambda x, y: xb.dynamic_update_slice(xb.concatenate([x, y], 0), y, [1, 0]),
        (TWO, xb.f32[1, 4]),
        lambda x, y: updated(np.concatenate([x, y]), y),
    ),
    "scatter": (
        lambda x, i, y: xb.scatter(
            xb.concatenate([x, y, y, y], 0),
            i,
            y,
            xb.add,
            xb.ScatterDimensionNumbers(
                update_window_dims=[1],
                inserted_window_dims=[0],
                scatter_dims_to_operand_dims=[0],
                index_vector_dim=1,
            ),
        ),
        (TWO, xb.s32[1], xb.f32[1, 4]),
        lambda x, i, y: added(np.concatenate([x, y, y, y]), i, y),
    ),
    "top": (
        lambda x: xb.top_k(x, 2)[0],
        (TWO,),
        lambda x: np.sort(x, 1)[:, :1:-1],
    ),
}


def padded(x: Any) -> Any:
    result = np.full((max(2 * len(x) - 1, 0) + 3, 5), 7, np.float32)
    if len(x):
        result[1 : 2 * len(x) : 2, :4] = x
    return result


def updated(x: Any, y: Any) -> Any:
    start = min(1, len(x) - 1)
    x[start : start + 1] = y
    return x


def added(x: Any, i: Any, y: Any) -> Any:
    x[i[0]] += y[0]
    return x


def test_programs_of_any_size() -> None:
    """All programs in one, which is compiled once per size."""
    b = xb.XlaBuilder("programs")
    parameters = {
        name: [b.parameter(shape) for shape in shapes] for name, (_, shapes, _) in PROGRAMS.items()
    }
    program = b.build(xb.tuple(*(PROGRAMS[name][0](*given) for name, given in parameters.items())))
    module = lowering.lower(program)
    assert module.module.operation.verify()
    # XLA's parser and converter accept the same program as text.
    assert hlo_conversion.hlo_text_to_stablehlo(str(program))
    again = lowering.to_computation(module)
    assert lowering.lower(again).text == module.text
    for size in SIZES:
        shapes = [of_size(p.shape, size) for given in parameters.values() for p in given]
        arguments = [argument(shape) for shape in shapes]
        results = lowering.compile(module, argument_shapes=shapes)(*arguments)
        rest = iter(arguments)
        for (name, given), result in zip(parameters.items(), results, strict=True):
            expected = PROGRAMS[name][2](*(next(rest) for _ in given))
            assert np.asarray(result).shape == expected.shape, name
            np.testing.assert_allclose(
                np.asarray(result), expected, rtol=1e-5, atol=1e-5, err_msg=name
            )


def call_of(parameter: str, operand: Any) -> xb.XlaComputation:
    inner = xb.XlaBuilder("inner")
    doubled = inner.build(inner.parameter(parameter) * 2.0)
    return built(lambda x: xb.call(doubled, x), operand)


def loop_of(parameter: str, operand: Any) -> xb.XlaComputation:
    """Three times the sum of the state and 1, whose computations have another size of the state."""
    state = xb.tuple_shape([xb.s32[()], parameter])
    goes_on, step = xb.XlaBuilder("goes_on"), xb.XlaBuilder("step")
    goes_on = goes_on.build(goes_on.parameter(state)[0] < 3)
    count, x = step.parameter(state)
    step = step.build(xb.tuple(count + 1, x + 1.0))
    return built(
        lambda x: xb.while_(goes_on, step, xb.tuple(x.builder.constant(0, xb.s32), x))[1], operand
    )


def branch_of(parameter: str, operand: Any) -> xb.XlaComputation:
    b = xb.XlaBuilder("halved")
    halved = b.build(b.parameter(parameter) * 0.5)
    return built(
        lambda x: xb.conditional(x.builder.constant(1, xb.s32), [halved, halved], [x, x]), operand
    )


@each_row("parameter", ["f32[?]", "f32[5]"])
@each_row("operand", ["f32[?]", "f32[5]"])
@each_row(
    "program, reference",
    [(call_of, lambda x: x * 2), (loop_of, lambda x: x + 3), (branch_of, lambda x: x * 0.5)],
)
def test_computations_of_another_size(
    program: Callable[..., Any], reference: Callable[..., Any], parameter: str, operand: str
) -> None:
    """A computation for any size is applied to a value of one size, and the reverse."""
    module = lowering.lower(program(parameter, operand))
    assert module.module.operation.verify()
    x = RANDOM.standard_normal(5).astype(np.float32)
    result = lowering.compile(module, argument_shapes=["f32[5]"])(x)
    np.testing.assert_allclose(np.asarray(result), reference(x), rtol=1e-6)


@pytest.mark.parametrize("program", [call_of, loop_of])
def test_compilation_requests_the_sizes_of_static_parameters(program: Callable[..., Any]) -> None:
    """Values have unbounded sizes that follow from the parameters' static sizes."""
    with pytest.raises(
        CompileError, match=r"got f32|has the result f32\[\?\].*\nfix: pass the .*s=\["
    ):
        lowering.compile(program("f32[?]", "f32[5]"))


def test_a_size_that_the_computation_does_not_have_is_refused() -> None:
    for program in (call_of, loop_of, branch_of):
        module = lowering.lower(program("f32[5]", "f32[?]"))
        # The second message is jaxlib's, where no parameter determines the size.
        message = "(: dimension 0 of p0 must be 5 .*got 4| is dynamic, and its sizes can't)"
        with pytest.raises(xb.XlaError, match=f"compile: program{message}"):
            lowering.compile(module, argument_shapes=["f32[4]"])


def test_compilation_checks_the_sizes() -> None:
    program = built(lambda x, y: xb.tuple(x + 1.0, y), TWO, "(f32[3], f32[?])")
    for source in (program, lowering.lower(program)):
        with pytest.raises(ArgumentError, match=r"compile: argument_shapes\[0\] must be the shape"):
            lowering.compile(source, argument_shapes=["f32[8,5]", "(f32[3], f32[8])"])
        with pytest.raises(ArgumentError, match=r"compile: program has 2 parameters, got 1 arg"):
            lowering.compile(source, argument_shapes=["f32[8,4]"])
        with pytest.raises(xb.OperandError, match=r"compile: argument_shapes must be a list"):
            lowering.compile(source, argument_shapes="f32[8,4]")
        x, y = np.ones((2, 4), np.float32), np.ones(1, np.float32)
        shapes = ["f32[2,4]", "(f32[3], f32[1])"]
        result, (_, same) = lowering.compile(source, argument_shapes=shapes)(
            x, (np.ones(3, np.float32), y)
        )
        assert (np.asarray(result) == 2).all()
        assert np.asarray(same).shape == (1,)


def test_sizes_that_contradict_each_other_are_refused() -> None:
    program = built(lambda x, y: x + y, VECTOR, VECTOR)
    shapes = ["f32[2]", "f32[3]"]
    rule = r"dimension 0 of \w+ and dimension 0 of \w+ must be equal at .*\.py:\d+, got 2 and 3"
    with pytest.raises(lowering.ArgumentError, match=f"^compile: .*: {rule}\nfix: write"):
        lowering.compile(program, argument_shapes=shapes)
    with pytest.raises(lowering.ArgumentError, match=f"^to_computation: .*: {rule}\n"):
        lowering.to_computation(lowering.lower(program), argument_shapes=shapes)
    # At run time a size of 1 is broadcast to a known size, and no other size is.
    program = built(lambda x, y: x + y, VECTOR, xb.f32[3])
    executable = lowering.compile(program, argument_shapes=["f32[1]", "f32[3]"])
    result = executable(np.ones(1, np.float32), np.arange(3, dtype=np.float32))
    assert np.asarray(result).tolist() == [1, 2, 3]
    with pytest.raises(LoweringError, match="its sizes can't be inferred for arguments of f32"):
        lowering.compile(program, argument_shapes=["f32[2]", "f32[3]"])


def test_the_sizes_are_shared_by_no_other_program() -> None:
    """The lowered module is not changed, so it can be compiled for other sizes."""
    module = lowering.lower(built(lambda x: x * 2.0, VECTOR))
    text = module.text
    for size in (4, 2):
        x = np.ones(size, np.float32)
        assert (
            np.asarray(lowering.compile(module, argument_shapes=[f"f32[{size}]"])(x)).size == size
        )
    assert module.text == text
    assert any(map(has_unbounded_sizes, leaves(module.program_shape.result)))


def test_bounded_sizes_beside_unbounded_ones() -> None:
    program = built(lambda x, y: xb.tuple(x + y, y + 1.0), "f32[?,3]", "f32[<=4,3]")
    assert str(program.program_shape.result) == "(f32[<=4,3], f32[<=4,3])"
    executables = {
        rows: lowering.compile(program, argument_shapes=[f"f32[{rows},3]", "f32[<=4,3]"])
        for rows in (1, 2, 4)
    }
    for rows, size in ((1, 3), (1, 0), (2, 2), (4, 4)):
        x, y = (RANDOM.standard_normal((n, 3)).astype(np.float32) for n in (rows, size))
        total, more = executables[rows](x, y)
        np.testing.assert_allclose(np.asarray(total), x + y)
        np.testing.assert_allclose(np.asarray(more), y + 1)
    with pytest.raises(CompileError, match="larger than the bound of the result's dimension"):
        lowering.compile(program, argument_shapes=["f32[5,3]", "f32[<=4,3]"])


def test_sizes_that_are_values_need_bounds() -> None:
    def program(sizes: str) -> xb.XlaComputation:
        shape = xb.parse_shape(f"f32[{sizes}]")
        return built(lambda x, s: xb.dynamic_broadcast_in_dim(x, s, [], shape), "f32[]", "s32[2]")

    fix = r"f32\[\?,3\]\nfix: the sizes depend on values: .* with bounds, such as f32\[<=8,3\]"
    with pytest.raises(CompileError, match=fix):
        lowering.compile(program("?,3"))
    found = lowering.compile(program("<=8,3"))(np.float32(2), np.int32([4, 3]))
    np.testing.assert_array_equal(found, np.full((4, 3), 2, np.float32))


def test_the_interpreter_requests_the_sizes() -> None:
    program = built(lambda x: x * 2.0, VECTOR)
    x = np.ones(2, np.float32)
    for function in (lowering.interpret, lowering.compare):
        with pytest.raises(ArgumentError, match=r"got f32\[\?\]\nfix: pass the sizes: .*to_comp"):
            function(program, x)
    fixed = lowering.to_computation(lowering.lower(program), argument_shapes=["f32[2]"])
    assert np.asarray(lowering.interpret(fixed, x)).tolist() == [2, 2]


@each_row(
    "source, places, result",
    [
        ("f32[3]", [1], "f32[?,3]"),
        ("f32[?,1]", [2, 0], "f32[5,4,?]"),
        ("f32[]", [], "f32[<=4,?]"),
        ("f32[1,1]", [1, 0], "f32[2,3]"),
    ],
)
def test_a_broadcast_to_computed_sizes_lowers(source: str, places: list[int], result: str) -> None:
    shape = xb.parse_shape(result)
    assert isinstance(shape, xb.ArrayShape)
    program = built(
        lambda x, sizes: xb.dynamic_broadcast_in_dim(x, sizes, places, shape),
        source,
        xb.s32[shape.rank],
    )
    assert lowering.lower(program).module.operation.verify()
    assert hlo_conversion.hlo_text_to_stablehlo(str(program))


def test_a_table_shows_unbounded_limits() -> None:
    program = built(lambda x: xb.slice_in_dim(x, 1, 3, dimno=1), TWO)
    assert "limit_indices={?,3}" in re.sub(r"\s+", "", str(program.table()))
