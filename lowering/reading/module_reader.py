"""Read modules from untrusted bytes without crashing.

MLIR's bytecode reader refuses truncated files, but some files with a single changed bit crash it or
make it loop. Modules written by this library therefore have a checksum. Bytecode without a checksum
is parsed in a helper process first. Text is parsed in this process, except where `text_limits`
finds a risk.
"""

from __future__ import annotations

import io
import itertools
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from graphlib import CycleError, TopologicalSorter
from typing import Final

from jaxlib.mlir import ir

from lowering.errors import ModuleFileError, recorded_at
from lowering.jaxlib_api import artifacts, hlo_conversion, mlir, versions
from lowering.jaxlib_api.mlir import BYTECODE_MAGIC, UnreadableModuleError
from lowering.mlir.attributes import encodable
from lowering.mlir.operations import (
    REFERRING,
    enclosing_function_name,
    operations_where,
    referenced_functions,
)
from lowering.mlir.types import is_of_other_elements
from lowering.reading.bytecode_tables import (
    operation_names,
    prefixes_before_dots,
    sections_of,
    sizes_add_up,
)
from lowering.reading.files import other_kind
from lowering.reading.helper_process import HelperError, in_helper
from lowering.reading.text_limits import TextProblem, crash_risk, exceeded_limit

CHECKSUM_ATTRIBUTE: Final = "xlabuilder.checksum"
"""The module attribute that contains the checksum of a portable artifact's other bytes."""

_EMPTY_SEAL: Final = b"xlabuilder-crc32-00000000"
_SEAL: Final = re.compile(rb"xlabuilder-crc32-(.{8})", re.DOTALL)
_SEAL_ATTRIBUTE: Final = {CHECKSUM_ATTRIBUTE: _EMPTY_SEAL.decode()}

_DIALECTS: Final = frozenset({"builtin", "func", "stablehlo", "chlo", "mhlo", "sdy"})
_QUANTIZED: Final = re.compile(r"!\"quant\"<\"([^\"]*)\">|!quant\.(\w+<[^>]*>)")
_OPERATION: Final = re.compile(r"\b(?:stablehlo|func)\.\w+")
_NO_DIALECT: Final = r"custom op '([^'.]*)' is unknown"
_UNKNOWN: Final = r"custom op '[^']*' is unknown|unregistered dialect|Dialect .* not found"


def sealed_bytecode(module: ir.Module) -> list[bytes]:
    """Return MLIR bytecode of a module with an embedded checksum, in pieces.

    Each large constant is a piece, and is not copied. The checksum follows the producer's name at
    the start of the bytecode, which MLIR skips. An attribute would require a copy of the module.
    """
    pieces = _join_small(mlir.bytecode_pieces(module))
    sections = sections_of(lambda at, size: _part(pieces, at, size), sum(map(len, pieces)))
    head, separator, rest = pieces[0].partition(b"\0")
    if not separator or sections is None or any(s.is_aligned for s in sections):
        # An aligned section (resources in modules of other programs) can't be moved. Without a
        # checksum the file is parsed in a helper process.
        return pieces
    sealed = [b"%s %s\0" % (head, _EMPTY_SEAL), rest, *pieces[1:]]
    if sum(len(_SEAL.findall(piece)) for piece in sealed) != 1 or _has_seal_across_pieces(sealed):
        # The module's data contain the pattern of a checksum. With the empty one there are two, so
        # neither is used, and the file is parsed in a helper process.
        return sealed
    checksum = 0
    for piece in sealed:
        checksum = zlib.crc32(piece, checksum)
    sealed[0] = b"%s xlabuilder-crc32-%08x\0" % (head, checksum)
    return sealed


def _part(pieces: Sequence[bytes], at: int, size: int) -> bytes:
    """Return the `size` bytes at the position `at` of the joined pieces."""
    part = b""
    for piece in pieces:
        if at < len(piece):
            part += piece[at : at + size - len(part)]
            if len(part) == size:
                break
        at = max(at - len(piece), 0)
    return part


