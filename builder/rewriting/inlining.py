"""inline: the ops of a computation, recorded where their result is needed."""

from __future__ import annotations

from builder.errors import OperandError, SignatureError, brief
from builder.graph.computation import XlaComputation
from builder.graph.recording import metadata_for, resolve_builder, rollback_on_error
from builder.graph.subcomputations import ReusableFunction
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.ops.operands import need_ops
from builder.rewriting.copying import copied, merged
from builder.shape_inference import control_flow

__all__ = ["inline", "inlined"]


def inline(computation: XlaComputation | ReusableFunction, *operands: XlaOp) -> XlaOp:
    """Records the ops of a computation in the builder of the operands, in place of a call.

    All ops of the computation are recorded but its parameters, in whose places the operands stand:
    those too that its root does not need, as they are lowered too (XLA leaves out what has no
    effect). They keep their names and source lines; they carry the frontend attributes and the
    sharding of the blocks around, as far as they have none of their own and it fits them.
    Attributes and the computations that they apply are shared. The layouts in which the computation
    takes and gives arrays count no more, nor do the shardings of its parameters and its result:
    these are facts of an entry.

    Args:
        computation: an XlaComputation, or a function of ``@xb.computation``. (A computation without
            parameters has no operand to find the builder by: ``builder.inline(computation)``.)
        operands: one for each parameter, of its shape; they may be of an enclosing builder.

    Returns:
        The computation's result: what ``xb.call(computation, *operands)`` gives.

    Raises:
        SignatureError: the operands are not those that the computation takes. Sizes have to be
            dynamic where those of the parameter are, which a call does not ask for.
        OperandError: not a computation, or no operand.

    Example:
        >>> import builder as xb
        >>> @xb.computation(xb.f32[3])
        ... def square(x):
        ...     return x * x
        >>> b = xb.XlaBuilder()
        >>> xb.inline(square, b.parameter(xb.f32[3], "v"))
        <XlaOp %1 = f32[3] multiply(%0, %0)>
    """
    given = need_ops("inline", "operand", operands)
    if not given:
        raise OperandError(
            "inline: at least one operand is needed to determine the builder, got none\n"
            "fix: a computation without parameters is inlined with builder.inline(computation)",
            op="inline",
        )
    builder = resolve_builder("inline", *given)
    if isinstance(computation, ReusableFunction):
        with rollback_on_error(builder):
            shapes = tuple([operand.shape for operand in given])
            computation = computation.recorded("inline", "computation", shapes)
    return inlined(computation, given, builder)


def inlined(computation: XlaComputation, operands: tuple[XlaOp, ...], builder: XlaBuilder) -> XlaOp:
    """`inline` into the builder that records, which is known to take the operands."""
    if not isinstance(computation, XlaComputation):
        fix = "\nfix: call it yourself: function(*operands)" if callable(computation) else ""
        raise OperandError(
            f"inline: computation must be an XlaComputation, got {brief(computation)}{fix}",
            op="inline",
        )
    _check(computation, operands)
    arguments = [builder.adopt("inline", operand) for operand in operands]
    if computation.annotations is not None and computation.annotations.meshes:
        from builder.sharding.validation import name_meshes  # few programs need it

        name_meshes(builder, "inline", computation.annotations.meshes, computation.name)
    if computation.sharding_form:
        from builder.sharding.validation import register_sharding_form

        form = computation.sharding_form
        got = f"{form}, of {computation.name!r}"
        register_sharding_form(
            builder, "inline", form, got, f"the shardings of {computation.name!r} otherwise"
        )
    around = builder.current_metadata
    values: list[XlaOp] = []  # by the numbers of the ops
    for op in computation.ops:
        if op.opcode == "parameter":
            values.append(arguments[op.attributes["number"]])
            continue
        inside = tuple([values[operand.id] for operand in op.operands])
        new = copied(op, inside, builder, op.attributes)
        if around is not None:
            given = metadata_for(builder, op.opcode, op.shape, around, must_fit=False)
            new.metadata = merged(op.metadata, given)
        values.append(new)
    return values[computation.root.id]


def _check(computation: XlaComputation, operands: tuple[XlaOp, ...]) -> None:
    """Raises unless the operands have the very shapes that ops inside were inferred from."""
    shapes = tuple([operand.shape for operand in operands])
    control_flow.call.strict(computation.signature, shapes, "inline")
    for number, parameter in enumerate(computation.parameters):
        if parameter.shape is not shapes[number]:
            raise SignatureError(
                f"inline: an operand must have the dynamic sizes of its parameter, got\n"
                f"  parameter {number}, {parameter.name}, of {computation.name!r} "
                f"{parameter.shape}\n"
                f"  operand {number} {shapes[number]}\n"
                f"fix: record a call, xb.call(computation, ...), which does not ask for it",
                op="inline",
                shapes={"parameter": parameter.shape, "operand": shapes[number]},
            )
