"""Calls of Python in place of prints and checks, in the order of the program.

XLA does not order calls with side effects. So a token passes through all prints and checks: from
one to the next, into and out of loops, branches and called functions.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from jaxlib.mlir import ir

from builder.attributes.host import DEBUG_TARGETS
from builder.types import primitive_type as pt
from builder.types.shape import intern_array
from lowering.errors import CompileError, recorded_at
from lowering.host.debug_calls import debug_calls, debug_function, public_name
from lowering.legalize.host import callback
from lowering.legalize.op_builder import OpBuilder, attributes_of
from lowering.legalize.partitions import replicated
from lowering.legalize.registry import Target, Value
from lowering.mlir.operations import (
    BRANCHES,
    CALLS,
    CONTROL_FLOW,
    call_target,
    called_function,
    enclosing_function_name,
    functions_in,
    operations_where,
    symbol_name,
)
from lowering.sharding.partitioning import Partitioning
from lowering.sharding.texts import GSPMD, SHARDY


def run_debug_calls(
    target: Target, module: ir.Operation, partitioning: Partitioning | None = None
) -> None:
    """Replace prints and checks by calls of Python functions.

    Args:
        target: what the module is compiled for.
        module: changed in place.
        partitioning: how XLA partitions the program; None if it does not. The order of calls in a
            partitioned program is not defined, because a token has no sharding that fits.

    Raises:
        CompileError: the platform can't call Python.
    """
    calls = debug_calls(module)
    if not calls:
        return
    if target.platform != "cpu":
        name = public_name(calls[0])
        raise CompileError(
            f"{name}{recorded_at(calls[0].location)} can't run on {target.platform}: only programs "
            "on CPU can call Python",
            context=("compile", target.name),
            fix="compile computation.strip_debug(), or compile for 'cpu'",
            op=name,
        )
    with module.context:
        if partitioning is not None:
            sharding = _on_device_0(module, partitioning)
            for call in calls:
                _replace_in_partitions(target, call, sharding, partitioning)
        else:
            _Threads(target, module, calls).run()


class _Threads:
    """Passes a token through the prints and checks of a module.

    Attributes:
        target: what the module is compiled for.
        functions: by name, the functions that contain prints or checks, or call such functions.
    """

    def __init__(self, target: Target, module: ir.Operation, calls: list[ir.Operation]) -> None:
        self.target = target
        self.functions: dict[str, ir.Operation] = {}
        functions = {symbol_name(function): function for function in functions_in(module)}
        callers: dict[str, set[str]] = {}
        for call in operations_where(module, lambda each: each.name in CALLS):
            callers.setdefault(called_function(call), set()).add(enclosing_function_name(call))
        pending = {enclosing_function_name(call) for call in calls}
        while pending:
            name = pending.pop()
            self.functions[name] = functions[name]
            pending |= callers.get(name, set()) - self.functions.keys()

    def _is_affected(self, operation: ir.Operation) -> bool:
        """Whether an operation is a print or a check, calls a function with one, or contains one.

        MLIR's Python bindings change the hash of an operation when another one is erased, so a set
        of operations is of no use.
        """

        def needs_token(each: ir.Operation) -> bool:
            if each.name in CALLS:
                return called_function(each) in self.functions
            return call_target(each) in DEBUG_TARGETS

        return needs_token(operation) or (
            len(operation.regions) > 0 and bool(operations_where(operation, needs_token))
        )

    def run(self) -> None:
        for name, function in self.functions.items():
            block = function.regions[0].blocks[0]
            first = OpBuilder(self.target, block.operations[0].operation)
            if name == "main":
                self._thread(block, first("create_token", _TOKEN, []))
            else:
                self._extend_function(function, ir.Type.parse(_TOKEN))

    def _extend_function(self, function: ir.Operation, token_type: ir.Type) -> None:
        """Add a token to the parameters and the results of a function."""
        block = function.regions[0].blocks[0]
        token = self._thread(block, block.add_argument(token_type, function.location))
        self._end(block, token)
        signature = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
        function.attributes["function_type"] = ir.TypeAttr.get(
            ir.FunctionType.get([*signature.inputs, token_type], [*signature.results, token_type])
        )
        for key in ("arg_attrs", "res_attrs"):
            if key in function.attributes:
                entries = [*ir.ArrayAttr(function.attributes[key]), ir.DictAttr.get({})]
                function.attributes[key] = ir.ArrayAttr.get(entries)

    def _end(self, block: ir.Block, token: Value) -> None:
        """Return a token after the other results of a block."""
        last = block.operations[-1].operation
        b = OpBuilder(self.target, last)
        b.create(last.name, [], [*last.operands, token], attributes_of(last))
        last.erase()

    def _thread(self, block: ir.Block, token: Value) -> Value:
        """Pass a token through a block, and return the token after its last print or check."""
        for operation in [view.operation for view in block.operations]:
            if not self._is_affected(operation):
                continue
            b = OpBuilder(self.target, operation)
            if call_target(operation) in DEBUG_TARGETS:
                token = _replace(b, operation, token)
            elif operation.name in CALLS:
                token = self._with_token(b, operation, token, "func.call")
            elif operation.name in CONTROL_FLOW:
                token = self._through_regions(b, operation, token)
            else:
                # A reducer or a comparator: the checks before compiling refuse the call.
                self._separately(operation)
        return token

    def _through_regions(self, b: OpBuilder, operation: ir.Operation, token: Value) -> Value:
        is_loop = operation.name == "stablehlo.while"
        for number, region in enumerate(operation.regions):
            block = region.blocks[0]
            # Branches have no parameters: they refer to the values outside.
            inner = block.add_argument(token.type, operation.location) if is_loop else token
            last = self._thread(block, inner)
            if is_loop and number == 0:
                _keep_in_condition(self.target, block, last)
            else:
                self._end(block, last)
        return self._with_token(b, operation, token, operation.name)

    def _separately(self, operation: ir.Operation) -> None:
        """Pass a token of its own through each region of an operation."""
        for region in operation.regions:
            block = region.blocks[0]
            first = OpBuilder(self.target, block.operations[0].operation)
            self._thread(block, first("create_token", _TOKEN, []))

    def _with_token(self, b: OpBuilder, operation: ir.Operation, token: Value, name: str) -> Value:
        """Replace an operation by one with a token among its operands and results."""
        attributes = attributes_of(operation)
        if operation.name != name:  # a composite: its decomposition is called
            attributes = {"callee": operation.attributes[CALLS[operation.name]]}
        operands = list(operation.operands)
        if name not in BRANCHES:
            operands.append(token)
        results = [*(result.type for result in operation.results), token.type]
        made = b.create(name, results, operands, attributes, regions=len(operation.regions))
        for old, new in zip(operation.regions, made.regions, strict=True):
            old.blocks[0].append_to(new)
        *values, last = made.results
        for result, value in zip(operation.results, values, strict=True):
            result.replace_all_uses_with(value)
        operation.erase()
        return last


def _replace(b: OpBuilder, call: ir.Operation, token: Value) -> Value:
    """Replace a print or a check by a call that waits for a token; return the call's token."""
    run = debug_function(call, b.target.name)
    operands = [token, *call.operands]
    devices = b.target.devices
    if len(devices) > 1:
        number = b("replica_id", _NUMBER, [])
        if b.target.num_partitions > 1:
            count = b.filled(_NUMBER, b.target.num_partitions)
            number = b.elementwise("multiply", number, count)
            number = b.elementwise("add", number, b("partition_id", _NUMBER, []))
        operands.append(number)

    def function(_token: object, *arguments: Any) -> tuple[Any, ...]:
        if len(devices) > 1:
            *arguments, device_number = arguments  # type: ignore[assignment]  # a list from here on
            run(arguments, f"{devices[int(np.asarray(device_number))]}: ")
        else:
            run(arguments, "")
        return (None,)

    made = callback(b, [token.type], operands, public_name(call), function)
    made.attributes["has_side_effect"] = ir.BoolAttr.get(True)
    call.erase()
    return made.results[0]