def sealed_artifact(
    module: ir.Module,
    version: str | Callable[[bytes], str],
    prepare: Callable[[ir.Module], None],
) -> bytes:
    """Return the portable artifact of a module with an embedded checksum.

    Args:
        module: the module, which is not changed.
        version: the StableHLO version to write, or a function that takes the module's bytecode and
            returns the version.
        prepare: changes the copy of the module that is written.

    Raises:
        ValueError: the StableHLO version cannot express the module.
    """
    # A BytesIO with the only reference to bytes uses them as its buffer, writable in place.
    buffer = io.BytesIO(artifacts.serialize_artifact(module, version, _SEAL_ATTRIBUTE, prepare))
    with buffer.getbuffer() as view:
        span = _only_seal(view)
        if span is not None:
            view[slice(*span)] = b"xlabuilder-crc32-%08x" % zlib.crc32(view)
    if span is None:  # the module's data contain the pattern of a checksum
        return artifacts.serialize_artifact(module, version, {}, prepare)
    return buffer.getvalue()


_LARGE_PIECE: Final = 1 << 16


def _join_small(pieces: Sequence[bytes]) -> list[bytes]:
    """Return the pieces with each run of small pieces joined into one piece."""
    result: list[bytes] = []
    for is_small, group in itertools.groupby(pieces, lambda piece: len(piece) < _LARGE_PIECE):
        adjacent = list(group)
        result += [b"".join(adjacent)] if is_small else adjacent
    return result


def _has_seal_across_pieces(pieces: Sequence[bytes]) -> bool:
    """Return whether bytes that match the pattern of a checksum extend over two pieces."""
    width = len(_EMPTY_SEAL) - 1  # too short to contain the pattern
    return any(
        _SEAL.search(left[-width:] + right[:width]) for left, right in itertools.pairwise(pieces)
    )


def _only_seal(data: bytes | memoryview) -> tuple[int, int] | None:
    """Return the start and end of the checksum in `data`; None unless there is exactly one."""
    spans = [m.span() for m in itertools.islice(_SEAL.finditer(data), 2)]
    return spans[0] if len(spans) == 1 else None


def _checksum_matches(data: bytes) -> bool | None:
    """Return whether the checksum in `data` is correct; None if there is none."""
    span = _only_seal(data)
    if span is None:
        return None
    start, end = span
    if data.find(b"\0") < start and CHECKSUM_ATTRIBUTE.encode() not in data:
        return None  # not after the producer's name or in the attribute, so it is constant data
    view = memoryview(data)  # its slices are not copies
    checksum = zlib.crc32(view[end:], zlib.crc32(_EMPTY_SEAL, zlib.crc32(view[:start])))
    return data[end - 8 : end] == b"%08x" % checksum


def display_name(path: str | None) -> str:
    """Return the name of a module's file for messages, on one line; "the module" for None."""
    if path is None:
        return "the module"
    return path if path.isprintable() else repr(path)


def file_error(
    path: str | None,
    rule: str,
    fix: str = "",
    position: tuple[int | None, int | None] = (None, None),
    detail: str = "",
) -> ModuleFileError:
    """Return an error about a module's file.

    Args:
        path: the path of the file; None if the module is not from a file.
        rule, fix: the problem and the fix.
        position: the line and column of the problem; None if unknown.
        detail: the text of MLIR's error.
    """
    name = display_name(path)
    line, column = position
    place = "" if line is None else f"line {line}, column {column}: "
    return ModuleFileError(
        f"{place}{rule}",
        context=(name,),
        fix=fix,
        path=path,
        line=line,
        column=column,
        detail=detail,
    )


