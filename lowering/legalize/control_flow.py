"""Rewrites of control flow that XLA compiles incorrectly, or on which devices must agree.

A device that does not reach an all_reduce blocks the others. After a minute, XLA's CPU backend
aborts the process. The condition of a branch or a loop may depend on a device's arguments. So if a
branch or a loop contains a collective operation, the devices first compare their conditions, and
the program fails if the conditions differ.
"""

from __future__ import annotations

from typing import Any, Final

from jaxlib.mlir import ir

from builder.ops.control_flow import DERIVATIVE
from builder.types import primitive_type as pt
from lowering.errors import recorded_at
from lowering.host.callbacks import Disagreement
from lowering.jaxlib_api.compilation import CALLBACK_TARGET
from lowering.legalize.op_builder import Attributes, OpBuilder, array_of, integer_of
from lowering.legalize.partitions import is_manual, mark_manual, value_kinds
from lowering.legalize.registry import ALL_PLATFORMS, Target, Value, rewrite
from lowering.mlir.operations import (
    BRANCHES,
    CALLS,
    CONTROL_FLOW,
    called_function,
    enclosing,
    enclosing_function_name,
    functions_in,
    operations_in,
)
from lowering.sharding.participants import COLLECTIVES
from lowering.sharding.partitioning import Partitioning
from lowering.sharding.texts import SHARDINGS


def separate_branch_shardings(target: Target, module: ir.Operation) -> None:
    """Append an optimization_barrier without a sharding to branches whose shardings differ.

    Both partitioners of XLA use the sharding of the last operation of each branch, and fail if
    these shardings differ.
    """
    for operation in operations_in(module, BRANCHES):
        ends = [region.blocks[0].operations[-1].operation for region in operation.regions]
        for number in range(len(operation.results)):
            texts = [_sharding_of(end.operands[number]) for end in ends]
            if len({*texts} - {""}) > 1:
                for end, text in zip(ends, texts, strict=True):
                    if text and "manual" not in text:
                        b = OpBuilder(target, end)
                        barrier = b.elementwise("optimization_barrier", end.operands[number])
                        end.operands[number] = barrier


def _sharding_of(value: Value) -> str:
    """The sharding of the operation that defines a value, as text; empty without a sharding."""
    if isinstance(value.owner, ir.Block):
        return ""
    operation = value.owner.operation
    names = ("sharding",) if operation.name == "sdy.sharding_constraint" else SHARDINGS
    return next((str(operation.attributes[n]) for n in names if n in operation.attributes), "")


def compare_conditions(
    target: Target, module: ir.Operation, partitioning: Partitioning | None = None
) -> None:
    """Make the devices compare the conditions of branches and loops that contain collectives.

    Args:
        target: what the module is compiled for.
        module: changed in place.
        partitioning: how XLA partitions the program; None if it does not. In a partitioned program
            only a manual condition can differ between devices.
    """
    conditionals, communicating = _find_conditionals(module)
    manual: set[Any] | None = None
    for operation in conditionals:
        collective = _collective_in(operation, communicating)
        if collective is None or _is_uniform(operation):
            continue
        if partitioning is not None:
            if manual is None:
                manual = value_kinds(module).manual
            if not _is_manual_condition(operation, manual) or _is_partly_manual(
                operation, partitioning
            ):
                continue
        kind = operation.name.partition(".")[2]
        disagreement = Disagreement(
            kind,
            f"{kind}{recorded_at(operation.location)} must have the same condition on all devices, "
            f"because it contains {collective}, which waits for all devices; got different "
            "conditions",
            "compute the condition from values that are equal on all devices, for instance with "
            "all_reduce",
            (target.name,),
        )
        index = target.add_callback(disagreement)
        target.created = []
        user = _terminator(operation.regions[0]) if kind == "while" else operation
        b = OpBuilder(target, user)
        condition = user.operands[0]
        if kind == "case":
            condition = _branch_number(b, condition, len(operation.regions))
        user.operands[0] = _compared(b, condition, index)
        if partitioning is not None and not partitioning.is_shardy:
            for created in target.created:
                mark_manual(created)


def _terminator(region: ir.Region) -> ir.Operation:
    terminator: ir.Operation = region.blocks[0].operations[-1].operation
    return terminator


