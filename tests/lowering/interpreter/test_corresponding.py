"""Values of a port are matched with those of its original by their elements."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import builder as xb
import lowering
from builder import lib
from lowering.interpreter import corresponding
from lowering.interpreter.tolerances import is_near

RANDOM = np.random.default_rng(3)
ARGUMENTS = [RANDOM.normal(size=(6, 8)).astype(np.float32)]
ARGUMENTS += [RANDOM.normal(size=(8, 8)).astype(np.float32) for _ in range(3)]
SHAPES = [xb.f32[6, 8], *[xb.f32[8, 8]] * 3]


def attention(x: Any, wq: Any, wk: Any, wv: Any) -> Any:
    q, k, v = x @ wq, x @ wk, x @ wv
    odds = jax.nn.softmax(q @ k.T / jnp.sqrt(8.0), axis=-1)
    return x + jnp.tanh(odds @ v)


ORIGINAL = lowering.from_jax(attention, *ARGUMENTS)


def port(axis: int = 1, scale: float = 8.0, factor: float = 1.0) -> xb.XlaComputation:
    @xb.computation(*SHAPES)
    def ported(x: xb.XlaOp, wq: xb.XlaOp, wk: xb.XlaOp, wv: xb.XlaOp) -> xb.XlaOp:
        k, q, v = x @ wk, x @ wq, x @ wv  # in another order
        scores = q @ xb.transpose(k, [1, 0]) / scale**0.5
        return x + xb.tanh(lib.softmax(scores, axis) @ v) * factor

    return ported


def test_a_port_without_faults() -> None:
    found = lowering.compare(port(), *ARGUMENTS, device="cpu", reference=ORIGINAL)
    assert found.agrees
    assert found.first is None
    assert str(found).startswith("ported and jit_attention on cpu:0: the results are equal, ")
    by_opcode = [(op.opcode, other.opcode) for op, other in found.pairs.items()]
    assert by_opcode.count(("dot_general", "dot_general")) == 5
    assert ("tanh", "tanh") in by_opcode


FAULTS: dict[str, tuple[dict[str, float], str, str]] = {
    "the wrong axis": ({"axis": 0}, "reduce", "reduce"),
    "the wrong scale": ({"scale": 4.0}, "divide", "divide"),
    "a factor that the original lacks": ({"factor": 2.0}, "multiply", "add"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_first_op_that_differs(name: str) -> None:
    options, opcode, counterpart = FAULTS[name]
    found = lowering.compare(
        port(**options),  # type: ignore[arg-type]  # of numbers
        *ARGUMENTS,
        device="cpu",
        reference=ORIGINAL,
    )
    assert not found.agrees
    assert found.first is not None
    assert found.counterpart is not None
    assert (found.first.opcode, found.counterpart.opcode) == (opcode, counterpart)
    assert f"recorded at {found.first.source}" in str(found)
    assert found.largest is not None
    assert found.largest > 0.1
    assert f"up to {found.largest:.6g} apart" in str(found)
    assert found.as_dict()["first"]["opcode"] == opcode
    assert "the first value that differs" in found._repr_html_()


@pytest.mark.parametrize("kind", ["while", "call"])
def test_ops_with_several_results(kind: str) -> None:
    """A fault inside a loop or a call is found at the loop or the call."""

    def model(function: Any) -> xb.XlaComputation:
        def step(state: xb.XlaOp) -> xb.XlaOp:
            number, value, kept = state
            return xb.tuple(number + 1, function(value) * 2.0, kept)

        @xb.computation(xb.f32[3, 4])
        def looped(x: xb.XlaOp) -> xb.XlaOp:
            state = xb.tuple(x.builder.constant(0, xb.s32), xb.sin(x), x)
            if kind == "while":
                last = xb.while_(lambda s: s[0] < 3, step, state)
            else:
                last = xb.call(xb.computation(state.shape)(step), state)
            return last[1] + last[2]

        return looped

    x = RANDOM.normal(size=(3, 4)).astype(np.float32)
    found = lowering.compare(model(xb.cos), x, device="cpu", reference=model(xb.tanh))
    assert found.first is not None
    assert found.counterpart is not None
    assert (found.first.opcode, found.counterpart.opcode) == (kind, kind)
    assert lowering.compare(model(xb.cos), x, device="cpu", reference=model(xb.cos)).agrees


def test_values_that_occur_by_chance_are_no_evidence() -> None:
    """A zero of both programs does not hide the op before it."""

    @xb.computation(xb.f32[4])
    def one(x: xb.XlaOp) -> xb.XlaOp:
        y = xb.sin(x)
        return xb.tuple(y + 1.0, y * 0.0)

    @xb.computation(xb.f32[4])
    def other(x: xb.XlaOp) -> xb.XlaOp:
        y = xb.cos(x)
        return xb.tuple(y + 1.0, y * 0.0)

    found = lowering.compare(one, np.float32([1, 2, 3, 4]), device="cpu", reference=other)
    assert found.first is not None
    assert found.counterpart is not None
    assert (found.first.opcode, found.counterpart.opcode) == ("sine", "cosine")


def test_other_parameters_are_refused() -> None:
    @xb.computation(xb.f32[4])
    def other(x: xb.XlaOp) -> xb.XlaOp:
        return x

    with pytest.raises(xb.OperandError, match="reference must have the parameters and the result"):
        lowering.compare(port(), *ARGUMENTS, reference=other)


def values_with_neighbors(dtype: Any) -> list[np.ndarray[Any, Any]]:
    """Arrays of one shape: many differ by a few ulps, in one element, or in their NaNs."""
    random = np.random.default_rng(0)
    arrays = []
    for scale in (1e-3, 1.0, 1e4):
        base = (scale * random.normal(size=(20, 10))).astype(dtype)
        if np.iscomplexobj(base):
            base += (1j * random.normal(size=(20, 10))).astype(dtype)
        one_element = base.copy()
        one_element[7, 3] += base.dtype.type(1)
        arrays += [base, base * base.dtype.type(1 + 4e-7), one_element]
        if base.dtype.kind != "i":
            for special in (np.nan, np.inf, -np.inf):
                with_special = base.copy()
                with_special[::3, 0] = special
                with_special[1, 1] = -special
                arrays.append(with_special)
    return arrays


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.int32, xb.bf16.dtype])
def test_the_match_is_the_nearest_of_those_that_are_equal(dtype: Any) -> None:
    arrays = values_with_neighbors(dtype)
    b = xb.XlaBuilder()
    ops = [b.parameter(xb.f32[20, 10]) for _ in arrays]
    candidates = corresponding.Candidates(ops, arrays)
    for ulps in (0.0, 20.0, np.inf):
        allowed = np.full(len(ops), ulps)
        for array, latest in zip(arrays, reversed(range(len(arrays))), strict=True):
            equal = [n for n, other in enumerate(arrays) if is_near(array, other, ulps)]
            nearest = min(equal, key=lambda n, latest=latest: abs(n - latest), default=None)
            expected = None if nearest is None else ops[nearest]
            assert candidates.find(ops[0], array, allowed, latest) is expected


def test_few_values_are_compared_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of values that differ by one percent of their largest element, too."""
    compared = []

    def counted(*arguments: Any) -> bool:
        compared.append(arguments)
        return is_near(*arguments)

    monkeypatch.setattr(corresponding, "is_near", counted)

    def chain(name: str, number: int) -> xb.XlaComputation:
        b = xb.XlaBuilder(name)
        x = value = b.parameter(xb.f32[8])
        for n in range(300):
            value += x * (0.02 if n == number else 0.01)
        return b.build(value)

    x = np.linspace(0, 1, 8).astype(np.float32)
    found = lowering.compare(chain("a", 100), x, device="cpu", reference=chain("b", -1))
    assert not found.agrees
    assert len(compared) < 2 * 1200
