"""Reverse mode on a recorded graph: from one op back to others, a pullback for each op between.

The derivative of a loop needs the values of each iteration. The loop that was recorded does not
return them, so it is replaced, in the open builder, by one that does. The handles of users stay
valid: the `XlaOp` of the loop becomes the part of the new results that it was before.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from types import FrameType
from typing import Any, Final

from builder.errors import error_of
from builder.graph.computation import XlaComputation, is_debug_call
from builder.graph.decorators import gradient_shape
from builder.graph.inlined_calls import InlinedCall, needed_ops
from builder.graph.subcomputations import record_tuple
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import NO_ATTRIBUTES, XlaOp, is_element, is_tuple, with_metadata
from builder.lib.dynamic import broadcast_along
from builder.ops.control_flow import DERIVATIVE, ZERO_DERIVATIVE, call, get_tuple_element
from builder.ops.elementwise import add
from builder.ops.reshaping import broadcast
from builder.rewriting.copying import inlined_ops
from builder.schema import Trait, opcodes_with
from builder.types.shape import ArrayShape, Shape, TupleShape, has_unbounded_sizes
from lowering.errors import LoweringError
from lowering.jax_interop.applying import set_line
from lowering.jax_interop.evaluation import computations_in
from lowering.jax_interop.inlined_calls import RECORDED_AGAIN, Outermost, outermost_calls
from lowering.jax_interop.pullbacks import Pullback, Unit, arrays_in, op_keys, pullbacks_of
from lowering.jax_interop.sizes import SymbolicSizes
from lowering.ops.registry import place


def array_of_value(op: XlaOp, number: int) -> XlaOp:
    """Return the op of an array in a value, by its number; elements of tuples may be recorded."""
    while isinstance(op.shape, TupleShape):
        index = 0
        for element in op.shape.elements:
            count = len(arrays_in([element]))
            if number < count:
                break
            number -= count
            index += 1
        op = op.operands[index] if is_tuple(op) else get_tuple_element(op, index)
    return op


def record_with_residuals(unit: Unit, forward: XlaComputation) -> list[XlaOp]:
    """Replace the op or the inlined call of a unit; return the ops of the residuals.

    Args:
        unit: the unit.
        forward: a computation of the arrays of its operands; it returns the arrays of its results,
            and then the residuals.
    """
    builder = unit.op.builder
    ops = builder.ops
    end, calls = len(ops), len(builder._inlined_calls)
    arrays = [
        array_of_value(operand, number)
        for operand in unit.operands
        for number in range(len(arrays_in([operand.shape])))
    ]
    root = forward.root
    is_tuple = isinstance(root.shape, TupleShape)
    needed = [op for op in forward.ops if not (is_tuple and op is root)]
    metadata = builder._current_metadata
    # The blocks in force are those of the call of `gradients`, not of the op.
    unchanged: Any = {"name": None, "others": None, "op_type": None, "source": None, "scope": None}
    builder._current_metadata = with_metadata(unit.op.metadata, **unchanged)
    try:
        values = inlined_ops(forward, tuple(arrays), builder, needed, {})
    finally:
        builder._current_metadata = metadata
    found = [values[op] for op in (root.operands if is_tuple else (root,))]
    count = len(arrays_in([op.shape for op in unit.results]))
    results, residuals = found[:count], found[count:]
    remaining = iter(results)
    for op in unit.results:
        if isinstance(op.shape, ArrayShape):
            _become_element(op, next(remaining), builder)
        else:
            _become_tuple(op, remaining, builder)
    new = ops[end:]
    if unit.op._code is not None:
        set_line(new, unit.op._code, unit.op._lasti)
    moved = set(unit.results)
    first = min(op.id for op in unit.results)
    removed = _unused_members(unit, ops[:end])
    before = [op for op in ops[:first] if op not in removed]
    after = [op for op in ops[first:end] if op not in moved and op not in removed]
    ops[:] = [*before, *new, *unit.results, *after]
    for number, op in enumerate(ops):
        op.id = number
    builder._inlined_calls.append(InlinedCall(RECORDED_AGAIN, tuple(arrays), tuple(found)))
    if unit.call is not None:
        gone = moved | removed
        builder._inlined_calls[:calls] = [
            c
            for c in builder._inlined_calls[:calls]
            if not any(op in gone for op in c.results if op is not None)
        ]
        if unit.call.function.primitive.name.startswith("custom_"):
            # The new ops are those of its forward rule, and have another derivative. (Loops and
            # branches have inlined calls of their own.)
            whole = InlinedCall(unit.call.function, unit.call.operands, unit.call.results)
            builder._inlined_calls.append(whole)
        retired = XlaBuilder(f"{builder.name}, before gradients")
        retired.built, retired._is_open = True, False
        for op in removed:
            op.builder = retired
    return residuals


def _become_element(op: XlaOp, value: XlaOp, builder: XlaBuilder) -> None:
    """Turn an op in place into an op that returns `value`, of the same shape."""
    tuple_op = record_tuple(builder, [value])
    op.opcode, op.operands = "get_tuple_element", (tuple_op,)
    op.attributes = {"index": 0}


def _become_tuple(op: XlaOp, values: Iterator[XlaOp], builder: XlaBuilder) -> None:
    """Turn an op in place into a tuple of the next values, nested as before."""
    shape = op.shape
    assert isinstance(shape, TupleShape)
    operands = tuple([nested_op(builder, element, values) for element in shape.elements])
    op.opcode, op.operands, op.attributes = "tuple", operands, NO_ATTRIBUTES


def nested_op(builder: XlaBuilder, shape: Shape, arrays: Iterator[XlaOp]) -> XlaOp:
    """Return an op of `shape`: the next array, or a tuple of the next ones."""
    if not isinstance(shape, TupleShape):
        return next(arrays)
    return record_tuple(builder, [nested_op(builder, each, arrays) for each in shape.elements])


def _unused_members(unit: Unit, ops: list[XlaOp]) -> set[XlaOp]:
    """Return the ops of an inlined call that nothing uses once its results are replaced."""
    if unit.call is None:
        return set()
    candidates = set(unit.call.members).difference(unit.results)
    used = {operand for op in ops if op not in candidates for operand in op.operands}
    for op in reversed(unit.call.members):
        if op in candidates and (op in used or op.attributes.get("has_side_effect")):
            candidates.discard(op)
            used.update(op.operands)
    return candidates


Leaf = tuple[XlaOp, int]
"""An op, and the number of an array in its shape: 0 for an array, others for nested tuples."""

_STATEFUL: Final = opcodes_with(Trait.STATEFUL)


class Reverse:
    """The derivatives of one op of an open builder with respect to arrays of the builder.

    Everything that can fail is done when an object is created; `record` then records.
    """

    def __init__(self, name: str, root: XlaOp, targets: Sequence[Leaf]) -> None:
        """Plan the derivative, and trace the pullbacks.

        Args:
            name: the public function, for messages.
            root: a scalar.
            targets: the arrays to differentiate by.

        Raises:
            LoweringError: an op can't be differentiated.
        """
        self.name = name
        self.root = root
        self.builder = root.builder
        self.targets = list(dict.fromkeys(targets))
        self._steps = _planned(root, self.targets)
        units = [step for step in self._steps if isinstance(step, Unit)]
        for unit in units:
            _check_stateless(name, unit.op)
        self._pullbacks = dict(zip(map(id, units), pullbacks_of(name, units), strict=True))
        self._residuals: dict[int, list[XlaOp]] = {}
        self._cotangents: dict[Leaf, XlaOp] = {}
        self._arrays: dict[Leaf, XlaOp] = {}
        self._known: dict[Hashable, XlaOp] = {}

    def record(self, frame: FrameType | None) -> dict[Leaf, XlaOp]:
        """Record the derivatives; return that of each target.

        Args:
            frame: the frame with the source line of the new ops; None for none.
        """
        builder = self.builder
        for step in self._steps:
            if isinstance(step, Unit):
                pullback = self._pullbacks[id(step)]
                if pullback.forward is not None:
                    self._residuals[id(step)] = record_with_residuals(step, pullback.forward)
        start = len(builder.ops)
        metadata = builder._current_metadata
        for op, key in zip(builder.ops, op_keys(builder.ops), strict=True):
            if op.opcode not in _STATEFUL and not op.attributes.get("has_side_effect"):
                self._known.setdefault((key, *map(id, op.operands)), op)
        # Shardings in force are of the shapes of the forward pass.
        builder._current_metadata = with_metadata(metadata, sharding=None)
        try:
            one = builder.constant(1, self.root.shape.element_type)
            self._cotangents[self.root, 0] = one
            for step in reversed(self._steps):
                if isinstance(step, Unit):
                    self._pull(step, self._pullbacks[id(step)])
                elif is_tuple(step):
                    self._pull_tuple(step)
                elif is_element(step):
                    self._pull_element(step)
                else:
                    self._pull_custom(step)
            found = {leaf: self._cotangent(leaf) for leaf in self.targets}
        finally:
            builder._current_metadata = metadata
        if frame is not None:
            set_line(builder.ops[start:], frame.f_code, frame.f_lasti)
        return found

    def _add(self, leaf: Leaf, cotangent: XlaOp) -> None:
        sum_before = self._cotangents.get(leaf)
        self._cotangents[leaf] = cotangent if sum_before is None else add(sum_before, cotangent)

    def _cotangent(self, leaf: Leaf) -> XlaOp:
        """Return the cotangent of an array; zeros if there is none."""
        found = self._cotangents.get(leaf)
        if found is not None:
            return found
        op, number = leaf
        shape = arrays_in([op.shape])[number]
        zero = self.builder.constant(0, shape.element_type)
        if shape.is_bounded:
            return broadcast(zero, shape.dimensions)
        return broadcast_along(zero, shape.dimensions, [], self._array(leaf))

    def _array(self, leaf: Leaf) -> XlaOp:
        """Return the op of an array in a value; an element of a tuple is recorded."""
        found = self._arrays.get(leaf)
        if found is None:
            found = self._arrays[leaf] = array_of_value(*leaf)
        return found

    def _pull(self, unit: Unit, pullback: Pullback) -> None:
        outputs = [leaf for op in unit.results for leaf in leaves_of(op)]
        if not any(outputs[number] in self._cotangents for number in unit.seeded):
            return
        if pullback.backward is None:
            return
        inputs = [leaf for op in unit.operands for leaf in leaves_of(op)]
        residuals = self._residuals.get(id(unit), [])
        operands: list[XlaOp] = []
        for kind, number in pullback.inputs:
            if kind == "cotangent":
                operands.append(self._cotangent(outputs[unit.seeded[number]]))
            elif kind == "residual":
                operands.append(residuals[number])
            else:
                operands.append(self._array((inputs if kind == "operand" else outputs)[number]))
        found = self._record(pullback.backward, operands, pullback.keys)
        for number, output in zip(unit.wanted, pullback.outputs, strict=True):
            if output is not None:
                self._add(inputs[number], found[output])

    def _record(
        self, computation: XlaComputation, operands: Sequence[XlaOp], keys: Sequence[Hashable]
    ) -> list[XlaOp]:
        """Record the ops of a pullback; return its results.

        Ops that are recorded already, on the same operands, are used.
        """
        root = computation.root
        is_tuple = isinstance(root.shape, TupleShape)
        results = root.operands if is_tuple else (root,)
        needed = needed_ops(results, computation._inlined_calls)
        values: dict[XlaOp, XlaOp] = dict(zip(computation.parameters, operands, strict=True))
        existing: dict[XlaOp, XlaOp] = {}
        new: list[tuple[XlaOp, Hashable]] = []
        for op in needed:
            if op in values:
                continue
            key = keys[op.id], *[id(values.get(operand, operand)) for operand in op.operands]
            known = self._known.get(key)
            if known is not None:
                values[op] = existing[op] = known
            else:
                new.append((op, key))
        recorded = inlined_ops(computation, tuple(operands), self.builder, needed, existing)
        for op, _ in new:
            copy = recorded[op]
            key = keys[op.id], *map(id, copy.operands)
            self._known.setdefault(key, copy)
        return [recorded[op] for op in results]

    def _pull_tuple(self, op: XlaOp) -> None:
        number = 0
        for operand in op.operands:
            for leaf in leaves_of(operand):
                if (op, number) in self._cotangents:
                    self._add(leaf, self._cotangents[op, number])
                number += 1

    def _pull_element(self, op: XlaOp) -> None:
        first = _first_of_element(op)
        for leaf in leaves_of(op):
            if leaf in self._cotangents:
                self._add((op.operands[0], first + leaf[1]), self._cotangents[leaf])

    def _pull_custom(self, op: XlaOp) -> None:
        """Call the derivative that the user has written for a called computation."""
        if not any(leaf in self._cotangents for leaf in leaves_of(op)):
            return
        derivative: XlaComputation = op.attributes["to_apply"].derivative
        cotangents = iter([self._cotangent(leaf) for leaf in _with_gradients(op)])
        shape: Any = gradient_shape(op.shape)
        cotangent = nested_op(self.builder, shape, cotangents)
        found = call(derivative, *op.operands, op, cotangent)
        number = 0
        for operand in op.operands:
            for leaf in _with_gradients(operand):
                self._add(leaf, array_of_value(found, number))
                number += 1


def leaves_of(op: XlaOp) -> list[Leaf]:
    """Return the arrays in an op's value."""
    if isinstance(op.shape, ArrayShape):
        return [(op, 0)]
    return [(op, number) for number in range(len(arrays_in([op.shape])))]


