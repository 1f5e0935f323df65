"""Evaluate computations op by op with jax: the loop over the ops.

Each computation is prepared once: its ops become a list of steps. Evaluating is then one loop over
the steps, for concrete arrays and for jax's tracers. Nothing recurses over the graph.

jax takes the locations of its operations, and the lines in its errors, from the stack of Python
frames. So each op is evaluated in a frame whose file, line and function are those of the program
that recorded the op. jax ignores the frames of this package.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Sequence
from functools import cache
from itertools import compress
from operator import itemgetter
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final

import jax
from jax.extend import source_info_util

from builder.errors import XlaError, error_of
from builder.graph.computation import XlaComputation
from builder.graph.inlined_calls import LibraryCall
from builder.graph.xla_op import XlaOp, is_constant, is_parameter, resolve_position
from builder.schema import Trait, opcodes_with
from builder.types import primitive_type as pt
from builder.types.shape import UNBOUNDED, ArrayShape, Shape, has_unbounded_sizes, leaves
from lowering.errors import LoweringError
from lowering.jax_interop.equations import RetracedFunction, refused_derivative
from lowering.jax_interop.inlined_calls import (
    Outermost,
    library_step,
    outermost_calls,
    part_of,
    with_custom_gradient,
)
from lowering.jax_interop.pasting import pasted
from lowering.jax_interop.sizes import sizes_in, takes_sizes, with_sizes
from lowering.jaxlib_api.jax_arrays import axes_of
from lowering.ops.derivatives import with_derivative_of
from lowering.ops.elementwise import DIVISIONS, TAKING_SCALARS, is_narrow
from lowering.ops.registry import JAX_RULES, REFUSED, Step, Value, place, refusal

Frame = Callable[[Callable[..., Any], Sequence[Any]], Any]
"""Calls a function with arguments, in a frame of its own."""

source_info_util.register_exclusion(str(Path(__file__).parent))


def _frame(file: str, line: int, column: int, function: str) -> Frame:
    """Return a function that calls a step; in a stack its frame has this position and name."""
    name = function.rpartition(".")[2]
    # The positions in a code object are relative to its first line.
    code = _template(column).replace(
        co_filename=file, co_firstlineno=line, co_name=name, co_qualname=function
    )
    return FunctionType(code, {"__builtins__": builtins, "__name__": name}, name)


@cache
def _template(column: int) -> CodeType:
    """Return the code of a function that calls a step, with all positions at a column of line 1."""
    tree = ast.parse("lambda step, operands: step(*operands)", mode="eval")
    for node in ast.walk(tree):
        if isinstance(node, (ast.expr, ast.arg)):
            node.lineno = node.end_lineno = 1
            node.col_offset, node.end_col_offset = column - 1, column
    code: CodeType = eval(compile(tree, "", "eval")).__code__
    return code


def call(step: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """Call a step for an op without a source line."""
    return step(*operands)


_FRAMES: Final[dict[tuple[int, int], tuple[CodeType, Frame]]] = {}
"""The frames of source positions. Keyed by id because hashing a code object hashes its constants;
the entry keeps the object alive."""

_MOST_KEPT: Final = 65536


def frame_of(op: XlaOp) -> Frame:
    """Return a function that calls a step in a frame at the source line of an op."""
    code = op._code
    if code is None or (op.metadata is not None and op.metadata.source is not None):
        source = op.source
        if source is None:
            return call
        return _frame(source.file, source.line, max(source.column, 1), source.function or "op")
    key = id(code), op._lasti
    entry = _FRAMES.get(key)
    if entry is None:
        if len(_FRAMES) > _MOST_KEPT:
            _FRAMES.clear()
        # Not the name of the file for users: Python reads the line from the file.
        line, column = resolve_position(code, op._lasti)
        entry = _FRAMES[key] = code, _frame(code.co_filename, line, column, code.co_qualname)
    return entry[1]


_Entry = tuple[int, Frame, Step, Callable[[list[Value]], Sequence[Value]], Sequence[int]]
"""The number of an op, its frame, its step, the getter of its operands from the values of all ops,
and the numbers of the ops whose values are not used afterwards."""

_IN_PLACE: Final = ("parameter", "constant")
"""Opcodes whose values are known before the loop."""


_STRUCTURE: Final = opcodes_with(Trait.STRUCTURE)


class Preparation:
    """The steps of a computation and of the computations that its ops apply."""

    def __init__(self, computation: XlaComputation, axis: str | None) -> None:
        """Prepare a computation.

        Args:
            computation: the computation.
            axis: see `to_jax`.
        """
        self.axis = axis
        self.computation = computation
        self._functions: dict[XlaComputation, Step] = {}
        self._shared: dict[XlaComputation, Step] = {}
        for called in evaluated_computations(computation):
            self.computation = called
            self._functions[called] = _prepared(self, called)
            if called.derivative is not None:
                backward = self.shared(called.derivative)
                differentiable = with_custom_gradient(called, self.shared(called), backward)
                self._functions[called] = self._shared[called] = differentiable

    def part(self, call: Outermost) -> Step:
        """Return the ops of an inlined call as a function, which returns a tuple."""
        known = [op for op in call.results if op is not None]
        part = part_of("part", call.operands, call.members, known, call.inner)
        outer, self.computation = self.computation, part
        evaluate = _prepared(self, part)
        self.computation = outer
        places = {op: place for place, op in enumerate(known)}
        positions = [None if op is None else places[op] for op in call.results]

        def step(*operands: Value) -> Value:
            value = evaluate(*operands)
            values = value if len(known) > 1 else (value,)
            return tuple([None if p is None else values[p] for p in positions])

        return step

    def function(self, computation: XlaComputation) -> Step:
        """Return an applied computation as a function of its parameters' values."""
        return self._functions[computation]

    def shared(self, computation: XlaComputation) -> Step:
        """Return an applied computation as a function that jax traces once for all calls."""
        if computation not in self._shared:
            function = self._functions[computation]
            opcodes = [op.opcode for op in computation.ops if op.opcode not in _STRUCTURE]
            # A size that is an argument of jax.jit is no longer a number.
            is_jitted = opcodes not in ([], ["call"]) and not takes_sizes(computation)
            self._shared[computation] = jax.jit(function) if is_jitted else function
        return self._shared[computation]

    def pasted(self, op: XlaOp, computation: XlaComputation | None = None) -> Step:
        """Return a step that evaluates an op by its StableHLO; see `Context`."""
        for each in (op, *op.operands):
            if has_unbounded_sizes(each.shape):
                reason = "jax has no function for it with unbounded sizes"
                raise refusal(op, reason, _GIVE_SIZES, each.shape)
        return pasted(self.computation if computation is None else computation, op)


