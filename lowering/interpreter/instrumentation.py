"""Computations changed so that they tell what happens inside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from builder.graph.computation import XlaComputation, called_in
from builder.graph.xla_op import NO_ATTRIBUTES, OpMetadata, XlaOp
from builder.types.shape import Shape, TokenShape, TupleShape
from lowering.interpreter.probes import PROBED

__all__ = ["part", "with_probes", "with_results"]

_new: Final = object.__new__


def copied(
    op: XlaOp,
    number: int,
    operands: tuple[XlaOp, ...],
    attributes: Mapping[str, Any] | None = None,
) -> XlaOp:
    """An op like another, on other operands; its shape is not inferred again."""
    made: XlaOp = _new(XlaOp)
    made.builder, made.opcode, made.shape = op.builder, op.opcode, op.shape
    made.metadata, made.code, made.lasti = op.metadata, op.code, op.lasti
    made.operands, made.id = operands, number
    made.attributes = op.attributes if attributes is None else attributes
    return made


def _made(
    like: XlaOp, opcode: str, shape: Shape, number: int, operands: tuple[XlaOp, ...]
) -> XlaOp:
    """An op of another kind, without metadata, where `like` was recorded."""
    made = copied(like, number, operands, NO_ATTRIBUTES)
    made.opcode, made.shape, made.metadata = opcode, shape, None
    return made


def with_results(computation: XlaComputation, ops: Sequence[XlaOp]) -> XlaComputation:
    """The computation that gives its result and the values of some of its ops, in a tuple.

    Ops are not copied: they are those of the computation, and a tuple behind them.
    """
    root = computation.root
    values = (root, *ops)
    shape = TupleShape([op.shape for op in values])
    whole = _made(root, "tuple", shape, len(computation.ops), values)
    return XlaComputation(
        computation.name, [*computation.ops, whole], whole, computation.parameters
    )


def with_probes(
    computation: XlaComputation, names: Mapping[XlaOp, str]
) -> tuple[XlaComputation, dict[XlaOp, XlaOp]]:
    """The computation with a probe behind some ops of the computations that it applies.

    Args:
        computation: is not changed.
        names: of ops, in computations that are applied at any depth, the names of their probes.

    Returns:
        The computation, and for each op of `computation` itself the one in its place.
    """
    changed: dict[XlaComputation, XlaComputation] = {}
    for one in computation.called_computations():  # callees before their callers
        probed = {op for op in one.ops if op in names}
        if probed or any(inner in changed for inner in _applied(one)):
            changed[one], _ = _copy(one, changed, probed, names)
    whole, places = _copy(computation, changed, set(), names)
    return whole, places


def _applied(computation: XlaComputation) -> Iterable[XlaComputation]:
    return (inner for use in computation.applications() for inner in use.computations)


def _copy(
    computation: XlaComputation,
    changed: Mapping[XlaComputation, XlaComputation],
    probed: set[XlaOp],
    names: Mapping[XlaOp, str],
) -> tuple[XlaComputation, dict[XlaOp, XlaOp]]:
    places: dict[XlaOp, XlaOp] = {}
    ops: list[XlaOp] = []
    kept: dict[int, Mapping[str, Any]] = {}
    for op in computation.ops:
        attributes = op.attributes
        if attributes is not NO_ATTRIBUTES and any(c in changed for c in called_in(attributes)):
            # One mapping for those that share theirs, as lowering looks at its identity.
            found = kept.get(id(attributes))
            if found is None:
                found = kept[id(attributes)] = _exchanged(attributes, changed)
            attributes = found
        place = places[op] = copied(
            op, len(ops), tuple([places[operand] for operand in op.operands]), attributes
        )
        ops.append(place)
        if op in probed and not isinstance(op.shape, TokenShape):
            probe = _made(op, "optimization_barrier", op.shape, len(ops), (place,))
            probe.metadata = OpMetadata(None, {PROBED: names[op]}, None)
            ops.append(probe)
    parameters = [places[parameter] for parameter in computation.parameters]
    copy = XlaComputation(computation.name, ops, places[computation.root], parameters)
    return copy, places


def _exchanged(
    attributes: Mapping[str, Any], changed: Mapping[XlaComputation, XlaComputation]
) -> Mapping[str, Any]:
    """Attributes with some computations in the places of others."""

    def exchanged(value: Any) -> Any:
        if isinstance(value, XlaComputation):
            return changed.get(value, value)
        if isinstance(value, tuple) and any(isinstance(v, XlaComputation) for v in value):
            return tuple([exchanged(v) for v in value])
        return value

    return {name: exchanged(value) for name, value in attributes.items()}


def part(
    name: str,
    inputs: Sequence[XlaOp],
    ops: Sequence[XlaOp],
    outputs: Sequence[XlaOp],
    *,
    apart: bool = False,
) -> XlaComputation:
    """A computation of some of the ops of another one.

    Args:
        name: what it is called.
        inputs: ops whose values are its parameters.
        ops: in the order of recording, operands before users, but for the inputs.
        outputs: what it gives, in a tuple; each is in `ops`.
        apart: whether an op takes an input even where the op that is this input is among `ops`.
    """
    made: list[XlaOp] = []
    places: dict[XlaOp, XlaOp] = {}
    parameters = []
    for number, op in enumerate(inputs):
        parameter = _made(op, "parameter", op.shape, len(made), ())
        parameter.attributes = {"number": number}
        parameter.metadata = OpMetadata(f"op{op.id}", None, None)
        places[op] = parameter
        parameters.append(parameter)
        made.append(parameter)
    found: dict[XlaOp, XlaOp] = {}
    for op in ops:
        place = copied(op, len(made), tuple([places[operand] for operand in op.operands]))
        made.append(place)
        found[op] = place
        if not apart or op not in places:
            places[op] = place
    root = ops[-1] if ops else inputs[-1]
    values = tuple([found[op] for op in outputs])
    whole = _made(root, "tuple", TupleShape([op.shape for op in values]), len(made), values)
    return XlaComputation(name, [*made, whole], whole, parameters)
