"""Each operation in the table is printed, lowered, measured and documented.

Other tests also have a case for each operation: test_docstrings.py runs the examples,
test_platforms.py compiles and executes them on CPU or expects the refusal that docs/platforms.json
records, and lowering/importer/test_schema_import.py imports them.
"""

from __future__ import annotations

import math
from functools import cache

from scripts import ROOT, load_script
from tables import each_row

import builder as xb
import lowering
from builder.inspection.costs import Cost, cost_of
from builder.schema import SCHEMAS, CostClass
from builder.types.shape import leaves
from lowering.interpreter import tolerances
from lowering.jaxlib_api import hlo_conversion
from lowering.ops.registry import CHECKS, EXCEPTIONS, STABLEHLO_RULES

platforms = load_script("tools/write_platforms.py")


UNDESCRIBED = {
    "function",  # a Python function
    "number",  # of a parameter
    "shape_with_layout",  # in place of the shape of the op
    "value",  # of a constant
}
"""The attributes that no schema describes: they have no text, or it depends on the op's shape."""

OPTIONAL = {"custom_call": {"to_apply"}, "parameter": {"replicated_at_leaf_buffers"}}
"""The attributes that an op may lack, by opcode; of other opcodes "result_accuracy"."""


@cache
def computations(name: str) -> list[xb.XlaComputation]:
    """Return the computations that the example in an operation's docstring records."""
    return platforms.computations_of_example(xb.OPERATIONS[name])


def ops(name: str) -> list[xb.XlaOp]:
    """The ops of the examples, and of the computations that they apply."""
    return [
        op
        for computation in computations(name)
        for each in (computation, *computation.called_computations())
        for op in each.ops
    ]


def elements_of(shape: xb.Shape) -> int:
    """The number of elements of an array; 0 for a token."""
    return math.prod(shape.dimensions) if shape.is_array else 0


@each_row("name", xb.OPERATIONS)
class TestEveryOperation:
    def test_example_records_the_opcode(self, name: str) -> None:
        recorded = {op.opcode for computation in computations(name) for op in computation.ops}
        assert xb.OPERATIONS[name].opcode in recorded

    def test_xla_parses_the_hlo_text(self, name: str) -> None:
        for computation in computations(name):
            assert hlo_conversion.hlo_text_to_stablehlo(str(computation))

    def test_lowers_to_a_verified_module(self, name: str) -> None:
        for computation in computations(name):
            assert lowering.lower(computation).module.operation.verify()

    def test_schema_describes_the_attributes(self, name: str) -> None:
        for op in ops(name):
            schema = SCHEMAS[op.opcode]
            optional = OPTIONAL.get(op.opcode, {"result_accuracy"})
            described = {*(one.name for one in schema.value_attributes), *schema.computations}
            assert described - optional <= set(op.attributes) <= described | UNDESCRIBED

    def test_cost_is_that_of_the_schema(self, name: str) -> None:
        for op in ops(name):
            elements = sum(elements_of(leaf) for leaf in leaves(op.shape))
            moved = elements + sum(
                elements_of(leaf) for o in op.operands for leaf in leaves(o.shape)
            )
            cost = cost_of(op, lambda applied: Cost(flops=1))
            operations = cost.flops, cost.transcendentals
            match SCHEMAS[op.opcode].cost:
                case CostClass.FREE:
                    assert cost == Cost()
                case CostClass.ELEMENTWISE:
                    assert operations == (elements, 0)
                case CostClass.TRANSCENDENTAL:
                    assert operations == (0, elements)
                case CostClass.DATA_MOVEMENT | CostClass.CUSTOM:
                    assert operations == (0, 0)
                case CostClass.RULE:
                    assert any(cost)
            if SCHEMAS[op.opcode].cost not in (CostClass.FREE, CostClass.RULE):
                assert (cost.bytes_accessed > 0) == (moved > 0)

    def test_only_exact_ops_have_no_tolerance(self, name: str) -> None:
        for op in ops(name):
            tolerance = SCHEMAS[op.opcode].tolerance
            applied = () if op.opcode == "sort" else op.called_computations  # sort only compares
            is_exact = not tolerance.ulps and not any(
                tolerances.of_op(inner, "cpu")
                for computation in applied
                for inner in computation.ops
            )
            assert (tolerances.of_op(op, "cpu") == 0) == is_exact
            assert tolerances.of_op(op, "cpu") >= tolerance.ulps

    def test_is_documented(self, name: str) -> None:
        info = xb.OPERATIONS[name]
        rows = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8").splitlines()
        call = f"| [`{'b' if info.is_method else 'xb'}.{name}("
        (row,) = (row for row in rows if row.startswith(call))
        assert f"`{info.opcode}` | `{info.cpp_name}` | {info.section} |" in row

    def test_family_is_a_module(self, name: str) -> None:
        family = xb.OPERATIONS[name].family
        folder = ROOT / "builder" / "ops"
        assert (folder / family).is_dir() or (folder / f"{family}.py").is_file()


def test_the_schema_is_that_of_the_table() -> None:
    assert all(SCHEMAS[info.opcode] is info.schema for info in xb.OPERATIONS.values())


def test_lowering_has_no_other_opcodes() -> None:
    opcodes = {info.opcode for info in xb.OPERATIONS.values()}
    assert set(STABLEHLO_RULES) | set(CHECKS) <= opcodes
    assert set(EXCEPTIONS) <= set(STABLEHLO_RULES)