def evaluated_computations(computation: XlaComputation) -> tuple[XlaComputation, ...]:
    """Return a computation, those it applies, and their custom derivatives, callees first."""
    found: dict[XlaComputation, None] = {}
    stack = [(computation, False)]
    while stack:
        current, is_entered = stack.pop()
        if is_entered:
            found[current] = None
        elif current not in found:
            stack.append((current, True))
            if current.derivative is not None:
                stack.append((current.derivative, False))
            stack += [(c, False) for a in current.applications() for c in a.computations]
    return tuple(found)


def _prepared(preparation: Preparation, computation: XlaComputation) -> Step:
    """Return a computation as a function of its parameters' values."""
    ops = computation.ops
    for parameter in computation.parameters:
        _refuse_bounds(parameter)
    entries = _entries(preparation, computation)
    parameters = [(p.id, number) for number, p in enumerate(computation.parameters)]
    constants = [(op.id, op.attributes["value"]) for op in ops if is_constant(op)]
    root, size = computation.root.id, len(ops) + len(computation._inlined_calls)

    def evaluate(*arguments: Value) -> Value:
        values: list[Value] = [None] * size
        for position, number in parameters:
            values[position] = arguments[number]
        for position, constant in constants:
            values[position] = constant
        position = 0
        try:
            for position, frame, step, operands, unused in entries:
                values[position] = frame(step, operands(values))
                for number in unused:
                    values[number] = None
        except XlaError:
            raise
        except Exception as error:
            if position < len(ops):
                error.add_note(_note(ops[position]))
            raise
        return values[root]

    evaluate.__name__ = evaluate.__qualname__ = computation.name
    return evaluate


