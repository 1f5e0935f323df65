"""`lower` and the HLO text have one operation for each recorded op; the exceptions are listed.

docs/architecture.md lists them in two tables, "What StableHLO can't express" and "What HLO text
can't express". The tests lower and print every op of every valid case of the corpora, and of the
examples in the docstrings, in a computation of its own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
from jaxlib.mlir import ir
from recorded_ops import FREE, converts_sizes, reaches_an_unbounded_size, recorded_ops
from scripts import ROOT

import builder as xb
import lowering
from builder.types.shape import leaf_count

STRUCTURE = ("builtin.module", "func.func", "func.return", "stablehlo.return", "sdy.mesh")


@cache
def listed(title: str) -> frozenset[str]:
    """Return the opcodes in the first column of a table of docs/architecture.md."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    section = text.split(f"### {title}\n", 1)[1].split("\n#", 1)[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return frozenset(name for row in rows for name in re.findall(r"`(\w+)`", row))


def bounded_sizes(op: xb.XlaOp) -> int:
    return sum(op.shape.dynamic_dimensions)


def is_partly_empty(op: xb.XlaOp, attribute: str) -> bool:
    dimension = op.attributes[attribute]
    return any(operand.shape.dimensions[dimension] == 0 for operand in op.operands)


def is_stretching(op: xb.XlaOp) -> bool:
    places = op.attributes["broadcast_dimensions"]
    source, result = op.operands[0].shape.dimensions, op.shape.dimensions
    return any(size != result[place] for size, place in zip(source, places, strict=True))


def is_splat_or_complex_nan(op: xb.XlaOp) -> bool:
    value = op.attributes["value"]
    is_splat = value.tobytes() == value.reshape(-1)[:1].tobytes() * value.size
    return bool(is_splat or (value.dtype.kind == "c" and np.isnan(value).any()))


WHEN = {
    "What StableHLO can't express": {
        "stochastic_convert": lambda op: op.shape.element_type.is_signed and op.shape.is_static,
        "all_to_all_tuple": lambda op: True,
        "scan": lambda op: True,
        "rng": lambda op: True,
        "broadcast_in_dim": lambda op: bounded_sizes(op) > 1,
        "reshape": lambda op: bounded_sizes(op) > 1,
        "dynamic_reshape": lambda op: True,
        "slice": reaches_an_unbounded_size,
        **dict.fromkeys(["call", "conditional", "while"], converts_sizes),
        "all_gather": lambda op: is_partly_empty(op, "all_gather_dim"),
        "reduce_scatter": lambda op: (
            len(op.operands) > 1 or is_partly_empty(op, "scatter_dimension")
        ),
        "custom_call": lambda op: op.shape.is_tuple and leaf_count(op.shape) == 1,
        "optimization_barrier": lambda op: leaf_count(op.shape) == 0,
    },
    "What HLO text can't express": {
        "broadcast_in_dim": is_stretching,
        "constant": is_splat_or_complex_nan,
        "all_to_all": lambda op: (
            op.attributes["split_dimension"] != op.attributes["concat_dimension"]
        ),
        "slice": reaches_an_unbounded_size,
        "dynamic_reshape": lambda op: not op.shape.is_bounded,
        "send": lambda op: True,
        "recv": lambda op: True,
    },
}
"""The column "When" of the tables, by opcode."""


def excused(op: xb.XlaOp, title: str) -> set[str]:
    """Return the opcodes of an op and of applied ops that the table lists for such ops."""
    rows = WHEN[title]
    return {one.opcode for one in nested_ops(op) if one.opcode in rows and rows[one.opcode](one)}


def expected_count(computation: xb.XlaComputation, functions: set[xb.XlaComputation]) -> int:
    """Return the number of operations if each op has one; a called function counts once."""
    count = 0
    for op in computation.ops:
        if op.opcode in FREE:
            continue
        count += 1
        for applied in op.called_computations:
            if op.opcode not in ("call", "composite"):
                count += expected_count(applied, functions)
            elif applied not in functions:
                functions.add(applied)
                count += expected_count(applied, functions)
    return count


def emitted(module: lowering.StablehloModule) -> Counter[str]:
    """Count the operations of a module, without modules, functions and returns."""
    counts: Counter[str] = Counter()

    def visit(operation: ir.Operation) -> ir.WalkResult:
        if operation.name not in STRUCTURE:
            counts[operation.name] += 1
        return ir.WalkResult.ADVANCE

    module.module.operation.walk(visit)
    return counts


def nested_ops(op: xb.XlaOp) -> Iterator[xb.XlaOp]:
    yield op
    for called in op.called_computations:
        for each in (called, *called.called_computations()):
            yield from each.ops


@pytest.mark.slow
def test_stablehlo_has_one_operation_for_each_op() -> None:
    allowed = listed("What StableHLO can't express")
    deviating = set()
    checked = 0
    faults = []
    for name, op, computation in recorded_ops():
        try:
            module = lowering.lower(computation)
        except lowering.LoweringError:
            continue  # refused: nothing is exported
        checked += 1
        counts = emitted(module)
        if counts.total() == expected_count(computation, set()):
            continue
        opcodes = excused(op, "What StableHLO can't express")
        deviating |= opcodes
        if not opcodes:
            faults.append(f"{name}: {op!r} becomes {dict(counts)}")
    assert not faults, "\n".join(faults[:20])
    assert checked > 4500
    assert deviating == allowed, "a row of the table is not needed"


_INSTRUCTION = re.compile(r"^ +(?:ROOT )?\S+ = ", re.MULTILINE)


@pytest.mark.slow
def test_hlo_text_has_one_instruction_for_each_op() -> None:
    allowed = listed("What HLO text can't express")
    deviating = set()
    faults = []
    for name, op, computation in recorded_ops():
        text = str(computation)
        every = (computation, *computation.called_computations())
        if len(_INSTRUCTION.findall(text)) == sum(len(one.ops) for one in every):
            continue
        opcodes = excused(op, "What HLO text can't express")
        deviating |= opcodes
        if not opcodes:
            faults.append(f"{name}: {op!r} is printed as\n{text}")
    assert not faults, "\n".join(faults[:5])
    assert deviating == allowed, "a row of the table is not needed"


@pytest.mark.parametrize("title", ["What StableHLO can't express", "What HLO text can't express"])
def test_the_tables_name_opcodes(title: str) -> None:
    known = {info.opcode for info in xb.OPERATIONS.values()} | {"broadcast_in_dim", "constant"}
    assert listed(title) <= known
    assert listed(title) == set(WHEN[title])
