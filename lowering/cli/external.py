"""List the operations of a program that call other code or transfer data."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from builder.schema import Trait, opcodes_with

if TYPE_CHECKING:
    from jaxlib.mlir import ir

    from builder.graph.computation import XlaComputation

TRANSFERS: Final = opcodes_with(Trait.TRANSFER)


@dataclass(frozen=True, slots=True)
class External:
    """A group of operations of a program with the same opcode and target: calls or transfers.

    Attributes:
        operation: "python_call", "custom_call" or one of `TRANSFERS`.
        target: the name of the called function, or the other end of a transfer: "host" or
            "device".
        outside_xla: whether the operations call code outside XLA.
        count: the number of operations in the group, from all computations.
    """

    operation: str
    target: str
    outside_xla: bool
    count: int


def in_computation(computation: XlaComputation) -> list[External]:
    """List the calls and transfers of a computation and of the computations that it calls."""
    found = []
    for each in [computation, *computation.called_computations()]:
        for op in each.ops:
            attributes = op.attributes
            if op.opcode == "custom_call":
                found.append((op.opcode, attributes["call_target_name"]))
            elif op.opcode in TRANSFERS:
                found.append(_transfer(op.opcode, attributes.get("is_host_transfer", False)))
    return _counted(found)


def in_module(module: ir.Module) -> list[External]:
    """List the calls and transfers of a StableHLO module."""
    from lowering.mlir.operations import call_target, operations_in

    names = [f"stablehlo.{name}" for name in ("custom_call", *TRANSFERS)]
    found = []
    for operation in operations_in(module.operation, names):
        name = operation.name.removeprefix("stablehlo.")
        if name == "custom_call":
            config = str(operation.attributes.get("backend_config", ""))
            found.append(_call(call_target(operation), config))
        else:
            flag = str(operation.attributes.get("is_host_transfer", "false"))
            found.append(_transfer(name, flag == "true"))
    return _counted(found)


_IN_TEXT: Final = re.compile(
    r'stablehlo\.custom_call"? ?(?:@(?:"([^"]*)"|([\w.$-]+))|[^=]*?call_target_name = "([^"]*)")'
    rf"|stablehlo\.({'|'.join(sorted(TRANSFERS))})\b"
)
_END: Final = " : ("
"""The text that ends the attributes of an operation; its type follows."""


def in_text(text: str) -> list[External]:
    """List the calls and transfers in the text of a module that MLIR can't parse."""
    found = []
    for match in _IN_TEXT.finditer(text):
        quoted, bare, generic, transfer = match.groups()
        attributes = text[match.end() : text.find(_END, match.end())]
        if transfer:
            found.append(_transfer(transfer, "is_host_transfer = true" in attributes))
        else:
            found.append(_call(quoted or bare or generic, attributes))
    return _counted(found)


def _call(target: str, config: str) -> tuple[str, str]:
    from builder.ops.host import PYTHON_CALL_TARGET

    if target != PYTHON_CALL_TARGET:
        return "custom_call", target
    name = re.search(r'\bname = "([^"]*)"', config)
    return "python_call", "" if name is None else name[1]


def _transfer(name: str, is_host_transfer: bool) -> tuple[str, str]:
    is_to_host = is_host_transfer or name in ("infeed", "outfeed")
    return name, "host" if is_to_host else "device"


def _counted(found: Iterable[tuple[str, str]]) -> list[External]:
    """Count equal (opcode, target) pairs; return calls of code outside XLA first."""
    from lowering.host.custom_calls import is_reserved_target

    rows = []
    for (operation, target), count in Counter(found).items():
        is_call = operation not in TRANSFERS
        is_outside = operation == "python_call" or (is_call and not is_reserved_target(target))
        rows.append(External(operation, target, is_outside, count))
    return sorted(rows, key=lambda row: (not row.outside_xla, row.operation, row.target))
