"""An op that fails leaves nothing behind: no helper op, no capture, no parameter."""

from __future__ import annotations

import inspect
import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tables import each_row

import builder as xb


def check_consistent(computation: xb.XlaComputation) -> None:
    """Check that every operand is an earlier op of the same computation."""
    for each in (computation, *computation.called_computations()):
        for index, op in enumerate(each.ops):
            assert op.id == index
            for operand in op.operands:
                assert each.ops[operand.id] is operand
                assert operand.id < index
        numbers = [parameter.attributes["number"] for parameter in each.parameters]
        assert numbers == list(range(len(numbers)))
        for parameter in each.parameters:
            assert each.ops[parameter.id] is parameter


def other_op(shape: xb.Shape) -> xb.XlaOp:
    return xb.XlaBuilder("other").parameter(shape)


FAILURES: dict[str, Callable[[xb.XlaOp], object]] = {
    "number that does not fit": lambda x: x + 1e60,
    "number, then a bad shape": lambda x: xb.add(x, 1.0, broadcast_dimensions=[5]),
    "foreign operand after a broadcast": lambda x: xb.add(x, other_op(xb.f32[2, 3]), [1]),
    "foreign operand before a broadcast": lambda x: xb.add(other_op(xb.f32[2, 3]), x, [1]),
    "foreign operand compared": lambda x: xb.lt(x, other_op(xb.f32[2, 3]), [1]),
    "clamp with a number and a bad bound": lambda x: xb.clamp(0.0, x, other_op(xb.s32[3])),
    "select with a number": lambda x: xb.select(x > 0.0, x, 1e60),
    "reduce, init value, bad dimension": lambda x: xb.reduce(x, 0.0, xb.add, [7]),
    "reduce, two init values": lambda x: xb.reduce(x, [0.0, 1.0], xb.add, [0]),
    "pad with a number": lambda x: xb.pad(x, 0.0, [(0, -9, 0)]),
    "map of foreign operands": lambda x: xb.map([x, other_op(xb.f32[()])], lambda a, b: a + b),
    "while with a bad condition": lambda x: xb.while_(lambda s: s, lambda s: s, (x, x)),
    "while whose body raises": lambda x: xb.while_(lambda s: s[0] < 0.0, lambda s: 1 / 0, (x, x)),
    "branches that differ": lambda x: xb.conditional(
        x.builder.constant(True), None, lambda: x, None, lambda: xb.tuple(x, x)
    ),
    "call of a function with two parameters": lambda x: xb.call(lambda a, b: a, x),
    "parameter inside a body that fails": lambda x: xb.while_(
        lambda s: x.builder.parameter(xb.f32[()], "late") < 0.0, lambda s: "nothing", x
    ),
}


@each_row("name", FAILURES)
def test_outside_of_callables(name: str) -> None:
    b = xb.XlaBuilder()
    x = b.parameter(xb.f32[3], "x")
    ready = b.constant(True) if name == "branches that differ" else None
    recorded = len(b.ops)
    if ready is not None:
        b.ops.pop()  # the case records another constant
        recorded -= 1
    try:
        FAILURES[name](x)
    except (xb.XlaError, ZeroDivisionError):
        left = [op.opcode for op in b.ops[recorded:]]
    else:
        pytest.fail("it did not fail")
    # Ops that the user recorded before the failing op stay.
    expected = {"select with a number": ["constant", "broadcast_in_dim", "compare"]}
    assert left == expected.get(name, ["constant"] if name == "branches that differ" else [])
    assert list(b.parameters) == [0]
    b.parameter(xb.f32[()], "late")  # its name and number are available
    check_consistent(b.build(x + x))


@each_row("name", FAILURES)
def test_inside_a_loop_body_that_catches_the_error(name: str) -> None:
    """The body catches the error and then uses the same enclosing value."""
    b = xb.XlaBuilder()
    x, y, n = (b.parameter(xb.f32[3], name) for name in ("x", "y", "n"))

    def body(state: xb.XlaOp) -> tuple[xb.XlaOp, xb.XlaOp]:
        i, total = state
        with pytest.raises((xb.XlaError, ZeroDivisionError)):
            FAILURES[name](x)
        return i + 1, total * y + x

    loop = xb.while_(lambda s: s[0] < 3, body, (b.constant(0, xb.s32), n))
    check_consistent(b.build(loop))


