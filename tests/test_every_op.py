"""Each public op, by the example in its docstring, in every step from recording to derivatives.

Each step is one test over all ops; a failure lists the ops. The slow tests that use `recorded_ops`
do most of it with the ops of the corpora.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cost_cases import CASES
from round_trip import REPLACED, read_back
from scripts import ROOT
from support import flat, same_program, small_numbers
from tables import each_row

import builder as xb
import lowering
from builder.inspection.stats import Cost, cost_of
from builder.schema import SCHEMAS, CostClass
from builder.types.shape import leaves
from examples import recorded_by_example
from lowering.interpreter import helper, tolerances
from lowering.jaxlib_api import hlo_conversion
from lowering.ops.registry import CHECKS, EXCEPTIONS, STABLEHLO_RULES

UNDESCRIBED = {
    "function",  # a Python function
    "number",  # of a parameter
    "shape_with_layout",  # in place of the shape of the op
    "value",  # of a constant
}
"""The attributes that no schema describes: they have no text, or it depends on the op's shape."""

WITHOUT_INSTRUCTION = ["dynamic_gather", "dynamic_iota", "dynamic_pad", "real_dynamic_slice"]

IMPORTED_AS_OTHER_OPS = {
    "all_to_all",
    "all_to_all_tuple",
    "custom_call",
    "scan",
    "stochastic_convert_type",
}
"""docs/architecture.md lists them."""

IMPORTED_FROM_HLO_AS_OTHER_OPS = {
    "all_to_all": "HLO's result has the blocks in another order; ops transpose them",
    "broadcast_in_dim": "HLO does not broadcast dimensions of size 1; a reshape removes them",
    "spmd_full_to_shard_shape": "the sharding of HLO's root is also that of the result",
    "spmd_shard_to_full_shape": "the sharding of HLO's root is also that of the result",
}

NEWER_THAN_THE_OLDEST = {
    *("mulhi", "acos", "acosh", "asin", "asinh", "atanh", "cosh", "erf", "sinh", "tan"),
    *(
        "collective_broadcast",
        "ragged_dot",
        "composite_call",
        "custom_call",
        "python_call",
        "top_k",
    ),
}
"""The ops that the oldest version of StableHLO does not have."""

OPTIONAL = {"custom_call": {"to_apply"}, "parameter": {"replicated_at_leaf_buffers"}}
"""The attributes that an op may lack, by opcode; of other opcodes "result_accuracy"."""


@cache
def computations(name: str) -> list[xb.XlaComputation]:
    """Return the computations that the example in an operation's docstring records."""
    return recorded_by_example(name)


@cache
def lowered(name: str) -> list[lowering.StablehloModule]:
    return [lowering.lower(computation) for computation in computations(name)]


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

    def test_text_is_read(self, name: str) -> None:
        for module in lowered(name):
            for text in (module.text, module.to_text(locations=True)):
                assert lowering.load_bytes(text).text == module.text

    def test_the_newest_artifact_is_read(self, name: str) -> None:
        for module in lowered(name):
            again = lowering.load_bytes(module.artifact("current"))
            assert again.program_shape == module.program_shape
            if name != "python_call":  # its function is not in the file
                imported = lowering.to_computation(again)
                assert imported.program_shape == module.program_shape

    def test_the_oldest_artifact_is_read_or_refused(self, name: str) -> None:
        refusals = []
        for module in lowered(name):
            try:
                artifact = module.artifact("minimum")
            except lowering.VersionError as error:
                refusals.append(str(error))
            else:
                assert lowering.load_bytes(artifact).program_shape == module.program_shape
        assert bool(refusals) == (name in NEWER_THAN_THE_OLDEST)
        assert all("recorded at <doctest" in refusal for refusal in refusals)

    def test_stablehlo_is_imported(self, name: str) -> None:
        for computation in computations(name):
            read_back(computation)

    def test_the_import_is_equal_by_diff(self, name: str) -> None:
        if name == "python_call":
            return  # its function is not in the file
        differ = [
            computation.diff(lowering.to_computation(module))
            for computation, module in zip(computations(name), lowered(name), strict=True)
        ]
        assert any(differ) == (name in IMPORTED_AS_OTHER_OPS)

    @pytest.mark.usefixtures("read_here")
    def test_hlo_is_imported(self, name: str) -> None:
        if name in ("python_call", "mulhi"):
            return  # StableHLO has no such operation; see test_hlo.py
        for computation, module in zip(computations(name), lowered(name), strict=True):
            again = lowering.from_hlo(str(computation))
            if name in WITHOUT_INSTRUCTION:
                assert [op.opcode for op in again.ops] == [op.opcode for op in computation.ops]
                assert again.root.attributes == computation.root.attributes
                continue
            assert again.name == computation.name
            assert again.program_shape == computation.program_shape
            found = lowering.lower(again)
            is_same = found.text == module.text or same_program(found.bytecode, module.bytecode)
            assert is_same or name in IMPORTED_FROM_HLO_AS_OTHER_OPS

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
        described = re.sub(r"\]\([^)]*\)", "", row).replace("| [", "| ")
        assert f"`{info.opcode}` | `{info.cpp_name}` | {info.section} |" in described

    def test_family_is_a_module(self, name: str) -> None:
        family = xb.OPERATIONS[name].family
        folder = ROOT / "builder" / "ops"
        assert (folder / family).is_dir() or (folder / f"{family}.py").is_file()


