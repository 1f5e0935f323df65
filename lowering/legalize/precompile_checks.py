"""What XLA dies of when it is asked to compile it, found before it is asked.

Each of these is a valid program that ends the process in XLA's compiler, on CPU, in jaxlib 0.10 or
0.12, or that the platform has no code for. A clean refusal is the best that can be given. One walk
over the module finds them all.
"""

from __future__ import annotations

import math
from typing import Final

from jaxlib.mlir import ir

from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape
from lowering.errors import CompileError, LoweringError, recorded_at
from lowering.legalize.registry import REFUSALS, STANDS_FOR
from lowering.mlir.types import shape_of_type

__all__ = ["check_compilable"]

_REDUCERS: Final = frozenset(
    f"stablehlo.{name}" for name in ("reduce", "reduce_window", "select_and_scatter", "scatter")
)
_CALLS: Final = {"func.call": "callee", "stablehlo.composite": "decomposition"}
"""Operations that call a function, and the attribute that names it."""

_FOREIGN: Final = frozenset(
    f"stablehlo.{name}"
    for name in (
        *("custom_call", "infeed", "outfeed", "send", "recv"),
        *("replica_id", "partition_id", "rng", "fft"),
        *("all_gather", "all_reduce", "all_to_all", "collective_broadcast", "collective_permute"),
        "reduce_scatter",
    )
)
"""Operations that XLA has no code for inside of a reducer."""

_CONTROL: Final = frozenset(f"stablehlo.{name}" for name in ("while", "if", "case"))
"""Operations whose computations are of any kind."""

_IN_PARTS: Final = frozenset(("sdy.manual_computation", "sdy.named_computation"))
"""Operations of Shardy that hold a part of the program, with operations of all kinds."""

_APPLYING: Final = _REDUCERS | _CONTROL | {"stablehlo.map", "stablehlo.sort"}
"""Operations that apply computations, as far as one of these may stand in another."""

_TWO_BITS: Final = (pt.s2, pt.u2)

_MOST_BYTES: Final = 2**48
"""An array of this size fits no machine; of some larger sizes XLA's compiler aborts."""

_MOST_EMPTY_ROWS: Final = 2**24
"""XLA's compiler takes a second for five million rows of an array without elements."""

_DEEPEST_CALLS: Final = 150
"""XLA 0.10 stands chains of 160 calls, and overflows its stack at 200."""


_DEEPEST_REGIONS: Final = 200
"""XLA stands computations applied inside each other 400 deep, and overflows its stack at 500."""


def check_compilable(module: ir.Operation, name: str, platform: str) -> None:
    """Raises CompileError for a module that would end the process, or that can't run.

    Args:
        module: the operation of a verified StableHLO module.
        name: the computation's name, for messages.
        platform: where it is to run: what `lowering.legalize` says the platform lacks is refused.
    """
    walker = _Walker(name, platform)
    module.walk(walker.visit)
    if walker.error is not None:
        raise walker.error
    walker.check_calls()