HUGE = 10**5000

ODD_ARGUMENTS: dict[str, Callable[[xb.XlaOp], object]] = {
    "a huge size": lambda x: xb.reshape(x, [HUGE]),
    "a huge shape": lambda x: xb.f32[HUGE],
    "a huge bound": lambda x: xb.bounded(HUGE) and xb.f32[xb.bounded(HUGE)],
    "a huge padding": lambda x: xb.pad(x, 0.0, [(10**30, -(10**30), 0)]),
    "a huge stride": lambda x: xb.slice(x, [0], [1], [10**30]),
    "a huge width": lambda x: xb.reduce_precision(x, 10**30, 1),
    "a huge parameter number": lambda x: x.builder.parameter(xb.f32[2], number=HUGE),
    "a huge operand": lambda x: xb.dot(x, HUGE),
    "a huge number": lambda x: x + HUGE,
    "two numbers": lambda x: xb.add(HUGE, HUGE),
    "an endless range": lambda x: xb.transpose(x, range(10**18)),
    "a range beyond any length": lambda x: xb.transpose(x, range(10**30)),
    "an op for sizes": lambda x: xb.reshape(x, x),
    "an array of rank 0 for sizes": lambda x: xb.reshape(x, np.array(3)),
    "an array of rank 0 for operands": lambda x: xb.concatenate(np.array(3), 0),
    "a method that takes anything": lambda x: xb.reduce(x, 0.0, [].append, [0]),
    "an invalid dtype": lambda x: xb.convert(x, [("a", "f4"), ("a", "f4")]),
    "a dtype of negative size": lambda x: xb.convert(x, (np.float32, -1)),
    "an algorithm that is an array": lambda x: xb.dot_general(
        x, x, (([0], [0]), ([], [])), algorithm=np.array([1, 2])
    ),
    "frontend attributes of text": lambda x: x.builder.frontend_attributes("x").__enter__(),
    "a recursive shape": lambda x: x.builder.parameter(endless()),
    "a recursive result": lambda x: xb.call(lambda v: endless(), x),
    "a shift by a float": lambda x: xb.convert(x, xb.s32) >> 1.5,
    "endless dimensions": lambda x: xb.transpose(x, itertools.count()),
    "endless triples": lambda x: xb.pad(x, 0.0, itertools.repeat((0, 0, 0))),
    "a long text of triples": lambda x: xb.pad(x, 0.0, "x" * 100_000),
    "an object without repr": lambda x: x.builder.constant(WithoutRepr()),
    "a list of an object without repr": lambda x: x.builder.constant([WithoutRepr()], xb.f32),
    "a result without repr": lambda x: xb.map([x], lambda v: WithoutRepr(), [0]),
    "an index without repr": lambda x: x[WithoutRepr()],
    "a name without repr": lambda x: x.builder.parameter("f32[]", WithoutRepr()),
    "a sharding without repr": lambda x: x.builder.sharding(WithoutRepr()).__enter__(),
    "a root without repr": lambda x: x.builder.build(WithoutRepr()),
    "a long type": lambda x: xb.convert(x, "x" * 100_000),
    "a total order that is an op": lambda x: xb.compare(x, x, "LT", total_order=x),
    "more spatial dimensions than fit in memory": lambda x: xb.ConvolutionDimensionNumbers.default(
        10**12
    ),
}


class WithoutRepr:
    """An object whose repr raises."""

    def __repr__(self) -> str:
        raise ZeroDivisionError


def endless() -> list[object]:
    inside: list[object] = []
    inside.append(inside)
    return inside


@each_row("name", ODD_ARGUMENTS)
def test_odd_arguments_are_refused(name: str) -> None:
    b = xb.XlaBuilder()
    x = b.parameter(xb.f32[3], "x")
    conversions = 1 if name == "a shift by a float" else 0  # the convert
    with pytest.raises(xb.XlaError) as caught:
        ODD_ARGUMENTS[name](x)
    assert len(str(caught.value)) < 2000
    assert len(b.ops) == 1 + conversions
    assert list(b.parameters) == [0]


