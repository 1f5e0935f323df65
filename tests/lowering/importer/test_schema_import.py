"""Every opcode is imported from the operation that it is lowered to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from imported import of_text
from recorded_ops import recorded_ops
from round_trip import same

import builder as xb
import lowering
from builder.graph.recording import record
from builder.graph.registry import OPERATIONS
from builder.schema import SCHEMAS, Attribute, Schema
from builder.schema.kinds import INTEGERS
from lowering.importer.by_schema import derived_importer, importer_of
from lowering.importer.registry import IMPORTERS

BECOMES_OTHER_OPS = {
    "all_to_all_tuple": "lowered to an all_to_all of the operands side by side",
    "get_tuple_element": "StableHLO has no tuples: values are passed one by one",
    "parameter": "an argument of the function",
    "scan": "lowered to a loop",
    "stochastic_convert": "lowered to arithmetic on bits",
    "tuple": "StableHLO has no tuples: values are passed one by one",
}
"""Opcodes whose ops are all imported as other opcodes."""

SOME_DIFFER = {
    **dict.fromkeys(
        ["add", "and", "compare", "complex", "maximum", "minimum", "multiply", "or", "shift_left"],
        "the shape of implied broadcasts of bounded sizes differs from that of explicit ones",
    ),
    "all_gather": "an empty result is a constant; sizes that are open are not known",
    "all_reduce": "use_global_device_ids needs a channel",
    "all_to_all": "no groups are written as one group of all",
    "broadcast_in_dim": "a result of bounded sizes has its bounds set by set_dimension_size",
    "custom_call": "the text of `opaque` is MLIR's",
    "dynamic_reshape": "to a scalar it is a reshape",
    "infeed": "tokens among the data are left out",
    "optimization_barrier": "one without operands is removed",
    "outfeed": "tuples in tuples are flattened",
    "reduce_scatter": "use_global_device_ids needs a channel; sizes that are open are not known",
    "reshape": "to several bounded sizes it is a dynamic_reshape",
    "set_dimension_size": "removing a bound sets the size to the bound",
}
"""Opcodes of which some ops are imported as other opcodes or with other attributes."""


def round_trips(opcode: str) -> list[str | None]:
    """Return the difference, or None, for each recorded op of an opcode that can be lowered."""
    differences = []
    for name, op, computation in recorded_ops():
        if op.opcode == opcode:
            try:
                module = lowering.lower(computation)
            except lowering.LoweringError:
                continue
            try:
                difference = same(computation, lowering.to_computation(module))
            except lowering.LoweringError as error:
                difference = str(error)
            differences.append(difference and f"{name}: {difference}")
    return differences


@pytest.mark.parametrize("opcode", SCHEMAS)
def test_ops_are_imported_as_the_same_opcode(opcode: str) -> None:
    differences = round_trips(opcode)
    failures = [difference for difference in differences if difference is not None]
    if opcode in BECOMES_OTHER_OPS:
        assert len(failures) == len(differences)
    elif opcode in SOME_DIFFER:
        assert 0 < len(failures) < len(differences)
    else:
        assert differences
        assert not failures, failures[0]


BY_HAND = {
    "after_all": "create_token is an after_all without operands",
    "all_gather": "the public op takes the number of shards, which follows from the shapes",
    "all_to_all": "StableHLO's has several operands",
    "all_to_all_tuple": "lowered to an all_to_all of the operands side by side",
    "broadcast_in_dim": "StableHLO allows dimensions in any order; the result has the sizes",
    "call": "the operation names a function",
    "composite": "the operation names a function",
    "conditional": "branches use values from outside",
    "constant": "elements of some types are read from bytecode",
    "convert": "complex numbers to pred",
    "convolution": "operands of two types; attributes that may be absent",
    "create_token": "an after_all without operands",
    "custom_call": "other ops are lowered to it; layouts",
    "dot_general": "operands of two types",
    "dynamic_reshape": "sizes are one operand in StableHLO",
    "infeed": "the shape is that of several results",
    "maximum": "complex numbers",
    "minimum": "complex numbers",
    "optimization_barrier": "the public op takes a tuple",
    "python_call": "a custom_call",
    "outfeed": "the public op takes a tuple",
    "ragged_dot": "operands of two types",
    "recv": "channels to the host",
    "reduce_scatter": "the public op takes the number of shards, which follows from the shapes",
    "reduce_window": "attributes that may be absent",
    "reshape": "the sizes are those of the result",
    "rng": "one public op for each distribution",
    "rng_bit_generator": "the public op takes the shape of the second result",
    "scan": "lowered to a loop",
    "select_and_scatter": "attributes that may be absent; the order of arguments",
    "send": "channels to the host",
    "set_dimension_size": "a size that is the bound removes the bound",
    "slice": "slices of a bounded size to a static one",
    "tuple": "may be empty",
    "while": "the body uses values from outside",
}
"""Opcodes whose operations have an importer by hand, with the reason."""


def test_only_these_opcodes_are_imported_by_hand() -> None:
    by_hand = {
        opcode
        for opcode, schema in SCHEMAS.items()
        if schema.stablehlo in IMPORTERS or derived_importer(schema.stablehlo) is None
    }
    assert by_hand == set(BY_HAND)


def test_an_importer_follows_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another public op for an opcode replaces the previous one."""
    calls = []
    public_op = xb.tanh

    def tanh(operand: xb.XlaOp) -> xb.XlaOp:
        calls.append(operand)
        return public_op(operand)

    x = xb.XlaBuilder("program").parameter(xb.f32[2])
    module = lowering.lower(x.builder.build(xb.tanh(x)))
    lowering.to_computation(module)
    monkeypatch.setitem(OPERATIONS, "tanh", replace(OPERATIONS["tanh"], function=tanh))
    lowering.to_computation(module)
    assert len(calls) == 1
    monkeypatch.undo()
    lowering.to_computation(module)
    assert len(calls) == 1


