"""Checks for programs that XLA can't compile, before XLA compiles them.

XLA's compiler aborts the process on some valid programs, on CPU with jaxlib 0.10 or 0.12. Other
programs contain operations that a platform does not support. `check_compilable` raises an error for
both.
"""

from __future__ import annotations

import itertools
import math
from typing import Final

from jaxlib.mlir import ir

from builder.schema import SCHEMAS, Trait, opcodes_with
from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape
from lowering.errors import CompileError, LoweringError
from lowering.legalize.registry import PUBLIC_NAME, REFUSALS
from lowering.mlir.operations import (
    CALLS,
    CONTROL_FLOW,
    called_function,
    enclosing,
    enclosing_function_name,
    operations_in,
    place_of,
)
from lowering.mlir.types import shape_of_type
from lowering.sharding.participants import COLLECTIVES

_WITHOUT_LOOPS: Final = frozenset(
    schema.stablehlo for schema in SCHEMAS.values() if Trait.ON_ELEMENTS in schema.traits
)
"""Operations whose computations can't contain loops on XLA's CPU backend."""

_UNSUPPORTED_IN_REGIONS: Final = COLLECTIVES | {
    f"stablehlo.{opcode}"
    for opcode in (
        *opcodes_with(Trait.STATEFUL),
        *("custom_call", "replica_id", "partition_id", "fft"),
    )
}
"""Operations that XLA does not support inside a reducer, map or comparator."""

_SHARDY_REGIONS: Final = frozenset(("sdy.manual_computation", "sdy.named_computation"))
"""Operations of Shardy whose regions may contain all operations."""

_WITH_REGIONS: Final = _WITHOUT_LOOPS | {*CONTROL_FLOW}
"""Operations with regions that may contain further operations with regions."""

_MAX_BYTES: Final = 2**48
"""The largest array in bytes. No machine has more memory, and XLA aborts on some larger sizes."""

_MAX_EMPTY_ROWS: Final = 2**24
"""The largest number of rows of an array without elements: XLA's compiler iterates over them."""

_MAX_CALL_DEPTH: Final = 150
"""The largest depth of calls: XLA compiles a depth of 160, and overflows its stack at 200."""

_MAX_REGION_DEPTH: Final = 200
"""The largest depth of regions: XLA compiles a depth of 400, and overflows its stack at 500."""

_HOST_TRANSFERS: Final = {"send": "send_to_host", "recv": "recv_from_host"}


def check_compilable(module: ir.Operation, name: str, platform: str) -> None:
    """Raise CompileError if XLA's compiler would abort, or if the program can't run.

    Args:
        module: the operation of a verified StableHLO module.
        name: the computation's name, for messages.
        platform: the platform. Operations that `lowering.legalize` refuses for it are errors.
    """
    _Checker(name, platform).check(module)


