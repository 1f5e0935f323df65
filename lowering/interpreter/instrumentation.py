"""Build copies of a computation that return, or report through probes, the values of its ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from builder.attributes.annotations import Annotations
from builder.graph.computation import XlaComputation, called_in
from builder.graph.xla_op import NO_ATTRIBUTES, OpMetadata, XlaOp
from builder.types.shape import Shape, TokenShape, TupleShape
from lowering.interpreter.probes import PROBE

_new: Final = object.__new__


def _copy_op(
    op: XlaOp,
    number: int,
    operands: tuple[XlaOp, ...],
    attributes: Mapping[str, Any] | None = None,
) -> XlaOp:
    """Copy an op with other operands. The copy has the shape of `op`; no shape is inferred."""
    copy: XlaOp = _new(XlaOp)
    copy.builder, copy.opcode, copy.shape = op.builder, op.opcode, op.shape
    copy.metadata, copy._code, copy._lasti = op.metadata, op._code, op._lasti
    copy.operands, copy.id = operands, number
    copy.attributes = op.attributes if attributes is None else attributes
    return copy


def _new_op(
    source: XlaOp, opcode: str, shape: Shape, number: int, operands: tuple[XlaOp, ...]
) -> XlaOp:
    """Return a new op without attributes or metadata, at the source line of `source`."""
    op = _copy_op(source, number, operands, NO_ATTRIBUTES)
    op.opcode, op.shape, op.metadata = opcode, shape, None
    return op


def with_results(computation: XlaComputation, ops: Sequence[XlaOp]) -> XlaComputation:
    """Return a computation like `computation`, but with a tuple as its result.

    The tuple consists of the result of `computation` and the values of `ops`. The ops are not
    copied.
    """
    values = (computation.root, *ops)
    shape = TupleShape([op.shape for op in values])
    root = _new_op(computation.root, "tuple", shape, len(computation.ops), values)
    return XlaComputation(
        computation.name,
        [*computation.ops, root],
        root,
        computation.parameters,
        annotations=_meshes_only(computation.annotations),
        sharding_form=computation._sharding_form,
    )


def _meshes_only(annotations: Annotations | None) -> Annotations | None:
    """Return the meshes of shardings, without what is about the parameters and the result."""
    return annotations and Annotations(meshes=annotations.meshes)


def with_probes(
    computation: XlaComputation, names: Mapping[XlaOp, str]
) -> tuple[XlaComputation, dict[XlaOp, XlaOp]]:
    """Copy a computation, with probes in the computations that its ops apply.

    Args:
        computation: the computation, which is not changed.
        names: the ops to probe, each with the name of its probe. `computation` applies the
            computations of these ops directly or indirectly.

    Returns:
        The copy, and a dictionary from each op of `computation` itself to its copy.
    """
    copies: dict[XlaComputation, XlaComputation] = {}
    for callee in computation.called_computations():  # callees before their callers
        probed = {op for op in callee.ops if op in names}
        inner = (each for use in callee.applications() for each in use.computations)
        if probed or any(each in copies for each in inner):
            copies[callee], _ = _copy(callee, copies, probed, names)
    return _copy(computation, copies, set(), names)


def _copy(
    computation: XlaComputation,
    copies: Mapping[XlaComputation, XlaComputation],
    probed: set[XlaOp],
    names: Mapping[XlaOp, str],
) -> tuple[XlaComputation, dict[XlaOp, XlaOp]]:
    copied_ops: dict[XlaOp, XlaOp] = {}
    ops: list[XlaOp] = []
    # Ops that share a mapping of attributes still share it, since lowering caches by identity.
    replaced: dict[int, Mapping[str, Any]] = {}
    for op in computation.ops:
        attributes = op.attributes
        if attributes is not NO_ATTRIBUTES and any(c in copies for c in called_in(attributes)):
            if id(attributes) not in replaced:
                replaced[id(attributes)] = {
                    name: _with_copies(value, copies) for name, value in attributes.items()
                }
            attributes = replaced[id(attributes)]
        copy = copied_ops[op] = _copy_op(
            op, len(ops), tuple([copied_ops[operand] for operand in op.operands]), attributes
        )
        ops.append(copy)
        if op in probed and not isinstance(op.shape, TokenShape):
            probe = _new_op(op, "optimization_barrier", op.shape, len(ops), (copy,))
            probe.metadata = OpMetadata(None, {PROBE: names[op]}, None)
            ops.append(probe)
    parameters = [copied_ops[parameter] for parameter in computation.parameters]
    root = copied_ops[computation.root]
    return XlaComputation(computation.name, ops, root, parameters), copied_ops


def _with_copies(value: Any, copies: Mapping[XlaComputation, XlaComputation]) -> Any:
    """Return the value of an attribute with computations replaced by their copies."""
    if isinstance(value, XlaComputation):
        return copies.get(value, value)
    if isinstance(value, tuple) and any(isinstance(v, XlaComputation) for v in value):
        return tuple([_with_copies(v, copies) for v in value])
    return value


def extract(
    name: str,
    inputs: Sequence[XlaOp],
    ops: Sequence[XlaOp],
    outputs: Sequence[XlaOp],
    *,
    separate: bool = False,
) -> XlaComputation:
    """Return a computation that consists of copies of some ops of another computation.

    Args:
        name: the name of the new computation.
        inputs: the ops whose values become parameters.
        ops: the ops to copy, in the order of recording; their operands are in `inputs` or `ops`.
        outputs: those of `ops` whose values form the result, a tuple.
        separate: matters for an op in both `inputs` and `ops`. If True, its users use the
            parameter; if False, they use the copy.
    """
    copies: list[XlaOp] = []
    values: dict[XlaOp, XlaOp] = {}
    for number, op in enumerate(inputs):
        parameter = values[op] = _new_op(op, "parameter", op.shape, len(copies), ())
        parameter.attributes = {"number": number}
        parameter.metadata = OpMetadata(f"op{op.id}", None, None)
        copies.append(parameter)
    parameters = list(copies)
    copy_of: dict[XlaOp, XlaOp] = {}
    for op in ops:
        copy = copy_of[op] = _copy_op(op, len(copies), tuple([values[o] for o in op.operands]))
        copies.append(copy)
        if not separate or op not in values:
            values[op] = copy
    elements = tuple([copy_of[op] for op in outputs])
    shape = TupleShape([op.shape for op in elements])
    source = ops[-1] if ops else inputs[-1]
    root = _new_op(source, "tuple", shape, len(copies), elements)
    return XlaComputation(
        name,
        [*copies, root],
        root,
        parameters,
        annotations=_meshes_only(source.builder.annotations),
        sharding_form=source.builder._sharding_form,
    )
