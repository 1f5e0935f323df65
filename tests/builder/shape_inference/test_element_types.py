"""Schemas have the element types of operands, and inference functions accept exactly these."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tables import each_row

import builder as xb
from builder.checking import Check
from builder.schema import SCHEMAS, Schema
from builder.types.primitive_type import ALL

infer = xb.shape_inference

COMPUTATIONS = "any shapes that its computations take"

WITHOUT: dict[str, dict[str, str]] = {
    "after_all": {"operands": "tokens"},
    "call": {"operands": COMPUTATIONS},
    "composite": {"operands": COMPUTATIONS},
    "conditional": {"pred": "pred or s32, by the form of the call", "operands": COMPUTATIONS},
    "custom_call": {"operands": "any shapes"},
    "fft": {"operand": "depends on fft_type"},
    "get_tuple_element": {"tuple_data": "a tuple"},
    "infeed": {"token": "a token"},
    "optimization_barrier": {"operand": "any shapes"},
    "outfeed": {"operand": "any shape", "token": "a token"},
    "python_call": {"operands": "any shapes of static sizes"},
    "recv": {"token": "a token"},
    "send": {"token": "a token"},
    "tuple": {"operands": "any shapes"},
    "while": {"init": COMPUTATIONS},
}
"""The operands whose element types are not in the schema, by opcode, and the reasons.

