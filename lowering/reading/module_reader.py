"""Reading modules from bytes that may be anything, without dying of them.

MLIR's reader of bytecode trusts its input: a truncated file is refused, but about one in a hundred
files with a single bit changed crashes the process, or keeps it busy for ever. So a module that
this library writes carries a checksum, and one that carries none is read in a helper process
first. That takes a few tenths of a second and is not needed for text, whose parser stands
anything but what `text_limits` looks for.
"""

from __future__ import annotations

import io
import itertools
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from jaxlib.mlir import ir

from lowering.errors import ModuleFileError
from lowering.jaxlib_api import artifacts, hlo_conversion, mlir, versions
from lowering.jaxlib_api.mlir import BYTECODE_MAGIC, UnreadableModuleError
from lowering.mlir.types import attribute_text
from lowering.reading.bytecode_tables import sections_of, sizes_add_up
from lowering.reading.foreign_formats import other_kind
from lowering.reading.helper_process import HelperError, in_helper
from lowering.reading.operation_names import operation_names, words_before_dots
from lowering.reading.text_limits import Excess, risk, too_much

__all__ = ["CHECKSUM_ATTRIBUTE", "read", "sealed_artifact", "sealed_bytecode"]

CHECKSUM_ATTRIBUTE: Final = "xlabuilder.checksum"
"""The attribute of a portable artifact whose text holds the checksum of the bytes around it."""

_EMPTY_SEAL: Final = b"xlabuilder-crc32-00000000"
_SEAL: Final = re.compile(rb"xlabuilder-crc32-(.{8})", re.DOTALL)
_MARKS: Final = {CHECKSUM_ATTRIBUTE: _EMPTY_SEAL.decode()}

_DIALECTS: Final = frozenset({"builtin", "func", "stablehlo", "chlo", "mhlo", "sdy"})
_QUANTIZED: Final = re.compile(r"!\"quant\"<\"([^\"]*)\">|!quant\.(\w+<[^>]*>)")
_OPERATION: Final = re.compile(r"\b(?:stablehlo|func)\.\w+")
_UNKNOWN: Final = r"custom op '[^']*' is unknown|unregistered dialect|Dialect .* not found"


def sealed_bytecode(module: ir.Module) -> list[bytes]:
    """MLIR bytecode of a module, with a checksum of itself inside, in pieces.

    Large constants are a piece each, and are there once. The checksum stands behind the name of
    the program that wrote the file, where every reader skips it: an attribute would have to be
    put on a copy of the module, which takes as long as writing it.
    """
    pieces = _together(mlir.bytecode_pieces(module))
    sections = sections_of(lambda at, size: _part(pieces, at, size), sum(map(len, pieces)))
    head, separator, rest = pieces[0].partition(b"\0")
    if not separator or sections is None or any(one.is_aligned for one in sections):
        # What is aligned (the resources of other programs' modules) can't be moved: it goes
        # without, and is read with more care.
        return pieces
    sealed = [b"%s %s\0" % (head, _EMPTY_SEAL), rest, *pieces[1:]]
    if sum(len(_SEAL.findall(piece)) for piece in sealed) != 1 or _seal_on_a_seam(sealed):
        # The module's own data look like a seal. The empty one stays, so that they aren't taken for
        # the only one, and it is read with more care.
        return sealed
    checksum = 0
    for piece in sealed:
        checksum = zlib.crc32(piece, checksum)
    sealed[0] = b"%s xlabuilder-crc32-%08x\0" % (head, checksum)
    return sealed


def _part(pieces: Sequence[bytes], at: int, size: int) -> bytes:
    """So many bytes of the pieces, from a place on."""
    found = b""
    for piece in pieces:
        if at < len(piece):
            found += piece[at : at + size - len(found)]
            if len(found) == size:
                break
        at = max(at - len(piece), 0)
    return found


def sealed_artifact(module: ir.Module, version: str, prepare: Callable[[ir.Module], None]) -> bytes:
    """The portable artifact of a module for a StableHLO version, with a checksum of itself inside.

    `prepare` changes the copy of the module that is written; see `artifacts.serialize_artifact`.

    Raises:
        ValueError: the module can't be said in that version.
    """
    # A BytesIO that alone refers to the bytes takes them as its buffer, to be written in place.
    buffer = io.BytesIO(artifacts.serialize_artifact(module, version, _MARKS, prepare))
    with buffer.getbuffer() as view:
        found = _only_seal(view)
        if found is not None:
            view[slice(*found)] = b"xlabuilder-crc32-%08x" % zlib.crc32(view)
    if found is None:  # as above
        return artifacts.serialize_artifact(module, version, {}, prepare)
    return buffer.getvalue()


_LARGE_PIECE: Final = 1 << 16