def convolution(x: xb.XlaOp, **more: Any) -> xb.XlaOp:
    lhs, rhs = x.builder.parameter(xb.f32[1, 2, 5]), x.builder.parameter(xb.f32[3, 2, 2])
    return xb.conv_general(lhs, rhs, [1], [(0, 0)], **more)


# Arguments that many ops convert with one function: the error names the op that was called.
BEGINNINGS: dict[str, Callable[[xb.XlaOp], object]] = {
    "parameter: shape: shape text: expected": lambda x: x.builder.parameter("f32[2"),
    "iota: shape: expected a shape": lambda x: x.builder.iota(3, 0),
    "constant: element_type: expected a primitive type": lambda x: x.builder.constant(1, 256),
    "computation: shape 1: expected a shape, got the element type f32": lambda x: xb.computation(
        "f32[]", xb.f32
    ),
    "rng_normal: shape: expected": lambda x: xb.rng_normal(x, x, x),
    "rng_uniform: shape: shape text": lambda x: xb.rng_uniform(x, x, "f32"),
    "rng_bit_generator: shape: expected": lambda x: xb.rng_bit_generator("RNG_DEFAULT", x, None),
    "convert_element_type: new_element_type: expected": lambda x: xb.convert_element_type(x, None),
    "bitcast_convert_type: new_element_type: unknown": lambda x: xb.bitcast_convert_type(x, "f33"),
    "stochastic_convert_type: new_element_type: ": lambda x: xb.stochastic_convert_type(x, x, 3),
    "dot: preferred_element_type: unknown": lambda x: xb.dot(x, x, preferred_element_type="f3"),
    "dot_general: preferred_element_type: unknown": lambda x: xb.dot_general(
        x, x, (([0], [0]), ([], [])), preferred_element_type="f3"
    ),
    "ragged_dot: preferred_element_type: unknown": lambda x: xb.ragged_dot(
        x, x, x, ((([0], [0]), ([], [])), [0], []), preferred_element_type="f3"
    ),
    "conv_general: preferred_element_type: unknown": lambda x: convolution(
        x, dimension_numbers="bf0_oi0->bf0", preferred_element_type="f3"
    ),
    "conv_general: dimension_numbers must be": lambda x: convolution(x, dimension_numbers="bf0"),
    "ragged_dot: dimension_numbers must be": lambda x: xb.ragged_dot(x, x, x, ("", [0], [])),
    "all_reduce: shape_with_layout: ": lambda x: xb.all_reduce(x, xb.add, shape_with_layout=3),
    "compare: total_order must be": lambda x: xb.compare(x, x, "LT", total_order=1),
    "reduce_all: f32 can't represent": lambda x: xb.reduce_all(x, 1e60, xb.add),
    "reduce_all: computation must be": lambda x: xb.reduce_all(x, 0.0, 3),
    "pad_in_dim: f32 can't represent": lambda x: xb.pad_in_dim(x, 1e60, 0, 1, 1),
    "pad_in_dim: padding_value must be a scalar": lambda x: xb.pad_in_dim(x, x, 0, 1, 1),
    "concatenate: operand must be a sequence": lambda x: xb.concatenate(xb.f32, 0),
    # Ops that share an opcode:
    "square: operand 0 belongs to builder 'other'": lambda x: xb.square(built_op()),
    "conj: operand 0 belongs to builder 'other'": lambda x: xb.conj(built_op()),
    "collapse: operand 0 belongs to": lambda x: xb.collapse(built_op(), [0, 1]),
    "rng_uniform: operand 0 belongs": lambda x: xb.rng_uniform(0.0, built_op(xb.f32[()]), "f32[]"),
    "mul: operand 0 belongs to builder 'other'": lambda x: built_op() * x,
    # Fields of attribute bundles, in a bundle and in the short form that an op accepts:
    "DotDimensionNumbers: lhs_contracting_dimensions": lambda x: xb.DotDimensionNumbers("a", [0]),
    "dot_general: lhs_contracting_dimensions must": lambda x: xb.dot_general(
        x, x, (("a", [0]), ([], []))
    ),
    "ragged_dot: lhs_contracting_dimensions must": lambda x: xb.ragged_dot(
        x, x, x, ((("a", [0]), ([], [])), [0], [])
    ),
    "ragged_dot: lhs_ragged_dimensions must": lambda x: xb.ragged_dot(
        x, x, x, ((([0], [0]), ([], [])), 0, [])
    ),
    "PaddingConfig: edge_padding_high must be": lambda x: xb.PaddingConfig([(1, 1.5, 0)]),
    "PaddingConfigDimension: edge_padding_low must be": lambda x: xb.PaddingConfigDimension(0.5),
    "pad: edge_padding_high must be an integer": lambda x: xb.pad(x, 0.0, [(1, 1.5, 0)]),
    "pad: edge_padding_low must fit 64 bits": lambda x: xb.pad(x, 0.0, [(HUGE, 1, 0)]),
    "ReplicaGroups: each entry of a group must be": lambda x: xb.ReplicaGroups([["a"]]),
    "custom_call: output_index must be": lambda x: xb.custom_call(
        "f", [x], "f32[3]", output_operand_aliasing=[(0, (0, ()))]
    ),
    # Values and functions of the library that an op converts or records:
    "add: NumPy dtype datetime64[Y] has no": lambda x: xb.add(x, np.datetime64("2026")),
    "constant: nested lists must contain numbers": lambda x: x.builder.constant([1.0, x], xb.f32),
    "reduce: computation: max: operands must be": lambda x: xb.reduce(
        xb.complex(x, x), 0j, xb.max, [0]
    ),
    "while_: condition: neg: operand must be": lambda x: xb.while_(
        xb.neg, lambda i: i, x.builder.constant(True)
    ),
}


