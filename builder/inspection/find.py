"""Find the ops of a computation by opcode, name, shape, source line or predicate."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import cache

from builder.checking import flag
from builder.errors import OperandError, brief, error_of
from builder.graph.computation import XlaComputation
from builder.graph.corrections import argument_text
from builder.graph.registry import OPERATIONS
from builder.graph.xla_op import XlaOp, resolve_position
from builder.schema import SCHEMAS
from builder.support.arguments import is_function
from builder.support.frames import shown_file
from builder.support.names import did_you_mean
from builder.types.shape import Shape, ShapeLike, shape_argument, without_layout

Predicate = Callable[[XlaOp], bool]


def find_ops(
    computation: XlaComputation,
    opcode: str | None = None,
    *,
    name: str | None = None,
    shape: ShapeLike | None = None,
    source: str | None = None,
    where: Callable[[XlaOp], bool] | None = None,
    nested: bool = False,
) -> tuple[XlaOp, ...]:
    """Return the ops that match every argument that is not None; see `XlaComputation.find`."""
    searched = [computation]
    if flag("find", "nested", nested):
        searched += computation.called_computations()[::-1]
    ops = [op for each in searched for op in each.ops]
    predicates: list[Predicate] = []
    if opcode is not None:
        predicates.append(_has_opcode(_text("opcode", opcode), ops))
    if name is not None:
        predicates.append(_has_name(_text("name", name)))
    if shape is not None:
        predicates.append(_has_shape(shape_argument("find", "shape", shape)))
    if source is not None:
        predicates.append(_has_source(_text("source", source)))
    if where is not None:
        if not is_function(where):
            rule = "where must be a function of an XlaOp"
            fix = "write computation.find(where=lambda op: len(op.operands) > 2)"
            raise error_of(OperandError, "find", rule, fix, got=brief(where))
        predicates.append(where)
    for predicate in predicates:
        ops = list(filter(predicate, ops))
    return tuple(ops)


def _text(argument: str, value: object) -> str:
    if isinstance(value, str):
        return value
    fix = ""
    if isinstance(value, Shape):
        fix = f"write computation.find(shape={argument_text(value, 'shape')})"
    elif is_function(value):
        names = (info.opcode for info in OPERATIONS.values() if info.function is value)
        opcode = next(names, None)
        fix = "write computation.find(where=lambda op: ...)"
        if opcode is not None:
            fix = f"write computation.find({opcode!r})"
    raise error_of(OperandError, "find", f"{argument} must be a str", fix, got=brief(value))


def _has_opcode(pattern: str, ops: list[XlaOp]) -> Predicate:
    opcodes = {op.opcode for op in ops} | {info.opcode for info in OPERATIONS.values()}
    matching = {opcode for opcode in opcodes if opcode == pattern or fnmatchcase(opcode, pattern)}
    if not matching:
        fix = did_you_mean(pattern, _spellings(opcodes), cutoff=0.6)
        raise OperandError(f"no op has the opcode {brief(pattern)}", op="find", fix=fix)
    return lambda op: op.opcode in matching


def _spellings(opcodes: set[str]) -> dict[str, str]:
    """Return a dict from each name of an op (Python, HLO or C++) to the `repr` of its opcode."""
    spellings = {opcode: repr(opcode) for opcode in opcodes}
    for opcode in opcodes:
        spellings.setdefault(SCHEMAS[opcode].hlo, repr(opcode))
    for info in OPERATIONS.values():
        for name in (info.name, *info.aliases, info.cpp_name):
            spellings.setdefault(name, repr(info.opcode))
    return spellings


def _has_name(pattern: str) -> Predicate:
    def has_name(op: XlaOp) -> bool:
        name = None if op.metadata is None else op.metadata.name
        return name is not None and (name == pattern or fnmatchcase(name, pattern))

    return has_name


def _has_shape(shape: Shape) -> Predicate:
    # Shapes of ops have no layouts; those of parameters and results are in an attribute.
    if without_layout(shape) is shape:
        return lambda op: op.shape is shape
    return lambda op: op.attributes.get("shape_with_layout", op.shape) is shape


def _has_source(source: str) -> Predicate:
    file, colon, line = source.rpartition(":")
    if not (colon and line.isdecimal()):
        file, line = source, ""
    suffix = "/" + file.replace("\\", "/")

    @cache
    def is_file(name: str) -> bool:
        return ("/" + shown_file(name).replace("\\", "/")).endswith(suffix)

    def has_source(op: XlaOp) -> bool:
        place = None if op.metadata is None else op.metadata.source
        if place is not None:
            return is_file(place.file) and (not line or place.line == int(line))
        if op._code is None or not is_file(op._code.co_filename):
            return False
        return not line or resolve_position(op._code, op._lasti)[0] == int(line)

    return has_source
