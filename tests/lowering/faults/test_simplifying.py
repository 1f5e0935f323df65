"""`lowering.minimize` makes sizes, loops, attributes and element types simpler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tables import each_row

import builder as xb
import lowering
from builder.errors import XlaError
from builder.types.shape import leaves
from examples import recorded_by_example
from lowering.faults.equal_dimensions import EqualDimensions
from lowering.faults.minimizing import _numbers
from lowering.faults.recording_again import CannotChangeError, Change, recorded_again

Is = Callable[..., bool]


def has(*opcodes: str, **attributes: Any) -> Is:
    """The predicate that a program has some ops, one of them with certain attributes."""

    def is_bad(computation: xb.XlaComputation, *_: Any) -> bool:
        every = (computation, *computation.called_computations())
        ops = [op for part in every for op in part.ops]
        wanted = [op for op in ops if op.opcode == opcodes[0]]
        return {*opcodes} <= {op.opcode for op in ops} and any(
            all(op.attributes.get(name) == value for name, value in attributes.items())
            for op in wanted
        )

    return is_bad


def smallest(model: Callable[..., Any], shapes: list[str], is_bad: Is) -> list[str]:
    """Minimize a function of arrays of ones; return the ops with their shapes."""
    b = xb.XlaBuilder("model")
    parameters = [b.parameter(shape) for shape in shapes]
    computation = b.build(model(*parameters))
    arguments = [np.ones(p.shape.dimensions, p.shape.element_type.dtype) for p in parameters]
    found = lowering.minimize(computation, is_bad, *arguments)
    assert found.is_finished
    lowering.compile(found.computation, "cpu")(*found.arguments)
    return [f"{op.opcode} {op.shape}" for op in found.computation.ops]


def pooled(x: xb.XlaOp) -> xb.XlaOp:
    return xb.reduce_window(x, -1e9, xb.max, [1, 3], [1, 2], "SAME")


def split(x: xb.XlaOp) -> xb.XlaOp:
    return xb.transpose(xb.reshape(x, [5, 8, 64]), [1, 0, 2])


def both(x: xb.XlaOp, y: xb.XlaOp) -> xb.XlaOp:
    return xb.concatenate([x, y], 0) * 2.0


def gathered(x: xb.XlaOp, indices: xb.XlaOp) -> xb.XlaOp:
    numbers = xb.GatherDimensionNumbers([1], [0], [0], index_vector_dim=1)
    return xb.gather(x, indices, numbers, [1, 16])


def convolved(x: xb.XlaOp, w: xb.XlaOp) -> xb.XlaOp:
    numbers = xb.ConvolutionDimensionNumbers.default(2)
    padding = [(1, 1), (0, 2)]
    more = {"feature_group_count": 4, "precision": "HIGHEST"}
    return xb.conv_general_dilated(x, w, [2, 2], padding, [1, 2], [1, 1], numbers, **more)


@each_row(
    "model, shapes, opcodes, expected",
    [
        (
            lambda x, w: xb.tanh(x @ w),
            ["f32[64,512]", "f32[512,256]"],
            ["dot_general"],
            ["parameter f32[1,1]", "parameter f32[1,1]", "dot_general f32[1,1]"],
        ),
        (
            pooled,
            ["f32[8,30]"],
            ["reduce_window"],
            ["parameter f32[1,1]", "parameter f32[]", "reduce_window f32[1,1]"],
        ),
        (
            split,
            ["f32[40,64]"],
            ["transpose", "reshape"],
            ["parameter f32[1,1]", "reshape f32[1,1,1]", "transpose f32[1,1,1]"],
        ),
        (
            both,
            ["f32[3,7]", "f32[5,7]"],
            ["concatenate"],
            ["parameter f32[1,1]", "parameter f32[1,1]", "concatenate f32[2,1]"],
        ),
        (
            gathered,
            ["f32[100,16]", "s32[7,1]"],
            ["gather"],
            ["parameter f32[1,1]", "parameter s32[1,1]", "gather f32[1,1]"],
        ),
        (
            convolved,
            ["bf16[2,8,9,9]", "bf16[12,2,3,3]"],
            ["convolution"],
            [
                "parameter f32[1,1,1,1]",
                "parameter f32[1,1,1,1]",
                "convolution f32[1,1,1,1]",
            ],
        ),
        (
            lambda x: xb.pad(x, 0.0, [(1, 2, 1)])[1:9:2],
            ["f64[10]"],
            ["slice", "pad"],
            ["parameter f32[1]", "parameter f32[]", "pad f32[1]", "slice f32[1]"],
        ),
    ],
)
def test_sizes_and_attributes(
    model: Callable[..., Any], shapes: list[str], opcodes: list[str], expected: list[str]
) -> None:
    assert smallest(model, shapes, has(*opcodes)) == expected


def test_attributes_and_sizes_that_the_fault_needs_remain() -> None:
    def is_bad(computation: xb.XlaComputation, *_: Any) -> bool:
        ops = [op for op in computation.ops if op.opcode == "convolution"]
        strides = [op.attributes["window_strides"] for op in ops]
        return any(two == 2 and op.shape.dimensions[3] >= 3 for op in ops for _, two in strides)

    b = xb.XlaBuilder("model")
    x, w = b.parameter("bf16[2,8,9,9]"), b.parameter("bf16[12,2,3,3]")
    computation = b.build(convolved(x, w))
    values = [np.zeros(p.shape.dimensions, xb.bf16.dtype) for p in (x, w)]
    (convolution,) = lowering.minimize(computation, is_bad, *values).computation.ops[2:]
    assert [p.shape for p in convolution.operands] == [xb.f32[1, 1, 1, 3], xb.f32[1, 1, 1, 1]]
    assert convolution.shape == xb.f32[1, 1, 1, 3]
    assert convolution.attributes["window_strides"] == (1, 2)
    assert convolution.attributes["lhs_dilation"] == (1, 2)  # a larger array would need none
    assert convolution.attributes["padding"] == ((0, 0), (0, 0))
    assert convolution.attributes["feature_group_count"] == 1


def test_the_element_with_the_fault_is_kept() -> None:
    """The arguments of a smaller program are the part in which the fault occurs."""
    b = xb.XlaBuilder("model")
    x, w = b.parameter("f32[40,50]", "x"), b.parameter("f32[50]", "w")
    computation = b.build(xb.exp(xb.sqrt(x) * xb.broadcast_in_dim(w, [40, 50], [1])))
    values = np.ones((40, 50), np.float32)
    values[23, 37] = -2

    def is_bad(computation: xb.XlaComputation, *arguments: Any) -> bool:
        kept = {"sqrt", "multiply"} <= {op.opcode for op in computation.ops}
        return kept and lowering.faults.is_not_finite("cpu")(computation, *arguments)

    found = lowering.minimize(computation, is_bad, values, np.ones(50, np.float32))
    assert {op.shape for op in found.computation.ops} == {xb.f32[1, 1]}
    assert -2 in [argument.item() for argument in found.arguments]


def test_annotations_are_removed() -> None:
    b = xb.XlaBuilder("model")
    x = b.parameter("f32[4,2]{0,1}", "x")
    with b.frontend_attributes({"fast": "yes"}), b.scope("layer"):
        y = xb.tanh(x)
    b.setup_alias([], 0)
    computation = b.build(y, result="f32[4,2]{0,1}")
    found = lowering.minimize(computation, has("tanh"), np.ones((4, 2), np.float32)).computation
    assert not found.aliases
    assert found.program_shape.result == xb.f32[1, 1]
    assert "fast" not in lowering.lower(found).text
    assert found.root.metadata.scope == "layer"  # the place of the fault in the model


def iterations(computation: xb.XlaComputation, *arguments: Any) -> int:
    """Return what a loop at the end of a program counted, in steps of 2; 0 without such a loop."""
    if computation.root.opcode != "while":
        return 0
    return int(lowering.interpret(computation, *arguments)[0]) // 2


@each_row("limit", ["an argument", "a constant"])
def test_loops_get_fewer_iterations(limit: str) -> None:
    b = xb.XlaBuilder("model")
    x, count = b.parameter(xb.f32[8], "x"), b.parameter(xb.s32[()], "count")
    given = count if limit == "an argument" else b.constant(90, xb.s32)
    state = (b.constant(0, xb.s32), x, given)
    loop = xb.while_(lambda s: s[0] < s[2], lambda s: (s[0] + 2, xb.sin(s[1]), s[2]), state)
    computation = b.build(loop)
    arguments = np.ones(8, np.float32), np.int32(90)
    found = lowering.minimize(computation, lambda *each: iterations(*each) >= 3, *arguments)
    assert iterations(found.computation, *found.arguments) == 3


def test_no_program_is_tried_that_does_not_end() -> None:
    """With zeros or ones as the argument, the loop would count from 0 or 1 past its limit."""
    b = xb.XlaBuilder("model")
    begin = b.parameter(xb.s32[()], "begin")
    loop = xb.while_(lambda i: xb.ne(i, -3), lambda i: i - 3, begin)
    tried: list[int] = []

    def is_bad(_: xb.XlaComputation, *arguments: Any) -> bool:
        tried.extend(int(argument) for argument in arguments)
        return True

    lowering.minimize(b.build(loop), is_bad, np.int32(6))
    assert not {n for n in tried if n % 3 or n < -3}


def test_element_types() -> None:
    def model(x: xb.XlaOp, n: xb.XlaOp) -> xb.XlaOp:
        y = xb.convert_element_type(x, xb.f64) + b.iota("f64[4]")
        return xb.select(n > 2, y, xb.convert_element_type(n, xb.f64))

    b = xb.XlaBuilder("model")
    x, n = b.parameter("bf16[4]", "x"), b.parameter("u8[4]", "n")
    computation = b.build(model(x, n))
    arguments = np.zeros(4, xb.bf16.dtype), np.zeros(4, np.uint8)
    found = lowering.minimize(computation, has("select", "add", "compare", "convert"), *arguments)
    types = {op.shape.element_type for op in found.computation.ops}
    assert types == {xb.f32, xb.s32, xb.pred}
    only = lowering.minimize(
        computation, lambda c, *_: c.root.shape.element_type is xb.f64, *arguments
    )
    assert only.computation.root.shape == xb.f64[1]


FIXED = {
    "all_gather": "the size is that of an operand for each device",
    "infeed": "the shape of what the host sends is an attribute",
    "infeed_with_token": "the shape of what the host sends is an attribute",
    "python_call": "the function returns certain shapes",
    "recv": "the shape of what is received is an attribute",
    "recv_from_host": "the shape of what is received is an attribute",
    "recv_with_token": "the shape of what is received is an attribute",
    "reduce_scatter": "the size is that of a result for each device",
    "send": "the shape of what is sent is an attribute",
    "send_to_host": "the shape of what is sent is an attribute",
    "send_with_token": "the shape of what is sent is an attribute",
}
"""Ops whose sizes do not change."""

NOT_VERIFIED = {"with_sharding"}
"""The operations of an op may need several ops whose sizes change together."""


def is_static(computation: xb.XlaComputation) -> bool:
    return all(leaf.is_static for op in computation.ops for leaf in leaves(op.shape))


@each_row("name", sorted(xb.OPERATIONS))
def test_each_op_can_be_smaller(name: str) -> None:
    """MLIR's verifiers accept the ops that are recorded with other sizes, and sizes shrink."""
    opcode = xb.OPERATIONS[name].opcode
    examples = recorded_by_example(name)
    computation = [c for c in examples if any(op.opcode == opcode for op in c.ops)][-1]
    if not is_static(computation):
        return
    dimensions = EqualDimensions(computation)
    changes = [Change(likely=dict.fromkeys(dimensions.sizes, 1))]
    for root, size in dimensions.sizes.items():
        changes += [Change(sizes={root: new}) for new in (1, 2) if new < size]
    arguments = [_numbers(p.shape, 1) for p in computation.parameters]
    found = []
    for change in changes:
        try:
            smaller, _ = recorded_again(computation, arguments, dimensions, change)
        except (XlaError, CannotChangeError):
            continue
        found.append(smaller)
    has_sizes = any(size > 1 for size in dimensions.sizes.values())
    assert bool(found) is (has_sizes and name not in FIXED), name
    for smaller in found if name not in NOT_VERIFIED else ():
        lowering.lower(smaller)
