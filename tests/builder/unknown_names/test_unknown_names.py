"""The errors for unknown names of packages, builders and ops."""

from __future__ import annotations

import copy
import pickle
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from processes import run_python
from tables import each_row

import builder as xb
import lowering
from builder import lib


def message_of(owner: object, name: str) -> str:
    with pytest.raises(xb.UnknownNameError) as caught:
        getattr(owner, name)
    return str(caught.value)


@each_row(
    "name, fix",
    [
        ("exp", "xb.exp(operand)"),
        ("sum", "lib.sum(x, axis)  # from builder import lib"),
        ("max", "lib.max(x, axis)  # from builder import lib"),
        ("T", "xb.transpose(operand, permutation)"),
        ("dtype", "x.shape.element_type"),
        ("clip", "lib.clip(x, min, max)  # from builder import lib"),
        ("compile", "lowering.compile(computation)  # a call returns arrays with values"),
        ("iota", "b.iota(shape)"),
        ("set", "x.at[0].set(1)  # returns a new array"),
    ],
)
def test_attributes_of_ops(name: str, fix: str) -> None:
    x = xb.XlaBuilder().parameter(xb.f32[2])
    assert message_of(x, name) == f"an XlaOp has no attribute {name!r}\nfix: use {fix}"


@each_row(
    "call, name, reduction",
    [(lambda x, n=n: getattr(np, n)(x), n, n) for n in ("all", "any", "max", "min", "prod", "sum")]
    + [(np.add.reduce, "add", "sum"), (np.bitwise_or.reduce, "bitwise_or", "any")],
)
def test_reductions_of_numpy(call: Callable[[Any], Any], name: str, reduction: str) -> None:
    with pytest.raises(xb.OperandError) as caught:
        call(xb.XlaBuilder().parameter(xb.f32[2]))
    assert str(caught.value).startswith(f"numpy.{name}: an XlaOp has no value")
    assert f"fix: use lib.{reduction}(" in str(caught.value)


@each_row(
    "name, fix",
    [
        ("matmull", "use lib.matmul(x, y)"),
        ("fori_lop", "use lib.for_each_index("),
        ("logistik", "did you mean xb.logistic?"),
        ("float23", "did you mean xb.f32?"),
        ("flot32", "did you mean xb.f32?"),
        ("int23", "did you mean xb.s32?"),
        ("bf61", "did you mean xb.bf16?"),
        ("complex46", "did you mean xb.c64?"),
        ("int", "use xb.s32 or xb.s64"),
        ("float", "use xb.f32 or xb.f64"),
        ("long", "use xb.s64"),
        ("remat", "use lowering.to_jax(computation)"),
    ],
)
def test_misspelled_names_of_other_libraries(name: str, fix: str) -> None:
    assert f"no such name in builder\nfix: {fix}" in message_of(xb, name)


def test_short_names_have_no_similar_ones() -> None:
    assert message_of(xb, "nn") == "xb.nn: there is no such name in builder"


@each_row(
    "name, fix",
    [
        ("argmax", "use lib.arg_max"),
        ("sort", "use xb.sort(operands)"),
        ("batch_matmul", "use lib.batch_dot"),
        ("arange", "use b.iota("),
        ("softmaxx", "did you mean lib.softmax or"),
        ("relu6", "use xb.clamp(0, x, 6)"),
        ("vmap", "use lowering.vmap"),
        ("lower", "use lowering.lower"),
        ("gradients", "use lowering.gradients"),
        ("device_put", "use lowering.device_put"),
        ("detach", "use lib.stop_gradient(x)"),
    ],
)
def test_names_of_the_library(name: str, fix: str) -> None:
    message = message_of(lib, name)
    assert message.startswith(f"lib.{name}: there is no such name in builder.lib\nfix: {fix}")
    assert not hasattr(lib, "__wrapped__")
    assert not hasattr(lib, f"_{name}")


@each_row(
    "name, fix",
    [
        ("Parameter", "b.parameter(shape)"),
        ("SetUpAlias", "b.setup_alias(output_index, param_number)"),
        ("Build", "b.build("),
        ("Add", "xb.add(lhs, rhs)"),
        ("while_loop", "xb.while_(condition, body, init)"),
        ("compile", "lowering.compile"),
    ],
)
def test_attributes_of_builders(name: str, fix: str) -> None:
    b = xb.XlaBuilder()
    assert message_of(b, name).startswith(
        f"an XlaBuilder has no attribute {name!r}\nfix: use {fix}"
    )


@each_row(
    "name, rest",
    [
        ("lowre", "\nfix: did you mean lowering.lower?"),
        ("Compile", "\nfix: use lowering.compile"),
        ("add", "\nfix: use xb.add(lhs, rhs)"),
        ("run", "\nfix: use lowering.compile(computation)  # a call returns arrays with values"),
        ("f32", "\nfix: use xb.f32"),
        ("custom_vjp", "\nfix: use xb.custom_gradient(computation, backward)"),
        ("jvp", "\nfix: use lowering.to_jax(computation)  # jax's transformations apply to it"),
        ("qwertz", ""),
    ],
)
def test_names_of_lowering(name: str, rest: str) -> None:
    assert message_of(lowering, name) == f"lowering.{name}: there is no such name in lowering{rest}"


def test_errors_have_the_line_of_the_caller() -> None:
    x = xb.XlaBuilder().parameter(xb.f32[2])
    for owner, name in ((xb, "where"), (lowering, "vectorize"), (x, "sum"), (x.builder, "Add")):
        with pytest.raises(xb.UnknownNameError) as caught:
            getattr(owner, name)
        assert caught.value.location is not None
        assert caught.value.location.startswith(f"{__file__}:")


def test_protocols_work() -> None:
    b = xb.XlaBuilder()
    x = b.parameter(xb.f32[2])
    for owner in (xb, lowering, b, x):
        for name in ("__wrapped__", "_repr_latex_", "_ipython_display_", "__jax_array__", "qwertz"):
            assert not hasattr(owner, name)
            assert getattr(owner, name, 3) == 3
    assert copy.copy(x).shape is x.shape
    error = pickle.loads(pickle.dumps(xb.UnknownNameError("text")))
    assert isinstance(error, AttributeError)


def test_attributes_of_objects_are_looked_up_fast() -> None:
    x = xb.XlaBuilder().parameter(xb.f32[2])
    assert not hasattr(x, "qwertz")  # the first lookup makes the table
    start = time.perf_counter()
    for _ in range(1000):
        hasattr(x, "qwertz")
    assert time.perf_counter() - start < 1  # a search for similar names takes longer


def test_python_adds_no_other_suggestion() -> None:
    """Python's tracebacks append the attribute with the most similar name."""
    for name, fix in (("xb.where", "lib.where("), ("x.shap", "shape")):
        program = f"import builder as xb\nx = xb.XlaBuilder().parameter(xb.f32[2])\n{name}\n"
        done = run_python("-c", program, status=1)
        assert fix in done.stderr
        assert done.stderr.count("Did you mean") == name.startswith("x.")