class _Checker:
    """Checks one module, and collects facts about its functions.

    Attributes:
        name, platform: see `check_compilable`.
        checked_types: the result types checked so far.
        calls: the callees of each function.
        loops: the functions that contain a loop.
        called_without_loops: for each function called inside an operation of `_WITHOUT_LOOPS`, the
            name of this operation.
        unsupported: for each function that contains operations of `_UNSUPPORTED_IN_REGIONS`, the
            name of the first one.
        called_in_regions: for each function called in a reducer, map or comparator, the name of the
            operation with this region.
    """

    def __init__(self, name: str, platform: str) -> None:
        self.name = name
        self.platform = platform
        self.checked_types: set[ir.Type] = set()
        self.calls: dict[str, set[str]] = {}
        self.loops: set[str] = set()
        self.called_without_loops: dict[str, str] = {}
        self.unsupported: dict[str, str] = {}
        self.called_in_regions: dict[str, str] = {}

    def error(
        self, rule: str, fix: str, op: str = "compile", *, got: str | None = None
    ) -> CompileError:
        return CompileError(
            rule,
            context=("compile", self.name),
            got=got,
            fix=fix,
            op=op,
        )

    def check(self, module: ir.Operation) -> None:
        refusals = REFUSALS.get(self.platform, {})
        for operation in operations_in(module):
            name = operation.name
            for refusal in refusals.get(name, ()):
                if not (refusal.unless and refusal.unless(operation)):
                    op = _public_name(operation)
                    place = place_of(operation)
                    rule = f"{op}{place} can't run on {self.platform}: {refusal.reason}"
                    raise self.error(rule, refusal.fix, op)
            for result in operation.results:
                if result.type not in self.checked_types:
                    self.check_type(name, result.type)
            self.check_structure(operation)
        self.check_calls()

    def check_structure(self, operation: ir.Operation) -> None:
        name = operation.name
        if name == "func.func" and len(operation.regions[0].blocks):
            for argument in operation.regions[0].blocks[0].arguments:
                self.check_type("an argument", argument.type)
        if name in _WITH_REGIONS and _region_depth(operation) > _MAX_REGION_DEPTH:
            raise self.error(
                f"computations can be nested at most {_MAX_REGION_DEPTH} deep, because XLA's "
                "compiler may abort on more",
                "apply the computations one after the other, or write a loop with xb.while_",
                got="a deeper nesting",
            )
        if name in CALLS:
            callee = called_function(operation)
            self.calls.setdefault(enclosing_function_name(operation), set()).add(callee)
            if outer := _enclosing_without_loops(operation):
                self.called_without_loops[callee] = outer
            if region := _enclosing_region(operation):
                self.called_in_regions[callee] = region
        elif name in _UNSUPPORTED_IN_REGIONS:
            op = _public_name(operation)
            self.unsupported.setdefault(enclosing_function_name(operation), op)
            if region := _enclosing_region(operation):
                raise self.unsupported_error(region, op)
        elif name == "stablehlo.while":
            self.loops.add(enclosing_function_name(operation))
            if outer := _enclosing_without_loops(operation):
                raise self.loop_error(outer)
        elif name == "func.return" and enclosing_function_name(operation) == "main":
            self.check_tokens(operation)

    def check_type(self, what: str, mlir_type: ir.Type) -> None:
        self.checked_types.add(mlir_type)
        try:
            shape = shape_of_type(mlir_type)
        except LoweringError as error:
            if not isinstance(mlir_type, ir.RankedTensorType):
                return  # a tuple, for instance
            fix = "use arrays of XLA's element types, without encodings, of fewer elements"
            raise self.error(f"{error}, in {what}", fix) from None
        if not isinstance(shape, ArrayShape):
            return
        if self.platform == "tpu" and shape.element_type in (pt.s2, pt.u2):
            raise self.error(
                "a TPU supports elements of two bits in few shapes, and XLA's compiler may abort "
                "on others",
                f"use {'s' if shape.element_type is pt.s2 else 'u'}8 instead",
                got=f"{shape} in {what}",
            )
        if not shape.is_bounded:
            return
        size = shape.element_count * shape.element_type.byte_width
        if size > _MAX_BYTES:
            raise self.error(
                f"an array takes at most {_MAX_BYTES / 2**40:,.0f} TiB",
                "make the array smaller",
                got=f"{shape} of {size / 2**40:,.0f} TiB in {what}",
            )
        if 0 in shape.dimensions:
            rows = math.prod(shape.dimensions[: shape.dimensions.index(0)])
            if rows > _MAX_EMPTY_ROWS:
                raise self.error(
                    f"an array without elements has at most {_MAX_EMPTY_ROWS:,} rows, because "
                    "XLA's compiler iterates over them",
                    "make the array smaller, or move the dimension of size 0 to the front",
                    got=f"{shape} with {rows:,} rows in {what}",
                )

    def check_tokens(self, terminator: ir.Operation) -> None:
        origins = []
        for value in terminator.operands:
            if str(value.type) != "!stablehlo.token":
                continue
            while isinstance(value, ir.OpResult):
                owner = value.owner
                if owner.name != "stablehlo.optimization_barrier":
                    break
                value = owner.operands[value.result_number]
            origins.append(value)
        if len(set(origins)) != len(origins):
            raise self.error(
                "the result must contain each token at most once, because XLA's compiler aborts "
                "on a repeated token",
                "return the token once",
                got="a token twice",
            )

    def check_calls(self) -> None:
        """Check the depth of calls, and the functions that reducers call at any depth."""
        depths: dict[str, int] = {}
        loops = set(self.loops)
        unsupported = dict(self.unsupported)
        for function in _callees_first(self.calls):
            callees = self.calls.get(function, set())
            depths[function] = 1 + max((depths[callee] for callee in callees), default=-1)
            if not loops.isdisjoint(callees):
                loops.add(function)
            for callee in callees & unsupported.keys():
                unsupported.setdefault(function, unsupported[callee])
        deepest = max(depths.values(), default=0)
        if deepest > _MAX_CALL_DEPTH:
            raise self.error(
                f"calls can be nested at most {_MAX_CALL_DEPTH} deep, because XLA's compiler may "
                "abort on more",
                "nest fewer calls, or write a loop with xb.while_",
                got=str(deepest),
            )
        for function, outer in self.called_without_loops.items():
            if function in loops:
                raise self.loop_error(outer)
        for function, region in self.called_in_regions.items():
            if function in unsupported:
                raise self.unsupported_error(region, unsupported[function])

    def loop_error(self, outer: str) -> CompileError:
        return self.error(
            f"the computation of {_opcode(outer)} can't contain while, because XLA's compiler "
            f"aborts on it",
            f"write the computation without a loop, or {_without(outer)}",
        )

    def unsupported_error(self, region: str, op: str) -> CompileError:
        return self.error(
            f"the computation of {_opcode(region)} can't contain {op}, because XLA's compiler "
            f"aborts on it",
            f"call {op} outside of the computation, or {_without(region)}",
        )


