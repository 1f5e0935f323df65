"""What type checkers infer for programs, and what they refuse: `make types` checks it.

Not executed. If mypy no longer refuses an expression, it reports an unused `type: ignore`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, assert_type

import builder as xb
import lowering


def inferred(b: xb.XlaBuilder, x: xb.XlaOp) -> None:
    assert_type(b.parameter(xb.f32[8]), xb.XlaOp)
    assert_type(x + 1, xb.XlaOp)
    assert_type(x == x, xb.XlaOp)
    assert_type(xb.fft(x, "RFFT", [8]), xb.XlaOp)
    assert_type(xb.dot(x, x, "HIGHEST"), xb.XlaOp)
    assert_type(xb.reduce_window(x, 0, xb.add, [2], None, "SAME"), xb.XlaOp)
    c = assert_type(b.build(x), xb.XlaComputation)
    assert_type(lowering.lower(c), lowering.StablehloModule)
    assert_type(lowering.compile(c), lowering.Executable)
    assert_type(lowering.jit(lambda v: v), lowering.JittedFunction)
    assert_type(lowering.interpret(c, 1, probe=True), lowering.Interpretation)
    assert_type(lowering.interpret(c, 1, probe=["add"]).values, dict[xb.XlaOp, Any])
    assert_type(lowering.interpret(c, 1), Any)
    assert_type(lowering.gradients(x, x), xb.XlaOp)
    assert_type(lowering.gradients(x, {"w": x}), dict[str, xb.XlaOp])
    dot = assert_type(xb.DotDimensionNumbers([1], [0]), xb.DotDimensionNumbers)
    assert_type(dot.lhs_contracting_dimensions, tuple[int, ...])
    assert_type(replace(dot, lhs_batch_dimensions=(0,)), xb.DotDimensionNumbers)
    assert_type(xb.PaddingConfig([(1, 0, 2)]).dimensions, tuple[xb.PaddingConfigDimension, ...])
    assert_type(xb.Mesh({"x": 2}).sharding("x"), xb.MeshSharding)
    loaded = lowering.load_executable("file")
    assert_type(loaded.name, str)
    assert_type(loaded.hlo_text(), str)


def refused(b: xb.XlaBuilder, x: xb.XlaOp, c: xb.XlaComputation) -> list[object]:
    # Each comment has the code of the error that mypy must report for its line; mypy reports a
    # comment that is not needed.
    return [
        xb.reduce_window(x, 0, xb.add, [2], None, "same"),  # type: ignore[arg-type]
        xb.fft(x, "fft", [8]),  # type: ignore[arg-type]
        xb.dot(x, x, ("HIGH", "LOW")),  # type: ignore[arg-type]
        xb.compare(x, x, "<"),  # type: ignore[arg-type]
        xb.triangular_solve(x, x, True, True, False, "T"),  # type: ignore[arg-type]
        lowering.compile(c, results="tuple"),  # type: ignore[call-overload]
        xb.transpose(x, (0,), axes=(0,)),  # type: ignore[call-arg]
        xb.sort(x, axis=0),  # type: ignore[call-arg]
        x.sum,  # type: ignore[attr-defined]
        b.Add,  # type: ignore[attr-defined]
        xb.where,  # type: ignore[attr-defined]
        lowering.grads,  # type: ignore[attr-defined]
        x.shape.dtype,  # type: ignore[union-attr]
        xb.f32[2][0],  # type: ignore[index]
        xb.f32(3),  # type: ignore[operator]
        c(x),  # type: ignore[operator]
        lowering.lower(c)(1),  # type: ignore[operator]
    ]


def immutable(numbers: xb.DotDimensionNumbers) -> None:
    numbers.lhs_contracting_dimensions = ()  # type: ignore[misc]  # mypy must refuse it