_NUMBER: Final = intern_array(pt.u32, ())

_TOKEN: Final = "!stablehlo.token"


def _keep_in_condition(target: Target, block: ir.Block, token: Value) -> None:
    """Make the condition of a loop depend on a token.

    XLA does not evaluate the condition of a loop if it knows how often the loop runs.
    """
    last = block.operations[-1].operation
    b = OpBuilder(target, last)
    scalar = intern_array(pt.pred, ())
    made = callback(b, [b.type(scalar)], [token], "debug_print", lambda _: (np.asarray(True),))
    last.operands[0] = b("and", scalar, [last.operands[0], made.results[0]])


_DEVICE_0: Final = "xlabuilder_device_0"


def _on_device_0(module: ir.Operation, partitioning: Partitioning) -> dict[str, ir.Attribute]:
    """Return the sharding of operations without results that run on device 0.

    The module gets the mesh of the sharding.
    """
    if not partitioning.is_shardy:
        return {GSPMD: ir.StringAttr.get("{maximal device=0}")}
    mesh = ir.Operation.parse(f"sdy.mesh @{_DEVICE_0} = <[], device_ids=[0]>")
    ir.InsertionPoint.at_block_begin(module.regions[0].blocks[0]).insert(mesh)
    sharding = f"#sdy.sharding_per_value<[<@{_DEVICE_0}, []>]>"
    return {SHARDY: ir.Attribute.parse(sharding)}


def _replace_in_partitions(
    target: Target,
    call: ir.Operation,
    sharding: dict[str, ir.Attribute],
    partitioning: Partitioning,
) -> None:
    """Replace a print or a check in a partitioned program: device 0 receives the whole arrays."""
    run = debug_function(call, target.name)

    def function(*arguments: Any) -> tuple[Any, ...]:
        run(arguments, "")
        return ()

    b = OpBuilder(target, call)
    # XLA warns if it has to replicate an array in order to move it to one device.
    whole = [_replicated(b, operand, partitioning) for operand in call.operands]
    made = callback(b, [], whole, public_name(call), function)
    made.attributes["has_side_effect"] = ir.BoolAttr.get(True)
    for name, attribute in sharding.items():
        made.attributes[name] = attribute
    call.erase()


def _replicated(b: OpBuilder, value: Value, partitioning: Partitioning) -> Value:
    sharding = replicated(b.array_of(value).rank, b.context, partitioning)
    if partitioning.is_shardy:
        return b("sdy.sharding_constraint", value.type, [value], {"sharding": sharding})
    attributes = {"call_target_name": ir.StringAttr.get("Sharding"), GSPMD: sharding}
    return b("custom_call", value.type, [value], attributes)