def read(data: bytes, path: str | None = None) -> ir.Module:
    """Read and verify a module in MLIR text, MLIR bytecode or a portable artifact.

    The module is created in a new MLIR context.

    Args:
        data: the content of a file.
        path: the path of the file, for messages.

    Raises:
        ModuleFileError: the bytes are not a StableHLO module.
    """
    if not data.strip():
        raise file_error(path, "is empty", "save the module again")
    source = data if data.startswith(BYTECODE_MAGIC) else _text(data, path)
    # Bytecode with a checksum was written from a module that was read or lowered here.
    may_have_other_types = not isinstance(source, bytes) and _OTHER_TYPES in source
    if isinstance(source, bytes):
        # MLIR refuses truncated files too, but these are the most common kind of damage, and do
        # not need the helper process.
        check_sections(lambda at, size: source[at : at + size], len(source), path)
        matches = _checksum_matches(source)
        if matches is False:
            raise file_error(
                path,
                "is damaged: its checksum does not match its content",
                f"copy or save the module again; if another program changed it intentionally, "
                f"remove the attribute {CHECKSUM_ATTRIBUTE} of the module",
            )
        if matches is None:
            may_have_other_types = True
            if not sizes_add_up(source):
                raise _damaged(len(source), path)
            _read_in_helper(source, path, None)
    else:
        problem = crash_risk(source)
        if problem is not None:
            _read_in_helper(source, path, problem)
    try:
        # Parsing text loads the dialects that it names. Bytecode needs those of attributes loaded.
        context = mlir.new_context(loads_all=isinstance(source, bytes))
        module = mlir.read_module(context, source)
    except UnreadableModuleError as error:
        raise _refused(path, source, error) from None
    if CHECKSUM_ATTRIBUTE in module.operation.attributes:
        del module.operation.attributes[CHECKSUM_ATTRIBUTE]
    if not _needs_no_check(source, module.context):
        _check_operations(module, path)
    if may_have_other_types:
        _check_types(module, path)
    if path is not None and isinstance(source, str):
        _name_file(module, path)
    return module


_IN_TEXT: Final = re.compile(r'^loc\("-":(\d+):(\d+)\)$')
"""A location in the parsed text: MLIR names the text "-"."""


def _name_file(module: ir.Module, path: str) -> None:
    """Put the file's name in the locations of a module parsed from text."""
    file = encodable(path)

    def named(location: ir.Location) -> ir.Location | None:
        match = _IN_TEXT.match(str(location))
        return match and ir.Location.file(file, int(match[1]), int(match[2]))

    with module.context:
        pending = [module.operation]
        while pending:
            operation = pending.pop()
            location = named(operation.location)
            if location is not None:
                operation.location = location
            for region in operation.regions:
                for block in region.blocks:
                    for argument in block.arguments:
                        location = named(argument.location)
                        if location is not None:
                            argument.set_location(location)
                    pending.extend(view.operation for view in block.operations)


def _damaged(size: int, path: str | None) -> ModuleFileError:
    return file_error(
        path,
        f"is truncated or damaged: its {size} bytes of bytecode are inconsistent",
        "copy or save the module again",
    )


def check_sections(part: Callable[[int, int], bytes], size: int, path: str | None) -> None:
    """Check that bytecode has all sections and that they fill the file; see `sections_of`.

    Raises:
        ModuleFileError: the file is truncated or damaged.
    """
    sections = sections_of(part, size)
    # Every module has strings, dialects, attributes and types, their sizes, and operations.
    if sections is None or not {section.kind for section in sections} >= {0, 1, 2, 3, 4}:
        raise _damaged(size, path)


def _not_text(data: bytes, path: str | None, reason: str) -> ModuleFileError:
    """Return the error for bytes that are neither text nor bytecode."""
    kind = other_kind(data)
    guess, fix = ("", None) if kind is None else (f"; it seems to be {kind[0]}", kind[1])
    fix = fix or "pass a file that StablehloModule.save or another program wrote as StableHLO"
    return file_error(
        path,
        f"is not StableHLO text, MLIR bytecode or a portable artifact: {reason}{guess}",
        fix,
    )