def _together(pieces: Sequence[bytes]) -> list[bytes]:
    """The same pieces, small ones next to each other made into one."""
    result: list[bytes] = []
    small: list[bytes] = []
    for piece in pieces:
        if len(piece) < _LARGE_PIECE:
            small.append(piece)
            continue
        if small:
            result.append(b"".join(small))
            small.clear()
        result.append(piece)
    if small:
        result.append(b"".join(small))
    return result


def _seal_on_a_seam(pieces: Sequence[bytes]) -> bool:
    """Whether two pieces make a seal where they meet."""
    width = len(_EMPTY_SEAL) - 1  # too short for one on either side
    return any(
        _SEAL.search(left[-width:] + right[:width]) for left, right in itertools.pairwise(pieces)
    )


def _only_seal(data: bytes | memoryview) -> tuple[int, int] | None:
    """Where the one seal in `data` starts and ends; None where there is none, or several."""
    found = [m.span() for m in itertools.islice(_SEAL.finditer(data), 2)]
    return found[0] if len(found) == 1 else None


def _seal_holds(data: bytes) -> bool | None:
    """Whether the checksum in `data` is right; None where there is none."""
    found = _only_seal(data)
    if found is None:
        return None
    if data.find(b"\0") < found[0] and CHECKSUM_ATTRIBUTE.encode() not in data:
        return None  # neither with the writer's name nor in our attribute, but data
    start, end = found
    view = memoryview(data)  # whose parts are no copies
    checksum = zlib.crc32(view[end:], zlib.crc32(_EMPTY_SEAL, zlib.crc32(view[:start])))
    return data[end - 8 : end] == b"%08x" % checksum


def display_name(path: str | None) -> str:
    """What a module out of this file, or out of memory, is called in messages, on one line."""
    if path is None:
        return "the module"
    return path if path.isprintable() else repr(path)


def read(data: bytes, path: str | None = None) -> ir.Module:
    """The module in these bytes: MLIR text, MLIR bytecode or a portable artifact; verified.

    The module has a context of its own.

    Args:
        data: content of a file.
        path: where it is from, for messages.

    Raises:
        ModuleFileError: the bytes are no StableHLO module.
    """
    name = display_name(path)
    if not data.strip():
        raise ModuleFileError(f"{name}: is empty\nfix: save the module again", path=path)
    source = data if data.startswith(BYTECODE_MAGIC) else _text(data, name, path)
    if isinstance(source, bytes):
        if not _is_whole(source):
            raise _not_adding_up(source, name, path)
        holds = _seal_holds(source)
        if holds is False:
            raise ModuleFileError(
                f"{name}: is damaged, its checksum is not that of its content\n"
                f"fix: copy or save the module again; if another program rewrote it on purpose, "
                f"have it drop the attribute {CHECKSUM_ATTRIBUTE} of the module",
                path=path,
            )
        if holds is None and not sizes_add_up(source):
            raise _not_adding_up(source, name, path)
        if holds is None:
            _read_in_helper(source, name, path, None)
    else:
        odd = risk(source)
        if odd is not None:
            _read_in_helper(source, name, path, odd)
    module = _read_here(source, name, path)
    if CHECKSUM_ATTRIBUTE in module.operation.attributes:
        del module.operation.attributes[CHECKSUM_ATTRIBUTE]
    if not _is_harmless(source, module.context):
        _check_operations(module, name, path)
    return module


def _read_here(source: str | bytes, name: str, path: str | None) -> ir.Module:
    """The module in text or bytecode that this process can be trusted with."""
    try:
        # Of text MLIR loads what it names; of bytecode not the dialects of attributes.
        context = mlir.new_context(loads_all=isinstance(source, bytes))
        return mlir.read_module(context, source)
    except UnreadableModuleError as error:
        raise _refused(
            name, path, source, error.reason, error.line, error.column, error.detail
        ) from None


def _not_adding_up(data: bytes, name: str, path: str | None) -> ModuleFileError:
    return ModuleFileError(
        f"{name}: is truncated or damaged: its {len(data)} bytes of bytecode do not add up\n"
        f"fix: copy or save the module again",
        path=path,
    )


def _is_whole(data: bytes) -> bool:
    """Whether the sections that bytecode is made of fill it exactly.

    MLIR would find this out as well; but truncated files are the commonest of all damaged ones,
    and this spares them the helper process.
    """
    return not truncated_bytecode(lambda at, size: data[at : at + size], len(data))


def truncated_bytecode(part: Callable[[int, int], bytes], length: int) -> bool:
    """Whether sections are missing, or don't fill the file; see `sections_of`."""
    sections = sections_of(part, length)
    # Strings, dialects, attributes and types, their offsets, operations: no module lacks these.
    return sections is None or not {one.kind for one in sections} >= {0, 1, 2, 3, 4}


