"""inline: record the ops of a computation instead of a call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from builder.errors import OperandError, SignatureError, brief, error_of
from builder.graph.computation import XlaComputation
from builder.graph.inlined_calls import copied_calls
from builder.graph.recording import metadata_for, resolve_builder, rollback_on_error
from builder.graph.registry import rule_of
from builder.graph.subcomputations import ReusableFunction
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import OpMetadata, XlaOp
from builder.ops.operands import need_ops
from builder.rewriting.extracting import copy_op, merge_metadata


def inline(computation: XlaComputation | ReusableFunction, *operands: XlaOp) -> XlaOp:
    """Record the ops of a computation in the builder of the operands, instead of a call.

    All ops of the computation are recorded, even unused ones, as in lowering (XLA removes unused
    ops without effects). The operands replace the parameters. The new ops keep the names and source
    lines of the original ops, and share their attributes and applied computations. An op without
    its own frontend attributes or sharding gets those of the enclosing ``with`` blocks of the
    builder; a sharding that does not fit the op is omitted. The layouts of the computation's
    arguments and result, and the shardings of its parameters and result, are dropped, because only
    an entry computation has them.

    Args:
        computation: an XlaComputation, or a function of ``@xb.computation``. (A computation without
            parameters has no operand that determines the builder: use
            ``builder.inline(computation)``.)
        operands: one op for each parameter, of the parameter's shape; an operand may belong to an
            enclosing builder.

    Returns:
        The computation's result, as ``xb.call(computation, *operands)`` would return.

    Raises:
        SignatureError: the operands do not match the parameters. Unlike in a call, a dimension
            of an operand must be dynamic exactly where the parameter's dimension is.
        OperandError: `computation` is not a computation, or there are no operands.

    Example:
        >>> import builder as xb
        >>> @xb.computation(xb.f32[3])
        ... def square(x):
        ...     return x * x
        >>> b = xb.XlaBuilder()
        >>> xb.inline(square, b.parameter(xb.f32[3], "v"))
        <XlaOp %1 = f32[3] multiply(%0, %0)>
    """
    arguments = need_ops("inline", "operand", operands)
    builder = resolve_builder(
        "inline", *arguments, fix="inline a computation without parameters with builder.inline(...)"
    )
    if isinstance(computation, ReusableFunction):
        with rollback_on_error(builder):
            shapes = tuple([operand.shape for operand in arguments])
            computation = computation.recorded("inline", "computation", shapes)
    return inline_into(computation, arguments, builder)


def inline_into(
    computation: XlaComputation, operands: tuple[XlaOp, ...], builder: XlaBuilder
) -> XlaOp:
    """Inline `computation` into `builder`, which must be able to record ops on `operands`."""
    if not isinstance(computation, XlaComputation):
        fix = "call the function: function(*operands)" if callable(computation) else ""
        rule = "computation must be an XlaComputation"
        raise error_of(OperandError, "inline", rule, fix, got=brief(computation))
    return inlined_ops(computation, operands, builder, computation.ops, {})[computation.root]


def inlined_ops(
    computation: XlaComputation,
    operands: tuple[XlaOp, ...],
    builder: XlaBuilder,
    ops: Iterable[XlaOp],
    existing: Mapping[XlaOp, XlaOp],
) -> dict[XlaOp, XlaOp]:
    """Inline some ops of `computation`; return the op of `builder` that takes the place of each.

    Args:
        computation, operands, builder: see `inline_into`.
        ops: the ops to inline, with all ops that they depend on, in the order of recording.
        existing: ops of `builder` that take the place of ops, which are not inlined.
    """
    _check_operands(computation, operands)
    arguments = [builder._adopt("inline", operand) for operand in operands]
    if computation.annotations is not None and computation.annotations.meshes:
        from builder.sharding.validation import register_meshes  # lazy import

        register_meshes(builder, "inline", computation.annotations.meshes, computation.name)
    if computation._sharding_form:
        from builder.sharding.validation import register_sharding_dialect

        form = computation._sharding_form
        got = f"{form}, of {computation.name!r}"
        register_sharding_dialect(
            builder, "inline", form, got, f"the other form where {computation.name!r} is recorded"
        )
    in_force = builder._current_metadata
    values = {**dict(zip(computation.parameters, arguments, strict=True)), **existing}
    for op in ops:
        if op in values:
            continue
        inputs = tuple([values[operand] for operand in op.operands])
        copy = copy_op(op, inputs, builder, op.attributes)
        if in_force is not None:
            metadata = metadata_for(builder, op.opcode, op.shape, in_force, must_fit=False)
            copy.metadata = merge_metadata(_in_scope(op.metadata, in_force.scope), metadata)
        values[op] = copy
    if computation._inlined_calls:
        builder._inlined_calls += copied_calls(computation._inlined_calls, values.get)
    return values


def _in_scope(metadata: OpMetadata | None, scope: str | None) -> OpMetadata | None:
    """Return the metadata of an op that is inlined in a scope: the scopes nest."""
    if metadata is None or metadata.name is None or scope is None:
        return metadata
    inner = scope if metadata.scope is None else f"{scope}/{metadata.scope}"
    return metadata._replace(name=f"{scope}/{metadata.name}", scope=inner)


def _check_operands(computation: XlaComputation, operands: tuple[XlaOp, ...]) -> None:
    """Raise unless the operands have exactly the shapes of the parameters."""
    shapes = tuple([operand.shape for operand in operands])
    rule_of("call")(computation.signature, shapes, "inline")
    for number, parameter in enumerate(computation.parameters):
        if parameter.shape is not shapes[number]:
            raise SignatureError(
                "operands must have the dynamic sizes of their parameters, got\n"
                f"  parameter {number}, {parameter.name}, of {computation.name!r} "
                f"{parameter.shape}\n"
                f"  operand {number} {shapes[number]}",
                fix="record xb.call(computation, *operands), which accepts other dynamic sizes",
                op="inline",
                shapes={"parameter": parameter.shape, "operand": shapes[number]},
            )