def test_a_new_op_needs_no_importer(monkeypatch: pytest.MonkeyPatch) -> None:
    """`mirror` has the operation of `reverse`, and replaces it."""
    x = xb.XlaBuilder("program").parameter(xb.f32[2, 3])
    module = lowering.lower(x.builder.build(xb.rev(x, [1])))
    monkeypatch.delitem(SCHEMAS, "reverse")
    dimensions = Attribute("places", INTEGERS, stablehlo="dimensions")
    schema = Schema("mirror", "*arrays", (dimensions,), stablehlo="stablehlo.reverse")
    monkeypatch.setitem(SCHEMAS, "mirror", schema)

    def mirror(arrays: Sequence[xb.XlaOp], flavor: int = 0, *, places: Sequence[int]) -> xb.XlaOp:
        (array,) = arrays
        return record("mirror", array.shape, (array,), {"places": tuple(places)})

    monkeypatch.setitem(
        OPERATIONS, "mirror", replace(OPERATIONS["rev"], function=mirror, schema=schema)
    )
    imported = lowering.to_computation(module)
    assert imported.root.opcode == "mirror"
    assert imported.root.attributes == {"places": (1,)}


def test_a_new_op_precedes_a_decomposition(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
        func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
          %0 = chlo.erf_inv %x : tensor<2xf32> -> tensor<2xf32>
          return %0 : tensor<2xf32>
        }"""
    assert of_text(text).root.opcode == "call"
    schema = Schema("erf_inv", "operand", stablehlo="chlo.erf_inv")

    def erf_inv(operand: xb.XlaOp) -> xb.XlaOp:
        return record("erf_inv", operand.shape, (operand,), {})

    monkeypatch.setitem(SCHEMAS, "erf_inv", schema)
    monkeypatch.setitem(
        OPERATIONS, "erf_inv", replace(OPERATIONS["erf"], function=erf_inv, schema=schema)
    )
    assert of_text(text).root.opcode == "erf_inv"
    monkeypatch.undo()
    assert of_text(text).root.opcode == "call"


def test_an_operation_without_a_schema_has_no_importer() -> None:
    assert importer_of("stablehlo.nothing") is None
    assert importer_of("other.add") is None
