"""Copy ops to another computation: `extract` copies a part, `inline` replaces a call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from builder.errors import BuilderError, OperandError, SignatureError, brief, error_of
from builder.graph.calls import explained
from builder.graph.computation import XlaComputation
from builder.graph.inlined_calls import copied_calls, needed_ops
from builder.graph.recording import metadata_for, resolve_builder, rollback_on_error
from builder.graph.registry import rule_of
from builder.graph.subcomputations import ReusableFunction, record_tuple
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import OpMetadata, XlaOp, is_parameter, with_metadata
from builder.ops.operands import need_ops
from builder.support.names import UniqueNames

_new: Final = object.__new__


def copy_op(
    op: XlaOp, operands: tuple[XlaOp, ...], builder: XlaBuilder, attributes: Mapping[str, Any]
) -> XlaOp:
    """Record a copy of `op` in `builder`, on operands of the same shapes.

    The copy has the fields that `recording.record` sets, but keeps the source line and the metadata
    of `op`.
    """
    new = _new(XlaOp)
    new.opcode = op.opcode
    new.shape = op.shape
    new.operands = operands
    new.attributes = attributes
    new.builder = builder
    new.metadata = op.metadata
    new._code = op._code
    new._lasti = op._lasti
    ops = builder.ops
    new.id = len(ops)
    ops.append(new)
    return new


def copy_parameter(op: XlaOp, name: str, number: int, builder: XlaBuilder) -> XlaOp:
    """Record a parameter in the place of `op`, with its shape, source line and metadata."""
    shape, replicated = op.shape, ()
    if is_parameter(op):
        shape = op.attributes.get("shape_with_layout", shape)
        replicated = op.attributes.get("replicated_at_leaf_buffers", ())
    new = builder._add_parameter(shape, name, number, replicated)
    new.metadata = with_metadata(op.metadata, name=name)
    new._code, new._lasti = op._code, op._lasti
    return new


def merge_metadata(metadata: OpMetadata | None, defaults: OpMetadata | None) -> OpMetadata | None:
    """Return `metadata`, with entries that are missing copied from `defaults`."""
    if metadata is None or defaults is None:
        return metadata or defaults
    attributes = {**(defaults.frontend_attributes or {}), **(metadata.frontend_attributes or {})}
    missing = {
        name: value for name, value in defaults._asdict().items() if getattr(metadata, name) is None
    }
    return metadata._replace(**{**missing, "frontend_attributes": attributes or None})


def extract(
    computation: XlaComputation,
    ops: XlaOp | Sequence[XlaOp],
    *,
    inputs: XlaOp | Sequence[XlaOp] | None = None,
) -> XlaComputation:
    """Return the part of `computation` that computes `ops`; see `XlaComputation.extract`."""
    results = need_ops("extract", "op", ops)
    if not results:
        raise OperandError("at least one op is needed", got="none", op="extract")
    cuts = () if inputs is None else need_ops("extract", "input", inputs)
    for role, arguments in (("op", results), ("input", cuts)):
        for index, op in enumerate(arguments):
            if not _is_in(op, computation):
                raise _foreign_op(computation, f"{role} {index}", op)
    numbers = {op.id: index for index, op in enumerate(cuts)}
    if len(numbers) != len(cuts):
        duplicate = next(op for number, op in enumerate(cuts) if numbers[op.id] != number)
        rule = "inputs must be unique"
        raise error_of(OperandError, "extract", rule, got=f"{duplicate!r} several times")

    needed = _needed(computation, results, numbers)
    parameters = [p for p in computation.parameters if needed[p.id] and p.id not in numbers]
    numbers |= {p.id: number for number, p in enumerate(parameters, len(cuts))}
    names = [""] * len(cuts) + [str(p.name) for p in parameters]
    unique = UniqueNames(names, separator="_")
    for index, op in enumerate(cuts):
        names[index] = unique.claim(str(op.name or f"{op.opcode}_{op.id}"))

    builder = XlaBuilder(f"{computation.name}_part")
    values: dict[int, XlaOp] = {}
    for op in computation.ops:
        if op.id in numbers:
            number = numbers[op.id]
            values[op.id] = copy_parameter(op, names[number], number, builder)
        elif needed[op.id]:
            operands = tuple([values[operand.id] for operand in op.operands])
            values[op.id] = copy_op(op, operands, builder, op.attributes)
    if computation.annotations is not None:
        # The annotations of arguments and results do not apply to those of the part.
        builder.annotations = computation.annotations._replace(
            parameters=(), results=(), result_shardings=(), nesting=None
        )
    builder._sharding_form = computation._sharding_form
    by_id = values.get
    builder._inlined_calls = copied_calls(computation._inlined_calls, lambda op: by_id(op.id))
    roots = [values[op.id] for op in results]
    return builder.build(roots[0] if type(ops) is XlaOp else record_tuple(builder, roots))


def _needed(
    computation: XlaComputation, results: Sequence[XlaOp], inputs: dict[int, int]
) -> bytearray:
    """Return for each op, by id, whether computing `results` from `inputs` needs the op."""
    ops = computation.ops
    needed = bytearray(len(ops))
    for op in results:
        needed[op.id] = 1
    if computation._inlined_calls:
        given = [ops[index] for index in inputs]
        for op in needed_ops(results, computation._inlined_calls, given):
            needed[op.id] = 1
    for index in range(len(ops) - 1, -1, -1):
        if needed[index] and index not in inputs:
            for operand in ops[index].operands:
                needed[operand.id] = 1
    return needed


def _is_in(op: XlaOp, computation: XlaComputation) -> bool:
    ops = computation.ops
    return op.id < len(ops) and ops[op.id] is op


def _foreign_op(computation: XlaComputation, role: str, op: XlaOp) -> BuilderError:
    """Return the error for an op of another computation."""
    name = computation.name
    for number, called in enumerate(computation.called_computations()):
        if _is_in(op, called):
            return BuilderError(
                f"{role} must be an op of {name!r} itself",
                got=f"an op of {called.name!r}, which {name!r} applies\n  {op!r}",
                fix=f"extract the op from computation.called_computations()[{number}], or extract "
                f"the op of {name!r} that applies {called.name!r}",
                op="extract",
                shapes={role: op.shape},
            )
    return BuilderError(
        f"{role} must be an op of computation {name!r}",
        got=f"an op of builder {op.builder.name!r}\n  {op!r}",
        fix=f"use an op of this computation, such as computation.ops[{op.id}]; replace, and "
        "building the same model again, record new ops",
        op="extract",
        shapes={role: op.shape},
    )


@explained
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
            computation = computation._computation_for("inline", "computation", shapes)
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
                "operands must have the dynamic sizes of their parameters",
                got=f"\n  parameter {number}, {parameter.name}, of {computation.name!r} "
                f"{parameter.shape}\n"
                f"  operand {number} {shapes[number]}",
                fix="record xb.call(computation, *operands), which accepts other dynamic sizes",
                op="inline",
                shapes={"parameter": parameter.shape, "operand": shapes[number]},
            )
