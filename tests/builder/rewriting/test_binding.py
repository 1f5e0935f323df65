"""bind and hoist_constants: parameters become constants, and constants become parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import graphs
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from tables import each_row

import builder as xb

MATRIX = np.arange(6, dtype=np.int32).reshape(2, 3)
OTHER = MATRIX * 2 - 5


def read_only(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    array.flags.writeable = False
    return array


@given(graphs.recipes)
@settings(max_examples=40)
def test_bound_and_hoisted_computations_compute_the_same(recipe: list[graphs.Step]) -> None:
    graph = graphs.recorded(recipe)
    arguments = graphs.arguments_of(graph)
    expected = graphs.evaluate(graph, *arguments)
    names = graph.program_shape.parameter_names
    bound = xb.bind(graph, dict(enumerate(arguments)))
    assert not bound.parameters
    np.testing.assert_array_equal(graphs.evaluate(bound), expected, strict=True)
    hoisted, arrays = xb.hoist_constants(graph, at_least=20)
    assert hoisted.program_shape.parameter_names == (*names, *arrays)
    every = [op for c in (hoisted, *hoisted.called_computations()) for op in c.ops]
    assert all(op.shape.rank == 0 for op in every if op.opcode == "constant")
    np.testing.assert_array_equal(
        graphs.evaluate(hoisted, *arguments, *arrays.values()), expected, strict=True
    )
    again = xb.bind(hoisted, arrays)
    np.testing.assert_array_equal(graphs.evaluate(again, *arguments), expected, strict=True)


def nested(x: xb.XlaOp) -> xb.XlaOp:
    """Apply computations with constants: by a call, twice, in a loop and in a branch."""

    def constant(op: xb.XlaOp, value: np.ndarray[Any, Any]) -> xb.XlaOp:
        return op.builder.constant(value)

    called = xb.computation(graphs.SHAPE)(lambda y: y * constant(y, MATRIX))
    y = xb.call(called, xb.call(called, x) + constant(x, MATRIX.copy()))
    _, y = xb.while_(
        lambda state: xb.reduce(state[1] + constant(state[1], OTHER), 0, xb.add, [0, 1]) < 10**6,
        lambda state: (state[0] + 1, xb.call(called, state[1]) + constant(state[1], OTHER)),
        [0, y],
    )
    return xb.conditional(x[0, 0] < 0, y, lambda v: v - constant(v, MATRIX * 7), y, xb.neg)


def test_constants_of_applied_computations_are_hoisted() -> None:
    graphs.EVALUATORS.setdefault("slice", _first)
    graphs.EVALUATORS.setdefault("reshape", lambda op, x: np.reshape(x, op.shape.dimensions))
    computation = xb.computation(graphs.SHAPE)(nested)
    hoisted, arrays = xb.hoist_constants(computation, at_least=24)
    assert [array.tolist() for array in arrays.values()] == [
        MATRIX.tolist(),
        OTHER.tolist(),
        (MATRIX * 7).tolist(),
    ]
    assert list(arrays) == ["constant", "constant_1", "constant_2"]
    calls = [op for c in (hoisted, *hoisted.called_computations()) for op in c.find("call")]
    assert len(calls) == 3
    assert len({op.called_computations for op in calls}) == 1  # the copy is shared
    for sign in (1, -1):
        x = MATRIX * sign - 1
        expected = graphs.evaluate(computation, x)
        np.testing.assert_array_equal(graphs.evaluate(hoisted, x, *arrays.values()), expected)


def _first(op: xb.XlaOp, x: Any) -> Any:
    limits = zip(op.attributes["start_indices"], op.attributes["limit_indices"], strict=True)
    return x[tuple(slice(*limit) for limit in limits)]


def test_large_arrays_are_shared_and_not_copied() -> None:
    b = xb.XlaBuilder("shared")
    x, w = b.parameter(graphs.SHAPE, "x"), b.parameter(graphs.SHAPE, "w")
    c = b.build(x + w)
    array = read_only(MATRIX.copy())
    hoisted, arrays = xb.hoist_constants(xb.bind(c, w=array), at_least=1)
    assert arrays["w"] is array
    assert xb.bind(hoisted, arrays).find("constant")[0].attributes["value"] is array
    written = MATRIX.copy()
    bound = xb.bind(c, w=written)
    written[:] = 0
    np.testing.assert_array_equal(bound.find("constant")[0].attributes["value"], MATRIX)


def test_everything_else_is_preserved() -> None:
    rows = xb.Mesh({"data": 2}).sharding("data")
    b = xb.XlaBuilder("step")
    w = b.parameter("f32[2,3]{0,1}", "w", sharding=rows)
    state = b.parameter("(f32[2,3], f32[2,3])", "state")
    x = b.parameter("f32[2,3]{0,1}", "x", sharding=rows)
    b.parameter(xb.f32[3], "rest")
    with b.frontend_attributes({"a": "b"}):
        root = xb.tuple(state[0] * w, x + state[1])
    b.setup_alias([0], 1, [0])
    b.setup_alias([1], 2)
    b.add_buffer_donor(3)
    annotations = b.annotations._replace(parameters=tuple({"mine.n": str(n)} for n in range(5)))
    b.annotations = annotations
    shape = "(f32[2,3]{0,1}, f32[2,3])"
    c = b.build(root, result=shape, result_sharding=rows)
    weights = np.ones((2, 3), np.float32)
    bound = xb.bind(c, w=weights)
    assert str(bound.program_shape) == (
        "(state: (f32[2,3], f32[2,3]), x: f32[2,3]{0,1}, rest: f32[3]) -> " + shape
    )
    assert bound.aliases == (((0,), 0, (0,)), ((1,), 1, ()))
    assert bound.donors == ((2, ()),)
    assert [p["mine.n"] for p in bound.annotations.parameters] == ["1", "2", "3", "4"]
    assert bound.annotations.result_shardings == c.annotations.result_shardings
    (constant,) = bound.find("constant")
    assert (constant.name, constant.sharding, constant.source) == ("w", w.sharding, w.source)
    assert bound.parameters[1].sharding == x.sharding
    assert bound.root.frontend_attributes == {"a": "b"}

    hoisted, arrays = xb.hoist_constants(bound, at_least=1)
    assert list(arrays) == ["w"]
    assert (hoisted.aliases, hoisted.donors) == (bound.aliases, bound.donors)
    assert hoisted.program_shape.result is c.program_shape.result
    assert [p.get("mine.n") for p in hoisted.annotations.parameters] == ["1", "2", "3", "4", None]
    assert hoisted.parameters[-1].sharding == w.sharding
    assert not xb.bind(hoisted, arrays).diff(bound, metadata=True)
    only_state = xb.bind(c, state=(weights, [[1.0] * 3] * 2))
    assert (only_state.aliases, only_state.donors) == ((((1,), 1, ()),), ((2, ()),))


def test_names_and_sizes_of_hoisted_constants() -> None:
    b = xb.XlaBuilder("names")
    x = b.parameter(graphs.SHAPE, "w")
    for number, name in enumerate(["w", "encoder/layer 1/w", "file", "2d", None]):
        constant = b.constant(MATRIX + number)
        constant.name = name
        x += constant
    x += b.constant(np.broadcast_to(np.int32(5), (2, 3)))  # 4 bytes
    x += b.constant(OTHER) + b.constant(OTHER.copy())
    hoisted, arrays = xb.hoist_constants(b.build(x), at_least=24)
    assert list(arrays) == ["w_1", "encoder.layer_1.w", "file_1", "_2d", "constant", "constant_1"]
    assert len(hoisted.find("constant")) == 1


def test_functions_with_derivatives_keep_theirs() -> None:
    @xb.computation(graphs.SHAPE)
    def doubled(x: xb.XlaOp) -> xb.XlaOp:
        return xb.convert(x * x.builder.constant(MATRIX), xb.f32)

    function = xb.computation(xb.f32[2], xb.f32[2])(
        lambda x, w: x * w + x.builder.constant(np.array([1, 2], np.float32))
    )
    softened = xb.custom_gradient(function, lambda x, w, y, dy: (dy, dy))
    assert xb.hoist_constants(softened, at_least=1) == (softened, {})
    bound = xb.bind(softened, w=np.ones(2, np.float32))
    assert bound.root.called_computations == (softened,)

    b = xb.XlaBuilder("caller")
    c = b.build(xb.call(softened, b.parameter(xb.f32[2]), b.constant(np.ones(2, np.float32))))
    hoisted, arrays = xb.hoist_constants(c, at_least=1)
    assert len(arrays) == 1
    assert hoisted.root.called_computations == (softened,)


@xb.computation(graphs.SHAPE, "(f32[2], (bf16[2], s32[]))", "token[]", "f32[<=4]")
def model(x: xb.XlaOp, pair: xb.XlaOp, token: xb.XlaOp, some: xb.XlaOp) -> Any:
    return x, pair, some


def test_tuple_parameters() -> None:
    half = np.ones(2, ml_dtypes.bfloat16)
    bound = xb.bind(model, pair=[np.ones(2, np.float32), (half, 3)])
    assert str(bound.program_shape) == (
        "(x: s32[2,3], token: token[], some: f32[<=4]) -> "
        "(s32[2,3], (f32[2], (bf16[2], s32[])), f32[<=4])"
    )
    assert [op.shape for op in bound.find("constant")] == [xb.f32[2], xb.bf16[2], xb.s32[()]]


def test_paths_of_nested_arguments() -> None:
    b = xb.XlaBuilder("paths")
    names = ["params['w']", "params['layers'][0].b", "params['layers'][1].b"]
    ops = [b.parameter(xb.f32[()], name) for name in names]
    c = b.build(xb.tuple(ops))
    from collections import namedtuple

    layer = namedtuple("layer", "b")
    params = {"w": 1.0, "layers": [layer(2.0), layer(3.0)]}
    bound = xb.bind(c, params=params)
    assert [float(op.attributes["value"]) for op in bound.find("constant")] == [1.0, 2.0, 3.0]
    partly = xb.bind(c, {"params['layers']": params["layers"]})
    assert partly.program_shape.parameter_names == ("params['w']",)
    with pytest.raises(xb.OperandError, match=r"there is no parameter \"params\['layers'\]\[2\]\""):
        xb.bind(c, params={"layers": [layer(2.0), layer(3.0), 4.0]})


W = np.ones((2, 3), np.int64)
ERRORS: dict[str, tuple[Callable[[], object], str]] = {
    "name": (
        lambda: xb.bind(model, y=W),
        (
            r"bind: there is no parameter 'y' of 'model'\n"
            r"fix: use one of 'x', 'pair', 'token', 'some', or a number"
        ),
    ),
    "number": (lambda: xb.bind(model, {4: W}), "there is no parameter 4 of"),
    "element type": (
        lambda: xb.bind(model, x=W),
        (
            r"bind: parameter 0 \(x\) must be s32\[2,3\], got s64\[2,3\]\n"
            r"fix: convert it: array.astype\(numpy.int32\)"
        ),
    ),
    "sizes": (
        lambda: xb.bind(model, x=MATRIX.T),
        r"must be s32\[2,3\], got s32\[3,2\]\nfix: transpose it: array.transpose\(\(1, 0\)\)",
    ),
    "bytes of an .npz file": (
        lambda: xb.bind(model, pair=(np.ones(2, np.float32), (np.ones(2, "V2"), 1))),
        (
            r"parameter 1 \(pair\)\[1\]\[0\] must be bf16\[2\], got an array \|V2\[2\]\n"
            r"fix: read its bytes as the parameter's type: array.view\(ml_dtypes.bfloat16\)"
        ),
    ),
    "nesting": (
        lambda: xb.bind(model, pair=(MATRIX, MATRIX)),
        (
            r"parameter 1 \(pair\)\[1\] must be a tuple \(bf16\[2\], s32\[\]\), got s32\[2,3\]\n"
            r"fix: pass a tuple or list of length 2"
        ),
    ),
    "not an array": (lambda: xb.bind(model, x=None), r"must be s32\[2,3\], got None"),
    "token": (lambda: xb.bind(model, token=None), r"parameter 2 \(token\) is a token"),
    "bounded": (
        lambda: xb.bind(model, some=np.ones(3, np.float32)),
        r"parameter 3 \(some\) must have static sizes to be a constant, got f32\[<=4\]\nfix: ",
    ),
    "twice": (
        lambda: xb.bind(model, {0: MATRIX}, x=MATRIX),
        r"parameter 0 \(x\) must have one value, got two",
    ),
    "mapping": (
        lambda: xb.bind(model, [MATRIX]),  # type: ignore[arg-type]  # the mistake
        r"arrays must be a mapping of names or numbers to arrays, got \[",
    ),
    "computation": (
        lambda: xb.bind(nested),  # type: ignore[arg-type]  # the mistake
        "bind: expected an XlaComputation",
    ),
    "bytes": (
        lambda: xb.hoist_constants(model, at_least=-1),
        "hoist_constants: at_least must be a number of bytes, 0 or more, got -1",
    ),
}


@each_row("case", ERRORS)
def test_errors(case: str) -> None:
    call, message = ERRORS[case]
    with pytest.raises(xb.XlaError, match=message):
        call()