def built_op(shape: xb.Shape = xb.f32[2, 3]) -> xb.XlaOp:
    b = xb.XlaBuilder("other")
    return b.build(b.parameter(shape)).ops[0]


@each_row("beginning", BEGINNINGS)
def test_the_error_names_the_op_that_was_called(beginning: str) -> None:
    x = xb.XlaBuilder().parameter(xb.f32[3], "x")
    with pytest.raises(xb.XlaError) as caught:
        BEGINNINGS[beginning](x)
    assert str(caught.value).startswith(beginning)
    assert caught.value.op == beginning.partition(":")[0]


FUNCTIONS = {name: info for info in xb.OPERATIONS.values() for name in (info.name, *info.aliases)}


def wrong_argument(draw: random.Random, parameter: inspect.Parameter, x: xb.XlaOp) -> Any:
    """Return a value for a parameter, mostly a wrong one."""
    b = x.builder
    ops = [x, xb.lt(x, x), xb.complex(x, x), xb.tuple(x, x), b.create_token(), b.constant(1, xb.s8)]
    if "XlaOp" in str(parameter.annotation) and draw.random() < 0.8:
        return draw.choice([*ops, ops[:1], ops[:2], ops[3:5]])
    others = [None, "x", 3, -1, 1.5, True, [], [0], [1, 0], [0, 0], [(0, 1)], object(), 2**70]
    return draw.choice(
        [*others, *ops[:1], xb.f32, xb.f32[2], xb.TOKEN_SHAPE, np.datetime64("2026")]
    )


@each_row("name", FUNCTIONS)
def test_every_error_names_the_function_that_was_called(name: str) -> None:
    draw = random.Random(name)
    errors: list[xb.XlaError] = []
    for _ in range(40):
        b = xb.XlaBuilder()
        x = b.parameter(xb.f32[4, 3])
        function = getattr(b if FUNCTIONS[name].is_method else xb, name)
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for parameter in inspect.signature(function).parameters.values():
            value = wrong_argument(draw, parameter, x)
            if parameter.kind is parameter.KEYWORD_ONLY:
                named[parameter.name] = value
            elif parameter.kind is not parameter.VAR_KEYWORD:
                positional.append(value)
        try:
            function(*positional, **named)
        except xb.XlaError as error:
            errors.append(error)
    assert [error for error in errors if not str(error).startswith(f"{name}: ")] == []
    assert {error.op for error in errors} <= {name}
    assert errors or not inspect.signature(function).parameters


