"""Recording: appending an op to its builder. Every public op ends here.

`record` runs once for every op and is the hot path of the library. It takes an inferred shape
and operands that are XlaOps, finds their builder, stores the line of the user's program, and
appends the op.

Front ends, which are libraries that record ops for their own users, declare themselves here: the
line of the user's program is outside of them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from sys import _getframe
from types import FrameType, MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from builder.errors import OperandError, ShapeInferenceError, brief, error_of
from builder.graph.foreign_values import foreign_operand
from builder.graph.registry import OPERATIONS
from builder.graph.xla_op import NO_ATTRIBUTES, OpMetadata, XlaOp, scoped_name, with_metadata
from builder.support.caches import per_signature
from builder.support.frames import INSIDE, is_called_from, is_library_file
from builder.types.shape import Shape

if TYPE_CHECKING:
    from builder.graph.xla_builder import XlaBuilder


_new: Final = object.__new__


def record(
    opcode: str,
    shape: Shape,
    operands: tuple[XlaOp, ...],
    attributes: Mapping[str, Any] = NO_ATTRIBUTES,
    depth: int = 2,
    builder: XlaBuilder | None = None,
    helper: XlaOp | None = None,
) -> XlaOp:
    """Append an op to `builder`, by default to the builder of its operands.

    The source line is that of the nearest frame outside this package. Only the frame's code object
    and instruction offset are stored; `XlaOp.source` computes the line number on demand.

    Args:
        opcode, shape, operands, attributes: the fields of the op.
        depth: the number of frames to skip in the search for the user's line; they all belong to
            this library. Each skipped frame saves time, because the interpreter creates an object
            for every frame that is examined.
        builder: the builder to append to, without a check of the operands; None to check the
            operands and append to their builder.
        helper: an op that the same call has just recorded, such as the broadcast of an operand.
            This op gets its source line, without a search; `depth` is not used.

    Raises:
        BuilderError: the operands belong to different builders, or their builder was already built.
    """
    if builder is None:
        builder = operands[0].builder
        if builder._is_open:
            for operand in operands:
                if operand.builder is not builder:
                    builder, operands = _resolve(opcode, operands)
                    break
        else:
            builder, operands = _resolve(opcode, operands)
    op = _new(XlaOp)
    op.opcode = opcode
    op.shape = shape
    op.operands = operands
    op.attributes = attributes
    op.builder = builder
    metadata = builder._current_metadata
    op.metadata = metadata if metadata is None else metadata_for(builder, opcode, shape, metadata)
    ops = builder.ops
    op.id = len(ops)
    if helper is not None:
        op._code = helper._code
        op._lasti = helper._lasti
        ops.append(op)
        return op
    try:
        frame: FrameType | None = _getframe(depth)
    except ValueError:
        frame = None  # called from C, such as the first function of a thread
    while frame is not None:
        code = frame.f_code
        if not INSIDE[code.co_filename]:
            op._code = code
            op._lasti = frame.f_lasti
            break
        frame = frame.f_back
    else:
        op._code = None
        op._lasti = 0
    ops.append(op)
    return op


def append(
    builder: XlaBuilder,
    opcode: str,
    shape: Shape,
    operands: tuple[XlaOp, ...] = (),
    attributes: Mapping[str, Any] = NO_ATTRIBUTES,
    depth: int = 1,
) -> XlaOp:
    """Append an op to `builder` without checking its operands.

    Used for ops without operands, and for ops that the library adds. `depth` is as in `record`.
    """
    return record(opcode, shape, operands, attributes, depth + 1, builder)


_NO_OPERATIONS: Final = frozenset(("captured", "get_tuple_element", "tuple"))
"""Opcodes that only forward values. They ignore the sharding of a ``with`` block if it does not fit
their shapes."""

_NAMED_BY_CALLERS: Final = frozenset(("captured", "parameter"))
"""Opcodes whose names are those of arguments, which a scope does not change."""


def metadata_for(
    builder: XlaBuilder, opcode: str, shape: Shape, metadata: OpMetadata, *, must_fit: bool = True
) -> OpMetadata | None:
    """Return the metadata of a new op: `metadata`, with the name and the sharding of this op.

    In a scope the name begins with the scope. The sharding is adapted to the op's shape.

    Args:
        builder, opcode, shape: the fields of the op.
        metadata: the current metadata of the builder.
        must_fit: False to omit a sharding that does not fit `shape`.

    Raises:
        ShapeInferenceError: the sharding does not fit the shape.
    """
    if metadata.scope is not None:
        is_scoped = opcode not in _NAMED_BY_CALLERS
        name = scoped_name(metadata.scope, metadata.name or opcode) if is_scoped else metadata.name
        scope = metadata.scope if is_scoped else None
        metadata = metadata._replace(name=name, scope=scope)
    if metadata.sharding is None:
        return metadata
    from builder.sharding.validation import (  # lazy import
        ShardingFault,
        block_sharding,
        register_meshes,
    )

    sharding = block_sharding(metadata.sharding, shape)
    if isinstance(sharding, ShardingFault):
        # A function of builder.lib also records ops of other shapes than its result.
        is_required = must_fit and not is_called_from("lib", _getframe())
        if is_required and opcode not in _NO_OPERATIONS:
            op = _public_name(opcode)
            rule = f"{sharding.rule}"
            fix = (
                f"{sharding.fix}; or record the op outside of the block, or under "
                f"builder.sharding(None)"
            )
            raise error_of(ShapeInferenceError, op, rule, fix, shapes={"result": shape})
        sharding = None
    if not isinstance(metadata.sharding, str):
        mesh = metadata.sharding.mesh
        register_meshes(builder, opcode, {mesh.name: {"mesh": str(mesh)}})
    return with_metadata(metadata, sharding=sharding)


@per_signature
def shared_attributes(**attributes: Any) -> Mapping[str, Any]:
    """Return `attributes` as a read-only mapping; equal attributes share one mapping."""
    return MappingProxyType(attributes)


def record_with_sharding(
    builder: XlaBuilder, sharding: str, record_op: Callable[[], XlaOp]
) -> XlaOp:
    """Call `record_op`, and give the recorded op `sharding` instead of the block's sharding."""
    metadata = builder._current_metadata
    builder._current_metadata = with_metadata(metadata, sharding=None)
    try:
        op = record_op()
    finally:
        builder._current_metadata = metadata
    op.metadata = with_metadata(op.metadata, sharding=sharding)
    return op


