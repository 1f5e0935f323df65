"""The comparison of programs in tests/support.py."""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np
import pytest
from support import compiled_once

import builder as xb
import lowering
from lowering.jaxlib_api import compilation, mlir

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def program(
    number: float = 0.5,
    combine: Callable[..., xb.XlaOp] = xb.sub,
    shape: str = "f32[2,3]",
    name: str = "program",
) -> xb.XlaComputation:
    b = xb.XlaBuilder(name)
    x = b.parameter(shape, f"of_{name}")
    return b.build(combine(x, b.constant(np.float32(number))), result="f32[2,3]")


def test_programs_that_differ_in_names_are_compiled_once() -> None:
    lowered = jax.jit(lambda x: x - np.float32(0.5)).lower(X)
    module = mlir.bytecode(lowered.compiler_ir())
    executable = lowered.compile().runtime_executable()
    with compiled_once((module, executable)) as compiled:
        for name in ("program", "other"):
            assert (np.asarray(lowering.compile(program(name=name), "cpu")(X)) == X - 0.5).all()
        assert len(compiled) == 1
    with compiled_once() as compiled:
        lowering.compile(program(), "cpu")
        assert len(compiled) == 1


VARIANTS: dict[str, Callable[[], xb.XlaComputation]] = {
    "one bit of a constant": lambda: program(float(np.nextafter(np.float32(0.5), 1))),
    "the sign of a constant": lambda: program(-0.5),
    "an operation": lambda: program(combine=xb.add),
    "the order of operands": lambda: program(combine=lambda x, c: xb.sub(c, x)),
    "the layout of a parameter": lambda: program(shape="f32[2,3]{0,1}"),
}


@pytest.mark.parametrize("difference", VARIANTS)
def test_different_programs_are_compiled_separately(difference: str) -> None:
    with compiled_once() as compiled:
        lowering.compile(program(), "cpu")
        lowering.compile(VARIANTS[difference](), "cpu")
    assert len(compiled) == 2


def test_the_original_function_is_restored() -> None:
    before = compilation.compile_and_load
    with pytest.raises(ZeroDivisionError), compiled_once():
        raise ZeroDivisionError
    assert compilation.compile_and_load is before