def _is_manual_condition(conditional: ir.Operation, manual: set[Any]) -> bool:
    """Whether a condition in a partitioned program may differ between devices."""
    is_loop = conditional.name == "stablehlo.while"
    user = _terminator(conditional.regions[0]) if is_loop else conditional
    return user.operands[0] in manual or is_manual(conditional)


def _is_partly_manual(conditional: ir.Operation, partitioning: Partitioning) -> bool:
    """Whether the values at a branch or loop are manual along some, but not all, axes of the mesh.

    XLA shards the values along the other axes, and can't shard a call of a Python function.
    """
    manual = "".join(
        str(outer.attributes["manual_axes"])
        for outer in enclosing(conditional)
        if outer.name == "sdy.manual_computation"
    )
    axes = [f'"{name}"' for name, size in partitioning.axes if size > 1]
    return bool(manual) and not all(axis in manual for axis in axes)


def _find_conditionals(module: ir.Operation) -> tuple[list[ir.Operation], dict[str, str]]:
    """Find the branches and loops of a module, and the functions that contain collectives.

    Returns:
        The branches and loops, and a dictionary from each function that contains or calls a
        collective operation to the name of one such operation.
    """
    communicating: dict[str, str] = {}
    callers: dict[str, set[str]] = {}
    for operation in operations_in(module, COLLECTIVES | CALLS.keys()):
        function = enclosing_function_name(operation)
        if operation.name in CALLS:
            callers.setdefault(called_function(operation), set()).add(function)
        else:
            communicating.setdefault(function, operation.name.partition(".")[2])
    pending = list(communicating)
    while pending:
        callee = pending.pop()
        for caller in callers.get(callee, set()) - communicating.keys():
            communicating[caller] = communicating[callee]
            pending.append(caller)
    return operations_in(module, CONTROL_FLOW), communicating


def _collective_in(conditional: ir.Operation, communicating: dict[str, str]) -> str | None:
    """The name of a collective operation inside a branch or loop, or None."""
    for operation in operations_in(conditional, COLLECTIVES | CALLS.keys()):
        if operation.name in COLLECTIVES:
            return operation.name.partition(".")[2]
        if called_function(operation) in communicating:
            return communicating[called_function(operation)]
    return None


def _branch_number(b: OpBuilder, number: Value, count: int) -> Value:
    """Return the index of the branch that runs; an index out of range selects the last branch."""
    bits = b.bitcast(number, pt.u32)
    return b.bitcast(b.elementwise("minimum", bits, b.number(count - 1, pt.u32)), pt.s32)


def _compared(b: OpBuilder, condition: Value, index: int) -> Value:
    """Create operations that compare a condition over the devices; return the condition.

    They call a Python function at run time if the devices' conditions differ.

    Args:
        b: creates the operations.
        condition: the scalar condition of a branch or loop.
        index: the index of the Python function.
    """
    number = b.converted(condition, pt.s32)
    scalar = array_of(number)
    negative = b.elementwise("negate", number)
    # The maxima over the devices are the largest number, and the negated smallest number.
    both = b.concatenated([b.reshaped(value, (1,)) for value in (number, negative)], 0)
    groups: Attributes = {"replica_groups": "dense<> : tensor<0x0xi64>"}
    if b.target.num_partitions > 1:
        channel = "#stablehlo.channel_handle<handle = 1, type = 1>"
        groups = {**groups, "channel_handle": channel}
    reduced = b.create("all_reduce", [array_of(both)], [both], groups, regions=1)
    b.reducer(reduced.regions[0], pt.s32, "maximum")
    largest, smallest = (b.sliced(reduced.results[0], [n], [n + 1]) for n in (0, 1))
    differ = b.reshaped(b.compared("NE", largest, b.elementwise("negate", smallest)), ())
    branch = b.create("if", [scalar], [differ], regions=2)
    on_true, _ = b.block_in(branch.regions[0], [])
    call: Attributes = {
        "call_target_name": f'"{CALLBACK_TARGET}"',
        "has_side_effect": True,
        "api_version": "4 : i32",
        "backend_config": f"{{index = {index} : ui64}}",
    }
    on_true.end([on_true("custom_call", scalar, [number], call)])
    on_false, _ = b.block_in(branch.regions[1], [])
    on_false.end([number])
    return b.converted(branch.results[0], array_of(condition).element_type)