def _entries(preparation: Preparation, computation: XlaComputation) -> list[_Entry]:
    calls = outermost_calls(computation._inlined_calls, computation.ops)
    evaluated, calls = _evaluated(computation, calls)
    ops = [op for op in computation.ops if op.opcode not in _IN_PLACE and op in evaluated]
    operands = {op.id: tuple([operand.id for operand in op.operands]) for op in ops}
    omitted = _pass_scalars(ops, operands, computation.root.id, calls)
    # The results of a call are the elements of its value, which has a number of its own.
    size = len(computation.ops)
    starts: dict[int, list[tuple[int, Outermost]]] = {}
    elements: dict[int, tuple[int, int]] = {}
    for number, call in enumerate(calls, size):
        starts.setdefault(call.first.id, []).append((number, call))
        for position, op in enumerate(call.results):
            if op is not None:
                elements.setdefault(op.id, (number, position))
    entries: list[tuple[int, Frame, Step, tuple[int, ...]]] = []
    sizes = sizes_in(computation)
    for op in computation.ops:
        for number, call in starts.get(op.id, ()):
            step = _call_step(preparation, call)
            inputs = tuple([operand.id for operand in call.operands])
            entries.append((number, frame_of(op), step, inputs))
        if op.id in elements:
            number, position = elements[op.id]
            entries.append((op.id, frame_of(op), itemgetter(position), (number,)))
        elif op.id in operands and op.id not in omitted:
            step = _step(preparation, op)
            step = with_sizes(op, step, sizes) if sizes else step
            entries.append((op.id, frame_of(op), step, operands[op.id]))
    last_use = {operand: place for place, entry in enumerate(entries) for operand in entry[3]}
    last_use.pop(computation.root.id, None)
    unused: dict[int, list[int]] = {}
    for number, last in last_use.items():
        unused.setdefault(last, []).append(number)
    return [
        (number, frame, step, _getter(inputs), unused.get(place, ()))
        for place, (number, frame, step, inputs) in enumerate(entries)
    ]


def _evaluated(
    computation: XlaComputation, calls: Sequence[Outermost]
) -> tuple[set[XlaOp], list[Outermost]]:
    """Return the ops that are evaluated by themselves, and the calls.

    Unused ops and calls are left out, and ops that are only part of a call.
    """
    call_of = {op: call for call in calls for op in call.results if op is not None}
    needed = [op for op in computation.ops if op.attributes.get("has_side_effect")]
    needed += [op for op in computation.ops if op.opcode in REFUSED]
    needed.append(computation.root)
    found: set[XlaOp] = set()
    reached: dict[int, Outermost] = {}
    seen = set(needed)
    while needed:
        op = needed.pop()
        call = call_of.get(op)
        if call is None:
            found.add(op)
        else:
            reached[id(call)] = call
        operands = op.operands if call is None else call.operands
        new = [operand for operand in operands if operand not in seen]
        seen.update(new)
        needed += new
    return found, list(reached.values())


def _call_step(preparation: Preparation, call: Outermost) -> Step:
    """Return the function of an inlined call: of its operands' values, it returns a tuple.

    A jaxpr has no values that differ along axes of jax.shard_map. So there the ops of a jax
    function with an inner jaxpr are evaluated, and their derivative, which is another one, is
    refused.
    """
    function = call.function
    if _is_evaluated_by_ops(call):
        where = place(call.first)
        is_of_library = isinstance(function, LibraryCall)
        derivative = library_step(function, where) if is_of_library else refused_derivative(where)
        return with_derivative_of(preparation.part(call), derivative)
    by_jax: Step = function.step()
    if not function.has_jaxpr:
        return by_jax

    def refuse(*_: Value) -> Value:
        rule = (
            f"{function.primitive}{place(call.first)}: jax.shard_map can't differentiate a "
            "recorded function that has derivatives of its own"
        )
        raise error_of(LoweringError, "to_jax", rule, "pass check_vma=False to jax.shard_map")

    def step(*operands: Value) -> Value:
        if axes_of(operands):
            return with_derivative_of(preparation.part(call), refuse)(*operands)
        return by_jax(*operands)

    return step


def _getter(numbers: tuple[int, ...]) -> Callable[[list[Value]], Sequence[Value]]:
    """Return a function that returns the elements with these numbers from a list.

    It is faster than a comprehension, which would take a fifth of the time of an evaluation.
    """
    if len(numbers) > 1:
        return itemgetter(*numbers)
    first = numbers[0] if numbers else 0
    return itemgetter(slice(first, first + len(numbers)))