Opcodes without operands have no entry: the shape argument of `iota` is not an operand.
"""

Infer = Callable[[xb.PrimitiveType], object]


def scalars(t: xb.PrimitiveType, result: xb.PrimitiveType | None = None) -> xb.ProgramShape:
    """Return the signature of a function of two scalars."""
    return xb.ProgramShape([t[()], t[()]], (result or t)[()])


DOT = (([1], [0]), ([], []))
RAGGED = xb.RaggedDotDimensionNumbers(DOT, [1])
GATHER = xb.GatherDimensionNumbers([1], [], [0], index_vector_dim=1)
SCATTER = xb.ScatterDimensionNumbers([1], [], [0], index_vector_dim=1)
S32 = xb.s32[()]
VECTOR = xb.f32[3]
_FIRST = xb.GatherDimensionNumbers([0], [], [0], 0)


CALLS: dict[str, dict[str, Infer]] = {
    "all_reduce": {"operands": lambda t: infer.all_reduce(t[4], scalars(t))},
    "all_gather": {"operands": lambda t: infer.all_gather(t[4], 0, 2)},
    "reduce_scatter": {"operands": lambda t: infer.reduce_scatter(t[4], scalars(t), 0, 2)},
    "all_to_all": {"operand": lambda t: infer.all_to_all(t[4], 0, 0, 2)},
    "all_to_all_tuple": {"operands": lambda t: infer.all_to_all_tuple([t[4], t[4]], [[0, 1]])},
    "collective_permute": {"operand": lambda t: infer.collective_permute(t[4], [(0, 1)])},
    "collective_broadcast": {"operand": lambda t: infer.collective_broadcast(t[4], [[0, 1]])},
    "dot_general": {"lhs rhs": lambda t: infer.dot_general(t[2, 3], t[3, 4], DOT)},
    "ragged_dot": {
        "lhs rhs": lambda t: infer.ragged_dot(t[2, 3], t[3, 4], xb.s32[2], RAGGED),
        "group_sizes": lambda t: infer.ragged_dot(xb.f32[2, 3], xb.f32[3, 4], t[2], RAGGED),
    },
    "convolution": {"lhs rhs": lambda t: infer.conv(t[1, 1, 6], t[1, 1, 3], [1], xb.Padding.VALID)},
    "scan": {
        "operands": lambda t: infer.scan(
            [t[5]], [t[()]], xb.ProgramShape([t[()], t[()]], xb.tuple_shape([t[()], t[()]])), 0
        )
    },
    "get_dimension_size": {"operand": lambda t: infer.get_dimension_size(t[3], 0)},
    "set_dimension_size": {
        "operand": lambda t: infer.set_dimension_size(t[3], S32, 0),
        "size": lambda t: infer.set_dimension_size(VECTOR, t[()], 0),
    },
    "dynamic_reshape": {
        "operand": lambda t: infer.dynamic_reshape(t[3], [S32], [3], [True]),
        "sizes": lambda t: infer.dynamic_reshape(VECTOR, [t[()]], [3], [True]),
    },
    "dynamic_broadcast_in_dim": {
        "operand": lambda t: infer.dynamic_broadcast_in_dim(t[3], xb.s32[1], [0], t[3]),
        "output_dimensions": lambda t: infer.dynamic_broadcast_in_dim(VECTOR, t[1], [0], VECTOR),
    },
    "dynamic_iota": {
        "output_dimensions": lambda t: infer.dynamic_iota(t[1], 0, VECTOR),
    },
    "real_dynamic_slice": {
        "operand": lambda t: infer.real_dynamic_slice(t[3], *[xb.s32[1]] * 3, t[3]),
        "start_indices limit_indices strides": lambda t: infer.real_dynamic_slice(
            VECTOR, t[1], t[1], t[1], VECTOR
        ),
    },
    "dynamic_gather": {
        "operand": lambda t: infer.dynamic_gather(t[3], xb.s32[1], xb.s32[1], _FIRST, t[3]),
        "start_indices": lambda t: infer.dynamic_gather(VECTOR, t[1], xb.s32[1], _FIRST, VECTOR),
        "slice_sizes": lambda t: infer.dynamic_gather(VECTOR, xb.s32[1], t[1], _FIRST, VECTOR),
    },
    "dynamic_pad": {
        "operand padding_value": lambda t: infer.dynamic_pad(t[3], t[()], *[xb.s32[1]] * 3, t[3]),
        "edge_padding_low edge_padding_high interior_padding": lambda t: infer.dynamic_pad(
            VECTOR, VECTOR.element_type[()], t[1], t[1], t[1], VECTOR
        ),
    },
    "compare": {"lhs rhs": lambda t: infer.compare(t[3], t[3], "EQ")},
    "clamp": {"min operand max": lambda t: infer.clamp(t[()], t[3], t[()])},
    "select": {
        "pred": lambda t: infer.select(t[3], VECTOR, VECTOR),
        "on_true on_false": lambda t: infer.select(xb.pred[3], t[3], t[3]),
    },
    "map": {"operands": lambda t: infer.map([t[3], t[3]], scalars(t), [0])},
    "convert": {"operand": lambda t: infer.convert_element_type(t[3], xb.f32)},
    "bitcast_convert": {"operand": lambda t: infer.bitcast_convert_type(t[3], t)},
    "stochastic_convert": {
        "operand": lambda t: infer.stochastic_convert_type(
            t[3], getattr(xb, f"u{t.bits}", xb.u32)[3], xb.s8
        ),
        "random": lambda t: infer.stochastic_convert_type(
            {4: xb.f4e2m1fn, 8: xb.f8e5m2, 16: xb.f16, 64: xb.f64}.get(t.bits, xb.f32)[3],
            t[3],
            xb.s8,
        ),
    },
    "reduce_precision": {"operand": lambda t: infer.reduce_precision(t[3], 5, 10)},
    "send": {"operand": lambda t: infer.send(t[3], xb.ChannelHandle(1))},
    "dynamic_slice": {
        "operand": lambda t: infer.dynamic_slice(t[3], [S32], [2]),
        "start_indices": lambda t: infer.dynamic_slice(VECTOR, [t[()]], [2]),
    },
    "dynamic_update_slice": {
        "operand update": lambda t: infer.dynamic_update_slice(t[3], t[2], [S32]),
        "start_indices": lambda t: infer.dynamic_update_slice(VECTOR, xb.f32[2], [t[()]]),
    },
    "gather": {
        "operand": lambda t: infer.gather(t[5], xb.s32[2, 1], GATHER, [3]),
        "start_indices": lambda t: infer.gather(xb.f32[5], t[2, 1], GATHER, [3]),
    },
    "scatter": {
        "operands updates": lambda t: infer.scatter(
            [t[5]], xb.s32[2, 1], [t[2, 3]], scalars(t), SCATTER
        ),
        "scatter_indices": lambda t: infer.scatter(
            [xb.f32[5]], t[2, 1], [xb.f32[2, 3]], scalars(xb.f32), SCATTER
        ),
    },
    "cholesky": {"a": lambda t: infer.cholesky(t[3, 3])},
    "triangular_solve": {"a b": lambda t: infer.triangular_solve(t[3, 3], t[3, 1], True)},
    "batch_norm_training": {
        "operand scale offset": lambda t: infer.batch_norm_training(t[2, 3], t[3], t[3], 1)
    },
    "batch_norm_inference": {
        "operand scale offset mean variance": lambda t: infer.batch_norm_inference(
            t[2, 3], t[3], t[3], t[3], t[3], 1
        )
    },
    "batch_norm_grad": {
        "operand scale mean variance grad_output": lambda t: infer.batch_norm_grad(
            t[2, 3], t[3], t[3], t[3], t[2, 3], 1
        )
    },
    "rng": {"a b": lambda t: infer.rng_uniform(t[()], t[()], t[3])},
    "rng_bit_generator": {"initial_state": lambda t: infer.rng_bit_generator(t[2], xb.u32[3])},
    "reduce": {"operands init_values": lambda t: infer.reduce([t[3]], [t[()]], scalars(t), [0])},
    "reduce_window": {
        "operands init_values": lambda t: infer.reduce_window(
            [t[3]], [t[()]], scalars(t), [2], [1], []
        )
    },
    "select_and_scatter": {
        "operand source init_value": lambda t: infer.select_and_scatter(
            t[4], scalars(t, xb.pred), [2], [2], [], t[2], t[()], scalars(t)
        )
    },
    "sort": {"operands": lambda t: infer.sort([t[3]], scalars(t, xb.pred))},
    "top_k": {"operand": lambda t: infer.top_k(t[3], 2)},
    "reshape": {"operand": lambda t: infer.reshape(t[3], [3, 1])},
    "reverse": {"operand": lambda t: infer.rev(t[3], [0])},
    "transpose": {"operand": lambda t: infer.transpose(t[2, 3], [1, 0])},
    "broadcast_in_dim": {"operand": lambda t: infer.broadcast_in_dim(t[3], [2, 3], [1])},
    "concatenate": {"operands": lambda t: infer.concatenate([t[3], t[2]], 0)},
    "pad": {
        "operand padding_value": lambda t: infer.pad(t[3], t[()], xb.PaddingConfig([(1, 0, 2)]))
    },
    "slice": {"operand": lambda t: infer.slice(t[3], [0], [2])},
}
"""A call of each opcode with element types, for operands that have one type."""


def elementwise(schema: Schema) -> dict[str, Infer]:
    """Return the call of an opcode whose shape is inferred from its schema."""
    operands = schema.operands
    # The first function of an opcode; `square`, for instance, comes after `mul`.
    name = next(name for name, info in xb.OPERATIONS.items() if info.schema is schema)
    count = len(operands.split())
    return {operands: lambda t: getattr(infer, name)(*[t[3]] * count)}


def calls_of(schema: Schema) -> dict[str, Infer]:
    """Return the calls by the names of the operands whose element type varies."""
    if not schema.element_types:
        return {}
    return CALLS.get(schema.opcode) or elementwise(schema)


VARIED = [(schema.opcode, operands) for schema in SCHEMAS.values() for operands in calls_of(schema)]


def refusal(call: Infer, t: xb.PrimitiveType) -> str:
    """Return the rule about element types that a call breaks, or the empty string."""
    try:
        call(t)
    except xb.ShapeInferenceError as error:
        rule = str(error).splitlines()[0]
        if " type, got " in rule:
            return rule
        # No floating-point type is as wide as u2.
        assert "random must have as many bits" in rule
        assert t is xb.u2
    return ""


@each_row("opcode", SCHEMAS)
def test_an_operand_has_element_types_or_a_reason(opcode: str) -> None:
    schema = SCHEMAS[opcode]
    names = {name.removeprefix("*") for name in schema.operands.split()}
    assert names - schema.element_types.keys() == WITHOUT.get(opcode, {}).keys()


def test_reasons_are_of_opcodes() -> None:
    assert WITHOUT.keys() <= SCHEMAS.keys()


@each_row("opcode", SCHEMAS)
def test_each_operand_is_varied(opcode: str) -> None:
    varied = [name for operands in calls_of(SCHEMAS[opcode]) for name in operands.split()]
    assert sorted(varied) == sorted(SCHEMAS[opcode].element_types)


@each_row("opcode, operands", VARIED)
def test_inference_accepts_the_element_types_of_the_schema(opcode: str, operands: str) -> None:
    schema = SCHEMAS[opcode]
    call = calls_of(schema)[operands]
    (allowed,) = {schema.element_types[name] for name in operands.split()}
    for t in ALL:
        rule = refusal(call, t)
        assert bool(rule) == (t not in allowed.types), (t, rule)
        assert not rule or f"must be of {allowed.text} type, got {t}" in rule


def test_results_have_no_layout() -> None:
    """The result has the sizes and the element type of the operand, but not its object."""
    operand, result = xb.parse_shape("f32[2,<=3]{0,1}"), xb.parse_shape("f32[2,<=3]")
    assert infer.neg(operand) is result
    assert infer.add(operand, operand) is result
    assert infer.convert_element_type(operand, xb.f32) is result
    assert infer.reduce_precision(operand, 8, 7) is result


def test_tuples_have_no_element_type_that_an_operand_may_have() -> None:
    check = Check("neg", operand=xb.parse_shape("(f32[2])"))
    with pytest.raises(xb.ShapeInferenceError, match=r"^neg: operand must be an array, got a "):
        check.element_type("operand", ("floating-point", {xb.f32}))