@each_row("name", ["choice", "pred", "bound", "init value"])
def test_a_foreign_operand_and_a_number(name: str) -> None:
    b = xb.XlaBuilder()
    x = b.parameter(xb.f32[3])
    pred = xb.XlaBuilder("other").parameter(xb.pred[()])
    number = xb.XlaBuilder("other").parameter(xb.f32[()])
    calls = {
        "choice": lambda: xb.conditional(pred, x, xb.neg, (x, x), xb.neg),
        "pred": lambda: xb.select(pred, x, 1.0),
        "bound": lambda: xb.clamp(0.0, x, number),
        "init value": lambda: xb.reduce([x, x], [0.0, number], lambda a, b, c, d: (a, b), [0]),
    }
    with pytest.raises(xb.BuilderError, match="operands belong to different builders"):
        calls[name]()
    assert b.ops == [x]
    assert len(pred.builder.ops) == len(number.builder.ops) == 1


def test_deep_layouts() -> None:
    shape: xb.Shape = xb.array_shape(xb.f32, [2, 3], layout=[0, 1])
    for _ in range(5000):
        shape = xb.tuple_shape([shape])
    x = xb.XlaBuilder().parameter(shape)
    assert str(x.shape).count("(") == 5000
    assert "{" not in str(x.shape)


@each_row(
    "name", ["parameter", "iota", "infeed", "recv", "replica_id", "partition_id", "create_token"]
)
def test_methods_of_the_builder_used_as_functions(name: str) -> None:
    with pytest.raises(xb.UnknownNameError) as caught:
        getattr(xb, name)
    assert str(caught.value) == (
        f"xb.{name}: is a method of XlaBuilder, since it has no operands\n"
        f"fix: b.{name}(...), where b is an XlaBuilder, or x.builder.{name}(...), where x is an "
        f"XlaOp"
    )
    assert caught.value.op == name


@each_row(
    "name, meant",
    [
        ("multiply", "xb.mul(lhs, rhs)"),
        ("subtract", "xb.sub(lhs, rhs)"),
        ("Add", "xb.add(lhs, rhs)"),
        ("ConvertElementType", "xb.convert_element_type(operand, new_element_type)"),
        ("Iota", "b.iota(shape)"),
        ("transposed", "xb.transpose"),
        ("draw", "xb.layout.draw"),
        ("pack", "xb.layout.pack"),
        ("linear_index", "xb.layout.linear_index"),
        ("MultiIndex", "xb.layout.multi_index"),
        ("COMBINE", "xb.layout.COMBINE"),
        ("TILING", "xb.Tiling"),
        ("float32", "xb.f32"),
        ("conditionals", "xb.conditional"),
        ("While", "xb.while_(condition, body, init)"),
        ("sort_p", "xb.sort(operands)"),
        ("ui16", "xb.u16"),
        ("ConstantR2FromArray2D", None),
        ("qwertz", None),
        ("_add", "xb.add(lhs, rhs)"),
        ("jit", "lowering.jit"),
    ],
)
def test_unknown_names(name: str, meant: str | None) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(xb, name)
    assert isinstance(caught.value, xb.UnknownNameError)
    rule, _, fix = str(caught.value).partition("\nfix: ")
    assert rule == f"xb.{name}: there is no such name in builder"
    assert fix.startswith("" if meant is None else (f"use {meant}", f"did you mean {meant}"))
    assert bool(fix) == (meant is not None)


def test_missing_attributes() -> None:
    assert not hasattr(xb, "iota")
    assert getattr(xb, "qwertz", 3) == 3
    with pytest.raises(AttributeError, match="no attribute '__wrapped__'"):
        getattr(xb, "__wrapped__")  # noqa: B009 - what the interpreter does
    with pytest.raises(ImportError):
        exec("from builder import iota")


def test_rule_and_fix_are_attributes() -> None:
    x = xb.XlaBuilder().parameter(xb.f32[4, 8])
    with pytest.raises(xb.ShapeInferenceError) as caught:
        xb.reshape(x, [4, 4])
    error = caught.value
    assert error.op == "reshape"
    assert str(error).startswith(f"reshape: {error.rule}, got {error.got}\n  operand")
    assert str(error).endswith(f"\nfix: {error.fix}")
    assert error.fix == "write sizes whose product is 32, for instance [4, 8]"
    with pytest.raises(xb.UnknownNameError) as unknown:
        getattr(xb, "zzzzzz")  # noqa: B009 - what the interpreter does
    assert str(unknown.value).startswith(unknown.value.rule)
    assert unknown.value.fix == ""