class _Walker:
    """What a walk has found; errors are kept, since MLIR's walk does not let exceptions through."""

    def __init__(self, name: str, platform: str) -> None:
        self.name = name
        self.platform = platform
        self.refusals = REFUSALS.get(platform, {})
        self.error: CompileError | None = None
        self.seen: set[ir.Type] = set()
        self.calls: dict[str, set[str]] = {}
        # Functions that hold a loop, and those called from reducers with the reducers' names.
        self.looping: set[str] = set()
        self.reducing: dict[str, str] = {}
        # The same for code that XLA does not know: what a function holds, and who applies it.
        self.foreign: dict[str, str] = {}
        self.applied: dict[str, str] = {}

    def visit(self, operation: ir.Operation) -> ir.WalkResult:
        name = operation.name
        for refusal in self.refusals.get(name, ()):
            if refusal.unless and refusal.unless(operation):
                continue
            spoken = _spoken(operation)
            self.fail(
                f"{spoken}{recorded_at(operation.location)} can't run on {self.platform}: "
                f"{refusal.reason}",
                refusal.fix,
                op=spoken,
            )
        for result in operation.results:
            if result.type not in self.seen:
                self.check_size(name, result.type)
        if name == "func.func" and len(operation.regions[0].blocks):
            for argument in operation.regions[0].blocks[0].arguments:
                self.check_size("an argument", argument.type)
        if name in _APPLYING and _depth(operation) > _DEEPEST_REGIONS:
            self.fail(
                f"computations are applied inside each other more than {_DEEPEST_REGIONS} deep, of "
                f"which XLA's compiler may die",
                "apply them one after the other; a loop is xb.while_",
                op="compile",
            )
        if name in _CALLS:
            callee = ir.FlatSymbolRefAttr(operation.attributes[_CALLS[name]]).value
            self.calls.setdefault(_function_of(operation), set()).add(callee)
            reducer = _reducer_around(operation)
            if reducer is not None:
                self.reducing[callee] = reducer
            region = _region_around(operation)
            if region is not None:
                self.applied[callee] = region
        elif name in _FOREIGN:
            self.foreign.setdefault(_function_of(operation), _spoken(operation))
            reducer = _region_around(operation)
            if reducer is not None:
                self.fail(*_foreign_in(reducer, _spoken(operation)))
        elif name == "stablehlo.while":
            self.looping.add(_function_of(operation))
            reducer = _reducer_around(operation)
            if reducer is not None:
                self.fail(*_loop_in(reducer))
        elif name == "func.return" and _function_of(operation) == "main":
            self.check_tokens(operation)
        return ir.WalkResult.INTERRUPT if self.error is not None else ir.WalkResult.ADVANCE

    def fail(self, reason: str, fix: str, op: str = "compile") -> None:
        if self.error is None:
            self.error = CompileError(f"compile: {self.name}: {reason}\nfix: {fix}", op=op)

    def check_size(self, what: str, mlir_type: ir.Type) -> None:
        self.seen.add(mlir_type)
        try:
            shape = shape_of_type(mlir_type)
        except LoweringError:
            return  # no type of XLA's: whatever it is, it is refused elsewhere
        if not isinstance(shape, ArrayShape):
            return
        if self.platform == "tpu" and shape.element_type in _TWO_BITS:
            self.fail(
                f"{what} is of {shape}: a TPU holds elements of two bits in few shapes, and XLA's "
                f"compiler may die of others",
                f"use {'s' if shape.element_type is pt.s2 else 'u'}8 in their place",
            )
        if not shape.is_bounded:
            return
        size = shape.element_count * shape.element_type.byte_width
        if size > _MOST_BYTES:
            self.fail(
                f"{what} is of {shape}, which takes {size / 2**40:,.0f} TiB",
                "make the array smaller",
            )
        if 0 in shape.dimensions:
            rows = math.prod(shape.dimensions[: shape.dimensions.index(0)])
            if rows > _MOST_EMPTY_ROWS:
                self.fail(
                    f"{what} is of {shape}, which holds nothing, and XLA's compiler goes through "
                    f"{rows:,} rows of it",
                    "make the array smaller, or a dimension of size 0 the first",
                )

    def check_tokens(self, operation: ir.Operation) -> None:
        origins = []
        for value in operation.operands:
            if str(value.type) != "!stablehlo.token":
                continue
            while isinstance(value, ir.OpResult):
                owner = value.owner
                if owner.name != "stablehlo.optimization_barrier":
                    break
                value = owner.operands[value.result_number]
            origins.append(value)
        if len(set(origins)) != len(origins):
            self.fail(
                "its result holds one token twice, of which XLA's compiler dies",
                "give the token back once",
            )

    def check_calls(self) -> None:
        """Looks along the calls: how deep they go, and whether a reducer comes to a loop."""
        depths: dict[str, int] = {}
        loops = dict.fromkeys(self.looping, True)
        for function in _callees_first(self.calls):
            callees = self.calls.get(function, ())
            depths[function] = 1 + max((depths[c] for c in callees), default=-1)
            loops[function] = loops.get(function, False) or any(loops[c] for c in callees)
        deepest = max(depths.values(), default=0)
        if deepest > _DEEPEST_CALLS:
            self.fail(
                f"calls are nested {deepest} deep, of which XLA's compiler may die",
                f"nest at most {_DEEPEST_CALLS}; a loop is xb.while_",
            )
        for function, reducer in self.reducing.items():
            if loops.get(function, False):
                self.fail(*_loop_in(reducer))
        if self.foreign:
            held = dict(self.foreign)
            for function in depths:
                for callee in self.calls.get(function, ()):
                    if callee in held:
                        held.setdefault(function, held[callee])
            for function, region in self.applied.items():
                if function in held:
                    self.fail(*_foreign_in(region, held[function]))
        if self.error is not None:
            raise self.error


