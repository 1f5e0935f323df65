"""Mistakes in calls of jit and compile, and in uses of modules and executables."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tables import each_row

import builder as xb
import lowering
from builder.unknown_names.table import ATTRIBUTES


@xb.computation(xb.f32[2])
def double(x: xb.XlaOp) -> xb.XlaOp:
    return x + x


@each_row(
    "arguments, fix",
    [
        ({"static_argnums": 1}, "write static= instead of static_argnums="),
        ({"static_argnames": ["n"]}, "write static= instead of static_argnames="),
        ({"donate_argnums": 0}, "write donate= instead of donate_argnums="),
        ({"backend": "cpu"}, "write device= instead of backend="),
        ({"keep_unused": True}, "the parameters are function, donate, device"),
    ],
)
def test_parameters_of_jax_jit(arguments: dict[str, Any], fix: str) -> None:
    with pytest.raises(xb.OperandError) as caught:
        lowering.jit(lambda x, n: x, **arguments)
    (name,) = arguments
    assert str(caught.value).startswith(f"jit: has no parameter {name}, got {name}=")
    assert f"\nfix: {fix}" in str(caught.value)
    with pytest.raises(xb.OperandError, match="jit: has no parameter"):
        lowering.jit(**arguments)


@each_row(
    "call, message",
    [
        (
            lambda: lowering.compile(double, backend="cpu"),  # type: ignore[call-overload]
            (
                "compile: has no parameter backend, got backend='cpu'\n"
                "fix: write device= instead of backend="
            ),
        ),
        (
            lambda: lowering.lower(double, name="f"),  # type: ignore[call-arg]
            "lower: has no parameter name, got name='f'\nfix: the parameters are computation",
        ),
        (
            lambda: lowering.lower(double)(np.ones(2)),  # type: ignore[operator]
            (
                "double: a StablehloModule is not a function, got <StablehloModule 'double' "
                "(x: f32[2]) -> f32[2]>\nfix: run it with lowering.compile(module)(...)"
            ),
        ),
        (
            lambda: double(np.ones(2)),  # type: ignore[operator]
            (
                "double: an XlaComputation is not a function, got <XlaComputation 'double' "
                "(x: f32[2]) -> f32[2], 2 ops>\nfix: run it with lowering.compile(computation)(...)"
            ),
        ),
        (
            lambda: lowering.jit(lowering.lower(double)),  # type: ignore[call-overload]
            (
                "jit: expected a function, got <StablehloModule 'double' (x: f32[2]) -> f32[2]>\n"
                "fix: compile it: lowering.compile(computation)"
            ),
        ),
        (
            lambda: lowering.jit(xb.f32),  # type: ignore[call-overload]
            "jit: expected a function, got f32\nfix: pass a function of XlaOps",
        ),
        (
            lambda: lowering.jit(lambda z: xb.exp(z))([1.0, 2.0]),
            "exp: operand must be an XlaOp, got list: [<XlaOp",
        ),
    ],
)
def test_calls(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(xb.OperandError) as caught:
        call()
    assert str(caught.value).startswith(message)
    assert caught.value.location is not None
    assert caught.value.location.startswith(__file__)


def test_a_call_with_an_op_names_call() -> None:
    x = xb.XlaBuilder().parameter(xb.f32[2])
    with pytest.raises(
        xb.OperandError, match=r"fix: record a call with xb.call\(computation, \*op"
    ):
        double(x)  # type: ignore[operator]
    assert xb.call(double, x).shape is x.shape


OBJECTS: dict[str, tuple[Callable[[], Any], dict[str, str]]] = {
    "a StablehloModule": (lambda: lowering.lower(double), ATTRIBUTES["StablehloModule"]),
    "an Executable": (lambda: lowering.compile(double), ATTRIBUTES["CompiledProgram"]),
    "a JittedFunction": (lambda: lowering.jit(lambda x: x), ATTRIBUTES["JittedFunction"]),
    "an XlaComputation": (lambda: double, ATTRIBUTES["XlaComputation"]),
}


@each_row("kind", OBJECTS)
def test_attributes_of_other_libraries(kind: str) -> None:
    make, meanings = OBJECTS[kind]
    value = make()
    for name, meaning in meanings.items():
        with pytest.raises(xb.UnknownNameError) as caught:
            getattr(value, name)
        assert str(caught.value) == f"{kind} has no attribute {name!r}\nfix: use {meaning}"
        assert not hasattr(value, name)
        assert name not in dir(value)


def test_shardings_of_executables_of_other_kinds() -> None:
    on_two = lowering.compile(double, num_replicas=2)
    assert "sharding" in dir(on_two)
    assert "parameter_shardings" not in dir(on_two)
    with pytest.raises(xb.UnknownNameError, match="with num_replicas sharding"):
        on_two.parameter_shardings  # type: ignore[attr-defined]  # noqa: B018


def test_arrays_and_tracers_of_jax_as_operands() -> None:
    x = xb.XlaBuilder().parameter(xb.f32[3])
    with pytest.raises(xb.OperandError, match=r"fix: record it with builder.constant\(value\)"):
        x + jnp.ones(3, jnp.float32)
    with pytest.raises(xb.OperandError, match=r"value.astype\(numpy.float32\)\), because"):
        x + jnp.ones(3, jnp.int32)
    for add in (lambda t: x + t, lambda t: t + x, lambda t: xb.add(t, x)):
        with pytest.raises(xb.OperandError, match=r"fix: record ops outside of jax\.jit"):
            jax.jit(add)(jnp.ones(3))


def test_copies() -> None:
    x = double.parameters[0]
    for value in (x, double):
        assert copy.copy(value) is copy.deepcopy(value) is value
        with pytest.raises(xb.OperandError, match=r"can't be pickled, got <Xla[^\n]*\nfix: "):
            pickle.dumps(value)
    module = lowering.lower(double)
    for value in (xb.XlaBuilder(), module):
        for function in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(
                xb.OperandError, match=r"can't be copied or pickled, got [^\n]*\nfix"
            ):
                function(value)
    data = pickle.loads(pickle.dumps(module.bytecode))
    again = lowering.to_computation(lowering.load_bytes(data))
    assert str(again.program_shape) == str(double.program_shape)
    executable = lowering.compile(double)
    assert copy.copy(executable)(np.ones(2, np.float32)).tolist() == [2, 2]
    with pytest.raises(xb.OperandError, match="executable double can't be pickled"):
        pickle.dumps(executable)


@each_row(
    "call, fix",
    [
        (
            lambda: lowering.compile(lambda x: x),  # type: ignore[call-overload]
            "call lowering.jit(function) with arrays",
        ),
        (
            lambda: lowering.compare(lowering.compile(double), np.ones(2)),  # type: ignore[arg-type]
            "pass the computation or module that the executable was compiled from",
        ),
        (
            lambda: lowering.grad(lambda x: x),  # type: ignore[arg-type]
            "pass xb.computation(shape, ...)(function), with a shape for each parameter",
        ),
        (
            lambda: lowering.grad(double, argnums=0),  # type: ignore[call-arg]
            "write wrt= instead of argnums=",
        ),
        (
            lambda: lowering.vmap(double),  # type: ignore[call-arg]
            (
                "write lowering.vmap(double, axis_size); the parameters are computation, "
                "axis_size, in_axes, out_axes"
            ),
        ),
        (
            lambda: lowering.lower(double).to_text(indent=2),  # type: ignore[call-arg]
            "the parameters are locations",
        ),
        (
            lambda: lowering.compile(double).hlo_text(2),  # type: ignore[misc]
            "write lowering.compile(double).hlo_text(); the parameters are large_constants",
        ),
    ],
)
def test_wrong_calls(call: Callable[[], object], fix: str) -> None:
    with pytest.raises(xb.OperandError) as caught:
        call()
    assert caught.value.fix == fix


def test_the_operation_that_xla_cannot_compile_is_found_among_others() -> None:
    """XLA's report has neither a line nor, if several operations have one name, which it is."""
    module = lowering.load_bytes("""
func.func @main(%n: tensor<1xi32>) -> (tensor<3xi32>, tensor<3xi32>) {
  %0 = stablehlo.dynamic_iota %n, dim = 0 : (tensor<1xi32>) -> tensor<3xi32>
  %1 = stablehlo.constant dense<3> : tensor<1xi32>
  %2 = stablehlo.dynamic_iota %1, dim = 0 : (tensor<1xi32>) -> tensor<3xi1>
  %3 = stablehlo.convert %2 : (tensor<3xi1>) -> tensor<3xi32>
  return %0, %3 : tensor<3xi32>, tensor<3xi32>
}""")
    with pytest.raises(lowering.CompileError) as caught:
        lowering.compile(module, "cpu")
    assert str(caught.value).startswith(
        "compile: main: XLA can't compile dynamic_iota, recorded at -:5, for cpu: "
    )
    assert caught.value.op == "dynamic_iota"
