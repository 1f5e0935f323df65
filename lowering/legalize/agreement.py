"""Branches and loops around operations across devices: all devices have to go the same way.

A device that does not come to an all_reduce for which the others wait keeps them waiting; after a
minute XLA's CPU backend ends the process. Whether it comes may depend on its arguments. So where
such an operation stands inside a branch or a loop, the devices compare their conditions first, and
all of them give up if they differ.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from jaxlib.mlir import ir

from lowering.errors import recorded_at
from lowering.legalize.ownership import ownership
from lowering.legalize.partitions import is_manual, mark_manual
from lowering.legalize.registry import Rewriter, Value
from lowering.participants import COLLECTIVES
from lowering.partitioning import Partitioning

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
    rewriter: Rewriter, module: ir.Operation, partitioning: Partitioning | None = None
) -> None:
    """Has devices compare the conditions of branches and loops with collectives inside.

    Args:
        rewriter: of the module.
        module: is changed.
        partitioning: how XLA cuts it up, if it does: all devices then have one condition, but
            where each has its own arrays.
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
            f"{rewriter.name}: {kind}{recorded_at(operation.location)} goes different ways on "
            f"different devices, and there is {inside} inside, in which some would wait for the "
            f"others forever\nfix: make the condition one that all have, for instance with "
            f"all_reduce",
        )
        index = rewriter.add_callback(disagreement)
        if kind == "while":
            end = operation.regions[0].blocks[0].operations[-1].operation
            end.operands[0] = _agreed(rewriter, end, end.operands[0], index, marked)
        else:
            condition = operation.operands[0]
            if kind == "case":
                condition = _in_range(operation, condition, marked)
            operation.operands[0] = _agreed(rewriter, operation, condition, index, marked)


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


def _in_range(operation: ir.Operation, number: Value, marked: bool) -> Value:
    """The number of a branch as one of those there are: any other means the last."""
    count = len(operation.regions)
    return _copied(
        f"""
func.func @in_range(%number: tensor<i32>) -> tensor<i32> {{
  %0 = stablehlo.bitcast_convert %number : (tensor<i32>) -> tensor<ui32>
  %last = stablehlo.constant dense<{count - 1}> : tensor<ui32>
  %1 = stablehlo.minimum %0, %last : tensor<ui32>
  %2 = stablehlo.bitcast_convert %1 : (tensor<ui32>) -> tensor<i32>
  return %2 : tensor<i32>
}}
""",
        operation,
        number,
        marked,
    )


_TEXT: Final = """
func.func @agreed(%condition: tensor<{type}>) -> tensor<{type}> {{
  %number = stablehlo.convert %condition : (tensor<{type}>) -> tensor<i32>
  %negative = stablehlo.negate %number : tensor<i32>
  %0 = stablehlo.reshape %number : (tensor<i32>) -> tensor<1xi32>
  %1 = stablehlo.reshape %negative : (tensor<i32>) -> tensor<1xi32>
  %both = stablehlo.concatenate %0, %1, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %largest = "stablehlo.all_reduce"(%both) ({{
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %c = stablehlo.maximum %a, %b : tensor<i32>
    stablehlo.return %c : tensor<i32>
  }}) {{replica_groups = dense<> : tensor<0x0xi64>{channel}}} : (tensor<2xi32>) -> tensor<2xi32>
  %2 = stablehlo.slice %largest [0:1] : (tensor<2xi32>) -> tensor<1xi32>
  %3 = stablehlo.slice %largest [1:2] : (tensor<2xi32>) -> tensor<1xi32>
  %4 = stablehlo.negate %3 : tensor<1xi32>
  %5 = stablehlo.compare NE, %2, %4 : (tensor<1xi32>, tensor<1xi32>) -> tensor<1xi1>
  %differ = stablehlo.reshape %5 : (tensor<1xi1>) -> tensor<i1>
  %result = "stablehlo.if"(%differ) ({{
    %failed = stablehlo.custom_call @xla_ffi_python_cpu_callback(%number) {{
      has_side_effect = true, api_version = 4 : i32, backend_config = {{index = {index} : ui64}}
    }} : (tensor<i32>) -> tensor<i32>
    stablehlo.return %failed : tensor<i32>
  }}, {{
    stablehlo.return %number : tensor<i32>
  }}) : (tensor<i1>) -> tensor<i32>
  %out = stablehlo.convert %result : (tensor<i32>) -> tensor<{type}>
  return %out : tensor<{type}>
}}
"""


def _agreed(
    rewriter: Rewriter, before: ir.Operation, condition: Value, index: int, marked: bool
) -> Value:
    """The condition, after a comparison with those of the other devices."""
    channel = ""
    if rewriter.num_partitions > 1:
        channel = ", channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>"
    element = str(ir.RankedTensorType(condition.type).element_type)
    text = _TEXT.format(type=element, channel=channel, index=index)
    return _copied(text, before, condition, marked)


def _copied(text: str, before: ir.Operation, argument: Value, marked: bool) -> Value:
    """Copies the body of a function in front of an operation; gives what it returns.

    Where XLA cuts the program up by GSPMD, it is marked: each partition has its own of it.
    """
    module = ir.Module.parse(text, before.context)  # which holds what is taken of it
    block = module.body.operations[0].regions[0].blocks[0]
    values: dict[Any, Value] = {block.arguments[0]: argument}
    ip = ir.InsertionPoint(before)
    for one in block.operations:
        old = one.operation
        if old.name == "func.return":
            return values[old.operands[0]]
        new = old.clone(ip=ip)
        if marked:
            mark_manual(new)
        _rename(new, old, values)
        values.update(zip(old.results, new.results, strict=True))
    raise AssertionError("a function without an end")


def _rename(new: ir.Operation, old: ir.Operation, values: dict[Any, Value]) -> None:
    """Has a copy, and what stands inside, use the copies of values."""
    for number, operand in enumerate(old.operands):
        if operand in values:
            new.operands[number] = values[operand]
    for region, source in zip(new.regions, old.regions, strict=True):
        for block, original in zip(region.blocks, source.blocks, strict=True):
            for one, other in zip(block.operations, original.operations, strict=True):
                _rename(one.operation, other.operation, values)


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