def _depth(operation: ir.Operation) -> int:
    """How many operations a region operation stands in, counted as far as need be."""
    depth = 0
    parent = operation.parent
    while parent is not None and parent.name != "func.func" and depth <= _DEEPEST_REGIONS:
        depth += 1
        parent = parent.operation.parent
    return depth


def _spoken(operation: ir.Operation) -> str:
    """The name of an operation as it was recorded."""
    if STANDS_FOR in operation.attributes:
        return ir.StringAttr(operation.attributes[STANDS_FOR]).value
    name = operation.name.partition(".")[2]
    if name in _HOST_TRANSFERS and _is_host_transfer(operation):
        return _HOST_TRANSFERS[name]
    return str(name)


_HOST_TRANSFERS: Final = {"send": "send_to_host", "recv": "recv_from_host"}


def _is_host_transfer(operation: ir.Operation) -> bool:
    flag = "is_host_transfer"
    return flag in operation.attributes and ir.BoolAttr(operation.attributes[flag]).value


def _foreign_in(region: str, what: str) -> tuple[str, str]:
    article, name = "an" if what[0] in "aeiou" else "a", region.partition(".")[2]
    reason = f"there is {article} {what} inside the computation of {name}"
    return (
        f"{reason}, of which XLA's compiler dies",
        f"use {what} outside of it, or write a loop: xb.while_",
    )


def _region_around(operation: ir.Operation) -> str | None:
    """The op whose scalar computation an operation stands in, or None."""
    parent = operation.parent
    while parent is not None and parent.name != "func.func":
        if parent.name not in _CONTROL and parent.name not in _IN_PARTS:
            return str(parent.name)
        parent = parent.parent
    return None


def _loop_in(reducer: str) -> tuple[str, str]:
    return (
        f"there is a while inside the computation of {reducer}, of which XLA's compiler dies",
        "write the computation without a loop, or the reduction as a loop of its own",
    )


def _function_of(operation: ir.Operation) -> str:
    """The name of the function that an operation stands in."""
    parent = operation.parent
    while parent is not None and parent.name != "func.func":
        parent = parent.parent
    return "" if parent is None else ir.StringAttr(parent.attributes["sym_name"]).value


def _reducer_around(operation: ir.Operation) -> str | None:
    """The op whose reducer an operation stands in, or None."""
    parent = operation.parent
    while parent is not None and parent.name != "func.func":
        if parent.name in _REDUCERS:
            return str(parent.name)
        parent = parent.parent
    return None


def _callees_first(calls: dict[str, set[str]]) -> list[str]:
    """The functions, each after those that it calls. (There are no cycles: they were refused.)"""
    order: dict[str, None] = {}
    entered: set[str] = set()
    stack = list(calls)
    while stack:
        function = stack[-1]
        if function not in entered:
            entered.add(function)
            stack.extend(c for c in calls.get(function, ()) if c not in entered)
        else:
            stack.pop()
            order[function] = None
    return list(order)
