"""Every opcode is imported from the operation that it is lowered to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from imported import of_text
from jaxlib.mlir import ir
from recorded_ops import FREE, converts_sizes, recorded_ops
from round_trip import same

import builder as xb
import lowering
from builder.attributes import CustomCallApiVersion
from builder.graph.recording import record
from builder.graph.registry import OPERATIONS
from builder.schema import SCHEMAS, Attribute, Schema
from builder.schema.kinds import INTEGERS
from builder.types.shape import UNBOUNDED, leaf_count, leaves
from lowering.host.custom_calls import is_reserved_target
from lowering.importer.by_schema import derived_importer, importer_of
from lowering.ops.registry import IMPORTERS

BECOMES_OTHER_OPS = {
    "all_to_all_tuple": "lowered to an all_to_all of the operands side by side",
    "scan": "lowered to a loop",
    "stochastic_convert": "lowered to arithmetic on bits",
}
"""Opcodes whose ops are all imported as other opcodes; so are those in `FREE`."""

Reason = Callable[[xb.XlaOp], bool]
"""Returns whether it is the reason why an op is imported as other opcodes or attributes."""


def is_static_where_an_operand_is_bounded(op: xb.XlaOp) -> bool:
    """A size 1 of an implicit broadcast is static; inference of equal shapes takes the bound."""
    return any(
        bounded and not result
        for operand in op.operands
        for bounded, result in zip(
            operand.shape.dynamic_dimensions, op.shape.dynamic_dimensions, strict=True
        )
    )


def has_several_bounds(op: xb.XlaOp) -> bool:
    """StableHLO has no operation for a result with several bounded sizes."""
    return sum(op.shape.dynamic_dimensions) > 1


def has_several_bounds_inside(op: xb.XlaOp) -> bool:
    return any(
        inner.opcode == "broadcast_in_dim" and has_several_bounds(inner)
        for computation in op.called_computations
        for inner in computation.ops
    )


def is_global_without_a_channel(op: xb.XlaOp) -> bool:
    """StableHLO's use_global_device_ids needs a channel, which is added."""
    return op.attributes["use_global_device_ids"] and op.attributes["channel_handle"] is None


def sizes_along(op: xb.XlaOp, attribute: str) -> set[int]:
    shapes = [*(operand.shape for operand in op.operands), *leaves(op.shape)]
    return {shape.dimensions[op.attributes[attribute]] for shape in shapes}


def is_empty(op: xb.XlaOp, attribute: str) -> bool:
    """An empty result is a constant."""
    return 0 in sizes_along(op, attribute)


def is_unbounded(op: xb.XlaOp, attribute: str) -> bool:
    """The number of shards does not follow from an unbounded size."""
    return UNBOUNDED in sizes_along(op, attribute)


def receives_layouts(op: xb.XlaOp) -> bool:
    """A custom call of arrays with several orders is lowered with the default layouts."""
    shapes = [op.shape, *(operand.shape for operand in op.operands)]
    return (
        op.attributes["operand_shapes_with_layout"] is None
        and not is_reserved_target(op.attributes["call_target_name"])
        and any(s.is_array and s.rank > 1 for shape in shapes for s in leaves(shape))
    )


def is_text_of_mlir(op: xb.XlaOp) -> bool:
    """The configuration of a typed call is a dictionary, which MLIR prints in its own way."""
    opaque = op.attributes["opaque"]
    if op.attributes["api_version"] != CustomCallApiVersion.API_VERSION_TYPED_FFI:
        return False
    with ir.Context():
        return str(ir.Attribute.parse(opaque or "{}")) != opaque


def has_layouts_of_tuples(op: xb.XlaOp) -> bool:
    """StableHLO has the layouts of the arrays in a tuple."""
    shapes = op.attributes["operand_shapes_with_layout"]
    return shapes is not None and any(shape.is_tuple for shape in shapes)