def element_of(op: XlaOp) -> Leaf:
    """Return an array as an array in a value: each `t[0]` records another op for one element."""
    number = 0
    while is_element(op):
        number += _first_of_element(op)
        op = op.operands[0]
        if is_tuple(op):
            for operand in op.operands:
                count = len(arrays_in([operand.shape]))
                if number < count:
                    op = operand
                    break
                number -= count
    return op, number


def _with_gradients(op: XlaOp) -> list[Leaf]:
    """Return the arrays in an op's value that have gradients."""
    arrays = arrays_in([op.shape])
    return [leaf for leaf, shape in zip(leaves_of(op), arrays, strict=True) if _is_smooth(shape)]


def _is_smooth(shape: ArrayShape) -> bool:
    return shape.element_type.is_floating or shape.element_type.is_complex


def _first_of_element(op: XlaOp) -> int:
    """Return the number of arrays in the tuple before the element of a `get_tuple_element`."""
    shape = op.operands[0].shape
    assert isinstance(shape, TupleShape)
    return len(arrays_in(shape.elements[: op.attributes["index"]]))


def _planned(root: XlaOp, targets: Sequence[Leaf]) -> list[Unit | XlaOp]:
    """Return what is differentiated between the targets and the root, in the order of recording.

    Tuples, their elements, and calls of computations with a derivative written by hand are ops;
    everything else is a unit.
    """
    ops = root.builder.ops[: root.id + 1]
    calls: dict[XlaOp, Outermost] = {}
    for found in outermost_calls(root.builder._inlined_calls, ops):
        # If a target or the root is inside a call, the ops of the call are differentiated.
        inside = set(found.members).difference(op for op in found.results if op is not None)
        if not any(op in inside for op in (root, *(op for op, _ in targets))):
            calls.update((op, found) for op in found.results if op is not None)
    again = {
        op
        for call in root.builder._inlined_calls
        if call.function is RECORDED_AGAIN
        for op in call.members() or ()
    }
    active = _active(ops, targets, calls)
    symbols = (
        SymbolicSizes.of_ops(ops) if any(has_unbounded_sizes(op.shape) for op in ops) else None
    )
    steps: list[Unit | XlaOp] = []
    reached: set[Leaf] = {(root, 0)} & active
    done: set[XlaOp] = set()
    for op in reversed(ops):
        seeds = [leaf for leaf in leaves_of(op) if leaf in reached]
        if not seeds or not op.operands or op in done:
            continue
        inner = calls.get(op)
        if inner is None and _is_stopped(op):
            continue
        operands = op.operands
        results: tuple[XlaOp, ...] = (op,)
        if inner is not None:
            results = tuple(dict.fromkeys(r for r in inner.results if r is not None))
            done.update(results)
            operands = inner.operands
        inputs = [leaf for operand in operands for leaf in leaves_of(operand)]
        outputs = [leaf for result in results for leaf in leaves_of(result)]
        wanted = tuple([number for number, leaf in enumerate(inputs) if leaf in active])
        seeded = tuple([number for number, leaf in enumerate(outputs) if leaf in reached])
        if not wanted:
            continue
        is_custom = op.opcode == "call" and op.attributes["to_apply"].derivative is not None
        if inner is None and (is_custom or op.opcode in ("tuple", "get_tuple_element")):
            steps.append(op)
        else:
            members = results if inner is None else inner.members
            is_again = any(member in again for member in members)
            sizes, given = None, {}
            if symbols is not None and any(
                has_unbounded_sizes(o.shape) for o in (*operands, *results)
            ):
                sizes = tuple([each for operand in operands for each in symbols.of(operand)])
                given = symbols.given(op) if inner is None else {}
            steps.append(Unit(operands, results, inner, wanted, seeded, is_again, sizes, given))
        if inner is None and is_tuple(op):
            reached.update(inputs[number] for number in seeded if inputs[number] in active)
        elif inner is None and is_element(op):
            first = _first_of_element(op)
            reached.update(inputs[first + number] for number in seeded)
        else:
            reached.update(inputs[number] for number in wanted)
    return steps[::-1]