_VARYING: Final = COLLECTIVES | {
    *("stablehlo.replica_id", "stablehlo.partition_id", "stablehlo.rng"),
    *("stablehlo.rng_bit_generator", "stablehlo.infeed", "stablehlo.recv"),
    *("stablehlo.custom_call", "stablehlo.composite", "func.call"),
}
"""Operations whose results may differ between devices, even if their operands do not."""

_MAX_VISITED_VALUES: Final = 1000


def _is_uniform(conditional: ir.Operation) -> bool:
    """Whether a condition is computed from constants alone, for instance in a counting loop."""
    if conditional.name == "stablehlo.while":
        arguments = _uniform_arguments(conditional, conditional.regions[0])
        return _is_constant(_terminator(conditional.regions[0]).operands[0], arguments)
    return _is_constant(conditional.operands[0], set())


def _uniform_arguments(loop: ir.Operation, region: ir.Region) -> set[Any]:
    """The arguments of a loop's region that are computed from constants alone in each iteration."""

    def arguments_of(of: ir.Region, uniform: list[bool]) -> set[Any]:
        pairs = zip(of.blocks[0].arguments, uniform, strict=True)
        return {argument for argument, is_uniform in pairs if is_uniform}

    body = loop.regions[1]
    uniform = [_is_constant(operand, set()) for operand in loop.operands]
    while True:
        arguments = arguments_of(body, uniform)
        results = zip(uniform, _terminator(body).operands, strict=True)
        still_uniform = [before and _is_constant(value, arguments) for before, value in results]
        if still_uniform == uniform:
            return arguments_of(region, uniform)
        uniform = still_uniform


def _is_constant(value: Value, uniform: set[Any]) -> bool:
    """Whether a value is computed from constants and from values known to be uniform."""
    pending, visited = [value], set(uniform)
    while pending:
        value = pending.pop()
        if value in visited:
            continue
        visited.add(value)
        if len(visited) > _MAX_VISITED_VALUES or isinstance(value.owner, ir.Block):
            return False
        operation = value.owner.operation
        if operation.name in _VARYING or len(operation.regions):
            return False
        pending.extend(operation.operands)
    return True


@rewrite("chlo.scan", "mhlo.scan", platforms=ALL_PLATFORMS)
def scan_without_steps(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Replace a scan over a dimension of size 0 by empty outputs and the initial carries.

    XLA expands a scan into a loop, whose body slices one element along the scanned dimension. With
    a dimension of size 0 the slice is invalid, and the HLO verifier refuses it. The scan should
    return outputs of size 0 and the initial carries.

    Shown by: scan_without_steps.
    """
    outputs, carries = ir.DenseI32ArrayAttr(operation.attributes["resultSegmentSizes"])
    inputs = len(operation.operands) - carries
    values = [*operation.operands[:inputs], *operation.results[:outputs]]
    dimension = integer_of(operation, "dimension")
    shapes = [array_of(value) for value in values]
    if not all(shape.is_static for shape in shapes):
        return None
    if all(shape.dimensions[dimension] for shape in shapes):
        return None
    empty = [b.filled(array_of(result), 0) for result in operation.results[:outputs]]
    return [*empty, *operation.operands[inputs:]]


@rewrite("stablehlo.optimization_barrier", platforms=ALL_PLATFORMS)
def barrier_of_a_derivative(_: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Remove a barrier that only marks a value for derivatives, as `lib.stop_gradient` records it.

    XLA would keep the barrier until its last passes, and would not fuse operations across the
    barrier.
    """
    name = "mhlo.frontend_attributes"
    if name not in operation.attributes:
        return None
    is_mark = DERIVATIVE in ir.DictAttr(operation.attributes[name])
    return list(operation.operands) if is_mark else None


@rewrite("func.call", platforms=("cpu",))
def call_in_map(b: OpBuilder, operation: ir.Operation) -> list[Value] | None:
    """Inline a function call in the computation of a map.

    If the computation of a map consists of a single call, XLA's CPU compiler replaces the map by a
    call of the function with the map's operands. The function's parameters are scalars, so the
    shapes differ and the compiler fails: "Operand shape does not match parameter's shape". The map
    should apply the function to each element.

    Shown by: map_of_a_call.
    """
    parent = operation.parent
    if parent is None or parent.name != "stablehlo.map":
        return None
    (*_, module) = enclosing(operation)
    (function,) = functions_in(module, called_function(operation))
    return b.inline(function, 0, operation.operands)