SOME_DIFFER: dict[str, tuple[Reason, ...]] = {
    **dict.fromkeys(
        ["add", "and", "compare", "complex", "maximum", "minimum", "multiply", "or", "shift_left"],
        (is_static_where_an_operand_is_bounded,),
    ),
    "all_gather": (
        lambda op: is_empty(op, "all_gather_dim"),
        lambda op: is_unbounded(op, "all_gather_dim") and op.attributes["shard_count"] > 1,
        is_global_without_a_channel,
    ),
    "all_reduce": (is_global_without_a_channel,),
    # No groups are one group of all in StableHLO.
    "all_to_all": (lambda op: not op.attributes["replica_groups"].groups,),
    "broadcast_in_dim": (has_several_bounds,),
    **dict.fromkeys(["call", "conditional"], (converts_sizes,)),
    "while": (converts_sizes, has_several_bounds_inside),
    "custom_call": (receives_layouts, is_text_of_mlir, has_layouts_of_tuples),
    # Sizes that are unbounded in the result alone are inferred, and don't follow from the sizes of
    # the parameters.
    "dynamic_broadcast_in_dim": (
        lambda op: not op.shape.is_bounded and op.operands[0].shape.is_bounded,
    ),
    # It is a reshape.
    "dynamic_reshape": (lambda op: op.shape.rank == 0,),
    # Tokens among the data are left out.
    "infeed": (lambda op: any(s.is_token for s in leaves(op.shape.elements[0])),),
    # Nothing is left of one without operands.
    "optimization_barrier": (lambda op: leaf_count(op.shape) == 0,),
    # A tuple of one element is the element.
    "outfeed": (
        lambda op: op.operands[0].shape.is_tuple and leaf_count(op.operands[0].shape) == 1,
    ),
    "reduce_scatter": (
        lambda op: is_empty(op, "scatter_dimension"),
        lambda op: is_unbounded(op, "scatter_dimension"),
        is_global_without_a_channel,
        # Each operand has its own operation.
        lambda op: len(op.operands) > 1,
    ),
    "reshape": (has_several_bounds,),
    # Removing a bound sets the size to the bound.
    "set_dimension_size": (lambda op: not op.shape.dynamic_dimensions[op.attributes["dimension"]],),
}
"""The conditions under which an op is imported with another opcode or attributes, by opcode."""


def round_trips(opcode: str) -> list[tuple[xb.XlaOp, str | None]]:
    """Return each recorded op of an opcode that can be lowered, and the difference, or None."""
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
            differences.append((op, difference and f"{name}: {difference}"))
    return differences


@pytest.mark.slow
@pytest.mark.jaxlib
@pytest.mark.parametrize("opcode", [opcode for opcode in SCHEMAS if opcode not in FREE])
def test_ops_are_imported_as_the_same_opcode(opcode: str) -> None:
    differences = round_trips(opcode)
    assert differences
    if opcode in BECOMES_OTHER_OPS:
        assert all(difference is not None for _, difference in differences)
        return
    reasons = SOME_DIFFER.get(opcode, ())
    unused = set(reasons)
    faults = []
    for op, difference in differences:
        holding = {reason for reason in reasons if reason(op)}
        unused -= holding
        if difference is not None and not holding:
            faults.append(difference)
        elif difference is None and holding:
            faults.append(f"{op!r} of {[operand.shape for operand in op.operands]} is the same")
    assert not faults, "\n".join(faults)
    assert not unused, "a reason is not needed"


BY_HAND = {
    "after_all": "create_token is an after_all without operands",
    "all_gather": "the public op takes the number of shards, which follows from the shapes",
    "all_to_all": "StableHLO's has several operands",
    "all_to_all_tuple": "lowered to an all_to_all of the operands side by side",
    "broadcast_in_dim": "StableHLO allows dimensions in any order; the result has the sizes",
    "call": "may have no operands",
    "composite": "portable artifacts have operations of CHLO as composites",
    "conditional": "branches use values from outside",
    "constant": "elements of some types are read from bytecode",
    "convert": "complex numbers to pred",
    "convolution": "operands of two types",
    "create_token": "an after_all without operands",
    "custom_call": "other ops are lowered to it; layouts",
    "dot_general": "operands of two types",
    "dynamic_broadcast_in_dim": "a broadcast_in_dim, if the sizes are constant",
    "dynamic_iota": "an iota, if the sizes are constant",
    "dynamic_gather": "a gather, if the sizes are constant",
    "dynamic_pad": "a pad, if the amounts are constant",
    "dynamic_reshape": "sizes are one operand in StableHLO",
    "infeed": "the shape is that of several results",
    "maximum": "complex numbers",
    "minimum": "complex numbers",
    "optimization_barrier": "the public op takes a tuple",
    "python_call": "a custom_call",
    "outfeed": "the public op takes a tuple",
    "ragged_dot": "operands of two types",
    "real_dynamic_slice": "a slice, if the indices are constant or those of a whole array",
    "recv": "channels to the host",
    "reduce_scatter": "the public op takes the number of shards, which follows from the shapes",
    "reshape": "the sizes are those of the result",
    "rng": "one public op for each distribution",
    "scan": "lowered to a loop",
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
    """Another public op for an opcode replaces the one that was used before."""
    calls = []
    public_op = xb.ceil

    def ceil(operand: xb.XlaOp) -> xb.XlaOp:
        calls.append(operand)
        return public_op(operand)

    x = xb.XlaBuilder("program").parameter(xb.f32[2])
    module = lowering.lower(x.builder.build(xb.ceil(x)))
    lowering.to_computation(module)
    monkeypatch.setitem(OPERATIONS, "ceil", replace(OPERATIONS["ceil"], function=ceil))
    lowering.to_computation(module)
    assert len(calls) == 1
    monkeypatch.undo()
    lowering.to_computation(module)
    assert len(calls) == 1


def test_a_new_op_needs_no_importer(monkeypatch: pytest.MonkeyPatch) -> None:
    """`mirror` has the operation of `reverse`, and takes its place."""
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
