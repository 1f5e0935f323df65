"""Bounded and unbounded sizes in StableHLO: supported operations, and refused ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jaxlib.mlir import ir
from tables import each_row

import builder as xb
import lowering
from builder.schema import SCHEMAS
from builder.types.shape import leaves
from lowering import LoweringError
from lowering.mlir.types import shape_of_type

BOUNDED = xb.f32[xb.bounded(5), 3]
UNBOUNDED = xb.parse_shape("f32[?,3]")
SCALAR = xb.f32[()]


def build(function: Callable[..., Any], *shapes: Any) -> xb.XlaComputation:
    b = xb.XlaBuilder("sizes")
    return b.build(function(*(b.parameter(s) for s in shapes)))


def doubled_thrice(x: xb.XlaOp) -> xb.XlaOp:
    start = [x.builder.constant(0, xb.s32), x]
    return xb.while_(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] + s[1]), start)


# An op on a dynamic x, further parameters, and its shape for x f32[<=5,3]; also for x f32[?,3]
# where inference supports it.
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str, str | None]] = {
    "add": (lambda x: x + x, (), "f32[<=5,3]", "f32[?,3]"),
    "add_fixed": (lambda x, y: x + y, (xb.f32[5, 3],), "f32[<=5,3]", "f32[5,3]"),
    "number": (lambda x: x * 2.0, (), "f32[<=5,3]", "f32[?,3]"),
    "scalar": (lambda x, y: x * y, (SCALAR,), "f32[<=5,3]", "f32[?,3]"),
    "compare": (lambda x: x > x, (), "pred[<=5,3]", "pred[?,3]"),
    "select": (lambda x: xb.select(x > x, x, x), (), "f32[<=5,3]", "f32[?,3]"),
    "clamp": (lambda x, y: xb.clamp(y, x, y), (SCALAR,), "f32[<=5,3]", "f32[?,3]"),
    "broadcast": (lambda x: xb.broadcast(x, [2]), (), "f32[2,<=5,3]", None),
    "in_dim": (
        lambda x, y: xb.add(x, y, broadcast_dimensions=[1]),
        (xb.f32[3],),
        "f32[<=5,3]",
        "f32[?,3]",
    ),
    "reduce_it": (lambda x: xb.reduce(x, 0.0, xb.add, [0]), (), "f32[3]", "f32[3]"),
    "reduce": (lambda x: xb.reduce(x, 0.0, xb.add, [1]), (), "f32[<=5]", "f32[?]"),
    "reshape": (lambda x: xb.reshape(x, [15]), (), "f32[<=15]", "f32[15]"),
    "transpose": (lambda x: xb.transpose(x, [1, 0]), (), "f32[3,<=5]", "f32[3,?]"),
    "rev": (lambda x: xb.rev(x, [0]), (), "f32[<=5,3]", "f32[?,3]"),
    "slice": (lambda x: xb.slice(x, [0, 0], [5, 2], [1, 1]), (), "f32[<=5,2]", "f32[5,2]"),
    "slice_it": (lambda x: xb.slice(x, [0, 0], [2, 2], [1, 1]), (), "f32[<=2,2]", "f32[2,2]"),
    "concatenate_it": (lambda x: xb.concatenate([x, x], 0), (), "f32[<=10,3]", "f32[?,3]"),
    "concatenate": (lambda x: xb.concatenate([x, x], 1), (), "f32[<=5,6]", "f32[?,6]"),
    "pad_it": (lambda x: xb.pad_in_dim(x, 0.0, 0, 1, 1), (), "f32[<=7,3]", "f32[?,3]"),
    "pad": (lambda x: xb.pad_in_dim(x, 0.0, 1, 1, 1), (), "f32[<=5,5]", "f32[?,5]"),
    "dot": (lambda x, y: xb.dot(x, y), (xb.f32[3, 4],), "f32[<=5,4]", "f32[?,4]"),
    "map": (lambda x: xb.map([x], xb.neg, [0, 1]), (), "f32[<=5,3]", "f32[?,3]"),
    "while": (doubled_thrice, (), "(s32[], f32[<=5,3])", "(s32[], f32[?,3])"),
    "conditional": (
        lambda x, p: xb.conditional(p, x, lambda v: v + v, x, xb.neg),
        (xb.pred[()],),
        "f32[<=5,3]",
        "f32[?,3]",
    ),
    "call": (lambda x: xb.call(lambda v: v + v, x), (), "f32[<=5,3]", "f32[?,3]"),
    "tuple": (lambda x: xb.tuple(x, x), (), "(f32[<=5,3], f32[<=5,3])", "(f32[?,3], f32[?,3])"),
}


@each_row("dynamic", [BOUNDED, UNBOUNDED])
@each_row("name", CASES)
def test_dynamic_sizes_lower(name: str, dynamic: Any) -> None:
    function, others, bounded, unbounded = CASES[name]
    expected = bounded if dynamic is BOUNDED else unbounded
    if expected is None:
        with pytest.raises(xb.ShapeInferenceError, match="bounded"):
            build(function, dynamic, *others)
        return
    computation = build(function, dynamic, *others)
    shape = computation.program_shape
    assert shape.result is xb.parse_shape(expected)
    module = lowering.lower(computation)
    module.verify()
    main = next(
        op
        for op in module.module.body.operations
        if ir.StringAttr(op.attributes["sym_name"]).value == "main"
    )
    # MLIR has verified that the function's type is that of the returned values.
    kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    assert [shape_of_type(t) for t in kind.results] == list(leaves(shape.result))
    assert [shape_of_type(t) for t in kind.inputs] == list(shape.parameters)
    assert lowering.load_bytes(module.bytecode).program_shape == shape


FIXED = xb.f32[5]
SOME = xb.f32[xb.bounded(5)]


def on(parameter: Any, function: Callable[[xb.XlaOp], Any]) -> xb.XlaComputation:
    b = xb.XlaBuilder("inner")
    return b.build(function(b.parameter(parameter)))


def mixed_conditional(p: xb.XlaOp, x: xb.XlaOp, y: xb.XlaOp) -> xb.XlaOp:
    return xb.conditional(p, x, lambda v: v, y, lambda v: v)


@each_row(
    "opcode, function, shapes, message",
    [
        (
            "call",
            lambda x: xb.call(on(FIXED, xb.neg), x),
            (SOME,),
            "call: operand 0 must be f32[5] for 'inner', got f32[<=5]",
        ),
        (
            "call",
            lambda x: xb.call(on(SOME, xb.neg), x),
            (FIXED,),
            "call: operand 0 must be f32[<=5] for 'inner', got f32[5]",
        ),
        (
            "while",
            lambda x: xb.while_(
                on(FIXED, lambda v: xb.reduce(v, 0.0, xb.add, [0]) > 0.0), on(SOME, xb.neg), x
            ),
            (SOME,),
            "while: the state must be f32[5] for 'inner', got f32[<=5]",
        ),
        (
            "while",
            lambda x: xb.while_(
                on(FIXED, lambda v: xb.reduce(v, 0.0, xb.add, [0]) > 0.0), on(SOME, xb.neg), x
            ),
            (FIXED,),
            "while: the state must be f32[<=5] for 'inner', got f32[5]",
        ),
        (
            "while",
            lambda x, y: xb.while_(
                lambda s: xb.reduce(s[0], 0.0, xb.add, [0]) > 0.0,
                lambda s: (s[0] + s[1], s[1]),
                [x, y],
            ),
            (FIXED, SOME),
            "while: the result of the body must be (f32[5], f32[<=5])",
        ),
        (
            "conditional",
            lambda p, x: xb.conditional(p, x, on(FIXED, xb.neg), x, on(SOME, xb.neg)),
            (xb.pred[()], SOME),
            "conditional: a branch's operand must be f32[5] for 'inner', got f32[<=5]",
        ),
        (
            "conditional",
            mixed_conditional,
            (xb.pred[()], SOME, FIXED),
            "conditional: a branch's result must be f32[<=5]",
        ),
    ],
)
def test_where_a_bound_meets_a_fixed_size(
    opcode: str, function: Callable[..., Any], shapes: tuple[Any, ...], message: str
) -> None:
    """Inference accepts them, as XLA does."""
    computation = build(function, *shapes)
    with pytest.raises(LoweringError) as caught:
        lowering.lower(computation)
    error = caught.value
    text = str(error)
    assert text.startswith(message)
    assert text.endswith(f"\nfix: use values of shape {error.shapes['expected']}")
    assert "bug in xlabuilder" not in text
    assert error.op == opcode
    assert error.shapes["got"] is not error.shapes["expected"]
    assert not all(shape.is_static for shape in error.shapes.values())


def test_dynamic_sizes_that_the_verifier_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SCHEMAS["add"], "stablehlo", "stablehlo.and")
    with pytest.raises(LoweringError) as caught:
        lowering.lower(build(lambda x: xb.reduce(x + x, 0.0, xb.max, [0, 1]), BOUNDED))
    text = str(caught.value)
    assert text.startswith(
        "lower: 'sizes' has dynamic sizes, such as f32[<=5,3], where StableHLO can't express "
        f"them: in and, recorded at {__file__}:"
    )
    assert "bug in xlabuilder" not in text
    assert "\nfix: " in text
    assert caught.value.op == "lower"
    assert "stablehlo.and" in caught.value.detail
    with pytest.raises(LoweringError, match="bug in xlabuilder"):
        lowering.lower(build(lambda x: x + x, xb.f32[2]))


@pytest.mark.parametrize("element_type", [xb.s32, xb.s64])
def test_sizes_of_a_broadcast_beyond_the_bound(element_type: xb.PrimitiveType) -> None:
    """A size of dynamic_broadcast_in_dim is clamped to the bound, as that of set_dimension_size."""
    b = xb.XlaBuilder()
    x, sizes = b.parameter(xb.f32[1, 2]), b.parameter(xb.array_shape(element_type, [2]))
    wide = xb.dynamic_broadcast_in_dim(x, sizes, [0, 1], "f32[<=4,2]")
    count = xb.get_dimension_size(wide, 0)
    run = lowering.compile(b.build(xb.tuple(wide, count)))
    row = np.array([[1, 2]], np.float32)
    for size in (-1, 0, 3, 4, 9, min(2**31 + 3, int(element_type.max))):
        result, number = run(row, np.array([size, 2], element_type.dtype))
        expected = np.broadcast_to(row, (min(max(size, 0), 4), 2))
        np.testing.assert_array_equal(result, expected)
        assert number == len(expected)


FULL = np.arange(8, dtype=np.float32).reshape(4, 2)


def full(x: xb.XlaOp) -> xb.XlaOp:
    """Return the constant FULL, as an array of bounded size whose size is the bound."""
    return xb.set_dimension_size(x.builder.constant(FULL), x.builder.constant(4, xb.s32), 0)


def twice(body: Callable[[xb.XlaOp], xb.XlaOp], init: xb.XlaOp) -> xb.XlaOp:
    """Apply `body` twice, in a loop."""
    state = (init.builder.constant(0, xb.s32), init)
    return xb.while_(lambda s: s[0] < 2, lambda s: (s[0] + 1, body(s[1])), state)[1]


AT_THE_BOUND: dict[str, tuple[Callable[[xb.XlaOp, xb.XlaOp], xb.XlaOp], Any]] = {
    "loop": (lambda x, p: twice(lambda v: v * 2, full(x)), FULL * 4),
    "captured by a loop": (
        lambda x, p: (lambda d: twice(lambda v: v + d, full(x)))(full(x)),
        FULL * 3,
    ),
    "result of a body": (lambda x, p: twice(lambda v: full(v), full(x)), FULL),
    "inner loop": (lambda x, p: twice(lambda v: twice(xb.neg, v) + v, full(x)), FULL * 4),
    "branch": (
        lambda x, p: xb.conditional(p, full(x), lambda v: v * 2, full(x), lambda v: v * 3),
        FULL * 2,
    ),
    "captured by a branch": (
        lambda x, p: (lambda d: xb.conditional(p, d, lambda v: v + d, d, xb.neg))(full(x)),
        FULL * 2,
    ),
    "call": (lambda x, p: xb.call(lambda v: v * 2, full(x)), FULL * 2),
    "broadcast": (
        lambda x, p: twice(
            lambda v: v + v,
            xb.dynamic_broadcast_in_dim(
                x.builder.constant(np.ones((1, 2), np.float32)),
                x.builder.constant(np.array([4, 2], np.int32)),
                [0, 1],
                "f32[<=4,2]",
            ),
        ),
        np.full((4, 2), 4, np.float32),
    ),
}


@each_row("case", AT_THE_BOUND)
def test_a_constant_size_equal_to_the_bound(case: str) -> None:
    """XLA removes such sizes; loops, branches and calls that take the arrays must still compile."""
    apply, expected = AT_THE_BOUND[case]
    b = xb.XlaBuilder()
    x, p = b.parameter(xb.f32[4, 2]), b.parameter(xb.pred[()])
    run = lowering.compile(b.build(apply(x, p)))
    np.testing.assert_array_equal(run(FULL, np.True_), expected)
