"""Finding ops by what they are."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from types import CodeType

from builder.errors import OperandError, brief
from builder.graph.computation import XlaComputation
from builder.graph.registry import OPERATIONS
from builder.graph.xla_op import XlaOp, resolve_position
from builder.schema import SCHEMAS
from builder.types.shape import Shape, ShapeLike, shape_argument, without_layout

__all__ = ["found_in"]

Test = Callable[[XlaOp], bool]


def found_in(
    computation: XlaComputation,
    opcode: str | None = None,
    *,
    name: str | None = None,
    shape: ShapeLike | None = None,
    source: str | None = None,
    where: Callable[[XlaOp], bool] | None = None,
    nested: bool = False,
) -> tuple[XlaOp, ...]:
    """The ops of a computation that are as said; see `XlaComputation.find`."""
    searched = [computation, *computation.called_computations()[::-1]] if nested else [computation]
    tests: list[Test] = []
    if opcode is not None:
        tests.append(_opcode_test(_text("opcode", opcode), searched))
    if name is not None:
        tests.append(_name_test(_text("name", name)))
    if shape is not None:
        tests.append(_shape_test(shape_argument("find", "shape", shape)))
    if source is not None:
        tests.append(_source_test(_text("source", source)))
    if where is not None:
        if not callable(where):
            raise OperandError(
                f"find: where must be a function of an XlaOp, got {brief(where)}\n"
                f"fix: find(where=lambda op: len(op.operands) > 2)",
                op="find",
            )
        tests.append(where)
    found = [op for one in searched for op in one.ops]
    for test in tests:
        found = [op for op in found if test(op)]
    return tuple(found)


def _text(argument: str, value: object) -> str:
    if isinstance(value, str):
        return value
    raise OperandError(f"find: {argument} must be a str, got {brief(value)}", op="find")


def _opcode_test(wanted: str, searched: list[XlaComputation]) -> Test:
    there = {op.opcode for one in searched for op in one.ops}
    known = there | {info.opcode for info in OPERATIONS.values()}
    opcodes = {opcode for opcode in known if opcode == wanted or fnmatchcase(opcode, wanted)}
    if not opcodes:
        meant = _meant(wanted, known)
        fix = f"\nfix: did you mean {' or '.join(map(repr, meant))}?" if meant else ""
        raise OperandError(f"find: no op has the opcode {brief(wanted)}{fix}", op="find")
    return lambda op: op.opcode in opcodes


def _meant(wanted: str, known: set[str]) -> list[str]:
    """The opcodes that are most like what was asked for; by other names of the op, too."""
    spoken = {opcode: opcode for opcode in known}
    for opcode in known:
        spoken.setdefault(SCHEMAS[opcode].hlo, opcode)
    for info in OPERATIONS.values():
        for other in (info.name, *info.aliases, info.cpp_name):
            spoken.setdefault(other, info.opcode)
    if wanted in spoken:
        return [spoken[wanted]]
    close = get_close_matches(wanted, list(spoken), n=3, cutoff=0.6)
    return list(dict.fromkeys(spoken[one] for one in close))


def _name_test(wanted: str) -> Test:
    def is_named(op: XlaOp) -> bool:
        if op.metadata is None:
            return False
        name = op.metadata.name
        return name is not None and (name == wanted or fnmatchcase(name, wanted))

    return is_named


def _shape_test(wanted: Shape) -> Test:
    # Ops have shapes without layouts; parameters and results keep theirs beside.
    if without_layout(wanted) is wanted:
        return lambda op: op.shape is wanted
    return lambda op: op.attributes.get("shape_with_layout", op.shape) is wanted


def _source_test(wanted: str) -> Test:
    file, colon, line = wanted.rpartition(":")
    if not (colon and line.isdecimal()):
        file, line = wanted, ""
    ending = "/" + file.replace("\\", "/")

    @cache
    def is_file(name: str) -> bool:
        return ("/" + name.replace("\\", "/")).endswith(ending)

    def is_there(op: XlaOp) -> bool:
        code: CodeType | None = op.code
        if code is None or not is_file(code.co_filename):
            return False
        return not line or resolve_position(code, op.lasti)[0] == int(line)

    return is_there
