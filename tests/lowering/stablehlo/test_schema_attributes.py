"""Attributes that are written to StableHLO are read back."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo
from recorded_ops import recorded_ops
from tables import each_row

import builder as xb
import lowering
from builder.attributes import DotAlgorithm, DotDimensionNumbers
from builder.schema import SCHEMAS
from builder.schema.kinds import ACCURACY, CONVOLUTION_DIMENSIONS
from lowering.stablehlo.schema_attributes import read_attributes, reader_of


def read_back(computation: xb.XlaComputation, opcode: str) -> dict[str, Any] | None:
    """Return the attributes of the only operation of an opcode in the lowered module."""
    schema = SCHEMAS[opcode]
    results: list[ir.Operation] = []

    def visit(operation: ir.Operation) -> ir.WalkResult:
        if operation.name == schema.stablehlo:
            results.append(operation)
        return ir.WalkResult.ADVANCE

    module = lowering.lower(computation)  # keeps the operations alive
    module.module.operation.walk(visit)
    return read_attributes(schema, results[0].attributes) if len(results) == 1 else None


def expected_attributes(op: xb.XlaOp) -> dict[str, Any]:
    return {
        one.name: op.attributes.get(one.name) if one.written is None else one.written(op.attributes)
        for one in SCHEMAS[op.opcode].value_attributes
        if one.stablehlo is not None
    }


@pytest.mark.slow
@pytest.mark.jaxlib
def test_the_attributes_of_every_op_are_read_back() -> None:
    checked: dict[str, int] = {}
    faults = []
    for name, op, computation in recorded_ops():
        schema = SCHEMAS[op.opcode]
        if not schema.value_attributes or op.opcode in ("scan", "get_tuple_element"):
            continue
        try:
            actual = read_back(computation, op.opcode)
        except lowering.LoweringError:
            continue  # StableHLO can't express it
        if actual is None:
            continue
        if actual != expected_attributes(op):
            faults.append(f"{name}: {op!r}\n  wrote {expected_attributes(op)}\n  read {actual}")
        checked[op.opcode] = checked.get(op.opcode, 0) + 1
    assert not faults, "\n".join(faults[:10])
    described = {opcode for opcode, schema in SCHEMAS.items() if schema.value_attributes}
    # These become other operations (see docs/architecture.md) or attributes of arguments.
    assert described - set(checked) == {"scan", "get_tuple_element", "parameter"}
    assert sum(checked.values()) > 3000


def parsed(text: str) -> ir.Attribute:
    context = ir.Context()
    stablehlo.register_dialect(context)
    return ir.Attribute.parse(text, context)


def test_accuracies_are_read_as_jaxlib_reads_them() -> None:
    draw = random.Random(1)
    read = reader_of("exponential", "result_accuracy")
    patterns = [draw.getrandbits(63) % 0x7FF0000000000001 for _ in range(300)]
    for bits in (0, 1, 0x3EE4F8B588E368F1, 0x3FF0000000000001, 0x7FF0000000000000, *patterns):
        (number,) = struct.unpack("d", struct.pack("Q", bits))
        accuracy = xb.ResultAccuracy(number, 0.1, draw.getrandbits(60))
        attribute = parsed(ACCURACY.stablehlo(accuracy))
        theirs: Any = stablehlo.ResultAccuracyAttr(attribute)
        assert (theirs.atol, theirs.rtol, theirs.ulps) == (number, 0.1, accuracy.ulps)
        assert read(attribute) == accuracy


def test_dimensions_of_convolutions_are_read_as_jaxlib_reads_them() -> None:
    draw = random.Random(1)
    read = reader_of("convolution", "dimension_numbers")
    names = xb.ConvolutionDimensionNumbers.__match_args__
    for rank in range(2, 14):
        orders = [draw.sample(range(rank), rank) for _ in range(3)]
        fields = [field for a, b, *rest in orders for field in (a, b, tuple(rest))]
        numbers = xb.ConvolutionDimensionNumbers(*fields)
        attribute = parsed(CONVOLUTION_DIMENSIONS.stablehlo(numbers))
        theirs: Any = stablehlo.ConvDimensionNumbers(attribute)
        assert [getattr(theirs, name) for name in names] == [
            list(field) if isinstance(field, tuple) else field for field in fields
        ]
        assert read(attribute) == numbers


def test_other_attributes_are_refused() -> None:
    for opcode, name, text, message in (
        ("exponential", "result_accuracy", "1 : i64", "result_accuracy must be a result accuracy"),
        ("all_reduce", "channel_handle", "1 : i64", "channel_handle must be a channel handle"),
        ("all_reduce", "replica_groups", "[0]", "replica_groups must be a table of numbers"),
        ("collective_permute", "source_target_pairs", "[0]", "pairs must be a table of numbers"),
        ("dot_general", "algorithm", "1 : i64", "XLA has no dot algorithm equal to 1 : i64"),
    ):
        with pytest.raises(xb.XlaError, match=message):
            reader_of(opcode, name)(parsed(text))


TYPES = {
    "DOT_ANY_F8_ANY_F8_F32": (xb.f8e5m2, xb.f32),
    "DOT_ANY_F8_ANY_F8_F32_FAST_ACCUM": (xb.f8e5m2, xb.f32),
    "DOT_F16_F16_F16": (xb.f16, xb.f16),
    "DOT_F16_F16_F32": (xb.f16, xb.f32),
    "DOT_BF16_BF16_BF16": (xb.bf16, xb.bf16),
    "DOT_F64_F64_F64": (xb.f64, xb.f64),
}
"""The element types of operands and result that are not f32."""


@each_row("algorithm", DotAlgorithm)
def test_every_algorithm_of_a_dot_is_read_back(algorithm: DotAlgorithm) -> None:
    operand, result = TYPES.get(algorithm.name, (xb.f32, xb.f32))
    b = xb.XlaBuilder("dot")
    x = b.parameter(xb.array_shape(operand, [2, 2]))
    dot = xb.dot_general(
        x, x, DotDimensionNumbers([1], [0]), preferred_element_type=result, algorithm=algorithm
    )
    computation = b.build(dot)
    actual = read_back(computation, "dot_general")
    assert actual is not None
    assert actual["algorithm"] is algorithm
