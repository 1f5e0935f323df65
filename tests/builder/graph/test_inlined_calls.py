"""Inlined calls: what computations list of functions whose ops are recorded in place of a call."""

from typing import Any

import pytest

import builder as xb
from builder import lib
from builder.graph.inlined_calls import InlinedCall, LibraryCall, Operand, needed_ops


def parameter(name: str = "x") -> xb.XlaOp:
    return xb.XlaBuilder("calls").parameter(xb.f32[3], name)


def call_of(computation: Any) -> InlinedCall:
    (call,) = [c for c in computation._inlined_calls if c.function.name == "relu"]
    return call


def test_a_call_names_the_function_and_its_ops() -> None:
    x = parameter()
    y = lib.relu(x + 1.0)
    call = call_of(x.builder)
    assert call.function == LibraryCall("relu", {"x": Operand(0)})
    assert call.operands[0].opcode == "add"
    assert call.results[0] is y
    members = call.members()
    assert members is not None
    assert [op.opcode for op in members] == ["constant", "broadcast_in_dim", "maximum"]


def test_keyword_arguments_and_numbers() -> None:
    x = parameter()
    lib.gelu(approximate=False, x=x)
    (call,) = [c for c in x.builder._inlined_calls if c.function.name == "gelu"]
    assert call.function.arguments == {"approximate": False, "x": Operand(0)}


def test_a_captured_value_is_an_operand_of_the_body() -> None:
    x = parameter()
    zero = x.builder.constant(0, xb.s32)
    loop = xb.while_(lambda s: s[0] < 2, lambda s: (s[0] + 1, s[1] + lib.relu(x)), (zero, x))
    (body,) = [c for c in x.builder.build(loop).called_computations() if c._inlined_calls]
    call = call_of(body)
    assert all(op.builder is body.root.builder for op in (*call.operands, *call.results))


def test_failed_ops_leave_no_call() -> None:
    x = parameter()
    with pytest.raises(xb.ShapeInferenceError):
        lib.relu(x) @ x.builder.parameter(xb.f32[4])
    count = len(x.builder._inlined_calls)
    with pytest.raises(xb.OperandError):
        xb.while_(lambda s: s < 2, lambda s: lib.relu(x), None)
    assert len(x.builder._inlined_calls) == count


def build() -> xb.XlaComputation:
    x = parameter()
    return x.builder.build(xb.neg(lib.relu(xb.exp(x))))


def test_copies_keep_the_call() -> None:
    c = build()
    b = xb.XlaBuilder("outer")
    x = b.parameter(xb.f32[3])
    xb.inline(c, x)
    xb.inline(c, x)
    assert len(b._inlined_calls) == 2
    for copy in (b.build(), c.extract(c.root), c.replace(lambda *_: None)):
        for call in copy._inlined_calls:
            ops = (*call.operands, *call.results)
            assert all(copy.ops[op.id] is op for op in ops)
            assert call.members() is not None


def replaced(opcode: str) -> xb.XlaComputation:
    """Replace the ops of an opcode by equal ones."""

    def function(op: xb.XlaOp, operands: Any) -> xb.XlaOp | None:
        same = {"exponential": xb.exp, "maximum": xb.max}
        return same[opcode](*operands) if op.opcode == opcode else None

    return build().replace(function)


def test_an_edit_inside_drops_the_call() -> None:
    assert not replaced("maximum")._inlined_calls
    assert len(replaced("exponential")._inlined_calls) == 1


def test_a_cut_inside_drops_the_call() -> None:
    c = build()
    (maximum,) = c.find("maximum")
    (broadcast,) = c.find("broadcast_in_dim")
    cut = c.extract(c.root, inputs=[broadcast])
    assert all(call.members() is None for call in cut._inlined_calls)
    assert not c.extract(c.root, inputs=[maximum])._inlined_calls


def test_operands_for_derivatives_are_needed() -> None:
    b = xb.XlaBuilder("needed")
    x, scale = b.parameter(xb.f32[3]), b.parameter(xb.f32[3])
    used_by_derivative = xb.exp(scale)
    y = xb.neg(x)
    unused = xb.sin(x)
    calls = [InlinedCall(LibraryCall("f", {}), (x, used_by_derivative), (y,))]
    found = needed_ops([y], calls)
    assert unused not in set(found)
    assert [op.opcode for op in found] == ["parameter", "parameter", "exponential", "negate"]
    assert [op.opcode for op in needed_ops([y], calls, [used_by_derivative])] == [
        "parameter",
        "negate",
    ]
