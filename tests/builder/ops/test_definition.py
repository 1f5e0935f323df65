"""The bodies of ops are compiled before the import."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from scripts import ROOT

import builder as xb
from builder.ops import bodies, definition
from builder.schema import Schema
from builder.schema.kinds import INTEGERS


def test_the_committed_bodies_are_current() -> None:
    """In a process of its own, because other tests define ops."""
    program = (
        "import sys; sys.path.insert(0, 'tools'); import write_bodies as w; print(w.document())"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    committed = (ROOT / "builder" / "ops" / "bodies.py").read_text(encoding="utf-8")
    assert committed == found.stdout[:-1], "run tools/write_bodies.py"


def test_ops_have_these_bodies() -> None:
    """The constants of a body are in its closure, and its code has the name of the op."""
    made = [value for name, value in vars(bodies).items() if name.startswith("body_")]
    nested = {
        code.co_code
        for each in made
        for code in each.__code__.co_consts
        if hasattr(code, "co_code")
    }
    assert len(made) > 30
    for op in (xb.add, xb.exp, xb.transpose, xb.dot_general):
        assert op.__code__.co_name == op.__name__
        assert op.__code__.co_code in nested


def test_bodies_of_one_form_have_one_signature() -> None:
    def declared(lhs: xb.XlaOp, rhs: xb.XlaOp, broadcast_dimensions: Any = None) -> None:
        """It has the parameters of `add`, but other constants."""

    with pytest.raises(ValueError, match=r"^body_two_arrays_3_0 has another signature: \(3, 0, "):
        definition.made(declared, "two_arrays", str, {"opcode": "add"})


def test_an_operand_may_have_a_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not converted, so the body is that of other ops of one operand."""
    monkeypatch.setitem(xb.OPERATIONS, "mirrored", xb.OPERATIONS["real"])  # removed by the fixture
    schema = Schema("mirrored", "operand")

    @definition.op(schema, lambda operand: operand, family="test", operand=INTEGERS)
    def mirrored(operand: xb.XlaOp) -> xb.XlaOp:
        """Return an array like `operand`."""

    assert mirrored.__code__.co_code == xb.real.__code__.co_code