_KINDS: Final = "StableHLO text, MLIR bytecode or a portable artifact"


def no_text(data: bytes, name: str, path: str | None, reason: str) -> ModuleFileError:
    """The error of a file that is no text, nor anything else that can be read."""
    kind = other_kind(data)
    seems, fix = ("", None) if kind is None else (f"; it seems to be {kind[0]}", kind[1])
    fix = fix or "give a file that StablehloModule.save wrote, or StableHLO of another program"
    return ModuleFileError(f"{name}: is not {_KINDS}: {reason}{seems}\nfix: {fix}", path=path)


def text_of(data: bytes, name: str, path: str | None) -> str:
    """`data` as text.

    Raises:
        ModuleFileError: it is none.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        at = error.start
        raise no_text(data, name, path, f"byte {at} (0x{data[at]:02x}) is no text") from None
    if "\0" in text:
        raise no_text(data, name, path, f"byte {data.index(0)} is zero")
    return text


def _text(data: bytes, name: str, path: str | None) -> str:
    """`data` as text that MLIR's parser can be given."""
    if BYTECODE_MAGIC.startswith(data):
        raise ModuleFileError(
            f"{name}: is truncated, only {len(data)} bytes of bytecode are there\n"
            f"fix: copy or save the module again",
            path=path,
        )
    text = text_of(data, name, path)
    if text.lstrip().startswith("HloModule"):
        raise ModuleFileError(
            f"{name}: is HLO text, not StableHLO\nfix: lowering.from_hlo reads it",
            path=path,
        )
    if hlo_conversion.is_hlo_proto(data):
        raise no_text(data, name, path, "its control characters are no text")
    excess = too_much(text)
    if excess is not None:
        raise ModuleFileError(
            f"{name}: line {excess.line}, column {excess.column}: {excess.reason}\n"
            f"fix: {excess.fix}",
            path=path,
            line=excess.line,
            column=excess.column,
        )
    return text


def _refused(
    name: str,
    path: str | None,
    source: str | bytes,
    reason: str,
    line: int | None,
    column: int | None,
    detail: str,
) -> ModuleFileError:
    """What to say when MLIR refuses a module for `reason`."""
    # What follows is advice about MLIR's own tools.
    reason = reason.partition(". If this is intended")[0][:300]
    if isinstance(source, str):
        place = "" if line is None else f"line {line}, column {column}: "
        message = f"{name}: {place}not StableHLO: {reason}"
        quantized = _QUANTIZED.search(detail)
        if quantized is not None:
            # What it is of stands before it, maybe some lines above.
            *above, last = source.split("\n")[:line][-10:]
            operations = _OPERATION.findall("\n".join([*above, last[:column]]))
            what = f"{operations[-1]}: " if operations else ""
            message = (
                f"{name}: {place}{what}quantized types are not read, XLA has none: "
                f"{quantized[1] or quantized[2]}\n"
                f"fix: save the program with dequantized values, or in integers"
            )
        elif re.search(_UNKNOWN, detail):
            message += f"\nfix: use operations of these dialects: {', '.join(sorted(_DIALECTS))}"
    else:
        # A place in bytecode is no line of anything that the user has seen.
        line = column = None
        message = f"{name}: is not readable StableHLO: {reason}"
        written = re.match(rb"ML\xefR.StableHLO_v(\d+)\.(\d+)\.(\d+)\0", source, re.DOTALL)
        newest = versions.current_version()
        if written is not None and [int(n) for n in written.groups()] > [
            int(n) for n in newest.split(".")
        ]:
            version = ".".join(n.decode() for n in written.groups())
            message = (
                f"{name}: is written for StableHLO {version}, the jaxlib installed reads up to "
                f"{newest}\nfix: install a newer jaxlib, or save it with version={newest!r}"
            )
        else:
            message += "\nfix: it is truncated, damaged or of another program; save it again"
    return ModuleFileError(message, path=path, line=line, column=column, detail=detail)


_CALLING: Final = {
    "func.call": "callee",
    "stablehlo.composite": "decomposition",
    "stablehlo.custom_call": "called_computations",
}
"""Operations that name functions, and the attribute in which they do."""

_IN_CALLING: Final = ("call", "composite")
"""Words of which one is in each of these operations."""


def _is_harmless(source: str | bytes, context: ir.Context) -> bool:
    """Whether the names in bytecode or text show that `_check_operations` will find nothing.

    It saves asking MLIR for each operation, which takes 1 us. In text it takes 0.4 us to look for
    the words that calls are written with, and for those before dots: dialects that aren't ours.
    """
    if isinstance(source, bytes):
        names = operation_names(source)
        return names is not None and all(map(_is_plain, names))
    if any(word in source for word in _IN_CALLING):
        return False
    words = words_before_dots(source)
    return words is not None and not any(
        word not in _DIALECTS and _is_dialect(word, context) for word in words
    )


