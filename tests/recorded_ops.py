"""One computation for each distinct op in the corpora and in the docstrings."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
from scripts import ROOT, load_script

import builder as xb

runner = load_script("tests/conformance/run_cases.py")
platforms = load_script("tools/write_platforms.py")

FILES = ("xlabuilder_cases.jsonl.gz", "xlabuilder_bounded.jsonl.gz")

FREE = ("parameter", "tuple", "get_tuple_element")
"""Opcodes without an operation in StableHLO, whose functions have flat arguments and results."""


def is_op(name: str) -> bool:
    """Whether a function records one op, unlike those of `builder.lib`."""
    return hasattr(xb, name) or name.startswith("b.")


def corpus() -> Iterator[tuple[str, xb.XlaComputation]]:
    """Yield the computations of the valid cases of ops with their ids."""
    for file in FILES:
        for number, case in enumerate(runner.read(ROOT / "tests" / "conformance" / file)):
            adapter = runner.ADAPTERS[case["op"]]
            if not all(map(is_op, adapter.needs)) or "result" not in case:
                continue
            builder = xb.XlaBuilder("case")
            try:
                operands = [builder.parameter(text) for text in case["operands"]]
                root = adapter.call(builder, operands, case["attrs"])
                if isinstance(root, xb.XlaOp):
                    yield case.get("id", f"{file}:{number}"), builder.build(root)
            except xb.XlaError:
                continue


def examples() -> Iterator[tuple[str, xb.XlaComputation]]:
    """Yield the computations in the docstrings of the operations."""
    for name, info in xb.OPERATIONS.items():
        for computation in platforms.computations_of_example(info):
            yield f"xb.{name}", computation
            for callee in computation.called_computations():
                yield f"xb.{name}", callee


def additional() -> Iterator[tuple[str, xb.XlaComputation]]:
    """Yield computations that are neither in the corpora nor in the docstrings."""
    b = xb.XlaBuilder("all_gather of nothing")
    yield b.name, b.build(xb.all_gather(b.parameter(xb.f32[0, 2]), 0, 2, [[0, 1]]))
    b = xb.XlaBuilder("complex NaN")
    yield b.name, b.build(b.constant(np.array([1, complex(np.nan, 1)], np.complex64)))
    b = xb.XlaBuilder("smallest")
    yield b.name, b.build(xb.top_k(b.parameter(xb.f32[5]), 2, largest=False))
    b = xb.XlaBuilder("slice of an unbounded size")
    yield b.name, b.build(xb.slice_in_dim(b.parameter("f32[?,5]"), 1, 3, dimno=1))
    b = xb.XlaBuilder("reshape of an unbounded size")
    x, n = b.parameter("f32[?,5]"), b.parameter(xb.s32[()])
    yield b.name, b.build(xb.dynamic_reshape(x, [n], [xb.UNBOUNDED], [True]))
    b = xb.XlaBuilder("highest accuracy")
    yield b.name, b.build(xb.exp(b.parameter(xb.f32[2]), "HIGHEST"))
    b = xb.XlaBuilder("tolerance")
    accuracy = xb.ResultAccuracy(1e-5, 0.1, 3)
    yield b.name, b.build(xb.tan(b.parameter(xb.f32[2]), accuracy))
    b = xb.XlaBuilder("loop over two bounded sizes")
    x = b.parameter("f32[<=2,<=3]")
    yield (
        b.name,
        b.build(xb.while_(lambda x: xb.lt(xb.get_dimension_size(x, 0), 2), lambda x: x * 2.0, x)),
    )
    b = xb.XlaBuilder("scan of no steps")
    x, total = b.parameter(xb.f32[0]), b.parameter(xb.f32[()])
    yield b.name, b.build(xb.scan(x, total, lambda x, carry: (x + carry, x + carry), 0))


def converts_sizes(op: xb.XlaOp) -> bool:
    """Whether an op applies computations to values whose unbounded sizes are other ones."""
    values = op.operands[1:] if op.opcode == "conditional" else op.operands
    passed = [value.shape for value in values] * (2 if op.opcode == "while" else 1)
    taken = [p.shape for applied in op.called_computations for p in applied.parameters]
    if op.opcode == "conditional":
        return passed != taken or any(c.root.shape is not op.shape for c in op.called_computations)
    return passed != taken


def reaches_an_unbounded_size(op: xb.XlaOp) -> bool:
    return xb.UNBOUNDED in op.attributes["limit_indices"]


@cache
def recorded_ops() -> list[tuple[str, xb.XlaOp, xb.XlaComputation]]:
    """Return each distinct op with the name of its case and a computation of this op alone."""
    found = []
    seen = set()
    for name, computation in (*corpus(), *examples(), *additional()):
        for op in computation.ops:
            shapes = tuple(operand.shape for operand in op.operands)
            key = (op.opcode, op.shape, shapes, str(dict(op.attributes)))
            if op.opcode in FREE or key in seen:
                continue
            seen.add(key)
            inputs = list(dict.fromkeys(op.operands))
            found.append((name, op, computation.extract(op, inputs=inputs)))
    return found