def text_of(data: bytes, path: str | None) -> str:
    """Decode UTF-8 text.

    Raises:
        ModuleFileError: `data` is not text.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        at = error.start
        raise _not_text(data, path, f"byte {at} (0x{data[at]:02x}) is not text") from None
    if "\0" in text:
        raise _not_text(data, path, f"byte {data.index(0)} is zero")
    return text


def _text(data: bytes, path: str | None) -> str:
    """Decode text and check that MLIR's parser can process it."""
    if BYTECODE_MAGIC.startswith(data):
        raise file_error(
            path,
            f"is truncated: it has only {len(data)} bytes of bytecode",
            "copy or save the module again",
        )
    text = text_of(data, path)
    if text.lstrip().startswith("HloModule"):
        raise file_error(path, "is HLO text, not StableHLO", "use lowering.from_hlo")
    if hlo_conversion.is_hlo_proto(data):
        raise _not_text(data, path, "it has control characters")
    problem = exceeded_limit(text)
    if problem is not None:
        position = problem.line, problem.column
        raise file_error(path, problem.reason, problem.fix, position)
    return text


def artifact_version(data: bytes) -> str | None:
    """Return the StableHLO version of a portable artifact, "1.2.0"; None for other data."""
    match = re.match(rb"ML\xefR.StableHLO_v(\d+\.\d+\.\d+)\0", data, re.DOTALL)
    return None if match is None else match[1].decode()


def _refused(
    path: str | None, source: str | bytes, error: UnreadableModuleError
) -> ModuleFileError:
    """Return the error for a module that MLIR does not read or verify."""
    # MLIR appends advice about its own tools.
    reason = error.reason.partition(". If this is intended")[0][:300]
    quantized = _QUANTIZED.search(error.detail)
    rule = ""
    if quantized is not None:
        rule = (
            f"quantized types are not supported, because XLA has none: "
            f"{quantized[1] or quantized[2]}"
        )
    fix = "save the program with dequantized (floating-point) values, or with integers"
    if isinstance(source, bytes):
        version, newest = artifact_version(source), versions.current_version()
        if version and [*map(int, version.split("."))] > [*map(int, newest.split("."))]:
            message = (
                f"is written for StableHLO {version}; the installed jaxlib reads up to {newest}"
            )
            fix = f"install a newer jaxlib, or save the module with version={newest!r}"
        elif rule:  # MLIR reads the types of bytecode before the operations
            message = rule
        else:
            message = f"is not readable StableHLO: {reason}"
            fix = "save the module again; it is truncated, damaged or from another program"
        # Positions in bytecode mean nothing to the user.
        return file_error(path, message, fix, detail=error.detail)
    message = f"not StableHLO: {reason}"
    if rule:
        # The operation with this type is before it, possibly some lines above.
        *above, last = source.split("\n")[: error.line][-10:]
        operations = _OPERATION.findall("\n".join([*above, last[: error.column]]))
        operation = f"{operations[-1]}: " if operations else ""
        message = operation + rule
    elif word := re.search(_NO_DIALECT, error.detail):
        message, fix = no_operation(word[1])
    elif re.search(_UNKNOWN, error.detail):
        fix = f"use operations of these dialects: {', '.join(sorted(_DIALECTS))}"
    else:
        fix = "correct the text at this position, or save the module again"
    return file_error(path, message, fix, (error.line, error.column), error.detail)


def no_operation(word: str) -> tuple[str, str]:
    """Return the rule and the fix for text with this first word, neither StableHLO nor HLO."""
    fix = (
        "pass a file that StablehloModule.save or another program wrote; StableHLO text "
        "begins with module, HLO text with HloModule"
    )
    return f"not StableHLO: no operation begins with {word[:40]!r}", fix


_CALL_WORDS: Final = ("call", "composite")
"""The name of each operation that refers to functions contains one of these words."""


def _needs_no_check(source: str | bytes, context: ir.Context) -> bool:
    """Return whether the operation names show that `_check_operations` would not raise an error.

    To check the names in `source` is faster than to walk the operations.
    """
    if isinstance(source, bytes):
        names = operation_names(source)
        return names is not None and all(map(_is_accepted, names))
    if any(word in source for word in _CALL_WORDS):
        return False
    prefixes = prefixes_before_dots(source)
    return prefixes is not None and not any(
        prefix not in _DIALECTS and _is_dialect(prefix, context) for prefix in prefixes
    )


def _is_dialect(name: str, context: ir.Context) -> bool:
    """Return whether MLIR has a dialect `name`. MLIR refuses operations of other dialects."""
    try:
        context.get_dialect_descriptor(name)
    except ValueError:
        return False
    return True


