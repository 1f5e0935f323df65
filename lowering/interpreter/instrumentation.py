"""Build copies of a computation that return, or report through probes, the values of its ops.

A probe is recorded as an optimization_barrier with a frontend attribute. The interpreter's process
receives a custom call with side effects instead, which no pass removes.

The interpreter supports probes in the bodies of loops and in called functions, but aborts on probes
in the branches of a conditional. A loop that runs once or not at all computes the same values as a
branch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from jaxlib.mlir import ir

from builder.attributes.annotations import Annotations
from builder.graph.computation import XlaComputation, called_in
from builder.graph.xla_op import NO_ATTRIBUTES, OpMetadata, XlaOp
from builder.types.shape import Shape, TokenShape, TupleShape
from lowering.mlir.operations import BRANCHES, operations_where

PROBE: Final = "xlabuilder.probe"
"""Marks a probe: a frontend attribute of an optimization_barrier, or a custom call's target."""

_FRONTEND: Final = "mhlo.frontend_attributes"


def barrier_name(operation: ir.Operation) -> str | None:
    """Return the probe's name if an operation is a probe's optimization_barrier, else None."""
    if operation.name != "stablehlo.optimization_barrier" or _FRONTEND not in operation.attributes:
        return None
    attributes = ir.DictAttr(operation.attributes[_FRONTEND])
    return ir.StringAttr(attributes[PROBE]).value if PROBE in attributes else None


def probe_name(operation: ir.Operation) -> str | None:
    """Return the probe's name if an operation is a probe's custom call, else None."""
    if operation.name != "stablehlo.custom_call":
        return None
    if ir.StringAttr(operation.attributes["call_target_name"]).value != PROBE:
        return None
    return ir.StringAttr(operation.attributes["backend_config"]).value


_TOKEN: Final = "!stablehlo.token"


def replace_conditionals(module: ir.Operation) -> None:
    """Replace each conditional by a sequence of loops, one for each branch.

    The loops pass on the conditional's results; only the loop of the selected branch runs, once,
    and sets the results.
    """
    for operation in operations_where(module, lambda each: each.name in BRANCHES):
        with operation.location:
            _replace(operation)


def _replace(operation: ir.Operation) -> None:
    at = ir.InsertionPoint(operation)
    branches = [region.blocks[0] for region in operation.regions]
    selected = _selected(operation, len(branches), at)
    values = [_placeholder(result.type, at) for result in operation.results]
    for number, branch in enumerate(branches):
        values = _loop(branch, _equal(selected, _index(number, at), at), values, at)
    for result, value in zip(operation.results, values, strict=True):
        result.replace_all_uses_with(value)
    operation.erase()


def _selected(operation: ir.Operation, count: int, at: ir.InsertionPoint) -> Any:
    """Emit operations that compute the number of the selected branch."""
    operand, last = operation.operands[0], _index(count - 1, at)
    if operation.name == "stablehlo.if":
        return create("select", last.type, [operand, _index(0, at), last], at)
    # An index out of range selects the last branch; negative ones are large as unsigned.
    unsigned = ir.RankedTensorType.get([], ir.IntegerType.get_unsigned(32))
    numbers = [create("bitcast_convert", unsigned, [value], at) for value in (operand, last)]
    minimum = create("minimum", unsigned, numbers, at)
    return create("bitcast_convert", last.type, [minimum], at)


def _loop(
    branch: ir.Block, is_selected: Any, values: list[Any], at: ir.InsertionPoint
) -> list[Any]:
    """Emit a loop that returns the results of `branch` if `is_selected`, else `values`."""
    carried = [is_selected, *values]
    types = [value.type for value in carried]
    locations = [ir.Location.current] * len(types)
    loop = ir.Operation.create("stablehlo.while", types, carried, regions=2, ip=at)
    condition, body = (region.blocks.append(*types, arg_locs=locations) for region in loop.regions)
    _return([condition.arguments[0]], ir.InsertionPoint(condition))
    *operations, terminator = [view.operation for view in branch.operations]
    inner = ir.InsertionPoint(body)
    done = _constant("false", types[0], inner)
    last = _return([done, *terminator.operands], inner)
    terminator.erase()
    for operation in operations:
        operation.move_before(last)
    return list(loop.results)[1:]


def _return(values: list[Any], at: ir.InsertionPoint) -> ir.Operation:
    return ir.Operation.create("stablehlo.return", operands=values, ip=at)


def _index(value: int, at: ir.InsertionPoint) -> Any:
    scalar = ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))
    return _constant(str(value), scalar, at)


def _placeholder(value_type: ir.Type, at: ir.InsertionPoint) -> Any:
    """Emit an arbitrary value of type `value_type`."""
    if str(value_type) == _TOKEN:
        return create("after_all", value_type, [], at)
    element = str(ir.RankedTensorType(value_type).element_type)
    if element == "i1":
        return _constant("false", value_type, at)
    if element.startswith("complex<"):
        return _constant("(0.0, 0.0)", value_type, at)
    # f8e8m0fnu has no zero.
    return _constant("0" if element.lstrip("u").startswith("i") else "1.0", value_type, at)


def _constant(element: str, value_type: ir.Type, at: ir.InsertionPoint) -> Any:
    # MLIR's Python bindings have no attributes for elements of some types, such as complex ones.
    constant = ir.Operation.parse(f"%0 = stablehlo.constant dense<{element}> : {value_type}")
    at.insert(constant)
    return constant.results[0]


def _equal(lhs: Any, rhs: Any, at: ir.InsertionPoint) -> Any:
    scalar = ir.RankedTensorType.get([], ir.IntegerType.get_signless(1))
    direction = ir.Attribute.parse("#stablehlo<comparison_direction EQ>")
    return create("compare", scalar, [lhs, rhs], at, {"comparison_direction": direction})


def create(
    name: str,
    result: ir.Type,
    operands: list[Any],
    at: ir.InsertionPoint,
    attributes: dict[str, ir.Attribute] | None = None,
) -> Any:
    """Create an operation of StableHLO, and return its result."""
    operation = ir.Operation.create(f"stablehlo.{name}", [result], operands, attributes, ip=at)
    return operation.results[0]


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
