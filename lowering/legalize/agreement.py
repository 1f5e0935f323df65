"""Branches and loops around collective operations, which all devices have to enter alike.

A device that does not reach an all_reduce keeps the others waiting; after a minute XLA's CPU
backend ends the process. Whether a device reaches it may depend on its arguments. So if a branch or
a loop has such an operation inside, the devices compare their conditions first, and the program
fails if they differ.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from jaxlib.mlir import ir

from builder.types import primitive_type as pt
from lowering.errors import recorded_at
from lowering.jaxlib_api.compilation import CALLBACK_TARGET
from lowering.legalize.op_builder import Attributes, OpBuilder, array_of
from lowering.legalize.ownership import ownership
from lowering.legalize.partitions import is_manual, mark_manual
from lowering.legalize.registry import Target, Value
from lowering.sharding.participants import COLLECTIVES
from lowering.sharding.partitioning import Partitioning

__all__ = ["Disagreement", "compare_conditions"]

_CHOOSING: Final = ("stablehlo.if", "stablehlo.case", "stablehlo.while")
_CALLING: Final = {"func.call": "callee", "stablehlo.composite": "decomposition"}


class Disagreement:
    """What a program calls when devices disagree: notes it, and fails.

    Attributes:
        op: the operation that they disagree about.
        message: what to tell the user.
        noticed: whether it was called.
    """

    def __init__(self, op: str, message: str) -> None:
        self.op = op
        self.message = message
        self.noticed = False

    def __call__(self, *_: Any) -> tuple[np.ndarray[Any, Any], ...]:
        self.noticed = True
        raise RuntimeError(self.message)


def compare_conditions(
    target: Target, module: ir.Operation, partitioning: Partitioning | None = None
) -> None:
    """Compare the conditions of branches and loops with collective operations among the devices.

    Args:
        target: what the module is compiled for.
        module: is changed.
        partitioning: how XLA partitions it, if it does: all devices then have one condition,
            except where each has its own arrays.
    """
    waiting, choosing = _look_through(module)
    own: set[Any] | None = None
    for operation in choosing:
        inside = _collective_in(operation, waiting)
        if inside is None or _is_everywhere_the_same(operation):
            continue
        marked = False
        if partitioning is not None:
            if own is None:
                own = ownership(module).own
            if not _is_its_own(operation, own) or _is_in_part(operation, partitioning):
                continue
            marked = not partitioning.is_shardy
        kind = operation.name.partition(".")[2]
        disagreement = Disagreement(
            kind,
            f"{target.name}: {kind}{recorded_at(operation.location)} goes different ways on "
            f"different devices, and there is {inside} inside, in which some would wait for the "
            f"others forever\nfix: make the condition one that all have, for instance with "
            f"all_reduce",
        )
        index = target.add_callback(disagreement)
        target.created = []
        if kind == "while":
            end = operation.regions[0].blocks[0].operations[-1].operation
            end.operands[0] = _agreed(OpBuilder(target, end), end.operands[0], index)
        else:
            b = OpBuilder(target, operation)
            condition = operation.operands[0]
            if kind == "case":
                condition = _in_range(b, condition, len(operation.regions))
            operation.operands[0] = _agreed(b, condition, index)
        if marked:
            for one in target.created:
                mark_manual(one)


def _is_its_own(choosing: ir.Operation, own: set[Any]) -> bool:
    """Whether in a program that XLA cuts up a condition may differ from device to device."""
    at = choosing
    if choosing.name == "stablehlo.while":
        at = choosing.regions[0].blocks[0].operations[-1].operation
    return at.operands[0] in own or is_manual(choosing)


def _is_in_part(choosing: ir.Operation, partitioning: Partitioning) -> bool:
    """Whether each device has its own along some axes of the mesh alone.

    XLA cuts up the rest there, and has no code for a call of Python that it may cut up.
    """
    manual = ""
    parent = choosing.parent
    while parent is not None:
        if parent.name == "sdy.manual_computation":
            manual += str(parent.attributes["manual_axes"])
        parent = parent.parent
    axes = [f'"{name}"' for name, size in partitioning.axes if size > 1]
    return bool(manual) and not all(axis in manual for axis in axes)


def _look_through(module: ir.Operation) -> tuple[dict[str, str], list[ir.Operation]]:
    """The functions that wait for other devices, each with the op that does; and all choices."""
    inside: dict[str, str] = {}
    callers: dict[str, set[str]] = {}
    choosing: list[ir.Operation] = []

    def look(operation: ir.Operation) -> ir.WalkResult:
        if operation.name in COLLECTIVES:
            inside.setdefault(_function_of(operation), operation.name.partition(".")[2])
        elif operation.name in _CHOOSING:
            choosing.append(operation)
        elif operation.name in _CALLING:
            callers.setdefault(_callee(operation), set()).add(_function_of(operation))
        return ir.WalkResult.ADVANCE

    module.walk(look)
    pending = list(inside)
    while pending:
        callee = pending.pop()
        for caller in callers.get(callee, ()):
            if caller not in inside:
                inside[caller] = inside[callee]
                pending.append(caller)
    return inside, choosing


def _collective_in(operation: ir.Operation, waiting: dict[str, str]) -> str | None:
    """The operation inside of a choice that waits for other devices, or None."""
    found: list[str] = []

    def look(one: ir.Operation) -> ir.WalkResult:
        if one.name in COLLECTIVES:
            found.append(one.name.partition(".")[2])
        elif one.name in _CALLING and _callee(one) in waiting:
            found.append(waiting[_callee(one)])
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    operation.walk(look)
    return found[0] if found else None


def _callee(operation: ir.Operation) -> str:
    return ir.FlatSymbolRefAttr(operation.attributes[_CALLING[operation.name]]).value


def _function_of(operation: ir.Operation) -> str:
    parent = operation.parent
    while parent is not None and parent.name != "func.func":
        parent = parent.parent
    return "" if parent is None else ir.StringAttr(parent.attributes["sym_name"]).value


def _in_range(b: OpBuilder, number: Value, count: int) -> Value:
    """The number of the branch that runs: numbers out of range mean the last one."""
    bits = b.bitcast(number, pt.u32)
    last = b.number(count - 1, pt.u32)
    return b.bitcast(b("minimum", array_of(bits), [bits, last]), pt.s32)


def _agreed(b: OpBuilder, condition: Value, index: int) -> Value:
    """The condition, after a comparison with those of the other devices.

    Args:
        b: creates the operations.
        condition: a scalar.
        index: of the Python function that is called if they differ.
    """
    number = b.converted(condition, pt.s32)
    scalar = array_of(number)
    negative = b("negate", scalar, [number])
    # The largest number and, negated, the smallest.
    both = b.concatenated([b.reshaped(one, (1,)) for one in (number, negative)], 0)
    groups: Attributes = {"replica_groups": "dense<> : tensor<0x0xi64>"}
    if b.target.num_partitions > 1:
        channel = "#stablehlo.channel_handle<handle = 1, type = 1>"
        groups = {**groups, "channel_handle": channel}
    reduced = b.create("all_reduce", [array_of(both)], [both], groups, regions=1)
    b.reducer(reduced.regions[0], pt.s32, "maximum")
    largest, smallest = (b.sliced(reduced.results[0], [n], [n + 1]) for n in (0, 1))
    smallest = b("negate", array_of(smallest), [smallest])
    differ = b.reshaped(b.compared("NE", largest, smallest), ())
    chosen = b.create("if", [scalar], [differ], regions=2)
    there, _ = b.block_in(chosen.regions[0], [])
    call: Attributes = {
        "call_target_name": f'"{CALLBACK_TARGET}"',
        "has_side_effect": True,
        "api_version": "4 : i32",
        "backend_config": f"{{index = {index} : ui64}}",
    }
    there.end([there("custom_call", scalar, [number], call)])
    otherwise, _ = b.block_in(chosen.regions[1], [])
    otherwise.end([number])
    return b.converted(chosen.results[0], array_of(condition).element_type)


_VARYING: Final = COLLECTIVES | {
    *("stablehlo.replica_id", "stablehlo.partition_id", "stablehlo.rng"),
    *("stablehlo.rng_bit_generator", "stablehlo.infeed", "stablehlo.recv"),
    *("stablehlo.custom_call", "stablehlo.composite", "func.call"),
}
"""Operations whose results may differ from device to device, whatever their operands are."""

_MOST_LOOKED_AT: Final = 1000


def _is_everywhere_the_same(operation: ir.Operation) -> bool:
    """Whether the condition is made of constants alone, as that of a loop that counts."""
    if operation.name == "stablehlo.while":
        carried = _counters(operation)
        block = operation.regions[0].blocks[0]
        known = {argument for argument, kept in zip(block.arguments, carried, strict=True) if kept}
        return _is_known(block.operations[-1].operation.operands[0], known)
    return _is_known(operation.operands[0], set())


def _counters(loop: ir.Operation) -> list[bool]:
    """Which values that a loop carries are made of constants and of each other."""
    body = loop.regions[1].blocks[0]
    given = body.operations[-1].operation.operands
    carried = [_is_known(operand, set()) for operand in loop.operands]
    while True:
        known = {argument for argument, kept in zip(body.arguments, carried, strict=True) if kept}
        still = [
            kept and _is_known(value, known) for kept, value in zip(carried, given, strict=True)
        ]
        if still == carried:
            return carried
        carried = still


def _is_known(value: Value, known: set[Any]) -> bool:
    """Whether a value is made of constants, and of values known to be the same everywhere."""
    pending, seen = [value], set(known)
    while pending:
        one = pending.pop()
        if one in seen:
            continue
        seen.add(one)
        if len(seen) > _MOST_LOOKED_AT or isinstance(one.owner, ir.Block):
            return False
        operation = one.owner.operation
        if operation.name in _VARYING or len(operation.regions):
            return False
        pending.extend(operation.operands)
    return True
