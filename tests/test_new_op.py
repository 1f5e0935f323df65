"""A new op is a schema, an inference function and a public function; the rest follows.

The tests define `erf_inv`, a unary op of CHLO, `mirror`, which is `rev` under another opcode, and
`fold`, which is a reduction under another opcode. They do so after `lowering` was imported and
used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
import scipy
from conformance.test_one_to_one import emitted, expected_count
from scripts import load_script

import builder as xb
import lowering
from builder.checking import Check
from builder.graph.recording import record
from builder.graph.registry import op_by_hand
from builder.ops.definition import op
from builder.ops.elementwise.common import STEEP
from builder.ops.elementwise.unary import unary
from builder.schema import (
    BUILDER_H,
    SCHEMAS,
    Attribute,
    CostClass,
    Tolerance,
    define,
)
from builder.schema.definition import FLOATING
from builder.schema.kinds import COMPUTATION, INTEGERS
from builder.types.shape import ArrayShape, Shape
from lowering.interpreter import tolerances
from lowering.jaxlib_api import hlo_conversion


@pytest.fixture
def new_ops() -> Iterator[tuple[Callable[..., xb.XlaOp], ...]]:
    """Define the ops after `lowering` was used, and remove them after the test."""
    known = computation(xb.rev, [1])
    lowering.to_computation(lowering.lower(known))
    known.stats()
    saved = [(table, dict(table)) for table in (SCHEMAS, xb.OPERATIONS)]
    yield define_erf_inv(), define_mirror(), define_fold()
    for table, before in saved:
        table.clear()
        table.update(before)


def define_erf_inv() -> Callable[..., xb.XlaOp]:
    """Define a unary op, whose rule is that of all unary ops."""

    @unary("erf_inv", FLOATING, STEEP, BUILDER_H, stablehlo="chlo.erf_inv")
    def erf_inv(operand: xb.XlaOp) -> xb.XlaOp:
        """Return the inverse of the error function."""

    return erf_inv


def define_mirror() -> Callable[..., xb.XlaOp]:
    """Define an op with an attribute."""
    schema = define(
        "mirror",
        "operand",
        (Attribute("dimensions", INTEGERS),),
        hlo="reverse",
        stablehlo="stablehlo.reverse",
    )

    def infer(operand: Shape, dimensions: Sequence[int]) -> ArrayShape:
        check = Check("mirror", operand=operand)
        check.dimensions_in_range(dimensions, of="operand", name="dimensions")
        check.unique(dimensions, name="dimensions")
        return check.array("operand")

    @op(schema, infer, family="reshaping")
    def mirror(operand: xb.XlaOp, dimensions: Sequence[int]) -> xb.XlaOp:
        """Reverse an array."""

    return mirror


def define_fold() -> Callable[..., xb.XlaOp]:
    """Define an op that applies a computation."""
    schema = define(
        "fold",
        "operand init_value",
        (Attribute("dimensions", INTEGERS), Attribute("to_apply", COMPUTATION)),
        hlo="reduce",
        stablehlo="stablehlo.reduce",
        cost=CostClass.CUSTOM,
        tolerance=Tolerance(1, terms=lambda op: op.operands[0].shape.element_count),
    )

    @op_by_hand(schema, family="reduction")
    def fold(operand: xb.XlaOp, init_value: xb.XlaOp, to_apply: xb.XlaComputation) -> xb.XlaOp:
        attributes = {"dimensions": tuple(range(operand.shape.rank)), "to_apply": to_apply}
        return record("fold", init_value.shape, (operand, init_value), attributes)

    return fold


def computation(function: Callable[..., xb.XlaOp], *arguments: object) -> xb.XlaComputation:
    builder = xb.XlaBuilder("new")
    return builder.build(function(builder.parameter(xb.f32[2, 3]), *arguments))


def operations(module: lowering.StablehloModule) -> list[str]:
    (function,) = module.module.body.operations
    return [operation.operation.name for operation in function.regions[0].blocks[0].operations]


def has_one_operation_for_each_op(new: xb.XlaComputation) -> bool:
    return emitted(lowering.lower(new)).total() == expected_count(new, set())


def test_a_unary_op(new_ops: tuple[Callable[..., xb.XlaOp], ...]) -> None:
    new = computation(new_ops[0])
    assert " erf-inv(%p0)" in str(new)
    module = lowering.lower(new)
    assert module.module.operation.verify()
    assert operations(module) == ["chlo.erf_inv", "func.return"]
    assert has_one_operation_for_each_op(new)
    assert new.stats().transcendentals == 6
    assert tolerances.of_op(new.root, "cpu") == 16
    values = np.linspace(-0.9, 0.9, 6, dtype=np.float32).reshape(2, 3)
    expected = scipy.special.erfinv(values)
    np.testing.assert_allclose(lowering.compile(new)(values), expected, rtol=1e-5)
    with pytest.raises(xb.ShapeInferenceError, match="erf_inv: operand must be of floating-point"):
        new_ops[0](xb.XlaBuilder().parameter(xb.s32[2]))
    assert xb.shape_inference.erf_inv("f32[2]") is xb.f32[2]


def test_an_op_with_an_attribute(new_ops: tuple[Callable[..., xb.XlaOp], ...]) -> None:
    new = computation(new_ops[1], [1])
    assert " reverse(%p0), dimensions={1}" in str(new)
    assert hlo_conversion.hlo_text_to_stablehlo(str(new))
    module = lowering.lower(new)
    assert module.module.operation.verify()
    assert operations(module) == ["stablehlo.reverse", "func.return"]
    assert has_one_operation_for_each_op(new)
    assert (new.stats().flops, new.stats().bytes_accessed) == (0, 48)
    assert tolerances.of_op(new.root, "cpu") == 0
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(lowering.compile(new)(values), values[:, ::-1])
    with pytest.raises(xb.ShapeInferenceError, match="mirror: dimensions must be a dimension"):
        computation(new_ops[1], [2])


def test_an_op_with_a_computation(new_ops: tuple[Callable[..., xb.XlaOp], ...]) -> None:
    scalar = xb.f32[()]
    builder = xb.XlaBuilder("new")
    zero = builder.parameter(scalar)
    total = xb.computation(scalar, scalar)(lambda x, y: x + y)
    new = builder.build(new_ops[2](builder.parameter(xb.f32[2, 3]), zero, total))
    assert [(a.opcode, a.computations) for a in new.applications()] == [("fold", (total,))]
    assert new.called_computations() == (total,)
    assert has_one_operation_for_each_op(new)
    assert emitted(lowering.lower(new)) == {"stablehlo.reduce": 1, "stablehlo.add": 1}
    assert new.stats().uncounted == {"fold": 1}
    assert tolerances.is_sum(new.root)
    assert tolerances.of_op(new.root, "cpu") == 8
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert lowering.compile(new)(np.float32(1), values) == 16


@pytest.mark.usefixtures("new_ops")
def test_the_reference() -> None:
    for imported in ("write_platforms", "xla_builder_h"):  # by the next script
        load_script(f"tools/{imported}.py")
    writer = load_script("tools/write_operations.py")
    rows = writer.document().splitlines()
    place = f"`ErfInv` | {BUILDER_H} | *(not measured)* | *(not measured)* |"
    moved = "`stablehlo.reverse` | data movement | exact |"
    for row in (
        f"| [`xb.erf_inv(operand)`]({writer.SITE}operations/erf_inv/) | `erf_inv` | {place}",
        "| `erf_inv` | `operand`: floating-point |  | `chlo.erf_inv` | transcendental | 16 |",
        f"| `mirror` | `operand` | `dimensions`: integers | {moved}",
    ):
        assert row in rows


def test_the_tables_are_restored() -> None:
    assert not {"erf_inv", "mirror", "fold"} & (SCHEMAS.keys() | xb.OPERATIONS.keys())


def test_import(new_ops: tuple[Callable[..., xb.XlaOp], ...]) -> None:
    # stablehlo.reverse stays the operation of the opcode `reverse`.
    for new, opcode in (
        (computation(new_ops[0]), "erf_inv"),
        (computation(new_ops[1], [1]), "reverse"),
    ):
        imported = lowering.to_computation(lowering.lower(new))
        assert (imported.root.opcode, imported.root.shape) == (opcode, new.root.shape)
        assert dict(imported.root.attributes) == dict(new.root.attributes)