def _without(operation_name: str) -> str:
    """Return the fix that does not apply a computation to elements."""
    op = _opcode(operation_name)
    if op == "sort":
        return "compute the keys as an array first, and sort by them"
    if op == "map":
        return "record the ops on arrays, without map"
    return f"replace {op} by a loop with xb.while_"


def _opcode(operation_name: str) -> str:
    return operation_name.partition(".")[2]


def _region_depth(operation: ir.Operation) -> int:
    """The number of operations that enclose an operation, at most `_MAX_REGION_DEPTH` + 1.

    Only operations inside the same function count.
    """
    outside = itertools.takewhile(lambda outer: outer.name != "func.func", enclosing(operation))
    return sum(1 for _ in itertools.islice(outside, _MAX_REGION_DEPTH + 1))


def _public_name(operation: ir.Operation) -> str:
    """The name of the op that the user called."""
    if PUBLIC_NAME in operation.attributes:
        return ir.StringAttr(operation.attributes[PUBLIC_NAME]).value
    name = _opcode(operation.name)
    flag = "is_host_transfer"
    if flag in operation.attributes and ir.BoolAttr(operation.attributes[flag]).value:
        return _HOST_TRANSFERS[name]
    return name


def _enclosing_region(operation: ir.Operation) -> str | None:
    """The name of the operation whose reducer, map or comparator contains this one, or None."""
    for outer in enclosing(operation):
        if outer.name == "func.func":
            return None
        if outer.name not in CONTROL_FLOW and outer.name not in _SHARDY_REGIONS:
            return str(outer.name)
    return None


def _enclosing_without_loops(operation: ir.Operation) -> str | None:
    """The name of an enclosing operation in `_WITHOUT_LOOPS`, or None."""
    return next((str(o.name) for o in enclosing(operation) if o.name in _WITHOUT_LOOPS), None)


def _callees_first(calls: dict[str, set[str]]) -> list[str]:
    """Sort functions so that callees precede callers. Earlier checks refuse cycles."""
    order: dict[str, None] = {}
    entered: set[str] = set()
    stack = list(calls)
    while stack:
        function = stack[-1]
        if function not in entered:
            entered.add(function)
            stack.extend(callee for callee in calls.get(function, ()) if callee not in entered)
        else:
            order[stack.pop()] = None
    return list(order)