def _active(
    ops: Iterable[XlaOp], targets: Iterable[Leaf], calls: dict[XlaOp, Outermost]
) -> set[Leaf]:
    """Return the arrays of ops that depend on a target and have derivatives."""
    active = set(targets)
    for op in ops:
        inner = calls.get(op)
        operands = op.operands if inner is None else inner.operands
        if is_element(op):
            first = _first_of_element(op)
            active.update(
                leaf for leaf in leaves_of(op) if (op.operands[0], first + leaf[1]) in active
            )
            continue
        if is_tuple(op):
            inputs = [leaf for operand in operands for leaf in leaves_of(operand)]
            active.update((op, n) for n, leaf in enumerate(inputs) if leaf in active)
            continue
        if inner is None and _is_stopped(op):
            continue
        if any(leaf in active for operand in operands for leaf in leaves_of(operand)):
            active.update(_with_gradients(op))
    return active


def _is_stopped(op: XlaOp) -> bool:
    """Return whether an op is that of `lib.stop_gradient`."""
    attributes = op.frontend_attributes if op.opcode == "optimization_barrier" else None
    return attributes is not None and attributes.get(DERIVATIVE) == ZERO_DERIVATIVE


def _check_stateless(name: str, op: XlaOp) -> None:
    """Refuse ops that must not run once more: the derivative of a loop evaluates its body again."""
    for each in (op, *(o for part in _applied(op) for o in part.ops)):
        has_effect = each.attributes.get("has_side_effect") and not is_debug_call(each)
        if each.opcode in _STATEFUL or has_effect:
            reason = "it has state or effects, so it can't be differentiated"
            rule = f"{each.opcode}{place(each)}: {reason}"
            fix = "compute it outside of the differentiated part"
            if each.opcode == "rng":
                fix = "use random numbers of xb.rng_bit_generator, or pass them as a parameter"
            raise error_of(LoweringError, name, rule, fix)


def _applied(op: XlaOp) -> list[XlaComputation]:
    """Return the computations that an op applies, directly and indirectly."""
    found: list[XlaComputation] = []
    for value in op.attributes.values():
        for part in computations_in(value):
            found += [part, *part.called_computations()]
    return found