def _is_accepted(operation: str) -> bool:
    """Return whether an operation is of a supported dialect and refers to no functions."""
    return operation.partition(".")[0] in _DIALECTS and operation not in REFERRING


def _check_operations(module: ir.Module, path: str | None) -> None:
    """Check the dialects of a module's operations, and that no function is recursive.

    Raises:
        ModuleFileError: an operation is of a dialect that is not supported, or functions call each
            other in a cycle.
    """
    is_accepted = cache(_is_accepted)
    checked = operations_where(module, lambda operation: not is_accepted(operation.name))
    refused = [operation for operation in checked if operation.name not in REFERRING]
    if refused:
        rule = f"{refused[0].name} is not an operation of StableHLO"
        fix = f"use operations of these dialects: {', '.join(sorted(_DIALECTS))}"
        raise file_error(path, rule, fix, _position(refused[0]))
    called: dict[str, dict[str, ir.Operation]] = {}
    for call in checked:
        callees = called.setdefault(enclosing_function_name(call), {})
        for callee in referenced_functions(call):
            callees.setdefault(callee, call)
    cycle = _cycle(called)
    if cycle:
        listed = " -> ".join(f"@{function}" for function in cycle)
        rule = f"functions are recursive, which XLA does not support: {listed}"
        fix = "use stablehlo.while instead of recursion"
        raise file_error(path, rule, fix, _position(called[cycle[-2]][cycle[0]]))


_OTHER_TYPES: Final = "f6E"
"""The start of the names of the element types that StableHLO supports and XLA does not."""


def _check_types(module: ir.Module, path: str | None) -> None:
    """Check that XLA supports the element types of all results.

    Raises:
        ModuleFileError: XLA does not support an element type.
    """
    is_other = cache(is_of_other_elements)
    refused = operations_where(
        module, lambda operation: any(is_other(result.type) for result in operation.results)
    )
    if refused:
        (found, *_) = (result.type for result in refused[0].results if is_other(result.type))
        position = _position(refused[0])
        place = recorded_at(refused[0].location).rstrip(",") if position[0] is None else ""
        rule = (
            f"{refused[0].name}{place}: XLA does not support the element type "
            f"{ir.RankedTensorType(found).element_type}, got {found}"
        )
        raise file_error(
            path, rule, "save the program with another element type, such as f8E5M2", position
        )


def _cycle(called: Mapping[str, Iterable[str]]) -> list[str]:
    """Return a call cycle, from a function to itself; empty if there is none.

    XLA's translation to HLO follows calls recursively, and a call cycle would overflow the stack.

    Args:
        called: for each function, the functions that it calls.
    """
    sorter: TopologicalSorter[str] = TopologicalSorter(dict.fromkeys(called, ()))
    for caller, callees in called.items():
        for callee in callees:
            sorter.add(callee, caller)
    try:
        sorter.prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]
        return cycle
    return []


def _position(operation: ir.Operation) -> tuple[int | None, int | None]:
    """Return the line and column of an operation in the parsed text; None for bytecode."""
    match = _IN_TEXT.match(str(operation.location))
    return (None, None) if match is None else (int(match[1]), int(match[2]))


def _read_in_helper(source: str | bytes, path: str | None, problem: TextProblem | None) -> None:
    """Check that a helper process can read the module.

    Args:
        source: text or bytecode.
        path: the path of the file, for messages.
        problem: the risk that `crash_risk` found in the text; None for bytecode.

    Raises:
        ModuleFileError: the helper process can't read the module.
    """
    if not sys.executable:
        return
    task = mlir.try_bytecode if isinstance(source, bytes) else mlir.try_text
    crash_reason = "the bytecode is inconsistent" if problem is None else problem.reason
    data = source if isinstance(source, bytes) else source.encode()
    try:
        in_helper(task, data, crash_reason=crash_reason)
    except HelperError as error:
        if problem is not None and error.reason == crash_reason:
            error.line, error.column = problem.line, problem.column
        raise _refused(path, source, error) from None