def _pass_scalars(
    ops: list[XlaOp],
    operands: dict[int, tuple[int, ...]],
    root: int,
    calls: Sequence[Outermost],
) -> set[int]:
    """Pass scalar constants instead of their broadcasts, where jax broadcasts them itself.

    Args:
        ops: the ops of a computation.
        operands: the numbers of the operands of each op; some of them are replaced.
        root: the number of the root.
        calls: the inlined calls, which take the broadcasts.

    Returns:
        The numbers of the broadcasts that have no other users.
    """
    scalars = {
        op.id: op.operands[0].id
        for op in ops
        if op.opcode == "broadcast_in_dim"
        and is_constant(op.operands[0])
        and not op.operands[0].shape.dimensions  # type: ignore[union-attr]  # an array
    }
    if not scalars:
        return set()
    omitted = scalars.keys() - {root, *(op.id for call in calls for op in call.operands)}
    for op in ops:
        numbers = operands[op.id]
        passed = [number for number in numbers if number in scalars]
        if not passed:
            continue
        element_type = op.operands[0].shape.element_type
        is_plain = element_type is not pt.pred and not is_narrow(op)
        # The guard of an integer division by zero needs arrays of one shape.
        is_plain &= not (element_type.is_integral and op.opcode in DIVISIONS)
        if op.opcode in TAKING_SCALARS and len(passed) == 1 and is_plain:
            operands[op.id] = tuple([scalars.get(number, number) for number in numbers])
        else:
            omitted.difference_update(passed)
    return omitted


def _step(preparation: Preparation, op: XlaOp) -> Step:
    """Return the step of an op.

    Raises:
        LoweringError: jax cannot evaluate the op.
    """
    _refuse_bounds(op)
    if op.opcode in REFUSED:
        raise refusal(op, *REFUSED[op.opcode])
    rule = JAX_RULES.get(op.opcode)
    step = preparation.pasted(op) if rule is None else rule(preparation, op)
    name = op.name
    if name is None:
        return step
    return jax.named_scope(name)(step)


def _refuse_bounds(op: XlaOp) -> None:
    """Refuse an op whose result has bounded sizes."""
    for leaf in leaves(op.shape):
        if isinstance(leaf, ArrayShape) and not leaf.is_static:
            dynamic = compress(leaf.dimensions, leaf.dynamic_dimensions)
            if any(bound != UNBOUNDED for bound in dynamic):
                fix = "record the computation for fixed or unbounded sizes"
                raise refusal(op, "jax's arrays have no bounded sizes", fix, op.shape)


_GIVE_SIZES: Final = (
    "give sizes: lowering.to_computation(lowering.lower(computation), argument_shapes=[...])"
)


def _note(op: XlaOp) -> str:
    shapes = ", ".join(str(operand.shape) for operand in op.operands)
    return f"to_jax: raised by {op.opcode}({shapes}) -> {op.shape}{place(op)}"


def _is_evaluated_by_ops(call: Outermost) -> bool:
    """Whether the values of an inlined call are those of its ops; the function has a derivative."""
    function = call.function
    is_refused = isinstance(function, RetracedFunction) and function.function is None
    return is_refused or isinstance(function, LibraryCall)


def wide_op(computation: XlaComputation) -> XlaOp | None:
    """Return the first op with 64-bit numbers, which jax has only in its x64 mode; None without.

    c64 is not among them: its parts have 32 bits. An op inside an inlined call is not evaluated,
    except for calls whose values are those of their ops.
    """
    every = evaluated_computations(computation)
    if not any(_is_wide(shape) for each in every for shape in {op.shape for op in each.ops}):
        return None
    # Of the computations, some may be applied inside calls only.
    stack, entered = [computation], {computation}
    while stack:
        current = stack.pop()
        evaluated, calls = _evaluated(current, outermost_calls(current._inlined_calls, current.ops))
        values = {op for call in calls for op in call.results if op is not None}
        by_ops = [call for call in calls if _is_evaluated_by_ops(call)]
        evaluated = evaluated.union(*[call.members for call in by_ops])
        for op in current.ops:
            is_value = op in values or op in evaluated or is_parameter(op)
            if is_value and _is_wide(op.shape):
                return op
            if op in evaluated:
                new = [c for v in op.attributes.values() for c in computations_in(v)]
                stack += [c for c in dict.fromkeys(new) if c not in entered]
                entered.update(new)
        if current.derivative is not None and current.derivative not in entered:
            entered.add(current.derivative)
            stack.append(current.derivative)
    return None


def computations_in(value: object) -> list[XlaComputation]:
    """Return the computations in the value of an attribute."""
    parts = value if isinstance(value, tuple) else (value,)
    return [part for part in parts if isinstance(part, XlaComputation)]


def _is_wide(shape: Shape) -> bool:
    arrays = (leaf for leaf in leaves(shape) if isinstance(leaf, ArrayShape))
    return any(array.element_type.real_type.bits == 64 for array in arrays)
