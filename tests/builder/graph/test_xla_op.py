"""Uses of ops, shapes and element types as if they were arrays, sequences or functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tables import each_row

import builder as xb


@pytest.fixture
def x() -> xb.XlaOp:
    return xb.XlaBuilder().parameter(xb.f32[2, 3], "x")


USES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "format": (lambda x: f"{x:.2f}", "without a format specification"),
    "percent": (lambda x: "%f" % x, "xb.sqrt(op) instead of math.sqrt(op)"),  # noqa: UP031
    "float": (float, "build, compile and run the computation, and convert its result"),
    "int": (int, "build, compile and run the computation, and convert its result"),
    "round": (round, "xb.round_nearest_even(op)"),
    "floor": (math.floor, "xb.floor(op)"),
    "ceil": (math.ceil, "xb.ceil(op)"),
    "trunc": (math.trunc, "xb.convert_element_type(op, xb.s32)"),
    "math": (math.sqrt, "xb.sqrt(op)"),
    "ufunc": (np.sqrt, "xb.sqrt(operand)"),
    "reduction": (np.sum, "lib.sum(x, axis)"),
    "function": (lambda x: np.concatenate([x, x]), "xb.concatenate(operands, dimension)"),
    "none": (lambda x: x == None, "`op is None`"),  # noqa: E711
    "not none": (lambda x: x != None, "`op is not None`"),  # noqa: E711
    "in": (lambda x: 1 in x, "xb.reduce_all(xb.eq(x, value), False, xb.or_)"),
    "assignment": (lambda x: x.__setitem__((0, 0), 1), "x = x.at[0, 0].set(value)"),
    "slice": (lambda x: x.__setitem__(slice(1), 1), "x = x.at[index].set(value)"),
    "deletion": (lambda x: x.__delitem__(0), "xb.dynamic_update_slice("),
    "divmod": (lambda x: divmod(x, 2), "xb.floor(lhs / rhs)"),
    "array": (lambda x: x + np.ones((2, 3)), "builder.constant(value.astype(numpy.float32))"),
    "list": (lambda x: x * [1, 2], "builder.constant(value, xb.f32)"),
    "index of shape": (lambda x: x.shape[0], "shape.dimensions"),
    "length of shape": (lambda x: len(x.shape), "shape.rank"),
    "unpacked shape": (lambda x: tuple(x.shape), "shape.dimensions"),
    "sizes": (lambda x: xb.reshape(x, x.shape), "write new_sizes=shape.dimensions"),
    "text": (lambda x: xb.transpose(x, "1, 0"), "write permutation=[1, 0]"),
    "tuple": (lambda x: xb.tuple(x, x).shape[0], "shape.elements"),
    "number": (lambda x: xb.f32(3), "b.constant(3, xb.f32)"),  # type: ignore[operator]
    "numbers": (lambda x: xb.f32([1, 2]), "b.constant([1, 2], xb.f32)"),  # type: ignore[operator]
    "conversion": (lambda x: xb.s32(x), "xb.convert_element_type(x, xb.s32)"),  # type: ignore[operator]
}


@pytest.mark.parametrize("use", USES)
def test_the_fix_is_named(use: str, x: xb.XlaOp) -> None:
    function, fix = USES[use]
    with pytest.raises(xb.XlaError) as caught:
        function(x)
    assert isinstance(caught.value, (TypeError, ValueError))
    rule, _, fixes = str(caught.value).partition("\nfix: ")
    assert fix in fixes
    assert rule.partition(":")[0].removeprefix("numpy.") == caught.value.op
    assert caught.value.location is not None
    assert caught.value.location.startswith(__file__)
    assert x.builder.ops == [x] or use == "tuple"


def test_fixes_of_operands_can_be_followed(x: xb.XlaOp) -> None:
    value = np.ones((2, 3))
    assert (x + x.builder.constant(value.astype(np.float32))).shape is x.shape
    assert xb.reshape(x, x.shape.dimensions).shape is x.shape
    assert f"{x}" == str(x) == repr(x)


@each_row("name", ["shape", "ndim", "dtype", "size", "dims", "nbytes"])
def test_attributes_of_shapes(name: str) -> None:
    with pytest.raises(xb.UnknownNameError, match=f"has no attribute '{name}'\nfix: use shape"):
        getattr(xb.f32[2], name)
    assert name not in dir(xb.f32[2])
    assert not hasattr(xb.f32[2], name)


def test_ops_are_not_created_by_users() -> None:
    with pytest.raises(xb.OperandError, match="XlaOp: ops are recorded"):
        xb.XlaOp()


def test_shapes_are_true() -> None:
    assert xb.f32[2, 3]
    assert xb.f32[()]


def test_an_element_type_is_no_function_of_ops(x: xb.XlaOp) -> None:
    with pytest.raises(
        xb.OperandError, match="computation must be an XlaComputation or a callable"
    ):
        xb.map([x], xb.f32)
    with pytest.raises(xb.OperandError, match="expected a shape, got the element type f32"):
        xb.computation(xb.f32)


@each_row(
    "argument, fix",
    [
        (10, "write the element type, too, for instance xb.s32[10]"),
        (np.ones((2, 3)), "write its shape: xb.f64[2, 3]"),
        (np.float32, "write the sizes, too, for instance xb.f32[2, 3]"),
        (xb.f32, "write xb.f32[2, 3] with the sizes, or xb.f32[()] for a scalar"),
        ("f32(2,3)", "write 'f32[]' for a scalar, 'f32[2,3]' for an array"),
        ("f32", "write 'f32[]' for a scalar, 'f32[2,3]' for an array"),
        ("float32[2,3]", "write 'f32[2,3]'"),
        (
            {"w": xb.f32[2]},
            (
                "write a list of the shapes, or call the function through lowering.jit, which "
                "takes dicts"
            ),
        ),
    ],
)
def test_arguments_that_are_no_shapes(argument: Any, fix: str) -> None:
    b = xb.XlaBuilder()
    for function in (b.parameter, b.iota):
        with pytest.raises(xb.XlaError) as caught:
            function(argument)
        assert str(caught.value).endswith(f"\nfix: {fix}")


def test_the_name_before_the_shape() -> None:
    with pytest.raises(xb.OperandError, match=r'parameter\(xb.f32\[2\], "x"\)'):
        xb.XlaBuilder().parameter("x", xb.f32[2])  # type: ignore[arg-type]


def test_build_refuses_the_result_of_a_function_without_return(x: xb.XlaOp) -> None:
    with pytest.raises(xb.BuilderError) as caught:
        x.builder.build(None)  # type: ignore[arg-type]
    assert str(caught.value) == (
        "build: root must be an XlaOp, got None\n"
        "fix: return the op from the function that records it; build() takes the last op"
    )
    assert x.builder.build().root is x