class rollback_on_error:  # noqa: N801  (used as a statement, like contextlib's)
    """``with rollback_on_error(builder):`` removes the ops recorded in the block if that raises.

    Some ops record helper ops (a constant for a number, a tuple for a loop's state) before their
    checks. If a check fails, the helpers must be removed, because the last op is the default root.
    """

    __slots__ = ("builder", "marks")

    def __init__(self, builder: XlaBuilder) -> None:
        self.builder = builder

    def __enter__(self) -> None:
        # Enclosing builders roll back too: each builder between a value and its use captures it.
        self.marks = []
        builder: XlaBuilder | None = self.builder
        while builder is not None:
            counts = len(builder.ops), len(builder._captured), len(builder.parameters)
            self.marks.append((builder, (*counts, len(builder._inlined_calls))))
            builder = builder._parent

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            return
        for builder, (ops, captured, parameters, calls) in self.marks:
            del builder.ops[ops:]
            del builder._inlined_calls[calls:]
            # Dicts keep the order of insertion, and popitem removes the last item.
            while len(builder._captured) > captured:
                builder._captured.popitem()
            while len(builder.parameters) > parameters:
                _, parameter = builder.parameters.popitem()
                builder._parameter_names.discard(parameter.name or "")


def resolve_builder(op: str, *operands: XlaOp, fix: str = "") -> XlaBuilder:
    """Return the builder that will record an op on these operands.

    Args:
        op: the name of the op, for messages.
        operands: the operands of the op.
        fix: the fix in the message if there are no operands.

    Raises:
        OperandError: there are no operands.
        BuilderError: the operands belong to different builders, or their builder was already built.
    """
    if not operands:
        rule = "at least one operand is needed to determine the builder"
        raise error_of(OperandError, op, rule, fix, got="none")
    builder = operands[0].builder
    if builder._is_open:
        for operand in operands:
            if operand.builder is not builder:
                break
        else:
            return builder
    return _target(op, operands)


def _public_name(opcode: str) -> str:
    """Return the public name of an op, as the user wrote it: "mul" for the opcode "multiply"."""
    # Several ops may have one opcode. The user called the one in the library's outermost frame.
    called = None
    frame: FrameType | None = _getframe(1)
    while frame is not None and is_library_file(frame.f_code.co_filename):
        if frame.f_code.co_name in OPERATIONS:
            called = frame.f_code.co_name
        frame = frame.f_back
    if called is not None:
        return called
    if opcode in OPERATIONS:
        return opcode
    return next((name for name, info in OPERATIONS.items() if info.opcode == opcode), opcode)


def _target(opcode: str, operands: tuple[XlaOp, ...]) -> XlaBuilder:
    """Return the builder that records an op on operands of several builders, or of one not open.

    While a callable of a `while_`, `scan`, `conditional` or `call` is being recorded, the enclosing
    builder is not open: the innermost builder records, and captures values of enclosing builders.
    """
    target = operands[0].builder._innermost()
    for operand in operands:
        if operand.builder.built or operand.builder._innermost() is not target:
            raise foreign_operand(_public_name(opcode), operands)
    return target


def _resolve(opcode: str, operands: tuple[XlaOp, ...]) -> tuple[XlaBuilder, tuple[XlaOp, ...]]:
    """Return the builder that records an op, and its operands; capture values of outer builders."""
    target = _target(opcode, operands)
    return target, tuple(target._adopt(opcode, operand) for operand in operands)


def declare_internal(module: str) -> None:
    """Declare a module or package of a front end as internal, as the modules of `builder` are.

    The source lines of ops, and the lines in errors, are then those of the front end's callers. A
    front end calls this once, when it is imported.

    Args:
        module: the name of the module, or of a package with all its modules: ``__name__``.

    Raises:
        OperandError: no module of this name is imported, or it has no source file, such as the
            module of an interactive session.

    Example:
        In ``arrays.py``, the only module of a front end:

        >>> import builder as xb
        >>> xb.declare_internal(__name__)
        >>> def doubled(x):
        ...     return xb.add(x, x)

        The source line of the op that ``arrays.doubled(x)`` records is that of the call.
    """
    found = sys.modules.get(module) if isinstance(module, str) else None
    if found is None:
        rule = "expected the name of an imported module"
        raise error_of(OperandError, "declare_internal", rule, "pass __name__", got=brief(module))
    paths = [f"{folder}{os.sep}" for folder in getattr(found, "__path__", ())]
    file = getattr(found, "__file__", None)
    if not paths and file is not None:
        paths = [file]
    if not paths:
        rule = f"the module {module!r} has no source file"
        fix = "call xb.declare_internal(__name__) in a module that is imported from a file"
        raise error_of(OperandError, "declare_internal", rule, fix)
    INSIDE.add(module, tuple(paths))
