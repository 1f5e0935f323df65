"""Errors for calls with other arguments than an op's parameters."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from tables import each_row

import builder as xb
from builder import lib
from builder.graph import wrong_calls


@each_row(
    "call, parameter, fix",
    [
        (lambda x: xb.transpose(x, axes=[1, 0]), "axes", "write permutation= instead of axes="),
        (lambda x: xb.transpose(x, perm=[1, 0]), "perm", "write permutation= instead of perm="),
        (lambda x: xb.reshape(x, shape=[6]), "shape", "write new_sizes= instead of shape="),
        (
            lambda x: xb.reshape(x, newshape=[6]),
            "newshape",
            "write new_sizes= instead of newshape=",
        ),
        (lambda x: xb.broadcast(x, shape=[6]), "shape", "write broadcast_sizes= instead of shape="),
        (
            lambda x: xb.convert_element_type(x, dtype=xb.s32),
            "dtype",
            "write new_element_type= instead of dtype=",
        ),
        (
            lambda x: xb.dot(x, x, dtype=xb.f32),
            "dtype",
            "write preferred_element_type= instead of dtype=",
        ),
        (lambda x: xb.reduce(x, 0, xb.add, axis=0), "axis", "write dimensions= instead of axis="),
        (
            lambda x: xb.reduce(x, 0, xb.add, dimension=[0]),
            "dimension",
            "did you mean dimensions=?",
        ),
        (
            lambda x: xb.reduce(x, 0, xb.add, [0], keepdims=True),
            "keepdims",
            "add dimensions of size 1 to the result with xb.reshape",
        ),
        (lambda x: xb.abs(x, axis=1), "axis", "the parameters are operand"),
        (lambda x: xb.add(x, x, out=x), "out", "use the result of the call"),
        (lambda x: xb.rem(x1=x, x2=x), "x1", "write lhs= instead of x1="),
        (
            lambda x: xb.exp(x, where=x),
            "where",
            "replace the other elements with xb.select first",
        ),
        (
            lambda x: xb.eq(x, x, axis=0),
            "axis",
            "the parameters are lhs, rhs, broadcast_dimensions",
        ),
        (lambda x: xb.sort(x, axis=0), "axis", "write dimension= instead of axis="),
        (
            lambda x: xb.sort(x, descending=True),
            "descending",
            "write xb.sort(operands, xb.gt) for descending order",
        ),
        (lambda x: xb.concatenate([x, x], axis=0), "axis", "write dimension= instead of axis="),
        (lambda x: xb.clamp(a_min=0, operand=x, max=1), "a_min", "write min= instead of a_min="),
        (lambda x: xb.select(condition=x), "condition", "write pred= instead of condition="),
        (lambda x: xb.top_k(x, 1, axis=0), "axis", "the parameters are operand, k, largest"),
        (lambda x: xb.tuple(x, axis=0), "axis", "the parameters are elements"),
        (
            lambda x: x.builder.iota(xb.s32[3], axis=0),
            "axis",
            "write iota_dimension= instead of axis=",
        ),
        (
            lambda x: x.builder.constant(1, dtype=xb.f32),
            "dtype",
            "write element_type= instead of dtype=",
        ),
        (
            lambda x: xb.slice(x, [0, 0], [1, 1], stride=[1, 1]),
            "stride",
            "write strides= instead of stride=",
        ),
        (lambda x: xb.convert(x, dtpye=xb.s32), "dtpye", "did you mean new_element_type=?"),
    ],
)
def test_unknown_parameters(call: Callable[[xb.XlaOp], Any], parameter: str, fix: str) -> None:
    b = xb.XlaBuilder()
    x = b.parameter(xb.f32[2, 3])
    with pytest.raises(xb.OperandError) as caught:
        call(x)
    rule, _, rest = str(caught.value).partition("\n")
    assert rule.startswith(f"{caught.value.op}: has no parameter {parameter}, got {parameter}=")
    assert rest == f"fix: {fix}"
    assert caught.value.location is not None
    assert caught.value.location.startswith(f"{__file__}:")
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert b.ops == [x]


def test_the_alias_is_named() -> None:
    x = xb.XlaBuilder().parameter(xb.f32[2])
    with pytest.raises(xb.OperandError, match=r"^convert: has no parameter dtype"):
        xb.convert(x, dtype=xb.s32)


@each_row(
    "call, message",
    [
        (
            lambda x: xb.sort(),
            (
                "sort: missing 1 required positional argument: 'operands'\n"
                "fix: write xb.sort(operands);"
            ),
        ),
        (
            lambda x: xb.cholesky(x, True, 1),
            "cholesky: takes at most 2 positional arguments, got 3",
        ),
        (
            lambda x: xb.transpose(x),
            (
                "transpose: missing 1 required positional argument: 'permutation'\n"
                "fix: write xb.transpose(x, permutation)"
            ),
        ),
        (
            lambda x: lib.arg_max(x, 1),
            (
                "arg_max: missing 1 required positional argument: 'axis'\n"
                "fix: write lib.arg_max(x, element_type, axis)"
            ),
        ),
        (
            lambda x: xb.pad(x, [(1, 1), (0, 0)]),
            (
                "pad: missing 1 required positional argument: 'padding_config'\n"
                "fix: write xb.pad(operand, padding_value, padding_config)"
            ),
        ),
        (
            lambda x: xb.reduce(x, 0),
            (
                "reduce: missing 2 required positional arguments: 'computation' and 'dimensions'\n"
                "fix: write xb.reduce(x, 0, computation, dimensions);"
            ),
        ),
        (
            lambda x: xb.dot(x),
            "dot: missing 1 required positional argument: 'rhs'\nfix: write xb.dot(x, rhs);",
        ),
        (
            lambda x: xb.XlaBuilder("r", title="hello"),  # type: ignore[call-arg]
            "XlaBuilder: has no parameter title, got title='hello'\nfix: the parameters are name",
        ),
        (
            lambda x: xb.XlaBuilder("r", "hello"),  # type: ignore[call-arg]
            "XlaBuilder: takes at most 1 positional argument, got 2",
        ),
        (
            lambda x: x.builder.build(x).to_hlo_text(indent=2),
            "to_hlo_text: has no parameter indent, got indent=2\nfix: the parameters are metadata",
        ),
        (
            lambda x: x.builder.build(x).table(deep=True),
            "table: has no parameter deep, got deep=True\nfix: the parameters are nested, limit",
        ),
        (
            lambda x: x.builder.sharding(mesh=3),
            "sharding: has no parameter mesh, got mesh=3\nfix: the parameters are sharding",
        ),
        (
            lambda x: lib.mean(x, dim=0, keepdim=True),
            "mean: has no parameter dim, got dim=0\nfix: write axis= instead of dim=",
        ),
        (
            lambda x: lib.mean(x, keepdim=True),
            (
                "mean: has no parameter keepdim, got keepdim=True\n"
                "fix: write keepdims= instead of keepdim="
            ),
        ),
        (
            lambda x: lib.softmax(x, 0, 1),
            (
                "softmax: takes at most 2 positional arguments, got 3\n"
                "fix: write lib.softmax(x, axis); the parameters are x, axis"
            ),
        ),
        (
            lambda x: lib.zeros(dtype=3),
            "zeros: has no parameter dtype, got dtype=3\nfix: write shape= instead of dtype=",
        ),
        (
            lambda x: xb.dot_general(x, x, (([1], [0]), ([], [])), "HIGHEST"),
            "dot_general: takes at most 3 positional arguments, got 4\n",
        ),
        (
            lambda x: xb.top_k(x, 1, 2, 3),
            "top_k: takes at most 2 positional arguments, got 4\nfix: write xb.top_k(operand, k);",
        ),
        (
            lambda x: xb.clamp(0, x),
            (
                "clamp: missing 1 required positional argument: 'max'\n"
                "fix: write xb.clamp(0, x, max)"
            ),
        ),
        (lambda x: xb.add(x), "add: missing 1 required positional argument: 'rhs'"),
        (lambda x: xb.exp(), "exp: missing 1 required positional argument: 'operand'"),
        (
            lambda x: xb.reshape(x, 4, 1),
            (
                "reshape: new_sizes must be one sequence of integers, got 2 arguments\n"
                "fix: write new_sizes=[4, 1]"
            ),
        ),
        (
            lambda x: xb.transpose(x, 1, 0),
            (
                "transpose: permutation must be one sequence of integers, got 2 arguments\n"
                "fix: write permutation=[1, 0]"
            ),
        ),
        (lambda x: x.builder.iota(), "iota: missing 1 required positional argument: 'shape'"),
    ],
)
def test_missing_and_surplus_arguments(call: Callable[[xb.XlaOp], Any], message: str) -> None:
    b = xb.XlaBuilder()
    x = b.parameter(xb.f32[2, 2])
    with pytest.raises(xb.XlaError) as caught:
        call(x)
    assert str(caught.value).startswith(message)
    assert b.ops == [x]


@each_row(
    "call, fix",
    [
        (
            lambda b, x, i: xb.broadcast_in_dim(x, [0], [2, 2]),
            "xb.broadcast_in_dim(x, [2, 2], [0])",
        ),
        (lambda b, x, i: xb.rev([0], x), "xb.rev(x, [0])"),
        (lambda b, x, i: xb.clamp(x, 0, 6.5), "xb.clamp(0, x, 6.5)"),
        (lambda b, x, i: xb.reduce(x, xb.add, 0, [0]), "xb.reduce(x, 0, xb.add, [0])"),
        (lambda b, x, i: lib.one_hot(10, i), "lib.one_hot(i, 10)"),
        (lambda b, x, i: lib.one_hot(i, xb.f32, 10), "lib.one_hot(i, 10, xb.f32)"),
        (lambda b, x, i: lib.zeros(xb.f32[2], b), "lib.zeros(b, xb.f32[2])"),
        (lambda b, x, i: lib.einsum("i,i->", x, x), 'lib.einsum(x, x, "i,i->")'),
        (lambda b, x, i: lib.einsum([x, x], "i,i->"), 'lib.einsum(x, x, "i,i->")'),
        (lambda b, x, i: b.parameter(7, xb.f32[2], "z"), 'b.parameter(xb.f32[2], "z", number=7)'),
        (lambda b, x, i: b.iota(xb.s32, 3), "b.iota(xb.s32[3])"),
        (lambda b, x, i: b.iota(xb.s32, [3, 4], 1), "b.iota(xb.s32[3,4], 1)"),
        (lambda b, x, i: b.constant(xb.f32, 3), "b.constant(3, xb.f32)"),
        # The builder comes first in C++.
        (lambda b, x, i: xb.concat_in_dim(b, [x, x], 0), "xb.concat_in_dim([x, x], 0)"),
        (lambda b, x, i: xb.concatenate(b, [x], dimension=0), "xb.concatenate([x], dimension=0)"),
        (lambda b, x, i: xb.sort(b, [x]), "xb.sort([x])"),
        (lambda b, x, i: xb.map(b, [x], xb.neg), "xb.map([x], xb.neg)"),
        # Some arguments belong in a list.
        (lambda b, x, i: xb.concatenate(x, x, 0), "xb.concatenate([x, x], 0)"),
        (lambda b, x, i: lib.stack(x, x), "lib.stack([x, x])"),
        # The last argument belongs to a later parameter.
        (lambda b, x, i: xb.sort(x, 0), "xb.sort(x, dimension=0)"),
        # The number of arguments is right, but no order of these is.
        (lambda b, x, i: lib.einsum("ij,jk->ik", x), 'lib.einsum(x, y, "ij,jk->ik")'),
    ],
)
def test_other_orders(call: Callable[[Any, Any, Any], Any], fix: str) -> None:
    b = xb.XlaBuilder()
    x, i = b.parameter(xb.f32[2], "x"), b.parameter(xb.s32[4], "i")
    with pytest.raises(xb.XlaError) as caught:
        call(b, x, i)
    assert caught.value.fix == f"write {fix}"
    assert b.ops == [x, i]
    if "y" not in fix:
        eval(fix, {"xb": xb, "lib": lib}, {"b": b, "x": x, "i": i})


def test_calls_without_source() -> None:
    x = xb.XlaBuilder().parameter(xb.f32[2])
    call = eval("lambda: xb.broadcast_in_dim(x, (0,), (2, 2))", {"xb": xb, "x": x})
    with pytest.raises(xb.XlaError, match=r"write xb.broadcast_in_dim\(operand, \[2, 2\], \[0\]\)"):
        call()


def test_functions_of_the_user_are_not_called_again() -> None:
    calls: list[xb.XlaOp] = []
    x = xb.XlaBuilder().parameter(xb.f32[2])
    with pytest.raises(xb.XlaError, match=r"fix: write xb.reduce\(operands, init_values, "):
        xb.reduce(x, calls.append, 0, [0])  # type: ignore[arg-type]  # in a wrong order
    assert not calls


def unaccepted(name: str) -> list[str]:
    info = xb.OPERATIONS[name]
    return [
        p.name
        for p in inspect.signature(info.function).parameters.values()
        if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD and p.name != "self"
    ]


@each_row("name", [n for n in xb.OPERATIONS if unaccepted(n)])
def test_no_op_accepts_a_missing_argument(name: str) -> None:
    info = xb.OPERATIONS[name]
    function = getattr(xb.XlaBuilder(), name) if info.is_method else info.function
    with pytest.raises(xb.XlaError):
        function()


def test_errors_of_the_function_are_not_changed() -> None:
    def body(x: xb.XlaOp) -> xb.XlaOp:
        return len(5)  # type: ignore[arg-type,return-value]

    x = xb.XlaBuilder().parameter(xb.f32[2])
    with pytest.raises(TypeError, match=r"object of type 'int' has no len"):
        xb.while_(lambda v: xb.reduce_all(v, 0, xb.add) < 1, body, x)


def test_signatures_are_those_of_the_source() -> None:
    assert str(inspect.signature(xb.transpose)) == (
        "(operand: 'XlaOp', permutation: 'Sequence[int]') -> 'XlaOp'"
    )
    assert pickle.loads(pickle.dumps(xb.sort)) is xb.sort
    assert pickle.loads(pickle.dumps(xb.reshape)) is xb.reshape


NOT_HERE = {
    "of jax's arrays and tracing": "accuracy batch_size out_sharding unroll _split_transpose to "
    "tiled group_offset copy kwargs args _ allow_negative_indices algorithm",
    "what ops here do not choose": "mode fill_value order sorted rounding_method decimals axis "
    "kind is_stable dimension_numbers choicelist condlist default dtype initial",
}
"""Parameters of jax's functions without a suggestion, by reason."""