def _is_dialect(name: str, context: ir.Context) -> bool:
    """Whether MLIR knows a dialect of this name. Operations of others it refuses."""
    try:
        context.get_dialect_descriptor(name)
    except ValueError:
        return False
    return True


def _is_plain(operation: str) -> bool:
    """Whether an operation is of our dialects and names no functions."""
    return operation.partition(".")[0] in _DIALECTS and operation not in _CALLING


def _check_operations(module: ir.Module, name: str, path: str | None) -> None:
    """Refuses operations of other dialects, and functions that call themselves."""
    wrong: list[tuple[str, str]] = []
    calls: list[ir.Operation] = []
    plain: set[str] = set()
    on = ir.WalkResult.ADVANCE

    def look(operation: ir.Operation) -> ir.WalkResult:
        kind = operation.name
        if kind in plain:
            return on
        if _is_plain(kind):
            plain.add(kind)
        elif kind in _CALLING:
            calls.append(operation)
        else:
            wrong.append((kind, str(operation.location)))
            return ir.WalkResult.INTERRUPT
        return on

    module.operation.walk(look)
    if wrong:
        operation, location = wrong[0]
        line, column, where = _place(location)
        raise ModuleFileError(
            f"{name}: {where}{operation} is no operation of StableHLO\n"
            f"fix: use operations of these dialects: {', '.join(sorted(_DIALECTS))}",
            path=path,
            line=line,
            column=column,
        )
    called: dict[str, dict[str, str]] = {}
    for call in calls:
        caller: ir.Operation | None = call.parent
        while caller is not None and caller.name != "func.func":
            caller = caller.parent
        if caller is not None:
            inside = called.setdefault(attribute_text(caller.attributes["sym_name"]) or "", {})
            for callee in _callees(call):
                inside.setdefault(callee, str(call.location))
    cycle = _cycle(called)
    if cycle:
        line, column, where = _place(called[cycle[-1]][cycle[0]])
        chain = " -> ".join(f"@{n}" for n in [*cycle, cycle[0]])
        raise ModuleFileError(
            f"{name}: {where}functions call themselves, and XLA has no recursion: {chain}\n"
            f"fix: say the repetition with stablehlo.while",
            path=path,
            line=line,
            column=column,
        )


def _callees(call: ir.Operation) -> list[str]:
    """The functions that an operation names."""
    attribute = _CALLING[call.name]
    if attribute not in call.attributes:
        return []
    display_name = call.attributes[attribute]
    symbols = (
        list(ir.ArrayAttr(display_name))
        if isinstance(display_name, ir.ArrayAttr)
        else [display_name]
    )
    return [s.value for s in symbols if isinstance(s, ir.FlatSymbolRefAttr)]


def _cycle(called: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Functions of which each calls the next, and the last the first; none if there are no such.

    XLA's translation follows calls as it meets them, and a cycle until the stack is full.
    """
    done: set[str] = set()
    for start in called:
        path: list[str] = []
        on_path: set[str] = set()
        stack: list[Iterator[str]] = [iter((start,))]
        while stack:
            for function in stack[-1]:
                if function in on_path:
                    return path[path.index(function) :]
                if function not in done:
                    path.append(function)
                    on_path.add(function)
                    stack.append(iter(called.get(function, ())))
                    break
            else:
                stack.pop()
                if path:
                    done.add(path[-1])
                    on_path.discard(path.pop())
    return []


def _place(location: str) -> tuple[int | None, int | None, str]:
    """Line and column of an MLIR location in the text that was read, and the two in words."""
    place = re.match(r'^loc\("-":(\d+):(\d+)\)$', location)
    if place is None:
        return None, None, ""
    line, column = int(place[1]), int(place[2])
    return line, column, f"line {line}, column {column}: "


def _read_in_helper(source: str | bytes, name: str, path: str | None, odd: Excess | None) -> None:
    """Raises ModuleFileError unless another process can read the bytecode, or the text.

    Of a text, `odd` is what it is tried for.
    """
    if not sys.executable:
        return
    task = mlir.tried_bytecode if isinstance(source, bytes) else mlir.tried_text
    died = "the bytecode contradicts itself" if odd is None else odd.reason
    data = source if isinstance(source, bytes) else source.encode()
    try:
        in_helper(task, data, died=died)
    except HelperError as error:
        line, column = error.line, error.column
        if odd is not None and error.reason == died:
            line, column = odd.line, odd.column
        raise _refused(name, path, source, error.reason, line, column, error.detail) from None
