"""A new op is a schema, an inference function and a public function; the rest follows.

The tests define `erf_inv`, a unary op of CHLO, and `mirror`, which is `rev` under another opcode.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
import scipy
from scripts import load_script

import builder as xb
import lowering
from builder.check import Check, integers
from builder.graph.recording import record
from builder.graph.registry import op
from builder.ops.elementwise.common import record_unary
from builder.ops.operands import dimensions_attribute, need_op
from builder.schema import (
    BUILDER_H,
    SCHEMAS,
    Attribute,
    CostClass,
    ResultType,
    define,
)
from builder.schema.element_types import FLOATING
from builder.schema.kinds import INTEGERS
from builder.types.shape import ArrayShape, Shape
from lowering.interpreter import tolerances
from lowering.jaxlib_api import hlo_conversion
from lowering.stablehlo import rules

ONE_TO_ONE = rules.registry.ONE_TO_ONE


@pytest.fixture
def new_ops() -> Iterator[tuple[Callable[..., xb.XlaOp], Callable[..., xb.XlaOp]]]:
    """Define both ops, and remove them after the test."""
    saved = [(table, dict(table)) for table in (SCHEMAS, xb.OPERATIONS, ONE_TO_ONE)]
    functions = define_erf_inv(), define_mirror()
    importlib.reload(rules)  # the tables of `lowering` are filled when it is imported
    yield functions
    for table, before in saved:
        table.clear()
        table.update(before)


def define_erf_inv() -> Callable[..., xb.XlaOp]:
    """Define a unary op. `shape_inference.elementwise.unary` infers its shape from the schema."""
    schema = define(
        "erf_inv",
        "operand",
        section=BUILDER_H,
        element_types={"operand": FLOATING},
        result=ResultType.OPERAND,
        stablehlo="chlo.erf_inv",
        cost=CostClass.TRANSCENDENTAL,
        ulps=16,
    )

    @op(schema, family="elementwise")
    def erf_inv(operand: xb.XlaOp) -> xb.XlaOp:
        return record_unary("erf_inv", "erf_inv", operand)

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

    @op(schema, family="reshaping")
    def mirror(operand: xb.XlaOp, dimensions: Sequence[int]) -> xb.XlaOp:
        numbers = integers("mirror", "dimensions", dimensions)
        shape = infer(need_op("mirror", "operand", operand).shape, numbers)
        return record("mirror", shape, (operand,), dimensions_attribute("dimensions", numbers))

    return mirror


def computation(function: Callable[..., xb.XlaOp], *arguments: object) -> xb.XlaComputation:
    builder = xb.XlaBuilder("new")
    return builder.build(function(builder.parameter(xb.f32[2, 3]), *arguments))


def operations(module: lowering.StablehloModule) -> list[str]:
    (function,) = module.module.body.operations
    return [operation.operation.name for operation in function.regions[0].blocks[0].operations]


def test_a_unary_op(new_ops: tuple[Callable[..., xb.XlaOp], ...]) -> None:
    new = computation(new_ops[0])
    assert " erf-inv(%p0)" in str(new)
    module = lowering.lower(new)
    assert module.module.operation.verify()
    assert operations(module) == ["chlo.erf_inv", "func.return"]
    assert new.stats().transcendentals == 6
    assert tolerances.of_op(new.root) == 16
    values = np.linspace(-0.9, 0.9, 6, dtype=np.float32).reshape(2, 3)
    expected = scipy.special.erfinv(values)
    np.testing.assert_allclose(lowering.compile(new)(values), expected, rtol=1e-5)
    with pytest.raises(xb.ShapeInferenceError, match="erf_inv: operand must be of floating-point"):
        new_ops[0](xb.XlaBuilder().parameter(xb.s32[2]))


def test_an_op_with_an_attribute(new_ops: tuple[Callable[..., xb.XlaOp], ...]) -> None:
    new = computation(new_ops[1], [1])
    assert " reverse(%p0), dimensions={1}" in str(new)
    assert hlo_conversion.hlo_text_to_stablehlo(str(new))
    module = lowering.lower(new)
    assert module.module.operation.verify()
    assert operations(module) == ["stablehlo.reverse", "func.return"]
    assert (new.stats().flops, new.stats().bytes_accessed) == (0, 48)
    assert tolerances.of_op(new.root) == 0
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(lowering.compile(new)(values), values[:, ::-1])
    with pytest.raises(xb.ShapeInferenceError, match="mirror: dimensions must be a dimension"):
        computation(new_ops[1], [2])


@pytest.mark.usefixtures("new_ops")
def test_the_reference() -> None:
    for imported in ("write_platforms", "xla_builder_h"):  # by the next script
        load_script(f"tools/{imported}.py")
    rows = load_script("tools/write_operations.py").document().splitlines()
    place = f"`ErfInv` | {BUILDER_H} | *(not measured)* | *(not measured)* |"
    moved = "`stablehlo.reverse` | data movement | exact |"
    for row in (
        f"| `xb.erf_inv(operand)` | `erf_inv` | {place}",
        "| `erf_inv` | `operand`: floating-point |  | `chlo.erf_inv` | transcendental | 16 |",
        f"| `mirror` | `operand` | `dimensions`: integers | {moved}",
    ):
        assert row in rows


def test_the_tables_are_restored() -> None:
    assert not {"erf_inv", "mirror"} & (SCHEMAS.keys() | xb.OPERATIONS.keys() | ONE_TO_ONE.keys())


def test_import(
    new_ops: tuple[Callable[..., xb.XlaOp], ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Otherwise stablehlo.reverse is imported as the op whose opcode is the operation's name.
    monkeypatch.delitem(SCHEMAS, "reverse")
    for new in (computation(new_ops[0]), computation(new_ops[1], [1])):
        imported = lowering.to_computation(lowering.lower(new))
        assert (imported.root.opcode, imported.root.shape) == (new.root.opcode, new.root.shape)
        assert dict(imported.root.attributes) == dict(new.root.attributes)