def test_every_replacement_is_needed() -> None:
    only_drawn = {"all_gather", "reduce_scatter", "reshape"}  # by the strategies
    pairs = [(c, read_back(c)) for name in xb.OPERATIONS for c in computations(name)]
    different = {op.opcode for c, difference in pairs if difference for op in c.ops}
    assert different >= set(REPLACED) - only_drawn


def argument(shape: xb.Shape, seed: int = 7) -> Any:
    if isinstance(shape, xb.TupleShape):
        return tuple(argument(element, seed) for element in shape.elements)
    if not isinstance(shape, xb.ArrayShape):
        return None
    return small_numbers(shape.element_type, shape.dimensions, seed)


def constant(b: xb.XlaBuilder, value: Any) -> xb.XlaOp:
    if isinstance(value, tuple):
        return xb.tuple(*[constant(b, one) for one in value]) if value else b.empty_tuple()
    return b.create_token() if value is None else b.constant(value)


def close(results: Any, expected: Any, name: str, tolerance: float = 1e-3) -> None:
    for one, other in zip(flat(results), flat(expected), strict=True):
        if one is None or one.dtype.kind in "biu":
            np.testing.assert_array_equal(one, other, name)
        else:
            wide = np.complex128 if one.dtype.kind == "c" else np.float64
            np.testing.assert_allclose(
                *(np.asarray(one).astype(wide), np.asarray(other).astype(wide)),
                *(tolerance, tolerance),
                err_msg=name,
            )


NOT_INTERPRETED = {
    **dict.fromkeys(("conv", "conv_with_general_padding", "conv_with_general_dimensions"), "slow"),
    **dict.fromkeys(("dynamic_gather", "dynamic_pad"), "XLA can't compile them: test_interpret.py"),
}

SHARDING = {name for name, op in xb.OPERATIONS.items() if op.family == "sharding"}


def test_the_interpreter_agrees_with_the_device_or_refuses_by_name() -> None:
    refused = set()
    whole = xb.XlaBuilder("whole")
    calls, values = [], []
    before = None
    b = xb.XlaBuilder("convolution")
    names = [name for name in xb.OPERATIONS if name not in NOT_INTERPRETED]
    made = [(name, c) for name in names for c in computations(name)]
    made.append(("convolution", b.build(CASES["convolution, reversed"](b))))
    for name, c in made:
        arguments = [argument(parameter.shape) for parameter in c.parameters]
        try:
            value = lowering.interpret(c, *arguments)
        except lowering.ExecutionError as error:
            message = str(error)
            assert "interpreter does not support" in message or "static sizes only" in message
            refused.add(name)
            continue
        before = before or helper.helper_id()
        if name in SHARDING:  # their meshes can't be in one program
            np.testing.assert_array_equal(value, lowering.compile(c, "cpu")(*arguments))
            continue
        # One program for all ops, since compiling many programs takes longer.
        constants = [constant(whole, value) for value in arguments]
        calls.append(xb.call(c, *constants) if constants else whole.call(c))
        values.append((name, value))
    assert helper.helper_id() == before  # it crashed on none of them
    actual = lowering.compile(whole.build(xb.tuple(*calls)), "cpu")()
    for (name, value), ours in zip(values, actual, strict=True):
        close(value, ours, name)
    assert refused >= {"all_reduce", "cholesky", "rng_uniform", "infeed", "send", "custom_call"}
    assert "with_sharding" not in refused


class Differentiable(NamedTuple):
    """An example as a function of its arguments that are not integers, and two of their values."""

    name: str
    function: Callable[..., list[Any]]
    values: list[Any]
    others: list[Any]