@each_row("name", xb.OPERATIONS)
def test_no_op_accepts_an_unknown_parameter(name: str) -> None:
    info = xb.OPERATIONS[name]
    b = xb.XlaBuilder()
    x = b.parameter(xb.f32[2])
    function = getattr(b, name) if info.is_method else info.function
    arguments = [x] * (len(unaccepted(name)) - ("axis" in unaccepted(name)))
    with pytest.raises(xb.OperandError, match=f"{name}: (has no parameter|unknown argument|takes)"):
        function(*arguments, dtype_of_result=xb.f32)
    assert b.ops == [x]


@each_row("module", [jax.lax, jnp])
@each_row("name", xb.OPERATIONS)
def test_parameters_of_jax(name: str, module: Any) -> None:
    theirs = getattr(module, name.rstrip("_"), None)
    if not callable(theirs):
        return
    info = xb.OPERATIONS[name]
    parameters = set(inspect.signature(info.function).parameters)
    for parameter in set(inspect.signature(theirs).parameters) - parameters:
        meant = wrong_calls.PARAMETERS.get(parameter, "").split()
        is_known = bool(parameters & set(meant)) or parameter in wrong_calls.ABSENT
        assert is_known or parameter in " ".join(NOT_HERE.values()).split(), parameter


@each_row("name", wrong_calls.PARAMETERS)
def test_suggested_parameters_exist(name: str) -> None:
    import lowering

    functions = [each.function for each in (*xb.OPERATIONS.values(), *lib.FUNCTIONS.values())]
    functions += [lowering.jit, lowering.grad]
    ours = {parameter for each in functions for parameter in inspect.signature(each).parameters}
    meant = wrong_calls.PARAMETERS[name].split()
    assert meant
    assert set(meant) <= ours
