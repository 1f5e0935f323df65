"""Rewriting large graphs: loops over the ops, no recursion."""

from __future__ import annotations

import pytest

import builder as xb


@pytest.fixture(scope="module")
def chain() -> xb.XlaComputation:
    b = xb.XlaBuilder("chain")
    value = b.parameter(xb.f32[2], "x")
    for _ in range(50_000):
        value = xb.neg(xb.abs(value))
    return b.build(value)


def test_replace(chain: xb.XlaComputation) -> None:
    changed = chain.replace(lambda op, o: xb.sqrt(o[0]) if op.opcode == "negate" else None)
    assert [op.opcode for op in changed.ops] == ["parameter"] + ["abs", "sqrt"] * 50_000


def test_extract(chain: xb.XlaComputation) -> None:
    part = chain.extract(chain.ops[90_000], inputs=chain.ops[30_000])
    assert [op.opcode for op in part.ops] == ["parameter"] + ["abs", "negate"] * 30_000


def test_inline(chain: xb.XlaComputation) -> None:
    b = xb.XlaBuilder()
    assert xb.inline(chain, b.parameter(xb.f32[2])).id == 100_000