NOT_EVALUATED_BY_JAX = {
    *("replica_id", "partition_id", "all_reduce", "cross_replica_sum", "all_gather"),
    *("reduce_scatter", "all_to_all", "all_to_all_tuple", "collective_permute"),
    *("multi_collective_permute", "collective_broadcast", "get_dimension_size"),
    *("set_dimension_size", "remove_dynamic_dimension", "dynamic_reshape", "infeed"),
    *("infeed_with_token", "outfeed", "outfeed_with_token", "send", "send_with_token"),
    *("send_to_host", "recv", "recv_with_token", "recv_from_host"),
    *("reshape_with_inferred_dimension", "spmd_full_to_shard_shape", "spmd_shard_to_full_shape"),
}
"""Their examples have replicas, bounded sizes or channels to the host."""

NO_DERIVATIVE = {"custom_call", "python_call"}


def is_inexact(array: Any) -> bool:
    return bool(jnp.issubdtype(array.dtype, jnp.inexact))


def differentiable() -> Iterator[Differentiable]:
    """Yield the examples that jax evaluates, if arguments and results have floating-point types."""
    for name in xb.OPERATIONS.keys() - NOT_EVALUATED_BY_JAX - NO_DERIVATIVE:
        for c in computations(name):
            evaluate = lowering.to_jax(c)
            values, others = (
                jax.tree.leaves([argument(p.shape, seed) for p in c.parameters]) for seed in (7, 0)
            )
            tree = jax.tree.structure([argument(p.shape) for p in c.parameters])
            places = [place for place, value in enumerate(values) if is_inexact(value)]

            def function(
                *given: Any,
                values: list[Any] = values,
                tree: Any = tree,
                places: list[int] = places,
                evaluate: Any = evaluate,
            ) -> list[Any]:
                all_values = list(values)
                for place, value in zip(places, given, strict=True):
                    all_values[place] = value
                results = jax.tree.leaves(evaluate(*tree.unflatten(all_values)))
                return [result for result in results if is_inexact(result)]

            mine = [values[place] for place in places]
            if mine and jax.eval_shape(function, *mine):
                yield Differentiable(name, function, mine, [others[place] for place in places])


def test_derivatives_and_batches() -> None:
    """Forward and reverse mode are adjoint, and a call is the second one of a batch."""

    def product(ones: list[Any], others: list[Any]) -> Any:
        wide = [(jnp.complex128(a), jnp.complex128(b)) for a, b in zip(ones, others, strict=True)]
        return sum(jnp.sum(a * b) for a, b in wide)

    def checked(cases: list[tuple[list[Any], list[Any]]]) -> Any:
        results = []
        for case, (values, others) in zip(programs, cases, strict=True):
            primal, tangents = jax.jvp(case.function, values, others)
            cotangents = [jnp.cos(jnp.ones_like(y) * (1 + n)) for n, y in enumerate(primal)]
            _, pull = jax.vjp(case.function, *values)
            adjoint = product(tangents, cotangents), product(others, list(pull(cotangents)))
            pairs = [jnp.stack(pair) for pair in zip(others, values, strict=True)]
            batch = jax.vmap(case.function)(*pairs)
            results.append((adjoint, primal, [y[1] for y in batch]))
        return results

    with jax.enable_x64(True):
        programs = list(differentiable())
        cases = [(case.values, case.others) for case in programs]
        results = jax.jit(checked)(cases)
    assert len(programs) > 100
    for case, ((forward, reverse), single, second) in zip(programs, results, strict=True):
        np.testing.assert_allclose(forward.real, reverse.real, 1e-2, 1e-2, err_msg=case.name)
        close(second, single, case.name)


@each_row("name", NOT_EVALUATED_BY_JAX)
def test_what_jax_does_not_evaluate(name: str) -> None:
    with pytest.raises(lowering.LoweringError, match="recorded at <doctest"):
        [lowering.to_jax(computation) for computation in computations(name)]


@each_row("name", NO_DERIVATIVE)
def test_no_derivative(name: str) -> None:
    computation = computations(name)[-1]
    arguments = [argument(parameter.shape) for parameter in computation.parameters]
    with pytest.raises(lowering.LoweringError, match="no derivative"):
        jax.jvp(lowering.to_jax(computation), arguments, arguments)


def test_the_schema_is_that_of_the_table() -> None:
    assert all(SCHEMAS[info.opcode] is info.schema for info in xb.OPERATIONS.values())


def test_lowering_has_no_other_opcodes() -> None:
    opcodes = {info.opcode for info in xb.OPERATIONS.values()}
    assert set(STABLEHLO_RULES) | set(CHECKS) <= opcodes
    assert set(EXCEPTIONS) <= set(STABLEHLO_RULES)
